r"""Limits on attacks by someone who knows no other record, where hiding follows the noise.

An unknown record k hides others like a number with the variance :math:`\tau_k = 1/D(1/y_k)`. Here
:math:`1/y_k = G_{kk} = \sum_\ell a_{k\ell}^2/s_\ell` is the information of an attacker who knows all
others, and D is the precision of the prior. With :math:`n_k` records of each signature and
:math:`M(s) = \operatorname{diag}(s) + \sum_k n_k \tau_k(s)\, a_k a_k^\top`,

.. math:: \varphi_j(s) = \frac{1}{a_j^\top M^{-1} a_j} - n_j \tau_j = \min_{a_j^\top h = 1}\;
    \sum_\ell h_\ell^2 s_\ell + \sum_{k \ne j} n_k \tau_k(s)\, (a_k^\top h)^2 = \frac{1}{Q_j} .

Each :math:`\tau_k` is concave in s, so :math:`\varphi_j` is, too (theory page): the problem is convex with
the precisions at the noise itself. With :math:`c_k = n_k\, y_k^2\, d\tau_k/dy_k` the slope at the best
recipe h is

.. math:: \frac{\partial\varphi_j}{\partial s_\ell}
    = h_\ell^2 + \frac{1}{s_\ell^2} \sum_{k \ne j} c_k\, (a_k^\top h)^2\, a_{k\ell}^2 .
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array

from sightline.advising.problem import (
    Recipes,
    add_products,
    best_recipes,
    heavy,
    inverse_of_sum,
    quadratic_forms,
)
from sightline.arrays import FloatArray, IndexArray

# All records take part in the sum of the slopes. In the slope of one constraint those do that are in a number
# which its recipe gives more than the first of these weights that leaves this much work.
_NOTABLE, _SLOPE_WORK = (0.0, 1e-3, 1e-2, 1e-1, 1.0), 4e7
_TINY = float(np.finfo(np.float64).tiny / np.finfo(np.float64).eps)  # sums of its inverse are numbers, too
# Hiders in the curvature: all of so few, else at most half as many as rows, and no more than these: with more
# of them a step of a design with 2,831 numbers takes 4 % longer.
_FEW_HIDERS, _MOST_CURVED = 200, 800
_LEFT_OUT = 1e-3  # the share of all hiding that follows the noise that need not be in the curvature


@dataclass(frozen=True, kw_only=True, eq=False)
class Hiders:
    """The records that the attacker does not know, by signature."""

    columns: csc_array  # rows × signatures
    counts: FloatArray  # records of each signature
    precision: Callable[[FloatArray], FloatArray]  # D
    precision_slope: Callable[[FloatArray], FloatArray]  # its derivative
    excess: Callable[[FloatArray], FloatArray]  # how far D may be above the exact one, over it
    gram: Callable[[FloatArray], FloatArray]  # Σ weight · a aᵀ over the signatures
    forms: Callable[[FloatArray], FloatArray]  # aᵀ N a of each signature

    @cached_property
    def by_signature(self) -> csr_array:
        """Signatures × rows."""
        return csr_array(self.columns.T)

    @cached_property
    def squares(self) -> csc_array:
        """The columns squared: themselves, if they are 0 and 1."""
        return self.columns if self.plain else csc_array(self.columns.power(2))

    @cached_property
    def squares_by_signature(self) -> csr_array:
        """Signatures × rows."""
        return self.by_signature if self.plain else csr_array(self.squares.T)

    @cached_property
    def plain(self) -> bool:
        """Whether all entries are 0 and 1."""
        return bool(np.all(self.columns.data == 1.0))

    @cached_property
    def sizes(self) -> FloatArray:
        """Of each row, how many signatures are in it."""
        return np.bincount(self.columns.indices, minlength=self.columns.shape[0]).astype(np.float64)

    @cached_property
    def largest(self) -> FloatArray:
        """Of each row, the largest entry."""
        found = np.zeros(self.columns.shape[0])
        np.maximum.at(found, self.columns.indices, np.abs(self.columns.data))
        return found

    def gram_of_squares(self, weights: FloatArray) -> FloatArray:
        """The same as ``gram`` with the squares of the columns."""
        if self.plain:
            return self.gram(weights)
        return np.asarray((self.squares.multiply(weights) @ self.squares.T).toarray())

    def at(self, variances: FloatArray) -> HidersAt:
        """How they hide each other at some variances."""
        told = np.asarray(self.squares_by_signature @ (1 / variances))
        y = 1 / np.where(
            told > 0, told, 1.0
        )  # weights that cancel: the record is in no number, and hides nobody
        return HidersAt(
            hiders=self, variances=variances, y=y, tau=1 / self.precision(1 / y), slope=self.slope(y)
        )

    def slope(self, y: FloatArray) -> FloatArray:
        """dτ/dy."""
        found: FloatArray = self.precision_slope(1 / y) / (y * self.precision(1 / y)) ** 2
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HidersAt:
    """How unknown records hide each other at some variances."""

    hiders: Hiders
    variances: FloatArray
    y: FloatArray
    tau: FloatArray
    slope: FloatArray  # dτ/dy

    @property
    def change(self) -> FloatArray:
        """c: how much hiding follows the noise."""
        found: FloatArray = self.hiders.counts * self.slope * self.y**2
        return found

    def spread(self, weights: FloatArray) -> FloatArray:
        r""":math:`s_\ell^{-2} \sum_k w_k a_{k\ell}^2` of each row."""
        return np.asarray(self.hiders.squares @ weights) / self.variances**2

    def own_slopes(self, own: IndexArray) -> csc_array:
        r""":math:`n_k\, d\tau_k/ds` of some signatures, a column for each."""
        squares = self.hiders.squares[:, own]
        return csc_array(diags_array(self.variances**-2.0) @ squares @ diags_array(self.change[own]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FollowingRisks:
    """The attacker knows no other record, and the precisions of these are those at the noise itself."""

    columns: csc_array
    needed: FloatArray
    hiders: Hiders
    own: IndexArray  # the signature of each of these records
    sign: ClassVar[float] = 1.0

    def at(self, variances: FloatArray) -> FollowingAt:
        others = self.hiders.at(variances)
        hiding = self.hiders.counts * others.tau
        inverse = inverse_of_sum(self.hiders.gram(hiding), variances)
        passes = quadratic_forms(self.columns, inverse)
        return FollowingAt(
            phi=1 / passes - hiding[self.own], passes=passes, inverse=inverse, risks=self, others=others
        )

    def cut(
        self, prices: FloatArray, recipes: Recipes, chosen: IndexArray, variances: FloatArray
    ) -> tuple[FloatArray, float]:
        r"""For any recipes, :math:`\tau_k(s) \le \tau_k + \tau_k'\,(\sum_\ell g_{k\ell}^2 s_\ell - y_k)`."""
        H, others = np.asarray(recipes), self.hiders.at(variances)
        share = np.asarray(self.columns[:, chosen].multiply(H).sum(axis=0)).ravel() ** 2
        scaled = H * np.sqrt(prices)
        outer = scaled @ scaled.T
        seen = self.hiders.forms(outer)
        np.subtract.at(seen, self.own[chosen], prices * share)
        seen = np.maximum(seen, 0.0)
        constant = self.hiders.counts * (
            others.tau * (1 + self.hiders.excess(1 / others.y)) - others.slope * others.y
        )
        value = float(prices @ (self.needed[chosen] * share)) - float(seen @ constant)
        return np.diagonal(outer) + others.spread(others.change * seen), value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FollowingAt:
    """Constraints against an attacker who knows no other record, at some variances."""

    phi: FloatArray
    passes: FloatArray  # aᵀ M⁻¹ a
    inverse: FloatArray
    risks: FollowingRisks
    others: HidersAt

    def recipes(self, chosen: IndexArray) -> FloatArray:
        return best_recipes(self.risks.columns[:, chosen], self.inverse, self.passes[chosen])

    def tangents(self, chosen: IndexArray, recipes: Recipes, prices: FloatArray) -> FollowingTangents:
        H, others = np.asarray(recipes), self.others
        priced = heavy(H, prices, np.maximum(H**2 @ prices, _TINY))
        scaled = H[:, priced] * np.sqrt(prices[priced])
        outer = scaled @ scaled.T  # of a matrix and its own transpose BLAS computes one half
        all_seen = self.risks.hiders.forms(outer)
        seen = all_seen.copy()
        own = self.risks.own[chosen]
        np.subtract.at(seen, own, prices)
        seen = np.maximum(seen, 0.0)
        change = others.change
        each = _hidden_slopes(self.risks.hiders, H, own, change)
        each /= others.variances[:, None] ** 2
        each += H * H
        return FollowingTangents(
            each=each,
            total=np.diagonal(outer) + others.spread(change * seen),
            at=self,
            chosen=chosen,
            prices=prices,
            outer=outer,
            all_seen=all_seen,
            seen=seen,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FollowingTangents:
    """The slopes of some constraints, and what their curvature is made of."""

    each: FloatArray
    total: FloatArray
    at: FollowingAt
    chosen: IndexArray
    prices: FloatArray
    outer: FloatArray  # X = H Λ Hᵀ
    all_seen: FloatArray  # aᵀ X a of each hider
    seen: FloatArray  # the same without the recipes on itself

    def add_curvature(self, total: FloatArray, rows: IndexArray, barrier: FloatArray, *, exact: bool) -> None:
        r"""With :math:`E = dM` it is :math:`2\,h^\top E (M^{-1} - q h h^\top) E h - h^\top (d^2M)\, h`."""
        at, others = self.at, self.at.others
        hiders, s, y, N = at.risks.hiders, others.variances, others.y, at.inverse
        change = others.change
        found = self.outer * N
        part = np.asarray(hiders.squares_by_signature @ (1 / np.maximum(s**2 * self.total, _TINY)))
        kept = _largest(change * self.all_seen * part, int(np.clip(s.size // 2, _FEW_HIDERS, _MOST_CURVED)))
        A = hiders.by_signature[kept]
        V = csr_array(diags_array(s**-2.0) @ hiders.squares[:, kept] @ diags_array(change[kept]))
        AX, AN = A @ self.outer, A @ N
        third = (A @ AX.T) * (A @ AN.T)
        cross = V @ (AX * AN)
        found += cross
        found += cross.T
        found += V @ (V @ third).T
        found *= 2
        step = np.finfo(np.float64).eps ** 0.25  # between two slopes: it leaves half of their digits
        bend = (hiders.slope(y * (1 + step)) - hiders.slope(y * (1 - step))) / (2 * step * y)
        seen = hiders.counts * self.seen
        weight = seen * (-bend * y**4 - 2 * others.slope * y**3)
        rest = 2 * change**2 * self.all_seen * hiders.forms(N)
        rest[kept] = 0.0
        more = hiders.gram_of_squares(weight + rest)
        more /= s**2
        more /= (s**2)[:, None]
        found += more
        found[np.diag_indices_from(found)] += others.spread(2 * seen * others.slope * y**2) / s
        total += found[np.ix_(rows, rows)]
        slopes = self.each[rows]
        if not exact:
            add_products(total, slopes, barrier)
            return
        # The slopes of 1/q are those of the constraints and, few numbers, of what hides a record alike.
        weights = 2 * self.prices * at.passes[self.chosen]
        most = add_products(total, slopes, barrier - weights)
        alike = csr_array(others.own_slopes(at.risks.own[self.chosen[most]]))[rows]
        weighted = csr_array(alike.multiply(weights[most]))
        cross = np.asarray(weighted @ slopes[:, most].T)
        total -= cross
        total -= cross.T
        total -= (weighted @ alike.T).toarray()


def _hidden_slopes(hiders: Hiders, H: FloatArray, own: IndexArray, change: FloatArray) -> FloatArray:
    r""":math:`\sum_{k \ne j} c_k (a_k^\top h)^2 a_{k\ell}^2` of each recipe, over hiders it notably sees.

    ``own`` is the signature that each recipe is on.
    """
    A = hiders.by_signature
    most = int(np.diff(A.indptr).max(initial=1))
    if A.nnz * H.shape[1] <= _SLOPE_WORK:
        seen = A @ H
        seen[own, np.arange(own.size)] = 0.0
        seen *= seen
        seen *= change[:, None]
        return np.asarray(hiders.squares @ seen)
    weight = np.abs(H) * hiders.largest[:, None]
    for least in _NOTABLE:
        notable = weight > least
        if float(notable.sum(axis=1) @ hiders.sizes) * most <= _SLOPE_WORK:
            break
    pairs = (A.astype(np.bool_) @ csr_array(notable)).tocoo()
    others = pairs.row != own[pairs.col]
    k, j = pairs.row[others], pairs.col[others]
    share = np.zeros(k.size)
    for place in range(most):
        inside = np.flatnonzero(np.diff(A.indptr)[k] > place)
        entry = A.indptr[k[inside]] + place
        share[inside] += A.data[entry] * H[A.indices[entry], j[inside]]
    seen = csr_array((change[k] * share**2, (k, j)), shape=(A.shape[0], H.shape[1]))
    return np.asarray((hiders.squares @ seen).toarray())


def _largest(values: FloatArray, most: int) -> IndexArray:
    """The places of the largest values, until the others are a small share of the sum."""
    order = np.argsort(-values, kind="stable")[:most]
    total = np.cumsum(values[order])
    enough = int(np.searchsorted(total, (1 - _LEFT_OUT) * float(values.sum()))) + 1
    found: IndexArray = np.sort(order[: max(enough, _FEW_HIDERS)])
    return found
