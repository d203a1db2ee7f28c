"""Limits by all genies at once, and by linear attacks: slopes, the audit's own ends, what a design saves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sightline as sl
from sightline.advising import proposal
from sightline.advising.choice import best_noise, quick_noise, targets_of
from sightline.advising.crowd_limits import attack_limits
from sightline.advising.loss import Loss
from sightline.advising.task import DesignTask, Grain, task_of
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened
from tests.advising.tables import CATEGORY, YES_OR_NO, plan_for, write_table

LIMITS = {"remaining_uncertainty": 0.5, "accept": ["homogeneous"]}
GROUPS = ("town", "job")
SUMS = tuple({"name": g, "sql": f"SELECT {g}, SUM(ill) FROM data GROUP BY {g}"} for g in GROUPS)
COUNTED = ", ".join(f"COUNT(*) FILTER (WHERE party = '{one}')" for one in CATEGORY["categories"])
SHARES = tuple({"name": g, "sql": f"SELECT {g}, {COUNTED} FROM data GROUP BY {g}"} for g in GROUPS)
PLANS: dict[str, dict[str, Any]] = {
    "yes or no": {"releases": SUMS, "noise": 0.3, "data": YES_OR_NO},
    "other odds": {
        "releases": SUMS,
        "noise": 0.3,
        "data": YES_OR_NO,
        "attacker": {"prior": {"yes": 0.2}},
    },
    "category": {"releases": SHARES, "noise": 0.3, "data": CATEGORY},
}


def task_for(folder: Path, name: str, people: int = 40) -> DesignTask:
    content = plan_for(write_table(folder, people=people), **PLANS[name], limits=LIMITS)
    plan, base = read_plan(content)
    with opened(plan, base) as session:
        return task_of(session.plan, session.membership(), limit=0.5, grain=Grain.CELL, loss=Loss.VARIANCE)


@pytest.mark.parametrize("name", PLANS)
def test_a_tangent_is_above_the_limit_by_what_the_limit_curves(tmp_path: Path, name: str) -> None:
    """At its own noise it is the share that is used, and so are its slopes."""
    task, step = task_for(tmp_path, name), 1e-6
    assert task.crowd is not None
    precisions = 1 / (task.row_floors * 8 * np.linspace(1, 2, task.rows))
    at = task.crowd.at(precisions)
    persons, _, tangents = at.tangents()
    assert at.shares.min() > 0.1
    shares, room = at.shares, tangents @ precisions
    assert persons.size > 5
    # (1 - s + slope p) room = slope p, with both of them at this noise.
    used = room * (1 - shares) / (1 - room)
    for row in range(task.rows):
        moved = precisions.copy()
        moved[row] *= 1 + step
        change = (task.crowd.at(moved).shares - shares) / step
        slopes = tangents[:, row] * precisions[row] * used / np.where(room > 0, room, 1)
        assert_allclose(slopes, np.maximum(change, 0), atol=2e-4 * float(np.abs(change).max() + 1))


@pytest.mark.parametrize("name", PLANS)
def test_linear_attacks_leave_what_the_upper_ends_of_the_audit_say(tmp_path: Path, name: str) -> None:
    task = task_for(tmp_path, name)
    stddevs = task.floor * np.linspace(3, 9, task.floor.size)
    upper = task.audited(stddevs).exposure.upper
    precisions = 1 / (stddevs[task.linear.cells] ** 2 * task.row_unit)
    for limit in (0.3, 0.6, 0.9):
        limits = attack_limits(task.linear, np.arange(len(task.linear.units)), limit)
        broken = np.zeros(upper.size, dtype=bool)
        broken[limits.own] = limits.at(precisions).shares > 1
        sure = np.abs(upper.ravel() - limit) > 1e-9
        assert np.array_equal(broken[sure], (upper.ravel() < limit)[sure])
        assert broken.any() or limit < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_a_crowd_needs_less_noise_than_one_who_hides_alone(tmp_path: Path, name: str) -> None:
    task = task_for(tmp_path, name, people=60)
    targets = targets_of(task)
    alone, chosen = quick_noise(task, targets), best_noise(task, targets, [])
    assert chosen.attacked is not None
    assert chosen.attacked.optimum.lower <= chosen.optimum.upper < 0.9 * alone.optimum.upper
    assert task.lowest(task.stddevs(task.factors(chosen.optimum.u))) > 0.5 * (1 - 1e-3)
    # The least noise that linear attacks allow is none that passes, if it is below what the proposal has.
    if chosen.attacked.optimum.upper > task.problem().loss(np.ones(task.variables + 1)) * 1.01:
        assert task.lowest(task.stddevs(task.factors(chosen.attacked.optimum.u) * 0.98)) < 0.5


@pytest.mark.slow
def test_the_audit_passes_with_less_by_its_walks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposal, "_TRIES", 3)
    even = [f"P{one},t{one % 4},j{one // 4 % 3},{one // 3 % 2},s{one % 5}" for one in range(30)]
    (tmp_path / "people.csv").write_text("\n".join(["id,town,job,ill,sky", *even]))
    content = plan_for(tmp_path / "people.csv", **PLANS["yes or no"], limits=LIMITS)
    sql = "SELECT sky, SUM(ill) FROM data GROUP BY sky"
    content["release"].append({"name": "by sky", "sql": sql, "noise_stddev": 0.3})
    found = sl.design(content, loss="variance")
    assert found.passed
    assert found.by_attacks
    assert found.loss_at_least is not None
    assert found.loss_at_least <= found.loss_designed
    (tmp_path / "proposed.toml").write_text(found.plan)
    again = sl.audit(tmp_path / "proposed.toml", verdict_only=True)
    assert again.verdict.passed
    plan, base = read_plan(content)
    with opened(plan, base) as session:
        membership = session.membership()
    task = task_of(plan, membership, limit=0.5, grain=Grain.CELL, loss=Loss.VARIANCE)
    assert found.loss_designed < 0.95 * best_noise(task, targets_of(task), []).optimum.upper
