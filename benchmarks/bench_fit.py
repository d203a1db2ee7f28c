"""The fit of 10,000 noisy numbers: by conditions, beside SciPy's LSMR in the same process and a dense solve.

From a checkout: PYTHONPATH=src python benchmarks/bench_fit.py [towns]. 60,000 people in 400 towns, regions
and three other columns have ten tables that hang together. A dense solve takes minutes at that size: its
digits are compared on a tenth of the towns.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy import sparse

from benchmarks.history import measured
from sightline.numerics.least_squares import LeastSquares, solution

TOWN, REGION, AGE, SEX, JOB = range(5)
TABLES = (
    (TOWN, AGE, SEX),
    (REGION, AGE, SEX),
    (REGION, AGE, JOB),
    (TOWN, JOB),
    (AGE, SEX),
    (TOWN,),
    (JOB,),
    (AGE,),
    (SEX,),
    (),
)


def workload(towns: int) -> tuple[sparse.csr_array, np.ndarray]:
    """Numbers × kinds of people, and the table of every number."""
    generator, people = np.random.default_rng(4), 150 * towns
    points = [generator.integers(0, size, people) for size in (towns, 1, 10, 2, 3)]
    points[REGION] = points[TOWN] // 20
    kinds = np.unique(np.stack(points, axis=1), axis=0)
    lines, owner, count = [], [], 0
    for place, columns in enumerate(TABLES):
        _, cell = np.unique(kinds[:, list(columns)], axis=0, return_inverse=True)
        lines.append(count + cell.ravel())
        owner += [place] * (int(cell.max()) + 1)
        count += int(cell.max()) + 1
    where = np.concatenate(lines), np.tile(np.arange(len(kinds)), len(TABLES))
    return sparse.csr_array((np.ones(where[0].size), where), shape=(count, len(kinds))), np.array(owner)


def drawn(rows: sparse.csr_array, owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Noisy numbers, with noise of each table from 2 to 20, and its variances."""
    generator = np.random.default_rng(5)
    stddev = generator.uniform(2, 20, len(TABLES))[owner]
    truth = rows @ generator.integers(0, 20, rows.shape[1])
    return truth + stddev * generator.standard_normal(len(owner)), stddev**2


def digits(towns: int) -> float:
    """The largest difference from a dense solve, over the noise."""
    rows, owner = workload(towns)
    noisy, variances = drawn(rows, owner)
    left, values, _ = np.linalg.svd(rows.toarray() / np.sqrt(variances)[:, None], full_matrices=False)
    left = left[:, values > 1e-9 * values[0]]
    dense = np.sqrt(variances) * (left @ (left.T @ (noisy / np.sqrt(variances))))
    fitted = LeastSquares(rows=rows, variances=variances, partition=owner).fitted(noisy)
    return float(np.max(np.abs(fitted - dense) / np.sqrt(variances)))


def main(towns: int = 400) -> None:
    """Print the times and the digits."""
    rows, owner = workload(towns)
    noisy, variances = drawn(rows, owner)
    start = time.process_time()
    system = LeastSquares(rows=rows, variances=variances, partition=owner)
    fitted = system.fitted(noisy)
    ours = time.process_time() - start
    start = time.process_time()
    by_steps = rows @ solution(rows, noisy, variances)
    rival = time.process_time() - start
    start = time.process_time()
    stddevs = system.stddevs()
    errors = time.process_time() - start
    apart = np.max(np.abs(fitted - by_steps) / np.sqrt(variances))
    print(f"{owner.size:,} numbers × {rows.shape[1]:,} kinds, {system.conditions:,} conditions")
    print(f"fit {ours:.2f} CPU s; LSMR {rival:.2f} CPU s, {apart:.0e} of the noise apart")
    print(f"errors {errors:.2f} CPU s; median {np.median(stddevs / np.sqrt(variances)):.3f} of the noise")
    few = workload(towns // 10)[1].size
    print(f"{few:,} numbers: {digits(towns // 10):.0e} of the noise off a dense solve")
    measured(f"fit, {owner.size:,} numbers", ours / rival, rival="SciPy's LSMR")


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
