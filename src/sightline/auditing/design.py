"""The linear part of a plan as a labeled design, and what its rows and columns mean.

A row is a published number, a column is a signature. All rows are sums: a mean of n rows with noise s is a
sum with noise n s. A boolean secret is a value of 0 or 1. A categorical secret is an indicator for each
category but one, the *reference*: its indicator is one minus the others, so a published count of it is the
size of the cell less a sum of the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.key_columns import publishable_key
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing
from sightline.auditing.secret_prior import SecretPrior
from sightline.errors import InvalidPlan, require
from sightline.labeled.description import Readout
from sightline.labeled.design import MembershipDesign
from sightline.labeled.incidence.cells import incidence_of_cells
from sightline.labeled.incidence.protocol import BoolArray
from sightline.noise.laws import Noise
from sightline.noise.pricing import noise_of_law
from sightline.tables.membership import Cell, CellTable, Feature, Membership, Partition, Statistic
from sightline.tables.subject import SecretKind

LINEAR = frozenset({Feature.VALUE, Feature.INDICATOR})

# Products of rows are a dense matrix over the cells.
_MOST_CELLS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearDesign:
    """A design over signatures, and the meaning of its rows and columns."""

    design: MembershipDesign
    prior: SecretPrior
    queries: IndexArray  # the plan's release of every release of the design
    cells: IndexArray  # the membership's cell of every row
    factors: FloatArray  # row = factor × published number + offset; n for a mean, negative for complements
    offsets: FloatArray
    reference: BoolArray  # rows that count the reference category
    copies: FloatArray  # how often each row is published; its noise is that of the mean of the copies
    signatures: CellTable  # the distinct signatures over the linear partitions
    signature_of: IndexArray  # for every signature of the membership, its place among those
    column_signature: IndexArray  # for every column, its place among those
    column_category: IndexArray  # for every column, a position in ``categories``; 0 if there are none
    categories: tuple[str, ...]  # those with an indicator of their own
    known: BoolArray  # columns that the attacker knows

    @property
    def blocks(self) -> int:
        """How many columns stand for one record: one for each category with an indicator."""
        return max(1, len(self.categories))

    @property
    def known_columns(self) -> IndexArray:
        """The columns that the attacker knows."""
        return np.flatnonzero(self.known)

    @property
    def query_of_row(self) -> IndexArray:
        """The plan's release of every row."""
        found: IndexArray = self.queries[self.design.release_of]
        return found

    def category(self, column: int) -> str | None:
        """The category that a column is the indicator of; none if the secret is not a category."""
        return self.categories[self.column_category[column]] if self.categories else None

    def signatures_of(self, column: int) -> IndexArray:
        """The membership's signatures that a column stands for: one, unless some releases are not linear."""
        return np.flatnonzero(self.signature_of == self.column_signature[column])

    def first_signatures(self, columns: IndexArray) -> IndexArray:
        """The first of those signatures, for many columns at once."""
        first = np.zeros(len(self.signatures), dtype=np.intp)
        first[self.signature_of[::-1]] = np.arange(len(self.signature_of))[::-1]
        chosen: IndexArray = first[self.column_signature[columns]]
        return chosen

    def up_to(self, release: int) -> LinearDesign | None:
        """The design once the plan's releases up to this one are published; none if it has no row yet."""
        rows = np.flatnonzero(self.query_of_row <= release)
        if not rows.size:
            return None
        design = self.design.take(rows)
        return replace(
            self,
            design=design,
            queries=self.queries[np.unique(self.design.release_of[rows])],
            cells=self.cells[rows],
            factors=self.factors[rows],
            offsets=self.offsets[rows],
            reference=self.reference[rows],
            copies=self.copies[rows],
        )

    def with_noise(self, noise: Noise) -> LinearDesign:
        """The same rows with other noise."""
        own = self.design
        design = MembershipDesign(
            own.incidence, noise=noise, readout=own.readout, releases=own.releases, names=own.names
        )
        return replace(self, design=design)


def linear_design(plan: Plan, membership: Membership, pricing: Pricing) -> LinearDesign | None:
    """The design of the partitions that are linear in the secret; ``None`` if there are none."""
    order = _linear_partitions(membership)
    if not order or len(membership.signatures) == 0:
        return None
    starts = membership.starts
    widths = np.diff(starts)[order]
    cells = np.concatenate([np.arange(starts[p], starts[p + 1]) for p in order])
    owner = np.repeat(order, widths)
    require(
        cells.size <= _MOST_CELLS,
        f"at most {_MOST_CELLS:,} cells",
        got=f"{cells.size:,}",
        fix="their products fill a square table; coarsen the groups or audit fewer releases at once",
        error=InvalidPlan,
    )
    distinct = _distinct(membership, order)
    published, reference = _categories(plan, membership, order, pricing)
    parts = [membership.partitions[p] for p in order]
    columns = _columns_of(distinct, parts, published, reference)
    is_mean = np.array([membership.partitions[p].statistic is Statistic.MEAN for p in owner])
    rows = np.array([membership.cells[c].rows for c in cells], dtype=np.float64)
    # A count of the complement, or of the reference, is the size of its cell less a sum of the columns.
    flipped = np.array([_is_flipped(membership.partitions[p], reference) for p in owner])
    factors = np.where(is_mean, rows, 1.0) * np.where(flipped, -1.0, 1.0)
    scale = pricing.scale[cells] * np.abs(factors) / np.sqrt(pricing.times[owner])
    queries, release_of = np.unique([membership.partitions[p].query for p in owner], return_inverse=True)
    design = MembershipDesign(
        incidence_of_cells(columns.table, cells=widths, counts=columns.counts),
        noise=noise_of_law(pricing.law, scale),
        readout=Readout.SUM,
        releases=release_of,
        names=tuple(cell_name(membership, int(c)) for c in cells),
    )
    return LinearDesign(
        design=design,
        prior=SecretPrior.of(plan),
        queries=queries,
        cells=cells,
        factors=factors,
        offsets=np.where(flipped, rows, 0.0),
        reference=np.array([_counts(membership.partitions[p], reference) for p in owner]),
        copies=pricing.times[owner].astype(np.float64),
        signatures=distinct.table,
        signature_of=distinct.place,
        column_signature=columns.signature,
        column_category=columns.category,
        categories=published,
        known=columns.known,
    )


def cell_name(membership: Membership, cell: int, *, withheld: frozenset[int] = frozenset()) -> str:
    """What people call a published number: its release, and its group without the columns ``withheld``."""
    found: Cell = membership.cells[cell]
    name = membership.partitions[found.partition].name
    return f"{name}: {', '.join(publishable_key(found.key, withheld))}" if found.key else name


def _linear_partitions(membership: Membership) -> list[int]:
    """The partitions with cells that are linear in the secret, in order of publication."""
    filled = {cell.partition for cell in membership.cells}
    order = sorted(range(len(membership.partitions)), key=lambda p: membership.partitions[p].query)
    return [p for p in order if membership.partitions[p].feature in LINEAR and p in filled]


def _counts(partition: Partition, category: str | None) -> bool:
    return category is not None and partition.parameter == category


def _is_flipped(partition: Partition, reference: str | None) -> bool:
    return (not partition.above) != _counts(partition, reference)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Distinct:
    """The distinct signatures over some partitions."""

    table: CellTable
    counts: NDArray[np.int64]
    known: NDArray[np.int64]
    place: IndexArray  # of every signature of the membership


def _distinct(membership: Membership, order: list[int]) -> _Distinct:
    """The signatures over the linear partitions: those of the membership, unless it has other partitions."""
    table = membership.signatures
    if order != list(range(len(membership.partitions))):
        table = table[:, order]
    if len(order) == len({cell.partition for cell in membership.cells}):
        return _Distinct(
            table=table, counts=membership.counts, known=membership.known, place=np.arange(len(table))
        )
    distinct, place = np.unique(table, axis=0, return_inverse=True)
    place = place.ravel()
    return _Distinct(
        table=distinct,
        counts=np.bincount(place, membership.counts, len(distinct)).astype(np.int64),
        known=np.bincount(place, membership.known, len(distinct)).astype(np.int64),
        place=place,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Columns:
    """The columns of a design, before they become a pattern."""

    table: CellTable
    counts: NDArray[np.int64]
    known: BoolArray
    signature: IndexArray
    category: IndexArray


def _columns_of(
    distinct: _Distinct, parts: list[Partition], published: tuple[str, ...], reference: str | None
) -> _Columns:
    """A column for each signature, known and unknown rows apart; for a category, one for each indicator."""
    some, others = np.flatnonzero(distinct.known > 0), np.flatnonzero(distinct.counts > distinct.known)
    signature = np.concatenate([others, some]) if some.size else others
    table = distinct.table[signature] if some.size else distinct.table
    counts = np.concatenate([(distinct.counts - distinct.known)[others], distinct.known[some]])
    known = np.repeat([False, True], [others.size, some.size])
    blocks = 1
    if reference is not None:
        outside = table.dtype.type(-1)
        seen = [[part.parameter in (category, reference) for part in parts] for category in published]
        table = np.concatenate([np.where(mask, table, outside) for mask in seen])
        blocks = len(published)
    return _Columns(
        table=table,
        counts=np.tile(counts, blocks),
        known=np.tile(known, blocks),
        signature=np.tile(signature, blocks),
        category=np.repeat(np.arange(blocks), signature.size),
    )


def _categories(
    plan: Plan, membership: Membership, order: list[int], pricing: Pricing
) -> tuple[tuple[str, ...], str | None]:
    """The categories with an indicator of their own, and the reference category.

    The reference is a category that no number counts, if there is one, and otherwise the one that the
    published numbers carry least information about.
    """
    if plan.data.secret_kind is not SecretKind.CATEGORY:
        return (), None
    assert plan.data.categories is not None  # the plan was checked for it
    carried = dict.fromkeys(plan.data.categories, 0.0)
    for p in order:
        part, cells = membership.partitions[p], slice(*membership.starts[p : p + 2])
        rows = np.array([cell.rows for cell in membership.cells[cells]], dtype=np.float64)
        scale = pricing.scale[cells] * (rows if part.statistic is Statistic.MEAN else 1.0)
        if part.parameter in carried:
            carried[str(part.parameter)] += float(pricing.times[p] * np.sum(scale**-2.0))
    reference = min(reversed(plan.data.categories), key=lambda category: carried[category])
    return tuple(c for c in plan.data.categories if carried[c] > 0 and c != reference), reference
