"""A design starts from Gaussian noise, however it is stated, and refuses other laws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.errors import InvalidPlan


def plan_of(folder: Path, noise: Any) -> dict[str, Any]:
    (folder / "t.csv").write_text("id,x\n" + "".join(f"p{i},{(7 * i) % 10}.25\n" for i in range(12)))
    return {
        "data": {"source": str(folder / "t.csv"), "record": "id", "secret": "x", "bounds": [0, 10]},
        "privacy": {"epsilon": 1.0, "delta": 1e-5},
        "release": [
            {"name": "all", "sql": "SELECT SUM(x) FROM data", "noise": noise},
            {"name": "most", "sql": "SELECT SUM(x) FROM data WHERE id <> 'p3'", "noise_stddev": 1.0},
        ],
        "limits": {"remaining_uncertainty": 0.5, "accept": ["few_values"]},
    }


def test_stated_gaussian_noise_is_designed_and_written_as_stddevs(tmp_path: Path) -> None:
    stated = sl.design(plan_of(tmp_path, {"noise_multiplier": 0.1}))
    plain = plan_of(tmp_path, {"stddev": 1.0})
    plain["release"][0]["noise_stddev"] = plain["release"][0].pop("noise")["stddev"]
    assert stated.plan == sl.design(plain).plan
    assert "noise_multiplier" not in stated.plan


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ({"law": "laplace", "stddev": 1.0}, "expected Gaussian noise, got noise of the law laplace"),
        ({"law": "none"}, "expected Gaussian noise, got noise of the law none"),
        (
            {"cells": [{"stddev": 1.0}]},
            "no longer have; write by_cell = ",
        ),
    ],
)
def test_other_noise_is_refused(noise: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidPlan, match=message):
        sl.design(plan_of(tmp_path, noise))
