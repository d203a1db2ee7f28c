r"""What a design exposes of every unit: three passes over the units, whatever they are and wherever they are.

1. products of rows; 2. the same weighted by precision, for priors with a density; 3. every unit's bracket.

What is asked of a unit with r rows of k columns each: for each of the k, the sharpest direction over the r
rows. Of a record that is its value, of a category each of its indicators, of a person the sharpest feature
of their rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse

from sightline.arrays import EXACT, MOST_SQUARE, NOTICEABLE, ROUNDING, FloatArray, IndexArray
from sightline.bounds.coin import logistic_upper
from sightline.bounds.few_values import FewValues
from sightline.bounds.fewer_rows import parts, told_last
from sightline.bounds.lines import (
    FEW_ROWS,
    MOST_KINDS,
    among_alike,
    swap_bounds,
    with_alike,
    with_lines,
)
from sightline.bounds.listed_worlds import by_listed_worlds
from sightline.bounds.unit_brackets import Hiding, RowSolver, UnitBrackets
from sightline.errors import InvalidInput
from sightline.format import shown_seconds
from sightline.numerics.balls import BALL_ROWS
from sightline.progress import report, reported
from sightline.units.dense_units import TableUnits, tabled
from sightline.units.design import Design
from sightline.units.equal_slices import EqualSlices
from sightline.units.row_decisions import AskedUnits, Decided
from sightline.units.row_products import SPARSE_FROM, PrecisionRange, ProductSums, RowProducts
from sightline.units.row_solver import DenseSolver, coarse_units
from sightline.units.sparse_row_solver import SparseSolver, chosen_route
from sightline.units.unit_block import BoolArray
from sightline.units.units import Units
from sightline.values import frozen

# Of dense tables with so many entries, weights of their own cost twice the time of everything else: they are
# left out where precisions differ by no more than this factor.
_LARGE_TABLE, _NEARLY_EVEN = 1 << 18, 1.02
ATTACKS = ("linear", "rounded", "posterior")  # whose risk an upper end is
_ENDS = ("lower", "by", "rounded", "posterior")


class Bound(IntEnum):
    """Which proof gives a lower end."""

    HIDDEN = 0  # each record by itself: a number behind the others; few values with others known, or n alike
    LINES = 1  # along chords of values, in small designs
    ALIKE = 2  # people whom no number tells apart
    WORLDS = 3  # all worlds of a small component, listed
    GENIES = 4  # everybody but one is told, for all at once
    MOVES = 5  # the same for changes of several rows
    TOLD_LAST = 6  # numbers that tell next to nothing come last
    NOISE = 7  # whatever is known of all others
    WALK = 8  # simulated from the truth
    INTERVALS = 9  # of rounded and blank counts

    @property
    def text(self) -> str:
        """Its name in a result."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitExposure:
    """What is exposed: arrays over kinds × what is asked. Decisions and attacks are made when they are
    asked for.
    """

    design: Design
    solved: Callable[[], RowSolver]  # the solver: where no attack is claimed, few results ask for it
    lower: FloatArray
    upper: FloatArray
    error: FloatArray  # of the upper end, relatively
    near: BoolArray  # kinds that may be identifiable
    information: FloatArray
    given: Any = False  # what exact numbers give away by themselves
    # Upper ends by attacks on few values that are not linear: rounded softly, and the posterior mean.
    rounded: Any = np.inf
    posterior: Any = np.inf
    by: Any = int(Bound.HIDDEN)  # which of the bounds gives the lower end

    def raised(self, lower: FloatArray, bound: Any) -> Self:
        """With better lower ends, and the bound, or one for each, that gives those that rise noticeably."""
        return replace(self, lower=lower, by=np.where(lower > self.lower * (1 + NOTICEABLE), bound, self.by))

    @property
    def solver(self) -> RowSolver:
        """What the rows say together."""
        return self.solved()

    @property
    def rank(self) -> int:
        """Directions that the answers see."""
        return self.solver.rank

    @property
    def products(self) -> ProductSums:
        """M."""
        return self.solver.sums

    def without_attacks(self) -> Self:
        """The lower ends alone: no attack on these numbers is claimed, and nobody is identifiable."""
        return replace(
            self,
            upper=np.ones_like(self.upper),
            near=np.zeros_like(self.near),
            given=False,
            rounded=np.inf,
            posterior=np.inf,
        )

    @cached_property
    def upper_by_attack(self) -> FloatArray:
        """Upper ends, a table for each of :data:`ATTACKS`."""
        return np.stack(
            [self.upper, *(np.minimum(self.upper, one) for one in (self.rounded, self.posterior))]
        )

    @property
    def upper_of_best(self) -> FloatArray:
        """The upper end by the best attack that is known."""
        return np.asarray(self.upper_by_attack.min(axis=0))

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
        asked, solver, functional, _ = self._attack_on(kind, column)
        attacks = solver.weights(asked, functional)
        if few and isinstance(solver, SparseSolver):
            return np.asarray(attacks.weights.toarray()[:, 0])
        return np.asarray(solver.on_all_rows(attacks)[:, 0])

    def feature(self, kind: int, column: int = 0) -> FloatArray:
        """The functional over the columns of one kind that :meth:`recipe` gives."""
        asked, _, functional, unit = self._attack_on(kind, column)
        size = asked.counts.shape[1]
        return np.asarray(functional.toarray()[unit * size : (unit + 1) * size, 0])

    def _attack_on(self, kind: int, column: int) -> tuple[AskedUnits, RowSolver, Any, int]:
        """The units asked about that a kind is among, their solver, what is asked, and which unit it is."""
        for asked, solver, decided in self._answers:
            if (where := np.flatnonzero(asked.kinds == kind)).size:
                if asked.one_row:
                    functional = asked.functional(where[:1], np.array([column]))
                elif kind in self._sharpest:
                    functional = self._sharpest[kind]
                else:
                    functional = solver.sharpest(asked, where[:1], decided.directions)
                    self._sharpest[kind] = functional
                return asked, solver, functional, int(where[0])
        raise InvalidInput(f"expected a unit of which something is identifiable, got unit {kind}")

    @cached_property
    def _sharpest(self) -> dict[int, Any]:
        """Of kinds with several rows the feature that is seen best: recipes ask for it again."""
        return {}

    @cached_property
    def _asked(self) -> list[AskedUnits]:
        """Kinds that may be identifiable, those with as many columns together."""
        kinds, prior, numbers = np.flatnonzero(self.near), self.design.prior, self.design.units.numbers
        blocks = self.design.units.choose(kinds).blocks() if kinds.size else ()
        return [AskedUnits.of(block, kinds[block.kinds], prior.kernel, numbers) for block in blocks]

    @cached_property
    def _solvers(self) -> list[RowSolver]:
        """The solver; and a dense one for what a sparse one leaves undecided, unless that is too much."""
        solver, design = self.solver, self.design
        if isinstance(solver, DenseSolver) or solver.numbers > MOST_SQUARE:
            return [solver]
        sums = replace(solver.sums, matrix=solver.sums.matrix.toarray())
        dense = DenseSolver(units=design.units, sums=sums, noise=design.noise, prior=design.prior)
        return [solver, dense]

    @cached_property
    def _answers(self) -> list[tuple[AskedUnits, RowSolver, Decided]]:
        """What was asked, who answered, and the answer: what sparse proofs leave open is eliminated."""
        answers = []
        for asked in reported(self._asked, "deciding who can be told apart"):
            for solver in self._solvers:
                decided = solver.decide(asked)
                if not decided.undecided.any():
                    break
            answers.append((asked, solver, decided))
        return answers

    @cached_property
    def _decided(self) -> Decided:
        directions = np.zeros(len(self.near), dtype=np.intp)
        undecided = np.zeros(len(self.near), dtype=np.bool_)
        identifiable = np.zeros(self.lower.shape, dtype=np.bool_)
        for asked, _, decided in self._answers:
            directions[asked.kinds], undecided[asked.kinds] = decided.directions, decided.undecided
            identifiable[asked.kinds] = decided.identifiable
        return Decided(directions=directions, identifiable=identifiable, undecided=undecided)

    @cached_property
    def _attacks(self) -> tuple[FloatArray, float]:
        errors, worst = np.full(self.lower.shape, np.inf), 0.0
        for asked, solver, decided in self._answers:
            if asked.one_row:
                unit, column = np.nonzero(decided.identifiable)
                functionals = asked.functional(unit, column)
            else:  # the sharpest feature of persons with several rows
                unit = np.flatnonzero(decided.directions > 0)
                functionals = solver.sharpest(asked, unit, decided.directions)
                column = np.zeros(unit.size, dtype=np.intp)
            if unit.size:
                attacks = solver.weights(asked, functionals)
                errors[asked.kinds[unit], column] = attacks.rmse
                worst = max(worst, float(attacks.relative_error.max()))
        return np.where(self.given, 0.0, errors), worst


@dataclass(frozen=True, kw_only=True, eq=False)
class SlicedExposure(UnitExposure):
    """That of a design with equal slices, by the design of their sums (see :class:`EqualSlices`)."""

    slices: EqualSlices
    sums: UnitExposure

    @classmethod
    def of(cls, design: Design, slices: EqualSlices, sums: UnitExposure) -> SlicedExposure:
        """Every kind as its equal among those of the sums."""
        of_equals = {
            name: getattr(sums, name)[slices.kind_of] for name in ("lower", "upper", "error", "near")
        }
        return cls(
            **of_equals,
            design=design,
            solved=sums.solved,
            information=sums.information[slices.kind_of],
            slices=slices,
            sums=sums,
        )

    def without_attacks(self) -> Self:
        return replace(super().without_attacks(), sums=self.sums.without_attacks())

    @property
    def rank(self) -> int:
        """Directions that the answers see: m − 1 slices have those of their sum, and m − 2 times those of one
        by itself.
        """
        several = np.flatnonzero(self.slices.summed > 1)
        solver = unit_brackets(self.sums.design.take(several), hidden=False).solver
        independent = several[solver.kept]
        return self.sums.rank + int((self.slices.summed[independent] - 1).sum())

    @cached_property
    def products(self) -> ProductSums:
        units = self.design.units
        assert isinstance(units, Units)
        counts = np.repeat(units.people, np.diff(units.starts)) * units.times
        table = units.table()
        matrix = (table.T @ (sparse.diags_array(counts.astype(np.float64)) @ table)).tocsr()
        return replace(self.sums.products, matrix=matrix, pairs=0, placed=None, columns=counts.size)

    def recipe(self, kind: int, column: int = 0, *, few: bool = False) -> FloatArray:
        weights = self.sums.recipe(int(self.slices.kind_of[kind]), column, few=few)
        return np.asarray(weights[self.slices.sum_of][self.slices.seen_by(kind)])

    def feature(self, kind: int, column: int = 0) -> FloatArray:
        units, same = self.design.units, int(self.slices.kind_of[kind])
        assert isinstance(units, Units)
        places = self.slices.column_of[units.starts[kind] : units.starts[kind + 1]]
        return np.asarray(self.sums.feature(same, column)[places - self.slices.units.starts[same]])

    @cached_property
    def _decided(self) -> Decided:
        """As of the equals; what is identifiable between the slices of a sum comes on top."""
        decided, summed = self.sums._decided, self.slices.summed
        seen = np.flatnonzero(self.sums.directions > 0)
        directions = decided.directions.copy()
        for copies in np.unique(summed[summed > 1]) if seen.size else ():
            between = attacked(self.sums.design.take(summed == copies), seen).directions
            directions += between * int(copies - 1)
        equal = self.slices.kind_of
        alone = self.slices.own_slice >= 0
        return Decided(
            directions=np.where(alone, decided.directions[equal], directions[equal]),
            identifiable=decided.identifiable[equal],
            undecided=decided.undecided[equal],
        )

    @cached_property
    def _attacks(self) -> tuple[FloatArray, float]:
        errors, worst = self.sums._attacks
        errors = errors[self.slices.kind_of]
        return np.where(self.given, 0.0, errors), worst


@frozen
class _Asked:
    """What is asked for: ends that take long are for those below the limit, or for the least end alone."""

    upper: bool
    limit: float
    least: bool
    attacks: bool
    each_alone: bool = False  # only what each record keeps by itself, and among those alike


def assess(
    design: Design,
    *,
    upper: bool = True,
    limit: float = np.inf,
    least: bool = False,
    attacks: bool = True,
) -> UnitExposure:
    """Once. Strangers and numbers that tell nothing change nothing that is said of a person.

    Ends that take long are for those below the limit; or for the least end alone, and then for nobody if all
    keep the limit without them. Without ``attacks`` lower ends alone are claimed, of numbers that are
    published less exactly than the design says.
    """
    asked = _Asked(upper=upper, limit=limit, least=least, attacks=attacks)
    if not len(design.units):
        return _of_nobody(design)
    exposure = _assessed_by_parts(design, asked)
    return exposure if attacks else exposure.without_attacks()


def _assessed_by_parts(design: Design, asked: _Asked) -> UnitExposure:
    exposure = _all_rows(design, asked)
    ends: dict[str, Any] = {
        name: np.broadcast_to(getattr(exposure, name), exposure.lower.shape).copy() for name in _ENDS
    }
    several = False
    for rows, kinds in parts(design):
        several, of_part = True, _rows_in_order(design.take(rows).knowing(~kinds), asked)
        for name, end in ends.items():
            end[kinds] = getattr(of_part, name)
    return replace(exposure, **ends) if several else _rows_in_order(design, asked, exposure)


def _rows_in_order(design: Design, asked: _Asked, found: UnitExposure | None = None) -> UnitExposure:
    """Of a design in one part. Rows that tell next to nothing may be told last: what is left then counts."""
    found = _all_rows(design, asked) if found is None else found
    for first, share in told_last(design):
        if np.any(found.lower < share * found.upper):
            found = _with_some_last(design, asked, found, first, share)
    return found


def _with_some_last(
    design: Design, asked: _Asked, found: UnitExposure, first: BoolArray, share: float
) -> UnitExposure:
    """What is left where all rows but the first are told last, which leave a share of what these leave."""
    fewer_rows = design.take(first)
    if isinstance(fewer_rows.units, Units):
        fewer_rows = replace(fewer_rows, units=fewer_rows.units.without_repeated_columns())
    fewer = _all_rows(fewer_rows, asked)
    better = np.minimum(np.maximum(found.lower, share * fewer.lower), found.upper)
    return replace(
        found.raised(better, Bound.TOLD_LAST),
        posterior=np.minimum(found.posterior, np.maximum(fewer.upper_of_best, found.lower)),
    )


def _all_rows(design: Design, asked: _Asked) -> UnitExposure:
    """All rows at once. Exact numbers are known to the attacker: lower ends rely on no noise of theirs."""
    if asked.least and asked.upper and asked.limit < np.inf:
        found = _all_rows(design, replace(asked, upper=False, each_alone=True))
        if found.least >= asked.limit:
            return found
    if not asked.attacks and design.noise.exact.all():
        found = _lower_ends_of_exact(design)
    else:
        found = _with_exact(design, _assess(design, asked.upper), asked.upper)
    found = found.raised(with_alike(design.units, design.noise, found.lower, found.upper), Bound.ALIKE)
    if asked.each_alone:
        return found
    found = of_few_values(found, limit=asked.limit, least=asked.least)
    if not design.prior.fair or not asked.attacks:
        return found
    linear = None if isinstance(found, SlicedExposure) else found.solver.linear
    rounded = rounded_guesses(design, linear, found.upper, found.error)
    return replace(found, rounded=np.maximum(np.minimum(rounded, found.upper), found.lower))


def of_few_values(found: UnitExposure, *, limit: float = np.inf, least: bool = False) -> UnitExposure:
    """Lower ends of units with few values a row, improved where brackets are wide, by all genies at once and
    by listed worlds; and the upper ends that these give.
    """
    design, lower, upper = found.design, found.lower, found.upper
    wide = np.any(upper > lower * (1 + NOTICEABLE), axis=1)
    few = FewValues.of_design(design) if wide.any() else None
    if few is None:
        return replace(found, posterior=upper)
    listed = few.person >= 0
    persons, asked = few.person[listed], np.zeros(len(few.kinds), dtype=np.bool_)
    asked[few.person[listed & wide]] = True
    low = np.ones(len(few.kinds))
    np.minimum.at(low, persons, lower[listed].min(axis=1))
    worlds, most = by_listed_worlds(few, asked)
    alone, genies = few.alone(asked, low), few.by_genies(asked)
    low = np.maximum(low, np.maximum(np.maximum(worlds, alone), genies).min(axis=1))
    every = np.stack([worlds, alone, genies, few.by_moves(asked, low, limit=limit, least=least)])
    bounds = np.array([Bound.WORLDS, Bound.HIDDEN, Bound.GENIES, Bound.MOVES])[every.argmax(axis=0)]
    better, by, posterior = lower.copy(), np.zeros(lower.shape, dtype=np.intp), upper.copy()
    better[listed] = np.maximum(lower[listed], np.minimum(every.max(axis=0)[persons], upper[listed]))
    by[listed] = bounds[persons]
    posterior[listed] = np.minimum(upper[listed], most[persons])
    return replace(found.raised(better, by), posterior=np.maximum(posterior, better))


def _of_nobody(design: Design) -> UnitExposure:
    """Without a unit nothing is exposed: the attacker knows everyone, or no number is about anyone."""
    k, numbers = design.prior.categories, design.noise.variance.size
    nothing, M = np.zeros((0, k)), np.zeros((numbers, numbers))
    sums = ProductSums(matrix=M, pairs=0, people=0.0, columns=0, peak=0.0, whole=True, kernel=k)
    return UnitExposure(
        design=design,
        solved=_given(DenseSolver(units=design.units, sums=sums, noise=design.noise, prior=design.prior)),
        lower=nothing,
        upper=nothing,
        error=nothing,
        near=np.zeros(0, dtype=np.bool_),
        information=np.zeros(0),
    )


def _given(solver: RowSolver) -> Callable[[], RowSolver]:
    return lambda: solver


def _lower_ends_of_exact(design: Design) -> UnitExposure:
    """Of exact numbers alone, without an attack: people whom nothing tells apart hide each other.

    Decisions and attacks are what takes long with thousands of exact numbers, and none is asked for. Nothing
    is factorised but for the rank, if somebody reads it.
    """
    shape = len(design.units), design.prior.categories
    units = design.units
    listed = units if isinstance(units, Units) else units.choose(np.arange(shape[0]))
    touched = np.add.reduceat(np.abs(listed.table()).sum(axis=1), listed.starts[:-1]) > 0
    among = np.maximum(among_alike(units), swap_bounds(design)) * design.noise.share
    return UnitExposure(
        design=design,
        solved=cache(lambda: unit_brackets(design, hidden=False).solver),
        lower=np.broadcast_to(np.where(touched, among, 1.0)[:, None], shape).copy(),
        upper=np.ones(shape),
        error=np.zeros(shape),
        near=np.zeros(shape[0], dtype=np.bool_),
        information=np.where(touched, np.inf, 0.0),
        by=int(Bound.ALIKE),
    )


def _with_exact(design: Design, found: UnitExposure, upper: bool) -> UnitExposure:
    """What exact numbers change: an attacker knows them."""
    exact = design.noise.exact
    if not exact.any():
        return found
    alone, others = _assess(design.take(exact), True), np.ones_like(found.lower)
    inside = alone.information > 0
    if not inside.all() and not exact.all():
        others[~inside] = _assess(design.take(~exact).knowing(inside), upper).lower
    among = np.maximum(among_alike(design.units), swap_bounds(design))[:, None]
    single = (design.units.people == 1)[:, None]
    given_away = alone.identifiable
    if design.prior.categories == 1:  # of several rows of a person any feature
        given_away = given_away | (alone.directions > 0)[:, None]
    high = np.where(given_away & single, 0.0, found.upper)
    lower = np.minimum(np.where(inside[:, None], among * design.noise.share, others), high)
    by = np.where(inside[:, None], int(Bound.ALIKE), int(Bound.HIDDEN))
    return replace(found, lower=lower, upper=high, given=alone.identifiable, by=by)


def _assess(design: Design, upper: bool) -> UnitExposure:
    """The three passes, as if exact numbers had noise. Equal slices are summed up before."""
    equal = design.equal_slices() if design.units.numbers >= SPARSE_FROM else None
    if equal is not None and equal.slices is not None:
        small = design.summed(equal)
        sums = exposure_of(small, replace(unit_brackets(small), upper=upper), alone=False)
        return SlicedExposure.of(design, equal.slices, sums)
    return exposure_of(design, replace(unit_brackets(design), upper=upper))


def exposure_of(design: Design, brackets: UnitBrackets, *, alone: bool = True) -> UnitExposure:
    """The last pass over a design's units; if not ``alone``, some of those that the brackets are for."""
    passed, solver = _as_read(design).units.run(brackets), brackets.solver
    kinds = len(passed["lower"])
    by: Any = int(Bound.HIDDEN)
    if brackets.upper:
        coarse = coarse_units(np.maximum(passed["error"].max(axis=1), passed["loose"]), solver.numbers)
        small = 0 < coarse.size <= MOST_KINDS and solver.numbers <= BALL_ROWS
        for again_in_balls in brackets.in_balls if small else ():
            units = design.units.choose(coarse)
            one_column = np.flatnonzero(np.diff(units.starts) == 1)
            if one_column.size:
                again = units.choose(one_column).run(again_in_balls)
                for name in ("lower", "upper", "error"):
                    passed[name][coarse[one_column]] = again[name]
        if alone:
            first = passed["lower"]
            passed["lower"] = with_lines(design, first, passed["upper"])
            by = np.where(passed["lower"] > first, int(Bound.LINES), by)
    return UnitExposure(
        design=design,
        solved=_given(solver),
        lower=passed["lower"],
        upper=passed["upper"],
        error=passed["error"],
        near=passed.get("near", np.ones(kinds, dtype=np.bool_)),
        information=passed.get("information", np.full(kinds, np.nan)),
        by=by,
    )


def _as_read(design: Design) -> Design:
    """With its units as passes read them."""
    known = design.made.table
    if known is None or known[0] is not design.units:
        design.made.table = known = design.units, tabled(design.units)
    return replace(design, units=known[1])


def lower_of_some(design: Design, kinds: IndexArray) -> FloatArray:
    """The lower ends of some kinds, among all others, without those that need other units' columns."""
    some = replace(design, units=design.units.choose(kinds))
    # A lower end is proved without the upper one, which takes as long again.
    exposure = exposure_of(some, replace(unit_brackets(design), upper=False), alone=False)
    return np.maximum(exposure.lower, among_alike(design.units)[kinds, None] * design.noise.share)


def attacked(design: Design, kinds: IndexArray) -> UnitExposure:
    """Decisions and attacks on some kinds alone: no pass over the others, no brackets."""
    solver, shape = unit_brackets(design, hidden=False).solver, (len(design.units), design.prior.categories)
    near = np.zeros(shape[0], dtype=np.bool_)
    near[kinds] = True
    return UnitExposure(
        design=design,
        solved=_given(solver),
        lower=np.zeros(shape),
        upper=np.ones(shape),
        error=np.zeros(shape),
        near=near,
        information=np.full(shape[0], np.nan),
    )


def unit_brackets(design: Design, hidden: bool = True) -> UnitBrackets:
    """The third pass, from the first two. The products do not depend on the noise: they are made once."""
    design = _as_read(design)
    prior, noise, made = design.prior, design.noise, design.made
    if (sums := made.products) is None:
        made.products = sums = RowProducts.unweighted(design.units, prior, noise).of(design.units)
    report("factorising the products", 0.0)
    if (route := made.route) is None:
        made.route = route = chosen_route(sums)
        route.cost.require_memory()
        if route.cost.seconds > 30:  # say so before: nothing that comes after can
            text = f"about {shown_seconds(route.cost.seconds)}"
            report(f"factorising {route.cost.rows:,} numbers, {text}", 0.0)
    pairs = None if noise.shared else route.pairs
    solver: RowSolver
    if pairs is not None:
        solver = SparseSolver(sums=sums, noise=noise, prior=prior, pairs=pairs)
    else:
        if not isinstance(sums.matrix, np.ndarray):  # the factor fills in, or rows share their noise
            sums = replace(sums, matrix=sums.matrix.toarray(), pairs=0)
            if route.pairs is None:
                made.products = sums
        solver = DenseSolver(units=design.units, sums=sums, noise=noise, prior=prior, once=made.rows)
    if not prior.density or not hidden:
        return UnitBrackets(solver=solver)
    first = RowProducts(prior=prior, noise=noise, dense=pairs is None)
    ends = design.units.run(PrecisionRange(prior=prior, noise=noise))
    least, most = ends["least"] * (1 - 1e-9), ends["most"] * (1 + 1e-9)
    even = Hiding(
        solver=replace(solver, weighted=(sums, float(most))),
        weights=replace(first, unit=float(most), even=True),
    )
    evenly = UnitBrackets(solver=even.solver, hidings=(even,))
    large = len(design.units) * design.units.numbers > _LARGE_TABLE and isinstance(design.units, TableUnits)
    if most <= least * (_NEARLY_EVEN if large else 1 + ROUNDING):
        return evenly
    # Whole numbers of which sums of products are exact, in any order of the units.
    bits = math.floor(math.log2(EXACT / sums.people / max(sums.peak, 1.0) ** 2))
    if bits <= 0 or not sums.whole:
        return evenly
    weights = replace(first, unit=2.0**bits * float(least))
    best = Hiding(solver=replace(solver, weighted=(weights.of(design.units), weights.unit)), weights=weights)
    return UnitBrackets(solver=best.solver, hidings=(best, even))


def rounded_guesses(design: Design, linear: Any, upper: FloatArray, error: FloatArray) -> FloatArray:
    """Upper ends by the best linear attack, rounded softly: of a yes or no, and of a category.

    By :func:`~sightline.bounds.coin.logistic_upper`, from the share that the linear attack leaves of one row,
    whoever the other rows belong to: no larger than that attack's own. A person with several rows keeps no
    more of the sharpest feature than of any single row, so the attack's form is read for them.
    """
    noise, units, k = design.noise, design.units, design.prior.categories
    if noise.share < 1:
        return upper
    law = noise.information * noise.variance  # 1 of Gaussian noise alone, 2 of Laplace noise
    if np.any(np.abs(law - np.where(noise.laplace > 0, 2.0, 1.0)) > 1e-9):
        return upper
    gaussian, share = not noise.laplace.any(), upper * (1 + np.minimum(error, 1e9))
    if isinstance(units, Units):
        share[~units.single] = 1.0
        # What is left of a single row is no less: where rounding lowers that of all rows nothing, nor of one.
        lowered = logistic_upper(upper, gaussian=gaussian, values=max(k, 2)) < upper
        several = np.flatnonzero(~units.single & np.any(lowered, axis=1))
        read = linear is not None and several.size > 0
        for block in units.choose(several).blocks(FEW_ROWS * k) if read else ():
            share[several[block.kinds]] = _of_single_rows(design, linear, block)
    elif not isinstance(units, TableUnits):
        return upper
    return np.minimum(upper, logistic_upper(share, gaussian=gaussian, values=max(k, 2)))


def _of_single_rows(design: Design, linear: Any, block: Any) -> FloatArray:
    """Kinds × what is asked: what the linear attack leaves of the single row that it sees best."""
    k, C = design.prior.categories, design.prior.scale * design.prior.kernel
    left, off = linear.left(block.rows_apart(k), C)
    kept = (np.diagonal(left, axis1=1, axis2=2) + off[:, None]) / C[0, 0]
    # Of n rows alike it sees their sum over √n, and of each an n-th.
    times = block.times[:, ::k].reshape(-1, 1)
    each = np.where(times > 0, 1 - (1 - kept) / np.maximum(times, 1), 1.0)
    return np.asarray(each.reshape(len(block), -1, k).min(axis=1))
