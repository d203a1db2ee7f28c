r"""The least noise by a primal-dual Newton method, with a certificate at every step.

The slacks are :math:`g = \varphi(s) - \kappa`, :math:`d = x - 1` and :math:`e = u - x`; their multipliers are
:math:`\lambda, z, y`. A step solves

.. math:: \Bigl(2 M^{-1} \circ H \Lambda H^\top + H_2 \operatorname{diag}(\lambda/g - 2\lambda q) H_2^\top
    + \operatorname{diag}(z/d + y/e)\Bigr)\,\Delta x = r

with :math:`H_2 = H \circ H` and :math:`q = a^\top M^{-1} a`. At every step the multipliers and recipes make a
lower bound, and a convex combination with a strictly feasible point makes an upper bound. Only variables that
deserve noise take part: one joins when its price exceeds half its weight. Of many constraints those take part
that were broken on the way; the upper bound looks at all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array

from sightline.arrays import FloatArray
from sightline.designing.equations import Equations
from sightline.designing.iterate import (
    Iterate,
    Waypoint,
    first_constraints,
    most_constraints,
    near_guess,
    split,
    strictly_feasible,
    worst_of_each_row,
)
from sightline.designing.problem import Cuts, NoiseProblem
from sightline.progress import report

NO_GUESS = np.zeros(0)
_ROUNDS = 120
_LEAST_AIM = 1e-4  # of the products of slacks and multipliers that a step aims at, over the present ones
_UNBALANCED = 0.8  # what a step aims at while the optimality conditions are further off than the products
_FAR, _CENTRING = 0.6, 0.3  # a prediction that goes this far is trusted; else a step aims at this much
# Where a whole step bends no constraint by more than this share of its level, a step aims at this much. It is
# corrected so often, unless it goes this far, as long as that makes it longer by so much.
_STRAIGHT, _NEARLY = 1e-3, 0.1
_CORRECTIONS, _FAR_ENOUGH, _LONGER = 4, 0.95, 0.02
_NEAR, _LITTLE = 0.3, 1e-3  # room of a constraint, over its level, with which it joins; the least it is given
_PRICED = 1e-3  # a price over the largest that shows how far apart two problems are
_BEHIND = 3.0  # a start near another optimum is at a gap of so many times the difference
_TOO_FAR = 0.03  # and one that differs by more is of no use


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Optimum:
    """The noise, the bounds on the least loss, and the prices of the attacks."""

    x: FloatArray
    upper: float  # the loss of x, which keeps the limits up to rounding
    lower: float  # no noise that keeps the limits has a smaller loss
    cuts: Cuts  # the proof of the lower bound
    rounds: int
    problem: NoiseProblem
    path: tuple[Waypoint, ...] = ()

    @property
    def gap(self) -> float:
        """How far the loss may be above the least one, over the loss."""
        return max(0.0, (self.upper - self.lower) / self.upper)


def least_noise(
    problem: NoiseProblem,
    *,
    tolerance: float = 1e-7,
    near: Optimum | None = None,
    guess: FloatArray = NO_GUESS,
) -> Optimum:
    """The least noise that keeps the limits; ``NotEnough`` if none within the ceilings keeps them.

    ``near`` is the optimum of a problem with other values of the same constraints, and ``guess`` a point
    that may be near the optimum.
    """
    floor = np.ones(problem.weights.size)
    if not any(one.needed.size for one in problem.risks) or problem.least_slack(floor) >= 0:
        return _at_the_floor(problem, floor)
    at, safe, safe_phi = _begun(problem, guess) if near is None else _continued(problem, near)
    best_x, best_upper, best_lower = safe, problem.loss(safe), -np.inf
    best_cuts, path, rounds = _no_cuts(problem, floor), [], 0
    for rounds in range(1, _ROUNDS + 1):
        if rounds > 1:
            _admit_constraints(at)
        at.find_recipes()
        at.find_tangents(at.lam)
        gradients, used = at.gradients(), at.used()
        for prices, what in ((at.lam, used), at.affordable_prices(gradients, used)):
            lower = at.lower_bound(what, prices)
            if lower <= best_lower:
                continue
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
        nearby = problem.loss(at.raised_where_broken(gradients))
        if nearby - best_lower <= tolerance * abs(nearby):  # the end: what is left is to keep all limits
            ended = at.at_floors().raised_where_broken(gradients)
            if problem.loss(ended) < best_upper and problem.least_slack(ended) >= 0:
                best_x, best_upper = ended, problem.loss(ended)
        gap = (best_upper - best_lower) / abs(best_upper)
        report("choosing the noise", _share_done(gap, tolerance))
        path.append(at.waypoint(gap, safe))
        if gap <= tolerance:
            break
        if rounds > 1:
            _admit_variables(at, used)
        if not _newton_step(at, gradients, used):
            break
    best_x, best_upper = _repaired(problem, best_x, safe)
    return Optimum(
        x=best_x,
        upper=best_upper,
        lower=best_cuts.lower_bound(problem),
        cuts=best_cuts,
        rounds=rounds,
        problem=problem,
        path=tuple(path),
    )


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
    return Optimum(x=floor, upper=loss, lower=loss, cuts=cuts, rounds=0, problem=problem)


_Begun = tuple[Iterate, FloatArray, list[FloatArray]]


def _begun(problem: NoiseProblem, guess: FloatArray) -> _Begun:
    """The method at a strictly feasible point, near a guess if there is one."""
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


def _continued(problem: NoiseProblem, near: Optimum) -> _Begun:
    """The method at a waypoint of another problem, before it came closer than the two problems differ.

    Of the same problem, at the last one; and else near its optimum.
    """
    same = near.problem is problem
    points = near.path[-1:] if same else _far_enough(problem, near)
    resumed = _resumed(problem, points[-1], same=same) if points else None
    return resumed or _begun(problem, near.x)


def _far_enough(problem: NoiseProblem, near: Optimum) -> list[Waypoint]:
    """Where the method was before it came closer to an optimum than the two problems differ."""
    if not near.path:
        return []
    slacks = problem.slacks(near.x)
    chosen = zip(slacks, near.cuts.chosen, near.cuts.prices, strict=True)
    priced = [
        np.abs(slack[own][prices > _PRICED * prices.max()]) for slack, own, prices in chosen if own.size
    ]
    difference = float(np.max(np.concatenate([np.zeros(0), *priced]), initial=0.0))
    return [one for one in near.path if one.gap >= _BEHIND * difference] if difference <= _TOO_FAR else []


def _resumed(problem: NoiseProblem, point: Waypoint, *, same: bool) -> _Begun | None:
    """The method at a waypoint; ``None`` if limits are broken at the waypoint's safe point."""
    safe = Iterate(problem=problem, x=point.safe, active=point.active, working=list(point.working))
    safe.evaluate()
    phi = [now.phi for now in safe.now]
    if any(np.any(own <= one.needed) for own, one in zip(phi, problem.risks, strict=True)):
        return None
    at = Iterate(problem=problem, x=point.x.copy(), active=point.active, working=list(point.working))
    at.lam, at.z, at.y = list(point.lam), point.z, point.y
    at.evaluate()
    if any(np.any(now.phi <= 0) for now, one in zip(at.now, problem.risks, strict=True) if one.sign > 0):
        return None
    if same:
        at.g, at.bent = list(point.g), point.bent
        return at, point.safe, phi
    centre = float(np.mean(at.z * at.below))
    at.g = [
        np.maximum(slack, centre / np.maximum(lam, np.finfo(np.float64).tiny))
        for slack, lam in zip(split(at.slack, at.working), at.lam, strict=True)
    ]
    return at, point.safe, phi


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
        room = np.maximum(np.abs(slack[new]), _LITTLE * size[new])
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
    equations = Equations.of(at, gradients, used)
    if equations is None:
        return False
    centre = at.centre()
    predicted = equations.direction(equations.towards(0.0, None))
    alpha, beta = equations.longest(predicted)
    aim = (equations.centre_after(predicted, alpha, beta) / centre) ** 3
    far = min(alpha, beta) > _FAR  # a short prediction says nothing of second-order terms
    straight = at.bent < _STRAIGHT
    aim = float(np.clip(aim, _LEAST_AIM if far else _NEARLY if straight else _CENTRING, 1.0))
    if equations.unbalanced() > centre:  # products that vanish before the other conditions hold lose digits
        aim = max(aim, _UNBALANCED)
    wanted = equations.towards(centre * aim, predicted if far else None)
    chosen = equations.direction(wanted)
    alpha, beta = equations.longest(chosen)
    for _ in range(_CORRECTIONS if straight else 0):
        if min(alpha, beta) > _FAR_ENOUGH:
            break
        nearer = equations.nearer(wanted, chosen, centre * aim)
        other = equations.direction(nearer)
        longer = equations.longest(other)
        if sum(longer) < alpha + beta + _LONGER:
            break
        wanted, chosen, (alpha, beta) = nearer, other, longer
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
    level = np.concatenate(
        [np.abs(one.needed)[own] for one, own in zip(problem.risks, at.working, strict=True)]
    )
    at.bent = float(np.max((moved - true) / level)) / max(alpha, _STRAIGHT) ** 2
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
