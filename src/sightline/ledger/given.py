"""What a ledger is given as files: a head, which is a plan without releases, and releases one by one."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from sightline.auditing.plan import Plan, Release
from sightline.auditing.reading import checked_plan
from sightline.auditing.records import read_record
from sightline.errors import InvalidInput, InvalidPlan, require
from sightline.ledger.folder import HEAD
from sightline.tables.engines.address import scheme_of
from sightline.tables.small_files import file_bytes

AnyPath: TypeAlias = "str | PathLike[str]"
ReleaseLike: TypeAlias = "AnyPath | Mapping[str, Any] | Release"
_HEAD_SECTIONS = ("data", "privacy", "attacker", "limits")
_OF_RECORDS = ("record", "secret", "bounds", "categories", "kind")  # what a record may say of a table
_ANY_RELEASE = {"name": "any", "sql": "SELECT COUNT(*) FROM data", "noise_stddev": 1.0}


def _toml(text: bytes, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InvalidPlan(f"{name}: expected TOML, got a file that is not: {reason}") from None


def head_of(text: bytes, name: str) -> dict[str, Any]:
    """The sections of a head."""
    content = _toml(text, name)
    strange = [section for section in content if section not in _HEAD_SECTIONS]
    require(
        not strange and isinstance(content.get("data"), dict),
        f"{name}: a head with the sections {', '.join(_HEAD_SECTIONS)}, of which data must be there",
        got=f"[{strange[0][:60]}]" if strange else "no [data]",
        fix="releases are added to the ledger one by one" if "release" in strange else "",
        error=InvalidPlan,
    )
    return content


def plan_of(head: Mapping[str, Any]) -> Plan:
    """The checked plan of a head, with a release that stands for any."""
    return checked_plan({**head, "release": [_ANY_RELEASE]}, HEAD)


def with_source(head: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """The head with the path of its table written in full."""
    data = dict(head["data"])
    sources = {"source": data.get("source"), **data.get("tables", {})}
    full = {
        name: str(base / source) if isinstance(source, str) and scheme_of(source) is None else source
        for name, source in sources.items()
    }
    data["source"] = full.pop("source")
    if full:
        data["tables"] = full
    return {**head, "data": data}


def release_of(release: ReleaseLike, data: Mapping[str, Any]) -> Release:
    """One release: a file with one section [[release]], a release record, or what they hold.

    ``data`` is that of the head, which a record must not contradict.
    """
    if isinstance(release, Release):
        return release
    if isinstance(release, Mapping):
        return _checked(release, "release")
    path = Path(release)
    if path.suffix.casefold() == ".json":
        record = read_record(path)
        for field in (one for one in _OF_RECORDS if one in record.data and one in data):
            require(
                record.data[field] == data[field],
                f"{path.name[:60]}: data.{field}: that of the ledger's head",
                got="another",
                fix="a ledger is about one table and one secret",
                error=InvalidPlan,
            )
        return record.release
    content = _toml(file_bytes(path, "a release", error=InvalidInput), path.name)
    sections = content.get("release", [])
    require(
        set(content) == {"release"} and isinstance(sections, list) and len(sections) == 1,
        f"{path.name}: one section [[release]] and nothing else",
        got="another file",
        error=InvalidPlan,
    )
    return _checked(sections[0], path.name)


def _checked(section: Mapping[str, Any], name: str) -> Release:
    domain = {"source": "any", "record": "record", "secret": "secret", "bounds": [0.0, 1.0]}
    privacy = {"epsilon": 1.0, "delta": 1e-6}
    return checked_plan({"data": domain, "privacy": privacy, "release": [section]}, name).releases[0]
