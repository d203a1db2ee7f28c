"""What the values of the table show: those that the secret takes, and columns that are the secret renamed.

Brackets spread a number over its bounds, and a category over those that are declared. Whoever knows that the
number takes few values, lies in a few clusters or on a lattice, or that a category never occurs, knows more.

The tax on an income, its logarithm and its bracket are functions of it. A sum of them without noise, or a
group by them, publishes the secret. The table shows it: one of the two decides on the other, each value of
one is a range of the other, or their ranks agree. What chance explains is no alarm. A column that agrees with
the secret in too few rows to tell is returned as such. All of it is for the owner only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from math import ceil, inf, isfinite, lgamma, log

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray, distinct_lines
from sightline.tables.engines.protocol import DATA, Engine
from sightline.tables.explained import NOTHING, ExplainedVariance, explained
from sightline.tables.membership import Occurring
from sightline.tables.rows import RowCounts, Rows, audited_rows, clipped_secret
from sightline.tables.sql.fragments import drawn, literal, quoted
from sightline.tables.sql.reader import ReleaseQuery
from sightline.tables.sql.scope import find_column
from sightline.tables.subject import Subject
from sightline.values import frozen

FEW_VALUES = 20  # distinct values of a number that an attacker can round to
_NEARLY_ALL = 0.9  # of the rows
MOST_COUNTED = 5_000_000  # rows of which every value is counted
_BINS = 200  # between the least and the greatest value, in which clusters are looked for
_APART = 3  # empty bins between two clusters
_BY_CHANCE = 4  # rows that are all tens or hundreds by chance; in clusters so many on average in each bin
_CLUSTERS_BY_CHANCE = 1e-3  # of tables of evenly spread values, the share in which few look so
_WIDE_BY_CHANCE = 5e-2  # the same for clusters of any width, which are audited before anything is asked
_STEPS = range(6, -5, -1)  # powers of ten that values may be multiples of
_LIKE_A_KEY = re.compile(
    r"(^|_)(id|key|nr|no|number|customer|person|patient|user|household|home|member|account|client|subject|"
    r"employee|student|name)s?$"
)
_REPEATED = 0.05  # of the rows: a column with fewer different values is a group


def occurring(engine: Engine, rows: Rows, subject: Subject, counts_of_rows: RowCounts) -> Occurring:
    """How the values of a number are spread, and whether they are few; of a category, which never occur."""
    present = counts_of_rows.present
    repeating = _repeating(engine, rows, subject, present) if counts_of_rows.contributions == 1 else ""
    if subject.categories:
        listed = ", ".join(map(literal, subject.categories))
        answer = engine.fetch(
            f"SELECT DISTINCT {rows.secret} AS k FROM {rows.source()} WHERE {rows.secret} IN ({listed})"
        )
        met = set(answer["k"].tolist())
        unused = tuple(name for name in subject.categories if name not in met)
        return Occurring(unused=unused, repeating=repeating)
    if not subject.kind.measured:
        return Occurring(repeating=repeating)
    numbers = _spread(engine, rows, clipped_secret(rows, subject), subject, present)
    return replace(numbers, repeating=repeating)


def occurring_levels(
    engine: Engine, rows: Rows, subject: Subject, counts_of_rows: RowCounts
) -> dict[str, Occurring]:
    """How the levels of a number are spread: the means of records' rows, and by column those of their blocks.

    Whoever knows how the rows of a record differ from its level learns the level. Rows that are spread evenly
    may have levels that are few, in clusters, or such that totals are whole.
    """
    several = counts_of_rows.contributions > 1 and subject.kind.measured
    blocks = ("", *subject.blocks) if several and not isfinite(subject.known_within) else ()
    return {block: _levels(engine, rows, subject, block) for block in blocks}


def _levels(engine: Engine, rows: Rows, subject: Subject, block: str) -> Occurring:
    """How the means of the rows of a record, or of its block, are spread."""
    keys = [rows.record]
    if block:
        keys.append(f"{quoted(DATA)}.{quoted(find_column(engine.columns(), block).name)}")
    value = f"CAST({clipped_secret(rows, subject)} AS DOUBLE)"
    added = f"SELECT SUM({value}) AS total, COUNT(*) AS n FROM {rows.source()} GROUP BY {', '.join(keys)}"
    answer = engine.fetch(
        f"SELECT MIN(n) AS least, MAX(n) AS most, COUNT(*) AS levels FROM ({added}) AS added"
    )
    least, most, present = (int(answer[name][0]) for name in ("least", "most", "levels"))
    size = most if least == most else 1  # totals have the digits that they were made with; means do not
    text = "total" if least == most else "total / n"
    levels = _Levels(secret="level", text=f"(SELECT {text} AS level FROM ({added}) AS added) AS levels")
    low, high = subject.bounds
    about = replace(subject, bounds=(low * size, high * size))
    spread = _spread(engine, levels, levels.secret, about, present)
    scaled = tuple((low / size, high / size, levels) for low, high, levels in spread.clusters)
    return replace(
        spread,
        low=spread.low / size,
        high=spread.high / size,
        step=spread.step / size,
        whole=False,
        clusters=scaled,
    )


@frozen(eq=True)
class _Levels:
    """Numbers that are looked at like the secrets of rows."""

    secret: str
    text: str

    def source(self) -> str:
        """A FROM clause."""
        return self.text


def _spread(engine: Engine, rows: Rows | _Levels, value: str, subject: Subject, present: int) -> Occurring:
    """How numbers are spread, and whether they are few."""
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
    # Rows of a person may repeat a value, which chance drew once.
    several = isinstance(rows, Rows) and subject.most_rows > 1
    low, high, counts, drawn = _bins(engine, rows, value, (least, most), once=several)
    few = few_values(engine, rows, subject, present=present)
    return Occurring(
        low=low,
        high=high,
        counts=counts,
        step=_step(whole, coarse=present > _BY_CHANCE and most > least),
        few=few if few or isfinite(subject.known_within) else _narrow_clusters(low, high, counts),
        whole=not int(answer["fractions"][0]),
        clusters=clusters(low, high, drawn),
    )


def _step(powers: list[int], *, coarse: bool) -> float:
    """The largest power of ten that all values are multiples of; 0 if none is.

    Few values may all be tens by chance, but no chance makes numbers whole, or gives them two digits.

    >>> _step([2, 1, 0], coarse=True), _step([2, 1, 0], coarse=False), _step([-2, -3], coarse=False)
    (100.0, 1.0, 0.01)
    """
    return 10.0 ** (powers[0] if coarse else min(powers[0], 0)) if powers else 0.0


def _repeating(engine: Engine, rows: Rows, subject: Subject, present: int) -> str:
    """A column that is named like a key and repeats, although no record key does."""
    names = [
        column.name
        for column in engine.columns()
        if _LIKE_A_KEY.search(column.name.casefold())
        and column.name.casefold() not in (subject.record.casefold(), subject.secret.casefold())
    ]
    if not names or present > MOST_COUNTED:
        return ""
    texts = ", ".join(f"COUNT(DISTINCT {quoted(name)}) AS n{place}" for place, name in enumerate(names))
    answer = engine.fetch(f"SELECT {texts} FROM {rows.source()}")
    numbers = [int(answer[f"n{place}"][0]) for place in range(len(names))]
    likely = [one for one in zip(numbers, names, strict=True) if _REPEATED * present <= one[0] < present]
    return max(likely)[1] if likely else ""


def _bins(
    engine: Engine, rows: Rows | _Levels, value: str, ends: tuple[float, float], *, once: bool
) -> tuple[FloatArray, FloatArray, IndexArray, IndexArray]:
    """Bins between the least and the greatest value: the ends of the values in each, its rows, and these with
    equal values counted ``once``.
    """
    width = (ends[1] - ends[0]) / _BINS
    bin_of = f"LEAST(FLOOR((v - {ends[0]!r}) / {width!r}), {_BINS - 1})" if width > 0 else "0"
    binned = f"SELECT {bin_of} AS b, v FROM (SELECT {value} AS v FROM {rows.source()}) AS listed"
    drawn = "COUNT(DISTINCT v)" if once else "COUNT(*)"
    answer = engine.fetch(
        f"SELECT b, MIN(v) AS low, MAX(v) AS high, COUNT(*) AS c, {drawn} AS d FROM ({binned}) AS binned "
        "GROUP BY b ORDER BY b"
    )
    low, high = (np.asarray(answer[name], dtype=np.float64) for name in ("low", "high"))
    counts, rows_drawn = (np.asarray(answer[name], dtype=np.intp) for name in ("c", "d"))
    return low, high, counts, rows_drawn


def _narrow_clusters(low: FloatArray, high: FloatArray, counts: IndexArray) -> int:
    """How many clusters the values lie in, if few and narrow, else 0: on and off, with some scatter."""
    far = low[1:] - high[:-1] > _APART / _BINS * (high[-1] - low[0])
    starts = np.append(0, 1 + np.flatnonzero(far))
    narrow = low.size <= 2 * FEW_VALUES  # on average at most two bins, if the clusters are so many
    if not (2 <= starts.size <= FEW_VALUES and narrow):
        return 0
    repeated = _chance(low, high, counts, starts) < log(_CLUSTERS_BY_CHANCE)
    return starts.size if repeated or int(counts.sum()) >= _BY_CHANCE * low.size else 0


def clusters(low: FloatArray, high: FloatArray, counts: IndexArray) -> tuple[tuple[float, float, int], ...]:
    """The clusters of any width that the values lie in, with the rows of each: as many as chance explains
    least; none if chance explains them, or if one has nearly all rows.

    >>> clusters(np.array([0.0, 9.0, 20.0]), np.array([2.0, 10.0, 20.0]), np.array([40, 50, 1]))
    ()
    >>> clusters(np.array([0.0, 9.0]), np.array([2.0, 10.0]), np.array([40, 50]))
    ((0.0, 2.0, 40), (9.0, 10.0, 50))
    """
    gaps = low[1:] - high[:-1]
    widest = np.argsort(-gaps, kind="stable")[: FEW_VALUES - 1]
    widest = widest[gaps[widest] > _APART / _BINS * (high[-1] - low[0])]
    tried = [np.append(0, 1 + np.sort(widest[:number])) for number in range(1, widest.size + 1)]
    chances = [_chance(low, high, counts, starts) for starts in tried]
    if not chances or min(chances) + log(len(tried)) >= log(_WIDE_BY_CHANCE):
        return ()
    starts = tried[int(np.argmin(chances))]
    rows = np.add.reduceat(counts, starts)
    if rows.max() >= _NEARLY_ALL * rows.sum():
        return ()
    ends = np.append(starts[1:], low.size) - 1
    return tuple(zip(low[starts].tolist(), high[ends].tolist(), rows.tolist(), strict=True))


def _chance(low: FloatArray, high: FloatArray, counts: IndexArray, starts: IndexArray) -> float:
    """The log of an upper bound on the chance of so many clusters; 0 if one has a single row."""
    if np.add.reduceat(counts, starts).min() < 2:
        return 0.0
    gaps = float(np.sum(low[starts[1:]] - high[starts[1:] - 1]))
    return _chance_of_clusters(int(counts.sum()), starts.size, 1 - gaps / float(high[-1] - low[0]))


def _chance_of_clusters(rows: int, clusters: int, share: float) -> float:
    r"""The log of an upper bound on the chance that evenly spread values lie in clusters of so small a share.

    The n - 1 spacings of n values are evenly spread over all that add up to the range. Some n - k of them
    make up the clusters:

    .. math:: \binom{n-1}{k-1} P(\mathrm{Beta}(n - k, k - 1) \le f)
        \le \binom{n-1}{k-1} \binom{n-2}{n-k} f^{n-k}

    >>> [round(float(np.exp(_chance_of_clusters(rows, 2, 0.01))), 10) for rows in (3, 4, 6)]
    [0.02, 0.0003, 5e-08]
    """
    chosen = lgamma(rows) - lgamma(clusters) - lgamma(rows - clusters + 1)
    ways = 2 * chosen - log((rows - 1) / (clusters - 1))
    return ways + (rows - clusters) * log(max(share, 1e-300))


def few_values(engine: Engine, rows: Rows | _Levels, subject: Subject, *, present: int) -> int:
    """How many values a number takes in nearly all rows, if they are few and often repeated; else 0.

    Whole numbers on a short range are few even if each occurs once. In very large tables all rows must take
    the few values: to count each value would cost more than the rest of the audit.
    """
    if isfinite(subject.known_within):
        return _within(engine, rows, subject.known_within)
    if present <= MOST_COUNTED and _has_many(engine, rows, present=present):
        return 0
    limit = f"LIMIT {FEW_VALUES + 1}"
    if present <= MOST_COUNTED:
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
    if number <= FEW_VALUES:
        low, high = subject.bounds
        on_a_lattice = not broken and high - low < FEW_VALUES
        # Two rows agree as often as if there were twenty values with even chances.
        repeated = FEW_VALUES * int(np.sum(counts * (counts - 1))) >= present * (present - 1) > 0
        return number if on_a_lattice or present >= 2 * number or repeated else 0
    covered = np.cumsum(counts)[:FEW_VALUES]
    enough = np.flatnonzero(
        (covered >= _NEARLY_ALL * present) & (covered >= 2 * np.arange(1, covered.size + 1))
    )
    return int(enough[0]) + 1 if enough.size else 0


def _has_many(engine: Engine, rows: Rows | _Levels, *, present: int) -> bool:
    """Whether some of the rows show that a few values do not fill nearly all of them.

    If they did, the other rows would be too few for so many different values. Twice as many are looked at.
    """
    others = (1 - _NEARLY_ALL) * present + FEW_VALUES
    some = f"SELECT {rows.secret} AS v FROM {rows.source()} LIMIT {ceil(2 * others)}"
    answer = engine.fetch(f"SELECT COUNT(DISTINCT v) AS n FROM ({some}) AS looked_at")
    return int(answer["n"][0]) > others


def _within(engine: Engine, rows: Rows | _Levels, within: float) -> int:
    """How many values an interval of ± ``within`` has room for, by their least gap; 0 if many."""
    distinct = f"SELECT DISTINCT {rows.secret} AS v FROM {rows.source()}"
    gaps = f"SELECT v - LAG(v) OVER (ORDER BY v) AS gap FROM ({distinct}) AS listed"
    least = engine.fetch(f"SELECT MIN(gap) AS gap FROM ({gaps}) AS gaps")["gap"].tolist()[0]
    if least is None:
        return 1
    return int(2 * within / float(least)) + 1 if 2 * within < FEW_VALUES * float(least) else 0


_MOST_ROWS = 20_000  # that are looked at: drawn by a hash of the key, so that each audit sees the same
_MOST_VALUES = 400_000  # that are fetched
_NEARLY_ONE = 0.98  # rank correlation; heights and weights, prices and sales stay below it
FALSE_ALARMS = 1e-3  # of tables in which no column depends on the secret, the share with an alarm, at most
_FALSE_COPIES = 1e-2  # the same for exact copies: most that are seen in small tables are copies


@frozen(eq=True)
class DerivedColumn:
    """A public column or expression that looks like the secret, and by which figure."""

    name: str
    figure: str
    by_chance: bool = False  # the rows are too few to tell it from chance

    def __str__(self) -> str:
        return f"{self.name}: {self.figure}"


def public_columns(
    engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject, *, rows: int
) -> tuple[tuple[DerivedColumn, ...], ExplainedVariance]:
    """The columns and expressions of some releases that look like the secret of a table with some rows, and
    how much of its variance the others explain.
    """
    columns = {name for query in queries for name in query.columns}
    used = sorted({pair for query in queries for pair in query.public}, key=lambda one: one[0] not in columns)
    if not used:
        return (), NOTHING
    audited = audited_rows(queries, subject, engine.columns())
    texts = dict(used)
    most = min(_MOST_ROWS, _MOST_VALUES // len(texts))
    listed = [f"{audited.secret} AS secret", f"{audited.record} AS record"]
    listed += [f"{text} AS c{place}" for place, text in enumerate(texts.values())]
    some = f" WHERE {drawn(audited.record, most / rows)}" if rows > most else ""
    answer = engine.fetch(f"SELECT {', '.join(listed)} FROM {audited.source(*texts.values())}{some}")
    ordered, secret = subject.kind.measured, answer["secret"]
    codes, record = _codes(secret), _codes(answer["record"])
    derived = []
    for place, name in enumerate(texts):
        column = answer[f"c{place}"]
        there = _there(column)
        values = secret[there], column[there], _codes(codes[there]), record[there]
        patterns = _patterns(*values, ordered=ordered) if there.any() else []
        shown = [one for one in patterns if one.chance < log(one.alarm / len(texts))]
        alike = [one for one in patterns if one.exact and one.chance < log(0.9)]  # not by any column
        if shown or alike:
            figure = (shown or alike)[0].figure
            derived.append(DerivedColumn(name=name, figure=figure, by_chance=not shown))
    named = {one.name for one in derived}
    others = {name: answer[f"c{place}"] for place, name in enumerate(texts) if name not in named}
    # Beside texts, numbers may come as objects.
    return tuple(derived), explained(secret.astype(np.float64 if ordered else np.str_), others, record)


@frozen(eq=True)
class _Pattern:
    """One way in which a column and the secret agree."""

    figure: str
    chance: float  # its log-probability in a table where they are independent; 0 if they do not agree
    exact: bool = False  # whether each value of the one is a value of the other

    @property
    def alarm(self) -> float:
        """The chance below which it is an alarm; three patterns that are not exact are looked for."""
        return _FALSE_COPIES if self.exact else FALSE_ALARMS / 3


def _patterns(
    secret: NDArray[np.generic],
    column: NDArray[np.generic],
    codes: IndexArray,
    record: IndexArray,
    *,
    ordered: bool,
) -> list[_Pattern]:
    """How a column and the secret, whose values have codes, agree."""
    classes = _codes(column)
    if codes.max() == 0 or classes.max() == 0:
        return []
    patterns = []
    numbers = {type(value) for value in column.tolist()} <= {int, float, Decimal}  # truth values are classes
    if ordered and numbers:
        correlation = rank_correlation(secret.astype(np.float64), column.astype(np.float64))
        chance = 0.0
        two_orders_agree = log(2) - lgamma(len(secret) + 1)
        if abs(correlation) >= _NEARLY_ONE and two_orders_agree < log(FALSE_ALARMS / 3):
            chance = -inf
        elif abs(correlation) == 1:
            chance = min(0.0, log(2) + copies(codes, classes, record, in_order=True))
        figure = f"rank correlation {correlation:.3f} with the secret"
        patterns.append(_Pattern(figure=figure, chance=chance, exact=True))
    if ordered:
        chance = is_ranges(secret.astype(np.float64), classes)
        patterns.append(_Pattern(figure="each of its values is a range of the secret", chance=chance))
    patterns.append(_Pattern(figure="the secret decides on it", chance=decides(codes, classes, record)))
    patterns.append(_Pattern(figure="it decides on the secret", chance=decides(classes, codes, record)))
    chance = copies(codes, classes, record)
    figure = "each of its values stands for one of the secret"
    return [*patterns, _Pattern(figure=figure, chance=chance, exact=True)]


def _there(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Where there is a value: neither NULL nor not a number."""
    if values.dtype != np.object_:
        return np.asarray(np.equal(values, values), dtype=np.bool_)
    return np.array([value is not None and value == value for value in values.tolist()], dtype=np.bool_)


def _codes(values: NDArray[np.generic]) -> IndexArray:
    """Equal values by equal whole numbers from 0 on, without gaps."""
    if values.dtype != np.object_:
        return np.asarray(np.unique(values, return_inverse=True, equal_nan=False)[1].ravel(), dtype=np.intp)
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values.tolist()], dtype=np.intp)


def rank_correlation(one: FloatArray, other: FloatArray) -> float:
    """Spearman's rank correlation; values that tie share their mean rank.

    >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([1.0, 8.0, 27.0]))
    1.0
    """
    ranks = [_mean_ranks(values) for values in (one, other)]
    spread = [float(np.std(rank)) for rank in ranks]
    if min(spread) == 0:
        return 0.0
    moment = float(np.mean((ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())))
    return round(moment / (spread[0] * spread[1]), 9)


def _mean_ranks(values: FloatArray) -> FloatArray:
    """The rank of each value; importing scipy.stats would take longer than a small audit."""
    _, rank, times = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(times) - (times - 1) / 2)[rank])


def is_ranges(secret: FloatArray, classes: IndexArray) -> float:
    r"""The log-probability by which each class holds the numbers of a range by chance; 0 if one does not.

    Of the n! / Π nᵢ! orders of n values in k classes of sizes nᵢ, k! have every class in one piece. A class
    of one number is no range: children, whose income is 0, are no bracket of incomes.
    """
    sizes = np.bincount(classes)
    low, high = np.full(len(sizes), np.inf), np.full(len(sizes), -np.inf)
    np.minimum.at(low, classes, secret)
    np.maximum.at(high, classes, secret)
    ranges = (low < high) | (sizes == 1)
    sizes, low, high = sizes[ranges], low[ranges], high[ranges]
    order = np.argsort(low)
    if (high[order][:-1] >= low[order][1:]).any():
        return 0.0
    return lgamma(len(sizes) + 1) + sum(lgamma(size + 1) for size in sizes) - lgamma(sizes.sum() + 1)


def decides(one: IndexArray, other: IndexArray, record: IndexArray) -> float:
    r"""The log-probability by which rows that agree in ``one`` agree in ``other``; 0 if some do not.

    Rows of one record do not count twice. Groups of sizes m agree in values of shares p by chance with
    probability Π Σ pᵐ.
    """
    groups, values = _counted_once(one, other, record)
    sizes = np.bincount(groups)
    shared = sizes[groups] > 1
    if not shared.any():
        return 0.0
    groups, values = groups[shared], values[shared]
    first = np.full(len(sizes), -1, dtype=np.intp)
    first[groups[::-1]] = values[::-1]
    if (values != first[groups]).any():
        return 0.0
    shares = np.bincount(values) / len(values)
    return sum(log(float(np.sum(shares**size))) for size in sizes[sizes > 1].tolist())


def _counted_once(one: IndexArray, other: IndexArray, record: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Two columns without rows of one record that agree in both."""
    if np.bincount(record).max() <= 1:
        return one, other
    rows, _ = distinct_lines(np.stack([one, record, other], axis=1))
    return one[rows], other[rows]


def copies(one: IndexArray, other: IndexArray, record: IndexArray, *, in_order: bool = False) -> float:
    r"""The log-probability by which two columns have the same classes of rows; 0 if they do not.

    Rows of one record that agree count once. Of the n! / Π nᵢ! orders of one column's values, with classes of
    sizes nᵢ, Π mₛ! have the classes of the other, where mₛ classes have the size s: any of these may stand
    for any other. ``in_order`` counts one of them. Columns without a value twice have the same classes.
    """
    classes = _counted_once(one, other, record)
    together = len(distinct_lines(np.stack(classes, axis=1))[0])
    if any(len(np.unique(codes)) != together for codes in classes):
        return 0.0
    sizes = np.bincount(classes[0])
    alike = [] if in_order else np.bincount(sizes[sizes > 0]).tolist()
    ways = sum(lgamma(number + 1) for number in (*sizes.tolist(), *alike))
    return min(0.0, ways - lgamma(sizes.sum() + 1))
