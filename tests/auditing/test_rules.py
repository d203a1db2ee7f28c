"""The rules that offices sign, against brute force: every number and every difference of up to three."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from tests.auditing import fuzz_rules
from tests.auditing.fuzz_rules import audited, check_rules, random_case


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_the_rules_by_definition(seed: int) -> None:
    check_rules(seed)


@pytest.mark.thorough
def test_the_rules_by_definition_on_more_tables() -> None:
    assert fuzz_rules.fuzz(40, 1e9, most=60)["tables"] == 60


def test_fleet_minus_pilot_is_the_seventeenth_home(capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame({"home": [f"H{i:02}" for i in range(17)], "pilot": [i < 16 for i in range(17)]})
    table["v"] = np.linspace(3, 90, 17)
    plan = {
        "data": {"source": table, "record": "home", "secret": "v", "bounds": [0, 100]},
        "rules": {"k": 10},
        "limits": {"remaining_uncertainty": 0.5},
        "privacy": {"epsilon": 1.0, "delta": 1e-6},
        "release": [
            {"name": "fleet", "sql": "SELECT AVG(v) FROM data"},
            {"name": "pilot", "sql": "SELECT AVG(v) FROM data WHERE pilot"},
        ],
    }
    result = sl.audit(plan)
    assert result.rules is not None
    assert [one.text for one in result.rules.broken] == [
        'k: "fleet" − "pilot": 1 person is behind it, fewer than 10'
    ]
    assert result.verdict.passed is False, "the noise keeps the limit, and the rule is broken"
    from rich.console import Console

    from sightline.report.terminal import print_result

    print_result(result, Console(width=100))
    text = capsys.readouterr().out
    assert "Do not publish this yet. 1 combination of numbers breaks a rule" in text
    assert "You can publish" not in text
    assert result.publishable().rules == result.rules.publishable()


def test_rules_on_values_are_for_the_owner() -> None:
    table = pd.DataFrame({"firm": ["a", "b", "c"], "v": [90.0, 5.0, 1.0]})
    plan = {
        "data": {"source": table, "record": "firm", "secret": "v", "bounds": [0, 100]},
        "rules": {"p": "10%", "dominance": {"n": 1, "share": "80%"}},
        "release": [{"name": "turnover", "sql": "SELECT SUM(v) FROM data", "noise": {"law": "none"}}],
    }
    result = sl.audit(plan)
    assert result.rules is not None
    assert {one.rule for one in result.rules.broken} == {"p", "dominance"}
    shown = result.publishable()
    assert shown.rules is not None
    assert shown.rules.broken == ()
    assert shown.verdict.passed is not True
    assert "turnover" not in shown.verdict.text


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"k": 1}, ">= 2"),
        ({"k": 2.5}, "whole number"),
        ({"p": 2}, "p: expected"),
        ({"dominance": {"n": 0, "share": 0.8}}, ">= 1"),
        ({"dominanc": {}}, "did you mean 'dominance'"),
    ],
)
def test_bad_rules_are_refused(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidPlan, match=message):
        audited(*random_case(1), rules, {"stddev": 1.0})


def test_rules_with_several_rows_a_record_are_refused() -> None:
    table = pd.DataFrame({"who": ["a", "a", "b"], "v": [1.0, 2.0, 3.0]})
    about = {"source": table, "record": "who", "secret": "v", "bounds": [0, 9], "max_rows_per_record": 2}
    release = {"name": "r", "sql": "SELECT SUM(v) FROM data", "noise_stddev": 1.0}
    with pytest.raises(InvalidPlan, match="one row a record"):
        sl.audit({"data": {**about, "values": "independent"}, "rules": {"k": 3}, "release": [release]})
