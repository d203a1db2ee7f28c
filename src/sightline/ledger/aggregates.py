"""What a release adds up or averages, between three forms: a partition, an entry's aggregate, and SQL."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray
from sightline.ledger.entries import Aggregate, FrozenNumbers
from sightline.tables.membership import Band, Feature, Parameter, Partition, Statistic
from sightline.tables.sql.fragments import literal, quoted
from sightline.tables.subject import SecretKind


def aggregate_of(part: Partition, *, label: str, law: str, sizes: Sequence[float]) -> Aggregate:
    """The aggregate of a partition, with its noise."""
    levels: tuple[float | None, ...] = ()
    closed: tuple[bool, ...] = ()
    own = part.parameter
    if isinstance(own, Band):
        levels = tuple(end if math.isfinite(end) else None for end in (own.low, own.high))
        closed = (own.low_closed, own.high_closed)
    elif isinstance(own, int | float):
        levels, closed = (float(own),), (part.closed,)
    return Aggregate(
        statistic=part.statistic.value,
        feature=part.feature.value,
        law=law,
        sizes=tuple(sizes),
        label=label,
        above=part.above,
        levels=levels,
        closed=closed,
        categories=part.categories if part.feature is Feature.INDICATOR else (),
    )


def partition_of(aggregate: Aggregate, numbers: FrozenNumbers, *, query: int, name: str) -> Partition:
    """The partition of an aggregate, in a section of a plan with a name."""
    return Partition(
        query=query,
        name=f"{name}: {aggregate.label}" if aggregate.label else name,
        statistic=Statistic(aggregate.statistic),
        feature=Feature(aggregate.feature),
        parameter=_parameter(aggregate),
        above=aggregate.above,
        label=aggregate.label,
        closed=aggregate.closed[:1] == (True,) and len(aggregate.levels) == 1,
        weighted=bool(numbers.weight),
        key_names=(numbers.column,),
    )


def _parameter(aggregate: Aggregate) -> Parameter:
    if aggregate.categories:
        return aggregate.categories if len(aggregate.categories) > 1 else aggregate.categories[0]
    if len(aggregate.levels) < 2:
        return aggregate.levels[0] if aggregate.levels else None
    low, high = aggregate.levels
    return Band(
        low=-math.inf if low is None else low,
        high=math.inf if high is None else high,
        low_closed=aggregate.closed[0],
        high_closed=aggregate.closed[1],
    )


def sql_of(aggregate: Aggregate, *, secret: str, kind: SecretKind, weight: str) -> str:
    """An aggregate as SQL over the ledger's table."""
    column, factor = quoted(secret), quoted(weight) if weight else "1"
    function = "AVG" if aggregate.statistic == "mean" else "SUM"
    condition = _condition(aggregate, column, kind)
    if condition:
        negation = "" if aggregate.above else "NOT "
        return f"{function}(CASE WHEN {negation}({condition}) THEN {factor} ELSE 0 END)"
    value = column
    if aggregate.feature == "power":
        value = f"POWER({column}, {aggregate.levels[0]!r})"
    elif aggregate.feature == "clipped":
        low, high = aggregate.levels
        value = value if low is None else f"GREATEST({value}, {low!r})"
        value = value if high is None else f"LEAST({value}, {high!r})"
    return f"{function}({factor} * {value})" if weight else f"{function}({value})"


def _condition(aggregate: Aggregate, column: str, kind: SecretKind) -> str:
    """What is counted, as SQL; empty if a number is added up."""
    match aggregate.feature:
        case "indicator":
            return f"{column} IN ({', '.join(map(literal, aggregate.categories))})"
        case "threshold":
            return f"{column} {'>=' if aggregate.closed[0] else '>'} {aggregate.levels[0]!r}"
        case "band":
            signs = zip(aggregate.levels, aggregate.closed, "><", strict=True)
            ends = [
                f"{column} {sign}{'=' if closed else ''} {level!r}"
                for level, closed, sign in signs
                if level is not None
            ]
            return " AND ".join(ends)
        case "value" if kind is SecretKind.BOOLEAN:
            return column
    return ""


def aggregated(part: Partition, secrets: NDArray[np.generic]) -> FloatArray:
    """What a partition adds up of each row with some secrets, before its weight."""
    own = part.parameter
    if part.feature is Feature.INDICATOR:
        return np.asarray(np.isin(secrets, list(part.categories)) == part.above, dtype=np.float64)
    values = np.asarray(secrets, dtype=np.float64)
    if isinstance(own, Band) and part.feature is Feature.CLIPPED:
        values = np.clip(values, own.low, own.high)
    elif isinstance(own, Band):
        low = values >= own.low if own.low_closed else values > own.low
        high = values <= own.high if own.high_closed else values < own.high
        values = np.asarray(low & high, dtype=np.float64)
    elif isinstance(own, int | float):
        above = values >= own if part.closed else values > own
        values = values**own if part.feature is Feature.POWER else above.astype(np.float64)
    return values if part.above else 1.0 - values
