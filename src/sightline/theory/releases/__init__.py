"""Releases: members × feature × readout, with their values, Jacobians and sensitivities."""

from sightline._names import lazy

__getattr__, __dir__ = lazy(__name__)
