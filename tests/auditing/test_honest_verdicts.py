"""Verdicts that must not say more than is known, and recipes that must say what they are of."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sightline.auditing.findings import find
from sightline.auditing.result import AuditResult, VerdictStatus
from sightline.auditing.secret_prior import SecretPrior
from sightline.privacy.law import Law
from sightline.report.judgement import attacked as attacked_sentence
from sightline.tables.membership import Feature, RowValues, Statistic
from sightline.tables.subject import SecretKind
from tests.auditing.hand_made import assembled, membership_of, partition, plan_of

DATA = {"source": "t.csv", "record": "id", "secret": "x"}
LIMIT = {"remaining_uncertainty": 0.5}


def squares(noise: float, values: list[float]) -> AuditResult:
    plan = plan_of({"name": "squares", "noise_stddev": noise}, limits=LIMIT)
    part = partition(0, "squares", feature=Feature.POWER, parameter=2, statistic=Statistic.SUM)
    membership = membership_of([part], [["a", *["b"] * (len(values) - 1)]])
    signature = np.array([0, *[1] * (len(values) - 1)], dtype=np.int64)
    fetched = RowValues(signature=signature, secret=np.array(values))
    return assembled(find(plan, membership, values=lambda: fetched))


@pytest.mark.parametrize("values", [[4.0, 5.0, 6.0], [0.0, 0.0, 0.0]])
def test_little_noise_on_a_moment_never_passes(values: list[float]) -> None:
    """Also where its slope vanishes, and no unbiased attack sees anything."""
    result = squares(0.01, values)
    for verdict in (result.verdict, result.publishable().verdict):
        assert verdict.passed is False
        assert "Everyone keeps" not in verdict.text
        assert "Nothing that is published depends" not in verdict.text


def test_enough_noise_on_a_moment_passes_for_everyone_and_in_public() -> None:
    result = squares(500.0, [4.0, 5.0, 6.0])
    assert result.guaranteed_by_noise is not None
    assert result.guaranteed_by_noise > 0.5
    assert result.verdict.passed is True
    assert result.publishable().verdict.passed is True


@pytest.mark.slow
@pytest.mark.parametrize("law", [Law.GAUSSIAN, Law.LAPLACE])
@pytest.mark.parametrize("multiplier", [0.2, 0.7, 3.0])
def test_the_noise_protects_a_number_whatever_is_published_of_it(multiplier: float, law: Law) -> None:
    """The exact Bayes risk of a sharp threshold, which no information bound covers, is not below it."""
    x = (np.arange(4000) + 0.5) / 4000 - 0.5
    prior = np.full(4000, 1 / 4000)
    y = np.linspace(-40, 41, 16001)
    step = y[1] - y[0]
    for feature in ((x > 0).astype(float), (x > 0.2).astype(float), x + 0.5):  # all change by one at most
        levels, level = np.unique(feature.round(3), return_inverse=True)
        offsets = (y[:, None] - levels) / multiplier
        if law is Law.GAUSSIAN:
            density = np.exp(-(offsets**2) / 2) / (multiplier * math.sqrt(2 * math.pi))
        else:
            density = np.exp(-np.abs(offsets)) / (2 * multiplier)
        mass = np.bincount(level, prior)
        first = np.bincount(level, prior * x)
        evidence, moment = density @ mass, density @ first
        seen = evidence > 1e-280
        risk = prior @ x**2 - np.sum(moment[seen] ** 2 / evidence[seen]) * step
        told = float(law.facts.information_at_most(np.array([multiplier]))[0])
        bound = SecretPrior(kind=SecretKind.NUMBER).kept_whatever_is_published(told)
        assert bound <= risk / (prior @ x**2) * (1 + 1e-6)


def test_values_outside_the_bounds_are_told_to_the_owner_only() -> None:
    plan = plan_of({"name": "mean"}, limits=LIMIT)
    membership = membership_of([partition(0, "mean")], [["a", "a", "b", "b"]])
    many = assembled(find(plan, _clipped(membership, 3)))
    assert "3 values are outside the bounds, and nothing is shown of them (clipped)" in many.verdict.text
    assert many.verdict.status == many.publishable().verdict.status == VerdictStatus.NOT_SHOWN
    assert "the reason is for the owner only" in many.publishable().verdict.text
    assert "outside" not in many.publishable().to_json()
    assert "outside" not in assembled(find(plan, membership)).verdict.text


def _clipped(membership: object, number: int) -> object:
    from dataclasses import replace

    return replace(membership, clipped=number)


def test_the_shortest_recipe_is_the_sharpest_of_its_length() -> None:
    plan = plan_of({"name": "coarse", "noise_stddev": 5.0}, {"name": "sharp", "noise_stddev": 0.1})
    parts = [partition(0, "coarse"), partition(1, "sharp")]
    result = assembled(find(plan, membership_of(parts, [["a", "b", "b"]] * 2)))
    one = next(one for one in result.exposed if one.size == 1)
    assert one.shortest is not None
    assert [step.release for step in one.shortest.steps] == ["sharp"]
    assert one.shortest.rmse == pytest.approx(0.1)


def test_under_laplace_noise_a_recipe_errs_by_its_own_noise() -> None:
    plan = plan_of({"name": "sum"}, privacy={"epsilon": 1.0, "accountant": "laplace"})
    examined = find(plan, membership_of([partition(0, "sum", statistic=Statistic.SUM)], [["a", "b", "b"]]))
    one = next(one for one in assembled(examined).exposed if one.size == 1)
    assert one.recipe is not None
    assert one.recipe.rmse == pytest.approx(examined.pricing.noise_stddev[0])
    assert one.rmse == pytest.approx(examined.pricing.noise_stddev[0])


@pytest.mark.slow
def test_steps_say_of_which_category_they_are_and_records_are_counted_once() -> None:
    categories = ["a", "b", "c"]
    settings = {"statistic": Statistic.SUM, "feature": Feature.INDICATOR}
    parts = [
        partition(0, f"blood: blood = {one}", label=f"blood = {one}", parameter=one, **settings)
        for one in categories
    ]
    plan = plan_of({"name": "blood"}, data={**DATA, "categories": categories})
    result = assembled(find(plan, membership_of(parts, [["x", "y", "y"]] * 3)))
    one = next(one for one in result.exposed if one.size == 1)
    assert one.recipe is not None
    assert {step.cell for step in one.recipe.steps} == {f"x, {category}" for category in categories}
    (report,) = result.releases
    assert (report.newly_exposes, report.exposes_alone) == (1, 1)
    assert result.identifiable_records == 1


def test_a_budget_that_nothing_uses_was_given_all_the_same() -> None:
    for noise, kept in ((1.0, "costs more than the budget"), (1e9, "keeps to the budget")):
        plan = plan_of({"name": "mean", "noise_stddev": noise})
        result = assembled(find(plan, membership_of([partition(0, "mean")], [["a", "b", "b"]])))
        said = f"no release takes a share of the budget: the noise was chosen elsewhere, and {kept}"
        assert result.budget.note == said


def test_a_recipe_says_when_known_records_are_to_be_subtracted() -> None:
    plan = plan_of({"name": "mean"}, {"name": "other"})
    parts = [partition(0, "mean"), partition(1, "other")]
    lines = [["a", "a", "a", "b"], [None, None, None, ""]]
    result = assembled(find(plan, membership_of(parts, lines, known=[0, 1])))
    told = {one.recipe.text: one.recipe.less_known for one in result.exposed if one.recipe is not None}
    assert told['3 × "mean: a" less the known values'] is True
    assert sum(told.values()) == 1  # the fourth record's does not need it


def test_of_records_that_may_keep_as_little_the_one_seen_best_is_told() -> None:
    """All are in as many sums: coins have the same lower end then. One is only seen by differences."""
    plan = plan_of(
        {"name": "one", "noise_stddev": 1.0},
        {"name": "two", "noise_stddev": 1.0},
        attacker={"prior": "two-point"},
    )
    parts = [partition(q, name, statistic=Statistic.SUM) for q, name in enumerate(("one", "two"))]
    lines = [["a", "a", "b"], ["x", "y", "y"]]
    examined = find(plan, membership_of(parts, lines))
    exposures = examined.linear.exposure
    assert np.ptp(exposures.lower) == 0
    assert exposures.upper.min() < exposures.upper.max()
    least = assembled(examined).least_remaining_uncertainty
    assert least is not None
    assert least.upper == examined.linear.upper.min()


def test_what_some_attack_leaves_is_told_from_what_is_not_shown() -> None:
    """A limit inside the bracket is not shown to hold; one above it is undercut by an attack."""
    assert attacked_sentence(1, 1) == "Some attack leaves it less."
    assert attacked_sentence(3, 3) == "Some attack leaves each of them less."
    assert attacked_sentence(0, 1) == (
        "No attack is known that leaves it less, but it is not shown that it keeps it."
    )
    assert attacked_sentence(0, 2).startswith("No attack is known that leaves one of them less")
    assert attacked_sentence(2, 5) == (
        "Some attack leaves 2 of them less; whether the other 3 keep it is not shown."
    )
    part = membership_of([partition(0, "sum", statistic=Statistic.SUM)], [["a", "b", "b"]])
    sums = {"name": "sum", "noise_stddev": 3.0}
    before = find(plan_of(sums), part).linear
    assert before is not None
    least = before.least
    assert least is not None
    assert least.lower < least.upper
    for limit, attacked in (((least.lower + least.upper) / 2, 0), (least.upper * 1.001, 1)):
        examined = find(plan_of(sums, limits={"remaining_uncertainty": limit}), part)
        found = assembled(examined).verdict
        assert found.status is VerdictStatus.FAILED
        assert (found.below_limit, found.attacked) == (1, attacked)
        assert attacked_sentence(attacked, 1) in found.text
