"""Which releases a few counts show to be as the audit reads them; the others need the check of each group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

from sightline.errors import InvalidPlan
from sightline.tables.engines.protocol import Engine
from sightline.tables.sql.quick_check import QuickCheck, QuickCounts

Name = TypeVar("Name", bound=Hashable)
CellSizes = Mapping[tuple[int, int], Counter[int]]  # by grouping set and aggregate: how many cells of a size
_PER_QUERY = 50  # checks
_LISTS_PER_QUERY = 32  # DuckDB joins each long IN list, and many joins take it long


def quickly_verified(
    engine: Engine, checks: Mapping[Name, QuickCheck], sizes: Mapping[Name, CellSizes]
) -> set[Name]:
    """The checks that the engine's own answers confirm, with no row that only the release's SQL aggregates.

    A query that fails confirms nothing: a condition may fail on rows that another condition leaves out. Only
    DuckDB goes on after such a failure.
    """
    if engine.dialect != "duckdb":
        return set()
    found: set[Name] = set()
    for batch in _batches(checks):
        try:
            found |= _confirmed(engine, [(name, checks[name], sizes[name]) for name in batch])
        except InvalidPlan:
            continue
    return found


def _batches(checks: Mapping[Name, QuickCheck]) -> Iterator[list[Name]]:
    """Checks of one source that one query answers."""
    by_source: dict[str, list[Name]] = {}
    for name, check in checks.items():
        by_source.setdefault(check.source, []).append(name)
    for names in by_source.values():
        batch: list[Name] = []
        lists = 0
        for name in names:
            check = checks[name]
            own = sum(
                text.count(" IN (") for text in (check.where, *(one.inside for one in check.aggregates))
            )
            if batch and (len(batch) == _PER_QUERY or lists + own > _LISTS_PER_QUERY):
                yield batch
                batch, lists = [], 0
            batch.append(name)
            lists += own
        yield batch


def _confirmed(engine: Engine, batch: Sequence[tuple[Name, QuickCheck, CellSizes]]) -> set[Name]:
    counts = QuickCounts(source=batch[0][1].source)
    asked = [counts.add(check) for _, check, _ in batch]
    answer = {name: int(values[0]) for name, values in engine.fetch_own(counts.sql).items()}
    found = set()
    for (name, check, sizes), columns in zip(batch, asked, strict=True):
        if any(answer[column] for column in columns.wrong):
            continue
        used = {place: answer[column] for place, column in columns.used}
        groups = {place: Counter([number] if number else []) for place, number in used.items()}
        if columns.rows is not None:
            all_rows = all(number == answer[columns.rows] for number in used.values())
            grouped = engine.fetch_own(check.sizes(all_rows=all_rows))
            if any(number != 1 for number in grouped["keys"].tolist()):
                continue
            groups = {place: Counter(_positive(grouped[f"n{place}"].tolist())) for place in used}
        if all(groups[aggregate] == expected for (_, aggregate), expected in sizes.items()):
            found.add(name)
    return found


def _positive(numbers: Sequence[int]) -> list[int]:
    return [int(number) for number in numbers if number > 0]
