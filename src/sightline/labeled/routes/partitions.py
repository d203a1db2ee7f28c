r"""Cells of partitions: the dependencies are known, and a factorisation proves that there are no others.

Partitions that cover the same records have equal sums over their cells, so one cell of each but the first is
redundant. If factorising the products of the remaining rows proves them independent, their number is the
rank. Few groups can then be identifiable, and only these need exact arithmetic. Two tests find them:

- *A random fit.* Draw a whole number :math:`t_j` for each of the K groups, and fit it by least squares with
  one coefficient for each row, a group counted by its records: :math:`M y = A N t`. A combination of rows
  that gives a group's sum gives it for the fitted numbers and for the drawn ones, so a group that is
  identifiable has :math:`a_j^\top y = t_j`. One solution of M tests all groups.
- *Leverages.* A group is identifiable iff its leverages over independent rows sum to one. All leverages sum
  to the rank, so fewer than twice as many groups come above one half. That needs the inverse of M, but no
  sum over all groups: records can be read in batches, and matrices can lie on a device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sightline.arrays import FloatArray, IndexArray, chosen_of
from sightline.labeled.column_forms import MatrixForms
from sightline.labeled.gram_factor import factor_of_gram
from sightline.labeled.incidence.cells import CellIncidence
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.risk_forms import (
    PROOF,
    Quantity,
    RiskForms,
    forms_from_factor,
    forms_from_inverses,
    forms_of_disjoint_rows,
    is_diagonal,
)
from sightline.labeled.routes.exact import modular_test
from sightline.labeled.routes.problem import Decisions, Problem, Reading
from sightline.labeled.unknown_gram import UnknownRecordsGram, combined
from sightline.numerics import independent_rows as independence
from sightline.numerics import residues
from sightline.numerics.decision import Evidence, Rank
from sightline.numerics.device import HOST
from sightline.numerics.inverse import inverse_of_products
from sightline.numerics.residuals import gamma

_FITS = 2  # random fits: a group that is not identifiable passes both with a chance of 1e-12 or so
_LONGEST = 20  # bits of a drawn number


def by_partitions(problem: Problem) -> Reading | None:
    """The route of cells of partitions; ``None`` without a proof of independence or without accuracy."""
    gram = problem.gram
    incidence = gram.design.incidence
    if not isinstance(incidence, CellIncidence):
        return None
    if gram.device is not HOST or is_diagonal(gram.matrix):
        return _by_leverages(problem)
    kept = independent_rows(incidence, gram.matrix)
    near = _possibly_identifiable(gram, incidence, kept)
    if near is None:
        return None
    nothing = np.zeros((0, incidence.row_count))
    forms = forms_from_inverses(gram.matrix, gram.whitening, problem.risks, linear=nothing)
    if forms is None:
        return None
    quantities, _ = problem.read(forms)
    return Reading(
        rank=Rank(rank=kept.size, evidence=Evidence.FULL_RANK),
        decisions=decide_partitions(problem, near),
        quantities=quantities,
        share_error=forms.share_error,
    )


def _by_leverages(problem: Problem) -> Reading | None:
    """The same by leverages: on a device, and for rows that share no record, where they are closed forms."""
    found = forms_of_partitions(problem)
    if found is None:
        return None
    forms, rank = found
    quantities, _ = problem.read(forms)
    return Reading(
        rank=rank,
        decisions=decide_partitions(problem, groups_near_one(problem, quantities[Quantity.LEVERAGE])),
        quantities=quantities,
        share_error=forms.share_error,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecidedRows:
    """What a proof of independence and a random fit said of some rows, whatever their noise is."""

    unknown: BoolArray
    independent: BoolArray  # over the rows: some that are independent
    near: IndexArray  # all groups that they, or more rows, may identify, as positions among the unknown
    all_rows: bool = True  # whether no other rows were part of it: then hardly any other group is near

    def of_rows(self, rows: IndexArray) -> DecidedRows:
        """The same for some of the rows: they are as independent, and identify no other groups."""
        return replace(self, independent=self.independent[rows], all_rows=False)

    def answers(self, unknown: BoolArray, kept: IndexArray) -> bool:
        """Whether nothing more is to be computed for some of the rows."""
        told = self.all_rows or self.near.size == 0
        return told and bool(self.independent[kept].all()) and np.array_equal(self.unknown, unknown)


def _possibly_identifiable(
    gram: UnknownRecordsGram, incidence: CellIncidence, kept: IndexArray
) -> IndexArray | None:
    """See :func:`fitted_groups`; what was found with other noise or with more rows is used again."""
    found: DecidedRows | None = incidence.computed.get("decided")
    if found is None or not found.answers(gram.unknown, kept):
        near = fitted_groups(gram, kept)
        if near is None:
            return None
        independent = np.zeros(incidence.row_count, dtype=np.bool_)
        independent[kept] = True
        found = DecidedRows(unknown=gram.unknown.copy(), independent=independent, near=near)
        incidence.computed["decided"] = found
    return found.near


def fitted_groups(gram: UnknownRecordsGram, kept: IndexArray) -> IndexArray | None:
    """All identifiable groups and hardly any other, as positions among the unknown; ``None`` without a proof.

    ``kept`` are rows that span all others. The proof is that they are independent.
    """
    incidence, unknown = gram.design.incidence, gram.unknown
    assert isinstance(incidence, CellIncidence)  # a column stands for a group
    rows = independence.independent_rows(gram.matrix[np.ix_(kept, kept)])
    if rows is None:
        return None
    counts = incidence.counts
    bits = min(_LONGEST, 52 - math.ceil(math.log2(float(counts.sum()))))  # so that all sums are exact
    if bits < 1:
        return None
    reach = 1 << bits
    generator = np.random.default_rng(0)
    drawn = generator.integers(-reach, reach, size=(_FITS, counts.size), endpoint=True).astype(np.float64)
    images = incidence.images(unknown, drawn * counts)
    weights, bounds = np.zeros((_FITS, incidence.row_count)), np.zeros((_FITS, 1))
    for fit in range(_FITS):
        weights[fit, kept], bounds[fit] = rows.solve(images[fit, kept])
    # What rounding does to a sum of one weight for each partition.
    largest = np.maximum.reduceat(np.abs(weights), incidence.starts, axis=1).sum(axis=1, keepdims=True)
    bounds += gamma(len(incidence.widths) + 2) * (reach + largest)
    found = np.abs(combined(gram.design, weights) - drawn) <= bounds
    return np.flatnonzero(chosen_of(np.logical_and.reduce(found), unknown))


def groups_near_one(problem: Problem, leverage: FloatArray) -> IndexArray:
    """The groups whose leverages sum to more than one half, as positions among the unknown."""
    counts = problem.gram.design.incidence.counts
    assert counts is not None  # a column stands for a group
    return np.flatnonzero(counts[problem.gram.unknown] * leverage > 1 / 2)


def forms_of_partitions(problem: Problem) -> tuple[RiskForms, Rank] | None:
    """The forms of every record with its leverage, and the rank."""
    gram = problem.gram
    incidence = gram.design.incidence
    if not isinstance(incidence, CellIncidence):
        return None
    if gram.whitening.ndim == 1 and is_diagonal(gram.matrix):
        return _forms_of_one_partition(problem)
    kept = independent_rows(incidence, gram.matrix)
    forms = forms_over_rows(problem, kept)
    return None if forms is None else (forms, Rank(rank=kept.size, evidence=Evidence.FULL_RANK))


def forms_by_elimination(problem: Problem) -> tuple[RiskForms, Rank] | None:
    """The same, with independent rows that an elimination of the products finds, whatever depends on what."""
    gram = problem.gram
    matrix = gram.matrix.astype(np.int64)
    nothing = np.zeros((0, len(matrix)), dtype=np.int64)
    kept = residues.reduced(matrix, lambda prime: nothing).pivots
    rank = Rank(rank=kept.size, evidence=Evidence.MODULAR)
    forms = forms_over_rows(problem, kept)
    if forms is not None:
        return forms, rank
    # With little noise beside the number of records an inverse loses digits that a factor keeps.
    factor = factor_of_gram(gram.matrix, rank.rank)
    if factor.rank < rank.rank or not max(factor.certain_error, factor.coordinate_error) <= PROOF:
        return None
    linear = np.zeros((0, len(matrix)))
    return forms_from_factor(factor, gram.whitening, problem.risks, linear=linear), rank


def forms_over_rows(problem: Problem, kept: IndexArray) -> RiskForms | None:
    """The forms of every record, with its leverage over some rows that span all others.

    ``None`` without a proof that these rows are independent, or without accuracy.
    """
    gram = problem.gram
    incidence = gram.design.incidence
    inverse = inverse_of_products(gram.device.put(gram.matrix[np.ix_(kept, kept)]))
    if inverse is None or not inverse[1] <= PROOF:
        return None
    within, _ = inverse
    nothing = np.zeros((0, incidence.row_count))
    without = forms_from_inverses(gram.device.put(gram.matrix), gram.whitening, problem.risks, linear=nothing)
    if without is None:
        return None
    leverage = np.zeros((incidence.row_count, incidence.row_count))
    leverage[np.ix_(kept, kept)] = gram.device.get(within)
    forms = MatrixForms(
        symmetric=(*without.forms.matrices(), leverage),
        offsets=np.append(without.forms.offsets, 0.0),
        linear=without.forms.linear,
    )
    names = (*without.names, Quantity.LEVERAGE)
    return RiskForms(names=names, forms=forms, share_error=without.share_error)


def _forms_of_one_partition(problem: Problem) -> tuple[RiskForms, Rank]:
    """The same where no two rows share a record: rows with records are independent."""
    gram = problem.gram
    sizes = np.diagonal(gram.matrix)
    nothing = np.zeros((0, sizes.size))
    found = forms_of_disjoint_rows(sizes, gram.whitening, problem.risks, linear=nothing)
    leverage = np.where(sizes > 0, 1 / np.where(sizes > 0, sizes, 1.0), 0.0)
    forms = MatrixForms(
        symmetric=(*found.forms.matrices(), leverage),
        offsets=np.append(found.forms.offsets, 0.0),
        linear=nothing,
    )
    rank = Rank(rank=int(np.count_nonzero(sizes)), evidence=Evidence.FULL_RANK)
    return replace(found, names=(*found.names, Quantity.LEVERAGE), forms=forms), rank


def independent_rows(incidence: CellIncidence, gram: FloatArray) -> IndexArray:
    """The rows without the redundant ones: empty ones, and one of each further partition of the same set."""
    starts, widths = incidence.starts, incidence.widths
    spans = [slice(s, s + w) for s, w in zip(starts, widths, strict=True)]
    shared = np.array([[gram[p, q].sum() for q in spans] for p in spans])
    kept = np.diagonal(gram) > 0
    for q, span in enumerate(spans):
        # Two partitions cover the same records iff each covers as many as both together.
        alike = [p for p in range(q) if shared[p, p] == shared[q, q] == shared[p, q]]
        if alike:
            kept[span.start + int(np.argmax(np.diagonal(gram)[span]))] = False
    return np.flatnonzero(kept)


def decide_partitions(problem: Problem, near: IndexArray) -> Decisions:
    """Decisions in exact arithmetic on some groups, positions among the unknown; no other is identifiable."""
    gram = problem.gram
    incidence, unknown = gram.design.incidence, gram.unknown
    assert isinstance(incidence, CellIncidence)  # a column stands for a group
    sizes = incidence.counts if unknown.all() else incidence.counts[unknown]
    identifiable = np.zeros(sizes.size, dtype=np.bool_)
    # The sum of a group that is alone in a cell is published: no elimination is needed.
    members, columns = np.diagonal(gram.matrix), np.flatnonzero(unknown)[near]
    for first, own in zip(incidence.starts, incidence.table, strict=True):
        cells = own[columns]
        alone = (cells >= 0) & (members[first + cells] == sizes[near])
        identifiable[near[alone]] = True
    near = near[~identifiable[near]]
    if near.size:
        problem.progress("deciding exactly", 0.0)
        test = modular_test(gram)
        columns = np.flatnonzero(unknown)[near]
        sums = test.linear @ incidence.columns(columns)
        limbs = sums.reshape(-1, test.solved.shape[0], near.size)
        values = residues.join(limbs, bits=test.bits, prime=test.prime)
        moved = residues.times(values, sizes[near].astype(np.int64), prime=test.prime)
        identifiable[near] = np.all(moved == test.random.drawn[:, columns], axis=0)
    return Decisions(
        group=np.arange(sizes.size),
        sizes=sizes,
        first=np.arange(sizes.size),
        identifiable=identifiable,
        undecided=np.zeros(sizes.size, dtype=np.bool_),
    )
