"""Write the index page: every figure with the printed numbers, and the table of claims, in one file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files

from sightline.errors import MissingExtra
from sightline.format import power_of_ten
from sightline.paper.claim import ClaimVerdict
from sightline.paper.comparison import Comparison
from sightline.paper.figure_type import MadeFigure, Panel
from sightline.paper.store import file_stem
from sightline.report.style import live_charts, static_chart


def page_of(figures: Sequence[MadeFigure], *, fast: bool, seed: int) -> str:
    """Return the page as one HTML file that loads nothing else."""
    try:
        from jinja2 import Environment
    except ImportError:
        raise MissingExtra(
            'the page needs Jinja2, which is not installed; pip install "sightline[report]"'
        ) from None
    template = files("sightline.paper").joinpath("page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": power_of_ten, "stem": file_stem, "rows": _rows}
    claims = [claim for made in figures for claim in made.claims]
    charts = {
        _identifier(made.label, panel.name): panel.specification for made in figures for panel in made.panels
    }
    counts = Counter(claim.verdict for claim in claims)
    text: str = environment.from_string(template).render(
        figures=[made for made in figures if made.label != "claims"],
        still=_still,
        claims=claims,
        counts=[(verdict.value, counts[verdict]) for verdict in ClaimVerdict],
        fast=fast,
        seed=seed,
        version=version("sightline"),
        scripts=live_charts(charts),
    )
    return text


def _still(made: MadeFigure, panel: Panel) -> str:
    """The image of a panel, which the script replaces by a live chart."""
    return static_chart(
        panel.file.read_text(encoding="utf-8"),
        identifier=_identifier(made.label, panel.name),
        description=f"{made.label}, {panel.name}",
    )


def _rows(comparison: Comparison) -> list[tuple[str, str, str, float]]:
    """x, our number, the printed one with its interval, and the relative difference."""
    ours, printed = comparison.ours, comparison.published
    spread = printed.half_widths or (None,) * len(printed.y)
    return [
        (f"{x:g}", f"{a:.10g}", f"{b:.12g}" + (f" ± {w:.3g}" if w else ""), (a - b) / b)
        for x, a, b, w in zip(ours.x, ours.y, printed.y, spread, strict=True)
    ]


def _identifier(label: str, panel: str) -> str:
    return "chart-" + file_stem(f"{label} {panel}")
