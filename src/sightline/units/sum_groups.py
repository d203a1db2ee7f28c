r"""What the prior of every row adds to its information: by itself, or as one of many that are seen as a sum.

Rows of one person that all *strong* numbers count alike are told apart by the other numbers alone. A prior
with a precision for such groups (:meth:`~sightline.units.target.TargetPrior.grouped_precision`) hides them
much better than one row after the other: an hour of a day whose total is published precisely. Which numbers
are strong is tried for some thresholds, and the best one is taken for each person by itself: what is said of
a person does not depend on who is looked at with them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.numerics.residuals import gamma
from sightline.units.dense_units import TableBlock
from sightline.units.panels import PanelBlock
from sightline.units.row_noise import RowNoise
from sightline.units.target import UnitPrior
from sightline.units.unit_block import UnitBlock, UnitColumns
from sightline.units.units import MANY_ROWS

_THRESHOLDS = 10.0 ** np.arange(-3, 4)  # of the information about a row, over its prior's own


def row_precision(prior: UnitPrior, noise: RowNoise, block: UnitColumns | PanelBlock) -> FloatArray:
    """Kinds × columns: at least what the prior of a row of each column adds to its information."""
    base = np.asarray(prior.target.precision(noise.about_columns(block)))
    if prior.categories > 1 or noise.shared or isinstance(block, TableBlock) or not np.isfinite(base).any():
        return base
    if isinstance(block, PanelBlock):
        weights = np.broadcast_to(block.columns.weights, block.columns.rows.shape)
        return _by_groups(prior, noise, block.columns.rows[:, 0], weights[:, 0], block.times, base)
    assert isinstance(block, UnitBlock)
    if block.rows.shape[1] > MANY_ROWS:  # persons with many rows, one by one
        lines = [
            _by_groups(prior, noise, rows, weights, times[None], own[None])
            for rows, weights, times, own in zip(block.rows, block.weights, block.times, base, strict=True)
        ]
        return np.concatenate(lines)
    if np.ndim(noise.summed) or block.single:
        return base
    # Rows with one column are told apart by nothing.
    alike = prior.target.grouped_precision(block.times.ravel(), np.zeros(block.times.size))
    return np.minimum(base, alike.reshape(base.shape))


def _by_groups(
    prior: UnitPrior,
    noise: RowNoise,
    rows: Any,
    weights: Any,
    times: IndexArray,
    base: FloatArray,
) -> FloatArray:
    """Persons × columns, of persons who have so many rows in each of some columns."""
    numbers = noise.information.size
    summed = np.append(np.broadcast_to(noise.summed, numbers), 1.0)
    # Of equal slices that are summed up the rows of one are a group; who is in one of them alone has none.
    slices = summed[rows].max(axis=1)
    counts = times / slices
    several = np.any((times > 0) & (slices == 1), axis=1)
    if not several.any():
        return base
    information = np.append(noise.information, 0.0) * summed * (1 + gamma(4 * numbers))
    seen = information[rows] * np.square(weights, dtype=np.float64)
    of_prior = prior.target.precision(np.zeros(1))[0]
    line = np.broadcast_to(np.arange(len(rows))[:, None], rows.shape)
    best, least = base, (np.where(times > 0, base, 0.0) * times).sum(axis=1)
    for threshold in _THRESHOLDS.tolist():
        strong = seen > threshold * of_prior
        weak = np.where(strong | (rows == numbers), 0.0, np.abs(weights) * np.sqrt(information[rows]))
        group = _groups(np.where(strong, rows, numbers), np.where(strong, weights, 0.0), slices)
        joined = sparse.csr_array((np.ones(len(rows)), (group, np.arange(len(rows)))))
        # A number is one of its own in every group: rows of other groups do not count.
        column = np.unique(group[:, None] * (numbers + 1) + rows, return_inverse=True)[1]
        table = sparse.csr_array((weak.ravel(), (line.ravel(), column.ravel())))
        tried = _tried(prior, table, joined, group, counts, base)
        total = (np.where(times > 0, tried, 0.0) * times).sum(axis=1)
        better = several & (total < least)
        best, least = np.where(better[:, None], tried, best), np.where(better, total, least)
    return best


def _tried(
    prior: UnitPrior,
    table: sparse.csr_array,
    joined: sparse.csr_array,
    group: IndexArray,
    counts: FloatArray,
    base: FloatArray,
) -> FloatArray:
    """Persons × columns with one choice of strong numbers: all rows of a group, or none, are taken as one."""
    there = counts > 0
    members = counts @ joined.T  # persons × groups
    whole = (np.where(there, counts != np.rint(counts), False).astype(float) @ joined.T) == 0
    # The sums of sizes over a line of the information of weak numbers bound its largest eigenvalue.
    lines = (table @ (table.T @ counts.T)).T
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], np.arange(joined.shape[0]))
    weak = np.maximum.reduceat(np.where(there, lines, 0.0)[:, order], first, axis=1)
    lowest = np.minimum.reduceat(np.where(there, base, np.inf)[:, order], first, axis=1)
    together = prior.target.grouped_precision(
        np.floor(members).astype(np.intp).ravel(), (weak * (1 + 1e-9)).ravel()
    )
    together = together.reshape(members.shape)
    better = whole & (together < lowest)
    return np.where(better[:, group], together[:, group], base)


def _groups(rows: Any, weights: Any, slices: FloatArray) -> IndexArray:
    """A number that columns share which have the same strong numbers, with the same weights, in one slice."""
    order = np.argsort(rows, axis=1, kind="stable")
    lines = [np.take_along_axis(one, order, axis=1).astype(np.float64) for one in (rows, weights)]
    keys = np.concatenate([*lines, slices[:, None]], axis=1)
    return np.asarray(np.unique(keys, axis=0, return_inverse=True)[1].ravel(), dtype=np.intp)
