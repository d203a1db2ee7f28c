"""The folder of a ledger: files that appear whole, and entries whose number is the lock.

A file is written under another name, flushed to the disk, and linked to its own name: it is there as a whole
or not at all. The files of an entry are named after their content and are there before the entry is. Two
writers want the same number: the link of one fails, and that one reads the ledger and decides again.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sightline.errors import DamagedLedger, InvalidInput
from sightline.ledger.entries import NO_ENTRY, Entry, StoredFile
from sightline.report.files import begun

HEAD = "head.toml"
_ENTRY = re.compile(r"(\d{6})\.json")
_DRAFT = ".draft-"
_MODE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The entries that were read, and the hash of the last one."""

    entries: tuple[Entry, ...]
    last: str = NO_ENTRY


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
        last, entries = NO_ENTRY, []
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
                handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
                with os.fdopen(handle, "wb") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
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
