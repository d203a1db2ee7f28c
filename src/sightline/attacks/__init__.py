"""Attacks: estimators that run on noisy answers, and their Monte-Carlo risk."""

from sightline._names import lazy

__getattr__, __dir__ = lazy(__name__)
