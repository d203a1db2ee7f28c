"""Wish lists: the most valuable releases that can be published together, against all choices."""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.auditing.reading import read_plan, with_limit
from sightline.auditing.session import opened
from sightline.cli import main
from sightline.designing.summary import lines
from sightline.designing.task import Grain, Loss
from sightline.designing.wishes import DesignOptions, _Wishes, granted_wishes
from sightline.errors import InvalidPlan
from sightline.progress import silent
from tests.designing.tables import NUMBER, plan_for, write_table

TOTAL = {"name": "all", "sql": "SELECT AVG(hours) FROM data"}
WISHES = (
    {"name": "towns", "sql": "SELECT town, AVG(hours) FROM data GROUP BY town", "weight": 4.0},
    {"name": "jobs", "sql": "SELECT job, AVG(hours) FROM data GROUP BY job", "weight": 3.0},
    {"name": "t1", "sql": "SELECT AVG(hours) FROM data WHERE town = 't1'", "weight": 2.0},
    {"name": "not t1", "sql": "SELECT AVG(hours) FROM data WHERE town <> 't1'", "weight": 2.5},
    {"name": "not P3", "sql": "SELECT AVG(hours) FROM data WHERE id <> 'P3'", "weight": 1.0},
)


def wished(folder: Path, most: float, *, people: int = 40, **changes: Any) -> dict[str, Any]:
    wishes = tuple({**one, "optional": True, "most_noise_stddev": most, **changes} for one in WISHES)
    return plan_for(write_table(folder, people=people), (TOTAL, *wishes), noise=1.0, data=NUMBER)


@pytest.mark.slow
@pytest.mark.parametrize(("most", "limit"), [(3.0, 0.3), (20.0, 0.5), (60.0, 0.7)])
def test_no_choice_is_worth_more(tmp_path: Path, most: float, limit: float) -> None:
    """All choices of five wishes, each audited with the most noise."""
    plan, base = read_plan(wished(tmp_path, most))
    plan = with_limit(plan, limit)
    with opened(plan, base) as session:
        membership = session.membership(silent)
    options = DesignOptions(limit=limit, grain=Grain.CELL, loss=Loss.VARIANCE)
    found = granted_wishes(plan, membership, options)
    assert found is not None
    wishes = _Wishes(plan=plan, membership=membership, options=options)
    weights = {query: plan.releases[query].weight for query in wishes.optional.tolist()}
    values = [
        sum(weights[query] for query in chosen)
        for size in range(6)
        for chosen in itertools.combinations(weights, size)
        if not wishes.fails(np.array(chosen, dtype=np.intp))
    ]
    assert found.wishes.value == found.wishes.value_at_most == max(values)
    assert sorted(found.wishes.kept + found.wishes.given_up) == sorted(str(one["name"]) for one in WISHES)


@pytest.mark.slow
def test_the_plan_has_the_wishes_that_are_kept_and_passes(tmp_path: Path) -> None:
    found = sl.design(wished(tmp_path, 20.0), limit=0.5)
    wishes, proposed = found.wishes, tomllib.loads(found.plan)
    assert wishes is not None
    assert wishes.given_up
    assert {one["name"] for one in proposed["release"]} == {"all", *wishes.kept}
    assert found.suppressed is None
    assert found.passed
    assert sl.audit(proposed).verdict.passed is True
    assert any("no choice is worth more than" in line for line in lines(found))


@pytest.mark.slow
def test_a_coarser_release_stands_in_for_a_finer_one(tmp_path: Path) -> None:
    """By towns is too fine; two halves are not. Where both could be kept, the dearer one is."""
    halves = (
        "SELECT CASE WHEN town = 't1' THEN 'a' ELSE 'b' END AS half, AVG(hours) FROM data "
        "GROUP BY CASE WHEN town = 't1' THEN 'a' ELSE 'b' END"
    )
    fine = {**WISHES[0], "optional": True, "most_noise_stddev": 20.0}
    coarse = {"name": "halves", "sql": halves, "optional": True, "weight": 1.0, "instead_of": "towns"}
    plan = plan_for(write_table(tmp_path), (TOTAL, fine, coarse), noise=1.0, data=NUMBER)
    found = sl.design(plan, limit=0.5)
    assert found.wishes is not None
    assert found.wishes.kept == ("halves",)
    plan["release"][1]["most_noise_stddev"] = 1e4
    found = sl.design(plan, limit=0.5)
    assert found.wishes is not None
    assert found.wishes.kept == ("towns",)
    assert found.wishes.reasons == (("towns", "halves"),)
    assert "instead_of" not in found.plan


@pytest.mark.slow
def test_a_budget_that_pays_for_fewer_wishes(tmp_path: Path) -> None:
    """Ceilings below the noise that the budget asks of all: enough wishes are given up to afford the rest."""
    plan = wished(tmp_path, 1e9, people=60)
    for release in plan["release"]:
        del release["noise_stddev"]
        release.pop("most_noise_stddev", None)
    plan["privacy"] = {"epsilon": 1.0, "delta": 1e-5}
    alone = sl.audit({**plan, "release": plan["release"][:1]}).releases[0].largest_noise_stddev
    together = [one.largest_noise_stddev for one in sl.audit(plan).releases]
    assert alone is not None
    assert together[0] is not None
    share = (alone / together[0]) ** 0.5  # between what the budget asks of all and of one alone
    for release, most in zip(plan["release"], together, strict=True):
        release["most_noise_stddev"] = share * most
    found = sl.design(plan, limit=0.05, grain="release")
    assert found.wishes is not None
    assert found.passed
    assert found.wishes.given_up
    assert found.wishes.kept
    assert found.wishes.value == found.wishes.value_at_most


@pytest.mark.slow
def test_without_optional_releases_there_is_no_list(tmp_path: Path) -> None:
    plan = plan_for(write_table(tmp_path), (TOTAL,), noise=1.0, data=NUMBER)
    assert sl.design(plan, limit=0.5).wishes is None


@pytest.mark.slow
def test_required_releases_that_fail_by_themselves_leave_nothing_to_choose(tmp_path: Path) -> None:
    plan = wished(tmp_path, 20.0, people=12)
    plan["release"][1].update(optional=False)
    found = sl.design(plan, limit=0.5)
    assert found.wishes is None
    assert found.suppressed is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"published": True},
        {"instead_of": "all"},
        {"instead_of": "nothing"},
        {"instead_of": "towns"},
        {"optional": False, "instead_of": "jobs"},
    ],
)
def test_wishes_that_make_no_sense_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    plan = wished(tmp_path, 20.0)
    plan["release"][1].update(changes)
    with pytest.raises(InvalidPlan, match="expected optional releases that are not published"):
        sl.design(plan, limit=0.5)


@pytest.mark.slow
def test_the_command_lists_the_wishes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sightline.auditing.plan_text import plan_text

    path = tmp_path / "plan.toml"
    path.write_text(plan_text(read_plan(wished(tmp_path, 20.0, people=12))[0]))
    assert main(["design", str(path), "--limit", "50%"]) == 0
    assert 'given up: "' in capsys.readouterr().out
