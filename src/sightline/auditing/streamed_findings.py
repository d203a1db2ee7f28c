"""The findings of an audit whose table is streamed: the same passes over units, which stay in the engine.

A :class:`~sightline.tables.streamed_units.StreamedUnits` is a store of units like the one in memory. Of all
units the last pass keeps those that are worth a closer look, and counts of the others. What
an audit states about all records comes from a pass; what would take more passes is left out.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.auditing.findings import Findings, LinearFindings, OtherRecords
from sightline.auditing.lowering import Lowered, lower
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing, kept_of_anything, price
from sightline.auditing.result import EDGES
from sightline.auditing.secret_prior import SecretPrior
from sightline.errors import TooMuchWork
from sightline.labeled.assessment import exposure_of, unit_brackets
from sightline.labeled.unit_brackets import UnitBrackets
from sightline.progress import Progress
from sightline.tables.store_passes import ExposureScan
from sightline.tables.streamed import StreamedTable
from sightline.tables.streamed_units import SolvedForms, StreamedUnits

PASSES = 6  # sizes of cells, products, information, weighted products, records, and numbers of those kept
MOST_KEPT = 10_000  # signatures that are kept for how little remains of them


def find_streamed(plan: Plan, table: StreamedTable, progress: Progress, *, most: int = MOST_KEPT) -> Findings:
    """Price a plan and assess its design by passes over all signatures; keep the ``most`` worst of them."""
    pricing = price(plan, table.membership)
    if pricing.strategies or pricing.exact.any():
        got = "noise that numbers share" if pricing.strategies else "numbers without noise"
        raise TooMuchWork(
            f"expected independent noise on all numbers of a table that is streamed, got {got}; "
            "allow more with max_memory, so that all signatures fit"
        )
    lowered = _lowered(plan, table, pricing)
    # Passes are all that is asked of units that stay in the engine.
    units: Any = StreamedUnits(store=table.store, cells=table.cells.filled, progress=progress)
    brackets = unit_brackets(replace(lowered.design, units=units, made={}))
    if not brackets.solver.leverage.error < 1:  # everyone might be identifiable, and would be kept
        raise TooMuchWork(
            "expected independent rows of a table that is streamed, got some that are too nearly dependent; "
            "allow more with max_memory, so that all signatures fit"
        )
    scan = _scan(plan, table, SolvedForms.of(brackets), pricing, most)
    found = table.store.run(scan, "assessing every record", progress)
    kept = table.listing(found, progress)
    progress("assessing the most exposed", 0.0)
    lowered = _lowered(plan, kept, pricing)
    exposure = exposure_of(lowered.design, brackets, alone=False)
    return Findings(
        plan=plan,
        membership=kept.membership,
        pricing=pricing,
        linear=LinearFindings(
            linear=lowered,
            exposure=exposure,
            lower=exposure.lower.ravel(),
            limit=lowered.prior.limit(plan.limits),
            others=OtherRecords(
                below=int(found["below"][1]),
                signatures_below=int(found["below"][0]),
                histogram=found["histogram"],
                relative_error=float(found["largest_error"][0]),
            ),
        ),
    )


def _lowered(plan: Plan, table: StreamedTable, pricing: Pricing) -> Lowered:
    lowered = lower(plan, table.membership, pricing)
    assert lowered is not None  # a table is streamed if all of its cells are linear in the secret
    return lowered


def _scan(
    plan: Plan, table: StreamedTable, brackets: UnitBrackets, pricing: Pricing, most: int
) -> ExposureScan:
    limit = SecretPrior.of(plan, table.membership).limit(plan.limits)
    others = table.membership.others
    costs = pricing.record_costs
    kept = float(kept_of_anything(pricing.moved(table.membership)).min(initial=1.0))
    pure = np.array([law.pure for law in pricing.laws], dtype=np.bool_)[pricing.owner]
    assert others is not None  # a streamed table has others
    return ExposureScan(
        cells=table.cells.filled,
        brackets=brackets,
        most=most,
        edges=np.array(EDGES),
        # Nobody is below a limit that the noise alone keeps.
        limit=-math.inf if limit is None or kept >= limit else limit,
        # A record has one row, so that each cell costs it this much for every copy. Of a mix of laws the
        # budget asks who pays most for noise without a pure epsilon.
        costs=np.where(pure & ~pure.all(), 0.0, costs.costs * costs.times[pricing.owner]),
        always=others.words,
    )
