"""Certified curves: the truth is inside, the ends are outside, and a decision is a proof."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from sightline.errors import InvalidInput
from tests.multiset.multiset_cases import BASIC, FAMILIES, GROUP, ZCDP, exact_basic_kappa, exact_trace

HARD = {
    "a pair at distance 1e-6": ([0.5, 0.500001], [2, 3, 4, 10, 30]),
    "a pair at distance 1e-12 near the boundary": ([1 - 1e-12, 1.0], [2, 7]),
    "neighbouring doubles": ([0.3, np.nextafter(0.3, 1)], [2, 5]),
    "thirty values": (np.linspace(-0.97, 0.99, 30), [30, 36]),
    "thirty values in a cluster": (0.5 + 0.01 * np.arange(30) / 30, [30, 33]),
    "two clusters": ([-0.5, -0.5 + 1e-7, 0.4, 0.4 + 1e-9], [4, 9]),
    "one value": ([0.7], [1, 2, 20]),
    "the boundary pair": ([-1.0, 1.0], [2, 9]),
    "zero and tiny": ([0.0, 1e-200], [2, 4]),
}


def encloses(curve: sl.multiset.CertifiedCurve, where: int, truth: mp.mpf) -> bool:
    return mp.mpf(float(curve.lower[where])) <= truth <= mp.mpf(float(curve.upper[where]))


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("convention", ["tight", "uniform"])
def test_hard_moments_are_enclosed(name: str, convention: str) -> None:
    values, counts = HARD[name]
    family = sl.Moments(convention=convention)
    curve = sl.multiset.certified_curve(values, family=family, accountant=BASIC, releases=counts)
    for i, L in enumerate(counts):
        with mp.workdps(60 if len(values) == 1 else 900):
            trace = exact_trace(values, family, L, mp.mp.dps)
            # Both for the formula of kappa and for the double that calibrates the noise.
            if trace * exact_basic_kappa(L) > mp.mpf("1e308"):
                assert curve.upper[i] == np.inf
                continue
            assert encloses(curve, i, trace * exact_basic_kappa(L))
            assert encloses(curve, i, trace * mp.mpf(BASIC.kappa(L)))
        assert curve.upper[i] / curve.lower[i] - 1 < 1e-13


CERTIFIED = [name for name in FAMILIES if name != "queries"]


@pytest.mark.parametrize("name", CERTIFIED)
def test_every_family_is_enclosed(name: str) -> None:
    family = FAMILIES[name]
    values = [3.3 * z for z in GROUP] if "3.3" in name else GROUP
    counts = range(1, 9)
    curve = sl.multiset.certified_curve(values, family=family, accountant=ZCDP, releases=counts)
    normal = sl.release_curve(values, family=family, accountant=ZCDP, releases=counts)
    for i, L in enumerate(counts):
        if np.isfinite(curve.upper[i]):
            assert encloses(curve, i, exact_trace(values, family, L) * mp.mpf(ZCDP.kappa(L)))
    known = np.isfinite(normal.crb)
    assert curve.crb[known] == pytest.approx(normal.crb[known], rel=1e-10)
    assert (known == np.isfinite(curve.upper)).all()
    assert curve.first_identifiable == normal.first_identifiable
    assert curve.best == normal.best


@given(values=st.lists(st.floats(-1, 1), min_size=1, max_size=4, unique=True), bound=st.floats(1, 1e6))
@settings(max_examples=30, deadline=None)
def test_no_group_escapes(values: list[float], bound: float) -> None:
    family = sl.Moments(bound=bound)
    L = len(values) + 1
    curve = sl.multiset.certified_curve(values, family=family, accountant=ZCDP, releases=[L])
    with mp.workdps(4500):  # differences of the smallest doubles, to the eighth power
        truth = exact_trace(values, family, L, 4500) * mp.mpf(ZCDP.kappa(L))
        assert encloses(curve, 0, truth) or (truth > mp.mpf("1e308") and curve.upper[0] == np.inf)


def test_a_decision_is_a_proof() -> None:
    pair = (0.52739273864214, 0.96285908500679)
    curve = sl.multiset.certified_curve(pair, family=sl.Moments(), accountant=BASIC)
    assert curve.best == 4
    assert curve.candidates == (4,)
    others = np.delete(curve.lower, 3)
    assert (others > curve.upper[3]).all()


def test_candidates_that_cannot_be_told_apart_stay_candidates() -> None:
    curve = sl.multiset.certified_curve([0.3, 0.5], family=sl.Moments(), accountant=BASIC, releases=[3, 4])
    wide = sl.multiset.CertifiedCurve(
        releases=curve.releases,
        lower=np.array([1.0, 1.5]),
        upper=np.array([2.0, 2.5]),
        bits=curve.bits,
        convention=curve.convention,
    )
    assert wide.candidates == (3, 4)
    assert wide.best is None


def test_no_releases_no_candidates() -> None:
    curve = sl.multiset.certified_curve([0.3, 0.5], family=sl.Moments(), accountant=BASIC, releases=[1])
    assert (curve.lower[0], curve.upper[0], curve.crb[0]) == (np.inf, np.inf, np.inf)
    assert curve.candidates == ()
    assert curve.best is None
    assert curve.first_identifiable is None


def test_equal_values_are_proven_not_identifiable() -> None:
    curve = sl.multiset.certified_curve(
        [0.3, 0.3], family=sl.Moments(), accountant=BASIC, releases=range(1, 5)
    )
    assert np.isinf(curve.lower).all()
    assert np.isinf(curve.upper).all()


def test_exact_zeros_are_proven_not_identifiable() -> None:
    family = sl.Thresholds(bandwidth=0.05, kernel="compact", grid=np.linspace(-0.9, 0.9, 10))
    curve = sl.multiset.certified_curve([-0.9, 0.0, 0.5], family=family, accountant=BASIC, releases=[10])
    assert (curve.lower[0], curve.upper[0]) == (np.inf, np.inf)


def test_a_singular_signal_that_no_zero_betrays_is_left_open() -> None:
    values = [-0.5, 0.5]
    doubled = sl.multiset.Mixture(families=(sl.Moments(), sl.Moments()), turns=(0, 1))
    steps = []
    open_ = sl.multiset.certified_curve(
        values, family=doubled, accountant=BASIC, releases=[2], progress=lambda *at: steps.append(at)
    )
    # The first moment twice: rank one, by a symmetry and not by zeros.
    assert open_.upper[0] == np.inf
    floor = BASIC.kappa(2) * 2 / 0.5  # κ Σ 1/A_kk with A_kk = 2/4
    assert open_.lower[0] == pytest.approx(floor, rel=1e-12)
    assert open_.lower[0] <= floor
    assert steps[0] == ("certified curve", 0.0)
    assert steps[-1] == ("certified curve", 1.0)


def test_own_queries_have_no_certified_curve() -> None:
    with pytest.raises(InvalidInput, match="use release_curve"):
        sl.multiset.certified_curve(GROUP, family=FAMILIES["queries"], accountant=BASIC, releases=[3])


@pytest.mark.parametrize("values", [[], [np.nan, 0.1], [1.5, 0.2]])
def test_bad_groups_are_refused(values: list[float]) -> None:
    with pytest.raises(InvalidInput):
        sl.multiset.certified_curve(values, family=sl.Moments(), accountant=BASIC)


def test_an_accountant_is_needed() -> None:
    with pytest.raises(InvalidInput, match="an accountant"):
        sl.multiset.certified_curve([0.1], family=sl.Moments(), accountant=1.0)
