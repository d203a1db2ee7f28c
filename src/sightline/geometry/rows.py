"""The rows of a transcript at an operating point, and the noise that whitens them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import FloatArray, coordinates, frozen_floats
from sightline.errors import require
from sightline.geometry.frame import dense, whole_numbers
from sightline.noise.laws import Noise, Rows, require_noise
from sightline.releases.query import Query


@dataclass(frozen=True, kw_only=True, eq=False)
class WhitenedRows:
    r"""Rows of derivatives, one per published number, and the noise on them.

    ``jacobian`` is :math:`J` with a column per coordinate of a record (``eq:J_def``), dense or sparse;
    ``integer_rows`` are whole numbers proportional to it row by row, if there are any: with them every
    decision is exact.
    """

    jacobian: Rows
    noise: Noise
    dimension: int = 1
    integer_rows: NDArray[np.int64] | sparse.csr_array | None = None
    labels: tuple[str, ...] | None = None
    at: FloatArray | None = None  # the operating point: record values, owner-only
    first_outputs: int = 1  # how many of the rows belong to the first release

    def __post_init__(self) -> None:
        if isinstance(self.jacobian, np.ndarray | list | tuple):
            object.__setattr__(self, "jacobian", frozen_floats(self.jacobian, name="jacobian", ndim=2))
        else:
            object.__setattr__(self, "jacobian", sparse.csr_array(self.jacobian, dtype=np.float64))
            require(
                bool(np.all(np.isfinite(self.jacobian.data))),
                "finite jacobian",
                got="NaN or infinite entries",
            )
        lines, columns = self.jacobian.shape
        require(lines > 0, "at least one row", got=lines, fix="give at least one release")
        require(
            self.noise.outputs == lines,
            f"noise for {lines} answers",
            got=f"noise for {self.noise.outputs}",
            fix="give one noise level for each published number",
        )
        require(
            self.dimension >= 1 and columns % self.dimension == 0,
            f"columns in records of {self.dimension} coordinates",
            got=f"{columns} columns",
        )
        if self.integer_rows is None and isinstance(self.jacobian, np.ndarray):
            object.__setattr__(self, "integer_rows", whole_numbers(self.jacobian))
        if self.integer_rows is not None:
            shape = self.integer_rows.shape
            require(
                shape == (lines, columns), f"integer rows of shape {(lines, columns)}", got=f"shape {shape}"
            )
        if self.labels is not None:
            require(len(self.labels) == columns, f"{columns} labels", got=len(self.labels))
        require_noise(self.noise, self.jacobian)

    @property
    def records(self) -> int:
        """How many records the rows are about."""
        return int(self.jacobian.shape[1]) // self.dimension

    @property
    def pattern(self) -> Rows:
        """The rows that show which columns are equal: whole numbers if there are any, else the Jacobian."""
        return self.jacobian if self.integer_rows is None else self.integer_rows

    @cached_property
    def whitened(self) -> Rows:
        r"""The whitened Jacobian :math:`\Sigma^{-1/2} J` (``eq:whitened_J``)."""
        return self.noise.whiten(self.jacobian)

    @property
    def information(self) -> FloatArray:
        r"""The Fisher information of all records, :math:`J^\top \Sigma^{-1} J` (``eq:FIM``)."""
        W = self.whitened
        gram = W.T @ W
        return np.asarray(dense(gram))

    def rows_of(self, query: Query) -> tuple[FloatArray, NDArray[np.int64] | None]:
        """The rows that one more release would add, and the same as whole numbers if it has them."""
        require(
            query.linear or self.at is not None,
            "a linear release, or a geometry with an operating point",
            got="neither",
            fix="build the geometry with at=records",
        )
        reach = int(query.members[-1]) + 1
        require(
            reach <= self.records and query.dimension == self.dimension,
            f"a release over these {self.records} records of dimension {self.dimension}",
            got=f"members up to {reach - 1} and dimension {query.dimension}",
        )
        rows = place(query, records=self.records, at=self.at)
        integers = place_integers(query, records=self.records)
        return dense(rows), None if integers is None else dense(integers)

    def label(self, column: int) -> str:
        """The name of a column."""
        if self.labels is not None:
            return self.labels[column]
        record, coordinate = divmod(int(column), self.dimension)
        return f"x{record}" if self.dimension == 1 else f"x{record}[{coordinate}]"


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
