r"""Proofs over the integers that a combination of rows is a given functional, from products of rows alone.

With integer rows A, products :math:`M = AA^\top`, a functional c with :math:`b = Ac`, integers r and a
denominator d,

.. math:: \|d\,c - A^\top r\|^2 = d^2 c^\top c - 2 d\, r \cdot b + r^\top M r .

If this integer is zero, :math:`A^\top (r/d) = c` exactly. The guess r/d comes from floating point; the proof
does not. Numbers that could exceed 64 bits are detected beforehand, and then nothing is proved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import IndexArray

# Weights of recipes are looked for as multiples of 1, 1/2, …; this close to one counts as one.
_LARGEST_DENOMINATOR, _CLOSE = 24, 1e-4
_LARGEST_WEIGHT = 2.0**31 / _LARGEST_DENOMINATOR
# Below this, sums of 64-bit integers cannot overflow; the bound itself is rounded.
_SAFE = 2.0**62


def rounded(guesses: Any) -> tuple[Any, IndexArray]:
    """Numerators, as a sparse integer array, and one denominator for each column of guesses; 0 for none.

    ``guesses`` are an array, or a sparse one.

    >>> numerators, denominators = rounded(np.array([[0.5, 0.1234], [1.000001, 1.0]]))
    >>> numerators.toarray()[:, 0].tolist(), denominators.tolist()
    ([1, 2], [2, 0])
    """
    columns = sparse.csc_array(guesses)
    count = columns.shape[1]
    column, values = np.repeat(np.arange(count), np.diff(columns.indptr)), columns.data
    denominators = np.zeros(count, dtype=np.intp)
    numerators = np.zeros(values.size)
    usable = np.isfinite(values) & (np.abs(values) < _LARGEST_WEIGHT)
    closed = _of_columns(column, ~usable, count)
    left = np.flatnonzero(~closed[column])  # entries of columns without a denominator
    for denominator in range(1, _LARGEST_DENOMINATOR + 1):
        multiples = denominator * values[left]
        nearest = np.rint(multiples)
        far = _of_columns(column[left], np.abs(multiples - nearest) >= _CLOSE, count)
        near = ~far & ~closed & (denominators == 0)
        denominators[near] = denominator
        done = near[column[left]]
        numerators[left[done]] = nearest[done]
        left = left[~done]
        if left.size == 0:
            break
    found = sparse.csc_array((numerators, columns.indices, columns.indptr), shape=columns.shape)
    found.eliminate_zeros()
    return found.astype(np.int64), denominators


def _of_columns(column: IndexArray, marked: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    """The columns that have a marked entry."""
    found = np.zeros(count, dtype=np.bool_)
    found[column[marked]] = True
    return found


def proved(
    products: Any, numerators: Any, denominators: IndexArray, *, images: Any, squares: IndexArray
) -> NDArray[np.bool_]:
    r"""For each column whether numerators over denominator, as weights of rows, give the functional exactly.

    ``products`` is M, symmetric; ``images`` has the columns b and ``squares`` the numbers :math:`c^\top c`.
    All are integers. ``False`` means not proved: the guess is wrong, missing, or the numbers are too large.
    """
    d, n = denominators.astype(np.float64), squares.astype(np.float64)
    size = abs(numerators).astype(np.float64)
    across = np.asarray(size.multiply(abs(images).astype(np.float64)).sum(axis=0)).ravel()
    inside = np.asarray(size.multiply(abs(products).astype(np.float64) @ size).sum(axis=0)).ravel()
    safe = (denominators > 0) & (d**2 * n + 2 * d * across + inside < _SAFE)
    found = np.zeros(d.size, dtype=np.bool_)
    chosen = np.flatnonzero(safe)
    r, b, whole = numerators[:, chosen], images[:, chosen], denominators[chosen].astype(np.int64)
    linear = np.asarray(r.multiply(b).sum(axis=0), dtype=np.int64).ravel()
    quadratic = np.asarray(r.multiply(products @ r).sum(axis=0), dtype=np.int64).ravel()
    found[chosen] = whole**2 * squares[chosen].astype(np.int64) - 2 * whole * linear + quadratic == 0
    return found
