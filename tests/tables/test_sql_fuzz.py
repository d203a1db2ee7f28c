"""Whatever text is in a plan, the reader answers or refuses with ``InvalidPlan``, and nothing else."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sightline.errors import InvalidPlan
from sightline.tables.sql.reader import ReleaseQuery, read_condition
from sightline.tables.subject import Schema
from tests.tables.test_release_reader import ACCEPTED, REFUSED, SECRETS, TABLE, read

pytestmark = pytest.mark.slow

VALID = [(secret, sql) for secret, listed in ACCEPTED.items() for sql in listed]
WORDS = """
 SELECT FROM data WHERE GROUP BY AND OR NOT NULL CASE WHEN THEN ELSE END IN IS LIKE BETWEEN AS ALL
JOIN LEFT USING ON AVG( SUM( COUNT( COUNT(*) POWER( FILTER ROLLUP CUBE GROUPING SETS OVER DISTINCT
HAVING LIMIT WITH UNION DROP COPY PRAGMA load ill blood region age solar since home areas 1 0 -2.5
1e999 'A' 'x TRUE /* -- */ $1 :a é 日 LAMBDA -> EXCLUDE ::DATE CAST(age EXTRACT(YEAR RANDOM() ORDER
TABLE
"""
PIECES = [*"()*,;.'\"`+-/%<>=|&^~!?:@#$[]{}\\ \n\t\x00\u202e", *WORDS.split()]


def answers_or_refuses(sql: str, secret: str = "load") -> None:
    try:
        query = read(sql, secret)
    except InvalidPlan as refused:
        message = str(refused)
        assert message.startswith("expected ")
        assert "\n" not in message
        assert len(message) < 1_000
    else:
        assert isinstance(query, ReleaseQuery)


@settings(max_examples=250, deadline=None)
@given(st.text(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=30).map(" ".join))
def test_random_text(sql: str) -> None:
    answers_or_refuses(sql)
    answers_or_refuses("SELECT " + sql + " FROM data", "ill")
    answers_or_refuses("SELECT region, AVG(load) FROM data WHERE " + sql)
    answers_or_refuses("SELECT region, COUNT(*) FROM data GROUP BY " + sql, "blood")


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(VALID), st.data())
def test_valid_queries_with_a_few_pieces_changed(case: tuple[str, str], data: st.DataObject) -> None:
    secret, sql = case
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(sql)))
        length = data.draw(st.integers(0, 6))
        sql = sql[:start] + data.draw(st.sampled_from(["", *PIECES])) + sql[start + length :]
    answers_or_refuses(sql, secret)


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.sampled_from(["AND", "OR", "+", "*", "/", "=", "<", "||", "IS NOT DISTINCT FROM"])
    return st.one_of(
        st.tuples(inner, binary, inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda one: f"NOT ({one})"),
        st.tuples(inner, inner).map(lambda parts: f"CASE WHEN {parts[0]} THEN {parts[1]} ELSE 0 END"),
        st.tuples(
            st.sampled_from(["ABS", "UPPER", "COALESCE", "CAST_IT", "AVG", "COUNT_IF", "POWER"]), inner
        ).map(lambda parts: f"{parts[0]}({parts[1]})"),
        inner.map(lambda one: f"CAST({one} AS DOUBLE)"),
        inner.map(lambda one: f"{one} IN (1, {one})"),
    )


expressions = st.recursive(
    st.sampled_from(["load", "ill", "blood", "age", "solar", "home", "1", "'x'", "NULL"]), nested
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(expressions, expressions, st.sampled_from(list(SECRETS)))
def test_nested_expressions(one: str, other: str, secret: str) -> None:
    answers_or_refuses(f"SELECT {other}, SUM({one}) FROM data WHERE {other} GROUP BY {other}", secret)
    answers_or_refuses(f"SELECT COUNT(*) FILTER (WHERE {one}) FROM data GROUP BY ROLLUP ({other})", secret)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40) | expressions)
@example("0E")
@example("\ud800")
@example("a" * 200_000)
@example("((((((((((" * 1_000)
def test_conditions(text: str) -> None:
    with suppress(InvalidPlan):
        assert isinstance(read_condition(text, secret="load", schema=Schema(columns=TABLE)), str)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "opening", ["(", "NOT ", "- ", "CASE WHEN ", "ABS(", "[", "{'a':", "SELECT ", "1 + ", "a.", "/*", "'"]
)
@pytest.mark.parametrize("depth", [100, 149, 400, 3_000, 20_000])
def test_deep_nesting_never_exhausts_the_stack(opening: str, depth: int) -> None:
    answers_or_refuses(f"SELECT AVG(load) FROM data WHERE {opening * depth}1"[:99_000])


def test_every_refused_query_stays_refused_for_every_secret() -> None:
    for sql in REFUSED:
        for secret in SECRETS:
            answers_or_refuses(sql, secret)
