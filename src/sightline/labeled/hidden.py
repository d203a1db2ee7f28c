r"""How much of a record passes the unknown records around it: the information :math:`I_j`.

For precisions :math:`c_k` that are at least those of the records' prior at :math:`G_{kk}`,

.. math:: I_j = \frac{1}{[(G + \operatorname{diag} c)^{-1}]_{jj}} - c_j = \frac{q_j}{1 - q_j/c_j}, \qquad
    q_j = \tilde a_j^\top \Bigl(I + \sum_k \tilde a_k \tilde a_k^\top / c_k\Bigr)^{-1} \tilde a_j .

One precision for all records, the largest, is another quadratic form of the matrix that the engine factorises
anyhow. A precision for each record is sharper and costs a second pair of sweeps over the records. Derivation:
the theory page on priors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, like, with_diagonal_plus
from sightline.labeled.bounds.target import TargetPrior
from sightline.labeled.column_forms import MatrixForms
from sightline.labeled.incidence.protocol import EXACT, BoolArray
from sightline.labeled.risk_forms import both_sides, is_mild, matrix_forms_error
from sightline.labeled.sparse_gram import SparseGram
from sightline.labeled.unknown_gram import RecordsGram, UnknownRecordsGram
from sightline.numerics.inverse import positive_inverse
from sightline.progress import Progress, silent

_UNIT = float(np.finfo(np.float64).eps)
# Weights 1/c_k are whole multiples of the largest one over a power of two, so that sums of products are exact
# As fine as they can be, up to this many bits.
_FINEST, _COARSEST = 40, 12
# Operations for dense rows; beyond that one precision serves all records.
_AFFORDABLE = 2e8
# Below this 1 − q/c has lost too many digits.
_CANCELLED = 1e-6
# A weight of fewer levels than this was rounded too much.
_ROUGH = 1024


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HiddenInformation:
    """At least :math:`I_j` for some records, and the precision :math:`c_j` that it was computed with."""

    information: FloatArray
    precision: FloatArray

    def or_else(self, other: HiddenInformation) -> HiddenInformation:
        """These numbers where they are finite, else the other ones."""
        finite = np.isfinite(self.information)
        if finite.all():
            return self
        return HiddenInformation(
            information=np.where(finite, self.information, other.information),
            precision=np.where(finite, self.precision, other.precision),
        )


def information_if_told(gram: RecordsGram) -> FloatArray:
    r""":math:`G_{jj}` of every record, known or not, rounded up."""
    design, whitening = gram.design, gram.whitening
    form = np.square(whitening) if whitening.ndim == 1 else whitening.T @ whitening
    forms = MatrixForms(symmetric=(form,), offsets=np.zeros(1), linear=np.zeros((0, design.row_count)))
    everyone = np.ones(design.size, dtype=np.bool_)
    information: FloatArray = design.incidence.forms(forms, everyone, silent)[0]
    return information * (1 + information_error(gram))


def information_error(gram: RecordsGram) -> float:
    r"""A bound on the relative error of :math:`G_{jj}`."""
    return 4 * (gram.design.row_count * _UNIT + gram.whitening_error)


def precisions(gram: RecordsGram, prior: TargetPrior) -> FloatArray | None:
    """Of every record, known or not: what the attacker knows does not change it. ``None``: no density."""
    if math.isinf(float(prior.precision(np.zeros(1))[0])):
        return None
    return prior.precision(information_if_told(gram))


def hidden_by_share(share: FloatArray, precision: float) -> HiddenInformation:
    r"""From a share :math:`s = c\,[(G + cI)^{-1}]_{jj}` that was rounded down: :math:`c\,(1/s - 1)`."""
    positive = np.maximum(share, np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):
        information = np.where(share > 0, precision * np.maximum(1 / positive - 1, 0.0), np.inf)
    return HiddenInformation(information=information, precision=np.full(share.shape, precision))


def hidden_by_record(
    gram: UnknownRecordsGram, precision: FloatArray, progress: Progress
) -> HiddenInformation | None:
    """For the unknown records, with a precision for each; infinite where digits were lost.

    ``None`` where that costs too much or where products of rows are not exact.
    """
    incidence = gram.design.incidence
    costly = not incidence.sparse and float(incidence.row_count) ** 2 * incidence.records > _AFFORDABLE
    rounded = None if costly else _RoundedPrecisions.of(gram, precision)
    if rounded is None:
        return None
    products = gram.device.put(incidence.weighted_gram(rounded.levels, progress) / rounded.unit)
    whitening = like(products, gram.whitening)
    seen = both_sides(whitening, products)
    if not is_mild(seen, 1.0):
        return None
    inverse = positive_inverse(with_diagonal_plus(seen * 1.0, 1.0))
    if inverse is None:
        return None
    error = matrix_forms_error(products, whitening, seen, inverse, divisor=1.0)
    turned = whitening if whitening.ndim == 1 else whitening.T
    forms = MatrixForms(
        symmetric=(both_sides(turned, inverse),),
        offsets=np.zeros(1),
        linear=np.zeros((0, incidence.row_count)),
    )
    q = incidence.forms(forms, gram.unknown, progress)[0][gram.unknown]
    q = np.maximum(q, 0.0) * (1 + error + 2 * gram.whitening_error)
    if gram.whitening.ndim == 2:  # the error is that of q/c
        own = rounded.precisions(gram.unknown)
        q += np.where(np.isfinite(own), error * own, 0.0)
    return rounded.information(q, gram.unknown)


def sparse_hidden_by_record(gram: SparseGram, precision: FloatArray) -> HiddenInformation | None:
    """The same from a sparse factor."""
    rounded = _RoundedPrecisions.of(gram, precision)
    if rounded is None:
        return None
    inverse = gram.whitened_inverse(gram.pairs.products(rounded.levels) / rounded.unit)
    if not math.isfinite(inverse.relative_error):
        return None
    values, roundings = gram.forms(inverse.values[None])
    q = np.maximum(values[0][gram.unknown], 0.0) + float(roundings[0])
    q *= (1 + 2 * gram.whitening_error) / (1 - inverse.relative_error)
    return rounded.information(q, gram.unknown)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _RoundedPrecisions:
    """Precisions, rounded up so that their inverses are whole multiples of a unit."""

    levels: FloatArray  # unit over precision, rounded down; zero: the record counts as known
    unit: float

    @classmethod
    def of(cls, gram: RecordsGram, precision: FloatArray) -> _RoundedPrecisions | None:
        """``None`` where sums of products would not be exact."""
        incidence = gram.design.incidence
        people = incidence.records if incidence.counts is None else int(incidence.counts.sum())
        bits = min(_FINEST, math.floor(math.log2(EXACT / people / float(np.max(incidence.peaks)) ** 2)))
        if not incidence.whole or bits < _COARSEST:
            return None
        unit = 2.0**bits * float(np.min(precision))
        return cls(levels=np.where(gram.unknown, np.floor(unit / precision), 0.0), unit=unit)

    def precisions(self, unknown: BoolArray) -> FloatArray:
        """The rounded precisions of the unknown records; infinite for one that counts as known."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.unit / self.levels[unknown])

    def information(self, q: FloatArray, unknown: BoolArray) -> HiddenInformation:
        """From the forms q of the unknown records, rounded up."""
        rounded = self.precisions(unknown)
        left = 1 - q / rounded
        kept = (left > _CANCELLED) & (self.levels[unknown] >= _ROUGH)
        information = np.where(kept, q / np.where(kept, left, 1.0), np.inf)
        return HiddenInformation(information=information, precision=rounded)
