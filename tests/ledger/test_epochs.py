"""Epochs of a person are rows of a person: a value that does not change is told by the mean of all epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.ledger.book import Ledger
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
    for epoch in "12345":
        ledger.add(TOTALS, epoch=epoch, despite="a test")
        accepting.add(TOTALS, epoch=epoch)
    assert names(ledger.check(TOTALS, epoch="6").result) == {"rows_apart"}
    assert accepting.check(TOTALS, epoch="6").passed
