"""What a transcript exposes: the profiled Fisher geometry of its whitened rows. It never uses epsilon."""

from sightline._names import lazy

__getattr__, __dir__ = lazy(__name__)
