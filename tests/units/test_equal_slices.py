"""Sums over equal slices of a design, against the design itself: dense algebra, exact rank, every feature."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from sightline.bounds import assessment
from sightline.bounds.assessment import SlicedExposure, UnitExposure, assess
from sightline.bounds.feature_brackets import PersonRows
from sightline.units import row_decisions, row_solver, units
from sightline.units.design import Design, MadeOfUnits
from sightline.units.row_noise import RowNoise
from tests.bounds.test_persons import PRIOR
from tests.numbered_cases import trials
from tests.units.naive_panels import Panel, exact_rank
from tests.units.test_panels import check
from tests.units.unit_designs import design_of


def load_curve(generator: np.random.Generator) -> Panel:
    """A number for every hour, of all homes and sometimes of a group; months, of all and of some; gaps.

    Every home has the same rows in each hour of a month, but for hours in which some are missing.
    """
    homes, months = int(generator.integers(2, 6)), int(generator.integers(1, 4))
    hours = generator.integers(5, 12, months)
    each = generator.integers(0, 3, (months, homes))
    each[:, 0] = 1
    month_of = np.repeat(np.arange(months), hours)
    rows = [
        (home, hour)
        for hour, month in enumerate(month_of.tolist())
        for home in range(homes)
        for _ in range(int(each[month, home]) * (generator.random() > 0.01))
    ]
    home, hour = (np.array(column) for column in zip(*rows, strict=True))
    month, numbers, stddevs = month_of[hour], [], []

    def publish(chosen: np.ndarray, labels: np.ndarray, noise: float) -> None:
        for label in np.unique(labels[chosen]).tolist():
            numbers.append(chosen & (labels == label))
            stddevs.append(noise)

    def some() -> np.ndarray:
        return np.isin(home, generator.choice(homes, int(generator.integers(1, homes + 1))))

    publish(np.ones(home.size, dtype=np.bool_), hour, 10 ** generator.uniform(-1, 1))
    if generator.random() < 0.4:
        publish(some(), hour, 10 ** generator.uniform(-1, 1))
    for _ in range(int(generator.integers(0, 4))):
        publish(some(), month, 10 ** generator.uniform(-1, 1))
    publish(some(), np.zeros(home.size), 10 ** generator.uniform(-1, 1))
    if generator.random() < 0.3:  # an hour with noise of its own
        stddevs[0] *= 2
    return Panel(
        members=np.array(numbers).astype(np.int64),
        person=home,
        known=np.zeros(home.size, dtype=np.bool_),
        stddevs=np.array(stddevs),
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Equal slices are looked for in small designs, too."""
    monkeypatch.setattr(assessment, "SPARSE_FROM", 0)
    return monkeypatch


def both(design: Design, patch: pytest.MonkeyPatch) -> tuple[UnitExposure, UnitExposure]:
    """By sums over equal slices, and without them."""
    found = assess(replace(design, made=MadeOfUnits()))
    with patch.context() as other:
        other.setattr(assessment, "SPARSE_FROM", 1 << 30)
        return found, assess(replace(design, made=MadeOfUnits()))


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("many", [1, 48])
def test_every_person_is_seen_as_by_exact_rank_and_dense_algebra(
    many: int, small: pytest.MonkeyPatch
) -> None:
    for module in (units, row_solver, row_decisions):
        small.setattr(module, "MANY_ROWS", many)
    sliced = yes = 0
    for seed in (cases := trials(30)):
        panel = load_curve(np.random.default_rng([30, seed]))
        found = assess(panel.design(PRIOR)[0])
        sliced += isinstance(found, SlicedExposure)
        assert found.rank == exact_rank(panel.members)
        yes += check(panel, proved_each=False)
    assert sliced > len(cases) / 2
    assert yes > len(cases) / 2


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian", "laplace", "mixed"])
def test_all_ends_are_those_of_the_whole_design(law: str, small: pytest.MonkeyPatch) -> None:
    for module in (units, row_solver, row_decisions):
        small.setattr(module, "MANY_ROWS", 1)
    sliced = 0
    for seed in (cases := trials(25)):
        panel = load_curve(np.random.default_rng([31, seed]))
        design, _ = panel.design(PRIOR)
        ones = np.ones(len(panel.stddevs))
        loud = np.asarray(panel.stddevs > 1, dtype=np.float64)
        laplace = {"gaussian": 0 * ones, "laplace": ones, "mixed": loud}[law]
        scales = np.where(laplace > 0, panel.stddevs / np.sqrt(2), panel.stddevs)
        design = replace(design, noise=RowNoise.of(scales, panel.stddevs, laplace, ones))
        found, dense = both(design, small)
        if not isinstance(found, SlicedExposure):
            continue
        sliced += 1
        _same_ends(found, dense)
        _same_features(found, dense)
    assert sliced > 0.48 * len(cases)


def _same_ends(found: SlicedExposure, dense: UnitExposure) -> None:
    np.testing.assert_allclose(found.upper, dense.upper, rtol=1e-7)
    np.testing.assert_allclose(found.lower, dense.lower, rtol=1e-6)
    np.testing.assert_allclose(found.information, dense.information, rtol=1e-6)
    np.testing.assert_array_equal(found.near, dense.near)
    np.testing.assert_array_equal(found.directions, dense.directions)
    np.testing.assert_array_equal(found.identifiable, dense.identifiable)
    np.testing.assert_allclose(found.rmse, dense.rmse, rtol=1e-7)
    assert found.rank == dense.rank
    np.testing.assert_array_equal(found.products.matrix.toarray(), dense.products.matrix)


def _same_features(found: SlicedExposure, dense: UnitExposure) -> None:
    """Brackets of one row, the total and every number of a person; recipes give their feature."""
    store = found.design.units
    assert isinstance(store, units.Units)
    members = store.table()
    for kind in range(len(store)):
        mine, other = PersonRows.of(found, kind), PersonRows.of(dense, kind)
        for sums in ("total", "numbers", "one row"):
            ends = []
            for rows in (mine, other):
                if sums == "total":
                    asked = rows.times[:, None], rows.times[:, None]
                elif sums == "numbers":
                    chosen = np.isin(rows.published, mine.published[mine.published >= 0])
                    order = np.argsort(rows.published[chosen])
                    table = rows.table[:, chosen][:, order]
                    asked = rows.times[:, None] * table, rows.times[:, None] * table**2
                else:
                    one = sparse.eye_array(rows.times.size, format="csr")[:, rows.one_by_one]
                    asked = one, one
                ends.append(rows.brackets(*asked))
            for left, right in zip(*ends, strict=True):
                if sums == "one row":
                    left, right = left.min(), right.min()
                np.testing.assert_allclose(left, right, rtol=1e-7, atol=1e-9)
        if found.directions[kind] and found.rmse[kind, 0] < np.inf:
            weights, feature = found.recipe(kind), found.feature(kind)
            wanted = np.zeros(members.shape[0])
            wanted[store.starts[kind] : store.starts[kind + 1]] = feature
            np.testing.assert_allclose(members @ weights, wanted, atol=1e-7)
            assert found.design.noise.variance_of(weights) == pytest.approx(found.rmse[kind, 0] ** 2)


@pytest.mark.thorough
def test_rows_one_by_one_are_seen_as_in_the_whole_design(small: pytest.MonkeyPatch) -> None:
    """Every row as a kind of its own: slices are equal up to who is in them."""
    sliced = yes = 0
    for seed in range(30):
        panel = load_curve(np.random.default_rng([32, seed]))
        table = np.unique(panel.members, axis=1)
        # Homes alike are one kind of so many people.
        people = np.array([np.sum(np.all(panel.members == column[:, None], axis=0)) for column in table.T])
        design = design_of(table, panel.stddevs, PRIOR)
        assert isinstance(design.units, units.Units)
        order = [int(np.flatnonzero(design.place == kind)[0]) for kind in range(len(design.units))]
        design = replace(design, units=replace(design.units, people=people[order], distinct=True))
        found, dense = both(design, small)
        if not isinstance(found, SlicedExposure):
            continue
        sliced += 1
        _same_ends(found, dense)
        _same_features(found, dense)
        yes += int(found.identifiable.sum())
    assert sliced > 10
    assert yes > 10


def test_slices_are_equal_only_if_everything_is(small: pytest.MonkeyPatch) -> None:
    """Another noise, another weight, a missing row, another month: each makes a slice of its own kind."""
    hours, homes = 20, 3
    home, hour = (one.ravel() for one in np.indices((homes, hours)))
    members = np.array([hour == one for one in range(hours)] + [home >= 0]).astype(np.int64)
    panel = Panel(
        members=members,
        person=home,
        known=np.zeros(home.size, dtype=np.bool_),
        stddevs=np.ones(hours + 1),
    )
    design, _ = panel.design(PRIOR)

    def summed(changed: Design) -> list[int]:
        found = replace(changed, made=MadeOfUnits()).equal_slices()
        return sorted(found.slices.summed.astype(int).tolist()) if found and found.slices else []

    assert summed(design) == [1, 1, 19]
    assert summed(design.take(np.arange(hours))) == [1, 19]  # nothing is published beside the hours
    louder = replace(panel, stddevs=np.where(np.arange(hours + 1) == 2, 2.0, 1.0))
    assert summed(louder.design(PRIOR)[0]) == [1, 1, 1, 18]
    missing = Panel(members=members[:, 1:], person=home[1:], known=panel.known[1:], stddevs=panel.stddevs)
    assert summed(missing.design(PRIOR)[0]) == [1, 1, 1, 18]
    month = Panel(
        members=np.vstack([members, hour < 3]), person=home, known=panel.known, stddevs=np.ones(hours + 2)
    )
    assert summed(month.design(PRIOR)[0]) == [1, 1, 1, 1, 2, 16]
    assert isinstance(design.units, units.Units)
    weights = np.ones(design.units.rows.shape)
    weights[design.units.rows == 4] = 2.0
    assert summed(replace(design, units=replace(design.units, weights=weights))) == [1, 1, 1, 18]


def test_days_are_slices_beside_the_hours_of_a_month(small: pytest.MonkeyPatch) -> None:
    """Days of all homes and the hours of a month of two homes have as many columns, and not as many rows of a
    home: taken out, the latter leave equal days.
    """
    homes, months, days, hours = 3, 2, 6, 4
    home, month, day, hour = (one.ravel() for one in np.indices((homes, months, days, hours)))
    whole_day, every_hour, of_month = month * days + day, (month * days + day) * hours + hour, month * hours
    everyone, numbers = home >= 0, []
    for chosen, label in (
        (everyone, every_hour),
        (home > 0, every_hour),
        (everyone, whole_day),
        (everyone, hour),
        (home < 2, of_month + hour),
    ):
        numbers += [chosen & (label == one) for one in np.unique(label)]
    columns = [int(np.count_nonzero(number)) for number in numbers]
    assert columns.count(homes * hours) == months * days + months * hours  # the days, the hours of a month
    panel = Panel(
        members=np.array(numbers).astype(np.int64),
        person=home,
        known=np.zeros(home.size, dtype=np.bool_),
        stddevs=np.ones(len(numbers)),
    )
    found, dense = both(panel.design(PRIOR)[0], small)
    assert isinstance(found, SlicedExposure)
    # Of each month one day and the sum of five, with its hours twice; what was taken out stays.
    assert found.slices.rows.size == 2 * months * (2 * hours + 1) + hours + months * hours
    _same_ends(found, dense)
    _same_features(found, dense)


def test_a_design_without_many_numbers_is_assessed_as_it_is() -> None:
    panel = load_curve(np.random.default_rng([30, 1]))
    assert type(assess(panel.design(PRIOR)[0])) is UnitExposure
