"""The nearest point of a box is at least as near as SciPy finds it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import lsq_linear

from sightline.auditing.known_sums import nearest_in_box


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(60))
def test_scipy_finds_no_nearer_point(seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows, columns = int(draw.integers(1, 40)), int(draw.integers(1, 120))
    table = (draw.random((rows, columns)) < draw.choice([0.05, 0.2, 0.6])) * draw.choice(
        [1.0, 3.0], size=(rows, columns)
    )
    if seed % 3 == 0:  # noise over several orders
        table = table * draw.lognormal(0, 3, size=(rows, 1))
    low, high = (end * draw.random(columns) * draw.choice([0.1, 1.0, 5.0], size=columns) for end in (-1, 1))
    away = draw.random(columns) < 0.3  # these cannot stay where they are
    low[away] = high[away] + 0.1
    high[away] = low[away] + draw.random(int(away.sum()))

    residual = nearest_in_box(sparse.csr_array(table), low, high)

    used = np.flatnonzero(np.any(table, axis=0))
    least = 0.0
    if used.size:
        scale = np.linalg.norm(table[:, used], axis=0)
        bounds = (low[used] * scale, high[used] * scale)
        found = lsq_linear(table[:, used] / scale, np.zeros(rows), bounds, tol=1e-12)
        least = float(np.linalg.norm(table[:, used] @ (found.x / scale)))
    assert np.linalg.norm(residual) <= least * (1 + 1e-7) + 1e-9 * (1 + np.abs(table).max() * 5)


def test_a_residual_that_is_near_enough_is_zero() -> None:
    table, low, high = sparse.csr_array(np.array([[1.0, 1.0], [0.0, 1.0]])), np.array([-1.0, 1.0]), np.ones(2)
    least = np.linalg.norm(nearest_in_box(table, low, high))
    assert abs(least - 1.0) < 1e-9  # the second value is 1, and the first takes it away from the sum
    assert np.linalg.norm(nearest_in_box(table, low, high, near=0.99)) == pytest.approx(1.0)
    assert not nearest_in_box(table, low, high, near=1.01).any()


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_some_of_many_classes_make_up_for_all_where_there_is_a_table_so_near(seed: int, far: bool) -> None:
    """A few numbers of many classes, of which some must move; ``far``: those of one number all upwards."""
    draw = np.random.default_rng(seed)
    rows, columns, near = 4, 60_000, 1e-3
    table = np.zeros((rows, columns))
    table[draw.integers(1, rows, columns), np.arange(columns)] = draw.choice([1.0, 2.0], columns)
    table[0] = draw.random(columns) < 0.3
    low, high = -draw.random(columns), draw.random(columns)
    away = draw.random(columns) < 0.05
    if far:
        away |= table[1] > 0
    low[away], high[away] = 0.1, 0.2

    residual = nearest_in_box(sparse.csr_array(table), low, high, near=near)
    whole = nearest_in_box(sparse.csr_array(table), low, high)

    assert bool(residual.any()) == bool(np.linalg.norm(whole) > near) == far
    if far:
        assert np.linalg.norm(residual) == pytest.approx(float(np.linalg.norm(whole)), rel=1e-4)
