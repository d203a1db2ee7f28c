"""Moments and smooth thresholds: the mean of a feature of the members' values."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightline.arrays import FloatArray, IndexArray, Members, frozen_floats, frozen_index
from sightline.errors import InvalidRelease, require
from sightline.releases.features import (
    Kernel,
    power,
    power_range,
    power_slope,
    smooth_step,
    smooth_step_rise,
    smooth_step_slope,
)
from sightline.releases.query import (
    Convention,
    OneCell,
    member_values,
    one_of,
    positive_number,
    real_number,
    whole_number,
)


class FeatureMean(OneCell, ABC):
    r"""A release :math:`q(z) = \frac{1}{m} \sum_{k \in C} \phi(z_k)` of scalar records within ``bound``.

    A subclass is a frozen dataclass with these fields, and gives its feature.
    """

    __slots__ = ()

    members: IndexArray
    bound: float

    @abstractmethod
    def feature(self, values: FloatArray) -> FloatArray:
        r""":math:`\phi(z)`."""

    @abstractmethod
    def slope(self, values: FloatArray) -> FloatArray:
        r""":math:`\phi'(z)`."""

    @property
    @abstractmethod
    def sensitivity(self) -> FloatArray:
        """The largest change of the mean when one record's value changes."""

    @property
    def dimension(self) -> int:
        """Records are scalars."""
        return 1

    @property
    def outputs(self) -> int:
        """One number."""
        return 1

    @property
    def sensitivity_l1(self) -> FloatArray:
        """The same: there is one output."""
        return self.sensitivity

    def value(self, records: FloatArray) -> FloatArray:
        """The mean of the feature."""
        mean: FloatArray = self.feature(self._values(records)).mean(axis=0)
        return mean

    def jacobian(self, records: FloatArray | None) -> FloatArray:
        r""":math:`\phi'(z_k) / m` for member k."""
        return self.slope(self._values(records))[np.newaxis] / len(self.members)

    def _values(self, records: FloatArray | None) -> FloatArray:
        return member_values(records, members=self.members, dimension=1, bound=self.bound)


def moment_sensitivity(
    order: ArrayLike, *, bound: float, count: int, convention: Convention = "tight"
) -> FloatArray:
    r"""The largest change of a mean of ``count`` powers when one value in :math:`[-R, R]` changes.

    .. math:: \Delta_\ell = 2R^\ell/m \text{ (uniform)}, \qquad
              \Delta_\ell = 2R^\ell/m \text{ for odd } \ell,\ R^\ell/m \text{ for even } \ell \text{ (tight)}

    An even power lies in :math:`[0, R^\ell]`, so half of the paper's bound (``eq:app_poly_sensitivity``) is
    enough. Vectorised over ``order``.

    >>> moment_sensitivity([1, 2, 3], bound=1.0, count=2).tolist()
    [1.0, 0.5, 1.0]
    >>> moment_sensitivity([1, 2, 3], bound=1.0, count=2, convention="uniform").tolist()
    [1.0, 1.0, 1.0]
    """
    match convention:
        case "tight":
            return power_range(order, low=-bound, high=bound) / count
        case "uniform":
            return 2.0 * power(bound, order) / count
    assert_never(convention)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moment(FeatureMean):
    r"""Moment of a whole ``order`` of the member records' values, eq. ``poly_query_new``.

    .. math:: q(z) = \frac{1}{m} \sum_{k \in C} z_k^\ell, \qquad |z_k| \le R

    ``bound`` is R. With the default convention the sensitivity is the exact one, :math:`R^\ell/m` for even
    orders and :math:`2R^\ell/m` for odd ones; ``convention="uniform"`` is :math:`2R^\ell/m` throughout.

    >>> second = Moment(order=2, members=range(4), bound=1.0)
    >>> second.value([0.5, -0.5, 1.0, 0.0]).tolist()
    [0.375]
    >>> second.jacobian([0.5, -0.5, 1.0, 0.0]).ravel().tolist()
    [0.25, -0.25, 0.5, 0.0]
    >>> second.sensitivity.tolist()
    [0.25]
    """

    order: int
    members: IndexArray
    bound: float
    convention: Convention = "tight"

    if TYPE_CHECKING:  # the constructor accepts wider types than the fields have

        def __init__(
            self, *, order: int, members: Members, bound: float, convention: Convention = "tight"
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", whole_number(self.order, name="order"))
        object.__setattr__(self, "members", frozen_index(self.members, error=InvalidRelease))
        object.__setattr__(self, "bound", positive_number(self.bound, name="bound"))
        one_of(self.convention, get_args(Convention), name="convention")
        # A double cannot hold larger orders exactly, and the parity decides the sensitivity.
        require(self.order < 2**53, "order below 2**53", got=self.order, error=InvalidRelease)
        require(
            abs(self.order * math.log10(self.bound)) <= 130,
            "bound**order between 1e-130 and 1e+130",
            got=f"order {self.order} and bound {self.bound}",
            fix="rescale the records to [-1, 1]",
            error=InvalidRelease,
        )

    @property
    def sensitivity(self) -> FloatArray:
        """See :func:`moment_sensitivity`."""
        delta = moment_sensitivity(
            [self.order], bound=self.bound, count=len(self.members), convention=self.convention
        )
        return frozen_floats(delta, name="sensitivity")

    @property
    def linear(self) -> bool:
        """Only the first moment is linear."""
        return self.order == 1

    def feature(self, values: FloatArray) -> FloatArray:
        """The power."""
        return power(values, self.order)

    def slope(self, values: FloatArray) -> FloatArray:
        r""":math:`\ell z^{\ell-1}`."""
        return power_slope(values, self.order)

    def jacobian(self, records: FloatArray | None) -> FloatArray:
        r""":math:`\ell z_k^{\ell-1} / m` for member k (``eq:app_poly_jacobian``)."""
        if self.linear and records is None:
            return np.full((1, len(self.members), 1), 1.0 / len(self.members))
        return FeatureMean.jacobian(self, records)  # super() fails: a dataclass with slots is created twice

    def integer_rows(self) -> NDArray[np.int64] | None:
        """Ones for the first moment; ``None`` for the others, whose rows depend on the records."""
        return np.ones((1, len(self.members), 1), dtype=np.int64) if self.linear else None


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
