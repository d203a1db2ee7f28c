"""Rows that depend on no record: noise that an attacker subtracts, where it is part of other rows' noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from sightline import MembershipDesign
from sightline.errors import InvalidRelease
from sightline.theory.geometry import Evidence
from sightline.theory.labeled import UniformPrior
from tests.numbered_cases import trials


def test_a_published_noise_is_subtracted() -> None:
    covariance = np.array([[1.0, 0.9], [0.9, 1.0]])
    for rows in (np.array([[1, 0], [0, 0]]), sparse.csr_array(np.array([[1, 0], [0, 0]])), [[0], []]):
        records = 2 if isinstance(rows, list) else None
        found = MembershipDesign(rows, records=records, noise=covariance).exposures(domain=(0, 1))
        exact = Fraction(1) - Fraction(9, 10) ** 2  # what the second answer does not say of the first noise
        assert found.identifiable.tolist() == [True, False]
        assert found.rmse[0] == pytest.approx(float(exact) ** 0.5, rel=1e-14)
        assert found.recipe(0) == pytest.approx([1.0, -0.9], rel=1e-14)
        assert found.information[0] == pytest.approx(1 / float(exact), rel=1e-14)


@pytest.mark.slow
def test_against_dense_formulas() -> None:
    generator = np.random.default_rng(61)
    prior = UniformPrior(0.0, 1.0)
    identifiable = 0
    for trial in (cases := trials(60)):
        lines, records = int(generator.integers(3, 8)), int(generator.integers(2, 7))
        rows = generator.integers(0, 2, (lines, records))
        rows[generator.integers(lines)] = 0
        spread = generator.standard_normal((lines, lines)) + np.eye(lines)
        covariance = spread @ spread.T + 0.01 * np.eye(lines)
        given_as = sparse.csr_array(rows) if trial % 2 else rows
        design = MembershipDesign(given_as, noise=covariance, readout="sum")
        found = design.exposures(domain=(0, 1))
        G = rows.T @ np.linalg.solve(covariance, rows)
        linear = np.diagonal(np.linalg.inv(G + np.eye(records) / prior.variance)) / prior.variance
        assert np.allclose(found.remaining_upper, linear, rtol=1e-8)
        assert np.allclose(found.information, np.diagonal(G), rtol=1e-8)
        for target in np.flatnonzero(found.identifiable):
            weights = found.recipe(int(target))
            assert np.allclose(weights @ rows, np.eye(records)[target], atol=1e-8)
            assert weights @ covariance @ weights == pytest.approx(found.rmse[target] ** 2, rel=1e-8)
            without = MembershipDesign(
                rows[rows.any(axis=1)],
                noise=covariance[np.ix_(rows.any(axis=1), rows.any(axis=1))],
                readout="sum",
            ).exposures(domain=(0, 1))
            assert found.rmse[target] <= without.rmse[target] * (1 + 1e-9)
            identifiable += 1
    assert identifiable > 2 / 3 * len(cases)


def test_cells_without_members() -> None:
    cells = sparse.csr_array(np.array([[1, 1], [0, 0]]))
    with pytest.raises(InvalidRelease, match="at least one member in every row"):
        MembershipDesign(cells, noise=[1.0, 1.0], readout="sum")
    found = MembershipDesign(cells, noise=np.array([[1.0, 0.5], [0.5, 1.0]]), readout="sum").exposures(
        domain=(0, 1)
    )
    assert found.evidence in {Evidence.MODULAR, Evidence.FULL_RANK}
    assert found.information == pytest.approx([4 / 3, 4 / 3])
