"""What a design exposes of every unit: three passes over the units, whatever they are and wherever they are.

1. products of rows; 2. the same weighted by precision, for priors with a density; 3. every unit's bracket.

What is asked of a unit with r rows of k columns each: for each of the k, the sharpest direction over the r
rows. Of a record that is its value, of a category each of its indicators, of a person the sharpest feature
of their rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidInput
from sightline.labeled.bounds.coin import CoinPrior
from sightline.labeled.bounds.target import Seen, TargetPrior
from sightline.labeled.other_units import swap_bounds, with_chords
from sightline.labeled.row_products import InformationRange, ProductSums, RowProducts
from sightline.labeled.row_solver import COARSE, AskedUnits, Decided, DenseSolver
from sightline.labeled.sparse_row_solver import RowPairs, SparseSolver
from sightline.labeled.unit_design import Design, RowNoise, UnitPrior
from sightline.labeled.units import Arrays, BoolArray, UnitBlock
from sightline.numerics.residuals import eigenvalues_at_most, gamma

RowSolver = DenseSolver | SparseSolver
_TINY = float(np.finfo(np.float64).tiny)
_NEAR = 1 - 1e-9  # a leverage that may be 1; what is below it by more than its error is refuted
_BALL_ROWS, _BALL_UNITS = 400, 2_000  # balls: of designs with so many rows, for so many units
_MOST_BITS, _FEWEST_BITS = 40, 12  # of whole weights; with fewer, one precision for all rows is as sharp
_ROUGH = 1024  # a weight below this is rounded by more than one in a thousand
_MOST_FACTOR, _LEAST_FACTOR = 28.0, -14.0  # logarithms of factors on noise


@dataclass(frozen=True, kw_only=True, eq=False)
class _Hidden:
    """What is left, at least, if every row around is hidden as a Gaussian of precision c."""

    covariance: FloatArray  # of every kind
    error: FloatArray  # in any unit direction
    variance: FloatArray  # 1/c of each row of a kind; a row with no weight counts as known


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitBrackets:
    """The third pass: the bracket of every unit, and whether its leverage is so large that it may be
    identifiable.
    """

    solver: RowSolver
    weights: RowProducts | None  # what the hidden form was weighted by
    evenly: UnitBrackets | None = None  # where weights were rounded too much: one precision for all rows
    upper: bool = True  # whether upper ends are asked for

    def of_block(self, block: UnitBlock) -> Arrays:
        prior, noise = self.solver.prior, self.solver.noise
        k = prior.categories
        r = block.times.shape[1] // k
        single = r == 1 and block.single
        G = noise.about(block)
        upper, error = self._upper(block, r, k) if self.upper else np.ones((2, len(block), k))
        hidden = self._hidden(block, r)
        if k > 1:
            lower = _of_category(G, block, noise, prior, single)
        elif single:
            lower = self._of_record(G[:, 0, 0], block, upper[:, 0], hidden)[:, None]
        else:
            lower = _of_features(G, block, noise, prior.target)
            if hidden is not None:
                least = -eigenvalues_at_most(-hidden.covariance) - hidden.error
                lower = np.maximum(lower, least / prior.scale)
            lower = lower[:, None]
        touched = np.trace(G, axis1=1, axis2=2)[:, None] > 0
        lower = np.where(touched, np.minimum(np.maximum(lower, 0.0), upper), 1.0)
        found = {"kinds": block.kinds, "lower": lower * noise.share, "upper": upper, "error": error}
        found["loose"] = (
            np.zeros(len(block))
            if hidden is None
            else hidden.error / np.maximum(hidden.covariance[:, 0, 0], _TINY)
        )
        if self.upper:
            leverage, off = self.solver.leverage.read(block)
            seen = np.einsum("nij,ij->n", leverage, np.kron(np.eye(r), prior.kernel)) + 2 * k * off
            found |= {
                "near": ~(block.people * seen < _NEAR) & touched[:, 0],
                "information": G.max(axis=(1, 2)),
            }
        return found

    def merged(self, parts: Sequence[Arrays]) -> Arrays:
        order = np.argsort(np.concatenate([part["kinds"] for part in parts]))
        return {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}

    @property
    def in_balls(self) -> UnitBrackets | None:
        """The same with every digit; ``None`` where products are not exact."""
        solver = self.solver.in_balls if isinstance(self.solver, DenseSolver) else None
        if solver is None:
            return None
        return replace(self, solver=solver, evenly=None if self.evenly is None else self.evenly.in_balls)

    def _upper(self, block: UnitBlock, r: int, k: int) -> tuple[FloatArray, FloatArray]:
        """What the best linear attack leaves of each of the k, in the sharpest direction over the rows."""
        C = np.asarray(
            self.solver.prior.scale * np.kron(np.eye(r), self.solver.prior.kernel), dtype=np.float64
        )
        left, off = self.solver.linear.left(block, C)
        own = np.einsum("nrcsc->ncrs", left.reshape(len(block), r, k, r, k)) / C[0, 0]
        least = np.linalg.eigvalsh(own)[..., 0] if r > 1 else own[..., 0, 0]
        error = np.minimum(off[:, None] / C[0, 0] + (gamma(8 * r) if r > 1 else 0.0), 1.0)
        upper = np.clip(least + error, _TINY, 1.0)
        return upper, np.where(error < upper, 2 * error / np.maximum(upper - 2 * error, _TINY), np.inf)

    def _hidden(self, block: UnitBlock, r: int) -> _Hidden | None:
        if self.weights is None or self.solver.hidden is None:
            return None
        levels = self.weights.levels(block)
        variance = levels / self.weights.unit
        C = np.einsum("nr,rs->nrs", variance, np.eye(r))
        left, off = self.solver.hidden.left(block, C)
        rough = (levels < _ROUGH).any(axis=1) & (not self.weights.even) & (r == 1)
        if rough.any() and self.evenly is not None and (even := self.evenly._hidden(block, r)) is not None:
            left[rough], off[rough] = even.covariance[rough], even.error[rough]
            variance[rough] = even.variance[rough]
        return _Hidden(covariance=left, error=off, variance=variance)

    def _of_record(
        self, G: FloatArray, block: UnitBlock, upper: FloatArray, hidden: _Hidden | None
    ) -> FloatArray:
        """The lower end of units of one row, by the prior's own bounds."""
        prior, noise = self.solver.prior.target, self.solver.noise
        hidden_information = precision = laplace_answers = laplace_information = None
        if hidden is not None:
            least = hidden.covariance[:, 0, 0] - hidden.error
            fine = (least > hidden.error) & (hidden.variance[:, 0] > 0)
            precision = 1 / np.where(fine, hidden.variance[:, 0], 1.0)
            behind = np.maximum(1 / np.maximum(least, _TINY) - precision, 0.0)
            hidden_information = np.where(fine, behind, np.inf)
        if noise.laplace.any():
            laplace_answers = block.sums(noise.laplace, 0)[:, 0]
            own = block.sums(np.where(noise.laplace > 0, noise.information, 0.0), 2)[:, 0]
            own *= 1 - gamma(4 * self.solver.numbers)
            alone = block.sums((noise.laplace == 0).astype(np.float64), 0)[:, 0] == 0
            laplace_information = np.where(alone, G, np.minimum(own, G))
        return prior.lower(
            Seen(
                information=G,
                linear_information=(1 / upper - 1) / prior.variance,
                hidden_information=hidden_information,
                precision=precision,
                alike=block.alike.astype(np.float64),
                laplace_answers=laplace_answers,
                laplace_information=laplace_information,
            )
        )


def _of_features(G: FloatArray, block: UnitBlock, noise: RowNoise, prior: TargetPrior) -> FloatArray:
    """The least share of any feature of several independent rows, if all other persons are known."""
    most = eigenvalues_at_most(G) if G.shape[1] > 1 else G[:, 0, 0]
    gaussian = prior.lower(Seen(information=most, linear_information=np.zeros_like(most)))
    if not noise.laplace.any():
        return gaussian
    loss = prior.width * (block.times * block.sums(noise.loss, 1)).sum(axis=1)
    other = np.maximum(1 / (prior.variance * (most + prior.precision(most))), np.exp(-loss))
    return np.where((block.sums(noise.laplace, 0) == 0).all(axis=1), gaussian, other)


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
    if noise.covariance is not None:  # (x − y)ᵀΣ⁻¹(x − y) is at most 2 xᵀΣ⁻¹x + 2 yᵀΣ⁻¹y
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
        G = replace(noise, information=np.where(several, 0.0, noise.information)).about(block)
    single = [eigenvalues_at_most(np.ascontiguousarray(G[:, c::k, c::k])) for c in range(k)]
    most = np.asarray(np.sort(single, axis=0)[-2:].sum(axis=0))
    if not several.any():
        return most
    weights = None if block.weights is None else block.weights.reshape(each.shape)
    once = replace(
        block,
        rows=np.where(again, numbers, each),
        weights=None if weights is None else np.take_along_axis(weights, order, axis=2),
        times=block.times[:, ::k],
    )
    G = replace(noise, information=np.where(several, noise.information, 0.0)).about(once)
    if weights is None or weights.min() >= 0:  # entries of positive tables that vanish lower their norm
        return np.asarray(most + eigenvalues_at_most(G))
    return np.asarray(most + np.trace(G, axis1=1, axis2=2))


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitExposure:
    """What is exposed: arrays over kinds × what is asked. Decisions and attacks are made when they are
    asked for.
    """

    design: Design
    solver: RowSolver
    lower: FloatArray
    upper: FloatArray
    error: FloatArray  # of the upper end, relatively
    near: BoolArray  # kinds that may be identifiable
    information: FloatArray
    given: BoolArray | None = None  # what exact numbers give away by themselves

    @property
    def least(self) -> float:
        """The least lower end."""
        return float(self.lower.min())

    @property
    def directions(self) -> IndexArray:
        """Independent features of the sums over the people of a kind that are identifiable: exact."""
        return self._decided.directions

    @property
    def identifiable(self) -> BoolArray:
        """Kinds × what is asked: of the sums over the people of a kind; of several rows, their total."""
        return self._decided.identifiable

    @property
    def undecided(self) -> BoolArray:
        """Kinds of which something is neither proved nor refuted."""
        return self._decided.undecided

    @property
    def rmse(self) -> FloatArray:
        """Of the best unbiased attack on each of these sums; of several rows, the sharpest unit feature."""
        return self._attacks[0]

    @property
    def relative_error(self) -> float:
        """A bound on the errors of upper ends and attacks."""
        return max(float(self.error.max(initial=0.0)), self._attacks[1])

    def recipe(self, kind: int, column: int = 0, *, few: bool = False) -> FloatArray:
        """Weights on all rows of the best unbiased attack whose error is :attr:`rmse`.

        With ``few`` those of an unbiased attack on as few rows as are at hand.
        """
        asked, unit = self._asked_of(kind)
        attacks = self.solver.weights(asked, self._functional(asked, unit, column))
        if few and isinstance(self.solver, SparseSolver):
            return np.asarray(attacks.weights.toarray()[:, 0])
        return np.asarray(self.solver.on_all_rows(attacks.weights)[:, 0])

    def feature(self, kind: int, column: int = 0) -> FloatArray:
        """The functional over the columns of one kind that :meth:`recipe` gives."""
        asked, unit = self._asked_of(kind)
        size = asked.counts.shape[1]
        functional = self._functional(asked, unit, column).toarray()[:, 0]
        return np.asarray(functional[unit * size : (unit + 1) * size])

    def _asked_of(self, kind: int) -> tuple[AskedUnits, int]:
        """The units asked about that a kind is among, and which of them it is."""
        for asked in self._asked:
            if (where := np.flatnonzero(asked.kinds == kind)).size:
                return asked, int(where[0])
        raise InvalidInput(f"expected a unit of which something is identifiable, got unit {kind}")

    def _functional(self, asked: AskedUnits, unit: int, column: int) -> Any:
        units = np.array([unit])
        if asked.one_row:
            return asked.functional(units, np.array([column]))
        return self.solver.sharpest(asked, units, self.directions[asked.kinds])

    @cached_property
    def _asked(self) -> list[AskedUnits]:
        """Kinds that may be identifiable, those with as many columns together."""
        kinds, prior, numbers = np.flatnonzero(self.near), self.design.prior, self.design.units.numbers
        blocks = self.design.units.choose(kinds).blocks() if kinds.size else ()
        return [AskedUnits.of(block, kinds[block.kinds], prior.kernel, numbers) for block in blocks]

    @cached_property
    def _decided(self) -> Decided:
        directions = np.zeros(len(self.near), dtype=np.intp)
        undecided = np.zeros(len(self.near), dtype=np.bool_)
        identifiable = np.zeros(self.lower.shape, dtype=np.bool_)
        for asked in self._asked:
            some = self.solver.decide(asked)
            directions[asked.kinds], undecided[asked.kinds] = some.directions, some.undecided
            identifiable[asked.kinds] = some.identifiable
        return Decided(directions=directions, identifiable=identifiable, undecided=undecided)

    @cached_property
    def _attacks(self) -> tuple[FloatArray, float]:
        errors, worst = np.full(self.lower.shape, np.inf), 0.0
        for asked in self._asked:
            if asked.one_row:
                unit, column = np.nonzero(self.identifiable[asked.kinds])
                functionals = asked.functional(unit, column)
            else:  # the sharpest feature of persons with several rows
                unit = np.flatnonzero(self.directions[asked.kinds] > 0)
                functionals = self.solver.sharpest(asked, unit, self.directions[asked.kinds])
                column = np.zeros(unit.size, dtype=np.intp)
            if unit.size:
                attacks = self.solver.weights(asked, functionals)
                errors[asked.kinds[unit], column] = attacks.rmse
                worst = max(worst, float(attacks.relative_error.max()))
        return (errors if self.given is None else np.where(self.given, 0.0, errors)), worst


def assess(design: Design, *, upper: bool = True) -> UnitExposure:
    """Once. Exact numbers are known to the attacker: lower ends rely on no noise of theirs."""
    found, exact = _assess(design, upper), design.noise.exact
    if not exact.any():
        return found
    alone, others = _assess(design.take(exact), True), np.ones_like(found.lower)
    inside = alone.information > 0
    if not inside.all() and not exact.all():
        others[~inside] = _assess(design.take(~exact).knowing(inside), upper).lower
    among = np.maximum(1 - 1 / design.units.alike, swap_bounds(design))[:, None]
    single = (design.units.people == 1)[:, None]
    high = np.where(alone.identifiable & single, 0.0, found.upper)
    lower = np.minimum(np.where(inside[:, None], among * design.noise.share, others), high)
    return replace(found, lower=lower, upper=high, given=alone.identifiable)


def _assess(design: Design, upper: bool) -> UnitExposure:
    """The three passes, as if exact numbers had noise."""
    return exposure_of(design, replace(unit_brackets(design), upper=upper))


def exposure_of(design: Design, brackets: UnitBrackets, *, alone: bool = True) -> UnitExposure:
    """The last pass over a design's units; if not ``alone``, some of those that the brackets are for."""
    passed, solver = design.units.run(brackets), brackets.solver
    kinds = len(passed["lower"])
    if brackets.upper:
        coarse = np.flatnonzero(~(np.maximum(passed["error"].max(axis=1), passed["loose"]) <= COARSE))
        small = 0 < coarse.size <= _BALL_UNITS and solver.numbers <= _BALL_ROWS
        again_in_balls = brackets.in_balls if small else None
        if again_in_balls is not None:
            units = design.units.choose(coarse)
            if np.diff(units.starts).max() == 1:
                again = units.run(again_in_balls)
                for name in ("lower", "upper", "error"):
                    passed[name][coarse] = again[name]
        if alone:
            passed["lower"] = with_chords(design, passed["lower"], passed["upper"])
    return UnitExposure(
        design=design,
        solver=solver,
        lower=passed["lower"],
        upper=passed["upper"],
        error=passed["error"],
        near=passed.get("near", np.ones(kinds, dtype=np.bool_)),
        information=passed.get("information", np.full(kinds, np.nan)),
    )


def unit_brackets(design: Design, hidden: bool = True) -> UnitBrackets:
    """The third pass, from the first two. The products do not depend on the noise: they are made once."""
    prior, noise, made = design.prior, design.noise, design.made
    first = RowProducts(prior=prior, noise=noise)
    if "products" not in made:
        made["products"] = first.of(design.units)
    sums: ProductSums = made["products"]
    solver: RowSolver
    if isinstance(sums.matrix, np.ndarray):
        solver = DenseSolver(units=design.units, sums=sums, noise=noise, prior=prior, made=made)
    else:
        if "pairs" not in made:
            made["pairs"] = RowPairs.of(sums.pairs)
        solver = SparseSolver(sums=sums, noise=noise, prior=prior, pairs=made["pairs"])
    if not prior.density or not hidden:
        return UnitBrackets(solver=solver, weights=None)
    ends = design.units.run(InformationRange(noise=noise))
    least, most = prior.target.precision(np.array([ends["least"], ends["most"]]) * (1 + 1e-9))
    even = UnitBrackets(
        solver=replace(solver, weighted=(sums, float(most))),
        weights=replace(first, unit=float(most), even=True),
    )
    # Whole numbers of which sums of products are exact, in any order of the units.
    bits = min(_MOST_BITS, math.floor(math.log2(2.0**53 / sums.people / max(sums.peak, 1.0) ** 2)))
    if bits < _FEWEST_BITS or not sums.whole:
        return even
    weights = replace(first, unit=2.0**bits * float(least))
    weighted = weights.of(design.units), weights.unit
    return UnitBrackets(solver=replace(solver, weighted=weighted), weights=weights, evenly=even)


def least_factor(design: Design, limit: float, *, close: float = 2e-3) -> float | None:
    """About the least factor on all noise with which everyone keeps a limit, from above; ``None`` if there
    is none.

    Enough against those who know all others is found without any factorisation. Those around hide a record:
    less may do, and every step asks the assessment itself.
    """

    def spare(logarithm: float, hidden: bool = True) -> float:
        scaled = design.with_noise(design.noise.scaled(math.exp(logarithm)))
        if hidden:
            return assess(scaled, upper=False).least - limit
        alone = replace(unit_brackets(scaled, hidden=False), upper=False)
        return float(scaled.units.run(alone)["lower"].min()) - limit

    def spare_if_known(logarithm: float) -> float:
        return spare(logarithm, hidden=False)

    high = _MOST_FACTOR
    if (above := spare_if_known(high)) >= 0:
        high = _root(spare_if_known, _LEAST_FACTOR, high, close, spare_if_known(_LEAST_FACTOR), above)
    above = spare(high)
    if above < 0:
        return None
    low, step = high - 0.25, 0.5
    while (below := spare(low)) >= 0 and low > _LEAST_FACTOR:
        high, above, low, step = low, below, low - step, 2 * step
    return math.exp(low if below >= 0 else _root(spare, low, high, close, below, above))


def _root(
    function: Callable[[float], float], low: float, high: float, close: float, below: float, above: float
) -> float:
    """Where a rising function becomes positive, from above: the secant, and the middle where that is slow."""
    if below >= 0:
        return low
    for step in itertools.count():
        if high - low <= close:
            break
        share = -below / (above - below) if step % 3 < 2 else 0.5
        middle = low + (high - low) * min(max(share, 0.02), 0.98) + close / 4
        value = function(middle)
        low, below, high, above = (middle, value, high, above) if value < 0 else (low, below, middle, value)
    return high
