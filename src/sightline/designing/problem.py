r"""The problem: the least weighted noise under limits on attacks, floors and ceilings.

The variables x are variances over their floors, one for each published number or one for each release:
:math:`s_\ell = b_\ell\, x_{v(\ell)}`, and rows that are already published are fixed. The problem is

.. math:: \min_x\; w^\top x \quad\text{with}\quad \varphi_i(s) \ge \kappa_i,\quad 1 \le x \le u .
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csc_array

from sightline.arrays import FloatArray, IndexArray
from sightline.designing.risks import Risks, squared

FIXED = -1
# So that a price that is scaled to its weight is not above it by rounding.
_ROUNDINGS = 1e-14


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseProblem:
    """Weights, floors, ceilings, and the limits on attacks."""

    risks: tuple[Risks, ...]
    floors: FloatArray  # of the rows' variances: for fixed rows, what they are
    variable: IndexArray  # of each row; FIXED for those already published
    weights: FloatArray  # of each variable: what its floor costs
    ceilings: FloatArray  # of each variable, over its floor; infinite for none

    @cached_property
    def lift(self) -> csc_array:
        """The matrix from variables to the variances of the rows that are not fixed."""
        free = np.flatnonzero(self.variable != FIXED)
        shape = (self.floors.size, self.weights.size)
        return csc_array((self.floors[free], (free, self.variable[free])), shape=shape)

    @property
    def fixed(self) -> FloatArray:
        """The variances of the fixed rows, zero for the others."""
        found: FloatArray = np.where(self.variable == FIXED, self.floors, 0.0)
        return found

    def variances(self, x: FloatArray) -> FloatArray:
        """The variances of all rows."""
        return np.where(self.variable == FIXED, self.floors, self.floors * np.append(x, 1.0)[self.variable])

    def loss(self, x: FloatArray) -> float:
        """The weighted noise."""
        return float(self.weights @ x)

    def least_slack(self, x: FloatArray) -> float:
        r"""The least :math:`\varphi_i/\kappa_i - 1`: negative where a limit is broken."""
        s = self.variances(x)
        return min(
            (float(np.min(one.at(s).phi / one.needed)) - 1 for one in self.risks if one.needed.size),
            default=np.inf,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cuts:
    """Recipes with a price for each: a proof that no noise with a smaller loss keeps the limits."""

    prices: tuple[FloatArray, ...]  # for each kind of constraint
    recipes: tuple[FloatArray | csc_array, ...]

    def lower_bound(self, problem: NoiseProblem) -> float:
        r"""A lower bound on the loss of all noise that keeps the limits, whatever made the cuts.

        Each recipe says :math:`\sum h^2 s \ge b`. For prices :math:`\lambda \ge 0` and
        :math:`u = \sum \lambda\, h^2` in the variables' units, every feasible x has

        .. math:: w^\top x \ge \lambda^\top b + \sum_v \min_{1 \le x_v \le u_v} (w_v - u_v)\, x_v .

        Where there is no ceiling the last part is finite only if :math:`u \le w`: the prices are scaled.
        """
        value, used = 0.0, np.zeros(problem.weights.size)
        lift, fixed = problem.lift, problem.fixed
        for risks, prices, recipes in zip(problem.risks, self.prices, self.recipes, strict=True):
            paid = squared(recipes) @ prices
            value += float(prices @ risks.offsets(recipes)) - float(fixed @ paid)
            used += lift.T @ paid
        w, open_ended = problem.weights, np.isinf(problem.ceilings)
        most = float(np.max(used[open_ended] / w[open_ended], initial=0.0))
        scale = min(1.0, (1 - _ROUNDINGS) / most) if most > 0 else 1.0
        left = w - scale * used
        ends = np.where(left >= 0, 1.0, np.where(open_ended, 1.0, problem.ceilings))
        return scale * value + float(left @ ends)
