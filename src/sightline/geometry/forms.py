r"""The profiled information in the paper's three forms (``app:projector_variational``).

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

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

import numpy as np
from flint import arb_mat
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve

from sightline.arrays import FloatArray
from sightline.errors import InvalidNoise, require
from sightline.geometry.exposure import Exposure
from sightline.noise.laws import CorrelatedNoise
from sightline.numerics.balls import evaluate_matrix
from sightline.numerics.decision import Decision


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
