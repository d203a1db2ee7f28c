"""Starts of the joint search over values and labels: the same values, given to the records in another order.

Symmetric releases of a group determine its values in any order; releases over subsets prefer some order. So
each order of the records has a local minimum of its own near the multiset that the symmetric releases fit
best. For up to six values all orders are compared, and the best of them are starts. Beyond that the number
of orders is too large, and to find the best one is a quadratic assignment problem: only exchanges of two
values are compared, a few times over. This is a heuristic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations, islice, permutations
from typing import TypeGuard

from sightline.arrays import namespace
from sightline.attacks.model import Model, Objective
from sightline.attacks.namespace import Column

ALL_ORDERS = 6  # up to so many values all orders are compared
ROUNDS = 3  # of exchanges, for more values
_KEPT = 8  # orders that become starts


def applies(model: Objective) -> TypeGuard[Model]:
    """Whether the releases are of both kinds: symmetric and nonlinear, and over subsets."""
    if not isinstance(model, Model) or model.exchangeable or model.linear:
        return False
    return model.unknowns > 1 and symmetric_part(model) is not None


def symmetric_part(model: Model) -> tuple[Model, list[int]] | None:
    """The rows that do not depend on the order of the unknowns and their places; ``None`` if all of them are
    linear or if their noise is correlated with that of others."""
    places = [i for i, row in enumerate(model.rows) if len(set(row.weights)) == 1]
    if not places or isinstance(model.whitening[0], tuple):
        return None
    part = Model(
        rows=tuple(model.rows[i] for i in places),
        records=model.records,
        whitening=tuple(model.whitening[i] for i in places),
    )
    return None if part.linear else (part, places)


def reordered(model: Model, whitened: Sequence[Column], u: Sequence[Column]) -> list[list[Column]]:
    """For every column of answers the orders of the values u with the smallest objectives."""
    xp = namespace(u[0])
    m = len(u)
    count = min(_KEPT, math.factorial(m) - 1 if m <= ALL_ORDERS else math.comb(m, 2))
    zero = 0.0 * u[0]
    kept = [(zero + math.inf, list(u)) for _ in range(count)]
    for order in _orders(m):
        point = [u[k] for k in order]
        objective = zero
        for z, p in zip(whitened, model.whiten(model.expected(point)), strict=True):
            objective = objective + (z - p) * (z - p)
        for i, (best, held) in enumerate(kept):  # insert, and carry on with what was pushed out
            closer = objective < best
            kept[i] = (
                xp.where(closer, objective, best),
                [xp.where(closer, new, old) for new, old in zip(point, held, strict=True)],
            )
            point = [xp.where(closer, old, new) for new, old in zip(point, held, strict=True)]
            objective = xp.where(closer, best, objective)
    return [point for _, point in kept]


def _orders(members: int) -> Iterable[Sequence[int]]:
    """All orders but the given one, or all exchanges of two."""
    if members <= ALL_ORDERS:
        return islice(permutations(range(members)), 1, None)
    return (_exchanged(members, a, b) for a, b in combinations(range(members), 2))


def _exchanged(members: int, a: int, b: int) -> list[int]:
    order = list(range(members))
    order[a], order[b] = b, a
    return order
