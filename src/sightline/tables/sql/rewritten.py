"""Forms of a SELECT that mean the same as simpler ones: it is rewritten, and the simpler form is read.

``CASE WHEN COUNT(*) >= 10 THEN AVG(x) END`` publishes the groups that ``HAVING COUNT(*) >= 10`` keeps, and
NULL, or a text such as 'suppressed', for the others. ``SUM(x - 100)`` is ``SUM(x) - 100 * COUNT(x)``. A
subquery that is one number is a release of its own, with which the others are computed. ``CASE k WHEN 1 THEN
x END`` is ``CASE WHEN k = 1 THEN x END``.
"""

from __future__ import annotations

from sqlglot import exp

from sightline.tables.sql.grammar import refuse, shown
from sightline.tables.sql.secret_conditions import constant_of

_CONSTANT = "sightline constant"


def rewritten(select: exp.Select) -> list[exp.Select]:
    """A SELECT in its simplest form, and the SELECTs whose one number its items are computed with."""
    whole = select.copy()
    for item, own in zip(whole.expressions, select.expressions, strict=True):
        item.unalias().meta.update(own.unalias().meta)
    for case in [node for item in whole.expressions for node in item.find_all(exp.Case) if node.this]:
        for branch in case.args["ifs"]:
            branch.set("this", exp.EQ(this=case.this.copy(), expression=branch.this))
        case.set("this", None)
    apart = _single_numbers(whole)
    _suppress_by_having(whole)
    for call in [node for item in whole.expressions for node in item.find_all(exp.Sum, exp.Avg)]:
        _take_constant_out(call)
    return [whole, *apart]


def is_another_number(node: exp.Expr) -> bool:
    """Whether a part of an item stands for the one number of another SELECT."""
    return bool(node.meta.get(_CONSTANT))


def _single_numbers(select: exp.Select) -> list[exp.Select]:
    """Take the subqueries of one number out of the items."""
    found = []
    for item in select.expressions:
        for subquery in list(item.find_all(exp.Subquery)):
            inner = subquery.this
            single = isinstance(inner, exp.Select) and len(inner.expressions) == 1
            if not single or inner.args.get("group") or inner.find(exp.AggFunc) is None:
                refuse(
                    "a subquery that is one aggregate over all rows, without GROUP BY",
                    got=shown(subquery),
                    fix="join a declared table, or put the subquery into FROM",
                )
            number = exp.Literal.number(1)
            number.meta[_CONSTANT] = True
            subquery.replace(number)
            found.append(inner.copy())
    return found


def _suppress_by_having(select: exp.Select) -> None:
    """Write CASE around all items that depend on one condition as HAVING."""
    conditions: dict[str, exp.Expr] = {}
    for item in select.expressions:
        case = item.unalias().unnest()
        parts = _suppressed(case)
        if parts is None:
            continue
        condition, value = parts
        conditions[condition.sql()] = condition
        value.meta.update(case.meta)
        case.replace(value)
    if len(conditions) > 1:
        refuse(
            "one CASE on public aggregates for all items",
            got=" and ".join(shown(one) for one in list(conditions.values())[:2]),
            fix="publish them in several releases",
        )
    for condition in conditions.values():
        having = select.args.get("having")
        both = condition if having is None else exp.and_(having.this, condition)
        select.set("having", exp.Having(this=both.copy()))


def _suppressed(node: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """The condition under which CASE publishes an aggregate, and the aggregate; None for another CASE."""
    if not isinstance(node, exp.Case) or node.this is not None or len(node.args["ifs"]) != 1:
        return None
    branch, otherwise = node.args["ifs"][0], node.args.get("default")
    condition, value = branch.this, branch.args["true"]
    if condition.find(exp.AggFunc) is None:
        return None
    if otherwise is None or _says_nothing(otherwise):
        return condition.copy(), _number(value)
    if _says_nothing(value):
        opposite = exp.Not(this=exp.paren(exp.Coalesce(this=condition.copy(), expressions=[exp.false()])))
        return opposite, _number(otherwise)
    return None


def _says_nothing(node: exp.Expr) -> bool:
    """Whether it is what a suppressed group shows: NULL, or a text such as 'suppressed'."""
    plain = node.unnest()
    return isinstance(plain, exp.Null) or (isinstance(plain, exp.Literal) and plain.is_string)


def _number(value: exp.Expr) -> exp.Expr:
    """A number that is written as text, so that a column can also hold 'suppressed', is that number."""
    plain = value.unnest()
    if isinstance(plain, exp.Cast) and plain.to.is_type(*exp.DataType.TEXT_TYPES):
        plain = plain.this.unnest()
    return plain.copy()


def _take_constant_out(call: exp.Expr) -> None:
    """Write SUM(x - c) as SUM(x) - c * COUNT(x), and AVG(x - c) as AVG(x) - c."""
    sides = call.this.unnest() if call.this is not None else None
    if not isinstance(sides, exp.Add | exp.Sub) or call.find_ancestor(exp.Window) is not None:
        return
    constant = sides.expression.unnest()
    if constant_of(constant) is None or sides.find(exp.Column) is None:
        return
    outer = call.parent if isinstance(call.parent, exp.Filter) else call
    rest = outer.copy()
    inner = rest.this if isinstance(rest, exp.Filter) else rest
    inner.set("this", sides.this.copy())
    added: exp.Expr = constant.copy()
    if isinstance(call, exp.Sum):
        counted = outer.copy()
        counting = exp.Count(this=sides.this.copy(), big_int=True)
        if isinstance(counted, exp.Filter):
            counted.set("this", counting)
        added = exp.Mul(
            this=constant.copy(), expression=counted if isinstance(counted, exp.Filter) else counting
        )
    outer.replace(exp.paren(type(sides)(this=rest, expression=added)))
