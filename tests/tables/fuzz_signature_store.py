"""Random tables read in passes, against the same tables in memory: brackets, counts and decisions."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tests.numbered_cases import check_cases
from tests.tables.test_signature_store import Case, check_streamed


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
    count["identifiable"] += check_streamed(case, law, prior, batch=int(draw.integers(1, 300)))
    count["tables"] += 1
