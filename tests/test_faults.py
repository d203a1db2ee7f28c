"""Disks fail: whatever open, write, sync, link or rename fails, a command says so in one line.

Every command is run with its first file operation failing, then its second, and so on, until none is left.
Each time it must either end well or print one line and exit with 1, and leave nothing half-written.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sightline.cli import main
from sightline.report import figures, page
from sightline.report.figures import FIGURES

OPERATIONS = {
    builtins: ["open"],
    io: ["open"],
    os: ["open", "fdopen", "fsync", "replace", "rename", "link", "mkdir"],
}


class Disk:
    """File operations of which one fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fails: int, error: int) -> None:
        self.fails, self.error = fails, error
        self.seen = 0
        for module, names in OPERATIONS.items():
            for name in names:
                monkeypatch.setattr(module, name, self._watched(getattr(module, name)))
        monkeypatch.setattr(os, "fdopen", self._with_failing_write(os.fdopen))

    @property
    def failed(self) -> bool:
        return self.seen > self.fails

    def _count(self, path: object) -> None:
        if path == os.devnull or ".dist-info" in str(path):  # Python's own reader of versions hides faults
            return
        self.seen += 1
        if self.seen - 1 == self.fails:
            raise OSError(self.error, os.strerror(self.error))

    def _watched(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            self._count(arguments[0])
            return operation(*arguments, **options)

        return watched

    def _with_failing_write(self, fdopen: Callable[..., Any]) -> Callable[..., Any]:
        def opened(*arguments: Any, **options: Any) -> Any:
            file = fdopen(*arguments, **options)
            try:
                self._count("the first bytes")
            except OSError as error:
                return _Full(file, error)
            return file

        return opened


class _Full:
    """A file that takes half of what it is given."""

    def __init__(self, file: Any, error: OSError) -> None:
        self.file, self.error = file, error

    def __enter__(self) -> _Full:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, content: bytes) -> None:
        self.file.write(content[: len(content) // 2])
        raise self.error


TABLE = "home,feeder,watts\nA,n,1\nB,n,2\nC,s,3\nD,s,4\n"
PLAN = """
[data]
source = "t.csv"
record = "home"
secret = "watts"
bounds = [0, 10]

[[release]]
name = "all"
sql = "SELECT AVG(watts) FROM data"
noise_stddev = 1.0

[[release]]
name = "by feeder"
sql = "SELECT feeder, AVG(watts) FROM data GROUP BY feeder"
noise_stddev = 1.0
"""
COMMANDS = {
    "check": ["check", "plan.toml"],
    "audit": ["audit", "plan.toml", "--json"],
    "audit to a new report": ["audit", "plan.toml", "--html", "out/report.html", "--no-what-if"],
    "audit to an old report": ["audit", "plan.toml", "--html", "out/old.html", "--force", "--no-what-if"],
    "explain": ["explain", "plan.toml", "--record", "A"],
    "figures": ["figures", "plan.toml", "--out", "out/figures"],
    "init": ["init", "t.csv", "--out", "out/plan.toml"],
    "demo": ["demo", "--json", "--html", "out/demo.html", "--no-what-if"],
    "paper": ["paper", "tab:accountant_scaling_main", "--fast", "--out", "out/paper"],
}


def fresh_folder(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    (place / "out").mkdir(parents=True)
    (place / "out" / "old.html").write_text("old")
    (place / "t.csv").write_text(TABLE)
    (place / "plan.toml").write_text(PLAN)


def written(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): content(path) for path in place.rglob("*") if path.is_file()}


def content(path: Path) -> bytes:
    """What is in a file. A PDF has its parts in any order: its ends and length say whether it is whole.

    A page has no digest of a table that cannot be read again, and says that no other groups were tried.
    """
    found = re.sub(rb"<dt>Table</dt>.*\n", b"", path.read_bytes())
    tried = rb'<p class="note"><bdi>Tried, and not enough: .*\n'
    found = (
        re.sub(tried, b"", found) if b"could not be audited" in found or b"as one group" in found else found
    )
    return found if path.suffix != ".pdf" else found[:8] + found[-6:] + str(len(found)).encode()


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_fault_is_one_line_and_leaves_nothing_half_written(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (figures, page):  # one figure stands for all: drawing takes seconds
        monkeypatch.setattr(module, "FIGURES", FIGURES[:1])
    place = tmp_path / "place"
    fresh_folder(place)
    monkeypatch.chdir(place)
    before = written(place)
    status = main(COMMANDS[command])
    assert status == 0, capsys.readouterr().err
    complete = written(place)
    capsys.readouterr()

    fails = 0
    while True:
        fresh_folder(place)
        os.chdir(place)
        with monkeypatch.context() as patch:
            disk = Disk(patch, fails=fails, error=errno.EACCES if fails % 2 else errno.ENOSPC)
            status = main(COMMANDS[command])
        said = capsys.readouterr()
        found = written(place)
        for name, content in found.items():
            assert content in (before.get(name), complete.get(name)), (
                f"operation {fails}: {name} is not whole"
            )
        if status == 0:
            assert found == complete, f"operation {fails}"
        else:
            assert status == 1, f"operation {fails}"
            assert said.err.count("\n") == 1, f"operation {fails}: {said.err}"
            assert len(said.err) < 400
        if not disk.failed:
            break
        fails += 1
    assert fails >= 1
    assert status == 0, "the last run met no fault"


def test_the_faults_are_told_as_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: object, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    fresh_folder(tmp_path)
    real = io.open
    for name, words in {
        "plan.toml": "expected a plan file, got '{}': permission denied",
        "t.csv": "expected a data file that can be read, got t.csv: permission denied",
    }.items():
        path = tmp_path / name
        monkeypatch.setattr(
            io,
            "open",
            lambda p, *a, path=path, **o: refuse(p) if Path(p) == path else real(p, *a, **o),
        )
        assert main(["audit", str(tmp_path / "plan.toml")]) == 1
        assert words.format(path) in capsys.readouterr().err


def test_a_plan_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    fresh_folder(tmp_path)
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8-sig")
    assert main(["check", str(tmp_path / "plan.toml")]) == 0
