r"""The profiled information in the paper's three forms, each computed its own way.

*Projector* (``eq:Ieff_projector``): Householder reflections turn the nuisance away and what is left of the
target is squared; this is what :class:`~sightline.geometry.exposure.Exposure` uses. *Schur*
(``eq:Ieff_def``): the Schur complement of :math:`R^\top R` is :math:`R_{\theta\theta}^\top R_{\theta\theta}`, from the
triangle of target and nuisance together. *Variational* (``eq:ieff_variational``): the minimum over :math:`V`
of the information along :math:`\theta - V\eta`, in ball arithmetic of as many bits as it takes, since in double
precision no :math:`V` is exact enough to be the minimiser when noise levels lie far apart.
"""

from __future__ import annotations

from enum import Enum
from typing import assert_never

import flint
import numpy as np
from scipy.linalg import qr

from sightline.arrays import FloatArray
from sightline.geometry.exposure import Exposure

_FIRST_BITS, _LAST_BITS = 128, 4096


class Form(Enum):
    """A way of writing the profiled information."""

    PROJECTOR = "projector"
    SCHUR = "schur"
    VARIATIONAL = "variational"


def profiled_information(exposure: Exposure, form: Form) -> FloatArray:
    """The profiled information of an exposure's target, by the chosen form.

    >>> from sightline.geometry.fisher import Geometry
    >>> from sightline.geometry.noise import GaussianNoise
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
            return _schur(target, nuisance)
        case Form.VARIATIONAL:
            return _variational(target, nuisance)
        case _:
            assert_never(form)


def _schur(target: FloatArray, nuisance: FloatArray) -> FloatArray:
    together = np.hstack([nuisance, target])
    rows = np.argsort(-np.max(np.abs(together), axis=1), kind="stable")
    (triangle,) = qr(together[rows], mode="r", check_finite=False)
    corner = triangle[nuisance.shape[1] :, nuisance.shape[1] :]
    gram: FloatArray = corner.T @ corner
    return gram


def _variational(target: FloatArray, nuisance: FloatArray) -> FloatArray:
    bits = _FIRST_BITS
    while True:
        with flint.ctx.workprec(bits):
            minimum = _minimum(target, nuisance)
            if minimum is not None:
                entries = [minimum[i, j] for i in range(target.shape[1]) for j in range(target.shape[1])]
                if bits >= _LAST_BITS or all(entry.rel_accuracy_bits() >= 53 for entry in entries):
                    return np.array([float(entry) for entry in entries]).reshape(2 * (target.shape[1],))
        bits *= 2


def _minimum(target: FloatArray, nuisance: FloatArray) -> flint.arb_mat | None:
    """``Q(V)`` at the ball-arithmetic solution of the normal equations; ``None`` if not certified solvable."""
    J_theta, J_eta = flint.arb_mat(target.tolist()), flint.arb_mat(nuisance.tolist())
    A = J_theta.transpose() * J_theta
    if nuisance.shape[1] == 0:
        return A
    B, C = J_eta.transpose() * J_eta, J_theta.transpose() * J_eta
    try:
        V = B.solve(C.transpose())
    except ZeroDivisionError:
        return None
    CV = C * V
    return A - CV - CV.transpose() + V.transpose() * B * V
