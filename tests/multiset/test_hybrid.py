"""Hybrid transcripts: every number of the splits against a second computation."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

import sightline as sl
from sightline.attacks.group import exact_answers
from sightline.errors import InvalidInput, InvalidRelease
from sightline.multiset.hybrid_splits import clipped_risk
from sightline.multiset.label_risk import label_lower, places_of, value_lower
from tests.multiset.hybrid_cases import (
    in_out,
    losses_under_the_prior,
    naive_distance,
    out,
    splits_of,
    zcdp,
)

PAIR, TRIPLE, FOUR = (-0.4, 0.7), (-0.5, 0.2, 0.8), (-0.7, -0.2, 0.3, 0.8)
STEPS = sl.Thresholds(bandwidth=0.3)
SUBSETS = sl.multiset.Memberships(sets=[(0, 1), (1, 2), (0, 2, 3)])
Regime = sl.multiset.HybridRegime


# ------------------------------------------------------------------ the local bound


@pytest.mark.parametrize(
    ("group", "changes"),
    [
        (PAIR, {}),
        (TRIPLE, {"target": 1}),
        (FOUR, {"memberships": SUBSETS}),
        (TRIPLE, {"family": STEPS}),
        (TRIPLE, {"family": sl.multiset.Mixture(families=(sl.Moments(), STEPS))}),
        (TRIPLE, {"family": sl.multiset.QueryFamily(queries=sl.Moments().queries_of(3, 8))}),
    ],
    ids=["pair", "middle of three", "subsets", "thresholds", "mixture", "queries"],
)
def test_the_local_bound_is_that_of_the_general_engine(group: tuple[float, ...], changes: dict) -> None:
    splits = splits_of(group, **changes)
    for features in splits.features.tolist():
        exposure = splits.transcript(features).geometry(at=group).profile(target=splits.target)
        assert splits.local[features] == pytest.approx(exposure.crb, rel=1e-6)


@pytest.mark.parametrize("releases", [8, 9])
@pytest.mark.parametrize("group", [PAIR, TRIPLE, FOUR])
def test_with_at_most_one_moment_it_is_the_linear_theory(group: tuple[float, ...], releases: int) -> None:
    splits = splits_of(group, releases=releases)
    n = len(group) - 1
    in_stddev, out_stddev = (2 * math.sqrt(splits.kappa) / count for count in (n + 1, n))
    design = sl.InOut(background=n, radius=2.0)
    linear = design.best_split(releases, in_stddev=in_stddev, out_stddev=out_stddev).mse
    assert splits.local[:2] == pytest.approx([linear, linear], rel=1e-9)
    if releases == 8:
        assert splits.local[0] == pytest.approx(16 * splits.kappa / releases, rel=1e-9)
    assert np.isinf(splits.separation[:2]).all(), "no competitor: there is no label term"
    truth = np.array([group[0]])
    clipped = clipped_risk(splits.local[:1], truth, truth, bound=1.0)
    assert splits.approximation[0] == pytest.approx(clipped[0], rel=1e-12)


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
    assert splits.separation[6] == 0
    assert splits.safest == 6


def test_a_mean_without_the_target_alone_never_identifies_it() -> None:
    splits = splits_of(TRIPLE, memberships=out(3))
    assert np.isinf(splits.local[0])
    assert np.isinf(splits.approximation[0])
    assert splits.local[1] == pytest.approx(4 * splits.kappa * (1 + 1 / 7), rel=1e-9)  # one IN, seven OUT


def test_the_target_alone_as_a_subset_has_a_quarter_of_the_risk_of_in_and_out() -> None:
    alone = splits_of(TRIPLE, memberships=sl.multiset.Memberships(sets=[[0]]))
    assert alone.local[0] == pytest.approx(4 * alone.kappa / 8, rel=1e-12)
    assert alone.local[0] == pytest.approx(splits_of(TRIPLE).local[0] / 4, rel=1e-9)


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


# ------------------------------------------------------------------ the split


def test_at_fixed_releases_the_accountant_enters_only_through_kappa() -> None:
    """Two accountants with the same noise give the same splits, and noise scales everything."""
    one = splits_of(TRIPLE, epsilon=50.0)
    sigma = math.sqrt(one.kappa)
    gauss = sl.GaussianDP(sl.Budget(epsilon=50.0, delta=1e-5))
    other = one.under(gauss)
    factor = other.kappa / one.kappa
    assert factor != pytest.approx(1.0, rel=1e-3)
    assert other.local == pytest.approx(one.local * factor)
    assert other.separation == pytest.approx(one.separation / math.sqrt(factor), nan_ok=True)
    assert int(other.best_local) == int(one.best_local)
    epsilon = optimize.brentq(
        lambda e: sl.GaussianDP(sl.Budget(epsilon=e, delta=1e-5)).kappa(8) - sigma**2, 1.0, 500.0, xtol=1e-12
    )
    same = one.under(sl.GaussianDP(sl.Budget(epsilon=epsilon, delta=1e-5)))
    for name in ("local", "separation", "approximation", "lower"):
        assert getattr(same, name) == pytest.approx(getattr(one, name), rel=1e-6), name


def test_as_noise_vanishes_the_most_damaging_split_is_the_local_optimum() -> None:
    quiet = splits_of(TRIPLE, epsilon=1e6, releases=12)
    assert int(quiet.best) == int(quiet.best_local)
    assert Regime(int(quiet.regime)) is Regime.LABELS_FREE
    louder = splits_of(TRIPLE, epsilon=500.0, releases=12)
    assert int(louder.best) < int(louder.best_local), "more noise asks for more subset means"
    assert Regime(int(louder.regime)) is Regime.LABELS_DEAR


def test_features_pay_near_the_edge_and_not_for_the_middle_of_three() -> None:
    edge = splits_of((-0.95, 0.95), target=1, epsilon=1e6)
    middle = splits_of((-0.5, 0.1, 0.6), target=1, epsilon=1e6)
    assert edge.local[0] / edge.local.min() > 20
    assert int(edge.best) > 1
    assert int(middle.best) <= 1
    assert Regime(int(middle.regime)) is Regime.VALUES_DEAR


@pytest.mark.slow
def test_a_batch_is_its_groups() -> None:
    groups = np.random.default_rng(2).uniform(-1, 1, (7, 3))
    groups[3, 1] = groups[3, 2]
    batch = splits_of(groups, epsilon=200.0)
    for group, place in zip(groups, range(7), strict=True):
        one = splits_of(group, epsilon=200.0)
        for name in ("local", "separation", "approximation", "lower", "partner", "best", "regime"):
            both = getattr(batch, name)[place], getattr(one, name)
            assert both[0] == pytest.approx(both[1], rel=1e-9, nan_ok=True), name


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=4),
    st.floats(0.5, 1e4),
    st.integers(1, 9),
    st.booleans(),
)
def test_the_bounds_are_in_order(group: list[float], epsilon: float, releases: int, thresholds: bool) -> None:
    family = STEPS if thresholds else sl.Moments()
    splits = splits_of(group, epsilon=epsilon, releases=releases, family=family)
    assert splits.local.shape == (releases + 1,)
    assert np.all(splits.lower > 0)
    assert np.all(splits.lower <= 4.0)
    reliable = np.isfinite(splits.approximation)
    assert np.all(splits.approximation[reliable] <= 4.0 + 1e-9)
    assert np.all(splits.approximation[reliable] > 0)
    assert -1 <= int(splits.best) <= releases
    str(splits)


def test_a_cut_off_gaussian_error() -> None:
    draws = np.clip(0.3 + 0.7 * np.random.default_rng(1).standard_normal(400_000), -1, 1)
    naive = np.mean((draws - (-0.5)) ** 2)
    found = clipped_risk(np.array([0.49]), np.array([0.3]), np.array([-0.5]), bound=1.0)[0]
    assert found == pytest.approx(naive, rel=5e-3)


@pytest.mark.slow
def test_unequal_noise_the_approximation_is_convex_in_precisions() -> None:
    """For zCDP, Gaussian DP and Rényi of one order the budget is linear in them; see the theory page."""
    x = np.array([-0.4, 0.7])
    G, A = sl.Moments().rows(x[None], 4)[0], in_out(2).rows(2)
    gap = x[1] - x[0]

    def value(p: np.ndarray) -> float:
        rows = np.concatenate([G, A])
        crb = np.linalg.inv((rows.T * p) @ rows)[0, 0]
        swapped = G[:, ::-1]
        r = A @ (x[::-1] - x)
        inverse = np.linalg.inv((swapped.T * p[:4]) @ swapped)
        d2 = r @ np.linalg.solve(np.diag(1 / p[4:]) + A @ inverse @ A.T, r)
        return float(crb + gap**2 * stats.norm.sf(math.sqrt(d2) / 2))

    generator = np.random.default_rng(8)
    for _ in range(200):
        p, q = generator.uniform(0.1, 60.0, (2, 6))
        assert value((p + q) / 2) <= (value(p) + value(q)) / 2 * (1 + 1e-9)


# ------------------------------------------------------------------ what it prints, and bad input


def test_what_it_prints() -> None:
    splits = splits_of(PAIR, epsilon=1000.0)
    assert str(splits).startswith("8 releases, 9 splits: labels are")
    assert "most damaging: 2 symmetric releases and 6 subset means" in str(splits)
    assert str(splits_of([PAIR, PAIR])) == "2 groups, 8 releases, 9 splits"
    blind = splits_of(TRIPLE, memberships=out(3), family=sl.Moments(), releases=1)
    assert int(blind.best) == -1
    assert str(blind).endswith("no split identifies the target's value")


def test_a_family_with_few_releases_limits_the_splits() -> None:
    short = sl.Thresholds(bandwidth=0.3, grid=[-0.5, 0.0, 0.5])
    splits = splits_of(PAIR, family=short)
    assert splits.features.tolist() == [0, 1, 2, 3]
    assert splits.safest == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": 2}, "a target in the group, from 0 to 1"),
        ({"target": -1}, "a target in the group"),
        ({"target": True}, "a target in the group"),
        ({"group": [[[0.1]]]}, "a group or rows of groups"),
        ({"group": [0.1, 1.5]}, "values within ±1"),
        ({"releases": 0}, "releases >= 1"),
        ({"releases": 2.5}, "releases >= 1"),
        ({"family": "moments"}, "a family of releases"),
        ({"memberships": [[0]]}, "Memberships"),
        ({"family": sl.Moments(bound=2.0)}, "releases with the bound 1"),
        ({"family": sl.multiset.Mixture(families=(sl.Moments(bound=3.0), STEPS))}, "got bounds"),
        ({"memberships": sl.multiset.Memberships(sets=[[5]])}, "subsets of the 2 records"),
        ({"accountant": sl.LaplaceComposition(sl.Budget(epsilon=1.0, delta=1e-5))}, "Gaussian noise"),
        ({"accountant": 3}, "Gaussian noise"),
    ],
)
def test_bad_input_of_hybrid(change: dict, message: str) -> None:
    arguments = {
        "group": PAIR,
        "target": 0,
        "family": sl.Moments(),
        "memberships": in_out(2),
        "accountant": zcdp(1.0),
        "releases": 4,
    }
    with pytest.raises(InvalidInput, match=message):
        sl.multiset.hybrid(**{**arguments, **change})


def test_bad_memberships_and_windows() -> None:
    with pytest.raises(InvalidRelease, match="at least one subset"):
        sl.multiset.Memberships(sets=[])
    with pytest.raises(InvalidRelease, match="at least 2 members"):
        sl.multiset.Memberships(sets=[[0], [0, 1]], least=2)
    with pytest.raises(InvalidRelease, match="at least 5 members"):
        sl.multiset.Memberships.with_and_without(members=5, target=0, least=5)
    with pytest.raises(InvalidInput, match="a target in the group"):
        sl.multiset.Memberships.with_and_without(members=5, target=5)
    splits = splits_of(PAIR)
    with pytest.raises(InvalidInput, match="a window up to the bound"):
        splits.lower_bound(1.5)
    with pytest.raises(InvalidInput, match="a split from 0 to 8"):
        splits.transcript(9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": 7}, "a target that some release depends on"),
        ({"radius": 0.0}, "a radius > 0"),
        ({"radius": 3.0}, "a radius > 0 that some value of the box reaches"),
    ],
)
def test_bad_input_of_separation(change: dict, message: str) -> None:
    arguments = {"at": PAIR, "target": 0, "radius": 0.5}
    with pytest.raises(InvalidInput, match=message):
        sl.attacks.separation(splits_of(PAIR).transcript(4), **{**arguments, **change})
