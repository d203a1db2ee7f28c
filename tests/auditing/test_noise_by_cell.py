"""Noise on each published number by itself: read from a plan, written to it, and priced."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import numpy as np
import pytest

from sightline.auditing.plan import Plan
from sightline.auditing.pricing import price
from sightline.auditing.reading import plan_text, publishable_plan_text, read_plan
from sightline.errors import InvalidPlan
from tests.auditing.hand_made import membership_of, partition, plan_of


def by_cell(**stddevs: float) -> dict[str, Any]:
    return {"by_cell": [[key, stddev] for key, stddev in stddevs.items()]}


def test_each_number_has_the_noise_of_its_key() -> None:
    plan = plan_of({"name": "a", "noise": by_cell(north=3.0, south=0.5)}, {"name": "b"})
    membership = membership_of([partition(0), partition(1)], [["north", "south", "north"], ["", "", ""]])
    pricing = price(plan, membership)
    assert pricing.scale[:2].tolist() == [3.0, 0.5]
    # The range is 10: means over two rows and one row have the sensitivities 5 and 10.
    assert pricing.multipliers[0] == min(3.0 / 5, 0.5 / 10)
    assert pricing.releases == 1  # the budget pays for the other release alone
    alone = price(plan_of({"name": "b"}), membership_of([partition(0)], [["", "", ""]]))
    assert pricing.scale[2] == alone.scale[0]


def test_the_label_tells_the_aggregates_of_a_release_apart() -> None:
    cells = {"by_cell": [["one", 1.0], ["two", 2.0]]}
    plan = plan_of({"name": "a", "noise": cells})
    membership = membership_of([partition(0, label="two"), partition(0, label="one")], [["", ""], ["", None]])
    assert price(plan, membership).scale.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (by_cell(north=1.0), "expected release 'a': noise by_cell for every published number, got none for"),
        (by_cell(north=1.0, south=1.0, east=1.0), "got the number 'east', which it does not"),
    ],
)
def test_noise_for_other_numbers_than_those_published_is_refused(cells: Any, message: str) -> None:
    membership = membership_of([partition(0)], [["north", "south"]])
    with pytest.raises(InvalidPlan, match=message):
        price(plan_of({"name": "a", "noise": cells}), membership)


@pytest.mark.parametrize(
    ("release", "message"),
    [
        ({"noise_stddev": 1.0, "noise": by_cell(a=1.0)}, "expected noise_stddev or noise, got"),
        ({"noise_by_cell": [{"key": ["a"], "stddev": 1.0}]}, "write noise = { by_cell = "),
        ({"noise": {"by_cell": [["a", 1.0]] * 2}}, "each published number once"),
        ({"noise": by_cell(a=0.0)}, "a stddev between 1e-50 and 1e[+]50, got 0; a number that is published"),
        ({"noise": {"by_cell": [["a", "1.0"]]}}, "rows of the values of a group"),
        ({"noise": {"by_cell": [[]]}}, "rows of the values of a group"),
        ({"noise": {"by_cell": [["a", True]]}}, "a stddev between"),
        ({"noise": {"by_cell": [[2, 1.0]]}}, "rows of the values of a group"),
        ({"noise": {"by_cell": ""}}, "rows of the values of a group"),
        ({"published": True}, "for a release that is published, got neither"),
        ({"noise_within": [3.0, 2.0]}, "the least before the most, got 3 and 2"),
        ({"least_noise_stddev": 3.0}, "no longer have; write noise_within"),
        ({"weight": 0.0}, "weight: expected a number > 0, got 0.0"),
        ({"weight": -1.0}, "weight: expected a number > 0, got -1.0"),
    ],
)
def test_contradictions_are_refused(release: dict[str, Any], message: str) -> None:
    content = plan_of({"name": "a"}).model_dump(mode="json", by_alias=True)
    content["release"] = [{"name": "a", "sql": "SELECT AVG(x) FROM data", **release}]
    with pytest.raises(InvalidPlan, match=message):
        read_plan(content)


def test_a_plan_with_noise_by_cell_is_read_back_as_it_was() -> None:
    plan = plan_of(
        {"name": "a", "noise": by_cell(north=3.0, south=1 / 3), "weight": 2.0},
        {"name": "b", "noise": {"by_cell": [[1.5]]}, "published": True, "noise_within": [0.5, math.inf]},
    )
    assert Plan.model_validate(tomllib.loads(plan_text(plan))) == plan


def test_a_publishable_plan_holds_no_keys_of_cells() -> None:
    text = publishable_plan_text(plan_of({"name": "a", "noise": by_cell(H13=3.0)}))
    assert "H13" not in text
    assert "SELECT" in text


def test_one_noise_for_all_is_the_same_as_that_noise_for_each() -> None:
    membership = membership_of([partition(0)], [["north", "south", "north"]])
    together = price(plan_of({"name": "a", "noise_stddev": 2.0}), membership)
    apart = price(plan_of({"name": "a", "noise": by_cell(north=2.0, south=2.0)}), membership)
    np.testing.assert_array_equal(together.scale, apart.scale)
    np.testing.assert_array_equal(together.multipliers, apart.multipliers)
