"""What a row adds to a sum, as public numbers times features of its secret.

``CASE WHEN sex = 'f' THEN pay ELSE -pay END`` adds the secret times a public number; ``(pay - 3000) * w``
adds the secret times ``w``, and a public number beside it; ``COUNT(*) FILTER (WHERE pay > 3000 OR age >
60)`` counts a condition on the secret among the rows with ``NOT age > 60``, and the others by themselves.
So an aggregate is written as a sum of simpler ones, each of one feature: 1, having a secret, a power of it,
the secret clipped, or whether it is in a set. A product of the secret and of a set of it is none of these:
which rows would be added up depends on the secret. The engine compares both forms in every row, on the true
secrets and on others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from typing import NamedTuple, NoReturn

from sqlglot import exp

from sightline.errors import InvalidPlan
from sightline.tables.engines.protocol import DATA
from sightline.tables.membership import Band
from sightline.tables.sql import number_sets
from sightline.tables.sql.grammar import NUMBERS, has
from sightline.tables.sql.scope import bound_column, conjuncts
from sightline.tables.sql.secret_conditions import (
    Secret,
    SecretTest,
    bands_of,
    categories_of,
    complement,
    constant_of,
)
from sightline.tables.subject import SecretKind
from sightline.values import frozen

# NULL where a part is NULL, and nowhere else.
_STRICT = (exp.Column, exp.Literal, exp.Paren, exp.Add, exp.Sub, exp.Mul, exp.Neg)
MOST_SUMS = 8  # of the secret that one aggregate is written as: each of them carries noise
_HIGHEST_POWER = 100
_MEET = 1e-12
_MOST_TERMS, _MOST_NODES = 20, 600  # of one number: people write a few terms of a dozen nodes


class RowFeature(NamedTuple):
    """A function of the secret of a row."""

    kind: str  # "one" for 1 in every row, "has" for 1 in those with a secret, "power", "clipped" or "set"
    parameter: float | Band | SecretTest | None = None


_ONE, _HAS, _LINEAR = RowFeature("one"), RowFeature("has"), RowFeature("power", 1.0)
Terms = dict[RowFeature, exp.Expr]  # the public number, bound, that each feature is multiplied by


class _Refused(Exception):
    """The number is not a sum of public numbers times features."""


@frozen(eq=True)
class _Row:
    """What a row adds."""

    terms: Terms
    needs_secret: bool | None = False  # whether it is NULL in every row without a secret; None: in some
    met: tuple[exp.Expr, ...] = ()  # public conditions on the rows in which it is not NULL for another reason

    def __post_init__(self) -> None:
        parts = [*self.terms.values(), *self.met]
        if len(parts) > _MOST_TERMS or sum(1 for part in parts for _ in part.walk()) > _MOST_NODES:
            raise _Refused  # powers of long sums, which would grow without end


def sums_of(call: exp.Expr, secret: Secret) -> exp.Expr:
    """An aggregate as a sum of aggregates of one feature each; ``InvalidPlan`` where it is none.

    >>> from sqlglot import parse_one
    >>> from sightline.tables.engines.protocol import Column, ColumnKind
    >>> from sightline.tables.sql.scope import Scope
    >>> from sightline.tables.subject import Schema
    >>> number = ColumnKind.NUMBER
    >>> schema = Schema(columns=[Column("x", number), Column("w", number), Column("old", ColumnKind.BOOLEAN)])
    >>> scope = Scope.of_data(schema, secret="x", called=exp.to_identifier("data"))
    >>> secret = Secret(scope=scope, kind=SecretKind.NUMBER)
    >>> for text in (
    ...     "SUM(CASE WHEN old THEN x ELSE -x END)",
    ...     "AVG(x - 5)",
    ...     "COUNT(*) FILTER (WHERE x > 3 OR old)",
    ... ):
    ...     print(sums_of(parse_one(text), secret).sql())
    (SUM(data."x" * (CASE WHEN data."old" THEN 1 ELSE -1 END)))
    (AVG(data."x") + -5)
    (COUNT(*) FILTER(WHERE data."x" > 3 AND NOT COALESCE(data."old", FALSE)) + COUNT(...
    """
    algebra = _Algebra(secret=secret)
    try:
        return exp.Paren(this=secret.scope.as_written(algebra.written(call)))
    except _Refused:
        raise InvalidPlan("no sum of features of the secret") from None


@frozen
class _Algebra:
    """Takes one aggregate apart."""

    secret: Secret
    meant: dict[RowFeature, exp.Expr] = field(default_factory=dict)  # the features as SQL, bound

    def written(self, call: exp.Expr) -> exp.Expr:
        """The sum, bound."""
        scope = self.secret.scope
        conditions, inner = [], call
        if isinstance(call, exp.Filter):
            conditions, inner = conjuncts(scope.bind(call.expression.this)), call.this
        mean = isinstance(inner, exp.Avg)
        if isinstance(inner, exp.CountIf):
            row = self._truth(scope.bind(inner.this))
        elif isinstance(inner, exp.Count):
            row = self._counted(inner)
        elif isinstance(inner, exp.Sum | exp.Avg) and isinstance(inner.this, exp.Expr):
            row = self._number(scope.bind(inner.this))
        else:
            _refuse()
        public = [one for one in conditions if not scope.mentions_secret(one)]
        about = [one for one in conditions if scope.mentions_secret(one)]
        if about and mean:
            _refuse()
        for condition in about:
            row = self._times(self._truth(condition), row)
        if sum(one not in (_ONE, _HAS) for one in row.terms) not in range(1, MOST_SUMS + 1):
            _refuse()
        rows = [*public, *row.met]
        sums = list(self._means(row, rows) if mean else self._sums(row, rows))
        total = sums[0]
        for one in sums[1:]:
            total = exp.Add(this=total, expression=one)
        return total

    def _counted(self, count: exp.Count) -> _Row:
        """What COUNT adds: of a CASE without ELSE whether its condition holds."""
        if isinstance(count.this, exp.Star):
            return _Row(terms={_ONE: _number(1)})
        case = (count.this or exp.Null()).unnest()
        single = isinstance(case, exp.Case) and len(case.args["ifs"]) == 1
        if not single or case.this or case.args.get("default") is not None or count.expressions:
            _refuse()
        (branch,) = case.args["ifs"]
        if not isinstance(branch.args["true"].unnest(), exp.Literal):
            _refuse()
        return self._truth(self.secret.scope.bind(branch.this))

    # Numbers

    def _number(self, node: exp.Expr) -> _Row:
        """A bound number of a row."""
        node, secret = node.unnest(), self.secret
        if not secret.scope.mentions_secret(node):
            return _Row(terms=_added({}, {_ONE: node}), met=_there(node))
        number = secret.kind is SecretKind.NUMBER
        if number and secret.is_value(node):
            return self._of_power(1.0)
        match node:
            case exp.Add():
                return self._plus(self._number(node.this), self._number(node.expression))
            case exp.Sub():
                return self._plus(
                    self._number(node.this), _scaled(self._number(node.expression), _number(-1))
                )
            case exp.Neg():
                return _scaled(self._number(node.this), _number(-1))
            case exp.Mul():
                return self._times(self._number(node.this), self._number(node.expression))
            case exp.Div() if not secret.scope.mentions_secret(node.expression):
                inverse = exp.Div(this=exp.Literal.number("1.0"), expression=exp.Paren(this=node.expression))
                return self._times(self._number(node.this), self._number(inverse))
            case exp.Pow() if number and secret.is_value(node.this):
                return self._of_power(constant_of(node.expression))
            case exp.Pow() if number and constant_of(node.expression) in (2, 3, 4):
                base = self._number(node.this)
                whole = base
                for _ in range(int(constant_of(node.expression)) - 1):
                    whole = self._times(whole, base)
                return whole
            case exp.Abs() if number:
                zero = [_number(0)]
                above = self._bent(exp.Greatest(this=node.this.copy(), expressions=zero))
                below = self._bent(exp.Least(this=node.this.copy(), expressions=[_number(0)]))
                return self._plus(above, _scaled(below, _number(-1)))
            case exp.Least() | exp.Greatest() if number:
                return self._bent(node)
            case exp.Case() if not node.this:
                lines = self._bent_by_case(node) if number else []
                return lines[0] if lines else self._case(node)
            case exp.Cast() if node.args["to"].this in NUMBERS and _is_condition(node.this):
                return replace(self._truth(node.this), needs_secret=self._is_secret_s(node.this) or None)
            case exp.Cast() if node.args["to"].this is exp.DType.DOUBLE:
                return self._number(node.this)
        raise _Refused

    def _of_power(self, exponent: float) -> _Row:
        if not (float(exponent).is_integer() and 1 <= exponent <= _HIGHEST_POWER):
            _refuse()
        feature = RowFeature("power", exponent)
        value = bound_column(self.secret.scope.secret, DATA)
        self.meant[feature] = (
            value if exponent == 1 else exp.Pow(this=value, expression=_number(int(exponent)))
        )
        return _Row(terms={feature: _number(1)}, needs_secret=True)

    def _clipped(self, node: exp.Expr) -> _Row:
        """LEAST and GREATEST of the secret and of constants, as written."""
        low, high = -math.inf, math.inf
        inner: exp.Expr = node
        levels: list[tuple[bool, float]] = []
        while isinstance(inner, exp.Least | exp.Greatest):
            parts = [one.unnest() for one in (inner.this, *inner.expressions)]
            about = [one for one in parts if self.secret.scope.mentions_secret(one)]
            own = [constant_of(one) for one in parts if one not in about]
            if len(about) != 1 or not own or any(map(math.isnan, own)):
                _refuse()
            least = isinstance(inner, exp.Least)
            levels.append((least, min(own) if least else max(own)))
            inner = about[0]
        if not self.secret.is_value(inner):
            _refuse()
        for least, level in reversed(levels):
            nearer = min if least else max
            low, high = nearer(low, level), nearer(high, level)
        if not low < high:
            _refuse()
        feature = RowFeature("clipped", Band(low=low, high=high))
        self.meant[feature] = node
        return _Row(terms={feature: _number(1)}, needs_secret=True)

    def _bent(self, node: exp.Least | exp.Greatest) -> _Row:
        """LEAST or GREATEST of the secret, or of a line of it such as ``x - 50``, and of constants."""
        parts = [one.unnest() for one in (node.this, *node.expressions)]
        lines = [self._line(one) for one in parts if self.secret.scope.mentions_secret(one)]
        levels = [constant_of(one) for one in parts if not self.secret.scope.mentions_secret(one)]
        if (
            lines in ([], [[]], [[(1.0, 0.0)]])
            or len(lines) > 1
            or not levels
            or any(map(math.isnan, levels))
        ):
            return self._clipped(node)
        ((slope, start),) = lines[0]
        least = isinstance(node, exp.Least)
        level = ((min if least else max)(levels) - start) / slope
        return self._plus(
            _scaled(self._beyond(level, above=least is (slope < 0)), _number(slope)),
            _Row(terms={_ONE: _number(start)}),
        )

    def _bent_by_case(self, case: exp.Case) -> list[_Row]:
        """``CASE WHEN x > 50 THEN x - 50 ELSE 0 END``: two lines of the secret that meet where it is divided.

        Nothing of another CASE: which rows it adds up depends on the secret.
        """
        default = case.args.get("default")
        if len(case.args["ifs"]) != 1 or default is None:
            return []
        (branch,) = case.args["ifs"]
        test = branch.this.unnest()
        if not isinstance(test, exp.GT | exp.GTE | exp.LT | exp.LTE) or not self.secret.is_value(test.this):
            return []
        level = constant_of(test.expression)
        lines = [line for one in (branch.args["true"], default) for line in self._line(one.unnest())]
        if math.isnan(level) or len(lines) != 2 or not any(slope for slope, _ in lines):
            return []
        (slope, start), (other, begin) = lines
        # They meet but for the rounding of their constants; the engine compares both forms in every row.
        if not math.isclose(slope * level + start, other * level + begin, rel_tol=_MEET, abs_tol=_MEET):
            return []
        bend = self._beyond(level, above=isinstance(test, exp.GT | exp.GTE))
        line = _Row(terms={_ONE: _number(begin - (slope - other) * level)})
        if other:
            line = self._plus(line, _scaled(self._of_power(1.0), _number(other)))
        row = self._plus(_scaled(bend, _number(slope - other)), line)
        # In a row without a secret it is what ELSE says.
        return [replace(row, needs_secret=bool(other))] if other or not begin else []

    def _beyond(self, level: float, *, above: bool) -> _Row:
        """The larger, or the smaller, of the secret and a level."""
        value = bound_column(self.secret.scope.secret, DATA)
        kind = exp.Greatest if above else exp.Least
        return self._clipped(kind(this=value, expressions=[_number(level)]))

    def _line(self, node: exp.Expr) -> list[tuple[float, float]]:
        """The slope and the start of a number that is a line of the secret with constants; else nothing."""
        if has(node, exp.Case, exp.If, exp.Abs, exp.Least, exp.Greatest, exp.Coalesce):
            return []  # bent itself; nested ones would be read again and again
        try:
            terms = dict(self._number(node).terms)
        except (_Refused, InvalidPlan):
            return []
        slope = _constant(terms.pop(_LINEAR, _number(0)))
        start = sum(_constant(terms.pop(one, _number(0))) for one in (_ONE, _HAS))
        return [] if terms or math.isnan(slope + start) else [(slope, start)]

    def _case(self, case: exp.Case) -> _Row:
        """CASE: by a public condition one branch or the other, by the secret a sum of both."""
        default = case.args.get("default")
        found = self._result(default if default is not None else exp.Null())
        for branch in reversed(case.args["ifs"]):
            value = self._result(branch.args["true"])
            if not self.secret.scope.mentions_secret(branch.this):
                found = _either(branch.this, value, found)
                continue
            if value.needs_secret is not False or found.needs_secret is not False:
                _refuse()
            # Rows in which a public number is NULL add nothing, where the other branch adds nothing, either.
            if value.met != found.met and ((value.met and found.terms) or (found.met and value.terms)):
                _refuse()
            met = self._truth(branch.this)
            others = _scaled(self._times(met, found), _number(-1))
            found = self._plus(self._plus(self._times(met, value), found), others)
        return found

    def _result(self, node: exp.Expr) -> _Row:
        if isinstance(node.unnest(), exp.Null):
            return _Row(terms={}, met=(exp.false(),))
        return self._number(node)

    # Conditions

    def _truth(self, condition: exp.Expr) -> _Row:
        """1 where a bound condition holds, else 0."""
        node, scope = condition.unnest(), self.secret.scope
        if not scope.mentions_secret(node):
            return _Row(terms={_ONE: _if(node, _number(1), _number(0))})
        if self._is_secret_s(node):
            return _Row(terms=self._in_set(node))
        if isinstance(node, exp.Not):
            inner = node.this.unnest()
            match inner:
                case exp.Not():
                    return self._truth(inner.this)
                case exp.And():
                    return self._truth(exp.Or(this=_not(inner.this), expression=_not(inner.expression)))
                case exp.Or():
                    return self._truth(exp.And(this=_not(inner.this), expression=_not(inner.expression)))
        if isinstance(node, exp.And):
            return self._times(self._truth(node.this), self._truth(node.expression))
        if isinstance(node, exp.Or):
            one, other = self._truth(node.this), self._truth(node.expression)
            both = _scaled(self._times(one, other), _number(-1))
            return self._plus(self._plus(one, other), both)
        raise _Refused

    def _is_secret_s(self, node: exp.Expr) -> bool:
        """Whether it is about the secret alone."""
        return all(map(self.secret.scope.is_secret, node.find_all(exp.Column)))

    def _in_set(self, condition: exp.Expr) -> Terms:
        """Whether the secret is in the set that a condition describes."""
        scope = self.secret.scope
        if scope.asks_presence(condition):
            return {_HAS: _number(1)}
        if scope.asks_presence(_not(condition)):
            return {_ONE: _number(1), _HAS: _number(-1)}
        return self._of_test(self.secret.test(condition), condition)

    def _of_test(self, test: SecretTest, condition: exp.Expr) -> Terms:
        if not test.above:
            inside = self._of_test(complement(test), _not(condition))
            return _added({_HAS: _number(1)}, {one: _product(c, _number(-1)) for one, c in inside.items()})
        feature = RowFeature("set", test)
        self.meant.setdefault(feature, condition)
        return {feature: _number(1)}

    # Products and sums

    def _times(self, one: _Row, other: _Row) -> _Row:
        terms: Terms = {}
        for first, factor in one.terms.items():
            for second, times in other.terms.items():
                product = {
                    feature: _product(_product(factor, times), weight)
                    for feature, weight in self._joined(first, second).items()
                }
                terms = _added(terms, product)
        needs = True if True in (one.needs_secret, other.needs_secret) else one.needs_secret
        if needs is False:
            needs = other.needs_secret
        return _Row(terms=terms, needs_secret=needs, met=(*one.met, *other.met))

    def _joined(self, one: RowFeature, other: RowFeature) -> Terms:
        """The product of two features."""
        if other == _ONE or (other == _HAS and one != _ONE) or one == other == _HAS:
            return {one: _number(1)}
        if one in (_ONE, _HAS):
            return {other: _number(1)}
        kinds = {one.kind, other.kind}
        if kinds == {"power"}:
            assert isinstance(one.parameter, float)
            assert isinstance(other.parameter, float)
            return self._of_power(one.parameter + other.parameter).terms
        if kinds != {"set"}:
            _refuse()
        if one == other:
            return {one: _number(1)}
        first, second = one.parameter, other.parameter
        assert isinstance(first, SecretTest)
        assert isinstance(second, SecretTest)
        if self.secret.kind is SecretKind.CATEGORY:
            empty = not set(categories_of(first)) & set(categories_of(second))
        elif self.secret.kind is SecretKind.NUMBER:
            empty = not number_sets.intersection(bands_of(first), bands_of(second))
        else:
            empty = False
        if empty:
            return {}
        both = exp.And(this=exp.Paren(this=self.meant[one]), expression=exp.Paren(this=self.meant[other]))
        return self._of_test(self.secret.both([first, second]), both)

    def _plus(self, one: _Row, other: _Row) -> _Row:
        needs = {one.needs_secret, other.needs_secret}
        if None in needs:
            _refuse()
        if True in needs:  # then the sum is NULL without a secret
            one, other = _where_present(one), _where_present(other)
        return _Row(
            terms=_added(one.terms, other.terms), needs_secret=True in needs, met=(*one.met, *other.met)
        )

    # Aggregates

    def _sums(self, row: _Row, rows: list[exp.Expr]) -> Iterator[exp.Expr]:
        """The sums of the features, those of the secret first."""
        for feature, factor in sorted(row.terms.items(), key=lambda pair: pair[0] in (_ONE, _HAS)):
            constant = not math.isnan(constant_of(factor))
            count = exp.Count(this=exp.Star(), big_int=True)
            if feature.kind in ("power", "clipped"):
                yield _filtered(exp.Sum(this=_weighted(self.meant[feature], factor)), rows)
                continue
            met = [self.meant[feature]] if feature.kind == "set" else self._present(feature)
            public = _public_of(factor)
            if constant:
                yield _without_factor(_filtered(count, [*met, *rows]), factor)
            elif public is not None:  # 1 where a public condition holds, else 0
                yield _filtered(count, [*met, *rows, public])
            elif feature.kind == "set":
                yield _filtered(exp.Sum(this=_if(met[0], factor, _number(0))), rows)
            else:
                total = _filtered(exp.Sum(this=factor.copy()), [*met, *rows])
                yield exp.Coalesce(this=total, expressions=[_number(0)])

    def _present(self, feature: RowFeature) -> list[exp.Expr]:
        """The condition that a row has a secret, for the feature of having one."""
        if feature == _ONE:
            return []
        return [_present(bound_column(self.secret.scope.secret, DATA))]

    def _means(self, row: _Row, rows: list[exp.Expr]) -> Iterator[exp.Expr]:
        """The means of the features: over rows with a secret, or of conditions over all rows."""
        for feature, factor in sorted(row.terms.items(), key=lambda pair: pair[0] in (_ONE, _HAS)):
            constant = not math.isnan(constant_of(factor))
            if feature.kind in ("power", "clipped") and row.needs_secret is True:
                yield _filtered(exp.Avg(this=_weighted(self.meant[feature], factor)), rows)
            elif feature == (_HAS if row.needs_secret else _ONE) and constant and not row.met:
                yield factor.copy()
            elif feature == _HAS and row.needs_secret is True:
                yield _filtered(exp.Avg(this=factor.copy()), [*rows, *self._present(_HAS)])
            elif feature.kind == "set" and row.needs_secret is False and constant and not row.met:
                mean = exp.Avg(this=_if(self.meant[feature], _number(1), _number(0)))
                yield _without_factor(_filtered(mean, rows), factor)
            else:
                _refuse()


def _refuse() -> NoReturn:
    raise _Refused


def _number(value: float) -> exp.Expr:
    """A number as SQL."""
    if not float(value).is_integer() and "e" in repr(float(value)):
        raise _Refused
    literal = exp.Literal.number(abs(int(value)) if float(value).is_integer() else repr(abs(float(value))))
    return exp.Neg(this=literal) if value < 0 else literal


def _constant(node: exp.Expr) -> float:
    """The value of arithmetic with constants; NaN of anything else."""
    plain = node.unnest()
    if not isinstance(plain, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Neg):
        return constant_of(plain)
    one = _constant(plain.this)
    if isinstance(plain, exp.Neg):
        return -one
    other = _constant(plain.expression)
    match plain:
        case exp.Add():
            return one + other
        case exp.Sub():
            return one - other
        case exp.Mul():
            return one * other
    return one / other if other else math.nan


def _is_condition(node: exp.Expr) -> bool:
    return isinstance(node.unnest(), exp.Predicate | exp.Not | exp.And | exp.Or)


def _not(node: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Paren(this=node.unnest().copy()))


def _present(node: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=exp.paren(node.copy()), expression=exp.Null()))


def _there(node: exp.Expr) -> tuple[exp.Expr, ...]:
    """The conditions under which a public number is not NULL."""
    if all(isinstance(one, _STRICT) for one in node.walk() if not isinstance(one, exp.Identifier)):
        columns = {one.sql(): one for one in node.find_all(exp.Column)}
        return tuple(_present(one) for _, one in sorted(columns.items()))
    return (_present(node),) if has(node, exp.Column) else ()


def _if(condition: exp.Expr, yes: exp.Expr, no: exp.Expr) -> exp.Expr:
    if yes == no:
        return yes.copy()
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=yes.copy())], default=no.copy())


def _product(one: exp.Expr, other: exp.Expr) -> exp.Expr:
    """A product of public numbers; of whole constants, and with 0 and 1, it is computed."""
    first, second = constant_of(one), constant_of(other)
    if 0 in (first, second):
        return _number(0)
    if first == 1 or second == 1:
        return (other if first == 1 else one).copy()
    if first.is_integer() and second.is_integer():
        return _number(first * second)
    for factor, case in ((one, other), (other, one)):
        for condition, yes, no in _choice(case) if constant_of(factor).is_integer() else ():
            return _if(condition, _product(factor, yes), _product(factor, no))
    return exp.Mul(this=exp.paren(one.copy()), expression=exp.paren(other.copy()))


def _added(terms: Terms, others: Terms) -> Terms:
    """The sum of both, without what cancels."""
    found = dict(terms)
    for feature, factor in others.items():
        found[feature] = _sum(found[feature], factor) if feature in found else factor
    return {feature: factor for feature, factor in found.items() if constant_of(factor) != 0}


def _sum(one: exp.Expr, other: exp.Expr) -> exp.Expr:
    first, second = constant_of(one), constant_of(other)
    if first.is_integer() and second.is_integer():
        return _number(first + second)
    if first == 0 or second == 0:
        return (other if first == 0 else one).copy()
    for added, case in ((one, other), (other, one)):
        for condition, yes, no in _choice(case) if constant_of(added).is_integer() else ():
            return _if(condition, _sum(added, yes), _sum(added, no))
    return exp.Add(this=exp.paren(one.copy()), expression=exp.paren(other.copy()))


def _scaled(row: _Row, factor: exp.Expr) -> _Row:
    return replace(row, terms={one: _product(own, factor) for one, own in row.terms.items()})


def _where_present(row: _Row) -> _Row:
    """The same number, NULL in rows without a secret."""
    if row.needs_secret:
        return row
    terms = {feature: factor for feature, factor in row.terms.items() if feature != _ONE}
    if _ONE in row.terms:
        terms = _added(terms, {_HAS: row.terms[_ONE]})
    return replace(row, terms=terms, needs_secret=True)


def _either(condition: exp.Expr, yes: _Row, no: _Row) -> _Row:
    """One number or another, as a public condition says."""
    zero = _number(0)
    features = list(dict.fromkeys([*yes.terms, *no.terms]))
    terms = {one: _if(condition, yes.terms.get(one, zero), no.terms.get(one, zero)) for one in features}
    met = (_if(condition, _all(yes.met), _all(no.met)),) if yes.met or no.met else ()
    same = yes.needs_secret if yes.needs_secret == no.needs_secret else None
    empty = [one for one in (yes, no) if not one.terms and one.met]  # NULL, whatever the secret is
    if empty:
        same = no.needs_secret if empty[0] is yes else yes.needs_secret
    return _Row(terms=terms, needs_secret=same, met=met)


def _all(conditions: Iterable[exp.Expr]) -> exp.Expr:
    listed = [exp.paren(one.copy()) for one in conditions]
    return exp.and_(*listed) if listed else exp.true()


def _choice(factor: exp.Expr) -> list[tuple[exp.Expr, exp.Expr, exp.Expr]]:
    """The condition and the two whole constants of a CASE of them; none of another number."""
    node = factor.unnest()
    if not isinstance(node, exp.Case) or len(node.args["ifs"]) != 1:
        return []
    (branch,) = node.args["ifs"]
    yes, no = branch.args["true"], node.args.get("default") or exp.Null()
    whole = constant_of(yes).is_integer() and constant_of(no).is_integer()
    return [(branch.this, yes, no)] if whole else []


def _public_of(factor: exp.Expr) -> exp.Expr | None:
    """The condition under which a factor is 1, if it is 0 otherwise; none of another number."""
    for condition, yes, no in _choice(factor):
        if (constant_of(yes), constant_of(no)) == (1, 0):
            return condition.copy()
        if (constant_of(yes), constant_of(no)) == (0, 1):
            return exp.Not(this=exp.Coalesce(this=condition.copy(), expressions=[exp.false()]))
    return None


def _weighted(value: exp.Expr, factor: exp.Expr) -> exp.Expr:
    if constant_of(factor) == 1:
        return value.copy()
    return exp.Mul(this=value.copy(), expression=exp.paren(factor.copy()))


def _filtered(call: exp.Expr, conditions: list[exp.Expr]) -> exp.Expr:
    if not conditions:
        return call
    where = exp.and_(
        *(exp.paren(one.copy()) if isinstance(one, exp.Or) else one.copy() for one in conditions)
    )
    return exp.Filter(this=call, expression=exp.Where(this=where))


def _without_factor(call: exp.Expr, factor: exp.Expr) -> exp.Expr:
    return call if constant_of(factor) == 1 else exp.Mul(this=call, expression=factor.copy())
