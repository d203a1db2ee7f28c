"""Traces of inverses in ball arithmetic."""

from __future__ import annotations

from flint import arb, arb_mat, ctx, fmpq

from sightline.errors import require

FIRST_BITS, LAST_BITS = 128, 16384  # working precision


def sharp(value: arb) -> bool:
    """Whether a ball pins down more than a double holds."""
    return bool(value.rel_accuracy_bits() >= 60)


def trace_of_inverse(matrix: arb_mat) -> arb | None:
    """The trace of the inverse, or ``None`` where this precision cannot rule out a singular matrix."""
    try:
        return matrix.inv().trace()
    except ZeroDivisionError:
        return None


def exact_trace_of_inverse(entries: list[list[fmpq]]) -> float:
    """The trace of the inverse of an exact matrix, to the last digit of a double.

    >>> exact_trace_of_inverse([[fmpq(2), fmpq(1)], [fmpq(1), fmpq(2)]])
    1.3333333333333333
    """
    precision = FIRST_BITS
    while True:
        with ctx.workprec(precision):
            trace = trace_of_inverse(arb_mat([[arb(entry) for entry in row] for row in entries]))
        if trace is not None and sharp(trace):
            return float(trace.mid())
        require(
            precision < LAST_BITS,
            "a matrix that can be inverted",
            got=f"one that is singular to {precision} bits",
        )
        precision *= 2
