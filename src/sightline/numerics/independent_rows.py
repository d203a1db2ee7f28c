r"""A proof that integer rows are independent, and solutions of :math:`M y = g` with a bound on their error.

M is the Gram matrix of the rows, D makes its diagonal one, and :math:`C = DMD`. A lower triangle L is
computed so that :math:`LL^\top` is about :math:`C - \sigma I`. Whatever rounding did to L,
:math:`LL^\top` is positive semidefinite, so that

.. math:: \lambda_{\min}(C) \ge \sigma - \|C - \sigma I - LL^\top\| .

The norm is probed (:mod:`sightline.numerics.residuals`). If the right side is positive, the rows are
independent. That takes a third of the operations of an inverse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray
from sightline.numerics.residuals import absolute_product, gamma, probed_norm, probes

_PANEL = 128  # columns of the triangle that are computed together
# σ: this, and some times what rounding does to the residual.
_SHIFT, _ROUNDINGS = 1e-6, 16
_STEPS = 8  # of a solution, at most; each takes off what σ left


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndependentRows:
    """The products of rows that are independent, and a factor of them."""

    products: FloatArray  # M
    scale: FloatArray  # D
    lower: FloatArray  # L, with the inverses of its diagonal blocks in the place of these
    least_eigenvalue: float  # at most that of C

    def solve(self, images: FloatArray) -> tuple[FloatArray, float]:
        r"""About the solution y of :math:`M y = g`, and a bound on :math:`|C^{-1/2} D (g - My)|`.

        For every column a of the rows whose leverage :math:`a^\top M^{-1} a` is at most 1, that also bounds
        :math:`|a^\top M^{-1} (g - My)|`: the error of :math:`a^\top y`.
        """
        solution, best = np.zeros_like(images), math.inf
        left = images
        for _ in range(_STEPS):
            trial = solution + self.scale * self._solve(self.scale * left)
            left = images - self.products @ trial
            off = float(np.linalg.norm(self.scale * left))
            if not off < best / 2:
                break
            solution, best = trial, off
        sizes = np.abs(images) + self.products @ np.abs(solution)
        rounding = gamma(len(images) + 2) * float(np.linalg.norm(self.scale * sizes))
        left = images - self.products @ solution
        bound = (float(np.linalg.norm(self.scale * left)) + rounding) / math.sqrt(self.least_eigenvalue)
        return solution, bound * (1 + gamma(len(images) + 8))

    def _solve(self, right: FloatArray) -> FloatArray:
        """By substitution, forwards and then backwards."""
        lower, solution = self.lower, np.zeros_like(right)
        for own in _panels(len(right)):
            known = lower[own, : own.start] @ solution[: own.start]
            solution[own] = lower[own, own] @ (right[own] - known)
        for own in reversed(_panels(len(right))):
            known = lower[own.stop :, own].T @ solution[own.stop :]
            solution[own] = lower[own, own].T @ (solution[own] - known)
        return solution


def independent_rows(products: FloatArray) -> IndependentRows | None:
    """A proof that rows are independent, from the exact products of rows of 0s and 1s, none of them zero.

    ``None`` if they are not independent, or too nearly dependent for a proof.

    >>> independent_rows(np.array([[2.0, 1.0], [1.0, 2.0]])) is None
    False
    >>> independent_rows(np.array([[1.0, 1.0], [1.0, 1.0]])) is None
    True
    """
    size = len(products)
    scale = 1 / np.sqrt(np.diagonal(products))
    scaled = products * (scale[:, None] * scale)
    reach = float(scaled.sum(axis=1).max(initial=0.0))  # at least the largest eigenvalue
    shift = _SHIFT + _ROUNDINGS * gamma(2 * size + 8) * math.sqrt(size) * reach
    blocks = _factorised(scaled, shift)
    if blocks is None:
        return None
    lower, inverses = blocks
    x, everyone = probes(size, np.diagonal(lower)), np.ones((size, 1))
    images = scaled @ x - shift * x - lower @ (lower.T @ x)
    # Sums of |L||Lᵀ|, whose norm they bound; then the rounding of every product.
    spread = float(absolute_product(lower, absolute_product(lower.T, everyone)).max(initial=0.0))
    lengths = np.linalg.norm(x, axis=0)
    residual = probed_norm(images, gamma(2 * size + 8) * (reach + shift + spread) * lengths)
    least = shift - residual - gamma(4) * reach  # the last is what rounding did to C
    if not least > 0:
        return None
    for own, inverse in zip(_panels(size), inverses, strict=True):
        lower[own, own] = inverse
    return IndependentRows(products=products, scale=scale, lower=lower, least_eigenvalue=least)


def _factorised(matrix: FloatArray, shift: float) -> tuple[FloatArray, list[FloatArray]] | None:
    """L, and the inverses of its diagonal blocks; ``None`` if there is no such factor."""
    lower, inverses = np.zeros_like(matrix), []
    for own in _panels(len(matrix)):
        panel = matrix[own.start :, own] - lower[own.start :, : own.start] @ lower[own, : own.start].T
        head = len(panel[0])
        try:
            corner = np.linalg.cholesky(panel[:head] - shift * np.eye(head))
            inverse = np.linalg.inv(corner)
        except np.linalg.LinAlgError:
            return None
        lower[own, own] = corner
        np.matmul(panel[head:], inverse.T, out=lower[own.stop :, own])
        inverses.append(inverse)
    return lower, inverses


def _panels(size: int) -> list[slice]:
    return [slice(start, min(start + _PANEL, size)) for start in range(0, size, _PANEL)]
