"""What one release publishes about whom, frozen: the groups that people are in, the noise, the true sums.

The table changes from month to month. What a release said about somebody is decided by the groups they were
in when it was made, so these are kept: for every person the group of each of the release's numbers. Their
values are not kept. Of those only the true sums of the groups stay, in a file for the owner.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.lowering import LINEAR
from sightline.auditing.plan import Plan, Release
from sightline.auditing.pricing import Pricing, price
from sightline.auditing.session import Session, opened
from sightline.errors import InvalidPlan, require
from sightline.ledger.entries import FrozenNumbers
from sightline.ledger.people import PeopleKey
from sightline.noise.published import PublishedLaw
from sightline.progress import report
from sightline.tables.membership import Cell, Feature, Membership, Occurring, Partition, Statistic
from sightline.tables.records import row_records
from sightline.tables.sql.fragments import literal, quoted
from sightline.tables.sql.scope import find_column
from sightline.tables.subject import SecretKind

IN_NO_GROUP = -1
_SPREAD = tuple(field.name for field in fields(Occurring))


@dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    """For some people, by number, the group of each column, and their weight in it."""

    person: IndexArray  # ascending
    codes: IndexArray  # people × columns
    weights: FloatArray  # people × columns; 1 where a column has no weights
    known: NDArray[np.bool_]  # whether the attacker knows the person's secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the values of the table showed when the release was made. For the owner only."""

    sums: tuple[tuple[tuple[float, ...], ...], ...]  # column × aggregate × group: the true sum of the secrets
    occurring: dict[str, Any]  # how the secret was spread: the fields of Occurring, with lists for arrays
    derived: tuple[str, ...]  # columns that look like the secret
    dropped: int
    clipped: int
    unaudited: dict[str, int]  # of the release's SQL, as UnauditedRows counts them

    def text(self) -> bytes:
        """As a file."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode()

    @classmethod
    def of_text(cls, text: bytes) -> Found:
        """From a file whose hash was checked."""
        content = json.loads(text)
        sums = tuple(tuple(map(tuple, column)) for column in content.pop("sums"))
        return cls(sums=sums, derived=tuple(content.pop("derived")), **content)

    @property
    def spread(self) -> Occurring:
        """How the secret was spread."""
        arrays = {name: np.array(self.occurring[name]) for name in ("low", "high", "counts")}
        return Occurring(**{**self.occurring, **arrays, "unused": tuple(self.occurring["unused"])})

    @property
    def answers(self) -> str:
        """A digest of the true sums."""
        return hashlib.sha256(json.dumps(self.sums).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False)
class FrozenRelease:
    """A release that was read, priced and run on the table as it is now."""

    release: Release
    numbers: tuple[FrozenNumbers, ...]
    names: tuple[str, ...]  # what the ledger calls each of the people
    keys: tuple[str, ...]  # and their keys in the table
    groups: Groups  # ``person`` is the place in ``names``
    found: Found
    table: str  # a digest of the rows
    columns: tuple[str, ...]  # the kinds of the record's and the secret's column


def freeze(plan: Plan, base: Path, release: Release, *, number: int, key: PeopleKey) -> FrozenRelease:
    """Run a release on the table of a plan and keep who was in which group, under which noise."""
    require(
        release.noise_given,
        f"release {release.name[:60]!r}: its noise, as noise_stddev or noise",
        got="none",
        fix="a ledger has no budget to share, because it does not know what comes later",
        error=InvalidPlan,
    )
    alone = plan.model_copy(update={"releases": (release,)})
    with opened(alone, base) as session:
        report("reading the table", 0.0)
        membership = session.membership(report)
        _check(release, membership)
        rows = row_records(session.engine, session.queries, session.subject)
        numbers, columns = _numbers(session, membership, price(alone, membership), number)
        own = [find_column(session.engine.columns(), name) for name in (plan.data.record, plan.data.secret)]
    parts = [column[0] for column in columns]
    codes = membership.signatures[rows.signature][:, parts].astype(np.intp)
    weights = np.stack([membership.weights_in(p)[rows.signature] for p in parts], axis=1)
    secrets = [_aggregated(membership.partitions[p], rows.secret) for column in columns for p in column]
    sums, place = [], iter(secrets)
    for line, column in enumerate(columns):
        inside, size = codes[:, line] >= 0, len(numbers[line].groups)
        sums.append(
            tuple(
                tuple(np.bincount(codes[inside, line], (weights[:, line] * values)[inside], size).tolist())
                for values in (next(place) for _ in column)
            )
        )
    found = Found(
        sums=tuple(sums),
        occurring={name: _listed(getattr(membership.occurring, name)) for name in _SPREAD},
        derived=membership.derived,
        dropped=membership.dropped,
        clipped=membership.clipped,
        unaudited=asdict(membership.unaudited[0]),
    )
    names = key.names(rows.keys)
    lines = "\n".join(names).encode() + "\n".join(map(repr, rows.secret.tolist())).encode()
    kept = np.flatnonzero((codes >= 0).any(axis=1))
    return FrozenRelease(
        release=release,
        numbers=numbers,
        names=tuple(names[place] for place in kept.tolist()),
        keys=tuple(rows.keys[place] for place in kept.tolist()),
        groups=Groups(
            person=np.arange(kept.size), codes=codes[kept], weights=weights[kept], known=rows.known[kept]
        ),
        found=found,
        table=key.digest(hashlib.sha256(lines).digest()).hex(),
        columns=tuple(column.kind.value for column in own),
    )


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _check(release: Release, membership: Membership) -> None:
    where = f"release {release.name[:60]!r}"
    require(
        membership.contributions <= 1,
        "one row for each person",
        got="several of one",
        fix="make one of them by [data] sql in the ledger's head; another month is another entry",
        error=InvalidPlan,
    )
    strange = [part.name for part in membership.partitions if part.feature not in LINEAR]
    require(
        not strange,
        f"{where}: means, sums and counts of the secret",
        got=f"{strange[0][:60]!r}" if strange else "",
        fix="a ledger keeps no values, from which powers and counts above a level would be judged",
        error=InvalidPlan,
    )
    require(bool(membership.cells), f"{where}: numbers about the secret", got="none", error=InvalidPlan)


def _numbers(
    session: Session, membership: Membership, pricing: Pricing, number: int
) -> tuple[tuple[FrozenNumbers, ...], list[list[int]]]:
    """The release's numbers by the groups that they are about, and the partitions of each."""
    filled = sorted({cell.partition for cell in membership.cells})
    columns: dict[tuple[bytes, bytes], list[int]] = {}
    for p in filled:
        weights = membership.weights_in(p) * membership.partitions[p].weighted
        columns.setdefault((membership.signatures[:, p].tobytes(), weights.tobytes()), []).append(p)
    found = []
    for place, parts in enumerate(columns.values()):
        name = f"r{number}" if len(columns) == 1 else f"r{number}_{place + 1}"
        weight = f"w{name[1:]}" if membership.partitions[parts[0]].weighted else ""
        labels = _distinct([membership.partitions[p].label or "value" for p in parts])
        found.append(
            FrozenNumbers(
                column=name,
                groups=tuple(
                    _distinct([", ".join(cell.key) or "all" for cell in _cells(membership, parts[0])])
                ),
                aggregates=tuple(_sql(session, membership.partitions[p], weight) for p in parts),
                labels=tuple(labels) if len(parts) > 1 else ("",),
                laws=tuple(pricing.laws[p].value for p in parts),
                sizes=tuple(_sizes(pricing, p) for p in parts),
                weight=weight,
            )
        )
    return tuple(found), list(columns.values())


def _cells(membership: Membership, p: int) -> Sequence[Cell]:
    starts = membership.starts
    return membership.cells[int(starts[p]) : int(starts[p + 1])]


def _sizes(pricing: Pricing, p: int) -> tuple[float, ...]:
    """The noise on each group, as a plan states it: a deviation, of discrete Gaussian noise its sigma."""
    discrete = pricing.laws[p] is PublishedLaw.DISCRETE_GAUSSIAN
    sizes = (pricing.parameter if discrete else pricing.noise_stddev)[pricing.owner == p]
    return tuple(float(size) for size in sizes)


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that occur before."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def _sql(session: Session, part: Partition, weight: str) -> str:
    """A partition's aggregate over the ledger's own table."""
    secret, factor = quoted(session.subject.secret), quoted(weight) if weight else "1"
    negation = "" if part.above else "NOT "
    if part.feature is Feature.INDICATOR:
        among = f"{secret} {negation}IN ({', '.join(map(literal, part.categories))})"
        value = f"CASE WHEN {among} THEN {factor} ELSE 0 END"
    elif session.subject.kind is SecretKind.BOOLEAN:
        value = f"CASE WHEN {negation}{secret} THEN {factor} ELSE 0 END"
    else:
        value = f"{factor} * {secret}" if weight else secret
    return f"{'AVG' if part.statistic is Statistic.MEAN else 'SUM'}({value})"


def _aggregated(part: Partition, secrets: NDArray[np.generic]) -> FloatArray:
    """What a partition adds up of each row, before its weight."""
    if part.feature is not Feature.INDICATOR:
        values = np.asarray(secrets, dtype=np.float64)
        return values if part.above else 1.0 - values
    return np.asarray(np.isin(secrets, list(part.categories)) == part.above, dtype=np.float64)


def renumbered(groups: Groups, person: IndexArray) -> Groups:
    """The same with other numbers of the people, in ascending order."""
    order = np.argsort(person)
    return replace(
        groups,
        person=person[order],
        codes=groups.codes[order],
        weights=groups.weights[order],
        known=groups.known[order],
    )
