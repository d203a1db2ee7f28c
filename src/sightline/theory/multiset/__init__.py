"""Unnamed values: what repeated statistics of one fixed group reveal about its sorted values."""

from sightline._names import lazy

__getattr__, __dir__ = lazy(__name__)
