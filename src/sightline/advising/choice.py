r"""The least noise for a limit that one of two bounds must prove for each record.

For a given choice of a bound for each record the problem is convex, and its optimum is certified. The choice
itself is not a convex matter, so it is improved step by step: at an optimum each record takes the bound that
it keeps with most room. The noise stays feasible, so the next optimum is no worse. The certified gap is for
the last choice, and with the precisions of hidden records at the last noise; another choice might need less.

Whom the noise must protect: records, and linear features of the rows of persons with several.

With the columns :math:`B = [\sqrt{n_s}\,a_s]` of a person and a unit direction u, :math:`Bu` is the column
of a feature, and :math:`\varphi_u = 1/(u^\top B^\top N B u) - \tau` is the limit on attacks on it:
:math:`N = S^{-1}` and :math:`\tau = 0` if all other persons are known, and
:math:`N = (S + \tau A A^\top)^{-1}` if nobody is. Each
:math:`\varphi_u` is concave in the variances, so their least value is. It is that of the top eigenvector of
:math:`B^\top N B`, which is the lowest one of the posterior block. Its eigenvectors that are broken at an
optimum become constraints, until none is by more than 0.001 %; the audit's factor closes what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import combinations

import numpy as np
from scipy.sparse import csc_array, hstack

from sightline.advising.following import FollowingRisks, Hiders
from sightline.advising.levels import (
    HiddenLevel,
    can_hide,
    feature_level,
    hidden_level,
    hidden_needed,
    hiders_of,
    most_information,
    precisions_at,
)
from sightline.advising.newton import NO_GUESS, Optimum, least_noise
from sightline.advising.problem import (
    MOST_ROUNDS,
    NEARLY,
    TOLERANCE,
    HiddenRisks,
    KnownRisks,
    NoiseProblem,
    NotEnough,
    Risks,
    common_factor,
    if_enough,
    inverse_of_sum,
)
from sightline.advising.task import DesignTask
from sightline.arrays import AT_A_TIME, NOTICEABLE, ROUNDING, FloatArray, IndexArray
from sightline.auditing.unit_findings import MOST_FACTORISED
from sightline.errors import InvalidPlan, require
from sightline.units.unit_block import BoolArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PersonBlocks:
    """The persons with several rows whom the floor does not protect."""

    kind: IndexArray  # their kinds, among those of the findings
    blocks: tuple[csc_array, ...]  # B of each

    def __len__(self) -> int:
        return len(self.blocks)

    def broken(
        self, matrix: FloatArray, chosen: IndexArray, *, tau: float, needed: float
    ) -> tuple[IndexArray, csc_array]:
        """The directions of some persons that are broken: the person of each, and its column Bu.

        They are eigenvectors of BᵀNB, all at once: one alone leaves the next broken. N may be a diagonal.
        """
        if not chosen.size:
            return chosen, csc_array((matrix.shape[0], 0))
        persons, columns = [], []
        for person in chosen.tolist():
            B = self.blocks[person]
            block = B.T @ (B.multiply(matrix[:, None]) if matrix.ndim == 1 else matrix @ B)
            lengths, directions = np.linalg.eigh(block if isinstance(block, np.ndarray) else block.toarray())
            worse = lengths * (needed + tau) > 1
            persons.append(np.full(np.count_nonzero(worse), person))
            columns.append(csc_array(B @ csc_array(directions[:, worse])))
        return np.concatenate(persons), csc_array(hstack(columns, format="csc"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Targets:
    """The records that may keep less than the limit at the floor: a column for each."""

    record: IndexArray  # the column of the findings; -1 - unit for a person with several rows
    columns: csc_array
    known_needed: FloatArray  # 1/g; zero where records alike hide each other whatever the noise
    can_hide: bool  # whether other records hide them, too
    people: PersonBlocks  # persons with several rows; their targets are features of their rows
    person_needed: float  # the least 1/λ of theirs

    def __len__(self) -> int:
        return len(self.record)

    @property
    def rows(self) -> IndexArray:
        """The targets that are columns."""
        return np.flatnonzero(self.record >= 0)

    @property
    def features(self) -> IndexArray:
        """The targets that are features of a person's rows."""
        return np.flatnonzero(self.record < 0)

    def person_of(self, targets: IndexArray) -> IndexArray:
        """The place of the person of some features."""
        order = np.argsort(self.people.kind)
        kind = -1 - self.record[targets]
        found: IndexArray = order[np.searchsorted(self.people.kind[order], kind)]
        return found

    def with_features(self, persons: IndexArray, columns: csc_array) -> Targets:
        """These targets and more features of some persons."""
        return replace(
            self,
            record=np.concatenate([self.record, -1 - self.people.kind[persons]]),
            columns=csc_array(hstack([self.columns, columns], format="csc")),
            known_needed=np.concatenate([self.known_needed, np.full(persons.size, self.person_needed)]),
        )


def targets_of(task: DesignTask) -> Targets:
    """The records that the floor does not protect. More noise never harms the others: bounds are monotone."""
    linear = task.linear
    prior = linear.prior
    broken = (task.findings.lower < task.limit).reshape(-1, linear.columns_of_unit).any(axis=1)
    people = PersonBlocks(kind=np.zeros(0, dtype=np.intp), blocks=())
    several = linear.rows_of_unit > 1
    if several.any() and not task.several_categories:
        chosen = np.flatnonzero(broken & several)
        people = PersonBlocks(kind=chosen, blocks=tuple(task.block(unit) for unit in chosen.tolist()))
        broken &= ~several
    below = np.flatnonzero(broken)
    if task.several_categories:
        below, columns = _pairs(task, below)
    else:
        columns = task.columns(below)
    with np.errstate(divide="ignore"):
        needed = 1 / most_information(prior, task.limit, linear.units.alike[below])
    targets = Targets(
        record=below * linear.columns_of_unit,
        columns=columns,
        known_needed=needed,
        can_hide=not task.several_categories and can_hide(prior.of_column) and below.size + len(people) > 0,
        people=people,
        person_needed=float(1 / most_information(prior, task.limit, np.array([1]))[0]),
    )
    if not len(people):
        return targets
    floor, least = row_variances(task, task.floor), targets.person_needed
    return targets.with_features(*people.broken(1 / floor, np.arange(len(people)), tau=0.0, needed=least))


def row_variances(task: DesignTask, stddevs: FloatArray) -> FloatArray:
    """The variances of the problem's rows; of those that stand for levels, 1."""
    own = stddevs[task.linear.cells] ** 2 * task.row_unit
    return np.concatenate([own, np.ones(task.rows - own.size)])


def _pairs(task: DesignTask, below: IndexArray) -> tuple[IndexArray, csc_array]:
    r"""For a category: the numbers about two categories a, b of each record, which must tell little together.

    The audit's lower end is a mean over b of a bound that falls with :math:`I_a + I_b`. It keeps the limit if
    each of them does: a condition that is enough and convex, though not needed.
    """
    linear, membership = task.linear, task.membership
    owner = [membership.cells[cell].partition for cell in linear.cells]
    names = sorted({str(membership.partitions[p].parameter) for p in owner})
    category = np.array([names.index(str(membership.partitions[p].parameter)) for p in owner])
    require(
        below.size * len(names) * (len(names) - 1) // 2 <= AT_A_TIME,
        f"at most {AT_A_TIME:,} pairs of categories over the exposed records",
        got="more",
        fix="design fewer releases at once",
        error=InvalidPlan,
    )
    columns = task.cells_of(linear.first_signatures(below * linear.columns_of_unit))
    if len(names) == 1:
        return below, columns
    category = np.concatenate([category, np.full(task.rows - category.size, -1)])
    about = [csc_array(columns.multiply((category == one)[:, None])) for one in range(len(names))]
    pairs = [csc_array(about[one] + about[two]) for one, two in combinations(range(len(names)), 2)]
    joined = csc_array(np.concatenate([pair.toarray() for pair in pairs], axis=1))
    kept = np.diff(joined.indptr) > 0
    return np.tile(below, len(pairs))[kept], csc_array(joined[:, np.flatnonzero(kept)])


_ROUGH = 3e-3  # the certified gap of a quick answer, and of an optimum that only suggests a choice
_FEW_VARIABLES = 200  # up to which more choices are tried
# How often the precisions of hidden records are taken between two noises: as often as this work allows.
_LEAST_MIXED, _MOST_MIXED, _WORK = 3, 40, 2e8
_SHARE = 0.3  # of the way from one to the other, in logarithms
_LARGE_TOLERANCE = 5e-7  # the certified gap of many rows: the last digit would take a sixth of the time
_BEYOND = 1.2  # precisions that were too small are raised by more than they lack


class BoundName(StrEnum):
    """The bound that proves that a record keeps the limit."""

    KNOWN = "all other records known"
    HIDDEN = "no other record known"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """An optimum, and for each constraint its record and its bound."""

    problem: NoiseProblem
    targets: Targets
    optimum: Optimum
    bounds: tuple[BoundName, ...]  # for each kind of constraint of the problem
    records: tuple[IndexArray, ...]  # the columns of the linear design
    hidden: BoolArray  # targets whose bound is the one for hidden others

    @property
    def variances(self) -> FloatArray:
        """The variances of the rows at the optimum."""
        return self.problem.variances(self.optimum.x)


def common_guess(task: DesignTask, targets: Targets) -> float:
    """A common factor that is enough: that against an attacker who knows all other records."""
    choice = _Choice(targets=targets, hidden=np.zeros(len(targets), dtype=np.bool_))
    risks = tuple(choice._risks(task, name, place) for name, place in choice._kinds() if place.size)
    problem, base = replace(task.problem(), risks=risks), row_variances(task, task.common_base)
    return max(if_enough(lambda: common_factor(problem, base)), default=1.0)


def best_noise(task: DesignTask, targets: Targets, starts: Sequence[FloatArray]) -> Chosen:
    """The least noise over a few choices of bounds; ``NotEnough`` if none within the ceilings is enough.

    ``starts`` are standard deviations that keep the limit. They suggest choices where those are cheap.
    """
    nobody, hiders = np.zeros(len(targets), dtype=np.bool_), _hiders(task, targets)
    known = _Choice(targets=targets, hidden=nobody, hiders=hiders)
    few = task.rows <= MOST_FACTORISED and task.ceilings.size <= _FEW_VARIABLES
    if not targets.can_hide:
        return known.solved(task)
    # Of many rows the optimum for known others is rough at first: it suggests a choice.
    first = if_enough(lambda: known.solved(task, tolerance=TOLERANCE if few else _ROUGH))
    solved = list(first)
    places = [one.variances for one in solved] + [row_variances(task, one) for one in starts]
    everyone = replace(known, hidden=~nobody)
    tried = [(everyone, places[0])] if few or (hiders is None and task.rows <= MOST_FACTORISED) else []
    if few or not tried:
        tried += [(_roomiest(task, known, place), place) for place in (places if few else places[:1])]
    distinct: dict[bytes, tuple[_Choice, FloatArray]] = {}
    for one in tried:
        distinct.setdefault(one[0].hidden.tobytes(), one)
    for choice, place in distinct.values():
        if choice.hidden.any() or not solved:
            solved += if_enough(partial(choice.solved_with_its_own_precisions, task, place))
    if not solved:
        raise NotEnough("expected bounds with which some noise keeps the limits, got none")
    best = min(solved, key=lambda one: one.optimum.upper)
    for _ in range(MOST_ROUNDS if task.rows <= MOST_FACTORISED else 0):
        choice = _roomiest(task, replace(known, targets=best.targets), best.variances)
        if np.array_equal(choice.hidden, best.hidden):
            break
        found = if_enough(partial(choice.solved_with_its_own_precisions, task, best.variances))
        if not any(_better(one, best) for one in found):
            break
        (best,) = found
    if not few and any(one.optimum.lower < best.optimum.upper for one in first):  # it may still be the best
        return min(known.solved(task), best, key=lambda one: one.optimum.upper)
    return best


def _better(one: Chosen, best: Chosen) -> bool:
    """Whether an optimum is better by an amount that is worth another choice."""
    return one.optimum.upper <= best.optimum.upper * (1 - NOTICEABLE)


def quick_noise(task: DesignTask, targets: Targets) -> Chosen:
    """The least noise against an attacker who knows all other records: one convex problem, roughly."""
    nobody = np.zeros(len(targets), dtype=np.bool_)
    return _Choice(targets=targets, hidden=nobody).solved(task, tolerance=_ROUGH)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Choice:
    """Which bound each target must keep."""

    targets: Targets
    hidden: BoolArray
    hiders: Hiders | None = None  # for targets that are hidden, unless there are persons with several rows
    levels: tuple[HiddenLevel, ...] = ()  # and if there are: of targets that are columns, and of features

    def solved_with_its_own_precisions(self, task: DesignTask, start: FloatArray) -> Chosen:
        """Solve with precisions that are at least those at the optimum; else with the last that were tried.

        Larger precisions ask for more noise, so that noise that keeps the limit with them keeps it with its
        own. The first precisions are between those of two noises; then they are only raised, until they are
        enough. ``start`` is noise, in variances of the rows, whose precisions are tried first.
        """
        last = TOLERANCE if task.rows <= MOST_FACTORISED else _LARGE_TOLERANCE
        if not self.hidden.any() or self.hiders is not None:
            return self.solved(task, tolerance=last, guess=start)
        assumed = precisions_at(task.linear, task.of_numbers(start))
        choice, raising, tolerance, found = self, False, _ROUGH, None
        mixed = int(np.clip(_WORK / task.rows**3, _LEAST_MIXED, _MOST_MIXED))
        for attempt in range(mixed + MOST_ROUNDS):
            choice = replace(choice, levels=_levels(task, choice.targets, assumed))
            try:
                found = choice.solved(task, tolerance=tolerance, guess=start)
            except NotEnough:
                if found is None:
                    raise
                return found
            choice, start = replace(choice, targets=found.targets, hidden=found.hidden), found.variances
            true = precisions_at(task.linear, task.of_numbers(found.variances))
            ratio = true / assumed
            change = float(np.max(np.abs(np.log(ratio))))
            enough = float(np.max(ratio)) <= 1 + ROUNDING
            if raising and enough:
                break
            raising = raising or attempt + 2 >= mixed or change < TOLERANCE
            tolerance = last if raising else float(np.clip(0.03 * change, ROUNDING, _ROUGH))
            assumed = assumed * np.maximum(ratio, 1.0) ** _BEYOND if raising else assumed * ratio**_SHARE
        assert found is not None  # precisions are tried at least three times
        return found

    def solved(
        self, task: DesignTask, *, tolerance: float = TOLERANCE, guess: FloatArray = NO_GUESS
    ) -> Chosen:
        choice, problem = self, self.problem(task)
        optimum = least_noise(problem, tolerance=tolerance, guess=guess)
        for _ in range(MOST_ROUNDS):
            wider = choice._with_broken_features(
                task, problem.variances(optimum.x), broken=max(tolerance, NEARLY)
            )
            if wider is choice:
                break
            guess = problem.variances(optimum.x)
            choice, problem = wider, wider.problem(task)
            optimum = least_noise(problem, tolerance=tolerance, guess=guess)
        kinds = [(name, place) for name, place in choice._kinds() if place.size]
        return Chosen(
            problem=problem,
            targets=choice.targets,
            optimum=optimum,
            bounds=tuple(name for name, _ in kinds),
            records=tuple(choice.targets.record[place] for _, place in kinds),
            hidden=choice.hidden,
        )

    def _with_broken_features(self, task: DesignTask, variances: FloatArray, *, broken: float) -> _Choice:
        """The choice with features of persons that some noise does not protect; itself if it protects all."""
        targets, features = self.targets, self.targets.features
        if not len(targets.people):
            return self
        hides = np.zeros(len(targets.people), dtype=np.bool_)
        hides[targets.person_of(features)] = self.hidden[features]
        found = [
            (
                False,
                targets.people.broken(
                    1 / variances,
                    np.flatnonzero(~hides),
                    tau=0.0,
                    needed=targets.person_needed * (1 - broken),
                ),
            )
        ]
        if hides.any():
            _, level = self.levels  # the choice names the bound only with its levels
            inverse = inverse_of_sum(_padded(task, level.products), variances)
            tau, needed = float(level.tau[0]), float(level.needed[0]) * (1 - broken)
            own = targets.people.broken(inverse, np.flatnonzero(hides), tau=tau, needed=needed)
            found.append((True, own))
        choice = self
        for hidden, (persons, columns) in found:
            if persons.size:
                choice = replace(
                    choice,
                    targets=choice.targets.with_features(persons, columns),
                    hidden=np.concatenate([choice.hidden, np.full(persons.size, hidden)]),
                )
        return choice

    def problem(self, task: DesignTask) -> NoiseProblem:
        """The convex problem of this choice: limits on attacks, then the budget."""
        plain = task.problem()
        risks = [self._risks(task, name, place) for name, place in self._kinds() if place.size]
        return replace(plain, risks=(*risks, *plain.risks))

    def _kinds(self) -> list[tuple[BoundName, IndexArray]]:
        asked = ~self.hidden & (self.targets.known_needed > 0)
        feature = self.targets.record < 0
        masks = (asked, self.hidden & ~feature, self.hidden & feature)
        names = (BoundName.KNOWN, BoundName.HIDDEN, BoundName.HIDDEN)
        return [(name, np.flatnonzero(mask)) for name, mask in zip(names, masks, strict=True)]

    def _risks(self, task: DesignTask, name: BoundName, place: IndexArray) -> Risks:
        columns = csc_array(self.targets.columns[:, place])
        if name is BoundName.KNOWN:
            return KnownRisks(columns=columns, needed=self.targets.known_needed[place])
        if self.hiders is not None:
            own = self.targets.record[place]
            needed = hidden_needed(task.linear.prior, task.limit, task.linear.units.alike[own])
            return FollowingRisks(columns=columns, needed=needed, hiders=self.hiders, own=own)
        of_rows, of_features = self.levels  # the choice names the bound only with its levels
        feature = self.targets.record[place[0]] < 0  # features have one precision, and rows one for each
        level = of_features if feature else of_rows
        own = np.zeros_like(place) if feature else np.searchsorted(self.targets.rows, place)
        return HiddenRisks(
            columns=columns,
            needed=level.needed[own],
            tau=level.tau[own],
            products=_padded(task, level.products),
        )


def _hiders(task: DesignTask, targets: Targets) -> Hiders | None:
    """The records that hide each other; none if none does, or if there are persons with several rows."""
    if not targets.can_hide or task.several_rows:
        return None
    return hiders_of(task.linear, task.columns(np.arange(len(task.linear.units))))


def _roomiest(task: DesignTask, choice: _Choice, variances: FloatArray) -> _Choice:
    """For each target the bound that it keeps with most room at some noise; for each person, one."""
    targets, levels = choice.targets, tuple[HiddenLevel, ...]()
    if choice.hiders is None:
        levels = _levels(task, targets, precisions_at(task.linear, task.of_numbers(variances)))
    both = replace(choice, hidden=np.ones(len(targets), dtype=np.bool_), levels=levels)
    room = np.full((2, len(targets)), np.inf)
    for place, name in enumerate(BoundName):
        for own in (targets.rows, targets.features) if place else (np.arange(len(targets)),):
            if own.size:
                risks = both._risks(task, name, own)
                with np.errstate(divide="ignore"):
                    room[place, own] = risks.at(variances).phi / risks.needed
    features = targets.features
    if features.size:
        person = targets.person_of(features)
        for each in room:
            least = np.full(len(targets.people), np.inf)
            np.minimum.at(least, person, each[features])
            each[features] = least[person]
    return replace(both, hidden=room[1] > room[0])


def _levels(task: DesignTask, targets: Targets, precision: FloatArray) -> tuple[HiddenLevel, ...]:
    linear, records = task.linear, targets.record[targets.rows]
    return (
        hidden_level(linear, records, task.limit, precision),
        feature_level(linear, task.limit, precision),
    )


def _padded(task: DesignTask, products: FloatArray) -> FloatArray:
    """Products of the published numbers, with zeros for the rows that stand for levels."""
    more = task.rows - len(products)
    return np.pad(products, (0, more)) if more else products
