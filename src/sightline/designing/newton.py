r"""The least noise by a primal-dual Newton method, with a certificate at every step.

The slacks are :math:`g = \varphi(s) - \kappa`, :math:`d = x - 1` and :math:`e = u - x`; their multipliers are
:math:`\lambda, z, y`. A step solves

.. math:: \Bigl(2 M^{-1} \circ H \Lambda H^\top + H_2 \operatorname{diag}(\lambda/g - 2\lambda q) H_2^\top
    + \operatorname{diag}(z/d + y/e)\Bigr)\,\Delta x = r

with :math:`H_2 = H \circ H` and :math:`q = a^\top M^{-1} a`. At every step the multipliers and recipes make a
lower bound, and a convex combination with a strictly feasible point makes an upper bound. Only variables that
deserve noise take part: one joins when its price exceeds half its weight.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csc_array

from sightline.arrays import FloatArray, IndexArray
from sightline.designing.problem import FIXED, Cuts, NoiseProblem
from sightline.designing.risks import RiskAt, squared
from sightline.numerics.inverse import positive_inverse
from sightline.progress import Progress, silent

_ROUNDS = 120
_STEP = 0.99  # how far towards the nearest bound a step goes
_MOST = 1e14  # a factor beyond which more noise changes nothing
_NO_ROOM = 1e-15  # a distance to a floor or ceiling that rounding has made zero
_INSIDE = 1e-6  # how far below its ceiling, over the distance to the floor, a start is


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Optimum:
    """The noise, the bounds on the least loss, and the prices of the attacks."""

    x: FloatArray
    upper: float  # the loss of x, which keeps the limits up to rounding
    lower: float  # no noise that keeps the limits has a smaller loss
    cuts: Cuts  # the proof of the lower bound
    rounds: int
    factorisations: int

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
    lam: FloatArray = field(default_factory=lambda: np.zeros(0))
    g: FloatArray = field(default_factory=lambda: np.zeros(0))
    z: FloatArray = field(default_factory=lambda: np.zeros(0))
    y: FloatArray = field(default_factory=lambda: np.zeros(0))
    now: tuple[RiskAt, ...] = ()
    phi: FloatArray = field(default_factory=lambda: np.zeros(0))
    factorisations: int = 0

    @property
    def below(self) -> FloatArray:
        return np.maximum(self.x[self.active] - 1.0, _NO_ROOM)

    @property
    def above(self) -> FloatArray:
        return np.maximum(self.problem.ceilings[self.active] - self.x[self.active], _NO_ROOM)

    def evaluate(self) -> None:
        s = self.problem.variances(self.x)
        self.now = tuple(one.at(s) for one in self.problem.risks)
        self.phi = np.concatenate([one.phi for one in self.now])
        self.factorisations += 1

    def split(self, values: FloatArray) -> list[FloatArray]:
        ends = np.cumsum([one.needed.size for one in self.problem.risks])[:-1]
        return list(np.split(values, ends))

    def gradients(self) -> list[FloatArray | csc_array]:
        """The derivative of every constraint by every variable, kind by kind."""
        lift = self.problem.lift
        found = [lift.T @ squared(one.recipes) for one in self.now]
        return [one if isinstance(one, np.ndarray) else csc_array(one) for one in found]


def least_noise(
    problem: NoiseProblem, *, tolerance: float = 1e-7, progress: Progress = silent
) -> Optimum | None:
    """The least noise that keeps the limits; ``None`` if none within the ceilings keeps them."""
    needed = np.concatenate([one.needed for one in problem.risks] or [np.zeros(0)])
    floor = np.ones(problem.weights.size)
    if needed.size == 0 or problem.least_slack(floor) >= 0:
        return _at_the_floor(problem, floor)
    at = _start(problem, needed)
    if at is None:
        return None
    safe, safe_phi = at.x.copy(), at.phi.copy()
    best_x, best_upper, best_lower, best_cuts = safe, problem.loss(safe), -np.inf, _no_cuts(at)
    _first_multipliers(at, needed)
    step = 0.0
    rounds = 0
    for rounds in range(1, _ROUNDS + 1):
        gradients = at.gradients()
        parts = at.split(at.lam)
        used = sum((G @ lam for G, lam in zip(gradients, parts, strict=True)), np.zeros(floor.size))
        cuts = Cuts(prices=tuple(parts), recipes=tuple(one.recipes for one in at.now))
        lower = cuts.lower_bound(problem)
        if lower > best_lower:
            best_lower, best_cuts = lower, cuts
        short = needed - at.phi
        broken = short > 0
        share = float(np.max(short[broken] / (safe_phi - at.phi)[broken])) if broken.any() else 0.0
        mixed = at.x + share * (safe - at.x)
        if problem.loss(mixed) < best_upper:
            best_x, best_upper = mixed, problem.loss(mixed)
        progress("choosing the noise", rounds / _ROUNDS)
        if best_upper - best_lower <= tolerance * best_upper:
            break
        if rounds > 1:
            _admit(at, used)
        taken = _newton_step(at, gradients, used, needed, step)
        if taken is None:
            break
        step = taken
    best_x, best_upper = _repaired(problem, best_x, safe)
    return Optimum(
        x=best_x,
        upper=best_upper,
        lower=best_lower,
        cuts=best_cuts,
        rounds=rounds,
        factorisations=at.factorisations,
    )


def _at_the_floor(problem: NoiseProblem, floor: FloatArray) -> Optimum:
    nothing = Cuts(
        prices=tuple(np.zeros(one.needed.size) for one in problem.risks),
        recipes=tuple(csc_array(one.columns.shape) for one in problem.risks),
    )
    loss = problem.loss(floor)
    return Optimum(x=floor, upper=loss, lower=loss, cuts=nothing, rounds=0, factorisations=1)


def _no_cuts(at: _Iterate) -> Cuts:
    return Cuts(
        prices=tuple(np.zeros(one.phi.size) for one in at.now), recipes=tuple(one.recipes for one in at.now)
    )


def _start(problem: NoiseProblem, needed: FloatArray) -> _Iterate | None:
    """A strictly feasible point: noise that is enough against an attacker who knows all other records."""
    wanted = np.zeros(problem.floors.size)
    for one in problem.risks:
        most = one.columns.power(2)
        most = most.multiply(one.needed * np.diff(one.columns.indptr)).max(axis=1)
        wanted = np.maximum(wanted, np.asarray(most.todense()).ravel())
    rows = np.flatnonzero((problem.variable != FIXED) & (wanted > 0))
    x = np.ones(problem.weights.size)
    np.maximum.at(x, problem.variable[rows], 1.2 * wanted[rows] / problem.floors[rows])
    active = np.unique(problem.variable[rows])
    if not active.size:
        return None
    finite = np.isfinite(problem.ceilings)
    room = np.where(finite, problem.ceilings, 0.0) - 1.0
    at = _Iterate(problem=problem, x=x, active=active)
    factor = 1.5
    while True:
        at.x = np.ones(x.size)
        at.x[active] = np.maximum(x[active], 1.0) * factor
        at.x[finite] = np.minimum(at.x[finite], 1.0 + room[finite] * (1 - _INSIDE))
        at.evaluate()
        if np.all(at.phi > needed):
            return at
        if factor > _MOST:
            return None
        factor *= 4


def _first_multipliers(at: _Iterate, needed: FloatArray) -> None:
    weights = at.problem.weights
    at.g = at.phi - needed
    parts = at.split(1 / at.g)
    used = sum((G @ one for G, one in zip(at.gradients(), parts, strict=True)), np.zeros(weights.size))
    at.lam = 0.7 * float(np.min(weights[used > 0] / used[used > 0])) / at.g
    left = (weights - 0.7 * float(np.min(weights[used > 0] / used[used > 0])) * used)[at.active]
    at.y = np.where(np.isfinite(at.above), 0.1 * left, 0.0)
    at.z = left + at.y


def _admit(at: _Iterate, used: FloatArray) -> None:
    """Let variables take part whose price exceeds half their weight."""
    w = at.problem.weights
    outside = np.ones(w.size, dtype=np.bool_)
    outside[at.active] = False
    new = np.flatnonzero(outside & (used > 0.5 * w))
    if not new.size:
        return
    centre = (at.lam @ at.g + at.z @ at.below) / (at.lam.size + at.active.size)
    room = np.minimum(0.05, 0.1 * (at.problem.ceilings[new] - 1.0))
    at.x[new] = 1.0 + np.minimum(centre / w[new], room)
    at.active = np.concatenate([at.active, new])
    at.z = np.concatenate([at.z, 0.5 * w[new]])
    at.y = np.concatenate(
        [
            at.y,
            np.where(np.isfinite(at.problem.ceilings[new]), centre / (at.problem.ceilings[new] - 1.0), 0.0),
        ]
    )


def _newton_step(
    at: _Iterate, gradients: list[FloatArray | csc_array], used: FloatArray, needed: FloatArray, last: float
) -> float | None:
    """Take one step; returns its length, the smaller of the primal and the dual one. None: no digits left."""
    problem, active = at.problem, at.active
    d, e, g, lam, z, y = at.below, at.above, at.g, at.lam, at.z, at.y
    finite = np.isfinite(e)
    e_or_one = np.where(finite, e, 1.0)
    dual = problem.weights[active] - used[active] - z + y
    primal = at.phi - needed - g
    pairs = lam.size + active.size + int(finite.sum())
    centre = (lam @ g + z @ d + (y * e_or_one)[finite].sum()) / pairs
    mu = centre * (0.05 if last > 0.9 else 0.15 if last > 0.7 else 0.3 if last > 0.4 else 0.6)
    G = [one[active] if isinstance(one, np.ndarray) else one.tocsr()[active].tocsc() for one in gradients]
    matrix = _hessian(at, G, exact=True)
    diagonal = z / d + np.where(finite, y / e_or_one, 0.0)
    matrix[np.diag_indices_from(matrix)] += diagonal
    towards = at.split((mu - lam * g - lam * primal) / g)
    right = -dual + (mu - z * d) / d - np.where(finite, (mu - y * e_or_one) / e_or_one, 0.0)
    right = right + sum(one @ part for one, part in zip(G, towards, strict=True))
    dx = _solved(matrix, right)
    if dx is None:  # the exact Hessian lost its definiteness to rounding: leave out its negative part
        matrix = _hessian(at, G, exact=False)
        matrix[np.diag_indices_from(matrix)] += diagonal
        dx = _solved(matrix, right)
    if dx is None:
        return None
    dg = np.concatenate([one.T @ dx for one in G]) + primal
    dlam = (mu - lam * g - lam * dg) / g
    dz = (mu - z * d - z * dx) / d
    dy = np.where(finite, (mu - y * e_or_one + y * dx) / e_or_one, 0.0)
    alpha = min(_longest(d, dx), _longest(g, dg), _longest(e_or_one[finite], -dx[finite]))
    beta = min(_longest(lam, dlam), _longest(z, dz), _longest(y[finite], dy[finite]))
    before = at.x.copy()
    for _ in range(5):
        at.x = before.copy()
        at.x[active] += alpha * dx
        at.evaluate()
        if np.all(at.phi > 0):
            break
        alpha *= 0.6
    at.g = g + alpha * dg
    at.lam, at.z, at.y = lam + beta * dlam, z + beta * dz, y + beta * dy
    true = at.phi - needed  # use the true slack wherever it is positive enough
    at.g = np.where(true > 0.1 * at.g, true, at.g)
    return min(alpha, beta)


def _hessian(at: _Iterate, G: list[FloatArray | csc_array], *, exact: bool) -> FloatArray:
    problem = at.problem
    taking_part = np.zeros(problem.weights.size + 1, dtype=np.bool_)
    taking_part[at.active] = True
    rows = np.flatnonzero(taking_part[problem.variable])
    lift = csc_array(problem.lift.tocsr()[rows].tocsc()[:, at.active])
    total = np.zeros((at.active.size, at.active.size))
    for now, one, lam, g in zip(at.now, G, at.split(at.lam), at.split(at.g), strict=True):
        curved = now.curvature(lam, rows)
        total += lift.T @ (lift.T @ curved).T
        weight = lam / g - (2 * lam * now.inverse_phi if exact else 0.0)
        total += (
            (one * weight) @ one.T
            if isinstance(one, np.ndarray)
            else (one.multiply(weight) @ one.T).toarray()
        )
    return total


def _solved(matrix: FloatArray, right: FloatArray) -> FloatArray | None:
    """The solution; ``None`` if the matrix is not positive definite, to rounding."""
    unit = 1 / np.sqrt(np.maximum(np.diagonal(matrix), np.finfo(np.float64).tiny))
    scaled = matrix * unit
    scaled *= unit[:, None]
    inverse = positive_inverse(scaled.copy())
    if inverse is None:
        return None
    wanted = unit * right
    found = inverse @ wanted
    found += inverse @ (wanted - scaled @ found)  # once more, for the digits that the inverse lost
    return np.asarray(unit * found)


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
