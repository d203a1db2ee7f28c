"""Which way a design is assessed, why, and what it is expected to take: known before it starts.

The sparse route needs rows that have few records in common. Whether it pays is decided by the factor's exact
number of entries and operations, which an analysis of the pattern gives without computing a number.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from sightline.errors import TooMuchWork
from sightline.format import shown_memory, shown_seconds
from sightline.labeled.description import LinearReleases
from sightline.labeled.incidence.cells import CellIncidence
from sightline.labeled.incidence.joins import Joins
from sightline.labeled.incidence.pairs import RowPairs, pair_count
from sightline.labeled.incidence.protocol import Incidence
from sightline.labeled.incidence.sparse import SparseIncidence
from sightline.numerics.sparse_symbolic import SymbolicFactor, analyse
from sightline.progress import Progress

# Designs with fewer rows take a moment either way.
_FEW_ROWS = 2_000
# Of the pairs of rows; above this share, or this number, factors fill in as if dense.
_SHARE_OF_PAIRS, _MOST_ENTRIES = 1 / 20, 60_000_000
# Seconds, measured on one core: of a supernode, an operation, an entry of the products, a pair of a column;
# of a dense operation. The sparse route factorises four matrices, the dense one needs memory for six.
_PER_NODE, _PER_OPERATION, _PER_ENTRY, _PER_PAIR, _PER_DENSE = 4e-4, 2e-10, 2.5e-6, 3e-8, 2e-10
_FACTORS, _DENSE_MATRICES = 4, 6
_ONLY_DENSE = ("posterior blocks of persons with several rows", "smallest combinations")
# Releases whose contributions are looked at one by one with sparse factors; more need dense matrices.
MOST_RELEASES = 64


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
    seconds_again: float = 0.0  # of a sparse route with the same pattern; an estimate
    left_out: tuple[str, ...] = ()  # what only dense matrices give, where these do not fit this machine
    nested: int = 0  # rows that are sums of others, as a GROUP BY is that another one refines

    def __str__(self) -> str:
        nested = f"; {self.nested:,} rows are sums of rows of a finer release" if self.nested else ""
        text = (
            f"{self.route.value} route for {self.rows:,} rows: {self.reason}{nested}; "
            f"about {shown_memory(self.bytes)} and {shown_seconds(self.seconds)}"
        )
        return text + (f"; left out: {', '.join(self.left_out)}" if self.left_out else "")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparsePattern:
    """The pairs of rows with a record in common, and the pattern of a factor of their products."""

    pairs: RowPairs
    symbolic: SymbolicFactor
    nested: int  # rows that are sums of others, over all records


def choose_route(design: LinearReleases, progress: Progress) -> tuple[RouteCost, SparsePattern | None]:
    """The route, with the pattern if it is the sparse one.

    Raises :class:`~sightline.errors.TooMuchWork` where neither route fits this machine's memory.
    """
    if design.whitening.ndim == 2:
        cost, pattern = dense_cost(design.row_count, "the noise is correlated"), None
    else:
        cost, pattern = choose_for_cells(design.incidence, progress)
        if cost.left_out and design.release_count > MOST_RELEASES:
            cost = replace(cost, left_out=("what each release adds", *cost.left_out))
    require_memory(cost)
    return cost, pattern


def choose_for_cells(incidence: Incidence, progress: Progress) -> tuple[RouteCost, SparsePattern | None]:
    """The route of rows with independent noise, and the pattern if it is the sparse one."""
    reason, pattern = _reason_or_pattern(incidence, progress)
    if pattern is None:
        return dense_cost(incidence.row_count, reason), None
    cost = cost_of(pattern)
    dense = dense_cost(incidence.row_count, "the factor fills in: a dense one is faster")
    if dense.bytes > _memory():
        return replace(cost, left_out=_ONLY_DENSE), pattern
    return (cost, pattern) if cost.seconds <= dense.seconds else (dense, None)


def require_memory(cost: RouteCost) -> None:
    """Refuse a route that does not fit this machine's memory, with the number and what would help."""
    if cost.bytes > _memory():
        raise TooMuchWork(
            f"expected a design that fits {_memory() / 1e9:.3g} GB of memory, got {cost.rows:,} published "
            f"numbers that need about {cost.bytes / 1e9:.3g} GB ({cost.reason}); publish fewer crossed keys, "
            "or audit the releases of each region on their own"
        )


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


def cost_of(pattern: SparsePattern) -> RouteCost:
    """What the sparse route takes with this pattern."""
    symbolic, pairs = pattern.symbolic, pattern.pairs
    incidence = pairs.incidence
    rows, looked_up = incidence.row_count, pair_count(incidence)
    share = symbolic.factor_entries / (rows * (rows + 1) / 2)
    one = _PER_NODE * len(symbolic.linked) + _PER_OPERATION * 3 * symbolic.operations
    again = _FACTORS * one + _PER_PAIR * looked_up
    return RouteCost(
        route=Route.SPARSE,
        reason=f"the factor has {symbolic.factor_entries:,} entries, {share:.2%} of a dense one",
        rows=rows,
        factor_entries=symbolic.factor_entries,
        bytes=int(symbolic.peak_bytes + 150 * pairs.entries + 4 * looked_up + 100 * incidence.records),
        seconds=again + _PER_ENTRY * pairs.entries,
        seconds_again=again,
        nested=pattern.nested,
    )


def _reason_or_pattern(incidence: Incidence, progress: Progress) -> tuple[str, SparsePattern | None]:
    """The pattern of rows with few records in common, or the reason why there is no sparse one."""
    if incidence.row_count < _FEW_ROWS:
        return f"fewer than {_FEW_ROWS:,} rows", None
    if not incidence.whole:
        return "the weights are not small integers", None
    if not incidence.complete:
        return "the signatures are streamed", None
    if not isinstance(incidence, CellIncidence | SparseIncidence):
        return "the rows are dense", None
    if "pattern" not in incidence.computed:
        incidence.computed["pattern"] = _analysed(incidence, progress)
    found: tuple[str, SparsePattern | None] = incidence.computed["pattern"]
    return found


def _analysed(
    incidence: CellIncidence | SparseIncidence, progress: Progress
) -> tuple[str, SparsePattern | None]:
    rows = incidence.row_count
    most = min(_MOST_ENTRIES, max(_FEW_ROWS * 100, int(rows * rows * _SHARE_OF_PAIRS)))
    pairs = RowPairs.of(incidence, progress, most_entries=most)
    if pairs is None:
        return f"more than {most:,} pairs of rows have a record in common", None
    progress("pattern of the factor", 0.0)
    symbolic = analyse(pairs.first, pairs.second, size=rows, most_entries=rows * (rows + 1) / 4)
    if not isinstance(symbolic, SymbolicFactor):
        return f"the factor fills in: more than {symbolic.at_least:,} entries", None
    nested = Joins.of(pairs, pairs.products(np.ones(incidence.records))).nested_rows()
    return "", SparsePattern(pairs=pairs, symbolic=symbolic, nested=int(nested.size))


def _memory() -> float:
    """The machine's memory in bytes; infinite where the system does not say."""
    if not hasattr(os, "sysconf"):
        return float("inf")
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
