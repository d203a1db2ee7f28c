"""Where the method of least noise starts and stands: variables, slacks, multipliers, constraints."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csc_array

from sightline.arrays import FloatArray, IndexArray
from sightline.designing.problem import FIXED, NoiseProblem, NotEnough
from sightline.designing.risks import Recipes, RiskAt, Risks, RowLimits, Tangents
from sightline.labeled.units import BoolArray

_MUCH = 0.1  # a constraint uses much of a variable if it uses this share of what the largest user does
_BEYOND = 2.0  # slopes fall with the noise: a broken constraint gets so many times what its slope asks for
_TINY = float(np.finfo(np.float64).tiny)
_NO_ROOM = 1e-15  # a distance to a floor or ceiling that rounding has made zero


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Waypoint:
    """Where the method was: a start for a problem that differs a little."""

    gap: float
    x: FloatArray
    active: IndexArray
    working: tuple[IndexArray, ...]
    lam: tuple[FloatArray, ...]
    g: tuple[FloatArray, ...]
    z: FloatArray
    y: FloatArray
    safe: FloatArray
    bent: float


@dataclass(slots=True, kw_only=True, eq=False)
class Iterate:
    """Where the method stands: variables, slacks and multipliers, and the constraints there."""

    problem: NoiseProblem
    x: FloatArray
    active: IndexArray  # the variables that may be raised
    working: list[IndexArray]  # of each kind, the constraints that take part
    lam: list[FloatArray] = field(default_factory=list)
    g: list[FloatArray] = field(default_factory=list)
    z: FloatArray = field(default_factory=lambda: np.zeros(0))
    y: FloatArray = field(default_factory=lambda: np.zeros(0))
    now: tuple[RiskAt, ...] = ()
    recipes: tuple[Recipes, ...] = ()
    tangents: tuple[Tangents, ...] = ()
    bent: float = np.inf  # by how much of their levels a whole step bends the constraints, from the last step

    @property
    def below(self) -> FloatArray:
        return np.maximum(self.x[self.active] - 1.0, _NO_ROOM)

    @property
    def above(self) -> FloatArray:
        return np.maximum(self.problem.ceilings[self.active] - self.x[self.active], _NO_ROOM)

    @property
    def slack(self) -> FloatArray:
        """The true slacks of the constraints that take part."""
        each = zip(self.now, self.problem.risks, self.working, strict=True)
        return np.concatenate([(now.phi - one.needed)[own] for now, one, own in each])

    def evaluate(self) -> None:
        s = self.problem.variances(self.x)
        self.now = tuple(one.at(s) for one in self.problem.risks)

    def find_recipes(self) -> None:
        self.recipes = tuple(now.recipes(own) for now, own in zip(self.now, self.working, strict=True))

    def find_tangents(self, prices: list[FloatArray]) -> None:
        each = zip(self.now, self.working, self.recipes, prices, strict=True)
        self.tangents = tuple(now.tangents(own, recipes, price) for now, own, recipes, price in each)

    def gradients(self) -> list[FloatArray | csc_array]:
        """The derivative of every constraint that takes part by every variable, kind by kind."""
        found = [
            self.problem.lift.T @ (own.each * one.sign if one.sign < 0 else own.each)
            for own, one in zip(self.tangents, self.problem.risks, strict=True)
        ]
        return [one if isinstance(one, np.ndarray) else csc_array(one) for one in found]

    def used(self) -> FloatArray:
        """What the prices use of every variable's weight."""
        each = zip(self.tangents, self.problem.risks, strict=True)
        total = sum((one.sign * own.total for own, one in each), np.zeros(self.problem.floors.size))
        return np.asarray(self.problem.lift.T @ total)

    def lower_bound(self, used: FloatArray, prices: list[FloatArray]) -> float:
        r"""The bound of some prices and the best recipes here: :math:`b = \kappa - \varphi + u^\top s`.

        It uses values at hand: the bound that is reported is computed again from the recipes.
        """
        each = zip(self.now, self.problem.risks, self.working, prices, strict=True)
        value = sum(float(lam @ (one.needed - now.phi)[own]) for now, one, own, lam in each)
        return self.problem.bound(value + float(used @ self.x), used)

    def affordable_prices(
        self, gradients: list[FloatArray | csc_array], used: FloatArray
    ) -> tuple[list[FloatArray], FloatArray]:
        r"""Prices that use no more than the weights, and what they use.

        Of a variable v that is used too much, the constraints that use most of it are lowered by the share
        :math:`(u_v - w_v)/\sum_i \lambda_i G_{vi}` that they have to give; each by the largest of its shares.
        Otherwise a bound would have to lower all prices by what is too much for one variable.
        """
        limited = np.isinf(self.problem.ceilings)
        excess = np.where(limited, np.maximum(used - self.problem.weights, 0.0), 0.0)
        over = np.flatnonzero(excess)
        parts = [
            (G[over] if isinstance(G, np.ndarray) else G.tocsr()[over].toarray()) * lam
            for G, lam in zip(gradients, self.lam, strict=True)
        ]
        most = np.max([np.max(part, axis=1, initial=0.0) for part in parts], axis=0)
        for part in parts:
            part[part < _MUCH * most[:, None]] = 0.0
        much = np.sum([part.sum(axis=1) for part in parts], axis=0)
        share = np.minimum(excess[over] / np.maximum(much, _TINY), 1.0)
        prices, less = [], used.copy()
        for part, G, lam in zip(parts, gradients, self.lam, strict=True):
            cut = lam * np.max((part > 0) * share[:, None], axis=0, initial=0.0)
            prices.append(lam - cut)
            less -= G @ cut
        return prices, less

    def raised_where_broken(self, gradients: list[FloatArray | csc_array]) -> FloatArray:
        """The variables, those above their floors raised in broken constraints by more than slopes ask for.

        Whether that is enough is not known: slopes fall as the noise rises.
        """
        factor, above = np.ones(self.x.size), np.where(self.x > 1, self.x, 0.0)
        each = zip(self.now, self.problem.risks, self.working, gradients, strict=True)
        for now, one, own, G in each:
            short = (one.needed - now.phi)[own]
            broken = np.flatnonzero(short > 0)
            if one.sign < 0 or not broken.size:
                continue
            slopes = csc_array(self.problem.lift.T @ abs(one.columns[:, own[broken]]))
            slopes.data[:] = 1.0
            slopes = csc_array(slopes.multiply(G[:, broken]))
            gained = np.asarray(slopes.T @ above)
            more = _BEYOND * short[broken] / np.maximum(gained, short[broken])
            np.maximum.at(factor, slopes.indices, np.repeat(1 + more, np.diff(slopes.indptr)))
        return np.minimum(np.where(above > 0, self.x * factor, self.x), self.problem.ceilings)

    def at_floors(self) -> Iterate:
        """The same, with those variables at their floors whose multipliers say that they belong there."""
        x = self.x.copy()
        x[self.active[self.z > self.problem.weights[self.active] * self.below]] = 1.0
        found = Iterate(problem=self.problem, x=x, active=self.active, working=self.working)
        found.evaluate()
        return found

    def balance(self, used: FloatArray) -> FloatArray:
        """How far the loss is from balance with its multipliers, of the variables that may be raised."""
        return self.problem.weights[self.active] - used[self.active] - self.z + self.y

    def centre(self) -> float:
        """The mean product of a slack and its multiplier."""
        total = sum(float(lam @ g) for lam, g in zip(self.lam, self.g, strict=True))
        finite = np.isfinite(self.above)
        total += float(self.z @ self.below) + float((self.y * np.where(finite, self.above, 0.0)).sum())
        return total / (sum(lam.size for lam in self.lam) + self.active.size + int(finite.sum()))

    def waypoint(self, gap: float, safe: FloatArray) -> Waypoint:
        return Waypoint(
            gap=gap,
            x=self.x,
            active=self.active,
            working=tuple(self.working),
            lam=tuple(self.lam),
            g=tuple(self.g),
            z=self.z,
            y=self.y,
            safe=safe,
            bent=self.bent,
        )


def split(values: FloatArray, working: list[IndexArray]) -> list[FloatArray]:
    """Values of all constraints that take part, kind by kind."""
    ends = np.cumsum([own.size for own in working])[:-1]
    return list(np.split(values, ends))


_MOST_FACTOR = 1e14  # a factor beyond which more noise changes nothing
_ABOVE = 1.05  # times what a guess adds to the floors
# Numbers of records without room get so many times their variance; after some tries, what is surely enough.
_TRIES, _MORE = 4, 1.5
_INSIDE_LIMITS = 1.2  # times the variance that is just enough if all others are known
_ROOM = 0.01  # by how much of its level each limit must hold there
_AT_FLOOR, _OFF_FLOOR = 1e-4, 0.03  # a guess that is not raised, and how far from the floor a start is
_INSIDE = 1e-6  # how far below its ceiling, over the distance to the floor, a start is
# Constraints of one kind are taken without a choice up to this number, or so many for each row, which cost no
# more than the factorisations do. And up to these entries of recipes.
_ALL, _EACH_ROW, _ENTRIES = 1_000, 2, 3e7


def near_guess(problem: NoiseProblem, guess: FloatArray) -> tuple[FloatArray, IndexArray] | None:
    """A point a little above a guess that keeps all limits with room, and the variables raised there.

    ``None`` if there is none so near.
    """
    if not guess.size or np.any(problem.level != FIXED):
        return None
    raised = guess > 1 + _AT_FLOOR
    most = 1.0 + (problem.ceilings - 1.0) * (1 - _INSIDE)
    x = np.minimum(np.where(raised, 1.0 + np.maximum((guess - 1.0) * _ABOVE, _OFF_FLOOR), 1.0), most)
    free = problem.variable != FIXED
    for attempt in range(_TRIES):
        enough = np.zeros(problem.floors.size)
        for one, slack in zip(problem.risks, problem.slacks(x), strict=True):
            short = slack <= _ROOM
            np.maximum.at(enough, one.columns[:, short].indices, _enough(one, short))
        if not enough.any():
            return x, np.flatnonzero(x > 1)
        rows = np.flatnonzero((enough > 0) & free)
        more = x.copy()
        if attempt < _TRIES - 2:
            more[problem.variable[rows]] *= _MORE
        else:
            np.maximum.at(more, problem.variable[rows], enough[rows] / problem.floors[rows])
        x = np.minimum(more, most)
    return None


def _enough(one: Risks, chosen: BoolArray) -> FloatArray:
    """For each entry of some columns, a variance that is enough if all others are known, with some room."""
    columns = one.columns[:, chosen]
    size = np.diff(columns.indptr)
    if isinstance(one, RowLimits):
        return np.asarray(_INSIDE_LIMITS * one.bounds[chosen])
    found: FloatArray = _INSIDE_LIMITS * columns.data**2 * np.repeat(one.needed[chosen] * size, size)
    return found


def strictly_feasible(problem: NoiseProblem) -> tuple[FloatArray, IndexArray]:
    """A point that keeps all limits with room, and the variables above their floors there.

    The noise is enough against an attacker who knows all other records, and then more. Numbers that none of
    the records is in are raised only where that fails: an attack may use them, too. ``NotEnough`` if no
    noise within the ceilings keeps the limits with room.
    """
    rows = problem.floors.size
    wanted, most = np.zeros(rows), np.full(rows, np.inf)
    for one in problem.risks:
        own = one.columns.indices
        if isinstance(one, RowLimits):
            if one.sign < 0:
                np.minimum.at(most, own, one.bounds)
            else:
                np.maximum.at(wanted, own, _INSIDE_LIMITS * one.bounds)
        else:
            np.maximum.at(wanted, own, _enough(one, np.ones(one.needed.size, dtype=np.bool_)))
    level = problem.level
    free = np.flatnonzero((problem.variable != FIXED) & (wanted > 0))
    if not free.size:
        raise NotEnough("expected numbers whose noise may rise, got none")
    active = np.unique(problem.variable[free])
    first = np.ones(problem.weights.size)
    np.maximum.at(first, problem.variable[free], wanted[free] / problem.floors[free])
    shared = np.flatnonzero(level != FIXED)
    ceilings = problem.ceilings.copy()
    np.minimum.at(ceilings, level[shared], most[shared] / problem.floors[shared])
    factor = 1.5
    while True:
        if factor > _MOST_FACTOR:
            if active.size == first.size:
                raise NotEnough("expected ceilings with which the limits can be kept, got lower ones")
            factor, active = 1.5, np.arange(first.size)
        x = np.ones(first.size)
        x[active] = first[active] * factor
        finite = np.isfinite(ceilings)
        inside = max(_INSIDE, 0.5 / factor)
        x[finite] = np.minimum(x[finite], 1.0 + (ceilings[finite] - 1.0) * (1 - inside))
        if shared.size:  # what a row adds to its level stays below the row's own ceiling
            room = np.full(x.size, np.inf)
            np.minimum.at(room, problem.variable[shared], (most / problem.floors)[shared] - x[level[shared]])
            x = np.minimum(x, np.maximum(1.0 + room * (1 - inside), 1.0))
        if problem.least_slack(x) > 0:
            return x, active
        factor *= 4


def worst_of_each_row(one: Risks, slack: FloatArray, eligible: IndexArray) -> IndexArray:
    """Of some constraints, those that are the worst of one of the rows that they are about."""
    if not eligible.size:
        return eligible
    own = one.columns[:, eligible]
    values = slack[eligible]
    entry = np.repeat(np.arange(eligible.size), np.diff(own.indptr))
    worst = np.full(own.shape[0], np.inf)
    np.minimum.at(worst, own.indices, values[entry])
    is_worst = values[entry] == worst[own.indices]
    # Of constraints that are alike the first is enough.
    leader = np.full(own.shape[0], eligible.size)
    np.minimum.at(leader, own.indices[is_worst], entry[is_worst])
    found: IndexArray = eligible[np.unique(leader[leader < eligible.size])]
    return found


def most_constraints(problem: NoiseProblem) -> int:
    """How many constraints of one kind take part without a choice."""
    rows = problem.floors.size
    return min(max(_ALL, _EACH_ROW * rows), int(_ENTRIES / rows))


def first_constraints(problem: NoiseProblem) -> list[IndexArray]:
    """The constraints to begin with: all of a few, else those that the floor breaks most."""
    most = most_constraints(problem)
    if all(one.needed.size <= most for one in problem.risks):
        return [np.arange(one.needed.size) for one in problem.risks]
    slacks = problem.slacks(np.ones(problem.weights.size))
    return [
        np.arange(one.needed.size)
        if one.needed.size <= most
        else worst_of_each_row(one, slack, np.arange(one.needed.size))
        for one, slack in zip(problem.risks, slacks, strict=True)
    ]
