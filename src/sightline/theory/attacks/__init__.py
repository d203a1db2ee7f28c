"""Attacks: estimators that use the noisy answers, and their risk by simulation."""

from sightline._names import lazy

__getattr__, __dir__ = lazy(__name__)
