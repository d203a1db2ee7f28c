"""Real-valued weights: who is identifiable, decided by a gap in the singular values.

Rows and columns are rescaled first: that changes no answer, and weights of very different size cannot pass
for a missing direction. A decision by gap is kept only if the doubles as they are, taken as exact numbers,
give the same one. Otherwise the answer is *undecided*.
"""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray
from sightline.labeled.column_forms import MatrixForms, ProjectedForms
from sightline.labeled.gram_factor import factor_of_rows
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.risk_forms import forms_from_factor
from sightline.labeled.routes.columns import decide_distinct, groups_of_columns
from sightline.labeled.routes.problem import Decisions, Problem, Reading
from sightline.labeled.unknown_gram import UnknownRecordsGram
from sightline.numerics.decision import Evidence, Rank
from sightline.numerics.rank import missing, present
from sightline.progress import silent


def by_gap(problem: Problem) -> Reading | None:
    """The route of real-valued weights; ``None`` for integers, which are decided exactly."""
    gram = problem.gram
    incidence = gram.design.incidence
    if incidence.integral:
        return None
    group, sizes, first = groups_of_columns(gram)
    leverage, rank = balanced_leverages(gram)
    identifiable, undecided = decide_by_leverage(sizes * leverage[first], rank, row_count=incidence.row_count)
    exactly = decide_distinct(gram, first)
    factor, _ = gram.factor_of_rows(rank)
    if exactly is not None:
        if exactly.rank != rank.rank:  # numbers are those of the doubles as they are
            rank = Rank(rank=exactly.rank, evidence=Evidence.NONE)
        undecided |= identifiable != exactly.identifiable
        identifiable &= ~undecided
    decisions = Decisions(
        group=group, sizes=sizes, first=first, identifiable=identifiable, undecided=undecided
    )
    nothing = np.zeros((0, incidence.row_count))
    forms = forms_from_factor(factor, gram.whitening, problem.risks, linear=nothing)
    quantities, _ = problem.read(forms)
    return Reading(rank=rank, decisions=decisions, quantities=quantities, share_error=forms.share_error)


def balanced_leverages(gram: UnknownRecordsGram) -> tuple[FloatArray, Rank]:
    """Every unknown record's leverage after rows and columns are scaled to unit length, and the rank."""
    incidence, unknown = gram.design.incidence, gram.unknown
    nothing = np.zeros((0, incidence.row_count))
    scale = gram.row_scale
    squares = MatrixForms(symmetric=(scale**2,), offsets=np.zeros(1), linear=nothing)
    lengths = np.sqrt(incidence.forms(squares, unknown, silent)[0])
    factors = np.where(lengths > 0, 1 / np.where(lengths > 0, lengths, 1.0), 0.0)
    triangle = incidence.triangle(factors, scale)
    again = np.linalg.norm(triangle, axis=0)
    again = np.where(again > 0, again, 1.0)
    factor, rank = factor_of_rows(triangle / again, scale / again, None)
    forms = ProjectedForms(
        projection=factor.coordinates(),
        weights=np.ones((1, factor.rank)),
        offsets=np.zeros(1),
        linear=nothing,
    )
    leverage: FloatArray = (incidence.forms(forms, unknown, silent)[0] * factors**2)[unknown]
    return leverage, rank


def decide_by_leverage(leverage: FloatArray, rank: Rank, *, row_count: int) -> tuple[BoolArray, BoolArray]:
    """Which groups are identifiable, and which are undecided, by the sum of each group's leverages.

    Within rounding of one is a yes, clearly below it is a no, and anything between is undecided.
    """
    deficit = 1 - leverage
    kept = max(rank.smallest_kept, np.finfo(np.float64).tiny)
    identifiable = deficit <= missing(row_count) / kept
    undecided = ~identifiable & (deficit < present(row_count) / kept)
    if not rank.decided:
        undecided = leverage > 0
    return identifiable & ~undecided, undecided
