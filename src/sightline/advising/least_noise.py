r"""The least weighted noise: a dual in closed form, and tangents for those whom others hide.

The variables u are precisions over the largest that they may be: :math:`u_v = 1/x_v` for variances
:math:`x_v` over their floors. The rows' precisions are :math:`p = R u`. The problem is

.. math:: \min_u \sum_v \frac{w_v}{u_v} \quad\text{with}\quad C u \le 1, \quad
    \sum_R \max_{e \in R} b_e u_{v(e)} \le 1, \quad I_j(p) \le g_j, \quad l \le u \le 1 .

Limits on attacks by someone who knows all other records, and budgets, are linear in the precisions. What
somebody learns who knows no other record, :math:`I_j`, is concave in them: its tangent at the present noise
is stricter, so every step keeps the limits, and the loss goes down. A point where it stands still is the
least noise, since the same limits are convex in the variances (theory page).

With prices :math:`\lambda` and :math:`v = C^\top \lambda` the dual of the linear problem is
:math:`\sum_v \min_{l \le u \le 1} (w_v/u_v + v_v u_v) - \mathbf 1^\top \lambda`, whose least is at
:math:`u = \sqrt{w/v}` between the ends. It is maximised by L-BFGS in :math:`\lambda = \theta^2`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
from scipy.sparse import csc_array, csr_array

from sightline.advising.hidden_limits import HiddenAt, HiddenLimits
from sightline.advising.noise_slack import MOST_FACTOR
from sightline.arrays import AT_A_TIME, MOST_LOOKED_AT, NOTICEABLE, ROUNDING, FloatArray, IndexArray
from sightline.errors import InvalidPlan
from sightline.progress import report

FIXED = -1
TOLERANCE = 1e-7  # the gap with which a linear problem ends, and how near noise comes to what it needs
CLOSE = 5e-4  # the gap with which hidden others end: the loss is much nearer, since it is level there
NEARLY = 1e-5  # how nearly a direction of a person is kept: the audit closes the rest
MOST_ROUNDS = 120
_STEPS = 2_000  # of L-BFGS for one linear problem
_WORK = 4e9  # entries of the limits that all steps of one linear problem look at: some ten seconds
_MEMORY = 20  # steps that L-BFGS remembers: 40 take as many
_LEAST_PRICE = 1e-4  # of the largest root of a price: a limit that did not bind may do so in the next round
_NEAR = 1e-2  # the share by which noise may break limits and is made to keep them
_STILL = 1e-9  # the share of the loss by which it still goes down
_SHARE_OF_STEP = 0.03  # of what the last step saved: the gap of the linear problem of the next one
_ROUGHEST = 5e-6  # the most of such a gap
_LOWERED, _MUCH = 5, 0.1  # how often prices are lowered, and which: of a tenth of what is asked too much
_AGAIN = (1e-3, 1e-2, 1e-1, 0.0)  # of the largest root: prices with which a search is begun again
_DEAREST = 8  # so that of entries that cost half as much one has 1/256 of the root of the other
# Targets that others hide take part without a choice up to this number, or so many for each row.
_ALL, _EACH_ROW = 1_000, 2
_TINY = float(np.finfo(np.float64).tiny)
_Found = TypeVar("_Found")


class NotEnough(InvalidPlan):
    """No noise within the ceilings keeps the limits."""


def if_enough(search: Callable[[], _Found]) -> tuple[_Found, ...]:
    """What a search finds; nothing if no noise is enough."""
    try:
        return (search(),)
    except NotEnough:
        return ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedBudget:
    r"""A budget that releases share: :math:`\sum_R \max_{e \in R} b_e u_{v(e)} \le 1`."""

    variable: IndexArray  # of each entry
    release: IndexArray
    cost: FloatArray  # b

    @property
    def releases(self) -> int:
        """How many releases share it."""
        return int(self.release.max(initial=-1)) + 1

    def spent(self, u: FloatArray) -> float:
        """The share of the budget that precisions cost."""
        largest = np.zeros(self.releases)
        np.maximum.at(largest, self.release, self.cost * u[self.variable])
        return float(largest.sum())

    def mean(self, values: FloatArray, shares: FloatArray) -> FloatArray:
        """Of each release the mean of some values of its entries."""
        return np.asarray(np.bincount(self.release, shares * values, self.releases))


NO_BUDGET = SharedBudget(
    variable=np.zeros(0, dtype=np.intp), release=np.zeros(0, dtype=np.intp), cost=np.zeros(0)
)


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseProblem:
    """Weights, ends of the precisions, budgets, and the limits on attacks."""

    weights: FloatArray  # of each variable: what its floor costs; 0 for what is fixed
    low: FloatArray  # the least precision of each, for a ceiling on the noise; the most is 1
    rows: csc_array  # R: rows × variables
    linear: csr_array  # C: limits × variables
    budget: SharedBudget = NO_BUDGET
    hidden: tuple[HiddenLimits, ...] = ()

    def loss(self, u: FloatArray) -> float:
        """The weighted noise."""
        return float(np.sum(self.weights / u))

    def seen(self, u: FloatArray) -> list[HiddenAt]:
        """What the limits with hidden others are at some precisions."""
        precisions = np.asarray(self.rows @ u)
        return [one.at(precisions) for one in self.hidden]

    def most_used(self, u: FloatArray) -> float:
        """The largest share of a limit that is used: more than 1 breaks it."""
        shares = [np.asarray(self.linear @ u), *(one.shares for one in self.seen(u))]
        return max(self.budget.spent(u), *(float(np.max(one, initial=0.0)) for one in shares))

    def within(self, u: FloatArray) -> FloatArray:
        """Precisions over the first factor found with which all limits hold; ``NotEnough`` if none is."""
        factor = 1.0
        while factor <= MOST_FACTOR:
            now = np.maximum(u / factor, self.low)
            most = self.most_used(now)
            if most <= 1:
                return now
            factor *= max(most, 1.0 + 1e-6) ** 1.5 if np.isfinite(most) else 4.0
        raise NotEnough("expected ceilings with which the limits can be kept, got lower ones")

    def between(self, kept: FloatArray, wanted: FloatArray) -> FloatArray:
        """The farthest point towards wanted precisions that keeps the limits: variances are convex."""
        if self.most_used(wanted) <= 1:
            return wanted
        low, high = 0.0, 1.0
        for _ in range(30):
            middle = (low + high) / 2
            enough = self.most_used(1 / ((1 - middle) / kept + middle / wanted)) <= 1
            low, high = (middle, high) if enough else (low, middle)
        return 1 / ((1 - low) / kept + low / wanted)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prices:
    """A price for every limit, which says what the noise is for."""

    linear: FloatArray
    budget: FloatArray  # of each entry
    tangents: FloatArray  # of each limit with hidden others that took part


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tangents:
    """Limits with hidden others, replaced by linear ones at some noise."""

    matrix: FloatArray  # limits × variables: each limit is 1
    kind: IndexArray  # of each, which of the problem's kinds
    target: IndexArray
    cuts: FloatArray  # what the recipes ask of all noise, over what their tangents allow

    @classmethod
    def of(cls, problem: NoiseProblem, at: list[HiddenAt], working: list[IndexArray]) -> Tangents:
        """The tangents of the limits that take part."""
        each = [one.tangents(chosen) for one, chosen in zip(at, working, strict=True)]
        matrix = [np.asarray(one.slopes @ problem.rows) / one.room[:, None] for one in each]
        none = np.zeros(0, dtype=np.intp)
        return cls(
            matrix=np.concatenate([np.zeros((0, problem.weights.size)), *matrix]),
            kind=np.repeat(np.arange(len(each)), [one.target.size for one in each]),
            target=np.concatenate([none, *(one.target for one in each)]),
            cuts=np.concatenate([np.zeros(0), *(one.cuts / one.room for one in each)]),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Optimum:
    """The noise, the bounds on the least loss, and the prices of the limits."""

    u: FloatArray  # precisions over the largest
    upper: float  # the loss of u, which keeps the limits
    lower: float  # no noise that keeps the limits has a smaller loss
    prices: Prices
    tangents: Tangents
    rounds: int

    @property
    def gap(self) -> float:
        """How far the loss may be above the least one, over the loss."""
        return max(0.0, (self.upper - self.lower) / self.upper)


@dataclass(kw_only=True, eq=False)
class _Dual:
    """The linear problem with some tangents, its dual, and the best of both so far."""

    problem: NoiseProblem
    tangents: FloatArray  # limits × variables, each at most 1
    gap: float
    upper: float = np.inf
    lower: float = -np.inf
    u: FloatArray = field(default_factory=lambda: np.zeros(0))
    best: FloatArray = field(default_factory=lambda: np.zeros(0))  # the theta of the largest lower bound
    evaluations: int = 0

    @cached_property
    def limits(self) -> int:
        """How many there are beside the budget."""
        return int(self.problem.linear.shape[0] + self.tangents.shape[0])

    @cached_property
    def transposed(self) -> csr_array:
        """Variables × linear limits."""
        return csr_array(self.problem.linear.T)

    def used(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What prices use of every variable, the prices, and the shares of a release's entries."""
        count, budget = self.problem.linear.shape[0], self.problem.budget
        prices = theta[: self.limits] ** 2
        used = self.transposed @ prices[:count] + self.tangents.T @ prices[count:]
        shares = np.zeros(0)
        if budget.cost.size:
            squares = theta[self.limits + 1 :] ** 2
            shares = squares / np.maximum(np.bincount(budget.release, squares)[budget.release], _TINY)
            paid = theta[self.limits] ** 2 * shares * budget.cost
            used = used + np.bincount(budget.variable, paid, used.size)
        return np.asarray(used), prices, shares

    def at(self, theta: FloatArray) -> FloatArray:
        """The precisions that cost least with some prices."""
        used = self.used(theta)[0]
        with np.errstate(over="ignore"):
            free = np.sqrt(self.problem.weights / np.maximum(used, _TINY))
        return np.clip(free, self.problem.low, 1.0)

    def start(self, before: FloatArray) -> FloatArray:
        """The roots of the last prices, none of them 0; equal ones, if there are none."""
        budget = self.problem.budget
        if before.size:
            largest = float(np.max(np.abs(before[: self.limits + 1])))
            return np.asarray(np.maximum(np.abs(before), _LEAST_PRICE * largest))
        return np.ones(self.limits + (1 + budget.cost.size if budget.cost.size else 0))

    def priced(self, theta: FloatArray) -> Prices:
        """The prices of all limits."""
        _, prices, shares = self.used(theta)
        count = self.problem.linear.shape[0]
        root = theta[self.limits] if shares.size else 0.0
        return Prices(linear=prices[:count], budget=root**2 * shares, tangents=prices[count:])

    def scaled(self, theta: FloatArray) -> FloatArray:
        """Prices times the factor with which they would be best if no end of the precisions mattered."""
        used = self.used(theta)[0]
        priced = np.arange(theta.size) <= self.limits
        total = float(np.sum(theta[priced] ** 2))
        weights = self.problem.weights
        free = weights > 0
        found = theta.copy()
        if total > 0:
            found[priced] *= float(np.sqrt(weights[free] * used[free]).sum()) / total
        return found

    def value(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Minus the dual's value, and its slope. The best is kept, and a small gap ends the search."""
        problem, budget = self.problem, self.problem.budget
        used, prices, shares = self.used(theta)
        u = self.at(theta)
        total = float(np.sum(problem.weights / u) + used @ u)
        each = np.concatenate([problem.linear @ u, self.tangents @ u])
        slope = np.zeros(theta.size)
        slope[: self.limits] = 2 * theta[: self.limits] * (1 - each)
        asked = float(prices.sum())
        if budget.cost.size:
            root, own = theta[self.limits], theta[self.limits + 1 :]
            spent = budget.cost * u[budget.variable]
            mean = budget.mean(spent, shares)
            slope[self.limits] = 2 * root * (1 - mean.sum())
            sums = np.maximum(np.bincount(budget.release, own**2)[budget.release], _TINY)
            slope[self.limits + 1 :] = -2 * root**2 * own / sums * (spent - mean[budget.release])
            asked += root**2
        self.evaluations += 1
        if total - asked > self.lower:
            self.lower, self.best = total - asked, theta.copy()
        # Far from the limits what is kept costs too much to end the search.
        if not self.u.size or float(np.max(each, initial=0.0)) <= 1 + _NEAR:
            kept = self.kept(u, each)
            if problem.loss(kept) < self.upper:
                self.upper, self.u = problem.loss(kept), kept
        if self.upper - self.lower <= self.gap * abs(self.upper):
            raise StopIteration
        return asked - total, slope

    def kept(self, u: FloatArray, each: FloatArray) -> FloatArray:
        """Precisions that keep all limits: each over the largest share of a limit that it is in."""
        problem, budget = self.problem, self.problem.budget
        count = problem.linear.shape[0]
        over = np.ones(u.size)
        broken = np.flatnonzero(each[:count] > 1)
        if broken.size:
            some = problem.linear[broken]
            np.maximum.at(over, some.indices, np.repeat(each[broken], np.diff(some.indptr)))
        for some in np.array_split(np.flatnonzero(each[count:] > 1), 1 + self.tangents.size // AT_A_TIME):
            used = np.where(self.tangents[some] > 0, each[count + some, None], 1.0)
            over = np.maximum(over, np.max(used, axis=0, initial=1.0))
        if budget.cost.size:
            spent = budget.spent(u)
            if spent > 1:
                over[budget.variable] = np.maximum(over[budget.variable], spent)
        wanted = u / over
        if np.all(wanted >= problem.low):
            return wanted
        return self._above(wanted)

    def _above(self, u: FloatArray) -> FloatArray:
        """Precisions above their least, over the least factor with which the limits hold, if there is one."""
        problem = self.problem

        def most(factor: float) -> tuple[float, FloatArray]:
            now = np.maximum(u / factor, problem.low)
            used = max(
                float(np.max(problem.linear @ now, initial=0.0)),
                float(np.max(self.tangents @ now, initial=0.0)),
                problem.budget.spent(now),
            )
            return used, now

        low, high = 0.0, np.log(MOST_FACTOR)
        if most(1.0)[0] <= 1:
            return most(1.0)[1]
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (low, middle) if most(np.exp(middle))[0] <= 1 else (middle, high)
        used, now = most(np.exp(high))
        return now if used <= 1 + ROUNDING else np.full(u.size, _TINY)

    def solve(self, before: FloatArray) -> None:
        """Maximise the dual, from the last prices on.

        A price of 0 stays 0, since its root has no slope there. So a search that ends early is begun again
        with a price for every limit that its noise breaks.
        """
        from scipy.optimize import minimize  # takes longer to import than a small audit

        theta = self.start(before)
        entries = self.problem.linear.nnz + self.tangents.size + theta.size
        most = int(np.clip(_WORK / entries, 30, _STEPS))
        for share in _AGAIN:
            options = {"maxiter": most, "maxfun": most, "maxcor": _MEMORY, "ftol": 0.0, "gtol": 0.0}
            try:
                minimize(self.value, self.scaled(theta), jac=True, method="L-BFGS-B", options=options)
            except StopIteration:
                return
            theta = self.with_prices_for_broken(self.best, share)

    def with_prices_for_broken(self, theta: FloatArray, share: float) -> FloatArray:
        """The same with a root of at least a share of the largest for every limit that its noise breaks."""
        found, u, budget = theta.copy(), self.at(theta), self.problem.budget
        broken = np.flatnonzero(np.concatenate([self.problem.linear @ u, self.tangents @ u]) > 1)
        largest = float(np.max(np.abs(theta[: self.limits + 1])))
        found[broken] = np.maximum(np.abs(theta[broken]), share * largest)
        if budget.spent(u) > 1:  # its price goes to the entries that cost a release most
            spent, largest_of = budget.cost * u[budget.variable], np.zeros(budget.releases)
            np.maximum.at(largest_of, budget.release, spent)
            relative = spent / largest_of[budget.release]
            if abs(theta[self.limits]) < share * largest:
                found[self.limits] = share * largest
                found[self.limits + 1 :] = relative**_DEAREST
            else:
                roots = np.zeros(budget.releases)
                np.maximum.at(roots, budget.release, np.abs(theta[self.limits + 1 :]))
                least = share * roots[budget.release] * (relative > 1 - share)
                found[self.limits + 1 :] = np.maximum(np.abs(theta[self.limits + 1 :]), least)
        return found


def least_noise(
    problem: NoiseProblem, *, tolerance: float = TOLERANCE, guess: FloatArray | None = None
) -> Optimum:
    """The least noise that keeps the limits; ``NotEnough`` if none within the ceilings keeps them.

    A ``guess`` of precisions may be near the optimum.
    """
    floor = np.ones(problem.weights.size)
    if problem.most_used(floor) <= 1:
        return _at_the_floor(problem, floor)
    u = problem.within(floor if guess is None else np.clip(guess, problem.low, 1.0))
    at = problem.seen(u)
    working = [first_targets(one) for one in at]
    theta, last, lower, step = np.zeros(0), np.inf, -np.inf, 1.0
    for rounds in range(1, MOST_ROUNDS + 1):
        tangents = Tangents.of(problem, at, working)
        gap = tolerance / 2
        if problem.hidden:
            gap = max(gap, min(_SHARE_OF_STEP * step, _ROUGHEST))
        dual = _Dual(problem=problem, tangents=tangents.matrix, gap=gap)
        dual.solve(theta)
        theta, prices = dual.best, dual.priced(dual.best)
        if not problem.hidden:
            u, lower = dual.u, dual.lower
            break
        lower = max(lower, lower_bound(problem, tangents, prices, u))
        then = problem.seen(dual.u)
        wider = [with_broken(own, one) for own, one in zip(working, then, strict=True)]
        if any(np.any(one.shares > 1) for one in then):
            wanted = problem.between(u, dual.u)
            then = problem.seen(wanted)
        else:
            wanted = dual.u
        if problem.loss(wanted) < problem.loss(u):
            u, at = wanted, then
        loss = problem.loss(u)
        report("choosing the noise", 1 - 1 / (1 + rounds))
        if any(one.size < other.size for one, other in zip(working, wider, strict=True)):
            working, theta, lower = wider, np.zeros(0), -np.inf
        else:
            still = last - loss <= max(_STILL, tolerance / 10) * loss and gap <= tolerance
            if still or loss - lower <= max(CLOSE, tolerance) * loss:
                break
        step, last = min(step, 1 - loss / last), loss
    upper = problem.loss(u)
    return Optimum(u=u, upper=upper, lower=min(lower, upper), prices=prices, tangents=tangents, rounds=rounds)


def _at_the_floor(problem: NoiseProblem, floor: FloatArray) -> Optimum:
    none = Tangents.of(problem, [], [])
    prices = Prices(
        linear=np.zeros(problem.linear.shape[0]),
        budget=np.zeros(problem.budget.cost.size),
        tangents=np.zeros(0),
    )
    loss = problem.loss(floor)
    return Optimum(u=floor, upper=loss, lower=loss, prices=prices, tangents=none, rounds=0)


def first_targets(at: HiddenAt) -> IndexArray:
    """The targets to begin with: all of a few, else those that are nearest to their limits."""
    most = max(_ALL, _EACH_ROW * at.precisions.size)
    found: IndexArray = np.sort(np.argsort(-at.shares, kind="stable")[:most])
    return found


def with_broken(working: IndexArray, at: HiddenAt) -> IndexArray:
    """The targets that take part, and those whose limits a step would break."""
    found: IndexArray = np.union1d(working, np.flatnonzero(at.shares > 1 + ROUNDING))
    return found


def lower_bound(problem: NoiseProblem, tangents: Tangents, prices: Prices, u: FloatArray) -> float:
    r"""A lower bound on the loss of all noise that keeps the limits, from prices and attack recipes.

    Every limit is a condition on the variances x, :math:`\sum_v h_v x_v \ge b`: for a linear one and any
    precisions u, :math:`\sum_v c_v u_v^2 x_v \ge (c^\top u)^2`; for hidden others the cut of a recipe.
    Prices :math:`\lambda` prove :math:`w^\top x \ge b^\top \lambda + \min_x (w - H \lambda)^\top x`. Where
    they ask more of a number than its weight and it has no ceiling, those are lowered that ask much of it,
    and then all.
    """
    budget, weights, limited = problem.budget, problem.weights, problem.low > 0
    paid = np.bincount(budget.variable, prices.budget * budget.cost, u.size)
    whole = float(np.max(np.bincount(budget.release, prices.budget), initial=0.0))
    known, hidden, best = prices.linear, prices.tangents, -np.inf
    for _ in range(_LOWERED):
        asked = float(known @ (problem.linear @ u) ** 2 + hidden @ tangents.cuts)
        if whole > 0:  # all releases have the price of the budget
            asked += float(paid @ u) ** 2 / whole
        needed = u**2 * np.asarray(problem.linear.T @ known + tangents.matrix.T @ hidden + paid)
        over = np.flatnonzero(~limited & (needed > weights))
        share = float(np.min(weights[over] / needed[over], initial=1.0)) * (1 - ROUNDING * bool(over.size))
        left = weights - share * needed
        ends = np.where(left >= 0, left, left / np.where(limited, problem.low, 1.0))
        best = max(best, share * asked + float(ends.sum()))
        over = np.flatnonzero((u > problem.low * (1 + NOTICEABLE)) & (needed > weights))
        if not over.size or over.size * tangents.target.size > MOST_LOOKED_AT:
            break
        much = tangents.matrix[:, over] * u[over] ** 2 * hidden[:, None] > _MUCH * needed[over]
        hidden = hidden / np.max(np.where(much, needed[over] / weights[over], 1.0), axis=1, initial=1.0)
    return best
