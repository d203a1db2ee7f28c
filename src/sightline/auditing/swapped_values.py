r"""What remains of a record in exact numbers, if other records are in the same ones.

Let the records :math:`K` be in exactly the exact numbers that record j is in, as often as j. Values that move
from one of them to another leave every exact number as it is. Numbers with noise see the move as
:math:`g_{jk} = \sum_\ell (a_{\ell j} - a_{\ell k})^2 / s_\ell^2`.

*A yes or no.* Tell the attacker a partner k in K with another value than j's, and all values but these two.
The partner is drawn so that both ways round are as likely: with m others, o of them without k a yes, k is
drawn with the probability :math:`1/\max(m - o,\, o + 1)`. If none is drawn, tell everything. Then

.. math:: \frac{R_j}{v} \ge \frac{c_m}{m} \sum_{k \in K} f(g_{jk}), \qquad
    c_m = \frac m2\, \mathbb E\, \frac{1}{\max(m - O,\, O + 1)}, \quad O \sim \mathrm{Bin}(m - 1, \tfrac12)

with the scalar risk f of a coin over its variance.

*A uniform number.* Tell one line, along which j rises and all of K fall by 1/m of it: bound 4 of the theory
page on priors. Every choice of K gives a bound: the records that noise tells apart least come first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.design import LinearDesign
from sightline.labeled.bounds.chord import MOST_MOVED, chord_bounds
from sightline.labeled.bounds.scalar_risk import MARGIN
from sightline.labeled.bounds.tables import two_point_table
from sightline.labeled.bounds.two_point import TwoPointPrior
from sightline.labeled.bounds.uniform import UniformPrior
from sightline.noise.mixed import laplace_rows

# Columns, and rows × columns, of designs that are looked at.
_MOST_COLUMNS, _MOST_ENTRIES = 1_000, 1_000_000
_MOST_CHOICES = 8  # sets K that are tried for a record
_ROUNDING = 1e-9  # of an information: far more than the sums of its squares can lose


def swap_bounds(linear: LinearDesign) -> FloatArray:
    """At most the remaining uncertainty of every column; 0 where nothing is shown."""
    design, prior = linear.design, linear.prior.of_column
    found = np.zeros(linear.known.size)
    unknown = np.flatnonzero(~linear.known[: design.size])
    large = unknown.size > _MOST_COLUMNS or unknown.size * design.row_count > _MOST_ENTRIES
    if linear.blocks > 1 or large or not isinstance(prior, UniformPrior | TwoPointPrior):
        return found
    columns = design.incidence.columns(unknown)
    noisy = np.flatnonzero(~linear.exact)
    seen = columns[noisy] * (design.whitening[noisy, None] * prior.width)
    group = np.unique(columns[linear.exact], axis=1, return_inverse=True)[1].ravel()
    gaussian = not laplace_rows(design.law)[noisy].any()
    choices = [choice for place in range(unknown.size) for choice in _choices(linear, seen, group, place)]
    if not choices:
        return found
    if isinstance(prior, TwoPointPrior):
        bounds = np.array([coin_bound(choice.counts, choice.apart) for choice in choices])
    else:
        numbers = np.array([choice.counts.sum() for choice in choices])
        together = np.array([choice.together for choice in choices])
        bounds = _uniform_bounds(numbers, together, gaussian=gaussian)
    np.maximum.at(found, unknown[[choice.place for choice in choices]], bounds)
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Choice:
    """A set K for one column: records of each column in it, and how far noise tells the column from them."""

    place: int  # of the column among the unknown ones
    counts: FloatArray
    apart: FloatArray  # from each column of K
    together: float  # from their mean


def _choices(linear: LinearDesign, seen: FloatArray, group: IndexArray, place: int) -> Iterator[_Choice]:
    """The sets K that are tried for a column: those that noise tells apart least come first."""
    unknown = np.flatnonzero(~linear.known[: linear.design.size])
    others = np.flatnonzero(group == group[place])
    counts = linear.counts[unknown[others]] - (others == place)
    apart = np.sum((seen[:, others] - seen[:, [place]]) ** 2, axis=0) * (1 + _ROUNDING)
    order = np.argsort(apart, kind="stable")
    order = order[counts[order] > 0]
    if not order.size:
        return
    for last in np.unique(np.geomspace(1, order.size, _MOST_CHOICES).astype(np.intp)):
        chosen = order[:last]
        number = counts[chosen].astype(np.float64)
        moved = seen[:, others[chosen]] @ (number / number.sum()) - seen[:, place]
        yield _Choice(place=place, counts=number, apart=apart[chosen], together=float(moved @ moved))


def coin_bound(counts: FloatArray, apart: FloatArray) -> float:
    """The bound for a yes or no: so many possible partners at each information g.

    >>> round(coin_bound(np.array([1.0]), np.array([0.0])), 6)  # the sum of two is known
    0.5
    """
    number = float(counts.sum())
    risks = 4 * two_point_table().lower(apart)
    return float(counts @ risks) / number * _drawn(int(number)) * (1 - MARGIN)


@lru_cache(maxsize=4096)
def _drawn(number: int) -> float:
    r""":math:`c_m`, rounded down: the probability that there is a partner."""
    if number > 10_000:  # fewer partners than there are give a bound, too
        return _drawn(10_000)
    ones = np.arange(number)
    steps = np.log((number - ones[1:]) / ones[1:])  # one more yes among number - 1 is so much likelier
    chances = np.exp(np.append(0.0, np.cumsum(steps)) - (number - 1) * math.log(2))
    return float(number / 2 * np.sum(chances / np.maximum(number - ones, ones + 1))) * (1 - 1e-9)


def _uniform_bounds(numbers: FloatArray, information: FloatArray, *, gaussian: bool) -> FloatArray:
    """The bounds for a uniform number on a domain of width 1, if the others fall by 1/m each."""
    few = numbers <= MOST_MOVED
    moves, counts = 1 / numbers[few, None], numbers[few, None]
    found = np.zeros(numbers.size)
    found[few] = chord_bounds(moves, counts, information[few] * (1 + _ROUNDING) + 1e-300, gaussian=gaussian)
    return np.where(np.isfinite(found), 12 * found * (1 - MARGIN), 0.0)
