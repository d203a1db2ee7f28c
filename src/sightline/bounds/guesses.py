r"""How often a guess at one of few values is right, at most: on average, among many people, and when sure.

With the posterior chances :math:`\pi_c` of the k values, the best guess is right with the chance
:math:`\max_c \pi_c`. Three bounds on its mean hold, and the least of them counts.

*By what remains.* :math:`q = \mathbb E \sum_c \pi_c^2` is 1 less the remaining variances of all indicators,
and no chances with :math:`\sum_c \pi_c^2 = q` have a larger maximum than :math:`(1 + \sqrt{(k - 1)(k q -
1)})/k`, which is concave in q.

*By the noise alone*, if all others are known. With the law :math:`P_c` of all answers if the value is c,

.. math:: \int \max_c p_c\, dP_c \le p_r + \sum_{c \ne r} \int (p_c\, dP_c - p_r\, dP_r)_+

for any value r. Behind Gaussian noise an integral is that of two normal laws :math:`\mu` apart; behind any
noise it is at most :math:`\tfrac12 (a - b + \sqrt{(a + b)^2 - 4 a b \rho^2})` with the chances a and b and
the affinity :math:`\rho = \int \sqrt{dP_c\, dP_r}`, a product over the answers.

*By a walk* (:func:`sightline.bounds.walking.with_walked_guesses`), which sees how others hide a record.

Somebody may also speak only when sure: of all who do not have a value, they say so of one in a thousand. Of
those who have it they find at most :math:`e^a\, \Phi(\Phi^{-1}(1/1000) + \mu)`, where Laplace answers move by
a scales in all, and Gaussian ones by :math:`\mu` deviations.
Whoever names the value v when sure, and else the likeliest other one u, guesses, too: with the share t of
those found they are right with at least :math:`p_v t + p_u - (1 - p_v)/1000`, which is no more than the best
guess. It is asked about a yes, and about every category.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.bounds.few_values import FewValues
from sightline.bounds.value_rows import EXACT, GAUSSIAN, LAPLACE, ValueRows
from sightline.units.design import Design
from sightline.values import frozen

FALSE_ALARMS = 1e-3  # of those without a value: so many does a sure guess take for one who has it
_AT_A_TIME = 256  # kinds of rows
_erfc = np.frompyfunc(math.erfc, 1, 1)


@frozen
class Guesses:
    """Of every unit, at most how often a guess is right, and how many a sure guess finds."""

    chances: FloatArray  # of the values, beforehand
    right: FloatArray  # the best guess
    sure_by_noise: FloatArray  # :attr:`sure`, if all others are known

    @property
    def before(self) -> float:
        """How often the likeliest value is right."""
        return float(self.chances.max())

    @property
    def sure(self) -> FloatArray:
        """The share of those with a value whom a guess finds that is wrong about one in 1,000 without it."""
        return np.maximum(
            np.minimum(self.sure_by_noise, sure_if_right(self.chances, self.right)), FALSE_ALARMS
        )

    def beyond_chance(self, people: IndexArray) -> float:
        """At most how many people more than before are guessed right on average, of units of so many."""
        return float((self.right - self.before) @ people)


def right_at_most(chances: FloatArray, lower: FloatArray) -> FloatArray:
    """How often the best guess is right, where of the indicators at least these shares remain.

    >>> right_at_most(np.array([0.5, 0.5]), np.array([[1.0], [0.0]])).tolist()
    [0.5, 1.0]
    >>> right_at_most(np.full(6, 1 / 6), np.array([[0.5] * 6])).round(3).tolist()
    [0.756]
    """
    k, variances = chances.size, chances * (1 - chances)
    remains = np.broadcast_to(np.clip(lower, 0.0, 1.0), (len(lower), k)) @ variances
    most = (1 + np.sqrt(np.maximum((k - 1) * (k * (1 - remains) - 1), 0.0))) / k
    return np.clip(most, float(chances.max()), 1.0)


def sure_if_right(chances: FloatArray, right: FloatArray) -> FloatArray:
    """The share of those with a value whom a sure guess finds, where so often the best guess is right.

    >>> sure_if_right(np.array([0.7, 0.3]), np.array([0.7, 0.8253, 1.0])).round(4).tolist()
    [0.0023, 0.42, 1.0]
    """
    asked = range(1, 2) if chances.size == 2 else range(chances.size)
    likeliest_other = np.array([np.delete(chances, value).max() for value in asked])
    of_value = chances[list(asked)]
    share_found = (right[:, None] - likeliest_other + FALSE_ALARMS * (1 - of_value)) / of_value
    return np.asarray(np.clip(share_found.max(axis=1), 0.0, 1.0))


def must_remain(chances: FloatArray, right: float) -> float:
    """The share of every indicator that must remain so that no guess is right more often.

    >>> round(must_remain(np.array([0.5, 0.5]), 0.6), 3), round(must_remain(np.full(6, 1 / 6), 0.5), 3)
    (0.96, 0.84)
    >>> right_at_most(np.full(6, 1 / 6), np.full((1, 6), 0.84)).round(3).tolist()
    [0.5]
    """
    k = chances.size
    remains = 1 - (1 + max(k * right - 1, 0.0) ** 2 / (k - 1)) / k
    return max(0.0, remains / float(chances @ (1 - chances)))


def guesses(design: Design, chances: FloatArray, lower: FloatArray) -> Guesses:
    """Of units of which at least ``lower`` remains, a column for each indicator; no walk is made for them."""
    right = right_at_most(chances, lower)
    sure = np.where(lower.min(axis=1, initial=1.0) >= 1.0, FALSE_ALARMS, 1.0)
    few = FewValues.of_design(design)
    if few is not None and few.share >= 1:  # else noise is sure to have its law only with a chance
        listed, (by_kind, sure_by_kind) = few.person >= 0, _by_noise(few.rows)
        kinds = few.kinds[few.person[listed]]
        right[listed] = np.minimum(right[listed], np.where(kinds >= 0, by_kind[kinds], 0.0).max(axis=1))
        sure[listed] = np.where(kinds >= 0, sure_by_kind[kinds], 0.0).max(axis=1)
    return Guesses(chances=chances, right=np.maximum(right, chances.max()), sure_by_noise=sure)


def _by_noise(rows: ValueRows) -> tuple[FloatArray, FloatArray]:
    """Of every kind of row, if all other rows are known."""
    right, sure = np.ones(rows.counts.size), np.ones(rows.counts.size)
    for start in range(0, right.size, _AT_A_TIME):
        kinds = np.arange(start, min(start + _AT_A_TIME, right.size))
        table, law = rows.answers(kinds)
        both = [_against(table, law, rows.chances, value) for value in {0, int(rows.chances.argmax())}]
        right[kinds] = np.min([one for one, _ in both], axis=0)
        sure[kinds] = np.min([one for _, one in both], axis=0)
    return right, sure


def _against(
    table: FloatArray, law: IndexArray, chances: FloatArray, first: int
) -> tuple[FloatArray, FloatArray]:
    """The two bounds from how far every other value is from one of them."""
    away = np.abs(np.delete(table, first, axis=1) - table[:, [first]])  # kinds × other values × answers
    moved = np.square(away[:, :, law == GAUSSIAN]).sum(axis=2)
    laplace = away[:, :, law == LAPLACE]
    certain = np.any(away[:, :, law >= EXACT] > 0, axis=2)
    affinity = np.exp(np.sum(np.log1p(laplace / 2) - laplace / 2, axis=2) - moved / 8)
    a, b = np.delete(chances, first), float(chances[first])
    excess = (a - b + np.sqrt(np.maximum((a + b) ** 2 - 4 * a * b * affinity**2, 0.0))) / 2
    mu = np.sqrt(moved)
    odds = np.log(a / b) / np.maximum(mu, 1e-9)
    normal = a * _normal(mu / 2 + odds) - b * _normal(odds - mu / 2)
    normal = np.where(mu > 1e-9, normal, np.maximum(a - b, 0.0))
    excess = np.where(laplace.any(axis=2), excess, np.minimum(excess, normal))
    right = b + np.where(certain, a, excess).sum(axis=1)
    # Two other values are no further apart than both together are from this one.
    loss = laplace.sum(axis=2)
    apart, more = (np.sort(one, axis=1)[:, -2:].sum(axis=1) for one in (mu, loss))
    chance = np.exp(np.minimum(more, 50.0)) * _normal(NormalDist().inv_cdf(FALSE_ALARMS) + apart)
    return np.minimum(right, 1.0), np.where(certain.any(axis=1), 1.0, np.minimum(chance, 1.0))


def _normal(x: FloatArray) -> FloatArray:
    """The normal distribution function."""
    return np.asarray(_erfc(-np.asarray(x) / math.sqrt(2)) / 2, dtype=np.float64)
