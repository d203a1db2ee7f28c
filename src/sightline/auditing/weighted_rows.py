"""Rows with public weights as an incidence: what a weighted sum adds up of every signature."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidPlan, require
from sightline.labeled.incidence.dense import DenseIncidence
from sightline.labeled.incidence.protocol import Incidence
from sightline.tables.membership import CellTable

_MOST_ENTRIES = 1e8  # of a dense table of weights
_MOST_DIGITS = 6  # after the point


def whole_weights(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weights as whole numbers, column by column, and the powers of ten that they were multiplied by.

    A column stays as it is, with the factor 1, if it has numbers of more than six digits after the point:
    then rank is decided by singular values, and may stay undecided.

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


def weighted_incidence(
    tables: list[CellTable], widths: IndexArray, *, counts: IndexArray, weights: FloatArray
) -> Incidence:
    """The incidence of some tables of signatures, the columns of one after those of the other.

    A line of a table is a signature: its cell in each partition, -1 for none. A line of ``weights`` has the
    weights of its rows there.
    """
    size = (int(widths.sum()), sum(map(len, tables)))
    require(
        size[0] * size[1] <= _MOST_ENTRIES,
        f"weights per row over at most {_MOST_ENTRIES:,.0f} numbers times signatures",
        got=f"{size[0]:,} numbers and {size[1]:,} signatures",
        fix="weights with fewer different values, or fewer groups",
        error=InvalidPlan,
    )
    dense = np.zeros(size)
    starts = np.concatenate([[0], np.cumsum(widths)[:-1]])
    for number, cells in enumerate(tables):
        line, partition = np.nonzero(cells >= 0)
        place = starts[partition] + cells[line, partition]
        dense[place, number * len(cells) + line] = weights[line, partition]
    # Signatures may differ only in partitions that are not here.
    return replace(DenseIncidence.of(dense, counts=np.tile(counts, len(tables))), distinct=False)
