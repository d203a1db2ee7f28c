"""The rules that offices sign, against brute force: every number and every difference of up to three."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from tests.auditing import fuzz_rules
from tests.auditing.fuzz_rules import audited, check_rules, random_case
from tests.auditing.test_streamed_audit import in_memory_and_streamed, plan_of


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_the_rules_by_definition(seed: int) -> None:
    check_rules(seed)


@pytest.mark.thorough
def test_the_rules_by_definition_on_more_tables() -> None:
    assert fuzz_rules.fuzz(24, 1e9, most=30)["tables"] == 30


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
        "rules": {"p": "10%", "dominance": [1, "80%"]},
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
        ({"dominance": [0, 0.8]}, ">= 1"),
        ({"dominanc": {}}, "did you mean 'dominance'"),
    ],
)
def test_bad_rules_are_refused(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidPlan, match=message):
        audited(*random_case(1), rules, {"stddev": 1.0})


def test_people_are_counted_and_not_rows() -> None:
    table = pd.DataFrame({"who": list("aaabbbc"), "v": np.linspace(1, 8, 7), "day": [1, 2, 3, 1, 2, 3, 1]})
    about = {"source": table, "record": "who", "secret": "v", "bounds": [0, 9], "max_rows_per_record": 3}
    releases = [
        {"name": "all", "sql": "SELECT SUM(v) FROM data", "noise_stddev": 1.0},
        {"name": "later", "sql": "SELECT SUM(v) FROM data WHERE day > 1", "noise_stddev": 1.0},
    ]
    plan = {"data": {**about, "values": "independent"}, "rules": {"k": 3}, "release": releases}
    found = sl.audit(plan).rules
    assert found is not None
    # Four rows of two people; the difference is about all three.
    assert [one.text for one in found.broken] == ['k: "later": 2 people are behind it, fewer than 3']


def test_a_person_adds_the_sum_of_their_rows() -> None:
    """No row is half of the exact sum, but the three of one firm are; a quarter of twelve rows is seen."""
    firms = pd.DataFrame({"firm": ["a", "b", "c", "d"] * 3, "sales": [9, 2, 2, 2] * 3})
    plan = {
        "data": {
            "source": firms,
            "record": "firm",
            "secret": "sales",
            "bounds": [0, 10],
            "max_rows_per_record": 3,
        },
        "rules": {"dominance": [1, "50%"], "p": "10%"},
        "release": [{"name": "all", "sql": "SELECT SUM(sales) FROM data", "noise": {"law": "none"}}],
    }
    result = sl.audit(plan)
    assert result.rules is not None
    assert [one.rule for one in result.rules.broken] == ["dominance"]  # 27 of 45; 12 without the two largest
    left = result.least_remaining_uncertainty
    assert left is not None
    assert left.lower == pytest.approx(0.75)
    assert left.upper == pytest.approx(0.75)


@pytest.mark.parametrize(
    "aggregate", ["SUM(v)", "SUM(w * v)", "AVG(w * v)", "COUNT(*) FILTER (WHERE v > 10)", "SUM(v * v)"]
)
def test_a_group_that_is_left_out_beside_its_total_has_two_people(aggregate: str) -> None:
    """Whatever is added up: weights and functions of a value cancel like the value."""
    table = pd.DataFrame(
        {"who": range(8), "g": list("uuuuuutt"), "w": [1, 2] * 4, "v": np.linspace(9, 11, 8)}
    )
    by_group = f"SELECT g, {aggregate} FROM data GROUP BY g HAVING COUNT(*) > 2"
    plan = {
        "data": {"source": table, "record": "who", "secret": "v", "bounds": [0, 20]},
        "rules": {"k": 3},
        "release": [
            {"name": "all", "sql": f"SELECT {aggregate} FROM data", "noise_stddev": 50.0},
            {"name": "by group", "sql": by_group, "noise_stddev": 50.0},
        ],
    }
    found = sl.audit(plan).rules
    assert found is not None
    assert [one.text for one in found.broken] == [
        'k: "all" − "by group: u": 2 people are behind it, fewer than 3'
    ]


@pytest.mark.parametrize("aggregate", ["SUM(w * v)", "AVG(w * v)", "SUM(w * v) / SUM(w)"])
def test_what_a_firm_adds_is_its_value_times_its_weight(aggregate: str) -> None:
    """Values that are nearly alike, of which one counts a hundred times."""
    table = pd.DataFrame({"who": range(6), "v": np.linspace(9, 11, 6), "w": [100, 1, 1, 1, 1, 1]})
    exact = {"name": "all", "sql": f"SELECT {aggregate} FROM data", "noise": {"law": "none"}}
    plan = {
        "data": {"source": table, "record": "who", "secret": "v", "bounds": [0, 20]},
        "rules": {"dominance": [1, "80%"], "p": "10%"},
        "release": [exact],
    }
    found = sl.audit(plan).rules
    assert found is not None
    assert {one.rule for one in found.broken} == {"dominance", "p"}
    plain = sl.audit({**plan, "release": [{**exact, "sql": "SELECT SUM(v) FROM data"}]}).rules
    assert plain is not None
    assert plain.broken == ()


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        ("SUM((w - 2) * v)", "got a negative weight"),
        ("SUM(v * v)", "for exact sums of v, got an exact sum of its powers"),
        ("SUM(LEAST(v, 10))", "for exact sums of v, got an exact sum of its powers, or of what is left"),
    ],
)
def test_shares_of_other_sums_are_refused(aggregate: str, message: str) -> None:
    table = pd.DataFrame({"who": range(6), "v": np.linspace(9, 11, 6), "w": [100, 1, 1, 1, 1, 1]})
    plan = {
        "data": {"source": table, "record": "who", "secret": "v", "bounds": [0, 20]},
        "rules": {"dominance": [1, "80%"]},
        "release": [{"name": "all", "sql": f"SELECT {aggregate} FROM data", "noise": {"law": "none"}}],
    }
    with pytest.raises(InvalidPlan, match=message):
        sl.audit(plan)


def test_a_count_is_no_sum_of_values() -> None:
    """Of a hundred and two ones, the hundred is more than 80 %, but an exact count does not add them up."""
    table = pd.DataFrame({"who": range(3), "v": [1.0, 100.0, 1.0]})
    sql = "SELECT COUNT(*) FILTER (WHERE v > 0.5) FROM data"
    plan = {
        "data": {"source": table, "record": "who", "secret": "v", "bounds": [0, 100]},
        "rules": {"dominance": [1, "80%"]},
        "release": [{"name": "all", "sql": sql, "noise": {"law": "none"}}],
    }
    found = sl.audit(plan).rules
    assert found is not None
    assert found.broken == ()


def test_nothing_is_left_of_a_row_that_exact_numbers_give_away() -> None:
    """The difference of two exact sums is one of a's two rows; of the other row nothing is known."""
    table = pd.DataFrame({"who": list("abc") * 2, "g": [1] * 3 + [2] * 3, "x": [3, 5, 2, 4, 1, 8]})
    data = {"source": table, "record": "who", "secret": "x", "bounds": [0, 10], "max_rows_per_record": 2}
    conditions = {"all": "g = 1", "others": "g = 1 AND who <> 'a'"}
    releases = [
        {"name": name, "sql": f"SELECT SUM(x) FROM data WHERE {one}", "noise": {"law": "none"}}
        for name, one in conditions.items()
    ]
    result = sl.audit({"data": data, "release": releases, "limits": {"remaining_uncertainty": 0.1}})
    left = result.exposed[0].remaining_uncertainty
    assert (left.lower, left.upper) == (0.0, 0.0)
    assert result.verdict.below_limit == 1  # b and c: half of the sum of two rows
    totals = [{**one, "sql": one["sql"].replace("g = 1", "TRUE")} for one in releases]
    total = sl.audit({"data": data, "release": totals}).exposed[0].total
    assert total is not None
    assert (total.after_lower, total.after_upper) == (0.0, 0.0)


@pytest.mark.sampled(1)
@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_a_streamed_table_has_the_same_k(seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    rows = 900  # two batches of signatures
    table = pd.DataFrame({name: random.integers(0, 4, rows) for name in "abc"})
    table["d"] = np.minimum(random.integers(0, 3000, rows), random.integers(40, 60, rows))
    table["who"], table["x"] = np.arange(rows), random.random(rows)
    table.to_csv(tmp_path / "data.csv", index=False)
    queries = [
        "SELECT AVG(x) FROM data",
        "SELECT a, SUM(x) FROM data GROUP BY a",
        "SELECT b, AVG(x) FROM data WHERE c > 0 GROUP BY b",
        "SELECT a, b, SUM(x) FROM data GROUP BY a, b",
        "SELECT SUM(x) FROM data WHERE a <> 2",
        "SELECT c, SUM(x) FROM data GROUP BY c",
        "SELECT d, SUM(x) FROM data GROUP BY d",
        "SELECT SUM(x) FROM data WHERE d > 1",
        "SELECT a, SUM(x) FROM data WHERE d > 8 GROUP BY a",
    ]
    plan = plan_of(tmp_path / "data.csv", *queries)
    plan["data"] |= {"record": "who", "secret": "x"}
    plan["rules"] = {"k": 5 + 3 * seed}
    expected, got = in_memory_and_streamed(plan, monkeypatch)
    assert any("is streamed" in line for line in got.assumptions)
    assert expected.rules is not None
    assert expected.rules.in_all > 0
    assert got.rules == expected.rules


@pytest.mark.sampled(1)
@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_streamed_persons_have_the_same_k(seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of every number and difference; what elimination adds is not looked for, and that is said."""
    random = np.random.default_rng(seed)
    rows = 1500  # some batches of persons
    table = pd.DataFrame({name: random.integers(0, 4, rows) for name in "abc"})
    table["d"] = np.minimum(random.integers(0, 3000, rows), random.integers(40, 60, rows))
    table["who"], table["x"] = np.sort(random.integers(0, 700, rows)), random.random(rows)
    table.to_csv(tmp_path / "data.csv", index=False)
    queries = [
        "SELECT AVG(x) FROM data",
        "SELECT a, SUM(x) FROM data GROUP BY a",
        "SELECT b, AVG(x) FROM data WHERE c > 0 GROUP BY b",
        "SELECT SUM(x) FROM data WHERE a <> 2",
        "SELECT d, SUM(x) FROM data GROUP BY d",
        "SELECT SUM(x) FROM data WHERE d > 1",
        "SELECT a, SUM(x) FROM data WHERE d > 8 GROUP BY a",
    ]
    plan = plan_of(tmp_path / "data.csv", *queries)
    plan["data"] |= {"record": "who", "secret": "x", "max_rows_per_record": 20, "values": "independent"}
    plan["rules"] = {"k": 5 + 3 * seed}
    expected, got = in_memory_and_streamed(plan, monkeypatch)
    assert any("is streamed" in line for line in got.assumptions)
    assert expected.rules is not None
    assert got.rules is not None
    assert expected.rules.in_all > 0
    by_elimination = [one for one in expected.rules.broken if one not in got.rules.broken]
    assert set(got.rules.broken) <= set(expected.rules.broken)
    assert expected.rules.in_all - got.rules.in_all == len(by_elimination)
    assert all("×" in one.text or one.text.count("−") > 2 for one in by_elimination)
    assert got.rules.checked.endswith("; too many for elimination")
