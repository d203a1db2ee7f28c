"""What the true answers of a streamed table tell: its numbers one by one, and the coarse ones together.

The signatures of such a table stay in the engine. Those of its coarsest releases alone are few: they are
listed as for a table in memory, and their numbers are combined (:mod:`sightline.auditing.homogeneous`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.known_sums import KnownSums
from sightline.tables.membership import Membership, Statistic


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamedTotals:
    """Fetches sums of the secrets that the attacker does not know. Owner-only."""

    of_cells: Callable[[], FloatArray]  # of every cell, and how many secrets these are
    of_signatures: Callable[[IndexArray], FloatArray]  # of some listed signatures, by their places
    coarse: Callable[[], Membership | None]  # the coarsest releases, in memory, with the sums of signatures


def separate_sums(findings: Findings, found: LinearFindings, fetch: StreamedTotals) -> KnownSums:
    """Every number by itself, and the best recipe for each group that nothing tells apart."""
    membership, pricing = findings.membership, findings.pricing
    found = findings.rows_apart if found.linear.by_kind and not findings.one_value else found
    visible = np.flatnonzero(found.visible & (found.counts >= 2))
    if pricing.laplace_answers.any() or findings.one_value:
        visible = visible[:0]
    totals, rows = fetch.of_cells()
    cells = np.flatnonzero(rows > 0)
    owner = pricing.owner[cells]
    mean = np.array([part.statistic is Statistic.MEAN for part in membership.partitions])[owner]
    sizes = np.array([cell.rows for cell in membership.cells], dtype=np.float64)[cells]
    deviation = pricing.noise_stddev[cells] * np.where(mean, sizes, 1.0) / np.sqrt(pricing.times[owner])
    groups = found.linear.first_signatures(visible)
    of_groups = fetch.of_signatures(groups) if groups.size else np.zeros(0)
    size = cells.size + visible.size
    return KnownSums(
        cells=np.concatenate([cells, np.full(visible.size, int(found.linear.cells[0]))]),
        weights=sparse.csr_array(sparse.eye_array(size)),
        counts=np.concatenate([rows[cells], found.counts[visible]]).astype(np.float64),
        shares=np.full(size, 0.5),
        totals=np.concatenate([totals[cells], of_groups]),
        signature=np.arange(size),
        deviation=np.concatenate([deviation, found.group_rmse(visible)]),
        copies=np.concatenate([pricing.times[owner], np.zeros(visible.size)]).astype(np.intp),
    )


def coarse_findings(findings: Findings, coarse: Membership) -> Findings:
    """The findings about the coarsest releases alone, with the noise that they have in the plan."""
    membership, pricing = findings.membership, findings.pricing
    names = {
        (membership.partitions[cell.partition].name, cell.key): place
        for place, cell in enumerate(membership.cells)
    }
    parts = {part.name: place for place, part in enumerate(membership.partitions)}
    cells = np.array([names[coarse.partitions[c.partition].name, c.key] for c in coarse.cells], dtype=np.intp)
    kept = [parts[part.name] for part in coarse.partitions]
    some = replace(
        pricing,
        laws=tuple(pricing.laws[p] for p in kept),
        owner=np.array([cell.partition for cell in coarse.cells], dtype=np.intp),
        sensitivity=pricing.sensitivity[cells],
        parameter=pricing.parameter[cells],
        times=pricing.times[kept],
        row_norms=pricing.row_norms[kept],
        strategies={place: pricing.strategies[p] for place, p in enumerate(kept) if p in pricing.strategies},
    )
    return replace(findings, membership=coarse, pricing=some, made={})
