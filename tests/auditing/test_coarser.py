"""Coarser groups in the advice: what is proposed passes as a plan of its own, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl
from sightline.auditing.result import ChangeKind
from sightline.tables.sql.edited_releases import group_columns, grouped_by


def written(folder: Path) -> Path:
    """People of some ages, in towns of some counties."""
    generator = np.random.default_rng(0)
    lines = ["id,age,town,county,x"]
    for person in range(300):
        town = int(min(39, generator.exponential(9)))
        age, value = int(generator.integers(18, 80)), float(generator.uniform(0, 100))
        lines.append(f"p{person},{age},t{town},c{town // 10},{value:.1f}")
    path = folder / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def plan_by(table: Path, key: str, noise: float = 20.0, **data: Any) -> dict[str, Any]:
    sql = f"SELECT {key}, SUM(x) FROM data WHERE age < 79 GROUP BY {key}"
    return {
        "data": {"source": str(table), "record": "id", "secret": "x", "bounds": [0, 100], **data},
        "limits": {"remaining_uncertainty": 0.5, "accept": ["homogeneous"]},
        "release": [
            {"name": "fine", "sql": sql, "noise_stddev": noise},
            {"name": "all", "sql": "SELECT SUM(x) FROM data WHERE age < 79", "noise_stddev": noise},
        ],
    }


@pytest.mark.parametrize(
    ("key", "expected"),
    [("age", "by age in steps of "), ("town", "by county, which town decides, GROUP BY county")],
)
def test_a_coarser_key_is_proposed_with_the_sql_that_passes(tmp_path: Path, key: str, expected: str) -> None:
    noise = {"age": 20.0, "town": 8.0}[key]
    plan = plan_by(written(tmp_path), key, noise, public=["age", "town", "county"])
    result = sl.audit(plan, full=True)
    (change,) = (one for one in result.reaching if one.kind is ChangeKind.COARSER)
    assert expected in change.text
    assert change in result.what_to_change
    by = change.action.partition(" GROUP BY ")[2]
    release = {**plan["release"][0], "sql": grouped_by(plan["release"][0]["sql"], key, by, "duckdb")}
    again = sl.audit({**plan, "release": [release, plan["release"][1]]}, full=True)
    assert again.verdict.passed is True
    assert change.cost == (
        f"{result.cells:,} numbers become {again.cells:,}, which tell fewer groups apart; errors as today"
    )


def test_the_step_is_the_finest_that_is_enough(tmp_path: Path) -> None:
    plan = plan_by(written(tmp_path), "age")
    text = next(one.text for one in sl.audit(plan).reaching if one.kind is ChangeKind.COARSER)
    step = int(text.partition("steps of ")[2].partition(",")[0])
    for finer in (one for one in (2, 5, 10, 20) if one < step):
        sql = grouped_by(plan["release"][0]["sql"], "age", f"FLOOR(age / {finer}) * {finer}", "duckdb")
        release = {**plan["release"][0], "sql": sql}
        assert sl.audit({**plan, "release": [release, plan["release"][1]]}).verdict.passed is False


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "change",
    [
        {"one": True},  # somebody is seen without the key: no bands are enough
        {"published": True},  # what is out cannot be grouped otherwise
        {"by_cell": True},  # noise by number names the groups as they are
    ],
    ids=str,
)
def test_nothing_is_proposed_that_is_not_enough(tmp_path: Path, change: dict[str, Any]) -> None:
    plan = plan_by(
        written(tmp_path),
        "age",
    )
    if "one" in change:
        sql = "SELECT SUM(x) FROM data WHERE id = 'p3'"
        plan["release"].append({"name": "one", "sql": sql, "noise_stddev": 1.0})
    if "published" in change:
        plan["release"][0]["published"] = True
    if "by_cell" in change:
        release = plan["release"][0]
        del release["noise_stddev"]
        release["noise"] = {"by_cell": [[str(age), 20.0] for age in range(18, 79)]}
    result = sl.audit(plan)
    assert result.verdict.passed is False
    assert not [one for one in result.reaching if one.kind is ChangeKind.COARSER]


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT age, SUM(x) FROM data GROUP BY 1", ("age",)),
        ("SELECT age AS years, town, SUM(x) FROM data GROUP BY years, town", ("age", "town")),
        ("SELECT FLOOR(age / 5), SUM(x) FROM data GROUP BY 1", ()),
        ("SELECT age, SUM(x) FROM data GROUP BY ROLLUP (age)", ()),
        ("SELECT age, SUM(x) FROM data GROUP BY age HAVING COUNT(*) > 3", ("age",)),
        ("SELECT age, SUM(x) FROM data GROUP BY age HAVING COUNT(*) > 3 AND age < 9", ()),
        ("SELECT SUM(x) FROM data", ()),
    ],
)
def test_keys_are_found_in_plain_queries_alone(sql: str, columns: tuple[str, ...]) -> None:
    assert group_columns(sql, "duckdb") == columns


def test_merged_groups_are_not_proposed_where_another_group_is_certain() -> None:
    sizes = {"p": (5, 10), "q": (0, 10), "r": (4, 10), "s": (1, 3), "t": (0, 1)}
    rows = [{"ward": one, "ill": n < yes} for one, (yes, size) in sizes.items() for n in range(size)]
    sql = "SELECT ward, COUNT(*) FILTER (WHERE ill) AS n FROM data GROUP BY ward"

    def advice(certain: bool) -> tuple[ChangeKind, ...]:
        table = pd.DataFrame(rows).assign(id=range(34))
        table.loc[table.ward == "q", "ill"] = [False] * 9 + [not certain]
        result = sl.audit(
            {
                "data": {
                    "source": table,
                    "record": "id",
                    "secret": "ill",
                    "kind": "boolean",
                    "public": ["ward"],
                },
                "limits": {"remaining_uncertainty": 0.5, "accept": ["homogeneous"]},
                "release": [{"name": "r", "sql": sql, "noise": {"law": "none"}}],
            }
        )
        assert result.certain is not None
        assert result.certain.people == (11 if certain else 1)
        return tuple(one.kind for one in result.reaching)

    assert advice(certain=False) == (ChangeKind.MERGE,)
    assert advice(certain=True) == ()
