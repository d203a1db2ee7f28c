"""LEAST and GREATEST with constants: how a value is clipped, and between which bounds it then lies."""

from __future__ import annotations

from sqlglot import exp

from sightline.tables.sql.secret_conditions import constant_of

Interval = tuple[float, float]


def clip_around(node: exp.Expr) -> exp.Expr:
    """The widest LEAST or GREATEST of ``node`` and constants around it; ``node`` itself if there is none.

    >>> from sqlglot import parse_one
    >>> tree = parse_one("SUM(LEAST(GREATEST(r, 0), 500))")
    >>> clip_around(next(tree.find_all(exp.Column))).sql()
    'LEAST(GREATEST(r, 0), 500)'
    """
    found = current = node
    while current.parent is not None:
        inside, current = current, current.parent
        if isinstance(current, exp.Paren):
            continue
        others = [one for one in current.iter_expressions() if one is not inside]
        clips = isinstance(current, exp.Least | exp.Greatest)
        if not clips or not others or any(constant_of(one) is None for one in others):
            break
        found = current
    return found


def clipped(value: exp.Expr, interval: Interval) -> Interval:
    """The bounds of a clipped value, where what is clipped lies in ``interval``.

    >>> from sqlglot import parse_one
    >>> clipped(parse_one("LEAST(SUM(r), 500)"), (0.0, 9000.0))
    (0.0, 500.0)
    """
    node = value.unnest()
    if not isinstance(node, exp.Least | exp.Greatest):
        return interval
    choose = min if isinstance(node, exp.Least) else max
    ends = [clipped(one, interval) for one in node.iter_expressions() if constant_of(one) is None]
    constants = [number for one in node.iter_expressions() if (number := constant_of(one)) is not None]
    low, high = ends[0]
    return choose(low, *constants), choose(high, *constants)
