"""Hunt for a release whose lines, NULLs or exact numbers depend on one secret, and that the audit passes."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tests.numbered_cases import check_cases
from tests.tables.test_null_tells import check_random


def check(random: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """Draw one release and one table."""
    accepted, differing = check_random(int(random.integers(2**32)))
    count["accepted"] += accepted
    count["differing"] += differing


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Draw releases until the seconds are over."""
    return check_cases(check, seed, seconds)
