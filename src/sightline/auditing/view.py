"""The linear part of a plan as a membership design: a column for each signature, a row for each cell.

All rows are sums: a mean of n rows with noise s is a sum with noise n s. A boolean secret is a value of 0
or 1. A categorical secret is an indicator for each category but one, the *rest*: its indicator is one
minus the others, so that a published count of it is the size of the cell less a sum of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.plan import Plan, SecretKind
from sightline.auditing.pricing import Pricing
from sightline.auditing.secret import Secret
from sightline.errors import InvalidPlan, require
from sightline.labeled.design import MembershipDesign, Readout
from sightline.labeled.exposures import Exposures
from sightline.labeled.incidence.cells import pattern_of_cells
from sightline.labeled.incidence.protocol import BoolArray
from sightline.noise.laws import GaussianNoise, LaplaceNoise
from sightline.privacy.accountant import NoiseLaw
from sightline.progress import Progress
from sightline.tables.membership import Cell, CellTable, Feature, Membership, Partition, Statistic

LINEAR = frozenset({Feature.VALUE, Feature.INDICATOR})

# Products of rows are a dense matrix over the cells.
_MOST_CELLS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """A design over signatures, and how to read its rows and columns."""

    design: MembershipDesign
    queries: IndexArray  # the plan's release of every release of the design
    cells: IndexArray  # the membership's cell of every row of the design
    factors: FloatArray  # what a row is of the published number: n for a mean, negative for the rest
    offsets: FloatArray  # and what is added to that
    signatures: CellTable  # the distinct signatures over the linear partitions
    signature_of: IndexArray  # for every signature of the membership, its place among those
    column_signature: IndexArray  # for every column of the design, its signature
    column_category: IndexArray  # and its category, as a position in ``categories``; 0 if there are none
    categories: tuple[str, ...]  # those with an indicator of their own
    known: BoolArray  # columns that the attacker knows
    rest: BoolArray  # rows that count the category without an indicator
    copies: FloatArray  # how often each row is published: its noise is that of their mean

    @property
    def known_columns(self) -> IndexArray:
        """The columns that the attacker knows."""
        return np.flatnonzero(self.known)

    def exposures(
        self, design: MembershipDesign, secret: Secret, progress: Progress, *, lines: IndexArray | None = None
    ) -> Exposures:
        """What a design over these columns exposes: this one, with other noise, or some ``lines`` of it."""
        return secret.exposures(
            design,
            indicators=max(1, len(self.categories)),
            rest=self.rest if lines is None else self.rest[lines],
            copies=self.copies if lines is None else self.copies[lines],
            known=self.known_columns,
            progress=progress,
        )

    def signatures_of(self, column: int) -> IndexArray:
        """The membership's signatures that a column stands for: one, unless releases were left out."""
        return np.flatnonzero(self.signature_of == self.column_signature[column])

    def first_signatures(self, columns: IndexArray) -> IndexArray:
        """The first of those signatures, for many columns at once."""
        first = np.zeros(len(self.signatures), dtype=np.intp)
        first[self.signature_of[::-1]] = np.arange(len(self.signature_of))[::-1]
        chosen: IndexArray = first[self.column_signature[columns]]
        return chosen


def linear_view(plan: Plan, membership: Membership, pricing: Pricing) -> View | None:
    """The design of the partitions that are linear in the secret; ``None`` if there are none."""
    filled = {cell.partition for cell in membership.cells}
    order = [
        p
        for p in sorted(range(len(membership.partitions)), key=lambda p: membership.partitions[p].query)
        if membership.partitions[p].feature in LINEAR and p in filled
    ]
    if not order or len(membership.signatures) == 0:
        return None
    starts = membership.starts
    widths = np.diff(starts)[order]
    cells = np.concatenate([np.arange(starts[p], starts[p + 1]) for p in order])
    owner = np.repeat(order, widths)
    require(
        cells.size <= _MOST_CELLS,
        f"at most {_MOST_CELLS:,} cells",
        got=f"{cells.size:,}",
        fix="their products fill a square table; coarsen the groups or audit fewer releases at once",
        error=InvalidPlan,
    )
    table = membership.signatures
    if order != list(range(len(membership.partitions))):
        table = table[:, order]
    table, counts, known, back = _collapsed(table, membership, len(order) < len(filled))
    columns = _split(table, counts, known)
    own, rest = _categories(plan, membership, order, pricing)
    laid = _indicators(columns, membership, order, own, rest)
    statistic = np.array([membership.partitions[p].statistic is Statistic.MEAN for p in owner])
    rows = np.array([membership.cells[c].rows for c in cells], dtype=np.float64)
    # A number that counts the complement, or the rest, is the size of its cell less a sum.
    turned = np.array([_is_turned(membership.partitions[p], rest) for p in owner])
    factors = np.where(statistic, rows, 1.0) * np.where(turned, -1.0, 1.0)
    scale = pricing.scale[cells] * np.abs(factors) / np.sqrt(pricing.times[owner])
    noise = LaplaceNoise(scales=scale) if pricing.law is NoiseLaw.LAPLACE else GaussianNoise(stddevs=scale)
    queries, release_of = np.unique([membership.partitions[p].query for p in owner], return_inverse=True)
    design = MembershipDesign(
        pattern_of_cells(laid.table, cells=widths, counts=laid.counts),
        noise=noise,
        readout=Readout.SUM,
        releases=release_of,
        names=tuple(cell_name(membership, int(c)) for c in cells),
    )
    return View(
        design=design,
        queries=queries,
        cells=cells,
        factors=factors,
        offsets=np.where(turned, rows, 0.0),
        signatures=table,
        signature_of=back,
        column_signature=laid.signature,
        column_category=laid.category,
        categories=own,
        known=laid.known,
        copies=pricing.times[owner].astype(np.float64),
        rest=np.array([membership.partitions[p].parameter == rest for p in owner]) & (rest is not None),
    )


def cell_name(membership: Membership, cell: int) -> str:
    """What people call a published number: its release, and its group."""
    found: Cell = membership.cells[cell]
    name = membership.partitions[found.partition].name
    return f"{name}: {', '.join(found.key)}" if found.key else name


def _is_turned(partition: Partition, rest: str | None) -> bool:
    return (not partition.above) != (rest is not None and partition.parameter == rest)


def _collapsed(
    table: CellTable, membership: Membership, fewer: bool
) -> tuple[CellTable, NDArray[np.int64], NDArray[np.int64], IndexArray]:
    """Distinct signatures with their counts: as they came, unless partitions were left out."""
    if not fewer:
        return table, membership.counts, membership.known, np.arange(len(table))
    distinct, back = np.unique(table, axis=0, return_inverse=True)
    back = back.ravel()
    counts = np.bincount(back, membership.counts, len(distinct)).astype(np.int64)
    known = np.bincount(back, membership.known, len(distinct)).astype(np.int64)
    return distinct, counts, known, back


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Columns:
    table: CellTable
    counts: NDArray[np.int64]
    known: BoolArray
    signature: IndexArray
    category: IndexArray


def _split(table: CellTable, counts: NDArray[np.int64], known: NDArray[np.int64]) -> _Columns:
    """Rows that the attacker knows and rows that he does not are columns of their own."""
    some, others = np.flatnonzero(known > 0), np.flatnonzero(counts > known)
    signature = np.concatenate([others, some]) if some.size else others
    return _Columns(
        table=table[signature] if some.size else table,
        counts=np.concatenate([(counts - known)[others], known[some]]),
        known=np.repeat([False, True], [others.size, some.size]),
        signature=signature,
        category=np.zeros(signature.size, dtype=np.intp),
    )


def _categories(
    plan: Plan, membership: Membership, order: list[int], pricing: Pricing
) -> tuple[tuple[str, ...], str | None]:
    """The categories with an indicator of their own, and the rest.

    The rest is one that is not published, if any, and else the one that the published numbers say least
    about: the others are told.
    """
    if plan.data.secret_kind is not SecretKind.CATEGORY:
        return (), None
    assert plan.data.categories is not None  # the plan was checked for it
    said = dict.fromkeys(plan.data.categories, 0.0)
    for p in order:
        part, cells = membership.partitions[p], slice(*membership.starts[p : p + 2])
        rows = np.array([cell.rows for cell in membership.cells[cells]], dtype=np.float64)
        scale = pricing.scale[cells] * (rows if part.statistic is Statistic.MEAN else 1.0)
        if part.parameter in said:
            said[str(part.parameter)] += float(pricing.times[p] * np.sum(scale**-2.0))
    rest = min(reversed(plan.data.categories), key=lambda category: said[category])
    return tuple(c for c in plan.data.categories if said[c] > 0 and c != rest), rest


def _indicators(
    columns: _Columns, membership: Membership, order: list[int], own: tuple[str, ...], rest: str | None
) -> _Columns:
    """For a categorical secret, a column for each signature and category."""
    if rest is None:
        return columns
    tables = []
    for category in own:
        seen = [membership.partitions[p].parameter in (category, rest) for p in order]
        tables.append(np.where(seen, columns.table, columns.table.dtype.type(-1)))
    times = len(own)
    return _Columns(
        table=np.concatenate(tables),
        counts=np.tile(columns.counts, times),
        known=np.tile(columns.known, times),
        signature=np.tile(columns.signature, times),
        category=np.repeat(np.arange(times), columns.signature.size),
    )
