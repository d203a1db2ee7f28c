"""Numbers and rows of a design in an order that their content alone decides.

Bounds that search or draw depend on the order in which they meet numbers and rows. So a design is put into
one order first: whoever writes the same releases in another order, or under other names, is told the same.

Numbers get marks: of their noise, then again and again of the marks of the rows that they count, until no
marks differ any more that were equal. Of numbers of one component whose marks are equal the first is marked
by itself, and so on: where they can be exchanged without a change, any order of them is the same. The order
is no part of a proof: of marks that are equal by chance, or too many to tell apart, that of the plan stays.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.units.design import Design, MadeOfUnits
from sightline.units.units import Units

Marks = NDArray[np.uint64]
_MOST_WORK = 1 << 22  # entries × rounds: about 0.2 s


def in_canonical_order(design: Design, units: Units) -> tuple[Design, Units]:
    """The same units, in the same places, with their numbers and the rows of each in canonical order.

    Numbers that share noise stay as they are.
    """
    if design.noise.shared or units.numbers < 1 or not len(units):
        return design, units
    units = units.without_repeated_columns()
    order = _order(design, units)
    position = np.append(np.argsort(order, kind="stable"), units.numbers)
    rows = position[units.rows]
    slots = np.argsort(rows, axis=1, kind="stable")
    rows = np.take_along_axis(rows, slots, axis=1).astype(units.rows.dtype)
    weights = np.take_along_axis(np.asarray(units.weights), slots, axis=1)
    renumbered = replace(units, rows=rows, weights=weights, distinct=False, aligned=False)
    owner = np.repeat(np.arange(len(units)), np.diff(units.starts) // units.each)
    lines = np.lexsort((units.times[:: units.each], renumbered.groups, owner))
    lines = (lines[:, None] * units.each + np.arange(units.each)).ravel()
    sorted_units = replace(
        renumbered,
        rows=rows[lines],
        weights=weights[lines],
        times=units.times[lines],
        distinct=units.distinct,
    )
    noise = design.noise.take(order)
    return replace(
        design, units=sorted_units, noise=noise, release=design.release[order], made=MadeOfUnits()
    ), sorted_units


def _order(design: Design, units: Units) -> IndexArray:
    """Numbers by their marks."""
    noise, each = design.noise, units.each
    line, slot = np.nonzero((units.rows < units.numbers) & (np.asarray(units.weights) != 0))
    number = units.rows[line, slot].astype(np.intp)
    weight = _mixed(np.asarray(units.weights[line, slot], dtype=np.float64).view(np.uint64))
    person = np.repeat(np.arange(len(units)), np.diff(units.starts))
    of_line = _mixed(
        units.times.astype(np.uint64) * np.uint64(1_000_003)
        + (np.arange(len(units.rows)) % each).astype(np.uint64)
    )
    of_person = _mixed(units.people.astype(np.uint64))
    component = units.part_of_number
    marks = np.zeros(units.numbers, dtype=np.uint64)
    # By how many levels are below, so that other units of the secret, and more noise on all numbers, change
    # nothing. What stands in for no noise depends on everybody's: it is no mark.
    for part in (noise.information, noise.loss, noise.laplace, noise.exact):
        level = np.where(noise.exact & (part is not noise.exact), 0.0, part)
        marks = _mixed(marks + _mixed(_levels_below(level, component)))

    def refined(marks: Marks) -> Marks:
        lines = _mixed(of_line + _summed(_mixed(weight ^ marks[number]), line, of_line.size))
        rows = _mixed(lines.reshape(-1, each).sum(axis=1, dtype=np.uint64))
        persons = _mixed(of_person + _summed(rows, person[::each], of_person.size))
        seen = _mixed(weight + lines[line] + np.repeat(rows, each)[line] + persons[person[line]])
        return _mixed(marks + _summed(seen, number, marks.size))

    used = np.bincount(number, minlength=units.numbers) > 0
    work, different = 0, 0
    while work <= _MOST_WORK:
        work += number.size + units.numbers
        marks = refined(marks)
        now = np.unique(marks).size
        if now > different:
            different = now
            continue
        first = _first_alike(marks, component, used)
        if not first.size:
            break
        marks[first] = _mixed(marks[first] + np.uint64(1))
    return np.argsort(marks, kind="stable")


def _levels_below(values: FloatArray, component: IndexArray) -> Marks:
    """How many different values, to ten digits, are smaller in the same component."""
    rounded = _ten_digits(np.asarray(values, dtype=np.float64))
    order = np.lexsort((rounded, component))
    first = np.diff(component[order], prepend=-1) != 0
    new = first | (rounded[order] != np.append(np.nan, rounded[order][:-1]))
    level = np.cumsum(new)
    below = np.empty(level.size, dtype=np.uint64)
    below[order] = level - np.maximum.accumulate(np.where(first, level, 0))
    return below


def _ten_digits(values: FloatArray) -> FloatArray:
    """Rounded to ten digits."""
    finite = np.where(np.isfinite(values) & (values > 0), values, 1.0)
    unit = 10.0 ** (np.floor(np.log10(finite)) - 9)
    rounded = np.rint(values / unit) * unit
    return np.ascontiguousarray(np.where(np.isfinite(values), rounded, values))


def _first_alike(marks: Marks, component: IndexArray, used: NDArray[np.bool_]) -> IndexArray:
    """Of every component the first number of those with the least marks that are equal; none if none are."""
    order = np.lexsort((marks, component))
    order = order[used[order]]
    same = (marks[order[1:]] == marks[order[:-1]]) & (component[order[1:]] == component[order[:-1]])
    alike = order[:-1][same]
    return np.asarray(alike[np.unique(component[alike], return_index=True)[1]])


def _summed(values: Marks, place: IndexArray, size: int) -> Marks:
    """Sums modulo 2^64: of the same values in any order the same."""
    sums = np.zeros(size, dtype=np.uint64)
    np.add.at(sums, place, values)
    return sums


def _mixed(values: Marks) -> Marks:
    """Splitmix64: numbers that differ have marks that differ in about half of their bits."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
