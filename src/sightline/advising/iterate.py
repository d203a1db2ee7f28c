"""Where the method of least noise starts and stands: variables, slacks, multipliers, constraints."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csc_array

from sightline.advising.noise_slack import MOST_FACTOR
from sightline.advising.problem import (
    FIXED,
    NoiseProblem,
    NotEnough,
    Recipes,
    RiskAt,
    Risks,
    RowLimits,
    Tangents,
)
from sightline.arrays import MOST_SQUARE, NOTICEABLE, FloatArray, IndexArray

_NO_ROOM = float(np.finfo(np.float64).eps)  # a distance to a floor or ceiling that rounding has made zero


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

    def affordable(
        self, gradients: list[FloatArray | csc_array], used: FloatArray
    ) -> tuple[FloatArray, list[FloatArray]]:
        r"""What prices use that use less where it is too much, mostly no more than the weights; and them.

        Of a variable v that is used too much, the constraints that use a tenth as much of it as the one that
        uses most are lowered by the share :math:`(u_v - w_v)/\sum_i \lambda_i G_{vi}` over them, each by the
        largest of its shares. Otherwise a bound would lower all prices by what is too much for one variable.
        """
        limited = np.isinf(self.problem.ceilings)
        over = np.flatnonzero(limited & (used > self.problem.weights))
        parts = [
            (G[over] if isinstance(G, np.ndarray) else G.tocsr()[over].toarray()) * lam
            for G, lam in zip(gradients, self.lam, strict=True)
        ]
        most = np.max([np.max(part, axis=1, initial=0.0) for part in parts], axis=0)[:, None]
        much = np.sum([np.where(part > most / 10, part, 0.0).sum(axis=1) for part in parts], axis=0)
        share = np.minimum((used - self.problem.weights)[over] / much, 1.0)
        prices, less = [], used.copy()
        for part, G, lam in zip(parts, gradients, self.lam, strict=True):
            cut = lam * np.max((part > most / 10) * share[:, None], axis=0, initial=0.0)
            prices.append(lam - cut)
            less -= G @ cut
        return less, prices

    def balance(self, used: FloatArray) -> FloatArray:
        """How far the loss is from balance with its multipliers, of the variables that may be raised."""
        return self.problem.weights[self.active] - used[self.active] - self.z + self.y

    def centre(self) -> float:
        """The mean product of a slack and its multiplier."""
        total = sum(float(lam @ g) for lam, g in zip(self.lam, self.g, strict=True))
        finite = np.isfinite(self.above)
        total += float(self.z @ self.below) + float((self.y * np.where(finite, self.above, 0.0)).sum())
        return total / (sum(lam.size for lam in self.lam) + self.active.size + int(finite.sum()))


def split(values: FloatArray, working: list[IndexArray]) -> list[FloatArray]:
    """Values of all constraints that take part, kind by kind."""
    ends = np.cumsum([own.size for own in working])[:-1]
    return list(np.split(values, ends))


# Constraints of one kind are taken without a choice up to this number, or so many for each row, which cost no
# more than the factorisations do.
_ALL, _EACH_ROW = 1_000, 2
_FARTHEST = 4.0  # how far from a guess a start may be


def _enough(one: Risks) -> FloatArray:
    """For each entry of the columns, a variance that is just enough if all others are known."""
    size = np.diff(one.columns.indptr)
    found: FloatArray = one.columns.data**2 * np.repeat(one.needed * size, size)
    return found


def near_guess(problem: NoiseProblem, guess: FloatArray) -> tuple[FloatArray, IndexArray] | None:
    """A point a little above a guess, in variances of the rows, that keeps all limits with room, and the
    variables raised there. ``None`` if there is none so near.
    """
    if not guess.size or np.any(problem.level != FIXED):
        return None
    free = np.flatnonzero(problem.variable != FIXED)
    wanted, factor = np.ones(problem.weights.size), 1.05
    np.maximum.at(wanted, problem.variable[free], guess[free] / problem.floors[free])
    active = np.flatnonzero(wanted > 1 + NOTICEABLE)
    most = 1.0 + (problem.ceilings - 1.0) * (1 - NOTICEABLE)
    while factor < _FARTHEST:
        x = np.ones(wanted.size)
        x[active] = np.minimum(1.0 + np.maximum((wanted[active] - 1.0) * factor, 0.03), most[active])
        if problem.least_slack(x) > 0:
            return x, active
        factor *= 1.2
    return None


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
                np.maximum.at(wanted, own, one.bounds)
        else:
            np.maximum.at(wanted, own, _enough(one))
    level = problem.level
    free = np.flatnonzero((problem.variable != FIXED) & (wanted > 0))
    active = np.unique(problem.variable[free]) if free.size else np.arange(problem.weights.size)
    first = np.ones(problem.weights.size)
    np.maximum.at(first, problem.variable[free], wanted[free] / problem.floors[free])
    shared = np.flatnonzero(level != FIXED)
    ceilings = problem.ceilings.copy()
    np.minimum.at(ceilings, level[shared], most[shared] / problem.floors[shared])
    factor = 1.5
    while True:
        if factor > MOST_FACTOR:
            if active.size == first.size:
                raise NotEnough("expected ceilings with which the limits can be kept, got lower ones")
            factor, active = 1.5, np.arange(first.size)
        x = np.ones(first.size)
        x[active] = first[active] * factor
        finite = np.isfinite(ceilings)
        inside = 0.5 / factor  # how far below its ceiling, over the distance to the floor
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
    return min(max(_ALL, _EACH_ROW * rows), MOST_SQUARE**2 // rows)


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
