"""The last pass over units: the bracket of every unit, and whether its leverage is so large that it may be
identifiable.

What is asked of a unit with r rows of k columns each: for each of the k, the sharpest direction over the r
rows. Of a record that is its value, of a category each of its indicators, of a person the sharpest feature
of their rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from sightline.arrays import AT_A_TIME, COARSE, ROUNDING, FloatArray
from sightline.bounds.coin import CoinPrior
from sightline.numerics.residuals import TINY, eigenvalues_at_most, gamma
from sightline.units.panels import PanelBlock
from sightline.units.row_forms import RowForm
from sightline.units.row_integers import PROOF
from sightline.units.row_noise import RowNoise
from sightline.units.row_products import RowProducts
from sightline.units.row_solver import DenseSolver
from sightline.units.sparse_row_solver import SparseSolver
from sightline.units.target import Seen, TargetPrior, UnitPrior
from sightline.units.unit_block import BoolArray, UnitBlock, UnitColumns
from sightline.units.units import Arrays
from sightline.values import frozen

RowSolver = DenseSolver | SparseSolver


@frozen(slots=False)
class _Hidden:
    """What is left, at least, if every row around is hidden as a Gaussian of precision c."""

    covariance: FloatArray  # of every kind
    error: FloatArray  # in any unit direction
    variance: FloatArray  # 1/c of each row of a kind; a row with no weight counts as known
    rough: BoolArray  # kinds whose weights were rounded by so much that one precision for all may be sharper


@frozen(slots=False)
class Hiding:
    """Precisions of Gaussians that hide the rows around."""

    weights: RowProducts  # what the solver's hidden form was weighted by
    solver: RowSolver

    def of(self, block: Any, r: int) -> _Hidden:
        """What is left of units of r rows."""
        form: Any = self.solver.hidden
        levels = self.weights.levels(block)
        variance = levels / self.weights.unit
        left, off = form.left(block, np.einsum("nr,rs->nrs", variance, np.eye(r)))
        rough = np.asarray((levels * COARSE < 1).any(axis=1))
        return _Hidden(covariance=left, error=off, variance=variance, rough=rough)

    def least(self, block: PanelBlock) -> FloatArray:
        """What is left, at least, of persons with many rows."""
        variance = self.weights.levels(block) / self.weights.unit
        most = block.at_most(self.solver.hidden, variance[0])
        least = np.where(block.times > 0, variance, np.inf).min(axis=1)
        return np.asarray(least * (1 - most) * (1 - gamma(8)))


@frozen(slots=False)
class UnitBrackets:
    """The third pass: the bracket of every unit, and whether its leverage is so large that it may be
    identifiable.
    """

    solver: RowSolver
    # None without a density; else the solver's, and one precision for all rows if weights are rounded much.
    hidings: tuple[Hiding, ...] = ()
    upper: bool = True  # whether upper ends are asked for
    at_a_time: ClassVar[int] = AT_A_TIME

    def of_block(self, block: Any) -> Arrays:
        if isinstance(block, PanelBlock):
            return self._of_panel(block) if self.solver.prior.categories == 1 else self._of_categories(block)
        prior, noise = self.solver.prior, self.solver.noise
        k = prior.categories
        r = block.times.shape[1] // k
        single = r == 1 and block.single
        information, G = noise.about(block)
        sharpest = information.max(axis=(1, 2))
        upper, error = self._upper(block, r, k) if self.upper else np.ones((2, len(block), k))
        hidden = [one.of(block, r) for one in self.hidings[:1]]
        if k > 1:
            lower = _of_category(G, block, noise, prior, single)
        elif single:
            lower = self._of_record(G[:, 0, 0], block, upper[:, 0], hidden)[:, None]
            for even in self.hidings[1:] if any(one.rough.any() for one in hidden) else ():
                again = self._of_record(G[:, 0, 0], block, upper[:, 0], [even.of(block, r)])
                lower = np.maximum(lower, again[:, None])
        else:
            lower, sharpest = self._of_person(G, block, hidden)
            lower = lower[:, None]
        touched = np.trace(G, axis1=1, axis2=2)[:, None] > 0
        lower = np.where(touched, np.minimum(np.maximum(lower, 0.0), upper), 1.0)
        found = {"kinds": block.kinds, "lower": lower * noise.share, "upper": upper, "error": error}
        loose = [one.error / np.maximum(one.covariance[:, 0, 0], TINY) for one in hidden]
        found["loose"] = sum(loose, np.zeros(len(block)))
        if self.upper:
            found |= {"near": self._near(block, r, k) & touched[:, 0], "information": sharpest}
        return found

    def _near(self, block: Any, r: int, k: int) -> BoolArray:
        r"""Units whose leverage may be 1: a trace over their rows, which add up; of categories, where that is
        not enough, the largest eigenvalue of each row.

        :math:`Y_{ij}^2 \le Y_{ii} Y_{jj}`, and no eigenvalue of the kernel is above k. So k times the sizes
        bound every trace; an inverse that is trusted adds an error of less than as much again. In a large
        table this refutes all of a block, and no pairs of rows are looked up.
        """
        prior, form = self.solver.prior, self.solver.leverage
        single_rows = block if r == 1 else block.rows_apart(k)
        if isinstance(form, RowForm) and form.error < PROOF:
            most = 2 * k * single_rows.sizes(form.root).reshape(len(block), r).sum(axis=1)
            if np.all(block.people * most < 1 - ROUNDING):
                return np.zeros(len(block), dtype=np.bool_)
        leverage, off = form.read(single_rows)
        each = np.einsum("nij,ij->n", leverage, prior.kernel) + 2 * k * off
        near = ~(block.people * each.reshape(len(block), r).sum(axis=1) < 1 - ROUNDING)
        if k > 1 and near.any():  # the root of the kernel k I − 11ᵀ is a kth part of √k times it
            rows = np.repeat(near, r)
            L = leverage[rows]
            seen = prior.kernel @ L @ prior.kernel / k
            most = eigenvalues_at_most((seen + np.swapaxes(seen, 1, 2)) / 2)
            rounding = 4 * k * gamma(4 * k) * np.trace(L, axis1=1, axis2=2)
            sums = (most + rounding + 2 * k * off[rows]).reshape(-1, r).sum(axis=1)
            near[near] = ~(block.people[near] * sums < 1 - ROUNDING)
        return np.asarray(near)

    def _of_panel(self, block: PanelBlock) -> Arrays:
        """Persons with many rows: everything is asked of the largest eigenvalue of a form."""
        prior, noise, solver = self.solver.prior, self.solver.noise, self.solver
        information_of_columns = noise.about_columns(block) * block.times  # of the columns √times a
        upper, error = np.ones((2, len(block)))
        if self.upper:
            least, most = block.ranges(solver.linear)
            upper = np.clip(1 - prior.scale * least * (1 - gamma(4)), TINY, 1.0)
            left = 1 - prior.scale * most * (1 + gamma(4))
            error = np.where(left > 1e-3 * upper, (upper - left) / np.where(left > 0, left, 1.0), np.inf)
        information = block.at_most(noise.form)
        lower = _at_least(information, block, noise, prior.target)
        for one in self.hidings[:1]:
            lower = np.maximum(lower, one.least(block) / prior.scale)
        touched = information_of_columns.max(axis=1) > 0
        lower = np.where(touched, np.minimum(np.maximum(lower, 0.0), upper), 1.0)
        arrays = {"kinds": block.kinds, "loose": np.zeros(len(block)), "lower": lower[:, None] * noise.share}
        arrays |= {"upper": upper[:, None], "error": error[:, None]}
        if self.upper:
            seen = block.at_most(solver.leverage, enough=0.9 / float(block.people.max()))
            arrays |= {"near": ~(block.people * seen < 1 - ROUNDING) & touched, "information": information}
        return arrays

    def _of_categories(self, block: PanelBlock) -> Arrays:
        """Persons with many rows of a category: the same, of every category by itself."""
        prior, noise, solver = self.solver.prior, self.solver.noise, self.solver
        k, K, identity = prior.categories, prior.kernel, np.eye(prior.categories)
        information = block.of_categories(noise.form, k, own=1.0, every=0.0)[1]
        upper, error = np.ones((2, len(block), k))
        if self.upper:  # K = k I − 11ᵀ
            least, most = block.of_categories(solver.linear, k, own=float(k), every=-1.0)
            scale = prior.scale / np.diagonal(K)
            upper = np.clip(1 - scale * least * (1 - gamma(8)), TINY, 1.0)
            left = 1 - scale * most * (1 + gamma(8))
            room = left > 1e-3 * upper
            error = np.where(room, (upper - left) / np.where(left > 0, left, 1.0), np.inf)
        coin = CoinPrior(share=1 / k)
        if noise.laplace.any():  # of every row the two categories that lose most
            # The loss of Gaussian noise is infinite, also where a person has no row.
            there, lost = block.times[:, :, None], block.columns.sums(noise.loss, 1)
            loss = np.where(there > 0, np.maximum(there, 1) * lost, 0.0)
            bound = np.exp(-np.sort(loss, axis=2)[:, :, -2:].sum(axis=(1, 2)))
        else:
            # Two categories of each row: their difference has the length √2. Numbers of one category each
            # tell no more than the two that are seen best.
            apart = not noise.shared and not block.in_common(k)
            most = np.sort(information, axis=1)[:, -2:].sum(axis=1)
            most = most if apart else 2 * block.mixed(identity).at_most(noise.form)
            bound = coin.lower(Seen(information=most, linear_information=np.zeros_like(most)))
        touched = information.max(axis=1)[:, None] > 0
        lower = np.where(touched, np.minimum(np.maximum(bound[:, None], 0.0), upper), 1.0)
        arrays = {"kinds": block.kinds, "loose": np.zeros(len(block)), "lower": lower * noise.share}
        arrays |= {"upper": upper, "error": error}
        if self.upper:
            enough = 0.9 * k / float(block.people.max())
            seen = block.mixed(K).at_most(solver.leverage, enough=enough) / k
            arrays |= {"near": ~(block.people * seen < 1 - ROUNDING) & touched[:, 0]}
            arrays |= {"information": information.max(axis=1)}
        return arrays

    def merged(self, parts: Sequence[Arrays]) -> Arrays:
        kinds = np.concatenate([part["kinds"] for part in parts])
        order = slice(None) if np.all(kinds[1:] > kinds[:-1]) else np.argsort(kinds)
        return {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}

    @property
    def in_balls(self) -> list[UnitBrackets]:
        """The same with every digit, where products are exact."""
        solvers = [self.solver, *(one.solver for one in self.hidings)]
        exact: list[Any] = [one.in_balls for one in solvers if isinstance(one, DenseSolver)]
        if not all(exact):
            return []
        hidings = [replace(one, solver=solver) for one, solver in zip(self.hidings, exact[1:], strict=False)]
        return [replace(self, solver=solver, hidings=tuple(hidings)) for solver in exact[:1]]

    def _upper(self, block: Any, r: int, k: int) -> tuple[FloatArray, FloatArray]:
        """What the best linear attack leaves of each of the k, in the sharpest direction over the rows."""
        C = np.asarray(
            self.solver.prior.scale * np.kron(np.eye(r), self.solver.prior.kernel), dtype=np.float64
        )
        left, off = self.solver.linear.left(block, C)
        of_row = np.einsum("nrcsc->ncrs", left.reshape(len(block), r, k, r, k)) / C[0, 0]
        least = np.linalg.eigvalsh(of_row)[..., 0] if r > 1 else of_row[..., 0, 0]
        error = off[:, None] / C[0, 0] + (gamma(8 * r) if r > 1 else 0.0)
        upper = np.where(error < 1, np.clip(least + np.minimum(error, 1.0), TINY, 1.0), 1.0)
        room = upper - 2 * error
        return upper, np.where(room > 1e-3 * upper, 2 * error / np.where(room > 0, room, 1.0), np.inf)

    def _of_person(
        self, G: FloatArray, block: UnitBlock, hidden: list[_Hidden]
    ) -> tuple[FloatArray, FloatArray]:
        """The lower end of units of several rows, and the information about their sharpest feature.

        If only lower ends are asked for, the latter is found where it may matter: no feature is seen less
        than the row that is seen best.
        """
        prior, noise = self.solver.prior, self.solver.noise
        lower, sharpest = np.zeros(len(block)), np.diagonal(G, axis1=1, axis2=2).max(axis=1)
        for one in hidden:
            least = -eigenvalues_at_most(-one.covariance) - one.error
            lower = np.maximum(lower, least / prior.scale)
        asked = np.arange(len(block))
        if not self.upper:
            asked = np.flatnonzero(_at_least(sharpest, block, noise, prior.target) > lower)
        if asked.size and G.shape[1] > 1:
            sharpest[asked] = eigenvalues_at_most(G[asked])
        chosen = block if asked.size == len(block) else block.only(asked)
        lower[asked] = np.maximum(lower[asked], _at_least(sharpest[asked], chosen, noise, prior.target))
        return lower, sharpest

    def _of_record(
        self, G: FloatArray, block: UnitColumns, upper: FloatArray, hidden: list[_Hidden]
    ) -> FloatArray:
        """The lower end of units of one row, by the prior's own bounds."""
        prior, noise = self.solver.prior.target, self.solver.noise
        hidden_information: FloatArray | float = np.inf
        precision: FloatArray | float = np.inf
        laplace_answers: FloatArray | float = 0.0
        laplace_information: FloatArray | float = 0.0
        for one in hidden:
            least = one.covariance[:, 0, 0] - one.error
            fine = (least > one.error) & (one.variance[:, 0] > 0)
            precision = 1 / np.where(fine, one.variance[:, 0], 1.0)
            behind = np.maximum(1 / np.maximum(least, TINY) - precision, 0.0)
            hidden_information = np.where(fine, behind, np.inf)
        if noise.laplace.any():
            laplace_answers = block.sums(noise.laplace, 0)[:, 0]
            of_laplace = block.sums(np.where(noise.laplace > 0, noise.information, 0.0), 2)[:, 0]
            of_laplace *= 1 - gamma(4 * self.solver.numbers)
            alone = block.sums((noise.laplace == 0).astype(np.float64), 0)[:, 0] == 0
            laplace_information = np.where(alone, G, np.minimum(of_laplace, G))
        return prior.lower(
            Seen(
                information=G,
                linear_information=(1 / np.maximum(upper, 1e-300) - 1) / prior.variance,
                hidden_information=hidden_information,
                precision=precision,
                alike=block.alike.astype(np.float64),
                laplace_answers=laplace_answers,
                laplace_information=laplace_information,
            )
        )


def _at_least(
    most: FloatArray, block: UnitBlock | PanelBlock, noise: RowNoise, prior: TargetPrior
) -> FloatArray:
    """The least share of any feature of several independent rows, if all other persons are known: from the
    information about the sharpest one, rounded up.
    """
    gaussian = prior.lower(Seen(information=most, linear_information=np.zeros_like(most)))
    if not noise.laplace.any():
        return gaussian
    there = block.times > 0
    # The loss of Gaussian noise is infinite, also where a person has no row.
    lost = np.where(there, np.maximum(block.times, 1) * block.sums(noise.loss, 1), 0.0)
    loss = prior.width * lost.sum(axis=1)
    unsigned = (noise.about_columns(block) * block.times).sum(axis=1) if block.signed else most
    other = np.maximum(prior.lower_of_rows(most, unsigned=unsigned), np.exp(-loss))
    return np.where(((block.sums(noise.laplace, 0) == 0) | ~there).all(axis=1), gaussian, other)


def _of_category(
    G: FloatArray, block: UnitBlock, noise: RowNoise, prior: UnitPrior, single: bool
) -> FloatArray:
    """For every category the mean over the others that the row may have; of several rows, at most the
    worst.
    """
    k, coin, gaussian = prior.categories, CoinPrior(share=1 / prior.categories), not noise.laplace.any()
    if not single:
        if gaussian:
            information = _about_two_categories(G, block, noise, k)
            bound = coin.lower(Seen(information=information, linear_information=np.zeros_like(information)))
        else:  # of every row the two categories that lose most: which one it has may differ from row to row
            loss = (block.times * block.sums(noise.loss, 1)).reshape(len(block), -1, k)
            bound = np.exp(-np.sort(loss, axis=2)[:, :, -2:].sum(axis=(1, 2)))
        return np.repeat(bound[:, None], k, axis=1)
    bounds, alike = np.zeros((2, len(block), k)), block.alike.astype(np.float64)
    for a, b in itertools.permutations(range(k), 2):
        apart = np.maximum(G[:, a, a] + G[:, b, b] - 2 * G[:, a, b], 0.0)
        bounds[:, :, a] += np.stack(coin.lower_bounds(apart, alike, gaussian)) / (k - 1)
    return np.asarray(bounds.max(axis=0))


def _about_two_categories(G: FloatArray, block: UnitBlock, noise: RowNoise, k: int) -> FloatArray:
    """At least the information about rows that are of one category or each of another one that is told.

    Numbers that count one category each tell no more than the two largest eigenvalues of single categories.
    Of a number that counts several, each row is seen as it is or not at all: no more than all rows together
    are.
    """
    if noise.shared:  # (x − y)ᵀΣ⁻¹(x − y) is at most 2 xᵀΣ⁻¹x + 2 yᵀΣ⁻¹y
        return np.asarray(2 * np.trace(G, axis1=1, axis2=2))
    numbers, (kinds, columns, width) = noise.information.size, block.rows.shape
    each = block.rows.reshape(kinds, columns // k, k * width)
    order = np.argsort(each, axis=2, kind="stable")
    each = np.take_along_axis(each, order, axis=2)
    again = np.zeros(each.shape, dtype=np.bool_)
    again[:, :, 1:] = (each[:, :, 1:] == each[:, :, :-1]) & (each[:, :, 1:] < numbers)
    several = np.zeros(numbers, dtype=np.bool_)
    several[each[again]] = True
    if several.any():
        _, G = replace(noise, information=np.where(several, 0.0, noise.information)).about(block)
    single = [eigenvalues_at_most(np.ascontiguousarray(G[:, c::k, c::k])) for c in range(k)]
    most = np.asarray(np.sort(single, axis=0)[-2:].sum(axis=0))
    if not several.any():
        return most
    once = replace(
        block,
        rows=np.where(again, numbers, each),
        weights=np.take_along_axis(block.weights.reshape(each.shape), order, axis=2),
        times=block.times[:, ::k],
    )
    _, G = replace(noise, information=np.where(several, noise.information, 0.0)).about(once)
    if not block.signed:  # entries of positive tables that vanish lower their norm
        return np.asarray(most + eigenvalues_at_most(G))
    return np.asarray(most + np.trace(G, axis1=1, axis2=2))
