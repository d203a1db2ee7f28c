"""The findings of an audit whose table is streamed: the same passes over units, which stay in the engine.

A :class:`StreamedUnits` is a store of units like the one in memory: the assessment's passes run on it, batch
by batch. Of all units the last pass keeps those that are worth a closer look, and counts of the others. What
an audit states about all records comes from a pass; what would take more passes is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.findings import Findings, LinearFindings, OtherRecords
from sightline.auditing.lowering import Lowered, lower
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing, price
from sightline.auditing.result import EDGES
from sightline.errors import TooMuchWork
from sightline.labeled.assessment import UnitBrackets, exposure_of, unit_brackets
from sightline.labeled.unit_design import Design
from sightline.labeled.units import Arrays, UnitBlock, UnitReduction
from sightline.progress import Progress
from sightline.tables.cell_numbers import SignatureCells
from sightline.tables.signature_store import SignatureBatch, SignatureStore
from sightline.tables.store_passes import ExposureScan
from sightline.tables.streamed import StreamedTable

PASSES = 6  # sizes of cells, products, information, weighted products, records, and numbers of those kept
MOST_KEPT = 10_000  # signatures that are kept for how little remains of them


def find_streamed(plan: Plan, table: StreamedTable, progress: Progress, *, most: int = MOST_KEPT) -> Findings:
    """Price a plan and assess its design by passes over all signatures; keep the ``most`` worst of them."""
    pricing = price(plan, table.membership)
    if pricing.correlation is not None or pricing.exact.any():
        got = "correlated noise" if pricing.correlation is not None else "numbers without noise"
        raise TooMuchWork(
            f"expected independent noise on all numbers of a table that is streamed, got {got}; "
            "allow more with max_memory, so that all signatures fit"
        )
    lowered = _lowered(plan, table, pricing)
    units = StreamedUnits(store=table.store, cells=table.cells.filled, progress=progress)
    brackets = unit_brackets(units.design(lowered))
    found = table.store.run(_scan(plan, table, brackets, pricing, most), "assessing every record", progress)
    kept = table.listing(found, brackets.solver.sums.dense, progress)
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
            limit=plan.limits.remaining_uncertainty,
            others=OtherRecords(
                below=int(found["below"][1]),
                signatures_below=int(found["below"][0]),
                histogram=found["histogram"],
                relative_error=float(found["largest_error"][0]),
            ),
        ),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamedUnits:
    """Units of one row each that are read from a store of signatures in passes."""

    store: SignatureStore
    cells: SignatureCells
    progress: Progress

    @property
    def numbers(self) -> int:
        """How many rows there are."""
        return int(self.cells.widths.sum())

    def __len__(self) -> int:
        return self.store.signatures

    def run(self, reduction: UnitReduction) -> Arrays:
        """One pass over all units."""
        return self.store.run(
            _UnitPass(cells=self.cells, reduction=reduction), "reading every record", self.progress
        )

    def design(self, lowered: Lowered) -> Design:
        """The design of all units, in place of those of the signatures that the membership lists."""
        return replace(lowered.design, units=self, made={})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _UnitPass:
    """A pass over units as a pass over signatures."""

    cells: SignatureCells
    reduction: UnitReduction

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        unknown = batch.counts - batch.known
        some = np.flatnonzero(unknown > 0)
        block = _block(self.cells.table(batch.words[:, some]), self.cells.widths, unknown[some])
        return self.reduction.of_block(block)

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        return self.reduction.merged([first, second])


def _block(table: NDArray[np.int32], widths: IndexArray, people: NDArray[Any]) -> UnitBlock:
    """The units of signatures, given by their cells: partitions × signatures, -1 for none."""
    rows = np.where(table >= 0, table + (np.cumsum(widths) - widths)[:, None], widths.sum()).T
    return UnitBlock(
        rows=np.ascontiguousarray(rows)[:, None, :],
        weights=None,
        times=np.ones((len(rows), 1), dtype=np.intp),
        people=people,
        alike=people.astype(np.float64),
        kinds=np.arange(len(rows)),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Seen:
    """What a pass over signatures asks of their brackets."""

    lower: FloatArray
    upper: FloatArray
    relative_error: FloatArray
    group_leverage: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Forms:
    """The brackets of units as a pass over signatures asks for them."""

    brackets: UnitBrackets
    widths: IndexArray

    def assess(self, table: NDArray[np.int32], counts: FloatArray) -> _Seen:
        if not counts.size:
            return _Seen(lower=counts, upper=counts, relative_error=counts, group_leverage=counts)
        found = self.brackets.of_block(_block(table, self.widths, counts.astype(np.intp)))
        return _Seen(
            lower=found["lower"][:, 0],
            upper=found["upper"][:, 0],
            relative_error=found["error"][:, 0],
            group_leverage=np.where(found["near"], 1.0, 0.0),
        )


def _lowered(plan: Plan, table: StreamedTable, pricing: Pricing) -> Lowered:
    lowered = lower(plan, table.membership, pricing)
    assert lowered is not None  # a table is streamed if all of its cells are linear in the secret
    return lowered


def _scan(
    plan: Plan, table: StreamedTable, brackets: UnitBrackets, pricing: Pricing, most: int
) -> ExposureScan:
    limit, others = plan.limits.remaining_uncertainty, table.membership.others
    costs = pricing.record_costs
    pure = np.array([law.pure for law in pricing.laws], dtype=np.bool_)[pricing.owner]
    assert others is not None  # a streamed table has others
    return ExposureScan(
        cells=table.cells.filled,
        forms=_Forms(brackets=brackets, widths=table.cells.filled.widths),
        most=most,
        edges=np.array(EDGES),
        limit=-math.inf if limit is None else limit,
        # A record has one row, so that each cell costs it this much for every copy. Of a mix of laws the
        # budget asks who pays most for noise without a pure epsilon.
        costs=np.where(pure & ~pure.all(), 0.0, costs.costs * costs.times[pricing.owner]),
        always=others.words,
    )
