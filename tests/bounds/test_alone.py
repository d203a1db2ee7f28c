"""Rows alone under noise of any law, and simulated geometric noise: quadrature, and sums over answers."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from sightline.bounds.alone import PrivacyLosses, left_of_values
from sightline.bounds.assessment import assess
from sightline.bounds.coin import CoinPrior, coin_risk
from sightline.bounds.few_values import FewValues
from sightline.bounds.listed_worlds import by_listed_worlds
from sightline.bounds.priors import TwoPointPrior
from sightline.bounds.value_rows import GEOMETRIC, ValueRows
from sightline.bounds.walking import with_walk
from sightline.privacy.law import Law
from sightline.units.design import Design
from sightline.units.row_noise import RowNoise
from sightline.units.target import UnitPrior
from sightline.units.unit_block import ONE
from sightline.units.units import Units

NOTHING = PrivacyLosses(information=0.0, laplace=(), geometric=(), pure=())


def left(losses: PrivacyLosses, share: float = 0.5) -> float:
    return float(left_of_values({(0, 1): losses}, np.array([1 - share, share]))[1])


def risk_of_densities(first: np.ndarray, second: np.ndarray, share: float) -> float:
    """Of two laws of an answer, as weights of its places: what the posterior mean leaves of the variance."""
    p, q = (1 - share) * first, share * second
    return float(np.sum(p * q / np.maximum(p + q, 1e-300)) / (share * (1 - share)))


def joint(*laws: np.ndarray) -> np.ndarray:
    """Weights of all answers together."""
    table = laws[0]
    for law in laws[1:]:
        table = np.multiply.outer(table, law)
    return table.ravel()


@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize(
    ("information", "laplace"), [(0.0, (2.1,)), (1.3, (0.7,)), (0.0, (0.4, 1.9)), (6.0, (3.3,))]
)
def test_gaussian_and_laplace_answers_by_quadrature(
    information: float, laplace: tuple[float, ...], share: float
) -> None:
    y = np.linspace(-12, 16, 1_601) if len(laplace) + (information > 0) > 1 else np.linspace(-40, 44, 84_001)
    laws = [[np.exp(-np.abs(y - at * away)) / 2 for away in laplace] for at in (0, 1)]
    if information > 0:
        for at, both in enumerate(laws):
            both.append(np.exp(-((y - at * np.sqrt(information)) ** 2) / 2) / np.sqrt(2 * np.pi))
    step = float(y[1] - y[0])
    weights = [joint(*both) * step ** len(both) for both in laws]
    exact = risk_of_densities(weights[0], weights[1], share)
    bound = left(replace(NOTHING, information=information, laplace=laplace), share)
    assert exact * (1 - 1e-3) - 1e-5 < bound < exact + 1e-4


def test_gaussian_answers_alone_are_the_risk_of_a_coin() -> None:
    for information in (0.01, 0.8, 5.0, 30.0):
        exact = coin_risk(information, share=0.3)
        assert exact * (1 - 1e-3) < left(replace(NOTHING, information=information), 0.3) <= exact


def geometric_law(scale: float, at: float) -> np.ndarray:
    k = np.arange(-400, 401)
    return np.tanh(0.5 / scale) * np.exp(-np.abs(k - at) / scale)


@pytest.mark.parametrize(("scale", "away"), [(0.7, 1), (0.7, 3), (4.0, 2), (2.0, 5)])
def test_geometric_answers_by_their_sum(scale: float, away: int) -> None:
    exact = risk_of_densities(geometric_law(scale, 0), geometric_law(scale, away), 0.2)
    bound = left(replace(NOTHING, geometric=((away / scale, 1 / scale),)), 0.2)
    assert exact * (1 - 1e-4) < bound <= exact
    # Whoever says no more than one of two things, with the same loss, tells no less.
    assert left(replace(NOTHING, pure=(away / scale,)), 0.2) <= bound * (1 + 1e-9)


def test_one_of_three_values_by_the_sum_over_answers() -> None:
    """Two counts with geometric noise, of the second and of the third value."""
    law = [geometric_law(1.5, at)[340:461] for at in (0, 1)]
    chances = np.array([0.2, 0.3, 0.5])
    answers = (
        np.array([joint(law[0], law[0]), joint(law[1], law[0]), joint(law[0], law[1])]) * chances[:, None]
    )
    posterior = answers / answers.sum(axis=0)
    exact = (answers.sum(axis=0) * posterior * (1 - posterior)).sum(axis=1) / (chances * (1 - chances))
    step = 1 / 1.5
    seen = {
        pair: replace(NOTHING, geometric=((step, step),) * (1 if 0 in pair else 2))
        for pair in itertools.combinations(range(3), 2)
    }
    bound = left_of_values(seen, chances)
    assert np.all(bound <= exact)
    assert np.all(bound > 0.9 * exact)


def test_nothing_is_left_where_losses_are_beyond_the_grid() -> None:
    assert left(replace(NOTHING, laplace=(100.0,))) == 0.0
    assert left(NOTHING) == pytest.approx(1.0, abs=1e-7)


def design_of(table: np.ndarray, noise: RowNoise, share: float = 0.5) -> Design:
    """Numbers × rows, of persons with one row each."""
    numbers, width = len(table), max(1, int((table != 0).sum(axis=0).max()))
    order = np.argsort(table.T == 0, axis=1, kind="stable")[:, :width]
    weights = np.take_along_axis(table.T, order, axis=1)
    return Design(
        units=Units.of_one_row(
            np.where(weights != 0, order, numbers).astype(np.int32),
            numbers,
            np.ones(table.shape[1], dtype=np.intp),
            ONE if np.all((table == 0) | (table == 1)) else weights.astype(np.float64),
        ),
        noise=noise,
        prior=UnitPrior(target=CoinPrior(share=share) if share != 0.5 else TwoPointPrior(0.0, 1.0)),
        release=np.arange(numbers),
        place=np.arange(table.shape[1]),
    )


def geometric_noise(scales: np.ndarray, copies: np.ndarray, factors: np.ndarray) -> RowNoise:
    """Means of so many answers with the scales b, in units of 1/factor of a number."""
    each = Law.GEOMETRIC.facts.information_scale(scales) / factors
    return RowNoise.of(each / np.sqrt(copies), scales, 2 * np.ones(len(scales)), copies)


def test_the_loss_of_a_step_is_that_of_geometric_noise_and_no_less_beside_weights() -> None:
    scales = np.geomspace(0.05, 200.0, 40)
    for factor in (1.0, 2.0, 5.0):
        for copies in (1.0, 3.0):
            noise = geometric_noise(scales, np.full(40, copies), np.full(40, factor))
            design = design_of(np.ones((40, 2)), noise)
            units = design.units
            assert isinstance(units, Units)
            rows = ValueRows.of(design, units)
            assert np.all(rows.laws == GEOMETRIC)
            assert np.all(rows.loss_of_a_step >= factor / scales)
            if factor == 1:
                np.testing.assert_allclose(rows.loss_of_a_step, 1 / scales, rtol=1e-6)


@pytest.mark.parametrize(("share", "copies"), [(0.5, 1), (0.2, 1), (0.5, 3)])
def test_counts_with_geometric_noise_by_the_sum_over_answers(share: float, copies: int) -> None:
    """Three people in one count, two of them in a second: both ends of listed worlds, and all lower ends."""
    table, scales = np.array([[1, 1, 1], [0, 1, 1]]), np.array([0.8, 2.5])
    design = design_of(table, geometric_noise(scales, np.full(2, float(copies)), np.ones(2)), share)
    worlds = np.array(list(itertools.product((0, 1), repeat=3)))
    chance = np.prod(np.where(worlds == 1, share, 1 - share), axis=1)
    sums = worlds @ table.T
    size = 61 if copies == 1 else 13  # of more answers the sum is over a drawn sample of them
    if copies == 1:
        laws = [[geometric_law(b, at)[370:431] for at in range(4)] for b in scales]
        answers = np.array([joint(laws[0][a], laws[1][b]) for a, b in sums.tolist()])
        weight = chance @ answers
        posterior = chance[:, None] * answers / weight
        means = posterior.T @ worlds
        exact = 1 - (weight @ np.square(means - share)) / (share * (1 - share)) / weight.sum()
        slack = 1e-3
    else:
        generator = np.random.default_rng(size)
        truth = generator.choice(8, 100_000, p=chance)
        fit = np.log(chance)[None, :].repeat(truth.size, axis=0)
        for number, b in enumerate(scales.tolist()):
            for _ in range(copies):
                stop = -np.expm1(-1 / b)
                noise = generator.geometric(stop, truth.size) - generator.geometric(stop, truth.size)
                answer = sums[truth, number] + noise
                fit -= np.abs(answer[:, None] - sums[:, number]) / b
        posterior = np.exp(fit - fit.max(axis=1, keepdims=True))
        posterior /= posterior.sum(axis=1, keepdims=True)
        exact = 1 - np.square(posterior @ worlds - share).mean(axis=0) / (share * (1 - share))
        slack = 0.012
    few = FewValues.of_design(design)
    assert few is not None
    low, high = by_listed_worlds(few, np.ones(len(few.kinds), dtype=np.bool_))
    low, high = low[few.person, 0], high[few.person, 0]
    assert np.all(low <= exact + slack)
    assert np.all(exact <= high + slack)
    assert np.all(high - low < 0.12)
    assert np.all(
        few.alone(np.ones(len(few.kinds), dtype=np.bool_), np.zeros(len(few.kinds)))[few.person, 0]
        <= exact + slack
    )
    found = assess(design)
    walked = with_walk(design, np.zeros_like(found.lower), found.upper, float(exact.min()) - 0.1)
    assert np.all(walked[:, 0] <= exact + slack)
    assert walked.max() > exact.min() - 0.1
    assert np.all(found.lower[:, 0] <= exact + slack)
