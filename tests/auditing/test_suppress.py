"""Groups that HAVING leaves out: the audit of the plan that lists them by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.auditing.plan import AssumptionName
from sightline.errors import InvalidPlan
from sightline.jobs.audit import check

SIZES = {"a": 9, "b": 5, "c": 2, "d": 1}
TOWNS = "SELECT town, SUM(hours) FROM data GROUP BY town"


def without(condition: str, sql: str = TOWNS) -> str:
    return f"{sql} HAVING NOT COALESCE({condition}, FALSE)"


FACTS = (
    *("records", "rows", "cells", "signatures", "rank", "identifiable_records", "exposed_in_all", "releases"),
    *("least_remaining_uncertainty", "budget", "distribution", "verdict", "homogeneous", "exposed"),
)


@pytest.fixture
def table(tmp_path: Path) -> str:
    """The group c has a third row, without a secret."""
    path = tmp_path / "people.csv"
    rows = [
        f"{town}{i},{town},{i % 2},{(17 * i + ord(town)) % 10}.{i}"
        for town, n in SIZES.items()
        for i in range(n)
    ]
    path.write_text("\n".join(["id,town,job,hours", *rows, "c9,c,1,"]) + "\n")
    return str(path)


def plan_of(table: str, *releases: dict[str, Any], **data: Any) -> dict[str, Any]:
    return {
        "data": {"source": table, "record": "id", "secret": "hours", "bounds": [0, 10], **data},
        "release": [{"name": f"r{i}", "noise_stddev": 2.0, **one} for i, one in enumerate(releases)],
        "limits": {"remaining_uncertainty": 0.5, "accept": ["few_values"]},
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        ("COUNT(*) < 3", "d"),  # c has three rows, two of them with a secret
        ("COUNT(*) <= 3", "cd"),
        ("NOT (COUNT(*) BETWEEN 4 AND 100)", "cd"),
        ("COUNT(DISTINCT id) < 5 AND MIN(town) <> 'd'", "c"),
        ("count(*) < 3 OR MAX(job) = 1 AND count(*) = 5", "bd"),
    ],
)
@pytest.mark.parametrize("total", [False, True])
def test_a_condition_suppresses_what_a_list_withholds(
    table: str, condition: str, keys: str, total: bool
) -> None:
    beside = [{"sql": "SELECT SUM(hours) FROM data"}] if total else []
    suppressed = sl.audit(plan_of(table, *beside, {"sql": without(condition)}))
    withheld = sl.audit(plan_of(table, *beside, {"sql": TOWNS, "withhold": [[key] for key in keys]}))
    first, second = (one.model_dump() for one in (suppressed, withheld))
    for one in (*first["exposed"], *second["exposed"]):
        del one["signature"], one["label"]  # rows of no number have one signature together, or one a town
    assert {name: first[name] for name in FACTS} == {name: second[name] for name in FACTS}


def test_a_suppressed_group_beside_its_total_is_computed(table: str) -> None:
    """d is one person: total − a − b − c. Without the total nothing is published of them."""
    towns = {"sql": without("COUNT(*) < 3"), "noise_stddev": 1.0}
    alone = sl.audit(plan_of(table, towns))
    assert alone.identifiable_records == 0
    beside = sl.audit(plan_of(table, {"sql": "SELECT SUM(hours) FROM data", "noise_stddev": 1.0}, towns))
    assert beside.verdict.status == "failed"
    worst = beside.exposed[0]
    assert worst.size == 1
    assert worst.rmse == pytest.approx(4**0.5)
    assert worst.recipe is not None
    assert {step.release for step in worst.recipe.steps} == {"r0", "r1"}


def test_complementary_suppression_hides_both_groups_behind_each_other(table: str) -> None:
    """With c suppressed too, total − a − b is the sum of three people."""
    found = sl.audit(
        plan_of(table, {"sql": "SELECT SUM(hours) FROM data"}, {"sql": without("COUNT(*) <= 3")})
    )
    assert found.identifiable_records == 0
    assert any(one.size == 3 and one.identifiable for one in found.exposed)


def test_a_group_that_having_leaves_out_is_no_group_to_withhold(table: str) -> None:
    """A misspelt name looks the same."""
    one, both = ({"sql": without("COUNT(*) < 3"), "withhold": names} for names in ([["b"]], [["d"], ["b"]]))
    assert sl.audit(plan_of(table, one)).cells == 2
    with pytest.raises(InvalidPlan, match="withhold"):
        sl.audit(plan_of(table, both))


def test_the_former_field_is_refused_with_what_to_write(table: str) -> None:
    with pytest.raises(InvalidPlan, match=r"suppress: .*end the query with HAVING COUNT\(\*\) >= 10"):
        check(plan_of(table, {"sql": TOWNS, "suppress": "COUNT(*) < 10"}))


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("AVG(hours) < 3", "public aggregates, got the secret in AVG.hours.; which groups"),
        ("COUNT(*) FILTER (WHERE hours > 3) < 2", "public aggregates, got the secret"),
        ("town = 'a'", "an aggregate in HAVING"),
        ("COUNT(*) < random()", "deterministic functions only"),
        ("COUNT(*) < (SELECT 3)", "a subquery over data or one declared table"),
        ("COUNT(*) <", "SQL that can be parsed"),
        ("SUM(zones.town) < 3", "a table of this query"),
        ("COUNT(other) < 3", 'a column of the table, got "other"'),
        ("COUNT(*) < 100", "expected rows that meet its conditions, got none"),
    ],
)
def test_conditions_that_depend_on_more_than_public_groups_are_refused(
    table: str, condition: str, message: str
) -> None:
    with pytest.raises(InvalidPlan, match=message):
        sl.audit(plan_of(table, {"sql": without(condition)}))


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT town, COUNT(*) FROM data WHERE job = 1 GROUP BY town", "with the secret in WHERE"),
        ("SELECT town, job, COUNT(*) FROM data GROUP BY town, job", "with the secret in GROUP"),
    ],
)
def test_counts_that_depend_on_the_secret_suppress_nothing(table: str, sql: str, message: str) -> None:
    plan = plan_of(table, {"sql": without("COUNT(*) < 3", sql)}, secret="job", bounds=None, kind="boolean")
    with pytest.raises(InvalidPlan, match=message):
        check(plan)


def test_who_has_a_secret_is_told_where_it_decides_which_groups_appear(table: str) -> None:
    plan = plan_of(table, {"sql": without("COUNT(hours) < 3")})
    unverified = [one.name for one in sl.audit(plan).unverified]
    assert AssumptionName.DROPPED in unverified


def test_rows_of_a_condition_are_suppressed_with_their_group(table: str) -> None:
    """COUNT(*) is that of the group, also where an aggregate adds up some of its rows."""
    some = "SELECT town, SUM(hours) FILTER (WHERE job = 1) FROM data GROUP BY town"
    cells = [sl.audit(plan_of(table, {"sql": without(f"COUNT(*) < {n}", some)})).cells for n in (3, 6)]
    assert cells == [3, 1]


def test_groups_that_read_alike_are_suppressed_apart(tmp_path: Path) -> None:
    """A town called NULL beside rows without a town."""
    path = tmp_path / "people.csv"
    path.write_text("id,town,hours\n1,NULL,2\n2,,3\n3,,4\n4,b,5\n")
    assert sl.audit(plan_of(str(path), {"sql": without("COUNT(*) < 2")})).cells == 1
