"""Everything so far as one plan and its membership: a row for each person and epoch, a column a release.

Nothing is asked of an engine: who was in which group is stored, and rows with the same groups in every
release are one signature, as :mod:`sightline.tables.collect` would have it of a table with such columns.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import coo_array, csr_array, diags_array, eye_array, kron, vstack
from scipy.sparse.linalg import lsqr

from sightline.arrays import COARSE, MOST_SQUARE, ROUNDING, FloatArray, IndexArray
from sightline.auditing.findings import Keys
from sightline.auditing.lowering import LINEAR
from sightline.auditing.plan import Plan, Release
from sightline.auditing.reading import checked_plan
from sightline.bounds.certain import some_table
from sightline.errors import InvalidPlan, require
from sightline.format import count
from sightline.ledger.entries import FrozenNumbers
from sightline.ledger.frozen import Found, FrozenGroups, partition_of, sql_of
from sightline.privacy.law import Law
from sightline.tables.cells import WORD_BITS
from sightline.tables.membership import (
    Cell,
    Membership,
    Occurring,
    Partition,
    PersonRows,
    PersonTable,
    UnauditedRows,
)
from sightline.tables.overlaps import Contributions
from sightline.tables.persons import grouped
from sightline.tables.sql.fragments import quoted
from sightline.tables.subject import SecretKind
from sightline.values import frozen


@frozen(slots=False)
class PastRelease:
    """A release that counts: its numbers, who was in them, and what was found in its values."""

    number: int
    release: Release  # as it was written
    epoch: str
    numbers: tuple[FrozenNumbers, ...]
    groups: FrozenGroups
    found: Found  # empty where the owner's file is lost
    lost: bool = False
    public: tuple[str, ...]  # columns that it took as public and the head does not declare

    @property
    def name(self) -> str:
        """What people call it, with its number."""
        return f"{self.release.name} ({self.number})"

    def section_name(self, column: int) -> str:
        """What the section of one of its columns is called."""
        return self.name if len(self.numbers) == 1 else f"{self.name}, part {column + 1}"


@frozen(slots=False)
class FrozenRows:
    """The rows of the ledger's table: whose each is, and its group and its weight in each column."""

    person: IndexArray
    known: NDArray[np.bool_]
    codes: tuple[NDArray[np.int32], ...]  # by column: the group of each row, or none
    weights: tuple[FloatArray, ...]  # by column

    @classmethod
    def of(cls, releases: Sequence[PastRelease]) -> FrozenRows:
        """The rows of some releases: one for each person and epoch, or several where a person had several."""
        width = 1 + max(int(one.groups.place.max(initial=0)) for one in releases)
        size = width * max(one.groups.numbers for one in releases)
        there = {one.epoch: np.zeros(size, dtype=np.bool_) for one in releases}
        for one in releases:
            there[one.epoch][one.groups.row(width)] |= one.groups.inside
        person = [np.flatnonzero(rows) // width for rows in there.values()]
        ends = np.cumsum([own.size for own in person]).tolist()
        parts = dict(zip(there, map(slice, [0, *ends[:-1]], ends), strict=True))
        known = np.zeros(ends[-1], dtype=np.bool_)  # in an epoch: in another one, the value is another
        codes, weights = [], []
        for one in releases:
            rows, part, place = there[one.epoch], parts[one.epoch], one.groups.row(width)
            if one.groups.known.any():
                known[part] |= _placed(one.groups.known, False, place, rows)
            for line, numbers in enumerate(one.numbers):
                codes.append(np.full(known.size, -1, dtype=np.int32))
                codes[-1][part] = _placed(one.groups.codes[:, line], -1, place, rows)
                weights.append(np.broadcast_to(1.0, known.shape))
                if numbers.weight:
                    weights[-1] = np.zeros(known.size)
                    weights[-1][part] = _placed(one.groups.weights[:, line], 0.0, place, rows)
        return cls(person=np.concatenate(person), known=known, codes=tuple(codes), weights=tuple(weights))

    @cached_property
    def signatures(self) -> tuple[IndexArray, IndexArray]:
        """The signature of every row, and the first row of every signature."""
        listed = [(codes, int(codes.max(initial=0))) for codes in self.codes]
        for weights in self.weights:
            if weights.strides[0]:
                values, place = np.unique(weights, return_inverse=True)
                listed.append((place.astype(np.int32), values.size))
        # Who is in the group of the same code each time needs no comparison with the others.
        moved = np.zeros(self.person.size, dtype=np.bool_)
        for (one, _), (other, _) in pairwise(listed):
            moved |= one != other
        few = np.flatnonzero(moved)
        number, most = np.zeros(few.size, dtype=np.int64), 1
        for codes, largest in listed:
            if most > (1 << WORD_BITS) // (largest + 2):
                distinct, number = np.unique(number, return_inverse=True)
                most = distinct.size
            number = number * (largest + 2) + codes[few] + 1
            most *= largest + 2
        signature = listed[0][0].astype(np.intp) + 1
        signature[few] = listed[0][1] + 2 + np.unique(number, return_inverse=True)[1]
        signature = (np.cumsum(np.bincount(signature) > 0) - 1)[signature]
        first = np.zeros(int(signature.max(initial=-1)) + 1, dtype=np.intp)
        first[signature[::-1]] = np.arange(signature.size)[::-1]
        return signature, first


def _placed(
    values: NDArray[Any], otherwise: float, place: IndexArray | slice, rows: NDArray[np.bool_]
) -> NDArray[Any]:
    """Values at some places of all, where the rows are; in order, because memory is then read in order."""
    by_place = np.full(rows.size, otherwise, dtype=values.dtype)
    by_place[place] = values
    return by_place[rows]


KNOWN = "known"
# Tuned on 60 to 120 months of 20,000 people: a ridge of ``ROUNDING`` keeps the products of dependent numbers
# positive, and what it leaves is a thousandth each time.
_REFINED = 3
_WHOLE = 1e-6  # of true sums of whole numbers, which were added up in doubles


@frozen(slots=False)
class History:
    """Some releases as a plan over one table."""

    plan: Plan  # its source is the name of a file that does not exist
    releases: tuple[PastRelease, ...]
    rows: FrozenRows
    label: Callable[[int], str]  # what a person is called

    @property
    def owners(self) -> list[tuple[PastRelease, int]]:
        """The release and the column of each section of the plan."""
        return [(one, place) for one in self.releases for place in range(len(one.numbers))]

    def sections_before(self, release: int) -> int:
        """How many sections of the plan are before the release with a number."""
        return sum(one.number < release for one, _ in self.owners)

    @cached_property
    def values_found(self) -> bool:
        """Whether it is known of every release what its values showed, about the same attacker."""
        if any(one.lost for one in self.releases):
            return False
        groups = [one.groups for one in self.releases]
        if not any(one.known.any() for one in groups):
            return True
        known, unknown = np.zeros((2, max(one.numbers for one in groups)), dtype=np.bool_)
        for one in groups:
            known[one.person[one.known]] = True
            unknown[one.person[one.inside & ~one.known]] = True
        return not np.any(known & unknown)

    @cached_property
    def membership(self) -> Membership:
        """Who is in which number, with what was found in the values when each release was made."""
        signature, first = self.rows.signatures
        counts, rows = np.bincount(signature), self.rows
        each = np.bincount(rows.person)
        several = bool(each.max(initial=0) > 1)
        parts: list[Partition] = []
        cells: list[Cell] = []
        codes, weights = [], {}
        for section, (one, column) in enumerate(self.owners):
            own, numbers = rows.codes[section][first], one.numbers[column]
            size = np.bincount(own[own >= 0], counts[own >= 0], len(numbers.groups)).astype(np.intp)
            for aggregate in numbers.aggregates:
                cells += [
                    Cell(partition=len(parts), key=(group,), rows=number)
                    for group, number in zip(numbers.groups, size.tolist(), strict=True)
                ]
                parts.append(partition_of(aggregate, numbers, query=section, name=one.section_name(column)))
                codes.append(own)
                if parts[-1].weighted:
                    weights[len(parts) - 1] = rows.weights[section][first]
        found = [one.found for one in self.releases if not one.lost]
        spreads = [one.spread for one in reversed(found)]  # of the table now, unless one had few values
        levels = [level for one in reversed(found) if (level := one.spread_of_levels) is not None]
        return Membership(
            partitions=tuple(parts),
            cells=tuple(cells),
            signatures=np.stack(codes, axis=1),
            counts=counts,
            known=np.bincount(signature, rows.known, counts.size).astype(np.int64),
            rows=signature.size,
            records=int(np.count_nonzero(each)),
            contributions=int(each.max(initial=0)),
            dropped=max((one.dropped for one in found), default=0),
            clipped=max((one.clipped for one in found), default=0),
            occurring=_fewest(spreads),
            levels={"": _fewest(levels)} if levels else {},
            unaudited=tuple(UnauditedRows(**one.found.unaudited) for one, _ in self.owners),
            taken_as_public=tuple(sorted({name for one in self.releases for name in one.public})),
            derived=tuple(dict.fromkeys(text for one in found for text in one.derived)),
            alike_in_few_rows=tuple(dict.fromkeys(text for one in found for text in one.by_chance)),
            weights=weights,
            adds_up=any(one.adds_up for one in found),
            persons=self._persons(max((one.alike for one in found), default=0)) if several else PersonTable(),
        )

    @cached_property
    def _entries(self) -> tuple[IndexArray, NDArray[np.int64]]:
        """Persons in order, and their entries in a table of persons: a signature, whether known, rows."""
        rows, signature = self.rows, self.rows.signatures[0]
        order = np.lexsort((rows.known, signature, rows.person))
        lines = np.stack([rows.person, signature, rows.known], axis=1)[order]
        starts = np.flatnonzero(np.any(np.diff(lines, axis=0, prepend=-1), axis=1))
        number = np.diff(starts, append=len(lines))
        return lines[starts, 0], np.column_stack([lines[starts, 1:], number])

    def _persons(self, alike: int) -> PersonTable:
        """Persons by their rows; ``alike`` of them had several with one value in a release."""
        person, entries = self._entries
        listed, starts, persons = grouped(person, entries, np.ones(person.size, dtype=np.int64))
        each = np.bincount(self.rows.person)
        several = int(np.count_nonzero(each > 1))
        return PersonTable(
            starts=starts,
            signatures=listed[:, 0].astype(np.intp),
            known=listed[:, 1] > 0,
            rows=listed[:, 2].astype(np.intp),
            persons=persons,
            several=several,
            varying=0 if self.plan.data.values == "constant" else several - alike,
            may_stay=self.plan.data.values == "any",
            by_rows=Counter(each[each > 0].tolist()),
        )

    @property
    def keys(self) -> Keys:
        """How to name the records of the membership."""
        signature, rows = self.rows.signatures[0], self.rows

        def of_signatures(wanted: Sequence[int]) -> dict[int, tuple[str, ...]]:
            chosen = np.flatnonzero(np.isin(signature, list(wanted)) & ~rows.known)
            labels: dict[int, set[str]] = {one: set() for one in wanted}
            for row in chosen.tolist():
                labels[int(signature[row])].add(self.label(int(rows.person[row])))
            return {one: tuple(sorted(names)) for one, names in labels.items()}

        def of_kinds(wanted: Sequence[int]) -> dict[int, tuple[str, ...]]:
            table = self.membership.persons
            kinds = {kind: table.entries(kind) for kind in wanted}
            person, entries = self._entries
            some = np.isin(person, person[np.isin(entries[:, 0], [own[0][0] for own in kinds.values()])])
            rows_of: dict[int, list[tuple[int, bool, int]]] = {}
            for who, (place, known, number) in zip(
                person[some].tolist(), entries[some].tolist(), strict=True
            ):
                rows_of.setdefault(who, []).append((place, bool(known), number))
            named: dict[PersonRows, list[str]] = {}
            for who, own in rows_of.items():
                named.setdefault(tuple(own), []).append(self.label(who))
            return {kind: tuple(sorted(named.get(own, ()))) for kind, own in kinds.items()}

        return Keys(of_signatures=of_signatures, of_kinds=of_kinds)

    def totals(self, about: Partition | None) -> tuple[FloatArray, int]:
        r"""Sums of the unknown secrets by signature that give every number its true sum; how many do not fit.

        ``about`` is a question or a power whose sums are asked for instead. Any solution t of
        :math:`A t = s` will do, s the true sums: what is asked of it are sums that follow from the published
        numbers, and those it has right. Numbers that no t fits are about values that changed within an epoch.
        """
        matrix, goal, width = self._true_sums(about)
        unknown = np.repeat(self.membership.counts - self.membership.known, width)
        prior = unknown * (sum(self.plan.data.domain) / 2) / width
        if not goal.size:
            return prior.reshape(-1, width), 0
        solution = _fitting(matrix, goal, prior, unknown.astype(np.float64))
        return solution.reshape(-1, width), int(np.count_nonzero(_off(matrix, goal, solution)))

    def contributions(self, worth: FloatArray) -> Contributions:
        """What each person adds to the sums of their signature, by the numbers that they have in a table.

        A ledger keeps no values: those of the table of today have to be those of all entries.
        """
        rows, signature = self.rows, self.rows.signatures[0]
        require(
            len({one.epoch for one in self.releases}) == 1,
            "entries of one epoch, for dominance and p",
            got="several, each with values of its own",
            fix="start a ledger of each epoch: no difference of two epochs is a sum of values",
            error=InvalidPlan,
        )
        values = worth[rows.person]
        missing = int(np.count_nonzero(np.isnan(values)))
        require(
            not missing,
            "dominance and p for people whose values the table has",
            got=f"{count(missing, 'person', 'people')} of earlier entries who are not in it",
            fix="check with --table and a table that still has them",
            error=InvalidPlan,
        )
        sums, true, _ = self._true_sums(None)
        own = np.where(rows.known, 0.0, values)
        unknown = np.bincount(signature, own, self.membership.counts.size).astype(np.float64)
        changed = int(np.count_nonzero(_off(sums, true, unknown)))
        require(
            not changed and self.values_found,
            "dominance and p for values that are still those of earlier entries",
            got=f"{count(changed, 'sum', 'sums')} that are others now"
            if changed
            else "entries whose values are lost",
            fix="check with --table and the table as it was, or start a ledger for the new values",
            error=InvalidPlan,
        )
        return Contributions(person=rows.person, signature=signature.astype(np.intp), value=values)

    def _true_sums(self, about: Partition | None) -> tuple[Any, FloatArray, int]:
        """A and s, and the columns of a signature: one, or one for each category."""
        asked = [] if about is None else [(about.feature, about.parameter, about.closed)]
        membership, categories = self.membership, (not asked and self.plan.data.categories) or ("",)
        width, unknown = len(categories), membership.counts - membership.known
        true: list[float] = []
        lines, columns, entries = [], [], []
        p = -1
        for one, column in self.owners:
            for place in range(len(one.numbers[column].aggregates)):
                p += 1
                part = membership.partitions[p]
                own = (part.feature, part.parameter, part.closed)
                if own not in asked if asked else part.feature not in LINEAR:
                    continue
                inside = np.flatnonzero((membership.signatures[:, p] >= 0) & (unknown > 0))
                code, weights = membership.signatures[inside, p], membership.weights_in(p)[inside]
                # What is not above is the sum of the weights, less what is.
                sums = np.array(one.found.sums[column][place])
                if not part.above:
                    sums = np.bincount(code, weights * unknown[inside], sums.size) - sums
                counted = part.categories if width > 1 else categories
                for category in counted:
                    lines.append(len(true) + code.astype(np.intp))
                    columns.append(inside * width + categories.index(category))
                    entries.append(weights)
                true += sums.tolist()
        size = unknown.size * width
        if not true:
            return csr_array((0, size)), np.zeros(0), width
        placed = (np.concatenate(lines), np.concatenate(columns))
        matrix = coo_array((np.concatenate(entries), placed), shape=(len(true), size)).tocsr()
        return matrix, np.array(true), width

    def whole_answers(self) -> FloatArray | None:
        """How many unknown rows of every signature say yes, or hold each category: so that every release has
        its true sums. None if there are no such whole numbers, programs find none, or no count is exact.
        """
        exact = any(noise.exact for release in self.plan.releases for noise in release.noise)
        if not exact or not self.values_found:
            return None
        matrix, goal, width = self._true_sums(None)
        membership = self.membership
        people = np.repeat((membership.counts - membership.known).astype(np.float64), width)
        sums, goals = [matrix], [goal]
        if width > 1:  # every row has one category
            sums.append(kron(eye_array(people.size // width), np.ones((1, width)), format="csr"))
            goals.append(people[::width])
        every, true = csr_array(vstack(sums, format="csr")), np.concatenate(goals)
        table, _ = some_table(every, true - _WHOLE, true + _WHOLE, people)
        return None if table is None else table.reshape(-1, width)


def _fewest(spreads: Sequence[Occurring]) -> Occurring:
    """The first of the spreads with the fewest values or clusters, if they are few."""
    return min(spreads, key=lambda one: one.few or len(one.clusters) or math.inf, default=Occurring())


def _off(matrix: Any, goal: FloatArray, solution: FloatArray) -> NDArray[np.bool_]:
    return np.asarray(np.abs(matrix @ solution - goal) > COARSE * (1 + np.abs(goal)))


def _fitting(matrix: Any, goal: FloatArray, start: FloatArray, people: FloatArray) -> FloatArray:
    r"""A solution of :math:`A t = s` near a start, or the nearest to one if there is none.

    :math:`t = t_0 + D A^\top y` where D is how many people a signature has: by steps of conjugate gradients,
    and again for what is left. What they do not fit is solved by one factorisation of
    :math:`A D A^\top + \varepsilon`, where that is small.
    """
    root = np.sqrt(people)
    scaled, fitted = matrix @ diags_array(root), start
    for _ in range(_REFINED):
        fitted = fitted + root * lsqr(scaled, goal - matrix @ fitted, atol=1e-12, btol=1e-12)[0]
        if not _off(matrix, goal, fitted).any():
            return np.asarray(fitted)
    if len(goal) <= MOST_SQUARE:
        products = (scaled @ scaled.T).toarray()
        products[np.diag_indices(len(goal))] += ROUNDING * max(1.0, float(np.diagonal(products).max()))
        factor = cho_factor(products, overwrite_a=True, check_finite=False)
        for _ in range(_REFINED):
            fitted = fitted + people * (
                matrix.T @ cho_solve(factor, goal - matrix @ fitted, check_finite=False)
            )
    return np.asarray(fitted)


def history(
    head: Mapping[str, Any],
    releases: Sequence[PastRelease],
    *,
    kind: SecretKind,
    label: Callable[[int], str] = str,
) -> History:
    """The plan of some releases over the rows that they make.

    ``kind`` is that of the secret, and ``label`` what a person is called.
    """
    epochs = len({one.epoch for one in releases})
    left_out = ("sql", "tables", "public", "frame")
    data = {name: value for name, value in head["data"].items() if name not in left_out}
    if "frame" in head["data"]:  # everybody of the frame has a row, and being there is a yes
        data["kind"] = "boolean"
    _check_rows(data.get("values") == "constant", releases)
    data["source"] = "ledger.parquet"
    if (most := epochs * int(data.get("max_rows_per_record", 1))) > 1:
        data["max_rows_per_record"] = most
    if epochs > 1 and data.get("values") != "independent":
        # The epochs of a person are rows of a person: what they have in common nobody knows.
        data["values"] = "any"
    attacker = dict(head.get("attacker", {}))
    if attacker.pop("knows", None):
        attacker["knows"] = [KNOWN]
    sections = [
        {
            "name": one.section_name(column),
            "sql": _sql(numbers, str(data["secret"]), kind),
            "times": one.release.times,
            "noise": _noise(numbers, one.release),
            "published": True,
            "hidden_by_noise": one.release.hidden_by_noise and column == 0,  # said once for a release
        }
        | ({"suppress_below": one.release.suppress_below} if one.release.suppress_below else {})
        for one in releases
        for column, numbers in enumerate(one.numbers)
    ]
    # The noise is what it was; who was in which group is known, so it costs what these groups say.
    privacy = {"sensitivity": "memberships", **head.get("privacy", {})}
    content = {**head, "data": data, "privacy": privacy, "attacker": attacker, "release": sections}
    plan = checked_plan(content, "ledger")
    return History(plan=plan, releases=tuple(releases), rows=FrozenRows.of(releases), label=label)


def _check_rows(constant: bool, releases: Sequence[PastRelease]) -> None:
    """Refuse rows of one person of which nothing says what they have in common with other releases."""
    if not any(one.groups.place.any() for one in releases):
        return
    epochs = Counter(one.epoch for one in releases)
    require(
        len(epochs) == 1 if constant else max(epochs.values()) == 1,
        "one epoch, where all rows of a person hold one value"
        if constant
        else "one release in each epoch, where persons have several rows with values of their own",
        got="several",
        fix="nothing says which values of one are those of the other; make one row a person by [data] sql",
        error=InvalidPlan,
    )


def _sql(numbers: FrozenNumbers, secret: str, kind: SecretKind) -> str:
    listed = [
        sql_of(one, secret=secret, kind=kind, weight=numbers.weight)
        + (f" AS {quoted(one.label)}" if one.label else "")
        for one in numbers.aggregates
    ]
    column = quoted(numbers.column)
    return f"SELECT {column}, {', '.join(listed)} FROM data WHERE {column} IS NOT NULL GROUP BY {column}"


def _noise(numbers: FrozenNumbers, release: Release) -> list[dict[str, Any]]:
    """The noise on each aggregate: one size, or one for each group; or the rule of its counts."""
    sections = []
    for one in numbers.aggregates:
        own: dict[str, Any] = {"law": one.law, "label": one.label}
        law = Law(one.law)
        if law.by_count_rule:  # one for all of its counts: others are refused
            stated = release.noise[0].model_dump(mode="json")
            own |= {name: stated[name] for name in ("to", "how", "of") if name in stated}
        elif not law.exact and len(set(one.sizes)) == 1:
            own["stddev"] = one.sizes[0]
        elif not law.exact:
            named = [[group] + ([one.label] if one.label else []) for group in numbers.groups]
            own["by_cell"] = [[*name, size] for name, size in zip(named, one.sizes, strict=True)]
        sections.append(own)
    return sections
