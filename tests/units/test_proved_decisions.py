"""Small fractions that prove, and residuals that refute, decide as elimination modulo a prime does."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import flint
import numpy as np
import pytest

from sightline import MembershipDesign
from sightline.bounds.assessment import assess
from sightline.bounds.membership_design import LoweredRecords
from sightline.bounds.priors import prior_on
from sightline.units import row_decisions, row_solver
from sightline.units.design import MadeOfUnits
from sightline.units.row_decisions import seen_at_most
from sightline.units.row_integers import RowIntegers, first_independent
from sightline.units.row_solver import DenseSolver


def months(generator: np.random.Generator, people: int, groups: int, number: int) -> np.ndarray:
    """Who is in which group each month: some move, some leave. Of several months nobody moves."""
    group, rows = generator.integers(0, groups, people), []
    for month in range(number):
        rows.append(np.arange(groups)[:, None] == group)
        if month % 3:
            moved = generator.integers(0, people, 3)
            group[moved] = generator.integers(-1, groups, 3)
    table = np.concatenate(rows).astype(float)
    return table[table.any(axis=1)]


@pytest.mark.parametrize("seed", range(6))
def test_proofs_decide_as_elimination_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(seed)
    rows = months(generator, 60, 4, 9)
    design = MembershipDesign(rows, noise=generator.choice([1.0, 7.0], len(rows)), readout="sum")
    lowered = LoweredRecords.of(design, prior_on((0.0, 1.0), "uniform"), np.ones(60, dtype=bool)).design
    found = assess(lowered)
    with monkeypatch.context() as patch:
        patch.setattr(row_solver, "guessed", lambda *_: None)
        patch.setattr(DenseSolver, "_refuted", lambda self, asked, units: np.zeros(units.size, dtype=bool))
        patch.setattr(row_decisions, "_proved", lambda asked, *_: np.zeros(len(asked.kinds), dtype=bool))
        slow = assess(replace(lowered, made=MadeOfUnits()))
        eliminated = slow.identifiable
    assert isinstance(found.solver, DenseSolver)
    assert isinstance(slow.solver, DenseSolver)
    assert np.array_equal(found.solver.independent.rows, slow.solver.independent.rows)
    assert np.array_equal(found.solver.independent.others, slow.solver.independent.others)
    assert found.solver.independent.others.any()
    assert np.array_equal(found.identifiable, eliminated)
    assert eliminated.any()
    assert np.array_equal(found.upper, slow.upper)
    assert np.array_equal(found.lower, slow.lower)


def test_the_first_independent_rows_are_those_of_elimination() -> None:
    generator = np.random.default_rng(0)
    for _ in range(40):
        rows = generator.integers(0, 3, (int(generator.integers(1, 90)), int(generator.integers(1, 40))))
        kept, chosen = first_independent((rows @ rows.T).astype(float)), []
        for place in range(len(rows)):
            if flint.fmpz_mat(rows[[*chosen, place]].tolist()).rank() > len(chosen):
                chosen.append(place)
        assert np.flatnonzero(kept).tolist() == chosen


def test_what_is_seen_is_never_more_than_its_bound() -> None:
    """Against exact rationals, for weights that are rounded and for weights that are wrong."""
    generator = np.random.default_rng(1)
    for _ in range(30):
        rows = generator.integers(0, 2, (5, 9))
        products, images = rows @ rows.T, rows[:, :2]
        if flint.fmpz_mat(products.tolist()).rank() < 5:
            continue
        solved = flint.fmpz_mat(products.tolist()).solve(flint.fmpz_mat(images.tolist()))
        exact = [
            sum(
                Fraction(int(images[i, u])) * Fraction(int(solved[i, u].p), int(solved[i, u].q))
                for i in range(5)
            )
            for u in range(2)
        ]
        largest = float(np.linalg.norm(np.linalg.inv(products)))
        near = np.linalg.solve(products, images.astype(float))
        for weights, close in ((near, True), (near + generator.normal(0, 1e-3, near.shape), False)):
            bound = seen_at_most(products.astype(float), images.astype(float), weights, largest)
            assert all(Fraction(float(one)) >= other for one, other in zip(bound, exact, strict=True))
            assert not close or bound == pytest.approx([float(one) for one in exact], abs=1e-9)


def test_parts_of_an_inverse_are_those_of_the_whole_in_fractions() -> None:
    """A few columns are solved for, many are inverted once, and a diagonal is inverted entry by entry."""
    half = np.random.default_rng(3).integers(-3, 4, size=(14, 20))
    kept = np.array([0, 1, 2, 4, 5, 6, 8, 9, 10, 11, 13])
    for table, disjoint in ((half @ half.T, False), (np.diag(np.arange(2, 16)), True)):
        integers = RowIntegers(table=table, shifts=np.zeros(14, dtype=np.intp))
        prime = integers.prime(kept)
        fractions = flint.fmpq_mat(flint.fmpz_mat(table[np.ix_(kept, kept)].tolist())).inv()
        few = integers.inverse(kept, np.array([3]), prime, disjoint=disjoint)
        many = integers.inverse(kept, np.arange(kept.size), prime, disjoint=disjoint)
        for i, j in itertools.product(range(kept.size), range(kept.size)):
            exact = int(fractions[i, j].p) * pow(int(fractions[i, j].q), -1, prime) % prime
            assert many(i, j) == exact
            assert j != 3 or few(i, j) == exact


@pytest.mark.parametrize("uneven", [0.0, 3.0])
def test_the_noise_of_few_dependent_rows_is_that_of_an_inverse(uneven: float) -> None:
    """Two partitions of the same people: one row follows from the others."""
    draw = np.random.default_rng(2)
    groups = draw.integers(0, 20, (2, 3_000))
    rows = np.concatenate([own == np.arange(20)[:, None] for own in groups]).astype(float)
    noise = np.exp(uneven * draw.standard_normal(40))
    design = MembershipDesign(rows, noise=noise)
    everyone = np.ones(rows.shape[1], dtype=bool)
    solver = assess(LoweredRecords.of(design, prior_on((0.0, 1.0), "uniform"), everyone).design).solver
    assert isinstance(solver, DenseSolver)
    kept, T = solver.independent.rows, solver.independent.others
    assert kept.size == 39
    E = T.copy()
    E[kept, np.arange(kept.size)] += 1.0
    assert np.array_equal(E @ rows[kept], rows)
    noise = solver.reduced(solver.noise.variance)
    exact = np.linalg.inv(E.T @ (E / solver.noise.variance[:, None]))
    size = np.sqrt(np.diagonal(exact))
    assert np.abs((noise.matrix - exact) / np.outer(size, size)).max() < 1e-10
    assert noise.error < 1e-6
