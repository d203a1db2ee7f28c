"""Files appear whole or not at all, private where they hold what is for the owner only."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import sightline as sl
from sightline.errors import InvalidInput
from sightline.report import files
from sightline.report.files import write_new
from sightline.report.page import write_report
from tests.report.report_cases import calm, microgrid


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("umask")
class TestWhoMayRead:
    @pytest.mark.slow
    def test_a_report_for_the_owner_is_private(self, tmp_path: Path) -> None:
        write_report(microgrid(), tmp_path / "report.html")
        assert mode(tmp_path / "report.html") == 0o600

    @pytest.mark.slow
    def test_a_publishable_report_follows_the_umask(self, tmp_path: Path) -> None:
        write_report(microgrid(), tmp_path / "report.html", publishable=True)
        assert mode(tmp_path / "report.html") == 0o640

    @pytest.mark.slow
    def test_a_public_file_that_is_replaced_becomes_private(self, tmp_path: Path) -> None:
        path = tmp_path / "report.html"
        path.write_text("public")
        path.chmod(0o644)
        write_report(calm(), path, force=True)
        assert mode(path) == 0o600

    @pytest.mark.slow
    def test_figures_likewise(self, tmp_path: Path) -> None:
        owners = sl.export_figures(microgrid(), tmp_path / "owner")
        public = sl.export_figures(microgrid().publishable(), tmp_path / "public")
        assert {mode(path) for path in owners} == {0o600}
        assert {mode(path) for path in public} == {0o640}


class TestWhole:
    def test_nothing_is_left_of_an_interrupted_write(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(handle: int) -> None:
            raise KeyboardInterrupt

        (tmp_path / "old").write_text("old")
        monkeypatch.setattr(files.os, "fsync", interrupt)
        for name, force in (("new", False), ("old", True)):
            with pytest.raises(KeyboardInterrupt):
                write_new(tmp_path / name, b"new", force=force)
        assert [path.name for path in tmp_path.iterdir()] == ["old"]
        assert (tmp_path / "old").read_text() == "old"

    def test_a_link_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "real").write_text("old")
        (tmp_path / "link").symlink_to("real")
        with pytest.raises(InvalidInput, match="which is a link; name the file itself"):
            write_new(tmp_path / "link", b"new", force=True)
        assert (tmp_path / "real").read_text() == "old"

    def test_a_disk_without_hard_links(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(path: Path, target: Path) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(Path, "hardlink_to", refuse)
        write_new(tmp_path / "new", b"whole", force=False)
        assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("new", b"whole")]
        monkeypatch.setattr(files, "check_new", lambda path, *, force: None)
        with pytest.raises(InvalidInput, match="operation not permitted"):
            write_new(tmp_path / "new", b"other", force=False)
        assert (tmp_path / "new").read_bytes() == b"whole"


class TestDevices:
    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
    @pytest.mark.parametrize("force", [False, True])
    def test_one_that_is_always_full(self, force: bool) -> None:
        with pytest.raises(InvalidInput, match="expected a place to write '/dev/full', got: no space left"):
            write_new(Path("/dev/full"), b"text", force=force)
        assert stat.S_ISCHR(Path("/dev/full").stat().st_mode), "the device is still there"

    def test_a_pipe_is_written_to_and_not_replaced(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        write_new(pipe, b"text", force=False)
        assert os.read(reader, 100) == b"text"
        os.close(reader)
        assert stat.S_ISFIFO(pipe.stat().st_mode)
