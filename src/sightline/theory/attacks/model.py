r"""The model that a batched attack fits: answers are weighted sums of curves of the records' values.

.. math:: y_\ell = \sum_k a_{\ell k}\,\phi_\ell(u_k) + w_\ell, \qquad
          f(u) = (y - p(u))^\top \Sigma^{-1} (y - p(u))

Subset means and sums, weighted sums, moments and smooth thresholds are all of this form, over the same or
over different members. Every summand depends on one record, so the second derivatives of :math:`p_\ell` are
diagonal, and Newton's method costs little more than Gauss–Newton.

Trials are the last axis of every array: unknowns × trials, answers × trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from sightline.arrays import FloatArray, IndexArray, coordinates
from sightline.errors import InvalidInput, InvalidNoise
from sightline.noise.laws import GaussianNoise, Noise
from sightline.privacy.law import Law
from sightline.theory.geometry.transcript import Transcript
from sightline.theory.releases.features import (
    Kernel,
    Moment,
    Powers,
    SmoothThreshold,
    smooth_step_derivatives,
)
from sightline.theory.releases.query import Query

Box: TypeAlias = tuple[float, float]  # the smallest and the largest value that a record can have


class Local(NamedTuple):
    """The objective at a point of every trial, with its gradient and Hessian."""

    objective: FloatArray
    gradient: FloatArray
    hessian: FloatArray  # unknowns × unknowns × trials


class Curve(Protocol):
    """A function of one record's value."""

    def derivatives(self, u: FloatArray, powers: Powers) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The curve and its first two derivatives at values; ``powers`` are their powers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    r"""The feature :math:`\phi(u) = u^\ell` (``eq:poly_query_new``)."""

    order: int

    def derivatives(self, u: FloatArray, powers: Powers) -> tuple[FloatArray, FloatArray, FloatArray]:
        return powers.derivatives(self.order)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothStep:
    r"""The smooth step :math:`h_\tau(u - t)` (``eq:threshold_query``)."""

    at: float
    bandwidth: float
    kernel: Kernel

    def derivatives(self, u: FloatArray, powers: Powers) -> tuple[FloatArray, FloatArray, FloatArray]:
        return smooth_step_derivatives(u - self.at, bandwidth=self.bandwidth, kernel=self.kernel)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """One published number: a curve, and its weight for every unknown (0 for a record outside)."""

    curve: Curve
    weights: FloatArray

    @property
    def symmetric(self) -> bool:
        """Whether the number does not depend on the order of the unknowns."""
        return bool(np.all(self.weights == self.weights[0]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """Rows over ``unknowns`` coordinates, whitened. ``whitening`` is a matrix, or its diagonal."""

    rows: tuple[Row, ...]
    records: tuple[int, ...]  # the coordinate (record · dimension + place in it) of every unknown
    whitening: FloatArray

    @property
    def unknowns(self) -> int:
        return len(self.records)

    @property
    def outputs(self) -> int:
        return len(self.rows)

    @property
    def exchangeable(self) -> bool:
        """Whether no answer depends on the order of the unknowns: only their multiset is identifiable."""
        return self.unknowns > 1 and all(row.symmetric for row in self.rows)

    @property
    def linear(self) -> bool:
        return all(isinstance(row.curve, Power) and row.curve.order == 1 for row in self.rows)

    def whiten(self, answers: FloatArray) -> FloatArray:
        """Answers, along the first axis, divided by the noise."""
        if self.whitening.ndim == 1:
            return np.asarray(answers * self.whitening.reshape(-1, *[1] * (np.ndim(answers) - 1)))
        return np.tensordot(self.whitening, answers, axes=1)

    def expected(self, u: FloatArray) -> FloatArray:
        """The exact answers at the unknowns."""
        powers, curves = Powers(u), {row.curve for row in self.rows}  # all linear releases have the same
        values = {curve: curve.derivatives(u, powers)[0] for curve in curves}
        return np.stack([row.weights @ values[row.curve] for row in self.rows])

    def local(self, u: FloatArray, whitened: FloatArray) -> Local:
        r"""f, :math:`\nabla f` and :math:`\nabla^2 f` at unknowns, for whitened answers."""
        answers, slopes, bends = self._derivatives(u)
        residuals = whitened - self.whiten(answers)
        J = self.whiten(slopes)
        hessian = np.einsum("lkn,ljn->kjn", J, J)
        weighted = self.whiten(residuals) if self.whitening.ndim == 1 else self.whitening.T @ residuals
        each = np.arange(len(u))
        hessian[each, each] -= np.einsum("ln,lkn->kn", weighted, bends)
        gradient = -2.0 * np.einsum("ln,lkn->kn", residuals, J)
        return Local(np.einsum("ln,ln->n", residuals, residuals), gradient, 2.0 * hessian)

    def information(self, u: FloatArray) -> FloatArray:
        r"""The Fisher information :math:`J^\top\Sigma^{-1}J` at unknowns."""
        J = self.whiten(self._derivatives(u)[1])
        return np.asarray(np.einsum("lkn,ljn->kjn", J, J))

    def _derivatives(self, u: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The answers, and their first and second derivatives by each unknown."""
        powers, answers = Powers(u), np.empty((self.outputs, u.shape[1]))
        slopes, bends = np.empty((2, self.outputs, *u.shape))
        for place, row in enumerate(self.rows):
            value, slope, bend = row.curve.derivatives(u, powers)
            answers[place] = row.weights @ value
            slopes[place] = row.weights[:, None] * slope
            bends[place] = row.weights[:, None] * bend
        return answers, slopes, bends


def model_of(queries: Sequence[Query], noise: Noise) -> Model:
    """The model of releases with Gaussian noise, over every coordinate that some release depends on."""
    cells = tuple(cell for query in queries for cell in query.cells)
    unknowns = np.unique(np.concatenate([coordinates(cell.members, cell.dimension) for cell in cells]))
    rows = [row for cell in cells for row in _rows_of(cell, unknowns)]
    return Model(rows=tuple(rows), records=tuple(unknowns.tolist()), whitening=_whitening(noise))


def _rows_of(query: Query, unknowns: IndexArray) -> list[Row]:
    places = np.searchsorted(unknowns, coordinates(query.members, query.dimension))
    if query.linear:
        jacobian = query.jacobian(None).reshape(query.outputs, -1)
        return [Row(curve=Power(order=1), weights=_spread(line, places, unknowns.size)) for line in jacobian]
    match query:
        case Moment():
            curve: Curve = Power(order=query.order)
        case SmoothThreshold():
            curve = SmoothStep(at=query.at, bandwidth=query.bandwidth, kernel=query.kernel)
        case _:
            raise InvalidInput(
                "expected linear releases, moments and smooth thresholds, got "
                f"{type(query).__name__}; an attack on others is yours to write"
            )
    share = np.full(len(places), 1.0 / len(query.members))
    return [Row(curve=curve, weights=_spread(share, places, unknowns.size))]


def _spread(line: FloatArray, places: IndexArray, size: int) -> FloatArray:
    weights = np.zeros(size)
    weights[places] = line
    return weights


def _whitening(noise: Noise) -> FloatArray:
    if noise.law is not Law.GAUSSIAN:
        raise InvalidNoise(
            "expected Gaussian noise, for which least squares is maximum likelihood, got "
            f"{noise.law.value.title()} noise"
        )
    return noise.whitener if noise.correlated else 1.0 / noise.scales


def touched(transcript: Transcript) -> tuple[int, ...]:
    """Positions (record · dimension + place in it) of all coordinates that some release depends on."""
    members = np.unique(np.concatenate([query.members for query in transcript.queries]))
    return tuple(coordinates(members, transcript.dimension).tolist())


def exact_answers(transcript: Transcript, records: FloatArray) -> FloatArray:
    """The exact answers (draws × outputs) at many sets of records (draws × records · dimension)."""
    try:
        model = model_of(transcript.queries, GaussianNoise(stddevs=np.ones(transcript.outputs)))
    except InvalidInput:  # no sums of curves
        p = transcript.dimension
        return np.stack([transcript.answers(draw.reshape(-1, p)) for draw in records])
    return model.expected(records[:, list(model.records)].T).T
