"""Small problems of least noise, and their constraints written out naively with dense inverses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csc_array

from sightline.advising.following import FollowingRisks, Hiders
from sightline.advising.problem import FIXED, HiddenRisks, KnownRisks, NoiseProblem, Risks, RowLimits
from sightline.arrays import FloatArray
from sightline.bounds.priors import CosineSquaredPrior, UniformPrior
from sightline.units.target import NumberPrior

TAU, LIMIT = 0.8, 0.5
NEEDED = LIMIT * TAU / (TAU - LIMIT)


def rows_of(seed: int, *, records: int = 12, rows: int = 6) -> FloatArray:
    """Random sums over subsets; the first two differ by one record."""
    generator = np.random.default_rng(seed)
    A = (generator.random((rows, records)) < 0.4).astype(np.float64)
    A[1] = A[0]
    A[0, 0], A[1, 0] = 1.0, 0.0
    A[:, A.sum(axis=0) == 0] = 1.0
    return A


def problem_of(  # many parameters: one for each variety of problem
    A: FloatArray,
    *,
    seed: int = 0,
    kinds: str = "hidden",
    fixed: int = 0,
    ceiling: float = np.inf,
    grouped: bool = False,
    prior: NumberPrior | None = None,
    several: bool = False,
    floor: float = 0.05,
    budget: float | None = None,
) -> NoiseProblem:
    """A problem over the rows of A: the last ``fixed`` rows are published, ``grouped`` takes rows in twos.

    With a ``prior`` the precisions of hidden records follow the noise. With ``several``, records are in some
    rows several times. A ``budget`` is on levels that three rows share each; then a ceiling is one on the
    rows' variances.
    """
    generator = np.random.default_rng(seed + 100)
    rows, records = A.shape
    if several:  # records are in some rows more than once
        A = A * generator.integers(1, 4, A.shape)
    first = np.arange(records) % 2 == 0 if kinds == "both" else np.full(records, kinds == "hidden")
    tau = np.asarray(TAU * (0.7 + 0.6 * generator.random(records)))
    risks: list[Risks] = []
    if first.any():
        columns = csc_array(A[:, first])
        needed = np.full(columns.shape[1], NEEDED)
        if prior is None:
            given = HiddenRisks(columns=columns, needed=needed, tau=tau[first], products=(A * tau) @ A.T)
            risks.append(given)
        else:
            hiders = hiders_of(A, np.asarray(generator.integers(1, 4, records), dtype=np.float64), prior)
            own = np.flatnonzero(first)
            risks.append(FollowingRisks(columns=columns, needed=needed, hiders=hiders, own=own))
    if not first.all():
        columns = csc_array(A[:, ~first])
        risks.append(KnownRisks(columns=columns, needed=np.full(columns.shape[1], 1.1 * NEEDED)))
    variable = np.arange(rows) // 2 if grouped else np.arange(rows)
    variable = np.where(np.arange(rows) >= rows - fixed, FIXED, variable)
    floors = np.asarray(floor * (0.5 + generator.random(rows)))
    floors[variable == FIXED] = 3.0
    count = int(variable.max()) + 1
    weights = np.bincount(variable[variable != FIXED], floors[variable != FIXED], count)
    plain = NoiseProblem(
        risks=tuple(risks),
        floors=floors,
        variable=variable,
        weights=weights * (0.5 + generator.random(count)),
        ceilings=np.full(count, ceiling),
    )
    return plain if budget is None else with_budget(plain, budget, ceiling)


UNIFORM, COSINE = UniformPrior(0.0, 3.0), CosineSquaredPrior(0.0, 6.0)


def hiders_of(A: FloatArray, counts: FloatArray, prior: NumberPrior) -> Hiders:
    """The columns of A as records that hide each other."""
    return Hiders(
        columns=csc_array(A),
        counts=counts,
        precision=prior.precision,
        precision_slope=prior.precision_slope,
        excess=prior.precision_excess,
        gram=lambda weights: (A * weights) @ A.T,
        forms=lambda matrix: np.einsum("lk,lm,mk->k", A, matrix, A),
    )


def with_budget(plain: NoiseProblem, budget: float, ceiling: float) -> NoiseProblem:
    """The problem with a level for each three rows, whose costs sum to the budget at most."""
    rows, count = plain.floors.size, plain.weights.size
    level = count + np.arange(rows) // 3
    levels = int(level.max()) + 1 - count
    owner = np.zeros((rows, levels))
    owner[np.arange(rows), level - count] = 1.0
    cost = np.linspace(1.0, 2.0, levels)
    virtual = np.zeros((rows + levels, 1))
    virtual[rows:, 0] = np.sqrt(cost)
    risks: list[Risks] = []
    for one in plain.risks:
        columns = csc_array(np.pad(one.columns.toarray(), ((0, levels), (0, 0))))
        if isinstance(one, HiddenRisks):
            risks.append(replace(one, columns=columns, products=np.pad(one.products, (0, levels))))
        elif isinstance(one, FollowingRisks):
            old = one.hiders
            everyone = np.pad(old.columns.toarray(), ((0, levels), (0, 0)))
            wider = hiders_of(everyone, old.counts, UNIFORM)
            risks.append(replace(one, columns=columns, hiders=wider))
        elif isinstance(one, KnownRisks):
            risks.append(replace(one, columns=columns))
    risks.append(KnownRisks(columns=csc_array(virtual), needed=np.array([1 / budget])))
    eye = np.eye(rows + levels)[:, :rows]
    least = csc_array(eye[:, :1])
    risks.append(RowLimits(columns=least, bounds=plain.floors[:1] * 1.7, sign=1.0))
    if np.isfinite(ceiling):
        risks.append(RowLimits(columns=csc_array(eye), bounds=plain.floors * ceiling, sign=-1.0))
    own = plain.weights[plain.variable]
    return replace(
        plain,
        risks=tuple(risks),
        floors=np.concatenate([plain.floors, np.ones(levels)]),
        variable=np.concatenate([plain.variable, count + np.arange(levels)]),
        level=np.concatenate([level, np.full(levels, FIXED)]),
        weights=np.concatenate([plain.weights, owner.T @ own]),
        ceilings=np.full(count + levels, np.inf),
        free_of_charge=float(own.sum()),
    )


def naive_phi(problem: NoiseProblem, x: FloatArray) -> FloatArray:
    """Every constraint's value over its least one, by solving dense systems."""
    return np.concatenate(
        [
            1 + (phi - one.needed) / np.abs(one.needed)
            for one, phi in zip(problem.risks, _phis(problem, x), strict=True)
        ]
    )


def _phis(problem: NoiseProblem, x: FloatArray) -> list[FloatArray]:
    s = variances(problem, x)
    found = []
    for one in problem.risks:
        if isinstance(one, RowLimits):
            found.append(one.sign * (one.columns.toarray().T @ s))
            continue
        if isinstance(one, FollowingRisks):
            found.append(_following_phi(one, s))
            continue
        M = np.diag(s) + (one.products if isinstance(one, HiddenRisks) else 0.0)
        columns, tau = one.columns.toarray(), one.tau if isinstance(one, HiddenRisks) else 0.0
        found.append(1 / np.sum(columns * np.linalg.solve(M, columns), axis=0) - tau)
    return found


def _following_phi(one: FollowingRisks, s: FloatArray) -> FloatArray:
    """1/Q of each record: its group is taken out of what hides it."""
    A, counts = one.hiders.columns.toarray(), one.hiders.counts
    tau = 1 / one.hiders.precision((A**2).T @ (1 / s))
    found = []
    for own, column in zip(one.own, one.columns.toarray().T, strict=True):
        others = np.arange(counts.size) != own
        M = np.diag(s) + (A[:, others] * (counts * tau)[others]) @ A[:, others].T
        found.append(1 / (column @ np.linalg.solve(M, column)))
    return np.array(found)


def variances(problem: NoiseProblem, x: FloatArray) -> FloatArray:
    """The variance of every row, row by row."""
    levels = np.broadcast_to(problem.level, problem.floors.shape)
    one = [*x.tolist(), 1.0]
    each = zip(problem.floors, problem.variable, levels, strict=True)
    return np.array([floor * (one[place] + one[level] - 1.0) for floor, place, level in each])


def naive_optimum(problem: NoiseProblem, start: FloatArray) -> float:
    """The least loss by sequential quadratic programming."""
    rows = [one.columns.toarray() for one in problem.risks]

    def slack(x: FloatArray) -> FloatArray:
        return naive_phi(problem, x) - 1

    def slopes(x: FloatArray) -> FloatArray:
        if any(isinstance(one, FollowingRisks) for one in problem.risks):
            steps = 1e-6 * np.diag(x)
            ends = [naive_phi(problem, x + step) - naive_phi(problem, x - step) for step in steps]
            return np.stack(ends, axis=1) / (2e-6 * x)
        s, found = variances(problem, x), []
        for one, columns in zip(problem.risks, rows, strict=True):
            if isinstance(one, RowLimits):
                squares = one.sign * columns / np.abs(one.needed)
            else:
                M = np.diag(s) + (one.products if isinstance(one, HiddenRisks) else 0.0)
                images = np.linalg.solve(M, columns)
                squares = (images / np.sum(columns * images, axis=0)) ** 2 / one.needed
            slope = np.zeros((columns.shape[1], x.size))
            for own in (problem.variable, problem.level):
                for row, place in enumerate(own):
                    if place != FIXED:
                        slope[:, place] += squares[row] * problem.floors[row]
            found.append(slope)
        return np.concatenate(found)

    unit = abs(problem.loss(start))
    loss: Callable[[FloatArray], float] = lambda x: float(problem.weights @ x) / unit  # noqa: E731
    found = minimize(
        loss,
        start,
        jac=lambda x: problem.weights / unit,
        method="SLSQP",
        bounds=[(1.0, high if np.isfinite(high) else None) for high in problem.ceilings],
        constraints={"type": "ineq", "fun": slack, "jac": slopes},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert np.min(slack(found.x)) > -1e-7
    return problem.loss(found.x)
