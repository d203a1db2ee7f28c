r"""Vector records by the Kronecker lift (``app:block_jacobians``): one scalar profile is enough.

If every release is linear and has the same weights in all :math:`p` coordinates of a record, the rows are
:math:`A \otimes I_p`, and with noise :math:`\Sigma \otimes \Sigma_0` the profiled information is that of one
coordinate times :math:`\Sigma_0^{-1}`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve

from sightline.arrays import FloatArray
from sightline.errors import InvalidNoise, require
from sightline.geometry.exposure import Exposure
from sightline.noise.laws import CorrelatedNoise
from sightline.numerics.decision import Decision


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
