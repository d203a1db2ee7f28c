"""Every figure of an audit as files for print: SVG and PDF."""

from __future__ import annotations

from pathlib import Path

from sightline.auditing.result import AuditResult
from sightline.errors import InvalidInput
from sightline.report import style
from sightline.report.figures.catalogue import FIGURES
from sightline.report.files import check_new, write_new


def export_figures(result: AuditResult, folder: str | Path, *, force: bool = False) -> tuple[Path, ...]:
    """Write every figure that the result has data for, as SVG and as PDF; their paths, in the report's order.

    The folder is made if it is missing; existing files are only replaced if forced.
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or "it cannot be made").lower()
        raise InvalidInput(f"expected a folder for figures, got {str(place)!r}: {reason}") from None
    drawn = [figure for figure in FIGURES if figure.drawable(result)]
    paths = [place / f"{figure.name}{suffix}" for figure in drawn for suffix in (".svg", ".pdf")]
    for path in paths:
        check_new(path, force=force)
    for figure in drawn:
        chart = style.specification(figure.draw(result))
        write_new(place / f"{figure.name}.svg", style.svg(chart).encode(), force=force)
        write_new(place / f"{figure.name}.pdf", style.pdf(chart), force=force)
    return tuple(paths)
