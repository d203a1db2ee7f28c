"""The entries of a ledger: what happened, in order, each with the hash of the one before.

An entry is a JSON file in one form only (:meth:`Entry.text`), and carries a digest of itself: a flipped bit
anywhere is seen. Rewriting the end of the chain is seen by whoever kept the hash of its last entry.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sightline.auditing.plan import Release
from sightline.errors import DamagedLedger, InvalidInput

# The format of the entries and of their files: whoever changes either counts on. Every version has a text of
# this form with its own digest, so that a newer entry is told from a damaged one.
VERSION: Literal["sightline.ledger/3"] = "sightline.ledger/3"
_Many = Field(strict=False)


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class StoredFile(_Part):
    """A file beside the entry, named after its content."""

    name: str
    sha256: str


class Aggregate(_Part):
    """One number for each group: what is added up or averaged of its people, and under which noise."""

    statistic: Literal["mean", "sum"]
    feature: Literal["value", "indicator", "power", "threshold", "band", "clipped"]
    law: str  # of the noise
    sizes: Annotated[tuple[float, ...], _Many]  # of the noise on each group
    label: str = ""
    above: bool = True  # false: 1 minus the feature
    levels: Annotated[tuple[float | None, ...], _Many] = ()  # a power, a threshold, or two ends of a range
    closed: Annotated[tuple[bool, ...], _Many] = ()  # whether each level belongs to what lies above it
    categories: Annotated[tuple[str, ...], _Many] = ()


class FrozenNumbers(_Part):
    """Numbers of one release over the same groups of people: one column of the ledger's table."""

    column: str
    groups: Annotated[tuple[str, ...], _Many]  # the group of each code, for people
    aggregates: Annotated[tuple[Aggregate, ...], _Many]
    weight: str = ""  # the column of the rows' weights; empty if all are 1


class StoredMembership(_Part):
    """Who was in which number: stored whole, or as what changed since another entry."""

    file: StoredFile
    people: int  # rows of the file
    since: int = -1  # the entry that it is a change of; -1 if it is whole


class Entry(_Part):
    """One entry. Which of the fields after ``before`` are given depends on its kind."""

    version: Literal["sightline.ledger/3"] = VERSION
    number: int
    kind: Literal["start", "release", "cancel", "epoch", "limit", "clock"]
    at: str  # UTC, as 2026-03-01T09:30:00Z
    by: str
    before: str  # SHA-256 of the file of the entry before
    despite: str = ""  # why it was added although the check did not pass
    # start
    head: str = ""  # SHA-256 of head.toml
    key_check: str = ""  # the keyed hash of a fixed text; empty if keys are stored in clear
    values: Literal["", "one", "by-epoch"] = ""
    # release
    release: Release | None = None
    epoch: str = ""
    table: str = ""  # a keyed digest of the rows
    answers: str = ""  # a digest of the true sums
    columns: Annotated[tuple[str, ...], _Many] = ()  # the kinds of the record's and the secret's column
    public: Annotated[tuple[str, ...], _Many] = ()  # columns taken as public that the head does not declare
    numbers: Annotated[tuple[FrozenNumbers, ...], _Many] = ()
    members: StoredMembership | None = None
    new_people: StoredFile | None = None  # the names of people whom no entry before has
    private: StoredFile | None = None  # owner-only: true sums, and what was found in the values
    verdict: str = ""
    merged: str = ""  # SHA-256 of the entry of another copy that it repeats
    # cancel, limit
    cancels: int = -1
    limit: float = 0.0

    @property
    def files(self) -> tuple[StoredFile, ...]:
        """The files that belong to it."""
        own = (self.members and self.members.file, self.new_people, self.private)
        return tuple(one for one in own if one)

    def text(self) -> bytes:
        """The entry as its file has it, with its own digest at the end."""
        return _with_digest(self._content)

    @property
    def _content(self) -> bytes:
        content = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return _json({"version": self.version, **content})

    @classmethod
    def of_text(cls, text: bytes, *, number: int) -> Entry:
        """The entry in a file; :class:`DamagedLedger` if it is not as it was written."""
        damaged = DamagedLedger(
            f"entry {number}: expected an entry as it was written, got another text; restore it from a copy"
        )
        try:
            fields: Any = json.loads(text)
            fields.pop("digest")
            content, version = _json(fields), fields["version"]
            if _with_digest(content) != text or not re.fullmatch(r"sightline\.ledger/[1-9]\d{0,3}", version):
                raise damaged
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            raise damaged from None
        if version != VERSION:
            raise InvalidInput(
                f"entry {number}: expected version {VERSION}, got {version}; use the version that wrote it"
            )
        try:
            entry = cls.model_validate_json(content)
        except ValidationError:
            raise damaged from None
        if entry._content != content or entry.number != number:
            raise damaged
        return entry


def _with_digest(content: bytes) -> bytes:
    """The text of an object with the digest of it as its last field."""
    digest = hashlib.sha256(content).hexdigest().encode()
    return content.removesuffix(b"\n}\n") + b',\n "digest": "%b"\n}\n' % digest


def _json(content: object) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False).encode() + b"\n"
