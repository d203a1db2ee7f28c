"""Priors and posterior means against closed forms, brute force and each other."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import sightline as sl
from sightline.attacks.bayes import order_means
from tests.attacks.attack_cases import in_out, moments, noisy, triangle

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


def truncated_normal_mean(y: float, stddev: float, low: float, high: float) -> float:
    a, b = (low - y) / stddev, (high - y) / stddev
    pdf, cdf = mpmath.npdf, mpmath.ncdf
    return float(y + stddev * (pdf(a) - pdf(b)) / (cdf(b) - cdf(a)))


class TestPosteriorMean:
    @pytest.mark.slow
    @pytest.mark.parametrize("stddev", [0.05, 0.5, 5.0])
    def test_one_record_under_a_uniform_prior_is_a_truncated_normal(self, stddev) -> None:
        transcript = sl.Transcript([sl.SubsetSum(members=[0], radius=1.0)], noise=[stddev])
        answers = np.array([[-2 * stddev], [0.3], [1.0 + stddev]])
        found = sl.attacks.PosteriorMean(prior=sl.labeled.UniformPrior(0.0, 1.0)).estimate(
            transcript, answers
        )
        closed = [truncated_normal_mean(float(y), stddev, 0, 1) for (y,) in answers]
        assert found.values[:, 0] == pytest.approx(np.array(closed), abs=1e-9)
        assert np.all(found.status == sl.attacks.AttackStatus.SOLVED)

    @pytest.mark.slow
    def test_laplace_noise_has_its_own_likelihood(self) -> None:
        transcript = sl.Transcript(
            [sl.SubsetSum(members=[0], radius=1.0)], noise=sl.LaplaceNoise(scales=[0.5])
        )
        found = sl.attacks.PosteriorMean(prior=sl.labeled.UniformPrior(0.0, 1.0)).estimate(
            transcript, [[-1.0], [0.25]]
        )

        def weight(y: float, power: int) -> mpmath.mpf:
            return mpmath.quad(lambda x: x**power * mpmath.exp(-abs(y - x) / 0.5), [0, 0.25, 1])

        closed = [float(weight(y, 1) / weight(y, 0)) for y in (-1.0, 0.25)]
        assert found.values[:, 0] == pytest.approx(np.array(closed), abs=1e-6)

    @pytest.mark.slow
    def test_a_pair_under_two_moments_is_the_sum_over_a_fine_grid(self) -> None:
        transcript = moments(10.0)
        answers = noisy(transcript, (-0.4, 0.7), 3)
        found = sl.attacks.PosteriorMean(prior=sl.labeled.UniformPrior(-1.0, 1.0)).estimate(
            transcript, answers
        )
        axis = -1 + (np.arange(1500) + 0.5) / 750
        u, v = np.meshgrid(axis, axis)
        s1, s2 = np.sqrt(np.diag(transcript.law.covariance))
        for y, values in zip(answers, found.values, strict=True):
            loss = ((y[0] - (u + v) / 2) / s1) ** 2 + ((y[1] - (u**2 + v**2) / 2) / s2) ** 2
            weight = np.exp(-loss / 2)
            weight /= weight.sum()
            brute = [np.sum(weight * np.minimum(u, v)), np.sum(weight * np.maximum(u, v))]
            assert values == pytest.approx(brute, abs=1e-4)

    def test_random_points_agree_with_quadrature(self) -> None:
        """Six records, each published alone: too many for nodes, and the posterior is a product."""
        queries = [sl.SubsetSum(members=[k], radius=1.0) for k in range(6)]
        transcript = sl.Transcript(queries, noise=[1.0] * 6)
        y = np.linspace(-1, 1, 6)
        found = sl.attacks.PosteriorMean(prior=sl.labeled.UniformPrior(-1.0, 1.0), points=40_000).estimate(
            transcript, y
        )
        closed = np.array([truncated_normal_mean(float(v), 1.0, -1, 1) for v in y])
        # Self-normalised importance sampling: a spread of about 0.56 over 20,000 effective points.
        assert np.max(np.abs(found.values[0] - closed)) < 4.5 * 0.56 / math.sqrt(20_000)

    @pytest.mark.sampled(1)
    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["triangle", "in-out", "triangle, loud"])
    def test_its_risk_lies_in_the_bayes_bracket(self, name) -> None:
        """Within 4.5 standard errors of the ends; joint false-failure rate below 3e-5."""
        transcript = {
            "triangle": triangle(),
            "in-out": in_out(2, noise=[0.2, 0.2]),
            "triangle, loud": triangle([1.0, 2.0, 1.0]),
        }[name]
        prior = sl.labeled.CosineSquaredPrior(-1.0, 1.0)
        attack = sl.attacks.PosteriorMean(prior=prior, points=20_000)
        found = sl.simulate(transcript, attack=attack, at=prior, trials=4000, seed=7)
        assert set(found.statuses) == {sl.attacks.AttackStatus.SOLVED}
        assert found.mse > found.bayes_lower - 4.5 * found.standard_error
        assert found.mse < found.bayes_upper + 4.5 * found.standard_error
        assert found.ratio_to_trivial < 1.02

    @pytest.mark.slow
    def test_no_other_attack_has_less_mean_risk(self) -> None:
        """The same draws for every attack, so the differences are sharp."""
        prior = sl.labeled.UniformPrior(-1.0, 1.0)
        transcript = moments(10.0)
        attacks = [sl.attacks.PosteriorMean(prior=prior), sl.ConstrainedMLE(), sl.attacks.MomentInversion()]
        best, mle, inversion = (
            sl.simulate(transcript, attack=attack, at=prior, trials=4000) for attack in attacks
        )
        assert best.interval[1] < mle.interval[0]
        assert mle.interval[1] < inversion.interval[0]
        assert best.mse < best.trivial_mse
        assert math.isnan(best.crb)  # depends on the draw
        assert math.isnan(best.bayes_upper)  # not linear

    def test_a_posterior_too_sharp_for_its_points_says_so(self) -> None:
        transcript = sl.Transcript([sl.SubsetSum(members=[0, 1], radius=1.0)], noise=[1e-6])
        found = sl.attacks.PosteriorMean(prior=sl.labeled.UniformPrior(0.0, 1.0)).estimate(
            transcript, [1.2345]
        )
        assert found.status.tolist() == [sl.attacks.AttackStatus.FEW_POINTS]
        assert "too narrow" in str(sl.attacks.AttackStatus.FEW_POINTS)
