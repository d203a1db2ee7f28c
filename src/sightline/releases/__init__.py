"""What is published: members × feature × readout, with values, Jacobians and sensitivities."""

from sightline._names import lazy

__getattr__, __dir__ = lazy(__name__)
