"""Small problems of least noise, and their limits written out naively with dense inverses."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csc_array, csr_array

from sightline.advising.hidden_limits import HiddenLimits
from sightline.advising.least_noise import NO_BUDGET, NoiseProblem, SharedBudget
from sightline.arrays import FloatArray
from sightline.bounds.priors import CosineSquaredPrior, UniformPrior
from sightline.units.target import NumberPrior

UNIFORM, COSINE = UniformPrior(0.0, 3.0), CosineSquaredPrior(0.0, 6.0)
KNOWN, HIDDEN = 0.6, 0.7  # the most that is told of a record whom others hide, or not


def rows_of(seed: int, *, records: int = 12, rows: int = 6) -> FloatArray:
    """Random sums over subsets; the first two differ by one record."""
    generator = np.random.default_rng(seed)
    A = (generator.random((rows, records)) < 0.4).astype(np.float64)
    A[1] = A[0]
    A[0, 0], A[1, 0] = 1.0, 0.0
    A[:, A.sum(axis=0) == 0] = 1.0
    return A


def limits_of(
    A: FloatArray,
    chosen: np.ndarray,
    *,
    counts: FloatArray,
    prior: NumberPrior = UNIFORM,
    persons: bool = False,
) -> HiddenLimits:
    """Limits on some columns of A, each of which hides the others; or as features, all like the best seen."""
    return HiddenLimits(
        columns=csc_array(A[:, chosen]),
        most=np.full(chosen.size, HIDDEN + persons * float(prior.precision(np.array([0.1]))[0])),
        times_precision=float(persons),
        own=np.zeros(chosen.size, dtype=np.intp) if persons else chosen,
        removed=np.ones(chosen.size) if persons else counts[chosen],
        hiders=csc_array(A),
        counts=counts,
        prior=prior,
        seen_best=persons,
    )


def problem_of(  # many parameters: one for each variety of problem
    A: FloatArray,
    *,
    seed: int = 0,
    kinds: str = "hidden",
    fixed: int = 0,
    ceiling: float = np.inf,
    grouped: bool = False,
    prior: NumberPrior = UNIFORM,
    several: bool = False,
    floor: float = 0.02,
    budget: float | None = None,
) -> NoiseProblem:
    """A problem over the rows of A: the last ``fixed`` rows are published, ``grouped`` takes rows in twos.

    With ``several``, records are in some rows several times. A ``budget`` is shared by groups of three rows.
    """
    generator = np.random.default_rng(seed + 100)
    rows, records = A.shape
    if several:
        A = A * generator.integers(1, 4, A.shape)
    hides = np.arange(records) % 2 == 0 if kinds == "both" else np.full(records, kinds != "known")
    counts = np.asarray(generator.integers(1, 4, records), dtype=np.float64)
    variable = np.arange(rows) // 2 if grouped else np.arange(rows)
    free = np.arange(rows) < rows - fixed
    count = int(variable[free].max()) + 1
    variable = np.where(free, variable, count)
    floors = np.where(free, floor * (0.5 + generator.random(rows)), 3.0)
    R = np.zeros((rows, count + 1))
    R[np.arange(rows), variable] = 1 / floors
    costs = np.bincount(variable, np.where(free, floors, 0.0), count + 1)
    weights: FloatArray = costs * (0.5 + generator.random(count + 1))
    shared = NO_BUDGET
    if budget is not None:
        pairs = np.unique(np.stack([np.arange(rows) // 3, variable]), axis=1)
        each = np.linspace(1.0, 2.0, pairs.shape[1]) / budget
        shared = SharedBudget(variable=pairs[1], release=pairs[0], cost=each)
    limits = limits_of(A, np.flatnonzero(hides), counts=counts, prior=prior, persons=kinds == "persons")
    return NoiseProblem(
        weights=weights,
        low=np.append(np.full(count, 1 / ceiling), 1.0),
        rows=csc_array(R),
        linear=csr_array((A[:, ~hides] ** 2).T @ R / KNOWN),
        budget=shared,
        hidden=(limits,) if hides.any() else (),
    )


def naive_information(limits: HiddenLimits, precisions: FloatArray) -> FloatArray:
    """What is limited of each target: the records of its own that do not hide it are taken out first."""
    A = limits.hiders.toarray()
    told = (A**2).T @ precisions
    tau = 1 / limits.prior.precision(np.full(told.size, told.max()) if limits.seen_best else told)
    columns, tau_of_target = limits.columns.toarray().T, tau[limits.own]
    everyone = np.diag(1 / precisions) + (A * (limits.counts * tau)) @ A.T
    removed = np.einsum("t,ti,tj->tij", limits.removed * tau_of_target, columns, columns)
    solved = np.linalg.solve(everyone - removed, columns[:, :, None])[:, :, 0]
    return np.asarray(np.sum(columns * solved, axis=1) + limits.times_precision / tau_of_target)


def naive_shares(problem: NoiseProblem, u: FloatArray) -> FloatArray:
    """How much of every limit is used."""
    budget, spent = problem.budget, 0.0
    for release in set(budget.release.tolist()):
        own = budget.release == release
        spent += max(cost * u[v] for cost, v in zip(budget.cost[own], budget.variable[own], strict=True))
    precisions = problem.rows.toarray() @ u
    hidden = [naive_information(one, precisions) / one.most for one in problem.hidden]
    return np.concatenate([problem.linear.toarray() @ u, [spent], *hidden])


def naive_optimum(problem: NoiseProblem, start: FloatArray) -> float:
    """The least loss by sequential quadratic programming over the variances, where limits are convex."""
    weights, unit = problem.weights, problem.loss(start)

    def slack(x: FloatArray) -> FloatArray:
        used = naive_shares(problem, 1 / x)
        return 1 / np.where(used > 0, used, 1.0) - 1

    def slopes(x: FloatArray) -> FloatArray:
        steps = 1e-6 * np.diag(x)
        return np.stack([slack(x + one) - slack(x - one) for one in steps], axis=1) / (2e-6 * x)

    high = [1 / low if low > 0 else None for low in problem.low]
    found = minimize(
        lambda x: float(weights @ x) / unit,
        1 / start,
        jac=lambda x: weights / unit,
        method="SLSQP",
        bounds=[(1.0, one) for one in high],
        constraints={"type": "ineq", "fun": slack, "jac": slopes},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert np.min(slack(found.x)) > -1e-6
    return float(weights @ found.x)
