"""A ledger: what was published about a table's people, and whether one more release may follow.

Every verb reads the whole chain and checks it. Nothing is locked during an audit: ``add`` decides, and if
somebody else was faster, it reads what they added and decides again.
"""

from __future__ import annotations

import getpass
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.plan import Release
from sightline.auditing.query_files import rebased
from sightline.auditing.reading import plan_file_text, with_limit
from sightline.auditing.result_parts import FEW
from sightline.auditing.session import opened
from sightline.bounds.chance_of_error import one_budget
from sightline.errors import DamagedLedger, InvalidInput, InvalidPlan, require
from sightline.format import percent_stated
from sightline.ledger.decision import (
    ReleaseDecision,
    Standing,
    decide,
    needed_whatever_the_noise,
    standing,
)
from sightline.ledger.entries import Entry, StoredMembership
from sightline.ledger.folder import (
    HEAD,
    AnyPath,
    Chain,
    LedgerFolder,
    ReleaseLike,
    head_of,
    plan_of,
    release_of,
)
from sightline.ledger.frozen import Found, FrozenRelease, Hashes, PeopleKey, freeze, numbered, renumbered
from sightline.ledger.history import History, PastRelease, history
from sightline.ledger.storage import (
    files,
    read_groups,
    read_people,
    renamed,
    write_table,
    written_groups,
    written_people,
)
from sightline.ledger.turnover import turnover, under_number
from sightline.progress import Progress, reporting
from sightline.report.files import check_new, write_new
from sightline.report.wording import said
from sightline.tables.engines.address import file_bytes
from sightline.values import frozen

ONE_VALUE, BY_EPOCH = "one", "by-epoch"


@frozen(slots=False)
class _State:
    """A ledger as it was read: the entries, who is who, and the releases that count."""

    chain: Chain
    head: dict[str, Any]
    hashes: Hashes  # of all people, by number
    keys: list[str]  # theirs, where they are in clear
    past: tuple[PastRelease, ...]

    @property
    def limited_head(self) -> dict[str, Any]:
        """The head with the limit that holds now."""
        changed = [one.limit for one in self.chain.entries if one.kind == "limit"]
        limits = self.head.get("limits", {}) | ({"remaining_uncertainty": changed[-1]} if changed else {})
        return {**self.head, "limits": limits} if limits else self.head

    @property
    def despite(self) -> tuple[str, ...]:
        """Everything that was added despite its check, or that changed what is asked."""
        words = {
            "release": "added despite its check",
            "limit": "another limit",
            "cancel": "cancelled",
            "clock": "the clock was corrected",
        }
        return tuple(
            f"entry {one.number}, {one.at[:10]}: {words[one.kind]}"
            + (f" ({percent_stated(one.limit)})" if one.kind == "limit" else "")
            + f": {one.despite}"
            for one in self.chain.entries
            if one.despite
        )


@frozen(slots=False)
class _Candidate:
    """A release that was run on the table, and what it would do."""

    state: _State
    frozen: FrozenRelease
    added: PastRelease
    new: IndexArray  # the places of people whom the ledger does not know yet
    decision: ReleaseDecision


@dataclass(frozen=True, slots=True)
class Ledger:
    """A folder with everything that was published about a table's people."""

    folder: LedgerFolder
    key: PeopleKey

    @classmethod
    def open(cls, folder: AnyPath, *, key: AnyPath | None = None) -> Ledger:
        """The ledger in a folder; ``key`` is the file that it was started with, none if keys are in clear."""
        ledger = cls(LedgerFolder(Path(folder)), PeopleKey.read(key))
        start = ledger.folder.chain().entries[0]
        require(
            ledger.key.check == start.key_check,
            "the key that the ledger was started with" if start.key_check else "no key: keys are in clear",
            got="another" if ledger.key.key else "none",
            fix="give --key FILE" if start.key_check else "leave --key out",
        )
        return ledger

    @classmethod
    def start(cls, folder: AnyPath, *, head: AnyPath, values: str, key: AnyPath | None = None) -> Ledger:
        """Start a ledger from a plan without releases.

        ``values`` says whether all releases are about one value of each person ("one"), or each epoch has a
        value of its own ("by-epoch").
        """
        require(values in (ONE_VALUE, BY_EPOCH), f"values {ONE_VALUE!r} or {BY_EPOCH!r}", got=repr(values))
        given = head_of(file_bytes(Path(head), "a head", error=InvalidInput), Path(head).name)
        plan = plan_of(rebased(given, Path(head).absolute().parent))
        with opened(plan, Path()):
            pass
        text = plan_file_text(plan, without=("release",)).encode()
        ledger = cls(LedgerFolder(Path(folder)), PeopleKey.read(key))
        first = {"head": hashlib.sha256(text).hexdigest(), "key_check": ledger.key.check, "values": values}
        ledger.folder.start(text, _entry(Chain(entries=()), kind="start", **first))
        return ledger

    @one_budget()
    def check(
        self,
        release: ReleaseLike,
        *,
        epoch: str = "",
        table: AnyPath | None = None,
        top: int = FEW,
        progress: Progress | None = None,
    ) -> ReleaseDecision:
        """What this release would do after all others. Nothing is written.

        ``table`` is another file with the columns of the head's, such as this month's; ``top`` people are
        named of each list.
        """
        with reporting(progress):
            return self._candidate(release_of(release, self._head["data"]), epoch, table, top).decision

    @one_budget()
    def add(
        self,
        release: ReleaseLike,
        *,
        epoch: str = "",
        table: AnyPath | None = None,
        despite: str = "",
        top: int = FEW,
        progress: Progress | None = None,
    ) -> tuple[ReleaseDecision, int | None]:
        """Decide again, and append the release if everyone keeps the limit, or ``despite`` a stated reason.

        Returns the decision and the number of the new entry; none if nothing was added. Only with a number
        may the release go out.
        """
        own = release_of(release, self._head["data"])
        with reporting(progress):
            while True:  # whoever was faster has added an entry, which is read next
                candidate = self._candidate(own, epoch, table, top)
                failed = candidate.decision.held_back
                if failed and not despite:
                    return candidate.decision, None
                entry = self._release_entry(candidate, despite if failed else "")
                if self.folder.append(entry):
                    return candidate.decision, entry.number

    def cancel(self, number: int, *, reason: str) -> int:
        """An entry that no one saw no longer counts; both stay. Returns the number of the new entry."""
        require(bool(reason.strip()), "a reason", got="nothing")

        def cancelled(chain: Chain) -> Entry:
            releases = {one.number for one in chain.entries if one.kind == "release"}
            counting = releases - _cancelled(chain)
            require(number in counting, "the number of a release that counts", got=number)
            return _entry(chain, kind="cancel", cancels=number, despite=reason)

        return self._append(cancelled)

    def start_epoch(self, name: str) -> int:
        """Start an epoch: its releases are about a new value of each person."""

        def started(chain: Chain) -> Entry:
            values = chain.entries[0].values
            require(values == BY_EPOCH, f"a ledger with values {BY_EPOCH!r}", got=repr(values))
            fresh = name.strip() and name not in _epochs(chain)
            require(bool(fresh), "the name of a new epoch", got=repr(name[:60]))
            return _entry(chain, kind="epoch", epoch=name)

        return self._append(started)

    def set_limit(self, limit: float | str, *, reason: str) -> int:
        """Set another limit for all later answers, which will list it."""
        require(bool(reason.strip()), "a reason", got="nothing")
        share = with_limit(plan_of(self._head), limit).limits.remaining_uncertainty
        require(share > 0, "a share, such as 40%", got=f"{limit!s:.20}", error=InvalidPlan)
        return self._append(lambda chain: _entry(chain, kind="limit", limit=share, despite=reason))

    def correct_clock(self, *, reason: str) -> int:
        """Go on from the time that the clock has now, after an entry with a later one. All entries stay."""
        require(bool(reason.strip()), "a reason", got="nothing")
        return self._append(lambda chain: _entry(chain, at=_clock(), kind="clock", despite=reason))

    def merge(self, other: AnyPath) -> tuple[int, ...]:
        """Add what another copy of this ledger has published since the two parted, as published.

        Returns the numbers of the new entries. What was merged before is not added again.
        """
        foreign = Ledger(LedgerFolder(Path(other)), self.key)._state(every_file=True)
        pairs = zip(self.folder.chain().entries, foreign.chain.entries, strict=False)
        parted = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        require(parted > 0, "another copy of this ledger", got="another ledger")
        published = {one.number: one for one in foreign.past}
        numbers = []
        for entry in foreign.chain.entries[parted:]:
            ours, digest = self.folder.chain(), hashlib.sha256(entry.text()).hexdigest()
            if digest in {one.merged for one in ours.entries}:
                continue
            despite = f"entry {entry.number} of another copy, {entry.at[:10]}; {entry.despite}".rstrip("; ")
            merged: dict[str, Any] = {"kind": entry.kind, "merged": digest, "despite": despite}
            match entry.kind:
                case "release" if entry.number in published:
                    make = partial(self._merged_release, published[entry.number], entry, foreign, merged)
                case "epoch" if entry.epoch not in _epochs(ours):
                    make = partial(_entry, **{**merged, "despite": ""}, epoch=entry.epoch)
                case "limit":
                    make = partial(_entry, **merged, limit=entry.limit)
                case "cancel" if entry.cancels < parted and entry.cancels not in _cancelled(ours):
                    make = partial(_entry, **merged, cancels=entry.cancels)
                case _:  # of both copies, of a release that nobody saw, or of a clock
                    continue
            numbers.append(self._append(make))
        return tuple(numbers)

    def _merged_release(
        self, release: PastRelease, entry: Entry, foreign: _State, merged: dict[str, Any], _: Chain
    ) -> Entry:
        """The entry of a release that another copy has published; its files are stored."""
        state = self._state()
        number = len(state.chain.entries)
        people = np.unique(release.groups.person)
        person, new = numbered(state.hashes, foreign.hashes[people])
        here = np.full(len(foreign.hashes), -1, dtype=np.intp)
        here[people] = person
        added = replace(
            release,
            number=number,
            groups=renumbered(release.groups, here),
            numbers=under_number(release.numbers, number),
        )
        keys = [foreign.keys[one] for one in people[new].tolist()] if foreign.keys else None
        copied = {name: getattr(entry, name) for name in ("release", "table", "answers", "columns", "public")}
        return self._stored(state, added, foreign.hashes[people[new]], keys, **merged, **copied)

    def standing(self) -> tuple[Standing, int]:
        """Where everyone stands after all releases that count, and how many these are."""
        state = self._state()
        if not state.past:
            return Standing(identifiable=0, below=0, least=None, epsilon={}), 0
        label = _label(state, np.zeros(0, dtype=np.intp), [])
        return standing(_history(state.limited_head, state.past, label=label)), len(state.past)

    def log(self) -> tuple[Entry, ...]:
        """All entries, in order."""
        return self.folder.chain().entries

    def verify(self, *, head: str | None = None) -> str:
        """Read everything, compare it with its hashes, and return the hash of the last entry.

        ``head`` is such a hash that was kept: it must be that of an entry.
        """
        for entry in self.log():  # hashes of all files first: then they are read
            for file in entry.files:
                self.folder.checked(file)
        self.folder.require_no_strangers()
        state = self._state(every_file=True)
        hashes = [one.before for one in state.chain.entries[1:]] + [state.chain.last]
        if head is not None and head not in hashes:
            raise DamagedLedger("expected the kept hash among the entries, got none: entries were rewritten")
        return state.chain.last

    def plan(self, out: AnyPath) -> Path:
        """Write everything so far as a plan, and its table beside it, both for the owner only.

        The values of its secret are no one's: they give every release its true sums. What an audit reads from
        single values, such as how few there are, they do not show: the plan lists what is not verified.
        """
        path = Path(out)
        table = path.with_suffix(".parquet")
        for file in (path, table):
            check_new(file, force=False)
        state = self._state()
        require(bool(state.past), "a ledger with a release that counts", got="none")
        require(
            not plan_of(self._head).rules.of_values,
            "a ledger without rules about values: the values of its plan are no one's",
            got="dominance or p",
            fix="ledger check asks for them",
            error=InvalidPlan,
        )
        made = _history(state.limited_head, state.past, label=_label(state, np.zeros(0, dtype=np.intp), []))
        with LedgerFolder(path.absolute().parent).draft() as draft:
            write_table(made, draft)
            write_new(table, draft.read_bytes(), force=False, owner_only=True)
        data = made.plan.data.model_copy(update={"source": table.name})
        open_ones = needed_whatever_the_noise(made)
        limits = made.plan.limits.model_copy(update={"unverified": open_ones})
        # Columns of other secrets are not in the table: that they are open is among what is not verified.
        changed = {"data": data, "limits": limits, "secrets": ()}
        text = plan_file_text(made.plan.model_copy(update=changed))
        write_new(path, text.encode(), force=False, owner_only=True)
        return path

    @property
    def _head(self) -> dict[str, Any]:
        return head_of(self.folder.read(HEAD), HEAD)

    def _append(self, make: Callable[[Chain], Entry]) -> int:
        """Append the entry that is made from the chain; made again if others were faster."""
        while True:
            entry = make(self.folder.chain())
            if self.folder.append(entry):
                return entry.number

    def _candidate(self, release: Release, epoch: str, table: AnyPath | None, top: int) -> _Candidate:
        self.folder.require_no_strangers()
        state = self._state()
        _check_epoch(state.chain, epoch)
        _check_name(state.chain, release)
        head = state.limited_head
        if table is not None:
            head = {**head, "data": {**head["data"], "source": str(table)}}
            head = rebased(head, Path().absolute())
        number = len(state.chain.entries)
        frozen = freeze(plan_of(head), Path(), release, number=number, key=self.key)
        before = [one for one in state.chain.entries if one.kind == "release"]
        require(
            not before or before[-1].columns == frozen.columns,
            f"columns of the kinds {' and '.join(before[-1].columns if before else ())}, as before",
            got=" and ".join(frozen.columns),
            fix="has the table changed?",
        )
        person, new = numbered(state.hashes, frozen.hashes)
        moved = turnover(state.hashes, frozen.keys, new, self.key) if before else []
        found = replace(frozen.found, assumptions=(*frozen.found.assumptions, *moved))
        require(
            not before or new.size < len(person),
            "a table with people whom the ledger knows",
            got="another table, with none of them",
            fix="has the record's key changed?",
        )
        added = PastRelease(
            number=number,
            release=frozen.release,
            epoch=epoch,
            numbers=frozen.numbers,
            groups=renumbered(frozen.groups, person),
            found=found,
            public=frozen.public,
        )
        label = _label(state, person, frozen.keys)
        made = _history(head, (*state.past, added), label=label)
        decision = decide(
            made,
            number=number,
            despite=state.despite,
            top=top,
            followed=lambda release: _history(head, (*state.past, added, release), label=label),
            worth=_worth(np.concatenate([state.hashes, frozen.hashes[new]]), frozen),
        )
        return _Candidate(state=state, frozen=frozen, added=added, new=new, decision=decision)

    def _release_entry(self, candidate: _Candidate, despite: str) -> Entry:
        """The entry of a release; its files are stored."""
        frozen, state, new = candidate.frozen, candidate.state, candidate.new
        _now(state.chain)  # a wrong clock is refused before anything is written
        status = candidate.decision.result.verdict.status
        return self._stored(
            state,
            candidate.added,
            frozen.hashes[new],
            None if self.key.key else [frozen.keys[place] for place in new.tolist()],
            release=frozen.release,
            table=frozen.table,
            answers=frozen.found.answers,
            columns=frozen.columns,
            public=frozen.public,
            verdict=said("", status and status.value),
            kind="release",
            despite=despite,
        )

    def _stored(
        self, state: _State, added: PastRelease, new: Hashes, keys: list[str] | None, **content: Any
    ) -> Entry:
        """The next entry, for a release with some new people; its files are stored."""
        alike = [one for one in reversed(state.past) if one.release.sql == added.release.sql]
        bases = ((one.number, renamed(one.groups, one.numbers, added.numbers)) for one in alike)
        since, base = next(bases, (-1, None))
        with files() as connection:
            text, changes, rows = written_groups(connection, self.folder, added.groups, base)
            people = written_people(connection, self.folder, new, keys) if len(new) else b""
        stem = f"{added.number:06d}"
        return _entry(
            state.chain,
            epoch=added.epoch,
            numbers=added.numbers,
            members=StoredMembership(
                file=self.folder.store(text, f"{stem}.parquet"),
                people=rows,
                since=since if changes else -1,
            ),
            new_people=self.folder.store(people, f"{stem}.people.parquet") if len(new) else None,
            private=self.folder.store(added.found.text(), f"{stem}.owner.json"),
            **content,
        )

    def _state(self, *, every_file: bool = False) -> _State:
        """Read the ledger; with ``every_file`` the owner's files must be there, too."""
        chain = self.folder.chain()
        cancelled = _cancelled(chain)
        hashes, keys = [np.zeros((0, 2), dtype=np.uint64)], list[str]()
        past: dict[int, PastRelease] = {}
        with files() as connection:
            for entry in chain.entries:
                if entry.release is None or entry.members is None:
                    continue
                if entry.new_people is not None:
                    own, clear = read_people(connection, self.folder.checked(entry.new_people))
                    hashes.append(own)
                    keys += clear
                earlier = past.get(entry.members.since)
                base = renamed(earlier.groups, earlier.numbers, entry.numbers) if earlier else None
                path, found = self.folder.checked(entry.members.file), self._found(entry, strict=every_file)
                past[entry.number] = PastRelease(
                    number=entry.number,
                    release=entry.release,
                    epoch=entry.epoch,
                    numbers=entry.numbers,
                    groups=read_groups(connection, path, base, len(entry.numbers)),
                    found=next(iter(found), Found()),
                    lost=not found,
                    public=entry.public,
                )
        return _State(
            chain=chain,
            head=self._head,
            hashes=np.concatenate(hashes),
            keys=keys,
            past=tuple(one for number, one in past.items() if number not in cancelled),
        )

    def _found(self, entry: Entry, *, strict: bool) -> list[Found]:
        """What the owner's file of a release has; none if it is missing, which only a check can do with."""
        there = [
            one for one in (entry.private,) if one and (strict or (self.folder.path / one.name).exists())
        ]
        return [Found.of_text(self.folder.checked(file).read_bytes()) for file in there]


def _entry(chain: Chain, at: str = "", **content: Any) -> Entry:
    """The next entry of a chain."""
    return Entry(number=len(chain.entries), at=at or _now(chain), by=_user(), before=chain.last, **content)


def _now(chain: Chain) -> str:
    """The time, which must not be before the last entry's."""
    now = _clock()
    require(
        not chain.entries or chain.entries[-1].at <= now,
        f"a time after the last entry's, {chain.entries[-1].at if chain.entries else ''}",
        got=now,
        fix="set the clock; if that entry's was wrong, sightline ledger clock FOLDER --reason TEXT",
    )
    return now


def _clock() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have a user without a name
        return "unknown"


def _cancelled(chain: Chain) -> set[int]:
    return {one.cancels for one in chain.entries}


def _epochs(chain: Chain) -> list[str]:
    return [one.epoch for one in chain.entries if one.kind == "epoch"]


def _check_epoch(chain: Chain, epoch: str) -> None:
    known = _epochs(chain) if chain.entries[0].values == BY_EPOCH else [""]
    require(
        epoch in known,
        f"an epoch of the ledger: {', '.join(known[-5:]) or 'none was started'}"
        if known != [""]
        else "no epoch: all releases are about one value",
        got=repr(epoch[:60]) if epoch else "none",
        fix="sightline ledger epoch FOLDER NAME starts one" if known != [""] else "",
    )


def _check_name(chain: Chain, release: Release) -> None:
    """A name means one query; the same query may be published again under its name."""
    for one in chain.entries:
        if one.release is not None and one.release.name == release.name:
            require(
                one.release.sql == release.sql,
                f"another name, since entry {one.number} has {release.name[:60]!r} for another query",
                got="the same",
            )


def _worth(people: Hashes, frozen: FrozenRelease) -> FloatArray:
    """The number that each of some people has in the table; NaN for those who are not there."""
    worth = np.full(len(people), np.nan)
    hashes, values = frozen.worth
    place, _ = numbered(people, hashes)
    listed = place < len(people)
    worth[place[listed]] = values[listed]
    return worth


def _label(state: _State, person: IndexArray, present: Sequence[str]) -> Callable[[int], str]:
    """What to call a person: their key if it is known; else in words, which are nobody's key."""

    @cache
    def place() -> IndexArray:
        places = np.full(len(state.hashes) + person.size, -1)
        places[person] = np.arange(person.size)
        return places

    def named(one: int) -> str:
        if (own := int(place()[one])) >= 0:
            return present[own]
        return state.keys[one] if state.keys else f"somebody not in this table (ledger number {one})"

    return named


def _history(
    head: Mapping[str, Any], releases: Sequence[PastRelease], *, label: Callable[[int], str]
) -> History:
    return history(head, releases, kind=plan_of(head).data.secret_kind, label=label)
