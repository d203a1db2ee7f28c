"""Random panels, with the truth about every person by exact rank and dense algebra over single rows."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from flint import fmpz_mat

from sightline.arrays import FloatArray, IndexArray
from sightline.units.design import Design
from sightline.units.row_noise import RowNoise
from sightline.units.target import TargetPrior, UnitPrior
from sightline.units.units import Units


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

    def among(self, person: int) -> float:
        """1 − r/n over the rows that nothing tells apart, of one person and in all: the least.

        A row in no number keeps everything.
        """
        rows = self.rows(person)
        seen = rows[self.members[:, rows].any(axis=0)]
        alike = [np.all(self.members == self.members[:, [row]], axis=0) & ~self.known for row in seen]
        return 1 - max((float(same[rows].sum() / same.sum()) for same in alike), default=0.0)

    def left_by_exact_numbers(self, person: int) -> float:
        """Of rows that are yes or no with even chances: what all numbers without noise leave of the feature
        of a person's rows that is seen best, by listing all worlds.
        """
        unknown, own = np.flatnonzero(~self.known), self.rows(person)
        worlds = np.array(list(itertools.product((-1.0, 1.0), repeat=unknown.size)))
        answers = worlds @ self.members[:, unknown].T
        _, group, size = np.unique(answers, axis=0, return_inverse=True, return_counts=True)
        sums = np.zeros((size.size, own.size))
        np.add.at(sums, group.ravel(), worlds[:, np.searchsorted(unknown, own)])
        of_means = (sums / size[:, None]).T @ sums / len(worlds)
        return 1 - float(np.linalg.eigvalsh(of_means)[-1])

    # ------------------------------------------------------------ what the library is given

    def design(self, prior: TargetPrior) -> tuple[Design, list[int]]:
        """A design over kinds of persons, and one person of each kind."""
        _, column = np.unique(self.members, axis=1, return_inverse=True)
        distinct = np.unique(self.members, axis=1)
        column = column.ravel()
        kinds: dict[tuple[tuple[int, int], ...], list[int]] = {}
        for person in self.persons:
            columns, rows = np.unique(column[self.rows(person)], return_counts=True)
            kinds.setdefault(tuple(zip(columns.tolist(), rows.tolist(), strict=True)), []).append(person)
        entries = [entry for kind in kinds for entry in kind]
        numbers, width = len(self.members), max(1, int(distinct.sum(axis=0).max()))
        rows = np.full((len(entries), width), numbers, dtype=np.int32)
        for line, (own, _) in enumerate(entries):
            members = np.flatnonzero(distinct[:, own])
            rows[line, : members.size] = members
        ones = np.ones(numbers)
        design = Design(
            units=Units(
                rows=rows,
                numbers=numbers,
                starts=np.cumsum([0, *map(len, kinds)]),
                times=np.array([times for _, times in entries]),
                people=np.array([len(persons) for persons in kinds.values()]),
            ),
            noise=RowNoise.of(self.stddevs, self.stddevs, 0 * ones, ones),
            prior=UnitPrior(target=prior),
            release=np.arange(numbers),
            place=np.arange(len(kinds)),
        )
        return design, [persons[0] for persons in kinds.values()]


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
