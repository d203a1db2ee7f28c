"""The first L polynomial moments of a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import get_args

import numpy as np
from flint import arb, fmpq

from sightline.arrays import FloatArray
from sightline.multiset.family import Balls, Family, in_domain
from sightline.numerics.balls import ball
from sightline.releases.domain import one_of, positive_number
from sightline.releases.features import ratio_powers
from sightline.releases.moment import Moment, moment_sensitivity
from sightline.releases.query import Convention, Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments(Family):
    r"""The first L moments :math:`q_\ell(z) = \frac1m \sum_k z_k^\ell` (``eq:poly_query_new``).

    With :math:`r_k = z_k/R` the normalised gradients are (``eq:I_poly_rankone_new``)

    .. math:: g_\ell(z) = \frac{\ell}{c_\ell R}\,(r_1^{\ell-1}, \ldots, r_m^{\ell-1}),

    where :math:`c_\ell = 2` for the ``uniform`` convention (the paper's table) and for the odd orders of the
    ``tight`` one, whose even orders have :math:`c_\ell = 1`. Distinct values are identifiable from :math:`L =
    m` on.

    >>> Moments(bound=1.0).rows(np.array([[-0.5, 0.5]]), 3).tolist()
    [[[0.5, 0.5], [-1.0, 1.0], [0.375, 0.375]]]
    """

    bound: float = 1.0
    convention: Convention = "tight"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", positive_number(self.bound, name="bound"))
        one_of(self.convention, get_args(Convention), name="convention")

    @property
    def nested(self) -> bool:
        """True: each release adds one order."""
        return True

    def weights(self, releases: int) -> FloatArray:
        r"""The weight of a release, :math:`(2\ell/c_\ell)^2`: in the uniform convention :math:`\ell^2`.

        >>> Moments().weights(4).tolist(), Moments(convention="uniform").weights(4).tolist()
        ([1.0, 16.0, 9.0, 64.0], [1.0, 4.0, 9.0, 16.0])
        """
        return (2.0 * np.arange(1, releases + 1) / self._widths(releases)) ** 2

    def rows(self, groups: FloatArray, releases: int) -> FloatArray:
        """Powers of z/R times a factor for each order (``eq:I_poly_rankone_new``)."""
        order = np.arange(1, releases + 1)
        powers = ratio_powers(groups.T, self.bound, releases)
        powers *= (order / self._widths(releases) / self.bound)[:, None, None]
        return np.moveaxis(powers, -1, 0)

    def queries_of(self, members: int, releases: int) -> list[Query]:
        """The moments of order 1 to ``releases``."""
        return [
            Moment(order=order, members=range(members), bound=self.bound, convention=self.convention)
            for order in range(1, releases + 1)
        ]

    def check(self, groups: FloatArray) -> None:
        """Values lie within the bound."""
        in_domain(groups, self.bound)

    def row_error(self, releases: int) -> float:
        """A rounded power times a factor with four roundings."""
        return 6.0

    def full_rank_from(self, members: int) -> int | None:
        """A weighted Vandermonde matrix with distinct nodes has full rank (``app:poly``)."""
        return members

    def balls(self, values: Sequence[fmpq], releases: int) -> Balls:
        """The same from exact ratios and exact factors."""
        bound = fmpq(*Fraction(self.bound).as_integer_ratio())
        ratios = [arb(value / bound) for value in values]
        widths = self._widths(releases)
        rows: Balls = []
        powers = [arb(1)] * len(ratios)
        for order in range(1, releases + 1):
            factor = ball(Fraction(order) / Fraction(widths[order - 1]) / Fraction(self.bound))
            rows.append([factor * power for power in powers])
            powers = [power * ratio for power, ratio in zip(powers, ratios, strict=True)]
        return rows

    def _widths(self, releases: int) -> FloatArray:
        # c_ℓ: the sensitivity for a single value in [-1, 1].
        orders = np.arange(1, releases + 1)
        return moment_sensitivity(orders, bound=1.0, count=1, convention=self.convention)
