"""Strangers, and numbers that tell nothing, change nothing that is said of a person."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from sightline.bounds import fewer_rows
from sightline.bounds.assessment import assess
from sightline.bounds.fewer_rows import parts, told_last
from sightline.bounds.priors import number_prior
from sightline.units.design import Design
from sightline.units.row_noise import RowNoise
from sightline.units.target import UnitPrior
from sightline.units.units import Units


def design_of(rows: list[list[float]], stddevs: list[float], *, laplace: bool = False) -> Design:
    """Numbers × people, about values from 0 to 1, each with noise of its own."""
    table = np.array(rows, dtype=np.float64)
    numbers, people = table.shape
    sizes = np.array(stddevs)
    scales = sizes / math.sqrt(2) if laplace else sizes
    noise = RowNoise.of(scales, sizes, np.full(numbers, float(laplace)), np.ones(numbers))
    listed = np.where(table.T != 0, np.arange(numbers), numbers).astype(np.int32)
    return Design(
        units=Units(
            rows=listed,
            weights=np.where(table.T != 0, table.T, 1.0),
            numbers=numbers,
            starts=np.arange(people + 1),
            times=np.ones(people, dtype=np.intp),
            people=np.ones(people, dtype=np.intp),
        ),
        noise=noise,
        prior=UnitPrior(target=number_prior("uniform", 0.0, 1.0)),
        release=np.arange(numbers),
        place=np.arange(people),
    )


def _risk(rows: np.ndarray, stddevs: np.ndarray, target: int, points: int = 9) -> float:
    """The risk of the posterior mean of one of a few values on a grid, over its variance, by Monte Carlo."""
    rng = np.random.default_rng(0)
    grid = (np.arange(points) + 0.5) / points
    worlds = np.array(list(itertools.product(grid, repeat=rows.shape[1])))
    sums = worlds @ rows.T / stddevs
    true = rng.integers(len(worlds), size=1500)
    seen = sums[true] + rng.normal(size=(true.size, len(rows)))
    log = -0.5 * ((seen[:, None, :] - sums) ** 2).sum(axis=2)
    weights = np.exp(log - log.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    means = weights @ worlds[:, target]
    squares = weights @ worlds[:, target] ** 2
    return float((squares - means**2).mean() / grid.var())


def test_a_release_that_tells_nothing_breaks_no_bound() -> None:
    """A total of four with noise 1e-7 leaves 75 %. Beside a sum with noise of a hundred ranges it was 0."""
    for noise in (1e-1, 1e-3, 1e-5, 1e-7, 1e-9):
        alone = assess(design_of([[1, 1, 1, 1]], [noise]))
        beside = assess(design_of([[1, 1, 1, 1], [1, 1, 0, 0]], [noise, 100.0]))
        assert alone.least == pytest.approx(0.75, rel=1e-2)
        # g w²/12 with g = 1e-4 and w = 2.
        assert beside.least >= math.exp(-1.0001e-4 / 3) * alone.least
        assert beside.least <= float(beside.upper.min())


@pytest.mark.parametrize("stddev", [1.5, 3.0, 6.0])
def test_what_is_left_by_one_more_answer_is_at_least_the_stated_share(stddev: float) -> None:
    """The exact risk of three values on a grid, with a total and with one more sum."""
    total, more = np.array([[1.0, 1, 1]]), np.array([[1.0, 1, 1], [1, 1, 0]])
    without = _risk(total, np.array([0.3]), 0)
    beside = _risk(more, np.array([0.3, stddev]), 0)
    expected = math.exp(-((2 / stddev) ** 2) / 12)
    for _, share in told_last(design_of(more.tolist(), [0.3, stddev])):
        assert share == pytest.approx(expected, rel=1e-6)
    assert beside >= expected * without * 0.98  # of 1,500 draws


def test_an_answer_of_pure_loss_counts_by_its_loss() -> None:
    """Laplace noise of scale 100 on a sum of two: the densities of answers differ by e^(2/100) at most."""
    ((first, share),) = told_last(design_of([[1, 1, 1], [1, 1, 0]], [0.1, 100 * math.sqrt(2)], laplace=True))
    assert first.tolist() == [True, False]
    assert share == pytest.approx(math.exp(-2 / 100), rel=1e-6)


def test_not_more_is_told_last_than_a_tenth_gives_away() -> None:
    assert not list(told_last(design_of([[1, 1], [1, 0]], [0.8, 0.8])))  # 1/(12 · 0.8²)
    for stddev, last in ((20.0, 30), (9.0, 0)):  # each gives away (2/σ)²/12; 30 of σ = 9 more than a tenth
        found = list(told_last(design_of([[1, 1, 1], *([[1, 1, 0]] * 30)], [0.1, *([stddev] * 30)])))
        assert [np.count_nonzero(~first) for first, _ in found] == [last] * bool(last)
        for _, share in found:
            assert share == pytest.approx(math.exp(-last / (3 * stddev**2)), rel=1e-6)


def test_fewer_rows_are_told_last_as_well_where_they_tell_much_less() -> None:
    """Seed 9118, case 414 of the laws: more noise on one number told another one last, too."""
    useless, little = 300.0, 5.0
    rows = [[1.0, 1, 1], [1, 1, 0], [0, 1, 1]]
    found = list(told_last(design_of(rows, [0.1, useless, little])))
    assert [first.tolist() for first, _ in found] == [[True, False, False], [True, False, True]]
    shares = [share for _, share in found]
    apart = [(2 / useless) ** 2 / 12, (2 / little) ** 2 / 12]
    assert shares == pytest.approx([math.exp(-sum(apart)), math.exp(-apart[0])], rel=1e-6)
    alike = list(told_last(design_of(rows, [0.1, 6.0, 5.0])))
    assert len(alike) == 1


@pytest.mark.parametrize("seed", range(5))
def test_no_sum_varies_more_than_its_prior_lets_it(seed: int) -> None:
    """Posterior variances of a sum over its width's square: even values a twelfth, two points a quarter."""
    rng = np.random.default_rng(seed)
    people = int(rng.integers(1, 5))
    asked, rows = rng.normal(size=people), rng.normal(size=(2, people))
    answers = rng.normal(size=2) * 3  # also such as no values would give
    for target, values in (
        (number_prior("uniform", 0.0, 1.0), (np.arange(24) + 0.5) / 24),
        (number_prior("two-point", 0.0, 1.0), np.array([0.0, 1.0])),
    ):
        worlds = np.array(list(itertools.product(values, repeat=people)))
        weight = np.exp(-0.5 * np.sum((worlds @ rows.T - answers) ** 2, axis=1) / rng.uniform(0.01, 1))
        if weight.sum() < 1e-200:
            continue
        sums = worlds @ asked
        mean = np.average(sums, weights=weight)
        variance = np.average((sums - mean) ** 2, weights=weight)
        assert variance <= np.abs(asked).sum() ** 2 * target.most_variance * (1 + 1e-9)


@pytest.mark.parametrize("length", [0.1, 1.0, 5.0, 50.0])
def test_a_truncated_exponential_varies_less_than_an_even_value(length: float) -> None:
    """The densities that compete, by quadrature and in closed form."""
    points = (np.arange(200_000) + 0.5) / 200_000
    density = np.exp(-length * points)
    mean = np.average(points, weights=density)
    variance = float(np.average((points - mean) ** 2, weights=density))
    assert variance == pytest.approx(1 / length**2 - 1 / (4 * math.sinh(length / 2) ** 2), rel=1e-4)
    assert variance <= number_prior("uniform", 0.0, 1.0).most_variance


def test_rows_that_give_away_equally_much_are_told_last_together_or_not_at_all() -> None:
    """Seed 201, case 3711 of the laws: which of two equal rows was told last depended on the plan's order."""
    near, useless = [1.0, 1, 1, 0], [[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    for order in itertools.permutations(useless):
        for stddev, number in ((3.0, 0), (4.0, 3)):  # three times 1/27, three times 1/48
            found = list(told_last(design_of([near, *order], [0.1, *([stddev] * 3)])))
            assert [np.count_nonzero(~first) for first, _ in found] == [number] * bool(number)


def test_each_part_is_assessed_by_itself() -> None:
    near, far = [[1.0, 1, 1], [1, 0, 1]], [[1.0, 1], [2, 1]]
    both = np.zeros((4, 5))
    both[:2, :3], both[2:, 3:] = near, far
    design = design_of(both.tolist(), [0.2, 0.7, 0.01, 3.0])
    found = [(rows.tolist(), kinds.tolist()) for rows, kinds in parts(design)]
    assert found == [
        ([True, True, False, False], [True, True, True, False, False]),
        ([False, False, True, True], [False, False, False, True, True]),
    ]
    together = assess(design)
    for rows, stddevs, people in ((near, [0.2, 0.7], slice(0, 3)), (far, [0.01, 3.0], slice(3, 5))):
        alone = assess(design_of(rows, stddevs))
        assert together.lower[people] == pytest.approx(alone.lower, rel=1e-12)
        assert together.upper_of_best[people] == pytest.approx(alone.upper_of_best, rel=1e-9)


def test_one_part_is_no_part() -> None:
    assert list(parts(design_of([[1, 1, 0], [0, 1, 1]], [1.0, 1.0]))) == []


@pytest.mark.parametrize("seed", range(8))
def test_beside_an_exact_number_the_least_spread_is_that_of_a_linear_program(seed: int) -> None:
    """Over c, of a sum of absolute differences; by a program with one variable for each of them."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 9))
    table, exact = rng.integers(-3, 9, (3, size)).astype(float), rng.integers(0, 3, size).astype(float)
    exact[0], people = 1.0, rng.integers(1, 5, size).astype(float)
    found = fewer_rows._spread_beside(table, exact, people)
    for row, spread in zip(table, found, strict=True):
        one = np.eye(size)
        program = linprog(
            np.append(people, 0.0),
            A_ub=np.block([[-one, -exact[:, None]], [-one, exact[:, None]]]),
            b_ub=np.concatenate([-row, row]),
            bounds=[(0, None)] * size + [(None, None)],
        )
        assert spread == pytest.approx(program.fun, abs=1e-9)


def test_an_exact_number_about_nobody_unknown_changes_nothing() -> None:
    design = design_of([[1.0, 1.0], [0.0, 0.0]], [5.0, 1.0])
    noise = design.noise
    exact = design.with_noise(replace(noise, exact=np.array([False, True])))
    assert np.array_equal(assess(exact).lower, assess(design.take(np.array([0]))).lower)
