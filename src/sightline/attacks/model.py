r"""The model that a batched attack fits: answers are weighted sums of curves of the records' values.

.. math:: y_\ell = \sum_k a_{\ell k}\,\phi_\ell(u_k) + w_\ell, \qquad
          f(u) = (y - p(u))^\top \Sigma^{-1} (y - p(u))

Subset means and sums, weighted sums, moments and smooth thresholds are all of this form, over the same or
over different members. Every summand depends on one record, so the second derivatives of :math:`p_\ell` are
diagonal, and Newton's method costs little more than Gauss–Newton.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from sightline.arrays import namespace
from sightline.releases.features import Kernel, Powers, smooth_step_derivatives


class Local(NamedTuple):
    """The objective at a point, with its gradient and Hessian (lower triangle), all as columns."""

    objective: Column
    gradient: tuple[Column, ...]
    hessian: tuple[tuple[Column, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published number: a curve, and its weight for every unknown (0 for a record outside)."""

    curve: Curve
    weights: tuple[float, ...]

    def answer(self, u: Sequence[Column]) -> Column:
        """The exact answer at the unknowns."""
        terms = [a * self.curve.derivatives(u[k], Powers(u[k]))[0] for k, a in enumerate(self.weights) if a]
        return total(terms)


class Objective(Protocol):
    """A least-squares objective on columns of unknowns, with its derivatives."""

    @property
    def records(self) -> tuple[int, ...]:
        """The coordinate (record · dimension + place in it) of every unknown."""

    @property
    def unknowns(self) -> int: ...

    @property
    def exchangeable(self) -> bool:
        """Whether no answer depends on the order of the unknowns: only their multiset is identifiable."""

    @property
    def linear(self) -> bool: ...

    def __hash__(self) -> int: ...

    def whiten(self, columns: Sequence[Column]) -> list[Column]:
        """Answers divided by their noise."""

    def expected(self, u: Sequence[Column]) -> list[Column]:
        """The exact answers."""

    def local(self, u: Sequence[Column], whitened: Sequence[Column]) -> Local:
        """The objective, its gradient and its Hessian."""

    def information(self, u: Sequence[Column]) -> tuple[tuple[Column, ...], ...]:
        """The Fisher information, lower triangle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Rows over ``unknowns`` coordinates, whitened. ``whitening`` is lower triangular, or a diagonal."""

    rows: tuple[Row, ...]
    records: tuple[int, ...]  # the coordinate (record · dimension + place in it) of every unknown
    whitening: tuple[tuple[float, ...], ...] | tuple[float, ...]

    @property
    def unknowns(self) -> int:
        return len(self.records)

    @property
    def outputs(self) -> int:
        return len(self.rows)

    @property
    def exchangeable(self) -> bool:
        """Whether no answer depends on the order of the unknowns: only their multiset is identifiable."""
        return self.unknowns > 1 and all(len(set(row.weights)) == 1 for row in self.rows)

    @property
    def linear(self) -> bool:
        return all(isinstance(row.curve, Power) and row.curve.order == 1 for row in self.rows)

    def whiten(self, columns: Sequence[Column]) -> list[Column]:
        """Columns, one for each answer, divided by the noise."""
        if not isinstance(self.whitening[0], tuple):
            return [c * s for c, s in zip(columns, self.whitening, strict=True)]
        return [_combine(columns, line) for line in self.whitening]

    def _whiten_transposed(self, columns: Sequence[Column]) -> list[Column]:
        """The transpose of ``whiten``: Wᵀ times the columns."""
        if not isinstance(self.whitening[0], tuple):
            return [c * s for c, s in zip(columns, self.whitening, strict=True)]
        size = len(self.whitening)
        lines = [[self.whitening[i][k] if k <= i else 0.0 for i in range(size)] for k in range(size)]
        return [_combine(columns, line) for line in lines]

    def expected(self, u: Sequence[Column]) -> list[Column]:
        """The exact answers at the unknowns."""
        powers = [Powers(column) for column in u]
        answers = []
        for row in self.rows:
            terms = [row.curve.derivatives(u[k], powers[k])[0] for k in range(len(u)) if row.weights[k]]
            answers.append(_combine(terms, [a for a in row.weights if a]))
        return answers

    def local(self, u: Sequence[Column], whitened: Sequence[Column]) -> Local:
        r"""f, :math:`\nabla f` and :math:`\nabla^2 f` at columns of unknowns, for whitened answers."""
        m, zero = len(u), 0.0 * u[0]
        powers = [Powers(column) for column in u]
        answers: list[Column] = []
        slopes: list[list[Column]] = []
        curvatures: list[list[Column | None]] = []
        for row in self.rows:
            answer, slope, curvature = zero, [zero] * m, [None] * m
            for k, a in enumerate(row.weights):
                if a:
                    value, first, second = row.curve.derivatives(u[k], powers[k])
                    answer = answer + a * value
                    slope[k] = zero + a if first is None else a * first
                    curvature[k] = None if second is None else a * second
            answers.append(answer)
            slopes.append(slope)
            curvatures.append(curvature)
        residuals = [z - p for z, p in zip(whitened, self.whiten(answers), strict=True)]
        J = [self.whiten([slope[k] for slope in slopes]) for k in range(m)]
        weighted = self._whiten_transposed(residuals)
        gradient = tuple(-2.0 * _dot(residuals, J[k]) for k in range(m))
        hessian = []
        for k in range(m):
            line = [2.0 * _dot(J[k], J[j]) for j in range(k)]
            own = _dot(J[k], J[k])
            for v, curvature in zip(weighted, curvatures, strict=True):
                if curvature[k] is not None:
                    own = own - v * curvature[k]
            hessian.append((*line, 2.0 * own))
        return Local(_dot(residuals, residuals), gradient, tuple(hessian))

    def information(self, u: Sequence[Column]) -> tuple[tuple[Column, ...], ...]:
        r"""The Fisher information :math:`J^\top\Sigma^{-1}J` at columns of unknowns, lower triangle."""
        zero = 0.0 * u[0]
        powers = [Powers(column) for column in u]
        J = []
        for k, column in enumerate(u):
            slopes = []
            for row in self.rows:
                first = row.curve.derivatives(column, powers[k])[1]
                slopes.append(row.weights[k] * (1.0 if first is None else first) + zero)
            J.append(self.whiten(slopes))
        return tuple(tuple(_dot(J[k], J[j]) for j in range(k + 1)) for k in range(len(u)))


def columns_of(array: Any) -> list[Column]:
    """The columns of a (trials × numbers) array."""
    return [array[:, i] for i in range(array.shape[1])]


def stacked(columns: Sequence[Column]) -> Any:
    """Columns as one (trials × numbers) array."""
    return np.stack(columns, axis=1)


def _combine(columns: Sequence[Column], weights: Sequence[float]) -> Column:
    return total([c * a for c, a in zip(columns, weights, strict=False)])


def _dot(a: Sequence[Column], b: Sequence[Column]) -> Column:
    return total([x * y for x, y in zip(a, b, strict=True)])


def total(columns: Sequence[Column]) -> Column:
    """The sum of one or more columns."""
    return reduce(add, columns)


Column: TypeAlias = Any  # an array of trials; of JAX inside a program that JAX compiles
Box: TypeAlias = tuple[float, float]  # the smallest and the largest value that a record can have


Derivatives = tuple[Column, Column | None, Column | None]
"""Value, first and second derivative; ``None`` stands for a derivative that is 1 or 0 everywhere."""


class Curve(Protocol):
    """A function of one record's value."""

    def derivatives(self, u: Column, powers: Powers) -> Derivatives:
        """The curve and its first two derivatives at a column of values; ``powers`` are its powers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    r"""The feature :math:`\phi(u) = u^\ell` (``eq:poly_query_new``)."""

    order: int

    def derivatives(self, u: Column, powers: Powers) -> Derivatives:
        return powers.derivatives(self.order)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothStep:
    r"""The smooth step :math:`h_\tau(u - t)` (``eq:threshold_query``)."""

    at: float
    bandwidth: float
    kernel: Kernel

    def derivatives(self, u: Column, powers: Powers) -> Derivatives:
        return smooth_step_derivatives(
            u - self.at, bandwidth=self.bandwidth, kernel=self.kernel, xp=namespace(u)
        )
