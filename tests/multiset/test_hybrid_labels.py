"""Hybrid transcripts: competitors and lower bounds, every number against a second computation."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from scipy import integrate, optimize, stats

import sightline as sl
from sightline.attacks.group import exact_answers
from sightline.multiset.label_risk import label_lower, places_of, value_lower
from tests.multiset.hybrid_cases import (
    in_out,
    losses_under_the_prior,
    naive_distance,
    out,
    splits_of,
    zcdp,
)
from tests.multiset.hybrid_groups import FOUR, PAIR, SUBSETS, TRIPLE, Regime

# ------------------------------------------------------------------ competitors


@pytest.mark.parametrize("features", [3, 5, 7])
@pytest.mark.parametrize("target", [0, 1])
def test_the_separation_is_the_formula_of_the_theory_page(features: int, target: int) -> None:
    splits = splits_of(TRIPLE, target=target)
    others = [k for k in range(3) if k != target]
    found = np.sqrt(splits.geometry.squared_distance[:2, 0, features] / splits.kappa)
    for place, k in enumerate(others):
        order = list(range(3))
        order[target], order[k] = k, target
        shifted, unshifted = naive_distance(splits, features, order)
        if math.isfinite(found[place]):
            assert found[place] == pytest.approx(shifted, rel=1e-6)
        assert shifted < unshifted


@pytest.mark.slow
def test_all_permutations_are_tried_where_subsets_are_general() -> None:
    splits = splits_of(FOUR, memberships=SUBSETS, releases=12)
    features, j = 6, 0
    best: dict[int, float] = {}
    for order in permutations(range(4)):
        if order[j] != j:
            best[order[j]] = min(best.get(order[j], np.inf), naive_distance(splits, features, order)[0])
    found = np.sqrt(splits.geometry.squared_distance[:3, 0, features] / splits.kappa)
    counted = np.isfinite(found)
    assert counted.any()
    assert found[counted] == pytest.approx(np.array([best[1], best[2], best[3]])[counted], rel=1e-5)


@pytest.mark.parametrize("members", [2, 5])
def test_out_releases_separate_values_told_by_the_gap_whatever_the_group_size(members: int) -> None:
    group = np.linspace(-0.6, 0.9, members)
    splits = splits_of(group, memberships=out(members), releases=10)
    order = [members - 1, *range(1, members - 1), 0]
    _, unshifted = naive_distance(splits, 6, order)
    assert unshifted == pytest.approx(1.5 * math.sqrt(4 / splits.kappa) / 2, rel=1e-9)


def test_sign_flip_the_nearest_wrong_point_need_not_be_a_permutation() -> None:
    """Even moments do not see a sign, and the mean without the target does not change with its own value."""
    splits = splits_of((0.95, -0.95), memberships=out(2), epsilon=300.0)
    swap, flip = np.sqrt(splits.geometry.squared_distance[:, 0, 2] / splits.kappa)
    assert flip < swap
    assert splits.separation[2] == pytest.approx(flip)
    wrong = sl.attacks.separation(splits.transcript(2), at=[0.95, -0.95], target=0, radius=1.2)
    assert wrong.nearest[0] < -0.5
    assert wrong.nearest[1] < -0.9, "the other value stays: this is no exchange"
    # The linearised distance ignores the box and curvature; the searched one does not.
    assert wrong.distance == pytest.approx(flip, rel=0.1)
    assert wrong.distance < swap
    assert wrong.error_probability == pytest.approx(stats.norm.sf(wrong.distance / 2))


def test_the_searched_separation_is_that_of_a_grid() -> None:
    splits = splits_of(PAIR, epsilon=300.0)
    transcript = splits.transcript(4)
    model = splits.transcript(4).law
    axis = np.linspace(-1, 1, 201)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    points = points[np.abs(points[:, 0] - PAIR[0]) >= 0.5]
    answers = exact_answers(transcript, points)
    distance = np.linalg.norm((answers - transcript.answers(PAIR)) / model.scales, axis=1).min()
    found = sl.attacks.separation(transcript, at=PAIR, target=0, radius=0.5)
    assert found.distance <= distance
    assert found.distance == pytest.approx(distance, rel=0.02)


def test_equal_gaps_on_both_sides_compete_alike() -> None:
    splits = splits_of((0.0, -0.6, 0.6), epsilon=1000.0, releases=12)
    left, right = splits.geometry.squared_distance[:2, 0]
    seen = np.isfinite(left)
    assert seen[4:].all()
    assert left == pytest.approx(right)


@pytest.mark.slow
def test_equal_values_are_no_error_and_their_labels_cost_nothing() -> None:
    """The twin of the target is no competitor, and equal others are one unknown."""
    twins = splits_of((0.5, 0.5), releases=8)
    assert np.isinf(twins.geometry.squared_distance[0]).all()
    assert not twins.labels_open
    assert np.isinf(twins.local[8]), "without subset means equal values have no chart"
    assert np.isfinite(twins.local[2:8]).all()
    others = splits_of((0.5, -0.3, -0.3), releases=10)
    for features in (3, 6, 9):
        exposure = others.transcript(features).geometry(at=[0.5, -0.3, -0.3]).profile(target=0)
        assert others.local[features] == pytest.approx(exposure.crb, rel=1e-6)
    lower = splits_of((0.5, 0.5), epsilon=1.0).lower
    assert np.all(lower <= 0.125**2 / 2), "exchanging equals leaves only the offsets"


@pytest.mark.slow
def test_memberships_that_never_separate_leave_labels_open() -> None:
    pairs = sl.multiset.Memberships(sets=[(0, 1)])
    splits = splits_of((-0.5, 0.2, 0.8), memberships=pairs, epsilon=1000.0)
    assert splits.labels_open
    assert Regime(int(splits.regime)) is Regime.LABELS_OPEN
    assert splits.separation[6] == pytest.approx(0.0, abs=1e-6)
    gap = 0.7
    assert np.all(splits.lower[3:] > 0.9 * gap**2 / 4), "whatever the budget"
    assert not splits_of((-0.5, -0.5, 0.8), memberships=pairs).labels_open, "equals need no labels"


def test_one_record_has_no_labels() -> None:
    splits = splits_of((0.3,), releases=5)
    curve = sl.release_curve([0.3], family=sl.Moments(), accountant=zcdp(100.0), releases=[5])
    assert splits.local[5] == pytest.approx(curve.crb[0])
    assert splits.local[0] == pytest.approx(4 * splits.kappa / 5)
    assert not splits.labels_open
    assert np.all((splits.lower > 0) & (splits.lower < splits.local))


# ------------------------------------------------------------------ lower bounds


@pytest.mark.parametrize("distance", [0.0, 0.3, 1.0, 3.0, 7.0])
def test_two_point_risk_is_that_of_the_posterior_mean(distance: float) -> None:
    gap = 1.3

    def loss(y: float) -> float:
        tilt = math.tanh(distance * (y - distance / 2) / 2)
        return stats.norm.pdf(y, distance) * (gap / 2 - gap / 2 * tilt) ** 2

    posterior_mean, _ = integrate.quad(loss, distance - 10, distance + 10, epsabs=1e-14)
    formula, _ = integrate.quad(
        lambda z: stats.norm.pdf(z) * (1 - math.tanh(distance**2 / 4 + distance * z / 2)), -12, 12
    )
    found = float(sl.multiset.two_point_risk(np.array(gap), np.array(distance)))
    assert posterior_mean == pytest.approx(gap**2 / 4 * formula, rel=1e-6)
    assert found == pytest.approx(posterior_mean, rel=1e-5)
    assert found <= posterior_mean * (1 + 1e-9)


@pytest.mark.parametrize(("gap", "count", "kappa"), [(1.1, 3, 0.4), (1.1, 3, 0.02), (0.3, 8, 0.05)])
def test_the_label_bound_is_a_mean_over_two_offsets(gap: float, count: int, kappa: float) -> None:
    window = 0.125
    slope = math.sqrt(count / kappa) / 2

    u, weights = np.polynomial.legendre.leggauss(150)
    weights = weights * np.cos(np.pi * u / 2) ** 2
    away = np.abs(gap + window * (u[:, None] - u))
    naive = float(weights @ sl.multiset.two_point_risk(away, slope * away) @ weights)
    found = label_lower(np.array([gap]), separating=np.array([count]), bound=1.0, kappa=kappa, window=window)[
        0, 0
    ]
    assert found <= naive
    assert found == pytest.approx(naive, abs=3e-6 * gap**2)


@pytest.mark.slow
def test_the_value_bound_is_van_trees_with_the_mean_information() -> None:
    window, kappa, releases = 0.125, 0.003, 5
    places, memberships, family = np.array([[-0.4, 0.7]]), in_out(2), sl.Moments()
    found = value_lower(
        places,
        0,
        family=family,
        memberships=memberships,
        features=np.arange(releases + 1),
        releases=releases,
        kappa=kappa,
        window=window,
    )
    generator = np.random.default_rng(0)
    drawn = sl.labeled.CosineSquaredPrior(-window, window).sample((60_000, 2), generator=generator)
    for features in range(releases + 1):
        A = memberships.rows(2)
        inside = (A.T * memberships.counts(releases - features)) @ A
        G = family.rows(places + drawn, max(features, 1))[:, :features]
        mean = np.einsum("bli,blj->ij", G, G) / len(drawn)
        for k, order in enumerate(([0, 1], [1, 0])):
            M = (mean[np.ix_(order, order)] + inside) / kappa + (math.pi / window) ** 2 * np.eye(2)
            assert found[k, 0, features] == pytest.approx(np.linalg.inv(M)[0, 0], rel=6e-3)


def test_without_subset_means_no_guess_at_all_beats_the_label_bound() -> None:
    """Draw by draw, not on average: so a simulated risk below the bound at L_s = 0 is sampling error.

    Whatever t an attack says, the mean of (t − a)² and (t − b)² is at least (a − b)²/4.
    """
    generator = np.random.default_rng(3)
    guess, a, b = generator.uniform(-1, 1, (3, 10_000))
    mean = ((guess - a) ** 2 + (guess - b) ** 2) / 2
    assert np.all(mean >= sl.multiset.two_point_risk(a - b, np.zeros_like(a)) * (1 - 1e-12))


def test_random_labels_cost_twice_the_mean_guess() -> None:
    splits = splits_of(PAIR, epsilon=1e5)
    gap = PAIR[1] - PAIR[0]
    assert splits.approximation[8] == pytest.approx(gap**2 / 2, rel=1e-3)
    places = places_of(splits.groups, bound=1.0, window=0.125)
    assert splits.lower[8] == pytest.approx(np.ptp(places) ** 2 / 4, rel=0.02)


def test_close_values_never_cost_much() -> None:
    """gap²·Q(c·gap/2) is at most 0.663/c²."""
    largest = -optimize.minimize_scalar(lambda g: -(g**2) * stats.norm.sf(g / 2), bounds=(0, 10)).fun
    assert largest == pytest.approx(0.663, abs=5e-4)


def test_values_told_the_union_over_labels_bounds_the_nearest_value_attack() -> None:
    values, slope = np.array([-0.5, 0.1, 0.6]), 4.0
    noise = np.random.default_rng(5).standard_normal(200_000) / slope
    for own in values:
        nearest = values[np.argmin(np.abs(own + noise[:, None] - values), axis=1)]
        gaps = np.abs(values - own)
        union = np.sum(gaps**2 * stats.norm.sf(slope * gaps / 2))
        assert np.mean((nearest - own) ** 2) <= union * 1.02


CELLS = [
    (PAIR, 1.0, 4),
    (PAIR, 20.0, 8),
    (PAIR, 100.0, 2),
    ((-0.6, 1.0), 1000.0, 6),
    ((0.1, 0.2), 100.0, 5),
    (TRIPLE, 20.0, 6),
    (TRIPLE, 1000.0, 4),
    (FOUR, 100.0, 6),
]


@pytest.mark.slow
def test_the_lower_bound_is_never_above_the_simulated_attack() -> None:
    """Joint over all cells: a false failure has a probability below 1e-4 (one-sided, Bonferroni)."""
    limit = stats.norm.isf(1e-4 / len(CELLS))
    for group, epsilon, features in CELLS:
        splits = splits_of(group, target=len(group) - 1, epsilon=epsilon)
        partner = int(splits.partner[features])
        losses = losses_under_the_prior(splits, features, partner, trials=500)
        reach = limit * losses.std() / math.sqrt(len(losses))
        assert splits.lower[features] <= losses.mean() + reach, (group, epsilon, features)


@pytest.mark.slow
def test_the_approximation_is_within_a_factor_of_two_at_small_noise() -> None:
    for group, features in ((PAIR, 2), (PAIR, 6), (TRIPLE, 6), ((-0.6, 0.9), 6)):
        splits = splits_of(group, epsilon=1000.0)
        risk = sl.simulate(
            splits.transcript(features), attack=sl.ConstrainedMLE(), at=group, trials=1000, workers=1
        )
        assert risk.labeled_mse is not None
        assert 0.5 < splits.approximation[features] / risk.labeled_mse[0] < 2


@pytest.mark.slow
def test_theorem_1_bounds_the_tail_at_every_noise_level() -> None:
    bounds = []
    for epsilon, features in ((100.0, 4), (1000.0, 4), (4000.0, 4)):
        splits = splits_of(PAIR, epsilon=epsilon)
        transcript = splits.transcript(features)
        wrong = sl.attacks.separation(transcript, at=PAIR, target=0, radius=0.6)
        excess = max(0.0, wrong.distance / 2 - math.sqrt(8))
        bounds.append(math.exp(-(excess**2) / 2))
        noise = transcript.law.sample(2_000, generator=np.random.default_rng(1))
        found = sl.ConstrainedMLE().estimate(transcript, transcript.answers(PAIR) + noise)
        share = np.mean(np.abs(found.values[:, 0] - PAIR[0]) >= 0.6)
        assert share <= bounds[-1] + 4 * math.sqrt(bounds[-1] / 2_000)
        if epsilon == 100.0:  # a single competitor wins about as often as Q(d/2) says
            assert share == pytest.approx(wrong.error_probability, rel=0.4)
    assert bounds[-1] < 0.02


@pytest.mark.slow
@pytest.mark.parametrize(("group", "features"), [(PAIR, 4), (TRIPLE, 5), ((-0.5, 0.1, 0.6), 0)])
def test_theorem_2_at_small_noise_the_risk_is_the_local_bound(
    group: tuple[float, ...], features: int
) -> None:
    splits = splits_of(group, epsilon=1e5)
    transcript, trials = splits.transcript(features), 1_000
    noise = transcript.law.sample(trials, generator=np.random.default_rng(2))
    found = sl.ConstrainedMLE(box=(-1.0, 1.0)).estimate(transcript, transcript.answers(group) + noise)
    risk = np.mean((found.values[:, 0] - group[0]) ** 2)
    assert risk == pytest.approx(splits.local[features], rel=4 * math.sqrt(2 / trials))
