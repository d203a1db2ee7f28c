"""Sections on demand: few assessments by default, the same numbers whenever a section is read."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import sightline as sl
from sightline.auditing import findings
from sightline.examples.shipped import example_plan

MOST_ASSESSMENTS = 4  # of a default audit of the shipped micro-grid
LATER = ("timeline", "alternatives", "releases", "what_to_change", "distribution")


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
    assert not set(LATER) & set(result.__dict__)
    before = len(assessments)
    assert result.exposed
    assert result.verdict.passed is False
    assert result.slack is not None
    assert result.reaching
    assert len(assessments) == before  # these are there
    assert len(result.timeline) == 8
    assert len(assessments) > before
    assert result.timeline is result.timeline


def test_sections_read_one_by_one_are_those_of_a_full_audit() -> None:
    plan = example_plan("microgrid")
    full, lazy = sl.audit(plan, names=True, full=True), sl.audit(plan, names=True)
    assert set(LATER) <= set(full.__dict__)
    for name in reversed(type(full).model_fields):
        assert getattr(lazy, name) == getattr(full, name), name
    assert lazy.to_json() == full.to_json()


@pytest.mark.thorough
def test_whatever_is_done_with_a_result_completes_it() -> None:
    plan = example_plan("microgrid")
    full = sl.audit(plan, full=True)
    assert sl.audit(plan) == full
    assert sl.AuditResult.from_json(sl.audit(plan).to_json()) == full
    assert pickle.loads(pickle.dumps(sl.audit(plan))) == full
    assert copy.deepcopy(sl.audit(plan)) == full
    assert sl.audit(plan).model_dump() == full.model_dump()
    assert sl.audit(plan).model_dump_json() == full.model_dump_json()
    assert list(sl.audit(plan).model_dump()) == list(sl.AuditResult.model_fields)


def test_a_publishable_result_computes_its_sections_without_what_is_the_owners() -> None:
    plan = example_plan("microgrid")
    lazy, full = sl.audit(plan, names=True).publishable(), sl.audit(plan, names=True, full=True).publishable()
    assert not {"releases", "timeline", "what_to_change"} & set(lazy.__dict__)
    assert all(release.accuracy is None for release in lazy.releases)
    assert lazy.to_json() == full.to_json()
    assert "H13" not in lazy.to_json()


def test_what_reaches_the_limit_is_part_of_what_to_change() -> None:
    result = sl.audit(example_plan("microgrid"))
    found = result.reaching
    assert all(change.reaches_limit for change in found)
    assert set(found) <= set(result.what_to_change)
    assert {change for change in result.what_to_change if change.reaches_limit} == set(result.reaching)


def test_a_name_that_is_no_section_is_an_error() -> None:
    result = sl.audit(example_plan("microgrid"))
    with pytest.raises(AttributeError):
        _ = result.timelines  # type: ignore[attr-defined]
