r"""The least noise for a limit that one of two bounds must prove for each record.

For a given choice of a bound for each record the problem is convex, and its optimum is certified. The choice
itself is not a convex matter, so it is improved step by step: at an optimum each record takes the bound that
it keeps with most room. The noise stays feasible, so the next optimum is no worse. The certified gap is for
the last choice, and with the precisions of hidden records at the last noise; another choice might need less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations

import numpy as np
from scipy.sparse import csc_array

from sightline.arrays import FloatArray, IndexArray
from sightline.designing.common_factor import common_factor
from sightline.designing.levels import (
    HiddenLevel,
    can_hide,
    hidden_level,
    most_information,
    precisions_at,
)
from sightline.designing.newton import Optimum, least_noise
from sightline.designing.problem import NoiseProblem
from sightline.designing.risks import HiddenRisks, KnownRisks
from sightline.designing.task import DesignTask
from sightline.errors import InvalidPlan, require
from sightline.labeled.incidence.protocol import BoolArray
from sightline.progress import Progress, silent
from sightline.tables.subject import SecretKind

_ROUNDS = 5
_ROUGH = 1e-2  # the certified gap of a quick answer
_WORTHWHILE = 1e-4  # by how much of the loss another choice must be better
_MOST_PAIRS = 2_000_000
# How often the precisions of hidden records are taken between two noises: as often as this work allows.
_LEAST_MIXED, _MOST_MIXED, _WORK = 4, 40, 3e8
_SHARE = 0.3  # of the way from one to the other, in logarithms
_CLOSE_ENOUGH, _ROUGHLY = 1e-7, 3e-3  # when that ends, and the tolerance that it begins with
_RAISED = 12  # how often they are raised then
_SAME = 1e-9  # precisions that are the same
_BEYOND = 1.2  # precisions that were too small are raised by more than they lack
_TOLERANCE = 5e-8


class BoundName(StrEnum):
    """The bound that proves that a record keeps the limit."""

    KNOWN = "all other records known"
    HIDDEN = "no other record known"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Targets:
    """The records that may keep less than the limit at the floor: a column for each."""

    record: IndexArray  # the column of the linear design
    columns: csc_array
    known_needed: FloatArray  # 1/g; zero where records alike hide each other whatever the noise
    can_hide: bool  # whether other records hide them, too

    def __len__(self) -> int:
        return len(self.record)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """An optimum, and for each constraint its record and its bound."""

    problem: NoiseProblem
    optimum: Optimum
    bounds: tuple[BoundName, ...]  # for each kind of constraint of the problem
    records: tuple[IndexArray, ...]  # the columns of the linear design
    hidden: BoolArray  # targets whose bound is the one for hidden others

    @property
    def variances(self) -> FloatArray:
        """The variances of the rows at the optimum."""
        return self.problem.variances(self.optimum.x)


def targets_of(task: DesignTask) -> Targets:
    """The records that the floor does not protect. More noise never harms the others: bounds are monotone."""
    linear = task.linear
    prior, below = linear.prior, np.flatnonzero(task.findings.lower < task.limit)
    several = prior.kind is SecretKind.CATEGORY and prior.categories > 2
    if several:
        below, columns = _pairs(task, below)
    else:
        columns = task.columns(below)
    with np.errstate(divide="ignore"):
        needed = 1 / most_information(prior, task.limit, linear.counts[below])
    return Targets(
        record=below,
        columns=columns,
        known_needed=needed,
        can_hide=not several and can_hide(prior.of_column) and below.size > 0,
    )


def common_guess(task: DesignTask, targets: Targets) -> float:
    """A common factor that is enough: that against an attacker who knows all other records."""
    choice = _Choice(targets=targets, hidden=np.zeros(len(targets), dtype=np.bool_))
    risks = tuple(choice._risks(task, name, place) for name, place in choice._kinds() if place.size)
    problem = replace(task.problem(), risks=risks)
    found = common_factor(problem, _row_variances(task, task.common_base)) if risks else None
    return 1.0 if found is None else found.factor


def _row_variances(task: DesignTask, stddevs: FloatArray) -> FloatArray:
    """The variances of the problem's rows; of those that stand for levels, 1."""
    own = stddevs[task.linear.cells] ** 2 * task.row_unit
    return np.concatenate([own, np.ones(task.rows - own.size)])


def best_noise(
    task: DesignTask, targets: Targets, starts: Sequence[FloatArray], progress: Progress = silent
) -> Chosen | None:
    """The least noise over a few choices of bounds; ``None`` if no noise within the ceilings is enough.

    ``starts`` are standard deviations that keep the limit. They suggest choices where those are cheap.
    """
    nobody = np.zeros(len(targets), dtype=np.bool_)
    best = _Choice(targets=targets, hidden=nobody).solved(task, progress)
    if not targets.can_hide:
        return best
    places = [] if best is None else [best.variances]
    places += [_row_variances(task, one) for one in starts]
    tried = [(_Choice(targets=targets, hidden=~nobody), places[0])]
    if task.findings.repeatable:
        tried += [(_roomiest(task, targets, place), place) for place in places]
    seen: set[bytes] = set()
    for choice, place in tried:
        if (mark := choice.hidden.tobytes()) in seen:
            continue
        seen.add(mark)
        found = choice.solved_with_its_own_precisions(task, place, progress)
        if found is not None and (best is None or found.optimum.upper < best.optimum.upper):
            best = found
    for _ in range(_ROUNDS):
        if best is None:
            break
        choice = _roomiest(task, targets, best.variances)
        if np.array_equal(choice.hidden, best.hidden):
            break
        found = choice.solved_with_its_own_precisions(task, best.variances, progress)
        if found is None or found.optimum.upper > best.optimum.upper * (1 - _WORTHWHILE):
            break
        best = found
    return best


def quick_noise(task: DesignTask, targets: Targets) -> Chosen | None:
    """The least noise against an attacker who knows all other records, to a percent: one convex problem."""
    nobody = np.zeros(len(targets), dtype=np.bool_)
    return _Choice(targets=targets, hidden=nobody).solved(task, silent, tolerance=_ROUGH)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Choice:
    """Which bound each target must keep."""

    targets: Targets
    hidden: BoolArray
    level: HiddenLevel | None = None  # of all targets, for those that are hidden

    def solved_with_its_own_precisions(
        self, task: DesignTask, start: FloatArray, progress: Progress
    ) -> Chosen | None:
        """Solve with precisions that are at least those at the optimum; else with the last that were tried.

        Larger precisions ask for more noise, so that noise that keeps the limit with them keeps it with its
        own. The first precisions are between those of two noises; then they are only raised, until they are
        enough. ``start`` is noise, in variances of the rows, whose precisions are tried first. ``None`` if no
        noise is enough with one of them.
        """
        if not self.hidden.any():
            return self.solved(task, progress)
        assumed, found = precisions_at(task.linear, task.of_numbers(start)), None
        raising, tolerance = False, _ROUGHLY
        mixed = int(np.clip(_WORK / task.rows**3, _LEAST_MIXED, _MOST_MIXED))
        for attempt in range(mixed + _RAISED):
            level = hidden_level(task.linear, self.targets.record, task.limit, assumed)
            near = None if found is None else found.optimum
            next_one = replace(self, level=level).solved(task, progress, near=near, tolerance=tolerance)
            if next_one is None:
                return found
            found = next_one
            true = precisions_at(task.linear, task.of_numbers(found.variances))
            ratio = true / assumed
            change = float(np.max(np.abs(np.log(ratio))))
            if raising and float(np.max(ratio)) <= 1 + _SAME:
                break
            raising = raising or attempt + 2 >= mixed or change < _CLOSE_ENOUGH
            tolerance = _TOLERANCE if raising else float(np.clip(0.03 * change, 1e-9, _ROUGHLY))
            assumed = assumed * np.maximum(ratio, 1.0) ** _BEYOND if raising else assumed * ratio**_SHARE
        return found

    def solved(  # many parameters: those of the method beside the task
        self,
        task: DesignTask,
        progress: Progress,
        *,
        near: Optimum | None = None,
        tolerance: float = _TOLERANCE,
    ) -> Chosen | None:
        problem = self.problem(task)
        optimum = least_noise(problem, tolerance=tolerance, near=near, progress=progress)
        if optimum is None:
            return None
        kinds = [(name, place) for name, place in self._kinds() if place.size]
        return Chosen(
            problem=problem,
            optimum=optimum,
            bounds=tuple(name for name, _ in kinds),
            records=tuple(self.targets.record[place] for _, place in kinds),
            hidden=self.hidden,
        )

    def problem(self, task: DesignTask) -> NoiseProblem:
        """The convex problem of this choice: limits on attacks, then the budget."""
        plain = task.problem()
        risks = [self._risks(task, name, place) for name, place in self._kinds() if place.size]
        return replace(plain, risks=(*risks, *plain.risks))

    def _kinds(self) -> list[tuple[BoundName, IndexArray]]:
        asked = ~self.hidden & (self.targets.known_needed > 0)
        masks = (asked, self.hidden)
        return [(name, np.flatnonzero(mask)) for name, mask in zip(BoundName, masks, strict=True)]

    def _risks(self, task: DesignTask, name: BoundName, place: IndexArray) -> KnownRisks | HiddenRisks:
        columns = csc_array(self.targets.columns[:, place])
        if name is BoundName.KNOWN:
            return KnownRisks(columns=columns, needed=self.targets.known_needed[place])
        level = self.level
        assert level is not None  # the choice names the bound only with its level
        more = task.rows - len(level.products)
        products = np.pad(level.products, (0, more)) if more else level.products
        return HiddenRisks(
            columns=columns, needed=level.needed[place], tau=level.tau[place], products=products
        )


def _roomiest(task: DesignTask, targets: Targets, variances: FloatArray) -> _Choice:
    """For each target the bound that it keeps with most room at some noise."""
    everyone = np.arange(len(targets))
    level = hidden_level(
        task.linear, targets.record, task.limit, precisions_at(task.linear, task.of_numbers(variances))
    )
    both = _Choice(targets=targets, hidden=np.ones(len(targets), dtype=np.bool_), level=level)
    room = []
    for name in BoundName:
        risks = both._risks(task, name, everyone)
        with np.errstate(divide="ignore"):
            room.append(risks.at(variances).phi / risks.needed)
    return replace(both, hidden=room[1] > room[0])


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
