"""The parts of a SELECT as SQL texts in the source's dialect, for the queries that check a release."""

from __future__ import annotations

from functools import cached_property

from sqlglot import exp

from sightline.tables.engines.protocol import DATA, ColumnKind
from sightline.tables.membership import Band, Feature, Parameter, Statistic
from sightline.tables.sql.aggregates import Measure, Rewritten, is_within
from sightline.tables.sql.fragments import answers_yes, clipped_to, outside, valid_secret
from sightline.tables.sql.grammar import has, text_of
from sightline.tables.sql.grouping import Grouping, Having, aggregates_in
from sightline.tables.sql.scope import Source, bound_column, find_column
from sightline.tables.sql.secret_conditions import (
    Secret,
    SecretBand,
    SecretLine,
    SecretTest,
    Tests,
    read_bands,
)
from sightline.tables.subject import SecretKind, Subject
from sightline.values import frozen

_RELATIVE = "1e-9"  # two computations of a power of the secret may differ in their last digits


@frozen(eq=True)
class SelectParts:
    """The parts of a SELECT as the audit reads them: its grouping sets, aggregates and public conditions."""

    select: exp.Select
    source: Source
    grouping: Grouping
    measures: list[Measure]  # the items of the SELECT list with an aggregate, in order
    where: list[exp.Expr]  # the conditions of WHERE, as written
    conditions: list[exp.Expr]  # the same, bound
    public: list[exp.Expr]  # those of them on public columns
    having: Having
    rows: Tests  # the condition on the secret in WHERE, if there is one
    lines: tuple[SecretLine, ...]  # of a query that is grouped by functions of the secret


@frozen(eq=True)
class AggregateTexts:
    """An aggregate of a release: what it adds up as written, and as the audit reads it."""

    place: int  # among the release's aggregates
    inside: str  # the condition that the audit puts a row into the cell
    met: str  # the condition on the rows that the query adds up, beside its public WHERE
    value: str  # what the query adds up of such a row
    feature: str  # the audit's number for a row inside, with its weight; empty for a count of rows
    mean: bool
    clips: bool  # whether the query itself clips the secret to its bounds
    unweighted: str  # the condition that the secret decides whether the row's number is NULL; or empty

    @property
    def added(self) -> str:
        """What the query adds up of a row, 0 if nothing."""
        return f"(CASE WHEN {self.met} THEN COALESCE(CAST({self.value} AS DOUBLE), 0) ELSE 0 END)"

    def differs_from(self, number: str) -> str:
        """The condition that the query adds up another number than this one."""
        return f"ABS({self.added} - {number}) > {_RELATIVE} * ABS({number})"

    @property
    def counted(self) -> str:
        """1 if the query counts a row, else 0."""
        return f"(CASE WHEN {self.met} AND {self.value} IS NOT NULL THEN 1 ELSE 0 END)"


@frozen(eq=True, slots=False)
class CheckTexts:
    """Writes the parts of a SELECT as the engine reads them."""

    parts: SelectParts
    secret: Secret
    subject: Subject

    @cached_property
    def source(self) -> str:
        """FROM and JOIN, as the plan has them."""
        dialect = self.secret.scope.dialect
        select = self.parts.select
        return " ".join(
            text_of(part, dialect) for part in (select.args["from_"], *(select.args.get("joins") or ()))
        )

    @cached_property
    def where(self) -> str:
        """The public part of WHERE, as the plan has it; empty without one."""
        return " AND ".join(map(self.text, self._where[0]))

    def aggregate(self, place: int) -> AggregateTexts:
        """The texts of one aggregate."""
        measure = self.parts.measures[place]
        met, value = self._rows_and_value(measure.aggregate)
        feature = "".join(map(self.feature, measure.tests))
        for weight in measure.weights:
            feature = f"({feature} * {self.bound_text(weight)})"
        return AggregateTexts(
            place=place,
            inside=" AND ".join(map(self.bound_text, [*self.parts.public, *measure.filters])) or "1 = 1",
            met=met,
            value=value,
            feature=feature,
            mean=measure.statistic is Statistic.MEAN,
            clips=self._keeps_to_bounds(measure),
            unweighted="".join(
                f"{self.bound_text(weight)} IS NULL" for weight in measure.weights if measure.tells_by_weight
            ),
        )

    def differing(self, rewritten: Rewritten) -> str:
        """The query for how many rows an aggregate adds up otherwise than what is read in its place."""
        rows = dict[str, str]()
        counted, size = list[str](), ["ABS(c)"]

        def row(node: exp.Expr, name: str) -> str:
            one = self._as_row(node)
            rows[name], rows[f"{name}_is"] = one.added, one.counted
            return name

        row(rewritten.written, "c")
        read = exp.Paren(this=rewritten.read.copy())
        for place, call in enumerate(aggregates_in(read)):
            name = row(call, f"t{place}")
            size.append(f"ABS({name})")
            counted.append(f"{name}_is <> c_is")
            call.replace(exp.column(name))
        test = f"ABS(c - {self.text(read)}) > {_RELATIVE} * ({' + '.join(size)} + 1)"
        if has(rewritten.written, exp.Avg):  # of the same rows
            test = f"(c_is = 1 AND {test}) OR {' OR '.join(counted)}"
        listed = ", ".join(f"{text} AS {name}" for name, text in rows.items())
        where = f" WHERE {self.where}" if self.where else ""
        return (
            f"SELECT COUNT(CASE WHEN {test} THEN 1 END) AS n "
            f"FROM (SELECT {listed} {self.source}{where}) AS checked"
        )

    def _as_row(self, node: exp.Expr) -> AggregateTexts:
        met, value = self._rows_and_value(node)
        return AggregateTexts(
            place=0, inside="", met=met, value=value, feature="", mean=False, clips=False, unweighted=""
        )

    @property
    def unkeyed(self) -> str:
        """The condition that a row has a secret and no record key."""
        return f"{self.record} IS NULL AND {self.raw} IS NOT NULL"

    @property
    def invalid(self) -> str:
        """The condition that a row's secret is nothing that the audit reads."""
        return f"{self.raw} IS NOT NULL AND {self.valid} IS NULL"

    def missing(self, aggregate: AggregateTexts) -> str:
        """The condition that a mean divides by a row without a secret."""
        if not aggregate.mean:
            return "1 = 0"
        return f"{self.raw} IS NULL AND {aggregate.met} AND {aggregate.value} IS NOT NULL"

    def clipped(self, aggregate: AggregateTexts) -> str:
        """The condition that an audited row's secret lies outside its bounds or categories."""
        return "1 = 0" if aggregate.clips else f"{self.present} AND ({self.outside})"

    def _keeps_to_bounds(self, measure: Measure) -> bool:
        """Whether the query itself clips the secret to its bounds, so that none lies outside of them."""
        low, high = self.subject.bounds
        clipped = [test.parameter for test in measure.tests if test.feature is Feature.CLIPPED]
        bands = [band for band in clipped if isinstance(band, Band)]
        return any(is_within(Band(low=low, high=high), (band.low, band.high)) for band in bands)

    @cached_property
    def bands(self) -> list[tuple[str, tuple[SecretBand, ...]]]:
        """The keys that are bands of the secret, as written, with their bands."""
        grouping = self.parts.grouping
        return [
            (self.text(written), bands)
            for key, written in zip(grouping.keys, grouping.written, strict=True)
            if self.secret.scope.mentions_secret(key) and (bands := read_bands(key, self.secret))
        ]

    @cached_property
    def line(self) -> str:
        """What tells the lines of a group from each other, of a query that is grouped by the secret."""
        grouping, bands = self.parts.grouping, dict(self.bands)
        keys = [
            self.text(written)
            for key, written in zip(grouping.keys, grouping.written, strict=True)
            if self.secret.scope.mentions_secret(key)
        ]
        if not all(text in bands for text in keys):
            return self.valid
        return " || '|' || ".join(f"COALESCE(CAST({text} AS VARCHAR(255)), '')" for text in keys)

    @cached_property
    def of_lines(self) -> str:
        """The condition that a row is in a line of a query that is grouped by the secret."""
        met = [f"{self.feature(test)} = 1" for test in self.parts.rows]
        return " AND ".join([self.present, f"NOT ({self.outside})", *met])

    @cached_property
    def _where(self) -> tuple[list[exp.Expr], list[exp.Expr]]:
        """The parts of WHERE as written: those that are public, and those on the secret.

        With HAVING, a condition that rows have a secret stays among the first: HAVING is of the rows that
        meet it.
        """
        scope, kept = self.secret.scope, bool(self.parts.having.windows)
        public, on_secret = list[exp.Expr](), list[exp.Expr]()
        for part, meant in zip(self.parts.where, self.parts.conditions, strict=True):
            tested = scope.mentions_secret(meant) and not (kept and scope.asks_presence(meant))
            (on_secret if tested else public).append(part)
        return public, on_secret

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
            # Persons are counted once where each has one row.
            counted = node.this.expressions[0] if isinstance(node.this, exp.Distinct) else node.this
            if not isinstance(counted, exp.Star | exp.Literal):
                value = f"(CASE WHEN {self.text(counted)} IS NOT NULL THEN 1 END)"
        else:
            value = self.text(node.this)
            bound = self.secret.scope.bind(node.this).unnest()
            if isinstance(bound, exp.Column) and self.secret.scope.kind(bound) is ColumnKind.BOOLEAN:
                value = f"(CASE WHEN {value} THEN 1 WHEN NOT {value} THEN 0 END)"
        return " AND ".join(conditions) or "1 = 1", value

    def feature(self, test: SecretTest) -> str:
        """The feature of a row's secret that the audit adds up."""
        match test.feature:
            case Feature.VALUE if self.subject.kind is SecretKind.NUMBER:
                return self.valid
            case Feature.VALUE:
                yes = self.valid
            case Feature.POWER:
                return f"POWER({self.valid}, {test.parameter!r})"
            case Feature.CLIPPED:
                return self._clipped(test.parameter)
            case _:
                dialect = self.secret.scope.dialect
                yes = answers_yes(self.valid, test.parameter, closed=test.closed, dialect=dialect)
        return f"(CASE WHEN {yes} THEN {int(test.above)} ELSE {int(not test.above)} END)"

    def _clipped(self, band: Parameter) -> str:
        assert isinstance(band, Band)
        return clipped_to(self.valid, band.low, band.high)

    @cached_property
    def record(self) -> str:
        return self._column(self.subject.record)

    @cached_property
    def raw(self) -> str:
        return self._column(self.subject.secret)

    @cached_property
    def valid(self) -> str:
        """The secret if the audit uses it, else NULL."""
        column = find_column(self.secret.scope.columns(), self.subject.secret)
        return valid_secret(self.raw, self.subject, column)

    @cached_property
    def present(self) -> str:
        return f"{self.record} IS NOT NULL AND {self.valid} IS NOT NULL"

    @cached_property
    def outside(self) -> str:
        return outside(self.valid, self.subject, self.secret.scope.dialect)

    def _column(self, name: str) -> str:
        column = find_column(self.secret.scope.columns(), name)
        return self.bound_text(bound_column(column.name, DATA))

    def text(self, node: exp.Expr) -> str:
        """An expression as the engine reads it, in brackets."""
        return f"({text_of(node, self.secret.scope.dialect)})"

    def bound_text(self, node: exp.Expr) -> str:
        return self.text(self.secret.scope.as_written(node))
