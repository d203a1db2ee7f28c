r"""A load curve with a number for every hour is assessed by one hour of each kind and the sum of its equals.

Take out the numbers that are about very many rows (months, the year): the others fall into *slices* that have
no row of a person in common, such as the hours. Two slices are equal if every person has the same rows in
both, with the same numbers beside them, or if persons who are in one of them alone have equals in the other,
and if their noise is the same.

Of m equal slices the first stays as it is, and the others become one: the sums of their numbers, in the noise
of such sums. Nothing that treats the others alike is lost: of every person who is in all slices the sharpest
feature, the total, and one row in the first slice; of those in the first slice alone, everything. Proof: the
theory page on named records, "Equal slices".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy import sparse

from sightline.arrays import MOST_LOOKED_AT, MOST_SQUARE, FloatArray, IndexArray, distinct_lines, parts
from sightline.units.row_noise import RowNoise
from sightline.units.unit_block import BoolArray
from sightline.units.units import Units
from sightline.values import frozen

_MOST_GAPS = 3
_COLUMNS_A_NUMBER = 8  # that are asked first: random numbers are joined by a few columns each


@frozen(slots=False)
class EqualSlices:
    """Which numbers are summed up, and the persons as the sums see them."""

    rows: IndexArray  # one number of each sum
    summed: FloatArray  # how many it is the sum of
    sum_of: IndexArray  # of every number the sum that it is in
    kind_of: IndexArray  # of every kind its equal among those that are left
    column_of: IndexArray  # of every column that of its equal, or of the sum that it is in
    slice_of: IndexArray  # of every number its slice; -1 for those that were taken out
    first: IndexArray  # of every slice the first one that is equal
    own_slice: IndexArray  # of every kind that is in one slice alone, this one; else -1
    units: Units

    def noise(self, noise: RowNoise) -> RowNoise:
        """That of the sums."""
        taken = noise.take(self.rows)
        information, variance = taken.information / self.summed, taken.variance * self.summed
        return replace(taken, information=information, variance=variance, summed=self.summed)

    def seen_by(self, kind: int) -> IndexArray:
        """Every number's own, as if a kind that is in one slice alone were in the first of its equals."""
        numbers, only_slice = np.arange(self.sum_of.size), int(self.own_slice[kind])
        if only_slice >= 0 and (first := int(self.first[only_slice])) != only_slice:
            here, there = np.flatnonzero(self.slice_of == only_slice), np.flatnonzero(self.slice_of == first)
            numbers[here], numbers[there] = there, here
        return numbers


def can_have_slices(units: Units, noise: RowNoise) -> bool:
    """Whether equal slices are looked for: of one column a row, noise of each number, and not too many."""
    return units.each == 1 and not noise.shared and len(units.times) <= MOST_LOOKED_AT


def equal_slices(units: Units, law: IndexArray) -> EqualSlices | None:
    """The fewest; none where the numbers are less than twice as many as the sums.

    ``law`` numbers the different noises.
    """
    tried: list[EqualSlices] = []
    for taken_out in _taken_out(units):
        enough = any(8 * _sums(one) <= units.numbers for one in tried)
        if 2 * np.count_nonzero(taken_out) < units.numbers and not enough:
            tried += slices_of(units, law, ~taken_out)
    fewest = min(tried, key=_sums, default=None)
    return fewest if fewest is not None and 2 * _sums(fewest) <= units.numbers else None


def laws_of(noise: RowNoise) -> IndexArray:
    """A number for every different noise."""
    lines = [noise.information, noise.variance, noise.laplace, noise.loss, noise.exact.astype(np.float64)]
    return distinct_lines(np.stack(lines, axis=1))[1]


def _sums(slices: EqualSlices) -> int:
    return slices.rows.size


def slices_of(units: Units, law: IndexArray, inside: BoolArray) -> list[EqualSlices]:
    """Equal slices of the numbers ``inside``, if these fall apart; ``law`` numbers the different noises."""
    if _connected(units, inside):
        return []
    slice_of, of_column = _components(units, inside)
    count = int(slice_of.max(initial=-1)) + 1
    if count < 2:
        return []
    rows = _Listed.of(slice_of, np.arange(units.numbers), count)
    position = np.full(units.numbers, -1)
    position[rows.items] = rows.place
    names = np.where(inside, units.numbers + 1 + position, np.arange(units.numbers))
    content = _contents(units, names)
    own_slice, owner = _owners(units, of_column, content)
    kind = np.repeat(np.arange(len(units)), np.diff(units.starts))
    both = distinct_lines(np.stack([owner[kind], content], axis=1))[1]
    order = np.lexsort((content, kind, owner[kind]))
    columns = _Listed.of(of_column[order], order, count)
    if max(columns.width, rows.width) * count > MOST_SQUARE**2:
        return []
    first, equal = distinct_lines(np.concatenate([columns.table(both), rows.table(law)], axis=1))
    slices = _Slices(slice_of=slice_of, own_slice=own_slice, first=first[equal])
    return [_summed(units, slices, rows, columns, content)]


@frozen(slots=False)
class _Slices:
    """The slice of every number, the only one of every kind, and the first equal one of every slice."""

    slice_of: IndexArray
    own_slice: IndexArray
    first: IndexArray


@frozen(slots=False)
class _Listed:
    """The items of each slice, one slice after the other, and the place of each in its slice."""

    items: IndexArray
    owner: IndexArray
    place: IndexArray
    starts: IndexArray

    @classmethod
    def of(cls, owners: IndexArray, items: IndexArray, count: int) -> _Listed:
        """Items in their order; those of slice -1 are left out."""
        items, owners = items[owners >= 0], owners[owners >= 0]
        order = np.argsort(owners, kind="stable")
        items, owners = items[order], owners[order]
        starts = np.searchsorted(owners, np.arange(count))
        return cls(items=items, owner=owners, place=np.arange(items.size) - starts[owners], starts=starts)

    @property
    def width(self) -> int:
        """The most items of a slice."""
        return int(self.place.max(initial=0)) + 1

    def table(self, values: IndexArray) -> IndexArray:
        """The values of the items of each slice, a line each, filled up with -1."""
        table = np.full((self.starts.size, self.width), -1)
        table[self.owner, self.place] = values[self.items]
        return table

    def equal_in(self, slices: IndexArray) -> IndexArray:
        """Of every item the one at its place in another slice."""
        return np.asarray(self.items[self.starts[slices] + self.place])


def _taken_out(units: Units) -> Iterator[BoolArray]:
    """Numbers that may be taken out: none, those about many columns, those about many rows of each person.

    A number about a few homes has fewer columns than a shorter one about all of them, but as many rows of
    each home: days, and the hours of a month, are told apart by their rows alone.
    """
    # Part by part: counted at once, all rows would be copied as longer numbers.
    columns = np.zeros(units.numbers + 1, dtype=np.intp)
    for own in parts(len(units.rows), each=units.rows.shape[1]):
        columns += np.bincount(units.rows[own].ravel(), minlength=units.numbers + 1)
    columns = columns[:-1]
    yield np.asarray(columns == 0)
    yield from _about_many(columns)
    if 2 * len(units) < len(units.times):
        persons = np.bincount(_of_kinds(units).indices, minlength=units.numbers)
        yield from _about_many(columns / np.maximum(persons, 1))


def _of_kinds(units: Units) -> sparse.csr_array:
    """Kinds × numbers: not zero where a kind has a column in a number."""
    columns = sparse.csr_array(
        (np.ones(len(units.times)), np.arange(len(units.times)), units.starts),
        shape=(len(units), len(units.times)),
    )
    return (columns @ abs(units.table())).tocsr()


def _about_many(counts: FloatArray | IndexArray) -> Iterator[BoolArray]:
    """Numbers beyond each large gap between their counts; and those of nobody."""
    levels = np.unique(counts[counts > 0])
    for gap in np.argsort(-levels[1:] / levels[:-1], kind="stable")[:_MOST_GAPS]:
        yield np.asarray((counts == 0) | (counts >= levels[1:][gap]))


def _connected(units: Units, inside: BoolArray) -> bool:
    """Whether a few of the columns alone join all numbers: most designs have no slices, and this is cheap."""
    step = max(1, len(units.rows) // (_COLUMNS_A_NUMBER * units.numbers))
    rows = units.rows[::step]
    counted = np.append(inside, False)[rows] & (units.weights[::step] != 0)
    line, slot = np.nonzero(counted)
    first = rows[np.arange(len(rows)), counted.argmax(axis=1)]
    edges = (np.ones(line.size, dtype=np.int8), (first[line], rows[line, slot]))
    graph = sparse.coo_array(edges, shape=(units.numbers, units.numbers))
    label = sparse.csgraph.connected_components(graph, directed=False)[1][inside]
    return bool((label == label[0]).all())


def _components(units: Units, inside: BoolArray) -> tuple[IndexArray, IndexArray]:
    """The slice of every number, and that of every column: -1 for none."""
    table = units.table()[:, inside]
    table.eliminate_zeros()
    # Numbers and columns as one graph: products of all numbers would take longer than an assessment.
    both = sparse.block_array([[None, table.T], [table, None]], format="csr")
    label = sparse.csgraph.connected_components(both, directed=False)[1][: table.shape[1]]
    slice_of = np.full(inside.size, -1)
    slice_of[inside] = label
    of_column = np.full(len(units.rows), -1)
    of_column[np.repeat(np.arange(len(units.rows)), np.diff(table.indptr))] = label[table.indices]
    return slice_of, of_column


def _contents(units: Units, names: IndexArray) -> IndexArray:
    """A number for every column that equal ones share: rows by their names, weights, and how many rows."""
    named = np.append(names, 3 * units.numbers)[units.rows]
    order = np.argsort(named, axis=1, kind="stable")
    ordered = [np.take_along_axis(table, order, axis=1) for table in (named, units.weights)]
    return distinct_lines(np.concatenate([units.times[:, None], *ordered], axis=1))[1]


def _owners(units: Units, of_column: IndexArray, content: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Of every kind the only slice that it is in, or -1; and a number that equal kinds of this sort share."""
    starts, sizes, number = units.starts[:-1], np.diff(units.starts), len(units)
    most = np.maximum.reduceat(of_column, starts)
    inside = np.where(of_column >= 0, of_column, np.iinfo(np.intp).max)
    only_slice = np.where(np.minimum.reduceat(inside, starts) == most, most, -1)
    owner = np.arange(number)
    for size in np.unique(sizes[only_slice >= 0]).tolist():
        kinds = np.flatnonzero((only_slice >= 0) & (sizes == size))
        lines = np.sort(content[starts[kinds][:, None] + np.arange(size)], axis=1)
        first, equal = distinct_lines(np.concatenate([units.people[kinds][:, None], lines], axis=1))
        owner[kinds] = kinds[first][equal]
    return only_slice, owner


def _summed(
    units: Units, slices: _Slices, rows: _Listed, columns: _Listed, content: IndexArray
) -> EqualSlices:
    """The first of equal slices, and the second one for all others."""
    first, count = slices.first, np.bincount(slices.first, minlength=slices.first.size)
    others = np.flatnonzero(first != np.arange(first.size))
    second = np.full(first.size, -1)
    second[first[others][::-1]] = others[::-1]
    # Where a slice goes to, and how many are there.
    carrier = np.where(first == np.arange(first.size), first, second[first])
    carried = np.where(first == np.arange(first.size), 1, count[first] - 1)
    stays = carrier == np.arange(first.size)
    # Numbers.
    row_of = np.arange(units.numbers)
    row_of[rows.items] = rows.equal_in(carrier[rows.owner])
    kept = np.unique(row_of)
    # Kinds and columns. A kind in one slice alone is as its equal in the first one.
    kind = np.repeat(np.arange(len(units)), np.diff(units.starts))
    only_slice, equal = slices.own_slice, np.arange(len(units))
    equal[kind[columns.items]] = np.where(
        only_slice[kind[columns.items]] >= 0,
        kind[columns.equal_in(first[columns.owner])],
        kind[columns.items],
    )
    alone = only_slice >= 0
    kinds = np.flatnonzero(~alone | stays[only_slice])
    column_of = np.arange(len(kind))
    column_of[columns.items] = columns.equal_in(carrier[columns.owner])
    order = np.lexsort((content, kind))
    position = np.arange(len(kind)) - units.starts[kind]
    column_of[order] = np.where(alone[kind], order[units.starts[equal[kind]] + position], column_of[order])
    of_column = np.full(len(kind), -1)
    of_column[columns.items] = columns.owner
    inside = np.isin(kind, kinds) & ((of_column < 0) | stays[of_column])
    chosen = np.flatnonzero(inside)
    many = np.where((of_column < 0) | alone[kind], 1, carried[of_column])[chosen]
    numbers = np.full(units.numbers + 1, kept.size)
    numbers[kept] = np.arange(kept.size)
    new_kind, new_column = np.full(len(units), -1), np.full(len(kind), -1)
    new_kind[kinds], new_column[chosen] = np.arange(kinds.size), np.arange(chosen.size)
    small = replace(
        units,
        rows=numbers[units.rows[chosen]].astype(units.rows.dtype),
        weights=units.weights[chosen],
        numbers=int(kept.size),
        starts=np.searchsorted(new_kind[kind[chosen]], np.arange(kinds.size + 1)),
        times=units.times[chosen] * many,
        people=units.people[kinds] * np.where(alone, carried[only_slice], 1)[kinds],
        distinct=False,
    )
    return EqualSlices(
        rows=kept,
        summed=np.bincount(numbers[row_of]).astype(np.float64),
        sum_of=numbers[row_of],
        kind_of=new_kind[equal],
        column_of=new_column[column_of],
        slice_of=slices.slice_of,
        first=first,
        own_slice=only_slice,
        units=small,
    )
