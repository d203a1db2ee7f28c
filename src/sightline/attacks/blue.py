"""The best linear unbiased attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline.arrays import FloatArray
from sightline.attacks.estimates import (
    AttackStatus,
    Estimates,
    checked_confidence,
    host_answers,
    width_factor,
)
from sightline.attacks.target import IdentifiableTargets, Target, identifiable_targets, linear_geometry
from sightline.geometry.transcript import Transcript
from sightline.noise.laws import Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Blue:
    r"""Generalised least squares on linear releases (``app:linear_blue_identity``).

    .. math:: \hat\theta = R\,y, \qquad \operatorname{Cov}(\hat\theta) = R\,\Sigma R^\top,

    with the recipe R of the geometry: the weights of least variance among those that cancel every other
    record. For Gaussian noise the variance is the Cramér–Rao bound and the intervals are exact; on repeated
    IN/OUT releases the attack is the difference of block means. ``target`` names records; without it every
    identifiable record is attacked. If a target is not identifiable, the error names a change of the records
    that changes the target and no answer.

    >>> from sightline import SubsetMean, Transcript
    >>> whole = SubsetMean(members=range(4), radius=1.0)
    >>> without = SubsetMean(members=range(1, 4), radius=1.0)
    >>> transcript = Transcript([whole, without], noise=[0.03, 0.04])
    >>> estimates = Blue().estimate(transcript, [0.5, 0.25])
    >>> estimates.targets, estimates.values.round(6).tolist(), estimates.standard_errors.round(6).tolist()
    ((0,), [[1.25]], [[0.169706]])
    >>> try:
    ...     Blue(target=2).estimate(transcript, [0.5, 0.25])
    ... except ValueError as error:
    ...     print(str(error).partition(";")[0])
    expected identifiable targets, got record 2: moving the records along − x1 + x2 changes it and no answer
    """

    target: Target = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        checked_confidence(self.confidence)

    def estimate(self, transcript: Transcript, answers: Any) -> Estimates:
        """Weighted answers for every trial."""
        checked = host_answers(transcript, answers)
        targets = identifiable_targets(linear_geometry(transcript), self.target)
        return apply_recipes(targets, checked, noise=transcript.law, confidence=self.confidence)


def apply_recipes(
    targets: IdentifiableTargets, answers: FloatArray, *, noise: Noise, confidence: float
) -> Estimates:
    """Estimates of the targets: their recipes applied to checked answers."""
    R = targets.recipes
    values = answers @ R.T
    # Σ itself, not the inverse information: for Laplace noise the two differ by a factor of two.
    variances = np.einsum("ij,ij->i", R @ noise.covariance, R)
    errors = np.broadcast_to(np.sqrt(variances), values.shape)
    half = width_factor(noise, confidence) * errors
    return Estimates(
        values=values,
        targets=targets.coordinates,
        standard_errors=errors,
        lower=values - half,
        upper=values + half,
        status=np.full(len(values), AttackStatus.SOLVED),
    )
