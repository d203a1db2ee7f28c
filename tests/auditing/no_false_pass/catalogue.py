"""Plans that must not pass, as data, each with the reason that is expected, for every door.

A door that refuses a case for another reason than the recorded one fails its test. Every assumption of a pass
has a case, so that no door forgets one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
    # Doors that refuse it for a reason of their own, by the first word of their names, with words of it.
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    by_noise: bool = False  # whether more noise is all that it takes: then a design passes
    engine: str = ""  # the one engine that computes it so; on all of them if empty

    def refused_by(self, door: str) -> str:
        """Words of the refusal of a door, if it refuses the plan."""
        own = self.words if self.reason == REFUSED else ""
        return self.elsewhere.get(door.partition(" ")[0], own)

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


def _heated() -> pl.DataFrame:
    """Homes that are heated or not: their levels are two, and hours spread about them."""
    rng = np.random.default_rng(2)
    apart = rng.uniform(-1.4, 1.4, (12, 20))
    kwh = np.where(np.arange(12) % 2, 8.0, 2.0)[:, None] + apart - apart.mean(axis=1, keepdims=True)
    home = np.repeat(np.arange(12), 20)
    return pl.DataFrame({"home": home, "g": home // 3, "w": 1 + home % 3 / 10, "kwh": kwh.ravel()})


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


def _without_some() -> pl.DataFrame:
    """Some people have no value."""
    return _people().with_columns(pl.when(pl.col("who") > 36).then(None).otherwise(pl.col("x")).alias("x"))


def _repeated() -> pl.DataFrame:
    """Four rows of one value each."""
    return pl.concat([_people()] * 4)


def _visits() -> pl.DataFrame:
    """One person with sixty rows, and others with one."""
    rng = np.random.default_rng(7)
    times = np.where(np.arange(40) == 3, 60, 1)
    who = np.repeat(np.arange(40), times)
    return pl.DataFrame({"who": who, "g": who % 4, "x": rng.uniform(0, 10, who.size)})


def _with_bands() -> pl.DataFrame:
    """Bands of a column that is like the secret, with noise of its own."""
    rng = np.random.default_rng(9)
    table = _people(400)
    band = ((table["x"].to_numpy() + rng.normal(0, 1, 400)) // 2).astype(np.int64)
    return table.with_columns(band=pl.Series(band))


HOMES = {"record": "home", "secret": "kwh", "bounds": [0, 10], "max_rows_per_record": 80}
PEOPLE = {"record": "who", "secret": "x", "bounds": [0, 10]}
LIMIT = {"remaining_uncertainty": 0.5}
ILL = "SELECT g, COUNT(*) FILTER (WHERE ill) AS n FROM data GROUP BY g"
MONTHS = [
    {"name": name, "sql": f"SELECT month, SUM(kwh) FROM data {where} GROUP BY month", "noise_stddev": 25.0}
    for name, where in (("all", ""), ("without one", "WHERE home <> 7"))
]


ROWS_OF_SEVERAL = "one release in each epoch, where persons have several rows"  # a ledger cannot join them


def _sums(sql: str, noise: float = 4.0) -> list[dict[str, Any]]:
    return [{"name": "r", "sql": sql, "noise_stddev": noise}]


CASES = (
    Case(
        name="months with and without one home",
        table=_hours,
        plan={"data": HOMES, "limits": LIMIT, "release": MONTHS},
        reason=FAILED,
        by_noise=True,
        elsewhere={"ledger": ROWS_OF_SEVERAL},
    ),
    Case(
        name="months of one home against each other, which share levels of their own",
        table=lambda: _hours().with_columns(sign=1 - 2 * (pl.col("month") % 2)),
        plan={
            "data": HOMES | {"blocks": ["month"]},
            "limits": LIMIT,
            "release": _sums("SELECT SUM(kwh * sign) FROM data WHERE home = 7", 60.0),
        },
        reason=FAILED,
        by_noise=True,
        elsewhere={"ledger": "no [data] blocks"},
    ),
    Case(
        name="levels that are two, of rows that are many",
        table=_heated,
        plan={
            "data": HOMES,
            "limits": {"remaining_uncertainty": 0.3},
            "release": _sums("SELECT g, SUM(kwh * w) FROM data GROUP BY g"),
        },
        reason="few_values",
    ),
    Case(
        name="rows said to have nothing in common",
        table=_hours,
        plan={"data": HOMES | {"values": "independent"}, "limits": LIMIT, "release": MONTHS[:1]},
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
        by_noise=True,
    ),
    Case(
        name="people without a value, and how many there are",
        table=_without_some,
        plan={
            "data": PEOPLE,
            "limits": LIMIT,
            "release": _sums("SELECT g, COUNT(x) AS n, SUM(x) FROM data GROUP BY g", 20.0),
        },
        reason="dropped",
    ),
    Case(
        name="a line that is there for those with a high value alone",
        table=_people,
        plan={
            "data": PEOPLE,
            "limits": LIMIT,
            "release": _sums("SELECT g, COUNT(*) FROM data WHERE x > 9 GROUP BY g", 20.0),
        },
        reason="groups",
    ),
    Case(
        name="groups by a column that is the secret in other units",
        table=_people,
        plan={
            "data": PEOPLE,
            "limits": LIMIT,
            "release": _sums("SELECT CAST(y / 3 AS INTEGER) AS band, SUM(x) FROM data GROUP BY 1", 20.0),
        },
        reason="derived, explained",  # the column, and what is made of it
    ),
    Case(
        name="groups that tell most of the secret",
        table=_with_bands,
        plan={
            "data": PEOPLE,
            "limits": LIMIT,
            "release": _sums("SELECT band, SUM(x) FROM data GROUP BY band", 200.0),
        },
        reason="explained",
    ),
    Case(
        name="another secret that nothing is said of",
        table=_people,
        plan={
            "data": PEOPLE,
            "limits": LIMIT,
            "secret": [{"column": "y"}],
            "release": _sums("SELECT g, SUM(x) FROM data GROUP BY g", 20.0),
        },
        reason="secrets",
    ),
    Case(
        name="groups that a noisy count hid",
        table=_people,
        plan={
            "data": PEOPLE,
            "limits": LIMIT,
            "release": [
                {
                    "name": "r",
                    "sql": "SELECT g, SUM(x) FROM data GROUP BY g",
                    "noise_stddev": 20.0,
                    "withhold": ["2"],
                    "hidden_by_noise": True,
                    "published": True,
                }
            ],
        },
        reason="hidden_by_noise",
    ),
    Case(
        name="squares of the values",
        table=_people,
        plan={
            "data": PEOPLE,
            "limits": LIMIT,
            "release": _sums("SELECT g, SUM(x * x) FROM data GROUP BY g", 5.0),
        },
        reason="local",
    ),
    Case(
        name="several rows of one value that are said to be apart",
        table=_repeated,
        plan={
            "data": PEOPLE | {"max_rows_per_record": 4, "values": "independent"},
            "limits": LIMIT | {"accept": ["rows_apart"]},
            "release": _sums("SELECT g, SUM(x) FROM data GROUP BY g", 20.0),
        },
        reason="values",
    ),
    Case(
        name="sums of unequal numbers of rows",
        table=_visits,
        plan={
            "data": PEOPLE
            | {"bounds": [0, 600], "sql": "SELECT who, g, SUM(x) AS x FROM source GROUP BY who, g"},
            "limits": LIMIT | {"accept": ["few_values", "homogeneous"]},
            "release": _sums("SELECT g, SUM(x) FROM data GROUP BY g", 30.0),
        },
        reason="unequal",
    ),
    Case(
        name="groups of fewer people than the rule says",
        table=_people,
        plan={
            "data": PEOPLE,
            "limits": LIMIT,
            "rules": {"k": 11},
            "release": _sums("SELECT g, SUM(x) FROM data GROUP BY g", 20.0),
        },
        reason=FAILED,
    ),
    Case(
        name="a count of fewer people than the rule says",
        table=lambda: _people(200).with_columns(ill=pl.col("x") > 9.7),
        plan={
            "data": {"record": "who", "secret": "ill", "kind": "boolean"},
            "limits": LIMIT,
            "rules": {"k": 5},
            "release": [
                {
                    "name": "r",
                    "sql": "SELECT g, COUNT(*) FILTER (WHERE ill) FROM data GROUP BY g",
                    "noise": {"law": "none"},
                }
            ],
        },
        reason=FAILED,
        elsewhere={"streamed": "independent noise on all numbers"},
    ),
    Case(
        name="an exact count of a group of whom all are ill",
        table=lambda: _people().with_columns(ill=(pl.col("x") > 5) | (pl.col("g") == 2)),
        plan={
            "data": {"record": "who", "secret": "ill", "kind": "boolean"},
            "limits": LIMIT,
            "release": [
                {
                    "name": "r",
                    "sql": "SELECT g, COUNT(*) FILTER (WHERE ill) FROM data GROUP BY g",
                    "noise": {"law": "none"},
                }
            ],
        },
        reason=FAILED,
        elsewhere={"streamed": "independent noise on all numbers"},
    ),
    Case(
        name="who is in the table, by lines of groups",
        table=_people,
        plan={
            "data": {"record": "who", "secret": "presence"},
            "limits": LIMIT,
            "release": _sums("SELECT g, COUNT(*) FROM data GROUP BY g", 1.0),
        },
        reason="groups",
        elsewhere={"ledger": "presence with a frame"},
    ),
    Case(
        name="an exact count of nobody in a group",
        table=lambda: _people().with_columns(ill=(pl.col("x") > 5) & (pl.col("g") > 0)),
        plan={
            "data": {"record": "who", "secret": "ill", "kind": "boolean"},
            "limits": LIMIT | {"accept": ["homogeneous", "certain"]},
            "release": [{"name": "ill", "sql": ILL, "noise": {"law": "none"}}],
        },
        reason=FAILED,
        elsewhere={"streamed": "signatures fit"},
    ),
    Case(
        name="rounded counts of few people each",
        table=lambda: _people(12).with_columns(ill=pl.col("who") < 6, g=pl.col("who") % 3),
        plan={
            "data": {"record": "who", "secret": "ill", "kind": "boolean"},
            "limits": {"remaining_uncertainty": 0.9, "accept": ["homogeneous", "count_rules"]},
            "release": [{"name": "ill", "sql": ILL, "noise": {"law": "rounding", "to": 5}}],
        },
        reason="count_rules",
        elsewhere={"streamed": "signatures fit"},
    ),
    Case(
        name="the rule k and an exact count of one person, where somebody else is known",
        table=lambda: _people().with_columns(
            ill=(pl.col("who") < 20) & (pl.col("g") > 0) | (pl.col("who") == 0)
        ),
        plan={
            "data": {"record": "who", "secret": "ill", "kind": "boolean"},
            "limits": {"remaining_uncertainty": 0.01, "accept": ["homogeneous", "count_rules"]},
            "rules": {"k": 3},
            "attacker": {"knows": ["g = 2"]},
            "release": [{"name": "ill", "sql": ILL, "noise": {"law": "none"}}],
        },
        reason="count_rules",
        elsewhere={"streamed": "signatures fit"},
    ),
    Case(
        name="the rule k and a count of one person, rounded to none",
        table=lambda: _people().with_columns(
            ill=(pl.col("x") > 5) & (pl.col("g") > 0) | (pl.col("who") == 0)
        ),
        plan={
            "data": {"record": "who", "secret": "ill", "kind": "boolean"},
            "limits": {"remaining_uncertainty": 0.01},
            "rules": {"k": 5},
            "release": [{"name": "ill", "sql": ILL, "noise": {"law": "rounding", "to": 5}}],
        },
        reason=FAILED,
        elsewhere={"streamed": "signatures fit"},
    ),
    Case(
        name="the rule k and a count of one person, rounded by chance",
        table=lambda: _people().with_columns(
            ill=(pl.col("x") > 5) & (pl.col("g") > 0) | (pl.col("who") == 0)
        ),
        plan={
            "data": {"record": "who", "secret": "ill", "kind": "boolean"},
            "limits": {"remaining_uncertainty": 0.01},
            "rules": {"k": 5},
            "release": [{"name": "ill", "sql": ILL, "noise": {"law": "rounding", "to": 3, "how": "random"}}],
        },
        reason=FAILED,
        elsewhere={"streamed": "signatures fit"},
    ),
    Case(
        name="a difference of exact counts of a group of whom all are ill, beside a rounded count",
        table=lambda: _people(300).with_columns(
            ill=(pl.col("g") == 2) & (pl.col("who") != 2) | (pl.col("who") % 7 < 3) & (pl.col("g") != 2)
        ),
        plan={
            "data": {"record": "who", "secret": "ill", "kind": "boolean"},
            "limits": {"remaining_uncertainty": 0.1},
            "release": [
                {
                    "name": "all",
                    "sql": "SELECT COUNT(*) FILTER (WHERE ill) FROM data",
                    "noise": {"law": "none"},
                },
                {
                    "name": "some",
                    "sql": "SELECT COUNT(*) FILTER (WHERE ill) FROM data WHERE g <> 2",
                    "noise": {"law": "none"},
                },
                {"name": "ill", "sql": ILL, "noise": {"law": "rounding", "to": 100}},
            ],
        },
        reason="homogeneous",
        elsewhere={"streamed": "signatures fit"},
    ),
    Case(
        name="who is in the table, by a count with little noise",
        table=_people,
        plan={
            "data": {"record": "who", "secret": "presence"},
            "limits": LIMIT | {"accept": ["homogeneous", "presence"]},
            "release": _sums("SELECT COUNT(*) AS n FROM data", 0.3),
        },
        reason="presence",
        elsewhere={"ledger": "presence with a frame"},
    ),
    Case(
        name="made NULL where it is 0",
        table=_people,
        plan={
            "data": PEOPLE,
            "limits": LIMIT,
            "release": _sums("SELECT NULLIF(SUM(x), 0) AS total FROM data", 200.0),
        },
        reason="noise_first",
    ),
    Case(
        name="rounded to thousands",
        table=_people,
        plan={
            "data": PEOPLE,
            "limits": LIMIT,
            "release": _sums("SELECT ROUND(SUM(x), -3) AS total FROM data", 200.0),
        },
        reason="noise_first",
    ),
    Case(
        name="whole numbers divided, which cuts",
        table=lambda: _people().with_columns(ill=pl.col("x") > 5),
        plan={
            "data": {"record": "who", "secret": "ill", "kind": "boolean"},
            "limits": LIMIT,
            "release": _sums("SELECT COUNT(*) FILTER (WHERE ill) / 10 AS tens FROM data", 2.0),
        },
        reason="noise_first",
        engine="Postgres",
    ),
)
