r"""The signal :math:`A_L` of a group at every release count: the diagonal of its inverse, and its accuracy.

Rounding acts as a perturbation of the rows, of relative size :math:`\gamma` in every column. To first order

.. math:: \frac{|\delta \operatorname{tr} A^{-1}|}{\operatorname{tr} A^{-1}}
          \le 2\gamma \sum_k \sqrt{A_{kk} (A^{-1})_{kk}},

because :math:`\delta \operatorname{tr} A^{-1} = -2\langle G A^{-2}, \delta G\rangle` and
:math:`\|G A^{-2} e_k\| \le \operatorname{tr}(A^{-1})\,(A^{-1})_{kk}^{1/2}`. The factor
:math:`A_{kk}(A^{-1})_{kk}` is the variance inflation factor: how much larger the bound on value k is because
the others are unknown too.

The diagonal of :math:`A_L^{-1}` for every release count, from factorisations of the rows.

:math:`A_L = G_L^\top G_L` (``eq:lever2_A_def``) is never formed: :math:`G_L = Q R` gives
:math:`A_L^{-1} = R^{-1} R^{-\top}`, whose diagonal is the squared lengths of the rows of :math:`R^{-1}`.

In a nested family each release adds one row. There are two algorithms:

- many groups: plane rotations add the new row to the triangles of all groups together;
- one group: rows are added in blocks. With :math:`R` the triangle before the block and :math:`W = R^{-\top}
  B^\top` its new rows, whitened, the Cholesky factor :math:`C` of :math:`1 + W^\top W` is nested, and

  .. math:: A_j^{-1} = A_{\mathrm{end}}^{-1} + \sum_{i > j} y_i y_i^\top, \qquad Y = C^{-1} (R^{-1} W)^\top .

  Counted back from the end of the block, every term is positive, so no digits cancel. A block ends where
  :math:`\|W\|` becomes large, so that the Cholesky factor is well conditioned too.

Bounds of single values where the group as a whole is not identifiable.

Releases can expose a value far from all others and still not determine the others: the rows determine value k
if :math:`e_k` lies in their span, and the bound is then :math:`(A^+)_{kk}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs, qr, solve_triangular
from scipy.sparse import csr_array
from scipy.sparse.csgraph import structural_rank

from sightline.arrays import AT_A_TIME, FloatArray, IndexArray
from sightline.progress import report
from sightline.theory.multiset.family import Family, rounding

_ACCURATE = 1e-8  # smaller estimated relative errors need no warning
_UNRELIABLE = 1e-2  # above it neither the first-order estimate nor any digit is reliable


class CurveStatus(IntEnum):
    """How accurate the bound at a release count is."""

    ACCURATE = 0
    ILL_CONDITIONED = 1
    UNRELIABLE = 2
    TOO_FEW_RELEASES = 3
    UNSEEN = 4
    COLLISION = 5

    def __str__(self) -> str:
        return _MEANING[self]


_MEANING = {
    CurveStatus.ACCURATE: "accurate",
    CurveStatus.ILL_CONDITIONED: "ill-conditioned: see the estimated error",
    CurveStatus.UNRELIABLE: "so ill-conditioned that no digit is reliable",
    CurveStatus.TOO_FEW_RELEASES: "not identifiable: fewer releases than values",
    CurveStatus.UNSEEN: "not identifiable: no release depends on some combination of the values",
    CurveStatus.COLLISION: "not identifiable: equal values",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Signal:
    """The signal at each count, at κ = 1: arrays over (groups,) counts (and values)."""

    diagonal: FloatArray  # A_kk
    inverse_diagonal: FloatArray  # (A⁻¹)_kk, NaN where the trace is not finite
    trace: FloatArray  # of the inverse
    relative_error: FloatArray
    status: NDArray[np.uint8]
    proven: NDArray[np.bool_]  # identifiable by a theorem, whatever the rounding

    def __post_init__(self) -> None:
        for name in self.__slots__:
            getattr(self, name).setflags(write=False)

    @property
    def identifiable(self) -> NDArray[np.bool_]:
        """Where the values are identifiable, by a reliable number or by a theorem."""
        return np.isfinite(self.trace) | self.proven

    def of_group(self, group: int) -> Signal:
        """The signal of one group."""
        return Signal(**{name: getattr(self, name)[group] for name in self.__slots__})

    def as_groups(self) -> Signal:
        """The signal of one group, as that of a batch of one."""
        return Signal(**{name: getattr(self, name)[None] for name in self.__slots__})


def signals(groups: FloatArray, *, family: Family, counts: IndexArray) -> Signal:
    """The signal of sorted groups ``(B, m)`` at increasing counts."""
    B, m = groups.shape
    size = max(1, AT_A_TIME // (int(counts[-1]) * m))
    # The batch is the last axis: one step of all factorisations is then one operation on adjacent numbers.
    diagonal, inverse = np.empty((2, len(counts), m, B))
    inflation, trace = np.empty((2, len(counts), B))
    edge = np.zeros((len(counts), B))
    starts = range(0, B, size)
    steps = _Steps(len(starts) * (1 if family.nested else len(counts)))
    for start in starts:
        some = slice(start, start + size)
        near, far = _chunk(groups[some], family=family, counts=counts, steps=steps)
        diagonal[..., some], inverse[..., some] = near, far
        with np.errstate(invalid="ignore", over="ignore"):
            factors = np.sqrt(near * far)
            inflation[:, some] = np.sum(factors, axis=1)
            trace[:, some] = np.sum(far, axis=1)
            for i, L in enumerate(counts):
                extra = family.edge_error(groups[some], int(L))
                if extra is not None:
                    edge[i, some] = np.sum(extra.T * factors[i], axis=0)
    gamma = np.array([rounding(family, int(L)) for L in counts])
    error = 2 * (gamma[:, None] * inflation + 2.0**-53 * edge)
    status = _statuses(groups, error, family=family, counts=counts)
    bad = status > CurveStatus.ILL_CONDITIONED
    unreliable = status == CurveStatus.UNRELIABLE
    inverse.swapaxes(0, 1)[:, bad] = np.nan
    trace[bad] = np.where(unreliable, np.nan, np.inf)[bad]
    error[bad] = np.where(unreliable, np.inf, 0.0)[bad]
    proven = (counts >= family.full_rank_from(m))[:, None]
    return Signal(
        diagonal=np.moveaxis(diagonal, -1, 0),
        inverse_diagonal=np.moveaxis(inverse, -1, 0),
        trace=trace.T,
        relative_error=error.T,
        status=status.T,
        proven=(proven & (status != CurveStatus.COLLISION)).T,
    )


class _Steps:
    """Reports the share of finished steps."""

    def __init__(self, total: int) -> None:
        self._total, self._done = total, -1
        self.advance()

    def advance(self) -> None:
        self._done += 1
        report("release curves", self._done / self._total)


def _chunk(
    groups: FloatArray, *, family: Family, counts: IndexArray, steps: _Steps
) -> tuple[FloatArray, FloatArray]:
    """The diagonals of A and of its inverse, ``(counts, m, B)``, by the faster algorithm for their sizes."""
    B, m = groups.shape
    together = 2 * m < B
    diagonal = np.empty((len(counts), m, B))
    inverse = np.full((len(counts), m, B), np.inf)
    if family.nested:
        rows = _batch_last(family.rows(groups, int(counts[-1])))
        squares = rows**2
        for before, after in pairwise(squares):  # faster than np.cumsum, which strides across the batch
            after += before
        diagonal[:] = squares[counts - 1]
        if together:
            inverse[:] = nested_diagonals_of_many(rows, counts)
        else:
            for b in range(B):
                inverse[..., b] = nested_diagonals_of_one(rows[..., b], counts)
        steps.advance()
        return diagonal, inverse
    for i, count in enumerate(counts):
        rows = _batch_last(family.rows(groups, int(count)))
        diagonal[i] = np.sum(rows**2, axis=0)
        if count >= m and together:
            inverse[i] = inverse_diagonals(triangles(rows))
        elif count >= m:
            for b in range(B):
                inverse[i, :, b] = diagonal_of_one(rows[..., b])
        steps.advance()
    return diagonal, inverse


def _batch_last(rows: FloatArray) -> FloatArray:
    return np.ascontiguousarray(np.moveaxis(rows, 0, -1))


def status_of_error(error: FloatArray) -> NDArray[np.uint8]:
    """How accurate numbers with these estimated relative errors are."""
    status = np.full(error.shape, CurveStatus.ACCURATE, dtype=np.uint8)
    status[error > _ACCURATE] = CurveStatus.ILL_CONDITIONED
    status[~(error <= _UNRELIABLE)] = CurveStatus.UNRELIABLE
    return status


def _statuses(
    groups: FloatArray, error: FloatArray, *, family: Family, counts: IndexArray
) -> NDArray[np.uint8]:
    """How accurate each number is, ``(counts, B)``."""
    status = status_of_error(error)
    status[counts < groups.shape[1]] = CurveStatus.TOO_FEW_RELEASES
    status[:, (np.diff(groups, axis=1) == 0).any(axis=1)] = CurveStatus.COLLISION
    if np.any(status == CurveStatus.UNRELIABLE):
        _mark_unseen(status, groups, family=family, counts=counts)
    return status


def _mark_unseen(
    status: NDArray[np.uint8], groups: FloatArray, *, family: Family, counts: IndexArray
) -> None:
    """Mark the unreliable numbers whose rows cannot have full rank because of their zeros.

    Slopes of a compact step are zero outside its support. A logistic slope that underflows is below 1e-308,
    and a bound that depends on it exceeds the largest double: infinity is correct there too.
    """
    m = groups.shape[1]
    unreliable = status == CurveStatus.UNRELIABLE
    for i in np.flatnonzero(unreliable.any(axis=1)):
        some = np.flatnonzero(unreliable[i])
        present = family.rows(groups[some], int(counts[i])) != 0
        for b, pattern in zip(some, present, strict=True):
            if not pattern.all() and structural_rank(csr_array(pattern)) < m:
                status[i, b] = CurveStatus.UNSEEN


_BLOCK = 48  # the most rows that are added at once
_HEAVY = 16.0  # ‖W‖² at which a block ends: rounding errors grow at most by about this factor


def triangles(rows: FloatArray) -> FloatArray:
    """The triangular factors of many row matrices ``(L, m, B)``, batch last: ``(m, m, B)``."""
    R = np.zeros((rows.shape[1], *rows.shape[1:]))
    for row in rows:
        rotate_in(R, row.copy())
    return R


def rotate_in(R: FloatArray, row: FloatArray) -> None:
    """Add one row ``(m, B)`` to each of the triangles ``(m, m, B)`` in place. Overwrites the row."""
    for j in range(R.shape[0]):
        length = np.sqrt(R[j, j] ** 2 + row[j] ** 2)
        if length.all():
            cosine, sine = R[j, j] / length, row[j] / length
        else:  # in some groups there is nothing to rotate
            empty = length == 0
            length[empty] = 1.0
            cosine, sine = np.where(empty, 1.0, R[j, j] / length), np.where(empty, 0.0, row[j] / length)
        turned = cosine * R[j, j:] + sine * row[j:]
        row[j:] = cosine * row[j:] - sine * R[j, j:]
        R[j, j:] = turned


def inverse_diagonals(R: FloatArray) -> FloatArray:
    """The diagonals ``(m, B)`` of the inverse of RᵀR for triangles ``(m, m, B)``; infinite where singular."""
    m = R.shape[0]
    X = np.zeros_like(R)
    diagonal = np.empty(R.shape[1:])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for i in reversed(range(m)):
            X[i, i] = 1.0 / R[i, i]
            for k in range(i + 1, m):
                X[i, k:] -= R[i, k] * X[k, k:]
            X[i, i + 1 :] /= R[i, i]
            diagonal[i] = np.sum(X[i, i:] ** 2, axis=0)
    if not np.isfinite(diagonal).all():
        diagonal[np.isnan(diagonal)] = np.inf
    return diagonal


def nested_diagonals_of_many(rows: FloatArray, counts: IndexArray) -> FloatArray:
    """For rows ``(L, m, B)`` of a nested family: the diagonals at the counts, ``(len(counts), m, B)``."""
    _, m, B = rows.shape
    wanted = {int(count): where for where, count in enumerate(counts)}
    diagonals = np.full((len(counts), m, B), np.inf)
    R = np.zeros((m, m, B))
    for used, row in enumerate(rows, start=1):
        rotate_in(R, row.copy())
        if used in wanted and used >= m:
            diagonals[wanted[used]] = inverse_diagonals(R)
    return diagonals


def diagonal_of_one(rows: FloatArray) -> FloatArray:
    """For one row matrix ``(L, m)``, ``L >= m``: the diagonal of the inverse, ``(m,)``."""
    lengths = _column_lengths(rows)
    triangle = _triangle(rows / lengths)
    diagonal: FloatArray = np.sum(_inverse(triangle) ** 2, axis=1) / lengths**2
    return diagonal


def nested_diagonals_of_one(rows: FloatArray, counts: IndexArray) -> FloatArray:
    """For rows ``(L, m)`` of a nested family: the diagonals at the counts, ``(len(counts), m)``."""
    L, m = rows.shape
    diagonals = np.full((L + 1, m), np.inf)
    start = max(m, int(counts[0]))
    if start > L:
        return diagonals[counts]
    lengths = _column_lengths(rows)
    scaled = np.asfortranarray(rows / lengths)
    triangle = _triangle(scaled[:start])
    diagonals[start] = np.sum(_inverse(triangle) ** 2, axis=1)
    (join,) = get_lapack_funcs(("tpqrt",), (triangle,))
    done = start
    while done < L:
        block = scaled[done : done + _BLOCK]
        extra = np.zeros((1, m))
        if np.all(np.diagonal(triangle) != 0):
            W = solve_triangular(triangle, block.T, trans="T", check_finite=False)
            heavy = np.cumsum(np.sum(W**2, axis=0))
            light = int(np.searchsorted(heavy, _HEAVY))
            block = block[: max(1, light)]
            if light > 1:
                extra = _decreases(triangle, W[:, :light])
        else:
            block = block[:1]
        triangle, _, _, _ = join(0, min(m, 32), triangle, np.asfortranarray(block))
        end = np.sum(_inverse(triangle) ** 2, axis=1)
        # Row i is the decrease due to release i of the block: counts before it still include that amount.
        back = np.cumsum(extra[:0:-1], axis=0)[::-1] if len(block) > 1 else np.zeros((0, m))
        diagonals[done + 1 : done + len(block)] = end + back
        done += len(block)
        diagonals[done] = end
    return diagonals[counts] / lengths**2


def _decreases(triangle: FloatArray, W: FloatArray) -> FloatArray:
    """Squared rows of Y: the decrease of the diagonal of the inverse by each row of a block."""
    C = np.linalg.cholesky(np.eye(W.shape[1]) + W.T @ W)
    U = solve_triangular(triangle, W, check_finite=False)
    Y: FloatArray = solve_triangular(C, U.T, lower=True, check_finite=False)
    return Y**2


def _triangle(rows: FloatArray) -> FloatArray:
    (triangle,) = qr(rows, mode="r", check_finite=False)
    return np.asfortranarray(triangle[: rows.shape[1]])


def _inverse(triangle: FloatArray) -> FloatArray:
    (invert,) = get_lapack_funcs(("trtri",), (triangle,))
    inverse, singular = invert(triangle)
    return np.full_like(triangle, np.inf) if singular > 0 else np.triu(inverse)


def _column_lengths(rows: FloatArray) -> FloatArray:
    lengths: FloatArray = np.linalg.norm(rows, axis=0)
    return np.where(lengths > 0, lengths, 1.0)


# A unit vector this close to the span counts as inside. This is the cautious side: if everything undetermined
# moves across the whole domain, the value changes by a millionth of the domain.
_INSIDE = 1e-6


def single_values(groups: FloatArray, *, family: Family, counts: IndexArray, signal: Signal) -> FloatArray:
    r"""The bound of each sorted value over :math:`\kappa_L`, ``(B, counts, m)``, for groups ``(B, m)``.

    Infinite for values that the rows do not determine; NaN where values are equal or no digit is reliable.
    """
    bounds = signal.inverse_diagonal.copy()
    open_ = (signal.status == CurveStatus.TOO_FEW_RELEASES) | (signal.status == CurveStatus.UNSEEN)
    for i in np.flatnonzero(open_.any(axis=0)):
        some = np.flatnonzero(open_[:, i])
        bounds[some, i] = exposed(family.rows(groups[some], int(counts[i])))
    return bounds


def exposed(rows: FloatArray) -> FloatArray:
    """The bound of each value, ``(B, m)``, from rows ``(B, L, m)`` that need not determine all of them."""
    _, singular, right = np.linalg.svd(rows, full_matrices=False)
    rounding_of_rows = max(rows.shape[1:]) * np.finfo(np.float64).eps
    significant = singular > rounding_of_rows * singular[:, :1]
    weights = np.divide(1.0, singular**2, out=np.zeros_like(singular), where=significant)
    bounds = np.einsum("bik,bi->bk", right**2, weights)
    outside = 1.0 - np.einsum("bik,bi->bk", right**2, significant.astype(np.float64))
    return np.where(outside <= _INSIDE**2 + 1e-15 * rows.shape[2], bounds, np.inf)
