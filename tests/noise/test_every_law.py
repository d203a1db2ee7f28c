"""Every law of noise keeps what its row of facts says; each fact is computed again from the law itself."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.arrays import FloatArray
from sightline.privacy.law import LAWS, Cost, Law, LawFacts

WITH_NOISE = [law for law in Law if law.facts.cost is not Cost.INFINITE]
PARAMETERS = (1.5, 2.0, 7.0)


def density(law: Law, parameter: float, points: FloatArray) -> FloatArray:
    """The law's density or mass function, by its definition, up to a factor."""
    match law:
        case Law.GAUSSIAN | Law.DISCRETE_GAUSSIAN:
            return np.exp(-(points**2) / (2 * parameter**2))
        case Law.LAPLACE | Law.GEOMETRIC:
            return np.exp(-np.abs(points) / parameter)
        case Law.NONE:
            raise AssertionError("an exact number has no density")


def test_every_law_has_a_row() -> None:
    assert list(LAWS) == list(Law)
    assert all(isinstance(facts, LawFacts) for facts in LAWS.values())


def test_only_laplace_and_geometric_noise_count_as_their_answers() -> None:
    """Lower ends draw one answer as Laplace noise, and two as geometric: ``ValueRows.laws``."""
    counted = {law: facts.laplace_answers for law, facts in LAWS.items() if facts.laplace_answers}
    assert counted == {Law.LAPLACE: 1.0, Law.GEOMETRIC: 2.0}


@pytest.mark.parametrize("law", WITH_NOISE)
@pytest.mark.parametrize("parameter", PARAMETERS)
class TestEveryLaw:
    def test_its_deviation_is_that_of_its_density(self, law: Law, parameter: float) -> None:
        step = 1.0 if law.on_lattice else parameter / 200
        points = np.arange(-100 * parameter / step, 100 * parameter / step + 1) * step
        weights = density(law, parameter, points)
        deviation = np.sqrt(np.sum(weights * points**2) / weights.sum())
        assert float(law.facts.stddev(np.array([parameter]))[0]) == pytest.approx(deviation, rel=1e-4)

    def test_answers_apart_have_at_least_the_stated_affinity(self, law: Law, parameter: float) -> None:
        step = 1.0 if law.on_lattice else parameter / 100
        points = np.arange(-60 * 7 / step, 60 * 7 / step + 1) * step
        weights = density(law, parameter, points)
        scale = float(law.facts.affinity_scale(np.array([parameter]))[0])
        for steps in (1, 2, 3, 10):
            apart = steps * (1.0 if law.on_lattice else parameter / 2)
            shifted = density(law, parameter, points + apart)
            affinity = np.sum(np.sqrt(weights * shifted)) / weights.sum()
            assert affinity >= np.exp(-(apart**2) / (8 * scale**2)) * (1 - 1e-6)

    def test_a_pure_epsilon_bounds_the_ratio_of_densities(self, law: Law, parameter: float) -> None:
        points = np.arange(-30.0, 31.0)
        ratio = np.log(density(law, parameter, points) / density(law, parameter, points + 1))
        bounded = bool(np.all(np.abs(ratio) <= 1 / parameter * (1 + 1e-9)))
        assert bounded == law.pure
