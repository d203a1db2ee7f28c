"""What a plan declares, held against what the table holds and what releases compute with noisy numbers."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum

import numpy as np

from sightline.arrays import FloatArray
from sightline.auditing.findings import Findings, linear_findings
from sightline.auditing.plan_fields import Population
from sightline.auditing.result_parts import NAMED, Fact, Figure, fact
from sightline.bounds.by_pairs import WholePrior
from sightline.bounds.priors import TwoPointPrior
from sightline.privacy.law import Law
from sightline.tables.membership import Occurring
from sightline.values import frozen

_FILLED = 0.5  # of the bounds: if the values fill less, the result says so


class Odd(StrEnum):
    """What a plan may declare that does not look like its table."""

    MADE_OF_SECRET = "made of secret"
    REPEATS = "repeats"
    UNUSED = "unused categories"
    BOUNDS_WIDE = "bounds wide"
    STRANGE_VALUES = "strange values"


class HowComputed(StrEnum):
    """What is said of how numbers are computed."""

    AFTER_THE_NOISE = "after the noise"


@frozen
class ValuesToRoundTo:
    """How many values a number takes, if they are few and the noise does not hide which one it is."""

    count: int
    spread: Occurring
    of_level: bool  # whether it is the mean of a record's rows, or of a block of them, that takes them
    wide: bool = False  # whether they are clusters with many values each


def few_values(findings: Findings) -> ValuesToRoundTo:
    """The values that the secret takes under a belief.

    Multiples of a step are few if the noise tells one from the next, to whoever knows all others. Where rows
    of a record share a level, levels are looked at as well.
    """
    membership, belief = findings.membership, findings.belief
    level = None if belief.by_row else membership.levels.get(belief.block)
    spreads = [(membership.occurring, False), *([(level, True)] if level else [])]
    candidates = [ValuesToRoundTo(count=_few(findings, one), spread=one, of_level=of) for one, of in spreads]
    if any(one.count for one in candidates):
        return max(candidates, key=lambda one: one.count)
    wide = [replace(one, count=_clusters(findings, one.spread), wide=True) for one in candidates]
    return max(wide, key=lambda one: one.count)


def _few(findings: Findings, found: Occurring) -> int:
    """How many values a number takes that is spread so, if the noise does not hide which one it is."""
    prior = findings.prior
    if not prior.kind.measured or isinstance(prior.number, TwoPointPrior):
        return 0  # two points are the worst
    if prior.population is not None and prior.population.single and _listed(found, prior.population.points):
        return 0  # the plan states the values that occur, and what remains is an average over them
    moved, limit = min(findings.most_moved, sys.float_info.max), findings.limit
    few, step = found.few, found.step or 0.0  # older ledgers have none
    expected = isinstance(prior.number, WholePrior) and step == 1  # behind discrete noise values are whole
    if not few and not expected and step > 0 and prior.range < math.sqrt(moved) * step:
        few = int(prior.range / step) + 1
    if not few:
        return 0
    # What is kept is a share of those few values.
    plain = not findings.has_nonlinear and prior.within is None and not findings.plan.limits.known_to
    # Rows behind Gaussian noise tell no more than each of them in noise of its own.
    several = not findings.one_value and any(law is not Law.GAUSSIAN for law in findings.pricing.laws)
    rows = max(1, findings.membership.contributions) if several else 1
    return 0 if plain and 0 < limit <= found.kept(moved, prior.range, rows) else few


def _clusters(findings: Findings, found: Occurring) -> int:
    """How many clusters values lie in, if records do not keep the limit where values are in these alone."""
    prior = findings.prior
    named = prior.kind.measured and prior.population is None and prior.within is None
    if not found.clusters or not named or isinstance(prior.number, TwoPointPrior) or not findings.linear:
        return 0
    bins = tuple((low, high, float(rows)) for low, high, rows in found.clusters)
    attacker = findings.plan.attacker.model_copy(update={"prior": Population("", bins)})
    plan = findings.plan.model_copy(update={"attacker": attacker})
    kept = linear_findings(plan, findings.membership, findings.pricing, upper=False)
    return len(found.clusters) if kept.below_limit else 0


def _listed(found: Occurring, points: tuple[float, ...]) -> bool:
    """Whether the ends of all bins of values that occur are among those that the plan states."""
    return bool(np.isin(found.low, points).all() and np.isin(found.high, points).all())


def unused_categories(findings: Findings) -> int:
    """How many declared categories occur in no row, if records do not keep the limit without them."""
    occurring, categories = findings.membership.occurring, findings.plan.data.categories
    if not occurring.unused or not findings.linear:
        return 0
    used = tuple(name for name in categories if name not in occurring.unused)
    if len(used) > 1:
        data = findings.plan.data.model_copy(update={"categories": used})
        plan = findings.plan.model_copy(update={"data": data})
        if not linear_findings(plan, findings.membership, findings.pricing).below_limit:
            return 0
    return len(occurring.unused)


def unequal_sums(findings: Findings) -> int:
    """Records that are not shown to keep the limit if sums are spread by how many rows they add up."""
    by_rows = findings.by_rows_behind
    if by_rows is None:
        return findings.judged if findings.membership.adds_up and findings.linear else 0
    return by_rows.below_limit


def looks_odd(findings: Findings) -> Iterator[Fact]:
    """What the plan declares and does not look like its table. For the owner only."""
    occurring, data = findings.membership.occurring, findings.plan.data
    for column in findings.membership.alike_in_few_rows[:NAMED]:
        yield fact(Odd.MADE_OF_SECRET, column=column, secret=data.secret)
    if occurring.repeating:
        yield fact(Odd.REPEATS, record=data.record, column=occurring.repeating)
    if occurring.unused:
        yield fact(Odd.UNUSED, categories=len(occurring.unused))
    if occurring.counts.size:
        low, high = data.domain
        filled = float(occurring.high[-1] - occurring.low[0]) / (high - low)
        if filled < _FILLED:
            yield fact(Odd.BOUNDS_WIDE, filled=filled)
    if (population := findings.prior.population) is not None and occurring.counts.size:
        ends = zip(occurring.low, occurring.high, strict=True)
        covered = np.array([population.covers(least, greatest) for least, greatest in ends])
        if strange := int(occurring.counts[~covered].sum()):
            yield fact(Odd.STRANGE_VALUES, rows=strange, population=population.name)


# Rounding before the noise is asked about beyond this share of what a record moves the number, and this sum
# of squares of steps over the noise: a tenth of the noise. A share of what remains so small is not counted.
_FINE_BESIDE_SENSITIVITY, MOST_ROUNDING, _NEGLIGIBLE = 1e-3, 0.1**2, 0.003


def needing_noise_first(findings: Findings) -> set[int]:
    """Releases sorted by a noisy number, that make a NULL or text of it, round it, or enlarge given noise.

    A budget gives noise in proportion to the sensitivity, which grows with the number.
    """
    given = [release.noise_given for release in findings.plan.releases]
    return {
        part.query
        for part in findings.membership.partitions
        if part.computed.ranked or part.computed.shows or (part.computed.enlarges and given[part.query])
    } | _rounded_coarsely(findings)


def _rounded_coarsely(findings: Findings) -> set[int]:
    r"""Releases whose rounding would tell something if it came before the noise.

    A number rounded to a step :math:`h` first moves by up to :math:`h` more than the aggregate does: two
    values on both sides of a boundary are then :math:`h` apart, however close they are. That is negligible
    if :math:`h` is a thousandth of what a record moves the number, or if all such steps together are a tenth
    of the noise and everyone keeps the limit with them.
    """
    squares, more = _moved_by_rounding(findings)
    times = findings.pricing.times
    if float(times @ squares) <= MOST_ROUNDING and not rounding_decides(findings, float(times @ more)):
        return set()
    return {findings.membership.partitions[p].query for p in np.flatnonzero(squares)}


def rounding_decides(findings: Findings, more: float) -> bool:
    r"""Whether a record that moves all numbers by so much more, in squared units of the noise, may keep less
    than the limit, where without it the limit is kept.

    Of what the noise alone leaves this takes :math:`e^{-m/4}`
    (:func:`~sightline.auditing.pricing.kept_of_anything`), and as much is set aside of every other lower end.
    """
    kept, limit = math.exp(-more / 4), findings.limit
    least = findings.kept_by_noise if findings.guaranteed else findings.least.lower
    return kept < 1 - _NEGLIGIBLE and kept * least < limit <= least


def rounding_beside_noise(findings: Findings) -> float:
    """The squares of the coarse steps that all numbers are rounded to, over their noise, added up.

    Up to :data:`MOST_ROUNDING` rounding need not come after the noise. Releases of one table add up.
    """
    return float(findings.pricing.times @ _moved_by_rounding(findings)[0])


def _moved_by_rounding(findings: Findings) -> tuple[FloatArray, FloatArray]:
    """For each partition the largest square of a coarse step over the noise, and how much more a record moves
    it with the step, in the same units; 0 where steps are fine.
    """
    membership, pricing = findings.membership, findings.pricing
    steps = np.array([one.computed.rounded_to for one in membership.partitions])
    step = steps[pricing.owner] / membership.published_factors
    coarse = (step > _FINE_BESIDE_SENSITIVITY * pricing.sensitivity) & ~pricing.exact
    owner, step = pricing.owner[coarse], step[coarse] / pricing.scale[coarse]
    moves = pricing.sensitivity[coarse] / pricing.scale[coarse]
    squares, more = np.zeros(len(steps)), np.zeros(len(steps))
    np.maximum.at(squares, owner, step**2)
    np.maximum.at(more, owner, (2 * moves + step) * step)
    return squares, more


def how_computed(findings: Findings) -> tuple[Fact, ...]:
    """What was taken to carry the noise, for every number with which something is computed."""
    facts: dict[str, Fact] = {}
    for partition in findings.membership.partitions:
        computed = partition.computed
        if not computed.steps:
            continue
        figures: dict[str, Figure] = {
            "release": partition.name,
            "noise_on": computed.noise_on,
            "steps": ", ".join(computed.steps),
            "enlarges": computed.enlarges,
            "limited": any(step.startswith("LIMIT") for step in computed.steps),
        }
        if computed.factor != 1 and findings.plan.releases[partition.query].noise_given:
            figures["factor"] = computed.factor
        facts[repr(figures)] = fact(HowComputed.AFTER_THE_NOISE, **figures)
    return tuple(facts.values())
