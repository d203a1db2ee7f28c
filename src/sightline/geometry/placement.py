"""Queries as rows over all records (``eq:J_def``): derivatives, and whole numbers proportional to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, coordinates
from sightline.releases.query import Query

# Rows with fewer entries than this, or with a larger share of non-zero ones, are stored as plain arrays.
_SMALL, _DENSE = 1_000_000, 0.1


def place(query: Query, *, records: int, at: FloatArray | None) -> sparse.csr_array:
    """The Jacobian rows of a release over the coordinates of all records."""
    return _rows([(cell, cell.jacobian(at)) for cell in query.cells], records)


def place_integers(query: Query, *, records: int) -> sparse.csr_array | None:
    """Whole-number rows proportional to the Jacobian's, if every cell has them."""
    blocks = [(cell, cell.integer_rows()) for cell in query.cells]
    if any(block is None for _, block in blocks):
        return None
    return _rows(blocks, records)


def stack(blocks: Sequence[sparse.csr_array]) -> Any:
    """Rows of several releases, as a plain array unless they are large and sparse."""
    stacked = sparse.vstack(blocks, format="csr")
    lines, columns = stacked.shape
    if lines * columns <= _SMALL or stacked.nnz > _DENSE * lines * columns:
        return stacked.toarray()
    return stacked


def _rows(blocks: Sequence[tuple[Query, Any]], records: int) -> sparse.csr_array:
    """Blocks over the members of each cell as rows over all records, cell after cell."""
    data, lines, columns, start = [], [], [], 0
    for cell, block in blocks:
        outputs, members, dimension = block.shape
        data.append(block.ravel())
        lines.append(np.repeat(np.arange(start, start + outputs), members * dimension))
        columns.append(np.tile(coordinates(cell.members, dimension), outputs))
        start += outputs
    entries = np.concatenate(data), (np.concatenate(lines), np.concatenate(columns))
    return sparse.csr_array(entries, shape=(start, records * blocks[0][0].dimension))
