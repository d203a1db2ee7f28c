"""Laplace and Gaussian noise in one design: both ends against quadrature, and what they are made of."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.bounds.membership_design import MembershipDesign
from sightline.errors import InvalidNoise
from sightline.noise.laws import GaussianNoise, LaplaceNoise, MixedNoise
from sightline.units.description import Known
from sightline.units.target import TargetPrior
from tests.bounds import brute_force
from tests.bounds.brute_force import PRIORS, Small, exact_share, law


def design_of(small: Small) -> MembershipDesign:
    noise = MixedNoise(
        scales=small.scales, stddevs=np.sqrt(small.variances), laplace_answers=small.laplace.astype(float)
    )
    return MembershipDesign(small.rows, noise=noise, readout="sum")


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.name)
@pytest.mark.parametrize("seed", range(4))
def test_the_exact_risk_is_between_the_two_ends(prior: TargetPrior, seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = np.array([[1, 1], [0, 1]]) if seed % 2 else np.array([[1, 0], [1, 1]])
    small = Small(rows=rows, scales=generator.uniform(0.1, 0.8, 2), laplace=np.array([seed < 2, seed >= 2]))
    found = design_of(small).exposures(prior=prior)
    for j in range(2):
        exact = exact_share(small, j, [law(prior, 60)] * 2, answers=500)
        assert found.remaining_lower[j] <= exact + 2e-4
        assert exact <= found.remaining_upper[j] + 2e-4
        if prior.name != "two-point":  # coins among coins may have a wide bracket
            assert found.remaining_lower[j] > 0.5 * exact


def test_the_engine_reads_off_what_the_dense_formulas_say() -> None:
    rows = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])
    small = Small(rows=rows, scales=np.array([0.3, 0.2, 0.5]), laplace=np.array([True, False, True]))
    for prior in PRIORS:
        seen = brute_force.seen_of(small, target=prior, others=prior)
        found = design_of(small).exposures(prior=prior)
        np.testing.assert_allclose(found.remaining_upper, prior.upper(seen), rtol=1e-9)
        assert np.all(found.remaining_lower >= prior.lower(seen) * (1 - 1e-8))
    np.testing.assert_allclose(found.information, np.sum((rows / small.scales[:, None]) ** 2, axis=0))
    # The rows are independent, so that their inverse is the only recipe.
    np.testing.assert_allclose(
        found.rmse, np.linalg.norm(np.linalg.inv(rows) * np.sqrt(small.variances), axis=1), rtol=1e-9
    )


def test_noise_of_one_law_said_as_a_mix_is_that_law() -> None:
    rows = np.array([[1, 1, 0], [0, 1, 1]])
    for laplace, plain in (
        (0.0, GaussianNoise(stddevs=[0.4, 0.2])),
        (1.0, LaplaceNoise(scales=[0.4, 0.2])),
    ):
        mixed = MixedNoise(
            scales=plain.scales, stddevs=np.sqrt(plain.variances), laplace_answers=[laplace] * 2
        )
        for prior in PRIORS:
            one, other = (
                MembershipDesign(rows, noise=noise, readout="sum").exposures(prior=prior)
                for noise in (plain, mixed)
            )
            np.testing.assert_allclose(one.remaining_upper, other.remaining_upper, rtol=1e-9)
            np.testing.assert_allclose(one.remaining_lower, other.remaining_lower, rtol=1e-9)


def test_a_record_that_gaussian_answers_alone_see_keeps_the_gaussian_bounds() -> None:
    rows = np.array([[1, 0], [0, 1]])
    noise = MixedNoise.of([GaussianNoise(stddevs=[0.3]), LaplaceNoise(scales=[0.3])])
    found = MembershipDesign(rows, noise=noise, readout="sum").exposures(domain=(0, 1))
    for j, plain in enumerate((GaussianNoise(stddevs=[0.3]), LaplaceNoise(scales=[0.3]))):
        alone = MembershipDesign([[1, 0]], noise=plain, readout="sum").exposures(domain=(0, 1))
        assert found.remaining_lower[j] == pytest.approx(alone.remaining_lower[0], rel=1e-9)
        assert found.remaining_upper[j] == pytest.approx(alone.remaining_upper[0], rel=1e-9)
    told = MembershipDesign(rows, noise=noise, readout="sum").exposures(domain=(0, 1), known=Known.ALL_OTHERS)
    np.testing.assert_allclose(told.remaining_lower, found.remaining_lower, rtol=1e-9)
    np.testing.assert_allclose(told.remaining_upper, found.remaining_upper, rtol=1e-9)


@pytest.mark.slow
def test_the_linear_attack_of_the_upper_end_does_what_it_says() -> None:
    generator = np.random.default_rng(5)
    rows, trials = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]]), 200_000
    noise = MixedNoise.of([LaplaceNoise(scales=[0.2, 0.4]), GaussianNoise(stddevs=[0.3])])
    found = MembershipDesign(rows.astype(int), noise=noise, readout="sum").exposures(domain=(0, 1))
    values = generator.uniform(-0.5, 0.5, (trials, 3))
    answers = values @ rows.T + noise.sample(trials, generator=generator)
    cross, total = rows.T / 12, rows @ rows.T / 12 + noise.covariance
    guesses = answers @ np.linalg.solve(total, cross.T)
    np.testing.assert_allclose(
        np.mean((guesses - values) ** 2, axis=0) * 12, found.remaining_upper, rtol=0.01
    )


def test_what_a_mix_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidNoise, match="a scale, a stddev and a kind for each answer"):
        MixedNoise(scales=[1.0, 1.0], stddevs=[1.0], laplace_answers=[0])
    with pytest.raises(InvalidNoise, match="0, 1 or 2 Laplace answers"):
        MixedNoise(scales=[1.0], stddevs=[1.0], laplace_answers=[3])
    mixed = MixedNoise(scales=[1.0], stddevs=[1.2], laplace_answers=[0])
    with pytest.raises(InvalidNoise, match="Gaussian and Laplace noise to draw"):
        mixed.sample(1, generator=np.random.default_rng(0))
    with pytest.raises(InvalidNoise, match="expected noise of one law"):
        _ = mixed.law
    longer = mixed.append(np.array([2.0]))
    assert longer.outputs == 2
    assert longer.variances.tolist() == [1.44, 4.0]
