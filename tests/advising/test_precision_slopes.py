"""The precision of a prior: its slope and how far it is rounded up, against exact arithmetic."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

from sightline.bounds import van_trees

INFORMATION = [
    1e-6,
    9e-4,
    2e-3,
    0.029,
    0.031,
    0.3,
    3.99,
    4.01,
    9.81,
    9.83,
    9.87,
    9.9,
    9.93,
    40.0,
    1e3,
    1e6,
    1e12,
]
SLOPE = {"uniform": 3e-7, "cosine": 1e-9}  # how far the slopes may be off, over them


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
        assert slope == pytest.approx(float(change), rel=SLOPE[name], abs=0.0)


@pytest.mark.parametrize("name", ["uniform", "cosine"])
def test_a_tangent_with_a_slope_that_is_a_little_off_needs_little_more_room(name: str) -> None:
    """With p in place of the slope of ψ(y) = 1/D(1/y) the line must be raised by about (p - ψ')²/|ψ''|.

    For p = (1 + ρ) ψ' that is ρ² y ψ'/e with the elasticity e = -y ψ''/ψ'. Where e ≥ 0.2 it is at most
    5 ρ² ψ, since y ψ' ≤ ψ: less than the excess that a cut allows for.
    """
    y = 10 ** np.linspace(-14, 8, 2_000)
    precision, slope = (getattr(van_trees, f"{name}_{what}") for what in ("precision", "precision_slope"))
    psi, change = 1 / precision(1 / y), slope(1 / y) / (y * precision(1 / y)) ** 2
    elasticity = -np.diff(np.log(change)) / np.diff(np.log(y))
    assert elasticity.min() > 0.2
    assert np.all(y * change <= psi)
    with mpmath.workdps(40):
        true = np.array([float(exact(name, 1 / mpmath.mpf(float(one)))) for one in y[:-200:50]])
    room = getattr(van_trees, f"{name}_precision_excess")(1 / y)
    used = precision(1 / y)[:-200:50] / true - 1  # by the rounding of the precision itself
    assert np.all(used + 5 * SLOPE[name] ** 2 < room[:-200:50])
