"""Dominance and p over the entries of a ledger: its answer is that of one plan over the same table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.ledger.book import Ledger

HEAD = """
[data]
source = "firms.parquet"
record = "firm"
secret = "turnover"
bounds = [0, 1000]
public = ["region", "branch"]

[rules]
k = 3
dominance = [1, "60%"]
p = "10%"
"""
EXACT = {"noise": {"law": "none"}}
REGION = {"sql": "SELECT region, SUM(turnover) AS s FROM data GROUP BY region", **EXACT}
BRANCH = {"sql": "SELECT branch, SUM(turnover) AS s FROM data GROUP BY branch", **EXACT}
BUT = {"sql": "SELECT region, SUM(turnover) AS s FROM data WHERE branch <> 'x' GROUP BY region", **EXACT}
TOTAL = {"sql": "SELECT SUM(turnover) AS s FROM data WHERE region <> 'c'", **EXACT}


def firms(seed: int, size: int = 40) -> Any:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "firm": [f"f{one}" for one in range(size)],
            "region": rng.choice(["a", "b", "c"], size, p=[0.5, 0.35, 0.15]),
            "branch": rng.choice(["x", "y"], size, p=[0.3, 0.7]),
            "turnover": np.floor(np.minimum(1000, 20 * np.exp(1.3 * rng.normal(size=size)))),
        }
    )


def started(folder: Path, table: Any, values: str = "one", head: str = HEAD) -> Ledger:
    table.to_parquet(folder / "firms.parquet")
    (folder / "head.toml").write_text(head)
    return Ledger.start(folder / "ledger", head=folder / "head.toml", values=values)


@pytest.mark.parametrize("seed", range(3))
def test_entries_one_by_one_break_what_one_plan_breaks(tmp_path: Path, seed: int) -> None:
    table, releases = firms(seed), (REGION, BUT, TOTAL, BRANCH)
    data = {"source": table, "record": "firm", "secret": "turnover", "bounds": [0, 1000]}
    rules = {"k": 3, "dominance": [1, "60%"], "p": "10%"}
    named = [{"name": f"r{place}", **one} for place, one in enumerate(releases)]
    ledger, broken = started(tmp_path, table), []
    for place, release in enumerate(named):
        plan = {"data": data | {"public": ["region", "branch"]}, "rules": rules}
        together = sl.audit({**plan, "release": named[: place + 1]}).rules
        decision, number = ledger.add(release, despite="a test")
        assert number is not None
        own = decision.result.rules
        assert together is not None
        assert own is not None
        assert own.in_all == together.in_all
        assert sorted(one.rule for one in own.broken) == sorted(one.rule for one in together.broken)
        assert (decision.passed is False) == (own.in_all > 0)
        broken.append(own.in_all)
    assert broken[-1] > broken[0]  # differences of entries break it, too


def test_a_difference_of_two_entries_that_is_one_large_firm_is_refused(tmp_path: Path) -> None:
    rows = [("a", "x", 400.0), *(("a", "x", 10.0),) * 4, *(("a", "y", 100.0 + one) for one in range(30))]
    table = pd.DataFrame(rows, columns=["region", "branch", "turnover"])
    table["firm"] = [f"f{one}" for one in range(len(table))]
    ledger = started(tmp_path, table)
    first, number = ledger.add({"name": "all", **REGION})
    assert (number, first.result.rules and first.result.rules.in_all) == (1, 0)
    second, number = ledger.add({"name": "without x", **BUT})
    assert number is None
    assert second.result.rules is not None
    (text,) = {one.text for one in second.result.rules.broken if one.rule == "dominance"}
    assert text == 'dominance: "all (1): a" − "without x (2): a": the largest is more than 60 % of it'


def test_whose_values_are_not_there_or_have_changed(tmp_path: Path) -> None:
    table = firms(0)
    ledger = started(tmp_path, table)
    ledger.add({"name": "r", **REGION}, despite="a test")
    table[1:].to_parquet(tmp_path / "fewer.parquet")
    with pytest.raises(
        InvalidPlan, match="1 person of earlier entries who are not in it; check with --table"
    ):
        ledger.check({"name": "s", **BRANCH}, table=tmp_path / "fewer.parquet")
    table.assign(turnover=table.turnover + 1).to_parquet(tmp_path / "later.parquet")
    with pytest.raises(InvalidPlan, match="values that are still those of earlier entries, got 3 sums that"):
        ledger.check({"name": "s", **BRANCH}, table=tmp_path / "later.parquet")
    with pytest.raises(InvalidPlan, match="without rules about values"):
        ledger.plan(tmp_path / "all.toml")


def test_several_epochs_have_values_that_no_entry_keeps(tmp_path: Path) -> None:
    ledger = started(tmp_path, firms(0), "by-epoch")
    for year in ("2024", "2025"):
        ledger.start_epoch(year)
    ledger.add({"name": "r", **REGION}, epoch="2024", despite="a test")
    with pytest.raises(InvalidPlan, match="entries of one epoch, for dominance and p"):
        ledger.check({"name": "r", **REGION}, epoch="2025")
