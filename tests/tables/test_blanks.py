"""Blanks in SQL: what is read as suppression, and what is left for the reader to refuse."""

from __future__ import annotations

from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.tables.sql.blanks import without_blanks

COUNT = "COUNT(*) FILTER (WHERE ill)"
BLANK_CASE = f"CASE WHEN {COUNT} < 5 THEN NULL ELSE {COUNT} END"


@pytest.mark.parametrize(
    ("sql", "below"),
    [
        ("SELECT g, ill, COUNT(*) AS n FROM data GROUP BY g, ill HAVING COUNT(*) >= 10", 10),
        ("SELECT g, ill, COUNT(*) AS n FROM data GROUP BY g, ill HAVING 9 < COUNT(*)", 10),
        (f"SELECT g, {COUNT} AS n FROM data GROUP BY g HAVING {COUNT} > 4", 5),
        (f"SELECT g, {COUNT} AS n FROM data GROUP BY g HAVING 5 <= {COUNT}", 5),
        (f"SELECT g, {BLANK_CASE} AS n FROM data GROUP BY g", 5),
        (f"SELECT g, CASE WHEN {COUNT} <= 5 THEN NULL ELSE {COUNT} END AS n FROM data GROUP BY g", 6),
        (f"SELECT g, CASE WHEN {COUNT} >= 5 THEN {COUNT} END AS n FROM data GROUP BY g", 5),
        (f"SELECT g, {COUNT} AS n FROM data GROUP BY g HAVING {COUNT} > 4 ORDER BY g", 5),
        # Another number of the secret is never blank, the order of lines tells, and so do other conditions.
        (f"SELECT g, {BLANK_CASE}, {COUNT} FROM data GROUP BY g", 0),
        (f"SELECT g, {BLANK_CASE} AS n FROM data GROUP BY g ORDER BY n", 0),
        (f"SELECT g, {COUNT} AS n FROM data GROUP BY g HAVING {COUNT} > 4 ORDER BY 2", 0),
        (f"SELECT g, {COUNT} AS n FROM data GROUP BY g HAVING {COUNT} < 4", 0),
        (f"SELECT g, {COUNT}, AVG(x) FROM data GROUP BY g HAVING COUNT(*) FILTER (WHERE NOT ill) > 4", 0),
        ("SELECT g, ill, AVG(x) FROM data GROUP BY g, ill HAVING COUNT(*) >= 10", 0),
        (f"SELECT g, CASE WHEN {COUNT} < 5 THEN 0 ELSE {COUNT} END AS n FROM data GROUP BY g", 0),
    ],
)
def test_what_is_read_as_a_blank(sql: str, below: int) -> None:
    found, least = without_blanks(sql, dialect="duckdb", secret="ill", categories=[])
    assert least == below
    assert (found == sql) == (below == 0)


def test_three_ways_to_blank_are_one() -> None:
    wards = {"a": (2, 20), "b": (9, 20), "c": (12, 30)}
    rows = [{"g": g, "ill": n < yes} for g, (yes, people) in wards.items() for n in range(people)]
    table = pd.DataFrame(rows).assign(id=range(70))

    def audited(**release: Any) -> Any:
        data = {"source": table, "record": "id", "secret": "ill", "kind": "boolean"}
        total = {"name": "all", "sql": f"SELECT {COUNT} AS n FROM data", "noise": {"law": "none"}}
        result = sl.audit(
            {
                "data": data,
                "limits": {"remaining_uncertainty": 0.5},
                "release": [{"name": "r", "noise": {"law": "none"}, **release}, total],
            }
        )
        return result.verdict.status, result.certain

    plain = f"SELECT g, {COUNT} AS n FROM data GROUP BY g"
    stated = audited(sql=plain, suppress_below=5)
    assert audited(sql=f"{plain} HAVING {COUNT} >= 5") == stated
    assert audited(sql=f"SELECT g, {BLANK_CASE} AS n FROM data GROUP BY g") == stated
    with pytest.raises(InvalidPlan, match="suppress_below as in its SQL, which shows 5 and more"):
        audited(sql=f"{plain} HAVING {COUNT} >= 5", suppress_below=7)
    with pytest.raises(InvalidPlan, match="which groups appear would tell the secret"):
        audited(sql=f"{plain} HAVING {COUNT} >= 5", noise={"law": "gaussian", "stddev": 2.0})
