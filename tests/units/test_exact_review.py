"""Thousands of designs with nasty structure against exact rank: no wrong answer on any route."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import tests.units.exact_designs as exact
from sightline import MembershipDesign


@pytest.mark.thorough
@pytest.mark.slow
def test_integer_designs() -> None:
    generator = np.random.default_rng(2024)
    yes = no = 0
    for trial in range(1000):
        rows = exact.integer_rows(generator)
        given_as = (rows, rows.astype(np.float64), sparse.csr_array(rows))[trial % 3]
        noise = 10 ** generator.uniform(-3, 3, len(rows))
        found = MembershipDesign(given_as, noise=noise, readout="sum").exposures(domain=(0, 1))
        truth = exact.identifiable(rows)
        assert not found.undecided.any()
        assert found.identifiable.tolist() == truth.tolist(), rows.tolist()
        assert np.array_equal(np.isfinite(found.rmse), truth)
        yes, no = yes + int(truth.sum()), no + int((~truth).sum())
    assert min(yes, no) > 1200


@pytest.mark.thorough
@pytest.mark.slow
def test_real_designs() -> None:
    generator = np.random.default_rng(2025)
    yes = no = undecided = 0
    for trial in range(1000):
        rows = exact.real_rows(generator)
        given_as = sparse.csr_array(rows) if trial % 2 else rows
        found = MembershipDesign(given_as, noise=np.ones(len(rows)), readout="sum").exposures(domain=(0, 1))
        truth = exact.identifiable(rows)
        decided = ~found.undecided
        assert found.identifiable[decided].tolist() == truth[decided].tolist(), rows.tolist()
        assert np.array_equal(np.isfinite(found.rmse), found.identifiable)
        yes += int(found.identifiable.sum())
        no += int((decided & ~found.identifiable).sum())
        undecided += int(found.undecided.sum())
    assert min(yes, no) > 800
    assert 0 < undecided < 0.4 * (yes + no), (yes, no, undecided)


class TestWeights:
    def test_one_and_next_to_nothing_in_one_row(self) -> None:
        for small in (1e-8, 1e-12, 1e-200):
            found = MembershipDesign([[1.0, small]], noise=[1.0], readout="sum").exposures(domain=(0, 1))
            assert not found.identifiable.any()
            assert np.isinf(found.rmse).all()

    def test_integers_beyond_exact_sums_of_products(self) -> None:
        rows = np.array([[2**40, 1, 0], [2**41, 2, 0], [1, 0, 2**45 + 1]])
        for given_as in (rows, sparse.csr_array(rows), rows.astype(np.float64)):
            found = MembershipDesign(given_as, noise=np.ones(3), readout="sum").exposures(domain=(0, 1))
            assert not found.identifiable.any()
            assert not found.undecided.any()
            more = MembershipDesign(
                np.vstack([rows, [[0, 0, 1]]]), noise=np.ones(4), readout="sum"
            ).exposures(domain=(0, 1))
            assert more.identifiable.tolist() == [True, True, True]
            for target, mse in exact.mean_squared_errors(np.vstack([rows, [[0, 0, 1]]]), np.ones(4)).items():
                assert more.rmse[target] == pytest.approx(float(mse) ** 0.5, rel=more.relative_error)

    def test_too_many_columns_are_undecided_and_not_yes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sightline.units.row_integers.MOST_LOOKED_AT", 3)
        rows = np.array([[2**40, 1], [1, 2**40]])
        found = MembershipDesign(rows, noise=np.ones(2), readout="sum").exposures(domain=(0, 1))
        assert found.undecided.all()
        assert not found.identifiable.any()
