"""A first plan for a table, from the names and types of its columns alone: no value is read."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from sightline.errors import InvalidPlan
from sightline.tables.engine import Column, Kind, open_source

_MOST_RELEASES = 3

_HEAD = """\
# A plan for sightline: what will be published about a table, and what that lets an attacker see.
# Read it, change what is wrong, then run:  sightline audit {name}

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
accountant = "zcdp"    # basic, basic-analytic, advanced, zcdp, renyi, gaussian-dp or laplace

[limits]
remaining_uncertainty = "50%"    # what everyone must keep; the audit exits with 2 if someone does not

# [attacker]
# knows = ["{known} = 'A7'"]    # rows whose secret the attacker knows already
"""


def starter_plan(source: str, *, folder: Path) -> str:
    """A commented plan for a table, to be written into ``folder``."""
    engine = open_source(source, base=Path())
    try:
        columns = engine.columns()
    finally:
        engine.close()
    secret = _secret(columns)
    record = next((c for c in columns if c is not secret and c.kind in (Kind.TEXT, Kind.NUMBER)), None)
    if record is None:
        raise InvalidPlan(
            f"expected a table with a key and a secret, got {len(columns)} usable column(s); "
            "add a column that says whose row it is"
        )
    match secret.kind:
        case Kind.NUMBER:
            domain = "bounds = [0, 100]    # CHANGE THIS: the smallest and the largest value it can have"
        case Kind.BOOLEAN:
            domain = 'kind = "boolean"'
        case _:
            domain = 'categories = ["yes", "no"]    # CHANGE THIS: all values it can have'
    text = _HEAD.format(
        name="plan.toml",
        source=_quoted(_relative(source, folder)),
        record=_quoted(record.name),
        secret=_quoted(secret.name),
        domain=domain,
        known=record.name.replace('"', "").replace("\\", ""),
    )
    others = [c for c in columns if c not in (secret, record) and c.kind in (Kind.TEXT, Kind.BOOLEAN)]
    releases = [_release("everyone", None, secret)]
    releases += [_release(f"by {c.name}", c, secret) for c in others[:_MOST_RELEASES]]
    return "\n".join([text, *releases])


def write_plan(text: str, path: Path, *, force: bool) -> None:
    """Write a plan at once or not at all; an existing file is only replaced if forced."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".plan-", suffix=".toml")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(name).chmod(0o644)
            if force:
                Path(name).replace(path)
            else:
                path.hardlink_to(name)  # fails if the path exists, whoever made it meanwhile
        finally:
            Path(name).unlink(missing_ok=True)
    except FileExistsError:
        raise InvalidPlan(
            f"expected a new file, got {str(path)!r}, which exists; give another --out, or --force"
        ) from None
    except OSError as error:
        raise InvalidPlan(f"expected a place to write {str(path)!r}, got: {error.strerror}") from None


def _secret(columns: tuple[Column, ...]) -> Column:
    """The last number is the likeliest secret; the first column is the likeliest key."""
    for kind in (Kind.NUMBER, Kind.BOOLEAN, Kind.TEXT):
        found = [column for column in columns[1:] if column.kind is kind]
        if found:
            return found[-1]
    raise InvalidPlan(
        f"expected a table with a key and a secret, got {len(columns)} column(s) of which none can be one"
    )


def _release(name: str, by: Column | None, secret: Column) -> str:
    column = _identifier(secret.name)
    what = {
        Kind.NUMBER: f"AVG({column})",
        Kind.BOOLEAN: f"COUNT(*) FILTER (WHERE {column})",
    }.get(secret.kind, f"COUNT(*) FILTER (WHERE {column} = 'yes')")
    group = "" if by is None else _identifier(by.name)
    sql = f"SELECT {group + ', ' if group else ''}{what} FROM data{f' GROUP BY {group}' if group else ''}"
    return f"[[release]]\nname = {_quoted(name)}\nsql = {_quoted(sql)}\n# times = 12    # published monthly\n"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quoted(text: str) -> str:
    """A TOML string: literal if it can be, else by JSON's rules, which are TOML's but for one character."""
    if '"' in text and "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _relative(source: str, folder: Path) -> str:
    if "://" in source:
        return source
    path, _, table = source.partition("::")
    near = os.path.relpath(path, folder)
    return f"{near}::{table}" if table else near
