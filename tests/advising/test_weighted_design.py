"""Designs of sums in which a row's value is multiplied by a public weight."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest

import sightline as sl
from sightline.advising.suppression import Ceilings
from sightline.errors import InvalidPlan
from tests.advising.tables import (
    CATEGORY,
    NUMBER,
    YES_OR_NO,
    least_loss_on_a_grid,
    plan_for,
    write_table,
)
from tests.advising.test_suppression import task_for

WEIGHT = "CASE WHEN job = 'j1' THEN 2.5 WHEN job = 'j2' THEN -1.0 ELSE 0.5 END"
SUMS = (
    {"name": "all", "sql": f"SELECT SUM(hours * {WEIGHT}) FROM data"},
    {"name": "by town", "sql": f"SELECT town, AVG(hours * {WEIGHT}) FROM data GROUP BY town"},
    {"name": "by job", "sql": "SELECT job, SUM(hours) FROM data GROUP BY job"},
)
COSTS = (
    {"name": "by town", "sql": f"SELECT town, SUM({WEIGHT}) FROM data WHERE ill = 1 GROUP BY town"},
    {"name": "by job", "sql": "SELECT job, SUM(ill) FROM data GROUP BY job"},
)
ACCEPT = {"limits": {"accept": ["homogeneous", "groups"]}}
PLANS: dict[str, dict[str, Any]] = {
    "number": {"releases": SUMS, "noise": 1.0, "data": NUMBER, **ACCEPT},
    "yes or no": {"releases": COSTS, "noise": 0.1, "data": YES_OR_NO, **ACCEPT},
}


@pytest.mark.sampled(1)
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "grain", "limit"),
    [("number", "cell", 0.3), ("yes or no", "release", 0.7), ("yes or no", "cell", 0.5)],
)
def test_the_proposal_passes_the_audit_and_costs_less(
    tmp_path: Path, name: str, grain: str, limit: float
) -> None:
    plan = plan_for(write_table(tmp_path, people=8), **PLANS[name])
    assert sl.audit(plan, limit=limit).verdict.passed is False
    found = sl.design(plan, limit=limit, grain=grain, loss="variance")
    assert found.passed
    assert sl.audit(tomllib.loads(found.plan)).verdict.passed is True
    assert found.loss_designed <= found.loss_with_common_factor * (1 + 1e-5)
    assert found.loss_at_least is None or found.loss_before < found.loss_at_least <= found.loss_designed


@pytest.mark.slow
def test_a_common_weight_is_a_unit_of_the_noise(tmp_path: Path) -> None:
    """Four times the sum with four times the noise is the sum with the noise."""
    table = write_table(tmp_path, people=8)
    designs = []
    for weight in (1, 4):
        sums = tuple(
            {"name": by, "sql": f"SELECT {by}, SUM({weight} * hours) FROM data GROUP BY {by}"}
            for by in ("town", "job")
        )
        designs.append(
            sl.design(plan_for(table, sums, noise=1.0 * weight, data=NUMBER), limit=0.5, loss="variance")
        )
    plain, fourfold = ([one.stddev for one in found.noise] for found in designs)
    assert max(plain) > 1.0
    assert np.array(fourfold) == pytest.approx(4 * np.array(plain), rel=1e-4)


@pytest.mark.thorough
def test_no_noise_on_a_grid_is_better(tmp_path: Path) -> None:
    releases = (
        {"name": "all", "sql": f"SELECT SUM(hours * {WEIGHT}) FROM data"},
        {"name": "most", "sql": "SELECT SUM(hours) FROM data WHERE id <> 'P3'"},
    )
    content = plan_for(write_table(tmp_path, people=8), releases, noise=5.0, data=NUMBER)
    found = sl.design(content, limit=0.5, loss="variance")
    grid = 5.0 * np.geomspace(1, 40, 11)
    least = least_loss_on_a_grid(content, grid, limit=0.5)
    assert found.loss_designed <= least * (1 + 1e-6)
    assert least <= found.loss_designed * float(grid[1] / grid[0]) ** 4


@pytest.mark.thorough
def test_a_quick_audit_agrees_with_the_audit(tmp_path: Path) -> None:
    capped = tuple({**one, "noise_within": [0, 5.0]} for one in SUMS)
    content = plan_for(write_table(tmp_path, people=10), capped, noise=1.0, data=NUMBER, **ACCEPT)
    ceilings = Ceilings.of(task_for(content, 0.5))
    cells = ceilings.may_go
    generator = np.random.default_rng(5)
    same = 0
    for _ in range(8):
        kept = cells[generator.random(cells.size) < 0.4]
        found = ceilings.audited(kept)
        least, quick = 1.0 if found is None else found.least.lower, ceilings.quick(kept)[0]
        assert quick <= least * (1 + 1e-6)  # the audit also tells numbers last that tell next to nothing
        same += quick == pytest.approx(least, rel=1e-6)
    assert same >= 6
    gone = sl.design(content, limit=0.5, loss="variance")
    assert gone.suppressed is not None
    assert sl.audit(tomllib.loads(gone.plan)).verdict.passed is True


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("values", ["independent", "constant"])
def test_persons_with_several_rows_keep_the_limit_too(tmp_path: Path, values: str) -> None:
    table = write_table(tmp_path, people=10)
    lines = table.read_text().splitlines()
    again = []  # a second row for some persons, elsewhere
    for line in lines[1:5]:
        person, _, _, hours, *rest = line.split(",")
        other = hours if values == "constant" else f"{100 - float(hours):.2f}"
        again.append(",".join([person, "t3", "j2", other, *rest]))
    table.write_text("\n".join([*lines, *again]) + "\n")
    data = {**NUMBER, "max_rows_per_record": 2, "values": values}
    plan = plan_for(table, SUMS, noise=1.0, data=data, attacker={"prior": "cos2"}, **ACCEPT)
    plan["limits"] = {**plan["limits"], "accept": [*plan["limits"]["accept"], "rows_apart"]}
    found = sl.design(plan, limit=0.4, loss="variance")
    assert sl.audit(tomllib.loads(found.plan)).verdict.passed is True
    assert found.loss_designed <= found.loss_with_common_factor


def test_weights_of_categories_are_left_to_the_audit(tmp_path: Path) -> None:
    for sql in (
        f"SELECT SUM({WEIGHT}) FROM data WHERE party = 'red'",
        "SELECT COUNT(*) FROM data WHERE party IN ('red', 'green')",
    ):
        plan = plan_for(
            write_table(tmp_path),
            (
                {"name": "r", "sql": sql},
                {"name": "s", "sql": "SELECT COUNT(*) FROM data WHERE party = 'red'"},
            ),
            noise=1.0,
            data={**CATEGORY, "categories": ["red", "green", "blue", "none"]},
        )
        with pytest.raises(InvalidPlan, match="counts of one category each, without weights per row"):
            sl.design(plan, limit=0.5, loss="variance")


class TestWeightsThatCancel:
    """A person whose weights add up to 0 is in no number, and one with several rows may need nothing."""

    def design(self, values: str, weights: list[float]) -> sl.DesignResult:
        table = pyarrow.table(
            {"who": ["A", "B", "B", "C", "D"], "x": [1.88, 3.05, 3.05, 8.21, 5.79], "w": weights}
        )
        data = {"source": table, "record": "who", "secret": "x", "bounds": [0, 10]}
        data |= {"values": values, "max_rows_per_record": 3}
        release = {"name": "r", "sql": "SELECT SUM(w * x) AS n FROM data", "noise_stddev": 2.0}
        plan = {"data": data, "release": [release], "attacker": {"prior": "cos2"}}
        return sl.design(plan, limit=0.9, loss="variance")

    @pytest.mark.sampled(1)
    @pytest.mark.parametrize("values", ["constant", "independent"])
    def test_the_noise_is_what_the_largest_weight_needs(self, values: str) -> None:
        """C has nearly all of the sum: beside it the others hide little."""
        result = self.design(values, [0.1, 0.1, -0.1, 2.0, 0.3])
        (noise,) = result.noise
        variance = 100 / 12 - 50 / np.pi**2  # of cos²
        alone = 2.0 * np.sqrt(variance * 0.9 / 0.1)  # of a linear attack by someone who knows all others
        assert result.binds
        assert 0.9 * alone < noise.stddev < 1.4 * alone

    @pytest.mark.thorough
    def test_a_person_who_cancels_changes_nothing(self) -> None:
        whole = self.design("constant", [0.1, 0.1, -0.1, 2.0, 0.3]).noise[0].stddev
        less = self.design("constant", [0.1, 0.0, 0.0, 2.0, 0.3]).noise[0].stddev
        assert whole == pytest.approx(less, rel=1e-6)
