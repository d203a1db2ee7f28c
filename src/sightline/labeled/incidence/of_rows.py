"""Rows as a user gives them, read as an incidence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sightline.arrays import IndexArray, frozen_index, is_array, to_numpy
from sightline.errors import InvalidRelease, require
from sightline.labeled.incidence.dense import DenseIncidence
from sightline.labeled.incidence.protocol import Incidence
from sightline.labeled.incidence.sparse import SparseIncidence
from sightline.numerics.device import Device

RowsLike: TypeAlias = "ArrayLike | sparse.sparray | sparse.spmatrix | Iterable[Iterable[int]]"


def as_incidence(rows: RowsLike | Incidence, *, records: int | None = None) -> Incidence:
    """Rows as a 0/1 or weighted table, a scipy sparse array, or, with ``records``, lists of members.

    A table that lies on an accelerator stays there.
    """
    if isinstance(rows, Incidence):
        return rows
    if sparse.issparse(rows):
        incidence: Incidence = SparseIncidence.of(rows)
    elif is_array(rows) and not isinstance(rows, np.ndarray):
        incidence = DenseIncidence.of(to_numpy(rows)).on(Device.of(rows))
    elif records is None or isinstance(rows, np.ndarray):
        incidence = DenseIncidence.of(rows)  # type: ignore[arg-type]
    else:
        return SparseIncidence.of(_from_members(rows, records))  # type: ignore[arg-type]
    require(
        records is None or records == incidence.records,
        f"{incidence.records} records, one a column",
        got=f"records={records}",
        error=InvalidRelease,
    )
    return incidence


def _from_members(rows: Iterable[Iterable[int]], records: int) -> sparse.csr_array:
    lists = [_members(row) for row in rows]
    require(len(lists) > 0, "at least one release", got="L = 0", error=InvalidRelease)
    beyond = next((i for i, row in enumerate(lists) if row.size and row[-1] >= records), None)
    require(
        beyond is None,
        f"members below {records}",
        got=f"{'' if beyond is None else int(lists[beyond][-1])} in row {beyond}",
        error=InvalidRelease,
    )
    indptr = np.concatenate([[0], np.cumsum([row.size for row in lists])])
    return sparse.csr_array((np.ones(indptr[-1]), np.concatenate(lists), indptr), shape=(len(lists), records))


def _members(row: Iterable[int]) -> IndexArray:
    members = row if isinstance(row, np.ndarray) else list(row)
    return frozen_index(members, error=InvalidRelease) if len(members) else np.zeros(0, dtype=np.intp)
