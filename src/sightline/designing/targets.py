r"""Whom the noise must protect: records, and linear features of the rows of persons with several.

With the columns :math:`B = [\sqrt{n_s}\,a_s]` of a person and a unit direction u, :math:`Bu` is the column
of a feature, and :math:`\varphi_u = 1/(u^\top B^\top N B u) - \tau` is the limit on attacks on it:
:math:`N = S^{-1}` and :math:`\tau = 0` if all other persons are known, and
:math:`N = (S + \tau A A^\top)^{-1}` if nobody is. Each
:math:`\varphi_u` is concave in the variances, so their least value is. It is that of the top eigenvector of
:math:`B^\top N B`, which is the lowest one of the posterior block. A direction that is broken at an optimum
becomes a constraint, until none is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.sparse import csc_array, hstack

from sightline.arrays import FloatArray, IndexArray
from sightline.designing.levels import can_hide, most_information
from sightline.designing.task import DesignTask
from sightline.errors import InvalidPlan, require

_BROKEN = 1e-9  # by how much of its level a direction must be broken
_MOST_PAIRS = 2_000_000  # of categories, over the exposed records


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PersonBlocks:
    """The persons with several rows whom the floor does not protect."""

    kind: IndexArray  # their kinds, among those of the findings
    blocks: tuple[csc_array, ...]  # B of each

    def __len__(self) -> int:
        return len(self.blocks)

    def sharpest(self, matrix: FloatArray, chosen: IndexArray) -> tuple[FloatArray, csc_array]:
        """For some persons the largest eigenvalue of BᵀNB, and the column Bu; N may be a diagonal."""
        values, columns = np.zeros(chosen.size), []
        for place, person in enumerate(chosen.tolist()):
            B = self.blocks[person]
            block = B.T @ (B.multiply(matrix[:, None]) if matrix.ndim == 1 else matrix @ B)
            lengths, directions = np.linalg.eigh(block if isinstance(block, np.ndarray) else block.toarray())
            values[place] = lengths[-1]
            columns.append(csc_array(B @ csc_array(directions[:, -1:])))
        empty = csc_array((self.blocks[0].shape[0], 0)) if self.blocks else csc_array((0, 0))
        return values, csc_array(hstack(columns, format="csc")) if columns else empty

    def broken(
        self, matrix: FloatArray, chosen: IndexArray, *, tau: float, needed: float
    ) -> tuple[IndexArray, csc_array]:
        """The persons of some with a direction that is broken, and its column."""
        values, columns = self.sharpest(matrix, chosen)
        worse = np.flatnonzero(1 / values - tau < needed * (1 - _BROKEN))
        return chosen[worse], csc_array(columns[:, worse])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Targets:
    """The records that may keep less than the limit at the floor: a column for each."""

    record: IndexArray  # the column of the findings; -1 - unit for a person with several rows
    columns: csc_array
    known_needed: FloatArray  # 1/g; zero where records alike hide each other whatever the noise
    can_hide: bool  # whether other records hide them, too
    people: PersonBlocks  # persons with several rows; their targets are features of their rows
    person_needed: float  # the least 1/λ of theirs

    def __len__(self) -> int:
        return len(self.record)

    @property
    def rows(self) -> IndexArray:
        """The targets that are columns."""
        return np.flatnonzero(self.record >= 0)

    @property
    def features(self) -> IndexArray:
        """The targets that are features of a person's rows."""
        return np.flatnonzero(self.record < 0)

    def person_of(self, targets: IndexArray) -> IndexArray:
        """The place of the person of some features."""
        order = np.argsort(self.people.kind)
        kind = -1 - self.record[targets]
        found: IndexArray = order[np.searchsorted(self.people.kind[order], kind)]
        return found

    def with_features(self, persons: IndexArray, columns: csc_array) -> Targets:
        """These targets and more features of some persons."""
        return replace(
            self,
            record=np.concatenate([self.record, -1 - self.people.kind[persons]]),
            columns=csc_array(hstack([self.columns, columns], format="csc")),
            known_needed=np.concatenate([self.known_needed, np.full(persons.size, self.person_needed)]),
        )


def targets_of(task: DesignTask) -> Targets:
    """The records that the floor does not protect. More noise never harms the others: bounds are monotone."""
    linear = task.linear
    prior = linear.prior
    broken = (task.findings.lower < task.limit).reshape(-1, linear.columns_of_unit).any(axis=1)
    people = PersonBlocks(kind=np.zeros(0, dtype=np.intp), blocks=())
    several = linear.rows_of_unit > 1
    if several.any() and not task.several_categories:
        chosen = np.flatnonzero(broken & several)
        people = PersonBlocks(kind=chosen, blocks=tuple(task.block(unit) for unit in chosen.tolist()))
        broken &= ~several
    below = np.flatnonzero(broken)
    if task.several_categories:
        below, columns = _pairs(task, below)
    else:
        columns = task.columns(below)
    with np.errstate(divide="ignore"):
        needed = 1 / most_information(prior, task.limit, linear.units.alike[below])
    targets = Targets(
        record=below * linear.columns_of_unit,
        columns=columns,
        known_needed=needed,
        can_hide=not task.several_categories and can_hide(prior.of_column) and below.size + len(people) > 0,
        people=people,
        person_needed=float(1 / most_information(prior, task.limit, np.array([1]))[0]),
    )
    if not len(people):
        return targets
    every = np.arange(len(people))
    floor = row_variances(task, task.floor)
    return targets.with_features(every, people.sharpest(1 / floor, every)[1])


def row_variances(task: DesignTask, stddevs: FloatArray) -> FloatArray:
    """The variances of the problem's rows; of those that stand for levels, 1."""
    own = stddevs[task.linear.cells] ** 2 * task.row_unit
    return np.concatenate([own, np.ones(task.rows - own.size)])


def _pairs(task: DesignTask, below: IndexArray) -> tuple[IndexArray, csc_array]:
    r"""For a category: the numbers about two categories a, b of each record, which must tell little together.

    The audit's lower end is a mean over b of a bound that falls with :math:`I_a + I_b`. It keeps the limit if
    each of them does: a condition that is enough and convex, though not needed.
    """
    linear, membership = task.linear, task.membership
    owner = [membership.cells[cell].partition for cell in linear.cells]
    names = sorted({str(membership.partitions[p].parameter) for p in owner})
    category = np.array([names.index(str(membership.partitions[p].parameter)) for p in owner])
    require(
        below.size * len(names) * (len(names) - 1) // 2 <= _MOST_PAIRS,
        f"at most {_MOST_PAIRS:,} pairs of categories over the exposed records",
        got="more",
        fix="design fewer releases at once",
        error=InvalidPlan,
    )
    columns = task.cells_of(linear.first_signatures(below * linear.columns_of_unit))
    if len(names) == 1:
        return below, columns
    category = np.concatenate([category, np.full(task.rows - category.size, -1)])
    about = [csc_array(columns.multiply((category == one)[:, None])) for one in range(len(names))]
    pairs = [csc_array(about[one] + about[two]) for one, two in combinations(range(len(names)), 2)]
    joined = csc_array(np.concatenate([pair.toarray() for pair in pairs], axis=1))
    kept = np.diff(joined.indptr) > 0
    return np.tile(below, len(pairs))[kept], csc_array(joined[:, np.flatnonzero(kept)])
