"""Every law of noise that a plan can state: its parameters, price and brackets, each computed twice."""

from __future__ import annotations

import itertools
import math
import tomllib
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from sightline.auditing.assemble import assemble
from sightline.auditing.budget import budget_report
from sightline.auditing.findings import find, findings_with
from sightline.auditing.plan import Plan
from sightline.auditing.plan_text import plan_text, publishable_plan_text
from sightline.auditing.pricing import Pricing, price
from sightline.auditing.reading import read_plan
from sightline.auditing.result import AuditResult, VerdictStatus
from sightline.errors import InvalidPlan
from sightline.noise.published import (
    LATTICE_SHARE,
    PublishedLaw,
    information_scale,
    noise_stddev,
    parameter_of_stddev,
)
from sightline.privacy.spending import account
from sightline.report.html import report_html
from sightline.tables.membership import Feature, Membership, Statistic
from tests.auditing import fuzz_noise_laws
from tests.auditing.fuzz_noise_laws import DATA, YES_OR_NO, check_plan
from tests.auditing.hand_made import membership_of, partition, plan_of

DELTA = 1e-5


def total(query: int = 0, name: str = "p", **changes: Any) -> Any:
    return partition(query, name, statistic=Statistic.SUM, **changes)


def priced(*noises: Any, times: int = 1, **changes: Any) -> tuple[Plan, Membership, Pricing]:
    """Totals over four rows, one for each noise."""
    plan = plan_of(
        *({"name": f"r{i}", "noise": noise, "times": times} for i, noise in enumerate(noises)), **changes
    )
    membership = membership_of([total(i) for i in range(len(noises))], [[""] * 4] * len(noises))
    return plan, membership, price(plan, membership)


def spent(*noises: Any, **changes: Any) -> dict[str, float]:
    return budget_report(*priced(*noises, **changes)).spent


# What is stated becomes a parameter


@pytest.mark.parametrize(
    ("noise", "parameter", "deviation"),  # the range is 10, so a total changes by 10
    [
        ({"stddev": 3.0}, 3.0, 3.0),
        ({"law": "laplace", "stddev": 3.0}, 3 / math.sqrt(2), 3.0),
        ({"noise_multiplier": 0.7}, 7.0, 7.0),
        ({"law": "laplace", "noise_multiplier": 0.7}, 7.0, 7 * math.sqrt(2)),
        ({"law": "laplace", "epsilon": 0.5}, 20.0, 20 * math.sqrt(2)),
        ({"rho": 0.125}, 20.0, 20.0),  # 10² / (2 · 20²)
        ({"cells": [{"stddev": 4.0}]}, 4.0, 4.0),
        ({"law": "laplace", "cells": [{"stddev": 4.0}]}, 4 / math.sqrt(2), 4.0),
        ({"law": "none"}, 0.0, 0.0),
    ],
)
def test_each_way_to_say_how_much(noise: Any, parameter: float, deviation: float) -> None:
    pricing = priced(noise)[2]
    assert pricing.parameter == pytest.approx([parameter])
    assert pricing.noise_stddev == pytest.approx([deviation])
    assert pricing.multipliers == pytest.approx([parameter / 10])


def test_a_share_is_for_all_copies_and_aggregates() -> None:
    for noise, name in (
        ({"law": "laplace", "epsilon": 0.6}, "laplace"),
        ({"epsilon": 0.6}, "zcdp"),
    ):
        plan = plan_of({"name": "a", "noise": noise, "times": 3})
        membership = membership_of([total(label="one"), total(label="two")], [["", ""], ["", None]])
        found = budget_report(plan, membership, price(plan, membership)).spent[name]
        assert 0.6 * (1 - 1e-9) < found <= 0.6 * (1 + 1e-9)
    assert price(plan, membership).releases == 0  # no share of the common budget


def test_a_share_in_rho_adds_up_to_it() -> None:
    pricing = priced({"rho": 0.05}, times=4)[2]
    assert np.sum(1 / (2 * pricing.multipliers**2)) == pytest.approx(0.05)


def test_aggregates_of_one_release_have_noise_of_their_own() -> None:
    noise = [{"label": "total", "law": "laplace", "stddev": 3.0}, {"label": "mean", "stddev": 2.0}]
    plan = plan_of({"name": "a", "noise": noise})
    parts = [total(label="total by region"), partition(label="mean by region")]
    pricing = price(plan, membership_of(parts, [["n", "s", "n"]] * 2))
    assert pricing.laws == (PublishedLaw.LAPLACE, PublishedLaw.GAUSSIAN)
    assert pricing.noise_stddev == pytest.approx([3.0, 3.0, 2.0, 2.0])
    assert pricing.release_laws == pricing.laws


def test_the_full_label_goes_before_the_short_one() -> None:
    noise = [{"label": "x", "stddev": 3.0}, {"label": "x by region", "stddev": 2.0}]
    plan = plan_of({"name": "a", "noise": noise})
    membership = membership_of([total(label="x by region"), total(label="x")], [["n", "s"], ["", ""]])
    assert price(plan, membership).noise_stddev.tolist() == [2.0, 2.0, 3.0]


@pytest.mark.parametrize("law", [law for law in PublishedLaw if law is not PublishedLaw.NONE])
def test_a_standard_deviation_has_one_parameter(law: PublishedLaw) -> None:
    given = np.array([0.3, 2.0, 1e4])
    np.testing.assert_allclose(noise_stddev(law, parameter_of_stddev(law, given)), given, rtol=1e-12)


# Prices


def test_laplace_and_geometric_noise_cost_pure_epsilons() -> None:
    assert spent({"law": "laplace", "noise_multiplier": 2.0}, {"law": "laplace", "epsilon": 0.25}) == (
        pytest.approx({"laplace": 0.75})
    )
    counts = spent(
        {"law": "geometric", "epsilon": 0.25}, {"law": "laplace", "stddev": 2**0.5}, data=YES_OR_NO
    )
    assert counts == pytest.approx({"laplace": 1.25})
    # The largest ratio of probabilities of neighbouring counts, from the law itself.
    steps = np.arange(-60, 61)
    logs = -np.abs(steps) * 0.25
    assert np.max(np.abs(np.diff(logs))) == pytest.approx(0.25)


def gaussian_and_laplace_delta(epsilon: float, *, multiplier: float, pure: float) -> float:
    """The exact delta of a Gaussian and a Laplace release together, by quadrature over the latter."""

    def gaussian(rest: np.ndarray) -> np.ndarray:
        mu = 1 / multiplier
        return norm.cdf(mu / 2 - rest / mu) - np.exp(rest) * norm.cdf(-mu / 2 - rest / mu)

    # The loss of the Laplace answer is pure − 2u on 0 < u < pure, and ± pure beyond.
    u = (np.arange(20_000) + 0.5) / 20_000 * pure
    inside = np.sum(0.5 * np.exp(-u) * gaussian(epsilon - (pure - 2 * u))) * pure / 20_000
    ends = 0.5 * gaussian(np.array(epsilon - pure)) + 0.5 * math.exp(-pure) * gaussian(
        np.array(epsilon + pure)
    )
    return float(inside + ends)


def test_no_accountant_says_less_of_a_mix_than_it_costs() -> None:
    found = spent({"noise_multiplier": 2.0}, {"law": "laplace", "epsilon": 0.5})
    assert set(found) == {
        *("basic", "basic-analytic", "advanced", "zcdp", "renyi", "gaussian-dp", "per-record"),
    }
    alone = account([2.0], delta=DELTA)
    assert found["gaussian-dp"] == pytest.approx(alone.epsilon_exact + 0.5)
    rho = 1 / 8 + 0.5**2 / 2
    assert found["zcdp"] == pytest.approx(
        min(alone.epsilon_zcdp + 0.5, rho + 2 * math.sqrt(rho * math.log(1 / DELTA)))
    )
    for epsilon in found.values():
        assert gaussian_and_laplace_delta(epsilon, multiplier=2.0, pure=0.5) <= DELTA
    # The check can fail: a quarter less is not enough.
    assert gaussian_and_laplace_delta(0.75 * found["gaussian-dp"], multiplier=2.0, pure=0.5) > DELTA


def test_discrete_gaussian_noise_is_priced_by_zcdp_and_renyi_alone() -> None:
    found = spent({"law": "discrete-gaussian", "stddev": 2.0}, data=YES_OR_NO)
    assert found == pytest.approx(
        {name: account([2.0], delta=DELTA).epsilon_zcdp for name in ("zcdp", "renyi")}
    )
    # Its Rényi divergence between neighbouring counts is at most that of Gaussian noise.
    steps = np.arange(-80, 81)
    for sigma, order in itertools.product((0.5, 2.0), (1.5, 4.0, 32.0)):
        mass = -(steps**2) / (2 * sigma**2)
        mass = mass - np.logaddexp.reduce(mass)
        logs = order * mass[:-1] + (1 - order) * mass[1:]
        divergence = np.logaddexp.reduce(logs) / (order - 1)
        assert divergence <= order / (2 * sigma**2) * (1 + 1e-9)


@pytest.mark.parametrize(("law", "factor"), [("gaussian", math.sqrt(2)), ("laplace", 2), ("geometric", 2)])
def test_a_histogram_moves_two_cells(law: str, factor: float) -> None:
    categories = ["cold", "flu", "well"]
    plan = plan_of(
        {"name": "a", "noise": {"law": law, "noise_multiplier": 3.0}}, data={**DATA, "categories": categories}
    )
    parts = [total(feature=Feature.INDICATOR, parameter=one, label=one) for one in categories]
    pricing = price(plan, membership_of(parts, [["", "", ""]] * 3))
    assert pricing.multipliers == pytest.approx([3.0])
    assert pricing.parameter == pytest.approx([3 * factor] * 3)


def test_an_exact_number_has_no_epsilon() -> None:
    report = budget_report(*priced({"law": "none"}, {"stddev": 3.0}))
    assert set(report.spent.values()) == {math.inf}
    assert not report.proven
    assert report.note.startswith(
        "1 release is published exactly: no budget covers that, epsilon is infinite"
    )
    several = budget_report(*priced({"law": "none"}, {"law": "none"}))
    assert several.note.startswith("2 releases are published exactly")


# Lattices


@pytest.mark.parametrize("sigma", [1.5, 2.0, 5.0])
def test_a_discrete_gaussian_answer_is_made_of_its_stand_in(sigma: float) -> None:
    """From a Gaussian answer of variance σ² − 1, draw a whole number with weights of variance 1 around it."""
    tau = float(information_scale(PublishedLaw.DISCRETE_GAUSSIAN, np.array([sigma]))[0])
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
    told = 1 / float(information_scale(PublishedLaw.GEOMETRIC, np.array([scale]))[0])
    assert norm.cdf(-told / 2) <= wrong  # the comparison of the Gaussian answer errs no more
    assert told >= 1 / scale  # a person's privacy loss is read off it


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
    assert 12 * risk <= found.exposures.remaining_upper[column] + 1e-3


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
    assert findings.linear is not None
    fewer = findings_with(findings, findings.linear.linear.without_release(1))
    assert fewer is not None
    np.testing.assert_allclose(fewer.lower, 0.8)


def test_what_exact_numbers_give_away_has_no_error() -> None:
    plan = plan_of(
        {"name": "a", "noise": {"law": "none"}},
        {"name": "b", "noise": {"law": "none"}},
        limits={"remaining_uncertainty": 1e-9},
    )
    result = assemble(find(plan, membership_of([total(0), total(1)], [["", "", ""], [None, "", ""]])))
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
    page = report_html(assemble(find(plan, membership_of([total()], [["", "", ""]]))))
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


# A plan of every form that must not pass


@pytest.mark.parametrize(
    ("noise", "changes"),
    [
        ({"law": "laplace", "stddev": 0.5}, {}),
        ({"noise_multiplier": 0.05}, {}),
        ({"law": "laplace", "epsilon": 30.0}, {}),
        ({"epsilon": 100.0}, {}),
        ({"rho": 100.0}, {}),
        ({"cells": [{"key": ["big"], "stddev": 100.0}, {"key": ["one"], "stddev": 0.1}]}, {}),
        ({"law": "none"}, {}),
        ({"law": "none"}, {"data": YES_OR_NO}),
        ({"law": "geometric", "epsilon": 5.0}, {"data": YES_OR_NO}),
        ({"law": "discrete-gaussian", "stddev": 1.5}, {"data": YES_OR_NO, "times": 40}),
        ({"law": "none"}, {"data": {**DATA, "categories": ["a", "b", "c"]}}),
    ],
    ids=str,
)
def test_a_record_on_its_own_with_little_noise_fails(noise: Any, changes: dict[str, Any]) -> None:
    changes = dict(changes)
    times, category = changes.pop("times", 1), "categories" in changes.get("data", {})
    plan = plan_of(
        {"name": "a", "noise": noise, "times": times}, limits={"remaining_uncertainty": 0.3}, **changes
    )
    part = total(feature=Feature.INDICATOR, parameter="a") if category else total()
    result = assemble(find(plan, membership_of([part], [["big"] * 9 + ["one"]])))
    assert result.verdict.status is VerdictStatus.FAILED
    assert result.verdict.below_limit == 1


def test_much_gaussian_noise_does_not_hide_what_little_laplace_noise_shows() -> None:
    plan = plan_of(
        {"name": "a", "noise_stddev": 1000.0},
        {"name": "b", "noise": {"law": "laplace", "stddev": 0.5}},
        limits={"remaining_uncertainty": 0.3},
    )
    result = assemble(find(plan, membership_of([total(0), total(1)], [["", "", ""], [None, "", None]])))
    assert result.verdict.status is VerdictStatus.FAILED
    assert result.verdict.below_limit == 1


def test_a_factor_on_a_mix_is_audited_before_it_is_proposed() -> None:
    plan = plan_of(
        {"name": "a", "noise_stddev": 3.0},
        {"name": "b", "noise": {"law": "laplace", "stddev": 1.0}},
        limits={"remaining_uncertainty": 0.8},
    )
    membership = membership_of([total(0), total(1)], [["", "", ""], [None, "", ""]])
    (change,) = [one for one in assemble(find(plan, membership)).what_to_change if one.noise_factor]
    assert change.noise_factor is not None

    def least(factor: float) -> float:
        louder = plan_of(
            {"name": "a", "noise_stddev": 3.0 * factor},
            {"name": "b", "noise": {"law": "laplace", "stddev": 1.0 * factor}},
        )
        found = find(louder, membership).least
        assert found is not None
        return found.lower

    assert least(change.noise_factor) >= 0.8 > least(0.97 * change.noise_factor)


def test_a_person_whose_rows_gaussian_numbers_see_has_no_pure_loss() -> None:
    """Two rows: a Laplace number with much noise, and a Gaussian one with hardly any."""
    data = {**DATA, "bounds": [0, 10], "max_rows_per_record": 2, "values": "independent"}
    plan = plan_of(
        {"name": "a", "noise": {"law": "laplace", "stddev": 1e6}},
        {"name": "b", "noise_stddev": 1e-3},
        data=data,
    )
    groups: list[list[str | None]] = [["", "", "", ""], ["", "", None, None]]
    membership = membership_of([total(0), total(1)], groups, contributions=2, owners=["u", "u", "v", "v"])
    found = find(plan, membership).linear
    assert found is not None
    assert found.persons is not None
    assert found.persons.lower.min() < 1e-6
    assert found.persons.lower.max() > 0.99
    costs = price(plan, membership).record_costs.by_record(membership)
    # Counted as zCDP: all rows of a person move the total by 20, in both kinds of noise.
    pure = 20 / (1e6 / math.sqrt(2))
    np.testing.assert_allclose(sorted(costs), [pure**2, (20 / 1e-3) ** 2 + pure**2])


# Texts and refusals


def test_a_plan_with_noise_is_read_back_as_it_was() -> None:
    plan = plan_of(
        {"name": "a", "noise": {"law": "laplace", "epsilon": 0.5}},
        {
            "name": "b",
            "noise": [
                {"label": "x", "law": "none"},
                {"label": "y", "cells": [{"key": ["H13"], "stddev": 1 / 3}]},
            ],
        },
    )
    assert read_plan_text(plan_text(plan)) == plan
    publishable = publishable_plan_text(plan)
    assert "H13" not in publishable
    assert 'law = "laplace"' in publishable.replace('"law"', "law")


def read_plan_text(text: str) -> Plan:
    return Plan.model_validate(tomllib.loads(text))


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ({"law": "none", "stddev": 1.0}, "expected nothing but the law with law = 'none', got stddev"),
        ({"law": "laplace"}, "expected one of stddev, noise_multiplier, epsilon, rho, cells, file, got none"),
        ({"stddev": 1.0, "rho": 1.0}, "got stddev and rho"),
        (
            {"law": "laplace", "rho": 1.0},
            "expected rho with gaussian or discrete-gaussian noise, got law = 'laplace'",
        ),
        ({"law": "cauchy", "stddev": 1.0}, "expected one of"),
        ({"stddev": 0.0}, "expected a number > 0, got 0.0"),
        ({"cells": [{"stddev": 1.0}, {"stddev": 2.0}]}, "each published number once in cells"),
        ([{"stddev": 1.0}, {"label": "x", "stddev": 1.0}], "or once for each label, got several for one"),
    ],
)
def test_contradictions_are_refused(noise: Any, message: str) -> None:
    content = plan_of({"name": "a"}).model_dump(mode="json", by_alias=True)
    content["release"] = [{"name": "a", "sql": "SELECT AVG(x) FROM data", "noise": noise}]
    with pytest.raises(InvalidPlan, match=message.replace("(", r"\(")):
        read_plan(content)


def test_two_fields_for_one_noise_are_refused() -> None:
    content = plan_of({"name": "a"}).model_dump(mode="json", by_alias=True)
    content["release"] = [{"name": "a", "sql": "SELECT", "noise": {"stddev": 1.0}, "noise_stddev": 1.0}]
    with pytest.raises(
        InvalidPlan, match="expected noise_stddev or noise_by_cell or noise, got noise_stddev and noise"
    ):
        read_plan(content)


def test_a_gaussian_share_needs_delta() -> None:
    content = plan_of({"name": "a", "noise": {"epsilon": 1.0}}).model_dump(mode="json", by_alias=True)
    content["privacy"] = {}
    with pytest.raises(InvalidPlan, match=r"expected \[privacy\] delta, got none"):
        read_plan(content)
    content["release"][0]["noise"] = {"law": "laplace", "epsilon": 1.0}
    assert read_plan(content)[0].releases[0].noise[0].epsilon == 1.0


def test_a_share_under_the_laplace_accountant_follows_zcdp() -> None:
    privacy = {"epsilon": 1.0, "delta": DELTA, "accountant": "laplace"}
    plan, membership, pricing = priced({"epsilon": 0.6}, privacy=privacy)
    assert budget_report(plan, membership, pricing).spent["zcdp"] == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("release", "changes", "message"),
    [
        ({"noise": {"law": "geometric", "stddev": 2.0}}, {}, "geometric noise on counts of a yes or no"),
        ({"noise": {"law": "discrete-gaussian", "stddev": 2.0}}, {}, "discrete-gaussian noise on counts"),
        (
            {"noise": {"law": "discrete-gaussian", "stddev": 1.0}},
            {"data": YES_OR_NO},
            "of at least 1.5, got 1",
        ),
        (
            {"noise": {"law": "geometric", "stddev": 2.0}},
            {"data": {**YES_OR_NO, "max_rows_per_record": 2}},
            "geometric noise with one row a record, got max_rows_per_record = 2",
        ),
        (
            {"noise": {"law": "none"}},
            {"data": {**DATA, "bounds": [0, 10], "max_rows_per_record": 2}},
            "law = 'none' with one row a record, or values = 'constant'",
        ),
        (
            {"noise": {"label": "y", "stddev": 2.0}},
            {},
            "noise for every aggregate, got none for its only one",
        ),
        ({"noise": {"cells": [{"key": ["x"], "stddev": 2.0}]}}, {}, "noise cells for every published number"),
        (
            {"noise": {"cells": [{"stddev": 2.0}, {"key": ["x"], "stddev": 2.0}]}},
            {},
            "noise cells for numbers that it publishes, got the group 'x'",
        ),
    ],
)
def test_laws_without_a_bound_are_refused(release: Any, changes: dict[str, Any], message: str) -> None:
    plan = plan_of({"name": "a", **release}, **changes)
    with pytest.raises(InvalidPlan, match=message):
        price(plan, membership_of([total()], [["", ""]]))


def test_means_of_a_yes_or_no_have_no_lattice() -> None:
    plan = plan_of({"name": "a", "noise": {"law": "geometric", "stddev": 2.0}}, data=YES_OR_NO)
    with pytest.raises(InvalidPlan, match="geometric noise on counts"):
        price(plan, membership_of([partition()], [["", ""]]))


def test_a_label_that_no_aggregate_has_is_refused() -> None:
    noise = [{"label": label, "stddev": 1.0} for label in ("x", "y", "z")]
    plan = plan_of({"name": "a", "noise": noise})
    with pytest.raises(
        InvalidPlan, match="noise with the label of one of its aggregates, got 'z'; there are: x, y"
    ):
        price(plan, membership_of([total(label="x"), total(label="y")], [["", ""], ["", None]]))


def test_a_histogram_has_one_law() -> None:
    noise = [{"label": "u", "law": "laplace", "stddev": 1.0}, {"label": "v", "stddev": 1.0}]
    plan = plan_of({"name": "a", "noise": noise}, data={**DATA, "categories": ["u", "v"]})
    parts = [total(feature=Feature.INDICATOR, parameter=one, label=one) for one in "uv"]
    with pytest.raises(InvalidPlan, match="one law of noise for all categories of a histogram"):
        price(plan, membership_of(parts, [["", ""]] * 2))


def test_kept_rows_are_rows_of_a_record_too() -> None:
    data = {**DATA, "bounds": [0, 10], "keep": {"rows": 2, "order": "day"}}
    plan = plan_of({"name": "a", "noise": {"law": "none"}}, data=data)
    with pytest.raises(
        InvalidPlan, match=r"law = .none. with one row a record, .* got max_rows_per_record = 2"
    ):
        price(plan, membership_of([total()], [["", ""]], contributions=2, owners=["u", "u"]))


def test_a_share_is_for_all_periods_together() -> None:
    privacy = {"epsilon": 1.0, "delta": DELTA, "periods": 3}
    plan, membership, pricing = priced({"law": "laplace", "epsilon": 0.6}, privacy=privacy, times=2)
    assert pricing.multipliers.size == 6
    assert budget_report(plan, membership, pricing).spent["laplace"] == pytest.approx(0.6)


def test_the_total_beside_discrete_noise_is_that_of_zcdp() -> None:
    plan = plan_of(
        {"name": "a", "noise": {"law": "discrete-gaussian", "stddev": 2.0}},
        {"name": "b"},
        data=YES_OR_NO,
        privacy={"epsilon": 1.0, "delta": DELTA, "accountant": "gaussian-dp"},
    )
    membership = membership_of([total(0), total(1)], [["", ""]] * 2)
    report = budget_report(plan, membership, price(plan, membership))
    assert report.total_accountant == "zcdp"
    assert report.total_epsilon == report.spent["zcdp"]


def test_correlated_noise_is_gaussian() -> None:
    plan = plan_of(
        {"name": "a", "noise": {"law": "laplace", "stddev": 1.0}},
        {"name": "b", "noise_stddev": 1.0},
        correlation={"numbers": [{"release": "a"}, {"release": "b"}], "rows": [[], [0.5]]},
    )
    with pytest.raises(InvalidPlan, match=r"\[correlation\] with Gaussian noise on every number"):
        price(plan, membership_of([total(0), total(1)], [["", ""]] * 2))
