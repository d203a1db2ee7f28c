r"""The signal :math:`A_L` of a group at every release count: its inverse's diagonal, and how far to trust it.

Rounding acts as a perturbation of the rows, of relative size :math:`\gamma` in every column. To first order

.. math:: \frac{|\delta \operatorname{tr} A^{-1}|}{\operatorname{tr} A^{-1}}
          \le 2\gamma \sum_k \sqrt{A_{kk} (A^{-1})_{kk}},

because :math:`\delta \operatorname{tr} A^{-1} = -2\langle G A^{-2}, \delta G\rangle` and
:math:`\|G A^{-2} e_k\| \le \operatorname{tr}(A^{-1})\,(A^{-1})_{kk}^{1/2}`. The factor
:math:`A_{kk}(A^{-1})_{kk}` says how much worse value k is known because the others are unknown too (a
variance inflation factor).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

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
from sightline.multiset.family import Family

_ROUNDING = 2.0**-53
_ACCURATE = 1e-8  # estimated relative errors below this need no remark
_GONE = 1e-2  # beyond it the first-order estimate means nothing, and neither do the digits
_CHUNK = 200_000  # row entries of groups that are worked on together


class Status(IntEnum):
    """What the bound at a release count is worth."""

    ACCURATE = 0
    ILL_CONDITIONED = 1
    DIGITS_GONE = 2
    TOO_FEW_RELEASES = 3
    UNSEEN = 4
    COLLISION = 5

    def __str__(self) -> str:
        return _MEANING[self]


_MEANING = {
    Status.ACCURATE: "accurate",
    Status.ILL_CONDITIONED: "ill-conditioned: see the estimated error",
    Status.DIGITS_GONE: "so ill-conditioned that no digit is left: use certified_curve",
    Status.TOO_FEW_RELEASES: "not identifiable: fewer releases than values",
    Status.UNSEEN: "not identifiable: the zeros of the rows leave a combination of values unseen",
    Status.COLLISION: "not identifiable: equal values",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Signal:
    """What rows say at each count, before any noise: arrays over (groups,) counts (and values)."""

    diagonal: FloatArray  # A_kk
    inverse_diagonal: FloatArray  # (A⁻¹)_kk, NaN where the trace is not finite
    trace: FloatArray  # of the inverse
    relative_error: FloatArray
    status: NDArray[np.uint8]
    proven: NDArray[np.bool_]  # identifiable by a theorem, whatever the digits

    def __post_init__(self) -> None:
        for name in self.__slots__:
            getattr(self, name).setflags(write=False)

    @property
    def identifiable(self) -> NDArray[np.bool_]:
        """Where the values are identifiable, as far as the digits or a theorem tell."""
        return np.isfinite(self.trace) | self.proven

    def of_group(self, group: int) -> Signal:
        """The signal of one group."""
        return Signal(**{name: getattr(self, name)[group] for name in self.__slots__})


def signals(
    groups: FloatArray,
    *,
    family: Family,
    counts: IndexArray,
    progress: Callable[[int, int], None] | None = None,
) -> Signal:
    """The signal of sorted groups ``(B, m)`` at increasing counts."""
    B, m = groups.shape
    largest = int(counts[-1])
    size = max(1, _CHUNK // (largest * m))
    starts = range(0, B, size)
    parts = []
    for done, start in enumerate(starts):
        if progress is not None:
            progress(done, len(starts))
        parts.append(_chunk(groups[start : start + size], family=family, counts=counts))
    if progress is not None:
        progress(len(starts), len(starts))
    diagonal, inverse = (np.concatenate(side, axis=-1) for side in zip(*parts, strict=True))
    return _assess(groups, diagonal, inverse, family=family, counts=counts)


def _chunk(groups: FloatArray, *, family: Family, counts: IndexArray) -> tuple[FloatArray, FloatArray]:
    """The diagonals of A and of its inverse, batch last ``(counts, m, B)``, by the way that suits the
    sizes."""
    B, m = groups.shape
    together = 2 * m < B
    diagonal = np.empty((len(counts), m, B))
    inverse = np.full((len(counts), m, B), np.inf)
    if family.nested:
        rows = _batch_last(family.rows(groups, int(counts[-1])))
        diagonal[:] = np.cumsum(rows**2, axis=0)[counts - 1]
        if together:
            inverse[:] = nested_diagonals_of_many(rows, counts)
        else:
            for b in range(B):
                inverse[..., b] = nested_diagonals_of_one(rows[..., b], counts)
        return diagonal, inverse
    for i, count in enumerate(counts):
        rows = _batch_last(family.rows(groups, int(count)))
        diagonal[i] = np.sum(rows**2, axis=0)
        if count < m:
            continue
        if together:
            inverse[i] = inverse_diagonals(triangles(rows))
        else:
            for b in range(B):
                inverse[i, :, b] = diagonal_of_one(rows[..., b])
    return diagonal, inverse


def _batch_last(rows: FloatArray) -> FloatArray:
    return np.ascontiguousarray(np.moveaxis(rows, 0, -1))


def _assess(
    groups: FloatArray, diagonal: FloatArray, inverse: FloatArray, *, family: Family, counts: IndexArray
) -> Signal:
    """Status and error of every number, batch last; numbers without digits become NaN."""
    B, m = groups.shape
    gamma = _ROUNDING * np.array([family.row_error(int(L)) + 2 * np.sqrt(L) for L in counts])
    with np.errstate(invalid="ignore", over="ignore"):
        error = 2 * gamma[:, None] * np.sum(np.sqrt(diagonal * inverse), axis=1)
        trace = np.sum(inverse, axis=1)
    status = np.full((len(counts), B), Status.ACCURATE, dtype=np.uint8)
    status[error > _ACCURATE] = Status.ILL_CONDITIONED
    status[~(error <= _GONE)] = Status.DIGITS_GONE
    status[counts < m] = Status.TOO_FEW_RELEASES
    equal = (np.diff(groups, axis=1) == 0).any(axis=1)
    status[:, equal] = Status.COLLISION
    if np.any(status == Status.DIGITS_GONE):
        _find_unseen(status, groups, family=family, counts=counts)
    bad = status > Status.ILL_CONDITIONED
    if bad.any():
        gone = status == Status.DIGITS_GONE
        without = np.where(gone, np.nan, np.inf)
        inverse = np.where(bad[:, None], np.nan, inverse)
        trace = np.where(bad, without, trace)
        error = np.where(bad, np.where(gone, np.inf, 0.0), error)
    theorem = family.full_rank_from(m)
    known = np.zeros(len(counts), bool) if theorem is None else counts >= theorem
    return Signal(
        diagonal=np.moveaxis(diagonal, -1, 0),
        inverse_diagonal=np.moveaxis(inverse, -1, 0),
        trace=trace.T,
        relative_error=error.T,
        status=status.T,
        proven=known & ~equal[:, None],
    )


def _find_unseen(
    status: NDArray[np.uint8], groups: FloatArray, *, family: Family, counts: IndexArray
) -> None:
    """Among numbers without digits, those whose rows cannot have full rank because of where they are zero.

    Slopes of a compact step vanish outside its support. A logistic slope that underflows is below 1e-308, and
    a bound that hangs on it is beyond the largest double: infinite is right there too.
    """
    m = groups.shape[1]
    for i, b in np.argwhere(status == Status.DIGITS_GONE):
        (rows,) = family.rows(groups[b : b + 1], int(counts[i]))
        if np.any(rows == 0) and structural_rank(csr_array(rows != 0)) < m:
            status[i, b] = Status.UNSEEN
