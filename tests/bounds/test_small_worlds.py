"""Risks by listing states: how many rows of each kind have each value, in place of all worlds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import special

from sightline import MembershipDesign
from sightline.bounds import small_worlds
from sightline.bounds.assessment import assess
from sightline.bounds.priors import TwoPointPrior
from sightline.bounds.small_worlds import _mean_at_least, _ways, _Worlds
from tests.bounds.enumerated_worlds import few
from tests.units.unit_designs import design_of


@pytest.mark.parametrize("values", [2, 3])
@pytest.mark.parametrize("law", ["gaussian", "laplace", "mixed"])
def test_rows_of_a_kind_are_counted_and_not_listed(values: int, law: str) -> None:
    """Three rows alike, of one person, and others: against all worlds, one by one."""
    generator, draws = np.random.default_rng([values, len(law)]), 3_000
    one = few(generator, rows=7 if values == 2 else 5, values=values, noise=0.5, law=law)
    one.counted[:, 1:3] = one.counted[:, :1]
    worlds = _Worlds(table=one.counted.transpose(1, 2, 0).copy(), noise=one.design().noise)
    answers, chances, _ = worlds.states
    assert len(answers) < worlds.worlds
    assert chances.sum() == pytest.approx(1.0)
    owner = np.concatenate([np.zeros(3, dtype=int), np.arange(1, len(worlds.table) - 2)])
    truth = one.sharpest(owner, draws, generator)
    off = 6 * np.sqrt(truth / draws) + 48 / draws
    asked = slice(0, 1) if values == 2 else slice(None)
    found = worlds.drawn([[0, 1, 2], [3]], 6e6, 1e-10)
    for (low, high), exact, margin in zip(found, truth[:2, asked], off[:2, asked], strict=True):
        assert np.all(low <= exact + margin)
        assert np.all(high >= exact - margin)
        assert np.all(low > exact / 2 - 0.05)


def test_ways_are_all_ways() -> None:
    for number, values in ((1, 2), (4, 3), (3, 5)):
        found = _ways(number, values)
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
    ends = small_worlds.with_small_worlds(design, np.zeros((16, 1)), np.ones((16, 1)))
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
    ends = small_worlds.with_small_worlds(design, np.zeros((1, 1)), np.ones((1, 1)))
    low, high = (float(one[0, 0]) for one in ends)
    assert low <= exact_share(people, noise) <= high
    assert high - low < 0.02
    assert float(assess(design).lower[0, 0]) >= low


def test_the_margin_of_one_mean_is_bernsteins() -> None:
    for mean, most, level in ((0.02, 1.0, 0.003), (0.4, 2.25, 0.001), (0.0, 1.0, 0.01)):
        drawn = mean + math.sqrt(2 * mean * most * level) + most * level / 3
        assert _mean_at_least(np.array(drawn), most, level) == pytest.approx(mean, abs=1e-12)
    generator, draws, chance = np.random.default_rng(4), 200, 0.01
    for share in (0.02, 0.2, 0.7):  # the widest spread that a mean allows
        drawn = generator.binomial(draws, share, 20_000) / draws
        wrong = np.mean(_mean_at_least(drawn, 1.0, math.log(1 / chance) / draws) > share)
        assert wrong <= chance


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
