"""Noise of every law: a plan of each form that must not pass, texts, and what is refused."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import numpy as np
import pytest

from sightline.auditing.budget import budget_report
from sightline.auditing.findings import find
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import price
from sightline.auditing.reading import plan_text, publishable_plan_text, read_plan
from sightline.auditing.result import VerdictStatus
from sightline.errors import InvalidPlan
from sightline.tables.membership import Feature
from tests.auditing.fuzz_noise_laws import DATA, YES_OR_NO
from tests.auditing.hand_made import assembled, membership_of, partition, plan_of
from tests.auditing.noise_laws.priced_plans import DELTA, priced, total


@pytest.mark.parametrize(
    ("noise", "changes"),
    [
        ({"law": "laplace", "stddev": 0.5}, {}),
        ({"noise_multiplier": 0.05}, {}),
        ({"law": "laplace", "epsilon": 30.0}, {}),
        ({"epsilon": 100.0}, {}),
        ({"by_cell": [["big", 100.0], ["one", 0.1]]}, {}),
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
    result = assembled(find(plan, membership_of([part], [["big"] * 9 + ["one"]])))
    assert result.verdict.status is VerdictStatus.FAILED
    assert result.verdict.below_limit == 1


def test_much_gaussian_noise_does_not_hide_what_little_laplace_noise_shows() -> None:
    plan = plan_of(
        {"name": "a", "noise_stddev": 1000.0},
        {"name": "b", "noise": {"law": "laplace", "stddev": 0.5}},
        limits={"remaining_uncertainty": 0.3},
    )
    result = assembled(find(plan, membership_of([total(0), total(1)], [["", "", ""], [None, "", None]])))
    assert result.verdict.status is VerdictStatus.FAILED
    assert result.verdict.below_limit == 1


def test_a_factor_on_a_mix_is_audited_before_it_is_proposed() -> None:
    plan = plan_of(
        {"name": "a", "noise_stddev": 3.0},
        {"name": "b", "noise": {"law": "laplace", "stddev": 1.0}},
        limits={"remaining_uncertainty": 0.8},
    )
    membership = membership_of([total(0), total(1)], [["", "", ""], [None, "", ""]])
    (change,) = [one for one in assembled(find(plan, membership)).what_to_change if one.noise_factor]
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
    assert found.lower.min() < 1e-6
    assert found.lower.max() > 0.99
    costs = price(plan, membership).moves.by_record(membership)
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
                {"label": "y", "by_cell": [["H13", 1 / 3]]},
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
        ({"law": "laplace"}, "expected one of stddev, noise_multiplier, epsilon, by_cell, got none"),
        ({"stddev": 1.0, "epsilon": 1.0}, "got stddev and epsilon"),
        ({"rho": 1.0}, "which plans no longer have; write noise_multiplier"),
        ({"law": "cauchy", "stddev": 1.0}, "expected one of"),
        ({"stddev": 0.0}, "expected noise > 0, got 0"),
        ({"by_cell": [[1.0], [2.0]]}, "each published number once in by_cell"),
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
    with pytest.raises(InvalidPlan, match="expected noise_stddev or noise, got noise_stddev and noise"):
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
        (
            {"noise": {"law": "geometric", "stddev": 2.0}},
            {},
            "a secret of whole numbers with geometric noise",
        ),
        (
            {"noise": {"law": "discrete-gaussian", "stddev": 2.0}},
            {},
            "whole numbers with discrete-gaussian noise",
        ),
        (
            {"noise": {"law": "discrete-gaussian", "stddev": 1.0}},
            {"data": YES_OR_NO},
            "of at least 1.5, got 1",
        ),
        (
            {"noise": {"label": "y", "stddev": 2.0}},
            {},
            "noise for every aggregate, got none for",
        ),
        ({"noise": {"by_cell": [["x", 2.0]]}}, {}, "noise by_cell for every published number"),
        (
            {"noise": {"by_cell": [[2.0], ["x", 2.0]]}},
            {},
            "noise by_cell for numbers that it publishes, got the number 'x'",
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


def test_a_share_is_for_all_copies_together() -> None:
    privacy = {"epsilon": 1.0, "delta": DELTA}
    plan, membership, pricing = priced({"law": "laplace", "epsilon": 0.6}, privacy=privacy, times=6)
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
        {"name": "b", "noise": {"mechanism": "C.npy", "stddev": 1.0}},
    )
    with pytest.raises(InvalidPlan, match="a mechanism with Gaussian noise on every number of the plan"):
        price(plan, membership_of([total(0), total(1)], [["", ""]] * 2))
