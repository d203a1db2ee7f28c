"""Smooth thresholds of a group: a new grid for every count, or a list that releases take in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, assert_never, get_args

import numpy as np
from flint import arb, fmpq
from numpy.typing import ArrayLike

from sightline.arrays import FloatArray, IndexArray, frozen_floats
from sightline.errors import InvalidRelease, require
from sightline.multiset.family import Balls, Family, in_domain
from sightline.releases.domain import one_of, positive_number
from sightline.releases.feature_balls import smooth_step_rise_ball, smooth_step_slope_ball
from sightline.releases.features import Kernel, smooth_step_slope
from sightline.releases.query import Convention, Query
from sightline.releases.smooth_threshold import SmoothThreshold, threshold_sensitivity

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
    def largest(self) -> int | None:
        """The length of the list, or ``None`` for a grid."""
        return len(self.grid) if isinstance(self.grid, np.ndarray) else None

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

    def balls(self, values: Sequence[fmpq], releases: int) -> Balls:
        """The same slopes at exact offsets; grid points of midpoints are exact rationals."""
        tau, bound = Fraction(self.bandwidth), Fraction(self.bound)
        midpoint = isinstance(self.grid, str)
        steps = range(1 - releases, releases, 2)
        places = (
            [bound * step / releases for step in steps]
            if midpoint
            else [Fraction(t) for t in self.thresholds(releases).tolist()]
        )
        rows: Balls = []
        for t in places:
            width = (
                arb(2)
                if self.convention == "uniform"
                else smooth_step_rise_ball(-bound - t, bound - t, bandwidth=tau, kernel=self.kernel)
            )
            offsets = [Fraction(int(z.p), int(z.q)) - t for z in values]
            rows.append(
                [smooth_step_slope_ball(u, bandwidth=tau, kernel=self.kernel) / width for u in offsets]
            )
        return rows

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
