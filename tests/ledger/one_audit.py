"""A ledger against one audit of everything: ``python -m tests.ledger.one_audit 200``.

Homes join, leave and move; releases are published several times, and some are cancelled. The rival has a row
for each home and release, all with the home's one value, and is audited once.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl
from tests.ledger.test_ledger import month, seen_of_everybody, started, written

QUERIES = {
    "means": ("SELECT feeder, AVG(watts) FROM data{where} GROUP BY feeder", 900.0),
    "sums": ("SELECT feeder, SUM(watts) FROM data{where} GROUP BY feeder", 2500.0),
    "total": ("SELECT SUM(watts) FROM data{where}", 4000.0),
}


def compared(folder: Path, seed: int) -> dict[str, int]:
    """Compare the answer after some entries with the audit; what happened, counted."""
    random = np.random.default_rng(seed)
    size = int(random.integers(4, 10))
    homes = np.array([f"h{place}" for place in range(size)], dtype=object)
    watts, feeder = random.uniform(0, 9000, size), random.choice(list("NSW"), size)
    here = random.random(size) < 0.7
    ledger, happened = started(folder), {"entries": 0, "joins": 0, "leaves": 0, "moves": 0, "copies": 0}
    published: dict[int, tuple[dict[str, Any], list[tuple[str, str, float, int]]]] = {}
    cancelled, last = 0, int(random.integers(2, 7))
    for number in range(last + 1):
        turned, moved = random.random(size) < 0.2, random.random(size) < 0.15
        happened["joins"] += int(np.count_nonzero(turned & ~here))
        happened["leaves"] += int(np.count_nonzero(turned & here))
        happened["moves"] += int(np.count_nonzero(moved))
        here ^= turned
        here[0] = True  # a table without anybody whom the ledger knows is refused
        feeder[moved] = random.choice(list("NSW"), int(np.count_nonzero(moved)))
        table = month(folder, homes[here].tolist(), feeder[here].tolist(), watts[here].tolist())
        name = str(random.choice(list(QUERIES)))
        sql, noise = QUERIES[name]
        release = {
            "noise_stddev": noise * random.uniform(0.5, 2),
            "times": (times := int(random.integers(1, 4))),
        }
        happened["copies"] += times - 1
        decision, entry = ledger.add(
            {"name": name, "sql": sql.format(where=""), **release}, table=table, despite="a test", top=99
        )
        assert entry is not None
        own = [
            (h, f, float(w), number) for h, f, w in zip(homes[here], feeder[here], watts[here], strict=True)
        ]
        rival = {"name": str(number), "sql": sql.format(where=f" WHERE month = {number}"), **release}
        published[entry] = rival, own
        if number < last and random.random() < 0.3:  # the last answer is about what counts then
            gone = int(random.choice(list(published)))
            ledger.cancel(gone, reason="a test")
            del published[gone]
            cancelled += 1
    _same(decision, _audited(folder, published))
    return happened | {"entries": len(ledger.log()) - 1, "cancels": cancelled, "compared": 1}


def _audited(
    folder: Path, published: dict[int, tuple[dict[str, Any], list[tuple[str, str, float, int]]]]
) -> Any:
    rows = [row for _, own in published.values() for row in own]
    names, feeders, values, months = zip(*rows, strict=True)
    columns = {
        "home": np.array(names, dtype=object),
        "feeder": np.array(feeders, dtype=object),
        "watts": np.array(values),
        "month": np.array(months),
    }
    data = {
        "source": str(written(folder / "rival.parquet", columns)),
        "record": "home",
        "secret": "watts",
        "bounds": [0, 9000],
        "max_rows_per_record": 9,
        "values": "constant",
    }
    plan = {
        "data": data,
        "release": [rival for rival, _ in published.values()],
        "privacy": {"sensitivity": "memberships"},
        "limits": {"remaining_uncertainty": 0.5},
    }
    return sl.audit(plan, top=99)


def _same(decision: Any, rival: sl.AuditResult) -> None:
    """Who is identifiable exactly, and every number to 1e-9."""
    least = rival.least_remaining_uncertainty
    assert least is not None
    assert decision.after.least is not None
    assert decision.after.least.lower == pytest.approx(least.lower, rel=1e-9)
    assert decision.after.least.upper == pytest.approx(least.upper, rel=1e-9)
    assert decision.after.identifiable == rival.identifiable_records
    assert decision.after.epsilon == pytest.approx(rival.budget.spent, rel=1e-9)
    assert seen_of_everybody(decision.result) == pytest.approx(seen_of_everybody(rival), rel=1e-9)
    assert decision.after.below == rival.verdict.below_limit


def main(seeds: int, first: int = 0) -> None:
    """Compare for so many seeds; print what happened in all of them."""
    counted: dict[str, int] = {}
    for seed in range(first, first + seeds):
        with tempfile.TemporaryDirectory() as name:
            try:
                happened = compared(Path(name), seed)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}") from error
        counted = {key: counted.get(key, 0) + number for key, number in happened.items()}
        if counted["compared"] % 20 == 0:
            print(counted, flush=True)
    print(counted)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
