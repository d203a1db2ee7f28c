"""Plans over a small table, written to a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy.stats import norm

import sightline as sl

DATA = {"source": "t.csv", "record": "id", "secret": "x"}
LIMIT = {"remaining_uncertainty": 0.5}


def written(
    folder: Path,
    rows: list[str],
    *releases: tuple[str, float],
    data: dict[str, object] | None = None,
    accept: tuple[str, ...] = (),
    knows: tuple[str, ...] = (),
    limit: float = 0.5,
) -> str:  # many parameters: the sections of a plan
    """A plan over a table with the columns id, sex, x."""
    (folder / "t.csv").write_text("id,sex,x\n" + "\n".join(rows) + "\n", encoding="utf-8")
    fields = {**DATA, **({"bounds": [0.0, 10.0]} if data is None else data)}
    lines = ["[data]", *(f"{name} = {json.dumps(value)}" for name, value in fields.items())]
    lines += ["[limits]", f"remaining_uncertainty = {limit}", f"accept = {json.dumps(list(accept))}"]
    lines += ["[attacker]", f"knows = {json.dumps(list(knows))}"]
    for number, (sql, noise) in enumerate(releases):
        lines += ["[[release]]", f'name = "r{number}"', f"sql = {json.dumps(sql)}", f"noise_stddev = {noise}"]
    path = folder / "plan.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def names(result: sl.AuditResult) -> set[str]:
    return {one.name.value for one in result.unverified if not one.accepted}


def exact_risk(truth: np.ndarray, noise: float) -> float:
    """The risk of the best guess at a 0 or 1 that is published with noise, all worlds alike: an integral."""
    y = np.linspace(-12 * noise, 1 + 12 * noise, 40_001)
    density = norm.pdf(y[:, None], truth, noise) / len(truth)
    evidence, yes = density.sum(axis=1), density @ truth
    return float(np.sum(yes - yes**2 / np.maximum(evidence, 1e-300)) * (y[1] - y[0]))
