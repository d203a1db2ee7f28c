"""A result, or the error that there is instead, in the format that a pipeline asks for."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from sightline.auditing.result import AuditResult
from sightline.format import json_text
from sightline.report.formats.github import workflow_commands
from sightline.report.formats.junit import junit
from sightline.report.formats.markdown import checked_markdown, result_markdown
from sightline.report.formats.plan_lines import PlanLines
from sightline.report.formats.problems import PlanProblems, problems_of, problems_of_check
from sightline.report.formats.sarif import sarif


class PipelineFormat(StrEnum):
    """A format that goes to logs and dashboards: it shows only what is publishable."""

    GITHUB = "github"
    JUNIT = "junit"
    SARIF = "sarif"
    MARKDOWN = "markdown"


def result_text(result: AuditResult, lines: PlanLines, chosen: PipelineFormat) -> str:
    """The publishable part of a result. Its verdict is passed only if the owner's is."""
    shown = result.publishable()
    if chosen is PipelineFormat.MARKDOWN:
        return result_markdown(shown, lines.file)
    return _text([problems_of(shown, lines)], chosen)


def checked_text(checked: Sequence[tuple[PlanLines, str | None]], chosen: PipelineFormat) -> str:
    """Plans that were checked, or could not be audited: each with the message of its error, or none."""
    return _text([problems_of_check(error, lines) for lines, error in checked], chosen)


def _text(reports: Sequence[PlanProblems], chosen: PipelineFormat) -> str:
    match chosen:
        case PipelineFormat.GITHUB:
            return workflow_commands(reports)
        case PipelineFormat.JUNIT:
            return junit(reports)
        case PipelineFormat.SARIF:
            return json_text(sarif(reports), ascii_only=True)
        case PipelineFormat.MARKDOWN:
            return checked_markdown(reports)
