"""Slopes of limits whose hiding follows the noise: against differences, and from the notable hiders alone."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.advising import following
from sightline.advising.following import FollowingAt, FollowingRisks
from sightline.arrays import FloatArray
from tests.advising.noise_problems import UNIFORM, hiders_of

LIMITS, EVERY = 40, np.arange(40)


def nested_groups(seed: int, *, weighted: bool) -> FollowingRisks:
    """600 records in groups by three keys of 60, 15 and 4 values; limits on 40 of them."""
    generator = np.random.default_rng(seed)
    kinds, records = (60, 15, 4), 600
    A = np.zeros((sum(kinds), records))
    for first, kind in zip((0, 60, 75), kinds, strict=True):
        A[first + generator.integers(0, kind, records), np.arange(records)] = 1.0
    if weighted:
        A *= generator.integers(1, 4, A.shape)
    hiders = hiders_of(A, generator.integers(1, 5, records).astype(np.float64), UNIFORM)
    own = generator.choice(records, LIMITS, replace=False)
    return FollowingRisks(columns=hiders.columns[:, own], needed=np.ones(LIMITS), hiders=hiders, own=own)


def slopes(at: FollowingAt) -> FloatArray:
    return at.tangents(EVERY, at.recipes(EVERY), np.ones(LIMITS)).each


@pytest.mark.parametrize("weighted", [False, True])
def test_slopes_are_the_derivatives(weighted: bool) -> None:
    risks = nested_groups(1, weighted=weighted)
    s = 0.2 + np.random.default_rng(2).random(79)
    found = slopes(risks.at(s))
    for row in (0, 30, 61, 77):
        step = np.zeros(79)
        step[row] = 1e-5 * s[row]
        change = (risks.at(s + step).phi - risks.at(s - step).phi) / (2e-5 * s[row])
        assert found[row] == pytest.approx(change, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("least", "wrong"), [(0.0, 1e-12), (1e-2, 1e-2)])
def test_notable_hiders_make_nearly_all_of_a_slope(
    monkeypatch: pytest.MonkeyPatch, weighted: bool, least: float, wrong: float
) -> None:
    at = nested_groups(3, weighted=weighted).at(0.2 + np.random.default_rng(4).random(79))
    s, whole = at.others.variances, slopes(at)
    work = at.risks.hiders.columns.nnz * LIMITS  # of all hiders: one less, and they are gathered
    monkeypatch.setattr(following, "_SLOPE_WORK", work - 1)
    monkeypatch.setattr(following, "_NOTABLE", (least, 1.0))
    monkeypatch.setattr(following.Hiders, "sizes", np.zeros(79))  # whatever work that is
    gathered = slopes(at)
    assert np.max((s @ np.abs(gathered - whole)) / (s @ np.abs(whole))) <= wrong
    assert least == 0.0 or not np.array_equal(gathered, whole), "some hiders are left out"


def test_where_notable_hiders_are_too_many_the_recipe_alone_makes_the_slope(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sum of the slopes, on which the bounds depend, stays whole."""
    at = nested_groups(5, weighted=False).at(np.ones(79))
    recipes = at.recipes(EVERY)
    total = at.tangents(EVERY, recipes, np.ones(LIMITS)).total
    monkeypatch.setattr(following, "_SLOPE_WORK", 1.0)
    found = at.tangents(EVERY, recipes, np.ones(LIMITS))
    assert found.each == pytest.approx(recipes**2, rel=1e-12, abs=1e-15)
    assert found.total == pytest.approx(total, rel=1e-15)
