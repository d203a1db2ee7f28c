"""Advice in the order in which people try it; what is proposed passes, and what was tried is said."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

import sightline as sl
from sightline.auditing.result import ChangeKind
from sightline.report.first_screen import change_lines
from sightline.tables.sql.edited_releases import grouped_by

FEW = ["isle"] * 2 + ["west"] * 2


def people() -> pa.Table:
    areas = ["north"] * 40 + ["south"] * 46 + FEW
    return pa.table(
        {
            "who": [f"p{i}" for i in range(len(areas))],
            "area": areas,
            "day": [datetime.date(2025, 1, 1 + i % 28) for i in range(len(areas))],
            "x": [float(i * 37 % 101) for i in range(len(areas))],
        }
    )


def plan(key: str, noise: float, limit: float = 0.7) -> dict[str, Any]:
    data = {"source": people(), "record": "who", "secret": "x", "bounds": [0, 100], "public": ["area", "day"]}
    limits = {"remaining_uncertainty": limit, "accept": ["homogeneous", "few_values"]}
    sql = f"SELECT {key}, SUM(x) FROM data GROUP BY {key}"
    return {"data": data, "limits": limits, "release": [{"name": "sums", "sql": sql, "noise_stddev": noise}]}


@pytest.mark.parametrize(
    ("key", "noise", "kind", "words"),
    [
        ("area", 30.0, ChangeKind.MERGE, "with isle and west of area as one group"),
        ("day", 15.0, ChangeKind.SELDOM, "once a week"),
    ],
)
def test_the_first_advice_is_to_merge_groups_or_to_publish_less_often(
    key: str, noise: float, kind: ChangeKind, words: str
) -> None:
    stated = plan(key, noise)
    result = sl.audit(stated)
    assert result.verdict.passed is False
    first = result.reaching[0]
    assert first.kind is kind
    assert words in first.text
    by = first.action.partition(" GROUP BY ")[2]
    (release,) = stated["release"]
    coarser = {**release, "sql": grouped_by(release["sql"], key, by, "duckdb")}
    again = sl.audit({**stated, "release": [coarser]})
    assert again.verdict.passed
    assert first.cost == f"{result.cells - again.cells} of {result.cells} numbers fewer"
    order = [ChangeKind.MERGE, ChangeKind.SELDOM, ChangeKind.DROP, ChangeKind.COARSER, ChangeKind.NOISE]
    places = [order.index(one.kind) for one in result.reaching]
    assert places == sorted(places)
    assert places[-1] == order.index(ChangeKind.NOISE)


def test_what_was_tried_and_is_not_enough_is_said() -> None:
    """One person is seen in another release, whatever the groups are; exact numbers have no noise to add."""
    stated = plan("area", 30.0)
    one = "SELECT SUM(x) FROM data WHERE who = 'p3'"
    two = "SELECT SUM(x) FROM data WHERE who = 'p5'"
    stated["release"] += [
        {"name": f"one {i}", "sql": sql, "noise_stddev": 1.0, "published": True}
        for i, sql in enumerate((one, two))
    ]
    result = sl.audit(stated)
    assert not result.reaching
    (line,) = change_lines(result)
    assert line.startswith('Tried, and not enough: publish "sums" with isle and west of area as one group')
    assert "leave out any one number or release" in line
    assert "isle" not in change_lines(result.publishable())[0]


def test_a_key_of_persons_is_not_merged() -> None:
    """Half of its values have one record: no two of them become a group."""
    result = sl.audit(plan("who", 30.0))
    assert not any(one.kind is ChangeKind.MERGE for one in result.reaching)
    assert not any("as one group" in text for text in result.tried)
