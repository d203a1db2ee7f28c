"""How sharply: RMSE, recipes and risks against 60-digit arithmetic and against the general engine."""

from __future__ import annotations

import itertools
from unittest import mock

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import sightline as sl
import tests.units.naive_labeled as naive
from sightline import MembershipDesign
from sightline.bounds.priors import UniformPrior
from sightline.theory.labeled import Known
from tests.numbered_cases import trials

PRIOR = UniformPrior(0.0, 1.0)
BUDGET = sl.Budget(epsilon=1.0, delta=1e-5)


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_rmse_against_sixty_digits_with_noise_over_twelve_orders(seed: int) -> None:
    generator = np.random.default_rng(100 + seed)
    checked = 0
    for trial in range(80):
        rows = naive.random_rows(generator)
        stddevs = 10 ** generator.uniform(-6, 6, len(rows)) if trial % 4 else np.full(len(rows), 0.3)
        found = MembershipDesign(rows, noise=stddevs, readout="sum").exposures(domain=(0, 1))
        for target in np.flatnonzero(found.identifiable)[:2]:
            expected = mpmath.sqrt(naive.crb(rows, stddevs, target))
            assert abs(mpmath.mpf(found.rmse[target]) / expected - 1) < 1e-8
            checked += 1
    assert checked > 60


@pytest.mark.slow
def test_risks_against_sixty_digits_sharp_and_dull() -> None:
    generator = np.random.default_rng(4)
    sharpest = 1.0
    for trial in range(30):
        rows = naive.random_rows(generator, most=9)
        stddevs = 10 ** generator.uniform(-6, 3, len(rows)) if trial % 2 else np.full(len(rows), 0.05)
        given_as = rows if trial % 4 < 2 else sparse.csr_array(rows)
        found = MembershipDesign(given_as, noise=stddevs, readout="sum").exposures(
            domain=(-0.5, 0.5), prior="cos2"
        )
        with mpmath.workdps(naive.DIGITS):
            v = mpmath.mpf(1) / 12 - 1 / (2 * mpmath.pi**2)
            linear = [risk / v for risk in naive.bayes_risks(rows, stddevs, 1 / v)]
            van_trees = [risk / v for risk in naive.bayes_risks(rows, stddevs, 4 * mpmath.pi**2)]
        for k in range(rows.shape[1]):
            assert abs(mpmath.mpf(found.remaining_upper[k]) / linear[k] - 1) < 1e-9
            assert found.remaining_lower[k] >= float(van_trees[k]) * (1 - 1e-8)
            sharpest = min(sharpest, float(linear[k]))
    assert sharpest < 1e-9  # the hard case was among them


def test_information_is_the_diagonal_of_the_gram_matrix() -> None:
    generator = np.random.default_rng(8)
    rows = naive.random_rows(generator)
    stddevs = 10 ** generator.uniform(-2, 2, len(rows))
    found = MembershipDesign(rows, noise=stddevs).exposures(domain=(0, 1))
    whitened = rows / rows.sum(axis=1, keepdims=True) / stddevs[:, None]
    assert np.allclose(found.information, np.sum(whitened**2, axis=0), rtol=1e-12)


@pytest.mark.slow
def test_information_keeps_its_digits_under_very_uneven_noise() -> None:
    generator = np.random.default_rng(43)
    for _ in range(30):
        rows = generator.integers(0, 2, (4, 11))
        rows[rows.sum(axis=1) == 0, 0] = 1
        stddevs = 10 ** generator.uniform(-4, 5, 4)
        design = MembershipDesign(rows, noise=stddevs, readout="sum")
        exact = np.sum((rows / stddevs[:, None]) ** 2, axis=0)
        touched = exact > 0
        assert np.allclose(design.exposures(domain=(0, 1)).information, exact, rtol=1e-13, atol=0)
        found = design.exposures(domain=(0, 1), known=Known.ALL_OTHERS)
        assert np.allclose(found.rmse[touched], exact[touched] ** -0.5, rtol=1e-13)


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64])
def test_the_least_integer_is_as_large_as_it_is(kind: type[np.signedinteger]) -> None:
    least = int(np.iinfo(np.int16 if kind is np.int16 else np.int8).min)
    rows = np.array([[least, 1, 1], [0, 1, 0]], dtype=kind)
    zcdp = sl.ZeroConcentrated(BUDGET)
    for given_as in (rows, sparse.csr_array(rows)):
        design = MembershipDesign(given_as, noise=zcdp, radius=1.0, readout="sum")
        assert design.law.stddevs[0] == pytest.approx(-least * design.law.stddevs[1])
        found = MembershipDesign(given_as, noise=[1.0, 1.0], readout="sum").exposures(domain=(0, 1))
        assert found.information.tolist() == [least**2, 2, 1]


@pytest.mark.slow
def test_recipes_are_unbiased_and_as_noisy_as_promised() -> None:
    generator = np.random.default_rng(9)
    for _ in range(40):
        rows = naive.random_rows(generator, most=10)
        lines = len(rows)
        root = generator.standard_normal((lines, lines)) + 2 * np.eye(lines)
        covariance = root @ root.T
        found = MembershipDesign(rows, noise=covariance).exposures(domain=(0, 1))
        means = rows / rows.sum(axis=1, keepdims=True)
        for target in np.flatnonzero(found.identifiable):
            weights = found.recipe(target)
            assert np.allclose(weights @ means, np.eye(rows.shape[1])[target], atol=1e-9)
            assert np.sqrt(weights @ covariance @ weights) == pytest.approx(found.rmse[target], rel=1e-9)


@pytest.mark.slow
def test_the_general_engine_agrees() -> None:
    generator = np.random.default_rng(12)
    for _ in range(12):
        rows = naive.random_rows(generator, most=7)
        stddevs = 10 ** generator.uniform(-1, 1, len(rows))
        queries = [sl.SubsetMean(members=np.flatnonzero(row), radius=1.0) for row in rows]
        geometry = sl.Transcript(queries, noise=stddevs).geometry(records=rows.shape[1])
        found = MembershipDesign(rows, noise=stddevs).exposures(domain=(0, 1))
        for target in range(rows.shape[1]):
            exposure = geometry.profile(target=target)
            assert exposure.identifiable is found.decision(target)
            if found.identifiable[target]:
                assert np.sqrt(exposure.crb) == pytest.approx(found.rmse[target], rel=1e-8)
                assert np.allclose(exposure.recipe, found.recipe(target), rtol=1e-6, atol=1e-8)


def same(one: sl.labeled.Exposures, other: sl.labeled.Exposures) -> bool:
    names = ("rmse", "remaining_lower", "remaining_upper", "information")
    close = all(np.allclose(getattr(one, n), getattr(other, n), rtol=1e-9, equal_nan=True) for n in names)
    return close and np.array_equal(one.identifiable, other.identifiable)


def test_dense_sparse_and_lists_of_members_are_one_design() -> None:
    generator = np.random.default_rng(2)
    for density in (0.05, 0.5):
        rows = (generator.random((30, 60)) < density).astype(np.int8)
        rows[rows.sum(axis=1) == 0, 0] = 1
        stddevs = generator.uniform(0.01, 0.1, 30)
        members = [np.flatnonzero(row) for row in rows]
        designs = [
            MembershipDesign(rows, noise=stddevs),
            MembershipDesign(rows.astype(bool), noise=stddevs),
            MembershipDesign(rows.astype(float).tolist(), noise=stddevs),
            MembershipDesign(sparse.coo_array(rows), noise=stddevs),
            MembershipDesign(members, records=60, noise=stddevs),
            MembershipDesign(rows, noise=np.diag(stddevs**2)),
            MembershipDesign(sparse.csr_array(rows), noise=np.diag(stddevs**2)),
        ]
        first, *others = [design.exposures(domain=(0, 1)) for design in designs]
        assert all(same(first, other) for other in others)


def test_a_block_of_records_is_where_the_sweep_cuts_and_nothing_changes_there() -> None:
    generator = np.random.default_rng(21)
    rows = generator.integers(0, 2, (6, 10_000), dtype=np.uint8)
    found = MembershipDesign(rows, noise=np.full(6, 1e-4)).exposures(domain=(0, 1))
    assert len(found.groups) == np.unique(rows, axis=1).shape[1]
    whitened = rows / rows.sum(axis=1, keepdims=True) / 1e-4
    core = np.linalg.inv(np.eye(6) / PRIOR.variance + whitened @ whitened.T)
    learned = np.einsum("ij,ik,kj->j", whitened, core, whitened)
    assert np.allclose(found.remaining_upper, 1 - learned, rtol=1e-9)


class TestPricing:
    @pytest.mark.parametrize(
        "accountant", [sl.BasicComposition(BUDGET), sl.ZeroConcentrated(BUDGET)], ids=str
    )
    def test_means_and_sums_get_the_noise_of_the_general_engine(
        self, accountant: sl.privacy.Accountant
    ) -> None:
        members = [[0, 1, 2], [1, 2, 3, 4], [0, 4]]
        for readout, query in (("mean", sl.SubsetMean), ("sum", sl.SubsetSum)):
            design = MembershipDesign(members, records=5, noise=accountant, radius=2.5, readout=readout)
            transcript = sl.Transcript([query(members=m, radius=2.5) for m in members], noise=accountant)
            assert np.allclose(design.law.covariance, transcript.law.covariance, rtol=1e-12)

    def test_cells_of_one_release_are_paid_for_once(self) -> None:
        basic = sl.BasicComposition(BUDGET)
        members = [[0, 1], [2, 3, 4], [0, 1, 2, 3]]
        design = MembershipDesign(members, records=5, noise=basic, radius=1.0, releases=[0, 0, 1])
        assert design.release_count == 2
        sizes = np.array([2, 3, 4])
        assert np.allclose(design.law.covariance, np.diag(basic.kappa(2) / sizes**2), rtol=1e-12)

    def test_laplace_noise_has_its_own_information_and_its_own_linear_attack(self) -> None:
        laplace = sl.LaplaceComposition(BUDGET)
        members = [[0, 1, 2], [1, 2], [0, 1, 2]]
        design = MembershipDesign(members, records=3, noise=laplace, radius=1.0)
        found = design.exposures(domain=(0, 1))
        scales = np.sqrt(laplace.kappa(3)) / np.array([3, 2, 3])
        expected = np.sqrt(2) * np.hypot(3 * scales[0] / np.sqrt(2), 2 * scales[1])  # of the noise's variance
        assert found.rmse[0] == pytest.approx(expected, rel=1e-9)
        means = np.array([[1, 1, 1], [0, 1, 1], [1, 1, 1]]) / np.array([[3], [2], [3]])
        v = PRIOR.variance
        linear = np.linalg.inv(means.T @ np.diag(1 / (2 * scales**2)) @ means + np.eye(3) / v)
        G = means.T @ np.diag(1 / scales**2) @ means
        precision = PRIOR.precision(np.diagonal(G))
        hidden = 1 / np.diagonal(np.linalg.inv(G + np.diag(precision))) - precision
        assert np.allclose(found.remaining_upper, np.diagonal(linear) / v, rtol=1e-9)
        # The weighted van Trees bound for a uniform value, in closed form; two of the three are alike.
        root = np.sqrt(hidden)
        bound = 12 * (1 - 2 / root * np.tanh(root / 2)) / hidden
        assert found.remaining_lower[0] == pytest.approx(bound[0], rel=1e-6)
        assert np.all(found.remaining_lower[1:] >= np.maximum(bound[1:], 0.5))
        everyone = design.exposures(domain=(0, 1), known=Known.ALL_OTHERS)
        assert np.allclose(everyone.remaining_upper, 1 / (1 + v * found.information / 2), rtol=1e-9)
        assert np.all(everyone.remaining_lower <= found.remaining_lower)


# The best direction of a chord is searched for, so that its bound alone may rise with another release.
without_chords = mock.patch("sightline.bounds.lines._MOST_SEARCHED", 0)


class TestWhatIsKnown:
    def test_all_others_known_is_the_classical_adversary(self) -> None:
        generator = np.random.default_rng(6)
        rows = naive.random_rows(generator, most=9)
        rows[:, 0] = 0
        rows = rows[rows.any(axis=1)]
        design = MembershipDesign(rows, noise=generator.uniform(0.05, 0.2, len(rows)))
        at_once = design.exposures(domain=(0, 1), known=Known.ALL_OTHERS)
        for target in range(design.size):
            others = [k for k in range(design.size) if k != target]
            one = design.exposures(domain=(0, 1), known=others)[target]
            all_at_once = at_once[target]
            assert one.identifiable is all_at_once.identifiable
            assert one.rmse == pytest.approx(all_at_once.rmse, rel=1e-9)
            assert one.remaining_uncertainty == pytest.approx(all_at_once.remaining_uncertainty, rel=1e-9)

    @given(st.integers(0, 2**32 - 1), st.floats(-3, 1))
    @settings(max_examples=60, deadline=None)
    def test_knowing_more_never_raises_uncertainty(self, seed: int, exponent: float) -> None:
        generator = np.random.default_rng(seed)
        rows = naive.random_rows(generator, most=7)
        design = MembershipDesign(rows, noise=10**exponent * generator.uniform(0.5, 2, len(rows)))
        order = generator.permutation(design.size)
        rungs = [order[:count] for count in range(design.size)]
        with without_chords:
            ladder = [design.exposures(domain=(0, 1), known=rung) for rung in rungs]
        top = design.exposures(domain=(0, 1), known=Known.ALL_OTHERS)
        for less, more in itertools.pairwise(ladder):
            left = ~more.known
            for name in ("remaining_lower", "remaining_upper", "rmse"):
                below, above = getattr(more, name)[left], getattr(less, name)[left]
                error = less.relative_error + more.relative_error + top.relative_error
                assert error < 1e-6
                if name == "remaining_lower":  # rounded down: where 1e-5 is left, by 1e5 times the error
                    error += 1e5 * np.finfo(np.float64).eps * 100
                assert np.all((below <= above * (1 + error)) | np.isinf(above))
                assert np.all(getattr(top, name)[left] <= below * (1 + error))

    @pytest.mark.slow
    @given(st.integers(0, 2**32 - 1), st.floats(-3, 1))
    @settings(max_examples=60, deadline=None)
    def test_another_release_never_raises_uncertainty(self, seed: int, exponent: float) -> None:
        generator = np.random.default_rng(seed)
        rows = naive.random_rows(generator, most=7)
        design = MembershipDesign(rows, noise=10**exponent * generator.uniform(0.5, 2, len(rows)))
        with without_chords:
            steps = [
                design.take(range(count + 1)).exposures(domain=(0, 1)) for count in range(design.row_count)
            ]
        for before, after in itertools.pairwise(steps):
            for name in ("remaining_lower", "remaining_upper", "rmse"):
                below, above = getattr(after, name), getattr(before, name)
                error = before.relative_error + after.relative_error
                assert error < 1e-6
                assert np.all((below <= above * (1 + error)) | np.isinf(above))

    def test_an_insider_is_left_out(self) -> None:
        design = MembershipDesign([[0, 1, 2]], records=3, noise=[0.1])
        found = design.exposures(domain=(0, 1), known=[0])
        assert np.isnan(found.rmse[0])
        assert found.group.tolist() == [-1, 0, 0]
        assert [exposure.record for exposure in found] == [1, 2]


def test_a_record_in_no_release_is_untouched_and_nothing_is_learned_of_it() -> None:
    found = MembershipDesign([[0, 1], [1]], records=3, noise=[0.1, 0.1]).exposures(domain=(0, 1))
    untouched = found[2]
    assert not untouched.touched
    assert untouched.rmse == np.inf
    assert untouched.remaining_uncertainty == (1.0, 1.0)
    assert str(found[0]).startswith("record 0: identifiable, rmse 0.2236")


def test_a_recipe_can_be_read() -> None:
    rows, names = [[1, 2], [0, 1, 2], [0, 3]], ("without A-7", "with A-7", "tiny + far")
    found = MembershipDesign(rows, records=4, noise=[1e-3, 1e-3, 1.0], names=names).exposures(domain=(0, 1))
    assert found.explain(0) == "3 × 'with A-7' − 2 × 'without A-7'"


def test_the_worst_come_first() -> None:
    generator = np.random.default_rng(13)
    rows = generator.integers(0, 2, (5, 40))
    found = MembershipDesign(rows, noise=np.full(5, 0.02)).exposures(domain=(0, 1), known=[3])
    worst = [exposure.record for exposure in found.worst(8)]
    order = np.lexsort((np.arange(40), found.rmse, found.remaining_lower))
    assert worst == [j for j in order if j != 3][:8]
    assert len(found.worst(1000)) == 39


def test_the_same_inputs_give_the_same_bytes() -> None:
    rows = np.random.default_rng(5).integers(0, 2, (7, 30))
    one, two = (MembershipDesign(rows, noise=np.full(7, 0.1)).exposures(domain=(0, 2)) for _ in range(2))
    assert one.remaining_lower.tobytes() == two.remaining_lower.tobytes()
    assert [weights.tobytes() for weights in one.recipes] == [weights.tobytes() for weights in two.recipes]


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows",
    [np.eye(3, 9000) + np.eye(3, 9000, 1), sparse.csr_array(np.eye(3, 90_000) + np.eye(3, 90_000, 1))],
    ids=["dense", "sparse"],
)
def test_progress_is_reported_and_an_interrupt_leaves_nothing_behind(rows: object) -> None:
    design = MembershipDesign(rows, noise=np.ones(3))
    seen: list[tuple[str, float]] = []
    before = design.exposures(domain=(0, 1), progress=lambda stage, share: seen.append((stage, share)))
    assert {stage for stage, _ in seen} <= {
        "reading the records",
        "reading the units",
        "factorising the products",
    }
    assert len(seen) >= 3

    def interrupt(stage: str, share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        design.exposures(domain=(0, 1), progress=interrupt)
    assert same(before, design.exposures(domain=(0, 1)))


class TestIllConditioned:
    """Leave-one-out sums: rows that differ by a record in many, where products of rows lose the digits."""

    @pytest.mark.slow
    def test_rmse_and_risks_keep_theirs(self) -> None:
        records, lines = 200_000, 4
        rows = np.ones((lines, records), dtype=np.uint8)
        rows[np.arange(1, lines), np.arange(lines - 1)] = 0
        design = MembershipDesign(rows, noise=np.full(lines, 1e-3), readout="sum")
        found = design.exposures(domain=(0, 1))
        assert np.flatnonzero(found.identifiable).tolist() == [0, 1, 2]
        assert np.allclose(found.rmse[:3], np.sqrt(2) * 1e-3, rtol=1e-9)
        # The others enter through their sum alone: four unknowns, in sixty digits.
        reduced = [[1, 1, 1, 1], [0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1]]
        with mpmath.workdps(naive.DIGITS):
            v = mpmath.mpf(1) / 12
            A = mpmath.matrix(reduced) / mpmath.mpf(1e-3)
            prior = mpmath.diag([1 / v, 1 / v, 1 / v, 1 / ((records - 3) * v)])
            risk = mpmath.inverse(A.T * A + prior)[0, 0] / v
        assert np.allclose(found.remaining_upper[:3], float(risk), rtol=1e-9)

    @pytest.mark.parametrize("k", [10**3, 10**5, 10**6])
    def test_lost_digits_are_admitted(self, k: int) -> None:
        """Determinant one, entries k: decided exactly, and the error of the numbers is not understated."""
        rows = np.array([[k, k + 1], [k - 1, k]])
        found = MembershipDesign(rows, noise=[1.0, 1.0], readout="sum").exposures(domain=(0, 1))
        assert found.identifiable.all()
        exact = np.hypot([k, k - 1], [k + 1, k])
        assert np.all(np.abs(found.rmse / exact - 1) <= found.relative_error)

    @pytest.mark.slow
    def test_the_error_is_never_understated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in ("units.row_solver", "bounds.assessment"):  # double precision alone
            monkeypatch.setattr(f"sightline.{module}.BALL_ROWS", 0)
        generator = np.random.default_rng(31)
        checked, largest = 0, 0.0
        for _ in (cases := trials(300)):
            lines, records = int(generator.integers(2, 8)), int(10 ** generator.uniform(1, 4))
            rows = np.ones((lines, records), dtype=np.int64)
            for row in rows:
                row[generator.integers(0, min(records, 12), 3)] = 0
            found = MembershipDesign(rows, noise=np.ones(lines), readout="sum").exposures(domain=(0, 1))
            if found.rank < lines:
                continue
            for target in np.flatnonzero(found.identifiable)[:1]:
                with mpmath.workdps(naive.DIGITS):  # independent rows: there is one recipe
                    products = mpmath.matrix((rows @ rows.T).tolist())
                    recipe = mpmath.lu_solve(products, mpmath.matrix(rows[:, target].tolist()))
                    exact = mpmath.norm(recipe)
                error = abs(float(found.rmse[target] / exact - 1))
                assert error <= found.relative_error + 1e-15
                largest = max(largest, found.relative_error)
                checked += 1
        assert checked > len(cases) / 10
        assert largest > 1e-10  # some of them were hard
