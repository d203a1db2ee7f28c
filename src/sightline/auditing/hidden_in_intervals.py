r"""What remains because counts that are rounded or blank mostly stay what they are, whoever says yes.

Take k people whom no number tells apart, and tell the attacker everybody else. Number j then depends on how
many of the k say yes only if a step of its rule (from 7 to 8, of counts that are rounded to 5) lies among the
counts that are still possible, and the others decide that: with the chance :math:`q_j`, which is that of a
sum of independent yeses and noes. If no number has a step there, nothing is told. If one has, at most how
many of the k say yes: :math:`1 - 1/k` is left on average. So at least

.. math:: 1 - \frac1k \min\Bigl(1, \sum_j q_j\Bigr)

is left of each of them, whatever the numbers have to do with each other. Numbers without such a rule always
have a step. It is what the best attack leaves on average over everybody's answers, as every lower end is.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sightline.arrays import FloatArray
from sightline.auditing.lowering import Lowered
from sightline.auditing.nonlinear import is_nonlinear
from sightline.auditing.pricing import Pricing
from sightline.noise.count_rules import CountRule
from sightline.tables.membership import Membership


def kept_in_intervals(lowered: Lowered, pricing: Pricing) -> FloatArray:
    """At least the share of every unit that is left by the rules for counts; 0 where they show nothing."""
    membership, prior = lowered.membership, lowered.prior
    shown = pricing.by_count_rule and not is_nonlinear(membership) and not prior.kind.measured
    if not shown or membership.by_person > lowered.by_kind or membership.known_rows:
        return np.zeros(len(lowered.design.units))
    lost = _lost(membership, pricing, prior.share)
    return np.maximum(0.0, 1 - lowered.of_records(lost))


def _lost(membership: Membership, pricing: Pricing, share: float) -> FloatArray:
    """For every signature, at most the share that is lost: the best of some numbers k of its people.

    Of persons with a row in several numbers, for every kind of them: by all numbers that they are in.
    """
    chance = cache(CountRule.chance_of_a_cut)
    persons, people, together = membership.persons, membership.people, 1
    lost = np.ones(people.size)
    while together <= people.max(initial=0):
        steps = np.zeros(len(membership.counts))
        enough = people >= together
        for p, part in enumerate(membership.partitions):
            start, end = membership.starts[p : p + 2].tolist()
            own = part.categories if part.categories else ("",)
            counted = share * len(own) if part.above else 1 - share * len(own)
            of_cells = np.array(
                [
                    # In a group of fewer people nobody is asked about so many.
                    chance(pricing.rules[p], cell.rows, together=together, share=counted)
                    if cell.rows >= together and 0 < counted < 1
                    else 1.0
                    for cell in membership.cells[start:end]
                ]
            )
            code = membership.signatures[:, p]
            if of_cells.size:
                steps += np.where(code >= 0, of_cells[np.maximum(code, 0)], 0.0)
        if membership.by_person:
            steps = np.bincount(persons.kind_of, steps[persons.signatures], people.size).astype(np.float64)
        lost = np.where(enough, np.minimum(lost, np.minimum(1.0, steps) / together), lost)
        together *= 2
    return lost
