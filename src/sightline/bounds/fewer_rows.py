r"""Numbers that do not matter to a person: those of strangers, and those that tell nothing.

*Strangers.* Units and rows that no chain of rows connects are independent, before and after the answers. So
each connected part of a design is assessed by itself, whatever else is published.

*A release that tells nothing.* Let R be the risk of the best attack on any feature f of a person, by some
answers, and let one more answer tell the sum S of values with Gaussian noise of information g, where S lies
in an interval of width w. By the I-MMSE relation

.. math:: \frac{dR}{dg} = -E\,\operatorname{Cov}(f, S \mid y)^2
   \ge -E\,[\operatorname{Var}(f \mid y) \operatorname{Var}(S \mid y)] \ge -\frac{w^2}{4} R,

so that at least :math:`e^{-g w^2/4}` of R is left. Where the values have a log-concave density, such as an
even one, and all noise does, S has one given the answers, too (Prékopa). Of the log-concave densities on an
interval the even one has the largest variance, because for a given mean only truncated exponentials compete
(localization), and theirs is :math:`w^2 (1/t^2 - 1/(4 \sinh^2(t/2))) \le w^2/12`. Then a twelfth stands for
the quarter.

An answer of pure privacy loss l for a unit of S has densities that differ by a factor of at most
:math:`e^{l w}` between any two values of S: then :math:`e^{-l w}` of every posterior variance is left. Both
shares are near 1 for an answer whose noise is far beyond all that it adds up, and a bound that breaks on it
(because its row makes rows independent that were not) is replaced by the bound without it. Where an exact
number e is told first, an answer about a tells as much as one about :math:`a - c e`: the width is the least
over c, so that a constant added to all weights beside an exact total changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sightline.arrays import ROUNDING, FloatArray
from sightline.units.design import Design
from sightline.units.unit_block import BoolArray
from sightline.units.units import Units

MOST_ROWS = 400  # of a part that is assessed again; beyond it the looser bound is kept
_MOST_ENTRIES = 1 << 22  # rows × kinds
_MOST_PARTS = 16  # each takes a few milliseconds
_TOLD_LAST = 0.1  # most of what is given away by telling some rows last: a tenth, in all
# Of those told last fewer are tried as well if they give away so much less, where there is something to gain.
_MUCH_LESS, _NEXT_TO_NOTHING, _MOST_TRIED = 4.0, 5e-4, 3


def parts(design: Design) -> Iterator[tuple[BoolArray, BoolArray]]:
    """The rows and the kinds of every connected part; none if that is all of the design, or it is large."""
    units = _in_memory(design)
    if units is None:
        return
    lines = units.table()
    owner = np.repeat(np.arange(len(units)), np.diff(units.starts))
    column, row = lines.nonzero()
    kind = owner[column]
    # Rows that share noise are connected, too.
    first, other = design.noise.covariance.nonzero() if design.noise.shared else (row[:0], row[:0])
    label, before = np.arange(units.numbers), np.full(units.numbers, -1)
    of_kind = np.full(len(units), units.numbers)
    while not np.array_equal(label, before):  # the least number of a row of the part
        before = label.copy()
        np.minimum.at(of_kind, kind, label[row])
        np.minimum.at(label, row, of_kind[kind])
        np.minimum.at(label, first, label[other])
    names = np.intersect1d(label, of_kind)
    # Kinds in no row, and rows of nobody, are strangers, too: searches that list them go elsewhere.
    one_part = names.size == 1 and bool(np.all(label == names) and np.all(of_kind == names))
    if not one_part and names.size <= _MOST_PARTS:
        for name in names.tolist():
            yield label == name, of_kind == name


def told_last(design: Design) -> Iterator[tuple[BoolArray, float]]:
    """Some rows that are told first, and what the others leave at least of what these leave.

    As many are told last as pays, and fewer of them where these tell much less: else more noise on one number
    would add it to those that were told last before, at the cost of all. None if none tells so little.
    """
    units, noise = _in_memory(design), design.noise
    every = np.ones(noise.information.size, dtype=np.bool_)
    if units is None or noise.shared or every.size == 1:
        return
    exponent = _given_away(units, design)
    order = np.argsort(exponent, kind="stable")
    # Rows that give away equally much, up to rounding, are all told last or none is: else which of them is
    # would depend on the order of the plan.
    rising = np.minimum(exponent[order], 1.0)
    ends = np.flatnonzero(np.append(np.diff(rising) > ROUNDING * rising[1:], True))
    total = np.cumsum(rising)[ends]
    most, tried = _TOLD_LAST, 0
    for end, sum_of_all in zip(ends[::-1].tolist(), total[::-1].tolist(), strict=True):
        last = order[: end + 1]
        if sum_of_all > most or last.size == every.size:
            continue
        first = every.copy()
        first[last] = False
        yield first, float(np.exp(-exponent[last].sum() * (1 + 1e-9)))
        most, tried = sum_of_all / _MUCH_LESS, tried + 1
        if sum_of_all < _NEXT_TO_NOTHING or tried == _MOST_TRIED:
            return


def _in_memory(design: Design) -> Units | None:
    """The units of a design that is small enough to be assessed again, with their rows listed."""
    units = design.units
    if units.numbers > MOST_ROWS or units.numbers * len(units) > _MOST_ENTRIES:
        return None
    return units if isinstance(units, Units) else units.choose(np.arange(len(units)))


def _given_away(units: Units, design: Design) -> FloatArray:
    """Of every row, the exponent of the share that it gives away at most."""
    noise, table = design.noise, units.table()
    people = np.asarray(np.repeat(units.people, np.diff(units.starts)) * units.times, dtype=np.float64)
    spread = np.asarray(abs(table).T @ people)
    exact = np.flatnonzero(noise.exact)
    if 0 < exact.size * units.numbers * people.size <= _MOST_ENTRIES:
        dense = table.T.toarray()
        for row in dense[exact][np.any(dense[exact] != 0, axis=1)]:  # one may be about known people alone
            spread = np.minimum(spread, _spread_beside(dense, row, people))
    width = design.prior.target.width * spread * (1 + ROUNDING)
    gaussian = noise.information * width**2 * design.prior.target.most_variance
    with np.errstate(invalid="ignore"):
        pure = np.where(np.isfinite(noise.loss), noise.loss * width, np.inf)
    nats = np.where(noise.laplace > 0, pure, gaussian)
    return np.where(noise.exact, np.inf, nats)


def _spread_beside(table: FloatArray, exact: FloatArray, people: FloatArray) -> FloatArray:
    r"""Of every row a the least :math:`\sum_j n_j |a_j - c e_j|` over c, beside an exact row e.

    c is the median of :math:`a_j/e_j` with the weights :math:`n_j |e_j|`.

    >>> _spread_beside(np.array([[6.0, 7.0, 6.0]]), np.ones(3), np.ones(3)).tolist()
    [1.0]
    """
    inside = exact != 0
    ratio, weight = table[:, inside] / exact[inside], people[inside] * np.abs(exact[inside])
    order = np.argsort(ratio, axis=1, kind="stable")
    half = np.argmax(np.cumsum(weight[order], axis=1) >= weight.sum() / 2, axis=1)
    median = np.take_along_axis(np.take_along_axis(ratio, order, axis=1), half[:, None], axis=1)
    return np.asarray(np.abs(table - median * exact) @ people)
