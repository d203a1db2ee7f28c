r"""What the audit's lower ends ask of the noise, as least values of :math:`\varphi`.

A record of which n are alike keeps the limit if one of two bounds says so. Each falls with an information
that falls with the noise, so each asks for :math:`\varphi = 1/\text{information} \ge \kappa`:

- *all others known*: the information is :math:`G_{jj}`;
- *others hidden*: it is :math:`I_j = 1/[(G + \operatorname{diag} c)^{-1}]_{jj} - c_j`, where the precisions
  :math:`c_k` are those of the prior at :math:`G_{kk}`. They depend on the noise: they are taken at a given
  one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse import csc_array, diags_array

from sightline.advising.hidden_limits import HiddenLimits, inverse_of_sum, quadratic_forms
from sightline.arrays import EXACT, FloatArray, IndexArray
from sightline.auditing.lowering import Lowered
from sightline.auditing.secret_prior import SecretPrior
from sightline.privacy.gaussian_dp import smallest_epsilon
from sightline.privacy.law import Law
from sightline.units.target import Seen, TargetPrior

_KNOWN: FloatArray = np.array([])  # no precisions: all other records are known


def lower_ends(
    prior: TargetPrior,
    columns: csc_array,
    counts: FloatArray,
    variances: FloatArray,
    *,
    own: IndexArray,
    alike: FloatArray,
) -> tuple[FloatArray, Any]:
    """The audit's lower ends of some records, up to rounding, and the inverse that their recipes use.

    ``columns`` are those of all records that hide each other, each of ``counts`` of them, and ``own`` the
    columns that are asked for. The audit may know more of persons with several rows and of categories.
    """
    everyone = np.asarray(columns.power(2).T @ (1 / variances))
    precision, inverse, hidden = prior.precision(everyone), diags_array(1 / variances), everyone[own]
    if can_hide(prior):
        products = (columns.multiply((counts / precision)[None, :]) @ columns.T).toarray()
        inverse = inverse_of_sum(np.asarray(products, dtype=np.float64), variances)
        passes = quadratic_forms(csc_array(columns[:, own]), inverse)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = passes / (1 - passes / precision[own])
        hidden = np.where((found > 0) & (found < hidden), found, hidden)
    seen = Seen(
        information=everyone[own],
        linear_information=np.zeros(own.size),
        hidden_information=hidden,
        precision=precision[own],
        alike=alike,
    )
    return prior.lower(seen), inverse


def rows_alike(linear: Lowered) -> FloatArray:
    """How many rows of all persons each column stands for."""
    units = linear.units
    return np.asarray(np.repeat(units.people, np.diff(units.starts)) * units.times, dtype=np.float64)


def limits_of_rows(linear: Lowered, records: IndexArray, columns: csc_array, limit: float) -> HiddenLimits:
    """The limits on some records with a column each: those alike do not count as hiding each other."""
    alike = linear.units.alike[records]
    return HiddenLimits(
        columns=columns,
        most=1 / hidden_needed(linear.prior, limit, alike),
        times_precision=0.0,
        own=linear.units.starts[records],
        removed=np.asarray(alike, dtype=np.float64),
        hiders=csc_array(linear.table),
        counts=rows_alike(linear),
        prior=linear.prior.of_column,
        seen_best=False,
    )


def limits_of_features(linear: Lowered, columns: csc_array, limit: float) -> HiddenLimits:
    r"""The limits on features of several rows of a person, with one precision c for all rows.

    A share :math:`\ell` of the variance v remains if :math:`I + c \le 1/(\ell v)`.
    """
    prior, count = linear.prior.of_column, columns.shape[1]
    return HiddenLimits(
        columns=columns,
        most=np.full(count, 1 / (limit * prior.variance)),
        times_precision=1.0,
        own=np.zeros(count, dtype=np.intp),
        removed=np.ones(count),
        hiders=csc_array(linear.table),
        counts=rows_alike(linear),
        prior=prior,
        seen_best=True,
    )


def can_hide(prior: TargetPrior) -> bool:
    """Whether unknown records with this prior hide each other: it has a density."""
    return math.isfinite(float(prior.precision(np.zeros(1))[0]))


def hidden_needed(prior: SecretPrior, limit: float, alike: FloatArray | IndexArray) -> FloatArray:
    r"""The least :math:`1/Q` with which the bound for hidden others keeps the limit, by records alike."""
    distinct, place = np.unique(np.asarray(alike, dtype=np.float64), return_inverse=True)
    exact = np.full(distinct.size, np.inf)
    return 1 / _most_information(prior.of_column, limit, distinct, precision=exact)[place]


def most_information(prior: SecretPrior, limit: float, alike: FloatArray | IndexArray) -> FloatArray:
    """The most information :math:`G_{jj}` with which the bound for known others keeps the limit.

    For each number of records alike; infinite where they hide each other whatever the noise.
    """
    distinct, place = np.unique(np.asarray(alike, dtype=np.float64), return_inverse=True)
    return _most_information(prior.of_column, limit, distinct)[place]


def _most_information(
    prior: TargetPrior,
    limit: float,
    alike: FloatArray,
    *,
    precision: FloatArray = _KNOWN,
) -> FloatArray:
    """The largest informations that keep the limit, by halving; least ones for none, infinite for all.

    ``EXACT`` over the squared width stands for no noise, and its inverse for nothing to see.

    With ``precision`` those of an attacker who knows no other record; one who knows all others sees all.
    """
    unit = 1 / prior.width**2

    def kept(information: FloatArray) -> FloatArray:
        everyone = np.full(information.size, EXACT * unit) if precision.size else information
        return prior.lower(
            Seen(
                information=everyone,
                linear_information=np.zeros(information.size),
                hidden_information=information,
                precision=precision if precision.size else np.inf,
                alike=alike,
            )
        )

    low, high = np.full(len(alike), unit / EXACT), np.full(len(alike), EXACT * unit)
    if not len(alike):
        return low
    never, always = kept(low) < limit, kept(high) >= limit
    for _ in range(60):  # a factor of 2^106 between the ends falls below the last place of a double
        middle = np.sqrt(low * high)
        enough = kept(middle) >= limit
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return np.where(always, np.inf, np.where(never, unit / EXACT, low))


def never_binds_below(prior: SecretPrior, limit: float, delta: float) -> float:
    r"""The :math:`\epsilon` up to which the budget alone keeps the limit, under exact Gaussian accounting.

    A budget of :math:`\mu` leaves every record :math:`G_{jj} \le \mu^2/W^2` with the width W of the domain.
    """
    width = prior.bounds[1] - prior.bounds[0]

    def safe(mu_squared: float) -> bool:
        return prior.kept(information=mu_squared / width**2, law=Law.GAUSSIAN) >= limit

    low, high = 0.0, 1.0
    while safe(high) and high < EXACT:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if safe(middle) else (low, middle)
    return smallest_epsilon(low, delta) if low > 0 else 0.0
