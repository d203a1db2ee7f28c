"""The sparse route: the same answers as dense routes and exact arithmetic, and how it is chosen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, arb_mat, ctx, fmpz_mat
from scipy import sparse

import sightline.labeled.contributions as contributions_module
import sightline.labeled.exposures as exposures_module
import sightline.labeled.packed_solutions as packed_module
import sightline.labeled.routes.cost as cost_module
import sightline.labeled.sparse_attacks as attacks_module
import tests.labeled.fuzz_routes as fuzz_routes
import tests.labeled.fuzz_sparse_route as fuzz_sparse_route
from sightline import MembershipDesign
from sightline.errors import TooMuchWork
from sightline.labeled.bounds.domain import prior_on
from sightline.labeled.hidden import precisions, sparse_hidden_by_record
from sightline.labeled.incidence.cells import CellIncidence
from sightline.labeled.incidence.joins import Joins
from sightline.labeled.incidence.pairs import RowPairs
from sightline.labeled.knowledge import Known, unknown_records
from sightline.labeled.risk_forms import Quantity, risks_over_v
from sightline.labeled.routes.cost import Route, choose_route
from sightline.labeled.routes.sparse import by_sparse_factor
from sightline.labeled.sparse_attacks import RecipesOnDemand
from sightline.labeled.sparse_gram import SparseGram
from sightline.labeled.unknown_gram import UnknownRecordsGram
from sightline.noise.laws import CorrelatedNoise, LaplaceNoise
from sightline.numerics.decision import Decision, Evidence
from sightline.progress import silent
from tests.labeled.sparse_cases import census, pattern_of, sparsely


def census_design(seed: int = 0, *, records: int = 400, blocks: int = 24) -> MembershipDesign:
    generator = np.random.default_rng(seed)
    incidence = census(generator, records=records, blocks=blocks)
    noise = generator.uniform(0.5, 3.0, incidence.row_count)
    return MembershipDesign(incidence, noise=noise, readout="sum")


@pytest.mark.thorough
@pytest.mark.slow
def test_seven_hundred_designs_are_decided_as_exact_arithmetic_does() -> None:
    found = fuzz_sparse_route.fuzz(20, math.inf, most=700)
    assert found["cell designs"] == 280
    assert found["identifiable"] > 1_000
    assert found["ranks"] > 500
    assert found["undecided"] < 0.07 * found["decisions"]


@pytest.mark.thorough
@pytest.mark.slow
def test_three_hundred_designs_are_decided_alike_by_every_route() -> None:
    found = fuzz_routes.fuzz(3, math.inf, most=300)
    assert found["identifiable"] > 1_000
    for route in ("columns of large rows", "elimination of dense rows", "gap of real rows"):
        assert found[f"by {route}"] > 5, route
    for route in ("independent_rows of dense rows", "partitions of cells", "sparse factor of cells"):
        assert found[f"by {route}"] > 5, route
    assert found["undecided by sparse factor of cells"] == 0


class TestSameAsTheDenseRoute:
    @pytest.mark.parametrize("known", [(), tuple(range(0, 60, 3)), Known.ALL_OTHERS], ids=str)
    def test_every_array(self, known: tuple[int, ...] | Known) -> None:
        design = census_design()
        ours, dense = sparsely(design, known=known), design.exposures(domain=(0, 1), known=known)
        assert ours.rank == dense.rank
        assert ours.evidence is Evidence.VERIFIED
        for name in ("identifiable", "undecided", "touched", "known", "group"):
            assert np.array_equal(getattr(ours, name), getattr(dense, name)), name
        for name in ("identifiable", "sizes", "first"):
            assert np.array_equal(getattr(ours.groups, name), getattr(dense.groups, name)), name
        assert np.allclose(ours.groups.rmse, dense.groups.rmse, rtol=1e-9)
        assert np.allclose(ours.information, dense.information, rtol=1e-12, equal_nan=True)
        error = ours.relative_error + dense.relative_error
        assert error < 1e-6
        for name in ("remaining_lower", "remaining_upper"):
            assert np.allclose(getattr(ours, name), getattr(dense, name), rtol=error, equal_nan=True), name

    def test_risks_to_nine_digits(self) -> None:
        """Before each route's own error widens the bracket."""
        design = census_design(1)
        unknown = unknown_records(design.size, ())
        risks = risks_over_v(1 / 12, excess=1.0, precision=40.0)
        ours = by_sparse_factor(SparseGram.of(design, unknown, pattern_of(design)), risks, silent).reading
        gram = UnknownRecordsGram.of(design, unknown)
        whitened = gram.design.whiten(design.incidence.columns(np.arange(design.size)))
        whitened = whitened * np.sqrt(design.incidence.counts)
        for name in (Quantity.LINEAR, Quantity.HIDDEN):
            c = risks[name].precision
            seen = c * np.eye(design.row_count) + whitened @ whitened.T
            forms = np.einsum("ij,ij->j", whitened, np.linalg.solve(seen, whitened))
            naive = 1 - forms / design.incidence.counts
            assert np.allclose(ours.quantities[name], naive, rtol=1e-9, atol=0), name

    def test_recipes_and_their_noise(self) -> None:
        design = census_design(2, records=120)
        ours, dense = sparsely(design), design.exposures(domain=(0, 1))
        exposed = np.flatnonzero(ours.groups.identifiable)
        assert exposed.size > 10
        assert isinstance(ours.recipes, RecipesOnDemand)
        assert np.allclose(ours.recipes[np.arange(len(ours.recipes))], dense.recipes, atol=1e-9)
        assert np.array_equal(ours.recipes[np.arange(len(ours.recipes)) == 3][0], ours.recipes[3])
        for group in exposed[:10].tolist():
            weights = ours.group_recipe(group)
            columns = design.incidence.columns(np.arange(design.size)) * design.scale[:, None]
            assert np.allclose(weights @ columns, np.arange(design.size) == group, atol=1e-9)
            noise = math.sqrt(np.sum((weights * np.sqrt(design.law.variances)) ** 2))
            assert noise == pytest.approx(ours.groups.rmse[group], rel=1e-9)

    def test_laplace_noise_and_means(self) -> None:
        incidence = census(np.random.default_rng(5), records=200, blocks=12)
        law = LaplaceNoise(scales=np.random.default_rng(6).uniform(0.01, 0.1, incidence.row_count))
        design = MembershipDesign(incidence, noise=law)
        ours, dense = sparsely(design), design.exposures(domain=(0, 1))
        assert np.array_equal(ours.identifiable, dense.identifiable)
        assert np.allclose(ours.groups.rmse, dense.groups.rmse, rtol=1e-9)
        error = ours.relative_error + dense.relative_error
        assert np.allclose(ours.remaining_lower, dense.remaining_lower, rtol=error)
        assert np.allclose(ours.remaining_upper, dense.remaining_upper, rtol=error)

    def test_a_recipe_with_a_half(self) -> None:
        """A triangle: twice a record is the sum of two rows less the third."""
        rows = sparse.csr_array(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]]))
        found = sparsely(MembershipDesign(rows, noise=[1.0, 2.0, 3.0], readout="sum"))
        assert found.identifiable.all()
        assert found.rmse[0] == pytest.approx(math.sqrt(1 + 4 + 9) / 2)
        assert found.recipe(0).tolist() == [0.5, -0.5, 0.5]


def test_hidden_information_is_never_below_the_truth() -> None:
    """With noise over eight orders of magnitude, against ball arithmetic: it must be rounded up."""
    generator = np.random.default_rng(0)
    incidence = census(generator, records=60, blocks=8)
    noise = 10 ** generator.uniform(-4, 4, incidence.row_count)
    design = MembershipDesign(incidence, noise=noise, readout="sum")
    gram = SparseGram.of(design, unknown_records(design.size, ()), pattern_of(design))
    found = sparse_hidden_by_record(gram, precisions(gram, prior_on((0, 1), "uniform")))
    assert found is not None
    assert np.isfinite(found.information).all()
    with ctx.workprec(300):
        columns = incidence.columns(np.arange(design.size))
        A = arb_mat([[arb(w) * a for a in row] for w, row in zip(design.whitening, columns, strict=True)])
        counted = [
            arb(int(n)) / arb(float(c)) for n, c in zip(incidence.counts, found.precision, strict=True)
        ]
        shares = arb_mat([[a * n for a, n in zip(row, counted, strict=True)] for row in A.tolist()])
        seen = shares * A.transpose()
        for i in range(design.row_count):
            seen[i, i] += 1
        solved = seen.solve(A)
        for j, (information, c) in enumerate(zip(found.information, found.precision, strict=True)):
            q = sum((A[i, j] * solved[i, j] for i in range(design.row_count)), arb(0))
            truth = q / (1 - q / arb(float(c)))
            assert arb(float(information)) >= truth
            assert float(information) <= float(truth.mid()) * (1 + 1e-5)


class TestManyRecipes:
    """Variances of many recipes come from the selected inverse, those of few from solutions."""

    @pytest.mark.parametrize("seed", range(3))
    def test_both_ways_agree(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        by_solutions = sparsely(census_design(seed, records=150, blocks=30))
        monkeypatch.setattr(attacks_module, "_FEW", 0)
        by_inverse = sparsely(census_design(seed, records=150, blocks=30))
        shown = by_inverse.groups.identifiable
        assert np.count_nonzero(shown) > 10
        assert np.allclose(by_inverse.groups.rmse[shown], by_solutions.groups.rmse[shown], rtol=1e-10)
        assert by_inverse.relative_error < 1e-6

    def test_recipes_that_meet_many_combinations_are_solved_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expected = sparsely(census_design(4, records=150, blocks=30)).groups.rmse
        monkeypatch.setattr(attacks_module, "_FEW", 0)
        monkeypatch.setattr(attacks_module, "_MOST_MET", 2)
        found = sparsely(census_design(4, records=150, blocks=30)).groups.rmse
        assert np.array_equal(np.isfinite(found), np.isfinite(expected))
        assert np.allclose(found[np.isfinite(found)], expected[np.isfinite(found)], rtol=1e-10)


class TestContributions:
    @pytest.mark.parametrize("seed", [0, 1])
    def test_they_are_those_of_the_dense_route(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        incidence = census(np.random.default_rng(seed), records=90, blocks=24)
        releases = np.repeat(np.arange(incidence.widths.size), incidence.widths)
        noise = np.random.default_rng(seed).uniform(0.5, 3.0, incidence.row_count)
        design = MembershipDesign(incidence, noise=noise, readout="sum", releases=releases)
        dense = design.contributions()
        pattern = pattern_of(design)
        monkeypatch.setattr(contributions_module, "choose_route", lambda *_: (None, pattern))
        ours = contributions_module.contributions(design, found=sparsely(design))
        assert np.array_equal(ours.records, dense.records)
        assert dense.records.size > 10
        assert {str(pair) for pair in ours.pairs} == {str(pair) for pair in dense.pairs}
        assert dense.pairs
        for name in ("rmse", "rmse_in_order", "rmse_without"):
            assert np.allclose(getattr(ours, name), getattr(dense, name), rtol=1e-9), name
        assert ours.relative_error < 1e-6
        assert np.isinf(dense.rmse_without).any()

    def test_what_is_undecided_without_a_release_is_no_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A cycle of rows whose recipes have a denominator of 80, and a release of everyone after it."""
        rows = np.eye(4, dtype=np.int64) + 3 * np.eye(4, k=1, dtype=np.int64)
        rows[3, 0] = 3
        rows = np.vstack([rows, np.eye(4, dtype=np.int64)])
        releases = np.repeat([0, 1], 4)
        design = MembershipDesign(sparse.csr_array(rows), noise=np.ones(8), readout="sum", releases=releases)
        pattern = pattern_of(design)
        monkeypatch.setattr(contributions_module, "choose_route", lambda *_: (None, pattern))
        found = contributions_module.contributions(design, found=sparsely(design))
        assert found.records.tolist() == [0, 1, 2, 3]
        assert np.isnan(found.rmse_in_order[0]).all()
        assert np.isnan(found.rmse_without[1]).all()
        assert np.isfinite(found.rmse_without[0]).all()


class TestWhatIsNotProvedIsUndecided:
    def test_weights_beyond_the_proofs_fall_back_to_elimination(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """x + W y, y + W z and z: the recipe of x has the weight W², beyond what 64 bits prove."""
        large = 2**20
        rows = np.array([[1, large, 0], [0, 1, large], [0, 0, 1]], dtype=np.int64)
        design = MembershipDesign(sparse.csr_array(rows), noise=np.ones(3), readout="sum")
        assert design.incidence.whole
        found = sparsely(design)
        assert found.undecided[0]
        assert not found.identifiable[0]
        pattern = pattern_of(design)
        monkeypatch.setattr(
            exposures_module, "choose_route", lambda *_: (cost_module.cost_of(pattern), pattern)
        )
        assert design.exposures(domain=(0, 1)).identifiable.all()

    def test_recipes_with_large_denominators(self) -> None:
        """A cycle of rows with weights 1 and 3: the denominator is 3⁴ − 1 = 80, beyond guessing."""
        rows = np.eye(4, dtype=np.int64) + 3 * np.eye(4, k=1, dtype=np.int64)
        rows[3, 0] = 3
        assert abs(fmpz_mat(rows.tolist()).det()) == 80
        design = MembershipDesign(sparse.csr_array(rows), noise=np.ones(4), readout="sum")
        found = sparsely(design)
        assert found.undecided.all()
        assert not found.identifiable.any()
        assert found.decision(0) is Decision.UNDECIDED
        assert design.exposures(domain=(0, 1)).identifiable.all()

    def test_records_that_are_not_solved_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two triangles apart: with one column of solutions, one record of each is solved for."""
        triangle = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])
        rows = sparse.csr_array(sparse.block_diag([triangle, triangle]))
        design = MembershipDesign(rows, noise=np.ones(6), readout="sum")
        assert sparsely(design).identifiable.all()
        monkeypatch.setattr(packed_module, "_MOST_COLUMNS", 1)
        design = MembershipDesign(rows, noise=np.ones(6), readout="sum")
        found = sparsely(design)
        assert found.identifiable[:3].sum() == found.identifiable[3:].sum() == 1
        assert np.array_equal(found.undecided, ~found.identifiable)

    def test_no_is_never_said_of_rows_whose_dependence_is_not_proved(self) -> None:
        """Rows that differ by a record out of many millions look dependent: nobody is called safe."""
        signatures = np.array([[0, 0], [0, -1], [1, 1]], dtype=np.int32)
        for many in (10**4, 10**11):
            counts = np.array([many, 1, 5], dtype=np.intp)
            incidence = CellIncidence.of(signatures, np.array([2, 2], dtype=np.intp), counts)
            design = MembershipDesign(incidence, noise=np.ones(4), readout="sum")
            found = sparsely(design)
            if found.evidence is Evidence.NONE:
                assert many == 10**11
                assert found.undecided[1]
            else:
                assert found.identifiable[1]
            assert design.exposures(domain=(0, 1)).identifiable[1]

    def test_an_undecided_design_of_few_rows_is_assessed_densely(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rows = np.eye(4, dtype=np.int64) + 3 * np.eye(4, k=1, dtype=np.int64)
        rows[3, 0] = 3
        design = MembershipDesign(sparse.csr_array(rows), noise=np.ones(4), readout="sum")
        pattern = pattern_of(design)
        monkeypatch.setattr(
            exposures_module,
            "choose_route",
            lambda *_: (cost_module.cost_of(pattern), pattern),
        )
        found = design.exposures(domain=(0, 1))
        assert found.identifiable.all()
        assert found.cost.route is Route.DENSE
        assert "undecided" in found.cost.reason


class TestDependencies:
    @pytest.mark.parametrize("records", [25, 60, 3_000])
    def test_they_vanish_and_explain_all_of_a_full_table(self, records: int) -> None:
        """With few records, three partitions may depend on each other by accident, too."""
        for seed in range(8):
            incidence = census(np.random.default_rng(seed), records=records, blocks=15)
            pairs = RowPairs.of(incidence, silent)
            assert pairs is not None
            combinations = Joins.of(pairs, pairs.products(np.ones(incidence.records))).dependencies()
            columns = incidence.columns(np.arange(incidence.records))
            assert not (combinations.T @ columns).any()
            rank = fmpz_mat(columns.astype(int).tolist()).rank()
            explained = fmpz_mat(combinations.toarray().astype(int).tolist()).rank()
            assert explained <= incidence.row_count - rank
            assert explained == incidence.row_count - rank or records < 100

    def test_accidental_ones_are_guessed_and_proved(self) -> None:
        for seed in range(8):
            design = census_design(seed, records=25, blocks=15)
            found = sparsely(design)
            columns = design.incidence.columns(np.arange(design.size))
            assert found.evidence is Evidence.VERIFIED
            assert found.rank == fmpz_mat(columns.astype(int).tolist()).rank()

    @pytest.mark.parametrize("records", [25, 400])
    def test_nested_rows_can_be_taken_away_at_once(self, records: int) -> None:
        """Over the rationals: the other rows have the rank of all."""
        for seed in range(8):
            incidence = census(np.random.default_rng(seed), records=records, blocks=15)
            pairs = RowPairs.of(incidence, silent)
            assert pairs is not None
            nested = Joins.of(pairs, pairs.products(np.ones(incidence.records))).nested_rows()
            columns = incidence.columns(np.arange(incidence.records)).astype(int)
            left = np.delete(columns, nested, axis=0)
            assert fmpz_mat(left.tolist()).rank() == fmpz_mat(columns.tolist()).rank()
            if records > 100:  # every block has both sexes
                assert set(range(int(incidence.widths[:3].sum()))) <= set(nested.tolist())

    def test_of_equal_rows_the_first_stays(self) -> None:
        signatures = np.array([[0, 0, 0], [1, 1, 0], [1, 1, 0]], dtype=np.int32)
        incidence = CellIncidence.of(
            signatures, np.array([2, 2, 1], dtype=np.intp), np.ones(3, dtype=np.intp)
        )
        pairs = RowPairs.of(incidence, silent)
        assert pairs is not None
        assert Joins.of(pairs, pairs.products(np.ones(3))).nested_rows().tolist() == [2, 3, 4]

    def test_records_outside_a_partition_break_only_their_own_parts(self) -> None:
        """Two groups of two blocks; one record of the second group is in no block."""
        signatures = np.array([[0, 0], [1, 0], [2, 1], [3, 1], [-1, 1]], dtype=np.int32)
        incidence = CellIncidence.of(
            signatures, np.array([4, 2], dtype=np.intp), np.full(5, 3, dtype=np.intp)
        )
        pairs = RowPairs.of(incidence, silent)
        assert pairs is not None
        everyone = Joins.of(pairs, pairs.products(np.ones(5))).dependencies().toarray()
        assert sorted(np.abs(everyone).sum(axis=0).tolist()) == [3.0]
        # Once the attacker knows that record, the second group is the sum of its blocks, too.
        told = Joins.of(pairs, pairs.products(np.array([1.0, 1, 1, 1, 0]))).dependencies().toarray()
        assert sorted(np.abs(told).sum(axis=0).tolist()) == [3.0, 3.0]


class TestPairs:
    @pytest.mark.parametrize("seed", range(10))
    def test_products_and_forms_are_those_of_the_dense_matrix(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        cells = census(generator, records=60, blocks=8)
        weighted = sparse.csc_array(generator.integers(-2, 4, (9, 20)) * (generator.random((9, 20)) < 0.3))
        weighted = weighted + sparse.csc_array(np.eye(9, 20))
        for incidence in (cells, MembershipDesign(weighted, noise=np.ones(9), readout="sum").incidence):
            pairs = RowPairs.of(incidence, silent)
            assert pairs is not None
            weights = generator.integers(0, 5, incidence.records).astype(np.float64)
            dense = incidence.weighted_gram(weights, silent)
            assert np.array_equal(pairs.products(weights), dense[pairs.first, pairs.second])
            seen = np.zeros_like(dense, dtype=bool)
            seen[pairs.first, pairs.second] = seen[pairs.second, pairs.first] = True
            assert not dense[~seen].any()
            Y = generator.standard_normal(dense.shape)
            Y = Y + Y.T
            columns = incidence.columns(np.arange(incidence.records))
            forms = np.einsum("ij,ij->j", columns, Y @ columns)
            assert np.allclose(pairs.forms(Y[pairs.first, pairs.second][None])[0], forms)

    def test_there_are_none_of_dense_rows_or_too_many(self) -> None:
        dense = MembershipDesign(np.ones((2, 3)), noise=np.ones(2)).incidence
        assert RowPairs.of(dense, silent) is None
        incidence = census(np.random.default_rng(0), records=60, blocks=8)
        assert RowPairs.of(incidence, silent, most_entries=incidence.row_count + 3) is None
        rows = sparse.csr_array(np.ones((4, 3)))
        assert RowPairs.of(MembershipDesign(rows, noise=np.ones(4)).incidence, silent, most_entries=9) is None


class TestTheChoice:
    def test_few_rows_stay_dense(self) -> None:
        cost, pattern = choose_route(census_design(), silent)
        assert pattern is None
        assert cost.route is Route.DENSE
        assert "fewer than" in str(cost)

    def test_a_large_sparse_design_says_what_it_takes(self) -> None:
        """Disjoint cells: the factor is the diagonal."""
        size = 3_000
        design = MembershipDesign(sparse.eye_array(size, format="csr"), noise=np.ones(size))
        cost, pattern = choose_route(design, silent)
        assert pattern is not None
        assert cost.route is Route.SPARSE
        assert cost.factor_entries == size
        assert "3,000 entries" in str(cost)
        told: list[str] = []
        found = design.exposures(domain=(0, 1), progress=lambda stage, _: told.append(stage))
        assert found.cost == cost
        assert str(cost) in told
        assert found.identifiable.all()
        assert found.rank == size

    def test_what_needs_dense_matrices_is_left_out_where_they_do_not_fit(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        design = MembershipDesign(sparse.eye_array(3_000, format="csr"), noise=np.ones(3_000))
        assert choose_route(design, silent)[0].left_out == ()
        monkeypatch.setattr(cost_module, "_memory", lambda: 1e8)
        cost, _ = choose_route(design, silent)
        assert cost.route is Route.SPARSE
        assert "left out: what each release adds" in str(cost)
        with pytest.raises(TooMuchWork, match=r"0\.432 GB"):
            design.contributions()

    def test_correlated_noise_and_real_weights_are_dense(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cost_module, "_FEW_ROWS", 0)
        rows = sparse.csr_array(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]))
        law = CorrelatedNoise(blocks=[np.array([[2.0, 1.0], [1.0, 2.0]])])
        assert "correlated" in choose_route(MembershipDesign(rows, noise=law), silent)[0].reason
        uneven = sparse.csr_array(np.array([[1.0, np.pi, 0.0], [0.0, 1.0, 1.0]]))
        design = MembershipDesign(uneven, noise=np.ones(2), readout="sum")
        assert "integers" in choose_route(design, silent)[0].reason

    def test_crossed_keys_fill_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cost_module, "_FEW_ROWS", 1)
        generator = np.random.default_rng(0)
        table = generator.integers(0, 150, (5000, 4)).astype(np.int32)
        incidence = CellIncidence.of(table, np.full(4, 150, dtype=np.intp), np.ones(5000, dtype=np.intp))
        design = MembershipDesign(incidence, noise=np.ones(600), readout="sum")
        cost, pattern = choose_route(design, silent)
        assert pattern is None
        assert "fills in" in cost.reason or "pairs of rows" in cost.reason

    def test_what_does_not_fit_is_refused_with_the_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cost_module, "_memory", lambda: 1e5)
        design = census_design()
        with pytest.raises(
            TooMuchWork, match=r"0\.0001 GB of memory, got .* published numbers that need about"
        ):
            design.exposures(domain=(0, 1))
        with pytest.raises(TooMuchWork, match="products of all rows"):
            UnknownRecordsGram.of(design, unknown_records(design.size, ()))
