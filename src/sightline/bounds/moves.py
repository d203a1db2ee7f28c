r"""Genies of a few rows at a time: what is left of a row that others can stand in for.

A genie of :mod:`~sightline.bounds.genies` need not hide one row. Let e be a *move*: some rows T change from
the values a to the values b. Its genie tells all other rows, and those of T unless they hold a or b:

.. math:: u_e = 1[x_T \in \{a, b\}]\,\bigl(1[x_T = b] - P(x_T = b \mid \text{all that it tells}, y)\bigr) .

Its mean given the answers is 0 as well, so the theorem there holds for moves of any size together. Two rows
that exchange their values are a move that few numbers see; four rows at the corners of a rectangle may be one
that none sees, whatever the noise.

With d for the change of the answers over the noise, and the coefficients :math:`\alpha_n^s` of :math:`u_e` on
the side s (the rows hold b, or a) in the normalised Hermite polynomials,

.. math:: C_{ef} = \sum_{s, t} P\bigl(x_{T_e} = s,\ x_{T_f} = t\bigr) \sum_n \rho_{ef}^n\,
    \alpha_n^s(e)\, \alpha_n^t(f) .

The chances are those of the rows of both moves: 0 where a row of both would have two values.

**Laplace noise.** In place of :math:`u_e` serves :math:`\pm 1[x_T \in \{a, b\}]
\sqrt{p(x', y)/p(x, y)}`, positive after the move, with :math:`x'` for the world on its other side: its mean
given the answers is 0, too, and a product of two has the mean

.. math:: C_{ef} = \sum_{s, t} \pm P\bigl(x_{T_e} = s,\ x_{T_f} = t\bigr)
    \sqrt{\frac{P(x_{T_e} \ne s)\,P(x_{T_f} \ne t)}{P(x_{T_e} = s)\,P(x_{T_f} = t)}}\;
    A(d_e \mp d_f)

with the affinity A of answers that are so far apart: a product over the numbers, of
:math:`e^{-\Delta^2/8}` for Gaussian and :math:`(1 + \Delta/2)\,e^{-\Delta/2}` for Laplace noise.

Each person is looked at with the rows that noise tells least from theirs: every one of them by itself, and an
exchange with every row of the person. All others count as known.
"""

from __future__ import annotations

import itertools
from functools import cached_property, lru_cache

import numpy as np

from sightline.arrays import ROUNDING, FloatArray, IndexArray
from sightline.bounds.genies import MOST_TOLD, TERMS, hermite_coefficients
from sightline.units.unit_block import BoolArray
from sightline.values import frozen

Move = tuple[tuple[int, int, int], ...]  # the rows that change: which, from which value, to which
_IN_CACHE = 1 << 15  # entries of all systems that are made at a time
_REST = 1e-10  # of the mean square of u
_ENTRY = 1e-13  # the error of an entry of C: sums of products of numbers below 1


@lru_cache(maxsize=64)
def moves_about(
    rows: int, others: int, rectangles: int, chances: tuple[float, ...], *, by_themselves: int = 8
) -> MoveTable:
    """Moves between the first value, which is asked about, and each other one: the rows of a person, which
    come first, and some of the others by themselves; the person's in exchange with each of the others; and
    rectangles of the first row with three others each, one after the other.
    """
    moves: list[Move] = []
    for other in range(1, len(chances)):
        up, down = (other, 0), (0, other)
        moves += [((row, *up),) for row in range(rows + min(others, by_themselves))]
        pairs = itertools.product(range(rows), range(rows, rows + others))
        moves += [((row, *up), (place, *down)) for row, place in pairs]
        corners = range(rows, rows + 3 * rectangles, 3)
        moves += [((0, *up), (c, *down), (c + 1, *down), (c + 2, *up)) for c in corners]
    return MoveTable(moves=tuple(moves), own=rows, rows=rows + others, chances=chances)


@frozen(slots=False)
class MoveTable:
    """Moves of some rows, and what does not depend on the numbers that the rows are in."""

    moves: tuple[Move, ...]
    own: int  # rows of the person, which come first
    rows: int
    chances: tuple[float, ...]

    @cached_property
    def held(self) -> IndexArray:
        """Sides × moves × rows: the value before, and after; -1 of rows that do not change."""
        table = np.full((2, len(self.moves), self.rows), -1)
        for place, move in enumerate(self.moves):
            for row, before, after in move:
                table[:, place, row] = before, after
        return table

    @cached_property
    def changes(self) -> FloatArray:
        """Moves × (rows · values): which columns are taken away and which are added."""
        table = np.zeros((len(self.moves), self.rows, len(self.chances)))
        for place, move in enumerate(self.moves):
            for row, before, after in move:
                table[place, row, before] -= 1
                table[place, row, after] += 1
        return table.reshape(len(self.moves), -1)

    @cached_property
    def sides(self) -> FloatArray:
        """Sides × moves: the chance that the rows hold the values before, and those after."""
        chances = np.append(self.chances, 1.0)
        return np.asarray(chances[self.held].prod(axis=2))

    @cached_property
    def together(self) -> FloatArray:
        """Sides × sides × moves × moves: the chance that two moves are on these sides."""
        chances, agreeing = np.append(self.chances, 1.0), np.zeros((2, 2, len(self.moves), len(self.moves)))
        for s, t in itertools.product(range(2), repeat=2):
            first, second = self.held[s][:, None], self.held[t][None]
            agree = np.all((first < 0) | (second < 0) | (first == second), axis=2)
            either = chances[np.maximum(first, second)].prod(axis=2)
            agreeing[s, t] = np.where(agree, either, 0.0)
        return agreeing

    @cached_property
    def rectangles(self) -> BoolArray:
        """The moves of four rows."""
        return np.array([len(move) == 4 for move in self.moves])

    @cached_property
    def signs(self) -> FloatArray:
        """Rows of the person × moves: how a move changes the indicator."""
        after, before = self.held[1][:, : self.own] == 0, self.held[0][:, : self.own] == 0
        return np.asarray(after.T.astype(np.float64) - before.T)

    def left(self, gram: FloatArray, laplace: FloatArray, usable: BoolArray, rounding: float) -> FloatArray:
        """Of every person at most the share that remains of the indicator, in the direction of their rows
        that is seen best.

        ``gram`` holds, for every person, the products of the columns of all rows and values in numbers with
        Gaussian noise, over it, each with a relative error of ``rounding``; ``laplace`` the columns in
        numbers with Laplace noise; ``usable`` the moves that change no other number.
        """
        each = max(1, _IN_CACHE // (len(self.moves) ** 2 * (1 + laplace.shape[2])))
        parts = [slice(start, start + each) for start in range(0, len(gram), each)]
        ends = [self._left(gram[part], laplace[part], usable[part], rounding) for part in parts]
        return np.concatenate([np.zeros(0), *ends])

    def _left(self, gram: FloatArray, laplace: FloatArray, usable: BoolArray, rounding: float) -> FloatArray:
        moved, shifts = self.changes @ gram @ self.changes.T, np.abs(self.changes @ laplace)
        # Long columns that nearly cancel lose digits: a move is told by no less than its product may be.
        lengths = np.sqrt(np.diagonal(gram, axis1=1, axis2=2)) @ np.abs(self.changes).T
        lost = rounding * lengths[:, :, None] * lengths[:, None]
        spread = np.maximum(np.diagonal(moved, axis1=1, axis2=2), 0.0)
        spread = spread + np.diagonal(lost, axis1=1, axis2=2)
        used = usable & (spread <= MOST_TOLD)
        gaussian = used & ~np.any(shifts > 0, axis=2)
        system, alone = self._system(moved, np.where(gaussian, spread, 0.0), gaussian)
        least = least_of_rows(self._larger(system, lost, gaussian), self.signs * alone[:, None])
        if shifts.any():
            system, alone = self._by_affinities(moved, spread, self.changes @ laplace, used)
            system = self._larger(system, lost, used)
            least = np.maximum(least, least_of_rows(system, self.signs * alone[:, None]))
        return np.asarray(least / (self.chances[0] * (1 - self.chances[0])))

    def _larger(self, system: FloatArray, lost: FloatArray, used: BoolArray) -> FloatArray:
        """C with a diagonal that makes up for an error in every product of moves.

        An entry of C changes by less than the products do: a u is a function of an answer with a slope and a
        curvature below 1. Two products of moves with themselves and, twice, that of both are in it.
        """
        error = np.where(used[:, :, None] & used[:, None], 4 * lost, 0.0).sum(axis=2)
        return np.asarray(system + error[:, :, None] * np.eye(len(self.moves)))

    def _by_affinities(
        self, moved: FloatArray, told: FloatArray, shifts: FloatArray, used: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        """C of every person by square roots of likelihoods; and the products of every u with its side."""
        ratios = np.sqrt(self.sides[::-1] / self.sides)
        total = np.zeros_like(moved)
        for sign in (1.0, -1.0):  # on the same side, and on different ones
            apart = (told[:, :, None] + told[:, None] - 2 * sign * moved) / 8
            away = np.abs(shifts[:, :, None] - sign * shifts[:, None]) / 2
            affinity = np.exp(np.sum(np.log1p(away) - away, axis=3) - np.maximum(apart, 0.0))
            for s, t in ((0, 0), (1, 1)) if sign > 0 else ((0, 1), (1, 0)):
                chance = self.together[s, t] * ratios[s][:, None] * ratios[t]
                total += sign * chance * affinity
        total = np.where(used[:, :, None] & used[:, None], total, 0.0)
        half = np.abs(shifts) / 2
        alone = np.exp(np.sum(np.log1p(half) - half, axis=2) - np.maximum(told, 0.0) / 8)
        alone *= used * np.sqrt(self.sides[0] * self.sides[1])
        places = np.arange(len(self.moves))
        total[:, places, places] = np.where(used, self.sides.sum(axis=0), 1.0) + len(self.moves) * _ENTRY
        return total, alone

    def _system(self, moved: FloatArray, told: FloatArray, used: BoolArray) -> tuple[FloatArray, FloatArray]:
        """C of every person, no smaller than it is; and the mean square of every u."""
        odds = np.broadcast_to(np.log(self.sides[1] / self.sides[0]), told.shape)
        alpha, products = hermite_coefficients(told, odds)  # sides × terms × persons × moves
        squares = products[[0, 1], [0, 1]]
        both = used[:, :, None] & used[:, None]
        size = np.sqrt(np.maximum(np.diagonal(moved, axis1=1, axis2=2), 1e-300))
        sizes = np.where(both, size[:, :, None] * size[:, None], 1.0)
        rho = np.clip(np.where(both, moved, 0.0) / sizes, -1.0, 1.0)
        # Terms beyond those are less than this in all: moves that noise sees little need few.
        left_out = np.maximum(squares[:, None] - np.cumsum(np.square(alpha), axis=1), 0.0).max(axis=0)
        small = left_out.max(axis=(1, 2), initial=0.0) < _REST
        last = int(np.argmax(small)) if small.any() else TERMS
        rests = np.sqrt(left_out[last] + 1e-16)
        total = np.zeros_like(rho)
        if np.array_equal(*self.sides):  # the coefficients of both sides are the same up to signs
            same = self.together[0, 0] + self.together[1, 1]
            other = self.together[0, 1] + self.together[1, 0]
            parity, square = np.zeros((2, *rho.shape)), rho * rho
            for n in range(last, -1, -1):
                parity[n % 2] *= square
                parity[n % 2] += alpha[1, n, :, :, None] * alpha[1, n, :, None]
            total = (same - other) * parity[0] + (same + other) * rho * parity[1]
        else:
            for s, t in itertools.product(range(2), repeat=2):
                series = np.zeros_like(rho)
                for n in range(last, -1, -1):
                    series *= rho
                    series += alpha[s, n, :, :, None] * alpha[t, n, :, None]
                total += self.together[s, t] * series
        error = np.abs(rho) ** (last + 1) * (rests[:, :, None] * rests[:, None])
        error = np.where(both, error * self.together.sum(axis=(0, 1)), 0.0) + _ENTRY
        total = np.where(both, total, 0.0)
        alone = np.einsum("sm,sbm->bm", self.sides, squares) * used
        places = np.arange(len(self.moves))
        error[:, places, places] = _ENTRY
        total[:, places, places] = np.where(used, alone, 1.0) + error.sum(axis=2)
        return total, alone


def least_of_rows(system: FloatArray, right: FloatArray) -> FloatArray:
    r"""The least eigenvalue of :math:`c\, C^{-1} c^\top` for many systems C and lines c: evaluated at the
    weights that were computed, so that an inexact inverse only lowers it.
    """
    scale = 1 / np.sqrt(np.diagonal(system, axis1=1, axis2=2))
    scaled = system * scale[:, :, None] * scale[:, None]
    moves = system.shape[1]
    lines = np.swapaxes(right * scale[:, None], 1, 2)
    weights = np.linalg.solve(scaled + 1e-12 * np.eye(moves), lines)
    numerators = np.swapaxes(lines, 1, 2) @ weights
    denominators = np.swapaxes(weights, 1, 2) @ (scaled @ weights)
    # Entries of the scaled system are at most 1: rounding is at most that of the sums of the weights' sizes.
    sizes = np.abs(weights).sum(axis=1)
    rounding = 4 * moves * np.finfo(np.float64).eps * np.square(sizes).sum(axis=1)
    if right.shape[1] == 1:
        below = denominators[:, 0, 0] + rounding
        return np.where(below > 0, numerators[:, 0, 0] ** 2 / np.maximum(below, 1e-300), 0.0) * (1 - ROUNDING)
    size = np.trace(denominators, axis1=1, axis2=2)
    floor = (rounding + 1e-10 * size + 1e-300)[:, None, None] * np.eye(right.shape[1])
    symmetric = (denominators + np.swapaxes(denominators, 1, 2)) / 2 + floor
    forms = numerators @ np.linalg.solve(symmetric, np.swapaxes(numerators, 1, 2))
    least = np.linalg.eigvalsh((forms + np.swapaxes(forms, 1, 2)) / 2)[:, 0]
    return np.asarray(np.maximum(least * (1 - 1e-5), 0.0))
