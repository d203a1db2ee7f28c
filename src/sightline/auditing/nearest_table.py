r"""The nearest point of a box under a linear map: :math:`\min \|B g\|` over :math:`l \le g \le h`.

Its residual is what matters: a certificate that is evaluated afterwards, so that an answer that is not quite
the least can only miss a group, and never invent one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import FloatArray
from sightline.progress import reported

_SMALL = 200_000  # entries of a table that is solved by an exact method
_STEPS = 600  # of the accelerated method, for larger ones


def nearest_in_box(table: Any, low: FloatArray, high: FloatArray, *, near: float = 0.0) -> FloatArray:
    """The residual B g of the least-squares solution in a box; zero where one at most ``near`` is found.

    >>> B = sparse.csr_array(np.array([[1.0, 1.0]]))
    >>> bool(abs(nearest_in_box(B, np.array([1.0, -5.0]), np.array([2.0, 0.5]))[0]) < 1e-14)
    True
    >>> nearest_in_box(sparse.csr_array(np.array([[1.0, 1.0]])), np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    array([3.])
    """
    start = np.clip(0.0, low, high)
    if not np.any(start):
        return np.zeros(table.shape[0])
    # Rows without a class that must move, and classes that nothing ties to them, do not matter.
    scale = np.sqrt(np.asarray(table.multiply(table).sum(axis=0)).ravel())
    used = np.flatnonzero(scale)
    scaled = table[:, used] @ sparse.diags_array(1 / scale[used])
    low, high = low[used] * scale[used], high[used] * scale[used]
    small = table.shape[0] * used.size <= _SMALL
    scaled = scaled.toarray() if small else scaled
    point, residual = _accelerated(scaled, scaled.T if small else scaled.T.tocsr(), low, high, near=near)
    if float(np.linalg.norm(residual)) <= near:
        return np.zeros(table.shape[0])
    return np.asarray(scaled @ _exact(scaled, low, high, point)) if small else residual


def _accelerated(
    table: Any, transposed: Any, low: FloatArray, high: FloatArray, *, near: float
) -> tuple[FloatArray, FloatArray]:
    """Projected gradients with momentum, which starts anew where it would go uphill: a point of the box and
    its residual.
    """
    probe, largest = np.ones(table.shape[1]), 0.0
    for _ in range(20):  # the largest singular value, to within what the margin allows for
        probe = transposed @ (table @ (probe / max(float(np.linalg.norm(probe)), 1e-300)))
        before, largest = largest, float(np.linalg.norm(probe))
        if largest <= 1.0001 * before:
            break
    length = 1 / (1.1 * largest + 1e-300)
    point = np.clip(0.0, low, high)
    residual = table @ point
    ahead, ahead_residual, momentum = point, residual, 1.0
    for _ in reported(range(_STEPS), "looking for groups that are alike"):
        gradient = transposed @ ahead_residual
        new = np.clip(ahead - length * gradient, low, high)
        new_residual, moved = table @ new, new - point
        still = float(np.max(np.abs(moved), initial=0.0)) <= 1e-10 * (
            1 + float(np.max(np.abs(new), initial=0))
        )
        if still or float(np.linalg.norm(new_residual)) <= near:
            return new, new_residual
        if float(gradient @ moved) > 0:
            further, momentum = 0.0, 1.0
        else:
            following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            further, momentum = (momentum - 1) / following, following
        ahead, ahead_residual = new + further * moved, new_residual + further * (new_residual - residual)
        point, residual = new, new_residual
    return point, residual


def _exact(dense: FloatArray, low: FloatArray, high: FloatArray, start: FloatArray) -> FloatArray:
    """The same to full precision by an active set: one end is let go at a time, the steepest first.

    Importing scipy.optimize for it would take longer than a small audit.
    """
    point = np.asarray(start.copy())
    free = (point > low) & (point < high)
    waiting = np.zeros_like(free)  # let go in vain: rounding sent them back to where they were
    before = np.inf
    for _ in range(10 * len(point)):
        point, free = _inside(dense, low, high, point, free)
        length = float(np.linalg.norm(dense @ point))
        waiting &= length >= before
        before = length
        gradient = dense.T @ (dense @ point)
        inward = np.where(point <= low, -gradient, gradient)
        inward[free | waiting | (high <= low)] = 0.0
        steepest = int(np.argmax(inward))
        if inward[steepest] <= 1e-13 * length:
            return point
        free[steepest] = waiting[steepest] = True
    return point


def _inside(
    dense: FloatArray, low: FloatArray, high: FloatArray, point: FloatArray, free: NDArray[np.bool_]
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Least squares over those that are free; one that reaches an end stays there."""
    while free.any():
        step = np.zeros_like(point)
        step[free] = np.linalg.lstsq(dense[:, free], -(dense @ point), rcond=None)[0]
        ends = np.where(step > 0, high, low)
        share = np.divide(ends - point, step, out=np.full_like(point, np.inf), where=step != 0)
        first = int(np.argmin(share))
        if share[first] >= 1:
            return np.asarray(np.clip(point + step, low, high)), free
        point = np.clip(point + max(share[first], 0.0) * step, low, high)
        point[first] = ends[first]
        free[first] = False
    return point, free
