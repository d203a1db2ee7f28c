r"""The least correlated noise: a full covariance in place of variances.

For a covariance :math:`\Sigma` everything stays convex. With :math:`M = \Sigma + P` a limit says
:math:`a^\top M^{-1} a \le 1/(\kappa + \tau)`, and every recipe is a cut :math:`h^\top \Sigma h \ge b(h)`. The
problem is

.. math:: \min_\Sigma\; \sum_\ell w_\ell \Sigma_{\ell\ell} \quad\text{with}\quad
    \varphi_j(\Sigma) \ge \kappa_j, \quad \Sigma \succeq S_0 ,

a semidefinite program. The floor is one on matrices: noise is only added, so no attack gains. It is solved in
factors, :math:`\Sigma = S_0 + R R^\top`, by an augmented Lagrangian and quasi-Newton steps; any prices
:math:`\lambda \ge 0` with :math:`W - \sum \lambda h h^\top \succeq 0` then prove the lower bound
:math:`\lambda^\top b + \operatorname{tr}\bigl((W - \sum \lambda h h^\top) S_0\bigr)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.optimize import minimize

from sightline.arrays import FloatArray, IndexArray
from sightline.designing.problem import FIXED, NoiseProblem
from sightline.designing.risks import HiddenRisks, KnownRisks
from sightline.progress import Progress, silent

_ROUNDS = 40  # of the augmented Lagrangian
_STEPS = 400  # of a quasi-Newton method in each
_CLOSE = 1e-7  # how far a limit may be broken, over itself, when the method ends
_NEAR = 2.0  # limits that are kept with less room than this take part
_MORE = 1.02  # on independent noise, until it keeps the limits
_MOST = 1e9
_CHOICES = 12  # of the limits that take part
_FINEST = 1e-9  # share of a covariance that keeps the limits
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CorrelatedOptimum:
    """A covariance of the rows, and the bounds on the least loss."""

    covariance: FloatArray
    upper: float
    lower: float  # no covariance that keeps the limits has a smaller loss

    @property
    def gap(self) -> float:
        """How far the loss may be above the least one, over the loss."""
        return max(0.0, (self.upper - self.lower) / self.upper)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Limits:
    """Limits with one matrix of what other records add: the least of hᵀ(Σ + P)h with aᵀh = 1 is enough."""

    columns: FloatArray
    enough: FloatArray
    added: FloatArray

    def take(self, chosen: IndexArray) -> _Limits:
        return _Limits(columns=self.columns[:, chosen], enough=self.enough[chosen], added=self.added)

    def at(self, covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """That least value of each over what is enough, and its recipe."""
        images = cho_solve(cho_factor(covariance + self.added, lower=True), self.columns)
        inverse = np.einsum("lj,lj->j", self.columns, images)
        return 1 / (inverse * self.enough), images / inverse


def least_correlated_noise(
    problem: NoiseProblem, variances: FloatArray, progress: Progress = silent
) -> CorrelatedOptimum:
    """The least correlated noise, from independent noise that keeps the limits or nearly does.

    Every row that is not fixed has a variable of its own, and there are no ceilings.
    """
    free = np.flatnonzero(problem.variable != FIXED)
    weights = problem.weights[problem.variable[free]] / problem.floors[free]
    limits = [_limits(one, problem.floors.size) for one in problem.risks]
    taking = [np.flatnonzero(one.at(np.diag(variances))[0] < _NEAR) for one in limits]
    best: CorrelatedOptimum | None = None
    start = safe = _safe(variances, free, limits)
    for _ in range(_CHOICES):
        solver = _Solver(
            floors=problem.floors,
            free=free,
            weights=weights,
            limits=[one.take(part) for one, part in zip(limits, taking, strict=True)],
        )
        covariance, prices = solver.solve(start, progress)
        covariance = _kept(limits, covariance, safe)
        found = CorrelatedOptimum(
            covariance=covariance,
            upper=float(weights @ np.diagonal(covariance)[free]),
            lower=solver.lower_bound(prices),
        )
        if best is None or found.gap < best.gap:
            best = found
        worst = [one.at(solver.last)[0] for one in limits]
        missing = [
            np.setdiff1d(np.flatnonzero(one < 1 - _CLOSE), part)
            for one, part in zip(worst, taking, strict=True)
        ]
        if not any(one.size for one in missing):
            break
        taking = [np.union1d(part, one) for part, one in zip(taking, missing, strict=True)]
        start = solver.last
    assert best is not None  # the loop runs at least once
    return best


def _limits(one: object, rows: int) -> _Limits:
    assert isinstance(one, KnownRisks | HiddenRisks)  # other constraints have been refused
    columns = np.asarray(one.columns.toarray(), dtype=np.float64)
    if isinstance(one, HiddenRisks):
        return _Limits(columns=columns, enough=one.needed + one.tau, added=one.products)
    return _Limits(columns=columns, enough=one.needed, added=np.zeros((rows, rows)))


class _Solver:
    """The problem in factors, in units in which every weight is 1."""

    def __init__(
        self, *, floors: FloatArray, free: IndexArray, weights: FloatArray, limits: list[_Limits]
    ) -> None:
        self.floors, self.free, self.weights, self.limits = floors, free, weights, limits
        self.unit = 1 / np.sqrt(weights)
        self.last = np.diag(floors)

    def covariance(self, factor: FloatArray) -> FloatArray:
        found = np.diag(self.floors)
        R = factor * self.unit[:, None]
        found[np.ix_(self.free, self.free)] += R @ R.T
        return found

    def solve(self, start: FloatArray, progress: Progress) -> tuple[FloatArray, list[FloatArray]]:
        """A covariance near the least one, and the prices of the limits."""
        size = self.free.size
        added = (start - np.diag(self.floors))[np.ix_(self.free, self.free)] / np.outer(self.unit, self.unit)
        values, vectors = eigh(added)
        top = max(float(values.max()), 1e-30)
        factor = vectors * np.sqrt(np.maximum(values, 1e-4 * top))
        loss = float(np.sum(factor**2))
        prices = [np.zeros(one.enough.size) for one in self.limits]
        penalty, broken_before = 10.0, np.inf

        def value(flat: FloatArray) -> tuple[float, FloatArray]:
            R = flat.reshape(size, size)
            covariance = self.covariance(R)
            total, slope = float(np.sum(R**2)) / loss, 2 * R / loss
            for one, own in zip(self.limits, prices, strict=True):
                ratio, recipes = one.at(covariance)
                push = np.maximum(0.0, own + penalty * (1 - ratio))
                total += float(np.sum(push**2 - own**2)) / (2 * penalty)
                seen = recipes[self.free] * self.unit[:, None]
                slope -= 2 * ((seen * (push / one.enough)) @ (seen.T @ R))
            return total, slope.ravel()

        flat = factor.ravel()
        for rounds in range(_ROUNDS):
            progress("choosing correlated noise", rounds / _ROUNDS)
            found = minimize(
                value, flat, jac=True, method="L-BFGS-B",
                options={"maxiter": _STEPS, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-10, "maxfun": 2 * _STEPS},
            )  # fmt: skip
            flat = found.x
            covariance = self.covariance(flat.reshape(size, size))
            ratios = [one.at(covariance)[0] for one in self.limits]
            change = max(
                (
                    float(np.max(np.abs(np.maximum(1 - r, -own / penalty))))
                    for r, own in zip(ratios, prices, strict=True)
                    if r.size
                ),
                default=0.0,
            )
            prices = [np.maximum(0.0, own + penalty * (1 - r)) for own, r in zip(prices, ratios, strict=True)]
            if change < _CLOSE:
                break
            if change > 0.3 * broken_before:
                penalty *= 3
            broken_before = change
        self.last = covariance
        return covariance, [own * loss for own in prices]

    def lower_bound(self, prices: list[FloatArray]) -> float:
        """What every covariance that keeps the limits costs at least, from prices and recipes alone."""
        free, floors = self.free, self.floors
        paid, value = np.zeros((free.size, free.size)), 0.0
        fixed = floors.copy()
        fixed[free] = 0.0
        for one, own in zip(self.limits, prices, strict=True):
            _, H = one.at(self.last)
            price = own / one.enough
            value += float(price @ (one.enough - np.einsum("lj,lj->j", H, one.added @ H) - H.T**2 @ fixed))
            paid += (H[free] * price) @ H[free].T
        largest = float(eigh(paid * np.outer(self.unit, self.unit), eigvals_only=True)[-1])
        scale = min(1.0, 1 / (largest * (1 + _ROUNDING))) if largest > 0 else 1.0
        return (
            scale * value
            + float(self.weights @ floors[free])
            - scale * float(np.diagonal(paid) @ floors[free])
        )


def _safe(variances: FloatArray, free: IndexArray, limits: list[_Limits]) -> FloatArray:
    """Independent noise that keeps the limits: some variances, and more where that is needed."""
    found = variances.copy()
    while any(np.min(one.at(np.diag(found))[0], initial=np.inf) < 1 for one in limits):
        found[free] *= _MORE
        if found[free].max() > _MOST * variances.max():
            raise ArithmeticError("no independent noise keeps the limits")
    return np.diag(found)


def _kept(limits: list[_Limits], covariance: FloatArray, safe: FloatArray) -> FloatArray:
    """The covariance, moved towards one that keeps all limits by as little as they need."""

    def keeps(share: float) -> bool:
        at = covariance + share * (safe - covariance)
        return all(float(np.min(one.at(at)[0])) >= 1 for one in limits if one.enough.size)

    low, high = 0.0, 1.0
    if keeps(low):
        return covariance
    while high - low > _FINEST * high and high > _FINEST:
        middle = (low + high) / 2 if low else high / 16
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return covariance + high * (safe - covariance)
