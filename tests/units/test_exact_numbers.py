"""RMSE and both ends of the bracket against exact arithmetic: the stated error is never exceeded."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

import tests.units.exact_designs as exact
from sightline import MembershipDesign
from sightline.errors import InvalidNoise
from sightline.theory.labeled import Exposures, UniformPrior
from sightline.units.target import Seen
from tests.numbered_cases import trials
from tests.units.exact_answers import ExactDesign, relative_error, root

PRIOR = UniformPrior(0.0, 1.0)


@pytest.fixture(autouse=True)
def without_chords(monkeypatch: pytest.MonkeyPatch) -> None:
    """The formula of the lower end without the bound by lines, which has tests of its own."""
    monkeypatch.setattr("sightline.bounds.lines._MOST_SEARCHED", 0)
    monkeypatch.setattr("sightline.bounds.fewer_rows.MOST_ROWS", 0)


def worst_excess(found: Exposures, rows: np.ndarray, stddevs: np.ndarray) -> float:
    """The largest error of a number over the stated one; at most 1 if that is a bound."""
    worst = 0.0
    with ctx.workprec(exact.BITS):
        for target, mse in exact.mean_squared_errors(rows, stddevs).items():
            truth = (arb(mse.numerator) / arb(mse.denominator)).sqrt()
            worst = max(worst, _excess(found.rmse[target], truth, found.relative_error))
        for value, truth in zip(
            found.remaining_upper, exact.risks(rows, stddevs, 1 / PRIOR.variance), strict=True
        ):
            assert arb(float(value)) >= truth * (1 - arb(2) ** -50)  # the upper end is one
            worst = max(worst, _excess(value, truth, found.relative_error))
    _check_lower(found, rows, stddevs)
    return worst


def _check_lower(found: Exposures, rows: np.ndarray, stddevs: np.ndarray) -> None:
    """The lower end is at most its formula with exact numbers, and not far below."""
    information = exact.information(rows, stddevs)
    own = PRIOR.precision(information)
    alike = np.array([np.sum(np.all(rows == rows[:, [j]], axis=0)) for j in range(rows.shape[1])])

    def lower(precisions: np.ndarray, slack: float) -> np.ndarray:
        seen = Seen(
            information=information,
            linear_information=np.zeros_like(information),
            hidden_information=exact.hidden(rows, stddevs, precisions) + slack * precisions,
            precision=precisions,
            alike=alike.astype(float),
        )
        return PRIOR.lower(seen)

    assert np.all(found.remaining_lower <= lower(own, 0.0) * (1 + 1e-7))
    if found.relative_error < 1e-9:
        # Rounding costs some units in the last place of the precision that serves all records.
        assert np.all(found.remaining_lower >= lower(np.full_like(own, own.max()), 1e-13) * (1 - 1e-4))


def _excess(value: float, truth: arb, stated: float) -> float:
    off = abs(float((arb(float(value)) / truth - 1).mid()))
    assert np.isfinite(value)
    return 0.0 if stated == np.inf else off / (stated + 2e-16)


@pytest.mark.slow
@pytest.mark.parametrize("size", [40, 80, 120])
def test_chains_of_three(size: int) -> None:
    rows = exact.chain(size)
    found = MembershipDesign(rows, noise=np.ones(size), readout="sum").exposures(domain=(0, 1))
    assert found.identifiable.all()
    truth = exact.mean_squared_errors(rows, np.ones(size))
    for target, mse in truth.items():
        assert found.rmse[target] == pytest.approx(float(mse) ** 0.5, rel=found.relative_error)
    assert found.relative_error < 1e-9
    assert float(max(truth.values())) > 1e6 ** (size / 80)  # hard enough


@pytest.mark.parametrize(("size", "weight"), [(7, 1000), (24, 1000), (40, 3)])
def test_ladders(size: int, weight: int) -> None:
    rows = exact.ladder(size, weight)
    found = MembershipDesign(rows, noise=np.ones(size), readout="sum").exposures(domain=(0, 1))
    assert found.identifiable.all()
    assert found.relative_error < 1e-9
    assert worst_excess(found, rows, np.ones(size)) <= 1
    assert np.all((found.remaining_lower >= 0) & (found.remaining_upper <= 1))


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("certified", [True, False], ids=["as it is", "double precision alone"])
def test_the_stated_error_is_a_bound(certified: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not certified:
        monkeypatch.setattr("sightline.units.row_solver.BALL_ROWS", 0)
        monkeypatch.setattr("sightline.bounds.assessment.BALL_ROWS", 0)
    generator = np.random.default_rng(404)
    stated = []
    for trial in (cases := trials(250)):
        rows = exact.integer_rows(generator) if trial % 3 else exact.real_rows(generator)
        stddevs = 10 ** generator.uniform(-6, 6, len(rows)) if trial % 2 else np.full(len(rows), 0.1)
        found = MembershipDesign(rows, noise=stddevs, readout="sum").exposures(domain=(0, 1))
        assert np.all((found.remaining_lower >= 0) & (found.remaining_upper <= 1))
        assert np.all(found.remaining_lower <= found.remaining_upper * (1 + 1e-15))
        if found.undecided.any():
            continue
        assert worst_excess(found, rows, stddevs) <= 1, rows.tolist()
        stated.append(found.relative_error)
    assert len(stated) > 0.6 * len(cases)
    if certified:
        assert max(stated) < 1e-5
    else:
        assert max(stated) == np.inf  # where double precision cannot tell, it says so


@pytest.mark.slow
def test_extreme_ratios_of_noise() -> None:
    """An upper end that was a fifth off, with an error of 1e-14 stated."""
    generator = np.random.default_rng(77)
    for _ in trials(60):
        rows = exact.integer_rows(generator)
        stddevs = 10 ** generator.uniform(-12, 12, len(rows))
        found = MembershipDesign(rows, noise=stddevs, readout="sum").exposures(domain=(0, 1))
        assert worst_excess(found, rows, stddevs) <= 1


def test_correlated_noise_close_to_singular() -> None:
    """Nearly the same noise on two answers: their difference is nearly free of it."""
    rows = np.array([[1, 1], [0, 1]])
    for gap in (2.0**-20, 2.0**-40):
        covariance = np.array([[1.0, 1.0 - gap], [1.0 - gap, 1.0]])
        found = MembershipDesign(rows, noise=covariance, readout="sum").exposures(domain=(0, 1))
        assert found.rmse[0] == pytest.approx(np.sqrt(2 * gap), rel=found.relative_error)  # exact in doubles
        assert found.relative_error < 1e-9
    with pytest.raises(InvalidNoise, match="noise-free answer"):  # no noise of its own, to rounding
        MembershipDesign(rows, noise=np.array([[1.0, 1.0 - 2.0**-50], [1.0 - 2.0**-50, 1.0]]), readout="sum")


@pytest.mark.slow
def test_what_is_too_large_for_balls_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightline.units.row_solver.BALL_ROWS", 10)
    monkeypatch.setattr("sightline.bounds.assessment.BALL_ROWS", 10)
    rows = exact.ladder(40, 1000)
    found = MembershipDesign(rows, noise=np.ones(40), readout="sum").exposures(domain=(0, 1))
    assert found.identifiable.all()
    assert found.relative_error == np.inf


@pytest.mark.sampled(1)
@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["cells", "dense", "uneven noise", "chain"])
def test_designs_with_more_rows_than_balls_are_used_for(kind: str) -> None:
    """Double precision alone, its own bound on the error: against integers, a few records each."""
    generator = np.random.default_rng([161, len(kind)])
    size, stddevs = 190, np.ones(200)
    match kind:
        case "cells":
            rows = (generator.random((200, size)) < 0.02).astype(np.int64)
        case "chain":  # chains of eight
            rows = np.zeros((200, size), dtype=np.int64)
            for i in range(size):
                rows[i, [k for k in (i, i + 1, i + 3) if k < size and k // 8 == i // 8]] = 1
        case _:
            rows = (generator.random((200, size)) < 0.5).astype(np.int64)
    if kind == "uneven noise":
        stddevs = 2.0 ** generator.integers(-12, 13, 200)
    rows[rows.sum(axis=1) == 0, 0] = 1
    found = MembershipDesign(rows, noise=stddevs, readout="sum").exposures(domain=(0, 1))
    assert not found.undecided.any()
    exact_rows = ExactDesign(rows=rows, covariance=stddevs)
    assert found.identifiable.tolist() == exact_rows.identifiable.tolist()
    assert np.isfinite(found.relative_error)
    targets = np.flatnonzero(found.identifiable)[:: max(1, int(found.identifiable.sum()) // 4)]
    assert targets.size >= 3
    for target in targets.tolist():
        mse = exact_rows.functional_mse([Fraction(int(j == target)) for j in range(size)])
        assert mse is not None
        assert relative_error(float(found.rmse[target]), root(mse)) <= found.relative_error
