"""How large a plan is: what its assessment is expected to take, and what an audit of it leaves out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.auditing.findings import Findings
from sightline.auditing.lowering import linear_partitions
from sightline.auditing.releases import stage_count
from sightline.auditing.shared_budget import budget_of
from sightline.auditing.table_units import signature_columns
from sightline.format import count, shown_memory
from sightline.labeled.sparse_row_solver import Route, RouteCost, cost_of_units
from sightline.labeled.units import Units
from sightline.tables.membership import Membership
from sightline.tables.streamed import StreamedTable, memory_in_arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCost:
    """The cost of one assessment of all records. An audit makes several, of the same size or smaller.

    A streamed table is assessed once, by passes over its signatures.
    """

    signatures: int
    partitions: int
    routes: tuple[RouteCost, ...]  # none without a linear part
    streamed: bool = False  # whether the signatures stay in the engine
    lines: int = 0  # signatures of all kinds of persons of a streamed table, where records have several rows

    def __str__(self) -> str:
        lines = [f"{count(self.signatures, 'signature')} of {count(self.partitions, 'partition')}"]
        if self.streamed:
            from sightline.auditing.streamed_findings import PASSES, PASSES_OF_PERSONS

            need = shown_memory(memory_in_arrays(self.signatures, self.partitions, self.lines))
            lines.append(
                f"streamed: about {need} in memory is more than allowed, so they stay in the engine and are "
                f"read in up to {PASSES_OF_PERSONS if self.lines else PASSES} passes"
            )
        lines += [f"{route} for one assessment of all records" for route in self.routes]
        if not self.routes:
            lines.append("no published number is linear in the secret: nothing is factorised")
        return "\n".join(lines)


def expected_cost(table: Membership | StreamedTable) -> ExpectedCost:
    """The routes of a plan's designs. Patterns of sparse factors are analysed, and nothing is factorised."""
    membership = table.membership if isinstance(table, StreamedTable) else table
    route = _route(membership)
    return ExpectedCost(
        signatures=membership.signature_count,
        partitions=len(membership.partitions),
        routes=() if route is None else (route,),
        streamed=isinstance(table, StreamedTable),
        lines=table.persons.signatures if isinstance(table, StreamedTable) and table.persons else 0,
    )


def sparse_cost(membership: Membership) -> RouteCost | None:
    """What sparse factors over the linear cells take; ``None`` where dense ones are taken."""
    route = _route(membership)
    return None if route is None or route.route is Route.DENSE else route


def _route(membership: Membership) -> RouteCost | None:
    """What factors over the linear cells take; none without such cells."""
    order = linear_partitions(membership)
    if not order or not len(membership.signatures):
        return None
    cells, widths = signature_columns(membership, order).cells, np.diff(membership.starts)[order]
    ones, numbers = np.ones(len(cells), dtype=np.intp), int(widths.sum())
    return cost_of_units(
        Units(
            rows=np.where(cells >= 0, cells + np.cumsum(widths) - widths, numbers),
            weights=None,
            numbers=numbers,
            starts=np.arange(len(cells) + 1),
            times=ones,
            people=ones,
            distinct=True,
        )
    )


def left_out(findings: Findings) -> tuple[str, ...]:
    """One line about what was not computed, and why; none if all was."""
    found, releases = findings.linear, len(findings.plan.releases)
    if found is None:
        return ()
    if findings.streamed:
        return (
            f"The table has {findings.membership.signature_count:,} signatures and is streamed: minima and "
            "counts are over all records. Left out, since it would take more passes: the timeline; what each "
            "release adds; copies among the releases; other accountants; changes and slack of the noise; "
            "each record's own loss; accuracy; with whom a record is seen; short recipes; pairs of records "
            "that hide a yes or no or a category.",
        )
    parts = []
    if not found.comparable and findings.question is None and np.any(found.visible):
        parts.append("what each release adds to the exposure of identifiable records")
    stages = stage_count(findings)
    if stages < releases:
        shown = "the last one" if stages == 1 else f"{stages} of them"
        parts.append(f"the exposure after each release but {shown}")
    if not found.repeatable:
        if budget_of(findings.plan) is not None and findings.pricing.releases:
            parts.append("other accountants")
        if findings.not_shown or found.limit is None:
            parts.append("what it would help to leave a release out")
    several = found.linear.rows_of_unit > 1
    if (number := int(found.people[several & found.exposure.undecided].sum())) > 0:
        parts.append(
            f"whether more combinations of the rows of {number:,} records with several rows are identifiable"
        )
    if not parts:
        return ()
    numbers = found.linear.row_count
    return (
        f"The plan publishes {numbers:,} numbers about {len(found.people):,} kinds of rows, too many "
        f"to be assessed again and again. Left out: {'; '.join(parts)}.",
    )
