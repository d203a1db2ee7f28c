"""A plan as TOML text, for the record of what was audited. Read back, it is the same plan."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from sightline.auditing.plan import Plan
from sightline.tables.engines.address import public_source as public_source


def plan_text(plan: Plan) -> str:
    """The plan in TOML, without defaults, and its sources without passwords.

    >>> plan = Plan.model_validate({
    ...     "data": {"source": "homes.csv", "record": "home", "secret": "watts", "bounds": [0, 9000]},
    ...     "release": [{"name": "mean", "sql": "SELECT AVG(watts) FROM data", "noise_stddev": 10}],
    ... })
    >>> print(plan_text(plan))
    [data]
    source = "homes.csv"
    record = "home"
    secret = "watts"
    bounds = [0.0, 9000.0]
    <BLANKLINE>
    [[release]]
    name = "mean"
    sql = "SELECT AVG(watts) FROM data"
    noise_stddev = 10.0
    <BLANKLINE>
    """
    content = plan.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    _change_sources(content, public_source)
    return _toml(content)


def plan_file_text(plan: Plan) -> str:
    """The plan in TOML, without defaults, for a plan file: its sources are as they are, with passwords."""
    return _toml(plan.model_dump(mode="json", by_alias=True, exclude_defaults=True))


def publishable_plan_text(plan: Plan) -> str:
    """The plan in TOML without passwords, folders, and what the attacker knows.

    Noise by cell, correlations, withheld cells are left out, too: keys may be those of persons.
    """
    content = plan.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude={"attacker", "correlation"}
    )
    for release in content["release"]:
        release.pop("withhold", None)
        for noise in release.get("noise", ()):
            if isinstance(noise.get("by_cell"), str):
                noise["by_cell"] = file_name(noise["by_cell"])
            else:
                noise.pop("by_cell", None)
    _change_sources(content, lambda source: file_name(public_source(source)))
    return _toml(content)


def file_name(source: str) -> str:
    """The last part of a path; addresses of other engines stay as they are.

    >>> file_name("data/grid.duckdb::homes"), file_name("postgresql://db/grid")
    ('grid.duckdb::homes', 'postgresql://db/grid')
    """
    return source if "://" in source else re.split(r"[/\\]", source)[-1]


def _change_sources(content: dict[str, Any], change: Callable[[str], str]) -> None:
    data = content["data"]
    data["source"] = change(data["source"])
    if "tables" in data:
        data["tables"] = {name: change(source) for name, source in data["tables"].items()}


def _toml(content: dict[str, Any]) -> str:
    sections = []
    for name, section in content.items():
        parts = section if isinstance(section, list) else [section]
        head = f"[[{name}]]" if isinstance(section, list) else f"[{name}]"
        sections += ["\n".join([head, *_fields(part), ""]) for part in parts]
    return "\n".join(sections)


def _fields(section: dict[str, Any]) -> list[str]:
    return [f"{name} = {_value(value)}" for name, value in section.items()]


def _value(value: Any) -> str:
    if isinstance(value, dict):
        entries = ", ".join(f"{_value(key)} = {_value(entry)}" for key, entry in value.items())
        return f"{{ {entries} }}"
    if isinstance(value, list) and value and isinstance(value[0], dict | list):  # one entry a line
        return "".join(["[\n", *(f"  {_value(entry)},\n" for entry in value), "]"])
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if value == math.inf:
        return "inf"
    # JSON's strings are TOML's but for one character; so are its numbers, with a sign in an exponent.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
