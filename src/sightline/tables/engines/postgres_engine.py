"""Postgres: one read-only transaction, which sees the table as it was at its first query."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import parse_qsl, urlencode, urlunsplit

import numpy as np
import sqlglot
from numpy.typing import NDArray
from sqlglot import exp

from sightline.arrays import AT_A_TIME
from sightline.errors import InvalidPlan, MissingExtra, require
from sightline.tables.engines.address import split_address
from sightline.tables.engines.protocol import DATA, NO_TABLES, SOURCE, Column, ColumnKind, check_names
from sightline.tables.sql.fragments import as_column, translated, with_names

try:
    import psycopg
except ImportError:  # pragma: no cover - the tests have it
    raise MissingExtra(
        "expected psycopg to read postgresql://, got none; pip install 'sightline[postgres]'"
    ) from None

_KINDS = {
    **dict.fromkeys(("int2", "int4", "int8", "float4", "float8", "numeric"), ColumnKind.NUMBER),
    "bool": ColumnKind.BOOLEAN,
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "char", "uuid"), ColumnKind.TEXT),
    **dict.fromkeys(("date", "time", "timetz", "timestamp", "timestamptz"), ColumnKind.TIME),
}
# With row_security off, a query that a policy would give fewer rows fails.
_SETTINGS = (
    "-c default_transaction_read_only=on -c TimeZone=UTC -c lock_timeout=10s -c statement_timeout=30min "
    "-c row_security=off"
)
# Of tables, partitioned tables and materialised views a transaction keeps the rows.
_ROWS_KEPT = ("r", "p", "m")
_VIEWS = ("v", "m")


class PostgresEngine:
    """A table of a Postgres server: ``postgresql://user@host/database?table=schema.homes``.

    Declared tables are tables of the same database. Put the password into ``PGPASSWORD`` or a password file,
    not into a plan. No message repeats the address.
    """

    dialect = "postgres"

    def __init__(self, url: str, *, table: str | None = None, tables: Mapping[str, str] = NO_TABLES) -> None:
        address, named = _without_table(url)
        chosen = table or named
        require(
            chosen is not None,
            "the table's name in the address",
            got="none",
            fix="end it with ?table=homes or ?table=schema.homes",
            error=InvalidPlan,
        )
        self._names = {name: _table(text) for name, text in {SOURCE: str(chosen), **tables}.items()}
        self._relations: dict[str, exp.Table | exp.Subquery] = {DATA: self._names[SOURCE], **self._names}
        try:
            self._connection = psycopg.connect(address, options=_SETTINGS, connect_timeout=10)
        except (psycopg.Error, UnicodeError) as error:
            raise InvalidPlan(
                f"expected a Postgres server that answers, got {type(error).__name__}; "
                "check its host, port, database, user and password"
            ) from None
        # All queries of an audit must see the same rows, even while others write to the table.
        self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        self._connection.read_only = True
        self._in_transaction = True  # False after a failed query has ended the transaction
        try:
            for name in self._names:
                check_names((column.name for column in self.columns(name)), self._names[name].name)
            self._check_distinct()
            self._opened = self._digests()
        except InvalidPlan:
            self.close()
            raise

    def functions(self) -> frozenset[str]:
        with self._cursor() as cursor:
            self._execute(
                cursor,
                "SELECT proname FROM pg_catalog.pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace "
                "GROUP BY proname HAVING bool_and(provolatile = 'i' AND prokind = 'f')",
            )
            return frozenset(str(row[0]) for row in cursor.fetchall())

    def columns(self, table: str = DATA) -> tuple[Column, ...]:
        with self._cursor() as cursor:
            self._execute(cursor, f"SELECT * FROM {self._relations[table].sql('postgres')} LIMIT 0")
            types = self._connection.adapters.types
            return tuple(
                Column(column.name, _kind(types.get(column.type_code))) for column in cursor.description or ()
            )

    def fetch(self, query: str) -> dict[str, NDArray[np.generic]]:
        return self._answer(translated(query, dialect=self.dialect, names=self._relations))

    def fetch_own(self, query: str) -> dict[str, NDArray[np.generic]]:
        return self._answer(with_names(query, dialect=self.dialect, names=self._relations))

    def define(self, query: str) -> None:
        text = with_names(query, dialect=self.dialect, names=self._relations)
        made = sqlglot.parse_one(text, read=self.dialect)
        self._relations[DATA] = exp.Subquery(this=made, alias=exp.TableAlias(this=exp.to_identifier(DATA)))
        self.columns()  # refuses a query that Postgres cannot run

    def compile_own(self, query: str) -> None:
        with self._cursor() as cursor:
            self._execute(cursor, f"EXPLAIN {with_names(query, dialect=self.dialect, names=self._relations)}")

    def check_unchanged(self) -> None:
        require(
            self._in_transaction,
            "one transaction for all queries",
            got="one that a failed query ended",
            fix="run it again",
            error=InvalidPlan,
        )
        require(
            self._digests() == self._opened,
            "a view that shows the same rows each time",
            got="other rows than before",
            fix="copy it into a table",
            error=InvalidPlan,
        )

    def _digests(self) -> dict[str, tuple[object, ...]]:
        """For each view or foreign table, its number of rows and the sum of their hashes.

        A view may compute random numbers, and a foreign table is not part of the transaction.
        """
        digests: dict[str, tuple[object, ...]] = {}
        for name, table in self._names.items():
            text = table.sql("postgres")
            with self._cursor() as cursor:
                self._execute(cursor, f"SELECT relkind FROM pg_class WHERE oid = {self._regclass(name)}")
                kind = (cursor.fetchone() or ("",))[0]
                if kind in _ROWS_KEPT:
                    continue
                hashed = "SUM(CAST(HASHTEXTEXTENDED(CAST(ROW(t.*) AS TEXT), 0) AS NUMERIC))"
                self._execute(cursor, f"SELECT COUNT(*), {hashed} FROM {text} AS t")
                digests[name] = tuple(cursor.fetchone() or ())
        return digests

    def _answer(self, text: str) -> dict[str, NDArray[np.generic]]:
        with self._cursor(binary=True) as cursor:
            self._execute(cursor, text)
            names = [column.name for column in cursor.description or ()]
            blocks: list[list[NDArray[np.generic]]] = [[] for _ in names]
            while rows := self._fetched(cursor):
                for position, block in enumerate(blocks):
                    block.append(as_column([row[position] for row in rows]))
        return {
            name: np.concatenate(block) if block else np.empty(0, dtype=object)
            for name, block in zip(names, blocks, strict=True)
        }

    def interrupt(self) -> None:
        self._connection.cancel()

    def close(self) -> None:
        self._connection.close()

    def _execute(self, cursor: psycopg.Cursor[Any], text: str) -> None:
        try:
            cursor.execute(text.encode())
        except psycopg.Error as error:
            self._in_transaction = False
            with contextlib.suppress(psycopg.Error):
                self._connection.rollback()
            _refuse(error)

    @staticmethod
    def _fetched(cursor: psycopg.Cursor[Any]) -> list[tuple[Any, ...]]:
        try:
            return cursor.fetchmany(AT_A_TIME // max(1, len(cursor.description or ())))
        except psycopg.DataError:
            raise InvalidPlan(
                "expected dates and times from year 1 to 9999, got others, such as infinity; "
                "leave those rows out, or group by something else"
            ) from None

    def _cursor(self, *, binary: bool = False) -> psycopg.Cursor[Any]:
        try:
            return self._connection.cursor(binary=binary)
        except psycopg.Error as error:
            _refuse(error)

    def _check_distinct(self) -> None:
        """Refuse the data as a declared public table, and views: their columns would count as public."""
        data = self._regclass(SOURCE)
        for name in self._names:
            if name == SOURCE:
                continue
            class_of_table = self._regclass(name)
            with self._cursor() as cursor:
                self._execute(
                    cursor,
                    f"SELECT {class_of_table} = {data}, relkind FROM pg_class WHERE oid = {class_of_table}",
                )
                same, kind = cursor.fetchone() or (False, "")
            require(
                not same,
                "declared public tables",
                got="the data source itself as one",
                fix="declare a table without the secret",
                error=InvalidPlan,
            )
            require(
                kind not in _VIEWS,
                f'a table as "{name}"',
                got="a view, which may copy the secret",
                fix="write its rows to a table",
                error=InvalidPlan,
            )

    def _regclass(self, name: str) -> str:
        return f"CAST({exp.Literal.string(self._names[name].sql('postgres')).sql('postgres')} AS REGCLASS)"


def _refuse(error: psycopg.Error) -> NoReturn:
    if error.sqlstate is None or error.sqlstate.startswith(("08", "57P")):
        raise InvalidPlan(
            "expected a Postgres server that stays connected, got a connection that was lost; run it again"
        ) from None
    if isinstance(error, psycopg.errors.QueryCanceled | psycopg.errors.LockNotAvailable):
        raise InvalidPlan(
            "expected an answer from Postgres in time, got none; its limits are 10 s for a lock and 30 min "
            "for a query"
        ) from None
    # Messages of class 42 quote names and types; others may quote a value of the table.
    primary = error.diag.message_primary if (error.sqlstate or "").startswith("42") else None
    detail = " ".join(primary.split()) if primary else type(error).__name__
    raise InvalidPlan(
        f"expected a query that Postgres can run, got {detail}; "
        "check the table's name and the types of its columns"
    ) from None


def _without_table(url: str) -> tuple[str, str | None]:
    parts = split_address(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    named = [value for option, value in options if option == "table"]
    query = urlencode([(option, value) for option, value in options if option != "table"])
    return urlunsplit(parts._replace(query=query)), named[0] if named else None


def _table(text: str) -> exp.Table:
    parts = text.split(".")
    require(
        1 <= len(parts) <= 2 and all(parts),
        "a table as name or schema.name",
        got=f'"{text}"',
        fix="for example ?table=public.homes",
        error=InvalidPlan,
    )
    quoted = [exp.to_identifier(part, quoted=True) for part in parts]
    return exp.Table(this=quoted[-1], db=quoted[0] if len(quoted) == 2 else None)


def _kind(type_info: Any) -> ColumnKind:
    return _KINDS.get(type_info.name, ColumnKind.OTHER) if type_info is not None else ColumnKind.OTHER
