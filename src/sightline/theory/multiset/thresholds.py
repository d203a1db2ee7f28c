r"""Bounds and the dense-grid approximation for smooth thresholds (``subsec:lever2_threshold``).

On a midpoint grid of spacing :math:`\eta_L = 2R/L` the signal is a Riemann sum,

.. math:: (A_L)_{ij} = \sum_\ell \frac{h_\tau'(z_i - t_\ell)\,h_\tau'(z_j - t_\ell)}{c(t_\ell)^2}
          \approx \frac{1}{\eta_L} \int_{-R}^{R} \frac{h_\tau'(z_i - t)\,h_\tau'(z_j - t)}{c(t)^2}\,dt
          \approx \frac{1}{c^2 \eta_L} K(z_i - z_j),

with :math:`c = 2` (``uniform``) or the rise of the step over the domain, about 1 (``tight``). The first form
is exact near the edges of the domain too; the second, the paper's, is for values far from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, assert_never, get_args

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, IndexArray, frozen_floats
from sightline.checked_numbers import positive_number
from sightline.errors import InvalidRelease, require
from sightline.noise.pricing import unit_noise
from sightline.privacy.accountant import Accountant
from sightline.theory.multiset.family import Family, checked_group, in_domain
from sightline.theory.releases.features import (
    Kernel,
    SmoothThreshold,
    smooth_step_slope,
    threshold_sensitivity,
)
from sightline.theory.releases.query import Convention, Query, one_of


def step_overlap(distance: ArrayLike, *, bandwidth: float, kernel: Kernel = "logistic") -> FloatArray:
    r"""The kernel :math:`K(d) = \int h_\tau'(u)\,h_\tau'(u + d)\,du` in closed form.

    With :math:`x = |d|/\tau`

    .. math:: K = \frac{x \coth(x/2) - 2}{4\tau \sinh^2(x/2)} \text{ (logistic)}, \qquad
              K = \frac{1}{4\tau}\Bigl[(2 - x)\bigl(1 + \tfrac12\cos\pi x\bigr)
              + \frac{3}{2\pi}\sin\pi x\Bigr] \text{ for } x \le 2 \text{ (compact)}

    At zero: :math:`1/(6\tau)` and :math:`3/(4\tau)`.

    >>> step_overlap([0.0, 1.0], bandwidth=0.5, kernel="compact").tolist()
    [1.5, 0.0]
    >>> step_overlap(0.0, bandwidth=0.5).item()
    0.3333333333333333
    """
    x = np.abs(np.asarray(distance, np.float64)) / bandwidth
    match kernel:
        case "logistic":
            return _logistic_overlap(x) / bandwidth
        case "compact":
            v = np.maximum(2.0 - x, 0.0)  # the width of the common support
            wide = v * (1 + np.cos(np.pi * v) / 2) - 1.5 * np.sin(np.pi * v) / np.pi
            # The power series, for steps that hardly overlap: there the formula cancels.
            a = (np.pi * v) ** 2
            narrow = v * a**2 / 120 * (1 - a / 21 + a**2 / 1008 - a**3 / 83160 + a**4 / 10378368)
            return np.where(v < 0.15, narrow, wide) / (4 * bandwidth)
    assert_never(kernel)


def _logistic_overlap(x: FloatArray) -> FloatArray:
    """(x coth(x/2) - 2)/(4 sinh²(x/2)), by its series where the numerator cancels."""
    near = x < 0.3
    y = np.where(near, x, 0.0) ** 2
    series = 1 / 6 - y / 60 + y**2 / 1008 - y**3 / 21600 + y**4 / 532224 - 691 * y**5 / 9906624000
    far = np.where(near, 1.0, x)
    decay = np.exp(-far)
    shrink = -np.expm1(-far)
    formula = decay * (far * (1 + decay) / shrink - 2) / shrink**2
    return np.where(near, series, formula)


def dense_grid_matrix(values: ArrayLike, *, family: Thresholds, edges: bool = True) -> FloatArray:
    r"""The limit of :math:`\eta_L A_L` on a midpoint grid, for sorted values.

    With ``edges`` it is the integral over the domain, by Gauss–Legendre quadrature on pieces. Without, it is
    the paper's :math:`\tfrac14 K(z_i - z_j)` (K itself in the tight convention), which ignores the edges.
    """
    z = _group(values, family)
    if not edges:
        weight = 0.25 if family.convention == "uniform" else 1.0
        gaps = z[:, None] - z[None, :]
        return weight * step_overlap(gaps, bandwidth=family.bandwidth, kernel=family.kernel)
    rows = _integrand_rows(z, family)
    matrix: FloatArray = rows.T @ rows
    return matrix


def dense_grid_trace(values: ArrayLike, *, family: Thresholds, edges: bool = True) -> float:
    r"""The limit of :math:`\operatorname{tr}(A_L^{-1})/\eta_L`: on a dense grid CRB ≈ κ_L η_L times it.

    Infinite for equal values, and where the kernel matrix is singular to working precision.
    """
    z = _group(values, family)
    if edges:
        singular = np.linalg.svd(_integrand_rows(z, family), compute_uv=False)
        floor = 1e-13
    else:
        # The closed form gives only the matrix of inner products, which has half the digits.
        singular = np.sqrt(
            np.maximum(np.linalg.eigvalsh(dense_grid_matrix(z, family=family, edges=False)), 0)
        )
        floor = 1e-6
    if singular.min() <= floor * singular.max():
        return float("inf")
    return float(np.sum(singular**-2.0))


def threshold_trace_bound(releases: int, *, members: int, family: Thresholds) -> float:
    r"""An upper bound on :math:`\operatorname{tr} A_L`, midpoint grid (``prop:threshold_truncation`` (i)).

    The sum of a unimodal function over a grid is at most its integral over the spacing plus its maximum, so

    .. math:: \operatorname{tr} A_L \le
              \frac{m}{c_{\min}^2}\Bigl(\frac{K(0)}{\eta_L} + h_\tau'(0)^2\Bigr) = O(L)

    for both kernels; :math:`c_{\min}` is 2 (uniform), or the rise at the edge of the domain, the smallest
    (tight).
    """
    _require_midpoints(family)
    require(members >= 1, "at least one value in a group", got=members)
    overlap = float(step_overlap(0.0, bandwidth=family.bandwidth, kernel=family.kernel))
    peak = float(smooth_step_slope(0.0, bandwidth=family.bandwidth, kernel=family.kernel))
    width = float(family.widths(np.array([family.bound]))[0])
    return members / width**2 * (overlap / family.spacing(releases) + peak**2)


def threshold_crb_bound(releases: int, *, members: int, family: Thresholds, accountant: Accountant) -> float:
    r"""A lower bound :math:`\kappa_L m^2/\operatorname{tr} A_L = \Omega(\kappa_L/L)` on the curve.

    The paper bounds the trace of the inverse by one eigenvalue (``prop:threshold_truncation`` (ii)). The
    harmonic mean of all m eigenvalues gives :math:`m^2` times as much.
    """
    trace = threshold_trace_bound(releases, members=members, family=family)
    return float(unit_noise(accountant, releases) * members**2 / trace)


def _integrand_rows(z: FloatArray, family: Thresholds) -> FloatArray:
    """Rows whose Gram matrix is the integral over the domain."""
    t, mass = _quadrature(z, family)
    rows: FloatArray = family.rows_at(z[None], t)[0] * np.sqrt(mass)[:, None]
    return rows


def _quadrature(z: FloatArray, family: Thresholds) -> tuple[FloatArray, FloatArray]:
    """Nodes and masses on the domain, on pieces of half a bandwidth that break where a support ends."""
    R, tau = family.bound, family.bandwidth
    breaks = np.concatenate([np.linspace(-R, R, 2 + int(4 * R / tau)), z - tau, z + tau])
    ends = np.unique(np.clip(breaks, -R, R))
    nodes, mass = np.polynomial.legendre.leggauss(16)
    half, middle = np.diff(ends) / 2, (ends[1:] + ends[:-1]) / 2
    return (middle[:, None] + half[:, None] * nodes).ravel(), (half[:, None] * mass).ravel()


def _group(values: ArrayLike, family: Thresholds) -> FloatArray:
    _require_midpoints(family)
    return checked_group(values, family=family)


def _require_midpoints(family: Thresholds) -> None:
    require(
        isinstance(family.grid, str),
        "a midpoint grid",
        got="another grid",
        fix="the dense-grid forms hold for evenly spaced thresholds over the whole domain",
        error=InvalidRelease,
    )


Order = Literal["left to right", "bisecting"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Thresholds(Family):
    r"""Shares above thresholds, :math:`\frac1m \sum_k h_\tau(z_k - t_\ell)` (``eq:threshold_query``).

    ``grid`` says where they are:

    - ``"midpoint"``: :math:`t_\ell = -R + (2\ell - 1)R/L`, new for every L;
    - a rule L ↦ thresholds, also new for every L;
    - a list of thresholds that releases take one by one, in the ``order`` given: ``"left to right"``, or
      ``"bisecting"``, which spreads the first ones over the whole list.

    Thresholds increase strictly and lie within ``±bound``. The normalised gradients are
    :math:`h_\tau'(z_k - t_\ell)/c_\ell` with :math:`c_\ell = 2` in the paper's ``uniform`` convention and the
    rise of the step over the domain, below 1, in the ``tight`` one.

    >>> steps = Thresholds(bound=1.0, bandwidth=0.5, kernel="compact", convention="uniform")
    >>> steps.rows(np.array([[-0.5, 0.5]]), 2).tolist()
    [[[1.0, 0.0], [0.0, 1.0]]]
    >>> steps.thresholds(4).tolist()
    [-0.75, -0.25, 0.25, 0.75]
    """

    bound: float = 1.0
    bandwidth: float
    kernel: Kernel = "logistic"
    convention: Convention = "tight"
    grid: Literal["midpoint"] | Callable[[int], ArrayLike] | ArrayLike = "midpoint"
    order: Order = "left to right"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", positive_number(self.bound, name="bound"))
        object.__setattr__(self, "bandwidth", positive_number(self.bandwidth, name="bandwidth"))
        one_of(self.kernel, get_args(Kernel), name="kernel")
        one_of(self.convention, get_args(Convention), name="convention")
        one_of(self.order, get_args(Order), name="order")
        if isinstance(self.grid, str):
            one_of(self.grid, ("midpoint",), name="grid")
        elif not callable(self.grid):
            object.__setattr__(self, "grid", self._checked(self.grid))
        require(
            self.nested or self.order == "left to right",
            "an order only with a list of thresholds",
            got=f"order {self.order!r} with a grid that is new for every count",
            error=InvalidRelease,
        )
        edge = self.widths(np.array([self.bound]))
        positive_number(float(edge[0]), name="sensitivity", fix="use a smaller bandwidth")

    @property
    def nested(self) -> bool:
        """True for a list of thresholds; a grid changes with the count."""
        return isinstance(self.grid, np.ndarray)

    @property
    def largest(self) -> float:
        """The length of the list, infinite for a grid."""
        return len(self.grid) if isinstance(self.grid, np.ndarray) else math.inf

    def thresholds(self, releases: int) -> FloatArray:
        """Where the thresholds of ``releases`` releases are, in the order of release."""
        if isinstance(self.grid, np.ndarray):
            match self.order:
                case "left to right":
                    return self.grid[:releases]
                case "bisecting":
                    return self.grid[_bisecting(len(self.grid))[:releases]]
                case _:
                    assert_never(self.order)
        if callable(self.grid):
            grid = self._checked(self.grid(releases))
            require(
                len(grid) == releases,
                f"{releases} thresholds from the grid rule",
                got=len(grid),
                error=InvalidRelease,
            )
            return grid
        steps = np.arange(1 - releases, releases, 2)
        return self.bound * (steps / releases)

    def spacing(self, releases: int) -> float:
        r"""The grid spacing :math:`\eta_L = 2R/L` of midpoints."""
        return 2.0 * self.bound / releases

    def rows(self, groups: FloatArray, releases: int) -> FloatArray:
        """Slopes of the step at every offset, divided by the widths."""
        return self.rows_at(groups, self.thresholds(releases))

    def rows_at(self, groups: FloatArray, t: FloatArray) -> FloatArray:
        """The gradients ``(B, thresholds, m)`` of steps at any thresholds."""
        offsets = groups[:, None, :] - t[:, None]
        slopes = smooth_step_slope(offsets, bandwidth=self.bandwidth, kernel=self.kernel)
        return slopes / self.widths(t)[:, None]

    def queries_of(self, members: int, releases: int) -> list[Query]:
        """The shares above the thresholds."""
        return [
            SmoothThreshold(
                at=at,
                members=range(members),
                bound=self.bound,
                bandwidth=self.bandwidth,
                kernel=self.kernel,
                convention=self.convention,
            )
            for at in self.thresholds(releases).tolist()
        ]

    def check(self, groups: FloatArray) -> None:
        """Values lie within the bound."""
        in_domain(groups, self.bound)

    def row_error(self, releases: int) -> float:
        """The rounding error of an offset, relative to the bound, over the bandwidth, and the slope's own."""
        return 8.0 + 4.0 * self.bound / self.bandwidth

    def edge_error(self, groups: FloatArray, releases: int) -> FloatArray | None:
        r"""Near the end of a compact step's support the slope is small and its relative error large.

        With :math:`v = 1 - |z - t|/\tau` the slope is :math:`\sin^2(\pi v/2)/\tau`. An error of the offset
        changes v by up to :math:`3 + 2R/\tau` units, and the slope by its derivative times that. A value with
        only such small slopes has an ill-conditioned column.
        """
        if self.kernel != "compact":
            return None
        t = self.thresholds(releases)
        v = np.maximum(1.0 - np.abs(groups[:, None, :] - t[:, None]) / self.bandwidth, 0.0)
        weights = 1.0 / self.widths(t)[:, None]
        sine, cosine = np.sin(0.5 * np.pi * v), np.cos(0.5 * np.pi * v)
        slopes = np.linalg.norm(weights * sine**2, axis=1)
        changes = np.linalg.norm(weights * np.pi * sine * cosine, axis=1)
        share = np.divide(changes, slopes, out=np.zeros_like(slopes), where=slopes > 0)
        units: FloatArray = (3.0 + 2.0 * self.bound / self.bandwidth) * share
        return units

    def widths(self, t: FloatArray) -> FloatArray:
        """The sensitivity times m at each threshold: what divides the slopes."""
        return threshold_sensitivity(
            t,
            bound=self.bound,
            bandwidth=self.bandwidth,
            count=1,
            kernel=self.kernel,
            convention=self.convention,
        )

    def _checked(self, grid: ArrayLike) -> FloatArray:
        t = frozen_floats(grid, name="thresholds", ndim=1, error=InvalidRelease)
        require(t.size > 0, "at least one threshold", got=0, error=InvalidRelease)
        bad = np.flatnonzero(np.diff(t) <= 0)
        require(
            bad.size == 0,
            "thresholds that increase strictly",
            got=f"positions {bad[:1].tolist()} and {(bad[:1] + 1).tolist()} repeated or out of order",
            fix="sort them and drop repetitions",
            error=InvalidRelease,
        )
        require(
            bool(np.all(np.abs(t) <= self.bound)),
            f"thresholds within ±{self.bound:g}",
            got=f"{int(np.sum(np.abs(t) > self.bound))} outside",
            error=InvalidRelease,
        )
        return t


def _bisecting(length: int) -> IndexArray:
    """Positions in bit-reversed order: ends, middle, quarters, …, so that every prefix is spread out.

    >>> _bisecting(6).tolist()
    [0, 4, 2, 1, 5, 3]
    """
    bits = max(1, (length - 1).bit_length())
    index = np.arange(2**bits)
    reversed_ = np.zeros_like(index)
    for bit in range(bits):
        reversed_ |= ((index >> bit) & 1) << (bits - 1 - bit)
    return reversed_[reversed_ < length]
