"""Everything so far as one table and one plan: a row for each person and epoch, a column for each release.

``SELECT r14, AVG(x) FROM data WHERE r14 IS NOT NULL GROUP BY r14`` is what release 14 published: the column
``r14`` has the group that the person was in. The secret's column holds no one's value. Where numbers are
published, its values are some that give every release its true sums; what an audit reads from single values
was found when each release was made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.linalg import lsqr

from sightline.arrays import FloatArray
from sightline.auditing.plan import Plan, Release
from sightline.auditing.reading import checked_plan
from sightline.auditing.session import Session, opened
from sightline.ledger.entries import FrozenNumbers
from sightline.ledger.frozen import IN_NO_GROUP, Found, Groups
from sightline.tables.engines.in_memory import in_memory
from sightline.tables.membership import Feature, Membership, UnauditedRows
from sightline.tables.sql.fragments import literal, quoted

KNOWN = "known"
_FITS = 1e-6  # of a true sum: what rounding in it and in the solution may be


@dataclass(frozen=True, kw_only=True, eq=False)
class PastRelease:
    """A release that counts: its numbers, who was in them, and what was found in its values."""

    number: int
    release: Release  # as it was written
    epoch: str
    numbers: tuple[FrozenNumbers, ...]
    groups: Groups
    found: Found | None  # none if the owner's file is missing

    @property
    def name(self) -> str:
        """What people call it, with its number."""
        return f"{self.release.name} ({self.number})"

    def sections(self) -> list[dict[str, Any]]:
        """Its sections of a plan, one for each column."""
        return [
            {
                "name": self.name if len(self.numbers) == 1 else f"{self.name}, part {place + 1}",
                "sql": _sql(own),
                "times": self.release.times,
                "noise": _noise(own),
                "published": True,
            }
            for place, own in enumerate(self.numbers)
        ]


def _sql(numbers: FrozenNumbers) -> str:
    labels = [f" AS {quoted(label)}" if label else "" for label in numbers.labels]
    listed = [f"{sql}{label}" for sql, label in zip(numbers.aggregates, labels, strict=True)]
    column = quoted(numbers.column)
    return f"SELECT {column}, {', '.join(listed)} FROM data WHERE {column} IS NOT NULL GROUP BY {column}"


def _noise(numbers: FrozenNumbers) -> list[dict[str, Any]]:
    """The noise on each aggregate: one size, or one for each group."""
    found = []
    for label, law, sizes in zip(numbers.labels, numbers.laws, numbers.sizes, strict=True):
        own: dict[str, Any] = {"law": law, "label": label}
        if law != "none" and len(set(sizes)) == 1:
            own["stddev"] = sizes[0]
        elif law != "none":
            named = [[group] + ([label] if label else []) for group in numbers.groups]
            own["by_cell"] = [[*name, size] for name, size in zip(named, sizes, strict=True)]
        found.append(own)
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class History:
    """Some releases as a plan over one table."""

    plan: Plan  # its source is the name of a file that does not exist: see ``table``
    releases: tuple[PastRelease, ...]
    columns: Mapping[str, NDArray[Any]]  # of the table, with groups as codes
    select: str  # the table, as SQL over these columns

    @contextmanager
    def table(self) -> Iterator[Any]:
        """The table as a DuckDB relation, which is closed afterwards."""
        import duckdb

        with duckdb.connect() as connection:
            connection.register("frozen", dict(self.columns))
            yield connection.sql(self.select)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """The plan with its table open."""
        with self.table() as relation:
            data = self.plan.data.model_copy(update={"source": in_memory(relation)})
            with opened(self.plan.model_copy(update={"data": data}), Path()) as session:
                yield session

    @property
    def owners(self) -> list[tuple[PastRelease, int]]:
        """The release and the column of each section of the plan."""
        return [(one, place) for one in self.releases for place in range(len(one.numbers))]

    def sections_before(self, release: int) -> int:
        """How many sections of the plan are before the release with a number."""
        return sum(one.number < release for one, _ in self.owners)

    @property
    def values_found(self) -> bool:
        """Whether it is known of every release what its values showed, about the same attacker."""
        if any(one.found is None for one in self.releases):
            return False
        most = 1 + max(int(one.groups.person.max(initial=0)) for one in self.releases)
        marked = [np.zeros(most, dtype=np.bool_) for _ in range(2)]
        for one in self.releases:
            for known in (0, 1):
                marked[known][one.groups.person[one.groups.known == bool(known)]] = True
        return not np.any(marked[0] & marked[1])

    def as_found(self, membership: Membership) -> Membership:
        """The membership with what was found in the values when each release was made."""
        found = [one.found for one in self.releases if one.found is not None]
        spreads = [one.spread for one in reversed(found)]  # of the table now, unless one had few values
        unaudited = [
            UnauditedRows() if one.found is None else UnauditedRows(**one.found.unaudited)
            for one, _ in self.owners
        ]
        return replace(
            membership,
            derived=tuple(dict.fromkeys(text for one in found for text in one.derived)),
            occurring=min(spreads, key=lambda one: one.few or math.inf, default=membership.occurring),
            dropped=max((one.dropped for one in found), default=0),
            clipped=max((one.clipped for one in found), default=0),
            unaudited=tuple(unaudited),
            sums=None,
        )

    def totals(self, membership: Membership) -> tuple[FloatArray, int]:
        r"""Sums of the secrets by signature that give every number its true sum, and how many do not fit.

        Any solution t of :math:`A t = s` will do, s the true sums: what is asked of it are sums that follow
        from the published numbers, and those it has right. Numbers that no t fits are about values that
        changed within an epoch.
        """
        categories = self.plan.data.categories or ("",)
        width = len(categories)
        owners, true, lines, columns, entries = self.owners, [], [], [], []
        for p, part in enumerate(membership.partitions):
            one, column = owners[part.query]
            own = [q for q, other in enumerate(membership.partitions) if other.query == part.query]
            assert one.found is not None
            sums = dict(zip(one.numbers[column].groups, one.found.sums[column][own.index(p)], strict=True))
            weights = membership.weights_in(p) * (1 if part.above else -1)
            inside = np.flatnonzero(membership.signatures[:, p] >= 0)
            start = int(membership.starts[p])
            for cell in membership.cells[start : int(membership.starts[p + 1])]:
                true.append(sums[cell.key[0]] - (0.0 if part.above else float(cell.rows)))
            counted = part.categories if part.feature is Feature.INDICATOR else categories[:1]
            for category in counted:
                lines.append(start + membership.signatures[inside, p].astype(np.intp))
                columns.append(inside * width + categories.index(category))
                entries.append(weights[inside])
        sizes = (len(true), len(membership.counts) * width)
        placed = (np.concatenate(lines), np.concatenate(columns))
        matrix = coo_array((np.concatenate(entries), placed), shape=sizes).tocsr()
        goal = np.array(true)
        prior = np.repeat(membership.counts, width) * (sum(self.plan.data.domain) / 2) / width
        solution = prior + lsqr(matrix, goal - matrix @ prior, atol=1e-12, btol=1e-12)[0]
        off = np.abs(matrix @ solution - goal) > _FITS * (1 + np.abs(goal))
        return solution.reshape(-1, width), int(np.count_nonzero(off))


def history(
    head: Mapping[str, Any], releases: Sequence[PastRelease], *, labels: NDArray[np.object_]
) -> History:
    """The plan of some releases over the table that they make; ``labels`` is what each person is called."""
    epochs = list(dict.fromkeys(one.epoch for one in releases))
    data = dict(head["data"])
    for name in ("sql", "tables", "dialect", "max_rows_per_record", "values"):
        data.pop(name, None)
    data["source"] = "ledger.parquet"
    columns, select = _table(data, releases, epochs, labels)
    if len(epochs) > 1:
        data |= {"max_rows_per_record": len(epochs), "values": "independent"}
    attacker = {name: value for name, value in head.get("attacker", {}).items() if name != "may_know"}
    if attacker.pop("knows", None):
        attacker["knows"] = [KNOWN]
    sections = [section for one in releases for section in one.sections()]
    # The noise is what it was; who was in which group is known, so it costs what these groups say.
    privacy = {"sensitivity": "memberships", **head.get("privacy", {})}
    content = {**head, "data": data, "privacy": privacy, "attacker": attacker, "release": sections}
    plan = checked_plan(content, "ledger")
    return History(plan=plan, releases=tuple(releases), columns=columns, select=select)


def _table(
    data: Mapping[str, Any],
    releases: Sequence[PastRelease],
    epochs: Sequence[str],
    labels: NDArray[np.object_],
) -> tuple[dict[str, NDArray[Any]], str]:
    """The columns (who, a value, whether it is known, the groups of every release) and the table as SQL."""
    rows = {
        epoch: np.unique(np.concatenate([one.groups.person for one in releases if one.epoch == epoch]))
        for epoch in epochs
    }
    starts = dict(zip(epochs, np.cumsum([0, *(rows[epoch].size for epoch in epochs)]).tolist(), strict=False))
    people = np.concatenate([rows[epoch] for epoch in epochs])
    known = np.zeros(labels.size, dtype=np.bool_)
    columns: dict[str, NDArray[Any]] = {"label": labels[people]}
    listed = []
    for one in releases:
        known[one.groups.person] |= one.groups.known
        place = starts[one.epoch] + np.searchsorted(rows[one.epoch], one.groups.person)
        for line, numbers in enumerate(one.numbers):
            codes = np.full(people.size, IN_NO_GROUP, dtype=np.int32)
            codes[place] = one.groups.codes[:, line]
            columns[f"c{numbers.column}"] = codes
            # Of a list, the entry before the first one is NULL.
            groups = ", ".join(map(literal, numbers.groups))
            listed.append(f"([{groups}])[c{numbers.column} + 1] AS {quoted(numbers.column)}")
            if numbers.weight:
                columns[numbers.weight] = np.zeros(people.size)
                columns[numbers.weight][place] = one.groups.weights[:, line]
                listed.append(quoted(numbers.weight))
    columns[KNOWN] = known[people]
    if data.get("bounds"):
        columns["value"] = _fitted(data["bounds"], releases, columns)
    value = (
        "value"
        if data.get("bounds")
        else literal(data["categories"][0])
        if data.get("categories")
        else "TRUE"
    )
    return columns, (
        f"SELECT label AS {quoted(data['record'])}, {value} AS {quoted(data['secret'])}, "
        f"{KNOWN}, {', '.join(listed)} FROM frozen"
    )


def _fitted(
    bounds: Sequence[float], releases: Sequence[PastRelease], columns: Mapping[str, NDArray[Any]]
) -> FloatArray:
    """Values between the bounds that give every number its true sum, as far as there are such values.

    They start from a draw, because equal values of a group would look as if the group decided on them.
    """
    low, high = bounds
    drawn = np.random.default_rng(0).uniform(low, high, columns["label"].size)
    lines, entries = [], []
    true: list[float] = []
    for one in releases:
        for own, sums in zip(one.numbers, () if one.found is None else one.found.sums, strict=False):
            codes = columns[f"c{own.column}"]
            inside = np.flatnonzero(codes >= 0)
            lines.append(np.stack([len(true) + codes[inside].astype(np.intp), inside]))
            entries.append(columns[own.weight][inside] if own.weight else np.ones(inside.size))
            true += sums[0]
    if not true:
        return drawn
    placed = np.concatenate(lines, axis=1)
    matrix = coo_array((np.concatenate(entries), placed), shape=(len(true), drawn.size)).tocsr()
    step = lsqr(matrix, np.array(true) - matrix @ drawn, atol=1e-12, btol=1e-12)[0]
    return np.asarray(np.clip(drawn + step, low, high))
