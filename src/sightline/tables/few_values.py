"""How many values a number takes, where these are so few that an attacker can round to them."""

from __future__ import annotations

import numpy as np

from sightline.tables.engines.protocol import Engine
from sightline.tables.rows import Rows
from sightline.tables.subject import Subject

_FEW_VALUES = 20  # distinct values of a number that an attacker can round to
_NEARLY_ALL = 0.9  # of the rows
_MOST_COUNTED = 5_000_000  # rows of which every value is counted
_MANY_ROWS, _LOOKED_AT = 100_000, 5  # of so many rows, one in five is looked at first


def few_values(engine: Engine, rows: Rows, subject: Subject, *, present: int) -> int | None:
    """How many values a number takes in nearly all rows, if they are few and often repeated.

    Whole numbers on a short range are few even if each occurs once. In very large tables all rows must take
    the few values: to count each value would cost more than the rest of the audit.
    """
    if subject.bounds is None:
        return None
    if subject.known_within is not None:
        return _within(engine, rows, subject.known_within)
    if _MANY_ROWS < present <= _MOST_COUNTED and _has_many(engine, rows, present=present):
        return None
    limit = f"LIMIT {_FEW_VALUES + 1}"
    if present <= _MOST_COUNTED:
        counted = f"SELECT {rows.secret} AS v, COUNT(*) AS c FROM {rows.source()} GROUP BY {rows.secret}"
        listed = f"SELECT v, c FROM ({counted}) AS counted ORDER BY c DESC, v {limit}"
    else:
        listed = f"SELECT DISTINCT {rows.secret} AS v, 0 AS c FROM {rows.source()} {limit}"
    answer = engine.fetch(
        "SELECT v, c, CASE WHEN v <> ROUND(v) THEN 1 ELSE 0 END AS broken "
        f"FROM ({listed}) AS listed ORDER BY c DESC, v"
    )
    number, broken = len(answer["v"]), any(answer["broken"].tolist())
    if number <= _FEW_VALUES:
        low, high = subject.bounds
        on_a_lattice = not broken and high - low < _FEW_VALUES
        return number if on_a_lattice or present >= 2 * number else None
    covered = np.cumsum(answer["c"].astype(np.int64))[:_FEW_VALUES]
    enough = np.flatnonzero(
        (covered >= _NEARLY_ALL * present) & (covered >= 2 * np.arange(1, covered.size + 1))
    )
    return int(enough[0]) + 1 if enough.size else None


def _has_many(engine: Engine, rows: Rows, *, present: int) -> bool:
    """Whether some of the rows show that a few values do not fill nearly all of them.

    If they did, the other rows would be too few for so many different values.
    """
    some = f"SELECT {rows.secret} AS v FROM {rows.source()} LIMIT {present // _LOOKED_AT}"
    answer = engine.fetch(f"SELECT COUNT(DISTINCT v) AS n FROM ({some}) AS looked_at")
    return int(answer["n"][0]) > (1 - _NEARLY_ALL) * present + _FEW_VALUES


def _within(engine: Engine, rows: Rows, within: float) -> int | None:
    """How many values an interval of ± ``within`` has room for, if few: by the least gap of two values."""
    distinct = f"SELECT DISTINCT {rows.secret} AS v FROM {rows.source()}"
    gaps = f"SELECT v - LAG(v) OVER (ORDER BY v) AS gap FROM ({distinct}) AS listed"
    least = engine.fetch(f"SELECT MIN(gap) AS gap FROM ({gaps}) AS gaps")["gap"].tolist()[0]
    if least is None:
        return 1
    return int(2 * within / float(least)) + 1 if 2 * within < _FEW_VALUES * float(least) else None
