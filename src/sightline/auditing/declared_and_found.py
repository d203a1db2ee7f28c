"""What a plan declares of its secret, held against what the table holds: few values, keys, sums of rows."""

from __future__ import annotations

import math

import numpy as np

from sightline.auditing.findings import Findings, linear_findings
from sightline.format import count as counted
from sightline.format import percent
from sightline.labeled.bounds.priors import TwoPointPrior
from sightline.labeled.bounds.whole import WholePrior
from sightline.noise.published import PublishedLaw
from sightline.tables.subject import SecretKind

_LARGEST_MOVE = 1e300  # in squared units of the noise: an exact number
_MOST_ALIKE = 3  # columns that may be like the secret by chance: so many are said
_FILLED = 0.5  # of the bounds: if the values fill less, the result says so


def few_values(findings: Findings) -> int:
    """How many values the secret takes, if they are few and the noise does not hide which one it is.

    Multiples of a step are few if the noise tells one from the next, to whoever knows all others.
    """
    found, prior = findings.membership.occurring, findings.prior
    if found is None or prior.kind is not SecretKind.NUMBER or isinstance(prior.number, TwoPointPrior):
        return 0  # two points are the worst
    moved, limit = min(findings.most_moved, _LARGEST_MOVE), findings.limit
    few, step = found.few, found.step or 0.0
    expected = isinstance(prior.number, WholePrior) and step == 1  # behind discrete noise values are whole
    if few is None and not expected and step > 0 and prior.range < math.sqrt(moved) * step:
        few = int(prior.range / step) + 1
    if few is None:
        return 0
    # What is kept is a share of those few values.
    plain = not findings.has_nonlinear and prior.within is None and findings.plan.limits.known_to is None
    # Rows behind Gaussian noise tell no more than each of them in noise of its own.
    several = not findings.one_value and set(findings.pricing.laws) != {PublishedLaw.GAUSSIAN}
    rows = max(1, findings.membership.contributions) if several else 1
    return 0 if plain and limit is not None and found.kept(moved, prior.range, rows) >= limit else few


def unused_categories(findings: Findings) -> int:
    """How many declared categories occur in no row, if records do not keep the limit without them."""
    found, categories = findings.membership.occurring, findings.plan.data.categories
    if found is None or not found.unused or categories is None or findings.linear is None:
        return 0
    used = tuple(name for name in categories if name not in found.unused)
    if len(used) > 1:
        data = findings.plan.data.model_copy(update={"categories": used})
        plan = findings.plan.model_copy(update={"data": data})
        others = linear_findings(plan, findings.membership, findings.pricing)
        if others is None or not others.below_limit:
            return 0
    return len(found.unused)


def unequal_sums(findings: Findings) -> int:
    """Records that are not shown to keep the limit if sums are spread by how many rows they add up."""
    found = findings.by_rows_behind
    if found is None:
        return findings.judged if findings.membership.adds_up and findings.linear is not None else 0
    return found.below_limit


def looks_odd(findings: Findings) -> tuple[str, ...]:
    """What the plan declares and does not look like its table. For the owner only."""
    found, data = findings.membership.occurring, findings.plan.data
    lines = [
        f"{text}. The rows are too few to tell that from chance: is it made of {data.secret}?"
        for text in findings.membership.alike_in_few_rows[:_MOST_ALIKE]
    ]
    if found is None:
        return tuple(lines)
    if found.repeating is not None:
        lines.append(
            f'No {data.record} has two rows, but "{found.repeating}" repeats: is that whose row it is? Then '
            "it is the record."
        )
    if found.unused:
        never = counted(len(found.unused), "declared category occurs", "declared categories occur")
        lines.append(f"{never} in no row. Even chances for all declared ones are taken to be what is known.")
    if found.counts.size:
        low, high = data.domain
        filled = float(found.high[-1] - found.low[0]) / (high - low)
        if filled < _FILLED:
            lines.append(
                f"The values fill {percent(filled)} of the bounds. What remains is a share of the bounds: "
                "with narrower ones it may be less."
            )
    if (population := findings.prior.population) is not None and found.counts.size:
        covered = [population.covers(*ends) for ends in zip(found.low, found.high, strict=True)]
        if strange := int(found.counts[~np.array(covered)].sum()):
            lines.append(
                f"{counted(strange, 'row')} hold values that {population.name} gives no weight. What remains "
                "is an average over that population: is it that of these records?"
            )
    return tuple(lines)
