"""The simulated belief about each class against the posterior by enumeration."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import sparse

from sightline.bounds.certain import CountIntervals
from sightline.bounds.likely import posterior_means
from sightline.noise.count_rules import CountRule
from tests.numbered_cases import trials


def drawn(case: int) -> tuple[CountIntervals, float]:
    rng = np.random.default_rng([48, case])
    classes, numbers = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    weights = rng.integers(0, 2, (numbers, classes)).astype(float)
    weights[0] = 1.0
    sizes = rng.integers(1, 4, classes).astype(float)
    truth = np.array([float(rng.integers(0, size + 1)) for size in sizes])
    rule = CountRule(to=int(rng.integers(2, 6)), below=int(rng.choice([0, 2])))
    low, high = rule.known_of_counts(weights @ truth)
    share = float(rng.choice([0.3, 0.5]))
    return CountIntervals(
        weights=sparse.csr_array(weights), low=low, high=high, sizes=sizes, truth=truth
    ), share


@pytest.mark.parametrize("case", trials(24))
def test_the_walk_has_the_posterior_of_enumeration(case: int) -> None:
    intervals, share = drawn(case)
    total, mean = 0.0, np.zeros(intervals.sizes.size)
    for world in product(*(range(int(size) + 1) for size in intervals.sizes)):
        table = np.array(world, dtype=float)
        if intervals.meets(table):
            pairs = zip(world, intervals.sizes.astype(int).tolist(), strict=True)
            chance = math.prod(math.comb(n, x) * share**x * (1 - share) ** (n - x) for x, n in pairs)
            total += chance
            mean += chance * table
    exact = mean / total / intervals.sizes
    found = posterior_means(intervals, share=share, steps=40_000, seed=1)
    # Four standard errors of 32,000 dependent steps, of which one in twenty is taken to be fresh.
    assert np.all(np.abs(found - exact) < 4 * np.sqrt(exact * (1 - exact) / 1_600) + 2e-3)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    intervals, share = drawn(3)
    one, two, other = (posterior_means(intervals, share=share, steps=2_000, seed=seed) for seed in (7, 7, 8))
    assert one.tobytes() == two.tobytes()
    assert one.tobytes() != other.tobytes()
