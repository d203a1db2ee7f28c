"""No noise hides a NULL: what makes lines, NULLs or types of an answer depend on secrets is no pass.

The truth is what the release's own SQL answers on two tables that differ in the secrets of one person alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random

import duckdb
import pyarrow
import pytest

import sightline as sl
from sightline.auditing.result import VerdictStatus
from sightline.errors import InvalidPlan
from sightline.tables.collect import collect
from sightline.tables.engines.local_tables import in_memory
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Column, ColumnKind
from sightline.tables.sql.reader import ReleaseQuery, read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from sightline.tables.verify import verify
from tests.numbered_cases import trials

Row = tuple[str, str, int, int, bool | None, str | None, float | None]  # id, g, y, w, ill, kind, x
SECRETS = {
    "ill": Subject(record="id", secret="ill", kind=SecretKind.BOOLEAN),
    "kind": Subject(record="id", secret="kind", kind=SecretKind.CATEGORY, categories=("a", "b")),
    "x": Subject(record="id", secret="x", kind=SecretKind.NUMBER, bounds=(0, 10)),
}
OTHERS: dict[str, list[object]] = {
    "ill": [True, False],
    "kind": ["a", "b"],
    "x": [2.0, 8.0],
}


@dataclass(frozen=True)
class Audited:
    """How many groups the audit says to tell secrets, and whether it needs the noise first."""

    telling: int
    noise_first: bool


def frame(rows: list[Row]) -> pyarrow.Table:
    types = [pyarrow.string(), pyarrow.string(), pyarrow.int64(), pyarrow.int64()]
    types += [pyarrow.bool_(), pyarrow.string(), pyarrow.float64()]
    columns = zip(*rows, strict=True)
    arrays = [pyarrow.array(column, type=kind) for column, kind in zip(columns, types, strict=True)]
    return pyarrow.table(arrays, names=["id", "g", "y", "w", "ill", "kind", "x"])


def read(sql: str, subject: Subject) -> ReleaseQuery:
    text, number, truth = ColumnKind.TEXT, ColumnKind.NUMBER, ColumnKind.BOOLEAN
    kinds = {"id": text, "g": text, "y": number, "w": number, "ill": truth, "kind": text, "x": number}
    schema = Schema(columns=[Column(name, kind) for name, kind in kinds.items()])
    return read_release(sql, name="r", subject=subject, schema=schema)


@cache
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def lines(rows: list[Row], sql: str, query: ReleaseQuery) -> list[str]:
    """What a release answers but for the noise: NULLs, texts and truth values are not numbers."""
    connection().register("data", frame(rows))
    answer = connection().execute(sql).fetchall()
    noisy = noisy_places(query, len(answer[0]) if answer else 0)
    return sorted(repr([without_noise(v, p in noisy) for p, v in enumerate(line)]) for line in answer)


def audited(rows: list[Row], query: ReleaseQuery, subject: Subject) -> Audited:
    engine = open_source(in_memory(frame(rows)), base=Path())
    try:
        (found,) = verify(engine, [query], collect(engine, [query], subject))
    finally:
        engine.close()
    first = any(part.computed.shows for part in query.partitions)
    return Audited(found.telling_groups + found.telling_who_has_one, first)


def noisy_places(query: ReleaseQuery, columns: int) -> set[int]:
    """The columns of the answer with noise: the aggregates come last, in order."""
    number = 1 + max((part.aggregate for part in query.partitions), default=-1)
    public = len(query.public_counts)
    aggregates = max(number, public + len({part.aggregate for part in query.partitions}))
    return {columns - aggregates + part.aggregate for part in query.partitions}


def without_noise(value: object, noisy: bool) -> object:
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return "a number" if noisy and number else value


def table(random: Random, *, missing: bool) -> list[Row]:
    """Nine people in three groups, some alone in theirs; with ``missing``, two of them have no secret."""
    rows: list[Row] = []
    for i in range(9):
        gone = missing and i in (3, 7)
        rows.append(
            (
                f"p{i}",
                "abc"[0 if i == 0 else 1 + i % 2],
                i % 2,
                random.randrange(4),
                None if gone else random.random() < 0.4,
                None if gone else random.choice("ab"),
                None if gone else float(random.randrange(11)),
            )
        )
    return rows


def changed(rows: list[Row], place: int, secret: str, value: object) -> list[Row]:
    own = list(rows[place])
    own[{"ill": 4, "kind": 5, "x": 6}[secret]] = value  # type: ignore[call-overload]
    return [*rows[:place], tuple(own), *rows[place + 1 :]]  # type: ignore[list-item]


TELLING = [
    # Over no row DuckDB's COUNT_IF, a sum, is NULL.
    ("kind", "SELECT id, COUNT_IF(kind = 'a') FILTER (WHERE kind = 'a') FROM data GROUP BY id"),
    ("ill", "SELECT id, SUM(w) FILTER (WHERE ill) FROM data GROUP BY id"),
    ("ill", "SELECT id, SUM(CASE WHEN ill THEN w END) FROM data GROUP BY id"),
    ("ill", "SELECT id, SUM(CASE WHEN NOT ill THEN 1 END) FROM data GROUP BY id"),
    ("ill", "SELECT id, ROUND(SUM(w) FILTER (WHERE ill), 1) FROM data GROUP BY id"),
    ("ill", "SELECT id, COALESCE(SUM(w) FILTER (WHERE ill), MIN(w) FILTER (WHERE y > 5)) "
     "FROM data GROUP BY id"),
    ("ill", "SELECT id, COALESCE(SUM(w) FILTER (WHERE ill), 0), SUM(w) FILTER (WHERE NOT ill) "
     "FROM data GROUP BY id"),
    ("ill", "SELECT id, SUM(w) FILTER (WHERE ill AND y = 1) FROM data GROUP BY ROLLUP (id)"),
    ("ill", "SELECT id, COUNT(*) FILTER (WHERE ill) FROM data GROUP BY id UNION ALL "
     "SELECT id, SUM(w) FILTER (WHERE ill) FROM data GROUP BY id"),
    ("ill", "SELECT SUM(w) FROM data WHERE ill AND id = 'p0'"),
    ("kind", "SELECT id, SUM(w) FILTER (WHERE kind = 'a') FROM data GROUP BY id"),
    ("kind", "SELECT id, SUM(CASE WHEN kind IN ('b') THEN w END) FROM data GROUP BY id"),
    ("x", "SELECT id, SUM(w) FILTER (WHERE x > 5) FROM data GROUP BY id"),
    ("x", "SELECT id, SUM(CASE WHEN x BETWEEN 1 AND 5 THEN w END) FROM data GROUP BY id"),
]  # fmt: skip
SHOWING = [
    ("ill", "SELECT id, NULLIF(COUNT(*) FILTER (WHERE ill), 0) FROM data GROUP BY id"),
    ("ill", "SELECT id, CAST(COUNT(*) FILTER (WHERE ill) AS BOOLEAN) FROM data GROUP BY id"),
    ("ill", "SELECT id, CAST(COUNT(*) FILTER (WHERE ill) AS TEXT) FROM data GROUP BY id"),
    ("x", "SELECT g, CAST(AVG(x) AS VARCHAR) FROM data GROUP BY g"),
    ("x", "SELECT g, NULLIF(SUM(x), 0) + 1 FROM data GROUP BY g"),
]
PRESENCE = [
    ("ill", "SELECT id, COUNT(ill) FROM data GROUP BY id"),
    ("ill", "SELECT id, COUNT(*) FILTER (WHERE ill IS NOT NULL) FROM data GROUP BY id"),
    ("ill", "SELECT id, SUM(w) FILTER (WHERE ill IS NOT NULL) FROM data GROUP BY id"),
    ("ill", "SELECT g, COUNT(*) FILTER (WHERE ill) FROM data WHERE ill IS NOT NULL GROUP BY g"),
    ("x", "SELECT id, COUNT(*), SUM(x) FROM data GROUP BY id HAVING COUNT(x) > 0"),
    ("x", "SELECT id, COUNT(*) FROM data GROUP BY id HAVING COUNT(x) > 0"),
    ("x", "SELECT id, SUM(x) FROM data GROUP BY id"),
    ("x", "SELECT id, AVG(x), COUNT(*) FROM data GROUP BY id"),
    ("x", "SELECT id, SUM(x) FROM data WHERE x IS NOT NULL GROUP BY id"),
    ("kind", "SELECT g, kind, COUNT(*) FROM data GROUP BY g, kind"),
]
SAFE = [
    ("ill", "SELECT id, COALESCE(SUM(w) FILTER (WHERE ill), 0) FROM data GROUP BY id"),
    ("ill", "SELECT id, ROUND(COALESCE(SUM(w) FILTER (WHERE ill), 0) / 2, 1) FROM data GROUP BY id"),
    ("ill", "SELECT id, COUNT(*) FILTER (WHERE ill), COUNT_IF(NOT ill) FROM data GROUP BY id"),
    ("ill", "SELECT id, COUNT_IF(ill AND y IN (1, 2)) FROM data GROUP BY id"),
    ("kind", "SELECT id, COUNT_IF(kind IN ('a')) FROM data GROUP BY id"),
    ("ill", "SELECT id, SUM(CASE WHEN ill THEN w ELSE 0 END) FROM data GROUP BY id"),
    ("ill", "SELECT id, SUM(CASE WHEN ill THEN 1 ELSE 0 END) FROM data GROUP BY id"),
    ("ill", "SELECT COUNT(*) FROM data WHERE ill"),
    (
        "ill",
        "SELECT g, AVG(CAST(ill AS INTEGER)), COUNT(*), AVG(w) FILTER (WHERE y = 1) "
        "FROM data GROUP BY ROLLUP (g)",
    ),
    ("kind", "SELECT g, COUNT(*) FILTER (WHERE kind = 'a') FROM data GROUP BY g"),
    ("x", "SELECT id, SUM(x), COUNT(*) FROM data GROUP BY id"),
    ("x", "SELECT g, y, SUM(x) FILTER (WHERE y = 1) FROM data GROUP BY g, y"),
    ("x", "SELECT g, SUM(x) FROM data GROUP BY g HAVING COUNT(*) > 1"),
    ("x", "SELECT g, SUM(x), COUNT(x) FROM data WHERE x IS NOT NULL GROUP BY g"),
]


def differing(rows: list[Row], secret: str, sql: str, values: list[object]) -> list[Audited]:
    """The audits of a table and of others that differ in one person's secret, and in more than noise."""
    query = read(sql, SECRETS[secret])
    first = lines(rows, sql, query)
    others = [changed(rows, place, secret, value) for place in range(len(rows)) for value in values]
    found = [other for other in others if lines(other, sql, query) != first]
    return [audited(one, query, SECRETS[secret]) for one in [rows, *found[:1], *found[-1:]]] if found else []


def ids(case: tuple[str, str]) -> str:
    return case[1]


@pytest.mark.slow
@pytest.mark.parametrize("case", TELLING, ids=ids)
def test_an_aggregate_over_rows_that_a_secret_chooses(case: tuple[str, str]) -> None:
    secret, sql = case
    found = differing(table(Random(1), missing=False), secret, sql, OTHERS[secret])
    assert found, "the answers differ: otherwise this is no test"
    assert all(one.telling > 0 for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("case", SHOWING, ids=ids)
def test_what_is_made_of_a_number_before_it_gets_noise(case: tuple[str, str]) -> None:
    secret, sql = case
    rows = [changed([row], 0, "x", 0.0)[0] for row in table(Random(1), missing=False)]
    found = differing(rows, secret, sql, OTHERS[secret])
    assert found
    assert all(one.noise_first for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("case", PRESENCE, ids=ids)
def test_whether_somebody_has_a_secret_at_all(case: tuple[str, str]) -> None:
    secret, sql = case
    rows = table(Random(2), missing=True)
    found = differing(rows, secret, sql, [None, OTHERS[secret][0]])
    assert found
    assert all(one.telling > 0 for one in found)
    if "kind" not in sql:  # where every row of the table has one, that is no secret; a histogram lists values
        full = [changed([row], 0, secret, OTHERS[secret][place % 2])[0] for place, row in enumerate(rows)]
        assert audited(full, read(sql, SECRETS[secret]), SECRETS[secret]).telling == 0


@pytest.mark.slow
@pytest.mark.parametrize("case", SAFE, ids=ids)
def test_no_alarm_where_nothing_but_noisy_numbers_depends_on_secrets(case: tuple[str, str]) -> None:
    secret, sql = case
    rows = table(Random(3), missing=False)
    assert not differing(rows, secret, sql, OTHERS[secret])
    assert audited(rows, read(sql, SECRETS[secret]), SECRETS[secret]) == Audited(0, noise_first=False)


def test_groups_of_several_people_with_missing_secrets_are_no_alarm() -> None:
    """Nobody's secret alone makes the mean of a group NULL, whoever has one: an ordinary table passes."""
    query = read("SELECT y, AVG(x), COUNT(*) FROM data GROUP BY y", SECRETS["x"])
    assert audited(table(Random(2), missing=True), query, SECRETS["x"]).telling == 0


def test_a_public_number_that_is_missing_lets_the_secret_decide() -> None:
    """Of a row without ``w`` the sum is NULL if the person is ill, and else 0."""
    rows = table(Random(1), missing=False)
    gone = [(*row[:3], None if place == 2 else row[3], *row[4:]) for place, row in enumerate(rows)]
    sql = "SELECT id, SUM(CASE WHEN ill THEN w ELSE 0 END) FROM data GROUP BY id"
    found = differing(gone, "ill", sql, OTHERS["ill"])  # type: ignore[arg-type]
    assert found
    assert all(one.telling == 1 for one in found)


def random_release(random: Random) -> tuple[str, str]:
    """A release of one to three aggregates, most of which the audit accepts."""
    secret = random.choice(list(SECRETS))
    test = {
        "ill": ["ill", "NOT ill", "ill = FALSE"],
        "kind": ["kind = 'a'", "kind <> 'a'"],
        "x": ["x > 4", "x <= 7", "x BETWEEN 2 AND 6"],
    }[secret]
    conditions = [*test, f"{secret} IS NOT NULL", "y = 1", f"{random.choice(test)} AND y = 1"]
    values = ["w", "1", "w * 2", *([secret] if secret != "kind" else [])]

    def aggregate() -> str:
        value, condition = random.choice(values), random.choice(conditions)
        plain = random.choice(
            ["SUM({})", "SUM({} - 1)", "AVG({})", "COUNT({})", "MIN({})", "COUNT(*)"]
        ).format(
            random.choice([
                value,
                f"CASE WHEN {condition} THEN {value} END",
                f"CASE WHEN {condition} THEN {value} ELSE 0 END",
                f"NULLIF({value}, 2)",
                f"COALESCE({value}, 0)",
            ])
        )  # fmt: skip
        whole = plain + random.choice(["", f" FILTER (WHERE {condition})"])
        form = random.choice(
            [
                "{}",
                "{}",
                "COALESCE({}, 0)",
                "ROUND({}, 1)",
                "NULLIF({}, 0)",
                "CAST({} AS TEXT)",
                "{} / 2",
                "LEAST({}, 3)",
                "CASE WHEN COUNT(*) > 1 THEN {} END",
                f"CASE WHEN COUNT({secret}) > 1 THEN {{}} END",
            ]
        )
        return form.format(whole)

    bins = {"x": ["FLOOR(x / 5)", "x > 4", "g, CEIL(x / 10)"], "kind": ["kind"], "ill": ["g, ill"]}[secret]
    keys = random.choice(["", "", "id", "id", "g", "g, y", "y", random.choice(bins)])
    listed = ", ".join(aggregate() for _ in range(random.choice([1, 1, 2, 3])))
    public = "y IN (SELECT y FROM data WHERE w > 1)"
    where = random.choice(["", "", f" WHERE {public}", f" WHERE {random.choice(conditions)}"])
    having = random.choice(["", "", " HAVING COUNT(*) > 1", f" HAVING COUNT({secret}) > 0"]) if keys else ""
    by = f" GROUP BY {random.choice(['ROLLUP ({})', '{}', '{}']).format(keys)}" if keys else ""
    return secret, f"SELECT {keys}{', ' if keys else ''}{listed} FROM data{where}{by}{having}"


def check_random(seed: int) -> tuple[int, int]:
    """Whether a random release was accepted, and how often its answer depends on one person's secret."""
    random = Random(seed)
    secret, sql = random_release(random)
    rows = table(random, missing=random.random() < 0.5)
    values = [*OTHERS[secret], *([None] if any(row[6] is None for row in rows) else [])]
    try:
        found = differing(rows, secret, sql, [random.choice(values)])
    except (InvalidPlan, duckdb.Error):  # refused, or SQL that means nothing
        return 0, 0
    assert all(one.telling or one.noise_first for one in found), (seed, secret, sql)
    return 1, int(bool(found))


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", [0, 100])
def test_answers_that_differ_but_for_noise_are_no_pass(first: int) -> None:
    """For random releases: if one secret changes lines, NULLs, texts or exact numbers, the audit says so."""
    counts = [check_random(first + number) for number in trials(100)]
    accepted, differing_ones = (sum(column) for column in zip(*counts, strict=True))
    assert accepted > 0.25 * len(counts)
    assert differing_ones > 0.05 * len(counts)


@pytest.mark.slow
def test_the_audit_does_not_pass(tmp_path: Path) -> None:
    """At ε = 0.5 the noise hides every number, and the NULLs tell who is ill."""
    lines = ["id,w,ill", *(f"p{i},{1 + i % 4},{'true' if i % 3 else 'false'}" for i in range(20))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    data = {"source": f"{tmp_path}/t.csv", "record": "id", "secret": "ill", "kind": "boolean"}

    def result(aggregate: str, *accept: str) -> sl.AuditResult:
        sql = f"SELECT id, {aggregate} FROM data GROUP BY id"
        plan = {
            "data": data,
            "privacy": {"epsilon": 0.5, "delta": 1e-6},
            "release": [{"name": "r", "sql": sql}],
            "limits": {"remaining_uncertainty": 0.5, "accept": list(accept)},
        }
        return sl.audit(plan)

    null = result("SUM(w) FILTER (WHERE ill)")
    assert null.verdict.status is VerdictStatus.NOT_SHOWN
    assert [(one.name.value, one.count) for one in null.unverified] == [("groups", 20)]
    assert "COALESCE(SUM(…), 0)" in null.verdict.text
    for sql in ("NULLIF(COUNT(*) FILTER (WHERE ill), 0)", "CAST(COUNT(*) FILTER (WHERE ill) AS TEXT)"):
        shown = result(sql)
        assert shown.verdict.status is VerdictStatus.NOT_SHOWN
        assert [one.name.value for one in shown.unverified] == ["noise_first"]
        assert result(sql, "noise_first").verdict.status is VerdictStatus.PASSED
    assert result("COALESCE(SUM(w) FILTER (WHERE ill), 0)").verdict.status is VerdictStatus.PASSED


@pytest.mark.parametrize(
    "value",
    [
        "SUM(w) FILTER (WHERE ill)",
        "SUM(CASE WHEN ill THEN w END)",
        "NULLIF(SUM(w * CASE WHEN ill THEN 1 ELSE 0 END), 0)",
    ],
)
def test_a_total_per_person_that_is_null_for_some_is_refused(value: str, tmp_path: Path) -> None:
    """Who has a total would tell who is ill, and a mean over those with one has another divisor."""
    (tmp_path / "t.csv").write_text("id,w,ill\n" + "".join(f"p{i % 5},{i},{i % 2 > 0}\n" for i in range(20)))

    def plan(text: str) -> dict[str, object]:
        made = f"SELECT id, {text} AS total FROM source GROUP BY id"
        data = {"source": f"{tmp_path}/t.csv", "sql": made, "record": "id", "secret": "total"}
        release = {"name": "r", "sql": "SELECT SUM(total) FROM data", "noise_stddev": 500.0}
        return {"data": {**data, "bounds": [0, 100]}, "release": [release]}

    with pytest.raises(InvalidPlan, match=r"COALESCE\(…, 0\) around it"):
        sl.audit(plan(value))
    sl.audit(plan(f"COALESCE({value}, 0)"))
