r"""Lower ends that need the columns of other units, too: of small designs alone.

**A line to those in the same exact numbers.** Let the rows :math:`K` be in exactly the exact numbers that
row j is in, as often as j. Row j rises and all m of K fall by 1/m of it: no exact number changes, and numbers
with noise see the move. Every choice of K gives a bound; the rows that noise tells apart least come first. A
yes or no has pairs in place of lines (:mod:`sightline.labeled.pairs`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray, distinct_lines
from sightline.labeled.bounds.chord import MOST_MOVED, chord_bounds
from sightline.labeled.bounds.priors import UniformPrior
from sightline.labeled.bounds.scalar_risk import MARGIN
from sightline.labeled.unit_design import Design, RowNoise
from sightline.labeled.units import BoolArray, Units, UnitStore

MOST_KINDS = 2_000  # of which columns are fetched
# Swaps: columns, and rows × columns, of designs that are looked at; sets K that are tried for a column.
_MOST_COLUMNS, _MOST_ENTRIES, _MOST_CHOICES = 1_000, 1_000_000, 8
_ROUNDING = 1e-9  # of an information: far more than the sums of its squares can lose


@dataclass(frozen=True, kw_only=True, eq=False)
class DistinctColumns:
    """The different columns of a design, the unknown rows of all persons with each, and who is one row of
    one.
    """

    entries: FloatArray  # rows × columns
    counts: FloatArray
    group: IndexArray  # the column of every column of a kind
    column: IndexArray  # of every kind, that of its first row
    single: BoolArray  # kinds that are one row

    @classmethod
    def of(cls, units: Units) -> DistinctColumns:
        keys = units.rows if units.weights is None else np.concatenate([units.rows, units.weights], axis=1)
        first, group = distinct_lines(keys)
        numbers = np.repeat(units.people, np.diff(units.starts)) * units.times
        entries = np.zeros((units.numbers + 1, first.size))
        values = 1.0 if units.weights is None else units.weights[first].ravel()
        entries[units.rows[first].ravel(), np.repeat(np.arange(first.size), units.rows.shape[1])] = values
        return cls(
            entries=entries[:-1],
            counts=np.asarray(np.bincount(group, numbers), dtype=np.float64),
            group=group,
            column=group[units.starts[:-1]],
            single=(np.diff(units.starts) == 1) & (units.times[units.starts[:-1]] == 1),
        )


def among_alike(units: UnitStore) -> FloatArray:
    """What remains of every kind because nothing tells its rows from others, whatever the noise."""
    return units.among_alike if isinstance(units, Units) else np.asarray(1 - 1 / units.alike)


def with_alike(units: UnitStore, noise: RowNoise, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Lower ends of all units, not below what remains because nothing tells their rows from others."""
    among = among_alike(units)[:, None] * noise.share
    return np.minimum(np.maximum(lower, among), upper)


def swap_bounds(design: Design) -> FloatArray:
    """At most the remaining uncertainty of every kind, by its first row; 0 where nothing is shown."""
    prior, number = design.prior.target, len(design.units)
    if (
        design.prior.categories > 1
        or not isinstance(prior, UniformPrior)
        or number > MOST_KINDS
        or design.noise.shared
    ):
        return np.zeros(number)
    columns = DistinctColumns.of(design.units.choose(np.arange(number)))
    if columns.counts.size > _MOST_COLUMNS or columns.entries.size > _MOST_ENTRIES:
        return np.zeros(number)
    noisy = ~design.noise.exact
    seen = columns.entries[noisy] * (np.sqrt(design.noise.information[noisy, None]) * prior.width)
    group = np.unique(columns.entries[design.noise.exact], axis=1, return_inverse=True)[1].ravel()
    gaussian = not design.noise.laplace[noisy].any()
    sets = [
        choice for target in range(group.size) for choice in _swap_sets(columns.counts, seen, group, target)
    ]
    if not sets:
        return np.zeros(number)
    numbers = np.array([choice.number for choice in sets])
    together = np.array([choice.together for choice in sets])
    bounds = _uniform_bounds(numbers, together, gaussian=gaussian)
    best = np.zeros(group.size)
    np.maximum.at(best, [choice.target for choice in sets], bounds)
    return np.where(columns.single, best[columns.column], 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _SwapSet:
    """A set K for one column: how many rows, and how far noise tells the column from their mean."""

    target: int
    number: float
    together: float


def _swap_sets(numbers: FloatArray, seen: FloatArray, group: IndexArray, target: int) -> Iterator[_SwapSet]:
    """The sets K that are tried for a column: those that noise tells apart least come first."""
    others = np.flatnonzero(group == group[target])
    counts = numbers[others] - (others == target)
    apart = np.sum((seen[:, others] - seen[:, [target]]) ** 2, axis=0) * (1 + _ROUNDING)
    order = np.argsort(apart, kind="stable")
    order = order[counts[order] > 0]
    if not order.size:
        return
    for last in np.unique(np.geomspace(1, order.size, _MOST_CHOICES).astype(np.intp)):
        chosen = order[:last]
        number = counts[chosen]
        moved = seen[:, others[chosen]] @ (number / number.sum()) - seen[:, target]
        yield _SwapSet(target=target, number=float(number.sum()), together=float(moved @ moved))


def _uniform_bounds(numbers: FloatArray, information: FloatArray, *, gaussian: bool) -> FloatArray:
    """The bounds for a uniform number on a domain of width 1, if the others fall by 1/m each."""
    few = numbers <= MOST_MOVED
    moves, counts = 1 / numbers[few, None], numbers[few, None]
    bounds = np.zeros(numbers.size)
    bounds[few] = chord_bounds(moves, counts, information[few] * (1 + _ROUNDING) + 1e-300, gaussian=gaussian)
    return np.where(np.isfinite(bounds), 12 * bounds * (1 - MARGIN), 0.0)
