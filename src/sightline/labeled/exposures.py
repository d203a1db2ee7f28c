r"""What a design exposes of every record.

:func:`exposures` computes it: two sweeps over the records, and everything else in the size of the releases.
:class:`Exposures` holds the result, one array for each quantity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidInput, TooMuchWork, require
from sightline.labeled.bounds.target import Seen, TargetPrior
from sightline.labeled.chords import with_chords
from sightline.labeled.description import LinearReleases
from sightline.labeled.hidden import (
    HiddenInformation,
    hidden_by_record,
    information_error,
    sparse_hidden_by_record,
)
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.knowledge import Known, unknown_records
from sightline.labeled.record_brackets import ReadNumbers, record_brackets
from sightline.labeled.record_numbers import (
    Attack,
    RecordNumbers,
    no_attacks,
    refined_numbers,
    unrefined_numbers,
)
from sightline.labeled.risk_forms import Quantity
from sightline.labeled.routes.columns import by_columns
from sightline.labeled.routes.cost import RouteCost, choose_route, dense_cost
from sightline.labeled.routes.exact import by_elimination
from sightline.labeled.routes.gap import by_gap
from sightline.labeled.routes.independent import by_independent_rows
from sightline.labeled.routes.partitions import by_partitions
from sightline.labeled.routes.problem import Decisions, Problem, Reading
from sightline.labeled.routes.sparse import by_sparse_factor
from sightline.labeled.sharp_records import GroupAttacks, RecipeTable
from sightline.labeled.sparse_gram import SparseGram
from sightline.labeled.unknown_gram import (
    LaplacePart,
    RecordsGram,
    UnknownRecordsGram,
    records_alike,
)
from sightline.noise.mixed import MixedNoise
from sightline.numerics.decision import Decision, Evidence
from sightline.progress import Progress, silent

# Rows of a design whose undecided records are decided by dense elimination after all.
_MOST_ELIMINATED = 6_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordExposure:
    """What the releases expose of one record."""

    record: int
    identifiable: Decision
    rmse: float
    remaining_uncertainty: tuple[float, float]
    rmse_if_others_known: float
    touched: bool
    hidden_among: int

    def __str__(self) -> str:
        low, high = self.remaining_uncertainty
        state = "identifiable" if self.identifiable is Decision.YES else "not identifiable"
        return (
            f"record {self.record}: {state}, rmse {self.rmse:.4g}, "
            f"remaining uncertainty {low:.1%} to {high:.1%}"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Groups:
    """Records with one membership signature. No release tells them apart, but their sum may be exposed.

    Groups are numbered by their first record. A group of one is a record with a signature of its own.
    """

    sizes: IndexArray
    identifiable: BoolArray  # the sum of the group
    rmse: FloatArray  # of the sum
    first: IndexArray  # one member

    def __len__(self) -> int:
        return len(self.sizes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exposures:
    """Arrays over the records, all of length N. They depend on the design and the noise, not on any value.

    ``remaining_lower`` and ``remaining_upper`` bracket the risk of the best possible attack over the prior
    variance, averaged over ``prior``: 1 means that nothing is learned. No attack has less risk than the lower
    end, which is rounded down by all that numerical errors can do. Entries of records that the attacker
    knows are NaN.
    """

    identifiable: BoolArray
    undecided: BoolArray
    rmse: FloatArray  # of the best unbiased attack (eq:mse_optimal_s4); infinite where there is none
    remaining_lower: FloatArray
    remaining_upper: FloatArray
    information: FloatArray  # G_jj: about a record if all others are known
    touched: BoolArray  # whether any release depends on the record
    known: BoolArray
    group: IndexArray  # the record's group; -1 for a known record
    groups: Groups
    evidence: Evidence
    rank: int  # directions that the releases see
    relative_error: float  # a bound for rmse, information and the upper end; infinite where there is none
    prior: TargetPrior  # how the values are spread beforehand: what both ends are averages over
    recipes: RecipeTable  # weights on the answers, one row for each identifiable group in order
    names: tuple[str, ...]  # of the rows
    cost: RouteCost  # the route that was taken, why, and what it was expected to take

    def __len__(self) -> int:
        return len(self.rmse)

    def __getitem__(self, record: int) -> RecordExposure:
        j = self._unknown(record)
        information = float(self.information[j])
        return RecordExposure(
            record=j,
            identifiable=self.decision(j),
            rmse=float(self.rmse[j]),
            remaining_uncertainty=(float(self.remaining_lower[j]), float(self.remaining_upper[j])),
            rmse_if_others_known=information**-0.5 if information > 0 else np.inf,
            touched=bool(self.touched[j]),
            hidden_among=int(self.groups.sizes[self.group[j]]),
        )

    def __iter__(self) -> Iterator[RecordExposure]:
        return (self[int(j)] for j in np.flatnonzero(~self.known))

    def decision(self, record: int) -> Decision:
        """Whether one record is identifiable."""
        j = self._unknown(record)
        if self.undecided[j]:
            return Decision.UNDECIDED
        return Decision.YES if self.identifiable[j] else Decision.NO

    def worst(self, count: int = 10) -> tuple[RecordExposure, ...]:
        """The records of which the least uncertainty may remain, the most exposed first."""
        require(count >= 1, "count >= 1", got=count)
        candidates = np.flatnonzero(~self.known)
        count = min(count, candidates.size)
        danger = self.remaining_lower[candidates]
        # Ties (repeated signatures) go by position, so that the same inputs give the same list.
        limit = np.partition(danger, count - 1)[count - 1]
        near = candidates[danger <= limit]
        chosen = near[np.lexsort((near, self.rmse[near], self.remaining_lower[near]))][:count]
        return tuple(self[int(j)] for j in chosen)

    def recipe(self, record: int) -> FloatArray:
        """Weights on the published answers of the best unbiased attack on an identifiable record."""
        j = self._unknown(record)
        require(
            bool(self.identifiable[j]),
            "an identifiable record",
            got=f"record {j}, which is not",
            fix="no weights on the answers give its value",
        )
        require(
            len(self.recipes) > 0,
            "one set of known records",
            got="all others, a different set for each record",
            fix=f"ask for the exposures with known=[every record but {j}]",
        )
        return self.group_recipe(int(self.group[j]))

    def group_recipe(self, group: int) -> FloatArray:
        """Weights on the published answers of the best unbiased attack on a group's sum."""
        require(
            0 <= group < len(self.groups) and bool(self.groups.identifiable[group]),
            "a group whose sum is identifiable",
            got=f"group {group}",
        )
        row = int(np.count_nonzero(self.groups.identifiable[:group]))
        return np.array(self.recipes[row])

    def explain(self, record: int) -> str:
        """The recipe in words, the heaviest weights first; weights that are only rounding are left out."""
        weights = self.recipe(record)
        order = np.argsort(-np.abs(weights), kind="stable")
        used = [i for i in order if abs(weights[i]) > 1e-9 * abs(weights[order[0]])]
        terms = [f"{'−' if weights[i] < 0 else '+'} {abs(weights[i]):.6g} × {self.names[i]!r}" for i in used]
        return " ".join(terms).removeprefix("+ ")

    def smallest_groups(self) -> IndexArray:
        """Groups of several records whose sum is identifiable, the smallest first."""
        found = np.flatnonzero(self.groups.identifiable & (self.groups.sizes > 1))
        return found[np.argsort(self.groups.sizes[found], kind="stable")]

    def members(self, group: int) -> IndexArray:
        """The records of a group."""
        return np.flatnonzero(self.group == group)

    def _unknown(self, record: int) -> int:
        if not 0 <= record < len(self):
            raise InvalidInput(f"expected a record from 0 to {len(self) - 1}, got {record}")
        require(
            not self.known[record],
            "a target that the attacker does not know",
            got=f"record {record}, which is in known=",
        )
        return int(record)


def exposures(
    design: LinearReleases,
    *,
    prior: TargetPrior,
    known: Iterable[int] | Known = (),
    copies: FloatArray | None = None,
    attacks: bool = True,
    progress: Progress = silent,
) -> Exposures:
    """The exposures of all records of a design that the attacker does not know.

    ``copies`` says how many independent answers each row is the mean of, which matters for Laplace noise.
    Without ``attacks`` there are decisions and brackets, but no RMSE (NaN) and no recipes.

    Under noise of several laws the information and the variances are no multiples of each other: the linear
    attack of the upper end is that on Gaussian noise with the same variances.
    """
    found = _exposures(design, prior, known, copies, attacks, progress)
    if not isinstance(design.law, MixedNoise):
        return found
    by_variance = design.with_noise(design.law.gaussian)
    return with_linear_attack(found, _exposures(by_variance, prior, known, None, False, progress))


def with_linear_attack(found: Exposures, linear: Exposures) -> Exposures:
    """The exposures under noise of several laws, with the linear attack on noise of the same variances."""
    upper = np.minimum(found.remaining_upper, linear.remaining_upper)
    return replace(
        found,
        remaining_lower=np.minimum(found.remaining_lower, upper),
        remaining_upper=upper,
        relative_error=max(found.relative_error, linear.relative_error),
    )


def _exposures(
    design: LinearReleases,
    prior: TargetPrior,
    known: Iterable[int] | Known,
    copies: FloatArray | None,
    attacks: bool,
    progress: Progress,
) -> Exposures:
    """The exposures by the information of the answers; the upper end is the least for noise of one law."""
    _require_complete(design)
    unknown = unknown_records(design.size, known)
    cost, pattern = choose_route(design, progress)
    attack = Attack(
        prior=prior,
        everyone_told=isinstance(known, Known),
        copies=copies,
        attacks=attacks,
        cost=cost,
        progress=progress,
    )
    if pattern is not None:
        progress(str(cost), 0.0)
        found = sparse_exposures(SparseGram.of(design, unknown, pattern), attack)
        settled = not found.undecided.any() and np.isfinite(found.relative_error)
        if settled or design.row_count > _MOST_ELIMINATED:
            return found
        again = dense_cost(design.row_count, "the sparse route left something undecided")
        attack = replace(attack, cost=again)
    with design.incidence.device.memory_refused():
        return dense_exposures(UnknownRecordsGram.of(design, unknown, progress), attack)


def _require_complete(design: LinearReleases) -> None:
    """Numbers over some of the columns must not pass for numbers over all records."""
    if not design.incidence.complete:
        raise TooMuchWork(
            "expected a design whose records are all in memory, got one that is streamed; "
            "allow more with max_memory"
        )


def dense_exposures(gram: UnknownRecordsGram, attack: Attack) -> Exposures:
    """The exposures by the first dense route that applies."""
    precision, risks = attack.risks(gram)
    attack.progress("factorising the products", 0.0)
    by_record = None if precision is None else hidden_by_record(gram, precision, attack.progress)
    if by_record is not None and np.isfinite(by_record.information).all():
        del risks[Quantity.HIDDEN]  # one precision for all records would add nothing
    problem = Problem(gram=gram, risks=risks, progress=attack.progress)
    routes = (by_columns, by_gap, by_independent_rows, by_partitions)
    reading = next(filter(None, (route(problem) for route in routes)), None) or by_elimination(problem)
    attack.progress("the most exposed", 0.0)
    if attack.everyone_told:
        return _with_others_known(gram, reading, attack)
    numbers = refined_numbers(problem, reading, attacks=attack.attacks)
    return with_others_unknown(gram, reading, numbers, attack, by_record)


def sparse_exposures(gram: SparseGram, attack: Attack) -> Exposures:
    """The exposures by the route of a sparse factor."""
    precision, risks = attack.risks(gram)
    found = by_sparse_factor(gram, risks, attack.progress)
    if attack.everyone_told:
        return _with_others_known(gram, found.reading, attack)
    by_record = None if precision is None else sparse_hidden_by_record(gram, precision)
    best = found.attacks() if attack.attacks else no_attacks(gram, found.reading, rmse=np.nan)
    numbers = unrefined_numbers(gram, found.reading, best, risks)
    return with_others_unknown(gram, found.reading, numbers, attack, by_record)


def with_others_unknown(
    gram: RecordsGram,
    reading: Reading,
    numbers: RecordNumbers,
    attack: Attack,
    by_record: HiddenInformation | None,
) -> Exposures:
    """The exposures to an attacker who does not know the other records, from the numbers of each."""
    decisions, quantities, prior = reading.decisions, numbers.quantities, attack.prior
    attacks = numbers.attacks
    sizes = decisions.sizes[decisions.group]
    brackets = record_brackets(
        ReadNumbers(
            risks=numbers.risks,
            quantities=quantities,
            share_error=numbers.share_error,
            relative_error=numbers.relative_error,
            information_error=information_error(gram),
        ),
        prior,
        alike=records_alike(gram, sizes),
        by_record=by_record,
        laplace=LaplacePart.of(gram, attack.copies),
    )
    error = max(float(np.max(brackets.relative_error)), attacks.relative_error)
    return _laid_out(
        gram,
        reading,
        attacks,
        _PerRecord(
            identifiable=decisions.identifiable[decisions.group] & (sizes == 1),
            rmse=np.where(sizes == 1, attacks.rmse[decisions.group], np.inf),
            lower=with_chords(gram, decisions, prior, brackets.lower, brackets.upper),
            upper=brackets.upper,
            information=quantities[Quantity.INFORMATION],
            relative_error=error,
            attack=attack,
        ),
    )


def _with_others_known(gram: RecordsGram, reading: Reading, attack: Attack) -> Exposures:
    """One unknown record when all others are known: both ends depend on its own information alone."""
    information, design, prior = reading.quantities[Quantity.INFORMATION], gram.design, attack.prior
    laplace = LaplacePart.of(gram, attack.copies)
    touched = information > 0
    with np.errstate(divide="ignore"):
        rmse = np.where(touched, 1 / np.sqrt(information), np.inf)
    error = information_error(gram)
    seen = Seen(
        information=information * (1 + error),
        linear_information=information * (1 - error) / design.law.excess,
        laplace_answers=None if laplace is None else laplace.answers,
        laplace_information=None if laplace is None else laplace.part_of(information * (1 + error), error),
    )
    return _laid_out(
        gram,
        reading,
        no_attacks(gram, reading, rmse=np.inf),
        _PerRecord(
            identifiable=touched,
            rmse=rmse,
            lower=prior.lower(seen),
            upper=prior.upper(seen),
            information=information,
            relative_error=error,
            attack=attack,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _PerRecord:
    """The numbers of every unknown record."""

    identifiable: BoolArray
    rmse: FloatArray
    lower: FloatArray
    upper: FloatArray
    information: FloatArray
    relative_error: float
    attack: Attack


def _laid_out(gram: RecordsGram, reading: Reading, attacks: GroupAttacks, own: _PerRecord) -> Exposures:
    """The numbers of the unknown records, laid out over all records."""
    unknown, decisions = gram.unknown, reading.decisions
    groups = Groups(
        sizes=decisions.sizes,
        identifiable=decisions.identifiable,
        rmse=attacks.rmse,
        first=np.flatnonzero(unknown)[decisions.first],
    )
    return Exposures(
        identifiable=_spread(own.identifiable, unknown, False),
        undecided=_spread(_undecided(decisions), unknown, False),
        rmse=_spread(own.rmse, unknown, np.nan),
        remaining_lower=_spread(own.lower, unknown, np.nan),
        remaining_upper=_spread(own.upper, unknown, np.nan),
        information=_spread(own.information, unknown, np.nan),
        touched=_spread(own.information > 0, unknown, False),
        known=~unknown,
        group=_spread(decisions.group, unknown, -1),
        groups=groups,
        evidence=reading.rank.evidence,
        rank=reading.rank.rank,
        relative_error=own.relative_error,
        prior=own.attack.prior,
        recipes=attacks.recipes,
        names=gram.design.names,
        cost=own.attack.cost,
    )


def _undecided(decisions: Decisions) -> BoolArray:
    undecided: BoolArray = (decisions.undecided & (decisions.sizes == 1))[decisions.group]
    return undecided


def _spread(values: Any, unknown: BoolArray, otherwise: float) -> Any:
    """Values over the unknown records as a locked array over all records."""
    if values.size == unknown.size:
        values.setflags(write=False)
        return values
    full = np.full(unknown.size, otherwise, dtype=values.dtype)
    full[unknown] = values
    full.setflags(write=False)
    return full
