"""Refuse aggregates that are no sum over records, and say what can be published instead."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from sightline.tables.sql.grammar import refuse, shown

_SPREAD = {"VARIANCE", "VARIANCE_POP", "VAR_POP", "VAR_SAMP", "STDDEV", "STDDEV_POP", "STDDEV_SAMP"}
_RANKS = {"MEDIAN", "PERCENTILE_CONT", "PERCENTILE_DISC", "QUANTILE", "APPROX_QUANTILE", "QUANTILE_CONT"}
_RANKS |= {"QUANTILE_DISC", "APPROX_QUANTILES", "MODE"}
_EXTREMES = {"MIN", "MAX", "FIRST", "LAST", "ANY_VALUE", "ARG_MIN", "ARG_MAX", "FIRST_VALUE", "LAST_VALUE"}
_COUNTS = "counts above a few fixed levels, COUNT(*) FILTER (WHERE secret > 100) and so on"


def refuse_aggregate(node: exp.Expr) -> NoReturn:
    """Refuse an aggregate of the secret that is not AVG, SUM or COUNT."""
    name = _name(node.this if isinstance(node, exp.WithinGroup) else node)
    if isinstance(node, exp.Window):
        refuse("no window function", got=shown(node), fix="use GROUP BY")
    if name in _SPREAD:
        refuse(
            "AVG, SUM or COUNT",
            got=shown(node),
            fix=f"{name} is not a sum over records: publish AVG(secret) and AVG(POWER(secret, 2)) with noise "
            "and compute it from those; the usual mechanism adds noise to these two sums",
        )
    if name in _RANKS:
        refuse(
            "AVG, SUM or COUNT",
            got=shown(node),
            fix=f"{name} is not a sum over records, and one record can move it far: publish {_COUNTS}, and "
            "read it off those; the usual mechanism for it is the exponential mechanism, which this audit "
            "does not cover",
        )
    if name in _EXTREMES:
        refuse(
            "AVG, SUM or COUNT",
            got=shown(node),
            fix=f"{name} is not a sum over records but one record's own value: publish {_COUNTS}, or a bound "
            "that is fixed beforehand; the usual mechanism is report-noisy-max or the exponential mechanism "
            "over fixed levels, which this audit does not cover",
        )
    if isinstance(node, exp.AggFunc):
        refuse("AVG, SUM or COUNT", got=shown(node), fix=f"{name} is not a sum over records")
    refuse("an aggregate, and arithmetic with public numbers and its noisy answer", got=shown(node))


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
