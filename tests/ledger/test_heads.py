"""What a head may say beside data, attacker and limit: the rule k, and columns that are secret as well."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.ledger.decision import lines
from tests.ledger.test_assumptions_kept import names
from tests.ledger.test_ledger import HEAD, MEANS, TOTAL, month, started

QUIET = {**MEANS, "noise_stddev": 20_000.0}


def test_a_rule_of_the_head_holds_for_all_entries_together(tmp_path: Path) -> None:
    """Two releases are about five and four people: each has three or more, their difference has one."""
    ledger = started(tmp_path, head=HEAD + "\n[rules]\nk = 3\n")
    total = {**TOTAL, "noise_stddev": 1e6}
    assert ledger.add(total)[1] == 1
    month(tmp_path, list("abcd"), list("NNNS"), [100.0, 900.0, 4000.0, 7000.0])
    decision, number = ledger.add(total)
    assert number is None
    assert decision.after.below == 0  # the noise hides everybody
    rules = decision.result.rules
    assert rules is not None
    assert [one.people for one in rules.broken] == [1]
    assert any("Breaks a rule: k:" in line for line in lines(decision, full=False))
    assert not decision.passes(decision.with_noise(100.0))


def test_a_small_group_breaks_the_rule_at_once(tmp_path: Path) -> None:
    ledger = started(tmp_path, head=HEAD + "\n[rules]\nk = 3\n")
    decision, number = ledger.add(QUIET)  # three homes in the north, two in the south
    assert number is None
    assert decision.result.verdict.passed is False
    written = started_with(tmp_path / "without", HEAD)
    assert written.add(QUIET)[1] == 1


def started_with(folder: Path, head: str) -> sl.Ledger:
    folder.mkdir()
    return started(folder, head=head)


def test_another_secret_stays_open_and_hidden(tmp_path: Path) -> None:
    ledger = started(tmp_path, head=HEAD + '\n[[secret]]\ncolumn = "feeder"\n')
    total = {**TOTAL, "noise_stddev": 1e6}
    assert names(ledger.check(total).result) == {"secrets"}
    with pytest.raises(InvalidPlan, match="feeder"):
        ledger.check(QUIET)
    ledger.add(total, despite="a test")
    again = sl.audit(ledger.plan(tmp_path / "all.toml"))
    assert names(again) == {"secrets"}


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ('[[secret]]\ncolumn = "feeder"\ncategories = ["N", "S"]\n', "its column alone, got what it can be"),
    ],
)
def test_what_a_ledger_cannot_check_is_refused(tmp_path: Path, section: str, why: str) -> None:
    with pytest.raises(InvalidPlan, match=why):
        started(tmp_path, head=f"{HEAD}\n{section}")


def test_the_plan_of_a_ledger_lists_what_its_table_cannot_show(tmp_path: Path) -> None:
    """Its values are no one's: whole numbers, groups of one value, the noise's order do not show."""
    ledger = started(tmp_path)
    watts = [100.0, 900.0, 4000.0, 7000.0, 8800.0]
    month(tmp_path, list("abcde"), list("NNNSS"), watts)
    rounded = {"name": "rounded", "sql": "SELECT ROUND(SUM(watts), -6) AS t FROM data", "noise_stddev": 2e6}
    decision, _ = ledger.add(rounded, despite="a test")
    path = ledger.plan(tmp_path / "all.toml")
    assert 'unverified = ["noise_first"]' in path.read_text(encoding="utf-8")
    again = sl.audit(path)
    assert names(again) == names(decision.result) == {"noise_first"}
    text = path.read_text(encoding="utf-8").replace("unverified", 'accept = ["noise_first"]\nunverified')
    path.write_text(text, encoding="utf-8")
    assert sl.audit(path).verdict.passed
