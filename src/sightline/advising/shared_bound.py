r"""A lower bound on the loss after the fit where limits on attacks decide: noise that all numbers may share.

The fit to numbers with independent noise has some covariance :math:`\Sigma`, and tells as much as they do. So
no independent noise that keeps the limits has a smaller loss after the fit than the least
:math:`\operatorname{tr} W\Sigma` over all covariances that keep them. With the precision X on the span of the
numbers a limit is :math:`\operatorname{tr} XC_j \le g_j`, with :math:`C_j = a_j a_j^\top` for known others;
for hidden ones it is replaced by its tangent at the last X, with
:math:`C_j = \Sigma f (\Sigma f)^\top + \sum_k c_k\, a_k a_k^\top` (``hidden_limits.py`` has f and c). The
dual :math:`2 \operatorname{tr} (W^{1/2} \sum_j \lambda_j C_j W^{1/2})^{1/2} - g^\top \lambda` is maximised by
L-BFGS in :math:`\lambda = \theta^2`. The floors take part as limits on what each number may tell, and the
budget as one on what everybody may.

The bound is proved by recipes, as that of raw numbers: at any X and for any prices they are cuts
:math:`\operatorname{tr} V_j\Sigma \ge b_j` with :math:`V_j = X C_j X`, and
:math:`\operatorname{tr} W\Sigma \ge \lambda^\top b/t` where :math:`\sum_j \lambda_j V_j \preceq t\, W`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.advising.choice import Chosen
from sightline.advising.hidden_limits import HiddenLimits
from sightline.advising.task import DesignTask
from sightline.arrays import COARSE, ROUNDING, FloatArray

_ROUNDS = 40  # of tangents
_STEPS = 100  # of L-BFGS in a round
_WORK = 3e7  # rows × rows × columns of a step: all of them take seconds
_CLOSE = 5e-3  # how near to what the last noise loses the bound comes at best
_SPAN = 1e-9  # of the largest eigenvalue: less is no direction of the span


def shared_bound(task: DesignTask, chosen: Chosen) -> float:
    """No independent noise that keeps the chosen bounds has a smaller loss after the fit; 0 if none is found.

    Where all genies at once decide, none with which linear attacks keep the limit has. Of numbers in several
    rows of a person nothing is asked, and of large problems no bound is looked for.
    """
    for problem, start in shared_problem(task, chosen.attacked or chosen):
        return problem.bound(start)[0] * (1 - ROUNDING)
    return 0.0


def shared_problem(task: DesignTask, chosen: Chosen) -> list[tuple[SharedProblem, FloatArray]]:
    """The problem of a design and its precision there; none if it is too large, or not one of the span."""
    linear, fitted, targets = task.linear, task.fitted, chosen.targets
    hidden = [one for one in chosen.problem.hidden if not one.times_precision]
    work = linear.table.shape[0] ** 2 * max(linear.table.shape[1], len(targets))
    if fitted is None or work > _WORK:
        return []
    weights, rows = fitted.of_rows(linear.cells, linear.factors, linear.copies)
    if weights is None:
        return []
    unit = 1 / np.sqrt(task.row_floors)
    lengths, vectors = np.linalg.eigh((rows @ rows.T).toarray() * np.outer(unit, unit))
    basis = vectors[:, lengths > _SPAN * lengths[-1]]
    everyone = targets.columns.toarray() * unit[:, None]
    outside = everyone - basis @ (basis.T @ everyone)
    if np.any(np.abs(outside) > COARSE * unit[:, None]):  # a column that the fit does not keep
        return []
    known = everyone[:, chosen.known] * np.sqrt(targets.known_needed[chosen.known])
    floors = basis / np.linalg.norm(basis, axis=1)[:, None]
    problem = SharedProblem(
        loss=basis.T @ (weights / np.outer(unit, unit)) @ basis,
        known=np.concatenate([basis.T @ known, basis.T @ (_paid(task) * unit[:, None]), floors.T], axis=1),
        hidden=tuple(hidden),
        columns=tuple(basis.T @ (one.columns.toarray() * unit[:, None]) for one in hidden),
        hiders=tuple(basis.T @ (one.hiders.toarray() * unit[:, None]) for one in hidden),
    )
    precisions = np.asarray(chosen.problem.rows @ chosen.optimum.u) / unit**2
    return [(problem, basis.T @ (basis * precisions[:, None]))]


def _paid(task: DesignTask) -> FloatArray:
    r"""What the budget lets everybody learn of a row: columns v with :math:`v^\top X v \le 1`.

    A row is in one cell of each release, and :math:`\sum_c \Delta_c^2/\sigma_c^2` over its cells is at most
    that over the sharpest cell of each. So is that of its column times the least
    :math:`\Delta_c/a_c`. None where a number has noise of its own, or several rows count together.
    """
    linear, paid = task.linear, task.paid
    table = linear.table.toarray()
    if paid.own or not paid.cells[linear.cells].all():
        return np.zeros((len(table), 0))
    bundle = paid.bundle_of_cell[linear.cells]
    several = np.zeros(
        table.shape[1], dtype=np.bool_
    )  # in several cells of a release: counted together there
    for release in np.unique(bundle):
        several |= np.count_nonzero(table[bundle == release], axis=0) > 1
    table = table[:, ~several]
    moves = (task.sensitivity[linear.cells] * np.abs(linear.factors))[:, None]
    table = table[:, table.any(axis=0)]
    size = np.abs(table)
    least = np.min(np.where(size > 0, moves / np.where(size > 0, size, 1.0), np.inf), axis=0)
    return np.asarray(table * least / np.sqrt(paid.most))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Limits:
    """Limits on a precision X: vᵀXv + Σ weight aᵀXa is at most 1."""

    vectors: FloatArray  # span × limits
    hiders: FloatArray  # span × columns
    weights: FloatArray  # limits × columns
    cuts: FloatArray  # what their recipes ask of every covariance

    def priced(self, prices: FloatArray) -> FloatArray:
        """Σ λ C."""
        own = (self.vectors * prices) @ self.vectors.T
        return np.asarray(own + (self.hiders * (prices @ self.weights)) @ self.hiders.T)

    def used(self, precision: FloatArray) -> FloatArray:
        """The share of every limit that is used."""
        own = np.sum(self.vectors * (precision @ self.vectors), axis=0)
        return np.asarray(own + self.weights @ np.sum(self.hiders * (precision @ self.hiders), axis=0))


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedProblem:
    """The problem in coordinates of the span, in which the precision of the floors is 1."""

    loss: FloatArray  # W
    known: FloatArray  # vectors of the linear limits: vᵀXv is at most 1
    hidden: tuple[HiddenLimits, ...]
    columns: tuple[FloatArray, ...]  # of each kind of limit with hidden others, its targets
    hiders: tuple[FloatArray, ...]

    def bound(self, precision: FloatArray) -> tuple[float, FloatArray]:
        """The largest lower bound that is met from a precision on, and the precision at the end."""
        lengths, vectors = np.linalg.eigh(self.loss)
        root = (vectors * np.sqrt(lengths)) @ vectors.T
        over = (vectors / np.sqrt(lengths)) @ vectors.T
        theta, best = np.zeros(0), 0.0
        for _ in range(_ROUNDS):
            limits = self.limits(precision)
            if theta.size == limits.cuts.size:
                proved = _proved(limits, theta**2, precision @ over)
                best = max(best, proved)
                if best >= (1 - _CLOSE) * float(np.sum(self.loss * np.linalg.inv(precision))):
                    break
            theta = _prices(limits, root, theta)
            precision = _precision(limits, root, theta)
        return best, precision

    def limits(self, precision: FloatArray) -> _Limits:
        """The linear limits, and the tangents of the others at a precision."""
        used = np.sum(self.known * (precision @ self.known), axis=0)
        vectors, weights, cuts = [self.known], [], [used**2]
        for one, columns, hiders in zip(self.hidden, self.columns, self.hiders, strict=True):
            told = np.sum(hiders * (precision @ hiders), axis=0)
            tau = 1 / one.prior.precision(told)
            covariance = np.linalg.inv(precision)
            spread = np.linalg.inv(covariance + (hiders * (one.counts * tau)) @ hiders.T)
            passes = np.sum(columns * (spread @ columns), axis=0)
            left = 1 - one.removed * tau[one.own] * passes
            information = passes / left
            recipes = spread @ columns / left
            seen = (hiders.T @ recipes) ** 2 * one.counts[:, None]
            seen[one.own, np.arange(len(one))] -= one.removed * information**2
            seen = np.maximum(seen, 0.0) * (tau**2 * one.prior.precision_slope(told))[:, None]
            excess = float(np.max(one.prior.precision_excess(told), initial=0.0))
            own = covariance @ recipes
            asked = np.sum(own * recipes, axis=0) + seen.T @ told
            room = asked - information + one.most
            kept = np.flatnonzero(room > ROUNDING * one.most)  # a limit that is left out lowers the bound
            vectors.append(own[:, kept] / np.sqrt(room[kept]))
            weights.append(seen.T[kept] / room[kept, None])
            cuts.append(((asked + information - one.most - excess * information) / room)[kept])
        hiders = self.hiders[0] if self.hiders else np.zeros((len(self.loss), 0))
        linear = np.zeros((self.known.shape[1], hiders.shape[1]))
        return _Limits(
            vectors=np.concatenate(vectors, axis=1),
            hiders=hiders,
            weights=np.concatenate([linear, *weights]),
            cuts=np.concatenate(cuts),
        )


def _proved(limits: _Limits, prices: FloatArray, over: FloatArray) -> float:
    """What prices prove: λᵀb over the least t with Σ λ V ⪯ t W. ``over`` is X W^(-1/2)."""
    most = float(np.linalg.eigvalsh(over.T @ limits.priced(prices) @ over)[-1])
    return float(prices @ limits.cuts) / most


def _precision(limits: _Limits, root: FloatArray, theta: FloatArray) -> FloatArray:
    """The best precision for some prices."""
    lengths, vectors = np.linalg.eigh(root @ limits.priced(theta**2) @ root)
    half = root @ vectors
    return np.asarray((half / np.sqrt(np.maximum(lengths, ROUNDING * lengths[-1]))) @ half.T)


def _prices(limits: _Limits, root: FloatArray, before: FloatArray) -> FloatArray:
    """The roots of the prices that maximise the dual, from those of before on."""
    from scipy.optimize import minimize  # takes longer to import than a small audit

    def value(theta: FloatArray) -> tuple[float, FloatArray]:
        lengths, vectors = np.linalg.eigh(root @ limits.priced(theta**2) @ root)
        roots = np.sqrt(np.maximum(lengths, ROUNDING * lengths[-1]))
        half = root @ vectors
        slope = limits.used((half / roots) @ half.T) - 1
        return float(np.sum(theta**2) - 2 * roots.sum()), np.asarray(-2 * theta * slope)

    again = before.size == limits.cuts.size
    start = np.maximum(before, 1e-3 * before.max()) if again else np.ones(limits.cuts.size)
    lengths = np.linalg.eigvalsh(root @ limits.priced(start**2) @ root)
    start = start * np.sqrt(np.maximum(lengths, 0.0)).sum() / np.sum(start**2)
    options = {"maxiter": _STEPS, "maxfun": _STEPS, "maxcor": 20, "ftol": 1e-10, "gtol": 0.0}
    found = minimize(value, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(np.abs(found.x))
