"""The audit's lower ends with some of the numbers alone, without its recipes and decisions: a quick audit.

They agree with the audit's up to the rounding that it allows for. They serve a search: what a search finds is
audited.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array, csr_array

from sightline.arrays import FloatArray, IndexArray
from sightline.designing.levels import can_hide
from sightline.designing.risks import inverse_of_sum
from sightline.designing.task import DesignTask
from sightline.labeled.bounds.target import Seen


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartAudit:
    """The rows of a design, from which some are chosen."""

    task: DesignTask
    incidence: csr_array  # rows × columns of unknown records
    counts: FloatArray  # records of each column
    marks: FloatArray  # a random number for each row: equal sums are equal signatures

    @classmethod
    def of(cls, task: DesignTask) -> PartAudit | None:
        """``None`` for persons with several rows and for three categories or more: the audit knows more."""
        linear = task.linear
        if task.several_categories or task.membership.persons is not None:
            return None
        rows = linear.row_count
        return cls(
            task=task,
            incidence=csr_array(task.columns(np.arange(len(linear.units)))),
            counts=linear.units.people.astype(np.float64),
            marks=np.random.default_rng(0).random(rows),
        )

    def least(self, rows: IndexArray, variances: FloatArray) -> float:
        """The least lower end if these rows alone are published, with these variances."""
        return float(np.min(self._seen(rows, variances)[0], initial=1.0))

    def below(self, rows: IndexArray, variances: FloatArray) -> int:
        """How many records these rows may leave less than the limit."""
        lower, _, _ = self._seen(rows, variances)
        _, counts = self._columns(rows)
        return int(counts[lower < self.task.limit].sum())

    def used_by_the_sharpest(self, rows: IndexArray, variances: FloatArray) -> FloatArray:
        """How much the best attack on the record that keeps least uses each of the rows."""
        lower, columns, inverse = self._seen(rows, variances)
        own = columns[:, [int(np.argmin(lower))]].toarray()[:, 0]
        recipe = own / variances if inverse is None else inverse @ own
        found: FloatArray = recipe**2 * variances
        return found

    def _seen(
        self, rows: IndexArray, variances: FloatArray
    ) -> tuple[FloatArray, csc_array, FloatArray | None]:
        """The lower end of each distinct column, the columns, and the inverse of what recipes see."""
        columns, counts = self._columns(rows)
        prior, information = self.task.linear.prior.of_column, columns.T.power(2) @ (1 / variances)
        hidden = precision = inverse = None
        if can_hide(prior):
            precision = prior.precision(information)
            products = ((columns.multiply(counts / precision)) @ columns.T).toarray()
            inverse = inverse_of_sum(products, variances)
            q = np.asarray(columns.T.multiply(columns.T @ inverse).sum(axis=1)).ravel()
            left = 1 - q / precision
            hidden = np.where(left > 0, q / np.where(left > 0, left, 1.0), np.inf)
        seen = Seen(
            information=information,
            linear_information=np.zeros(information.size),
            hidden_information=hidden,
            precision=precision,
            alike=counts,
        )
        return prior.lower(seen), columns, inverse

    def _columns(self, rows: IndexArray) -> tuple[csc_array, FloatArray]:
        """The distinct columns over some rows, and the records of each."""
        part = csr_array(self.incidence[rows])
        marks = part.T @ self.marks[rows]
        touched = np.flatnonzero(marks)
        _, first, place = np.unique(marks[touched], return_index=True, return_inverse=True)
        counts = np.bincount(place.ravel(), self.counts[touched]).astype(np.float64)
        return csc_array(part.tocsc()[:, touched[first]]), counts
