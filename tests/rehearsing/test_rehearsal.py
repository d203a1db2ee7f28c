"""Rehearsals: the truth is the table's, and the attacks do what is stated of them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy.stats import binom, norm

import sightline as sl
from sightline.auditing.findings import find
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened
from sightline.examples.shipped import example_plan
from sightline.rehearsing.attacks import RowTarget, best_linear, errors_of
from sightline.rehearsing.publication import Truth
from sightline.rehearsing.result import AttackKind, Coverage
from sightline.rehearsing.run import rehearse
from tests.rehearsing import rehearsal_plans
from tests.rehearsing.rehearsal_plans import PLANS


def published_truth(plan: dict[str, Any]) -> tuple[list[float], list[float]]:
    """The exact answers as a rehearsal has them, and as the engine itself computes each release's SQL."""
    checked, base = read_plan(plan)
    with opened(checked, base) as session:
        findings = find(checked, session.membership())
        mine = Truth.of(session, findings).answers
    con = duckdb.connect()
    con.sql(f"CREATE TABLE data AS FROM read_csv('{checked.data.source}')")
    theirs = [
        float(value)
        for release in checked.releases
        for line in con.sql(release.sql).fetchall()
        for value in line
        if isinstance(value, float | int) and not isinstance(value, bool)
    ]
    return sorted(mine.tolist()), sorted(theirs)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_the_exact_answers_are_those_of_the_engine(name: str, tmp_path: Path) -> None:
    mine, theirs = published_truth(PLANS[name](tmp_path))
    assert mine == pytest.approx(theirs, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "number",
        "known",
        "share known",
        "laplace",
        "mixed",
        "yes or no",
        "category",
        "weighted",
        "weighted category",
    ],
)
def test_coverage_and_error_are_as_stated(name: str, tmp_path: Path) -> None:
    """Joint over all guesses; a false alarm in at most one of ten thousand draws of the seed."""
    result = rehearse(PLANS[name](tmp_path), seed=3, repetitions=2000, top=12)
    assert {guess.attack for guess in result.guesses} >= {AttackKind.LINEAR}
    each = 1e-4 / (2 * len(result.guesses))
    for guess in result.guesses:
        few = binom.cdf(guess.covered, guess.repetitions, 0.95)
        assert few > each
        if guess.attack is AttackKind.UNBIASED and name not in ("laplace", "mixed"):
            assert guess.coverage is Coverage.EXACT
            assert binom.sf(guess.covered - 1, guess.repetitions, 0.95) > each
        else:
            assert guess.coverage is Coverage.AT_LEAST
        assert abs(guess.mse - guess.stated_mse) < norm.isf(each / 2) * guess.mse_error
        if guess.bracket is not None:
            low, high = guess.bracket
            # The best linear attack cannot beat the lower end; the upper end is at least its risk.
            assert low <= guess.stated_mse <= high * (1 + 1e-6)
            assert low - 5 * guess.mse_error < guess.mse < high + 5 * guess.mse_error
    assert result.surprises == ()
    assert result.checks == 2 * len(result.guesses)


@pytest.mark.slow
def test_of_a_number_the_best_linear_attack_is_the_upper_end_of_the_audit() -> None:
    result = rehearse(example_plan("microgrid"), repetitions=20)
    audit = sl.audit(example_plan("microgrid"), names=True)
    remaining = {one.record: one.remaining_uncertainty for one in audit.exposed if one.size == 1}
    compared = 0
    for guess in result.guesses:
        bracket = remaining.get(guess.record)
        if guess.attack is AttackKind.LINEAR and bracket is not None:
            assert guess.stated_mse == pytest.approx(bracket.upper * 2000**2 / 12, rel=1e-9)
            compared += 1
        if guess.attack is AttackKind.UNBIASED:
            (own,) = [one for one in audit.exposed if one.record == guess.record]
            assert guess.standard_error == pytest.approx(own.rmse, rel=1e-9)
    assert compared >= 5


@pytest.mark.parametrize("name", ["number", "category"])
def test_the_best_linear_attack_is_that_of_the_joint_covariance(name: str, tmp_path: Path) -> None:
    """Against all records' values, or indicators, written out one by one, with their covariance."""
    checked, base = read_plan(PLANS[name](tmp_path))
    with opened(checked, base) as session:
        findings = find(checked, session.membership())
    linear, people = findings.linear.linear, findings.linear.people
    columns = np.arange(findings.linear.lower.size)
    attack = best_linear(findings.linear, [RowTarget.of_column(findings.linear, int(c)) for c in columns])
    k = 3 if name == "category" else 1
    # Every record by itself: an indicator for each category, or the value.
    owner = np.repeat(np.arange(people.size), people)
    A = np.zeros((linear.row_count, owner.size * k))
    for category in range(k):
        A[:, category::k] = linear.table[:, owner * k + category].toarray()
    one = np.eye(k) / 3 - 1 / 9 if k == 3 else np.array([[100**2 / 12]])
    C = np.kron(np.eye(owner.size), one)
    M = A @ C @ A.T + np.diag(linear.design.noise.variance)
    for place, column in enumerate(columns):
        unit, category = divmod(int(column), k)
        target = int(np.flatnonzero(owner == unit)[0]) * k + category
        cross = A @ C[:, target]
        assert attack.weights[place] == pytest.approx(np.linalg.solve(M, cross), rel=1e-8, abs=1e-12)
        best = C[target, target] - cross @ np.linalg.solve(M, cross)
        assert attack.mse[place] == pytest.approx(best, rel=1e-8)


@pytest.mark.slow
def test_numbers_that_are_withheld_are_not_published(tmp_path: Path) -> None:
    plan = rehearsal_plans.number_plan(tmp_path)
    streets = plan["release"][2]
    streets["withhold"] = [["S2", "F1"]]
    made = rehearse(plan, repetitions=1000)
    assert made.numbers == 2 + 2 * 5
    assert made.surprises == ()


def test_the_error_of_a_sharp_attack_keeps_its_digits(tmp_path: Path) -> None:
    """With noise of a billionth of the range, one less the explained share would be rounding."""
    plan = rehearsal_plans.number_plan(tmp_path)
    plan["release"] = [
        {"name": "one", "sql": "SELECT SUM(watts) FROM data WHERE home = 'H7'", "noise_stddev": 1e-7}
    ]
    (guess,) = [g for g in rehearse(plan, top=1).guesses if g.attack is AttackKind.LINEAR]
    assert guess.stated_mse == pytest.approx(1e-14, rel=1e-6)
    assert guess.mse == pytest.approx(1e-14, rel=0.2)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_rehearsal(tmp_path: Path) -> None:
    plan = rehearsal_plans.number_plan(tmp_path)
    first, again = (rehearse(plan, seed=4, repetitions=50) for _ in range(2))
    assert first == again
    assert rehearse(plan, seed=5, repetitions=50).guesses[0].guess != first.guesses[0].guess
    longer = rehearse(plan, seed=4, repetitions=60)
    assert [g.guess for g in longer.guesses] == [g.guess for g in first.guesses]


@pytest.mark.slow
def test_drawing_from_the_prior_has_its_moments(tmp_path: Path) -> None:
    """An attack that guesses the mean of the prior errs by the prior's variance."""
    for name, variance in (("number", 100**2 / 12), ("category", 2 / 9), ("yes or no", 0.25)):
        checked, base = read_plan(PLANS[name](tmp_path))
        with opened(checked, base) as session:
            findings = find(checked, session.membership())
        columns = range(findings.linear.lower.size)
        targets = [RowTarget.of_column(findings.linear, column) for column in columns]
        attack = best_linear(findings.linear, targets)
        mean = {"number": 50.0, "category": 1 / 3, "yes or no": 0.5}[name]
        blind = replace(
            attack, weights=np.zeros_like(attack.weights), constants=np.full(len(attack.weights), mean)
        )
        errors = errors_of(findings.linear, blind, targets, 4000, np.random.default_rng(1))
        assert np.abs(errors.mean()) < 5 * math.sqrt(variance / 4000)
        assert np.mean(errors**2) == pytest.approx(variance, rel=0.05)
