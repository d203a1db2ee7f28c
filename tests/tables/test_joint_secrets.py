"""A secret of several columns: what is read of their parts is what raw SQL counts of them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sightline as sl
from sightline.auditing import work
from sightline.auditing.plan import Plan
from sightline.auditing.result import VerdictStatus
from sightline.auditing.session import opened
from sightline.ledger.book import Ledger

COUNTIES, RACES, HISPANIC = "ns", "wba", "yn"


def drawn(seed: int) -> list[tuple[Any, ...]]:
    draw = random.Random(seed)
    return [
        (i, COUNTIES[i % 2], draw.choice(RACES), draw.choice(HISPANIC), draw.random() < 0.5, i % 7)
        for i in range(240)
    ]


def created(connection: duckdb.DuckDBPyConnection, rows: list[tuple[Any, ...]]) -> None:
    connection.execute(
        "CREATE OR REPLACE TABLE data "
        "(id INTEGER, county VARCHAR, race VARCHAR, hispanic VARCHAR, adult BOOLEAN, size INTEGER)"
    )
    connection.executemany("INSERT INTO data VALUES (?, ?, ?, ?, ?, ?)", rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("joint")
    with duckdb.connect(str(made / "t.duckdb")) as connection:
        created(connection, drawn(1))
    return made


def plan(folder: Path, query: str, **data: Any) -> dict[str, Any]:
    about = {
        "source": str(folder / "t.duckdb") + "::data",
        "record": "id", "secret": ["race", "hispanic", "adult"],
        "categories": [list(RACES), list(HISPANIC), [True, False]], "public": ["county", "size"],
    }  # fmt: skip
    release = {"name": "one", "sql": query, "noise": {"stddev": 5.0}}
    return {"data": about | data, "limits": {"remaining_uncertainty": "10%"}, "release": [release]}


READ = [
    "SELECT county, race, hispanic, COUNT(*) FROM data GROUP BY county, race, hispanic",
    "SELECT county, race, hispanic, adult, COUNT(*) FROM data GROUP BY ALL",
    "SELECT county, COUNT(*) FILTER (WHERE race = 'w'), COUNT_IF(adult) FROM data GROUP BY county",
    "SELECT race, COUNT(*) FROM data WHERE adult GROUP BY race",
    "SELECT race, COUNT(*) FILTER (WHERE adult AND hispanic = 'y') FROM data GROUP BY race",
    "SELECT race IN ('w', 'b') AS most, hispanic, COUNT(*) FROM data GROUP BY 1, 2",
    "SELECT county, SUM(CASE WHEN race <> 'a' AND NOT adult THEN 1 ELSE 0 END) FROM data GROUP BY county",
    "SELECT county, race, COUNT(*) FROM data GROUP BY GROUPING SETS ((county, race), (race))",
    "SELECT COUNT(*) FROM data WHERE race IS NOT NULL AND (hispanic = 'y' OR adult)",
]


@pytest.mark.slow
@pytest.mark.parametrize("sql", READ)
def test_what_is_read_is_what_raw_sql_counts(folder: Path, sql: str) -> None:
    """On the table, and on others: each number is how many rows of a cell have one of its categories."""
    with opened(Plan.model_validate(plan(folder, sql)), folder) as session:
        partitions = session.queries[0].partitions
    for seed in (1, 2, 3):
        rows = drawn(seed)
        expected: Counter[int] = Counter()
        for part in partitions:
            for county in COUNTIES if part.keys else [COUNTIES]:
                joint = [f"{r[2]} / {r[3]} / {str(r[4]).lower()}" for r in rows if r[1] in county]
                expected[sum((one in part.categories) is part.above for one in joint)] += 1
        with duckdb.connect() as connection:
            created(connection, rows)
            answer = connection.execute(sql).fetchall()
        counts = [v for line in answer for v in line if isinstance(v, int) and not isinstance(v, bool)]
        assert Counter(counts) == expected


@pytest.mark.slow
def test_the_audit_is_that_of_one_column_of_the_same_values(folder: Path) -> None:
    """The same rows with one column for all three, and the same counts by its values."""
    table = folder / "one.duckdb"
    with duckdb.connect(str(table)) as connection:
        created(connection, drawn(1))
        connection.execute(
            "CREATE TABLE joined AS "
            "SELECT id, county, size, race || ' ' || hispanic || ' ' || adult AS who FROM data"
        )
    values = [f"{r} {h} {a}" for r in RACES for h in HISPANIC for a in ("true", "false")]
    sql = "SELECT county, {}, COUNT(*) FROM data GROUP BY county, {}"
    one = sql.format("LEFT(who, 3)", "LEFT(who, 3)"), sql.format("race, hispanic", "race, hispanic")
    single = {"source": f"{table}::joined", "secret": "who", "categories": values}
    results = [sl.audit(plan(folder, one[0], **single)), sl.audit(plan(folder, one[1]))]
    said, of_parts = (repr(one).rpartition("::")[2].partition(": ")[2] for one in results)
    assert said == of_parts  # the verdict, and the least that somebody keeps


@pytest.mark.slow
def test_groups_without_a_combination_tell_it(tmp_path: Path) -> None:
    rows = [row for row in drawn(1) if (row[1], row[2], row[3]) != ("n", "a", "y")]
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        created(connection, rows)
    for keys, told in (("county, race, hispanic", True), ("county, race", False)):
        result = sl.audit(plan(tmp_path, f"SELECT {keys}, COUNT(*) FROM data GROUP BY {keys}"))
        assert (result.verdict.status == "not shown") is told, keys


REFUSED = {
    "SELECT race, hispanic, COUNT(*) FROM data GROUP BY ROLLUP (race, hispanic)": "one key of the secret",
    "SELECT race, AVG(size) FROM data GROUP BY race": "COUNT(*) in a query grouped by the secret",
    "SELECT COUNT(DISTINCT race) FROM data": "COUNT(DISTINCT …) of public columns",
    "SELECT COUNT(*) FROM data WHERE EXISTS (SELECT 1 FROM data AS o WHERE o.race = 'w')": "a column of o",
    "SELECT county, race, COUNT(*) FROM data GROUP BY county, race HAVING COUNT(*) > 3": "HAVING",
    "SELECT a.county, COUNT(*) FROM data a JOIN data b ON a.race = b.race GROUP BY a.county": "public table",
    "SELECT county || race, COUNT(*) FROM data GROUP BY 1": "a function of it alone",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_no_count_of_categories_is_refused(folder: Path, sql: str) -> None:
    with pytest.raises(sl.SightlineError) as refused:
        sl.audit(plan(folder, sql))
    assert REFUSED[sql] in str(refused.value)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"public": ["race"]}, "neither the record, nor public"),
        ({"categories": [["w", "b"], ["y", "n"]]}, "a list of values in categories for each column"),
        ({"secret": ["race", "race", "adult"]}, "different columns"),
        ({"sql": "SELECT * FROM source"}, "no sql in"),
        ({"categories": [list(RACES), list(HISPANIC), ["yes", "no"]]}, 'the values of "adult"'),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused(folder: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(sl.SightlineError, match=message):
        sl.audit(plan(folder, "SELECT COUNT(*) FROM data WHERE adult", **changed))


def test_what_an_attacker_knows_is_public(folder: Path) -> None:
    about = plan(folder, "SELECT COUNT(*) FROM data WHERE adult")
    with pytest.raises(sl.SightlineError, match="a condition on public columns"):
        sl.audit(about | {"attacker": {"knows": ["race = 'w'"]}})


def test_rows_with_a_part_of_the_secret_are_refused(tmp_path: Path) -> None:
    rows = [(*row[:3], None if row[0] == 5 else row[3], *row[4:]) for row in drawn(1)]
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        created(connection, rows)
    with pytest.raises(sl.SightlineError, match="all columns of a joint secret, or none, got 1 with some"):
        sl.audit(plan(tmp_path, "SELECT race, COUNT(*) FROM data GROUP BY race"))


def test_a_plan_is_written_as_it_is_read(folder: Path) -> None:
    about = Plan.model_validate(plan(folder, "SELECT COUNT(*) FROM data WHERE adult"))
    again = Plan.model_validate(about.model_dump(mode="json", by_alias=True))
    assert again == about
    assert again.data.parts == ("race", "hispanic", "adult")


TWICE = [
    "SELECT race, hispanic, adult, COUNT(*) FROM data GROUP BY ALL",
    "SELECT race, hispanic, adult, COUNT(*) FROM data WHERE id <> 7 GROUP BY ALL",
]


@pytest.mark.slow
def test_whoever_two_tables_differ_by_passes_no_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        created(connection, drawn(1))
    content = plan(tmp_path, "")
    content["release"] = [
        {"name": f"table {place}", "sql": sql, "noise_stddev": 0.01} for place, sql in enumerate(TWICE)
    ]
    accept = ["groups", "homogeneous"]
    content["limits"] |= {"accept": accept}
    values = "[['w', 'b', 'a'], ['y', 'n'], [true, false]]"
    (tmp_path / "head.toml").write_text(
        f"data = {{ source = '{content['data']['source']}', record = 'id', categories = {values}, "
        "secret = ['race', 'hispanic', 'adult'], public = ['county', 'size'] }\n"
        f"privacy = {{ delta = 1e-5 }}\nlimits = {{ remaining_uncertainty = '10%', accept = {accept} }}\n"
    )
    ledger = Ledger.start(tmp_path / "ledger", head=tmp_path / "head.toml", values="one")
    added = [ledger.add(release)[0].result for release in content["release"]]
    results = [sl.audit(content), added[-1]]
    monkeypatch.setattr(work, "_PER_SIGNATURE", 1e18)  # as if it were too large for memory
    results.append(sl.audit(content))
    for result in results:
        assert result.verdict.status is VerdictStatus.FAILED
        assert result.verdict.below_limit == 1
        least = result.least_remaining_uncertainty
        assert least is not None
        assert least.upper < 1e-3


def test_an_empty_table_is_one_line(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE data (id INTEGER, county VARCHAR, race VARCHAR, hispanic VARCHAR)")
        connection.execute("ALTER TABLE data ADD COLUMN adult BOOLEAN")
        connection.execute("ALTER TABLE data ADD COLUMN size INTEGER")
    with pytest.raises(sl.SightlineError, match="got an empty table"):
        sl.audit(plan(tmp_path, READ[0]))
