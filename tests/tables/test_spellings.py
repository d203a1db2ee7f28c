"""Spellings whose meaning depends on precedence, NULL, types or quotes: the cells are the engine's own."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sightline.errors import InvalidPlan
from sightline.tables.collect import collect
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Engine
from sightline.tables.sql.reader import ReleaseQuery, read_release
from sightline.tables.subject import Schema, SecretKind, Subject

SUBJECT = Subject(record="id", secret="x", kind=SecretKind.NUMBER, bounds=(0, 10))
CONDITIONS = """
a BETWEEN SYMMETRIC 3 AND 1
-a ^ 2 = 4
-a ^ 2 = -4
2 ^ a ^ 2 > 10
2 ^ a ^ 2 = 16
- a % 3 = -1
a % -3 = 1
a - 1 - 1 = 1
8 / a / 2 = 2
8 / 3 * a = 2
a * 3 / 2 = 4
a / 2 * 2 = a
NOT a = 1
NOT a = 1 AND b
NOT a = 1 IS TRUE
NOT a IS NULL
a = 1 IS NULL
a = 1 = b
a > 1 = b
b = a > 1
b = (a > 1) IS TRUE
a IN (1, 2) = b
a IN (1, 2) IS NOT TRUE
a BETWEEN 1 AND 2 = b
a BETWEEN 1 AND 2 AND b
a BETWEEN 1 AND a + 1 OR b
a BETWEEN 1 AND 2 OR b AND a = 4
g || 'q' = 'nq'
g = 'n' || ''
'n' || g LIKE 'nn%'
g LIKE 'n' || '%'
g NOT LIKE 'n%'
g NOT LIKE 'n%' = b
NOT g LIKE 'n%'
g IS DISTINCT FROM 'n'
g IS NOT DISTINCT FROM 'n' AND b
NOT g IS DISTINCT FROM 'n' OR b
a IS DISTINCT FROM 1 = b
b IS TRUE OR a = 2
b IS NOT TRUE
b IS NOT FALSE AND a > 1
b IS UNKNOWN
(a > 1) IS UNKNOWN OR a = 3
a ISNULL OR a > 1
a NOTNULL AND b
b AND NOT b OR a = 1
b OR NOT b AND a = 1
NOT b OR b
NOT NOT b
NOT (NOT b) AND a < 3
- - a = 1
+a = 1
-(-a) = 1
a = - 1 + 2
a <> 1
a != 1
NOT a <> 1
a < 3 AND a > 1 OR g = 'n' AND b
a::DOUBLE PRECISION / 2 = 0.5
CAST(a AS DOUBLE PRECISION) / 2 = 0.5
-a::DOUBLE PRECISION = -1
CAST(a AS VARCHAR) = '1'
a::TEXT || 'x' = '1x'
CAST(g AS VARCHAR(1)) = 'n'
CAST(b AS INT) = 1
b::INT + 1 = 2
LEFT(g, 1) = 'n'
LEFT(g, -1) = ''
RIGHT(g, 1) = 'n'
SUBSTRING(g, 0, 2) = 'n'
SUBSTRING(g, 1) = 'n'
SUBSTRING(g FROM 1 FOR 1) = 'n'
SUBSTRING(g, -1) = 'n'
SUBSTR(g, 1, 1) = 'n'
TRIM(g) = 'n'
TRIM(BOTH 'n' FROM g) = ''
TRIM(LEADING 'n' FROM g) = ''
LTRIM(g) = 'n'
RTRIM(g, 'n') = ''
LENGTH(g) = 1
CHAR_LENGTH(g) = 1
UPPER(g) = 'N'
CONCAT(g, NULL) = 'n'
CONCAT(g, NULL, a) = 'n1'
g || NULL IS NULL
COALESCE(g, 'n') = 'n'
IFNULL(g, 'n') = 'n'
NULLIF(g, 'n') IS NULL
GREATEST(a, NULL) > 2
GREATEST(a, 2) = 2
LEAST(a, NULL) > 2
LEAST(a, 2, 3) = 2
a IN (1, NULL)
a NOT IN (1, NULL)
a NOT IN (1, 2)
NOT a IN (1, 2)
a IN (1) OR b
g IN ('n', 'N')
MOD(a, 2) = 1
MOD(-a, 3) = -1
ABS(-a) = 1
SIGN(a - 2) = 1
FLOOR(-a / 2.0) = -1
FLOOR(a / 2) = 1
CEIL(a / 2.0) = 1
CEILING(a / 2.0) = 1
POWER(a, 2) = 4
POW(a, 2) = 4
a * a = 4
a ** 2 = 4
EXTRACT(YEAR FROM t) = 2016
EXTRACT(MONTH FROM t) > 1
EXTRACT(WEEK FROM t) = 53
EXTRACT(QUARTER FROM t) = 1
EXTRACT(DAY FROM t) = 1
YEAR(t) = 2016
MONTH(t) = 1
DAY(t) = 1
QUARTER(t) = 1
DATE_TRUNC('month', t) = DATE '2016-01-01'
DATE_TRUNC('week', t) = DATE '2015-12-28'
DATE_TRUNC('quarter', t) = TIMESTAMP '2016-01-01'
t = '2016-01-01'
t > DATE '2016-01-15'
t >= TIMESTAMP '2016-01-15 00:00:00'
t < '2016-02-01' AND b
CAST(t AS VARCHAR) = '2016-01-01'
CAST('2016-01-01' AS DATE) = t
CASE a WHEN 1 THEN b ELSE NOT b END
CASE WHEN a > 1 THEN 'x' END = 'x'
CASE WHEN a > 1 THEN 1 WHEN b THEN 2 ELSE 3 END = 2
CASE WHEN b THEN 1 END IS NULL
(a, g) = (1, 'n')
(a, g) IN ((1, 'n'), (2, 's'))
(a, g) < (2, 'n')
a = 1.0
a = 1e0
a = '1'
a = .5 + .5
a > 1.
g = 'it''s'
g = 'n' AND 1 = 1
TRUE
NULL IS NULL AND b
1 < a AND a < 3
1 = a
'n' = g
"g" = 'n'
data.g = 'n'
DATA.G = 'n'
data."g" = 'n' /* OR b */
g = 'n' -- OR b
g ILIKE 'N'
g SIMILAR TO 'n'
b = TRUE
b <> FALSE
b = 1
b IN (TRUE)
b AND g = 'n' = TRUE
g < 'o'
g > 'N'
g BETWEEN 'm' AND 'o'
a BETWEEN 2 AND 1
NOT a BETWEEN 2 AND 3
a NOT BETWEEN 2 AND 3 AND b
IF(b, a, 0) = 1
a == 1
a <=> 1
a DIV 2 = 1
b XOR a = 1
NOT b = b
b IS NOT DISTINCT FROM NULL
- 1 < a - 2
a-1=0
a--1=0
a - -1 = 2
a*-1 = -1
2 - a * 2 + 1 = 1
a % 3 * 2 = 2
a * 2 % 3 = 2
a + 2 % 3 = 3
a || 'x' = '1x'
a + 1 || 'x' = '2x'
1 || g = '1n'
a = 1 OR a = 2 AND b OR NOT b AND g <> 's'
x IS NOT NULL AND a = 1
COALESCE(b, FALSE)
b
""".strip().splitlines()
KEYS = """
-a ^ 2
2 ^ a ^ 2
a = 1 = b
NOT b
b IS TRUE
b IS NOT TRUE
a / 2
a / 2.0
a % 2
g || a
a || g
t
DATE_TRUNC('month', t)
EXTRACT(WEEK FROM t)
f
f + 0.5
f * 3
f = f
-f
ABS(f)
FLOOR(f)
u
LOWER(u)
UPPER(u)
TRIM(u)
LENGTH(u)
u LIKE 'a%'
SUBSTRING(u, 1, 1)
LEFT(u, 1)
n
n / 3
n = 1
CAST(n AS VARCHAR)
CAST(f AS VARCHAR)
CAST(t AS VARCHAR)
CASE WHEN b THEN a END
GREATEST(a, NULL)
NULLIF(a, 1)
(a)
b, a
CAST(b AS VARCHAR)
""".strip().splitlines()
VALUES = {
    "g": ["'n'", "'s'", "'N'", "'it''s'", "''", "NULL"],
    "a": ["0", "1", "2", "3", "4", "-1", "NULL"],
    "b": ["TRUE", "FALSE", "NULL"],
    "t": ["DATE '2016-01-01'", "DATE '2016-01-31'", "DATE '2017-03-01'", "DATE '2015-12-31'", "NULL"],
    "f": ["0.0", "-0.0", "1.5", "2.25", "'NaN'", "'Infinity'", "NULL"],
    "u": ["'a'", "'a '", "'A'", "'é'", "'e\u0301'", "'ß'", "'ss'", "'İ'", "'i'", "NULL"],
    "n": ["1", "1.0", "1.10", "2.000000000000001", "NULL"],
}


def table(double: str, decimal: str) -> str:
    """SQL that selects 60 rows of odd values."""
    draw = random.Random(3)
    kinds = {
        "g": "VARCHAR",
        "a": "INTEGER",
        "b": "BOOLEAN",
        "t": "DATE",
        "f": double,
        "u": "VARCHAR",
        "n": decimal,
    }
    lines = []
    for row in range(60):
        cells = [f"CAST({draw.choice(values)} AS {kinds[name]})" for name, values in VALUES.items()]
        lines.append(f"({row}, {', '.join(cells)}, CAST({draw.random() * 10:.2f} AS {double}))")
    return f"SELECT * FROM (VALUES {', '.join(lines)}) AS v(id, {', '.join(VALUES)}, x)"


def compared(engine: Engine, run: Callable[[str], list[Any]]) -> int:
    """Compare what both the engine runs and the reader accepts; how many spellings that are."""
    chosen: list[tuple[str, ReleaseQuery, Counter[int]]] = []
    schema = Schema.of(engine)
    for text, release, raw in (
        *((one, f"SELECT SUM(x) FROM data WHERE {one}", f"WHERE {one}") for one in CONDITIONS),
        *((one, f"SELECT {one}, SUM(x) FROM data GROUP BY {one}", f"GROUP BY {one}") for one in KEYS),
    ):
        try:
            sizes = Counter(row[0] for row in run(f"SELECT COUNT(x) FROM data {raw}") if row[0])
        except Exception:  # not this engine's SQL
            continue
        try:
            query = read_release(release, name=text, subject=SUBJECT, schema=schema)
        except InvalidPlan:
            continue
        chosen.append((text, query, sizes))
    membership = collect(engine, [query for _, query, _ in chosen], SUBJECT)
    found: list[Counter[int]] = [Counter() for _ in chosen]
    for cell in membership.cells:
        found[membership.partitions[cell.partition].query][cell.rows] += 1
    for (text, _, sizes), ours in zip(chosen, found, strict=True):
        assert ours == sizes, text
    return len(chosen)


@pytest.mark.slow
def test_on_duckdb(tmp_path: Path) -> None:
    created = f"CREATE TABLE data AS {table('DOUBLE', 'DECIMAL(20, 15)')}"
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute(created)
    engine = open_source("t.duckdb::data", base=tmp_path)
    with duckdb.connect() as connection:
        connection.execute(created)
        assert compared(engine, lambda sql: connection.execute(sql).fetchall()) > 200
    engine.close()


@pytest.mark.slow
def test_on_postgres(postgres_url: str) -> None:
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA spelt")
        connection.execute("SET search_path TO spelt")
        connection.execute(f"CREATE TABLE data AS {table('DOUBLE PRECISION', 'NUMERIC(20, 15)')}")
        engine = open_source(f"{postgres_url}?table=spelt.data", base=Path())
        assert compared(engine, lambda sql: connection.execute(sql).fetchall()) > 190
        engine.close()
        connection.execute("DROP SCHEMA spelt CASCADE")
