"""The figures of an audit and of a design, in the order of their pages; and as files for print."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from sightline.auditing.result import AuditResult
from sightline.designing.result import DesignResult
from sightline.report import style
from sightline.report.figures import budget, design, exposed, releases
from sightline.report.files import check_new, make_folder, write_new

Result = TypeVar("Result", AuditResult, DesignResult)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFigure(Generic[Result]):
    """A figure of a page: its name and title, and the functions that draw and describe it."""

    name: str  # of its files, and its id in the page
    title: str
    draw: Callable[[Result], Any]
    describe: Callable[[Result], str]
    drawable: Callable[[Result], bool]


FIGURES: tuple[ReportFigure[AuditResult], ...] = (
    ReportFigure(
        name="before-after",
        title="What an attacker knows before and after",
        draw=exposed.draw_before_after,
        describe=exposed.describe_before_after,
        drawable=lambda result: result.sharpest is not None,
    ),
    ReportFigure(
        name="distribution",
        title="How much uncertainty remains",
        draw=exposed.draw_distribution,
        describe=exposed.describe_distribution,
        drawable=lambda result: any(result.distribution.records),
    ),
    ReportFigure(
        name="release-map",
        title="Which release exposes whom",
        draw=releases.draw_map,
        describe=releases.describe_map,
        drawable=lambda result: bool(result.release_map and result.releases),
    ),
    ReportFigure(
        name="timeline",
        title="Exposure after each release",
        draw=releases.draw_timeline,
        describe=releases.describe_timeline,
        drawable=lambda result: bool(result.timeline),
    ),
    ReportFigure(
        name="accountants",
        title="The same plan under each accountant",
        draw=budget.draw_accountants,
        describe=budget.describe_accountants,
        drawable=budget.accountants_drawable,
    ),
    ReportFigure(
        name="loss-against-risk",
        title="Privacy loss against reconstruction risk",
        draw=budget.draw_losses,
        describe=budget.describe_losses,
        drawable=lambda result: bool(result.losses),
    ),
)

DESIGN_FIGURES: tuple[ReportFigure[DesignResult], ...] = (
    ReportFigure(
        name="noise-by-release",
        title="Noise before and after",
        draw=design.draw_noise,
        describe=design.describe_noise,
        drawable=lambda result: bool(result.noise),
    ),
    ReportFigure(
        name="prices",
        title="What the added noise is for",
        draw=design.draw_prices,
        describe=design.describe_prices,
        drawable=lambda result: bool(result.attacks),
    ),
)


def export_figures(result: AuditResult, folder: str | Path, *, force: bool = False) -> tuple[Path, ...]:
    """Write every figure that the result has data for, as SVG and as PDF; return their paths in order.

    The folder is made if it is missing. An existing file is replaced only if forced. If the result contains
    something for the table's owner only, only the owner of the files can read them.
    """
    place = Path(folder)
    make_folder(place)
    drawn = [figure for figure in FIGURES if figure.drawable(result)]
    paths = [place / f"{figure.name}{suffix}" for figure in drawn for suffix in (".svg", ".pdf")]
    for path in paths:
        check_new(path, force=force)
    for figure in drawn:
        chart = style.for_print(style.specification(figure.draw(result)))
        for suffix, content in ((".svg", style.svg(chart).encode()), (".pdf", style.pdf(chart))):
            path = place / f"{figure.name}{suffix}"
            write_new(path, content, force=force, owner_only=bool(result.owner_only))
    return tuple(paths)
