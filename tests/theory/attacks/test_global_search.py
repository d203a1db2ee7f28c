"""The constrained MLE against a global search that shares no code with it: a fine grid, polished by SciPy."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy.optimize import minimize

import sightline as sl

# name: (values in the group, releases, points on an axis of the grid)
CASES = {"moments": (4, (4, 5, 6), 25), "compact": (3, (5, 6, 8), 61), "logistic": (3, (5, 6, 8), 41)}
DRAWS, BATCH = 8, 100


def queries(name: str, members: int, count: int) -> list[object]:
    group = range(members)
    if name == "moments":
        return [sl.Moment(order=order, members=group, bound=1.0) for order in range(1, count + 1)]
    return [
        sl.SmoothThreshold(at=at, members=group, bound=1.0, bandwidth=0.15, kernel=name)
        for at in np.linspace(-0.9, 0.9, count)
    ]


def features(name: str, values: np.ndarray, count: int) -> np.ndarray:
    """The feature of every release at every value, written out: shape (count, *values.shape)."""
    if name == "moments":
        return np.stack([values**order for order in range(1, count + 1)])
    offsets = np.stack([(values - at) / 0.15 for at in np.linspace(-0.9, 0.9, count)])
    if name == "logistic":
        return 1 / (1 + np.exp(-offsets))
    inside = np.clip(offsets, -1, 1)
    return 0.5 + inside / 2 + np.sin(np.pi * inside) / (2 * np.pi)


def least(name: str, answers: np.ndarray, stddev: float) -> np.ndarray:
    """The least objective over the grid, polished by SciPy from the best two grid points of every trial."""
    members, _, axis = CASES[name]
    count = answers.shape[1]
    grid = np.array(list(combinations_with_replacement(np.linspace(-1, 1, axis), members)))
    expected = features(name, grid, count).mean(axis=-1)
    found = []
    for y in answers:

        def objective(u: np.ndarray, y: np.ndarray = y) -> float:
            return float(np.sum((y - features(name, u, count).mean(axis=-1)) ** 2) / stddev**2)

        distances = np.sum((y[:, None] - expected) ** 2, axis=0)
        nearest = np.argpartition(distances, 2)[:2]
        ends = [
            minimize(objective, grid[i], bounds=[(-1, 1)] * members, method="L-BFGS-B").fun for i in nearest
        ]
        found.append(min(*ends, distances.min() / stddev**2))
    return np.array(found)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_no_global_search_finds_less(name: str) -> None:
    members, counts, _ = CASES[name]
    for draw in range(DRAWS):
        generator = np.random.default_rng(draw)
        count = counts[draw % len(counts)]
        stddev = 10 ** generator.uniform(-2.5, -0.5)
        transcript = sl.Transcript(queries(name, members, count), noise=[stddev] * count)
        values = generator.uniform(-1, 1, members)
        if draw % 3 == 0:  # values that are close, or at a bound
            values = np.clip(values[0] + 0.02 * np.arange(members), -1, 1)
        answers = transcript.answers(values) + transcript.law.sample(BATCH, generator=generator)
        found = sl.ConstrainedMLE().estimate(transcript, answers)
        other = least(name, answers, stddev)
        assert (found.objective <= other * (1 + 1e-6) + 1e-6).all()
