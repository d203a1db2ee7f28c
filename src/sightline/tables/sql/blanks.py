"""Queries that blank small counts of the secret: the query without blanks, and below what they are.

Read are a histogram of the secret with ``HAVING COUNT(*) >= 10``, and counts of a condition on it with
``HAVING`` or ``CASE WHEN … < 5 THEN NULL`` over the same count. A line that is missing and a NULL tell the
same: that the count is below. Anything else is left as it is, for the reader to judge.

For presence, the rows that a query counts are those of people who are in the table: over a frame of people
who might be, ``COUNT(*)`` is a count of those who are.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sightline.tables.sql.grammar import parse_query, refuse, shown

Blanks = tuple[str, int]  # the query without blanks, and the least count that is shown; 0 if all are


def without_blanks(sql: str, *, dialect: str, secret: str, categories: Sequence[str]) -> Blanks:
    """The query without the blanks that depend on the secret; ``categories`` of a yes or no are none.

    >>> without_blanks("SELECT g, CASE WHEN COUNT(*) FILTER (WHERE ill) < 5 THEN NULL "
    ...     "ELSE COUNT(*) FILTER (WHERE ill) END AS n FROM data GROUP BY g", dialect="duckdb",
    ...     secret="ill", categories=[])
    ('SELECT g, COUNT(*) FILTER(WHERE ill) AS n FROM data GROUP BY g', 5)
    """
    tree = parse_query(sql, dialect)
    if not isinstance(tree, exp.Select):
        return sql, 0
    tree = tree.copy()
    cases = [_without_case(item, secret) for item in list(tree.find_all(exp.Case))]
    below = set(cases) - {0}
    shown_always = [item for item in tree.expressions if _mentions(item, secret)]
    if _sorted_by_counts(tree, secret) or (below and len(shown_always) != len(cases)):
        return sql, 0  # the order of lines tells of the counts; another number of the secret is never blank
    having, group = tree.args.get("having"), tree.args.get("group")
    if having is not None:
        count, least = _threshold(having.this)
        keys = list(group.expressions) if group is not None else []
        by_secret = [key for key in keys if _is_column(key, secret)]
        plain = all(
            _counts_rows(one) or _is_column(one, secret) or not one.find(exp.AggFunc)
            for one in (item.unalias() for item in tree.expressions)
        )
        if least and by_secret and plain and _counts_rows(count):
            _unfold(tree, by_secret[0], secret, categories)
            tree.set("having", None)
            below.add(least)
        elif least and _mentions(count, secret) and _publishes_only(tree, count, secret):
            tree.set("having", None)
            below.add(least)
    if len(below) != 1:  # none, or several in one release
        return sql, 0
    return tree.sql(dialect), below.pop()


def counting_presence(sql: str, *, dialect: str, presence: str) -> Blanks:
    """The query over a frame, counting those who are present; a HAVING on the count says which are blank.

    >>> counting_presence("SELECT g, COUNT(*) FROM data GROUP BY g HAVING COUNT(*) > 4", dialect="duckdb",
    ...     presence="presence")
    ('SELECT g, COUNT(*) FILTER(WHERE presence) AS "count" FROM data GROUP BY g', 5)
    """
    tree = parse_query(sql, dialect)
    if not isinstance(tree, exp.Select):
        refuse("presence: one SELECT of counts", got="several")
    tree, least = tree.copy(), 0
    having = tree.args.get("having")
    if having is not None:
        count, least = _threshold(having.this)
        if not least or not _counts_rows(count):
            refuse("presence: HAVING COUNT(*) >= n", got=shown(having.this))
        tree.set("having", None)
    for one in list(tree.find_all(exp.AggFunc)):
        if not _counts_rows(one):
            refuse(
                "presence: releases of COUNT(*), with FILTER or without",
                got=shown(one),
                fix="who is in a table decides its sums and means, too: leave them out, or audit their "
                "column as a secret",
            )
        outer = one.parent if isinstance(one.parent, exp.Filter) else one
        here = exp.column(exp.to_identifier(presence))
        conditions = [outer.args["expression"].this.copy()] if isinstance(outer, exp.Filter) else []
        if any(_mentions(condition, presence) for condition in conditions):
            continue  # read before
        condition = exp.and_(*conditions, here) if conditions else here
        made: exp.Expr = exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=condition))
        if isinstance(outer.parent, exp.Select):
            made = exp.alias_(made, "count", quoted=True)
        outer.replace(made)
    return tree.sql(dialect), least


def _without_case(case: exp.Case, secret: str) -> int:
    """Replace a CASE that blanks a small count by the count; what is the least that it shows."""
    branches, default = case.args["ifs"], case.args.get("default")
    if len(branches) != 1 or case.this is not None:
        return 0
    default = exp.Null() if default is None else default
    condition, value = branches[0].this, branches[0].args["true"]
    small = _below(condition)
    if small[1] and isinstance(value, exp.Null) and default == small[0] and _mentions(default, secret):
        case.replace(default.copy())
        return small[1]
    count, least = _threshold(condition)
    if least and isinstance(default, exp.Null) and value == count and _mentions(value, secret):
        case.replace(value.copy())
        return least
    return 0


def _threshold(condition: exp.Expr) -> tuple[exp.Expr, int]:
    """A count and n of a condition that it is at least n; n = 0 for any other."""
    match condition:
        case exp.Paren():
            return _threshold(condition.this)
        case exp.GTE(this=count, expression=exp.Literal() as least) if least.is_int:
            return count, int(least.this)
        case exp.GT(this=count, expression=exp.Literal() as least) if least.is_int:
            return count, int(least.this) + 1
        case exp.LTE(this=exp.Literal() as least, expression=count) if least.is_int:
            return count, int(least.this)
        case exp.LT(this=exp.Literal() as least, expression=count) if least.is_int:
            return count, int(least.this) + 1
        case _:
            return condition, 0


def _below(condition: exp.Expr) -> tuple[exp.Expr, int]:
    """A count and n of a condition that it is below n; n = 0 for any other."""
    match condition:
        case exp.Paren():
            return _below(condition.this)
        case exp.LT(this=count, expression=exp.Literal() as least) if least.is_int:
            return count, int(least.this)
        case exp.LTE(this=count, expression=exp.Literal() as least) if least.is_int:
            return count, int(least.this) + 1
        case _:
            return condition, 0


def _counts_rows(node: exp.Expr) -> bool:
    """Whether it is COUNT(*), or COUNT(1)."""
    return isinstance(node, exp.Count) and isinstance(node.this, exp.Star | exp.Literal)


def _is_column(node: exp.Expr, name: str) -> bool:
    return isinstance(node, exp.Column) and node.name.casefold() == name.casefold()


def _mentions(node: exp.Expr, name: str) -> bool:
    return any(_is_column(one, name) for one in node.find_all(exp.Column))


def _sorted_by_counts(tree: exp.Select, secret: str) -> bool:
    """Whether lines are in another order than that of public keys."""
    order, group = tree.args.get("order"), tree.args.get("group")
    keys = {key.name.casefold() for key in group.expressions} if group is not None else set()
    ordered = [one.this for one in order.expressions] if order is not None else []
    return any(
        not isinstance(one, exp.Column) or one.name.casefold() not in keys - {secret.casefold()}
        for one in ordered
    )


def _publishes_only(tree: exp.Select, count: exp.Expr, secret: str) -> bool:
    """Whether all that a query publishes of the secret is one count."""
    items = [one.this if isinstance(one, exp.Alias) else one for one in tree.expressions]
    about = [one for one in items if _mentions(one, secret)]
    return bool(about) and all(one == count for one in about)


def _unfold(tree: exp.Select, key: exp.Expr, secret: str, categories: Sequence[str]) -> None:
    """A histogram with a line for each value of the secret, as a count for each: no line is missing."""
    column = exp.column(key.name)
    kept = [
        one
        for one in tree.expressions
        if not (_is_column(one.unalias(), secret) or _counts_rows(one.unalias()))
    ]
    conditions: dict[str, exp.Expr] = {
        value: exp.EQ(this=column.copy(), expression=exp.Literal.string(value)) for value in categories
    } or {f"{secret} yes": column.copy(), f"{secret} no": exp.Not(this=column.copy())}
    counts = [
        exp.alias_(
            exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=condition)),
            name,
            quoted=True,
        )
        for name, condition in conditions.items()
    ]
    tree.set("expressions", [*kept, *counts])
    group = tree.args["group"]
    keys = [one for one in group.expressions if one is not key]
    tree.set("group", exp.Group(expressions=keys) if keys else None)
