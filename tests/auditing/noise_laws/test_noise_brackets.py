"""Noise of every law: brackets against enumeration of all worlds and answers."""

from __future__ import annotations

import math

import numpy as np
import pyarrow
import pytest
from scipy.stats import norm

import sightline as sl
from sightline.auditing import findings
from sightline.auditing.findings import find, findings_with
from sightline.auditing.result import AuditResult, VerdictStatus
from sightline.privacy.law import (
    LATTICE_SHARE,
    Law,
)
from sightline.report.page import report_html
from sightline.tables.membership import Feature
from tests.auditing import fuzz_noise_laws
from tests.auditing.fuzz_noise_laws import DATA, check_plan
from tests.auditing.hand_made import assembled, membership_of, plan_of
from tests.auditing.noise_laws.priced_plans import total


@pytest.mark.parametrize("sigma", [1.5, 2.0, 5.0])
def test_a_discrete_gaussian_answer_is_made_of_its_stand_in(sigma: float) -> None:
    """From a Gaussian answer of variance σ² − 1, draw a whole number with weights of variance 1 around it."""
    tau = float(Law.DISCRETE_GAUSSIAN.facts.information_scale(np.array([sigma]))[0])
    assert tau == pytest.approx(math.sqrt(sigma**2 - 1))
    steps = np.arange(-60, 61)
    answer = np.linspace(-12 * sigma, 12 * sigma, 20_001)
    weights = np.exp(-((steps[:, None] - answer) ** 2) / 2)
    weights /= weights.sum(axis=0)
    made = weights @ norm.pdf(answer, scale=tau) * (answer[1] - answer[0])
    discrete = np.exp(-(steps**2) / (2 * sigma**2))
    discrete /= discrete.sum()
    near = np.abs(steps) < 6 * sigma
    assert np.all(discrete[near] >= (1 - LATTICE_SHARE) * made[near] * (1 - 1e-12))
    assert made[near].sum() == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0, 50.0])
def test_of_a_coin_a_geometric_answer_is_a_flipped_comparison(scale: float) -> None:
    steps = np.arange(-3000, 3001)
    mass = np.exp(-np.abs(steps) / scale) * math.tanh(0.5 / scale)
    assert mass.sum() == pytest.approx(1.0)
    # The two likelihoods at each answer have one of two ratios, and the wrong side has this probability.
    wrong = mass[steps >= 1].sum()
    assert wrong == pytest.approx(1 / (1 + math.exp(1 / scale)))
    told = 1 / float(Law.GEOMETRIC.facts.information_scale(np.array([scale]))[0])
    assert norm.cdf(-told / 2) <= wrong  # the comparison of the Gaussian answer errs no more
    assert told >= 1 / scale  # a person's privacy loss is read off it


@pytest.mark.parametrize("kind", [{"kind": "boolean"}, {"categories": ["yes", "no", "unsure"]}])
def test_every_copy_of_a_discrete_answer_gives_its_share_away(
    kind: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lower ends are at most those of the stand-in, times the probability that no copy tells more."""
    monkeypatch.setattr(findings, "with_walk", lambda design, lower, upper, limit: lower)  # has its own draws
    sigma, copies = 300.0, 20_000
    secrets = [True, True, False, True] if "kind" in kind else ["yes", "no", "unsure", "yes"]
    data = {
        "source": pyarrow.table({"who": list("abcd"), "x": secrets}),
        "record": "who",
        "secret": "x",
        **kind,
    }
    condition = "x" if "kind" in kind else "x = 'yes'"
    sql = f"SELECT COUNT(*) FILTER (WHERE {condition}) FROM data"

    def lower(noise: dict[str, object]) -> float:
        release = {"name": "count", "sql": sql, "noise": noise, "times": copies}
        result = sl.audit({"data": data, "release": [release]})
        assert result.least_remaining_uncertainty is not None
        return result.least_remaining_uncertainty.lower

    discrete = lower({"law": "discrete-gaussian", "stddev": sigma})
    stand_in = lower({"law": "gaussian", "stddev": math.sqrt(sigma**2 - 1)})
    most = stand_in * (1 - copies * LATTICE_SHARE)
    assert 0.99 * most <= discrete <= most * (1 + 1e-9)


# Brackets against enumeration


MIXES = [
    ["geometric", "geometric"],
    ["geometric", "laplace"],
    ["discrete-gaussian", "geometric"],
    ["discrete-gaussian", "discrete-gaussian"],
    ["gaussian", "laplace"],
    ["none", "gaussian"],
    ["none", "none"],
    ["none", "geometric"],
]


@pytest.mark.parametrize("laws", MIXES, ids="-".join)
@pytest.mark.parametrize(
    "rows",
    [[[1, 1, 1, 0], [0, 1, 1, 1]], [[1, 1, 1, 1], [1, 0, 0, 0]], [[1, 1, 0, 0], [1, 1, 1, 1]]],
    ids=str,
)
def test_the_risk_by_enumeration_is_within_the_bracket(laws: list[str], rows: list[list[int]]) -> None:
    check_plan(np.array(rows), laws, [1.6, 1.6])


@pytest.mark.slow
def test_random_plans_of_all_laws() -> None:
    assert fuzz_noise_laws.fuzz(7, math.inf, most=8)["categories"] == 4


def test_coins_behind_exact_sums_hide_each_other() -> None:
    """An exact total and two counts with noise: records with a signature of their own keep something."""
    rows = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0]])
    lower = check_plan(rows, ["none", "geometric", "discrete-gaussian"], [0.0, 2.5, 2.5])
    assert lower.size == 4
    assert np.all(lower > 0.3)


@pytest.mark.parametrize("deviation", [0.3, 1.0])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_a_number_behind_an_exact_sum_keeps_at_least_the_lower_end(deviation: float, law: str) -> None:
    """The first of three uniform numbers: their sum is exact, and it is seen by itself in noise."""
    plan = plan_of(
        {"name": "a", "noise": {"law": "none"}},
        {"name": "b", "noise": {"law": law, "stddev": deviation}},
        data={**DATA, "bounds": [0, 1]},
    )
    found = find(plan, membership_of([total(0), total(1)], [["", "", ""], ["", None, None]])).linear
    assert found is not None
    column = int(np.flatnonzero(found.counts == 1)[0])
    x, sums = (np.arange(400) + 0.5) / 400, (np.arange(300) + 0.5) / 100
    rest = sums[:, None] - x  # of the two others, whose sum has a triangular density
    density = np.maximum(1 - np.abs(rest - 1), 0.0) / 400 / 100  # of the sum and the first number
    y = np.linspace(-12 * deviation, 1 + 12 * deviation, 1500)
    away = np.abs(y[:, None] - x) / deviation
    noise = np.exp(-(away**2) / 2) if law == "gaussian" else np.exp(-math.sqrt(2) * away)
    noise /= noise.sum(axis=0)
    evidence, moment = density @ noise.T, (density * x) @ noise.T
    seen = evidence > 1e-30
    risk = np.sum(density * x**2) - np.sum(moment[seen] ** 2 / evidence[seen])
    assert 0.2 < found.lower[column] <= 12 * risk
    assert 12 * risk <= found.upper[column] + 1e-3


def test_two_numbers_with_an_exact_sum_keep_half() -> None:
    plan = plan_of({"name": "a", "noise": {"law": "none"}})
    found = find(plan, membership_of([total()], [["", ""]])).linear
    assert found is not None
    assert found.bracket(0).lower == 0.5  # the variance of x given x + y is r²/24, exactly
    assert found.bracket(0).upper == pytest.approx(0.5, abs=1e-9)


def test_a_record_outside_every_exact_number_keeps_what_noise_leaves_if_those_inside_are_told() -> None:
    plan = plan_of({"name": "a", "noise": {"law": "none"}}, {"name": "b", "noise_stddev": 4.0})
    groups = [["in", "in", None], ["", "", ""]]
    found = find(plan, membership_of([total(0), total(1)], groups)).linear
    alone = find(plan_of({"name": "b", "noise_stddev": 4.0}), membership_of([total()], [[""]])).linear
    assert found is not None
    assert alone is not None
    outside = int(np.flatnonzero(found.counts == 1)[0])
    assert found.lower[outside] == pytest.approx(alone.lower[0])
    assert found.lower[1 - outside] == pytest.approx(0.5)


def test_without_a_release_its_records_are_alike_again() -> None:
    plan = plan_of({"name": "a", "noise": {"law": "none"}}, {"name": "b", "noise_stddev": 1.0})
    findings = find(plan, membership_of([total(0), total(1)], [[""] * 5, ["", None, None, None, None]]))
    fewer = findings_with(findings, findings.linear.linear.take(findings.linear.linear.query_of_row != 1))
    assert fewer is not None
    np.testing.assert_allclose(fewer.lower, 0.8)


def test_what_exact_numbers_give_away_has_no_error() -> None:
    plan = plan_of(
        {"name": "a", "noise": {"law": "none"}},
        {"name": "b", "noise": {"law": "none"}},
        limits={"remaining_uncertainty": 1e-9},
    )
    result = assembled(find(plan, membership_of([total(0), total(1)], [["", "", ""], [None, "", ""]])))
    assert result.verdict.status is VerdictStatus.FAILED
    worst = result.exposed[0]
    assert worst.remaining_uncertainty is not None
    assert (worst.rmse, worst.remaining_uncertainty.lower, worst.remaining_uncertainty.upper) == (
        0.0,
        0.0,
        0.0,
    )
    assert worst.recipe is not None
    assert worst.recipe.rmse == 0.0
    assert result.guaranteed_by_noise == 0.0
    assert AuditResult.from_json(result.to_json()) == result  # infinite epsilons survive
    assert "published exactly" in " ".join(change.text for change in result.what_to_change)


@pytest.mark.slow
def test_the_page_says_that_no_budget_covers_exact_numbers() -> None:
    plan = plan_of({"name": "a", "noise": {"law": "none"}})
    page = report_html(assembled(find(plan, membership_of([total()], [["", "", ""]]))))
    assert "published exactly: no budget covers that" in page


def test_an_exact_moment_leaves_nothing_for_sure() -> None:
    plan = plan_of(
        {"name": "a", "noise": {"law": "none"}},
        {"name": "b", "noise_stddev": 1000.0},
        limits={"remaining_uncertainty": 0.001},
    )
    square = total(0, feature=Feature.POWER, parameter=2)
    found = find(plan, membership_of([square, total(1)], [["", ""], ["", ""]]))
    assert found.least is not None
    assert found.least.lower == 0.0
