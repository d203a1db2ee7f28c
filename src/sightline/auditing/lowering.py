"""Lowering: a plan, its membership and its prices become one design. After it there are no kinds of secrets.

A row is a published number, a unit is a kind of person (:mod:`sightline.labeled.units`). All rows are sums: a
mean of n rows with noise s is a sum with noise n s. A boolean secret is a value of 0 or 1. A category of k
has k columns a row, and a number that counts more than half of them is the size of its cell less a sum of
the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.key_columns import publishable_key
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing
from sightline.auditing.secret_prior import SecretPrior
from sightline.labeled.unit_design import Design, RowNoise, UnitPrior
from sightline.labeled.units import Units
from sightline.tables.membership import Feature, Membership, Partition, PersonTable, Statistic

LINEAR = frozenset({Feature.VALUE, Feature.INDICATOR})
BoolArray = NDArray[np.bool_]
_MOST_DIGITS = 6  # after the point, of weights that are whole numbers in another unit


@dataclass(frozen=True, kw_only=True, eq=False)
class Lowered:
    """The design of what is linear in the secret, and what its rows and units mean.

    What is asked of units are *columns*, one after the other: of unit u and category c of k, column u k + c.
    """

    design: Design
    membership: Membership
    prior: SecretPrior
    cells: IndexArray  # the membership's cell of every row
    copies: FloatArray  # how often each row is published; its noise is that of the mean of the copies
    factors: FloatArray  # row = factor × published number + offset; n for a mean, negative for complements
    offsets: FloatArray
    categories: tuple[str, ...]  # what is asked of a unit, one after the other; none for a number
    asked: BoolArray  # of the categories: those that numbers tell from each other
    by_kind: bool  # whether records are kinds of persons of the membership's table; else signatures

    @property
    def row_count(self) -> int:
        """How many numbers are published that are linear in the secret."""
        return self.cells.size

    @property
    def columns_of_unit(self) -> int:
        """k: how many columns one unit has."""
        return self.design.prior.categories

    @property
    def query_of_row(self) -> IndexArray:
        """The plan's release of every row."""
        return self.design.release

    @property
    def queries(self) -> IndexArray:
        """The plan's releases that have rows."""
        return np.unique(self.design.release)

    @property
    def unit_of_record(self) -> IndexArray:
        """For every signature of the membership, or kind of person, its unit; -1 if the attacker knows it."""
        return self.design.place

    @cached_property
    def rows_of_unit(self) -> IndexArray:
        """How many rows one person of each unit has. Rows of one value count as one."""
        units = self.units
        total = np.add.reduceat(np.append(units.times, 0), units.starts[:-1]) if len(units) else np.zeros(0)
        return np.asarray(total // self.columns_of_unit, dtype=np.intp)

    @property
    def units(self) -> Units:
        """The units, in memory."""
        assert isinstance(self.design.units, Units)
        return self.design.units

    @cached_property
    def table(self) -> Any:
        """Rows × columns of units: what each row counts of them. A unit has a column for each of its rows."""
        units = self.units
        entries = np.ones(units.rows.size) if units.weights is None else units.weights.ravel()
        ends = np.arange(len(units.times) + 1) * units.rows.shape[1]
        shape = len(units.times), units.numbers + 1
        return sparse.csr_array((entries, units.rows.ravel(), ends), shape=shape)[:, :-1].T.tocsc()

    def image(self, column: int) -> FloatArray:
        """What one person of a column's unit adds to every row, if all their rows hold that value."""
        unit, asked = divmod(column, self.columns_of_unit)
        own = np.arange(self.units.starts[unit] + asked, self.units.starts[unit + 1], self.columns_of_unit)
        return np.asarray(self.table[:, own] @ self.units.times[own].astype(np.float64))

    def told_by_sizes(self, column: int, weights: FloatArray, feature: FloatArray | None = None) -> float:
        """What weights count of all categories alike: rows, whatever they hold.

        They give a ``feature`` of the columns of the unit; by default the sum that is asked.
        """
        k, units = self.columns_of_unit, self.units
        if k == 1:
            return 0.0
        shares = np.asarray(self.table.T @ weights)
        unit, category = divmod(column, k)
        own = shares[units.starts[unit] : units.starts[unit + 1]]
        own -= np.tile(np.eye(k)[category], own.size // k) if feature is None else feature
        return float(shares @ (np.repeat(units.people, np.diff(units.starts)) * units.times)) / k

    def category(self, column: int) -> str | None:
        """The category that a column is the indicator of; none if the secret is not a category."""
        return self.categories[column % self.columns_of_unit] if self.categories else None

    def records_of(self, column: int) -> IndexArray:
        """The membership's signatures, or kinds of persons, that a column stands for."""
        return np.flatnonzero(self.unit_of_record == column // self.columns_of_unit)

    def signatures_of(self, column: int) -> IndexArray:
        """The membership's signatures that a column stands for: of persons, those of one kind's rows."""
        records, people = self.records_of(column), self.membership.persons
        if people is None or not self.by_kind:
            return records
        own = slice(int(people.starts[records[0]]), int(people.starts[records[0] + 1]))
        return np.unique(people.signatures[own][~people.known[own]])

    def first_signatures(self, columns: IndexArray) -> IndexArray:
        """The first of those signatures, for many columns at once."""
        first = np.zeros(len(self.design.units), dtype=np.intp)
        records = np.flatnonzero(self.unit_of_record >= 0)[::-1]
        first[self.unit_of_record[records]] = records
        found, people = first[columns // self.columns_of_unit], self.membership.persons
        if people is None or not self.by_kind:
            return found
        return np.asarray(people.signatures[people.starts[found]], dtype=np.intp)

    def of_records(self, values: FloatArray) -> FloatArray:
        """For every unit the largest value of its signatures, or kinds of persons."""
        largest, inside = np.zeros(len(self.design.units)), self.unit_of_record >= 0
        np.maximum.at(largest, self.unit_of_record[inside], values[inside])
        return largest

    def of_signatures(self, values: FloatArray) -> FloatArray:
        """For every unit the largest value of its signatures; of a person's, the sum over unknown rows."""
        people = self.membership.persons
        return self.of_records(
            values if people is None or not self.by_kind else sums_over_persons(people, values)
        )

    def take(self, rows: IndexArray | BoolArray) -> Lowered | None:
        """The design with some of its rows; none if there is none of them."""
        chosen = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        if not chosen.size:
            return None
        parts = {name: getattr(self, name)[chosen] for name in ("cells", "copies", "factors", "offsets")}
        return replace(self, design=self.design.take(chosen), **parts)

    def up_to(self, release: int) -> Lowered | None:
        """The design once the plan's releases up to this one are published."""
        return self.take(self.query_of_row <= release)

    def without_release(self, release: int) -> Lowered | None:
        """The design without one of the plan's releases."""
        return self.take(self.query_of_row != release)

    def without(self, row: int) -> Lowered | None:
        """The design without one published number."""
        return self.take(np.delete(np.arange(self.row_count), row))

    @cached_property
    def row_units(self) -> IndexArray:
        """Of every row of a unit its place among the different rows: those looked at one by one."""
        return self._rows_apart[1]

    @cached_property
    def _rows_apart(self) -> tuple[IndexArray, IndexArray]:
        """The first of every kind of row among all, and the kind of each."""
        units, k = self.units, self.columns_of_unit
        entries = units.rows if units.weights is None else np.concatenate([units.rows, units.weights], axis=1)
        lines = entries.reshape(len(entries) // k, -1)
        _, first, place = np.unique(lines, axis=0, return_index=True, return_inverse=True)
        return first, place.ravel()

    def rows_apart(self) -> Lowered:
        """The same numbers about every row by itself: persons whose rows are looked at one by one."""
        units, k, (first, place) = self.units, self.columns_of_unit, self._rows_apart
        people = np.bincount(place, np.repeat(units.people, np.diff(units.starts) // k) * units.times[::k])
        lines = (first[:, None] * k + np.arange(k)).ravel()
        apart = replace(
            units,
            rows=units.rows[lines],
            weights=None if units.weights is None else units.weights[lines],
            starts=np.arange(first.size + 1) * k,
            times=np.ones(lines.size, dtype=np.intp),
            people=people.astype(np.intp),
            distinct=True,
        )
        return replace(
            self,
            design=replace(self.design, units=apart, place=self._unit_of_signature(place)),
            by_kind=False,
        )

    def _unit_of_signature(self, of_row: IndexArray) -> IndexArray:
        """For every signature of the membership, its place among the rows one by one; -1 if it is known."""
        people = self.membership.persons
        assert people is not None  # else every row is a unit
        column = signature_columns(self.membership, linear_partitions(self.membership)).column
        first = np.full(int(column.max(initial=-1)) + 1, -1, dtype=np.intp)
        first[_person_kinds(people, column, constant=False).columns] = of_row
        return np.asarray(first[column])


def lower(plan: Plan, membership: Membership, pricing: Pricing) -> Lowered | None:
    """The design of the partitions that are linear in the secret; ``None`` if there are none."""
    order = linear_partitions(membership)
    if not order or not len(membership.signatures):
        return None
    prior, parts = SecretPrior.of(plan), [membership.partitions[p] for p in order]
    widths = np.diff(membership.starts)[order]
    counted = _Counted.of(plan, parts)
    cells = np.concatenate([np.arange(*membership.starts[p : p + 2]) for p in order])
    owner = np.repeat(order, widths)
    signatures = signature_columns(membership, order)
    units_of_weights = np.repeat(signatures.factors, widths)
    flipped = np.repeat(counted.flipped, widths)
    size = np.where(
        np.repeat([part.statistic is Statistic.MEAN for part in parts], widths),
        np.array([membership.cells[c].rows for c in cells], dtype=np.float64),
        1.0,
    )
    factors = size * units_of_weights * np.where(flipped, -1.0, 1.0)
    constant = plan.data.values == "constant"
    key = ("units", *order, counted.columns.tobytes(), constant)
    units, place, made = membership.made_once(
        key, lambda: (*_units(membership, signatures, counted.columns, widths, constant=constant), {})
    )
    return Lowered(
        design=Design(
            units=units,
            noise=_noise(pricing, cells, owner, factors),
            prior=UnitPrior(target=prior.of_column, categories=len(counted.columns)),
            release=np.repeat([part.query for part in parts], widths).astype(np.intp),
            place=place,
            made=made,
        ),
        membership=membership,
        prior=prior,
        cells=cells,
        copies=pricing.times[owner].astype(np.float64),
        factors=factors,
        offsets=np.where(flipped, units_of_weights * membership.weight_sums[cells], 0.0),
        categories=counted.names,
        asked=counted.asked,
        by_kind=membership.persons is not None,
    )


def linear_partitions(membership: Membership) -> list[int]:
    """The partitions with cells that are linear in the secret, in order of publication."""
    filled = {cell.partition for cell in membership.cells}
    order = sorted(range(len(membership.partitions)), key=lambda p: membership.partitions[p].query)
    return [p for p in order if membership.partitions[p].feature in LINEAR and p in filled]


def cell_name(membership: Membership, cell: int, *, withheld: frozenset[int] = frozenset()) -> str:
    """What people call a published number: its release, and its group without the columns ``withheld``."""
    number = membership.cells[cell]
    name = membership.partitions[number.partition].name
    return f"{name}: {', '.join(publishable_key(number.key, withheld))}" if number.key else name


def sums_over_persons(people: PersonTable, values: FloatArray) -> FloatArray:
    """For every kind of a table, the sum of a value over the signatures of the unknown rows."""
    own = np.where(people.known, 0.0, values[people.signatures])
    return np.asarray(np.add.reduceat(own, people.starts[:-1]))


def whole_weights(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weights as whole numbers, column by column, and the powers of ten that they were multiplied by.

    A column stays as it is, with the factor 1, if it has numbers of more than six digits after the point.

    >>> found, factors = whole_weights(np.array([[0.25, 1 / 3], [2.0, 1.0]]))
    >>> found.tolist(), factors.tolist()
    ([[25.0, 0.3333333333333333], [200.0, 1.0]], [100.0, 1.0])
    """
    found, factors = weights.copy(), np.ones(weights.shape[1])
    for place, own in enumerate(weights.T):
        for power in 10.0 ** np.arange(_MOST_DIGITS + 1):
            whole = np.rint(own * power)
            if np.array_equal(whole / power, own):
                found[:, place], factors[place] = whole, power
                break
    return found, factors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Counted:
    """Which columns of a row every partition counts."""

    names: tuple[str, ...]  # of the columns; none for a number
    columns: BoolArray  # columns × partitions
    flipped: BoolArray  # partitions whose number is the size of its cell less a sum of the columns
    asked: BoolArray  # of the columns: of several categories that no number names, none is told from another

    @classmethod
    def of(cls, plan: Plan, parts: Sequence[Partition]) -> _Counted:
        names = plan.data.categories
        if names is None:
            flipped = np.array([not part.above for part in parts])
            every = np.ones((1, len(parts)), dtype=np.bool_)
            return cls(names=(), columns=every, flipped=flipped, asked=every[:, 0])
        counted = np.array([[(name in part.categories) == part.above for part in parts] for name in names])
        if len(names) == 2:  # one says what the other does
            one = 0 if counted[0].any() else 1
            either = counted[0] != counted[1]
            one_column = np.ones(1, dtype=np.bool_)
            return cls(names=(names[one],), columns=either[None], flipped=counted[1 - one], asked=one_column)
        flipped = counted.sum(axis=0) > len(names) / 2
        named = np.array([any(name in part.categories for part in parts) for name in names])
        asked = named | (np.count_nonzero(~named) == 1)
        return cls(names=tuple(names), columns=counted ^ flipped, flipped=flipped, asked=asked)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignatureColumns:
    """The distinct columns that signatures have over the linear partitions."""

    cells: NDArray[Any]  # distinct columns × partitions: the cell's number within the partition, -1 for none
    weights: FloatArray | None  # of the same shape, whole numbers where they can be; none if all are 1
    factors: FloatArray  # for each partition, what its weights were multiplied by
    column: IndexArray  # of every signature of the membership


def signature_columns(membership: Membership, order: Sequence[int]) -> SignatureColumns:
    """The distinct columns of a membership's signatures, which may be fewer than the signatures."""
    return membership.made_once(("columns", *order), lambda: _signature_columns(membership, list(order)))


def _signature_columns(membership: Membership, order: list[int]) -> SignatureColumns:
    every, cells = order == list(range(len(membership.partitions))), membership.signatures
    cells = cells if every else cells[:, order]
    if membership.weights is not None:
        weights, factors = whole_weights(membership.weights[:, order])
        both = np.concatenate([cells.astype(np.float64), np.where(cells >= 0, weights, 0.0)], axis=1)
        distinct, column = np.unique(both, axis=0, return_inverse=True)
        width = len(order)
        return SignatureColumns(
            cells=distinct[:, :width].astype(cells.dtype),
            weights=distinct[:, width:],
            factors=factors,
            column=column.ravel(),
        )
    ones = np.ones(len(order))
    if membership.distinct and len(order) == len({cell.partition for cell in membership.cells}):
        return SignatureColumns(cells=cells, weights=None, factors=ones, column=np.arange(len(cells)))
    distinct, column = np.unique(cells, axis=0, return_inverse=True)
    return SignatureColumns(cells=distinct, weights=None, factors=ones, column=column.ravel())


def _noise(pricing: Pricing, cells: IndexArray, owner: IndexArray, factors: FloatArray) -> RowNoise:
    """The noise of rows that are some cells' numbers in other units: of the mean of the copies."""
    copies, exact, scales = (
        pricing.times[owner].astype(np.float64),
        pricing.exact[cells],
        pricing.scale[cells],
    )
    size = factors / np.sqrt(copies)
    stddevs = np.maximum(pricing.noise_stddev[cells], np.where(exact, scales, 0.0))
    answers = pricing.laplace_answers[cells]
    if pricing.correlation is not None:
        signed = scales * size
        return RowNoise.correlated(pricing.correlation[np.ix_(cells, cells)] * np.outer(signed, signed))
    return RowNoise.of(
        scales * np.abs(size),
        stddevs * np.abs(size),
        answers,
        copies,
        exact=exact,
        share=pricing.lattice_share,
    )


def _units(
    membership: Membership,
    signatures: SignatureColumns,
    counted: BoolArray,
    widths: IndexArray,
    *,
    constant: bool,
) -> tuple[Units, IndexArray]:
    """The units; and for every signature, or kind of person, of the membership its unit, -1 if known."""
    people, column, distinct = membership.persons, signatures.column, len(signatures.cells)
    if people is None:
        number = np.bincount(column, membership.counts - membership.known, distinct).astype(np.intp)
        kept = np.flatnonzero(number)
        unit = np.full(distinct, -1, dtype=np.intp)
        unit[kept] = np.arange(kept.size)
        chosen = kept if kept.size < distinct else slice(None)
        rows, weights = _rows_of(signatures, chosen, counted, widths)
        ones, starts = np.ones(kept.size, dtype=np.intp), np.arange(kept.size + 1)
        return _in_memory(rows, weights, widths, len(counted), starts, ones, number[kept], True), unit[column]
    kinds = _person_kinds(people, column, constant=constant)
    rows, weights = _rows_of(signatures, kinds.columns, counted, widths)
    units = _in_memory(rows, weights, widths, len(counted), kinds.starts, kinds.times, kinds.people, False)
    return _summed(units, kinds.place) if constant else (units, kinds.place)


def _rows_of(
    signatures: SignatureColumns, chosen: IndexArray | slice, counted: BoolArray, widths: IndexArray
) -> tuple[NDArray[np.int32], FloatArray | None]:
    """The rows of some columns, one for each category a row: one that counts several has a row of each."""
    none = int(widths.sum())
    cells = signatures.cells[chosen]
    rows = cells + (np.cumsum(widths) - widths).astype(np.int32)
    rows[cells < 0] = none
    weights = None if signatures.weights is None else signatures.weights[chosen]
    if not counted.all():
        rows = np.where(counted, rows[:, None, :], none).reshape(-1, len(widths))
        if weights is not None:
            weights = np.where(counted, weights[:, None, :], 0.0).reshape(-1, len(widths))
    return rows.astype(np.int32, copy=False), weights


def _in_memory(  # many parameters: the fields of units
    rows: NDArray[np.int32],
    weights: FloatArray | None,
    widths: IndexArray,
    each: int,
    starts: IndexArray,
    times: IndexArray,
    people: IndexArray,
    distinct: bool,
) -> Units:
    return Units(
        rows=rows,
        weights=weights,
        numbers=int(widths.sum()),
        starts=starts * each,
        times=np.repeat(times, each),
        people=people,
        each=each,
        distinct=distinct,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _PersonKinds:
    """Kinds of persons by the columns of their unknown rows, and how many rows they have in each."""

    starts: IndexArray
    columns: IndexArray
    times: IndexArray
    people: IndexArray
    place: IndexArray  # of every kind of the table; -1 if all its rows are known


def _person_kinds(table: PersonTable, column: IndexArray, *, constant: bool) -> _PersonKinds:
    """The kinds of a table of persons. Where all rows hold one value, to know one row is to know all."""
    unknown, kind_of = ~table.known, table.kind_of
    if constant:
        unknown = ~np.logical_or.reduceat(table.known, table.starts[:-1])[kind_of]
    width = np.int64(column.max(initial=0) + 1)
    entries, place = np.unique(
        kind_of[unknown] * width + column[table.signatures[unknown]], return_inverse=True
    )
    times = np.bincount(place.ravel(), table.rows[unknown], entries.size).astype(np.intp)
    kinds, first = np.unique(entries // width, return_index=True)
    sizes, columns = np.diff(np.append(first, entries.size)), (entries % width).astype(np.intp)
    unit = np.full(len(table.persons), -1, dtype=np.intp)
    starts, chosen, total = [np.zeros(1, dtype=np.intp)], [np.zeros(0, dtype=np.intp)], 0
    for size in np.unique(sizes).tolist():  # kinds that are alike have as many columns
        own = np.flatnonzero(sizes == size)
        lines = first[own][:, None] + np.arange(size)
        both = np.concatenate([columns[lines], times[lines]], axis=1)
        _, firsts, group = np.unique(both, axis=0, return_index=True, return_inverse=True)
        unit[kinds[own]] = total + group.ravel()
        chosen.append(lines[firsts].ravel())
        starts.append(starts[-1][-1] + size * np.arange(1, firsts.size + 1))
        total += firsts.size
    entry = np.concatenate(chosen)
    return _PersonKinds(
        starts=np.concatenate(starts),
        columns=columns[entry],
        times=times[entry],
        people=np.bincount(unit[unit >= 0], table.persons[unit >= 0], total).astype(np.intp),
        place=unit,
    )


def _summed(units: Units, place: IndexArray) -> tuple[Units, IndexArray]:
    """Persons whose rows all hold one value: their columns add up, with the number of rows as weights."""
    none, kinds, k, width = units.numbers, len(units), units.each, units.rows.shape[1]
    line = np.repeat(np.arange(kinds), np.diff(units.starts)) * k + np.arange(len(units.times)) % k
    entries = np.ones(units.rows.shape) if units.weights is None else units.weights
    where = np.repeat(line, width), units.rows.ravel()
    weighted = (entries * units.times[:, None]).ravel()
    table = sparse.coo_array((weighted, where), shape=(kinds * k, none + 1)).tocsr()[:, :none]
    table.eliminate_zeros()
    degree = np.diff(table.indptr)
    slot = (
        np.repeat(np.arange(degree.size), degree),
        np.arange(table.nnz) - np.repeat(table.indptr[:-1], degree),
    )
    shape = degree.size, int(degree.max(initial=1))
    rows, weights = np.full(shape, none, dtype=np.int32), np.zeros(shape)
    rows[slot], weights[slot] = table.indices, table.data
    both = np.concatenate([rows.reshape(kinds, -1), weights.reshape(kinds, -1)], axis=1)
    _, first, group = np.unique(both, axis=0, return_index=True, return_inverse=True)
    group, lines = group.ravel(), (first[:, None] * k + np.arange(k)).ravel()
    summed = replace(
        units,
        rows=rows[lines],
        weights=weights[lines],
        starts=np.arange(first.size + 1) * k,
        times=np.ones(lines.size, dtype=np.intp),
        people=np.bincount(group, units.people).astype(np.intp),
        distinct=True,
    )
    return summed, np.where(place >= 0, group[place], -1)
