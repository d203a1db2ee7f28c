"""The command line as its user meets it: help, numbers, JSON, one-line errors, a quick start."""

from __future__ import annotations

import json
import math
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import mpmath
import pytest

import sightline as sl
from sightline.cli import commands, main
from sightline.errors import Interrupted, InvalidBudget
from sightline.examples.shipped import example_plan
from sightline.report.files import write_new
from sightline.tables.engines.duckdb_engine import DuckDBEngine
from tools.rooms import ROOT

EPSILON, DELTA = 1.0, 1e-5


def kappa_basic(releases: int) -> float:
    """eq. kappaL_sigma_def."""
    return 2 * releases**2 * math.log(1.25 * releases / DELTA) / EPSILON**2


def kappa_zero_concentrated(releases: int) -> float:
    """L / (2 rho), where rho + 2 sqrt(rho ln(1/delta)) = epsilon."""
    rho = mpmath.findroot(lambda r: r + 2 * mpmath.sqrt(r * mpmath.log(1 / DELTA)) - EPSILON, 0.02)
    return float(releases / (2 * rho))


def kappa_gaussian(releases: int) -> float:
    """L / mu^2, where the trade-off curve of N(mu, 1) against N(0, 1) passes through (epsilon, delta)."""

    def excess(mu: mpmath.mpf) -> mpmath.mpf:
        return (
            mpmath.ncdf(mu / 2 - EPSILON / mu)
            - mpmath.exp(EPSILON) * mpmath.ncdf(-mu / 2 - EPSILON / mu)
            - DELTA
        )

    with mpmath.workdps(30):
        return float(releases / mpmath.findroot(excess, (0.2, 0.4), solver="anderson") ** 2)


KAPPA = {
    "basic composition": kappa_basic,
    "zero-concentrated": kappa_zero_concentrated,
    "exact Gaussian": kappa_gaussian,
}


tour = runpy.run_path(str(ROOT / "docs" / "picture.py"))["tour"]


@pytest.mark.slow
@pytest.mark.parametrize("accountant", KAPPA)
def test_the_picture_agrees_with_the_closed_form(accountant: str) -> None:
    # eq. one_contrast_kappa_over_L with Delta = 1; the picture itself takes the general road.
    for releases, rmse in tour().rmse[accountant].items():
        assert rmse == pytest.approx(math.sqrt(4 * KAPPA[accountant](releases) / releases), rel=1e-9)


def test_the_recipe_recovers_the_record_exactly_without_noise() -> None:
    records = [0.75] + [k / 7 for k in range(50)]
    weight_in, weight_out = tour().recipe
    assert weight_in * sum(records) / 51 + weight_out * sum(records[1:]) / 50 == pytest.approx(0.75, abs=1e-9)


@pytest.mark.slow
def test_the_same_command_prints_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    main(["demo", "--json"])
    first = capsys.readouterr().out
    main(["demo", "--json"])
    assert capsys.readouterr().out == first


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]], ids=str)
def test_help_is_where_one_looks_for_it(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "Usage: sightline" in printed
    assert "Example:" in printed


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"sightline {version('sightline')}\n"


def test_a_mistake_in_the_arguments_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    # Not click's 2, which means "exposure above the limit" here.
    assert main(["dmeo"]) == 1
    assert "Did you mean 'demo'?" in capsys.readouterr().err


def test_our_own_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise InvalidBudget("expected epsilon > 0, got -1")

    monkeypatch.setattr("sightline.auditing.reading.plan_schema", refuse)
    assert main(["check", "--schema"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "InvalidBudget: expected epsilon > 0, got -1\n"


def test_what_is_not_a_mistake_of_the_user_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("sightline.auditing.reading.plan_schema", fail)
    with pytest.raises(ZeroDivisionError):
        main(["check", "--schema"])


def test_an_interrupt_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sightline.auditing.reading.plan_schema", interrupt)
    assert main(["check", "--schema"]) == 130
    assert capsys.readouterr().err == "Interrupted: nothing was written.\n"


START = """
import sys
from sightline.cli import main
from sightline.report import streams
streams.PATIENCE = 1e6  # no test depends on the machine's speed
sys.exit(main())
"""
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
@pytest.mark.parametrize("module", ["click", "sightline.format", "numpy", "sightline.auditing.records"])
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
    monkeypatch.setattr("sightline.auditing.assemble.noise_slack", interrupted_after_the_verdict)
    assert main(["audit", plan, "--html", str(page)]) == 130
    printed = capsys.readouterr()
    assert "Do not publish this yet." in printed.out
    assert "Not everything was computed: the audit was interrupted." in printed.out
    assert "Nothing that was tried" not in printed.out  # it was not tried
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
    monkeypatch.setattr("sightline.auditing.assemble.noise_slack", interrupted_after_the_verdict)
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

    monkeypatch.setattr("sightline.tables.engines.duckdb_engine.DuckDBEngine", Engine)
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


class TestAnyTerminal:
    @staticmethod
    def run(*arguments: str, encoding: str) -> str:
        environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
        run = subprocess.run(
            [sys.executable, "-c", START, *arguments], capture_output=True, env=environment, check=False
        )
        assert run.stderr == b""
        assert run.returncode in {0, 2}
        return run.stdout.decode(encoding)

    @pytest.mark.thorough
    @pytest.mark.slow
    @pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
    def test_signs_that_it_lacks_are_written_with_others(self, encoding: str) -> None:
        printed = self.run("demo", encoding=encoding)
        row = printed.replace("×", "x").replace("–", "-").replace("±", "+-")
        seen = r"H13 +\+- 122-146"
        assert re.search(rf'{seen} +13 x "March" - 12 x "January"', row)

    @pytest.mark.sampled(1)
    @pytest.mark.thorough
    @pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
    def test_json_says_the_same_in_every_encoding(self, encoding: str, tmp_path: Path) -> None:
        path = tmp_path / "plan.toml"
        (tmp_path / "größe.csv").write_text("home,watts\nA,1\nÖ,2\n", encoding="utf-8")
        path.write_text(
            '[data]\nsource = "größe.csv"\nrecord = "home"\nsecret = "watts"\nbounds = [0, 9]\n'
            '[[release]]\nname = "Überall"\nsql = "SELECT home, SUM(watts) FROM data GROUP BY home"\n'
            "noise_stddev = 1.0\n",
            encoding="utf-8",
        )
        printed = self.run("audit", str(path), "--json", "--names", encoding=encoding)
        assert json.loads(printed) == json.loads(sl.audit(path, names=True).to_json())
        assert "Überall" in json.loads(printed)["releases"][0]["name"]


PERSONS = "meter,home,feeder,hour,watts\n" + "".join(
    f"M{i},H{i},F{i % 2},{hour},{i}\n" for i in range(6) for hour in (1, 2)
)


class TestPublishableKeys:
    """``GROUP BY`` a person's key publishes the key: a publishable result does not repeat it."""

    @staticmethod
    def plan(folder: Path, *releases: str) -> str:
        (folder / "t.csv").write_text(PERSONS)
        sections = [
            '[data]\nsource = "t.csv"\nrecord = "home"\nsecret = "watts"\nbounds = [0, 9]\n'
            "max_rows_per_record = 2\n[limits]\nremaining_uncertainty = 0.5\n"
        ]
        for number, keys in enumerate(releases):
            sql = f"SELECT {keys}, SUM(watts) FROM data GROUP BY {keys}"
            sections.append(f'[[release]]\nname = "R{number}"\nsql = "{sql}"\nnoise_stddev = 0.01\n')
        (folder / "plan.toml").write_text("\n".join(sections))
        return str(folder / "plan.toml")

    @pytest.mark.sampled(1)
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("keys", "withheld", "shown"),
        [
            ("home, hour", ["H0", "H3", "H5"], []),
            ("hour, home", ["H0", "H3", "H5"], []),
            ("meter, hour", ["M0", "M3", "M5"], []),
            ("UPPER(home), hour", ["H0", "H3", "H5"], []),
            ("feeder, hour, home", ["H0", "H3", "H5"], ["F0", "F1"]),
        ],
    )
    def test_they_are_withheld_everywhere(
        self,
        keys: str,
        withheld: list[str],
        shown: list[str],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        plan, page = self.plan(tmp_path, keys), tmp_path / "report.html"
        texts = []
        for options in (["--html", str(page), "--no-what-if"], ["--json"]):
            assert main(["audit", plan, "--names", *options]) == 2
            texts.append(capsys.readouterr().out)
        texts.append(page.read_text(encoding="utf-8").partition("<script>")[0])
        for text in texts:
            assert withheld[0] in text, "the owner's form names them"
        published = []
        for options in (["--html", str(page), "--force"], ["--json"]):
            assert main(["audit", plan, "--names", "--publishable", *options]) == 2
            published.append(capsys.readouterr().out)
        published.append(page.read_text(encoding="utf-8").partition("<script>")[0])
        for text in published:
            assert [key for key in withheld if re.search(rf"\b{key}\b", text)] == []
            assert "(withheld)" in text
            assert [key for key in shown if key not in text] == []

    @pytest.mark.slow
    def test_ordinary_groups_keep_their_names(self, tmp_path: Path) -> None:
        result = sl.audit(self.plan(tmp_path, "feeder, hour")).publishable()
        assert "(withheld)" not in result.to_json()

    @pytest.mark.slow
    def test_advice_is_given_once(self, tmp_path: Path) -> None:
        result = sl.audit(self.plan(tmp_path, "home, hour"))
        # Every home is also seen in its other hour: to leave out one number would help nobody.
        assert [change.kind for change in result.what_to_change] == ["noise"]
        first = result.what_to_change[0]
        twice = tuple(
            first.model_copy(
                update={"text": f'leave out "R0: {home}"', "publishable_text": 'leave out "R0: (withheld)"'}
            )
            for home in ("H0", "H1")
        )
        shown = result.model_copy(update={"what_to_change": twice}).publishable()
        assert [change.text for change in shown.what_to_change] == ['leave out "R0: (withheld)"']


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


def modules_after(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after running this."""
    code += "\nimport sys; print(*sorted(sys.modules), file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stderr.split())


def test_importing_sightline_loads_nothing_else() -> None:
    added = modules_after("import sightline") - modules_after("import __future__, importlib")
    assert {name for name in added if not name.startswith("sightline")} == set()


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(commands.commands))
def test_help_loads_no_numerics(command: str) -> None:
    loaded = modules_after(f"from sightline.cli import main; main([{command!r}, '--help'])")
    heavy = {"numpy", "scipy", "jax", "flint", "duckdb", "sqlglot", "rich", "pydantic"}
    assert loaded & heavy == set()


@pytest.mark.slow
def test_a_small_audit_loads_no_dense_library() -> None:
    code = "from sightline.jobs import audit; from sightline.examples.shipped import example_plan"
    loaded = modules_after(f"{code}; audit(example_plan('microgrid'))")
    assert loaded & {"scipy.linalg", "scipy.optimize", "scipy.special", "scipy.stats"} == set()
    assert loaded & {"sightline.releases.features", "sightline.releases.query"} == set()
    assert "scipy.sparse" in loaded  # the list above is read from the right place


@pytest.mark.slow
def test_the_command_loads_no_compiler_and_no_test_runner() -> None:
    code = (
        "import atexit, sys; from sightline.cli import run;"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr));"
        f"sys.argv[1:] = ['audit', {str(example_plan('microgrid'))!r}]; run()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = set(ended.stderr.split())
    assert loaded & {"numpy.f2py.f2py2e", "unittest", "xml.etree.ElementTree"} == set()
    assert {"numpy.f2py", "numpy.testing", "scipy.sparse"} <= loaded  # SciPy has met them
    assert "numpy.f2py.f2py2e" in modules_after("import scipy.sparse")  # otherwise nothing need be put off


def test_modules_that_are_put_off_are_whole_when_they_are_used() -> None:
    code = (
        "import sys, numpy; from sightline.cli import _load_on_use;"
        "_load_on_use('numpy', ('f2py', 'testing', 'no_such_module'));"
        "print('unittest' in sys.modules, numpy.testing is sys.modules['numpy.testing'], end=' ');"
        "numpy.testing.assert_equal(1, 1);"
        "from numpy.f2py import get_include;"
        "print('unittest' in sys.modules, get_include().endswith('src'), hasattr(numpy, 'no_such_module'));"
        "before = sys.modules['numpy.testing']; _load_on_use('numpy', ('testing',));"
        "print(sys.modules['numpy.testing'] is before)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["False", "True", "True", "True", "False", "True"]


def test_the_command_keeps_modules_from_the_collector_and_leaves_it_on() -> None:
    code = (
        "import atexit, gc, sys; from sightline.cli import run; sys.argv[1:] = ['check', 'no such file'];"
        "atexit.register(lambda: print(gc.isenabled(), gc.get_freeze_count() > 1000));"
        "run(); print('not reached')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout.split()) == (1, ["True", "True"])
    assert ended.stderr.startswith("InvalidPlan: ")


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
