"""Read a condition on the secret as the feature of it that a published count adds up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from decimal import Decimal
from itertools import product
from typing import Any, NamedTuple

from sqlglot import exp

from sightline.errors import InvalidPlan
from sightline.tables.engines.protocol import DATA, ColumnKind
from sightline.tables.membership import YES_OR_NO, Band, Feature, Parameter
from sightline.tables.sql import number_sets
from sightline.tables.sql.grammar import NUMBERS, WHOLE_NUMBERS, has, refuse, shown, text_of
from sightline.tables.sql.number_sets import Bands
from sightline.tables.sql.scope import Scope, conjuncts
from sightline.tables.sql.tabulated import (
    Ask,
    BreakPoints,
    is_whole,
    sample_points,
    sets_between,
    sets_of_whole_numbers,
    tabulate,
    type_of,
    whole_numbers,
)
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
class SecretLine:
    """A line of a query that is grouped by the secret: what people call it, and who is in it."""

    label: str
    test: SecretTest


@frozen(eq=True)
class Secret:
    """Reads conditions on the secret column."""

    scope: Scope
    kind: SecretKind
    categories: tuple[str, ...] = ()  # the declared ones; none: those that occur
    bounds: tuple[float, float] = UNBOUNDED  # the declared ones
    record: str = ""  # the column of the record key
    one_row: bool = False  # whether the plan declares that nobody has several rows, which is then counted
    ask: Ask | None = None  # the engine, if there is one
    tables: dict[str, dict[Any, SecretTest]] = field(default_factory=dict, repr=False)  # asked before
    types: list[str] = field(default_factory=list, repr=False)  # of the secret, once it was asked

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

    def lines(self, keys: Sequence[exp.Expr], where: Tests) -> tuple[SecretLine, ...]:
        """The lines of a query that is grouped by bound keys of the secret, of the rows that meet a test.

        None where each value of a yes or no, or of a category, has one.
        """
        if len(keys) == 1 and not where:
            return tuple(SecretLine(label=one.label, test=one.test) for one in read_bands(keys[0], self))
        if not keys or self.kind is SecretKind.BOOLEAN:
            return ()
        if self.kind is SecretKind.NUMBER:
            bands = [SecretLine(label=one.label, test=one.test) for one in read_bands(keys[0], self)]
            return tuple(replace(line, test=test) for line in bands for test in self.of_line(line, where))
        if not self.categories:
            refuse(
                "categories = […] in the plan, for groups by the secret with a condition on it",
                got="none",
            )
        values = [self._values_of_key(key) for key in keys]
        found = []
        for chosen in product(*(one.items() for one in values)):
            names = set(self.categories).intersection(*(own for _, own in chosen))
            names = names.intersection(*(self._that_meet(test) for test in where))
            if names:
                listed = tuple(one for one in self.categories if one in names)
                label = ", ".join(text for text, _ in chosen)
                found.append(SecretLine(label=label, test=self._of_categories(listed, above=True)))
        return tuple(found)

    def _values_of_key(self, key: exp.Expr) -> dict[str, set[str]]:
        """The categories that have each value of a key."""
        if self.scope.is_secret(key):
            return {one: {one} for one in self.categories}
        return {band.label: self._that_meet(band.test) for band in read_bands(key, self)}

    def _that_meet(self, test: SecretTest) -> set[str]:
        """The declared categories that meet a test."""
        return {one for one in self.categories if (one in categories_of(test)) is test.above}

    def of_line(self, line: SecretLine, tests: Tests) -> Tests:
        """The test of a line and of a condition on the rows that it counts; none if no value meets both."""
        if not tests:
            return (line.test,)
        if self.kind is SecretKind.NUMBER:
            bands = number_sets.intersection(bands_of(line.test), bands_of(tests[0]))
            return (test_of_bands(bands),) if bands else ()
        names = self._that_meet(line.test) & self._that_meet(tests[0])
        listed = tuple(one for one in self.categories if one in names)
        return (self._of_categories(listed, above=True),) if listed else ()

    def both(self, tests: Sequence[SecretTest]) -> SecretTest:
        """The one test that is met where all of some tests are met."""
        found = tests[0]
        for test in tests[1:]:
            features = {found.feature, test.feature}
            if features == {Feature.INDICATOR}:
                found = self._joined_categories(found, test)
            elif features <= YES_OR_NO:
                found = test_of_bands(number_sets.intersection(bands_of(found), bands_of(test)))
            elif found != test:
                refuse(
                    "conditions on the secret that make one list of its values",
                    got="others joined by AND or OR",
                    fix="publish each in its own release",
                )
        return found

    def test(self, condition: exp.Expr) -> SecretTest:
        """Read one bound condition on the secret as a feature; the engine tabulates what is not read."""
        self._check_declared(condition)
        try:
            return self._read(condition)
        except InvalidPlan:
            met = exp.Case(default=exp.Literal.number(0))
            met = met.when(condition.copy(), exp.Literal.number(1), copy=False)  # NULL is not met
            values = self.values_of(met)
            if set(values) != {0, 1}:
                raise
            return values[1]

    def values_of(self, node: exp.Expr) -> dict[Any, SecretTest]:
        """The values of a bound expression of the secret alone, each with the test that it is this value.

        None if the engine cannot list them.
        """
        alone = all(map(self.scope.is_secret, node.find_all(exp.Column)))
        if self.ask is None or not alone or has(node, exp.Select, exp.AggFunc, exp.Window):
            return {}
        text = text_of(node, self.scope.dialect)
        if text not in self.tables:
            try:
                self.tables[text] = self._tabulated(node, self.ask)
            except InvalidPlan:
                self.tables[text] = {}
        return self.tables[text]

    @property
    def _is_whole(self) -> bool:
        """Whether the secret has whole numbers alone; without an engine, that is compared row by row."""
        return self.ask is None or is_whole(self._type_name(self.ask))

    def _type_name(self, ask: Ask) -> str:
        """The engine's type of the secret."""
        if not self.types:
            name = text_of(
                exp.Column(this=exp.to_identifier(self.scope.secret, quoted=True)), self.scope.dialect
            )
            self.types.append(type_of(name, dialect=self.scope.dialect, ask=ask))
        return self.types[0]

    def _tabulated(self, node: exp.Expr, ask: Ask) -> dict[Any, SecretTest]:
        column, dialect = next(node.find_all(exp.Column)), self.scope.dialect
        type_name = self._type_name(ask)

        def values_at(points: Sequence[str]) -> list[Any]:
            return tabulate(node, points, type_name=type_name, dialect=dialect, ask=ask)

        if self.kind is SecretKind.NUMBER:
            sets = self._number_sets(node, type_name, values_at)
            return {value: test_of_bands(bands) for value, bands in sets.items()} if len(sets) > 1 else {}
        secrets: list[Any] = list(self.categories)
        texts = [exp.Literal.string(name).sql(dialect) for name in self.categories]
        if self.kind is SecretKind.BOOLEAN:
            secrets = [True, False]
            texts = ["TRUE", "FALSE"] if self.scope.kind(column) is ColumnKind.BOOLEAN else ["1", "0"]
        found: dict[Any, list[Any]] = {}
        for one, value in zip(secrets, values_at(texts) if texts else [], strict=True):
            found.setdefault(value, []).append(one)
        if len(found) < 2:
            return {}
        if self.kind is SecretKind.BOOLEAN:
            return {value: SecretTest(feature=Feature.VALUE, above=own[0]) for value, own in found.items()}
        return {value: self._of_categories(tuple(own), above=True) for value, own in found.items()}

    def _number_sets(
        self, node: exp.Expr, type_name: str, values_at: Callable[[Sequence[str]], list[Any]]
    ) -> dict[Any, Bands]:
        """The numbers that have each value of an expression."""
        numbers = whole_numbers(self.bounds) if is_whole(type_name) else []
        if numbers:
            return sets_of_whole_numbers(numbers, values_at(list(map(str, numbers))))
        lines = BreakPoints(line=lambda part: _line(part, self), constant=constant_of, bounds=self.bounds)
        breaks = lines.of(node)
        if not breaks:
            return {}
        points = sample_points(breaks, self.bounds)
        return sets_between(points, values_at(list(map(repr, points))))

    def _read(self, condition: exp.Expr) -> SecretTest:
        """Read one bound condition on the secret, as far as it is made of comparisons."""
        node = condition.unnest()
        if isinstance(node, exp.Not):
            return complement(self._read(node.this))
        if isinstance(node, exp.And | exp.Or) and self.kind is not SecretKind.BOOLEAN:
            sides = (node.this, node.expression)
            if not all(map(self.scope.mentions_secret, sides)):
                refuse(_EXPECTED[self.kind], got=shown(node), fix="join public conditions to it by AND only")
            tests = [self._read(side) for side in sides]
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

    def is_record(self, node: exp.Expr) -> bool:
        """Whether a bound expression is the record key."""
        node = node.unnest()
        return isinstance(node, exp.Column) and (node.table, node.name) == (DATA, self.record)

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
        names = self._compared_names(node)
        return (self._of_categories(names, above=not isinstance(node, exp.NEQ)),) if names else ()

    def _compared_names(self, node: exp.Expr) -> tuple[str, ...]:
        """The texts that a comparison by =, <> or IN compares the secret with; none for anything else."""
        if isinstance(node, exp.In) and self.scope.is_secret(node.this.unnest()):
            constants = [one.unnest() for one in node.expressions]
        else:
            equal = isinstance(node, exp.EQ | exp.NEQ)
            constants = _other_sides(node, self.scope.is_secret) if equal else []
        texts = all(isinstance(one, exp.Literal) and one.is_string for one in constants)
        return tuple(dict.fromkeys(one.name for one in constants)) if texts else ()

    def _check_declared(self, condition: exp.Expr) -> None:
        """Refuse categories that the plan does not declare: they may be misspelt."""
        compared = condition.find_all(exp.In, exp.EQ, exp.NEQ) if self.categories else ()
        for name in (name for node in compared for name in self._compared_names(node)):
            if name not in self.categories:
                refuse(
                    "a category that the plan declares",
                    got=f"'{name}'",
                    fix="check its spelling, or add it to the categories",
                )

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
                test_of_bands((Band(low=low, high=high, low_closed=True, high_closed=True),) * (low <= high))
                for low, high in bands
            )
        if not isinstance(node, exp.EQ | exp.NEQ | exp.GT | exp.GTE | exp.LT | exp.LTE):
            return ()
        sides = _other_sides(node, self.is_value)
        levels = [level for level in map(constant_of, sides) if not math.isnan(level)]
        if isinstance(node, exp.EQ | exp.NEQ):
            # A whole number is a band of its own, as in GROUP BY; where there are fractions, a point.
            half, points = (0.5, False) if self._is_whole else (0.0, True)
            only = [
                test_of_bands((Band(low=at - half, high=at + half, low_closed=points, high_closed=points),))
                for at in levels
                if points or at.is_integer()
            ]
            return tuple(only if isinstance(node, exp.EQ) else map(complement, only))
        above = isinstance(node, exp.GT | exp.GTE) is self.is_value(node.this)
        closed = isinstance(node, exp.GTE | exp.LTE) is above
        return tuple(
            SecretTest(feature=Feature.THRESHOLD, parameter=level, above=above, closed=closed)
            for level in levels
        )


def categories_of(test: SecretTest) -> tuple[str, ...]:
    """The categories of an indicator."""
    parts = test.parameter if isinstance(test.parameter, tuple) else (test.parameter,)
    return tuple(map(str, parts))


def bands_of(test: SecretTest) -> Bands:
    """The numbers that meet a test of a number, as bands."""
    if test.feature is Feature.THRESHOLD:
        assert isinstance(test.parameter, int | float)
        bands: Bands = (Band(low=test.parameter, low_closed=test.closed),)
    else:
        parts = test.parameter if isinstance(test.parameter, tuple) else (test.parameter,)
        bands = tuple(part for part in parts if isinstance(part, Band))
    return bands if test.above else number_sets.complement(bands)


def test_of_bands(bands: Bands) -> SecretTest:
    """The test that the numbers of some bands meet: of a level, of one band, or of several."""
    others = number_sets.complement(bands)
    if not bands or not others:
        refuse(
            "a condition on the secret that some numbers meet and some do not",
            got="one that is the same for all",
            fix="leave it out",
        )
    first, last = bands[0], bands[-1]
    if len(bands) == 1 and first.high == math.inf:
        return SecretTest(feature=Feature.THRESHOLD, parameter=first.low, closed=first.low_closed)
    if len(bands) == 1 and last.low == -math.inf:
        return SecretTest(
            feature=Feature.THRESHOLD, parameter=last.high, above=False, closed=not last.high_closed
        )
    if len(others) == 1:
        return SecretTest(feature=Feature.BAND, parameter=others[0], above=False)
    return SecretTest(feature=Feature.BAND, parameter=bands[0] if len(bands) == 1 else bands)


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
        return () if secret.scope.is_secret(node) else _tabulated_bands(node, secret)
    try:
        return _compared_bands(node, secret) or _tabulated_bands(node, secret)
    except InvalidPlan:
        bands = _tabulated_bands(node, secret)
        if not bands:
            raise
        return bands


def _tabulated_bands(node: exp.Expr, secret: Secret) -> tuple[SecretBand, ...]:
    """The values of a key that is a function of the secret, as the engine lists them."""
    values = secret.values_of(node)
    plain = all(value is None or isinstance(value, str | bool | int | float | Decimal) for value in values)
    if not plain or len(values) > MOST_VALUES:
        return ()
    return tuple(SecretBand(name=_constant(value), test=test) for value, test in values.items())


def _constant(value: Any) -> exp.Expr:
    """A value of a key as SQL."""
    if isinstance(value, bool):
        return exp.true() if value else exp.false()
    if isinstance(value, str):
        return exp.Literal.string(value)
    if value is None:
        return exp.Null()
    return exp.Literal.number(f"{int(value)}" if value == int(value) else str(value))


def _compared_bands(node: exp.Expr, secret: Secret) -> tuple[SecretBand, ...]:
    """The bands of a key that is read: CASE, a comparison, or steps by FLOOR."""
    if isinstance(node, exp.Predicate | exp.Not | exp.And | exp.Or):
        test = secret.test(node)
        return SecretBand(name=exp.true(), test=test), SecretBand(name=exp.false(), test=complement(test))
    if isinstance(node, exp.WidthBucket):
        node = _buckets(node)
    if not isinstance(node, exp.Case) or node.this:
        return _steps_of(node, secret)
    named: dict[str, SecretBand] = {}
    left = number_sets.EVERY_NUMBER  # what the branches before leave
    branches = [(one.args["true"], secret.test(one.this)) for one in node.args["ifs"]]
    for value, test in branches:
        _add_band(named, value, number_sets.intersection(bands_of(test), left), node)
        left = number_sets.intersection(left, number_sets.complement(bands_of(test)))
    _add_band(named, node.args.get("default") or exp.Null(), left, node)
    return tuple(named.values())


def _add_band(named: dict[str, SecretBand], value: exp.Expr, bands: Bands, node: exp.Expr) -> None:
    """Add the numbers of a branch to those of its name."""
    own = SecretBand(name=_name(value, node), test=SecretTest(feature=Feature.BAND))
    if bands:
        before = named.get(own.label)
        whole = number_sets.union(bands_of(before.test), bands) if before else bands
        named[own.label] = replace(own, test=test_of_bands(whole))


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
    if isinstance(node, exp.Neg):
        slope, shift = _line(node.this, secret)
        return -slope, -shift
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
