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
from sightline.designing.common_factor import common_factor
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
_MUCH = 1e8  # variance over its floor's that stands for any more
_FACTORS, _SAME_FACTOR = 12, 1e-7  # how often the entropic factor is taken again, and when it is the same


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


def common_guess(task: DesignTask, targets: Targets) -> FloatArray:
    """A common factor near the least one: the least that one bound alone asks for, of all bounds."""
    everyone = np.ones(task.ceilings.size)
    found = [common_factor(choice.problem(task)) for choice in _single_bounds(task, targets)]
    factors = [one.factor for one in found if one is not None]
    return everyone * (min(factors) if factors and len(targets) else 1.0)


def best_noise(
    task: DesignTask, targets: Targets, common: FloatArray, progress: Progress = silent
) -> Chosen | None:
    """The least noise over a few choices of bounds; ``None`` if no noise within the ceilings is enough.

    ``common`` is noise with a common factor that keeps the limit. Its choice of bounds is one of those that
    are tried, so that the design is no worse.
    """
    van_trees = van_trees_level(task.linear.prior, task.limit)
    starts = _single_bounds(task, targets)
    own = _roomiest(task, targets, task.problem().variances(common), van_trees)
    if own is not None:
        starts.append(own)
    best: Chosen | None = None
    for start in starts:
        if best is not None and start.entropic.all():
            continue
        found = start.solved_with_its_own_factor(task, progress)
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


def _single_bounds(task: DesignTask, targets: Targets) -> list[_Choice]:
    """The choices that use one bound for all records."""
    prior, nobody = task.linear.prior, np.zeros(len(targets), dtype=np.bool_)
    found = [_Choice(targets=targets, known=~nobody, van_trees=nobody, entropic=nobody)]
    if prior.kind is not SecretKind.NUMBER or not len(targets):
        return found
    van_trees = van_trees_level(prior, task.limit)
    if van_trees is not None:
        levels = (van_trees, None)
        found.append(
            _Choice(targets=targets, known=nobody, van_trees=~nobody, entropic=nobody, levels=levels)
        )
    # A start only where published numbers leave the others no room; later rounds take it where it is better.
    most = task.problem().variances(np.minimum(task.ceilings, _MUCH))
    entropic = entropic_level(prior, task.limit, entropic_factor(prior, targets.gram_of_all, most))
    if entropic is not None:
        found.append(
            _Choice(
                targets=targets, known=nobody, van_trees=nobody, entropic=~nobody, levels=(None, entropic)
            )
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Choice:
    """Which bound each target must keep."""

    targets: Targets
    known: BoolArray
    van_trees: BoolArray
    entropic: BoolArray
    levels: tuple[Level | None, Level | None] = (None, None)  # of the last two

    def solved_with_its_own_factor(self, task: DesignTask, progress: Progress) -> Chosen | None:
        r"""Solve with an entropic factor that is no larger than the one at the optimum.

        A larger assumed factor asks for less noise, with which the true factor is smaller: the true factor
        less the assumed one falls as the latter rises, and its zero is found by false position.
        """
        found = self.solved(task, progress)
        if not self.entropic.any():
            return found
        prior, now = task.linear.prior, self.levels[1]
        assert now is not None  # the choice names the bound only with its level
        number = prior.number
        risk = task.limit * number.variance
        high = risk * (1 + number.entropy_power / now.needed) / number.entropy_power
        low, best = risk / number.entropy_power, None
        above, below = self._excess(task, found, high), 1.0 - low
        for _ in range(_FACTORS):
            if above >= -_SAME_FACTOR:
                return found if best is None or above >= 0 else best
            assumed = high + (low - high) * min(0.95, max(0.05, above / (above - below)))
            level = entropic_level(prior, task.limit, assumed)
            if level is None:
                return best
            found = replace(self, levels=(self.levels[0], level)).solved(task, progress)
            excess = self._excess(task, found, assumed)
            if excess >= 0:
                low, below, best, above = assumed, excess, found, above / 2
                if excess <= _SAME_FACTOR:
                    return best
            else:
                high, above, below = assumed, excess, below / 2
        return best

    def _excess(self, task: DesignTask, found: Chosen | None, assumed: float) -> float:
        """The entropic factor at an optimum less the one that was assumed for it."""
        if found is None:
            return 1.0 - assumed  # no noise is enough: a larger factor must be assumed
        variances = found.problem.variances(found.optimum.x)
        return entropic_factor(task.linear.prior, self.targets.gram_of_all, variances) - assumed

    def solved(self, task: DesignTask, progress: Progress) -> Chosen | None:
        problem = self.problem(task)
        optimum = least_noise(problem, progress=progress)
        if optimum is None:
            return None
        kinds = [(name, place) for name, place in self._kinds() if place.size]
        return Chosen(
            problem=problem,
            optimum=optimum,
            bounds=tuple(name for name, _ in kinds),
            records=tuple(self.targets.record[place] for _, place in kinds),
        )

    def problem(self, task: DesignTask) -> NoiseProblem:
        """The convex problem of this choice."""
        risks = [
            _risks(self.targets, name, place, self.levels) for name, place in self._kinds() if place.size
        ]
        return replace(task.problem(), risks=tuple(risks))

    def _kinds(self) -> list[tuple[BoundName, IndexArray]]:
        asked = self.known & (self.targets.known_needed > 0)
        masks = (asked, self.van_trees, self.entropic)
        return [(name, np.flatnonzero(mask)) for name, mask in zip(BoundName, masks, strict=True)]


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
    if prior.kind is not SecretKind.NUMBER or not len(targets):
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
