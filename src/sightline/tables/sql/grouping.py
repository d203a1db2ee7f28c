"""Read GROUP BY as a list of grouping sets. Each set groups the rows into cells."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations, product

from sqlglot import exp

from sightline.tables.sql.grammar import refuse, shown
from sightline.tables.sql.scope import Scope

MOST_SETS = 4_096  # CUBE over 12 columns
Keys = tuple[exp.Expr, ...]


def read_grouping(select: exp.Select, *, scope: Scope) -> list[Keys]:
    """Read the grouping sets of a query, bound, in the order in which SQL lists them.

    Elements of GROUP BY multiply: ``a, ROLLUP (b, c)`` is ``(a, b, c), (a, b), (a)``. A query without GROUP
    BY has the one set ``()``, a single cell.
    """
    group = select.args.get("group")
    if group is None:
        return [()]
    if group.args.get("all"):
        items = [item.unalias() for item in select.expressions if not has_aggregate(item)]
        return [tuple(scope.bind(item) for item in items if item.find(exp.Column) is not None)]
    extra = [part for part, value in group.args.items() if value and part != "expressions"]
    if extra:
        refuse(
            "GROUP BY, ROLLUP, CUBE or GROUPING SETS",
            got=shown(group),
            fix="write ROLLUP (a, b) in standard form",
        )
    options = [_sets(element, select, scope) for element in group.expressions]
    number = 1
    for option in options:
        number *= len(option)
        if number > MOST_SETS:
            refuse(f"at most {MOST_SETS:,} grouping sets", got="more", fix="publish fewer combinations")
    texts = {id(key): key.sql("duckdb", comments=False) for key in _distinct(options)}
    return [tuple({texts[id(key)]: key for key in sum(chosen, ())}.values()) for chosen in product(*options)]


def resolved_group(select: exp.Select, *, scope: Scope) -> tuple[exp.Group | None, dict[str, exp.Expr]]:
    """Return GROUP BY with ``y0``, ``y1``, … for its keys, and the keys as written.

    The keys are stored by the identity of the bound key, in the order of their numbers.
    """
    group = select.args.get("group")
    if group is None:
        return None, {}
    if group.args.get("all"):
        items = [item.unalias() for item in select.expressions if not has_aggregate(item)]
        group = exp.Group(expressions=[item.copy() for item in items])
    leaves: dict[str, exp.Expr] = {}

    def resolved(element: exp.Expr) -> exp.Expr:
        if isinstance(element, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
            parts = [resolved(part) for part in element.expressions]
            return type(element)(expressions=parts)
        leaf = dereferenced(element.unnest(), select, scope).copy()
        identity = scope.identity(scope.bind(leaf))
        leaves.setdefault(identity, leaf)
        return exp.column(f"y{list(leaves).index(identity)}")

    return exp.Group(expressions=[resolved(element) for element in group.expressions]), leaves


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an item of the SELECT list aggregates rows; ``GROUPING(a)`` does not."""
    return any(not isinstance(call, exp.Grouping) for call in node.find_all(exp.AggFunc, exp.Window))


def _sets(element: exp.Expr, select: exp.Select, scope: Scope) -> list[Keys]:
    if isinstance(element, exp.Rollup):
        parts = [_composite(part, select, scope) for part in element.expressions]
        return [sum(parts[:length], ()) for length in range(len(parts), -1, -1)]
    if isinstance(element, exp.Cube):
        parts = [_composite(part, select, scope) for part in element.expressions]
        if 2 ** len(parts) > MOST_SETS:
            refuse(
                f"at most {MOST_SETS:,} grouping sets", got=shown(element), fix="publish fewer combinations"
            )
        sizes = range(len(parts), -1, -1)
        return [sum(chosen, ()) for size in sizes for chosen in combinations(parts, size)]
    if isinstance(element, exp.GroupingSets):
        return [keys for part in element.expressions for keys in _sets(part, select, scope)]
    return [_composite(element, select, scope)]


def _composite(element: exp.Expr, select: exp.Select, scope: Scope) -> Keys:
    if isinstance(element, exp.Tuple):
        return tuple(key for part in element.expressions for key in _composite(part, select, scope))
    key = scope.bind(dereferenced(element.unnest(), select, scope))
    if key.find(exp.Column) is None:
        refuse("a key made of columns", got=shown(key), fix="leave it out: it is the same for every row")
    return (key,)


def dereferenced(node: exp.Expr, select: exp.Select, scope: Scope) -> exp.Expr:
    """Return the expression that a position or an alias of the SELECT list stands for.

    A name that is a column and also the alias of another expression is refused: engines choose differently.
    """
    if isinstance(node, exp.Literal) and not node.is_string:
        position = int(node.name) if node.name.isdigit() else 0
        if not 1 <= position <= len(select.expressions):
            refuse(
                f"a position from 1 to {len(select.expressions)}",
                got=shown(node),
                fix="name the column instead",
            )
        return _item_expression(select.expressions[position - 1])
    if isinstance(node, exp.Column) and not node.table:
        columns = {
            column.name.casefold() for relation in scope.relations.values() for column in relation.columns
        }
        aliases = {item.alias.casefold(): item for item in select.expressions if item.alias}
        item = aliases.get(node.name.casefold())
        if item is not None and node.name.casefold() not in columns:
            return _item_expression(item)
        plain = item.unalias() if item is not None else node
        if not isinstance(plain, exp.Column) or plain.name.casefold() != node.name.casefold():
            refuse(
                "a name that is a column or an alias",
                got=f'"{node.name}" as both',
                fix="give the item of the SELECT list another name",
            )
    return node


def key_text(bound: exp.Expr) -> str:
    """The text by which a bound expression is recognised as a key."""
    return bound.sql("duckdb", comments=False)


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


def _distinct(options: list[list[Keys]]) -> list[exp.Expr]:
    """Each key once; the sets of a CUBE share them."""
    return list({id(key): key for option in options for keys in option for key in keys}.values())
