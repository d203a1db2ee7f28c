"""The catalogue of queries in ``tests/tables/catalogue``: its tables, and what an engine itself answers.

A file of the catalogue is about one table. In a query that is read, each published aggregate of the secret
stands in braces: ``{AVG(revenue)}``. The oracle runs the same text with ``COUNT(revenue), SUM(revenue)`` in
its place. Where that is not the answer, the braces hold three texts, ``{aggregate|count|sum}``, or the query
has a text ``answer`` of its own. A query with ``data`` is read over the rows that this text makes of the
table; ``value`` is its secret there. A query with ``refused`` holds a part of the message. ``only`` lists the
engines that have its SQL, ``spark`` marks the few that run there, and ``kind`` says what people ask for.
"""

from __future__ import annotations

import datetime
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import sqlglot

from sightline.arrays import FloatArray
from sightline.tables.collect import collect, count_table
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import Membership, RowValues
from sightline.tables.records import row_values
from sightline.tables.rows import check_made, make_data
from sightline.tables.sql.data_query import read_data_query
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from sightline.tables.verify import verify
from tests.tables.clause_cases import feature_of
from tests.tables.quick_cases import without_quick

FOLDER = Path(__file__).parent / "catalogue"
Run = Callable[[str], list[tuple[Any, ...]]]
Opened = dict[str, tuple[Engine, Run]]  # by the name of the table
Answer = Counter[tuple[int, float]]  # of a query: how many secrets a published number has, and their sum
COLUMNS = {
    "shop": {
        "order_id": "INTEGER", "customer": "VARCHAR", "country": "VARCHAR", "segment": "VARCHAR",
        "day": "DATE", "product": "VARCHAR", "quantity": "INTEGER", "discount": "DOUBLE",
        "online": "BOOLEAN", "revenue": "DOUBLE",
    },
    "countries": {"code": "VARCHAR", "continent": "VARCHAR", "people": "INTEGER"},
    "clinic": {
        "patient": "INTEGER", "hospital": "VARCHAR", "ward": "INTEGER", "age": "INTEGER", "sex": "VARCHAR",
        "admitted": "TIMESTAMP", "insured": "BOOLEAN", "ill": "BOOLEAN", "blood": "VARCHAR",
    },
}  # fmt: skip
SUBJECTS = {
    "revenue": Subject(
        record="customer",
        secret="revenue",
        kind=SecretKind.NUMBER,
        bounds=(0, 500),
        most_rows=20,
    ),
    "quantity": Subject(
        record="customer", secret="quantity", kind=SecretKind.NUMBER, bounds=(0, 9), most_rows=20
    ),
    "ill": Subject(record="patient", secret="ill", kind=SecretKind.BOOLEAN),
    "blood": Subject(
        record="patient", secret="blood", kind=SecretKind.CATEGORY, categories=("A", "B", "0", "AB")
    ),
}


def table_rows() -> dict[str, list[tuple[Any, ...]]]:
    """240 orders of 60 customers, and 150 patients; NULL in most columns."""
    generator = np.random.default_rng(13)

    def some(values: Sequence[Any]) -> Any:
        return values[int(generator.integers(len(values)))]

    shop, clinic = [], []
    for order in range(240):
        customer = int(generator.integers(60))
        day = datetime.date(2023, 11, 1) + datetime.timedelta(days=int(generator.integers(400)))
        shop.append(
            (
                order,
                f"c{customer:02}",
                [None, "NZ", "FR", "DE", "JP", "FR"][customer % 6],
                ["home", "office", "school"][customer % 3],
                None if order % 41 == 7 else day,
                some(["lamp", "Lamp", "desk", "chair", None]),
                int(generator.integers(1, 9)),
                some([0.0, 0.05, 0.1, None]),
                some([True, False, None]),
                None if order % 29 == 3 else float(generator.integers(0, 2000)) / 4,
            )
        )
    for patient in range(150):
        seconds = int(generator.integers(400 * 86_400))
        clinic.append(
            (
                patient,
                some(["north", "south", "east"]),
                int(generator.integers(1, 6)),
                int(generator.integers(0, 99)),
                some(["f", "m", None]),
                datetime.datetime(2023, 1, 1) + datetime.timedelta(seconds=seconds),
                some([True, False]),
                None if patient % 31 == 4 else bool(generator.integers(3) == 0),
                some(["A", "B", "0", "AB"]),
            )
        )
    countries = [("NZ", "Oceania", 5), ("FR", "Europe", 68), ("DE", "Europe", 84), ("US", "America", 335)]
    return {"shop": shop, "countries": countries, "clinic": clinic}


@dataclass(frozen=True, kw_only=True)
class CatalogueQuery:
    """One query of the catalogue."""

    sql: str  # with braces around what is published of the secret
    refused: str | None = None
    kind: str = ""  # what people ask for by it, if it is one of the kinds that were once refused
    data: str | None = None  # [data] sql
    value: str = "revenue"  # the secret that it makes
    answer: str | None = None
    only: tuple[str, ...] = ("duckdb", "postgres", "spark")
    spark: bool = False

    def text(self, dialect: str) -> str:
        """The query as it is published."""
        return _in_dialect(_MARK.sub(lambda mark: mark[1].split("|")[0], self.sql), dialect)

    def own_answer(self, dialect: str) -> str:
        """The query whose answer the audited cells must have."""
        text = self.answer or _MARK.sub(_counted, self.sql)
        return _in_dialect(text.replace("FROM source", "FROM data"), dialect)


@dataclass(frozen=True, kw_only=True)
class Theme:
    """A file of the catalogue."""

    name: str
    table: str
    subject: Subject
    queries: tuple[CatalogueQuery, ...]

    def read(self, engine: str) -> list[CatalogueQuery]:
        """The queries that are read on an engine."""
        listed = [query for query in self.queries if query.refused is None and engine in query.only]
        return [query for query in listed if query.spark] if engine == "spark" else listed


_MARK = re.compile(r"\{([^}]*)\}")
_CALL = re.compile(r"(?:AVG|SUM|MEAN)(\(.*)", re.IGNORECASE | re.DOTALL)


def _counted(mark: re.Match[str]) -> str:
    parts = mark[1].split("|")
    if len(parts) == 3:
        return f"{parts[1]}, {parts[2]}"
    call = _CALL.fullmatch(parts[0])
    assert call is not None, parts[0]
    return f"COUNT{call[1]}, SUM{call[1]}"


def _in_dialect(sql: str, dialect: str) -> str:
    return sql if dialect == "duckdb" else sqlglot.transpile(sql, read="duckdb", write=dialect)[0]


def themes() -> list[Theme]:
    """The whole catalogue."""
    found = []
    for path in sorted(FOLDER.glob("*.toml")):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        queries = [
            CatalogueQuery(**{**query, "only": tuple(query["only"])} if "only" in query else query)
            for query in content["query"]
        ]
        found.append(
            Theme(
                name=path.stem,
                table=content["table"],
                subject=SUBJECTS[content["secret"]],
                queries=tuple(queries),
            )
        )
    return found


def audited_answers(
    engine: Engine, theme: Theme, queries: Sequence[CatalogueQuery]
) -> list[tuple[Answer, Any]]:
    """For each query, what the audit says is published, and the cells with their keys."""
    schema = Schema.of(engine, ["countries"])
    texts = [query.text(engine.dialect) for query in queries]
    found: dict[int, tuple[Answer, Any]] = {}
    together = [place for place, query in enumerate(queries) if query.data is None]
    if together:
        answers = _answers(engine, [texts[place] for place in together], theme.subject, schema)
        found |= dict(zip(together, answers, strict=True))
    for place, query in enumerate(queries):
        if query.data is not None:
            subject, own = made_subject(engine, theme, query, schema)
            (found[place],) = _answers(engine, [texts[place]], subject, own)
    if len(together) < len(queries):
        engine.define("SELECT * FROM source")
    return [found[place] for place in range(len(queries))]


def made_subject(
    engine: Engine, theme: Theme, query: CatalogueQuery, schema: Schema
) -> tuple[Subject, Schema]:
    """Make ``data`` as a query says; return what the audit is about, and its schema."""
    subject = replace(theme.subject, secret=query.value, bounds=(0, 100_000))
    made = read_data_query(
        _in_dialect(query.data or "", engine.dialect),
        record=subject.record,
        secret=subject.secret,
        others=[],
        schema=schema,
    )
    make_data(engine, made)
    check_made(engine, made)
    return subject, replace(schema, columns=engine.columns(), source=(schema,), made_by=made.normal)


def _answers(
    engine: Engine, texts: Sequence[str], subject: Subject, schema: Schema
) -> list[tuple[Answer, Any]]:
    queries = [
        read_release(text, name=str(place), subject=subject, schema=schema)
        for place, text in enumerate(texts)
    ]
    membership = collect(engine, queries, subject)
    unaudited = verify(engine, queries, membership)
    if engine.dialect == "duckdb":  # where a quick check comes first
        assert verify(engine, without_quick(queries), membership) == unaudited
    values = (
        None
        if subject.kind is SecretKind.CATEGORY
        else row_values(engine, count_table(engine, queries, subject))
    )
    return [_answer(membership, values, place) for place in range(len(queries))]


def _answer(membership: Membership, values: RowValues | None, query: int) -> tuple[Answer, Any]:
    answer: Answer = Counter()
    cells_of: list[Any] = []
    for place, partition in enumerate(membership.partitions):
        if partition.query != query:
            continue
        cells = [cell for cell in membership.cells if cell.partition == place]
        cells_of.append(sorted((cell.key, cell.rows) for cell in cells))
        sums: FloatArray = np.zeros(len(cells))
        if values is not None:
            added = feature_of(partition, values.secret)
            cell_of = membership.signatures[values.signature, place]
            sums = np.bincount(cell_of[cell_of >= 0], added[cell_of >= 0], minlength=len(cells)).astype(
                np.float64
            )
        answer.update((cell.rows, round(float(total), 4)) for cell, total in zip(cells, sums, strict=True))
    return answer, cells_of


def engine_answer(run: Run, query: CatalogueQuery, theme: Theme, dialect: str) -> Answer:
    """What the engine itself answers: for each line and each aggregate a count and a sum."""
    lines = run(query.own_answer(dialect))
    number = len(_MARK.findall(query.sql))
    answer: Answer = Counter()
    for line in lines:
        for pair in range(number):
            start = len(line) - 2 * (number - pair)
            count, total = line[start], line[start + 1]
            if count:
                exact = 0.0 if theme.subject.kind is SecretKind.CATEGORY else round(float(total or 0), 4)
                answer[int(count), exact] += 1
    return answer


def statements(kinds: dict[str, str]) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """A CREATE TABLE for each table of the catalogue, and its rows; ``kinds`` are an engine's own types."""
    for name, columns in COLUMNS.items():
        listed = ", ".join(f"{column} {kinds.get(kind, kind)}" for column, kind in columns.items())
        yield f"CREATE TABLE {name} ({listed})", table_rows()[name]


def opened_on_spark(session: Any, folder: Path) -> Opened:
    """The catalogue's tables in a session of Spark."""
    with duckdb.connect() as connection:
        for (created, rows), name in zip(statements({}), COLUMNS, strict=True):
            connection.execute(created)
            marks = ", ".join("?" for _ in COLUMNS[name])
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
            connection.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet)")
    opened: Opened = {}
    for name in COLUMNS:
        session.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    for table in ("shop", "clinic"):
        engine = open_source(session, base=Path(), table=table, tables={"countries": "countries"})

        def run(sql: str, table: str = table) -> list[tuple[Any, ...]]:
            session.table(table).createOrReplaceTempView("data")
            return [tuple(row) for row in session.sql(sql).collect()]

        opened[table] = (engine, run)
    return opened


def different(
    opened: Opened, theme: Theme, queries: Sequence[CatalogueQuery], cells: list[Any] | None = None
) -> list[str]:
    """The queries that the audit reads differently from the engine. ``cells`` gets the cells of each."""
    engine, run = opened[theme.table]
    answers = audited_answers(engine, theme, queries)
    found = []
    for query, (ours, own_cells) in zip(queries, answers, strict=True):
        theirs = engine_answer(run, query, theme, engine.dialect)
        if ours != theirs or not theirs:
            found.append(
                f"{query.text(engine.dialect)}: {ours - theirs} where the engine has {theirs - ours}"
            )
        if cells is not None:
            cells.append(own_cells)
    return found
