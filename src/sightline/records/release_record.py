"""Release records: what was published with which noise, as a library's exporter writes it down in JSON.

A record is one ``[[release]]`` of a plan, what is known of ``[data]``, and ``about``: where it came from, in
the words of the deployments registry where it has one. It is not trusted: nothing in it is run, it names no
file, and its SQL is read like that of any plan.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from sightline.auditing.plan import Data, Plan, Release
from sightline.auditing.plan_fields import Section, Text, is_query_file, without_default
from sightline.auditing.plan_sections import DOMAIN, USUAL_DELTA, USUAL_LIMIT
from sightline.auditing.query_files import GivenPlan
from sightline.auditing.reading import checked_plan, checked_section, plan_schema
from sightline.auditing.release_noise import ReleaseNoise, is_strategy_file
from sightline.errors import InvalidPlan, SightlineError, require_plan
from sightline.tables.engines.address import DIALECTS, dialect_of, file_bytes
from sightline.tables.sql.edited_releases import uses
from sightline.tables.sql.grammar import parse_query
from sightline.values import frozen

FORMAT, VERSION = "sightline.release", 1
_NOTHING = GivenPlan()
# Files that a record would make us read, and what only a table's owner decides.
_NOT_IN_DATA = {"source": "it is given beside the records", "tables": "name public tables in the plan"}
# By library, as its exporter reads them; "none" is an exact number beside noisy ones.
_REAL, _WHOLE = {"none", "gaussian", "laplace"}, {"discrete-gaussian", "geometric"}
_LAWS = {
    "opendp": _REAL | _WHOLE,
    "tmlt.analytics": _REAL | _WHOLE,
    "smartnoise-sql": _REAL,
    "dp-accounting": _REAL,
}
_FACTS = frozenset(
    {*Release.model_fields, *ReleaseNoise.model_fields, *Data.model_fields} - {"name", "published", "source"}
)


def _date(text: str) -> str:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        good = False
    else:
        good = len(text) == len("2026-03-01")
    require_plan(good, "a day as 2026-03-01", got=repr(text[:40]))
    return text


def _known_facts(facts: dict[str, str]) -> dict[str, str]:
    strange = sorted(set(facts) - _FACTS)
    require_plan(
        not strange,
        "facts about fields of a release, of its noise or of data",
        got=repr(strange[0][:40]) if strange else "",
    )
    return facts


Loss = Annotated[float, Field(gt=0, le=1e9)]  # more protects nobody, and its square might not be finite


class PrivacyParameters(Section):
    """What the library counts for the release, each time that it is published."""

    epsilon: Loss = Field(default=0.0, json_schema_extra=without_default, description="Its epsilon.")
    delta: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.0, json_schema_extra=without_default, description="Its delta."
    )
    rho: Loss = Field(
        default=0.0,
        json_schema_extra=without_default,
        description="Its rho, of zero-concentrated privacy.",
    )


class About(Section):
    """Where a release came from."""

    published_at: Annotated[str, AfterValidator(_date)] | None = Field(
        default=None, description="The day on which it was published, as 2026-03-01."
    )
    privacy_unit: Text | None = Field(default=None, description="Whose data the library protects.")
    neighbours: Literal["add-remove", "replace-one"] | None = Field(
        default=None, description="Which tables the library counts as neighbours."
    )
    privacy_parameters: PrivacyParameters = Field(
        default=PrivacyParameters(), description="What the library counts for the release, each time."
    )
    engine: Text | None = Field(default=None, description="The library and its version.")
    facts: Annotated[dict[str, Literal["read", "derived", "stated"]], AfterValidator(_known_facts)] = Field(
        default={},
        description="How each field is known: read off the library's objects, derived from them, or stated.",
    )


@frozen(eq=True)
class ReleaseRecord:
    """A release that was published, what is known of the table, and where both come from."""

    release: Release
    data: Mapping[str, Any] = field(default_factory=dict)  # the fields of [data] that are known
    about: About = field(default_factory=About)

    @property
    def missing(self) -> tuple[str, ...]:
        """What a plan needs and the record does not say."""
        fields = [name for name in ("record", "secret") if name not in self.data]
        return (*fields, *([] if set(self.data) & set(DOMAIN) else ["bounds"]))

    @property
    def summary(self) -> str:
        """That it is a good record, and what is missing: one line."""
        missing = f"; missing: {', '.join(self.missing)}" if self.missing else ""
        return f"a good record{missing}"

    def content(self) -> dict[str, Any]:
        """As JSON has it, without defaults."""
        release = self.release.model_dump(mode="json")
        noise = release.get("noise", [])
        if len(noise) == 1 and "label" not in noise[0]:
            release["noise"] = noise[0]
        content = {"record": f"{FORMAT}/{VERSION}", "release": release, "data": dict(self.data)}
        about = self.about.model_dump(mode="json")
        return {name: part for name, part in (content | {"about": about}).items() if part}

    def text(self) -> str:
        """The record in JSON."""
        return json.dumps(self.content(), indent=1, ensure_ascii=False) + "\n"


def read_record(path: str | Path) -> ReleaseRecord:
    """The checked record in a file; a mistake is one line with its field."""
    path = Path(path)
    return record_of_text(file_bytes(path, "a release record"), path.name[:60])


def record_of_text(text: str | bytes, name: str = "record") -> ReleaseRecord:
    """The checked record in a JSON text; ``name`` is what messages call it."""
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
        decoded.encode()  # half of a surrogate pair cannot be written again
        content = json.loads(decoded, object_pairs_hook=_once)
        _check_finite(content, "")
        json.dumps(content, ensure_ascii=False).encode()
    except InvalidPlan as error:
        raise InvalidPlan(f"{name}: {error}") from None
    except (ValueError, RecursionError):
        raise InvalidPlan(f"{name}: expected a release record in JSON, got something else") from None
    return record_of(content, name)


def _check_finite(content: Any, place: str) -> None:
    inner = (
        content
        if isinstance(content, dict)
        else dict(enumerate(content, 1))
        if isinstance(content, list)
        else {}
    )
    for name, one in inner.items():
        _check_finite(one, f"{place}.{name}" if place else str(name))
    good = not isinstance(content, float) or math.isfinite(content)
    require_plan(good, f"{place[:60]!r}: a finite number", got=str(content)[:60])


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    twice = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
    require_plan(not twice, "every field once", got=f"{twice[:1]!r} twice"[:60])
    return fields


def record_of(content: Any, name: str = "record") -> ReleaseRecord:
    """The checked record with some content: its release and data are checked as those of a plan are."""
    parts = {"record": str, "release": dict, "data": dict, "about": dict}
    require_plan(isinstance(content, dict), f"{name}: a release record", got="other JSON")
    version = content.get("record")
    require_plan(
        version == f"{FORMAT}/{VERSION}",
        f"{name}: record: {FORMAT}/{VERSION!r}",
        got=repr(version)[:60]
        if isinstance(version, str)
        else "no text"
        if "record" in content
        else "nothing",
        fix="a record of another version needs another version of sightline",
    )
    strange = [part for part in content if part not in parts]
    require_plan(
        not strange,
        f"{name}: a field that exists",
        got=repr(strange[0])[:60] if strange else "",
        fix=f"there are: {', '.join(parts)}",
    )
    for part, kind in parts.items():
        right = isinstance(content.get(part, kind()), kind) and (part in content or part in ("data", "about"))
        require_plan(
            right,
            f"{name}: {part}: a section",
            got="none" if part not in content else "another value",
        )
    data = content.get("data", {})
    for part, fix in _NOT_IN_DATA.items():
        require_plan(part not in data, f"{name}: data: no {part}", got="one", fix=fix)
    release = _without_files(content["release"], name)
    about = checked_section(About, "about", content.get("about", {}), name)
    library = (about.engine or "").partition(" ")[0]
    # What nobody has said yet is taken for anything, so that the rest is checked with it.
    open_fields = {"source": "data", "record": "a record to be named", "secret": "a secret to be named"}
    if not set(data) & set(DOMAIN):
        open_fields["kind"] = "boolean"
    plan = checked_plan({"data": {**open_fields, **data}, "release": [release]}, name)
    for noise in plan.releases[0].noises:
        require_plan(
            noise.law.value in _LAWS.get(library, {noise.law.value}),
            f"{name}: release: noise: law: a law that {library[:60]} has",
            got=repr(noise.law.value),
        )
    return _of_plan(plan, data, about)


def _without_files(release: dict[str, Any], name: str) -> dict[str, Any]:
    """Refuse what would make us read a file, a size that means another thing in every library, and none."""
    noises = release.get("noise", [])
    noises = noises if isinstance(noises, list) else [noises]
    sections = [one for one in noises if isinstance(one, dict)]
    inside = any(is_strategy_file(one.get("mechanism")) for one in sections)
    require_plan(
        not is_query_file(release.get("sql")) and not inside,
        f"{name}: release: a record that names no file",
        got="one",
        fix="write the SQL and the noise into the record",
    )
    require_plan(
        not any("scale" in one for one in sections),
        f"{name}: release: noise: stddev",
        got="scale",
        fix="a scale means something else in every library",
    )
    require_plan(
        "noise" in release or "noise_stddev" in release,
        f"{name}: release: noise",
        got="none",
        fix="a record says with which noise it was published; an exact number has law = 'none'",
    )
    return release


def _of_plan(plan: Plan, given: Iterable[str], about: About, place: int = 0) -> ReleaseRecord:
    data, own_secret = plan.data.model_dump(mode="json"), _own_secret(plan, plan.releases[place])
    wanted = set(given) - set(_NOT_IN_DATA) - (set(DOMAIN) if own_secret else set())
    known = {name: value for name, value in data.items() if name in wanted} | own_secret
    return ReleaseRecord(release=plan.releases[place], data=known, about=about)


def _own_secret(plan: Plan, release: Release) -> dict[str, Any]:
    """The secret that a release is about, where it is not that of [data], and what it can be."""
    dialect = dialect_of(plan.data.source)
    if not plan.secrets or uses(release.sql, [plan.data.secret], dialect=dialect):
        return {}
    for one in plan.secrets:
        if one.audited and uses(release.sql, [one.column], dialect=dialect):
            secret = one.model_dump(mode="json")
            return {"secret": secret.pop("column"), **secret}
    return {}


def records_of(plan: Plan, about: Sequence[About] = ()) -> tuple[ReleaseRecord, ...]:
    """A record of every release of a plan that is published, each with what is known ``about`` it."""
    places = [place for place, release in enumerate(plan.releases) if release.noise_given]
    every = [*about, *([About()] * (len(plan.releases) - len(about)))]
    return tuple(_of_plan(plan, Data.model_fields, every[place], place) for place in places)


def plan_of(records: Mapping[str, ReleaseRecord], *, source: str, given: GivenPlan = _NOTHING) -> Plan:
    """The plan of some records, by what messages call them, in the order of publication.

    ``given`` says what no record does: the record, the secret, what it can be, and how many rows.
    """
    require_plan(bool(records), "a release record", got="none")
    order = sorted(records, key=lambda name: (records[name].about.published_at or "9999", name))
    names = Counter(records[name].release.name for name in order)
    twice, times = names.most_common(1)[0]
    require_plan(
        times == 1,
        "a name of its own for each release",
        got=f"{twice[:60]!r} in {times} records",
    )
    for name in order:
        check_query(records[name], name, (dialect_of(source),))
    data = _agreed({name: records[name].data for name in order}, "data", ignored=("secret", *DOMAIN))
    _agreed({name: _unit(records[name].about) for name in order}, "about")
    secrets = _secrets({name: records[name].data for name in order}, given)
    data = {**given.data, **data, **secrets[0]}
    missing = [name for name in ("record", "secret") if name not in data]
    require_plan(
        not missing,
        f"data.{missing[0] if missing else ''} in a record, or --{missing[0] if missing else ''} COLUMN",
        got="neither",
    )
    deltas = [delta for name in order if (delta := records[name].about.privacy_parameters.delta)]
    content = {
        "data": {"source": source, **data},
        "privacy": {"delta": min(deltas, default=USUAL_DELTA)},
        "limits": {"remaining_uncertainty": USUAL_LIMIT},
        "release": [records[name].release.model_dump(mode="json") for name in order],
        "secret": [{"column": one.pop("secret"), **one} for one in map(dict, secrets[1:])],
    }
    return checked_plan({name: part for name, part in content.items() if part}, "records")


def check_query(record: ReleaseRecord, name: str, dialects: Sequence[str] = DIALECTS) -> None:
    """Refuse a record whose SQL is no query in any of these dialects."""
    errors = []
    for dialect in dialects:
        try:
            parse_query(record.release.sql, dialect)
        except SightlineError as error:
            errors.append(error)
        else:
            return
    raise InvalidPlan(f"{name}: release.sql: {errors[0]}")


def _unit(about: About) -> dict[str, Any]:
    stated = {"privacy_unit": about.privacy_unit, "neighbours": about.neighbours}
    return {name: value for name, value in stated.items() if value}


def _agreed(
    parts: Mapping[str, Mapping[str, Any]], section: str, ignored: Sequence[str] = ()
) -> dict[str, Any]:
    """What all records say of one thing: records of two tables or units are not one plan."""
    agreed: dict[str, Any] = {}
    said: dict[str, str] = {}
    for name, part in parts.items():
        for key, value in part.items():
            if key in ignored:
                continue
            require_plan(
                key not in agreed or agreed[key] == value,
                f"{name}: {section}.{key}: records of one table and one unit",
                got=f"another than in {said.get(key, '')}",
                fix="make a plan of each",
            )
            agreed[key], said[key] = value, name
    return agreed


def _secrets(parts: Mapping[str, Mapping[str, Any]], given: GivenPlan) -> list[dict[str, Any]]:
    """Every secret with what it can be; the first is that of [data]."""
    columns = list(dict.fromkeys(part["secret"] for part in parts.values() if "secret" in part))
    secrets = []
    for column in columns or [given.secret]:
        own = {name: part for name, part in parts.items() if part.get("secret", column) == column}
        about = {name: {key: part[key] for key in DOMAIN if key in part} for name, part in own.items()}
        domain = _agreed(about, "data") or {key: one for key, one in given.data.items() if key in DOMAIN}
        secrets.append(({"secret": column} if column else {}) | domain)
    return secrets


def record_schema() -> dict[str, Any]:
    """The JSON Schema of a record: its release and data are those of a plan."""
    plan, about = plan_schema(), About.model_json_schema()
    definitions = {**plan["$defs"], **about.pop("$defs", {}), "About": about}
    data = dict(definitions["Data"])
    data["properties"] = {name: one for name, one in data["properties"].items() if name not in _NOT_IN_DATA}
    definitions["Data"] = {name: part for name, part in data.items() if name != "required"}
    section = {name: {"$ref": f"#/$defs/{kind}"} for name, kind in _KINDS.items()}
    return {
        "$schema": plan["$schema"],
        "$id": f"urn:sightline:release:{VERSION}",
        "type": "object",
        "additionalProperties": False,
        "required": ["record", "release"],
        "properties": {"record": {"const": f"{FORMAT}/{VERSION}"}, **section},
        "$defs": definitions,
    }


_KINDS = {"release": "Release", "data": "Data", "about": "About"}


def registry_text(record: ReleaseRecord) -> str:
    """The draft as a file of the registry: JSON that is YAML, too.

    YAML takes 1e-05 for a text, and 1.0e-05 for a number; some characters end a line, or are refused there.
    """
    text = json.dumps(registry_entry(record), indent=2, ensure_ascii=False)
    text = _NOT_IN_YAML.sub(lambda one: f"\\u{ord(one.group()):04x}", text)
    return re.sub(r'(?m)^( *"\w+": \d+)(e[-+]\d+)', r"\1.0\2", text)


_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def registry_entry(record: ReleaseRecord) -> dict[str, Any]:
    """A draft for the deployments registry: what the record says, and "FILL IN" for what people must say.

    It has the fields, types and lists that the registry's schema requires (tests/records/registry_schema.py
    names the version). Where a list of it allows no "FILL IN", the name beside says what is to be filled in.
    """
    about, release = record.about, record.release
    counted = about.privacy_parameters.model_dump()
    variant = _variant(counted, pure=all(noise.law.pure for noise in release.noises))
    loss = {
        "privacy_unit": about.privacy_unit or record.data.get("record", _FILL_IN),
        "privacy_unit_details": _NEIGHBOURS.get(about.neighbours, _FILL_IN),
        "privacy_parameters": counted,
    }
    laws = ", ".join(sorted({f"{noise.law.value} noise" for noise in release.noises}))
    return {
        "url_slug": "".join(one if one.isalnum() else "_" for one in release.name.casefold()),
        "deployment": {
            "basic": {
                "name": release.name,
                "data_curators": [
                    {"data_curator_name": f"{_FILL_IN}, and the type", "data_curator_type": "Government"}
                ],
                "description": release.sql,
                "intended_use": _FILL_IN,
                "data_product_type": "Summary statistics",
                "data_product_region": _FILL_IN,
                "publication_date": about.published_at or "1900-01-01",
            },
            **({"dp_variant": {"variant_name": variant}} if variant else {}),
            "privacy_loss": loss,
            "deployment_model": {
                "model_name": "Central",
                "release_type": "One release" if release.times == 1 else "Many releases",
            },
            "implementation": {"mechanisms": f"{laws}, by {about.engine or _FILL_IN}"},
            "administrative": {"status": "Draft", "registry_authors": [_FILL_IN], "tier": 2},
        },
    }


def _variant(counted: Mapping[str, float], *, pure: bool) -> str | None:
    """What the library's numbers are about; none where they do not say it."""
    if "rho" in counted:
        return "Zero-concentrated DP"
    if "delta" in counted:
        return "Approximate DP"
    return "Pure DP" if counted and pure else None


_FILL_IN = "FILL IN"
_NEIGHBOURS: dict[str | None, str] = {
    "add-remove": "Tables that differ in the rows of one unit, which only one of them has.",
    "replace-one": "Tables that differ in the values of one unit.",
}
