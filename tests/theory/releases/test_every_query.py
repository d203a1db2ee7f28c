"""The laws that every release obeys, whatever its family."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline as sl
from tests.theory.releases.release_cases import CASES

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=12, deadline=None)


def members_of(case, records):
    return np.asarray(records)[case.query.members]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEveryQuery:
    @given(seed=seeds)
    @few
    def test_its_answer_is_the_formula_on_its_members(self, case, seed):
        records = case.sample(np.random.default_rng(seed))
        answer = case.query.value(records)
        assert answer.shape == (case.query.outputs,)
        np.testing.assert_allclose(
            answer, case.formula(np, members_of(case, records)), rtol=1e-13, atol=1e-14
        )

    @pytest.mark.sampled(6)
    @pytest.mark.slow
    @given(seed=seeds)
    @few
    def test_its_jacobian_is_the_derivative_of_the_formula(self, case, seed):
        records = case.sample(np.random.default_rng(seed), shrink=0.9)
        rows = case.query.jacobian(records)
        assert rows.shape == (case.query.outputs, len(case.query.members), case.query.dimension)
        with jax.enable_x64(True):
            formula = jax.jacfwd(lambda x: case.formula(jax.numpy, x))
            expected = np.asarray(formula(members_of(case, records))).reshape(rows.shape)
        np.testing.assert_allclose(rows, expected, rtol=1e-12, atol=1e-13)

    @pytest.mark.slow
    def test_its_jacobian_is_the_slope_of_its_own_answer(self, case):
        records = case.sample(np.random.default_rng(7), shrink=0.9)
        rows = case.query.jacobian(records)
        step = 1e-5
        for j, k in enumerate(case.query.members):
            for i in range(case.query.dimension):
                nudge = np.zeros_like(records)
                nudge[k, i] = step
                slope = (case.query.value(records + nudge) - case.query.value(records - nudge)) / (2 * step)
                np.testing.assert_allclose(rows[:, j, i], slope, rtol=1e-7, atol=1e-8)

    @pytest.mark.slow
    @given(seed=seeds)
    @few
    def test_no_other_record_matters(self, case, seed):
        rng = np.random.default_rng(seed)
        records = case.sample(rng)
        others = np.setdiff1d(np.arange(case.size), case.query.members)
        changed = records.copy()
        changed[others] = np.nan
        np.testing.assert_array_equal(case.query.value(changed), case.query.value(records))
        np.testing.assert_array_equal(case.query.jacobian(changed), case.query.jacobian(records))

    @given(seed=seeds)
    @few
    def test_the_members_of_a_cell_are_interchangeable(self, case, seed):
        rng = np.random.default_rng(seed)
        records = case.sample(rng)
        swapped = records.copy()
        for cell in case.query.cells:
            swapped[cell.members] = records[rng.permutation(cell.members)]
        if case.symmetric:
            np.testing.assert_allclose(
                case.query.value(swapped), case.query.value(records), rtol=1e-13, atol=1e-14
            )
        else:
            rows = case.query.jacobian(records)
            assert not (rows == rows[:, :1]).all(), "unequal weights tell the members apart"

    @pytest.mark.slow
    @given(seed=seeds, extreme=st.booleans())
    @few
    def test_no_neighbour_moves_it_by_more_than_its_sensitivity(self, case, seed, extreme):
        rng = np.random.default_rng(seed)
        records = case.sample(rng)
        if extreme:
            records = case.corners[rng.integers(len(case.corners), size=case.size)]
        before = case.query.value(records)
        for k in case.query.members:
            neighbour = records.copy()
            neighbour[k] = case.sample(rng)[0] if rng.random() < 0.5 else rng.choice(case.corners)
            change = case.query.value(neighbour) - before
            assert np.linalg.norm(change / case.query.sensitivity) <= 1 + 1e-12
            assert np.abs(change / case.query.sensitivity_l1).sum() <= 1 + 1e-12

    @pytest.mark.slow
    def test_its_sensitivity_is_attained_just_when_it_is_tight(self, case):
        # Every pair of corners for one record, the others all together at each corner.
        l2 = l1 = 0.0
        for others in case.corners:
            for k in case.query.members:
                answers = []
                for corner in case.corners:
                    records = np.tile(others, (case.size, 1))
                    records[k] = corner
                    answers.append(case.query.value(records))
                changes = np.array(answers)[:, None] - np.array(answers)[None]
                l2 = max(l2, np.linalg.norm(changes / case.query.sensitivity, axis=-1).max())
                l1 = max(l1, np.abs(changes / case.query.sensitivity_l1).sum(axis=-1).max())
        if case.attained:
            assert l2 == pytest.approx(1, abs=1e-9)
            assert l1 == pytest.approx(1, abs=1e-9)
        else:
            assert max(l2, l1) <= 0.5 + 1e-12, "the uniform convention is at least twice the exact one here"

    def test_its_integer_rows_are_its_jacobian_up_to_scale(self, case):
        rows = case.query.integer_rows()
        if not case.query.linear:
            assert rows is None
            return
        jacobian = case.query.jacobian(None)
        np.testing.assert_array_equal(jacobian, case.query.jacobian(case.sample(np.random.default_rng(0))))
        if rows is None:
            assert "real weights" in case.name
            return
        assert rows.dtype == np.int64
        for whole, real in zip(rows.reshape(len(rows), -1), jacobian.reshape(len(rows), -1), strict=True):
            scale = np.linalg.norm(real) / np.linalg.norm(whole)
            np.testing.assert_allclose(real, scale * whole, rtol=1e-15)

    def test_a_nonlinear_jacobian_needs_records(self, case):
        if case.query.linear:
            assert case.query.jacobian(None).shape[0] == case.query.outputs
        else:
            with pytest.raises(sl.SightlineError, match="expected records, got None"):
                case.query.jacobian(None)

    def test_its_cells_partition_its_members_and_outputs(self, case):
        cells = case.query.cells
        members = np.sort(np.concatenate([cell.members for cell in cells]))
        np.testing.assert_array_equal(members, case.query.members)
        assert sum(cell.outputs for cell in cells) == case.query.outputs
        assert {cell.dimension for cell in cells} == {case.query.dimension}
        assert all(cell.cells == (cell,) for cell in cells)
        if len(cells) == 1:
            assert cells[0] is case.query

    def test_nothing_in_it_can_be_changed(self, case):
        query = case.query
        for name in ("members", "sensitivity", "sensitivity_l1"):
            assert not getattr(query, name).flags.writeable
        with pytest.raises(dataclasses.FrozenInstanceError):
            query.members = np.array([1])
        assert query.sensitivity.shape == query.sensitivity_l1.shape == (query.outputs,)

    def test_it_refuses_records_it_cannot_answer_for(self, case):
        records = case.sample(np.random.default_rng(3))
        first, last = case.query.members[[0, -1]]
        poisoned = records.copy()
        poisoned[first] = np.nan
        wide = np.column_stack([records, records[:, 0]])
        for bad, message in [
            (poisoned, rf"finite records.*record \[{first}\]"),
            (records[:last], f"at least {last + 1} records.*got {last} records"),
            (wide, "records of shape"),
            (records[None], "records of shape"),
            (records > 0, "array of numbers, got dtype bool"),
            (records.astype(complex), "array of numbers, got dtype complex128"),
            ([[1.0], [1.0, 2.0]], "different lengths"),
        ]:
            with pytest.raises(sl.SightlineError, match=message):
                case.query.value(bad)
            with pytest.raises(sl.SightlineError, match=message):
                case.query.jacobian(bad)


@pytest.mark.parametrize("case", [case for case in CASES if hasattr(case.query, "bound")], ids=str)
def test_a_record_outside_the_bound_is_named_by_position_and_never_by_value(case):
    records = case.sample(np.random.default_rng(3))
    records[2] = 123.4567
    with pytest.raises(sl.SightlineError, match=r"record \[2\] outside") as caught:
        case.query.value(records)
    assert "123" not in str(caught.value)
    records[2] = -np.nextafter(case.query.bound, np.inf)
    with pytest.raises(sl.SightlineError, match=r"record \[2\] outside"):
        case.query.jacobian(records)
    records[2] = case.query.bound
    case.query.value(records)
