"""The bracket on the risk of every attack: its constants, its bounds, and brute force between them."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline import MembershipDesign
from sightline.bounds.priors import NUMBER_PRIORS, number_prior
from sightline.errors import InvalidInput
from sightline.theory.labeled import CosineSquaredPrior
from tests.bounds.brute_force import law


@pytest.mark.parametrize("name", ["uniform", "cos2"])
def test_the_constants_of_the_priors_by_quadrature(name: str) -> None:
    prior = number_prior(name, -1.5, 1.5)
    half = mpmath.mpf(3) / 2

    def density(x: mpmath.mpf) -> mpmath.mpf:
        if name == "uniform":
            return 1 / mpmath.mpf(3)
        return 2 / mpmath.mpf(3) * mpmath.cos(mpmath.pi * x / 3) ** 2

    def integral(f: object) -> mpmath.mpf:
        return mpmath.quad(f, [-half, 0, half])

    assert integral(density) == pytest.approx(1.0, rel=1e-12)
    variance = integral(lambda x: x**2 * density(x))
    assert prior.variance == pytest.approx(float(variance), rel=1e-12)
    entropy = integral(lambda x: -density(x) * mpmath.log(density(x)) if density(x) > 0 else 0)
    power = mpmath.exp(2 * entropy) / (2 * mpmath.pi * mpmath.e)
    nats = np.array([1.5])  # where Shannon's bound is the better one
    assert prior.lower_by_nats(nats)[0] == pytest.approx(float(power / variance * mpmath.exp(-3)), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", NUMBER_PRIORS)
def test_what_is_left_after_some_nats_is_below_the_risk_of_a_channel_that_carries_them(name: str) -> None:
    """Gaussian noise: the risk and the mutual information by quadrature on one grid."""
    prior = number_prior(name, -0.5, 0.5)
    points, masses = law(prior, 400)
    for noise in (0.05, 0.1, 0.2, 0.35, 0.7, 2.0, 10.0):
        answers = np.linspace(-0.5 - 9 * noise, 0.5 + 9 * noise, 6001)
        kernel = np.exp(-(((answers[:, None] - points) / noise) ** 2) / 2) / (noise * np.sqrt(2 * np.pi))
        evidence = kernel @ masses
        step = answers[1] - answers[0]
        seen = evidence > 1e-200
        risk = masses @ points**2 - step * np.sum((kernel @ (masses * points))[seen] ** 2 / evidence[seen])
        entropy = -step * np.sum(evidence[seen] * np.log(evidence[seen]))
        nats = entropy - np.log(noise * np.sqrt(2 * np.pi * np.e))
        found = prior.lower_by_nats(np.array([nats]))[0]
        assert found <= risk / prior.variance + 1e-9
        if noise >= 2:
            assert found == pytest.approx(risk / prior.variance, rel=0.01)  # and sharp where little is said


def exact_risks(
    rows: np.ndarray, stddev: float, *, nodes: int, answers: int, prior: str = "uniform"
) -> np.ndarray:
    """Bayes risks of uniform or cos² values on [-1/2, 1/2] over v, by quadrature over records and answers.

    One or two answers; the density of the answers given each node is a product, so that the posterior moments
    on the grid of answers are matrix products.
    """
    lines, records = rows.shape
    points, weights = law(number_prior(prior, -0.5, 0.5), nodes)
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


@pytest.mark.sampled(9)
@pytest.mark.slow
@pytest.mark.parametrize("prior", NUMBER_PRIORS)
@pytest.mark.parametrize("stddev", [0.08, 0.3, 2.0])
@pytest.mark.parametrize("name", DESIGNS)
def test_the_best_possible_attack_is_inside(name: str, stddev: float, prior: str) -> None:
    rows = np.array(DESIGNS[name])
    nodes = 48 if rows.shape[1] == 2 else 26
    risks = exact_risks(rows, stddev, nodes=nodes, answers=260, prior=prior)
    design = MembershipDesign(rows, noise=np.full(len(rows), stddev), readout="sum")
    found = design.exposures(domain=(-0.5, 0.5), prior=prior)
    # The quadrature itself is good to 1e-6 here: doubling its grids moves nothing beyond that.
    assert np.all(found.remaining_lower <= risks + 1e-6)
    assert np.all(risks <= found.remaining_upper + 1e-6)


@pytest.mark.thorough
@pytest.mark.slow
def test_the_quadrature_has_converged() -> None:
    rows = np.array(DESIGNS["differencing in a crowd of three"])
    coarse = exact_risks(rows, 0.08, nodes=26, answers=260)
    fine = exact_risks(rows, 0.08, nodes=40, answers=380)
    assert np.allclose(coarse, fine, atol=1e-6)


@given(
    st.lists(st.integers(1, 63), min_size=1, max_size=12),
    st.floats(-4, 3),
    st.sampled_from(sorted(NUMBER_PRIORS)),
)
def test_the_bracket_is_never_upside_down_nor_outside_0_and_1(
    codes: list[int], exponent: float, prior: str
) -> None:
    rows = np.array([[code >> k & 1 for k in range(6)] for code in codes])
    design = MembershipDesign(rows, noise=np.full(len(rows), 10**exponent), readout="sum")
    found = design.exposures(domain=(0, 1), prior=prior)
    assert np.all(found.remaining_lower <= found.remaining_upper)
    assert np.all(found.remaining_upper <= 1)
    assert np.all(found.remaining_lower >= 0)


@given(st.lists(st.integers(1, 63), min_size=1, max_size=12), st.floats(-4, 3))
def test_under_cos2_the_bracket_is_never_wider_than_29_percent(codes: list[int], exponent: float) -> None:
    rows = np.array([[code >> k & 1 for k in range(6)] for code in codes])
    design = MembershipDesign(rows, noise=np.full(len(rows), 10**exponent), readout="sum")
    found = design.exposures(domain=(0, 1), prior="cos2")
    prior = CosineSquaredPrior(0.0, 1.0)
    widest = prior.fisher_information * prior.variance
    assert np.all(found.remaining_upper <= found.remaining_lower * widest * (1 + 1e-6))


def test_it_is_closed_to_a_few_percent_where_little_is_learned() -> None:
    dull = MembershipDesign([[1, 1, 1]] * 20, noise=np.full(20, 10.0)).exposures(domain=(0, 1))
    assert np.all(dull.remaining_upper / dull.remaining_lower < 1.00001)


def test_one_value_by_itself_as_the_theory_page_says() -> None:
    """Noise of 0.35 of the range. The truth by quadrature, to 1e-6."""
    design = MembershipDesign([[1, 0]], noise=[0.35], readout="sum")
    told = {"uniform": (0.587, 0.595), "cos2": (0.789, 0.789), "two-point": (0.225, 0.329)}
    for prior, ends in told.items():
        found = design.exposures(domain=(0, 1), prior=prior)
        exact = exact_risks(np.array([[1.0]]), 0.35, nodes=200, answers=4000, prior=prior)[0]
        assert found.remaining_lower[0] == pytest.approx(exact, rel=1e-3)
        assert found.remaining_lower[0] <= exact <= found.remaining_upper[0] * (1 + 1e-9)
        assert (found.remaining_lower[0], found.remaining_upper[0]) == pytest.approx(ends, abs=6e-4)


def test_a_pair_whose_sum_is_known_keeps_half() -> None:
    """Two uniform values with a known sum: r²/24 of r²/12, exactly."""
    found = MembershipDesign([[1, 1]], noise=[1e-5], readout="sum").exposures(domain=(0, 1))
    assert found.remaining_lower == pytest.approx([0.5, 0.5], abs=1e-4)
    assert found.remaining_upper == pytest.approx([0.5, 0.5], abs=1e-4)


@pytest.mark.slow
def test_a_precision_for_each_record_is_sharper_than_one_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(8)
    rows = (generator.random((12, 30)) < 0.3).astype(float)
    rows[rows.sum(axis=1) == 0, 0] = 1
    design = MembershipDesign(rows, noise=10 ** generator.uniform(-2, 0, 12), readout="sum")
    sharp = design.exposures(domain=(0, 1))
    monkeypatch.setattr("sightline.bounds.assessment.EXACT", 1.0)
    plain = design.exposures(domain=(0, 1))
    assert np.all(plain.remaining_lower <= sharp.remaining_lower * (1 + 1e-9))
    assert np.any(plain.remaining_lower < 0.99 * sharp.remaining_lower)
    # The naive twin of both: Schur complements of dense matrices, and the closed form of the bound.
    G = rows.T @ np.diag(design.law.variances**-1.0) @ rows
    prior = design.exposures(domain=(0, 1)).prior
    for found, own in ((sharp, True), (plain, False)):
        precision = prior.precision(np.diagonal(G))
        precision = precision if own else np.full(30, precision.max())
        hidden = 1 / np.diagonal(np.linalg.inv(G + np.diag(precision))) - precision
        root = np.sqrt(hidden)
        bound = 12 * (1 - 2 / root * np.tanh(root / 2)) / hidden
        single = found.groups.sizes[found.group] == 1
        assert np.all(found.remaining_lower[single] >= bound[single] * (1 - 1e-6))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"domain": (0, 1), "prior": "normal"}, "a prior among uniform, cos2, two-point"),
        ({}, "domain=\\(low, high\\)"),
        ({"domain": (0, 1), "prior": CosineSquaredPrior(0.0, 1.0)}, "either a domain or a prior"),
    ],
)
def test_a_prior_is_named_or_given(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        MembershipDesign([[1, 1]], noise=[1.0]).exposures(**arguments)


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
