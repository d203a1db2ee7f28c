"""What changed since the last audit, and that nothing in the last result is trusted."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.auditing.result import Exposed
from sightline.cli import main
from sightline.errors import InvalidInput
from sightline.examples.shipped import example_plan
from sightline.jobs.audit import read_result
from sightline.report.comparison import compared, with_comparison
from sightline.report.page import report_html


@pytest.fixture(scope="module")
def now() -> sl.AuditResult:
    return sl.audit(example_plan("microgrid"), names=True, full=True)


def changed(result: sl.AuditResult, **parts: Any) -> sl.AuditResult:
    content = {**json.loads(result.to_json()), **parts}
    return sl.AuditResult.from_json(json.dumps(content))


def below(one: Exposed) -> bool:
    assert one.remaining_uncertainty is not None
    return one.remaining_uncertainty.lower < 0.5


def test_the_same_audit_changes_nothing(now: sl.AuditResult) -> None:
    since = compared(now, now)
    assert since.comparable
    assert since.lines == since.newly_below == since.no_longer_below == ()


@pytest.mark.slow
def test_less_noise_and_another_release_are_told(now: sl.AuditResult) -> None:
    text = example_plan("microgrid").read_text().replace("noise_stddev = 10.0", "noise_stddev = 60.0")
    content = text.replace('source = "homes.csv"', f'source = "{example_plan("microgrid").parent}/homes.csv"')
    plan = tomllib.loads(content)
    del plan["release"][-1]
    last = sl.audit(plan, names=True, full=True)
    since = compared(now, last)
    newly, before = ({one.record for one in result.exposed if below(one)} for result in (now, last))
    newly -= before
    assert set(since.newly_below) == newly != set()
    assert since.no_longer_below == ()
    lines = "\n".join(since.lines)
    more = now.verdict.below_limit - last.verdict.below_limit
    assert f"{now.verdict.below_limit} records, {more} more than before" in lines
    assert 'added: "by tariff"' in lines
    assert '"January" (60 → 10)' in lines
    assert f"below the limit: 9 records, {9 - last.verdict.below_limit} more than before" in lines
    assert "epsilon of all noise under gaussian-dp: 2,248, before " in lines
    assert "the most exposed record keeps 4–7 % of the variance (21–26 % of the standard deviation" in lines
    back = compared(last, now)
    assert set(back.no_longer_below) == newly
    assert 'removed: "by tariff"' in back.lines


def test_another_question_is_told_apart(now: sl.AuditResult) -> None:
    since = compared(now, changed(now, secret="morning_watts", bounds=[0, 1000]))
    assert not since.comparable
    assert "the secret is another: morning_watts before, evening_watts now" in since.lines
    assert any(line.startswith("what the secret can be is another") for line in since.lines)


def test_other_sql_under_the_same_name(now: sl.AuditResult) -> None:
    last = changed(now, publishable_plan=now.publishable_plan.replace("2016-03", "2016-02"))  # type: ignore[union-attr]
    assert compared(now, last).lines == ('other SQL: "March"',)
    assert compared(now, changed(now, publishable_plan="= no TOML")).lines == ()


def test_a_list_that_was_cut_names_nobody(now: sl.AuditResult) -> None:
    last = changed(now, exposed=json.loads(now.to_json())["exposed"][:2])
    assert compared(now, last).newly_below == ()


@pytest.mark.slow
def test_what_may_be_published_names_nobody(now: sl.AuditResult) -> None:
    content = json.loads(now.to_json())
    last = changed(now, exposed=[], exposed_in_all=0, verdict={**content["verdict"], "below_limit": 0})
    result = with_comparison(now, last)
    assert result.since is not None
    assert "H13" in result.since.newly_below
    public = result.publishable()
    assert public.since is not None
    assert public.since.newly_below == ()
    assert "H13" not in public.to_json()
    page = report_html(result, publishable=True)
    assert "Since the last audit" in page
    assert "Newly below the limit" not in page


@pytest.mark.parametrize(
    "parts",
    [
        {"least_remaining_uncertainty": {"lower": float("nan"), "upper": 1.0}},
        {"least_remaining_uncertainty": {"lower": 0.9, "upper": 0.1}},
        {"records": -5},
        {"bounds": [0, float("inf")]},
    ],
)
def test_numbers_that_no_audit_writes_are_refused(now: sl.AuditResult, parts: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="numbers that no audit writes"):
        compared(now, changed(now, **parts))


@pytest.mark.slow
def test_a_hostile_file_is_shown_as_text(
    now: sl.AuditResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(now.to_json())
    content["releases"][0]["name"] = "\x1b[31m[bold]x\x07\u202e<script>alert(1)</script>"
    path = tmp_path / "last.json"
    path.write_text(json.dumps(content))
    page = tmp_path / "page.html"
    arguments = ["audit", str(example_plan("microgrid")), "--against", str(path), "--html", str(page)]
    assert main([*arguments, "--names"]) == 2
    printed = capsys.readouterr().out
    assert "removed:" in printed
    assert "[bold]x" in printed
    assert not set(printed) & set("\x1b\x07\u202e")
    assert "<script>alert" not in page.read_text()
    assert "Newly below the limit" not in page.read_text(), "the same are below"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "an audit result in JSON, got something else"),
        ('{"schema_version": 2, "\\u001b[31m": 1}', "expected an audit result, got"),
    ],
)
def test_what_is_no_result_is_one_line(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "last.json"
    path.write_text(text)
    assert main(["audit", str(example_plan("microgrid")), "--against", str(path)]) == 1
    captured = capsys.readouterr()
    assert words in captured.err
    assert "\x1b" not in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == "", "refused before the audit"


def test_a_file_that_is_missing_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="no such file"):
        read_result(tmp_path / "none.json")
    monkeypatch.setattr("sightline.jobs.audit.LARGEST_FILE", 10)
    (tmp_path / "large.json").write_text("{" * 11)
    with pytest.raises(InvalidInput, match="the result of an audit of at most 10 bytes, got more"):
        read_result(tmp_path / "large.json")
