"""Which lines an answer has can depend on the secrets: no noise hides that, so it is no pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.auditing.result import VerdictStatus
from sightline.errors import InvalidPlan
from sightline.tables.collect import collect
from sightline.tables.engines.protocol import Engine
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from sightline.tables.verify import verify
from tests.tables.table_cases import in_dialect

NUMBER = Subject(record="home", secret="load", kind=SecretKind.NUMBER, bounds=(0, 9000))


def audited(folder: Path, secrets: list[str], sql: str, *accept: str, **data: object) -> sl.AuditResult:
    """Person i is in group i // 4."""
    lines = [f"p{i},{i // 4},{secret}" for i, secret in enumerate(secrets)]
    (folder / "t.csv").write_text("id,g,x\n" + "\n".join(lines) + "\n")
    return sl.audit(
        {
            "data": {"source": f"{folder}/t.csv", "record": "id", "secret": "x", **data},
            "release": [{"name": "r", "sql": sql, "noise_stddev": 300.0}],
            "limits": {"remaining_uncertainty": 0.5, "accept": list(accept)},
        }
    )


def names(result: sl.AuditResult) -> list[tuple[str, int]]:
    return [(one.name.value, one.count) for one in result.unverified if not one.accepted]


YES_OR_NO = ["true", "false", "true", "true"] * 5
BOOLEAN: dict[str, Any] = {"kind": "boolean"}


@pytest.mark.slow
def test_the_list_of_those_who_meet_a_condition_is_exact(tmp_path: Path) -> None:
    """With noise of 300 the counts tell nothing, and the answer's lines tell everything: who is in it."""
    result = audited(tmp_path, YES_OR_NO, "SELECT id, COUNT(*) FROM data WHERE x GROUP BY id", **BOOLEAN)
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    assert names(result) == [("groups", 20)]
    assert result.publishable().verdict.passed is False
    # Every line is as telling if everyone meets the condition, and none is missing.
    everyone = audited(
        tmp_path, ["true"] * 20, "SELECT id, COUNT(*) FROM data WHERE x GROUP BY id", **BOOLEAN
    )
    assert names(everyone) == [("groups", 20)]
    safe = audited(
        tmp_path, YES_OR_NO, "SELECT id, COUNT(*) FILTER (WHERE x) FROM data GROUP BY id", **BOOLEAN
    )
    assert safe.verdict.status is VerdictStatus.PASSED
    one_line = audited(tmp_path, YES_OR_NO, "SELECT COUNT(*) FROM data WHERE x", **BOOLEAN)
    assert one_line.verdict.status is VerdictStatus.PASSED


@pytest.mark.slow
def test_a_number_above_a_threshold(tmp_path: Path) -> None:
    values = [f"{0.47 * (7 * i % 20):.2f}" for i in range(20)]
    sql = "SELECT g, COUNT(*) FROM data WHERE x > 5 GROUP BY g"
    result = audited(tmp_path, values, sql, bounds=[0, 10])
    assert names(result) == [("groups", 5)]
    accepted = audited(tmp_path, values, sql, "groups", bounds=[0, 10])
    assert accepted.verdict.status is VerdictStatus.PASSED
    assert (
        "The plan accepts: 5 groups show whether anybody in them has a certain value" in accepted.verdict.text
    )


@pytest.mark.slow
def test_values_that_nobody_in_a_group_has(tmp_path: Path) -> None:
    """A histogram lists the values that occur: group 0 has everyone "well", which its one line tells."""
    names_of = ["cold", "flu", "well"]
    secrets = ["well"] * 20 + ["cold", "flu", "well", "well"] * 20
    by_group = "SELECT g // 5 AS town, x, COUNT(*) FROM data GROUP BY town, x"
    assert names(audited(tmp_path, secrets, by_group, categories=names_of)) == [("groups", 1)]
    assert names(audited(tmp_path, secrets[20:], by_group, categories=names_of)) == []
    # Four people of a group have the cold and four the flu: too few for lines of their own.
    assert names(audited(tmp_path, secrets[24:36], by_group, categories=names_of)) == [("groups", 1)]
    whole = "SELECT x, COUNT(*) FROM data GROUP BY x"
    assert names(audited(tmp_path, secrets, whole, categories=names_of)) == []
    assert names(audited(tmp_path, secrets, whole, categories=[*names_of, "other"])) == [("groups", 1)]
    # Of a ROLLUP only the sets with the secret list its values.
    rollup = "SELECT x, g // 5 AS town, COUNT(*) FROM data GROUP BY ROLLUP (x, town)"
    assert names(audited(tmp_path, secrets, rollup, categories=names_of)) == [("groups", 1)]


@pytest.mark.parametrize("engine_name", ["duckdb_engine", "postgres_engine", "spark_engine"])
def test_on_every_engine(engine_name: str, request: pytest.FixtureRequest) -> None:
    engine: Engine = request.getfixturevalue(engine_name)
    sql = in_dialect("SELECT region, COUNT(*) FROM data WHERE load > 4000 GROUP BY region", engine.dialect)
    query = read_release(sql, name="r", subject=NUMBER, schema=Schema.of(engine))
    membership = collect(engine, [query], NUMBER)
    (found,) = verify(engine, [query], membership)
    assert found.telling_groups == len(membership.cells) > 1


@pytest.mark.slow
def test_repeated_rows_are_no_independent_values(tmp_path: Path) -> None:
    """Forty people with ten rows of one value each, but for one row: no two rows are independent."""
    lines = ["id,month,x"]
    lines += [
        f"{person},{month},{3.1 if (person, month) == (0, 7) else round(person * 37 % 101 / 10.1, 3)}"
        for person in range(40)
        for month in range(10)
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    data = {"source": f"{tmp_path}/t.csv", "record": "id", "secret": "x", "bounds": [0, 10]}
    release = {"name": "r", "sql": "SELECT SUM(x) FROM data WHERE id = 3", "noise_stddev": 12.9}
    plan = {
        "data": {**data, "max_rows_per_record": 10},
        "release": [release],
        "limits": {"remaining_uncertainty": 0.5},
    }
    # The sum of ten rows of one value is ten times it: 1/(1 + 100 v/s²) remains, and not 1/(1 + 10 v/s²).
    information = 10 * (100 / 12) / 12.9**2
    result = sl.audit(plan)
    assert result.verdict.status is VerdictStatus.FAILED
    assert result.least_remaining_uncertainty is not None
    assert result.least_remaining_uncertainty.upper == pytest.approx(1 / (1 + 10 * information), rel=1e-6)
    # Whoever takes the rows as independent is told that 39 people have one value in all of them.
    apart = {**data, "max_rows_per_record": 10, "values": "independent"}
    accepted = {"remaining_uncertainty": 0.5, "accept": ["rows_apart"]}
    result = sl.audit({**plan, "data": apart, "limits": accepted})
    assert result.least_remaining_uncertainty is not None
    assert result.least_remaining_uncertainty.upper == pytest.approx(1 / (1 + information), rel=1e-6)
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    assert names(result) == [("values", 39)]
    with pytest.raises(InvalidPlan, match="different ones for 1 of 40 records"):
        sl.audit({**plan, "data": {**plan["data"], "values": "constant"}})  # type: ignore[dict-item]
