"""IN/OUT: closed forms, the two-parameter reduction, the general engine and Monte Carlo say the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sightline as sl
from sightline.errors import InvalidBudget, InvalidInput
from sightline.theory.labeled import InOut

BUDGET = sl.Budget(epsilon=1.0, delta=1e-5)
ACCOUNTANTS = [
    sl.BasicComposition(BUDGET),
    sl.AdvancedComposition(BUDGET),
    sl.ZeroConcentrated(BUDGET),
    sl.Renyi(BUDGET, order=64),
    sl.GaussianDP(BUDGET),
]
PAPER = InOut(background=50, radius=1.0)


def two_parameter_mse(n: int, ins: float, outs: float, in_stddev: float, out_stddev: float) -> float:
    """The reduced experiment of eq. reduced_model_fixed_background, solved as a 2×2 system."""
    M = np.array([[1 / (n + 1), 1 / (n + 1)], [0, 1 / n]])
    weights = np.diag([ins / in_stddev**2, outs / out_stddev**2])
    return float(np.linalg.inv(M.T @ weights @ M)[0, 0])


@pytest.mark.parametrize("releases", range(2, 41, 2))
def test_four_ways_to_the_same_risk_in_the_papers_setting(releases: int) -> None:
    """N = 100, n = 50, L = 2…40, 10⁴ trials. The Monte-Carlo check fails falsely once in 10⁵ runs each."""
    basic, half = ACCOUNTANTS[0], releases // 2
    kappa = basic.kappa(releases)
    closed = PAPER.mse_under(basic, half, half)
    levels = math.sqrt(kappa) / 51, math.sqrt(kappa) / 50
    assert closed == pytest.approx(
        PAPER.mse(half, half, in_stddev=levels[0], out_stddev=levels[1]), rel=1e-12
    )
    assert closed == pytest.approx(two_parameter_mse(50, half, half, *levels), rel=1e-9)
    design = PAPER.design(half, half, noise=basic, records=100)
    found = design.exposures(domain=(0, 1))
    assert found.identifiable.tolist() == [True] + [False] * 99
    assert closed == pytest.approx(found.rmse[0] ** 2, rel=1e-9)
    generator = np.random.default_rng(releases)
    records = generator.uniform(-0.5, 0.5, 51)
    trials = 10_000
    in_answers = records.mean() + generator.normal(0, levels[0], (half, trials))
    out_answers = records[1:].mean() + generator.normal(0, levels[1], (half, trials))
    mean_in, mean_out = in_answers.mean(axis=0), out_answers.mean(axis=0)
    guesses = 51 * mean_in - 50 * mean_out
    assert guesses[7] == pytest.approx(float(PAPER.blue(in_answers[:, 7], out_answers[:, 7])), rel=1e-9)
    # Squared errors over the variance are χ²: their mean is 1 ± 4.42 √(2/trials), once in 10⁵ outside.
    ratio = np.mean((guesses - records[0]) ** 2) / closed
    assert abs(ratio - 1) < 4.42 * math.sqrt(2 / trials)


@pytest.mark.parametrize("releases", [2, 6, 40])
def test_the_general_engine_agrees(releases: int) -> None:
    basic, half = ACCOUNTANTS[0], releases // 2
    with_target = sl.SubsetMean(members=range(51), radius=1.0)
    without = sl.SubsetMean(members=range(1, 51), radius=1.0)
    transcript = sl.Transcript([with_target] * half + [without] * half, noise=basic)
    exposure = transcript.geometry(records=100).profile(target=0)
    assert exposure.crb == pytest.approx(PAPER.mse_under(basic, half, half), rel=1e-9)


@given(st.integers(1, 500), st.integers(1, 30), st.integers(1, 30), st.floats(0.01, 10), st.floats(0.01, 10))
def test_the_closed_form_is_the_reduced_experiment(
    n: int, ins: int, outs: int, in_stddev: float, out_stddev: float
) -> None:
    closed = InOut(background=n).mse(ins, outs, in_stddev=in_stddev, out_stddev=out_stddev)
    assert closed == pytest.approx(two_parameter_mse(n, ins, outs, in_stddev, out_stddev), rel=1e-6)


@pytest.mark.parametrize("accountant", ACCOUNTANTS, ids=str)
class TestEveryAccountant:
    def test_the_block_size_cancels(self, accountant: sl.privacy.Accountant) -> None:
        risks = {n: InOut(background=n).design(3, 2, noise=accountant) for n in (1, 7, 60)}
        found = [design.exposures(domain=(0, 1)).rmse[0] ** 2 for design in risks.values()]
        assert found == pytest.approx([PAPER.mse_under(accountant, 3, 2)] * 3, rel=1e-9)

    @pytest.mark.slow
    def test_no_split_beats_the_lower_bound_and_the_odd_factor_is_exact(
        self, accountant: sl.privacy.Accountant
    ) -> None:
        for releases in range(2, 12):
            splits = [PAPER.mse_under(accountant, k, releases - k) for k in range(1, releases)]
            bound = PAPER.lower_bound(accountant, releases)
            assert min(splits) == pytest.approx(PAPER.best_mse_under(accountant, releases), rel=1e-12)
            assert min(splits) >= bound * (1 - 1e-12)
            odd = releases**2 / (releases**2 - 1) if releases % 2 else 1.0
            assert min(splits) == pytest.approx(bound * odd, rel=1e-12)
            assert bound == pytest.approx(4 * accountant.kappa(releases) / releases, rel=1e-12)


def test_the_papers_lower_bound_under_basic_composition() -> None:
    basic = ACCOUNTANTS[0]
    for releases in (2, 10, 40):
        assert PAPER.lower_bound(basic, releases) == pytest.approx(
            8 * releases * math.log(1.25 * releases / 1e-5), rel=1e-12
        )


def test_copies_make_it_worse_under_basic_composition_and_change_little_under_linear_accountants() -> None:
    basic, _, concentrated, renyi, _ = ACCOUNTANTS
    risks = {a: [PAPER.best_mse_under(a, L) for L in range(2, 41, 2)] for a in (basic, concentrated, renyi)}
    assert np.all(np.diff(risks[basic]) > 0)
    assert risks[basic][-1] > 20 * risks[basic][0]
    for linear in (concentrated, renyi):
        assert max(risks[linear]) == pytest.approx(min(risks[linear]), rel=1e-9)


class TestSplits:
    @given(st.integers(1, 60), st.integers(2, 40), st.floats(0.01, 100), st.floats(0.01, 100))
    def test_the_whole_split_is_the_best_of_all(self, n: int, releases: int, a: float, b: float) -> None:
        family = InOut(background=n)
        risks = [family.mse(k, releases - k, in_stddev=a, out_stddev=b) for k in range(1, releases)]
        split = family.best_split(releases, in_stddev=a, out_stddev=b)
        assert split.mse == min(risks)
        assert split.in_releases + split.out_releases == releases
        continuous = family.best_continuous_split(releases, in_stddev=a, out_stddev=b)
        assert continuous.mse <= split.mse * (1 + 1e-12)
        assert continuous.in_releases / continuous.out_releases == pytest.approx(
            (n + 1) / n * a / b, rel=1e-9
        )
        at_it = family.mse(continuous.in_releases, continuous.out_releases, in_stddev=a, out_stddev=b)
        assert at_it == pytest.approx(continuous.mse, rel=1e-9)

    def test_the_nearest_whole_split_is_not_always_the_best(self) -> None:
        """The paper's "nearest feasible rounding" misses: 1.48 of 5 rounds to 1, and 2 is better."""
        family = InOut(background=1)
        kwargs = {"in_stddev": 0.2102, "out_stddev": 1.0}
        continuous = family.best_continuous_split(5, **kwargs)
        assert round(continuous.in_releases) == 1
        assert family.best_split(5, **kwargs).in_releases == 2

    def test_one_release_cannot_be_split(self) -> None:
        for split in (PAPER.best_split, PAPER.best_continuous_split):
            with pytest.raises(InvalidInput, match="at least two releases to split"):
                split(1, in_stddev=1.0, out_stddev=1.0)
        with pytest.raises(InvalidInput, match="at least two releases to split"):
            PAPER.lower_bound(ACCOUNTANTS[0], 1)

    def test_without_one_kind_there_is_no_risk(self) -> None:
        with pytest.raises(InvalidInput, match="not identifiable"):
            PAPER.mse(3, 0, in_stddev=1.0, out_stddev=1.0)
        with pytest.raises(InvalidInput, match="in_releases >= 1"):
            PAPER.mse_under(ACCOUNTANTS[0], 0, 2)


class TestVectorRecords:
    def test_risks_add_over_coordinates(self) -> None:
        vector, scalar = InOut(background=9, dimension=3), InOut(background=9)
        basic = ACCOUNTANTS[0]
        assert vector.mse_under(basic, 2, 1) == pytest.approx(3 * scalar.mse_under(basic, 2, 1))
        queries = [sl.SubsetMean(members=range(k, 10), radius=1.0, dimension=3) for k in (0, 0, 1)]
        exposure = sl.Transcript(queries, noise=basic).geometry(records=10).profile(target=0)
        assert np.trace(np.atleast_2d(exposure.crb)) == pytest.approx(vector.mse_under(basic, 2, 1), rel=1e-9)

    def test_the_estimator_works_coordinate_by_coordinate(self) -> None:
        records = np.random.default_rng(0).normal(size=(10, 3))
        vector = InOut(background=9, dimension=3)
        guess = vector.blue([records.mean(axis=0)] * 2, [records[1:].mean(axis=0)])
        assert np.allclose(guess, records[0])

    def test_answers_have_the_dimension(self) -> None:
        with pytest.raises(InvalidInput, match="of dimension 3, got shape"):
            InOut(background=9, dimension=3).blue([[1.0, 2.0]], [[1.0, 2.0]])
        with pytest.raises(InvalidInput, match="at least one OUT answer"):
            PAPER.blue([1.0], [])


class TestAllocation:
    @given(st.integers(1, 20), st.integers(1, 20), st.floats(1e-7, 3e-7), st.floats(1e-7, 1.9e-7))
    def test_no_other_allocation_is_better(
        self, ins: int, outs: int, in_delta: float, out_delta: float
    ) -> None:
        best = PAPER.best_allocation(
            BUDGET, in_releases=ins, out_releases=outs, in_delta=in_delta, out_delta=out_delta
        )

        def risk(share: float) -> float:
            u, v = share, 1 - share
            c_in, c_out = math.log(1.25 / in_delta), math.log(1.25 / out_delta)
            return 2 * (c_in * ins / u**2 + c_out * outs / v**2)

        share = ins * best.epsilons[0]
        assert share + outs * best.epsilons[1] == pytest.approx(1.0, rel=1e-12)
        assert best.mse == pytest.approx(risk(share), rel=1e-9)
        assert all(best.mse <= risk(share + step) for step in (-1e-3, 1e-3, 0.01, -0.01))
        ratio = (math.log(1.25 / in_delta) * ins / (math.log(1.25 / out_delta) * outs)) ** (1 / 3)
        assert share / (1 - share) == pytest.approx(ratio, rel=1e-9)

    def test_the_noise_that_it_buys_has_that_risk(self) -> None:
        best = PAPER.best_allocation(BUDGET, in_releases=4, out_releases=2)
        levels = [
            math.sqrt(2 * math.log(1.25 / delta)) / epsilon / size
            for epsilon, delta, size in zip(best.epsilons, best.deltas, (51, 50), strict=True)
        ]
        design = PAPER.design(4, 2, noise=[levels[0]] * 4 + [levels[1]] * 2)
        assert design.exposures(domain=(0, 1)).rmse[0] ** 2 == pytest.approx(best.mse, rel=1e-9)
        assert best.proven

    def test_the_minimum_over_release_counts_is_one_of_each(self) -> None:
        risks = {
            (ins, outs): PAPER.best_allocation(BUDGET, in_releases=ins, out_releases=outs).mse
            for ins in range(1, 25)
            for outs in range(1, 25)
        }
        assert min(risks, key=risks.__getitem__) == (1, 1)
        assert risks[1, 1] == PAPER.best_allocation(BUDGET).mse
        c = math.log(1.25 * 2 / 1e-5)
        assert risks[1, 1] == pytest.approx(2 * c * 8, rel=1e-12)

    def test_it_never_loses_to_uniform_splitting(self) -> None:
        for ins, outs in ((1, 1), (5, 1), (3, 4)):
            uniform = PAPER.mse_under(ACCOUNTANTS[0], ins, outs)
            assert PAPER.best_allocation(BUDGET, in_releases=ins, out_releases=outs).mse <= uniform * (
                1 + 1e-12
            )

    def test_beyond_epsilon_one_the_calibration_is_not_proven(self) -> None:
        assert not PAPER.best_allocation(sl.Budget(epsilon=5.0, delta=1e-5)).proven

    def test_deltas_must_fit(self) -> None:
        with pytest.raises(InvalidBudget, match="add up to at most 1e-05"):
            PAPER.best_allocation(BUDGET, in_delta=9e-6, out_delta=9e-6)
        with pytest.raises(InvalidBudget, match="between 0 and 1"):
            PAPER.best_allocation(BUDGET, in_delta=0.0)


@pytest.mark.parametrize(
    "kwargs", [{"background": 0}, {"background": 1, "radius": 0.0}, {"background": 2, "dimension": 0}]
)
def test_bad_families(kwargs: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        InOut(**kwargs)
