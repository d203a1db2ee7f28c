"""What a ledger refuses: one line, an exit code, and nothing written."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.cli import main
from sightline.errors import InvalidInput
from sightline.ledger.book import Ledger
from sightline.ledger.folder import LedgerFolder, release_of
from sightline.records.release_record import About, ReleaseRecord
from tests.ledger.test_ledger import TOTAL, month, started, written

TOTAL_TOML = '[[release]]\nname = "total"\nsql = "SELECT SUM(watts) FROM data"\nnoise_stddev = 1e6\n'


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file of a ledger."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def filled(folder: Path) -> Path:
    """A ledger with two releases, and a third one as a file."""
    ledger = started(folder)
    for _ in range(2):
        ledger.add({**TOTAL, "noise_stddev": 1e6})
    (folder / "release.toml").write_text(TOTAL_TOML)
    return folder / "ledger"


def the_other_key(folder: Path) -> None:
    (folder / "key").write_bytes(b"another key of many bytes")


def strangers(folder: Path) -> None:
    month(folder, ["x", "y"], ["N", "N"], [1.0, 2.0])


def another_type(folder: Path) -> None:
    feeder = np.array(["N", "N"], dtype=object)
    written(
        folder / "now.parquet", {"home": np.array([1, 2]), "feeder": feeder, "watts": np.array([1.0, 2.0])}
    )


def the_same_home_twice(folder: Path) -> None:
    month(folder, ["a", "a"], ["N", "S"], [1.0, 2.0])


def another_query(folder: Path) -> None:
    text = TOTAL_TOML.replace("SUM(watts)", "AVG(watts)")
    (folder / "release.toml").write_text(text)


def a_gap(folder: Path) -> None:
    (folder / "ledger" / "000001.json").unlink()


def newer(folder: Path) -> None:
    """Entry 2 as a version to come might write it."""
    path = folder / "ledger" / "000002.json"
    content = json.loads(path.read_bytes()) | {"version": "sightline.ledger/4", "more": 1}
    content.pop("digest")
    inner = json.dumps(content, ensure_ascii=False, indent=1).encode() + b"\n"
    content["digest"] = hashlib.sha256(inner).hexdigest()
    path.write_bytes(json.dumps(content, ensure_ascii=False, indent=1).encode() + b"\n")


def newer_by_accident(folder: Path) -> None:
    path = folder / "ledger" / "000002.json"
    path.write_bytes(path.read_bytes().replace(b"sightline.ledger/3", b"sightline.ledger/4"))


def without_parquet(folder: Path) -> None:
    next((folder / "ledger").glob("000001-*.parquet")).unlink()


def without_people(folder: Path) -> None:
    next((folder / "ledger").glob("*.people.parquet")).unlink()


def without_noise(folder: Path) -> None:
    (folder / "release.toml").write_text(TOTAL_TOML.replace("noise_stddev = 1e6\n", ""))


def no_sum(folder: Path) -> None:
    (folder / "release.toml").write_text(TOTAL_TOML.replace("total", "other").replace("SUM", "MAX"))


def shared_noise(folder: Path) -> None:
    noise = 'noise = { stddev = 900.0, mechanism = "C.npy" }'
    (folder / "release.toml").write_text(TOTAL_TOML.replace("noise_stddev = 1e6", noise))


def a_misspelt_field(folder: Path) -> None:
    (folder / "release.toml").write_text(TOTAL_TOML.replace("noise_stddev", "nois_stddev"))


def no_toml(folder: Path) -> None:
    (folder / "release.toml").write_text("release")


def no_release(folder: Path) -> None:
    (folder / "release.toml").unlink()


CASES: dict[str, tuple[Callable[[Path], None], list[str], int, str]] = {
    "wrong key": (the_other_key, [], 1, "the key that the ledger was started with"),
    "another table": (strangers, [], 1, "another table"),
    "a changed column type": (another_type, [], 1, "columns of the kinds"),
    "a person with two rows": (the_same_home_twice, [], 1, "row"),
    "a name used for something else": (another_query, [], 1, "another name"),
    "an unknown epoch": (lambda _: None, ["--epoch", "2027"], 1, "no epoch"),
    "a gap in the numbers": (a_gap, [], 3, "expected entry 1"),
    "an entry of a newer version": (newer, [], 1, "ledger/4; use the version that wrote it"),
    "a flipped version": (newer_by_accident, [], 3, "as it was written"),
    "a missing Parquet file": (without_parquet, [], 3, "parquet"),
    "missing people": (without_people, [], 3, "people.parquet"),
    "no noise": (without_noise, [], 1, "noise"),
    "no sum": (no_sum, [], 1, "AVG, SUM or COUNT"),
    "shared noise": (shared_noise, [], 1, "share noise"),
    "a misspelt field": (a_misspelt_field, [], 1, "nois_stddev"),
    "no TOML": (no_toml, [], 1, "TOML"),
    "no file": (no_release, [], 1, "no such file"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_line_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    spoil, options, code, words = CASES[case]
    folder = filled(tmp_path)
    assert main(["ledger", "verify", str(folder), "--key", str(tmp_path / "key")]) == 0
    spoil(tmp_path)
    before = snapshot(folder)
    capsys.readouterr()
    for verb in ("check", "add"):
        asked = ["ledger", verb, str(folder), str(tmp_path / "release.toml"), *options]
        assert main([*asked, "--key", str(tmp_path / "key")]) == code
        out, err = capsys.readouterr()
        assert not out
        assert len(err.strip().splitlines()) == 1
        assert words in err
    assert snapshot(folder) == before


def test_a_clock_that_runs_backwards_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = filled(tmp_path)
    before = snapshot(folder)

    class Yesterday:
        @staticmethod
        def now(zone: object) -> datetime:
            return datetime(2001, 1, 1, tzinfo=UTC)

    monkeypatch.setattr("sightline.ledger.book.datetime", Yesterday)
    key = ["--key", str(tmp_path / "key")]
    for verb in (["add", str(folder), str(tmp_path / "release.toml")], ["cancel", str(folder), "1"]):
        more = ["--never-seen", "a test"] if verb[0] == "cancel" else []
        assert main(["ledger", *verb, *more, *key]) == 1
        assert re.search(r"set the clock; if that", capsys.readouterr().err)
    assert snapshot(folder) == before
    assert [one.number for one in Ledger.open(folder, key=tmp_path / "key").log()] == [0, 1, 2]


# In a process of its own, which cannot change back what it may write and who it is; after a check, which
# loads everything.
RESTRICTED = {
    "a full disk": """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
""",
    "a read-only folder": """
folder.chmod(0o500)
if os.geteuid() == 0:  # who may write anywhere
    for path in (folder.parent, *folder.parent.iterdir(), *folder.iterdir()):
        os.chown(path, 65534, 65534)
    os.setuid(65534)
""",
}
PROCESS = """
import os, sys
from pathlib import Path
from sightline.cli import main
folder = Path(sys.argv[1])
common = ["--key", str(folder.parent / "key")]
release = [str(folder), str(folder.parent / "release.toml")]
assert main(["ledger", "check", *release, *common]) == 0
RESTRICTED
assert main(["ledger", "add", *release, *common]) == 1
assert main(["ledger", "limit", str(folder), "40%", "--reason", "a test", *common]) == 1
"""


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
@pytest.mark.parametrize("case", RESTRICTED)
def test_what_cannot_be_written_is_refused_cleanly(case: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = filled(Path(name))
        before = snapshot(folder)
        command = [sys.executable, "-c", PROCESS.replace("RESTRICTED", RESTRICTED[case]), str(folder)]
        found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        folder.chmod(0o700)
        assert found.returncode == 0, found.stderr
        errors = [line for line in found.stderr.splitlines() if "expected" in line]  # and progress, if slow
        assert [line.endswith("nothing was added") for line in errors] == [True, True]
        assert snapshot(folder) == before


FULL = """
import shutil, subprocess, sys
from pathlib import Path
from sightline.cli import main
folder = Path(sys.argv[1])
kept = shutil.copytree(folder, folder.parent / "kept")
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=True)
shutil.copytree(kept, folder, dirs_exist_ok=True)
release = [str(folder), str(folder.parent / "release.toml"), "--key", str(folder.parent / "key")]
names = sorted(one.name for one in folder.iterdir())
fill = folder / ".draft-fill"
try:
    with fill.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
except OSError:
    pass
assert main(["ledger", "add", *release]) == 1
fill.unlink()
assert sorted(one.name for one in folder.iterdir()) == names
assert all((folder / one).read_bytes() == (kept / one).read_bytes() for one in names)
assert main(["ledger", "add", *release]) == 0
"""


@pytest.mark.thorough
def test_a_full_file_system_adds_nothing_and_can_be_used_again() -> None:
    """A file system of its own in memory, where the machine lets this process mount one."""
    alone = ["unshare", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("this process may not mount a file system")
    with tempfile.TemporaryDirectory() as name:
        folder = filled(Path(name))
        command = [*alone, sys.executable, "-c", FULL, str(folder)]
        found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert found.returncode == 0, found.stderr
        assert any(line.endswith("nothing was added") for line in found.stderr.splitlines())


def test_a_disk_that_fills_up_later_and_one_without_links_add_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = started(tmp_path, values="by-epoch")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("fsync", "link"):
        with monkeypatch.context() as patched:
            patched.setattr(os, name, full)
            with pytest.raises(InvalidInput, match="nothing was added"):
                ledger.start_epoch("a")
        assert len(ledger.log()) == 1
        assert not list((tmp_path / "ledger").glob(".draft-*"))
    assert LedgerFolder(tmp_path / "ledger").chain().entries[0].number == 0


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


NOTHING, ADDED = "nothing was added.", "The entry was added: 000003.json."
# What Ctrl-C stops, in which verb, and what it says.
INTERRUPTED = {
    "check": ("sightline.auditing.findings.assess", ["check", "release.toml"], NOTHING),
    "add": ("sightline.auditing.findings.assess", ["add", "release.toml"], NOTHING),
    "add, a file": ("sightline.ledger.book.LedgerFolder.store", ["add", "release.toml"], NOTHING),
    "a link": ("os.link", ["limit", "40%", "--reason", "a test"], NOTHING),
    "after the link": (
        "sightline.ledger.folder.LedgerFolder._flush",
        ["cancel", "1", "--never-seen", "a"],
        ADDED,
    ),
    "verify": ("sightline.ledger.book.read_groups", ["verify"], NOTHING),
    "plan": ("sightline.ledger.book.write_table", ["plan", "--out", "all.toml"], NOTHING),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", INTERRUPTED)
def test_an_interrupt_says_what_was_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    place, (verb, *arguments), said = INTERRUPTED[case]
    folder = filled(tmp_path)
    before = snapshot(folder)
    capsys.readouterr()
    monkeypatch.setattr(place, interrupted)
    monkeypatch.chdir(tmp_path)
    assert main(["ledger", verb, str(folder), *arguments, "--key", str(tmp_path / "key")]) == 130
    assert capsys.readouterr().err.splitlines()[-1] in (f"Interrupted: {said}", f"Interrupted. {said}")
    monkeypatch.undo()
    after = snapshot(folder)
    entries = [one.number for one in Ledger.open(folder, key=tmp_path / "key").log()]
    assert entries == ([0, 1, 2, 3] if said == ADDED else [0, 1, 2])
    assert {name: after[name] for name in before} == before
    assert not list(tmp_path.glob("all.*"))


def test_an_interrupt_while_the_engine_reads_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """DuckDB raises an error of its own on Ctrl-C."""
    folder = filled(tmp_path)

    def stopped(*_: object) -> None:
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr("sightline.ledger.storage._read", stopped)
    assert main(["ledger", "verify", str(folder), "--key", str(tmp_path / "key")]) == 130
    assert capsys.readouterr().err == f"Interrupted: {NOTHING}\n"


def test_a_release_record_is_added_as_its_release(tmp_path: Path) -> None:
    """A record is read as its section; one of another secret is refused."""
    ledger = started(tmp_path)
    fields: dict[str, Any] = {"name": "total", "sql": "SELECT SUM(watts) FROM data", "noise_stddev": 1e6}
    section = release_of(fields, {})
    record = ReleaseRecord(release=section, data={"record": "home", "secret": "watts"}, about=About())
    (tmp_path / "record.json").write_text(record.text())
    decision, number = ledger.add(tmp_path / "record.json")
    assert number == 1
    assert ledger.log()[1].release == section
    assert ledger.check(fields).before == decision.after
    hidden = fields | {"name": "again", "published": True, "hidden_by_noise": True}
    asked = [one.name for one in ledger.check(hidden).result.unverified]
    assert "hidden_by_noise" in asked
    assert "hidden_by_noise" not in [one.name for one in decision.result.unverified]
    other = ReleaseRecord(release=section, data={"record": "home", "secret": "rent"}, about=About())
    (tmp_path / "other.json").write_text(other.text())
    with pytest.raises(InvalidInput, match=r"other\.json: data\.secret"):
        ledger.add(tmp_path / "other.json")
