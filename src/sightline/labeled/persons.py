r"""What a design exposes of persons with several rows.

A column of the design stands for rows with one signature. A person has some rows of some columns, and is
judged by the sharpest linear feature of their rows: a row, the total, or any other combination. With
:math:`n_s` rows in column s the person enters every release through :math:`u_s = \sum_j x_j / \sqrt{n_s}`
with the columns :math:`B = [\sqrt{n_s}\,a_s]`. Derivations: the theory page on persons.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidRelease, require
from sightline.labeled.bounds.target import Seen, TargetPrior
from sightline.labeled.description import LinearReleases
from sightline.labeled.exposures import Exposures
from sightline.labeled.hidden import information_error, precisions
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.person_attacks import DirectionAttack
from sightline.labeled.person_blocks import PosteriorBlocks, largest_eigenvalue, posterior_blocks
from sightline.labeled.person_kinds import PersonKinds
from sightline.labeled.person_ranks import PersonRanks, person_ranks
from sightline.labeled.risk_forms import Quantity, Risks, risks_over_v
from sightline.labeled.routes.cost import choose_route
from sightline.labeled.sparse_gram import SparseGram
from sightline.labeled.sparse_persons import SparsePersons
from sightline.labeled.unknown_gram import RecordsGram, UnknownRecordsGram, row_sums
from sightline.noise.mixed import laplace_rows
from sightline.numerics.decision import Evidence, Rank
from sightline.progress import Progress, silent

# Numbers of a design whose persons are looked at with dense matrices.
_MOST_DENSE = 12_000
# A weight of a unit feature below this is rounding.
_NOTHING = 1e-6
# Whole blocks are computed where they can move an end of the bracket by this much; blocks of G are cheaper.
_WORTH_A_BLOCK, _LITTLE = 0.05, 0.01


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Feature:
    r"""A linear feature :math:`\sum_j c_j x_j` of a person's rows with :math:`\|c\| = 1`."""

    weights: FloatArray  # of one row, for each entry of the kind
    rmse: float  # of the best unbiased attack on it
    recipe: FloatArray  # weights on the answers of that attack
    relative_error: float  # of the RMSE: a bound, infinite where the RMSE is only known to be at least this

    def is_total(self) -> bool:
        """Whether it is the total of the rows, up to a factor."""
        return bool(np.ptp(self.weights) < _NOTHING)

    def is_row(self, rows: IndexArray) -> bool:
        """Whether it is the value of one row; ``rows`` are those of each entry."""
        used = np.abs(self.weights) > _NOTHING
        return bool(np.count_nonzero(used) == 1 and rows[used][0] == 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Persons:
    """What is seen of every kind of person: arrays over the kinds.

    ``lower`` holds for every linear feature of a person's rows and for every attack, if rows are independent.
    ``upper`` is what the best linear attack on one of the features leaves; where ``exact``, on the sharpest.
    """

    kinds: PersonKinds
    directions: IndexArray  # independent linear features of a person that are identifiable
    total_identifiable: BoolArray
    lower: FloatArray
    upper: FloatArray
    exact: BoolArray  # both ends come from the whole block
    information: FloatArray  # at least the largest on a unit feature if all other persons are known
    undecided: BoolArray  # kinds that may have more identifiable features than ``directions`` says
    features: dict[int, Feature]  # the sharpest identifiable feature, for kinds with several rows
    totals: dict[int, Feature]  # of the kinds with several rows whose total is identifiable

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def relative_error(self) -> float:
        """A bound for the RMSE of every feature; infinite where one is only known to be at least this."""
        features = (*self.features.values(), *self.totals.values())
        return max((feature.relative_error for feature in features), default=0.0)

    @property
    def identifiable(self) -> BoolArray:
        """Kinds of whose persons some linear feature is identifiable."""
        return np.asarray(self.directions > 0)

    def count(self, kinds: BoolArray) -> int:
        """How many persons are of some kinds."""
        return int(self.kinds.persons[kinds].sum())


def persons(
    design: LinearReleases,
    kinds: PersonKinds,
    found: Exposures,
    *,
    losses: FloatArray | None = None,
    progress: Progress = silent,
) -> Persons:
    """What is seen of every kind of person, under the prior of the exposures of the design's rows.

    Rows that the attacker knows are in
    no kind. All other rows are in one: the numbers must agree. ``losses`` is what a row in each column loses
    to Laplace noise, per unit of its value; by default the design's noise says it.
    """
    _check_rows(design, kinds, found)
    prior = found.prior
    several = kinds.rows_of_person > 1
    _, pattern = choose_route(design, progress)
    progress("identifiable features of persons", 0.0)
    gram: RecordsGram
    if pattern is not None and design.row_count > _MOST_DENSE:
        gram = SparseGram.of(design, ~found.known, pattern)
        part = _sparse_part(gram, kinds, found, progress)
    else:
        gram = UnknownRecordsGram.of(design, ~found.known)
        part = _dense_part(gram, kinds, found, progress)
    seen, blocks, ranks = part.seen, part.blocks, part.ranks
    alone = _Alone(design=design, kinds=kinds, prior=prior, losses=losses)
    information = _largest_information(gram, alone, found, several, seen)
    lower = np.maximum.reduce([alone.bound(information), seen.lower, blocks.lower])
    entry_upper = 1 - kinds.rows * (1 - found.remaining_upper[kinds.columns])
    upper = np.minimum(
        np.minimum.reduceat(entry_upper, kinds.starts[:-1]), kinds.least(found.remaining_upper)
    )
    upper = np.clip(np.minimum(upper, blocks.upper), 0.0, 1.0)
    first = kinds.columns[kinds.starts[:-1]]
    lower = np.where(several, np.minimum(np.clip(lower, 0.0, 1.0), upper), found.remaining_lower[first])
    upper = np.where(several, upper, found.remaining_upper[first])
    return Persons(
        kinds=kinds,
        directions=ranks.directions,
        total_identifiable=ranks.total,
        lower=lower,
        upper=upper,
        exact=blocks.assessed | ~several,
        information=information,
        undecided=part.undecided,
        features=_features(kinds, blocks.sharpest),
        totals=_features(kinds, blocks.totals),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    """What products of all rows say of the kinds, held densely or not."""

    ranks: PersonRanks
    seen: _Seen
    blocks: PosteriorBlocks
    undecided: BoolArray


def _dense_part(gram: UnknownRecordsGram, kinds: PersonKinds, found: Exposures, progress: Progress) -> _Part:
    prior = found.prior
    ranks = person_ranks(gram, kinds, found.rank)
    progress("posterior blocks of persons", 0.0)
    each = precisions(gram, prior)
    precision = None if each is None else float(np.max(each))
    risks = risks_over_v(prior.variance, excess=gram.design.law.excess, precision=precision)
    none = np.zeros((0, gram.design.row_count))
    forms = gram.forms(risks, Rank(rank=ranks.rank, evidence=Evidence.MODULAR), none)
    values = gram.design.incidence.forms(forms.forms, gram.unknown, silent)
    shares = {name: values[forms.names.index(name)] for name in risks}
    seen = _seen(kinds, prior, risks, shares, forms.share_error)
    worth = np.where(ranks.directions > 0, np.inf, seen.by_linear_attacks)
    chosen = np.flatnonzero((kinds.rows_of_person > 1) & (worth > _WORTH_A_BLOCK))
    order = chosen[np.lexsort((chosen, -worth[chosen]))]
    blocks = posterior_blocks(gram, kinds, ranks, order=order, prior=prior, precision=precision)
    return _Part(ranks=ranks, seen=seen, blocks=blocks, undecided=np.zeros(len(kinds), dtype=np.bool_))


def _sparse_part(gram: SparseGram, kinds: PersonKinds, found: Exposures, progress: Progress) -> _Part:
    """From a sparse factor: no posterior blocks, and features only of identifiable columns and totals."""
    prior, several = found.prior, kinds.rows_of_person > 1
    sparsely = SparsePersons.of(gram, kinds, progress)
    each = precisions(gram, prior)
    precision = None if each is None else float(np.max(each))
    risks = risks_over_v(prior.variance, excess=gram.design.law.excess, precision=precision)
    of_unknown, error = gram.risks(risks)
    shares = {name: np.zeros(gram.design.size) for name in risks}
    for name, share in of_unknown.items():
        shares[name][gram.unknown] = share
    seen = _seen(kinds, prior, risks, shares, error)
    order = np.flatnonzero(several)
    order = order[np.lexsort((order, -seen.by_linear_attacks[order]))]
    nothing = np.zeros(len(kinds))
    blocks = PosteriorBlocks(
        assessed=np.zeros(len(kinds), dtype=np.bool_),
        lower=nothing,
        upper=np.ones(len(kinds)),
        sharpest=sparsely.features(found, order),
        totals={},
    )
    return _Part(ranks=sparsely.ranks, seen=seen, blocks=blocks, undecided=sparsely.undecided)


def _check_rows(design: LinearReleases, kinds: PersonKinds, found: Exposures) -> None:
    counts = np.ones(design.size) if design.incidence.counts is None else design.incidence.counts
    expected = np.where(found.known, 0, counts)
    require(
        bool(np.array_equal(kinds.rows_in_columns(design.size), expected)),
        "every unknown row with one person",
        got=f"{int(kinds.rows_in_columns(design.size).sum()):,} rows of persons of {int(expected.sum()):,}",
        error=InvalidRelease,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Seen:
    r"""Traces of what is learned about a kind's block, from its columns alone.

    The share of any feature is at least one less the trace of :math:`I - c\,[(G + cI)^{-1}]_{BB}`. Over all
    persons the traces sum to the rank at most, so that few kinds have much of it.
    """

    by_linear_attacks: FloatArray
    lower: FloatArray  # weighted van Trees in matrix form


def _seen(
    kinds: PersonKinds, prior: TargetPrior, risks: Risks, shares: dict[Quantity, FloatArray], error: float
) -> _Seen:
    """From the risks of every column, as shares with a bound on their errors."""
    traces = {}
    for name, risk in risks.items():
        share = shares[name] * (risk.precision / risk.unit)
        traces[name] = kinds.sums(kinds.rows * (1 - share[kinds.columns] + error))
    lower = np.zeros(len(kinds))
    if Quantity.HIDDEN in risks:
        lower = (1 - traces[Quantity.HIDDEN]) / (prior.variance * risks[Quantity.HIDDEN].precision)
    return _Seen(by_linear_attacks=traces[Quantity.LINEAR], lower=lower)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Alone:
    """The least share of any linear feature if all other persons are known."""

    design: LinearReleases
    kinds: PersonKinds
    prior: TargetPrior
    losses: FloatArray | None

    def bound(self, information: FloatArray) -> FloatArray:
        r"""From at least the largest eigenvalue :math:`\lambda` of every block of G.

        Gaussian noise: releases of information :math:`\lambda I \succeq G` say more, and leave the rows
        independent, so that the bound for one row with information :math:`\lambda` holds for every feature.
        Laplace noise: van Trees in matrix form, and :math:`e^{-\varepsilon}` for a person's privacy loss.
        """
        prior, kinds = self.prior, self.kinds
        if self.design.law.excess == 1:
            none = np.zeros_like(information)  # no linear attack needs to be named
            return prior.lower(Seen(information=information, linear_information=none))
        van_trees: FloatArray = 1 / (prior.variance * (information + prior.precision(information)))
        losses = self.losses
        if losses is None:
            losses = pure_losses(self.design, copies=np.ones(self.design.row_count))
        loss = prior.width * kinds.sums(kinds.rows * losses[kinds.columns])
        return np.maximum(van_trees, np.exp(-loss))


def pure_losses(design: LinearReleases, *, copies: FloatArray, rows: BoolArray | None = None) -> FloatArray:
    r"""The pure privacy loss that some rows cause each column; infinite with Gaussian noise among them.

    A row stands for the mean of T copies. Copies of Laplace scale b have the noise of one number with scale
    :math:`b/\sqrt T`, but cost :math:`T/b`.
    """
    laplace = laplace_rows(design.law) > 0
    chosen = np.ones(design.row_count, dtype=np.bool_) if rows is None else rows
    each = np.abs(design.whitening) * np.sqrt(copies)
    losses = row_sums(design, np.where(chosen & laplace, each, 0.0))
    return np.where(row_sums(design, np.where(chosen & ~laplace, 1.0, 0.0)) > 0, np.inf, losses)


def _largest_information(
    gram: RecordsGram, alone: _Alone, found: Exposures, several: BoolArray, seen: _Seen
) -> FloatArray:
    """The largest eigenvalue of every block of G, or its trace where that would not change the bracket."""
    kinds = alone.kinds
    rounded_up = found.information * (1 + information_error(gram))
    own = kinds.rows * rounded_up[kinds.columns]
    trace, most = kinds.sums(own), np.maximum.reduceat(own, kinds.starts[:-1])
    at_best, at_least = alone.bound(most), np.maximum(alone.bound(trace), seen.lower)
    wide = np.flatnonzero(several & (kinds.sizes > 1) & (at_best - at_least > _LITTLE))
    information = trace.copy()
    information[wide] = np.minimum(trace[wide], largest_eigenvalue(alone.design, kinds, wide))
    return information


def _features(kinds: PersonKinds, attacks: dict[int, DirectionAttack]) -> dict[int, Feature]:
    """The attacks on unit directions of blocks, as features of rows."""
    return {
        kind: Feature(
            weights=attack.direction / np.sqrt(kinds.rows[kinds.entries(kind)]),
            rmse=attack.rmse,
            recipe=attack.recipe,
            relative_error=attack.relative_error,
        )
        for kind, attack in attacks.items()
    }
