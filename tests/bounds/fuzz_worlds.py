"""A hunt: yes or no and categories in small designs against the exact risk, by listing all worlds.

Gaussian, Laplace and mixed noise of any size, numbers without noise, weights, known records, persons with a
few rows; with the bounds of small components and without them, as large designs have them.
"""

from __future__ import annotations

from collections import Counter
from unittest import mock

import numpy as np

from sightline.bounds import listed_worlds
from sightline.bounds.assessment import assess
from tests.bounds.enumerated_worlds import few
from tests.numbered_cases import check_cases

_DRAWS = 1_500


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Random designs until the time is over."""
    return check_cases(one_design, seed, seconds)


def one_design(generator: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """No lower end is above the risk, and no upper end below it."""
    values = int(generator.integers(2, 4))
    rows, law = (
        int(generator.integers(2, 7 if values == 2 else 5)),
        ("gaussian", "laplace", "mixed")[trial % 3],
    )
    noise, several = float(10 ** generator.uniform(-1.5, 0.6)), trial % 4 == 3
    one = few(generator, rows=rows, values=values, noise=noise, law=law, exact=trial % 3 != 1)
    one.scales[:] *= 10 ** generator.uniform(-0.3, 0.3, one.scales.size)
    with mock.patch.object(listed_worlds, "_MOST_STATES", 1 << 16 if generator.random() < 0.5 else 0):
        if several:
            owner = np.sort(generator.integers(0, max(1, rows // 2), rows))
            owner = np.unique(owner, return_inverse=True)[1]
            found, place = assess(one.of_persons(owner)), np.arange(int(owner.max()) + 1)
            truth = one.sharpest(owner, _DRAWS, generator)
            margin = 6 * np.sqrt(truth / _DRAWS) + 48 / _DRAWS
        else:
            design = one.design()
            known = generator.random(len(design.units)) < 0.25 * (generator.random() < 0.5)
            known[0] = False
            design, place = design.knowing(known), design.knowing(known).place
            one.counted[:, place < 0] = 0.0  # what is known changes nothing
            found = assess(design)
            truth, error = one.simulated(_DRAWS, generator)
            margin = 6 * error + 48 / _DRAWS
    asked = slice(1, None) if values == 2 else slice(None)
    truth, margin, unknown = truth[:, asked], margin[:, asked], place >= 0
    low, high = found.lower[place[unknown]], found.upper_of_best[place[unknown]]
    assert np.all(low <= (truth + margin)[unknown]), "a lower end is above the risk"
    assert np.all(high >= (truth - margin)[unknown]), "an upper end is below the risk"
    count["persons" if several else "records"] += 1
    count["known"] += int(np.sum(~unknown))
    count["ends"] += low.size
