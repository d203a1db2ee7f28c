"""Designs with nasty structure, and exact answers about them: rationals, or balls of 1,000 bits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat, fmpz_mat

BITS = 1000


# ------------------------------------------------------------------ designs


def chain(size: int) -> np.ndarray:
    """0/1 rows {i, i+1, i+3}: the inverse grows exponentially."""
    rows = np.zeros((size, size), dtype=np.int64)
    for i in range(size):
        rows[i, [k for k in (i, i + 1, i + 3) if k < size]] = 1
    return rows


def ladder(size: int, weight: int) -> np.ndarray:
    """x_i + w·x_{i+1}: each step multiplies the noise by w."""
    return np.eye(size, dtype=np.int64) + weight * np.eye(size, k=1, dtype=np.int64)


def integer_rows(generator: np.random.Generator) -> np.ndarray:
    """Chains, ladders, random and nested rows; repeated, nearly dependent, or with large weights."""
    lines, records = int(generator.integers(2, 11)), int(generator.integers(2, 11))
    match int(generator.integers(5)):
        case 0:
            rows = chain(max(lines, 4))
        case 1:
            rows = ladder(lines, int(generator.integers(2, 2000)))
        case 2:
            rows = (generator.random((lines, records)) < generator.uniform(0.1, 0.9)).astype(np.int64)
        case 3:
            rows = generator.integers(-9, 10, (lines, records))
        case _:  # nested: every row contains the next
            members = generator.permutation(records)
            sizes = np.sort(generator.integers(1, records + 1, lines))[::-1]
            rows = np.array([np.isin(np.arange(records), members[:size]) for size in sizes], dtype=np.int64)
    if generator.random() < 0.3:
        rows = rows[generator.integers(0, len(rows), len(rows) + 1)]
    if generator.random() < 0.3:
        rows = rows[:, generator.integers(0, rows.shape[1], rows.shape[1])]
    if generator.random() < 0.4:  # a row that is a combination of the others, or misses one by one entry
        combination = generator.integers(-3, 4, len(rows)) @ rows
        combination[generator.integers(rows.shape[1])] += int(generator.integers(2))
        rows = np.vstack([rows, combination])
    if generator.random() < 0.4:
        rows = rows * 2 ** int(generator.integers(1, 36)) + generator.integers(0, 2, rows.shape) * (rows != 0)
    return usable(rows)


def real_rows(generator: np.random.Generator) -> np.ndarray:
    """Weights over many orders of magnitude, rounded sums of rows, rows that differ by next to nothing."""
    rows = integer_rows(generator).astype(np.float64)
    match int(generator.integers(4)):
        case 0:  # every record in its own unit
            rows = rows * 10.0 ** generator.integers(-12, 13, rows.shape[1])
        case 1:  # 1 and 1e-8 in one row
            rows = rows * np.where(generator.random(rows.shape) < 0.5, 1.0, 10.0 ** generator.uniform(-12, 0))
        case 2:
            rows = rows * generator.standard_normal(rows.shape)
        case _:
            rows = rows * generator.standard_normal((len(rows), 1)) * generator.uniform(0.5, 2, rows.shape[1])
    if generator.random() < 0.4:
        rows = np.vstack([rows, rows[0] + rows[-1]])
    if generator.random() < 0.4:
        again = rows[0].copy()
        again[generator.integers(rows.shape[1])] += 10.0 ** generator.uniform(-17, 0)
        rows = np.vstack([rows, again])
    return usable(rows)


def usable(rows: np.ndarray) -> np.ndarray:
    rows = rows[rows.any(axis=1)]
    if len(rows) == 0 or rows.shape[1] < 2:
        return np.array([[1, 1], [0, 1]], dtype=rows.dtype)
    return rows


# ------------------------------------------------------------------ exact answers


def integers_of(rows: np.ndarray) -> list[list[int]]:
    """Every row times what makes it whole: doubles are integers times powers of two."""
    table = []
    for row in rows.tolist():
        ratios = [weight.as_integer_ratio() for weight in row]
        common = max(denominator for _, denominator in ratios)  # a power of two
        table.append([numerator * (common // denominator) for numerator, denominator in ratios])
    return table


def reduced(rows: np.ndarray) -> tuple[list[list[int]], list[int]]:
    """The non-zero rows of the reduced echelon form, up to factors, and their pivots."""
    table, _, rank = fmpz_mat(integers_of(rows)).rref()
    kept = [[int(entry) for entry in line] for line in table.tolist()[:rank]]
    return kept, [next(k for k, entry in enumerate(line) if entry) for line in kept]


def identifiable(rows: np.ndarray) -> np.ndarray:
    """A record is identifiable iff the row of the reduced form with its pivot has no other entry."""
    table, pivots = reduced(rows)
    exposed = np.zeros(rows.shape[1], dtype=bool)
    for line, pivot in zip(table, pivots, strict=True):
        exposed[pivot] = sum(entry != 0 for entry in line) == 1
    return exposed


def mean_squared_errors(rows: np.ndarray, stddevs: np.ndarray) -> dict[int, Fraction]:
    """Of the best unbiased attack on every identifiable record, over the rationals."""
    _, pivots = reduced(rows)
    B = fmpq_mat(
        [
            [_rational(Fraction(row[k]) / Fraction(stddev)) for k in pivots]
            for row, stddev in zip(rows.tolist(), stddevs.tolist(), strict=True)
        ]
    )
    inverse = (B.transpose() * B).inv()
    found = {}
    for target in np.flatnonzero(identifiable(rows)).tolist():
        value = inverse[pivots.index(target), pivots.index(target)]
        found[target] = Fraction(int(value.p), int(value.q))
    return found


def risks(rows: np.ndarray, stddevs: np.ndarray, precision: float) -> list[arb]:
    """The diagonal of (G + cI)⁻¹ times c, N×N, in balls of 1,000 bits."""
    with ctx.workprec(BITS):
        A = arb_mat(
            [
                [arb(float(weight)) / arb(float(stddev)) for weight in row]
                for row, stddev in zip(rows.tolist(), stddevs.tolist(), strict=True)
            ]
        )
        size = rows.shape[1]
        ridge = arb_mat([[arb(precision) if i == k else arb(0) for k in range(size)] for i in range(size)])
        inverse = (A.transpose() * A + ridge).inv()
        return [inverse[k, k] * arb(precision) for k in range(size)]


def information(rows: np.ndarray, stddevs: np.ndarray) -> np.ndarray:
    """The diagonal of G, rounded once."""
    exact = [
        [(Fraction(weight) / Fraction(stddev)) ** 2 for weight in row]
        for row, stddev in zip(rows.tolist(), stddevs.tolist(), strict=True)
    ]
    return np.array([float(sum(column)) for column in zip(*exact, strict=True)])


def hidden(rows: np.ndarray, stddevs: np.ndarray, precisions: np.ndarray) -> np.ndarray:
    """1/[(G + diag c)⁻¹]_jj − c_j, in balls of 1,000 bits."""
    with ctx.workprec(BITS):
        A = arb_mat(
            [
                [arb(float(weight)) / arb(float(stddev)) for weight in row]
                for row, stddev in zip(rows.tolist(), stddevs.tolist(), strict=True)
            ]
        )
        c = [arb(float(precision)) for precision in precisions]
        ridge = arb_mat([[c[i] if i == k else arb(0) for k in range(len(c))] for i in range(len(c))])
        inverse = (A.transpose() * A + ridge).inv()
        return np.array([float((1 / inverse[k, k] - c[k]).mid()) for k in range(len(c))])


def _rational(value: Fraction) -> fmpq:
    return fmpq(value.numerator, value.denominator)
