"""Risks by listing states: how many rows of each kind have each value, in place of all worlds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import special

from sightline import MembershipDesign
from sightline.bounds.assessment import assess
from sightline.bounds.coin import CoinPrior
from sightline.bounds.few_values import FewValues
from sightline.bounds.listed_worlds import by_listed_worlds, ways_of
from sightline.bounds.priors import TwoPointPrior
from sightline.units.design import Design
from tests.bounds.enumerated_worlds import few
from tests.units.unit_designs import design_of


def listed_ends(design: Design) -> tuple[np.ndarray, np.ndarray]:
    """Units × values asked: both ends by listed worlds alone."""
    few_rows = FewValues.of_design(design)
    assert few_rows is not None
    low, high = by_listed_worlds(few_rows, np.ones(len(few_rows.kinds), dtype=bool))
    return low[few_rows.person], high[few_rows.person]


@pytest.mark.parametrize("values", [2, 3])
@pytest.mark.parametrize("law", ["gaussian", "laplace", "mixed"])
def test_rows_of_a_kind_are_counted_and_not_listed(values: int, law: str) -> None:
    """Three rows alike, of one person, and others: against all worlds, one by one."""
    generator, draws = np.random.default_rng([values, len(law)]), 3_000
    rows = 7 if values == 2 else 5
    one = few(generator, rows=rows, values=values, noise=0.5, law=law)
    one.counted[:, 1:3] = one.counted[:, :1]
    owner = np.concatenate([np.zeros(3, dtype=int), np.arange(1, rows - 2)])
    truth = one.sharpest(owner, draws, generator)
    off = 6 * np.sqrt(truth / draws) + 48 / draws
    asked = slice(1, 2) if values == 2 else slice(None)
    low, high = listed_ends(one.of_persons(owner))
    assert np.all(low <= (truth + off)[:, asked])
    assert np.all(high >= (truth - off)[:, asked])
    assert np.all(low > truth[:, asked] / 2 - 0.05)


@pytest.mark.parametrize("share", [0.1, 0.35])
def test_other_odds_are_listed_too(share: float) -> None:
    """Four people in one noisy count, by quadrature over the answer."""
    counts, noise, p = np.arange(5), 0.8, share
    chance = special.binom(4, counts) * p**counts * (1 - p) ** (4 - counts)
    answers = np.linspace(-9 * noise, 4 + 9 * noise, 40_001)
    joint = chance * np.exp(-((answers[:, None] - counts) ** 2) / (2 * noise**2))
    joint /= noise * math.sqrt(2 * math.pi)
    mean = (joint @ counts) / np.maximum(joint.sum(axis=1), 1e-300) / 4
    seen = np.sum(joint.sum(axis=1) * (mean - p) ** 2) * (answers[1] - answers[0])
    truth = 1 - float(seen) / (p * (1 - p))
    low, high = listed_ends(design_of(np.ones((1, 4)), np.array([noise]), CoinPrior(share=share)))
    assert low[0, 0] <= truth <= high[0, 0]
    assert high[0, 0] - low[0, 0] < 0.08


def test_ways_are_allways_of() -> None:
    for number, values in ((1, 2), (4, 3), (3, 5)):
        found = ways_of(number, values)
        assert np.all(found.sum(axis=1) == number)
        assert len(np.unique(found, axis=0)) == len(found) == math.comb(number + values - 1, values - 1)


def exact_share(people: int, noise: float) -> float:
    """Of one yes or no in the noisy count of some: by quadrature over the answer."""
    counts = np.arange(people + 1)
    chance = special.binom(people, counts) * 2.0**-people
    answers = np.linspace(-9 * noise, people + 9 * noise, 40_001)
    density = np.exp(-((answers[:, None] - counts) ** 2) / (2 * noise**2)) / (noise * math.sqrt(2 * math.pi))
    joint = density * chance
    mean = (joint @ counts) / np.maximum(joint.sum(axis=1), 1e-300) / people
    return float(4 * np.sum(joint.sum(axis=1) * mean * (1 - mean)) * (answers[1] - answers[0]))


@pytest.mark.parametrize("noise", [0.3, 2.0])
def test_two_to_the_sixteen_worlds_that_are_all_different(noise: float) -> None:
    """A sum with the weights 1 to 16: the truth by sums of each other row, and quadrature over the answer."""
    weights = np.arange(1, 17)
    design = design_of(weights[None].astype(float), np.array([noise]), TwoPointPrior(0.0, 1.0))
    ends = listed_ends(design)
    at = np.linspace(-10 * noise, weights.sum() + 10 * noise, 60_001)
    for row in (0, 7, 15):
        others = np.ones(1)
        for weight in np.delete(weights, row):
            others = np.convolve(others, np.bincount([0, weight]) / 2)
        no, yes = (
            sum(
                chance * np.exp(-(((at - place - shift) / noise) ** 2) / 2)
                for place, chance in enumerate(others)
            )
            for shift in (0, int(weights[row]))
        )
        risk = 4 * np.sum(no * yes / (no + yes)) / np.sum(no + yes)
        low, high = (float(one[design.place[row], 0]) for one in ends)
        assert low <= risk <= high
        assert high - low < 0.05


@pytest.mark.parametrize(("people", "noise"), [(16, 0.3), (24, 1.0)])
def test_more_than_two_to_the_sixteen_worlds_in_few_states(people: int, noise: float) -> None:
    design = design_of(np.ones((1, people)), np.array([noise]), TwoPointPrior(0.0, 1.0))
    ends = listed_ends(design)
    low, high = (float(one[0, 0]) for one in ends)
    assert low <= exact_share(people, noise) <= high
    assert high - low < 0.02
    assert float(assess(design).lower[0, 0]) >= low


def test_noise_over_twenty_orders_of_magnitude() -> None:
    """Squares of numbers 10¹⁰ times their noise would cancel: 50 % was said of one who keeps 45 %."""
    cells = [
        [1, 1, 1, 1, 1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 0, 1, 1, 0, 1, 0], [0, 0, 0, 0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    ]  # fmt: skip
    rows, noise = np.array(cells), np.array([1e-10, 0.06, 1.5e-5, 1.6e-5, 9e3, 5e-5])
    worlds = np.array(list(itertools.product([0, 1], repeat=10)))
    # All numbers but the fifth are as good as exact: the variance within the worlds that have the same.
    _, group = np.unique(worlds @ rows[[0, 1, 2, 3, 5]].T, axis=0, return_inverse=True)
    same = [group.ravel() == one for one in np.unique(group)]
    exact = np.sum([worlds[one].var(axis=0) * one.mean() for one in same], axis=0)
    found = MembershipDesign(rows, noise=noise).exposures(domain=(0, 1), prior="two-point")
    assert exact[8] == pytest.approx(0.45 / 4)
    assert np.all(found.remaining_lower <= 4 * exact + 1e-6)
    assert found.remaining_lower[8] > 0.4
