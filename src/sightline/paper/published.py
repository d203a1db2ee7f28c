"""The numbers that the paper prints, by the labels of its figures and tables; from ``reference.json``."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from sightline.paper.line import Line


@cache
def reference() -> dict[str, Any]:
    """Read all of ``reference.json``.

    >>> sorted(label for label in reference() if label.startswith("fig:"))
    ['fig:app_mle_vs_L', 'fig:mle', 'fig:poly_synth', 'fig:realdata']
    """
    text = files("sightline.paper").joinpath("reference.json").read_text(encoding="utf-8")
    numbers: dict[str, Any] = json.loads(text)
    return numbers


def printed_line(name: str, points: list[list[float]]) -> Line:
    """Make a line from a printed curve: pairs (x, y), or triples with the half-width of a 95 % interval."""
    columns = list(zip(*points, strict=True))
    return Line.of(name, x=columns[0], y=columns[1], half_widths=columns[2] if len(columns) > 2 else ())
