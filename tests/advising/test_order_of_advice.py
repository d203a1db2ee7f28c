"""Advice in the order in which people try it; what is proposed passes, and what was tried is said."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

import sightline as sl
from sightline.auditing.result import ChangeKind
from sightline.report.first_screen import change_lines, tried_line
from sightline.report.notebook import html
from sightline.report.page import report_html
from sightline.report.pipelines import PipelineFormat, result_text
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
    assert first.cost == (
        f"{result.cells} numbers become {again.cells}, which tell fewer groups apart; errors as today"
    )
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
    assert change_lines(result)[0].startswith("No change was found that is enough alone.")
    line, shown = tried_line(result), tried_line(result.publishable())
    assert line.startswith('Tried, and not enough: publish "sums" with isle and west of area as one group')
    assert "leave out any one number or release" in line
    assert shown.startswith(
        'Tried, and not enough: publish "sums" with the 2 smallest groups of area as one; '
    )
    assert not any("isle" in one.model_dump_json() for one in result.publishable().tried)
    for text in (
        result_text(result, "plan.toml", PipelineFormat.JUNIT),
        " ".join(result_text(result, "plan.toml", PipelineFormat.MARKDOWN).split()),
        report_html(sl.audit(stated, full=True)),
        html(result),
    ):
        assert "Tried, and not enough: publish " in text
        assert "leave out any one number or release" in text


def test_a_cost_is_the_error_that_the_audit_of_the_change_finds() -> None:
    """Releases that share a budget have less noise if one is not published, and so have merged groups."""
    stated = plan("area", 0.0, limit=0.8)
    (release,) = stated["release"]
    sums = {"name": "sums", "sql": release["sql"]}
    means = {"name": "means", "sql": "SELECT area, AVG(x) FROM data WHERE day < '2025-01-20' GROUP BY area"}
    stated |= {"privacy": {"epsilon": 30.0, "delta": 1e-6}, "release": [sums, means]}
    result = sl.audit(stated, full=True)
    said = 0
    for change in result.reaching:
        assert change.price is not None
        errors = {str(one.figures.get("release")): one.figures for one in change.price.parts}
        if change.kind is ChangeKind.MERGE:
            by = change.action.partition(" GROUP BY ")[2]
            after = [{**one, "sql": grouped_by(one["sql"], "area", by, "duckdb")} for one in (sums, means)]
        elif change.kind is ChangeKind.DROP:
            after = [one for one in (sums, means) if one["name"] != change.release]
        else:
            continue
        again = sl.audit({**stated, "release": after}, full=True)
        assert again.verdict.passed
        today = {one.name: one for one in result.releases}
        for one in again.releases:
            assert one.smallest_noise_stddev is not None
            if one.name in errors:
                own = errors[one.name]
                assert own["least"] == pytest.approx(one.smallest_noise_stddev)
                assert own["most"] == pytest.approx(one.largest_noise_stddev)
                assert own["least_today"] == today[one.name].smallest_noise_stddev
                said += 1
            else:
                assert one.smallest_noise_stddev == pytest.approx(today[one.name].smallest_noise_stddev)
    assert said


def test_a_key_of_persons_is_not_merged() -> None:
    """Half of its values have one record: no two of them become a group."""
    result = sl.audit(plan("who", 30.0))
    assert not any(one.kind is ChangeKind.MERGE for one in result.reaching)
    assert not any("as one group" in one.text for one in result.tried)
