"""What decides whether an answer is NULL: nothing, public columns, having a secret, or its value.

No noise hides a NULL. So whatever makes an answer NULL for some secrets and not for others tells something of
them. An expression is followed to its columns: most functions are NULL where an argument is; a sum or a mean
is NULL where it has no row, so that whatever chooses its rows decides; a count never is, but for COUNT_IF,
which DuckDB adds up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from sqlglot import exp

from sightline.tables.sql.grammar import SCALARS
from sightline.values import frozen


class Decides(IntEnum):
    """What decides on something, from what tells least to what tells most of a secret."""

    NOTHING = 0  # it is the same for every table
    PUBLIC = 1  # public columns, and which rows there are
    PRESENCE = 2  # whether rows have a secret at all
    VALUE = 3  # the values of secrets


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What decides whether a column is NULL in a row, and whether its values depend on a secret."""

    null: Decides = Decides.PUBLIC
    secret: bool = False


PUBLIC_COLUMN = ColumnFacts()
SECRET_COLUMN = ColumnFacts(Decides.PRESENCE, secret=True)
_NEVER_NULL: tuple[type[exp.Expr], ...] = (
    exp.Literal, exp.Boolean, exp.Star, exp.Count, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Grouping,
    exp.DataType, exp.Identifier, exp.Var,
)  # fmt: skip
_FIRST_OF_SEVERAL = (exp.Coalesce, exp.Least, exp.Greatest)  # NULL where all arguments are
# Of these the values of the arguments decide, as of any function that a plan cannot contain.
_BY_VALUE: tuple[type[exp.Expr], ...] = (exp.Nullif, exp.In, exp.Null)
# NULL where an argument is, and nowhere else.
_STRICT = tuple({*SCALARS, exp.Alias, exp.Round, exp.Ln, exp.Log, exp.Exp, exp.Sqrt} - {*_BY_VALUE})


@frozen(eq=True)
class NullRule:
    """Says what decides on NULLs in the expressions of one SELECT.

    >>> from sqlglot import parse_one
    >>> rule = NullRule(column=lambda one: SECRET_COLUMN if one.name == "ill" else PUBLIC_COLUMN)
    >>> for text in ("SUM(w) FILTER (WHERE ill)", "COALESCE(SUM(w) FILTER (WHERE ill), 0)", "SUM(ill)"):
    ...     print(rule.null(parse_one(text)).name)
    VALUE
    NOTHING
    PRESENCE
    """

    column: Callable[[exp.Column], ColumnFacts]
    rows: Decides = Decides.PUBLIC  # what chooses the rows that an aggregate is over, beside its own FILTER

    def null(self, node: exp.Expr) -> Decides:
        """What decides whether an expression is NULL."""
        match node:
            case exp.Column():
                return self.column(node).null
            case exp.Filter():
                inner = self.null(node.this)
                return inner and max(inner, self.value(node.expression.this))
            case _ if isinstance(node, _NEVER_NULL):
                return Decides.NOTHING
            case exp.AggFunc():
                return max([self.rows, *map(self.null, node.iter_expressions())])
            case _ if isinstance(node, _FIRST_OF_SEVERAL):
                return self._if_any(list(map(self.null, node.iter_expressions())), least=True)
            case exp.Div() | exp.IntDiv() | exp.Mod():
                divisor = node.expression.unnest()
                zero = Decides.NOTHING if isinstance(divisor, exp.Literal) else self.value(divisor)
                return max(self.null(node.this), zero)
            case exp.Case() | exp.If():
                nulls = list(map(self.null, _branches(node)))  # once: CASE in CASE would take 2^n steps
                if self._there_with_secret(node, nulls):  # no value decides; without a secret there is none
                    return max(nulls)
                return self._if_any(nulls, conditions=_conditions(node))
            case exp.And() | exp.Or():
                return self._of_connected(list(node.flatten()))
            case exp.In() if all(isinstance(one, exp.Literal) for one in node.expressions or [None]):
                return self.null(node.this)
            case _ if isinstance(node, _STRICT):
                return max(map(self.null, node.iter_expressions()), default=Decides.NOTHING)
        return self.value(node)

    def _of_connected(self, parts: list[exp.Expr]) -> Decides:
        """Of AND or OR: if one part is NULL, the values of the others decide."""
        nulls, values = [self.null(one) for one in parts], [self.value(one) for one in parts]
        found = [Decides.NOTHING]
        for place, null in enumerate(nulls):
            if null is not Decides.NOTHING:
                found += [null, *values[:place], *values[place + 1 :]]
        return max(found)

    def _there_with_secret(self, node: exp.Expr, nulls: list[Decides]) -> bool:
        """Whether the only secret column of a CASE is there or nothing is NULL, whichever branch is taken.

        ``nulls`` are what decides whether its branches are.
        """
        secrets = {one.name for one in node.find_all(exp.Column) if self.column(one).secret}
        branches = [one.unnest() for one in _branches(node)]
        own = [isinstance(one, exp.Column) and self.column(one).secret for one in branches]
        never = [null is Decides.NOTHING for null in nulls]
        return len(secrets) == 1 and all(a or b for a, b in zip(own, never, strict=True))

    def _if_any(
        self, found: list[Decides], *, least: bool = False, conditions: tuple[exp.Expr, ...] = ()
    ) -> Decides:
        """Of several results, one is taken: the first that is not NULL, or the one whose condition holds.

        ``found`` is what decides whether each of them is NULL.
        """
        if (min(found) if least else max(found)) is Decides.NOTHING:
            return Decides.NOTHING
        return max([*found, *map(self.value, conditions)])

    def value(self, node: exp.Expr) -> Decides:
        """What decides on the value of an expression; a condition on having a secret decides by that."""
        match node:
            case exp.Column():
                facts = self.column(node)
                return Decides.VALUE if facts.secret else max(Decides.PUBLIC, facts.null)
            case exp.Is(expression=exp.Null()):
                return max(Decides.PUBLIC, self.null(node.this))
            case exp.Count() if not isinstance(node.this, exp.Distinct):
                counted = max(map(self.null, node.iter_expressions()), default=Decides.PUBLIC)
                return max(self.rows, Decides.PUBLIC, counted)
            case exp.AggFunc():
                return max([self.rows, *map(self.value, node.iter_expressions())])
        return max(map(self.value, node.iter_expressions()), default=Decides.PUBLIC)


def _branches(node: exp.Expr) -> list[exp.Expr]:
    """The results of CASE or IF, with the NULL of a missing ELSE."""
    if isinstance(node, exp.If):
        return [node.args["true"], node.args.get("false") or exp.Null()]
    return [*(one.args["true"] for one in node.args["ifs"]), node.args.get("default") or exp.Null()]


def _conditions(node: exp.Expr) -> tuple[exp.Expr, ...]:
    if isinstance(node, exp.If):
        return (node.this,)
    compared = [node.this] if node.this else []
    return (*compared, *(one.this for one in node.args["ifs"]))
