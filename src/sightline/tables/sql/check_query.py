"""Write the query that checks a release: its own SQL, with counts in place of its aggregates.

The query keeps the FROM, JOIN, WHERE and GROUP BY of the plan, with the plan's own names, so that the engine
decides what they mean. It also holds the conditions and keys as the audit reads them. ``tables.verify``
compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from sightline.tables.engines.protocol import DATA, Column, ColumnKind
from sightline.tables.membership import Band, Feature, Parameter, Statistic
from sightline.tables.sql.aggregates import Measure, RowCount
from sightline.tables.sql.grouping import Keys, resolved_group
from sightline.tables.sql.row_features import is_within
from sightline.tables.sql.scope import conjuncts, find_column
from sightline.tables.sql.secret_conditions import Secret, SecretTest, categories_of
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
    has depends on the secrets, ``lines`` is how many the group has, and ``present`` its audited rows.
    """

    sql: str
    keys: int
    sets: tuple[tuple[bool, ...], ...]  # for each grouping set of the release, which keys it groups by
    repeats: bool  # True if a set that is listed twice is answered twice
    aggregates: tuple[int, ...]  # the checked ones, by position among the release's aggregates
    lines: tuple[int, ...] = ()  # for each grouping set, lines that a group needs to tell nothing; 0 for any


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectParts:
    """The parts of a SELECT as the audit reads them: its grouping sets, aggregates and public conditions."""

    select: exp.Select
    sets: list[Keys]  # bound
    measures: list[Measure | RowCount]  # the items of the SELECT list with an aggregate, in order
    public: list[exp.Expr]  # bound conditions of WHERE on public columns


def check_query(parts: SelectParts, secret: Secret, subject: Subject) -> CheckQuery | None:
    """Write the check of a release; None if nothing that it publishes depends on the secret."""
    scope = secret.scope
    histogram = any(scope.is_secret(key) for keys in parts.sets for key in keys)
    chosen = [
        place for place, measure in enumerate(parts.measures) if isinstance(measure, Measure) or histogram
    ]
    if not chosen:
        return None
    writer = _CheckWriter(parts=parts, secret=secret, subject=subject)
    group, leaves = resolved_group(parts.select, scope=scope)
    public = {text: leaf for text, leaf in leaves.items() if not scope.is_secret(scope.bind(leaf))}
    names = list(public)
    identity = {
        id(key): scope.identity(key) for key in {id(k): k for keys in parts.sets for k in keys}.values()
    }
    sets = tuple(
        tuple(name in used for name in names)
        for used in ({identity[id(key)] for key in keys} for keys in parts.sets)
    )
    several = len(set(sets)) > 1
    texts = {name: f"({leaf.sql(scope.dialect)})" for name, leaf in public.items()}
    listed = [f"GROUPING({texts[name]}) AS g{j}" for j, name in enumerate(names) if several]
    listed += [f"{writer.is_constant(scope.bind(leaf))} AS k{j}" for j, leaf in enumerate(public.values())]
    for place in chosen:
        listed += writer.counts(place)
    lines = writer.lines()
    if any(lines):
        listed += writer.occurring(histogram=histogram)
    if group is not None and (histogram or not several):
        # List the sets one by one without the secret: in ROLLUP it would count as a level.
        tuples = [
            "(" + ", ".join(texts[name] for name, used in zip(names, keys, strict=True) if used) + ")"
            for keys in dict.fromkeys(sets)
        ]
        grouped = (
            f"GROUP BY GROUPING SETS ({', '.join(tuples)})" if several else f"GROUP BY {tuples[0][1:-1]}"
        )
        grouped = grouped if several or any(sets[0]) else ""
    else:
        grouped = group.sql(scope.dialect) if group is not None else ""
    sql = " ".join(["SELECT", ", ".join(listed), writer.source(), grouped])
    return CheckQuery(
        sql=sql,
        keys=len(names),
        sets=sets,
        repeats=not histogram and several,
        aggregates=tuple(chosen),
        lines=lines if any(lines) else (),
    )


@dataclass(frozen=True, kw_only=True)
class _CheckWriter:
    """Writes the counts of a check as SQL in the source's dialect."""

    parts: SelectParts
    secret: Secret
    subject: Subject

    def source(self) -> str:
        """FROM, JOIN and the public part of WHERE, as the plan has them."""
        select, dialect = self.parts.select, self.secret.scope.dialect
        parts = [select.args["from_"], *(select.args.get("joins") or [])]
        public, _ = self._where
        where = " AND ".join(map(self._text, public))
        return " ".join(part.sql(dialect) for part in parts) + (f" WHERE {where}" if where else "")

    def is_constant(self, key: exp.Expr) -> str:
        """1 if a key of the audit has one value in the group, else 0. NULL counts as a value."""
        text = self._bound_text(key)
        plain = isinstance(key, exp.Column) and self._kind(key) in (
            ColumnKind.NUMBER,
            ColumnKind.TEXT,
            ColumnKind.TIME,
        )
        single = f"MIN({text}) = MAX({text})" if plain else f"COUNT(DISTINCT {text}) = 1"
        return f"CASE WHEN COUNT({text}) = 0 OR (COUNT({text}) = COUNT(*) AND {single}) THEN 1 ELSE 0 END"

    def counts(self, place: int) -> list[str]:
        """The columns of one aggregate in the answer."""
        measure = self.parts.measures[place]
        inside = " AND ".join(map(self._bound_text, [*self.parts.public, *measure.filters])) or "1 = 1"
        rows, value = self._rows_and_value(measure.aggregate)
        aggregated = f"CASE WHEN {rows} AND {value} IS NOT NULL THEN 1 ELSE 0 END"
        differs = [f"({aggregated}) <> (CASE WHEN {inside} THEN 1 ELSE 0 END)"]
        mean = isinstance(measure, Measure) and measure.statistic is Statistic.MEAN
        if isinstance(measure, Measure):
            engine_value = f"(CASE WHEN {rows} THEN COALESCE(CAST({value} AS DOUBLE), 0) ELSE 0 END)"
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
            f"missing{place}": f"{inside} AND {self._raw} IS NULL AND {rows} AND {value} IS NOT NULL"
            if mean
            else "1 = 0",
            f"clipped{place}": "1 = 0"
            if self._keeps_to_bounds(measure)
            else f"{inside} AND {self._present} AND ({self._outside})",
        }
        return [f"COUNT(CASE WHEN {test} THEN 1 END) AS {name}" for name, test in tests.items()]

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
        never = 2 if self._where[1] else 0
        return tuple(
            values if any(scope.is_secret(key) for key in keys) else never if keys else 0
            for keys in self.parts.sets
        )

    def occurring(self, *, histogram: bool) -> list[str]:
        """How many lines the group has, and how many audited rows."""
        valid = f"CASE WHEN {self._present} AND NOT ({self._outside}) THEN {self._valid} END"
        lines = f"COUNT(DISTINCT {valid})" if histogram else "1"
        return [f"{lines} AS lines", f"COUNT(CASE WHEN {self._present} THEN 1 END) AS present"]

    @cached_property
    def _where(self) -> tuple[list[exp.Expr], list[exp.Expr]]:
        """The parts of WHERE as written: those on public columns, and those on the secret."""
        where = self.parts.select.args.get("where")
        scope = self.secret.scope
        parts = conjuncts(where.this) if where is not None else []
        on_secret = [part for part in parts if scope.mentions_secret(scope.bind(part))]
        return [part for part in parts if part not in on_secret], on_secret

    def _rows_and_value(self, node: exp.Expr) -> tuple[str, str]:
        """The condition on the rows of an aggregate, and the expression that it adds up, as written."""
        conditions = list(map(self._text, self._where[1]))
        if isinstance(node, exp.Filter):
            conditions.append(self._text(node.expression.this))
            node = node.this
        value = "1"
        if isinstance(node, exp.CountIf):
            conditions.append(self._text(node.this))
        elif isinstance(node, exp.Count):
            if not isinstance(node.this, exp.Star | exp.Literal):
                value = f"(CASE WHEN {self._text(node.this)} IS NOT NULL THEN 1 END)"
        else:
            value = self._text(node.this)
            bound = self.secret.scope.bind(node.this).unnest()
            if isinstance(bound, exp.Column) and self._kind(bound) is ColumnKind.BOOLEAN:
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
        column = find_column(self._columns(), self.subject.secret)
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
        column = find_column(self._columns(), name)
        bound = exp.column(exp.to_identifier(column.name, quoted=True), table=exp.to_identifier(DATA))
        return self._bound_text(bound)

    def _columns(self) -> Sequence[Column]:
        return next(columns for alias, columns in self.secret.scope.relations.values() if alias == DATA)

    def _kind(self, column: exp.Column) -> ColumnKind:
        columns = dict(self.secret.scope.relations.values())[column.table]
        return find_column(columns, column.name).kind

    def _text(self, node: exp.Expr) -> str:
        return f"({node.sql(self.secret.scope.dialect, comments=False)})"

    def _bound_text(self, node: exp.Expr) -> str:
        return self._text(self.secret.scope.with_query_names(node))
