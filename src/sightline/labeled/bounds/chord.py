r"""A lower bound for a uniform value among uniform others: tell the attacker one line through the records.

Let d be a direction with :math:`d_j = 1` and :math:`|d_k| \le 1`. An attacker who is told the line
:math:`x + t d` does at least as well. On that line the records lie on a chord of the cube, evenly; what is
left is one uniform number of width L, seen with the information :math:`g = d^\top G d`. So with the scalar
risk f of a uniform number of width 1,

.. math:: R_j \ge \mathbb E\,[L^2 f(L^2 g)], \qquad
    L \sim \ell A''(\ell)\,d\ell \text{ on } (0, 1), \text{ and } L = 1 \text{ with chance }
    \prod_{k \ne j} (1 - |d_k|), \qquad A(\ell) = \prod_k (1 - \ell |d_k|) .

If d is a change of the records that changes no release, this is :math:`\mathbb E L^2/12`, whatever the noise.
Derivation: the theory page on priors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from sightline.arrays import FloatArray
from sightline.labeled.bounds.scalar_risk import MARGIN, uniform_table
from sightline.labeled.bounds.van_trees import uniform_precision

MOST_MOVED = 60  # other records that a direction moves
_CELLS = 48
_EDGES = np.linspace(0.0, 1.0, _CELLS + 1)
_BLOCK = 1 << 17  # numbers in an array: a megabyte, which stays in the cache of a core
# Rules that are exact for polynomials of degree 2n − 1. The integrands have the degree of B plus 5.
_RULES = {n: np.polynomial.legendre.leggauss(n) for n in (6, 12, 22, 34)}


def chord_bound(moves: FloatArray, counts: FloatArray, information: float, *, gaussian: bool) -> float:
    """One of :func:`chord_bounds`.

    >>> 24 * chord_bound(np.array([1.0]), np.array([1.0]), 0.0, gaussian=True) > 1 - 1e-8
    True
    >>> round(12 * chord_bound(np.array([]), np.array([]), 0.35**-2, gaussian=True), 3)  # all others are told
    0.587
    """
    return float(chord_bounds(moves[None], counts[None], np.array([information]), gaussian=gaussian)[0])


def chord_bounds(
    moves: FloatArray, counts: FloatArray, information: FloatArray, *, gaussian: bool
) -> FloatArray:
    r"""At most :math:`\mathbb E\,[L^2 f(L^2 g)]` on a domain of width 1, for many directions.

    A row of ``moves`` has the :math:`|d_k|` of the others, and the row of ``counts`` how many records move as
    much: 0 for none. In a cell of lengths, :math:`f(\ell^2 g) \ge 1/(\ell^2 g + D)` with the deficit D at the
    cell's end, which is convex in :math:`\ell^2`: by Jensen's inequality its mass and mean of :math:`\ell^2`
    are enough, and these are integrals of polynomials.
    """
    found = np.empty(len(moves))
    rule = np.searchsorted([2 * n - 1 for n in _RULES], counts.sum(axis=1) + 5)
    for place, (n, (points, weights)) in enumerate(_RULES.items()):
        own = np.flatnonzero(rule == place)
        step = max(1, _BLOCK // (_CELLS * n * max(1, moves.shape[1])))
        for start in range(0, own.size, step):
            some = own[start : start + step]
            density = _CellDensity.of(points, weights, moves[some], counts[some])
            found[some] = density.bounds(information[some], gaussian=gaussian)
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _CellDensity:
    """The density of the length L in cells: each cell's mass and its integral of ℓ², for some directions."""

    masses: FloatArray  # directions × cells; the last cell is the length 1
    squares: FloatArray

    @classmethod
    def of(cls, points: FloatArray, weights: FloatArray, moves: FloatArray, counts: FloatArray) -> Self:
        lengths = _EDGES[:-1, None] + (1 + points) / (2 * _CELLS)
        moves, counts = moves[:, None, None, :], counts[:, None, None, :]
        density = weights / (2 * _CELLS) * lengths**3 * _second_derivative(lengths, moves, counts)
        whole = np.prod((1 - moves) ** counts, axis=-1)[:, :, 0]
        return cls(
            masses=np.concatenate([density.sum(axis=-1), whole], axis=1),
            squares=np.concatenate([(density * lengths**2).sum(axis=-1), whole], axis=1),
        )

    def bounds(self, information: FloatArray, *, gaussian: bool) -> FloatArray:
        used = self.masses > 0
        mean = self.squares / np.where(used, self.masses, 1.0) * (1 + MARGIN)
        ends = np.append(_EDGES[1:], 1.0) ** 2 * information[:, None]
        below = mean * information[:, None] + _deficit(ends, gaussian)
        return np.asarray(np.sum(np.where(used, self.masses / below, 0.0), axis=1) * (1 - MARGIN))


def _deficit(information: FloatArray, gaussian: bool) -> FloatArray:
    """At least 1/f − G, at this information and at every smaller one."""
    van_trees = uniform_precision(information)
    if not gaussian:
        return van_trees
    with np.errstate(divide="ignore"):
        return np.minimum(van_trees, 1 / uniform_table().lower(information) - information)


def _second_derivative(lengths: FloatArray, moves: FloatArray, counts: FloatArray) -> FloatArray:
    """A″ of A = (1 − ℓ) B, where B is the product over the others: a sum of positive terms."""
    factors = 1 - lengths[..., None] * moves
    rates = moves / factors
    counted = counts * rates
    total = np.sum(counted, axis=-1)
    # S² − Σ r² over the records: each with all others.
    pairs = np.sum(counted * (total[..., None] - rates), axis=-1)
    product = np.prod(factors**counts, axis=-1)
    return np.asarray(product * (2 * total + (1 - lengths) * np.maximum(pairs, 0.0)))
