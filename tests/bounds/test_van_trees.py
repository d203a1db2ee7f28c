"""The weighted van Trees bounds: the best weight by finite elements, and no weight above it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import solveh_banded

from sightline.bounds.van_trees import (
    COSINE_INFORMATION,
    COSINE_VARIANCE,
    UNIFORM_VARIANCE,
    cosine_bound,
    uniform_bound,
)
from tools.risk_tables import cosine_risk, uniform_risk


def uniform(x: np.ndarray) -> np.ndarray:
    return np.ones_like(x)


def cosine(x: np.ndarray) -> np.ndarray:
    return 2 * np.cos(np.pi * x) ** 2


PRIORS = {
    "uniform": (uniform, uniform_bound, uniform_risk, UNIFORM_VARIANCE),
    "cos2": (cosine, cosine_bound, cosine_risk, COSINE_VARIANCE),
}


@pytest.mark.parametrize("name", PRIORS)
class TestEveryDensity:
    @pytest.mark.parametrize("information", [0.01, 0.06, 1.0, 9.8, 9.9, 100.0, 5000.0])
    def test_the_closed_form_is_the_best_weight_by_finite_elements(
        self, name: str, information: float
    ) -> None:
        density, bound, _, _ = PRIORS[name]
        cells = 4000
        x = np.linspace(-0.5, 0.5, cells + 1)
        p = density((x[1:] + x[:-1]) / 2)
        banded = np.zeros((2, cells - 1))
        banded[1] = (1 / p[1:] + 1 / p[:-1]) * cells + information / density(x[1:-1]) / cells
        banded[0, 1:] = -cells / p[1:-1]
        best = solveh_banded(banded, np.full(cells - 1, 1 / cells)).sum() / cells
        assert bound(np.array([information]))[0] == pytest.approx(best, rel=3e-6)

    def test_no_weight_gives_more(self, name: str) -> None:
        density, bound, _, _ = PRIORS[name]
        x, masses = np.polynomial.legendre.leggauss(300)
        x, masses = x / 2, masses / 2
        p = density(x)
        generator = np.random.default_rng(1)
        for _ in range(100):
            # q = (1/4 − x²)(1 + c₁x² + c₂x⁴): its product with p vanishes at the ends.
            a, b = generator.normal(size=2) * 3
            edge, inner = 0.25 - x**2, 1 + a * x**2 + b * x**4
            q = edge * inner
            slope = -2 * x * inner + edge * (2 * a * x + 4 * b * x**3)
            score = np.zeros_like(x) if name == "uniform" else -2 * np.pi * np.tan(np.pi * x)
            information = 10 ** generator.uniform(-2, 4)
            mean = masses @ (p * q)
            value = mean**2 / (information * (masses @ (p * q**2)) + masses @ (p * (slope + q * score) ** 2))
            assert value <= bound(np.array([information]))[0] * (1 + 1e-8)

    def test_it_is_below_the_risk_in_gaussian_noise_and_never_far(self, name: str) -> None:
        _, bound, risk, _ = PRIORS[name]
        information = np.geomspace(1e-3, 1e4, 60)
        ratio = bound(information) / risk(information)
        assert np.all(ratio <= 1)
        assert np.all(ratio >= (0.938 if name == "uniform" else 0.992))

    def test_its_precision_rises_from_one_over_the_variance(self, name: str) -> None:
        _, bound, _, v = PRIORS[name]
        information = np.geomspace(1e-8, 1e6, 600)
        precision = 1 / bound(information) - information
        assert precision[0] == pytest.approx(1 / v, rel=1e-6)
        # A rise up to rounding, which the margin of the bound allows for.
        assert np.all(np.diff(precision) >= -1e-7 * precision[1:])


def test_the_precision_of_cos2_stays_below_its_fisher_information() -> None:
    information = np.geomspace(1e-6, 1e7, 300)
    precision = 1 / cosine_bound(information) - information
    assert np.all(precision <= COSINE_INFORMATION * (1 + 1e-6))
