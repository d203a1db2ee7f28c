"""Exact rational statements about integer rows, each checked over the integers before it is returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sightline.errors import require
from sightline.numerics import exact_library as flint
from sightline.numerics.integers import IntegerRows, RowEchelon, echelon


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactRecipe:
    """Proof that a functional is exposed: ``weights`` @ rows equals the functional, exactly."""

    weights: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenDirection:
    """Proof that a functional is hidden: moving the records along ``direction`` changes it and no answer."""

    direction: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducedRow:
    """A row of the reduced row echelon form: ``weights`` @ rows equals ``coefficients``, exactly.

    The coefficient is one at the row's own pivot, and zero before it and at every other pivot.
    """

    weights: tuple[Fraction, ...]
    coefficients: tuple[Fraction, ...]


def certificate(rows: IntegerRows, functional: Sequence[int] | IntegerRows) -> ExactRecipe | UnseenDirection:
    """Prove, in exact rational arithmetic, that a functional of the records is or is not exposed.

    The proof is either the recipe over releases that computes it, or a change of the records that changes it
    and no answer. Both are checked before they are returned.

    >>> rows = np.array([[1, 1, 1], [0, 1, 1]])
    >>> certificate(rows, [1, 0, 0])
    ExactRecipe(weights=(Fraction(1, 1), Fraction(-1, 1)))
    >>> certificate(rows, [0, 1, 0])
    UnseenDirection(direction=(Fraction(0, 1), Fraction(-1, 1), Fraction(1, 1)))
    """
    wanted = [int(entry) for entry in functional]
    require(len(wanted) == rows.shape[1], f"a functional of {rows.shape[1]} coefficients", got=len(wanted))
    draw = 0
    while (proof := _attempt(rows, wanted, draw)) is None:
        draw += 1  # the prime divides a minor: draw another
    return proof


def reduced_rows(rows: IntegerRows, lines: Sequence[int]) -> list[ReducedRow]:
    """Some rows of the reduced row echelon form of integer rows, over the rationals.

    The pivots come from elimination modulo a prime. The weights then solve a square system over the integers.
    A row that is not zero where it must be shows that the prime divides a minor: another prime is drawn.

    >>> rows = np.array([[2, 3, 1], [0, 3, 1], [2, 6, 2]])
    >>> reduced_rows(rows, [1])[0].coefficients
    (Fraction(0, 1), Fraction(1, 1), Fraction(1, 3))
    """
    draw = 0
    while (reduced := _reduced(rows, lines, draw)) is None:
        draw += 1
    return reduced


def _reduced(rows: IntegerRows, lines: Sequence[int], draw: int) -> list[ReducedRow] | None:
    block = _square_block(rows, echelon(rows, draw=draw), draw)
    if block is None:
        return None
    independent, columns, square = block
    if not lines:
        return []
    wanted = [[int(column == columns[line]) for line in lines] for column in columns]
    solved: Any = square.transpose().solve(flint.fmpz_mat(wanted))
    weights = solved.transpose()
    coefficients = _table(weights * _whole_matrix(rows[independent]))
    if any(any(row[: columns[line]]) for row, line in zip(coefficients, lines, strict=True)):
        return None
    return [
        ReducedRow(weights=_placed(weight, independent, len(rows)), coefficients=tuple(row))
        for weight, row in zip(_table(weights), coefficients, strict=True)
    ]


def _attempt(rows: IntegerRows, wanted: list[int], draw: int) -> ExactRecipe | UnseenDirection | None:
    block = _square_block(rows, echelon(rows, draw=draw), draw)
    if block is None:
        return None
    lines, columns, square = block
    weights = _solve(square.transpose(), [wanted[k] for k in columns])
    combination = _combine(weights, rows[lines])
    differs = next((k for k, entry in enumerate(combination) if entry != wanted[k]), None)
    if differs is None:
        return ExactRecipe(weights=_placed(weights, lines, len(rows)))
    moves = [*_solve(square, [-int(rows[i, differs]) for i in lines]), Fraction(1)]
    direction = _placed(moves, [*columns, differs], rows.shape[1])
    unmoved = not any(_combine(direction, np.ascontiguousarray(rows.T)))
    return UnseenDirection(direction=direction) if unmoved else None


def _square_block(
    rows: IntegerRows, form: RowEchelon, draw: int
) -> tuple[list[int], list[int], flint.fmpz_mat] | None:
    """Independent rows, the pivot columns, and the square matrix where they meet; ``None`` if singular."""
    columns = list(form.pivots)
    lines = list(echelon(np.ascontiguousarray(rows[:, columns].T), draw=draw).pivots)
    if len(lines) != len(columns):
        return None
    return lines, columns, _whole_matrix(rows[np.ix_(lines, columns)])


def _solve(square: flint.fmpz_mat, right: list[int]) -> list[Fraction]:
    if not right:
        return []
    return [row[0] for row in _table(square.solve(flint.fmpz_mat([[entry] for entry in right])))]


def _combine(weights: Sequence[Fraction], rows: IntegerRows) -> tuple[Fraction, ...]:
    """``weights @ rows``, exactly."""
    if not weights:
        return (Fraction(0),) * int(rows.shape[1])
    left = flint.fmpq_mat(1, len(weights), [flint.fmpq(w.numerator, w.denominator) for w in weights])
    return tuple(_table(left * _whole_matrix(rows))[0])


def _placed(values: Sequence[Fraction], places: Sequence[int], length: int) -> tuple[Fraction, ...]:
    placed = dict(zip(places, values, strict=True))
    return tuple(placed.get(place, Fraction(0)) for place in range(length))


def _whole_matrix(rows: IntegerRows) -> flint.fmpz_mat:
    return flint.fmpz_mat(rows.shape[0], rows.shape[1], rows.ravel().tolist())


def _table(matrix: Any) -> list[list[Fraction]]:
    return [[Fraction(int(entry.p), int(entry.q)) for entry in row] for row in matrix.table()]
