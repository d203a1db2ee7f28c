"""Compute figures of the paper, draw and compare them, and write a page.

Each file is written whole or not at all. The page has every figure of the run with the printed numbers, and
the table of claims, in one file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from pydantic_core import to_jsonable_python

from sightline.errors import InvalidInput, MissingExtra, require
from sightline.format import power_of_ten
from sightline.progress import Progress, reporting, silent
from sightline.report.files import write_new
from sightline.report.style import altair, live_charts, specification, static_chart, svg
from sightline.theory.paper.comparison import (
    ClaimVerdict,
    Comparison,
    Effort,
    Figure,
    MadeFigure,
    Panel,
    joint_test,
)

# Label -> its module, and how many random cases a whole run and a fast one draw. In the order of the paper;
# then figures that it mentions and does not show, and figures that go beyond it.
_FIGURES = {
    "tab:adjacency": ("labeled_figures", 0, 0),
    "tab:accountant_scaling_main": ("accountants", 0, 0),
    "fig:inout": ("labeled_figures", 10_000, 2_000),
    "fig:poly_synth": ("moment_figures", 0, 0),
    "fig:realdata": ("realdata", 24, 24),  # pairs of loads in each bin
    "fig:threshold": ("threshold_figures", 2_000, 300),
    "fig:mle": ("mle", 40_000, 1_000),  # the paper has 5,000: our error is smaller than its
    "fig:app_mle_vs_L": ("mle", 20_000, 500),
    "diag:boundary": ("sweeps", 20_000, 1_000),
    "diag:releases": ("sweeps", 10_000, 300),
    "diag:bottleneck": ("moment_figures", 0, 0),
    "diag:compact": ("threshold_figures", 2_000, 300),
    "diag:calibration": ("accountants", 0, 0),
    "diag:bounds": ("moment_figures", 200, 20),
    "beyond:hybrid": ("hybrid_allocation", 1_000, 40),
    "claims": ("statements", 200, 40),
}
LABELS = tuple(_FIGURES)


def figure(label: str) -> Figure:
    """Return the figure with a label of the paper.

    >>> figure("fig:poly_synth").title
    'Polynomial-moment bound under basic composition'
    >>> figure("fig:pol")
    Traceback (most recent call last):
        ...
    sightline.errors.InvalidInput: expected a figure or table of the paper, got 'fig:pol'; known: \
tab:adjacency, tab:accountant_scaling_main, fig:inout, fig:poly_synth, fig:realdata, fig:threshold, fig:mle, \
fig:app_mle_vs_L, diag:boundary, diag:releases, diag:bottleneck, diag:compact, diag:calibration, \
diag:bounds, beyond:hybrid, claims
    """
    if label not in _FIGURES:
        raise InvalidInput(
            f"expected a figure or table of the paper, got {label!r}; known: {', '.join(LABELS)}"
        )
    module, full, fast = _FIGURES[label]
    drawn: Figure = import_module(f"sightline.theory.paper.{module}").FIGURES[label]
    return replace(drawn, full=Effort(trials=full), fast=Effort(trials=fast))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regenerated:
    """The figures of a run, and the page that shows them."""

    made: tuple[MadeFigure, ...]
    page: Path

    def lines(self) -> list[str]:
        """A line for each figure, the number of claims that hold, those that fail, and the page."""
        width = max(len(made.label) for made in self.made)
        summary = [f"{made.label:<{width}}  {_state(made)}" for made in self.made]
        verdicts = Counter(claim.verdict for made in self.made for claim in made.claims)
        if verdicts:
            counts = ", ".join(
                f"{verdicts[verdict]} {verdict.value}" for verdict in ClaimVerdict if verdicts[verdict]
            )
            summary.append(f"claims: {counts}")
        for made in self.made:
            summary += [
                f"does not hold: {claim.label}: {claim.says}"
                for claim in made.claims
                if claim.verdict is ClaimVerdict.FAILS
            ]
        summary.append(f"open {self.page}")
        return summary

    def document(self) -> dict[str, Any]:
        """The numbers of the run, for JSON."""
        return {"page": str(self.page), "figures": [made.document for made in self.made]}


def regenerate(
    labels: Sequence[str] = (),
    *,
    out: Path,
    fast: bool = False,
    seed: int = 0,
    progress: Progress = silent,
) -> Regenerated:
    """Make the named figures, or all of them, in the folder ``out``.

    Each file is written whole, and a figure's JSON last. ``progress`` is called with a figure's label and the
    share of it that is done.
    """
    chosen = {label: figure(label) for label in dict.fromkeys(labels) or LABELS}
    require(seed >= 0, "a seed >= 0", got=seed)
    altair()  # refuse a missing extra before any work
    folder, made = writable_folder(out), []
    for label, labelled in chosen.items():
        made.append(_make(label, labelled, labelled.effort(fast=fast, seed=seed), folder, progress))
    page = folder / "paper.html"
    ordered = sorted(made, key=lambda one: LABELS.index(one.label))
    write_whole(page, page_of(ordered, fast=fast, seed=seed))
    return Regenerated(made=tuple(made), page=page)


def _make(label: str, labelled: Figure, effort: Effort, folder: Path, progress: Progress) -> MadeFigure:
    """Compute a figure, and write its panels and its numbers."""
    progress(label, 0.0)

    def under(stage: str, share: float) -> None:
        if stage == "computing":  # the figure's own loop, not what it calls
            progress(label, share)

    with reporting(under):
        result = labelled.compute(effort)
    comparisons, claims = labelled.compare(result), labelled.claims(result)
    agreement = joint_test(comparisons)
    document = {
        "label": label,
        "title": labelled.title,
        "effort": to_jsonable_python(effort),
        "comparison": [
            {
                "panel": comparison.panel,
                "curve": comparison.ours.name,
                "points": len(comparison.ours.x),
                "largest_relative_difference": comparison.largest_relative_difference,
            }
            for comparison in comparisons
        ],
        "joint_test": None
        if agreement is None
        else {**to_jsonable_python(agreement), "passes": agreement.passes},
        "claims": to_jsonable_python(claims),
        "result": to_jsonable_python(result),
    }
    panels = tuple(
        Panel(
            name=name,
            file=folder / f"{file_stem(f'{label} {name}')}.svg",
            specification=specification(chart),
        )
        for name, chart in labelled.draw(result).items()
    )
    for panel in panels:
        write_whole(panel.file, svg(panel.specification))
    write_whole(folder / f"{file_stem(label)}.json", as_json(document))
    progress(label, 1.0)
    return MadeFigure(
        label=label,
        figure=labelled,
        document=document,
        result=result,
        panels=panels,
        comparisons=comparisons,
        agreement=agreement,
        claims=claims,
    )


def file_stem(label: str) -> str:
    """Return the name of a figure's files, without the ending.

    >>> file_stem("fig:app_mle_vs_L"), file_stem("fig:mle: top, analytic")
    ('fig-app_mle_vs_L', 'fig-mle-top-analytic')
    """
    words = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter == "_") else " " for letter in label
    )
    return "-".join(words.split())


def as_json(value: Any) -> str:
    """Write JSON: equal bytes for equal values, and no NaN or infinity."""
    return json.dumps(to_jsonable_python(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def writable_folder(path: Path) -> Path:
    """Make the folder and return it; ``InvalidInput`` if it cannot be written."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path, prefix=".sightline-"):
            pass
    except OSError as error:
        raise InvalidInput(
            f"expected a folder that can be written, got {str(path)!r} ({error.strerror}); give another with "
            "--out"
        ) from None
    return path


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    write_new(path, text.encode("utf-8"), force=True)


def page_of(figures: Sequence[MadeFigure], *, fast: bool, seed: int) -> str:
    """Return the page as one HTML file that loads nothing else."""
    try:
        from jinja2 import Environment
    except ImportError:
        raise MissingExtra(
            'the page needs Jinja2, which is not installed; pip install "sightline[report]"'
        ) from None
    template = files("sightline.theory.paper").joinpath("page.html").read_text(encoding="utf-8")
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


def _state(made: MadeFigure) -> str:
    parts = ["computed"]
    if made.largest_relative_difference is not None:
        parts.append(f"within {power_of_ten(made.largest_relative_difference)} of the printed curves")
    if made.agreement is not None:
        parts.append(str(made.agreement))
    return "; ".join(parts)
