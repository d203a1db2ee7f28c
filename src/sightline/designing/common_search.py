r"""The least common factor on all noise by the audit's lower ends, for at most four factorisations.

With all variances times f the information of an attacker who knows all others is a closed form. What needs a
factorisation is the variance :math:`1/Q - 1/G` that hidden records outside a record's group add to it. It
changes slowly with f: for each record by itself its logarithm is interpolated in :math:`\\log f` by a
polynomial through the last points. Each point predicts the least factor, and the next point is there. After
the last point its prediction is the answer: near a point the interpolation is right to many digits, and where
the audit decides it raises a factor that is too small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from sightline.arrays import FloatArray
from sightline.designing.levels import LowerEnds
from sightline.designing.task import DesignTask

MOST_FACTORISATIONS = 4
_POINTS = 3  # of an interpolation
_CLOSE = 1e-7  # how near the least factor a search ends
_AIM = (3e-3, 1e-4, 1e-6, 1e-8)  # how far above its prediction the next point is, to bracket the factor
_LEAST = 1e-300  # a variance that stands for none


@dataclass(slots=True, kw_only=True, eq=False)
class CommonSearch:
    """A search for the least factor on the variances of all numbers that may be chosen."""

    task: DesignTask
    ends: LowerEnds
    factorisations: int = 0
    logs: list[float] = field(default_factory=list)  # of the factors at which hiding is known
    added: list[FloatArray] = field(default_factory=list)  # logarithms of what hidden records add there

    def least(self, enough: float) -> float:
        """The least factor from 1 on with which the lower ends keep the limit.

        ``enough`` is a factor that is enough against an attacker who knows all other records.
        """
        low, high, factor = 1.0, enough, math.sqrt(enough)
        for aim in _AIM[:MOST_FACTORISATIONS]:
            if high <= low * (1 + _CLOSE):
                break
            if self._keeps(factor):
                high = factor
            else:
                low = factor
            if not self.added:  # no record hides another: what is predicted is exact
                return self._predicted(low, high)
            predicted = self._predicted(low, high)
            factor = min(predicted * (1 + aim), high)
            if factor >= high * (1 - _CLOSE):
                return high
        return self._predicted(low, high)

    def _keeps(self, factor: float) -> bool:
        self.factorisations += 1
        seen = self.ends.seen(self._variances(factor))
        if seen.hidden_information is not None:
            self.logs = [*self.logs, math.log(factor)][-_POINTS:]
            with np.errstate(divide="ignore"):
                added = 1 / seen.group_information() - 1 / seen.information
            self.added = [*self.added, np.log(np.maximum(added, _LEAST))][-_POINTS:]
        return self.ends.least_of(seen) >= self.task.limit

    def _predicted(self, low: float, high: float) -> float:
        """The least factor between two with which the interpolation keeps the limit, from above."""
        while high > low * (1 + _CLOSE / 10):
            middle = math.sqrt(low * high)
            seen = self.ends.from_added(self.ends.told(self._variances(middle)), self._interpolated(middle))
            keeps = self.ends.least_of(seen) >= self.task.limit
            low, high = (low, middle) if keeps else (middle, high)
        return high

    def _interpolated(self, factor: float) -> FloatArray | None:
        """What hidden records add at a factor; as its root if one point is known."""
        if not self.added:
            return None
        at, logs = math.log(factor), self.logs
        if len(logs) == 1:
            return np.asarray(np.exp(self.added[0] + 0.5 * (at - logs[0])))
        total = np.zeros(self.added[0].size)
        for own, values in zip(logs, self.added, strict=True):  # Lagrange's polynomial
            total += values * math.prod((at - one) / (own - one) for one in logs if one != own)
        return np.asarray(np.exp(total))

    def _variances(self, factor: float) -> FloatArray:
        stddevs = self.task.times_common(factor)
        found: FloatArray = stddevs[self.task.linear.cells] ** 2 * self.task.row_unit
        return found
