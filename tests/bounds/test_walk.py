"""Walks from the truth, against listed worlds: single steps, estimates, margins, and who is walked for."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow
import pytest

import sightline as sl
from sightline.auditing import findings
from sightline.bounds import walking
from sightline.bounds.assessment import assess
from sightline.bounds.coin import coin_risk
from sightline.bounds.few_values import FewValues
from sightline.bounds.guesses import guesses
from sightline.bounds.priors import TwoPointPrior
from sightline.bounds.value_rows import GEOMETRIC, chances_of
from sightline.bounds.walk import Schedule, WalkedRows, WalkState, betting_bound, least_kept, walk
from sightline.bounds.walking import with_walk, with_walked_guesses
from sightline.units.design import Design
from sightline.units.row_noise import RowNoise
from sightline.units.units import Units
from tests.bounds.enumerated_worlds import Few, few
from tests.units.unit_designs import design_of


def walked_rows(one: Few) -> WalkedRows:
    table = one.counted.transpose(1, 2, 0)
    scaled = np.where(one.exact, table, table / one.scales)
    return WalkedRows(
        table=scaled,
        chances=np.full(one.values, 1 / one.values),
        laplace=one.laplace & ~one.exact,
        exact=one.exact,
    )


@pytest.mark.parametrize("law", ["gaussian", "laplace", "mixed"])
@pytest.mark.parametrize(("values", "block"), [(2, (1,)), (2, (0, 2)), (3, (1,)), (3, (0, 1))])
def test_a_heat_bath_draws_from_what_the_others_leave_open(
    values: int, block: tuple[int, ...], law: str
) -> None:
    """The chances of all combinations, by the likelihood of each."""
    generator = np.random.default_rng([values, len(block), len(law)])
    one = few(generator, rows=4, values=values, noise=0.7, law=law, exact=True)
    rows = walked_rows(one)
    state = WalkState.true(rows, 50, generator)
    truth, answers = state.values.copy(), state.noise + _sums(rows, state.values)
    found = rows.heat_bath(block).chances(state)
    for world in range(50):
        fits = []
        for combination in itertools.product(range(values), repeat=len(block)):
            tried = truth[:, world].copy()
            tried[list(block)] = combination
            away = answers[:, world] - _sums(rows, tried[:, None])[:, 0]
            fit = -np.where(rows.laplace, np.abs(away), away**2 / 2)
            moved = _sums(rows, tried[:, None])[:, 0] - _sums(rows, truth[:, [world]])[:, 0]
            fits.append(-np.inf if np.any(moved[rows.exact] != 0) else fit[~rows.exact].sum())
        chances = np.exp(np.array(fits) - max(fits))
        assert found[:, world] == pytest.approx(chances / chances.sum(), abs=1e-12)


def _sums(rows: WalkedRows, values: np.ndarray) -> np.ndarray:
    """Numbers × worlds."""
    return np.asarray(sum(rows.table[row][values[row]] for row in range(len(rows.table)))).T


@pytest.mark.parametrize("law", ["gaussian", "mixed"])
def test_the_noise_follows_the_rows(law: str) -> None:
    """Answers stay what they were drawn as, whatever is redrawn."""
    generator = np.random.default_rng(4)
    rows = walked_rows(few(generator, rows=6, values=3, noise=0.5, law=law, exact=True))
    state = WalkState.true(rows, 20, generator)
    before = state.noise + _sums(rows, state.values)
    for block in (*rows.singles, *rows.neighbours(2)):
        rows.heat_bath(block).redraw(state, generator)
    after = state.noise + _sums(rows, state.values)
    assert after[~rows.exact] == pytest.approx(before[~rows.exact], abs=1e-12)
    moved = _sums(rows, state.values)[rows.exact]
    assert moved == pytest.approx((before - state.noise)[rows.exact])


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian", "laplace", "mixed"])
@pytest.mark.parametrize("values", [2, 3])
def test_margins_hold_and_long_walks_find_the_risk(values: int, law: str) -> None:
    away = []
    for seed in range(12):
        generator, draws = np.random.default_rng([values, seed, len(law)]), 4_000
        noise = float(np.exp(generator.uniform(np.log(0.3), np.log(2))))
        count = int(generator.integers(3, 9 if values == 2 else 6))
        one = few(generator, rows=count, values=values, noise=noise, law=law, exact=seed % 3 == 0)
        risk, error = one.simulated(draws, generator)
        rows = walked_rows(one)
        blocks = (*rows.singles, *rows.neighbours(3))
        schedule = Schedule(blocks=blocks, sweeps=24, ends=3, worlds=3_000)
        means = walk(rows, schedule, range(count), (seed,))
        persons = [[row] for row in range(count)]
        low, estimate = least_kept(means, rows.chances, persons, 1e-10, asked=range(values))
        assert np.all(low <= risk + 6 * error + 48 / draws)
        assert np.all(low <= np.maximum(estimate, 0.0))
        away.append(float(np.abs(estimate - risk).max()))
        owner = np.unique(np.sort(generator.integers(0, 2, count)), return_inverse=True)[1]
        persons = [np.flatnonzero(owner == one).tolist() for one in range(owner.max() + 1)]
        low, _ = least_kept(means, rows.chances, persons, 1e-10, asked=range(values))
        left = one.sharpest(owner, draws, generator)
        assert np.all(low <= left + 6 * np.sqrt(left / draws) + 48 / draws)
    assert np.median(away) < 0.05


def test_without_steps_it_is_the_attacker_who_knows_all_others() -> None:
    """One row in a number of its own: nothing else to redraw, and the estimate is the scalar risk."""
    rows = WalkedRows(
        table=np.array([[[0.0], [1.2]]]),
        chances=np.array([0.5, 0.5]),
        laplace=np.zeros(1, dtype=bool),
        exact=np.zeros(1, dtype=bool),
    )
    schedule = Schedule(blocks=((0,),), sweeps=2, ends=1, worlds=20_000)
    means = walk(rows, schedule, [0], (3,))
    low, estimate = least_kept(means, rows.chances, [[0]], 1e-10, asked=(1,))
    assert estimate[0, 1] == pytest.approx(coin_risk(1.44), abs=0.015)
    assert estimate[0, 1] - 0.04 < low[0, 1] < coin_risk(1.44)


def test_betting_is_wrong_as_rarely_as_it_says() -> None:
    generator, wrong = np.random.default_rng(5), 0.02
    for share, draws in ((0.05, 100), (0.4, 60), (0.9, 200)):
        drawn = (generator.random((4_000, draws)) < share).astype(float)
        found = betting_bound(drawn, wrong)
        assert np.mean(found > share) <= wrong + 4 * np.sqrt(wrong / 4_000)
        assert np.median(found) > share - 4 * np.sqrt(share * (1 - share) / draws) - 8 / draws
    narrow = 0.5 + 0.01 * generator.standard_normal((1, 2_000))
    assert 0.47 < betting_bound(narrow, 1e-10)[0] < 0.5  # Hoeffding's bound would be 0.42


def crowd(people: int = 60, noise: float = 0.7, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    table = np.zeros((24, people))
    table[generator.integers(0, 8, (3, people)) + 8 * np.arange(3)[:, None], np.arange(people)] = 1.0
    return table, np.full(24, noise)


def test_a_walk_shows_the_limit_where_genies_do_not_and_repeats_itself() -> None:
    table, noise = crowd()
    design = design_of(table, noise, TwoPointPrior(0.0, 1.0))
    exposure = assess(design)
    assert exposure.least < 0.5
    lower = with_walk(design, exposure.lower, exposure.upper_of_best, 0.5)
    assert lower.min() >= 0.5
    assert np.all(lower <= exposure.upper)
    again = with_walk(design, exposure.lower, exposure.upper_of_best, 0.5)
    assert lower.tobytes() == again.tobytes()


def guessed_right(one: Few, draws: int, generator: np.random.Generator) -> float:
    """How often the best guess at the yes of a row is right, of the row that is guessed best: all worlds."""
    worlds, answers = one.worlds()
    seen = answers / one.scales
    noise = np.where(
        one.laplace,
        generator.laplace(size=(draws, seen.shape[1])),
        generator.standard_normal((draws, seen.shape[1])),
    )
    drawn = seen[generator.integers(0, len(worlds), draws)] + noise
    away = drawn[:, None] - seen
    fit = -np.where(one.laplace, np.abs(away), away**2 / 2).sum(axis=2)
    chances = np.exp(fit - fit.max(axis=1, keepdims=True))
    posterior = (chances / chances.sum(axis=1, keepdims=True)) @ (worlds == 1)
    return float(np.maximum(posterior, 1 - posterior).mean(axis=0).max())


def most_often_right(design: Design, lower: np.ndarray) -> float:
    """At most how often anybody is guessed right, by all bounds."""
    first = guesses(design, chances_of(design.prior), lower)
    return float(with_walked_guesses(design, first.right).max())


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_no_guess_is_right_more_often_than_said(law: str) -> None:
    generator, closer = np.random.default_rng(len(law)), 0
    for _ in range(6):
        noise = float(np.exp(generator.uniform(np.log(0.4), np.log(1.5))))
        one = few(generator, rows=int(generator.integers(4, 9)), values=2, noise=noise, law=law)
        truth, design = guessed_right(one, 4_000, generator), one.design()
        lower = assess(design).lower
        found, by_variance = most_often_right(design, lower), (1 + np.sqrt(1 - lower.min())) / 2
        assert truth - 4 / np.sqrt(4_000) <= found <= by_variance + 1e-12
        closer += found < by_variance - 0.01
    assert closer >= 3


def test_one_guess_behind_gaussian_noise() -> None:
    """Of one yes or no: Φ(1/2σ), by the normal law."""
    design = design_of(np.ones((1, 1)), np.ones(1), TwoPointPrior(0.0, 1.0))
    assert 0.69146 < most_often_right(design, assess(design).lower) < 0.69147


def test_nobody_is_walked_for_where_brackets_settle_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    table, noise = crowd()
    design = design_of(table, noise, TwoPointPrior(0.0, 1.0))
    exposure = assess(design)

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(walking, "walk", never)
    for limit in (0.9 * exposure.least, 1.01 * float(exposure.upper.max())):
        assert with_walk(design, exposure.lower, exposure.upper_of_best, limit) is exposure.lower


def test_of_many_rows_the_best_hiders_are_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """With others told: no more than with all of them, and no less than alone."""
    table, noise = crowd(80)
    design = design_of(table, noise, TwoPointPrior(0.0, 1.0))
    ends, none = assess(design).upper_of_best, np.zeros((len(design.units), 1))
    together = with_walk(design, none, ends, 0.4)
    monkeypatch.setattr(walking, "_MOST_ROWS", 10)
    monkeypatch.setattr(walking, "_MOST_IN_ALL", 10)
    monkeypatch.setattr(walking, "_HIDERS", 16)
    monkeypatch.setattr(walking, "_MOST_ASKED", 3)
    apart = with_walk(design, none, ends, 0.4)
    walked = np.flatnonzero(apart[:, 0] > 0)
    assert walked.size == 3
    assert np.all(apart <= ends)
    assert np.all(apart[walked] < together[walked] + 0.05)
    assert np.all(apart[walked] > 0.2)


def test_copies_of_laplace_and_geometric_answers_are_drawn_one_by_one() -> None:
    """Whole numbers with geometric noise; any with Laplace noise; none of which only the loss is known."""
    scales = np.array([0.5, 0.5])
    for laplace, weight, answers, movable in (
        ((1.0, 1.0), 1.0, 5, True),
        ((2.0, 1.0), 1.0, 5, True),
        ((2.0, 1.0), 1.5, 2, False),
        ((3.0, 1.0), 1.0, 2, False),
    ):
        design = design_of(weight * np.ones((2, 4)), np.ones(2), TwoPointPrior(0.0, 1.0))
        units = design.units
        assert isinstance(units, Units)
        noise = RowNoise.of(scales, scales, np.array(laplace), np.array([3.0, 2.0]))
        few_values = FewValues.of(design.with_noise(noise), units)
        table, law, steps, free = few_values.rows.drawn(np.array([0]))
        assert table.shape == (1, 2, answers)
        assert np.count_nonzero(law == GEOMETRIC) == (3 if laplace[0] == 2 and movable else 0)
        assert np.array_equal(steps > 0, law == GEOMETRIC)
        assert bool(free[0]) is movable
        if movable and laplace[0] == 1:  # the information of all answers is that of the rows
            assert np.sum(table[0, 1] ** 2) == pytest.approx(2 * 4)


def test_an_audit_shows_the_limit_by_a_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """60 people in three tables of counts: at 50 % of a yes or no no other bound shows it."""
    generator = np.random.default_rng(3)
    columns = {name: generator.integers(0, 8, 60).tolist() for name in "abc"}
    table = {"who": list(range(60)), **columns, "x": (generator.random(60) < 0.5).tolist()}
    releases = [
        {
            "name": name,
            "sql": f"SELECT {name}, COUNT(*) FILTER (WHERE x) AS n FROM data GROUP BY {name}",
            "noise": {"law": "gaussian", "stddev": 0.7},
        }
        for name in "abc"
    ]
    data = {"source": pyarrow.table(table), "record": "who", "secret": "x", "kind": "boolean"}
    plan = {"data": data, "release": releases, "limits": {"remaining_uncertainty": 0.5}}

    def lower() -> float:
        least = sl.audit(plan).least_remaining_uncertainty
        assert least is not None
        return least.lower

    assert lower() >= 0.5
    monkeypatch.setattr(findings, "with_walk", lambda design, lower, upper, limit: lower)
    assert lower() < 0.5
