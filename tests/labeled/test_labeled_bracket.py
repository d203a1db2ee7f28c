"""The bracket on the risk of every attack: its constants, its bounds, and brute force between them."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline import MembershipDesign
from sightline.errors import InvalidInput
from sightline.labeled import CosineSquaredPrior


def test_the_constants_of_the_prior_by_quadrature() -> None:
    prior = CosineSquaredPrior(width=3.0)
    half = mpmath.mpf(3) / 2

    def density(x: mpmath.mpf) -> mpmath.mpf:
        return 2 / mpmath.mpf(3) * mpmath.cos(mpmath.pi * x / 3) ** 2

    def integral(f: object) -> mpmath.mpf:
        return mpmath.quad(f, [-half, 0, half])

    assert integral(density) == pytest.approx(1.0, rel=1e-12)
    assert prior.variance == pytest.approx(float(integral(lambda x: x**2 * density(x))), rel=1e-12)
    score = integral(lambda x: mpmath.diff(density, x) ** 2 / density(x) if abs(x) < half else 0)
    assert prior.fisher_information == pytest.approx(float(score), rel=1e-8)
    entropy = integral(lambda x: -density(x) * mpmath.log(density(x)) if density(x) > 0 else 0)
    assert prior.entropy_power == pytest.approx(float(mpmath.exp(2 * entropy) / (2 * mpmath.pi * mpmath.e)))


def exact_risks(rows: np.ndarray, stddev: float, *, nodes: int, answers: int) -> np.ndarray:
    """Bayes risks under the cos² prior on [-1/2, 1/2] over v, by quadrature over records and answers.

    One or two answers; the density of the answers given each node is a product, so that the posterior moments
    on the grid of answers are matrix products.
    """
    lines, records = rows.shape
    points, weights = np.polynomial.legendre.leggauss(nodes)
    points, weights = points / 2, weights / 2 * 2 * np.cos(np.pi * points / 2) ** 2
    grid = np.stack(np.meshgrid(*[points] * records, indexing="ij")).reshape(records, -1)
    mass = np.prod(np.stack(np.meshgrid(*[weights] * records, indexing="ij")), axis=0).ravel()
    assert mass.sum() == pytest.approx(1.0, rel=1e-9)
    signal = rows @ grid
    kernels = []
    for line in range(lines):
        reach = rows[line].sum() / 2 + 7 * stddev
        at = np.linspace(-reach, reach, answers)
        kernel = np.exp(-(((at[:, None] - signal[line]) / stddev) ** 2) / 2) / stddev / np.sqrt(2 * np.pi)
        kernels.append(kernel * (at[1] - at[0]))
    second = kernels[1] if lines == 2 else np.ones((1, grid.shape[1]))
    evidence = (kernels[0] * mass) @ second.T
    learned = []
    for record in range(records):
        moment = (kernels[0] * (mass * grid[record])) @ second.T
        squares = np.divide(moment**2, evidence, out=np.zeros_like(moment), where=evidence > 1e-300)
        learned.append(squares.sum())
    prior_variance = mass @ grid[0] ** 2
    return (prior_variance - np.array(learned)) / prior_variance


DESIGNS = {
    "one record seen through another": [[1, 1]],
    "three in one sum": [[1, 1, 1]],
    "differencing pair": [[1, 1], [0, 1]],
    "differencing in a crowd of three": [[1, 1, 1], [0, 1, 1]],
    "overlapping": [[1, 1, 0], [0, 1, 1]],
    "repeated": [[1, 1], [1, 1]],
}


@pytest.mark.slow
@pytest.mark.parametrize("stddev", [0.08, 0.3, 2.0])
@pytest.mark.parametrize("name", DESIGNS)
def test_the_best_possible_attack_is_inside(name: str, stddev: float) -> None:
    rows = np.array(DESIGNS[name])
    nodes = 48 if rows.shape[1] == 2 else 26
    risks = exact_risks(rows, stddev, nodes=nodes, answers=260)
    design = MembershipDesign(rows, noise=np.full(len(rows), stddev), readout="sum")
    found = design.exposures(domain=(-0.5, 0.5))
    # The quadrature itself is good to 1e-6 here: doubling its grids moves nothing beyond that.
    assert np.all(found.remaining_lower <= risks + 1e-6)
    assert np.all(risks <= found.remaining_upper + 1e-6)


@pytest.mark.slow
def test_the_quadrature_has_converged() -> None:
    rows = np.array(DESIGNS["differencing in a crowd of three"])
    coarse = exact_risks(rows, 0.08, nodes=26, answers=260)
    fine = exact_risks(rows, 0.08, nodes=40, answers=380)
    assert np.allclose(coarse, fine, atol=1e-6)


@given(
    st.lists(st.integers(1, 63), min_size=1, max_size=12),
    st.floats(-4, 3),
)
def test_the_bracket_is_never_wider_than_29_percent_nor_upside_down(
    codes: list[int], exponent: float
) -> None:
    rows = np.array([[code >> k & 1 for k in range(6)] for code in codes])
    design = MembershipDesign(rows, noise=np.full(len(rows), 10**exponent), readout="sum")
    found = design.exposures(domain=(0, 1))
    prior = CosineSquaredPrior(width=1.0)
    widest = prior.fisher_information * prior.variance
    assert np.all(found.remaining_lower <= found.remaining_upper * (1 + 1e-12))
    assert np.all(found.remaining_upper <= found.remaining_lower * widest * (1 + 1e-9))
    assert np.all(found.remaining_upper <= 1 + 1e-12)
    assert np.all(found.remaining_lower >= 0)


def test_it_is_closed_to_a_few_percent_where_little_is_learned_or_the_releases_are_few() -> None:
    dull = MembershipDesign([[1, 1, 1]] * 20, noise=np.full(20, 10.0)).exposures(domain=(0, 1))
    assert np.all(dull.remaining_upper / dull.remaining_lower < 1.035)
    few = MembershipDesign([[1, 1, 1], [0, 1, 1]], noise=[0.01, 0.01]).exposures(domain=(0, 1))
    assert np.all(few.remaining_upper / few.remaining_lower < 1.1)


def test_only_the_width_of_the_domain_matters_and_units_cancel() -> None:
    rows, stddevs = [[1, 1, 1], [0, 1, 1]], np.array([0.1, 0.2])
    one = MembershipDesign(rows, noise=stddevs).exposures(domain=(0, 1))
    shifted = MembershipDesign(rows, noise=stddevs).exposures(domain=(7, 8))
    watts = MembershipDesign(rows, noise=1000 * stddevs).exposures(domain=(-500, 500))
    for other in (shifted, watts):
        assert np.allclose(one.remaining_lower, other.remaining_lower, rtol=1e-12)
        assert np.allclose(one.remaining_upper, other.remaining_upper, rtol=1e-12)


@pytest.mark.parametrize("domain", [(1, 0), (0, 0), (0, np.inf), (np.nan, 1)])
def test_a_domain_has_a_width(domain: tuple[float, float]) -> None:
    with pytest.raises(InvalidInput, match="finite width > 0"):
        MembershipDesign([[1, 1]], noise=[1.0]).exposures(domain=domain)
