"""What the assessment of a plan is expected to take: route, reason, memory and time, before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from sightline.auditing.design import linear_design
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import price
from sightline.auditing.streamed_findings import PASSES
from sightline.format import count, shown_memory
from sightline.labeled.routes.cost import RouteCost, choose_route
from sightline.progress import Progress
from sightline.tables.membership import Membership
from sightline.tables.streamed import StreamedTable, memory_in_arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCost:
    """The cost of one assessment of all records. An audit makes several, of the same size or smaller.

    A streamed table is assessed once, by passes over its signatures.
    """

    signatures: int
    partitions: int
    routes: tuple[RouteCost, ...]  # one for each design: a category has two; none without a linear part
    streamed: bool = False  # whether the signatures stay in the engine

    def __str__(self) -> str:
        lines = [f"{count(self.signatures, 'signature')} of {count(self.partitions, 'partition')}"]
        if self.streamed:
            need = shown_memory(memory_in_arrays(self.signatures, self.partitions))
            lines.append(
                f"streamed: about {need} in memory is more than allowed, so they stay in the engine and are "
                f"read in up to {PASSES} passes"
            )
        lines += [f"{route} for one assessment of all records" for route in self.routes]
        if not self.routes:
            lines.append("no published number is linear in the secret: nothing is factorised")
        return "\n".join(lines)


def expected_cost(plan: Plan, table: Membership | StreamedTable, progress: Progress) -> ExpectedCost:
    """The routes of a plan's designs. Patterns of sparse factors are analysed, and nothing is factorised."""
    membership = table.membership if isinstance(table, StreamedTable) else table
    linear = linear_design(plan, membership, price(plan, membership))
    designs = () if linear is None else (linear.main, linear.other)
    return ExpectedCost(
        signatures=membership.signature_count,
        partitions=len(membership.partitions),
        routes=tuple(choose_route(part.design, progress)[0] for part in designs if part is not None),
        streamed=isinstance(table, StreamedTable),
    )
