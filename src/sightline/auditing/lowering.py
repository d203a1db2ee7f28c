"""Lowering: a plan, its membership and its prices become one design. After it there are no kinds of secrets.

A row is a published number, a unit is a kind of person (:mod:`sightline.units.units`). All rows are sums: a
mean of n rows with noise s is a sum with noise n s. A boolean secret is a value of 0 or 1. A category of k
has k columns a row, and a number that counts more than half of them is the size of its cell less a sum of
the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing
from sightline.auditing.secret_prior import SecretPrior
from sightline.auditing.table_units import (
    EVERYTHING,
    ROWS,
    Shared,
    person_kinds,
    publishable_key,
    signature_columns,
    units_of_table,
    with_plain_weights,
)
from sightline.bounds.by_pairs import WholePrior
from sightline.tables.membership import Feature, Membership, Partition, PersonTable, Statistic
from sightline.units.design import Design, MadeOfUnits
from sightline.units.row_noise import RowNoise
from sightline.units.target import UnitPrior
from sightline.units.units import Units
from sightline.values import frozen

LINEAR = frozenset({Feature.VALUE, Feature.INDICATOR})
BoolArray = NDArray[np.bool_]


@frozen(slots=False)
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
    lowering: UnitLowering
    only_guarantee: bool = False  # whether the people of the table say nothing: of presence without a frame

    @classmethod
    def of_nothing(cls, prior: SecretPrior, membership: Membership) -> Lowered:
        """No number that is linear in the secret, and so no unit."""
        none, no_rows = np.zeros(0), np.zeros(0, dtype=np.intp)
        design = Design(
            units=Units.of_one_row(np.zeros((0, 1), dtype=np.int32), 0, no_rows),
            noise=RowNoise.of(none, none, none, none),
            prior=UnitPrior(target=prior.of_column),
            release=no_rows,
            place=np.full(len(membership.people), -1),
        )
        counted = np.ones((1, 0), dtype=np.bool_)
        return cls(
            design=design,
            membership=membership,
            prior=prior,
            cells=no_rows,
            copies=none,
            factors=none,
            offsets=none,
            categories=(),
            asked=np.ones(1, dtype=np.bool_),
            lowering=UnitLowering(order=(), counted=counted, shared=ROWS),
        )

    @property
    def by_kind(self) -> bool:
        """Whether records are kinds of persons of the membership's table; else signatures."""
        return self.membership.by_person

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
        return self.units.table().T.tocsc()

    def image(self, column: int) -> FloatArray:
        """What one person of a column's unit adds to every row, if all their rows hold that value."""
        (unit, asked), units = divmod(column, self.columns_of_unit), self.units
        lines = slice(units.starts[unit] + asked, units.starts[unit + 1], self.columns_of_unit)
        entries = units.times[lines, None] * units.weights[lines]
        image = np.bincount(units.rows[lines].ravel(), entries.ravel(), units.numbers + 1)
        return np.asarray(image[:-1], dtype=np.float64)

    def told_by_sizes(self, column: int, weights: FloatArray, feature: FloatArray | None = None) -> float:
        """What weights count of all categories alike: rows, whatever they hold.

        They give a ``feature`` of the columns of the unit; by default the sum that is asked.
        """
        k, units = self.columns_of_unit, self.units
        if k == 1:
            return 0.0
        shares = np.asarray(self.table.T @ weights)
        unit, category = divmod(column, k)
        shares_of_unit = shares[units.starts[unit] : units.starts[unit + 1]]
        shares_of_unit -= (
            np.tile(np.eye(k)[category], shares_of_unit.size // k) if feature is None else feature
        )
        return float(shares @ (np.repeat(units.people, np.diff(units.starts)) * units.times)) / k

    def category(self, column: int) -> str | None:
        """The category that a column is the indicator of; none if the secret is not a category."""
        return self.categories[column % self.columns_of_unit] if self.categories else None

    def rows_in_total(self, column: int) -> int:
        """How many unknown rows a record of a column's unit has, whether they are columns or one column."""
        rows, people = int(self.rows_of_unit[column // self.columns_of_unit]), self.membership.persons
        if not self.by_kind or self.lowering.shared is ROWS:
            return rows
        kind = self.records_of(column)[0]
        entries = slice(people.starts[kind], people.starts[kind + 1])
        return int(people.rows[entries].sum(where=self.lowering.constant | ~people.known[entries]))

    def records_of(self, column: int) -> IndexArray:
        """The membership's signatures, or kinds of persons, that a column stands for."""
        return np.flatnonzero(self.unit_of_record == column // self.columns_of_unit)

    def signatures_of(self, column: int) -> IndexArray:
        """The membership's signatures that a column stands for: of persons, those of one kind's rows."""
        records, people = self.records_of(column), self.membership.persons
        if not self.by_kind:
            return records
        entries = slice(int(people.starts[records[0]]), int(people.starts[records[0] + 1]))
        return np.unique(people.signatures[entries][~people.known[entries]])

    def first_signatures(self, columns: IndexArray) -> IndexArray:
        """The first of those signatures, for many columns at once."""
        first = np.zeros(len(self.design.units), dtype=np.intp)
        records = np.flatnonzero(self.unit_of_record >= 0)[::-1]
        first[self.unit_of_record[records]] = records
        first_records, people = first[columns // self.columns_of_unit], self.membership.persons
        if not self.by_kind:
            return first_records
        return np.asarray(people.signatures[people.starts[first_records]], dtype=np.intp)

    def of_records(self, values: FloatArray) -> FloatArray:
        """For every unit the largest value of its signatures, or kinds of persons."""
        largest, inside = np.zeros(len(self.design.units)), self.unit_of_record >= 0
        np.maximum.at(largest, self.unit_of_record[inside], values[inside])
        return largest

    def of_signatures(self, values: FloatArray) -> FloatArray:
        """For every unit the largest value of its signatures; of a person's, the sum over unknown rows."""
        people = self.membership.persons
        return self.of_records(sums_over_persons(people, values) if self.by_kind else values)

    def take(self, rows: IndexArray | BoolArray) -> Lowered:
        """The design with some of its rows."""
        chosen = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        parts = {name: getattr(self, name)[chosen] for name in ("cells", "copies", "factors", "offsets")}
        return replace(self, design=self.design.take(chosen), **parts)

    def alike_together(self) -> Lowered:
        """The same numbers about units of one row each, those with the same columns as one unit."""
        units, k = self.units, self.columns_of_unit
        _, first, unit_of = np.unique(units.groups, return_index=True, return_inverse=True)
        lines = (first[:, None] * k + np.arange(k)).ravel()
        together = replace(
            units,
            rows=units.rows[lines],
            weights=units.weights[lines],
            starts=np.arange(first.size + 1) * k,
            times=units.times[lines],
            people=np.bincount(unit_of, units.people).astype(np.intp),
            distinct=True,
        )
        of_record = np.append(unit_of, -1)[self.design.place]  # -1: known, and stays so
        return replace(self, design=replace(self.design, units=together, place=of_record))

    @cached_property
    def row_signatures(self) -> IndexArray:
        """Of every row of a kind of person, the first signature of the membership with its cells."""
        order = linear_partitions(self.membership)
        column = signature_columns(self.membership, order).column
        first = np.zeros(int(column.max(initial=-1)) + 1, dtype=np.intp)
        first[column[::-1]] = np.arange(column.size)[::-1]
        return np.asarray(first[person_kinds(self.membership, order, shared=ROWS).columns])


@frozen
class UnitLowering:
    """How the rows of a table become units: of all of them at once, or of some that a pass reads."""

    order: tuple[int, ...]  # the partitions that are linear in the secret
    counted: BoolArray  # columns of a row × these partitions: which of them each counts
    shared: Shared  # which rows of a person are one column, the sum of theirs

    @property
    def constant(self) -> bool:
        """Whether a person is one column."""
        return self.shared == EVERYTHING

    def units(self, membership: Membership) -> tuple[Units, IndexArray]:
        """The units; and for every signature, or kind of person, its unit, -1 if it is known."""
        return units_of_table(membership, self.order, self.counted, shared=self.shared)


@frozen
class RowUnits:
    """The units of a table, and what follows from them whatever the noise."""

    units: Units
    place: IndexArray  # for every signature, or kind of person, its unit; -1 if it is known
    common: FloatArray  # for every number, what its weights were divided by
    made: MadeOfUnits = field(default_factory=MadeOfUnits)

    @classmethod
    def of(cls, membership: Membership, lowering: UnitLowering) -> RowUnits:
        """Of all rows; where rows share a level, with weights of 1 where they can be."""
        units, unit_of = lowering.units(membership)
        if lowering.shared is ROWS or membership.streamed:  # a pass has no factors of all batches together
            return cls(units=units, place=unit_of, common=np.ones(units.numbers))
        units, common = with_plain_weights(units)
        return cls(units=units, place=unit_of, common=common)


@dataclass(kw_only=True, eq=False)
class UnitsOnce:
    """The units of some rows, by the partitions, what these count, and the rows that share a level."""

    of_lowering: dict[tuple[tuple[int, ...], bytes, Shared], RowUnits] = field(default_factory=dict)


def lower(plan: Plan, membership: Membership, pricing: Pricing) -> Lowered:
    """The design of the partitions that are linear in the secret."""
    order, prior = linear_partitions(membership), SecretPrior.of(plan, membership)
    if not order or not len(membership.signatures):
        return Lowered.of_nothing(prior, membership)
    parts = [membership.partitions[p] for p in order]
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
    belief = plan.belief
    shared = ROWS if belief.by_row else belief.block  # no block: all rows
    lowering = UnitLowering(order=tuple(order), counted=counted.columns, shared=shared)
    known = membership.once(UnitsOnce).of_lowering
    key = lowering.order, counted.columns.tobytes(), shared
    if key not in known:
        known[key] = RowUnits.of(membership, lowering)
    lowered = known[key]
    factors, units_of_weights = factors / lowered.common, units_of_weights / lowered.common
    return Lowered(
        design=Design(
            units=lowered.units,
            noise=_noise(pricing, cells, owner, factors, whole=isinstance(prior.of_column, WholePrior)),
            prior=UnitPrior(target=prior.of_column, categories=len(counted.columns)),
            release=np.repeat([part.query for part in parts], widths).astype(np.intp),
            place=lowered.place,
            made=lowered.made,
        ),
        membership=membership,
        prior=prior,
        cells=cells,
        copies=pricing.times[owner].astype(np.float64),
        factors=factors,
        offsets=np.where(flipped, units_of_weights * membership.weight_sums[cells], 0.0),
        categories=counted.names,
        asked=counted.asked,
        lowering=lowering,
        only_guarantee=plan.data.only_guarantee,
    )


def linear_partitions(membership: Membership) -> list[int]:
    """The partitions with cells that are linear in the secret, in order of publication."""
    filled = {cell.partition for cell in membership.cells}
    order = sorted(range(len(membership.partitions)), key=lambda p: membership.partitions[p].query)
    return [p for p in order if membership.partitions[p].feature in LINEAR and p in filled]


def cell_name(membership: Membership, cell: int, *, withheld: frozenset[int] = frozenset()) -> str:
    """What people call a published number: its release, and its group without the columns ``withheld``."""
    number = membership.cells[cell]
    part = membership.partitions[number.partition]
    release = part.name.removesuffix(f": {part.label}") if part.label else part.name
    which = [*publishable_key(number.key, withheld), *which_of_release(membership, number.partition)]
    return f"{release}: {', '.join(which)}" if which else release


def which_of_release(membership: Membership, partition: int) -> tuple[str, ...]:
    """What tells the numbers of a partition from others of its release: of a histogram the value counted.

    Nothing where a release has one partition. The keys stand beside it, so that their columns do not.
    """
    part = membership.partitions[partition]
    release = [one for one in membership.partitions if one.query == part.query]
    counted, equals, value = part.label.rpartition(" = ")
    whole = bool(equals) and counted.count("(") == counted.count(")")
    if whole and all(one.label.startswith(f"{counted} = ") for one in release):
        return (value,)
    one_grouping = all(one.key_names == part.key_names for one in release)
    label = part.label.removesuffix(f" by {', '.join(part.key_names)}") if one_grouping else part.label
    return (label,) if label else ()


def sums_over_persons(people: PersonTable, values: FloatArray) -> FloatArray:
    """For every kind of a table, the sum of a value over the signatures of the unknown rows."""
    unknown_values = np.where(people.known, 0.0, values[people.signatures])
    return np.asarray(np.add.reduceat(unknown_values, people.starts[:-1]))


@frozen
class _Counted:
    """Which columns of a row every partition counts."""

    names: tuple[str, ...]  # of the columns; none for a number
    columns: BoolArray  # columns × partitions
    flipped: BoolArray  # partitions whose number is the size of its cell less a sum of the columns
    asked: BoolArray  # of the columns: of several categories that no number names, none is told from another

    @classmethod
    def of(cls, plan: Plan, parts: Sequence[Partition]) -> _Counted:
        names = plan.data.categories
        if not names:
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


def _noise(
    pricing: Pricing, cells: IndexArray, owner: IndexArray, factors: FloatArray, *, whole: bool
) -> RowNoise:
    """The noise of rows that are some cells' numbers in other units: of the mean of the copies.

    Of ``whole`` numbers bounds need affinities of answers alone.
    """
    copies, exact, scales = (
        pricing.times[owner].astype(np.float64),
        pricing.exact[cells],
        (pricing.affinity_scale if whole else pricing.scale)[cells],
    )
    size = factors / np.sqrt(copies)
    stddevs = np.maximum(pricing.noise_stddev[cells], np.where(exact, scales, 0.0))
    answers = pricing.laplace_answers[cells]
    if pricing.strategies:
        return _shared_noise(pricing, cells, size)
    return RowNoise.of(
        scales * np.abs(size),
        stddevs * np.abs(size),
        answers,
        copies,
        exact=exact,
        share=pricing.lattice_share,
    )


def _shared_noise(pricing: Pricing, cells: IndexArray, size: FloatArray) -> RowNoise:
    """The noise of rows of which some share it: by strategies, and by the noise of each other row."""
    row_of = np.full(pricing.owner.size, -1, dtype=np.intp)
    row_of[cells] = np.arange(cells.size)
    apart = np.flatnonzero(~np.isin(pricing.owner[cells], list(pricing.strategies)))
    blocks = [(row_of[steps], pricing.parameter[steps[0]], strategy) for steps, strategy in pricing.steps()]
    noises = apart.size + sum(len(strategy.table) for _, _, strategy in blocks)
    whitener = np.zeros((noises, cells.size))
    precision, covariance = np.zeros((2, cells.size, cells.size))
    stddevs = pricing.scale[cells[apart]] * size[apart]
    whitener[np.arange(apart.size), apart] = 1 / stddevs
    precision[apart, apart], covariance[apart, apart] = stddevs**-2.0, stddevs**2
    start = apart.size
    for rows, stddev, strategy in blocks:
        unit = stddev * size[rows]  # a strategy measures rows over their size
        whitener[start : start + len(strategy.table), rows] = strategy.table / unit
        precision[np.ix_(rows, rows)] = strategy.gram / (unit[:, None] * unit)
        covariance[np.ix_(rows, rows)] = strategy.covariance * (unit[:, None] * unit)
        start += len(strategy.table)
    return RowNoise.whitened_by(whitener, made=(precision, covariance))
