"""Which part of a target the rows reveal if everything else is nuisance, and the evidence for it.

A combination of the target is revealed if the profiled information (``eq:Ieff_def``) is positive along it.
The steps: try to prove that all columns are independent; otherwise decide exactly over the integers, or by a
gap in the singular values where the rows are real-valued; then project the target off independent nuisance
columns. The rows before whitening decide identifiability; the whitened rows give the precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from sightline.arrays import AT_A_TIME, FloatArray, IndexArray
from sightline.numerics import integers as exact
from sightline.numerics.integers import reduced_rows
from sightline.numerics.rank import (
    Decision,
    Evidence,
    Rank,
    balance,
    independent_columns,
    missing,
    numerical_rank,
    present,
    proves_independent,
)
from sightline.theory.geometry.frame import Frame, WhitenedRows, dense
from sightline.theory.geometry.projection import Projection, project

# Coefficients of a combination of the target's coordinates: fractions are exact, floats are rounded.
Combination = tuple[Fraction | float, ...]

# The most entries of the rational matrix that gives exact coefficients.
_MOST_EXACT = 10_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """A target and the rows of a transcript, in the layouts that the steps need."""

    frame: Frame
    rows: WhitenedRows

    @cached_property
    def whitened_columns(self) -> tuple[FloatArray, FloatArray]:
        """Whitened nuisance and target, for the precision."""
        return self.frame.nuisance(self.rows.whitened), self.frame.target(self.rows.whitened)

    @cached_property
    def balanced_columns(self) -> tuple[FloatArray, FloatArray]:
        """Nuisance and target before whitening, balanced to about unit length, for the rank."""
        used = np.concatenate([self.frame.representatives, self.frame.support])
        rows, factors = balance(dense(self.rows.jacobian[:, used]))
        frame = self.frame.compact().rescaled(factors)
        nuisance = frame.nuisance(rows)
        lengths = frame.lengths(rows)
        lengths[lengths == 0] = 1.0
        width = nuisance.shape[1]
        return nuisance / lengths[:width], frame.target(rows) / lengths[width:]

    @cached_property
    def whole(self) -> bool:
        """Whether whole numbers decide."""
        return self.rows.integer_rows is not None and self.frame.whole


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """The combinations of a target that the rows reveal, and how precisely."""

    nuisance: Rank
    basis: IndexArray  # independent nuisance columns
    decision: Decision  # is all of the target identifiable?
    evidence: Evidence
    combinations: tuple[Combination, ...]  # identifiable combinations of the target's coordinates
    projection: Projection


def profile(question: Question) -> Profile:
    """Profile the nuisance out of a target."""
    well_posed = _proved_independent(question)
    if well_posed is not None:
        return well_posed
    return _profile_integer(question) if question.whole else _profile_real(question)


def _proved_independent(question: Question) -> Profile | None:
    """The well-posed case, from one factorisation: independent columns reveal the whole target."""
    nuisance, target = question.whitened_columns
    lines, width = target.shape
    nuisances = nuisance.shape[1]
    if nuisances + width > lines:
        return None
    projection = project(target, nuisance)
    if projection.stiff:
        return None
    lengths = np.maximum(projection.lengths, question.frame.lengths(question.rows.whitened))
    if not proves_independent(projection.joint, lines=lines, lengths=lengths):
        return None
    return Profile(
        nuisance=Rank(rank=nuisances, evidence=Evidence.FULL_RANK),
        basis=np.arange(nuisances, dtype=np.intp),
        decision=Decision.YES,
        evidence=Evidence.FULL_RANK,
        combinations=_coordinates(width),
        projection=projection,
    )


def _profile_integer(question: Question) -> Profile:
    integer, nuisances = question.frame.integer_columns(question.rows.integer_rows)
    nuisance, target = question.balanced_columns
    lines, width = target.shape
    if _spans_all_answers(nuisance):
        # The nuisance can cause every change of the answers, so nothing of the target is revealed.
        rank = Rank(rank=lines, evidence=Evidence.FULL_RANK)
        return _assemble(question, rank, Evidence.FULL_RANK, 0, (), independent_columns(nuisance, lines))
    pivots = exact.echelon(integer).pivots
    first = sum(pivot < nuisances for pivot in pivots)
    revealing = range(first, len(pivots))
    # A functional C enters as [[A, 0], [C, I]], and rank(A on ker C) = rank([A; C]) - rank(C).
    rank = Rank(rank=first - (len(integer) - lines), evidence=Evidence.MODULAR)
    combinations: list[Combination] = []
    if 0 < len(revealing) < width and len(revealing) * len(pivots) <= _MOST_EXACT:
        combinations = [_whole(row.coefficients[nuisances:]) for row in reduced_rows(integer, revealing)]
    basis = independent_columns(nuisance, rank.rank)
    return _assemble(question, rank, Evidence.MODULAR, len(revealing), combinations, basis)


def _spans_all_answers(nuisance: FloatArray) -> bool:
    lines, width = nuisance.shape
    if width < lines:
        return False
    (triangle,) = qr(nuisance.T, mode="r", check_finite=False)
    return proves_independent(triangle[:lines], lines=width, lengths=np.ones(lines) * np.sqrt(width))


def _profile_real(question: Question) -> Profile:
    nuisance, target = question.balanced_columns
    rank, basis = numerical_rank(nuisance)
    lines, width = target.shape
    size = max(lines, nuisance.shape[1] + width)
    residual = project(target, nuisance[:, basis]).residual
    values = np.linalg.svd(residual, compute_uv=False) if residual.size else np.zeros(0)
    # The rounding error of the residual is proportional to the condition number of the nuisance.
    smallest = rank.smallest_kept
    floor, ceiling = (
        (missing(size) / smallest, present(size) / smallest) if smallest > 0 else (np.inf, np.inf)
    )
    revealed = int(np.sum(values > ceiling))
    unclear = not rank.decided or bool(np.any((values > floor) & (values <= ceiling)))
    columns = np.concatenate([question.frame.representatives, question.frame.support])
    if not unclear and lines * columns.size <= AT_A_TIME:
        exactly = question.frame.revealed(dense(question.rows.jacobian[:, columns]))
        # No yes against the doubles. A no against them only where the difference is rounding.
        beyond_rounding = bool(np.any((values > missing(size)) & (values <= floor)))
        unclear = revealed > exactly or (revealed < exactly and beyond_rounding)
    evidence = Evidence.NONE if unclear else Evidence.GAP
    return _assemble(question, rank, evidence, revealed, (), basis)


def _assemble(
    question: Question,
    rank: Rank,
    evidence: Evidence,
    revealed: int,
    combinations: Sequence[Combination],
    basis: IndexArray,
) -> Profile:
    nuisance, target = question.whitened_columns
    width = target.shape[1]
    projection = project(target, nuisance[:, basis])
    named: tuple[Combination, ...] = ()
    if evidence is Evidence.NONE:
        decision = Decision.UNDECIDED
    elif revealed == width:
        decision, named = Decision.YES, _coordinates(width)
    else:
        decision = Decision.NO
        named = tuple(combinations)
        if len(named) < revealed:  # real-valued rows, or too many for exact arithmetic
            named = _reduced_combinations(projection.residual, np.linalg.norm(target, axis=0), revealed)
        projection = projection.keep(np.array(named, dtype=np.float64))
    return Profile(
        nuisance=rank,
        basis=basis,
        decision=decision,
        evidence=evidence,
        combinations=named,
        projection=projection,
    )


def _coordinates(width: int) -> tuple[Combination, ...]:
    return tuple(tuple(Fraction(int(i == k)) for k in range(width)) for i in range(width))


def _whole(fractions: Sequence[Fraction]) -> Combination:
    """Fractions as whole numbers without a common factor, or unchanged if no double can hold these."""
    denominator = math.lcm(*(fraction.denominator for fraction in fractions))
    numerators = [int(fraction * denominator) for fraction in fractions]
    divisor = math.gcd(*numerators)
    if max(map(abs, numerators)) > divisor * 2**53:
        return tuple(fractions)
    return tuple(Fraction(numerator, divisor) for numerator in numerators)


def _reduced_combinations(
    residual: FloatArray, lengths: FloatArray, revealed: int
) -> tuple[Combination, ...]:
    """A reduced echelon basis of the row space of the residual, with the largest pivots.

    Columns of the residual are divided by ``lengths``, those of the target's columns.
    """
    if revealed == 0:
        return ()
    lengths = np.where(lengths > 0, lengths, 1.0)
    _, _, right = np.linalg.svd(residual / lengths, full_matrices=False)
    _, order = qr(right[:revealed], mode="r", pivoting=True)
    pivots: NDArray[np.intp] = np.sort(order[:revealed])
    reduced = np.linalg.solve(right[:revealed][:, pivots], right[:revealed])
    reduced[np.abs(reduced) < 1e-12] = 0.0
    reduced *= lengths / lengths[pivots, None]
    return tuple(tuple(float(entry) for entry in line) for line in reduced)
