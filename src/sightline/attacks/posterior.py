r"""The posterior mean: the attack with the least mean squared error under a stated prior."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from statistics import NormalDist
from typing import Any

import numpy as np

from sightline.arrays import FloatArray
from sightline.attacks.estimates import AttackStatus, Estimates, checked_confidence, host_answers
from sightline.attacks.group import exact_answers, one_group, touched
from sightline.attacks.prior import PriorDensity
from sightline.errors import InvalidNoise, require
from sightline.geometry.transcript import Transcript
from sightline.noise.laws import Noise
from sightline.privacy.accountant import NoiseLaw

_FEW = 12.0  # fewer effective points cannot represent a posterior
_NODES = 12  # with fewer nodes per coordinate, random points are more accurate
_CELLS = 2_000_000  # entries of the likelihood table that are processed together


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
    >>> from sightline.labeled.bounds.uniform import UniformPrior
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
        checked = host_answers(transcript, answers)
        targets, unlabeled = touched(transcript), one_group(transcript)
        points, masses = self.support(len(targets), unlabeled=unlabeled)
        records = np.full((len(points), max(targets) + 1), self.prior.mean)
        records[:, list(targets)] = points
        expected = exact_answers(transcript, records)
        means, seconds, effective = [], [], []
        size = max(1, _CELLS // len(points))
        for i in range(0, len(checked), size):
            posterior = _posterior(transcript.law, checked[i : i + size], expected, masses)
            mean = posterior @ points
            means.append(mean)
            seconds.append(posterior @ points**2 - mean**2)
            effective.append(1 / np.sum(posterior**2, axis=1))
        values = np.concatenate(means)
        errors = np.sqrt(np.maximum(np.concatenate(seconds), 0.0))
        reach = NormalDist().inv_cdf(0.5 + self.confidence / 2) * errors
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
