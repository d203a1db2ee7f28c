r"""Who is identifiable (``eq:lever1_ident_cond``): decided exactly for all records in one sweep.

With :math:`M = A A^\top` over the unknown records, a random :math:`u` and any solution of :math:`M h = A u`,
the vector :math:`u - A^\top h` is a random change of the records that changes no release. Record :math:`j` is
identifiable iff such a change never moves it: iff :math:`a_j^\top h = u_j`. The sum over a group is
identifiable iff the change never moves the sum. For integer weights this is decided modulo a prime. Two
random vectors make a wrong yes as unlikely as :math:`2^{-120}` per record; what remains is the chance that
the prime is a bad one (:func:`sightline.numerics.integers.failure_probability` of M, below :math:`10^{-12}`).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.incidence.dense import numbered_columns
from sightline.labeled.incidence.protocol import BoolArray, Incidence
from sightline.labeled.routes.problem import Decisions, Problem, Reading, group_sizes
from sightline.labeled.unknown_gram import RecordsGram, UnknownRecordsGram
from sightline.numerics import residues
from sightline.numerics.decision import Evidence, Rank
from sightline.numerics.residues import Residues

CHECKS = 2  # random vectors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RandomResidues:
    """Random residues u, one for each record, and their sums over rows and groups."""

    drawn: Residues  # u
    limbs: FloatArray  # of A u
    bits: int  # their length
    counts: IndexArray | None  # records of each column, whose u is then the sum of theirs

    def images(self, prime: int) -> Residues:
        """A u, shape (checks, rows)."""
        return residues.join(self.limbs, bits=self.bits, prime=prime)

    def totals(self, group: IndexArray, unknown: BoolArray, prime: int) -> Residues:
        """The sum of u over each group, shape (checks, groups)."""
        if self.counts is not None:
            return self.drawn[:, unknown]
        drawn = residues.limbs(self.drawn[:, unknown], bits=20)
        sums = np.array([[np.bincount(group, weights=check) for check in limb] for limb in drawn])
        return residues.join(sums.astype(np.float64), bits=20, prime=prime)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModularTest:
    """The rank of integer rows, and the exact test for every record."""

    rank: int
    prime: int
    random: RandomResidues
    solved: Residues  # h
    bits: int  # length of the limbs of h

    @property
    def linear(self) -> FloatArray:
        """The limbs of h as linear forms of a record's column."""
        return residues.limbs(self.solved, bits=self.bits).reshape(-1, self.solved.shape[1])

    def decide(self, sums: FloatArray, unknown: BoolArray) -> Decisions:
        """The decisions, from the values of the linear forms at every record."""
        limbs = sums.reshape(-1, CHECKS, sums.shape[1])[:, :, unknown]
        tests = residues.join(limbs, bits=self.bits, prime=self.prime)
        if self.random.counts is None:
            group = numbered_columns(tests)
            sizes, first = group_sizes(group)
        else:
            sizes = self.random.counts[unknown]
            group = first = np.arange(sizes.size)
        expected = self.random.totals(group, unknown, self.prime)
        moved = residues.times(tests[:, first], sizes.astype(np.int64), prime=self.prime)
        return Decisions(
            group=group,
            sizes=sizes,
            first=first,
            identifiable=np.all(moved == expected, axis=0),
            undecided=np.zeros(sizes.size, dtype=np.bool_),
        )


_last: dict[bytes, ModularTest] = {}  # the test that was made last, by the digest of what it depends on


def by_elimination(problem: Problem) -> Reading:
    """The route of all integer rows: every record is tested exactly."""
    problem.progress("deciding exactly", 0.0)
    gram = problem.gram
    test = modular_test(gram)
    rank = Rank(rank=test.rank, evidence=Evidence.MODULAR)
    forms = gram.forms(problem.risks, rank, test.linear)
    quantities, sums = problem.read(forms)
    return Reading(
        rank=rank,
        decisions=test.decide(sums, gram.unknown),
        quantities=quantities,
        share_error=forms.share_error,
    )


def modular_test(gram: UnknownRecordsGram) -> ModularTest:
    """The exact test for all records: one sweep over them, and one elimination of M.

    It depends on the rows and on who is unknown, and not on the noise. So the last one is kept: a design
    audits the same rows with other noise.
    """
    key = _content(gram)
    found = _last.get(key)
    if found is None:
        random = random_residues(gram)
        reduced = residues.reduced(gram.matrix.astype(np.int64), random.images)
        found = ModularTest(
            rank=int(reduced.pivots.size),
            prime=reduced.prime,
            random=random,
            solved=reduced.solved,
            bits=limb_bits(gram.design.incidence),
        )
        for array in (found.solved, random.drawn, random.limbs):
            array.setflags(write=False)
        _last.clear()
        _last[key] = found
    return found


def _content(gram: UnknownRecordsGram) -> bytes:
    """A digest of all that the test depends on."""
    incidence = gram.design.incidence
    digest = hashlib.sha256(incidence.seed())
    counts = np.zeros(0, dtype=np.intp) if incidence.counts is None else incidence.counts
    for array in (counts, gram.unknown, gram.matrix):
        digest.update(repr((array.shape, array.dtype)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def random_residues(gram: RecordsGram) -> RandomResidues:
    """A random residue for every record, and their sums over the rows."""
    incidence = gram.design.incidence
    bits = incidence.key_bits
    drawn = residues.draw_residues(incidence.seed(), count=incidence.records, checks=CHECKS)
    keys = residues.limbs(drawn, bits=bits).reshape(-1, incidence.records)
    limbs = incidence.images(gram.unknown, keys).reshape(-1, CHECKS, incidence.row_count)
    return RandomResidues(drawn=drawn, limbs=limbs, bits=bits, counts=incidence.counts)


def limb_bits(incidence: Incidence) -> int:
    """The longest limbs whose sums over a column are exact."""
    reach = incidence.row_count * float(incidence.peaks.max())
    return min(40, 52 - math.ceil(math.log2(max(2.0, reach))))
