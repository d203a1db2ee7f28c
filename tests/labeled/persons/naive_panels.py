"""Random panels, with the truth about every person by exact rank and dense algebra over single rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import fmpz_mat
from scipy.linalg import block_diag

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.description import Readout
from sightline.labeled.design import MembershipDesign
from sightline.labeled.incidence.cells import incidence_of_cells
from sightline.labeled.person_kinds import PersonKinds


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Members of every number (numbers × rows of the table), whose row it is, and which rows are known."""

    members: IndexArray
    person: IndexArray
    known: np.ndarray
    stddevs: FloatArray

    @property
    def persons(self) -> list[int]:
        """Persons with an unknown row."""
        return sorted(set(self.person[~self.known].tolist()))

    def rows(self, person: int) -> IndexArray:
        return np.flatnonzero((self.person == person) & ~self.known)

    # ------------------------------------------------------------ the truth

    def directions(self, person: int) -> int:
        """rank(A) − rank(A without their columns), over the rationals."""
        unknown = np.flatnonzero(~self.known)
        others = np.setdiff1d(unknown, self.rows(person))
        return exact_rank(self.members[:, unknown]) - exact_rank(self.members[:, others])

    def total_identifiable(self, person: int) -> bool:
        unknown = np.flatnonzero(~self.known)
        functional = np.isin(unknown, self.rows(person)).astype(np.int64)
        table = self.members[:, unknown]
        return exact_rank(np.vstack([table, functional])) == exact_rank(table)

    def information(self) -> FloatArray:
        whitened = self.members[:, ~self.known] / self.stddevs[:, None]
        return whitened.T @ whitened

    def block(self, matrix: FloatArray, person: int) -> FloatArray:
        unknown = np.flatnonzero(~self.known)
        own = np.searchsorted(unknown, self.rows(person))
        return matrix[np.ix_(own, own)]

    # ------------------------------------------------------------ what the library is given

    def by_signature(self) -> tuple[MembershipDesign, PersonKinds, list[int], IndexArray]:
        """A design with a column for each signature; its kinds, one person of each, and known columns."""
        labels = np.vstack([self.members, self.known]).T
        distinct, column = np.unique(labels, axis=0, return_inverse=True)
        column = column.ravel()
        cells = np.where(distinct[:, :-1] > 0, 0, -1).astype(np.int16)
        design = MembershipDesign(
            incidence_of_cells(cells, cells=np.ones(len(self.members), int), counts=np.bincount(column)),
            noise=self.stddevs,
            readout=Readout.SUM,
        )
        kinds, examples = kinds_of(column, self)
        return design, kinds, examples, np.flatnonzero(distinct[:, -1])

    def row_by_row(self) -> tuple[MembershipDesign, PersonKinds, list[int], IndexArray]:
        """A design with a column for each row of the table."""
        design = MembershipDesign(self.members.astype(float), noise=self.stddevs, readout=Readout.SUM)
        kinds, examples = kinds_of(np.arange(self.person.size), self)
        return design, kinds, examples, np.flatnonzero(self.known)


def union(panels: Sequence[Panel]) -> Panel:
    """One panel of several that share no row, number or person; person p of panel i becomes 100 i + p."""
    return Panel(
        members=block_diag(*(panel.members for panel in panels)),
        person=np.concatenate([100 * i + panel.person for i, panel in enumerate(panels)]),
        known=np.concatenate([panel.known for panel in panels]),
        stddevs=np.concatenate([panel.stddevs for panel in panels]),
    )


def kinds_of(column: IndexArray, panel: Panel) -> tuple[PersonKinds, list[int]]:
    found: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for person in panel.persons:
        columns, rows = np.unique(column[panel.rows(person)], return_counts=True)
        found.setdefault(tuple(zip(columns.tolist(), rows.tolist(), strict=True)), []).append(person)
    entries = [entry for kind in found for entry in kind]
    kinds = PersonKinds(
        starts=np.cumsum([0, *map(len, found)]),
        columns=np.array([column for column, _ in entries]),
        rows=np.array([rows for _, rows in entries]),
        persons=np.array([len(members) for members in found.values()]),
    )
    return kinds, [members[0] for members in found.values()]


def exact_rank(table: IndexArray) -> int:
    if table.size == 0:
        return 0
    return int(fmpz_mat(table.astype(int).tolist()).rank())


def random_panel(generator: np.random.Generator) -> Panel:
    """Few numbers over few rows: sets drawn at random, whole persons, single rows, differences."""
    rows = int(generator.integers(3, 12))
    person = generator.integers(0, int(generator.integers(1, 6)), rows)
    numbers: list[list[int]] = []
    for _ in range(int(generator.integers(1, 7))):
        match int(generator.integers(4)):
            case 0:
                line = generator.random(rows) < generator.uniform(0.1, 0.9)
            case 1:
                line = np.isin(person, generator.choice(person, int(generator.integers(1, 3))))
            case 2:
                line = np.zeros(rows, dtype=bool)
                line[generator.integers(rows)] = True
            case _:
                line = np.array(numbers[-1]) > 0 if numbers else np.ones(rows, dtype=bool)
                line[generator.integers(rows)] ^= True
        if not line.any():
            line[generator.integers(rows)] = True
        numbers.append(line.astype(np.int64).tolist())
    known = generator.random(rows) < generator.choice([0.0, 0.2])
    if known.all():
        known[0] = False
    return Panel(
        members=np.array(numbers),
        person=person,
        known=known,
        stddevs=10.0 ** generator.uniform(-2, 1, len(numbers)),
    )
