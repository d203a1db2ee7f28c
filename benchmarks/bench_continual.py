"""Running sums: what each mechanism costs, how far off its numbers are, and how sharply it shows one person.

Every cell of the table is computed twice: by the strategies and audits of Sightline, and densely from the
matrices of a textbook. The lone person is alone on a day after the first, where they are seen best.
``python benchmarks/bench_continual.py --large`` also audits T = 4,096 and 100,000 people, with its time.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
import polars

import sightline as sl
from sightline.noise.strategies import Strategy

MECHANISMS = {
    "independent": "independent",
    "noisy days": "noisy-steps",
    "tree, online": "tree",
    "tree, least squares": "tree-least-squares",
    "square-root Toeplitz": "toeplitz-sqrt",
}


def textbook(name: str, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Strategy C and decoder B, written down without the library."""
    A = np.tri(steps)
    if name == "independent":
        return A, np.eye(steps)
    if name == "noisy days":
        return np.eye(steps), A
    if name == "square-root Toeplitz":
        first = np.array([float(math.comb(2 * k, k) / 4**k) for k in range(steps)])
        apart = np.arange(steps)[:, None] - np.arange(steps)
        C = np.where(apart >= 0, first[np.abs(apart)], 0.0)
        return C, C
    nodes = [(size * k, size * (k + 1)) for size in _sizes(steps) for k in range(steps // size)]
    day = np.arange(steps)
    C = np.array([(a <= day) & (day < b) for a, b in nodes], dtype=np.float64)
    if name == "tree, least squares":
        return C, A @ np.linalg.pinv(C)
    place = {node: number for number, node in enumerate(nodes)}
    B = np.zeros((steps, len(nodes)))
    for t in range(1, steps + 1):
        start = 0
        for size in reversed(_sizes(steps)):
            if t & size:
                B[t - 1, place[start, start + size]] = 1.0
                start += size
    return C, B


def _sizes(steps: int) -> list[int]:
    return [2**level for level in range(steps.bit_length()) if 2**level <= steps]


def dense(name: str, steps: int) -> tuple[float, float, float, int]:
    """Sensitivity, largest error, the lone person's error, and the day on which they are seen best."""
    C, B = textbook(name, steps)
    stddev = float(np.linalg.norm(C, axis=0).max())
    noise = stddev**2 * B @ B.T
    days = np.diff(np.diff(np.pad(noise, ((1, 0), (1, 0))), axis=0), axis=1)  # of a sum less the one before
    errors = np.sqrt(days.diagonal())
    best = 1 + int(np.argmin(errors[1:].round(9)))
    return stddev, math.sqrt(noise.diagonal().max()), float(errors[best]), best + 1


def audited(name: str, steps: int, day: int) -> tuple[float, float, float, float]:
    """The same from a plan with one person on that day and two on all others; and epsilon at delta = 1e-6."""
    mechanism = MECHANISMS[name]
    others = np.repeat(np.delete(np.arange(1, steps + 1), day - 1), 2)
    plan = _plan(np.concatenate([[day], others]), steps, mechanism)
    (lone,) = sl.explain(plan, record="0").exposed
    result = sl.audit(plan, verdict_only=True)
    strategy = Strategy.named(mechanism, steps)
    stddev = strategy.sensitivity(1).value
    largest = stddev * math.sqrt(float(strategy.published_variances.max()))
    return stddev, largest, lone.rmse or math.inf, result.budget.spent["gaussian-dp"]


def _plan(days: np.ndarray, steps: int, mechanism: str) -> dict[str, object]:
    values = np.random.default_rng(0).random(days.size)
    people = polars.DataFrame({"person": np.arange(days.size), "day": days, "x": values})
    noise = {"mechanism": mechanism, "noise_multiplier": 1.0}
    release = {
        "name": "running total",
        "sql": "SELECT day, SUM(x) FROM data GROUP BY day",
        "running": {"over": "day", "from": 1, "to": steps},
        "noise": noise,
    }
    return {
        "data": {"source": people, "record": "person", "secret": "x", "bounds": [0, 1]},
        "privacy": {"delta": 1e-6},
        "limits": {"remaining_uncertainty": 0.5},
        "release": [release],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1024)
    parser.add_argument("--large", action="store_true", help="also T = 4,096 and 100,000 people")
    options = parser.parse_args()
    print(f"T = {options.steps:,}, mu = 1; in brackets by the dense computation")
    print(f"{'':22}{'sensitivity':>20}{'largest error':>20}{'lone person':>20}{'epsilon':>9}")
    for name in MECHANISMS:
        *other, day = dense(name, options.steps)
        *found, epsilon = audited(name, options.steps, day)
        assert np.allclose(found, other, rtol=1e-6), (name, found, other)
        cells = "".join(
            f"{mine:>11.5g} ({theirs:.5g})".rjust(20) for mine, theirs in zip(found, other, strict=True)
        )
        print(f"{name:22}{cells}{epsilon:>9.4g}")
    if options.large:
        days = np.random.default_rng(1).integers(1, 4097, 100_000)
        start, cpu = time.perf_counter(), time.process_time()
        result = sl.audit(_plan(days, 4096, "toeplitz-sqrt", "online"))
        took = f"{time.perf_counter() - start:.0f} s, {time.process_time() - cpu:.0f} s of CPU"
        print(f"T = 4,096, 100,000 people: {result.verdict.status}, {took}")


if __name__ == "__main__":
    main()
