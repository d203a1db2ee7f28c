r"""Sums of secrets that can be read off the numbers of a streamed table, from the products of cells alone.

They are those of :mod:`sightline.auditing.known_sums`: published numbers, whole releases, the same rows
again, differences, and groups that nothing tells apart. Which rows two sums share is a count that the
products of cells have: a sum over disjoint cells is a vector :math:`u` of zeros and ones, and two of them
share :math:`u^\top M v` unknown rows. Two are about the same rows if they share as many as each has. One is
within the other if they share as many as it has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.cell_sets import WeightedSets
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.known_sums import KnownSums
from sightline.auditing.lowering import cell_name
from sightline.tables.membership import Statistic

_MOST_COMPARED = 6_000  # sums whose pairs are looked at, the coarsest releases first


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamedTotals:
    """Fetches sums of the secrets that the attacker does not know. Owner-only."""

    of_cells: Callable[[], FloatArray]  # of every cell
    of_signatures: Callable[[IndexArray], FloatArray]  # of some listed signatures, by their places


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamedSums:
    """The sums of a streamed table. Their members are cells, and after these groups that are visible."""

    published: KnownSums
    merged: KnownSums  # published numbers and whole releases, those about the same rows averaged
    large: IndexArray  # of each pair of merged sums, the one with more rows
    small: IndexArray
    groups: KnownSums | None  # sums over all rows with one signature, by the best recipe
    signatures: IndexArray  # the listed signatures of these groups

    @classmethod
    def of(cls, findings: Findings, found: LinearFindings) -> StreamedSums:
        """The sums that follow from the numbers of a plan."""
        linear = found.linear
        visible = np.flatnonzero(found.visible & (found.counts >= 2))
        if findings.pricing.laplace_answers.any():
            visible = visible[:0]
        cells = len(findings.membership.cells)
        products = sparse.csr_array(found.exposure.solver.sums.matrix)
        published = _published(findings, products.diagonal(), atoms=cells + visible.size)
        merged, large, small = _compared(findings, published, products)
        groups = None
        if visible.size:
            members = sparse.csr_array(
                (np.ones(visible.size), (np.arange(visible.size), cells + np.arange(visible.size))),
                shape=(visible.size, cells + visible.size),
            )
            groups = KnownSums(
                members=WeightedSets(weights=members),
                column=np.zeros(visible.size, dtype=np.intp),
                rows=found.counts[visible].astype(np.float64),
                deviation=found.group_rmse(visible),
                copies=np.zeros(visible.size, dtype=np.intp),
                names=("the best recipe for rows that nothing tells apart",) * visible.size,
                cells=np.full(visible.size, int(linear.cells[0]), dtype=np.intp),
            )
        return cls(
            published=published,
            merged=merged,
            large=large,
            small=small,
            groups=groups,
            signatures=linear.first_signatures(visible),
        )

    def totals(self, fetch: StreamedTotals) -> FloatArray:
        """The true sums of every member, as a column."""
        of_groups = fetch.of_signatures(self.signatures) if self.signatures.size else np.zeros(0)
        return np.concatenate([fetch.of_cells(), of_groups])[:, None]


def _published(findings: Findings, rows: FloatArray, *, atoms: int) -> KnownSums:
    """One sum for each number that has unknown rows."""
    membership, pricing = findings.membership, findings.pricing
    cells = np.flatnonzero(rows > 0)
    owner = pricing.owner[cells]
    mean = np.array([part.statistic is Statistic.MEAN for part in membership.partitions])[owner]
    sizes = np.array([cell.rows for cell in membership.cells], dtype=np.float64)[cells]
    deviation = pricing.noise_stddev[cells] * np.where(mean, sizes, 1.0) / np.sqrt(pricing.times[owner])
    return KnownSums(
        members=WeightedSets(
            weights=sparse.csr_array(
                (np.ones(cells.size), (np.arange(cells.size), cells)), shape=(cells.size, atoms)
            )
        ),
        column=np.zeros(cells.size, dtype=np.intp),
        rows=rows[cells],
        deviation=deviation,
        copies=np.asarray(pricing.times[owner], dtype=np.intp),
        names=tuple(f'"{cell_name(membership, int(cell))}"' for cell in cells),
        cells=cells,
    )


def _compared(
    findings: Findings, published: KnownSums, products: sparse.csr_array
) -> tuple[KnownSums, IndexArray, IndexArray]:
    """Published numbers and whole releases, merged, and the pairs of which one is within the other."""
    owner = findings.pricing.owner[published.cells]
    partitions, counts = np.unique(owner, return_counts=True)
    chosen = np.sort(
        partitions[np.argsort(counts, kind="stable")][np.cumsum(np.sort(counts)) <= _MOST_COMPARED]
    )
    sums = _with_whole_releases(findings, published.take(np.flatnonzero(np.isin(owner, chosen))))
    members = _weights(sums)[:, : products.shape[0]]
    shared = sparse.coo_array(members @ products @ members.T)
    first, second = (places.astype(np.intp) for places in shared.coords)
    same = (shared.data == sums.rows[first]) & (shared.data == sums.rows[second])
    size = len(sums)
    graph = sparse.coo_array(
        (np.ones(np.count_nonzero(same)), (first[same], second[same])), shape=(size, size)
    )
    from scipy.sparse.csgraph import connected_components  # small audits start without it

    _, group = connected_components(graph, directed=False)
    merged, place = _averaged(sums, group.astype(np.intp))
    within = (shared.data == sums.rows[second]) & (sums.rows[first] > sums.rows[second] + 1)
    pairs = np.unique(np.stack([place[first[within]], place[second[within]]]), axis=1)
    return merged, pairs[0], pairs[1]


def _weights(sums: KnownSums) -> sparse.csr_array:
    """The members of sums, as weights of cells and of groups that are visible."""
    assert isinstance(sums.members, WeightedSets)  # see _published
    return sums.members.weights


def _with_whole_releases(findings: Findings, published: KnownSums) -> KnownSums:
    """The published sums, and for each partition with several groups the sum over all of them."""
    owner = findings.pricing.owner[published.cells]
    partitions, first, place, counts = np.unique(
        owner, return_index=True, return_inverse=True, return_counts=True
    )
    several = np.flatnonzero(counts > 1)
    together = sparse.csr_array(
        (np.ones(owner.size), (place.ravel(), np.arange(owner.size))), shape=(partitions.size, owner.size)
    )[several]
    names = [findings.membership.partitions[partitions[one]].name for one in several]
    members = _weights(published)
    return KnownSums(
        members=WeightedSets(weights=sparse.csr_array(sparse.vstack([members, together @ members]))),
        column=np.concatenate([published.column, np.zeros(several.size, dtype=np.intp)]),
        rows=np.concatenate([published.rows, together @ published.rows]),
        deviation=np.concatenate([published.deviation, np.sqrt(together @ np.square(published.deviation))]),
        copies=np.concatenate([published.copies, np.zeros(several.size, dtype=np.intp)]),
        names=(*published.names, *(f'all groups of "{name}" together' for name in names)),
        cells=np.concatenate([published.cells, published.cells[first[several]]]),
    )


def _averaged(sums: KnownSums, group: IndexArray) -> tuple[KnownSums, IndexArray]:
    """Sums about the same rows as one, with the noise of their weighted mean; and the place of each in it."""
    number, precision = np.bincount(group), np.bincount(group, sums.deviation**-2.0)
    _, first = np.unique(group, return_index=True)
    merged = sums.take(first)
    names = tuple(
        name if count == 1 else f"{name} and {count - 1} more about the same rows, averaged,"
        for name, count in zip(merged.names, number.tolist(), strict=True)
    )
    copies = np.where(number == 1, merged.copies, 0)
    return replace(merged, deviation=1 / np.sqrt(precision), names=names, copies=copies), group
