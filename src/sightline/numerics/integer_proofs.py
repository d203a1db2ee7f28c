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

from sightline.arrays import FloatArray, IndexArray

# Weights of recipes are looked for as multiples of 1, 1/2, …; this close to one counts as one.
_LARGEST_DENOMINATOR, _CLOSE = 24, 1e-4
# Below this, sums of 64-bit integers cannot overflow; the bound itself is rounded.
_SAFE = 2.0**62


def rounded(guesses: FloatArray) -> tuple[Any, IndexArray]:
    """Numerators, as a sparse integer array, and one denominator for each column of guesses; 0 for none.

    >>> numerators, denominators = rounded(np.array([[0.5, 0.1234], [1.000001, 1.0]]))
    >>> numerators.toarray()[:, 0].tolist(), denominators.tolist()
    ([1, 2], [2, 0])
    """
    denominators = np.zeros(guesses.shape[1], dtype=np.intp)
    numerators = np.zeros(guesses.shape)
    with np.errstate(invalid="ignore"):
        for denominator in range(1, _LARGEST_DENOMINATOR + 1):
            open_columns = np.flatnonzero(denominators == 0)
            if open_columns.size == 0:
                break
            multiples = denominator * guesses[:, open_columns]
            nearest = np.rint(multiples)
            near = np.max(np.abs(multiples - nearest), axis=0, initial=0.0) < _CLOSE
            chosen = open_columns[near & (np.max(np.abs(nearest), axis=0, initial=0.0) < 2.0**31)]
            denominators[chosen] = denominator
            numerators[:, chosen] = np.rint(denominator * guesses[:, chosen])
    return sparse.csc_array(numerators).astype(np.int64), denominators


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
