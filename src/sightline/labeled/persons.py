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
from sightline.labeled.bounds.protocol import RecordPrior
from sightline.labeled.description import LinearReleases
from sightline.labeled.exposures import Exposures
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.person_blocks import DirectionAttack, largest_eigenvalue, posterior_blocks
from sightline.labeled.person_kinds import PersonKinds
from sightline.labeled.person_ranks import PersonRanks, person_ranks
from sightline.labeled.unknown_gram import UnknownRecordsGram, row_sums
from sightline.progress import Progress, silent

# A weight of a unit feature below this is rounding.
_NOTHING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Feature:
    r"""A linear feature :math:`\sum_j c_j x_j` of a person's rows with :math:`\|c\| = 1`."""

    weights: FloatArray  # of one row, for each entry of the kind
    rmse: float  # of the best unbiased attack on it
    recipe: FloatArray  # weights on the answers of that attack

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
    features: dict[int, Feature]  # the sharpest identifiable feature, for kinds with several rows
    totals: dict[int, Feature]  # of the kinds with several rows whose total is identifiable

    def __len__(self) -> int:
        return len(self.kinds)

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
    prior: RecordPrior,
    losses: FloatArray | None = None,
    progress: Progress = silent,
) -> Persons:
    """What is seen of every kind of person.

    ``found`` are the exposures of the design's rows, for the same prior. Rows that the attacker knows are in
    no kind. All other rows are in one: the numbers must agree. ``losses`` is what a row in each column loses
    to Laplace noise, per unit of its value; by default the design's noise says it.
    """
    _check_rows(design, kinds, found)
    several = kinds.rows_of_person > 1
    gram = UnknownRecordsGram.of(design, ~found.known)
    progress("identifiable features of persons", 0.0)
    ranks = person_ranks(gram, kinds, found.rank)
    progress("posterior blocks of persons", 0.0)
    information = _largest_information(design, kinds, found, several)
    blocks = posterior_blocks(gram, kinds, ranks, order=_order(kinds, found, several, ranks), prior=prior)
    lower = np.maximum(_alone(design, kinds, information, prior, losses), blocks.lower)
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
        features=_features(kinds, blocks.sharpest),
        totals=_features(kinds, blocks.totals),
    )


def _check_rows(design: LinearReleases, kinds: PersonKinds, found: Exposures) -> None:
    counts = np.ones(design.size) if design.incidence.counts is None else design.incidence.counts
    expected = np.where(found.known, 0, counts)
    require(
        bool(np.array_equal(kinds.rows_in_columns(design.size), expected)),
        "every unknown row with one person",
        got=f"{int(kinds.rows_in_columns(design.size).sum()):,} rows of persons of {int(expected.sum()):,}",
        error=InvalidRelease,
    )


def _largest_information(
    design: LinearReleases, kinds: PersonKinds, found: Exposures, several: BoolArray
) -> FloatArray:
    """The largest eigenvalue of every block of G, or its trace where the blocks are too large."""
    trace = kinds.sums(kinds.rows * found.information[kinds.columns])
    wide = np.flatnonzero(several & (kinds.sizes > 1))
    largest = largest_eigenvalue(design, kinds, wide)
    information = trace.copy()
    information[wide] = np.minimum(trace[wide], largest)
    return information


def _alone(
    design: LinearReleases,
    kinds: PersonKinds,
    information: FloatArray,
    prior: RecordPrior,
    losses: FloatArray | None,
) -> FloatArray:
    r"""The least share of any linear feature if all other persons are known.

    Gaussian noise: releases of information :math:`\lambda I \succeq G` say more, and leave the rows
    independent, so that the bound for one row with information :math:`\lambda` holds for every feature.
    Laplace noise: van Trees in matrix form, and :math:`e^{-\varepsilon}` for a person's privacy loss.
    """
    van_trees: FloatArray = 1 / (prior.variance * (information + prior.fisher_information))
    if design.law.excess == 1:
        return np.maximum(van_trees, prior.group_bound(information))
    if losses is None:
        losses = row_sums(design, np.abs(design.whitening))
    loss = prior.width * kinds.sums(kinds.rows * losses[kinds.columns])
    return np.maximum(van_trees, np.exp(-loss))


def _order(kinds: PersonKinds, found: Exposures, several: BoolArray, ranks: PersonRanks) -> IndexArray:
    """Kinds with several rows, those first of which the releases say most.

    The trace of :math:`I - c\\,[(G + cI)^{-1}]_{BB}` says it. Over all persons it sums to the rank at most,
    so that few kinds have much of it.
    """
    seen = kinds.sums(kinds.rows * (1 - found.remaining_upper[kinds.columns]))
    rank = np.where(ranks.directions > 0, np.inf, seen)
    chosen = np.flatnonzero(several)
    ordered: IndexArray = chosen[np.lexsort((chosen, -rank[chosen]))]
    return ordered


def _features(kinds: PersonKinds, attacks: dict[int, DirectionAttack]) -> dict[int, Feature]:
    """The attacks on unit directions of blocks, as features of rows."""
    return {
        kind: Feature(
            weights=attack.direction / np.sqrt(kinds.rows[kinds.entries(kind)]),
            rmse=attack.rmse,
            recipe=attack.recipe,
        )
        for kind, attack in attacks.items()
    }
