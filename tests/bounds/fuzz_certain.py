"""Hunts for intervals of counts on which the programs are wrong about which classes are certain.

Every whole table of a few small classes is enumerated; larger ones are compared with an integer program for
each class and answer (``tests/bounds/test_certain.py``).
"""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
from scipy import sparse

from sightline.bounds.certain import CountIntervals, decide, upper_bound
from tests.numbered_cases import check_cases


def drawn(rng: np.random.Generator, *, classes: int, numbers: int, largest: int) -> CountIntervals:
    """A table with intervals around its counts, of which many ends are at hand."""
    sizes = rng.integers(1, largest + 1, classes).astype(np.float64)
    ends = rng.choice([0, 1, 2], classes, p=[0.45, 0.35, 0.2])
    truth = np.where(ends == 0, 0.0, np.where(ends == 1, sizes, np.floor(rng.random(classes) * (sizes + 1))))
    table = (rng.random((numbers, classes)) < 0.5).astype(np.float64)
    if rng.random() < 0.3:  # counts of a no
        table *= rng.choice([-1.0, 1.0], (numbers, 1))
    counts = table @ truth
    low, high = counts - rng.integers(0, 3, numbers), counts + rng.integers(0, 3, numbers)
    if rng.random() < 0.3:
        low = high = counts
    return CountIntervals(weights=sparse.csr_array(table), low=low, high=high, sizes=sizes, truth=truth)


def check(rng: np.random.Generator, trial: int, count: Counter[str]) -> None:
    shape = {"classes": int(rng.integers(1, 7)), "numbers": int(rng.integers(1, 6))}
    intervals = drawn(rng, **shape, largest=2)
    found, table = decide(intervals), intervals.weights.toarray()
    worlds = np.array(list(product(*(range(int(size) + 1) for size in intervals.sizes))), dtype=np.float64)
    counts = worlds @ table.T
    fitting = worlds[((counts >= intervals.low) & (counts <= intervals.high)).all(axis=1)]
    certain = (fitting.max(axis=0) == 0) | (fitting.min(axis=0) == intervals.sizes)
    assert np.array_equal(found.certain, certain), (found.certain, certain)
    assert not found.undecided.any()
    for place, weights in found.proofs.items():
        assert certain[place]
        assert upper_bound(intervals, place, weights) < 1
    count["tables"] += 1
    count["certain classes"] += int(certain.sum())
    count["without weights"] += int(certain.sum()) - len(found.proofs)


def fuzz(seed: int, seconds: float, most: float = float("inf")) -> dict[str, int]:
    """Small tables."""
    return check_cases(check, seed, seconds, most=most)
