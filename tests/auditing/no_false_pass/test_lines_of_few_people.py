"""GROUP BY the secret: a line tells that somebody has the value, whatever the noise on its count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import sightline as sl

COUNTS = "SELECT x, COUNT(*) FROM data GROUP BY x"


def unverified(table: pd.DataFrame, sql: str = COUNTS, **data: Any) -> list[str]:
    data = {"source": table, "record": "who", "secret": "x", "categories": ["a", "b", "c"], **data}
    accept = ["homogeneous", "few_values", "values"]
    plan = {
        "data": data,
        "release": [{"name": "r", "sql": sql, "noise_stddev": 400.0}],
        "limits": {"remaining_uncertainty": 0.5, "accept": accept},
    }
    return [one.name.value for one in sl.audit(plan).unverified]


def people(*sizes: int, rows: int = 1) -> pd.DataFrame:
    held = np.repeat(list("abc")[: len(sizes)], sizes)
    return pd.DataFrame({"who": np.repeat(np.arange(held.size), rows), "x": np.repeat(held, rows)})


@pytest.mark.parametrize(
    ("sizes", "asked"),
    [((1, 1, 1), True), ((9, 9, 1), True), ((9, 9, 4), True), ((9, 9), True), ((5, 5, 5), False)],
)
def test_lines_of_few_people_tell(sizes: tuple[int, ...], asked: bool) -> None:
    assert ("groups" in unverified(people(*sizes))) is asked


def test_the_only_one_of_a_category_is_known_to_who_knows_all_others() -> None:
    """Of the three values that the last person may have, one alone gives the lines that are published."""
    others = ["a", "a", "b"]
    lines = {value: frozenset([*others, value]) for value in "abc"}
    assert [value for value, shown in lines.items() if shown == frozenset("abc")] == ["c"]
    assert unverified(people(2, 1, 1)) == ["groups"]


def test_rows_of_one_person_are_one() -> None:
    several = {"max_rows_per_record": 6, "values": "constant"}
    assert "groups" in unverified(people(2, 2, 2, rows=6), **several)
    assert "groups" not in unverified(people(5, 5, 5, rows=2), **several)


def test_in_every_group_there_are_enough() -> None:
    table = pd.concat([people(5, 5, 5), people(5, 5, 5).assign(who=lambda one: one.who + 15)])
    sql = "SELECT g, x, COUNT(*) FROM data GROUP BY g, x"
    assert unverified(table.assign(g=np.repeat(["u", "v"], 15)), sql) == []
    assert unverified(table.assign(g=np.arange(30) % 4), sql) == ["groups"]
