"""The best linear attack, rounded softly: of categories and of persons with several rows.

Of a yes or no with one row see test_labeled_coin.py.
"""

from __future__ import annotations

import itertools
from unittest import mock

import numpy as np
import pytest
from scipy.optimize import minimize

from sightline.bounds import listed_worlds
from sightline.bounds.assessment import assess
from sightline.bounds.coin import logistic_upper
from tests.bounds.enumerated_worlds import few
from tests.numbered_cases import trials


def kappa(k: int) -> float:
    """How much more than a Gaussian of its variance one of k equally likely numbers may be spread."""
    return 1.0 if k == 2 else k * (k - 2) / (2 * (k - 1) * np.log(k - 1))


@pytest.mark.parametrize("k", [2, 3, 4, 7])
def test_numbers_of_k_rows_are_no_wider_than_kappa_says(k: int) -> None:
    generator = np.random.default_rng(k)

    def ratio(numbers: np.ndarray) -> float:
        centred = numbers - numbers.mean()
        centred *= max(1.0, 0.05 / float(np.std(centred)))  # smaller ones are lost to rounding
        return 2 * float(np.log(np.mean(np.exp(centred)))) / float(np.mean(centred**2))

    largest = 0.0
    for _ in range(20):
        start = generator.normal(size=k) * 10 ** generator.uniform(-1, 0.5)
        found = minimize(lambda numbers: -ratio(numbers), start, method="Nelder-Mead")
        largest = max(largest, -float(found.fun))
    assert largest <= kappa(k) * (1 + 1e-6)
    assert largest >= kappa(k) * 0.99  # no smaller one would do


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("k", [3, 5])
@pytest.mark.parametrize("rho", [0.02, 0.08, 0.2])
def test_the_rounded_guess_at_a_category_leaves_no_more_than_stated(
    rho: float, k: int, laplace: bool
) -> None:
    """The attack by quadrature: its error is of the row's other categories, of one other row and of noise."""
    v = (k - 1) / k**2
    spread = v * rho / (1 - rho)
    own = np.append(0.0, np.linspace(-1, 1, k - 1))  # of each category; the asked one is the first
    own *= np.sqrt(0.2 * spread / np.mean(own**2))
    other = np.eye(k)[0] - 1 / k
    other *= np.sqrt(0.3 * spread / np.mean(other**2))
    left = 0.5 * spread
    at = np.linspace(-60, 60, 24_001) * np.sqrt(left)
    density = np.exp(-np.abs(at) / np.sqrt(left / 2)) if laplace else np.exp(-(at**2) / (2 * left))
    density /= density.sum()
    guesses = [
        (float(category == 0), (category == 0) + own[category] + other[one] + at)
        for category, one in itertools.product(range(k), repeat=2)
    ]

    def share(parameters: np.ndarray) -> float:
        rate, middle = parameters
        with np.errstate(over="ignore"):
            risks = [density @ (x - 1 / (1 + np.exp(-rate * (t - middle)))) ** 2 for x, t in guesses]
        return float(np.mean(risks)) / v

    stated = float(logistic_upper(np.array([rho]), gaussian=not laplace, values=k)[0])
    m = np.sqrt((1 - rho) / rho / (4 * v * kappa(k)))
    c = (np.sqrt(1 + 2 * m**2) - 1) / m if laplace else m
    rate = c / np.sqrt(kappa(k) * spread)
    middles = np.linspace(0.3, 0.9, 25)  # the proof's is among them, nearly
    assert min(share(np.array([rate, middle])) for middle in middles) <= stated
    assert stated < 1 if laplace else stated < 0.3


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("values", [2, 3])
def test_upper_ends_of_persons_and_categories_are_above_the_risk(values: int, law: str) -> None:
    generator, used, draws = np.random.default_rng([values, len(law)]), 0, 3_000
    for trial in (cases := trials(24)):
        noise = float(10 ** generator.uniform(-1.2, -0.3))
        one = few(generator, rows=4, values=values, noise=noise, law=law)
        with mock.patch.object(listed_worlds, "_MOST_STATES", 0):
            if trial % 2:
                owner = np.array([0, 0, 1, 2])
                found = assess(one.of_persons(owner))
                risk, place = one.sharpest(owner, draws, generator), np.arange(3)
                off = 6 * np.sqrt(risk / draws) + 48 / draws
            else:
                design = one.design()
                found, place = assess(design), design.place
                risk, error = one.simulated(draws, generator)
                off = 6 * error + 48 / draws
        asked = slice(1 if values == 2 else 0, None)
        upper = found.upper_of_best[place]
        assert np.all(upper >= (risk - off)[:, asked])
        used += np.count_nonzero(upper < found.upper[place] * (1 - 1e-9))
    assert used > 5 / 6 * len(cases)  # ends that are not those of the linear attack
