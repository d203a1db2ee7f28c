r"""The geometry of a transcript at an operating point: ranks, directions and the exposure of a target.

The profiled information in the paper's three forms (``app:projector_variational``).

*Projector* (``eq:Ieff_projector``): Householder reflections project the target off the nuisance, and the
residual is squared, in double precision; :class:`~sightline.geometry.exposure.Exposure` uses this form. The
other two need the Gram matrix, where double precision loses half its digits, so they are computed in ball
arithmetic with enough bits. *Schur* (``eq:Ieff_def``): :math:`A - C B^{-1} C^\top`.
*Variational* (``eq:ieff_variational``): the least information :math:`Q(V)` along :math:`\theta - V\eta`,
evaluated at a minimiser :math:`V` that is rounded to finitely many bits.

Vector records by the Kronecker lift (``app:block_jacobians``): one scalar profile is enough.

If every release is linear and has the same weights in all :math:`p` coordinates of a record, the rows are
:math:`A \otimes I_p`, and with noise :math:`\Sigma \otimes \Sigma_0` the profiled information is that of one
coordinate times :math:`\Sigma_0^{-1}`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import assert_never

import numpy as np
from flint import arb_mat
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve

from sightline.arrays import FloatArray, IndexArray, coordinates, frozen_floats, frozen_index
from sightline.errors import InvalidNoise, require
from sightline.geometry.exposure import Direction, Exposure
from sightline.geometry.frame import Frame, WhitenedRows, dense, kinds
from sightline.geometry.profile import Question, profile
from sightline.noise.laws import CorrelatedNoise
from sightline.numerics import integers as exact
from sightline.numerics.balls import evaluate_matrix
from sightline.numerics.rank import Decision, Evidence, Rank, balance, numerical_rank


@dataclass(frozen=True, kw_only=True, eq=False)
class Geometry(WhitenedRows):
    """What the rows of a transcript reveal (``subsec:fim_crb``).

    Build it with :meth:`Transcript.geometry`, or directly from rows:

    >>> from sightline import GaussianNoise
    >>> rows = np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    >>> geometry = Geometry(jacobian=rows, noise=GaussianNoise(stddevs=[3.0, 4.0]))
    >>> exposure = geometry.profile(target=0)
    >>> bool(exposure.identifiable), round(exposure.rmse, 12)
    (True, 5.0)
    >>> exposure.recipe.round(12).tolist()
    [[1.0, -1.0]]
    >>> geometry.profile(target=1).crb
    inf
    """

    @cached_property
    def rank(self) -> Rank:
        """How many directions of the records the transcript reveals at all."""
        return self._rank_of(slice(None))

    @property
    def static(self) -> bool:
        """Whether later releases only repeat the first (``eq:J_column_static``).

        Then they reveal the same directions more precisely, and no other.
        """
        if self.first_outputs == self.jacobian.shape[0] or not self.rank.decided:
            return False
        return self._rank_of(slice(0, self.first_outputs)).rank == self.rank.rank

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """Independent combinations of the records that span everything the transcript reveals."""
        return self.profile(target=range(self.records)).directions

    def profile(
        self,
        target: int | Sequence[int] | None = None,
        *,
        functional: ArrayLike | None = None,
        known: Sequence[int] = (),
    ) -> Exposure:
        """The exposure of some records, or of linear functionals of them, with all other records as nuisance.

        ``target`` names records by position; ``functional`` gives rows of coefficients over all coordinates.
        The attacker knows the ``known`` records, so they are not nuisance.
        """
        require(
            (target is None) != (functional is None),
            "either a target or a functional",
            got="both" if target is not None else "neither",
        )
        known_columns = self._columns_of(known, name="known") if len(known) else np.zeros(0, dtype=np.intp)
        if functional is None:
            chosen = [target] if isinstance(target, int | np.integer) else list(target or ())
            support = self._columns_of(chosen, name="target")
            coefficients: FloatArray | None = None
            labels = tuple(self.label(column) for column in support)
        else:
            support, coefficients = self._functional(functional)
            labels = tuple(f"f{row}" for row in range(len(coefficients))) if len(coefficients) > 1 else ("f",)
        overlap = np.intersect1d(support, known_columns)
        require(
            overlap.size == 0,
            "a target that the attacker does not know already",
            got=f"known record {int(overlap[0]) // self.dimension if overlap.size else None} in the target",
            fix="take it out of the known records",
        )
        frame = self._frame(support, coefficients, known_columns)
        profiled = profile(Question(frame=frame, rows=self))
        return Exposure(geometry=self, frame=frame, labels=labels, profile=profiled)

    def _rank_of(self, lines: slice) -> Rank:
        distinct, _ = kinds(self.pattern, np.arange(self.jacobian.shape[1], dtype=np.intp))
        if self.integer_rows is not None:
            return Rank(
                rank=exact.rank(dense(self.integer_rows[lines][:, distinct])), evidence=Evidence.MODULAR
            )
        decision, _ = numerical_rank(balance(dense(self.jacobian[lines][:, distinct]))[0])
        return decision

    def _frame(self, support: IndexArray, coefficients: FloatArray | None, known: IndexArray) -> Frame:
        excluded = np.zeros(self.jacobian.shape[1], dtype=bool)
        excluded[support] = True
        excluded[known] = True
        others = np.flatnonzero(~excluded)
        representatives, place = kinds(self.pattern, others)
        return Frame(
            support=support,
            others=others,
            representatives=representatives,
            place=place,
            coefficients=coefficients,
        )

    def _columns_of(self, records: Sequence[int], *, name: str) -> IndexArray:
        chosen = frozen_index(records, name=name)
        require(
            int(chosen[-1]) < self.records,
            f"{name} among records 0 to {self.records - 1}",
            got=int(chosen[-1]),
        )
        return coordinates(chosen, self.dimension)

    def _functional(self, functional: ArrayLike) -> tuple[IndexArray, FloatArray]:
        rows = np.atleast_2d(frozen_floats(functional, name="functional"))
        columns = self.jacobian.shape[1]
        require(
            rows.shape[1] == columns, f"a functional of {columns} coefficients", got=f"shape {rows.shape}"
        )
        support = np.flatnonzero(np.any(rows != 0, axis=0))
        independent = support.size and numerical_rank(balance(rows[:, support].T)[0])[0].rank == len(rows)
        require(bool(independent), "independent, non-zero functionals", got="dependent ones")
        return support, rows[:, support]


class Form(Enum):
    """A way of writing the profiled information."""

    PROJECTOR = "projector"
    SCHUR = "schur"
    VARIATIONAL = "variational"


def profiled_information(exposure: Exposure, form: Form) -> FloatArray:
    """The profiled information of an exposure's target, by the chosen form.

    >>> import numpy as np
    >>> from sightline import GaussianNoise
    >>> from sightline.geometry.fisher import Geometry
    >>> rows = np.array([[1.0, 1.0], [0.0, 1.0]])
    >>> exposure = Geometry(jacobian=rows, noise=GaussianNoise(stddevs=[1.0, 1.0])).profile(target=0)
    >>> [round(float(profiled_information(exposure, form)[0, 0]), 12) for form in Form]
    [0.5, 0.5, 0.5]
    """
    whitened = exposure.geometry.whitened
    target = exposure.frame.target(whitened)
    projection = exposure.profile.projection
    nuisance = exposure.frame.nuisance(whitened)[:, exposure.profile.basis][:, projection.order]
    match form:
        case Form.PROJECTOR:
            return projection.information
        case Form.SCHUR:
            return _enclosed(_schur, target, nuisance)
        case Form.VARIATIONAL:
            return _enclosed(_variational, target, nuisance)
        case _:
            assert_never(form)


def _enclosed(
    form: Callable[[arb_mat, arb_mat, arb_mat], arb_mat], target: FloatArray, nuisance: FloatArray
) -> FloatArray:
    """A form of the Gram blocks A, B and C, correct to the last digit of a double."""

    def entries() -> arb_mat:
        J_theta, J_eta = arb_mat(target.tolist()), arb_mat(nuisance.tolist())
        A, B, C = J_theta.transpose() * J_theta, J_eta.transpose() * J_eta, J_theta.transpose() * J_eta
        return form(A, B, C) if nuisance.shape[1] else A

    return evaluate_matrix(entries)


def _schur(A: arb_mat, B: arb_mat, C: arb_mat) -> arb_mat:
    return A - C * B.inv() * C.transpose()


def _variational(A: arb_mat, B: arb_mat, C: arb_mat) -> arb_mat:
    V = B.solve(C.transpose()).mid()
    CV = C * V
    return A - CV - CV.transpose() + V.transpose() * B * V


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiftedExposure:
    """The exposure of vector records. In the matrices, the coordinates of one record are adjacent."""

    identifiable: Decision
    information: FloatArray
    covariance: FloatArray

    @property
    def crb(self) -> float:
        """Trace of the bound over all coordinates."""
        return float(np.trace(self.covariance))


def lift(exposure: Exposure, coordinate_covariance: ArrayLike) -> LiftedExposure:
    r"""Lift a scalar exposure to records of :math:`p` coordinates with noise :math:`\Sigma_0` across them.

    The identity is the paper's isotropic case, in which the bound is :math:`p` times the scalar one.

    >>> from sightline import GaussianNoise
    >>> from sightline.geometry.fisher import Geometry
    >>> rows = np.array([[1.0, 1.0], [0.0, 1.0]])
    >>> scalar = Geometry(jacobian=rows, noise=GaussianNoise(stddevs=[3.0, 4.0])).profile(target=0)
    >>> round(scalar.crb, 9), round(lift(scalar, np.eye(3)).crb, 9)
    (25.0, 75.0)
    """
    noise = CorrelatedNoise(blocks=(np.asarray(coordinate_covariance),))
    require(
        not noise.singular,
        "a covariance of the coordinates that can be inverted",
        got="a singular one",
        error=InvalidNoise,
    )
    sigma = noise.blocks[0]
    inverse = cho_solve(cho_factor(sigma), np.eye(len(sigma)))
    covariance: FloatArray = np.full(2 * (len(exposure.labels) * len(sigma),), exposure.crb)
    if exposure.identifiable is Decision.YES:
        covariance = np.kron(exposure.covariance, sigma).astype(np.float64)
    return LiftedExposure(
        identifiable=exposure.identifiable,
        information=np.kron(exposure.information, inverse).astype(np.float64),
        covariance=covariance,
    )
