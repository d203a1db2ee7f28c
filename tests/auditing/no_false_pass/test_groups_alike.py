"""Groups whose members are all alike are told of, although the noise is wide."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import sightline as sl
from sightline.auditing.findings import find
from sightline.auditing.result import VerdictStatus
from sightline.cli import main
from sightline.tables.membership import Statistic
from tests.auditing.hand_made import assembled, membership_of, partition, plan_of
from tests.auditing.no_false_pass.written_plans import DATA, names, written


def posterior_share(rows: int, total: int, noise: float, *, even_counts: bool = False) -> float:
    """The posterior chance of yes for one of some rows whose noisy sum is ``total``, world by world.

    The rows are fair coins; or, with ``even_counts``, every number of yeses has the same chance.
    """
    weights = yes = 0.0
    for world in itertools.product((0, 1), repeat=rows):
        weight = norm.pdf(sum(world), total, noise)
        weight /= math.comb(rows, sum(world)) if even_counts else 1
        weights += weight
        yes += weight * world[0]
    return yes / weights


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "total", "noise"), [(2, 0, 0.8), (8, 8, 0.7), (10, 5, 0.7), (10, 9, 1.0)])
def test_the_realised_posterior_of_a_small_group_is_exact(rows: int, total: int, noise: float) -> None:
    plan = plan_of(
        {"name": "ill", "noise_stddev": noise},
        data={**DATA, "kind": "boolean"},
        limits={"remaining_uncertainty": 0.95},
    )
    findings = find(plan, membership_of([partition(0, "ill", statistic=Statistic.SUM)], [[""] * rows]))
    cells = assembled(findings, totals=lambda question: np.array([[float(total)]])).homogeneous
    shares = [posterior_share(rows, total, noise, even_counts=even) for even in (False, True)]
    by_hand = min(
        *(4 * pi * (1 - pi) for pi in shares),
        4 * (min(total, rows - total) + 3 * noise) / rows,
        (min(total, rows - total) + 3 * noise) ** 2,
    )
    assert cells is not None
    assert [cell.remaining for cell in cells] == pytest.approx([by_hand] if by_hand < 0.95 else [])


@pytest.mark.slow
def test_nobody_of_forty_is_ill(tmp_path: Path) -> None:
    """A count of 0 at noise 1.5 tells everyone; the average over values does not see it."""
    rows = [f"p{i},f,false" for i in range(40)]
    release = ("SELECT COUNT(*) FROM data WHERE x", 1.5)
    data: dict[str, object] = {"kind": "boolean"}
    # The noise alone keeps exp(-1/9) = 89.5 % against whoever knows the others: 90 % asks for more.
    path = written(tmp_path, rows, release, data=data, limit=0.9)
    result = sl.audit(path, full=True)
    assert result.least_remaining_uncertainty is not None
    assert result.least_remaining_uncertainty.lower > 0.9
    assert names(result) == {"homogeneous"}
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    assert main(["audit", path]) == 2
    assert result.homogeneous is not None
    (cell,) = result.homogeneous
    assert cell.rows == 40
    # The attack "everyone is well" errs on nobody: what is left is less than the bound on it.
    assert 0 < cell.remaining < 0.5
    published = result.publishable()
    assert published.homogeneous is None
    assert published.unverified == ()
    assert published.verdict.passed is False
    assert "alike" not in published.to_json()
    accepted = sl.audit(
        written(tmp_path, rows, release, data=data, accept=("homogeneous",), limit=0.9), full=True
    )
    assert accepted.verdict.status is VerdictStatus.PASSED
    assert (
        "The plan accepts: 1 number is about rows that are nearly all alike, and tells the values of 40 rows"
        in accepted.verdict.text
    )
    mixed = [f"p{i},f,{'true' if i % 2 else 'false'}" for i in range(40)]
    assert sl.audit(written(tmp_path, mixed, release, data=data, limit=0.9), full=True).verdict.passed
    assert sl.audit(
        written(tmp_path, rows, release, data=data), full=True
    ).verdict.passed  # guaranteed by the noise


@pytest.mark.slow
def test_a_mean_at_its_bound(tmp_path: Path) -> None:
    """Four hundred people with nothing: guessing 0 for all of them is right, although one is well hidden."""
    rows = [f"p{i},f,0.0" for i in range(400)]
    path = written(tmp_path, rows, ("SELECT AVG(x) FROM data", 10 / 400), limit=0.8)
    result = sl.audit(path)
    assert result.least_remaining_uncertainty is not None
    assert result.least_remaining_uncertainty.lower > 0.9
    assert names(result) == {"homogeneous", "few_values"}
    assert result.homogeneous is not None
    # Every total of 400 values is equally likely, and the answer is 0 with noise of 10.
    totals = np.linspace(0, 200, 200_001)
    likely = np.exp(-((totals / 10) ** 2) / 2)
    mean = float((totals * likely).sum() / likely.sum()) / 400
    v = 100 / 12
    assert result.homogeneous[0].remaining == pytest.approx(mean * (10 - mean) / v, rel=1e-4)
    spread = [f"p{i},f,{i / 40}" for i in range(400)]
    assert sl.audit(
        written(tmp_path, spread, ("SELECT AVG(x) FROM data", 10 / 400), limit=0.8)
    ).verdict.passed


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["number", "boolean"])
def test_values_at_a_bound_are_found_although_the_noise_is_wide(tmp_path: Path, kind: str) -> None:
    """Whoever guesses the published mean for everyone errs by less than a tenth of what they did before.

    Half of the table has values of its own, so the whole table does not take few values. Groups of more than
    200 have no posterior by enumeration.
    """
    rows = 400
    high = 10.0 if kind == "number" else 1.0
    noise = 0.01 * high
    if kind == "number":
        mixed, alike, data = [f"p{i},m,{i / 40}" for i in range(rows)], "0.0", {}
    else:
        mixed, alike, data = [f"p{i},m,{i % 2}" for i in range(rows)], "0", {"kind": "boolean"}
    same = [f"q{i},f,{alike}" for i in range(rows)]
    release = ("SELECT sex, AVG(x) FROM data GROUP BY sex", noise)
    result = sl.audit(written(tmp_path, [*mixed, *same], release, data=data or None, limit=0.99))
    # Of the numbers, sex explains 60 % of the variance, too: 25/4 beside 25/4 + 100/24.
    assert names(result) == {"homogeneous"} | ({"explained"} if kind == "number" else set())
    assert result.homogeneous is not None
    assert result.homogeneous[0].rows == rows
    # At the true values: guess the published mean, cut off at the bound, for everyone.
    draws = np.maximum(np.random.default_rng(5).normal(0, noise, 100_000), 0)
    variance = high**2 / 12 if kind == "number" else 1 / 4
    attack = float((draws**2).mean()) / variance
    assert attack < 0.1
    assert attack < result.homogeneous[0].remaining < 0.5


@pytest.mark.slow
def test_known_rows_do_not_hide_that_the_others_are_alike(tmp_path: Path) -> None:
    rows = [f"k{i},m,true" for i in range(40)] + [f"p{i},f,false" for i in range(40)]
    release = ("SELECT COUNT(*) FROM data WHERE x", 1.5)
    data: dict[str, object] = {"kind": "boolean"}
    assert sl.audit(written(tmp_path, rows, release, data=data, limit=0.9)).verdict.passed
    told = sl.audit(written(tmp_path, rows, release, data=data, knows=("sex = 'm'",), limit=0.9))
    assert names(told) == {"homogeneous"}


@pytest.mark.slow
def test_everybody_has_the_same_category(tmp_path: Path) -> None:
    data: dict[str, object] = {"categories": ["cold", "flu", "well"]}
    release = ("SELECT x, COUNT(*) FROM data GROUP BY x", 2.0)
    alike = written(tmp_path, [f"p{i},f,flu" for i in range(60)], release, data=data, limit=0.9)
    result = sl.audit(alike)
    # The answer of the SQL has one line, "flu", and two of the declared categories never occur.
    assert names(result) == {"homogeneous", "groups", "few_values"}
    assert result.homogeneous is not None
    assert any("flu" in cell.cell for cell in result.homogeneous)
    mixed = [f"p{i},f,{('cold', 'flu', 'well')[i % 3]}" for i in range(60)]
    assert sl.audit(written(tmp_path, mixed, release, data=data, limit=0.9)).verdict.passed


def test_forty_times_no_is_found_although_the_noise_is_wide(tmp_path: Path) -> None:
    """A sum of 0 over 40 people with noise 3: an attacker who knows no rate takes everyone for a no.

    Under the prior of fair coins 72 % would remain, because so many times no is then all but impossible.
    """
    source = tmp_path / "people.csv"
    source.write_text("id,ill\n" + "".join(f"{i},false\n" for i in range(40)))
    release = {"name": "ill", "sql": "SELECT COUNT(*) FILTER (WHERE ill) FROM data", "noise_stddev": 3.0}
    data = {"source": str(source), "record": "id", "secret": "ill", "kind": "boolean"}
    result = sl.audit({"data": data, "release": [release], "limits": {"remaining_uncertainty": 0.98}})
    counts = np.arange(41)
    share = np.average(counts, weights=np.exp(-((counts / 3.0) ** 2) / 2)) / 40
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    assert names(result) == {"homogeneous"}
    assert result.homogeneous[0].remaining == pytest.approx(share * (1 - share) / 0.25)
