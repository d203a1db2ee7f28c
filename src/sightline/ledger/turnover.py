"""People who come and go: keys that may be old ones spelled otherwise, and what one joiner or leaver adds."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from sightline.advising.noise_slack import least_factor
from sightline.arrays import IndexArray
from sightline.auditing.findings import Findings, find
from sightline.auditing.plan import AssumptionName
from sightline.auditing.result import Uncertainty
from sightline.format import count
from sightline.ledger.entries import FrozenNumbers
from sightline.ledger.frozen import FrozenGroups, Hashes, PeopleKey, numbered
from sightline.ledger.history import History, PastRelease
from sightline.values import frozen

# More new people than old ones: tables of the same people seldom change so much from one release to the next.
_MANY_NEW = 0.5


def turnover(known: Hashes, keys: Sequence[str], new: IndexArray, key: PeopleKey) -> list[dict[str, Any]]:
    """The assumption that new people are new, where their keys may be old ones in another form; else none.

    A trailing blank, capitals or another Unicode form of a key make somebody else of a person. Nothing is
    normalised, because two keys that look alike may be two people.
    """
    if not len(known) or not new.size:
        return []
    respelled = 0
    for spelled in (str.strip, str.lower, str.upper, _composed, _decomposed):
        other = [(one, spelled(one)) for one in (keys[place] for place in new.tolist())]
        changed = [text for before, text in other if text != before]
        if changed:
            respelled = max(respelled, len(changed) - numbered(known, key.hashes(changed))[1].size)
    if respelled:
        reason = (
            f"{respelled} of {count(len(keys), 'person', 'people')} would be known to the ledger if their "
            "keys were spelled otherwise (blanks, capitals, Unicode): are they new?"
        )
    elif new.size > _MANY_NEW * len(keys):
        reason = f"{new.size} of {count(len(keys), 'person', 'people')} are new to the ledger: is that so?"
    else:
        return []
    return [
        {
            "name": AssumptionName.TURNOVER.value,
            "count": respelled or int(new.size),
            "reason": reason,
            "owner_only": True,
        }
    ]


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def under_number(numbers: Sequence[FrozenNumbers], number: int) -> tuple[FrozenNumbers, ...]:
    """The numbers of a release with the names of columns that an entry of another number has."""
    names = [f"r{number}" if len(numbers) == 1 else f"r{number}_{place + 1}" for place in range(len(numbers))]
    return tuple(
        one.model_copy(update={"column": name, "weight": f"w{name[1:]}" if one.weight else ""})
        for one, name in zip(numbers, names, strict=True)
    )


@frozen(slots=False)
class OneMoves:
    """What is seen if a release is published again after one person joins, or leaves, its smallest group."""

    joins: bool
    group: str
    size: int  # people in the group today
    findings: Findings
    first: int  # the place of the first section whose noise is that of the release

    @property
    def keeps(self) -> bool:
        """Whether everyone is shown to keep the limit then."""
        return not self.findings.not_shown

    @property
    def least(self) -> Uncertainty:
        """What the most exposed person keeps then."""
        return self.findings.least

    @cached_property
    def noise_factor(self) -> float | None:
        """The least factor on the noise of the release, both times, with which everyone keeps the limit."""
        if self.keeps:
            return 1.0
        return least_factor(
            lambda factor: self._with_noise(factor).least.lower, self.findings.limit, now=self.least.lower
        )

    def _with_noise(self, factor: float) -> Findings:
        plan = self.findings.plan
        releases = [
            own
            if place < self.first
            else own.model_copy(update={"noise": tuple(one.times(factor) for one in own.noise)})
            for place, own in enumerate(plan.releases)
        ]
        return find(plan.model_copy(update={"releases": tuple(releases)}), self.findings.membership)


def one_moves(past: History, followed: Callable[[PastRelease], History]) -> OneMoves:
    """The worse of one person joining and one leaving the smallest group of the last release.

    ``followed`` is the history with one more release. Who joins is like a member of that group.
    """
    last = past.releases[-1]
    first = past.sections_before(last.number)

    def cases() -> Iterator[OneMoves]:
        line, code, size = _smallest_group(last.groups)
        for joins in (True, False):
            groups = _moved(last.groups, line, code, joins=joins)
            if not groups.inside.any():
                continue
            number = last.number + 1
            again = replace(last, number=number, groups=groups, numbers=under_number(last.numbers, number))
            after = followed(again)
            yield OneMoves(
                joins=joins,
                group=last.numbers[line].groups[code],
                size=size,
                findings=find(after.plan, after.membership),
                first=first,
            )

    return min(cases(), key=lambda case: case.least.lower)


def _smallest_group(groups: FrozenGroups) -> tuple[int, int, int]:
    """Column, code and size of the smallest group that has anybody."""
    sizes = [
        (int(size), line, code)
        for line, codes in enumerate(groups.codes.T)
        for code, size in enumerate(np.bincount(codes[codes >= 0]).tolist())
        if size
    ]
    size, line, code = min(sizes)
    return line, code, size


def _moved(groups: FrozenGroups, line: int, code: int, *, joins: bool) -> FrozenGroups:
    """The groups after a member of one group has left, or after one more like them has joined."""
    member = groups.person[np.flatnonzero(groups.codes[:, line] == code)[0]]
    rows = np.flatnonzero(groups.person == member)
    names = ("person", "place", "codes", "weights", "known")
    if not joins:
        return FrozenGroups(**{name: np.delete(getattr(groups, name), rows, axis=0) for name in names})
    added = {name: np.concatenate([getattr(groups, name), getattr(groups, name)[rows]]) for name in names}
    added["person"][-rows.size :] = groups.numbers
    added["known"][-rows.size :] = False
    return FrozenGroups(**added)
