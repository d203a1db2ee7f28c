r"""Who is identifiable: decided for all records in one sweep, before any noise.

With :math:`M = A A^\top` over the unknown records, a random :math:`u` and any solution of
:math:`M h = A u`, the vector :math:`u - A^\top h` is a random change of the records that no release
sees. Record :math:`j` is identifiable iff such a change never moves it: iff :math:`a_j^\top h = u_j`. The
sum over a group is identifiable iff the change never moves the sum. For integer weights all this holds
modulo a prime, where it is decided; two random vectors make a wrong yes as unlikely as
:math:`2^{-120}` per record, and what remains is the chance that the prime is a bad one
(:func:`sightline.numerics.integers.failure_probability` of M, below :math:`10^{-12}`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.incidence.dense import kinds_of
from sightline.labeled.incidence.protocol import BoolArray, Pattern
from sightline.numerics import residues
from sightline.numerics.decision import Rank
from sightline.numerics.rank import missing, present
from sightline.numerics.residues import Residues
from sightline.progress import Progress

_CHECKS = 2
_MERSENNE = (1 << 61) - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decided:
    """The unknown records by signature, and which sums over a signature are identifiable."""

    kinds: IndexArray  # over the unknown records: the group of each
    sizes: IndexArray  # over the groups
    first: IndexArray  # one unknown record of each group, as a position among the unknown
    identifiable: BoolArray  # over the groups
    undecided: BoolArray  # over the groups


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Marks:
    """Random residues u, one for each record, and their sums over rows and groups."""

    drawn: Residues  # u
    limbs: FloatArray  # of A u
    bits: int  # their length
    counts: IndexArray | None  # records of each column, whose u is then the sum of theirs

    def images(self, prime: int) -> Residues:
        """A u, shape (checks, rows)."""
        return residues.join(self.limbs, bits=self.bits, prime=prime)

    def totals(self, kinds: IndexArray, unknown: BoolArray, prime: int) -> Residues:
        """The sum of u over each group, shape (checks, groups)."""
        if self.counts is not None:
            return self.drawn[:, unknown]
        drawn = residues.limbs(self.drawn[:, unknown], bits=20)
        sums = np.array([[np.bincount(kinds, weights=line) for line in limb] for limb in drawn])
        return residues.join(sums.astype(np.float64), bits=20, prime=prime)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Survey:
    """Integer rows: their rank and the exact test for every record."""

    rank: int
    prime: int
    marks: Marks
    solved: Residues  # h
    bits: int  # length of the limbs of h

    @property
    def linear(self) -> FloatArray:
        """The limbs of h as linear forms of a record's column."""
        return residues.limbs(self.solved, bits=self.bits).reshape(-1, self.solved.shape[1])

    def decide(self, sums: FloatArray, unknown: BoolArray) -> Decided:
        """The decisions, from the values of the linear forms at every record."""
        limbs = sums.reshape(-1, _CHECKS, sums.shape[1])[:, :, unknown]
        tests = residues.join(limbs, bits=self.bits, prime=self.prime)
        if self.marks.counts is None:
            kinds = kinds_of(tests)
            sizes, first = _counted(kinds)
        else:
            sizes = self.marks.counts[unknown]
            kinds = first = np.arange(sizes.size)
        expected = self.marks.totals(kinds, unknown, self.prime)
        found = residues.times(tests[:, first], sizes.astype(np.int64), prime=self.prime)
        return Decided(
            kinds=kinds,
            sizes=sizes,
            first=first,
            identifiable=np.all(found == expected, axis=0),
            undecided=np.zeros(sizes.size, dtype=np.bool_),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """A first sweep over integer rows: their products."""

    pattern: Pattern
    unknown: BoolArray
    products: FloatArray

    @property
    def bits(self) -> int:
        """The longest limbs whose sums over a column are exact."""
        reach = self.pattern.lines * float(self.pattern.peaks.max())
        return min(40, 52 - math.ceil(math.log2(max(2.0, reach))))

    def solve(self) -> Survey:
        """The exact test for all records: a second sweep, and one elimination in the size of the releases."""
        marks = self.marks()
        reduced = residues.reduced(self.products.astype(np.int64), marks.images)
        return Survey(
            rank=int(reduced.pivots.size),
            prime=reduced.prime,
            marks=marks,
            solved=reduced.solved,
            bits=self.bits,
        )

    def marks(self) -> Marks:
        """Mark every record: a second sweep."""
        pattern, bits = self.pattern, self.pattern.key_bits
        drawn = residues.draw_residues(pattern.seed(), count=pattern.records, checks=_CHECKS)
        keys = residues.limbs(drawn, bits=bits).reshape(-1, pattern.records)
        limbs = pattern.images(self.unknown, keys).reshape(-1, _CHECKS, pattern.lines)
        return Marks(drawn=drawn, limbs=limbs, bits=bits, counts=pattern.counts)

    def keys(self) -> FloatArray:
        """Limbs of random residues as linear forms: equal columns have equal values, others do not."""
        lines = self.pattern.lines
        drawn = residues.draw_residues(b"rows" + self.pattern.seed(), count=lines, checks=_CHECKS)
        return residues.limbs(drawn, bits=self.bits).reshape(-1, lines)

    def confirm(self, sums: FloatArray, leverage: FloatArray) -> Decided:
        """Decisions where a factorisation has proved the rows independent.

        A group is identifiable iff its leverages sum to one, exactly. All the leverages sum to the rank, so
        that few groups come near, and only these are worth an elimination.
        """
        limbs = sums.reshape(-1, _CHECKS, sums.shape[1])[:, :, self.unknown]
        kinds = kinds_of(residues.join(limbs, bits=self.bits, prime=_MERSENNE))
        sizes, first = _counted(kinds)
        identifiable = np.zeros(sizes.size, dtype=np.bool_)
        near = np.flatnonzero(sizes * leverage[first] > 1 / 2)
        if near.size:
            columns = self.pattern.columns(np.flatnonzero(self.unknown)[first[near]])
            whole = columns.T.astype(np.int64)
            found = residues.reduced(self.products.astype(np.int64), lambda prime: np.mod(whole, prime))
            parts = residues.limbs(found.solved, bits=self.bits) * columns.T
            exactly = residues.join(parts.sum(axis=-1), bits=self.bits, prime=found.prime)
            sums_to = residues.times(exactly, sizes[near].astype(np.int64), prime=found.prime)
            identifiable[near] = sums_to == 1
        return Decided(
            kinds=kinds,
            sizes=sizes,
            first=first,
            identifiable=identifiable,
            undecided=np.zeros(sizes.size, dtype=np.bool_),
        )


def sweep(pattern: Pattern, unknown: BoolArray, progress: Progress) -> Sweep:
    """Sweep once over integer rows."""
    return Sweep(pattern=pattern, unknown=unknown, products=pattern.gram(unknown, progress))


def decide_by_leverage(leverage: FloatArray, kinds: IndexArray, rank: Rank, *, lines: int) -> Decided:
    """Decisions for real-valued weights: identifiable iff the group's leverages sum to one.

    Within rounding of one is a yes, clearly below it is a no, and between them nobody can tell.
    """
    sizes, first = _counted(kinds)
    deficit = 1 - sizes * leverage[first]
    kept = max(rank.smallest_kept, np.finfo(np.float64).tiny)
    identifiable = deficit <= missing(lines) / kept
    undecided = ~identifiable & (deficit < present(lines) / kept)
    if not rank.decided:
        undecided = leverage[first] > 0
    return Decided(
        kinds=kinds,
        sizes=sizes,
        first=first,
        identifiable=identifiable & ~undecided,
        undecided=undecided,
    )


def _counted(kinds: IndexArray) -> tuple[IndexArray, IndexArray]:
    sizes = np.bincount(kinds)
    first = np.full(sizes.size, kinds.size, dtype=np.intp)
    np.minimum.at(first, kinds, np.arange(kinds.size))
    return sizes, first
