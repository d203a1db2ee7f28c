"""The findings of an audit whose table is streamed: the same passes over units, which stay in the engine.

A :class:`~sightline.auditing.streamed_units.StreamedUnits` is a store of units like the one in memory. Of all
units the last pass keeps those that are worth a closer look, and counts of the others. What
an audit states about all records comes from a pass; what would take more passes is left out.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.auditing.budget import costs_without_pure
from sightline.auditing.exposure_scan import ExposureScan
from sightline.auditing.findings import Findings, LinearFindings, OtherRecords
from sightline.auditing.lowering import Lowered, lower
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing, price
from sightline.auditing.result import EDGES
from sightline.auditing.streamed_units import BatchUnits, SolvedForms, StreamedUnits
from sightline.errors import TooMuchWork
from sightline.labeled.assessment import unit_brackets
from sightline.progress import Progress
from sightline.tables.engines.protocol import Arrays
from sightline.tables.streamed import Largest, StreamedTable

# Sizes of cells, products, information, weighted products, records, and numbers of those kept; where records
# have several rows also the most rows of one, how far one moves all numbers, rows by themselves, and owners.
PASSES, PASSES_OF_PERSONS = 6, 10
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
    made = BatchUnits(batches=table.batches, lowering=lowered.lowering)
    findings = Findings(plan=plan, membership=table.membership, pricing=pricing, linear=None)
    if table.membership.known_rows and not _anyone(table, made, progress):
        return findings
    # Passes are all that is asked of units that stay in the engine.
    units: Any = StreamedUnits(store=table.records, made=made, progress=progress)
    brackets = unit_brackets(replace(lowered.design, units=units, made={}))
    if not brackets.solver.leverage.error < 1:  # everyone might be identifiable, and would be kept
        raise TooMuchWork(
            "expected independent rows of a table that is streamed, got some that are too nearly dependent; "
            "allow more with max_memory, so that all signatures fit"
        )
    limit, moved = findings.limit, findings.most_moved
    others = table.membership.others
    assert others is not None  # a streamed table has others
    scan = ExposureScan(
        made=made,
        brackets=SolvedForms.of(brackets),
        most=most,
        edges=np.array(EDGES),
        # Nobody is below a limit that the noise alone keeps.
        limit=-math.inf if limit is None or findings.kept_by_noise >= limit else limit,
        costs=costs_without_pure(pricing),
        moves=pricing.moves,
        always=others.words,
    )
    found = table.records.run(scan, "assessing every record", progress)
    kept = table.listing(found, _rows(table, scan, lowered, progress), progress)
    progress("assessing the most exposed", 0.0)
    rest = OtherRecords(
        below=int(found["below"][1]),
        signatures_below=int(found["below"][0]),
        histogram=found["histogram"],
        relative_error=float(found["largest_error"][0]),
        people=int(found["rest"][1]),
        brackets=brackets,
    )
    lowered = _lowered(plan, kept, pricing)
    exposure = rest.exposure(lowered, pricing)
    linear = LinearFindings(
        linear=lowered, exposure=exposure, lower=exposure.lower.ravel(), limit=limit, others=rest
    )
    findings = replace(findings, membership=kept.membership, linear=linear)
    findings.__dict__["most_moved"] = moved  # of all records, by a pass
    return findings


def _anyone(table: StreamedTable, made: BatchUnits, progress: Progress) -> bool:
    """Whether there is a record that the attacker does not know."""
    units = Largest(batches=made.batches, of=lambda batch: np.array(len(made.lowering.units(batch)[0])))
    return bool(table.records.run(units, "reading every record", progress)["largest"])


def _rows(table: StreamedTable, scan: ExposureScan, lowered: Lowered, progress: Progress) -> Arrays:
    """Rows of several persons, or of one, whose sum may be identifiable: a pass over signatures."""
    others = table.membership.others
    assert others is not None  # a streamed table has others
    if table.persons is None or lowered.lowering.constant:
        none = np.zeros(0, dtype=np.int64)
        return {"words": others.words[:, :0], "counts": none, "known": none}
    rows = replace(table, persons=None, membership=replace(table.membership, persons=None, contributions=1))
    by_row = replace(scan, made=replace(scan.made, batches=rows.batches), most=0)
    return table.store.run(by_row, "assessing every row", progress)


def _lowered(plan: Plan, table: StreamedTable, pricing: Pricing) -> Lowered:
    lowered = lower(plan, table.membership, pricing)
    assert lowered is not None  # a table is streamed if all of its cells are linear in the secret
    return lowered
