"""Withheld numbers: the audit of a plan with them is that of the SQL that publishes the rest."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import price
from sightline.auditing.reading import plan_text, publishable_plan_text
from sightline.auditing.stated_noise import as_published
from sightline.errors import InvalidPlan
from tests.advising.tables import CATEGORY, NUMBER, plan_for, write_table
from tests.auditing.hand_made import membership_of, partition, plan_of

BY_TOWN = "SELECT town, AVG(hours) FROM data GROUP BY town"
# Numbers of the result that the form of the plan may not change.
FACTS = (
    *("records", "rows", "cells", "signatures", "rank", "identifiable_records", "identifiable_groups"),
    *("least_remaining_uncertainty", "exposed_in_all", "releases", "budget", "distribution"),
    *("verdict", "what_to_change", "assumptions", "homogeneous", "guaranteed_by_noise"),
)


def same_audit(folder: Path, data: dict[str, Any], one: dict[str, Any], other: dict[str, Any]) -> None:
    """Two ways to write one release make the same audit, beside a total."""
    table = write_table(folder)
    what = "hours" if data is NUMBER else "CAST(ill AS DOUBLE)"
    total = {"name": "all", "sql": f"SELECT AVG({what}) FROM data"}
    found = [
        sl.audit(plan_for(table, (total, {"name": "towns", **release}), noise=1.0, data=data), limit=0.5)
        for release in (one, other)
    ]
    first, second = (result.model_dump() for result in found)
    assert {name: first[name] for name in FACTS} == {name: second[name] for name in FACTS}
    assert [one["recipe"] for one in first["exposed"]] == [one["recipe"] for one in second["exposed"]]


@pytest.mark.slow
def test_a_withheld_group_is_one_that_the_query_leaves_out(tmp_path: Path) -> None:
    same_audit(
        tmp_path,
        NUMBER,
        {"sql": BY_TOWN, "withhold": [["t2"], ["t5"]]},
        {"sql": "SELECT town, AVG(hours) FROM data WHERE town NOT IN ('t2', 't5') GROUP BY town"},
    )


@pytest.mark.slow
def test_a_label_names_one_aggregate(tmp_path: Path) -> None:
    red, blue = (f"COUNT(*) FILTER (WHERE party = '{name}') AS {name}" for name in ("red", "blue"))
    table = write_table(tmp_path)
    releases = ({"name": "a", "sql": f"SELECT town, {red}, {blue} FROM data GROUP BY town"},)
    plan = plan_for(table, releases, noise=1.0, data=CATEGORY)
    counts = []
    for gone in ([], [["t7"]], [["t7", "red by town"]]):
        plan["release"][0]["withhold"] = gone
        counts.append(sl.audit(plan).cells)
    assert (counts[0] - counts[1], counts[0] - counts[2]) == (2, 1)


def groups() -> Any:
    return membership_of([partition(0), partition(1)], [["a", "b", "b", "c"], ["x", "x", "y", "y"]])


def test_the_cells_that_are_left_keep_their_rows() -> None:
    plan = plan_of(
        {"name": "a", "withhold": [["a"]], "noise_stddev": 1.0},
        {"name": "b", "noise": {"by_cell": [["x", 2.0]]}, "withhold": [["y"]]},
    )
    found = as_published(plan, groups())
    assert [(cell.key, cell.rows) for cell in found.cells] == [(("b",), 2), (("c",), 1), (("x",), 2)]
    assert found.signatures.tolist() == [[-1, 0], [0, 0], [0, -1], [1, -1]]
    assert price(plan, found).scale.tolist() == [1.0, 1.0, 2.0]
    assert found.counts.sum() == 4  # rows in no published number are still there, and hide nobody


@pytest.mark.parametrize(
    ("release", "message"),
    [
        (
            {"withhold": [["z"]]},
            "release 'a': withhold for numbers that its query has, got 'z'",
        ),
        ({"withhold": [["a", "mean"]]}, "got 'a, mean'"),
        (
            {"withhold": [[key] for key in "abc"]},
            "got withhold for all of them; leave out the release",
        ),
        ({"withhold": [["a"], ["a"]]}, "got the group 'a' twice"),
        ({"merge": [{"keys": [["a"], ["b"]]}]}, "no longer have; group by the coarser key"),
    ],
)
def test_groups_that_are_not_there_are_refused(release: dict[str, Any], message: str) -> None:
    from sightline.auditing.reading import read_plan

    content = plan_of({"name": "a", "noise_stddev": 1.0}, {"name": "b"}).model_dump(
        mode="json", by_alias=True
    )
    content["release"][0].update(release)
    with pytest.raises(InvalidPlan, match=message):
        as_published(read_plan(content)[0], groups())


def test_groups_whose_keys_read_alike_are_refused() -> None:
    membership = membership_of([partition(0)], [["a", "b", "c"]])
    alike = tuple(replace(cell, key=("a",)) if cell.key == ("b",) else cell for cell in membership.cells)
    plan = plan_of({"name": "a", "withhold": [["a"]]})
    with pytest.raises(InvalidPlan, match="groups that their keys tell apart, got two that read 'a'"):
        as_published(plan, replace(membership, cells=alike))


def test_a_plan_with_them_is_read_back_as_it_was_and_publishes_no_key() -> None:
    plan = plan_of({"name": "a", "withhold": [["H13"]]})
    assert Plan.model_validate(tomllib.loads(plan_text(plan))) == plan
    assert "H1" not in publishable_plan_text(plan)


@pytest.mark.slow
def test_records_of_a_withheld_cell_are_found_by_their_keys(tmp_path: Path) -> None:
    """Signatures that became alike still name all their records."""
    plan = plan_for(
        write_table(tmp_path), ({"name": "towns", "sql": BY_TOWN, "withhold": [["t2"]]},),
        noise=1.0, data=NUMBER,
    )  # fmt: skip
    found = sl.audit(plan, names=True, limit=0.999, top=50)
    lines = [line.split(",") for line in (tmp_path / "people.csv").read_text().splitlines()[1:]]
    listed = {name for one in found.exposed for name in (one.record or "").split(", ")}
    assert listed == {line[0] for line in lines if line[1] != "t2"}


@pytest.mark.parametrize(
    ("sql", "noise", "withhold"),
    [
        (
            "SELECT SUM(x) AS total, AVG(x) AS mean FROM data",
            [{"label": "total", "stddev": 1.0}, {"label": "mean", "stddev": 0.1}],
            [["mean"]],
        ),
        ("SELECT g, SUM(x) AS total FROM data GROUP BY g", {"stddev": 1.0}, [["v", "total"]]),
    ],
    ids=["all numbers of a label", "the only label"],
)
def test_a_number_is_withheld_by_its_label(sql: str, noise: Any, withhold: list[list[str]]) -> None:
    table = pd.DataFrame({"who": range(6), "g": list("uuuuuv"), "x": np.linspace(0.4, 9.7, 6)})
    data = {"source": table, "record": "who", "secret": "x", "bounds": [0, 10]}
    release = {"name": "both", "sql": sql, "noise": noise}
    every = sl.audit({"data": data, "release": [release]})
    fewer = sl.audit({"data": data, "release": [{**release, "withhold": withhold}]})
    assert fewer.cells == every.cells - 1
    before, after = every.least_remaining_uncertainty, fewer.least_remaining_uncertainty
    assert before is not None
    assert after is not None
    assert after.lower > before.lower
