"""Profiling against one pivoted QR of the same matrix; one more release against profiling from scratch."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from scipy.linalg import qr

import sightline as sl
from benchmarks.history import measured


def best_of(action: Callable[[], object], *, repeats: int = 5) -> float:
    """The shortest of a few runs: the machine's other work only ever adds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def geometry_of(rows: np.ndarray, *, whole: bool) -> sl.geometry.Geometry:
    noise = sl.GaussianNoise(stddevs=np.linspace(0.5, 2.0, len(rows)))
    integers = rows.astype(np.int64) if whole else None
    scale = 1.0 if whole else np.pi
    return sl.geometry.Geometry(jacobian=rows * scale, noise=noise, integer_rows=integers)


def profile_ratio(size: int, *, whole: bool) -> tuple[float, float]:
    generator = np.random.default_rng(0)
    rows = generator.integers(0, 2, (size, size)).astype(float)
    if not whole:
        rows = generator.standard_normal((size, size))
    limit = best_of(lambda: qr(rows, mode="r", pivoting=True, check_finite=False))

    def ours() -> None:
        assert geometry_of(rows, whole=whole).profile(target=0).identifiable

    return best_of(ours), limit


def increment_ratio(releases: int) -> tuple[float, float]:
    generator = np.random.default_rng(1)
    queries = [
        sl.SubsetMean(members=np.flatnonzero(generator.random(releases) < 0.5), radius=1.0)
        for _ in range(releases)
    ]
    geometry = sl.Transcript(queries, noise=np.ones(releases)).geometry(records=releases)
    query = sl.SubsetMean(members=range(0, releases, 3), radius=1.0)
    exposure = geometry.profile(target=0)
    scratch = best_of(lambda: geometry.profile(target=0))
    return best_of(lambda: exposure.increment(query, noise_stddev=1.0)), scratch


def main() -> None:
    print(f"{'what':58} {'ours':>9} {'limit':>9} {'ratio':>7} {'asked':>7}")
    for label, whole in (("real rows", False), ("0/1 rows, decided exactly", True)):
        ours, limit = profile_ratio(2000, whole=whole)
        print(
            f"{f'profile one target, 2000×2000 {label}, vs dgeqp3':58} {ours:8.3f}s {limit:8.3f}s"
            f" {ours / limit:7.2f} {'≤ 1':>7}"
        )
        measured(f"profile, 2,000 × 2,000 {label}", ours / limit, rival="dgeqp3")
    ours, scratch = increment_ratio(1000)
    print(
        f"{'one more release on 1,000, vs profiling again':58} {ours:8.4f}s {scratch:8.3f}s"
        f" {ours / scratch:7.3f} {'≤ 0.05':>7}"
    )
    measured("one more release on 1,000", ours / scratch, rival="profiling again")


if __name__ == "__main__":
    main()
