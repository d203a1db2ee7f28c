r"""Smooth thresholds: the share of the records' values above a point, with a softened step.

Two steps :math:`h_\tau: \mathbb R \to [0, 1]`, both with bandwidth :math:`\tau` and :math:`h_\tau(0) = 1/2`:

- ``logistic`` (``app:logistic_smoothing``): :math:`h_\tau(u) = 1/(1 + e^{-u/\tau})`, with exponential tails;
- ``compact``: :math:`h_\tau(u) = \frac{1}{2} + \frac{u}{2\tau} + \frac{1}{2\pi}\sin\frac{\pi u}{\tau}` on
  :math:`[-\tau, \tau]`, the integral of a raised cosine. It is 0 to the left and 1 to the right, so
  :math:`h_\tau'` is supported on :math:`[-\tau, \tau]`, as ``prop:threshold_truncation`` assumes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, assert_never, get_args

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, IndexArray, Members, frozen_floats, frozen_index
from sightline.errors import InvalidRelease, require
from sightline.releases.domain import one_of, positive_number, real_number
from sightline.releases.feature_mean import FeatureMean
from sightline.releases.query import Convention

Kernel = Literal["logistic", "compact"]


def _logistic(w: FloatArray) -> FloatArray:
    """Without overflow, and with all digits in both tails."""
    tail = np.exp(-np.abs(w))  # importing scipy.special takes longer than all that an audit does with it
    return np.where(w < 0, tail, 1.0) / (1.0 + tail)


def smooth_step(offsets: ArrayLike, *, bandwidth: float, kernel: Kernel = "logistic") -> FloatArray:
    r"""The step :math:`h_\tau(u)` at offsets :math:`u = z - t`.

    >>> smooth_step([-1.0, 0.0, 1.0], bandwidth=1.0, kernel="compact").tolist()
    [0.0, 0.5, 1.0]
    """
    w = np.asarray(offsets, np.float64) / bandwidth
    match kernel:
        case "logistic":
            steps: FloatArray = _logistic(w)
            return steps
        case "compact":
            v = np.maximum(1.0 - np.abs(w), 0.0)
            # ½(v − sin(πv)/π), written so that no rounding leaves [0, 1].
            tail = 0.5 * v * (1.0 - np.sinc(v))
            return np.where(w < 0, tail, 1.0 - tail)
    assert_never(kernel)


def smooth_step_slope(offsets: ArrayLike, *, bandwidth: float, kernel: Kernel = "logistic") -> FloatArray:
    r"""The derivative :math:`h_\tau'(u)` at offsets :math:`u = z - t`.

    Logistic: :math:`\frac{1}{4\tau}\operatorname{sech}^2\frac{u}{2\tau}`; compact:
    :math:`\frac{1}{2\tau}\bigl(1 + \cos\frac{\pi u}{\tau}\bigr)` on :math:`[-\tau, \tau]`, else 0.

    >>> smooth_step_slope([-2.0, 0.0], bandwidth=0.5, kernel="compact").tolist()
    [0.0, 2.0]
    """
    w = np.asarray(offsets, np.float64) / bandwidth
    match kernel:
        case "logistic":
            slopes: FloatArray = _logistic(w) * _logistic(-w) / bandwidth
            return slopes
        case "compact":
            v = np.maximum(1.0 - np.abs(w), 0.0)
            return np.asarray(np.sin(0.5 * np.pi * v) ** 2 / bandwidth)
    assert_never(kernel)


def smooth_step_rise(
    start: ArrayLike, stop: ArrayLike, *, bandwidth: float, kernel: Kernel = "logistic"
) -> FloatArray:
    r"""The rise :math:`h_\tau(b) - h_\tau(a)` from ``start`` a to ``stop`` b, accurate also where small.

    >>> print(f"{smooth_step_rise(-1e-9, 1e-9, bandwidth=1.0):.12e}")
    5.000000000000e-10
    """
    a, b = (np.asarray(u, np.float64) / bandwidth for u in (start, stop))
    match kernel:
        case "logistic":
            rise: FloatArray = _logistic(b) * _logistic(-a) * -np.expm1(a - b)
            return rise
        case "compact":
            a, b = np.clip(a, -1.0, 1.0), np.clip(b, -1.0, 1.0)
            half, middle = 0.5 * (b - a), 0.5 * (a + b)
            return np.asarray(half + np.cos(np.pi * middle) * np.sin(np.pi * half) / np.pi)
    assert_never(kernel)


def threshold_sensitivity(
    at: ArrayLike,
    *,
    bound: float,
    bandwidth: float,
    count: int,
    kernel: Kernel = "logistic",
    convention: Convention = "tight",
) -> FloatArray:
    r"""How far one value in :math:`[-R, R]` can move the mean of ``count`` steps; vectorised over ``at``.

    .. math:: \Delta = \bigl(h_\tau(R-t) - h_\tau(-R-t)\bigr)/m \text{ (tight)}, \qquad
              \Delta = 2/m \text{ (uniform)}

    The paper's :math:`2/m` (``tab:adjacency``) allows for two changed summands; one record's value changes
    one alone, by at most the rise of the step over the domain, which is at most 1.

    >>> threshold_sensitivity([0.0, 1.0], bound=1.0, bandwidth=0.1, count=5, kernel="compact").tolist()
    [0.2, 0.1]
    >>> threshold_sensitivity([0.0, 1.0], bound=1.0, bandwidth=0.1, count=5, convention="uniform").tolist()
    [0.4, 0.4]
    """
    t = np.asarray(at, np.float64)
    match convention:
        case "tight":
            return smooth_step_rise(-bound - t, bound - t, bandwidth=bandwidth, kernel=kernel) / count
        case "uniform":
            return np.full(t.shape, 2.0 / count)
    assert_never(convention)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SmoothThreshold(FeatureMean):
    r"""Share of the member records' values above a threshold, softened, eq. ``threshold_query``.

    .. math:: q(z) = \frac{1}{m} \sum_{k \in C} h_\tau(z_k - t), \qquad |z_k| \le R

    ``at`` is t, inside the domain; ``bound`` is R; ``bandwidth`` is :math:`\tau`. With the default convention
    the sensitivity is the exact one; ``convention="uniform"`` is the paper's :math:`2/m`.

    >>> above = SmoothThreshold(at=0.0, members=range(4), bound=1.0, bandwidth=0.5, kernel="compact")
    >>> above.value([0.5, -0.5, 1.0, 0.0]).tolist()
    [0.625]
    >>> above.jacobian([0.5, -0.5, 1.0, 0.0]).ravel().tolist()
    [0.0, 0.0, 0.0, 0.5]
    >>> above.sensitivity.tolist()
    [0.25]
    """

    at: float
    members: IndexArray
    bound: float
    bandwidth: float
    kernel: Kernel = "logistic"
    convention: Convention = "tight"

    if TYPE_CHECKING:  # what goes in is wider than what is kept

        def __init__(
            self,
            *,
            at: float,
            members: Members,
            bound: float,
            bandwidth: float,
            kernel: Kernel = "logistic",
            convention: Convention = "tight",
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", real_number(self.at, name="at"))
        object.__setattr__(self, "members", frozen_index(self.members, error=InvalidRelease))
        object.__setattr__(self, "bound", positive_number(self.bound, name="bound"))
        object.__setattr__(self, "bandwidth", positive_number(self.bandwidth, name="bandwidth"))
        one_of(self.kernel, get_args(Kernel), name="kernel")
        one_of(self.convention, get_args(Convention), name="convention")
        require(
            abs(self.at) <= self.bound,
            f"the threshold within ±{self.bound}",
            got=self.at,
            fix="beyond the domain it tells the records apart by the step's tail alone",
            error=InvalidRelease,
        )
        positive_number(self.sensitivity.item(), name="sensitivity", fix="use a smaller bandwidth")

    @property
    def sensitivity(self) -> FloatArray:
        """See :func:`threshold_sensitivity`."""
        delta = threshold_sensitivity(
            [self.at],
            bound=self.bound,
            bandwidth=self.bandwidth,
            count=len(self.members),
            kernel=self.kernel,
            convention=self.convention,
        )
        return frozen_floats(delta, name="sensitivity")

    def feature(self, values: FloatArray) -> FloatArray:
        """The step at the threshold."""
        return smooth_step(values - self.at, bandwidth=self.bandwidth, kernel=self.kernel)

    def slope(self, values: FloatArray) -> FloatArray:
        r""":math:`h_\tau'(z - t)`."""
        return smooth_step_slope(values - self.at, bandwidth=self.bandwidth, kernel=self.kernel)
