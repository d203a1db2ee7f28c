"""Hybrid transcripts: the local bound, the lower bound and bad input, against second computations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

import sightline as sl
from sightline.errors import InvalidInput
from sightline.theory.attacks.model import exact_answers
from sightline.theory.multiset.hybrid_splits import exchange_bound
from tests.theory.multiset.hybrid_cases import (
    FOUR,
    PAIR,
    STEPS,
    TRIPLE,
    losses_under_the_prior,
    splits_of,
    zcdp,
)

# ------------------------------------------------------------------ the local bound


@pytest.mark.parametrize(
    ("group", "changes"),
    [
        (PAIR, {}),
        (TRIPLE, {"target": 1}),
        (FOUR, {"target": 3}),
        (TRIPLE, {"family": STEPS}),
    ],
    ids=["pair", "middle of three", "last of four", "thresholds"],
)
def test_the_local_bound_is_that_of_the_rows(group: tuple[float, ...], changes: dict) -> None:
    splits = splits_of(group, **changes)
    m, j = len(group), splits.target
    for features in splits.features.tolist():
        means, counts = splits.means(features)
        symmetric = splits.family.rows(np.array([group]), max(features, 1))[0][:features]
        rows = np.concatenate([symmetric, means * np.sqrt(counts)[:, None]])
        inverse = np.linalg.pinv(rows)
        seen = np.allclose((inverse @ rows)[j], np.eye(m)[j])
        expected = splits.kappa * float(np.sum(inverse[j] ** 2)) if seen else math.inf
        assert splits.local[features] == pytest.approx(expected, rel=1e-6), features


@pytest.mark.parametrize("releases", [8, 9])
@pytest.mark.parametrize("group", [PAIR, TRIPLE, FOUR])
def test_with_at_most_one_moment_it_is_the_linear_theory(group: tuple[float, ...], releases: int) -> None:
    splits = splits_of(group, releases=releases)
    n = len(group) - 1
    in_stddev, out_stddev = (2 * math.sqrt(splits.kappa) / count for count in (n + 1, n))
    design = sl.labeled.InOut(background=n, radius=2.0)
    linear = design.best_split(releases, in_stddev=in_stddev, out_stddev=out_stddev).mse
    assert splits.local[:2] == pytest.approx([linear, linear], rel=1e-9)
    if releases == 8:
        assert splits.local[0] == pytest.approx(16 * splits.kappa / releases, rel=1e-9)


@pytest.mark.parametrize("features", [0, 1])
def test_without_the_box_the_attack_has_the_linear_risk(features: int) -> None:
    splits, trials = splits_of(PAIR, epsilon=5.0), 2_000
    transcript = splits.transcript(features)
    noise = transcript.law.sample(trials, generator=np.random.default_rng(6))
    found = sl.ConstrainedMLE(box=(-1e3, 1e3)).estimate(transcript, transcript.answers(PAIR) + noise)
    risk = np.mean((found.values[:, 0] - PAIR[0]) ** 2)
    assert risk == pytest.approx(16 * splits.kappa / 8, rel=4 * math.sqrt(2 / trials))


def test_without_subset_means_it_is_the_multiset_module() -> None:
    group = (0.8, -0.5, 0.2)
    splits = splits_of(group, releases=6)
    curve = sl.release_curve(group, family=sl.Moments(), accountant=zcdp(100.0), releases=[6])
    rank = sorted(group).index(group[0])
    assert splits.local[6] == pytest.approx(curve.value_crb[0, rank], rel=1e-9)


def test_equal_values_need_no_labels() -> None:
    """The twin of the target is as good as the target, and equal others are one unknown."""
    twins = splits_of((0.5, 0.5), releases=8)
    assert np.isinf(twins.local[8]), "without subset means equal values have no chart"
    assert np.isfinite(twins.local[2:8]).all()
    lower = splits_of((0.5, 0.5), epsilon=1.0).lower(partner=1)
    assert np.all(lower <= 0.125**2 / 2), "exchanging equals leaves only the offsets"


# ------------------------------------------------------------------ the split


def test_the_best_split_by_the_local_bound_is_the_same_at_every_budget() -> None:
    splits = splits_of(TRIPLE, epsilon=50.0)
    accountant = sl.GaussianDP(sl.Budget(epsilon=3.0, delta=1e-5))
    other = sl.multiset.HybridSplits(
        group=TRIPLE, target=0, family=sl.Moments(), accountant=accountant, releases=8
    )
    assert other.local == pytest.approx(splits.local * (other.kappa / splits.kappa))
    assert other.best_local == splits.best_local


def test_features_pay_near_the_edge_and_not_for_the_middle_of_three() -> None:
    edge = splits_of((-0.95, 0.95), target=1, epsilon=1e6)
    middle = splits_of((-0.5, 0.1, 0.6), target=1, epsilon=1e6)
    assert edge.local[0] / edge.local.min() > 20
    assert edge.best_local > 1
    assert middle.best_local <= 1


@pytest.mark.slow
@pytest.mark.parametrize(("group", "features"), [(PAIR, 4), (TRIPLE, 5), ((-0.5, 0.1, 0.6), 0)])
def test_at_small_noise_the_risk_is_the_local_bound(group: tuple[float, ...], features: int) -> None:
    splits = splits_of(group, epsilon=1e5)
    transcript, trials = splits.transcript(features), 1_000
    noise = transcript.law.sample(trials, generator=np.random.default_rng(2))
    found = sl.ConstrainedMLE(box=(-1.0, 1.0)).estimate(transcript, transcript.answers(group) + noise)
    risk = np.mean((found.values[:, 0] - group[0]) ** 2)
    assert risk == pytest.approx(splits.local[features], rel=4 * math.sqrt(2 / trials))


# ------------------------------------------------------------------ the lower bound


def coin_risk(gap: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """The least risk for one of two equally likely values, by the posterior mean on a fine grid."""
    y = np.linspace(-10, 10, 2_001) + distance[..., None]
    tilt = np.tanh(distance[..., None] * (y - distance[..., None] / 2) / 2)
    losses = stats.norm.pdf(y - distance[..., None]) * (gap[..., None] / 2 * (1 - tilt)) ** 2
    return integrate.trapezoid(losses, dx=0.01, axis=-1)


@pytest.mark.parametrize(("gap", "count", "kappa"), [(1.1, 3, 0.4), (1.1, 3, 0.02), (0.3, 8, 0.05)])
def test_the_bound_with_values_told_is_a_mean_over_two_offsets(gap: float, count: int, kappa: float) -> None:
    window = 0.125
    slope = math.sqrt(count / kappa) / 2
    u, weights = np.polynomial.legendre.leggauss(20)
    weights = weights * np.cos(np.pi * u / 2) ** 2
    away = np.abs(gap + window * (u[:, None] - u))
    naive = float(weights @ coin_risk(away, slope * away) @ weights)
    found = exchange_bound(gap, np.array([slope]), window)[0]
    assert found <= naive
    assert found == pytest.approx(naive, abs=3e-6 * gap**2)


def test_without_subset_means_no_guess_at_all_beats_the_label_bound() -> None:
    """Draw by draw, not on average: so a simulated risk below the bound at L_s = 0 is sampling error.

    Whatever t an attack says, the mean of (t − a)² and (t − b)² is at least (a − b)²/4.
    """
    generator = np.random.default_rng(3)
    guess, a, b = generator.uniform(-1, 1, (3, 10_000))
    mean = ((guess - a) ** 2 + (guess - b) ** 2) / 2
    assert np.all(mean >= (a - b) ** 2 / 4 * (1 - 1e-12))
    splits = splits_of(PAIR, epsilon=1e5)
    assert splits.lower(partner=1)[8] == pytest.approx(1.1**2 / 4, rel=0.02)


@pytest.mark.slow
def test_the_bound_with_labels_told_is_van_trees_with_the_mean_information() -> None:
    window, releases = 0.125, 5
    splits = splits_of(PAIR, epsilon=1e3, releases=releases)
    generator = np.random.default_rng(0)
    drawn = sl.labeled.CosineSquaredPrior(-window, window).sample((60_000, 2), generator=generator)
    alone = splits.lower(partner=0)
    for features in range(releases + 1):
        A, counts = splits.means(features)
        inside = (A.T * counts) @ A
        G = splits.family.rows(np.array([PAIR]) + drawn, max(features, 1))[:, :features]
        mean = np.einsum("bli,blj->ij", G, G) / len(drawn)
        M = (mean + inside) / splits.kappa + (math.pi / window) ** 2 * np.eye(2)
        assert alone[features] == pytest.approx(np.linalg.inv(M)[0, 0], rel=6e-3)


def bayes_risks(splits: sl.multiset.HybridSplits, features: int, *, draws: int) -> np.ndarray:
    """Squared errors of the posterior mean under the prior of a pair, by a grid over offsets and labels."""
    generator = np.random.default_rng(11)
    window, transcript = 0.125, splits.transcript(features)
    u = np.linspace(-1, 1, 82)[1:-1]
    density = np.cos(np.pi * u / 2) ** 2
    values = np.clip(splits.group, window - 1, 1 - window)
    grid = np.stack(np.meshgrid(*(values[:, None] + window * u), indexing="ij"), axis=-1).reshape(-1, 2)
    grid = np.concatenate([grid, grid[:, ::-1]])
    logs = np.tile(np.log(np.outer(density, density).ravel()), 2)
    expected = exact_answers(transcript, grid) / transcript.law.scales
    offsets = sl.labeled.CosineSquaredPrior(-window, window).sample((draws, 2), generator=generator)
    truth = values + offsets
    swapped = generator.random(draws) < 0.5
    truth[swapped] = truth[swapped][:, ::-1]
    noise = transcript.law.sample(draws, generator=generator)
    answers = (exact_answers(transcript, truth) + noise) / transcript.law.scales
    losses = np.empty(draws)
    for i, answer in enumerate(answers):
        fit = logs - np.sum((expected - answer) ** 2, axis=1) / 2
        weights = np.exp(fit - fit.max())
        losses[i] = (weights @ grid[:, 0] / weights.sum() - truth[i, 0]) ** 2
    return losses


@pytest.mark.slow
def test_the_lower_bound_is_never_above_the_exact_bayes_risk_under_the_prior_that_it_states() -> None:
    """Joint over all cells: a false failure has a probability below 1e-4 (one-sided, Bonferroni)."""
    cells = [(1.0, 4), (20.0, 8), (100.0, 2), (1000.0, 6), (100.0, 0)]
    for group in (PAIR, (0.1, 0.2), (0.3, 0.31)):
        for epsilon, features in cells:
            splits = splits_of(group, epsilon=epsilon)
            losses = bayes_risks(splits, features, draws=300)
            reach = stats.norm.isf(1e-4 / 15) * losses.std() / math.sqrt(losses.size)
            lower = splits.lower(partner=1)[features]
            assert 0 < lower <= losses.mean() + reach, (group, epsilon, features)


@pytest.mark.thorough
@pytest.mark.slow
def test_the_lower_bound_is_never_above_the_simulated_attack() -> None:
    cells = [
        (PAIR, 1.0, 4),
        ((-0.6, 1.0), 1000.0, 6),
        (TRIPLE, 20.0, 6),
        (TRIPLE, 1000.0, 4),
        (FOUR, 100.0, 6),
    ]
    tries = [(*cell, partner) for cell in cells for partner in range(len(cell[0]))]
    limit = stats.norm.isf(1e-4 / len(tries))
    for group, epsilon, features, partner in tries:
        splits = splits_of(group, target=len(group) - 1, epsilon=epsilon)
        losses = losses_under_the_prior(splits, features, partner, trials=200)
        reach = limit * losses.std() / math.sqrt(len(losses))
        lower = splits.lower(partner)[features]
        assert lower <= losses.mean() + reach, (group, epsilon, features, partner)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.floats(-1, 1), min_size=2, max_size=4),
    st.floats(0.5, 1e4),
    st.integers(1, 6),
    st.booleans(),
)
def test_every_group_has_its_bounds(
    group: list[float], epsilon: float, releases: int, thresholds: bool
) -> None:
    family = STEPS if thresholds else sl.Moments()
    splits = splits_of(group, epsilon=epsilon, releases=releases, family=family)
    assert splits.local.shape == (releases + 1,)
    for partner in range(len(group)):
        lower = splits.lower(partner)
        assert np.all((lower > 0) & (lower <= 4.0))
    assert -1 <= splits.best_local <= releases


# ------------------------------------------------------------------ the best split, and bad input


def test_a_split_with_open_labels_is_never_the_best() -> None:
    """At the edge all eight moments have the smallest local bound, but they never show whose a value is."""
    splits = splits_of((-0.6, 0.9), target=1)
    assert int(np.argmin(splits.local)) == 8
    assert splits.best_local == 7


def test_a_family_with_few_releases_limits_the_splits() -> None:
    short = sl.Thresholds(bandwidth=0.3, grid=[-0.5, 0.0, 0.5])
    splits = splits_of(PAIR, family=short)
    assert splits.features.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": 2}, "a target in the group, from 0 to 1"),
        ({"target": -1}, "a target in the group"),
        ({"target": True}, "a target in the group"),
        ({"group": [[0.1, 0.2]]}, "group"),
        ({"group": [0.1]}, "at least two values"),
        ({"group": [0.1, 1.5]}, "values within ±1"),
        ({"releases": 0}, "releases >= 1"),
        ({"releases": 2.5}, "releases >= 1"),
        ({"family": "moments"}, "Moments or Thresholds"),
    ],
)
def test_bad_input_of_hybrid(change: dict, message: str) -> None:
    arguments = {
        "group": PAIR,
        "target": 0,
        "family": sl.Moments(),
        "accountant": zcdp(1.0),
        "releases": 4,
    }
    with pytest.raises(InvalidInput, match=message):
        sl.multiset.HybridSplits(**{**arguments, **change})


def test_bad_partners_and_splits() -> None:
    splits = splits_of(PAIR)
    with pytest.raises(InvalidInput, match="a partner in the group"):
        splits.lower(partner=2)
    with pytest.raises(InvalidInput, match="a split from 0 to 8"):
        splits.transcript(9)
