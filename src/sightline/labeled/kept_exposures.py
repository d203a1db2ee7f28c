"""The exposures of the few records that a pass over all records kept, as if all were in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.bracket_forms import BracketForms
from sightline.labeled.description import LinearReleases
from sightline.labeled.exposures import Exposures, with_linear_attack, with_others_unknown
from sightline.labeled.incidence.cells import CellIncidence
from sightline.labeled.knowledge import unknown_records
from sightline.labeled.record_numbers import Attack, refined_numbers
from sightline.labeled.risk_forms import Quantity
from sightline.labeled.routes.cost import dense_cost
from sightline.labeled.routes.partitions import decide_partitions, groups_near_one
from sightline.labeled.routes.problem import Problem, Reading
from sightline.labeled.unknown_gram import UnknownRecordsGram
from sightline.noise.mixed import MixedNoise
from sightline.progress import Progress, silent


def kept_exposures(
    design: LinearReleases,
    forms: BracketForms,
    *,
    known: IndexArray,
    copies: FloatArray | None,
    progress: Progress = silent,
) -> Exposures:
    r"""The exposures of the columns that are held, beside others that are only in the products of rows.

    Who is identifiable is decided exactly. The random change of the records that decides it
    (:mod:`sightline.labeled.routes.exact`) starts from a random vector u that is zero on the columns that are
    not held. That proves as much: the test of a group of n records depends on its own entry of u with the
    factor :math:`1 - n\,a_j^\top M^{-1} a_j`, which is zero iff the group is identifiable.
    """
    found = _exposures(design, forms, known, copies, True, progress)
    if forms.by_variance is not None and isinstance(design.law, MixedNoise):
        by_variance = design.with_noise(design.law.gaussian)
        linear = _exposures(by_variance, forms.by_variance, known, None, False, progress)
        found = with_linear_attack(found, linear)
    if forms.lattice_share == 1:
        return found
    return replace(found, remaining_lower=found.remaining_lower * forms.lattice_share)


def _exposures(
    design: LinearReleases,
    forms: BracketForms,
    known: IndexArray,
    copies: FloatArray | None,
    attacks: bool,
    progress: Progress,
) -> Exposures:
    incidence = design.incidence
    assert isinstance(incidence, CellIncidence)  # a table is streamed cell by cell
    unknown = unknown_records(design.size, known)
    gram = UnknownRecordsGram.of(design, unknown, progress)
    problem = Problem(gram=gram, risks=forms.risks, progress=progress)
    table = incidence.table[:, unknown]
    values = forms.read(table, progress)
    quantities = {name: np.array(own) for name, own in forms.quantities(values).items()}
    reading = Reading(
        rank=forms.rank,
        decisions=decide_partitions(problem, groups_near_one(problem, quantities[Quantity.LEVERAGE])),
        quantities=quantities,
        share_error=forms.share_error,
    )
    attack = Attack(
        prior=forms.prior,
        everyone_told=False,
        copies=copies,
        attacks=attacks,
        cost=dense_cost(design.row_count, "the signatures are streamed"),
        progress=progress,
    )
    numbers = refined_numbers(problem, reading, attacks=attacks)
    return with_others_unknown(gram, reading, numbers, attack, forms.hidden(table, values))
