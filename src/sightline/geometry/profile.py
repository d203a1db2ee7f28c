"""Which part of a target the rows reveal once everything else is nuisance, and the evidence for it.

The path is: try to prove that all columns are independent; else decide exactly over the integers, or by a
singular-value gap where the rows are real-valued; then project the target off independent nuisance columns.
Identifiability is decided on the rows before noise divides them, sharpness on the rows after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from sightline.arrays import FloatArray, IndexArray
from sightline.geometry import exact
from sightline.geometry.decision import Decision, Evidence, Rank
from sightline.geometry.projection import Projection, project
from sightline.geometry.rank import (
    equilibrate,
    independent_columns,
    missing,
    numerical_rank,
    present,
)

Combination = tuple[Fraction | float, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """Target and nuisance columns of the same rows: before noise, after noise, and as integers."""

    target: FloatArray
    nuisance: FloatArray
    whitened_target: FloatArray
    whitened_nuisance: FloatArray
    integer: exact.IntegerRows | None  # [nuisance | target], more lines allowed than there are answers
    integer_nuisance: int  # how many of the integer columns are nuisance


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """What the rows say of a target: the combinations of it that they reveal, and how sharply."""

    nuisance: Rank
    basis: IndexArray  # independent nuisance columns
    decision: Decision  # is all of the target identifiable?
    evidence: Evidence
    combinations: tuple[Combination, ...]  # identifiable combinations of the target's coordinates
    projection: Projection


def profile(columns: Columns) -> Profile:
    """Profile the nuisance out of a target."""
    return _proved_independent(columns) or (
        _profile_real(columns) if columns.integer is None else _profile_integer(columns, columns.integer)
    )


def _proved_independent(columns: Columns) -> Profile | None:
    """The well-posed case, from one factorisation: all columns are independent, so all is revealed."""
    lines, width = columns.whitened_target.shape
    nuisances = columns.whitened_nuisance.shape[1]
    if nuisances + width > lines:
        return None
    projection = project(columns.whitened_target, columns.whitened_nuisance)
    if projection.stiff:
        return None
    (corner,) = qr(projection.residual, mode="r", check_finite=False)
    explained = projection.triangle @ projection.coefficients
    joint = np.block([[projection.triangle, explained], [np.zeros((width, nuisances)), corner[:width]]])
    if not exact.proves_independent(joint, lines=lines):
        return None
    return Profile(
        nuisance=Rank(rank=nuisances, evidence=Evidence.FULL_RANK),
        basis=np.arange(nuisances, dtype=np.intp),
        decision=Decision.YES,
        evidence=Evidence.FULL_RANK,
        combinations=_coordinates(width),
        projection=projection,
    )


def _profile_integer(columns: Columns, integer: exact.IntegerRows) -> Profile:
    lines, width = columns.target.shape
    if _spans_all_answers(columns.nuisance):
        # Whatever the target does to the answers, the nuisance could have done.
        rank = Rank(rank=lines, evidence=Evidence.FULL_RANK)
        return _assemble(columns, rank, Evidence.FULL_RANK, 0, ())
    form = exact.echelon(integer)
    first = sum(pivot < columns.integer_nuisance for pivot in form.pivots)
    revealing = range(first, len(form.pivots))
    places = range(columns.integer_nuisance, columns.integer_nuisance + width)
    combinations = [_readable(form.entries(line, places), form.prime) for line in revealing]
    # A functional C enters as [[A, 0], [C, I]], and rank(A on ker C) = rank([A; C]) - rank(C).
    rank = Rank(rank=first - (integer.shape[0] - lines), evidence=Evidence.MODULAR)
    return _assemble(columns, rank, Evidence.MODULAR, len(revealing), combinations)


def _spans_all_answers(nuisance: FloatArray) -> bool:
    lines, width = nuisance.shape
    if width < lines:
        return False
    (triangle,) = qr(nuisance.T, mode="r", check_finite=False)
    return exact.proves_independent(triangle[:lines], lines=width)


def _profile_real(columns: Columns) -> Profile:
    rank, basis = numerical_rank(columns.nuisance)
    lines, width = columns.target.shape
    size = max(lines, columns.nuisance.shape[1] + width)
    balanced = equilibrate(np.hstack([columns.nuisance[:, basis], columns.target]))
    escaped = project(balanced[:, basis.size :], balanced[:, : basis.size]).residual
    values = np.linalg.svd(escaped, compute_uv=False) if escaped.size else np.zeros(0)
    # An ill-conditioned nuisance leaves proportionally more rounding in what escapes it.
    floor = missing(size) / rank.smallest_kept if rank.smallest_kept > 0 else np.inf
    ceiling = present(size) / rank.smallest_kept if rank.smallest_kept > 0 else np.inf
    revealed = int(np.sum(values > ceiling))
    unclear = not rank.decided or bool(np.any((values > floor) & (values <= ceiling)))
    evidence = Evidence.NONE if unclear else Evidence.GAP
    return _assemble(columns, rank, evidence, revealed, (None,), basis)


def _assemble(
    columns: Columns,
    rank: Rank,
    evidence: Evidence,
    revealed: int,
    combinations: Sequence[Combination | None],
    basis: IndexArray | None = None,
) -> Profile:
    width = columns.target.shape[1]
    if basis is None:
        basis = independent_columns(columns.nuisance, rank.rank)
    projection = project(columns.whitened_target, columns.whitened_nuisance[:, basis])
    named: tuple[Combination, ...] = ()
    if evidence is Evidence.NONE:
        decision = Decision.UNDECIDED
    elif revealed == width:
        decision, named = Decision.YES, _coordinates(width)
    else:
        decision, projection = Decision.NO, projection.keep(revealed)
        named = tuple(combination for combination in combinations if combination is not None)
        if len(named) < revealed:  # real-valued, or coefficients too long to be read
            named = _reduced_combinations(projection.residual, revealed)
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


def _readable(residues: list[int], prime: int) -> Combination | None:
    """Residues as whole numbers without a common factor, if small fractions stand behind them."""
    fractions = [exact.rational(residue, prime) for residue in residues]
    known = [fraction for fraction in fractions if fraction is not None]
    if len(known) < len(fractions):
        return None
    denominator = int(np.lcm.reduce([fraction.denominator for fraction in known]))
    numerators = [int(fraction * denominator) for fraction in known]
    divisor = int(np.gcd.reduce(numerators)) or 1
    return tuple(Fraction(numerator, divisor) for numerator in numerators)


def _reduced_combinations(residual: FloatArray, revealed: int) -> tuple[Combination, ...]:
    """A reduced echelon basis of the row space, its pivots chosen for size."""
    if revealed == 0:
        return ()
    lengths = np.linalg.norm(residual, axis=0)
    lengths[lengths == 0] = 1.0
    _, _, right = np.linalg.svd(residual / lengths, full_matrices=False)
    _, order = qr(right[:revealed], mode="r", pivoting=True)
    pivots: NDArray[np.intp] = np.sort(order[:revealed])
    reduced = np.linalg.solve(right[:revealed][:, pivots], right[:revealed])
    reduced[np.abs(reduced) < 1e-12] = 0.0
    reduced *= lengths / lengths[pivots, None]
    return tuple(tuple(float(entry) for entry in line) for line in reduced)
