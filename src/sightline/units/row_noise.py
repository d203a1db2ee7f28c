"""The noise of published rows, whatever its law, alone or shared."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidNoise
from sightline.numerics.positive_inverse import positive_inverse
from sightline.numerics.residuals import gamma
from sightline.units.panels import PanelBlock
from sightline.units.row_forms import RowForm
from sightline.units.unit_block import BoolArray, UnitColumns
from sightline.values import frozen


@frozen(slots=False)
class RowNoise:
    """The noise of every row, whatever its law: what bounds on all attacks need, and what linear attacks
    need.
    """

    information: FloatArray  # of the answer about its row
    variance: FloatArray
    # Laplace answers that the row is the mean of; 0 if it tells no more than a Gaussian one.
    laplace: FloatArray
    loss: FloatArray  # pure privacy loss per unit of the row; infinite without one
    exact: BoolArray  # published without noise: what stands for it here is very little
    share: float = 1.0  # at least the probability that no row tells more than this
    summed: FloatArray | float = 1.0  # how many numbers a row is the sum of; a person's row is in one of them
    # Of Gaussian noise that rows share, and that is not singular: its covariance, to a relative error of its
    # forms; or a table W with W noise white, and then the covariance follows from it.
    given_covariance: FloatArray | None = None
    whitener: FloatArray | None = None
    error: float = 0.0

    @classmethod
    def of(
        cls,
        scales: FloatArray,
        stddevs: FloatArray,
        laplace: FloatArray,
        copies: FloatArray,
        *,
        exact: BoolArray | bool = False,
        share: float = 1.0,
    ) -> RowNoise:
        """From scales of the information, standard deviations, and how many Laplace answers a copy counts
        as.
        """
        return cls(
            information=scales**-2.0,
            variance=stddevs**2,
            laplace=laplace * copies,
            loss=np.where(laplace > 0, np.sqrt(copies) / scales, np.inf),
            exact=np.broadcast_to(exact, scales.shape),
            share=share,
        )

    @classmethod
    def correlated(cls, covariance: FloatArray) -> RowNoise:
        """Gaussian noise that rows share."""
        return replace(cls._gaussian(np.diagonal(covariance)), given_covariance=covariance)

    @classmethod
    def whitened_by(
        cls,
        whitener: FloatArray,
        error: float = 0.0,
        made: tuple[FloatArray, FloatArray] | None = None,
    ) -> RowNoise:
        """Gaussian noise that rows share, by a table W of full column rank with W noise white.

        ``error`` is that of the forms of WᵀW, relatively. WᵀW and its inverse may be ``made`` already.
        """
        numbers = whitener.shape[1]
        matrix = np.zeros((numbers + 1, numbers + 1))
        if made is not None:
            matrix[:-1, :-1], covariance = made
            return cls._of_whitener(whitener, matrix, covariance, error)
        matrix[:-1, :-1] = whitener.T @ whitener
        scale = 1 / np.maximum(np.linalg.norm(whitener, axis=0), np.finfo(np.float64).tiny)
        inverse = positive_inverse(matrix[:-1, :-1] * (scale[:, None] * scale))
        if inverse is None:
            raise InvalidNoise("expected noise on every combination of the numbers, got a table of low rank")
        return cls._of_whitener(whitener, matrix, inverse * (scale[:, None] * scale), error)

    @classmethod
    def _of_whitener(
        cls, whitener: FloatArray, matrix: FloatArray, covariance: FloatArray, error: float
    ) -> RowNoise:
        noise = replace(cls._gaussian(np.diagonal(covariance)), whitener=whitener, error=error)
        noise.__dict__["precision"] = RowForm(stored=matrix, error=error, roundings=len(whitener) + 4)
        noise.__dict__["covariance"] = covariance
        return noise

    @classmethod
    def _gaussian(cls, variances: FloatArray) -> RowNoise:
        stddevs, ones = np.sqrt(variances), np.ones(len(variances))
        return cls.of(stddevs, stddevs, 0 * ones, ones)

    @property
    def shared(self) -> bool:
        """Whether rows share their noise."""
        return self.given_covariance is not None or self.whitener is not None

    @cached_property
    def covariance(self) -> FloatArray:
        """The covariance of noise that rows share; of a whitener, to rounding."""
        assert self.given_covariance is not None
        return self.given_covariance

    @cached_property
    def precision(self) -> RowForm:
        """The inverse of the covariance of noise that rows share."""
        numbers = self.information.size
        return RowForm.inverse(self.covariance, np.arange(numbers), numbers, error=self.error)

    def white(self, entries: FloatArray) -> FloatArray:
        """Rows in which the noise is white."""
        if self.whitener is not None:
            return np.asarray(self.whitener @ entries)
        if self.shared:
            return np.asarray(np.linalg.solve(np.linalg.cholesky(self.covariance), entries))
        return np.asarray(entries * np.sqrt(self.information)[:, None])

    @property
    def form(self) -> RowForm:
        """Σ⁻¹: what the answers say of persons if everyone else is known."""
        if self.shared:
            return self.precision
        return RowForm(stored=self.information, error=gamma(4))

    def about(self, block: UnitColumns) -> tuple[FloatArray, FloatArray]:
        """The information BᵀΣ⁻¹B of the answers about every kind, as it is and rounded up."""
        if not self.shared:
            forms = block.forms(np.append(self.information, 0.0))
            return forms, forms * (1 + gamma(4 * self.information.size))
        forms, error = self.precision.read(block)
        return forms, forms + error[:, None, None] * np.eye(forms.shape[1])

    def about_columns(self, block: UnitColumns | PanelBlock) -> FloatArray:
        """The information about one row of a person in each column, rounded up."""
        if not self.shared:
            each = self.information * self.summed
            return block.sums(each, 2) * (1 + gamma(4 * self.information.size))
        forms, error = self.precision.read(block.by_column())
        information = (forms[:, 0, 0] + error).reshape(-1, block.times.shape[1])
        return np.broadcast_to(information, block.times.shape)

    def take(self, rows: IndexArray) -> RowNoise:
        """The noise of some of the rows."""
        taken = replace(
            self,
            information=self.information[rows],
            variance=self.variance[rows],
            laplace=self.laplace[rows],
            loss=self.loss[rows],
            exact=self.exact[rows],
            summed=self.summed if isinstance(self.summed, float) else self.summed[rows],
        )
        if not self.shared:
            return taken
        if self.whitener is not None:
            inside = self.whitener[:, rows]
            used, others = inside.any(axis=1), np.delete(self.whitener, rows, axis=1)
            if not others[used].any():  # what is left shares no noise with what goes
                places = np.ix_(rows, rows)
                made = self.precision.matrix[:-1, :-1][places], self.covariance[places]
                return RowNoise.whitened_by(inside[used], self.error, made)
        error = self.error if self.whitener is None else self._inverse_error
        return replace(
            taken, given_covariance=self.covariance[np.ix_(rows, rows)], whitener=None, error=error
        )

    @property
    def _inverse_error(self) -> float:
        """The error of the forms of the covariance, where it is computed from a whitener."""
        numbers, form = self.information.size, self.precision
        rounding = math.sqrt(gamma(form.roundings + 8))
        return RowForm.inverse(
            form.matrix[:-1, :-1],
            np.arange(numbers),
            numbers,
            error=self.error,
            entries=rounding,
            given=self.covariance,
        ).error

    def variance_of(self, weights: FloatArray) -> float:
        """The variance of the noise in a weighted sum of answers; exact ones have none."""
        used = (weights != 0) & ~self.exact  # a weight of zero on infinite noise adds no noise
        if self.shared:
            return float(weights @ self.covariance @ weights)
        return float(weights[used] ** 2 @ self.variance[used])

    @property
    def matrix(self) -> FloatArray:
        """The covariance of the noise."""
        return self.covariance if self.shared else np.diag(self.variance)

    def scaled(self, factor: float) -> RowNoise:
        """All noise times a factor."""
        if self.whitener is not None:
            made = self.precision.matrix[:-1, :-1] / factor**2, self.covariance * factor**2
            return RowNoise.whitened_by(self.whitener / factor, self.error, made)
        information, variance = self.information / factor**2, self.variance * factor**2
        covariance = self.covariance * factor**2 if self.shared else None
        loss = self.loss / factor
        return replace(
            self, information=information, variance=variance, loss=loss, given_covariance=covariance
        )
