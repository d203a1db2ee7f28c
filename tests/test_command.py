"""The command as a process: how it begins and ends when somebody or something stops it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sightline as sl
from sightline.cli import main
from sightline.errors import Interrupted
from sightline.examples.shipped import example_plan
from sightline.report.files import write_new
from sightline.tables.engines.duckdb_engine import DuckDBEngine

START = """
import sys
from sightline.cli import main
from sightline.report import streams
streams.PATIENCE = 1e6  # no test depends on the machine's speed
sys.exit(main())
"""
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


def test_an_interrupt_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sightline.auditing.reading.plan_schema", interrupt)
    assert main(["check", "--schema"]) == 130
    assert capsys.readouterr().err == "Interrupted: nothing was written.\n"


# Sends the signal that Ctrl-C sends when a module is about to be imported.
CTRL_C = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["click", "sightline.format", "numpy", "sightline.records.release_record"])
def test_an_interrupt_while_modules_are_loaded_ends_quietly(module: str) -> None:
    code = CTRL_C.format(module=module) + START
    run = subprocess.run([sys.executable, "-c", code, "check", "--schema"], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "Interrupted: nothing was written.\n")


def interrupted(*_: object, **options: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", ["design", "rehearse", "explain", "figures", "audit"])
def test_an_interrupt_says_that_nothing_was_written(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = {"explain": ["--record", "H13"], "audit": ["--html", str(tmp_path / "page.html")]}
    options |= {
        "design": ["--out", str(tmp_path / "example" / "new.toml")],
        "figures": ["--out", str(tmp_path / "f")],
    }
    monkeypatch.setattr("sightline.auditing.findings.assess", interrupted)
    shutil.copytree(example_plan("microgrid").parent, tmp_path / "example")
    before = sorted(tmp_path.rglob("*.*"))
    assert main([command, str(tmp_path / "example" / "plan.toml"), *options.get(command, [])]) == 130
    assert capsys.readouterr() == ("", "Interrupted: nothing was written.\n")
    assert sorted(tmp_path.rglob("*.*")) == before


@pytest.mark.thorough
def test_an_interrupt_between_two_files_names_those_that_may_be_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    written: list[Path] = []

    def once(path: Path, content: bytes, **options: bool) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(path)
        write_new(path, content, **options)

    monkeypatch.setattr("sightline.report.figures.write_new", once)
    assert main(["figures", str(example_plan("microgrid")), "--out", str(tmp_path / "f")]) == 130
    said = capsys.readouterr().err
    assert said == f"Interrupted. Each file is whole, or as it was before: {written[0].name}.\n"
    assert [path.name for path in (tmp_path / "f").iterdir()] == [written[0].name]


def interrupted_after_the_verdict(*_: object) -> None:
    """Ctrl-C while the audit looks for what would be enough."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_after_the_verdict_keeps_it_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan, page = str(example_plan("microgrid")), tmp_path / "page.html"
    whole = sl.audit(plan)
    monkeypatch.setattr("sightline.jobs.assemble.noise_slack", interrupted_after_the_verdict)
    assert main(["audit", plan, "--html", str(page)]) == 130
    printed = capsys.readouterr()
    assert "Do not publish this yet." in printed.out
    assert "Not everything was computed: the audit was interrupted." in printed.out
    assert "none is enough alone" not in printed.out  # it was not tried
    expected = f"Interrupted: the verdict is whole, other sections are missing. {page} was not written.\n"
    assert (printed.err, page.exists()) == (expected, False)
    with pytest.raises(KeyboardInterrupt) as stopped:  # a loop over plans ends
        sl.audit(plan)
    assert isinstance(stopped.value, Interrupted)
    assert stopped.value.result.verdict == whole.verdict
    assert stopped.value.result.exposed == whole.exposed


def test_an_interrupt_leaves_no_secret_without_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    source = example_plan("salaries").parent / "salaries.csv"
    plan = {
        "data": {"source": str(source), "record": "employee", "secret": "salary", "bounds": [0, 200_000]},
        "secret": [{"column": "bonus", "bounds": [0, 50_000]}],
        "release": [
            {"name": name, "sql": f"SELECT level, AVG({name}) FROM data GROUP BY level", "noise_stddev": 1.0}
            for name in ("salary", "bonus")
        ],
        "limits": {"remaining_uncertainty": 0.5},
    }
    whole = sl.audit(plan)
    monkeypatch.setattr("sightline.jobs.assemble.noise_slack", interrupted_after_the_verdict)
    with pytest.raises(Interrupted) as stopped:
        sl.audit(plan)
    known = stopped.value.result
    assert [one.verdict.status for one in (known, *known.other_secrets)] == [
        one.verdict.status for one in (whole, *whole.other_secrets)
    ]
    assert len(known.other_secrets) == 1


def test_an_interrupt_while_a_query_runs_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted:
        """What DuckDB does when Ctrl-C comes while it runs a query."""

        def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
            self.connection = connection

        def extract_statements(self, query: str) -> list[duckdb.Statement]:
            return self.connection.extract_statements(query)

        def execute(self, statement: object) -> None:
            raise RuntimeError("Query interrupted")

        def close(self) -> None:
            self.connection.close()

    class Engine(DuckDBEngine):
        def fetch(self, query: str) -> dict[str, Any]:
            self._connection = Interrupted(self._connection)  # type: ignore[assignment]
            return super().fetch(query)

    monkeypatch.setattr("sightline.tables.engines.open.DuckDBEngine", Engine)
    assert main(["audit", str(example_plan("microgrid"))]) == 130
    assert capsys.readouterr() == ("", "Interrupted: nothing was written.\n")


@pytest.mark.sampled(1)
@pytest.mark.thorough
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [["demo"], ["demo", "--json"], ["check", "--schema"]], ids=str)
def test_a_full_disk_behind_the_output_is_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        run = subprocess.run([sys.executable, "-c", START, *arguments], stdout=full, stderr=subprocess.PIPE)
    assert (run.returncode, run.stderr) == (1, b"OSError: no space left on device\n")


@pytest.mark.sampled(1)
@pytest.mark.thorough
@pytest.mark.parametrize("arguments", [["demo"], ["demo", "--json"], ["check", "--schema"]], ids=str)
def test_a_reader_that_has_seen_enough_is_no_mistake(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    code = f"import sys; from sightline.cli import main; sys.exit(main({arguments}))"
    run = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (run.returncode, run.stderr) == (141, "")


@pytest.mark.slow
def test_the_command_prints_all_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """It ends without freeing its objects, and the same is printed and removed."""
    argument = str(example_plan("microgrid"))
    printed = []
    for call in ("sys.exit(main(sys.argv[1:]))", "run()"):
        code = (
            f"import sys; from sightline.cli import main, run; sys.argv[1:] = ['audit', {argument!r}]; {call}"
        )
        environment = os.environ | {"TMPDIR": str(tmp_path)}
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        printed.append((ended.returncode, ended.stdout))
        assert list(tmp_path.iterdir()) == []
    assert printed[0] == printed[1]
    assert printed[0][0] == 2
    assert "H13" not in printed[0][1]
