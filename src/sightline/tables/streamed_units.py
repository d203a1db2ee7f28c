"""Units that stay in the engine: a store of signatures is read in the passes of the assessment.

A batch of signatures is a block of units of one row each. What a pass returns travels as plain arrays, and so
does what the last pass reads of the solver: a cluster sends both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import IndexArray
from sightline.labeled.row_forms import RowForm
from sightline.labeled.unit_brackets import UnitBrackets
from sightline.labeled.unit_design import RowNoise, UnitPrior
from sightline.labeled.units import Arrays, UnitBlock, UnitReduction
from sightline.progress import Progress
from sightline.tables.cell_numbers import SignatureCells
from sightline.tables.signature_store import SignatureBatch, SignatureStore

Packed = Mapping[str, NDArray[Any]]
_TOGETHER = 1 << 21  # numbers that a pass looks up at a time
_SPARSE = ("data", "rows", "columns", "shape")  # the arrays of a sparse matrix


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamedUnits:
    """Units of one row each that are read from a store of signatures in passes."""

    store: SignatureStore
    cells: SignatureCells
    progress: Progress

    @property
    def numbers(self) -> int:
        """How many rows there are."""
        return int(self.cells.widths.sum())

    def __len__(self) -> int:
        return self.store.signatures

    def run(self, reduction: UnitReduction) -> Arrays:
        """One pass over all units."""
        unit_pass = UnitPass(cells=self.cells, reduction=reduction)
        return _unpacked(self.store.run(unit_pass, "reading every record", self.progress))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitPass:
    """A pass over units as a pass over signatures. Its arrays are plain ones, so that they can travel."""

    cells: SignatureCells
    reduction: UnitReduction

    def of_batch(self, batch: SignatureBatch) -> Packed:
        unknown = batch.counts - batch.known
        some = np.flatnonzero(unknown > 0)
        table = self.cells.table(batch.words[:, some])
        parts = [
            self.reduction.of_block(block) for block in unit_blocks(table, self.cells.widths, unknown[some])
        ]
        return _packed(self.reduction.merged(parts)) if parts else {}

    def merged(self, first: Packed, second: Packed) -> Packed:
        if not first or not second:
            return first or second
        return _packed(self.reduction.merged([_unpacked(first), _unpacked(second)]))


def _packed(arrays: Arrays) -> Packed:
    """Numbers and sparse matrices as plain arrays."""
    packed: dict[str, NDArray[Any]] = {}
    for name, value in arrays.items():
        if sparse.issparse(value):
            entries = value.tocoo()
            packed |= {f"{name} {_SPARSE[0]}": entries.data, f"{name} {_SPARSE[3]}": np.array(entries.shape)}
            packed |= {f"{name} {_SPARSE[1 + axis]}": entries.coords[axis] for axis in range(2)}
        else:
            packed[name] = np.asarray(value)
    return packed


def _unpacked(packed: Packed) -> Arrays:
    arrays: dict[str, Any] = {}
    for name, value in packed.items():
        matrix, _, part = name.rpartition(" ")
        if matrix and part == _SPARSE[0]:
            data, rows, columns, shape = (packed[f"{matrix} {one}"] for one in _SPARSE)
            entries = sparse.coo_array((data, (rows, columns)), shape=tuple(shape.tolist()))
            arrays[matrix] = sparse.csr_array(entries)
        elif not matrix:
            arrays[name] = value.item() if value.ndim == 0 else value
    return arrays


def unit_blocks(table: NDArray[np.int32], widths: IndexArray, people: NDArray[Any]) -> Iterator[UnitBlock]:
    """The units of signatures, given by their cells: partitions × signatures, -1 for none."""
    numbers = int(widths.sum())
    rows = np.where(table >= 0, table + (np.cumsum(widths) - widths)[:, None], numbers).T
    step = max(1, _TOGETHER // min(max(1, widths.size**2), numbers + 1))
    for start in range(0, len(rows), step):
        part = np.ascontiguousarray(rows[start : start + step], dtype=np.int32)
        own = people[start : start + step]
        yield UnitBlock(
            rows=part[:, None, :],
            weights=None,
            times=np.ones((len(part), 1), dtype=np.intp),
            people=own,
            alike=own.astype(np.float64),
            kinds=np.arange(start, start + len(part)),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class SolvedForms:
    """What the last pass reads of a solver, without the units that it was made from: it can travel."""

    noise: RowNoise
    prior: UnitPrior
    numbers: int
    linear: Any
    hidden: Any
    leverage: RowForm

    @classmethod
    def of(cls, brackets: UnitBrackets) -> UnitBrackets:
        """The brackets with such solvers."""
        solver, evenly = brackets.solver, brackets.evenly
        ready: Any = cls(
            noise=solver.noise,
            prior=solver.prior,
            numbers=solver.numbers,
            linear=solver.linear,
            hidden=solver.hidden,
            leverage=solver.leverage,
        )
        return replace(brackets, solver=ready, evenly=None if evenly is None else cls.of(evenly))
