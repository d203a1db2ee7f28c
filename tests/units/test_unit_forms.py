"""Quadratic forms of the columns of units, looked up slot by slot, against products with dense columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sightline.bounds.assessment import unit_brackets
from sightline.bounds.priors import UniformPrior
from sightline.units.design import Design
from sightline.units.row_noise import RowNoise
from sightline.units.row_products import RowProducts
from sightline.units.target import UnitPrior
from sightline.units.unit_block import ONE, UnitBlock
from sightline.units.units import Units

NUMBERS = 14


def block(columns: int, *, weighted: bool, times: int, apart: bool) -> UnitBlock:
    """Rows of three slots: in ranges of their own, or all in one range, in any order."""
    generator = np.random.default_rng(columns)
    kinds = 7
    if apart:
        places = [generator.integers(low, high, (kinds, columns)) for low, high in ((0, 4), (4, 9), (9, 14))]
        rows = np.stack(places, axis=2)
    else:
        rows = np.argsort(generator.random((kinds, columns, NUMBERS)), axis=2)[:, :, :3]
    rows = np.where(generator.random(rows.shape) < 0.2, NUMBERS, rows)  # not in every slot
    return UnitBlock(
        rows=rows.astype(np.int32),
        weights=generator.normal(size=rows.shape) if weighted else ONE,
        times=generator.integers(1, times + 1, (kinds, columns)),
        people=np.ones(kinds, dtype=np.intp),
        alike=np.ones(kinds),
        kinds=np.arange(kinds),
    )


def columns_of(one: UnitBlock, kind: int) -> np.ndarray:
    """Rows × columns √times a of one kind, entry by entry."""
    entries = np.zeros((NUMBERS + 1, one.times.shape[1]))
    for column in range(one.times.shape[1]):
        for slot, row in enumerate(one.rows[kind, column].tolist()):
            entries[row, column] = one.weights[kind, column, slot] * np.sqrt(one.times[kind, column])
    return entries[:-1]


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("columns", [1, 2, 13])
def test_forms_are_products_with_the_columns(columns: int, weighted: bool, times: int, apart: bool) -> None:
    one = block(columns, weighted=weighted, times=times, apart=apart)
    generator = np.random.default_rng(5)
    root = generator.normal(size=(NUMBERS, NUMBERS))
    Y = np.zeros((NUMBERS + 1, NUMBERS + 1))
    Y[:-1, :-1] = root @ root.T
    diagonal = np.append(generator.random(NUMBERS), 0.0)
    for kind in range(len(one)):
        B = columns_of(one, kind)
        assert np.allclose(one.forms(Y)[kind], B.T @ Y[:-1, :-1] @ B, rtol=0, atol=1e-11)
        assert np.allclose(one.forms(diagonal)[kind], B.T @ np.diag(diagonal[:-1]) @ B, rtol=0, atol=1e-12)


@pytest.mark.parametrize("each", [1, 2])
def test_rows_apart_have_the_diagonal_blocks(each: int) -> None:
    one = block(4, weighted=True, times=3, apart=False)
    Y = np.diag(np.append(np.arange(1.0, NUMBERS + 1), 0.0))
    whole, rows = one.forms(Y), one.rows_apart(each).forms(Y).reshape(len(one), -1, each, each)
    for start in range(0, 4, each):
        own = slice(start, start + each)
        assert np.allclose(rows[:, start // each], whole[:, own, own], rtol=1e-13, atol=0)


@pytest.mark.parametrize("width", [3, 40])
@pytest.mark.parametrize("people", [1, 5])
def test_products_of_rows_are_sums_over_people(width: int, people: int) -> None:
    """However rows lie in the slots, and by whichever of the ways the products are counted."""
    numbers, kinds, generator = 60, 50, np.random.default_rng(width)
    rows = np.argsort(generator.random((kinds, numbers)), axis=1)[:, :width]
    units = Units(
        rows=rows.astype(np.int32),
        numbers=numbers,
        starts=np.arange(kinds + 1),
        times=np.ones(kinds, dtype=np.intp),
        people=generator.integers(1, people + 1, kinds),
    )
    table = np.zeros((numbers, kinds))
    for kind in range(kinds):
        table[rows[kind], kind] = 1.0
    noise = RowNoise.of(*np.ones((2, numbers)), np.zeros(numbers), np.ones(numbers))
    prior = UnitPrior(target=UniformPrior(low=0.0, high=1.0))
    found = RowProducts(prior=prior, noise=noise).of(units)
    assert np.array_equal(found.dense, (table * units.people) @ table.T)


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("noise", [0.05, 0.5, 5.0])
def test_lower_ends_of_persons_do_not_depend_on_whether_upper_ends_are_asked_for(
    noise: float, laplace: bool
) -> None:
    """Where what hides their rows decides, and where the information about them does."""
    generator = np.random.default_rng(round(100 * noise))
    starts = np.cumsum([0, *generator.integers(2, 5, 40)])
    rows = np.stack([generator.integers(low, high, starts[-1]) for low, high in ((0, 4), (4, 9))], axis=1)
    scales, ones = np.full(9, noise), np.ones(9)
    design = Design(
        units=Units(
            rows=rows.astype(np.int32),
            numbers=9,
            starts=starts,
            times=generator.integers(1, 3, starts[-1]),
            people=np.ones(40, dtype=np.intp),
        ),
        noise=RowNoise.of(scales, scales, ones * laplace, ones),
        prior=UnitPrior(target=UniformPrior(low=0.0, high=1.0)),
        release=np.zeros(9, dtype=np.intp),
        place=np.arange(40),
    )
    brackets = unit_brackets(design)
    whole, alone = (design.units.run(replace(brackets, upper=upper)) for upper in (True, False))
    assert np.allclose(np.minimum(alone["lower"], whole["upper"]), whole["lower"], rtol=1e-12, atol=0)
    assert np.ptp(whole["lower"]) > 0


@pytest.mark.parametrize("categories", [1, 2])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("alone", [False, True])
def test_leverages_are_looked_up_only_where_one_may_be_one(
    alone: bool, several: bool, categories: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large table has none; a person who is alone in a group is found among all."""
    generator, numbers, kinds, k = np.random.default_rng(3), 8 * categories, 900, categories
    persons = 1 + several
    places = generator.integers(0, 4, (kinds * persons, 1, 2))
    if alone:
        places[:persons], places[persons:, :, 0] = 0, np.maximum(places[persons:, :, 0], 1)
    # A number for every category of a group.
    rows = (places + np.array([0, 4])) * k + np.arange(k)[None, :, None]
    units = Units(
        rows=rows.reshape(-1, 2).astype(np.int32),
        numbers=numbers,
        starts=np.arange(kinds + 1) * persons * k,
        times=np.ones(kinds * persons * k, dtype=np.intp),
        people=np.where(np.arange(kinds) == 0, 1, 40) if alone else np.full(kinds, 40),
        each=k,
    )
    prior = UnitPrior(target=UniformPrior(low=0.0, high=1.0), categories=k)
    ones = np.ones(numbers)
    design = Design(
        units=units,
        noise=RowNoise.of(ones, ones, 0 * ones, ones),
        prior=prior,
        release=np.arange(numbers),
        place=np.arange(kinds),
    )
    (block_of_all,) = units.blocks()
    brackets = unit_brackets(design)
    found = brackets.of_block(block_of_all)["near"]
    # Fractions of a person's own rows, from dense columns: the trace of BᵀM⁻B over all people of a kind.
    columns = units.table().toarray().reshape(kinds, persons, k, numbers)
    M = np.einsum("n,npcr,cd,npds->rs", units.people, columns, prior.kernel, columns)
    own = np.einsum("npcr,rs,npds,cd->n", columns, np.linalg.pinv(M), columns, prior.kernel)
    assert np.array_equal(found, units.people * own > 1 - 1e-6)
    assert found.any() == alone

    looked_up = []
    monkeypatch.setattr(UnitBlock, "forms", lambda *_: looked_up.append(1) or np.zeros((kinds, k, k)))
    if not alone:
        brackets._near(block_of_all, persons, k)
        assert not looked_up
