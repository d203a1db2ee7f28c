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
from typing import Any

import numpy as np

from sightline.arrays import FloatArray, chosen_of, like, parts_of, with_diagonal_plus
from sightline.labeled.bounds.target import TargetPrior
from sightline.labeled.column_forms import MatrixForms
from sightline.labeled.incidence.protocol import EXACT
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

    def part(self, own: slice) -> HiddenInformation:
        """The same for some of the records."""
        return HiddenInformation(information=self.information[own], precision=self.precision[own])

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
    found = information_if_told(gram)
    for own in parts_of(found.size):
        found[own] = prior.precision(found[own])
    return found


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
    incidence, unknown = gram.design.incidence, gram.unknown
    costly = not incidence.sparse and float(incidence.row_count) ** 2 * incidence.records > _AFFORDABLE
    unit = None if costly else _unit_of(gram, precision)
    if unit is None:
        return None
    levels = precision_levels(precision, unit)
    levels[~unknown] = 0.0
    products = gram.device.put(incidence.weighted_gram(levels, progress) / unit)
    found = hidden_form(products, gram.whitening)
    if found is None:
        return None
    matrix, error = found
    forms = MatrixForms(symmetric=(matrix,), offsets=np.zeros(1), linear=np.zeros((0, incidence.row_count)))
    q = chosen_of(incidence.forms(forms, unknown, progress)[0], unknown)
    levels = chosen_of(levels, unknown)
    q = np.maximum(q, 0.0)
    q *= 1 + error + 2 * gram.whitening_error
    if gram.whitening.ndim == 2:  # the error is that of q/c
        with np.errstate(divide="ignore"):
            own = unit / levels
        q += np.where(np.isfinite(own), error * own, 0.0)
    return information_behind_forms(q, levels, unit)


def hidden_form(products: Any, whitening: FloatArray) -> tuple[Any, float] | None:
    r"""The matrix of :math:`q_j` as a form of a record's column, and a bound on its relative error.

    ``products`` are :math:`\sum_k a_k a_k^\top / c_k`, where they are factorised. ``None`` where digits are
    lost. Under correlated noise the bound is that of :math:`q_j/c_j`.
    """
    own = like(products, whitening)
    seen = both_sides(own, products)
    if not is_mild(seen, 1.0):
        return None
    inverse = positive_inverse(with_diagonal_plus(seen * 1.0, 1.0))
    if inverse is None:
        return None
    error = matrix_forms_error(products, own, seen, inverse, divisor=1.0)
    return both_sides(own if own.ndim == 1 else own.T, inverse), error


def sparse_hidden_by_record(gram: SparseGram, precision: FloatArray) -> HiddenInformation | None:
    """The same from a sparse factor."""
    unit = _unit_of(gram, precision)
    if unit is None:
        return None
    levels = np.where(gram.unknown, precision_levels(precision, unit), 0.0)
    inverse = gram.whitened_inverse(gram.pairs.products(levels) / unit)
    if not math.isfinite(inverse.relative_error):
        return None
    values, roundings = gram.forms(inverse.values[None])
    q = np.maximum(values[0][gram.unknown], 0.0) + float(roundings[0])
    q *= (1 + 2 * gram.whitening_error) / (1 - inverse.relative_error)
    return information_behind_forms(q, levels[gram.unknown], unit)


def _unit_of(gram: RecordsGram, precision: FloatArray) -> float | None:
    incidence = gram.design.incidence
    people = incidence.records if incidence.counts is None else int(incidence.counts.sum())
    peak = float(np.max(incidence.peaks))
    return precision_unit(float(np.min(precision)), people=people, peak=peak) if incidence.whole else None


def precision_unit(least: float, *, people: int, peak: float) -> float | None:
    """What precisions from ``least`` on divide, so that the quotients can be rounded to whole weights.

    ``None`` where sums of the products of ``people`` records with weights up to ``peak`` would not be exact.
    """
    bits = min(_FINEST, math.floor(math.log2(EXACT / people / peak**2)))
    return None if bits < _COARSEST else 2.0**bits * least


def precision_levels(precision: FloatArray, unit: float) -> FloatArray:
    """Unit over precision, rounded down: the record's weight in the products. Zero: it counts as known."""
    return np.asarray(np.floor(unit / precision))


def information_behind_forms(q: FloatArray, levels: FloatArray, unit: float) -> HiddenInformation:
    """From forms q that were rounded up, and the levels of their records; infinite where digits were lost."""
    information, precision = np.empty(q.size), np.empty(q.size)
    for own in parts_of(q.size):
        with np.errstate(divide="ignore"):
            precision[own] = unit / levels[own]
        left = 1 - q[own] / precision[own]
        kept = (left > _CANCELLED) & (levels[own] >= _ROUGH)
        information[own] = np.where(kept, q[own] / np.where(kept, left, 1.0), np.inf)
    return HiddenInformation(information=information, precision=precision)
