"""Counts that were rounded or blank in several entries: the ledger's answer is that of one plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.ledger.book import Ledger
from sightline.ledger.decision import ReleaseDecision

HEAD = """
[data]
source = "people.parquet"
record = "who"
secret = "ill"
kind = "boolean"
public = ["ward", "age"]

[limits]
remaining_uncertainty = "50%"
"""
WARD = "SELECT ward, COUNT(*) FILTER (WHERE ill) AS n FROM data GROUP BY ward"
AGE = "SELECT age, COUNT(*) FILTER (WHERE ill) AS n FROM data GROUP BY age"
BOTH = "SELECT ward, age, COUNT(*) FILTER (WHERE ill) AS n FROM data GROUP BY ward, age"
COUNT = "COUNT(*) FILTER (WHERE ill)"
HEALTHY = "COUNT(*) FILTER (WHERE NOT ill)"
TOTAL = f"SELECT {COUNT} AS n FROM data"
ROUNDED = {"noise": {"law": "rounding", "to": 5}}
EXACT = {"noise": {"law": "none"}}


def people(seed: int, size: int = 11) -> Any:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "who": [f"p{one}" for one in range(size)],
            "ward": rng.choice(["a", "b", "c"], size, p=[0.5, 0.35, 0.15]),
            "age": rng.choice(["young", "old"], size),
            "ill": rng.random(size) < 0.6,
        }
    )


def started(folder: Path, table: Any, head: str = HEAD) -> Ledger:
    table.to_parquet(folder / "people.parquet")
    (folder / "head.toml").write_text(head)
    return Ledger.start(folder / "ledger", head=folder / "head.toml", values="one")


def added(ledger: Ledger, *releases: dict[str, Any]) -> ReleaseDecision:
    for place, one in enumerate(releases):
        decision, number = ledger.add({"name": f"r{place}", **one}, despite="a test")
        assert number is not None
    return decision


def one_plan(table: Any, *releases: dict[str, Any], **sections: Any) -> sl.AuditResult:
    return sl.audit(
        {
            "data": {
                "source": table,
                "record": "who",
                "secret": "ill",
                "kind": "boolean",
                "public": ["ward", "age"],
            },
            "limits": {"remaining_uncertainty": 0.5},
            "release": [{"name": f"r{place}", **one} for place, one in enumerate(releases)],
            **sections,
        }
    )


def certain(result: sl.AuditResult) -> tuple[int, int]:
    """How many people are certain, or not decided, as the assumptions of a result say."""
    return next(
        ((one.count, 0) for one in result.unverified if one.name == "certain"),
        (0, 0),
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "releases",
    [
        ({"sql": WARD, **ROUNDED}, {"sql": AGE, **ROUNDED}, {"sql": BOTH, **ROUNDED}),
        ({"sql": WARD, **EXACT, "suppress_below": 4}, {"sql": TOTAL, **EXACT}),
        ({"sql": BOTH, **EXACT, "suppress_below": 3}, {"sql": AGE, "noise": {"law": "within", "of": 1.0}}),
        (
            {"sql": WARD, "noise": {"law": "rounding", "to": 3, "how": "down"}},
            {"sql": AGE + " HAVING COUNT(*) FILTER (WHERE ill) >= 4", **EXACT},
            {"sql": TOTAL, "noise": {"law": "rounding", "to": 3, "how": "up"}},
        ),
        (
            {"sql": TOTAL, **ROUNDED},
            {"sql": WARD.replace(COUNT, f"CASE WHEN {HEALTHY} < 4 THEN NULL ELSE {HEALTHY} END"), **EXACT},
        ),
    ],
    ids=["rounded", "blank beside a total", "blank and within", "up, down and HAVING", "CASE comes last"],
)
def test_entries_one_by_one_say_what_one_plan_says(
    tmp_path: Path, seed: int, releases: tuple[dict[str, Any], ...]
) -> None:
    table = people(seed)
    together = one_plan(table, *releases)
    ledger = started(tmp_path, table)
    decision = added(ledger, *releases)
    assert decision.result.verdict.status == together.verdict.status
    # The plan that it writes has a table with the true counts, of answers that are no one's.
    again = sl.audit(ledger.plan(tmp_path / "all.toml"))
    assert (again.verdict.status, certain(again)) == (together.verdict.status, certain(together))
    assert certain(decision.result) == certain(together)
    assert together.certain is not None
    assert certain(together)[0] == together.certain.people
    assert decision.after.least is not None
    assert together.least_remaining_uncertainty is not None
    assert decision.after.least.lower == pytest.approx(together.least_remaining_uncertainty.lower, abs=1e-9)


def test_the_rule_k_holds_over_differences_of_entries(tmp_path: Path) -> None:
    table = people(1)
    head = HEAD + "\n[rules]\nk = 3\n"
    releases = ({"sql": WARD, **EXACT, "suppress_below": 3}, {"sql": TOTAL, **EXACT})
    together = one_plan(table, *releases, rules={"k": 3})
    ledger = started(tmp_path, table, head)
    decision = added(ledger, *releases)
    again = sl.audit(ledger.plan(tmp_path / "all.toml"))
    assert together.rules is not None
    assert again.rules is not None
    assert again.rules.in_all == together.rules.in_all
    assert decision.result.rules is not None
    assert together.rules.in_all > 0
    assert decision.result.rules.in_all == together.rules.in_all


@pytest.mark.parametrize(
    ("release", "message"),
    [
        (
            {"sql": WARD, "noise": {"law": "cell-key", "ptable": "p.csv"}},
            "exact, rounded or blank counts, or counts known to within, got cell keys",
        ),
        (
            {
                "sql": f"SELECT {COUNT} AS n, COUNT(*) FILTER (WHERE NOT ill) AS m FROM data",
                "noise": [{"law": "rounding", "to": 5, "label": "n"}, {"law": "none", "label": "m"}],
            },
            "one rule for all of its counts, got several",
        ),
        ({"sql": WARD, **EXACT, "numbers": "n.csv"}, "numbers that its SQL makes, got a file of numbers"),
    ],
)
def test_what_an_entry_cannot_keep_is_refused(tmp_path: Path, release: dict[str, Any], message: str) -> None:
    ledger = started(tmp_path, people(0))
    with pytest.raises(InvalidPlan, match=message):
        ledger.check({"name": "r", **release})


def test_epochs_of_rounded_counts_are_refused(tmp_path: Path) -> None:
    table = people(0)
    table.to_parquet(tmp_path / "people.parquet")
    (tmp_path / "head.toml").write_text(HEAD)
    ledger = Ledger.start(tmp_path / "ledger", head=tmp_path / "head.toml", values="by-epoch")
    release = {"name": "r", "sql": WARD, **ROUNDED}
    for year in ("2024", "2025"):
        ledger.start_epoch(year)
        if year == "2024":
            ledger.add(release, epoch=year, despite="a test")
    with pytest.raises(InvalidPlan, match="counts of records with one row each"):
        ledger.check(release, epoch="2025")


@pytest.mark.parametrize(
    ("says", "status", "open_ones"),
    [("", "not shown", 5), ('values = "independent"', "passed", 0)],
)
def test_exact_counts_of_two_years_are_open_if_values_may_stay(
    tmp_path: Path, says: str, status: str, open_ones: int
) -> None:
    """Ten people in both years, and five in the first alone, none of whom is ill: if nobody's value changed,
    that follows from six and six.
    """
    limits = (
        '[limits]\nremaining_uncertainty = 0.05\naccept = ["homogeneous", "values", "rows_apart", "turnover"]'
    )
    head = f'[data]\nsource = "2024.parquet"\nrecord = "id"\nsecret = "ill"\nkind = "boolean"\n{says}\n'
    (tmp_path / "head.toml").write_text(head + limits)
    table = pd.DataFrame({"id": [f"p{n}" for n in range(15)], "ill": [n < 6 for n in range(15)]})
    for year, there in (("2024", table), ("2025", table[:10])):
        there.to_parquet(tmp_path / f"{year}.parquet")
    ledger = Ledger.start(tmp_path / "ledger", head=tmp_path / "head.toml", values="by-epoch")
    release = {"sql": "SELECT COUNT(*) FILTER (WHERE ill) AS n FROM data", "noise": {"law": "none"}}
    for year in ("2024", "2025"):
        ledger.start_epoch(year)
        file = tmp_path / f"{year}.parquet"
        decision, _ = ledger.add({"name": f"in {year}", **release}, table=file, epoch=year, despite="a test")
    assert decision.result.verdict.status == status
    undecided = [one.count for one in decision.result.unverified if one.name == "undecided"]
    assert undecided == [open_ones] * bool(open_ones)


def test_the_plan_of_a_ledger_of_categories_has_the_true_counts(tmp_path: Path) -> None:
    table = people(2).assign(ill=np.random.default_rng(0).choice(["flu", "cold", "none"], 11))
    head = HEAD.replace('kind = "boolean"', 'kind = "category"\ncategories = ["flu", "cold", "none"]')
    sql = "SELECT ward, COUNT(*) FILTER (WHERE ill = 'flu') AS n FROM data GROUP BY ward"
    ledger = started(tmp_path, table, head)
    added(ledger, {"sql": sql, **EXACT}, {"sql": sql.replace("ward", "age").replace("flu", "cold"), **EXACT})
    ledger.plan(tmp_path / "all.toml")
    written = pd.read_parquet(tmp_path / "all.parquet")
    by_ward, by_age = (written.columns[place] for place in (-2, -1))
    for name, column, kind in (("ward", by_ward, "flu"), ("age", by_age, "cold")):
        true = table[table.ill == kind].groupby(name).size().to_dict()
        assert written[written.ill == kind].groupby(column).size().to_dict() == true
