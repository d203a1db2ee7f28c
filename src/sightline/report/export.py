"""Write the figures of an audit as files for print: SVG and PDF."""

from __future__ import annotations

from pathlib import Path

from sightline.auditing.result import AuditResult
from sightline.report import style
from sightline.report.figures.catalogue import FIGURES
from sightline.report.files import check_new, make_folder, write_new


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
        chart = style.specification(figure.draw(result))
        for suffix, content in ((".svg", style.svg(chart).encode()), (".pdf", style.pdf(chart))):
            path = place / f"{figure.name}{suffix}"
            write_new(path, content, force=force, owner_only=bool(result.owner_only))
    return tuple(paths)
