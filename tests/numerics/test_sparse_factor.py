"""The sparse factor and its selected inverse against exact fractions; what the symbolic analysis predicts."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq_mat, fmpz_mat
from scipy import sparse

from sightline.arrays import FloatArray
from sightline.numerics.integers import proved, rounded
from sightline.numerics.sparse_cholesky import factorise, selected_inverse
from sightline.numerics.sparse_symbolic import SymbolicFactor, analyse


def entries_of(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lower entries of a symmetric matrix that are not zero, and the diagonal."""
    first, second = np.nonzero(np.tril(matrix != 0) | np.eye(len(matrix), dtype=bool))
    return first, second


def analysed(matrix: np.ndarray) -> tuple[SymbolicFactor, np.ndarray, np.ndarray]:
    first, second = entries_of(matrix)
    symbolic = analyse(first, second, size=len(matrix))
    assert isinstance(symbolic, SymbolicFactor)
    return symbolic, first, second


def random_rows(seed: int, *, dependent: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    lines, records = int(generator.integers(2, 25)), int(generator.integers(30, 80))
    rows = (generator.random((lines, records)) < 0.08).astype(np.int64)
    rows[:, :lines] = np.eye(lines, dtype=np.int64)  # independent
    for _ in range(dependent):
        rows = np.vstack([rows, rows[generator.integers(len(rows))] + rows[generator.integers(len(rows))]])
    return rows


def exact_inverse(products: np.ndarray) -> list[list[Fraction]]:
    table = fmpq_mat(fmpz_mat(products.tolist())).inv().tolist()
    return [[Fraction(int(entry.p), int(entry.q)) for entry in row] for row in table]


class TestSelectedInverse:
    @pytest.mark.parametrize("seed", range(25))
    def test_every_form_is_within_the_stated_error(self, seed: int) -> None:
        rows = random_rows(seed)
        products = rows @ rows.T
        symbolic, first, second = analysed(products)
        found = selected_inverse(factorise(symbolic, products[first, second].astype(float)), first.size)
        assert math.isfinite(found.relative_error)
        exact = exact_inverse(products)
        values = dict(zip(zip(first.tolist(), second.tolist(), strict=True), found.values, strict=True))
        for column in rows.T:
            own = np.flatnonzero(column).tolist()
            truth = sum((exact[a][b] for a in own for b in own), Fraction(0))
            form = sum((Fraction(values[max(a, b), min(a, b)]) for a in own for b in own), Fraction(0))
            assert abs(form - truth) <= Fraction(found.relative_error) * truth + Fraction(1e-15)

    def test_ill_conditioned_rows_are_not_proved_or_are_within_the_error(self) -> None:
        """Two rows of many records that differ in one: digits are lost, and the bound says how many."""
        proofs = 0
        for size in (10, 1_000, 100_000, 10_000_000):
            products = np.array([[size, size - 1, 0], [size - 1, size - 1, 0], [0, 0, 1]])
            symbolic, first, second = analysed(products)
            found = selected_inverse(factorise(symbolic, products[first, second].astype(float)), first.size)
            if math.isfinite(found.relative_error):
                proofs += 1
                exact = exact_inverse(products)
                for value, a, b in zip(found.values, first, second, strict=True):
                    if a == b:
                        off = abs(Fraction(float(value)) / exact[a][b] - 1)
                        assert off <= found.relative_error + 1e-15
        assert proofs == 4

    def test_a_matrix_that_is_at_least_a_diagonal_one_has_a_smaller_bound(self) -> None:
        rows = random_rows(3)
        matrix = 1e4 * (rows @ rows.T) + np.eye(len(rows))
        symbolic, first, second = analysed(matrix)
        factor = factorise(symbolic, matrix[first, second])
        plain = selected_inverse(factor, first.size)
        bounded = selected_inverse(factor, first.size, least=np.ones(len(rows)))
        assert bounded.relative_error <= plain.relative_error
        assert np.array_equal(bounded.values, plain.values)


class TestDroppedRows:
    @pytest.mark.parametrize("seed", range(25))
    def test_as_many_are_kept_as_the_rank(self, seed: int) -> None:
        rows = random_rows(seed, dependent=4)
        products = rows @ rows.T
        symbolic, first, second = analysed(products)
        factor = factorise(symbolic, products[first, second].astype(float))
        assert factor.kept.size == fmpz_mat(products.tolist()).rank()
        assert sorted([*factor.kept, *factor.dropped_rows]) == list(range(len(rows)))
        kept = factor.kept
        right = np.zeros((len(rows), 2))
        right[kept] = np.random.default_rng(seed).standard_normal((kept.size, 2))
        solution = factor.solve(right)
        assert np.allclose(products[np.ix_(kept, kept)] @ solution[kept], right[kept], atol=1e-8)
        assert not solution[factor.dropped_rows].any()

    @pytest.mark.parametrize("dependent", [3, 30])
    def test_many_dependent_rows_of_one_block(self, dependent: int) -> None:
        """All rows share records: one supernode, factorised again or column by column."""
        generator = np.random.default_rng(dependent)
        base = generator.integers(0, 2, (20, 60)) + np.eye(20, 60, dtype=np.int64)
        rows = np.vstack([base, generator.integers(0, 3, (dependent, 20)) @ base])
        rows = rows[generator.permutation(len(rows))]
        products = rows @ rows.T
        symbolic, first, second = analysed(products)
        factor = factorise(symbolic, products[first, second].astype(float))
        assert factor.dropped_rows.size == dependent
        kept = factor.kept
        assert fmpz_mat(products[np.ix_(kept, kept)].tolist()).rank() == 20
        right = np.zeros((len(rows), 1))
        right[kept] = 1.0
        solution = factor.solve(right)
        assert np.allclose(products[np.ix_(kept, kept)] @ solution[kept], 1.0, atol=1e-7)

    def test_a_row_without_entries_is_dropped(self) -> None:
        products = np.diag([2.0, 0.0, 3.0])
        symbolic, first, second = analysed(products)
        factor = factorise(symbolic, products[first, second])
        assert factor.dropped_rows.tolist() == [1]
        assert selected_inverse(factor, first.size).values.tolist() == pytest.approx([1 / 2, 0, 1 / 3])


class TestAnalysis:
    def test_the_entries_of_a_tree_do_not_fill_in(self) -> None:
        """A star: leaves are eliminated first, and the factor has as many entries as the matrix."""
        size = 50
        first = np.concatenate([np.arange(size), np.arange(1, size)])
        second = np.concatenate([np.arange(size), np.zeros(size - 1, dtype=np.intp)])
        symbolic = analyse(first, second, size=size)
        assert isinstance(symbolic, SymbolicFactor)
        panels = factorise(symbolic, np.where(first == second, 60.0, 1.0)).panels
        assert symbolic.factor_entries == sum(panel.size for panel in panels) < 8 * size
        assert sum(np.count_nonzero(panel) for panel in panels) == 2 * size - 1
        assert symbolic.order[-1] == 0 or symbolic.order[-2] == 0

    def test_it_stops_where_there_is_too_much_fill(self) -> None:
        matrix = np.ones((30, 30))
        first, second = entries_of(matrix)
        assert analyse(first, second, size=30, most_entries=464) is None
        assert analyse(first, second, size=30, most_entries=465) is not None

    def test_operations_and_memory_of_a_dense_matrix_are_those_of_one_block(self) -> None:
        symbolic, _, _ = analysed(np.ones((30, 30)))
        assert symbolic.supernodes == 1
        assert symbolic.factor_entries == 900
        assert symbolic.operations == pytest.approx(30**3 / 3)
        assert symbolic.peak_bytes >= 8 * 900


class TestIntegerProofs:
    def images(self, rows: np.ndarray, functional: np.ndarray) -> sparse.csc_array:
        return sparse.csc_array((rows @ functional)[:, None])

    def prove(self, rows: np.ndarray, functional: list[int], weights: FloatArray) -> bool:
        whole, c = rows.astype(np.int64), np.array(functional, dtype=np.int64)
        numerators, denominators = rounded(np.asarray(weights)[:, None])
        return bool(
            proved(
                sparse.csr_array(whole @ whole.T),
                numerators,
                denominators,
                images=self.images(whole, c),
                squares=np.array([c @ c]),
            )[0]
        )

    def test_half_the_sum_of_a_triangle(self) -> None:
        rows = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])
        assert self.prove(rows, [1, 0, 0], np.array([0.5, -0.5, 0.5 + 1e-9]))

    def test_a_wrong_guess_proves_nothing(self) -> None:
        rows = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])
        assert not self.prove(rows, [1, 0, 0], np.array([0.5, -0.5, 1.0]))
        assert not self.prove(rows, [1, 0, 0], np.array([0.51234, -0.5, 0.5]))

    def test_numbers_beyond_64_bits_prove_nothing(self) -> None:
        """The same identity, first with small terms, then with terms of which the sum could overflow."""
        for weight, shown in ((2**28, True), (2**30, False)):
            rows = np.array([[weight, 0], [0, 1]])
            assert self.prove(rows, [weight, 0], np.array([1.0, 0.0])) is shown
        beyond = sparse.csr_array(np.array([[2**62]], dtype=np.int64))
        one = sparse.csc_array(np.array([[1]], dtype=np.int64))
        image = sparse.csc_array(np.array([[2**62]], dtype=np.int64))
        assert not proved(beyond, one, np.array([1]), images=image, squares=np.array([2**62]))[0]
