"""Columns by their steps along a tree of rows, against products of the table and exact fractions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sightline.bounds.assessment import assess
from sightline.bounds.priors import prior_on
from sightline.numerics.residuals import gamma
from sightline.units import dense_units
from sightline.units.dense_units import TableUnits
from sightline.units.design import MadeOfUnits
from sightline.units.row_steps import RowSteps
from tests.units.unit_designs import design_of

KINDS = 300
Make = Callable[[np.random.Generator, int], np.ndarray]


def ladders(generator: np.random.Generator, rows: int) -> np.ndarray:
    """Two columns of thresholds, from below and from above, in any order."""
    values = generator.random((2, KINDS))
    table = [values[i % 2] < (i + 1) / rows if i % 3 else values[i % 2] >= i / rows for i in range(rows)]
    return np.array(table, dtype=np.uint8)[generator.permutation(rows)]


def branches(generator: np.random.Generator, rows: int) -> np.ndarray:
    """Groups within groups, one of them twice and one of nobody."""
    table = np.zeros((rows, KINDS), dtype=np.uint8)
    table[0] = 1
    for row in range(1, rows - 2):
        inside = np.flatnonzero(table[generator.integers(row)])
        table[row, inside[generator.random(inside.size) < 0.7]] = 1
    table[rows - 2] = table[1]
    return table


TABLES = [ladders, branches]


def steps_of(table: np.ndarray) -> RowSteps:
    found = RowSteps.of(table)
    assert found is not None
    return found


def a_tree(table: np.ndarray, generator: np.random.Generator) -> RowSteps:
    """Steps by any tree, whether it makes few of them or not."""
    numbers = len(table)
    order = generator.permutation(numbers)
    parent = np.full(numbers, numbers)
    for place in range(1, numbers):
        if generator.random() < 0.9:
            parent[order[place]] = order[generator.integers(place)]
    above = np.vstack([table, np.zeros((1, table.shape[1]))])[parent]
    signs = (table.astype(np.int8) - above.astype(np.int8)).T
    rows = np.broadcast_to(np.arange(numbers, dtype=np.int32), signs.shape)
    return RowSteps(order=order, parent=parent, rows=rows, signs=signs)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", TABLES)
def test_products_by_steps_are_exact(make: Make, seed: int) -> None:
    generator = np.random.default_rng(seed)
    table = make(generator, 40)
    counts = generator.integers(0, 1 << 40, KINDS)
    expected = (table.astype(object) * counts.tolist()) @ table.T.astype(object)
    for steps in (a_tree(table, generator), *([steps_of(table)] if make is ladders else [])):
        block = steps.block(slice(0, KINDS), np.ones(KINDS, dtype=np.intp))
        np.testing.assert_array_equal(
            steps.product(block, counts.astype(np.float64)), expected.astype(np.float64)
        )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", TABLES)
def test_forms_by_steps_err_by_no_more_than_is_stated(make: Make, seed: int) -> None:
    """Of matrices whose sums over rows cancel, in fractions."""
    generator = np.random.default_rng(seed)
    table = make(generator, 12)
    root = generator.normal(size=(12, 12)) * 10.0 ** generator.uniform(-3, 3, 12)
    root -= root.mean(axis=0) * generator.integers(2)
    Y = np.zeros((13, 13))
    Y[:-1, :-1] = root @ root.T
    Y = (Y + Y.T) / 2
    entries = [[Fraction(entry) for entry in line] for line in Y.tolist()]
    units = TableUnits(table=table, people=np.ones(KINDS, dtype=np.intp), whole=True, binary=True, peak=1.0)
    units.__dict__["steps"] = a_tree(table, generator)
    (block,) = units.blocks()
    forms = block.forms(Y)[:, 0, 0]
    error = gamma(block.terms) * block.sizes(np.sqrt(np.diagonal(Y)))
    for kind in range(0, KINDS, 10):
        rows = np.flatnonzero(table[:, kind]).tolist()
        exact = sum((entries[i][j] for i in rows for j in rows), Fraction(0))
        assert abs(Fraction(forms[kind]) - exact) <= Fraction(error[kind])


def test_rows_that_are_not_nested_have_no_steps() -> None:
    generator = np.random.default_rng(1)
    assert RowSteps.of((generator.random((40, KINDS)) < 0.5).astype(np.uint8)) is None
    assert steps_of(ladders(generator, 40)).rows.shape[1] <= 6


@pytest.mark.parametrize("seed", range(3))
def test_a_design_of_nested_rows_is_assessed_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(seed)
    table = ladders(generator, 40)
    stddevs = 10 ** generator.uniform(-1, 1, 40) if seed else np.full(40, 0.3)
    design = design_of(table, stddevs, prior_on((0.0, 1.0), "uniform"))
    listed = assess(design)
    monkeypatch.setattr(dense_units, "MOST_LOOKED_AT", 0)
    read = assess(replace(design, made=MadeOfUnits()))
    assert isinstance(read.solver.units, TableUnits)
    assert read.solver.units.steps is not None
    np.testing.assert_array_equal(read.identifiable, listed.identifiable)
    np.testing.assert_allclose(read.upper, listed.upper, rtol=1e-9)
    np.testing.assert_allclose(read.lower, listed.lower, rtol=1e-9)
    np.testing.assert_allclose(read.rmse, listed.rmse, rtol=1e-9)
    assert read.error.max() < 1e-9
