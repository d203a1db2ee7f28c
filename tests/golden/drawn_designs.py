"""Random membership designs, and random plans for the design of noise, each from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

import sightline as sl
from sightline.theory.labeled import CoinPrior
from tests.golden.drawn_plans import DrawnPlan

PRIORS = ("uniform", "cos2", "two-point", "coin")
NOISE_DESIGNS = ("numbers", "yes or no", "persons", "known records")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnDesign:
    """A table of weights, releases × records, with its noise, its prior and who is known."""

    rows: np.ndarray
    noise: sl.GaussianNoise | sl.LaplaceNoise
    readout: str
    prior: str
    known: tuple[int, ...]

    def exposures(self) -> Any:
        """What the design exposes, by the library."""
        options: dict[str, Any] = {"noise": self.noise, "readout": self.readout}
        design = sl.MembershipDesign(self.rows, **options)
        if self.prior == "coin":
            return design.exposures(prior=CoinPrior(), known=self.known)
        return design.exposures(domain=(0.0, 1.0), prior=self.prior, known=self.known)


def drawn_design(seed: int) -> DrawnDesign:
    """A design with integers of a nasty structure: nested, chained, repeated, nearly dependent, large."""
    draw = Random(f"design {seed}")
    readout = draw.choice(["sum", "sum", "mean"])
    rows = _subsets(draw) if readout == "mean" else _integers(draw)
    rows = rows[rows.any(axis=1)]
    if len(rows) == 0 or rows.shape[1] < 2:
        rows = np.array([[1, 1], [0, 1]])
    records = rows.shape[1]
    known: tuple[int, ...] = ()
    if draw.random() < 0.3:
        known = tuple(sorted(draw.sample(range(records), draw.randint(1, records - 1))))
    spread = draw.choice([0.0, 1.0, 1.0, 3.0])
    largest = max(1.0, float(np.abs(rows).max()))
    level = (largest if readout == "sum" else 1.0) * 10 ** draw.uniform(-3, 1)
    levels = np.array([level * 10 ** draw.uniform(-spread, spread) for _ in range(len(rows))])
    laplace = draw.random() < 0.25
    noise = sl.LaplaceNoise(scales=levels) if laplace else sl.GaussianNoise(stddevs=levels)
    return DrawnDesign(rows=rows, noise=noise, readout=readout, prior=draw.choice(PRIORS), known=known)


def _subsets(draw: Random) -> np.ndarray:
    """Random subsets, or subsets each of which holds the next."""
    lines, records = draw.randint(2, 10), draw.randint(2, 12)
    if draw.random() < 0.3:
        sizes = sorted((draw.randint(1, records) for _ in range(lines)), reverse=True)
        return np.array([[int(record < size) for record in range(records)] for size in sizes])
    share = draw.uniform(0.1, 0.9)
    return np.array([[int(draw.random() < share) for _ in range(records)] for _ in range(lines)])


def _integers(draw: Random) -> np.ndarray:
    lines, records = draw.randint(2, 10), draw.randint(2, 10)
    match draw.randrange(4):
        case 0:  # {i, i + 1, i + 3}: the inverse grows exponentially
            rows = sum(np.eye(max(lines, 4), k=step, dtype=np.int64) for step in (0, 1, 3))
        case 1:  # x_i + w x_{i+1}: each step multiplies the noise by w
            rows = np.eye(lines, dtype=np.int64) + draw.randint(2, 200) * np.eye(lines, k=1, dtype=np.int64)
        case 2:
            rows = np.array([[draw.randint(-9, 9) for _ in range(records)] for _ in range(lines)])
        case _:
            rows = _subsets(draw)
    rows = np.asarray(rows)
    if draw.random() < 0.3:  # some rows twice, some not at all
        rows = rows[[draw.randrange(len(rows)) for _ in range(len(rows) + 1)]]
    if draw.random() < 0.3:  # records that nothing tells apart
        rows = rows[:, [draw.randrange(rows.shape[1]) for _ in range(rows.shape[1])]]
    if draw.random() < 0.4:  # a combination of the rows, or one that misses it by one entry
        combination = np.array([draw.randint(-3, 3) for _ in rows]) @ rows
        combination[draw.randrange(rows.shape[1])] += draw.randrange(2)
        rows = np.vstack([rows, combination])
    if draw.random() < 0.2:
        rows = rows * 2 ** draw.randint(1, 16) + (rows != 0) * draw.randrange(2)
    return rows


def drawn_noise_design(seed: int) -> tuple[DrawnPlan, dict[str, Any]]:
    """A plan with a limit that its noise may not keep, and the options of the design."""
    draw = Random(f"noise design {seed}")
    kind = NOISE_DESIGNS[seed % len(NOISE_DESIGNS)]
    rows, partitions = draw.randint(4, 16), draw.randint(2, 3)
    owners = [f"P{row // 2 if kind == 'persons' else row:02d}" for row in range(rows)]
    yes_or_no = kind == "yes or no"
    columns: dict[str, list[Any]] = {
        "who": owners,
        "x": [draw.random() < 0.5 if yes_or_no else round(10 * draw.random(), 2) for _ in owners],
        "known": [int(kind == "known records" and draw.random() < 0.3) for _ in owners],
    }
    data: dict[str, Any] = {"record": "who", "secret": "x"}
    data |= {"kind": "boolean"} if yes_or_no else {"bounds": [0, 10]}
    if kind == "persons":
        data |= {"values": "independent", "max_rows_per_record": 2}
    releases: list[dict[str, Any]] = []
    for place in range(partitions):
        number = draw.randint(1, 4)
        columns[f"g{place}"] = [f"v{draw.randrange(number)}" for _ in owners]
        aggregate = "COUNT(*) FILTER (WHERE x)" if yes_or_no else draw.choice(["SUM(x)", "AVG(x)"])
        stddev = 10 ** draw.uniform(-1, 0.5)
        sql = f"SELECT g{place}, {aggregate} AS n FROM data GROUP BY g{place}"
        releases.append({"name": f"r{place}", "sql": sql, "noise_stddev": stddev})
    plan = {
        "data": data,
        "release": releases,
        "attacker": {"knows": ["known = 1"]} if kind == "known records" else {},
        "limits": {
            "remaining_uncertainty": draw.choice([0.2, 0.5, 0.7]),
            "accept": ["homogeneous", "few_values", "values", "drawn", "empty"],
        },
    }
    options = {
        "grain": draw.choice(["cell", "cell", "release"]),
        "loss": draw.choice(["variance", "variance", "relative", "largest"]),  # the last is refused
    }
    return DrawnPlan(plan=plan, columns=columns), options
