"""Hunt: persons with several rows by every way to their eigenvalue, against dense algebra and exact rank.

``python -m tools.fuzz --entry tests.units.fuzz_panels --seed 1 --seconds 600`` runs it alone.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from sightline.bounds import assessment
from sightline.units import panels, row_decisions, row_solver, units
from tests.numbered_cases import check_cases
from tests.units.naive_panels import random_panel
from tests.units.test_equal_slices import load_curve
from tests.units.test_panels import ROUTES, check

_MODULES = (units, row_solver, row_decisions)
_SETTINGS = (
    *((module, "MANY_ROWS") for module in _MODULES),
    (assessment, "SPARSE_FROM"),
    (panels, "PANEL"),
    (panels, "_BEST"),
)
_SMALL = {"MANY_ROWS": 1, "SPARSE_FROM": 0}  # what is for large designs is done with small ones


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Random panels until the time is over."""
    return check_cases(one_panel, seed, seconds)


def one_panel(generator: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """No wrong decision, no number beyond its stated error."""
    kept = [(module, name, getattr(module, name)) for module, name in _SETTINGS]
    route = list(ROUTES)[trial % len(ROUTES)]
    panel = load_curve(generator) if trial % 5 == 0 else random_panel(generator)
    try:
        for module, name, value in kept:
            setattr(module, name, _SMALL.get(name, ROUTES[route].get(name, value)))
        yes = check(panel, proved_each=route != "one proof")
    finally:
        for module, name, value in kept:
            setattr(module, name, value)
    count[f"{route}: panels"] += 1
    count[f"{route}: persons of whom something is identifiable"] += yes
