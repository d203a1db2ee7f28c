"""Plans that must not pass, as data, each with the reason that is expected, for every door.

A door that refuses a case for another reason than the recorded one fails its test.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

Plan = dict[str, Any]
FAILED, REFUSED = "failed", "refused"  # other reasons are the names of assumptions that are not verified


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A plan that must not pass, over a table that is written to a file."""

    name: str
    table: Callable[[], pl.DataFrame]
    plan: Plan  # without the source
    reason: str
    words: str = ""  # of the refusal

    def written(self, folder: Path) -> Plan:
        """The plan over its table in a folder."""
        self.table().write_parquet(folder / "t.parquet")
        return {**self.plan, "data": {"source": str(folder / "t.parquet"), **self.plan["data"]}}


def _hours() -> pl.DataFrame:
    """Ten homes with a level each, by the hour of four months."""
    rng = np.random.default_rng(3)
    kwh = np.clip(rng.uniform(1, 9, 10)[:, None] + rng.normal(0, 0.5, (10, 80)), 0, 10)
    home, hour = np.meshgrid(range(10), range(80), indexing="ij")
    return pl.DataFrame({"home": home.ravel(), "month": (hour // 20).ravel(), "kwh": kwh.ravel()})


def _people(number: int = 40, whole: bool = False) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 10, number)
    return pl.DataFrame(
        {
            "who": range(number),
            "g": [i % 4 for i in range(number)],
            "x": x.round() if whole else x,
            "y": 1.2 * x + rng.normal(0, 0.1, number),
        }
    )


def _alike() -> pl.DataFrame:
    """In one of four groups everyone has the least value."""
    return _people().with_columns(pl.when(pl.col("g") == 2).then(0.0).otherwise(pl.col("x")).alias("x"))


def _outside() -> pl.DataFrame:
    """One value lies outside the bounds."""
    return _people().with_columns(pl.when(pl.col("who") == 3).then(25.0).otherwise(pl.col("x")).alias("x"))


HOMES = {"record": "home", "secret": "kwh", "bounds": [0, 10], "max_rows_per_record": 80}
PEOPLE = {"record": "who", "secret": "x", "bounds": [0, 10]}
LIMIT = {"remaining_uncertainty": 0.5}
MONTHS = [
    {"name": name, "sql": f"SELECT month, SUM(kwh) FROM data {where} GROUP BY month", "noise_stddev": 25.0}
    for name, where in (("all", ""), ("without one", "WHERE home <> 7"))
]


def _sums(sql: str, noise: float = 4.0) -> list[dict[str, Any]]:
    return [{"name": "r", "sql": sql, "noise_stddev": noise}]


CASES = (
    Case(
        name="months with and without one home",
        table=_hours,
        plan={"data": HOMES, "limits": LIMIT, "release": MONTHS},
        reason=FAILED,
    ),
    Case(
        name="rows said to have nothing in common",
        table=_hours,
        plan={"data": HOMES | {"values": "independent"}, "limits": LIMIT, "release": MONTHS},
        reason="rows_apart",
    ),
    Case(
        name="the mean of a column like the secret",
        table=_people,
        plan={
            "data": PEOPLE,
            "limits": LIMIT,
            "release": _sums("SELECT g, SUM(x), AVG(y) FROM data GROUP BY g", 20.0),
        },
        reason=REFUSED,
        words="sums and means of columns that [data] public lists",
    ),
    Case(
        name="whole numbers behind little noise",
        table=lambda: _people(40, whole=True),
        plan={
            "data": PEOPLE,
            "limits": LIMIT,
            "release": _sums("SELECT g, SUM(x) FROM data GROUP BY g", 0.01),
        },
        reason="few_values",
    ),
    Case(
        name="a group of one value",
        table=_alike,
        plan={"data": PEOPLE, "limits": LIMIT, "release": _sums("SELECT g, SUM(x) FROM data GROUP BY g")},
        reason="homogeneous",
    ),
    Case(
        name="a value outside the bounds",
        table=_outside,
        plan={
            "data": PEOPLE,
            "limits": LIMIT,
            "release": _sums("SELECT g, AVG(x) FROM data GROUP BY g", 20.0),
        },
        reason="clipped",
    ),
    Case(
        name="lines sorted by a number",
        table=_people,
        plan={
            "data": PEOPLE,
            "limits": LIMIT,
            "release": _sums("SELECT g, SUM(x) AS n FROM data GROUP BY g ORDER BY n", 20.0),
        },
        reason="noise_first",
    ),
    Case(
        name="some known by a draw",
        table=_people,
        plan={
            "data": PEOPLE,
            "attacker": {"knows": ["20%"]},
            "limits": LIMIT,
            "release": _sums("SELECT g, SUM(x) FROM data GROUP BY g", 1.0),
        },
        reason="drawn",
    ),
    Case(
        name="a difference of two sums",
        table=_people,
        plan={
            "data": PEOPLE,
            "limits": LIMIT,
            "release": [
                {"name": name, "sql": f"SELECT SUM(x) FROM data {where}", "noise_stddev": math.sqrt(0.5)}
                for name, where in (("all", ""), ("others", "WHERE who <> 3"))
            ],
        },
        reason=FAILED,
    ),
)
