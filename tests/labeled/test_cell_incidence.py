"""Signatures with counts see exactly what the table they stand for sees, one column a record."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline import arrays
from sightline.errors import InvalidRelease
from sightline.labeled.column_forms import ProjectedForms
from sightline.labeled.design import MembershipDesign
from sightline.labeled.incidence import cell_forms, cells
from sightline.labeled.incidence.cells import CellIncidence, incidence_of_cells
from sightline.labeled.incidence.dense import DenseIncidence
from sightline.labeled.risk_forms import Quantity, risks_over_v
from sightline.labeled.routes.exact import modular_test
from sightline.labeled.routes.partitions import (
    by_partitions,
    decide_partitions,
    fitted_groups,
    forms_of_partitions,
    groups_near_one,
    independent_rows,
)
from sightline.labeled.routes.problem import Decisions, Problem
from sightline.labeled.unknown_gram import UnknownRecordsGram
from sightline.numerics import residues
from sightline.numerics.residues import Residues, SolvedSystem


def quiet(stage: str, share: float) -> None:
    pass


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Cells of some rows in some partitions (-1 for none), and the width of each; every cell has a row."""
    partitions = draw(st.integers(1, 4))
    rows = draw(st.integers(2, 9))
    columns = []
    for _ in range(partitions):
        cells = draw(st.lists(st.integers(-1, 3), min_size=rows, max_size=rows))
        used = sorted(set(cells) - {-1})
        columns.append([used.index(cell) if cell >= 0 else -1 for cell in cells])
    table = np.array(columns, dtype=np.int32).T
    table = table[:, table.max(axis=0) >= 0]
    if table.shape[1] == 0:
        table = np.zeros((rows, 1), dtype=np.int32)
    return table, table.max(axis=0) + 1


def as_rows(table: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """The naive twin: a row of 0s and 1s for each cell."""
    return np.array([table[:, p] == cell for p, width in enumerate(widths) for cell in range(width)], float)


def collapsed(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    distinct, back, counts = np.unique(table, axis=0, return_inverse=True, return_counts=True)
    return distinct, back.ravel(), counts


FORMS = {
    "cells": lambda distinct, widths, counts: CellIncidence.of(distinct, widths, counts.astype(np.intp)),
    "bits": lambda distinct, widths, counts: CellIncidence.of(
        distinct, widths, counts.astype(np.intp)
    ).as_dense(),
}


@pytest.mark.parametrize("form", FORMS)
class TestEveryFormOfSignatures:
    @given(drawn=tables(), seed=st.integers(0, 99))
    def test_all_that_is_seen_is_the_same_as_row_by_row(
        self, form: str, drawn: tuple[np.ndarray, np.ndarray], seed: int
    ) -> None:
        table, widths = drawn
        distinct, back, counts = collapsed(table)
        noise = np.random.default_rng(seed).uniform(0.1, 2.0, int(widths.sum()))
        one_by_one = MembershipDesign(as_rows(table, widths), noise=noise, readout="sum")
        design = MembershipDesign(FORMS[form](distinct, widths, counts), noise=noise, readout="sum")
        truth, found = one_by_one.exposures(domain=(0, 1)), design.exposures(domain=(0, 1))
        assert found.rank == truth.rank
        assert found.identifiable[back].tolist() == truth.identifiable.tolist()
        np.testing.assert_allclose(found.rmse[back], truth.rmse, rtol=1e-9)
        np.testing.assert_allclose(found.remaining_lower[back], truth.remaining_lower, rtol=1e-9)
        np.testing.assert_allclose(found.remaining_upper[back], truth.remaining_upper, rtol=1e-9)
        np.testing.assert_allclose(found.groups.rmse[back], truth.groups.rmse[truth.group], rtol=1e-9)
        assert found.groups.sizes[back].tolist() == truth.groups.sizes[truth.group].tolist()
        for column in np.flatnonzero(found.groups.identifiable):
            row = int(np.flatnonzero(back == column)[0])
            expected = truth.group_recipe(int(truth.group[row]))
            np.testing.assert_allclose(found.group_recipe(int(column)), expected, atol=1e-9)

    @given(drawn=tables())
    def test_products_members_and_factors_agree_with_the_rows(
        self, form: str, drawn: tuple[np.ndarray, np.ndarray]
    ) -> None:
        table, widths = drawn
        distinct, _, counts = collapsed(table)
        rows = as_rows(table, widths)
        incidence = FORMS[form](distinct, widths, counts)
        unknown = np.ones(len(distinct), dtype=bool)
        products = incidence.gram(unknown, quiet)
        assert np.array_equal(products, rows @ rows.T)
        keys = np.arange(1.0, 1 + 2 * len(distinct)).reshape(2, -1)
        assert np.array_equal(incidence.images(unknown, keys), keys @ as_rows(distinct, widths).T)
        assert incidence.sizes.tolist() == rows.sum(axis=1).tolist()
        triangle = incidence.triangle(unknown, np.ones(len(rows)))
        np.testing.assert_allclose(triangle.T @ triangle, products, atol=1e-9)
        columns = incidence.columns(np.arange(len(distinct)))
        assert np.array_equal(columns, as_rows(distinct, widths))
        for line in range(len(rows)):
            assert incidence.members(line).tolist() == np.flatnonzero(columns[line]).tolist()
        assert incidence.signatures(unknown).tolist() == list(range(len(distinct)))
        kept = np.arange(0, len(rows), 2)
        assert np.array_equal(incidence.take(kept).columns(np.arange(len(distinct))), columns[kept])

    @given(drawn=tables(), seed=st.integers(0, 99))
    def test_a_known_column_is_as_good_as_absent(
        self, form: str, drawn: tuple[np.ndarray, np.ndarray], seed: int
    ) -> None:
        table, widths = drawn
        distinct, back, counts = collapsed(table)
        if len(distinct) < 2:
            return
        noise = np.random.default_rng(seed).uniform(0.1, 2.0, int(widths.sum()))
        one_by_one = MembershipDesign(as_rows(table, widths), noise=noise, readout="sum")
        design = MembershipDesign(FORMS[form](distinct, widths, counts), noise=noise, readout="sum")
        truth = one_by_one.exposures(domain=(0, 1), known=np.flatnonzero(back == 0).tolist())
        found = design.exposures(domain=(0, 1), known=[0])
        others = back > 0
        assert found.identifiable[back].tolist() == truth.identifiable.tolist()
        np.testing.assert_allclose(found.rmse[back][others], truth.rmse[others], rtol=1e-9)
        np.testing.assert_allclose(
            found.remaining_lower[back][others], truth.remaining_lower[others], rtol=1e-9
        )


def test_what_each_release_does_is_the_same_as_row_by_row() -> None:
    table = np.array([[0, 0], [0, -1], [0, -1], [0, 1], [1, 1], [1, 1]], dtype=np.int32)
    widths = np.array([2, 2])
    distinct, back, counts = collapsed(table)
    noise = [0.1, 0.2, 0.3, 0.4]
    one_by_one = MembershipDesign(as_rows(table, widths), noise=noise, readout="sum", releases=[0, 0, 1, 1])
    design = MembershipDesign(
        incidence_of_cells(distinct, cells=widths, counts=counts),
        noise=noise,
        readout="sum",
        releases=[0, 0, 1, 1],
    )
    truth, found = one_by_one.contributions(), design.contributions()
    assert [int(np.flatnonzero(back == c)[0]) for c in found.records] == truth.records.tolist() != []
    np.testing.assert_allclose(found.rmse_without, truth.rmse_without)
    np.testing.assert_allclose(found.rmse_in_order, truth.rmse_in_order)
    assert {(p.larger, p.smaller, p.size) for p in found.pairs} == {
        (p.larger, p.smaller, p.size) for p in truth.pairs
    }


def test_many_small_partitions_become_bits() -> None:
    table = np.random.default_rng(0).integers(-1, 1, (40, 20)).astype(np.int32)
    table[0] = 0
    distinct, _, counts = collapsed(table)
    assert isinstance(incidence_of_cells(distinct, cells=[1] * 20, counts=counts), DenseIncidence)
    few = np.arange(40, dtype=np.int32)[:, None]
    assert isinstance(incidence_of_cells(few, cells=[40], counts=[1] * 40), CellIncidence)


def test_counts_beyond_single_precision_are_exact() -> None:
    table = np.array([[0, 0], [0, -1], [-1, 0]], dtype=np.int32)
    counts = np.array([1, 10**9 + 7, 2**40 + 1])
    for form in FORMS.values():
        products = form(table, np.array([1, 1]), counts).gram(np.ones(3, dtype=bool), quiet)
        assert products.tolist() == [[10**9 + 8, 1], [1, 2**40 + 2]]
        design = MembershipDesign(form(table, np.array([1, 1]), counts), noise=[1.0, 1.0], readout="sum")
        assert not design.exposures(domain=(0, 1)).groups.identifiable.any()


def test_a_signature_shared_by_two_is_never_one_record() -> None:
    design = MembershipDesign(
        incidence_of_cells(np.array([[0]], dtype=np.int32), cells=[1], counts=[2]), noise=[1.0], readout="sum"
    )
    found = design.exposures(domain=(0, 1))
    assert not found.identifiable[0]
    assert found.groups.identifiable[0]
    assert found.groups.rmse[0] == pytest.approx(1.0)


@given(
    residue=st.integers(0, 2**61 - 2), factor=st.integers(0, 2**53 - 1), prime=st.just(4611686018427387847)
)
def test_residues_times_large_counts(residue: int, factor: int, prime: int) -> None:
    found = residues.times(np.array([residue]), np.array([factor]), prime=prime)
    assert int(found[0]) == residue * factor % prime


@pytest.mark.parametrize(
    ("signatures", "cells", "counts", "words"),
    [
        (np.zeros((2, 2), dtype=np.int32), [1], [1, 1], "signatures over 1 partitions"),
        (np.zeros((2, 1)), [1], [1, 1], "signatures over 1 partitions"),
        (np.zeros((0, 1), dtype=np.int32), [1], [], "signatures over 1 partitions"),
        (np.ones((2, 1), dtype=np.int32), [1], [1, 1], "cells numbered from 0"),
        (np.zeros((2, 1), dtype=np.int32), [1], [1], "a count of at least 1"),
        (np.zeros((2, 1), dtype=np.int32), [1], [1, 0], "a count of at least 1"),
    ],
)
def test_what_is_no_table_of_signatures(
    signatures: np.ndarray, cells: list[int], counts: list[int], words: str
) -> None:
    with pytest.raises(InvalidRelease, match=words):
        incidence_of_cells(signatures, cells=cells, counts=counts)


# ------------------------------------------------------------------ the shorter way for partitions


def shorter_way(
    table: np.ndarray, widths: np.ndarray, known: list[int]
) -> tuple[Decisions | None, Decisions, int]:
    """Decisions and rank by independent rows, and by elimination for everyone.

    By leverages, and by a random fit: the fit finds the identifiable groups and no others.
    """
    distinct, _, counts = collapsed(table)
    incidence = CellIncidence.of(distinct, widths, counts.astype(np.intp))
    design = MembershipDesign(incidence, noise=np.ones(int(widths.sum())), readout="sum")
    unknown = np.ones(len(distinct), dtype=bool)
    unknown[known] = False
    gram = UnknownRecordsGram.of(design, unknown)
    risks = risks_over_v(1 / 12, excess=1.0, precision=40.0)
    problem = Problem(gram=gram, risks=risks, progress=quiet)
    test = modular_test(gram)
    truth = test.decide(incidence.forms(no_forms(test.linear), unknown, quiet), unknown)
    forms = forms_of_partitions(problem)
    near = fitted_groups(gram, independent_rows(incidence, gram.matrix))
    assert (near is None) == (forms is None)
    if forms is None or near is None:
        return None, truth, test.rank
    assert near.tolist() == np.flatnonzero(truth.identifiable).tolist()
    risk_forms, rank = forms
    assert rank.rank == test.rank
    quantities, _ = problem.read(risk_forms)
    leverage = quantities[Quantity.LEVERAGE]
    assert leverage @ counts[unknown] == pytest.approx(rank.rank)
    decisions = decide_partitions(problem, groups_near_one(problem, leverage))
    assert decisions.identifiable.tolist() == decide_partitions(problem, near).identifiable.tolist()
    return decisions, truth, test.rank


@given(drawn=tables(), known=st.booleans())
def test_what_is_decided_for_all_rows_serves_the_first_ones(
    drawn: tuple[np.ndarray, np.ndarray], known: bool
) -> None:
    """The first partitions of a design that was assessed are decided as if it had never been."""
    table, widths = drawn
    distinct, _, counts = collapsed(table)
    unknown = np.ones(len(distinct), dtype=bool)
    unknown[0] = not known or len(distinct) == 1
    whole = CellIncidence.of(distinct, widths, counts.astype(np.intp))
    first = np.arange(int(widths[:-1].sum())) if len(widths) > 1 else np.arange(widths[0])

    def decided(incidence: CellIncidence) -> tuple[list[bool], int] | None:
        design = MembershipDesign(incidence, noise=np.ones(incidence.row_count), readout="sum")
        gram = UnknownRecordsGram.of(design, unknown)
        risks = risks_over_v(1 / 12, excess=1.0, precision=40.0)
        found = by_partitions(Problem(gram=gram, risks=risks, progress=quiet))
        return None if found is None else (found.decisions.identifiable.tolist(), found.rank.rank)

    alone = decided(whole.take(first))
    decided(whole)
    assert decided(whole.take(first)) == alone
    assert decided(whole) == decided(CellIncidence.of(distinct, widths, counts.astype(np.intp)))


def test_who_is_known_is_decided_anew() -> None:
    """Two records in one cell hide each other, until one of them is known."""
    incidence = CellIncidence.of(
        np.array([[0, 0], [0, 1], [1, 1], [1, 2]]), np.array([2, 3]), np.ones(4, np.intp)
    )
    found = []
    for known in ([], [1], []):
        design = MembershipDesign(incidence, noise=np.ones(5), readout="sum")
        found.append(design.exposures(domain=(0, 1), known=known).identifiable.tolist())
    assert found == [[True] * 4, [True, False, True, True], [True] * 4]
    copies = CellIncidence.of(
        np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), np.array([2, 2]), np.ones(4, np.intp)
    )
    design = MembershipDesign(copies, noise=np.ones(4), readout="sum")
    assert not design.exposures(domain=(0, 1)).identifiable.any()
    assert design.exposures(domain=(0, 1), known=[0]).identifiable.tolist() == [False, True, True, True]


def test_one_elimination_serves_all_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    table, widths = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]]), np.array([2, 3])
    incidence = CellIncidence.of(table, widths, np.array([1, 2, 3, 1, 1]))
    everyone, eliminated = np.ones(5, dtype=bool), []
    plain = residues.reduced

    def counted(matrix: np.ndarray, right: Callable[[int], Residues]) -> SolvedSystem:
        eliminated.append(matrix.shape)
        return plain(matrix, right)

    monkeypatch.setattr(residues, "reduced", counted)
    found = []
    for noise, known in ((1.0, []), (7.0, []), (7.0, [4]), (1.0, [])):
        design = MembershipDesign(incidence, noise=np.full(5, noise), readout="sum")
        unknown = everyone.copy()
        unknown[known] = False
        found.append(modular_test(UnknownRecordsGram.of(design, unknown)))
    assert len(eliminated) == 3  # not for the second noise; again for others who are known
    assert found[1] is found[0]
    assert found[2].rank == 3
    assert found[3].rank == found[0].rank == 4
    np.testing.assert_array_equal(found[3].solved, found[0].solved)


def test_parts_of_any_length_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products, forms and brackets are computed part by part, for speed alone."""
    generator = np.random.default_rng(5)
    table = np.unique(generator.integers(-1, 5, (400, 3)), axis=0)
    counts = generator.integers(1, 4, len(table))
    names = ("identifiable", "rmse", "remaining_lower", "remaining_upper", "information")

    def assessed() -> list[np.ndarray]:
        incidence = CellIncidence.of(table, np.full(3, 5), counts)
        design = MembershipDesign(incidence, noise=np.full(15, 0.7), readout="sum")
        found = design.exposures(domain=(0, 3), known=[2, 50])
        return [getattr(found, name) for name in names]

    whole = assessed()
    monkeypatch.setattr(arrays, "_PART", 7)
    monkeypatch.setattr(cells, "_COLUMNS_OF_PRODUCTS", 11)
    monkeypatch.setattr(cell_forms, "_BLOCK", 3 * 13)
    for one, other in zip(whole, assessed(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_equal_columns_share_a_number_and_others_do_not() -> None:
    """Also where the cells of all partitions need several whole numbers, and where some records are known."""
    generator = np.random.default_rng(7)
    for trial in range(40):
        widths = generator.integers(1, 4 if trial % 2 else 3000, size=int(generator.integers(1, 25)))
        table = np.stack([generator.integers(-1, min(3, width), size=60) for width in widths], axis=1)
        table[30:] = table[generator.integers(30, size=30)]
        incidence = CellIncidence.of(table.astype(np.int32), widths, np.ones(60, dtype=np.intp))
        unknown = generator.random(60) < generator.choice([0.5, 1.0])
        expected: dict[tuple[int, ...], int] = {}
        for place, number in enumerate(incidence.signatures(unknown).tolist()):
            line = tuple(table[place].tolist()) if unknown[place] else (-9, place)
            assert expected.setdefault(line, place) == number


def no_forms(linear: np.ndarray) -> ProjectedForms:
    lines = linear.shape[1]
    return ProjectedForms(
        projection=np.zeros((0, lines)), weights=np.zeros((0, 0)), offsets=np.zeros(0), linear=linear
    )


@given(drawn=tables(), known=st.booleans())
def test_the_shorter_way_decides_the_same(drawn: tuple[np.ndarray, np.ndarray], known: bool) -> None:
    table, widths = drawn
    distinct, _, _ = collapsed(table)
    found, truth, _ = shorter_way(table, widths, [0] if known and len(distinct) > 1 else [])
    if found is not None:
        assert found.identifiable.tolist() == truth.identifiable.tolist()
        assert found.sizes.tolist() == truth.sizes.tolist()


def test_complete_partitions_take_the_shorter_way_and_copies_do_not() -> None:
    generator = np.random.default_rng(1)
    complete = generator.integers(0, 4, (200, 3)).astype(np.int32)
    widths = np.array([4, 4, 4])
    found, _, rank = shorter_way(complete, widths, [])
    assert found is not None
    assert rank == 10, "one sum is common to all three"
    assert not found.identifiable.any()
    copied = complete[:, [0, 0]]
    assert shorter_way(copied, widths[:2], [])[0] is None


def test_the_shorter_way_finds_who_stands_alone() -> None:
    table = np.vstack([np.random.default_rng(2).integers(0, 3, (60, 2)), [[3, 0]]]).astype(np.int32)
    found, truth, _ = shorter_way(table, np.array([4, 3]), [])
    assert found is not None
    assert found.identifiable.tolist() == truth.identifiable.tolist()
    assert found.identifiable.sum() == 1
