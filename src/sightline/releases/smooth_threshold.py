"""Smooth thresholds: the share of the records' values above a point, with a softened step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never, get_args

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, IndexArray, Members, frozen_floats, frozen_index
from sightline.errors import InvalidRelease, require
from sightline.releases.domain import one_of, positive_number, real_number
from sightline.releases.feature_mean import FeatureMean
from sightline.releases.features import Kernel, smooth_step, smooth_step_rise, smooth_step_slope
from sightline.releases.query import Convention


def threshold_sensitivity(
    at: ArrayLike,
    *,
    bound: float,
    bandwidth: float,
    count: int,
    kernel: Kernel = "logistic",
    convention: Convention = "tight",
) -> FloatArray:
    r"""The largest change of a mean of ``count`` steps when one value in :math:`[-R, R]` changes.

    .. math:: \Delta = \bigl(h_\tau(R-t) - h_\tau(-R-t)\bigr)/m \text{ (tight)}, \qquad
              \Delta = 2/m \text{ (uniform)}

    The paper's :math:`2/m` (``tab:adjacency``) allows for two changed summands. One record's value changes
    only one, by at most the rise of the step over the domain, which is at most 1. Vectorised over ``at``.

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

    if TYPE_CHECKING:  # the constructor accepts wider types than the fields have

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
            fix="outside the domain only the tail of the step depends on the records",
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
