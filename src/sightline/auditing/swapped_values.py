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
from functools import lru_cache

import numpy as np
from scipy.stats import binom

from sightline.arrays import FloatArray
from sightline.auditing.design import LinearDesign
from sightline.labeled.bounds.chord import MOST_MOVED, chord_bound
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
    _, group = np.unique(columns[linear.exact], axis=1, return_inverse=True)
    gaussian = not laplace_rows(design.law)[noisy].any()
    for place, column in enumerate(unknown):
        others = np.flatnonzero(group.ravel() == group.ravel()[place])
        counts = linear.counts[unknown[others]] - (others == place)
        apart = np.sum((seen[:, others] - seen[:, [place]]) ** 2, axis=0) * (1 + _ROUNDING)
        order = np.argsort(apart, kind="stable")
        order = order[counts[order] > 0]
        for last in np.unique(np.geomspace(1, max(1, order.size), _MOST_CHOICES).astype(np.intp)):
            chosen = order[:last]
            if not chosen.size:
                break
            number, distances = counts[chosen].astype(np.float64), apart[chosen]
            if isinstance(prior, TwoPointPrior):
                bound = coin_bound(number, distances)
            else:
                moved = seen[:, others[chosen]] @ (number / number.sum()) - seen[:, place]
                bound = _uniform_bound(float(number.sum()), float(moved @ moved), gaussian=gaussian)
            found[column] = max(found[column], bound)
    return found


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
    chances = binom.pmf(ones, number - 1, 0.5)
    return float(number / 2 * np.sum(chances / np.maximum(number - ones, ones + 1))) * (1 - 1e-9)


def _uniform_bound(number: float, information: float, *, gaussian: bool) -> float:
    """The bound for a uniform number on a domain of width 1, if the others fall by 1/m each."""
    if number > MOST_MOVED:
        return 0.0
    found = chord_bound(
        np.array([1 / number]), np.array([number]), information * (1 + _ROUNDING) + 1e-300, gaussian=gaussian
    )
    return 12 * found * (1 - MARGIN) if math.isfinite(found) else 0.0
