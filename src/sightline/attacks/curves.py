r"""The features that a batched attack can bend along: powers and smooth steps, with two derivatives.

The same functions as in the releases (a test holds them together), but on arrays of any library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

from sightline.attacks.namespace import Column, namespace
from sightline.releases.features import Kernel

Bend = tuple[Column, Column | None, Column | None]
"""Value, first and second derivative; ``None`` stands for a derivative that is 1 or 0 everywhere."""


class Curve(Protocol):
    """A function of one record's value."""

    def bend(self, u: Column, powers: Powers) -> Bend:
        """The curve and its first two derivatives at a column of values; ``powers`` are its powers."""


class Powers:
    """The powers of one column, each computed once and only if asked for."""

    def __init__(self, u: Column) -> None:
        self._known = [u]  # u, u², …

    def __getitem__(self, order: int) -> Column:
        while len(self._known) < order:
            self._known.append(self._known[-1] * self._known[0])
        return self._known[order - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    r"""The feature :math:`\phi(u) = u^\ell`."""

    order: int

    def bend(self, u: Column, powers: Powers) -> Bend:
        match self.order:
            case 1:
                return u, None, None
            case 2:
                return powers[2], 2.0 * u, 2.0 + 0.0 * u
            case order:
                return (
                    powers[order],
                    float(order) * powers[order - 1],
                    float(order * (order - 1)) * powers[order - 2],
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    r"""The smooth step :math:`h_\tau(u - t)`."""

    at: float
    bandwidth: float
    kernel: Kernel

    def bend(self, u: Column, powers: Powers) -> Bend:
        xp = namespace(u)
        w = (u - self.at) * (1.0 / self.bandwidth)
        match self.kernel:
            case "logistic":
                return self._logistic(xp, w)
            case "compact":
                return self._compact(xp, w)
        assert_never(self.kernel)

    def _logistic(self, xp: Any, w: Column) -> Bend:
        tau = self.bandwidth
        small = xp.exp(-xp.abs(w))  # never overflows
        share = 1.0 / (1.0 + small)
        step = xp.where(w < 0, small * share, share)
        slope = small * share * share * (1.0 / tau)
        return step, slope, slope * (1.0 - 2.0 * step) * (1.0 / tau)

    def _compact(self, xp: Any, w: Column) -> Bend:
        tau = self.bandwidth
        v = xp.clip(1.0 - xp.abs(w), 0.0, 1.0)
        sine = xp.sin(math.pi * v)  # sin(π|w|) inside, 0 outside
        tail = 0.5 * v - sine * (0.5 / math.pi)
        half = xp.sin(0.5 * math.pi * v)
        bend = sine * (0.5 * math.pi / tau**2)
        return xp.where(w < 0, tail, 1.0 - tail), half * half * (1.0 / tau), xp.where(w < 0, bend, -bend)
