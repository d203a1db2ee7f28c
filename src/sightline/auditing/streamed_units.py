"""Units that stay in the engine: a store of signatures or persons is read in the passes of the assessment.

A batch is a table of some records, and is lowered like one. What a pass returns travels as plain arrays, and
so does what the last pass reads of the solver: a cluster sends both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import IndexArray
from sightline.auditing.lowering import UnitLowering
from sightline.labeled.row_forms import RowForm
from sightline.labeled.unit_brackets import UnitBrackets
from sightline.labeled.unit_design import RowNoise, UnitPrior
from sightline.labeled.units import Arrays, UnitReduction, Units
from sightline.progress import Progress
from sightline.tables.encoding import PackedCodes
from sightline.tables.engines.protocol import SignatureBatch, SignatureStore
from sightline.tables.membership import Membership
from sightline.tables.streamed import BatchTables

Packed = Mapping[str, NDArray[Any]]
_SPARSE = ("data", "rows", "columns", "shape")  # the arrays of a sparse matrix


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchUnits:
    """How a batch becomes units. It can travel."""

    batches: BatchTables
    lowering: UnitLowering

    def of(self, batch: SignatureBatch) -> tuple[Membership, PackedCodes, Units, IndexArray]:
        """The table of a batch, the words of its signatures, its units, and the unit of every record."""
        membership, words = self.batches.of(batch)
        return membership, words, *self.lowering.units(membership)


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamedUnits:
    """Units that are read from a store in passes."""

    store: SignatureStore
    made: BatchUnits
    progress: Progress

    @property
    def numbers(self) -> int:
        """How many rows there are."""
        order = list(self.made.lowering.order)
        return int(np.diff(self.made.batches.membership.starts)[order].sum())

    def __len__(self) -> int:
        return self.store.signatures

    def run(self, reduction: UnitReduction) -> Arrays:
        """One pass over all units."""
        unit_pass = UnitPass(made=self.made, reduction=reduction)
        return _unpacked(self.store.run(unit_pass, "reading every record", self.progress))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitPass:
    """A pass over units as a pass over signatures. Its arrays are plain ones, so that they can travel."""

    made: BatchUnits
    reduction: UnitReduction

    def of_batch(self, batch: SignatureBatch) -> Packed:
        *_, units, _ = self.made.of(batch)
        parts = [self.reduction.of_block(block) for block in units.every_block()]
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
