r"""Two values, two moments: the global optimum of the constrained likelihood, exactly.

The pairs :math:`-R \le u_1 \le u_2 \le R` are a triangle, and :math:`(\mu_1, \mu_2) = (\frac{u_1+u_2}{2},
\frac{u_1^2+u_2^2}{2})` maps it one to one. So either the answers are the moments of some pair of the triangle
and the optimum is 0, or the nearest moments lie on the image of one of its three edges. On an edge the
objective is a polynomial of degree four in one variable, whose stationary points are the roots of a cubic.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray
from sightline.attacks.curves import Power
from sightline.attacks.model import Model


def applies(model: Model) -> bool:
    """Whether the model is the first two moments of two values."""
    orders = sorted(row.curve.order for row in model.rows if isinstance(row.curve, Power))
    return model.unknowns == 2 and model.outputs == 2 and orders == [1, 2] and model.exchangeable


def exact_optimum(model: Model, answers: FloatArray, *, box: tuple[float, float]) -> FloatArray:
    r"""The least :math:`(y - p(u))^\top \Sigma^{-1} (y - p(u))` over the box, for every row of answers."""
    low, high = box
    scales = np.array([row.weights[0] for row in model.rows])
    orders = [row.curve.order for row in model.rows if isinstance(row.curve, Power)]
    first, second = orders.index(1), orders.index(2)
    W = np.stack(model.whiten(list(np.eye(2))))  # columns of the whitening matrix, as rows of the identity go
    z = answers @ W.T
    # An edge is (a(t), b(t)) with coefficients of 1, t, t² in each answer.
    edges = []
    for p1, p2, bounds in (
        ((0.0, 2.0, 0.0), (0.0, 0.0, 2.0), (low, high)),  # u₁ = u₂ = t
        ((high, 1.0, 0.0), (high**2, 0.0, 1.0), (low, high)),  # u₂ = high
        ((low, 1.0, 0.0), (low**2, 0.0, 1.0), (low, high)),  # u₁ = low
    ):
        sums = np.empty((2, 3))
        sums[first], sums[second] = p1, p2
        edges.append((W @ (scales[:, None] * sums), bounds))
    best = np.min([_edge_optimum(z, *edge) for edge in edges], axis=0)
    return np.where(_feasible(answers, scales, first, second, box), 0.0, best)


def _feasible(
    answers: FloatArray, scales: FloatArray, first: int, second: int, box: tuple[float, float]
) -> NDArray[np.bool_]:
    p1, p2 = (answers[:, place] / scales[place] for place in (first, second))
    square = 2 * p2 - p1**2  # (u₂ − u₁)²
    half = np.sqrt(np.maximum(square, 0.0)) / 2
    inside: NDArray[np.bool_] = (square >= 0) & (p1 / 2 - half >= box[0]) & (p1 / 2 + half <= box[1])
    return inside


def _edge_optimum(z: FloatArray, coefficients: FloatArray, bounds: tuple[float, float]) -> FloatArray:
    """The least squared distance from z to the curve C·(1, t, t²), t within bounds."""
    c0, c1, c2 = coefficients.T
    # ½ d/dt ‖z − c(t)‖² = (c(t) − z)·c'(t), a cubic.
    offset = c0 - z
    cubic = np.stack(
        [
            offset @ c1,
            c1 @ c1 + 2 * (offset @ c2),
            np.full(len(z), 3 * (c1 @ c2)),
            np.full(len(z), 2 * (c2 @ c2)),
        ],
        axis=1,
    )
    companion = np.zeros((len(z), 3, 3))
    companion[:, 1, 0] = companion[:, 2, 1] = 1.0
    companion[:, :, 2] = -cubic[:, :3] / cubic[:, 3:]
    roots = np.linalg.eigvals(companion).real
    for _ in range(3):  # a complex root's real part is harmless: any point of the edge is a candidate
        value = ((cubic[:, 3:] * roots + cubic[:, 2:3]) * roots + cubic[:, 1:2]) * roots + cubic[:, :1]
        slope = (3 * cubic[:, 3:] * roots + 2 * cubic[:, 2:3]) * roots + cubic[:, 1:2]
        roots = roots - np.divide(value, slope, out=np.zeros_like(value), where=slope != 0)
    ends = np.broadcast_to(np.array(bounds), (len(z), 2))
    points = np.clip(np.concatenate([np.nan_to_num(roots), ends], axis=1), *bounds)
    curve = c0 + c1 * points[..., None] + c2 * points[..., None] ** 2
    distances: FloatArray = np.sum((z[:, None, :] - curve) ** 2, axis=2)
    nearest: FloatArray = np.min(distances, axis=1)
    return nearest
