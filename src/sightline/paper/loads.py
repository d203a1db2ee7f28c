"""Real loads for the paper's protocol. They are not the paper's own loads, which are not public."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np

from sightline.arrays import FloatArray
from sightline.errors import require


@cache
def shipped_loads() -> FloatArray:
    """Read the mean power, in watts, of 18 Belgian buildings at each hour of each month's mean day in 2016.

    >>> shipped_loads().shape
    (5184,)
    """
    text = files("sightline.paper").joinpath("loads.csv").read_text(encoding="utf-8")
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
