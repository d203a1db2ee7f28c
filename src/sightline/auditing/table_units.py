r"""The rows of a table as units: who is in which numbers, and how many of them are alike.

A record is a column, a person one for each kind of their rows, or one with weights for all rows that share a
level.

Which columns of a GROUP BY are keys of persons; a publishable result withholds their values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray, counted_by, distinct_lines
from sightline.tables.encoding import MOST_DIGITS
from sightline.tables.membership import Membership, PersonTable
from sightline.units.unit_block import ONE
from sightline.units.units import Units
from sightline.values import frozen

BoolArray = NDArray[np.bool_]


@frozen
class SignatureColumns:
    """The distinct columns that signatures have over the linear partitions."""

    cells: NDArray[Any]  # distinct columns × partitions: the cell's number within the partition, -1 for none
    weights: NDArray[Any]  # of the same shape, whole numbers where they can be
    factors: FloatArray  # for each partition, what its weights were multiplied by
    column: IndexArray  # of every signature of the membership


@dataclass(kw_only=True, eq=False)
class ColumnsOnce:
    """The columns and the kinds of persons of some rows, by the partitions that were asked for."""

    columns: dict[tuple[int, ...], SignatureColumns] = field(default_factory=dict)
    kinds: dict[tuple[Shared, tuple[int, ...]], PersonKinds] = field(default_factory=dict)


def signature_columns(membership: Membership, order: Sequence[int]) -> SignatureColumns:
    """The distinct columns of a membership's signatures, which may be fewer than the signatures."""
    known = membership.once(ColumnsOnce).columns
    if (key := tuple(order)) not in known:
        known[key] = _signature_columns(membership, list(order))
    return known[key]


def _signature_columns(membership: Membership, order: list[int]) -> SignatureColumns:
    every, cells = order == list(range(len(membership.partitions))), membership.signatures
    cells = cells if every else cells[:, order]
    if membership.weights:
        weights, factors = whole_weights(np.stack([membership.weights_in(p) for p in order], axis=1))
        both = np.concatenate([cells.astype(np.float64), np.where(cells >= 0, weights, 0.0)], axis=1)
        first, column = distinct_lines(both)
        width = len(order)
        return SignatureColumns(
            cells=cells[first], weights=both[first, width:], factors=factors, column=column
        )
    factors, weights = np.ones(len(order)), np.broadcast_to(ONE, cells.shape)
    if membership.distinct and len(order) == len({cell.partition for cell in membership.cells}):
        return SignatureColumns(cells=cells, weights=weights, factors=factors, column=np.arange(len(cells)))
    first, column = distinct_lines(cells)
    return SignatureColumns(cells=cells[first], weights=weights[: first.size], factors=factors, column=column)


ROWS = None  # each row of a person by itself
EVERYTHING = ""  # all rows of a person share a level; else the name of a column: those of each value do
Shared = str | None


def units_of_table(
    membership: Membership, order: Sequence[int], counted: BoolArray, *, shared: Shared
) -> tuple[Units, IndexArray]:
    """The units over some partitions; and for every signature, or kind of person, its unit, -1 if known.

    ``shared`` says which rows of a person share a level: they are one column, the sum of theirs.
    """
    signatures, widths = signature_columns(membership, order), np.diff(membership.starts)[list(order)]
    column, distinct = signatures.column, len(signatures.cells)
    if not membership.by_person:
        number = np.bincount(column, membership.counts - membership.known, distinct).astype(np.intp)
        kept = np.flatnonzero(number)
        unit = np.full(distinct, -1, dtype=np.intp)
        unit[kept] = np.arange(kept.size)
        chosen = kept if kept.size < distinct else slice(None)
        rows, weights = _rows_of(signatures, chosen, counted, widths)
        ones, starts = np.ones(kept.size, dtype=np.intp), np.arange(kept.size + 1)
        return _in_memory(rows, weights, widths, len(counted), starts, ones, number[kept], True), unit[column]
    kinds = person_kinds(membership, order, shared=shared)
    rows, weights = _rows_of(signatures, kinds.columns, counted, widths)
    units = _in_memory(rows, weights, widths, len(counted), kinds.starts, kinds.times, kinds.people, False)
    if shared is ROWS and counted.any(axis=0).all():  # then different columns are in different rows
        units.__dict__["groups"] = kinds.columns
        units.__dict__["group_rows"] = np.bincount(column, membership.counts - membership.known, distinct)
    return (units, kinds.place) if shared is ROWS else _summed(units, kinds)


def _rows_of(
    signatures: SignatureColumns, chosen: IndexArray | slice, counted: BoolArray, widths: IndexArray
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """The rows of some columns, one for each category a row: one that counts several has a row of each."""
    none = int(widths.sum())
    rows = signatures.cells[chosen].astype(np.int32)
    # Without a sign, -1 is the largest number: the least of two needs no branch.
    starts, unsigned = (np.cumsum(widths) - widths).astype(np.uint32), rows.view(np.uint32)
    np.minimum(unsigned, np.uint32(none) - starts, out=unsigned)
    unsigned += starts
    weights = signatures.weights[chosen]
    if not counted.all():
        rows = np.where(counted, rows[:, None, :], none).reshape(-1, len(widths))
        weights = np.where(counted, weights[:, None, :], ONE).reshape(-1, len(widths))
    return rows, weights


def _in_memory(  # many parameters: the fields of units
    rows: NDArray[np.int32],
    weights: NDArray[Any],
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
        times=times if each == 1 else np.repeat(times, each),
        people=people,
        each=each,
        distinct=distinct,
    )


@frozen
class PersonKinds:
    """Kinds of persons by the columns of their unknown rows, and how many rows they have in each."""

    starts: IndexArray
    columns: IndexArray
    blocks: IndexArray  # of every entry: those of a kind with the same number share a level
    times: IndexArray
    people: IndexArray
    place: IndexArray  # of every kind of the table; -1 if all its rows are known


def person_kinds(membership: Membership, order: Sequence[int], *, shared: Shared) -> PersonKinds:
    """The kinds of a table's persons over some partitions, which may be fewer than those of the table."""
    table, column = membership.persons, signature_columns(membership, order).column
    blocks = membership.blocks[shared] if shared else np.zeros(column.size, dtype=np.int64)
    known = membership.once(ColumnsOnce).kinds
    if (key := (shared, tuple(order))) not in known:
        known[key] = _person_kinds(table, column, blocks, by_row=shared is ROWS)
    return known[key]


def _person_kinds(table: PersonTable, column: IndexArray, blocks: IndexArray, *, by_row: bool) -> PersonKinds:
    """Where rows share a level, to know one row is to know all."""
    unknown, kind_of = ~table.known, table.kind_of
    width, most = np.int64(column.max(initial=0) + 1), np.int64(blocks.max(initial=0) + 1)
    if not by_row and table.known.any():
        level = kind_of * most + blocks[table.signatures]
        unknown = ~np.isin(level, level[table.known])
    signature = table.signatures[unknown]
    entries, times = counted_by(
        (kind_of[unknown] * most + blocks[signature]) * width + column[signature], table.rows[unknown]
    )
    levels, columns = np.divmod(entries, width)
    del kind_of, entries, signature  # of a panel, some hundred megabytes each
    owner, block = np.divmod(levels, most)
    del levels
    first = np.flatnonzero(np.append(True, owner[1:] != owner[:-1])[: owner.size])
    kinds = owner[first]
    del owner
    group, entry, starts = _merged(np.append(first, columns.size), block, columns, times)
    unit = np.full(len(table.persons), -1, dtype=np.intp)
    unit[kinds] = group
    return PersonKinds(
        starts=starts,
        columns=columns[entry],
        blocks=block[entry],
        times=times[entry],
        people=np.bincount(unit[unit >= 0], table.persons[unit >= 0], starts.size - 1).astype(np.intp),
        place=unit,
    )


def _merged(starts: IndexArray, *parts: IndexArray) -> tuple[IndexArray, IndexArray, IndexArray]:
    """Kinds with the same entries as one: its number for each kind, the entries that stay, and their starts.

    Kind k has the entries ``starts[k]`` to ``starts[k + 1]`` of all ``parts``.
    """
    sizes, total = np.diff(starts), 0
    group = np.zeros(sizes.size, dtype=np.intp)
    ends, chosen = [np.zeros(1, dtype=np.intp)], [np.zeros(0, dtype=np.intp)]
    for size in np.unique(sizes).tolist():  # kinds that are alike have as many columns
        alike = np.flatnonzero(sizes == size)
        lines = starts[alike][:, None] + np.arange(size)
        first, number = distinct_lines(np.concatenate([part[lines] for part in parts], axis=1))
        group[alike] = total + number
        chosen.append(lines[first].ravel())
        ends.append(ends[-1][-1] + size * np.arange(1, first.size + 1))
        total += first.size
    return group, np.concatenate(chosen), np.concatenate(ends)


def _summed(units: Units, kinds: PersonKinds) -> tuple[Units, IndexArray]:
    """Persons whose rows share levels: columns of one level add up, with the number of rows as weights."""
    none, k, width = units.numbers, units.each, units.rows.shape[1]
    owner = np.repeat(np.arange(len(units)), np.diff(kinds.starts))
    new = np.append(True, (np.diff(owner) > 0) | (np.diff(kinds.blocks) != 0))[: owner.size]
    level, owner = np.cumsum(new) - 1, owner[new]  # of every entry its level; of every level its kind
    line = np.repeat(level * k, k) + np.tile(np.arange(k), level.size)
    where = np.repeat(line, width), units.rows.ravel()
    weighted = (units.weights * units.times[:, None].astype(np.float64)).ravel()
    table = sparse.coo_array((weighted, where), shape=(owner.size * k, none + 1)).tocsr()[:, :none]
    table.eliminate_zeros()
    degree = np.diff(table.indptr)
    slot = (
        np.repeat(np.arange(degree.size), degree),
        np.arange(table.nnz) - np.repeat(table.indptr[:-1], degree),
    )
    shape = degree.size, int(degree.max(initial=1))
    rows, weights = np.full(shape, none, dtype=np.int32), np.zeros(shape)
    rows[slot], weights[slot] = table.indices, table.data
    of_level = owner.size, k * shape[1]  # there may be none: all who are left are known
    both = np.concatenate([rows.reshape(of_level), weights.reshape(of_level)], axis=1)
    first, column = distinct_lines(both)
    # Levels of a person that no number tells apart are one column, as many times.
    entries, times = counted_by(owner * np.int64(first.size) + column, np.ones(owner.size, dtype=np.intp))
    owner, column = np.divmod(entries, max(1, first.size))
    group, entry, starts = _merged(np.searchsorted(owner, np.arange(len(units) + 1)), column, times)
    lines = (first[column[entry]][:, None] * k + np.arange(k)).ravel()
    summed = replace(
        units,
        rows=rows[lines],
        weights=weights[lines],
        starts=starts * k,
        times=np.repeat(times[entry], k).astype(np.intp),
        people=np.bincount(group, units.people, starts.size - 1).astype(np.intp),
        distinct=entry.size == starts.size - 1 and bool(np.all(times[entry] == 1)),
        aligned=False,
    )
    return summed, np.append(group, -1)[kinds.place]  # -1: none, and stays so


def with_plain_weights(units: Units) -> tuple[Units, FloatArray]:
    """The same units with weights of 1, where all weights of each number are equal; and what these were.

    Of three rows each that share a level, three times the level is published: weights of 1 and a third of the
    noise say the same, and bounds for rows that are alike then see that they are. Where some weights of a
    number differ, those of all numbers that persons connect it with stay as they are: numbers in different
    units would only cost digits.
    """
    inside, common = units.rows < units.numbers, np.ones(units.numbers)
    number, weight = units.rows[inside], np.asarray(units.weights, dtype=np.float64)[inside]
    common[number] = weight
    uneven = np.zeros(units.numbers, dtype=np.bool_)
    uneven[units.part_of_number[number[(weight <= 0) | (common[number] != weight)]]] = True
    common[uneven[units.part_of_number]] = 1.0
    if np.all(common == 1):
        return units, common
    if not uneven.any():
        return replace(units, weights=np.broadcast_to(ONE, units.rows.shape)), common
    weights = np.array(units.weights, dtype=np.float64)
    weights[inside] /= common[number]
    return replace(units, weights=weights), common


def whole_weights(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weights as whole numbers, column by column, and the powers of ten that they were multiplied by.

    A column stays as it is, with the factor 1, if it has numbers of more than six digits after the point.

    >>> found, factors = whole_weights(np.array([[0.25, 1 / 3], [2.0, 1.0]]))
    >>> found.tolist(), factors.tolist()
    ([[25.0, 0.3333333333333333], [200.0, 1.0]], [100.0, 1.0])
    """
    whole_table, factors = weights.copy(), np.ones(weights.shape[1])
    for column, own in enumerate(weights.T):
        for power in 10.0 ** np.arange(MOST_DIGITS + 1):
            whole = np.rint(own * power)
            if np.array_equal(whole / power, own):
                whole_table[:, column], factors[column] = whole, power
                break
    return whole_table, factors


WITHHELD = "(withheld)"


def key_columns(membership: Membership) -> tuple[frozenset[int], ...]:
    """For every partition, the positions in its cells' keys that are as good as a person's key.

    Those are the positions where at least half of the values stand in no more rows than one record can have:
    the record's own column always, and columns such as an account or a meter number.
    """
    rows: list[dict[int, Counter[str]]] = [{} for _ in membership.partitions]
    for cell in membership.cells:
        for position, value in enumerate(cell.key):
            rows[cell.partition].setdefault(position, Counter())[value] += cell.rows
    most = membership.contributions
    return tuple(
        frozenset(
            position
            for position, totals in columns.items()
            if 2 * sum(total <= most for total in totals.values()) >= len(totals)
        )
        for columns in rows
    )


def publishable_key(key: tuple[str, ...], columns: frozenset[int]) -> tuple[str, ...]:
    """A cell's key without what stands in some columns.

    >>> publishable_key(("H13", "north"), frozenset({0}))
    ('(withheld)', 'north')
    """
    return tuple(WITHHELD if position in columns else value for position, value in enumerate(key))
