r"""The products of rows over the unknown records as a sparse matrix, and what a sparse factor says of them.

It is what :class:`~sightline.labeled.unknown_gram.UnknownRecordsGram` holds densely.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.description import LinearReleases
from sightline.labeled.incidence.pairs import RowPairs
from sightline.labeled.incidence.protocol import BoolArray, Incidence
from sightline.labeled.incidence.sparse import SparseIncidence
from sightline.labeled.risk_forms import Quantity, Risks
from sightline.labeled.routes.cost import SparsePattern
from sightline.numerics.selected_inverse import SelectedInverse, selected_inverse
from sightline.numerics.sparse_cholesky import SparseCholesky, factorise
from sightline.numerics.sparse_symbolic import SymbolicFactor

_UNIT = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True, eq=False)
class SparseGram:
    """A design with independent noise, the records that are unknown, and the pattern of the factors."""

    design: LinearReleases
    unknown: BoolArray
    pairs: RowPairs
    symbolic: SymbolicFactor
    removed: BoolArray | None = None  # rows that are not published: they count as rows without members

    @classmethod
    def of(cls, design: LinearReleases, unknown: BoolArray, pattern: SparsePattern) -> SparseGram:
        """The products of a design whose pattern is known."""
        return cls(design=design, unknown=unknown, pairs=pattern.pairs, symbolic=pattern.symbolic)

    @property
    def whitening(self) -> FloatArray:
        """What multiplies the incidence's rows."""
        return self.design.whitening

    @property
    def whitening_error(self) -> float:
        """A bound on the relative error of whitened lengths."""
        return 4 * _UNIT

    @cached_property
    def products(self) -> FloatArray:
        """The products of rows at the pairs: exact integers."""
        products = self.pairs.products(self.unknown.astype(np.float64))
        if self.removed is not None:
            products[self.removed[self.pairs.first] | self.removed[self.pairs.second]] = 0.0
        return products

    def without(self, removed: BoolArray) -> SparseGram:
        """The same if some rows are not published."""
        found = replace(self, removed=removed)
        left = ~(removed[self.pairs.first] | removed[self.pairs.second])
        found.__dict__["products"] = np.where(left, self.products, 0.0)  # as the property would, at once
        return found

    @property
    def nested_pairs(self) -> tuple[IndexArray, IndexArray]:
        """Pairs of a larger row and one whose unknown records are all in it."""
        first, second = self.pairs.first, self.pairs.second
        sizes = self.products[: self.design.row_count]
        inside = [
            (self.products == sizes[small]) & (sizes[large] > sizes[small]) & (sizes[small] > 0)
            for large, small in ((first, second), (second, first))
        ]
        return (
            np.concatenate([first[inside[0]], second[inside[1]]]),
            np.concatenate([second[inside[0]], first[inside[1]]]),
        )

    @property
    def signal(self) -> float:
        """The largest length of a row over its noise."""
        rows = self.design.row_count
        return float(np.max(np.abs(self.whitening) * np.sqrt(self.products[:rows])))

    @property
    def joined_rows(self) -> tuple[IndexArray, IndexArray]:
        """The pairs of rows that have an unknown record in common, each once."""
        used = self.products != 0
        return self.pairs.first[used], self.pairs.second[used]

    @cached_property
    def matrix(self) -> Any:
        """The products as a sparse matrix of 64-bit integers."""
        size = self.design.row_count
        off = slice(size, None)
        first, second = self.pairs.first, self.pairs.second
        values = self.products.astype(np.int64)
        rows = np.concatenate([first, second[off]])
        columns = np.concatenate([second, first[off]])
        whole = np.concatenate([values, values[off]])
        used = whole != 0
        return sparse.csr_array((whole[used], (rows[used], columns[used])), shape=(size, size))

    def factor(self, nested: IndexArray) -> SparseCholesky:
        """A factor of the products over rows that are independent, as far as floating point can tell.

        ``nested`` rows are sums of others, and are dropped at once.
        """
        if not nested.size:
            return factorise(self.symbolic, self.products)
        kept = np.ones(self.design.row_count)
        kept[nested] = 0.0
        return factorise(self.symbolic, self.products * kept[self.pairs.first] * kept[self.pairs.second])

    def inverse(self, factor: SparseCholesky) -> SelectedInverse:
        """The inverse of the products over these rows, at the pairs."""
        return selected_inverse(factor, self.pairs.entries)

    def whitened_inverse(self, products: FloatArray) -> SelectedInverse:
        r""":math:`W (I + W P W)^{-1} W` at the pairs, with the whitening W and products P."""
        size = self.design.row_count
        both = self.whitening[self.pairs.first] * self.whitening[self.pairs.second]
        seen = both * products
        seen[:size] += 1.0
        # No pivot of a matrix that is at least the identity vanishes.
        factor = factorise(self.symbolic, seen, vanishing=0.0)
        inverse = selected_inverse(factor, self.pairs.entries, least=np.ones(size))
        return SelectedInverse(
            values=inverse.values * both, trace=inverse.trace, relative_error=inverse.relative_error
        )

    def forms(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""For each row of values of a Y at the pairs :math:`a_j^\top Y a_j`, and bounds on its roundings."""
        found = self.pairs.forms(values)
        most = self.most_rows
        # |Y_ab| is at most the root of Y_aa Y_bb, so the terms sum to at most this many times the diagonal's.
        sizes = np.max(np.abs(self.pairs.diagonal_forms(values)), axis=1, initial=0.0)
        return found, (most**2 + 8) * most * _UNIT * sizes

    @cached_property
    def most_rows(self) -> int:
        """The most rows that a record is in."""
        incidence = self.design.incidence
        if isinstance(incidence, SparseIncidence):
            return int(np.max(np.diff(incidence.stored.indptr), initial=0))
        return int(self.pairs.incidence.widths.size)  # type: ignore[union-attr]

    def information(self) -> FloatArray:
        """:math:`G_{jj}` of every record, known or not."""
        information: FloatArray = self.pairs.diagonal_forms(self.whitening[None] ** 2)[0]
        return information

    def risks(self, risks: Risks) -> tuple[dict[Quantity, FloatArray], float]:
        """The risks of every unknown record as shares, and a bound on their errors."""
        shares: dict[Quantity, FloatArray] = {}
        worst = 0.0
        for name, risk in risks.items():
            inverse = self.whitened_inverse(self.products / risk.precision)
            values, roundings = self.forms(inverse.values[None] / risk.precision)
            unit = risk.unit / risk.precision
            shares[name] = unit * (1 - values[0][self.unknown])
            worst = max(worst, unit * (inverse.relative_error + float(roundings[0]) + 4 * _UNIT))
        return shares, worst


def sparse_columns(incidence: Incidence, records: IndexArray) -> Any:
    """Some records' columns of weights as a sparse array of 64-bit integers."""
    if isinstance(incidence, SparseIncidence):
        return sparse.csc_array(incidence.stored[:, records]).astype(np.int64)
    rows, columns = [], []
    for first, own in zip(incidence.starts, incidence.table, strict=True):  # type: ignore[attr-defined]
        cells = own[records]
        inside = np.flatnonzero(cells >= 0)
        rows.append(first + cells[inside])
        columns.append(inside)
    row, column = np.concatenate(rows), np.concatenate(columns)
    shape = (incidence.row_count, len(records))
    return sparse.csc_array((np.ones(row.size, dtype=np.int64), (row, column)), shape=shape)
