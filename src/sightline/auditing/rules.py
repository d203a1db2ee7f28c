r"""The rules that statistical offices sign: k, dominance and p %, for numbers and for what follows from them.

They are about people, whatever number of rows each has. A combination is one published number, or a
difference of two or three of them. What no three numbers give but
elimination does, a group or a person that the numbers tell apart, is added from the audit.

- *k*: fewer than k people are behind a combination, or are counted in one that is a count
  (:mod:`sightline.auditing.small_counts`).
- *dominance (n, share)*: of an exact sum, the n largest are more than this share of it.
- *p %*: of an exact sum, what is left without the two largest is less than p % of the largest: who is the
  second knows the first to within p %.

What a person adds to a sum is the sum of their rows in it, each times its weight. A count is no such sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.differences import FewPeople, Sum, sums, with_few_people
from sightline.auditing.findings import Findings, LinearFindings, findings_with
from sightline.auditing.known_sums import Totals
from sightline.auditing.lowering import cell_name
from sightline.auditing.plan_sections import Rules
from sightline.auditing.recipes import RecipeWriter
from sightline.auditing.result_parts import MOST_LISTED, BrokenRule, Fact, RulesReport, fact
from sightline.auditing.small_counts import small_counts
from sightline.auditing.stated_noise import counts_people
from sightline.errors import require_plan
from sightline.tables.membership import YES_OR_NO, Feature
from sightline.tables.overlaps import (
    Contributions,
    PeopleBehind,
    PeopleInMemory,
    marks_of,
)
from sightline.values import frozen


class Broken(StrEnum):
    """Why a combination breaks a rule; and what was looked at."""

    FEWER_BEHIND = "fewer behind it"
    DOMINANCE = "dominance"
    SECOND_KNOWS = "second knows"
    SCOPE = "scope"


def rules_report(
    findings: Findings,
    contributions: Callable[[], Contributions],
    behind: PeopleBehind,
    totals: Totals | None = None,
) -> RulesReport:
    """Whether the plan's rules hold.

    ``contributions`` fetches what people add to sums, for exact ones. ``behind`` counts the people, and
    ``totals`` the answers of which published counts are; without it these are not looked at.
    """
    rules = findings.plan.rules
    membership, broken, in_all, reach = findings.membership, list[BrokenRule](), 0, 3
    # Of persons in a store few are listed, and what tells them apart is decided among all.
    listed = not findings.streamed or membership.contributions == 1
    require_plan(
        listed or not rules.of_values,
        "dominance and p of records with one row, or of a table that fits the memory",
        got=f"up to {membership.contributions:,} rows a record in a table that is streamed",
        fix="allow more --max-memory",
    )
    if rules.k > 1:
        in_memory = PeopleInMemory(membership=membership)
        few = with_few_people(membership, behind, rules.k)
        groups = _singled_out(findings, few, rules.k, in_memory) if listed else []
        order = sorted(range(len(few.cells)), key=lambda one: (few.people[one], few.cells[one]))
        first = [(few.people[one], _difference(findings, few.cells[one])) for one in order[:MOST_LISTED]]
        first += [(group.people, group.names(findings)) for group in groups[:MOST_LISTED]]
        broken += [_too_few(people, names, rules.k) for people, names in first]
        in_all, reach = len(few.cells) + len(groups), few.numbers
    people = counts_people(findings.plan, membership)
    totals_looked_at = False
    counted = totals is not None and people and not membership.known_rows
    if rules.k > 1 and totals is not None and counted:
        by_counts, compared = small_counts(findings, totals, rules.k)
        broken, in_all, reach = [*broken, *by_counts], in_all + len(by_counts), min([reach, *compared])
        totals_looked_at = min(compared, default=1) > 1
    of_values, numbers, eliminated = (
        _of_values(findings, contributions, behind) if rules.of_values else ([], 3, listed)
    )
    broken = sorted([*broken, *of_values], key=lambda one: (one.people, one.rule))
    return RulesReport(
        broken=tuple(broken[:MOST_LISTED]),
        in_all=in_all + len(of_values),
        scope=fact(
            Broken.SCOPE,
            rules=rules.text,
            numbers=min(reach, numbers),
            totals=totals_looked_at,
            eliminated=bool(eliminated),
            counts_left_out=bool(rules.k > 1 and not counted and findings.pricing.exact.any()),
        ),
    )


Names = tuple[str, str]  # for the owner, and for everyone


@frozen
class _Group:
    """Signatures, or kinds of persons, of which the numbers tell something apart from all others."""

    found: LinearFindings
    column: int
    records: IndexArray
    people: int

    def names(self, findings: Findings) -> Names:
        recipe = RecipeWriter(findings=findings, found=self.found).best(self.column)
        text = "a combination of numbers"
        return (text, text) if recipe is None else (recipe.text, recipe.publishable_text or recipe.text)


def _told_apart(findings: Findings, found: LinearFindings, most: float) -> Iterator[_Group]:
    """The groups of fewer than ``most`` people that are told apart, by elimination."""
    membership, lowered = findings.membership, found.linear
    units = np.flatnonzero(found.per_unit(found.visible).any(axis=1))
    unit_of, table = lowered.unit_of_record, membership.persons
    if lowered.by_kind or not membership.by_person:
        people = np.bincount(unit_of[unit_of >= 0], membership.people[unit_of >= 0], len(found.people))
    else:  # the rows of a signature may be those of fewer people
        own = unit_of[table.signatures]
        pairs = np.unique(table.kind_of[own >= 0] * np.intp(len(found.people)) + own[own >= 0])
        people = np.bincount(
            pairs % len(found.people), table.persons[pairs // len(found.people)], len(found.people)
        )
    for unit in units[people[units] < most].tolist():
        column = unit * lowered.columns_of_unit + int(found.per_unit(found.visible)[unit].argmax())
        yield _Group(found=found, column=column, records=lowered.records_of(column), people=int(people[unit]))


def _eliminated(findings: Findings, chosen: NDArray[np.bool_]) -> tuple[list[LinearFindings], bool]:
    """What the chosen numbers expose of rows one by one, and of persons with several; whether it is known."""
    found = findings.linear
    if not chosen[found.linear.cells].any():
        return [], True
    rows, several = chosen[found.linear.cells], found.linear.rows_of_unit.max(initial=1) > 1
    if rows.all():
        return [findings.rows_apart, found] if several else [found], True
    if not found.repeatable:
        return [], False
    some = (findings.rows_apart if several else found).linear.take(np.flatnonzero(rows))
    return [findings_with(findings, some.alike_together() if several else some)], True


def _singled_out(findings: Findings, found: FewPeople, k: int, behind: PeopleInMemory) -> list[_Group]:
    """The groups of fewer than k people that are told apart and that no combination is about."""
    every = np.ones(len(findings.membership.cells), dtype=np.bool_)
    parts, _ = _eliminated(findings, every)
    marks, listed = marks_of(findings.membership.signatures.T), list[_Group]()
    alone: set[int] = set()  # kinds of persons with several rows that are alone behind something
    for part in parts:
        for group in _told_apart(findings, part, k):
            by_kind = part.linear.by_kind
            if by_kind and not alone:
                alone = _alone(found, listed, behind)
            known_already = (
                alone.issuperset(group.records.tolist())
                if by_kind
                else found.tells(int(marks[group.records].sum()))
            )
            if not known_already:
                listed.append(group)
    return sorted(listed, key=lambda group: (group.people, group.column))


def _alone(found: FewPeople, groups: list[_Group], behind: PeopleInMemory) -> set[int]:
    """Kinds of persons that are alone behind one of the combinations, or alone in one of the groups."""
    alone: set[int] = set()
    for numbers in sorted({len(cells) for cells in found.cells}):
        own = np.array([cells for cells in found.cells if len(cells) == numbers], dtype=np.intp)
        for _, _, kinds in behind.behind(own):
            alone.update(_only(kinds))
    for group in groups:
        alone.update(_only(behind.rows[:, group.records].sum(axis=1)[:, None]))
    return alone


def _only(kinds: Any) -> list[int]:
    """Of every column with one entry that is not zero, where it is."""
    columns = sparse.csc_array(kinds)
    columns.eliminate_zeros()
    single = np.flatnonzero(np.diff(columns.indptr) == 1)
    columns_alone: list[int] = columns.indices[columns.indptr[single]].tolist()
    return columns_alone


def _difference(findings: Findings, cells: tuple[int, ...]) -> Names:
    """What a number or a difference of numbers is called."""

    def text(owner: bool) -> str:
        withheld = [findings.key_columns[findings.membership.cells[cell].partition] for cell in cells]
        names = [
            f'"{cell_name(findings.membership, cell, withheld=frozenset() if owner else keys)}"'
            for cell, keys in zip(cells, withheld, strict=True)
        ]
        return " − ".join(names)

    return text(True), text(False)


def _too_few(people: int, names: Names, k: int) -> BrokenRule:
    return BrokenRule(
        rule="k",
        people=people,
        combination=names[0],
        publishable_combination=names[1],
        why=fact(Broken.FEWER_BEHIND, people=people, k=k),
        owner_only=False,
    )


@frozen
class _Largest:
    """What each of the people adds who may be among the largest, and the sum of all. Owner-only.

    Of people with rows of one signature, the largest of each signature are enough.
    """

    each: Any  # people × signatures
    total: FloatArray  # over the signatures

    @classmethod
    def of(cls, rows: Contributions, signatures: int, most: int) -> _Largest:
        alone = (np.bincount(rows.person) == 1)[rows.person]
        order = np.lexsort((-rows.value, ~alone, rows.signature))  # those with one signature first
        signature = rows.signature[order]
        place = np.arange(signature.size) - np.searchsorted(signature, np.arange(signatures))[signature]
        kept = order[(place < most) | ~alone[order]]
        people, person = np.unique(rows.person[kept], return_inverse=True)
        entries = rows.value[kept], (person.ravel(), rows.signature[kept])
        total = np.bincount(rows.signature, rows.value, minlength=signatures).astype(np.float64)
        return cls(each=sparse.csc_array(entries, shape=(people.size, signatures)), total=total)


def _of_values(
    findings: Findings, contributions: Callable[[], Contributions], behind: PeopleBehind
) -> tuple[list[BrokenRule], int, bool]:
    """Exact sums that break a rule on values, how many numbers were compared, and whether by elimination."""
    data, rules, membership = findings.plan.data, findings.plan.rules, findings.membership
    features = [membership.partitions[cell.partition].feature for cell in membership.cells]
    exact = findings.pricing.exact & np.array([one not in YES_OR_NO for one in features], dtype=np.bool_)
    if not exact.any():
        return [], 3, True
    require_plan(
        data.secret_kind.measured and data.domain[0] >= 0,
        "dominance and p for sums of numbers from 0 on",
        got=f"{data.secret_kind.value}s from {data.domain[0]:g}",
        fix="a share of a sum is none where numbers cancel",
    )
    require_plan(
        all(features[cell] is Feature.VALUE for cell in np.flatnonzero(exact)),
        f"dominance and p for exact sums of {data.secret}",
        got="an exact sum of its powers, or of what is left of it between two levels",
        fix="compute that in sql of [data], as a secret of its own",
    )
    exact_sums, numbers = sums(behind, exact)
    require_plan(
        all(bool(np.all(own.weights >= 0)) for own in exact_sums),
        "dominance and p for sums with weights from 0 on",
        got="a negative weight",
        fix="a share of a sum is none where numbers cancel",
    )
    largest = _Largest.of(contributions(), len(membership.counts), max(rules.dominance[0], 2))
    broken = [
        one for own in exact_sums for one in _broken(own, rules, largest, _difference(findings, own.cells)[0])
    ]
    seen = {own.signatures.tobytes() for own in exact_sums if np.ptp(own.weights) == 0}
    parts, known = _eliminated(findings, exact)
    for part in parts:
        for group in _told_apart(findings, part, np.inf) if not part.linear.by_kind else ():
            alike = np.ones(group.records.size)  # what tells rows apart tells them by their weights, too
            own = Sum(cells=(), signatures=group.records, weights=alike, people=group.people)
            if own.signatures.tobytes() not in seen:
                broken += _broken(own, rules, largest, group.names(findings)[0])
    return broken, numbers, known


def _broken(own: Sum, rules: Rules, largest: _Largest, name: str) -> Iterator[BrokenRule]:
    """The rules on values that the sum over some signatures breaks."""
    total = float(largest.total[own.signatures] @ own.weights)
    values = np.sort(np.asarray(largest.each[:, own.signatures] @ own.weights).ravel())[::-1]
    (n, share), p = rules.dominance, rules.p
    if total <= 0:
        return
    if float(values[:n].sum()) > share * total:
        yield _of_sum("dominance", own, name, fact(Broken.DOMINANCE, largest=n, share=share))
    if max(0.0, total - float(values[:2].sum())) < p * float(values[0]):
        yield _of_sum("p", own, name, fact(Broken.SECOND_KNOWS, share=p))


def _of_sum(rule: str, own: Sum, name: str, why: Fact) -> BrokenRule:
    return BrokenRule(rule=rule, people=own.people, combination=name, why=why, owner_only=True)
