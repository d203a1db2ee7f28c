"""Random tables read in passes, against the same tables in memory: brackets, counts and decisions."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tests.numbered_cases import check_cases
from tests.tables.test_signature_store import Case, compare_with_memory


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Cases of a seed until the time is up."""
    return check_cases(check, seed, seconds)


def check(draw: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """One table: no decision differs, and the numbers of all records agree."""
    law, prior = (
        str(draw.choice(["gaussian", "laplace", "mixed"])),
        str(draw.choice(["uniform", "cos2", "two-point"])),
    )
    case = Case(int(draw.integers(1 << 30)), rows=int(draw.integers(20, 400)), nested=bool(draw.integers(2)))
    batch, most = int(draw.integers(1, 300)), int(draw.integers(1, 30))
    shown = compare_with_memory(case, law, prior, batch=batch, most=most, limit=float(draw.random()))
    count["tables"] += 1
    count["identifiable groups"] += shown
