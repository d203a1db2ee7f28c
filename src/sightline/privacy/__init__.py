"""Budgets and accountants: how much noise a budget requires. This package knows no records."""

from sightline._names import lazy

__getattr__, __dir__ = lazy(__name__)
