r"""The rows of a table as units: who is in which numbers, and how many of them are alike.

A record is a column, a person one for each kind of their rows, or one with weights if they hold one value.

Which columns of a GROUP BY are keys of persons; a publishable result withholds their values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
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


def signature_columns(membership: Membership, order: Sequence[int]) -> SignatureColumns:
    """The distinct columns of a membership's signatures, which may be fewer than the signatures."""
    return membership.made_once(("columns", *order), lambda: _signature_columns(membership, list(order)))


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


def units_of_table(
    membership: Membership, order: Sequence[int], counted: BoolArray, *, constant: bool
) -> tuple[Units, IndexArray]:
    """The units over some partitions; and for every signature, or kind of person, its unit, -1 if known."""
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
    kinds = person_kinds(membership, order, constant=constant)
    rows, weights = _rows_of(signatures, kinds.columns, counted, widths)
    units = _in_memory(rows, weights, widths, len(counted), kinds.starts, kinds.times, kinds.people, False)
    if counted.any(axis=0).all():  # then different columns are in different rows
        units.__dict__["groups"] = kinds.columns
        units.__dict__["group_rows"] = np.bincount(column, membership.counts - membership.known, distinct)
    return _summed(units, kinds.place) if constant else (units, kinds.place)


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
    times: IndexArray
    people: IndexArray
    place: IndexArray  # of every kind of the table; -1 if all its rows are known


def person_kinds(membership: Membership, order: Sequence[int], *, constant: bool) -> PersonKinds:
    """The kinds of a table's persons over some partitions, which may be fewer than those of the table."""
    table, column = membership.persons, signature_columns(membership, order).column
    return membership.made_once(
        ("kinds", constant, *order), lambda: _person_kinds(table, column, constant=constant)
    )


def _person_kinds(table: PersonTable, column: IndexArray, *, constant: bool) -> PersonKinds:
    """Where all rows hold one value, to know one row is to know all."""
    unknown, kind_of = ~table.known, table.kind_of
    if constant:
        unknown = ~np.logical_or.reduceat(table.known, table.starts[:-1])[kind_of]
    width = np.int64(column.max(initial=0) + 1)
    entries, times = counted_by(
        kind_of[unknown] * width + column[table.signatures[unknown]], table.rows[unknown]
    )
    owner, columns = np.divmod(entries, width)
    del kind_of, entries  # of a panel, some hundred megabytes each
    first = np.flatnonzero(np.append(True, owner[1:] != owner[:-1])[: owner.size])
    kinds, sizes = owner[first], np.diff(np.append(first, owner.size))
    del owner
    unit = np.full(len(table.persons), -1, dtype=np.intp)
    starts, chosen, total = [np.zeros(1, dtype=np.intp)], [np.zeros(0, dtype=np.intp)], 0
    for size in np.unique(sizes).tolist():  # kinds that are alike have as many columns
        own = np.flatnonzero(sizes == size)
        lines = first[own][:, None] + np.arange(size)
        both = np.concatenate([columns[lines], times[lines]], axis=1)
        firsts, group = distinct_lines(both)
        unit[kinds[own]] = total + group
        chosen.append(lines[firsts].ravel())
        starts.append(starts[-1][-1] + size * np.arange(1, firsts.size + 1))
        total += firsts.size
    entry = np.concatenate(chosen)
    del chosen
    return PersonKinds(
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
    where = np.repeat(line, width), units.rows.ravel()
    weighted = (units.weights * units.times[:, None].astype(np.float64)).ravel()
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
    of_kind = kinds, k * shape[1]  # there may be no kinds: all who are left are known
    both = np.concatenate([rows.reshape(of_kind), weights.reshape(of_kind)], axis=1)
    first, group = distinct_lines(both)
    lines = (first[:, None] * k + np.arange(k)).ravel()
    summed = replace(
        units,
        rows=rows[lines],
        weights=weights[lines],
        starts=np.arange(first.size + 1) * k,
        times=np.ones(lines.size, dtype=np.intp),
        people=np.bincount(group, units.people).astype(np.intp),
        distinct=True,
    )
    return summed, np.append(group, -1)[place]  # -1: none, and stays so


def whole_weights(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weights as whole numbers, column by column, and the powers of ten that they were multiplied by.

    A column stays as it is, with the factor 1, if it has numbers of more than six digits after the point.

    >>> found, factors = whole_weights(np.array([[0.25, 1 / 3], [2.0, 1.0]]))
    >>> found.tolist(), factors.tolist()
    ([[25.0, 0.3333333333333333], [200.0, 1.0]], [100.0, 1.0])
    """
    found, factors = weights.copy(), np.ones(weights.shape[1])
    for place, own in enumerate(weights.T):
        for power in 10.0 ** np.arange(MOST_DIGITS + 1):
            whole = np.rint(own * power)
            if np.array_equal(whole / power, own):
                found[:, place], factors[place] = whole, power
                break
    return found, factors


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
