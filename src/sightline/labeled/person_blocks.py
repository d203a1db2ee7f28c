r"""The posterior blocks of persons: what the best linear attack leaves of each feature of their rows.

With :math:`A = FQ` (reduced coordinates), :math:`\Sigma^{-1/2}F = U \Lambda^{1/2} V^\top` and
:math:`Z = V^\top F^{+} B` for a person's columns :math:`B = [\sqrt{n_s}\,a_s]`, the posterior block under a
Gaussian prior of precision c is

.. math:: [(G + cI)^{-1}]_{BB} = \tfrac1c\bigl(I - Z^\top \Lambda(\Lambda + c)^{-1} Z\bigr).

A feature with the unit direction q is identifiable iff :math:`\|Zq\| = 1`; the best unbiased attack on it has
the mean squared error :math:`q^\top Z^\top \Lambda^{-1} Z q` (``app:linear_blue_identity``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.bounds.target import TargetPrior
from sightline.labeled.description import LinearReleases
from sightline.labeled.incidence.cells import CellIncidence
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.person_kinds import PersonKinds
from sightline.labeled.person_ranks import PersonRanks
from sightline.labeled.unknown_gram import UnknownRecordsGram
from sightline.numerics.decision import Evidence, Rank

_UNIT = float(np.finfo(np.float64).eps)
# Blocks are assessed in the order of how much is seen until this much work is done.
_MOST_WORK = 2e9
_ENTRIES = 4096  # columns of blocks that are dense at a time
_MILD = 1e-10  # what a Gram matrix may cost


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DirectionAttack:
    """The best unbiased attack on a unit direction of a person's block."""

    direction: FloatArray
    rmse: float
    recipe: FloatArray  # weights on the answers


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
        view = _View.of(gram, ranks.rank, excess / v)
        for part, entries in kinds.batches(chosen, entries=_ENTRIES):
            Z = view.coordinates(gram, kinds, entries)
            least, error = view.least(Z, excess / v)
            upper[part] = least + error
            if precision is not None:
                least, error = view.least(Z, precision)
                lower[part] = (least - error) / (v * precision)
            for place in np.flatnonzero(ranks.directions[part]):
                kind = int(part[place])
                total = np.sqrt(kinds.rows[entries[place]] / kinds.rows_of_person[kind])
                attack, share = view.sharpest(gram, Z[place], int(ranks.directions[kind]), excess / v)
                sharpest[kind] = attack
                upper[kind] = min(upper[kind], share * (1 + view.error) * excess / v)
                if ranks.total[kind]:
                    totals[kind] = view.attack(gram, Z[place], total)
        assessed[chosen] = True
    return PosteriorBlocks(assessed=assessed, lower=lower, upper=upper, sharpest=sharpest, totals=totals)


def largest_eigenvalue(design: LinearReleases, kinds: PersonKinds, chosen: IndexArray) -> FloatArray:
    r"""An upper bound on the largest eigenvalue of :math:`B^\top\Sigma^{-1}B`, for some kinds.

    It is exact up to rounding while that is affordable; then the largest sum of a line's absolute entries,
    or for very large blocks nothing (infinity).
    """
    found = np.full(len(kinds), np.inf)
    cost = np.cumsum(kinds.sizes[chosen].astype(np.float64) ** 2 * _column_cost(design))
    for part, entries in kinds.batches(chosen[cost <= _MOST_WORK], entries=_ENTRIES):
        blocks = _information(design, kinds.columns[entries])
        length = np.sqrt(kinds.rows[entries])
        blocks *= length[:, :, None] * length[:, None, :]
        rounding = 4 * (blocks.shape[1] + design.row_count) * _UNIT
        found[part] = np.linalg.eigvalsh(blocks)[:, -1] + rounding * np.trace(blocks, axis1=1, axis2=2)
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _View:
    """What the releases see, in the coordinates of the singular vectors of the whitened factor."""

    factor: FloatArray  # Σ^(-1/2) F, turned: the columns are orthogonal, of squared lengths Λ
    values: FloatArray  # Λ
    projection: FloatArray  # Vᵀ F⁺: takes a column to its coordinates
    error: float  # of squared lengths of coordinates: a bound
    squared: bool  # whether Λ comes from a Gram matrix, which costs twice the digits

    @classmethod
    def of(cls, gram: UnknownRecordsGram, rank: int, precision: float) -> _View:
        factor = gram.factor(Rank(rank=rank, evidence=Evidence.MODULAR))
        B = gram.design.whiten(factor.factor)
        values, vectors = np.linalg.eigh(B.T @ B)
        largest = float(np.max(values, initial=0.0))
        least = min(precision, float(np.min(values, initial=np.inf)))
        squared = 8 * len(B) * _UNIT * largest <= _MILD * least
        if not squared:
            _, roots, right = np.linalg.svd(B, full_matrices=False)
            values, vectors = roots**2, right.T
        return cls(
            factor=B @ vectors,
            values=values,
            projection=vectors.T @ factor.coordinates(),
            error=min(4 * factor.coordinate_error, 1.0) + 64 * _UNIT * len(B),
            squared=squared,
        )

    def coordinates(self, gram: UnknownRecordsGram, kinds: PersonKinds, entries: IndexArray) -> FloatArray:
        """Z of every kind of a batch: kinds × rank × columns."""
        columns = gram.design.incidence.columns(kinds.columns[entries.ravel()])
        columns *= np.sqrt(kinds.rows[entries.ravel()])
        Z = (self.projection @ columns).reshape(len(self.projection), *entries.shape)
        return np.ascontiguousarray(Z.transpose(1, 0, 2))

    def least(self, Z: FloatArray, precision: float) -> tuple[FloatArray, float]:
        """The least eigenvalue of c times every posterior block, and a bound on its error."""
        weighted = Z * np.sqrt(self.values / (self.values + precision))[:, None]
        values = np.linalg.eigvalsh(weighted.transpose(0, 2, 1) @ weighted)
        # Eigenvalues err by roundings of the largest, and λ/(λ + c) changes by at most 1/c a step; singular
        # values σ likewise, and σ²/(σ² + c) changes by at most 1/√c.
        reach = float(np.max(self.values, initial=0.0)) / precision
        rounding = 8 * len(self.factor) * _UNIT * (reach if self.squared else math.sqrt(reach))
        return np.clip(1 - values[:, -1], 0.0, 1.0), self.error + rounding

    def sharpest(
        self, gram: UnknownRecordsGram, Z: FloatArray, directions: int, precision: float
    ) -> tuple[DirectionAttack, float]:
        """The attack on the sharpest identifiable direction, and the risk in it under the prior."""
        identifiable = np.linalg.eigh(Z.T @ Z)[1][:, -directions:]
        seen = Z @ identifiable
        errors = seen.T @ (seen / self.values[:, None])
        direction = identifiable @ np.linalg.eigh(errors)[1][:, 0]
        direction *= np.sign(direction[np.argmax(np.abs(direction))])
        risks = np.linalg.eigvalsh(seen.T @ (seen / (self.values + precision)[:, None]))
        return self.attack(gram, Z, direction), float(risks[0])

    def attack(self, gram: UnknownRecordsGram, Z: FloatArray, direction: FloatArray) -> DirectionAttack:
        """The best unbiased attack on an identifiable direction."""
        seen = Z @ direction
        recipe = gram.design.law.recipe((self.factor @ (seen / self.values))[None])[0]
        rmse = float(np.linalg.norm(seen / np.sqrt(self.values)))
        return DirectionAttack(direction=direction, rmse=rmse, recipe=recipe)
