r"""The prior of a whole number: every one from ``low`` to ``high`` is as likely.

Discrete noise is on whole sums, and an attacker knows that the values behind them are whole. With :math:`m`
values the prior variance is :math:`v = (m^2 - 1)/12`, and two draws are :math:`k \ge 1` apart with a weight
of :math:`m - k` (:mod:`sightline.labeled.bounds.population`). Distances of a wide range are taken together.
Where the noise tells much, and of several rows, a sum over neighbours leaves more (docs/theory/priors.md,
*Several rows on points*):

.. math:: \frac{R}{v} \ge \frac{e^{-G/4}}{1 + G \max\bigl(\frac{m^2 - 1}{12}, \frac{m^2 - 4}{10}\bigr)} .
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from sightline.arrays import FloatArray
from sightline.errors import require
from sightline.labeled.bounds.population import ByPairs, Distances
from sightline.labeled.bounds.scalar_risk import MARGIN
from sightline.labeled.bounds.target import Seen

LARGEST_WHOLE = 2**53  # a double holds every whole number up to here
_EACH, _BINS = 64, 256  # distances that count by themselves, bins of the others: 2e-5 lost at G r² = 30


@dataclass(frozen=True, slots=True)
class WholePrior(ByPairs):
    """Every whole number from ``low`` to ``high``, with even chances.

    >>> seen = Seen(information=np.array([0.0, 1 / 3]), linear_information=np.array([0.0, 1 / 3]))
    >>> WholePrior(0.0, 3.0).variance, WholePrior(0.0, 3.0).lower(seen).round(3).tolist()
    (1.25, [1.0, 0.649])
    """

    def __post_init__(self) -> None:
        require(
            self.low.is_integer() and self.high.is_integer() and 1 <= self.width <= LARGEST_WHOLE,
            "whole bounds",
            got=[self.low, self.high],
        )

    @property
    def name(self) -> str:
        return "uniform"

    @property
    def spread(self) -> str:
        return "that are whole and spread evenly"

    @property
    def variance(self) -> float:
        return self.width * (self.width + 2) / 12

    def distances(self) -> Distances:
        return _distances(int(self.width))

    def alone(self, seen: Seen) -> FloatArray:
        # The form of super() without arguments does not work in a class with slots.
        neighbours = self.lower_of_rows(seen.information, unsigned=seen.information)
        return np.maximum(ByPairs.alone(self, seen), neighbours)

    @property
    def _spacing(self) -> float:
        return 1.0

    @property
    def _reach(self) -> float:
        square = (self.width + 1) ** 2
        return max((square - 1) / 12, (square - 4) / 10)

    def sample(self, shape: tuple[int, ...], *, generator: np.random.Generator) -> FloatArray:
        """Independent draws."""
        return generator.integers(int(self.low), int(self.high) + 1, size=shape).astype(np.float64)

    def lower_by_nats(self, nats: FloatArray) -> FloatArray:
        r"""After I nats of mutual information: :math:`\frac1v(\frac{m^2}{2\pi e} e^{-2I} - \frac1{12})`.

        It is that of the number plus an even draw between -1/2 and 1/2, which has the entropy :math:`\ln m`.
        """
        m = self.width + 1
        left = m**2 / (2 * math.pi * math.e) * np.exp(-2 * nats) - 1 / 12
        return np.asarray(np.maximum(left / self.variance * (1 - MARGIN), 0.0))


@lru_cache(maxsize=16)
def _distances(width: int) -> Distances:
    """The weights of distances k, or of bins of them, which add up to 1, and their means of k²."""
    ends = [*range(min(width, _EACH) + 1)]
    ends += sorted({width - (width - ends[-1]) * left // _BINS for left in range(_BINS)} - {ends[-1]})
    first, second = _sums(width, ends)
    weights, squares = ([b - a for a, b in pairwise(sums)] for sums in (first, second))
    return [one / first[-1] for one in weights], [b / a for a, b in zip(weights, squares, strict=True)]


def _sums(width: int, ends: list[int]) -> tuple[list[int], list[int]]:
    """Sums of (m − k) k² and (m − k) k⁴ up to each end, which are whole."""
    m, first, second = width + 1, [], []
    for n in ends:
        squares, cubes = n * (n + 1) * (2 * n + 1) // 6, (n * (n + 1) // 2) ** 2
        fourth = n * (n + 1) * (2 * n + 1) * (3 * n * n + 3 * n - 1) // 30
        fifth = n * n * (n + 1) ** 2 * (2 * n * n + 2 * n - 1) // 12
        first.append(m * squares - cubes)
        second.append(m * fourth - fifth)
    return first, second
