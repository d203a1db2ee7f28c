"""Where the method of least noise stands: variables, slacks and multipliers, and the constraints there."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csc_array

from sightline.arrays import FloatArray, IndexArray
from sightline.designing.problem import NoiseProblem
from sightline.designing.risks import Recipes, RiskAt, Tangents
from sightline.designing.secants import Secants

_MUCH = 0.1  # a constraint uses much of a variable if it uses this share of what the largest user does
_BEYOND = 2.0  # slopes fall with the noise: a broken constraint gets so many times what its slope asks for
_TINY = float(np.finfo(np.float64).tiny)
_NO_ROOM = 1e-15  # a distance to a floor or ceiling that rounding has made zero


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Waypoint:
    """Where the method was: a start for a problem that differs a little."""

    gap: float
    x: FloatArray
    active: IndexArray
    working: tuple[IndexArray, ...]
    lam: tuple[FloatArray, ...]
    g: tuple[FloatArray, ...]
    z: FloatArray
    y: FloatArray
    safe: FloatArray
    bent: float
    secants: Secants


@dataclass(slots=True, kw_only=True, eq=False)
class Iterate:
    """Where the method stands: variables, slacks and multipliers, and the constraints there."""

    problem: NoiseProblem
    x: FloatArray
    active: IndexArray  # the variables that may be raised
    working: list[IndexArray]  # of each kind, the constraints that take part
    lam: list[FloatArray] = field(default_factory=list)
    g: list[FloatArray] = field(default_factory=list)
    z: FloatArray = field(default_factory=lambda: np.zeros(0))
    y: FloatArray = field(default_factory=lambda: np.zeros(0))
    now: tuple[RiskAt, ...] = ()
    recipes: tuple[Recipes, ...] = ()
    tangents: tuple[Tangents, ...] = ()
    factorisations: int = 0
    bent: float = np.inf  # by how much of their levels a whole step bends the constraints, from the last step
    secants: Secants = field(default_factory=Secants)

    @property
    def below(self) -> FloatArray:
        return np.maximum(self.x[self.active] - 1.0, _NO_ROOM)

    @property
    def above(self) -> FloatArray:
        return np.maximum(self.problem.ceilings[self.active] - self.x[self.active], _NO_ROOM)

    @property
    def slack(self) -> FloatArray:
        """The true slacks of the constraints that take part."""
        each = zip(self.now, self.problem.risks, self.working, strict=True)
        return np.concatenate([(now.phi - one.needed)[own] for now, one, own in each])

    def evaluate(self) -> None:
        s = self.problem.variances(self.x)
        self.now = tuple(one.at(s) for one in self.problem.risks)
        self.factorisations += 1

    def find_recipes(self) -> None:
        self.recipes = tuple(now.recipes(own) for now, own in zip(self.now, self.working, strict=True))

    def find_tangents(self, prices: list[FloatArray]) -> None:
        each = zip(self.now, self.working, self.recipes, prices, strict=True)
        self.tangents = tuple(now.tangents(own, recipes, price) for now, own, recipes, price in each)

    def gradients(self) -> list[FloatArray | csc_array]:
        """The derivative of every constraint that takes part by every variable, kind by kind."""
        found = [
            self.problem.lift.T @ (own.each * one.sign if one.sign < 0 else own.each)
            for own, one in zip(self.tangents, self.problem.risks, strict=True)
        ]
        return [one if isinstance(one, np.ndarray) else csc_array(one) for one in found]

    def used(self) -> FloatArray:
        """What the prices use of every variable's weight."""
        each = zip(self.tangents, self.problem.risks, strict=True)
        total = sum((one.sign * own.total for own, one in each), np.zeros(self.problem.floors.size))
        return np.asarray(self.problem.lift.T @ total)

    def lower_bound(self, used: FloatArray, prices: list[FloatArray]) -> float:
        r"""The bound of some prices and the best recipes here: :math:`b = \kappa - \varphi + u^\top s`.

        It uses values at hand: the bound that is reported is computed again from the recipes.
        """
        each = zip(self.now, self.problem.risks, self.working, prices, strict=True)
        value = sum(float(lam @ (one.needed - now.phi)[own]) for now, one, own, lam in each)
        return self.problem.bound(value + float(used @ self.x), used)

    def affordable_prices(
        self, gradients: list[FloatArray | csc_array], used: FloatArray
    ) -> tuple[list[FloatArray], FloatArray]:
        r"""Prices that use no more than the weights, and what they use.

        Of a variable v that is used too much, the constraints that use most of it are lowered by the share
        :math:`(u_v - w_v)/\sum_i \lambda_i G_{vi}` that they have to give; each by the largest of its shares.
        Otherwise a bound would have to lower all prices by what is too much for one variable.
        """
        limited = np.isinf(self.problem.ceilings)
        excess = np.where(limited, np.maximum(used - self.problem.weights, 0.0), 0.0)
        over = np.flatnonzero(excess)
        parts = [
            (G[over] if isinstance(G, np.ndarray) else G.tocsr()[over].toarray()) * lam
            for G, lam in zip(gradients, self.lam, strict=True)
        ]
        most = np.max([np.max(part, axis=1, initial=0.0) for part in parts], axis=0)
        for part in parts:
            part[part < _MUCH * most[:, None]] = 0.0
        much = np.sum([part.sum(axis=1) for part in parts], axis=0)
        share = np.minimum(excess[over] / np.maximum(much, _TINY), 1.0)
        prices, less = [], used.copy()
        for part, G, lam in zip(parts, gradients, self.lam, strict=True):
            cut = lam * np.max((part > 0) * share[:, None], axis=0, initial=0.0)
            prices.append(lam - cut)
            less -= G @ cut
        return prices, less

    def raised_where_broken(self, gradients: list[FloatArray | csc_array]) -> FloatArray:
        """The variables, those above their floors raised in broken constraints by more than slopes ask for.

        Whether that is enough is not known: slopes fall as the noise rises.
        """
        factor, above = np.ones(self.x.size), np.where(self.x > 1, self.x, 0.0)
        each = zip(self.now, self.problem.risks, self.working, gradients, strict=True)
        for now, one, own, G in each:
            short = (one.needed - now.phi)[own]
            broken = np.flatnonzero(short > 0)
            if one.sign < 0 or not broken.size:
                continue
            slopes = csc_array(self.problem.lift.T @ abs(one.columns[:, own[broken]]))
            slopes.data[:] = 1.0
            slopes = csc_array(slopes.multiply(G[:, broken]))
            gained = np.asarray(slopes.T @ above)
            more = _BEYOND * short[broken] / np.maximum(gained, short[broken])
            np.maximum.at(factor, slopes.indices, np.repeat(1 + more, np.diff(slopes.indptr)))
        return np.minimum(np.where(above > 0, self.x * factor, self.x), self.problem.ceilings)

    def at_floors(self) -> Iterate:
        """The same, with those variables at their floors whose multipliers say that they belong there."""
        x = self.x.copy()
        x[self.active[self.z > self.problem.weights[self.active] * self.below]] = 1.0
        found = Iterate(problem=self.problem, x=x, active=self.active, working=self.working)
        found.evaluate()
        return found

    def balance(self, used: FloatArray) -> FloatArray:
        """How far the loss is from balance with its multipliers, of the variables that may be raised."""
        return self.problem.weights[self.active] - used[self.active] - self.z + self.y

    def centre(self) -> float:
        """The mean product of a slack and its multiplier."""
        total = sum(float(lam @ g) for lam, g in zip(self.lam, self.g, strict=True))
        finite = np.isfinite(self.above)
        total += float(self.z @ self.below) + float((self.y * np.where(finite, self.above, 0.0)).sum())
        return total / (sum(lam.size for lam in self.lam) + self.active.size + int(finite.sum()))

    def waypoint(self, gap: float, safe: FloatArray) -> Waypoint:
        return Waypoint(
            gap=gap,
            x=self.x,
            active=self.active,
            working=tuple(self.working),
            lam=tuple(self.lam),
            g=tuple(self.g),
            z=self.z,
            y=self.y,
            safe=safe,
            bent=self.bent,
            secants=self.secants.copy(),
        )


def split(values: FloatArray, working: list[IndexArray]) -> list[FloatArray]:
    """Values of all constraints that take part, kind by kind."""
    ends = np.cumsum([own.size for own in working])[:-1]
    return list(np.split(values, ends))
