"""Noise of every law: what is stated becomes a parameter, and a price, each computed twice."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from sightline.auditing.budget import budget_report
from sightline.auditing.pricing import price
from sightline.privacy.law import (
    Cost,
    Law,
)
from sightline.privacy.registry import account
from sightline.report.told import budget_in_words
from sightline.tables.membership import Feature
from tests.auditing.fuzz_noise_laws import DATA, YES_OR_NO
from tests.auditing.hand_made import membership_of, partition, plan_of
from tests.auditing.noise_laws.priced_plans import DELTA, priced, spent, total


@pytest.mark.parametrize(
    ("noise", "parameter", "deviation"),  # the range is 10, so a total changes by 10
    [
        ({"stddev": 3.0}, 3.0, 3.0),
        ({"law": "laplace", "stddev": 3.0}, 3 / math.sqrt(2), 3.0),
        ({"noise_multiplier": 0.7}, 7.0, 7.0),
        ({"law": "laplace", "noise_multiplier": 0.7}, 7.0, 7 * math.sqrt(2)),
        ({"law": "laplace", "epsilon": 0.5}, 20.0, 20 * math.sqrt(2)),
        ({"by_cell": [[4.0]]}, 4.0, 4.0),
        ({"law": "laplace", "by_cell": [[4.0]]}, 4 / math.sqrt(2), 4.0),
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
        ({"epsilon": 0.6}, "gaussian-dp"),
    ):
        plan = plan_of({"name": "a", "noise": noise, "times": 3})
        membership = membership_of([total(label="one"), total(label="two")], [["", ""], ["", None]])
        found = budget_report(plan, membership, price(plan, membership)).spent[name]
        assert 0.6 * (1 - 1e-9) < found <= 0.6 * (1 + 1e-9)
    assert price(plan, membership).releases == 0  # no share of the common budget


def test_a_share_in_rho_is_a_multiple_of_the_sensitivity() -> None:
    """As the refusal of ``rho`` says: √(n / 2 rho) for n copies."""
    pricing = priced({"noise_multiplier": math.sqrt(4 / (2 * 0.05))}, times=4)[2]
    assert np.sum(1 / (2 * pricing.multipliers**2)) == pytest.approx(0.05)


def test_aggregates_of_one_release_have_noise_of_their_own() -> None:
    noise = [{"label": "total", "law": "laplace", "stddev": 3.0}, {"label": "mean", "stddev": 2.0}]
    plan = plan_of({"name": "a", "noise": noise})
    parts = [total(label="total by region"), partition(label="mean by region")]
    pricing = price(plan, membership_of(parts, [["n", "s", "n"]] * 2))
    assert pricing.laws == (Law.LAPLACE, Law.GAUSSIAN)
    assert pricing.noise_stddev == pytest.approx([3.0, 3.0, 2.0, 2.0])
    assert pricing.bundle_laws == pricing.laws


def test_what_all_copies_tell_is_the_sum_over_them() -> None:
    noise = [{"label": "total", "law": "laplace", "stddev": 3.0}, {"label": "mean", "stddev": 2.0}]
    plan = plan_of({"name": "a", "noise": noise, "times": 3})
    parts = [total(label="total by region"), partition(label="mean by region")]
    pricing = price(plan, membership_of(parts, [["n", "s", "n"]] * 2))
    assert pricing.copies.tolist() == [3, 3]
    laws = [law for law in pricing.laws for _ in range(3)]
    for factor in (1.0, 7.0):
        multipliers = pricing.information_multipliers * factor
        each = [law.facts.information_at_most(m) for m, law in zip(multipliers, laws, strict=True)]
        assert pricing.told_at_most(factor) == float(np.sum(each)) > 0


def test_the_full_label_goes_before_the_short_one() -> None:
    noise = [{"label": "x", "stddev": 3.0}, {"label": "x by region", "stddev": 2.0}]
    plan = plan_of({"name": "a", "noise": noise})
    membership = membership_of([total(label="x by region"), total(label="x")], [["n", "s"], ["", ""]])
    assert price(plan, membership).noise_stddev.tolist() == [2.0, 2.0, 3.0]


@pytest.mark.parametrize("law", [law for law in Law if law.facts.cost is not Cost.INFINITE])
def test_a_standard_deviation_has_one_parameter(law: Law) -> None:
    given = np.array([0.3, 2.0, 1e4])
    np.testing.assert_allclose(law.facts.stddev(law.facts.parameter_of_stddev(given)), given, rtol=1e-12)


# Prices


def test_laplace_and_geometric_noise_cost_pure_epsilons() -> None:
    """Near the largest loss only the event counts that both lose most: to first order in delta."""

    def least(total: float, chance: float) -> float:
        return total + math.log1p(-DELTA / chance)

    found = spent({"law": "laplace", "noise_multiplier": 2.0}, {"law": "laplace", "epsilon": 0.25})
    assert found["laplace"] == pytest.approx(0.75)
    assert 0 <= found["optimal"] - least(0.75, 1 / 4) <= 2e-6  # a Laplace answer loses most with chance 1/2
    counts = spent(
        {"law": "geometric", "epsilon": 0.25}, {"law": "laplace", "stddev": 2**0.5}, data=YES_OR_NO
    )
    assert counts["laplace"] == pytest.approx(1.25)
    assert 0 <= counts["optimal"] - least(1.25, 1 / (1 + math.exp(-0.25)) / 2) <= 1e-5
    geometric = spent(
        {"law": "geometric", "epsilon": 0.25}, {"law": "geometric", "epsilon": 0.5}, data=YES_OR_NO
    )
    chance = 1 / (1 + math.exp(-0.25)) / (1 + math.exp(-0.5))
    assert geometric == pytest.approx({"laplace": 0.75, "optimal": least(0.75, chance)})
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
        *("basic", "basic-analytic", "advanced", "zcdp", "renyi", "gaussian-dp", "per-record", "optimal"),
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
    rho = 1 / 8
    by_renyi = rho + 2 * math.sqrt(rho * math.log(1 / DELTA))
    assert found == pytest.approx({"zcdp": account([2.0], delta=DELTA).epsilon_zcdp, "renyi": by_renyi})
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
    report = budget_in_words(budget_report(*priced({"law": "none"}, {"stddev": 3.0})))
    assert set(report.spent.values()) == {math.inf}
    assert not report.proven
    assert report.note.startswith(
        "1 release is published exactly: no budget covers that, epsilon is infinite"
    )
    several = budget_in_words(budget_report(*priced({"law": "none"}, {"law": "none"})))
    assert several.note.startswith("2 releases are published exactly")
