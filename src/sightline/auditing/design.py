"""The linear part of a plan as a labeled design, and what its rows and columns mean.

A row is a published number, a column is a signature. All rows are sums: a mean of n rows with noise s is a
sum with noise n s. A boolean secret is a value of 0 or 1. A categorical secret is an indicator for each
category but one, the *reference*: its indicator is one minus the others, so a published count of it is the
size of the cell less a sum of the others. The reference has its own columns in a second design of the same
rows, whose reference is another category: there is no category without an exposure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.constant_values import ConstantPersons
from sightline.auditing.key_columns import publishable_key
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing, noise_on_rows
from sightline.auditing.secret_prior import SecretPrior
from sightline.auditing.weighted_rows import weighted_incidence, whole_weights
from sightline.labeled.description import Readout
from sightline.labeled.design import MembershipDesign
from sightline.labeled.incidence.cells import CellIncidence, OtherColumns, incidence_of_cells
from sightline.labeled.incidence.protocol import BoolArray, Incidence
from sightline.labeled.routes.cost import RouteCost, choose_for_cells
from sightline.progress import Progress, silent
from sightline.tables.membership import Cell, CellTable, Feature, Membership, Partition, Statistic
from sightline.tables.subject import SecretKind

LINEAR = frozenset({Feature.VALUE, Feature.INDICATOR})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CategoryDesign:
    """The rows of a plan as a design with one reference category, or with none for other secrets."""

    design: MembershipDesign
    factors: FloatArray  # row = factor × published number + offset; n for a mean, negative for complements
    offsets: FloatArray
    reference: BoolArray  # rows that count the reference category alone
    mixed: BoolArray  # rows that count several categories
    blocks: int  # indicators of one record, below each other; 1 if the secret is not a category

    @property
    def width(self) -> int:
        """The columns of one block."""
        return self.design.size // self.blocks

    def take(self, rows: IndexArray) -> CategoryDesign:
        """The design with some of its rows."""
        return replace(
            self,
            design=self.design.take(rows),
            factors=self.factors[rows],
            offsets=self.offsets[rows],
            reference=self.reference[rows],
            mixed=self.mixed[rows],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearDesign:
    """The linear part of a plan, and the meaning of its rows and columns.

    The columns are those of ``main``, and after them those of the reference category, if ``other`` is given:
    block ``other_block`` of that design.
    """

    main: CategoryDesign
    other: CategoryDesign | None
    other_block: int
    prior: SecretPrior
    queries: IndexArray  # the plan's release of every release of the design
    cells: IndexArray  # the membership's cell of every row
    copies: FloatArray  # how often each row is published; its noise is that of the mean of the copies
    signatures: CellTable  # the distinct signatures over the linear partitions
    signature_of: IndexArray  # for every signature of the membership, its place among those
    column_signature: IndexArray  # for every column, its place among those
    column_category: IndexArray  # for every column, a position in ``categories``; 0 if there are none
    categories: tuple[str, ...]  # those that have columns
    known: BoolArray  # columns that the attacker knows
    counts: IndexArray  # records of each column, or rows where persons have several
    exact: BoolArray  # rows that are published without noise
    lattice_share: float = 1.0  # at least the probability that no row tells more than its bounds say
    people: ConstantPersons | None = None  # whose places the columns have, if all rows of a person are alike

    @property
    def design(self) -> MembershipDesign:
        """The main design."""
        return self.main.design

    @property
    def blocks(self) -> int:
        """How many columns stand for one record: one for each category that has columns."""
        return max(1, len(self.categories))

    @property
    def other_columns(self) -> slice:
        """The columns of ``other`` that stand for the reference category."""
        assert self.other is not None
        return slice(self.other_block * self.other.width, (self.other_block + 1) * self.other.width)

    def place(self, column: int) -> tuple[CategoryDesign, int]:
        """The design that a column is in, and its column there."""
        if column < self.main.design.size:
            return self.main, column
        assert self.other is not None
        return self.other, column - self.main.design.size + self.other_columns.start

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
        place = self.column_signature[column]
        if self.people is not None:
            return self.people.signatures(int(place))
        return np.flatnonzero(self.signature_of == place)

    def first_signatures(self, columns: IndexArray) -> IndexArray:
        """The first of those signatures, for many columns at once."""
        if self.people is not None:
            return self.people.first_signatures(self.column_signature[columns])
        if columns.size == 0:
            return np.zeros(0, dtype=np.intp)
        first = np.zeros(len(self.signatures), dtype=np.intp)
        first[self.signature_of[::-1]] = np.arange(len(self.signature_of))[::-1]
        chosen: IndexArray = first[self.column_signature[columns]]
        return chosen

    def of_columns(self, values: FloatArray) -> FloatArray:
        """For every column the largest value of its signatures; of a person's signatures, the sum."""
        if self.people is not None:
            return self.people.sums(values)[self.column_signature]
        largest = np.zeros(len(self.signatures))
        if len(self.signature_of) == largest.size:  # one signature each
            largest[self.signature_of] = np.maximum(values, 0.0)
        else:
            np.maximum.at(largest, self.signature_of, values)
        found: FloatArray = largest[self.column_signature]
        return found

    def up_to(self, release: int) -> LinearDesign | None:
        """The design once the plan's releases up to this one are published; none if it has no row yet."""
        return self._take(np.flatnonzero(self.query_of_row <= release))

    def without_release(self, release: int) -> LinearDesign | None:
        """The design without one of the plan's releases; none if it was the only one."""
        return self._take(np.flatnonzero(self.query_of_row != release))

    def without(self, row: int) -> LinearDesign | None:
        """The design without one published number; none if it was the only one."""
        return self._take(np.delete(np.arange(self.design.row_count), row))

    def _take(self, rows: IndexArray) -> LinearDesign | None:
        if not rows.size:
            return None
        return replace(
            self,
            main=self.main.take(rows),
            other=None if self.other is None else self.other.take(rows),
            queries=self.queries[np.unique(self.design.release_of[rows])],
            cells=self.cells[rows],
            copies=self.copies[rows],
            exact=self.exact[rows],
        )

    def exact_part(self) -> LinearDesign | None:
        """The design of the numbers that are published exactly; none if there are none."""
        return self._take(np.flatnonzero(self.exact))

    def others_told(self, told: BoolArray) -> LinearDesign | None:
        """The numbers with noise, for an attacker who also knows some columns; none if none has noise."""
        part = self._take(np.flatnonzero(~self.exact))
        return None if part is None else replace(part, known=self.known | told)


def sparse_cost(membership: Membership, progress: Progress = silent) -> RouteCost | None:
    """What sparse factors over the linear cells take; ``None`` where dense ones are taken.

    Weights of rows need dense ones.
    """
    order = _linear_partitions(membership)
    if not order or membership.weights is not None:
        return None
    _, columns = _signature_columns(membership, order)
    widths = np.diff(membership.starts)[order]
    incidence = membership.made_once(
        ("incidence", *order), lambda: columns.incidence([columns.table], widths)
    )
    cost, pattern = choose_for_cells(incidence, progress)
    return None if pattern is None else cost


def linear_design(plan: Plan, membership: Membership, pricing: Pricing) -> LinearDesign | None:
    """The design of the partitions that are linear in the secret; ``None`` if there are none."""
    order = _linear_partitions(membership)
    if not order or len(membership.signatures) == 0:
        return None
    starts = membership.starts
    widths = np.diff(starts)[order]
    cells = np.concatenate([np.arange(starts[p], starts[p + 1]) for p in order])
    owner = np.repeat(order, widths)
    rows = _Rows(membership=membership, pricing=pricing, order=order, cells=cells, owner=owner)
    people = None
    if plan.data.values == "constant" and membership.persons is not None:
        people = ConstantPersons.of(membership.persons)
        distinct = _every_signature(membership, order)
        columns = _columns_of_people(distinct, people)
    else:
        distinct, columns = _signature_columns(membership, order)
        if membership.others is not None:
            sizes = np.array([membership.cells[cell].rows for cell in cells], dtype=np.intp)
            columns = replace(columns, sizes=sizes, products=membership.others.products)
    published, reference, swapped = _categories(plan, rows)
    main = rows.design(columns, published, reference)
    categories, other, block = published, None, 0
    if swapped is not None:
        assert reference is not None  # only a category has another reference
        those = tuple(c for c in plan.data.categories or () if c in (*published, reference) and c != swapped)
        other, block = rows.design(columns, those, swapped), those.index(reference)
        categories = (*published, reference)
    blocks = max(1, len(categories))
    return LinearDesign(
        main=main,
        other=other,
        other_block=block,
        prior=SecretPrior.of(plan),
        queries=np.unique([membership.partitions[p].query for p in owner]),
        cells=cells,
        copies=pricing.times[owner].astype(np.float64),
        exact=pricing.exact[cells],
        lattice_share=pricing.lattice_share,
        signatures=distinct.table,
        signature_of=distinct.place,
        column_signature=np.tile(columns.signature, blocks),
        column_category=np.repeat(np.arange(blocks), columns.signature.size),
        categories=categories,
        known=np.tile(columns.known, blocks),
        counts=np.tile(columns.counts, blocks),
        people=people,
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
    """Whether a partition counts a category, alone or among others."""
    return category is not None and category in partition.categories


def _is_flipped(partition: Partition, reference: str | None) -> bool:
    return (not partition.above) != _counts(partition, reference)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Distinct:
    """The distinct signatures over some partitions."""

    table: CellTable
    counts: NDArray[np.int64]
    known: NDArray[np.int64]
    place: IndexArray  # of every signature of the membership
    weights: FloatArray | None  # of the rows of each signature in each partition; none if all are 1
    units: FloatArray  # for each partition, what its weights were multiplied by to be whole numbers


def _every_signature(membership: Membership, order: list[int]) -> _Distinct:
    """The signatures of the membership over the linear partitions."""
    table, weights = membership.signatures, membership.weights
    if order != list(range(len(membership.partitions))):
        table = table[:, order]
        weights = None if weights is None else weights[:, order]
    units = np.ones(len(order))
    if weights is not None:
        weights, units = whole_weights(weights)
    return _Distinct(
        table=table,
        counts=membership.counts,
        known=membership.known,
        place=np.arange(len(table)),
        weights=weights,
        units=units,
    )


def _distinct(membership: Membership, order: list[int]) -> _Distinct:
    """The distinct signatures over the linear partitions, which may be fewer than the membership's."""
    every = _every_signature(membership, order)
    unique = membership.distinct and len(order) == len({cell.partition for cell in membership.cells})
    if unique or every.weights is not None:
        return every
    table = every.table
    distinct, place = np.unique(table, axis=0, return_inverse=True)
    place = place.ravel()
    return _Distinct(
        table=distinct,
        counts=np.bincount(place, membership.counts, len(distinct)).astype(np.int64),
        known=np.bincount(place, membership.known, len(distinct)).astype(np.int64),
        place=place,
        weights=None,
        units=every.units,
    )


def _signature_columns(membership: Membership, order: list[int]) -> tuple[_Distinct, _Columns]:
    """The distinct signatures over the linear partitions, and their columns."""
    distinct = membership.made_once(("distinct", *order), lambda: _distinct(membership, order))
    return distinct, membership.made_once(("columns", *order), lambda: _columns_of(distinct))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Columns:
    """The columns for one value of each record: a signature, known and unknown rows apart."""

    table: CellTable
    counts: NDArray[np.int64]
    known: BoolArray
    signature: IndexArray  # its place; for persons whose rows are alike, the person's
    weights: FloatArray | None  # of the lines of ``table``; none if all are 1
    units: FloatArray  # of the partitions
    people: ConstantPersons | None = None
    sizes: IndexArray | None = None  # rows of each cell; none if all of them are in the columns
    products: FloatArray | None = None  # what rows without a column add to the products of cells

    def incidence(self, tables: list[CellTable], widths: IndexArray) -> Incidence:
        """The incidence of some tables, the columns of one after those of the other."""
        if self.people is not None:
            return self.people.incidence(tables, widths, self.weights)
        if self.weights is not None:
            return weighted_incidence(tables, widths, counts=self.counts, weights=self.weights)
        if self.sizes is not None and self.products is not None:
            held = CellIncidence.of(tables[0], widths, self.counts.astype(np.intp))
            return held.among(OtherColumns(products=self.products, sizes=self.sizes - held.sizes))
        together = tables[0] if len(tables) == 1 else np.concatenate(tables)
        return incidence_of_cells(together, cells=widths, counts=np.tile(self.counts, len(tables)))


def _columns_of_people(distinct: _Distinct, people: ConstantPersons) -> _Columns:
    count = len(people)
    return _Columns(
        table=distinct.table,
        counts=np.ones(count, dtype=np.int64),
        known=people.known,
        signature=np.arange(count),
        weights=distinct.weights,
        units=distinct.units,
        people=people,
    )


def _columns_of(distinct: _Distinct) -> _Columns:
    some, others = np.flatnonzero(distinct.known > 0), np.flatnonzero(distinct.counts > distinct.known)
    signature = np.concatenate([others, some]) if some.size else others
    return _Columns(
        table=distinct.table[signature] if some.size else distinct.table,
        counts=np.concatenate([(distinct.counts - distinct.known)[others], distinct.known[some]]),
        known=np.repeat([False, True], [others.size, some.size]),
        signature=signature,
        weights=None if distinct.weights is None else distinct.weights[signature],
        units=distinct.units,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rows:
    """The cells of the linear partitions, which become the rows of a design."""

    membership: Membership
    pricing: Pricing
    order: list[int]  # the linear partitions
    cells: IndexArray
    owner: IndexArray  # the partition of each cell

    def design(self, columns: _Columns, published: tuple[str, ...], reference: str | None) -> CategoryDesign:
        """A design with an indicator for each published category and one reference."""
        membership, pricing = self.membership, self.pricing
        tables: list[CellTable] = [columns.table]
        seen: list[list[bool]] = []
        if reference is not None:
            outside = columns.table.dtype.type(-1)
            # A count of categories with the reference is the size of its cell less those of the others.
            counted = [set(membership.partitions[p].categories) for p in self.order]
            seen = [
                [(name in categories) != (reference in categories) for categories in counted]
                for name in published
            ]
            tables = [np.where(mask, columns.table, outside) for mask in seen]
        parts = [membership.partitions[p] for p in self.owner]
        is_mean = np.array([part.statistic is Statistic.MEAN for part in parts])
        rows = np.array([membership.cells[c].rows for c in self.cells], dtype=np.float64)
        # A count of the complement, or of the reference, is the size of its cell less a sum of the columns.
        flipped = np.array([_is_flipped(part, reference) for part in parts])
        units = np.repeat(columns.units, np.diff(membership.starts)[self.order])
        factors = np.where(is_mean, rows, 1.0) * np.where(flipped, -1.0, 1.0) * units
        scale = pricing.scale[self.cells] * np.abs(factors) / np.sqrt(pricing.times[self.owner])
        widths = np.diff(membership.starts)[self.order]
        name = ("incidence", *self.order, *map(tuple, seen), *(["people"] * (columns.people is not None)))
        incidence = membership.made_once(name, lambda: columns.incidence(tables, widths))
        design = MembershipDesign(
            incidence.on(membership.device),
            noise=noise_on_rows(pricing, self.cells, scale * np.sign(factors)),
            readout=Readout.SUM,
            releases=np.unique([part.query for part in parts], return_inverse=True)[1],
            names=tuple(cell_name(membership, int(c)) for c in self.cells),
        )
        return CategoryDesign(
            design=design,
            factors=factors,
            offsets=np.where(flipped, units * membership.weight_sums[self.cells], 0.0),
            reference=np.array([reference is not None and part.parameter == reference for part in parts]),
            mixed=np.array([isinstance(part.parameter, tuple) for part in parts]),
            blocks=len(tables),
        )


def _categories(plan: Plan, rows: _Rows) -> tuple[tuple[str, ...], str | None, str | None]:
    """The categories with an indicator in the main design, its reference, and the other design's reference.

    The reference is a category that no number counts, if there is one, and otherwise the one that the
    published numbers carry least information about. There is no other design for two categories, whose
    indicators say the same, nor if several categories are not published: nothing tells those apart.
    """
    if plan.data.secret_kind is not SecretKind.CATEGORY:
        return (), None, None
    assert plan.data.categories is not None  # the plan was checked for it
    membership, pricing = rows.membership, rows.pricing
    carried = dict.fromkeys(plan.data.categories, 0.0)
    for p in rows.order:
        part, cells = membership.partitions[p], slice(*membership.starts[p : p + 2])
        count = np.array([cell.rows for cell in membership.cells[cells]], dtype=np.float64)
        scale = pricing.scale[cells] * (count if part.statistic is Statistic.MEAN else 1.0)
        for category in part.categories:
            if category in carried:
                carried[category] += float(pricing.times[p] * np.sum(scale**-2.0))
    reference = min(reversed(plan.data.categories), key=lambda category: carried[category])
    published = tuple(c for c in plan.data.categories if carried[c] > 0 and c != reference)
    unpublished = sum(1 for information in carried.values() if information == 0)
    if len(carried) == 2 or unpublished > 1:
        return published, reference, None
    return published, reference, min(published, key=lambda category: carried[category])
