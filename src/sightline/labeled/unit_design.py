"""What is published: rows with noise over units with a prior. Every job is a design made from another one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.bounds.target import TargetPrior
from sightline.labeled.panels import PanelBlock
from sightline.labeled.row_forms import RowForm
from sightline.labeled.units import BoolArray, UnitColumns, UnitStore
from sightline.numerics.residuals import gamma


@dataclass(frozen=True, kw_only=True, eq=False)
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
    covariance: FloatArray | None = None  # of Gaussian noise that rows share; it is not singular

    @classmethod
    def of(
        cls,
        scales: FloatArray,
        stddevs: FloatArray,
        laplace: FloatArray,
        copies: FloatArray,
        *,
        exact: BoolArray | None = None,
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
            exact=np.zeros(scales.size, dtype=np.bool_) if exact is None else exact,
            share=share,
        )

    @classmethod
    def correlated(cls, covariance: FloatArray) -> RowNoise:
        """Gaussian noise that rows share."""
        stddevs, ones = np.sqrt(np.diagonal(covariance)), np.ones(len(covariance))
        return replace(cls.of(stddevs, stddevs, 0 * ones, ones), covariance=covariance)

    @cached_property
    def precision(self) -> RowForm:
        """The inverse of the covariance of noise that rows share."""
        assert self.covariance is not None
        return RowForm.inverse(self.covariance, np.arange(len(self.covariance)), len(self.covariance))

    @property
    def form(self) -> RowForm:
        """Σ⁻¹: what the answers say of persons if everyone else is known."""
        if self.covariance is not None:
            return self.precision
        return RowForm(matrix=self.information, error=gamma(4))

    def about(self, block: UnitColumns) -> tuple[FloatArray, FloatArray]:
        """The information BᵀΣ⁻¹B of the answers about every kind, as it is and rounded up."""
        if self.covariance is None:
            forms = block.forms(np.append(self.information, 0.0))
            return forms, forms * (1 + gamma(4 * self.information.size))
        forms, error = self.precision.read(block)
        return forms, forms + error[:, None, None] * np.eye(forms.shape[1])

    def about_columns(self, block: UnitColumns | PanelBlock) -> FloatArray:
        """The information about one row of a person in each column, rounded up."""
        if self.covariance is None:
            return block.sums(self.information, 2) * (1 + gamma(4 * self.information.size))
        forms, error = self.precision.read(block.by_column())
        found = (forms[:, 0, 0] + error).reshape(-1, block.times.shape[1])
        return np.broadcast_to(found, block.times.shape)

    def take(self, rows: IndexArray) -> RowNoise:
        """The noise of some of the rows."""
        return replace(
            self,
            information=self.information[rows],
            variance=self.variance[rows],
            laplace=self.laplace[rows],
            loss=self.loss[rows],
            exact=self.exact[rows],
            covariance=None if self.covariance is None else self.covariance[np.ix_(rows, rows)],
        )

    def variance_of(self, weights: FloatArray) -> float:
        """The variance of the noise in a weighted sum of answers; exact ones have none."""
        used = (weights != 0) & ~self.exact  # a weight of zero on infinite noise adds no noise
        if self.covariance is not None:
            return float(weights @ self.covariance @ weights)
        return float(weights[used] ** 2 @ self.variance[used])

    @property
    def matrix(self) -> FloatArray:
        """The covariance of the noise."""
        return np.diag(self.variance) if self.covariance is None else self.covariance

    def scaled(self, factor: float) -> RowNoise:
        """All noise times a factor."""
        information, variance = self.information / factor**2, self.variance * factor**2
        covariance = None if self.covariance is None else self.covariance * factor**2
        loss = self.loss / factor
        return replace(self, information=information, variance=variance, loss=loss, covariance=covariance)


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitPrior:
    r"""How the values of one row of a person are spread: a number, or one of k categories with even chances.

    The columns of a row have the covariance ``scale`` times ``kernel``, a table of whole numbers: 1 for a
    number, :math:`K = kI - 11^\top` for categories, whose indicators have the covariance :math:`K/k^2`. So
    one product of rows, of integers, serves exact decisions and linear attacks; and no category is a
    reference.
    """

    target: TargetPrior  # of a number, or of the indicator of a category
    categories: int = 1

    @property
    def kernel(self) -> FloatArray:
        """K."""
        return np.ones((1, 1)) if self.categories == 1 else self.categories * np.eye(self.categories) - 1

    @property
    def scale(self) -> float:
        """The covariance over K."""
        return self.target.variance if self.categories == 1 else self.categories**-2.0

    @property
    def density(self) -> bool:
        """Whether values are spread over an interval, so that unknown rows hide others as Gaussian ones
        would.
        """
        return self.categories == 1 and bool(np.isfinite(self.target.precision(np.zeros(1))[0]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """The only input of everything to the right."""

    units: UnitStore
    noise: RowNoise
    prior: UnitPrior
    release: IndexArray  # of every row
    place: IndexArray  # for every signature, or kind of person, of the table its unit; -1 if it is known
    # From units and prior: noise changes none of it.
    made: dict[str, Any] = field(default_factory=dict, repr=False)

    def take(self, rows: IndexArray | BoolArray) -> Design:
        """Some of the rows: timelines, contributions, remedies, suppression."""
        chosen = np.flatnonzero(rows) if rows.dtype == np.bool_ else np.asarray(rows, dtype=np.intp)
        units, noise = self.units.take(chosen), self.noise.take(chosen)
        return replace(
            self, units=units, noise=noise, release=self.release[chosen], made=self._products_of(chosen)
        )

    def _products_of(self, rows: IndexArray) -> dict[str, Any]:
        """The products of some rows are among those of all rows."""
        if "products" not in self.made:
            return {}
        return {"products": self.made["products"].take(rows)}

    def with_noise(self, noise: RowNoise) -> Design:
        """The same rows with other noise: accountants, slack, what-if, designs."""
        return replace(self, noise=noise)

    def knowing(self, kinds: BoolArray) -> Design:
        """An attacker who also knows some kinds."""
        number = np.where(kinds, -1, np.cumsum(~kinds) - 1)
        place = np.where(self.place >= 0, number[self.place], -1)
        return replace(self, units=self.units.without(np.flatnonzero(kinds)), place=place, made={})
