"""Read the aggregates that the theory covers: means and sums of a feature of the secret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp

from sightline.tables.membership import Feature, Statistic
from sightline.tables.sql.grammar import WHOLE_NUMBERS, refuse, shown
from sightline.tables.sql.secret_conditions import Secret, SecretTest, constant_of
from sightline.tables.subject import SecretKind

_STATISTIC: dict[type[exp.Expr], Statistic] = {exp.Avg: Statistic.MEAN, exp.Sum: Statistic.SUM}
_SPREAD_FUNCTIONS = ("VARIANCE", "VARIANCE_POP", "VAR_POP", "VAR_SAMP", "STDDEV", "STDDEV_POP", "STDDEV_SAMP")
_NUMBERS = WHOLE_NUMBERS | {exp.DType.DOUBLE, exp.DType.FLOAT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One aggregate of the SELECT list, over the rows that meet the query's WHERE and ``filters``."""

    label: str
    statistic: Statistic
    test: SecretTest  # the feature of the secret that is added up
    filters: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount:
    """A count that does not depend on the secret. In a query grouped by the secret it is a histogram."""

    label: str
    filters: tuple[exp.Expr, ...] = ()
    distinct: bool = False


def read_aggregate(item: exp.Expr, *, secret: Secret, where: SecretTest | None) -> Measure | RowCount:
    """Read one aggregate of the SELECT list; ``where`` is the condition on the secret in the query's WHERE.

    A count of the rows that meet a condition on the secret is the sum of that condition's indicator, so
    ``COUNT(*) … WHERE disease``, ``COUNT(*) FILTER (WHERE disease)``, ``COUNT_IF(disease)`` and ``SUM(CASE
    WHEN disease THEN 1 ELSE 0 END)`` read the same. A condition on the secret around any other aggregate is
    refused: which rows it adds up would depend on the secret.
    """
    node = item.unalias().unnest()
    label = item.alias or shown(node)
    filters: list[exp.Expr] = []
    if isinstance(node, exp.Filter):
        public, test = secret.split(secret.scope.bind(node.expression.this))
        filters += public
        where = _at_most_one(where, test, node)
        node = node.this
    if isinstance(node, exp.CountIf):
        public, test = secret.split(secret.scope.bind(node.this))
        return _count_measure(label, [*filters, *public], _at_most_one(where, test, node))
    if isinstance(node, exp.Count):
        return _read_count(node, label=label, filters=filters, secret=secret, where=where)
    if type(node) not in _STATISTIC:
        _refuse_aggregate(node)
    if where is not None:
        refuse(
            "COUNT under a condition on the secret",
            got=shown(node),
            fix="which rows it adds up would depend on the secret: count them, or drop the condition",
        )
    return _read_mean_or_sum(node, label=label, filters=filters, secret=secret)


def _read_count(
    node: exp.Count, *, label: str, filters: list[exp.Expr], secret: Secret, where: SecretTest | None
) -> Measure | RowCount:
    argument = node.this
    if (
        isinstance(argument, exp.Star)
        and not argument.args.get("except_")
        and not argument.args.get("replace")
    ):
        return _count_measure(label, filters, where)
    if node.expressions:
        refuse("COUNT of one expression", got=shown(node), fix="write one COUNT for each")
    if isinstance(argument, exp.Distinct):
        counted = [secret.scope.bind(expression) for expression in argument.expressions]
        if where is not None or any(map(secret.scope.mentions_secret, counted)):
            refuse(
                "COUNT(DISTINCT …) of public columns",
                got=f"the secret around {shown(node)}",
                fix="use COUNT(*)",
            )
        return RowCount(label=label, filters=tuple(filters), distinct=True)
    if argument is None:
        refuse("COUNT(*) or COUNT of a column", got=shown(node))
    bound = secret.scope.bind(argument).unnest()
    case = _single_case(bound)
    if case is not None:
        condition, value, otherwise = case
        if otherwise is not None and not isinstance(otherwise, exp.Null):
            refuse(
                "COUNT(CASE WHEN … THEN 1 END) without ELSE",
                got=shown(node),
                fix="with ELSE it counts every row; use SUM",
            )
        if not isinstance(value, exp.Literal):
            refuse("COUNT(CASE WHEN … THEN 1 END)", got=shown(node))
        public, test = secret.split(condition)
        return _count_measure(label, [*filters, *public], _at_most_one(where, test, node))
    if secret.is_value(bound) or isinstance(bound, exp.Literal):
        return _count_measure(label, filters, where)  # every audited row has a secret
    if secret.scope.mentions_secret(bound):
        refuse(
            "COUNT of rows, of the secret or of a public column",
            got=shown(node),
            fix="which rows it counts would depend on the secret",
        )
    present = exp.Not(this=exp.Is(this=exp.Paren(this=bound), expression=exp.Null()))
    return _count_measure(label, [*filters, present], where)


def _read_mean_or_sum(
    node: exp.Expr, *, label: str, filters: list[exp.Expr], secret: Secret
) -> Measure | RowCount:
    statistic = _STATISTIC[type(node)]
    if node.this is None or isinstance(node.this, exp.Distinct | exp.Order):
        refuse("AVG or SUM of one expression per row", got=shown(node), fix="leave out DISTINCT and ORDER BY")
    bound = secret.scope.bind(node.this).unnest()
    case = _single_case(bound)
    if case is not None:
        condition, value, otherwise = case
        public, test = secret.split(condition)
        zero = otherwise is not None and constant_of(otherwise) == 0
        if not zero and otherwise is not None and not isinstance(otherwise, exp.Null):
            refuse("ELSE 0 or no ELSE", got=shown(node), fix="publish the two parts as two aggregates")
        if constant_of(value) == 1:
            if statistic is Statistic.SUM:
                return _count_measure(label, [*filters, *public], test)
            if test is not None and zero and not public:
                return Measure(label=label, statistic=statistic, test=test, filters=tuple(filters))
        elif (
            test is None and secret.scope.mentions_secret(value) and (statistic is Statistic.SUM or not zero)
        ):
            feature = _feature(value, node=node, secret=secret)
            return Measure(label=label, statistic=statistic, test=feature, filters=(*filters, *public))
        refuse(
            "a mean over rows that do not depend on the secret, of the secret or of one condition on it",
            got=shown(node),
            fix="move public conditions into FILTER (WHERE …)",
        )
    if isinstance(bound, exp.Cast) and bound.args["to"].this in _NUMBERS and _is_condition(bound.this):
        test = secret.test(bound.this)
        return Measure(label=label, statistic=statistic, test=test, filters=tuple(filters))
    if not secret.scope.mentions_secret(bound):
        refuse(
            "an aggregate of the secret",
            got=shown(node),
            fix="leave it out: it says nothing about the secret",
        )
    return Measure(
        label=label,
        statistic=statistic,
        test=_feature(bound, node=node, secret=secret),
        filters=tuple(filters),
    )


def _feature(value: exp.Expr, *, node: exp.Expr, secret: Secret) -> SecretTest:
    """Read the secret itself or a whole power of it."""
    if secret.kind is SecretKind.CATEGORY:
        refuse(
            "a count of one category",
            got=shown(node),
            fix="use COUNT(*) with GROUP BY or WHERE on the category",
        )
    if secret.is_value(value):
        return SecretTest(feature=Feature.VALUE)
    power = _power(value.unnest(), secret)
    if power is None or secret.kind is SecretKind.BOOLEAN:
        refuse(
            "AVG or SUM of the secret or of a whole power of it",
            got=shown(node),
            fix="scale the noisy answer afterwards; a weight per row is not analysed",
        )
    return SecretTest(feature=Feature.POWER, parameter=float(power))


def _power(value: exp.Expr, secret: Secret) -> int | None:
    """The exponent of POWER(secret, k) or of secret * secret * …; None for anything else."""
    if isinstance(value, exp.Pow):
        exponent = constant_of(value.expression)
        whole = exponent is not None and exponent.is_integer() and 2 <= exponent <= 100
        return int(exponent) if exponent is not None and whole and secret.is_value(value.this) else None
    if isinstance(value, exp.Mul):
        sides = [
            1 if secret.is_value(side) else _power(side.unnest(), secret)
            for side in (value.this, value.expression)
        ]
        return None if None in sides else sum(side for side in sides if side is not None)
    return None


def _count_measure(label: str, filters: list[exp.Expr], test: SecretTest | None) -> Measure | RowCount:
    if test is None:
        return RowCount(label=label, filters=tuple(filters))
    return Measure(label=label, statistic=Statistic.SUM, test=test, filters=tuple(filters))


def _at_most_one(first: SecretTest | None, second: SecretTest | None, node: exp.Expr) -> SecretTest | None:
    if first is not None and second is not None:
        refuse(
            "one condition on the secret",
            got=f"two around {shown(node)}",
            fix="publish each in its own release",
        )
    return first if first is not None else second


def _single_case(node: exp.Expr) -> tuple[exp.Expr, exp.Expr, exp.Expr | None] | None:
    """Condition, value and ELSE of a CASE or IF with one branch."""
    if isinstance(node, exp.If):
        otherwise = node.args.get("false")
        return node.this, node.args["true"].unnest(), None if otherwise is None else otherwise.unnest()
    if not isinstance(node, exp.Case) or node.this is not None or len(node.args["ifs"]) != 1:
        return None
    branch, otherwise = node.args["ifs"][0], node.args.get("default")
    return branch.this, branch.args["true"].unnest(), None if otherwise is None else otherwise.unnest()


def _is_condition(node: exp.Expr) -> bool:
    return isinstance(node.unnest(), exp.Predicate | exp.Not)


def _refuse_aggregate(node: exp.Expr) -> NoReturn:
    name = node.sql_name() if isinstance(node, exp.Func) else node.key.upper()
    if name in _SPREAD_FUNCTIONS:
        refuse(
            "AVG, SUM or COUNT", got=shown(node), fix="publish AVG(secret) and AVG(POWER(secret, 2)) instead"
        )
    if isinstance(node, exp.AggFunc):
        refuse("AVG, SUM or COUNT", got=shown(node), fix=f"{name} is not a sum over records")
    if isinstance(node, exp.Window):
        refuse("no window function", got=shown(node), fix="use GROUP BY")
    refuse(
        "AVG, SUM or COUNT by itself",
        got=shown(node),
        fix="publish the aggregates and compute with their noisy answers",
    )
