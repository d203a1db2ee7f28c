"""No entry is lost silently: strange files, two copies that took one number, clocks, respelled keys."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

import sightline as sl
from sightline.cli import main
from sightline.errors import DamagedLedger, InvalidInput
from sightline.ledger.book import Ledger
from sightline.ledger.decision import lines
from tests.ledger.test_assumptions_kept import FEEDERS, HOMES, WATTS, ledger_of_twelve, names
from tests.ledger.test_ledger import HEAD, MEANS, TOTAL, month, seen_of_everybody, started

SHARP = {**TOTAL, "noise_stddev": 2_000.0}


def parted(folder: Path) -> tuple[Ledger, Ledger]:
    """Two copies of a ledger that both took entry 2: one with everybody's total, one without a home's."""
    ours = ledger_of_twelve(folder)
    ours.add({**MEANS, "noise_stddev": 3000.0}, despite="a test")
    shutil.copytree(folder / "ledger", folder / "copy")
    theirs = Ledger.open(folder / "copy", key=folder / "key")
    ours.add(SHARP, despite="a test")
    without = {
        "name": "others",
        "sql": "SELECT SUM(watts) FROM data WHERE home <> 'h3'",
        "noise_stddev": 2_000.0,
    }
    theirs.add(without, despite="a test")
    return ours, theirs


def doors(ledger: Ledger, folder: Path) -> None:
    """Every door that must see a strange file."""
    for door in (ledger.verify, lambda: ledger.check(SHARP), lambda: ledger.add(SHARP)):
        with pytest.raises(DamagedLedger, match=r"did another copy of this ledger take the same number"):
            door()
    (folder / "release.toml").write_text(
        '[[release]]\nname = "total"\nsql = "SELECT SUM(watts) FROM data"\nnoise_stddev = 2e6\n'
    )
    release = [str(folder / "ledger"), str(folder / "release.toml"), "--key", str(folder / "key")]
    assert main(["ledger", "check", *release]) == 3


@pytest.mark.parametrize(
    "name",
    [
        "000002 (conflicted copy 2026-11-18).json",
        "000002.sync-conflict-20261118-101500-ABCDEFG.json",
        "000002-MACHINE.json",
        "head (1).toml",
    ],
)
def test_a_second_text_of_an_entry_or_the_head_blocks_every_door(tmp_path: Path, name: str) -> None:
    ours, theirs = parted(tmp_path)
    text = theirs.folder.read("000002.json" if name[0] == "0" else "head.toml")
    (ours.folder.path / name).write_bytes(text)
    doors(ours, tmp_path)


@pytest.mark.parametrize("ending", ["parquet", "owner.json"])
def test_a_file_of_an_entry_that_is_not_there_blocks_every_door(tmp_path: Path, ending: str) -> None:
    ours, theirs = parted(tmp_path)
    (file,) = theirs.folder.path.glob(f"000002-*.{ending}")
    if (ours.folder.path / file.name).exists():
        pytest.fail("the two copies have the same file: the case shows nothing")
    shutil.copy(file, ours.folder.path)
    doors(ours, tmp_path)


def test_a_release_whose_entry_was_lost_blocks_by_its_files(tmp_path: Path) -> None:
    ours, _ = parted(tmp_path)
    (ours.folder.path / "000002.json").unlink()
    doors(ours, tmp_path)


def test_notes_of_the_owner_do_not_block(tmp_path: Path) -> None:
    ours, _ = parted(tmp_path)
    (ours.folder.path / "README.md").write_text("what this folder is")
    (ours.folder.path / ".DS_Store").write_bytes(b"")
    ours.verify()


def test_a_merge_has_what_both_copies_published(tmp_path: Path) -> None:
    """One audit of all three releases names the home that is their difference; so does the merged ledger."""
    ours, theirs = parted(tmp_path)
    assert ours.merge(theirs.folder.path) == (3,)
    assert ours.merge(theirs.folder.path) == ()  # once is enough
    ours.verify()
    mild = {**TOTAL, "name": "mild", "noise_stddev": 9e5}
    decision = ours.check(mild, top=99)
    in_order = ledger_of_twelve(tmp_path / "one" if (tmp_path / "one").mkdir() is None else tmp_path)
    for release in (
        {**MEANS, "noise_stddev": 3000.0},
        SHARP,
        {"name": "others", "sql": "SELECT SUM(watts) FROM data WHERE home <> 'h3'", "noise_stddev": 2_000.0},
    ):
        in_order.add(release, despite="a test")
    rival = in_order.check(mild, top=99)
    assert seen_of_everybody(decision.result) == pytest.approx(seen_of_everybody(rival.result), rel=1e-9)
    assert decision.already_below[0].record == "h3"
    assert any("entry 2 of another copy" in line for line in lines(decision, full=False))


def test_a_merge_numbers_people_who_joined_in_each_copy_by_who_they_are(tmp_path: Path) -> None:
    ours = ledger_of_twelve(tmp_path)
    ours.add({**TOTAL, "noise_stddev": 1e5}, despite="a test")
    shutil.copytree(tmp_path / "ledger", tmp_path / "copy")
    theirs = Ledger.open(tmp_path / "copy", key=tmp_path / "key")
    first = month(tmp_path, [*HOMES, "x"], [*FEEDERS, "N"], [*WATTS, 100.0], "first")
    second = month(tmp_path, [*HOMES, "y", "x"], [*FEEDERS, "N", "S"], [*WATTS, 500.0, 100.0], "second")
    ours.add({**TOTAL, "noise_stddev": 1e5}, table=first, despite="a test")
    theirs.add({**MEANS, "noise_stddev": 1e4}, table=second, despite="a test")
    ours.merge(theirs.folder.path)
    state = ours._state()
    assert len(state.hashes) == 14
    assert [int(one.groups.numbers) for one in state.past] == [12, 13, 14]
    ours.verify()


def test_another_ledger_is_no_copy(tmp_path: Path) -> None:
    ours, other = tmp_path / "a", tmp_path / "b"
    ours.mkdir()
    other.mkdir()
    one = ledger_of_twelve(ours)
    two = started(other, head=HEAD.replace("0.5", "0.4"))
    with pytest.raises(InvalidInput, match="another copy of this ledger, got another ledger"):
        one.merge(two.folder.path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_a_pipe_in_place_of_an_entry_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    ours, _ = parted(tmp_path)
    entry = ours.folder.path / "000002.json"
    entry.unlink()
    os.mkfifo(entry)
    with pytest.raises(DamagedLedger, match="no file"):
        ours.verify()


def test_a_wrong_clock_is_corrected_with_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ledger_of_twelve(tmp_path)

    class Ahead(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime(2099, 1, 1, tzinfo=UTC)

    with monkeypatch.context() as patched:
        patched.setattr("sightline.ledger.book.datetime", Ahead)
        ledger.add({**TOTAL, "noise_stddev": 2e6})
    with pytest.raises(InvalidInput, match=r"ledger clock FOLDER"):
        ledger.add({**TOTAL, "noise_stddev": 2e6})
    assert ledger.correct_clock(reason="the server was set to 2099") == 2
    decision, number = ledger.add({**TOTAL, "noise_stddev": 2e6})
    assert number == 3
    assert any(
        "the clock was corrected: the server was set to 2099" in one for one in lines(decision, full=False)
    )


@pytest.mark.parametrize(
    "spelled", ["{} ", " {}", "{}!"], ids=["a blank behind", "a blank before", "all new"]
)
def test_respelled_keys_are_not_new_people_unasked(tmp_path: Path, spelled: str) -> None:
    ledger = ledger_of_twelve(tmp_path)
    ledger.add({**TOTAL, "noise_stddev": 2e6})
    keys = [HOMES[0], *(spelled.format(one) for one in HOMES[1:])]
    table = month(tmp_path, keys, FEEDERS, WATTS, "respelled")
    decision, number = ledger.add({**TOTAL, "noise_stddev": 2e6}, table=table)
    assert number is None
    assert names(decision.result) == {"turnover"}
    assert any("11 of 12 people" in line for line in lines(decision, full=False))


def test_a_few_joiners_are_not_asked_about(tmp_path: Path) -> None:
    ledger = ledger_of_twelve(tmp_path)
    ledger.add({**TOTAL, "noise_stddev": 2e6})
    table = month(tmp_path, [*HOMES, "new"], [*FEEDERS, "S"], [*WATTS, 77.0], "more")
    assert ledger.add({**TOTAL, "noise_stddev": 2e6}, table=table)[1] == 2


def test_what_one_joiner_would_add_is_that_of_the_next_month(tmp_path: Path) -> None:
    """More of it fit if the same people are in it; with a joiner or a leaver it is another question."""
    ledger = ledger_of_twelve(tmp_path)
    release = {**MEANS, "noise_stddev": 300.0}
    decision, number = ledger.add(release, despite="a test")
    assert number == 1
    moves = decision.moves()
    assert moves.size == 6
    tables = {
        True: month(tmp_path, [*HOMES, "new"], [*FEEDERS, "N"], [*WATTS, 77.0], "joined"),
        False: month(tmp_path, HOMES[1:], FEEDERS[1:], WATTS[1:], "left"),
    }
    next_month = {joins: ledger.check(release, table=table) for joins, table in tables.items()}
    least = {joins: one.after.least for joins, one in next_month.items()}
    assert moves.least.lower == pytest.approx(min(one.lower for one in least.values() if one), rel=1e-9)
    assert moves.least.lower == pytest.approx(least[moves.joins].lower, rel=1e-9)


def test_many_notes_are_one_line(tmp_path: Path) -> None:
    ledger = ledger_of_twelve(tmp_path)
    for _ in range(6):
        ledger.set_limit(0.5, reason="a test")
    told = [
        line for line in lines(ledger.check({**TOTAL, "noise_stddev": 2e6}), full=False) if "Noted" in line
    ]
    assert len(told) == 1
    assert told[0].startswith("Noted: 6 entries")
    assert isinstance(ledger, sl.Ledger)
