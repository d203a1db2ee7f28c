"""The certified tables of scalar risks, read from a file that ships with the package.

``python tools/risk_tables.py`` writes the file from :mod:`~sightline.labeled.bounds.scalar_risk` and
:mod:`~sightline.labeled.bounds.laplace`; a test computes every entry again.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import numpy as np

from sightline.arrays import FloatArray
from sightline.labeled.bounds.laplace import LAPLACE_GRID, FallingTable
from sightline.labeled.bounds.scalar_risk import DENSITY_GRID, TWO_POINT_GRID, Grid, RiskTable

FILE = "risk_tables.npz"


@lru_cache(maxsize=1)
def uniform_table() -> RiskTable:
    """For a uniform number on an interval of width 1, seen in Gaussian noise."""
    return RiskTable(nodes=DENSITY_GRID.nodes(), deficits=_stored("uniform", DENSITY_GRID))


@lru_cache(maxsize=1)
def cosine_table() -> RiskTable:
    """For a number with the cos² density on an interval of width 1, seen in Gaussian noise."""
    return RiskTable(nodes=DENSITY_GRID.nodes(), deficits=_stored("cos2", DENSITY_GRID))


@lru_cache(maxsize=1)
def two_point_table() -> RiskTable:
    """For a number at either end of an interval of width 1 with probability one half, in Gaussian noise."""
    return RiskTable(nodes=TWO_POINT_GRID.nodes(), deficits=_stored("two_point", TWO_POINT_GRID))


@lru_cache(maxsize=1)
def uniform_laplace_table() -> FallingTable:
    """For a uniform number that is seen in one Laplace answer."""
    return FallingTable(nodes=LAPLACE_GRID.nodes(), values=_stored("uniform_laplace", LAPLACE_GRID))


@lru_cache(maxsize=1)
def cosine_laplace_table() -> FallingTable:
    """For a number with the cos² density that is seen in one Laplace answer."""
    return FallingTable(nodes=LAPLACE_GRID.nodes(), values=_stored("cos2_laplace", LAPLACE_GRID))


def _stored(name: str, grid: Grid) -> FloatArray:
    with (
        files("sightline.labeled.bounds").joinpath(FILE).open("rb") as file,
        np.load(file, allow_pickle=False) as found,
    ):
        values: FloatArray = found[name]
    assert values.shape == (grid.count,)  # the file belongs to this version
    values.setflags(write=False)
    return values
