"""Read a condition on the secret as the feature of it that a published count adds up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from sqlglot import exp

from sightline.errors import InvalidPlan
from sightline.tables.membership import YES_OR_NO, Band, Feature, Parameter
from sightline.tables.sql.grammar import NUMBERS, WHOLE_NUMBERS, refuse, shown
from sightline.tables.sql.scope import Scope, conjuncts
from sightline.tables.subject import MOST_VALUES, UNBOUNDED, SecretKind
from sightline.values import frozen


@frozen(eq=True)
class SecretTest:
    """A feature of a row's secret, or 1 minus that feature if ``above`` is False."""

    feature: Feature
    parameter: Parameter = None
    above: bool = True
    closed: bool = False  # whether a threshold itself counts as above it


Tests = tuple[SecretTest, ...]  # none, or one


@frozen(eq=True)
class Secret:
    """Reads conditions on the secret column."""

    scope: Scope
    kind: SecretKind
    categories: tuple[str, ...] = ()  # the declared ones; none: those that occur
    bounds: tuple[float, float] = UNBOUNDED  # the declared ones

    def split(self, *conditions: exp.Expr) -> tuple[list[exp.Expr], Tests]:
        """Split bound conditions into their public parts and the test of the secret, if there is one."""
        parts = [part for condition in conditions for part in conjuncts(condition)]
        public = [part for part in parts if not self.scope.mentions_secret(part)]
        about = [part for part in parts if self.scope.mentions_secret(part)]
        return public, self.as_one(self.test(part) for part in about if not self.scope.asks_presence(part))

    def as_one(self, tests: Iterable[SecretTest]) -> Tests:
        """Several conditions on the secret are one: ``x > 3 AND x <= 5`` is a band. None stay none."""
        listed = list(tests)
        return (self.both(listed),) if listed else ()

    def both(self, tests: Sequence[SecretTest]) -> SecretTest:
        """The one test that is met where all of some tests are met."""
        found = tests[0]
        for test in tests[1:]:
            features = {found.feature, test.feature}
            joined = self._joined_categories if features == {Feature.INDICATOR} else _joined_bands
            found = joined(found, test)
        return found

    def test(self, condition: exp.Expr) -> SecretTest:
        """Read one bound condition on the secret as a feature."""
        node = condition.unnest()
        if isinstance(node, exp.Not):
            return complement(self.test(node.this))
        if isinstance(node, exp.And | exp.Or) and self.kind is not SecretKind.BOOLEAN:
            sides = (node.this, node.expression)
            if not all(map(self.scope.mentions_secret, sides)):
                refuse(_EXPECTED[self.kind], got=shown(node), fix="join public conditions to it by AND only")
            tests = [self.test(side) for side in sides]
            if isinstance(node, exp.And):
                return self.both(tests)
            return complement(self.both([complement(test) for test in tests]))  # De Morgan
        readers = {
            SecretKind.BOOLEAN: self._boolean,
            SecretKind.CATEGORY: self._category,
            SecretKind.NUMBER: self._band,
        }
        found = readers[self.kind](node)
        if not found:
            fix = "other conditions on the secret are not analysed"
            refuse(_EXPECTED[self.kind], got=shown(node), fix=fix)
        return found[0]

    def is_value(self, node: exp.Expr) -> bool:
        """Whether a bound expression is the secret, or a cast that does not change it."""
        node = node.unnest()
        if isinstance(node, exp.Cast):
            harmless = NUMBERS - (set() if self.kind is SecretKind.BOOLEAN else WHOLE_NUMBERS)
            return node.args["to"].this in harmless and self.is_value(node.this)
        return self.scope.is_secret(node)

    def _boolean(self, node: exp.Expr) -> Tests:
        if self.scope.is_secret(node) or (
            isinstance(node, exp.Cast) and self.scope.is_secret(node.this.unnest())
        ):
            return (SecretTest(feature=Feature.VALUE),)
        sides = _other_sides(node, self.is_value) if isinstance(node, exp.EQ | exp.NEQ | exp.Is) else []
        texts = [shown(one).upper() for one in sides if not isinstance(one, exp.Literal) or not one.is_string]
        truths = {"TRUE": True, "1": True, "FALSE": False, "0": False}
        negated = isinstance(node, exp.NEQ) or bool(node.args.get("negate"))
        found = [truths[text] is not negated for text in texts if text in truths]
        return tuple(SecretTest(feature=Feature.VALUE, above=above) for above in found)

    def _category(self, node: exp.Expr) -> Tests:
        if isinstance(node, exp.In) and self.scope.is_secret(node.this.unnest()):
            constants = [one.unnest() for one in node.expressions]
        else:
            equal = isinstance(node, exp.EQ | exp.NEQ)
            constants = _other_sides(node, self.scope.is_secret) if equal else []
        if not constants or not all(isinstance(one, exp.Literal) and one.is_string for one in constants):
            return ()
        names = tuple(dict.fromkeys(one.name for one in constants))
        for name in names:
            if name not in (self.categories or names):
                refuse(
                    "a category that the plan declares",
                    got=f"'{name}'",
                    fix="check its spelling, or add it to the categories",
                )
        return (self._of_categories(names, above=not isinstance(node, exp.NEQ)),)

    def _of_categories(self, names: tuple[str, ...], *, above: bool) -> SecretTest:
        """The test for some categories; where they are all but one, the complement of that one."""
        others = [one for one in self.categories if one not in names]
        if not names or (self.categories and not others):
            refuse(
                "a condition that some categories meet and some do not",
                got="one that is the same for all",
                fix="leave it out",
            )
        if len(others) == 1 and len(names) > 1:
            names, above = (others[0],), not above
        parameter: Parameter = names[0] if len(names) == 1 else tuple(sorted(names))
        return SecretTest(feature=Feature.INDICATOR, parameter=parameter, above=above)

    def _joined_categories(self, one: SecretTest, other: SecretTest) -> SecretTest:
        first, second = categories_of(one), categories_of(other)
        if not one.above and not other.above:
            return self._of_categories(tuple(dict.fromkeys((*first, *second))), above=False)
        if not one.above:
            first, second, one, other = second, first, other, one
        return self._of_categories(tuple(c for c in first if (c in second) is other.above), above=True)

    def _band(self, node: exp.Expr) -> Tests:
        if isinstance(node, exp.Between) and not node.args.get("symmetric") and self.is_value(node.this):
            low, high = (constant_of(node.args[end]) for end in ("low", "high"))
            bands = [] if math.isnan(low - high) else [(low, high)]
            return tuple(
                _test_of(Band(low=low, high=high, low_closed=True, high_closed=True)) for low, high in bands
            )
        if not isinstance(node, exp.EQ | exp.NEQ | exp.GT | exp.GTE | exp.LT | exp.LTE):
            return ()
        sides = _other_sides(node, self.is_value)
        levels = [level for level in map(constant_of, sides) if not math.isnan(level)]
        if isinstance(node, exp.EQ | exp.NEQ):
            # Of whole numbers this is the one; that there are no others near it is compared row by row.
            only = [_test_of(Band(low=at - 0.5, high=at + 0.5)) for at in levels if at.is_integer()]
            return tuple(only if isinstance(node, exp.EQ) else map(complement, only))
        above = isinstance(node, exp.GT | exp.GTE) is self.is_value(node.this)
        closed = isinstance(node, exp.GTE | exp.LTE) is above
        return tuple(
            SecretTest(feature=Feature.THRESHOLD, parameter=level, above=above, closed=closed)
            for level in levels
        )


def categories_of(test: SecretTest) -> tuple[str, ...]:
    """The categories of an indicator."""
    return test.parameter if isinstance(test.parameter, tuple) else (str(test.parameter),)


def _bands_of(test: SecretTest) -> list[Band]:
    """The band of the numbers that meet a test; none if they are two, or it is no test of a number."""
    if test.feature is Feature.THRESHOLD:
        assert isinstance(test.parameter, int | float)
        if test.above:
            return [Band(low=test.parameter, low_closed=test.closed)]
        return [Band(high=test.parameter, high_closed=not test.closed)]
    return [test.parameter] if isinstance(test.parameter, Band) and test.above else []


def _joined_bands(one: SecretTest, other: SecretTest) -> SecretTest:
    found = [_in_both(*pair) for pair in product(_bands_of(one), _bands_of(other))]
    found += [*_without_band(one, other), *_without_band(other, one)]
    if not found or not {one.feature, other.feature} <= YES_OR_NO:
        refuse(
            "conditions on the secret that make one band or one list of categories",
            got="others joined by AND or OR",
            fix="publish each in its own release",
        )
    return found[0]


def _in_both(first: Band, second: Band) -> SecretTest:
    # The larger of two lower ends holds; of equal ends the open one.
    low = max((first.low, not first.low_closed), (second.low, not second.low_closed))
    high = min((first.high, first.high_closed), (second.high, second.high_closed))
    return _test_of(Band(low=low[0], low_closed=not low[1], high=high[0], high_closed=high[1]))


def _without_band(one: SecretTest, other: SecretTest) -> Tests:
    """A band without the numbers of another, if one band is left."""
    bands, gone = _bands_of(one), other.parameter
    if not bands or not isinstance(gone, Band) or other.above:
        return ()
    band = bands[0]
    below = Band(low=band.low, low_closed=band.low_closed, high=gone.low, high_closed=not gone.low_closed)
    above = Band(low=gone.high, low_closed=not gone.high_closed, high=band.high, high_closed=band.high_closed)
    if (gone.high, gone.high_closed) < (band.low, not band.low_closed) or (gone.low, not gone.low_closed) > (
        band.high,
        band.high_closed,
    ):
        return (one,)  # they do not touch
    left = [part for part in (below, above) if part.low < part.high]
    return (_test_of(left[0]),) if len(left) == 1 else ()


def _test_of(band: Band) -> SecretTest:
    if not band.low < band.high:
        refuse(
            "a band of numbers with a width",
            got="a single number, or none",
            fix="count the numbers between two levels",
        )
    if band.high == float("inf"):
        return SecretTest(feature=Feature.THRESHOLD, parameter=band.low, closed=band.low_closed)
    if band.low == -float("inf"):
        return SecretTest(
            feature=Feature.THRESHOLD, parameter=band.high, above=False, closed=not band.high_closed
        )
    return SecretTest(feature=Feature.BAND, parameter=band)


def complement(test: SecretTest) -> SecretTest:
    """The test that is met where this one is not."""
    return replace(test, above=not test.above)


_EXPECTED = {
    SecretKind.BOOLEAN: "the boolean secret itself, its NOT, or = TRUE or FALSE",
    SecretKind.CATEGORY: "the secret compared with categories in quotes by =, <>, IN or NOT IN",
    SecretKind.NUMBER: "the secret compared with numbers by <, <=, >, >=, BETWEEN, or = of a whole one",
}


def constant_of(node: exp.Expr) -> float:
    """The value of a number, perhaps negated; NaN for anything else, which equals no number.

    >>> from sqlglot import parse_one
    >>> constant_of(parse_one("-(2.5)")), constant_of(parse_one("x"))
    (-2.5, nan)
    """
    node = node.unnest()
    if isinstance(node, exp.Neg):
        return -constant_of(node.this)
    value = float(node.name) if isinstance(node, exp.Literal) and not node.is_string else math.nan
    return value if math.isfinite(value) else math.nan


def _other_sides(node: exp.Expr, wanted: Callable[[exp.Expr], bool]) -> list[exp.Expr]:
    """The side of a comparison with what is wanted that is not it; none if neither side is."""
    left, right = node.this.unnest(), node.expression.unnest()
    if wanted(left):
        return [right]
    return [left] if wanted(right) else []


@frozen(eq=True)
class SecretBand:
    """One band of a histogram, and the value that the key has in it."""

    name: exp.Expr
    test: SecretTest

    @property
    def label(self) -> str:
        return self.name.name if isinstance(self.name, exp.Literal) else self.name.sql()


def read_bands(key: exp.Expr, secret: Secret) -> tuple[SecretBand, ...]:
    """Read a bound key as bands of a number, if it has some: CASE, a comparison, or steps by FLOOR.

    A branch holds where its condition does and no earlier one: ``CASE WHEN x < 10 THEN 'low' WHEN x < 20 THEN
    'middle' ELSE 'high' END`` has the bands below 10, from 10 to 20, and the rest. Without ELSE the rest is
    NULL, if the branches leave one.
    """
    node = key.unnest()
    if secret.kind is not SecretKind.NUMBER:
        return ()
    if isinstance(node, exp.Predicate | exp.Not | exp.And | exp.Or):
        test = secret.test(node)
        return SecretBand(name=exp.true(), test=test), SecretBand(name=exp.false(), test=complement(test))
    if isinstance(node, exp.WidthBucket):
        node = _buckets(node)
    if not isinstance(node, exp.Case) or node.this:
        return _steps_of(node, secret)
    branches = [(_name(one.args["true"], node), secret.test(one.this)) for one in node.args["ifs"]]
    earlier: list[SecretTest] = []
    bands: list[SecretBand] = []
    complete = False  # whether the last branch takes all that the others leave
    for name, test in branches:
        band = _one_band([test, *earlier], node, secret)
        complete = bool(earlier) and band == _one_band(earlier, node, secret)
        bands.append(SecretBand(name=name, test=band))
        earlier.append(complement(test))
    if not complete or node.args.get("default"):
        rest = _one_band(earlier, node, secret)
        bands.append(SecretBand(name=_name(node.args.get("default") or exp.Null(), node), test=rest))
    if len({band.label for band in bands}) < len(bands):
        refuse("a different name for each band", got=shown(node), fix="name every band, also ELSE")
    return tuple(bands)


def _buckets(node: exp.WidthBucket) -> exp.Case:
    """WIDTH_BUCKET(x, low, high, n) as CASE: 0 below low, then n steps, and n + 1 from high on."""
    low, high, steps = (constant_of(node.args[name]) for name in ("min_value", "max_value", "num_buckets"))
    if not (low < high and steps >= 1 and steps.is_integer() and steps < MOST_VALUES):
        refuse("WIDTH_BUCKET between two constants", got=shown(node), fix="bins of 10 are FLOOR(x / 10) * 10")
    edges = [low + (high - low) * step / steps for step in range(int(steps) + 1)]
    case = exp.Case(default=exp.Literal.number(len(edges)))
    for step, edge in enumerate(edges):
        below = exp.LT(this=node.this.copy(), expression=exp.convert(edge))
        case = case.when(below, exp.Literal.number(step), copy=False)
    return case


def _one_band(tests: list[SecretTest], node: exp.Expr, secret: Secret) -> SecretTest:
    """The band in which all tests are met."""
    try:
        return secret.both(tests)
    except InvalidPlan:
        refuse(
            "a CASE whose branches and ELSE are one band each, without gaps between them",
            got=shown(node),
            fix="compare with one end of each band only, such as CASE WHEN x < 18 THEN 'a' WHEN x < 65 THEN "
            "'b' ELSE 'c' END, or publish COUNT(*) FILTER (WHERE x BETWEEN … AND …) for each band",
        )


def _name(value: exp.Expr, node: exp.Expr) -> exp.Expr:
    if not isinstance(value.unnest(), exp.Literal | exp.Null):
        refuse("constants as the names of bands", got=shown(node), fix="write THEN 'a name'")
    return value.unnest()


def _steps_of(node: exp.Expr, secret: Secret) -> tuple[SecretBand, ...]:
    r"""The bands of FLOOR(x / 10), CEIL(x / 10), x // 10, multiples of these, and of a whole number itself.

    FLOOR(a x + b) = k from (k - b) / a up to (k + 1 - b) / a. The engine's key is compared with these bands
    in every row.
    """
    slope, shift, closed, factor, offset = _stepped(node, secret)
    if not math.isfinite(slope * (secret.bounds[1] - secret.bounds[0])):
        return ()
    below = (math.floor if closed else math.ceil, 0 if closed else 1)  # CEIL(x) = k from k - 1 up to k
    first, last = (below[0](slope * bound + shift) - below[1] for bound in secret.bounds)
    if last - first >= MOST_VALUES:
        refuse(
            f"at most {MOST_VALUES:,} bands of the secret", got=f"{last - first + 1:,}", fix="group coarser"
        )
    bands = []
    for step in range(first, last + 1):
        ends = ((step - shift) / slope, (step + 1 - shift) / slope)
        band = Band(low=ends[0], high=ends[1], low_closed=closed, high_closed=not closed)
        value = (step + below[1]) * factor + offset
        name = exp.Literal.number(f"{int(value)}" if float(value).is_integer() else repr(value))
        bands.append(SecretBand(name=name, test=SecretTest(feature=Feature.BAND, parameter=band)))
    return tuple(bands)


class _Steps(NamedTuple):
    """FLOOR(slope * x + shift) * factor + offset; CEIL has its upper ends closed. NaN: no steps of x."""

    slope: float = math.nan
    shift: float = math.nan
    closed: bool = True  # at its lower end
    factor: float = 1.0
    offset: float = 0.0


def _stepped(node: exp.Expr, secret: Secret) -> _Steps:
    """The steps that an expression makes of the secret."""
    node = node.unnest()
    if secret.is_value(node):
        return _Steps(1.0, 0.5)  # of a whole number: from half below it to half above
    if isinstance(node, exp.Cast):
        return _stepped(node.this, secret)
    if isinstance(node, exp.Floor | exp.Ceil):
        line = _line(node.this, secret)
        return _Steps(*line, closed=isinstance(node, exp.Floor)) if line[0] > 0 else _Steps()
    constant = constant_of(node.expression) if isinstance(node, exp.Binary) else math.nan
    if isinstance(node, exp.IntDiv):
        slope, shift = _line(node.this, secret)
        return _Steps(slope / constant, shift / constant) if constant > 0 else _Steps()
    if math.isnan(constant) or secret.is_value(node.this):
        return _Steps()
    inner = _stepped(node.this, secret)
    match node:
        case exp.Mul():
            return inner._replace(factor=inner.factor * constant, offset=inner.offset * constant)
        case exp.Add():
            return inner._replace(offset=inner.offset + constant)
        case exp.Sub():
            return inner._replace(offset=inner.offset - constant)
    return _Steps()


def _line(node: exp.Expr, secret: Secret) -> tuple[float, float]:
    """Slope and shift of an expression that is linear in the secret; NaN of any other."""
    node = node.unnest()
    if secret.is_value(node):
        return 1.0, 0.0
    constant = constant_of(node.expression) if isinstance(node, exp.Binary) else math.nan
    if math.isnan(constant):
        return math.nan, math.nan
    slope, shift = _line(node.this, secret)
    match node:
        case exp.Mul():
            return slope * constant, shift * constant
        case exp.Div() if constant != 0:
            return slope / constant, shift / constant
        case exp.Add():
            return slope, shift + constant
        case exp.Sub():
            return slope, shift - constant
    return math.nan, math.nan
