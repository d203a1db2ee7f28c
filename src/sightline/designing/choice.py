r"""The least noise for a limit that one of several bounds must prove for each record.

For a given choice of a bound for each record the problem is convex, and its optimum is certified. The choice
itself is not a convex matter, so it is improved step by step: at an optimum each record takes the bound that
it keeps with most room. The noise stays feasible, so the next optimum is no worse. The certified gap is for
the last choice, and for the entropic bound at the last factor of the determinants; another choice might need
less noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations

import numpy as np
from scipy.sparse import csc_array

from sightline.arrays import FloatArray, IndexArray
from sightline.designing.levels import (
    Level,
    entropic_factor,
    entropic_level,
    most_information,
    van_trees_level,
)
from sightline.designing.newton import Optimum, least_noise
from sightline.designing.problem import NoiseProblem
from sightline.designing.risks import HiddenRisks, KnownRisks, Risks
from sightline.designing.task import DesignTask
from sightline.errors import InvalidPlan, require
from sightline.labeled.incidence.protocol import BoolArray
from sightline.progress import Progress, silent
from sightline.tables.subject import SecretKind

_ROUNDS = 5
_WORTHWHILE = 1e-4  # by how much of the loss another choice must be better
_MOST_PAIRS = 2_000_000
_FACTORS, _SAME_FACTOR = 12, 1e-9  # how often the entropic factor is taken again, and when it is the same


class BoundName(StrEnum):
    """The bound that proves that a record keeps the limit."""

    KNOWN = "all other records known"
    VAN_TREES = "van Trees, no other record known"
    ENTROPIC = "entropic, no other record known"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Targets:
    """The records that may keep less than the limit at the floor: a column for each, and its levels."""

    record: IndexArray  # the column of the linear design
    columns: csc_array
    known_needed: FloatArray  # 1/g; zero where the group hides its records whatever the noise
    gram: FloatArray  # AAᵀ over the records that the attacker does not know
    gram_of_all: FloatArray

    def __len__(self) -> int:
        return len(self.record)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """An optimum, and for each constraint its record and its bound."""

    problem: NoiseProblem
    optimum: Optimum
    bounds: tuple[BoundName, ...]  # for each kind of constraint of the problem
    records: tuple[IndexArray, ...]  # the columns of the linear design


def targets_of(task: DesignTask) -> Targets:
    """The records that the floor does not protect. More noise never harms the others: bounds are monotone."""
    linear, below = task.linear, np.flatnonzero(task.findings.lower < task.limit)
    prior = linear.prior
    if prior.kind is SecretKind.CATEGORY and prior.categories > 2:
        below, columns = _pairs(task, below)
    else:
        columns = task.columns(below)
    information = most_information(prior, task.limit, linear.counts[below])
    unknown = ~linear.known[: linear.design.size]
    incidence = linear.design.incidence
    hidden = prior.kind is SecretKind.NUMBER and below.size > 0
    nothing = np.zeros((0, 0))
    gram = incidence.gram(unknown, silent) if hidden else nothing
    everyone = gram if unknown.all() or not hidden else incidence.gram(np.ones_like(unknown), silent)
    with np.errstate(divide="ignore"):
        needed = 1 / information
    return Targets(record=below, columns=columns, known_needed=needed, gram=gram, gram_of_all=everyone)


def best_noise(task: DesignTask, targets: Targets, progress: Progress = silent) -> Chosen | None:
    """The least noise over a few choices of bounds; ``None`` if no noise within the ceilings is enough."""
    prior = task.linear.prior
    van_trees = van_trees_level(prior, task.limit)
    nobody = np.zeros(len(targets), dtype=np.bool_)
    everyone = ~nobody
    starts: list[_Choice] = [_Choice(targets=targets, known=everyone, van_trees=nobody, entropic=nobody)]
    if van_trees is not None:
        starts.append(
            _Choice(
                targets=targets, known=nobody, van_trees=everyone, entropic=nobody, levels=(van_trees, None)
            )
        )
    best: Chosen | None = None
    for start in starts:
        found = start.solved(task, progress)
        if found is not None and (best is None or found.optimum.upper < best.optimum.upper):
            best = found
    if best is None or not len(targets):
        return best
    for _ in range(_ROUNDS):
        choice = _roomiest(task, targets, best.problem.variances(best.optimum.x), van_trees)
        found = None if choice is None else choice.solved_with_its_own_factor(task, progress)
        if found is None or found.optimum.upper > best.optimum.upper * (1 - _WORTHWHILE):
            break
        best = found
    return best


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Choice:
    """Which bound each target must keep."""

    targets: Targets
    known: BoolArray
    van_trees: BoolArray
    entropic: BoolArray
    levels: tuple[Level | None, Level | None] = (None, None)  # of the last two

    def solved_with_its_own_factor(self, task: DesignTask, progress: Progress) -> Chosen | None:
        """Solve with an entropic factor that is no larger than the one at the optimum."""
        choice, found = self, self.solved(task, progress)
        for _ in range(_FACTORS):
            if found is None or BoundName.ENTROPIC not in found.bounds:
                break
            variances = found.problem.variances(found.optimum.x)
            factor = entropic_factor(task.linear.prior, self.targets.gram_of_all, variances)
            level = entropic_level(task.linear.prior, task.limit, factor)
            now = choice.levels[1]
            if level is None or now is None or level.needed <= now.needed * (1 + _SAME_FACTOR):
                break
            choice = replace(choice, levels=(choice.levels[0], level))
            found = choice.solved(task, progress)
        return found

    def solved(self, task: DesignTask, progress: Progress) -> Chosen | None:
        problem, names, places = task.problem(), [], []
        risks: list[Risks] = []
        asked = self.known & (self.targets.known_needed > 0)
        for name, mask in zip(BoundName, (asked, self.van_trees, self.entropic), strict=True):
            place = np.flatnonzero(mask)
            if not place.size:
                continue
            risks.append(_risks(self.targets, name, place, self.levels))
            names.append(name)
            places.append(self.targets.record[place])
        problem = replace(problem, risks=tuple(risks))
        optimum = least_noise(problem, progress=progress)
        if optimum is None:
            return None
        return Chosen(problem=problem, optimum=optimum, bounds=tuple(names), records=tuple(places))


def _risks(
    targets: Targets, name: BoundName, place: IndexArray, levels: tuple[Level | None, Level | None]
) -> Risks:
    columns = csc_array(targets.columns[:, place])
    if name is BoundName.KNOWN:
        return KnownRisks(columns=columns, needed=targets.known_needed[place])
    level = levels[0 if name is BoundName.VAN_TREES else 1]
    assert level is not None  # the choice names a bound only with its level
    return HiddenRisks(
        columns=columns, needed=np.full(place.size, level.needed), tau=level.tau, gram=targets.gram
    )


def _roomiest(
    task: DesignTask, targets: Targets, variances: FloatArray, van_trees: Level | None
) -> _Choice | None:
    """For each target the bound that it keeps with most room at some noise; none if only one is there."""
    prior = task.linear.prior
    if prior.kind is not SecretKind.NUMBER:
        return None
    factor = entropic_factor(prior, targets.gram_of_all, variances)
    levels = (van_trees, entropic_level(prior, task.limit, factor))
    everyone = np.arange(len(targets))
    room = np.full((3, len(targets)), -np.inf)
    for row, name in enumerate(BoundName):
        if row and levels[row - 1] is None:
            continue
        risks = _risks(targets, name, everyone, levels)
        with np.errstate(divide="ignore"):
            room[row] = risks.at(variances).phi / risks.needed
    best = np.argmax(room, axis=0)
    return _Choice(targets=targets, known=best == 0, van_trees=best == 1, entropic=best == 2, levels=levels)


def _pairs(task: DesignTask, below: IndexArray) -> tuple[IndexArray, csc_array]:
    r"""For a category: the numbers about two categories a, b of each record, which must tell little together.

    The audit's lower end is a mean over b of a bound that falls with :math:`I_a + I_b`. It keeps the limit if
    each of them does: a condition that is enough and convex, though not needed.
    """
    linear, membership = task.linear, task.membership
    owner = [membership.cells[cell].partition for cell in linear.cells]
    names = sorted({str(membership.partitions[p].parameter) for p in owner})
    category = np.array([names.index(str(membership.partitions[p].parameter)) for p in owner])
    signature, first = np.unique(linear.column_signature[below], return_index=True)
    require(
        signature.size * len(names) * (len(names) - 1) // 2 <= _MOST_PAIRS,
        f"at most {_MOST_PAIRS:,} pairs of categories over the exposed records",
        got="more",
        fix="design fewer releases at once",
        error=InvalidPlan,
    )
    record = below[first]
    columns = task.columns(record)
    if len(names) == 1:
        return record, columns
    about = [csc_array(columns.multiply((category == one)[:, None])) for one in range(len(names))]
    pairs = [csc_array(about[one] + about[two]) for one, two in combinations(range(len(names)), 2)]
    joined = csc_array(np.concatenate([pair.toarray() for pair in pairs], axis=1))
    kept = np.diff(joined.indptr) > 0
    return np.tile(record, len(pairs))[kept], csc_array(joined[:, np.flatnonzero(kept)])
