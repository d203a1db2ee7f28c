"""Write docs/plan.schema.json from the code, and docs/plan.md from the schema: every field, type and default.

Run ``python docs/plan_page.py`` when a field of a plan changes; a test compares both files with the code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sightline.auditing.reading import plan_schema

SCHEMA = Path(__file__).parent / "plan.schema.json"
PAGE = Path(__file__).parent / "plan.md"

HEAD = """# The plan: every field

<!-- Written by docs/plan_page.py from docs/plan.schema.json: change the descriptions in the code. -->

A plan is TOML. `sightline init TABLE` writes a first one, `sightline check plan.toml` checks it without
reading a row, and `sightline check --schema` prints its JSON Schema. A field that does not exist is refused
by name. {doc}`audit` says what the fields mean together. In Python a plan may also be a mapping, or a `Plan`.
"""

Schema = dict[str, Any]
PLAIN = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
# An entry has no value where a default is one of these.
NO_DEFAULT: tuple[object, ...] = (None, [], "", {})


def plan_page(schema: Schema) -> str:
    """The page: a heading for each section of a plan, then one for each kind of entry in a field."""
    definitions: Schema = schema["$defs"]
    sections = {section: kinds(about)[0] for section, about in schema["properties"].items()}
    text = [HEAD]
    for section, name in sections.items():
        several = schema["properties"][section].get("type") == "array"
        title = f"[[{section}]]" if several else f"[{section}]"
        text += described(f"`{title}`", definitions[name], definitions)
    for name, definition in definitions.items():
        if name in sections.values() or not is_section(definition):
            continue
        where = " and ".join(f"`{field}`" for field in sorted(users(name, definitions)))
        text += described(f"In {where}", definition, definitions)
    return "\n".join(text)


def described(title: str, section: Schema, definitions: Schema) -> list[str]:
    """One section: its sentence, and a line for each field."""
    needed = section.get("required", ())
    lines = [f"## {title}\n", f"{section['description']}\n"]
    for field, about in section["properties"].items():
        words = [type_words(about, definitions)]
        if field in needed:
            words.append("needed")
        elif about.get("default") not in NO_DEFAULT:
            words.append(f"`{default_text(about['default'])}` unless given")
        lines.append(f"- `{field}` ({'; '.join(words)}): {about['description']}")
    return [*lines, ""]


def default_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def type_words(about: Schema, definitions: Schema) -> str:
    """What a field holds, in words: every form that it may have."""
    forms = [form for form in (form_words(one, definitions) for one in alternatives(about)) if form]
    return " or ".join(dict.fromkeys(forms))


def form_words(form: Schema, definitions: Schema) -> str:
    if "$ref" in form:
        name = form["$ref"].rpartition("/")[2]
        return "a section" if is_section(definitions[name]) else form_words(definitions[name], definitions)
    if "enum" in form:
        return "one of " + ", ".join(f"`{value}`" for value in form["enum"])
    match form.get("type"):
        case "null" | None:
            return ""
        case "array" if "prefixItems" in form:
            return f"a list of {len(form['prefixItems'])} {PLAIN[form['prefixItems'][0]['type']]}s"
        case "array":
            return f"a list, each {type_words(form['items'], definitions)}"
        case "object" if "properties" in form:
            return "{ " + ", ".join(f"{name} = …" for name in form["properties"]) + " }"
        case "object":
            return f"names, each with a {type_words(form['additionalProperties'], definitions)}"
        case plain:
            return PLAIN[plain]


def alternatives(about: Schema) -> Iterator[Schema]:
    """The forms of a field, whatever is nested in ``anyOf``."""
    if "anyOf" not in about:
        yield about
    for one in about.get("anyOf", ()):
        yield from alternatives(one)


def kinds(about: Schema) -> list[str]:
    """The definitions that a field refers to, also inside lists."""
    names = []
    for form in alternatives(about):
        if "$ref" in form:
            names.append(form["$ref"].rpartition("/")[2])
        elif "items" in form:
            names += kinds(form["items"])
    return names


def users(name: str, definitions: Schema) -> set[str]:
    """The fields that hold sections of this kind."""
    return {
        field
        for section in definitions.values()
        for field, about in section.get("properties", {}).items()
        if name in kinds(about)
    }


def is_section(definition: Schema) -> bool:
    return "properties" in definition


if __name__ == "__main__":
    current = plan_schema()
    SCHEMA.write_text(json.dumps(current, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(plan_page(current), encoding="utf-8")
