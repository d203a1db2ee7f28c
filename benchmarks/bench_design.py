"""Designed noise against a common factor and against noise in proportion to sensitivity; and how it scales.

From a checkout: PYTHONPATH=src python benchmarks/bench_design.py [savings] [300] [2500] [5000]. Without
arguments: savings, and 300 cells × 30,000 records. The sizes solve the convex problem of van Trees' bound at
a limit of 50 %, as a plan's first choice of bounds does, on generated cells from 1 to thousands of people.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csc_array

import sightline as sl
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened
from sightline.designing.common_factor import common_factor
from sightline.designing.newton import least_noise
from sightline.designing.problem import NoiseProblem
from sightline.designing.risks import HiddenRisks, inverse_of_sum
from sightline.designing.task import Grain, Loss, task_of
from sightline.examples.shipped import example_plan
from sightline.labeled.bounds.cosine import CosineSquaredPrior
from sightline.labeled.column_forms import MatrixForms
from sightline.labeled.incidence.cells import incidence_of_cells
from sightline.progress import silent

LIMIT = 0.5
EPSILONS = (1.0, 10.0, 30.0, 100.0)


# ------------------------------------------------------------------ savings


def generated_table(folder: Path, people: int = 20_000) -> dict[str, Any]:
    """People in towns and jobs of 1 to about 10,000 people, with noise of 2 hours on every mean."""
    generator = np.random.default_rng(5)
    columns = [_uneven(generator, people, kinds) for kinds in (30, 20, 2)]
    hours = generator.uniform(0, 100, people)
    lines = ["id,town,job,sex,hours"]
    lines += [
        f"{i},t{t},j{j},s{s},{h:.1f}" for i, (t, j, s, h) in enumerate(zip(*columns, hours, strict=True))
    ]
    path = folder / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    groups = ("town", "job", "sex", "town, sex", "job, sex")
    return {
        "data": {"source": str(path), "record": "id", "secret": "hours", "bounds": [0, 100]},
        "release": [
            {
                "name": f"by {one}",
                "sql": f"SELECT {one}, AVG(hours) FROM data GROUP BY {one}",
                "noise_stddev": 2.0,
            }
            for one in groups
        ],
    }


def _uneven(generator: np.random.Generator, people: int, kinds: int) -> np.ndarray:
    shares = (np.arange(kinds) + 1.0) ** -2.2
    return generator.choice(kinds, people, p=shares / shares.sum())


def by_hand(plan: dict[str, Any], stddev: float) -> dict[str, Any]:
    """The plan with one noise on every number."""
    return {**plan, "release": [{**one, "noise_stddev": stddev} for one in plan["release"]]}


def with_budget(plan: dict[str, Any], epsilon: float) -> dict[str, Any]:
    """The plan with a budget in place of noise."""
    releases = [
        {name: value for name, value in one.items() if name != "noise_stddev"} for one in plan["release"]
    ]
    privacy = {"epsilon": epsilon, "delta": 1e-6, "accountant": "gaussian-dp"}
    return {**plan, "privacy": privacy, "release": releases}


def in_proportion_to_sensitivity(plan: dict[str, Any], grain: str) -> float:
    """The loss with noise in proportion to sensitivity, as little as the audit passes with."""
    from sightline.auditing.pricing import price

    checked, base = read_plan(plan)
    with opened(checked, base) as session:
        membership = session.membership(silent)
        task = task_of(checked, membership, limit=LIMIT, grain=Grain(grain), loss=Loss.VARIANCE)
        sensitivity = price(checked, membership).sensitivity
        low, high = 0.0, float(np.max(task.floor / sensitivity))
        while _lowest(task, np.maximum(task.floor, high * sensitivity)) < LIMIT:
            low, high = high, 2 * high
        for _ in range(12):
            middle = (low + high) / 2
            safe = _lowest(task, np.maximum(task.floor, middle * sensitivity)) >= LIMIT
            low, high = (low, middle) if safe else (middle, high)
        return task.total(np.maximum(task.floor, high * sensitivity))


def _lowest(task: Any, stddevs: np.ndarray) -> float:
    return float(task.lowest(stddevs))


def savings() -> None:
    """The table: loss of the design over those of the common factor and of noise by sensitivity."""
    print(f"Loss (sum of variances) of the design over others, with a limit of {LIMIT:.0%}")
    head = f"{'plan':<16}{'noise':<14}{'grain':<9}{'/ common':>10}{'/ sensitivity':>15}"
    print(f"{head}{'raised':>14}{'gap':>10}{'s':>7}")
    with tempfile.TemporaryDirectory() as folder:
        plans = {
            "micro-grid": (_loaded("microgrid"), 10.0),
            "survey": (_loaded("health_survey"), 1.0),
            "generated": (generated_table(Path(folder)), 2.0),
        }
        for name, (plan, stddev) in plans.items():
            cases = {f"sd {stddev:g}": by_hand(plan, stddev)}
            cases |= {f"epsilon {epsilon:g}": with_budget(plan, epsilon) for epsilon in EPSILONS}
            for noise, case in cases.items():
                for grain in ("cell", "release"):
                    _print_case(name, noise, case, grain)


def _loaded(name: str) -> dict[str, Any]:
    import tomllib

    path = example_plan(name)
    content = tomllib.loads(path.read_text())
    content["data"]["source"] = str(path.parent / content["data"]["source"])
    return content


def _print_case(name: str, noise: str, plan: dict[str, Any], grain: str) -> None:
    start = time.perf_counter()
    found = sl.design(plan, limit=LIMIT, grain=grain)
    seconds = time.perf_counter() - start
    head = f"{name:<16}{noise:<14}{grain:<9}"
    if not found.binds:
        below = found.never_binds_below_epsilon
        print(f"{head} the limit does not bind (never below epsilon = {below:.3g}){seconds:>10.1f}")
        return
    rival = in_proportion_to_sensitivity(plan, grain)
    gap = "none" if found.gap is None else f"{found.gap:.0e}"
    print(
        f"{head}{found.loss_designed / found.loss_with_common_factor:>10.3f}"
        f"{found.loss_designed / rival:>15.3f}"
        f"{len(found.raised):>7} of {len(found.noise):<4}{gap:>9}{seconds:>7.1f}"
    )


# ------------------------------------------------------------------ sizes


SIZES = {  # kinds of each public column, groupings, how uneven, people
    300: ((45, 40, 2, 7, 5), ((0,), (1,), (2,), (3,), (4,), (0, 2), (1, 2), (3, 4), (5,)), 2.2, 30_000),
    2_500: (
        (80, 50, 2, 20, 12),
        ((0,), (1,), (2,), (3,), (4,), (0, 1), (5, 2), (0, 4), (3, 4)),
        2.2,
        1_000_000,
    ),
    5_000: (
        (120, 80, 2, 20, 12),
        ((0,), (1,), (2,), (3,), (4,), (0, 1), (5, 2), (0, 4), (3, 4)),
        2.0,
        1_000_000,
    ),
}


def size(cells: int) -> None:
    """Solve one generated problem, and print what it took."""
    start = time.perf_counter()
    problem, records = generated_problem(*SIZES[cells])
    screened = time.perf_counter()
    found = least_noise(problem, tolerance=1e-6)
    assert found is not None
    solved = time.perf_counter()
    rival = common_factor(problem)
    assert rival is not None
    proof = found.cuts.lower_bound(problem)  # again, from prices and recipes alone
    prices = np.concatenate(found.cuts.prices)
    print(
        f"{problem.floors.size:,} cells × {records:,} records: {problem.risks[0].needed.size:,} records "
        f"below the limit, {int(np.sum(prices > 1e-6 * prices.max())):,} binding; {found.rounds} rounds, "
        f"{found.factorisations} factorisations; tables and screening {screened - start:.1f} s, solving "
        f"{solved - screened:.1f} s; gap {(found.upper - proof) / found.upper:.1e}; loss 1/"
        f"{problem.loss(rival.x) / found.upper:.3g} of the common factor's, which took "
        f"{rival.factorisations} factorisations; {_gigabytes():.2f} GB"
    )


def _gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def generated_problem(
    kinds: tuple[int, ...], groupings: tuple[tuple[int, ...], ...], uneven: float, people: int
) -> tuple[NoiseProblem, int]:
    """Means over the cells of crossed columns, with noise of 0.5 hours; the records below the limit."""
    generator = np.random.default_rng(3)
    columns = []
    for count in kinds:
        shares = (np.arange(count) + 1.0) ** -uneven
        columns.append(generator.choice(count, people, p=shares / shares.sum()))
    columns.append(generator.integers(17, 80, people))
    table, widths = [], []
    for grouping in groupings:
        key = np.zeros(people, dtype=np.int64)
        for one in grouping:
            key = key * 1_000 + columns[one]
        cell = np.unique(key, return_inverse=True)[1].ravel()
        table.append(cell.astype(np.int32))
        widths.append(int(cell.max()) + 1)
    signatures, counts = np.unique(np.stack(table, axis=1), axis=0, return_counts=True)
    incidence = incidence_of_cells(signatures, cells=widths, counts=counts)
    unknown = np.ones(len(signatures), dtype=np.bool_)
    gram = incidence.gram(unknown, silent)
    prior = CosineSquaredPrior(0.0, 100.0)
    tau, risk = 1 / prior.fisher_information, LIMIT * prior.variance
    sizes = np.diagonal(gram).copy()
    floors = (0.5 * sizes) ** 2
    inverse = inverse_of_sum(tau * gram, floors)
    forms = MatrixForms(symmetric=(inverse,), offsets=np.zeros(1), linear=np.zeros((0, len(gram))))
    kept = tau - tau**2 * incidence.forms(forms, unknown, silent)[0]
    below = np.flatnonzero(kept < risk)
    needed = np.full(below.size, risk * tau / (tau - risk))
    risks = HiddenRisks(
        columns=csc_array(incidence.columns(below)),
        needed=needed,
        tau=np.full(below.size, tau),
        products=tau * gram,
    )
    problem = NoiseProblem(
        risks=(risks,),
        floors=floors,
        variable=np.arange(floors.size),
        weights=np.full(floors.size, 0.25),  # the variance of a mean at its floor
        ceilings=np.full(floors.size, np.inf),
    )
    return problem, people


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["savings", "300"]
    for one in wanted:
        if one == "savings":
            savings()
        else:
            size(int(one))
