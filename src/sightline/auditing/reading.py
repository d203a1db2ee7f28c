"""A plan as a TOML file: read and checked, and written for the record of what was audited.

A mistake in a plan becomes one line that names the file and the field. Written and read back, it is the same
plan.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from sightline.auditing.plan import (
    LARGEST_LIMIT,
    Attacker,
    Data,
    Limits,
    Plan,
    Privacy,
    Publish,
    Release,
    Rules,
)
from sightline.auditing.plan_fields import SMALLEST, Population, is_query_file, read_population
from sightline.auditing.plan_sections import OtherSecret
from sightline.auditing.published_numbers import with_numbers
from sightline.auditing.query_files import one_statement
from sightline.auditing.release_noise import ReleaseNoise, with_perturbation, with_table
from sightline.errors import InvalidPlan, require_plan, without_passwords
from sightline.tables.engines.address import dialect_of, file_text, named_file
from sightline.tables.engines.address import public_source as public_source
from sightline.tables.presence import PRESENCE

_Section = TypeVar("_Section", bound=BaseModel)
PlanLike: TypeAlias = "Plan | Mapping[str, Any] | str | PathLike[str]"

SCHEMA_ID = "urn:sightline:plan"
_TABLES = {".csv", ".tsv", ".gz", ".parquet", ".duckdb", ".db"}
_EXACT = '{ law = "none" }'
_MAY_BLANK = re.compile(r"\b(HAVING|CASE)\b", re.IGNORECASE)
# Fields that plans had once, and what to write instead.
_FORMER = {
    ("release", "merge"): "group by the coarser key: GROUP BY CASE WHEN … END",
    ("release", "suppress"): 'write the opposite as HAVING: for suppress = "COUNT(*) < 10" end the query '
    "with HAVING COUNT(*) >= 10",
    ("release", "optional"): "leave the release out, design again, and compare the two",
    ("release", "instead_of"): "leave one of the two releases out",
    (
        "data",
        "wide",
    ): 'write sql = "SELECT * FROM source UNPIVOT INCLUDE NULLS (value FOR name IN (a, b, …))"',
    ("data", "keep"): 'write sql = "SELECT * FROM source QUALIFY ROW_NUMBER() OVER (PARTITION BY record '
    'ORDER BY day) <= 3", and max_rows_per_record = 3',
    (
        "data",
        "total_by",
    ): 'write sql = "SELECT record, area, LEAST(GREATEST(SUM(secret), low), high) AS secret '
    'FROM source GROUP BY record, area"',
    ("secret", "wide"): "unpivot all secrets in the sql of [data]",
    ("release", "noise_by_cell"): 'write noise = { by_cell = [["north", 12.0], …] }',
    ("release", "cells"): 'write by_cell = [["north", 12.0], …]: values of the group, label, stddev',
    ("release", "file"): 'write sql = "query.sql", and of noise by_cell = [["north", 12.0], …]',
    (
        "release",
        "key_columns",
    ): "leave it out: rows of by_cell have the values of the group, in the order of GROUP BY",
    ("release", "least_noise_stddev"): "write noise_within = [least, most], with inf for no limit",
    ("release", "most_noise_stddev"): "write noise_within = [least, most], with 0 for today's noise",
    ("data", "dialect"): "leave it out: the SQL is in the dialect of the source",
    ("data", "other_secrets"): "write a section [[secret]] with the column alone for each",
    ("attacker", "knows_share"): 'write the share among what is known: knows = ["20%"]',
    ("correlation", "correlation"): "write the strategy C of the noise: noise = { mechanism = "
    '"C.npy", stddev = 1.0 }, where the noise on the numbers has the covariance of C⁻¹ z',
    ("data", "bandwidth"): "leave it out: a count above a level is audited as the yes or no that it asks",
    ("secret", "bandwidth"): "leave it out: a count above a level is audited as the yes or no that it asks",
    (
        "release",
        "period",
    ): "write a plan for each period, or give each release its share: noise = { epsilon }",
    ("privacy", "periods"): "write times = n in each release, and the epsilon of all periods",
    ("attacker", "may_know"): "write another plan with it in knows, and compare the two",
    ("release", "decoder"): 'write mechanism = "tree", or "tree-least-squares" for sums that fit all nodes',
    ("release", "rho"): "write noise_multiplier = √(n / 2 rho), for n copies and aggregates together",
    ("attacker", "knows_sizes"): "leave it out: the audit is for attackers who know the sizes of groups",
}
# Fields that had other values once, and how to write these now.
_FORMER_VALUES = {
    ("rules", "dominance"): '; write [1, "80%"]: how many of the largest, and their largest share',
}
_SECTIONS: dict[str, type[BaseModel]] = {
    "data": Data,
    "privacy": Privacy,
    "release": Release,
    "attacker": Attacker,
    "limits": Limits,
    "rules": Rules,
    "publish": Publish,
    "secret": OtherSecret,
}


def read_plan(plan: PlanLike) -> tuple[Plan, Path]:
    """The checked plan, and the folder that its relative paths start from.

    A path is read as TOML; a mapping has the same sections as the file.
    """
    if isinstance(plan, Plan):
        return with_files(with_counts_read(plan), Path()), Path()
    content, name, base = plan_content(plan)
    return with_files(with_counts_read(checked_plan(content, name)), base), base


def plan_content(plan: Mapping[str, Any] | str | PathLike[str]) -> tuple[dict[str, Any], str, Path]:
    """The sections of a plan, what messages call it, and the folder that its relative paths start from.

    The SQL of its query files is in it.
    """
    if isinstance(plan, Mapping):
        return _with_query_files(plan, Path()), "plan", Path()
    path = Path(plan)
    try:
        return _with_query_files(parsed_toml(_text(path), path.name), path.parent), path.name, path.parent
    except InvalidPlan as error:
        of_release = str(error).startswith("release ")
        raise InvalidPlan(f"{path.name}: {error}" if of_release else str(error)) from None


def _with_query_files(content: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """The sections of a plan with the SQL of its files in place of their names.

    Relative paths start from ``base``. What is no release with a file stays as it is, to be checked later.
    """
    releases = content.get("release")
    if not isinstance(releases, list | tuple):
        return dict(content)
    return {**content, "release": [_with_file(one, base) for one in releases]}


def _with_file(release: Any, base: Path) -> Any:
    if not isinstance(release, Mapping) or not is_query_file(file := release.get("sql")):
        return release
    try:
        return {
            **release,
            "sql": one_statement(named_file(file, base, "sql, or the name of a file with it")),
        }
    except InvalidPlan as error:
        raise InvalidPlan(f"release {str(release.get('name', ''))[:60]!r}: {error}") from None


def files_read(plan: Mapping[str, Any] | str | PathLike[str]) -> tuple[Path, ...]:
    """The plan's file, and the files of its queries, population, table and of those that it joins."""
    checked, base = read_plan(plan)
    own = () if isinstance(plan, Mapping) else (Path(plan),)
    content = plan if isinstance(plan, Mapping) else parsed_toml(_text(Path(plan)), "plan")
    queries = [one["sql"] for one in content.get("release", ()) if is_query_file(one["sql"])]
    tables = map(_file, (checked.data.source, *checked.data.tables.values()))
    prior = checked.attacker.prior
    known = (prior.file,) if isinstance(prior, Population) else ()
    return (*own, *(base / one for one in (*queries, *known, *tables) if one))


def _file(source: object) -> str | None:
    text = str(source)
    return None if "://" in text else text.partition("::")[0]


def plan_of_text(text: str, name: str) -> Plan:
    """The checked plan in a TOML text; ``name`` is what messages call it."""
    return with_files(checked_plan(_with_query_files(parsed_toml(text, name), Path()), name), Path())


def with_files(plan: Plan, base: Path) -> Plan:
    """The plan with the contents of its files of strategies, p-tables, numbers and population, below
    ``base``.
    """
    population = plan.attacker.prior
    if isinstance(population, Population) and not population.bins:
        read = read_population(population, base, plan.data.domain)
        attacker = plan.attacker.model_copy(update={"prior": read})
        plan = plan.model_copy(update={"attacker": attacker})
        plan.check_known_to()
    noises = [noise for release in plan.releases for noise in release.noise]
    published = any(release.numbers for release in plan.releases)
    if not published and not any(noise.mechanism.file or noise.ptable for noise in noises):
        return plan
    releases = tuple(
        release.model_copy(
            update={
                "noise": tuple(_with_tables(one, release.name, base) for one in release.noise),
                "numbers": with_numbers(release.numbers, release.name, base),
            }
        )
        for release in plan.releases
    )
    return plan.model_copy(update={"releases": releases})


def _with_tables(noise: ReleaseNoise, release: str, base: Path) -> ReleaseNoise:
    read = {
        "mechanism": with_table(noise.mechanism, release, base),
        "ptable": with_perturbation(noise.ptable, release, base),
    }
    return noise.model_copy(update=read)


def with_counts_read(plan: Plan) -> Plan:
    """The plan in which queries that blank small counts are those counts, with ``suppress_below``.

    Of presence, they count who is there.
    """
    return plan.model_copy(update={"releases": tuple(_counts_read(plan, one) for one in plan.releases)})


def _counts_read(plan: Plan, release: Release) -> Release:
    data, dialect = plan.data, dialect_of(plan.data.source)
    if not data.presence and not (release.noise and all(one.exact for one in release.noise)):
        return release  # blanks that depend on exact counts beside noise are refused by the reader
    if not data.presence and not _MAY_BLANK.search(release.sql):
        return release
    from sightline.tables.sql.blanks import counting_presence, without_blanks  # few plans need it

    try:
        if data.presence:
            sql, below = counting_presence(release.sql, dialect=dialect, presence=PRESENCE)
        else:
            sql, below = without_blanks(
                release.sql, dialect=dialect, secret=data.secret, categories=data.categories
            )
    except InvalidPlan as error:
        raise InvalidPlan(f"release {release.name[:60]!r}: {error}") from None
    if not below:
        return release.model_copy(update={"sql": sql})
    require_plan(
        release.suppress_below in (0, below) and all(one.exact for one in release.noise),
        f"release {release.name[:60]!r}: suppress_below as in its SQL, which shows {below:,} and more",
        got=f"suppress_below = {release.suppress_below:,}" if release.suppress_below else "noise beside it",
        fix="leave it out; which counts are blank depends on the secret, and no noise hides that",
    )
    return release.model_copy(update={"sql": sql, "suppress_below": below})


def with_limit(plan: Plan, limit: float | str) -> Plan:
    """The plan with another limit: a share as 0.5 or "50%", or ± in the secret's unit as 500 or "±50"."""
    unit = isinstance(limit, str) and limit.strip().startswith("±")
    number = _as_number(limit.strip().removeprefix("±")) if isinstance(limit, str) else limit
    if not unit and isinstance(number, float | int) and number > 1:
        _require_no_percentage(number)
        unit = True
    name = "known_to" if unit else "remaining_uncertainty"
    try:
        limits = Limits.model_validate(
            {name: number, "accept": plan.limits.accept, "set_by": plan.limits.set_by}
        )
        changed = plan.model_copy(update={"limits": limits})
        changed.check_known_to()
    except ValidationError as error:
        mistake = dict(error.errors(include_url=False)[0])
        raise InvalidPlan(f"limit: {_one_line(mistake | {'loc': ()}, {})}") from None
    return changed


def _require_no_percentage(number: float) -> None:
    if number <= 100:
        raise InvalidPlan(
            f'limit: expected a share such as "50%", ± in the secret\'s unit such as "±50", or a number '
            f'above 100 in that unit, got {number:g}; for {number:g} % write "{number:g}%"'
        )


def _as_number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def plan_schema() -> dict[str, Any]:
    """The JSON Schema of a plan file."""
    schema = Plan.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **schema}


def _text(path: Path) -> str:
    if path.is_file() and path.suffix.lower() in _TABLES:
        raise InvalidPlan(
            f"expected a plan file, got the table {str(path)!r}; sightline init {path} writes a plan for it"
        )
    try:
        return file_text(path, "a plan file")
    except InvalidPlan as error:
        fix = "" if path.exists() else "; sightline init TABLE writes one"
        raise InvalidPlan(f"{error}{fix}") from None


def parsed_toml(text: str | bytes, name: str) -> dict[str, Any]:
    """The content of a file; an error starts with ``name``."""
    try:
        return tomllib.loads(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200] or "nested too deeply"
        raise InvalidPlan(f"{name}: expected TOML, got a file that is not: {reason}") from None


def checked_plan(content: dict[str, Any], name: str) -> Plan:
    """The plan with these sections; an error starts with ``name``."""
    try:
        return Plan.model_validate(content)
    except ValidationError as error:
        raise InvalidPlan(f"{name}: {_one_line(_first(error), content)}") from None


def checked_section(model: type[_Section], section: str, content: Any, name: str) -> _Section:
    """A section of another file, with the messages of a plan; an error starts with ``name``."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        mistake = _first(error)
        mistake["loc"] = (section, *mistake["loc"])
        raise InvalidPlan(f"{name}: {_one_line(mistake, {}, {section: model})}") from None


def _first(error: ValidationError) -> dict[str, Any]:
    """The finding to report: a misspelt field is often also a missing one, and the spelling is said."""
    mistakes = error.errors(include_url=False)
    return dict(next((one for one in mistakes if one["type"] == "extra_forbidden"), mistakes[0]))


def _one_line(
    found: dict[str, Any],
    content: dict[str, Any],
    sections: Mapping[str, type[BaseModel]] = MappingProxyType(_SECTIONS),
) -> str:
    """*Expected, got, fix* from one of pydantic's findings."""
    place = tuple(found["loc"])
    where = _place(place, content)
    before = f"{where}: " if where else ""
    own = found.get("ctx", {}).get("error")
    if isinstance(own, InvalidPlan):
        return f"{before}{own}"
    if found["type"] == "extra_forbidden":
        return f"{before}{_unknown_field(place, sections)}"
    got = "nothing" if found["type"] == "missing" else _shown(found["input"])
    if place[-1:] and place[-1] in ("noise_stddev", "stddev") and found["input"] in (0, 0.0):
        return f"{before}expected noise > 0, got 0; a number that is published exactly has noise = {_EXACT}"
    if place == ("release",) and found["type"] in {"missing", "too_short"}:
        return "expected at least one release, got none; add a section [[release]] with its name and sql"
    if found.get("ctx", {}).get("le") == LARGEST_LIMIT:
        return f"{before}{_too_large_a_limit(found['input'])}"
    return f"{before}expected {_expected(found)}, got {got}{_FORMER_VALUES.get(place[:2], '')}"


def _too_large_a_limit(limit: float | str) -> str:
    percent = isinstance(limit, float | int) and 1 < limit <= 100 * LARGEST_LIMIT
    fix = f'for {limit:g} % write "{limit:g}%"' if percent else "that all of it remains can never be shown"
    return f"expected a limit of at most {100 * LARGEST_LIMIT:g}%, got {_shown(limit)}; {fix}"


def _place(place: tuple[int | str, ...], content: dict[str, Any]) -> str:
    """Where in the file, as its reader would say it."""
    if not place:
        return ""
    section, rest = _plain(place[0]), list(place[1:])
    words = [f"[{section}]"]
    if section == "release" and rest and isinstance(rest[0], int):
        number = int(rest.pop(0))
        try:
            label = content["release"][number]["name"]
        except (KeyError, IndexError, TypeError):
            label = None
        words = [f"release {_shown(label)}" if isinstance(label, str) else f"release number {number + 1}"]
    words += [_plain(part) if isinstance(part, str) else f"number {part + 1}" for part in rest]
    return " ".join(words)


def _plain(name: object) -> str:
    """A field's name for a message: as it is, unless it is longer than a line or hides a line break."""
    return _shown(str(name))[1:-1]


def _unknown_field(place: tuple[int | str, ...], sections: Mapping[str, type[BaseModel]]) -> str:
    field = str(place[-1])
    former = _FORMER.get((str(place[0]), field), "")
    if former:
        return f"expected no field {field!r}, which plans no longer have; {former}"
    model = sections.get(str(place[0])) if len(place) > 1 else None
    if model is Release and "noise" in place[:-1]:
        model = ReleaseNoise
    names = list(sections) if model is None else list(model.model_fields)
    close = difflib.get_close_matches(field, names, n=1)
    fix = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(names)}"
    return f"expected a field that exists, got {_shown(field)}; {fix}"


# What pydantic's findings say that was expected.
_KINDS = {
    "missing": "a value",
    **dict.fromkeys(("tuple_type", "list_type"), "a list"),
    **dict.fromkeys(("model_type", "dict_type", "model_attributes_type"), "a section"),
    "finite_number": "a finite number",
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    "int_type": "a whole number",
    "string_type": "text in quotes",
    "string_too_short": "text, not an empty string",
}


def _expected(found: dict[str, Any]) -> str:
    limits = found.get("ctx", {})
    kind = found["type"]
    if kind in _KINDS:
        return _KINDS[kind]
    if kind in {"literal_error", "enum"}:
        return f"one of {limits['expected']}"
    if kind in {"too_short", "too_long"}:
        count = limits.get("min_length", limits.get("max_length"))
        return f"{'at least' if kind == 'too_short' else 'at most'} {count} entries"
    if limits.get("ge") == SMALLEST and not found["input"] > 0:
        return "a number > 0"
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
    for name, sign in signs.items():
        if name in limits:
            return f"a number {sign} {limits[name]:g}"
    message = str(found["msg"])
    return message[0].lower() + message[1:]


def _shown(value: object) -> str:
    """A value for a message: short, on one line."""
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, int) and value.bit_length() > 200:  # Python does not write out the longest ones
        return "a whole number of more than 60 digits"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "…"


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
    content = plan.model_dump(mode="json", by_alias=True)
    _change_sources(content, public_source)
    return without_passwords(_toml(content))


def plan_file_text(plan: Plan, *, without: Collection[str] = ()) -> str:
    """The plan in TOML, without defaults, for a plan file: its sources are as they are, with passwords.

    ``without`` has the names of sections to leave out.
    """
    content = plan.model_dump(mode="json", by_alias=True)
    return _toml({name: section for name, section in content.items() if name not in without})


def with_sources_of(text: str, plan: PlanLike) -> str:
    """A plan that :func:`plan_text` wrote, with the sources of another as they are: for its owner's file."""
    content, given = tomllib.loads(text), read_plan(plan)[0].data
    content["data"]["source"] = str(given.source)
    if given.tables:
        content["data"]["tables"] = {name: str(source) for name, source in given.tables.items()}
    return _toml(content)


def publishable_plan_text(plan: Plan) -> str:
    """The plan in TOML without passwords, folders, and what the attacker knows.

    Noise by cell and withheld cells are left out, too: keys may be those of persons.
    """
    content = plan.model_dump(mode="json", by_alias=True, exclude={"attacker"})
    for release in content["release"]:
        release.pop("withhold", None)
        for noise in release.get("noise", ()):
            noise.pop("by_cell", None)
            if "mechanism" in noise:
                noise["mechanism"] = file_name(noise["mechanism"])
    _change_sources(content, lambda source: file_name(public_source(source)))
    return without_passwords(_toml(content))


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
    return [f"{name} = {toml_value(value)}" for name, value in section.items()]


def toml_value(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        entries = ", ".join(f"{toml_value(key)} = {toml_value(entry)}" for key, entry in value.items())
        return f"{{ {entries} }}"
    if isinstance(value, list) and value and isinstance(value[0], dict | list):  # one entry a line
        return "".join(["[\n", *(f"  {toml_value(entry)},\n" for entry in value), "]"])
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if value == math.inf:
        return "inf"
    # JSON's strings are TOML's but for one character; so are its numbers, with a sign in an exponent.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
