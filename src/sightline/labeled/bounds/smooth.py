r"""Targets that are spread over their domain with a density: uniform, or as cos².

The lower end is the best of three bounds, each over :math:`v`. With :math:`n` records alike, the scalar risk
:math:`f`, the van Trees bound :math:`w`, and :math:`D(Q) = 1/w(Q) - Q`:

.. math:: f(G_{jj}), \qquad
    v\Bigl(1 - \frac1n\Bigr) + \frac1n f(n G_{jj}), \qquad
    v\Bigl(1 - \frac1n\Bigr) + \frac{1}{n\,(nQ + D(Q))} .

The first holds whatever the others' values are. The second needs a group of independent records with the
target's own prior. The third needs that of every unknown record, or another prior whose precisions the engine
used. The first two need Gaussian noise; where there is Laplace noise :math:`w` stands in for :math:`f` in the
first, and the risk of one Laplace answer where there is only one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sightline.arrays import FloatArray
from sightline.errors import require
from sightline.labeled.bounds.laplace import FallingTable, cosine_laplace_table, uniform_laplace_table
from sightline.labeled.bounds.scalar_risk import RiskTable, cosine_table, uniform_table
from sightline.labeled.bounds.target import Seen, linear_upper
from sightline.labeled.bounds.van_trees import (
    COSINE_VARIANCE,
    UNIFORM_VARIANCE,
    cosine_bound,
    uniform_bound,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformTarget:
    """Every value of the domain is as likely: what "knows only the bounds" means.

    >>> noise = 0.35
    >>> seen = Seen(information=np.array([noise**-2]), linear_information=np.array([noise**-2]))
    >>> prior = UniformTarget(width=1.0)
    >>> prior.lower(seen).round(3).tolist(), prior.upper(seen).round(3).tolist()
    ([0.587], [0.595])
    """

    width: float

    def __post_init__(self) -> None:
        require_width(self.width)

    @property
    def name(self) -> str:
        return "uniform"

    @property
    def variance(self) -> float:
        return UNIFORM_VARIANCE * self.width**2

    def precision(self, information: FloatArray) -> FloatArray:
        return _precision(uniform_bound, information * self.width**2) / self.width**2

    def lower(self, seen: Seen) -> FloatArray:
        bounds = _Bounds(
            scalar=uniform_table, laplace=uniform_laplace_table, van_trees=uniform_bound, v=UNIFORM_VARIANCE
        )
        return np.minimum(_lower(bounds, seen, self.width), self.upper(seen))

    def upper(self, seen: Seen) -> FloatArray:
        return linear_upper(seen, self.variance)


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineTarget:
    """The density of least Fisher information on the domain: values near its middle are likelier."""

    width: float

    def __post_init__(self) -> None:
        require_width(self.width)

    @property
    def name(self) -> str:
        return "cos2"

    @property
    def variance(self) -> float:
        return COSINE_VARIANCE * self.width**2

    def precision(self, information: FloatArray) -> FloatArray:
        return _precision(cosine_bound, information * self.width**2) / self.width**2

    def lower(self, seen: Seen) -> FloatArray:
        bounds = _Bounds(
            scalar=cosine_table, laplace=cosine_laplace_table, van_trees=cosine_bound, v=COSINE_VARIANCE
        )
        return np.minimum(_lower(bounds, seen, self.width), self.upper(seen))

    def upper(self, seen: Seen) -> FloatArray:
        return linear_upper(seen, self.variance)


class _Table(Protocol):
    def __call__(self) -> RiskTable | FallingTable: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounds:
    """The scalar bounds of one density on a domain of width 1, and its variance."""

    scalar: _Table
    laplace: _Table
    van_trees: Callable[[FloatArray], FloatArray]
    v: float


def _lower(bounds: _Bounds, seen: Seen, width: float) -> FloatArray:
    G, n, v = seen.information * width**2, np.asarray(seen.alike, dtype=np.float64), bounds.v
    gaussian = seen.gaussian
    alone = bounds.van_trees(G)
    if gaussian.any():
        scalar = bounds.scalar()
        group = v * (1 - 1 / n) + np.maximum(scalar.lower(n * G), bounds.van_trees(n * G)) / n
        alone = np.where(gaussian, np.maximum.reduce([alone, scalar.lower(G), group]), alone)
    if (single := seen.one_laplace).any():
        alone = np.where(single, np.maximum(alone, bounds.laplace().lower(G)), alone)
    Q = seen.group_information() * width**2
    hidden = v * (1 - 1 / n) + 1 / (n * (n * Q + _precision(bounds.van_trees, Q)))
    return np.where(G == 0, 1.0, np.maximum(alone, hidden) / v)


def _precision(van_trees: Callable[[FloatArray], FloatArray], information: FloatArray) -> FloatArray:
    # Of a bound that was lowered for rounding: where the information is so large that this matters, more than
    # needed.
    return 1 / van_trees(information) - information


def require_width(width: float) -> None:
    """A domain's width, such that its square fits a double."""
    require(
        1e-130 <= width <= 1e130,
        "a domain (low, high) of finite width > 0",
        got=f"width {width}",
        fix="give the smallest and the largest value a record can have",
    )
