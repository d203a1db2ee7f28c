r"""All genies at once: what others leave of a row with few values, by one linear system for all rows.

A *genie* is a helper of the attacker who tells more than is published. Genie e = (row i, values a and b)
tells every other row, and the value of row i unless it is a or b. What it cannot tell is

.. math:: u_e = 1[x_i \in \{a, b\}]\,\bigl(1[x_i = b] - P(x_i = b \mid \text{all that it tells}, y)\bigr),

whose mean given the answers y is 0. So :math:`\mathbb E[g\,u_e] = \mathbb E[(g - \mathbb E[g \mid y])\,u_e]`
for every g, and by the Cauchy–Schwarz inequality, for all genies together and all weights
:math:`\lambda`,

.. math:: \mathbb E \operatorname{Var}(g \mid y) \ge \frac{(\lambda^\top c)^2}{\lambda^\top C \lambda}, \qquad
    c_e = \mathbb E[g\,u_e], \quad C_{ef} = \mathbb E[u_e u_f],

at best :math:`c^\top C^{-1} c`. One genie alone is the attacker who knows all others. Any set of genies
gives a bound: rows without one count as known. For several features at once it holds as an inequality of
matrices.

**Gaussian noise.** Let d be the change of the answers from a to b over the noise, :math:`G_e = |d|^2` and
:math:`\rho_{ef} = d_e^\top d_f/\sqrt{G_e G_f}`. Given :math:`x_i`, the genie's log-odds are
:math:`\ln(p_b/p_a) \pm G_e/2 + \sqrt{G_e}\,z_e`, with z standard normal of the correlations
:math:`\rho`. With the coefficients :math:`\alpha_n` of :math:`u_e` in the normalised Hermite polynomials
(Mehler's formula), averaged over :math:`x_i` for two different rows, and at the value that both can be for
two genies of one row,

.. math:: C_{ef} = \sum_n \rho_{ef}^n\, \bar\alpha_n(e)\, \bar\alpha_n(f), \qquad
    C_{ef} = \sum_v p_v \sum_n \rho_{ef}^n\, \alpha_n^v(e)\, \alpha_n^v(f).

The sums end after :data:`TERMS` terms. What is left out of an entry is at most
:math:`|\rho|^{N+1} \sqrt{t_e t_f}` with the rest t of the coefficients' squares; by Gershgorin's theorem the
sums of these over a line, added to the diagonal, make C no smaller than it is. The bound is evaluated for the
:math:`\lambda` that was computed, so that an inexact inverse can only make it weaker.

**Rows alike.** n rows of one kind have one system for their sum, and :math:`D - T` for what differs between
them: D is C within a row, T between two of them.
"""

from __future__ import annotations

import itertools
from functools import cached_property

import numpy as np
import scipy

from sightline.arrays import ROUNDING, FloatArray, IndexArray
from sightline.values import frozen

TERMS = 48  # of the Hermite series; the rest is bounded
# Moves that noise tells apart by more leave less than e^-25 of a coin: their genies are left out.
MOST_TOLD = 200.0
_REACH = 12.0  # of the trapezoidal rule, in standard deviations: beyond it the normal density is below e^-72
# Entries of C are sums of products of numbers below 1, of errors below this in all.
_ENTRY = 1e-14
_NOTHING = 1e-12  # information below which the derivative by it is that at this one


def hermite_coefficients(information: FloatArray, odds: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Sides × terms × genies: the coefficients of u in the normalised Hermite polynomials; sides × sides ×
    genies: mean products of u, given the same noise. The sides are the first and the second of two values.

    By the trapezoidal rule: the nearest pole of the logistic function is :math:`\pi/\sqrt G` from the line,
    so that steps of h err by :math:`e^{-2\pi^2/(h\sqrt G)}`, which is below e^-43.
    """
    table, masses, sides, _, number_of = _quadrature(information, odds)
    alpha, products = (table * masses) @ sides, masses @ (sides[:, None] * sides)
    return alpha[:, :, number_of], products[:, :, number_of]


def hermite_slopes(information: FloatArray, odds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The derivatives of the same by the information."""
    table, masses, sides, slopes, number_of = _quadrature(information, odds)
    alpha = (table * masses) @ slopes
    products = masses @ (sides[:, None] * slopes + slopes[:, None] * sides)
    return alpha[:, :, number_of], products[:, :, number_of]


def _quadrature(
    information: FloatArray, odds: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, IndexArray]:
    """Polynomials × nodes, the masses of the nodes, sides × nodes × different genies: u and its derivative;
    and which of these every genie is.
    """
    both = np.stack([information.ravel(), odds.ravel()])
    values, number_of = np.unique(both, axis=1, return_inverse=True)
    G, tilt = values[:, None]
    step = min(0.125, 0.45 / np.sqrt(max(1.0, float(G.max(initial=0.0)))))
    nodes = np.arange(-_REACH, _REACH + step, step)
    masses = np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi) * step
    table = np.ones((TERMS + 1, nodes.size))
    table[1] = nodes
    for n in range(2, TERMS + 1):
        table[n] = (nodes * table[n - 1] - np.sqrt(n - 1) * table[n - 2]) / np.sqrt(n)
    shift = np.sqrt(G) * nodes[:, None]
    sides = np.stack([-_logistic(tilt - G / 2 + shift), _logistic(-tilt - G / 2 - shift)])
    steepness = np.abs(sides) * (1 - np.abs(sides))
    moved = nodes[:, None] / (2 * np.sqrt(np.maximum(G, _NOTHING)))
    slopes = np.stack([-steepness[0] * (moved - 0.5), steepness[1] * (-moved - 0.5)])
    return table, masses, sides, slopes, number_of.reshape(information.shape)


@frozen(slots=False)
class Genies:
    """Kinds of rows with a few values each, and a genie for every two values of every kind."""

    columns: FloatArray  # kinds × values × numbers: what a row adds to the answers, over their noise
    chances: FloatArray  # of the values
    counts: FloatArray  # rows of each kind
    usable: FloatArray  # kinds × values × values: whether noise of a known law hides the change

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """The two values of each genie of a row."""
        return list(itertools.combinations(range(self.chances.size), 2))

    @cached_property
    def _moves(self) -> FloatArray:
        """Kinds · pairs × numbers: the changes d, one kind after the other."""
        first, second = np.array(self.pairs).T
        moves = self.columns[:, second] - self.columns[:, first]
        return np.asarray(moves.reshape(len(self.columns) * len(self.pairs), -1))

    @cached_property
    def _used(self) -> FloatArray:
        """1 for genies that are used, else 0."""
        first, second = np.array(self.pairs).T
        usable = np.asarray(self.usable[:, first, second]).ravel() > 0
        return np.asarray(usable & (np.square(self._moves).sum(axis=1) <= MOST_TOLD), dtype=np.float64)

    @cached_property
    def _gram(self) -> FloatArray:
        return np.asarray(self._moves @ self._moves.T)

    @cached_property
    def _coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Those of all genies."""
        return hermite_coefficients(np.diagonal(self._gram) * self._used, self._odds)

    @cached_property
    def _side_chances(self) -> tuple[FloatArray, FloatArray]:
        """Of every genie, the chances of its two values."""
        first, second = np.array(self.pairs).T
        kinds = len(self.columns)
        return np.tile(self.chances[first], kinds), np.tile(self.chances[second], kinds)

    @cached_property
    def _odds(self) -> FloatArray:
        p, q = self._side_chances
        return np.log(q / p)

    @cached_property
    def left_alone(self) -> FloatArray:
        """f of every genie: the mean square of u, which is also its product with the second indicator."""
        products, (p, q) = self._coefficients[1], self._side_chances
        return np.asarray((p * products[0, 0] + q * products[1, 1]) * self._used)

    @cached_property
    def _between(self) -> tuple[FloatArray, FloatArray]:
        """Genies × genies: C for two different rows, and a bound on the error of every entry."""
        alpha, products = self._coefficients
        p, q = self._side_chances
        mean = (p * alpha[0] + q * alpha[1]) * self._used
        square = (p**2 * products[0, 0] + 2 * p * q * products[0, 1] + q**2 * products[1, 1]) * self._used
        size = np.sqrt(np.maximum(np.diagonal(self._gram), 1e-300))
        # Genies of rows in different numbers, and of moves without a common value, have nothing in common:
        # of 40 categories in 20 groups that is most of the table.
        gram = self._gram * self._used[:, None] * self._used
        e, f = np.nonzero(np.triu(gram, k=1))
        rho = np.clip(gram[e, f] / (size[e] * size[f]), -1.0, 1.0)
        # Terms that are left out beyond these are at most 1e-12 of an entry, where rows are not alike.
        rests = np.sqrt(np.maximum(square - np.cumsum(mean**2, axis=0), 0.0) + 1e-16)
        largest = float(np.max(np.abs(rho), initial=0.0))
        small = largest ** np.arange(1, TERMS + 2) * np.square(rests.max(axis=1)) < 1e-12
        last = int(np.argmax(small)) if small.any() else TERMS
        # Of fair coins the even terms vanish, up to rounding: then a series in the square of ρ is enough.
        fair = bool(np.all(np.abs(mean[::2]) < 1e-15))
        last += 1 - last % 2 if fair and last < TERMS else 0
        ratio = rho * rho if fair else rho
        terms = range(last - 1 + last % 2, -1, -2) if fair else range(last, -1, -1)
        series = np.zeros_like(rho)
        for n in terms:
            series *= ratio
            series += mean[n][e] * mean[n][f]
        if fair:
            series *= rho
        rest = rests[last]
        total, error = np.zeros((2, *gram.shape))
        total[e, f] = total[f, e] = series
        error[e, f] = error[f, e] = np.abs(rho) ** (last + 1) * (rest[e] * rest[f]) + _ENTRY
        # Of two rows alike ρ is 1: the mean square is the sum of all terms.
        np.fill_diagonal(total, square)
        np.fill_diagonal(error, _ENTRY)
        return total, error

    @cached_property
    def _within(self) -> tuple[FloatArray, FloatArray]:
        """Kinds × genies × genies: the same for the genies of one row of every kind."""
        number, kinds = len(self.pairs), len(self.columns)
        alpha, products = self._coefficients
        alpha = alpha.reshape(2, TERMS + 1, kinds, number)
        squares = products[[0, 1], [0, 1]].reshape(2, kinds, number)
        rests = np.sqrt(np.maximum(squares - np.sum(alpha**2, axis=1), 0.0) + 1e-16)
        matrix, error = np.zeros((2, kinds, number, number))
        matrix[:, np.arange(number), np.arange(number)] = self.left_alone.reshape(kinds, number)
        for e, f, first, second, rho, both in self._sharing:
            total = np.zeros((kinds, e.size))
            for n in range(TERMS, -1, -1):
                total *= rho
                total += alpha[first, n][:, e] * alpha[second, n][:, f]
            left_out = np.abs(rho) ** (TERMS + 1) * rests[first][:, e] * rests[second][:, f]
            matrix[:, e, f] = matrix[:, f, e] = both * total
            error[:, e, f] = error[:, f, e] = both * left_out + _ENTRY
        return matrix, error

    @cached_property
    def _sharing(self) -> list[tuple[IndexArray, IndexArray, int, int, FloatArray, FloatArray]]:
        """Two genies of one row that have a value in common, which is the first or second of each; kinds ×
        these: their correlation, and the chance of that value if both are used.
        """
        number, kinds = len(self.pairs), len(self.columns)
        used = self._used.reshape(kinds, number)
        size = np.sqrt(np.maximum(np.diagonal(self._gram), 1e-300)).reshape(kinds, number)
        values, places, sharing = np.array(self.pairs).T, np.arange(kinds)[:, None], []
        for first, second in itertools.product(range(2), repeat=2):
            e, f = np.nonzero(np.triu(values[first][:, None] == values[second], k=1))
            rho = self._gram[places * number + e, places * number + f] / (size[:, e] * size[:, f])
            both = self.chances[values[first, e]] * used[:, e] * used[:, f]
            sharing.append((e, f, first, second, np.clip(rho, -1.0, 1.0), both))
        return sharing

    @cached_property
    def _systems(self) -> tuple[FloatArray, FloatArray]:
        """The system of the sums of all kinds, and kinds × that of what differs between rows of one: both no
        smaller than they are. Genies that are not used have a line of the unit matrix.
        """
        between, error = self._between
        number, roots = len(self.pairs), np.sqrt(np.repeat(self.counts, len(self.pairs)))
        unused = np.diag(1 - self._used)
        differences = np.zeros((len(self.columns), number, number))
        together, errors = between * roots[:, None] * roots, error * roots[:, None] * roots
        for kind, (inside, off) in enumerate(zip(*self._within, strict=True)):
            own = slice(kind * number, (kind + 1) * number)
            others = self.counts[kind] - 1
            together[own, own] = inside + others * between[own, own]
            errors[own, own] = off + others * error[own, own]
            # What differs between rows sums up to 0: of n rows no entry counts more than n times.
            spread = off + self.counts[kind] * error[own, own]
            differences[kind] = inside - between[own, own] + np.diag(spread.sum(axis=1)) + unused[own, own]
        together += np.diag(errors.sum(axis=1)) + unused
        return together, differences

    @cached_property
    def _products(self) -> FloatArray:
        """Genies × values: c of the indicator of every value."""
        number, values = len(self.pairs), self.chances.size
        signs = np.zeros((number, values))
        for pair, (first, second) in enumerate(self.pairs):
            signs[pair, first], signs[pair, second] = -1.0, 1.0
        return self.left_alone[:, None] * np.tile(signs, (len(self.columns), 1))

    @cached_property
    def _apart(self) -> FloatArray:
        """Kinds × genies × values: the weights for a difference between two rows of a kind."""
        _, differences = self._systems
        return np.asarray(np.linalg.solve(differences, self._products.reshape(*differences.shape[:2], -1)))

    def _weights(self, value: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        r"""Three things about the indicator of a value: genies × kinds, the weights :math:`\lambda` for the
        sum over the rows of a kind, and :math:`C \lambda`; and kinds, what is left of every difference
        between two rows of a kind.
        """
        number, kinds = len(self.pairs), len(self.columns)
        if value not in self._weights_of:
            # As many values at a time as one product of matrices is fast for, and no more than memory holds.
            at_a_time = max(1, len(self._used) // kinds)
            together = self._systems[0]
            scale = 1 / np.sqrt(np.diagonal(together))
            first = value - value % at_a_time
            values = np.arange(first, min(first + at_a_time, self.chances.size))
            right = np.zeros((kinds * number, values.size, kinds))
            lines, own_kind = np.arange(kinds * number), np.repeat(np.arange(kinds), number)
            right[lines, :, own_kind] = self._products[:, values]
            weights = scale[:, None] * scipy.linalg.cho_solve(
                self._factor,
                scale[:, None] * right.reshape(kinds * number, -1),
                overwrite_b=True,
                check_finite=False,
            )
            image = (together @ weights).reshape(right.shape)
            weights = weights.reshape(right.shape)
            for column, each in enumerate(values.tolist()):
                self._weights_of[each] = weights[:, column], image[:, column], self._apart_left(each)
        return self._weights_of[value]

    def _apart_left(self, value: int) -> FloatArray:
        """Kinds: what is left of every difference between two rows of a kind."""
        _, differences = self._systems
        product = self._products[:, value].reshape(len(self.columns), -1)
        alone = self._apart[:, :, value]
        numerator = np.sum(alone * product, axis=1) ** 2
        denominator = np.einsum("ke,kef,kf->k", alone, differences, alone)
        return np.where(denominator > 0, numerator / np.where(denominator > 0, denominator, 1.0), 0.0)

    @cached_property
    def _weights_of(self) -> dict[int, tuple[FloatArray, FloatArray, FloatArray]]:
        """By value, those that were asked for, and those that were solved with them."""
        return {}

    @cached_property
    def _factor(self) -> tuple[FloatArray, bool]:
        """The Cholesky factor of the system over its diagonal. Any weights are valid: what rounding makes
        indefinite gets a little more on the diagonal.
        """
        together = self._systems[0]
        scale = 1 / np.sqrt(np.diagonal(together))
        matrix = together * (scale[:, None] * scale)
        for more in (0.0, 1e-12, 1e-9, 1e-6):
            try:
                factor = scipy.linalg.cho_factor(
                    matrix + more * np.eye(len(matrix)), lower=True, check_finite=False
                )
            except scipy.linalg.LinAlgError:
                continue
            return np.asarray(factor[0]), True
        return np.eye(len(matrix)), True

    def of_rows(self, value: int) -> FloatArray:
        """For every kind at most the share that remains of the indicator of a value of one row."""
        return np.asarray(self.of_persons(value, np.arange(len(self.counts))[:, None], np.array(1)))

    def of_persons(self, value: int, kinds: IndexArray, times: IndexArray) -> FloatArray:
        """For every person, of so many kinds of rows each and so many rows of every kind, at most the share
        that remains of the indicators of a value in the direction that is seen best.
        """
        weights, image, apart = self._weights(value)
        numerators, scale, rest, r = self._forms(value, kinds, times)
        if kinds.shape[1] == 1:
            system = np.einsum("gk,gk->k", weights, image)[kinds[:, 0], None, None]
        else:
            system = np.stack([weights[:, rows].T @ image[:, rows] for rows in kinds])
        denominators = system * scale + rest
        if kinds.shape[1] == 1:
            below = np.maximum(denominators[:, 0, 0], 1e-300)
            least = np.where(denominators[:, 0, 0] > 0, numerators[:, 0, 0] ** 2 / below, 0.0)
        else:
            least = _least_eigenvalues(numerators, denominators)
        several = np.where(r > 1, apart[kinds], np.inf).min(axis=1)
        least = np.minimum(least, several) / self._variance(value)
        return np.asarray(np.maximum(least * (1 - ROUNDING), 0.0))

    def _variance(self, value: int) -> float:
        return float(self.chances[value] * (1 - self.chances[value]))

    def _forms(
        self, value: int, kinds: IndexArray, times: IndexArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Persons × rows × rows: what remains of their rows, the shares in the sums of their kinds, and what
        remains beside these; and persons × rows, how many rows of each.
        """
        weights, _, apart = self._weights(value)
        number = len(self.pairs)
        n = self.counts[kinds]
        r = np.broadcast_to(np.asarray(times, dtype=np.float64), n.shape)
        root = np.sqrt(r / n)
        scale = root[:, :, None] * root[:, None, :]
        rest = ((1 - r / n) * apart[kinds])[:, :, None] * np.eye(kinds.shape[1])
        # cᵀλ reads the genies of the rows themselves, λᵀCλ all.
        product = self._products[:, value].reshape(-1, number)
        weights_of_person = weights.reshape(-1, number, weights.shape[1])[
            kinds[:, :, None], :, kinds[:, None, :]
        ]
        numerators = np.einsum("pie,pije->pij", product[kinds], weights_of_person) * scale + rest
        return numerators, scale, rest, r

    def slopes(self, value: int, kinds: IndexArray, times: IndexArray) -> FloatArray:
        r"""Persons × numbers: the derivatives of :meth:`of_persons` by the logarithms of the precisions.

        With :math:`\lambda = C^{-1} c` the derivative of :math:`c^\top C^{-1} c` is
        :math:`2\lambda^\top dc - \lambda^\top dC\, \lambda`, and C and c follow the products
        :math:`d_e^\top d_f`, each a sum over the numbers.
        """
        weights, _, apart = self._weights(value)
        numerators, _, _, r = self._forms(value, kinds, times)
        lengths, directions = np.linalg.eigh((numerators + numerators.swapaxes(1, 2)) / 2)
        by_kind = np.where(r > 1, apart[kinds], np.inf)
        persons, n = np.arange(len(kinds)), self.counts[kinds]
        alone = by_kind.min(axis=1) < lengths[:, 0]
        squares = np.where(alone[:, None], 0.0, directions[:, :, 0] ** 2)
        in_sums, in_rest = np.zeros((2, len(self.counts), len(kinds)))
        roots = np.where(alone[:, None], 0.0, directions[:, :, 0] * np.sqrt(r / n))
        np.add.at(in_sums, (kinds, persons[:, None]), roots)
        np.add.at(in_rest, (kinds, persons[:, None]), squares * (1 - r / n))
        in_rest[kinds[persons, by_kind.argmin(axis=1)], persons] += alone
        return self._slopes(value, weights @ in_sums, in_sums, in_rest) / self._variance(value)

    def _slopes(
        self, value: int, weights: FloatArray, in_sums: FloatArray, in_rest: FloatArray
    ) -> FloatArray:
        """Targets × numbers, of genies × targets: the weights; and kinds × targets: how much of each kind's
        sum is asked about, and of the differences between its rows.
        """
        number, kinds = len(self.pairs), len(self.columns)
        alone_slopes, square_slopes, by_own, by_product = self._between_slopes
        many = np.sqrt(np.repeat(self.counts, number))[:, None] * weights
        apart = self._apart[:, :, value].reshape(-1, 1)
        sums, rest = np.repeat(in_sums, number, axis=0), np.repeat(in_rest, number, axis=0)
        sign = np.sign(self._products[:, value])[:, None]
        # By each genie's own information.
        own = 2 * alone_slopes[:, None] * sign * (weights * sums + apart * rest)
        own -= 2 * many * (by_own @ many) + many**2 * square_slopes[:, None]
        own -= (weights**2 + apart**2 * rest) * (alone_slopes - square_slopes)[:, None]
        moves = self._moves
        found = np.zeros((weights.shape[1], moves.shape[1]))
        # By the products of two genies, of different rows and then of one.
        for place in range(moves.shape[1]):
            moved = np.flatnonzero(moves[:, place])
            change = moves[moved, place]
            matrix = by_product[np.ix_(moved, moved)] * (change[:, None] * change)
            some = many[moved]
            found[:, place] -= np.einsum("et,et->t", some, matrix @ some)
        lines = np.arange(kinds)[:, None] * number
        for e, f, in_row, of_first, of_second in self._within_slopes:
            first, second = (lines + e).ravel(), (lines + f).ravel()
            both = weights[first] * weights[second] + apart[first] * apart[second] * rest[first]
            one_row = (in_row.ravel() - by_product[first, second])[:, None] * both
            found -= 2 * one_row.T @ (moves[first] * moves[second])
            np.subtract.at(own, first, 2 * both * (of_first.ravel() - by_own[first, second])[:, None])
            np.subtract.at(own, second, 2 * both * (of_second.ravel() - by_own[second, first])[:, None])
        return np.asarray(found + own.T @ moves**2)

    @cached_property
    def _between_slopes(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """The derivatives of what is left alone and of the mean square by the information; and genies ×
        genies, those of C for two different rows: by the information of the first, and by their product.
        """
        alpha = self._coefficients[0]
        alpha_slopes, slopes = self._coefficient_slopes
        p, q = self._side_chances
        alone = (p * slopes[0, 0] + q * slopes[1, 1]) * self._used
        square = (p**2 * slopes[0, 0] + 2 * p * q * slopes[0, 1] + q**2 * slopes[1, 1]) * self._used
        mean, mean_slope = ((p * one[0] + q * one[1]) * self._used for one in (alpha, alpha_slopes))
        size = np.sqrt(np.maximum(np.diagonal(self._gram), _NOTHING))
        rho = np.clip(self._gram / (size[:, None] * size), -1.0, 1.0)
        by_own, by_rho = np.zeros((2, *rho.shape))
        for n in range(TERMS, -1, -1):
            by_own = by_own * rho + np.multiply.outer(mean_slope[n], mean[n])
            by_rho = (
                by_rho * rho + (n + 1) * np.multiply.outer(mean[n + 1], mean[n + 1]) if n < TERMS else by_rho
            )
        by_own -= rho * by_rho / (2 * size[:, None] ** 2)
        by_product = by_rho / (size[:, None] * size)
        np.fill_diagonal(by_own, 0.0)
        np.fill_diagonal(by_product, 0.0)
        return alone, square, by_own, by_product

    @cached_property
    def _coefficient_slopes(self) -> tuple[FloatArray, FloatArray]:
        return hermite_slopes(np.diagonal(self._gram) * self._used, self._odds)

    @cached_property
    def _within_slopes(
        self,
    ) -> list[tuple[IndexArray, IndexArray, FloatArray, FloatArray, FloatArray]]:
        """Two genies of one row, and kinds × these: the derivatives of C by their product, and by the
        information of the first and of the second. Of those without a common value C is 0.
        """
        number, kinds = len(self.pairs), len(self.columns)
        shape = 2, TERMS + 1, kinds, number
        alpha, slope = (one.reshape(shape) for one in (self._coefficients[0], self._coefficient_slopes[0]))
        information = np.maximum(np.diagonal(self._gram), _NOTHING).reshape(kinds, number)
        listed = []
        for e, f, first, second, rho, both in self._sharing:
            by_rho, of_first, of_second = np.zeros((3, kinds, e.size))
            for n in range(TERMS, -1, -1):
                if n:
                    by_rho = by_rho * rho + n * alpha[first, n][:, e] * alpha[second, n][:, f]
                of_first = of_first * rho + slope[first, n][:, e] * alpha[second, n][:, f]
                of_second = of_second * rho + alpha[first, n][:, e] * slope[second, n][:, f]
            of_first -= rho * by_rho / (2 * information[:, e])
            of_second -= rho * by_rho / (2 * information[:, f])
            by_product = by_rho / np.sqrt(information[:, e] * information[:, f])
            listed.append((e, f, both * by_product, both * of_first, both * of_second))
        values = np.array(self.pairs).T
        common = (values[:, None, :, None] == values[None, :, None, :]).any(axis=(0, 1))
        e, f = np.nonzero(np.triu(~common, k=1))
        return [*listed, (e, f, *np.zeros((3, kinds, e.size)))] if e.size else listed


def _least_eigenvalues(numerators: FloatArray, denominators: FloatArray) -> FloatArray:
    r"""Of :math:`K S^{-1} K^\top` for many small matrices: at least 0, and 0 where S is singular."""
    size = np.maximum(np.diagonal(denominators, axis1=1, axis2=2), 0.0).max(axis=1)
    floor = (1e-13 * size + 1e-300)[:, None, None] * np.eye(numerators.shape[1])
    symmetric = (denominators + denominators.swapaxes(1, 2)) / 2 + floor
    solved = np.linalg.solve(symmetric, numerators.swapaxes(1, 2))
    forms = numerators @ solved
    least = np.linalg.eigvalsh((forms + forms.swapaxes(1, 2)) / 2)[:, 0]
    return np.asarray(np.maximum(least - 1e-10, 0.0))


def _logistic(log_odds: FloatArray) -> FloatArray:
    small = np.exp(-np.abs(log_odds))
    return np.asarray(np.where(log_odds >= 0, 1.0, small) / (1 + small))
