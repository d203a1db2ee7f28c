"""The smallest identifiable combination around a record, against exact ranks."""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
import pytest

import sightline as sl
import tests.labeled.naive_labeled as naive
from sightline import MembershipDesign
from sightline.errors import InvalidInput, InvalidRelease


def rank(rows: np.ndarray) -> int:
    return flint.fmpz_mat(rows.tolist()).rank() if rows.size else 0


@pytest.mark.slow
def test_it_is_identifiable_and_no_part_of_it_is() -> None:
    generator = np.random.default_rng(31)
    alone = entangled = 0
    for _ in range(250):
        rows = naive.random_rows(generator, most=8)
        stddevs = generator.uniform(0.1, 2, len(rows))
        design = MembershipDesign(rows, noise=stddevs)
        record = int(generator.choice(np.flatnonzero(rows.any(axis=0))))
        found = design.combination(record)
        coefficients = np.zeros(rows.shape[1])
        coefficients[found.records] = [float(value) for value in found.coefficients]
        assert coefficients[record] == 1
        # Unbiased for the combination, and as noisy as promised.
        means = rows / rows.sum(axis=1, keepdims=True)
        assert np.allclose(found.recipe @ means, coefficients, atol=1e-8)
        assert found.rmse == pytest.approx(np.linalg.norm(found.recipe * stddevs), rel=1e-8)
        # Smallest: the other columns span a hyperplane, so no combination lives on fewer of these records.
        others = rows[:, coefficients == 0]
        assert rank(others) == rank(rows) - 1
        exposures = design.exposures(domain=(0, 1))
        if exposures.groups.identifiable[exposures.group[record]]:
            group = exposures.members(exposures.group[record])
            assert np.array_equal(found.records, group)
            assert found.rmse == pytest.approx(exposures.groups.rmse[exposures.group[record]], rel=1e-8)
            alone += 1
        else:
            entangled += 1
    assert min(alone, entangled) > 20


def test_the_general_engine_agrees_on_its_risk() -> None:
    rows = [[0, 1], [1, 2], [0, 1, 2, 3]]
    stddevs = [0.1, 0.2, 0.3]
    found = MembershipDesign(rows, records=5, noise=stddevs, readout="sum").combination(0)
    assert found.records.tolist() == [0, 3]  # all less the middle pair
    queries = [sl.SubsetSum(members=row, radius=1.0) for row in rows]
    exposure = sl.Transcript(queries, noise=stddevs).geometry(records=5).profile(functional=[1, 0, 0, 1, 0])
    assert found.rmse == pytest.approx(exposure.rmse, rel=1e-9)


def test_what_is_known_drops_out() -> None:
    design = MembershipDesign([[0, 1], [1, 2]], records=3, noise=[1.0, 1.0], readout="sum")
    assert design.combination(0).records.tolist() == [0, 2]
    assert design.combination(0, known=[2]).records.tolist() == [0]


def test_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    design = MembershipDesign([[0, 1], [1, 2]], records=4, noise=[1.0, 1.0])
    for record in (-1, 4):
        with pytest.raises(InvalidInput, match="a record from 0 to 3"):
            design.combination(record)
    with pytest.raises(InvalidInput, match="record 0 in known="):
        design.combination(0, known=[0])
    with pytest.raises(InvalidInput, match="record 3, which is in none"):
        design.combination(3)
    with pytest.raises(InvalidRelease, match="whole-number weights"):
        MembershipDesign([[0.5, 0.3], [0.1, 0.7]], noise=[1.0, 1.0], readout="sum").combination(0)
    monkeypatch.setattr("sightline.labeled.design._LARGEST", 3)
    with pytest.raises(InvalidInput, match="at most 3 entries"):
        design.combination(0)


def test_long_coefficients_are_exact() -> None:
    large = MembershipDesign([[1, 2**20 - 3, 1], [3, 7, 2**20 - 7]], noise=[1.0, 1.0], readout="sum")
    found = large.combination(0)
    # Eliminate record 1 by hand: 7 times the first row minus (2^20 - 3) times the second.
    one, other = 7 - 3 * (2**20 - 3), 7 - (2**20 - 3) * (2**20 - 7)
    assert dict(zip(found.records.tolist(), found.coefficients, strict=True)) == {
        0: 1,
        2: Fraction(other, one),
    }


@pytest.mark.slow
def test_coefficients_of_random_rows_are_in_the_row_space() -> None:
    for seed in range(12):
        rows = np.random.default_rng(seed).integers(0, 2, size=(40, 41))
        found = MembershipDesign(rows, noise=np.ones(40), readout="sum").combination(0)
        vector = np.zeros(41, dtype=object)
        vector[found.records] = found.coefficients
        table = flint.fmpq_mat([[flint.fmpq(int(entry)) for entry in row] for row in rows])
        extended = [[flint.fmpq(v.numerator, v.denominator) for v in map(Fraction, vector)]]
        with_it = flint.fmpq_mat(table.table() + extended)
        assert vector[0] == 1
        assert with_it.rank() == table.rank()
