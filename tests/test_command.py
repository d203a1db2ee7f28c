"""The command as a process: how it begins and ends when somebody or something stops it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sightline.examples.shipped import example_plan

ARGUMENTS = ["audit", str(example_plan("microgrid"))]


def test_an_interrupt_while_modules_load_is_one_line() -> None:
    code = (
        "import sys; from sightline import cli; sys.argv[1:] = ['audit', 'plan.toml'];\n"
        "def interrupted(*_): raise KeyboardInterrupt\n"
        "cli._load_on_use = interrupted; cli.run()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "Interrupted: nothing was written.\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a shell that closes streams")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_changes_no_status(closed: str) -> None:
    code = "from sightline.cli import run; run()"
    shell = f'"$0" "$@" {closed}'
    ended = subprocess.run(
        ["sh", "-c", shell, sys.executable, "-c", code, *ARGUMENTS], capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
