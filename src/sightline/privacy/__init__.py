"""Budgets and accountants: how sharply a budget lets anything be seen. No records in this room."""

from sightline._names import lazy

__getattr__, __dir__ = lazy(__name__)
