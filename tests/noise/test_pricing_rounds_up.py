"""The noise that a budget buys is never below its level, and above it by rounding alone."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from sightline.noise.pricing import price
from sightline.numerics.residuals import root_times
from sightline.privacy.registry import ACCOUNTANTS, accountant_named


@pytest.mark.slow
def test_laplace_scales_are_never_below_sensitivity_times_releases_over_epsilon() -> None:
    generator = np.random.default_rng(0)
    for _ in range(3000):
        epsilon, delta = (float(value) for value in generator.uniform(0.01, 5, 2))
        count = int(generator.integers(1, 200))
        rule = sl.LaplaceComposition(sl.Budget(epsilon=epsilon, delta=1e-6))
        scale = float(price(rule, np.array([delta]), releases=count).scales[0])
        level = Fraction(delta) * count / Fraction(epsilon)
        assert level <= Fraction(scale) <= level * (1 + Fraction(1, 2**50))


@pytest.mark.slow
def test_classical_gaussian_noise_is_never_below_its_formula() -> None:
    generator = np.random.default_rng(1)
    for _ in range(1000):
        epsilon, sensitivity = (float(value) for value in generator.uniform(0.01, 1, 2))
        delta = float(10.0 ** generator.uniform(-12, -1))
        count = int(generator.integers(1, 200))
        rule = sl.BasicComposition(sl.Budget(epsilon=epsilon, delta=delta))
        stddev = float(price(rule, np.array([sensitivity]), releases=count).scales[0])
        with mpmath.workprec(200):
            root = mpmath.sqrt(2 * mpmath.log(mpmath.mpf(5) / 4 * count / mpmath.mpf(delta)))
            level = count / mpmath.mpf(epsilon) * root * mpmath.mpf(sensitivity)
            assert level <= stddev <= level * (1 + mpmath.mpf(2) ** -47)


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_noise_is_never_below_the_root_of_kappa_times_the_sensitivity(name: str) -> None:
    generator = np.random.default_rng(2)
    for _ in range(20):
        budget = sl.Budget(epsilon=float(generator.uniform(0.1, 3)), delta=1e-6)
        rule = accountant_named(name, budget)
        count = int(generator.integers(1, 50))
        sensitivities = generator.uniform(0.001, 10, 50)
        scales = price(rule, sensitivities, releases=count).scales
        kappa = Fraction(rule.kappa(count))
        for scale, sensitivity in zip(scales.tolist(), sensitivities.tolist(), strict=True):
            assert Fraction(scale) ** 2 >= kappa * Fraction(sensitivity) ** 2


@given(st.floats(1e-300, 1e300), st.floats(1e-130, 1e130))
@settings(deadline=None, max_examples=500)
def test_a_rounded_root_is_at_most_three_units_above(square: float, factor: float) -> None:
    found = float(root_times(square, factor))
    exact = Fraction(square) * Fraction(factor) ** 2
    assert Fraction(found) ** 2 >= exact
    assert Fraction(found) ** 2 <= exact * (1 + Fraction(1, 2**49))
