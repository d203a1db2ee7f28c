"""Persons with several rows, against exact rank and dense algebra over single rows."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.arrays import FloatArray
from sightline.bounds.assessment import assess
from sightline.bounds.priors import CosineSquaredPrior
from sightline.units.design import Design
from sightline.units.row_noise import RowNoise
from sightline.units.target import Seen, UnitPrior
from sightline.units.units import Units
from tests.numbered_cases import trials
from tests.units.naive_panels import Panel, random_panel

PRIOR = CosineSquaredPrior(0.0, 1.0)


def panels(count: int) -> list[Panel]:
    return [random_panel(np.random.default_rng([16, seed])) for seed in range(count)]


def test_decisions_are_those_of_exact_rank() -> None:
    yes = 0
    for panel in panels(len(cases := trials(150))):
        design, examples = panel.design(PRIOR)
        found, people = assess(design), np.asarray(design.units.people)
        for kind, person in enumerate(examples):
            if people[kind] > 1:  # the sums over several persons are another question
                continue
            assert found.directions[kind] == panel.directions(person)
            assert found.identifiable[kind, 0] == panel.total_identifiable(person)
            yes += int(found.directions[kind] > 0)
    assert yes > 2 / 3 * len(cases)


def _inverse(matrix: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


def test_numbers_are_those_of_dense_algebra() -> None:
    for panel in panels(len(trials(80))):
        design, examples = panel.design(PRIOR)
        found, people = assess(design), np.asarray(design.units.people)
        G, v = panel.information(), PRIOR.variance
        posterior = _inverse(G + np.eye(len(G)) / v) / v
        van_trees = _inverse(G + np.diag(PRIOR.precision(np.diagonal(G)))) / v
        for kind, person in enumerate(examples):
            rows = panel.rows(person)
            if rows.size == 1:
                continue
            upper = np.linalg.eigvalsh(panel.block(posterior, person))[0]
            assert found.upper[kind, 0] == pytest.approx(upper, rel=1e-6, abs=1e-9)
            largest = np.linalg.eigvalsh(panel.block(G, person))[-1]
            alone = PRIOR.lower(Seen(information=np.array([largest]), linear_information=np.zeros(1)))[0]
            hidden = np.linalg.eigvalsh(panel.block(van_trees, person))[0]
            best = min(max(alone, hidden, panel.among(person)), upper)
            assert found.lower[kind, 0] <= best * (1 + 1e-6) + 1e-12
            assert found.lower[kind, 0] >= best * (1 - 1e-3) - 1e-9
            if people[kind] == 1 and found.directions[kind]:
                _check_recipe(panel, found.recipe(kind), float(found.rmse[kind, 0]), person)


def _check_recipe(panel: Panel, recipe: np.ndarray, rmse: float, person: int) -> None:
    """The recipe gives a unit feature of the person's unknown rows alone, with the error that is said."""
    given = recipe @ panel.members[:, ~panel.known]
    own = panel.person[~panel.known] == person
    assert np.allclose(given[~own], 0, atol=1e-6 * np.abs(recipe).max())
    assert np.linalg.norm(given[own]) == pytest.approx(1, rel=1e-6)
    assert rmse == pytest.approx(np.sqrt(np.sum((recipe * panel.stddevs) ** 2)), rel=1e-6)


def test_numbers_that_count_several_categories_couple_what_a_row_may_be() -> None:
    """Two rows of a person, numbers about b, about c and about both: the risk of all worlds is above the
    bound.
    """
    k, stddevs = 4, np.array([0.3, 0.3, 1.0])
    # Row 0 is counted by the number about b, row 1 by that about c, both by the one about b or c.
    counted = np.zeros((3, 2, k), dtype=int)
    counted[0, 0, 1] = counted[1, 1, 2] = 1
    counted[2, :, 1] = counted[2, :, 2] = 1
    rows = np.full((2 * k, 2), 3, dtype=np.int32)
    for column, numbers in enumerate(counted.reshape(3, -1).T):
        rows[column, : numbers.sum()] = np.flatnonzero(numbers)
    design = Design(
        units=Units(
            rows=rows,
            numbers=3,
            starts=np.array([0, 2 * k]),
            times=np.ones(2 * k, dtype=np.intp),
            people=np.ones(1, dtype=np.intp),
            each=k,
        ),
        noise=RowNoise.of(stddevs, stddevs, np.zeros(3), np.ones(3)),
        prior=UnitPrior(target=CosineSquaredPrior(0.0, 1.0), categories=k),
        release=np.arange(3),
        place=np.zeros(1, dtype=np.intp),
    )
    found = assess(design)
    worlds = np.array([(a, b) for a in range(k) for b in range(k)])
    means = (counted[:, 0, worlds[:, 0]] + counted[:, 1, worlds[:, 1]]).T.astype(float)
    generator = np.random.default_rng(0)
    truth = generator.integers(len(worlds), size=40_000)
    answers = means[truth] + stddevs * generator.standard_normal((truth.size, 3))
    logs = -0.5 * np.sum(((answers[:, None] - means) / stddevs) ** 2, axis=2)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    for category in range(k):
        indicator = (worlds == category).astype(float)
        mean = weights @ indicator
        second = np.einsum("nw,wi,wj->nij", weights, indicator, indicator)
        covariance = (second - np.einsum("ni,nj->nij", mean, mean)).mean(axis=0)
        risk = np.linalg.eigvalsh(covariance)[0] / ((k - 1) / k**2)
        assert found.lower[0, category] <= risk + 0.01
        assert found.upper[0, category] >= risk - 0.01
