r"""The bounds of a target that is spread over its domain with a density.

The lower end is the best of three bounds, each over :math:`v`. With :math:`n` records alike, the scalar risk
:math:`f`, the van Trees bound :math:`w`, and :math:`D(Q) = 1/w(Q) - Q`:

.. math:: f(G_{jj}), \qquad
    v\Bigl(1 - \frac1n\Bigr) + \frac1n f(n G_{jj}), \qquad
    v\Bigl(1 - \frac1n\Bigr) + \frac{1}{n\,(nQ + D(Q))} .

The first holds whatever the others' values are. The second needs a group of independent records with the
target's own prior. The third needs that of every unknown record, or another prior whose precisions the engine
used. The first two need Gaussian noise. Where there is Laplace noise, :math:`w` stands in for :math:`f` in
the first, or the Weiss–Weinstein bound if that is larger; the risk of one Laplace answer if there is one.

The Weiss–Weinstein bound on the risk of a guess at one number that is seen in Laplace noise.

For a step h, let :math:`\rho(h)` be the affinity :math:`\int \sqrt{p(y \mid x)\,p(y \mid x + h)}\,dy` of the
answers, :math:`o(h) = \int \sqrt{p(x)\,p(x + h)}\,dx` that of the prior, and :math:`c(h)` the chance that
:math:`x - h` is in the domain. Then every guess has the risk

.. math:: R \ge \frac{h^2\, o(h)^2 \rho(h)^2}{2\,\bigl(c(h) - o(2h)\,\rho(2h)\bigr)} .

n Laplace answers with the information G together have at least the affinity of n equal ones,
:math:`\bigl((1 + t)\,e^{-t}\bigr)^n` with :math:`t = \tfrac h2 \sqrt{G/n}`; Gaussian ones have
:math:`e^{-G h^2/8}`. Domains have width 1. Derivation: the theory page on priors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from sightline.arrays import FloatArray
from sightline.labeled.bounds.scalar_risk import MARGIN, FallingTable, RiskTable
from sightline.labeled.bounds.target import BoundedPrior, Seen, linear_upper

_MANY = 1e-3  # t below which log(1 + t) − t would lose digits
# Steps in units of 1/√G, and the longest one: about the best for a few Laplace answers with little noise.
_STEPS, _LONGEST = (0.4, 0.7, 1.0, 1.3, 1.6, 1.9, 2.3, 2.8), 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorAffinity:
    """o(h) and c(h) of a density on a domain of width 1, for steps h from 0 to 1."""

    affinity: Callable[[FloatArray], FloatArray]
    stays: Callable[[FloatArray], FloatArray]

    def lower(self, information: FloatArray, laplace: FloatArray, answers: FloatArray) -> FloatArray:
        """At most the risk, for so much information, that part of it from so many Laplace answers."""
        count = np.maximum(answers, 1.0)
        found = np.zeros_like(information)
        for step in _STEPS:
            h = np.minimum(step / np.sqrt(np.maximum(information, 1.0)), _LONGEST)
            near = self.affinity(h) * _affinity(h, information, laplace, count)
            far = self.affinity(2 * h) * _affinity(2 * h, information, laplace, count)
            # The difference is at least the prior's own, c(h) − o(2h), and cancels no more than that.
            apart = 2 * (self.stays(h) - far * (1 - MARGIN))
            found = np.maximum(found, np.square(h * near) / apart)
        return found * (1 - 1e2 * MARGIN)


def _affinity(h: FloatArray, information: FloatArray, laplace: FloatArray, count: FloatArray) -> FloatArray:
    """ρ(h), rounded down: very many answers count as Gaussian, since log(1 + t) − t is at least −t²/2."""
    t = h / 2 * np.sqrt(laplace / count)
    many = t < _MANY
    exponent = np.where(many, 1.0, count) * (np.log1p(t) - t)
    exponent = np.where(many, -laplace * np.square(h) / 8, exponent)
    gaussian = np.maximum(information - laplace, 0.0) * np.square(h) / 8
    return np.asarray(np.exp(exponent - gaussian))


UNIFORM_AFFINITY = PriorAffinity(
    affinity=lambda h: np.asarray(np.maximum(1 - h, 0.0)),
    stays=lambda h: np.asarray(1 - h),
)
COSINE_AFFINITY = PriorAffinity(
    affinity=lambda h: np.asarray((1 - h) * np.cos(np.pi * h) + np.sin(np.pi * h) / math.pi),
    stays=lambda h: np.asarray(1 - h + np.sin(2 * np.pi * h) / (2 * math.pi)),
)


class _Table(Protocol):
    def __call__(self) -> RiskTable | FallingTable: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DensityBounds:
    """The scalar bounds of one density on a domain of width 1, and its variance."""

    scalar: _Table
    laplace: _Table
    van_trees: Callable[[FloatArray], FloatArray]
    added_precision: Callable[[FloatArray], FloatArray]  # D
    precision_excess: Callable[[FloatArray], FloatArray]  # how far it is rounded up
    precision_change: Callable[[FloatArray], FloatArray]  # its derivative
    affinity: PriorAffinity
    v: float
    entropy_power: float  # N: the variance of the Gaussian with the density's entropy


@dataclass(frozen=True, slots=True)
class DensityPrior(BoundedPrior):
    """A prior of a number that is spread over its domain with a density."""

    bounds: ClassVar[DensityBounds]

    @property
    def has_density(self) -> bool:
        return True

    @property
    def variance(self) -> float:
        """v: the risk of an attacker who saw nothing."""
        return self.bounds.v * self.width**2

    def precision(self, information: FloatArray) -> FloatArray:
        return self.bounds.added_precision(information * self.width**2) / self.width**2

    def precision_excess(self, information: FloatArray) -> FloatArray:
        return self.bounds.precision_excess(information * self.width**2)

    def precision_slope(self, information: FloatArray) -> FloatArray:
        return self.bounds.precision_change(information * self.width**2)

    def lower(self, seen: Seen) -> FloatArray:
        """The best of the three bounds, over v."""
        return np.minimum(_lower(self.bounds, seen, self.width), self.upper(seen))

    def upper(self, seen: Seen) -> FloatArray:
        return linear_upper(seen, self.variance)

    def lower_of_rows(self, information: FloatArray, *, unsigned: FloatArray) -> FloatArray:
        """By van Trees' inequality, with what a row adds to its information."""
        return np.asarray(1 / (self.variance * (information + self.precision(information))))

    def lower_by_nats(self, nats: FloatArray) -> FloatArray:
        r"""After a mutual information of I nats: the better of :math:`(N/v)\, e^{-2I}` and :math:`1 - 2I`.

        The first is Shannon's bound. The second holds because the variance of the density is also its
        sub-Gaussian constant.
        """
        shannon = self.bounds.entropy_power / self.bounds.v * np.exp(-2 * nats)
        return np.asarray(np.maximum(shannon, 1 - 2 * nats))


def _lower(bounds: DensityBounds, seen: Seen, width: float) -> FloatArray:
    G, n, v = seen.information * width**2, np.asarray(seen.alike, dtype=np.float64), bounds.v
    gaussian = seen.gaussian
    alone = bounds.van_trees(G)
    if gaussian.any():
        scalar = bounds.scalar()
        group = v * (1 - 1 / n) + np.maximum(scalar.lower(n * G), bounds.van_trees(n * G)) / n
        alone = np.where(gaussian, np.maximum.reduce([alone, scalar.lower(G), group]), alone)
    if not gaussian.all():
        laplace = np.minimum(seen.laplace_information * width**2, G)
        stepped = bounds.affinity.lower(G, laplace, np.asarray(seen.laplace_answers))
        alone = np.where(gaussian, alone, np.maximum(alone, stepped))
    if (single := seen.one_laplace).any():
        alone = np.where(single, np.maximum(alone, bounds.laplace().lower(G)), alone)
    Q = seen.group_information() * width**2
    hidden = v * (1 - 1 / n) + 1 / (n * (n * Q + bounds.added_precision(Q)))
    return np.where(G == 0, 1.0, np.maximum(alone, hidden) / v)
