"""A first plan for a table, from the names and types of its columns alone: no value is read."""

from __future__ import annotations

import json
import os
from pathlib import Path

from sightline.errors import InvalidPlan, require
from sightline.privacy.registry import ACCOUNTANTS
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Column, ColumnKind
from sightline.tables.sql.scope import find_column

_MOST_RELEASES = 3

_HEAD = """\
# A plan for sightline: what will be published about a table, and what that lets an attacker see.
# Read it, say what the secret can be, change what is wrong, then run:  sightline audit {name}

[data]
source = {source}
record = {record}    # the column that says whose row it is: the unit of privacy
secret = {secret}    # the column to protect
{domain}
# max_rows_per_record = 1    # the most rows that one record may have
# tables = {{ regions = "regions.csv" }}    # public tables that the queries join

[privacy]
epsilon = 1.0    # the budget of everything below together
delta = 1e-6     # far below one over the number of records
accountant = "zcdp"    # {accountants}

[limits]
remaining_uncertainty = "50%"    # what everyone must keep; the audit exits with 2 if that is not shown
# accept = ["dropped"]    # assumptions that a pass may rest on: rows without a secret, say

# [attacker]
# knows = ["{known} = 'A7'"]    # rows whose secret the attacker knows already
"""


# The reader fills this in: with a guess, values would be clipped, and the plan might pass.
_DOMAINS = {
    ColumnKind.NUMBER: """\
# SAY WHAT IT CAN BE and remove the first # of the next line; a guess from the data would reveal it.
# bounds = [0, 100]    # the smallest and the largest value""",
    ColumnKind.BOOLEAN: 'kind = "boolean"',
    ColumnKind.TEXT: """\
# SAY WHAT IT CAN BE and remove the first # of the next line; a guess from the data would reveal it.
# categories = ["yes", "no"]    # all its values""",
}


def starter_plan(source: str, *, out: Path, record: str | None = None, secret: str | None = None) -> str:
    """A commented plan for a table, to be written to ``out``; the columns are guessed if they are not given.

    What a number or a category can be is left for its reader to say: without it, the plan is refused.
    """
    engine = open_source(source, base=Path())
    try:
        columns = engine.columns()
    finally:
        engine.close()
    hidden, key = _chosen(columns, record=record, secret=secret)
    text = _HEAD.format(
        name=out.name,
        accountants=_alternatives(tuple(ACCOUNTANTS)),
        source=_quoted(relative_source(source, out.parent)),
        record=_quoted(key.name),
        secret=_quoted(hidden.name),
        domain=_DOMAINS[hidden.kind],
        known=key.name.replace('"', "").replace("\\", ""),
    )
    others = [
        c for c in columns if c not in (hidden, key) and c.kind in (ColumnKind.TEXT, ColumnKind.BOOLEAN)
    ]
    releases = [_release("everyone", None, hidden)]
    releases += [_release(f"by {c.name}", c, hidden) for c in others[:_MOST_RELEASES]]
    return "\n".join([text, *releases])


def _alternatives(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _chosen(columns: tuple[Column, ...], *, record: str | None, secret: str | None) -> tuple[Column, Column]:
    """The secret and the key: as they are named, else the likeliest, the last number and the first column."""
    asked = None if record is None else find_column(columns, record)
    hidden = _secret(columns, key=asked) if secret is None else find_column(columns, secret)
    require(
        hidden.kind in _DOMAINS,
        "a secret of numbers, text, or yes and no",
        got=f'"{hidden.name}", which holds something else',
        fix="name another column",
        error=InvalidPlan,
    )
    keys = [c for c in columns if c != hidden and c.kind in (ColumnKind.TEXT, ColumnKind.NUMBER)]
    key = asked or (keys[0] if keys else None)
    if key is None or key == hidden:
        raise InvalidPlan(
            f"expected a table with a key and a secret, got {_columns(columns)} and nothing for both; "
            "add a column that says whose row it is"
        )
    return hidden, key


def _secret(columns: tuple[Column, ...], *, key: Column | None) -> Column:
    candidates = columns[1:] if key is None else [column for column in columns if column != key]
    for kind in (ColumnKind.NUMBER, ColumnKind.BOOLEAN, ColumnKind.TEXT):
        found = [column for column in candidates if column.kind is kind]
        if found:
            return found[-1]
    raise InvalidPlan(
        f"expected a table with a key and a secret, got {_columns(columns)} of which none can be the secret"
    )


def _columns(columns: tuple[Column, ...]) -> str:
    return f"{len(columns)} column{'' if len(columns) == 1 else 's'}"


def _release(name: str, by: Column | None, secret: Column) -> str:
    column = _identifier(secret.name)
    groups = [] if by is None else [_identifier(by.name)]
    match secret.kind:
        case ColumnKind.NUMBER:
            what = f"AVG({column})"
        case ColumnKind.BOOLEAN:
            what = f"COUNT(*) FILTER (WHERE {column})"
        case _:
            groups, what = [*groups, column], "COUNT(*)"
    sql = f"SELECT {', '.join([*groups, what])} FROM data"
    if groups:
        sql += f" GROUP BY {', '.join(groups)}"
    return f"[[release]]\nname = {_quoted(name)}\nsql = {_quoted(sql)}\n# times = 12    # published monthly\n"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quoted(text: str) -> str:
    """A TOML string: literal if it can be, else by JSON's rules, which are TOML's but for one character."""
    if '"' in text and "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def relative_source(source: str, folder: Path) -> str:
    """A source whose path starts from the folder of a plan."""
    if "://" in source:
        return source
    path, _, table = source.partition("::")
    near = os.path.relpath(path, folder)
    return f"{near}::{table}" if table else near
