"""A table in memory gives the result of the same rows in a file, or is refused in one line."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.tables.engines.local_tables import in_memory
from sightline.tables.engines.open import open_source

LIBRARIES = ("pandas", "polars", "pyarrow", "duckdb", "pandas objects")


def library(name: str) -> Any:
    """A library, or a skipped test."""
    return pytest.importorskip(name.partition(" ")[0])


def held_by(name: str, columns: dict[str, list[Any]]) -> Any:
    """The same columns as a table of a library."""
    own = library(name)
    match name:
        case "pandas":
            return own.DataFrame(columns)
        case "pandas objects":
            return own.DataFrame({key: own.Series(list(v), dtype=object) for key, v in columns.items()})
        case "polars":
            return own.DataFrame(columns)
        case "pyarrow":
            return own.table(columns)
    return relation(columns)


def relation(columns: dict[str, list[Any]]) -> duckdb.DuckDBPyRelation:
    """The columns as a query on a connection of its own."""
    connection = duckdb.connect()
    kinds = [
        "VARCHAR" if any(isinstance(v, str) for v in values) else "DOUBLE" for values in columns.values()
    ]
    listed = ", ".join(f'"{name}" {kind}' for name, kind in zip(columns, kinds, strict=True))
    connection.execute(f"CREATE TABLE t ({listed})")
    for row in zip(*columns.values(), strict=True):
        connection.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(row))})", list(row))
    return connection.table("t")


def plan_over(source: Any, **data: Any) -> dict[str, Any]:
    return {
        "data": {"source": source, "record": "home", "secret": "watts", "bounds": [0, 1000], **data},
        "privacy": {"epsilon": 1.0, "delta": 1e-6},
        "limits": {"remaining_uncertainty": 0.5},
        "release": [
            {"name": "by feeder", "sql": "SELECT feeder, AVG(watts) FROM data GROUP BY feeder"},
            {"name": "of a feeder", "sql": "SELECT SUM(watts) FROM data WHERE feeder <> 'south'"},
        ],
    }


HOMES: dict[str, list[Any]] = {
    "home": ["A1", "A2", "A3", "B1", None],
    "feeder": ["north", "north", "south", None, "south"],
    "watts": [400.0, 900.5, None, 1200.0, 3.25],
}


def parquet_of(columns: dict[str, list[Any]], folder: Path) -> str:
    path = folder / "rows.parquet"
    path.unlink(missing_ok=True)
    relation(columns).to_parquet(str(path))
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARIES)
def test_the_result_is_that_of_the_same_rows_in_a_file(name: str, tmp_path: Path) -> None:
    held = sl.audit(plan_over(held_by(name, HOMES)), full=True)
    in_file = sl.audit(plan_over(parquet_of(HOMES, tmp_path)), full=True)
    own = {"source", "table_digest", "plan", "publishable_plan"}  # a digest is of a file
    assert held.model_dump(exclude=own) == in_file.model_dump(exclude=own)
    assert held.source in {"a pandas DataFrame", "a Polars DataFrame", "an Arrow table", "a DuckDB relation"}
    assert f'source = "{held.source}"' in held.plan
    assert held.table_digest is None
    assert in_file.table_digest is not None
    assert (held.dropped, held.clipped) == (2, 1)


texts = st.one_of(st.none(), st.sampled_from(["", "a", "A", "é", "nan", "1"]))
numbers = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 0.1, 1e300, math.inf, math.nan]))
tables = st.integers(1, 6).flatmap(
    lambda n: st.fixed_dictionaries(
        {
            "home": st.lists(texts, min_size=n, max_size=n),
            "watts": st.lists(numbers, min_size=n, max_size=n),
        }
    )
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", LIBRARIES)
@settings(max_examples=10, deadline=None)
@given(columns=tables)
def test_every_value_arrives_as_it_is(name: str, columns: dict[str, list[Any]]) -> None:
    columns = {"home": ["first", *columns["home"]], "watts": [1.0, *columns["watts"]]}
    engine = open_source(in_memory(held_by(name, columns)), base=Path())
    answer = engine.fetch("SELECT home, watts FROM data")
    engine.check_unchanged()
    engine.close()
    assert answer["home"].tolist() == columns["home"]
    pandas = name.startswith("pandas")  # it has one mark for NaN and for NULL
    for found, given_one in zip(answer["watts"].tolist(), columns["watts"], strict=True):
        if given_one is None or (pandas and math.isnan(given_one)):
            assert found is None or (pandas and math.isnan(found))
        else:
            assert (found == given_one) or (math.isnan(found) and math.isnan(given_one))


def bad_tables() -> dict[str, tuple[str, Any, str]]:
    """The library of each bad table, how to make it, and the words of its refusal."""
    cut = {"home": HOMES["home"][:2]}
    return {
        "no rows": (
            "pandas",
            lambda own: own.DataFrame(HOMES)[:0],
            "rows in a pandas DataFrame, got an empty",
        ),
        "no rows in Arrow": (
            "pyarrow",
            lambda own: own.table(HOMES)[:0],
            "rows in an Arrow table, got an empty",
        ),
        "no columns": ("pandas", lambda own: own.DataFrame(), "columns in a pandas DataFrame, got none"),
        "twins": (
            "pandas",
            lambda own: own.DataFrame([["Z9", 2]], columns=["a", "a"]),
            'case, got "a"; rename',
        ),
        "twins but for case": (
            "pyarrow",
            lambda own: own.Table.from_arrays([own.array([1]), own.array([2])], names=["a", "A"]),
            'got "a", "A"; rename',
        ),
        "numbered columns": ("pandas", lambda own: own.DataFrame([["Z9", 2]]), "that are text, got another"),
        "mixed objects": (
            "pandas",
            lambda own: own.DataFrame({**cut, "watts": ["Z9", 1]}),
            'of one type each, got Python objects in "watts"',
        ),
        "numbers of two kinds as objects": (
            "pandas",
            lambda own: own.DataFrame({"home": own.Series([2**53 + 1, 0.5], dtype=object)}),
            'of one type each, got Python objects in "home"',
        ),
        "numbers too large as objects": (
            "pandas",
            lambda own: own.DataFrame({"home": own.Series([2**70, 1], dtype=object)}),
            'of one type each, got Python objects in "home"',
        ),
        "Polars objects": (
            "polars",
            lambda own: own.DataFrame({"watts": own.Series(["Z9", 1], dtype=own.Object)}),
            'of one type each, got Python objects in "watts"',
        ),
        "complex numbers": (
            "pandas",
            lambda own: own.DataFrame({**cut, "watts": [1j, 2j]}),
            "that DuckDB can read, got NotImplementedException",
        ),
        "lists": (
            "pyarrow",
            lambda own: own.table({"home": ["Z9"], "feeder": ["a"], "watts": [[1.0]]}),
            'expected a number secret, got "watts"',
        ),
        "a lazy frame": ("polars", lambda own: own.LazyFrame(HOMES), "got LazyFrame; call collect() first"),
        "a stream": ("pyarrow", lambda own: own.table(HOMES).to_reader(), "call read_all() first"),
        "a series": ("pandas", lambda own: own.Series([1.0]), "got Series; call to_frame() first"),
        "an array": ("numpy", lambda own: own.ones((2, 2)), "got ndarray; name its columns"),
        "a number": ("numpy", lambda own: 5, "expected text in quotes, got 5"),
        "a list": ("numpy", lambda own: ["Z9"], "a pandas or Polars DataFrame, an Arrow table"),
        "a query that fails": (
            "duckdb",
            lambda own: own.sql("SELECT x AS home, CAST(x AS INT) AS watts FROM (VALUES ('Z9')) AS t(x)"),
            "a DuckDB relation that DuckDB can read, got",
        ),
    }


@pytest.mark.parametrize("case", bad_tables())
def test_a_bad_table_is_refused_in_one_line(case: str) -> None:
    name, make, words = bad_tables()[case]
    with pytest.raises(InvalidPlan) as caught:
        sl.audit(plan_over(make(library(name))))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "Z9" not in str(caught.value), "no value of a record"


def test_a_relation_of_a_closed_connection_is_refused() -> None:
    connection = duckdb.connect()
    closed = connection.sql("SELECT 'A' AS home, 'n' AS feeder, 1.0 AS watts")
    connection.close()
    with pytest.raises(InvalidPlan, match="a DuckDB relation that DuckDB can read, got ConnectionException"):
        sl.audit(plan_over(closed))


def test_a_relation_runs_once() -> None:
    source = duckdb.connect().sql("SELECT i AS home, random() AS watts FROM range(9) AS t(i)")
    engine = open_source(in_memory(source), base=Path())
    first = engine.fetch("SELECT watts FROM data ORDER BY home")["watts"].tolist()
    assert engine.fetch("SELECT watts FROM data ORDER BY home")["watts"].tolist() == first
    engine.check_unchanged()
    engine.close()


def test_whole_numbers_beyond_a_double_stay_distinct() -> None:
    source = duckdb.connect().sql("SELECT 9007199254740992::HUGEINT + i AS home FROM range(2) AS t(i)")
    engine = open_source(in_memory(source), base=Path())
    assert engine.fetch("SELECT COUNT(DISTINCT home) AS n FROM data")["n"].tolist() == [2]
    engine.close()


def test_a_table_that_changes_while_it_is_read_is_refused() -> None:
    pyarrow = library("pyarrow")
    values = np.array([1.0, 2.0])
    table = pyarrow.table(
        {
            "home": ["A", "B"],
            "watts": pyarrow.Array.from_buffers(pyarrow.float64(), 2, [None, pyarrow.py_buffer(values)]),
        }
    )
    engine = open_source(in_memory(table), base=Path())
    values[0] = 7.0
    with pytest.raises(InvalidPlan, match="a table in memory that nobody changes"):
        engine.check_unchanged()
    engine.close()


def test_no_library_is_imported_for_a_table_of_another() -> None:
    script = "import sys, sightline.auditing.plan; print({'pandas', 'polars', 'pyarrow'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
