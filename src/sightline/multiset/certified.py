r"""Release curves with a proof: ball arithmetic encloses the bound at every count, and so the best count.

The input doubles (values, bound, bandwidth and thresholds) are treated as exact numbers, and the precision is
doubled until the enclosure of :math:`\operatorname{tr} A_L^{-1}` is sharp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from flint import arb, arb_mat, ctx, fmpq
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import structural_rank

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import require
from sightline.multiset.family import Balls, Counts, Family, checked_counts, checked_group
from sightline.noise.pricing import unit_noise
from sightline.numerics.balls import FIRST_BITS, LAST_BITS, rounded_down, rounded_up, sharp, trace_of_inverse
from sightline.privacy.accountant import Accountant
from sightline.progress import Progress, report, reporting
from sightline.releases.query import Convention

# An accountant's kappa is a double that may be rounded up: the enclosure covers every kappa within this
# relative distance.
KAPPA_ROOM = 2.0**-48


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CertifiedCurve:
    r"""The bound lies in :math:`[\text{lower}, \text{upper}]`, proven, at every count.

    It covers every :math:`\kappa_L` within a factor :math:`1 \pm 2^{-48}` of the accountant's: the double
    that calibrates the noise, and the exact formula. If both ends are infinite, the values are proven not
    identifiable; if only ``upper`` is infinite, no precision tried was enough.
    """

    releases: IndexArray
    lower: FloatArray
    upper: FloatArray
    bits: IndexArray = field(repr=False)  # the working precision used; 0 if none was needed
    convention: Convention | None  # of the family's sensitivities; None if queries differ

    @property
    def crb(self) -> FloatArray:
        """The middle of each enclosure, or its upper end if that is infinite."""
        with np.errstate(invalid="ignore"):
            middle = self.lower + (self.upper - self.lower) / 2
        return np.where(np.isfinite(self.upper), middle, self.upper)

    @property
    def candidates(self) -> tuple[int, ...]:
        """The counts that may have the smallest bound; every other count is proven not to."""
        ceiling = float(np.min(self.upper))
        if math.isinf(ceiling):
            return ()
        return tuple(int(count) for count in self.releases[self.lower <= ceiling])

    @property
    def best(self) -> int | None:
        """The count proven to have the smallest bound, or ``None`` if there are several candidates."""
        return self.candidates[0] if len(self.candidates) == 1 else None

    @property
    def first_identifiable(self) -> int | None:
        """The first count at which the values are proven identifiable."""
        finite = np.isfinite(self.upper)
        return int(self.releases[np.argmax(finite)]) if finite.any() else None


def certified_curve(
    values: ArrayLike,
    *,
    family: Family,
    accountant: Accountant,
    releases: Counts = range(1, 41),
    progress: Progress | None = None,
) -> CertifiedCurve:
    """The curve of one group with proven enclosures; for moments, thresholds and mixtures of them.

    >>> from sightline import BasicComposition, Budget, Moments
    >>> basic = BasicComposition(Budget(epsilon=1.0, delta=1e-5))
    >>> curve = certified_curve([0.5, 0.500001], family=Moments(), accountant=basic, releases=range(1, 30))
    >>> curve.best, f"{curve.lower[3]:.6e}", bool(curve.upper[3] / curve.lower[3] - 1 < 1e-13)
    (4, '1.618020e+14', True)
    """
    counts = checked_counts(releases, family=family)
    require(isinstance(accountant, Accountant), "an accountant", got=type(accountant).__name__)
    group = checked_group(values, family=family)
    exact = [fmpq(*Fraction(z).as_integer_ratio()) for z in group.tolist()]
    kappa = unit_noise(accountant, counts)
    with reporting(progress):
        lower, upper, bits = _enclosed(exact, family, counts, kappa)
    for array in (lower, upper, bits):
        array.setflags(write=False)
    return CertifiedCurve(releases=counts, lower=lower, upper=upper, bits=bits, convention=family.convention)


def _enclosed(
    exact: Sequence[fmpq], family: Family, counts: IndexArray, kappa: FloatArray
) -> tuple[FloatArray, FloatArray, IndexArray]:
    """Both ends of the bound at every count, and the bits that they needed, doubled until all are sharp."""
    lower = np.full(len(counts), np.inf)
    upper = np.full(len(counts), np.inf)
    bits = np.zeros(len(counts), dtype=np.intp)
    pending = [] if len(set(exact)) < len(exact) else [i for i, L in enumerate(counts) if len(exact) <= L]
    precision = FIRST_BITS
    while pending:
        report("certified curve", 1 - len(pending) / len(counts))
        unresolved = []
        with ctx.workprec(precision):
            nested = family.balls(exact, int(counts[pending[-1]])) if family.nested else None
            for i in pending:
                L = int(counts[i])
                rows = family.balls(exact, L) if nested is None else nested[:L]
                if precision == FIRST_BITS and _structurally_singular(rows):
                    continue
                bits[i] = precision
                G = arb_mat(rows)
                # The Gram matrix needs twice the bits; doubling the precision provides them.
                trace = trace_of_inverse(G.transpose() * G)
                noise = arb(float(kappa[i]), float(kappa[i]) * KAPPA_ROOM)
                if trace is not None and sharp(trace):
                    lower[i], upper[i] = _outward(noise * trace)
                elif precision >= LAST_BITS:
                    lower[i] = _outward(noise * _trace_floor(rows))[0]
                else:
                    unresolved.append(i)
        pending = unresolved
        precision *= 2
    report("certified curve", 1.0)
    return lower, upper, bits


def _trace_floor(rows: Balls) -> arb:
    """Σ 1/A_kk, which is at most the trace of the inverse."""
    squares = [sum((row[k] ** 2 for row in rows), arb(0)) for k in range(len(rows[0]))]
    return sum((1 / square for square in squares), arb(0))


def _structurally_singular(rows: Balls) -> bool:
    """Whether the pattern of exact zeros rules out full rank."""
    pattern = np.array([[not entry.is_zero() for entry in row] for row in rows])
    return not pattern.all() and structural_rank(csr_array(pattern)) < pattern.shape[1]


def _outward(value: arb) -> tuple[float, float]:
    return rounded_down(value), rounded_up(value)
