"""The audited rows as SQL: those with a secret and a record key, with their lookups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sightline.tables.engines.protocol import DATA, Column, ColumnKind
from sightline.tables.sql.fragments import quoted
from sightline.tables.sql.grammar import refuse
from sightline.tables.sql.having import WindowColumn
from sightline.tables.sql.reader import ReleaseQuery
from sightline.tables.sql.scope import find_column
from sightline.tables.sql.sources import Join
from sightline.tables.subject import SecretKind, Subject

_LARGEST = "1.7976931348623157e308"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of ``data`` that have a secret and a record key; NaN and infinite secrets count as missing."""

    record: str  # SQL of the record key
    secret: str  # SQL of the secret as a number, a truth value or a text; NULL where it is missing
    joins: tuple[Join, ...]
    windows: tuple[WindowColumn, ...] = ()
    complete: bool = False  # whether it was counted that every row of ``data`` has both
    within: bool = False  # whether it was counted that no secret lies outside its bounds

    @property
    def present(self) -> str:
        return f"{self.record} IS NOT NULL AND {self.secret} IS NOT NULL"

    def source(self, *texts: str | None) -> str:
        """The audited rows as a FROM clause, with the lookups and window columns that ``texts`` use."""
        wanted = " ".join(text for text in texts if text is not None)
        rows = self._with_windows(self._windows(wanted))
        if not self.complete:  # the subquery is called data too, so that conditions stay the same
            rows = f"(SELECT * FROM {rows} WHERE {self.present}) AS {quoted(DATA)}"
        return rows + self._lookups(wanted)

    def every_row(self, *texts: str | None) -> str:
        """All rows as a FROM clause, also those without a secret or a key, with what ``texts`` use."""
        wanted = " ".join(text for text in texts if text is not None)
        return self._with_windows(self._windows(wanted)) + self._lookups(wanted)

    def _windows(self, text: str) -> list[WindowColumn]:
        """The window columns that a text uses, each after those that it is made of."""
        chosen: list[WindowColumn] = []
        for window in reversed(self.windows):
            if window.name in text:
                chosen.append(window)
                text += window.text
        return chosen[::-1]

    def _with_windows(self, windows: Sequence[WindowColumn]) -> str:
        """All rows of ``data``, with window columns, each computed on the result of those before it."""
        rows = f"{quoted(DATA)} AS {quoted(DATA)}"
        waiting = list(windows)
        while waiting:
            own = [one for one in waiting if not any(other.name in one.text for other in waiting)]
            listed = ", ".join(f"{one.text} AS {quoted(one.name)}" for one in own)
            lookups = self._lookups(" ".join(one.text for one in own))
            rows = f"(SELECT {quoted(DATA)}.*, {listed} FROM {rows}{lookups}) AS {quoted(DATA)}"
            waiting = [one for one in waiting if one not in own]
        return rows

    def _lookups(self, text: str) -> str:
        """LEFT JOINs of the lookups that a text uses."""
        chosen: list[Join] = []
        for join in reversed(self.joins):  # a lookup may use an earlier one
            if join.alias in text:
                chosen.append(join)
                text += join.condition
        return "".join(
            f" LEFT JOIN {quoted(join.table)} AS {quoted(join.alias)} ON {join.condition}"
            for join in reversed(chosen)
        )


def clipped_secret(rows: Rows, subject: Subject) -> str:
    """The secret as SQL: a number clipped to its bounds, 1 for a yes and 0 for a no, or a category."""
    if subject.kind is SecretKind.BOOLEAN:
        return f"CASE WHEN {rows.secret} THEN 1.0 ELSE 0.0 END"
    if subject.bounds is None or rows.within:
        return rows.secret
    low, high = subject.bounds
    return f"LEAST(GREATEST({rows.secret}, {low!r}), {high!r})"


def audited_rows(queries: Sequence[ReleaseQuery], subject: Subject, columns: Sequence[Column]) -> Rows:
    """Describe the rows on which ``queries`` are audited, with each distinct lookup once."""
    key, column = find_column(columns, subject.record), find_column(columns, subject.secret)
    lookups: dict[str, Join] = {}
    for join in (join for query in queries for join in query.joins):
        first = lookups.setdefault(join.alias, join)
        if (first.table, first.condition) != (join.table, join.condition):
            refuse("a different alias for each lookup", got=f'"{join.alias}" twice')
    return Rows(
        record=f"{quoted(DATA)}.{quoted(key.name)}",
        secret=_secret(f"{quoted(DATA)}.{quoted(column.name)}", column=column, kind=subject.kind),
        joins=tuple(lookups.values()),
        windows=tuple({window.name: window for query in queries for window in query.windows}.values()),
    )


def _secret(name: str, *, column: Column, kind: SecretKind) -> str:
    if kind is SecretKind.NUMBER:
        # NaN is larger than every number on all three engines, so only finite numbers remain.
        return f"CASE WHEN ABS(CAST({name} AS DOUBLE)) <= {_LARGEST} THEN CAST({name} AS DOUBLE) END"
    if kind is SecretKind.BOOLEAN and column.kind is ColumnKind.NUMBER:
        return f"CASE WHEN {name} = 1 THEN TRUE WHEN {name} = 0 THEN FALSE END"
    return name
