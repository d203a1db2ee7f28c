"""A named record: what membership designs of any size expose of each record, and the IN/OUT closed forms."""

from sightline._names import lazy

__getattr__, __dir__ = lazy(__name__)
