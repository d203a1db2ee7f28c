"""The bound that tells one line through the records: its law, its integral, and exact risks above it."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from sightline import MembershipDesign
from sightline.bounds import lines
from sightline.bounds.van_trees import MOST_MOVED, chord_bound, chord_bounds, uniform_bound
from sightline.noise.laws import CorrelatedNoise, LaplaceNoise
from tests.bounds.brute_force import PRIORS, Small, exact_share, law
from tools.risk_tables import uniform_risk

UNIFORM = PRIORS[0]


def chords_of(generator: np.random.Generator, moves: np.ndarray, count: int) -> np.ndarray:
    """The lengths of chords through random points of the cube, by where they leave it."""
    x = generator.random((count, moves.size + 1))
    d = np.append(1.0, moves * generator.choice([-1.0, 1.0], moves.size))
    ahead = np.where(d > 0, 1 - x, x) / np.abs(d)
    behind = np.where(d > 0, x, 1 - x) / np.abs(d)
    return np.asarray(ahead.min(axis=1) + behind.min(axis=1))


@pytest.mark.parametrize("moves", [[1.0], [0.5, 0.3], [1.0, 0.7, 0.2], [0.25] * 9])
@pytest.mark.parametrize("information", [0.0, 10.0, 1_000.0])
def test_the_mean_over_random_chords(moves: list[float], information: float) -> None:
    drawn = chords_of(np.random.default_rng(4), np.array(moves), 100_000)
    grid = np.linspace(0.0, 1.0, 400)[1:] ** 2 * information
    risks = uniform_risk(grid) if information else np.full(grid.size, 1 / 12)
    values = drawn**2 * np.interp(drawn**2 * information, grid, risks)
    spread = 4 * values.std() / np.sqrt(values.size)
    bound = chord_bound(np.array(moves), np.ones(len(moves)), information, gaussian=True)
    assert values.mean() * 0.99 - spread <= bound <= values.mean() + spread + 1e-3 * values.mean()


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("moves", [[1.0], [0.5, 0.3], [0.9, 0.9, 0.1], [0.1] * 8])
def test_the_integral_from_below_and_close(moves: list[float]) -> None:
    """With the weighted van Trees bound in place of the scalar risk, in 30 digits."""

    def product(length):
        return (1 - length) * mpmath.fprod(1 - length * mpmath.mpf(move) for move in moves)

    def risk(g):
        return (1 - 2 / mpmath.sqrt(g) * mpmath.tanh(mpmath.sqrt(g) / 2)) / g

    for information in (1.0, 50.0, 5_000.0):
        with mpmath.workdps(30):
            g = mpmath.mpf(information)
            inner = mpmath.quad(
                lambda s, g=g: s**3 * risk(s * s * g) * mpmath.diff(product, s, 2),
                mpmath.linspace(1e-6, 1, 7),
            )
            exact = float(inner + risk(g) * mpmath.fprod(1 - mpmath.mpf(move) for move in moves))
        bound = chord_bound(np.array(moves), np.ones(len(moves)), information, gaussian=False)
        assert exact * 0.985 <= bound <= exact * (1 + 1e-6)


def test_records_that_move_alike_count_each() -> None:
    apart = chord_bound(np.full(12, 0.3), np.ones(12), 40.0, gaussian=True)
    assert chord_bound(np.array([0.3]), np.array([12.0]), 40.0, gaussian=True) == pytest.approx(
        apart, rel=1e-12
    )
    assert chord_bound(np.zeros(0), np.zeros(0), 40.0, gaussian=False) <= uniform_bound(np.array([40.0]))[0]


@pytest.mark.slow
def test_no_direction_gives_more_than_the_exact_risk() -> None:
    """Two and three records, one and two answers, directions at random: good ones and bad ones."""
    generator, closest = np.random.default_rng(11), 0.0
    for _ in range(25):
        records, lines = int(generator.integers(2, 4)), int(generator.integers(1, 3))
        rows = generator.choice([0.0, 1.0, 1.0, 2.0, -1.0], size=(lines, records))
        rows[:, 0] = 1.0
        small = Small(
            rows=rows, scales=10 ** generator.uniform(-0.9, 0.3, lines), laplace=np.zeros(lines, dtype=bool)
        )
        coarse, fine = ((20, 130), (28, 180)) if records == 2 else ((11, 110), (15, 150))
        risks = [
            exact_share(small, 0, [law(UNIFORM, nodes + (k == 0)) for k in range(records)], answers)
            for nodes, answers in (coarse, fine)
        ]
        error = 3 * abs(risks[1] - risks[0]) + 1e-8
        assert error < 1e-4
        for _ in range(20):
            d = np.append(1.0, generator.uniform(-1, 1, records - 1))
            information = float(np.sum((small.whitened @ d) ** 2))
            bound = 12 * chord_bound(np.abs(d[1:]), np.ones(records - 1), information, gaussian=True)
            assert bound <= risks[1] + error
            closest = max(closest, bound / risks[1])
    assert closest > 0.9


def test_the_lower_end_is_below_the_exact_risk_under_correlated_noise() -> None:
    """Each of two records by itself. The vector of their directions is whitened as a column."""
    first, second, correlation = 0.34, 0.6, 0.56
    both = correlation * first * second
    covariance = np.array([[first**2, both], [both, second**2]])
    design = MembershipDesign(np.eye(2), noise=CorrelatedNoise(blocks=[covariance]), readout="sum")
    whitened = np.linalg.inv(np.linalg.cholesky(covariance))
    small = Small(rows=whitened, scales=np.ones(2), laplace=np.zeros(2, dtype=bool))
    lower = design.exposures(domain=(0, 1)).remaining_lower
    risks = [
        exact_share(small, 0, [law(UNIFORM, nodes + (k == 0)) for k in range(2)], answers)
        for nodes, answers in ((20, 130), (28, 180))
    ]
    error = 3 * abs(risks[1] - risks[0]) + 1e-8
    assert error < 1e-4
    assert 0.9 * risks[1] < lower[0] <= risks[1] + error


def test_many_directions_at_once_are_each_by_itself() -> None:
    """With different numbers of moved records, so that several rules of integration are used."""
    generator = np.random.default_rng(3)
    counts = generator.integers(0, 9, size=(40, 7)).astype(np.float64)
    moves = np.where(counts > 0, generator.random((40, 7)), 0.0)
    information = 10 ** generator.uniform(-2, 6, 40)
    together = chord_bounds(moves, counts, information, gaussian=True)
    for bound, move, count, seen in zip(together, moves, counts, information, strict=True):
        alone = chord_bound(move[count > 0], count[count > 0], float(seen), gaussian=True)
        assert bound == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("laplace", [False, True])
def test_nested_groups_keep_more_than_the_other_bounds_say(
    laplace: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One more joins each time; then two tables over everybody.
    tables = [np.kron(np.eye(3), np.ones((1, 4))), np.tile(np.eye(4), 3)]
    rows = np.vstack([np.tri(6, 12, 5), *tables])
    noise = LaplaceNoise(scales=np.full(len(rows), 0.05)) if laplace else np.full(len(rows), 0.05)
    design = MembershipDesign(rows, noise=noise, readout="sum")
    found = design.exposures(domain=(0, 1))
    monkeypatch.setattr(lines, "_MOST_SEARCHED", 0)
    without = design.exposures(domain=(0, 1))
    assert np.array_equal(found.remaining_upper, without.remaining_upper)
    assert np.all(found.remaining_lower >= without.remaining_lower)
    assert np.all(found.remaining_lower <= found.remaining_upper)
    assert found.remaining_lower[0] > 2 * without.remaining_lower[0]


def test_a_direction_that_moves_too_many_is_cut_short() -> None:
    """One release of many: only some of the others move, and the bound still holds."""
    design = MembershipDesign(np.ones((1, 3 * MOST_MOVED)), noise=[0.01], readout="sum")
    found = design.exposures(domain=(0, 1))
    exact = 1 - 1 / (3 * MOST_MOVED)
    assert exact - 1e-9 <= found.remaining_lower[0] <= found.remaining_upper[0]
