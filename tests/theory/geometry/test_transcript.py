"""Where releases and noise meet: accountants, explicit noise, correlated noise, vector records, bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import block_diag

import sightline as sl
from sightline.errors import InvalidInput, InvalidNoise, InvalidRelease

BUDGET = sl.Budget(epsilon=1.0, delta=1e-5)
ACCOUNTANTS = [
    sl.BasicComposition(BUDGET),
    sl.BasicComposition(BUDGET, calibration="analytic"),
    sl.AdvancedComposition(BUDGET),
    sl.ZeroConcentrated(BUDGET),
    sl.Renyi(BUDGET, order=64),
    sl.Renyi(BUDGET),
    sl.GaussianDP(BUDGET),
    sl.LaplaceComposition(BUDGET),
]


def in_out(background: int, copies: int) -> list[sl.SubsetMean]:
    inside = sl.SubsetMean(members=range(background + 1), radius=2.0)
    outside = sl.SubsetMean(members=range(1, background + 1), radius=2.0)
    return [inside, outside] * copies


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ACCOUNTANTS, ids=lambda a: f"{type(a).__name__}")
@pytest.mark.parametrize(("background", "copies"), [(1, 1), (50, 1), (50, 10), (10**5, 2)])
def test_in_out_risk_is_four_radius_squared_kappa_over_releases(accountant, background, copies):
    """eq. one_contrast_kappa_over_L, for every accountant; the Laplace case uses that Δ1 = Δ2 for scalars."""
    transcript = sl.Transcript(in_out(background, copies), noise=accountant)
    exposure = transcript.geometry().profile(target=0)
    releases = 2 * copies
    assert transcript.releases == releases
    assert exposure.identifiable
    assert exposure.crb == pytest.approx(4 * 2.0**2 * accountant.kappa(releases) / releases, rel=1e-9)
    weights = np.array([background + 1, -background] * copies) / copies
    np.testing.assert_allclose(exposure.recipe[0], weights, rtol=1e-8)


def test_a_release_with_many_cells_is_paid_for_once():
    accountant = sl.ZeroConcentrated(BUDGET)
    cells = sl.Cells(
        cells=[sl.SubsetMean(members=[0, 1], radius=1.0), sl.SubsetMean(members=[2], radius=1.0)]
    )
    transcript = sl.Transcript([cells, sl.SubsetMean(members=[1, 2], radius=1.0)], noise=accountant)
    assert (transcript.releases, transcript.outputs) == (2, 3)
    scale = math.sqrt(accountant.kappa(2))
    np.testing.assert_allclose(transcript.law.stddevs, [scale / 2, scale, scale / 2])
    np.testing.assert_allclose(sl.geometry.noise_multipliers(transcript), [scale, scale])
    exposure = transcript.geometry().profile(target=0)
    assert exposure.crb == pytest.approx(scale**2 * (1 + 1 + 1))  # x0 = 2·cell − 2·mean + x2


def test_laplace_scales_follow_the_l1_sensitivity():
    accountant = sl.LaplaceComposition(BUDGET)
    mean = sl.SubsetMean(members=[0, 1], radius=1.0, dimension=4)
    transcript = sl.Transcript([mean], noise=accountant)
    assert isinstance(transcript.law, sl.LaplaceNoise)
    np.testing.assert_allclose(transcript.law.scales, math.sqrt(accountant.kappa(1)) * 2 * 0.5)
    np.testing.assert_allclose(sl.geometry.noise_multipliers(transcript), 1.0)


def test_what_somebody_else_chose_is_accounted_for():
    queries = in_out(4, 1)
    transcript = sl.Transcript(queries, noise=[1.0, 2.0])
    spending = sl.privacy.account(sl.geometry.noise_multipliers(transcript), delta=1e-5)
    ratios = np.array([1.0 / (2 / 5), 2.0 / (2 / 4)])
    assert spending.rho == pytest.approx(np.sum(1 / (2 * ratios**2)))
    assert spending.mu == pytest.approx(math.sqrt(np.sum(1 / ratios**2)))


def test_block_and_full_covariances_agree_with_the_inverse_covariance():
    generator = np.random.default_rng(0)
    blocks = [root @ root.T + np.eye(2) for root in generator.standard_normal((2, 2, 2))]
    queries = [sl.SubsetSum(members=members, radius=1.0) for members in ([0, 1], [1, 2], [0, 2], [0, 1, 2])]
    full = block_diag(*blocks)
    rows = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]], float)
    expected = np.linalg.inv(rows.T @ np.linalg.inv(full) @ rows)
    for noise in (sl.CorrelatedNoise(blocks=blocks), full):
        exposure = sl.Transcript(queries, noise=noise).geometry().profile(target=[0, 1, 2])
        np.testing.assert_allclose(exposure.covariance, expected, rtol=1e-10)
        np.testing.assert_allclose(exposure.recipe @ rows, np.eye(3), atol=1e-12)


@pytest.mark.parametrize(
    "noise",
    [
        sl.GaussianNoise(stddevs=[1.0, 2.0, 0.5]),
        sl.LaplaceNoise(scales=[1.0, 2.0, 0.5]),
        sl.CorrelatedNoise(blocks=[[[2.0, 0.5], [0.5, 1.0]], [[3.0]]]),
    ],
    ids=lambda noise: type(noise).__name__,
)
class TestEveryNoiseLaw:
    def test_samples_have_the_stated_covariance(self, noise):
        """20,000 draws: each entry within 6 standard errors, so a false failure is rarer than 1e-7."""
        trials = 20_000
        draws = noise.sample(trials, generator=np.random.default_rng(1))
        assert draws.shape == (trials, 3)
        products = draws[:, :, None] * draws[:, None, :]
        errors = products.std(axis=0) / math.sqrt(trials)
        assert np.all(np.abs(products.mean(axis=0) - noise.covariance) < 6 * errors)
        assert np.all(np.abs(draws.mean(axis=0)) < 6 * np.sqrt(np.diag(noise.covariance) / trials))

    def test_a_recipe_on_whitened_answers_is_the_same_as_on_raw_ones(self, noise):
        generator = np.random.default_rng(2)
        answers, weights = generator.standard_normal((3, 1)), generator.standard_normal(3)
        raw = noise.recipe(weights) @ answers
        np.testing.assert_allclose(raw, weights @ noise.whiten(answers))

    def test_arrays_are_locked(self, noise):
        arrays = getattr(noise, "blocks", None) or [noise.scales]
        assert not any(array.flags.writeable for array in arrays)


def test_answers_are_exact_without_a_seed_and_reproducible_with_one():
    transcript = sl.Transcript(in_out(2, 1), noise=[0.1, 0.1])
    records = [1.0, 0.5, 0.0]
    np.testing.assert_allclose(transcript.answers(records), [0.5, 0.25])
    noisy = transcript.answers(records, seed=7)
    np.testing.assert_array_equal(noisy, transcript.answers(records, seed=7))
    assert not np.array_equal(noisy, transcript.answers(records))


def test_appending_keeps_the_noise_of_the_others():
    transcript = sl.Transcript(in_out(2, 1), noise=[0.1, 0.2], names=["with", "without"])
    longer = transcript.append(sl.SubsetMean(members=[0], radius=1.0), noise_stddev=0.3, name="alone")
    np.testing.assert_allclose(longer.law.stddevs, [0.1, 0.2, 0.3])
    assert longer.names == ("with", "without", "alone")


def test_the_kronecker_lift_is_the_explicit_block_computation():
    generator = np.random.default_rng(4)
    sets = [range(5), range(1, 5), [0, 2, 3], [1, 3], [0, 1, 2], [4, 0]]
    stddevs = generator.uniform(0.5, 2.0, len(sets))
    scalar = sl.Transcript([sl.SubsetMean(members=s, radius=1.0) for s in sets], noise=stddevs)
    lifted_queries = [sl.SubsetMean(members=s, radius=1.0, dimension=3) for s in sets]
    root = generator.standard_normal((3, 3))
    coordinates = root @ root.T + np.eye(3)
    explicit = sl.Transcript(lifted_queries, noise=np.kron(np.diag(stddevs**2), coordinates))
    for target in (0, [0, 1], 3):
        ours = sl.geometry.lift(scalar.geometry().profile(target=target), coordinates)
        theirs = explicit.geometry().profile(target=target)
        assert ours.identifiable is theirs.identifiable
        np.testing.assert_allclose(ours.information, theirs.information, rtol=1e-9, atol=1e-12)
        assert ours.crb == pytest.approx(theirs.crb, rel=1e-9)
    hidden = sl.Transcript([sl.SubsetMean(members=[0, 1], radius=1.0)], noise=[1.0]).geometry()
    assert sl.geometry.lift(hidden.profile(target=0), np.eye(2)).crb == math.inf


def test_vector_records_in_out_costs_p_times_the_scalar():
    scalar = sl.Transcript(in_out(3, 1), noise=[1.0, 2.0]).geometry().profile(target=0)
    queries = [sl.SubsetMean(members=q.members, radius=2.0, dimension=5) for q in in_out(3, 1)]
    vector = sl.Transcript(queries, noise=np.repeat([1.0, 2.0], 5)).geometry().profile(target=0)
    assert vector.crb == pytest.approx(5 * scalar.crb)


@pytest.mark.slow
def test_autodiff_and_closed_forms_give_the_same_geometry():
    jnp = pytest.importorskip("jax.numpy")
    values = [-0.4, 0.1, 0.7]
    closed = [sl.Moment(order=k, members=range(3), bound=1.0) for k in (1, 2, 3)]
    auto = [
        sl.DeepSet(
            feature=lambda x, k=k: x**k, readout=lambda s: s / 3, members=range(3), sensitivity=q.sensitivity
        )
        for k, q in zip((1, 2, 3), closed, strict=True)
    ]
    accountant = sl.GaussianDP(BUDGET)
    ours = sl.Transcript(closed, noise=accountant).geometry(at=values).profile(target=[0, 1, 2])
    theirs = sl.Transcript(auto, noise=accountant).geometry(at=values).profile(target=[0, 1, 2])
    assert jnp is not None
    np.testing.assert_allclose(ours.information, theirs.information, rtol=1e-12)


@pytest.mark.slow
def test_a_million_bystanders_are_one_nuisance_column():
    background = 10**6
    transcript = sl.Transcript(in_out(background, 1), noise=[1.0, 1.0])
    exposure = transcript.geometry().profile(target=0)
    assert exposure.crb == pytest.approx((background + 1) ** 2 + background**2, rel=1e-9)


class TestOneClearErrorEach:
    mean = sl.SubsetMean(members=[0, 1], radius=1.0)

    @pytest.mark.parametrize(
        ("noise", "message"),
        [
            ([0.0], "noise stddevs > 0"),
            ([-1.0], "noise stddevs > 0"),
            ([math.nan], "finite noise"),
            ([1.0, 1.0], "noise for 1 published numbers, got noise for 2"),
            ([[1.0, 0.0], [0.0, 1.0]], "noise for 1 published numbers, got noise for 2"),
            ([[-1.0]], "a variance > 0 for every answer of the covariance"),
            ([[[1.0]]], "stddevs \\(one dimension\\) or a covariance matrix"),
            ([[1.0, 0.0]], "a square covariance"),
            ([[1.0, 0.5], [0.0, 1.0]], "a symmetric covariance"),
            ("loud", "an array of numbers"),
        ],
    )
    def test_noise(self, noise, message):
        with pytest.raises(InvalidNoise, match=message):
            sl.Transcript([self.mean], noise=noise)

    def test_a_covariance_that_is_not_positive_definite(self):
        with pytest.raises(InvalidNoise, match="positive semidefinite"):
            sl.CorrelatedNoise(blocks=[[[1.0, 2.0], [2.0, 1.0]]])
        with pytest.raises(InvalidNoise, match="at least one covariance block"):
            sl.CorrelatedNoise(blocks=[])
        with pytest.raises(InvalidNoise, match="Laplace scales > 0"):
            sl.LaplaceNoise(scales=[])

    def test_releases(self):
        with pytest.raises(InvalidRelease, match="at least one release"):
            sl.Transcript([], noise=[])
        vector = sl.SubsetMean(members=[0], radius=1.0, dimension=2)
        with pytest.raises(InvalidRelease, match="records of one dimension"):
            sl.Transcript([self.mean, vector], noise=np.ones(3))
        with pytest.raises(InvalidRelease, match="1 names, got 2"):
            sl.Transcript([self.mean], noise=[1.0], names=["a", "b"])

    def test_geometry(self):
        transcript = sl.Transcript([self.mean], noise=[1.0])
        with pytest.raises(InvalidInput, match="at least 2 records, got 1"):
            transcript.geometry(records=1)
        curved = sl.Transcript([sl.Moment(order=2, members=[0], bound=1.0)], noise=[1.0], names=["variance"])
        with pytest.raises(InvalidInput, match=r"an operating point .* got none for 'variance'"):
            curved.geometry()
        with pytest.raises(InvalidInput, match="finite records"):
            curved.geometry(at=[math.nan])

    def test_appending_needs_gaussian_noise_and_accounting_independent_noise(self):
        laplace = sl.Transcript([self.mean], noise=sl.LaplaceNoise(scales=[1.0]))
        with pytest.raises(InvalidNoise, match="expected Gaussian noise to append"):
            laplace.append(self.mean, noise_stddev=1.0)
        transcript = sl.Transcript([self.mean], noise=[[4.0]])
        longer = transcript.append(self.mean, noise_stddev=3.0)
        np.testing.assert_array_equal(longer.law.covariance, np.diag([4.0, 9.0]))
        with pytest.raises(InvalidNoise, match="expected independent noise, got correlated"):
            sl.geometry.noise_multipliers(transcript)
