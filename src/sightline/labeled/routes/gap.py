"""Real-valued weights: who is identifiable, decided by a gap in the singular values."""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.risk_forms import Quantity, forms_from_factor
from sightline.labeled.routes.problem import Decisions, Problem, Reading, group_sizes
from sightline.numerics.decision import Rank
from sightline.numerics.rank import missing, present


def by_gap(problem: Problem) -> Reading | None:
    """The route of real-valued weights; ``None`` for whole-number weights, which are decided exactly."""
    gram = problem.gram
    incidence = gram.design.incidence
    if incidence.whole:
        return None
    factor, rank = gram.factor_of_rows(None)
    nothing = np.zeros((0, incidence.row_count))
    forms = forms_from_factor(factor, gram.whitening, problem.risks, linear=nothing)
    quantities, _ = problem.read(forms)
    _, group = np.unique(incidence.signatures(gram.unknown)[gram.unknown], return_inverse=True)
    decisions = decide_by_leverage(quantities[Quantity.LEVERAGE], group, rank, row_count=incidence.row_count)
    return Reading(rank=rank, decisions=decisions, quantities=quantities, relative_error=forms.relative_error)


def decide_by_leverage(leverage: FloatArray, group: IndexArray, rank: Rank, *, row_count: int) -> Decisions:
    """A group is identifiable iff its leverages sum to one.

    Within rounding of one is a yes, clearly below it is a no, and anything between is undecided.
    """
    sizes, first = group_sizes(group)
    deficit = 1 - sizes * leverage[first]
    kept = max(rank.smallest_kept, np.finfo(np.float64).tiny)
    identifiable = deficit <= missing(row_count) / kept
    undecided = ~identifiable & (deficit < present(row_count) / kept)
    if not rank.decided:
        undecided = leverage[first] > 0
    return Decisions(
        group=group,
        sizes=sizes,
        first=first,
        identifiable=identifiable & ~undecided,
        undecided=undecided,
    )
