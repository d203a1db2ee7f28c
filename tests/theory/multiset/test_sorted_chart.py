"""The sorted chart: matching loss is sorted loss, and collisions are named by position."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sightline as sl
from sightline.errors import InvalidInput
from tests.theory.multiset.multiset_cases import BASIC

numbers = st.floats(-10, 10)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=5))
def test_the_matching_loss_is_the_sorted_loss_everywhere(pairs: list[tuple[float, float]]) -> None:
    estimate, values = np.array(pairs).T
    best = min(np.sum((estimate - np.array(p)) ** 2) for p in permutations(values))
    assert sl.multiset.matching_loss(estimate, values) == pytest.approx(best, rel=1e-12, abs=1e-12)


def test_the_matching_loss_of_many_trials() -> None:
    losses = sl.multiset.matching_loss([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]], [0.0, 1.0])
    assert losses.tolist() == [0.0, 0.0, 5.0]
    with pytest.raises(InvalidInput, match="an estimate for every value"):
        sl.multiset.matching_loss([1.0, 2.0, 3.0], [1.0, 2.0])


class TestCollisions:
    def test_equal_values_are_named_by_position(self) -> None:
        curve = sl.release_curve([0.5, -0.2, 0.5], family=sl.Moments(), accountant=BASIC)
        (collision,) = curve.collisions
        assert collision == sl.multiset.Collision(positions=(0, 2), exact=True)
        assert str(collision) == "values at positions 0, 2 are equal"
        assert np.isinf(curve.crb).all()
        assert {status.name for status in curve.status} == {"COLLISION"}
        assert curve.best == 0
        assert curve.first_identifiable is None
        assert curve.chart_radius == 0.0

    def test_nearly_equal_values_are_flagged_and_computed(self) -> None:
        values = [0.5, -0.2, 0.5 + 1e-9]
        curve = sl.release_curve(values, family=sl.Moments(), accountant=BASIC)
        (collision,) = curve.collisions
        assert collision == sl.multiset.Collision(positions=(0, 2), exact=False)
        assert "nearly equal" in str(collision)
        assert curve.best > 0
        assert curve.chart_radius == pytest.approx(5e-10)

    def test_many_groups_collide_one_by_one(self) -> None:
        groups = [[0.1, 0.2], [0.3, 0.3], [0.2, -0.4], [0.0, 0.0], [0.5, 0.6]]
        curves = sl.multiset.release_curves(
            groups, family=sl.Moments(), accountant=BASIC, releases=range(1, 6)
        )
        assert curves.best.tolist() == [curves[0].best, 0, curves[2].best, 0, curves[4].best]
        assert curves.first_identifiable.tolist() == [2, 0, 2, 0, 2]
        assert [bool(curves[b].collisions) for b in range(5)] == [False, True, False, True, False]
        assert (curves.status[1] == sl.multiset.CurveStatus.COLLISION).all()
        assert (curves.relative_error[0, 1:] > 0).all()

    def test_equal_and_nearly_equal_together(self) -> None:
        found = sl.multiset.collisions([0.3, 0.3, 0.3 + 1e-10, 0.9])
        assert found == (
            sl.multiset.Collision(positions=(0, 1), exact=True),
            sl.multiset.Collision(positions=(0, 1, 2), exact=False),
        )

    @given(st.lists(st.integers(-5, 5), min_size=1, max_size=8))
    def test_exact_collisions_partition_the_repeated_values(self, group: list[int]) -> None:
        found = [set(c.positions) for c in sl.multiset.collisions(group) if c.exact]
        naive = [{i for i, v in enumerate(group) if v == w} for w in sorted(set(group)) if group.count(w) > 1]
        assert found == naive


def test_one_value_has_no_neighbour() -> None:
    assert sl.multiset.chart_radius([0.3]) == np.inf
    assert sl.multiset.collisions([]) == ()
