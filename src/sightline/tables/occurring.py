"""The values that a secret takes in the table, where they are few or odd: what an attacker may round to.

Brackets spread a number over its bounds, and a category over those that are declared. Whoever knows that the
number takes few values, lies in a few clusters or on a lattice, or that a category never occurs, knows more.
All of it is for the owner only.
"""

from __future__ import annotations

import re

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import Occurring
from sightline.tables.rows import RowCounts, Rows, clipped_secret
from sightline.tables.sql.fragments import literal, quoted
from sightline.tables.subject import Subject

_FEW_VALUES = 20  # distinct values of a number that an attacker can round to
_NEARLY_ALL = 0.9  # of the rows
_MOST_COUNTED = 5_000_000  # rows of which every value is counted
_MANY_ROWS, _LOOKED_AT = 100_000, 5  # of so many rows, one in five is looked at first
_BINS = 200  # between the least and the greatest value, in which clusters are looked for
_APART = 3  # empty bins between two clusters
_FILLED = 0.2  # of the bins, at most, if the values lie in clusters
_ROWS_PER_CLUSTER = 4  # at least: fewer would lie apart by chance
_STEPS = range(6, -5, -1)  # powers of ten that values may be multiples of
_LIKE_A_KEY = re.compile(
    r"(^|_)(id|key|nr|no|number|customer|person|patient|user|household|home|member|account|client|subject|"
    r"employee|student|name)s?$"
)
_MOST_KEYS = 10  # columns that are named like a key and looked at
_REPEATED = 0.05  # of the rows: a column with fewer different values is a group
_LATTICE_ROWS = 5  # of fewer rows a common step says nothing


def occurring(engine: Engine, rows: Rows, subject: Subject, counts_of_rows: RowCounts) -> Occurring:
    """How the values of a number are spread, and whether they are few; of a category, which never occur."""
    present = counts_of_rows.present
    repeating = _repeating(engine, rows, subject, present) if counts_of_rows.contributions == 1 else None
    if subject.categories is not None:
        listed = ", ".join(map(literal, subject.categories))
        answer = engine.fetch(
            f"SELECT DISTINCT {rows.secret} AS k FROM {rows.source()} WHERE {rows.secret} IN ({listed})"
        )
        found = set(answer["k"].tolist())
        unused = tuple(name for name in subject.categories if name not in found)
        return Occurring(unused=unused, repeating=repeating)
    if subject.bounds is None:
        return Occurring(repeating=repeating)
    value = clipped_secret(rows, subject)
    scaled = {power: f"({value}) {'/' if power >= 0 else '*'} 1e{abs(power)}" for power in _STEPS}
    broken = ", ".join(
        f"COUNT(CASE WHEN ABS({text} - ROUND({text})) > 1e-9 * (1 + ABS({text})) THEN 1 END) AS n{place}"
        for place, text in enumerate(scaled.values())
    )
    answer = engine.fetch(
        f"SELECT MIN({value}) AS least, MAX({value}) AS most, {broken}, COUNT(CASE WHEN {rows.secret} <> "
        f"ROUND({rows.secret}) THEN 1 END) AS fractions FROM {rows.source()}"
    )
    least, most = float(answer["least"][0]), float(answer["most"][0])
    whole = [power for place, power in enumerate(_STEPS) if not int(answer[f"n{place}"][0])]
    low, high, counts = _bins(engine, rows, value, (least, most))
    few = few_values(engine, rows, subject, present=present)
    return Occurring(
        low=low,
        high=high,
        counts=counts,
        step=10.0 ** whole[0] if whole and present >= _LATTICE_ROWS and most > least else None,
        few=_clusters(low, high, counts) if few is None and subject.known_within is None else few,
        repeating=repeating,
        whole=not int(answer["fractions"][0]),
    )


def _repeating(engine: Engine, rows: Rows, subject: Subject, present: int) -> str | None:
    """A column that is named like a key and repeats, although no record key does."""
    names = [
        column.name
        for column in engine.columns()
        if _LIKE_A_KEY.search(column.name.casefold())
        and column.name.casefold() not in (subject.record.casefold(), subject.secret.casefold())
    ][:_MOST_KEYS]
    if not names or present > _MANY_ROWS:
        return None
    texts = ", ".join(f"COUNT(DISTINCT {quoted(name)}) AS n{place}" for place, name in enumerate(names))
    answer = engine.fetch(f"SELECT {texts} FROM {rows.source()}")
    numbers = [int(answer[f"n{place}"][0]) for place in range(len(names))]
    likely = [one for one in zip(numbers, names, strict=True) if _REPEATED * present <= one[0] < present]
    return max(likely)[1] if likely else None


def _bins(
    engine: Engine, rows: Rows, value: str, ends: tuple[float, float]
) -> tuple[FloatArray, FloatArray, IndexArray]:
    """Bins between the least and the greatest value: the ends of the values in each, and its rows."""
    width = (ends[1] - ends[0]) / _BINS
    place = f"LEAST(FLOOR((v - {ends[0]!r}) / {width!r}), {_BINS - 1})" if width > 0 else "0"
    binned = f"SELECT {place} AS b, v FROM (SELECT {value} AS v FROM {rows.source()}) AS listed"
    answer = engine.fetch(
        f"SELECT b, MIN(v) AS low, MAX(v) AS high, COUNT(*) AS c FROM ({binned}) AS binned "
        "GROUP BY b ORDER BY b"
    )
    low, high = (np.asarray(answer[name], dtype=np.float64) for name in ("low", "high"))
    return low, high, np.asarray(answer["c"], dtype=np.intp)


def _clusters(low: FloatArray, high: FloatArray, counts: IndexArray) -> int | None:
    """How many clusters the values lie in, if they are few and narrow: on and off, with some scatter."""
    gaps = low[1:] - high[:-1]
    number = 1 + int(np.count_nonzero(gaps > _APART / _BINS * (high[-1] - low[0])))
    narrow = low.size <= _FILLED * _BINS
    enough = int(counts.sum()) >= _ROWS_PER_CLUSTER * low.size
    return number if 2 <= number <= _FEW_VALUES and narrow and enough else None


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
    counts = answer["c"].astype(np.int64)
    if number <= _FEW_VALUES:
        low, high = subject.bounds
        on_a_lattice = not broken and high - low < _FEW_VALUES
        # Two rows agree as often as if there were twenty values with even chances.
        repeated = _FEW_VALUES * int(np.sum(counts * (counts - 1))) >= present * (present - 1) > 0
        return number if on_a_lattice or present >= 2 * number or repeated else None
    covered = np.cumsum(counts)[:_FEW_VALUES]
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
