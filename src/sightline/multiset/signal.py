r"""The signal :math:`A_L` of a group at every release count: the diagonal of its inverse, and its accuracy.

Rounding acts as a perturbation of the rows, of relative size :math:`\gamma` in every column. To first order

.. math:: \frac{|\delta \operatorname{tr} A^{-1}|}{\operatorname{tr} A^{-1}}
          \le 2\gamma \sum_k \sqrt{A_{kk} (A^{-1})_{kk}},

because :math:`\delta \operatorname{tr} A^{-1} = -2\langle G A^{-2}, \delta G\rangle` and
:math:`\|G A^{-2} e_k\| \le \operatorname{tr}(A^{-1})\,(A^{-1})_{kk}^{1/2}`. The factor
:math:`A_{kk}(A^{-1})_{kk}` is the variance inflation factor: how much larger the bound on value k is because
the others are unknown too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import structural_rank

from sightline.arrays import FloatArray, IndexArray
from sightline.multiset.factor import (
    diagonal_of_one,
    inverse_diagonals,
    nested_diagonals_of_many,
    nested_diagonals_of_one,
    triangles,
)
from sightline.multiset.family import Family, rounding
from sightline.progress import Progress, silent

_ACCURATE = 1e-8  # smaller estimated relative errors need no warning
_UNRELIABLE = 1e-2  # above it neither the first-order estimate nor any digit is reliable
_CHUNK = 200_000  # entries of the rows of groups that are processed together


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
    CurveStatus.UNRELIABLE: "so ill-conditioned that no digit is reliable: use certified_curve",
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


def signals(groups: FloatArray, *, family: Family, counts: IndexArray, progress: Progress = silent) -> Signal:
    """The signal of sorted groups ``(B, m)`` at increasing counts."""
    B, m = groups.shape
    size = max(1, _CHUNK // (int(counts[-1]) * m))
    # The batch is the last axis: one step of all factorisations is then one operation on adjacent numbers.
    diagonal, inverse = np.empty((2, len(counts), m, B))
    inflation, trace = np.empty((2, len(counts), B))
    edge = np.zeros((len(counts), B))
    starts = range(0, B, size)
    steps = _Steps(progress, len(starts) * (1 if family.nested else len(counts)))
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
    theorem = family.full_rank_from(m)
    proven = (counts >= theorem if theorem is not None else np.zeros(len(counts), bool))[:, None]
    return Signal(
        diagonal=np.moveaxis(diagonal, -1, 0),
        inverse_diagonal=np.moveaxis(inverse, -1, 0),
        trace=trace.T,
        relative_error=error.T,
        status=status.T,
        proven=(proven & (status != CurveStatus.COLLISION)).T,
    )


class _Steps:
    """Reports the share of finished steps to a callback."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total, self._done = progress, total, -1
        self.advance()

    def advance(self) -> None:
        self._done += 1
        self._progress("release curves", self._done / self._total)


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
