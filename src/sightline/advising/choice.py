r"""The least noise for a limit that one of two bounds must prove for each record.

For a given choice of a bound for each record the limits are convex in the variances, and the optimum is
certified. The choice itself is not a convex matter, so it is improved step by step: at an optimum each record
takes the bound that it keeps with most room. The noise stays feasible, so the next optimum is no worse.
Choices are compared at a rough optimum, and the best are solved to the end. The certified gap is for the last
choice: another one might need less.

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
from scipy.sparse import csc_array, csr_array, hstack, vstack

from sightline.advising.crowd_limits import CrowdAt, CrowdLimits, attack_limits
from sightline.advising.hidden_limits import HiddenLimits
from sightline.advising.least_noise import (
    MOST_ROUNDS,
    NEARLY,
    TOLERANCE,
    NoiseProblem,
    NotEnough,
    Optimum,
    if_enough,
    least_noise,
)
from sightline.advising.levels import (
    can_hide,
    limits_of_features,
    limits_of_rows,
    most_information,
)
from sightline.advising.noise_slack import MOST_FACTOR
from sightline.advising.task import DesignTask
from sightline.arrays import AT_A_TIME, NOTICEABLE, ROUNDING, FloatArray, IndexArray
from sightline.auditing.unit_findings import MOST_FACTORISED
from sightline.errors import InvalidPlan, require
from sightline.progress import report
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
    precisions, least = 1 / task.row_floors, targets.person_needed
    return targets.with_features(*people.broken(precisions, np.arange(len(people)), tau=0.0, needed=least))


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
    about = [csc_array(columns.multiply((category == one)[:, None])) for one in range(len(names))]
    pairs = [csc_array(about[one] + about[two]) for one, two in combinations(range(len(names)), 2)]
    joined = csc_array(np.concatenate([pair.toarray() for pair in pairs], axis=1))
    kept = np.diff(joined.indptr) > 0
    return np.tile(below, len(pairs))[kept], csc_array(joined[:, np.flatnonzero(kept)])


_LEAST = float(np.finfo(np.float64).tiny)
_ROUGH = 3e-3  # the certified gap of a quick answer
_MOST_TANGENTS = 12  # rounds of tangents to the bound by all genies at once: most take three to six
_LARGE_TOLERANCE = 1e-4  # of many rows: a tenth of it takes three times as long


class BoundName(StrEnum):
    """The bound that proves that a record keeps the limit."""

    KNOWN = "all other records known"
    HIDDEN = "no other record known"
    CROWD = "all genies at once"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """An optimum, and for each limit its record and its bound."""

    problem: NoiseProblem
    targets: Targets
    optimum: Optimum
    known: IndexArray  # the targets of the first linear limits; the others are the budget's
    hidden: tuple[IndexArray, ...]  # of each kind of limit with hidden others, its targets
    # Where all genies at once decide, whose tangents are the first linear limits: the least noise with which
    # linear attacks keep the limits. No noise passes with less.
    attacked: Chosen | None = None

    @property
    def is_hidden(self) -> BoolArray:
        """Whether the bound of each target is the one for hidden others."""
        found = np.zeros(len(self.targets), dtype=np.bool_)
        for own in self.hidden:
            found[own] = True
        return found

    @property
    def attacks(self) -> tuple[IndexArray, tuple[BoundName, ...], FloatArray]:
        r"""The targets of all limits on attacks, their bounds, and what of the added loss each asks for.

        At the optimum :math:`w = u^2 \circ C^\top \lambda` on all numbers that were raised, so limit i asks
        for :math:`\lambda_i\, c_i^\top (u - u^2)` of the loss :math:`w^\top (x - 1)` that was added.
        """
        optimum, tangents = self.optimum, self.optimum.tangents
        added, prices = optimum.u - optimum.u**2, optimum.prices
        known = (prices.linear * (self.problem.linear @ added))[: self.known.size]
        target = [
            self.hidden[kind][place] for kind, place in zip(tangents.kind, tangents.target, strict=True)
        ]
        first = BoundName.KNOWN if self.attacked is None else BoundName.CROWD
        names = (first,) * self.known.size + (BoundName.HIDDEN,) * len(target)
        everyone = np.concatenate([self.known, np.array(target, dtype=np.intp)])
        return everyone, names, np.concatenate([known, prices.tangents * (tangents.matrix @ added)])

    @property
    def for_the_budget(self) -> float:
        """What of the added loss the budget asks for."""
        added, prices, budget = self.optimum.u - self.optimum.u**2, self.optimum.prices, self.problem.budget
        own = float((prices.linear * (self.problem.linear @ added))[self.known.size :].sum())
        return own + float((prices.budget * budget.cost) @ added[budget.variable])

    def recipe(self, place: int) -> FloatArray:
        """The weights on the rows of the best attack on one of the targets of :attr:`attacks`."""
        precisions, tangents = np.asarray(self.problem.rows @ self.optimum.u), self.optimum.tangents
        if self.attacked is not None:
            (attacks,) = self.attacked.problem.hidden
            column = self.targets.columns[:, [int(self.known[place])]].toarray()[:, 0]
            return np.asarray(attacks.spread(precisions)[0] @ column)
        if place < self.known.size:
            column = self.targets.columns[:, [int(self.known[place])]].toarray()[:, 0]
            return np.asarray(precisions * column)
        place -= self.known.size
        limits: HiddenLimits = self.problem.hidden[tangents.kind[place]]
        return limits.at(precisions).recipe(int(tangents.target[place]))


def common_guess(task: DesignTask, targets: Targets) -> float:
    """A common factor that is enough: that against an attacker who knows all other records."""
    cells = task.linear.cells
    precisions = 1 / (task.common_base[cells] ** 2 * task.row_unit)
    moving, squares = task.free[cells], targets.columns.power(2).T
    fixed = np.where(moving, 0.0, 1 / task.row_floors)
    with np.errstate(divide="ignore", invalid="ignore"):
        room = 1 / targets.known_needed - squares @ fixed
        wanted = (squares @ np.where(moving, precisions, 0.0)) / room
    if np.any(room <= 0):
        return 1.0
    factor = float(np.max(wanted, initial=1.0))
    return factor * (1 + ROUNDING / 2) if 1 < factor < MOST_FACTOR else 1.0


def best_noise(task: DesignTask, targets: Targets, starts: Sequence[FloatArray]) -> Chosen:
    """The least noise over a few choices of bounds; ``NotEnough`` if none within the ceilings is enough.

    ``starts`` are standard deviations that keep the limit. They suggest choices where those are cheap.
    """
    nobody = np.zeros(len(targets), dtype=np.bool_)
    known = _Choice(targets=targets, hidden=nobody)
    if not targets.can_hide:
        alone = known.solved(task)
        return alone if task.crowd is None else _in_crowd(task, task.crowd, alone, starts)
    solved = list(if_enough(partial(known.solved, task, tolerance=_ROUGH)))
    places = [one.optimum.u for one in solved] + [task.precisions(one) for one in starts]
    few = task.rows <= MOST_FACTORISED
    masks = [bound_with_most_slack(task, known, place) for place in places[: None if few else 1]]
    tried = {mask.tobytes(): (mask, place) for mask, place in zip(masks, places, strict=False)}
    tried.setdefault((~nobody).tobytes(), (~nobody, places[0]))
    for mask, place in tried.values():
        if mask.any() or not solved:
            choice = replace(known, hidden=mask)
            solved += if_enough(partial(choice.solved, task, tolerance=_ROUGH, guess=place))
    best = _least(solved)
    for _ in range(MOST_ROUNDS if few else 0):
        choice = _Choice(targets=best.targets, hidden=np.zeros(len(best.targets), dtype=np.bool_))
        choice = replace(choice, hidden=bound_with_most_slack(task, choice, best.optimum.u))
        found = if_enough(partial(choice.solved, task, tolerance=_ROUGH, guess=best.optimum.u))
        if not any(one.optimum.upper <= best.optimum.upper * (1 - NOTICEABLE) for one in found):
            break
        (best,) = found
        solved.append(best)
    most = best.optimum.upper * (1 + _ROUGH)
    nearly = [one for one in solved if one.optimum.upper <= most]
    finals = {one.is_hidden.tobytes(): one for one in nearly}.values()  # of equal choices the last
    again = [_Choice(targets=one.targets, hidden=one.is_hidden) for one in finals]
    each = zip(again, finals, strict=True)
    last = TOLERANCE if few else _LARGE_TOLERANCE
    return _least([choice.solved(task, tolerance=last, guess=one.optimum.u) for choice, one in each])


def _in_crowd(task: DesignTask, crowd: CrowdLimits, alone: Chosen, starts: Sequence[FloatArray]) -> Chosen:
    """The least noise by all genies at once, from the least against somebody who knows all others."""
    plain = task.problem()
    attacked = _by_linear_attacks(task, plain, crowd)
    u, at = _kept_by_crowd(plain, crowd, alone.optimum.u)
    for start in map(task.precisions, starts):
        if plain.loss(start) < plain.loss(u) and (then := crowd.at(np.asarray(plain.rows @ start))).most <= 1:
            u, at = start, then
    for rounds in range(1, _MOST_TANGENTS + 1):
        report("choosing the noise", 1 - 1 / (1 + rounds))
        persons, values, tangents = at.tangents()
        linear = csr_array(vstack([csr_array(tangents @ plain.rows), plain.linear]))
        problem = replace(plain, linear=linear)
        optimum = least_noise(problem, tolerance=_ROUGH / 10)
        wanted, then = _kept_by_crowd(plain, crowd, optimum.u)
        gained = 1 - plain.loss(wanted) / plain.loss(u)
        if gained > 0:
            u, at = wanted, then
        if gained < _ROUGH:
            break
    units, k = crowd.units[persons], task.linear.columns_of_unit
    record = units * k + (values if k > 1 else 0)
    starting = task.linear.units.starts[units] + (values if k > 1 else 0)
    targets = replace(
        attacked.targets, record=record, columns=csc_array(task.linear.table[:, starting], dtype=np.float64)
    )
    loss = plain.loss(u)
    return Chosen(
        problem=problem,
        targets=targets,
        optimum=replace(optimum, u=u, upper=loss, lower=min(attacked.optimum.lower, loss), rounds=rounds),
        known=np.arange(record.size),
        hidden=(),
        attacked=attacked,
    )


def _by_linear_attacks(task: DesignTask, plain: NoiseProblem, crowd: CrowdLimits) -> Chosen:
    """The least noise with which the best linear attack leaves everyone the limit: no bound asks less."""
    limits = attack_limits(task.linear, crowd.units, task.limit)
    problem = replace(plain, hidden=(limits,))
    nobody = PersonBlocks(kind=np.zeros(0, dtype=np.intp), blocks=())
    return Chosen(
        problem=problem,
        targets=Targets(
            record=limits.own,
            columns=limits.columns,
            known_needed=np.zeros(len(limits)),
            can_hide=True,
            people=nobody,
            person_needed=1.0,
        ),
        optimum=least_noise(problem, tolerance=_LARGE_TOLERANCE),
        known=np.zeros(0, dtype=np.intp),
        hidden=(np.arange(len(limits)),),
    )


def _kept_by_crowd(plain: NoiseProblem, crowd: CrowdLimits, u: FloatArray) -> tuple[FloatArray, CrowdAt]:
    """Precisions over nearly the least factor with which all genies at once keep the limits."""
    broken, kept, guess = -np.inf, np.inf, 0.0  # logarithms of factors, and of what is used at them
    used_broken = used_kept = 0.0
    best: tuple[FloatArray, CrowdAt] | None = None
    while kept - broken > _ROUGH / 10 and guess < np.log(MOST_FACTOR):
        now = np.clip(u / np.exp(guess), plain.low, 1.0)
        at = crowd.at(np.asarray(plain.rows @ now))
        used = float(np.log(max(at.most, _LEAST)))
        if used <= _ROUGH / 10:
            kept, used_kept, best = guess, used, (now, at)
            if used >= -_ROUGH or np.all(now == 1):
                break
        else:
            broken, used_broken = guess, used
        if np.isinf(kept) or np.isinf(broken):
            guess += float(np.clip(used, -0.7, 0.7)) + np.copysign(_ROUGH / 10, used)
        else:
            share = np.clip(used_broken / (used_broken - used_kept), 0.1, 0.9)
            guess = broken + (share if used_broken < 1 else 0.5) * (kept - broken)
    if best is None:
        raise NotEnough("expected ceilings with which the limits can be kept, got lower ones")
    return best


def _least(solved: Sequence[Chosen]) -> Chosen:
    if not solved:
        raise NotEnough("expected bounds with which some noise keeps the limits, got none")
    return min(solved, key=lambda one: one.optimum.upper)


def quick_noise(task: DesignTask, targets: Targets) -> Chosen:
    """The least noise against an attacker who knows all other records: one convex problem, roughly."""
    nobody = np.zeros(len(targets), dtype=np.bool_)
    return _Choice(targets=targets, hidden=nobody).solved(task, tolerance=_ROUGH)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Choice:
    """Which bound each target must keep."""

    targets: Targets
    hidden: BoolArray

    def solved(
        self, task: DesignTask, *, tolerance: float = TOLERANCE, guess: FloatArray | None = None
    ) -> Chosen:
        """The least noise with these bounds, for all features of persons that it does not protect."""
        choice = self
        for _ in range(MOST_ROUNDS):
            problem = choice.problem(task)
            optimum = least_noise(problem, tolerance=tolerance, guess=guess)
            wider = choice._with_broken_features(task, problem, optimum.u, broken=max(tolerance, NEARLY))
            if wider is choice:
                break
            choice, guess = wider, optimum.u
        return Chosen(
            problem=problem,
            targets=choice.targets,
            optimum=optimum,
            known=choice.known,
            hidden=tuple(place for place, _ in choice._kinds(task)),
        )

    def _with_broken_features(
        self, task: DesignTask, problem: NoiseProblem, u: FloatArray, *, broken: float
    ) -> _Choice:
        """The choice with features of persons that some noise does not protect; itself if it protects all."""
        targets, features = self.targets, self.targets.features
        if not len(targets.people):
            return self
        hides = np.zeros(len(targets.people), dtype=np.bool_)
        hides[targets.person_of(features)] = self.hidden[features]
        precisions = np.asarray(problem.rows @ u)
        needed = targets.person_needed * (1 - broken)
        found = [(False, targets.people.broken(precisions, np.flatnonzero(~hides), tau=0.0, needed=needed))]
        if hides.any():
            limits = limits_of_features(task.linear, csc_array((task.rows, 1)), task.limit)
            inverse, tau = limits.spread(precisions)
            needed = float(1 / max(limits.most[0] - 1 / tau[0], _LEAST)) * (1 - broken)
            own = targets.people.broken(inverse, np.flatnonzero(hides), tau=float(tau[0]), needed=needed)
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

    @property
    def known(self) -> IndexArray:
        """The targets whose bound is the one for known others."""
        found: IndexArray = np.flatnonzero(~self.hidden & (self.targets.known_needed > 0))
        return found

    def _kinds(self, task: DesignTask) -> list[tuple[IndexArray, HiddenLimits]]:
        """The targets whose bound is the one for hidden others: rows, and features of persons."""
        targets, feature, found = self.targets, self.targets.record < 0, []
        rows, features = np.flatnonzero(self.hidden & ~feature), np.flatnonzero(self.hidden & feature)
        if rows.size:
            columns = csc_array(targets.columns[:, rows])
            found.append((rows, limits_of_rows(task.linear, targets.record[rows], columns, task.limit)))
        if features.size:
            columns = csc_array(targets.columns[:, features])
            found.append((features, limits_of_features(task.linear, columns, task.limit)))
        return found

    def problem(self, task: DesignTask) -> NoiseProblem:
        """The problem of this choice: limits on attacks, then the budget."""
        plain, known = task.problem(), self.known
        linear = known_limits(self.targets, known) @ plain.rows
        hidden = tuple(limits for _, limits in self._kinds(task))
        return replace(plain, linear=csr_array(vstack([linear, plain.linear])), hidden=hidden)


def known_limits(targets: Targets, chosen: IndexArray) -> csr_array:
    """The limits of some targets to somebody who knows all others, on the rows' precisions: at most 1."""
    squares = targets.columns[:, chosen].power(2).T
    return csr_array(squares.multiply(targets.known_needed[chosen, None]))


def bound_with_most_slack(task: DesignTask, choice: _Choice, u: FloatArray) -> BoolArray:
    """Whether each target keeps the bound for hidden others with more room; one answer for each person."""
    targets, plain = choice.targets, task.problem()
    precisions = np.asarray(plain.rows @ u)
    everyone = np.arange(len(targets))
    used = np.stack([known_limits(targets, everyone) @ precisions, np.full(len(targets), np.inf)])
    for place, limits in replace(choice, hidden=np.ones(len(targets), dtype=np.bool_))._kinds(task):
        used[1, place] = limits.at(precisions).shares
    features = targets.features
    person = targets.person_of(features)
    for each in used:
        most = np.zeros(len(targets.people))
        np.maximum.at(most, person, each[features])
        each[features] = most[person]
    found: BoolArray = used[1] < used[0]
    return found
