"""No category of a secret passes unseen: each lies in its bracket, computed by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sightline.auditing.findings import find
from sightline.tables.membership import Feature, Statistic
from tests.auditing.hand_made import assembled, membership_of, partition, plan_of
from tests.auditing.no_false_pass.written_plans import DATA, LIMIT, exact_risk


@pytest.mark.slow
def test_the_category_that_was_left_out_is_told_too() -> None:
    """One indicator of one person; the numbers about others make its category the reference."""
    categories = ["cold", "flu", "well"]
    settings = {"statistic": Statistic.SUM, "feature": Feature.INDICATOR}
    parts = [partition(0, "one", parameter="well", **settings)]
    parts += [partition(1, f"others: {one}", parameter=one, **settings) for one in ("cold", "flu")]
    others = [None, "a", "a", "b", "b"]
    plan = plan_of(
        {"name": "one", "noise_stddev": 0.25},
        {"name": "others", "noise_stddev": 0.2},
        data={**DATA, "categories": categories},
        limits=LIMIT,
    )
    findings = find(plan, membership_of(parts, [["", *[None] * 4], others, others]))
    assert findings.linear.linear.categories == ("cold", "flu", "well"), "no category is a reference"
    result = assembled(findings)
    worst = result.exposed[0]
    assert (worst.category, worst.size) == ("well", 1)
    assert worst.remaining_uncertainty == result.least_remaining_uncertainty
    # Nothing else is about this person: the truth is the risk of one indicator seen at noise 0.25.
    truth = np.array([0.0, 0.0, 1.0])  # whether the person is well, in each of three worlds
    risk = exact_risk(truth, 0.25) / (2 / 9)
    assert 0.07 < risk < 0.09
    assert worst.remaining_uncertainty is not None
    assert worst.remaining_uncertainty.lower == pytest.approx(risk, abs=1e-4)
    assert risk <= worst.remaining_uncertainty.upper


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.25, 1.0, 3.0])
def test_every_category_lies_in_its_bracket_by_enumeration_of_all_worlds(noise: float) -> None:
    """Two records, three categories, a histogram over both and one indicator of the first: nine worlds."""
    categories = ["cold", "flu", "well"]
    settings = {"statistic": Statistic.SUM, "feature": Feature.INDICATOR}
    for single in categories:
        parts = [partition(0, f"all: {one}", parameter=one, **settings) for one in categories]
        parts.append(partition(1, "one", parameter=single, **settings))
        plan = plan_of(
            {"name": "all", "noise_stddev": 1.5},
            {"name": "one", "noise_stddev": noise},
            data={**DATA, "categories": categories},
        )
        membership = membership_of(parts, [["", ""]] * 3 + [["", None]])
        found = find(plan, membership).linear
        assert found is not None
        assert sorted(found.linear.categories) == categories
        worlds = list(itertools.product(range(3), repeat=2))
        means = np.array(
            [[*(world.count(c) for c in range(3)), world[0] == categories.index(single)] for world in worlds],
            dtype=float,
        )
        risks = risks_by_quadrature(means, np.array([1.5, 1.5, 1.5, noise]), np.array(worlds))
        for number, category in enumerate(found.linear.categories):
            columns = np.arange(number, found.lower.size, 3)
            assert columns.size == 2
            for column in columns:
                signature = membership.signatures[found.linear.signatures_of(int(column))[0]]
                record = 0 if signature[3] >= 0 else 1
                bracket = found.bracket(int(column))
                truth, error = risks[record][categories.index(category)]
                assert bracket.lower <= truth + 5 * error
                assert truth - 5 * error <= bracket.upper


def risks_by_quadrature(
    means: np.ndarray, noise: np.ndarray, worlds: np.ndarray
) -> list[list[tuple[float, float]]]:
    """For each record and category the exact Bayes risk over v; the mean over worlds and drawn noise."""
    generator = np.random.default_rng(7)
    drawn = np.repeat(np.arange(len(worlds)), 4_000)
    answers = means[drawn] + generator.normal(size=(drawn.size, means.shape[1])) * noise
    logs = -(((answers[:, None] - means[None]) / noise) ** 2).sum(axis=2) / 2
    posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    risks = []
    for record in range(worlds.shape[1]):
        mine = []
        for category in range(3):
            guess = posterior @ (worlds[:, record] == category)
            left = guess * (1 - guess) / (2 / 9)
            mine.append((float(left.mean()), float(left.std() / np.sqrt(left.size))))
        risks.append(mine)
    return risks


@pytest.mark.slow
def test_a_recipe_for_the_reference_category_gives_its_indicator() -> None:
    categories = ["cold", "flu", "well"]
    settings = {"statistic": Statistic.SUM, "feature": Feature.INDICATOR}
    parts = [partition(0, f"all: {one}", label=one, parameter=one, **settings) for one in categories] + [
        partition(1, "but one", parameter="well", **settings)
    ]
    plan = plan_of(
        {"name": "all", "noise_stddev": 1.0},
        {"name": "but one", "noise_stddev": 9.0},
        data={**DATA, "categories": categories},
    )
    lines = [["", "", "", ""]] * 3 + [[None, "", "", ""]]
    membership = membership_of(parts, lines)
    findings = find(plan, membership)
    values = ["well", "flu", "well", "cold"]
    answers = {("all", category): float(values.count(category)) for category in categories} | {
        ("but one", ""): float(values[1:].count("well"))
    }
    exposed = assembled(findings).exposed
    told = [one for one in exposed if one.size == 1 and one.identifiable]
    assert {one.category for one in told} == {"well"}
    for one in told:
        for recipe in (one.recipe, one.shortest):
            assert recipe is not None
            total = recipe.constant + sum(s.weight * answers[s.release, s.cell] for s in recipe.steps)
            assert total == pytest.approx(1.0, abs=1e-9)  # the first record is well
