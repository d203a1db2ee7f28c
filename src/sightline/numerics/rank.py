r"""How many directions real-valued rows span, by a gap in their singular values.

Rescaling rows or columns does not change the rank, so it is decided on balanced rows (:func:`balance`): noise
over twelve orders of magnitude, or records in other units, do not look like a missing direction. A pivoted QR
bounds the gap from both sides,

.. math:: \sigma_r \ge \sigma_{\min}(R_{11}), \qquad \sigma_{r+1} \le \|R_{22}\|_F,

and if the gap is not clearly larger than the rounding error, the rank is *undecided*.

A decision with its evidence: yes, no, or an explicit *undecided* that counts as neither.
"""

from __future__ import annotations

import math
from enum import Enum

import numpy as np
import scipy

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import Undecided
from sightline.numerics.residuals import UNIT
from sightline.values import frozen


class Decision(Enum):
    """Is it identifiable? ``bool`` works for yes and no, and raises for undecided.

    >>> bool(Decision.YES), bool(Decision.NO)
    (True, False)
    >>> bool(Decision.UNDECIDED)
    Traceback (most recent call last):
        ...
    sightline.errors.Undecided: the rows do not decide this; compare with Decision.UNDECIDED first
    """

    YES = "yes"
    NO = "no"
    UNDECIDED = "undecided"

    def __bool__(self) -> bool:
        if self is Decision.UNDECIDED:
            raise Undecided("the rows do not decide this; compare with Decision.UNDECIDED first")
        return self is Decision.YES


class Evidence(Enum):
    """The evidence for a decision."""

    FULL_RANK = "full rank, proved from a factorisation and its rounding bound"
    MODULAR = "integer elimination modulo a large prime drawn from the rows themselves"
    VERIFIED = (
        "guessed in floating point, proved over the integers and by the rounding bound of a sparse factor"
    )
    GAP = "a gap in the singular values"
    NONE = "no gap in the singular values"


@frozen(eq=True)
class Rank:
    """The rank of a set of rows, and the evidence for it.

    For real-valued rows ``smallest_kept`` is a lower bound on the smallest singular value that counts,
    relative to the largest.
    """

    rank: int
    evidence: Evidence
    smallest_kept: float = 1.0

    @property
    def decided(self) -> bool:
        return self.evidence is not Evidence.NONE


# Relative to the largest singular value and in units of max(L, n) roundings: below the first a direction is
# missing, above the second it is present, and between them the rank is undecided.
_MISSING, _PRESENT = 8.0, 1e4


def balance(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows and columns rescaled to about unit length, except zero ones, and the columns' factors."""
    scaled = matrix / _lengths(matrix, axis=1)[:, None]
    factors = np.ones(matrix.shape[1])
    for last in (False, False, True):
        lengths = _lengths(scaled, axis=0)
        scaled, factors = scaled / lengths, factors / lengths
        if not last:
            scaled = scaled / _lengths(scaled, axis=1)[:, None]
    return scaled, factors


def present(size: int) -> float:
    """The relative singular value above which a direction of a matrix of this size is present."""
    return _PRESENT * size * UNIT


def missing(size: int) -> float:
    """The relative singular value below which a direction of a matrix of this size is missing."""
    return _MISSING * size * UNIT


def numerical_rank(matrix: FloatArray) -> tuple[Rank, IndexArray]:
    """The rank of balanced columns by the gap, and that many well-conditioned independent columns.

    >>> decision, columns = numerical_rank(np.array([[1.0, 2.0, 0.5], [3.0, 6.0, 0.5]]))
    >>> decision.rank, decision.evidence.name, len(columns)
    (2, 'GAP', 2)
    """
    lines, columns = matrix.shape
    size = max(lines, columns)
    if min(lines, columns) == 0 or not np.any(matrix):
        return Rank(rank=0, evidence=Evidence.FULL_RANK), np.zeros(0, dtype=np.intp)
    # Columns have unit length, unless digits cancelled in them: a short column stays short.
    largest = max(1.0, float(np.linalg.norm(matrix)))
    if columns <= lines:
        # The common, well-posed case costs one unpivoted factorisation.
        (triangle,) = scipy.linalg.qr(matrix, mode="r", check_finite=False)
        smallest = smallest_singular(triangle[:columns]) / largest
        if smallest > present(size):
            full = Rank(rank=columns, evidence=Evidence.FULL_RANK, smallest_kept=smallest)
            return full, np.arange(columns, dtype=np.intp)
    triangle, order = scipy.linalg.qr(matrix, mode="r", pivoting=True, check_finite=False)
    decision = gap_rank(triangle[: min(lines, columns)], size=size, largest=largest)
    return decision, order[: decision.rank].astype(np.intp)


def gap_rank(triangle: FloatArray, *, size: int, largest: float) -> Rank:
    """The rank by the gap in R of a pivoted QR.

    ``size`` is the larger side of the matrix that was factorised and ``largest`` bounds its largest singular
    value.
    """
    squares = np.sum(triangle**2, axis=1)
    tails = np.sqrt(np.append(np.cumsum(squares[::-1])[::-1], 0.0)) / largest  # ‖R22‖_F at each r
    count = int(np.argmax(tails <= missing(size)))
    smallest = smallest_singular(triangle[:count, :count]) / largest
    evidence = Evidence.GAP if smallest > present(size) else Evidence.NONE
    return Rank(rank=count, evidence=evidence, smallest_kept=smallest)


def proves_independent(triangle: FloatArray, *, lines: int, lengths: FloatArray) -> bool:
    r"""Whether a QR factorisation with this square R proves that the factored columns are independent.

    Householder QR of ``lines`` rows factorises some :math:`A + E` exactly, with
    :math:`\|E\|_F \le c\,L n^{3/2} u\|A\|_F` (Higham, *Accuracy and Stability*, Theorem 19.4). If
    :math:`\sigma_{\min}(R)` exceeds that, :math:`A` cannot be singular. The columns are first divided by
    ``lengths``: their own, or those of the numbers that they were computed from if digits cancelled.
    ``False`` means not proved; it does not mean singular.
    """
    columns = triangle.shape[0]
    rounding = 10 * lines * columns**1.5 * UNIT * math.sqrt(columns)
    return bool(rounding * inverse_norm(triangle, lengths=lengths) < 0.5)


def inverse_norm(triangle: FloatArray, *, lengths: FloatArray) -> float:
    """The Frobenius norm of the inverse of a triangle whose columns are divided by some lengths first.

    Infinite if the triangle is singular.
    """
    if triangle.shape[0] == 0:
        return 0.0
    if np.any(np.diagonal(triangle) == 0):
        return math.inf
    inverse, _ = scipy.linalg.get_lapack_funcs("trtri", (triangle,))(triangle)
    # Dividing the columns by their lengths multiplies the rows of the inverse by them.
    norm = float(np.linalg.norm(inverse * lengths[:, None]))
    return norm if math.isfinite(norm) else math.inf


def independent_columns(matrix: FloatArray, rank: int) -> IndexArray:
    """Well-conditioned independent columns of a matrix whose rank is already known."""
    columns = matrix.shape[1]
    if rank == columns:
        return np.arange(columns, dtype=np.intp)
    if rank == 0:
        return np.zeros(0, dtype=np.intp)
    _, order = scipy.linalg.qr(matrix, mode="r", pivoting=True, check_finite=False)
    return np.asarray(order[:rank], dtype=np.intp)


def smallest_singular(triangle: FloatArray) -> float:
    """LAPACK's estimate of the smallest singular value of a triangle (zero if it is singular)."""
    if triangle.shape[0] == 0:
        return 1.0
    if np.any(np.diagonal(triangle) == 0):
        return 0.0
    trcon = scipy.linalg.get_lapack_funcs("trcon", (triangle,))
    reciprocal, _ = trcon(triangle, norm="1", uplo="U")
    # 1/‖R⁻¹‖₁ over √n: at most the smallest singular value.
    return float(reciprocal * np.linalg.norm(triangle, 1) / np.sqrt(triangle.shape[0]))


def _lengths(matrix: FloatArray, *, axis: int) -> FloatArray:
    peak = np.max(np.abs(matrix), axis=axis, keepdims=True, initial=0.0)
    safe = np.where(peak > 0, peak, 1.0)
    lengths = safe * np.sqrt(np.sum((matrix / safe) ** 2, axis=axis, keepdims=True))
    return np.squeeze(np.where(lengths > 0, lengths, 1.0), axis=axis)
