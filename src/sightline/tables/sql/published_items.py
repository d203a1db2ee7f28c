"""What is computed with an aggregate before it is published: as the engine computes it, and exactly.

The noise is taken to be on the aggregate. Where a publisher adds it to the published number instead, whatever
rounds between the two tells more than the aggregate: ``COUNT(*) / 10`` truncates on Postgres, a cast to REAL
keeps 24 bits, and so on. None of these rules is listed here. The item runs on the engine with numbers of the
aggregates' own types in their place, and is compared with the same arithmetic in fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from sqlglot import exp

from sightline.tables.sql.grammar import clause_of, text_of
from sightline.tables.sql.grouping import aggregates_in
from sightline.values import frozen

_STAND_IN = "aggregate_of_sightline_"  # no name of a column
_PROBES = "probes_of_sightline"


@frozen(eq=True, slots=False)
class PublishedItem:
    """An item of a SELECT list with one aggregate that carries the noise."""

    select: int  # among the release's SELECTs
    aggregate: int  # among the SELECT's aggregates
    node: exp.Expr  # the item, as written, without its alias
    carrier: exp.Expr  # the aggregate in it that carries the noise
    dialect: str
    written: tuple[exp.Expr, ...] = ()  # aggregates of the query that it is read in place of

    @cached_property
    def _aggregates(self) -> list[exp.Expr]:
        """The aggregate that carries the noise, and then the public ones."""
        public = [one for one in aggregates_in(self.node) if one is not self.carrier]
        return [self.carrier, *public]

    @cached_property
    def _arithmetic(self) -> exp.Expr:
        """The item with a name in place of each aggregate."""
        numbers = {id(one): place for place, one in enumerate(self._aggregates)}
        places = [numbers[id(one)] for one in aggregates_in(self.node)]
        root = exp.Paren(this=self.node.copy())
        for place, call in zip(places, aggregates_in(root), strict=True):
            call.replace(exp.column(f"{_STAND_IN}{place}"))
        return root

    def types(self, source: str) -> str:
        """The query for the types of its aggregates and of those as written, in order; it reads no row."""
        listed = []
        for place, call in enumerate([*self._aggregates, *self.written]):
            text = text_of(call, self.dialect)
            typed = f"CAST(PG_TYPEOF({text}) AS TEXT)" if self.dialect == "postgres" else f"TYPEOF({text})"
            listed.append(f"{typed} AS t{place}")
        return f"SELECT {', '.join(listed)} {source} WHERE 1 = 0"

    @property
    def source(self) -> str:
        """FROM and JOIN of its SELECT, as written."""
        select = self.node.find_ancestor(exp.Select)
        assert select is not None
        clauses = (clause_of(select, "from_"), *(select.args.get("joins") or ()))
        return " ".join(text_of(one, self.dialect) for one in clauses)

    def probed(self, types: Sequence[str], probes: Sequence[Sequence[str]]) -> str:
        """The query for the item where its aggregates are some numbers, as literals: one list for each.

        Its columns are the numbers ``a0``, ``a1``, … as the types hold them, and what is published, ``y``.
        """
        lines = ", ".join(f"({', '.join(values)})" for values in zip(*probes, strict=True))
        columns = ", ".join(f"c{place}" for place in range(len(types)))
        cast = ", ".join(
            f"CAST(c{place} AS {name}) AS {_STAND_IN}{place}" for place, name in enumerate(types)
        )
        listed = ", ".join(f"{_STAND_IN}{place} AS a{place}" for place in range(len(types)))
        return (
            f"SELECT {listed}, {text_of(self._arithmetic, self.dialect)} AS y FROM "
            f"(SELECT {cast} FROM (VALUES {lines}) AS v({columns})) AS {_PROBES}"
        )

    def exactly(self, numbers: Mapping[int, Fraction]) -> Exact | None:
        """The item in exact arithmetic, without any rounding; None where it is NULL."""
        named = {f"{_STAND_IN}{place}": number for place, number in numbers.items()}
        return _value(self._arithmetic, named)


class Exact(NamedTuple):
    """A number, and the largest number in between: what floating point rounds in proportion to."""

    value: Fraction
    size: Fraction


_BINARY: dict[type[exp.Expr], Callable[[Fraction, Fraction], Fraction]] = {
    exp.Add: lambda a, b: a + b,
    exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b,
    exp.Div: lambda a, b: a / b,
}
_CHOICES: dict[type[exp.Expr], Callable[..., Fraction]] = {exp.Least: min, exp.Greatest: max}
_ROUNDING = (exp.Paren, exp.Cast, exp.Round, exp.Floor, exp.Ceil)


def _value(node: exp.Expr, named: Mapping[str, Fraction]) -> Exact | None:
    """The value of an item's arithmetic: the nodes that :mod:`.select_items` lets pass, and no others."""
    if isinstance(node, exp.Column):
        number = named[node.name]
        return Exact(number, abs(number))
    if isinstance(node, exp.Literal):
        number = Fraction(Decimal(node.name))
        return Exact(number, abs(number))
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, _ROUNDING):
        return _value(node.this, named)
    if isinstance(node, exp.Coalesce):
        parts = [_value(part, named) for part in (node.this, *node.expressions)]
        return next((part for part in parts if part is not None), None)
    children = [_value(part, named) for part in node.iter_expressions()]
    present = [child for child in children if child is not None]
    if len(present) < len(children) and type(node) not in _CHOICES:
        return None
    values, sizes = [child.value for child in present], [child.size for child in present]
    if not values:
        return None
    if type(node) in _CHOICES:
        result = _CHOICES[type(node)](values)
    elif isinstance(node, exp.Neg):
        result = -values[0]
    elif isinstance(node, exp.Abs):
        result = abs(values[0])
    elif isinstance(node, exp.Nullif):
        if values[0] == values[1]:
            return None
        result = values[0]
    elif isinstance(node, exp.Div) and not values[1]:
        return None
    else:
        result = _BINARY[type(node)](*values)
    return Exact(result, max(*sizes, abs(result)))
