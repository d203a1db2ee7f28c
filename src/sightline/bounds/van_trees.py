r"""The best weighted van Trees bound on the risk of a guess at one number, in closed form.

For any weight :math:`q` with :math:`\mathbb E\,q = 1` whose product with the prior density :math:`p` vanishes
at the ends of the domain, every guess at a number that is seen with Fisher information :math:`I` has the risk

.. math:: R \ge \frac{1}{I\,\mathbb E\,q^2 + \mathbb E\,[((qp)'/p)^2]} .

The best weight solves :math:`-(g'/p)' + I g/p = 1` for :math:`g = qp`, and then the bound is :math:`w(I) =
\int g`. It needs nothing but the information: it holds for every noise with that information, and for records
that are unknown, whose effect is to lower it. The *precision* :math:`D(I) = 1/w(I) - I` is what the prior
adds to the information; it rises from :math:`1/v` to the prior's own Fisher information. The domain here has
width 1. Derivations: the theory page on priors.

A lower bound for a uniform value among uniform others: tell the attacker one line through the records.

Let d be a direction with :math:`d_j = 1` and :math:`|d_k| \le 1`. An attacker who is told the line
:math:`x + t d` does at least as well. On that line the records lie on a chord of the cube, evenly; what is
left is one uniform number of width L, seen with the information :math:`g = d^\top G d`. So with the scalar
risk f of a uniform number of width 1,

.. math:: R_j \ge \mathbb E\,[L^2 f(L^2 g)], \qquad
    L \sim \ell A''(\ell)\,d\ell \text{ on } (0, 1), \text{ and } L = 1 \text{ with chance }
    \prod_{k \ne j} (1 - |d_k|), \qquad A(\ell) = \prod_k (1 - \ell |d_k|) .

If d is a change of the records that changes no release, this is :math:`\mathbb E L^2/12`, whatever the noise.
Derivation: the theory page on priors.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Self

import numpy as np

from sightline.arrays import ROUNDING, FloatArray
from sightline.bounds.scalar_risk import uniform_table
from sightline.values import frozen

UNIFORM_VARIANCE = 1 / 12
COSINE_VARIANCE = 1 / 12 - 1 / (2 * math.pi**2)
COSINE_INFORMATION = 4 * math.pi**2

# Below this information the closed form cancels: the weight that is best for no information serves there,
# and gives 1/(1/v + a I) with its own a = E q², which is at most w.
_LITTLE_UNIFORM, _SLOPE_UNIFORM = 1e-3, 1.2
# Below this information the closed forms of the cos² density cancel, and a series with so many terms serves.
_LITTLE_COSINE, _TERMS = 4.0, 18
_NEAR_SQUARE = 0.05  # |k²| below which k coth(k/2) is a short series


def uniform_bound(information: FloatArray) -> FloatArray:
    r"""For a uniform number.

    .. math:: w(I) = \frac1I \Bigl(1 - \frac{2}{\sqrt I} \tanh \frac{\sqrt I}{2}\Bigr)

    The best weight is :math:`q \propto 1 - \cosh(\sqrt I x) / \cosh(\sqrt I/2)` on :math:`[-1/2, 1/2]`.

    >>> (12 * uniform_bound(np.array([0.0, 1.0, 100.0]))).round(4).tolist()
    [1.0, 0.9092, 0.096]
    """
    little = information < _LITTLE_UNIFORM
    safe = np.where(little, 1.0, information)
    half = np.sqrt(safe) / 2
    closed = (1 - np.tanh(half) / half) / safe * (1 - ROUNDING)
    return np.where(little, 1 / (1 / UNIFORM_VARIANCE + _SLOPE_UNIFORM * information), closed)


def uniform_precision(information: FloatArray) -> FloatArray:
    r""":math:`D(I) = 1/w(I) - I` of a uniform number, rounded up: about :math:`2\sqrt I`, not a difference.

    >>> uniform_precision(np.array([0.0, 1e8])).round(3).tolist()
    [12.0, 20004.001]
    """
    little = information < _LITTLE_UNIFORM
    safe = np.where(little, 1.0, information)
    half = np.sqrt(safe) / 2
    share = np.tanh(half) / half
    closed = safe * share / (1 - share) * (1 + ROUNDING)
    return np.where(little, 1 / UNIFORM_VARIANCE + (_SLOPE_UNIFORM - 1) * information, closed)


def uniform_precision_slope(information: FloatArray) -> FloatArray:
    r""":math:`D'(I)` of a uniform number: with :math:`r = \sqrt I/2`,

    .. math:: D' = D^2\,\frac{r \coth r + r^2/\sinh^2 r - 2}{32\, r^4} .

    >>> uniform_precision_slope(np.array([0.0, 1e8])).round(6).tolist()
    [0.2, 0.0001]
    """
    # Two terms of the series serve below; just above the closed form has lost all but seven digits.
    little = information < _LITTLE_UNIFORM
    r = np.where(little, 1.0, np.sqrt(information) / 2)
    sinh = np.sinh(np.minimum(r, 300.0))  # its square does not overflow there, and r²/sinh² is nothing
    closed = (r / np.tanh(r) + (r / sinh) ** 2 - 2) / (32 * r**4)
    return np.where(little, 0.2 - information / 350, uniform_precision(information) ** 2 * closed)


def uniform_precision_excess(information: FloatArray) -> FloatArray:
    """How far :func:`uniform_precision` may be above the exact D, over it: it is rounded up."""
    return np.full_like(information, 2 * ROUNDING)


def cosine_precision_excess(information: FloatArray) -> FloatArray:
    """How far :func:`cosine_precision` may be above the exact D, over it: it is rounded up."""
    return np.full_like(information, 4 * ROUNDING)


def cosine_precision(information: FloatArray) -> FloatArray:
    r""":math:`D(I) = 1/w(I) - I` of a number with the cos² density, rounded up: at most its information.

    With :math:`r = k \coth(k/2)` and :math:`k = \sqrt{I - \pi^2}`, which is imaginary below :math:`\pi^2`,

    .. math:: D(I) = \frac{J\,(1 - 4r/I)}{w(I)\,I}, \qquad
        w(I)\,I = 1 - \frac{J}{I}\Bigl(1 - \frac{4r}{I}\Bigr) .

    >>> cosine_precision(np.array([0.0, 1e12])).round(3).tolist()
    [30.607, 39.478]
    """
    little = information < _LITTLE_COSINE
    small, large = np.where(little, information, 0.0), np.where(little, _LITTLE_COSINE, information)
    ratio, _ = _ratio(large)
    share = 1 - 4 * ratio / large
    closed = COSINE_INFORMATION * share / (1 - COSINE_INFORMATION / large * share)
    precision = np.where(little, 1 / _series(small)[0] - small, closed)
    return np.minimum(precision * (1 + ROUNDING), COSINE_INFORMATION)


def cosine_precision_slope(information: FloatArray) -> FloatArray:
    r""":math:`D'(I)` of a number with the cos² density: the derivative of its closed form, or of the series.

    >>> cosine_precision_slope(np.array([0.0, 1e4])).round(8).tolist()
    [0.02787185, 6.497e-05]
    """
    little, J = information < _LITTLE_COSINE, COSINE_INFORMATION
    small, large = np.where(little, information, 0.0), np.where(little, _LITTLE_COSINE, information)
    ratio, change = _ratio(large)
    share, less = 1 - 4 * ratio / large, 4 * (ratio / large - change) / large  # and the share's slope
    left = 1 - J / large * share
    closed = J * less / left + J * share * (J / large) * (less - share / large) / left**2
    w, slope = _series(small)
    return np.where(little, -slope / w**2 - 1, closed)


def cosine_bound(information: FloatArray) -> FloatArray:
    r"""For the cos² density, with :math:`k = \sqrt{I - \pi^2}`, which is imaginary below :math:`\pi^2`.

    .. math:: w(I) = \frac1I\Bigl(1 - \frac{4\pi^2}{I} + \frac{16\pi^2 k \coth(k/2)}{I^2}\Bigr)
        = \frac{1}{I + D(I)}

    The weight 1 gives van Trees' own bound :math:`1/(I + 4\pi^2)`, which is below it.

    >>> (cosine_bound(np.array([0.0, 10.0, 1e4])) / COSINE_VARIANCE).round(4).tolist()
    [1.0, 0.7489, 0.003]
    """
    return (1 - ROUNDING) / (information + cosine_precision(information))


def _ratio(information: FloatArray) -> tuple[FloatArray, FloatArray]:
    r""":math:`k \coth(k/2)` with :math:`k^2 = I - \pi^2`, and its slope; k cot(k/2) where k is imaginary."""
    square = information - math.pi**2
    near, real = np.abs(square) < _NEAR_SQUARE, square >= 0
    half = np.where(near, 1.0, np.sqrt(np.abs(square)) / 2)
    tangent = np.where(real, np.tanh(half), np.tan(half))
    sine = np.where(real, np.sinh(np.minimum(half, 300.0)), np.sin(half))
    ratio = 2 * half / tangent
    change = np.where(real, 1.0, -1.0) * (1 / tangent - half / sine**2) / (4 * half)
    # Of the series in k² the next terms are below 1e-14 of the sum.
    terms = np.array([2.0, 1 / 6, -1 / 360, 1 / 15_120, -1 / 604_800, 1 / 23_950_080])
    small = np.where(near, square, 0.0)  # a large one would overflow
    series = np.polynomial.polynomial.polyval(small, terms)
    slope = np.polynomial.polynomial.polyval(small, np.polynomial.polynomial.polyder(terms))
    return np.where(near, series, ratio), np.where(near, slope, change)


def _series(information: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The bound w of the cos² density below ``_LITTLE_COSINE``, and its slope."""
    moments = _cosine_moments()
    w = np.polynomial.polynomial.polyval(information, moments)
    slope = np.polynomial.polynomial.polyval(information, np.polynomial.polynomial.polyder(moments))
    return np.asarray(w, dtype=np.float64), np.asarray(slope, dtype=np.float64)


@cache
def _cosine_moments() -> FloatArray:
    r"""The first terms :math:`(-1)^p m_p` of :math:`w(I) = \sum_p (-I)^p m_p`.

    The poles of the closed form are at :math:`-\lambda_n` with :math:`\lambda_n = (4n^2 - 1)\,\pi^2`:

    .. math:: w(I) = \sum_{n \ge 1} \frac{\mu_n}{\lambda_n + I}, \qquad
        \mu_n = \frac{256\,n^2}{\pi^2 (4n^2 - 1)^3}, \qquad m_p = \sum_n \frac{\mu_n}{\lambda_n^{p+1}} .

    The first term is the variance. An even number of terms is at most w, and short of it by less than the
    next one: :math:`(4/3\pi^2)^{18}` of the first at the largest information.
    """
    n = np.arange(1, 2_001)[::-1]  # the smallest first
    pole = (4 * n**2 - 1) * math.pi**2
    mass = 256 * n**2 / (math.pi**2 * (4.0 * n**2 - 1) ** 3)
    rest = [float(np.sum(mass / pole ** (p + 1.0))) * (-1) ** p for p in range(1, _TERMS)]
    return np.array([COSINE_VARIANCE, *rest])


MOST_MOVED = 60  # other records that a direction moves
_EDGES = np.linspace(0.0, 1.0, 49)  # of 48 cells of lengths
_BLOCK = 1 << 14  # numbers in an array: 128 kB, a few of which stay in the cache of a core
_rule = cache(np.polynomial.legendre.leggauss)


def chord_bound(moves: FloatArray, counts: FloatArray, information: float, *, gaussian: bool) -> float:
    """One of :func:`chord_bounds`.

    >>> 24 * chord_bound(np.array([1.0]), np.array([1.0]), 0.0, gaussian=True) > 1 - 1e-8
    True
    >>> round(12 * chord_bound(np.array([]), np.array([]), 0.35**-2, gaussian=True), 3)  # all others are told
    0.587
    """
    return float(chord_bounds(moves[None], counts[None], np.array([information]), gaussian=gaussian)[0])


def chord_bounds(
    moves: FloatArray, counts: FloatArray, information: FloatArray, *, gaussian: bool
) -> FloatArray:
    r"""At most :math:`\mathbb E\,[L^2 f(L^2 g)]` on a domain of width 1, for many directions.

    A row of ``moves`` has the :math:`|d_k|` of the others, and the row of ``counts`` how many records move as
    much: 0 for none. In a cell of lengths, :math:`f(\ell^2 g) \ge 1/(\ell^2 g + D)` with the deficit D at the
    cell's end, which is convex in :math:`\ell^2`: by Jensen's inequality its mass and mean of :math:`\ell^2`
    are enough, and these are integrals of polynomials.
    """
    bounds = np.empty(len(moves))
    # A rule of n points is exact up to the degree 2n − 1. The integrands have the degree of B plus 5.
    needed = np.ceil((counts.sum(axis=1) + 6) / 2).astype(np.intp)
    for n in np.unique(needed).tolist():
        chosen, (points, weights) = np.flatnonzero(needed == n), _rule(n)
        step = _BLOCK // (_EDGES.size * n)
        for start in range(0, chosen.size, step):
            some = chosen[start : start + step]
            density = _CellDensity.of(points, weights, moves[some], counts[some])
            bounds[some] = density.bounds(information[some], gaussian=gaussian)
    return bounds


def mean_squares(moves: FloatArray, counts: FloatArray) -> FloatArray:
    r"""The mean of L² for many directions.

    .. math:: \mathbb E\,L^2 = 6 \int_0^1 \ell (1 - \ell) \prod_k (1 - \ell |d_k|)\,d\ell

    >>> float(mean_squares(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0]]))[0].round(9))
    0.5
    """
    lengths, shares = _of_lengths(moves, counts)
    return np.asarray(shares @ (6 * lengths))


def _of_lengths(moves: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lengths ℓ; and of every direction the share of each in the integral over (1 − ℓ) Π (1 − ℓ |d|)."""
    points, weights = _rule(math.ceil((MOST_MOVED + 3) / 2))
    lengths = (1 + points) / 2
    left = np.prod((1 - lengths[:, None] * moves[:, None]) ** counts[:, None], axis=2)
    return lengths, left * (weights / 2 * (1 - lengths))


def chord_slopes(
    moves: FloatArray, counts: FloatArray, information: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""About how much less is left on a chord by the move of one record, for each, and by the information.

    With the tangent of the deficit at the mean of ℓ² a chord leaves :math:`F = \ell^2/(a + h \ell^2)`, where
    h is b times the information. By parts

    .. math:: \mathbb E\,F(L) = \int_0^1 (\ell F)'' (1 - \ell) \prod_k (1 - \ell |d_k|)\,d\ell, \qquad
        (\ell F)'' = \frac{2 a \ell\,(3a - h \ell^2)}{(a + h \ell^2)^3} .

    >>> by_moves, by_information = chord_slopes(np.array([[0.5]]), np.array([[1.0]]), np.array([1e-9]))
    >>> (12 * by_moves).round(3).tolist(), (144 * by_information).round(2).tolist()
    ([[0.5]], [0.8])
    """
    mean = information * mean_squares(moves, counts)
    slope = uniform_precision_slope(mean)
    a, b = (uniform_precision(mean) - slope * mean)[:, None], 1 + slope
    lengths, shares = _of_lengths(moves, counts)
    seen = (b * information)[:, None] * lengths**2
    bent = 2 * a * lengths * (3 * a - seen) / (a + seen) ** 3
    each = lengths / np.maximum(1 - lengths * moves[:, :, None], 1e-9)
    by_moves = np.einsum("dkp,dp->dk", each, bent * shares)
    by_information = b * np.sum(4 * a * lengths**3 * (5 * a - seen) / (a + seen) ** 4 * shares, axis=1)
    return np.asarray(by_moves), np.asarray(by_information)


@frozen
class _CellDensity:
    """The density of the length L in cells: each cell's mass and its integral of ℓ², for some directions."""

    masses: FloatArray  # directions × cells; the last cell is the length 1
    squares: FloatArray

    @classmethod
    def of(cls, points: FloatArray, weights: FloatArray, moves: FloatArray, counts: FloatArray) -> Self:
        half = _EDGES[1] / 2
        lengths = _EDGES[:-1, None] + (1 + points) * half
        moves, counts = moves[:, None, None, :], counts[:, None, None, :]
        density = weights * half * lengths**3 * _second_derivative(lengths, moves, counts)
        whole = np.prod((1 - moves) ** counts, axis=-1)[:, :, 0]
        return cls(
            masses=np.concatenate([density.sum(axis=-1), whole], axis=1),
            squares=np.concatenate([(density * lengths**2).sum(axis=-1), whole], axis=1),
        )

    def bounds(self, information: FloatArray, *, gaussian: bool) -> FloatArray:
        used = self.masses > 0
        mean = self.squares / np.where(used, self.masses, 1.0) * (1 + ROUNDING)
        ends = np.append(_EDGES[1:], 1.0) ** 2 * information[:, None]
        below = mean * information[:, None] + _deficit(ends, gaussian)
        return np.asarray(np.sum(np.where(used, self.masses / below, 0.0), axis=1) * (1 - ROUNDING))


def _deficit(information: FloatArray, gaussian: bool) -> FloatArray:
    """At least 1/f − G, at this information and at every smaller one."""
    van_trees = uniform_precision(information)
    if not gaussian:
        return van_trees
    with np.errstate(divide="ignore"):
        return np.minimum(van_trees, 1 / uniform_table().lower(information) - information)


def _second_derivative(lengths: FloatArray, moves: FloatArray, counts: FloatArray) -> FloatArray:
    """A″ of A = (1 − ℓ) B, where B is the product over the others: a sum of positive terms."""
    shape = np.broadcast_shapes(lengths.shape, moves.shape[:-1])
    total, product, pairs = np.zeros(shape), np.ones(shape), np.zeros(shape)
    # One of the others after another: arrays of all of them would leave the cache, and take twice as long.
    others = list(zip(np.moveaxis(moves, -1, 0), np.moveaxis(counts, -1, 0), strict=True))
    for move, count in others:
        factor = 1 - lengths * move
        total += count * (move / factor)
        product *= factor**count
    for move, count in others:  # S² − Σ r² over the records: each with all others
        rate = move / (1 - lengths * move)
        pairs += count * rate * (total - rate)
    return np.asarray(product * (2 * total + (1 - lengths) * np.maximum(pairs, 0.0)))
