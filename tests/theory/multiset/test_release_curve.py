"""The release curve: the paper's numbers, laws of every family, and digits that are there when claimed."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from tests.theory.multiset.multiset_cases import BASIC, FAMILIES, GROUP, ZCDP, exact_trace
from tests.theory.multiset.paper_numbers import CURVES, TRIPLES

distances = st.floats(-1, 1).filter(lambda x: x == 0 or abs(x) > 1e-6)


@pytest.mark.parametrize("name", CURVES)
class TestThePapersCurves:
    def test_every_printed_number(self, name: str) -> None:
        pair, convention, _, printed = CURVES[name]
        curve = sl.release_curve(
            pair, family=sl.Moments(convention=convention), accountant=BASIC, releases=range(2, 41)
        )
        assert curve.crb == pytest.approx(printed, rel=1e-9)

    def test_the_best_count_and_whether_it_is_the_end_of_the_range(self, name: str) -> None:
        pair, convention, best, _ = CURVES[name]
        curve = sl.release_curve(pair, family=sl.Moments(convention=convention), accountant=BASIC)
        assert curve.best == best
        assert curve.ties == (best,)
        assert curve.still_falling == (name == "boundary")
        assert curve.best_is_global == (name != "boundary")
        assert curve.first_identifiable == 2

    def test_all_together_are_the_same(self, name: str) -> None:
        pair, convention, best, printed = CURVES[name]
        pairs = np.tile(pair, (9, 1))
        curves = sl.multiset.release_curves(
            pairs[:, ::-1], family=sl.Moments(convention=convention), accountant=BASIC, releases=range(2, 41)
        )
        assert curves.crb == pytest.approx(np.tile(printed, (9, 1)), rel=1e-9)
        assert curves.best.tolist() == [best] * 9


@pytest.mark.parametrize(("triple", "best", "crb"), TRIPLES)
def test_the_papers_thresholds(triple: tuple[float, ...], best: int, crb: float) -> None:
    family = sl.Thresholds(bandwidth=0.12, convention="uniform")
    curve = sl.release_curve(triple, family=family, accountant=BASIC)
    assert curve.best == best
    assert curve.crb[best - 1] == pytest.approx(crb, rel=3e-8)
    assert curve.crb[best - 1] == pytest.approx(
        float(exact_trace(triple, family, best)) * BASIC.kappa(best), rel=1e-8
    )
    assert not curve.still_falling


@pytest.mark.parametrize(("triple", "best"), [((-0.95, -0.6, 0.9), 7), ((0.7, 0.85, 0.97), 15)])
def test_tight_sensitivities_move_the_best_count_near_an_edge(triple: tuple[float, ...], best: int) -> None:
    family = sl.Thresholds(bandwidth=0.12)
    assert sl.release_curve(triple, family=family, accountant=BASIC).best == best
    exact = {L: exact_trace(triple, family, L) * BASIC.kappa(L) for L in range(3, 25)}
    assert min(exact, key=exact.__getitem__) == best


def scaled(name: str) -> tuple[float, ...]:
    return tuple(3.3 * z for z in GROUP) if "3.3" in name else GROUP


@pytest.mark.parametrize("name", FAMILIES)
class TestEveryFamily:
    def test_the_curve_is_the_definition_in_high_precision(self, name: str) -> None:
        family = FAMILIES[name]
        twin = sl.Moments() if name == "queries" else family
        counts = [3, 4, 7, 10]
        curve = sl.release_curve(scaled(name), family=family, accountant=BASIC, releases=counts)
        for L, crb in zip(counts, curve.crb, strict=True):
            if np.isfinite(crb):
                truth = exact_trace(scaled(name), twin, L) * BASIC.kappa(L)
                assert crb == pytest.approx(float(truth), rel=1e-11)
        assert np.isfinite(curve.crb[1:]).all()

    def test_it_is_the_general_engines_bound(self, name: str) -> None:
        family, values = FAMILIES[name], scaled(name)
        L = 9
        rows = family.rows(np.sort(values)[None], L)[0]
        geometry = sl.geometry.Geometry(
            jacobian=rows, noise=sl.GaussianNoise(stddevs=np.full(L, np.sqrt(BASIC.kappa(L))))
        )
        exposure = geometry.profile(target=range(3))
        curve = sl.release_curve(values, family=family, accountant=BASIC, releases=[L])
        assert curve.crb[0] == pytest.approx(exposure.crb, rel=1e-11)
        assert curve.value_crb[0] == pytest.approx(np.diagonal(exposure.covariance), rel=1e-11)

    def test_eigenvalues_sum_up_to_the_bound(self, name: str) -> None:
        curve = sl.release_curve(scaled(name), family=FAMILIES[name], accountant=ZCDP, releases=range(1, 11))
        finite = np.isfinite(curve.crb)
        spectral = curve.kappa[finite] * np.sum(1 / curve.eigenvalues[finite], axis=1)
        assert spectral == pytest.approx(curve.crb[finite], rel=1e-10)
        assert (curve.eigenvalues[0, 1:] == 0).all()
        assert curve.growth.ratio[finite] == pytest.approx(
            curve.eigenvalues[finite, -1] / curve.kappa[finite]
        )

    def test_the_bottleneck_is_the_worst_direction(self, name: str) -> None:
        curve = sl.release_curve(scaled(name), family=FAMILIES[name], accountant=ZCDP, releases=range(3, 11))
        worst = curve.bottleneck()
        rows = FAMILIES[name].rows(curve.values[None], worst.releases)[0]
        assert np.sum((rows @ worst.direction) ** 2) == pytest.approx(worst.eigenvalue, rel=1e-10)
        where = curve.releases.tolist().index(worst.releases)
        assert worst.eigenvalue == pytest.approx(curve.eigenvalues[where, -1], rel=1e-10)
        assert worst.share == pytest.approx(
            curve.kappa[where] / worst.eigenvalue / curve.crb[where], rel=1e-10
        )
        assert np.linalg.norm(worst.direction) == pytest.approx(1)
        assert f"{100 * worst.share:.1f} % of the bound" in str(worst)

    def test_the_order_of_the_values_does_not_matter(self, name: str) -> None:
        family, values = FAMILIES[name], scaled(name)
        curves = [
            sl.release_curve(np.roll(values, k), family=family, accountant=ZCDP, releases=range(1, 11))
            for k in range(3)
        ]
        assert curves[0].crb.tolist() == curves[1].crb.tolist() == curves[2].crb.tolist()

    def test_many_groups_together_are_each_one_alone(self, name: str) -> None:
        family = FAMILIES[name]
        groups = np.array(scaled(name)) + np.linspace(-0.2, 0.2, 11)[:, None] * [1.0, -0.5, 0.3]
        counts = range(1, 12)
        seen = []
        together = sl.multiset.release_curves(
            groups, family=family, accountant=BASIC, releases=counts, progress=lambda *at: seen.append(at)
        )
        for b, group in enumerate(groups):
            alone = sl.release_curve(group, family=family, accountant=BASIC, releases=counts)
            assert together.crb[b] == pytest.approx(alone.crb, rel=1e-11)
            assert together[b].status == alone.status
            assert together.best[b] == alone.best
            assert (together.first_identifiable[b] or None) == alone.first_identifiable
        assert len(together) == 11
        total = 1 if family.nested else len(counts)
        assert seen == [("release curves", done / total) for done in range(total + 1)]

    def test_fewer_releases_than_values_are_infinite_not_an_error(self, name: str) -> None:
        curve = sl.release_curve(scaled(name), family=FAMILIES[name], accountant=BASIC, releases=[1, 2, 8])
        assert curve.crb[:2].tolist() == [np.inf, np.inf]
        assert [status.name for status in curve.status[:2]] == ["TOO_FEW_RELEASES"] * 2
        if isinstance(FAMILIES[name], sl.Moments):
            assert np.isinf(curve.value_crb[:2]).all()


@pytest.mark.parametrize("accountant", [BASIC, ZCDP, sl.LaplaceComposition(BASIC.budget)], ids=repr)
class TestAgainstATranscript:
    """The whole path by the general engine: queries, the accountant's noise, geometry, profile."""

    def test_moments(self, accountant: sl.privacy.Accountant) -> None:
        queries = [sl.Moment(order=order, members=range(3), bound=1.0) for order in range(1, 7)]
        exposure = sl.Transcript(queries, noise=accountant).geometry(at=GROUP).profile(target=range(3))
        curve = sl.release_curve(GROUP, family=sl.Moments(), accountant=accountant, releases=[6])
        assert curve.crb[0] == pytest.approx(exposure.crb, rel=1e-12)
        assert curve.value_crb[0] == pytest.approx(np.diagonal(exposure.covariance), rel=1e-12)

    @pytest.mark.parametrize("kernel", ["logistic", "compact"])
    def test_thresholds(self, accountant: sl.privacy.Accountant, kernel: str) -> None:
        family = sl.Thresholds(bandwidth=0.5, kernel=kernel)
        queries = [
            sl.SmoothThreshold(at=t, members=range(3), bound=1.0, bandwidth=0.5, kernel=kernel)
            for t in family.thresholds(6)
        ]
        exposure = sl.Transcript(queries, noise=accountant).geometry(at=GROUP).profile(target=range(3))
        curve = sl.release_curve(GROUP, family=family, accountant=accountant, releases=[6])
        assert curve.crb[0] == pytest.approx(exposure.crb, rel=1e-12)


NESTED = [name for name, family in FAMILIES.items() if family.nested]


@pytest.mark.parametrize("name", NESTED)
@given(a=distances, b=distances, c=distances)
@settings(max_examples=15, deadline=None)
def test_another_release_never_removes_information(name: str, a: float, b: float, c: float) -> None:
    """Without the accountant's price the bound falls: A grows in the Loewner order."""
    curve = sl.release_curve([a, b, c], family=FAMILIES[name], accountant=ZCDP, releases=range(3, 12))
    trace = curve.crb / curve.kappa
    known = np.isfinite(trace)
    room = 1 + np.maximum(curve.relative_error[1:], curve.relative_error[:-1])
    later = known[1:] & known[:-1]
    assert (trace[1:][later] <= (trace[:-1] * room)[later]).all()


class TestALongNestedCurve:
    rng = np.random.default_rng(5)
    values = np.linspace(-0.95, 0.95, 20) + rng.uniform(-0.02, 0.02, 20)
    family = sl.Thresholds(bandwidth=0.1, grid=np.linspace(-1, 1, 300), order="bisecting")

    def test_its_blocks_have_the_digits_of_factorising_afresh(self) -> None:
        curve = sl.release_curve(self.values, family=self.family, accountant=BASIC, releases=range(1, 301))
        rows = self.family.rows(np.sort(self.values)[None], 300)[0]
        afresh = np.full(300, np.inf)
        for L in range(20, 301):
            inverse = np.linalg.inv(np.linalg.qr(rows[:L], mode="r"))
            afresh[L - 1] = BASIC.kappa(L) * np.sum(inverse**2)
        known = np.isfinite(curve.crb)
        assert known.sum() > 270
        error = np.abs(curve.crb[known] / afresh[known] - 1)
        assert (error <= curve.relative_error[known]).all()
        assert np.max(error[5:]) < 1e-10

    def test_counts_in_steps_and_from_the_middle_are_the_same_numbers(self) -> None:
        whole = sl.release_curve(self.values, family=self.family, accountant=ZCDP, releases=range(1, 301))
        part = sl.release_curve(self.values, family=self.family, accountant=ZCDP, releases=range(90, 301, 7))
        assert part.crb == pytest.approx(whole.crb[89::7], rel=1e-12)

    def test_many_at_once_take_the_other_way_to_the_same_numbers(self) -> None:
        groups = np.tile(self.values, (45, 1))
        many = sl.multiset.release_curves(groups, family=self.family, accountant=ZCDP, releases=[40, 120])
        one = sl.release_curve(self.values, family=self.family, accountant=ZCDP, releases=[40, 120])
        assert many.crb == pytest.approx(np.tile(one.crb, (45, 1)), rel=1e-11)


class TestDigits:
    def test_twenty_values_and_twenty_four_moments(self) -> None:
        values = np.cos(np.pi * (np.arange(20) + 0.5) / 20)
        for convention in ("tight", "uniform"):
            family = sl.Moments(convention=convention)
            curve = sl.release_curve(values, family=family, accountant=ZCDP, releases=[20, 24])
            truth = [float(exact_trace(values, family, L, 120)) * ZCDP.kappa(L) for L in (20, 24)]
            assert curve.crb == pytest.approx(truth, rel=1e-8)
            gram = family.rows(np.sort(values)[None], 24)[0]
            loose = ZCDP.kappa(24) * np.trace(np.linalg.inv(gram.T @ gram))
            assert abs(loose / truth[1] - 1) > 1e3 * abs(curve.crb[1] / truth[1] - 1)

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(5))
    def test_twenty_random_values_are_right_to_1e_8_or_say_so(self, seed: int) -> None:
        values = np.random.default_rng(seed).uniform(-1, 1, 20)
        curve = sl.release_curve(values, family=sl.Moments(), accountant=ZCDP, releases=[24])
        truth = float(exact_trace(values, sl.Moments(), 24, 150)) * ZCDP.kappa(24)
        error = abs(curve.crb[0] / truth - 1)
        (status,) = curve.status
        assert error <= 1e-8 or status.name == "ILL_CONDITIONED" or np.isnan(error)
        assert not error > curve.relative_error[0]

    @given(seed=st.integers(0, 10**6), m=st.integers(2, 20))
    @settings(max_examples=25, deadline=None)
    def test_the_error_is_never_above_its_estimate(self, seed: int, m: int) -> None:
        values = np.random.default_rng(seed).uniform(-1, 1, m)
        for family in (sl.Moments(), sl.Thresholds(bandwidth=0.15)):
            curve = sl.release_curve(values, family=family, accountant=ZCDP, releases=[m, m + 4])
            exact = [float(exact_trace(values, family, L, 150)) * ZCDP.kappa(L) for L in (m, m + 4)]
            known = np.isfinite(curve.crb)
            error = np.abs(curve.crb / exact - 1)
            assert (error[known] <= curve.relative_error[known]).all()

    def test_gone_digits_are_not_printed(self) -> None:
        values = np.linspace(0.3, 0.6, 14)
        curve = sl.release_curve(values, family=sl.Moments(), accountant=BASIC, releases=range(12, 40))
        assert np.isnan(curve.crb[-1])
        assert curve.status[-1].name == "UNRELIABLE"
        assert curve.undecided == tuple(range(14, 40))
        assert curve.best == 0
        assert curve.ties == ()
        assert not curve.still_falling
        assert not curve.best_is_global
        assert curve.first_identifiable == 14  # by the Vandermonde theorem, digits or not
        with pytest.raises(sl.SightlineError, match="a curve without one"):
            curve.bottleneck()
        assert np.isnan(curve.eigenvalues[-1, -1])
        assert np.isnan(curve.bottleneck(39).direction).all()
        assert np.isnan(curve.bottleneck(39).share)

    def test_ill_conditioned_digits_carry_a_remark(self) -> None:
        curve = sl.release_curve([0.5, 0.5 + 1e-7], family=sl.Moments(), accountant=BASIC, releases=[4])
        truth = exact_trace([0.5, 0.5 + 1e-7], sl.Moments(), 4)
        assert [status.name for status in curve.status] == ["ILL_CONDITIONED"]
        assert curve.crb[0] == pytest.approx(float(truth) * BASIC.kappa(4), rel=curve.relative_error[0])

    def test_a_value_that_no_threshold_reaches_is_unseen(self) -> None:
        family = sl.Thresholds(bandwidth=0.05, kernel="compact", grid=np.linspace(-0.9, 0.9, 10))
        groups = [[-0.9, 0.0, 0.5], [-0.9, -0.5, 0.3]]
        alone = [sl.release_curve(g, family=family, accountant=BASIC, releases=[10]) for g in groups]
        assert [curve.status[0].name for curve in alone] == ["UNSEEN", "ACCURATE"]
        assert alone[0].crb[0] == np.inf
        unseen = alone[0].bottleneck(10)
        assert (unseen.eigenvalue, unseen.share) == (0.0, 1.0)
        assert np.abs(unseen.direction).tolist() == [0.0, 1.0, 0.0]
        many = sl.multiset.release_curves(groups * 5, family=family, accountant=BASIC, releases=[10])
        assert [many[b].status[0].name for b in range(2)] == ["UNSEEN", "ACCURATE"]

    def test_a_steep_logistic_step_underflows_to_infinity(self) -> None:
        family = sl.Thresholds(bandwidth=1e-4)
        curve = sl.release_curve([-0.7, 0.1], family=family, accountant=BASIC, releases=[4])
        assert curve.crb[0] == np.inf
        assert exact_trace([-0.7, 0.1], family, 4, 4000) > mp.mpf("1e308")

    def test_ties_are_counts_that_digits_cannot_separate(self) -> None:
        # Orders 2 and up see nothing of the value 0 but cost nothing either, under a flat accountant.
        curve = sl.release_curve([0.0], family=sl.Moments(), accountant=ZCDP, releases=range(1, 4))
        assert curve.best == 1
        assert curve.ties == (1,)
        level = sl.multiset.ReleaseCurve(
            releases=curve.releases,
            kappa=np.ones(3),
            family=curve.family,
            accountant=curve.accountant,
            values=curve.values,
            positions=curve.positions,
            signal=curve.signal,
        )
        assert level.ties == (1, 2, 3)


def test_a_value_can_be_exposed_where_the_group_is_not_identifiable() -> None:
    """Three thresholds around one value, none near the two others; two that share a threshold stay open."""
    family = sl.Thresholds(bandwidth=0.2, kernel="compact", grid=[-0.55, -0.5, -0.45, 0.5])
    curve = sl.release_curve([-0.5, 0.45, 0.55], family=family, accountant=BASIC, releases=[2, 4])
    alone = sl.release_curve([-0.5], family=family, accountant=BASIC, releases=[2, 4])
    assert [status.name for status in curve.status] == ["TOO_FEW_RELEASES", "UNSEEN"]
    assert curve.value_crb[:, 0] == pytest.approx(alone.crb, rel=1e-12)
    assert np.isinf(curve.value_crb[:, 1:]).all()


def test_the_same_geometry_under_another_accountant() -> None:
    curve = sl.release_curve(GROUP, family=sl.Moments(), accountant=BASIC)
    other = sl.release_curve(GROUP, family=sl.Moments(), accountant=ZCDP)
    assert curve.under(ZCDP).crb.tolist() == other.crb.tolist()
    curves = sl.multiset.release_curves([GROUP], family=sl.Moments(), accountant=BASIC)
    assert curves.under(ZCDP).crb[0].tolist() == other.crb.tolist()


def test_results_are_locked_and_do_not_print_values() -> None:
    curve = sl.release_curve([0.123456789, -0.4], family=sl.Moments(), accountant=BASIC)
    assert "0.1234" not in repr(curve)
    with pytest.raises(ValueError, match="read-only"):
        curve.crb[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        curve.values[0] = 1.0


def test_growth_tells_rising_from_falling() -> None:
    interior = sl.release_curve([-0.4, 0.7], family=sl.Moments(), accountant=BASIC, releases=range(2, 60))
    boundary = sl.release_curve([-1.0, 1.0], family=sl.Moments(), accountant=BASIC, releases=range(2, 60))
    assert interior.growth.exponent[-1] < -2
    assert 0.5 < boundary.growth.exponent[-10:].mean() < 1


class TestTheConvention:
    def test_a_curve_says_which_it_used(self) -> None:
        for family in (sl.Moments, lambda **given: sl.Thresholds(bandwidth=0.5, **given)):
            for convention in ("tight", "uniform"):
                arguments = {"family": family(convention=convention), "accountant": BASIC, "releases": [3]}
                assert sl.release_curve([0.1, 0.4], **arguments).convention == convention
                assert sl.multiset.release_curves([[0.1, 0.4]], **arguments).convention == convention
            assert family().convention == "tight"

    def test_queries_have_none(self) -> None:
        queries = sl.multiset.QueryFamily(queries=[sl.Moment(order=1, members=[0], bound=1.0)])
        assert queries.convention is None


class TestTheEdgeOfACompactStep:
    """A value that only the end of a step's support sees: the offset's rounding is most of the slope."""

    @pytest.mark.parametrize("room", [1e-1, 1e-3, 1e-6, 1e-9, 1e-11, 1e-13, 1e-15])
    def test_the_stated_error_is_not_exceeded(self, room: float) -> None:
        generator = np.random.default_rng(7)
        for _ in range(20):
            at, tau = generator.uniform(-0.5, 0.5), float(generator.uniform(0.05, 0.3))
            value = at + tau * (1 - room)
            family = sl.Thresholds(bandwidth=tau, kernel="compact", grid=[at], convention="uniform")
            found = sl.release_curve([value], family=family, accountant=BASIC, releases=[1])
            if np.isfinite(found.crb[0]):
                exact = float(exact_trace([value], family, 1)) * BASIC.kappa(1)
                assert abs(found.crb[0] / exact - 1) <= found.relative_error[0]
            else:
                assert room < 1e-12

    def test_values_away_from_the_edge_are_not_affected(self) -> None:
        family = sl.Thresholds(bandwidth=0.3, kernel="compact")
        curve = sl.release_curve([-0.4, 0.2], family=family, accountant=BASIC, releases=[20])
        assert curve.relative_error[0] < 1e-13
