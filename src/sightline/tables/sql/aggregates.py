"""Read one aggregate that the theory covers: a mean or sum of a feature of the secret, or a public number."""

from __future__ import annotations

import math
from dataclasses import field
from typing import NamedTuple, NoReturn

from sqlglot import exp

from sightline.tables.membership import Band, Computed, Feature, Statistic
from sightline.tables.sql.grammar import NUMBERS, has, refuse, shown
from sightline.tables.sql.nullness import Decides
from sightline.tables.sql.secret_conditions import Secret, SecretTest, Tests, constant_of
from sightline.tables.subject import SecretKind
from sightline.values import frozen

_STATISTIC: dict[type[exp.Expr], Statistic] = {exp.Avg: Statistic.MEAN, exp.Sum: Statistic.SUM}
# Of public columns these are public numbers, whatever theory covers.
_PUBLIC = (exp.Avg, exp.Sum, exp.Min, exp.Max, exp.Median, exp.Stddev, exp.StddevPop, exp.StddevSamp)
Weights = tuple[exp.Expr, ...]  # bound; none, or one


class Rewritten(NamedTuple):
    """An aggregate as it is written, and the sum of simpler ones that is read in its place."""

    written: exp.Expr
    read: exp.Expr


@frozen(eq=True)
class Measure:
    """One number of the SELECT list, over the rows that meet the query's WHERE and ``filters``."""

    label: str
    aggregate: exp.Expr  # as written
    tests: Tests = ()  # the feature of the secret that is added up; none if no secret changes it
    statistic: Statistic = Statistic.SUM
    weights: Weights = ()  # the public number that a row's feature is multiplied by; none for 1
    filters: tuple[exp.Expr, ...] = ()
    counts_rows: bool = False  # a count of rows, which is a histogram in a query grouped by the secret
    computed: Computed = field(default_factory=Computed)  # with it before it is published
    tells: Decides = Decides.PUBLIC  # what decides whether the number that gets the noise is there, or NULL
    shared: bool = False  # whether other numbers are computed with its noisy answer
    tells_by_weight: bool = False  # whether the value of the secret decides that where its weight is NULL
    rewritten: tuple[Rewritten, ...] = ()  # aggregates of its item that are read as sums of simpler ones


def read_aggregate(node: exp.Expr, *, label: str, secret: Secret, where: Tests) -> Measure:
    """Read one aggregate; ``where`` is the condition on the secret in the query's WHERE, if there is one.

    A count of the rows that meet a condition on the secret is the sum of that condition's indicator, so
    ``COUNT(*) … WHERE disease``, ``COUNT(*) FILTER (WHERE disease)``, ``COUNT_IF(disease)`` and ``SUM(CASE
    WHEN disease THEN 1 ELSE 0 END)`` read the same, and ``SUM(cost) … WHERE disease`` is the same sum with
    the weight ``cost``. A condition on the secret around any other aggregate is refused: which rows it adds
    up would depend on the secret.
    """
    inner, filters = node, list[exp.Expr]()
    if isinstance(node, exp.Filter):
        public, tests = secret.split(secret.scope.bind(node.expression.this))
        filters += public
        where = secret.as_one((*where, *tests))
        inner = node.this
    reader = _Reader(node=node, label=label, filters=filters, secret=secret, where=where)
    if isinstance(inner, exp.CountIf):
        return reader.count(*secret.split(secret.scope.bind(inner.this)))
    if isinstance(inner, exp.Count):
        return reader.read_count(inner)
    if reader.is_public(inner):
        return Measure(label=label, aggregate=node, filters=tuple(filters))
    if type(inner) not in _STATISTIC:
        refuse_aggregate(inner)
    return reader.read_mean_or_sum(inner)


@frozen(eq=True)
class _Reader:
    """Reads the argument of one aggregate."""

    node: exp.Expr  # the aggregate with its FILTER, as written
    label: str
    filters: list[exp.Expr]  # public conditions of FILTER, bound
    secret: Secret
    where: Tests  # the condition on the secret around it

    def is_public(self, aggregate: exp.Expr) -> bool:
        """Whether it is an aggregate of public columns over rows that do not depend on the secret."""
        if self.where or type(aggregate) not in _PUBLIC or not aggregate.this:
            return False
        argument = aggregate.this
        parts = argument.expressions if isinstance(argument, exp.Distinct) else [argument]
        if any(isinstance(part, exp.Order | exp.Star) for part in parts) or aggregate.expressions:
            return False
        bound = [self.secret.scope.bind(part).unnest() for part in parts]
        counts = [case for case in _single_case(bound[0]) if constant_of(case.value) == 1]
        if isinstance(aggregate, exp.Sum) and counts:
            return False  # a count of rows
        return not any(map(self.secret.scope.mentions_secret, bound))

    def count(self, public: list[exp.Expr], tests: Tests) -> Measure:
        """A count of the rows that meet some conditions."""
        met = self.secret.as_one((*self.where, *tests))
        if met:
            return self._measure(Statistic.SUM, met[0], (), public)
        filters = (*self.filters, *public)
        return Measure(label=self.label, aggregate=self.node, filters=filters, counts_rows=True)

    def read_count(self, count: exp.Count) -> Measure:
        argument, secret = count.this, self.secret
        if (
            isinstance(argument, exp.Star)
            and not argument.args.get("except_")
            and not argument.args.get("replace")
        ):
            return self.count([], ())
        if count.expressions:
            refuse("COUNT of one expression", got=shown(self.node), fix="write one COUNT for each")
        if isinstance(argument, exp.Distinct):
            counted = [secret.scope.bind(expression) for expression in argument.expressions]
            if self.where or any(map(secret.scope.mentions_secret, counted)):
                return self._count_persons(counted)
            return Measure(label=self.label, aggregate=self.node, filters=tuple(self.filters))
        if not argument:
            refuse("COUNT(*) or COUNT of a column", got=shown(self.node))
        bound = secret.scope.bind(argument).unnest()
        for case in _single_case(bound):
            if not isinstance(case.otherwise, exp.Null):
                refuse(
                    "COUNT(CASE WHEN … THEN 1 END) without ELSE",
                    got=shown(self.node),
                    fix="with ELSE it counts every row; use SUM",
                )
            if not isinstance(case.value, exp.Literal):
                refuse("COUNT(CASE WHEN … THEN 1 END)", got=shown(self.node))
            return self.count(*secret.split(case.condition))
        if secret.is_value(bound) or isinstance(bound, exp.Literal):
            return self.count([], ())  # every audited row has a secret
        if secret.scope.mentions_secret(bound):
            refuse(
                "COUNT of rows, of the secret or of a public column",
                got=shown(self.node),
                fix="which rows it counts would depend on the secret",
            )
        return self.count([_is_present(bound)], ())

    def _count_persons(self, counted: list[exp.Expr]) -> Measure:
        """COUNT(DISTINCT person) under a condition on the secret: where each has one row, a count of rows."""
        cases = _single_case(counted[0]) if len(counted) == 1 else []
        person = cases[0].value if cases and isinstance(cases[0].otherwise, exp.Null) else counted[0]
        if len(counted) > 1 or not self.secret.is_record(person):
            refuse_distinct_secrets(self.node)
        if not self.secret.one_row:
            refuse(
                "COUNT(DISTINCT person) under a condition on the secret where each person has one row",
                got=shown(self.node),
                fix="say max_rows_per_record = 1 in [data] if that is so, or make one row of each person by "
                "[data] sql, such as SELECT person, MAX(secret) AS secret … GROUP BY person",
            )
        return self.count(*self.secret.split(*(case.condition for case in cases)))

    def read_mean_or_sum(self, aggregate: exp.Expr) -> Measure:
        statistic, secret = _STATISTIC[type(aggregate)], self.secret
        if not aggregate.this or isinstance(aggregate.this, exp.Distinct | exp.Order):
            refuse(
                "AVG or SUM of one expression per row",
                got=shown(self.node),
                fix="leave out DISTINCT and ORDER BY",
            )
        if self.where and statistic is Statistic.MEAN:
            refuse_secret_rows(self.node)
        bound = secret.scope.bind(aggregate.this).unnest()
        for case in () if _clipped(bound, secret) else _single_case(bound):
            return self._read_case(statistic, case)
        if isinstance(bound, exp.Cast) and bound.args["to"].this in NUMBERS and _is_condition(bound.this):
            test = secret.both((*self.where, secret.test(bound.this)))
            return self._measure(statistic, test, (), [])
        if self.where:
            if secret.scope.mentions_secret(bound):
                refuse_secret_rows(self.node)
            return self._measure(statistic, self.where[0], _product_of([bound]), [])
        return self._measure(statistic, *read_row_feature(bound, node=self.node, secret=secret), [])

    def _read_case(self, statistic: Statistic, case: _Case) -> Measure:
        """SUM or AVG of CASE WHEN condition THEN value ELSE 0 END."""
        public, own = self.secret.split(case.condition)
        value = case.value
        tests = self.secret.as_one((*self.where, *own))
        of_secret = self.secret.scope.mentions_secret(value)
        zero = constant_of(case.otherwise) == 0
        if not zero and not isinstance(case.otherwise, exp.Null):
            refuse("ELSE 0 or no ELSE", got=shown(self.node), fix="publish the parts as several aggregates")
        if tests and of_secret:
            refuse_secret_rows(self.node)
        if not tests and constant_of(value) == 1 and statistic is Statistic.SUM:
            return self.count(public, ())
        if not tests and of_secret and (statistic is Statistic.SUM or not zero):
            feature = read_row_feature(value, node=self.node, secret=self.secret)
            return self._measure(statistic, *feature, public)
        # Where a value that is no constant is NULL, the secret decides on the divisor.
        constant = not math.isnan(constant_of(value))
        if not tests or (statistic is Statistic.MEAN and not (zero and constant and not public)):
            refuse(
                "a mean over rows that do not depend on the secret, of the secret or of one condition on it",
                got=shown(self.node),
                fix="move public conditions into FILTER (WHERE …)",
            )
        return self._measure(statistic, tests[0], _product_of([value]), public)

    def _measure(
        self, statistic: Statistic, test: SecretTest, weights: Weights, public: list[exp.Expr]
    ) -> Measure:
        filters = [*self.filters, *public]
        for weight in (one for one in weights if has(one, exp.Column)):
            zero = exp.NEQ(this=weight.copy(), expression=exp.Literal.number("0"))
            # A sum is the same without the rows of weight 0; a mean still divides by them.
            filters.append(zero if statistic is Statistic.SUM else _is_present(weight))
        return Measure(
            label=self.label,
            aggregate=self.node,
            statistic=statistic,
            tests=(test,),
            weights=weights,
            filters=tuple(filters),
        )


def _is_present(bound: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=exp.Paren(this=bound.copy()), expression=exp.Null()))


class _Case(NamedTuple):
    """A CASE or IF with one branch; without ELSE it is NULL otherwise."""

    condition: exp.Expr
    value: exp.Expr
    otherwise: exp.Expr


def _single_case(node: exp.Expr) -> list[_Case]:
    """The parts of an expression that is a CASE or IF with one branch; none of any other."""
    branches, otherwise = [node], node.args.get("false")
    if isinstance(node, exp.Case) and not node.this:
        branches, otherwise = node.args["ifs"], node.args.get("default")
    if len(branches) != 1 or not isinstance(branches[0], exp.If):
        return []
    (branch,) = branches
    return [_Case(branch.this, branch.args["true"].unnest(), (otherwise or exp.Null()).unnest())]


def _is_condition(node: exp.Expr) -> bool:
    return isinstance(node.unnest(), exp.Predicate | exp.Not)


_LEVELS = "publish counts above a few fixed levels, COUNT(*) FILTER (WHERE secret > 100) and so on"
# Aggregates of the secret that are no sums over records, and what to publish instead.
_INSTEAD = (
    (
        "MEDIAN PERCENTILE_CONT PERCENTILE_DISC QUANTILE APPROX_QUANTILE QUANTILE_CONT QUANTILE_DISC "
        "APPROX_QUANTILES MODE",
        f"one record can move it far: {_LEVELS}, and read it off those; the usual mechanism for it is the "
        "exponential mechanism, which this audit does not cover",
    ),
    (
        "MIN MAX FIRST LAST ANY_VALUE ARG_MIN ARG_MAX FIRST_VALUE LAST_VALUE",
        f"it is one record's own value: {_LEVELS}, or a bound that is fixed beforehand; the usual mechanism "
        "is report-noisy-max or the exponential mechanism over fixed levels, which this audit does not cover",
    ),
)
_OTHERWISE = (
    "publish counts in bands, such as COUNT(*) with GROUP BY FLOOR(secret / 10), or means of the secret and "
    "of its powers, and compute it from their noisy answers"
)


def refuse_aggregate(node: exp.Expr) -> NoReturn:
    """Refuse an aggregate of the secret that is not AVG, SUM or COUNT."""
    name = _name(node.this if isinstance(node, exp.WithinGroup) else node)
    if isinstance(node, exp.Window):
        refuse("no window function", got=shown(node), fix="use GROUP BY")
    instead = next((text for names, text in _INSTEAD if name in names.split()), "")
    if not instead and not isinstance(node, exp.AggFunc | exp.Anonymous):
        refuse("an aggregate, and arithmetic with public numbers and its noisy answer", got=shown(node))
    fix = f"{name} is not a sum over records: {instead or _OTHERWISE}"
    refuse("AVG, SUM or COUNT", got=shown(node), fix=fix)


def refuse_distinct_secrets(node: exp.Expr) -> NoReturn:
    """Refuse COUNT(DISTINCT …) of the secret, or of rows chosen by it."""
    refuse(
        "COUNT(DISTINCT …) of public columns",
        got=f"the secret around {shown(node)}",
        fix="how many different values occur is not a sum over records: use COUNT(*) with GROUP BY the "
        "secret if it is a category, or counts in bands if it is a number; the usual mechanism adds noise of "
        "sensitivity 1 to the number of values, which this audit does not cover",
    )


def refuse_secret_rows(node: exp.Expr) -> NoReturn:
    """Refuse a mean or sum of the secret over rows that are chosen by the secret."""
    refuse(
        "COUNT under a condition on the secret",
        got=shown(node),
        fix="which rows it adds up would depend on the secret: publish COUNT(*) under the condition, and for "
        "a sum SUM(GREATEST(secret, level)) or SUM(LEAST(secret, level)) over all rows (with level 0, "
        "SUM(GREATEST(secret, 0)) is the sum of the positive values)",
    )


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return node.name.upper()
    return node.sql_name() if isinstance(node, exp.Func) else node.key.upper()


def read_row_feature(value: exp.Expr, *, node: exp.Expr, secret: Secret) -> tuple[SecretTest, Weights]:
    """Read a bound expression that mentions the secret: ``x``, ``x * price / 100``, ``LEAST(x, 500)``.

    The secret itself, a whole power of it, or the secret clipped to constants, times public numbers: these
    are the weight.
    """
    if secret.kind is SecretKind.CATEGORY:
        refuse(
            "a count of categories",
            got=shown(node),
            fix="use COUNT(*) with GROUP BY or WHERE on the category",
        )
    of_secret: list[exp.Expr] = []
    weights: list[exp.Expr] = []
    _take_factors(value, of_secret, weights, secret)
    return _feature(of_secret, node, secret), _product_of(weights)


def _product_of(weights: list[exp.Expr]) -> Weights:
    """The product of some public factors; none if it is 1."""
    product: list[exp.Expr] = []
    for factor in (exp.Paren(this=one.copy()) for one in weights if constant_of(one) != 1):
        product = [exp.Mul(this=product[0], expression=factor)] if product else [factor]
    return tuple(product)


def _take_factors(
    value: exp.Expr, of_secret: list[exp.Expr], weights: list[exp.Expr], secret: Secret
) -> None:
    """Split a product into the factors that mention the secret and those that do not."""
    node = value.unnest()
    mentions = secret.scope.mentions_secret
    match node:
        case _ if not mentions(node):
            weights.append(node)
        case exp.Mul():
            _take_factors(node.this, of_secret, weights, secret)
            _take_factors(node.expression, of_secret, weights, secret)
        case exp.Div() if not mentions(node.expression):
            _take_factors(node.this, of_secret, weights, secret)
            one = exp.Literal.number("1.0")
            weights.append(exp.Div(this=one, expression=exp.Paren(this=node.expression.copy())))
        case exp.Neg():
            weights.append(exp.Neg(this=exp.Literal.number("1")))
            _take_factors(node.this, of_secret, weights, secret)
        case _:
            of_secret.append(node)


def _feature(factors: list[exp.Expr], node: exp.Expr, secret: Secret) -> SecretTest:
    for band in _clipped(factors[0], secret) if len(factors) == 1 else ():
        if band == Band():
            return SecretTest(feature=Feature.VALUE)
        if band.low < band.high and secret.kind is SecretKind.NUMBER:
            return SecretTest(feature=Feature.CLIPPED, parameter=band)
    total = sum(_power(factor, secret) for factor in factors)
    if secret.kind is SecretKind.BOOLEAN and total <= 100:
        return SecretTest(feature=Feature.VALUE)  # a power of 0 or 1 is itself
    if secret.kind is not SecretKind.NUMBER or not total <= 100:
        refuse(
            "AVG or SUM of the secret, of a whole power of it, or of it clipped by LEAST and GREATEST",
            got=shown(node),
            fix="it may be multiplied by public columns and constants; which rows it adds up must not depend "
            "on the secret, as with NULLIF(secret, 0): publish their COUNT(*) beside the sum",
        )
    return SecretTest(feature=Feature.POWER, parameter=float(total))


def _power(factor: exp.Expr, secret: Secret) -> float:
    """The exponent of POWER(secret, k), 1 for the secret; NaN for anything else."""
    if secret.is_value(factor):
        return 1.0
    power = isinstance(factor, exp.Pow) and secret.is_value(factor.this)
    exponent = constant_of(factor.expression) if power else math.nan
    return exponent if exponent.is_integer() and 2 <= exponent <= 100 else math.nan


def _clipped(value: exp.Expr, secret: Secret) -> list[Band]:
    """The levels to which an expression clips the secret; none if it is something else.

    ``COALESCE(secret, 0)`` is the secret in every audited row: those without one are counted as unaudited.
    """
    node = value.unnest()
    if secret.is_value(node):
        return [Band()]
    if isinstance(node, exp.Case):
        return _clipped_by_case(node, secret)
    if not isinstance(node, exp.Least | exp.Greatest | exp.Coalesce):
        return []
    parts = [node.this, *node.expressions]
    inner = [part for part in parts if secret.scope.mentions_secret(part)]
    levels = [constant_of(part) for part in parts if not secret.scope.mentions_secret(part)]
    bands = _clipped(inner[0], secret) if len(inner) == 1 else []
    if not levels or any(map(math.isnan, levels)):
        return []
    if isinstance(node, exp.Coalesce):
        return bands if inner[:1] == [node.this] else []
    nearer = min if isinstance(node, exp.Least) else max
    limit = nearer(levels)
    return [Band(low=nearer(band.low, limit), high=nearer(band.high, limit)) for band in bands]


def _clipped_by_case(case: exp.Case, secret: Secret) -> list[Band]:
    """The levels of CASE WHEN x < 0 THEN 0 WHEN x > 9000 THEN 9000 ELSE x END; none for other CASEs."""
    if case.this or not secret.is_value(case.args.get("default") or exp.Null()):
        return []
    low, high = -math.inf, math.inf
    for branch in case.args["ifs"]:
        test, level = branch.this.unnest(), constant_of(branch.args["true"])
        below, above = isinstance(test, exp.LT | exp.LTE), isinstance(test, exp.GT | exp.GTE)
        if not (below or above) or not secret.is_value(test.this) or constant_of(test.expression) != level:
            return []
        low, high = (max(low, level), high) if below else (low, min(high, level))
    return [Band(low=low, high=high)]


def is_within(outer: Band, inner: tuple[float, float]) -> bool:
    """Whether clipping to ``outer`` changes no number of ``inner``."""
    low, high = inner
    return outer.low <= low and high <= outer.high
