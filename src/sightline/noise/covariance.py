r"""A square root of a covariance matrix, which may be singular.

A pivoted Cholesky factorisation of the correlations finds answers :math:`P` whose noise is independent
(:math:`\Sigma_{PP} = C C^\top`) and answers :math:`D` whose noise the others determine,
:math:`w_D = T w_P` with :math:`T = \Sigma_{DP}\Sigma_{PP}^{-1}`.
"""

from __future__ import annotations

import numpy as np
import scipy

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidNoise, require
from sightline.numerics.rank import missing, present
from sightline.numerics.residuals import UNIT
from sightline.values import frozen


@frozen
class Factor:
    """The factors of one covariance block."""

    independent: IndexArray  # P, in the order of the answers
    root: FloatArray  # C, lower triangular
    determined: IndexArray  # D
    dependence: FloatArray  # T
    smallest: float  # smallest pivot of the correlations: the smallest share of noise that is an answer's own

    @property
    def outputs(self) -> int:
        return self.independent.size + self.determined.size

    @property
    def relative_error(self) -> float:
        """Bound on the relative error of the whitened rows from rounding."""
        return 4 * self.outputs**2 * UNIT / self.smallest

    def whiten(self, rows: FloatArray) -> FloatArray:
        """``W @ rows``: zero rows for the answers that others determine."""
        whitened = np.zeros(rows.shape)
        whitened[self.independent] = scipy.linalg.solve_triangular(
            self.root, rows[self.independent], lower=True
        )
        return whitened

    def recipe(self, whitened: FloatArray) -> FloatArray:
        """``W.T @ whitened``."""
        weights = np.zeros(whitened.shape)
        weights[self.independent] = scipy.linalg.solve_triangular(
            self.root, whitened[self.independent], lower=True, trans="T"
        )
        return weights

    def color(self, white: FloatArray) -> FloatArray:
        """Noise with this covariance from independent standard normal numbers."""
        noise = np.empty(white.shape)
        noise[self.independent] = self.root @ white[self.independent]
        noise[self.determined] = self.dependence @ noise[self.independent]
        return noise

    def noise_free(self, rows: FloatArray) -> FloatArray:
        """Lines of weights: combinations without noise that depend on the rows by more than rounding."""
        T, inside, outside = self.dependence, rows[self.independent], rows[self.determined]
        # Coefficients have errors relative to the ratios of the noises: one that should be zero is not.
        lengths = np.linalg.norm(self.root, axis=1)
        ratios = np.linalg.norm(T @ self.root, axis=1)[:, None] / lengths
        size = np.abs(outside) + (np.abs(T) + ratios) @ np.abs(inside)
        depends = np.abs(outside - T @ inside) > missing(self.outputs) / self.smallest * size
        exposed = np.flatnonzero(depends.any(axis=1))
        weights = np.zeros((exposed.size, self.outputs))
        weights[:, self.independent] = -T[exposed]
        weights[np.arange(exposed.size), self.determined[exposed]] = 1.0
        weights[np.abs(weights) < 1e-12] = 0.0
        return weights


def factorise(block: FloatArray) -> Factor:
    """Factorise a covariance matrix, or raise if the block is not one."""
    require(
        block.shape[0] == block.shape[1] > 0,
        "a square covariance",
        got=f"shape {block.shape}",
        error=InvalidNoise,
    )
    skew = float(np.max(np.abs(block - block.T)))
    require(
        skew <= 1e-12 * float(np.max(np.abs(block))),
        "a symmetric covariance",
        got=f"asymmetry {skew:.3g}",
        error=InvalidNoise,
    )
    variances = np.diagonal(block)
    require(
        bool(np.all(variances > 0)),
        "a variance > 0 for every answer of the covariance",
        got=f"{int(np.sum(variances <= 0))} of {len(variances)} not positive",
        fix="an answer without noise is not a differentially private release",
        error=InvalidNoise,
    )
    size = len(block)
    scale = 1 / np.sqrt(variances)
    correlations = block * np.outer(scale, scale)
    pstrf = scipy.linalg.get_lapack_funcs("pstrf", (correlations,))
    factored, order, rank, _ = pstrf(correlations, tol=missing(size), lower=1)
    order = order.astype(np.intp) - 1
    independent, determined = np.sort(order[:rank]), np.sort(order[rank:])
    smallest = float(np.diagonal(factored)[rank - 1]) ** 2
    try:
        root = scipy.linalg.cholesky(block[np.ix_(independent, independent)], lower=True)
    except np.linalg.LinAlgError:
        raise _refused("it is not, to rounding") from None
    if determined.size == 0:
        return Factor(
            independent=independent,
            root=root,
            determined=determined,
            dependence=np.zeros((0, rank)),
            smallest=smallest,
        )
    half = scipy.linalg.solve_triangular(root, block[np.ix_(independent, determined)], lower=True)
    T = scipy.linalg.solve_triangular(root, half, lower=True, trans="T").T
    schur = (block[np.ix_(determined, determined)] - half.T @ half) * np.outer(
        scale[determined], scale[determined]
    )
    if np.max(np.abs(schur)) > 8 * missing(size):
        raise _refused("it has a negative eigenvalue")
    require(
        smallest > present(size),
        "a covariance that is clearly singular or clearly not",
        got=f"one whose smallest independent share of noise is {smallest:.3g}",
        fix="remove answers that are nearly combinations of others",
        error=InvalidNoise,
    )
    return Factor(independent=independent, root=root, determined=determined, dependence=T, smallest=smallest)


def _refused(why: str) -> InvalidNoise:
    return InvalidNoise(f"expected a positive semidefinite covariance, got one where {why}")
