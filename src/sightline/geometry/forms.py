r"""The profiled information in the paper's three forms, each computed its own way.

*Projector* (``eq:Ieff_projector``): Householder reflections turn the nuisance away and what is left of the
target is squared, in double precision; this is what :class:`~sightline.geometry.exposure.Exposure` uses. The
other two go through the Gram matrix, where double precision loses half its digits, and so they are computed
in ball arithmetic with as many bits as it takes. *Schur* (``eq:Ieff_def``): :math:`A - C B^{-1} C^\top`.
*Variational* (``eq:ieff_variational``): the least information :math:`Q(V)` along :math:`\theta - V\eta`,
evaluated at a :math:`V` rounded to finitely many bits, so that it is attained and not only approached.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, assert_never

import flint
import numpy as np

from sightline.arrays import FloatArray
from sightline.geometry.exposure import Exposure

Balls = Any  # flint.arb_mat

_FIRST_BITS, _LAST_BITS = 128, 4096


class Form(Enum):
    """A way of writing the profiled information."""

    PROJECTOR = "projector"
    SCHUR = "schur"
    VARIATIONAL = "variational"


def profiled_information(exposure: Exposure, form: Form) -> FloatArray:
    """The profiled information of an exposure's target, by the chosen form.

    >>> from sightline.geometry.fisher import Geometry
    >>> from sightline.noise.laws import GaussianNoise
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
    form: Callable[[Balls, Balls, Balls], Balls], target: FloatArray, nuisance: FloatArray
) -> FloatArray:
    """A form of the Gram blocks A, B and C, with bits doubled until every entry has 53 of them right."""
    width = target.shape[1]
    bits = _FIRST_BITS
    while True:
        with flint.ctx.workprec(bits):
            J_theta, J_eta = flint.arb_mat(target.tolist()), flint.arb_mat(nuisance.tolist())
            A, B, C = J_theta.transpose() * J_theta, J_eta.transpose() * J_eta, J_theta.transpose() * J_eta
            try:
                entries = (form(A, B, C) if nuisance.shape[1] else A).entries()
            except ZeroDivisionError:  # not certified invertible at this precision
                entries = []
            sharp = entries and all(entry.rel_accuracy_bits() >= 53 for entry in entries)
            if sharp or (entries and bits >= _LAST_BITS):
                return np.array([float(entry) for entry in entries]).reshape(width, width)
        bits *= 2


def _schur(A: Balls, B: Balls, C: Balls) -> Balls:
    return A - C * B.inv() * C.transpose()


def _variational(A: Balls, B: Balls, C: Balls) -> Balls:
    V = B.solve(C.transpose()).mid()
    CV = C * V
    return A - CV - CV.transpose() + V.transpose() * B * V
