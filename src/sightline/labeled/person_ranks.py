r"""How many linear features of each person are identifiable: decided exactly, for all persons together.

The number is :math:`\operatorname{rank}(A) - \operatorname{rank}(A\text{ without their columns})`. With
:math:`M = A A^\top`, random :math:`u` and any solution of :math:`M h = A u`, the vector :math:`u - A^\top h`
is a random change of the rows that changes no release. Some of these, cut to a person's :math:`d` columns,
span the changes of their rows that nothing published sees: the number is d less the rank of that table. The
person's total is identifiable iff no such change moves it. Both are decided modulo a prime. A random change
that is not general enough can only raise the number: it can raise an alarm, and cannot hide anyone. What
remains is the chance of a bad prime, as in :mod:`sightline.labeled.routes.exact`.

A person who shares a column with another person's rows has no identifiable feature in that column: two rows
with the same signature trade values unseen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidRelease, require
from sightline.labeled.column_forms import MatrixForms, ProjectedForms
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.person_kinds import PersonKinds
from sightline.labeled.routes.exact import limb_bits
from sightline.labeled.unknown_gram import RecordsGram, UnknownRecordsGram
from sightline.numerics import integers as exact
from sightline.numerics import residues
from sightline.numerics.decision import Evidence, Rank
from sightline.numerics.residues import Residues
from sightline.progress import silent

_TOGETHER = 4  # random changes that are in memory at a time
_SPARE = 2  # random changes beyond the number of columns
_MOST_WORK, _MOST_KEPT = 4e9, 1e8  # random changes × columns of the design, and × columns of candidates
# Up to this many entries × changes every person is decided exactly, without looking at leverages first.
_FEW = 20_000
# A block with an identifiable feature has a leverage of at least 1. Floating point must not be this far off.
_LEVERAGE, _ACCURATE = 0.9, 0.01


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PersonRanks:
    """The exact decisions: arrays over the kinds."""

    rank: int  # of the whole design
    directions: IndexArray
    total: BoolArray  # whether a person's total is identifiable


def person_ranks(gram: UnknownRecordsGram, kinds: PersonKinds, rank: int | None = None) -> PersonRanks:
    """The identifiable directions of every kind, and whether the total is one of them.

    ``rank`` is that of the whole design, if it has been decided.
    """
    incidence = gram.design.incidence
    require(
        incidence.whole,
        "whole-number weights for persons with several rows",
        got="real-valued or very large ones",
        error=InvalidRelease,
    )
    if rank is None:
        rank = exact.rank(gram.matrix.astype(np.int64))
    own = own_entries(gram, kinds)
    sizes = np.add.reduceat(own.astype(np.intp), kinds.starts[:-1])
    directions, total = np.zeros(len(kinds), dtype=np.intp), np.zeros(len(kinds), dtype=np.bool_)
    candidates = np.flatnonzero(sizes)
    changes = int(sizes.max(initial=0)) + _SPARE
    if candidates.size and int(sizes.sum()) * changes > _FEW:
        candidates = candidates[_leverages(gram, kinds, own, rank)[candidates] > _LEVERAGE]
    if not candidates.size:
        return PersonRanks(rank=rank, directions=directions, total=total)
    changes = int(sizes[candidates].max()) + _SPARE
    chosen = np.zeros(len(kinds), dtype=np.bool_)
    chosen[candidates] = True
    entries = np.flatnonzero(own & chosen[kinds.kind_of])
    work, kept = float(changes) * incidence.records, float(changes) * entries.size
    require(
        work <= _MOST_WORK and kept <= _MOST_KEPT,
        f"persons with rows in fewer groups: {_MOST_WORK:.0e} and {_MOST_KEPT:.0e} numbers at most",
        got=f"{work:.1e} and {kept:.1e}, one person with {changes - _SPARE:,} groups of their own",
        fix="publish coarser groups, or audit fewer releases at once",
        error=InvalidRelease,
    )
    table, prime = _random_changes(gram, kinds.columns[entries], kinds.rows[entries], changes)
    place = np.full(kinds.columns.size, -1, dtype=np.intp)
    place[entries] = np.arange(entries.size)
    for size in np.unique(sizes[candidates]).tolist():
        alike = candidates[sizes[candidates] == size]
        members = np.flatnonzero(own & np.isin(kinds.kind_of, alike)).reshape(alike.size, size)
        cut = table[:, place[members]].transpose(1, 2, 0)  # kinds × columns × changes
        directions[alike] = size - modular_ranks(cut[:, :, : size + _SPARE], prime)
        moved = np.zeros((alike.size, _SPARE), dtype=np.int64)
        for column in range(size):
            moved = np.mod(moved + cut[:, column, :_SPARE], prime)
        total[alike] = np.all(moved == 0, axis=1) & (size == kinds.sizes[alike])
    return PersonRanks(rank=rank, directions=directions, total=total)


def own_entries(gram: RecordsGram, kinds: PersonKinds) -> BoolArray:
    """Entries that hold all rows of their column."""
    counts = gram.design.incidence.counts
    if counts is None:
        return np.ones(kinds.columns.size, dtype=np.bool_)
    own: BoolArray = (kinds.rows == counts[kinds.columns]) & (kinds.persons[kinds.kind_of] == 1)
    return own


def modular_ranks(tables: Residues, prime: int) -> IndexArray:
    """The ranks of many tables modulo a prime, by elimination without division.

    >>> modular_ranks(np.array([[[1, 2], [2, 4]], [[1, 2], [2, 5]]]), 2**61 - 1).tolist()
    [1, 2]
    """
    left = tables.copy()
    count, lines, width = left.shape
    ranks = np.zeros(count, dtype=np.intp)
    every = np.arange(count)
    for column in range(width):
        # The first line not used yet with an entry in this column becomes the next pivot.
        free = (left[:, :, column] != 0) & (np.arange(lines) >= ranks[:, None])
        found = free.any(axis=1)
        if not found.any():
            continue
        here, line, next_line = every[found], np.argmax(free, axis=1)[found], ranks[found]
        pivot = left[here, line]
        left[here, line] = left[here, next_line]
        left[here, next_line] = pivot
        for below in range(1, lines):
            active = here[below > next_line]
            if not active.size:
                continue
            lead = left[active, ranks[active]]
            old = left[active, below]
            kept = residues.times(old, np.broadcast_to(lead[:, column : column + 1], old.shape), prime=prime)
            gone = residues.times(lead, np.broadcast_to(old[:, column : column + 1], old.shape), prime=prime)
            left[active, below] = np.mod(kept - gone, prime)
        ranks[here] += 1
    return ranks


def _random_changes(
    gram: UnknownRecordsGram, columns: IndexArray, rows: IndexArray, changes: int
) -> tuple[Residues, int]:
    """Random changes of the sums over some columns that change no release: changes × columns."""
    incidence = gram.design.incidence
    bits, matrix = incidence.key_bits, gram.matrix.astype(np.int64)
    seed, images = incidence.seed(), []

    def drawn(start: int) -> Residues:
        own = seed + f"persons {start}".encode()
        return residues.draw_residues(own, count=incidence.records, checks=min(_TOGETHER, changes - start))

    for start in range(0, changes, _TOGETHER):
        keys = residues.limbs(drawn(start), bits=bits)
        limbs = incidence.images(gram.unknown, keys.reshape(-1, incidence.records))
        images.append(limbs.reshape(len(keys), -1, incidence.row_count))
    system = residues.reduced(
        matrix, lambda prime: np.vstack([residues.join(limbs, bits=bits, prime=prime) for limbs in images])
    )
    prime, short = system.prime, limb_bits(incidence)
    found = np.zeros((changes, columns.size), dtype=np.int64)
    for start in range(0, changes, _TOGETHER):
        solved = residues.limbs(system.solved[start : start + _TOGETHER], bits=short)
        forms = ProjectedForms(
            projection=np.zeros((0, incidence.row_count)),
            weights=np.zeros((0, 0)),
            offsets=np.zeros(0),
            linear=solved.reshape(-1, incidence.row_count),
        )
        sums = incidence.forms(forms, gram.unknown, silent)[:, columns].reshape(len(solved), -1, columns.size)
        seen = residues.join(sums, bits=short, prime=prime)
        seen = residues.times(seen, np.broadcast_to(rows.astype(np.int64), seen.shape), prime=prime)
        found[start : start + _TOGETHER] = np.mod(drawn(start)[:, columns] - seen, prime)
    return found, prime


def _leverages(gram: UnknownRecordsGram, kinds: PersonKinds, own: BoolArray, rank: int) -> FloatArray:
    """For every kind the trace of its leverage over own columns; infinite where it is not accurate."""
    factor = gram.factor(Rank(rank=rank, evidence=Evidence.MODULAR))
    if factor.coordinate_error * np.sqrt(rank) > _ACCURATE:
        return np.full(len(kinds), np.inf)
    coordinates = factor.coordinates()
    forms = MatrixForms(
        symmetric=(coordinates.T @ coordinates,),
        offsets=np.zeros(1),
        linear=np.zeros((0, gram.design.row_count)),
    )
    leverage = gram.design.incidence.forms(forms, gram.unknown, silent)[0]
    return kinds.sums(np.where(own, kinds.rows * leverage[kinds.columns], 0.0))
