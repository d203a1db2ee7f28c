"""Designs through the sparse route whatever their size, for comparison with other routes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sightline import MembershipDesign
from sightline.labeled.bounds.domain import prior_on
from sightline.labeled.exposures import Exposures, sparse_exposures
from sightline.labeled.incidence.cells import CellIncidence
from sightline.labeled.incidence.pairs import RowPairs
from sightline.labeled.knowledge import Known, unknown_records
from sightline.labeled.record_numbers import Attack
from sightline.labeled.routes.cost import SparsePattern, cost_of
from sightline.labeled.sparse_gram import SparseGram
from sightline.numerics.sparse_symbolic import SymbolicFactor, analyse
from sightline.progress import silent


def pattern_of(design: MembershipDesign) -> SparsePattern:
    pairs = RowPairs.of(design.incidence, silent)
    assert pairs is not None
    symbolic = analyse(pairs.first, pairs.second, size=design.row_count)
    assert isinstance(symbolic, SymbolicFactor)
    return SparsePattern(pairs=pairs, symbolic=symbolic, nested=0)


def sparsely(
    design: MembershipDesign,
    *,
    prior: str = "uniform",
    known: Iterable[int] | Known = (),
    domain: tuple[float, float] = (0, 1),
) -> Exposures:
    """The exposures of a design by the sparse route."""
    pattern = pattern_of(design)
    attack = Attack(
        prior=prior_on(domain, prior),
        everyone_told=isinstance(known, Known),
        copies=None,
        attacks=True,
        cost=cost_of(pattern),
        progress=silent,
    )
    return sparse_exposures(SparseGram.of(design, unknown_records(design.size, known), pattern), attack)


def census(generator: np.random.Generator, *, records: int, blocks: int) -> CellIncidence:
    """Signatures of nested geography crossed with attributes: blocks in groups in tracts, age and sex."""
    block = generator.integers(blocks, size=records)
    group, tract = block // 4, block // 12
    age, sex = generator.integers(5, size=records), generator.integers(2, size=records)
    keys = (block, group, tract, block * 2 + sex, group * 5 + age, tract * 10 + age * 2 + sex)
    table = np.stack([np.unique(key, return_inverse=True)[1] for key in keys], axis=1)
    signatures, counts = np.unique(table, axis=0, return_counts=True)
    widths = signatures.max(axis=0) + 1
    return CellIncidence.of(signatures.astype(np.int32), widths.astype(np.intp), counts.astype(np.intp))
