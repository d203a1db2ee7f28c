"""A secret that is an expression of columns, such as ``quantity * price``: how a query may write it.

Factors and terms may stand in any order, and a product may have other factors beside those of the secret.
"""

from __future__ import annotations

from sqlglot import exp

from sightline.tables.engines.protocol import DATA
from sightline.tables.subject import SecretExpression

ARITHMETIC = (exp.Mul, exp.Div, exp.Add, exp.Sub, exp.Neg)


def with_secret(root: exp.Expr, secret: SecretExpression) -> None:
    """Put the secret's column in place of the secret's expression, everywhere below ``root``.

    >>> from sqlglot import parse_one
    >>> product = parse_one('"data".q * "data".p')
    >>> secret = SecretExpression(name="q * p", bound=product, columns=frozenset("qp"))
    >>> tree = parse_one('SUM("data".p * ("data".w * "data".q))')
    >>> with_secret(tree, secret)
    >>> tree.sql()
    'SUM("data"."q * p" * ("data".w))'
    """
    wanted = normal_form(secret.bound)
    factors = sorted(map(normal_form, _operands(secret.bound, exp.Mul)))
    waiting = list(root.iter_expressions())
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Mul):
            others = _operands(node, exp.Mul)
            times = 0
            while (left := _without(others, factors)) is not None:
                times, others = times + 1, left
            if times:
                waiting += _replaced(node, [_column(secret) for _ in range(times)], others)
                continue
        elif type(node) is type(secret.bound.unnest()) and normal_form(node) == wanted:
            node.replace(_column(secret))
            continue
        waiting += node.iter_expressions()


def normal_form(node: exp.Expr) -> str:
    """A text that two expressions share if only brackets and the order of factors and terms differ.

    >>> from sqlglot import parse_one
    >>> normal_form(parse_one("a * (b + 1)")) == normal_form(parse_one("((1 + b)) * a"))
    True
    >>> normal_form(parse_one("a - b")) == normal_form(parse_one("b - a"))
    False
    """
    plain = node.unnest()
    for kind in (exp.Mul, exp.Add):
        if isinstance(plain, kind):
            return f"({kind.key} {' '.join(sorted(map(normal_form, _operands(plain, kind))))})"
    if isinstance(plain, ARITHMETIC):
        return f"({plain.key} {' '.join(map(normal_form, plain.iter_expressions()))})"
    return plain.sql(identify=True, comments=False)


def _operands(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The factors of a product, or the terms of a sum; a single one of anything else."""
    plain = node.unnest()
    if not isinstance(plain, kind):
        return [plain]
    return [*_operands(plain.this, kind), *_operands(plain.expression, kind)]


def _without(factors: list[exp.Expr], wanted: list[str]) -> list[exp.Expr] | None:
    """Some factors without the wanted ones; None if they do not have them all."""
    left = list(factors)
    for form in wanted:
        found = next((place for place, one in enumerate(left) if normal_form(one) == form), None)
        if found is None:
            return None
        del left[found]
    return left


def _replaced(node: exp.Mul, secrets: list[exp.Expr], others: list[exp.Expr]) -> list[exp.Expr]:
    """Write a product as the secret times its other factors; return those factors."""
    kept = [exp.Paren(this=one.copy()) for one in others]
    product: exp.Expr = secrets[0]
    for factor in (*secrets[1:], *kept):
        product = exp.Mul(this=product, expression=factor)
    node.replace(product)
    return list(kept)


def _column(secret: SecretExpression) -> exp.Column:
    quoted = exp.to_identifier(secret.name, quoted=True)
    return exp.column(quoted, table=exp.to_identifier(DATA, quoted=True))
