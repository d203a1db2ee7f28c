"""What a ledger promises, by draws; ``python -m`` with the modules that are imported has the full sizes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sightline.errors import DamagedLedger
from tests.ledger.flipped_bits import flipped
from tests.ledger.one_audit import compared
from tests.ledger.test_ledger import TOTAL, started


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(4))
def test_the_answer_after_some_entries_is_that_of_one_audit(tmp_path: Path, seed: int) -> None:
    """Homes join, leave and move; releases are copied and cancelled."""
    assert compared(tmp_path, seed)["entries"] > 2


@pytest.mark.slow
def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    """One bit in 101 of every file, which is in every place of a byte."""
    assert flipped(tmp_path, step=101) > 300


def test_a_chain_that_was_cut_is_noticed_by_who_kept_its_end(tmp_path: Path) -> None:
    ledger = started(tmp_path)
    ledger.add(TOTAL, despite="a test")
    kept = ledger.verify()
    (tmp_path / "ledger" / "000001.json").unlink()
    with pytest.raises(DamagedLedger, match="the files of 1 entry and no others"):
        ledger.verify()
    for file in (tmp_path / "ledger").glob("000001-*"):
        file.unlink()
    ledger.verify()
    with pytest.raises(DamagedLedger, match="rewritten"):
        ledger.verify(head=kept)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "what", [("race", "4", "4"), ("epochs", "8", "25"), ("kill", "7", "0"), ("init", "20", "0")]
)
def test_writers_that_race_or_are_killed_lose_nothing(what: tuple[str, ...]) -> None:
    """Of audited entries and light ones; for hundreds of rounds see ``tests.ledger.killed_writers``."""
    command = [sys.executable, "-m", "tests.ledger.killed_writers", *what]
    assert subprocess.run(command, timeout=600, check=False).returncode == 0
