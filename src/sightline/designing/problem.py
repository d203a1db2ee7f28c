r"""The problem: the least weighted noise under limits on attacks and on the budget, floors and ceilings.

The variables x are variances over their floors, one for each published number or one for each release:
:math:`s_\ell = b_\ell\, x_{v(\ell)}`, and rows that are already published are fixed. The problem is

.. math:: \min_x\; w^\top x - o \quad\text{with}\quad \varphi_i(s) \ge \kappa_i,\quad 1 \le x \le u .

A release that the budget pays for costs what its sharpest number costs. So its rows share the variable of a
*level* y, and add to it: :math:`s_\ell = b_\ell\,(y + x_\ell - 1)`. With floors in proportion to squared
sensitivities the release costs :math:`q/y`, and the budget is the constraint :math:`1/\sum q/y \ge 1/B` on
rows that stand for the levels alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
from scipy.sparse import csc_array

from sightline.arrays import FloatArray, IndexArray
from sightline.designing.risks import Recipes, Risks, squared
from sightline.errors import InvalidPlan

FIXED = -1
# So that a price that is scaled to its weight is not above it by rounding.
_ROUNDINGS = 1e-14
_Found = TypeVar("_Found")


class NotEnough(InvalidPlan):
    """No noise within the ceilings keeps the limits."""


def if_enough(search: Callable[[], _Found]) -> tuple[_Found, ...]:
    """What a search finds; nothing if no noise is enough."""
    try:
        return (search(),)
    except NotEnough:
        return ()


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseProblem:
    """Weights, floors, ceilings, and the limits on attacks."""

    risks: tuple[Risks, ...]
    floors: FloatArray  # of the rows' variances: for fixed rows, what they are
    variable: IndexArray  # of each row; FIXED for those already published
    weights: FloatArray  # of each variable: what its floor costs
    ceilings: FloatArray  # of each variable, over its floor; infinite for none
    level: IndexArray = field(default_factory=lambda: np.array([FIXED]))  # of each row, the variable of its
    # release's level; FIXED for none, of one row or of all
    free_of_charge: float = 0.0  # o: floors that are in the weights of a row and of its level

    @cached_property
    def lift(self) -> csc_array:
        """The matrix from variables to the variances of the rows that are not fixed."""
        free = np.flatnonzero(self.variable != FIXED)
        more = np.flatnonzero(self.level != FIXED)
        rows = np.concatenate([free, more])
        places = np.concatenate([self.variable[free], self.level[more]])
        shape = (self.floors.size, self.weights.size)
        return csc_array((self.floors[rows], (rows, places)), shape=shape)

    @cached_property
    def constant(self) -> FloatArray:
        """The part of the rows' variances that no variable changes; negative for rows with a level."""
        found = np.where(self.variable == FIXED, self.floors, 0.0)
        return np.where(self.level != FIXED, -self.floors, found)

    def variances(self, x: FloatArray) -> FloatArray:
        """The variances of all rows."""
        one = np.append(x, 1.0)
        return np.asarray(self.floors * (one[self.variable] + (one[self.level] - 1.0)))

    def guess(self, variances: FloatArray) -> FloatArray:
        """The least variables that give every row some variance, where no row adds to a level."""
        free = np.flatnonzero(self.variable != FIXED)
        found = np.ones(self.weights.size)
        np.maximum.at(found, self.variable[free], (variances / self.floors)[free])
        return found

    def loss(self, x: FloatArray) -> float:
        """The weighted noise."""
        return float(self.weights @ x) - self.free_of_charge

    def bound(self, value: float, used: FloatArray) -> float:
        r"""The bound of :meth:`Cuts.lower_bound` from :math:`\lambda^\top b` and u, with scaled prices."""
        w, open_ended = self.weights, np.isinf(self.ceilings)
        most = float(np.max(used[open_ended] / w[open_ended], initial=0.0))
        scale = min(1.0, (1 - _ROUNDINGS) / most) if most > 0 else 1.0
        left = w - scale * used
        ends = np.where(left >= 0, 1.0, np.where(open_ended, 1.0, self.ceilings))
        return scale * value + float(left @ ends) - self.free_of_charge

    def slacks(self, x: FloatArray) -> list[FloatArray]:
        r"""For each kind :math:`(\varphi_i - \kappa_i)/|\kappa_i|`: negative where a limit is broken."""
        s = self.variances(x)
        return [(one.at(s).phi - one.needed) / np.abs(one.needed) for one in self.risks]

    def least_slack(self, x: FloatArray) -> float:
        """The least of the slacks."""
        return min((float(np.min(one)) for one in self.slacks(x) if one.size), default=np.inf)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cuts:
    """Recipes with a price for each: a proof that no noise with a smaller loss keeps the limits."""

    prices: tuple[FloatArray, ...]  # for each kind of constraint
    recipes: tuple[Recipes, ...]
    chosen: tuple[IndexArray, ...]  # the constraints that they are for
    variances: FloatArray  # where hiding that follows the noise is replaced by its tangent

    def lower_bound(self, problem: NoiseProblem) -> float:
        r"""A lower bound on the loss of all noise that keeps the limits, whatever made the cuts.

        Each recipe says :math:`\pm\sum h^2 s \ge b`. For prices :math:`\lambda \ge 0` and
        :math:`u = \sum \pm\lambda\, h^2` in the variables' units, every feasible x has

        .. math:: w^\top x \ge \lambda^\top b + \sum_v \min_{1 \le x_v \le u_v} (w_v - u_v)\, x_v .

        Where there is no ceiling the last part is finite only if :math:`u \le w`: the prices are scaled.
        """
        value, used = 0.0, np.zeros(problem.weights.size)
        lift, constant = problem.lift, problem.constant
        each = zip(problem.risks, self.prices, self.recipes, self.chosen, strict=True)
        for risks, prices, recipes, chosen in each:
            slopes, least = risks.cut(prices, recipes, chosen, self.variances)
            value += least - float(constant @ (risks.sign * slopes))
            used += lift.T @ (risks.sign * slopes)
        return problem.bound(value, used)


_CLOSE = 1e-9  # the factor is found up to this, from above
_MOST_VARIANCE = 1e24  # variance beyond which more noise changes nothing
_ROUNDS = 60
_TANGENTS = 256  # constraints of a kind whose tangents are looked at: the worst


def common_factor(problem: NoiseProblem, at_one: FloatArray) -> float:
    """The least factor on the variances of all rows that are not fixed; ``NotEnough`` if there is none.

    It is rounded up so that the limits hold. ``at_one`` has the variances of the rows at the factor 1.
    Ceilings are not looked at: a common factor that breaks one is still what it costs.
    """
    moving = np.where(problem.variable == FIXED, 0.0, at_one)
    t = 1.0
    for _ in range(_ROUNDS):
        if t >= _MOST_VARIANCE:
            break
        s, step = np.where(problem.variable == FIXED, problem.floors, t * at_one), 0.0
        for one in problem.risks:
            if one.sign < 0 or not one.needed.size:
                continue
            now = one.at(s)
            short = one.needed * (1 + _CLOSE / 2) - now.phi
            broken = _worst(short, short / one.needed)
            if broken.size:
                slope = np.asarray(squared(now.recipes(broken)).T @ moving)
                with np.errstate(divide="ignore"):
                    step = max(step, float(np.max(short[broken] / slope)))
        if step <= _CLOSE / 2 * t:
            return t * (1 + (_CLOSE if step > 0 else 0.0))
        t += step
    raise NotEnough("expected a factor on all noise that keeps the limits, got none")


def _worst(short: FloatArray, size: FloatArray) -> IndexArray:
    """The constraints that are broken most: any of their tangents is a step that is not too long."""
    broken = np.flatnonzero(short > 0)
    if broken.size > _TANGENTS:
        broken = broken[np.argpartition(-size[broken], _TANGENTS)[:_TANGENTS]]
    found: IndexArray = broken
    return found
