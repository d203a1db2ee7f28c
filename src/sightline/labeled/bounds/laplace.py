r"""The least risk of a guess at one number that is seen in Laplace noise.

A record :math:`x_j` in known company is seen through answers :math:`a_\ell x_j + w_\ell` with Laplace noise
of scale :math:`b_\ell`: with the information :math:`G = \sum_\ell a_\ell^2 / b_\ell^2`. Three facts bound its
risk. Domains have width 1. Derivations: the theory page on priors.

*A coin.* For either end of the domain, Laplace answers never tell more than a Gaussian one with the same
information: the risk is at least that of :func:`~sightline.labeled.bounds.scalar_risk.two_point_risk`. One
answer has a closed form.

*A density, one answer.* The risk is an integral. It falls as the information rises, because Laplace noise of
a larger scale is Laplace noise of a smaller one plus something independent.

*A density, any answers.* The weighted van Trees bound needs the information alone
(:mod:`~sightline.labeled.bounds.van_trees`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray
from sightline.labeled.bounds.scalar_risk import MARGIN, Grid, next_node

LAPLACE_GRID = Grid(least=1e-2, ratio=1.006, count=3_081)  # up to 1e6
_DEEP = 40.0  # exp(−_DEEP) is nothing
_POINTS, _MASSES = np.polynomial.legendre.leggauss(48)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FallingTable:
    """A lower bound on a function that falls: its value at the next node; zero beyond the last one."""

    nodes: FloatArray
    values: FloatArray

    def lower(self, information: FloatArray) -> FloatArray:
        place = next_node(self.nodes, information)
        inside = place < self.nodes.size
        return np.where(inside, self.values[np.where(inside, place, -1)], 0.0)


def two_point_laplace_risk(information: FloatArray) -> FloatArray:
    r"""The Bayes risk of a coin at the ends that is seen in one Laplace answer, with :math:`d = \sqrt G`.

    .. math:: \tfrac14 e^{-d/2} \bigl(\operatorname{sech}\tfrac d2 + 2 \arctan\tanh\tfrac d4\bigr)

    >>> (4 * two_point_laplace_risk(np.array([0.0, 1.0, 9.0]))).round(4).tolist()
    [1.0, 0.8292, 0.3474]
    """
    d = np.sqrt(information)
    # e^{−d/2} sech(d/2) = 2/(e^d + 1), which does not overflow in this form.
    first = 2 * np.exp(-d) / (1 + np.exp(-d))
    return np.asarray((first + 2 * np.exp(-d / 2) * np.arctan(np.tanh(d / 4))) / 4)


def uniform_laplace_risk(information: FloatArray) -> FloatArray:
    """The Bayes risk of a uniform number that is seen in one Laplace answer.

    >>> (12 * uniform_laplace_risk(np.array([1.0, 100.0]))).round(4).tolist()
    [0.9359, 0.1697]
    """
    return _density_risk(np.ones_like, information)


def cosine_laplace_risk(information: FloatArray) -> FloatArray:
    """The Bayes risk of a number with the cos² density that is seen in one Laplace answer."""
    return _density_risk(lambda x: 2 * np.square(np.cos(np.pi * x)), information)


def falling_values(risk: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """A risk at the nodes of the grid, lowered by the margin."""
    # The running minimum changes nothing but rounding.
    return np.minimum.accumulate(risk(LAPLACE_GRID.nodes()) * (1 - MARGIN))


def _density_risk(density: Callable[[FloatArray], FloatArray], information: FloatArray) -> FloatArray:
    """For a normalised even density on [−1/2, 1/2]."""
    found = np.empty(np.size(information))
    for i, G in enumerate(np.atleast_1d(information)):
        u = math.sqrt(G)
        layer = min(0.5, _DEEP / u)
        # Answers from the middle of the domain to its end, with a layer of its own at the end.
        y = [0.5 - layer + layer * (1 + _POINTS) / 2]
        masses = [layer * _MASSES / 2]
        if layer < 0.5:
            y.append((0.5 - layer) * (1 + _POINTS) / 2)
            masses.append((0.5 - layer) * _MASSES / 2)
        inside = np.concatenate(masses) @ (_spread(density, np.concatenate(y), u) * u / 2)
        # Any answer beyond the end leaves the posterior of an answer at the end; together they weigh 1/u.
        beyond = _spread(density, np.array([0.5]), u)[0] / 2
        found[i] = 2 * (inside + beyond)
    return found


def _spread(density: Callable[[FloatArray], FloatArray], y: FloatArray, u: float) -> FloatArray:
    """∫ (x − mean)² p(x) exp(−u|x − y|) dx for every answer y in the domain."""
    below = np.minimum(y + 0.5, _DEEP / u)[:, None]
    above = np.minimum(0.5 - y, _DEEP / u)[:, None]
    x = np.concatenate(
        [y[:, None] - below * (1 + _POINTS) / 2, y[:, None] + above * (1 + _POINTS) / 2], axis=1
    )
    lengths = np.concatenate([below * _MASSES / 2, above * _MASSES / 2], axis=1)
    weights = density(x) * np.exp(-u * np.abs(x - y[:, None])) * lengths
    mean = np.sum(weights * x, axis=1) / np.sum(weights, axis=1)
    return np.asarray(np.sum(weights * np.square(x - mean[:, None]), axis=1))
