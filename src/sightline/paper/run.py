"""Compute the figures that the folder lacks, draw and compare them, and write the index page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from sightline.errors import require
from sightline.paper.comparison import joint_test
from sightline.paper.figure_type import Figure, MadeFigure, Panel
from sightline.paper.figures import LABELS, figure
from sightline.paper.page import page_of
from sightline.paper.store import as_json, file_stem, key, read_result, writable_folder, write_whole
from sightline.progress import Progress, reporting, silent
from sightline.report.style import altair, specification, svg


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regenerated:
    """The figures of a run, and the page that shows them and those of earlier runs."""

    made: tuple[MadeFigure, ...]
    page: Path


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Task:
    """A figure to make in a folder, with its parameters."""

    label: str
    figure: Figure
    folder: Path
    parameters: Any

    @property
    def key(self) -> str:
        return key(self.label, self.parameters)

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
        parameters = labelled.parameters(fast=fast, seed=seed)
        return _Task(label=label, figure=labelled, folder=folder, parameters=parameters)

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
            result = task.figure.compute(task.parameters)
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
        "parameters": to_jsonable_python(task.parameters),
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
