"""Counts as they were published elsewhere, from a file: the intervals are those of its numbers.

The file has the columns of GROUP BY in their order, then one for each count of the query, with a header. An
empty field is a blank, and so is a line that is not there. The table is still needed: it says who is in which
group, and whether it can be the one that was published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from sightline.auditing.release_noise import names_of
from sightline.errors import require_plan
from sightline.noise.count_rules import CountRule
from sightline.tables.engines.address import LARGEST_FILE, csv_lines, named_file
from sightline.tables.membership import Cell, Membership


class PublishedNumbers(NamedTuple):
    """The file, and its lines once it is read: the first is the header."""

    file: str = ""
    lines: tuple[tuple[str, ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.file)


def _named(value: object) -> PublishedNumbers:
    if isinstance(value, PublishedNumbers):
        return value
    require_plan(
        isinstance(value, str) and value.lower().endswith(".csv"),
        "the .csv file of the numbers as they were published",
        got=repr(value[:40]) if isinstance(value, str) else "another value",
    )
    return PublishedNumbers(str(value))


PublishedFile = Annotated[
    PublishedNumbers,
    PlainValidator(_named),
    PlainSerializer(lambda one: one.file, return_type=str),
    WithJsonSchema({"type": "string", "pattern": "\\.[cC][sS][vV]$"}),
]


def with_numbers(stated: PublishedNumbers, release: str, base: Path) -> PublishedNumbers:
    """The numbers of the file, if one is named; relative paths start from ``base``."""
    if not stated or stated.lines:
        return stated
    where = _where(release)
    lines = csv_lines(named_file(stated.file, base, f"{where}: a CSV file"), where, most=LARGEST_FILE)
    listed = tuple(tuple(field.strip() for field in line) for line in lines if line)
    require_plan(
        bool(listed) and len({len(line) for line in listed}) == 1,
        f"{where}: a header, and as many fields in every line",
        got="lines of several lengths" if listed else "an empty file",
    )
    return stated._replace(lines=listed)


def _where(release: str) -> str:
    return f"release {release[:60]!r}: numbers"


def values_of(
    stated: PublishedNumbers, release: str, membership: Membership, query: int, rules: Sequence[CountRule]
) -> dict[int, float]:
    """The published value of every count of a release, by its cell; NaN for a blank."""
    where, values, used = _where(release), dict[int, float](), set[tuple[str, ...]]()
    header, *lines = stated.lines
    parts = [p for p, part in enumerate(membership.partitions) if part.query == query]
    for p in parts:
        start, end = membership.starts[p : p + 2].tolist()
        cells = list(enumerate(membership.cells[start:end], start=start))
        width = len(cells[0][1].key) if cells else 0
        column = _column(header, membership, p, width, alone=len(parts) == 1, where=where)
        keyed = dict[tuple[str, ...], str]()
        for line in lines:
            require_plan(
                line[:width] not in keyed,
                f"{where}: each group once",
                got=f"{', '.join(line[:width])!r:.60} twice",
            )
            keyed[line[:width]] = line[column]
        used |= {cell.key for _, cell in cells}
        idle = [key for key in keyed if key not in used]
        require_plan(
            not idle,
            f"{where}: groups that its query has",
            got=repr(", ".join((idle or [()])[0]))[:60],
            fix="check the spelling, and the order of the columns of GROUP BY",
        )
        for place, cell in cells:
            values[place] = _value(keyed, cell, rules[p], where)
    return values


def _column(
    header: tuple[str, ...], membership: Membership, p: int, width: int, *, alone: bool, where: str
) -> int:
    part = membership.partitions[p]
    names = names_of(part.called or part.label, grouped=width > 0)
    places = [place for place, name in enumerate(header) if place >= width and name in names]
    if alone and not places and len(header) == width + 1:
        places = [width]
    require_plan(
        len(places) == 1,
        f"{where}: the columns of GROUP BY, and one with the name of each count",
        got=f"{len(places)} named {names[-1]!r:.60} after {width}",
    )
    return places[0]


def _value(keyed: dict[tuple[str, ...], str], cell: Cell, rule: CountRule, where: str) -> float:
    """The number of a cell, which its rule must be able to give."""
    text = keyed.get(cell.key, "")
    group = f"the group {', '.join(cell.key)!r:.60}" if cell.key else "the total"
    if not text:
        require_plan(
            rule.below > 0,
            f"{where}: a number for every group, where suppress_below is not stated",
            got=f"none for {group}",
            fix="say below which count they are blank: suppress_below",
        )
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    require_plan(
        math.isfinite(value) and value >= 0,
        f"{where}: counts from 0 on, or nothing for a blank",
        got=f"another field for {group}" if math.isnan(value) else f"a negative one for {group}",
    )
    low, high = rule.known_of_values(np.array([value]))
    possible = bool(low[0] <= high[0]) and (rule.within > 0 or bool(rule.table) or value % rule.to == 0)
    require_plan(
        possible,
        f"{where}: values that the stated rule publishes",
        got=f"{value:g} for {group}",
        fix="state the rule by which they were made, or correct the file",
    )
    return value
