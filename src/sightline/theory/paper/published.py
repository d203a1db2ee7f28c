"""What the paper prints and where its numbers stand: ``reference.json``, the common setting, and real loads.

The loads follow the paper's protocol. They are not the paper's own, which are not public.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from sightline.arrays import FloatArray
from sightline.errors import require
from sightline.privacy.accountant import Budget
from sightline.privacy.composition import BasicComposition
from sightline.privacy.concentrated import ZeroConcentrated
from sightline.theory.multiset.moments import Moments
from sightline.theory.paper.comparison import Line


@cache
def reference() -> dict[str, Any]:
    """Read all of ``reference.json``.

    >>> sorted(label for label in reference() if label.startswith("fig:"))
    ['fig:app_mle_vs_L', 'fig:mle', 'fig:poly_synth', 'fig:realdata']
    """
    text = files("sightline.theory.paper").joinpath("reference.json").read_text(encoding="utf-8")
    numbers: dict[str, Any] = json.loads(text)
    return numbers


def printed_line(name: str, points: list[list[float]]) -> Line:
    """Make a line from a printed curve: pairs (x, y), or triples with the half-width of a 95 % interval."""
    columns = list(zip(*points, strict=True))
    return Line.of(name, x=columns[0], y=columns[1], half_widths=columns[2] if len(columns) > 2 else ())


@cache
def shipped_loads() -> FloatArray:
    """Read the mean power, in watts, of 18 Belgian buildings at each hour of each month's mean day in 2016.

    >>> shipped_loads().shape
    (5184,)
    """
    text = files("sightline.theory.paper").joinpath("loads.csv").read_text(encoding="utf-8")
    rows = [line.split(",")[2:] for line in text.splitlines() if not line.startswith(("#", "building"))]
    loads = np.array(rows, dtype=np.float64).ravel()
    loads.setflags(write=False)
    return loads


def normalise(loads: FloatArray, *, clip_at: float = 0.99) -> FloatArray:
    """Clip at the empirical quantile, then map linearly onto [−1, 1].

    >>> normalise(np.array([0.0, 5.0, 10.0, 1000.0]), clip_at=2 / 3).tolist()
    [-1.0, 0.0, 1.0, 1.0]
    """
    clipped = np.minimum(loads, np.quantile(loads, clip_at))
    low, high = float(clipped.min()), float(clipped.max())
    require(high > low, "loads that differ", got=f"{loads.size} equal ones")
    normal: FloatArray = np.clip(2 * (clipped - low) / (high - low) - 1, -1.0, 1.0)
    return normal


BUDGET = Budget(epsilon=1.0, delta=1e-5)
BASIC, ZCDP = BasicComposition(BUDGET), ZeroConcentrated(BUDGET)
UNIFORM = Moments(convention="uniform")
