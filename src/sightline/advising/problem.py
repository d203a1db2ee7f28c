r"""The problem: the least weighted noise under limits on attacks and on the budget, floors and ceilings.

The variables x are variances over their floors, one for each published number or one for each release:
:math:`s_\ell = b_\ell\, x_{v(\ell)}`, and rows that are already published are fixed. The problem is

.. math:: \min_x\; w^\top x - o \quad\text{with}\quad \varphi_i(s) \ge \kappa_i,\quad 1 \le x \le u .

A release that the budget pays for costs what its sharpest number costs. So its rows share the variable of a
*level* y, and add to it: :math:`s_\ell = b_\ell\,(y + x_\ell - 1)`. With floors in proportion to squared
sensitivities the release costs :math:`q/y`, and the budget is the constraint :math:`1/\sum q/y \ge 1/B` on
rows that stand for the levels alone.

Limits on attacks, as concave constraints on the noise variances.

Let s be the variances of the published numbers, :math:`a` a record's column, and :math:`\tau_k` the variance
that record k adds to a recipe. With :math:`M = \operatorname{diag}(s) + \sum_k \tau_k a_k a_k^\top`,

.. math:: \varphi_j(s) = \frac{1}{a_j^\top M^{-1} a_j} - \tau_j = \min_{a_j^\top h = 1}\;
    \sum_\ell h_\ell^2 s_\ell + \sum_{k \ne j} \tau_k (a_k^\top h)^2

is the least error variance of a recipe h: its own noise, and what the other records add. It is a minimum of
functions that are linear in s, so it is concave, and its gradient is :math:`h \circ h` at the best recipe
:math:`h = M^{-1} a / a^\top M^{-1} a`. A limit says :math:`\varphi(s) \ge \kappa`. For :math:`\tau = 0` all
other records are known and :math:`\varphi = 1/G_{jj}`. Derivations: the theory page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.sparse import csc_array, csr_array, diags_array

from sightline.advising.noise_slack import MOST_FACTOR
from sightline.arrays import ROUNDING, FloatArray, IndexArray, parts
from sightline.errors import InvalidNoise, InvalidPlan

Recipes: TypeAlias = FloatArray | csc_array


class RiskAt(Protocol):
    """The constraints of one kind at some variances."""

    @property
    def phi(self) -> FloatArray:
        """The value of each constraint."""

    def recipes(self, chosen: IndexArray) -> Recipes:
        """The best recipes of some constraints, a column for each: rows × constraints."""

    def tangents(self, chosen: IndexArray, recipes: Recipes, prices: FloatArray) -> Tangents:
        """The slopes of some constraints by the variances at their best recipes."""


class Tangents(Protocol):
    """The slopes of some constraints, and the curvature of their sum with some prices."""

    @property
    def each(self) -> Recipes:
        """Rows × constraints."""

    @property
    def total(self) -> FloatArray:
        """Their sum with the prices."""

    def add_curvature(self, total: FloatArray, rows: IndexArray, barrier: FloatArray, *, exact: bool) -> None:
        """Add minus the second derivative of the sum, on some rows; unless ``exact``, a little more.

        Also add the products of each slope with itself, times the ``barrier`` of its constraint.
        """


class Risks(Protocol):
    """Constraints of one kind: the records' columns, and the least value that each must have."""

    @property
    def columns(self) -> csc_array: ...

    @property
    def needed(self) -> FloatArray: ...

    @property
    def sign(self) -> float:
        """Whether the constraints rise with the noise (1) or fall (-1)."""

    def at(self, variances: FloatArray) -> RiskAt:
        """The constraints at some variances."""

    def cut(
        self, prices: FloatArray, recipes: Recipes, chosen: IndexArray, variances: FloatArray
    ) -> tuple[FloatArray, float]:
        r"""The cut :math:`\pm u^\top s \ge b` that any recipes make, summed with prices: u and b.

        ``variances`` are those at which hiding that follows the noise is replaced by its tangent.
        """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearTangents:
    """The slopes of some constraints, as those of linear ones, which have no curvature."""

    each: Recipes
    prices: FloatArray

    @property
    def total(self) -> FloatArray:
        return np.asarray(self.each @ self.prices)

    def add_curvature(self, total: FloatArray, rows: IndexArray, barrier: FloatArray, *, exact: bool) -> None:
        own = csc_array(csr_array(self.each)[rows])
        total += (own.multiply(barrier) @ own.T).toarray()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HiddenRisks:
    """The attacker knows no other record: each adds to the noise."""

    columns: csc_array
    needed: FloatArray
    tau: FloatArray  # of each of these records
    products: FloatArray  # Σ τ a aᵀ over all records that the attacker does not know
    sign: ClassVar[float] = 1.0

    def at(self, variances: FloatArray) -> HiddenAt:
        inverse = inverse_of_sum(self.products, variances)
        passes = quadratic_forms(self.columns, inverse)
        return HiddenAt(phi=1 / passes - self.tau, passes=passes, inverse=inverse, columns=self.columns)

    def cut(
        self, prices: FloatArray, recipes: Recipes, chosen: IndexArray, variances: FloatArray
    ) -> tuple[FloatArray, float]:
        H = np.asarray(recipes)
        share = shares(self.columns[:, chosen], H)
        everyone = np.einsum("lj,lj->j", H, self.products @ H)
        return H**2 @ prices, float(prices @ ((self.needed + self.tau)[chosen] * share**2 - everyone))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HiddenAt:
    """Constraints against an attacker who knows no other record, at some variances."""

    phi: FloatArray
    passes: FloatArray  # aᵀ M⁻¹ a
    inverse: FloatArray
    columns: csc_array

    def recipes(self, chosen: IndexArray) -> FloatArray:
        return best_recipes(self.columns[:, chosen], self.inverse, self.passes[chosen])

    def tangents(self, chosen: IndexArray, recipes: Recipes, prices: FloatArray) -> HiddenTangents:
        H = np.asarray(recipes)
        return HiddenTangents(
            each=H**2, prices=prices, recipes=H, passes=self.passes[chosen], inverse=self.inverse
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HiddenTangents(LinearTangents):
    r"""The curvature is :math:`2 M^{-1} \circ (H \Lambda H^\top) - 2 H_2 \Lambda Q H_2^\top`."""

    recipes: FloatArray
    passes: FloatArray
    inverse: FloatArray

    def add_curvature(self, total: FloatArray, rows: IndexArray, barrier: FloatArray, *, exact: bool) -> None:
        scaled = self.recipes[rows] * np.sqrt(2 * self.prices)
        found: FloatArray = scaled @ scaled.T  # of a matrix and its own transpose BLAS computes one half
        found *= self.inverse[np.ix_(rows, rows)]
        total += found
        add_products(total, self.each[rows], barrier - 2 * self.prices * self.passes if exact else barrier)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownRisks:
    r"""The attacker knows all other records: :math:`\varphi = 1/\sum_\ell a_\ell^2/s_\ell`."""

    columns: csc_array
    needed: FloatArray
    sign: ClassVar[float] = 1.0

    def at(self, variances: FloatArray) -> KnownAt:
        information = np.asarray(self.columns.power(2).T @ (1 / variances))
        return KnownAt(phi=1 / information, columns=self.columns, variances=variances)

    def cut(
        self, prices: FloatArray, recipes: Recipes, chosen: IndexArray, variances: FloatArray
    ) -> tuple[FloatArray, float]:
        share = shares(self.columns[:, chosen], recipes)
        return np.asarray(squared(recipes) @ prices), float(prices @ (self.needed[chosen] * share**2))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownAt:
    """Constraints against an attacker who knows all other records, at some variances."""

    phi: FloatArray
    columns: csc_array
    variances: FloatArray

    def recipes(self, chosen: IndexArray) -> csc_array:
        images = diags_array(1 / self.variances) @ self.columns[:, chosen]
        return csc_array(images @ diags_array(self.phi[chosen]))

    def tangents(self, chosen: IndexArray, recipes: Recipes, prices: FloatArray) -> KnownTangents:
        return KnownTangents(
            each=squared(recipes), prices=prices, phi=self.phi[chosen], variances=self.variances
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownTangents(LinearTangents):
    r"""The curvature of :class:`HiddenTangents` with :math:`M = S`."""

    phi: FloatArray
    variances: FloatArray

    def add_curvature(self, total: FloatArray, rows: IndexArray, barrier: FloatArray, *, exact: bool) -> None:
        total[np.diag_indices_from(total)] += (2 * self.total / self.variances)[rows]
        weights = barrier - 2 * self.prices / self.phi if exact else barrier
        LinearTangents.add_curvature(self, total, rows, weights, exact=exact)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowLimits:
    """Least or most variances of some rows, where no single variable has them: linear constraints."""

    columns: csc_array  # one entry each: the row
    bounds: FloatArray
    sign: float  # 1 for least, -1 for most variances

    @property
    def needed(self) -> FloatArray:
        return self.sign * self.bounds

    def at(self, variances: FloatArray) -> RowLimitsAt:
        return RowLimitsAt(phi=np.asarray(self.sign * (self.columns.T @ variances)), columns=self.columns)

    def cut(
        self, prices: FloatArray, recipes: Recipes, chosen: IndexArray, variances: FloatArray
    ) -> tuple[FloatArray, float]:
        worth = np.asarray(squared(recipes).sum(axis=0)).ravel()
        return np.asarray(squared(recipes) @ prices), float(prices @ (self.needed[chosen] * worth))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowLimitsAt:
    """Linear constraints at some variances."""

    phi: FloatArray
    columns: csc_array

    def recipes(self, chosen: IndexArray) -> csc_array:
        return csc_array(self.columns[:, chosen])

    def tangents(self, chosen: IndexArray, recipes: Recipes, prices: FloatArray) -> LinearTangents:
        return LinearTangents(each=squared(recipes), prices=prices)


def heavy(columns: FloatArray, weights: FloatArray, diagonal: FloatArray) -> IndexArray:
    """The columns c whose product w c cᵀ has more than rounding of some entry of a diagonal."""
    with np.errstate(over="ignore"):
        largest = np.max(columns**2 / diagonal[:, None], axis=0, initial=0.0)
        found: IndexArray = np.flatnonzero(weights * largest > ROUNDING)
    return found


def add_products(total: FloatArray, columns: FloatArray, weights: FloatArray) -> IndexArray:
    """Add Σ w c cᵀ to a matrix, and say of which columns: not of those that hardly change its diagonal."""
    diagonal = np.maximum(np.diagonal(total), np.finfo(np.float64).tiny)
    kept = heavy(columns, np.abs(weights), diagonal)
    for sign in (1.0, -1.0):
        own = kept[sign * weights[kept] > 0]
        if own.size:
            scaled = columns[:, own] * np.sqrt(np.abs(weights[own]))
            total += sign * (scaled @ scaled.T)
    return kept


def best_recipes(columns: csc_array, inverse: FloatArray, passes: FloatArray) -> FloatArray:
    r""":math:`M^{-1} a / a^\top M^{-1} a`, a column for each record."""
    images = np.asfortranarray((columns.T @ inverse).T)
    images /= passes
    return images


def shares(columns: csc_array, recipes: Recipes) -> FloatArray:
    """What each recipe has of its own record: aᵀh."""
    return np.asarray(columns.multiply(recipes).sum(axis=0)).ravel()


def quadratic_forms(columns: csc_array, matrix: FloatArray) -> FloatArray:
    """aᵀ M a for every column: gathered from pairs of its entries, if these are fewer than the rows."""
    sizes = np.diff(columns.indptr)
    most, found = int(sizes.max(initial=0)), np.zeros(columns.shape[1])
    if most * most > len(matrix):
        for some in parts(len(found), each=len(matrix)):
            part = columns[:, some]
            found[some] = np.asarray(part.multiply((part.T @ matrix).T).sum(axis=0)).ravel()
        return found
    # Entries past a column's end point anywhere, with weight zero.
    place = columns.indptr[:-1, None] + np.arange(most)
    inside = np.arange(most) < sizes[:, None]
    place = np.where(inside, place, 0)
    rows = np.where(inside, columns.indices[place], 0) if columns.nnz else place
    weights = np.where(inside, columns.data[place], 0.0) if columns.nnz else inside * 0.0
    for some in parts(len(found), each=most * most):
        own, weight = rows[some], weights[some]
        products = matrix[own[:, :, None], own[:, None, :]]
        found[some] = np.einsum("ki,kij,kj->k", weight, products, weight)
    return found


def inverse_of_sum(products: FloatArray, variances: FloatArray) -> FloatArray:
    """The inverse of products of rows plus a diagonal of variances, scaled to a unit diagonal first."""
    matrix = products.copy()
    matrix[np.diag_indices_from(matrix)] += variances
    unit = 1 / np.sqrt(np.diagonal(matrix))
    matrix *= unit
    matrix *= unit[:, None]
    inverse = _inverse(matrix)
    inverse *= unit
    inverse *= unit[:, None]
    return inverse


def _inverse(matrix: FloatArray) -> FloatArray:
    """The inverse of a positive definite matrix by Cholesky's factor. Overwrites the matrix."""
    factor, failed = dpotrf(matrix.T, lower=1, overwrite_a=1)
    if failed:
        raise InvalidNoise(
            "expected noise that double precision tells from none beside the records' own spread, "
            "got less; start from more noise"
        )
    half, _ = dpotri(factor, lower=1, overwrite_c=1)
    inverse: FloatArray = np.triu(half.T)  # the half that is filled
    inverse += np.triu(inverse, 1).T
    return inverse


def squared(recipes: Recipes) -> Recipes:
    """The squares of the weights, which are the derivatives of the constraints by the variances."""
    return recipes**2 if isinstance(recipes, np.ndarray) else recipes.power(2)


FIXED = -1
MOST_ROUNDS = 120
TOLERANCE = 5e-8  # the certified gap with which a search ends, and how near noise comes to what it needs
# How nearly a direction is kept, and a factor is found where that takes long: the audit closes the rest.
# Tuned on designs for persons with several rows, which constraints for less make dearer by up to 0.05 %.
NEARLY = 1e-5
_Found = TypeVar("_Found")


class NotEnough(InvalidPlan):
    """No noise within the ceilings keeps the limits."""


def if_enough(search: Callable[[], _Found]) -> tuple[_Found, ...]:
    """What a search finds; nothing if no noise is enough."""
    try:
        return (search(),)
    except NotEnough:
        return ()


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseProblem:
    """Weights, floors, ceilings, and the limits on attacks."""

    risks: tuple[Risks, ...]
    floors: FloatArray  # of the rows' variances: for fixed rows, what they are
    variable: IndexArray  # of each row; FIXED for those already published
    weights: FloatArray  # of each variable: what its floor costs
    ceilings: FloatArray  # of each variable, over its floor; infinite for none
    level: IndexArray = field(default_factory=lambda: np.array([FIXED]))  # of each row, the variable of its
    # release's level; FIXED for none, of one row or of all
    free_of_charge: float = 0.0  # o: floors that are in the weights of a row and of its level

    @cached_property
    def lift(self) -> csc_array:
        """The matrix from variables to the variances of the rows that are not fixed."""
        free = np.flatnonzero(self.variable != FIXED)
        more = np.flatnonzero(self.level != FIXED)
        rows = np.concatenate([free, more])
        places = np.concatenate([self.variable[free], self.level[more]])
        shape = (self.floors.size, self.weights.size)
        return csc_array((self.floors[rows], (rows, places)), shape=shape)

    @cached_property
    def constant(self) -> FloatArray:
        """The part of the rows' variances that no variable changes; negative for rows with a level."""
        found = np.where(self.variable == FIXED, self.floors, 0.0)
        return np.where(self.level != FIXED, -self.floors, found)

    def variances(self, x: FloatArray) -> FloatArray:
        """The variances of all rows."""
        one = np.append(x, 1.0)
        return np.asarray(self.floors * (one[self.variable] + (one[self.level] - 1.0)))

    def loss(self, x: FloatArray) -> float:
        """The weighted noise."""
        return float(self.weights @ x) - self.free_of_charge

    def bound(self, value: float, used: FloatArray) -> float:
        r"""The bound of :meth:`Cuts.lower_bound` from :math:`\lambda^\top b` and u, with scaled prices."""
        w, open_ended = self.weights, np.isinf(self.ceilings)
        most = float(np.max(used[open_ended] / w[open_ended], initial=0.0))
        scale = min(1.0, (1 - ROUNDING) / most) if most > 0 else 1.0
        left = w - scale * used
        ends = np.where(left >= 0, 1.0, np.where(open_ended, 1.0, self.ceilings))
        return scale * value + float(left @ ends) - self.free_of_charge

    def slacks(self, x: FloatArray) -> list[FloatArray]:
        r"""For each kind :math:`(\varphi_i - \kappa_i)/|\kappa_i|`: negative where a limit is broken."""
        s = self.variances(x)
        return [(one.at(s).phi - one.needed) / np.abs(one.needed) for one in self.risks]

    def least_slack(self, x: FloatArray) -> float:
        """The least of the slacks."""
        return min((float(np.min(one)) for one in self.slacks(x) if one.size), default=np.inf)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cuts:
    """Recipes with a price for each: a proof that no noise with a smaller loss keeps the limits."""

    prices: tuple[FloatArray, ...]  # for each kind of constraint
    recipes: tuple[Recipes, ...]
    chosen: tuple[IndexArray, ...]  # the constraints that they are for
    variances: FloatArray  # where hiding that follows the noise is replaced by its tangent

    def lower_bound(self, problem: NoiseProblem) -> float:
        r"""A lower bound on the loss of all noise that keeps the limits, whatever made the cuts.

        Each recipe says :math:`\pm\sum h^2 s \ge b`. For prices :math:`\lambda \ge 0` and
        :math:`u = \sum \pm\lambda\, h^2` in the variables' units, every feasible x has

        .. math:: w^\top x \ge \lambda^\top b + \sum_v \min_{1 \le x_v \le u_v} (w_v - u_v)\, x_v .

        Where there is no ceiling the last part is finite only if :math:`u \le w`: the prices are scaled.
        """
        value, used = 0.0, np.zeros(problem.weights.size)
        lift, constant = problem.lift, problem.constant
        each = zip(problem.risks, self.prices, self.recipes, self.chosen, strict=True)
        for risks, prices, recipes, chosen in each:
            slopes, least = risks.cut(prices, recipes, chosen, self.variances)
            value += least - float(constant @ (risks.sign * slopes))
            used += lift.T @ (risks.sign * slopes)
        return problem.bound(value, used)


def common_factor(problem: NoiseProblem, at_one: FloatArray) -> float:
    """The least factor on the variances of all rows that are not fixed; ``NotEnough`` if there is none.

    It is rounded up so that the limits hold. ``at_one`` has the variances of the rows at the factor 1.
    Ceilings are not looked at: a common factor that breaks one is still what it costs.
    """
    moving = np.where(problem.variable == FIXED, 0.0, at_one)
    t = 1.0
    for _ in range(MOST_ROUNDS):
        if t >= MOST_FACTOR:
            break
        s, step = np.where(problem.variable == FIXED, problem.floors, t * at_one), 0.0
        for one in problem.risks:
            if one.sign < 0 or not one.needed.size:
                continue
            now = one.at(s)
            short = one.needed * (1 + ROUNDING / 2) - now.phi
            broken = np.flatnonzero(short > 0)
            if broken.size:
                slope = np.asarray(squared(now.recipes(broken)).T @ moving)
                with np.errstate(divide="ignore"):
                    step = max(step, float(np.max(short[broken] / slope)))
        if step <= ROUNDING / 2 * t:
            return t * (1 + (ROUNDING if step > 0 else 0.0))
        t += step
    raise NotEnough("expected a factor on all noise that keeps the limits, got none")
