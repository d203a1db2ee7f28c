r"""The Gram matrix :math:`M = A A^\top` of the rows over the records that the attacker does not know.

It is all that the releases see of these records together. Its size is that of the releases.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from sightline.arrays import FloatArray, IndexArray, chosen_of
from sightline.labeled.column_forms import ProjectedForms
from sightline.labeled.description import LinearReleases
from sightline.labeled.gram_factor import BLOCK, GramFactor, factor_of_gram, factor_of_rows
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.risk_forms import (
    PROOF,
    Quantity,
    RiskForms,
    Risks,
    Spectrum,
    forms_from_eigenvalues,
    forms_from_factor,
    forms_from_inverses,
)
from sightline.labeled.routes.cost import dense_cost, require_memory
from sightline.noise.mixed import laplace_rows
from sightline.numerics import integers as exact
from sightline.numerics.decision import Evidence, Rank
from sightline.numerics.device import Device
from sightline.progress import Progress, silent

# The Gram matrix loses twice the digits that the rows do. Beyond this error the rows themselves are
# factorised, if that takes at most so many operations.
_COARSE, _AFFORDABLE = 1e-10, 1e12
_UNIT = float(np.finfo(np.float64).eps)


class RecordsGram(Protocol):
    """What every route knows of a design and its unknown records, however it holds the products of rows."""

    @property
    def design(self) -> LinearReleases: ...

    @property
    def unknown(self) -> BoolArray: ...

    @property
    def whitening(self) -> FloatArray: ...

    @property
    def whitening_error(self) -> float: ...

    @property
    def signal(self) -> float: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class UnknownRecordsGram:
    """A design, the records that are unknown, and :math:`A A^\\top` over these."""

    design: LinearReleases
    matrix: FloatArray
    unknown: BoolArray

    @classmethod
    def of(
        cls, design: LinearReleases, unknown: BoolArray, progress: Progress = silent
    ) -> UnknownRecordsGram:
        """One sweep over the records. A matrix that does not fit this machine is refused."""
        require_memory(dense_cost(design.row_count, "products of all rows"))
        return cls(design=design, matrix=design.incidence.gram(unknown, progress), unknown=unknown)

    @property
    def whitening(self) -> FloatArray:
        """What multiplies the incidence's rows: a vector, or a matrix where the noise is correlated."""
        return self.design.whitening

    @property
    def device(self) -> Device:
        """Where the matrix is factorised."""
        return self.design.incidence.device

    @cached_property
    def spectrum(self) -> Spectrum:
        """Eigenvalues and eigenvectors of the whitened matrix."""
        return Spectrum.of(self.device.put(self.matrix), self.whitening)

    @property
    def row_scale(self) -> FloatArray:
        """What makes the rows over the unknown records unit length; zero for rows without any."""
        diagonal = np.diagonal(self.matrix)
        return np.where(diagonal > 0, 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 0.0)

    @cached_property
    def whitening_error(self) -> float:
        """A bound on the relative error of whitened lengths: that of the noise's factorisation."""
        count = self.design.row_count
        if self.whitening.ndim == 1:
            return 4 * _UNIT
        # Cholesky errs by n roundings of the covariance's diagonal, whatever the units of the answers.
        own = self.whitening / self.design.scale * np.sqrt(self.design.law.variances)
        return 8 * count**2 * _UNIT * float(np.sum(own**2))

    @property
    def signal(self) -> float:
        """The largest length of a row over its noise."""
        return float(np.max(np.abs(self.whitening * np.sqrt(np.diagonal(self.matrix)))))

    def forms(self, risks: Risks, rank: Rank, linear: FloatArray) -> RiskForms:
        """The forms of every record: from inverses where records are in few rows, else from eigenvalues.

        Where neither is accurate enough, from a factor of the matrix.
        """
        if self.design.incidence.sparse:
            matrix = self.device.put(self.matrix)
            forms = forms_from_inverses(matrix, self.whitening, risks, linear=linear)
        else:
            forms = forms_from_eigenvalues(self.spectrum, risks, linear=linear)
        return forms or forms_from_factor(self.factor(rank), self.whitening, risks, linear=linear)

    def forms_if_independent(self, risks: Risks, linear: FloatArray) -> RiskForms | None:
        """The forms of every record, if a factorisation of the matrix proves the rows independent."""
        forms = forms_from_eigenvalues(self.spectrum, risks, linear=linear)
        if forms is not None and Quantity.LEVERAGE in forms.names:
            return forms
        count = self.design.row_count
        factor = factor_of_gram(self.matrix, count)
        if factor.rank < count or not factor.certain_error <= PROOF:
            return None
        accurate = self._accurate(factor, Rank(rank=count, evidence=Evidence.FULL_RANK))
        return forms_from_factor(accurate, self.whitening, risks, linear=linear)

    def factor(self, rank: Rank) -> GramFactor:
        """A factor of the matrix: from the matrix if that is accurate enough, else from the rows."""
        return self._accurate(factor_of_gram(self.matrix, rank.rank), rank)

    def factor_of_rows(self, rank: Rank | None) -> tuple[GramFactor, Rank]:
        """A factor of the matrix from a QR factorisation of the rows; the rank by gap unless it is given."""
        scale = self.row_scale
        triangle = self.design.incidence.triangle(self.unknown.astype(np.float64), scale)
        factor, by_gap = factor_of_rows(triangle, scale, None if rank is None else rank.rank)
        return factor.checked(self._blocks(), scale), rank or by_gap

    def _blocks(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """The columns of the unknown records, some at a time, and how many records each stands for."""
        incidence, positions = self.design.incidence, np.flatnonzero(self.unknown)
        for start in range(0, positions.size, BLOCK):
            chosen = positions[start : start + BLOCK]
            counts = np.ones(chosen.size) if incidence.counts is None else incidence.counts[chosen]
            yield incidence.columns(chosen), counts.astype(np.float64)

    def _accurate(self, factor: GramFactor, rank: Rank) -> GramFactor:
        costly = self.design.row_count**2 * self.design.size > _AFFORDABLE
        costly |= not self.design.incidence.complete  # then there are no rows to factorise
        if factor.estimated_error <= _COARSE or (costly and factor.rank == rank.rank):
            return factor
        return self.factor_of_rows(rank)[0]

    def without(self, columns: FloatArray, sizes: IndexArray, removed: BoolArray) -> UnknownRecordsGram:
        """The same without the ``removed`` records: ``sizes`` of them for each of some columns."""
        left = self.unknown & ~removed
        if not self.design.incidence.whole:  # a difference of rounded numbers would cost digits
            return UnknownRecordsGram.of(self.design, left)
        matrix = self.matrix - (columns * sizes) @ columns.T
        return UnknownRecordsGram(design=self.design, matrix=matrix, unknown=left)

    def column_errors(self, factor: GramFactor, whitened: FloatArray) -> FloatArray:
        """Bounds on the relative errors of whitened columns, the last of which are this factor's."""
        lengths = np.sqrt(np.maximum(np.diagonal(self.matrix), 0.0))
        reach = float(np.linalg.norm(self.whitening * lengths))
        errors = np.full(whitened.shape[1], self.whitening_error)
        own = np.linalg.norm(whitened[:, whitened.shape[1] - factor.rank :], axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            errors[whitened.shape[1] - factor.rank :] += factor.column_errors * reach / own
        return np.where(np.isnan(errors), np.inf, errors)

    def factor_of_known_rank(self, rank: int | None) -> GramFactor:
        """A factor; the rank is decided if it is not given: exactly for whole weights, else by gap."""
        if self.design.incidence.whole:
            count = exact.rank(self.matrix.astype(np.int64)) if rank is None else rank
            return self.factor(Rank(rank=count, evidence=Evidence.MODULAR))
        given = None if rank is None else Rank(rank=rank, evidence=Evidence.GAP)
        return self.factor_of_rows(given)[0]


def row_sums(design: LinearReleases, weights: FloatArray) -> FloatArray:
    r"""For every record :math:`\sum_\ell c_\ell |a_{\ell j}|`, with the incidence's own weights."""
    incidence = design.incidence
    if incidence.binary:
        return combined(design, weights)
    blocks = [np.arange(start, min(start + BLOCK, design.size)) for start in range(0, design.size, BLOCK)]
    return np.concatenate([weights @ np.abs(incidence.columns(block)) for block in blocks])


def row_squares(design: LinearReleases, weights: FloatArray) -> FloatArray:
    r"""For every record :math:`\sum_\ell c_\ell a_{\ell j}^2`, with the incidence's own weights."""
    if design.incidence.binary:
        return combined(design, weights)
    blocks = [np.arange(start, min(start + BLOCK, design.size)) for start in range(0, design.size, BLOCK)]
    return np.concatenate([weights @ np.square(design.incidence.columns(block)) for block in blocks])


def row_counts(design: LinearReleases, weights: FloatArray) -> FloatArray:
    r"""For every record the sum of the weights of the rows that it is in."""
    incidence = design.incidence
    if incidence.binary:
        return combined(design, weights)
    blocks = [np.arange(start, min(start + BLOCK, design.size)) for start in range(0, design.size, BLOCK)]
    return np.concatenate([weights @ (incidence.columns(block) != 0) for block in blocks])


def combined(design: LinearReleases, weights: FloatArray) -> FloatArray:
    r"""For every record :math:`\sum_\ell c_\ell a_{\ell j}`: its weight in a combination of rows.

    Of several combinations, one a row, its weight in each.
    """
    forms = ProjectedForms(
        projection=np.zeros((0, design.row_count)),
        weights=np.zeros((0, 0)),
        offsets=np.zeros(0),
        linear=np.atleast_2d(weights),
    )
    everyone = np.ones(design.size, dtype=np.bool_)
    sums: FloatArray = design.incidence.forms(forms, everyone, silent)
    return sums if weights.ndim == 2 else sums[0]


def records_alike(gram: RecordsGram, group_sizes: IndexArray) -> FloatArray:
    """For every unknown record how many have its signature, also where these are several groups.

    ``group_sizes`` has for every unknown record the size of its group.
    """
    sizes = group_sizes.astype(np.float64)
    if gram.design.incidence.counts is None or gram.design.incidence.distinct:
        return sizes
    signature = chosen_of(gram.design.incidence.signatures(gram.unknown), gram.unknown)
    return np.asarray(np.bincount(signature, sizes)[signature])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaplacePart:
    """Of every unknown record, how many answers with Laplace noise depend on it, and their information."""

    answers: FloatArray
    information: FloatArray
    alone: BoolArray  # no answer with other noise depends on the record

    @classmethod
    def of(cls, gram: RecordsGram, copies: FloatArray | None) -> LaplacePart | None:
        """``None`` where all noise is Gaussian."""
        rows = laplace_rows(gram.design.law)
        if not rows.any():
            return None
        each = rows if copies is None else rows * copies
        weights = np.where(rows > 0, np.square(gram.design.whitening), 0.0)  # Laplace noise is independent
        return cls(
            answers=row_counts(gram.design, each)[gram.unknown],
            information=row_squares(gram.design, weights)[gram.unknown],
            alone=row_counts(gram.design, (rows == 0).astype(np.float64))[gram.unknown] == 0,
        )

    def part_of(self, information: FloatArray, error: float) -> FloatArray:
        """Their part of an information that was rounded up: all of it, or one that is rounded down.

        What is not counted as Laplace counts as Gaussian, which tells more.
        """
        own = self.information * (1 - error)
        return np.where(self.alone, information, np.minimum(own, information))

    def part(self, own: slice) -> LaplacePart:
        """The same for some of the records."""
        return LaplacePart(
            answers=self.answers[own], information=self.information[own], alone=self.alone[own]
        )

    def scaled(self, places: IndexArray, factor: float) -> LaplacePart:
        """The same for some of the records, with all noise multiplied by a factor."""
        return LaplacePart(
            answers=self.answers[places],
            information=self.information[places] / factor**2,
            alone=self.alone[places],
        )
