r"""What the bracket of a record is computed from, where records are read in batches and never held together.

A record's bracket needs its column, how many share it, and matrices over the rows that all records together
make: the products :math:`M = A A^\top` over the unknown records, and for priors with a density the products
weighted by the precision of each record's prior. :class:`BracketForms` has these matrices as look-up tables
over pairs of cells. Numbers are the same, to the last bit, as those of all records at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray
from sightline.errors import TooMuchWork, require
from sightline.labeled.bounds.target import TargetPrior
from sightline.labeled.column_forms import MatrixForms
from sightline.labeled.description import LinearReleases
from sightline.labeled.hidden import (
    HiddenInformation,
    hidden_form,
    information_behind_forms,
    information_error,
    precision_levels,
)
from sightline.labeled.incidence.cell_forms import CellFormTables
from sightline.labeled.incidence.cells import CellIncidence
from sightline.labeled.record_brackets import ReadNumbers, record_brackets
from sightline.labeled.record_numbers import require_noise_to_count
from sightline.labeled.risk_forms import Quantity, Risks, both_sides, is_mild, risks_over_v
from sightline.labeled.routes.partitions import forms_by_elimination, forms_of_partitions
from sightline.labeled.routes.problem import Problem
from sightline.labeled.unknown_gram import LaplacePart, UnknownRecordsGram
from sightline.noise.mixed import MixedNoise, laplace_rows
from sightline.numerics.decision import Rank
from sightline.progress import Progress, silent

# Groups whose leverages sum to more than this may be identifiable: they would sum to one, up to the proved
# error of a thousandth. All leverages sum to the rank, so fewer than twice as many groups come near.
NEAR = 1 / 2
CellTable = NDArray[np.signedinteger]  # partitions × columns: the cell in each partition, -1 for none


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrecisionForm:
    """The precision of each record's prior at the information that the releases carry about it."""

    tables: CellFormTables
    prior: TargetPrior
    information_error: float

    @classmethod
    def of(cls, design: LinearReleases, prior: TargetPrior) -> PrecisionForm | None:
        """Of a design over cells with independent noise; ``None`` for a prior without a density."""
        if np.isinf(prior.precision(np.zeros(1))[0]):
            return None
        forms = MatrixForms(
            symmetric=(np.square(design.whitening),),
            offsets=np.zeros(1),
            linear=np.zeros((0, design.row_count)),
        )
        return cls(
            tables=CellFormTables.of(forms, _cells(design).widths),
            prior=prior,
            information_error=information_error(_empty_gram(design)),
        )

    def of_cells(self, table: CellTable) -> FloatArray:
        """The precision of the records in some cells."""
        information = self.tables.of_cells(table, silent)[0] * (1 + self.information_error)
        return self.prior.precision(information)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedByPrecision:
    """Products of rows in which a record counts as one over the precision of its prior.

    The weights are whole multiples of 1/unit, so that sums are exact.
    """

    form: PrecisionForm
    unit: float

    def levels(self, table: CellTable) -> FloatArray:
        """The multiples, for the records in some cells."""
        return precision_levels(self.form.of_cells(table), self.unit)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TotalProducts:
    """What passes over all records give: products of rows, and the largest precision of a prior."""

    products: FloatArray  # A Aᵀ over the unknown records
    most_precision: float | None  # over all records, known ones too; none for a prior without a density
    weighted: FloatArray | None = (
        None  # over the unknown records, weighted by precision; none without weights
    )
    weights: WeightedByPrecision | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AssessedCells:
    """The numbers of records in some cells."""

    lower: FloatArray
    upper: FloatArray
    relative_error: FloatArray  # of the upper end
    group_leverage: FloatArray  # the sum of the leverages of those with the same signature


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BracketForms:
    """The forms of a record's column, and all else that its bracket depends on."""

    names: tuple[Quantity, ...]  # of the first forms; after them that of the hidden information, if any
    tables: CellFormTables
    risks: Risks
    rank: Rank
    prior: TargetPrior
    share_error: float
    whitening_error: float
    information_error: float
    weights: WeightedByPrecision | None
    hidden_error: float
    laplace: bool  # whether the linear forms are those of Laplace answers
    lattice_share: float = 1.0  # at least the probability that no number tells more than its bounds say
    by_variance: BracketForms | None = None  # under noise of several laws, those of the linear attack

    def read(self, table: CellTable, progress: Progress = silent) -> FloatArray:
        """Every form of the records in some cells."""
        values = self.tables.of_cells(table, progress)
        # NaN is below no limit, so it would pass for a record that keeps its uncertainty.
        require(not np.isnan(values).any(), "a number for every record", got="NaN")
        return values

    def quantities(self, values: FloatArray) -> dict[Quantity, FloatArray]:
        """The quantities, by name, among the values of all forms."""
        return dict(zip(self.names, values, strict=False))

    def hidden(self, table: CellTable, values: FloatArray) -> HiddenInformation | None:
        """The information that passes the other records, with a precision for each of them."""
        if self.weights is None:
            return None
        q = np.maximum(values[len(self.names)], 0.0) * (1 + self.hidden_error + 2 * self.whitening_error)
        return information_behind_forms(q, self.weights.levels(table), self.weights.unit)

    def assess(self, table: CellTable, counts: FloatArray) -> AssessedCells:
        """The brackets of the unknown records in some cells: ``counts`` share each signature."""
        values = self.read(table)
        quantities = self.quantities(values)
        touched = quantities[Quantity.INFORMATION] > 0
        brackets = record_brackets(
            ReadNumbers(
                risks=self.risks,
                quantities=quantities,
                share_error=np.where(touched, self.share_error + 2 * self.whitening_error, 0.0),
                relative_error=np.zeros(touched.size),
                information_error=self.information_error,
            ),
            self.prior,
            alike=counts,
            by_record=self.hidden(table, values),
            laplace=self._laplace_part(values),
        )
        lower, upper, error = brackets.lower, brackets.upper, brackets.relative_error
        if self.by_variance is not None:
            linear = self.by_variance.assess(table, counts)
            upper, error = np.minimum(upper, linear.upper), np.maximum(error, linear.relative_error)
            lower = np.minimum(lower, upper)
        return AssessedCells(
            lower=lower if self.lattice_share == 1 else lower * self.lattice_share,
            upper=upper,
            relative_error=error,
            group_leverage=counts * quantities[Quantity.LEVERAGE],
        )

    def _laplace_part(self, values: FloatArray) -> LaplacePart | None:
        if not self.laplace:
            return None
        answers, information, others = values[-3:]
        return LaplacePart(answers=answers, information=information, alone=others == 0)


def bracket_forms(
    design: LinearReleases,
    prior: TargetPrior,
    totals: TotalProducts,
    *,
    copies: FloatArray | None,
    lattice_share: float = 1.0,
    progress: Progress = silent,
) -> BracketForms:
    """The forms of every record of a design over cells with independent noise.

    Raises :class:`~sightline.errors.TooMuchWork` where a factorisation of the products cannot vouch for the
    digits: then only the records together can.
    """
    require(
        design.whitening.ndim == 1,
        "independent noise",
        got=type(design.law).__name__,
    )
    gram = _empty_gram(design, totals.products)
    require_noise_to_count(gram)
    risks = risks_over_v(prior.variance, excess=design.law.excess, precision=totals.most_precision)
    problem = Problem(gram=gram, risks=risks, progress=progress)
    progress("factorising the products", 0.0)
    found = forms_of_partitions(problem) or forms_by_elimination(problem)
    hidden = None
    if totals.weights is not None and totals.weighted is not None:
        hidden = hidden_form(totals.weighted / totals.weights.unit, design.whitening)
    if found is None or not math.isfinite(found[0].share_error):
        raise TooMuchWork(
            "expected published numbers whose products can be factorised accurately, got some that are too "
            "nearly dependent, or have too little noise, for a table that is streamed; allow more with "
            "max_memory"
        )
    forms, rank = found
    linear, laplace = _laplace_forms(design, copies)
    matrices, offsets = forms.forms.matrices(), forms.forms.offsets
    if hidden is not None:
        matrices, offsets = (*matrices, np.asarray(hidden[0])), np.append(offsets, 0.0)
    return BracketForms(
        names=forms.names,
        tables=CellFormTables.of(
            MatrixForms(symmetric=matrices, offsets=offsets, linear=linear), _cells(design).widths
        ),
        risks=risks,
        rank=rank,
        prior=prior,
        share_error=forms.share_error,
        whitening_error=gram.whitening_error,
        information_error=information_error(gram),
        weights=None if hidden is None else totals.weights,
        hidden_error=0.0 if hidden is None else hidden[1],
        laplace=laplace,
        lattice_share=lattice_share,
        by_variance=_linear_attack(design, prior, totals, progress),
    )


def _linear_attack(
    design: LinearReleases, prior: TargetPrior, totals: TotalProducts, progress: Progress
) -> BracketForms | None:
    """The forms under Gaussian noise of the same variances, if the noise is of several laws."""
    if not isinstance(design.law, MixedNoise):
        return None
    products = TotalProducts(products=totals.products, most_precision=None)
    return bracket_forms(
        design.with_noise(design.law.gaussian), prior, products, copies=None, progress=progress
    )


def is_worth_weighing(
    design: LinearReleases, products: FloatArray, weights: WeightedByPrecision, most_precision: float
) -> bool:
    """Whether products weighted by precision can be factorised accurately, as far as those without tell.

    Every weight is at least that of the largest precision, rounded down. If those are too much beside the
    noise, so are the weighted ones.
    """
    least = math.floor(weights.unit / most_precision) / weights.unit
    return is_mild(both_sides(design.whitening, products * least), 1.0)


def _laplace_forms(design: LinearReleases, copies: FloatArray | None) -> tuple[FloatArray, bool]:
    """Of each record: how many Laplace answers, their information, and how many answers with other noise."""
    rows = laplace_rows(design.law)
    if not rows.any():
        return np.zeros((0, design.row_count)), False
    each = rows if copies is None else rows * copies
    weights = np.where(rows > 0, np.square(design.whitening), 0.0)
    return np.stack([each, weights, (rows == 0).astype(np.float64)]), True


def _cells(design: LinearReleases) -> CellIncidence:
    incidence = design.incidence
    assert isinstance(incidence, CellIncidence)  # a table is streamed cell by cell
    return incidence


def _empty_gram(design: LinearReleases, products: FloatArray | None = None) -> UnknownRecordsGram:
    matrix = np.zeros((0, 0)) if products is None else products
    return UnknownRecordsGram(design=design, matrix=matrix, unknown=np.zeros(design.size, dtype=np.bool_))
