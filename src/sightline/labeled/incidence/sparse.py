"""A sparse incidence: no array of size rows × records is ever made dense."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import qr

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidRelease, require
from sightline.labeled.column_forms import ColumnForms, square
from sightline.labeled.incidence.dense import exact_doubles, multiples, numbered_columns
from sightline.labeled.incidence.protocol import EXACT, BoolArray, checked_shape
from sightline.numerics.device import HOST, Device
from sightline.progress import Progress

_BLOCK = 1 << 16
# Up to this share of the rows, looking up pairs of a record's rows beats a dense product.
_FEW = 1 / 12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparseIncidence:
    """Rows over records in compressed columns, owned and sorted, without stored zeros."""

    stored: Any  # scipy.sparse.csc_array
    whole: bool
    integral: bool
    binary: bool
    sizes: IndexArray
    peaks: FloatArray
    device: Device = HOST
    # What was computed from the rows alone and is asked for again with other noise.
    computed: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, rows: Any) -> SparseIncidence:
        """Check and copy a sparse array of weights."""
        checked_shape(rows.shape)
        require(
            rows.dtype.kind in "biuf",
            "rows as a sparse table of numbers",
            got=f"dtype {rows.dtype}",
            error=InvalidRelease,
        )
        entries = rows.nnz
        exact_doubles(np.asarray(rows.tocoo().data))
        stored = sparse.csc_array(rows, dtype=np.float64, copy=True)
        stored.sum_duplicates()
        require(
            stored.nnz == entries,
            "each member of a row once",
            got=f"{entries - stored.nnz} entries given twice",
            fix="sum them, or drop the copies",
            error=InvalidRelease,
        )
        bad = np.flatnonzero(~np.isfinite(stored.data))
        require(
            bad.size == 0,
            "finite weights",
            got=f"NaN or infinity in row {stored.indices[bad[:1]].tolist()}",
            fix="drop or impute them first",
            error=InvalidRelease,
        )
        stored.eliminate_zeros()
        row_count, records = stored.shape
        sizes = np.bincount(stored.indices, minlength=row_count).astype(np.intp)
        peaks = np.zeros(row_count)
        np.maximum.at(peaks, stored.indices, np.abs(stored.data))
        integral = bool(np.all(stored.data == np.rint(stored.data)))
        whole = integral and float(peaks.max()) ** 2 * records < EXACT
        for array in (stored.data, stored.indices, stored.indptr, sizes, peaks):
            array.setflags(write=False)
        return cls(
            stored=stored,
            whole=whole,
            integral=integral,
            binary=bool(np.all(stored.data == 1)),
            sizes=sizes,
            peaks=peaks,
        )

    @property
    def counts(self) -> None:
        return None

    @property
    def distinct(self) -> bool:
        return True

    @property
    def complete(self) -> bool:
        return True

    @property
    def row_count(self) -> int:
        return int(self.stored.shape[0])

    @property
    def records(self) -> int:
        return int(self.stored.shape[1])

    @property
    def sparse(self) -> bool:
        return bool(np.mean(self._few) > 1 / 2)

    @property
    def key_bits(self) -> int:
        return min(40, 53 - math.ceil(math.log2(max(2, self.records) * float(self.peaks.max()))))

    def on(self, device: Device) -> SparseIncidence:
        return replace(self, device=device)

    def seed(self) -> bytes:
        digest = hashlib.blake2b(repr(self.stored.shape).encode())
        for array in (self.stored.indptr, self.stored.indices):
            digest.update(array.astype(np.int64))
        if not self.binary:
            digest.update(self.stored.data)
        return digest.digest()

    def gram(self, unknown: BoolArray, progress: Progress) -> FloatArray:
        products = np.zeros((self.row_count, self.row_count))
        for _, stop, block in self._blocks(unknown):
            products += (block.tocsr() @ block.T.tocsr()).toarray()
            progress("products of rows", stop / self.records)
        return products

    def weighted_gram(self, weights: FloatArray, progress: Progress) -> FloatArray:
        products = np.zeros((self.row_count, self.row_count))
        for start, stop, block in self._blocks(np.ones(self.records, dtype=np.bool_)):
            weighted = sparse.csr_array(block @ sparse.diags_array(weights[start:stop]))
            products += (weighted @ block.T.tocsr()).toarray()
            progress("products of rows", stop / self.records)
        return products

    def images(self, unknown: BoolArray, keys: FloatArray) -> FloatArray:
        images = np.zeros((len(keys), self.row_count))
        for start, stop, block in self._blocks(unknown):
            images += (block @ keys[:, start:stop].T).T
        return images

    def forms(self, forms: ColumnForms, unknown: BoolArray, progress: Progress) -> FloatArray:
        quadratic = len(forms.offsets)
        found = np.zeros((quadratic + len(forms.linear), self.records))
        few = self._few
        matrices = forms.matrices() if quadratic and np.any(few) else ()
        diagonal = bool(matrices) and all(matrix.ndim == 1 for matrix in matrices)
        table, placed = None, forms.on(self.device)
        if matrices and not diagonal:
            table = np.stack([matrix.ravel() for matrix in map(square, matrices)], axis=1)
        for start, stop, block in self._blocks(unknown):
            part = found[:, start:stop]
            part[quadratic:] = (block.T @ forms.linear.T).T
            if diagonal:
                part[:quadratic] = forms.offsets[:, None] + (block.power(2).T @ np.stack(matrices, axis=1)).T
                continue
            sparse_here = np.flatnonzero(few[start:stop])
            if table is not None:
                _look_up(part[:quadratic], block, sparse_here, table, forms.offsets)
            dense_here = np.flatnonzero(~few[start:stop])
            for chunk in np.array_split(dense_here, -(-dense_here.size // 2048) or 1):
                if chunk.size:
                    dense = self.device.put(block[:, chunk].toarray())
                    part[:, chunk] = self.device.get(placed.of_block(dense))
            progress("records", stop / self.records)
        return found

    def columns(self, records: IndexArray) -> FloatArray:
        dense: FloatArray = self.stored[:, records].toarray()
        return dense

    def triangle(self, factors: FloatArray, scale: FloatArray) -> FloatArray:
        triangle = np.zeros((0, self.row_count))
        for start in range(0, self.records, 4096):
            block = self.stored[:, start : start + 4096].toarray() * factors[start : start + 4096]
            (triangle,) = qr(np.vstack([triangle, (block * scale[:, None]).T]), mode="r", check_finite=False)
            triangle = triangle[: self.row_count]
        return triangle

    def signatures(self, unknown: BoolArray) -> IndexArray:
        generator = np.random.default_rng(int.from_bytes(self.seed()[:16], "big"))
        multipliers = generator.integers(1 << 62, size=(2, self.row_count), dtype=np.uint64)
        bits = self.stored.data.view(np.uint64)
        bits = bits ^ (bits >> np.uint64(31))
        owner = np.repeat(np.arange(self.records), self._degree)
        keys = np.zeros((2, self.records), dtype=np.uint64)
        for key, factor in zip(keys, multipliers, strict=True):
            np.add.at(key, owner, bits * (2 * factor[self.stored.indices] + np.uint64(1)))
        keys[:, ~unknown] = 0
        return numbered_columns(keys)

    def members(self, row: int) -> IndexArray:
        return np.asarray(self.stored[[row], :].tocoo().coords[1], dtype=np.intp)

    def integers(self) -> tuple[SparseIncidence, FloatArray] | None:
        data, row_of = np.abs(self.stored.data), self.stored.indices
        bases = np.full(self.row_count, np.inf)
        np.minimum.at(bases, row_of, data)
        bases[np.isinf(bases)] = 1.0  # rows without members
        ratios = np.copysign(np.rint(data / bases[row_of]), self.stored.data)
        if not multiples(self.stored.data, ratios, bases[row_of]):
            return None
        rows = sparse.csc_array((ratios, row_of, self.stored.indptr), shape=self.stored.shape)
        return SparseIncidence.of(rows), bases

    def take(self, rows: IndexArray) -> SparseIncidence:
        return SparseIncidence(
            stored=sparse.csc_array(self.stored[rows]),
            whole=self.whole,
            integral=self.integral,
            binary=self.binary,
            sizes=self.sizes[rows],
            peaks=self.peaks[rows],
            device=self.device,
        )

    @property
    def _few(self) -> BoolArray:
        few: BoolArray = self._degree <= max(1, int(self.row_count * _FEW))
        return few

    @property
    def _degree(self) -> IndexArray:
        return np.asarray(np.diff(self.stored.indptr), dtype=np.intp)

    def _blocks(self, unknown: BoolArray) -> Iterator[tuple[int, int, Any]]:
        for start in range(0, self.records, _BLOCK):
            stop = min(start + _BLOCK, self.records)
            block = self.stored[:, start:stop]
            mask = unknown[start:stop]
            if not mask.all():
                block = sparse.csc_array(block @ sparse.diags_array(mask.astype(np.float64)))
            yield start, stop, block


def _look_up(
    out: FloatArray, block: Any, records: IndexArray, table: FloatArray, offsets: FloatArray
) -> None:
    """Quadratic forms of records in few rows: a sum over the pairs of a record's own rows.

    A row of ``table`` is a pair, a column a form.
    """
    if records.size == 0:
        return
    row_count = block.shape[0]
    starts, degrees = block.indptr[:-1][records], np.diff(block.indptr)[records]
    out[:, records] = offsets[:, None]
    for degree in np.unique(degrees[degrees > 0]):
        chosen = degrees == degree
        places = starts[chosen][:, None] + np.arange(degree)
        rows, weights = block.indices[places].astype(np.intp), block.data[places]
        total = np.zeros((len(rows), out.shape[0]))
        for p in range(degree):
            for q in range(p + 1):
                entries = np.take(table, rows[:, p] * row_count + rows[:, q], axis=0)
                entries *= (weights[:, p] * weights[:, q] * (1.0 if p == q else 2.0))[:, None]
                total += entries
        out[:, records[chosen]] += total.T
