"""Functions of the secret with few values: the engine says which secrets have which value.

``LEFT(diagnosis, 1)``, ``diagnosis LIKE 'C%'``, ``ROUND(grade)`` are not read. The engine computes the
expression for every category, for every whole number within the bounds, or at the break points of a number
and between them, in one query without a row of the table. Break points are where a line of the secret meets a
constant that it is compared with, or where it is rounded up or down. What has no such points is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sightline.tables.engines.protocol import DATA
from sightline.tables.membership import Band
from sightline.tables.sql.grammar import WHOLE_NUMBERS, has, text_of
from sightline.tables.sql.number_sets import Bands
from sightline.values import frozen

Ask = Callable[[str], Mapping[str, NDArray[np.generic]]]  # runs one SELECT in the engine's own dialect
MOST_POINTS = 20_000
_SECRET, _VALUES = "secret_of_sightline", "values_of_sightline"  # no names of a plan
_WHOLE_TYPES = {
    "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint",
    "int", "long",
}  # fmt: skip


def tabulate(node: exp.Expr, points: Sequence[str], *, type_name: str, dialect: str, ask: Ask) -> list[Any]:
    """The value of a bound expression of one column at some points, which are SQL constants."""
    written = exp.Paren(this=node.copy())
    for one in list(written.find_all(exp.Column)):
        one.replace(exp.column(_SECRET))
    lines = ", ".join(f"({number}, {point})" for number, point in enumerate(points))
    typed = f"CAST(c AS {type_name}) AS {_SECRET}"
    answer = ask(
        f"SELECT i, {text_of(written, dialect)} AS y "
        f"FROM (SELECT i, {typed} FROM (VALUES {lines}) AS v(i, c)) AS {_VALUES} ORDER BY i"
    )
    return list(answer["y"].tolist())


def type_of(name: str, *, dialect: str, ask: Ask) -> str:
    """The engine's type of a column of ``data``; its name is quoted as the dialect wants it."""
    text = f"CAST(PG_TYPEOF({name}) AS TEXT)" if dialect == "postgres" else f"TYPEOF({name})"
    answer = ask(f"SELECT {text} AS t FROM {DATA} LIMIT 1")["t"]
    if not len(answer):  # of an empty table, the type of a NULL
        answer = ask(f"SELECT {text} AS t FROM (SELECT 1 AS one_line) AS o LEFT JOIN {DATA} ON 1 = 1")["t"]
    type_name = str(answer[0])
    return "bpchar" if type_name == "character" else type_name  # Postgres' character keeps one letter


def is_whole(type_name: str) -> bool:
    """Whether a type has whole numbers alone."""
    return type_name.casefold() in _WHOLE_TYPES


def whole_numbers(bounds: tuple[float, float]) -> list[int]:
    """The whole numbers within some bounds; none if they are too many."""
    if not all(map(math.isfinite, bounds)) or bounds[1] - bounds[0] > MOST_POINTS:
        return []
    return list(range(math.ceil(bounds[0]), math.floor(bounds[1]) + 1))


def sets_of_whole_numbers(numbers: Sequence[int], values: Sequence[Any]) -> dict[Any, Bands]:
    """For each value the numbers that have it, as bands from half below to half above."""
    found: dict[Any, list[Band]] = {}
    for number, value in zip(numbers, values, strict=True):
        bands = found.setdefault(value, [])
        if bands and bands[-1].high == number - 0.5:
            bands[-1] = Band(low=bands[-1].low, high=number + 0.5)
        else:
            bands.append(Band(low=number - 0.5, high=number + 0.5))
    return {value: tuple(bands) for value, bands in found.items()}


def sample_points(breaks: Sequence[float], bounds: tuple[float, float]) -> list[float]:
    """The break points within the bounds, the numbers half way between them, and the bounds."""
    low, high = bounds
    ends = [low if math.isfinite(low) else min(breaks) - 1, high if math.isfinite(high) else max(breaks) + 1]
    inside = sorted({one for one in breaks if ends[0] <= one <= ends[1]} | set(ends))
    middles = [(first + second) / 2 for first, second in pairwise(inside)]
    return sorted([*inside, *middles])


def sets_between(points: Sequence[float], values: Sequence[Any]) -> dict[Any, Bands]:
    """For each value the numbers that have it: points are ends and middles in turn, from an end to an end."""
    found: dict[Any, list[Band]] = {}
    start, last = 0, len(points) - 1
    for place in range(1, len(points) + 1):
        if place <= last and values[place] == values[start]:
            continue
        stop = place - 1
        # An even place is a break point itself; an odd one stands for all numbers between its neighbours.
        low, low_closed = (points[start], True) if start % 2 == 0 else (points[start - 1], False)
        high, high_closed = (points[stop], True) if stop % 2 == 0 else (points[stop + 1], False)
        if start == 0:
            low, low_closed = -math.inf, False
        if stop == last:
            high, high_closed = math.inf, False
        band = Band(low=low, high=high, low_closed=low_closed, high_closed=high_closed)
        found.setdefault(values[start], []).append(band)
        start = place
    return {value: tuple(bands) for value, bands in found.items()}


_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In)
_AROUND = (
    exp.Paren, exp.Case, exp.If, exp.And, exp.Or, exp.Not, exp.Is, exp.Coalesce, exp.Literal, exp.Null,
    exp.Boolean, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Cast, exp.DataType,
    exp.DataTypeParam, exp.Round, exp.Floor, exp.Ceil, exp.Concat, exp.DPipe, exp.Least, exp.Greatest,
    exp.Tuple, exp.Abs, exp.Sign, *_COMPARED,
)  # fmt: skip
Line = Callable[[exp.Expr], tuple[float, float]]  # slope and shift of an expression; NaN of any other


@frozen
class BreakPoints:
    """Lists where an expression of a number may change its value."""

    line: Line
    constant: Callable[[exp.Expr], float]  # the value of a number; NaN of any other expression
    bounds: tuple[float, float]

    def of(self, node: exp.Expr) -> list[float]:
        """The break points in order; none if it may change anywhere, or at too many points."""
        inner = (one for one in node.walk() if not isinstance(one, exp.Column | exp.Identifier))
        if not all(type(one) in _AROUND for one in inner):
            return []
        found = sorted(set(self._breaks(node)))
        return [] if len(found) > MOST_POINTS or any(map(math.isnan, found)) else found

    def _breaks(self, node: exp.Expr) -> Iterator[float]:
        """The break points; NaN where the number itself is used, or a function of it that is not known."""
        if not has(node, exp.Column):
            return
        if math.isfinite(self.line(node)[0]):
            yield math.nan
            return
        steps = self._steps(node)
        if math.isfinite(steps[0]):
            yield from self._halves(*steps)
            return
        sides = list(node.iter_expressions()) if isinstance(node, _COMPARED) else []
        lines = [one for one in map(self.line, sides) if math.isfinite(one[0])]
        if lines:
            levels = [self.constant(part) for part in sides if not has(part, exp.Column)]
            plain = len(lines) == 1 and len(levels) == len(sides) - 1
            yield from ((level - lines[0][1]) / lines[0][0] for level in levels)
            if not plain:
                yield math.nan
            return
        for part in node.iter_expressions():
            yield from self._breaks(part)

    def _steps(self, node: exp.Expr) -> tuple[float, float]:
        """The line whose whole numbers and halves are where a function rounds; NaN if it does not round."""
        scale = math.nan
        if isinstance(node, exp.Round):
            digits = node.args.get("decimals")
            scale = 10.0 ** (0.0 if digits is None else self.constant(digits))
        elif isinstance(node, exp.Floor | exp.Ceil) or _casts_to_whole(node):
            scale = 1.0
        elif isinstance(node, exp.IntDiv):
            scale = 1.0 / (self.constant(node.expression) or math.nan)
        slope, shift = self.line(node.this) if math.isfinite(scale) else (math.nan, math.nan)
        return slope * scale, shift * scale

    def _halves(self, slope: float, shift: float) -> Iterator[float]:
        """Where slope * x + shift is a multiple of one half, within the bounds."""
        ends = sorted(2 * (slope * bound + shift) for bound in self.bounds)
        if slope == 0 or not all(map(math.isfinite, ends)) or ends[1] - ends[0] > MOST_POINTS:
            yield math.nan
            return
        for number in range(math.ceil(ends[0]), math.floor(ends[1]) + 1):
            yield (number / 2 - shift) / slope


def _casts_to_whole(node: exp.Expr) -> bool:
    return isinstance(node, exp.Cast) and node.args["to"].this in WHOLE_NUMBERS
