"""Read a release's SQL as means and sums of the secret over public groups of rows, or refuse it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from sightline.errors import InvalidPlan
from sightline.tables.engines.protocol import DATA, Column, ColumnKind
from sightline.tables.membership import Band, Computed, Feature, Partition
from sightline.tables.sql.aggregates import Measure, is_within, refuse_aggregate
from sightline.tables.sql.check_query import CheckQuery, check_query
from sightline.tables.sql.check_texts import SelectParts
from sightline.tables.sql.fragments import embedded
from sightline.tables.sql.grammar import (
    DEEPEST_QUERY,
    clause_of,
    clauses_of,
    has,
    is_inside,
    parse_condition,
    parse_query,
    refuse,
    shown,
    shown_text,
    text_of,
)
from sightline.tables.sql.grouping import (
    WindowColumn,
    aggregates_of_rows,
    check_made_of_keys,
    dereferenced,
    has_aggregate,
    key_text,
    read_grouping,
    read_having,
)
from sightline.tables.sql.multiplied_rows import is_multiplicity, is_number_of_lines
from sightline.tables.sql.normal_form import with_data
from sightline.tables.sql.nullness import SECRET_COLUMN, ColumnFacts, Decides, NullRule
from sightline.tables.sql.one_select import is_inside_subquery, rewritten, with_groups
from sightline.tables.sql.published_items import PublishedItem
from sightline.tables.sql.scope import Join, Scope, Source, bound_column, find_column, read_source, where_of
from sightline.tables.sql.secret_conditions import Secret, SecretLine, SecretTest, Tests, read_bands
from sightline.tables.sql.select_items import (
    noisy_number,
    read_item,
    read_public_aggregate,
    shared_once,
    with_filters,
    with_order,
)
from sightline.tables.sql.unfold import Unfolded, as_answers, unfolded
from sightline.tables.subject import Schema, SecretKind, Subject
from sightline.values import frozen


@frozen(eq=True)
class ReleaseQuery:
    """One release: the partitions that depend on the secret, and the labels of those that do not."""

    name: str
    sql: str  # as it was parsed, without comments
    joins: tuple[Join, ...]
    windows: tuple[WindowColumn, ...]  # columns that its conditions use, besides those of data
    partitions: tuple[Partition, ...]
    public_counts: tuple[str, ...]  # counts and other aggregates that no value of the secret can change
    checks: tuple[CheckQuery | None, ...]  # of each SELECT against the engine; None if it has no secret
    merged: tuple[tuple[str, str], ...] = ()  # as written, and without subqueries: equal answers
    public: tuple[tuple[str, str], ...] = ()  # what it takes as public: for people, and as SQL
    columns: tuple[str, ...] = ()  # of ``data`` that it takes as public, without the record key
    summed: tuple[str, ...] = ()  # of these columns, those that it publishes a sum, a mean or the like of
    items: tuple[PublishedItem, ...] = ()  # with one aggregate of the secret each


def read_release(sql: str, *, name: str, subject: Subject, schema: Schema) -> ReleaseQuery:
    """Read what ``sql`` publishes of the secret; ``InvalidPlan`` says why a query is not analysed.

    >>> text, number = ColumnKind.TEXT, ColumnKind.NUMBER
    >>> schema = Schema(columns=[Column("home", text), Column("feeder", text), Column("watts", number)])
    >>> about = dict(subject=Subject(record="home", secret="watts", kind=SecretKind.NUMBER), schema=schema)
    >>> query = read_release(
    ...     "SELECT feeder, AVG(watts), COUNT(*) FROM data WHERE home <> 'A7' GROUP BY ROLLUP (feeder)",
    ...     name="mean by feeder", **about)
    >>> for part in query.partitions:
    ...     print(part.label, part.statistic.value, part.feature.value, part.condition, part.keys)
    AVG(watts) by feeder mean value ("data"."home" <> 'A7') ('"data"."feeder"',)
    AVG(watts) mean value ("data"."home" <> 'A7') ()
    >>> query.public_counts
    ('COUNT(*)',)
    >>> read_release("SELECT MAX(watts) FROM data", name="peak", **about)
    Traceback (most recent call last):
        ...
    sightline.errors.InvalidPlan: expected AVG, SUM or COUNT, got MAX(watts); MAX is not a sum over records...
    """
    secret_column = find_column(schema.columns, subject.secret)
    if find_column(schema.columns, subject.record) == secret_column:
        refuse(
            "a secret that is not the record key", got=f'"{subject.secret}" as both', fix="name two columns"
        )
    try:
        query = with_groups(with_data(parse_query(sql, schema.dialect), schema), schema)
        text = text_of(query, schema.dialect)
        record = find_column(schema.columns, subject.record).name
        try:
            simple = unfolded(query, schema=schema, secret=secret_column.name)
            selects = _read_selects(simple, subject=subject, schema=schema)
        except InvalidPlan as refused:
            try:
                simple = as_answers(query, schema=schema, record=record, secret=secret_column.name)
                selects = _read_selects(simple, subject=subject, schema=schema)
            except InvalidPlan:
                raise refused from None
        several = len(selects) > 1
        partitions = [
            replace(partition, select=place, label=partition.label + f" (SELECT {place + 1})" * several)
            for place, one in enumerate(selects)
            for partition in one.partitions
        ]
        return ReleaseQuery(
            name=name,
            sql=text,
            joins=tuple(join for one in selects for join in one.joins),
            windows=tuple(window for one in selects for window in one.windows),
            partitions=tuple(partitions),
            public_counts=tuple(dict.fromkeys(label for one in selects for label in one.public_counts)),
            checks=tuple(check for one in selects for check in one.checks),
            merged=simple.merged,
            public=tuple(dict(pair for one in selects for pair in one.public).items()),
            columns=tuple(dict.fromkeys(name for one in selects for name in one.columns)),
            summed=tuple(dict.fromkeys(name for one in selects for name in one.summed)),
            items=tuple(
                replace(item, select=place) for place, one in enumerate(selects) for item in one.items
            ),
        )
    except RecursionError:
        refuse(f"SQL nested at most {DEEPEST_QUERY} deep", got="deeper", fix="split the release")


def _read_selects(release: Unfolded, *, subject: Subject, schema: Schema) -> list[ReleaseQuery]:
    """Read each SELECT of a release."""
    read = []
    for select in release.selects:
        after = release.after or shown(select)
        whole, *numbers = rewritten(select)
        read.append(_computed_with(_read_select(whole, subject=subject, schema=schema), release.after))
        # The one number of a SELECT apart is not published: items of the whole are computed with it.
        read += [_computed_with(_read_select(one, subject=subject, schema=schema), after) for one in numbers]
    return read


def _computed_with(query: ReleaseQuery, after: str) -> ReleaseQuery:
    """A SELECT with whose noisy answers something else is computed, if there is something."""
    if not after:
        return query
    partitions = [
        replace(part, computed=Computed(noise_on=part.computed.noise_on, steps=(after,), shows=True))
        for part in query.partitions
    ]
    return replace(query, partitions=tuple(partitions), items=())


def _read_select(select: exp.Select, *, subject: Subject, schema: Schema) -> ReleaseQuery:
    """Read one SELECT as if it were a release."""
    secret_column = find_column(schema.columns, subject.secret)
    source = read_source(select, schema=schema, secret=secret_column.name)
    secret = Secret(
        scope=source.scope,
        kind=_checked_kind(secret_column, subject),
        categories=subject.categories,
        bounds=subject.bounds,
        record=find_column(schema.columns, subject.record).name,
        one_row=subject.most_rows == 1,
        ask=schema.ask,
    )
    parts, tests = _read(select, source, secret)
    numbers = dict[str, WindowColumn]()
    partitions, counts = _partitions(parts, secret, tests, subject.bounds, numbers)
    return ReleaseQuery(
        name="",
        sql="",
        joins=source.joins,
        windows=(*parts.having.windows, *numbers.values()),
        partitions=tuple(partitions),
        public_counts=tuple(counts),
        checks=(check_query(parts, secret, subject),),
        items=tuple(_published_items(parts, source.scope.dialect)),
        **_taken_as_public(parts, source.scope, find_column(schema.columns, subject.record).name),
    )


def _published_items(parts: SelectParts, dialect: str) -> Iterator[PublishedItem]:
    """The items that one aggregate of the secret carries the noise of.

    Where a noisy number is made NULL or a text, or several are combined, noise comes first in any case.
    """
    for place, measure in enumerate(parts.measures):
        if measure.computed.shows or not (measure.tests or measure.counts_rows):
            continue
        node = measure.aggregate
        while node.parent is not None and not isinstance(node.parent, exp.Select | exp.Alias):
            node = node.parent
        written = tuple(one.written for one in measure.rewritten)
        yield PublishedItem(
            select=0, aggregate=place, node=node, carrier=measure.aggregate, dialect=dialect, written=written
        )


def _taken_as_public(parts: SelectParts, scope: Scope, record: str) -> dict[str, Any]:
    """The expressions that a SELECT groups, chooses and adds up rows by, and their columns of ``data``.

    What is made of the record key alone says whose row it is.
    """
    whole = list(parts.grouping.keys)
    whole += [*parts.public, *(one for measure in parts.measures for one in measure.filters)]
    whole += [weight for measure in parts.measures for weight in measure.weights]
    for measure in parts.measures:
        whole += _arguments(measure.aggregate, scope)
    for call in _public_aggregates(parts, scope):
        whole += _arguments(call, scope)
        whole += [scope.bind(one.expression.this) for one in call.find_all(exp.Filter)]
    hidden = [window.bound for window in parts.having.windows]
    columns = {
        column.name: bound_column(column.name, DATA)  # also of a subquery, where data has another name
        for node in (*whole, *hidden, *(one for join in parts.source.joins for one in join.equations))
        for column in node.find_all(exp.Column)
        if column.table.partition(" ")[0] == DATA and column.name != record and not scope.is_secret(column)
    }
    plain = [
        node.unnest()
        for node in whole
        if not scope.mentions_secret(node) and any(one.name in columns for one in node.find_all(exp.Column))
    ]
    listed = {_key_names([node])[0]: embedded(node, scope.dialect) for node in (*columns.values(), *plain)}
    return {
        "public": tuple(listed.items()),
        "columns": tuple(columns),
        "summed": tuple(name for name in columns if name in _summed(parts, scope)),
    }


def _arguments(aggregates: exp.Expr, scope: Scope) -> list[exp.Expr]:
    """What the aggregates in an expression are of, bound."""
    return [
        scope.bind(part)
        for call in aggregates.find_all(exp.AggFunc)
        if not is_inside_subquery(call, aggregates)  # which names columns of its own table
        for argument in call.iter_expressions()
        for part in (argument.expressions if isinstance(argument, exp.Distinct) else [argument])
        if has(part, exp.Column)
    ]


def _public_aggregates(parts: SelectParts, scope: Scope) -> list[exp.Expr]:
    """The aggregates of public columns in all items, whatever rows they are over.

    One that is added to a sum of the secret, or divides it, tells of its column as one alone does.
    """
    return [
        call
        for item in parts.select.expressions
        for call in aggregates_of_rows(item.unalias())
        if not any(map(scope.mentions_secret, _arguments(call, scope)))
    ]


def _summed(parts: SelectParts, scope: Scope) -> set[str]:
    """The columns that a SELECT adds up, averages or takes an extreme of by themselves.

    What weighs the secret is public in any case: the sum of the weights that a weighted mean divides by tells
    nothing more.
    """

    def columns(nodes: Iterable[exp.Expr]) -> set[str]:
        return {column.name for node in nodes for column in node.find_all(exp.Column)}

    def values(node: exp.Expr) -> list[exp.Expr]:
        """What is added up: of a CASE its values, since its conditions choose rows."""
        if not isinstance(node, exp.Case):
            return [node]
        return [
            *(branch.args["true"] for branch in node.args["ifs"]),
            *filter(None, [node.args.get("default")]),
        ]

    own = [
        value
        for aggregate in _public_aggregates(parts, scope)
        for call in aggregate.find_all(exp.AggFunc)
        if not isinstance(call, exp.Count | exp.CountIf) and not is_inside_subquery(call, aggregate)
        for argument in _arguments(call, scope)
        for value in values(argument.unnest())
        if not is_multiplicity(value)
    ]
    return columns(own) - columns(weight for measure in parts.measures for weight in measure.weights)


def read_condition(text: str, *, secret: str, schema: Schema) -> str:
    """Read a condition on public columns and the record key; return it as SQL for our queries over ``data``.

    >>> schema = Schema(columns=[Column("home", ColumnKind.TEXT), Column("watts", ColumnKind.NUMBER)])
    >>> read_condition("HOME = 'A7'", secret="watts", schema=schema)
    '("data"."home" = \\'A7\\')'
    """
    try:
        column = find_column(schema.columns, secret)
        scope = Scope.of_data(schema, secret=column.name, called=exp.to_identifier(DATA))
        bound = scope.bind(parse_condition(text, schema.dialect))
        if scope.mentions_secret(bound):
            refuse(
                "a condition on public columns",
                got=f"the secret in {shown(bound)}",
                fix="name the rows by public columns or the record key",
            )
        return embedded(bound, schema.dialect)
    except RecursionError:
        refuse(f"SQL nested at most {DEEPEST_QUERY} deep", got="deeper", fix="split the condition")


_DECLARED = {  # how a secret is declared, by what its column holds
    ColumnKind.NUMBER: 'declare bounds = [low, high], of a yes or no as 0 and 1 kind = "boolean"',
    ColumnKind.BOOLEAN: 'declare kind = "boolean"',
    ColumnKind.TEXT: 'declare categories = ["…", "…"]',
    ColumnKind.TIME: "make a number or a text of it in [data] sql",
    ColumnKind.OTHER: "make a number or a text of it in [data] sql",
}


def _checked_kind(column: Column, subject: Subject) -> SecretKind:
    """Return the declared kind if the column can hold it.

    A number, 0 or 1, may be declared boolean, and whole numbers may be codes of categories.
    """
    kind = subject.kind
    codes = bool(subject.categories) and all(name.lstrip("-").isdigit() for name in subject.categories)
    allowed = {
        SecretKind.NUMBER: {ColumnKind.NUMBER},
        SecretKind.BOOLEAN: {ColumnKind.BOOLEAN, ColumnKind.NUMBER},
        SecretKind.CATEGORY: {ColumnKind.TEXT, *([ColumnKind.NUMBER] if codes else [])},
    }[kind]
    if column.kind not in allowed:
        refuse(
            f"a {kind.value} secret",
            got=f'"{column.name}", a {column.kind.value} column',
            fix=_DECLARED[column.kind],
        )
    return kind


def _read(select: exp.Select, source: Source, secret: Secret) -> tuple[SelectParts, Tests]:
    """Read a SELECT; return its parts, and the condition on the secret in its WHERE if there is one."""
    scope = secret.scope
    with_filters(select, scope)
    where = where_of(select)
    conditions = [scope.bind(part) for part in where]
    public, tests = secret.split(*conditions)
    grouping = read_grouping(select, scope=scope)
    for key in grouping.keys:
        _check_key(key, secret)
    by_secret = [tuple(filter(scope.mentions_secret, keys)) for keys in grouping.sets]
    several = len(set(filter(None, by_secret))) > 1
    if several or (max(map(len, by_secret)) > 1 and secret.kind is not SecretKind.CATEGORY):
        refuse("one key of the secret", got="several", fix="publish each in its own release")
    aggregates = [item for item in select.expressions if has_aggregate(item)]
    if not aggregates:
        calls = [call for item in select.expressions for call in item.find_all(exp.Anonymous)]
        for call in calls:
            if any(scope.mentions_secret(scope.bind(column)) for column in call.find_all(exp.Column)):
                refuse_aggregate(call)
        refuse(
            "an aggregate of the secret",
            got=shown(select),
            fix="for example AVG(…) with GROUP BY; rows are not published",
        )
    texts = frozenset(map(key_text, grouping.keys))
    for item in select.expressions:
        if item not in aggregates:
            _check_public_item(item, texts, scope)
    ranking = _check_order(select, texts, scope)
    limit = _check_limit(select)
    having = read_having(select, grouping, scope=scope, conditions=[*conditions, *source.matched])
    rule, careful = (_null_rule(scope, where, public) for public in (Decides.NOTHING, Decides.PUBLIC))
    listed = rule.rows if grouping.keys and rule.rows is Decides.PRESENCE else Decides.PUBLIC
    measures = []
    for item in aggregates:
        found = [] if tests else read_public_aggregate(item, scope=scope, keys=texts)
        for measure in found or read_item(
            item, secret=secret, where=tests, keys=texts, histogram=any(by_secret)
        ):
            calls = [one.written for one in measure.rewritten]  # which may be NULL where their sums are not
            if not measure.tests:
                measure = replace(measure, tells=max(listed, rule.value(item.unalias())))
            else:
                numbers = [noisy_number(measure.aggregate), *calls]
                null, if_null = (max(map(one.null, numbers)) for one in (rule, careful))
                by_weight = null < if_null is Decides.VALUE
                measure = replace(measure, tells=max(listed, null), tells_by_weight=by_weight)
            if limit or item in ranking:
                measure = with_order(measure, ranked=item in ranking, limit=limit)
            measures.append(measure)
    parts = SelectParts(
        select=select,
        source=source,
        grouping=grouping,
        measures=shared_once(measures) if any(one.shared for one in measures) else measures,
        where=where,
        conditions=conditions,
        public=public,
        having=having,
        rows=tests,
        lines=secret.lines(max(by_secret, key=len), tests),
    )
    return parts, tests


def _null_rule(scope: Scope, where: Sequence[exp.Expr], public: Decides) -> NullRule:
    """What decides on NULLs in a query over ``data``, where ``public`` decides whether public columns are."""

    def facts(column: exp.Column) -> ColumnFacts:
        # No declared table may have a column of the secret's name.
        name = column.name.casefold()
        same = name == scope.secret.casefold() or name in scope.parts
        return SECRET_COLUMN if same else ColumnFacts(public)

    rule = NullRule(column=facts)
    return replace(rule, rows=max(map(rule.value, where), default=rule.rows))


def _partitions(
    parts: SelectParts,
    secret: Secret,
    tests_of_rows: Tests,
    bounds: tuple[float, float],
    numbers: dict[str, WindowColumn],
) -> tuple[list[Partition], list[str]]:
    """The partitions and the public counts; ``numbers`` gets what is computed once for every row."""
    scope = secret.scope
    matched = [embedded(part, scope.dialect) for part in parts.source.matched]
    partitions: list[Partition] = []
    counts: list[str] = []
    conditions = []
    for measure in parts.measures:
        public = [_embedded(part, scope, numbers) for part in (*parts.public, *measure.filters)]
        conditions.append([*public, *matched])
    weights = [
        "".join(_embedded(weight, scope, numbers) for weight in measure.weights) for measure in parts.measures
    ]
    texts = {id(key): embedded(key, scope.dialect) for key in parts.grouping.keys}
    aliases = {
        key_text(scope.bind(item.this)): item.alias
        for item in parts.select.expressions
        if isinstance(item, exp.Alias) and not has_aggregate(item)
    }
    for place, keys in enumerate(parts.grouping.sets):
        by = [key for key in keys if not scope.mentions_secret(key)]
        names = _key_names(by, aliases)
        lines = parts.lines if len(by) < len(keys) else ()
        kept = [embedded(one.met, scope.dialect) for one in parts.having.windows[place : place + 1]]
        for number, measure in enumerate(parts.measures):
            tests = [
                (name, _on_bounds(one, bounds))
                for name, one in _tests(
                    measure, histogram=len(by) < len(keys), secret=secret, where=tests_of_rows, lines=lines
                )
            ]
            if not tests:
                counts.append(measure.label)
            partitions += [
                Partition(
                    label=measure.label
                    + (f" by {', '.join(names)}" if names else "")
                    + (f" = {name}" if name else ""),
                    statistic=measure.statistic,
                    feature=feature_test.feature,
                    parameter=feature_test.parameter,
                    above=feature_test.above,
                    closed=feature_test.closed,
                    weighted=bool(weights[number]),
                    weight=weights[number],
                    computed=measure.computed,
                    condition=" AND ".join([*conditions[number], *kept]),
                    keys=tuple(texts[id(key)] for key in by),
                    key_names=names,
                    grouping_set=place,
                    aggregate=number,
                )
                for name, feature_test in tests
            ]
    return partitions, counts


def _embedded(node: exp.Expr, scope: Scope, numbers: dict[str, WindowColumn]) -> str:
    """A bound expression for our queries, with a column in place of every number of matched lines."""
    if not has(node, exp.Select):
        return embedded(node, scope.dialect)
    root = exp.Paren(this=node.copy())
    for select in list(root.find_all(exp.Select)):
        if not is_inside(select, exp.Select, exp.Exists, exp.In) and is_number_of_lines(select, DATA):
            number = select.parent if isinstance(select.parent, exp.Subquery) else select
            one = WindowColumn.of_number(exp.Subquery(this=select.copy()), dialect=scope.dialect)
            number.replace(bound_column(numbers.setdefault(one.name, one).name, DATA))
    return embedded(root.this, scope.dialect)


def _tests(
    measure: Measure,
    *,
    histogram: bool,
    secret: Secret,
    where: Tests,
    lines: Sequence[SecretLine],
) -> list[tuple[str, SecretTest]]:
    """The features that one aggregate publishes: none for a public count, every value for a histogram.

    Bands have names.
    """
    if not histogram:
        return [("", test) for test in measure.tests]
    if not measure.counts_rows and not (lines and measure.tests and _is_count(measure.aggregate)):
        refuse(
            "COUNT(*) in a query grouped by the secret",
            got=measure.label,
            fix="which rows it adds up would depend on the secret: group by public columns",
        )
    if lines:
        return [(line.label, test) for line in lines for test in secret.of_line(line, measure.tests)]
    if where:
        refuse(
            "COUNT(*) in a query grouped by the secret",
            got=f"{measure.label} with the secret in WHERE",
            fix="publish COUNT(*) FILTER (WHERE …) for each value",
        )
    if secret.kind is SecretKind.BOOLEAN:
        return [("", SecretTest(feature=Feature.VALUE, above=above)) for above in (True, False)]
    return [("", SecretTest(feature=Feature.INDICATOR))]


def _is_count(aggregate: exp.Expr) -> bool:
    """Whether an aggregate counts rows, perhaps under a condition."""
    call = aggregate.this if isinstance(aggregate, exp.Filter) else aggregate
    return isinstance(call, exp.CountIf) or (isinstance(call, exp.Count) and isinstance(call.this, exp.Star))


def _on_bounds(test: SecretTest, bounds: tuple[float, float]) -> SecretTest:
    """The feature of secrets within the bounds: clipped to more than the bounds, a secret is itself."""
    wide = isinstance(test.parameter, Band) and is_within(test.parameter, bounds)
    return SecretTest(feature=Feature.VALUE) if test.feature is Feature.CLIPPED and wide else test


def _check_key(key: exp.Expr, secret: Secret) -> None:
    if not secret.scope.mentions_secret(key) or read_bands(key, secret):
        return
    if secret.kind is SecretKind.NUMBER:
        refuse(
            "GROUP BY on public columns or on bands of the secret",
            got=f"the secret in GROUP BY {shown(key)}",
            fix="write CASE WHEN secret < 10 THEN 'low' … ELSE 'high' END, or COUNT(*) FILTER (WHERE secret "
            "BETWEEN … AND …) for each band",
        )
    if not secret.scope.is_secret(key):
        refuse(
            "GROUP BY the secret, or a function of it alone",
            got=shown(key),
            fix="group by the public columns beside it, not in one expression with it",
        )


def _check_public_item(item: exp.Expr, keys: frozenset[str], scope: Scope) -> None:
    """Refuse an item without an aggregate unless it is made of the keys: it would publish one row's value."""
    plain = item.unalias()
    if isinstance(plain, exp.Grouping):
        return
    if has(plain, exp.Star):
        refuse("the names of columns", got=shown(item), fix="a plan publishes aggregates, not rows")
    check_made_of_keys(scope.bind(plain), item, keys)


def _check_order(select: exp.Select, keys: frozenset[str], scope: Scope) -> list[exp.Expr]:
    """Refuse ORDER BY of anything but keys of GROUP BY and items of the SELECT list; return those items."""
    ranking: list[exp.Expr] = []
    for ordered in clause_of(select, "order").expressions:
        named = ordered.this.unnest() if isinstance(ordered, exp.Ordered) else ordered
        if _is_all(named):
            ranking += [item for item in select.expressions if has_aggregate(item)]
            continue
        meant = _of_answer(named, select)
        plain = meant[0] if len(meant) == 1 else dereferenced(named, select, scope)
        published = [item for item in select.expressions if item.unalias().unnest() == plain.unnest()]
        if has_aggregate(plain) and published:
            ranking += published  # the order of noisy numbers that are published tells no more than they do
            continue
        if has_aggregate(plain) or _names_aggregate(named, select):
            refuse(
                "ORDER BY public columns or an item of the SELECT list",
                got=shown(ordered),
                fix="the order would tell more than the published numbers: sort by these",
            )
        bound = scope.bind(plain)
        if not has(bound, exp.Column):
            refuse("ORDER BY on public columns", got=shown(ordered), fix="a constant orders nothing")
        check_made_of_keys(bound, ordered, keys)
    return ranking


def _of_answer(node: exp.Expr, select: exp.Select) -> list[exp.Expr]:
    """The items of the SELECT list that a bare name in ORDER BY may mean: there an alias hides a column."""
    bare = isinstance(node, exp.Column) and not node.table
    return [
        one.unalias() for one in select.expressions if bare and one.alias.casefold() == node.name.casefold()
    ]


def _check_limit(select: exp.Select) -> str:
    """Refuse LIMIT without an order; return it as text. The audit covers the lines that it leaves out."""
    if "limit" not in clauses_of(select):
        return ""
    limit, order = clause_of(select, "limit"), clause_of(select, "order")
    number = limit.args.get("expression")
    if not order.expressions or not isinstance(number, exp.Literal) or not number.name.isdigit():
        refuse("ORDER BY before LIMIT, and a number in it", got=shown(limit), fix="say which lines it keeps")
    return f"LIMIT {number.name}"


def _is_all(node: exp.Expr) -> bool:
    """Whether it is ``ORDER BY ALL``: by every item of the SELECT list, the aggregates too."""
    return node.name.casefold() == "all" and not (isinstance(node, exp.Column) and node.this.quoted)


def _names_aggregate(node: exp.Expr, select: exp.Select) -> bool:
    """Whether a name in an expression is the alias of an aggregate."""
    aliases = {item.alias.casefold() for item in select.expressions if item.alias and has_aggregate(item)}
    return any(not name.table and name.name.casefold() in aliases for name in node.find_all(exp.Column))


def _key_names(
    keys: Sequence[exp.Expr], aliases: Mapping[str, str] = MappingProxyType({})
) -> tuple[str, ...]:
    """What people call some expressions: a column's name, the alias of an item, or the text."""
    texts = ["" if isinstance(key, exp.Column) else key_text(key) for key in keys]
    return tuple(
        aliases.get(text) or shown_text(text) if text else key.name
        for key, text in zip(keys, texts, strict=True)
    )
