"""What to withhold where the ceilings are too low: against brute force, and through the audit."""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from sightline.advising.choice import best_noise, targets_of
from sightline.advising.least_noise import NotEnough
from sightline.advising.loss import Loss
from sightline.advising.proposal import solve
from sightline.advising.suppression import (
    Ceilings,
    replaced_task,
    smallest_conflict,
    smallest_hitting_set,
    smallest_suppression,
)
from sightline.advising.task import DesignTask, Grain, task_of
from sightline.arrays import IndexArray
from sightline.auditing.reading import read_plan, with_limit
from sightline.auditing.session import opened
from sightline.cli import main
from sightline.errors import InvalidPlan
from tests.advising.tables import (
    CATEGORY,
    COUNTS,
    HISTOGRAMS,
    MEANS,
    NUMBER,
    YES_OR_NO,
    plan_for,
    write_table,
)

SECRETS: dict[str, tuple[dict[str, Any], tuple[dict[str, Any], ...], float, float]] = {
    "number": (NUMBER, MEANS, 1.0, 5.0),
    "yes or no": (YES_OR_NO, COUNTS, 0.1, 0.3),
    "category": (CATEGORY, HISTOGRAMS, 0.1, 0.3),
}


def capped(folder: Path, name: str = "number", *, people: int = 40, seed: int = 0) -> dict[str, Any]:
    """A plan whose ceilings are too low."""
    data, releases, noise, most = SECRETS[name]
    return plan_for(
        write_table(folder, people=people, seed=seed),
        tuple({**one, "noise_within": [0, most]} for one in releases),
        noise=noise,
        data=data,
        limits={"accept": ["homogeneous"]},
    )


def task_for(content: dict[str, Any], limit: float) -> DesignTask:
    plan, base = read_plan(content)
    plan = with_limit(plan, limit)
    with opened(plan, base) as session:
        membership = session.membership()
    return task_of(plan, membership, limit=limit, grain=Grain.CELL, loss=Loss.VARIANCE)


# ------------------------------------------------------------------ the search


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=4), max_size=8))
def test_the_hitting_set_is_the_smallest_one(sets: list[list[int]]) -> None:
    """Against all subsets of eight units, with conflicts that come one by one."""
    hidden = [np.unique(one) for one in sets]

    def conflicts(kept: IndexArray) -> list[IndexArray]:
        return [one for one in hidden if np.isin(one, kept).all()][:1]

    def passes(left_out: tuple[int, ...]) -> bool:
        return all(np.isin(one, left_out).any() for one in hidden)

    (found,) = smallest_hitting_set(8, conflicts)
    subsets = [s for size in range(9) for s in itertools.combinations(range(8), size)]
    assert passes(tuple(found.chosen.tolist()))
    assert found.chosen.size == found.at_least == min(len(s) for s in subsets if passes(s))
    (early,) = smallest_hitting_set(8, conflicts, tries=1)
    assert passes(tuple(early.chosen.tolist()))
    assert early.at_least <= found.chosen.size <= early.chosen.size


def test_nothing_helps_if_nothing_fails_by_itself() -> None:
    assert smallest_hitting_set(3, lambda kept: [np.zeros(0, dtype=np.intp)]) == []


@given(st.integers(1, 12), st.sets(st.integers(0, 11), max_size=4))
def test_no_unit_of_a_conflict_can_be_spared(size: int, needed: set[int]) -> None:
    core = {one for one in needed if one < size} or {0}
    found = smallest_conflict(np.arange(size), lambda units: core <= set(units.tolist()))
    assert set(found.tolist()) == core


# ------------------------------------------------------------------ numbers to withhold


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", SECRETS)
def test_no_fewer_numbers_are_enough(tmp_path: Path, name: str, seed: int) -> None:
    """All sets that are smaller by one, audited with the most noise: none passes. Larger ones do no worse."""
    people = {"category": 3, "yes or no": 5}.get(name, 6)
    task = task_for(capped(tmp_path, name, people=people, seed=seed), 0.4)
    ceilings, (found,) = Ceilings.of(task), smallest_suppression(task)
    everything = ceilings.may_go
    assert ceilings.passes(np.setdiff1d(everything, found.chosen))
    size = found.chosen.size
    assert found.at_least == (size if task.crowd is None else 0)  # walks are not tried
    fewer = itertools.combinations(everything.tolist(), size - 1)
    tried = [ceilings.passes(np.setdiff1d(everything, gone)) for gone in fewer]
    assert tried
    assert not any(tried)


@pytest.mark.thorough
def test_a_quick_audit_agrees_with_the_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the bounds for small plans, for pairs, and over all worlds: it does not know them."""
    with_none = {
        "with_lines": lambda design, lower, upper: lower,
        "of_few_values": lambda found, **_: found,
    }

    def least(ceilings: Ceilings, kept: np.ndarray) -> float:
        found = ceilings.audited(kept)
        return 1.0 if found is None or found.least is None else found.least.lower

    for name in ("number", "yes or no"):
        ceilings = Ceilings.of(task_for(capped(tmp_path, name, people=25), 0.5))
        cells = ceilings.may_go
        generator = np.random.default_rng(5)
        for _ in range(12):
            kept = cells[generator.random(cells.size) < 0.4]
            quickly = ceilings.quick(kept)[0]
            with monkeypatch.context() as patched:
                for bound, none in with_none.items():
                    patched.setattr(f"sightline.bounds.assessment.{bound}", none)
                patched.setattr(
                    "sightline.auditing.findings.with_walk", lambda design, lower, upper, limit: lower
                )
                assert quickly == pytest.approx(least(ceilings, kept), rel=1e-6)
            assert quickly <= least(ceilings, kept) * (1 + 1e-6)


@pytest.mark.slow
def test_ceilings_that_only_the_audit_shows_to_be_enough(tmp_path: Path) -> None:
    """The audit of a small plan has a bound that the optimiser lacks: what passes is not refused."""
    task = task_for(capped(tmp_path), 0.5)
    (gone,) = smallest_suppression(task)
    kept = replaced_task(task, gone.chosen, Grain.CELL)
    ceilings = [kept.stddevs(kept.most_factors)]
    with pytest.raises(NotEnough):
        best_noise(kept, targets_of(kept), ceilings)
    found = solve(kept)
    assert found.chosen == ()
    assert found.loss_at_least is None
    assert np.all(found.proof.stddevs <= kept.most)
    assert kept.limit <= kept.lowest(found.proof.stddevs) <= kept.limit + 0.01


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", SECRETS)
def test_the_plan_withholds_them_and_passes_the_audit(tmp_path: Path, name: str) -> None:
    plan = capped(tmp_path, name)
    found = sl.design(plan, limit=0.5)
    gone, proposed = found.suppressed, tomllib.loads(found.plan)
    assert gone is not None
    assert found.passed
    checked = sl.audit(proposed)
    assert checked.verdict.passed is True
    before = sl.audit(plan, limit=0.5)
    assert before.cells - checked.cells == len(gone.withheld)
    assert gone.at_least == (0 if name in ("yes or no", "category") else len(gone.withheld))
    assert len(found.noise) == checked.cells
    assert max(one.stddev for one in found.noise) <= SECRETS[name][3]


@pytest.mark.slow
def test_what_is_published_is_not_withheld(tmp_path: Path) -> None:
    plan = capped(tmp_path)
    for release in plan["release"][:2]:
        del release["noise_within"]
    plan["release"][1].update(published=True, noise_stddev=100.0)
    plan["release"][2]["noise_within"] = [0, 1.5]
    found = sl.design(plan, limit=0.5)
    assert found.suppressed is not None
    assert {one.release for one in found.suppressed.withheld} == {"by job"}
    assert found.passed
    plan["release"][1]["noise_stddev"] = 1.0
    with pytest.raises(InvalidPlan, match="with the most noise that the plan allows, one record may keep"):
        sl.design(plan, limit=0.5)


@pytest.mark.slow
def test_a_release_that_is_withheld_as_a_whole_is_left_out(tmp_path: Path) -> None:
    plan = plan_for(
        write_table(tmp_path),
        (
            {"name": "most", "sql": "SELECT AVG(hours) FROM data WHERE id <> 'P3'"},
            {"name": "one", "sql": "SELECT AVG(hours) FROM data WHERE id = 'P3'", "noise_within": [0, 2.0]},
        ),
        noise=1.0,
        data=NUMBER,
    )
    found = sl.design(plan, limit=0.5)
    assert found.suppressed is not None
    assert [one.release for one in found.suppressed.withheld] == ["one"]
    assert [one["name"] for one in tomllib.loads(found.plan)["release"]] == ["most"]
    assert found.passed


@pytest.mark.slow
def test_the_command_says_what_is_withheld(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sightline.auditing.reading import plan_text

    path, out = tmp_path / "plan.toml", tmp_path / "designed.toml"
    path.write_text(plan_text(read_plan(capped(tmp_path, people=12))[0]))
    assert main(["design", str(path), "--limit", "50%", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "must be withheld, because no noise below the ceilings is enough; no fewer are enough" in printed
    assert main(["audit", str(out)]) == 0
