"""The folder of a ledger, and the files that a ledger is given: a head, and releases one by one.

A file is written under another name, flushed to the disk, and linked to its own name: it is there as a whole
or not at all. The files of an entry are named after their content and are there before the entry is. Two
writers want the same number: the link of one fails, and that one reads the ledger and decides again.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from sightline.auditing.plan import Plan, Release
from sightline.auditing.reading import checked_plan, parsed_toml
from sightline.auditing.records import read_record
from sightline.errors import DamagedLedger, InvalidInput, InvalidPlan, require
from sightline.ledger.entries import Entry, StoredFile
from sightline.report.files import OWNER_MODE, begun, write_flushed
from sightline.tables.engines.address import file_bytes
from sightline.values import frozen

HEAD = "head.toml"
_ENTRY = re.compile(r"(\d{6})\.json")
_DRAFT = ".draft-"


@frozen(eq=True)
class Chain:
    """The entries that were read, and the hash of the last one."""

    entries: tuple[Entry, ...]
    last: str = "0" * 64  # the hash before the first entry


@dataclass(frozen=True, slots=True)
class LedgerFolder:
    """A folder with ``head.toml``, an entry for each thing that happened, and their files."""

    path: Path

    def chain(self) -> Chain:
        """All entries in order, each checked against the hash that the next one has of it."""
        try:
            found = sorted(
                match.group(1) for one in self.path.iterdir() if (match := _ENTRY.fullmatch(one.name))
            )
        except OSError as error:
            raise InvalidInput(
                f"expected a ledger, got {str(self.path)!r}: {_reason(error)}; ledger init makes one"
            ) from None
        if not found:
            raise InvalidInput(
                f"expected a ledger, got {str(self.path)!r} without entries; sightline ledger init makes one"
            )
        last, entries = Chain(entries=()).last, []
        for number, name in enumerate(found):
            if int(name) != number:
                raise DamagedLedger(f"expected entry {number}, got {int(name)}; restore it from a copy")
            text = self.read(f"{name}.json")
            entry = Entry.of_text(text, number=number)
            if entry.before != last:
                raise DamagedLedger(
                    f"entry {number}: expected the hash of the entry before, got another; one was changed"
                )
            last = hashlib.sha256(text).hexdigest()
            entries.append(entry)
        if hashlib.sha256(self.read(HEAD)).hexdigest() != entries[0].head:
            raise DamagedLedger(f"expected {HEAD} as it was at the start, got changed bytes")
        return Chain(entries=tuple(entries), last=last)

    def checked(self, file: StoredFile) -> Path:
        """The path of an entry's file, after a comparison with its hash."""
        if hashlib.sha256(self.read(file.name)).hexdigest() != file.sha256:
            raise DamagedLedger(f"expected {file.name} as it was written, got changed bytes")
        return self.path / file.name

    def store(self, text: bytes, name: str) -> StoredFile:
        """Store a file that an entry will name; ``name`` gets a part of its hash."""
        digest = hashlib.sha256(text).hexdigest()
        stem, _, ending = name.partition(".")
        file = StoredFile(name=f"{stem}-{digest[:16]}.{ending}", sha256=digest)
        self._write(file.name, text, may_exist=True)
        return file

    def append(self, entry: Entry) -> bool:
        """Add an entry; false if another one has got its number. ``begun`` has it once it is there."""
        path, text = self.path / f"{entry.number:06d}.json", entry.text()
        try:
            self._write(path.name, text, may_exist=False)
        except FileExistsError:
            return False
        finally:  # also after Ctrl-C
            if path.exists() and path.read_bytes() == text:
                begun.append(path)
        return True

    def start(self, head: bytes, entry: Entry) -> None:
        """Make the folder with its head and its first entry. What a killed start has left is used."""
        taken = InvalidInput(f"expected a new or an empty folder, got {str(self.path)!r} with files")
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            if any(one.name != HEAD and not one.name.startswith(_DRAFT) for one in self.path.iterdir()):
                raise taken
        except FileExistsError:
            raise InvalidInput(f"expected a new folder, got {str(self.path)!r}, which exists") from None
        except OSError as error:
            raise self.unwritable(_reason(error)) from None
        self._write(HEAD, head, may_exist=True)
        if self.read(HEAD) != head or not self.append(entry):
            raise taken

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """A path for a file that is made by somebody else; it is gone afterwards."""
        path = self.path / f"{_DRAFT}{secrets.token_hex(8)}"
        try:
            yield path
        finally:
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _write(self, name: str, text: bytes, *, may_exist: bool) -> None:
        try:
            with self.draft() as draft:
                write_flushed(draft, text, OWNER_MODE)
                try:
                    os.link(draft, self.path / name)
                except FileExistsError:
                    if not may_exist:
                        raise
            self._flush()
        except FileExistsError:
            raise
        except OSError as error:
            raise self.unwritable(_reason(error)) from None

    def _flush(self) -> None:
        """Flush the folder itself, so that names of files survive a power cut."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def read(self, name: str) -> bytes:
        """The bytes of a file."""
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            raise DamagedLedger(f"expected the file {name}, got: {_reason(error)}") from None

    def unwritable(self, reason: str) -> InvalidInput:
        """The error of a folder that cannot be written to."""
        return InvalidInput(
            f"expected a folder to write to, with hard links, got {str(self.path)!r}: {reason}; "
            "nothing was added"
        )


def _reason(error: OSError) -> str:
    return (error.strerror or "it cannot be used").lower()


AnyPath: TypeAlias = "str | PathLike[str]"
ReleaseLike: TypeAlias = "AnyPath | Mapping[str, Any] | Release"
_HEAD_SECTIONS = ("data", "privacy", "attacker", "limits")
_OF_RECORDS = ("record", "secret", "bounds", "categories", "kind")  # what a record may say of a table


def head_of(text: bytes, name: str) -> dict[str, Any]:
    """The sections of a head."""
    content = parsed_toml(text, name)
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
    any_release = {"name": "any", "sql": "SELECT COUNT(*) FROM data", "noise_stddev": 1.0}
    return checked_plan({**head, "release": [any_release]}, HEAD)


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
    content = parsed_toml(file_bytes(path, "a release", error=InvalidInput), path.name)
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
