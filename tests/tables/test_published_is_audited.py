"""What once passed and must not: each case on the engines themselves, with the truth from their own SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.tables.collect import collect
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import UnauditedRows
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from sightline.tables.verify import quickly_verified, verify
from tests.tables.quick_cases import changed_texts, sizes_of
from tests.tables.test_release_reader import read

PEOPLE = [  # who, student, retired, age, watts
    ("p0", True, False, 21, 1.0),
    ("p1", True, True, 70, 2.0),
    ("p2", False, True, 68, 3.0),
    ("p3", False, False, 35, 4.0),
    ("p4", False, False, 41, 5.0),
    ("p5", None, False, 50, 6.0),
    ("p6", None, True, 80, 7.0),
    ("p7", True, None, 19, 8.0),
]
SUBJECT = Subject(record="who", secret="watts", kind=SecretKind.NUMBER, bounds=(0, 10))
ENGINES = ["on_duckdb", "on_postgres", "on_spark"]
Opened = tuple[Engine, Any]


def values() -> str:
    def constant(value: object) -> str:
        return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)

    return ", ".join(f"({', '.join(map(constant, row))})" for row in PEOPLE)


SELECTED = (
    "SELECT CAST(who AS VARCHAR(9)) AS who, CAST(student AS BOOLEAN) AS student, "
    "CAST(retired AS BOOLEAN) AS retired, CAST(age AS INTEGER) AS age, CAST(watts AS {double}) AS watts "
    "FROM (VALUES {values}) AS v(who, student, retired, age, watts)"
)


@pytest.fixture(scope="module")
def on_duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    folder = tmp_path_factory.mktemp("people")
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE data AS {SELECTED.format(double='DOUBLE', values=values())}")
    connection.execute(f"COPY data TO '{folder / 'people.parquet'}' (FORMAT parquet)")
    engine = open_source("people.parquet", base=folder)
    yield engine, lambda sql: connection.execute(sql).fetchall()
    engine.close()
    connection.close()


@pytest.fixture(scope="module")
def on_postgres(postgres_url: str) -> Iterator[Opened]:
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA people")
        connection.execute("SET search_path TO people")
        connection.execute(
            f"CREATE TABLE data AS {SELECTED.format(double='DOUBLE PRECISION', values=values())}"
        )
        engine = open_source(f"{postgres_url}?table=people.data", base=Path())
        yield engine, lambda sql: connection.execute(sql).fetchall()
        engine.close()
        connection.execute("DROP SCHEMA people CASCADE")


@pytest.fixture(scope="module")
def on_spark(spark_session: Any) -> Iterator[Opened]:
    frame = spark_session.sql(SELECTED.format(double="DOUBLE", values=values()))
    frame.createOrReplaceTempView("people")
    engine = open_source(spark_session, base=Path(), table="people")
    yield (
        engine,
        lambda sql: [
            tuple(row) for row in spark_session.sql(sql.replace("FROM data", "FROM people")).collect()
        ],
    )
    engine.close()


@pytest.fixture(params=ENGINES)
def opened(request: pytest.FixtureRequest) -> Opened:
    found: Opened = request.getfixturevalue(request.param)
    return found


KEYS = [
    "student OR retired",
    "student AND retired",
    "NOT student",
    "NOT student AND retired",
    "student IS DISTINCT FROM retired",
    "age >= 65",
    "age / 10",
    "student = retired OR age < 40",
    "CASE WHEN student OR age > 60 THEN 'out' ELSE 'work' END",
]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_any_form_makes_the_engine_s_own_groups(key: str, opened: Opened) -> None:
    engine, run = opened
    sql = f"SELECT {key} AS k, AVG(watts) FROM data GROUP BY {key}"
    query = read_release(sql, name="by", subject=SUBJECT, schema=Schema.of(engine))
    membership = collect(engine, [query], SUBJECT)
    truth = sorted(row[0] for row in run(f"SELECT COUNT(*) FROM data GROUP BY {key}"))
    assert sorted(cell.rows for cell in membership.cells) == truth
    assert membership.counts.sum() == len(PEOPLE)
    assert verify(engine, [query], membership) == (UnauditedRows(),)


def test_integer_division_is_the_source_s_own(on_postgres: Opened, on_duckdb: Opened) -> None:
    sizes = []
    for engine, _ in (on_postgres, on_duckdb):
        sql = "SELECT age / 10, SUM(watts) FROM data GROUP BY age / 10"
        query = read_release(sql, name="by", subject=SUBJECT, schema=Schema.of(engine))
        sizes.append(len(collect(engine, [query], SUBJECT).cells))
    assert sizes == [len({row[3] // 10 for row in PEOPLE}), len({row[3] / 10 for row in PEOPLE})]


@pytest.mark.slow
def test_a_person_alone_in_a_cell_is_exposed_whatever_the_key_looks_like(tmp_path: Path) -> None:
    """Rows that are neither student nor retired form one cell; one person is alone in it here."""
    lines = ["who,student,retired,watts", "p,false,false,5.0"]
    lines += [f"q{i},{'true' if i % 2 else 'false'},true,{i % 10}.0" for i in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    with duckdb.connect() as connection:
        truth = connection.execute(
            f"SELECT COUNT(*) FROM '{tmp_path / 't.csv'}' GROUP BY student OR retired ORDER BY 1"
        ).fetchall()
    assert truth == [(1,), (30,)]
    plan = {
        "data": {"source": str(tmp_path / "t.csv"), "record": "who", "secret": "watts", "bounds": [0, 10]},
        "release": [
            {
                "name": "by",
                "sql": "SELECT student OR retired, SUM(watts) FROM data GROUP BY student OR retired",
                "noise_stddev": 0.01,
            }
        ],
        "limits": {"remaining_uncertainty": "50%"},
    }
    result = sl.audit(plan)
    assert result.identifiable_records == 1
    assert result.verdict.passed is False


class TestEmptyReleases:
    SQL = "SELECT AVG(watts) FROM data WHERE student AND age > 200"

    def test_the_membership_names_them(self, on_duckdb: Opened) -> None:
        engine, run = on_duckdb
        assert run("SELECT COUNT(*) FROM data WHERE student AND age > 200") == [(0,)]
        queries = [
            read_release(sql, name=sql[:9], subject=SUBJECT, schema=Schema.of(engine))
            for sql in ("SELECT AVG(watts) FROM data", self.SQL)
        ]
        assert collect(engine, queries, SUBJECT).empty == (1,)

    def test_one_of_two_aggregates_is_enough(self, on_duckdb: Opened) -> None:
        engine, _ = on_duckdb
        sql = "SELECT AVG(watts), SUM(watts) FILTER (WHERE age = 1) FROM data"
        query = read_release(sql, name="both", subject=SUBJECT, schema=Schema.of(engine))
        assert collect(engine, [query], SUBJECT).empty == (0,)

    def test_an_audit_refuses_them_by_name(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("who,sex,x\na, Female,1\nb, Male,2\n")
        plan = {
            "data": {"source": str(tmp_path / "t.csv"), "record": "who", "secret": "x", "bounds": [0, 10]},
            "release": [
                {
                    "name": "women",
                    "sql": "SELECT AVG(x) FROM data WHERE sex = 'Female'",
                    "noise_stddev": 1.0,
                }
            ],
        }
        with pytest.raises(InvalidPlan, match=r"release 'women': expected rows that meet its conditions"):
            sl.audit(plan)


class TestRowsBeyondTheAudit:
    """Rows that the SQL aggregates and the audit leaves out are counted, release by release."""

    ROWS = (
        "SELECT * FROM (VALUES ('a', 1.0, 1), ('b', 2.0, 0), (NULL, 3.0, 1), ('c', NULL, NULL), "
        "('d', 'NaN'::DOUBLE, 7), ('e', 50.0, 1)) AS t(r, s, flag)"
    )

    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({self.ROWS}) TO '{tmp_path / 't.parquet'}' (FORMAT parquet)")
        engine = open_source("t.parquet", base=tmp_path)
        yield engine
        engine.close()

    def unaudited(self, engine: Engine, subject: Subject, *sql: str) -> tuple[UnauditedRows, ...]:
        queries = [read_release(one, name=one, subject=subject, schema=Schema.of(engine)) for one in sql]
        return verify(engine, queries, collect(engine, queries, subject))

    def test_of_a_number(self, engine: Engine) -> None:
        subject = Subject(record="r", secret="s", kind=SecretKind.NUMBER, bounds=(0, 10))
        assert self.unaudited(
            engine,
            subject,
            "SELECT AVG(s) FROM data",
            "SELECT SUM(s) FROM data WHERE r IS NOT NULL AND r < 'c'",
            "SELECT COUNT(*) FROM data WHERE s > 2.5",
            "SELECT AVG(CASE WHEN s > 2.5 THEN 1 ELSE 0 END) FROM data",
            "SELECT COUNT(*) FROM data",
        ) == (
            UnauditedRows(unkeyed=1, invalid=1, clipped=1),
            UnauditedRows(),
            UnauditedRows(unkeyed=1, invalid=1, clipped=1),
            UnauditedRows(
                unkeyed=1, invalid=1, clipped=1, missing=1
            ),  # it divides by the row without a secret
            UnauditedRows(),
        )

    def test_of_a_number_that_is_called_boolean(self, engine: Engine) -> None:
        subject = Subject(record="r", secret="flag", kind=SecretKind.BOOLEAN)
        assert self.unaudited(engine, subject, "SELECT AVG(flag) FROM data") == (
            UnauditedRows(unkeyed=1, invalid=1),
        )

    def test_means_ignore_missing_secrets_as_sql_does(self, engine: Engine) -> None:
        subject = Subject(record="r", secret="s", kind=SecretKind.NUMBER)
        (rows,) = self.unaudited(
            engine, subject, "SELECT AVG(s) FROM data WHERE r IS NOT NULL AND s IS NOT NULL"
        )
        assert rows.missing == 0


class TestADifferenceIsAnError:
    """If the engine groups or adds up otherwise than the audit says, the release is refused by its name."""

    def check(self, engine: Engine, sql: str, before: str, after: str) -> None:
        """Change the check of the groups, and the quick check too."""
        query = read_release(sql, name="odd", subject=SUBJECT, schema=Schema.of(engine))
        (own,) = query.checks
        assert own is not None
        assert own.quick is not None
        assert before in own.sql
        assert before.removesuffix(" AS y0") in repr(own.quick)
        membership = collect(engine, [query], SUBJECT)
        assert quickly_verified(engine, {0: own.quick}, {0: sizes_of(membership)}, least_rows=0) == {0}
        quick = changed_texts(own.quick, before.removesuffix(" AS y0"), after.removesuffix(" AS y0"))
        changed = replace(own, sql=own.sql.replace(before, after), quick=quick)
        verify(engine, [replace(query, checks=(changed,))], membership)

    def test_other_rows(self, on_duckdb: Opened) -> None:
        with pytest.raises(InvalidPlan, match=r'release "odd": .*groups of 7 rows where the engine has .*8'):
            self.check(
                on_duckdb[0],
                "SELECT SUM(watts) FROM data WHERE age > 19",
                "> 19",
                "> 18",
            )

    def test_other_groups_of_the_same_sizes(self, on_duckdb: Opened) -> None:
        with pytest.raises(InvalidPlan, match="groups of other rows"):
            self.check(
                on_duckdb[0],
                "SELECT age < 40, SUM(watts) FROM data GROUP BY age < 40",
                "(age < 40) AS y0",
                "(watts IN (2, 3, 4)) AS y0",
            )

    def test_another_number(self, on_duckdb: Opened) -> None:
        with pytest.raises(InvalidPlan, match=r"another number for 8 rows"):
            self.check(on_duckdb[0], "SELECT SUM(watts) FROM data", "CAST((watts)", "CAST((2 * watts)")


GAMING = [
    ("SELECT region, AVG(load) AS age FROM data GROUP BY region ORDER BY -age", "an item of the SELECT list"),
    (
        "SELECT region, AVG(load) FROM data GROUP BY region ORDER BY product(load)",
        "of the secret publish sums, means or counts",
    ),
    ("SELECT region, AVG(load) FROM data GROUP BY region ORDER BY load", "columns of GROUP BY"),
    (
        "SELECT region, AVG(load) AS age FROM data GROUP BY region ORDER BY age, SUM(age * load)",
        "an item of the SELECT list",
    ),
    ("SELECT region, AVG(load) FROM data GROUP BY region ORDER BY region + load", "columns of GROUP BY"),
    (
        "SELECT region, product(load), AVG(load) FROM data GROUP BY region",
        "of the secret publish sums, means or counts",
    ),
    (
        "SELECT age AS region, AVG(load) FROM data GROUP BY region",
        "columns of GROUP BY outside the aggregates",
    ),
    (
        "SELECT region, AVG(load) FROM data GROUP BY region HAVING AVG(load) > 3",
        "HAVING on public aggregates",
    ),
]


@pytest.mark.parametrize(("sql", "reason"), GAMING)
def test_no_order_or_expression_publishes_exact_numbers(sql: str, reason: str) -> None:
    with pytest.raises(InvalidPlan, match=reason):
        read(sql)


@pytest.mark.parametrize(
    "order", ["-m", "m + 0", "ALL, SUM(load)", "1 + 1", "SUM(load) FILTER (WHERE solar)"]
)
def test_an_order_by_what_is_no_item_needs_noise_on_every_aggregate_first(order: str) -> None:
    partitions = read(f"SELECT region, AVG(load) AS m FROM data GROUP BY region ORDER BY {order}").partitions
    assert {part.statistic.value for part in partitions} == {"mean", *(["sum"] if "SUM" in order else [])}
    assert all(part.computed.shows for part in partitions)


@pytest.mark.parametrize(
    ("sql", "ranked"),
    [
        ("SELECT region, AVG(load) AS m FROM data GROUP BY region ORDER BY ALL", True),
        ("SELECT region, AVG(load) AS age FROM data GROUP BY region ORDER BY age", True),
        ("SELECT age, AVG(load) AS age FROM data GROUP BY age ORDER BY age", True),
        ("SELECT age, AVG(load) AS m FROM data GROUP BY age ORDER BY age", False),
    ],
)
def test_lines_are_sorted_by_the_noisy_numbers(sql: str, ranked: bool) -> None:
    """The noise is on the mean, and sorting comes after it: the order tells no more than the numbers."""
    (part,) = read(sql).partitions
    if not ranked:
        assert not part.computed.steps
        return
    assert part.computed.ranked
    assert part.computed.noise_on == "AVG(load)"
    assert part.computed.steps == ("ORDER BY",)


def test_an_alias_may_have_a_column_s_name_where_nothing_refers_to_it() -> None:
    assert (
        len(read("SELECT region, AVG(load) AS load FROM data GROUP BY region ORDER BY region").partitions)
        == 1
    )


def test_lookups_that_differ_have_aliases_of_200_bits() -> None:
    aliases = {
        read(f"SELECT AVG(load) FROM data JOIN areas ON data.{column} = areas.region").joins[0].alias
        for column in ("region", "age")
    }
    assert len(aliases) == 2
    assert {len(alias) for alias in aliases} == {len("lookup_") + 50}
