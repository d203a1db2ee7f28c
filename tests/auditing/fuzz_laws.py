"""Laws of verdicts on drawn plans of every kind: what cannot matter to a person changes nothing said of them.

Numbers, yes or no and categories; persons with one row, rows of any values, of one value or independent ones;
sums, means, counts and weights; Gaussian, Laplace, geometric and no noise; rows that the attacker knows. The
tables are made by hand, so that a plan takes milliseconds; doors and engines are in ``no_false_pass``.

``python -m tools.fuzz --entry tests.auditing.fuzz_laws --seed 1 --seconds 600`` runs it alone.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from sightline.arrays import FloatArray
from sightline.auditing import findings
from sightline.auditing.findings import Findings, LinearFindings, find
from sightline.auditing.plan import Plan
from sightline.bounds import listed_worlds
from sightline.tables.membership import Cell, Feature, Membership, Partition, Statistic
from sightline.units.design import Design
from tests.auditing.hand_made import persons_of
from tests.numbered_cases import check_cases

CATEGORIES = ("a", "b", "c")
BOUNDS = (0.0, 10.0)
# Ends are certified to rounding. Of several lower bounds the best counts, and how each weighs unknown people
# depends on everybody's noise: more noise may cost a lower end up to this.
ROUNDED, SLACK = 1e-9, 1e-3
# Of few values ends are searched for and drawn, and other numbers are searched and drawn otherwise: then a
# lower end may move by this. An upper end is that of the best attack that is found, and may move by more.
SEARCHED = 0.02
NO_LIMIT = 1e-12
_DRAWS = 3_000  # of listed worlds: a sixth of what an audit takes, with wider margins


@contextmanager
def quick() -> Iterator[None]:
    """Fewer draws, and no walks, which are for limits within a bracket: a plan takes a third of the time."""
    with patch.object(listed_worlds, "_MOST_DRAWS", _DRAWS), patch.object(findings, "with_walk", _not_walked):
        yield


def _not_walked(design: Design, lower: FloatArray, upper: FloatArray, limit: float) -> FloatArray:
    return lower


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What one release publishes of the rows."""

    groups: tuple[int, ...]  # of every row, -1 for none
    statistic: Statistic
    law: str
    stddev: float
    times: int = 1
    weights: tuple[float, ...] = ()  # of every row, where it is a weighted sum
    counted: str = ""  # the category that it counts

    @property
    def noise(self) -> dict[str, Any]:
        """Its noise, as a plan says it."""
        return {"law": self.law} if self.law == "none" else {"law": self.law, "stddev": self.stddev}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPlan:
    """A plan and whose rows are in which of its numbers."""

    kind: str
    owners: tuple[int, ...]  # of every row
    known: frozenset[int]
    releases: tuple[Release, ...]
    data: Mapping[str, Any] = field(default_factory=dict)
    attacker: Mapping[str, Any] = field(default_factory=dict)

    @property
    def searched(self) -> bool:
        """Whether ends are searched for or drawn, and move if other numbers are published.

        That is so of few values, of persons with several rows, and beside exact numbers.
        """
        few = self.kind != "number" or self.attacker.get("prior") == "two-point"
        several = len(set(self.owners)) < len(self.owners)
        return few or several or any(one.law == "none" for one in self.releases)

    @property
    def plan(self) -> Plan:
        """As the reader would have it."""
        about: dict[str, Any] = {"source": "t.csv", "record": "id", "secret": "x", **self.data}
        rows = max(Counter(self.owners).values())
        return Plan.model_validate(
            {
                "data": {**about, **({"max_rows_per_record": rows} if rows > 1 else {})},
                "attacker": dict(self.attacker),
                "limits": {"remaining_uncertainty": NO_LIMIT},
                "release": [
                    {
                        "name": f"r{i}",
                        "sql": "SELECT SUM(x) FROM data",
                        "noise": one.noise,
                        "times": one.times,
                    }
                    for i, one in enumerate(self.releases)
                ],
            }
        )

    @property
    def membership(self) -> Membership:
        """As the engine would have it."""
        parts, cells, codes, weighted = [], list[Cell](), [], {}
        for p, one in enumerate(self.releases):
            names, place = np.unique([code for code in one.groups if code >= 0], return_inverse=True)
            own = np.full(len(one.groups), -1)
            own[np.array(one.groups) >= 0] = place
            sizes = np.bincount(place)
            cells += [
                Cell(partition=p, key=(str(n),), rows=int(s)) for n, s in zip(names, sizes, strict=True)
            ]
            codes.append(own)
            feature = Feature.VALUE if self.kind == "number" else Feature.INDICATOR
            parts.append(
                Partition(
                    query=p,
                    name=f"r{p}",
                    statistic=one.statistic,
                    feature=feature,
                    weighted=bool(one.weights),
                    parameter=one.counted or None,
                )
            )
            if one.weights:
                weighted[p] = np.array(one.weights)
        lines = np.stack([*codes, *(weighted[p] for p in sorted(weighted))], axis=1).astype(np.float64)
        distinct, first, back = np.unique(lines, axis=0, return_index=True, return_inverse=True)
        back = back.ravel()
        mine = np.isin(np.arange(len(self.owners)), list(self.known)).astype(np.float64)
        each = Counter(self.owners)
        membership = Membership(
            partitions=tuple(parts),
            cells=tuple(cells),
            signatures=distinct[:, : len(parts)].astype(np.int32),
            counts=np.bincount(back).astype(np.int64),
            known=np.bincount(back, mine).astype(np.int64),
            rows=len(self.owners),
            records=len(each),
            contributions=max(each.values()),
            dropped=0,
            clipped=0,
            weights={p: own[first] for p, own in weighted.items()},
            distinct=not weighted,
        )
        if max(each.values()) > 1:
            keys = [f"{owner:04d}" for owner in self.owners]
            membership = replace(membership, persons=persons_of(keys, back.tolist(), set(self.known)))
        return membership

    def found(self) -> Findings:
        """What it exposes, under each belief that it leaves open."""
        return find(self.plan, self.membership)


def by_person(drawn: DrawnPlan, *, level_alone: bool = False) -> dict[int, tuple[float, float]]:
    """What remains of each person at least and at most, under the worst belief of each end."""
    beliefs = [one for one in drawn.found().every_belief if one.one_value or not level_alone]
    kept: dict[int, tuple[float, float]] = {}
    for one in beliefs:
        for person, (low, high) in _of_belief(drawn, one.linear).items():
            before = kept.get(person, (math.inf, math.inf))
            kept[person] = min(before[0], low), min(before[1], high)
    return kept


def _of_belief(drawn: DrawnPlan, found: LinearFindings) -> dict[int, tuple[float, float]]:
    if not found:
        return {}
    place, k = found.linear.unit_of_record, found.linear.columns_of_unit
    lower = found.lower.reshape(-1, k).min(axis=1)
    upper = found.upper.reshape(-1, k).min(axis=1)
    if found.linear.by_kind:
        unit = dict(zip(sorted(set(drawn.owners)), place.tolist(), strict=True))
    else:
        signatures = _signature_of_rows(drawn)
        unit = {
            owner: int(place[signatures[row]]) if row not in drawn.known else -1
            for row, owner in enumerate(drawn.owners)
        }
    return {own: (float(lower[one]), float(upper[one])) for own, one in unit.items() if one >= 0}


def _signature_of_rows(drawn: DrawnPlan) -> list[int]:
    """Of every row the place of its signature, as ``membership`` orders them."""
    lines = [_codes(one.groups) for one in drawn.releases]
    lines += [np.array(one.weights) for one in drawn.releases if one.weights]
    back = np.unique(np.stack(lines, axis=1).astype(np.float64), axis=0, return_inverse=True)[1]
    return list(map(int, back.ravel()))


def _codes(groups: tuple[int, ...]) -> np.ndarray:
    own = np.full(len(groups), -1)
    inside = np.array(groups) >= 0
    own[inside] = np.unique(np.array(groups)[inside], return_inverse=True)[1]
    return own


# Drawing.


def draw(rng: np.random.Generator, *, whole_persons: bool = False) -> DrawnPlan:
    """A plan of any kind. ``whole_persons``: all rows of a person are in the same numbers."""
    kind = str(rng.choice(["number", "number", "boolean", "category"]))
    people = int(rng.integers(2, 7))
    most = int(rng.choice([1, 1, 2, 3]))
    each = rng.integers(1, most + 1, people) if not whole_persons else np.full(people, most)
    owners = np.repeat(np.arange(people), each)
    several = bool(each.max() > 1)
    data: dict[str, Any] = {"bounds": list(BOUNDS)} if kind == "number" else {}
    attacker: dict[str, Any] = {}
    if kind == "boolean":
        data["kind"] = "boolean"
    if kind == "category":
        data["categories"] = list(CATEGORIES)
    if several:
        data["values"] = str(rng.choice(["any", "any", "constant", "independent"]))
    if kind == "number":
        attacker["prior"] = str(rng.choice(["uniform", "uniform", "cos2", "two-point"]))
    elif kind == "boolean" and (not several or data["values"] == "constant") and rng.random() < 0.5:
        attacker["prior"] = {"yes": float(rng.choice([0.1, 0.3, 0.5]))}
    known = (
        frozenset(np.flatnonzero(rng.random(owners.size) < 0.2).tolist())
        if rng.random() < 0.25
        else frozenset()
    )
    if len({int(owners[row]) for row in range(owners.size) if row not in known}) == 0 or whole_persons:
        known = frozenset()
    laws = ["gaussian"] * 4 + ["laplace", "none"] + (["geometric"] if kind != "number" else [])
    size = 10.0 if kind == "number" else 1.0
    releases = tuple(
        _drawn_release(rng, owners, kind, str(rng.choice(laws)), size, whole_persons=whole_persons)
        for _ in range(int(rng.integers(1, 5)))
    )
    return DrawnPlan(
        kind=kind, owners=tuple(owners.tolist()), known=known, releases=releases, data=data, attacker=attacker
    )


def _drawn_release(  # many parameters: what may be drawn of a release
    rng: np.random.Generator, owners: np.ndarray, kind: str, law: str, size: float, *, whole_persons: bool
) -> Release:
    people = int(owners.max()) + 1
    groups = rng.integers(-1, 3, people)[owners] if whole_persons else rng.integers(-1, 3, owners.size)
    if rng.random() < 0.3:
        groups = np.zeros(owners.size, dtype=np.intp)
        groups[(owners if whole_persons else np.arange(owners.size)) == int(rng.integers(people))] = -1
    if (groups < 0).all():
        groups = np.zeros(owners.size, dtype=np.intp)
    weights: tuple[float, ...] = ()
    if rng.random() < 0.25 and not whole_persons and kind != "category":
        weights = tuple(rng.integers(1, 5, owners.size).astype(float).tolist())
    mean = kind == "number" and not weights and not whole_persons and rng.random() < 0.3
    return Release(
        groups=tuple(groups.tolist()),
        statistic=Statistic.MEAN if mean else Statistic.SUM,
        law=law,
        stddev=float(size * 10 ** rng.uniform(-2, 1.5)),
        times=int(rng.choice([1, 1, 3])),
        weights=weights,
        counted=str(rng.choice(CATEGORIES)) if kind == "category" else "",
    )


# Laws.


class LawBroken(AssertionError):
    """A law does not hold for a plan."""


class Contradiction(LawBroken):
    """A proof says that more is left than an attack leaves: one of them is wrong, however few the draws."""


Kept = dict[int, tuple[float, float]]  # of each person what remains, at least and at most


def _require(holds: bool, law: str, *figures: object) -> None:
    if not holds:
        raise LawBroken(f"{law}: {figures}")


def _same(law: str, drawn: DrawnPlan, one: Kept, other: Kept) -> None:
    """The same is said of as many people, whatever is searched for or drawn.

    Of two people who could be exchanged either one may be drawn first: so ends are compared in their order.
    """
    _of_one_risk(law, one, other)
    _of_one_risk(law, other, one)
    for name, end in (("lower", 0), ("upper", 1)):
        first, second = (
            sorted(kept[person][end] for person in one if person in kept) for kept in (one, other)
        )
        close = len(first) == len(second) and np.allclose(first, second, rtol=SLACK, atol=SLACK * 1e-3)
        _require(bool(close), f"{law}: {name}", first, second)


def _same_risk(law: str, drawn: DrawnPlan, one: Kept, other: Kept) -> None:
    """What is published says the same in other numbers."""
    _no_worse(law, drawn, one, other)
    _no_worse(law, drawn, other, one)


def _of_one_risk(law: str, before: Kept, after: Kept) -> None:
    """What the first plan leaves at least, the second one leaves: no attack on the second one leaves less."""
    for person, (low, _) in before.items():
        high = after.get(person, (1.0, 1.0))[1]
        if not high >= low * (1 - ROUNDED):
            raise Contradiction(f"{law}: a proof against an attack", person, low, high)


def _no_worse(law: str, drawn: DrawnPlan, before: Kept, after: Kept) -> None:
    """Nobody keeps less. Who is in no number any more keeps everything.

    That no proof contradicts an attack has no exception: one would be a proof that is wrong. Both ends move
    likewise, up to rounding; where they are :attr:`DrawnPlan.searched`, lower ends by no more than a little.
    """
    _of_one_risk(law, before, after)
    slack = SEARCHED if drawn.searched else 0.0
    for person, (low, high) in before.items():
        after_low, after_high = after.get(person, (1.0, 1.0))
        _require(after_low >= low * (1 - SLACK) - slack, f"{law}: lower", person, low, after_low)
        if not drawn.searched:
            _require(after_high >= high * (1 - SLACK), f"{law}: upper", person, high, after_high)


def more_noise(rng: np.random.Generator, count: Counter[str]) -> None:
    """More noise on one release leaves nobody less."""
    drawn = draw(rng)
    noisy = [i for i, one in enumerate(drawn.releases) if one.law != "none"]
    if not noisy:
        return
    place, factor = int(rng.choice(noisy)), float(10 ** rng.uniform(0.05, 1.5))
    changed = list(drawn.releases)
    changed[place] = replace(changed[place], stddev=changed[place].stddev * factor)
    _no_worse("more noise", drawn, by_person(drawn), by_person(replace(drawn, releases=tuple(changed))))
    count["more noise"] += 1


def one_fewer(rng: np.random.Generator, count: Counter[str]) -> None:
    """One release fewer leaves nobody less."""
    drawn = draw(rng)
    if len(drawn.releases) < 2:
        return
    gone = int(rng.integers(len(drawn.releases)))
    fewer = tuple(one for i, one in enumerate(drawn.releases) if i != gone)
    _no_worse("one fewer", drawn, by_person(drawn), by_person(replace(drawn, releases=fewer)))
    count["one fewer"] += 1


def strangers(rng: np.random.Generator, count: Counter[str]) -> None:
    """People and releases that no chain of rows connects to the others change no number."""
    drawn = draw(rng)
    far = draw(rng)
    while far.kind != drawn.kind or far.data != drawn.data or far.attacker != drawn.attacker:
        far = draw(rng)
    here, there, people = len(drawn.owners), len(far.owners), max(drawn.owners) + 1

    def padded(one: Release, before: int, after: int) -> Release:
        weights = (*[0.0] * before, *one.weights, *[0.0] * after) if one.weights else ()
        return replace(one, groups=(*[-1] * before, *one.groups, *[-1] * after), weights=weights)

    both = replace(
        drawn,
        owners=(*drawn.owners, *(people + one for one in far.owners)),
        known=drawn.known | {here + one for one in far.known},
        releases=(
            *(padded(one, 0, there) for one in drawn.releases),
            *(padded(one, here, 0) for one in far.releases),
        ),
    )
    _same("strangers", drawn, by_person(drawn), by_person(both))
    count["strangers"] += 1


def other_order(rng: np.random.Generator, count: Counter[str]) -> None:
    """Releases and rows in another order, and groups of other names, change nothing."""
    drawn = draw(rng)
    rows, order = rng.permutation(len(drawn.owners)), rng.permutation(len(drawn.releases))

    def moved(one: Release) -> Release:
        names = rng.permutation(3)
        groups = tuple(int(names[one.groups[row]]) if one.groups[row] >= 0 else -1 for row in rows)
        return replace(
            one, groups=groups, weights=tuple(one.weights[row] for row in rows) if one.weights else ()
        )

    other = replace(
        drawn,
        owners=tuple(drawn.owners[row] for row in rows),
        known=frozenset(new for new, row in enumerate(rows.tolist()) if row in drawn.known),
        releases=tuple(moved(drawn.releases[i]) for i in order),
    )
    _same("another order", drawn, by_person(drawn), by_person(other))
    count["another order"] += 1


def added_up(rng: np.random.Generator, count: Counter[str]) -> None:
    """Rows of a person summed, where every release sums all of them or none: bounds in proportion.

    What is said of a level is the same, and rows that have nothing in common can only make it stricter.
    """
    drawn = draw(rng, whole_persons=True)
    rows = max(Counter(drawn.owners).values())
    if drawn.kind != "number" or rows == 1 or drawn.data["values"] == "independent":
        return
    first = [drawn.owners.index(one) for one in sorted(set(drawn.owners))]
    totals = replace(
        drawn,
        owners=tuple(range(len(first))),
        releases=tuple(
            replace(one, groups=tuple(one.groups[row] for row in first)) for one in drawn.releases
        ),
        data={"bounds": [rows * bound for bound in BOUNDS]},
    )
    expected = by_person(totals)
    _same("rows added up", drawn, by_person(drawn, level_alone=True), expected)
    _no_worse("rows added up, under both beliefs", drawn, by_person(drawn), expected)
    count["rows added up"] += 1


def constant_weight(rng: np.random.Generator, count: Counter[str]) -> None:
    """Beside an exact sum, weights that are all larger by one number tell the same."""
    drawn = draw(rng)
    if drawn.kind == "category":
        return
    everyone, size = (0,) * len(drawn.owners), len(drawn.owners)
    exact = Release(groups=everyone, statistic=Statistic.SUM, law="none", stddev=0.0)
    weights = rng.integers(1, 5, size).astype(float)
    noise = replace(exact, law="gaussian", stddev=float(10 ** rng.uniform(-1, 2)))

    def with_weights(more: float) -> DrawnPlan:
        weighted = replace(noise, weights=tuple((weights + more).tolist()))
        return replace(drawn, releases=(exact, weighted, *drawn.releases[:2]))

    more = float(rng.integers(1, 9))
    _same_risk("a constant in weights", drawn, by_person(with_weights(0.0)), by_person(with_weights(more)))
    count["a constant in weights"] += 1


LAWS: tuple[Callable[[np.random.Generator, Counter[str]], None], ...] = (
    more_noise,
    one_fewer,
    strangers,
    other_order,
    added_up,
    constant_weight,
)


def check(rng: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """One law, each in turn, on a plan.

    Ends that are drawn have wide margins where draws are few. So a law that is broken then is tried again
    with as many draws as an audit takes; a proof against an attack is wrong with any.
    """
    law, again = LAWS[trial % len(LAWS)], copy.deepcopy(rng)
    try:
        with quick():
            law(rng, count)
    except Contradiction:
        raise
    except LawBroken:
        law(again, count)
        count["tried again with all draws"] += 1


def fuzz(seed: int, seconds: float, *, most: float = math.inf) -> dict[str, int]:
    """Cases 0, 1, … of a seed until the time is up, or until there were ``most``."""
    return check_cases(check, seed, seconds, most=most)
