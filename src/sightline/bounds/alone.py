r"""What is left of a row with few values if all others are known, under noise of any law, alone or mixed.

Of two values a and b the answers have laws P and Q, independent from number to number, so that the privacy
loss :math:`\ell = \ln P/Q` is a sum over the numbers. A genie who says whether the value is one of the two
leaves

.. math:: f_{ab} = \mathbb E_P\Bigl[\frac{p_a}{1 + \frac{p_a}{p_b} e^{\ell}}\Bigr] ,

the risk itself of a yes or no. It is concave in the odds: whoever sees more has less. So each number's law of
the loss is spread onto a grid, every mass onto the two ends of its cell so that those of P and of Q stay, and
sums on the grid are convolutions. That errs by a share of about :math:`h^2/8` for each number, to the safe
side.

Of a value v of several, with the genies of all pairs {v, b} and by the Cauchy–Schwarz inequality, as in
:mod:`sightline.bounds.genies`,

.. math:: \mathbb E \operatorname{Var}(1_v \mid y) \ge \frac{(\sum_b f_{vb})^2}{\sum_b f_{vb} + \sum_{b \ne c}
    \sqrt{D_b D_c}}, \qquad D_b = p_v\, \mathbb E_P\bigl[(1 + \tfrac{p_v}{p_b} e^{\ell})^{-2}\bigr] .
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from sightline.arrays import ROUNDING, FloatArray
from sightline.values import frozen

_REACH, _CELLS = 64.0, 4_096  # the grid of losses: what is beyond counts as told
_STEP = 2 * _REACH / _CELLS
_GRID = (np.arange(_CELLS) - _CELLS // 2) * _STEP
_LOST = 1e-11  # by rounding, in sums of 4,096 terms

Transform = NDArray[np.complex128]


@frozen(eq=True)
class PrivacyLosses:
    """What tells two values of a row apart, number by number."""

    information: float  # of all Gaussian answers together
    laplace: tuple[float, ...]  # how far apart Laplace answers are, over their scales
    geometric: tuple[tuple[float, float], ...]  # the same of geometric ones, and the loss of one step
    pure: tuple[float, ...]  # of answers of which only the largest loss is known

    def _law(self) -> FloatArray:
        """The masses of P on the grid of losses; none if losses may be so large that nothing is left."""
        most = sum(self.laplace) + sum(away for away, _ in self.geometric) + sum(self.pure)
        within = _REACH - 1 - most  # sums stay on the grid
        if within <= 0:
            return np.zeros(_CELLS)
        product = _gaussian(self.information, within) if self.information > 0 else np.ones(_CELLS // 2 + 1)
        for transform in self._transforms():
            product = product * transform
        return np.maximum(np.roll(np.fft.irfft(product, _CELLS), _CELLS // 2), 0.0)

    def _transforms(self) -> Iterator[Transform]:
        yield from (_laplace(away) for away in self.laplace)
        yield from (_geometric(away, step) for away, step in self.geometric)
        yield from (_two_answers(away) for away in self.pure)

    def left(self, first: float, second: float) -> tuple[float, float]:
        """At most f, and at least D of the first value, for the chances of both."""
        law, numbers = self._law(), len(self.laplace) + len(self.geometric) + len(self.pure) + 1
        odds = 1 / (1 + first / second * np.exp(_GRID))
        f = max(0.0, float(first * (law @ odds)) * (1 - ROUNDING) - _LOST)
        # In a cell a posterior moves by at most h/4, and (1 − t)t² has a second derivative below 4.
        D = first * float(law @ odds**2) + (first + second) * numbers * _STEP**2 / 32 + _LOST
        return f, D if law.any() else first


def left_of_values(losses: dict[tuple[int, int], PrivacyLosses], chances: FloatArray) -> FloatArray:
    """Of every value of a row at most the share that remains of its indicator."""
    kept = np.zeros(chances.size)
    for value, p in enumerate(chances.tolist()):
        others = [other for other in range(chances.size) if other != value]
        pairs = np.array(
            [losses[min(value, b), max(value, b)].left(p, float(chances[b])) for b in others]
        )  # the loss from b to a has the law of that from a to b, up to its sign, in all of these laws
        f, roots = pairs[:, 0], np.sqrt(pairs[:, 1])
        together = f.sum() + roots.sum() ** 2 - np.square(roots).sum()
        if together > 0:
            kept[value] = f.sum() ** 2 / together / (p * (1 - p)) * (1 - ROUNDING)
    return kept


@lru_cache(maxsize=256)
def _gaussian(information: float, within: float) -> Transform:
    z = (np.append(_GRID, _REACH) - information / 2) / math.sqrt(information)
    p, q = (np.diff(scipy.special.ndtr(edges)) for edges in (z, z + math.sqrt(information)))
    inside = np.abs(_GRID + _STEP / 2) + _STEP <= within
    return _spread(np.where(inside, p, 0.0), np.where(inside, q, 0.0))


@lru_cache(maxsize=1024)
def _laplace(away: float) -> Transform:
    edges = np.clip(np.append(_GRID, _REACH), -away, away)
    # The loss is Δ − 2y between the two centres 0 and Δ.
    y = (away - edges) / 2
    p, q = np.diff(np.exp(-y)) / 2, -np.diff(np.exp(y - away)) / 2
    for loss, of_p in ((away, 0.5), (-away, math.exp(-away) / 2)):
        cell = min(math.floor((loss + _REACH) / _STEP), _CELLS - 2)
        p[cell] += of_p
        q[cell] += of_p * math.exp(-loss)
    return _spread(p, q)


@lru_cache(maxsize=1024)
def _geometric(away: float, step: float) -> Transform:
    """Of so many steps: two-sided geometric noise on whole numbers."""
    steps, p, q = round(away / step), np.zeros(_CELLS), np.zeros(_CELLS)
    ratio = math.exp(-step)
    for k in range(steps + 1):
        mass = (1 - ratio) / (1 + ratio) * ratio**k if 0 < k < steps else ratio**k / (1 + ratio)
        loss = step * (steps - 2 * k)
        cell = min(math.floor((loss + _REACH) / _STEP), _CELLS - 2)
        p[cell] += mass
        q[cell] += mass * math.exp(-loss)
    return _spread(p, q)


@lru_cache(maxsize=256)
def _two_answers(loss: float) -> Transform:
    """Of all answers with a pure loss the one that tells most says one of two things."""
    p, q = np.zeros(_CELLS), np.zeros(_CELLS)
    for sign in (1.0, -1.0):
        cell = min(math.floor((sign * loss + _REACH) / _STEP), _CELLS - 2)
        p[cell] += 1 / (1 + math.exp(-sign * loss))
        q[cell] += 1 / (1 + math.exp(sign * loss))
    return _spread(p, q)


def _spread(p: FloatArray, q: FloatArray) -> Transform:
    """The masses of every cell on its two ends, so that those of P and Q stay."""
    upper = np.clip((p - q * np.exp(_GRID)) / -math.expm1(-_STEP), 0.0, p)
    masses = p - upper
    masses[1:] += upper[:-1]
    return np.asarray(np.fft.rfft(np.roll(masses, -_CELLS // 2)))
