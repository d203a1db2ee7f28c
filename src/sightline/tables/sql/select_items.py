"""Read an item of the SELECT list: the aggregate that carries the noise, and what is computed with it.

What is computed with a noisy number and with public numbers tells no more than the noisy number. So
``ROUND(100.0 * SUM(x) / COUNT(*), 1)`` is audited as ``SUM(x)``, with the noise on the sum. The result of the
audit says so: noise that is added after the multiplication by 100 is another amount of noise. What is
computed with several, such as a ratio, or with one by CASE or SQRT, is audited as the publication of all of
them, and STDDEV(x) as that of the sums that it is made of: more than the attacker sees. An item that no value
of the secret can change, such as ``AVG(age)``, is public.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from sqlglot import exp

from sightline.errors import InvalidPlan
from sightline.tables.membership import Computed
from sightline.tables.sql.aggregates import Measure, Rewritten, read_aggregate, refuse_aggregate
from sightline.tables.sql.grammar import NUMBERS, WHOLE_NUMBERS, clauses_of, has, is_inside, refuse, shown
from sightline.tables.sql.grouping import aggregates_in, aggregates_of_rows, check_made_of_keys, key_text
from sightline.tables.sql.one_select import is_another_number, is_inside_subquery
from sightline.tables.sql.row_terms import sums_of
from sightline.tables.sql.scope import Scope, where_of
from sightline.tables.sql.secret_conditions import Secret, Tests, constant_of
from sightline.tables.sql.unfold import label_of
from sightline.values import frozen

_OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
_ONE_NUMBER: dict[type[exp.Expr], str] = {
    exp.Round: "ROUND", exp.Floor: "FLOOR", exp.Ceil: "CEIL", exp.Abs: "ABS", exp.Neg: "- (negated)",
    exp.Coalesce: "COALESCE", exp.Nullif: "NULLIF", exp.Least: "LEAST", exp.Greatest: "GREATEST",
}  # fmt: skip
_PUBLIC = (*_OPERATORS, *_ONE_NUMBER, exp.Cast, exp.DataType, exp.Paren, exp.Literal, exp.Null)


def read_item(
    item: exp.Expr, *, secret: Secret, where: Tests, keys: Collection[str], histogram: bool = False
) -> list[Measure]:
    """Read one item of the SELECT list; ``where`` is the condition on the secret in the query's WHERE.

    An item of several aggregates of the secret, or of window functions over aggregates, is computed with
    their noisy answers. In a ``histogram``, which is grouped by the secret, these are the counts of rows.
    """
    label, rewritten = label_of(item), tuple[Rewritten, ...]()
    try:
        node, readings = _readings(item, label, secret=secret, where=where)
    except InvalidPlan:
        item, rewritten = _without_mixed(item, secret=secret, where=where)
        if not rewritten:
            raise
        node, readings = _readings(item, label, secret=secret, where=where)
        readings = {key: replace(one, rewritten=rewritten) for key, one in readings.items()}
    every = list(readings.values())
    counts = histogram and not where and all(one.counts_rows for one in every)
    measures = [one for one in every if one.tests]
    if not readings:
        refuse_aggregate(node)
    combined = has(node, exp.Window) or any(map(is_another_number, node.walk()))
    combined = combined or _is_further(node, [one.aggregate for one in measures])
    if combined or len(measures) > 1:
        _check_combined(node, readings, secret.scope, keys)
        return _combined(node, label, every if counts else measures)
    if not measures and len(every) > 1:
        _check_public(node, readings)
        return [Measure(label=label, aggregate=node)]
    noisy = measures[0] if measures else every[0]
    found = _Steps(readings=readings, noisy=noisy_number(noisy.aggregate)).before(node)
    return [replace(noisy, computed=found)]


def _readings(
    item: exp.Expr, label: str, *, secret: Secret, where: Tests
) -> tuple[exp.Expr, dict[int, Measure]]:
    """An item without its alias, and the reading of every aggregate in it."""
    node = with_sums(item.unalias().unnest(), secret.scope)
    found = {
        id(one): read_aggregate(one, label=label, secret=secret, where=where)
        for one in aggregates_of_rows(node)
    }
    return node, found


def _without_mixed(item: exp.Expr, *, secret: Secret, where: Tests) -> tuple[exp.Expr, tuple[Rewritten, ...]]:
    """Write aggregates of an item that are not of one feature as sums of such, in its SELECT."""
    found = []
    for call in aggregates_of_rows(item.unalias()) if not where else ():
        if has(call, *_OF_SUMS) or not _speaks_of_secret(call, secret.scope):
            continue
        try:
            read_aggregate(call, label="", secret=secret, where=where)
        except InvalidPlan:
            try:
                sums = sums_of(call, secret)
                for one in aggregates_in(sums):
                    read_aggregate(one, label="", secret=secret, where=where)
            except InvalidPlan:
                continue  # the reader of the aggregate says why
            found.append(Rewritten(written=call.copy(), read=sums.copy()))
            call.replace(sums)
            item = sums if call is item else item
    return item, tuple(found)


def with_filters(select: exp.Select, scope: Scope) -> None:
    """Put conditions of WHERE that mix the secret and public columns around every aggregate.

    Only of a SELECT that has one line in any case: which lines others have would depend on the secret.
    """
    if {"group", "having"} & clauses_of(select):
        return
    parts = where_of(select)
    mixed = [part for part in parts if _mixes(scope.bind(part), scope)]
    if not mixed:
        return
    for call in [call for item in select.expressions for call in aggregates_of_rows(item.unalias())]:
        inner = call.this if isinstance(call, exp.Filter) else call
        own = [call.expression.this] if isinstance(call, exp.Filter) else []
        where = exp.Where(this=exp.and_(*(exp.paren(part.copy()) for part in (*own, *mixed))))
        call.replace(exp.Filter(this=inner.copy(), expression=where))
    left = [exp.paren(part.copy()) for part in parts if part not in mixed]
    select.set("where", exp.Where(this=exp.and_(*left)) if left else None)


def _mixes(bound: exp.Expr, scope: Scope) -> bool:
    about = [scope.is_secret(column) for column in bound.find_all(exp.Column)]
    return any(about) and not all(about)


# What makes something else of a noisy number than arithmetic does.
_AFTER_NOISE = (
    exp.Case, exp.If, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.And, exp.Or, exp.Not, exp.Is,
    exp.Between, exp.Boolean, exp.Sqrt, exp.Ln, exp.Log, exp.Exp, exp.Pow, exp.Sign,
)  # fmt: skip
# Aggregates that are made of sums of their arguments, of their squares and of their products.
_OF_SUMS = (
    exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop, exp.Corr, exp.CovarPop,
    exp.CovarSamp, exp.RegrSlope, exp.RegrIntercept, exp.RegrR2,
)  # fmt: skip
_WINDOW_PARTS = (
    exp.Window, exp.WindowSpec, exp.Order, exp.Ordered, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Lag, exp.Lead,
    exp.FirstValue, exp.LastValue, exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank,
    exp.CumeDist, exp.Ntile, exp.Var,
)  # fmt: skip


def _check_combined(
    node: exp.Expr, readings: dict[int, Measure], scope: Scope, keys: Collection[str]
) -> None:
    """Refuse anything but keys, constants, arithmetic and window functions around aggregates."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if id(one) in readings or is_another_number(one):
            continue
        of_rows = not isinstance(one, _WINDOW_PARTS) and not has(one, exp.AggFunc, exp.Window)
        if of_rows and has(one, exp.Column):
            check_made_of_keys(scope.bind(one), node, keys)
        elif not isinstance(one, (*_PUBLIC, *_WINDOW_PARTS, *_AFTER_NOISE)):
            refuse(
                "arithmetic and window functions of aggregates and keys",
                got=shown(one),
                fix="publish the aggregates and compute with their noisy answers",
            )
        else:
            waiting += one.iter_expressions()


def _is_further(node: exp.Expr, aggregates: list[exp.Expr]) -> bool:
    """Whether an item is more than arithmetic on one aggregate: CASE, a function, or a division by it."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if any(one is aggregate for aggregate in aggregates):
            continue
        inside = list(one.expression.walk()) if isinstance(one, exp.Div) else []
        if isinstance(one, _AFTER_NOISE) or any(part is own for part in inside for own in aggregates):
            return bool(aggregates)
        waiting += [] if isinstance(one, exp.AggFunc | exp.Filter) else one.iter_expressions()
    return False


def with_sums(node: exp.Expr, scope: Scope) -> exp.Expr:
    """An item with the sums that its variances and correlations of the secret are made of in their place.

    >>> from sqlglot import parse_one
    >>> from sightline.tables.engines.protocol import Column, ColumnKind
    >>> from sightline.tables.subject import Schema
    >>> schema = Schema(columns=[Column("x", ColumnKind.NUMBER)])
    >>> scope = Scope.of_data(schema, secret="x", called=exp.to_identifier("data"))
    >>> print(with_sums(parse_one("STDDEV(x) / 2"), scope).sql())
    (SUM(x) + SUM(POWER(x, 2)) + COUNT(x)) / 2
    """
    if not has(node, *_OF_SUMS):
        return node
    root = exp.Paren(this=node.copy())
    for call in aggregates_in(root):
        inner = call.this if isinstance(call, exp.Filter) else call
        if not isinstance(inner, _OF_SUMS) or not _speaks_of_secret(call, scope):
            continue
        first, second = inner.this, inner.args.get("expression")
        sums: list[exp.Expr] = [exp.Sum(this=first), exp.Sum(this=_square(first)), exp.Count(this=first)]
        filters = [call.expression.this] if isinstance(call, exp.Filter) else []
        if second is not None:  # rows without one of the two do not count
            sums[2:] = [exp.Sum(this=second), exp.Sum(this=_square(second)), exp.Count(this=exp.Star())]
            sums.append(exp.Sum(this=exp.Mul(this=first, expression=second)))
            public = [one for one in (first, second) if not _speaks_of_secret(one, scope)]
            filters += [exp.Not(this=exp.Is(this=one, expression=exp.Null())) for one in public]
        if filters:
            where = exp.Where(this=exp.and_(*filters))
            sums = [exp.Filter(this=one, expression=where.copy()) for one in sums]
        total = sums[0].copy()
        for one in sums[1:]:
            total = exp.Add(this=total, expression=one.copy())
        call.replace(exp.Paren(this=total))
    whole: exp.Expr = root.this
    return whole


def _square(node: exp.Expr) -> exp.Expr:
    return exp.Pow(this=node.copy(), expression=exp.Literal.number(2))


def _combined(node: exp.Expr, label: str, measures: list[Measure]) -> list[Measure]:
    """The aggregates of the secret that an item is computed with, each once."""
    if not measures:
        return [Measure(label=label, aggregate=node)]
    different = {key_text(one.aggregate): one for one in measures}  # whole texts: shown ones are cut
    return [
        replace(
            one,
            label=label if len(different) == 1 else f"{label}: {shown(one.aggregate)}",
            shared=True,
            computed=Computed(noise_on=shown(noisy_number(one.aggregate)), steps=(shown(node),), shows=True),
        )
        for one in different.values()
    ]


def noisy_number(aggregate: exp.Expr) -> exp.Expr:
    """The number that gets the noise: an aggregate, or COALESCE of it and 0, which a sum of no rows is."""
    around = aggregate.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    if not isinstance(around, exp.Coalesce) or around.this.unnest() is not aggregate:
        return aggregate
    return around if all(constant_of(other) == 0 for other in around.expressions) else aggregate


def with_order(measure: Measure, *, ranked: bool, limit: str) -> Measure:
    """The same aggregate in an answer whose lines are sorted by it, or of which LIMIT keeps some."""
    computed = replace(measure.computed, noise_on=shown(noisy_number(measure.aggregate)))
    more = (*(["ORDER BY"] if ranked else []), *([limit] if limit else []))
    return replace(measure, computed=replace(computed, steps=(*computed.steps, *more), ranked=ranked))


def shared_once(measures: list[Measure]) -> list[Measure]:
    """Each noisy answer once: what is computed with an aggregate of another item takes that one's answer."""
    own = {key_text(one.aggregate) for one in measures if not one.shared}
    first = {key_text(one.aggregate): one for one in reversed(measures) if one.shared}
    found = []
    for one in measures:
        text = key_text(one.aggregate)
        if one.shared and (text in own or first[text] is not one):
            continue
        if not one.shared and text in first:
            used = first[text].computed
            one = replace(one, computed=replace(one.computed, shows=True) if one.computed.steps else used)
        found.append(one)
    return found


def _check_public(node: exp.Expr, readings: dict[int, Measure]) -> None:
    """Refuse anything but arithmetic with constants and public aggregates."""
    if id(node) in readings:
        return
    if not isinstance(node, _PUBLIC):
        refuse(
            "arithmetic with constants and public aggregates around an aggregate",
            got=shown(node),
            fix="publish the aggregate and compute with its noisy answer",
        )
    for child in node.iter_expressions():
        _check_public(child, readings)


@frozen(eq=True)
class _Steps:
    """Lists what is computed with one noisy aggregate."""

    readings: dict[int, Measure]
    noisy: exp.Expr

    def before(self, outer: exp.Expr) -> Computed:
        """The steps that lead from the noisy number to an expression."""
        node = outer.unnest()
        if node is self.noisy:
            return Computed(noise_on=shown(node))
        parts = list(node.iter_expressions())
        inner = [part for part in parts if any(one is self.noisy for one in part.walk())]
        others = [part for part in parts if part is not inner[0] and not isinstance(part, exp.DataType)]
        for part in others:
            _check_public(part, self.readings)
        found = self.before(inner[0])
        if isinstance(node, exp.Cast):
            other = node.args["to"].this not in NUMBERS
            made = _and_then(found, f"CAST AS {node.args['to'].sql('duckdb')}", shows=other)
            return self._rounded(made, node, after=found)
        if type(node) in _ONE_NUMBER and inner[0] is node.this:
            made = _and_then(found, _ONE_NUMBER[type(node)], shows=isinstance(node, exp.Nullif))
            return self._rounded(made, node, after=found)
        _check_public(node, {**self.readings, id(inner[0]): next(iter(self.readings.values()))})
        first = inner[0] is node.this
        if type(node) not in _OPERATORS or (isinstance(node, exp.Div) and not first):
            refuse(
                "an aggregate of the secret as the numerator, or as the first argument",
                got=shown(node),
                fix="publish the aggregate and compute with its noisy answer",
            )
        operator = _OPERATORS[type(node)]
        step = f"{operator} {shown(others[0])}" if first or operator != "-" else f"{shown(others[0])} -"
        made = _and_then(found, step, enlarges=self._enlarges(node, others[0]))
        times = _factor(node, constant_of(others[0]))
        return replace(
            made,
            arithmetic=(*found.arithmetic, step),
            factor=found.factor * times,
            per_row=found.per_row or self._per_row(node, others[0]),
            rounded_to=found.rounded_to * times,
        )

    def _rounded(self, made: Computed, node: exp.Expr, *, after: Computed) -> Computed:
        """The number with the step that a function or a cast rounds it to; a count is whole already."""
        step = _rounding_step(node)
        call = self.noisy.this if isinstance(self.noisy, exp.Filter) else self.noisy
        whole = isinstance(call, _COUNTS) and not after.steps and step <= 1
        return replace(made, rounded_to=made.rounded_to if whole else max(made.rounded_to, step))

    def _per_row(self, node: exp.Expr, other: exp.Expr) -> bool:
        """Whether a number is divided by COUNT(*), or by how many rows have a secret: by at least as many as
        the aggregate has.
        """
        return any(one.counts_rows and not one.filters for one in self._divisors(node, other))

    def _enlarges(self, node: exp.Expr, other: exp.Expr) -> bool:
        """Whether a multiplication or division by something else than a constant may make it larger."""
        counts_rows = any(one.counts_rows for one in self._divisors(node, other))
        return math.isnan(constant_of(other)) and isinstance(node, exp.Mul | exp.Div) and not counts_rows

    def _divisors(self, node: exp.Expr, other: exp.Expr) -> list[Measure]:
        """The aggregate that a number is divided by, if it is one."""
        place = id(_divisor(other))
        return [self.readings[place]] if isinstance(node, exp.Div) and place in self.readings else []


def _factor(node: exp.Expr, constant: float) -> float:
    """The size of a constant that a number is multiplied by; 1 for anything else."""
    if math.isnan(constant) or constant == 0 or not isinstance(node, exp.Mul | exp.Div):
        return 1.0
    return abs(constant) if isinstance(node, exp.Mul) else 1 / abs(constant)


def _rounding_step(node: exp.Expr) -> float:
    """The step that ROUND, FLOOR, CEIL or a cast rounds to; 0 if it does not round, infinite if unknown.

    >>> from sqlglot import parse_one
    >>> texts = ("ROUND(x, -3)", "FLOOR(x)", "CAST(x AS INT)", "CAST(x AS DECIMAL(9, 2))", "ABS(x)")
    >>> [_rounding_step(parse_one(text)) for text in texts]
    [1000.0, 1.0, 1.0, 0.01, 0.0]
    """
    digits: exp.Expr = exp.Literal.number(0)
    if isinstance(node, exp.Cast):
        to = node.args["to"]
        if to.this in WHOLE_NUMBERS:
            return 1.0
        if to.this is not exp.DType.DECIMAL:
            return 0.0
        if len(to.expressions) == 2:
            digits = to.expressions[1].this
    elif isinstance(node, exp.Round | exp.Floor | exp.Ceil):
        digits = node.args.get("decimals") or digits
    else:
        return 0.0
    after_point = constant_of(digits)
    return math.inf if math.isnan(after_point) else 10.0**-after_point


def _and_then(found: Computed, step: str, *, enlarges: bool = False, shows: bool = False) -> Computed:
    return replace(
        found,
        steps=(*found.steps, step),
        enlarges=found.enlarges or enlarges,
        shows=found.shows or shows,
    )


def _divisor(node: exp.Expr) -> exp.Expr:
    """The count in ``NULLIF(COUNT(*), 0)`` or a cast of it, else the expression itself."""
    node = node.unnest()
    return _divisor(node.this) if isinstance(node, exp.Nullif | exp.Cast) else node


_COUNTS: tuple[type[exp.Expr], ...] = (exp.Count, exp.CountIf)
# Aggregates whose answer does not depend on the order of the rows, which may be that of the secret.
_AGGREGATES: tuple[type[exp.Expr], ...] = (
    *_COUNTS, exp.Avg, exp.Sum, exp.Min, exp.Max, exp.Median, exp.Stddev, exp.StddevPop, exp.StddevSamp,
    exp.Variance, exp.VariancePop, exp.ApproxDistinct, exp.Quantile, exp.PercentileCont, exp.PercentileDisc,
    exp.LogicalAnd, exp.LogicalOr, exp.Corr, exp.CovarPop, exp.CovarSamp, exp.Skewness, exp.Kurtosis,
)  # fmt: skip


def read_public_aggregate(item: exp.Expr, *, scope: Scope, keys: Collection[str]) -> list[Measure]:
    """Read an item made of aggregates of public columns; nothing if it is one count or speaks of the secret.

    One count is left to the reader of measures: in a query grouped by the secret it is a histogram.
    """
    plain = item.unalias()
    calls = aggregates_in(plain)
    own = [call.this if isinstance(call, exp.Filter) else call for call in calls]
    inside = (exp.AggFunc, exp.Filter)
    keyed = [column for column in plain.find_all(exp.Column) if not is_inside(column, *inside)]
    single_count = len(calls) == 1 and isinstance(own[0], _COUNTS) and not keyed
    ordered = [call for call in own if isinstance(call, exp.AggFunc) and type(call) not in _AGGREGATES]
    if ordered and not _speaks_of_secret(plain, scope):
        refuse(
            "aggregates of public columns that do not depend on the order of the rows",
            got=shown(ordered[0]),
            fix="rows may be sorted by the secret: write MIN or MAX, or group by the column",
        )
    if single_count or not all(type(call) in _AGGREGATES for call in own) or _speaks_of_secret(plain, scope):
        return []
    root = exp.Paren(this=plain.copy())
    for call in aggregates_in(root):
        check_arguments(call, scope)
        call.replace(exp.Literal.number(1))
    for call in list(root.find_all(exp.Round, exp.Cast)):
        call.replace(call.this)
    check_made_of_keys(scope.bind(root.this), item, keys)
    return [Measure(label=label_of(item), aggregate=plain)]


def check_arguments(call: exp.Expr, scope: Scope) -> None:
    """Refuse functions that are not listed inside an aggregate."""
    if isinstance(call, exp.Filter):
        scope.bind(call.expression.this)
        call = call.this
    for part in call.iter_expressions():
        if isinstance(part, exp.Distinct | exp.Order | exp.Ordered):
            check_arguments(part, scope)
        elif not isinstance(part, exp.Star):
            scope.bind(part)


def _speaks_of_secret(node: exp.Expr, scope: Scope) -> bool:
    parts = node.find_all(exp.Column, exp.Subquery, exp.Exists)
    return any(
        scope.mentions_secret(scope.bind(part)) for part in parts if not is_inside_subquery(part, node)
    )
