"""Every record of a membership design: ratios to raw BLAS, to the dense pseudo-inverse, and over N.

Run as a script; BLAS uses all cores unless OPENBLAS_NUM_THREADS says otherwise. The rival runs in the same
process on the same data, alternating with the library, and the best of a few rounds counts for both.
"""

from __future__ import annotations

import resource
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.linalg.blas import dtrsm

from benchmarks.history import machine_unit, measured
from sightline.bounds.membership_design import MembershipDesign

ROUNDS = 3
SHORT_ROUNDS = 20  # of runs below a tenth of a second, where a busy machine shows most


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def exposures(rows: object, lines: int) -> object:
    return MembershipDesign(rows, noise=np.full(lines, 0.05)).exposures(domain=(0, 1))


def row(name: str, figure: str, limit: str, *, note: str = "") -> None:
    print(f"{name:<58} {figure:>12} {limit:>12}  {note}", flush=True)


def against_blas() -> None:
    lines, records = 300, 200_000
    rows = np.random.default_rng(0).integers(0, 2, (lines, records)).astype(np.float64)
    factor = np.linalg.cholesky(rows @ rows.T)
    solved = rows.copy()

    def raw() -> None:
        rows @ rows.T
        np.copyto(solved, rows)
        # The transpose of a C-ordered table is Fortran-ordered: BLAS solves in place, without a copy.
        dtrsm(1.0, factor, solved.T, side=1, lower=1, trans_a=1, overwrite_b=1)

    ours, limit = [], []
    for _ in range(ROUNDS):
        limit.append(seconds(raw))
        ours.append(seconds(lambda: exposures(rows, lines)))
    note = f"{min(ours):.2f} s against {min(limit):.2f} s"
    row(
        "200,000 × 300 dense: time over A Aᵀ and one solve",
        f"{min(ours) / min(limit):.2f}×",
        "≤ 2×",
        note=note,
    )
    measured("200,000 × 300 dense", min(ours) / min(limit), rival="A Aᵀ and one solve")
    tracemalloc.start()
    exposures(rows, lines)
    peak = 1 + tracemalloc.get_traced_memory()[1] / rows.nbytes
    tracemalloc.stop()
    row("  peak memory over the input matrix, input included", f"{peak:.2f}×", "≤ 1.5×")


def against_pseudo_inverse() -> None:
    lines, records = 300, 3_000
    rows = np.random.default_rng(1).integers(0, 2, (lines, records)).astype(np.float64)
    whitened = rows / rows.sum(axis=1, keepdims=True) / 0.05
    ours = min(seconds(lambda: exposures(rows, lines)) for _ in range(SHORT_ROUNDS))
    rival = seconds(lambda: np.linalg.pinv(whitened.T @ whitened))
    row(
        "N = 3,000, L = 300: numpy.linalg.pinv(G) over ours",
        f"{rival / ours:.0f}×",
        "≥ 300×",
        note=f"{rival:.1f} s against {ours:.3f} s",
    )
    measured("pinv, 3,000 × 300", rival / ours, rival="ours", more=True)


def partitions(records: int, *, count: int = 12, cells: int = 2_500) -> sparse.csr_array:
    generator = np.random.default_rng(2)
    widths = np.full(count, cells // count)
    widths[: cells % count] += 1
    starts = np.cumsum(widths) - widths
    lines = np.concatenate(
        [start + generator.integers(0, width, records) for start, width in zip(starts, widths, strict=True)]
    )
    columns = np.tile(np.arange(records, dtype=np.int32), count)
    ones = np.ones(lines.size, dtype=np.int8)
    return sparse.coo_array((ones, (lines, columns)), shape=(cells, records)).tocsr()


def large_sparse() -> None:
    rows = partitions(2_000_000)
    cpu = time.process_time()
    elapsed = seconds(lambda: exposures(rows, 2_500))
    cpu = time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    row("2,000,000 records × 12 partitions, 2,500 rows: seconds", f"{elapsed:.0f} s", "≤ 20 s")
    row("  peak memory of the process so far", f"{peak:.2f} GiB", "≤ 3 GB")
    measured("2,000,000 × 12 partitions", cpu / machine_unit(), rival="the machine's unit", memory=peak)


def growth() -> None:
    """The exponent of N: dense, and sparse beside the part that does not depend on N."""
    sizes = np.array([100_000, 200_000, 400_000])
    table = np.random.default_rng(3).integers(0, 2, (100, sizes[-1]), dtype=np.uint8)
    times = [min(seconds(lambda n=n: exposures(table[:, :n], 100)) for _ in range(ROUNDS)) for n in sizes]
    slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    note = ", ".join(f"{n:,}: {t:.2f} s" for n, t in zip(sizes, times, strict=True))
    row("time ~ N^e, dense, L = 100: e", f"{slope:.2f}", "≈ 1", note=note)
    measured("exponent of the records, dense", slope, rival="1")
    sizes = np.array([250_000, 500_000, 1_000_000])
    times = []
    for n in sizes:
        rows = partitions(int(n), cells=240)
        times.append(min(seconds(lambda rows=rows: exposures(rows, 240)) for _ in range(ROUNDS)))
    slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    note = ", ".join(f"{n:,}: {t:.2f} s" for n, t in zip(sizes, times, strict=True))
    row("time ~ N^e, sparse, 12 partitions, 240 rows: e", f"{slope:.2f}", "≈ 1", note=note)
    measured("exponent of the records, sparse", slope, rival="1")


BENCHMARKS = {
    "sparse": large_sparse,  # first: its memory is read off the process
    "blas": against_blas,
    "pinv": against_pseudo_inverse,
    "growth": growth,
}


if __name__ == "__main__":
    row("labeled targets, every record at once", "measured", "limit")
    for name in sys.argv[1:] or BENCHMARKS:
        BENCHMARKS[name]()
