"""A secret that is an expression of columns: read on every engine, and never in parts."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import sightline as sl
from sightline.auditing import session
from sightline.errors import InvalidPlan
from sightline.tables.bounded_rows import keep_rows, total_rows
from sightline.tables.collect import collect
from sightline.tables.declared import check_public
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Column, ColumnKind, Engine
from sightline.tables.membership import Feature
from sightline.tables.records import signature_totals
from sightline.tables.secret_column import with_secret_column
from sightline.tables.sql.reader import read_condition, read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from sightline.tables.suppressed import read_suppression
from sightline.tables.verify import verify
from tests.tables.table_cases import awkward_rows, in_dialect

SUBJECT = Subject(record="home", secret="load * age", kind=SecretKind.NUMBER, bounds=(0.0, 1e6))


def products() -> dict[tuple[str, object], float]:
    """The sum of load times age for every home and region, in plain Python, where it is finite."""
    found: Counter[tuple[str, object]] = Counter()
    for row in awkward_rows():
        load, home = row["load"], row["home"]
        if load is not None and np.isfinite(load) and home is not None:
            found[home, row["region"]] += load * row["age"]
    return found


SPELLINGS = [
    "SELECT region, SUM(age * load) FROM data GROUP BY region",
    "SELECT d.region, SUM((d.load) * d.age) FROM data AS d GROUP BY d.region",
    "WITH x AS (SELECT region, age AS a, load AS l FROM data) SELECT region, SUM(a * l) FROM x GROUP BY 1",
    "WITH x AS (SELECT region, load * age AS r FROM data) SELECT region, SUM(r) FROM x GROUP BY region",
    "WITH x AS (SELECT * FROM data) SELECT region, SUM(age * load) FROM x GROUP BY region",
]


def test_every_spelling_has_the_same_cells_and_the_engine_agrees_in_every_row(engine: Engine) -> None:
    subject = with_secret_column(engine, SUBJECT)
    schema = Schema.of(engine, ["areas"], expression=subject.expression)
    about = {"subject": subject, "schema": schema}
    queries = [
        read_release(in_dialect(sql, engine.dialect), name=f"r{n}", **about)
        for n, sql in enumerate(SPELLINGS)
    ]
    weighted = read_release("SELECT SUM(age * region * load) FROM data", name="w", **about)
    clipped = read_release("SELECT AVG(LEAST(age * load, 100)) FROM data", name="c", **about)
    queries += [weighted, clipped]
    assert {part.feature for query in queries[:-1] for part in query.partitions} == {Feature.VALUE}
    assert clipped.partitions[0].feature is Feature.CLIPPED
    membership = collect(engine, queries, subject)
    verify(engine, queries, subject, membership)
    cells: dict[int, Counter[object]] = {}
    for cell in membership.cells[:-2]:
        cells.setdefault(cell.partition, Counter())[cell.key] = cell.rows
    assert len(cells) == len(SPELLINGS)
    assert all(one == cells[0] for one in cells.values())
    totals = signature_totals(engine, queries, replace(subject, bounds=None))
    assert totals.sum() == pytest.approx(sum(products().values()))
    regions = Counter[object]()
    for (_, region), value in products().items():
        regions["NULL" if region is None else str(region)] += value
    place = membership.signatures[:, 0]
    found = {
        cell.key[0]: totals[place == number].sum()
        for number, cell in enumerate(membership.cells[: len(regions)])
    }
    assert found == pytest.approx(dict(regions))
    engine.check_unchanged()


def test_kept_rows_have_the_product_too(engine: Engine) -> None:
    subject = with_secret_column(engine, SUBJECT)
    keep_rows(engine, subject, rows=1, order=["since DESC", "solar"])
    assert subject.secret in [column.name for column in engine.columns()]
    with pytest.raises(InvalidPlan, match='public columns, got the secret "age"'):
        keep_rows(engine, subject, rows=1, order=["age"])


def plan_of(secret: str, releases: list[str], **data: Any) -> dict[str, Any]:
    """A plan whose releases add up the secret."""
    return {
        "data": {
            "source": "products.parquet",
            "record": "home",
            "secret": secret,
            "bounds": [0, 9000],
            "max_rows_per_record": 60,
            "values": "independent",
            "bandwidth": 100.0,
            **data,
        },
        "privacy": {"epsilon": 8.0, "delta": 1e-6},
        "limits": {"remaining_uncertainty": "60%"},
        "attacker": {"knows": ["home = 'h3'"]},
        "release": [
            {"name": f"r{n}", "sql": sql.replace("SECRET", "age * load" if "*" in secret else secret)}
            for n, sql in enumerate(releases)
        ],
    }


@pytest.fixture(scope="module")
def with_total(table_folder: Path) -> Path:
    """A folder in which the table has the product as a column."""
    homes, own = table_folder / "homes.parquet", table_folder / "products.parquet"
    rows = f"SELECT *, load * age AS total FROM '{homes}'"
    duckdb.sql(f"COPY ({rows}) TO '{own}' (FORMAT parquet)")
    return table_folder


def audited(engine: Engine, plan: Mapping[str, Any]) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "open_source", lambda *_, **__: engine)
        return sl.audit(plan, names=True).model_dump()


def facts(result: object) -> list[object]:
    """Every number and decision of a result, in order, without its texts: these quote the secret's name."""
    if isinstance(result, Mapping):
        return [fact for value in result.values() for fact in facts(value)]
    if isinstance(result, Sequence) and not isinstance(result, str):
        return [fact for value in result for fact in facts(value)]
    return [] if isinstance(result, str) else [result]


def assert_same(computed: Mapping[str, Any], plain: Mapping[str, Any]) -> None:
    ours, theirs = facts(computed), facts(plain)
    assert len(ours) == len(theirs) > 100
    for one, other in zip(ours, theirs, strict=True):
        same = math.isclose(one, other, rel_tol=1e-9) if isinstance(one, float) else one == other
        assert same, (one, other)


@pytest.mark.slow
def test_an_audit_is_that_of_a_column_that_holds_the_product(engine: Engine, with_total: Path) -> None:
    releases = [
        "SELECT AVG(SECRET) FROM data",
        "SELECT region, SUM(SECRET) FROM data GROUP BY region",
        "SELECT SUM(region * SECRET) FROM data WHERE region > 0",
    ]
    plain = open_source("products.parquet", base=with_total)
    assert_same(audited(engine, plan_of("load * age", releases)), audited(plain, plan_of("total", releases)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "release",
    [
        "WITH p AS (SELECT home, MIN(region) AS region, SUM(SECRET) AS r FROM data GROUP BY home) "
        "SELECT region, AVG(LEAST(r, 500)) FROM p GROUP BY region",
        "SELECT region, SUM(LEAST(GREATEST(SECRET, 0), 9000)) FROM data GROUP BY region",
        "SELECT region, COUNT(*) FILTER (WHERE SECRET > 300) FROM data GROUP BY region",
    ],
)
def test_so_is_an_audit_of_other_features(release: str, with_total: Path) -> None:
    found = [
        audited(open_source("products.parquet", base=with_total), plan_of(secret, [release]))
        for secret in ("load * age", "total")
    ]
    assert_same(*found)


def test_so_is_a_rehearsal(with_total: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(with_total)
    release = "SELECT region, SUM(SECRET) FROM data WHERE home < 'h2' GROUP BY region"
    computed, plain = (
        sl.rehearse(plan_of(secret, [release]), repetitions=20, top=3) for secret in ("load * age", "total")
    )
    assert len(computed.guesses) > 0
    for ours, theirs in zip(computed.guesses, plain.guesses, strict=True):
        assert (ours.truth, ours.guess) == pytest.approx((theirs.truth, theirs.guess))


@pytest.fixture(scope="module")
def products_engine(table_folder: Path) -> Iterator[tuple[Engine, Subject, Schema]]:
    engine = open_source("homes.parquet", base=table_folder, tables={"areas": "areas.parquet"})
    subject = with_secret_column(engine, SUBJECT)
    yield engine, subject, Schema.of(engine, ["areas"], expression=subject.expression)
    engine.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(load) FROM data",
        "SELECT SUM(age) FROM data",
        "SELECT MAX(age), SUM(load * age) FROM data",
        "SELECT SUM(load * age) / SUM(age) FROM data",
        "SELECT SUM(load * age * age) FROM data",
        "SELECT SUM(load + age) FROM data",
        "SELECT SUM(load * age) FROM data WHERE age > 3",
        "SELECT SUM(load * age) FROM data WHERE age IS NOT NULL",
        "SELECT SUM(load * age) FILTER (WHERE age > 3) FROM data",
        "SELECT SUM(CASE WHEN age > 3 THEN load * age END) FROM data",
        "SELECT COUNT(age), SUM(load * age) FROM data",
        "SELECT COUNT(DISTINCT age), SUM(load * age) FROM data",
        "SELECT age, SUM(load * age) FROM data GROUP BY age",
        "SELECT age / 10, COUNT(*) FROM data GROUP BY age / 10",
        "SELECT region, SUM(load * age) FROM data GROUP BY region HAVING MAX(age) > 2",
        "SELECT region, SUM(load * age) FROM data GROUP BY region ORDER BY MAX(age)",
        "SELECT SUM(d.load * d.age) FROM data d JOIN areas a ON d.age = a.region",
        "WITH x AS (SELECT *, ROW_NUMBER() OVER (ORDER BY age, home) AS n FROM data) "
        "SELECT SUM(load * age) FROM x WHERE n < 5",
        "WITH x AS (SELECT load * age AS r, age AS g FROM data) SELECT g, SUM(r) FROM x GROUP BY g",
        'SELECT SUM("load * age") FROM data',
        "SELECT SUM(load * (age + 1)) FROM data",
    ],
)
def test_its_columns_are_secret_by_themselves(
    sql: str, products_engine: tuple[Engine, Subject, Schema]
) -> None:
    _, subject, schema = products_engine
    with pytest.raises(InvalidPlan):
        read_release(sql, name="r", subject=replace(subject, bandwidth=1.0), schema=schema)


def test_no_other_part_of_a_plan_names_its_columns(
    products_engine: tuple[Engine, Subject, Schema],
) -> None:
    engine, subject, schema = products_engine
    with pytest.raises(InvalidPlan, match="the secret in"):
        read_condition("age > 3", secret=subject.secret, schema=schema)
    with pytest.raises(InvalidPlan, match="the secret in"):
        collect(engine, [], replace(subject, known=("age > 3",)))
    query = read_release(
        "SELECT region, SUM(age * load) FROM data GROUP BY region", name="r", subject=subject, schema=schema
    )
    with pytest.raises(InvalidPlan, match="would tell something of the secret"):
        read_suppression(engine, query, subject, "MAX(age) < 10")
    read_suppression(engine, query, subject, "COUNT(*) < 10")
    filtered = read_release(
        "SELECT region, SUM(age * load) FILTER (WHERE solar) FROM data GROUP BY region",
        name="r",
        subject=subject,
        schema=schema,
    )
    with pytest.raises(InvalidPlan, match="aggregates of the secret alone"):
        read_suppression(engine, filtered, subject, "COUNT(*) < 10")
    with pytest.raises(InvalidPlan, match="total_by for a secret that is a column"):
        total_rows(engine, subject, by=[])
    ages = replace(schema, tables={"ages": [Column("AGE", ColumnKind.NUMBER)]})
    with pytest.raises(InvalidPlan, match='"ages" with a column "AGE"'):
        check_public(ages, subject)


@pytest.mark.parametrize(
    ("secret", "changed", "message"),
    [
        ("load * aeg", {}, 'got "aeg".*Did you mean "age"'),
        ("load * home", {}, '"home", a text column'),
        ("load * region", {"record": "region"}, 'without the record key, got "region"'),
        ("load * age", {"kind": SecretKind.BOOLEAN, "bounds": None}, "bounds, as an expression is a number"),
        ("LEAST(load, age)", {}, r"columns and numbers with \+ - \* /"),
        ("2 * 3", {}, "got no column"),
        ("load * 'x'", {}, r"columns and numbers with \+ - \* /, got 'x'"),
        ("load * RANDOM()", {}, "deterministic"),
        ("load * " + " * ".join(["age"] * 12), {}, "at most 60 bytes"),
    ],
)
def test_only_arithmetic_of_numbers_is_a_secret(
    secret: str, changed: dict[str, Any], message: str, duckdb_engine: Engine
) -> None:
    with pytest.raises(InvalidPlan, match=message) as refused:
        with_secret_column(duckdb_engine, replace(SUBJECT, secret=secret, **changed))
    assert re.match(r"\[data\] secret: expected", str(refused.value))


@pytest.mark.parametrize("secret", ["LOAD", "watts", "load *"])
def test_a_name_stays_a_name(secret: str, duckdb_engine: Engine) -> None:
    subject = replace(SUBJECT, secret=secret)
    assert with_secret_column(duckdb_engine, subject) is subject
    other = replace(SUBJECT, record="nobody")  # perhaps a table without a header: its names are not shown
    assert with_secret_column(duckdb_engine, other) is other


def test_a_plan_about_several_secrets_is_about_columns(
    with_total: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(with_total)
    plan = plan_of("load * age", ["SELECT SUM(SECRET) FROM data", "SELECT AVG(region) FROM data"])
    with pytest.raises(InvalidPlan, match="a release about each secret"):
        sl.audit({**plan, "secret": [{"column": "region", "bounds": [0, 9]}]})
