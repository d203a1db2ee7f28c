r"""Two values, two moments: the global optimum of the constrained likelihood, exactly.

The pairs :math:`-R \le u_1 \le u_2 \le R` are a triangle, and :math:`(\mu_1, \mu_2) = (\frac{u_1+u_2}{2},
\frac{u_1^2+u_2^2}{2})` maps it one to one. So either the answers are the moments of some pair of the triangle
and the optimum is 0, or the nearest moments lie on the image of one of its three edges. On an edge the
objective is a polynomial of degree four in one variable, whose stationary points are the roots of a cubic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

import numpy as np

from sightline.arrays import FloatArray, namespace
from sightline.attacks.cubic import cubic_roots
from sightline.attacks.curves import Power
from sightline.attacks.model import Model, Objective
from sightline.attacks.namespace import Box, Column


def applies(model: Objective) -> TypeGuard[Model]:
    """Whether the model is the first two moments of two values."""
    if not isinstance(model, Model):
        return False
    orders = sorted(row.curve.order for row in model.rows if isinstance(row.curve, Power))
    return model.unknowns == 2 and model.outputs == 2 and orders == [1, 2] and model.exchangeable


def exact_optimum(model: Model, answers: Sequence[Column], *, box: Box) -> Column:
    r"""The least :math:`(y - p(u))^\top \Sigma^{-1} (y - p(u))` over the box, for columns of answers."""
    xp = namespace(answers[0])
    low, high = box
    orders = [row.curve.order for row in model.rows if isinstance(row.curve, Power)]
    first, second = orders.index(1), orders.index(2)
    scales = np.array([[row.weights[0]] for row in model.rows])
    W = np.stack(model.whiten(list(np.eye(2))))
    z = model.whiten(answers)
    best = 0.0 * z[0] + math.inf
    # Power sums along an edge, as coefficients of 1, t, t².
    for p1, p2 in (
        ((0.0, 2.0, 0.0), (0.0, 0.0, 2.0)),  # u₁ = u₂ = t
        ((high, 1.0, 0.0), (high**2, 0.0, 1.0)),  # u₂ = high, u₁ = t
        ((low, 1.0, 0.0), (low**2, 0.0, 1.0)),  # u₁ = low, u₂ = t
    ):
        sums = np.empty((2, 3))
        sums[first], sums[second] = p1, p2
        on_edge = _edge_optimum(z, W @ (scales * sums), box)
        best = xp.where(on_edge < best, on_edge, best)
    s1, s2 = (answers[place] * (1 / scales[place, 0]) for place in (first, second))
    square = 2.0 * s2 - s1 * s1  # (u₂ − u₁)²
    half = 0.5 * xp.sqrt(xp.where(square > 0, square, 0.0 * square))
    inside = (square >= 0) & (0.5 * s1 - half >= low) & (0.5 * s1 + half <= high)
    return xp.where(inside, 0.0 * best, best)


def _edge_optimum(z: Sequence[Column], edge: FloatArray, box: Box) -> Column:
    """The least squared distance from z to the curve edge·(1, t, t²), t within the box."""
    xp = namespace(z[0])
    (a0, a1, a2), (b0, b1, b2) = edge.tolist()
    da, db = a0 - z[0], b0 - z[1]
    # ½ d/dt of the squared distance.
    c0 = da * a1 + db * b1
    c1 = a1 * a1 + b1 * b1 + 2.0 * (da * a2 + db * b2)
    c2 = 3.0 * (a1 * a2 + b1 * b2) + 0.0 * c0
    stationary = cubic_roots((c0, c1, c2), 2.0 * (a2 * a2 + b2 * b2))
    best = 0.0 * c0 + math.inf
    # The real part of a complex root may be tried too: every point of the edge is feasible.
    for t in (*stationary, 0.0 * c0 + box[0], 0.0 * c0 + box[1]):
        t = xp.clip(t, *box)
        x, y = da + (a1 + a2 * t) * t, db + (b1 + b2 * t) * t
        distance = x * x + y * y
        best = xp.where(distance < best, distance, best)
    return best
