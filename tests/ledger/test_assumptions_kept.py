"""What a release assumes when it is added stays open in every later check of the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.auditing.plan import AssumptionName
from tests.ledger.test_ledger import HEAD, TOTAL, month, started

HOMES = [f"h{place}" for place in range(12)]
FEEDERS = list("NSNSNSNSNSNS")
WATTS = [100.0 + 731.0 * place % 9000 for place in range(12)]

# Computed around an aggregate, or sorted by it: safe only if the noise is there before.
NOISE_FIRST = {
    "made NULL": "SELECT NULLIF(SUM(watts), 0) AS total FROM data",
    "yes or no": "SELECT CAST(SUM(watts) AS BOOLEAN) AS total FROM data",
    "rounded down": "SELECT 1000000 * FLOOR(SUM(watts) / 1000000) AS total FROM data",
    "rounded": "SELECT ROUND(SUM(watts), -6) AS total FROM data",
    "sorted": "SELECT feeder, SUM(watts) AS total FROM data GROUP BY feeder ORDER BY total",
}


def names(result: sl.AuditResult) -> set[str]:
    """The assumptions that are open."""
    return {one.name.value for one in result.unverified if not one.accepted}


def audited(folder: Path, release: dict[str, Any], head: str = HEAD) -> sl.AuditResult:
    """The audit of a release by itself, over the table of the ledger."""
    text = (
        head
        + f"""
[[release]]
name = "{release["name"]}"
sql = "{release["sql"]}"
noise_stddev = {release["noise_stddev"]}
times = {release.get("times", 1)}
"""
    )
    (folder / "plan.toml").write_text(text)
    return sl.audit(folder / "plan.toml")


def ledger_of_twelve(folder: Path, head: str = HEAD) -> sl.Ledger:
    ledger = started(folder, head=head)
    month(folder, HOMES, FEEDERS, WATTS)
    return ledger


@pytest.mark.parametrize("noise", [20_000.0, 2e6], ids=["shown on average", "guaranteed by the noise"])
@pytest.mark.parametrize("what", NOISE_FIRST)
def test_noise_that_must_come_first_is_asked_by_both_doors(tmp_path: Path, what: str, noise: float) -> None:
    release = {"name": "total", "sql": NOISE_FIRST[what], "noise_stddev": noise}
    ledger = ledger_of_twelve(tmp_path)
    alone = audited(tmp_path, release)
    assert alone.verdict.passed is False
    assert names(alone) == {"noise_first"}
    decision, entry = ledger.add(release)
    assert entry is None
    assert decision.passed is False
    assert names(decision.result) == {"noise_first"}


def test_it_stays_open_after_the_entry_and_is_accepted_by_name_alone(tmp_path: Path) -> None:
    release = {"name": "rounded", "sql": NOISE_FIRST["rounded down"], "noise_stddev": 2e6}
    ledger = ledger_of_twelve(tmp_path)
    assert ledger.add(release, despite="the job adds the noise first")[1] == 1
    plain = {**TOTAL, "noise_stddev": 2e6}
    later = ledger.check(plain)
    assert later.passed is False
    (kept,) = [one for one in later.result.unverified if one.name is AssumptionName.NOISE_FIRST]
    assert kept.reason.endswith("(entry 1)")
    folder = tmp_path / "accepting"
    folder.mkdir()
    accepting = ledger_of_twelve(folder, HEAD + 'accept = ["noise_first"]\n')
    assert accepting.add(release)[1] == 1
    assert accepting.check(plain).passed


def test_a_share_that_is_known_by_a_draw_is_asked_by_both_doors(tmp_path: Path) -> None:
    head = HEAD + '\n[attacker]\nknows = ["30%"]\n'
    release = {**TOTAL, "noise_stddev": 1_500.0}
    ledger = ledger_of_twelve(tmp_path, head)
    alone = audited(tmp_path, release, head)
    assert "drawn" in names(alone)
    assert names(alone) <= names(ledger.check(release).result)


def test_what_one_audit_asks_of_each_entry_the_ledger_asks_of_all(tmp_path: Path) -> None:
    """The union over the entries is asked, whatever the assumptions are."""
    ledger, asked = ledger_of_twelve(tmp_path), set[str]()
    for number, (what, sql) in enumerate(NOISE_FIRST.items(), start=1):
        release = {"name": what, "sql": sql, "noise_stddev": 30_000.0}
        asked |= names(audited(tmp_path, release))
        decision, entry = ledger.add(release, despite="a test")
        assert entry == number
        assert asked <= names(decision.result)


def test_where_an_owners_file_is_lost_every_assumption_about_its_table_is_open(tmp_path: Path) -> None:
    ledger = ledger_of_twelve(tmp_path)
    release = {**TOTAL, "noise_stddev": 20_000.0}
    ledger.add(release, despite="a test")
    (owner,) = (tmp_path / "ledger").glob("*.owner.json")
    owner.unlink()
    decided = {"empty", "undecided", "local", "secrets", "hidden_by_noise", "turnover"}
    decided |= {"certain", "count_rules"}  # about counts that are published without noise: there are none
    sharp = {**release, "noise_stddev": 1_500.0}  # not guaranteed by the noise alone: all are needed
    assert {one.value for one in AssumptionName} - decided <= names(ledger.check(sharp).result)


def test_rounding_that_is_fine_in_each_entry_adds_up(tmp_path: Path) -> None:
    """Steps of 1,000 beside noise of 20,000: of 4 releases the squares are a hundredth of the noise's."""
    ledger = ledger_of_twelve(tmp_path)
    rounded = {"sql": "SELECT ROUND(SUM(watts), -3) AS total FROM data", "noise_stddev": 20_000.0}
    for number in range(1, 5):
        decision, _ = ledger.add({"name": "rounded", **rounded}, despite="a test")
        assert "noise_first" not in names(decision.result), number
    assert "noise_first" in names(ledger.check({"name": "rounded", **rounded}).result)
    four = audited(tmp_path, {"name": "rounded", **rounded, "times": 4})
    five = audited(tmp_path, {"name": "rounded", **rounded, "times": 5})
    assert "noise_first" in names(five) - names(four)
