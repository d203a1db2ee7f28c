"""Hunt with the same plans on DuckDB, Postgres and Spark: the same verdict and numbers, or a refusal.

A plan has one to three of the natural queries of a table, in the dialect of each engine, as sqlglot writes
it. What an engine cannot run, or reads otherwise, it refuses; what several engines audit must agree.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import sqlglot

import sightline as sl
from sightline.tables.subject import SecretKind
from tests.numbered_cases import check_cases
from tests.tables.servers import binaries, has_java, running_postgres, running_spark
from tests.tables.test_natural_queries import LISTED, NAMES, QUERIES, TABLES

ACCEPTED = (
    "noise_first",
    "groups",
    "values",
    "rows_apart",
    "few_values",
    "explained",
    "homogeneous",
    "derived",
)
Sources = dict[str, str]  # of each engine: where its tables are, with the table's name left out


def _written() -> Iterator[tuple[str, str, list[Any]]]:
    """The name of every table, its columns with their types, and its rows."""
    for name, table in TABLES.items():
        yield name, table.columns, table.rows(1)
    for name, names in NAMES.items():
        yield name, names.replace(",", " VARCHAR,") + " VARCHAR", LISTED[name]


@contextmanager
def everywhere() -> Iterator[Sources]:
    """The natural tables in every engine that is installed."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        found = {"duckdb": f"{folder}/t.duckdb::{{}}"}
        with duckdb.connect(f"{folder}/t.duckdb") as connection:
            for table, columns, rows in _written():
                connection.execute(f"CREATE TABLE {table} ({columns})")
                connection.execute(f"INSERT INTO {table} VALUES {', '.join(str(tuple(row)) for row in rows)}")
                connection.execute(f"COPY {table} TO '{folder}/{table}.parquet' (FORMAT parquet)")
        if (programs := binaries()) is not None:
            import psycopg

            found["postgres"] = stack.enter_context(running_postgres(programs)) + "?table={}"
            with psycopg.connect(found["postgres"].partition("?")[0], autocommit=True) as server:
                for table, columns, rows in _written():
                    own = columns.replace("DOUBLE", "DOUBLE PRECISION").replace("VARCHAR", "TEXT")
                    server.execute(f"CREATE TABLE {table} ({own})")
                    listed = ", ".join(str(tuple(row)) for row in rows)
                    server.execute(f"INSERT INTO {table} VALUES {listed}")
        if has_java():
            session = stack.enter_context(running_spark(folder / "warehouse"))
            for table, _, _ in _written():
                session.read.parquet(f"{folder}/{table}.parquet").createOrReplaceTempView(table)
            found["spark"] = "spark://local[1]?table={}"
        yield found


def plan(draw: np.random.Generator) -> tuple[str, list[str], dict[str, Any]]:
    """A table, some of its queries, and a plan without both."""
    name = str(draw.choice(list(TABLES)))
    texts = [one["sql"] for one in QUERIES if one["table"] == name and "refused" not in one]
    chosen = [texts[place] for place in draw.permutation(len(texts))[: int(draw.integers(1, 4))]]
    about = TABLES[name].subject
    data: dict[str, Any] = {"record": about.record, "secret": about.secret}
    columns = [one.split()[0] for one in TABLES[name].columns.split(", ")]
    data["public"] = [one for one in columns if one not in data.values()]
    data["max_rows_per_record"] = int(about.most_rows)
    match about.kind:
        case SecretKind.NUMBER:
            data["bounds"] = list(about.bounds)
        case SecretKind.CATEGORY:
            data["categories"] = list(about.categories)
        case SecretKind.BOOLEAN:
            data["kind"] = "boolean"
    noise = float(np.round(10 ** draw.uniform(0, 3), 2))
    limits = {"remaining_uncertainty": "50%", "accept": list(ACCEPTED)}
    return name, chosen, {"data": data, "limits": limits, "noise": noise}


def audited(source: str, dialect: str, name: str, texts: list[str], about: dict[str, Any]) -> Any:
    """The verdict and the numbers of an engine; what it says if it refuses."""
    written = [sqlglot.transpile(one, read="duckdb", write=dialect)[0] for one in texts]
    releases = [
        {"name": f"q{place}", "sql": one, "noise_stddev": about["noise"]} for place, one in enumerate(written)
    ]
    tables = {one: source.format(one) if dialect == "duckdb" else one for one in NAMES}
    data = about["data"] | {"source": source.format(name), "tables": tables}
    try:
        result = sl.audit({"data": data, "limits": about["limits"], "release": releases})
    except sl.SightlineError as refused:
        return str(refused)
    told = [one.model_dump() for one in (*result.releases, *result.exposed)]
    return result.verdict.status, result.cells, result.signatures, sorted(_numbers(told))


def _numbers(told: Any) -> Iterator[float]:
    """Every number of a result."""
    if isinstance(told, int | float):
        yield float(told)
    elif isinstance(told, dict | list | tuple):
        for one in told.values() if isinstance(told, dict) else told:
            yield from _numbers(one)


def compare(sources: Sources, draw: np.random.Generator, count: Counter[str]) -> None:
    """One plan on every engine."""
    name, texts, about = plan(draw)
    found = {one: audited(source, one, name, texts, about) for one, source in sources.items()}
    read = {one: answer for one, answer in found.items() if not isinstance(answer, str)}
    count["plans"] += 1
    for one in found:
        count[f"{one}: {'audited' if one in read else 'refused'}"] += 1
    count[f"on {len(read)} engines"] += 1
    for answer in read.values():
        first = next(iter(read.values()))
        assert answer[:-1] == first[:-1], (texts, about, read)
        assert np.allclose(answer[-1], first[-1], rtol=1e-6, atol=1e-9), (texts, about, read)


def fuzz(seed: int, seconds: float, *, most: float = float("inf")) -> dict[str, int]:
    """Compare plans until the seconds are over, or there were so many; raise at the first difference."""
    with everywhere() as sources:

        def check(draw: np.random.Generator, trial: int, count: Counter[str]) -> None:
            compare(sources, draw, count)
            if trial % 20 == 19:
                print(dict(sorted(count.items())), flush=True)

        return check_cases(check, seed, seconds, most=most)
