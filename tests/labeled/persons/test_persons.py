"""Persons with several rows, against exact rank and dense algebra over single rows."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.errors import InvalidRelease
from sightline.labeled.bounds.coin import CoinPrior
from sightline.labeled.bounds.cosine import CosineSquaredPrior
from sightline.labeled.bounds.target import Seen
from sightline.labeled.bounds.uniform import UniformPrior
from sightline.labeled.exposures import exposures
from sightline.labeled.persons import Persons, persons
from tests.labeled.persons.naive_panels import Panel, random_panel, union

PRIOR = CosineSquaredPrior(0.0, 1.0)
FAST, ALL = 60, 3_000
ALONE, TOGETHER = 400, 15


def assessed(panel: Panel, *, by_signature: bool, prior=PRIOR) -> tuple[Persons, list[int]]:
    design, kinds, examples, known = panel.by_signature() if by_signature else panel.row_by_row()
    return persons(design, kinds, exposures(design, prior=prior, known=known)), examples


def panels(count: int, start: int = 0) -> list[Panel]:
    made = []
    for seed in range(start, start + count):
        panel = random_panel(np.random.default_rng([16, seed]))
        if np.unique(panel.members, axis=1).shape[1] > 1:  # a design has at least two columns
            made.append(panel)
    return made


def check_identifiable(panels: list[Panel], by_signature: bool) -> None:
    """What the union of some panels reveals of a person is what the person's own panel reveals."""
    seen, examples = assessed(union(panels), by_signature=by_signature)
    for kind, example in enumerate(examples):
        panel, person = panels[example // 100], example % 100
        assert seen.directions[kind] == panel.directions(person)
        assert seen.total_identifiable[kind] == panel.total_identifiable(person)


def check_numbers(panel: Panel, by_signature: bool) -> None:
    """Both ends of the worst direction, the sharpest identifiable feature, and the total."""
    seen, examples = assessed(panel, by_signature=by_signature)
    G, v, J = panel.information(), PRIOR.variance, PRIOR.fisher_information
    posterior = np.linalg.inv(G + np.eye(len(G)) / v) / v
    van_trees = np.linalg.inv(G + J * np.eye(len(G))) / v
    _, roots, right = np.linalg.svd(panel.members[:, ~panel.known] / panel.stddevs[:, None])
    rank = int(np.sum(roots > 1e-9 * roots[0]))
    pseudo = (right[:rank].T / roots[:rank] ** 2) @ right[:rank]
    for kind, person in enumerate(examples):
        if len(panel.rows(person)) == 1:
            continue
        upper = np.linalg.eigvalsh(panel.block(posterior, person))[0]
        if seen.exact[kind]:
            assert seen.upper[kind] == pytest.approx(upper, rel=1e-7, abs=1e-9)
        else:
            assert upper - 1e-9 <= seen.upper[kind] <= upper + 0.05
        assert seen.lower[kind] >= np.linalg.eigvalsh(panel.block(van_trees, person))[0] - 0.05
        assert seen.lower[kind] <= seen.upper[kind]
        largest = np.linalg.eigvalsh(panel.block(G, person))[-1]
        alone = PRIOR.lower(Seen(information=np.array([largest]), linear_information=np.zeros(1)))[0]
        assert seen.lower[kind] >= min(alone, upper) - 0.01
        assert seen.information[kind] >= largest * (1 - 1e-9)
        rows = panel.rows(person)
        if seen.total_identifiable[kind]:
            functional = (panel.person[~panel.known] == person).astype(float)
            truth = np.sqrt(functional @ pseudo @ functional / rows.size)
            assert seen.totals[kind].rmse == pytest.approx(truth, rel=1e-6)
            assert seen.totals[kind].is_total()
        if seen.directions[kind]:
            _check_recipe(panel, seen, kind, person)


def _check_recipe(panel: Panel, seen: Persons, kind: int, person: int) -> None:
    """The recipe gives a unit feature of the person's unknown rows alone, with the error that is said."""
    feature = seen.features[kind]
    got = feature.recipe @ panel.members
    mine = np.zeros(panel.person.size, dtype=bool)
    mine[panel.rows(person)] = True
    scale = np.abs(feature.recipe).sum()
    assert np.max(np.abs(got[~mine & ~panel.known]), initial=0.0) <= 1e-9 * scale
    assert np.linalg.norm(got[mine]) == pytest.approx(1.0, rel=1e-8)
    assert np.linalg.norm(feature.recipe * panel.stddevs) == pytest.approx(feature.rmse, rel=1e-8)
    # No identifiable unit feature is seen more sharply.
    if seen.total_identifiable[kind]:
        assert feature.rmse <= seen.totals[kind].rmse * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("by_signature", [True, False])
def test_identifiable_features_by_exact_rank(by_signature):
    for panel in panels(FAST):
        check_identifiable([panel], by_signature)


@pytest.mark.thorough
@pytest.mark.slow
def test_identifiable_features_of_3000_panels_by_exact_rank():
    drawn = panels(ALL - FAST, FAST)
    for panel in drawn[:ALONE]:
        check_identifiable([panel], True)
    for start in range(ALONE, len(drawn), TOGETHER):  # one large design costs little more than one small
        check_identifiable(drawn[start : start + TOGETHER], True)


@pytest.mark.slow
@pytest.mark.parametrize("by_signature", [True, False])
def test_risks_by_dense_algebra(by_signature):
    for panel in panels(FAST):
        check_numbers(panel, by_signature)


@pytest.mark.thorough
@pytest.mark.slow
def test_risks_of_many_panels_by_dense_algebra():
    for panel in panels(500, FAST):
        check_numbers(panel, True)


@pytest.mark.slow
def test_a_leverage_filter_changes_nothing(monkeypatch):
    """Large panels look at leverages before they decide exactly."""
    expected = [assessed(panel, by_signature=True)[0].directions for panel in panels(FAST)]
    monkeypatch.setattr("sightline.labeled.person_ranks._FEW", 0)
    for panel, directions in zip(panels(FAST), expected, strict=True):
        assert np.array_equal(assessed(panel, by_signature=True)[0].directions, directions)


@pytest.mark.slow
def test_without_the_blocks_the_bracket_is_wider_and_holds(monkeypatch):
    """Beyond the work that is affordable, persons keep a bracket from their rows and the trace."""
    exact = [assessed(panel, by_signature=True)[0] for panel in panels(FAST)]
    monkeypatch.setattr("sightline.labeled.person_blocks._MOST_WORK", 0.0)
    for panel, sharp in zip(panels(FAST), exact, strict=True):
        seen, _ = assessed(panel, by_signature=True)
        assert np.all(seen.lower <= sharp.lower + 1e-9)
        assert np.all(seen.upper >= sharp.upper - 1e-9)
        assert np.array_equal(seen.directions, sharp.directions)


def test_rows_that_no_person_has_are_refused():
    panel = panels(1)[0]
    design, kinds, _, known = panel.row_by_row()
    found = exposures(design, prior=PRIOR, known=known)
    fewer = type(kinds)(
        starts=kinds.starts, columns=kinds.columns, rows=kinds.rows + 1, persons=kinds.persons
    )
    with pytest.raises(InvalidRelease, match="every unknown row with one person"):
        persons(design, fewer, found)


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["cosine", "uniform", "coin"])
def test_brute_force_risk_is_inside_the_bracket(prior):
    """Two people with two rows each: the risk of the posterior mean, by sums over a grid of values.

    The worst direction of the other features is searched over a fan of directions.
    """
    generator = np.random.default_rng(7)
    if prior != "coin":
        law = PRIOR if prior == "cosine" else UniformPrior(0.0, 1.0)
        points = (np.arange(12) + 0.5) / 12
        masses = law.density(points)
    else:
        points, masses, law = np.array([0.0, 1.0]), np.ones(2), CoinPrior(share=0.5)
    masses = masses / masses.sum()
    grid = np.stack(np.meshgrid(*[points] * 3, indexing="ij"), -1).reshape(-1, 3)
    weights = np.prod(np.stack(np.meshgrid(*[masses] * 3, indexing="ij"), -1).reshape(-1, 3), axis=1)
    for members in ([[1, 1, 0], [0, 1, 1]], [[1, 1, 1], [0, 0, 1]], [[1, 1, 0], [1, 0, 1]]):
        panel = Panel(
            members=np.array(members),
            person=np.array([0, 0, 1]),
            known=np.zeros(3, dtype=bool),
            stddevs=np.array([0.3, 0.5]),
        )
        seen, examples = assessed(panel, by_signature=False, prior=law)
        kind = examples.index(0)
        means = grid @ panel.members.T
        covariance = np.zeros((3, 3))
        trials = 1_500
        truth = generator.choice(len(grid), trials, p=weights)
        answers = means[truth] + generator.standard_normal((trials, 2)) * panel.stddevs
        for answer in answers:
            logs = np.log(weights + 1e-300) - 0.5 * np.sum(((answer - means) / panel.stddevs) ** 2, axis=1)
            posterior = np.exp(logs - logs.max())
            posterior /= posterior.sum()
            centred = grid - posterior @ grid
            covariance += (centred * posterior[:, None]).T @ centred / trials
        variance = float(masses @ points**2 - (masses @ points) ** 2)
        worst = np.linalg.eigvalsh(covariance[:2, :2])[0] / variance
        assert seen.lower[kind] - 0.03 <= worst <= seen.upper[kind] + 0.03
