"""Priors against closed forms and draws."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import sightline as sl
from sightline.theory.attacks.bayes import order_means

PRIORS = [
    sl.labeled.UniformPrior(-1.0, 1.0),
    sl.labeled.CosineSquaredPrior(-1.0, 1.0),
    sl.labeled.CosineSquaredPrior(2.0, 5.0),
]


@pytest.mark.parametrize("prior", PRIORS, ids=str)
class TestEveryPrior:
    def test_its_moments_are_those_of_its_density(self, prior) -> None:
        def integral(power: int) -> float:
            return float(
                mpmath.quad(lambda x: float(prior.density(np.float64(x))) * x**power, [prior.low, prior.high])
            )

        assert integral(0) == pytest.approx(1, rel=1e-12)
        assert integral(1) == pytest.approx(prior.mean, abs=1e-12)
        assert integral(2) - prior.mean**2 == pytest.approx(prior.variance, rel=1e-10)

    def test_its_distribution_function_is_the_integral_of_its_density(self, prior) -> None:
        for share in (0.1, 0.5, 0.8):
            x = prior.low + share * (prior.high - prior.low)
            mass = mpmath.quad(lambda t: float(prior.density(np.float64(t))), [prior.low, x])
            assert float(prior.cdf(np.float64(x))) == pytest.approx(float(mass), abs=1e-12)

    def test_draws_follow_it(self, prior) -> None:
        """Kolmogorov–Smirnov with 20,000 draws: a distance of 2.2/√n has a false-failure rate of 1.3e-4."""
        drawn = np.sort(prior.sample((20_000,), generator=np.random.default_rng(5)))
        empirical = (np.arange(20_000) + 0.5) / 20_000
        assert np.max(np.abs(prior.cdf(drawn) - empirical)) < 2.2 / math.sqrt(20_000)

    @pytest.mark.slow
    def test_expected_order_statistics_add_up_and_are_those_of_draws(self, prior) -> None:
        means = order_means(prior, 4)
        assert np.sum(means) == pytest.approx(4 * prior.mean, abs=1e-10)
        drawn = np.sort(prior.sample((40_000, 4), generator=np.random.default_rng(6)), axis=1)
        errors = drawn.std(axis=0) / math.sqrt(40_000)
        assert np.max(np.abs(drawn.mean(axis=0) - means) / errors) < 4.5


def test_the_information_of_the_cosine_prior() -> None:
    prior = sl.labeled.CosineSquaredPrior(0.0, 2.0)

    def score_squared(x: mpmath.mpf) -> mpmath.mpf:
        # d/dx log cos² = −2(π/r) tan, squared and times the density: 4(π/r)² (2/r) sin².
        t = mpmath.pi * (x - 1) / 2
        return 4 * (mpmath.pi / 2) ** 2 * mpmath.sin(t) ** 2

    assert prior.fisher_information == pytest.approx(float(mpmath.quad(score_squared, [0, 2])), rel=1e-12)
