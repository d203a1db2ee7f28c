"""Read what SUM or AVG adds up over the rows: a feature of the secret, times a public weight of the row."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqlglot import exp

from sightline.tables.membership import Band, Feature
from sightline.tables.sql.grammar import refuse, shown
from sightline.tables.sql.secret_conditions import Secret, SecretTest, constant_of
from sightline.tables.subject import SecretKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFeature:
    """A feature of a row's secret and the public number that it is multiplied by; None for 1."""

    test: SecretTest
    weight: exp.Expr | None = None


def read_row_feature(value: exp.Expr, *, node: exp.Expr, secret: Secret) -> RowFeature:
    """Read a bound expression that mentions the secret: ``x``, ``x * price / 100``, ``LEAST(x, 500)``.

    The secret itself, a whole power of it, or the secret clipped to constants, times public numbers.
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
    return RowFeature(test=_feature(of_secret, node, secret), weight=product_of(weights))


def product_of(weights: list[exp.Expr]) -> exp.Expr | None:
    """The product of some public factors; None if it is 1."""
    others = [one for one in weights if constant_of(one) != 1]
    if not others:
        return None
    product: exp.Expr = exp.Paren(this=others[0].copy())
    for factor in others[1:]:
        product = exp.Mul(this=product, expression=exp.Paren(this=factor.copy()))
    return product


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
    powers = [_power(factor, secret) for factor in factors]
    if len(factors) == 1 and (band := _clipped(factors[0], secret)) is not None:
        if band == Band():
            return SecretTest(feature=Feature.VALUE)
        if band.low < band.high and secret.kind is SecretKind.NUMBER:
            return SecretTest(feature=Feature.CLIPPED, parameter=band)
    total = sum(power or 0 for power in powers)
    if secret.kind is not SecretKind.NUMBER or None in powers or total > 100:
        refuse(
            "AVG or SUM of the secret, of a whole power of it, or of it clipped by LEAST and GREATEST",
            got=shown(node),
            fix="it may be multiplied by public columns and constants",
        )
    return SecretTest(feature=Feature.POWER, parameter=float(total))


def _power(factor: exp.Expr, secret: Secret) -> int | None:
    """The exponent of POWER(secret, k), 1 for the secret; None for anything else."""
    if secret.is_value(factor):
        return 1
    if not isinstance(factor, exp.Pow) or not secret.is_value(factor.this):
        return None
    exponent = constant_of(factor.expression)
    whole = exponent is not None and exponent.is_integer() and 2 <= exponent <= 100
    return int(exponent) if exponent is not None and whole else None


def _clipped(value: exp.Expr, secret: Secret) -> Band | None:
    """The levels to which an expression clips the secret; None if it is something else.

    ``COALESCE(secret, 0)`` is the secret in every audited row: those without one are counted as unaudited.
    """
    node = value.unnest()
    if secret.is_value(node):
        return Band()
    if not isinstance(node, exp.Least | exp.Greatest | exp.Coalesce):
        return None
    parts = [node.this, *node.expressions]
    inner = [part for part in parts if secret.scope.mentions_secret(part)]
    levels = [constant_of(part) for part in parts if not secret.scope.mentions_secret(part)]
    known = [level for level in levels if level is not None]
    band = _clipped(inner[0], secret) if len(inner) == 1 else None
    if band is None or len(known) < len(levels) or not known:
        return None
    if isinstance(node, exp.Coalesce):
        return band if inner[0] is node.this else None
    limit = min(known) if isinstance(node, exp.Least) else max(known)
    nearer = min if isinstance(node, exp.Least) else max
    return Band(low=nearer(band.low, limit), high=nearer(band.high, limit))


def is_within(outer: Band, inner: tuple[float, float] | None) -> bool:
    """Whether clipping to ``outer`` changes no number of ``inner``."""
    low, high = inner or (-math.inf, math.inf)
    return outer.low <= low and high <= outer.high
