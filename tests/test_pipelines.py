"""Pipelines as they run: the action, the hook, the page's commands, the test helper, the notebook."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import sightline as sl
from sightline.cli import main
from sightline.errors import InvalidInput, InvalidPlan
from sightline.examples.shipped import example_plan
from sightline.testing import assert_keeps
from tests.report.pipeline_cases import SCHEMAS, checked_junit
from tools.rooms import ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")
Captured = pytest.CaptureFixture[str]

PLAN = """\
[data]
source = "homes.csv"
record = "home"
secret = "evening_watts"
bounds = [0, 2000]

[privacy]
epsilon = 1.0
delta = 1e-5

[limits]
remaining_uncertainty = "50%"

[[release]]
name = "by feeder"
sql = "SELECT feeder, AVG(evening_watts) FROM data GROUP BY feeder"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table and a plan that keeps its limit, as the working directory."""
    shutil.copy(example_plan("microgrid").parent / "homes.csv", tmp_path)
    (tmp_path / "plan.toml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


# ------------------------------------------------------------------ the composite action


def run_step(step: dict[str, Any], inputs: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub's runner does: its script in a file, by the command of ``shell: bash``."""
    given = {name: one.get("default", "") for name, one in ACTION["inputs"].items()} | inputs

    def value(text: str) -> str:
        return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: given[found.group(1)], text)

    assert "${{" not in step["run"], "an input inside of a script could become a command"
    assert step["shell"] == "bash"
    script = folder / "script.sh"
    script.write_text(step["run"])
    runner = folder / "runner"
    runner.mkdir(exist_ok=True)
    programs = f"{folder / 'bin'}{os.pathsep}{Path(sys.executable).parent}"
    environment = {
        **os.environ,
        **{name: value(text) for name, text in step.get("env", {}).items()},
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "RUNNER_TEMP": str(runner),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(runner / "summary"),
        "GITHUB_OUTPUT": str(runner / "output"),
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def step(name: str) -> dict[str, Any]:
    (found,) = [one for one in ACTION["runs"]["steps"] if one["name"] == name]
    return dict(found)


def test_the_action_keeps_its_schema() -> None:
    schema = json.loads((SCHEMAS / "github-action.json").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(schema).validate(ACTION)


@pytest.mark.slow
def test_the_action_audits_a_plan_that_keeps_its_limit(project: Path) -> None:
    files = {"junit": "audit $(touch hacked).xml"}
    (project / "runner").mkdir()
    (project / "runner" / "summary").write_text("# Before\n")
    ran = run_step(step("Audit the plan"), {"plan": "plan.toml", **files}, project)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("## Sightline: The limit holds")
    assert set(checked_junit((project / files["junit"]).read_text()).values()) == {"passed"}
    summary = (project / "runner" / "summary").read_text()
    assert summary.startswith("# Before\n## Sightline: The limit holds\n")
    assert (project / "runner" / "output").read_text() == "status=0\n"
    assert not (project / "hacked").exists()


@pytest.mark.thorough
def test_the_action_fails_with_a_broken_limit_and_with_an_error(project: Path) -> None:
    audit = step("Audit the plan")
    # A plan whose name begins like an option, with too large a budget for the limit.
    (project / "--plan; touch hacked.toml").write_text(PLAN.replace("epsilon = 1.0", "epsilon = 500.0"))
    ran = run_step(audit, {"plan": "--plan; touch hacked.toml", "limit": "99%", "junit": "a"}, project)
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout.startswith("## Sightline: Below the limit")
    outcomes = checked_junit((project / "a").read_text())
    assert outcomes["exposed no. 1"] == "failure"
    assert outcomes["limit"] == "skipped"
    (project / "plan.toml").write_text(PLAN.replace("AVG(evening_watts)", "AVG(watts)"))
    ran = run_step(audit, {"plan": "plan.toml", "junit": "b"}, project)
    assert ran.returncode == 1
    assert checked_junit((project / "b").read_text()) == {"plan": "error"}
    assert (project / "runner" / "output").read_text() == "status=2\nstatus=1\n"
    assert (project / "runner" / "summary").read_text().count("## Sightline") == 2
    assert not list(project.glob("hacked*"))


def test_the_action_installs_the_package_of_its_own_folder(project: Path) -> None:
    """The shell runs a stand-in for Python that prints its arguments: a test installs nothing."""
    python = project / "bin" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    for extras, package in (("", str(ROOT)), ("postgres,report", f"{ROOT}[postgres,report]")):
        ran = run_step(step("Install Sightline"), {"extras": extras}, project)
        assert ran.stdout.splitlines() == ["-m", "pip", "install", "--quiet", package]
    assert (ROOT / "pyproject.toml").is_file()


# ------------------------------------------------------------------ the hook


def test_the_hook_checks_the_plans_that_git_would_pass_to_it(project: Path, capsys: Captured) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert {"id", "name", "entry", "language"} <= set(hook)
    names = ["plan.toml", "grid/plan-2026.toml", "pyproject.toml", "explanation.toml", "plan.md"]
    assert [name for name in names if re.search(hook["files"], name)] == names[:2]
    program, *arguments = shlex.split(hook["entry"])
    assert program == "sightline"
    assert main([*arguments, "plan.toml"]) == 0
    (project / "plan-b.toml").write_text(PLAN.replace("AVG(", "AVERAGE("))
    assert main([*arguments, "plan.toml", "plan-b.toml"]) == 1
    assert "plan-b.toml: InvalidPlan: release 'by feeder'" in capsys.readouterr().err


# ------------------------------------------------------------------ the page


def dbt_manifest(folder: Path) -> None:
    """What dbt compile would write for the page's project."""
    (project,) = [one for one in map(yaml.safe_load, blocks("yaml")) if "models" in one]
    sql = {
        "homes": "select * from raw",
        "by_feeder": 'select feeder, avg(evening_watts) as mean from "grid"."main"."homes" group by feeder',
        "everyone": 'select avg(evening_watts) as mean from "grid"."main"."homes"',
    }
    nodes = {
        f"model.grid.{model['name']}": {
            "name": model["name"],
            "relation_name": f'"grid"."main"."{model["name"]}"',
            "compiled_code": sql[model["name"]],
            "config": {"materialized": "table", **model["config"]},
        }
        for model in project["models"]
    }
    (folder / "target").mkdir()
    content = {"metadata": {"adapter_type": "duckdb"}, "nodes": nodes, "sources": {}}
    (folder / "target" / "manifest.json").write_text(json.dumps(content))


@pytest.mark.slow
def test_every_command_of_the_page_runs(project: Path, capsys: Captured) -> None:
    dbt_manifest(project)
    commands = [line[2:] for text in blocks("console") for line in text.splitlines()]
    assert len(commands) == 6
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "sightline"
        assert main(arguments) == 0, command
    for file in ("audit.xml", "audit.md", "audit.json", "plan-dbt.toml"):
        assert (project / file).stat().st_size
    assert "Since the last audit\n  nothing changed" in capsys.readouterr().out


def test_the_files_of_the_page_fit_the_action_and_the_hook() -> None:
    workflow, hooks, _ = map(yaml.safe_load, blocks("yaml"))
    (used,) = [one for one in workflow["jobs"]["audit"]["steps"] if "/sightline@" in one.get("uses", "")]
    assert set(used["with"]) <= set(ACTION["inputs"])
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hooks["repos"][0]["hooks"] == [{"id": hook["id"]}]
    listed = re.search(r"The inputs are (.*?); the output `(\w+)`", PAGE)
    assert listed
    assert re.findall(r"`(\w+)`", listed.group(1)) == list(ACTION["inputs"])
    assert [listed.group(2)] == list(ACTION["outputs"])


# ------------------------------------------------------------------ a test suite


@pytest.mark.slow
def test_assert_keeps_returns_the_result_of_a_plan_that_keeps_its_limit(project: Path) -> None:
    assert assert_keeps("plan.toml") == assert_keeps("plan.toml", "50%") == sl.audit("plan.toml")


@pytest.mark.slow
def test_assert_keeps_fails_with_the_first_screen() -> None:
    with pytest.raises(AssertionError) as error:
        assert_keeps(example_plan("microgrid"))
    said = str(error.value)
    assert said.startswith("BELOW THE LIMIT  Do not publish this yet. 9 of 18 homes may keep less")
    assert "What to change (audited: each reaches the limit)" in said
    assert "1. multiply all noise by 8.57" in said
    assert not re.search(r"\bH\d\d\b|\x1b", said)


def test_assert_keeps_needs_a_limit_and_a_plan(project: Path) -> None:
    (project / "plan.toml").write_text(PLAN.replace('remaining_uncertainty = "50%"', ""))
    with pytest.raises(InvalidInput, match="expected a limit to keep, got none"):
        assert_keeps("plan.toml")
    with pytest.raises(InvalidPlan):
        assert_keeps("missing.toml", "50%")


@pytest.mark.slow
def test_assert_keeps_does_not_pass_what_is_not_shown(project: Path) -> None:
    table = project / "homes.csv"
    lines = table.read_text().splitlines()
    place = lines[0].split(",").index("evening_watts")
    row = lines[1].split(",")
    row[place] = "99999"  # outside the bounds: nothing is shown of it
    table.write_text("\n".join([lines[0], ",".join(row), *lines[2:]]) + "\n")
    with pytest.raises(AssertionError, match=r"^NOT SHOWN TO HOLD"):
        assert_keeps("plan.toml")


# ------------------------------------------------------------------ a notebook


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A running IPython that leaves nothing behind."""
    pytest.importorskip("IPython", reason="IPython is not installed")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    settings = Config()
    settings.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    yield InteractiveShell.instance(config=settings)
    InteractiveShell.clear_instance()


@pytest.mark.slow
def test_a_cell_is_audited(project: Path, shell: Any, capsys: Captured) -> None:
    (load, cell) = next(text for text in blocks("text") if "%%sightline" in text).split("\n\n", 1)
    shell.run_cell(load).raise_error()
    ran = shell.run_cell(cell)
    assert isinstance(ran.result, sl.AuditResult)
    assert ran.result.verdict.limit == 0.5
    assert ran.result.releases[0].name == "by feeder"
    capsys.readouterr()
    failed = shell.run_cell(cell.replace("[data]", "[dat]"))
    assert not failed.success
    said = capsys.readouterr()
    assert "UsageError: InvalidPlan: the cell: " in said.out + said.err
    assert "Traceback" not in said.out + said.err
