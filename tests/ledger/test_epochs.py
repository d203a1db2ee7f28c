"""Epochs of a person are rows of a person: a value that does not change is told by the mean of all epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.ledger.book import Ledger
from sightline.ledger.decision import lines
from tests.ledger.test_assumptions_kept import FEEDERS, HOMES, WATTS, names
from tests.ledger.test_ledger import HEAD, month, started

TOTALS = {"name": "totals", "sql": "SELECT home, SUM(watts) FROM data GROUP BY home", "noise_stddev": 5_400.0}


def twelve(folder: Path, values: str, head: str = HEAD) -> Ledger:
    folder.mkdir(exist_ok=True)
    ledger = started(folder, values=values, head=head)
    month(folder, HOMES, FEEDERS, WATTS)
    return ledger


def test_months_of_one_value_are_refused_when_their_mean_tells_it(tmp_path: Path) -> None:
    """Alone, each month leaves v/(v + s²) with v = 9000²/12: 81 %; the mean of 24 would leave 15 %."""
    by_epoch = twelve(tmp_path / "epochs", "by-epoch")
    one = twelve(tmp_path / "one", "one")
    variance, noise = 9000**2 / 12, TOTALS["noise_stddev"] ** 2
    added = 0
    for epoch in range(1, 8):
        by_epoch.start_epoch(str(epoch))
        decision, number = by_epoch.add(TOTALS, epoch=str(epoch))
        rival, _ = one.add(TOTALS, despite="a test")
        kept, same = decision.after.least, rival.after.least
        assert kept is not None
        assert same is not None
        linear = 1 / (1 + epoch * variance / noise)
        assert kept.upper == pytest.approx(linear, rel=1e-6)  # that of the level, which is the worse belief
        assert kept.lower == pytest.approx(same.lower, rel=1e-9)
        if number is None:
            assert kept.lower < 0.5
            break
        added += 1
    assert added == 4  # 1/(1 + n/4.32) falls below a half at the fifth


def test_epochs_that_are_said_to_have_nothing_in_common_need_a_name(tmp_path: Path) -> None:
    apart = HEAD.replace("bounds", 'values = "independent"\nbounds')
    ledger = twelve(tmp_path / "asked", "by-epoch", apart)
    accepting = twelve(tmp_path / "accepted", "by-epoch", apart + 'accept = ["rows_apart"]\n')
    for each in (ledger, accepting):
        for epoch in "123456":
            each.start_epoch(epoch)
    for place, epoch in enumerate("12345"):
        for each, folder in ((ledger, "asked"), (accepting, "accepted")):
            month(tmp_path / folder, HOMES, FEEDERS, [(one + 1000 * place) % 9000 for one in WATTS])
            each.add(TOTALS, epoch=epoch, despite="a test" if each is ledger else "")
    for folder in ("asked", "accepted"):
        month(tmp_path / folder, HOMES, FEEDERS, [(one + 5000) % 9000 for one in WATTS])
    assert names(ledger.check(TOTALS, epoch="6").result) == {"rows_apart"}
    assert accepting.check(TOTALS, epoch="6").passed


def test_values_that_persist_are_said_and_are_not_apart(tmp_path: Path) -> None:
    """Of twelve homes one has another value in the second epoch: eleven have the value that they had."""
    apart = HEAD.replace("bounds", 'values = "independent"\nbounds') + 'accept = ["rows_apart"]\n'
    either = twelve(tmp_path / "either", "by-epoch")
    stated = twelve(tmp_path / "stated", "by-epoch", apart)
    changed = [WATTS[0] + 17.0, *WATTS[1:]]
    for ledger, folder in ((either, "either"), (stated, "stated")):
        ledger.start_epoch("1")
        ledger.start_epoch("2")
        assert ledger.add(TOTALS, epoch="1")[1] is not None
        month(tmp_path / folder, HOMES, FEEDERS, changed)
    said = either.check(TOTALS, epoch="2")
    assert (said.kept.people, said.kept.compared) == (11, 12)
    assert "11 of 12 people have the value that they had in another epoch." in lines(said, full=False)
    assert said.passed  # both beliefs were audited
    refused = stated.check(TOTALS, epoch="2")
    assert names(refused.result) == {"values"}
    assert any("epochs are not apart" in one.reason for one in refused.result.unverified)


def test_sums_of_other_people_or_other_weights_are_not_compared(tmp_path: Path) -> None:
    ledger = twelve(tmp_path / "l", "by-epoch")
    by_feeder = {**TOTALS, "name": "feeders", "sql": "SELECT feeder, SUM(watts) FROM data GROUP BY feeder"}
    for epoch in "12":
        ledger.start_epoch(epoch)
    ledger.add(by_feeder, epoch="1")
    assert ledger.check(by_feeder, epoch="2").kept.people == 12
    assert ledger.check(TOTALS, epoch="2").kept.compared == 0  # homes, of which there was no sum
    month(tmp_path / "l", HOMES, list("NSNSNSNSNSSS"), WATTS)
    assert ledger.check(by_feeder, epoch="2").kept.compared == 0  # somebody has moved
