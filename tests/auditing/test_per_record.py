"""The budget of each record: exact Gaussian-DP parameters by hand, over all neighbours."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.auditing.pricing import price
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened
from sightline.privacy.gaussian_dp import largest_mu_squared

ROWS = (  # person, town, job, hours
    ("a", "t1", "j1", 1.0),
    ("a", "t1", "j2", 2.0),
    ("a", "t2", "j2", 3.0),
    ("b", "t1", "j1", 4.0),
    ("c", "t2", "j1", 5.0),
    ("c", "t2", "j3", 6.0),
    ("d", "t3", "j3", 7.0),
)
RELEASES = (
    {"name": "all", "sql": "SELECT AVG(hours) FROM data"},
    {"name": "by town", "sql": "SELECT town, SUM(hours) FROM data GROUP BY town", "times": 2},
    {"name": "by job", "sql": "SELECT job, AVG(hours) FROM data WHERE town <> 't3' GROUP BY job"},
)
LOW, HIGH, EPSILON, DELTA = 0.0, 10.0, 1.0, 1e-5


def plan_of(folder: Path, rows: tuple[tuple[Any, ...], ...], limit: int) -> dict[str, Any]:
    path = folder / "rows.csv"
    path.write_text("id,town,job,hours\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    data = {"source": str(path), "record": "id", "secret": "hours", "bounds": [LOW, HIGH]}
    return {
        "data": {**data, "max_rows_per_record": limit, "values": "independent"},
        "privacy": {"epsilon": EPSILON, "delta": DELTA, "accountant": "per-record"},
        "release": list(RELEASES),
    }


def answers(rows: tuple[tuple[Any, ...], ...], hours: np.ndarray) -> dict[tuple[str, str], float]:
    """Every published number, from the rows themselves."""
    found = {("all", ""): float(hours.mean())}
    for town in ("t1", "t2", "t3"):
        mine = [h for row, h in zip(rows, hours, strict=True) if row[1] == town]
        if mine:
            found["by town", town] = float(np.sum(mine))
    for job in ("j1", "j2", "j3"):
        mine = [h for row, h in zip(rows, hours, strict=True) if row[2] == job and row[1] != "t3"]
        if mine:
            found["by job", job] = float(np.mean(mine))
    return found


def parameters(rows: tuple[tuple[Any, ...], ...], stddevs: dict[tuple[str, str], float]) -> dict[str, float]:
    """Each person's largest squared distance between neighbours, over all ends of the domain."""
    copies = {one["name"]: one.get("times", 1) for one in RELEASES}
    hours = np.array([row[3] for row in rows])
    found = {}
    for person in sorted({row[0] for row in rows}):
        mine = [i for i, row in enumerate(rows) if row[0] == person]
        worst = 0.0
        for ends in itertools.product(itertools.product((LOW, HIGH), repeat=2), repeat=len(mine)):
            one, two = hours.copy(), hours.copy()
            for row, (first, second) in zip(mine, ends, strict=True):
                one[row], two[row] = first, second
            before, after = answers(rows, one), answers(rows, two)
            moved = [copies[cell[0]] * ((before[cell] - after[cell]) / stddevs[cell]) ** 2 for cell in before]
            worst = max(worst, math.fsum(moved))
        found[person] = worst
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "limit"), [(ROWS, 3), (ROWS, 5), (tuple(row for row in ROWS if row[0] in "bd"), 1)]
)
def test_the_worst_record_is_exactly_at_the_budget(
    tmp_path: Path, rows: tuple[tuple[Any, ...], ...], limit: int
) -> None:
    plan, base = read_plan(plan_of(tmp_path, rows, limit))
    with opened(plan, base) as session:
        membership = session.membership()
    pricing = price(plan, membership)
    names = [plan.releases[membership.partitions[cell.partition].query].name for cell in membership.cells]
    stddevs = {
        (name, ",".join(cell.key)): float(scale)
        for name, cell, scale in zip(names, membership.cells, pricing.scale, strict=True)
    }
    own = parameters(rows, stddevs)
    allowed = largest_mu_squared(EPSILON, DELTA)
    assert max(own.values()) == pytest.approx(allowed, rel=1e-12)
    assert max(own.values()) <= allowed
    costs = pricing.moves.by_record(membership)
    assert sorted(costs) == pytest.approx(sorted(set(own.values())), rel=1e-12)
    ratio = pricing.scale / pricing.sensitivity
    assert np.ptp(ratio) <= 1e-12 * ratio[0], "noise is in proportion to sensitivity"


@pytest.mark.slow
def test_the_table_of_accountants_has_it(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ROWS, 3)
    plan["privacy"]["sensitivity"] = "declared"
    report = sl.audit(plan).budget
    assert report.accountant == "per-record"
    assert report.proven
    assert report.spent["per-record"] == pytest.approx(EPSILON, rel=1e-9)
    assert report.spent["per-record"] <= EPSILON
    assert report.spent["gaussian-dp"] > EPSILON
    assert report.would_need["per-record"] < report.would_need["gaussian-dp"]
    # Person a has all 3 rows in "all", 2 and 1 of them in "by town" (twice) and in "by job".
    own = 1 + 3 * ((2 / 3) ** 2 + (1 / 3) ** 2)
    assert report.would_need["per-record"] == pytest.approx(
        report.would_need["gaussian-dp"] * math.sqrt(own / 4), rel=1e-12
    )
    # By the memberships person a is the largest in all four: a record's own releases are all of them.
    plan["privacy"]["sensitivity"] = "memberships"
    by_rows = sl.audit(plan).budget
    assert by_rows.would_need["per-record"] == pytest.approx(by_rows.would_need["gaussian-dp"], rel=1e-12)


def test_releases_of_one_number_cost_those_in_them(tmp_path: Path) -> None:
    """Some with equal noise, some with other noise, and one without: it costs nobody else anything."""
    rows = tuple((str(number), f"t{number % 7}", f"j{number % 3}", 1.0) for number in range(42))
    noise = {"town < 't3'": 5.0, "job = 'j1'": 5.0, "town = 't2'": 7.0, "job > 'j0'": 5.0, "town = 't6'": 0.0}
    plan = plan_of(tmp_path, rows, 1)
    plan["release"] = [
        {"name": where, "sql": f"SELECT SUM(hours) FROM data WHERE {where}"}
        | ({"noise_stddev": stddev} if stddev else {"noise": {"law": "none"}})
        for where, stddev in noise.items()
    ]
    del plan["privacy"]
    plan, base = read_plan(plan)
    with opened(plan, base) as session:
        membership = session.membership()
    costs = price(plan, membership).moves.by_record(membership)
    paid = np.array([((HIGH - LOW) / stddev) ** 2 if stddev else math.inf for stddev in noise.values()])
    inside = membership.signatures >= 0
    assert inside.any(axis=0).all()
    assert np.unique(inside, axis=0).shape == inside.shape
    expected = [sum(cost for cost, there in zip(paid, own, strict=True) if there) for own in inside]
    assert costs == pytest.approx(expected, rel=1e-12)
    assert np.isfinite(costs).any()
    assert np.isinf(costs).any()


def test_a_histogram_costs_the_two_categories_with_the_least_noise(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,party\n" + "0,red\n1,blue\n2,blue\n3,red\n")
    counts = ", ".join(f"COUNT(*) FILTER (WHERE party = '{one}')" for one in ("red", "blue", "green"))
    noise = {"red": 1.0, "blue": 2.0, "green": 4.0}
    release = {"name": "parties", "sql": f"SELECT {counts} FROM data"}
    data = {"source": str(path), "record": "id", "secret": "party", "categories": list(noise)}
    plan, base = read_plan({"data": data, "release": [{**release, "noise_stddev": 1.0}]})
    with opened(plan, base) as session:
        membership = session.membership()
    parts = [str(membership.partitions[cell.partition].parameter) for cell in membership.cells]
    cells = [
        [membership.partitions[cell.partition].label, noise[part]]
        for cell, part in zip(membership.cells, parts, strict=True)
    ]
    plan, _ = read_plan({"data": data, "release": [{**release, "noise": {"by_cell": cells}}]})
    costs = price(plan, membership).moves.by_record(membership)
    worst = max(noise[a] ** -2 + noise[b] ** -2 for a, b in itertools.combinations(noise, 2))
    assert costs == pytest.approx([worst] * len(costs), rel=1e-12)


@pytest.mark.slow
def test_releases_with_a_noise_of_their_own_are_outside_the_budget(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ROWS, 3)
    plan["release"] = [{**RELEASES[0], "noise_stddev": 5.0}, *RELEASES[1:]]
    plan["privacy"]["sensitivity"] = "declared"
    report = sl.audit(plan).budget
    assert not report.proven
    own = 3 * ((2 / 3) ** 2 + (1 / 3) ** 2)
    assert report.would_need["per-record"] == pytest.approx(
        report.would_need["gaussian-dp"] * math.sqrt(own / 3), rel=1e-12
    )


@pytest.mark.slow
def test_noise_chosen_elsewhere_is_held_against_the_budget(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ROWS, 3)
    for stddev, kept in ((1e4, True), (1.0, False)):
        given = {**plan, "release": [{**one, "noise_stddev": stddev} for one in RELEASES]}
        report = sl.audit(given).budget
        assert report.proven is kept
        assert ("keeps to the budget" in report.note) is kept
