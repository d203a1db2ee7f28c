r"""Limits on attacks, as concave constraints on the noise variances.

Let s be the variances of the published numbers, :math:`a` a record's column, and :math:`\tau_k` the variance
that record k adds to a recipe. With :math:`M = \operatorname{diag}(s) + \sum_k \tau_k a_k a_k^\top`,

.. math:: \varphi_j(s) = \frac{1}{a_j^\top M^{-1} a_j} - \tau_j = \min_{a_j^\top h = 1}\;
    \sum_\ell h_\ell^2 s_\ell + \sum_{k \ne j} \tau_k (a_k^\top h)^2

is the least error variance of a recipe h: its own noise, and what the other records add. It is a minimum of
functions that are linear in s, so it is concave, and its gradient is :math:`h \circ h` at the best recipe
:math:`h = M^{-1} a / a^\top M^{-1} a`. A limit says :math:`\varphi(s) \ge \kappa`. For :math:`\tau = 0` all
other records are known and :math:`\varphi = 1/G_{jj}`. Derivations: the theory page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.sparse import csc_array, diags_array

from sightline.arrays import FloatArray, IndexArray
from sightline.numerics.inverse import positive_inverse


class RiskAt(Protocol):
    """The constraints of one kind at some variances."""

    @property
    def phi(self) -> FloatArray:
        """The value of each constraint."""

    @property
    def recipes(self) -> FloatArray | csc_array:
        """The best recipe of each, a column for each: rows × constraints."""

    @property
    def inverse_phi(self) -> FloatArray:
        r""":math:`a^\top M^{-1} a` of each, which is :math:`1/(\varphi + \tau)`."""

    def curvature(self, prices: FloatArray, rows: IndexArray) -> FloatArray:
        r"""The matrix :math:`2 M^{-1} \circ (H \Lambda H^\top)` on some rows."""


class Risks(Protocol):
    """Constraints of one kind: the records' columns, and the least value that each must have."""

    @property
    def columns(self) -> csc_array: ...

    @property
    def needed(self) -> FloatArray: ...

    def at(self, variances: FloatArray) -> RiskAt:
        """The constraints at some variances."""

    def offsets(self, recipes: FloatArray | csc_array) -> FloatArray:
        r"""The right-hand sides of the cuts :math:`\sum h^2 s \ge b` that any recipes make."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HiddenRisks:
    """The attacker knows no other record: each adds to the noise."""

    columns: csc_array
    needed: FloatArray
    tau: FloatArray  # of each of these records
    products: FloatArray  # Σ τ a aᵀ over all records that the attacker does not know

    def at(self, variances: FloatArray) -> HiddenAt:
        inverse = inverse_of_sum(self.products, variances)
        images = np.asfortranarray((self.columns.T @ inverse).T)
        inverse_phi = np.asarray(self.columns.multiply(images).sum(axis=0)).ravel()
        images /= inverse_phi
        return HiddenAt(
            phi=1 / inverse_phi - self.tau, recipes=images, inverse_phi=inverse_phi, inverse=inverse
        )

    def offsets(self, recipes: FloatArray | csc_array) -> FloatArray:
        H = np.asarray(recipes)
        share = np.asarray(self.columns.multiply(H).sum(axis=0)).ravel()
        everyone = np.einsum("lj,lj->j", H, self.products @ H)
        found: FloatArray = (self.needed + self.tau) * share**2 - everyone
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HiddenAt:
    """Constraints against an attacker who knows no other record, at some variances."""

    phi: FloatArray
    recipes: FloatArray
    inverse_phi: FloatArray
    inverse: FloatArray

    def curvature(self, prices: FloatArray, rows: IndexArray) -> FloatArray:
        H = self.recipes[rows]
        found: FloatArray = (H * prices) @ H.T
        found *= self.inverse[np.ix_(rows, rows)]
        found *= 2
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownRisks:
    r"""The attacker knows all other records: :math:`\varphi = 1/\sum_\ell a_\ell^2/s_\ell`."""

    columns: csc_array
    needed: FloatArray

    def at(self, variances: FloatArray) -> KnownAt:
        images = csc_array(diags_array(1 / variances) @ self.columns)
        inverse_phi = np.asarray(self.columns.multiply(images).sum(axis=0)).ravel()
        return KnownAt(
            phi=1 / inverse_phi,
            recipes=csc_array(images @ diags_array(1 / inverse_phi)),
            inverse_phi=inverse_phi,
            variances=variances,
        )

    def offsets(self, recipes: FloatArray | csc_array) -> FloatArray:
        share = np.asarray(self.columns.multiply(recipes).sum(axis=0)).ravel()
        found: FloatArray = self.needed * share**2
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownAt:
    """Constraints against an attacker who knows all other records, at some variances."""

    phi: FloatArray
    recipes: csc_array
    inverse_phi: FloatArray
    variances: FloatArray

    def curvature(self, prices: FloatArray, rows: IndexArray) -> FloatArray:
        diagonal = 2 * (self.recipes.power(2) @ prices) / self.variances
        found: FloatArray = np.diag(diagonal[rows])
        return found


def inverse_of_sum(products: FloatArray, variances: FloatArray) -> FloatArray:
    """The inverse of products of rows plus a diagonal of variances, scaled to a unit diagonal first."""
    matrix = products.copy()
    matrix[np.diag_indices_from(matrix)] += variances
    unit = 1 / np.sqrt(np.diagonal(matrix))
    matrix *= unit
    matrix *= unit[:, None]
    inverse = positive_inverse(matrix)
    if inverse is None:
        raise ArithmeticError("the noise is too small beside the records for a factorisation")
    inverse *= unit
    inverse *= unit[:, None]
    return inverse


def squared(recipes: FloatArray | csc_array) -> FloatArray | csc_array:
    """The squares of the weights, which are the derivatives of the constraints by the variances."""
    return recipes**2 if isinstance(recipes, np.ndarray) else recipes.power(2)
