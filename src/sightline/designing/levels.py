r"""What the audit's lower ends ask of the noise, as least values of :math:`\varphi`.

A record keeps the limit :math:`\ell` if one of three bounds says so, each of which rises with the noise:

- *all others known*: the bound within a group of n with one signature falls with :math:`G_{jj}`, so it asks
  for :math:`1/G_{jj} \ge 1/g_n`;
- *van Trees*: :math:`f = [(G + J I)^{-1}]_{jj} \ge \ell v`, which is :math:`\varphi \ge f\tau/(\tau - f)`
  at :math:`\tau = 1/J`;
- *entropic*: :math:`\varrho\,[(G + I/N)^{-1}]_{jj} \ge \ell v` at :math:`\tau = N`, with the factor
  :math:`\varrho` of the determinants, which depends on the noise: it is taken at a given noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.secret_prior import SecretPrior
from sightline.privacy.accountant import NoiseLaw
from sightline.privacy.gaussian_curve import smallest_epsilon
from sightline.tables.subject import SecretKind

_MOST_INFORMATION = 1e30  # over the squared width: beyond it, no noise is left
_HALVINGS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A least value of a constraint, and the prior variance of the others that it is for."""

    tau: float
    needed: float


def hidden_level(*, tau: float, risk: float) -> Level | None:
    """The level that says that a Gaussian prior of variance ``tau`` keeps ``risk``; none if it cannot.

    >>> hidden_level(tau=1.0, risk=0.5)
    Level(tau=1.0, needed=1.0)
    """
    return Level(tau=tau, needed=risk * tau / (tau - risk)) if risk < tau else None


def van_trees_level(prior: SecretPrior, limit: float) -> Level | None:
    """The level of van Trees' bound; none if the secret is no number, or the limit is beyond it."""
    if prior.kind is not SecretKind.NUMBER:
        return None
    number = prior.number
    return hidden_level(tau=1 / number.fisher_information, risk=limit * number.variance)


def entropic_level(prior: SecretPrior, limit: float, factor: float) -> Level | None:
    """The level of the entropic bound at a factor of the determinants; none if it cannot be reached."""
    if prior.kind is not SecretKind.NUMBER:
        return None
    number = prior.number
    return hidden_level(tau=number.entropy_power, risk=limit * number.variance / factor)


def entropic_factor(prior: SecretPrior, gram: FloatArray, variances: FloatArray) -> float:
    r""":math:`\det(S + N A A^\top) / \det(S + v A A^\top)`, with the Gram matrix of all records."""
    number, logarithm = prior.number, 0.0
    for sign, tau in ((1, number.entropy_power), (-1, number.variance)):
        matrix = tau * gram + np.diag(variances)
        unit = 1 / np.sqrt(np.diagonal(matrix))
        diagonal = np.diagonal(np.linalg.cholesky(matrix * unit * unit[:, None]))
        logarithm += sign * 2 * float(np.sum(np.log(diagonal) - np.log(unit)))
    return math.exp(min(0.0, logarithm))


def most_information(prior: SecretPrior, limit: float, sizes: IndexArray) -> FloatArray:
    """The most information :math:`G_{jj}` with which the bounds for known others keep the limit.

    For each group size; infinite where a group is large enough to hide its records whatever the noise.
    """
    distinct, place = np.unique(sizes, return_inverse=True)
    group = distinct.astype(np.float64)
    unit = 1 / (prior.bounds[1] - prior.bounds[0]) ** 2
    low, high = np.zeros(group.size), np.full(group.size, _MOST_INFORMATION * unit)
    endless = _kept(prior, high, group) >= limit
    for _ in range(_HALVINGS):
        middle = np.where(low > 0, np.sqrt(low * high), high * 1e-15)
        kept = _kept(prior, middle, group) >= limit
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    return np.where(endless, np.inf, low)[place]


def _kept(prior: SecretPrior, information: FloatArray, sizes: FloatArray) -> FloatArray:
    if prior.kind is not SecretKind.NUMBER:
        return prior.coin.group_bound(information, sizes)
    number = prior.number
    van_trees = 1 / (number.variance * (information + number.fisher_information))
    return np.maximum(van_trees, number.group_bound(information, sizes))


def never_binds_below(prior: SecretPrior, limit: float, delta: float) -> float:
    r"""The :math:`\epsilon` up to which the budget alone keeps the limit, under exact Gaussian accounting.

    A budget of :math:`\mu` leaves every record :math:`G_{jj} \le \mu^2/W^2` with the width W of the domain.

    >>> prior = SecretPrior(kind=SecretKind.NUMBER)
    >>> [round(never_binds_below(prior, limit, 1e-5), 1) for limit in (0.75, 0.5, 0.25)]
    [16.7, 36.5, 83.3]
    """
    width = prior.bounds[1] - prior.bounds[0]

    def safe(mu_squared: float) -> bool:
        information = mu_squared / width**2
        return prior.kept(information=information, loss=0.0, law=NoiseLaw.GAUSSIAN) >= limit

    low, high = 0.0, 1.0
    while safe(high) and high < _MOST_INFORMATION:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if safe(middle) else (low, middle)
    return smallest_epsilon(low, delta) if low > 0 else 0.0
