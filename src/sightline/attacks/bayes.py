r"""Attacks under a prior: the best linear one with the Bayes bracket, the posterior mean, the trivial guess.

A prior is a density of one record's value that can be sampled, such as ``sl.labeled.UniformPrior`` and
``sl.labeled.CosineSquaredPrior``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from typing import Any, Protocol, runtime_checkable

import numpy as np

from sightline.arrays import FloatArray, coordinates, frozen_index, parts
from sightline.attacks.blue import Target, linear_geometry
from sightline.attacks.estimates import (
    AttackStatus,
    Estimates,
    checked_answers,
    checked_confidence,
    gaussian_factor,
)
from sightline.attacks.model import exact_answers, one_group, touched
from sightline.errors import InvalidNoise, require
from sightline.geometry.fisher import Geometry
from sightline.geometry.frame import dense
from sightline.geometry.transcript import Transcript
from sightline.noise.laws import Noise
from sightline.privacy.accountant import NoiseLaw


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

    >>> from sightline.labeled.bounds.priors import UniformPrior
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
    >>> from sightline.labeled.bounds.priors import UniformPrior
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
        targets = touched(transcript) if self.target is None else _coordinates(transcript, self.target)
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
    >>> from sightline.labeled.bounds.priors import CosineSquaredPrior
    >>> transcript = Transcript([SubsetSum(members=[0], radius=1.0)], noise=[0.5])
    >>> bracket = bayes_bracket(transcript, prior=CosineSquaredPrior(-1.0, 1.0))
    >>> bracket.lower.round(4).tolist(), bracket.upper.round(4).tolist()
    ([0.0721], [0.0858])
    """
    geometry = linear_geometry(transcript)
    targets = touched(transcript) if target is None else _coordinates(transcript, target)
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
    chosen = frozen_index([target] if isinstance(target, int | np.integer) else list(target or ()))
    known = 1 + max(int(query.members[-1]) for query in transcript.queries)
    require(int(chosen[-1]) < known, f"targets among records 0 to {known - 1}", got=int(chosen[-1]))
    return tuple(coordinates(chosen, transcript.dimension).tolist())


_FEW = 12.0  # fewer effective points cannot represent a posterior
_NODES = 12  # with fewer nodes per coordinate, random points are more accurate


@dataclass(frozen=True, slots=True, kw_only=True)
class PosteriorMean:
    r"""The posterior mean :math:`\mathbb E[x \mid y]`, of the sorted values for an unlabelled group.

    .. math:: \hat x = \frac{\sum_i w_i\,p(y \mid x_i)\,x_i}{\sum_i w_i\,p(y \mid x_i)}

    over at most ``points`` points: Gauss–Legendre nodes weighted by the prior if there are enough of them for
    each unknown, else ``points`` draws from the prior (importance sampling, the same draws for every
    trial). No attack has a smaller mean risk under the prior. The standard error is the standard deviation of
    the posterior. If fewer than a dozen points have most of the posterior mass, the status says so: the noise
    is then so small that the prior hardly matters, and the constrained MLE is the better attack.

    >>> from sightline import SubsetSum, Transcript
    >>> from sightline.labeled.bounds.priors import UniformPrior
    >>> transcript = Transcript([SubsetSum(members=[0], radius=1.0)], noise=[100.0])
    >>> PosteriorMean(prior=UniformPrior(0.0, 1.0)).estimate(transcript, [7.0]).values.round(4).tolist()
    [[0.5001]]
    """

    prior: PriorDensity
    points: int = 6000
    seed: int = 0
    confidence: float = 0.95

    def __post_init__(self) -> None:
        require(self.points >= 100, "points >= 100", got=self.points)
        checked_confidence(self.confidence)

    def estimate(self, transcript: Transcript, answers: Any) -> Estimates:
        """Posterior mean and standard deviation for every trial."""
        checked = checked_answers(transcript, answers)
        targets, unlabeled = touched(transcript), one_group(transcript)
        points, masses = self.support(len(targets), unlabeled=unlabeled)
        records = np.full((len(points), max(targets) + 1), self.prior.mean)
        records[:, list(targets)] = points
        expected = exact_answers(transcript, records)
        means, seconds, effective = [], [], []
        for own in parts(len(checked), each=len(points)):
            posterior = _posterior(transcript.law, checked[own], expected, masses)
            mean = posterior @ points
            means.append(mean)
            seconds.append(posterior @ points**2 - mean**2)
            effective.append(1 / np.sum(posterior**2, axis=1))
        values = np.concatenate(means)
        errors = np.sqrt(np.maximum(np.concatenate(seconds), 0.0))
        reach = gaussian_factor(self.confidence) * errors
        box = self.prior.low, self.prior.high
        return Estimates(
            values=values,
            targets=targets,
            unlabeled=unlabeled,
            standard_errors=errors,
            lower=np.clip(values - reach, *box),
            upper=np.clip(values + reach, *box),
            status=np.where(np.concatenate(effective) < _FEW, AttackStatus.FEW_POINTS, AttackStatus.SOLVED),
        )

    def support(self, unknowns: int, *, unlabeled: bool) -> tuple[FloatArray, FloatArray]:
        """Points of the domain and their prior masses, which add up to one."""
        nodes = 1
        while _count(nodes + 1, unknowns, unlabeled) <= self.points and nodes < 2000:
            nodes += 1
        if nodes < _NODES:
            generator = np.random.default_rng(self.seed)
            drawn = self.prior.sample((self.points, unknowns), generator=generator)
            points = np.sort(drawn, axis=1) if unlabeled else drawn
            return points, np.full(self.points, 1 / self.points)
        x, weights = np.polynomial.legendre.leggauss(nodes)
        x = self.prior.mean + 0.5 * (self.prior.high - self.prior.low) * x
        weights = weights * self.prior.density(x)
        weights = weights / weights.sum()
        if not unlabeled:
            places = np.array(list(product(range(nodes), repeat=unknowns)))
            return x[places], np.prod(weights[places], axis=1)
        choices = list(combinations_with_replacement(range(nodes), unknowns))
        places = np.array(choices)
        repeats = np.array(
            [
                math.factorial(unknowns) / math.prod(math.factorial(n) for n in Counter(choice).values())
                for choice in choices
            ]
        )
        return x[places], repeats * np.prod(weights[places], axis=1)


def _count(nodes: int, unknowns: int, unlabeled: bool) -> int:
    return math.comb(nodes + unknowns - 1, unknowns) if unlabeled else nodes**unknowns


def _posterior(noise: Noise, answers: FloatArray, expected: FloatArray, masses: FloatArray) -> FloatArray:
    """Posterior masses (trials × points), each row adding up to one."""
    loss = np.zeros((len(answers), len(expected)))  # minus the log-likelihood, up to a constant per trial
    match noise.law:
        case NoiseLaw.LAPLACE:
            for i, scale in enumerate(noise.scales):
                loss += np.abs(answers[:, i : i + 1] - expected[:, i]) / scale
        case NoiseLaw.GAUSSIAN:
            z = np.asarray(noise.whiten(answers.T)).T
            c = np.asarray(noise.whiten(expected.T)).T
            middle = c.mean(axis=0)  # squares of smaller numbers cancel less
            z, c = z - middle, c - middle
            loss = 0.5 * np.sum(c**2, axis=1) - z @ c.T
        case other:
            raise InvalidNoise(f"expected Gaussian or Laplace noise, got {other}")
    loss -= loss.min(axis=1, keepdims=True)
    posterior = masses * np.exp(-loss)
    posterior /= posterior.sum(axis=1, keepdims=True)
    return posterior


@dataclass(frozen=True, slots=True, kw_only=True)
class Trivial:
    """Guess the prior mean of every record, or the expected order statistics of an unlabelled group.

    An attack without a smaller risk has learned nothing. Every simulation also reports this risk.

    >>> from sightline import Moment, Transcript
    >>> from sightline.labeled.bounds.priors import UniformPrior
    >>> transcript = Transcript([Moment(order=2, members=range(2), bound=1.0)], noise=[1.0])
    >>> Trivial(prior=UniformPrior(-1.0, 1.0)).estimate(transcript, [0.3]).values.round(6).tolist()
    [[-0.333333, 0.333333]]
    """

    prior: PriorDensity

    def estimate(self, transcript: Transcript, answers: Any) -> Estimates:
        """The same guess for every trial."""
        trials = len(checked_answers(transcript, answers))
        targets = touched(transcript)
        unlabeled = one_group(transcript)
        guess = trivial_guess(self.prior, targets, unlabeled=unlabeled)
        return Estimates(
            values=np.tile(guess, (trials, 1)),
            targets=targets,
            unlabeled=unlabeled,
            status=np.full(trials, AttackStatus.SOLVED),
        )


def trivial_guess(prior: PriorDensity, targets: Sequence[int], *, unlabeled: bool) -> FloatArray:
    """The best guess without answers, by squared loss."""
    return order_means(prior, len(targets)) if unlabeled else np.full(len(targets), prior.mean)
