"""Strangers change nothing: only those whom a chain of numbers connects with a person change their number."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.bounds.assessment import assess
from sightline.bounds.coin import CoinPrior
from sightline.bounds.priors import TwoPointPrior, UniformPrior
from sightline.bounds.walking import with_walk
from tests.units.unit_designs import design_of


def crowd_and_strangers(strangers: int) -> tuple[np.ndarray, np.ndarray]:
    """40 people in the cells of three tables; then pairs of strangers, each in a number of their own."""
    generator = np.random.default_rng(5)
    people, cells = 40, 18
    table = np.zeros((cells, people))
    table[generator.integers(0, 6, (3, people)) + 6 * np.arange(3)[:, None], np.arange(people)] = 1.0
    wide = np.zeros((cells + strangers, people + 2 * strangers))
    wide[:cells, :people] = table
    for release in range(strangers):
        wide[cells + release, people + 2 * release : people + 2 * release + 2] = 1.0
    return table, wide


@pytest.mark.slow
@pytest.mark.parametrize(
    "prior", [TwoPointPrior(0.0, 1.0), CoinPrior(share=0.2), UniformPrior(0.0, 1.0)], ids=str
)
def test_strangers_change_nobody_elses_number(prior: TwoPointPrior | CoinPrior | UniformPrior) -> None:
    """All bounds, the walk among them: 60 strangers with more noise than the limit needs."""
    table, wide = crowd_and_strangers(30)
    ends = []
    for one in (table, wide):
        noise = np.where(np.arange(len(one)) < len(table), 0.6, 5.0)
        design = design_of(one, noise, prior)
        exposure = assess(design)
        lower = with_walk(design, exposure.lower, exposure.upper_of_best, 0.45)
        shown = np.stack([exposure.lower[:, 0], exposure.upper_of_best[:, 0], lower[:, 0]])
        ends.append(shown[:, design.place[: table.shape[1]]])
    assert ends[1] == pytest.approx(ends[0], abs=1e-9)
    assert np.all(ends[0][0] > 0.05)
    if not isinstance(prior, UniformPrior):
        assert np.any(ends[0][2] > ends[0][0] + 0.02)  # who is walked for
