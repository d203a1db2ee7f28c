"""Naive twins: textbook formulas on dense N×N matrices, in exact or 60-digit arithmetic."""

from __future__ import annotations

from fractions import Fraction

import flint
import mpmath
import numpy as np

DIGITS = 60


def echelon(rows: np.ndarray) -> tuple[list[list[Fraction]], list[int]]:
    """Reduced row echelon form over the rationals, by hand."""
    table = [[Fraction(int(entry)) for entry in row] for row in rows]
    pivots: list[int] = []
    for column in range(len(table[0])):
        line = len(pivots)
        found = next((i for i in range(line, len(table)) if table[i][column]), None)
        if found is None:
            continue
        table[line], table[found] = table[found], table[line]
        table[line] = [entry / table[line][column] for entry in table[line]]
        for i in range(len(table)):
            factor = table[i][column]
            if i != line and factor:
                table[i] = [a - factor * b for a, b in zip(table[i], table[line], strict=True)]
        pivots.append(column)
        if len(pivots) == len(table):
            break
    return table[: len(pivots)], pivots


def identifiable(rows: np.ndarray) -> np.ndarray:
    """Record j is identifiable iff the unit vector is a row of the reduced echelon form."""
    table, pivots = echelon(rows)
    exposed = np.zeros(rows.shape[1], dtype=bool)
    for line, pivot in zip(table, pivots, strict=True):
        exposed[pivot] = sum(entry != 0 for entry in line) == 1
    return exposed


def identifiable_fast(rows: np.ndarray) -> np.ndarray:
    """The same by fraction-free elimination over the integers."""
    reduced, _, rank = flint.fmpz_mat(rows.tolist()).rref()
    table = np.array(reduced.tolist(), dtype=object)[:rank]
    exposed = np.zeros(rows.shape[1], dtype=bool)
    for line in table:
        entries = np.flatnonzero(line != 0)
        if entries.size == 1:
            exposed[entries[0]] = True
    return exposed


def crb(rows: np.ndarray, stddevs: np.ndarray, target: int) -> mpmath.mpf:
    """The variance of the best unbiased attack on an identifiable record, over independent columns."""
    _, pivots = echelon(rows)
    with mpmath.workdps(DIGITS):
        B = mpmath.matrix(len(rows), len(pivots))
        for i in range(len(rows)):
            for k, column in enumerate(pivots):
                B[i, k] = mpmath.mpf(float(rows[i, column])) / mpmath.mpf(float(stddevs[i]))
        place = pivots.index(target)
        unit = mpmath.zeros(len(pivots), 1)
        unit[place] = 1
        return mpmath.lu_solve(B.T * B, unit)[place]


def bayes_risks(rows: np.ndarray, stddevs: np.ndarray, precision: mpmath.mpf) -> list[mpmath.mpf]:
    """The diagonal of (G + cI)⁻¹, all N×N."""
    with mpmath.workdps(DIGITS):
        lines, records = rows.shape
        B = mpmath.matrix(lines, records)
        for i in range(lines):
            for k in range(records):
                B[i, k] = mpmath.mpf(float(rows[i, k])) / mpmath.mpf(float(stddevs[i]))
        inverse = mpmath.inverse(B.T * B + precision * mpmath.eye(records))
        return [inverse[k, k] for k in range(records)]


def random_rows(generator: np.random.Generator, *, most: int = 14) -> np.ndarray:
    """A random 0/1 design with N, L ≤ most: sparse or dense, often with repeated rows and columns."""
    while True:
        lines, records = generator.integers(1, most + 1), generator.integers(2, most + 1)
        rows = (generator.random((lines, records)) < generator.uniform(0.05, 0.95)).astype(np.int64)
        if generator.random() < 0.3:
            rows = rows[generator.integers(0, lines, lines)]
        if generator.random() < 0.3:
            rows = rows[:, generator.integers(0, records, records)]
        if generator.random() < 0.3:  # differencing pairs
            rows[-1] = rows[0]
            rows[-1, generator.integers(records)] ^= 1
        rows = rows[rows.any(axis=1)]
        if len(rows):
            return rows
