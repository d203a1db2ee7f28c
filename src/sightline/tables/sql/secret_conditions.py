"""Read a condition on the secret as the feature of it that a published count adds up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from sightline.errors import InvalidPlan
from sightline.tables.membership import YES_OR_NO, Band, Feature, Parameter
from sightline.tables.sql.grammar import NUMBERS, WHOLE_NUMBERS, refuse, shown
from sightline.tables.sql.scope import Scope, conjuncts
from sightline.tables.subject import SecretKind
from sightline.values import frozen

_ABOVE: dict[type[exp.Expr], bool] = {exp.GT: True, exp.GTE: True, exp.LT: False, exp.LTE: False}


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
    categories: tuple[str, ...] | None = None  # the declared ones
    bounds: tuple[float, float] | None = None  # the declared ones

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
            joined = self._joined_categories(found, test) or _joined_bands(found, test)
            if joined is None:
                refuse(
                    "conditions on the secret that make one band or one list of categories",
                    got="others joined by AND or OR",
                    fix="publish each in its own release",
                )
            found = joined
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
            harmless = NUMBERS - (set() if self.kind is SecretKind.BOOLEAN else WHOLE_NUMBERS)
            return node.args["to"].this in harmless and self.is_value(node.this)
        return self.scope.is_secret(node)

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
        negated = isinstance(node, exp.NEQ) or bool(node.args.get("negate"))
        return SecretTest(feature=Feature.VALUE, above=truth is not negated)

    def _category(self, node: exp.Expr) -> SecretTest | None:
        if isinstance(node, exp.In) and self.scope.is_secret(node.this.unnest()):
            constants = [one.unnest() for one in node.expressions]
        elif isinstance(node, exp.EQ | exp.NEQ):
            other = _other_side(node, self.scope.is_secret)
            constants = [] if other is None else [other]
        else:
            return None
        if not constants or not all(isinstance(one, exp.Literal) and one.is_string for one in constants):
            return None
        names = tuple(dict.fromkeys(one.name for one in constants))
        for name in names:
            if self.categories is not None and name not in self.categories:
                refuse(
                    "a category that the plan declares",
                    got=f"'{name}'",
                    fix="check its spelling, or add it to the categories",
                )
        return self._of_categories(names, above=not isinstance(node, exp.NEQ))

    def _of_categories(self, names: tuple[str, ...], *, above: bool) -> SecretTest:
        """The test for some categories; where they are all but one, the complement of that one."""
        others = [one for one in self.categories or () if one not in names]
        if not names or (self.categories is not None and not others):
            refuse(
                "a condition that some categories meet and some do not",
                got="one that is the same for all",
                fix="leave it out",
            )
        if len(others) == 1 and len(names) > 1:
            names, above = (others[0],), not above
        parameter: Parameter = names[0] if len(names) == 1 else tuple(sorted(names))
        return SecretTest(feature=Feature.INDICATOR, parameter=parameter, above=above)

    def _joined_categories(self, one: SecretTest, other: SecretTest) -> SecretTest | None:
        if one.feature is not Feature.INDICATOR or other.feature is not Feature.INDICATOR:
            return None
        first, second = categories_of(one), categories_of(other)
        if not one.above and not other.above:
            return self._of_categories(tuple(dict.fromkeys((*first, *second))), above=False)
        if not one.above:
            first, second, one, other = second, first, other, one
        return self._of_categories(tuple(c for c in first if (c in second) is other.above), above=True)

    def _band(self, node: exp.Expr) -> SecretTest | None:
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            low, high = (constant_of(node.args[end]) for end in ("low", "high"))
            if low is None or high is None or not self.is_value(node.this):
                return None
            return _test_of(Band(low=low, high=high, low_closed=True, high_closed=True))
        if isinstance(node, exp.EQ | exp.NEQ):
            equal = _other_side(node, self.is_value)
            number = None if equal is None else constant_of(equal)
            if number is None or not number.is_integer():
                return None
            # Of whole numbers this is the one; that there are no others near it is compared row by row.
            only = _test_of(Band(low=number - 0.5, high=number + 0.5))
            return only if isinstance(node, exp.EQ) else complement(only)
        above = _ABOVE.get(type(node))
        if above is None or not isinstance(node, exp.Binary):
            return None
        swapped = self.is_value(node.expression)
        level = constant_of(node.this if swapped else node.expression)
        if level is None or not self.is_value(node.expression if swapped else node.this):
            return None
        above = above is not swapped
        closed = isinstance(node, exp.GTE | exp.LTE) is above
        return SecretTest(feature=Feature.THRESHOLD, parameter=level, above=above, closed=closed)


def categories_of(test: SecretTest) -> tuple[str, ...]:
    """The categories of an indicator."""
    return test.parameter if isinstance(test.parameter, tuple) else (str(test.parameter),)


def band_of(test: SecretTest) -> Band | None:
    """The numbers that meet a test; None if they are two bands, or it is no test of a number."""
    if test.feature is Feature.THRESHOLD:
        assert isinstance(test.parameter, int | float)
        if test.above:
            return Band(low=test.parameter, low_closed=test.closed)
        return Band(high=test.parameter, high_closed=not test.closed)
    return test.parameter if isinstance(test.parameter, Band) and test.above else None


def _joined_bands(one: SecretTest, other: SecretTest) -> SecretTest | None:
    if not {one.feature, other.feature} <= YES_OR_NO:
        return None
    first, second = band_of(one), band_of(other)
    if first is None or second is None:
        return _without_band(one, other) or _without_band(other, one)
    # The larger of two lower ends holds; of equal ends the open one.
    low = max((first.low, not first.low_closed), (second.low, not second.low_closed))
    high = min((first.high, first.high_closed), (second.high, second.high_closed))
    return _test_of(Band(low=low[0], low_closed=not low[1], high=high[0], high_closed=high[1]))


def _without_band(one: SecretTest, other: SecretTest) -> SecretTest | None:
    """A band without the numbers of another, if one band is left."""
    band, gone = band_of(one), other.parameter
    if band is None or not isinstance(gone, Band) or other.above:
        return None
    below = Band(low=band.low, low_closed=band.low_closed, high=gone.low, high_closed=not gone.low_closed)
    above = Band(low=gone.high, low_closed=not gone.high_closed, high=band.high, high_closed=band.high_closed)
    if (gone.high, gone.high_closed) < (band.low, not band.low_closed) or (gone.low, not gone.low_closed) > (
        band.high,
        band.high_closed,
    ):
        return one  # they do not touch
    left = [part for part in (below, above) if part.low < part.high]
    return _test_of(left[0]) if len(left) == 1 else None


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


@frozen(eq=True)
class SecretBand:
    """One band of a histogram, and the value that the key has in it; None for NULL."""

    name: exp.Expr | None
    test: SecretTest

    @property
    def label(self) -> str:
        if self.name is None:
            return "NULL"
        return self.name.name if isinstance(self.name, exp.Literal) else self.name.sql()


def read_bands(key: exp.Expr, secret: Secret) -> tuple[SecretBand, ...] | None:
    """Read a bound key as bands of a number; None if it is none: CASE, a comparison, or steps by FLOOR.

    A branch holds where its condition does and no earlier one: ``CASE WHEN x < 10 THEN 'low' WHEN x < 20 THEN
    'middle' ELSE 'high' END`` has the bands below 10, from 10 to 20, and the rest. Without ELSE the rest is
    NULL, if the branches leave one.
    """
    node = key.unnest()
    if secret.kind is not SecretKind.NUMBER:
        return None
    if isinstance(node, exp.Predicate | exp.Not | exp.And | exp.Or):
        test = secret.test(node)
        return SecretBand(name=exp.true(), test=test), SecretBand(name=exp.false(), test=complement(test))
    if isinstance(node, exp.WidthBucket):
        node = _buckets(node)
    if not isinstance(node, exp.Case) or node.this is not None:
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
    otherwise = node.args.get("default")
    if not complete or otherwise is not None:
        rest = _one_band(earlier, node, secret)
        bands.append(SecretBand(name=_name(otherwise, node), test=rest))
    if len({band.label for band in bands}) < len(bands):
        refuse("a different name for each band", got=shown(node), fix="name every band, also ELSE")
    return tuple(bands)


def _buckets(node: exp.WidthBucket) -> exp.Case:
    """WIDTH_BUCKET(x, low, high, n) as CASE: 0 below low, then n steps, and n + 1 from high on."""
    ends = [constant_of(node.args[name]) for name in ("min_value", "max_value", "num_buckets")]
    low, high, steps = (math.nan if one is None else float(one) for one in ends)
    if not (low < high and steps >= 1 and steps.is_integer() and steps < _MOST_STEPS):
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


def _name(value: exp.Expr | None, node: exp.Expr) -> exp.Literal | None:
    if value is None or isinstance(value.unnest(), exp.Null):
        return None
    literal = value.unnest()
    if not isinstance(literal, exp.Literal):
        refuse("constants as the names of bands", got=shown(node), fix="write THEN 'a name'")
    return literal


_MOST_STEPS = 1_000


def _steps_of(node: exp.Expr, secret: Secret) -> tuple[SecretBand, ...] | None:
    r"""The bands of FLOOR(x / 10), CEIL(x / 10), x // 10, multiples of these, and of a whole number itself.

    FLOOR(a x + b) = k from (k - b) / a up to (k + 1 - b) / a. The engine's key is compared with these bands
    in every row.
    """
    stepped = _stepped(node, secret)
    if stepped is None or secret.bounds is None:
        return None
    slope, shift, closed, factor, offset = stepped
    below = (math.floor if closed else math.ceil, 0 if closed else 1)  # CEIL(x) = k from k - 1 up to k
    first, last = (below[0](slope * bound + shift) - below[1] for bound in secret.bounds)
    if last - first >= _MOST_STEPS:
        refuse(
            f"at most {_MOST_STEPS:,} bands of the secret", got=f"{last - first + 1:,}", fix="group coarser"
        )
    bands = []
    for step in range(first, last + 1):
        ends = ((step - shift) / slope, (step + 1 - shift) / slope)
        band = Band(low=ends[0], high=ends[1], low_closed=closed, high_closed=not closed)
        value = (step + below[1]) * factor + offset
        name = exp.Literal.number(f"{int(value)}" if float(value).is_integer() else repr(value))
        bands.append(SecretBand(name=name, test=SecretTest(feature=Feature.BAND, parameter=band)))
    return tuple(bands)


_Steps = tuple[
    float, float, bool, float, float
]  # slope, shift, whether the lower end is closed, factor, offset


def _stepped(node: exp.Expr, secret: Secret) -> _Steps | None:
    """FLOOR(slope * x + shift) * factor + offset; CEIL has its upper ends closed."""
    node = node.unnest()
    if secret.is_value(node):
        return 1.0, 0.5, True, 1.0, 0.0  # of a whole number: from half below it to half above
    if isinstance(node, exp.Cast):
        return _stepped(node.this, secret)
    line = _line(node.this, secret) if isinstance(node, exp.Floor | exp.Ceil) else None
    if line is not None and line[0] > 0:
        return *line, isinstance(node, exp.Floor), 1.0, 0.0
    if not isinstance(node, exp.Binary) or (constant := constant_of(node.expression)) is None:
        return None
    if isinstance(node, exp.IntDiv):
        line = _line(node.this, secret)
        return (
            None
            if line is None or constant <= 0
            else (line[0] / constant, line[1] / constant, True, 1.0, 0.0)
        )
    inner = None if secret.is_value(node.this) else _stepped(node.this, secret)
    if inner is None:
        return None
    slope, shift, closed, factor, offset = inner
    match node:
        case exp.Mul():
            return slope, shift, closed, factor * constant, offset * constant
        case exp.Add():
            return slope, shift, closed, factor, offset + constant
        case exp.Sub():
            return slope, shift, closed, factor, offset - constant
    return None


def _line(node: exp.Expr, secret: Secret) -> tuple[float, float] | None:
    """Slope and shift of an expression that is linear in the secret."""
    node = node.unnest()
    if secret.is_value(node):
        return 1.0, 0.0
    constant = constant_of(node.expression) if isinstance(node, exp.Binary) else None
    inner = None if constant is None else _line(node.this, secret)
    if inner is None or constant is None:
        return None
    match node:
        case exp.Mul():
            return inner[0] * constant, inner[1] * constant
        case exp.Div() if constant != 0:
            return inner[0] / constant, inner[1] / constant
        case exp.Add():
            return inner[0], inner[1] + constant
        case exp.Sub():
            return inner[0], inner[1] - constant
    return None
