r"""Lower ends that need the columns of other units, too: of small designs alone.

**One line.** Every direction d with :math:`d_j = 1` and :math:`|d_k| \le 1` gives a bound for uniform values
(:mod:`sightline.labeled.bounds.chord`). A good one changes the releases little and moves few others, since
each of them shortens the chord: the minimum of

.. math:: \tfrac12 d^\top G d + \mu \sum_{k \ne j} |d_k|

for some penalties :math:`\mu`. Each is found as a sequence of weighted least squares, in which the last
:math:`|d_k|` become weights. The best bound counts. How good a minimum is does not matter for its truth.

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
from sightline.numerics.residuals import gamma

_MOST_KINDS = 2_000  # of which columns are fetched
# Chords: designs of up to so many columns, and so many entries. Of each, the columns with the widest
# brackets. Tuned so that an audit of 18 records spends less than a quarter of its time here.
_MOST_GROUPS, _MOST_CHORD_ENTRIES, _MOST_CHOSEN = 40, 20_000, 32
_WIDE = 1.05  # brackets narrower than that are left alone
# Penalties for a domain of width 1. A small one finds the shortest change that hardly changes a release.
_PENALTIES = np.array([0.1, 1.0, 5.0])
_STEPS, _NOTHING = 12, 0.02
_SHARPEST = 1e7  # columns over the noise
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


def with_chords(design: Design, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Lower ends of units of one row, improved by lines through the rows where brackets are wide."""
    prior, number = design.prior.target, len(design.units)
    if design.prior.categories > 1 or not isinstance(prior, UniformPrior) or not 0 < number <= _MOST_KINDS:
        return lower
    units = design.units.choose(np.arange(number))
    if np.diff(units.starts).min() > 1:  # nobody is one row
        return lower
    columns = DistinctColumns.of(units)
    rows, groups = columns.entries.shape
    if groups > _MOST_GROUPS or rows * groups > _MOST_CHORD_ENTRIES:
        return lower
    # The columns that some unit is one row of; several units of one column have the same bracket.
    low, high = np.ones((2, groups))
    low[columns.column[columns.single]] = lower[columns.single, 0] / design.noise.share
    high[columns.column[columns.single]] = upper[columns.single, 0]
    wide = np.flatnonzero(high > _WIDE * low)
    chosen = wide[np.argsort(low[wide] / high[wide], kind="stable")][:_MOST_CHOSEN]
    if not chosen.size:
        return lower
    whitened = design.noise.white(columns.entries) * prior.width
    directions = _directions(whitened, columns.counts, chosen)
    if directions is None:
        return lower
    targets = np.repeat(chosen, _PENALTIES.size)
    bounds = _chord_bounds(columns, design.noise, targets, directions.reshape(-1, groups), prior)
    best = np.zeros(groups)
    best[chosen] = bounds.reshape(chosen.size, -1).max(axis=1)
    improved = np.minimum(best / prior.variance, high)[columns.column] * design.noise.share
    return np.where(columns.single[:, None], np.maximum(lower, improved[:, None]), lower)


def _directions(whitened: FloatArray, counts: FloatArray, chosen: IndexArray) -> FloatArray | None:
    """For each chosen column some directions: how a row of every column moves with one of its own.

    ``None`` where least squares find none: with hardly any noise.
    """
    size = counts.size
    if not float(np.max(np.abs(whitened))) < _SHARPEST:
        return None
    G = whitened.T @ whitened
    others = np.repeat(counts[None], chosen.size, axis=0)
    others[np.arange(chosen.size), chosen] -= 1
    # Columns without others are held still by a weight that is larger than all information.
    alone = others == 0
    others = np.where(alone, 1.0, others)[:, None, :]
    held = np.where(alone, 1e12 * float(np.trace(G)), 0.0)[:, None, :]
    target = np.repeat(-G[chosen][:, None, :], _PENALTIES.size, axis=1)[..., None]
    d = np.ones((chosen.size, _PENALTIES.size, size))
    for _ in range(_STEPS):
        weights = _PENALTIES[:, None] / (np.abs(d) + _NOTHING) + held
        matrix = np.repeat(G[None, None], chosen.size, axis=0).repeat(_PENALTIES.size, axis=1)
        matrix[..., np.arange(size), np.arange(size)] += weights / others
        try:
            d = np.clip(np.linalg.solve(matrix, target)[..., 0] / others, -1.0, 1.0)
        except np.linalg.LinAlgError:  # singular, to rounding
            return None
    return np.where(alone[:, None, :], 0.0, d)


def _chord_bounds(
    columns: DistinctColumns,
    noise: RowNoise,
    targets: IndexArray,
    directions: FloatArray,
    prior: UniformPrior,
) -> FloatArray:
    """The bounds for a row of each target column, whose own entry of d is how the others of it move."""
    entries, counts = columns.entries, columns.counts
    others = np.repeat(counts[None], targets.size, axis=0)
    others[np.arange(targets.size), targets] -= 1
    order = np.argsort(-np.abs(directions), axis=1, kind="stable")
    few = np.cumsum(np.take_along_axis(others, order, axis=1), axis=1) <= MOST_MOVED
    kept = np.zeros(others.shape, dtype=np.bool_)
    np.put_along_axis(kept, order, few, axis=1)
    moves, others = np.where(kept, directions, 0.0), np.where(kept & (directions != 0), others, 0.0)
    moved = entries[:, targets] + entries @ (others * moves).T
    size = np.abs(entries[:, targets]) + np.abs(entries) @ (others * np.abs(moves)).T
    # Rounding counts as if it added information: that of the sum, then that of the form.
    roundings = counts.size + 8 + 2 * len(entries)
    if not noise.shared:
        white = np.sqrt(noise.information)[:, None]
        length = np.linalg.norm(white * moved, axis=0)
        seen = (length + gamma(roundings) * np.linalg.norm(white * size, axis=0)) ** 2
    else:
        form = noise.precision
        if not form.error < 1:
            return np.zeros(targets.size)
        seen = np.sum(moved * (form.matrix[:-1, :-1] @ moved), axis=0) / (1 - form.error)
        seen = seen + 4 * gamma(roundings + form.roundings) * (form.root[:-1] @ size) ** 2
    gaussian = not noise.laplace.any()
    return prior.width**2 * chord_bounds(np.abs(moves), others, seen * prior.width**2, gaussian=gaussian)


def swap_bounds(design: Design) -> FloatArray:
    """At most the remaining uncertainty of every kind, by its first row; 0 where nothing is shown."""
    prior, number = design.prior.target, len(design.units)
    if (
        design.prior.categories > 1
        or not isinstance(prior, UniformPrior)
        or number > _MOST_KINDS
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
