r"""Priors whose lower end comes from pairs of draws: a population by its histogram, and whole numbers.

If all others are known, the answers to two values a distance :math:`d` apart have a squared affinity of at
least :math:`e^{-G d^2/4}`, with the information :math:`G` of all answers, whatever their laws. So for two
independent draws of the value

.. math:: \frac{R}{v} \ge a(G) = \frac{E\, d^2 e^{-G d^2/4}}{E\, d^2}

(docs/theory/priors.md, *What the noise alone leaves*). For :math:`n` records alike it is at least
:math:`1 - \frac1n + \frac1n a(nG)` under Gaussian noise; under other noise the last term is left out.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from sightline.arrays import EXACT, ROUNDING, FloatArray
from sightline.bounds.priors import UniformPrior
from sightline.errors import require
from sightline.units.target import BoundedPrior, NoDensity, Seen, linear_upper

# Weights of squared distances, which add up to 1, and these squares.
Distances = tuple[list[float], list[float]]


class ByPairs(NoDensity, BoundedPrior, ABC):
    """A prior on a domain, given by how far two draws of it are apart."""

    __slots__ = ()

    @property
    @abstractmethod
    def variance(self) -> float:
        """v."""

    @abstractmethod
    def distances(self) -> Distances:
        r"""How :math:`d^2` is spread under the weight :math:`d^2`.

        The exponential is convex, so that by Jensen's inequality distances may be taken together as their
        mean of :math:`d^2`.
        """

    def alone(self, seen: Seen) -> FloatArray:
        """a(G): at most what remains if all others are known."""
        kept = np.zeros(np.shape(seen.information))
        for weight, square in zip(*self.distances(), strict=True):
            kept += weight * np.exp(-seen.information * (square / 4))
        return kept * (1 - ROUNDING)

    def lower(self, seen: Seen) -> FloatArray:
        G, n = seen.information, np.asarray(seen.alike, dtype=np.float64)
        together = Seen(information=n * G, linear_information=np.zeros_like(G))
        group = 1 - 1 / n + np.where(seen.gaussian, self.alone(together), 0.0) / n
        return np.where(G == 0, 1.0, np.minimum(np.maximum(self.alone(seen), group), self.upper(seen)))

    def upper(self, seen: Seen) -> FloatArray:
        return linear_upper(seen, self.variance)


LEAST_SPREAD = 1e-6  # a standard deviation over the width of the bounds
# Parts that bins are cut into together, squares and distances that pairs are gathered in, and widths of bins
# that are told: those that count least are left out, which is safe.
_GATHERED = 256

Bin = tuple[float, float, float]  # the least and the greatest value, and a weight


@dataclass(frozen=True, slots=True)
class PopulationPrior(ByPairs):
    r"""Values as in the bins of a population's histogram, with a weight each, and even draws within a bin.

    A bin whose ends are equal is one value. Two lower ends, of which the larger counts, if all others are
    known:

    - *pairs of draws*. The distance of draws from bins of widths :math:`w, w'` whose middles are
      :math:`\Delta` apart has, with :math:`s = (w^2 + w'^2)/12`,

      .. math:: E\,d^2 = \Delta^2 + s, \qquad
          E\,d^4 = \Delta^4 + 6 \Delta^2 s + \tfrac{1}{80}(w^4 + w'^4) + \tfrac{1}{24} w^2 w'^2 .

      By Jensen's inequality the two bins count :math:`E\,d^2` at the square :math:`E\,d^4 / E\,d^2`. Bins are
      cut into parts first, so that little is lost.
    - *tell the bin*: the value is spread evenly in it, :math:`R \ge \sum_b p_b R_{\text{uniform}}(w_b)`.

    >>> seen = Seen(information=np.array([0.0, 1.0]), linear_information=np.array([0.0, 1.0]))
    >>> prior = PopulationPrior(0.0, 10.0, bins=((0.0, 2.0, 3.0), (2.0, 10.0, 1.0)))
    >>> prior.mean, round(prior.variance, 3), prior.lower(seen).round(3).tolist()
    (2.25, 6.271, [1.0, 0.061])
    """

    bins: tuple[Bin, ...] = ()
    source: str = "a population"  # the file that states it

    def __post_init__(self) -> None:
        fine = all(
            self.low <= low <= high <= self.high and 0 < weight < math.inf for low, high, weight in self.bins
        )
        require(
            fine and len(self.bins) > 1, "two bins or more, between the bounds, of weights > 0", got="others"
        )

    @property
    def name(self) -> str:
        return self.source

    @property
    def spread(self) -> str:
        return "population"

    @property
    def _chances(self) -> FloatArray:
        weights = np.array([weight for _, _, weight in self.bins])
        return np.asarray(weights / weights.max() / np.sum(weights / weights.max()))

    @property
    def mean(self) -> float:
        return float(self._chances @ [(low + high) / 2 for low, high, _ in self.bins])

    @property
    def variance(self) -> float:
        middles = np.array([(low + high) / 2 for low, high, _ in self.bins]) - self.mean
        widths = np.array([high - low for low, high, _ in self.bins])
        return float(self._chances @ (middles**2 + widths**2 / 12))

    @property
    def proxy(self) -> float:
        """Hoeffding's lemma: a quarter of the squared width of all bins, over v."""
        width = max(high for _, high, _ in self.bins) - min(low for low, _, _ in self.bins)
        return width**2 / 4 / self.variance

    def distances(self) -> Distances:
        return _distances(self.bins)

    def alone(self, seen: Seen) -> FloatArray:
        # The form of super() without arguments does not work in a class with slots.
        kept = ByPairs.alone(self, seen)
        beside = replace(seen, hidden_information=math.inf, precision=math.inf, alike=1.0)
        inside = np.zeros(np.shape(seen.information))
        for width, weight in self._widths():
            inside += weight * UniformPrior(0.0, width).lower(beside)
        return np.maximum(kept, inside * (1 - ROUNDING))

    def lower_of_rows(self, information: FloatArray, *, unsigned: FloatArray) -> FloatArray:
        """Nothing: the bound on neighbours is for even chances. What the noise guarantees is left."""
        return np.zeros_like(information)

    def _widths(self) -> list[tuple[float, float]]:
        """The widths of bins that count most, and the share of the variance that is within them."""
        shares: dict[float, float] = {}
        for chance, (low, high, _) in zip(self._chances.tolist(), self.bins, strict=True):
            if high - low > LEAST_SPREAD * self.width:
                shares[high - low] = shares.get(high - low, 0.0) + chance * (high - low) ** 2 / 12
        chosen = sorted(shares.items(), key=lambda pair: -pair[1])[:_GATHERED]
        return [(width, share / self.variance) for width, share in chosen]

    def lower_by_nats(self, nats: FloatArray) -> FloatArray:
        r"""After I nats of mutual information: the better of Shannon's bound and :math:`1 - 2Ic`.

        Single values are spread evenly to the middle between them and the next bin, which adds a known
        variance u: then there is an entropy h, and :math:`\frac1v(\frac{1}{2\pi e} e^{2h - 2I} - u)` is left.
        c is the ``proxy``.
        """
        chances, ordered = self._chances, sorted(self.bins)
        order = sorted(range(len(self.bins)), key=self.bins.__getitem__)
        widths = np.array([high - low for low, high, _ in ordered])
        gaps = np.array([b[0] - a[1] for a, b in pairwise(ordered)])
        room = np.minimum(np.append(gaps, np.inf), np.append(np.inf, gaps))
        single = widths == 0
        with np.errstate(divide="ignore"):
            entropy = float(chances[order] @ np.log(np.where(single, room, widths) / chances[order]))
        added = float(chances[order] @ np.where(single, room, 0.0) ** 2) / 12
        shannon = (np.exp(2 * entropy - 2 * nats) / (2 * math.pi * math.e) - added) / self.variance
        return np.asarray(np.maximum(np.maximum(shannon, 1 - 2 * self.proxy * nats) * (1 - ROUNDING), 0.0))

    def sample(self, shape: tuple[int, ...], *, generator: np.random.Generator) -> FloatArray:
        """Independent draws."""
        ends = np.array([(low, high) for low, high, _ in self.bins])
        low, high = ends[generator.choice(len(ends), size=shape, p=self._chances)].T
        return np.asarray(low.T + (high - low).T * generator.random(shape))


@lru_cache(maxsize=16)
def _distances(bins: tuple[Bin, ...]) -> Distances:
    each = max(1, _GATHERED // len(bins))
    parts = [each if high > low else 1 for low, high, _ in bins]
    low, high, weight = np.repeat(np.array(bins), parts, axis=0).T
    cuts = np.repeat(parts, parts)
    number = np.concatenate([np.arange(count) for count in parts])
    widths = (high - low) / cuts
    middles = low + widths * (number + 0.5)
    chances = weight / weight.max() / cuts
    apart = np.square(middles[:, None] - middles)
    squares = np.square(widths)
    spread = (squares[:, None] + squares) / 12
    second = apart + spread
    fourth = apart**2 + 6 * apart * spread + (squares**2)[:, None] / 80 + squares**2 / 80
    fourth += np.outer(squares, squares) / 24
    mass = np.outer(chances, chances) * second
    there = mass > 0
    mass, square = mass[there], fourth[there] / second[there]
    edges = np.geomspace(square.min(), square.max(), _GATHERED + 1)
    bin_of = np.clip(np.searchsorted(edges, square, side="right") - 1, 0, _GATHERED - 1)
    masses, moments = np.bincount(bin_of, mass), np.bincount(bin_of, mass * square)
    used = masses > 0
    return (masses[used] / masses.sum()).tolist(), (moments[used] / masses[used]).tolist()


@dataclass(frozen=True, slots=True)
class WholePrior(ByPairs):
    r"""Every whole number from ``low`` to ``high``, with even chances.

    Discrete noise is on whole sums, and an attacker knows that the values behind them are whole. With
    :math:`m` values the prior variance is :math:`v = (m^2 - 1)/12`, and two draws are :math:`k \ge 1` apart
    with a weight of :math:`m - k`. Distances of a wide range are taken together. Where the noise tells much,
    and of several rows, a sum over neighbours leaves more (docs/theory/priors.md, *Several rows on points*):

    .. math:: \frac{R}{v} \ge \frac{e^{-G/4}}{1 + G \max\bigl(\frac{m^2 - 1}{12}, \frac{m^2 - 4}{10}\bigr)} .

    >>> seen = Seen(information=np.array([0.0, 1 / 3]), linear_information=np.array([0.0, 1 / 3]))
    >>> WholePrior(0.0, 3.0).variance, WholePrior(0.0, 3.0).lower(seen).round(3).tolist()
    (1.25, [1.0, 0.649])
    """

    def __post_init__(self) -> None:
        require(
            self.low.is_integer() and self.high.is_integer() and 1 <= self.width <= EXACT,
            "whole bounds",
            got=[self.low, self.high],
        )

    @property
    def name(self) -> str:
        return "uniform"

    @property
    def spread(self) -> str:
        return "whole"

    @property
    def variance(self) -> float:
        return self.width * (self.width + 2) / 12

    def distances(self) -> Distances:
        return _whole_distances(int(self.width))

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
        return np.asarray(np.maximum(left / self.variance * (1 - ROUNDING), 0.0))


@lru_cache(maxsize=16)
def _whole_distances(width: int) -> Distances:
    """The weights of distances k, or of bins of them, which add up to 1, and their means of k²."""
    ends = [*range(min(width, _GATHERED) + 1)]
    ends += sorted({width - (width - ends[-1]) * left // _GATHERED for left in range(_GATHERED)} - {ends[-1]})
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
