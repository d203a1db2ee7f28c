"""Random budgets through every accountant: the noise is never below its level, nor the level below the proof.

``python -m tools.fuzz --entry tests.privacy.fuzz_accountants --seed 1 --seconds 600`` runs it alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from mpmath import mp

import sightline as sl
from sightline.noise.pricing import price
from sightline.privacy.composition import Calibration
from tests.numbered_cases import check_cases

ACCOUNTANTS: tuple[Callable[[sl.Budget], sl.privacy.Accountant], ...] = (
    sl.BasicComposition,
    lambda budget: sl.BasicComposition(budget, calibration=Calibration.ANALYTIC),
    sl.AdvancedComposition,
    sl.ZeroConcentrated,
    lambda budget: sl.Renyi(budget, order=1 - 3 * math.log(budget.delta) / budget.epsilon),
    sl.Renyi,
    sl.GaussianDP,
    sl.LaplaceComposition,
)


def fuzz(seed: int, seconds: float, *, most: float = math.inf) -> dict[str, int]:
    """Cases 0, 1, … of a seed until the time is up, or until there were ``most``."""
    return check_cases(check, seed, seconds, most=most)


def check(generator: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """One budget under one accountant."""
    budget = sl.Budget(
        epsilon=float(10 ** generator.uniform(-4, 2)), delta=float(10 ** generator.uniform(-30, -0.4))
    )
    releases = int(10 ** generator.uniform(0, 6))
    accountant = ACCOUNTANTS[trial % len(ACCOUNTANTS)](budget)
    kappa = Fraction(accountant.kappa(releases))
    noise_of_releases(accountant, releases, kappa, generator, count)
    if not accountant.validity(releases).ok:
        count["levels without a proof"] += 1
        return
    count["levels"] += 1
    if accountant.law is sl.privacy.Law.LAPLACE:
        # L releases of scale Δ√κ cost L/√κ together.
        assert kappa * Fraction(budget.epsilon) ** 2 >= releases**2
        return
    with mp.workdps(60):
        multiplier = mp.sqrt(mp.mpf(kappa.numerator) / kappa.denominator)
    assert exact_delta(releases, multiplier, budget.epsilon) <= mp.mpf(budget.delta)
    cost = accountant.epsilon(releases, noise_multiplier=float(multiplier))
    assert exact_delta(releases, float(multiplier), cost) <= mp.mpf(budget.delta)


def noise_of_releases(
    accountant: sl.privacy.Accountant,
    releases: int,
    kappa: Fraction,
    generator: np.random.Generator,
    count: Counter[str],
) -> None:
    """Every scale squared is at least κΔ², over the fractions, and at most an ulp or two above it."""
    sensitivities = 10 ** generator.uniform(-9, 9, 8)
    for found, delta in zip(
        price(accountant, sensitivities, releases=releases).scales, sensitivities, strict=True
    ):
        level = kappa * Fraction(float(delta)) ** 2
        assert level <= Fraction(float(found)) ** 2 <= level * Fraction(1 + 2**-50), (float(found), delta)
        stddev = accountant.noise_stddev(releases, sensitivity=float(delta))
        variance = level * (2 if accountant.law is sl.privacy.Law.LAPLACE else 1)
        assert variance <= Fraction(stddev) ** 2 <= variance * Fraction(1 + 2**-50), (stddev, delta)
        count["noise scales"] += 2


def exact_delta(releases: int, multiplier: float, epsilon: float) -> float:
    """The delta of Gaussian releases at ``epsilon`` together, in at least 60 digits, from the definition."""
    with mp.workdps(60 + int(max(0.0, math.log10(max(epsilon, 1)))) * 2):
        mu, eps = mp.sqrt(releases) / mp.mpf(multiplier), mp.mpf(epsilon)
        delta: float = mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-mu / 2 - eps / mu)
        return delta
