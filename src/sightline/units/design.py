"""What is published: rows with noise over units with a prior. Every job is a design made from another one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import flint
import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidNoise
from sightline.numerics.balls import BITS
from sightline.numerics.device import Device
from sightline.numerics.positive_inverse import positive_inverse
from sightline.numerics.residuals import absolute_product, gamma, inverse_error_and_spread
from sightline.units.dense_units import TableBlock
from sightline.units.panels import PanelBlock
from sightline.units.target import TargetPrior
from sightline.units.unit_block import BoolArray, UnitBlock, UnitColumns
from sightline.units.units import UnitStore
from sightline.values import frozen


@dataclass(frozen=True, kw_only=True, eq=False)
class RowForm:
    r"""A positive definite matrix Y over pairs of rows, with a last row of zeros for none.

    Let :math:`Y` be a computed inverse of a positive definite P, symmetric to the last bit. Three errors add
    up:

    *The inverse.* :math:`\|PY - I\| \le \varepsilon` (:func:`~sightline.numerics.residuals.inverse_error`)
    means :math:`P^{1/2} Y P^{1/2} = I + \Delta` with :math:`\|\Delta\| \le \varepsilon`: every form of Y is
    that of :math:`P^{-1}`, to this relative error.

    *The matrix.* If P stands for a matrix whose forms differ from its own by at most the share
    :math:`\delta`, forms of the inverses differ by at most :math:`\delta/(1 - \delta)`. Entries that are off
    by :math:`\gamma |P_{ij}|` have :math:`\delta \le \gamma\, \||P||Y|\|_\infty`, entries off by :math:`r_i
    r_j` have :math:`\delta \le r^\top |Y| r`, both over :math:`1 - \varepsilon`: P and :math:`Y^{-1}` are as
    close.

    *The sum.* :math:`b^\top Y b` has terms of at most :math:`|b_i| \sqrt{Y_{ii}}\, |b_k| \sqrt{Y_{kk}}`,
    since Y is positive definite. So its rounding is at most :math:`\gamma\, (\sum_i |b_i| \sqrt{Y_{ii}})^2`.
    """

    stored: FloatArray | None = None
    placed: Any = None  # or, without the last row, on an accelerator
    error: float  # of every quadratic form, relatively
    projection: Any = None  # V and w, if Y is Vᵀ diag(w) V: other forms have the same V
    weights: FloatArray | None = None
    roundings: int = 0  # of each entry, over the root of both diagonal ones; an inverse's are in the error

    @classmethod
    def inverse(
        cls,
        matrix: Any,
        rows: IndexArray,
        numbers: int,
        *,
        error: float = 0.0,
        entries: Any = 0.0,
        given: Any = None,
    ) -> RowForm:
        """Of a matrix over some rows; one that is ``given`` is only checked. Both may lie on an accelerator.

        The error is infinite if the matrix is singular, to rounding.

        Forms of the matrix are known to the relative ``error``, its entries to ``entries`` :math:`r_i r_j`
        times the root of both diagonal ones.
        """
        device, diagonal = Device.holding(matrix), Device.holding(matrix).get(matrix.diagonal())
        if device.host and np.count_nonzero(matrix) == diagonal.size:  # inverted entry by entry
            full = np.zeros((numbers + 1, numbers + 1))
            full[rows, rows] = 1 / diagonal
            off = error + gamma(12) + float(np.max(entries, initial=0.0)) ** 2
            return cls(stored=full, error=1 / (1 - off) - 1 if off < 1 else math.inf)
        # By powers of two, which round nothing, so that the diagonal is between 1/2 and 2.
        powers = np.ldexp(1.0, -(np.frexp(diagonal)[1] // 2))
        scale = device.put(powers)
        scaled = matrix * scale[:, None]
        scaled *= scale
        inverse = device.inverse(scaled) if given is None else given / (scale[:, None] * scale)
        if inverse is None:
            return cls(stored=np.zeros((numbers + 1, numbers + 1)), error=math.inf)
        reach = (entries * np.sqrt(diagonal) * powers)[:, None]
        off = 0.0
        if np.any(reach):
            off = float((reach.T @ device.get(absolute_product(inverse, device.put(reach))))[0, 0])
        own, spread = inverse_error_and_spread(scaled, inverse)
        inverse *= scale[:, None]
        inverse *= scale
        bound = math.inf
        if own < 1 and (off := error + (gamma(12) * spread + off) / (1 - own)) < 1:
            bound = (1 + own) / (1 - off) - 1
        if not device.host and rows.size == numbers:
            return cls(placed=inverse, error=bound)
        full = np.zeros((numbers + 1, numbers + 1))
        full[part_of(rows, numbers)] = device.get(inverse)
        return cls(stored=full, error=bound)

    @cached_property
    def matrix(self) -> FloatArray:
        """Y on the host."""
        if self.stored is not None:
            return self.stored
        size = len(self.placed)
        full = np.zeros((size + 1, size + 1))
        full[:-1, :-1] = Device.holding(self.placed).numbers(self.placed)
        return full

    @cached_property
    def root(self) -> FloatArray:
        """The roots of the diagonal, with a zero for no row."""
        if self.stored is not None:
            return np.sqrt(np.diagonal(self.stored))
        return np.append(np.sqrt(Device.holding(self.placed).numbers(self.placed.diagonal())), 0.0)

    def among(self, rows: IndexArray) -> FloatArray:
        """Y over some rows that one person is in; of a diagonal, too."""
        return np.diag(self.matrix[rows]) if self.matrix.ndim == 1 else self.matrix[np.ix_(rows, rows)]

    def forms(self, block: UnitColumns) -> FloatArray:
        """BᵀYB of every kind."""
        if self.projection is not None and self.weights is not None and isinstance(block, TableBlock):
            return block.projected(self.projection, self.weights)
        if self.placed is not None and isinstance(block, TableBlock):
            return block.forms(self.placed)
        return block.forms(self.matrix)

    def read(self, block: UnitColumns) -> tuple[FloatArray, FloatArray]:
        """BᵀYB of every kind, and a bound on the error in any unit direction (and of half the trace norm)."""
        forms = self.forms(block)
        if not self.error < 1:
            return forms, np.full(len(block), np.inf)
        error = self.error / (1 - self.error) * np.trace(forms, axis1=1, axis2=2)
        return forms, error + gamma(block.terms + self.roundings) * block.sizes(self.root)

    def left(self, block: UnitColumns, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """C − C BᵀYB C: what is left of a prior covariance C, and a bound on its error in any unit
        direction.
        """
        seen, error = self.read(block)
        largest = np.abs(C).sum(axis=-1).max(axis=-1)
        # Of no covariance nothing is off, whatever the form's error.
        off = np.multiply(error, largest**2, where=largest > 0, out=np.zeros(len(block)))
        return C - C @ seen @ C, off + gamma(4 * C.shape[-1]) * largest


def part_of(rows: IndexArray, numbers: int) -> Any:
    """The place of some rows and the same columns in a square table of so many; all of them in their order
    are a slice, which is read without a copy.
    """
    everything = rows.size == numbers and bool(np.all(rows[1:] > rows[:-1]))
    return (slice(numbers), slice(numbers)) if everything else np.ix_(rows, rows)


def over_rows(matrix: FloatArray, rows: IndexArray) -> FloatArray:
    """The part of a square table over some rows and the same columns; not to be written to."""
    return np.asarray(matrix[part_of(rows, len(matrix))])


@frozen(slots=False)
class BallForm:
    """(N + P/u)⁻¹ for the noise N and exact products P over a unit u, in balls: for the few units that need
    it.

    The units have one column each.
    """

    noise: FloatArray  # variances, or a covariance matrix
    whitener: FloatArray | None = None  # or, in place of it, W with WᵀW the inverse of the covariance
    products: Any  # whole numbers, or rationals: a matrix of FLINT
    unit: float

    def left(self, block: UnitBlock, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As :meth:`RowForm.left`."""
        columns = block.dense(len(self.noise))[:-1]
        prior = np.broadcast_to(C, (len(block), 1, 1)).ravel()
        levels = np.rint(prior * self.unit).astype(int).tolist()  # 1, or the levels of the weights
        shares = []
        for bits in BITS:
            with flint.ctx.workprec(bits):
                A = flint.arb_mat([[flint.arb(entry) for entry in line] for line in columns.tolist()])
                try:
                    solved = self._matrix().solve(A).transpose().tolist()
                except ZeroDivisionError:  # singular, as far as these bits say
                    continue
                forms = [dot(a, x) for a, x in zip(A.transpose().tolist(), solved, strict=True)]
                shares = [1 - level * form for level, form in zip(levels, forms, strict=True)]
            if all(share.rel_accuracy_bits() >= 40 for share in shares):
                break
        if not shares:
            return np.zeros((len(block), 1, 1)), np.full(len(block), np.inf)
        values = np.array([float(share.mid()) for share in shares])
        # The noise over the unit is rounded once more: forms are monotone in it.
        radius = np.array([float(share.rad()) for share in shares]) + gamma(16) * np.abs(values)
        return (prior * values)[:, None, None], prior * radius

    def _matrix(self) -> Any:
        """u N + P."""
        unit, zero = flint.arb(self.unit), flint.arb(0)
        if self.whitener is not None:
            white = flint.arb_mat([[flint.arb(entry) for entry in line] for line in self.whitener.tolist()])
            return (white.transpose() * white).inv() * unit + flint.arb_mat(self.products)
        noise = np.diag(self.noise) if self.noise.ndim == 1 else self.noise
        lines = [[unit * flint.arb(entry) if entry else zero for entry in line] for line in noise.tolist()]
        return flint.arb_mat(lines) + flint.arb_mat(self.products)


def dot(left: list[Any], right: list[Any]) -> Any:
    """The product of two lists of balls."""
    return sum((a * b for a, b in zip(left, right, strict=True)), flint.arb(0))


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
        found = (forms[:, 0, 0] + error).reshape(-1, block.times.shape[1])
        return np.broadcast_to(found, block.times.shape)

    def take(self, rows: IndexArray) -> RowNoise:
        """The noise of some of the rows."""
        own = replace(
            self,
            information=self.information[rows],
            variance=self.variance[rows],
            laplace=self.laplace[rows],
            loss=self.loss[rows],
            exact=self.exact[rows],
            summed=self.summed if isinstance(self.summed, float) else self.summed[rows],
        )
        if not self.shared:
            return own
        if self.whitener is not None:
            inside = self.whitener[:, rows]
            used, others = inside.any(axis=1), np.delete(self.whitener, rows, axis=1)
            if not others[used].any():  # what is left shares no noise with what goes
                places = np.ix_(rows, rows)
                made = self.precision.matrix[:-1, :-1][places], self.covariance[places]
                return RowNoise.whitened_by(inside[used], self.error, made)
        error = self.error if self.whitener is None else self._inverse_error
        return replace(own, given_covariance=self.covariance[np.ix_(rows, rows)], whitener=None, error=error)

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


@frozen(slots=False)
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
    def fair(self) -> bool:
        """Whether a row has one of few values, each with the same chance."""
        return self.categories > 1 or self.target.fair

    @property
    def density(self) -> bool:
        """Whether values are spread over an interval, so that unknown rows hide others as Gaussian ones
        would.
        """
        return self.categories == 1 and bool(np.isfinite(self.target.precision(np.zeros(1))[0]))


@frozen(slots=False)
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
