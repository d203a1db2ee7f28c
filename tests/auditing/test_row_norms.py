"""Prices of records with several rows: the L2 or L1 change of all a release's groups, over all neighbours."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.auditing.findings import find
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing, price
from sightline.auditing.rests_on import rests_on
from sightline.report.basis import sentences
from sightline.tables.membership import Feature, Membership, Statistic
from tests.auditing.hand_made import membership_of, partition, plan_of

LOW, HIGH = 0.0, 10.0


def plan_with(accountant: str, *, rows: int, sensitivity: str = "memberships", **data: object) -> Plan:
    return plan_of(
        {"name": "a"},
        data={
            "source": "t.csv",
            "record": "id",
            "secret": "x",
            **(data or {"bounds": [LOW, HIGH]}),
            "max_rows_per_record": rows,
        },
        privacy={"epsilon": 1.0, "delta": 1e-5, "accountant": accountant, "sensitivity": sensitivity},
    )


def largest_change(
    groups: list[str], owners: list[str], membership: Membership, pricing: Pricing, *, order: int
) -> float:
    """The largest change over the noise, over every person and all ends of the domain of their rows."""
    keys = [cell.key[0] for cell in membership.cells]
    mean = membership.partitions[0].statistic is Statistic.MEAN
    size = np.array([cell.rows if mean else 1 for cell in membership.cells])
    worst = 0.0
    for owner in set(owners):
        mine = [row for row, name in enumerate(owners) if name == owner]
        for ends in itertools.product((LOW - HIGH, 0.0, HIGH - LOW), repeat=len(mine)):
            change = np.zeros(len(keys))
            for row, moved in zip(mine, ends, strict=True):
                change[keys.index(groups[row])] += moved
            worst = max(worst, float(np.sum(np.abs(change / size / pricing.scale) ** order)))
    return worst ** (1 / order)


@pytest.mark.parametrize(("accountant", "order"), [("zcdp", 2), ("per-record", 2), ("laplace", 1)])
@pytest.mark.parametrize("statistic", list(Statistic), ids=str)
@settings(max_examples=40)
@given(
    rows=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("PQR")), min_size=1, max_size=7),
)
def test_the_price_is_the_largest_change_over_all_neighbours(
    accountant: str, order: int, statistic: Statistic, rows: list[tuple[str, str]]
) -> None:
    groups, owners = [group for group, _ in rows], [owner for _, owner in rows]
    most = max(owners.count(owner) for owner in owners)
    membership = membership_of([partition(statistic=statistic)], [groups], contributions=most, owners=owners)
    pricing = price(plan_with(accountant, rows=most), membership)
    worst = largest_change(groups, owners, membership, pricing, order=order)
    assert worst == pytest.approx(1 / pricing.multipliers[0], rel=1e-12)
    assert worst <= 1 / pricing.multipliers[0] * (1 + 1e-15)


def test_four_rows_in_four_groups_move_them_by_two_and_under_laplace_by_four() -> None:
    spread = membership_of(
        [partition(statistic=Statistic.SUM)], [list("abcd")], contributions=4, owners=["P"] * 4
    )
    together = membership_of(
        [partition(statistic=Statistic.SUM)], [list("aaaa")], contributions=4, owners=["P"] * 4
    )
    for accountant, norm in (("zcdp", 2.0), ("laplace", 4.0)):
        assert price(plan_with(accountant, rows=4), spread).sensitivity == pytest.approx([norm * 10] * 4)
        assert price(plan_with(accountant, rows=4), together).sensitivity == pytest.approx([40])
        declared = plan_with(accountant, rows=4, sensitivity="declared")
        assert price(declared, spread).sensitivity == pytest.approx([40] * 4)


@pytest.mark.parametrize(("accountant", "order"), [("zcdp", 2), ("laplace", 1)])
def test_a_person_who_changes_the_category_of_every_row(accountant: str, order: int) -> None:
    """By brute force: two rows in one town and one in another, three categories."""
    categories = ["cold", "flu", "well"]
    plan = plan_with(accountant, rows=3, categories=categories)
    towns, owners = ["n", "n", "s", "s"], ["P", "P", "P", "Q"]
    parts = [
        partition(statistic=Statistic.SUM, feature=Feature.INDICATOR, parameter=category)
        for category in categories
    ]
    pricing = price(plan, membership_of(parts, [towns] * 3, contributions=3, owners=owners))
    worst = 0.0
    for before in itertools.product(range(3), repeat=3):
        for after in itertools.product(range(3), repeat=3):
            change = np.zeros((3, 2))
            for row, (one, other) in enumerate(zip(before, after, strict=True)):
                change[one, "ns".index(towns[row])] -= 1
                change[other, "ns".index(towns[row])] += 1
            worst = max(worst, float(np.sum(np.abs(change.ravel() / pricing.scale) ** order)))
    assert worst ** (1 / order) == pytest.approx(1 / pricing.multipliers[0], rel=1e-12)


def test_a_norm_that_is_no_whole_number_is_rounded_up() -> None:
    membership = membership_of(
        [partition(statistic=Statistic.SUM)], [list("abb")], contributions=3, owners=["P"] * 3
    )
    pricing = price(plan_with("zcdp", rows=3), membership)
    assert pricing.row_norms[0] > math.sqrt(5)
    assert pricing.row_norms[0] == pytest.approx(math.sqrt(5), rel=1e-15)


def test_noise_that_is_given_costs_what_the_memberships_say() -> None:
    """Four rows in four groups with noise of 20 on each: 2 × 10/20, or 4 × 10/20 by the limit alone."""
    plan = plan_of(
        {"name": "a", "noise_stddev": 20.0},
        data={"source": "t.csv", "record": "id", "secret": "x", "bounds": [0, 10], "max_rows_per_record": 4},
    )
    spread = membership_of(
        [partition(statistic=Statistic.SUM)], [list("abcd")], contributions=4, owners=["P"] * 4
    )
    assert price(plan, spread).multipliers == pytest.approx([0.5]), "by default for any four rows"
    by_table = plan.model_copy(
        update={"privacy": plan.privacy.model_copy(update={"sensitivity": "memberships"})}
    )
    assert price(by_table, spread).multipliers == pytest.approx([1.0])
    # What an attack on this table leaves depends on its own rows, whatever the noise is priced for.
    assert find(plan, spread).kept_by_noise == pytest.approx(math.exp(-0.25), rel=1e-9)
    assert find(by_table, spread).kept_by_noise == pytest.approx(math.exp(-0.25), rel=1e-9)


def test_the_result_says_whose_sensitivities_they_are() -> None:
    owners = ["P", "P", "Q", "R"]
    membership = membership_of([partition()], [list("abab")], contributions=2, owners=owners)
    for sensitivity, words in (
        ("memberships", "computed from the public memberships"),
        ("declared", "hold for any record of 2 rows"),
    ):
        plan = plan_with("zcdp", rows=2, sensitivity=sensitivity)
        assert any(words in line for line in sentences(rests_on(find(plan, membership))))
