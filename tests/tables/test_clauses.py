"""What stands in SELECT lists and in conditions on the secret: each number compared with the engine's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

from sightline.errors import InvalidPlan
from sightline.tables.collect import collect, count_table
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import Feature, Membership, Statistic
from sightline.tables.records import row_values, signature_totals
from sightline.tables.sql.reader import ReleaseQuery, read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from sightline.tables.verify import verify
from tests.tables.clause_cases import ACCEPTED, REFUSED, SUBJECTS, Accepted, feature_of, statements, write_csv


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("clauses")
    write_csv(folder)
    opened = open_source("people.parquet", base=folder)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for statement in statements():
            connection.execute(statement)
        yield connection


def read(engine: Engine, sql: str, subject: Subject) -> ReleaseQuery:
    return read_release(sql, name="the release", subject=subject, schema=Schema.of(engine))


def audited(engine: Engine, query: ReleaseQuery, subject: Subject) -> tuple[Membership, list[float]]:
    """The membership, compared with the engine's groups, and the exact number of every cell."""
    membership = collect(engine, [query], subject)
    verify(engine, [query], membership)
    numbers = []
    for p, part in enumerate(membership.partitions):
        place = membership.positions(p)
        weights = membership.weights_in(p)
        if subject.kind is SecretKind.CATEGORY:
            totals = signature_totals(engine, count_table(engine, [query], subject))
            chosen = [subject.categories.index(name) for name in part.categories]
            each = totals[:, chosen].sum(axis=1)
            each = each if part.above else membership.counts - each
            signature = np.arange(len(each))
        else:
            found = row_values(engine, count_table(engine, [query], subject))
            each, signature = feature_of(part, found.secret), found.signature
        for c in range(membership.starts[p], membership.starts[p + 1]):
            inside = place[signature] == c
            total = float((each * weights[signature])[inside].sum())
            mean = part.statistic is Statistic.MEAN
            numbers.append(total / membership.cells[c].rows if mean else total)
    return membership, numbers


def without_nothing(values: list[float | None]) -> list[float]:
    """Numbers in order; a group without rows publishes nothing or nought."""
    return sorted(float(value) for value in values if value is not None and float(value) != 0)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.sql)
def test_the_audited_numbers_are_those_of_the_engine(
    case: Accepted, engine: Engine, database: duckdb.DuckDBPyConnection
) -> None:
    query = read(engine, case.sql, SUBJECTS[case.secret])
    _, numbers = audited(engine, query, SUBJECTS[case.secret])
    answer = database.execute(case.alone or case.sql)
    names = [str(column[0]) for column in answer.description or []]
    published = [place for place, name in enumerate(names) if name not in ("region", "old", "band")]
    own = [row[place] for row in answer.fetchall() for place in published]
    assert without_nothing(numbers) == pytest.approx(without_nothing(own), rel=1e-12)
    assert any(numbers)
    computed = query.partitions[0].computed
    assert computed.steps == case.steps
    assert computed.enlarges == case.enlarges
    database.execute(case.sql).fetchall()  # it is SQL


@pytest.mark.parametrize(("secret", "sql", "message"), REFUSED, ids=lambda text: str(text)[:60])
def test_what_no_theory_covers_is_refused_with_what_could_be_published(
    secret: str, sql: str, message: str, engine: Engine
) -> None:
    with pytest.raises(InvalidPlan) as refused:
        read(engine, sql, SUBJECTS[secret])
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_public_aggregates_stand_beside_the_secret_ones(engine: Engine) -> None:
    sql = (
        "SELECT region, AVG(age), MIN(age), SUM(hours) / COUNT(*) AS h, AVG(income) FROM data GROUP BY region"
    )
    query = read(engine, sql, SUBJECTS["income"])
    assert query.public_counts == ("AVG(age)", "MIN(age)", "h")
    assert [part.label for part in query.partitions] == ["AVG(income) by region"]


def test_a_histogram_may_be_scaled_but_not_divided_by_another_number(engine: Engine) -> None:
    sql = "SELECT blood, ROUND(COUNT(*) / 50.0, 2) FROM data GROUP BY blood"
    query = read(engine, sql, SUBJECTS["blood"])
    assert query.partitions[0].computed.steps == ("/ 50.0", "ROUND")
    with pytest.raises(InvalidPlan, match="in a query grouped by the secret"):
        read(engine, "SELECT blood, SUM(age) FROM data GROUP BY blood", SUBJECTS["blood"])
    with pytest.raises(InvalidPlan, match="in a query grouped by the secret"):
        read(engine, "SELECT blood, COUNT(*) / SUM(age) FROM data GROUP BY blood", SUBJECTS["blood"])


def test_a_group_without_one_of_the_bands_tells_that_nobody_is_in_it(tmp_path: Path) -> None:
    lines = [
        f"{who},{town},{x}" for who, (town, x) in enumerate([("n", 1), ("n", 7), ("s", 8), ("s", 9)] * 5)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["who,town,x", *lines]) + "\n")
    opened = open_source("t.csv", base=tmp_path)
    subject = Subject(record="who", secret="x", kind=SecretKind.NUMBER, bounds=(0.0, 9.0))
    sql = "SELECT town, CASE WHEN x > 5 THEN 'rich' ELSE 'poor' END AS b, COUNT(*) FROM data GROUP BY town, b"
    query = read(opened, sql, subject)
    assert [part.label for part in query.partitions] == ["COUNT(*) by town = rich", "COUNT(*) by town = poor"]
    membership = collect(opened, [query], subject)
    (rows,) = verify(opened, [query], membership)
    assert rows.telling_groups == 1
    opened.close()


def test_clipping_wider_than_the_bounds_is_the_value(engine: Engine) -> None:
    wide = read(engine, "SELECT SUM(LEAST(GREATEST(income, -5), 1000)) FROM data", SUBJECTS["income"])
    narrow = read(engine, "SELECT SUM(LEAST(income, 999)) FROM data", SUBJECTS["income"])
    assert [part.feature for part in (*wide.partitions, *narrow.partitions)] == [
        Feature.VALUE,
        Feature.CLIPPED,
    ]


def test_a_query_that_clips_to_the_bounds_publishes_nothing_outside_of_them(engine: Engine) -> None:
    subject = Subject(record="who", secret="income", kind=SecretKind.NUMBER, bounds=(100.0, 400.0))
    for sql, outside in {
        "SELECT SUM(LEAST(GREATEST(income, 100), 400)) FROM data": False,
        "SELECT SUM(LEAST(GREATEST(income, 150), 300)) FROM data": False,
        "SELECT SUM(LEAST(income, 400)) FROM data": True,
        "SELECT SUM(income) FROM data": True,
    }.items():
        query = read(engine, sql, subject)
        membership = collect(engine, [query], subject)
        (rows,) = verify(engine, [query], membership)
        assert (rows.clipped > 0) == outside, sql


def test_a_mean_that_fills_gaps_divides_by_rows_that_are_not_audited(engine: Engine) -> None:
    query = read(engine, "SELECT AVG(COALESCE(income, 0)) FROM data", SUBJECTS["income"])
    membership = collect(engine, [query], SUBJECTS["income"])
    assert verify(engine, [query], membership)[0].missing == 2
    assert verify(engine, [query], membership)[0].dropped == 2


def test_weights_split_signatures_and_rows_of_weight_nought_are_in_no_sum(engine: Engine) -> None:
    query = read(engine, "SELECT SUM(income * hours) FROM data", SUBJECTS["income"])
    membership = collect(engine, [query], SUBJECTS["income"])
    weights = membership.weights_in(0)
    inside = membership.signatures[:, 0] >= 0
    assert sorted(weights[inside].tolist()) == [0.25, 1.5, 2.0, 40.0]
    assert membership.largest_weights.tolist() == [40.0]
    assert membership.cells[0].rows == membership.counts[inside].sum() < membership.rows
    assert membership.weight_sums[0] == pytest.approx(weights[inside] @ membership.counts[inside])


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("who,w,x\na,1,5\nb,inf,6\nc,2,7\n")
    opened = open_source("t.csv", base=tmp_path)
    subject = Subject(record="who", secret="x", kind=SecretKind.NUMBER, bounds=(0.0, 9.0))
    query = read(opened, "SELECT SUM(x * w) FROM data", subject)
    with pytest.raises(InvalidPlan, match="finite weights of its rows"):
        collect(opened, [query], subject)
    opened.close()


POSTGRES = [
    case
    for case in ACCEPTED
    if any(
        text in case.sql
        for text in ("hours) /", "LEAST(GREATEST", "BETWEEN 100 AND 500)", "NOT IN", "CAST(ROUND")
    )
]


@pytest.mark.slow
def test_postgres_reads_them_alike(postgres_url: str, engine: Engine) -> None:
    import psycopg

    with psycopg.connect(postgres_url) as connection, connection.cursor() as cursor:
        for statement in statements():
            cursor.execute(
                statement.replace("TABLE data", "TABLE people").replace("INTO data", "INTO people")
            )
    other = open_source(f"{postgres_url}?table=public.people", base=Path())
    assert len(POSTGRES) >= 5
    for case in POSTGRES:
        subject = SUBJECTS[case.secret]
        (one, numbers), (two, expected) = (
            audited(each, read(each, case.sql, subject), subject) for each in (other, engine)
        )
        assert numbers == pytest.approx(expected, rel=1e-12), case.sql
        assert np.array_equal(one.signatures, two.signatures)
    # The weight is the engine's own: decades on Postgres, fractions on DuckDB.
    (one, decades), (two, fractions) = (
        audited(
            each,
            read(each, "SELECT SUM(age / 10 * income) FROM data", SUBJECTS["income"]),
            SUBJECTS["income"],
        )
        for each in (other, engine)
    )
    assert one.weights
    assert all(np.array_equal(own, np.floor(own)) for own in one.weights.values())
    assert decades[0] < fractions[0]
    # Postgres writes IS NOT TRUE in its own way.
    no = read(other, "SELECT COUNT(*) FROM data WHERE ill IS NOT TRUE AND ill IS NOT NULL", SUBJECTS["ill"])
    assert [part.above for part in no.partitions] == [False]
    other.close()


def test_numbers_of_one_item_are_not_taken_for_each_other(engine: Engine) -> None:
    """Texts that agree in their first hundred characters are two numbers, each with its own noise."""
    many = " OR ".join(f"age = {age}" for age in range(20, 60))
    sql = (
        f"SELECT AVG(income) FILTER (WHERE {many}) - AVG(income) FILTER (WHERE {many} OR age = 70) FROM data"
    )
    query = read(engine, sql, SUBJECTS["income"])
    assert len(query.partitions) == 2
    assert all(part.computed.shows for part in query.partitions)
    twice = read(engine, "SELECT region, SUM(income), SUM(SUM(income)) OVER () FROM data GROUP BY region",
                 SUBJECTS["income"])  # fmt: skip
    (part,) = twice.partitions  # the total is computed with the noisy answers that are published
    assert part.computed.shows
