"""Sensitivities of neighbours that differ in one record, against every pair of small tables."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.errors import InvalidInput, InvalidRelease
from sightline.privacy import (
    Adjacency,
    histogram_sensitivity,
    mean_sensitivity,
    sum_sensitivity,
)
from sightline.theory.releases import AddRemove

DOMAINS = [(-1.0, 1.0), (0.0, 3.0), (-2.0, 0.5), (1.0, 4.0)]


def tables(values: list[float], size: int) -> list[tuple[float, ...]]:
    return list(product(values, repeat=size))


@pytest.mark.parametrize(("low", "high"), DOMAINS)
def test_sums_and_means_change_by_that_and_no_more(low: float, high: float) -> None:
    values, size = [low, (low + high) / 3, high], 4
    changed, removed, mean_changed, mean_removed = 0.0, 0.0, 0.0, 0.0
    for table in tables(values, size):
        for other in values:
            changed = max(changed, abs(table[0] - other))
            mean_changed = max(mean_changed, abs(np.mean(table) - np.mean([other, *table[1:]])))
        removed = max(removed, abs(sum(table) - sum(table[1:])))
        mean_removed = max(mean_removed, abs(np.mean(table) - np.mean(table[1:])))
    assert sum_sensitivity(low, high) == pytest.approx(changed)
    assert sum_sensitivity(low, high, Adjacency.ADD_REMOVE) == pytest.approx(removed)
    assert mean_sensitivity(low, high, records=size) == pytest.approx(mean_changed)
    assert mean_sensitivity(low, high, records=size, adjacency=Adjacency.ADD_REMOVE) == pytest.approx(
        mean_removed
    )


def test_histograms_lose_one_count_or_move_one() -> None:
    found: dict[Adjacency, list[float]] = {one: [0.0, 0.0] for one in Adjacency}
    for table in product(range(3), repeat=3):
        counts = np.bincount(table, minlength=3)
        others = {Adjacency.VALUE: [(one, *table[1:]) for one in range(3)], Adjacency.ADD_REMOVE: [table[1:]]}
        for adjacency, near in others.items():
            for other in near:
                moved = np.abs(counts - np.bincount(other, minlength=3))
                ends = float(np.sqrt((moved**2).sum())), float(moved.sum())
                found[adjacency] = [max(pair) for pair in zip(found[adjacency], ends, strict=True)]
    for adjacency in Adjacency:
        assert histogram_sensitivity(adjacency) == pytest.approx(found[adjacency])


@pytest.mark.parametrize(
    "query",
    [
        sl.SubsetMean(members=range(4), radius=2.0),
        sl.Moment(order=3, members=range(4), bound=1.0),
        sl.Moment(order=2, members=range(4), bound=1.0),
        sl.SmoothThreshold(at=0.2, members=range(4), bound=1.0, bandwidth=0.12),
    ],
    ids=["mean", "third moment", "second moment", "threshold"],
)
def test_the_caption_holds_for_means_the_factor_is_one(query: Any) -> None:
    # The mean over four records and over three of them, for every table on a grid with the ends and zero.
    values = [-1.0, -0.3, 0.0, 1.0]
    f = {value: query.value(np.full(4, value)).item() for value in values}
    largest = max(
        abs(math.fsum(f[one] for one in table) / 4 - math.fsum(f[one] for one in table[1:]) / 3)
        for table in tables(values, 4)
    )
    priced = AddRemove(query=query)
    assert priced.sensitivity.item() == pytest.approx(largest, rel=1e-12)
    assert priced.sensitivity.item() == query.sensitivity.item() == priced.sensitivity_l1.item()


def test_a_sum_is_priced_by_how_far_its_values_lie_from_zero() -> None:
    total = sl.SubsetSum(members=range(3), radius=3.0)
    for domain, expected in (((0.0, 3.0), 3.0), ((-1.5, 1.5), 1.5), ((5.0, 8.0), 8.0)):
        assert AddRemove(query=total, domain=domain).sensitivity.tolist() == [expected]
    weighted = sl.WeightedSum(members=[0, 2], weights=[2.0, -5.0], radius=1.0)
    assert AddRemove(query=weighted, domain=(0.0, 1.0)).sensitivity_l1.tolist() == [5.0]


def test_what_is_published_is_the_same_and_its_noise_another() -> None:
    total = sl.SubsetSum(members=range(3), radius=2.0)
    priced = AddRemove(query=total, domain=(-1.0, 1.0))
    records = np.array([0.5, -0.25, 1.0])
    assert priced.value(records).tolist() == total.value(records).tolist()
    assert np.array_equal(priced.jacobian(records), total.jacobian(records))
    rule = sl.BasicComposition(sl.Budget(epsilon=1.0, delta=1e-5))
    value, there = (sl.Transcript([one, one], noise=rule) for one in (total, priced))
    found = [one.geometry(at=records).profile(target=0, known=[1, 2]).crb for one in (value, there)]
    assert found[1] == pytest.approx(found[0] / 4, rel=1e-9)  # half the noise


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AddRemove(query=sl.SubsetSum(members=[0], radius=1.0)), "the domain of the values of a sum"),
        (
            lambda: AddRemove(query=sl.SubsetSum(members=[0], radius=1.0), domain=(0.0, 2.0)),
            "a domain no wider than the radius",
        ),
        (lambda: AddRemove(query=sl.SubsetMean(members=[0], radius=1.0)), "a mean of two records or more"),
        (
            lambda: AddRemove(query=sl.Cells(cells=[sl.SubsetMean(members=[0], radius=1.0)])),  # type: ignore[arg-type]
            "a mean, a moment, a threshold or a sum",
        ),
    ],
)
def test_what_has_no_such_sensitivity_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidRelease, match=message):
        make()


def test_bad_bounds_are_refused() -> None:
    with pytest.raises(InvalidInput, match="bounds low < high"):
        sum_sensitivity(1.0, 1.0)
    with pytest.raises(InvalidInput, match="two records or more, of which one may go"):
        mean_sensitivity(0.0, 1.0, records=1, adjacency=Adjacency.ADD_REMOVE)
    with pytest.raises(InvalidInput, match="records >= 1"):
        mean_sensitivity(0.0, 1.0, records=0)
