"""What one release publishes about whom, frozen: the groups that people are in, the noise, the true sums.

The table changes from month to month. What a release said about somebody is decided by the groups they were
in when it was made, so these are kept: for every person the group of each of the release's numbers. Their
values are not kept. Of those only the true sums of the groups stay, in a file for the owner. People are known
again by a keyed hash, and have numbers in the order in which the ledger first saw them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from itertools import compress
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.assumptions import unverified
from sightline.auditing.certain_people import certain_report
from sightline.auditing.declared_and_found import rounding_beside_noise
from sightline.auditing.findings import find
from sightline.auditing.homogeneous import homogeneous_cells
from sightline.auditing.plan import Plan, Release
from sightline.auditing.pricing import Pricing, price
from sightline.auditing.reading import with_counts_read
from sightline.auditing.session import opened
from sightline.errors import InvalidInput, InvalidPlan, require
from sightline.ledger.entries import Aggregate, FrozenNumbers
from sightline.progress import report
from sightline.report.reasons import with_reason
from sightline.tables.membership import (
    Band,
    Feature,
    Membership,
    Occurring,
    Parameter,
    Partition,
    Statistic,
)
from sightline.tables.records import RowRecords, row_records
from sightline.tables.sql.fragments import answers_yes, clipped_to, literal, quoted
from sightline.tables.sql.scope import find_column
from sightline.tables.subject import UNBOUNDED, SecretKind

Hashes: TypeAlias = NDArray[np.uint64]  # people × two halves
_CHECKED = b"a ledger of sightline"
HOW_A_KEY_IS_MADE = "openssl rand -hex 32 > FILE makes one"
_LEAST_KEY = 16  # bytes; the most are what the hash takes


@dataclass(frozen=True, slots=True)
class PeopleKey:
    """The secret key of the hashes; empty where keys are stored in clear."""

    key: bytes

    @classmethod
    def read(cls, path: str | PathLike[str] | None) -> PeopleKey:
        """The key in a file; without a file, keys are in clear."""
        if path is None:
            return cls(b"")
        try:
            key = Path(path).read_bytes().strip()
        except OSError as error:
            reason = (error.strerror or "it cannot be read").lower()
            raise InvalidInput(
                f"expected the ledger's key, got {str(path)!r}: {reason}; {HOW_A_KEY_IS_MADE}"
            ) from None
        require(
            _LEAST_KEY <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE,
            f"a key of {_LEAST_KEY} to {hashlib.blake2b.MAX_KEY_SIZE} bytes",
            got=f"{len(key)}",
        )
        return cls(key)

    @property
    def check(self) -> str:
        """A hash by which a wrong key is noticed; empty without a key."""
        return self.digest(_CHECKED).hex() if self.key else ""

    def digest(self, text: bytes) -> bytes:
        """The keyed hash of a text."""
        return hashlib.blake2b(text, key=self.key, digest_size=16).digest()

    def hashes(self, keys: Sequence[str]) -> Hashes:
        """The keyed hash of each of some records' keys; without a key, hashes by which they are found."""
        keyed, digests = hashlib.blake2b(key=self.key, digest_size=16), []
        for key in keys:  # a loop, not a function a key: a tenth of the time for a million people
            own = keyed.copy()
            own.update(key.encode())
            digests.append(own.digest())
        return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)


def numbered(people: Hashes, hashes: Hashes) -> tuple[IndexArray, IndexArray]:
    """The number of each of some hashes among people, and the places of new ones, which get the next numbers.

    >>> one, two, three = ([1, 5], [2, 5], [2, 6])
    >>> numbered(np.array([one, two], dtype="<u8"), np.array([three, two], dtype="<u8"))
    (array([2, 1]), array([0]))
    """
    number = np.full(len(hashes), -1, dtype=np.intp)
    if len(people):
        order, asked = np.argsort(people[:, 0]), np.argsort(hashes[:, 0])
        first, place = people[order, 0], np.empty_like(asked)
        place[asked] = np.searchsorted(first, hashes[asked, 0])  # in order, memory is read in order
        place = np.minimum(place, len(people) - 1)
        alike = first[place] == hashes[:, 0]
        whole = alike & (people[order[place], 1] == hashes[:, 1])
        number[whole] = order[place[whole]]
        for one in np.flatnonzero(alike & ~whole).tolist():  # the first halves agree once in 10¹⁹ pairs
            number[one] = next(iter(np.flatnonzero((people == hashes[one]).all(axis=1))), -1)
    new = np.flatnonzero(number < 0)
    number[new] = len(people) + np.arange(new.size)
    return number, new


def aggregate_of(part: Partition, *, label: str, law: str, sizes: Sequence[float]) -> Aggregate:
    """The aggregate of a partition, with its noise."""
    levels: tuple[float | None, ...] = ()
    closed: tuple[bool, ...] = ()
    own = part.parameter
    if isinstance(own, Band) or part.feature is Feature.BAND:
        ends = [end for band in part.bands for end in (band.low, band.high)]
        levels = tuple(end if math.isfinite(end) else None for end in ends)
        closed = tuple(end for band in part.bands for end in (band.low_closed, band.high_closed))
    elif isinstance(own, int | float):
        levels, closed = (float(own),), (part.closed,)
    return Aggregate(
        statistic=part.statistic.value,
        feature=part.feature.value,
        law=law,
        sizes=tuple(sizes),
        label=label,
        above=part.above,
        levels=levels,
        closed=closed,
        categories=part.categories if part.feature is Feature.INDICATOR else (),
    )


def partition_of(aggregate: Aggregate, numbers: FrozenNumbers, *, query: int, name: str) -> Partition:
    """The partition of an aggregate, in a section of a plan with a name."""
    return Partition(
        query=query,
        name=f"{name}: {aggregate.label}" if aggregate.label else name,
        statistic=Statistic(aggregate.statistic),
        feature=Feature(aggregate.feature),
        parameter=_parameter(aggregate),
        above=aggregate.above,
        label=aggregate.label,
        closed=aggregate.closed[:1] == (True,) and len(aggregate.levels) == 1,
        weighted=bool(numbers.weight),
        key_names=(numbers.column,),
    )


def _parameter(aggregate: Aggregate) -> Parameter:
    if aggregate.categories:
        return aggregate.categories if len(aggregate.categories) > 1 else aggregate.categories[0]
    if len(aggregate.levels) < 2:
        return aggregate.levels[0] if aggregate.levels else None
    bands = _bands(aggregate)
    return bands if len(bands) > 1 else bands[0]


def _bands(aggregate: Aggregate) -> tuple[Band, ...]:
    """The bands of an aggregate, two levels each; a file has no infinite numbers."""
    pairs = list(zip(aggregate.levels, aggregate.closed, strict=True))
    return tuple(
        Band(
            low=UNBOUNDED[0] if low is None else low,
            high=UNBOUNDED[1] if high is None else high,
            low_closed=low_closed,
            high_closed=high_closed,
        )
        for (low, low_closed), (high, high_closed) in zip(pairs[::2], pairs[1::2], strict=True)
    )


def sql_of(aggregate: Aggregate, *, secret: str, kind: SecretKind, weight: str) -> str:
    """An aggregate as SQL over the ledger's table."""
    column, factor = quoted(secret), quoted(weight) if weight else "1"
    function = "AVG" if aggregate.statistic == "mean" else "SUM"
    condition = _condition(aggregate, column, kind)
    if condition:
        negation = "" if aggregate.above else "NOT "
        return f"{function}(CASE WHEN {negation}({condition}) THEN {factor} ELSE 0 END)"
    value = column
    if aggregate.feature == "power":
        value = f"POWER({column}, {aggregate.levels[0]!r})"
    elif aggregate.feature == "clipped":
        (band,) = _bands(aggregate)
        value = clipped_to(value, band.low, band.high)
    return f"{function}({factor} * {value})" if weight else f"{function}({value})"


def _condition(aggregate: Aggregate, column: str, kind: SecretKind) -> str:
    """What is counted, as SQL; empty if a number is added up."""
    match aggregate.feature:
        case "indicator":
            return f"{column} IN ({', '.join(map(literal, aggregate.categories))})"
        case "threshold":
            return f"{column} {'>=' if aggregate.closed[0] else '>'} {aggregate.levels[0]!r}"
        case "band":
            return answers_yes(column, _parameter(aggregate))
        case "value" if kind.two_values:
            return column
    return ""


def aggregated(part: Partition, secrets: NDArray[np.generic]) -> FloatArray:
    """What a partition adds up of each row with some secrets, before its weight."""
    own = part.parameter
    if part.feature is Feature.INDICATOR:
        return np.asarray(np.isin(secrets, list(part.categories)) == part.above, dtype=np.float64)
    values = np.asarray(secrets, dtype=np.float64)
    if isinstance(own, Band) and part.feature is Feature.CLIPPED:
        values = np.clip(values, own.low, own.high)
    elif part.feature is Feature.BAND:
        inside = np.zeros(values.shape, dtype=np.bool_)
        for band in part.bands:
            low = values >= band.low if band.low_closed else values > band.low
            high = values <= band.high if band.high_closed else values < band.high
            inside |= low & high
        values = inside.astype(np.float64)
    elif isinstance(own, int | float):
        above = values >= own if part.closed else values > own
        values = values**own if part.feature is Feature.POWER else above.astype(np.float64)
    return values if part.above else 1.0 - values


_SPREAD = tuple(field.name for field in fields(Occurring))


def _written(spread: Occurring) -> dict[str, Any]:
    """How numbers are spread, with lists for arrays."""
    return {name: _listed(getattr(spread, name)) for name in _SPREAD}


def _spread(written: Mapping[str, Any]) -> Occurring:
    """The same as it was."""
    arrays = {name: np.array(written[name]) for name in ("low", "high", "counts")}
    clusters = tuple(tuple(one) for one in written.get("clusters", ()))  # older entries have none
    return Occurring(**{**written, **arrays, "unused": tuple(written["unused"]), "clusters": clusters})


@dataclass(frozen=True, kw_only=True, eq=False)
class FrozenGroups:
    """For some people, by number, the group of each column, and their weight in it. Some may be in no group.

    A person with several rows is there several times, at places 0, 1 and so on.
    """

    person: IndexArray  # ascending
    place: IndexArray  # of the row among those of its person
    codes: NDArray[np.int32]  # rows × columns
    weights: FloatArray  # rows × columns; 1 where a column has no weights
    known: NDArray[np.bool_]  # whether the attacker knows the person's secret

    @property
    def plain(self) -> bool:
        """Whether every person has one row, without weights."""
        return not (self.place.any() or np.any(self.weights != 1))

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Who is in some group."""
        return np.asarray((self.codes.T >= 0).any(axis=0))  # by columns, which are few

    @property
    def numbers(self) -> int:
        """One more than the largest number of a person."""
        return 1 + int(self.person.max(initial=-1))

    def row(self, width: int = 1) -> IndexArray | slice:
        """The place of each row among those of all people by number, who have at most ``width`` rows."""
        if width > 1:
            return self.person * width + self.place
        return slice(self.numbers) if self.numbers == self.person.size else self.person


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the values of the table showed when the release was made. For the owner only."""

    sums: tuple[tuple[tuple[float, ...], ...], ...] = ()  # column × aggregate × group, of unknown secrets
    # How the secret was spread: the fields of Occurring, with lists for arrays.
    occurring: dict[str, Any] = field(default_factory=dict)
    levels: dict[str, Any] = field(
        default_factory=dict
    )  # likewise of the levels of records with several rows
    derived: tuple[str, ...] = ()  # columns that look like the secret
    by_chance: tuple[str, ...] = ()  # and those that may do so by chance
    dropped: int = 0
    clipped: int = 0
    # Of the release's SQL, as UnauditedRows counts them.
    unaudited: dict[str, int] = field(default_factory=dict)
    adds_up: bool = False  # whether the secret is a sum of rows whose numbers differ
    alike: int = 0  # persons with several rows, all of one value
    # What a pass of the release by itself needs and its audit could not verify: name, count, reason, whether
    # it is for the owner only.
    assumptions: tuple[dict[str, Any], ...] = ()
    rounding: float = 0.0  # squares of the steps that numbers are rounded to, over the noise

    def text(self) -> bytes:
        """As a file."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode()

    @classmethod
    def of_text(cls, text: bytes) -> Found:
        """From a file whose hash was checked."""
        content = json.loads(text)
        sums = tuple(tuple(map(tuple, column)) for column in content.pop("sums"))
        content |= {name: tuple(content[name]) for name in ("derived", "by_chance", "assumptions")}
        return cls(sums=sums, **content)

    @property
    def spread(self) -> Occurring:
        """How the secret was spread."""
        return _spread(self.occurring)

    @property
    def spread_of_levels(self) -> Occurring | None:
        """How the levels of records were, where they had several rows."""
        return _spread(self.levels) if self.levels else None

    @property
    def answers(self) -> str:
        """A digest of the true sums."""
        return hashlib.sha256(json.dumps(self.sums).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False)
class FrozenRelease:
    """A release that was read, priced and run on the table as it is now."""

    release: Release
    numbers: tuple[FrozenNumbers, ...]
    hashes: Hashes  # of the people who are in some group
    keys: list[str]  # and their keys in the table
    groups: FrozenGroups  # ``person`` is the place in ``keys``
    found: Found
    table: str  # a digest of the rows
    columns: tuple[str, ...]  # the kinds of the record's and the secret's column
    public: tuple[str, ...]  # columns that it takes as public and the plan does not declare
    # Of everybody in the table, what dominance and p compare; nobody where no rule asks. It is not stored.
    worth: tuple[Hashes, FloatArray]


def _worth(plan: Plan, membership: Membership, rows: RowRecords, key: PeopleKey) -> tuple[Hashes, FloatArray]:
    if not plan.rules.of_values:
        return key.hashes(()), np.zeros(0)
    require(
        membership.contributions <= 1 and plan.data.secret_kind.measured,
        "numbers of persons with one row each, for dominance and p over the entries of a ledger",
        got=f"up to {membership.contributions:,} rows each" if membership.contributions > 1 else "no number",
        fix="make one row of each by [data] sql",
        error=InvalidPlan,
    )
    return key.hashes(rows.keys), np.asarray(rows.secret, dtype=np.float64)


def _check_count_rules(release: Release) -> None:
    """Refuse rules for counts that an entry cannot repeat."""
    require(
        not release.numbers,
        f"release {release.name[:60]!r}: numbers that its SQL makes",
        got="a file of numbers",
        fix="an entry keeps no file; audit what was published elsewhere as one plan",
        error=InvalidPlan,
    )
    rules = {one.count_rule for one in release.noise}
    by_rule = any(one.law.by_count_rule for one in release.noise)
    require(
        not by_rule or len(rules) == 1,
        f"release {release.name[:60]!r}: one rule for all of its counts",
        got="several",
        fix="add a release for each",
        error=InvalidPlan,
    )
    require(
        not any(one.ptable for one in release.noise),
        f"release {release.name[:60]!r}: exact, rounded or blank counts, or counts known to within",
        got="cell keys",
        fix="keys of several tables depend on each other, and an entry keeps no file; audit them all "
        "as one plan",
        error=InvalidPlan,
    )


def freeze(plan: Plan, base: Path, release: Release, *, number: int, key: PeopleKey) -> FrozenRelease:
    """Run a release on the table of a plan and keep who was in which group, under which noise."""
    require(
        release.noise_given,
        f"release {release.name[:60]!r}: its noise, as noise_stddev or noise",
        got="none",
        fix="a ledger has no budget to share, because it does not know what comes later",
        error=InvalidPlan,
    )
    require(
        not release.factored,
        f"release {release.name[:60]!r}: noise of its own on every number",
        got="a mechanism whose numbers share noise",
        fix="an entry states the noise of each number, and what they share would be lost",
        error=InvalidPlan,
    )
    data, prior = plan.data, plan.attacker.prior
    require(
        not data.presence or (bool(data.frame) and prior != "uniform"),
        f"release {release.name[:60]!r}: presence with a frame, and prior = {{ yes = … }} in [attacker]",
        got="no prior" if data.frame else "no frame",
        fix="the share of the frame that is there may not change from entry to entry: state what is expected"
        if data.frame
        else "an entry keeps who is in its groups; only a frame says who might be",
        error=InvalidPlan,
    )
    alone = with_counts_read(plan.model_copy(update={"releases": (release,)}))
    # What its SQL blanks is kept beside the SQL as it was written: an entry's numbers are never blank.
    release = release.model_copy(update={"suppress_below": alone.releases[0].suppress_below})
    _check_count_rules(release)
    with opened(alone, base) as session:
        report("reading the table", 0.0)
        membership = session.membership()
        where = f"release {release.name[:60]!r}"
        require(bool(membership.cells), f"{where}: numbers about the secret", got="none", error=InvalidPlan)
        rows = row_records(session.engine, session.counted)
        numbers, columns = _numbers(membership, price(alone, membership), number)
        findings = find(alone, membership, values=session.values)
        totals = partial(session.totals, membership=membership)
        raised = unverified(findings, homogeneous_cells(findings, totals), certain_report(findings, totals))
        own = [find_column(session.engine.columns(), name) for name in (plan.data.record, plan.data.secret)]
    parts = [column[0] for column in columns]
    codes = membership.signatures[:, parts].astype(np.int32)[rows.signature]
    weights = np.broadcast_to(1.0, codes.shape)
    if membership.weights:
        weights = np.stack([membership.weights_in(p) for p in parts], axis=1)[rows.signature]
    found = Found(
        sums=tuple(
            tuple(_sums(membership, p, rows, codes[:, line], weights[:, line]) for p in column)
            for line, column in enumerate(columns)
        ),
        occurring=_written(membership.occurring),
        levels=_written(membership.levels[""]) if "" in membership.levels else {},
        derived=membership.derived,
        by_chance=membership.alike_in_few_rows,
        dropped=membership.dropped,
        clipped=membership.clipped,
        unaudited=asdict(membership.unaudited[0]),
        adds_up=membership.adds_up,
        alike=membership.persons.alike,
        assumptions=tuple(
            with_reason(one).model_dump(mode="json", exclude={"accepted", "fact"}) for one in raised
        ),
        rounding=rounding_beside_noise(findings),
    )
    inside = np.flatnonzero((codes >= 0).any(axis=1))
    first = np.diff(rows.person[inside], prepend=-1) > 0  # the first row of a person
    person, start = np.cumsum(first) - 1, np.flatnonzero(first)
    several = start.size < inside.size
    one_each = np.zeros(len(rows.keys), dtype=np.bool_)
    one_each[inside[start]] = True
    keys = list(compress(rows.keys, one_each.tolist()))
    hashes = key.hashes(keys)
    secrets = "\n".join(rows.secret).encode() if rows.secret.dtype == object else rows.secret.tobytes()
    digest = hashlib.sha256(hashes.data)
    digest.update(secrets)
    return FrozenRelease(
        release=release,
        numbers=numbers,
        hashes=hashes,
        keys=keys,
        groups=FrozenGroups(
            person=person,
            place=np.arange(inside.size) - start[person] if several else np.broadcast_to(0, inside.shape),
            codes=codes[inside],
            weights=weights[inside] if weights.strides[0] else weights[: inside.size],
            known=rows.known[inside],
        ),
        found=found,
        table=key.digest(digest.digest()).hex(),
        columns=tuple(column.kind.value for column in own),
        public=membership.taken_as_public,
        worth=_worth(plan, membership, rows, key),
    )


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _sums(
    membership: Membership, p: int, rows: RowRecords, codes: NDArray[np.int32], weights: FloatArray
) -> tuple[float, ...]:
    """The true sum of each group of a partition, over the people whom the attacker does not know."""
    inside = (codes >= 0) & ~rows.known
    values = (weights * aggregated(membership.partitions[p], rows.secret))[inside]
    size = int(membership.starts[p + 1] - membership.starts[p])
    return tuple(np.bincount(codes[inside], values, size).tolist())


def _numbers(
    membership: Membership, pricing: Pricing, number: int
) -> tuple[tuple[FrozenNumbers, ...], list[list[int]]]:
    """The release's numbers by the groups that they are about, and the partitions of each."""
    filled = sorted({cell.partition for cell in membership.cells})
    columns: dict[tuple[bytes, bytes], list[int]] = {}
    for p in filled:
        weights = membership.weights_in(p) * membership.partitions[p].weighted
        columns.setdefault((membership.signatures[:, p].tobytes(), weights.tobytes()), []).append(p)
    numbers = []
    for place, parts in enumerate(columns.values()):
        name = f"r{number}" if len(columns) == 1 else f"r{number}_{place + 1}"
        labels = _distinct([membership.partitions[p].label or "value" for p in parts])
        cells = membership.cells[int(membership.starts[parts[0]]) : int(membership.starts[parts[0] + 1])]
        numbers.append(
            FrozenNumbers(
                column=name,
                groups=tuple(_distinct([", ".join(cell.key) or "all" for cell in cells])),
                aggregates=tuple(
                    aggregate_of(
                        membership.partitions[p],
                        label=label if len(parts) > 1 else "",
                        law=pricing.laws[p].value,
                        sizes=tuple(pricing.noise_stddev[pricing.owner == p].tolist()),
                    )
                    for p, label in zip(parts, labels, strict=True)
                ),
                weight=f"w{name[1:]}" if membership.partitions[parts[0]].weighted else "",
            )
        )
    return tuple(numbers), list(columns.values())


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that occur before."""
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return distinct


def renumbered(groups: FrozenGroups, person: IndexArray) -> FrozenGroups:
    """The same with other numbers of the people, in ascending order."""
    own = person[groups.person]
    order = np.argsort(own, kind="stable")
    arrays = {field.name: getattr(groups, field.name) for field in fields(FrozenGroups)}
    # One value for all has no step from row to row, and needs no memory.
    ordered = {name: array[order] if array.strides[0] else array for name, array in arrays.items()}
    return FrozenGroups(**{**ordered, "person": own[order]})
