r"""Bounds of single values where the group as a whole is not identifiable.

Releases can expose a value far from all others and still not determine the others: the rows determine value k
if :math:`e_k` lies in their span, and the bound is then :math:`(A^+)_{kk}`.
"""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.multiset.family import Family
from sightline.multiset.signal import CurveStatus, Signal

# A unit vector this close to the span counts as inside. This is the cautious side: if everything undetermined
# moves across the whole domain, the value changes by a millionth of the domain.
_INSIDE = 1e-6
_NEGLIGIBLE = 1e-14  # singular values, relative to the largest, that are rounding


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
    significant = singular > _NEGLIGIBLE * singular[:, :1]
    weights = np.divide(1.0, singular**2, out=np.zeros_like(singular), where=significant)
    bounds = np.einsum("bik,bi->bk", right**2, weights)
    outside = 1.0 - np.einsum("bik,bi->bk", right**2, significant.astype(np.float64))
    return np.where(outside <= _INSIDE**2 + 1e-15 * rows.shape[2], bounds, np.inf)
