"""The stated relative error is a bound: every number against exact arithmetic on the same doubles."""

from __future__ import annotations

import math
from fractions import Fraction

import flint
import numpy as np
import pytest

import sightline as sl


def rational(value: float) -> flint.fmpq:
    return flint.fmpq(*Fraction(float(value)).as_integer_ratio())


def exact_information(rows: np.ndarray, stddevs: np.ndarray, target: list[int]) -> flint.fmpq_mat:
    """The Schur complement over the rationals, with independent nuisance columns from its own elimination."""
    lines, columns = rows.shape
    table = flint.fmpq_mat([[rational(entry) for entry in row] for row in rows])
    weights = [1 / rational(stddev) ** 2 for stddev in stddevs]

    def gram(left: list[int], right: list[int]) -> flint.fmpq_mat:
        weighted = [[table[i, c] * weights[i] for i in range(lines)] for c in left]
        return flint.fmpq_mat(weighted) * flint.fmpq_mat([[table[i, c] for c in right] for i in range(lines)])

    kept: list[int] = []
    for column in (c for c in range(columns) if c not in target):
        trial = [*kept, column]
        if flint.fmpq_mat([[table[i, c] for c in trial] for i in range(lines)]).rank() == len(trial):
            kept = trial
    A = gram(target, target)
    if kept:
        C = gram(target, kept)
        A = A - C * gram(kept, kept).solve(C.transpose())
    return A


def number(entry: flint.fmpq) -> float:
    return float(Fraction(int(entry.p), int(entry.q)))


def deviation(found: np.ndarray, truth: flint.fmpq_mat) -> float:
    """The largest error of an entry relative to the roots of its two diagonal entries."""
    width = len(found)
    roots = [math.sqrt(number(truth[i, i])) for i in range(width)]
    errors = [
        (abs(rational(found[i, j]) - truth[i, j]), roots[i] * roots[j])
        for i in range(width)
        for j in range(width)
    ]
    return max(number(error) / size if size else number(error) for error, size in errors)


def chain(columns: int, steps: tuple[int, ...]) -> np.ndarray:
    """Row i has the records i + step: identifiable from the end, and ill-conditioned."""
    rows = np.zeros((columns, columns))
    for i in range(columns):
        rows[i, [i + step for step in steps if i + step < columns]] = 1.0
    return rows


def nasty_rows(generator: np.random.Generator, kind: int) -> np.ndarray:
    columns = int(generator.integers(3, 20))
    match kind:
        case 0:
            return chain(columns, (0, 1, 3))
        case 1:
            return np.eye(columns) + 3 * np.eye(columns, k=1)
        case 2:
            return np.triu(generator.integers(-3, 4, (columns, columns))) + 4.0 * np.eye(columns)
        case 3:
            nodes = np.sort(generator.uniform(-1, 1, 7))
            return np.vander(nodes, 9, increasing=True).T
        case _:
            rows = generator.standard_normal((columns + 2, columns))
            rows[:, 1] = rows[:, 0] + 10.0 ** generator.uniform(-9, -1) * rows[:, 1]
            return rows


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(5))
def test_no_number_is_further_off_than_is_stated(kind: int) -> None:
    generator = np.random.default_rng(kind)
    for _ in range(15):
        rows = nasty_rows(generator, kind)
        stddevs = 10.0 ** (generator.uniform(-1, 1, len(rows)) * generator.choice([0, 1, 4]))
        target = (
            [0] if generator.random() < 0.5 else sorted(generator.choice(rows.shape[1], 2, False).tolist())
        )
        noise = sl.GaussianNoise(stddevs=stddevs)
        exposure = sl.geometry.Geometry(jacobian=rows, noise=noise).profile(target=target)
        if exposure.identifiable is sl.geometry.Decision.UNDECIDED:
            continue
        truth = exact_information(rows, stddevs, target)
        stated = exposure.relative_error
        assert stated < 1e-5
        assert deviation(exposure.information, truth) <= stated
        covariance = truth.inv()
        assert deviation(exposure.covariance, covariance) <= stated
        crb = sum(number(covariance[i, i]) for i in range(len(target)))
        assert exposure.crb == pytest.approx(crb, rel=stated + 1e-15)
        # The recipe isolates the target and attains the bound.
        for place, weights in enumerate(exposure.recipe):
            spread = float(np.sum((weights * stddevs) ** 2))
            assert spread == pytest.approx(number(covariance[place, place]), rel=4 * stated + 1e-12)


def test_a_long_chain_keeps_all_its_digits() -> None:
    """The first record of {i, i+1, i+3}: with 60 rows double precision alone loses half its digits."""
    rows = chain(60, (0, 1, 3))
    exposure = sl.geometry.Geometry(jacobian=rows, noise=sl.GaussianNoise(stddevs=np.ones(60))).profile(
        target=0
    )
    truth = exact_information(rows, np.ones(60), [0])
    assert exposure.crb == pytest.approx(1 / number(truth[0, 0]), rel=2**-48)


def test_a_claim_is_infinite_where_nothing_is_known() -> None:
    rows = np.array([[1.0, 1.0], [1.0, 1.0 + 3e-14], [math.pi, math.pi]])
    exposure = sl.geometry.Geometry(jacobian=rows, noise=sl.GaussianNoise(stddevs=np.ones(3))).profile(
        target=0
    )
    assert exposure.identifiable is sl.geometry.Decision.UNDECIDED
    assert exposure.relative_error == math.inf


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(4))
def test_an_increment_states_its_error_and_decides_exactly_whether_it_helps(kind: int) -> None:
    generator = np.random.default_rng(100 + kind)
    seen = set()
    for _ in range(60):
        columns = int(generator.integers(2, 12))
        rows = {
            0: lambda n=columns: generator.integers(0, 2, (int(generator.integers(1, n + 3)), n)),
            1: lambda n=columns: chain(n, (0, 1, 3)).astype(int),
            2: lambda n=columns: np.triu(generator.integers(-3, 4, (n, n))) + 4 * np.eye(n, dtype=int),
            3: lambda n=columns: (np.eye(n) + 3 * np.eye(n, k=1)).astype(int),
        }[kind]()
        rows = rows[: int(generator.integers(1, len(rows) + 1))]
        rows = rows[np.any(rows != 0, axis=1)]
        if len(rows) == 0:
            continue
        copy = rows[int(generator.integers(len(rows)))]
        new = copy if generator.random() < 0.4 else generator.integers(-2, 3, columns)
        if not np.any(new):
            continue
        stddevs = 10.0 ** (generator.uniform(-1, 1, len(rows) + 1) * generator.choice([0, 1, 5]))
        target = [0] if columns < 3 or generator.random() < 0.7 else [0, 1]
        queries = [
            sl.WeightedSum(members=np.flatnonzero(row), weights=row[row != 0].astype(float), radius=1.0)
            for row in [*rows, new]
        ]
        before = sl.Transcript(queries[:-1], noise=stddevs[:-1]).geometry(records=columns)
        step = before.profile(target=target).increment(queries[-1], noise_stddev=stddevs[-1])
        was = exact_information(rows.astype(float), stddevs[:-1], target)
        truth = exact_information(np.vstack([rows, new]).astype(float), stddevs, target)
        assert bool(step.helps) == any(bool(entry != 0) for entry in (truth - was).entries())
        assert step.opens == truth.rank() - was.rank()
        assert deviation(step.information, truth) <= max(step.relative_error, 1e-15)
        assert step.relative_error < 1e-5
        seen.add(step.helps)
    assert seen == {sl.geometry.Decision.YES, sl.geometry.Decision.NO}
