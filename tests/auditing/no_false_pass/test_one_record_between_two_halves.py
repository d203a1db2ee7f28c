"""One record belongs to both halves of a table: thirty totals together tell it, and no two of them do.

The totals of the groups a of one half, less those of its groups b, are the value of the record that is in an
a of this half and in a b of the other. The other half tells it too, with noise of its own, so the best attack
has an error of σ√30/√2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl

HALF, PEOPLE = 15, 2_000


def plan_of(folder: Path, *, noise: float, between: bool) -> dict[str, Any]:
    generator = np.random.default_rng(9)
    half = generator.integers(0, 2, PEOPLE)
    a, b = (generator.integers(0, HALF, PEOPLE) + HALF * half for _ in range(2))
    if between:
        a[0], b[0] = 3, 3 + HALF
    lines = [f"p{i},a{a[i]},b{b[i]},{x:.3f}" for i, x in enumerate(generator.uniform(0, 100, PEOPLE))]
    (folder / "people.csv").write_text("\n".join(["id,a,b,x", *lines]) + "\n")
    return {
        "data": {"source": str(folder / "people.csv"), "record": "id", "secret": "x", "bounds": [0, 100]},
        "limits": {"remaining_uncertainty": 0.5},
        "release": [
            {"name": key, "sql": f"SELECT {key}, SUM(x) FROM data GROUP BY {key}", "noise_stddev": noise}
            for key in ("a", "b")
        ],
    }


def test_it_is_told_by_thirty_totals(tmp_path: Path) -> None:
    result = sl.audit(plan_of(tmp_path, noise=2.0, between=True), names=True)
    assert result.verdict.passed is False
    assert (result.identifiable_records, result.verdict.below_limit) == (1, 1)
    assert result.exposed[0].record == "p0"
    assert result.exposed[0].rmse == pytest.approx(2.0 * np.sqrt(2 * HALF / 2), rel=1e-9)


def test_without_it_nobody_is(tmp_path: Path) -> None:
    result = sl.audit(plan_of(tmp_path, noise=2.0, between=False))
    assert result.verdict.passed is True
    assert result.identifiable_records == 0
