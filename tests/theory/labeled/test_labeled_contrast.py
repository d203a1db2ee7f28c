"""One contrast: closed forms against Schur complements, and the test for the symmetry."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sightline as sl
from sightline import MembershipDesign
from sightline.errors import InvalidInput
from sightline.theory.labeled import InOut, exchangeable_information, one_contrast_information, symmetry


def schur(a: float, c: float, d: float, e: float, m: int) -> float:
    B = (d - e) * np.eye(m - 1) + e * np.ones((m - 1, m - 1))
    return a - c**2 * np.ones(m - 1) @ np.linalg.solve(B, np.ones(m - 1))


@given(st.floats(0.1, 10), st.floats(-3, 3), st.floats(0.1, 10), st.floats(-2, 5), st.integers(2, 9))
def test_one_contrast_is_the_schur_complement(a: float, c: float, d: float, e: float, m: int) -> None:
    assume((m == 2 or d - e > 1e-3) and d + (m - 2) * e > 1e-3)
    found = one_contrast_information(target=a, coupling=c, diagonal=d, off_diagonal=e, size=m)
    scale = a + c**2 * (m - 1) / (d + (m - 2) * e)
    assert abs(found - schur(a, c, d, e, m)) < 1e-9 * max(scale, 1)


@given(st.floats(0.1, 10), st.floats(0, 0.999), st.integers(2, 12))
def test_the_exchangeable_case(alpha: float, share: float, m: int) -> None:
    tau = alpha * share
    found = exchangeable_information(alpha=alpha, tau=tau, size=m)
    same = one_contrast_information(target=alpha, coupling=tau, diagonal=alpha, off_diagonal=tau, size=m)
    assert found == pytest.approx(same, rel=1e-9)


class TestSymmetry:
    def test_all_pairs_are_exchangeable(self) -> None:
        """Every pair of five records: G = 3I + 11ᵀ, at noise 0.5."""
        pairs = [[i, j] for i in range(5) for j in range(i)]
        design = MembershipDesign(pairs, records=6, noise=np.full(10, 0.5), readout="sum")
        report = symmetry(design, target=2)
        assert report.holds
        assert report.size == 5
        assert (report.target, report.coupling) == pytest.approx((16.0, 4.0))
        assert report.information == pytest.approx(exchangeable_information(alpha=16, tau=4, size=5))
        found = design.exposures(domain=(0, 1))
        assert 1 / found.rmse[2] ** 2 == pytest.approx(report.information, rel=1e-9)
        assert (
            str(report)
            == f"one contrast: information {report.information:.6g} about the target, in a block of 5"
        )

    def test_a_target_apart_from_an_orbit_of_backgrounds(self) -> None:
        rows = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3], [1, 2, 3]]
        stddevs = [0.2] * 3 + [0.5] * 3 + [0.1]
        design = MembershipDesign(rows, records=4, noise=stddevs)
        report = symmetry(design, target=0)
        queries = [sl.SubsetMean(members=row, radius=1.0) for row in rows]
        exposure = sl.Transcript(queries, noise=stddevs).geometry(records=4).profile(target=0)
        assert report.holds
        assert report.information == pytest.approx(1 / exposure.crb, rel=1e-9)

    def test_in_out_has_it_with_a_singular_background(self) -> None:
        design = InOut(background=5).design(2, 3, noise=np.full(5, 0.1))
        report = symmetry(design, target=0)
        assert report.holds
        assert report.information is None
        assert report.diagonal == pytest.approx(report.off_diagonal)
        assert "only the sum of the others can be seen" in str(report)

    def test_in_the_reduced_coordinates_it_is_regular(self) -> None:
        """Target and one background record: the IN/OUT information ab/(a + b)."""
        design = InOut(background=1).design(1, 1, noise=[0.1, 0.2])
        report = symmetry(design, target=0)
        assert 1 / report.information == pytest.approx(
            InOut(background=1).mse(1, 1, in_stddev=0.1, out_stddev=0.2)
        )

    def test_heterogeneous_designs_do_not(self) -> None:
        report = symmetry(MembershipDesign([[0, 1, 2], [1, 3], [0, 3]], records=4, noise=[1.0] * 3), target=0)
        assert not report.holds
        assert report.information is None
        assert "no one-contrast symmetry" in str(report)

    def test_noise_can_break_it(self) -> None:
        pairs = [[0, 1], [0, 2], [1, 2]]
        assert symmetry(MembershipDesign(pairs, records=3, noise=[1.0, 1.0, 1.0]), target=0).holds
        assert not symmetry(MembershipDesign(pairs, records=3, noise=[1.0, 1.1, 1.0]), target=0).holds

    def test_bad_targets(self) -> None:
        design = MembershipDesign([[0, 1]], records=3, noise=[1.0])
        with pytest.raises(InvalidInput, match="from 0 to 2, got 3"):
            symmetry(design, target=3)
        with pytest.raises(InvalidInput, match="in none"):
            symmetry(design, target=2)
        with pytest.raises(InvalidInput, match="record 0 alone"):
            symmetry(MembershipDesign([[0]], records=3, noise=[1.0]), target=0)

    def test_too_many_signatures(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sightline.theory.labeled.inout.MOST_SQUARE", 2)
        with pytest.raises(InvalidInput, match="at most 2 signatures"):
            symmetry(MembershipDesign(np.eye(4, dtype=int), noise=[1.0] * 4), target=0)


class TestBadInput:
    def test_one_contrast(self) -> None:
        good = {"target": 1.0, "coupling": 0.5, "diagonal": 1.0, "off_diagonal": 0.5, "size": 4}
        for change, message in (
            ({"size": 1}, "at least one nuisance"),
            ({"diagonal": 0.5}, "positive definite"),
            ({"off_diagonal": -0.6}, "positive definite"),
            ({"coupling": np.nan}, "finite entries"),
        ):
            with pytest.raises(InvalidInput, match=message):
                one_contrast_information(**(good | change))

    def test_exchangeable(self) -> None:
        with pytest.raises(InvalidInput, match="at least one nuisance"):
            exchangeable_information(alpha=1.0, tau=0.0, size=1)
        for alpha, tau in ((1.0, 1.0), (1.0, -0.1), (np.inf, 0.0)):
            with pytest.raises(InvalidInput, match="alpha > tau >= 0"):
                exchangeable_information(alpha=alpha, tau=tau, size=3)
