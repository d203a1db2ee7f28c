"""Every figure, table and claim of the paper, computed again and compared with the numbers it prints."""

from sightline._names import lazy

__getattr__, __dir__ = lazy(__name__)
