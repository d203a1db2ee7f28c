"""The figures of an audit, in the order of the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sightline.auditing.result import AuditResult
from sightline.report.figures import accountants, distribution, loss_against_risk, release_map, timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFigure:
    """A figure of the report: its name and title, and the functions that draw and describe it."""

    name: str  # of its files, and its id in the page
    title: str
    draw: Callable[[AuditResult], Any]
    describe: Callable[[AuditResult], str]
    drawable: Callable[[AuditResult], bool]


FIGURES = tuple(
    ReportFigure(name=name, title=title, draw=part.draw, describe=part.describe, drawable=part.drawable)
    for name, title, part in (
        ("distribution", "How much uncertainty remains", distribution),
        ("release-map", "Which release exposes whom", release_map),
        ("timeline", "Exposure after each release", timeline),
        ("accountants", "The same plan under each accountant", accountants),
        ("loss-against-risk", "Privacy loss against reconstruction risk", loss_against_risk),
    )
)
