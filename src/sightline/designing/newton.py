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

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import csc_array

from sightline.arrays import FloatArray, IndexArray
from sightline.designing.problem import Cuts, NoiseProblem
from sightline.designing.risks import Recipes, RiskAt, squared
from sightline.designing.start import first_constraints, strictly_feasible, worst_of_each_row
from sightline.numerics.inverse import positive_inverse
from sightline.progress import Progress, silent

_ROUNDS = 120
_STEP = 0.99  # how far towards the nearest bound a step goes
_LEAST_AIM = 1e-4  # of the products of slacks and multipliers that a step aims at, over the present ones
_FAR, _CENTRING = 0.6, 0.3  # a prediction that goes this far is trusted; else a step aims at this much
_NO_ROOM = 1e-15  # a distance to a floor or ceiling that rounding has made zero
_PRICED = 1e-3  # a price over the largest that shows how far apart two problems are
_BEHIND = 3.0  # a start near another optimum is at a gap of so many times the difference
_TOO_FAR = 0.03  # and one that differs by more is of no use
_FACTORISED = 512  # larger systems are inverted by matrix products


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Waypoint:
    """Where the method was: a start for a problem that differs a little."""

    gap: float
    x: FloatArray
    active: IndexArray
    working: tuple[IndexArray, ...]
    lam: tuple[FloatArray, ...]
    z: FloatArray
    y: FloatArray
    safe: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Optimum:
    """The noise, the bounds on the least loss, and the prices of the attacks."""

    x: FloatArray
    upper: float  # the loss of x, which keeps the limits up to rounding
    lower: float  # no noise that keeps the limits has a smaller loss
    cuts: Cuts  # the proof of the lower bound
    rounds: int
    factorisations: int
    path: tuple[Waypoint, ...] = ()

    @property
    def gap(self) -> float:
        """How far the loss may be above the least one, over the loss."""
        return max(0.0, (self.upper - self.lower) / self.upper)


@dataclass(slots=True, kw_only=True, eq=False)
class _Iterate:
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
    factorisations: int = 0

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
        self.factorisations += 1

    def find_recipes(self) -> None:
        self.recipes = tuple(now.recipes(own) for now, own in zip(self.now, self.working, strict=True))

    def gradients(self) -> list[FloatArray | csc_array]:
        """The derivative of every constraint that takes part by every variable, kind by kind."""
        found = [
            self.problem.lift.T @ (squared(own) * one.sign)
            for own, one in zip(self.recipes, self.problem.risks, strict=True)
        ]
        return [one if isinstance(one, np.ndarray) else csc_array(one) for one in found]

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
            z=self.z,
            y=self.y,
            safe=safe,
        )


def least_noise(
    problem: NoiseProblem,
    *,
    tolerance: float = 1e-7,
    near: Optimum | None = None,
    progress: Progress = silent,
) -> Optimum | None:
    """The least noise that keeps the limits; ``None`` if none within the ceilings keeps them.

    ``near`` is the optimum of a problem with other values of the same constraints.
    """
    floor = np.ones(problem.weights.size)
    if not any(one.needed.size for one in problem.risks) or problem.least_slack(floor) >= 0:
        return _at_the_floor(problem, floor)
    begun = _continued(problem, near) or _begun(problem)
    if begun is None:
        return None
    at, safe, safe_phi = begun
    best_x, best_upper, best_lower = safe, problem.loss(safe), -np.inf
    best_cuts, path, rounds = None, [], 0
    for rounds in range(1, _ROUNDS + 1):
        if rounds > 1:
            _admit_constraints(at)
        at.find_recipes()
        gradients = at.gradients()
        cuts = Cuts(prices=tuple(at.lam), recipes=at.recipes, chosen=tuple(at.working))
        lower = cuts.lower_bound(problem)
        if best_cuts is None or lower > best_lower:
            best_lower, best_cuts = lower, cuts
        mixed = at.x + _share_of_safe(at, safe_phi) * (safe - at.x)
        if problem.loss(mixed) < best_upper:
            best_x, best_upper = mixed, problem.loss(mixed)
        progress("choosing the noise", rounds / _ROUNDS)
        gap = (best_upper - best_lower) / abs(best_upper)
        path.append(at.waypoint(gap, safe))
        if gap <= tolerance:
            break
        used = sum((G @ lam for G, lam in zip(gradients, at.lam, strict=True)), np.zeros(floor.size))
        if rounds > 1:
            _admit_variables(at, used)
        if not _newton_step(at, gradients, used):
            break
    assert best_cuts is not None  # there was at least one round
    best_x, best_upper = _repaired(problem, best_x, safe)
    return Optimum(
        x=best_x,
        upper=best_upper,
        lower=best_lower,
        cuts=best_cuts,
        rounds=rounds,
        factorisations=at.factorisations,
        path=tuple(path),
    )


def _at_the_floor(problem: NoiseProblem, floor: FloatArray) -> Optimum:
    nobody = tuple(np.zeros(0, dtype=np.intp) for _ in problem.risks)
    nothing = Cuts(
        prices=tuple(np.zeros(0) for _ in problem.risks),
        recipes=tuple(csc_array((problem.floors.size, 0)) for _ in problem.risks),
        chosen=nobody,
    )
    loss = problem.loss(floor)
    return Optimum(x=floor, upper=loss, lower=loss, cuts=nothing, rounds=0, factorisations=1)


_Begun = tuple[_Iterate, FloatArray, list[FloatArray]]


def _begun(problem: NoiseProblem) -> _Begun | None:
    """The method at a strictly feasible point."""
    found = strictly_feasible(problem)
    if found is None:
        return None
    x, active = found
    at = _Iterate(problem=problem, x=x, active=active, working=first_constraints(problem))
    at.evaluate()
    at.find_recipes()
    weights = problem.weights
    slack = at.slack
    at.g = _parts(slack, at.working)
    each = zip(at.gradients(), at.g, strict=True)
    used = sum((abs(G) @ (1 / g) for G, g in each), np.zeros(weights.size))
    # One product of slacks and multipliers for all: half of the optimality conditions err each way.
    below, above = at.below, at.above
    both = 1 / below + np.where(np.isfinite(above), 1 / above, 0.0)
    centre = float(np.median(weights[active] / (used[active] + both)))
    at.lam = [centre / g for g in at.g]
    at.z, at.y = centre / below, np.where(np.isfinite(above), centre / above, 0.0)
    return at, x.copy(), [now.phi for now in at.now]


def _continued(problem: NoiseProblem, near: Optimum | None) -> _Begun | None:
    """The method at a waypoint of another problem, before it came closer than the two problems differ."""
    if near is None or not near.path:
        return None
    slacks = problem.slacks(near.x)
    chosen = zip(slacks, near.cuts.chosen, near.cuts.prices, strict=True)
    priced = [
        np.abs(slack[own][prices > _PRICED * prices.max()]) for slack, own, prices in chosen if own.size
    ]
    difference = float(np.max(np.concatenate(priced), initial=0.0))
    far = [one for one in near.path if one.gap >= _BEHIND * difference]
    if difference > _TOO_FAR or not far:
        return None
    point = far[-1]
    safe = _Iterate(problem=problem, x=point.safe, active=point.active, working=list(point.working))
    safe.evaluate()
    phi = [now.phi for now in safe.now]
    if any(np.any(own <= one.needed) for own, one in zip(phi, problem.risks, strict=True)):
        return None
    at = _Iterate(
        problem=problem, x=point.x.copy(), active=point.active, working=list(point.working), factorisations=1
    )
    at.lam, at.z, at.y = list(point.lam), point.z, point.y
    at.evaluate()
    if any(np.any(now.phi <= 0) for now, one in zip(at.now, problem.risks, strict=True) if one.sign > 0):
        return None
    centre = float(np.mean(at.z * at.below))
    at.g = [
        np.maximum(slack, centre / np.maximum(lam, np.finfo(np.float64).tiny))
        for slack, lam in zip(_parts(at.slack, at.working), at.lam, strict=True)
    ]
    return at, point.safe, phi


def _parts(values: FloatArray, working: list[IndexArray]) -> list[FloatArray]:
    ends = np.cumsum([own.size for own in working])[:-1]
    return list(np.split(values, ends))


def _share_of_safe(at: _Iterate, safe_phi: list[FloatArray]) -> float:
    """How far towards the safe point all constraints hold: they are concave."""
    share = 0.0
    for now, one, safe in zip(at.now, at.problem.risks, safe_phi, strict=True):
        short = one.needed - now.phi
        broken = short > 0
        if broken.any():
            share = max(share, float(np.max(short[broken] / (safe - now.phi)[broken])))
    return share


def _admit_constraints(at: _Iterate) -> None:
    """Let constraints take part that are broken, of each row the worst."""
    centre = at.centre()
    for kind, (now, one) in enumerate(zip(at.now, at.problem.risks, strict=True)):
        slack = now.phi - one.needed
        broken = slack < 0
        broken[at.working[kind]] = False
        new = worst_of_each_row(one, slack / np.abs(one.needed), np.flatnonzero(broken))
        if not new.size:
            continue
        room = np.maximum(-slack[new], 1e-3 * np.abs(one.needed[new]))
        at.working[kind] = np.concatenate([at.working[kind], new])
        at.g[kind] = np.concatenate([at.g[kind], room])
        at.lam[kind] = np.concatenate([at.lam[kind], centre / room])


def _admit_variables(at: _Iterate, used: FloatArray) -> None:
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


def _newton_step(at: _Iterate, gradients: list[FloatArray | csc_array], used: FloatArray) -> bool:
    """Take one step: Mehrotra's predictor tells how far towards the boundary the step may aim.

    False if the equations have no digits left.
    """
    problem, active = at.problem, at.active
    equations = _Equations.of(at, gradients, used)
    if equations is None:
        return False
    centre = at.centre()
    predicted = equations.direction(0.0, None)
    alpha, beta = equations.longest(predicted)
    aim = (equations.centre_after(predicted, alpha, beta) / centre) ** 3
    far = min(alpha, beta) > _FAR  # a short prediction says nothing of second-order terms
    aim = float(np.clip(aim, _LEAST_AIM if far else _CENTRING, 1.0))
    chosen = equations.direction(centre * aim, predicted if far else None)
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
    at.g = _parts(np.where(true > 0.1 * moved, true, moved), at.working)
    at.lam = _parts(equations.lam + beta * chosen.lam, at.working)
    at.z, at.y = at.z + beta * chosen.z, at.y + beta * chosen.y
    return True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Direction:
    """Changes of the variables, the slacks and the multipliers."""

    x: FloatArray
    g: FloatArray
    lam: FloatArray
    z: FloatArray
    y: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Equations:
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
    def of(cls, at: _Iterate, gradients: list[FloatArray | csc_array], used: FloatArray) -> _Equations | None:
        active, e = at.active, at.above
        finite = np.isfinite(e)
        G = [one[active] if isinstance(one, np.ndarray) else one.tocsr()[active].tocsc() for one in gradients]
        e_or_one, g = np.where(finite, e, 1.0), np.concatenate(at.g)
        diagonal = at.z / at.below + at.y / e_or_one
        solve = _factorised(_hessian(at, G, diagonal, exact=True))
        if solve is None:  # the exact Hessian lost its definiteness to rounding: leave out its negative part
            solve = _factorised(_hessian(at, G, diagonal, exact=False))
        if solve is None:
            return None
        return cls(
            solve=solve,
            G=G,
            working=at.working,
            dual=at.problem.weights[active] - used[active] - at.z + at.y,
            primal=at.slack - g,
            g=g,
            lam=np.concatenate(at.lam),
            d=at.below,
            z=at.z,
            e=e_or_one,
            y=at.y,
            finite=finite,
        )

    def direction(self, centre: float, before: _Direction | None) -> _Direction:
        """Towards products of slacks and multipliers of ``centre``, given the terms of second order."""
        g, lam, d, z, e, y = self.g, self.lam, self.d, self.z, self.e, self.y
        to_g, to_z, to_y = centre - lam * g, centre - z * d, np.where(self.finite, centre - y * e, 0.0)
        if before is not None:
            to_g = to_g - before.lam * before.g
            to_z = to_z - before.z * before.x
            to_y = to_y + np.where(self.finite, before.y * before.x, 0.0)
        parts = _parts((to_g - lam * self.primal) / g, self.working)
        right = -self.dual + to_z / d - to_y / e
        right = right + sum(one @ part for one, part in zip(self.G, parts, strict=True))
        dx = self.solve(right)
        dg = np.concatenate([one.T @ dx for one in self.G]) + self.primal
        return _Direction(
            x=dx,
            g=dg,
            lam=(to_g - lam * dg) / g,
            z=(to_z - z * dx) / d,
            y=np.where(self.finite, (to_y + y * dx) / e, 0.0),
        )

    def longest(self, step: _Direction) -> tuple[float, float]:
        """How far the primal and the dual part of a direction may go."""
        own = self.finite
        alpha = min(_longest(self.d, step.x), _longest(self.g, step.g), _longest(self.e[own], -step.x[own]))
        beta = min(_longest(self.lam, step.lam), _longest(self.z, step.z), _longest(self.y[own], step.y[own]))
        return alpha, beta

    def centre_after(self, step: _Direction, alpha: float, beta: float) -> float:
        """The mean product of a slack and its multiplier after a step."""
        total = (self.g + alpha * step.g) @ (self.lam + beta * step.lam)
        total += (self.d + alpha * step.x) @ (self.z + beta * step.z)
        ceilings = (self.e - alpha * step.x) * (self.y + beta * step.y)
        total += ceilings[self.finite].sum()
        return float(total) / (self.g.size + self.d.size + int(self.finite.sum()))


def _hessian(
    at: _Iterate, G: list[FloatArray | csc_array], diagonal: FloatArray, *, exact: bool
) -> FloatArray:
    lift = at.problem.lift.tocsr()[:, at.active]
    rows = np.flatnonzero(np.diff(lift.indptr))
    lift = csc_array(lift[rows])
    curved = np.zeros((rows.size, rows.size))
    for now, recipes, lam in zip(at.now, at.recipes, at.lam, strict=True):
        if lam.size:
            now.add_curvature(curved, recipes, lam, rows)
    total: FloatArray = np.asarray(lift.T @ (lift.T @ curved).T)
    each = zip(at.now, at.working, G, at.lam, at.g, strict=True)
    for now, own, one, lam, g in each:
        if not lam.size:
            continue
        weight = lam / g - (2 * lam * now.inverse_phi[own] if exact else 0.0)
        if isinstance(one, np.ndarray):
            total += (one * weight) @ one.T
        else:
            total += (one.multiply(weight) @ one.T).toarray()
    total[np.diag_indices_from(total)] += diagonal
    return total


def _factorised(matrix: FloatArray) -> Callable[[FloatArray], FloatArray] | None:
    """A solver of the equations; ``None`` if the matrix is not positive definite, to rounding."""
    unit = 1 / np.sqrt(np.maximum(np.diagonal(matrix), np.finfo(np.float64).tiny))
    matrix *= unit
    matrix *= unit[:, None]
    inverse: Callable[[FloatArray], FloatArray]
    if len(matrix) <= _FACTORISED:
        try:
            factor = cho_factor(matrix, lower=True, check_finite=False)
        except LinAlgError:
            return None
        inverse = partial(cho_solve, factor, check_finite=False)
    else:
        dense = positive_inverse(matrix.copy())
        if dense is None:
            return None
        inverse = dense.__matmul__

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


def _repaired(problem: NoiseProblem, x: FloatArray, safe: FloatArray) -> tuple[FloatArray, float]:
    """The point, moved towards a strictly feasible one by as little as rounding needs."""
    share = 0.0
    found = x
    while problem.least_slack(found) < 0 and share < 1:
        share = min(1.0, max(4 * share, 1e-15))
        found = x + share * (safe - x)
    return found, problem.loss(found)
