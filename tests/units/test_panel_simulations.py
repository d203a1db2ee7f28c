"""Lower ends of persons with 2 to 20 rows against long simulations: no attack does better, with error bars.

Values are drawn evenly, the numbers with their noise, and the posterior mean of every row is found by Gibbs
sampling of a Gaussian in a box: the best attack, up to the noise of the sampling, which only adds to its
risk.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from sightline.bounds.assessment import assess
from sightline.bounds.feature_brackets import PersonRows
from sightline.bounds.priors import UniformPrior
from sightline.units import row_solver, units
from tests.units.naive_panels import Panel

WORLDS, BURN_IN, SWEEPS = 300, 100, 300


def simulated(members: np.ndarray, stddevs: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Values of all rows in every world, and their posterior means."""
    generator = np.random.default_rng(seed)
    x = generator.random((WORLDS, members.shape[1]))
    answers = x @ members.T + generator.standard_normal((WORLDS, len(members))) * stddevs
    whitened = members / stddevs[:, None]
    Q, b = whitened.T @ whitened, (answers / stddevs) @ whitened
    state, total = x.copy(), np.zeros_like(x)
    for sweep in range(BURN_IN + SWEEPS):
        for row in range(x.shape[1]):
            if Q[row, row] == 0:
                state[:, row] = generator.random(WORLDS)
                continue
            width = Q[row, row] ** -0.5
            mean = state[:, row] + (b[:, row] - state @ Q[row]) / Q[row, row]
            low, high = ndtr(-mean / width), ndtr((1 - mean) / width)
            drawn = ndtri(low + (high - low) * generator.random(WORLDS))
            state[:, row] = np.clip(mean + width * drawn, 0.0, 1.0)
        total += state * (sweep >= BURN_IN)
    return x, total / SWEEPS


@pytest.mark.sampled(5)
@pytest.mark.slow
@pytest.mark.parametrize("rows", [2, 3, 5, 8, 12, 20])
@pytest.mark.parametrize("many", [True, False], ids=["as a panel", "as few rows"])
def test_no_attack_leaves_less_than_the_lower_ends(
    rows: int, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (units, row_solver):
        monkeypatch.setattr(module, "MANY_ROWS", 1 if many else 48)
    generator = np.random.default_rng([29, rows])
    person = np.repeat(np.arange(4), rows)
    members = (generator.random((2 * rows + 2, person.size)) < 0.4).astype(np.int64)
    members[:3] = [person >= 0, person > 0, person % 2 == 0]
    stddevs = generator.uniform(0.15, 0.8, len(members))
    known = np.zeros(person.size, dtype=np.bool_)
    panel = Panel(members=members, person=person, known=known, stddevs=stddevs)
    prior = UniformPrior(0.0, 1.0)
    design, examples = panel.design(prior)
    found = assess(design)
    x, mean = simulated(members, stddevs, seed=rows)
    close = 0
    for kind, one in enumerate(examples):
        own = panel.rows(one)
        # The direction that the linear attack sees best, every row, and the total.
        G = panel.information()
        left = np.linalg.eigh(panel.block(np.linalg.inv(G + np.eye(len(G)) / prior.variance), one))
        features = np.column_stack([left[1][:, 0], np.eye(own.size), np.ones(own.size)])
        features /= np.linalg.norm(features, axis=0)
        squares = ((x - mean)[:, own] @ features) ** 2 / prior.variance
        risk, error = squares.mean(axis=0), squares.std(axis=0, ddof=1) / WORLDS**0.5
        assert (found.lower[kind, 0] <= risk + 4 * error).all()
        close += int(found.lower[kind, 0] > 0.3 * risk[0])
        person_rows = PersonRows.of(found, kind)
        every = person_rows.times[:, None]
        (lower,), _ = person_rows.brackets(every, every)
        assert lower <= risk[-1] + 4 * error[-1]
        assert lower >= found.lower[kind, 0]
    assert close >= 1  # the bound says something
