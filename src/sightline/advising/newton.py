r"""The least noise by a primal-dual Newton method, with a certificate at every step.

The slacks are :math:`g = \varphi(s) - \kappa`, :math:`d = x - 1` and :math:`e = u - x`; their multipliers are
:math:`\lambda, z, y`. A step solves

.. math:: \Bigl(2 M^{-1} \circ H \Lambda H^\top + H_2 \operatorname{diag}(\lambda/g - 2\lambda q) H_2^\top
    + \operatorname{diag}(z/d + y/e)\Bigr)\,\Delta x = r

with :math:`H_2 = H \circ H` and :math:`q = a^\top M^{-1} a`. At every step the multipliers and recipes make a
lower bound, and a convex combination with a strictly feasible point makes an upper bound. Only variables that
deserve noise take part: one joins when its price exceeds half its weight. Of many constraints those take part
that were broken on the way; the upper bound looks at all of them.

The linearised optimality conditions of the least noise, factorised: directions of the method's steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import csc_array

from sightline.advising.iterate import (
    Iterate,
    first_constraints,
    most_constraints,
    near_guess,
    split,
    strictly_feasible,
    worst_of_each_row,
)
from sightline.advising.problem import MOST_ROUNDS, TOLERANCE, Cuts, NoiseProblem
from sightline.arrays import FloatArray, IndexArray
from sightline.progress import report

_STEP = 0.99  # how far towards the nearest bound a step goes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NewtonDirection:
    """Changes of the variables, the slacks and the multipliers."""

    x: FloatArray
    g: FloatArray
    lam: FloatArray
    z: FloatArray
    y: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Changes:
    """By how much a step is to change the products of slacks and multipliers."""

    g: FloatArray
    z: FloatArray
    y: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Equations:
    """The linearised optimality conditions at an iterate, factorised."""

    solve: Callable[[FloatArray], FloatArray]
    G: list[FloatArray | csc_array]
    working: list[IndexArray]
    dual: FloatArray
    primal: FloatArray
    g: FloatArray
    lam: FloatArray
    d: FloatArray
    z: FloatArray
    e: FloatArray  # 1 where there is no ceiling
    y: FloatArray
    finite: NDArray[np.bool_]

    @classmethod
    def of(cls, at: Iterate, gradients: list[FloatArray | csc_array], used: FloatArray) -> Equations:
        """``LinAlgError`` if they have no digits left."""
        active, e = at.active, at.above
        finite = np.isfinite(e)
        G = [one[active] if isinstance(one, np.ndarray) else one.tocsr()[active].tocsc() for one in gradients]
        e_or_one, g = np.where(finite, e, 1.0), np.concatenate(at.g)
        diagonal = at.z / at.below + at.y / e_or_one
        try:
            solve = _factorised(_hessian(at, diagonal, exact=True))
        except LinAlgError:  # it lost its definiteness to rounding: leave out its negative part
            solve = _factorised(_hessian(at, diagonal, exact=False))
        return cls(
            solve=solve,
            G=G,
            working=list(at.working),  # constraints that join later are none of these
            dual=at.balance(used),
            primal=at.slack - g,
            g=g,
            lam=np.concatenate(at.lam),
            d=at.below,
            z=at.z,
            e=e_or_one,
            y=at.y,
            finite=finite,
        )

    def towards(self, centre: float, before: NewtonDirection) -> Changes:
        """The changes to products of ``centre``, given the terms of second order of another direction."""
        to_g = centre - self.lam * self.g - before.lam * before.g
        to_z = centre - self.z * self.d - before.z * before.x
        to_y = centre - self.y * self.e + before.y * before.x
        return Changes(g=to_g, z=to_z, y=np.where(self.finite, to_y, 0.0))

    def direction(self, wanted: Changes) -> NewtonDirection:
        """The direction that changes the products so, to first order."""
        g, lam, d, z, e, y = self.g, self.lam, self.d, self.z, self.e, self.y
        parts = split((wanted.g - lam * self.primal) / g, self.working)
        right = -self.dual + wanted.z / d - wanted.y / e
        right = right + sum(one @ part for one, part in zip(self.G, parts, strict=True))
        dx = self.solve(right)
        dg = np.concatenate([one.T @ dx for one in self.G]) + self.primal
        return NewtonDirection(
            x=dx,
            g=dg,
            lam=(wanted.g - lam * dg) / g,
            z=(wanted.z - z * dx) / d,
            y=np.where(self.finite, (wanted.y + y * dx) / e, 0.0),
        )

    def longest(self, step: NewtonDirection) -> tuple[float, float]:
        """How far the primal and the dual part of a direction may go."""
        own = self.finite
        alpha = min(_longest(self.d, step.x), _longest(self.g, step.g), _longest(self.e[own], -step.x[own]))
        beta = min(_longest(self.lam, step.lam), _longest(self.z, step.z), _longest(self.y[own], step.y[own]))
        return alpha, beta

    def unbalanced(self) -> float:
        """How far the loss is from balance with its multipliers, in the unit of the products."""
        return float(np.mean(np.abs(self.dual) * self.d))

    def centre_after(self, step: NewtonDirection, alpha: float, beta: float) -> float:
        """The mean product of a slack and its multiplier after a step."""
        total = (self.g + alpha * step.g) @ (self.lam + beta * step.lam)
        total += (self.d + alpha * step.x) @ (self.z + beta * step.z)
        ceilings = (self.e - alpha * step.x) * (self.y + beta * step.y)
        total += ceilings[self.finite].sum()
        return float(total) / (self.g.size + self.d.size + int(self.finite.sum()))


def _hessian(at: Iterate, others: FloatArray, *, exact: bool) -> FloatArray:
    lift = csc_array(at.problem.lift[:, at.active])
    own_rows = np.unique(lift.indices).size == lift.nnz == at.active.size  # a row for each variable
    rows = lift.indices if own_rows else np.unique(lift.indices)
    curved = np.zeros((rows.size, rows.size))
    for own, lam, g in zip(at.tangents, at.lam, at.g, strict=True):
        if lam.size:
            own.add_curvature(curved, rows, lam / g, exact=exact)
    if own_rows:
        total = curved
        total *= lift.data
        total *= lift.data[:, None]
    else:
        lift = csc_array(lift.tocsr()[rows])
        total = np.asarray(lift.T @ (lift.T @ curved).T)
    total[np.diag_indices_from(total)] += others
    return total


def _factorised(matrix: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """A solver of the equations; ``LinAlgError`` if the matrix is not positive definite, to rounding."""
    unit = 1 / np.sqrt(np.maximum(np.diagonal(matrix), np.finfo(np.float64).tiny))
    matrix *= unit
    matrix *= unit[:, None]
    factor = cho_factor(matrix, lower=True, check_finite=False)
    inverse = partial(cho_solve, factor, check_finite=False)

    def solve(right: FloatArray) -> FloatArray:
        wanted = unit * right
        found = inverse(wanted)
        found = found + inverse(wanted - matrix @ found)  # once more, for the digits that were lost
        return np.asarray(unit * found)

    return solve


def _longest(values: FloatArray, changes: FloatArray) -> float:
    falling = changes < 0
    if not falling.any():
        return 1.0
    return min(1.0, _STEP * float(np.min(-values[falling] / changes[falling])))


# What a step aims at, over the present products of slacks and multipliers, while the other optimality
# conditions are further off than they are. Tuned on 1,305 numbers × 200,000 records: without it the digits
# are lost at a gap of 2e-5.
_UNBALANCED = 0.8
_FAR, _CENTRING = 0.6, 0.3  # a prediction that goes this far is trusted; else a step aims at this much
_NEAR = 0.3  # room of a constraint, over its level, with which it joins; the least it is given


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Optimum:
    """The noise, the bounds on the least loss, and the prices of the attacks."""

    x: FloatArray
    upper: float  # the loss of x, which keeps the limits up to rounding
    lower: float  # no noise that keeps the limits has a smaller loss
    cuts: Cuts  # the proof of the lower bound
    rounds: int

    @property
    def gap(self) -> float:
        """How far the loss may be above the least one, over the loss."""
        return max(0.0, (self.upper - self.lower) / self.upper)


NO_GUESS = np.zeros(0)


def least_noise(
    problem: NoiseProblem, *, tolerance: float = TOLERANCE, guess: FloatArray = NO_GUESS
) -> Optimum:
    """The least noise that keeps the limits; ``NotEnough`` if none within the ceilings keeps them.

    A ``guess``, in variances of the rows, may be near the optimum.
    """
    floor = np.ones(problem.weights.size)
    if not any(one.needed.size for one in problem.risks) or problem.least_slack(floor) >= 0:
        return _at_the_floor(problem, floor)
    at, safe, safe_phi = _begun(problem, guess)
    best_x, best_upper, best_lower = safe, problem.loss(safe), -np.inf
    best_cuts, rounds = _no_cuts(problem, floor), 0
    for rounds in range(1, MOST_ROUNDS + 1):
        if rounds > 1:
            _admit_constraints(at)
        at.find_recipes()
        at.find_tangents(at.lam)
        gradients, used = at.gradients(), at.used()
        for own, prices in ((used, at.lam), at.affordable(gradients, used)):
            if (lower := at.lower_bound(own, prices)) > best_lower:
                best_lower = lower
                best_cuts = Cuts(
                    prices=tuple(prices),
                    recipes=at.recipes,
                    chosen=tuple(at.working),
                    variances=problem.variances(at.x),
                )
        mixed = at.x + _share_of_safe(at, safe_phi) * (safe - at.x)
        if problem.loss(mixed) < best_upper:
            best_x, best_upper = mixed, problem.loss(mixed)
        gap = (best_upper - best_lower) / abs(best_upper)
        report("choosing the noise", _share_done(gap, tolerance))
        if gap <= tolerance:
            break
        if rounds > 1:
            _admit_variables(at, used)
        if not _newton_step(at, gradients, used):
            break
    best_x, best_upper = _repaired(problem, best_x, safe)
    lower = best_cuts.lower_bound(problem)
    return Optimum(x=best_x, upper=best_upper, lower=lower, cuts=best_cuts, rounds=rounds)


def _share_done(gap: float, tolerance: float) -> float:
    """About how much of the way from no digit to a certified gap is done: the gap falls geometrically."""
    return min(max(np.log(max(gap, tolerance)) / np.log(tolerance), 0.0), 1.0) if tolerance < 1 else 0.0


def _no_cuts(problem: NoiseProblem, floor: FloatArray) -> Cuts:
    return Cuts(
        prices=tuple(np.zeros(0) for _ in problem.risks),
        recipes=tuple(csc_array((problem.floors.size, 0)) for _ in problem.risks),
        chosen=tuple(np.zeros(0, dtype=np.intp) for _ in problem.risks),
        variances=problem.variances(floor),
    )


def _at_the_floor(problem: NoiseProblem, floor: FloatArray) -> Optimum:
    loss, cuts = problem.loss(floor), _no_cuts(problem, floor)
    return Optimum(x=floor, upper=loss, lower=loss, cuts=cuts, rounds=0)


def _begun(problem: NoiseProblem, guess: FloatArray) -> tuple[Iterate, FloatArray, list[FloatArray]]:
    """The method at a strictly feasible point, the point, and the constraints there."""
    x, active = near_guess(problem, guess) or strictly_feasible(problem)
    at = Iterate(problem=problem, x=x, active=active, working=first_constraints(problem))
    at.evaluate()
    at.find_recipes()
    weights = problem.weights
    slack = at.slack
    at.g = split(slack, at.working)
    at.find_tangents([1 / g for g in at.g])
    each = zip(at.gradients(), at.g, strict=True)
    used = sum((abs(G) @ (1 / g) for G, g in each), np.zeros(weights.size))
    # One product of slacks and multipliers for all: half of the optimality conditions err each way.
    below, above = at.below, at.above
    both = 1 / below + np.where(np.isfinite(above), 1 / above, 0.0)
    centre = float(np.median(weights[active] / (used[active] + both)))
    at.lam = [centre / g for g in at.g]
    at.z, at.y = centre / below, np.where(np.isfinite(above), centre / above, 0.0)
    return at, x.copy(), [now.phi for now in at.now]


def _share_of_safe(at: Iterate, safe_phi: list[FloatArray]) -> float:
    """How far towards the safe point all constraints hold: they are concave."""
    share = 0.0
    for now, one, safe in zip(at.now, at.problem.risks, safe_phi, strict=True):
        short = one.needed - now.phi
        broken = short > 0
        if broken.any():
            share = max(share, float(np.max(short[broken] / (safe - now.phi)[broken])))
    return share


def _admit_constraints(at: Iterate) -> None:
    """Let constraints take part that are broken or have little room: one that joins late makes steps short.

    Where they are too many, of each row the worst one that is broken.
    """
    centre, most = at.centre(), most_constraints(at.problem)
    for kind, (now, one) in enumerate(zip(at.now, at.problem.risks, strict=True)):
        slack, size = now.phi - one.needed, np.abs(one.needed)
        near = slack < _NEAR * size
        near[at.working[kind]] = False
        new = np.flatnonzero(near)
        if at.working[kind].size + new.size > most:
            new = worst_of_each_row(one, slack / size, new[slack[new] < 0])
        if not new.size:
            continue
        room = np.maximum(np.abs(slack[new]), _NEAR * size[new])
        at.working[kind] = np.concatenate([at.working[kind], new])
        at.g[kind] = np.concatenate([at.g[kind], room])
        at.lam[kind] = np.concatenate([at.lam[kind], centre / room])


def _admit_variables(at: Iterate, used: FloatArray) -> None:
    """Let variables take part whose price exceeds half their weight."""
    w = at.problem.weights
    outside = np.ones(w.size, dtype=np.bool_)
    outside[at.active] = False
    new = np.flatnonzero(outside & (used > 0.5 * w))
    if not new.size:
        return
    centre = at.centre()
    room = np.minimum(0.05, 0.1 * (at.problem.ceilings[new] - 1.0))
    at.x = at.x.copy()
    at.x[new] = 1.0 + np.minimum(centre / w[new], room)
    at.active = np.concatenate([at.active, new])
    at.z = np.concatenate([at.z, 0.5 * w[new]])
    above = at.problem.ceilings[new] - 1.0
    at.y = np.concatenate([at.y, np.where(np.isfinite(above), centre / above, 0.0)])


def _newton_step(at: Iterate, gradients: list[FloatArray | csc_array], used: FloatArray) -> bool:
    """Take one step: Mehrotra's predictor tells how far towards the boundary the step may aim.

    Whether it was taken: not if the equations have no digits left.
    """
    problem, active = at.problem, at.active
    try:
        equations = Equations.of(at, gradients, used)
    except LinAlgError:
        return False
    centre, nowhere = at.centre(), NewtonDirection(**dict.fromkeys(("x", "g", "lam", "z", "y"), np.zeros(1)))
    predicted = equations.direction(equations.towards(0.0, nowhere))
    alpha, beta = equations.longest(predicted)
    aim = (equations.centre_after(predicted, alpha, beta) / centre) ** 3
    far = min(alpha, beta) > _FAR  # a short prediction says nothing of second-order terms
    aim = float(np.clip(aim, 0.0 if far else _CENTRING, 1.0))
    if equations.unbalanced() > centre:  # products that vanish before the other conditions hold lose digits
        aim = max(aim, _UNBALANCED)
    chosen = equations.direction(equations.towards(centre * aim, predicted if far else nowhere))
    alpha, beta = equations.longest(chosen)
    before = at.x
    for _ in range(5):
        at.x = before.copy()
        at.x[active] += alpha * chosen.x
        at.evaluate()
        rising = zip(at.now, problem.risks, strict=True)
        if all(np.all(now.phi > 0) for now, one in rising if one.sign > 0):
            break
        alpha *= 0.6
    moved = equations.g + alpha * chosen.g
    true = at.slack  # use the true slack wherever it is positive enough
    at.g = split(np.where(true > 0.1 * moved, true, moved), at.working)
    at.lam = split(equations.lam + beta * chosen.lam, at.working)
    at.z, at.y = at.z + beta * chosen.z, at.y + beta * chosen.y
    return True


def _repaired(problem: NoiseProblem, x: FloatArray, safe: FloatArray) -> tuple[FloatArray, float]:
    """The point, moved towards a strictly feasible one by as little as rounding needs."""
    share = 0.0
    found = x
    while problem.least_slack(found) < 0 and share < 1:
        share = min(1.0, max(4 * share, 1e-15))
        found = x + share * (safe - x)
    return found, problem.loss(found)
