"""What the review found in the labeled engine, each case against exact arithmetic."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import tests.units.exact_designs as drawn
import tests.units.fuzz_designs as designs
from sightline import MembershipDesign
from sightline.bounds.van_trees import cosine_precision, uniform_bound, uniform_precision
from sightline.noise.laws import CorrelatedNoise, GaussianNoise, LaplaceNoise
from tests.units.exact_answers import ExactDesign


def compared(rows: np.ndarray, noise: GaussianNoise | LaplaceNoise | CorrelatedNoise) -> Counter[str]:
    """Every number of the engine against the truth."""
    scales = noise.covariance if noise.correlated else noise.scales
    exact = ExactDesign(rows=rows, covariance=scales, laplace=isinstance(noise, LaplaceNoise))
    case = designs.Case(rows=rows, noise=noise, exact=exact, known=())
    count: Counter[str] = Counter()
    for name in designs.PRIORS:
        design = MembershipDesign(rows, noise=noise, readout="sum")
        found = design.exposures(domain=(0.0, 1.0), prior=name)
        designs.compare(found, case, name, count, numbers=True)
    return count


def mixed(size: int) -> CorrelatedNoise:
    """Correlated noise: every answer shares some with all others."""
    return CorrelatedNoise(blocks=[np.ones((size, size)) + 3 * np.eye(size)])


def test_columns_that_depend_on_each_other_to_rounding() -> None:
    """The RMSE of a decided record was that of dependent columns, 59 % off the one of the doubles."""
    column = np.array([448.14133141, 1623.2899871, 0.0, 9295.7049871])
    rows = np.column_stack([[0.0, 0.0, 2.1, -4535.9], column, column * 0.9522, column * 0.8779])
    rows = np.vstack([rows, rows[0] + rows[3]])
    assert compared(rows, GaussianNoise(stddevs=np.ones(5)))["undecided"] > 0


def test_records_in_very_different_units_under_correlated_noise() -> None:
    """The information on the small one was 45 % off, and an upper end 3e-8 too low, with 4e-11 stated."""
    rows = np.array([[1.31073e-2, 1.31072e12], [1.31072e-2, 0.0], [0.0, 1.31073e12], [2.62145e-2, 6.5536e12]])
    assert compared(rows, mixed(4))["upper ends"] == 2 * len(designs.PRIORS)


@pytest.mark.parametrize("weight", [711, 2000])
def test_recipes_of_a_steep_ladder(weight: int) -> None:
    """The RMSE was certified and its recipe was not: it missed by more than the value."""
    rows = drawn.ladder(10, weight) * 4097
    count = compared(rows, GaussianNoise(stddevs=10.0 ** np.array([-5, -5, 1, 0, -4, -8, -3, 0, -6, 0])))
    assert count["recipe entries"] == 100 * len(designs.PRIORS)


def test_a_total_beside_cells_with_noise_that_shares_a_part() -> None:
    """A coefficient that should be zero was not, and the answers were refused as free of noise."""
    combine = np.array(
        [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [-1, -1, 0, -1], [0, 0, 0, 1]]
    )
    own = np.array([[41, -4, 4, -16], [-4, 8, 6, -2], [4, 6, 21, -4], [-16, -2, -4, 10]])
    rows = combine @ np.array([[0, 1, 1, 1], [0, 1, 1, 0], [0, 1, 1, 1], [1, 1, 1, 1]])
    noise = CorrelatedNoise(blocks=[(combine @ own @ combine.T).astype(np.float64)])
    assert compared(rows, noise)["decisions"] > 0


def test_the_precision_that_a_prior_adds_is_no_difference_of_large_numbers() -> None:
    """For much information it came out far too large, and the lower end of other records fell to nothing."""
    large = np.geomspace(1e6, 1e30, 50)
    assert np.allclose(uniform_precision(large), 2 * np.sqrt(large) + 4, rtol=1e-3)
    assert np.all(uniform_precision(large) >= 2 * np.sqrt(large))
    assert np.all(cosine_precision(large) <= 4 * np.pi**2)
    assert np.allclose(cosine_precision(np.array([1e70, 1e300])), 4 * np.pi**2)  # and nothing overflows
    little = np.geomspace(1e-2, 1e4, 50)
    assert np.allclose(uniform_precision(little), 1 / uniform_bound(little) - little, rtol=1e-4)
