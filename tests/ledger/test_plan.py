"""The plan of everything that a ledger writes: every command reads it as a plan of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import sightline as sl
from sightline.cli import main
from sightline.ledger.decision import ReleaseDecision
from sightline.ledger.storage import least_change
from tests.ledger.test_ledger import MEANS, TOTAL, month, started


def two_epochs(folder: Path) -> tuple[Path, ReleaseDecision]:
    """The plan of four releases in two epochs, in which homes move, leave and join; the last decision."""
    ledger = started(folder, values="by-epoch")
    ledger.start_epoch("2024")
    ledger.add({**MEANS, "noise_stddev": 4000.0}, epoch="2024")
    month(folder, list("abcde"), list("NSNSS"), [100.0, 900.0, 4000.0, 7000.0, 8800.0])
    ledger.add({**MEANS, "noise_stddev": 4000.0}, epoch="2024")
    ledger.start_epoch("2025")
    month(folder, list("abcdf"), list("NSNNS"), [300.0, 2900.0, 3000.0, 6000.0, 1000.0])
    ledger.add({**TOTAL, "noise_stddev": 900.0}, epoch="2025")
    others = {"name": "others", "sql": "SELECT SUM(watts) FROM data WHERE home <> 'f'", "noise_stddev": 900.0}
    decision, number = ledger.add(others, epoch="2025", despite="a test")
    assert number == 6
    return ledger.plan(folder / "all.toml"), decision


@pytest.mark.thorough
def test_every_command_reads_the_plan_of_moves_and_two_epochs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, decision = two_epochs(tmp_path)
    result = sl.audit(plan, full=True)
    least, same = result.least_remaining_uncertainty, decision.after.least
    assert least is not None
    assert same is not None
    assert (least.lower, least.upper) == pytest.approx((same.lower, same.upper), rel=1e-9)
    assert result.identifiable_records == decision.after.identifiable
    assert result.budget.spent == pytest.approx(decision.after.epsilon, rel=1e-9)
    # Everything is out: there is nothing to advise.
    assert not [*result.what_to_change, *result.reaching]
    page = tmp_path / "page.html"
    said: dict[str, Any] = {}
    options = {
        "audit": ["--html", str(page)],
        "explain": ["--record", "somebody not in this table (ledger number 5)"],
        "rehearse": [],
        "design": [],
    }
    for command, more in options.items():
        code = main([command, str(plan), *more])
        said[command] = (code, *capsys.readouterr())
    assert {name: one[0] for name, one in said.items()} == {
        "audit": 2,
        "explain": 0,
        "rehearse": 0,
        "design": 1,
    }
    assert "others (6)" in page.read_text()
    assert "total (5)" in said["explain"][1]
    assert "agree with all" in said["rehearse"][1]
    assert "only releases that are published" in said["design"][2]
    # With the last one still to come, the design leaves the noise of the others and finds that of the ledger.
    before, _, last = plan.read_text().rpartition("published = true")
    plan.write_text(before + "published = false" + last)
    noise = {one.release: one.stddev for one in sl.design(plan, grain="release").noise}
    assert decision.noise_factor is not None
    assert (noise["by feeder (2)"], noise["by feeder (3)"], noise["total (5)"]) == (4000.0, 4000.0, 900.0)
    assert noise["others (6)"] <= 900.0 * decision.noise_factor * (1 + 1e-9)
    assert noise["others (6)"] == pytest.approx(900.0 * decision.noise_factor, rel=0.01)


@pytest.mark.parametrize("seed", range(6))
def test_the_least_change_is_that_of_the_pseudo_inverse(seed: int) -> None:
    """With equal columns, empty ones, weights, and numbers that depend on each other."""
    random = np.random.default_rng(seed)
    kinds = random.integers(-1, 3, (7, 5)) * random.choice([1.0, 0.5], (7, 5))
    kinds[6] = kinds[0] + kinds[1]
    matrix = kinds[:, random.integers(0, 5, 40)] * (random.random(40) < 0.9)
    missing = matrix @ random.uniform(-9, 9, 40) + (seed % 2) * random.standard_normal(7)
    found = least_change(csr_array(matrix), missing)
    np.testing.assert_allclose(found, np.linalg.pinv(matrix) @ missing, atol=1e-9)
