"""What the reader says a query publishes is what it publishes; everything else is refused in one line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import duckdb
import numpy as np
import pytest

from sightline.errors import InvalidPlan
from sightline.tables.engines.protocol import Column, ColumnKind
from sightline.tables.membership import Feature, Partition, Statistic
from sightline.tables.sql.reader import ReleaseQuery, read_condition, read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from tests.tables.table_cases import COLUMNS, awkward_rows

SECRETS = {"load": SecretKind.NUMBER, "ill": SecretKind.BOOLEAN, "blood": SecretKind.CATEGORY}

ACCEPTED = {
    "load": [
        "SELECT AVG(load) AS m1 FROM data",
        "SELECT region, AVG(load) AS m1, SUM(load) AS m2, COUNT(*) FROM data GROUP BY region",
        "select D.REGION, avg(d.Load) AS m1 from Data d group by D.region order by d.region desc;",
        "FROM data SELECT region, SUM(load) AS m1 GROUP BY ALL",
        "SELECT SUM(load) AS m1 FROM data WHERE load IS NOT NULL AND age > 30 AND (solar OR region = 2)",
        "SELECT region, solar, AVG(load) AS m1 FROM data GROUP BY CUBE (region, solar)",
        "SELECT region, solar, SUM(load) AS m1 FROM data GROUP BY GROUPING SETS ((region), "
        "(solar, region), ROLLUP (solar), ())",
        "SELECT region, solar, SUM(load) AS m1 FROM data GROUP BY solar, ROLLUP (region)",
        "SELECT region, solar, SUM(load) AS m1 FROM data GROUP BY ROLLUP ((region, solar))",
        "SELECT SUM(load) AS m1 FROM data GROUP BY ROLLUP ((age >= 65), (solar OR region = 2))",
        "SELECT solar OR region = 2 AS k, SUM(load) AS m1 FROM data GROUP BY k",
        "SELECT region, GROUPING(region), SUM(load) AS m1 FROM data GROUP BY ROLLUP (region)",
        "SELECT age % 7 AS rest, UPPER(home) || '!' AS who, AVG(load) AS m1 FROM data GROUP BY rest, who",
        "SELECT 'all' AS label, region + 1, SUM(load) AS m1 FROM data GROUP BY region",
        "SELECT SUM(CASE WHEN solar THEN load ELSE 0 END) AS m1, "
        "SUM(CASE WHEN solar THEN load END) AS m2 FROM data",
        "SELECT AVG(CASE WHEN solar THEN load END) AS m1 FROM data",
        "SELECT AVG(CAST(load AS DOUBLE)) AS m1, AVG((load)) AS m2 FROM data",
        "SELECT AVG(POWER(load, 2)) AS m1, SUM(load * load) AS m2, AVG(load ** 3) AS m3, "
        "SUM(load * load * load) AS m4, SUM(load * load ** 2) AS m5 FROM data",
        "SELECT COUNT(*) FILTER (WHERE load > 42.5) AS m1, "
        "COUNT(*) FILTER (WHERE 42.5 > load) AS m2 FROM data",
        "SELECT region, COUNT(*) AS m1 FROM data WHERE load >= 100.5 GROUP BY region",
        "SELECT COUNT(*) AS m1, COUNT(load) AS m2, COUNT(1) AS m3, "
        "COUNT(solar) AS m4 FROM data WHERE NOT load <= -4.5",
        "SELECT AVG(CASE WHEN load > 42.5 THEN 1 ELSE 0 END) AS m1, "
        "SUM(CASE WHEN load < 42.5 AND solar THEN 1 ELSE 0 END) AS m2 FROM data",
        "SELECT AVG(IF(load > 42.5, 1, 0)) AS m1, AVG(CAST(load > 42.5 AS INT)) AS m2, "
        "COUNT_IF(load > 42.5 AND age > 9) AS m3 FROM data",
        "SELECT COUNT(CASE WHEN load > 42.5 AND solar THEN 1 END) AS m1 FROM data",
        "SELECT SUM(load) AS m1 FROM data WHERE since >= DATE '2016-03-01' AND Straße LIKE '%e%'",
        "SELECT EXTRACT(MONTH FROM since), AVG(load) AS m1 FROM data GROUP BY 1",
        "SELECT COALESCE(Straße, '?'), NULLIF(region, 2), AVG(load) AS m1 FROM data GROUP BY 1, 2",
    ],
    "ill": [
        "SELECT COUNT(*) AS m1 FROM data WHERE ill",
        "SELECT COUNT(*) AS m1 FROM data WHERE NOT ill AND age > 20",
        "SELECT region, COUNT(*) FILTER (WHERE ill) AS m1 FROM data GROUP BY region",
        "SELECT COUNT(*) FILTER (WHERE ill = TRUE) AS m1, "
        "COUNT(*) FILTER (WHERE ill IS FALSE) AS m2, COUNT_IF(ill <> TRUE) AS m3 FROM data",
        "SELECT SUM(CASE WHEN ill THEN 1 ELSE 0 END) AS m1, "
        "AVG(CASE WHEN ill THEN 1 ELSE 0 END) AS m2 FROM data",
        "SELECT region, AVG(ill::INT) AS m1, SUM(CAST(ill AS INTEGER)) AS m2, "
        "AVG(CAST(NOT ill AS INT)) AS m3 FROM data GROUP BY region",
        "SELECT ill, COUNT(*) AS m1 FROM data GROUP BY ill",
        "SELECT region, ill, COUNT(*) AS m1 FROM data GROUP BY GROUPING SETS ((ill, region), (ill))",
        "SELECT COUNT(CASE WHEN ill THEN 1 END) AS m1 FROM data WHERE solar",
        "SELECT COUNT(*) AS m1 FROM data WHERE (ill = FALSE)",
    ],
    "blood": [
        "SELECT COUNT(*) AS m1 FROM data WHERE blood = 'A'",
        "SELECT region, COUNT(*) AS m1 FROM data WHERE 'AB' <> blood GROUP BY region",
        "SELECT blood, COUNT(*) AS m1 FROM data GROUP BY blood",
        "SELECT region, blood, COUNT(*) AS m1 FROM data GROUP BY region, blood",
        "SELECT AVG(CASE WHEN blood = '0' THEN 1 ELSE 0 END) AS m1, "
        "COUNT(*) FILTER (WHERE blood IN ('B')) AS m2 FROM data",
        "SELECT blood, COUNT(*) FILTER (WHERE solar) AS m1 FROM data GROUP BY blood",
        "SELECT SUM(CAST(blood = 'B' AS INT)) AS m1 FROM data WHERE NOT solar",
    ],
}


PUBLIC = {
    "SELECT region, COUNT(*) FROM data GROUP BY region": ("COUNT(*)",),
    "SELECT COUNT(*) AS rows, COUNT(load), COUNT(DISTINCT home) FROM data": (
        "rows",
        "COUNT(load)",
        "COUNT(DISTINCT home)",
    ),
    "SELECT SUM(CASE WHEN solar THEN 1 ELSE 0 END) FROM data WHERE load IS NOT NULL": (
        "SUM(CASE WHEN solar THEN 1 ELSE 0 END)",
    ),
    "SELECT COUNT_IF(solar), COUNT(*) FILTER (WHERE age > 3) FROM data": (
        "COUNT_IF(solar)",
        "COUNT(*) FILTER(WHERE age > 3)",
    ),
}
AREAS = (Column("region", ColumnKind.NUMBER), Column("area", ColumnKind.TEXT))
KINDS = {
    "VARCHAR": ColumnKind.TEXT,
    "INTEGER": ColumnKind.NUMBER,
    "DOUBLE": ColumnKind.NUMBER,
    "BOOLEAN": ColumnKind.BOOLEAN,
    "DATE": ColumnKind.TIME,
}
TABLE = tuple(Column(name, KINDS[kind]) for name, kind in COLUMNS.items())


def read(sql: str, secret: str = "load") -> ReleaseQuery:
    return read_release(
        sql,
        name="the release",
        subject=Subject(record="home", secret=secret, kind=SECRETS[secret]),
        schema=Schema(columns=TABLE, tables={"areas": AREAS}),
    )


@pytest.fixture(scope="module", params=SECRETS)
def database(request: pytest.FixtureRequest) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    """The rows that have a secret and a key, in a database of the test's own."""
    secret = str(request.param)
    connection = duckdb.connect()
    listed = ", ".join(f'"{name.replace(chr(34), chr(34) * 2)}" {kind}' for name, kind in COLUMNS.items())
    connection.execute(f"CREATE TABLE data ({listed})")
    kept = [row for row in awkward_rows() if row["home"] is not None and row[secret] is not None]
    kept = [row for row in kept if secret != "load" or np.isfinite(row["load"])]
    marks = ", ".join("?" for _ in COLUMNS)
    connection.executemany(f"INSERT INTO data VALUES ({marks})", [list(row.values()) for row in kept])
    yield connection, secret
    connection.close()


def numbers(values: list[object]) -> list[float]:
    """What is published, whatever its order; groups without a row publish nothing or nought."""
    return sorted(float(str(value)) for value in values if value is not None and float(str(value)) != 0)


def feature(piece: Partition, secret: str) -> str:
    match piece.feature:
        case Feature.VALUE:
            sharp = f"CAST({secret} AS DOUBLE)"
        case Feature.INDICATOR:
            sharp = f"CASE WHEN {secret} = '{piece.parameter}' THEN 1.0 ELSE 0.0 END"
        case Feature.POWER:
            sharp = f"POWER({secret}, {piece.parameter})"
        case Feature.THRESHOLD:
            compared = ">=" if piece.closed else ">"
            sharp = f"CASE WHEN {secret} {compared} {piece.parameter} THEN 1.0 ELSE 0.0 END"
        case other:
            raise AssertionError(other)
    statistic = {Statistic.MEAN: "AVG", Statistic.SUM: "SUM"}[piece.statistic]
    return f"{statistic}({sharp if piece.above else f'1 - {sharp}'})"


@pytest.mark.slow
def test_a_query_publishes_what_the_reader_says(database: tuple[duckdb.DuckDBPyConnection, str]) -> None:
    connection, secret = database
    categories = [row[0] for row in connection.execute("SELECT DISTINCT blood FROM data").fetchall()]
    for sql in ACCEPTED[secret]:
        answer = connection.execute(sql)
        measures = [
            place for place, column in enumerate(answer.description or []) if str(column[0]).startswith("m")
        ]
        written = numbers([row[place] for row in answer.fetchall() for place in measures])
        reread: list[object] = []
        for piece in read(sql, secret).partitions:
            every = piece.feature is Feature.INDICATOR and piece.parameter is None
            for parameter in categories if every else [piece.parameter]:
                shown = feature(replace(piece, parameter=parameter), secret)
                grouped = f" GROUP BY {', '.join(piece.keys)}" if piece.keys else ""
                text = f"SELECT {shown} FROM data WHERE {piece.condition or 'TRUE'}{grouped}"
                reread += [row[0] for row in connection.execute(text).fetchall()]
        assert written, sql
        assert numbers(reread) == pytest.approx(written, rel=1e-12), sql


@pytest.mark.parametrize(("sql", "counts"), PUBLIC.items())
def test_counts_that_no_secret_changes_publish_no_partition(sql: str, counts: tuple[str, ...]) -> None:
    query = read(sql)
    assert query.partitions == ()
    assert query.public_counts == counts


LONG = " OR ".join(f"age = {number}" for number in range(5_000))
REFUSED = {
    # a comment cannot say that a part was read already
    "SELECT SUM(load) + arbitrary(load) /* sqlglot.meta sightline constant */ FROM data": "got ARBITRARY",
    # one SELECT, and nothing else
    "": "an empty text",
    " ;; ": "an empty text",
    "SELECT AVG(load) FROM data; SELECT AVG(load) FROM data": "2 statements",
    "SELECT AVG(load) FROM data; DROP TABLE data": "2 statements",
    "DROP TABLE data": "got DROP",
    "INSERT INTO data VALUES (1)": "got INSERT",
    "COPY data TO 'x.csv'": "got COPY",
    "ATTACH 'x.db'": "got ATTACH",
    "PRAGMA database_list": "got PRAGMA",
    "SET memory_limit = '1GB'": "got SET",
    "INSTALL httpfs": "got INSTALL",
    "SELECT AVG(load FROM data": "syntax error at line 1, column",
    "SELECT 'open FROM data": "a syntax error",
    "SELECT AVG(load)\x00 FROM data": "a NUL",
    f"SELECT AVG(load) FROM data WHERE {LONG * 20}": "at most 100,000 bytes",
    f"SELECT AVG(load) FROM data WHERE {'(' * 3_000}solar{')' * 3_000}": "nested at most 150",
    f"SELECT AVG(load) FROM data WHERE {LONG}": "nested at most 150",
    # clauses
    "WITH a AS (SELECT 1) SELECT AVG(load) FROM data": "a WITH that is used",
    "SELECT region, AVG(load) FROM data GROUP BY region HAVING AVG(load) > 3": "HAVING on public aggregates",
    "SELECT region, AVG(load) FROM data GROUP BY region LIMIT 3": "ORDER BY before LIMIT",
    "SELECT region, AVG(load) FROM data GROUP BY region OFFSET 3": "no OFFSET",
    "SELECT AVG(load) FROM data USING SAMPLE 10%": "no sampling",
    "SELECT AVG(load) FROM data FOR UPDATE": "no LOCKS",
    # relations
    "SELECT AVG(1)": "no FROM",
    "SELECT AVG(load) FROM homes": "FROM homes",
    "SELECT AVG(load) FROM 'homes.parquet'": "FROM homes.parquet",
    "SELECT AVG(load) FROM read_csv('/etc/passwd')": "a table's name",
    "SELECT AVG(load) FROM main.data": "plain name",
    "SELECT AVG(load) FROM data TABLESAMPLE 10%": "SAMPLE",
    "SELECT AVG(load) FROM data AS d(load)": "got data AS d(load); leave out what follows its name",
    "SELECT AVG(load) FROM data, areas": "ON or USING",
    "SELECT AVG(load) FROM data JOIN area USING (region)": 'Did you mean "areas"?',
    "SELECT AVG(load) FROM data JOIN areas ON TRUE": "equations",
    "SELECT AVG(load) FROM data JOIN areas": "ON or USING",
    "SELECT AVG(load) FROM data CROSS JOIN areas": "CROSS JOIN",
    "SELECT AVG(load) FROM data RIGHT JOIN areas USING (region)": "RIGHT JOIN",
    "SELECT AVG(load) FROM data SEMI JOIN areas USING (region)": "SEMI JOIN",
    "SELECT AVG(load) FROM data JOIN areas ON data.load = areas.region": "the secret in",
    "SELECT AVG(load) FROM data JOIN areas ON data.region = data.age": "ON data.column = areas.column",
    "SELECT AVG(load) FROM data JOIN areas USING (region) JOIN areas USING (region)": '"areas" twice',
    "SELECT region, AVG(load) FROM data JOIN areas a ON data.region = a.region GROUP BY "
    "region": "in 2 tables",
    # names
    "SELECT AVG(laod) FROM data": 'Did you mean "load"?',
    "SELECT AVG(d.load) FROM data": 'a table of this query, got "d"',
    "SELECT AVG(a.b.load) FROM data": "table.column",
    # what is published
    "SELECT * FROM data": "an aggregate of the secret",
    "SELECT home, load FROM data": "an aggregate of the secret",
    "SELECT *, AVG(load) FROM data": "the names of columns",
    "SELECT home, AVG(load) FROM data": "columns of GROUP BY",
    "SELECT load, AVG(load) FROM data GROUP BY region": "columns of GROUP BY",
    "SELECT region, AVG(load) FROM data GROUP BY 3": "a position from 1 to 2",
    "SELECT region, m FROM (SELECT region, AVG(load) AS m FROM data GROUP BY 3)": "a position from 1 to 2",
    "SELECT region, m FROM (SELECT region, AVG(load) AS m FROM data GROUP BY 1.5)": "a position from 1 to 2",
    "SELECT *, AVG(load) FROM data GROUP BY 1": "the names of columns",
    "SELECT load, COUNT(*) FROM data GROUP BY load": "the secret in GROUP BY",
    "SELECT region, AVG(load) FROM data GROUP BY region WITH ROLLUP": "standard form",
    "SELECT AVG(load) FROM data GROUP BY ROLLUP (age >= 65)": "put comparisons in brackets",
    "SELECT AVG(load) FROM data GROUP BY 1 + 1": "a key made of columns",
    "SELECT AVG(load) FROM data GROUP BY CUBE (age+1, age+2, age+3, age+4, age+5, age+6, "
    "age+7, age+8, age+9, age+10, age+11, age+12, age+13)": "4,096",
    "SELECT AVG(load) FROM data GROUP BY CUBE (age, region, home), CUBE (age, region, home), "
    "CUBE (age, region, home), CUBE (age, region, home), CUBE (age, region, home)": "4,096",
    # aggregates
    "SELECT MAX(load) FROM data": "MAX is not a sum",
    "SELECT MEDIAN(load) FROM data": "not a sum",
    "SELECT AVG(load) OVER () FROM data": "no window function",
    "SELECT AVG(DISTINCT load) FROM data": "leave out DISTINCT",
    "SELECT COUNT(DISTINCT load) FROM data": "of public columns",
    "SELECT COUNT(DISTINCT region) FROM data WHERE load > 3": "of public columns",
    "SELECT COUNT(NULLIF(load, 3)) FROM data": "depend on the secret",
    "SELECT COUNT() FROM data": "COUNT(*)",
    "SELECT COUNT(region, age) FROM data": "one expression",
    "SELECT COUNT(CASE WHEN load > 3 THEN 1 ELSE 0 END) FROM data": "without ELSE",
    "SELECT COUNT(CASE WHEN solar THEN age END) FROM data": "THEN 1 END",
    "SELECT AVG(POWER(load, 0.5)) FROM data": "a whole power",
    "SELECT AVG(POWER(load, age)) FROM data": "a whole power",
    "SELECT AVG(load) FROM data WHERE load > 3": "COUNT under a condition",
    "SELECT AVG(load) FILTER (WHERE load > 3) FROM data": "COUNT under a condition",
    "SELECT SUM(CASE WHEN load > 3 THEN load ELSE 5 END) FROM data": "ELSE 0",
    "SELECT AVG(CASE WHEN solar THEN load ELSE 0 END) FROM data": "move public conditions",
    "SELECT AVG(CASE WHEN solar AND load > 3 THEN 1 ELSE 0 END) FROM data": "move public conditions",
    # conditions on the secret
    "SELECT COUNT(*) FROM data WHERE load > 3 OR solar GROUP BY region": "compared with numbers",
    "SELECT COUNT(*) FROM data WHERE load > age": "compared with numbers",
    "SELECT COUNT(*) FROM data WHERE load IS NULL": "compared with numbers",
    # expressions
    "SELECT AVG(load) FROM data WHERE RANDOM() < 0.5": "deterministic functions only, got RAND",
    "SELECT AVG(load) FROM data WHERE since < NOW()": "deterministic functions only",
    "SELECT AVG(load) FROM data WHERE since < CURRENT_DATE": "deterministic functions only",
    "SELECT UUID(), AVG(load) FROM data GROUP BY 1": "deterministic functions only",
    "SELECT AVG(load) FROM data WHERE GETENV('HOME') = 'x'": "deterministic functions only",
    "SELECT AVG(load) FROM data WHERE pg_read_file('x') = 'x'": "says is deterministic",
    "SELECT AVG(load) FROM data WHERE age IN (SELECT 1)": "over data or one declared table",
    "SELECT AVG(load) FROM data WHERE age = (SELECT 1)": "over data or one declared table",
    "SELECT AVG(load) FROM data WHERE EXISTS (SELECT 1)": "over data or one declared table",
    "SELECT AVG(load) FROM data WHERE age > AVG(age)": "no aggregate inside",
    "SELECT AVG(load) FROM data WHERE ROW_NUMBER() OVER () > 1": "no window function",
    "SELECT AVG(load) FROM data WHERE home LIKE 'a\\%'": "without backslash",
    "SELECT AVG(load) FROM data WHERE age < 1e999": "a finite number",
    "SELECT AVG(load) FROM data WHERE age < 0E": "a finite number",
    "SELECT AVG(load) FROM data WHERE age = ?": "plain expression",
    "SELECT AVG(load) FROM data WHERE age IN areas": "a column of the table",
}
REFUSED_OTHERS = [
    ("ill", "SELECT COUNT(*) FROM data WHERE ill = 'yes'", "the boolean secret itself"),
    ("ill", "SELECT COUNT(*) FROM data WHERE ill OR solar GROUP BY region", "the boolean secret itself"),
    ("ill", "SELECT COUNT(*) FROM data GROUP BY NOT ill", "GROUP BY the secret, or a function of it alone"),
    (
        "ill",
        "SELECT ill, COUNT(*) FROM data WHERE ill GROUP BY ill",
        "COUNT(*) in a query grouped by the secret",
    ),
    (
        "ill",
        "SELECT ill, COUNT(DISTINCT home) FROM data GROUP BY ill",
        "COUNT(*) in a query grouped by the secret",
    ),
    ("ill", "SELECT ill, AVG(ill::INT) FROM data GROUP BY ill", "COUNT(*) in a query grouped by the secret"),
    ("blood", "SELECT AVG(blood) FROM data", "a count of categories"),
    ("blood", "SELECT COUNT(*) FROM data WHERE blood LIKE 'A%'", "categories in quotes"),
    (
        "blood",
        "SELECT UPPER(blood), COUNT(*) FROM data GROUP BY 1",
        "GROUP BY the secret, or a function of it alone",
    ),
]


def refusal(sql: str, secret: str = "load") -> str:
    with pytest.raises(InvalidPlan) as caught:
        read(sql, secret)
    message = str(caught.value)
    assert message.startswith("expected "), message
    assert ", got " in message
    assert "\n" not in message
    assert len(message) < 500
    return message


@pytest.mark.slow
@pytest.mark.parametrize("sql", REFUSED, ids=lambda sql: sql[:60])
def test_the_rest_is_refused_with_its_reason(sql: str) -> None:
    assert REFUSED[sql] in refusal(sql)


@pytest.mark.parametrize(("secret", "sql", "reason"), REFUSED_OTHERS)
def test_so_it_is_for_boolean_and_text_secrets(secret: str, sql: str, reason: str) -> None:
    assert reason in refusal(sql, secret)


def test_a_threshold() -> None:
    (part,) = read("SELECT COUNT(*) FROM data WHERE load > 3").partitions
    assert (part.feature, part.parameter) == (Feature.THRESHOLD, 3.0)


def test_a_stack_that_is_too_short_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr("sightline.tables.sql.reader._partitions", exhausted)
    assert "nested at most" in refusal("SELECT AVG(load) FROM data")
    monkeypatch.setattr("sightline.tables.sql.reader.parse_condition", exhausted)
    with pytest.raises(InvalidPlan, match="nested at most"):
        read_condition("age > 3", secret="load", schema=Schema(columns=TABLE))


def test_a_megabyte_of_sql_is_refused_in_one_line() -> None:
    assert "1,000,0" in refusal("SELECT AVG(load) FROM data WHERE home = '" + "x" * 1_000_000 + "'")


class TestNames:
    COLUMNS = (
        Column("Kwh", ColumnKind.NUMBER),
        Column("kwh", ColumnKind.NUMBER),
        Column("home", ColumnKind.TEXT),
    )

    def test_an_exact_name_comes_before_another_case(self) -> None:
        query = read_release(
            "SELECT AVG(kwh) FROM data",
            name="",
            subject=Subject(record="HOME", secret="kwh", kind=SecretKind.NUMBER),
            schema=Schema(columns=self.COLUMNS),
        )
        assert [piece.feature for piece in query.partitions] == [Feature.VALUE]

    def test_a_name_that_fits_two_columns_is_refused(self) -> None:
        with pytest.raises(InvalidPlan, match='"KWH", which may be "Kwh" or "kwh"'):
            read_release(
                "SELECT AVG(KWH) FROM data",
                name="",
                subject=Subject(record="home", secret="kwh", kind=SecretKind.NUMBER),
                schema=Schema(columns=self.COLUMNS),
            )

    def test_the_secret_is_not_the_key(self) -> None:
        with pytest.raises(InvalidPlan, match="as both"):
            read_release(
                "",
                name="",
                subject=Subject(record="home", secret="Home", kind=SecretKind.CATEGORY),
                schema=Schema(columns=self.COLUMNS),
            )

    @pytest.mark.parametrize(
        ("secret", "kind"),
        [("home", SecretKind.NUMBER), ("Kwh", SecretKind.CATEGORY), ("home", SecretKind.BOOLEAN)],
    )
    def test_the_secret_holds_what_is_declared(self, secret: str, kind: SecretKind) -> None:
        other = "home" if secret == "Kwh" else "Kwh"
        meant = 'kind = "boolean"' if secret == "Kwh" else "declare categories = "
        with pytest.raises(InvalidPlan, match=meant):
            read_release(
                "SELECT COUNT(*) FROM data",
                name="",
                subject=Subject(record=other, secret=secret, kind=kind),
                schema=Schema(columns=self.COLUMNS),
            )

    def test_a_number_may_be_declared_boolean(self) -> None:
        query = read_release(
            "SELECT AVG(Kwh), COUNT(*) FILTER (WHERE Kwh = 1), COUNT_IF(Kwh <> 0) FROM data",
            name="",
            subject=Subject(record="home", secret="Kwh", kind=SecretKind.BOOLEAN),
            schema=Schema(columns=self.COLUMNS),
        )
        assert [(piece.statistic, piece.above) for piece in query.partitions] == [
            (Statistic.MEAN, True),
            (Statistic.SUM, True),
            (Statistic.SUM, True),
        ]


class TestConditions:
    def test_they_are_over_public_columns(self) -> None:
        assert read_condition("Home = 'h7' OR AGE > 3", secret="load", schema=Schema(columns=TABLE)) == (
            '("data"."home" = \'h7\' OR "data"."age" > 3)'
        )

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("load > 3", "the secret in"),
            ("", "an empty text"),
            ("home = 'a'; DROP TABLE data", "syntax error"),
            ("home = 'a' GROUP BY home", "syntax error"),
            ("RANDOM() > 0.5", "deterministic"),
            ("nobody = 1", "a column of the table"),
            ("NOT " * 5_000 + "solar", "nested at most"),
        ],
    )
    def test_others_are_refused(self, text: str, reason: str) -> None:
        with pytest.raises(InvalidPlan, match=reason):
            read_condition(text, secret="load", schema=Schema(columns=TABLE))
