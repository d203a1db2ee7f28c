r"""Lower bounds on the risk of every attack on a hybrid transcript, by two kinds of help to the attacker.

The prior for a target j and a partner k: every value of the group has its place, and an offset from it,
independent, with the cos² density on :math:`[-w, w]`; with probability ½ the values of j and k are exchanged.
Help never raises the least risk, so the mean squared error of any attack on the target is at least each of

- *values told*. Two labelings are left, which no symmetric release tells apart. The attacker decides between
  two values at the distance :math:`g` from answers at the distance :math:`D = g \sqrt{n_{jk}} / (2R
  \sqrt{\kappa})`, where :math:`n_{jk}` subset means have only one of j and k. The least risk is

  .. math:: \frac{g^2}{4} \Bigl(1 - \mathbb E \tanh\bigl(\tfrac{D^2}{4} + \tfrac{D Z}{2}\bigr)\Bigr),
            \qquad Z \sim N(0, 1),

  averaged over the two offsets;
- *labels told*. Van Trees' inequality for the values: :math:`[(\mathbb E\,I(x) + \pi^2 w^{-2})^{-1}]_{jj}`,
  averaged over the two labelings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.bounds.coin import CoinPrior
from sightline.multiset.family import Family
from sightline.multiset.memberships import Memberships
from sightline.multiset.thresholds import step_overlap

# Nodes of the integrals over an offset. They are doubled until the means change by less than this share; the
# last change is the estimate of the error.
_FEWEST_NODES, _MOST_NODES, _CONVERGED = 10, 320, 1e-9
_GAP_NODES = 32  # of the integral over a difference of two offsets
_GAP_ERROR = 1e-6  # more than its error, as a share of the risk without answers; it is deducted
_TOGETHER = 1_000  # groups that are averaged together


def two_point_risk(gap: FloatArray, distance: FloatArray) -> FloatArray:
    r"""The least risk for one of two equally likely values, from Gaussian answers at a whitened distance.

    .. math:: \frac{g^2}{4} \Bigl(1 - \mathbb E \tanh\bigl(\tfrac{D^2}{4} + \tfrac{D Z}{2}\bigr)\Bigr),
              \qquad Z \sim N(0, 1)

    It is :math:`g^2/4` at :math:`D = 0`, where the mean of the two is the best guess. Interpolation in a
    table rounds it down a little.

    >>> two_point_risk(np.array([2.0, 2.0, 2.0]), np.array([0.0, 1.0, 5.0])).round(4).tolist()
    [1.0, 0.7959, 0.019]
    """
    share, _ = CoinPrior().lower_bounds(np.asarray(distance, dtype=np.float64) ** 2, np.ones(()), True)
    return np.asarray(np.asarray(gap) ** 2 / 4 * share)


def places_of(groups: FloatArray, *, bound: float, window: float) -> FloatArray:
    """The places of the prior: the values, moved inwards where the window would leave the domain."""
    return np.clip(groups, window - bound, bound - window)


def label_lower(
    gaps: FloatArray, *, separating: IndexArray, bound: float, kappa: float, window: float
) -> FloatArray:
    """The bound with values told, ``(B, splits)``, for a partner whose place is ``gaps`` away.

    ``separating`` is the number of subset means of each split that have only one of the two.
    """
    u, weights = np.polynomial.legendre.leggauss(_GAP_NODES)
    offsets = 2 * window * u
    # The difference of two offsets has the autocorrelation of the cos² density, a kernel of the thresholds.
    weights = 2 * window * weights * step_overlap(offsets, bandwidth=window, kernel="compact")
    counts, where = np.unique(separating, return_inverse=True)
    slopes = np.sqrt(counts / kappa) / (2 * bound)
    risk = np.empty((len(gaps), len(counts)))
    for start in range(0, len(gaps), _TOGETHER):
        some = slice(start, start + _TOGETHER)
        away = np.abs(gaps[some, None] + offsets)[:, None, :]
        mean = two_point_risk(away, slopes[:, None] * away) @ weights
        risk[some] = mean - _GAP_ERROR * (gaps[some, None] + 2 * window) ** 2 / 4
    return np.maximum(risk, 0.0)[:, where]


def value_lower(  # many parameters: the transcript, its splits and the width of the prior
    places: FloatArray,
    target: int,
    *,
    family: Family,
    memberships: Memberships,
    features: IndexArray,
    releases: int,
    kappa: float,
    window: float,
) -> FloatArray:
    """The bound with labels told, ``(m, B, splits)``: for the group as given at the target's own place, and
    for the target exchanged with record k at place k."""
    m = places.shape[1]
    counts = np.stack([memberships.counts(int(releases - split)) for split in features])
    means = memberships.rows(m)
    inside = np.einsum("cs,sx,sy->cxy", counts.astype(np.float64), means, means)
    prior = (math.pi / window) ** 2
    bound = np.empty((m, len(places), len(features)))
    for start in range(0, len(places), _TOGETHER):
        some = slice(start, start + _TOGETHER)
        for place, mean in enumerate(_mean_information(places[some], family, features, window)):
            for k in range(m):
                order = np.arange(m)
                order[[target, k]] = k, target
                M = (mean[:, order][:, :, order] + inside[place]) / kappa
                bound[k, some, place] = _inverse_entry(M, target, prior)
    return bound


def _mean_information(
    places: FloatArray, family: Family, features: IndexArray, window: float
) -> Iterator[FloatArray]:
    """For each split the mean information of the symmetric releases at κ = 1, ``(B, m, m)``.

    Offsets are independent: off the diagonal it is a product of means. The estimated error of the quadrature
    is added to the diagonal, so that the bound errs downwards.
    """
    B, m = places.shape
    whole = np.zeros((B, m, m))
    if family.nested and features[-1]:
        first, second = _row_means(places, family, int(features[-1]), window)
    for split in features.tolist():
        if split and family.nested:
            one = slice(split - 1, split)
            whole = whole + _outer(first[:, one], second[:, one])
        elif split:
            whole = _outer(*_row_means(places, family, split, window))
        yield whole


def _outer(first: FloatArray, second: FloatArray) -> FloatArray:
    m = first.shape[2]
    whole: FloatArray = np.einsum("blx,bly->bxy", first, first)
    whole[:, range(m), range(m)] = np.sum(second, axis=1)
    return whole


def _row_means(
    places: FloatArray, family: Family, releases: int, window: float
) -> tuple[FloatArray, FloatArray]:
    """The means over the window of the rows' entries and of their squares, ``(B, releases, m)`` each."""
    nodes = _FEWEST_NODES
    first, second = _quadrature(places, family, releases, window, nodes)
    while True:
        nodes *= 2
        rough_first, rough = first, second
        first, second = _quadrature(places, family, releases, window, nodes)
        error = np.abs(second - rough) + places.shape[1] * np.abs(first**2 - rough_first**2)
        if nodes >= _MOST_NODES or np.all(error <= _CONVERGED * np.max(second, axis=1, keepdims=True)):
            return first, second + error


def _quadrature(
    places: FloatArray, family: Family, releases: int, window: float, nodes: int
) -> tuple[FloatArray, FloatArray]:
    u, weights = np.polynomial.legendre.leggauss(nodes)
    weights = weights * np.cos(np.pi * u / 2) ** 2
    first, second = np.zeros((2, len(places), releases, places.shape[1]))
    for offset, weight in zip(window * u, weights / weights.sum(), strict=True):
        rows = family.rows(places + offset, releases)
        first += weight * rows
        rows *= rows
        second += weight * rows
    return first, second


def _inverse_entry(information: FloatArray, target: int, prior: float) -> FloatArray:
    r"""The target's diagonal entry of the inverse of information plus prior, ``(B,)``, rounded down.

    Elimination changes M by :math:`O(m\epsilon)` of its diagonal. As M is at least the prior's precision J,
    the target's information changes by a share of at most :math:`m^2\epsilon \max_k M_{kk}/J`. Where that is
    no small share, the bound for an attacker who knows all others is left.
    """
    m = information.shape[1]
    M = information + prior * np.eye(m)
    diagonal = np.diagonal(M, axis1=1, axis2=2)
    share = 8 * m**2 * 2.0**-53 * np.max(diagonal, axis=1) / prior
    alone = 1.0 / diagonal[:, target]
    return np.where(share < 0.5, np.fmax((1.0 - share) * np.linalg.inv(M)[:, target, target], alone), alone)
