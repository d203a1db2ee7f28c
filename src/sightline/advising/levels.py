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
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csc_array, diags_array

from sightline.advising.following import Hiders
from sightline.advising.problem import inverse_of_sum, quadratic_forms
from sightline.arrays import EXACT, FloatArray, IndexArray, parts
from sightline.auditing.lowering import Lowered
from sightline.auditing.secret_prior import SecretPrior
from sightline.privacy.accountant import NoiseLaw
from sightline.privacy.gaussian_dp import smallest_epsilon
from sightline.units.target import Seen, TargetPrior

_KNOWN: FloatArray = np.array([])  # no precisions: all other records are known


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HiddenLevel:
    """What the bound for hidden others asks of some records, with the precisions at a given noise."""

    products: FloatArray  # Σ a aᵀ / c over the records that the attacker does not know
    tau: FloatArray  # 1/c of each of the records
    needed: FloatArray


def precisions_at(linear: Lowered, variances: FloatArray) -> FloatArray:
    """The prior's precision of every column, with some variances of the rows."""
    return linear.prior.of_column.precision(_forms(linear, 1 / variances))


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


def _forms(linear: Lowered, matrix: FloatArray) -> FloatArray:
    """aᵀ M a of every column, for a matrix or a diagonal."""
    table = linear.table
    if matrix.ndim == 1:
        return np.asarray(table.power(2).T @ matrix)
    each = [quadratic_forms(table[:, own], matrix) for own in parts(table.shape[1], each=table.shape[0])]
    return np.concatenate([np.zeros(0), *each])


def _products(linear: Lowered, weights: FloatArray) -> FloatArray:
    """Sums of w a aᵀ over all columns."""
    return np.asarray((linear.table.multiply(weights[None, :]) @ linear.table.T).toarray(), dtype=np.float64)


def rows_alike(linear: Lowered) -> FloatArray:
    """How many rows of all persons each column stands for."""
    units = linear.units
    return np.asarray(np.repeat(units.people, np.diff(units.starts)) * units.times, dtype=np.float64)


def hidden_level(linear: Lowered, records: IndexArray, limit: float, precision: FloatArray) -> HiddenLevel:
    """The level of some columns, if every column has a given precision."""
    prior, own, alike = (
        linear.prior.of_column,
        precision[linear.units.starts[records]],
        linear.units.alike[records],
    )
    return HiddenLevel(
        products=_products(linear, rows_alike(linear) / precision),
        tau=1 / own,
        needed=1 / _most_information(prior, limit, alike, precision=own),
    )


def feature_level(linear: Lowered, limit: float, precision: FloatArray) -> HiddenLevel:
    r"""The level of all features of several rows of a person, with one precision for all rows.

    A share :math:`\ell` of the variance v remains if :math:`\varphi_u \ge \ell v \tau/(\tau - \ell v)`.
    """
    prior, tau = linear.prior.of_column, 1 / float(np.max(precision))
    risk = limit * prior.variance
    needed = risk * tau / (tau - risk) if tau > risk else EXACT * prior.width**2  # no noise keeps it
    products = _products(linear, rows_alike(linear) * tau)
    return HiddenLevel(products=products, tau=np.array([tau]), needed=np.array([needed]))


def can_hide(prior: TargetPrior) -> bool:
    """Whether unknown records with this prior hide each other: it has a density."""
    return math.isfinite(float(prior.precision(np.zeros(1))[0]))


def hiders_of(linear: Lowered, columns: csc_array) -> Hiders:
    """The records that hide each other, if the attacker knows none but those that the plan states.

    ``columns`` are those of all columns of the design, with rows for levels at the end.
    """
    prior, numbers = linear.prior.of_column, linear.cells.size

    def gram(weights: FloatArray) -> FloatArray:
        found = _products(linear, weights)
        more = columns.shape[0] - numbers
        return np.pad(found, (0, more)) if more else found

    return Hiders(
        columns=columns,
        counts=rows_alike(linear),
        precision=prior.precision,
        precision_slope=prior.precision_slope,
        excess=prior.precision_excess,
        gram=gram,
        forms=lambda matrix: _forms(linear, matrix[:numbers, :numbers]),
    )


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
        return prior.kept(information=mu_squared / width**2, law=NoiseLaw.GAUSSIAN) >= limit

    low, high = 0.0, 1.0
    while safe(high) and high < EXACT:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if safe(middle) else (low, middle)
    return smallest_epsilon(low, delta) if low > 0 else 0.0
