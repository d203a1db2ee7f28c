"""The precision of a prior: its slope and how far it is rounded up, against exact arithmetic."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

from sightline.labeled.bounds import van_trees

INFORMATION = [1e-6, 9e-4, 2e-3, 0.02, 0.04, 0.0499, 0.0501, 0.3, 5.0, 9.86, 9.88, 40.0, 1e3, 1e6]


def exact(name: str, information: Any) -> Any:
    if name == "uniform":
        half = mpmath.sqrt(information) / 2
        share = mpmath.tanh(half) / half
        return information * share / (1 - share)
    J, k = 4 * mpmath.pi**2, mpmath.sqrt(information - mpmath.pi**2)
    w = (1 - J / information + 4 * J * k * mpmath.coth(k / 2) / information**2) / information
    return mpmath.re(1 / w - information)


@pytest.mark.parametrize("name", ["uniform", "cosine"])
@pytest.mark.parametrize("information", INFORMATION)
def test_the_slope_and_the_excess_are_those_of_the_exact_precision(name: str, information: float) -> None:
    given = np.array([information])
    found, slope, excess = (
        float(getattr(van_trees, f"{name}_{what}")(given)[0])
        for what in ("precision", "precision_slope", "precision_excess")
    )
    with mpmath.workdps(40):
        true = exact(name, mpmath.mpf(information))
        change = mpmath.diff(lambda value: exact(name, value), mpmath.mpf(information))
        assert -1e-13 <= found / true - 1 <= excess
        assert slope == pytest.approx(float(change), rel=2e-3, abs=1e-12)
