r"""The posterior blocks of persons: what the best linear attack leaves of each feature of their rows.

With :math:`A = FQ` (reduced coordinates), :math:`\Sigma^{-1/2}F = U \Lambda^{1/2} V^\top` and
:math:`Z = V^\top F^{+} B` for a person's columns :math:`B = [\sqrt{n_s}\,a_s]`, the posterior block under a
Gaussian prior of precision c is

.. math:: [(G + cI)^{-1}]_{BB} = \tfrac1c\bigl(I - Z^\top \Lambda(\Lambda + c)^{-1} Z\bigr).

A feature with the unit direction q is identifiable iff :math:`\|Zq\| = 1`; the best unbiased attack on it has
the mean squared error :math:`q^\top Z^\top \Lambda^{-1} Z q` (``app:linear_blue_identity``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.bounds.target import TargetPrior
from sightline.labeled.description import LinearReleases
from sightline.labeled.incidence.cells import CellIncidence
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.person_attacks import DirectionAttack, ReducedView
from sightline.labeled.person_kinds import PersonKinds
from sightline.labeled.person_ranks import PersonRanks
from sightline.labeled.unknown_gram import UnknownRecordsGram
from sightline.numerics.residuals import eigenvalues_at_most, gamma

# Blocks are assessed in the order of how much is seen until this much work is done.
_MOST_WORK = 2e9
_ENTRIES = 4096  # columns of blocks that are dense at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PosteriorBlocks:
    """What the blocks say: arrays over the kinds, with no bound (0 and 1) for those not assessed."""

    assessed: BoolArray
    lower: FloatArray  # van Trees in matrix form, in the worst direction
    upper: FloatArray  # the best linear attack, in the worst direction
    sharpest: dict[int, DirectionAttack]  # in the worst identifiable direction
    totals: dict[int, DirectionAttack]


def posterior_blocks(
    gram: UnknownRecordsGram,
    kinds: PersonKinds,
    ranks: PersonRanks,
    *,
    order: IndexArray,
    prior: TargetPrior,
    precision: float | None,
) -> PosteriorBlocks:
    """The blocks of kinds in a given order, as many as are affordable and at least the identifiable ones.

    ``precision`` is at least that of every row's prior; ``None`` if it has no density.
    """
    assessed = np.zeros(len(kinds), dtype=np.bool_)
    lower, upper = np.zeros(len(kinds)), np.ones(len(kinds))
    sharpest: dict[int, DirectionAttack] = {}
    totals: dict[int, DirectionAttack] = {}
    chosen = _affordable(gram, kinds, ranks, order)
    if chosen.size:
        excess, v = gram.design.law.excess, prior.variance
        precisions = (excess / v,) if precision is None else (excess / v, precision)
        view = ReducedView.of(gram, ranks.rank, precisions)
        for part, entries in kinds.batches(chosen, entries=_ENTRIES):
            Z = view.coordinates(gram, kinds, entries)
            upper[part] = view.least_at_most(Z, excess / v)
            if precision is not None:
                lower[part] = view.least_at_least(Z, precision) / (v * precision)
            for place in np.flatnonzero(ranks.directions[part]):
                kind = int(part[place])
                total = np.sqrt(kinds.rows[entries[place]] / kinds.rows_of_person[kind])
                attack, share = view.sharpest(gram, Z[place], int(ranks.directions[kind]), excess / v)
                sharpest[kind] = attack
                upper[kind] = min(upper[kind], share)
                if ranks.total[kind]:
                    totals[kind] = view.attack(gram, Z[place], total, apart=gamma(4))
        assessed[chosen] = True
    return PosteriorBlocks(assessed=assessed, lower=lower, upper=upper, sharpest=sharpest, totals=totals)


def largest_eigenvalue(design: LinearReleases, kinds: PersonKinds, chosen: IndexArray) -> FloatArray:
    r"""An upper bound on the largest eigenvalue of :math:`B^\top\Sigma^{-1}B`, for some kinds.

    It is exact up to rounding while that is affordable; beyond that nothing is known (infinity).
    """
    found = np.full(len(kinds), np.inf)
    cost = np.cumsum(kinds.sizes[chosen].astype(np.float64) ** 2 * _column_cost(design))
    for part, entries in kinds.batches(chosen[cost <= _MOST_WORK], entries=_ENTRIES):
        blocks = _information(design, kinds.columns[entries])
        length = np.sqrt(kinds.rows[entries])
        blocks *= length[:, :, None] * length[:, None, :]
        rounding = gamma(design.row_count + 6) * np.trace(blocks, axis1=1, axis2=2)
        found[part] = eigenvalues_at_most(blocks) + rounding
    return found[chosen]


def _column_cost(design: LinearReleases) -> int:
    incidence = design.incidence
    return len(incidence.table) if isinstance(incidence, CellIncidence) else design.row_count


def _information(design: LinearReleases, columns: IndexArray) -> FloatArray:
    """The information blocks of some columns (kinds × columns), each for a single row."""
    incidence, whitening = design.incidence, design.whitening
    if isinstance(incidence, CellIncidence) and whitening.ndim == 1:
        blocks = np.zeros((*columns.shape, columns.shape[1]))
        for first, width, own in zip(incidence.starts, incidence.widths, incidence.table, strict=True):
            cells = own[columns].astype(np.intp)
            weights = np.append(np.square(whitening[first : first + width]), 0.0)[cells]  # -1 is the last
            blocks += np.where(cells[:, :, None] == cells[:, None, :], weights[:, :, None], 0.0)
        return blocks
    dense = design.whiten(incidence.columns(columns.ravel()))
    dense = dense.reshape(len(dense), *columns.shape).transpose(1, 0, 2)
    return np.asarray(dense.transpose(0, 2, 1) @ dense)


def _affordable(
    gram: UnknownRecordsGram, kinds: PersonKinds, ranks: PersonRanks, order: IndexArray
) -> IndexArray:
    per_column = float(_column_cost(gram.design) + 8) * ranks.rank
    cost = np.cumsum(kinds.sizes[order] * (per_column + kinds.sizes[order] * float(ranks.rank)))
    chosen: IndexArray = order[(cost <= _MOST_WORK) | (ranks.directions[order] > 0)]
    return chosen
