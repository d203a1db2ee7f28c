"""Plans over tables with several rows a person, each with the truth by exact rank or dense algebra."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import fmpz_mat

import sightline as sl
from sightline.auditing.result import VerdictStatus
from sightline.errors import InvalidPlan

Row = tuple[Any, ...]
BOUNDS = (0.0, 100.0)
VARIANCE = 100.0**2 / 12  # of values spread evenly over the bounds


def written(folder: Path, header: str, rows: list[Row]) -> None:
    with (folder / "t.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header.split(","))
        writer.writerows(rows)


def plan(folder: Path, *releases: tuple[str, float], **data: object) -> dict[str, Any]:
    return {
        "data": {
            "source": str(folder / "t.csv"),
            "record": "customer",
            "secret": "x",
            **({"bounds": BOUNDS} if not {"categories", "kind"} & set(data) else {}),
            **({"values": "independent"} if "max_rows_per_record" in data else {}),
            **data,
        },
        "limits": {"remaining_uncertainty": 0.5, "accept": ["rows_apart"]},
        "release": [
            {"name": f"r{i}", "sql": sql, "noise_stddev": noise} for i, (sql, noise) in enumerate(releases)
        ],
    }


def shop(customers: int, seed: int = 0) -> list[Row]:
    """Orders of a shop: a few per customer, of few kinds, in few months."""
    generator = np.random.default_rng(seed)
    rows: list[Row] = []
    for customer in range(customers):
        for _ in range(int(generator.integers(1, 9))):
            month, kind = int(generator.integers(1, 13)), int(generator.integers(4))
            rows.append((f"c{customer}", month, kind, round(float(generator.uniform(*BOUNDS)), 2)))
    return rows


def most(rows: list[Row]) -> int:
    return int(np.unique([row[0] for row in rows], return_counts=True)[1].max())


def exact_rank(table: np.ndarray) -> int:
    return int(fmpz_mat(table.astype(int).tolist()).rank())


def identifiable_persons(members: np.ndarray, owners: list[str]) -> int:
    """Persons with rank(A) > rank(A without their columns), over the rationals."""
    whole, names = exact_rank(members), np.array(owners)
    return sum(exact_rank(members[:, names != name]) < whole for name in sorted(set(owners)))


# ------------------------------------------------------------------ case 2: what passed and must not


@pytest.mark.slow
def test_one_customers_own_total_does_not_pass(tmp_path: Path) -> None:
    """Publishing one customer's total with noise of 1 leaves 1/(1 + n v) of the total's uncertainty."""
    rows = shop(40)
    written(tmp_path, "customer,month,kind,x", rows)
    mine = sum(row[0] == "c7" for row in rows)
    assert mine > 1
    releases = (("SELECT SUM(x) FROM data WHERE customer = 'c7'", 1.0), ("SELECT SUM(x) FROM data", 500.0))
    result = sl.audit(plan(tmp_path, *releases, max_rows_per_record=most(rows)), names=True)
    assert result.verdict.status is VerdictStatus.FAILED
    assert result.verdict.below_limit == 1
    assert result.identifiable_records == 1
    assert "1 record of 40 can be told apart" in result.verdict.text
    (entry,) = (one for one in result.exposed if one.identifiable and one.feature)
    assert (entry.record, entry.feature, entry.rows, entry.size) == ("c7", "total", mine, 1)
    members = np.array([[row[0] == "c7" for row in rows], [True] * len(rows)]) / [[1.0], [500.0]]
    posterior = np.linalg.inv(members.T @ members + np.eye(len(rows)) / VARIANCE) / VARIANCE
    own = np.flatnonzero([row[0] == "c7" for row in rows])
    assert entry.remaining_uncertainty is not None
    truth = np.linalg.eigvalsh(posterior[np.ix_(own, own)])[0]
    assert entry.remaining_uncertainty.upper == pytest.approx(truth, rel=1e-6)
    assert entry.remaining_uncertainty.lower <= truth
    assert entry.rmse == pytest.approx(1.0, rel=1e-3)
    assert entry.recipe is not None
    assert entry.recipe.steps[0].release == "r0"


@pytest.mark.slow
def test_every_customers_total_identifies_every_customer(tmp_path: Path) -> None:
    rows = shop(200)
    written(tmp_path, "customer,month,kind,x", rows)
    releases = (
        ("SELECT customer, SUM(x) FROM data GROUP BY customer", 10.0),
        ("SELECT month, kind, SUM(x) FROM data GROUP BY month, kind", 50.0),
    )
    result = sl.audit(plan(tmp_path, *releases, max_rows_per_record=most(rows)), top=3)
    assert (result.records, result.identifiable_records) == (200, 200)
    assert result.verdict.below_limit == 200  # of a row alone, 100/(100 + v) or less remains
    assert sum(result.distribution.records) == 200


@pytest.mark.slow
def test_one_value_per_person_over_a_panel(tmp_path: Path) -> None:
    """Nine people in overlapping groups over four months: with one value each, the panel tells all nine."""
    generator = np.random.default_rng(5)
    groups = {month: generator.integers(0, 4, 9) for month in range(4)}
    values = generator.uniform(*BOUNDS, 9).round(1)
    rows = [(f"c{i}", month, int(groups[month][i]), values[i]) for month in range(4) for i in range(9)]
    written(tmp_path, "customer,month,area,x", rows)
    release = ("SELECT month, area, SUM(x) FROM data GROUP BY month, area", 5.0)
    weights = np.array([[groups[m][i] == g for i in range(9)] for m in range(4) for g in range(4)])
    assert exact_rank(weights) == 9
    constant = sl.audit(plan(tmp_path, release, max_rows_per_record=4, values="constant"), names=True)
    assert constant.identifiable_records == 9
    assert {one.record for one in constant.exposed} == {f"c{i}" for i in range(9)}
    whitened = weights / 5.0
    errors = np.sqrt(np.diag(np.linalg.inv(whitened.T @ whitened)))
    for one in constant.exposed:
        assert one.rmse == pytest.approx(errors[int(str(one.record)[1:])], rel=1e-8)
    silent = sl.audit(plan(tmp_path, release, max_rows_per_record=4))
    (asked,) = (one for one in silent.unverified if one.name.value == "values")
    assert 'values = "constant"' in asked.reason
    assert not any(one.name.value == "values" for one in constant.unverified)
    assert silent.verdict.passed is False
    assert silent.publishable().verdict.text.count("constant") == 0


@pytest.mark.slow
def test_a_column_that_is_constant_turns_a_pass_into_not_shown(tmp_path: Path) -> None:
    rows = [(f"c{i}", month, round(2.471 * i, 3)) for i in range(40) for month in range(3)]
    written(tmp_path, "customer,month,x", rows)
    releases = (("SELECT month, SUM(x) FROM data GROUP BY month", 90.0),)
    asked = sl.audit(plan(tmp_path, *releases, max_rows_per_record=3))
    assert asked.verdict.status is VerdictStatus.NOT_SHOWN
    told = sl.audit(plan(tmp_path, *releases, max_rows_per_record=3, values="constant"))
    assert told.verdict.status is VerdictStatus.PASSED
    least = told.least_remaining_uncertainty
    assert least is not None
    members = np.ones((3, 40)) / 90.0
    truth = np.linalg.inv(members.T @ members + np.eye(40) / VARIANCE)[0, 0] / VARIANCE
    assert least.upper == pytest.approx(truth, rel=1e-9)
    independent = sl.audit(plan(tmp_path, *releases, max_rows_per_record=3, values="independent"))
    assert independent.verdict.status is VerdictStatus.NOT_SHOWN


def test_values_that_are_not_constant_are_refused(tmp_path: Path) -> None:
    written(tmp_path, "customer,month,x", [("a", 1, 3), ("a", 2, 4), ("b", 1, 5), ("b", 2, 5)])
    with pytest.raises(InvalidPlan, match=r"one value in all rows .* different ones for 1 of 2 records"):
        sl.audit(plan(tmp_path, ("SELECT SUM(x) FROM data", 1.0), max_rows_per_record=2, values="constant"))


@pytest.mark.slow
def test_each_persons_own_mean_fails(tmp_path: Path) -> None:
    """Ten rows a person, and each person's own mean with noise of 0.001."""
    generator = np.random.default_rng(3)
    rows = [(f"c{i}", m, round(float(generator.uniform(*BOUNDS)), 2)) for i in range(12) for m in range(10)]
    written(tmp_path, "customer,month,x", rows)
    release = ("SELECT customer, AVG(x) FROM data GROUP BY customer", 0.001)
    result = sl.audit(plan(tmp_path, release, max_rows_per_record=10), names=True)
    assert result.verdict.status is VerdictStatus.FAILED
    assert result.verdict.below_limit == result.identifiable_records == 12
    least = result.least_remaining_uncertainty
    assert least is not None
    # The mean of ten has the variance v/10 beforehand and 10⁻⁶ noise.
    truth = 1 / (1 + VARIANCE / 10 / 1e-6)
    assert least.upper == pytest.approx(truth, rel=1e-6)
    assert all(one.feature == "total" and one.rows == 10 for one in result.exposed)
    assert result.exposed[0].rmse == pytest.approx(0.01, rel=1e-9)
    assert result.exposed[0].recipe is not None
    assert result.exposed[0].recipe.steps[0].weight == pytest.approx(10.0)


# ------------------------------------------------------------------ random panels through the whole audit


def random_plan(
    folder: Path, seed: int, **data: object
) -> tuple[dict[str, Any], np.ndarray, list[str], np.ndarray]:
    """A panel with releases by area, by month and by person; members, owners and the noise of each cell."""
    generator = np.random.default_rng([9, seed])
    rows = []
    for person in range(int(generator.integers(3, 8))):
        for _ in range(int(generator.integers(1, 5))):
            area, month = (int(number) for number in generator.integers(0, 3, 2))
            rows.append((f"c{person}", area, month, round(float(generator.uniform(*BOUNDS)), 1)))
    written(folder, "customer,area,month,x", rows)
    owners = [row[0] for row in rows]
    choices: list[tuple[str, Any]] = [
        ("SELECT area, SUM(x) FROM data GROUP BY area", lambda row: row[1]),
        ("SELECT month, SUM(x) FROM data GROUP BY month", lambda row: row[2]),
        ("SELECT area, month, SUM(x) FROM data GROUP BY area, month", lambda row: (row[1], row[2])),
        ("SELECT SUM(x) FROM data WHERE customer <> 'c0'", lambda row: None if row[0] == "c0" else 0),
        ("SELECT SUM(x) FROM data", lambda row: 0),
    ]
    lines, noise, releases = [], [], []
    for place in generator.choice(len(choices), 3, replace=False):
        sql, key = choices[int(place)]
        stddev = float(np.round(10.0 ** generator.uniform(0, 2.5), 3))
        releases.append((sql, stddev))
        keys = [key(row) for row in rows]
        for cell in sorted({one for one in keys if one is not None}):
            lines.append([one == cell for one in keys])
            noise.append(stddev)
    asked = plan(folder, *releases, max_rows_per_record=most(rows), **data)
    return asked, np.array(lines), owners, np.array(noise)


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_random_panels(tmp_path: Path, seed: int) -> None:
    asked, members, owners, noise = random_plan(tmp_path, seed)
    knows = seed % 2 == 1
    if knows:
        asked["attacker"] = {"knows": ["customer = 'c1'"]}
        kept = np.array(owners) != "c1"
        members, owners = members[:, kept], [name for name in owners if name != "c1"]
    result = sl.audit(asked, full=True)
    assert result.identifiable_records == identifiable_persons(members, owners)
    whitened = members / noise[:, None]
    posterior = np.linalg.inv(whitened.T @ whitened + np.eye(len(owners)) / VARIANCE) / VARIANCE
    names = np.array(owners)
    shares = [
        np.linalg.eigvalsh(posterior[np.ix_(names == name, names == name)])[0] for name in sorted(set(owners))
    ]
    least = result.least_remaining_uncertainty
    assert least is not None
    assert least.lower <= min(shares) + 1e-9
    assert sum(result.distribution.records) == len(shares)
    assert result.verdict.below_limit >= sum(share < 0.5 for share in shares)
    assert result.verdict.judged == result.records - (1 if knows else 0)
    if result.timeline:
        assert result.timeline[-1].identifiable_records == result.identifiable_records


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_random_panels_whose_rows_may_share_a_level(tmp_path: Path, seed: int) -> None:
    """A level is one column, the sum of a person's; what the best linear attack leaves, by dense algebra."""
    asked, members, owners, noise = random_plan(tmp_path, seed, values="any")
    result = sl.audit(asked)
    names = sorted(set(owners))
    summed = np.stack([members[:, np.array(owners) == name].sum(axis=1) for name in names], axis=1)
    whitened = summed / noise[:, None]
    levels = np.diag(np.linalg.inv(whitened.T @ whitened + np.eye(len(names)) / VARIANCE)) / VARIANCE
    rows = members / noise[:, None]
    posterior = np.linalg.inv(rows.T @ rows + np.eye(len(owners)) / VARIANCE) / VARIANCE
    apart = [
        np.linalg.eigvalsh(posterior[np.ix_(own, own)])[0]
        for own in (np.array(owners) == name for name in names)
    ]
    seen = {one.name: one for one in result.beliefs}
    assert set(seen) == {"level", "apart"}
    for name, shares in (("level", levels), ("apart", np.array(apart))):
        left = seen[name].least_remaining_uncertainty
        assert left is not None
        assert left.lower <= float(min(shares)) + 1e-9
        assert min(shares) - 1e-9 <= left.upper or left.upper == pytest.approx(min(shares), rel=1e-6)
        assert seen[name].below_limit >= np.count_nonzero(shares < 0.5)
    least = result.least_remaining_uncertainty
    assert least is not None
    brackets = [one.least_remaining_uncertainty for one in result.beliefs]
    assert least.lower == min(one.lower for one in brackets if one is not None)
    assert result.verdict.below_limit == max(one.below_limit for one in result.beliefs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["boolean", "category"])
def test_yes_or_no_and_categories(tmp_path: Path, kind: str) -> None:
    """One person's own counts over four rows fail; the same counts over everyone with much noise pass."""
    generator = np.random.default_rng(8)
    names = ["yes", "no", "maybe"]
    values = (
        generator.integers(0, 2, 24).tolist()
        if kind == "boolean"
        else [names[i] for i in generator.integers(0, 3, 24)]
    )
    rows = [(f"c{i // 4}", i % 4, values[i]) for i in range(24)]
    written(tmp_path, "customer,month,x", rows)
    data: dict[str, object] = {"kind": "boolean"} if kind == "boolean" else {"categories": names}
    count = "SUM(x)" if kind == "boolean" else "x, COUNT(*)"
    by = "" if kind == "boolean" else " GROUP BY x"
    alone = (f"SELECT {count} FROM data WHERE customer = 'c2'{by}", 0.2)
    result = sl.audit(plan(tmp_path, alone, max_rows_per_record=4, **data), names=True)
    assert result.verdict.below_limit == 1
    assert result.identifiable_records == 1
    assert result.exposed[0].record == "c2"
    assert result.exposed[0].rows == 4
    everyone = (f"SELECT {count} FROM data{by}", 20.0)
    result = sl.audit(plan(tmp_path, everyone, max_rows_per_record=4, **data))
    assert result.verdict.below_limit == 0
    assert result.identifiable_records == 0


@pytest.mark.slow
def test_moments_of_several_rows_are_not_shown(tmp_path: Path) -> None:
    rows = [(f"c{i}", m, float((7 * i + 13 * m) % 100)) for i in range(5) for m in range(3)]
    written(tmp_path, "customer,month,x", rows)
    releases = (
        ("SELECT SUM(x) FROM data", 300.0),
        ("SELECT AVG(x * x) FROM data WHERE customer = 'c1'", 500.0),
    )
    result = sl.audit(plan(tmp_path, *releases, max_rows_per_record=3))
    assert result.verdict.status is not VerdictStatus.PASSED


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["uniform", "two-point"])
@pytest.mark.parametrize("linear", [True, False])
def test_moments_of_several_rows_keep_no_more_than_is_shown(tmp_path: Path, prior: str, linear: bool) -> None:
    """Of every unit feature of the rows at least 1 - 2I remains; with little noise nothing is shown."""
    rows = [(f"c{i}", m, [0.0, 100.0][(3 * i + m) % 2]) for i in range(5) for m in range(3)]
    written(tmp_path, "customer,month,x", rows)
    for noise, shown in ((0.5, False), (1e6, True)):
        releases = [("SELECT COUNT(*) FILTER (WHERE x > 50) FROM data", noise)]
        releases += [("SELECT SUM(x) FROM data", 100 * noise)] if linear else []
        asked = plan(tmp_path, *releases, max_rows_per_record=3)
        asked["attacker"] = {"prior": prior}
        asked["limits"]["accept"] = ["few_values"]
        result = sl.audit(asked)
        least = result.least_remaining_uncertainty
        assert least is not None
        # The count moves by at most 3; the sum has the information 3/(100 noise)² about a unit feature.
        # A row's yes or no with even chances tells at most ln 2 nats of its number.
        nats = min(math.log1p(0.25 * (3 / noise) ** 2) / 2, math.log(2))
        if linear:
            variance = 100.0**2 / (12 if prior == "uniform" else 4)
            nats += math.log1p(3 * variance / (100 * noise) ** 2) / 2
        entropy = 12 / (2 * math.pi * math.e) * math.exp(-2 * nats) if prior == "uniform" else 0.0
        # What the noise alone leaves, if everyone else is known: three rows move a number by three.
        anything = math.exp(-((3 / noise) ** 2) * (2 if linear else 1) / 4)
        # The yes or no above 50 is a secret, too, and may keep less.
        assert 0 <= least.lower <= max(1 - 2 * nats, entropy, anything) * (1 + 1e-9)
        assert (result.verdict.status is VerdictStatus.PASSED) == shown
        if not shown:
            assert any(one.name.value == "local" for one in result.unverified)


@pytest.mark.slow
def test_explain_says_what_is_seen_of_all_rows_together(tmp_path: Path) -> None:
    rows = shop(12)
    written(tmp_path, "customer,month,kind,x", rows)
    release = ("SELECT customer, SUM(x) FROM data GROUP BY customer", 2.0)
    found = sl.explain(plan(tmp_path, release, max_rows_per_record=most(rows)), record="c3")
    assert found.exposed[0].feature == "total"
    assert found.exposed[0].rmse == pytest.approx(2.0)


@pytest.mark.slow
def test_more_noise_that_is_advised_works(tmp_path: Path) -> None:
    rows = [(f"c{i}", m, float((7 * i + 13 * m) % 100)) for i in range(6) for m in range(4)]
    written(tmp_path, "customer,month,x", rows)
    asked = plan(
        tmp_path, ("SELECT customer, AVG(x) FROM data GROUP BY customer", 1.0), max_rows_per_record=4
    )
    result = sl.audit(asked, full=True)
    factor = next(change.noise_factor for change in result.what_to_change if change.noise_factor)
    asked["release"][0]["noise_stddev"] = factor
    assert sl.audit(asked, full=True).verdict.status is VerdictStatus.PASSED


@pytest.mark.slow
def test_noise_over_twenty_orders_of_magnitude(tmp_path: Path) -> None:
    """What rounding hides has a finite recipe, and nobody passes: each group's mean is all but exact."""
    rows = ["who,b,x", "P0,,3", "P0,,2", "P0,,7", "P1,true,1", "P1,true,9"]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    releases = [
        {"name": "all", "sql": "SELECT SUM(x) FROM data", "times": 7, "noise_stddev": 1e9},
        {"name": "b", "sql": "SELECT b, AVG(x) FROM data GROUP BY b", "times": 100_000, "noise_stddev": 1e-9},
    ]
    data = {"source": str(tmp_path / "t.csv"), "record": "who", "secret": "x", "bounds": [0, 10]}
    plan = {
        "data": {**data, "max_rows_per_record": 3},
        "release": releases,
        "attacker": {"knows": ["NOT b"]},
        "limits": {"remaining_uncertainty": 0.5},
    }
    result = sl.audit(plan, full=True)
    assert sl.AuditResult.from_json(result.to_json()) == result
    assert result.verdict.passed is False
    assert result.identifiable_records == 2
    assert result.least_remaining_uncertainty is not None
    assert result.least_remaining_uncertainty.lower < 1e-9
