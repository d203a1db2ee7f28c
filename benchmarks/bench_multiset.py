"""Release curves against a straightforward loop and against factorising afresh, on the same data.

Each line is a ratio of best-of-several times; "digits" is the largest relative error against exact fractions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

import sightline as sl
from benchmarks.history import measured

ACCOUNTANT = sl.BasicComposition(sl.Budget(epsilon=1.0, delta=1e-5))


def best_time(job: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return min(times)


def gram_loop(groups: np.ndarray, family: sl.multiset.Family, counts: range) -> np.ndarray:
    """What one would write first: a Gram matrix, its inverse and the trace, for every group and count."""
    kappa = ACCOUNTANT.kappa(counts)
    rows = family.rows(groups, counts[-1])
    crb = np.empty((len(groups), len(counts)))
    for b in range(len(groups)):
        for i, count in enumerate(counts):
            G = rows[b, :count]
            crb[b, i] = kappa[i] * np.trace(np.linalg.inv(G.T @ G))
    return crb


def exact_curve(pair: np.ndarray, counts: range) -> list[float]:
    """The bound for a pair under moments, each double taken for the exact number that it is."""
    z, kappa = [Fraction(float(value)) for value in pair], ACCOUNTANT.kappa(counts)
    found, (a, b, c) = [], (Fraction(0),) * 3
    for order in range(1, counts[-1] + 1):
        x, y = (order * value ** (order - 1) / (1 if order % 2 == 0 else 2) for value in z)
        a, b, c = a + x * x, b + x * y, c + y * y
        if order in counts:
            found.append(float(kappa[len(found)]) * float((a + c) / (a * c - b * b)))
    return found


def many_pairs() -> None:
    groups = np.random.default_rng(0).uniform(-1, 1, (10_000, 2))
    family, counts = sl.Moments(), range(2, 41)

    def ours() -> np.ndarray:
        return sl.multiset.release_curves(groups, family=family, accountant=ACCOUNTANT, releases=counts).crb

    crb = ours()
    fast = best_time(ours, 7)
    slow = best_time(lambda: gram_loop(groups, family, counts), 1)
    limit = best_time(lambda: family.rows(groups, counts[-1]), 7)
    closest = np.argsort(np.abs(np.diff(groups, axis=1)[:, 0]))[:40]
    truth = np.array([exact_curve(np.sort(groups[b]), counts) for b in closest])
    loop = gram_loop(groups[closest], family, counts)
    print("10,000 pairs, moments 2..40")
    print(f"  loop (Gram, inverse, trace) / ours     {slow / fast:8.1f}   (wanted: at least 50)")
    print(f"  ours / computing the rows alone        {fast / limit:8.1f}   (lower limit 1)")
    print(f"  digits on the 40 closest pairs: ours   {np.max(np.abs(crb[closest] / truth - 1)):8.1e}")
    print(f"                                  loop   {np.max(np.abs(loop / truth - 1)):8.1e}")
    measured("a loop over 10,000 pairs", slow / fast, rival="ours", more=True)


def one_long_curve() -> None:
    m, longest = 200, 2_000
    generator = np.random.default_rng(1)
    values = np.linspace(-0.99, 0.99, m) + generator.uniform(-0.002, 0.002, m)
    grid = -1 + (2 * np.arange(1, longest + 1) - 1) / longest
    family = sl.Thresholds(bandwidth=0.01, grid=grid, order="bisecting")
    counts = range(m, longest + 1)
    rows = family.rows(np.sort(values)[None], longest)[0]
    kappa = ACCOUNTANT.kappa(counts)

    def ours() -> sl.multiset.ReleaseCurve:
        return sl.release_curve(values, family=family, accountant=ACCOUNTANT, releases=counts)

    def afresh() -> np.ndarray:
        crb = np.empty(len(counts))
        for i, count in enumerate(counts):
            triangle = np.linalg.qr(rows[:count], mode="r")
            crb[i] = kappa[i] * np.sum(np.linalg.inv(triangle) ** 2)
        return crb

    curve = ours()
    fast = best_time(ours, 5)
    start = time.perf_counter()
    reference = afresh()
    slow = time.perf_counter() - start
    limit = best_time(lambda: np.linalg.qr(rows, mode="r"), 3)
    trusted = np.isfinite(curve.crb)
    difference = np.max(np.abs(curve.crb[trusted] / reference[trusted] - 1))
    print("one group of 200 values, 2,000 thresholds added one by one")
    print(f"  ours / factorising afresh at every L   {fast / slow:8.4f}   (wanted: at most {1 / 20})")
    print(f"  ours / one factorisation of all rows   {fast / limit:8.1f}   (lower limit 1)")
    print(f"  largest relative difference            {difference:8.1e}")
    print(f"  largest error that ours estimates      {np.max(curve.relative_error[trusted]):8.1e}")
    print(f"  counts without digits                  {int(np.sum(~trusted)):8d}")
    measured("2,000 thresholds one by one", fast / slow, rival="factorising afresh")


if __name__ == "__main__":
    many_pairs()
    print()
    one_long_curve()
