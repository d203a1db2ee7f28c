r"""Closed forms and bounds for polynomial moments, each with both sensitivity conventions.

Throughout :math:`r_k = z_k/R`, and with the family's weights :math:`w_\ell` (:math:`\ell^2` in the
``uniform`` convention; :math:`4\ell^2` for the even orders of the ``tight`` one)

.. math:: F(s, L) = \sum_{\ell=1}^L w_\ell\, s^{\ell-1}, \qquad
          A_L = \frac{1}{4R^2}\bigl[F(r_i r_j, L)\bigr]_{ij}

(``eq:F_def``, ``eq:I_poly_rankone_new``). In the uniform convention these are the paper's formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never, get_args

import numpy as np
from flint import fmpq
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, frozen_floats
from sightline.checked_numbers import positive_number
from sightline.errors import require
from sightline.noise.pricing import unit_noise
from sightline.numerics.balls import exact_trace_of_inverse
from sightline.privacy.accountant import Accountant
from sightline.theory.multiset.family import Family, checked_group, in_domain
from sightline.theory.releases.features import Moment, moment_sensitivity, ratio_powers
from sightline.theory.releases.query import Convention, Query, one_of


def moment_sums(s: ArrayLike, releases: int, *, family: Moments) -> FloatArray:
    r""":math:`F(s, 1), \ldots, F(s, L)`, stacked last; ``s`` is a product :math:`r_i r_j` (``eq:F_def``).

    >>> moment_sums(0.5, 3, family=Moments(convention="uniform")).tolist()
    [1.0, 3.0, 5.25]
    """
    base = np.asarray(s, np.float64)
    powers = np.moveaxis(ratio_powers(base, 1.0, releases), 0, -1)
    sums: FloatArray = np.cumsum(powers * family.weights(releases), axis=-1)
    return sums


def moment_sum_limit(s: Fraction | float, *, family: Moments) -> Fraction:
    r"""The exact :math:`F(s, \infty)` for :math:`|s| < 1` (``eq:T_limit``).

    In the uniform convention :math:`f(s) = (1+s)/(1-s)^3`; in the tight one the even orders count four
    times: :math:`\tfrac12(5 f(s) - 3 f(-s))`.

    >>> moment_sum_limit(0.5, family=Moments(convention="uniform"))
    Fraction(12, 1)
    """
    exact = Fraction(s)
    require(abs(exact) < 1, "|s| < 1", got=float(exact), fix="at the boundary the sum diverges")

    def f(t: Fraction) -> Fraction:
        return (1 + t) / (1 - t) ** 3

    match family.convention:
        case "uniform":
            return f(exact)
        case "tight":
            return (5 * f(exact) - 3 * f(-exact)) / 2
        case _:
            assert_never(family.convention)


# ------------------------------------------------------------------ one value


def scalar_crb(value: float, *, family: Moments, accountant: Accountant, releases: int) -> FloatArray:
    r"""The curve :math:`4\kappa_L R^2/T(L)` of one value for :math:`L = 1, \ldots` (``eq:m1_crb``).

    >>> from sightline import Budget, LaplaceComposition
    >>> laplace = LaplaceComposition(Budget(epsilon=1.0, delta=1e-5))
    >>> scalar_crb(0.0, family=Moments(), accountant=laplace, releases=3).tolist()
    [4.0, 16.0, 36.0]
    """
    kappa = unit_noise(accountant, range(1, releases + 1))
    curve: FloatArray = 4 * kappa * family.bound**2 / scalar_signal(value, releases, family=family)
    return curve


def scalar_signal(value: float, releases: int, *, family: Moments) -> FloatArray:
    r""":math:`T(1), \ldots, T(L)` with :math:`T(L) = \sum_\ell w_\ell r^{2(\ell-1)}` (``eq:T_def``)."""
    family.check(np.array([[value]]))
    powers = ratio_powers(np.array(float(value)), family.bound, releases)
    sums: FloatArray = np.cumsum(powers**2 * family.weights(releases))
    return sums


def scalar_floor(value: float, *, family: Moments, accountant: Accountant, releases: int) -> FloatArray:
    r"""The floor :math:`4\kappa_L R^2/T(\infty)` under the curve of one interior value (``eq:m1_floor``)."""
    ratio = Fraction(value) / Fraction(family.bound)
    limit = float(moment_sum_limit(ratio**2, family=family))
    kappa = unit_noise(accountant, range(1, releases + 1))
    floor: FloatArray = 4 * kappa * family.bound**2 / limit
    return floor


def scalar_tail(value: float, releases: ArrayLike, *, family: Moments) -> FloatArray:
    r"""The tail :math:`T(\infty) - T(L)` of one interior value, uniform convention, without cancellation.

    With :math:`q = r^2` and :math:`p = 1 - q` the paper's polynomial is
    :math:`(L+1)^2 - (2L^2+2L-1)q + L^2q^2 = 2 + (2L-1)p + L^2p^2`, in which every term is positive:

    .. math:: T(\infty) - T(L) = q^L\,\frac{2 + (2L-1)p + L^2p^2}{p^3}

    >>> round(float(scalar_tail(0.5, 1, family=Moments(convention="uniform"))), 12)
    1.962962962963
    """
    require(
        family.convention == "uniform",
        "the uniform convention",
        got=family.convention,
        fix="for the tight one subtract scalar_signal from moment_sum_limit",
    )
    r = value / family.bound
    require(abs(r) < 1, "a value strictly inside the bound", got="one at or beyond it")
    L = np.asarray(releases, np.float64)
    q, p = r * r, (1 - r) * (1 + r)
    return np.asarray(q**L * (2 + (2 * L - 1) * p + L**2 * p**2) / p**3)


def scalar_step_ratio(value: float, *, family: Moments, accountant: Accountant, releases: int) -> FloatArray:
    r"""CRB(L+1)/CRB(L) for :math:`L = 1, \ldots`; below 1, one more release helps (``eq:m1_stop_appendix``).

    .. math:: \frac{\kappa_{L+1}}{\kappa_L}\,\frac{T(L)}{T(L) + w_{L+1} r^{2L}}
    """
    T = scalar_signal(value, releases + 1, family=family)
    kappa = unit_noise(accountant, range(1, releases + 2))
    increment = np.diff(T)
    ratio: FloatArray = kappa[1:] / kappa[:-1] * T[:-1] / (T[:-1] + increment)
    return ratio


def scalar_stopping_scale(value: float, *, family: Moments) -> float:
    r"""The order of magnitude :math:`1/\ln(1/r^2)` of useful moment orders (``app:poly_general_m``).

    Zero for the value 0, for which only the first moment is informative; infinite at the boundary.
    """
    family.check(np.array([[value]]))
    r = abs(value) / family.bound
    if r in (0.0, 1.0):
        return 0.0 if r == 0.0 else float("inf")
    return float(-0.5 / np.log(r))


# ------------------------------------------------------------------ two values


def pair_information(
    pair: ArrayLike, *, family: Moments, accountant: Accountant, releases: int
) -> FloatArray:
    r"""The Fisher information of a pair at L releases (``eq:m2_fim``), a 2×2 matrix."""
    r1, r2 = _pair(pair, family) / family.bound
    products = np.array([[r1 * r1, r1 * r2], [r1 * r2, r2 * r2]])
    F = moment_sums(products, releases, family=family)[..., -1]
    information: FloatArray = F / (4 * unit_noise(accountant, releases) * family.bound**2)
    return information


def pair_signal(pair: ArrayLike, releases: int, *, family: Moments) -> FloatArray:
    r""":math:`G(L) = (F(r_1^2) + F(r_2^2))/D` for :math:`L = 2, 3, \ldots` (``eq:m2_stop``): CRB = 4κR²·G.

    The determinant :math:`D = F(r_1^2)F(r_2^2) - F(\rho)^2` cancels for close values. By Lagrange's identity

    .. math:: D(L) = (r_2 - r_1)^2 \sum_{i < j \le L} w_i w_j \rho^{2(i-1)} h_{j-i}^2,
              \qquad h_n = \frac{r_2^n - r_1^n}{r_2 - r_1} = \sum_{a+b=n-1} r_1^a r_2^b,

    a sum of squares. The factor in front is the :math:`\gamma^{-2}` law of the bound.
    """
    z1, z2 = _pair(pair, family)
    r1, r2 = z1 / family.bound, z2 / family.bound
    w = family.weights(releases)
    h = np.zeros(releases)
    for n in range(1, releases):
        h[n] = r2 * h[n - 1] + r1 ** (n - 1)
    rho = ratio_powers(np.array(r1 * r2), 1.0, releases) ** 2
    # Column j holds the summands of release j: w_j Σ_{i<j} w_i ρ^{2(i-1)} h_{j-i}².
    gaps = np.arange(releases)[None, :] - np.arange(releases)[:, None]
    adds = np.where(gaps > 0, (w * rho)[:, None] * w[None, :] * h[np.maximum(gaps, 0)] ** 2, 0.0).sum(axis=0)
    D = ((z2 - z1) / family.bound) ** 2 * np.cumsum(adds)
    F = moment_sums(np.array([r1 * r1, r2 * r2]), releases, family=family).sum(axis=0)
    signal: FloatArray = F[1:] / D[1:]
    return signal


def pair_crb(pair: ArrayLike, *, family: Moments, accountant: Accountant, releases: int) -> FloatArray:
    r"""The curve of a pair for :math:`L = 2, 3, \ldots`, closed form (``eq:m2_crb``).

    >>> from sightline import BasicComposition, Budget
    >>> basic = BasicComposition(Budget(epsilon=1.0, delta=1e-5))
    >>> curve = pair_crb([-0.4, 0.7], family=Moments(convention="uniform"), accountant=basic, releases=3)
    >>> curve.round(6).tolist()
    [378.012526, 699.566543]
    """
    kappa = unit_noise(accountant, range(2, releases + 1))
    curve: FloatArray = 4 * kappa * family.bound**2 * pair_signal(pair, releases, family=family)
    return curve


def pair_step_ratio(pair: ArrayLike, *, family: Moments, accountant: Accountant, releases: int) -> FloatArray:
    r"""CRB(L+1)/CRB(L) for :math:`L = 2, \ldots`; from 1 on, one more does not help (``eq:m2_stop``)."""
    curve = pair_crb(pair, family=family, accountant=accountant, releases=releases + 1)
    return curve[1:] / curve[:-1]


def pair_crb_at_two(pair: ArrayLike, *, family: Moments, accountant: Accountant) -> float:
    r"""The bound of a pair with mean μ and half-gap γ at two releases (``eq:m2_L2``).

    .. math:: \frac{\kappa_2 R^2 (R^2 + 4\mu^2 + 4\gamma^2)}{2\gamma^2} \text{ (uniform)}, \qquad
              \frac{\kappa_2 R^2 (R^2 + 16\mu^2 + 16\gamma^2)}{8\gamma^2} \text{ (tight)}
    """
    z1, z2 = _pair(pair, family)
    R, mu, gamma = family.bound, (z1 + z2) / 2, (z2 - z1) / 2
    weight = 4 if family.convention == "uniform" else 16
    quotient = R**2 * (R**2 + weight * (mu**2 + gamma**2)) / (weight // 2 * gamma**2)
    return float(unit_noise(accountant, 2) * quotient)


# ------------------------------------------------------------------ any number of values


def moment_value_bounds(
    values: ArrayLike, *, family: Moments, accountant: Accountant, releases: int
) -> FloatArray:
    r"""Lower bounds :math:`4\kappa_L R^2/T_j(L)` for single values (``eq:unlab_crlb_kappa_over_T``).

    They are the bounds for an attacker who knows all other values.
    """
    r = checked_group(values, family=family) / family.bound
    T = moment_sums(r * r, releases, family=family)[..., -1]
    bounds: FloatArray = 4 * unit_noise(accountant, releases) * family.bound**2 / T
    return bounds


def moment_log_determinant_bound(
    values: ArrayLike, *, family: Moments, accountant: Accountant, releases: int
) -> float:
    r"""Hadamard's upper bound on :math:`\ln\det I_C(L)` (``eq:det_bound_general_m``).

    .. math:: \ln\det I_C(L) \le \sum_k \ln\frac{F(r_k^2, L)}{4\kappa_L R^2}
    """
    bounds = moment_value_bounds(values, family=family, accountant=accountant, releases=releases)
    return float(-np.sum(np.log(bounds)))


def moment_crb_bound(values: ArrayLike, *, family: Moments, accountant: Accountant, releases: int) -> float:
    r"""A lower bound on the curve, by determinant and AM–GM (``eq:crb_det_amgm_bound``).

    .. math:: \mathrm{CRB}(L) \ge \frac{4 m \kappa_L R^2}{\bigl(\prod_k F(r_k^2, L)\bigr)^{1/m}}

    The sum of :func:`moment_value_bounds` is never smaller, again by AM–GM.
    """
    bounds = moment_value_bounds(values, family=family, accountant=accountant, releases=releases)
    return float(len(bounds) * np.exp(np.mean(np.log(bounds))))


def moment_limit(values: ArrayLike, *, family: Moments) -> FloatArray:
    r"""The limit :math:`A_\infty = [F(r_i r_j, \infty)]/4R^2`, interior (``prop:poly_interior_matrix``).

    >>> moment_limit([0.0, 0.5], family=Moments(convention="uniform")).round(6).tolist()
    [[0.25, 0.25], [0.25, 0.740741]]
    """
    return np.array([[float(entry) for entry in row] for row in _limit(_interior(values, family), family)])


def moment_limit_trace(values: ArrayLike, *, family: Moments) -> float:
    r"""The limit of :math:`\mathrm{CRB}(L)/\kappa_L`, the trace of :math:`A_\infty^{-1}` of interior values.

    The information on a value at the boundary grows as :math:`L^3` while its products with the interior
    columns converge, so it does not enter. Since :math:`A_L` increases with L, :math:`\kappa_L` times this
    limit is a lower bound on the curve. Entries are exact rationals, inverted in ball arithmetic.
    """
    inside = _interior(values, family)
    if not inside:
        return 0.0
    entries = [[fmpq(entry.numerator, entry.denominator) for entry in row] for row in _limit(inside, family)]
    return exact_trace_of_inverse(entries)


def _limit(ratios: list[Fraction], family: Moments) -> list[list[Fraction]]:
    scale = 4 * Fraction(family.bound) ** 2
    return [[moment_sum_limit(a * b, family=family) / scale for b in ratios] for a in ratios]


def _interior(values: ArrayLike, family: Moments) -> list[Fraction]:
    group = frozen_floats(values, name="values", ndim=1)
    family.check(group[None, :])
    bound = Fraction(family.bound)
    return [Fraction(z) / bound for z in np.sort(group).tolist() if abs(Fraction(z)) < bound]


def _pair(pair: ArrayLike, family: Moments) -> FloatArray:
    group = frozen_floats(pair, name="values", ndim=1)
    require(
        group.size == 2 and group[0] != group[1],
        "two different values",
        got=f"{group.size} values" if group.size != 2 else "a value twice",
    )
    family.check(group[None, :])
    return np.sort(group)


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

    def full_rank_from(self, members: int) -> float:
        """A weighted Vandermonde matrix with distinct nodes has full rank (``app:poly``)."""
        return members

    def _widths(self, releases: int) -> FloatArray:
        # c_ℓ: the sensitivity for a single value in [-1, 1].
        orders = np.arange(1, releases + 1)
        return moment_sensitivity(orders, bound=1.0, count=1, convention=self.convention)
