"""Designs for plans that publish their fit: the loss is that of what is published; proposals are audited.

On a full domain of public columns the loss after the fit has a closed form (a sum over the sets of columns
that some table has), and so has the optimum over all noise that releases may share (ResidualPlanner).
"""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import sightline as sl
from sightline.advising.fitted_loss import FittedLoss
from sightline.advising.loss import Loss
from sightline.advising.task import DesignTask, Grain, task_of
from sightline.arrays import FloatArray
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened
from sightline.privacy.accountant import Budget
from sightline.privacy.registry import accountant_named
from sightline.report.design import lines
from tests.advising.tables import CATEGORY, HISTOGRAMS, MEANS, NUMBER, plan_for, write_table

SIZES = {"a": 3, "b": 2, "c": 4}
TABLES = (("a",), ("b", "c"), ("a", "b"), ("c",))
FIT = {"publish": {"consistent": True}}


def full_domain(folder: Path, each: int = 8) -> Path:
    """Everyone of every kind, each as often."""
    kinds = itertools.product(*(range(size) for size in SIZES.values()))
    people = [kind for kind in kinds for _ in range(each)]
    lines = [
        f"{place},{','.join(f'v{one}' for one in kind)},{place % 2}" for place, kind in enumerate(people)
    ]
    (folder / "t.csv").write_text("\n".join(["id,a,b,c,y", *lines]) + "\n")
    return folder / "t.csv"


def tables_plan(path: Path, **changes: Any) -> dict[str, Any]:
    return {
        "data": {"source": str(path), "record": "id", "secret": "y", "bounds": [0, 1], "public": list(SIZES)},
        "privacy": {"epsilon": 3.0, "delta": 1e-6},
        "limits": {"remaining_uncertainty": 0.01},
        "release": [
            {
                "name": "-".join(one),
                "sql": f"SELECT {', '.join(one)}, SUM(y) FROM data GROUP BY {', '.join(one)}",
            }
            for one in TABLES
        ],
        **FIT,
        **changes,
    }


class ClosedForm:
    """The loss after the fit by the shares of the budget, and ResidualPlanner's optimum."""

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.size = np.array([np.prod([SIZES[one] for one in table]) for table in TABLES], dtype=float)
        everyone = float(np.prod(list(SIZES.values())))
        self.each = everyone / self.size
        sets = sorted(
            {
                frozenset(some)
                for table in TABLES
                for k in range(len(table) + 1)
                for some in itertools.combinations(table, k)
            },
            key=sorted,
        )
        self.inside = np.array([[some <= set(table) for table in TABLES] for some in sets], dtype=float)
        self.dimension = np.array([np.prod([SIZES[one] - 1 for one in some]) for some in sets])
        self.shared_optimum = (
            float(np.sum(np.sqrt(self.inside @ self.each / everyone) * self.dimension)) ** 2 / budget
        )

    def after(self, precision: FloatArray) -> float:
        return float(
            np.sum((self.inside @ self.each) * self.dimension / (self.inside @ (precision * self.each)))
        )

    def best(self) -> float:
        def loss(x: FloatArray) -> float:
            return self.after(self.budget * np.exp(x) / np.exp(x).sum())

        return float(minimize(loss, np.zeros(len(TABLES)), method="BFGS", options={"gtol": 1e-10}).fun)


def closed_form() -> ClosedForm:
    return ClosedForm(1 / accountant_named("gaussian-dp", Budget(epsilon=3.0, delta=1e-6)).kappa(1))


def task_for(content: dict[str, Any], loss: Loss = Loss.VARIANCE) -> tuple[DesignTask, FittedLoss]:
    plan, base = read_plan(content)
    with opened(plan, base) as session:
        task = task_of(plan, session.membership(), limit=0.01, grain=Grain.CELL, loss=loss).for_the_fit()
    assert task.fitted is not None
    return task, task.fitted


def test_the_design_for_a_full_domain_is_the_closed_forms(tmp_path: Path) -> None:
    form, path = closed_form(), full_domain(tmp_path)
    raw = sl.design(tables_plan(path, publish={}), loss="variance")
    found = sl.design(tables_plan(path), loss="variance")
    assert raw.loss_before == pytest.approx(len(TABLES) * form.size.sum() / form.budget, rel=1e-6)
    assert raw.loss_designed == pytest.approx(np.sum(np.sqrt(form.size)) ** 2 / form.budget, rel=1e-5)
    assert found.loss_before == pytest.approx(
        form.after(np.full(len(TABLES), form.budget / len(TABLES))), rel=1e-6
    )
    best = form.best()
    assert found.loss_designed == pytest.approx(best, rel=1e-6)
    assert found.loss_at_least is not None
    assert found.loss_designed * 0.999 <= found.loss_at_least <= best * (1 + 1e-6)
    assert form.shared_optimum < best
    assert found.passed
    assert found.budget is not None
    assert found.budget.epsilon_spent <= 3.0 * (1 + 1e-9)
    printed = "\n".join(lines(found))
    assert "the weighted sum of variances, after the fit" in printed
    assert "error of a typical number after the fit: from ± " in printed
    assert "for any noise within the budget: at most 0" in printed


@given(st.integers(0, 10**6))
def test_weights_majorise_and_the_bound_is_below_every_noise_within_the_budget(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    task, fitted = made_once(tmp_path_factory)
    one, other = (within_budget(task, np.exp(generator.uniform(-2, 2, task.before.size))) for _ in range(2))
    weights = fitted.weights(one)
    assert weights @ one**2 == pytest.approx(fitted.total(one), rel=1e-7)
    assert fitted.total(other) <= weights @ other**2 * (1 + 1e-9)
    at_least = fitted.at_least(one, task.floor, task.paid)
    assert at_least is not None
    assert at_least <= min(fitted.total(one), fitted.total(other)) * (1 + 1e-9)


MADE: list[tuple[DesignTask, FittedLoss]] = []


def made_once(factory: pytest.TempPathFactory) -> tuple[DesignTask, FittedLoss]:
    if not MADE:
        MADE.append(task_for(tables_plan(full_domain(factory.mktemp("full")))))
    return MADE[0]


def within_budget(task: DesignTask, stddevs: FloatArray) -> FloatArray:
    return np.asarray(stddevs * np.sqrt(task.paid.cost(stddevs) / task.paid.most) * (1 + 1e-12))


@pytest.mark.parametrize("loss", list(Loss))
def test_the_loss_is_that_of_a_dense_fit_with_a_column_for_every_person(loss: Loss, tmp_path: Path) -> None:
    rows = [
        dict(zip(("id", "town", "job"), line.split(","), strict=False))
        for line in write_table(tmp_path).read_text().splitlines()[1:]
    ]
    derived = {
        "name": "means",
        "sql": "SELECT job, AVG(hours) FROM data GROUP BY job",
        "derived": True,
        "weight": 3.0,
    }
    measured = ({**MEANS[0], "times": 4}, {**MEANS[1], "weight": 2.0}, MEANS[2])
    content = plan_for(tmp_path / "people.csv", measured, noise=2.0, data=NUMBER, **FIT)
    content["release"].append(derived)
    task, fitted = task_for(content, loss)
    A, weight, times = [], [], []
    for part, cell in [(task.membership.partitions[c.partition], c) for c in task.membership.cells] + list(
        zip(fitted.derived.partitions, fitted.derived.cells, strict=True)
    ):
        inside = np.array(
            [not cell.key or cell.key[0] in (row["town"], row["job"]) for row in rows], dtype=float
        )
        A.append(inside / (1.0 if content["release"][part.query]["name"] == "by job" else inside.sum()))
        weight.append(content["release"][part.query].get("weight", 1.0))
        times.append(content["release"][part.query].get("times", 1))
    every, count = np.array(A), len(task.membership.cells)

    def variances(stddevs: FloatArray) -> FloatArray:
        white = every[:count] * np.sqrt(times[:count])[:, None] / stddevs[:, None]
        return np.einsum("qi,ij,qj->q", every, np.linalg.pinv(white.T @ white, rcond=1e-9), every)

    stddevs = np.random.default_rng(2).uniform(1, 30, count)
    np.testing.assert_allclose(fitted.variances(stddevs), variances(stddevs), rtol=1e-6)
    members = (every > 0).sum(axis=1)
    reach = 100 * every.max(axis=1)  # a mean moves by one of its members
    over = {
        Loss.RELATIVE: variances(np.full(count, 2.0)),
        Loss.SIZE: reach**2 * [next(one for one in (10, 20, 50) if one >= size) for size in members],
        Loss.VARIANCE: 1.0,
    }[loss]
    assert task.total(stddevs) == pytest.approx(
        float(np.array(weight) @ (variances(stddevs) / over)), rel=1e-6
    )


CASES: dict[str, dict[str, Any]] = {
    "number": {"releases": MEANS, "data": NUMBER},
    "grain release": {"releases": MEANS, "data": NUMBER, "grain": "release"},
    "category": {"releases": HISTOGRAMS, "data": CATEGORY},
    "ceiling": {"releases": ({**MEANS[0], "noise_within": [0.0, 40.0]}, *MEANS[1:]), "data": NUMBER},
    "published": {"releases": ({**MEANS[0], "published": True}, *MEANS[1:]), "data": NUMBER},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_proposal_passes_and_loses_no_more_than_the_design_for_raw_numbers(
    name: str, tmp_path: Path
) -> None:
    case = dict(CASES[name])
    grain = case.pop("grain", "cell")
    content = plan_for(write_table(tmp_path), noise=2.0, limits={"remaining_uncertainty": 0.5}, **case)
    raw = sl.design(content, loss="variance", grain=grain)
    found = sl.design({**content, **FIT}, loss="variance", grain=grain)
    assert (raw.binds, raw.passed) == (found.binds, found.passed)
    task, fitted = task_for({**content, **FIT})
    after = fitted.total(np.array([one.stddev for one in raw.noise]))
    assert (
        found.loss_designed
        <= after * (1 + 1e-9)
        <= raw.loss_designed * (1 + 1e-6) + fitted.total(task.before)
    )
    audit = sl.audit(tomllib.loads(found.plan))
    assert audit.verdict.passed == found.passed
    assert audit.verdict.below_limit == 0
    without = sl.audit({**tomllib.loads(found.plan), "publish": {}})
    assert without.verdict.below_limit == 0


@pytest.mark.slow
def test_a_release_that_deserves_no_budget_is_better_derived_if_it_follows(tmp_path: Path) -> None:
    path = full_domain(tmp_path)
    content = tables_plan(path)
    content["release"].append({"name": "total", "sql": "SELECT SUM(y) FROM data", "weight": 1e-6})
    content["release"].append(
        {"name": "finest", "sql": "SELECT a, c, SUM(y) FROM data GROUP BY a, c", "weight": 1e-9}
    )
    found = sl.design(content, loss="variance")
    assert found.better_derived == ("total",)  # the finest follows from nothing, however little it is worth
    assert '"total" gets less than 1 % of the budget' in "\n".join(lines(found))
    followed = {
        **content,
        "release": [
            {**one, "derived": True} if one["name"] == "total" else one for one in content["release"]
        ],
    }
    again = sl.design(followed, loss="variance")
    assert again.passed
    assert again.loss_designed <= found.loss_designed * (1 + 1e-3)
    audit = sl.audit(tomllib.loads(again.plan))
    assert audit.releases[4].note.startswith("computed from the fit")
