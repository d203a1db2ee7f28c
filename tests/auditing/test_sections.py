"""Sections of an audit: few assessments by default, the same numbers whenever a section is asked for."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.auditing import findings
from sightline.errors import InvalidInput, InvalidPlan
from sightline.examples.shipped import example_plan
from sightline.jobs.assemble import Depth
from sightline.report.first_screen import tried_line

MOST_ASSESSMENTS = 5  # of a default audit of the shipped micro-grid: one of them is of merged groups
LATER = ("timeline", "alternatives", "rank")
# What a result says of a section that was not asked for whole.
PARTS = ("what_to_change: designed noise", "releases: newly_exposes, exposes_alone, accuracy")


@pytest.fixture
def assessments(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each design that is assessed."""
    assess, seen = findings.assess, []

    def counted(linear: Any, *arguments: Any, **options: Any) -> Any:
        seen.append(linear.units.numbers)
        return assess(linear, *arguments, **options)

    monkeypatch.setattr(findings, "assess", counted)
    return seen


def test_a_default_audit_assesses_few_designs(assessments: list[int]) -> None:
    result = sl.audit(example_plan("microgrid"), names=True)
    assert 1 <= len(assessments) <= MOST_ASSESSMENTS
    assert {*LATER, *PARTS} <= set(result.not_computed)
    assert not result.timeline
    assert not result.alternatives
    assert result.exposed
    assert result.verdict.passed is False
    assert result.slack is not None
    assert result.reaching


def test_reading_a_result_assesses_nothing(assessments: list[int]) -> None:
    result = sl.audit(example_plan("microgrid"), names=True)
    before = len(assessments)
    for name in type(result).model_fields:
        getattr(result, name)
    assert result.to_json() == result.publishable().to_json() or "H13" in result.to_json()
    assert len(assessments) == before


def test_an_open_audit_computes_a_section_once_when_it_is_asked(assessments: list[int]) -> None:
    audited = sl.open_audit(example_plan("microgrid"), names=True)
    before = len(assessments)
    assert audited.verdict().passed is False
    assert len(assessments) == before
    assert len(audited.timeline()) == 8
    after = len(assessments)
    assert after > before
    assert audited.timeline() is audited.timeline()
    assert audited.result().timeline is audited.timeline()
    result = audited.result()
    assert "an open audit has closed its table" in tried_line(result)
    assert result == sl.audit(example_plan("microgrid"), names=True, full=True).model_copy(
        update={"plan_name": "", "table_digest": audited.table_digest(), "tried": result.tried}
    )


def test_an_open_audit_is_one_line_without_a_key(assessments: list[int]) -> None:
    audited = sl.open_audit(example_plan("microgrid"), names=True)
    before = len(assessments)
    assert repr(audited) == f"<OpenAudit of {audited.facts['source']!r}: {audited.facts['records']} records>"
    assert str(audited) == repr(audited)
    assert not re.search(r"H\d", repr(audited))
    assert not hasattr(audited, "_repr_html_")
    assert len(assessments) == before


@pytest.mark.parametrize("depth", ["timeline", 2, "x" * 500])
def test_a_depth_that_is_none_is_refused(depth: object) -> None:
    audited = sl.open_audit(example_plan("microgrid"))
    with pytest.raises(InvalidInput, match=r"^expected a Depth of .*, got .{1,60}; result\(\) has"):
        audited.result(depth)  # type: ignore[arg-type]


def test_every_depth_has_the_numbers_of_the_whole() -> None:
    audited = sl.open_audit(example_plan("microgrid"), names=True)
    whole = audited.result()
    assert whole.not_computed == ()
    for depth in Depth:
        result = audited.result(depth)
        own = {*result.not_computed, "not_computed", "what_to_change", "releases"}
        for name in set(type(whole).model_fields) - own:
            assert getattr(result, name) == getattr(whole, name), (depth, name)
    verdict, screen = audited.result(Depth.VERDICT), audited.result(Depth.FIRST_SCREEN)
    assert not verdict.what_to_change
    assert set(screen.what_to_change) <= set(whole.what_to_change)
    for part, one in zip(screen.releases, whole.releases, strict=True):
        effects = {"newly_exposes": None, "exposes_alone": None, "accuracy": None}
        assert part == one.model_copy(update=effects)


def test_a_result_is_a_plain_value() -> None:
    result = sl.audit(example_plan("microgrid"), names=True)
    assert sl.AuditResult.from_json(result.to_json()) == result
    assert pickle.loads(pickle.dumps(result)) == result
    assert copy.deepcopy(result) == result
    assert list(result.model_dump()) == list(sl.AuditResult.model_fields)
    with pytest.raises(AttributeError):
        _ = result.timelines  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="frozen"):
        result.timeline = ()


def test_a_publishable_result_is_without_what_is_the_owners() -> None:
    full = sl.audit(example_plan("microgrid"), names=True, full=True).publishable()
    assert all(release.accuracy is None for release in full.releases)
    assert "H13" not in full.to_json()


def test_what_reaches_the_limit_is_part_of_what_to_change() -> None:
    result = sl.audit(example_plan("microgrid"), full=True)
    assert set(result.reaching) == {change for change in result.what_to_change if change.reaches_limit}
    assert set(sl.audit(example_plan("microgrid")).reaching) <= set(result.reaching)


def test_a_plan_about_several_secrets_has_no_open_audit(tmp_path: Path) -> None:
    with pytest.raises(InvalidPlan, match="a plan about one secret"):
        sl.open_audit(example_plan("salaries"))
    with pytest.raises(InvalidInput, match="top >= 1"):
        sl.open_audit(example_plan("microgrid"), top=0)
