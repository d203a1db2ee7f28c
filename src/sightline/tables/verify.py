"""Verify that the audited cells are the published groups: run each release's own SQL on the engine.

A group of the engine lies inside one audited cell if the audit's keys have one value in it. If the numbers of
groups and cells agree too, and so do their sizes, then groups and cells are the same sets of rows. In every
row, the number that the SQL adds up must equal the feature of the secret that the audit adds up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import ROUNDING
from sightline.errors import InvalidPlan
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import Membership, UnauditedRows
from sightline.tables.sql.check_query import CheckQuery, QuickCheck, QuickCounts
from sightline.tables.sql.fragments import PER_QUERY
from sightline.tables.sql.grammar import refuse
from sightline.tables.sql.reader import ReleaseQuery

Answer = Mapping[str, NDArray[np.int64]]
_LEFT_OUT = ("unkeyed", "invalid", "missing", "clipped")
_TELLING = ("telling_groups", "telling_who_has_one")


def verify(
    engine: Engine, queries: Sequence[ReleaseQuery], membership: Membership
) -> tuple[UnauditedRows, ...]:
    """Compare each release with the engine's own answer; return the rows that only its SQL aggregates.

    It costs a scan for many releases and, for each, a GROUP BY of its keys. Where these show a difference or
    unaudited rows, the whole check of the release follows. A difference raises ``InvalidPlan`` with the
    release's name.
    """
    for query in queries:
        check_merged(engine, query)
    cells: dict[tuple[int, int], dict[tuple[int, int], Counter[int]]] = {}  # of each SELECT of a release
    by_partition: dict[int, list[int]] = {}
    for cell in membership.cells:
        by_partition.setdefault(cell.partition, []).append(cell.rows)
    for place, part in enumerate(membership.partitions):
        cell_sizes = Counter(by_partition.get(place, ()))
        own = cells.setdefault((part.query, part.select), {})
        first = own.setdefault((part.grouping_set, part.aggregate), cell_sizes)
        assert first == cell_sizes  # the categories of a histogram share their cells
    checks = {
        (number, place): check
        for number, query in enumerate(queries)
        for place, check in enumerate(query.checks)
        if check is not None
    }
    for (number, _), check in checks.items():
        check_rewritten(engine, queries[number].name, check)
    quick = {name: check.quick for name, check in checks.items() if check.quick is not None}
    sizes = {name: cells.get(name, {}) for name in quick}
    least_rows = membership.contributions + 1 if membership.dropped else 0  # then of several persons
    confirmed = quickly_verified(engine, quick, sizes, least_rows=least_rows)
    unaudited: dict[int, list[UnauditedRows]] = {}
    for name, check in checks.items():
        rows_of_query = unaudited.setdefault(name[0], [])
        if name in confirmed:
            continue
        try:
            groups = {
                column: np.asarray(values, dtype=np.int64)
                for column, values in engine.fetch_own(check.sql).items()
            }
            answer = _kept(check, groups)
            _compare(check, answer, cells.get(name, {}))
        except InvalidPlan as error:
            raise InvalidPlan(f'release "{queries[name[0]].name}": {error}') from None
        telling = dict(zip(_TELLING, _telling_groups(check, groups), strict=True))
        telling[_TELLING[1]] *= membership.dropped > 0
        rows_of_query.append(replace(_unaudited(check, answer), **telling))
    return tuple(_together(unaudited.get(number, ())) for number in range(len(queries)))


def check_merged(engine: Engine, query: ReleaseQuery) -> None:
    """Refuse a release whose subqueries were merged into one SELECT that the engine answers differently."""
    for texts in query.merged:
        written, merged = (_lines(engine.fetch_own(text)) for text in texts)
        same = len(written) == len(merged) and all(map(_same_line, written, merged))
        if not same:
            refuse(
                f'release "{query.name}": subqueries that mean the same in one SELECT',
                got="another answer of the engine",
                fix="write one SELECT",
            )


def check_rewritten(engine: Engine, release: str, check: CheckQuery, *, prefix: str = "") -> None:
    """Refuse a release whose aggregates are read as sums that the engine adds up otherwise in some row."""
    for text in check.differing:
        try:
            wrong = int(engine.fetch_own(prefix + text)["n"][0])
        except InvalidPlan as error:
            raise InvalidPlan(f'release "{release}": {error}') from None
        if wrong:
            refuse(
                f'release "{release}": a sum that is made of sums of the secret and of public numbers',
                got=f"another number for {wrong:,} rows",
                fix="the engine computes it otherwise: publish the parts as several aggregates",
            )


def _lines(answer: Mapping[str, NDArray[np.generic]]) -> list[tuple[Any, ...]]:
    """The lines of an answer, in an order that the last digits of a number do not change."""
    columns = [
        [float(one) if isinstance(one, Decimal) else one for one in v.tolist()] for v in answer.values()
    ]
    lines = list(zip(*columns, strict=True))
    return sorted(lines, key=lambda line: [f"{v:.6e}" if isinstance(v, float) else repr(v) for v in line])


def _same_line(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=ROUNDING, abs_tol=ROUNDING) or (a != a and b != b)
        if isinstance(a, float) and isinstance(b, float)
        else a == b
        for a, b in zip(one, other, strict=True)
    )


def _together(found: Sequence[UnauditedRows]) -> UnauditedRows:
    """The unaudited rows of a release of several SELECTs: the most of each kind."""
    if not found:
        return UnauditedRows()
    names = _LEFT_OUT
    return UnauditedRows(
        **{name: max(getattr(rows, name) for rows in found) for name in names},
        **{name: sum(getattr(rows, name) for rows in found) for name in _TELLING},
    )


def _kept(check: CheckQuery, answer: Answer) -> Answer:
    """The groups that HAVING keeps. In every group the audit must keep all rows, or none, as HAVING does."""
    if not check.having:
        return answer
    for place, used in enumerate(check.sets):
        chosen = _rows_of(check, answer, used)
        least, largest = answer[f"h{place}"][chosen], answer[f"i{place}"][chosen]
        audited = largest >= 0  # the group has audited rows
        kept = answer["kept"][chosen][audited]
        if (least[audited] != kept).any() or (largest[audited] != kept).any():
            refuse(
                "the groups that the engine's HAVING keeps",
                got="others",
                fix="the engine reads HAVING differently: write it in a simpler way",
            )
    kept_groups = answer["kept"] == 1
    return {name: values[kept_groups] for name, values in answer.items()}


def _compare(check: CheckQuery, answer: Answer, sizes: Mapping[tuple[int, int], Counter[int]]) -> None:
    times = Counter(check.sets)
    for (place, aggregate), cells in sizes.items():
        chosen = _rows_of(check, answer, check.sets[place])
        numbers = answer[f"n{aggregate}"][chosen]
        repeats = times[check.sets[place]] if check.repeats else 1
        expected = Counter({size: number * repeats for size, number in cells.items()})
        groups = Counter(numbers[numbers > 0].tolist())
        if groups != expected:
            refuse(
                "the groups that the engine makes of this SQL",
                got=f"{_described(cells)} where the engine has {_described(groups)}",
                fix="the engine reads a key or a condition differently: write it in a simpler way",
            )
        grouped = [key for key, used in enumerate(check.sets[place]) if used]
        if any((answer[f"k{key}"][chosen][numbers > 0] == 0).any() for key in grouped):
            refuse(
                "the groups that the engine makes of this SQL",
                got="groups of other rows",
                fix="the engine reads a key differently: write it in a simpler way",
            )
        if answer[f"d{aggregate}"][chosen].any():
            refuse(
                "the numbers that the engine adds up",
                got=f"another number for {int(answer[f'd{aggregate}'][chosen].sum()):,} rows",
                fix="the engine reads an aggregate or its condition differently: write it in a simpler way, "
                "such as x <= 0 for x = 0 where the secret has fractions",
            )


def _rows_of(check: CheckQuery, answer: Answer, used: tuple[bool, ...]) -> NDArray[np.bool_]:
    """The rows of the answer that belong to one grouping set, as a mask."""
    rows = len(next(iter(answer.values())))
    chosen = np.ones(rows, dtype=np.bool_)
    for key, grouped in enumerate(used):
        if f"g{key}" in answer:
            chosen &= (answer[f"g{key}"] == 0) == grouped
    return chosen


def _unaudited(check: CheckQuery, answer: Answer) -> UnauditedRows:
    """The largest numbers of unaudited rows over the release's grouping sets and aggregates."""

    def most(name: str) -> int:
        numbers = [
            int(answer[f"{name}{aggregate}"][_rows_of(check, answer, used)].sum())
            for aggregate in check.aggregates
            for used in check.sets
        ]
        return max(numbers, default=0)

    return UnauditedRows(**{name: most(name) for name in _LEFT_OUT})


def _telling_groups(check: CheckQuery, answer: Answer) -> tuple[int, int]:
    """How many groups tell something of the secrets by the lines and NULLs that the answer has for them.

    The second number is of groups that would tell who has a secret, if rows lacked one. A NULL tells it where
    one person's having one changes it: that is, where at most one of the group has one.
    """
    tells = check.tells
    if not tells.anything:
        return 0, 0
    present = answer["present"] > 0
    telling = present & tells.by_value
    for used, lines in zip(check.sets, tells.lines, strict=True):
        telling |= (answer["lines"] < lines) & present & _rows_of(check, answer, used)
    for place in tells.by_weight:
        telling |= answer[f"without{place}"] > 0
    if check.having:
        telling &= answer["kept"] == 1
    presence = np.full(len(present), tells.exact)
    for place in tells.by_presence:
        presence |= answer[f"few{place}"] == 1
    return int(np.count_nonzero(telling)), int(np.count_nonzero(presence))


def _described(sizes: Counter[int]) -> str:
    rows = sum(size * number for size, number in sizes.items())
    return f"{sizes.total():,} groups of {rows:,} rows"


Name = TypeVar("Name", bound=Hashable)
CellSizes = Mapping[tuple[int, int], Counter[int]]  # by grouping set and aggregate: how many cells of a size
_LISTS_PER_QUERY = 32  # DuckDB joins each long IN list, and many joins take it long


def quickly_verified(
    engine: Engine,
    checks: Mapping[Name, QuickCheck],
    sizes: Mapping[Name, CellSizes],
    *,
    least_rows: int,
) -> set[Name]:
    """The checks that the engine's own answers confirm, with no row that only the release's SQL aggregates.

    A query that fails confirms nothing: a condition may fail on rows that another condition leaves out. Only
    DuckDB goes on after such a failure. Groups of fewer than ``least_rows`` rows
    may be of one person, so that a NULL would tell whether that person has a secret.
    """
    if engine.dialect != "duckdb":
        return set()
    confirmed: set[Name] = set()
    for batch in batches_of_checks(checks):
        try:
            confirmed |= _confirmed(engine, [(name, checks[name], sizes[name]) for name in batch], least_rows)
        except InvalidPlan:
            continue
    return confirmed


def batches_of_checks(checks: Mapping[Name, QuickCheck]) -> Iterator[list[Name]]:
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
            if batch and (len(batch) == PER_QUERY or lists + own > _LISTS_PER_QUERY):
                yield batch
                batch, lists = [], 0
            batch.append(name)
            lists += own
        yield batch


def _confirmed(
    engine: Engine, batch: Sequence[tuple[Name, QuickCheck, CellSizes]], least_rows: int
) -> set[Name]:
    counts = QuickCounts(source=batch[0][1].source)
    asked = [counts.add(check) for _, check, _ in batch]
    answer = {name: int(values[0]) for name, values in engine.fetch_own(counts.sql).items()}
    confirmed = set()
    for (name, check, sizes), columns in zip(batch, asked, strict=True):
        if any(answer[column] for column in columns.wrong):
            continue
        used = {place: answer[column] for place, column in columns.used}
        numbers = {place: [number] for place, number in used.items()}
        if columns.rows:
            all_rows = all(number == answer[columns.rows] for number in used.values())
            grouped = engine.fetch_own(check.sizes(all_rows=all_rows))
            if any(number != 1 for number in grouped["keys"].tolist()):
                continue
            numbers = {place: grouped[f"n{place}"].tolist() for place in used}
        if check.presence and any(min(n, default=least_rows) < least_rows for n in numbers.values()):
            continue
        groups = {
            place: Counter(int(number) for number in of_group if number > 0)
            for place, of_group in numbers.items()
        }
        if all(groups[aggregate] == expected for (_, aggregate), expected in sizes.items()):
            confirmed.add(name)
    return confirmed
