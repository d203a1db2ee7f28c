r"""Decisions on the distinct columns themselves, modulo a prime: for weights of any size.

A double is an integer times a power of two, and a row may be multiplied by any number. So every table of
doubles is a table of integers, whose row space is decided exactly: the sum over a group is identifiable iff
the row of the reduced echelon form with its pivot has no other entry (``eq:lever1_ident_cond``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.risk_forms import forms_from_factor
from sightline.labeled.routes.problem import Decisions, Problem, Reading, group_sizes
from sightline.labeled.unknown_gram import UnknownRecordsGram
from sightline.numerics import exact_library as flint
from sightline.numerics import integers as exact
from sightline.numerics import residues
from sightline.numerics.decision import Evidence, Rank
from sightline.numerics.residues import Residues

# Entries of the table that is eliminated.
_LARGEST = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnDecisions:
    """What an elimination of the distinct columns says."""

    rank: int
    pivots: IndexArray  # columns that are independent of the earlier ones
    identifiable: BoolArray


def by_columns(problem: Problem) -> Reading | None:
    """The route of integers too large for exact sums of products; ``None`` for all other weights.

    Where there are too many columns for an elimination, nothing is decided.
    """
    gram = problem.gram
    incidence = gram.design.incidence
    if incidence.whole or not incidence.integral:
        return None
    group, sizes, first = groups_of_columns(gram)
    exactly = decide_distinct(gram, first)
    if exactly is None:
        factor, rank = gram.factor_of_rows(None)
        rank = Rank(rank=rank.rank, evidence=Evidence.NONE)
        nobody = np.zeros(sizes.size, dtype=np.bool_)
        decisions = Decisions(group=group, sizes=sizes, first=first, identifiable=nobody, undecided=~nobody)
    else:
        rank = Rank(rank=exactly.rank, evidence=Evidence.MODULAR)
        factor, _ = gram.factor_of_rows(rank)
        decisions = Decisions(
            group=group,
            sizes=sizes,
            first=first,
            identifiable=exactly.identifiable,
            undecided=np.zeros(sizes.size, dtype=np.bool_),
        )
    nothing = np.zeros((0, incidence.row_count))
    forms = forms_from_factor(factor, gram.whitening, problem.risks, linear=nothing)
    quantities, _ = problem.read(forms)
    return Reading(rank=rank, decisions=decisions, quantities=quantities, share_error=forms.share_error)


def groups_of_columns(gram: UnknownRecordsGram) -> tuple[IndexArray, IndexArray, IndexArray]:
    """The group of each unknown record by its column, and each group's size and first member.

    Where columns stand for several records, each column is a group.
    """
    incidence, unknown = gram.design.incidence, gram.unknown
    if incidence.counts is not None:
        sizes = incidence.counts[unknown]
        return np.arange(sizes.size), sizes, np.arange(sizes.size)
    _, group = np.unique(incidence.signatures(unknown)[unknown], return_inverse=True)
    sizes, first = group_sizes(group)
    return group, sizes, first


def decide_distinct(gram: UnknownRecordsGram, first: IndexArray) -> ColumnDecisions | None:
    """Decisions on one column of each group; ``None`` where the table is too large."""
    incidence = gram.design.incidence
    if incidence.row_count * first.size > _LARGEST:
        return None
    return decide_columns(incidence.columns(np.flatnonzero(gram.unknown)[first]))


def decide_columns(columns: FloatArray) -> ColumnDecisions:
    """Rank, pivots and identifiable groups of a table of different columns (rows × groups).

    >>> decide_columns(np.array([[1.0, 1e-8, 0.0], [0.0, 0.0, 3.0]])).identifiable.tolist()
    [False, False, True]
    """
    row_count, count = columns.shape
    prime = exact.prime_of(np.ascontiguousarray(columns + 0.0).view(np.int64))
    table = residues_of_doubles(columns, prime)
    reduced, rank = flint.nmod_mat(row_count, count, table.ravel().tolist(), prime).rref()
    entries = [int(entry) for entry in reduced.entries()[: int(rank) * count]]
    nonzero = np.array(entries, dtype=np.int64).reshape(int(rank), count) != 0
    pivots: IndexArray = np.argmax(nonzero, axis=1) if int(rank) else np.zeros(0, dtype=np.intp)
    identifiable = np.zeros(count, dtype=np.bool_)
    identifiable[pivots] = np.count_nonzero(nonzero, axis=1) == 1
    return ColumnDecisions(rank=int(rank), pivots=pivots, identifiable=identifiable)


def residues_of_doubles(columns: FloatArray, prime: int) -> Residues:
    """Every row times the power of two that makes it integers, modulo a prime."""
    fractions, exponents = np.frexp(columns)
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    used = np.where(mantissas != 0, exponents, np.iinfo(np.int32).max)
    shifts = np.where(mantissas != 0, exponents - used.min(axis=1, keepdims=True), 0)
    table: Residues = np.mod(mantissas, np.int64(prime))
    while np.any(shifts > 0):
        steps = np.minimum(shifts, 40)
        for bits in np.unique(steps[steps > 0]).tolist():
            chosen = steps == bits
            none = np.zeros(int(np.count_nonzero(chosen)), dtype=np.int64)
            table[chosen] = residues.shift_add(table[chosen], none, bits=bits, prime=prime)
        shifts = shifts - steps
    return table
