"""The catalogue of plans that must not pass, through every door of an audit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import sightline as sl
from sightline.auditing import streamed_findings, work
from sightline.auditing.result import AuditResult, VerdictStatus
from sightline.cli import main
from sightline.errors import InvalidPlan
from sightline.tables.engines import duckdb_engine
from tests.auditing.no_false_pass.catalogue import CASES, FAILED, REFUSED, Case, Plan

Door = Callable[[Plan, pytest.MonkeyPatch], AuditResult]


def _in_memory(plan: Plan, patch: pytest.MonkeyPatch) -> AuditResult:
    return sl.audit(plan)


def _streamed(plan: Plan, patch: pytest.MonkeyPatch) -> AuditResult:
    patch.setattr(work, "_PER_SIGNATURE", 1e18)
    patch.setattr(streamed_findings, "MOST_KEPT", 5)
    patch.setattr(duckdb_engine, "BATCH", 7)
    result = sl.audit(plan)
    assert any("is streamed" in line for line in result.assumptions)
    return result


def _verdict_only(plan: Plan, patch: pytest.MonkeyPatch) -> AuditResult:
    return sl.audit(plan, verdict_only=True)


def _publishable(plan: Plan, patch: pytest.MonkeyPatch) -> AuditResult:
    """What a reader is given: it names no reason for the owner only, and does not pass either."""
    result = sl.audit(plan)
    assert result.publishable().verdict.passed is False
    return result


DOORS: dict[str, Door] = {
    "in memory": _in_memory,
    "streamed": _streamed,
    "verdict only": _verdict_only,
    "publishable": _publishable,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("door", DOORS)
def test_no_door_lets_it_pass(door: str, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = case.written(tmp_path)
    if case.reason == REFUSED:
        with pytest.raises(InvalidPlan) as refused:
            DOORS[door](plan, monkeypatch)
        assert case.words in str(refused.value)
        return
    result = DOORS[door](plan, monkeypatch)
    if case.reason == FAILED:
        assert result.verdict.status is VerdictStatus.FAILED
        return
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    assert {one.name.value for one in result.unverified if not one.accepted} == {case.reason}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_command_exits_with_no_pass(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = case.written(tmp_path)
    lines = [f"[data]\n{_toml(plan['data'])}", f"[limits]\n{_toml(plan['limits'])}"]
    lines += [f"[attacker]\n{_toml(plan['attacker'])}"] if "attacker" in plan else []
    lines += [f"[[release]]\n{_toml(one)}" for one in plan["release"]]
    (tmp_path / "plan.toml").write_text("\n".join(lines), encoding="utf-8")
    assert main(["audit", str(tmp_path / "plan.toml")]) == (1 if case.reason == REFUSED else 2)
    shown = capsys.readouterr()
    assert "PASSED" not in shown.out
    if case.reason == REFUSED:
        assert case.words in shown.err


def _toml(section: Plan) -> str:
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in section.items()) + "\n"
