"""A release's SQL as what it publishes of the secret: sums over public groups of rows, or a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sightline.tables.engines.protocol import DATA, Column, ColumnKind
from sightline.tables.membership import Feature, Statistic
from sightline.tables.sql.aggregates import Measure, RowCount, read_aggregate
from sightline.tables.sql.check_query import CheckQuery, Reading, check_query
from sightline.tables.sql.fragments import embedded
from sightline.tables.sql.grammar import DEEPEST_QUERY, parse_condition, parse_select, refuse, shown
from sightline.tables.sql.grouping import Keys, has_aggregate, read_grouping, referred
from sightline.tables.sql.scope import Join, Scope, find_column, read_scope
from sightline.tables.sql.secret_conditions import Secret, SecretTest
from sightline.tables.subject import Schema, SecretKind, Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionQuery:
    """One grouping set × one aggregate: a partition, or for a histogram of a text secret one per category."""

    label: str
    statistic: Statistic
    feature: Feature
    parameter: float | str | None  # None with INDICATOR: every category
    above: bool
    condition: str | None  # which rows it aggregates, as SQL over public columns; None for all
    keys: tuple[str, ...]  # what it groups by, as SQL over public columns
    grouping_set: int  # its place among the release's grouping sets
    aggregate: int  # its place among the release's aggregates


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseQuery:
    """One release: the partitions that depend on the secret, and the labels of those that do not."""

    name: str
    sql: str  # as understood, with every column named in full where it matters
    joins: tuple[Join, ...]
    partitions: tuple[PartitionQuery, ...]
    public_counts: tuple[str, ...]  # counts that no value of the secret can change
    check: (
        CheckQuery | None
    )  # to compare with what the engine itself makes of the SQL; None if nothing depends


def read_release(sql: str, *, name: str, subject: Subject, schema: Schema) -> ReleaseQuery:
    """What ``sql`` publishes of the secret, or ``InvalidPlan`` with the reason why that is not analysed.

    >>> text, number = ColumnKind.TEXT, ColumnKind.NUMBER
    >>> schema = Schema(columns=[Column("home", text), Column("feeder", text), Column("watts", number)])
    >>> about = dict(subject=Subject(record="home", secret="watts", kind=SecretKind.NUMBER), schema=schema)
    >>> query = read_release(
    ...     "SELECT feeder, AVG(watts), COUNT(*) FROM data WHERE home <> 'A7' GROUP BY ROLLUP (feeder)",
    ...     name="mean by feeder", **about)
    >>> for one in query.partitions:
    ...     print(one.label, one.statistic.value, one.feature.value, one.condition, one.keys)
    AVG(watts) by feeder mean value ("data"."home" <> 'A7') ('"data"."feeder"',)
    AVG(watts) mean value ("data"."home" <> 'A7') ()
    >>> query.public_counts
    ('COUNT(*)',)
    >>> read_release("SELECT MAX(watts) FROM data", name="peak", **about)
    Traceback (most recent call last):
        ...
    sightline.errors.InvalidPlan: expected AVG, SUM or COUNT, got MAX(watts); MAX is not a sum over records
    """
    secret_column = find_column(schema.columns, subject.secret)
    if find_column(schema.columns, subject.record) == secret_column:
        refuse(
            "a secret that is not the record key", got=f'"{subject.secret}" as both', fix="name two columns"
        )
    try:
        select = parse_select(sql, schema.dialect)
        scope, joins = read_scope(select, schema=schema, secret=secret_column.name)
        about = Secret(scope=scope, kind=_usable(secret_column, subject.kind), categories=subject.categories)
        reading, test = _read(select, about)
        partitions, counts = _partitions(reading, about, joins, test)
        thresholds = [one.label for one in partitions if one.feature is Feature.THRESHOLD]
        if thresholds and subject.bandwidth is None:
            refuse(
                "a bandwidth in the plan, since a threshold is analysed smoothed",
                got=f"none for {thresholds[0]}",
                fix="state bandwidth, the width over which the step rises, in the secret's units",
            )
        return ReleaseQuery(
            name=name,
            sql=select.sql(schema.dialect, comments=False),
            joins=joins,
            partitions=tuple(partitions),
            public_counts=tuple(dict.fromkeys(counts)),
            check=check_query(reading, about, subject),
        )
    except RecursionError:
        refuse(f"SQL nested at most {DEEPEST_QUERY} deep", got="deeper", fix="split the release")


def read_condition(text: str, *, secret: str, schema: Schema) -> str:
    """A condition on public columns and the record key, checked, as SQL for our own queries over ``data``.

    >>> schema = Schema(columns=[Column("home", ColumnKind.TEXT), Column("watts", ColumnKind.NUMBER)])
    >>> read_condition("HOME = 'A7'", secret="watts", schema=schema)
    '("data"."home" = \\'A7\\')'
    """
    try:
        column = find_column(schema.columns, secret)
        scope = Scope(
            relations={DATA: (DATA, tuple(schema.columns))}, secret=column.name, dialect=schema.dialect
        )
        bound = scope.bind(parse_condition(text, schema.dialect))
        if scope.mentions_secret(bound):
            refuse(
                "a condition on public columns",
                got=f"the secret in {shown(bound)}",
                fix="say whose secret is known",
            )
        return embedded(bound, schema.dialect)
    except RecursionError:
        refuse(f"SQL nested at most {DEEPEST_QUERY} deep", got="deeper", fix="split the condition")


def _usable(column: Column, kind: SecretKind) -> SecretKind:
    """The declared kind, if the column can hold it: a 0/1 number may be declared boolean."""
    allowed = {
        SecretKind.NUMBER: {ColumnKind.NUMBER},
        SecretKind.BOOLEAN: {ColumnKind.BOOLEAN, ColumnKind.NUMBER},
        SecretKind.CATEGORY: {ColumnKind.TEXT},
    }[kind]
    if column.kind not in allowed:
        refuse(
            f"a {kind.value} secret",
            got=f'"{column.name}", a {column.kind.value} column',
            fix="declare what it holds",
        )
    return kind


def _read(select: exp.Select, secret: Secret) -> tuple[Reading, SecretTest | None]:
    """What a SELECT groups and aggregates, and the one condition on the secret in its WHERE."""
    scope = secret.scope
    where = select.args.get("where")
    public, test = secret.split(scope.bind(where.this) if where is not None else None)
    sets = read_grouping(select, scope=scope)
    for keys in sets:
        for key in keys:
            _check_key(key, secret)
    aggregates = [item for item in select.expressions if has_aggregate(item)]
    if not aggregates:
        refuse(
            "an aggregate of the secret",
            got=shown(select),
            fix="for example AVG(…) with GROUP BY; rows are not published",
        )
    for item in select.expressions:
        if item not in aggregates:
            _check_public_item(item, sets, scope)
    _check_order(select, sets, scope)
    measures = [read_aggregate(item, secret=secret, where=test) for item in aggregates]
    return Reading(select=select, sets=sets, items=aggregates, measures=measures, public=public), test


def _partitions(
    reading: Reading, secret: Secret, joins: Sequence[Join], test: SecretTest | None
) -> tuple[list[PartitionQuery], list[str]]:
    scope = secret.scope
    matched = [f"({join.matched})" for join in joins if join.required]
    partitions: list[PartitionQuery] = []
    counts: list[str] = []
    for place, keys in enumerate(reading.sets):
        by = [key for key in keys if not scope.is_secret(key)]
        for number, measure in enumerate(reading.measures):
            tests = _tests(measure, histogram=len(by) < len(keys), secret=secret, where=test)
            if not tests:
                counts.append(measure.label)
            public = [embedded(one, scope.dialect) for one in (*reading.public, *measure.filters)]
            condition = " AND ".join([*public, *matched]) or None
            partitions += [
                PartitionQuery(
                    label=measure.label + _by(by),
                    statistic=measure.statistic if isinstance(measure, Measure) else Statistic.SUM,
                    feature=one.feature,
                    parameter=one.parameter,
                    above=one.above,
                    condition=condition,
                    keys=tuple(embedded(key, scope.dialect) for key in by),
                    grouping_set=place,
                    aggregate=number,
                )
                for one in tests
            ]
    return partitions, counts


def _tests(
    measure: Measure | RowCount, *, histogram: bool, secret: Secret, where: SecretTest | None
) -> list[SecretTest]:
    """The features that one aggregate publishes: none for a public count, one per value for a histogram."""
    if not histogram:
        return [measure.test] if isinstance(measure, Measure) else []
    if isinstance(measure, Measure) or measure.distinct or where is not None:
        refuse(
            "COUNT(*) in a query grouped by the secret",
            got=measure.label,
            fix="which rows it adds up would depend on the secret: group by public columns",
        )
    if secret.kind is SecretKind.BOOLEAN:
        return [SecretTest(feature=Feature.VALUE), SecretTest(feature=Feature.VALUE, above=False)]
    return [SecretTest(feature=Feature.INDICATOR)]


def _check_key(key: exp.Expr, secret: Secret) -> None:
    if not secret.scope.mentions_secret(key):
        return
    if secret.kind is SecretKind.NUMBER:
        refuse(
            "GROUP BY on public columns",
            got=f"the secret in GROUP BY {shown(key)}",
            fix="who falls into which group would depend on the secret: count above thresholds instead",
        )
    if not secret.scope.is_secret(key):
        refuse("GROUP BY the secret itself", got=shown(key), fix="a histogram lists the secret's own values")


def _check_public_item(item: exp.Expr, sets: list[Keys], scope: Scope) -> None:
    """An item without aggregate must be made of the keys: anything else would publish a row's own value."""
    plain = item.unalias()
    if isinstance(plain, exp.Grouping):
        return
    if plain.find(exp.Star) is not None:
        refuse("the names of columns", got=shown(item), fix="a plan publishes aggregates, not rows")
    _check_made_of_keys(scope.bind(plain), item, sets)


def _check_made_of_keys(bound: exp.Expr, item: exp.Expr, sets: list[Keys]) -> None:
    texts = {key.sql("duckdb", comments=False) for keys in sets for key in keys}
    waiting = [bound]
    while waiting:
        node = waiting.pop()
        if node.sql("duckdb", comments=False) in texts:
            continue
        if isinstance(node, exp.Column):
            refuse(
                "columns of GROUP BY outside the aggregates",
                got=shown(item),
                fix="group by it, or leave it out",
            )
        waiting += node.iter_expressions()


def _check_order(select: exp.Select, sets: list[Keys], scope: Scope) -> None:
    """ORDER BY may use the keys of GROUP BY and nothing else."""
    order = select.args.get("order")
    for ordered in order.expressions if order is not None else []:
        named = ordered.this.unnest() if isinstance(ordered, exp.Ordered) else ordered
        plain = referred(named, select, scope)
        if has_aggregate(plain) or _is_all(named) or _names_aggregate(named, select):
            refuse(
                "ORDER BY on public columns",
                got=shown(ordered),
                fix="the order of exact numbers would be published without noise: sort the noisy ones",
            )
        _check_made_of_keys(scope.bind(plain), ordered, sets)


def _is_all(node: exp.Expr) -> bool:
    """``ORDER BY ALL``: every item of the SELECT list, the aggregates too."""
    return node.name.casefold() == "all" and not (isinstance(node, exp.Column) and node.this.quoted)


def _names_aggregate(node: exp.Expr, select: exp.Select) -> bool:
    """Whether a name in an expression is the alias of an aggregate."""
    aliases = {item.alias.casefold() for item in select.expressions if item.alias and has_aggregate(item)}
    return any(not one.table and one.name.casefold() in aliases for one in node.find_all(exp.Column))


def _by(keys: Sequence[exp.Expr]) -> str:
    """How people tell grouping sets apart: by the columns' names."""
    names = [key.name if isinstance(key, exp.Column) else shown(key).replace('"data".', "") for key in keys]
    return f" by {', '.join(names)}" if names else ""
