"""Who is identifiable: against exact rational elimination, with no mistake either way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tests.units.naive_labeled as naive
from sightline import MembershipDesign
from sightline.numerics import integers
from sightline.theory.geometry import Decision, Evidence
from tests.numbered_cases import trials


def noise_levels(generator: np.random.Generator, lines: int) -> np.ndarray:
    """Noise over 12 orders of magnitude."""
    return 10 ** generator.uniform(-6, 6, lines)


def test_both_twins_agree() -> None:
    generator = np.random.default_rng(7)
    for _ in range(150):
        rows = naive.random_rows(generator)
        assert np.array_equal(naive.identifiable(rows), naive.identifiable_fast(rows))


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_mistake_on_random_designs(seed: int) -> None:
    generator = np.random.default_rng(seed)
    exposed, ways = 0, {Evidence.MODULAR: 0, Evidence.FULL_RANK: 0}
    for trial in (cases := trials(400)):
        rows = naive.random_rows(generator)
        given_as = rows if trial % 2 else sparse.csr_array(rows)
        design = MembershipDesign(given_as, noise=noise_levels(generator, len(rows)), readout="sum")
        found = design.exposures(domain=(0, 1))
        expected = naive.identifiable_fast(rows)
        assert np.array_equal(found.identifiable, expected), rows.tolist()
        assert np.array_equal(np.isfinite(found.rmse), expected)
        assert not found.undecided.any()
        ways[found.evidence] += 1
        exposed += expected.sum()
    assert exposed > len(cases)  # the designs are not all trivial
    assert min(ways.values()) > 0.15 * len(cases)


@pytest.mark.slow
def test_no_mistake_with_whole_number_weights() -> None:
    generator = np.random.default_rng(11)
    for trial in trials(300):
        rows = naive.random_rows(generator, most=8) * generator.integers(-3, 4)
        rows[rows != 0] += generator.integers(-2, 3, np.count_nonzero(rows))
        rows = rows[rows.any(axis=1)]
        if len(rows) == 0:
            continue
        given_as = rows.astype(float) if trial % 2 else sparse.csc_array(rows)
        design = MembershipDesign(given_as, noise=np.ones(len(rows)), readout="sum")
        assert np.array_equal(design.exposures(domain=(0, 1)).identifiable, naive.identifiable_fast(rows)), (
            rows.tolist()
        )


@pytest.mark.slow
def test_no_mistake_with_known_records() -> None:
    generator = np.random.default_rng(5)
    for _ in trials(300):
        rows = naive.random_rows(generator, most=9)
        known = np.flatnonzero(generator.random(rows.shape[1]) < 0.4)[:-1]
        unknown = np.setdiff1d(np.arange(rows.shape[1]), known)
        found = MembershipDesign(rows, noise=np.ones(len(rows))).exposures(domain=(0, 1), known=known)
        assert np.array_equal(found.identifiable[unknown], naive.identifiable_fast(rows[:, unknown]))
        assert not found.identifiable[known].any()


@pytest.mark.slow
def test_groups_are_the_distinct_columns_and_their_sums_are_decided_exactly() -> None:
    generator = np.random.default_rng(3)
    several = 0
    for _ in (cases := trials(300)):
        rows = naive.random_rows(generator, most=8)
        found = MembershipDesign(rows, noise=np.ones(len(rows))).exposures(domain=(0, 1))
        columns, inverse = np.unique(rows, axis=1, return_inverse=True)
        same = inverse[:, None] == inverse[None, :]
        assert np.array_equal(found.group[:, None] == found.group[None, :], same)
        assert np.array_equal(found.groups.sizes[found.group], same.sum(axis=1))
        by_column = naive.identifiable_fast(columns)
        assert np.array_equal(found.groups.identifiable[found.group], by_column[inverse])
        smallest = found.smallest_groups()
        several += smallest.size
        assert np.all(np.diff(found.groups.sizes[smallest]) >= 0)
        for group in smallest:
            assert np.allclose(found.group_recipe(group) / rows.sum(axis=1) @ rows, found.group == group)
            assert np.array_equal(found.members(group), np.flatnonzero(found.group == group))
    assert several > len(cases) / 6


@given(st.integers(0, 2**32 - 1), st.data())
@settings(max_examples=60, deadline=None)
def test_noise_never_changes_who_is_identifiable(seed: int, data: st.DataObject) -> None:
    generator = np.random.default_rng(seed)
    rows = naive.random_rows(generator, most=7)
    exponents = data.draw(st.lists(st.floats(-6, 6), min_size=len(rows), max_size=len(rows)))
    quiet = MembershipDesign(rows, noise=np.ones(len(rows))).exposures(domain=(0, 1))
    loud = MembershipDesign(rows, noise=10 ** np.array(exponents)).exposures(domain=(0, 1))
    assert np.array_equal(quiet.identifiable, loud.identifiable)


def test_a_large_design_with_one_differencing_pair_exposes_one_record() -> None:
    generator = np.random.default_rng(0)
    rows = generator.integers(0, 2, (40, 9000), dtype=np.uint8)
    rows[1] = rows[0]
    rows[0, 8123], rows[1, 8123] = 1, 0
    found = MembershipDesign(rows, noise=np.ones(40)).exposures(domain=(0, 1))
    assert np.flatnonzero(found.identifiable).tolist() == [8123]
    members = int(rows[0].sum())
    assert found.recipe(8123).round(6).tolist() == [members, 1 - members, *[0] * 38]


def test_a_record_that_two_weighted_rows_of_many_records_differ_by_is_found() -> None:
    """The exact test sums random numbers over all records: the sums must be exact for weights above 1 too."""
    rows = np.random.default_rng(0).integers(0, 3, (4, 20_000))
    other = rows[0].copy()
    other[7] += 1
    design = MembershipDesign(np.vstack([rows, other, other]), noise=np.ones(6), readout="sum")
    found = design.exposures(domain=(0, 1))
    assert found.evidence is Evidence.MODULAR
    assert np.flatnonzero(found.identifiable).tolist() == [7]
    assert found.recipe(7).round(9).tolist() == [-1.0, 0.0, 0.0, 0.0, 0.5, 0.5]


class TestRealWeights:
    def test_a_clear_gap_decides(self) -> None:
        generator = np.random.default_rng(1)
        rows = generator.standard_normal((3, 6))
        rows = np.vstack([rows, rows[0]])
        rows[3, 2] += 0.5  # rows 0 and 3 differ in record 2 alone
        for given_as in (rows, sparse.csr_array(rows)):
            found = MembershipDesign(given_as, noise=np.ones(4), readout="sum").exposures(domain=(0, 1))
            assert np.flatnonzero(found.identifiable).tolist() == [2]
            assert found.evidence is Evidence.GAP
            assert found.decision(2) is Decision.YES
            assert found.decision(0) is Decision.NO
            assert found.rmse[2] == pytest.approx(np.sqrt(2) / 0.5, rel=1e-10)

    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
    def test_rows_of_means_are_integers_again(self, kind: object) -> None:
        rows = np.array([[1, 1, 1, 0, 1, 1, 1], [0, 1, 1, 0, 1, 1, 1], [3, 0, 6, 0, -3, 0, 0]])
        means = rows / np.abs(rows).sum(axis=1, keepdims=True)
        found = MembershipDesign(kind(means), noise=np.ones(3), readout="sum").exposures(domain=(0, 1))
        assert found.evidence in {Evidence.MODULAR, Evidence.FULL_RANK}
        assert np.flatnonzero(found.identifiable).tolist() == [0]
        assert found.recipe(0).round(9).tolist() == [6, -5, 0]

    def test_no_gap_is_undecided(self) -> None:
        rows = np.array([[0.3, 0.7, 0.1], [0.3, 0.7, 0.1]])
        rows[1, 2] += 1e-14
        found = MembershipDesign(rows, noise=np.ones(2), readout="sum").exposures(domain=(0, 1))
        assert found.evidence is Evidence.NONE
        assert found.decision(2) is Decision.UNDECIDED
        assert not found.identifiable.any()
        assert np.isinf(found.rmse).all()

    def test_equal_columns_are_one_group(self) -> None:
        rows = np.array([[0.25, 0.25, 0.3, -0.0], [0.1, 0.1, 0.3, 0.0]])
        for given_as in (rows, sparse.csr_array(rows)):
            found = MembershipDesign(given_as, noise=np.ones(2), readout="sum").exposures(domain=(0, 1))
            assert found.group.tolist() == [0, 0, 1, 2]
            assert found.groups.identifiable.tolist() == [True, True, False]
            assert found.touched.tolist() == [True, True, True, False]


class TestResidues:
    PRIME = (1 << 61) + 15

    @given(
        st.integers(0, (1 << 61) - 1),
        st.integers(-(1 << 52), 1 << 52),
        st.integers(1, 40),
        st.integers(1, (1 << 31) - 1),
    )
    def test_shift_add_and_times_are_exact(self, value: int, add: int, bits: int, factor: int) -> None:
        one = np.array([value], dtype=np.int64)
        shifted = integers.shift_add(one, np.array([add], dtype=np.int64), bits=bits, prime=self.PRIME)
        assert shifted.item() == (value * 2**bits + add) % self.PRIME
        product = integers.times(one, np.array([factor], dtype=np.int64), prime=self.PRIME)
        assert product.item() == value * factor % self.PRIME
