"""The numbers of the paper's room by a second way: by hand, by SciPy, by simulation, by another copy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from sightline.errors import InvalidInput
from sightline.format import power_of_ten
from sightline.privacy.accountant import Budget
from sightline.privacy.composition import BasicComposition
from sightline.theory.multiset.moments import Moments, pair_crb_at_two, pair_information
from sightline.theory.paper import accountants, mle, realdata, sweeps
from sightline.theory.paper.comparison import ClaimVerdict, Comparison, Effort, Line, claim, joint_test
from sightline.theory.paper.published import normalise, printed_line, reference, shipped_loads

BASIC = BasicComposition(Budget(epsilon=1.0, delta=1e-5))


class TestReference:
    def test_has_all_printed_points(self) -> None:
        curves = [*reference()["fig:poly_synth"]["left"], *reference()["fig:poly_synth"]["right"]]
        assert [[x for x, _ in curve["crb"]] for curve in curves] == [list(range(2, 41))] * 5
        assert [len(points) for points in reference()["fig:realdata"]["left"].values()] == [24] * 4
        assert len(reference()["fig:realdata"]["reference"]) == 100
        for pair in reference()["fig:mle"].values():
            assert [len(pair[name]) for name in ("crb", "inversion", "mle")] == [6, 6, 6]

    def test_some_digits_read_off_the_paper_by_eye(self) -> None:
        left, right = (reference()["fig:poly_synth"][side] for side in ("left", "right"))
        assert left[0]["crb"][0] == [2, 378.012525656]
        assert left[2]["crb"][-1] == [40, 17.860031464]
        assert right[1]["crb"][2] == [4, 821.0021857917]
        assert reference()["fig:realdata"]["left"]["near-boundary"][3] == [8.60456e-05, 2.67458e10]
        assert reference()["fig:mle"]["boundary"]["mle"][-1] == [20, 0.931871048787, 0.0247573997256]

    def test_shares_are_a_whole(self) -> None:
        shares = reference()["fig:realdata"]["right"].values()
        assert sum(shares) == pytest.approx(100, abs=1e-9)
        assert [round(share / 100 * 408) for share in shares] == [91, 123, 191, 3]


class TestComparison:
    def line(self, y: list[float], widths: list[float] = []) -> Line:  # noqa: B006
        return Line.of("risk", x=range(len(y)), y=y, half_widths=widths)

    def test_deviations_by_hand(self) -> None:
        ours, theirs = self.line([1.0, 3.0], [0.3, 0.4]), self.line([1.5, 3.0], [0.4, 0.3])
        compared = Comparison(panel="left", ours=ours, published=theirs)
        assert compared.deviations == pytest.approx([-1.959963985 * 0.5 / 0.5, 0.0])
        assert compared.inside == 1
        assert compared.expected_inside == pytest.approx(
            sum(1 - 2 * norm.sf(1.959963985 * w / 0.5) for w in (0.4, 0.3))
        )
        assert compared.largest_relative_difference == pytest.approx(1 / 3)

    def test_the_joint_limit_is_bonferronis(self) -> None:
        theirs = self.line([1.0] * 24, [0.1] * 24)
        test = joint_test([Comparison(panel="left", ours=self.line([1.0] * 24), published=theirs)])
        assert test is not None
        assert test.points == 24
        assert test.limit == pytest.approx(norm.isf(1e-3 / 48))

    @pytest.mark.slow
    def test_the_joint_test_fails_falsely_no_more_often_than_it_says(self) -> None:
        generator = np.random.default_rng(5)
        failures = 0
        for _ in range(2000):
            a, b = generator.normal(1.0, 0.1, (2, 24))
            widths = [0.1 * 1.959963985] * 24
            pair = Comparison(panel="", ours=self.line(list(a), widths), published=self.line(list(b), widths))
            test = joint_test([pair])
            assert test is not None
            failures += not test.passes
        assert failures <= 8  # 2 expected; above 8 with probability 2e-4, and the seed is fixed

    def test_the_joint_test_sees_one_wrong_point(self) -> None:
        theirs = self.line([1.0] * 24, [0.1] * 24)
        wrong = self.line([1.0] * 23 + [1.3])
        test = joint_test([Comparison(panel="left", ours=wrong, published=theirs)])
        assert test is not None
        assert not test.passes
        assert "disagree" in str(test)

    def test_without_intervals_there_is_nothing_to_test(self) -> None:
        assert joint_test([Comparison(panel="", ours=self.line([1.0]), published=self.line([1.0]))]) is None

    def test_curves_at_different_places_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="at the same x"):
            Comparison(panel="", ours=self.line([1.0]), published=self.line([1.0, 2.0]))


def test_lines_are_whole() -> None:
    with pytest.raises(InvalidInput, match="as many x as y"):
        Line.of("a", x=[1, 2], y=[1])
    with pytest.raises(InvalidInput, match="a half-width for every point"):
        Line.of("a", x=[1, 2], y=[1, 2], half_widths=[1])
    assert printed_line("a", [[1, 2, 3], [4, 5, 6]]).half_widths == (3.0, 6.0)


def test_verdicts() -> None:
    def verdict(**given: object) -> ClaimVerdict:
        return claim("l", "s", checked="c", value=1, quantity="q", **given).verdict  # type: ignore[arg-type]

    assert verdict(holds=True) is ClaimVerdict.HOLDS
    assert verdict(holds=True, remark="but") is ClaimVerdict.REMARK
    assert verdict(holds=False, remark="but") is ClaimVerdict.FAILS


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (-3.9e-12, "-3.9·10⁻¹²"), (99434.5, "99434.5"), (1e7, "1.0·10⁷")]
)
def test_numbers_in_words(value: float, text: str) -> None:
    assert power_of_ten(value) == text


class TestRealData:
    @given(
        mu=st.floats(0.0, 0.9),
        gamma=st.floats(1e-3, 0.9),
        convention=st.sampled_from(["tight", "uniform"]),
    )
    def test_the_mean_is_recovered_from_a_point(self, mu: float, gamma: float, convention: str) -> None:
        family = Moments(bound=2.0, convention=convention)  # type: ignore[arg-type]
        crb = pair_crb_at_two([mu - gamma, mu + gamma], family=family, accountant=BASIC) / 4
        # In units of the bound: a pair in [−1, 1] half as large, whose bound is a quarter.
        low, found, high = realdata._mu(np.array([[gamma / 2, crb]]), BASIC.kappa(2), convention)  # type: ignore[arg-type]
        assert np.nan_to_num(found[0]) ** 2 == pytest.approx((mu / 2) ** 2, abs=1e-9)
        assert not low[0] > found[0]
        assert high[0] >= np.nan_to_num(found[0])

    def test_a_known_pair_is_among_the_printed_points(self) -> None:
        # 0.52739273864214 and −0.14419469813339 are values of the cohorts of fig:poly_synth.
        points = np.array(reference()["fig:realdata"]["left"]["interior"])
        _, mu, _ = realdata._mu(points, BASIC.kappa(2), "tight")
        pairs = np.stack([mu - points[:, 0], mu + points[:, 0]], axis=1)
        assert np.min(np.max(np.abs(pairs - [-0.14419469813339, 0.52739273864214]), axis=1)) < 1e-5

    def test_loads_are_those_of_the_file(self) -> None:
        loads = shipped_loads()
        assert loads.shape == (18 * 12 * 24,)
        assert loads[0] == 137.3
        assert loads.min() >= 0

    @given(
        st.lists(st.floats(0, 1e4), min_size=3, max_size=40).filter(
            lambda v: np.ptp(np.minimum(v, np.quantile(v, 0.99))) > 1e-3
        )
    )
    def test_normalised_loads_fill_the_domain_and_keep_their_order(self, loads: list[float]) -> None:
        z = normalise(np.array(loads))
        assert z.min() == -1
        assert z.max() == 1
        assert np.all(np.diff(z[np.argsort(loads, kind="stable")]) >= 0)

    def test_loads_that_are_all_equal_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="loads that differ"):
            normalise(np.full(5, 3.0))


def gaussian_delta(mu: float, epsilon: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


class TestPrivacyOfThePapersNoise:
    @pytest.mark.slow
    def test_deltas_of_the_attack_figure(self) -> None:
        result = mle.compute_mle(Effort(trials=2))
        for i, epsilon in enumerate(result.delivered_delta.x):
            kappa = 8 * math.log(2.5 / 1e-5) / epsilon**2
            assert result.delivered_delta.y[i] == pytest.approx(
                2 * gaussian_delta(kappa**-0.5, epsilon / 2), rel=1e-6
            )
            assert result.transcript_delta.y[i] == pytest.approx(
                gaussian_delta((2 / kappa) ** 0.5, epsilon), rel=1e-4
            )

    @pytest.mark.parametrize("delta", [1e-5, 1e-8])
    def test_where_the_classical_calibration_breaks(self, delta: float) -> None:
        epsilon = accountants._first_break(delta)
        mu = epsilon / math.sqrt(2 * math.log(1.25 / delta))
        assert gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-6)


def test_the_half_space_risk_by_simulation() -> None:
    C = np.linalg.inv(
        pair_information((-1.0, 0.5), family=Moments(convention="uniform"), accountant=BASIC, releases=2)
    )
    errors = np.random.default_rng(3).multivariate_normal([0, 0], C, 200_000)
    # In the metric of the information the nearest point with a non-negative first error.
    errors = errors + np.where(errors[:, :1] < 0, -errors[:, :1] * C[:, 0] / C[0, 0], 0.0)
    losses = np.sum(errors**2, axis=1) / np.trace(C)
    z = (losses.mean() - sweeps._half_space((-1.0, 0.5))) / (losses.std() / math.sqrt(len(losses)))
    assert abs(z) < 4  # fails falsely with probability 6e-5, and the seed is fixed
