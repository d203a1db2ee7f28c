"""A slice of the review in every test run: the same cases each time. `make fuzz` draws new ones."""

from __future__ import annotations

import math

import pytest

from tests.bounds import fuzz_brackets
from tests.privacy import fuzz_accountants
from tests.theory.geometry import fuzz_geometry
from tests.units import fuzz_designs

SEED = 20_261


@pytest.mark.thorough
def test_designs() -> None:
    found = fuzz_designs.fuzz(SEED, math.inf, most=240)
    assert min(found["integer designs"], found["real-weight designs"]) == 100
    assert min(found[name] for name in ("decisions", "recipe entries", "records in parts")) > 500
    assert found["undecided"] < 0.2 * found["decisions"]
    assert found.get("without a stated error", 0) == 0


@pytest.mark.thorough
def test_geometry() -> None:
    found = fuzz_geometry.fuzz(SEED, math.inf, most=150)
    assert found["integer transcripts"] == 100
    assert min(found[name] for name in ("information entries", "recipe entries")) > 400
    assert min(found["increments"], found["functionals with a bound"]) > 50


@pytest.mark.slow
def test_brackets() -> None:
    found = fuzz_brackets.fuzz(SEED, math.inf, most=9)
    assert sum(count for name, count in found.items() if name.startswith("risks")) >= 9


@pytest.mark.slow
def test_accountants() -> None:
    found = fuzz_accountants.fuzz(SEED, math.inf, most=24)
    assert found["noise scales"] == 24 * 16
