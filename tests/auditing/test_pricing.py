"""Prices by brute force: the largest change that one record can make, over all its neighbours."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sightline as sl
from sightline.auditing.budget import budget_report
from sightline.auditing.nonlinear import slopes
from sightline.auditing.pricing import feature_range, price
from sightline.errors import InvalidPlan
from sightline.privacy.law import Law
from sightline.privacy.registry import accountants
from sightline.tables.membership import Band, Feature, Statistic
from tests.auditing.hand_made import membership_of, partition, plan_of


@pytest.mark.parametrize("statistic", list(Statistic), ids=str)
@given(
    low=st.floats(-5, 5),
    width=st.floats(0.1, 8),
    power=st.integers(1, 5),
    share=st.floats(0, 1),
    others=st.integers(0, 4),
)
def test_no_change_of_a_value_moves_a_cell_by_more_than_its_sensitivity(
    statistic: Statistic, low: float, width: float, power: int, share: float, others: int
) -> None:
    high = low + width
    parts = [
        partition(statistic=statistic),
        partition(statistic=statistic, feature=Feature.POWER, parameter=power),
        partition(statistic=statistic, feature=Feature.THRESHOLD, parameter=low + share * width),
    ]
    plan = plan_of({"name": "a"}, data=data(bounds=[low, high]))
    membership = membership_of(parts, [[""] * (others + 1)] * 3)
    found = price(plan, membership).sensitivity
    grid = np.linspace(low, high, 301)
    n = others + 1 if statistic is Statistic.MEAN else 1
    features = [grid, grid**power, grid >= low + share * width]
    for sensitivity, feature in zip(found, features, strict=True):
        moved = (float(feature.max()) - float(feature.min())) / n
        if feature.dtype == bool and not moved:
            continue  # a threshold at the lower bound: nobody is below
        # The grid may miss the turning point of an even power, by a part of a step.
        assert moved <= sensitivity * (1 + 1e-9)
        assert moved >= sensitivity * (1 - 2e-4 * 25)


def data(**changes: object) -> dict[str, object]:
    return {"source": "t.csv", "record": "id", "secret": "x", **changes}


def test_the_cells_of_a_partition_cost_as_much_as_one_however_a_record_spreads_its_rows() -> None:
    limit, rows = 3, ["a", "a", "b", "b", "b", "c", "d"]
    plan = plan_of({"name": "a"}, data=data(bounds=[0, 10], max_rows_per_record=limit))
    membership = membership_of([partition()], [rows], contributions=limit)
    pricing = price(plan, membership)
    size = np.array([cell.rows for cell in membership.cells])
    cells = [cell.key[0] for cell in membership.cells]
    for mine in itertools.combinations(range(len(rows)), limit):
        change = np.zeros(len(cells))
        for row in mine:  # each of its rows moves from one end of the domain to the other
            change[cells.index(rows[row])] += 10
        assert np.sum((change / size / pricing.scale) ** 2) <= 1 / pricing.multipliers[0] ** 2 * (1 + 1e-12)
    everything_in_one = 10 * limit / size / pricing.scale
    np.testing.assert_allclose(everything_in_one, 1 / pricing.multipliers[0])


@pytest.mark.parametrize(("accountant", "factor"), [("zcdp", math.sqrt(2)), ("laplace", 2.0)])
def test_a_histogram_is_one_release_that_moves_two_cells(accountant: str, factor: float) -> None:
    categories = ["cold", "flu", "well"]
    plan = plan_of(
        {"name": "a"},
        data=data(categories=categories),
        privacy={"epsilon": 1.0, "delta": 1e-5, "accountant": accountant},
    )
    groups = ["north", "north", "south"]
    parts = [
        partition(statistic=Statistic.SUM, feature=Feature.INDICATOR, parameter=category)
        for category in categories
    ]
    pricing = price(plan, membership_of(parts, [groups] * 3))
    assert pricing.bundles == ((0, 1, 2),)
    assert pricing.releases == 1
    np.testing.assert_allclose(pricing.sensitivity, factor)
    # By brute force: one record changes its category; the noise-weighted change is that of one release.
    order = 2 if pricing.bounding_law is Law.GAUSSIAN else 1
    worst = 0.0
    for before, after in itertools.permutations(range(3), 2):
        change = np.zeros(6)
        change[2 * before], change[2 * after] = -1, 1
        worst = max(worst, float(np.sum(np.abs(change / pricing.scale) ** order)) ** (1 / order))
    assert worst == pytest.approx(1 / pricing.multipliers[0])


def test_counts_over_different_rows_are_releases_of_their_own() -> None:
    plan = plan_of({"name": "a"}, data=data(categories=["cold", "flu", "well"]))
    parts = [
        partition(statistic=Statistic.SUM, feature=Feature.INDICATOR, parameter=category)
        for category in ("cold", "flu", "flu")
    ]
    rows = [["", "", ""], ["", "", None], ["", "", ""]]
    assert price(plan, membership_of(parts, rows)).bundles == ((0, 2), (1,))


def test_a_release_counts_once_for_each_copy_and_each_partition() -> None:
    plan = plan_of({"name": "a", "times": 12}, {"name": "b"})
    membership = membership_of([partition(0), partition(0), partition(1)], [["a", "b"], ["", ""], ["", None]])
    pricing = price(plan, membership)
    assert pricing.releases == 25
    kappa = sl.GaussianDP(sl.Budget(epsilon=1.0, delta=1e-5)).kappa(25)
    np.testing.assert_allclose(pricing.scale, math.sqrt(kappa) * np.array([10, 10, 5, 10]))
    assert pricing.multipliers.size == 25


def test_noise_that_somebody_chose_is_left_alone_and_costs_what_it_costs() -> None:
    plan = plan_of({"name": "a", "noise_stddev": 2.0}, {"name": "b"})
    membership = membership_of([partition(0), partition(1)], [["a", "a", "b"], [""] * 3])
    pricing = price(plan, membership)
    assert pricing.releases == 1
    np.testing.assert_allclose(pricing.scale[:2], 2.0)
    assert pricing.multipliers[0] == pytest.approx(2.0 / 10)  # the group of one is the most exposed
    report = budget_report(plan, membership, pricing)
    spent = sl.privacy.account(pricing.multipliers, delta=1e-5)
    assert report.spent["gaussian-dp"] == spent.epsilon_exact
    assert report.spent["basic"] == spent.epsilon_basic
    assert not report.proven


@pytest.mark.parametrize("name", sorted(accountants(sl.Budget(epsilon=1.0, delta=1e-5))))
def test_the_noise_of_every_accountant_keeps_to_the_budget(name: str) -> None:
    plan = plan_of({"name": "a"}, {"name": "b"}, privacy={"epsilon": 0.5, "delta": 1e-5, "accountant": name})
    membership = membership_of([partition(0), partition(1)], [["", ""], ["", None]])
    report = budget_report(plan, membership, price(plan, membership))
    assert report.proven
    assert set(report.would_need) == set(accountants(sl.Budget(epsilon=1.0, delta=1e-5)))
    assert report.spent[name] <= 0.5 * (1 + 1e-9)


def test_a_partition_without_rows_costs_nothing() -> None:
    plan = plan_of({"name": "a"}, {"name": "b"})
    pricing = price(plan, membership_of([partition(0), partition(1)], [["", ""], [None, None]]))
    assert pricing.releases == 1


def test_more_rows_than_the_contribution_limit_are_refused() -> None:
    with pytest.raises(InvalidPlan, match=r"at most 1 row\(s\) a record, got a record with 3"):
        price(plan_of({"name": "a"}), membership_of([partition()], [[""] * 3], contributions=3))


@pytest.mark.parametrize(
    ("feature", "parameter"), [(Feature.THRESHOLD, 3.0), (Feature.BAND, Band(low=3.0, high=5.0))]
)
def test_a_sharp_count_moves_by_one_and_has_no_slope(feature: Feature, parameter: float | Band) -> None:
    """It is audited as a yes or no."""
    step = partition(name="share above", feature=feature, parameter=parameter)
    assert feature_range(step, (0.0, 10.0)) == 1.0
    assert slopes(step, np.array([1.0, 3.0])).tolist() == [0.0, 0.0]
