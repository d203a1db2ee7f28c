r"""Rows that a factorisation proves independent: few records need exact arithmetic.

If the rows are independent, a group of n records is identifiable iff its leverages :math:`a_j^\top M^{-1}
a_j`, with :math:`M = A A^\top`, sum to one, exactly (``eq:lever1_ident_cond``). All leverages sum to the
rank, so few groups come near one half, and only these are decided in exact arithmetic.
"""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray
from sightline.labeled.incidence.dense import numbered_columns
from sightline.labeled.risk_forms import Quantity
from sightline.labeled.routes.exact import CHECKS, limb_bits
from sightline.labeled.routes.problem import Decisions, Problem, Reading, group_sizes
from sightline.labeled.unknown_gram import UnknownRecordsGram
from sightline.numerics import residues
from sightline.numerics.decision import Evidence, Rank

_MERSENNE = (1 << 61) - 1


def by_independent_rows(problem: Problem) -> Reading | None:
    """The route of dense rows that are proved independent; ``None`` where that does not apply."""
    gram = problem.gram
    incidence = gram.design.incidence
    if incidence.sparse or incidence.counts is not None:
        return None
    forms = gram.forms_if_independent(problem.risks, _signature_keys(gram))
    if forms is None:
        return None
    quantities, sums = problem.read(forms)
    return Reading(
        rank=Rank(rank=incidence.row_count, evidence=Evidence.FULL_RANK),
        decisions=_decide(gram, sums, quantities[Quantity.LEVERAGE]),
        quantities=quantities,
        share_error=forms.share_error,
    )


def _signature_keys(gram: UnknownRecordsGram) -> FloatArray:
    """Limbs of random residues as linear forms: their values agree for equal columns and for no others."""
    incidence = gram.design.incidence
    drawn = residues.draw_residues(b"rows" + incidence.seed(), count=incidence.row_count, checks=CHECKS)
    return residues.limbs(drawn, bits=limb_bits(incidence)).reshape(-1, incidence.row_count)


def _decide(gram: UnknownRecordsGram, sums: FloatArray, leverage: FloatArray) -> Decisions:
    incidence, unknown = gram.design.incidence, gram.unknown
    bits = limb_bits(incidence)
    limbs = sums.reshape(-1, CHECKS, sums.shape[1])[:, :, unknown]
    group = numbered_columns(residues.join(limbs, bits=bits, prime=_MERSENNE))
    sizes, first = group_sizes(group)
    identifiable = np.zeros(sizes.size, dtype=np.bool_)
    near = np.flatnonzero(sizes * leverage[first] > 1 / 2)
    if near.size:
        columns = incidence.columns(np.flatnonzero(unknown)[first[near]])
        whole = columns.T.astype(np.int64)
        solved = residues.reduced(gram.matrix.astype(np.int64), lambda prime: np.mod(whole, prime))
        parts = residues.limbs(solved.solved, bits=bits) * columns.T
        exactly = residues.join(parts.sum(axis=-1), bits=bits, prime=solved.prime)
        identifiable[near] = residues.times(exactly, sizes[near].astype(np.int64), prime=solved.prime) == 1
    return Decisions(
        group=group,
        sizes=sizes,
        first=first,
        identifiable=identifiable,
        undecided=np.zeros(sizes.size, dtype=np.bool_),
    )
