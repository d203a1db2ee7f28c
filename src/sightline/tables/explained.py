r"""How much of the secret's variance public columns explain, alone and together.

Whoever knows the columns that group and choose rows knows the secret of people alike in them better than its
bounds say, before anything is published. Each person is guessed by the mean of the *others* in their class,
and by that of all others if there is none. With the errors e of these guesses, and the errors d of guessing
everyone by the mean of all others, the classes explain the share

.. math:: 1 - \sum e^2 / \sum d^2.

It is not above 0 on average where they have nothing to do with the secret, however many they are, and one odd
value in a class of its own explains next to nothing. Of a category the squares are those of its indicators. A
column of many numbers counts by classes of like rank. In small tables an F-test has to reject chance.

All of it is for the owner only.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray, distinct_lines
from sightline.values import frozen

MOST_EXPLAINED = 0.5  # beyond that a pass has to accept it: less is left of the variance than is explained
_WORTH_SAYING = 0.1  # what is explained of less changes no error bar by more than a twentieth
_CLASSES = 20  # of a column of many numbers, by rank
_IN_A_CLASS = 5  # people of a column of many numbers, on average
# Columns that are tried together, the best ones first. More classes leave nobody with others in their class,
# and conditions of a thousand releases are a thousand columns.
_TOGETHER = 12
_FEWEST = 10  # people: of fewer, classes agree with the secret by chance
_BY_CHANCE = 1e-3  # of tables whose columns have nothing to do with the secret, the share with a finding


@frozen(eq=True)
class ExplainedVariance:
    """How much of the secret's variance some columns explain together; 0 if that may be chance."""

    columns: tuple[str, ...] = ()
    share: float = 0.0


NOTHING = ExplainedVariance()


def explained(
    secret: NDArray[np.generic], columns: Mapping[str, NDArray[np.generic]], record: IndexArray
) -> ExplainedVariance:
    """The columns that explain most: the best one, and others that explain more with it.

    Rows of one record in one class count as one, by their mean.
    """
    values, people = _squares(secret), np.unique(record).size
    largest = float(np.abs(values).max(initial=0.0))
    if not 0 < largest < np.inf:
        return NOTHING
    values /= largest  # squares of values far out of bounds would overflow
    classes = {name: _classes(column, people) for name, column in columns.items()}
    tests = sum(map(len, classes.values())) ** 2
    alone = {
        name: max(((_share(values, one, record, tests), one) for one in own), key=lambda found: found[0])
        for name, own in classes.items()
        if own
    }
    ordered = sorted(alone, key=lambda name: (-alone[name][0], name))
    chosen, best, together = list[str](), 0.0, np.zeros(len(secret), dtype=np.intp)
    for name in ordered[:_TOGETHER]:
        both = distinct_lines(np.stack([together, alone[name][1]], axis=1))[1]
        share = _share(values, both, record, tests)
        if share > best:
            chosen, best, together = [*chosen, name], share, both
    return ExplainedVariance(columns=tuple(chosen), share=best)


def _squares(secret: NDArray[np.generic]) -> FloatArray:
    """A line for each row: a number, or the indicators of its category."""
    if np.issubdtype(secret.dtype, np.number):
        return np.asarray(secret, dtype=np.float64)[:, None]
    names, code = np.unique(secret, return_inverse=True)
    return np.eye(len(names))[code]


def _classes(column: NDArray[np.generic], people: int) -> list[IndexArray]:
    """The class of every row, by its value and by its rank; none of a column of many texts, such as a key.

    What is missing is a class. By value people may be alone in their class, however many rows they have.
    """
    there = column == column if column.dtype != np.object_ else np.array([v is not None for v in column])
    codes = np.zeros(len(column), dtype=np.intp)
    values, classes = column[there], []
    try:
        _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    except TypeError:  # values of several kinds
        return []
    if counts.size <= max(_CLASSES, len(values) // 2):
        codes[there] = 1 + place
        classes.append(codes)
    ordered = np.issubdtype(values.dtype, np.number) or np.issubdtype(values.dtype, np.datetime64)
    if not ordered and not all(isinstance(value, int | float) for value in values.tolist()):
        return classes
    below = np.cumsum(counts) - counts
    most = max(2, min(_CLASSES, people // _IN_A_CLASS))
    if counts.size > max(most, people // 2):
        ranked = np.zeros(len(column), dtype=np.intp)
        ranked[there] = 1 + (below * most // max(1, len(values)))[place]
        classes.append(ranked)
    return classes


def _share(values: FloatArray, classes: IndexArray, record: IndexArray, tests: int) -> float:
    """The share of the variance of values that classes explain; 0 where that may be chance."""
    lines, line = distinct_lines(np.stack([record, classes], axis=1))
    rows = np.bincount(line)
    means = np.stack([np.bincount(line, column) / rows for column in values.T], axis=1)
    class_of = np.unique(classes[lines], return_inverse=True)[1]
    size = np.bincount(class_of)
    n, k = len(means), size.size
    if k < 2 or n < _FEWEST or n == k:
        return 0.0
    of_class = np.stack([np.bincount(class_of, column) / size for column in means.T], axis=1)
    apart, away = means - of_class[class_of], means - means.mean(axis=0)
    within, total = float(np.sum(np.square(apart))), float(np.sum(np.square(away)))
    if total <= 0:
        return 0.0
    # The mean of the others is away by n/(n - 1) times as much as that of all.
    others = (size / np.maximum(size - 1, 1))[class_of, None] * apart
    guessed = np.where(size[class_of, None] > 1, others, n / (n - 1) * away)
    share = 1.0 - float(np.sum(np.square(guessed))) / (total * (n / (n - 1)) ** 2)
    if share < _WORTH_SAYING:
        return 0.0
    kinds = max(1, values.shape[1] - 1)
    ratio = (total - within) / (k - 1) / (within / (n - k)) if within > 0 else np.inf
    by_chance = _may_be_chance(ratio, (k - 1) * kinds, (n - k) * kinds, _BY_CHANCE / tests)
    return 0.0 if by_chance else share


def _may_be_chance(ratio: float, between: int, within: int, level: float) -> bool:
    """Whether an F-test with so many degrees of freedom does not reject chance at a small level.

    >>> _may_be_chance(1.5, 3, 100, 1e-3), _may_be_chance(30.0, 3, 100, 1e-3)
    (True, False)
    """
    if not np.isfinite(ratio):
        return False
    root, a, b = np.cbrt(ratio), 2 / (9 * between), 2 / (9 * within)
    if (1 - b) * root - (1 - a) < 1.5 * np.sqrt(b * root**2 + a):  # Paulson's normal score: far from rejected
        return True
    from scipy.special import fdtrc  # takes longer to import than a small audit, and few need it

    return bool(fdtrc(between, within, ratio) > level)
