"""Read a condition on the secret as the feature of it that a published count adds up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from sightline.tables.membership import Feature
from sightline.tables.sql.grammar import WHOLE_NUMBERS, refuse, shown
from sightline.tables.sql.scope import Scope, conjuncts
from sightline.tables.subject import SecretKind

_ABOVE: dict[type[exp.Expr], bool] = {exp.GT: True, exp.GTE: True, exp.LT: False, exp.LTE: False}


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretTest:
    """A feature of a row's secret, or 1 minus that feature if ``above`` is False."""

    feature: Feature
    parameter: float | str | None = None
    above: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Reads conditions on the secret column."""

    scope: Scope
    kind: SecretKind
    categories: tuple[str, ...] | None = None  # the declared ones

    def split(self, condition: exp.Expr | None) -> tuple[list[exp.Expr], SecretTest | None]:
        """Split a bound condition into its public parts and its test of the secret, if it has one."""
        public: list[exp.Expr] = []
        tests: list[SecretTest] = []
        for part in conjuncts(condition) if condition is not None else []:
            if not self.scope.mentions_secret(part):
                public.append(part)
            elif not self._asks_presence(part):
                tests.append(self.test(part))
        if len(tests) > 1:
            refuse(
                "one condition on the secret",
                got=f"{len(tests)} in {shown(condition)}" if condition is not None else len(tests),
                fix="publish each in its own release: their difference counts the rows between",
            )
        return public, tests[0] if tests else None

    def test(self, condition: exp.Expr) -> SecretTest:
        """Read one bound condition on the secret as a feature."""
        node = condition.unnest()
        if isinstance(node, exp.Not):
            inner = self.test(node.this)
            return replace(inner, above=not inner.above)
        readers = {
            SecretKind.BOOLEAN: self._boolean,
            SecretKind.CATEGORY: self._category,
            SecretKind.NUMBER: self._threshold,
        }
        feature = readers[self.kind](node)
        if feature is None:
            refuse(
                _EXPECTED[self.kind], got=shown(node), fix="other conditions on the secret are not analysed"
            )
        return feature

    def is_value(self, node: exp.Expr) -> bool:
        """Whether a bound expression is the secret, or a cast that does not change it."""
        node = node.unnest()
        if isinstance(node, exp.Cast):
            harmless = {exp.DType.DOUBLE, exp.DType.FLOAT} | (
                WHOLE_NUMBERS if self.kind is SecretKind.BOOLEAN else set()
            )
            return node.args["to"].this in harmless and self.is_value(node.this)
        return self.scope.is_secret(node)

    def _asks_presence(self, node: exp.Expr) -> bool:
        """Whether it is ``secret IS NOT NULL``, which holds for every audited row."""
        inner = node.unnest()
        if not isinstance(inner, exp.Not):
            return False
        test = inner.this.unnest()
        return isinstance(test, exp.Is) and isinstance(test.expression, exp.Null) and self.is_value(test.this)

    def _boolean(self, node: exp.Expr) -> SecretTest | None:
        if self.scope.is_secret(node) or (
            isinstance(node, exp.Cast) and self.scope.is_secret(node.this.unnest())
        ):
            return SecretTest(feature=Feature.VALUE)
        if not isinstance(node, exp.EQ | exp.NEQ | exp.Is):
            return None
        constant = _other_side(node, self.is_value)
        truth = {"TRUE": True, "1": True, "FALSE": False, "0": False}.get(
            shown(constant).upper() if constant else ""
        )
        if truth is None or (isinstance(constant, exp.Literal) and constant.is_string):
            return None
        return SecretTest(feature=Feature.VALUE, above=truth is not isinstance(node, exp.NEQ))

    def _category(self, node: exp.Expr) -> SecretTest | None:
        if isinstance(node, exp.In) and len(node.expressions) == 1:
            node = exp.EQ(this=node.this, expression=node.expressions[0])
        constant = _other_side(node, self.scope.is_secret) if isinstance(node, exp.EQ | exp.NEQ) else None
        if not isinstance(constant, exp.Literal) or not constant.is_string:
            return None
        if self.categories is not None and constant.name not in self.categories:
            refuse(
                "a category that the plan declares",
                got=f"'{constant.name}'",
                fix="check its spelling, or add it to the categories",
            )
        return SecretTest(feature=Feature.INDICATOR, parameter=constant.name, above=isinstance(node, exp.EQ))

    def _threshold(self, node: exp.Expr) -> SecretTest | None:
        above = _ABOVE.get(type(node))
        if above is None or not isinstance(node, exp.Binary):
            return None
        swapped = self.is_value(node.expression)
        level = constant_of(node.this if swapped else node.expression)
        if level is None or not self.is_value(node.expression if swapped else node.this):
            return None
        return SecretTest(feature=Feature.THRESHOLD, parameter=level, above=above is not swapped)


_EXPECTED = {
    SecretKind.BOOLEAN: "the boolean secret itself, its NOT, or = TRUE or FALSE",
    SecretKind.CATEGORY: "the secret = or <> one category in quotes",
    SecretKind.NUMBER: "the secret compared with a number by <, <=, > or >=",
}


def constant_of(node: exp.Expr) -> float | None:
    """The value of a number, perhaps negated; None for anything else.

    >>> from sqlglot import parse_one
    >>> constant_of(parse_one("-(2.5)")), constant_of(parse_one("x"))
    (-2.5, None)
    """
    node = node.unnest()
    if isinstance(node, exp.Neg):
        inner = constant_of(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and not node.is_string:
        value = float(node.name)
        return value if abs(value) < float("inf") else None
    return None


def _other_side(node: exp.Binary, wanted: Callable[[exp.Expr], bool]) -> exp.Expr | None:
    left: exp.Expr = node.this.unnest()
    right: exp.Expr = node.expression.unnest()
    if wanted(left):
        return right
    return left if wanted(right) else None
