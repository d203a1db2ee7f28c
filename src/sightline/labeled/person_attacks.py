r"""What the releases see of a person's block, and the best unbiased attacks on its identifiable features.

With :math:`A = FQ` (reduced coordinates), :math:`\Sigma^{-1/2}F = U \Lambda^{1/2} V^\top` and
:math:`Z = V^\top F^{+} B` for a person's columns :math:`B = [\sqrt{n_s}\,a_s]`, the posterior block under a
Gaussian prior of precision c is :math:`\tfrac1c(I - Z^\top \Lambda(\Lambda + c)^{-1} Z)`. A feature with the
unit direction q is identifiable iff :math:`\|Zq\| = 1`; the best unbiased attack on it has the mean squared
error :math:`q^\top Z^\top \Lambda^{-1} Z q` (``app:linear_blue_identity``).

**Errors.** What is computed is held against what it should satisfy: the columns of
:math:`[\Sigma^{-1/2}FV; \sqrt c\,V](\Lambda + c)^{-1/2}` should be orthonormal, and :math:`Z^\top Z q` should
be q for an identifiable direction. A deviation in the last, over the gap to the next eigenvalue, is how far
the direction is from one that is exactly identifiable: :math:`\delta` changes the root of the mean squared
error by at most :math:`\delta/\sqrt{\lambda_{\min}}`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.person_kinds import PersonKinds
from sightline.labeled.risk_forms import error_of_factor
from sightline.labeled.unknown_gram import UnknownRecordsGram
from sightline.numerics.decision import Evidence, Rank
from sightline.numerics.residuals import eigenvalues_at_most, gamma, orthonormality_error

_UNIT = float(np.finfo(np.float64).eps)
_INVISIBLE = 1e-100  # of the largest squared length
_MILD = 1e-10  # what a Gram matrix may cost, by an estimate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DirectionAttack:
    """The best unbiased attack on a unit direction of a person's block."""

    direction: FloatArray
    rmse: float
    recipe: FloatArray  # weights on the answers
    relative_error: float  # of the RMSE: a bound, infinite where the RMSE is only known to be at least this


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReducedView:
    """What the releases see, in the coordinates of the singular vectors of the whitened factor."""

    factor: FloatArray  # Σ^(-1/2) F, turned: the columns are orthogonal, of squared lengths Λ
    values: FloatArray  # Λ
    projection: FloatArray  # Vᵀ F⁺: takes a column to its coordinates
    coordinate_error: float  # a bound on the error of the coordinates of a unit direction
    form_errors: dict[float, float]  # for each precision c, of forms of (BᵀB + cI)⁻¹: relative bounds

    @classmethod
    def of(cls, gram: UnknownRecordsGram, rank: int, precisions: tuple[float, ...]) -> ReducedView:
        """For the whole design and the precisions that will be asked for."""
        factor = gram.factor(Rank(rank=rank, evidence=Evidence.MODULAR))
        B = gram.design.whiten(factor.factor)
        values, vectors = np.linalg.eigh(B.T @ B)
        largest, smallest = float(np.max(values, initial=0.0)), float(np.min(values, initial=np.inf))
        if 8 * len(B) * _UNIT * largest > _MILD * min(*precisions, smallest):
            _, roots, right = np.linalg.svd(B, full_matrices=False)
            values, vectors = roots**2, right.T
        # A direction that rounding makes invisible: its error is infinite, but its recipe must be finite.
        values = np.maximum(values, max(_INVISIBLE * largest, np.finfo(np.float64).tiny))
        least = float(np.min(values, initial=np.inf))
        turned = B @ vectors
        return cls(
            factor=turned,
            values=values,
            projection=vectors.T @ factor.coordinates(),
            coordinate_error=factor.coordinate_error + orthonormality_error(vectors) + gamma(2 * rank) * rank,
            form_errors={
                c: _deviation(turned, vectors, values, c)
                + 2 * error_of_factor(factor, gram.whitening, max(c, least))
                + 2 * gram.whitening_error
                for c in (0.0, *precisions)
            },
        )

    def coordinates(self, gram: UnknownRecordsGram, kinds: PersonKinds, entries: IndexArray) -> FloatArray:
        """Z of every kind of a batch: kinds × rank × columns."""
        columns = gram.design.incidence.columns(kinds.columns[entries.ravel()])
        columns *= np.sqrt(kinds.rows[entries.ravel()])
        Z = (self.projection @ columns).reshape(len(self.projection), *entries.shape)
        return np.ascontiguousarray(Z.transpose(1, 0, 2))

    def least_at_most(self, Z: FloatArray, precision: float) -> FloatArray:
        """At least the least eigenvalue of c times every posterior block: the risk in one direction."""
        weighted = Z * np.sqrt(self.values / (self.values + precision))[:, None]
        direction = np.linalg.eigh(weighted.transpose(0, 2, 1) @ weighted)[1][:, :, -1:]
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        seen = np.sum(np.square(weighted @ direction), axis=(1, 2))
        return np.asarray(np.clip(1 - seen, 0.0, 1.0) + self._block_error(precision, Z.shape[2]))

    def least_at_least(self, Z: FloatArray, precision: float) -> FloatArray:
        """At most the least eigenvalue of c times every posterior block."""
        weighted = Z * np.sqrt(self.values / (self.values + precision))[:, None]
        most = eigenvalues_at_most(weighted.transpose(0, 2, 1) @ weighted)
        return np.asarray(1 - most - self._block_error(precision, Z.shape[2]))

    def sharpest(
        self, gram: UnknownRecordsGram, Z: FloatArray, directions: int, precision: float
    ) -> tuple[DirectionAttack, float]:
        """The attack on the sharpest identifiable direction, and at least the least risk over c in one."""
        products = Z.T @ Z
        identifiable = np.linalg.eigh(products)[1][:, -directions:]
        apart = self._apart(products, identifiable)
        seen = Z @ identifiable
        scaled = seen / np.sqrt(self.values)[:, None]
        _, roots, right = np.linalg.svd(scaled, full_matrices=False)
        direction = identifiable @ right[-1]
        direction *= np.sign(direction[np.argmax(np.abs(direction))])
        direction /= np.linalg.norm(direction)
        hidden = identifiable @ np.linalg.eigh(seen.T @ (seen / (self.values + precision)[:, None]))[1][:, 0]
        root = float(np.linalg.norm((Z @ hidden) / np.sqrt(self.values + precision))) * math.sqrt(precision)
        square = (root + 2 * apart + self.coordinate_error) ** 2 * (1 + self.form_errors[precision])
        # No other identifiable direction is seen more sharply than to this error.
        others = _is_least(scaled, roots, right)
        attack = self.attack(gram, Z, direction, apart=apart, error=others)
        return attack, square if square < 1 else 1.0

    def attack(
        self,
        gram: UnknownRecordsGram,
        Z: FloatArray,
        direction: FloatArray,
        *,
        apart: float,
        error: float = 0.0,
    ) -> DirectionAttack:
        """The best unbiased attack on a direction that is ``apart`` from an identifiable one.

        ``error`` is what else the relative error of its RMSE includes.
        """
        seen = Z @ direction
        recipe = gram.design.law.recipe((self.factor @ (seen / self.values))[None])[0]
        rmse = float(np.linalg.norm(seen / np.sqrt(self.values)))
        least = math.sqrt(float(np.min(self.values)))
        error += (2 * apart + self.coordinate_error) / (least * rmse)
        error += self.form_errors[0.0] + gamma(len(seen) + 4)
        if not error < 1 / 4:
            # At least the error in the direction of most information, whose eigenvalue the trace bounds.
            rmse, error = 0.5 / math.sqrt(float(np.sum(self.values))), math.inf
        return DirectionAttack(direction=direction, rmse=rmse, recipe=recipe, relative_error=2 * error)

    def _apart(self, products: FloatArray, identifiable: FloatArray) -> float:
        r"""How far computed directions are from exactly identifiable ones: a bound.

        The exact products have the eigenvalue 1 on these, and at most :math:`\mu` on all others, so that
        :math:`|(P - I)q|` is at least :math:`1 - \mu` times the distance of q.
        """
        width = identifiable.shape[1]
        off = products @ identifiable - identifiable
        left = products - identifiable @ (identifiable.T @ products)
        left -= (left @ identifiable) @ identifiable.T
        rounding = self._product_error(len(products)) + orthonormality_error(identifiable)
        most = float(eigenvalues_at_most((left + left.T)[None] / 2)[0]) if width < len(products) else 0.0
        gap = 1 - max(most, 0.0) - 4 * rounding
        return (float(np.linalg.norm(off)) + 4 * rounding) / gap if gap > 0 else math.inf

    def _product_error(self, columns: int) -> float:
        """A bound on the error of products of coordinates of unit directions."""
        return 2 * self.coordinate_error * (1 + self.coordinate_error) + gamma(len(self.values)) * columns

    def _block_error(self, precision: float, columns: int) -> float:
        """A bound on the error of c times a posterior block."""
        error = self._product_error(columns) + self.form_errors[precision]
        return min(error, 1.0) if math.isfinite(error) else 1.0


def _is_least(matrix: FloatArray, roots: FloatArray, right: FloatArray) -> float:
    """A bound on how far, relatively, the last singular value is above the least one.

    The columns of M V S⁻¹ should be orthonormal, and so should those of V.
    """
    if not roots[-1] > 0:
        return math.inf
    off = orthonormality_error(matrix @ right.T / roots) + orthonormality_error(right)
    size = gamma(len(roots) + 2) * float(np.linalg.norm(matrix)) * math.sqrt(len(roots)) / float(roots[-1])
    off += size * (2 + size)
    return 2 * off if off < 1 / 4 else math.inf


def _deviation(turned: FloatArray, vectors: FloatArray, values: FloatArray, precision: float) -> float:
    """A bound on the relative error of forms of the computed inverse of BᵀB + cI, from BV, V and Λ."""
    root = 1 / np.sqrt(values + precision)
    W = np.concatenate([turned, math.sqrt(precision) * vectors]) * root
    count = len(values)
    size = 1.01 * float(np.linalg.norm(turned)) * float(np.max(root, initial=0.0))
    rounding, off = gamma(count + 4) * math.sqrt(count) * (size + 1), orthonormality_error(W)
    deviation = off + rounding * (2 * math.sqrt(1 + off) + rounding)
    return deviation if math.isfinite(deviation) else math.inf
