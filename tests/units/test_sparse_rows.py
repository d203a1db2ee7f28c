"""Many rows with few records in common: sparse factors against dense ones and closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from sightline import MembershipDesign
from sightline.bounds.assessment import assess
from sightline.bounds.membership_design import LoweredRecords
from sightline.bounds.priors import prior_on
from sightline.units import row_products, sparse_row_solver
from sightline.units.design import MadeOfUnits
from sightline.units.row_noise import RowNoise
from sightline.units.sparse_row_solver import SparseSolver


def nested(generator: np.random.Generator, tracts: int, records: int) -> sparse.csr_array:
    """Cells of a table by tract and group, the tracts' totals, and the grand total: many rows depend on
    others.
    """
    tract, group = generator.integers(0, tracts, records), generator.integers(0, 3, records)
    cell = np.unique(tract * 3 + group, return_inverse=True)[1].ravel()
    tract = np.unique(tract, return_inverse=True)[1].ravel()
    lines = np.concatenate([cell, cell.max() + 1 + tract, np.full(records, cell.max() + tract.max() + 2)])
    columns = np.tile(np.arange(records), 3)
    return sparse.coo_array((np.ones(lines.size), (lines, columns))).tocsr()


@pytest.mark.parametrize("seed", range(3))
def test_a_hierarchy_is_assessed_as_by_dense_matrices(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(seed)
    rows = nested(generator, 40, 150)
    design = MembershipDesign(rows, noise=10 ** generator.uniform(-1, 0.5, rows.shape[0]), readout="sum")
    prior = prior_on((0.0, 1.0), ("uniform", "cos2", "two-point")[seed])
    dense = assess(LoweredRecords.of(design, prior, np.ones(150, dtype=bool)).design)
    with monkeypatch.context() as patch:
        patch.setattr(row_products, "SPARSE_FROM", 0)
        patch.setattr(sparse_row_solver, "_PER_DENSE", 1.0)
        patch.setattr(row_products, "MOST_SQUARE", 0)
        lowered = LoweredRecords.of(design, prior, np.ones(150, dtype=bool)).design
        found = assess(replace(lowered, made=MadeOfUnits()))
    assert isinstance(found.solver, SparseSolver)
    assert found.rank == dense.rank
    assert not found.undecided.any()
    assert np.array_equal(found.identifiable, dense.identifiable)
    yes = dense.identifiable
    assert yes.any()
    assert found.rmse[yes] == pytest.approx(dense.rmse[yes], rel=1e-9)
    assert found.upper == pytest.approx(dense.upper, rel=1e-6)
    assert found.lower == pytest.approx(dense.lower, rel=1e-4)
    kind = int(np.flatnonzero(yes[:, 0])[0])
    one, other = found.recipe(kind), dense.recipe(kind)
    assert np.sum((one / np.sqrt(found.design.noise.information)) ** 2) == pytest.approx(
        np.sum((other / np.sqrt(found.design.noise.information)) ** 2), rel=1e-9
    )


def test_cells_of_one_partition_have_closed_forms() -> None:
    sizes, scales = np.array([1, 1, 2, 3, 7, 40]), np.geomspace(0.1, 10.0, 6)
    rows = np.repeat(np.eye(6), sizes, axis=1)
    for given in (rows, sparse.csr_array(rows)):
        found = MembershipDesign(given, noise=scales, readout="sum").exposures(domain=(0, 1))
        assert found.groups.sizes.tolist() == sizes.tolist()
        assert found.groups.identifiable.all()
        assert found.groups.rmse == pytest.approx(scales)
        assert found.identifiable.tolist() == (sizes[found.group] == 1).tolist()
        v = 1 / 12
        share = 1 - v / (sizes * v + scales**2)
        assert found.remaining_upper == pytest.approx(share[found.group], rel=1e-9)
        assert found.recipe(0).tolist() == pytest.approx([1, 0, 0, 0, 0, 0])


def test_sparse_rows_whose_noise_becomes_correlated_are_assessed_densely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = np.random.default_rng(5)
    rows = nested(generator, 40, 150)
    design = MembershipDesign(rows, noise=np.ones(rows.shape[0]), readout="sum")
    prior, everyone = prior_on((0.0, 1.0), "uniform"), np.ones(150, dtype=bool)
    shared = np.eye(rows.shape[0]) + 0.5
    expected = assess(
        LoweredRecords.of(design, prior, everyone).design.with_noise(RowNoise.correlated(shared))
    )
    monkeypatch.setattr(row_products, "SPARSE_FROM", 0)
    monkeypatch.setattr(row_products, "MOST_SQUARE", 0)
    monkeypatch.setattr(sparse_row_solver, "_PER_DENSE", 1.0)
    lowered = LoweredRecords.of(design, prior, everyone).design
    assert isinstance(assess(lowered).solver, SparseSolver)
    found = assess(lowered.with_noise(RowNoise.correlated(shared)))
    assert found.upper == pytest.approx(expected.upper, rel=1e-9)
    assert found.lower == pytest.approx(expected.lower, rel=1e-6)
