"""Queries that compute with the answers of grouped queries: these answers carry the noise, and are audited.

``SELECT g.dept, g.sex, g.m - d.m FROM (… GROUP BY dept, sex) AS g JOIN (… GROUP BY dept) AS d USING (dept)``
reads no row of ``data`` itself. Whatever is computed with noisy answers tells no more than they do, so it is
audited as the publication of every line and number of both: joins at any grain, aggregates and ranks of
lines, conditions on noisy numbers. Only deterministic functions are read, and no relation but such answers
and declared public tables.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sightline.tables.engines.protocol import DATA
from sightline.tables.sql.grammar import (
    check_deterministic,
    clause_of,
    clauses_of,
    is_inside,
    is_plain,
    refuse,
    shown,
    sources_of,
)
from sightline.tables.sql.grouping import aggregates_of_rows, has_aggregate
from sightline.tables.sql.one_select import in_one_select
from sightline.tables.subject import Schema
from sightline.values import frozen

_CLAUSES = {
    "expressions", "from_", "joins", "where", "group", "having", "qualify", "order", "limit", "offset",
    "distinct",
}  # fmt: skip
_JOINS = {"this", "on", "using", "side", "kind", "method"}
# Of a query that computes with answers, beside what a row's expression may have.
_OF_ANSWERS: tuple[type[exp.Expr], ...] = (
    exp.Select, exp.Union, exp.Except, exp.Intersect, exp.Subquery, exp.Exists, exp.From, exp.Join, exp.Table,
    exp.TableAlias, exp.Where, exp.Group, exp.Having, exp.Qualify, exp.Order, exp.Ordered, exp.Limit,
    exp.Offset, exp.Distinct, exp.Alias, exp.Star, exp.Filter, exp.Rollup, exp.Cube, exp.GroupingSets,
    exp.Grouping, exp.Window, exp.WindowSpec, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.RowNumber,
    exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile, exp.Sqrt, exp.Ln, exp.Log, exp.Exp,
    exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Median, exp.Stddev, exp.StddevPop,
    exp.StddevSamp, exp.Variance, exp.VariancePop, exp.Corr, exp.CovarPop, exp.CovarSamp, exp.RegrSlope,
    exp.RegrIntercept, exp.RegrR2, exp.Quantile, exp.PercentileCont, exp.PercentileDisc, exp.WithinGroup,
)  # fmt: skip


def answers_in(query: exp.Expr, schema: Schema, record: str) -> list[exp.Query]:
    """The aggregates of rows that a query computes with, as SELECTs of ``data``, in the order of the text.

    ``record`` is the record key: answers by person are refused.

    >>> from sqlglot import parse_one
    >>> text = "(SELECT g, SUM(x) AS s FROM data GROUP BY g)"
    >>> for text in (
    ...     f"SELECT MAX(s) - (SELECT AVG(x) FROM data) FROM {text} AS t",
    ...     "SELECT g, CASE WHEN AVG(x) > 5 THEN 'much' ELSE 'little' END FROM data WHERE y > 0 GROUP BY g",
    ... ):
    ...     for one in answers_in(parse_one(text), Schema(columns=[]), "id"):
    ...         print(one.sql())
    SELECT AVG(x) FROM data
    SELECT SUM(x) FROM data GROUP BY g
    SELECT AVG(x) FROM data WHERE y > 0 GROUP BY g
    """
    return list(_Answers(schema=schema, record=record).in_query(query))


@frozen
class _Answers:
    """Takes the aggregates of rows out of a query, and refuses what else it must not contain."""

    schema: Schema
    record: str

    def in_query(self, query: exp.Expr) -> Iterator[exp.Query]:
        waiting: list[exp.Expr] = [query]
        while waiting:
            node = waiting.pop()
            if isinstance(node, exp.Select):
                answer, inside = self._of_select(node)
                yield from answer
                waiting += reversed(inside)
                continue
            self._check(node)
            waiting += reversed(list(node.iter_expressions()))

    def _check(self, node: exp.Expr) -> None:
        """Refuse what is no relation of answers or public tables, and no deterministic part of a SELECT."""
        if isinstance(node, exp.Table):
            declared = {name.casefold() for name in self.schema.tables}
            public = node.name.casefold() in declared and isinstance(node.this, exp.Identifier)
            if not public or not is_plain(node):
                refuse("answers of grouped queries of data, and declared public tables", got=shown(node))
        if isinstance(node, exp.Join) and clauses_of(node) - _JOINS:
            refuse("a plain JOIN", got=shown(node), fix="write JOIN … ON")
        if isinstance(node, exp.SetOperation):
            _check_limit(node)
        if isinstance(node, exp.Subquery) and not is_plain(node):
            refuse("a plain subquery", got=shown(node), fix="leave out what follows its closing bracket")
        check_deterministic(node, _OF_ANSWERS, dialect=self.schema.dialect, functions=self.schema.functions)

    def _of_select(self, select: exp.Select) -> tuple[list[exp.Select], list[exp.Expr]]:
        """The answer that a SELECT of rows is, if it is one, and the parts that are computed with answers."""
        if not _reads_rows(select):
            _check_clauses(select)
            return [], list(select.iter_expressions())
        plain, changed = in_one_select(select.copy(), self.schema)
        assert isinstance(plain, exp.Select)
        keys = clause_of(plain, "group")
        if any(key.name.casefold() == self.record.casefold() for key in keys.find_all(exp.Column)):
            refuse("groups of several records", got=shown(keys), fix="make lines of records in [data] sql")
        if changed:  # its simpler form is compared with it
            return [select], []
        columns = {column.name.casefold() for column in self.schema.columns}
        return _apart(plain, columns)


def _reads_rows(select: exp.Select) -> bool:
    """Whether FROM and JOIN of a SELECT name rows of ``data``, and no lines of groups."""
    tables = (node for source in sources_of(select) for node in source.find_all(exp.Table))
    return any(table.name.casefold() == DATA for table in tables) and not any(
        map(_has_lines, _relations(select))
    )


def _relations(select: exp.Select) -> list[exp.Expr]:
    """The subqueries in FROM and JOIN of a SELECT."""
    return [one.this for one in sources_of(select) if isinstance(one, exp.Subquery)]


def _has_lines(query: exp.Expr) -> bool:
    """Whether the lines of a query are groups, or made of groups."""
    if isinstance(query, exp.Subquery):
        return _has_lines(query.this)
    if isinstance(query, exp.SetOperation):
        return _has_lines(query.this) or _has_lines(query.expression)
    if not isinstance(query, exp.Select):
        return False
    grouped = {"group", "having"} & clauses_of(query) or any(map(has_aggregate, query.expressions))
    return bool(grouped) or any(map(_has_lines, _relations(query)))


def _apart(select: exp.Select, columns: set[str]) -> tuple[list[exp.Select], list[exp.Expr]]:
    """A SELECT of its aggregates alone, and what is computed with them, where each is the number 1.

    Outside of its aggregates a SELECT may have keys of GROUP BY, and in ORDER BY the names of items that are
    no columns.
    """
    rest = exp.Tuple(expressions=[part.copy() for part in select.expressions])
    for name in ("distinct", "order", "limit", "offset", "qualify"):
        if name in clauses_of(select):
            rest.append("expressions", select.args[name].copy())
    nested = []
    for query in [node for node in rest.find_all(exp.Select) if node.find_ancestor(exp.Select) is None]:
        if not _reads_rows(query):  # it could name columns of the rows around it
            refuse("an aggregate of data in a subquery beside aggregates", got=shown(query))
        nested.append(query.copy())
        query.replace(exp.Literal.number(1))
    calls: dict[str, exp.Expr] = {}
    for call in aggregates_of_rows(rest):
        calls.setdefault(call.sql(), call.copy())
        call.replace(exp.Literal.number(1))
    if not calls:
        refuse("an aggregate of the secret", got=shown(select), fix="rows are not published")
    keys = {_text(key) for key in _keys(clause_of(select, "group"))}
    names = {item.alias.casefold() for item in select.expressions if item.alias} - columns
    waiting: list[exp.Expr] = [rest]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Star):
            refuse("the names of columns", got="*", fix="a plan publishes aggregates, not rows")
        if _text(node) in keys:
            continue
        named = isinstance(node, exp.Column) and not node.table and node.name.casefold() in names
        if isinstance(node, exp.Column) and not (named and is_inside(node, exp.Order, exp.Qualify)):
            refuse("columns of GROUP BY outside the aggregates", got=shown(node))
        waiting += node.iter_expressions()
    answer = exp.Select(expressions=list(calls.values()))
    whole = select.copy()
    for name in ("from_", "joins", "where", "group", "having"):
        answer.set(name, whole.args.get(name))
    _check_clauses(select)
    return [answer], [rest, *nested]


def _check_clauses(select: exp.Select) -> None:
    for name in sorted(clauses_of(select) - _CLAUSES):
        refuse("a plain SELECT of answers", got=name.upper().strip("_"), fix="leave it out")
    _check_limit(select)


def _check_limit(query: exp.Expr) -> None:
    if {"limit", "offset"} & clauses_of(query) and "order" not in clauses_of(query):
        refuse("ORDER BY before LIMIT", got=shown(query), fix="say which lines it keeps")


def _text(node: exp.Expr) -> str:
    """The text by which a key is recognised; names of columns in any case."""
    plain = node.unnest()
    return plain.sql().casefold() if isinstance(plain, exp.Column) else plain.sql()


def _keys(group: exp.Expr) -> Iterator[exp.Expr]:
    """The keys of GROUP BY, of every grouping set."""
    for one in group.expressions:
        if isinstance(one, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
            yield from _keys(one)
        else:
            yield one
