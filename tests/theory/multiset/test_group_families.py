"""Families of releases on a group: their rows are the queries' own, and bad ones cannot be written down."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from sightline.errors import InvalidInput, InvalidRelease
from tests.theory.multiset.multiset_cases import BASIC, FAMILIES, GROUP, exact_rows

CONVENTIONS = ["tight", "uniform"]


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("bound", [1.0, 0.7, 12.0])
def test_moments_are_the_gradients_of_moment_queries(convention: str, bound: float) -> None:
    family = sl.Moments(bound=bound, convention=convention)
    values = np.array(GROUP) * 0.9 * bound
    rows = family.rows(values[None], 6)[0]
    for order, row in enumerate(rows, start=1):
        query = sl.Moment(order=order, members=range(3), bound=bound, convention=convention)
        assert row == pytest.approx(query.jacobian(values)[0, :, 0] / query.sensitivity, rel=1e-14)


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("kernel", ["logistic", "compact"])
@pytest.mark.parametrize("grid", ["midpoint", np.linspace(-0.9, 1.0, 6)], ids=["midpoint", "list"])
def test_thresholds_are_the_gradients_of_threshold_queries(
    convention: str, kernel: str, grid: object
) -> None:
    family = sl.Thresholds(bandwidth=0.4, kernel=kernel, convention=convention, grid=grid)
    rows = family.rows(np.array([GROUP]), 6)[0]
    for t, row in zip(family.thresholds(6), rows, strict=True):
        query = sl.SmoothThreshold(
            at=t, members=range(3), bound=1.0, bandwidth=0.4, kernel=kernel, convention=convention
        )
        slopes = query.jacobian(np.array(GROUP))[0, :, 0] / query.sensitivity
        assert row == pytest.approx(slopes, rel=1e-14)


@given(r=st.floats(-1, 1), order=st.integers(1, 300), bound=st.floats(1e-3, 1e3))
@settings(max_examples=60, deadline=None)
def test_powers_are_right_to_the_last_place(r: float, order: int, bound: float) -> None:
    family = sl.Moments(bound=bound, convention="uniform")
    value = r * bound
    if abs(value) > bound:
        return
    got = family.rows(np.array([[value]]), order)[0, -1, 0]
    with mp.workdps(60):
        (truth,) = exact_rows([value], family, order)[-1]
        assert got == pytest.approx(float(truth), rel=8e-16, abs=1e-290)


@pytest.mark.parametrize("name", FAMILIES)
class TestEveryFamily:
    def test_it_is_a_family(self, name: str) -> None:
        assert isinstance(FAMILIES[name], sl.multiset.Family)

    def test_nested_means_that_the_rows_only_grow(self, name: str) -> None:
        family = FAMILIES[name]
        groups = np.array([GROUP, (-0.5, 0.0, 0.25)])
        long, short = family.rows(groups, 7), family.rows(groups, 4)
        assert long.shape == (2, 7, 3)
        assert (long[:, :4].tolist() == short.tolist()) == family.nested

    def test_its_rows_are_the_formulas_in_many_digits(self, name: str) -> None:
        family = FAMILIES[name]
        formula = sl.Moments() if name == "queries" else family
        exact = [[float(entry) for entry in row] for row in exact_rows(GROUP, formula, 6)]
        assert family.rows(np.array([GROUP]), 6)[0] == pytest.approx(np.array(exact), rel=1e-13, abs=1e-16)

    def test_values_out_of_its_domain_are_refused_by_position(self, name: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            sl.release_curve([0.25, -7.125, 0.5], family=FAMILIES[name], accountant=BASIC, releases=[3])
        assert "7.125" not in str(caught.value)


@pytest.mark.thorough
def test_queries_by_autodiff_are_a_family() -> None:
    def mean_power(order: int) -> sl.DeepSet:
        return sl.DeepSet(
            feature=lambda x: x**order,
            readout=lambda s: s / 3,
            members=range(3),
            sensitivity=float(sl.Moment(order=order, members=range(3), bound=1.0).sensitivity[0]),
        )

    counts = range(1, 6)
    own = sl.release_curve(
        GROUP, family=sl.multiset.QueryFamily(queries=mean_power), accountant=BASIC, releases=counts
    )
    same = sl.release_curve(GROUP, family=sl.Moments(), accountant=BASIC, releases=counts)
    assert own.crb == pytest.approx(same.crb, rel=1e-12)


class TestThresholdLists:
    def test_bisecting_uses_all_thresholds_once_and_spreads_every_prefix(self) -> None:
        grid = np.linspace(-1, 1, 37)
        family = sl.Thresholds(bandwidth=0.1, grid=grid, order="bisecting")
        order = family.thresholds(37)
        assert sorted(order.tolist()) == grid.tolist()
        for count in (4, 8, 16):
            gaps = np.diff(np.sort(np.concatenate([[-1], order[:count], [1]])))
            assert gaps.max() <= 5 * 2 / count

    def test_all_of_a_list_is_the_same_in_any_order(self) -> None:
        grid = np.linspace(-1, 1, 15)
        curves = [
            sl.release_curve(
                GROUP,
                family=sl.Thresholds(bandwidth=0.2, grid=grid, order=order),
                accountant=BASIC,
                releases=range(3, 16),
            )
            for order in ("left to right", "bisecting")
        ]
        assert curves[0].crb[-1] == pytest.approx(curves[1].crb[-1], rel=1e-12)

    def test_a_rule_for_midpoints_is_the_midpoint_grid(self) -> None:
        rule = sl.Thresholds(bandwidth=0.2, grid=lambda L: -1 + (2 * np.arange(1, L + 1) - 1) / L)
        curves = [
            sl.release_curve(GROUP, family=family, accountant=BASIC, releases=range(3, 20)).crb
            for family in (rule, sl.Thresholds(bandwidth=0.2))
        ]
        assert curves[0] == pytest.approx(curves[1], rel=1e-10)


def threshold(**changes: object) -> sl.Thresholds:
    return sl.Thresholds(**{"bandwidth": 0.1} | changes)


REFUSED = [
    (lambda: sl.Moments(bound=0.0), "bound between"),
    (lambda: sl.Moments(bound=np.inf), "finite bound"),
    (lambda: sl.Moments(convention="loose"), "convention to be one of"),
    (lambda: threshold(bandwidth=0.0), "bandwidth between"),
    (lambda: threshold(bandwidth=-0.1), "bandwidth between"),
    (lambda: threshold(bandwidth=np.nan), "finite bandwidth"),
    (lambda: threshold(bound=-1.0), "bound between"),
    (lambda: threshold(kernel="box"), "kernel to be one of"),
    (lambda: threshold(convention="loose"), "convention to be one of"),
    (lambda: threshold(order="random"), "order to be one of"),
    (lambda: threshold(grid="even"), "grid to be one of"),
    (lambda: threshold(grid=[]), "at least one threshold"),
    (lambda: threshold(grid=[0.1, 0.1]), "increase strictly"),
    (lambda: threshold(grid=[0.2, 0.1]), "increase strictly"),
    (lambda: threshold(grid=[0.2, np.nan]), "finite thresholds"),
    (lambda: threshold(grid=[0.2, 1.1]), "thresholds within"),
    (lambda: threshold(order="bisecting"), "an order only with a list"),
    (lambda: threshold(bandwidth=1e129, bound=1e-100), "sensitivity between"),
    (lambda: sl.multiset.QueryFamily(queries=[]), "at least one query"),
    (lambda: sl.multiset.QueryFamily(queries=3), "queries or a rule"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_a_family_that_publishes_nothing_cannot_be_written_down(make, message: str) -> None:
    with pytest.raises(InvalidRelease, match=message):
        make()


USED_WRONGLY = [
    (sl.Thresholds(bandwidth=0.1, grid=lambda L: [0.0]), "3 thresholds from the grid rule"),
    (
        sl.multiset.QueryFamily(queries=lambda n: sl.Moment(order=n, members=range(2), bound=1.0)),
        "the 3 values",
    ),
    (
        sl.multiset.QueryFamily(
            queries=lambda n: sl.WeightedSum(members=range(3), weights=[1, 2, 3], radius=1.0)
        ),
        "do not depend on the order",
    ),
    (
        sl.multiset.QueryFamily(
            queries=lambda n: sl.Cells(
                cells=[sl.SubsetMean(members=[0, 1], radius=1.0), sl.SubsetMean(members=[2], radius=1.0)]
            )
        ),
        "one output",
    ),
]


@pytest.mark.parametrize(("family", "message"), USED_WRONGLY)
def test_a_family_that_does_not_fit_the_group_is_refused(family, message: str) -> None:
    with pytest.raises(InvalidRelease, match=message):
        sl.release_curve(GROUP, family=family, accountant=BASIC, releases=[3])


GROUPS_REFUSED = [
    ({"values": []}, "at least one value"),
    ({"values": [np.nan, 0.1]}, "finite values"),
    ({"values": [np.inf, 0.1]}, "finite values"),
    ({"values": [[0.1, 0.2]]}, "values of 1 dimension"),
    ({"values": ["a", "b"]}, "an array of numbers"),
    ({"values": [0.1, 1.1]}, "values within ±1"),
    ({"releases": []}, "whole numbers"),
    ({"releases": [1.5]}, "whole numbers"),
    ({"releases": [[1, 2]]}, "whole numbers"),
    ({"releases": [0, 1]}, "release counts >= 1"),
    ({"releases": [3, 2]}, "that increase"),
    ({"releases": [2, 2]}, "that increase"),
    ({"family": "moments"}, "a family of releases"),
    ({"family": sl.Moments}, "a family of releases"),
    ({"family": sl.Thresholds(bandwidth=0.1, grid=[0.0, 0.5])}, "at most the 2 releases"),
    ({"accountant": 3.0}, "an accountant"),
]


@pytest.mark.parametrize(("changes", "message"), GROUPS_REFUSED)
def test_a_curve_that_makes_no_sense_is_refused(changes: dict[str, object], message: str) -> None:
    arguments = {"values": [0.1, 0.2], "family": sl.Moments(), "accountant": BASIC, "releases": range(1, 9)}
    arguments |= changes
    with pytest.raises(InvalidInput, match=message) as caught:
        sl.release_curve(arguments.pop("values"), **arguments)
    assert "1.1" not in str(caught.value)


def test_a_bottleneck_needs_as_many_releases_as_values() -> None:
    curve = sl.release_curve([0.1, 0.2], family=sl.Moments(), accountant=BASIC)
    with pytest.raises(InvalidInput, match="at least as many releases as values"):
        curve.bottleneck(1)


@pytest.mark.parametrize("name", FAMILIES)
class TestRowsAndQueries:
    def test_the_rows_are_the_gradients_of_the_queries_answers(self, name: str) -> None:
        family, step = FAMILIES[name], 1e-6
        group = np.array(GROUP)
        rows = family.rows(group[None], 4)[0]
        for query, row in zip(family.queries_of(len(GROUP), 4), rows, strict=True):
            for k, slope in enumerate(row):
                moved = step * (np.arange(len(GROUP)) == k)
                change = (query.value(group + moved) - query.value(group - moved))[0] / query.sensitivity[0]
                assert change / (2 * step) == pytest.approx(slope, rel=1e-5, abs=1e-8)

    def test_the_queries_have_these_rows(self, name: str) -> None:
        family = FAMILIES[name]
        queries = family.queries_of(len(GROUP), 4)
        for query, row in zip(queries, family.rows(np.array([GROUP]), 4)[0], strict=True):
            assert query.members.tolist() == [0, 1, 2]
            jacobian = query.jacobian(np.array(GROUP))[0, :, 0] / query.sensitivity[0]
            assert jacobian == pytest.approx(row, rel=1e-9, abs=1e-15)
