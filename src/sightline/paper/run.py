"""Compute the figures that the folder lacks, draw and compare them, and write the index page.

Finished figures are stored under a key of their inputs; each file is written whole or not at all. The page
has every figure with the printed numbers, and the table of claims, in one file.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from pydantic_core import to_jsonable_python

from sightline.errors import InvalidInput, MissingExtra, require
from sightline.format import power_of_ten
from sightline.paper.comparison import ClaimVerdict, Comparison, Effort, Figure, MadeFigure, Panel, joint_test
from sightline.progress import Progress, reporting, silent
from sightline.report.files import write_new
from sightline.report.style import altair, live_charts, specification, static_chart, svg

# Label -> its module, in the order of the paper; then figures that it mentions and does not show, and
# figures that go beyond it.
_MODULES = {
    "tab:adjacency": "labeled_figures",
    "tab:accountant_scaling_main": "accountants",
    "fig:inout": "labeled_figures",
    "fig:poly_synth": "moment_figures",
    "fig:realdata": "realdata",
    "fig:threshold": "threshold_figures",
    "fig:mle": "mle",
    "fig:app_mle_vs_L": "mle",
    "diag:boundary": "sweeps",
    "diag:releases": "sweeps",
    "diag:bottleneck": "moment_figures",
    "diag:compact": "threshold_figures",
    "diag:calibration": "accountants",
    "diag:bounds": "moment_figures",
    "beyond:hybrid": "hybrid_allocation",
    "claims": "statements",
}
LABELS = tuple(_MODULES)


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
    module = _MODULES.get(label)
    if module is None:
        raise InvalidInput(
            f"expected a figure or table of the paper, got {label!r}; known: {', '.join(LABELS)}"
        )
    found: Figure = import_module(f"sightline.paper.{module}").FIGURES[label]
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regenerated:
    """The figures of a run, and the page that shows them and those of earlier runs."""

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Task:
    """A figure to make in a folder."""

    label: str
    figure: Figure
    folder: Path
    effort: Effort

    @property
    def key(self) -> str:
        """Hash the inputs of the result: its label, its effort and the code of the package."""
        text = as_json({"label": self.label, "effort": self.effort, "code": _code()})
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def file(self) -> Path:
        return self.folder / f"{file_stem(self.label)}.json"

    def stored(self) -> Any | None:
        """Read the result of an earlier run with the same code and parameters; ``None`` if there is none."""
        return read_result(self.file, key=self.key, result=self.figure.result)


def regenerate(
    labels: Sequence[str] = (),
    *,
    out: Path,
    fast: bool = False,
    seed: int = 0,
    progress: Progress = silent,
) -> Regenerated:
    """Make the named figures, or all of them, in the folder ``out``.

    A figure that the folder has with the same code and parameters is not computed again. Each file is
    written whole, and a figure's JSON last, so a second run continues an interrupted one. ``progress`` is
    called with a figure's label and the share of it that is done.
    """
    chosen = tuple(dict.fromkeys(labels)) or LABELS
    for label in chosen:
        figure(label)  # refuse an unknown label before any work
    require(seed >= 0, "a seed >= 0", got=seed)
    altair()  # refuse a missing extra before any work
    folder = writable_folder(out)

    def task(label: str) -> _Task:
        labelled = figure(label)
        return _Task(
            label=label, figure=labelled, folder=folder, effort=labelled.effort(fast=fast, seed=seed)
        )

    made = tuple(_make(task(label), progress) for label in chosen)
    others = [_stored(task(label)) for label in LABELS if label not in chosen]
    shown = {finished.label: finished for finished in (*made, *others) if finished is not None}
    page = folder / "paper.html"
    write_whole(page, page_of([shown[label] for label in LABELS if label in shown], fast=fast, seed=seed))
    return Regenerated(made=made, page=page)


def _make(task: _Task, progress: Progress) -> MadeFigure:
    result = task.stored()
    computed = result is None
    if result is None:
        progress(task.label, 0.0)

        def under(stage: str, share: float) -> None:
            if stage == "computing":  # the figure's own loop, not what it calls
                progress(task.label, share)

        with reporting(under):
            result = task.figure.compute(task.effort)
    made = _made_figure(task, result, computed=computed)
    for panel in made.panels:
        if computed or not panel.file.exists():
            write_whole(panel.file, svg(panel.specification))
    if computed:
        write_whole(task.file, as_json(made.document))
    progress(task.label, 1.0)
    return made


def _stored(task: _Task) -> MadeFigure | None:
    """Read a figure that an earlier run finished; ``None`` unless all its files exist."""
    if not task.file.exists():
        return None
    result = task.stored()
    if result is None:
        return None
    made = _made_figure(task, result, computed=False)
    return made if all(panel.file.exists() for panel in made.panels) else None


def _made_figure(task: _Task, result: Any, *, computed: bool) -> MadeFigure:
    label, labelled = task.label, task.figure
    comparisons = labelled.compare(result)
    claims = labelled.claims(result)
    agreement = joint_test(comparisons)
    document = {
        "label": label,
        "title": labelled.title,
        "key": task.key,
        "effort": to_jsonable_python(task.effort),
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
            file=task.folder / f"{file_stem(f'{label} {name}')}.svg",
            specification=specification(chart),
        )
        for name, chart in labelled.draw(result).items()
    )
    return MadeFigure(
        label=label,
        figure=labelled,
        document=document,
        result=result,
        panels=panels,
        comparisons=comparisons,
        agreement=agreement,
        claims=claims,
        computed=computed,
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


def read_result(path: Path, *, key: str, result: type[Any]) -> Any | None:
    """Read the result in a figure's file; ``None`` if it was not computed from the inputs of ``key``."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(document, dict) or document.get("key") != key:
        return None
    from pydantic import TypeAdapter

    return TypeAdapter(result).validate_python(document["result"])


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


@cache
def _code() -> str:
    """Hash every module and data file of the package."""
    digest = hashlib.sha256()
    for name, content in sorted(_contents(files("sightline"), "")):
        digest.update(name.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()


def _contents(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    contents = []
    for entry in folder.iterdir():
        if entry.is_dir():
            if entry.name != "__pycache__":
                contents += _contents(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith((".py", ".json", ".csv")):
            contents.append((prefix + entry.name, entry.read_bytes()))
    return contents


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


def _state(made: MadeFigure) -> str:
    parts = ["computed" if made.computed else "found"]
    if made.largest_relative_difference is not None:
        parts.append(f"within {power_of_ten(made.largest_relative_difference)} of the printed curves")
    if made.agreement is not None:
        parts.append(str(made.agreement))
    return "; ".join(parts)
