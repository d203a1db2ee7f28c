"""Make the figures: compute what is not there yet, draw, compare, and write the index page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.errors import require
from sightline.paper.claim import Claim
from sightline.paper.comparison import Comparison, JointTest, joint_test
from sightline.paper.figure import LABELS, Figure, figure
from sightline.paper.store import (
    as_json,
    file_stem,
    key,
    plain,
    read_result,
    writable_folder,
    write_whole,
)
from sightline.report.style import altair, specification, svg

# Called with a figure's label and the share of it that is done.
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Panel:
    """A drawn panel: its specification, and the drawing in a file of the folder."""

    name: str
    file: Path
    specification: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Made:
    """A figure with everything there is to say about it."""

    label: str
    figure: Figure[Any, Any]
    document: dict[str, Any]  # what the JSON file holds
    result: Any
    panels: tuple[Panel, ...]
    comparisons: tuple[Comparison, ...]
    agreement: JointTest | None
    claims: tuple[Claim, ...]
    computed: bool  # now, and not found from an earlier run

    @property
    def largest_relative_difference(self) -> float | None:
        """Over all printed curves without intervals; ``None`` if there are none."""
        exact = [c.largest_relative_difference for c in self.comparisons if not c.random]
        return max(exact) if exact else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regenerated:
    """What a run has made, and the page that shows it with what earlier runs left in the folder."""

    made: tuple[Made, ...]
    page: Path


def regenerate(
    labels: Sequence[str] = (),
    *,
    out: Path,
    fast: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Regenerated:
    """Make the named figures, or all of them, in a folder.

    A figure whose file is there with the same parameters is not computed again. Files appear whole, the
    figure's JSON last, so an interrupted run can be taken up where it stopped.
    """
    chosen = tuple(dict.fromkeys(labels)) or LABELS
    found = {label: figure(label) for label in chosen}  # an unknown one is refused before anything is done
    require(seed >= 0, "a seed >= 0", got=seed)
    altair()  # so is a missing extra
    folder = writable_folder(out)
    tell = progress or _silent
    made = tuple(_make(label, found[label], folder, fast=fast, seed=seed, tell=tell) for label in chosen)
    others = [_found(label, folder, fast=fast, seed=seed) for label in LABELS if label not in found]
    shown = {one.label: one for one in (*made, *others) if one is not None}
    page = folder / "paper.html"
    from sightline.paper.page import page_of

    write_whole(page, page_of([shown[label] for label in LABELS if label in shown], fast=fast, seed=seed))
    return Regenerated(made=made, page=page)


def _make(label: str, one: Figure[Any, Any], folder: Path, *, fast: bool, seed: int, tell: Progress) -> Made:
    parameters = one.parameters(fast=fast, seed=seed)
    identity = key(label, parameters)
    path = folder / f"{file_stem(label)}.json"
    result = read_result(path, key=identity, result=one.result)
    computed = result is None
    if result is None:
        result = one.compute(parameters, lambda done, total: tell(label, done / total))
    made = _described(label, one, result, folder, identity=identity, parameters=parameters, computed=computed)
    for panel in made.panels:
        if computed or not panel.file.exists():
            write_whole(panel.file, svg(panel.specification))
    if computed:
        write_whole(path, as_json(made.document))
    tell(label, 1.0)
    return made


def _found(label: str, folder: Path, *, fast: bool, seed: int) -> Made | None:
    """A figure that an earlier run finished, if its files are all there."""
    path = folder / f"{file_stem(label)}.json"
    if not path.exists():
        return None
    one = figure(label)
    parameters = one.parameters(fast=fast, seed=seed)
    identity = key(label, parameters)
    result = read_result(path, key=identity, result=one.result)
    if result is None:
        return None
    made = _described(label, one, result, folder, identity=identity, parameters=parameters, computed=False)
    return made if all(panel.file.exists() for panel in made.panels) else None


def _described(
    label: str,
    one: Figure[Any, Any],
    result: Any,
    folder: Path,
    *,
    identity: str,
    parameters: Any,
    computed: bool,
) -> Made:
    comparisons = one.compare(result)
    claims = one.claims(result)
    agreement = joint_test(comparisons)
    document = {
        "label": label,
        "title": one.title,
        "key": identity,
        "parameters": plain(parameters),
        "comparison": [
            {
                "panel": comparison.panel,
                "curve": comparison.ours.name,
                "points": len(comparison.ours.x),
                "largest_relative_difference": comparison.largest_relative_difference,
            }
            for comparison in comparisons
        ],
        "joint_test": None if agreement is None else {**plain(agreement), "passes": agreement.passes},
        "claims": plain(claims),
        "result": plain(result),
    }
    panels = tuple(
        Panel(
            name=name, file=folder / f"{file_stem(f'{label} {name}')}.svg", specification=specification(chart)
        )
        for name, chart in one.draw(result).items()
    )
    return Made(
        label=label,
        figure=one,
        document=document,
        result=result,
        panels=panels,
        comparisons=comparisons,
        agreement=agreement,
        claims=claims,
        computed=computed,
    )


def _silent(label: str, share: float) -> None:
    pass
