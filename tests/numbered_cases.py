"""Numbered cases: how many a law is tried on, and the loop of fuzzers, which ends when the time is up."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable

import numpy as np


def trials(most: int) -> range:
    """The numbers of the cases that a law is tried on: all in `make thorough`, half in `make check`, else a
    quarter.
    """
    parts = {"quick": 4, "test": 4, "check": 2}.get(os.environ.get("SIGHTLINE_EXAMPLES", "test"), 1)
    return range(max(2, most // parts) if parts > 1 else most)


Check = Callable[[np.random.Generator, int, Counter[str]], None]
"""Draws and checks the case of a number, and counts what it did."""


def check_cases(check: Check, seed: int, seconds: float, *, most: float = math.inf) -> dict[str, int]:
    """Check cases 0, 1, … of a seed until the time is up, or until there were ``most``; what was counted."""
    until, count, trial = time.monotonic() + seconds, Counter[str](), 0
    while time.monotonic() < until and trial < most:
        check_case(check, seed, trial, count)
        trial += 1
    return dict(sorted(count.items()))


def check_case(check: Check, seed: int, trial: int, count: Counter[str]) -> None:
    """Check one case; a failure says how to repeat it."""
    try:
        check(np.random.default_rng([seed, trial]), trial, count)
    except Exception as failure:
        name = f"{check.__module__}.{check.__name__}"
        failure.add_note(f"again: tests.numbered_cases.check_case({name}, {seed}, {trial}, Counter())")
        raise
