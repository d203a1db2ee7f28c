"""Contribution bounding: the audit of a plan that bounds is that of the table bounded by hand."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.auditing.plan import Plan
from sightline.auditing.reading import plan_text
from sightline.errors import InvalidPlan
from sightline.jobs.audit import check

Row = tuple[str, str, int, float]  # person, town, day, hours
# Person p has p + 1 rows on different days; towns go round; the last person is alone in the town "far".
ROWS: list[Row] = [
    (f"P{p}", "abc"[(p + day) % 3], day, round((37 * p + 11 * day) % 50 / 5, 1))
    for p in range(6)
    for day in range(p + 1)
] + [("P6", "far", 0, 1.5), ("P6", "far", 3, 8.5), ("P6", "a", 5, 4.5)]
RELEASES = [
    {"name": "towns", "sql": "SELECT town, SUM(hours) FROM data GROUP BY town"},
    {"name": "all", "sql": "SELECT AVG(hours) FROM data"},
]


def first(rows: int, order: str = "day") -> dict[str, Any]:
    """The first rows of each person."""
    number = f"ROW_NUMBER() OVER (PARTITION BY id ORDER BY {order})"
    return {"sql": f"SELECT * FROM source QUALIFY {number} <= {rows}", "max_rows_per_record": rows}


TOTALS = {
    "sql": "SELECT id, town, LEAST(SUM(hours), 12) AS hours FROM source GROUP BY id, town",
    "max_rows_per_record": 3,
}
FACTS = (
    *("records", "rows", "cells", "signatures", "rank", "identifiable_records", "identifiable_groups"),
    *(
        "least_remaining_uncertainty",
        "releases",
        "budget",
        "distribution",
        "verdict",
        "homogeneous",
    ),
)


def write(folder: Path, name: str, rows: list[Row]) -> str:
    path = folder / name
    lines = [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join(["id,town,day,hours", *lines]) + "\n")
    return str(path)


def plan_of(source: str, *, releases: list[dict[str, Any]] = RELEASES, **data: Any) -> dict[str, Any]:
    return {
        "data": {
            "source": source,
            "record": "id",
            "secret": "hours",
            "bounds": [0, 10],
            "values": "independent",
            **data,
        },
        "privacy": {"epsilon": 20.0, "delta": 1e-5},
        "release": releases,
    }


def first_rows(most: int, *, last: bool = False) -> list[Row]:
    """The first rows of each person by day, or the last."""
    mine: dict[str, list[Row]] = defaultdict(list)
    for row in ROWS:
        mine[row[0]].append(row)
    order = {
        person: sorted(rows, key=lambda row: -row[2] if last else row[2]) for person, rows in mine.items()
    }
    return [row for rows in order.values() for row in rows[:most]]


def same_audit(one: dict[str, Any], other: dict[str, Any], limit: float | None = 0.5) -> sl.AuditResult:
    found = [sl.audit(plan, limit=limit) for plan in (one, other)]
    first, second = (result.model_dump() for result in found)
    assert {name: first[name] for name in FACTS} == {name: second[name] for name in FACTS}
    return found[0]


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize(("order", "last"), [("day", False), ("day DESC", True)])
def test_kept_rows_are_those_of_a_table_with_nothing_else(tmp_path: Path, order: str, last: bool) -> None:
    bounded = plan_of(write(tmp_path, "all.csv", ROWS), **first(2, order))
    by_hand = plan_of(write(tmp_path, "two.csv", first_rows(2, last=last)), max_rows_per_record=2)
    result = same_audit(bounded, by_hand)
    assert any("those that [data] sql makes" in line for line in result.assumptions)
    assert Plan.model_validate(tomllib.loads(result.plan)).data.sql == bounded["data"]["sql"]


@pytest.mark.slow
def test_clipped_totals_are_the_secret_of_a_table_of_totals(tmp_path: Path) -> None:
    totals: dict[tuple[str, str], float] = defaultdict(float)
    for person, town, _, hours in ROWS:
        totals[person, town] += hours
    assert max(totals.values()) > 12, "some are clipped"
    rows = [(person, town, 0, min(total, 12.0)) for (person, town), total in totals.items()]
    limits = {"bounds": [0, 12], "max_rows_per_record": 3}
    bounded = plan_of(write(tmp_path, "all.csv", ROWS), **limits | TOTALS)
    # With a limit it is also asked how many rows a total adds up, of which a table of totals knows nothing.
    result = same_audit(bounded, plan_of(write(tmp_path, "totals.csv", rows), **limits), limit=None)
    assert result.clipped == 0


def test_what_bounding_leaves_of_one_person_is_still_seen(tmp_path: Path) -> None:
    """P6 keeps one row, and is the only one in "far": a small noise does not hide it."""
    source = write(tmp_path, "all.csv", ROWS)
    releases = [{**RELEASES[0], "noise_stddev": 0.5}]
    for bounding in (first(1), TOTALS):
        result = sl.audit(plan_of(source, releases=releases, **bounding), limit=0.5)
        assert result.verdict.status == "failed"
        assert any(one.recipe is not None and "far" in one.recipe.text for one in result.exposed)


def test_a_person_whose_rows_bounding_leaves_out_is_not_there(tmp_path: Path) -> None:
    """The last row of P6 is in "a": with one row kept, "far" is not published, and nothing is said of it."""
    source = write(tmp_path, "all.csv", ROWS)
    plan = plan_of(source, **first(1, "day DESC"))
    assert sl.audit(plan).cells == len({row[1] for row in first_rows(1, last=True)}) + 1 == 4


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (first(2, "town"), "an order without ties"),
        (first(2, "hours"), 'rows that do not depend on a secret, got the secret "hours"'),
        (first(2, "day, week"), 'Column "week" could not be resolved'),
        (first(2) | {"max_rows_per_record": 1}, "at most 1 row per record"),
        (TOTALS | {"max_rows_per_record": 1}, "at most 1 row per record"),
        (
            {"sql": "SELECT id, hours > 3 AS k, SUM(hours) AS t FROM source GROUP BY id, k", "secret": "t"},
            'the secret "hours" in',
        ),
        (
            {"sql": "SELECT id, SUM(hours) AS hours FROM source GROUP BY id"},
            'a column of the table, got "town"',
        ),
    ],
)
def test_bounding_that_does_not_bound_is_refused(tmp_path: Path, data: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidPlan, match=message):
        sl.audit(plan_of(write(tmp_path, "all.csv", ROWS), **data))


def test_checking_a_plan_reads_no_row_to_bound_it(tmp_path: Path) -> None:
    """The order of towns does not tell rows apart, which only the rows can show."""
    plan = plan_of(write(tmp_path, "all.csv", ROWS), **first(2, "town"))
    assert check(plan).data.max_rows_per_record == 2


def test_bounded_plans_read_back_and_explain(tmp_path: Path) -> None:
    content = plan_of(write(tmp_path, "all.csv", ROWS), **first(1))
    plan = Plan.model_validate(content)
    assert Plan.model_validate(tomllib.loads(plan_text(plan))) == plan
    found = sl.explain(content, record="P6")
    assert found.result.rows == 7
    assert found.exposed[0].identifiable
