"""Columns that releases use as public and that are the secret under another name.

The tax on an income, its logarithm and its bracket are functions of it. A sum of them without noise, or a
group by them, publishes the secret. The table shows it: one of the two decides on the other, each value of
one is a range of the other, or their ranks agree. What chance explains is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import lgamma, log

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.tables.engines.protocol import Engine
from sightline.tables.rows import audited_rows
from sightline.tables.sql.fragments import literal
from sightline.tables.sql.reader import ReleaseQuery
from sightline.tables.subject import SecretKind, Subject

_MOST_ROWS = 20_000  # that are looked at: drawn by a hash of the key, so that each audit sees the same
_MOST_VALUES = 400_000  # that are fetched
_MOST_COLUMNS = 100
_FEWEST_ROWS = 8  # two orders of eight agree by chance once in twenty thousand
_NEARLY_ONE = 0.98  # rank correlation; heights and weights, prices and sales stay below it
_FALSE_ALARMS = 1e-3  # of tables in which no column depends on the secret, the share with an alarm, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedColumn:
    """A public column or expression that looks like the secret, and by which figure."""

    name: str
    figure: str

    def __str__(self) -> str:
        return f"{self.name}: {self.figure}"


def derived_columns(
    engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject, *, rows: int
) -> tuple[DerivedColumn, ...]:
    """The columns and expressions of some releases that look like the secret of a table with some rows."""
    columns = {name for query in queries for name in query.columns}
    used = sorted({pair for query in queries for pair in query.public}, key=lambda one: one[0] not in columns)
    if not used or rows < _FEWEST_ROWS:
        return ()
    audited = audited_rows(queries, subject, engine.columns())
    texts = dict(used[:_MOST_COLUMNS])
    most = min(_MOST_ROWS, _MOST_VALUES // len(texts))
    listed = [f"{audited.secret} AS secret", f"{audited.record} AS record"]
    listed += [f"{text} AS c{place}" for place, text in enumerate(texts.values())]
    drawn = ""
    if rows > most:
        below = int(most / rows * 16**8)
        hashed = f"SUBSTRING(MD5(CAST({audited.record} AS VARCHAR)), 1, 8)"
        drawn = f" WHERE {hashed} < {literal(f'{below:08x}')}"
    answer = engine.fetch(f"SELECT {', '.join(listed)} FROM {audited.source(*texts.values())}{drawn}")
    ordered = subject.kind is SecretKind.NUMBER
    found = []
    chance = log(_FALSE_ALARMS / (3 * len(texts)))  # three patterns are looked for in each
    for place, name in enumerate(texts):
        column = answer[f"c{place}"]
        there = np.array([value is not None and value == value for value in column.tolist()], dtype=np.bool_)
        values = answer["secret"][there], column[there], _codes(answer["record"][there])
        figure = _figure(*values, ordered=ordered, chance=chance)
        if figure is not None:
            found.append(DerivedColumn(name=name, figure=figure))
    return tuple(found)


def _figure(
    secret: NDArray[np.generic],
    column: NDArray[np.generic],
    record: IndexArray,
    *,
    ordered: bool,
    chance: float,
) -> str | None:
    """What shows that a column is made of the secret; None if nothing does."""
    if len(secret) < _FEWEST_ROWS:
        return None
    codes, classes = _codes(secret), _codes(column)
    if codes.max() == 0 or classes.max() == 0:
        return None
    numbers = {type(value) for value in column.tolist()} <= {int, float, Decimal}  # truth values are classes
    if ordered and numbers:
        correlation = rank_correlation(secret.astype(np.float64), column.astype(np.float64))
        if abs(correlation) >= _NEARLY_ONE:
            return f"rank correlation {correlation:.3f} with the secret"
    if ordered and is_ranges(secret.astype(np.float64), classes) < chance:
        return "each of its values is a range of the secret"
    if decides(codes, classes, record) < chance:
        return "the secret decides on it"
    return "it decides on the secret" if decides(classes, codes, record) < chance else None


def _codes(values: NDArray[np.generic]) -> IndexArray:
    """Equal values by equal whole numbers."""
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
    _, place, times = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(times) - (times - 1) / 2)[place])


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
    pairs = np.unique(np.stack([one, record, other]), axis=1)
    groups, values = pairs[0], pairs[2]
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
