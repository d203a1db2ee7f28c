"""The Weiss–Weinstein bound for Laplace answers: below exact risks, above what the information alone says."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from sightline.bounds.priors import PriorAffinity, _affinity
from sightline.units.target import NumberPrior, Seen
from tests.bounds.brute_force import PRIORS, Small, exact_share, law

DENSITIES = [(prior, prior.bounds.affinity) for prior in PRIORS[:2]]


def seen_in(answers: int, scale: float) -> Seen:
    information = np.array([answers / scale**2])
    return Seen(
        information=information,
        linear_information=information / 2,
        laplace_answers=np.array([float(answers)]),
        laplace_information=information,
    )


@pytest.mark.parametrize(("prior", "affinity"), DENSITIES, ids=["uniform", "cos2"])
def test_the_affinities_are_their_integrals(prior: NumberPrior, affinity: PriorAffinity) -> None:
    def root(x):
        return mpmath.sqrt(2) * mpmath.cos(mpmath.pi * x) if prior.name == "cos2" else mpmath.mpf(1)

    for h in (0.01, 0.3, 0.5, 0.8):
        overlap = mpmath.quad(lambda x, h=h: root(x) * root(x + h), [-0.5, 0.5 - h])
        stays = mpmath.quad(lambda x, h=h: root(x + h) ** 2, [-0.5, 0.5 - h])
        assert affinity.affinity(np.array([h]))[0] == pytest.approx(float(overlap), rel=1e-12)
        assert affinity.stays(np.array([h]))[0] == pytest.approx(float(stays), rel=1e-12)


def test_equal_answers_have_the_least_affinity() -> None:
    generator = np.random.default_rng(3)
    for _ in range(200):
        scales = 10 ** generator.uniform(-2, 1, int(generator.integers(1, 9)))
        h = float(generator.uniform(0.01, 1))
        exact = np.prod((1 + h / (2 * scales)) * np.exp(-h / (2 * scales)))
        information = np.array([np.sum(scales**-2)])
        least = _affinity(np.array([h]), information, information, np.array([float(scales.size)]))[0]
        assert least <= exact * (1 + 1e-12)
        assert least >= np.exp(-information[0] * h**2 / 8) * (1 - 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("prior", "affinity"), DENSITIES, ids=["uniform", "cos2"])
def test_two_answers_against_the_exact_risk(prior: NumberPrior, affinity: PriorAffinity) -> None:
    for scales in ([0.1, 0.1], [0.3, 0.3], [0.1, 0.4]):
        small = Small(rows=np.ones((2, 1)), scales=np.array(scales), laplace=np.ones(2, dtype=bool))
        coarse, fine = (exact_share(small, 0, [law(prior, n)], 8 * n) for n in (60, 80))
        information = np.array([np.sum(np.array(scales) ** -2.0)])
        bound = affinity.lower(information, information, np.array([2.0]))[0] / prior.variance
        assert bound <= fine + 5 * abs(fine - coarse)
        if scales[0] == scales[1]:
            found = prior.lower(seen_in(2, scales[0]))[0]
            assert bound <= found <= fine + 5 * abs(fine - coarse)
            assert found >= fine / 1.35


@pytest.mark.parametrize("answers", [1, 2, 5, 20])
def test_more_remains_than_the_information_says(answers: int) -> None:
    """With little noise the best unbiased error is above 1/G: by 2 for one answer, less for more."""
    prior = PRIORS[0]
    seen = seen_in(answers, 0.02 * np.sqrt(answers))
    information = seen.information
    alone = 1 / (information + prior.precision(information)) / prior.variance
    gain = prior.lower(seen)[0] / alone[0]
    least, most = {1: (1.9, 2.0), 2: (1.45, 1.6), 5: (1.2, 1.35), 20: (1.1, 1.2)}[answers]
    assert least < gain < most


@pytest.mark.parametrize(("prior", "affinity"), DENSITIES, ids=["uniform", "cos2"])
def test_gaussian_answers_beside_laplace_ones(prior: NumberPrior, affinity: PriorAffinity) -> None:
    """The bound lies below the risk in Gaussian noise if all noise is Gaussian."""
    information = 10 ** np.linspace(-2, 8, 60)
    none = np.zeros_like(information)
    gaussian = prior.lower(Seen(information=information, linear_information=none))
    bound = affinity.lower(information, none, none) / prior.variance
    assert np.all(bound <= np.maximum(gaussian, 1 / (1 + information * prior.variance)) + 1e-12)
    mixed = affinity.lower(information, information / 2, none + 1) / prior.variance
    assert np.all(mixed >= bound * (1 - 1e-6))
    assert np.all(mixed <= affinity.lower(information, information, none + 1) / prior.variance * (1 + 1e-6))
