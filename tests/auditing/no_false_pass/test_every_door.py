"""The catalogue of plans that must not pass, through every door of an audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.auditing.plan import AssumptionName
from sightline.cli import main
from sightline.errors import SightlineError
from tests.auditing import fuzz_doors
from tests.auditing.no_false_pass.catalogue import CASES, REFUSED, Case
from tests.auditing.no_false_pass.doors import DOORS, Door, answered, on_postgres, on_spark, toml
from tests.numbered_cases import check_case
from tests.tables.servers import binaries, has_java, running_postgres, running_spark

HERE = [case for case in CASES if not case.engine]
# What has no case here: people who are new to a ledger (tests/ledger/test_copies.py), numbers that no
# arithmetic decides on, rows that a release reads and an audit does not, and a release of nobody. Where
# somebody is certain, the plan fails, whatever else is open.
ELSEWHERE = {"turnover", "undecided", "published_but_dropped", "empty", "certain"}

every_case = pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
pytestmark = pytest.mark.slow


def _check(name: str, door: Door, case: Case, folder: Path, patch: pytest.MonkeyPatch) -> None:
    reason, refusal = answered(door, case.written(folder), folder, patch)
    words = case.refused_by(name)
    if words:
        assert reason == REFUSED
        assert words in refusal
    else:
        assert (reason, refusal) == (case.reason, "")


def test_every_assumption_has_a_case() -> None:
    reasons = {reason for case in CASES for reason in case.reason.split(", ")}
    assert {one.value for one in AssumptionName} - reasons == ELSEWHERE


@every_case
@pytest.mark.parametrize("door", DOORS)
def test_no_door_lets_it_pass(door: str, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _check(door, DOORS[door], case, tmp_path, monkeypatch)


@every_case
def test_the_command_exits_with_no_pass(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plan.toml").write_text(toml(case.written(tmp_path)), encoding="utf-8")
    assert main(["audit", str(tmp_path / "plan.toml")]) == (1 if case.reason == REFUSED else 2)
    shown = capsys.readouterr()
    assert "PASSED" not in shown.out
    assert case.words in shown.err


@every_case
def test_a_design_passes_only_where_noise_is_all_that_it_takes(case: Case, tmp_path: Path) -> None:
    """The plan that a design proposes is audited with all that a pass needs, and with the rules."""
    try:
        proposed = sl.design(case.written(tmp_path))
    except SightlineError:
        assert not case.by_noise
        return
    assert proposed.passed is case.by_noise


@pytest.fixture(scope="module")
def on_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The doors of the two servers."""
    programs = binaries()
    if request.param == "Postgres" and programs is not None:
        with running_postgres(programs) as url:
            yield request.param, on_postgres(url)
    elif request.param == "Spark" and has_java():
        with running_spark(tmp_path_factory.mktemp("warehouse")) as spark:
            yield request.param, on_spark(spark)
    else:
        pytest.skip(f"{request.param} is not installed")


@pytest.mark.thorough
@pytest.mark.parametrize("on_server", ["Postgres", "Spark"], indirect=True)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_engine_lets_it_pass(
    on_server: tuple[str, Door], case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, door = on_server
    if case.engine not in ("", name):
        pytest.skip(f"{case.engine} alone computes it so")
    _check(name, door, case, tmp_path, monkeypatch)


@pytest.mark.thorough
@pytest.mark.parametrize("on_server", ["Postgres", "Spark"], indirect=True)
@pytest.mark.parametrize("trial", range(3))
def test_other_engines_and_dialects_give_the_same_verdict(
    on_server: tuple[str, Door], trial: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawn plans, in the SQL of the engine."""
    name, door = on_server
    monkeypatch.setitem(fuzz_doors.ENGINES, name.lower(), door)
    count = Counter[str]()
    check_case(fuzz_doors.check, 44, trial, count)
    assert count[name.lower()] == 1
