"""Open the engine that holds a plan's data source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sightline.errors import InvalidPlan
from sightline.tables.engines.address import POSTGRES_SCHEMES, SPARK_SCHEMES, checked_source, scheme_of
from sightline.tables.engines.duckdb_engine import DuckDBEngine
from sightline.tables.engines.local_tables import InMemoryTable
from sightline.tables.engines.protocol import DATA, NO_TABLES, SOURCE, Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_source(
    source: str | Path | InMemoryTable | SparkSession,
    *,
    base: Path,
    table: str | None = None,
    tables: Mapping[str, str] = NO_TABLES,
    memory: float | None = None,
) -> Engine:
    """Open the engine that holds ``source`` and the declared public ``tables``.

    A file is read in place by DuckDB: Parquet, CSV (also ``.gz``), or a table of a DuckDB file
    (``homes.duckdb::homes``). So is a table in memory. ``postgresql://…?table=homes`` is a Postgres server;
    ``spark://…?table=homes`` is Spark (also ``sc://…`` for Spark Connect, ``spark://local[2]`` in this
    process), and so is a ``SparkSession`` with ``table``. Relative paths count from ``base``, the plan's
    folder. ``memory`` bounds the bytes that DuckDB takes; the other engines have limits of their own.
    """
    folded = [name.casefold() for name in (DATA, SOURCE, *tables)]
    if len(set(folded)) < len(folded):
        raise InvalidPlan(
            f"expected declared tables with names of their own, got {', '.join(tables)}; "
            "the plan's own table is data, or source, and names that differ only in case are the same"
        )
    if isinstance(source, InMemoryTable):
        return DuckDBEngine(source, tables=tables, base=base, memory=memory)
    if not isinstance(source, str | Path):
        from sightline.tables.engines.spark_engine import SparkEngine

        if table is None:
            raise InvalidPlan("expected the table's name with a SparkSession, got none; give table='homes'")
        return SparkEngine(source, table=table, tables=tables)
    source = checked_source(str(source))
    match scheme_of(source):
        case None:
            return DuckDBEngine(source, tables=tables, base=base, memory=memory)
        case scheme if scheme in POSTGRES_SCHEMES:
            from sightline.tables.engines.postgres_engine import PostgresEngine

            return PostgresEngine(source, table=table, tables=tables)
        case scheme if scheme in SPARK_SCHEMES:
            from sightline.tables.engines.spark_engine import connect

            return connect(source, table=table, tables=tables)
        case other:
            raise InvalidPlan(
                f"expected a file, postgresql:// or spark:// as the data source, got {other}://; "
                "download the table first, or use one of these engines"
            )
