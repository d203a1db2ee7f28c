"""Rounded counts of people who are counted once a year: who is certain, k, and what remains, year by year."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.ledger.book import Ledger
from tests.numbered_cases import trials

YEARS = (2024, 2025)
LIMITS = {"remaining_uncertainty": 0.3, "accept": ["rows_apart", "homogeneous"]}


def people(seed: int, size: int) -> Any:
    """One row of each person and year; some are not there in the second, and some have moved."""
    rng = np.random.default_rng([45, seed])
    first = pd.DataFrame(
        {"who": [f"p{one}" for one in range(size)], "ward": rng.choice(["a", "b"], size), "year": 2024}
    )
    moved = rng.random(size) < 0.3
    second = first.assign(year=2025, ward=np.where(moved, rng.choice(["a", "b"], size), first.ward))
    table = pd.concat([first, second[rng.random(size) < 0.9]], ignore_index=True)
    return table.assign(ill=rng.random(len(table)) < rng.choice([0.2, 0.5, 0.9]))


def releases(seed: int) -> list[dict[str, Any]]:
    rng, found = np.random.default_rng([46, seed]), []
    for year in YEARS:
        for by in ("ward", ""):
            keys, grouped = (f"{by}, ", f" GROUP BY {by}") if by else ("", "")
            sql = f"SELECT {keys}COUNT(*) FILTER (WHERE ill) AS n FROM data WHERE year = {year}{grouped}"
            rule: dict[str, Any] = {"noise": {"law": "rounding", "to": int(rng.integers(2, 6))}}
            if rng.random() < 0.4:
                rule = {"noise": {"law": "none"}, "suppress_below": 3}
            found.append({"name": f"{year} {by}", "sql": sql, **rule})
    return found


def audited(table: Any, some: list[dict[str, Any]], *, values: str = "independent", k: int = 0) -> Any:
    data = {"source": table, "record": "who", "secret": "ill", "kind": "boolean", "public": ["ward", "year"]}
    several = {"max_rows_per_record": 2, "values": values} if table.who.duplicated().any() else {}
    rules = {"k": k} if k else {}
    return sl.audit({"data": data | several, "limits": LIMITS, "rules": rules, "release": some})


def published(count: int, rule: dict[str, Any]) -> int:
    base, below = int(rule["noise"].get("to", 1)), int(rule.get("suppress_below", 0))
    return -1 if count < below else (count + base // 2) // base * base


@pytest.mark.slow
@pytest.mark.parametrize("seed", trials(24))
def test_against_all_tables(seed: int) -> None:
    """Whoever has one value in a year in all tables is certain; a lower end is below what the best attack
    leaves of any row, and of how many years somebody was ill.
    """
    table, some = people(seed, 5), releases(seed)
    result = audited(table, some)
    counted = []
    for place, release in enumerate(some):
        year, by_ward = YEARS[place // 2], place % 2 == 0
        of_year = (table.year == year).to_numpy()
        for ward in sorted(table.ward[of_year].unique()) if by_ward else [None]:
            inside = of_year & (table.ward == ward).to_numpy() if ward else of_year
            counted.append((inside, release))
    worlds = np.array(list(product([0, 1], repeat=len(table))))
    seen = np.array([[published(int(n), one) for n in worlds @ inside] for inside, one in counted]).T
    true = [published(int(table.ill[inside].sum()), one) for inside, one in counted]
    fitting = worlds[(seen == true).all(axis=1)]
    same = fitting.min(axis=0) == fitting.max(axis=0)
    assert fitting.size
    assert result.certain is not None
    assert result.certain.undecided == 0
    assert result.certain.people == table.who[same].nunique()
    _, view = np.unique(seen, axis=0, return_inverse=True)
    view, size = view.ravel(), np.bincount(view.ravel())
    features = [np.eye(len(table))[i] for i in range(len(table))]
    features += [(table.who == who).to_numpy(dtype=float) for who in table.who.unique()]
    for feature in features:
        value = worlds @ feature
        mean = np.bincount(view, value) / size
        left = ((value - mean[view]) ** 2).mean() / value.var()
        assert result.least_remaining_uncertainty.lower <= left + 1e-9


@pytest.mark.parametrize("seed", trials(6))
def test_the_plan_of_both_years_says_what_the_plans_of_each_say(seed: int) -> None:
    table, some = people(seed, 30), releases(seed)
    both = audited(table, some, k=4)
    each = [
        audited(table[table.year == year], some[2 * place :][:2], k=4) for place, year in enumerate(YEARS)
    ]
    assert both.rules.in_all == sum(one.rules.in_all for one in each)
    assert both.certain.people <= sum(one.certain.people for one in each)
    assert (both.certain.people == 0) == all(one.certain.people == 0 for one in each)
    assert "count_rules" not in {one.name for one in both.unverified if "under the rule k" in one.reason}


def test_what_may_be_one_value_in_both_years_is_refused() -> None:
    with pytest.raises(InvalidPlan, match="one in each number and values = 'independent'"):
        audited(people(0, 30), releases(0), values="any")


@pytest.mark.parametrize("seed", range(2))
def test_a_ledger_of_two_years_says_what_one_plan_says(tmp_path: Path, seed: int) -> None:
    table, some = people(seed, 30), releases(seed)
    together = audited(table, some, k=4)
    table.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "head.toml").write_text(
        '[data]\nsource = "t.parquet"\nrecord = "who"\nsecret = "ill"\nkind = "boolean"\n'
        'public = ["ward", "year"]\nmax_rows_per_record = 2\nvalues = "independent"\n[rules]\nk = 4\n'
        '[limits]\nremaining_uncertainty = 0.3\naccept = ["rows_apart", "homogeneous"]\n'
    )
    ledger = Ledger.start(tmp_path / "ledger", head=tmp_path / "head.toml", values="by-epoch")
    for year in YEARS:
        ledger.start_epoch(str(year))
        table[table.year == year].to_parquet(tmp_path / f"{year}.parquet")
    for release in some:
        year = release["name"][:4]
        decision, _ = ledger.add(release, epoch=year, table=tmp_path / f"{year}.parquet", despite="a test")
    own = decision.result
    assert own.rules is not None
    assert own.rules.in_all == together.rules.in_all
    certain = {one.name: one.count for one in own.unverified}.get("certain", 0)
    assert certain == together.certain.people
    assert own.verdict.status == together.verdict.status
    assert decision.after.least is not None
    assert decision.after.least.lower == pytest.approx(together.least_remaining_uncertainty.lower, abs=1e-9)
