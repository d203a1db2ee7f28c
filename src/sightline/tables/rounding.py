"""Measure how an engine rounds a published number before noise could be added to it.

Each item of a release runs on the engine with probes in place of its aggregates: whole numbers, halves,
neighbours, small and large ones, of the aggregates' own types. With y the engine's number and y* the same
arithmetic in fractions, a record that moves y* by d moves y by at most d + max(y - y*) - min(y - y*).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from sightline.errors import InvalidPlan
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import Band, Computed, Feature, Membership, Partition, Statistic
from sightline.tables.sql.published_items import PublishedItem
from sightline.tables.sql.reader import ReleaseQuery
from sightline.tables.subject import Subject

_FLOATING = 2.0**-46  # double precision after some operations; it is not asked about anywhere
_NUMBERS = ("int", "double", "real", "float", "numeric", "decimal", "long")
_SINGLE = ("real", "float", "float4")  # types of 24 bits
_DIVISORS = (11, 97)  # for public aggregates: no divisor of each other, of powers of ten or of a week
_RANDOM_PROBES = 60


def with_measured_rounding(
    engine: Engine, queries: Sequence[ReleaseQuery], membership: Membership, subject: Subject
) -> Membership:
    """The membership with the step that the engine rounds each published number to, where it is coarser
    than what the SQL says.
    """
    items = {
        (number, item.select, item.aggregate): item
        for number, query in enumerate(queries)
        for item in query.items
    }
    rows = np.zeros(len(membership.partitions))
    np.maximum.at(rows, [cell.partition for cell in membership.cells], [c.rows for c in membership.cells])
    weights = np.ones(len(membership.partitions))
    np.maximum.at(weights, [cell.partition for cell in membership.cells], membership.largest_weights)
    measured: dict[tuple[Any, ...], float] = {}
    types: dict[str, list[str]] = {}
    partitions = list(membership.partitions)
    for place, part in enumerate(partitions):
        item = items.get((part.query, part.select, part.aggregate))
        if item is None or not rows[place]:
            continue
        low, high = _range(part, subject, _two_digits(rows[place]), _two_digits(weights[place]))
        text = item.types(item.source)
        key = (text, item.node.sql(), part.statistic, low, high)
        if key not in measured:
            try:
                if text not in types:
                    types[text] = [str(values[0]) for values in engine.fetch_own(text).values()]
                read = types[text][: len(types[text]) - len(item.written)]
                step = _step(engine, item, read, low=low, high=high, rows=membership.rows)
            except InvalidPlan as error:
                raise InvalidPlan(f'release "{queries[part.query].name}": {error}') from None
            summed = [read[0], *types[text][len(read) :]]  # also as the query itself adds it up
            largest = max(
                _own_step(name, part.statistic, low=low, high=high, rows=float(rows[place]))
                for name in summed
            )
            measured[key] = step + largest * part.computed.factor
        partitions[place] = replace(part, computed=_rounded(part.computed, measured[key]))
    return replace(membership, partitions=tuple(partitions)).of_the_rows_of(membership)


def _rounded(computed: Computed, step: float) -> Computed:
    """What is computed with a number, if the engine rounds it to a step, measured from below."""
    if step <= computed.rounded_to:
        return computed
    above = math.inf if math.isinf(step) else 2.0 ** math.ceil(math.log2(step))
    if above <= 2 * computed.rounded_to:  # what the SQL says, seen by few probes
        return computed
    shown = f"the engine's rounding (steps of {above:g})" if math.isfinite(above) else "the engine's rounding"
    return replace(computed, rounded_to=above, steps=(*computed.steps, shown))


def _range(part: Partition, subject: Subject, rows: float, weight: float) -> tuple[float, float]:
    """Between which numbers an aggregate may be, whatever the secrets are."""
    low, high = (0.0, 1.0)
    if part.feature in (Feature.POWER, Feature.CLIPPED) or (
        part.feature is Feature.VALUE and all(map(math.isfinite, subject.bounds))
    ):
        low, high = subject.bounds
    if part.feature is Feature.CLIPPED and isinstance(part.parameter, Band):
        low, high = max(low, part.parameter.low), min(high, part.parameter.high)
    if part.feature is Feature.POWER and isinstance(part.parameter, float):
        ends = (low**part.parameter, high**part.parameter)
        low, high = min(0.0, *ends), max(ends)
    times = weight * (rows if part.statistic is Statistic.SUM else 1.0)
    least = -high * times if part.weighted else low * times
    return min(least, low * times, 0.0), max(high * times, -low * times if part.weighted else 0.0)


def _two_digits(value: float) -> float:
    """Rounded up to two digits, so that a thousand releases of about as many rows are probed once.

    >>> _two_digits(1234.0), _two_digits(1.0), _two_digits(0.0)
    (1300.0, 1.0, 0.0)
    """
    if not 0 < value < math.inf:
        return float(value)
    digit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return max(float(value), math.ceil(value / digit) * digit)


def _is_number(name: str) -> bool:
    return any(part in name.casefold() for part in _NUMBERS)


def _step(
    engine: Engine, item: PublishedItem, types: Sequence[str], *, low: float, high: float, rows: int
) -> float:
    """The most that the engine's number moves beyond the exact one, over some probes."""
    if not all(map(_is_number, types)):
        return math.inf
    carrier = _probes(low, high)
    several = [float(one) for one in (*_DIVISORS, max(rows, 13))] if len(types) > 1 else [0.0]
    columns: list[list[str]] = [[] for _ in types]
    for public in several:
        for value in carrier:
            for place, column in enumerate(columns):
                column.append(_literal(public if place else value))
    answer = [values.tolist() for values in engine.fetch_own(item.probed(types, columns)).values()]
    steps: dict[tuple[Fraction, ...], list[float]] = {}  # by the public numbers: these do not move
    for *given, found in zip(*answer, strict=True):
        numbers = {place: Fraction(one) for place, one in enumerate(given)}
        exact = item.exactly(numbers)
        if exact is None or not isinstance(found, int | float | Decimal) or not math.isfinite(found):
            continue
        error = float(Fraction(found) - exact.value)
        group = steps.setdefault(tuple(numbers[place] for place in range(1, len(types))), [])
        group.append(error if abs(error) > _FLOATING * float(exact.size) else 0.0)
    return max((max(group) - min(group) for group in steps.values()), default=math.inf)


def _probes(low: float, high: float) -> list[float]:
    """Numbers of a range: whole ones and halves, and at random of every size, with neighbours.

    >>> few = _probes(0.0, 3.0)
    >>> {0.0, 0.5, 1.0, 1.5, 3.0} <= set(few), min(few), max(few)
    (True, 0.0, 3.0)
    """
    draw = random.Random(20)
    values = [float(one) for one in range(21)] + [one + 0.5 for one in range(11)] + [low, high]
    for _ in range(_RANDOM_PROBES):
        end = draw.choice([low, high])
        near = [end * draw.random(), end * 10 ** (-6 * draw.random())]
        values += [
            one for number in near for one in (number, float(round(number)), math.nextafter(number, math.inf))
        ]
    values += [-one for one in values]
    # A number below all that has six digits would be rounded to nothing by some types, or refused.
    return sorted({one for one in values if low <= one <= high and (one == 0 or abs(one) > 1e-30)})


def _own_step(name: str, statistic: Statistic, *, low: float, high: float, rows: float) -> float:
    """What the aggregate's own type rounds: a sum of REAL after every row, a mean of DECIMAL once."""
    if name.casefold() in _SINGLE:
        spacing = float(np.spacing(np.float32(max(abs(low), abs(high)))))
        return spacing * (rows if statistic is Statistic.SUM else 1.0)
    digits = name.partition("(")[2].rstrip(")").split(",")
    if statistic is Statistic.MEAN and len(digits) == 2:
        return 10.0 ** -int(digits[1])
    return 0.0


def _literal(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
