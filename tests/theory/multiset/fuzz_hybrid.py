"""Hunt: random hybrid transcripts against a pseudo-inverse, and the lower bound against the attack."""

from __future__ import annotations

import math
import time

import numpy as np

import sightline as sl
from tests.theory.multiset.hybrid_cases import losses_under_the_prior, zcdp


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Draw groups, families and budgets until the time is over."""
    generator = np.random.default_rng(seed)
    counted = {"splits": 0, "attacked": 0}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        m = int(generator.integers(2, 5))
        group = generator.uniform(-1, 1, m)
        if generator.random() < 0.2:
            group = group.round(1)
        target, releases = int(generator.integers(m)), int(generator.integers(1, 10))
        family = sl.Moments() if generator.random() < 0.6 else sl.Thresholds(bandwidth=0.3)
        epsilon = float(10 ** generator.uniform(0, 4))
        splits = sl.multiset.HybridSplits(
            group=group, target=target, family=family, accountant=zcdp(epsilon), releases=releases
        )
        case = (group.tolist(), target, releases, epsilon)
        for features, bound in zip(splits.features.tolist(), splits.local, strict=True):
            means, counts = splits.means(features)
            symmetric = family.rows(group[None], max(features, 1))[0][:features]
            rows = np.concatenate([symmetric, means * np.sqrt(counts)[:, None]])
            counted["splits"] += 1
            inverse = np.linalg.pinv(rows)
            decided = np.linalg.cond(rows) < 1e6 and np.linalg.matrix_rank(rows) == m
            naive = splits.kappa * float(np.sum(inverse[target] ** 2))
            assert not decided or math.isclose(bound, naive, rel_tol=1e-4), (case, features, bound, naive)
        features = int(generator.integers(releases + 1))
        covered = np.unique(np.concatenate([q.members for q in splits.transcript(features).queries]))
        if len(covered) == m:
            partner = int(generator.integers(m))
            losses = losses_under_the_prior(splits, features, partner, trials=200)
            reach = 6 * losses.std() / math.sqrt(len(losses)) + 1e-9
            assert splits.lower(partner)[features] <= losses.mean() + reach, (case, features)
            counted["attacked"] += 1
    return counted
