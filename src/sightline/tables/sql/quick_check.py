"""A check of a release by few numbers: how many rows are wrong, and the sizes of its groups.

What :mod:`sightline.tables.sql.check_query` counts for every group is 0 in most releases. Here it is counted
over all rows, for many releases of one source in one query: their conditions are columns of it. If no row is
wrong, the engine's own groups remain to be compared.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from sightline.tables.sql.check_texts import AggregateTexts, CheckTexts

_KEY = "key_of_sightline_"  # no name of a column


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickAggregate:
    """The tests of one aggregate, as SQL conditions on a row."""

    place: int  # among the release's aggregates
    inside: str  # the condition that the audit puts the row into a cell
    wrong_inside: str  # such a row is left out by the audit, or its number differs
    wrong_outside: str  # another row changes what the query adds up


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickCheck:
    """The tests of one SELECT in DuckDB's dialect. It has at most one grouping set, and no HAVING."""

    source: str  # FROM and JOIN, as written
    where: str  # the public part of WHERE, as written
    present: str  # the condition that the audit uses the row
    keys: tuple[tuple[str, str], ...]  # of GROUP BY: as written, and as the audit reads it
    aggregates: tuple[QuickAggregate, ...]

    def sizes(self, *, all_rows: bool) -> str:
        """The query for the groups: column ``n2`` has the rows that the audit uses, for aggregate 2.

        ``all_rows`` says that these are all rows. Column ``keys`` counts the audit's keys in a group.
        DuckDB groups once by a column that it is given twice.
        """
        counts = {
            f"n{one.place}": "COUNT(*)"
            if all_rows
            else f"COUNT(CASE WHEN {self.present} AND {one.inside} THEN 1 END)"
            for one in self.aggregates
        }
        names = [f"{_KEY}{place}" for place in range(len(self.keys))]
        listed = [f"{written} AS {name}" for name, (written, _) in zip(names, self.keys, strict=True)]
        listed += [f"{text} AS {name}" for name, text in counts.items()]
        both = ", ".join(text for pair in self.keys for text in pair)
        grouped = f"SELECT {', '.join(listed)} {self.source} WHERE {self.where} GROUP BY {both}"
        sums = ", ".join(f"CAST(SUM({name}) AS BIGINT) AS {name}" for name in counts)
        return f"SELECT COUNT(*) AS keys, {sums} FROM ({grouped}) AS checked GROUP BY {', '.join(names)}"


def quick_check(
    texts: CheckTexts, aggregates: Sequence[AggregateTexts], keys: Sequence[tuple[str, str]]
) -> QuickCheck | None:
    """Write the tests of a SELECT; none if they would mean something else in a query without its WHERE."""
    written = [texts.where, *(text for pair in keys for text in pair)]
    written += [text for one in aggregates for text in (one.inside, one.met, one.value)]
    if any(re.search(r"\bOVER\b", text, re.IGNORECASE) for text in written):
        return None  # a window function sees the rows that WHERE keeps
    return QuickCheck(
        source=texts.source,
        where=texts.where or "1 = 1",
        present=texts.present,
        keys=tuple(keys),
        aggregates=tuple(_quick(texts, one) for one in aggregates),
    )


def _quick(texts: CheckTexts, aggregate: AggregateTexts) -> QuickAggregate:
    assert aggregate.feature is not None  # without a histogram, only what depends on the secret is checked
    differs = [aggregate.differs_from(aggregate.feature)]
    changes = [f"ABS({aggregate.added}) > 0"]
    if aggregate.mean:
        differs.append(f"{aggregate.counted} = 0")
        changes.append(f"{aggregate.counted} = 1")
    left_out = [texts.unkeyed, texts.invalid, texts.missing(aggregate), texts.clipped(aggregate)]
    wrong = [*left_out, *(f"{texts.present} AND {test}" for test in differs)]
    return QuickAggregate(
        place=aggregate.place,
        inside=aggregate.inside,
        wrong_inside=" OR ".join(f"({test})" for test in wrong),
        wrong_outside=" OR ".join(f"({texts.present} AND {test})" for test in changes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CountNames:
    """The columns that answer one check: rows of its WHERE, rows that are used, rows that are wrong."""

    rows: str | None  # none without keys
    used: tuple[tuple[int, str], ...]  # for each aggregate
    wrong: tuple[str, ...]


@dataclass(slots=True)
class QuickCounts:
    """One query for the counts of several checks of one source. Equal texts are computed once."""

    source: str
    columns: dict[str, str] = field(default_factory=dict)  # of the inner SELECT: text to name
    counts: dict[str, str] = field(default_factory=dict)  # of the outer SELECT: condition to name

    def add(self, check: QuickCheck) -> CountNames:
        """Add the counts of one check."""
        where, present = self._column(check.where), self._column(check.present)
        used, wrong = [], []
        for one in check.aggregates:
            inside = self._column(one.inside)
            used.append((one.place, self._count(f"{where} AND {inside} AND {present}")))
            found = f"CASE WHEN {inside} THEN {self._column(one.wrong_inside)} "
            found += f"ELSE {self._column(one.wrong_outside)} END"
            wrong.append(self._count(f"{where} AND {found}"))
        rows = self._count(where) if check.keys else None
        return CountNames(rows=rows, used=tuple(used), wrong=tuple(wrong))

    @property
    def sql(self) -> str:
        inner = ", ".join(f"({text}) AS {name}" for text, name in self.columns.items())
        counts = ", ".join(
            f"COUNT(CASE WHEN {test} THEN 1 END) AS {name}" for test, name in self.counts.items()
        )
        return f"SELECT {counts} FROM (SELECT {inner} {self.source}) AS checked"

    def _column(self, text: str) -> str:
        return self.columns.setdefault(text, f"c{len(self.columns)}")

    def _count(self, test: str) -> str:
        return self.counts.setdefault(test, f"n{len(self.counts)}")
