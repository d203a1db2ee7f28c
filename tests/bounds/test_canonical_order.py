"""The order in which a plan lists numbers, people and their rows decides nothing that is searched for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sightline.auditing.table_units import with_plain_weights
from sightline.bounds.canonical_order import in_canonical_order
from sightline.bounds.few_values import FewValues
from sightline.bounds.priors import TwoPointPrior
from sightline.units.design import Design
from sightline.units.row_noise import RowNoise
from sightline.units.target import UnitPrior
from sightline.units.units import Units


def _design(table: np.ndarray, stddevs: np.ndarray, owner: np.ndarray) -> Design:
    """Numbers × rows of persons, each row with its numbers in any places."""
    width = int((table != 0).sum(axis=0).max())
    rows, weights = np.full((table.shape[1], width), len(table)), np.ones((table.shape[1], width))
    for line, column in enumerate(table.T):
        inside = np.flatnonzero(column)
        rows[line, : inside.size], weights[line, : inside.size] = inside, column[inside]
    units = Units(
        rows=rows.astype(np.int32),
        weights=weights,
        numbers=len(table),
        starts=np.searchsorted(owner, np.arange(owner.max() + 2)),
        times=np.ones(len(owner), dtype=np.intp),
        people=np.ones(owner.max() + 1, dtype=np.intp),
    )
    none = np.zeros(len(table))
    return Design(
        units=units,
        noise=RowNoise.of(stddevs, stddevs, none, none + 1),
        prior=UnitPrior(target=TwoPointPrior(0.0, 1.0)),
        release=np.arange(len(table)),
        place=np.arange(len(units)),
    )


def _seen(design: Design) -> tuple[bytes, ...]:
    """What searches and draws see: rows, what they add, noise, and the lists of persons' rows."""
    few = FewValues.of_design(design)
    assert few is not None
    rows = few.rows
    parts = (rows.rows, rows.weights, rows.counts, rows.noise.information, few.kinds, few.times)
    return tuple(np.ascontiguousarray(part, dtype=np.float64).tobytes() for part in parts)


@pytest.mark.parametrize("seed", range(25))
def test_another_order_is_the_same_design(seed: int) -> None:
    rng = np.random.default_rng(seed)
    people, numbers = int(rng.integers(2, 7)), int(rng.integers(1, 7))
    owner = np.repeat(np.arange(people), rng.integers(1, 4, people))
    table = rng.integers(0, 3, (numbers, owner.size)) * (rng.random((numbers, owner.size)) < 0.5)
    table[rng.integers(numbers), :] = 1
    stddevs = rng.choice([0.5, 1.0], numbers)  # many are equal, so that structure has to tell
    order, persons = rng.permutation(numbers), rng.permutation(people)
    lines = np.concatenate([rng.permutation(np.flatnonzero(owner == one)) for one in persons])
    again = np.repeat(np.arange(people), np.bincount(owner)[persons])
    first = _design(table.astype(float), stddevs, owner)
    second = _design(table[order][:, lines].astype(float), stddevs[order], again)
    assert _seen(first) == _seen(second)


def test_a_ring_of_equals_is_the_same_wherever_it_starts() -> None:
    """Eight people in a ring of eight equal counts of two: marks alone tell none of them apart."""
    ring = np.eye(8) + np.roll(np.eye(8), 1, axis=1)
    orders = [np.random.default_rng(seed).permutation(8) for seed in range(6)]
    seen = {_seen(_design(ring[order][:, order[::-1]], np.ones(8), np.arange(8))) for order in orders}
    assert len(seen) == 1


def test_the_same_numbers_and_people_are_left() -> None:
    rng = np.random.default_rng(3)
    design = _design(rng.integers(0, 3, (4, 6)).astype(float), rng.uniform(1, 2, 4), np.arange(6))
    assert isinstance(design.units, Units)
    other, units = in_canonical_order(design, design.units)
    before, after = (
        one.noise.information[:, None] * u.table().T.toarray()
        for one, u in ((design, design.units), (other, units))
    )
    assert sorted(map(tuple, before.tolist())) == sorted(map(tuple, after.tolist()))


def test_equal_weights_of_every_number_are_taken_out() -> None:
    table = np.array([[3.0, 3.0, 0.0], [1.0, 1.0, 1.0], [0.0, 5.0, 5.0]])
    units = _design(table, np.ones(3), np.arange(3)).units
    assert isinstance(units, Units)
    found, common = with_plain_weights(units)
    assert common.tolist() == [3.0, 1.0, 5.0]
    assert not found.weighted
    assert np.array_equal(found.table().T.toarray() * common[:, None], table)
    table[0, 0] = 6.0
    others = _design(table, np.ones(3), np.arange(3)).units
    assert isinstance(others, Units)
    assert with_plain_weights(others)[0] is others


def test_weights_of_strangers_do_not_matter_for_what_is_taken_out() -> None:
    """Seed 301, case 2420 of the laws: strangers with uneven weights changed a drawn end by 2 %."""
    table = np.zeros((3, 4))
    table[:2, :2], table[2, 2:] = [[3.0, 3.0], [2.0, 0.0]], [1.0, 2.0]
    units = _design(table, np.ones(3), np.arange(4)).units
    assert isinstance(units, Units)
    found, common = with_plain_weights(units)
    assert common.tolist() == [3.0, 2.0, 1.0]
    assert found.table().T.toarray().tolist() == [[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 2]]
    assert np.array_equal(found.table().T.toarray() * common[:, None], table)


def test_columns_that_are_alike_once_a_number_is_gone_look_alike() -> None:
    """Weights of a number that is gone, and its place, do not tell columns apart."""
    table = np.array([[2.0, 5.0], [1.0, 1.0], [0.0, 1.0]])
    units = _design(table, np.ones(3), np.arange(2)).units
    assert isinstance(units, Units)
    assert np.unique(replace(units, aligned=False).take(np.array([1])).groups).size == 1


def test_a_row_in_no_number_needs_nobody_to_hide_it() -> None:
    """One row of a person is in a count of three, and keeps 2/3; the other is in no number."""
    units = _design(np.array([[1.0, 0.0, 1.0, 1.0]]), np.ones(1), np.array([0, 0, 1, 2])).units
    assert isinstance(units, Units)
    assert units.among_alike == pytest.approx([2 / 3] * 3, abs=1e-15)


def test_rows_of_one_person_that_are_no_longer_told_apart_count_together() -> None:
    """Two rows of a person, alone in a count, once another number is gone: nobody else hides their sum."""
    table = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 1.0]])
    units = _design(table, np.ones(2), np.array([0, 0, 1, 2])).units
    assert isinstance(units, Units)
    fewer = units.take(np.array([0]))
    assert fewer.among_alike[0] == 0.0
    merged = fewer.without_repeated_columns()
    assert merged.times.tolist() == [2, 1, 1]
    assert np.diff(merged.starts).tolist() == [1, 1, 1]
    assert np.array_equal(merged.among_alike, fewer.among_alike)
    design = _design(table, np.array([0.01, 1.0]), np.array([0, 0, 1, 2]))
    few = FewValues.of_design(replace(design.take(np.array([0]))))
    assert few is not None
    assert few.times[few.person[0]].sum() == 2
    assert np.count_nonzero(few.kinds[few.person[0]] >= 0) == 1
