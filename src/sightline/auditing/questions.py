r"""Yes-or-no questions about a number that a plan publishes: whether it lies above a level, or in a band.

A count of the records with a yes is linear in the yes-or-no secret, so each question is audited like a
boolean secret: who is identifiable, what remains, groups that are all alike. The other releases are about the
number itself, and say something about the question, too. So the lower end of a question is that of a coin:

Draw a value with a yes and one with a no from the prior, tell the attacker both values and all other records,
and toss a coin which of the two is the record's value. Every published number changes by at most its
sensitivity :math:`\Delta_c` between the two, so the answers of the two sides are at most

.. math:: S = \sum_c T_c\, \Delta_c^2 / \sigma_c^2

apart in squared units of the noise, and of a coin seen at that distance :math:`f(S)/v` remains
(:mod:`sightline.bounds.coin`; theory page on priors). Whoever knows less does no better. Of a
person with several rows, S is at least the largest eigenvalue of the information about the rows' coins.
Laplace answers of scale b never tell more of a coin than Gaussian ones with their information
:math:`\Delta^2/b^2`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sightline.arrays import FloatArray
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing
from sightline.bounds.priors import TwoPointPrior
from sightline.format import number as readable
from sightline.tables.membership import YES_OR_NO, Band, Feature, Membership, Partition
from sightline.units.target import Seen

if TYPE_CHECKING:
    pass


def questions_of(membership: Membership) -> list[Partition]:
    """One partition for each question that numbers ask: a level, a band, a list of categories."""
    filled = {cell.partition for cell in membership.cells}
    parts = [membership.partitions[p] for p in sorted(filled)]
    asked = [
        part
        for part in parts
        if part.feature in YES_OR_NO or (part.feature is Feature.INDICATOR and len(part.categories) > 1)
    ]
    return list({_question(part): part for part in reversed(asked)}.values())[::-1]


def cut_points(membership: Membership, up_to: float) -> int:
    """At how many points the questions of the releases up to one cut the secret's range."""
    cuts: set[tuple[float, bool]] = set()
    for part in membership.partitions:
        if part.feature not in YES_OR_NO or part.query > up_to:
            continue
        for band in part.bands:
            cuts |= {(band.low, band.low_closed), (band.high, not band.high_closed)}
    return len([level for level, _ in cuts if np.isfinite(level)])


def asking(plan: Plan, membership: Membership, question: Partition) -> tuple[Plan, Membership]:
    """The plan and membership of a yes-or-no secret: the numbers that ask this question are sums of it."""
    data = plan.data.model_copy(update={"kind": "boolean", "bounds": (), "categories": ()})
    same = _question(question)
    parts = tuple(
        replace(part, feature=Feature.VALUE, parameter=None)
        if _question(part) == same
        # Linear or not in the number, it is not linear in the question.
        else replace(part, feature=Feature.POWER, parameter=1.0)
        for part in membership.partitions
    )
    # What is left of a yes or no has no unit; how closely the number is known is judged beside it.
    limits = plan.limits.model_copy(update={"known_to": 0.0})
    asked = replace(membership, partitions=parts).of_the_rows_of(membership)
    return plan.model_copy(update={"data": data, "limits": limits}), asked


def question_text(question: Partition, secret: str) -> str:
    """A question as SQL would ask it.

    >>> from sightline.tables.membership import Statistic
    >>> part = Partition(query=0, name="", statistic=Statistic.SUM, feature=Feature.BAND,
    ...                  parameter=Band(low=3.0, high=5.5, low_closed=True))
    >>> question_text(part, "load")
    '3 <= load < 5.5'
    """
    if question.feature is Feature.INDICATOR:
        return f"{secret} in ({', '.join(question.categories)})"
    return " or ".join(_band_text(band, secret) for band in question.bands)


def _band_text(band: Band, secret: str) -> str:
    low, high = (readable(end, 6) for end in (band.low, band.high))
    if not np.isfinite(band.high):
        return f"{secret} {'>=' if band.low_closed else '>'} {low}"
    if not np.isfinite(band.low):
        return f"{secret} {'<=' if band.high_closed else '<'} {high}"
    if band.low == band.high:
        return f"{secret} = {low}"
    return f"{low} {'<=' if band.low_closed else '<'} {secret} {'<=' if band.high_closed else '<'} {high}"


def distances(membership: Membership, pricing: Pricing, *, up_to: float = np.inf) -> FloatArray:
    """S for every kind of person, or for every signature where nobody has several rows."""
    owner = np.array([cell.partition for cell in membership.cells], dtype=np.intp)
    late = np.array([part.query > up_to for part in membership.partitions], dtype=bool)
    with np.errstate(divide="ignore"):  # an exact number tells everything
        costs = np.where(late[owner], 0.0, (pricing.sensitivity / pricing.information_parameter) ** 2)
    return replace(pricing.moves, costs=costs).by_record(membership)


def coin_kept(distance: FloatArray) -> FloatArray:
    """At least what remains of a yes or no, with even chances, whose two answers are so far apart."""
    far = np.minimum(np.asarray(distance, dtype=np.float64), 1e6)
    kept = TwoPointPrior(0.0, 1.0).lower(Seen(information=far, linear_information=np.zeros_like(far)))
    return np.where(far >= 1e6, 0.0, kept)


def _question(part: Partition) -> tuple[object, ...]:
    return part.feature, part.parameter, part.closed
