r"""Bounds and the dense-grid approximation for smooth thresholds (``subsec:lever2_threshold``).

On a midpoint grid of spacing :math:`\eta_L = 2R/L` the signal is a Riemann sum,

.. math:: (A_L)_{ij} = \sum_\ell \frac{h_\tau'(z_i - t_\ell)\,h_\tau'(z_j - t_\ell)}{c(t_\ell)^2}
          \approx \frac{1}{\eta_L} \int_{-R}^{R} \frac{h_\tau'(z_i - t)\,h_\tau'(z_j - t)}{c(t)^2}\,dt
          \approx \frac{1}{c^2 \eta_L} K(z_i - z_j),

with :math:`c = 2` (``uniform``) or the rise of the step over the domain, about 1 (``tight``). The first form
is exact near the edges of the domain too; the second, the paper's, is for values far from them.
"""

from __future__ import annotations

from typing import assert_never

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray
from sightline.errors import InvalidRelease, require
from sightline.multiset.family import checked_group
from sightline.multiset.threshold_family import Thresholds
from sightline.noise.pricing import unit_noise
from sightline.privacy.accountant import Accountant
from sightline.releases.features import Kernel, smooth_step_slope


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
