"""Write the query that checks a release: its own SQL, with counts in place of its aggregates.

The query keeps the subqueries, FROM, JOIN, WHERE, GROUP BY and HAVING of the plan, with the plan's own
names, so that the engine decides what they mean. It also holds the conditions and keys as the audit reads
them. ``tables.verify`` compares the two. An inner SELECT computes both for every row, and an outer one groups
and counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from sightline.tables.engines.protocol import DATA, ColumnKind
from sightline.tables.membership import Band, Feature, Parameter, Statistic
from sightline.tables.sql.aggregates import Measure, RowCount
from sightline.tables.sql.grouping import Keys, resolved_group
from sightline.tables.sql.having import Having, aggregates_in
from sightline.tables.sql.row_features import is_within
from sightline.tables.sql.scope import conjuncts, find_column
from sightline.tables.sql.secret_bands import SecretBand, read_bands
from sightline.tables.sql.secret_conditions import Secret, SecretTest, categories_of
from sightline.tables.sql.sources import Source
from sightline.tables.subject import SecretKind, Subject

LARGEST = "1.7976931348623157e308"  # a larger number is infinite, or NaN
_RELATIVE = "1e-9"  # two computations of a power of the secret may differ in their last digits


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckQuery:
    """The query, in the source's dialect, and how to read its answer.

    Column ``g3`` is 0 if the group's set contains key 3 (only with several grouping sets), and ``k3`` is 1 if
    the audit's key 3 has one value in the group. For aggregate 2 there are ``n2`` (rows that the audit puts
    into the cell), ``d2`` (rows whose number differs between the engine and the audit), and the counts
    ``unkeyed2``, ``invalid2``, ``missing2`` and ``clipped2`` of ``UnauditedRows``. If which lines the answer
    has depends on the secrets, ``lines`` is how many the group has, and ``present`` its audited rows. With
    HAVING, ``kept`` is 1 if the engine's HAVING keeps the group, and ``h1`` and ``i1`` are the least and the
    largest answer (1 for yes) to the audit's condition of grouping set 1 over the audited rows of the group.
    """

    sql: str
    keys: int
    sets: tuple[tuple[bool, ...], ...]  # for each grouping set of the release, which keys it groups by
    repeats: bool  # True if a set that is listed twice is answered twice
    aggregates: tuple[int, ...]  # the checked ones, by position among the release's aggregates
    lines: tuple[int, ...] = ()  # for each grouping set, lines that a group needs to tell nothing; 0 for any
    having: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectParts:
    """The parts of a SELECT as the audit reads them: its grouping sets, aggregates and public conditions."""

    select: exp.Select
    source: Source
    sets: list[Keys]  # bound
    measures: list[Measure | RowCount]  # the items of the SELECT list with an aggregate, in order
    public: list[exp.Expr]  # bound conditions on public columns, of WHERE and of the subqueries
    having: Having | None = None


def check_query(parts: SelectParts, secret: Secret, subject: Subject) -> CheckQuery | None:
    """Write the check of a release; None if nothing that it publishes depends on the secret."""
    scope = secret.scope
    histogram = any(scope.mentions_secret(key) for keys in parts.sets for key in keys)
    chosen = [
        place for place, measure in enumerate(parts.measures) if isinstance(measure, Measure) or histogram
    ]
    if not chosen:
        return None
    group, leaves = resolved_group(parts.select, scope=scope)
    public = {text: leaf for text, leaf in leaves.items() if not scope.mentions_secret(scope.bind(leaf))}
    names = list(public)
    writer = _CheckWriter(parts=parts, secret=secret, subject=subject, keys=tuple(names))
    identity = {
        id(key): scope.identity(key) for key in {id(k): k for keys in parts.sets for k in keys}.values()
    }
    sets = tuple(
        tuple(name in used for name in names)
        for used in ({identity[id(key)] for key in keys} for keys in parts.sets)
    )
    several = len(set(sets)) > 1
    rows: dict[str, str] = {}  # the inner SELECT: what it computes for every row
    listed = [f"GROUPING(y{j}) AS g{j}" for j in range(len(names)) if several]
    for j, leaf in enumerate(public.values()):
        rows[f"y{j}"] = writer.text(leaf)
        listed.append(f"{writer.is_constant(scope.bind(leaf), f'b{j}', rows)} AS k{j}")
    for place in chosen:
        listed += writer.counts(place, rows)
    lines = writer.lines()
    if any(lines):
        listed += writer.occurring(rows, histogram=histogram)
    listed += writer.kept(rows)
    if group is not None and (histogram or not several):
        # List the sets one by one without the secret: in ROLLUP it would count as a level.
        tuples = [
            "(" + ", ".join(f"y{j}" for j, used in enumerate(keys) if used) + ")"
            for keys in dict.fromkeys(sets)
        ]
        grouped = (
            f"GROUP BY GROUPING SETS ({', '.join(tuples)})" if several else f"GROUP BY {tuples[0][1:-1]}"
        )
        grouped = grouped if several or any(sets[0]) else ""
    else:
        grouped = group.sql(scope.dialect) if group is not None else ""
    inner = ", ".join(f"{text} AS {name}" for name, text in rows.items())
    sql = f"SELECT {', '.join(listed)} FROM (SELECT {inner} {writer.source()}) AS checked {grouped}"
    return CheckQuery(
        sql=sql,
        keys=len(names),
        sets=sets,
        repeats=not histogram and several,
        aggregates=tuple(chosen),
        lines=lines if any(lines) else (),
        having=parts.having is not None,
    )


@dataclass(frozen=True, kw_only=True)
class _CheckWriter:
    """Writes the counts of a check as SQL in the source's dialect."""

    parts: SelectParts
    secret: Secret
    subject: Subject
    keys: tuple[str, ...]  # the identities of the public keys, in the order of their numbers

    def source(self) -> str:
        """FROM, JOIN and the public part of WHERE, as the plan has them."""
        dialect = self.secret.scope.dialect
        public, _ = self._where
        where = " AND ".join(map(self.text, public))
        read = " ".join(part.sql(dialect) for part in self.parts.source.checked)
        return read + (f" WHERE {where}" if where else "")

    def is_constant(self, key: exp.Expr, name: str, rows: dict[str, str]) -> str:
        """1 if a key of the audit has one value in the group, else 0. NULL counts as a value."""
        rows[name] = self._bound_text(key)
        plain = isinstance(key, exp.Column) and self.secret.scope.kind(key) in (
            ColumnKind.NUMBER,
            ColumnKind.TEXT,
            ColumnKind.TIME,
        )
        single = f"MIN({name}) = MAX({name})" if plain else f"COUNT(DISTINCT {name}) = 1"
        return f"CASE WHEN COUNT({name}) = 0 OR (COUNT({name}) = COUNT(*) AND {single}) THEN 1 ELSE 0 END"

    def counts(self, place: int, rows: dict[str, str]) -> list[str]:
        """The columns of one aggregate in the answer; ``rows`` gets what they count."""
        measure = self.parts.measures[place]
        inside = " AND ".join(map(self._bound_text, [*self.parts.public, *measure.filters])) or "1 = 1"
        met, value = self._rows_and_value(measure.aggregate)
        aggregated = f"CASE WHEN {met} AND {value} IS NOT NULL THEN 1 ELSE 0 END"
        differs = [f"({aggregated}) <> (CASE WHEN {inside} THEN 1 ELSE 0 END)"]
        for text, bands in self._bands:  # the engine's band of a row must be the audit's
            for band in bands:
                own = f"{text} IS NULL" if band.name is None else f"{text} = {self.text(band.name)}"
                differs.append(f"(CASE WHEN {own} THEN 1 ELSE 0 END) <> {self._feature(band.test)}")
        mean = isinstance(measure, Measure) and measure.statistic is Statistic.MEAN
        if isinstance(measure, Measure):
            engine_value = f"(CASE WHEN {met} THEN COALESCE(CAST({value} AS DOUBLE), 0) ELSE 0 END)"
            feature = self._feature(measure.test)
            if measure.weight is not None:
                feature = f"({feature} * {self._bound_text(measure.weight)})"
            audit_value = f"(CASE WHEN {inside} THEN {feature} ELSE 0 END)"
            unequal = f"ABS({engine_value} - {audit_value}) > {_RELATIVE} * ABS({audit_value})"
            differs = [unequal, *(differs if mean else [])]
        tests = {
            f"n{place}": f"{self._present} AND {inside}",
            f"d{place}": f"{self._present} AND ({' OR '.join(f'({test})' for test in differs)})",
            f"unkeyed{place}": f"{inside} AND {self._record} IS NULL AND {self._raw} IS NOT NULL",
            f"invalid{place}": f"{inside} AND {self._raw} IS NOT NULL AND {self._valid} IS NULL",
            f"missing{place}": f"{inside} AND {self._raw} IS NULL AND {met} AND {value} IS NOT NULL"
            if mean
            else "1 = 0",
            f"clipped{place}": "1 = 0"
            if self._keeps_to_bounds(measure)
            else f"{inside} AND {self._present} AND ({self._outside})",
        }
        rows |= {name: f"CASE WHEN {test} THEN 1 END" for name, test in tests.items()}
        return [f"COUNT({name}) AS {name}" for name in tests]

    def kept(self, rows: dict[str, str]) -> list[str]:
        """Whether HAVING keeps the group: the engine's answer, and the audit's for each grouping set."""
        having = self.parts.having
        if having is None:
            return []
        listed = [f"CASE WHEN {self._grouped_having(having.written, rows)} THEN 1 ELSE 0 END AS kept"]
        meaning = {window.name: window.bound for window in having.windows}
        for place, condition in enumerate(having.conditions):
            root = exp.Paren(this=condition.copy())
            for column in list(root.find_all(exp.Column)):
                if column.name in meaning:
                    column.replace(exp.Paren(this=meaning[column.name].copy()))
            asked = self._bound_text(root)
            rows[f"h{place}"] = f"CASE WHEN {self._present} THEN CASE WHEN {asked} THEN 1 ELSE 0 END END"
            listed += [f"COALESCE(MIN(h{place}), -1) AS h{place}", f"COALESCE(MAX(h{place}), -1) AS i{place}"]
        return listed

    def _grouped_having(self, written: exp.Expr, rows: dict[str, str]) -> str:
        """HAVING as written, over the columns of the inner SELECT."""
        scope = self.secret.scope
        root = exp.Paren(this=written.copy())
        inside = aggregates_in(root)
        for aggregate in inside:
            for column in list(aggregate.find_all(exp.Column)):
                name = f"c{len(rows)}"
                rows[name] = self.text(column)
                column.replace(exp.column(name))
        waiting = [root.this]
        while waiting:
            node = waiting.pop()
            if any(node is one for one in inside):
                continue
            if node.find(exp.Column) is not None and not node.find(exp.AggFunc):
                place = {name: j for j, name in enumerate(self.keys)}.get(scope.identity(scope.bind(node)))
                if place is not None:
                    node.replace(exp.column(f"y{place}"))
                    continue
            waiting += node.iter_expressions()
        return self.text(root.this)

    def _keeps_to_bounds(self, measure: Measure | RowCount) -> bool:
        """Whether the query itself clips the secret to its bounds, so that none lies outside of them."""
        if not isinstance(measure, Measure) or measure.test.feature is not Feature.CLIPPED:
            return False
        band = measure.test.parameter
        assert isinstance(band, Band)
        return self.subject.bounds is not None and is_within(
            Band(low=self.subject.bounds[0], high=self.subject.bounds[1]), (band.low, band.high)
        )

    def lines(self) -> tuple[int, ...]:
        """For each grouping set, how many lines a group needs in the answer to tell nothing; 0 for any.

        GROUP BY the secret lists the values that occur: a group with fewer than all tells which ones nobody
        has. A condition on the secret in WHERE lists the groups in which somebody meets it, and every line
        tells that. Without keys there is one line, whatever the secrets are.
        """
        scope, categories = self.secret.scope, self.subject.categories
        values = 2 if self.subject.kind is SecretKind.BOOLEAN else len(categories or ())
        values = max([values, *(len(bands) for _, bands in self._bands)])
        conditions = self.parts.source.conditions
        where = self.parts.select.args.get("where")
        asked = [*conditions, *([] if where is None else [scope.bind(where.this)])]
        never = 2 if any(map(scope.mentions_secret, asked)) else 0
        return tuple(
            values if any(scope.mentions_secret(key) for key in keys) else never if keys else 0
            for keys in self.parts.sets
        )

    def occurring(self, rows: dict[str, str], *, histogram: bool) -> list[str]:
        """How many lines the group has, and how many audited rows."""
        rows["present"] = f"CASE WHEN {self._present} THEN 1 END"
        if histogram:
            value = f"COALESCE(CAST({self._bands[0][0]} AS VARCHAR(255)), '')" if self._bands else self._valid
            rows["v"] = f"CASE WHEN {self._present} AND NOT ({self._outside}) THEN {value} END"
        lines = "COUNT(DISTINCT v)" if histogram else "1"
        return [f"{lines} AS lines", "COUNT(present) AS present"]

    @cached_property
    def _bands(self) -> list[tuple[str, tuple[SecretBand, ...]]]:
        """The keys that are bands of the secret, as written, with their bands."""
        scope = self.secret.scope
        _, leaves = resolved_group(self.parts.select, scope=scope)
        found = [
            (self.text(leaf), read_bands(scope.bind(leaf), self.secret))
            for leaf in leaves.values()
            if scope.mentions_secret(scope.bind(leaf))
        ]
        return [(text, bands) for text, bands in found if bands is not None]

    @cached_property
    def _where(self) -> tuple[list[exp.Expr], list[exp.Expr]]:
        """The parts of WHERE as written: those that are public, and those on the value of the secret."""
        where = self.parts.select.args.get("where")
        scope = self.secret.scope
        parts = conjuncts(where.this) if where is not None else []
        bound = [scope.bind(part) for part in parts]
        on_secret = [
            part
            for part, meant in zip(parts, bound, strict=True)
            if scope.mentions_secret(meant) and not scope.asks_presence(meant)
        ]
        public = [part for part in parts if not any(part is one for one in on_secret)]
        return public, [*self.parts.source.on_secret, *on_secret]

    def _rows_and_value(self, node: exp.Expr) -> tuple[str, str]:
        """The condition on the rows of an aggregate, and the expression that it adds up, as written."""
        conditions = list(map(self.text, self._where[1]))
        if isinstance(node, exp.Filter):
            conditions.append(self.text(node.expression.this))
            node = node.this
        value = "1"
        if isinstance(node, exp.CountIf):
            conditions.append(self.text(node.this))
        elif isinstance(node, exp.Count):
            if not isinstance(node.this, exp.Star | exp.Literal):
                value = f"(CASE WHEN {self.text(node.this)} IS NOT NULL THEN 1 END)"
        else:
            value = self.text(node.this)
            bound = self.secret.scope.bind(node.this).unnest()
            if isinstance(bound, exp.Column) and self.secret.scope.kind(bound) is ColumnKind.BOOLEAN:
                value = f"(CASE WHEN {value} THEN 1 WHEN NOT {value} THEN 0 END)"
        return " AND ".join(conditions) or "1 = 1", value

    def _feature(self, test: SecretTest) -> str:
        """The feature of a row's secret that the audit adds up."""
        match test.feature:
            case Feature.VALUE if self.subject.kind is SecretKind.NUMBER:
                return self._valid
            case Feature.VALUE:
                yes = self._valid
            case Feature.INDICATOR:
                dialect = self.secret.scope.dialect
                listed = (exp.Literal.string(name).sql(dialect) for name in categories_of(test))
                yes = f"{self._valid} IN ({', '.join(listed)})"
            case Feature.POWER:
                return f"POWER({self._valid}, {test.parameter!r})"
            case Feature.CLIPPED:
                return self._clipped(test.parameter)
            case Feature.THRESHOLD:
                yes = f"{self._valid} {'>=' if test.closed else '>'} {test.parameter!r}"
            case Feature.BAND:
                yes = self._inside(test.parameter)
        return f"(CASE WHEN {yes} THEN {int(test.above)} ELSE {int(not test.above)} END)"

    def _clipped(self, band: Parameter) -> str:
        assert isinstance(band, Band)
        text = self._valid
        text = f"GREATEST({text}, {band.low!r})" if math.isfinite(band.low) else text
        return f"LEAST({text}, {band.high!r})" if math.isfinite(band.high) else text

    def _inside(self, band: Parameter) -> str:
        assert isinstance(band, Band)
        above, below = ">=" if band.low_closed else ">", "<=" if band.high_closed else "<"
        return f"{self._valid} {above} {band.low!r} AND {self._valid} {below} {band.high!r}"

    @cached_property
    def _record(self) -> str:
        return self._column(self.subject.record)

    @cached_property
    def _raw(self) -> str:
        return self._column(self.subject.secret)

    @cached_property
    def _valid(self) -> str:
        """The secret if the audit uses it, else NULL: NaN, infinite, or a boolean other than 0 and 1."""
        raw = self._raw
        if self.subject.kind is SecretKind.NUMBER:
            return f"(CASE WHEN ABS(CAST({raw} AS DOUBLE)) <= {LARGEST} THEN CAST({raw} AS DOUBLE) END)"
        column = find_column(self.secret.scope.bases[DATA], self.subject.secret)
        if self.subject.kind is SecretKind.BOOLEAN and column.kind is ColumnKind.NUMBER:
            return f"(CASE WHEN {raw} = 1 THEN TRUE WHEN {raw} = 0 THEN FALSE END)"
        return raw

    @cached_property
    def _present(self) -> str:
        return f"{self._record} IS NOT NULL AND {self._valid} IS NOT NULL"

    @cached_property
    def _outside(self) -> str:
        if self.subject.bounds is not None:
            low, high = self.subject.bounds
            return f"{self._valid} < {low!r} OR {self._valid} > {high!r}"
        if self.subject.categories:
            dialect = self.secret.scope.dialect
            listed = ", ".join(
                exp.Literal.string(category).sql(dialect) for category in self.subject.categories
            )
            return f"{self._valid} NOT IN ({listed})"
        return "1 = 0"

    def _column(self, name: str) -> str:
        column = find_column(self.secret.scope.bases[DATA], name)
        bound = exp.column(exp.to_identifier(column.name, quoted=True), table=exp.to_identifier(DATA))
        return self._bound_text(bound)

    def text(self, node: exp.Expr) -> str:
        """An expression as the engine reads it, in brackets."""
        return f"({node.sql(self.secret.scope.dialect, comments=False)})"

    def _bound_text(self, node: exp.Expr) -> str:
        return self.text(self.secret.scope.as_written(node))
