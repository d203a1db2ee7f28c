"""The figures of an audit and of a design, in the order of their pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sightline.auditing.result import AuditResult
from sightline.designing.result import DesignResult
from sightline.report.figures import (
    accountants,
    before_after,
    distribution,
    loss_against_risk,
    noise_by_release,
    prices,
    release_map,
    timeline,
    trade_off,
)

Result = TypeVar("Result", AuditResult, DesignResult)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFigure(Generic[Result]):
    """A figure of a page: its name and title, and the functions that draw and describe it."""

    name: str  # of its files, and its id in the page
    title: str
    draw: Callable[[Result], Any]
    describe: Callable[[Result], str]
    drawable: Callable[[Result], bool]


FIGURES: tuple[ReportFigure[AuditResult], ...] = tuple(
    ReportFigure(name=name, title=title, draw=part.draw, describe=part.describe, drawable=part.drawable)
    for name, title, part in (
        ("before-after", "What an attacker knows before and after", before_after),
        ("distribution", "How much uncertainty remains", distribution),
        ("release-map", "Which release exposes whom", release_map),
        ("timeline", "Exposure after each release", timeline),
        ("accountants", "The same plan under each accountant", accountants),
        ("loss-against-risk", "Privacy loss against reconstruction risk", loss_against_risk),
    )
)

DESIGN_FIGURES: tuple[ReportFigure[DesignResult], ...] = tuple(
    ReportFigure(name=name, title=title, draw=part.draw, describe=part.describe, drawable=part.drawable)
    for name, title, part in (
        ("noise-by-release", "Noise before and after", noise_by_release),
        ("trade-off", "What each limit costs", trade_off),
        ("prices", "What the added noise is for", prices),
    )
)
