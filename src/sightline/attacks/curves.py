r"""The curves that a batched attack fits: powers and smooth steps, each with two derivatives.

The formulas are those of :mod:`sightline.releases.features`, on arrays of any library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sightline.arrays import namespace
from sightline.attacks.namespace import Column
from sightline.releases.features import Kernel, Powers, smooth_step_derivatives

Derivatives = tuple[Column, Column | None, Column | None]
"""Value, first and second derivative; ``None`` stands for a derivative that is 1 or 0 everywhere."""


class Curve(Protocol):
    """A function of one record's value."""

    def derivatives(self, u: Column, powers: Powers) -> Derivatives:
        """The curve and its first two derivatives at a column of values; ``powers`` are its powers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    r"""The feature :math:`\phi(u) = u^\ell` (``eq:poly_query_new``)."""

    order: int

    def derivatives(self, u: Column, powers: Powers) -> Derivatives:
        return powers.derivatives(self.order)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothStep:
    r"""The smooth step :math:`h_\tau(u - t)` (``eq:threshold_query``)."""

    at: float
    bandwidth: float
    kernel: Kernel

    def derivatives(self, u: Column, powers: Powers) -> Derivatives:
        return smooth_step_derivatives(
            u - self.at, bandwidth=self.bandwidth, kernel=self.kernel, xp=namespace(u)
        )
