"""A dense incidence: 0/1 rows are stored as packed bits, other weights as they are.

An accelerator holds a copy of what is stored. It unpacks blocks of records into double precision, in which
sums of whole numbers are exact below :math:`2^{53}`, in every order of summation.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidRelease, require
from sightline.labeled.column_forms import ColumnForms
from sightline.labeled.incidence.protocol import EXACT, BoolArray, checked_shape
from sightline.numerics.device import HOST, Device
from sightline.progress import Progress

# Records in a block: a multiple of 8 (packed bits), small enough for the cache, large enough for BLAS. Sums
# over a block of limbs of 24 - 12 bits are exact in single precision.
_BLOCK = 4096
_SINGLE_BITS = 24 - 12
# Bytes that are hashed at a time, by as many threads as there are cores.
_HASHED = 1 << 24
# Entries of a block on an accelerator: a gigabyte in double precision.
_LARGE_BLOCK = 1 << 27


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DenseIncidence:
    """Dense rows over records. The arrays are copies and locked."""

    stored: Any  # packed bits along the records if binary, else the weights
    records: int
    binary: bool
    whole: bool
    integral: bool
    sizes: IndexArray
    peaks: FloatArray
    counts: IndexArray | None = None
    distinct: bool = True
    device: Device = HOST
    placed: Any = None  # what is stored, on the device

    @classmethod
    def of(cls, rows: ArrayLike, *, counts: IndexArray | None = None) -> DenseIncidence:
        """Check, copy and lock a table of weights; 0/1 tables shrink to bits.

        ``counts`` says how many records each column stands for: different columns, or different groups.
        """
        try:
            table = np.asarray(rows)
        except ValueError:
            raise InvalidRelease(
                "expected rows of one length, got rows of different lengths; lists of members need records=N"
            ) from None
        require(
            table.dtype.kind in "biuf",
            "rows as a table of numbers",
            got=f"dtype {table.dtype}",
            error=InvalidRelease,
        )
        everyone = table.shape[-1] if counts is None else int(counts.sum())
        checked_shape((*table.shape[:-1], everyone))
        row_count, records = table.shape
        sizes = np.empty(row_count, dtype=np.intp)
        peaks = np.empty(row_count)
        packed = np.empty((row_count, -(-records // 8)), dtype=np.uint8)
        binary, whole = True, True
        for i, row in enumerate(table):  # row by row: no temporary of the table's size
            ones = row != 0
            sizes[i] = np.count_nonzero(ones)
            packed[i] = np.packbits(ones)
            if row.dtype.kind == "b" or np.count_nonzero(row == 1) == sizes[i]:
                peaks[i] = 1.0
                continue
            peak = max(float(np.max(row)), -float(np.min(row)))  # the least integer has no absolute value
            require(
                math.isfinite(peak),
                "finite weights",
                got=f"NaN or infinity in row {i}",
                fix="drop or impute them first",
                error=InvalidRelease,
            )
            peaks[i] = peak
            binary = False
            whole = whole and bool(np.all(row == np.rint(row)))
        largest = float(peaks.max())
        integral, whole = whole, whole and largest**2 * everyone < EXACT
        stored = packed if binary else _compact(table, largest, whole)
        for array in (stored, sizes, peaks):
            array.setflags(write=False)
        return cls(
            stored=stored,
            records=records,
            binary=binary,
            whole=whole,
            integral=integral,
            sizes=sizes,
            peaks=peaks,
            counts=counts,
        )

    @property
    def complete(self) -> bool:
        return True

    @property
    def row_count(self) -> int:
        return len(self.sizes)

    @property
    def sparse(self) -> bool:
        return False

    @property
    def key_bits(self) -> int:
        if self.binary:
            return _SINGLE_BITS
        return min(40, 53 - math.ceil(math.log2(self.records * float(self.peaks.max()))))

    def on(self, device: Device) -> DenseIncidence:
        return replace(self, device=device, placed=None if device.host else device.put(self.stored))

    def seed(self) -> bytes:
        header = repr((self.stored.shape, self.stored.dtype.str, self.records)).encode()
        counts = b"" if self.counts is None else hashlib.blake2b(self.counts.data).digest()
        return hashlib.blake2b(header + _digest(self.stored) + counts).digest()

    def gram(self, unknown: BoolArray, progress: Progress) -> FloatArray:
        # Single precision is exact for sums over a block of ones, or of counts of some hundreds.
        many = self.counts is not None and int(self.counts.max()) >= _BLOCK
        products = self.device.put(np.zeros((self.row_count, self.row_count)))
        for start, stop, block in self._placed_blocks(unknown, np.float64 if many else self._precision):
            products += self._counted(block, start, stop) @ block.T
            progress("products of rows", stop / self.records)
        return np.asarray(self.device.get(products))

    def weighted_gram(self, weights: FloatArray, progress: Progress) -> FloatArray:
        everyone = np.ones(self.records, dtype=np.bool_)
        counted = weights if self.counts is None else weights * self.counts
        products = self.device.put(np.zeros((self.row_count, self.row_count)))
        for start, stop, block in self._placed_blocks(everyone, np.float64):
            products += (block * self.device.put(counted[start:stop])) @ block.T
            progress("products of rows", stop / self.records)
        return np.asarray(self.device.get(products))

    def images(self, unknown: BoolArray, keys: FloatArray) -> FloatArray:
        narrow = keys.astype(self._precision if self.device.host else np.float64)
        images = self.device.put(np.zeros((len(keys), self.row_count)))
        for start, stop, block in self._placed_blocks(unknown, self._precision):
            images += self.device.put(narrow[:, start:stop]) @ block.T
        return np.asarray(self.device.get(images))

    def forms(self, forms: ColumnForms, unknown: BoolArray, progress: Progress) -> FloatArray:
        found = np.zeros((len(forms.offsets) + len(forms.linear), self.records))
        placed, waiting = forms.on(self.device), []
        for start, stop, block in self._placed_blocks(unknown, np.float64):
            values = placed.of_block(block)
            if self.device.host:
                found[:, start:stop] = values
            else:  # an accelerator goes on with the next block meanwhile
                waiting.append((start, stop, values))
            progress("records", stop / self.records)
        for start, stop, values in waiting:
            found[:, start:stop] = self.device.get(values)
        return found

    def columns(self, records: IndexArray) -> FloatArray:
        if not self.binary:
            return np.asarray(self.stored[:, records], dtype=np.float64)
        bits = (self.stored[:, records // 8] >> (7 - records % 8).astype(np.uint8)) & 1
        return np.asarray(bits, dtype=np.float64)

    def triangle(self, factors: FloatArray, scale: FloatArray) -> FloatArray:
        triangle = np.zeros((0, self.row_count))
        for start, stop, block in self._blocks(factors != 0, np.float64):
            block *= factors[start:stop]
            if self.counts is not None:
                block *= np.sqrt(self.counts[start:stop])
            (triangle,) = qr(np.vstack([triangle, (block * scale[:, None]).T]), mode="r", check_finite=False)
            triangle = triangle[: self.row_count]
        return triangle

    def signatures(self, unknown: BoolArray) -> IndexArray:
        # Odd multipliers on the bits of the weights, summed with wrap-around: equal columns, equal sums.
        multipliers = np.random.default_rng(int.from_bytes(self.seed()[:16], "big")).integers(
            1 << 62, size=(self.row_count, 2), dtype=np.uint64
        )
        keys = np.zeros((2, self.records), dtype=np.uint64)
        for start, stop, block in self._blocks(unknown, np.float64):
            bits = (block + 0.0).view(np.uint64)
            bits ^= bits >> np.uint64(31)  # mixes the exponent into the low bits, where products keep it
            for key, factor in zip(keys, multipliers.T, strict=True):
                key[start:stop] = (bits * (2 * factor[:, None] + np.uint64(1))).sum(axis=0, dtype=np.uint64)
        return numbered_columns(keys)

    def members(self, row: int) -> IndexArray:
        weights = np.unpackbits(self.stored[row], count=self.records) if self.binary else self.stored[row]
        return np.flatnonzero(weights)

    def integers(self) -> tuple[DenseIncidence, FloatArray] | None:
        sizes = np.where(self.stored != 0, np.abs(self.stored), np.inf)
        bases: FloatArray = sizes.min(axis=1)
        bases[np.isinf(bases)] = 1.0  # rows without members
        with np.errstate(over="ignore"):  # an infinite ratio is no multiple
            ratios = np.rint(self.stored / bases[:, None])
        if not multiples(self.stored, ratios, bases[:, None]):
            return None
        return DenseIncidence.of(ratios, counts=self.counts).on(self.device), bases

    def take(self, rows: IndexArray) -> DenseIncidence:
        return DenseIncidence(
            stored=self.stored[rows],
            records=self.records,
            binary=self.binary,
            whole=self.whole,
            integral=self.integral,
            sizes=self.sizes[rows],
            peaks=self.peaks[rows],
            counts=self.counts,
            distinct=self.distinct and len(rows) == self.row_count,
        ).on(self.device)

    @property
    def _precision(self) -> type[np.float32] | type[np.float64]:
        return np.float32 if self.binary else np.float64

    def _counted(self, block: Any, start: int, stop: int) -> Any:
        """Columns times the records that they stand for; the block itself if one: BLAS squares it faster."""
        if self.counts is None or bool(np.all(self.counts[start:stop] == 1)):
            return block
        if not self.device.host:
            return block * self.device.put(self.counts[start:stop].astype(np.float64))
        return block * self.counts[start:stop].astype(block.dtype)

    def _placed_blocks(
        self, unknown: BoolArray, precision: type[np.float32] | type[np.float64]
    ) -> Iterator[tuple[int, int, Any]]:
        """Blocks where the sweeps run; on an accelerator always in double precision."""
        if self.device.host:
            yield from self._blocks(unknown, precision)
            return
        step = max(_BLOCK, _LARGE_BLOCK // self.row_count // 8 * 8)
        shifts = self.device.put(np.arange(7, -1, -1, dtype=np.uint8))
        for start in range(0, self.records, step):
            stop = min(start + step, self.records)
            if self.binary:
                bits = self.placed[:, start // 8 : -(-stop // 8)]
                ones = self.device.floats((bits[:, :, None] >> shifts) & 1)
                block = ones.reshape(self.row_count, -1)[:, : stop - start]
            else:
                block = self.device.floats(self.placed[:, start:stop])
            if not unknown[start:stop].all():
                block = block * self.device.put(unknown[start:stop].astype(np.float64))
            yield start, stop, block

    def _blocks(
        self, unknown: BoolArray, precision: type[np.float32] | type[np.float64]
    ) -> Iterator[tuple[int, int, Any]]:
        for start in range(0, self.records, _BLOCK):
            stop = min(start + _BLOCK, self.records)
            if self.binary:
                bits = self.stored[:, start // 8 : -(-stop // 8)]
                block = np.unpackbits(bits, axis=1, count=stop - start).astype(precision)
            else:
                block = self.stored[:, start:stop].astype(precision)
            known = np.flatnonzero(~unknown[start:stop])
            block[:, known] = 0
            yield start, stop, block


def _digest(stored: NDArray[np.generic]) -> bytes:
    """A hash of the hashes of parts. Hashing releases the interpreter lock."""
    flat = np.ascontiguousarray(stored).reshape(-1).view(np.uint8)
    parts = [flat[start : start + _HASHED] for start in range(0, flat.size, _HASHED)]
    with ThreadPoolExecutor() as pool:
        digests = pool.map(lambda part: hashlib.blake2b(part).digest(), parts)
        return hashlib.blake2b(b"".join(digests)).digest()


def numbered_columns(keys: NDArray[np.generic]) -> IndexArray:
    """Numbers 0, 1, … for the distinct columns of ``keys``, in the order of their first appearance.

    >>> numbered_columns(np.array([[7, 3, 7, 5], [1, 1, 1, 1]])).tolist()
    [0, 1, 0, 2]
    """
    order = np.argsort(keys[-1])
    ordered = keys[:, order]
    starts = ordered[-1, 1:] != ordered[-1, :-1]
    if np.any((ordered[:-1, 1:] != ordered[:-1, :-1]) & ~starts):  # one line alone does not tell them apart
        order = np.lexsort(keys)
        ordered = keys[:, order]
        starts = np.any(ordered[:, 1:] != ordered[:, :-1], axis=0)
    run = np.concatenate([[0], np.cumsum(starts)])
    first = np.minimum.reduceat(order, np.flatnonzero(np.concatenate([[True], starts])))
    rank = np.empty(first.size, dtype=np.intp)
    rank[np.argsort(first)] = np.arange(first.size)
    kind = np.empty(order.size, dtype=np.intp)
    kind[order] = rank[run]
    return kind


def multiples(values: FloatArray, ratios: FloatArray, bases: FloatArray) -> bool:
    """Whether values are exactly these whole multiples of bases, all below 2²⁰.

    >>> multiples(np.array([0.1, 0.4]), np.array([1.0, 4.0]), np.array([0.1, 0.1]))
    True
    >>> multiples(np.array([0.1, 0.3]), np.array([1.0, 3.0]), np.array([0.1, 0.1]))
    False
    """
    if values.size and float(np.max(np.abs(ratios))) >= 2**20:
        return False
    # Both products are exact, and so is the difference of two numbers that are nearly equal.
    high = (np.ascontiguousarray(bases).view(np.int64) & ~np.int64((1 << 27) - 1)).view(np.float64)
    return bool(np.all(values - ratios * high == ratios * (bases - high)))


def exact_doubles(weights: NDArray[np.generic]) -> FloatArray:
    """The weights as doubles; integers that a double cannot hold are refused rather than rounded."""
    doubles = weights.astype(np.float64)
    if weights.dtype.kind in "iu":
        large = np.abs(doubles) >= EXACT
        same = doubles[large].astype(object) == weights[large].astype(object)
        require(
            bool(np.all(same)),
            "integer weights that a double holds exactly: below 2^53",
            got="larger ones",
            fix="divide the row by a common factor",
            error=InvalidRelease,
        )
    return doubles


def _compact(table: NDArray[np.generic], largest: float, whole: bool) -> NDArray[np.generic]:
    if not whole:
        return exact_doubles(table)
    widths = (np.int8, np.int16, np.int32)
    return table.astype(next((w for w in widths if largest <= np.iinfo(w).max), np.int64))
