"""Counts in which rounding, blanks, withheld numbers, the rule k and a ledger cross: against all tables."""

from __future__ import annotations

from collections import Counter

import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl
from tests.auditing.fuzz_count_crossings import check
from tests.numbered_cases import check_case, trials


@pytest.mark.slow
def test_who_is_certain_and_what_breaks_the_rule_are_those_of_all_tables() -> None:
    count: Counter[str] = Counter()
    for trial in trials(80):
        check_case(check, 45, trial, count)
    for what in ("people who are certain", "groups that break the rule", "numbers withheld", "ledgers"):
        assert count[what] > 0


def test_a_count_of_the_ill_less_one_of_those_who_are_not_breaks_the_rule() -> None:
    rows = [{"g": g, "ill": n < yes} for g, yes in (("a", 1), ("b", 14)) for n in range(30)]
    table = pd.DataFrame(rows).assign(id=range(60))
    count = "SELECT COUNT(*) FILTER (WHERE {}) AS n FROM data"
    releases = [count.format("ill"), count.format("NOT ill") + " WHERE g = 'b'"]
    result = sl.audit(
        {
            "data": {"source": table, "record": "id", "secret": "ill", "kind": "boolean"},
            "rules": {"k": 5},
            "release": [
                {"name": f"r{place}", "sql": sql, "noise": {"law": "none"}}
                for place, sql in enumerate(releases)
            ],
        }
    )
    assert result.rules is not None
    (told,) = result.rules.broken
    assert told.text == 'k: "r0" and "r1": 1 of 30 people are left for yes, fewer than 5'
