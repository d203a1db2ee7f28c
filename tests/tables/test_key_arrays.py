"""Sums by key and different lines are those of plain Python and NumPy, whichever way they are made."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from sightline.arrays import counted_by, distinct_lines


@pytest.mark.parametrize("largest", [3, 40, 10_000, 10**12])  # an array over all keys, or sorting
@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("size", [0, 1, 200])
def test_sums_by_key(largest: int, in_order: bool, size: int) -> None:
    generator = np.random.default_rng(largest % 1_000 + size)
    keys = generator.integers(0, largest, size)
    keys = np.unique(keys) if in_order else keys
    counts = generator.integers(0, 5, keys.size)
    expected: Counter[int] = Counter()
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        expected[key] += count
    found, sums = counted_by(keys, counts)
    assert dict(zip(found.tolist(), sums.tolist(), strict=True)) == dict(expected)
    assert found.tolist() == sorted(expected)


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (200, 1), (300, 4)])
@pytest.mark.parametrize("kind", ["few", "with -1", "large", "weights", "32 bits"])
def test_different_lines(shape: tuple[int, int], kind: str) -> None:
    generator = np.random.default_rng(shape[0])
    lines = generator.integers(-1 if kind == "with -1" else 0, 3, shape)
    if kind == "large":
        lines = lines * (1 << 61)
    if kind == "weights":
        lines = generator.choice([-2.5, -0.0, 0.0, 1e-300, 3.0, 1e300], shape)
    if kind == "32 bits":
        lines = np.asfortranarray(lines.astype(np.int32))
    _, first, group = np.unique(lines, axis=0, return_index=True, return_inverse=True)
    found = distinct_lines(lines)
    assert (found[0].tolist(), found[1].tolist()) == (first.tolist(), group.ravel().tolist())
