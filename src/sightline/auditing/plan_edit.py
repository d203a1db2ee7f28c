"""A plan file with some fields changed: comments, and all that did not change, stay as they were written."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from sightline.auditing.plan import Plan
from sightline.auditing.plan_fields import is_query_file
from sightline.auditing.reading import plan_of_text, read_plan, toml_value, with_sources_of
from sightline.errors import InvalidInput


class _Statement(NamedTuple):
    """Some lines of a TOML file: a header, a field with its value, or a comment."""

    lines: str
    section: str  # the header that it stands under, without brackets
    place: int  # which section of this name it is
    field: str  # none for headers and comments


def edited_plan(proposed: str, path: str | PathLike[str]) -> str:
    """The plan file at ``path`` with the fields of a proposed plan where they differ.

    What comes out is read again and compared with the proposal: where that fails, as for fields in dotted
    form, it is the proposal without comments.
    """
    plain = with_sources_of(proposed, path)
    before, base = read_plan(path)
    try:
        after = plan_of_text(plain, "proposal")
        text = _edited(Path(path).read_text(encoding="utf-8"), _content(before), _content(after))
        tomllib.loads(text)
        read_back = read_plan(_rebased(text, base))[0]
    except (InvalidInput, OSError, ValueError):
        return plain
    return text if _content(read_back) == _content(after) else plain


def _rebased(text: str, base: Path) -> Mapping[str, Any]:
    """The content of a plan file; files of queries are beside it."""
    content = tomllib.loads(text)
    for release in content.get("release", ()):
        if is_query_file(release.get("sql")):
            release["sql"] = str(base / release["sql"])
    return content


def _content(plan: Plan) -> dict[str, Any]:
    return plan.model_dump(mode="json", by_alias=True)


def _edited(text: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    statements = list(_statements(text))
    lines: list[str] = []
    for number, one in enumerate(statements):
        old, new = _section(before, one), _section(after, one)
        if not one.field or old.get(one.field) == new.get(one.field):
            lines.append(one.lines)
        elif one.field in new:
            lines.append(f"{one.field} = {toml_value(new[one.field])}\n")
        if one.section and _last_field(statements, number):
            # Fields that the section did not have come after its own.
            here = {other.field for other in statements if _same(other, one)}
            added = [name for name in new if name not in here and old.get(name) != new[name]]
            lines += [f"{name} = {toml_value(new[name])}\n" for name in added]
    return "".join(lines)


def _same(one: _Statement, other: _Statement) -> bool:
    return (one.section, one.place) == (other.section, other.place)


def _last_field(statements: list[_Statement], number: int) -> bool:
    """Whether no field of its section follows a field."""
    one, rest = statements[number], statements[number + 1 :]
    return bool(one.field) and not any(_same(other, one) and other.field for other in rest)


def _section(content: dict[str, Any], one: _Statement) -> dict[str, Any]:
    sections = content.get(one.section, {})
    section = sections[one.place] if isinstance(sections, list) and one.place < len(sections) else sections
    return section if isinstance(section, dict) else {}


def _statements(text: str) -> Iterator[_Statement]:
    """The file, statement by statement: a value goes on until it can be read."""
    section, places, held = "", dict[str, int](), ""
    for line in text.splitlines(keepends=True):
        held += line if line.endswith("\n") else f"{line}\n"
        try:
            content = tomllib.loads(held)
        except tomllib.TOMLDecodeError:
            continue
        header = held.lstrip().startswith("[")
        if header:
            section = held.partition("#")[0].strip().strip("[]").strip()
            places[section] = places.get(section, -1) + 1
        field = "" if header else next(iter(content), "")
        yield _Statement(held, section, places.get(section, 0), field)
        held = ""
    if held:
        raise InvalidInput("expected a plan in TOML, got a value without an end")
