"""The folder of a ledger, and the files that a ledger is given: a head, and releases one by one.

A file is written under another name, flushed to the disk, and linked to its own name: it is there as a whole
or not at all. The files of an entry are named after their content. They wait under a name that begins with
``.pending-`` until the entry is there, and get their own names then: so a file with a number that no entry
names was brought by somebody else, and an entry may be lost. Two writers want the same number: the link of
one fails, and that one removes its waiting files, reads the ledger and decides again.
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
from sightline.errors import DamagedLedger, InvalidInput, InvalidPlan, require
from sightline.format import count
from sightline.ledger.entries import Entry, StoredFile
from sightline.records.release_record import read_record
from sightline.report.files import OWNER_MODE, begun, write_flushed
from sightline.tables.engines.address import file_bytes
from sightline.values import frozen

HEAD = "head.toml"
_ENTRY = re.compile(r"(\d{6})\.json")
_DRAFT, _PENDING = ".draft-", ".pending-"
# A copy that a file synchroniser makes of an entry, its files or the head: "000002 (conflicted copy).json".
_OF_A_LEDGER = re.compile(r"\d{6}|head\b.*\.toml", re.IGNORECASE)


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
            names = sorted(
                match.group(1) for one in self.path.iterdir() if (match := _ENTRY.fullmatch(one.name))
            )
        except OSError as error:
            raise InvalidInput(
                f"expected a ledger, got {str(self.path)!r}: {_reason(error)}; ledger init makes one"
            ) from None
        if not names:
            raise InvalidInput(
                f"expected a ledger, got {str(self.path)!r} without entries; sightline ledger init makes one"
            )
        last, entries = Chain(entries=()).last, []
        for number, name in enumerate(names):
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

    def require_no_strangers(self) -> None:
        """Refuse a folder with files of entries that are not in its chain: an entry may have been lost.

        Two copies of a ledger may both have taken a number. A file synchroniser keeps one of the two entries,
        and the other under another name, or its files alone.
        """
        while True:
            chain = self.chain()
            named = {HEAD} | {f"{entry.number:06d}.json" for entry in chain.entries}
            named |= {file.name for entry in chain.entries for file in entry.files}
            present = [path.name for path in self.path.iterdir()]
            if self.chain().last == chain.last:  # else somebody has added an entry meanwhile
                break
        strangers = sorted(
            name
            for name in present
            if name not in named and not name.startswith((_DRAFT, _PENDING)) and _OF_A_LEDGER.search(name)
        )
        if strangers:
            listed = ", ".join(repr(name[:80]) for name in strangers[:3]) + (", …" if strangers[3:] else "")
            entries = count(len(chain.entries), "entry", "entries")
            raise DamagedLedger(
                f"expected the files of {entries} and no others, got {listed}: "
                "did another copy of this ledger take the same number? Move these files away, and bring that "
                "copy's entries here with sightline ledger merge"
            )

    def checked(self, file: StoredFile) -> Path:
        """The path of an entry's file, after a comparison with its hash."""
        self._settle(file)
        path = self.path / file.name
        if not path.exists() and (waiting := self.path / f"{_PENDING}{file.name}").exists():
            path = waiting  # of a folder that cannot be written to
        if hashlib.sha256(self.read(path.name)).hexdigest() != file.sha256:
            raise DamagedLedger(f"expected {file.name} as it was written, got changed bytes")
        return path

    def _settle(self, file: StoredFile) -> None:
        """Give a waiting file its own name: its entry is there."""
        if not (self.path / file.name).exists():
            with suppress(OSError):  # somebody else was faster, or nothing can be written
                (self.path / f"{_PENDING}{file.name}").replace(self.path / file.name)

    def store(self, text: bytes, name: str) -> StoredFile:
        """Store a file that an entry will name, to wait for it; ``name`` gets a part of its hash."""
        digest = hashlib.sha256(text).hexdigest()
        stem, _, ending = name.partition(".")
        file = StoredFile(name=f"{stem}-{digest[:16]}.{ending}", sha256=digest)
        waiting = f"{_PENDING}{file.name}"
        self._write(waiting, text, may_exist=True)
        for name in (waiting, file.name):  # left over by somebody else
            if (self.path / name).exists() and self.read(name) != text:
                raise DamagedLedger(
                    f"expected no file {name}, or the same one, got other bytes; move it away"
                )
        return file

    def append(self, entry: Entry) -> bool:
        """Add an entry; false if another one has got its number. ``begun`` has it once it is there."""
        path, text = self.path / f"{entry.number:06d}.json", entry.text()
        try:
            self._write(path.name, text, may_exist=False)
        except FileExistsError:
            self._tidy()
            return False
        finally:  # also after Ctrl-C
            if path.exists() and path.read_bytes() == text:
                begun.append(path)
                for file in entry.files:
                    self._settle(file)
        self._tidy()
        return True

    def _tidy(self) -> None:
        """Remove waiting files whose number an entry has that does not name them: their writer was second."""
        for path in self.path.glob(f"{_PENDING}*"):
            entry = self.path / f"{path.name.removeprefix(_PENDING)[:6]}.json"
            with suppress(OSError):
                if path.name.removeprefix(_PENDING).encode() not in entry.read_bytes():
                    path.unlink(missing_ok=True)

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
        """The bytes of a file, which must be one: a pipe would be waited for."""
        path = self.path / name
        try:
            if path.exists() and not path.is_file():
                raise DamagedLedger(f"expected the file {name}, got something that is no file")
            return path.read_bytes()
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
_HEAD_SECTIONS = ("data", "privacy", "attacker", "limits", "rules", "secret")
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
    plan = checked_plan({**head, "release": [any_release]}, HEAD)
    require(
        not plan.data.blocks,
        f"{HEAD}: no [data] blocks",
        got="some",
        fix="a ledger keeps who was in which group, not in which block: make one row of each block by "
        "[data] sql, and audit whether they hold in one plan",
        error=InvalidPlan,
    )
    require(
        not any(one.audited for one in plan.secrets),
        f"{HEAD}: [[secret]] with its column alone",
        got="what it can be, too",
        fix="a ledger is about one secret: start one for each",
        error=InvalidPlan,
    )
    return plan


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
