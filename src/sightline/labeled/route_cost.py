"""Which way a design is assessed, why, and what it is expected to take: known before it starts.

Sparse factors need rows that have few units in common. Whether they pay is decided by the factor's exact
number of entries and operations, which an analysis of the pattern gives without computing a number.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from sightline.errors import TooMuchWork
from sightline.format import shown_memory, shown_seconds
from sightline.labeled.bounds.coin import CoinPrior
from sightline.labeled.row_products import SPARSE_FROM, ProductSums, RowProducts
from sightline.labeled.sparse_row_solver import RowPairs
from sightline.labeled.unit_design import RowNoise, UnitPrior
from sightline.labeled.units import UnitStore
from sightline.numerics.sparse_symbolic import SymbolicFactor

# Seconds, measured on one core: of a supernode, an operation, an entry of the products; of a dense
# operation. Sparse assessments factorise four matrices, dense ones need memory for six.
_PER_NODE, _PER_OPERATION, _PER_ENTRY, _PER_DENSE = 4e-4, 2e-10, 2.5e-6, 2e-10
_FACTORS, _DENSE_MATRICES = 4, 6


class Route(Enum):
    """How the products of rows are factorised."""

    SPARSE = "sparse"
    DENSE = "dense"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteCost:
    """The route of a design, the reason, and the memory and time that it is expected to take."""

    route: Route
    reason: str
    rows: int
    factor_entries: int
    bytes: int
    seconds: float  # an estimate

    def __str__(self) -> str:
        return (
            f"{self.route.value} route for {self.rows:,} rows: {self.reason}; "
            f"about {shown_memory(self.bytes)} and {shown_seconds(self.seconds)}"
        )

    def require_memory(self) -> None:
        """Refuse a route that does not fit this machine's memory, with the number and what would help."""
        if self.bytes > _memory():
            raise TooMuchWork(
                f"expected a design that fits {_memory() / 1e9:.3g} GB of memory, got {self.rows:,} "
                f"published numbers that need about {self.bytes / 1e9:.3g} GB ({self.reason}); publish "
                "fewer crossed keys, or audit the releases of each region on their own"
            )


def cost_of_units(units: UnitStore) -> RouteCost:
    """What an assessment of some units takes: one pass, and an analysis of the pattern of their rows."""
    ones = np.ones(units.numbers)
    noise, prior = RowNoise.of(ones, ones, 0 * ones, ones), UnitPrior(target=CoinPrior())
    sums = RowProducts.unweighted(units, prior, noise).of(units)
    return chosen_route(sums)[0]


def chosen_route(sums: ProductSums) -> tuple[RouteCost, RowPairs | None]:
    """The route for some products of rows, with the pattern of a sparse factor if it is the sparse one."""
    rows = int(sums.matrix.shape[0])
    if isinstance(sums.matrix, np.ndarray):
        few = f"fewer than {SPARSE_FROM:,} rows"
        return dense_cost(
            rows, few if rows < SPARSE_FROM else "most pairs of rows have units in common"
        ), None
    dense = dense_cost(rows, "the factor fills in: a dense one is faster")
    fits = dense.bytes <= _memory()
    pairs = RowPairs.of(sums.pairs, most_entries=rows * (rows + 1) / 4 if fits else np.inf)
    if pairs is None:
        return dense, None
    cost = _sparse_cost(pairs.symbolic, sums.pairs)
    return (cost, pairs) if cost.seconds <= dense.seconds or not fits else (dense, None)


def dense_cost(rows: int, reason: str) -> RouteCost:
    """What a dense route takes, and why it is taken."""
    return RouteCost(
        route=Route.DENSE,
        reason=reason,
        rows=rows,
        factor_entries=rows * (rows + 1) // 2,
        bytes=8 * _DENSE_MATRICES * rows**2,
        seconds=_PER_DENSE * float(rows) ** 3,
    )


def _sparse_cost(symbolic: SymbolicFactor, pairs: Any) -> RouteCost:
    rows, entries = int(pairs.shape[0]), int(pairs.nnz)
    share = symbolic.factor_entries / (rows * (rows + 1) / 2)
    one = _PER_NODE * len(symbolic.linked) + _PER_OPERATION * 3 * symbolic.operations
    return RouteCost(
        route=Route.SPARSE,
        reason=f"the factor has {symbolic.factor_entries:,} entries, {share:.2%} of a dense one",
        rows=rows,
        factor_entries=symbolic.factor_entries,
        bytes=int(symbolic.peak_bytes + 150 * entries),
        seconds=_FACTORS * one + _PER_ENTRY * entries,
    )


def _memory() -> float:
    """The machine's memory in bytes; infinite where the system does not say."""
    if not hasattr(os, "sysconf"):
        return float("inf")
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
