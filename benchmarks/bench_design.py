"""Designed noise against a common factor and against noise in proportion to sensitivity; and how it scales.

From a checkout: PYTHONPATH=src python benchmarks/bench_design.py [savings] [fit] [counts] [300] [2500]
[5000]. Without arguments: savings, and 300 cells × 30,000 records. ``counts`` shares a budget among two sets
of tables of counts of the shipped survey, for raw numbers and for their fit. ``fit`` designs noise for the
least-squares fit, beside the closed forms of a full domain: of independent noise, and of noise that releases
share (ResidualPlanner). The sizes are whole designs of a generated table with cells from 1 to thousands of
people at a limit of 50 %: reading the table is timed apart.
"""

from __future__ import annotations

import itertools
import resource
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from scipy.optimize import minimize

import sightline as sl
from benchmarks.history import machine_unit, measured
from sightline.advising.loss import Loss
from sightline.advising.proposal import proportional
from sightline.advising.task import Grain, task_of
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened
from sightline.examples.shipped import example_plan
from sightline.privacy.accountant import Budget
from sightline.privacy.registry import accountant_named

LIMIT = 0.5
EPSILONS = (1.0, 10.0, 30.0, 100.0)
FITS = ({}, {"consistent": True})  # sections [publish]


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
    """The loss with noise in proportion to sensitivity, as little as keeps the limit (and the budget)."""
    checked, base = read_plan(plan)
    with opened(checked, base) as session:
        membership = session.membership()
        task = task_of(checked, membership, limit=LIMIT, grain=Grain(grain), loss=Loss.VARIANCE)
        (found,) = proportional(task)  # enough noise keeps every limit
        return float(task.total(found))


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
    path = example_plan(name)
    content = tomllib.loads(path.read_text())
    content["data"]["source"] = str(path.parent / content["data"]["source"])
    return content


def _print_case(name: str, noise: str, plan: dict[str, Any], grain: str) -> None:
    start = time.process_time()
    found = sl.design(plan, limit=LIMIT, grain=grain)
    seconds = time.process_time() - start
    rival = in_proportion_to_sensitivity(plan, grain)
    gap = "none" if found.gap is None else f"{found.gap:.0e}"
    binds = (
        ""
        if found.binds
        else f"  the limit does not bind (never below {found.never_binds_below_epsilon:.3g})"
    )
    print(
        f"{name:<16}{noise:<14}{grain:<9}{found.loss_designed / found.loss_with_common_factor:>10.3f}"
        f"{found.loss_designed / rival:>15.3f}"
        f"{len(found.raised):>7} of {len(found.noise):<4}{gap:>9}{seconds:>7.1f}{binds}",
        flush=True,
    )
    measured(f"loss, {name}, {noise}, {grain}", found.loss_designed / rival, rival="noise by sensitivity")


# ------------------------------------------------------------------ the fit


def full_domain(folder: Path) -> tuple[dict[str, Any], float, float, float]:
    """A plan over everyone of 12 × 8 × 5 kinds with all two-way tables; the loss of an equal split of the
    budget, and the least losses after the fit: of independent noise, and of noise that releases share.
    """
    names, sizes = ("a", "b", "c"), np.array([12, 8, 5])
    kinds = np.array(list(itertools.product(*map(range, sizes))))
    lines = [f"{place},{','.join(f'v{one}' for one in kind)},{place % 2}" for place, kind in enumerate(kinds)]
    (folder / "full.csv").write_text("\n".join(["id,a,b,c,y", *lines]) + "\n")
    tables = list(itertools.combinations(range(3), 2))
    plan = {
        "data": {"source": str(folder / "full.csv"), "record": "id", "secret": "y", "bounds": [0, 1]},
        "release": [
            {
                "name": f"{names[i]}, {names[j]}",
                "sql": f"SELECT {names[i]}, {names[j]}, SUM(y) FROM data GROUP BY {names[i]}, {names[j]}",
            }
            for i, j in tables
        ],
        "limits": {"accept": ["homogeneous"]},
    }
    budget = 1 / accountant_named("gaussian-dp", Budget(epsilon=3.0, delta=1e-6)).kappa(1)
    cells = np.array([float(np.prod(sizes[list(table)])) for table in tables])
    each = len(kinds) / cells
    sets = sorted({some for t in tables for k in range(3) for some in itertools.combinations(t, k)})
    inside = np.array([[set(some) <= set(table) for table in tables] for some in sets], dtype=float)
    dimension = np.array([np.prod([sizes[one] - 1 for one in some]) for some in sets])

    def after(x: np.ndarray) -> float:
        precision = budget * np.exp(x) / np.exp(x).sum()
        return float(np.sum((inside @ each) * dimension / (inside @ (precision * each))))

    independent = float(minimize(after, np.zeros(len(tables)), method="BFGS", options={"gtol": 1e-10}).fun)
    shared = float(np.sum(np.sqrt(inside @ each / len(kinds)) * dimension)) ** 2 / budget
    return plan, len(tables) * float(cells.sum()) / budget, independent, shared


def fit() -> None:
    """The table: losses after the fit of noise designed for it, over those of raw numbers."""
    with tempfile.TemporaryDirectory() as folder:
        plan, equal, independent, shared = full_domain(Path(folder))
        plan = with_budget(plan, 3.0)
        raw, found = (sl.design(plan | {"publish": one}, limit=0.01, loss="variance") for one in FITS)
        print(f"full domain: raw {raw.loss_designed / equal:.4f} of the equal split, for the fit", end=" ")
        print(f"{found.loss_designed / equal:.4f}; closed form {independent / equal:.4f}", end=", ")
        print(f"noise shared over releases {shared / equal:.4f}; gap {found.gap or 0:.1e}", flush=True)
        measured("loss for the fit, full domain", found.loss_designed / independent, rival="the closed form")
    for name, limit in (("microgrid", 0.5), ("salaries", 0.97), ("orders", 0.97), ("census", 0.9)):
        plan, start = _loaded(name), time.process_time()
        raw, found = (sl.design(plan | {"publish": one}, limit=limit, loss="variance") for one in FITS)
        seconds, share = time.process_time() - start, found.loss_designed / raw.loss_designed
        print(f"{name}: {share:.4f} of the loss of raw numbers; both {seconds:.1f} CPU s", flush=True)
        measured(f"loss for the fit, {name}", share, rival="the design for raw numbers")


# ------------------------------------------------------------------ counts


COUNTS = {
    1_000: ("education", "gender, origin", "age", "gender, age"),
    5_000: (
        "education",
        "marital_status, gender",
        "income",
        "origin, gender",
        "decade, gender",
        "education, gender",
        "income, decade",
    ),
}


def counts() -> None:
    """Counts of the insured at epsilon 3, for every conceivable person: shares of the equal split."""
    for people, groups in COUNTS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "people.parquet"
            duckdb.execute(
                "COPY (SELECT * EXCLUDE (health, has_smoked, bmi), age // 10 AS decade "
                f"FROM '{_loaded('health_survey')['data']['source']}' "
                "WHERE columns(* EXCLUDE (health, has_smoked, bmi)) IS NOT NULL "
                f"ORDER BY person LIMIT {people}) TO '{path}' (FORMAT parquet)"
            )
            columns = "COUNT(*) FILTER (WHERE insured)"
            releases = [
                {"name": one, "sql": f"SELECT {one}, {columns} AS n FROM data GROUP BY {one}"}
                for one in groups
            ]
            data = {"source": str(path), "record": "person", "secret": "insured", "kind": "boolean"}
            accept = {"accept": ["homogeneous", "groups", "few_values", "empty"]}
            plan = with_budget({"data": data, "release": releases, "limits": accept}, 3.0)
            start = time.process_time()
            raw, found = (sl.design(plan | {"publish": one}, limit=0.01, loss="variance") for one in FITS)
            seconds = time.process_time() - start
        equal = raw.loss_before
        print(
            f"{len(groups)} tables × {people:,} people, {len(raw.noise)} numbers: raw "
            f"{raw.loss_designed / equal:.4f} of the equal split (gap {raw.gap or 0:.1e}), for the fit "
            f"{found.loss_designed / equal:.4f} (at most {found.gap or 0:.2%} above the least); "
            f"the equal split after the fit {found.loss_before / equal:.4f}; both {seconds:.1f} CPU s",
            flush=True,
        )
        share = found.loss_designed / raw.loss_designed
        measured(
            f"loss for the fit, {len(groups)} tables of counts", share, rival="the design for raw numbers"
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
    """Design one generated table, and print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        plan, people = generated_sizes(Path(folder), *SIZES[cells])
        start = time.perf_counter()
        checked, base = read_plan(plan)
        with opened(checked, base) as session:
            session.membership()
        reading = time.perf_counter() - start
        start, cpu = time.perf_counter(), time.process_time()
        found = sl.design(plan, limit=LIMIT)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    gap = "none" if found.gap is None else f"{found.gap:.1e}"
    print(
        f"{len(found.noise):,} cells × {people:,} records: designed in {seconds - reading:.1f} s after "
        f"{reading:.1f} s for the table ({cpu:.1f} s of CPU in all), {_gigabytes():.2f} GB; "
        f"{found.rounds} rounds at last, "
        f"{found.attacks_in_all:,} binding records, {len(found.raised):,} numbers raised; gap {gap}; loss 1/"
        f"{found.loss_with_common_factor / found.loss_designed:.3g} of the common factor's; the audit "
        f"{'passes' if found.passed else 'does NOT pass'}",
        flush=True,
    )
    measured(
        f"{len(found.noise):,} numbers × {people:,} people",
        cpu / machine_unit(),
        rival="the machine's unit",
        memory=_gigabytes(),
    )


def _gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def generated_sizes(
    folder: Path,
    kinds: tuple[int, ...],
    groupings: tuple[tuple[int, ...], ...],
    uneven: float,
    people: int,
) -> tuple[dict[str, Any], int]:
    """Means of hours over the cells of crossed columns, with noise of half an hour."""
    generator = np.random.default_rng(3)
    columns = {}
    for place, count in enumerate(kinds):
        shares = (np.arange(count) + 1.0) ** -uneven
        columns[f"c{place}"] = generator.choice(count, people, p=shares / shares.sum())
    columns[f"c{len(kinds)}"] = generator.integers(17, 80, people)
    columns["id"], columns["hours"] = np.arange(people), generator.uniform(0, 100, people)
    path = folder / "people.parquet"
    engine = duckdb.connect()
    engine.execute("CREATE TABLE people AS SELECT * FROM columns")
    engine.execute(f"COPY people TO '{path}' (FORMAT parquet)")
    releases = []
    for grouping in groupings:
        keys = ", ".join(f"c{place}" for place in grouping)
        sql = f"SELECT {keys}, AVG(hours) FROM data GROUP BY {keys}"
        releases.append({"name": f"by {keys}", "sql": sql, "noise_stddev": 0.5})
    data = {"source": str(path), "record": "id", "secret": "hours", "bounds": [0, 100]}
    # Of two random values in a small group both may be near 0. What that tells does not depend on the design.
    return {"data": data, "release": releases, "limits": {"accept": ["homogeneous"]}}, people


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["savings", "300"]
    for one in wanted:
        if one == "savings":
            savings()
        elif one == "fit":
            fit()
        elif one == "counts":
            counts()
        else:
            size(int(one))
