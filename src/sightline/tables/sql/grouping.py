"""Read GROUP BY as a list of grouping sets, and HAVING on public aggregates as a condition on every row.

Each set groups the rows into cells. Who is in a group is public, so how many they are is public too, and a
group that is left out for it tells nothing of the secrets. The audit asks the condition of every row:
``COUNT(*) >= 5`` of a group is the window function ``COUNT(*) OVER (PARTITION BY its keys) >= 5`` of each of
its rows. A window sees only the rows that its query's WHERE keeps: those rows are made a part of their own in
PARTITION BY, so that the column can be computed over the whole table.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Sequence
from itertools import combinations, product

from sqlglot import exp

from sightline.tables.engines.protocol import DATA
from sightline.tables.sql.fragments import embedded
from sightline.tables.sql.grammar import clause_of, clauses_of, has, is_inside, refuse, shown, text_of
from sightline.tables.sql.scope import Scope, bound_column
from sightline.values import frozen

MOST_SETS = 4_096  # CUBE over 12 columns
Keys = tuple[exp.Expr, ...]


@frozen(eq=True)
class Grouping:
    """The keys of GROUP BY, each once, and its grouping sets in the order in which SQL lists them.

    Elements of GROUP BY multiply: ``a, ROLLUP (b, c)`` is ``(a, b, c), (a, b), (a)``. A query without GROUP
    BY has the one set ``()``, a single cell.
    """

    keys: Keys = ()  # bound
    written: Keys = ()  # the same keys, as the query has them
    places: tuple[tuple[int, ...], ...] = ((),)  # for each set, which keys it has
    group: str = ""  # GROUP BY as written, with ``y0``, ``y1``, … for its keys

    @property
    def sets(self) -> list[Keys]:
        """The keys of each set, bound."""
        return [tuple(self.keys[place] for place in places) for places in self.places]


def read_grouping(select: exp.Select, *, scope: Scope) -> Grouping:
    """Read GROUP BY of a query."""
    group = clause_of(select, "group")
    if clauses_of(group) - {"expressions"}:
        refuse(
            "GROUP BY, ROLLUP, CUBE or GROUPING SETS",
            got=shown(group),
            fix="write ROLLUP (a, b) in standard form",
        )
    keys: dict[str, tuple[exp.Expr, exp.Expr]] = {}  # by the text of a bound key: it, and as written

    def numbered(element: exp.Expr) -> exp.Expr:
        """An element of GROUP BY with the names of its keys in their place."""
        if isinstance(element, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
            return type(element)(expressions=[numbered(part) for part in element.expressions])
        written = element.unnest().copy()
        bound = scope.bind(written)
        if not has(bound, exp.Column):
            refuse(
                "a key made of columns", got=shown(bound), fix="leave it out: it is the same for every row"
            )
        text = key_text(bound)
        keys.setdefault(text, (bound, written))
        return exp.column(f"y{list(keys).index(text)}")

    elements = [numbered(element) for element in group.expressions]
    options = [_sets(element) for element in elements]
    if math.prod(map(len, options)) > MOST_SETS:
        refuse(f"at most {MOST_SETS:,} grouping sets", got="more", fix="publish fewer combinations")
    return Grouping(
        keys=tuple(bound for bound, _ in keys.values()),
        written=tuple(written for _, written in keys.values()),
        places=tuple(tuple(dict.fromkeys(sum(chosen, ()))) for chosen in product(*options)),
        group=text_of(exp.Group(expressions=elements), scope.dialect) if elements else "",
    )


def write_keys(select: exp.Select, columns: Collection[str]) -> None:
    """Write GROUP BY of a SELECT with expressions in place of positions, aliases and ALL.

    A column hides an alias of its name; ``columns`` are in lower case.

    >>> from sqlglot import parse_one
    >>> select = parse_one("SELECT g, LEFT(h, 1) AS k, SUM(x) FROM data GROUP BY ROLLUP (1, k)")
    >>> write_keys(select, {"g", "h", "x"})
    >>> print(select.sql())
    SELECT g, LEFT(h, 1) AS k, SUM(x) FROM data GROUP BY ROLLUP (g, LEFT(h, 1))
    """
    group = clause_of(select, "group")
    named = {item.alias.casefold(): item for item in select.expressions if item.alias}

    def written(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
            return type(node)(expressions=[written(part) for part in node.expressions])
        plain = node.unnest()
        if isinstance(plain, exp.Literal) and not plain.is_string:
            return _at_position(plain, select).copy()
        name = plain.name.casefold() if isinstance(plain, exp.Column) and not plain.table else ""
        known = name in named and name not in columns
        return _item_expression(named[name]).copy() if known else node.copy()

    if group.args.get("all"):
        items = [item.unalias() for item in select.expressions if not has_aggregate(item)]
        keys = [item.copy() for item in items if has(item, exp.Column)]
        select.set("group", exp.Group(expressions=keys) if keys else None)
    else:
        group.set("expressions", [written(key) for key in group.expressions])


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an item of the SELECT list aggregates rows; ``GROUPING(a)`` does not."""
    return any(not isinstance(call, exp.Grouping) for call in node.find_all(exp.AggFunc, exp.Window))


def _sets(element: exp.Expr) -> list[tuple[int, ...]]:
    """The grouping sets of an element whose keys are numbered."""
    if isinstance(element, exp.GroupingSets):
        return [keys for part in element.expressions for keys in _sets(part)]
    if not isinstance(element, exp.Rollup | exp.Cube):
        return [_composite(element)]
    parts = [_composite(part) for part in element.expressions]
    sizes = range(len(parts), -1, -1)
    if isinstance(element, exp.Rollup):
        return [sum(parts[:size], ()) for size in sizes]
    if 2 ** len(parts) > MOST_SETS:
        refuse(f"at most {MOST_SETS:,} grouping sets", got="more", fix="publish fewer combinations")
    return [sum(chosen, ()) for size in sizes for chosen in combinations(parts, size)]


def _composite(element: exp.Expr) -> tuple[int, ...]:
    if isinstance(element, exp.Tuple):
        return tuple(key for part in element.expressions for key in _composite(part))
    return (int(element.name[1:]),)


def _at_position(node: exp.Literal, select: exp.Select) -> exp.Expr:
    """The item of the SELECT list that a number stands for."""
    position = int(node.name) if node.name.isdigit() else 0
    if not 1 <= position <= len(select.expressions):
        refuse(
            f"a position from 1 to {len(select.expressions)}",
            got=shown(node),
            fix="name the column instead",
        )
    return _item_expression(select.expressions[position - 1])


def dereferenced(node: exp.Expr, select: exp.Select, scope: Scope) -> exp.Expr:
    """Return the expression that a position or an alias of the SELECT list stands for.

    A name that is a column, too, is refused: engines choose differently.
    """
    if isinstance(node, exp.Literal) and not node.is_string:
        return _at_position(node, select)
    if isinstance(node, exp.Column) and not node.table:
        columns = {column.name.casefold() for one in scope.relations for column in one.columns}
        aliases = {item.alias.casefold(): item for item in select.expressions if item.alias}
        item = aliases.get(node.name.casefold(), node)
        if item is not node and node.name.casefold() not in columns:
            return _item_expression(item)
        plain = item.unalias()
        same = isinstance(plain, exp.Column) and plain.name.casefold() == node.name.casefold()
        if not same:
            refuse(
                "a name that is a column or an alias",
                got=f'"{node.name}" as both',
                fix="give the item of the SELECT list another name",
            )
    return node


def key_text(bound: exp.Expr) -> str:
    """The text by which a bound expression is recognised as a key."""
    return text_of(bound, "duckdb")


def check_made_of_keys(bound: exp.Expr, item: exp.Expr, keys: Collection[str]) -> None:
    """Refuse a bound expression with a column that is no key: it would publish one row's value."""
    waiting = [bound]
    while waiting:
        node = waiting.pop()
        if key_text(node) in keys:
            continue
        if isinstance(node, exp.Column):
            refuse(
                "columns of GROUP BY outside the aggregates",
                got=shown(item),
                fix="group by it, or leave it out",
            )
        waiting += node.iter_expressions()


def _item_expression(item: exp.Expr) -> exp.Expr:
    if isinstance(item.unalias(), exp.Star):
        refuse("the names of columns", got="*", fix="a plan publishes aggregates, not rows")
    return item.unalias()


_AGGREGATE = "aggregate"  # the number of the aggregate that a literal stands for
_OF_A_COLUMN: tuple[type[exp.Expr], ...] = (exp.Count, exp.Min, exp.Max, exp.Sum, exp.Avg)


@frozen(eq=True)
class WindowColumn:
    """A computed column of ``data``: 1 in the rows of the groups that HAVING keeps, else 0; or a number.

    It is equal in name for equal conditions, so that releases share one.
    """

    name: str
    bound: exp.Expr  # over the columns of ``data`` and of lookups
    text: str  # the same, for our own queries

    @classmethod
    def of(cls, kept: exp.Expr, *, dialect: str) -> WindowColumn:
        """Name a bound condition made of window functions."""
        one, zero = exp.Literal.number(1), exp.Literal.number(0)
        return cls.of_number(exp.Case(ifs=[exp.If(this=kept, true=one)], default=zero), dialect=dialect)

    @classmethod
    def of_number(cls, bound: exp.Expr, *, dialect: str) -> WindowColumn:
        """Name a bound number that is computed once for every row, such as the lines that it matches."""
        text = embedded(bound, dialect)
        name = "window_" + hashlib.sha256(text.encode()).hexdigest()[:50]
        return cls(name=name, bound=bound, text=text)

    @property
    def met(self) -> exp.Expr:
        """The condition on a row that its group is kept, bound."""
        return exp.EQ(this=bound_column(self.name, DATA), expression=exp.Literal.number(1))


@frozen(eq=True)
class Having:
    """The groups that a query keeps."""

    written: exp.Expr  # the condition, with aliases replaced by what they stand for
    windows: tuple[WindowColumn, ...] = ()  # for each grouping set; none without HAVING


def read_having(
    select: exp.Select, grouping: Grouping, *, scope: Scope, conditions: Sequence[exp.Expr]
) -> Having:
    """Read HAVING of a query whose rows meet bound ``conditions``."""
    if "having" not in clauses_of(select):
        return Having(written=exp.true())
    clause = clause_of(select, "having")
    histogram = any(map(scope.mentions_secret, grouping.keys))
    tested = [part for part in conditions if scope.mentions_secret(part) and not scope.asks_presence(part)]
    if histogram or tested:
        refuse(
            "HAVING over groups that do not depend on the secret",
            got=f"{shown(clause)} with the secret in {'GROUP BY' if histogram else 'WHERE'}",
            fix="which groups appear would tell the secret: publish every group, noisy",
        )
    root = exp.Paren(this=clause.this.copy())
    for column in list(root.find_all(exp.Column)):
        if not is_inside(column, exp.AggFunc, exp.Filter, exp.Window):
            meant = dereferenced(column, select, scope)
            if meant is not column:
                column.replace(exp.Paren(this=meant.copy()))
    written = root.this
    if not aggregates_in(written):
        refuse("an aggregate in HAVING", got=shown(written), fix="put conditions on columns into WHERE")
    if has(written, exp.Grouping):
        refuse("aggregates and keys in HAVING", got=shown(written), fix="leave GROUPING out")
    # Rows that do not meet the conditions are a part of their own: HAVING is of the others.
    met = [exp.and_(*(exp.paren(one.copy()) for one in conditions))] if conditions else []
    apart = [_where(exp.Literal.number(1), [one]) for one in met]
    windows = []
    for keys in grouping.sets:
        kept = _over_rows(written, [*apart, *keys], scope, keys if len(grouping.places) == 1 else ())
        windows.append(WindowColumn.of(kept, dialect=scope.dialect))
    return Having(written=written, windows=tuple(windows))


def aggregates_in(node: exp.Expr) -> list[exp.Expr]:
    """The outermost aggregates of an expression, each with its FILTER."""
    found: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, exp.AggFunc | exp.Filter | exp.Window | exp.WithinGroup) and not isinstance(
            one, exp.Grouping
        ):
            found.append(one)
        else:
            waiting += one.iter_expressions()
    return found


def aggregates_of_rows(node: exp.Expr) -> list[exp.Expr]:
    """The aggregates of rows in an item, each with its FILTER: also those that window functions are over."""
    found: list[exp.Expr] = []
    for one in aggregates_in(node):
        parts = list(one.iter_expressions()) if isinstance(one, exp.Window) else []
        arguments = list(one.this.iter_expressions()) if isinstance(one, exp.Window) else []
        inner = [call for part in (*arguments, *parts[1:]) for call in aggregates_of_rows(part)]
        found += inner or [one]
    return found


def _over_rows(written: exp.Expr, partition: list[exp.Expr], scope: Scope, keys: Keys) -> exp.Expr:
    """HAVING as a condition on a row, bound: window functions in place of its aggregates."""
    root = exp.Paren(this=written.copy())
    windows: list[exp.Expr] = []
    for node in aggregates_in(root):
        stand_in = exp.Literal.number(1)
        stand_in.meta[_AGGREGATE] = len(windows)
        windows.append(_over(node, scope, [part.copy() for part in partition]))
        node.replace(stand_in)
    bound = exp.Paren(this=scope.bind(root.this))
    check_made_of_keys(bound, written, {key_text(key) for key in keys})
    for node in list(bound.find_all(exp.Literal)):
        if _AGGREGATE in node.meta:
            node.replace(windows[node.meta[_AGGREGATE]])
    return bound


def _over(node: exp.Expr, scope: Scope, partition: list[exp.Expr]) -> exp.Expr:
    """A public aggregate of a group, as a window function of each of its rows."""
    conditions: list[exp.Expr] = []
    call = node
    if isinstance(call, exp.Filter):
        conditions, call = [_public(call.expression.this, scope, node)], call.this
    if isinstance(call, exp.CountIf):
        conditions.insert(0, _public(call.this, scope, node))
        return _window(exp.Count(this=_where(exp.Literal.number(1), conditions), big_int=True), partition)
    if not isinstance(call, _OF_A_COLUMN) or call.expressions or not call.this:
        refuse("COUNT, MIN, MAX, SUM or AVG of public columns in HAVING", got=shown(node))
    argument = call.this
    if isinstance(argument, exp.Star):
        counted = _where(exp.Literal.number(1) if conditions else exp.Star(), conditions)
        return _window(exp.Count(this=counted, big_int=True), partition)
    if isinstance(argument, exp.Distinct):
        if not isinstance(call, exp.Count) or len(argument.expressions) != 1:
            refuse("COUNT(DISTINCT …) of one column in HAVING", got=shown(node))
        return _distinct(_where(_public(argument.expressions[0], scope, node), conditions), partition)
    bound = scope.bind(argument)
    if not (
        isinstance(call, exp.Count) and scope.is_secret(bound)
    ):  # COUNT(secret) counts rows that have one
        bound = _public(argument, scope, node)
    return _window(type(call)(this=_where(bound, conditions)), partition)


def _distinct(value: exp.Expr, partition: list[exp.Expr]) -> exp.Expr:
    """How many different values a group has: its ranks from both ends. NULL ranks last and does not count."""
    ascending, descending = (
        exp.Window(
            this=exp.DenseRank(),
            partition_by=[key.copy() for key in partition],
            order=exp.Order(expressions=[exp.Ordered(this=value.copy(), desc=desc, nulls_first=False)]),
            over="OVER",
        )
        for desc in (False, True)
    )
    missing = exp.Is(this=exp.paren(value.copy()), expression=exp.Null())
    both = exp.Sub(this=exp.Add(this=ascending, expression=descending), expression=exp.Literal.number(1))
    alone = exp.Sub(this=ascending.copy(), expression=exp.Literal.number(1))
    return exp.Case(ifs=[exp.If(this=missing, true=alone)], default=both)


def _window(call: exp.Expr, partition: list[exp.Expr]) -> exp.Window:
    return exp.Window(this=call, partition_by=partition, over="OVER")


def _where(value: exp.Expr, conditions: Sequence[exp.Expr]) -> exp.Expr:
    """A value where some conditions are met, else NULL."""
    for condition in conditions:
        value = exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])
    return value


def _public(node: exp.Expr, scope: Scope, around: exp.Expr) -> exp.Expr:
    bound = scope.bind(node)
    if scope.mentions_secret(bound):
        refuse(
            "HAVING on public aggregates",
            got=f"the secret in {shown(around)}",
            fix="which groups appear would tell the secret: publish every group, noisy",
        )
    return bound
