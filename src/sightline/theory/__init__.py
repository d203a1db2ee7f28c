"""The paper: its quantities as functions, its attacks, figures and claims. The audit imports none of it."""

from sightline._names import lazy

__getattr__, __dir__ = lazy(__name__)
