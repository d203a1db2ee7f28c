r"""The profiled information in the paper's three forms (``app:projector_variational``).

*Projector* (``eq:Ieff_projector``): Householder reflections project the target off the nuisance, and the
residual is squared, in double precision; :class:`~sightline.geometry.exposure.Exposure` uses this form. The
other two need the Gram matrix, where double precision loses half its digits, so they are computed in ball
arithmetic with enough bits. *Schur* (``eq:Ieff_def``): :math:`A - C B^{-1} C^\top`.
*Variational* (``eq:ieff_variational``): the least information :math:`Q(V)` along :math:`\theta - V\eta`,
evaluated at a minimiser :math:`V` that is rounded to finitely many bits.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import assert_never

from flint import arb_mat

from sightline.arrays import FloatArray
from sightline.geometry.exposure import Exposure
from sightline.numerics.balls import evaluate_matrix


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
