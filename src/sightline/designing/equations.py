"""The linearised optimality conditions of the least noise, factorised: directions of the method's steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import csc_array

from sightline.arrays import FloatArray, IndexArray
from sightline.designing.iterate import Iterate, split

_STEP = 0.99  # how far towards the nearest bound a step goes
_LONGER = 0.2  # by how much more of a direction a correction wants to go
_RANGE = 10.0  # products over the centre, and the centre over products, that a correction leaves


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
    def of(cls, at: Iterate, gradients: list[FloatArray | csc_array], used: FloatArray) -> Equations | None:
        active, e = at.active, at.above
        finite = np.isfinite(e)
        G = [one[active] if isinstance(one, np.ndarray) else one.tocsr()[active].tocsc() for one in gradients]
        e_or_one, g = np.where(finite, e, 1.0), np.concatenate(at.g)
        diagonal = at.z / at.below + at.y / e_or_one
        solve = _factorised(_hessian(at, diagonal, exact=True))
        if solve is None:  # the exact Hessian lost its definiteness to rounding: leave out its negative part
            solve = _factorised(_hessian(at, diagonal, exact=False))
        if solve is None:
            return None
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

    def towards(self, centre: float, before: NewtonDirection | None) -> Changes:
        """The changes to products of ``centre``, given the terms of second order of another direction."""
        to_g, to_z, to_y = centre - self.lam * self.g, centre - self.z * self.d, centre - self.y * self.e
        if before is not None:
            to_g = to_g - before.lam * before.g
            to_z = to_z - before.z * before.x
            to_y = to_y + before.y * before.x
        return Changes(g=to_g, z=to_z, y=np.where(self.finite, to_y, 0.0))

    def nearer(self, wanted: Changes, step: NewtonDirection, centre: float) -> Changes:
        """The same changes, corrected so that a longer step leaves no product far from ``centre``.

        Gondzio's correction: products that a longer step makes too small or too large are moved to the
        ends of a range about the centre, as far as the centre itself.
        """
        alpha, beta = (min(1.0, one + _LONGER) for one in self.longest(step))

        def missing(
            slack: FloatArray, d_slack: FloatArray, price: FloatArray, d_price: FloatArray
        ) -> FloatArray:
            product = (slack + alpha * d_slack) * (price + beta * d_price)
            return np.maximum(np.clip(product, centre / _RANGE, centre * _RANGE) - product, -centre)

        return Changes(
            g=wanted.g + missing(self.g, step.g, self.lam, step.lam),
            z=wanted.z + missing(self.d, step.x, self.z, step.z),
            y=wanted.y + np.where(self.finite, missing(self.e, -step.x, self.y, step.y), 0.0),
        )

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


def _factorised(matrix: FloatArray) -> Callable[[FloatArray], FloatArray] | None:
    """A solver of the equations; ``None`` if the matrix is not positive definite, to rounding."""
    unit = 1 / np.sqrt(np.maximum(np.diagonal(matrix), np.finfo(np.float64).tiny))
    matrix *= unit
    matrix *= unit[:, None]
    try:
        factor = cho_factor(matrix, lower=True, check_finite=False)
    except LinAlgError:
        return None
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
