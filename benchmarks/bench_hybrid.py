"""All splits of hybrid transcripts against a straightforward loop, on the same data.

Times are seconds of one core (processor time), so that they do not depend on what else the machine does; the
other lines are ratios.
"""

from __future__ import annotations

import time

import numpy as np

import sightline as sl

ACCOUNTANT = sl.ZeroConcentrated(sl.Budget(epsilon=100.0, delta=1e-5))
RELEASES = 40


def naive(groups: np.ndarray, family: sl.multiset.Family, memberships: sl.multiset.Memberships) -> np.ndarray:
    """What one would write first: for every group and split a Gram matrix, its inverse, and the bound."""
    kappa, m = ACCOUNTANT.kappa(RELEASES), groups.shape[1]
    means = memberships.rows(m)
    bounds = np.empty((len(groups), RELEASES + 1))
    for b, group in enumerate(groups):
        rows = family.rows(group[None], RELEASES)[0]
        for features in range(RELEASES + 1):
            counts = memberships.counts(RELEASES - features)
            G = np.concatenate([rows[:features], means * np.sqrt(counts)[:, None]])
            bounds[b, features] = kappa * np.linalg.pinv(G.T @ G)[0, 0]
    return bounds


def many_groups(members: int) -> None:
    groups = np.random.default_rng(0).uniform(-1, 1, (10_000, members))
    memberships = sl.multiset.Memberships.with_and_without(members=members, target=0)
    family = sl.Moments()
    sl.multiset.hybrid(groups[:10], 0, family, memberships, ACCOUNTANT, RELEASES).lower  # noqa: B018  # tables
    start = time.process_time()
    splits = sl.multiset.hybrid(groups, 0, family, memberships, ACCOUNTANT, RELEASES)
    local = splits.local
    geometry = time.process_time() - start
    best = splits.best
    middle = time.process_time() - start
    assert np.all(splits.lower > 0)
    whole = time.process_time() - start
    few = groups[:100]
    start = time.process_time()
    loop = naive(few, family, memberships)
    slow = (time.process_time() - start) * len(groups) / len(few)
    start = time.process_time()
    family.rows(groups, RELEASES)
    limit = time.process_time() - start
    agree = np.max(np.abs(local[:100] / loop - 1)[:, members:])
    print(f"10,000 groups of {members}, all {RELEASES + 1} splits of {RELEASES} releases")
    print(f"  everything, seconds of one core             {whole:8.1f}   (wanted: under 20 on two cores)")
    print(f"  of that bounds and separations              {geometry:8.1f}")
    print(f"          approximation and best split        {middle - geometry:8.1f}")
    print(f"          lower bound                         {whole - middle:8.1f}")
    print(f"  loop for the local bound alone / everything {slow / whole:8.1f}   (loop timed on 100 groups)")
    print(f"  the same / bounds and separations           {slow / geometry:8.1f}")
    print(f"  everything / computing the rows alone       {whole / limit:8.1f}   (lower limit 1)")
    print(f"  largest relative difference from the loop   {agree:8.1e}")
    print(f"  best split interior                         {np.mean((best > 1) & (best < RELEASES)):8.1%}")


if __name__ == "__main__":
    for count in (2, 3, 4):
        many_groups(count)
        print()
