"""Small tables and plans to design: written as CSV files, audited as any other."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from sightline.advising.task import plan_with_noise
from sightline.arrays import FloatArray
from sightline.auditing.findings import linear_findings
from sightline.auditing.pricing import price
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened


def write_table(folder: Path, *, people: int = 40, seed: int = 0) -> Path:
    """People with two uneven public columns, a number, a yes or no, and a category."""
    generator = np.random.default_rng(seed)
    lines = ["id,town,job,hours,ill,party"]
    for person in range(people):
        town, job = (int(min(7, generator.zipf(1.6))) for _ in range(2))
        hours, ill = float(generator.uniform(0, 100)), int(generator.random() < 0.5)
        party = ("red", "green", "blue")[int(generator.integers(3))]
        lines.append(f"P{person},t{town},j{job},{hours:.2f},{ill},{party}")
    path = folder / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


NUMBER: dict[str, Any] = {"secret": "hours", "bounds": [0, 100]}
YES_OR_NO: dict[str, Any] = {"secret": "ill", "kind": "boolean"}
CATEGORY: dict[str, Any] = {"secret": "party", "categories": ["red", "green", "blue"]}

MEANS = (
    {"name": "all", "sql": "SELECT AVG(hours) FROM data"},
    {"name": "by town", "sql": "SELECT town, AVG(hours) FROM data GROUP BY town"},
    {"name": "by job", "sql": "SELECT job, SUM(hours) FROM data GROUP BY job"},
)
COUNTS = (
    {"name": "by town", "sql": "SELECT town, AVG(CAST(ill AS DOUBLE)) FROM data GROUP BY town"},
    {"name": "by job", "sql": "SELECT job, SUM(ill) FROM data GROUP BY job"},
)
HISTOGRAMS = (
    {
        "name": "by town",
        "sql": "SELECT town, COUNT(*) FILTER (WHERE party = 'red'), COUNT(*) FILTER (WHERE party = 'blue') "
        "FROM data GROUP BY town",
    },
    {"name": "red", "sql": "SELECT COUNT(*) FILTER (WHERE party = 'red') FROM data"},
)


def plan_for(
    table: Path, releases: tuple[dict[str, Any], ...], *, noise: float, data: dict[str, Any], **sections: Any
) -> dict[str, Any]:
    """A plan with the same noise on all releases, unless they say otherwise."""
    return {
        "data": {"source": str(table), "record": "id", **data},
        "release": [{**({} if "noise" in one else {"noise_stddev": noise}), **one} for one in releases],
        **sections,
    }


def least_loss_on_a_grid(content: dict[str, Any], grid: FloatArray, *, limit: float) -> float:
    """The least sum of variances with which the audit passes, of all noise on a grid for two numbers."""
    plan, base = read_plan(content)
    with opened(plan, base) as session:
        membership = session.membership()
    passing = []
    for noise in itertools.product(grid, grid):
        proposed = plan_with_noise(plan, membership, np.array(noise))
        kept = linear_findings(proposed, membership, price(proposed, membership))
        assert kept is not None
        if np.nanmin(kept.lower) >= limit:
            passing.append(float(np.sum(np.square(noise))))
    return min(passing)
