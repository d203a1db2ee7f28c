r"""Under a prior: the best linear attack with the Bayes bracket, and the guess that ignores the answers.

A prior is a density of one record's value that can be sampled, such as ``sl.labeled.UniformPrior`` and
``sl.labeled.CosineSquaredPrior``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from sightline.arrays import FloatArray, coordinates, frozen_index
from sightline.errors import require
from sightline.numerics.intervals import gaussian_factor
from sightline.theory.attacks.blue import Target, linear_geometry
from sightline.theory.attacks.estimates import AttackStatus, Estimates, checked_answers, checked_confidence
from sightline.theory.attacks.model import touched
from sightline.theory.geometry.frame import dense
from sightline.theory.geometry.transcript import Geometry, Transcript


@runtime_checkable
class PriorDensity(Protocol):
    """The density of one record on the domain from ``low`` to ``high``. Records are independent."""

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...

    @property
    def mean(self) -> float: ...

    @property
    def variance(self) -> float:
        """The risk of an attacker before any release."""

    @property
    def fisher_information(self) -> float:
        """J in van Trees' inequality; infinite if the density is not 0 at the bounds."""

    def density(self, values: FloatArray) -> FloatArray:
        """The density at values inside the domain."""

    def cdf(self, values: FloatArray) -> FloatArray:
        """The distribution function at values inside the domain."""

    def sample(self, shape: tuple[int, ...], *, generator: np.random.Generator) -> FloatArray:
        """Independent draws."""


def order_means(prior: PriorDensity, count: int) -> FloatArray:
    r"""Expected order statistics of ``count`` draws: the best guess at a multiset before any release.

    .. math:: \mathbb E[X_{(k)}] = m\tbinom{m-1}{k-1}\int x\,F^{k-1}(1-F)^{m-k} f\,dx

    >>> from sightline.bounds.priors import UniformPrior
    >>> order_means(UniformPrior(-1.0, 1.0), 3).round(9).tolist()
    [-0.5, 0.0, 0.5]
    """
    nodes, weights = np.polynomial.legendre.leggauss(256)
    half = 0.5 * (prior.high - prior.low)
    x = prior.mean + half * nodes
    F, mass = prior.cdf(x), half * weights * prior.density(x)
    means = [
        count * math.comb(count - 1, k) * np.sum(x * F**k * (1 - F) ** (count - 1 - k) * mass)
        for k in range(count)
    ]
    return np.array(means)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearBayes:
    r"""The affine function of the answers with the least mean squared error over prior and noise:

    .. math:: \hat x = \mu + vA^\top (vAA^\top + \Sigma)^{-1}(y - A\mu)

    for independent records of prior mean :math:`\mu` and variance v. It uses only two moments of the prior
    and is defined for every record. For a record that no release depends on, it is the prior mean.

    >>> from sightline import SubsetSum, Transcript
    >>> from sightline.bounds.priors import UniformPrior
    >>> transcript = Transcript([SubsetSum(members=[0, 1], radius=1.0)], noise=[1.0])
    >>> attack = LinearBayes(prior=UniformPrior(-3.0, 3.0))
    >>> attack.estimate(transcript, [3.5]).values.round(6).tolist()  # 3 / (3 + 3 + 1) of the answer
    [[1.5, 1.5]]
    """

    prior: PriorDensity
    target: Target = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        checked_confidence(self.confidence)

    def estimate(self, transcript: Transcript, answers: Any) -> Estimates:
        """Estimates for every trial; standard errors are over prior and noise together."""
        checked = checked_answers(transcript, answers)
        geometry = linear_geometry(transcript)
        targets = _coordinates(transcript, self.target)
        v, mu = self.prior.variance, self.prior.mean
        A = dense(geometry.jacobian)
        U, s, V = _svd(geometry, covariance=True)
        V = V[list(targets)]
        gain = (V * (v * s / (1 + v * s**2))) @ U.T
        residual = np.asarray(_whiten(geometry, (checked - mu * A.sum(axis=1)).T))
        values = mu + (gain @ residual).T
        errors = np.sqrt(ridge_risks(V, s, v))
        reach = gaussian_factor(self.confidence) * errors
        box = self.prior.low, self.prior.high
        return Estimates(
            values=values,
            targets=targets,
            standard_errors=np.broadcast_to(errors, values.shape),
            lower=np.clip(values - reach, *box),
            upper=np.clip(values + reach, *box),
            status=np.full(len(values), AttackStatus.SOLVED),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BayesBracket:
    """Bounds on the least mean squared error of any attack, over prior and noise, for some coordinates.

    No attack, biased or constrained, has a risk below ``lower`` (van Trees); the best linear attack has the
    risk ``upper``.
    """

    lower: FloatArray
    upper: FloatArray


def bayes_bracket(transcript: Transcript, *, prior: PriorDensity, target: Target = None) -> BayesBracket:
    r"""The bracket :math:`[(I + J)^{-1}]_{jj} \le \text{risk} \le [(A^\top\Sigma^{-1}A + v^{-1})^{-1}]_{jj}`.

    I is the Fisher information of linear releases, J that of the prior and v its variance. Under a prior
    without finite J, such as the uniform one, the lower bound is 0.

    >>> from sightline import SubsetSum, Transcript
    >>> from sightline.bounds.priors import CosineSquaredPrior
    >>> transcript = Transcript([SubsetSum(members=[0], radius=1.0)], noise=[0.5])
    >>> bracket = bayes_bracket(transcript, prior=CosineSquaredPrior(-1.0, 1.0))
    >>> bracket.lower.round(4).tolist(), bracket.upper.round(4).tolist()
    ([0.0721], [0.0858])
    """
    geometry = linear_geometry(transcript)
    targets = _coordinates(transcript, target)
    _, s, V = _svd(geometry, covariance=True)
    upper = ridge_risks(V[list(targets)], s, prior.variance)
    if not math.isfinite(prior.fisher_information):
        return BayesBracket(lower=np.zeros(len(targets)), upper=upper)
    _, s, V = _svd(geometry, covariance=False)
    return BayesBracket(lower=ridge_risks(V[list(targets)], s, 1 / prior.fisher_information), upper=upper)


def ridge_risks(V: FloatArray, s: FloatArray, variance: float) -> FloatArray:
    r"""Diagonal of :math:`(W^\top W + v^{-1}I)^{-1}` from rows of V in :math:`W = USV^\top`."""
    outside = 1 - np.sum(V**2, axis=1)  # the share of a coordinate outside the row space
    outside = np.where(outside < 1e-12, 0.0, outside)
    risks: FloatArray = variance * (outside + np.sum(V**2 / (1 + variance * s**2), axis=1))
    return risks


def _svd(geometry: Geometry, *, covariance: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """U, s and V of the rows whitened by their covariance, or by their information."""
    rows = geometry.whitened if not covariance else _whiten(geometry, geometry.jacobian)
    U, s, V = np.linalg.svd(dense(rows), full_matrices=False)
    return U, s, V.T


def _whiten(geometry: Geometry, rows: Any) -> Any:
    # By the covariance: for Laplace noise the variance is twice the inverse of the information.
    return geometry.noise.gaussian.whiten(rows)


def _coordinates(transcript: Transcript, target: Target) -> tuple[int, ...]:
    """Those of the target; of every record in a release if none is named."""
    if target is None:
        return touched(transcript)
    chosen = frozen_index([target] if isinstance(target, int | np.integer) else list(target))
    known = 1 + max(int(query.members[-1]) for query in transcript.queries)
    require(int(chosen[-1]) < known, f"targets among records 0 to {known - 1}", got=int(chosen[-1]))
    return tuple(coordinates(chosen, transcript.dimension).tolist())


def trivial_guess(prior: PriorDensity, targets: Sequence[int], *, unlabeled: bool) -> FloatArray:
    """The best guess without answers, by squared loss."""
    return order_means(prior, len(targets)) if unlabeled else np.full(len(targets), prior.mean)
