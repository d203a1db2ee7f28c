"""Hybrid transcripts: the local bound, the split and bad input, against second computations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

import sightline as sl
from sightline.errors import InvalidInput, InvalidRelease
from sightline.multiset.hybrid_splits import clipped_risk
from tests.multiset.hybrid_cases import (
    in_out,
    out,
    splits_of,
    zcdp,
)
from tests.multiset.hybrid_groups import FOUR, PAIR, STEPS, SUBSETS, TRIPLE, Regime

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
