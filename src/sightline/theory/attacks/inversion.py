r"""Algebraic inversion: the values whose first m moments equal the noisy answers.

Roots of cubics in closed form; and for two values and two moments the global optimum of the constrained
likelihood, exactly. The pairs :math:`-R \le u_1 \le u_2 \le R` are a triangle, and :math:`(\mu_1, \mu_2) =
(\frac{u_1+u_2}{2}, \frac{u_1^2+u_2^2}{2})` maps it one to one. So either the answers are the moments of some
pair of the triangle and the optimum is 0, or the nearest moments lie on the image of one of its three edges.
On an edge the objective is a polynomial of degree four in one variable, whose stationary points are the roots
of a cubic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray
from sightline.errors import require
from sightline.theory.attacks.estimates import AttackStatus, Estimates, checked_answers
from sightline.theory.attacks.model import Box, Model, Power
from sightline.theory.geometry.transcript import Transcript
from sightline.theory.releases.features import Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentInversion:
    r"""Solve :math:`\frac1m\sum_k u_k^\ell = y_\ell`, :math:`\ell = 1, \ldots, m`, and sort.

    Newton's identities turn power sums into the coefficients of the polynomial whose roots are the values.
    For two values, :math:`\hat x = y_1 \mp \sqrt{(y_2 - y_1^2)_+}` (``eq:m2_estimator``). If no
    real values have the noisy moments, some roots are complex; their real parts are returned, and the status
    of the trial says so. The attack ignores the domain, the noise and all moments after the first m.

    >>> from sightline import Transcript
    >>> moments = [Moment(order=order, members=range(3), bound=1.0) for order in (1, 2, 3)]
    >>> transcript = Transcript(moments, noise=[0.1] * 3)
    >>> estimates = MomentInversion().estimate(transcript, transcript.answers([0.5, -0.25, 0.75]))
    >>> estimates.values.round(9).tolist()
    [[-0.25, 0.5, 0.75]]
    """

    def estimate(self, transcript: Transcript, answers: Any) -> Estimates:
        """Sorted values for every trial."""
        checked = checked_answers(transcript, answers)
        members, places = _moments(transcript)
        values, real = invert_moments(checked[:, places])
        status = np.where(real, AttackStatus.SOLVED, AttackStatus.NO_REAL_SOLUTION)
        return Estimates(values=values, targets=members, unlabeled=len(members) > 1, status=status)


def invert_moments(moments: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
    r"""Sorted values with the moments :math:`1, \ldots, m` of each row, and whether they are real.

    >>> values, real = invert_moments(np.array([[0.15, 0.325], [0.5, 0.0]]))
    >>> values.round(9).tolist(), real.tolist()
    ([[-0.4, 0.7], [0.5, 0.5]], [True, False])
    """
    trials, m = moments.shape
    if m == 2:  # the paper's closed form (eq:m2_estimator)
        square = moments[:, 1] - moments[:, 0] ** 2
        half = np.sqrt(np.maximum(square, 0.0))
        return np.stack([moments[:, 0] - half, moments[:, 0] + half], axis=1), square >= 0
    p = m * moments
    e = np.ones((trials, m + 1))  # elementary symmetric polynomials
    for k in range(1, m + 1):
        signs = (-1.0) ** np.arange(k)
        e[:, k] = np.sum(signs * e[:, k - 1 :: -1][:, :k] * p[:, :k], axis=1) / k
    companion = np.zeros((trials, m, m))
    companion[:, np.arange(1, m), np.arange(m - 1)] = 1.0
    companion[:, 0, :] = -((-1.0) ** np.arange(1, m + 1)) * e[:, 1:]
    roots = np.linalg.eigvals(companion)
    real: NDArray[np.bool_] = np.all(np.abs(roots.imag) == 0, axis=1)
    values: FloatArray = np.sort(roots.real, axis=1)
    return values, real


def _moments(transcript: Transcript) -> tuple[tuple[int, ...], list[int]]:
    """The group, and the places of its moments 1, …, m among the answers."""
    orders: list[int] = []
    members = transcript.queries[0].members
    for query in transcript.queries:
        one_group = query.outputs == 1 and query.dimension == 1 and np.array_equal(query.members, members)
        require(one_group, "moments of one group of scalar records", got="releases of different members")
        orders.append(query.order if isinstance(query, Moment) else 0)
    missing = [order for order in range(1, len(members) + 1) if order not in orders]
    require(
        not missing,
        f"moments 1 to {len(members)} of {len(members)} values",
        got=f"a transcript without moment {missing[:1]}",
        fix="use ConstrainedMLE, which fits any releases",
    )
    return tuple(members.tolist()), [orders.index(order) for order in range(1, len(members) + 1)]


def depressed_roots(a: FloatArray, b: FloatArray) -> list[FloatArray]:
    r"""The roots of :math:`t^3 + at = b` in ascending order; a complex pair becomes its real part, twice.

    Viète's cosines where all three are real, else Cardano's formula, written without cancellation.

    >>> import numpy as np
    >>> [round(float(root[0]), 12) for root in depressed_roots(np.array([-7.0]), np.array([-6.0]))]
    [-3.0, 1.0, 2.0]
    """
    zero = 0.0 * a
    real = 4.0 * a * a * a + 27.0 * b * b <= 0
    radius = np.sqrt(np.where(a < 0, -a, zero) * (4 / 3))
    cube = radius * radius * radius
    cosine = 4.0 * b / np.where(cube > 0, cube, 1.0 + zero)
    angle = np.arccos(np.clip(cosine, -1.0, 1.0)) * (1 / 3)
    three = [radius * np.cos(angle - 2 * math.pi * k / 3) for k in (2, 1, 0)]
    root = np.sqrt(np.where(real, zero, 0.25 * b * b + a * a * a * (1 / 27)))
    size = (0.5 * np.abs(b) + root) ** (1 / 3)
    lone = size - a * (1 / 3) / np.where(size > 0, size, 1.0 + zero)
    lone = np.where(b < 0, -lone, lone)
    pair = -0.5 * lone
    roots = [np.where(b < 0, lone, pair), pair, np.where(b < 0, pair, lone)]
    return [np.where(real, x, y) for x, y in zip(three, roots, strict=True)]


def cubic_roots(coefficients: Sequence[FloatArray], leading: float) -> list[FloatArray]:
    r"""The roots of :math:`c_0 + c_1t + c_2t^2 + kt^3` for ``leading`` k, polished by Newton's method."""
    c0, c1, c2 = (c * (1 / leading) for c in coefficients)
    shift = c2 * (1 / 3)
    a = c1 - c2 * shift
    b = c1 * shift - c0 - 2.0 * shift * shift * shift
    roots = []
    for t in depressed_roots(a, b):
        x = t - shift
        value = ((x + c2) * x + c1) * x + c0
        for _ in range(2):
            slope = (3.0 * x + 2.0 * c2) * x + c1
            near = x - value / np.where(slope != 0, slope, 1.0 + 0.0 * x)
            remaining = ((near + c2) * near + c1) * near + c0
            better = np.abs(remaining) < np.abs(value)  # at a double root a step may be worse
            x, value = np.where(better, near, x), np.where(better, remaining, value)
        roots.append(x)
    return roots


def two_moments_of_two(model: Model) -> bool:
    """Whether the model is the first two moments of two values."""
    orders = sorted(row.curve.order for row in model.rows if isinstance(row.curve, Power))
    return model.unknowns == 2 and model.outputs == 2 and orders == [1, 2] and model.exchangeable


def exact_optimum(model: Model, answers: FloatArray, *, box: Box) -> FloatArray:
    r"""The least :math:`(y - p(u))^\top \Sigma^{-1} (y - p(u))` over the box, for answers × trials."""
    low, high = box
    orders = [row.curve.order for row in model.rows if isinstance(row.curve, Power)]
    first, second = orders.index(1), orders.index(2)
    scales = np.array([[row.weights[0]] for row in model.rows])
    W = model.whiten(np.eye(2))
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
        best = np.where(on_edge < best, on_edge, best)
    s1, s2 = (answers[place] * (1 / scales[place, 0]) for place in (first, second))
    square = 2.0 * s2 - s1 * s1  # (u₂ − u₁)²
    half = 0.5 * np.sqrt(np.where(square > 0, square, 0.0 * square))
    inside = (square >= 0) & (0.5 * s1 - half >= low) & (0.5 * s1 + half <= high)
    return np.asarray(np.where(inside, 0.0, best))


def _edge_optimum(z: FloatArray, edge: FloatArray, box: Box) -> FloatArray:
    """The least squared distance from z to the curve edge·(1, t, t²), t within the box."""
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
        t = np.clip(t, *box)
        x, y = da + (a1 + a2 * t) * t, db + (b1 + b2 * t) * t
        distance = x * x + y * y
        best = np.where(distance < best, distance, best)
    return np.asarray(best)
