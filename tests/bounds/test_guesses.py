"""How often a guess is right: against the posterior of all worlds, and against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from sightline.bounds.assessment import assess
from sightline.bounds.coin import CoinPrior
from sightline.bounds.guesses import FALSE_ALARMS, Guesses, guesses, right_at_most, sure_if_right
from sightline.bounds.priors import TwoPointPrior
from sightline.bounds.value_rows import chances_of
from sightline.bounds.walking import with_walked_guesses
from sightline.units.design import Design
from sightline.units.row_noise import RowNoise
from tests.bounds.enumerated_worlds import Few, few
from tests.units.unit_designs import design_of

DRAWS = 4_000


def bounds_of(design: Design) -> Guesses:
    return guesses(design, chances_of(design.prior), assess(design).lower)


def guessed_right(one: Few, generator: np.random.Generator) -> np.ndarray:
    """Of every row, how often its likeliest value after drawn answers is right: the mean over all worlds."""
    worlds, answers = one.worlds()
    noisy, law = ~one.exact, one.laplace[~one.exact]
    seen, given = answers[:, noisy] / one.scales[noisy], answers[:, one.exact]
    truth = generator.integers(0, len(worlds), DRAWS)
    noise = np.where(
        law, generator.laplace(size=(DRAWS, law.size)), generator.standard_normal((DRAWS, law.size))
    )
    away = (seen[truth] + noise)[:, None] - seen
    fit = -np.where(law, np.abs(away), away**2 / 2).sum(axis=2)
    fit = np.where(np.all(given[truth][:, None] == given, axis=2), fit, -np.inf)
    chances = np.exp(fit - fit.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    posterior = np.tensordot(chances, np.eye(one.values)[worlds], axes=1)
    return np.asarray(posterior.max(axis=2).mean(axis=0))


@pytest.mark.parametrize("law", ["gaussian", "laplace", "mixed"])
@pytest.mark.parametrize("values", [2, 3, 4])
@pytest.mark.sampled(4)
def test_no_value_is_guessed_right_more_often_than_said(law: str, values: int) -> None:
    generator = np.random.default_rng([len(law), values])
    for _ in range(4):
        noise = float(np.exp(generator.uniform(np.log(0.3), np.log(2.0))))
        rows = int(generator.integers(2, 7 if values == 2 else 5))
        one = few(generator, rows=rows, values=values, noise=noise, law=law)
        design, truth = one.design(), guessed_right(one, generator)
        first = bounds_of(design)
        walked = with_walked_guesses(design, first.right)
        margin = 4 / math.sqrt(DRAWS)
        assert first.before == pytest.approx(1 / values)
        assert np.all(truth - margin <= walked[design.place])
        assert np.all(walked <= first.right)
        people = np.bincount(design.place, minlength=len(design.units))
        more = first.beyond_chance(people)
        assert truth.sum() - rows / values - margin * rows <= more <= rows * (1 - 1 / values) + 1e-12


@pytest.mark.parametrize("share", [0.5, 0.2, 0.9])
@pytest.mark.parametrize("noise", [0.4, 1.0, 5.0])
def test_one_yes_or_no_behind_gaussian_noise(share: float, noise: float) -> None:
    """By the likelihood-ratio test: how often it is right, and whom it finds at one false alarm in 1,000."""
    prior = TwoPointPrior(0.0, 1.0) if share == 0.5 else CoinPrior(share=share)
    design = design_of(np.ones((1, 1)), np.array([noise]), prior)
    found = bounds_of(design)
    threshold = 0.5 - noise**2 * math.log(share / (1 - share))
    right = share * norm.sf(threshold, 1.0, noise) + (1 - share) * norm.cdf(threshold, 0.0, noise)
    assert found.right[0] == pytest.approx(max(right, share, 1 - share), abs=1e-9)
    assert found.sure[0] == pytest.approx(norm.sf(norm.isf(FALSE_ALARMS) - 1 / noise), rel=1e-9)


@pytest.mark.parametrize("noise", [0.3, 1.0, 4.0])
def test_one_yes_or_no_behind_laplace_noise(noise: float) -> None:
    design = design_of(np.ones((1, 1)), np.ones(1), TwoPointPrior(0.0, 1.0))
    laplace = RowNoise.of(np.array([noise]), np.array([noise * 2**0.5]), np.ones(1), np.ones(1))
    found = bounds_of(Design(**{**_fields(design), "noise": laplace}))
    right = 1 - math.exp(-1 / (2 * noise)) / 2  # the sign of y - 1/2
    assert right <= found.right[0] <= right + 0.1
    assert found.sure[0] == pytest.approx(min(1.0, math.exp(1 / noise) * FALSE_ALARMS), rel=1e-9)


def _fields(design: Design) -> dict[str, object]:
    return {name: getattr(design, name) for name in ("units", "noise", "prior", "release", "place")}


def test_what_remains_of_many_categories_bounds_the_guess() -> None:
    """Any posterior: the mean of its maximum is below the bound of what it leaves."""
    generator = np.random.default_rng(1)
    for k in (2, 3, 7):
        for sharpness in (0.1, 1.0, 10.0):
            posterior = generator.dirichlet(np.full(k, sharpness), size=4_000)
            left = (posterior * (1 - posterior)).mean(axis=0) / (1 / k * (1 - 1 / k))
            chances = np.full(k, 1 / k)
            assert posterior.max(axis=1).mean() <= right_at_most(chances, left[None])[0]
    assert right_at_most(np.full(5, 0.2), np.ones((1, 5)))[0] == pytest.approx(0.2)


def test_an_exact_number_of_one_person_is_guessed_right() -> None:
    design = design_of(np.ones((1, 1)), np.array([1e-9]), TwoPointPrior(0.0, 1.0))
    found = bounds_of(design)
    assert found.right[0] == pytest.approx(1.0)
    assert found.sure[0] == pytest.approx(1.0)


@pytest.mark.parametrize("share", [0.5, 0.2, 0.7])
@pytest.mark.parametrize("shift", [0.1, 0.6, 2.0])
def test_a_sure_guess_finds_no_more_than_the_best_guess_allows(share: float, shift: float) -> None:
    """Of one number with Gaussian noise the likelihood ratio finds most: never more than is said."""
    cut = math.log((1 - share) / share) / shift + shift / 2
    right = share * norm.sf(cut - shift) + (1 - share) * norm.cdf(cut)
    truth = norm.sf(norm.isf(FALSE_ALARMS) - shift)
    (most,) = sure_if_right(np.array([1 - share, share]), np.array([right]))
    assert truth - 1e-12 <= most <= 1.0
    noise = Guesses(
        chances=np.array([1 - share, share]), right=np.array([right]), sure_by_noise=np.array([1.0])
    )
    assert noise.sure[0] == pytest.approx(max(most, FALSE_ALARMS))
