"""Exact answers about a linear design with any noise: rationals, and balls of at least 1,000 bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat

from tests.units.exact_designs import reduced

BITS, MOST_BITS = 1000, 1 << 16


@dataclass(frozen=True, kw_only=True)
class ExactDesign:
    """Rows of exact doubles, and the noise on them.

    ``covariance`` is a matrix or a list of standard deviations. A matrix may be singular, as long as no
    combination of the answers without noise depends on the records. ``laplace`` reads the list as scales.
    """

    rows: np.ndarray
    covariance: np.ndarray
    laplace: bool = False

    @cached_property
    def weights(self) -> Any:
        """The rows over the rationals."""
        return rational(self.rows)

    @cached_property
    def precision(self) -> Any:
        """The Fisher information of the answers about their means: zero on answers that others determine."""
        lines = len(self.rows)
        if self.covariance.ndim == 1:
            own = [1 / fraction(scale) ** 2 for scale in self.covariance.tolist()]
            return fmpq_mat(
                lines, lines, [own[i] if i == k else fmpq(0) for i in range(lines) for k in range(lines)]
            )
        kept = pivots_of(self.covariance)
        inverse = rational(self.covariance[np.ix_(kept, kept)]).inv()
        place = {line: i for i, line in enumerate(kept)}
        zero = fmpq(0)
        return fmpq_mat(
            lines,
            lines,
            [
                inverse[place[i], place[k]] if i in place and k in place else zero
                for i in range(lines)
                for k in range(lines)
            ],
        )

    @cached_property
    def information(self) -> Any:
        """G, over the rationals."""
        return self.weights.transpose() * self.precision * self.weights

    @cached_property
    def reduced(self) -> tuple[list[list[int]], list[int]]:
        """The non-zero rows of the reduced echelon form, up to factors, and their pivots."""
        return reduced(self.rows)

    @cached_property
    def identifiable(self) -> np.ndarray:
        """A record is identifiable iff the row of the reduced form with its pivot has no other entry."""
        exposed = np.zeros(self.rows.shape[1], dtype=bool)
        for line, pivot in zip(*self.reduced, strict=True):
            exposed[pivot] = sum(entry != 0 for entry in line) == 1
        return exposed

    def group_identifiable(self, members: np.ndarray) -> bool:
        """Whether the sum of records with one column is identifiable: its indicator is in the row space."""
        wanted = np.zeros(self.rows.shape[1])
        wanted[members] = 1.0
        return len(pivots_of(np.vstack([self.rows, wanted]))) == len(self.reduced[1])

    def functional_mse(self, functional: list[Fraction]) -> Fraction | None:
        """The least mean squared error of unbiased weights for a combination; ``None`` if there are none."""
        _, pivots = self.reduced
        G = self.information
        core = fmpq_mat(len(pivots), len(pivots), [G[i, k] for i in pivots for k in pivots])
        right = fmpq_mat(
            len(pivots), 1, [fmpq(functional[k].numerator, functional[k].denominator) for k in pivots]
        )
        if not pivots:
            return None
        solved = core.solve(right)
        size = self.rows.shape[1]
        columns = fmpq_mat(size, len(pivots), [G[i, k] for i in range(size) for k in pivots])
        reached = columns * solved
        if any(as_fraction(reached[i, 0]) != functional[i] for i in range(size)):
            return None
        return as_fraction((right.transpose() * solved)[0, 0]) * (2 if self.laplace else 1)

    @cached_property
    def mean_squared_errors(self) -> dict[int, Fraction]:
        """Of the best unbiased attack on every identifiable record (``eq:mse_optimal_s4``)."""
        _, pivots = self.reduced
        targets = np.flatnonzero(self.identifiable).tolist()
        if not targets:
            return {}
        G = self.information
        inverse = fmpq_mat(len(pivots), len(pivots), [G[i, k] for i in pivots for k in pivots]).inv()
        of_noise = 2 if self.laplace else 1  # the variance of Laplace noise over its squared scale
        return {j: of_noise * as_fraction(inverse[pivots.index(j), pivots.index(j)]) for j in targets}

    def shares(self, precision: arb | float, *, linear: bool) -> list[arb]:
        r"""The diagonal of :math:`c (G + cI)^{-1}`; with G over the noise's variance for a linear attack."""
        factor = fmpq(1, 2) if self.laplace and linear else fmpq(1)
        G, size = self.information * factor, self.rows.shape[1]

        def formula() -> list[arb]:
            matrix = arb_mat(size, size, [arb(G[i, k]) for i in range(size) for k in range(size)])
            c = arb(precision)
            ridge = arb_mat(size, size, [c if i == k else arb(0) for i in range(size) for k in range(size)])
            inverse = (matrix + ridge).inv()
            return [inverse[k, k] * c for k in range(size)]

        return sharp(formula)


def sharp(formula: Callable[[], list[arb]]) -> list[arb]:
    """The balls of a formula, at as many bits as make them good to 200 of them."""
    bits = BITS
    while bits <= MOST_BITS:
        with ctx.workprec(bits):
            try:
                values = formula()
            except ZeroDivisionError:
                values = []
            if values and all(value.is_exact() or value.rel_accuracy_bits() >= 200 for value in values):
                return values
        bits *= 2
    raise ArithmeticError("not sharp at any precision")


def relative_error(value: float, truth: Fraction | arb) -> float:
    """How far a double is from the truth, relative to it."""
    if not np.isfinite(value):
        return np.inf
    with ctx.workprec(BITS):
        exact = arb(fmpq(truth.numerator, truth.denominator)) if isinstance(truth, Fraction) else truth
        if exact == 0:
            return 0.0 if value == 0 else np.inf
        return abs(float((arb(float(value)) / exact - 1).mid()))


def root(value: Fraction) -> arb:
    """The square root of a fraction, as a ball."""
    with ctx.workprec(BITS):
        return arb(fmpq(value.numerator, value.denominator)).sqrt()


def fraction(value: float) -> fmpq:
    return fmpq(*Fraction(value).as_integer_ratio())


def as_fraction(value: fmpq) -> Fraction:
    return Fraction(int(value.p), int(value.q))


def rational(table: np.ndarray) -> Any:
    """A table of integers or doubles over the rationals."""
    return fmpq_mat(table.shape[0], table.shape[1], [fraction(value) for value in table.ravel().tolist()])


def pivots_of(rows: np.ndarray) -> list[int]:
    """Columns that are independent of the earlier ones."""
    return reduced(rows)[1]
