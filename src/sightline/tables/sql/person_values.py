"""Releases that first aggregate the rows of each record: the audit is then about one value per person.

``WITH p AS (SELECT customer, MIN(country) AS country, SUM(revenue) AS r FROM data GROUP BY customer) SELECT
country, AVG(LEAST(r, 500)) FROM p GROUP BY country`` publishes means of the customers' clipped sums, and
nothing else of their revenues. The audit is therefore about one number per customer, between 0 and 500, and
the inner query is its table. All releases of a plan must be about the same number: two of them, such as a sum
and a clipped sum of the same rows, are not independent, and an audit that took them for two secrets would be
wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sightline.errors import InvalidPlan
from sightline.tables.engines.protocol import DATA, Column, ColumnKind
from sightline.tables.sql.clipping import Interval, clip_around, clipped
from sightline.tables.sql.grammar import parse_query, refuse, shown
from sightline.tables.sql.grouping import read_grouping, resolved_group
from sightline.tables.sql.having import aggregates_in
from sightline.tables.sql.per_person import InnerQuery, aggregates_rows, chain, read_inner, table_name
from sightline.tables.sql.scope import Scope, bound_column, find_column
from sightline.tables.sql.sources import read_source
from sightline.tables.sql.unfold import unfolded
from sightline.tables.subject import Schema, Subject

_COUNTED = "sightline count"  # how many secrets a line of the table is made of
Levels = list[exp.Select]  # a SELECT, the subqueries in its FROM, and at the end the columns of the table


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonValues:
    """The table of one value per record, and the plan's releases over it."""

    sql: str  # a SELECT in the source's dialect, over ``data``
    subject: Subject  # about the values
    schema: Schema  # of the table
    releases: tuple[str, ...]  # the releases' SQL, with the table as ``data``
    checks: tuple[str, ...]  # each counts the lines in which an inner query differs from the table: none


def read_person_values(
    releases: Sequence[tuple[str, str]], *, subject: Subject, schema: Schema
) -> PersonValues | None:
    """Read a plan's releases (name and SQL); None if none of them aggregates each record's rows first."""
    chains = [_chains(name, sql, schema) for name, sql in releases]
    several = [(name, levels) for (name, _), parts in zip(releases, chains, strict=True) for levels in parts]
    if not any(len(levels) > 1 and aggregates_rows(levels[-1]) for _, levels in several):
        return None
    inners: list[InnerQuery] = []
    for name, levels in several:
        if len(levels) == 1 or not aggregates_rows(levels[-1]):
            refuse(
                "every release over the same value per record",
                got=f"release {name!r} over the rows",
                fix="aggregate the rows of each record first in all releases, or audit two plans",
            )
        try:
            inners.append(read_inner(levels[-1], subject=subject, schema=schema))
        except InvalidPlan as error:
            raise InvalidPlan(f"release {name!r}: {error}") from None
        if inners[-1].identity != inners[0].identity:
            refuse(
                "every release over the same value per record",
                got=f"another inner query in release {name!r}",
                fix="use one WHERE, GROUP BY and aggregate in all inner queries; for periods, group by the "
                "period inside and choose it in the outer WHERE",
            )
    return _PersonTable(inners=inners, subject=subject, schema=schema).read(chains)


def _chains(name: str, sql: str, schema: Schema) -> list[Levels]:
    try:
        return [chain(select) for select in unfolded(parse_query(sql, schema.dialect), tables=schema.tables)]
    except InvalidPlan as error:
        raise InvalidPlan(f"release {name!r}: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _PersonTable:
    """Writes the table, and the releases over it."""

    inners: list[InnerQuery]
    subject: Subject
    schema: Schema

    def read(self, chains: Sequence[Sequence[Levels]]) -> PersonValues:
        """Put the table in place of the inner queries, and clip its value as the SELECTs around it do."""
        parts = [levels for release in chains for levels in release]
        value = self.inners[0].value
        for levels, inner in zip(parts, self.inners, strict=True):
            levels[-2].args["from_"].this.set("this", _projection(inner))
            levels[-1] = levels[-2].args["from_"].this.this
        while clip := self._one_clip(parts, value):
            value = self._clip(parts, clip, value)
        bounds = clipped(value, self._interval())
        if not bounds[0] < bounds[1]:
            refuse(
                "a value per record that can vary",
                got=f"{shown(value)}, which cannot",
                fix="clip it elsewhere",
            )
        name = table_name(value)
        record = find_column(self.schema.columns, self.subject.record)
        rows = 1 if self.inners[0].per_record else self.subject.most_rows
        return PersonValues(
            sql=self._table(value).sql(self.schema.dialect, comments=False),
            subject=replace(
                self.subject,
                record=record.name,
                secret=name,
                expression=None,
                bounds=bounds,
                most_rows=rows,
            ),
            schema=self._table_schema(value),
            releases=tuple(
                " UNION ALL ".join(levels[0].sql(self.schema.dialect, comments=False) for levels in release)
                for release in chains
            ),
            checks=tuple(dict.fromkeys(map(self._difference, self.inners))),
        )

    def _one_clip(self, parts: Sequence[Levels], value: exp.Expr) -> exp.Expr | None:
        """The LEAST or GREATEST that all SELECTs put around the value; None if none does."""
        uses = [clip_around(column) for levels in parts for column in self._uses(levels, value)]
        clips = [use for use in uses if not isinstance(use, exp.Column)]
        if not clips:
            return None
        texts = {shown(_substituted(use, value)) for use in uses}
        if len(texts) > 1:
            refuse(
                "one value per record in all releases",
                got=" and ".join(sorted(texts)[:2]),
                fix="clip it in the same way everywhere, best in the subquery",
            )
        return clips[0]

    def _clip(self, parts: Sequence[Levels], clip: exp.Expr, value: exp.Expr) -> exp.Expr:
        """Name the clipped value where the SELECTs clip it; return it."""
        found = _substituted(clip, value)
        for levels in parts:
            for column in self._uses(levels, value):
                clip_around(column).replace(column.copy())
        for levels in parts:
            for item in levels[-1].expressions:
                if item.this.name == table_name(value):
                    item.set("this", bound_column(table_name(found), DATA))
        return found

    def _uses(self, levels: Levels, value: exp.Expr) -> list[exp.Column]:
        """Where the SELECTs name the value, except as a subquery's item by itself, which passes it on."""
        schema = self._table_schema(value)
        found: list[exp.Column] = []
        for depth, select in enumerate(levels[:-1]):
            scope = read_source(select, schema=schema, secret=table_name(value)).scope
            passed = [item.unalias() for item in select.expressions] if depth else []
            found += [
                column
                for column in _own_columns(select)
                if not any(column is item for item in passed) and _is_value(column, scope)
            ]
        return found

    def _interval(self) -> Interval:
        """The bounds of the value before it is clipped: of at most so many rows as the plan says."""
        assert self.subject.bounds is not None  # the secret is a number
        low, high = self.subject.bounds
        (call,) = aggregates_in(self.inners[0].value)
        most = (self.subject.most_rows or 1) if isinstance(call, exp.Sum) else 1
        return min(low, most * low), max(high, most * high)

    def _outputs(self, value: exp.Expr) -> dict[str, exp.Expr]:
        """The columns of the table: the value, the record key, and what any inner query publishes."""
        record = find_column(self.schema.columns, self.subject.record).name
        found = {table_name(value): value, record: bound_column(record, DATA)}
        for inner in self.inners:
            found |= {name: one for name, one in inner.columns.values() if name != inner.value_name}
        return found

    def _columns(self, value: exp.Expr) -> tuple[Column, ...]:
        scope = self.inners[0].source.scope
        return tuple(
            Column(name, ColumnKind.NUMBER if one is value else _kind(one, scope))
            for name, one in self._outputs(value).items()
        )

    def _table_schema(self, value: exp.Expr) -> Schema:
        return replace(self.schema, columns=self._columns(value), expression=None)

    def _table(self, value: exp.Expr) -> exp.Select:
        """The table, in the words of the first inner query."""
        scope = self.inners[0].source.scope
        counted = exp.Count(this=bound_column(scope.secret, DATA), big_int=True)
        return _with_items(
            self.inners[0],
            [
                exp.alias_(scope.as_written(bound), exp.to_identifier(name, quoted=True))
                for name, bound in {**self._outputs(value), _COUNTED: counted}.items()
            ],
        )

    def _difference(self, inner: InnerQuery) -> str:
        """Count the lines in which an inner query, with a count as its value, differs from the table."""
        dialect = self.schema.dialect
        listed, named = [], []
        for place, item in enumerate(inner.select.expressions):
            column, own = inner.columns[item.alias_or_name][0], item.unalias()
            if column == inner.value_name:
                (call,) = aggregates_in(own)
                column, own = _COUNTED, exp.Count(this=call.this.copy(), big_int=True)
            listed.append(exp.alias_(own.copy(), f"c{place}"))
            quoted = exp.column(exp.to_identifier(column, quoted=True), table="t")
            named.append(exp.alias_(quoted, f"c{place}").sql(dialect))
        written = inner.select.copy()
        written.set("expressions", listed)
        keys = resolved_group(inner.select, scope=inner.source.scope)[1]
        written.set("group", exp.Group(expressions=[key.copy() for key in keys.values()]))
        written.set("order", None)
        own_lines = written.sql(dialect, comments=False)
        table = self._table(self.inners[0].value).sql(dialect, comments=False)
        ours = f"SELECT {', '.join(named)} FROM ({table}) AS t"
        both = f"(({own_lines}) EXCEPT ALL ({ours})) UNION ALL (({ours}) EXCEPT ALL ({own_lines}))"
        return f"SELECT COUNT(*) AS n FROM ({both}) AS d"


def _projection(inner: InnerQuery) -> exp.Select:
    """The columns of an inner query, taken from the table."""
    listed = []
    for item in inner.select.expressions:
        named = item.args["alias"] if isinstance(item, exp.Alias) else item.this
        column, _ = inner.columns[item.alias_or_name]
        listed.append(exp.alias_(bound_column(column, DATA), named.copy()))
    return exp.Select(expressions=listed, from_=exp.From(this=exp.to_table(DATA)))


def _substituted(clip: exp.Expr, value: exp.Expr) -> exp.Expr:
    """A clip with the value in place of its name."""
    root = exp.Paren(this=clip.copy())
    for column in list(root.find_all(exp.Column)):
        column.replace(value.copy())
    whole: exp.Expr = root.this
    return whole


def _with_items(inner: InnerQuery, listed: list[exp.Expr]) -> exp.Select:
    """The inner query with other items, over hidden columns where it has a subquery of its own."""
    select, scope, checked = inner.select.copy(), inner.source.scope, inner.source.checked
    keys = read_grouping(inner.select, scope=scope)[0]
    select.set("expressions", listed)
    select.set("from_", checked[0].copy())
    select.set("joins", [join.copy() for join in checked[1:]])
    select.set("group", exp.Group(expressions=[scope.as_written(key) for key in keys]))
    select.set("order", None)
    return select


def _own_columns(select: exp.Select) -> list[exp.Column]:
    """The columns that a SELECT names itself, not in its subqueries."""
    parts = [*select.expressions, *(select.args.get(part) for part in ("where", "group", "having"))]
    return [column for part in parts if part is not None for column in part.find_all(exp.Column)]


def _is_value(column: exp.Column, scope: Scope) -> bool:
    try:
        return scope.is_secret(scope.bind(column))
    except InvalidPlan:  # the alias of an item in GROUP BY, or a name that the reader refuses
        return False


def _kind(bound: exp.Expr, scope: Scope) -> ColumnKind:
    plain = bound.this if isinstance(bound, exp.Min | exp.Max) else bound
    if isinstance(plain, exp.Column):
        return scope.kind(plain)
    return ColumnKind.NUMBER if isinstance(bound, exp.Count) else ColumnKind.OTHER
