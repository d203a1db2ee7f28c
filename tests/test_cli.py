"""The command line as its user meets it: help, numbers, JSON, one-line errors, a quick start."""

from __future__ import annotations

import json
import math
import os
import re
import runpy
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import mpmath
import pytest

import sightline as sl
from sightline.cli import commands, main
from sightline.errors import InvalidBudget
from sightline.examples.shipped import example_plan
from tests.test_command import START
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
        seen = r"H13 +\+- 123-146"
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
        assert json.loads(printed) == json.loads(sl.audit(path, names=True, full=True).to_json())
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
        result = sl.audit(self.plan(tmp_path, "feeder, hour"), full=True).publishable()
        assert "(withheld)" not in result.to_json()

    @pytest.mark.slow
    def test_advice_is_given_once(self, tmp_path: Path) -> None:
        result = sl.audit(self.plan(tmp_path, "home, hour"), full=True)
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
    code = "from sightline.jobs.audit import audit; from sightline.examples.shipped import example_plan"
    loaded = modules_after(f"{code}; audit(example_plan('microgrid'))")
    assert loaded & {"scipy.linalg", "scipy.optimize", "scipy.special", "scipy.stats"} == set()
    assert loaded & {"sightline.theory.releases.features", "sightline.theory.releases.query"} == set()
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
