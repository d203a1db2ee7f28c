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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from sightline.arrays import FloatArray
from sightline.labeled.bounds.laplace import FallingTable
from sightline.labeled.bounds.scalar_risk import RiskTable
from sightline.labeled.bounds.target import BoundedPrior, Seen, linear_upper
from sightline.labeled.bounds.weiss_weinstein import PriorAffinity


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
    if seen.laplace_answers is not None and seen.laplace_information is not None and not gaussian.all():
        laplace = np.minimum(seen.laplace_information * width**2, G)
        stepped = bounds.affinity.lower(G, laplace, seen.laplace_answers)
        alone = np.where(gaussian, alone, np.maximum(alone, stepped))
    if (single := seen.one_laplace).any():
        alone = np.where(single, np.maximum(alone, bounds.laplace().lower(G)), alone)
    Q = seen.group_information() * width**2
    hidden = v * (1 - 1 / n) + 1 / (n * (n * Q + bounds.added_precision(Q)))
    return np.where(G == 0, 1.0, np.maximum(alone, hidden) / v)
