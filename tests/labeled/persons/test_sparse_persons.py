"""Persons with several rows from a sparse factor, against exact rank and against the dense route."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

import sightline.labeled.persons as persons_module
from sightline import MembershipDesign
from sightline.labeled.exposures import Exposures, exposures, sparse_exposures
from sightline.labeled.persons import Persons, persons
from sightline.labeled.record_numbers import Attack
from sightline.labeled.routes.cost import cost_of
from sightline.labeled.sparse_gram import SparseGram
from sightline.progress import silent
from tests.labeled.persons.naive_panels import Panel, random_panel
from tests.labeled.persons.test_persons import PRIOR
from tests.labeled.sparse_cases import pattern_of


def panels(count: int) -> list[Panel]:
    drawn = [random_panel(np.random.default_rng([16, seed])) for seed in range(count)]
    return [panel for panel in drawn if np.unique(panel.members, axis=1).shape[1] > 1]


def sparse_found(design: MembershipDesign, known: np.ndarray) -> Exposures:
    pattern = pattern_of(design)
    unknown = np.ones(design.size, dtype=np.bool_)
    unknown[known] = False
    attack = Attack(
        prior=PRIOR, everyone_told=False, copies=None, attacks=True, cost=cost_of(pattern), progress=silent
    )
    return sparse_exposures(SparseGram.of(design, unknown, pattern), attack)


@dataclass(frozen=True, kw_only=True)
class Assessed:
    """A panel by the sparse route and by the dense one, and a person of each kind."""

    panel: Panel
    sparse: Persons
    dense: Persons
    examples: list[int]


@pytest.fixture(scope="module")
def every() -> list[Assessed]:
    found = []
    for panel in panels(100):
        design, kinds, examples, known = panel.by_signature()
        dense = persons(design, kinds, exposures(design, prior=PRIOR, known=known))
        pattern = pattern_of(design)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(persons_module, "_MOST_DENSE", 0)
            patched.setattr(persons_module, "choose_route", lambda *_, found=pattern: (None, found))
            ours = persons(design, kinds, sparse_found(design, known))
        found.append(Assessed(panel=panel, sparse=ours, dense=dense, examples=examples))
    return found


@pytest.mark.slow
def test_decisions_are_exact_or_left_open(every: list[Assessed]) -> None:
    count = Counter[str]()
    for one in every:
        panel, seen, dense = one.panel, one.sparse, one.dense
        for kind, person in enumerate(one.examples):
            truth, total = panel.directions(person), panel.total_identifiable(person)
            assert dense.directions[kind] == truth
            assert seen.directions[kind] <= truth
            assert total or not seen.total_identifiable[kind]
            if seen.undecided[kind]:
                count["undecided"] += 1
                continue
            assert seen.directions[kind] == truth
            assert seen.total_identifiable[kind] == total
            count["decided"] += 1
            count["features"] += truth
            count["totals of several rows"] += total and len(panel.rows(person)) > 1
    assert count["features"] > 40
    assert count["totals of several rows"] > 15
    assert count["undecided"] < count["decided"] / 5


@pytest.mark.slow
def test_brackets_hold_what_the_dense_ones_do(every: list[Assessed]) -> None:
    for one in every:
        seen, dense = one.sparse, one.dense
        assert np.all(seen.lower <= dense.upper * (1 + 1e-9))
        assert np.all(seen.upper >= dense.upper * (1 - 1e-6) - 1e-9)
        assert np.all(seen.lower <= seen.upper)


@pytest.mark.slow
def test_features_have_the_error_and_the_recipe_of_the_dense_route(every: list[Assessed]) -> None:
    compared = 0
    for one in every:
        panel = one.panel
        for kind, feature in one.sparse.features.items():
            rows = panel.rows(one.examples[kind])
            other = one.dense.features[kind]
            if not np.isfinite(feature.relative_error):
                assert feature.rmse <= other.rmse * (1 + 1e-9)
                continue
            assert feature.rmse == pytest.approx(other.rmse, rel=1e-6)
            seen_by_recipe = feature.recipe @ panel.members[:, ~panel.known]
            own = np.searchsorted(np.flatnonzero(~panel.known), rows)
            assert np.linalg.norm(seen_by_recipe[own]) == pytest.approx(1.0, abs=1e-6)
            assert np.allclose(np.delete(seen_by_recipe, own), 0.0, atol=1e-6)
            compared += 1
    assert compared > 20
