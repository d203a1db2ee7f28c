"""SARIF 2.1.0, the format of code scanners: each problem at the line of its release in the plan."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from sightline.report.formats.problems import PlanProblems, Problem, Rule

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_RULES = list(Rule)


def sarif(reports: Sequence[PlanProblems]) -> dict[str, Any]:
    """A log with one run, and a result for each problem."""
    rules = [{"id": rule.value, "shortDescription": {"text": rule.meaning}} for rule in _RULES]
    failed = any(one.rule is Rule.NOT_AUDITED for report in reports for one in report.problems)
    run = {
        "tool": {"driver": {"name": "Sightline", "version": version("sightline"), "rules": rules}},
        "invocations": [{"executionSuccessful": not failed}],
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, report.file) for report in reports for one in report.problems],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(one: Problem, file: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": one.rule.value,
        "ruleIndex": _RULES.index(one.rule),
        "level": one.level.value,
        "message": {"text": one.text},
        "locations": [_location(file, one.line)],
    }
    if one.other_lines:
        result["relatedLocations"] = [
            {"id": place, **_location(file, line)} for place, line in enumerate(one.other_lines, start=1)
        ]
    return result


def _location(file: str, line: int) -> dict[str, Any]:
    artifact = {"uri": quote(file.encode("utf-8", "replace")), "uriBaseId": "%SRCROOT%"}
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line}}}
