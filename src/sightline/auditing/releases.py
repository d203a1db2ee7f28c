"""The sections on releases: whom each exposes, how accurate it is, and what is seen after each.

For everyone: the noise of a number over the range that it can have. That is the range :math:`w` of what is
aggregated for a mean, and :math:`n w` for a sum of n rows. For the owner only: the noise over the number
itself (its relative error), and over the spread of the release's numbers, which is their standard deviation
from group to group. A release whose noise exceeds the spread does not tell its groups apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.beliefs import ONE_VALUE
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.lowering import LINEAR
from sightline.auditing.plan import Release
from sightline.auditing.pricing import feature_range
from sightline.auditing.result import ReleaseReport, Stage
from sightline.auditing.result_parts import TOP, Fact, NoiseOfRange, ReleaseAccuracy, fact
from sightline.progress import report
from sightline.tables.membership import YES_OR_NO, Feature, Partition, Statistic
from sightline.values import frozen


class Note(StrEnum):
    """Why what a release exposes is not counted."""

    NO_SECRET = "no secret"
    NO_ROW = "no row meets its condition"
    QUESTION = "question"
    NOT_LINEAR = "not linear"
    DERIVED = "derived"


def release_reports(
    findings: Findings, sums: FloatArray, *, compared: bool = True
) -> tuple[ReleaseReport, ...]:
    """One report for each release of the plan, in its order; ``compared`` with the plan without it.

    ``sums`` are those of the secrets with each signature, for errors at the true values: owner-only. Without
    any, no such error is stated.
    """
    plan, membership, pricing = findings.plan, findings.membership, findings.pricing
    queries = np.array([membership.partitions[c.partition].query for c in membership.cells], dtype=np.intp)
    linear = set(findings.linear.linear.queries.tolist())
    noise = pricing.published_stddev
    counted = np.zeros(len(plan.releases), dtype=np.intp)
    for bundle in pricing.bundles:
        counted[membership.partitions[bundle[0]].query] += pricing.times[bundle[0]]
    fits = _FitErrors.of(findings)
    reports = []
    for query, release in enumerate(plan.releases):
        mine: FloatArray = noise[queries == query]
        parts = [p for p in membership.partitions if p.query == query]
        effects: dict[str, Any] = {"newly_exposes": None, "exposes_alone": None}
        note: Fact | None = None
        if release.derived:
            reports.append(_derived_report(release, fits.derived(query)))
            continue
        if not parts:
            note = fact(Note.NO_SECRET)
        elif mine.size == 0:
            note = fact(Note.NO_ROW)
        elif query not in linear and all(part.feature in YES_OR_NO for part in parts):
            note = fact(Note.QUESTION)
        elif query not in linear:
            note = fact(Note.NOT_LINEAR)
        elif compared:
            effects = _effects(findings, findings.linear, query)
        reports.append(
            ReleaseReport(
                name=release.name,
                times=release.times,
                outputs=int(mine.size),
                counted=int(counted[query]),
                smallest_noise_stddev=float(mine.min()) if mine.size else None,
                largest_noise_stddev=float(mine.max()) if mine.size else None,
                smallest_fit_stddev=_end(fits.measured[queries == query], np.min),
                largest_fit_stddev=_end(fits.measured[queries == query], np.max),
                noise_given=release.noise_given,
                noise_of_range=noise_of_range(findings, query),
                fact=note,
                accuracy=_accuracy(findings, sums, query),
                **effects,
            )
        )
    return tuple(reports)


@frozen
class _FitErrors:
    """The standard deviations of the fit; not a number where it is not published, or too large."""

    measured: FloatArray
    computed: FloatArray  # of derived numbers
    query: IndexArray  # their releases

    @classmethod
    def of(cls, findings: Findings) -> _FitErrors:
        plan, membership = findings.plan, findings.membership
        if not plan.publish.consistent or membership.streamed:
            none = np.zeros(0)
            return cls(
                measured=np.full(len(membership.cells), np.nan), computed=none, query=none.astype(np.intp)
            )
        from sightline.auditing.published_fit import DerivedNumbers, PublishedFit  # few plans publish a fit

        fit, derived = (
            PublishedFit.of(plan, membership, findings.pricing),
            DerivedNumbers.of(plan, membership),
        )
        queries = np.array([part.query for part in derived.partitions], dtype=np.intp)
        return cls(measured=fit.stddevs, computed=fit.stddevs_of(derived), query=queries)

    def derived(self, query: int) -> FloatArray:
        """Of the numbers of one derived release."""
        return np.asarray(self.computed[self.query == query])


def _derived_report(release: Release, stddevs: FloatArray) -> ReleaseReport:
    """A release without noise of its own."""
    return ReleaseReport(
        name=release.name,
        times=1,
        outputs=int(stddevs.size),
        counted=0,
        smallest_noise_stddev=None,
        largest_noise_stddev=None,
        smallest_fit_stddev=_end(stddevs, np.min),
        largest_fit_stddev=_end(stddevs, np.max),
        noise_given=False,
        newly_exposes=0,
        exposes_alone=0,
        fact=fact(Note.DERIVED),
    )


def _end(stddevs: FloatArray, of: Callable[[FloatArray], float]) -> float | None:
    return None if not stddevs.size or np.isnan(stddevs).any() else float(of(stddevs))


def _effects(findings: Findings, found: LinearFindings, query: int) -> dict[str, int | None]:
    """How many records a release exposes; none where that costs too much."""
    persons = findings.membership.by_person and findings.belief != ONE_VALUE
    affordable = found.repeatable if persons else found.comparable and bool(found.visible.any())
    if not affordable:
        return {"newly_exposes": None, "exposes_alone": None}
    if not found.identifiable.any():  # nor is anybody with fewer releases
        return {"newly_exposes": 0, "exposes_alone": 0}
    now, before = _seen(findings.up_to(query), found), _seen(findings.up_to(query - 1), found)
    kept = _seen(findings.without(query), found)
    return {
        "newly_exposes": int(np.count_nonzero(now & ~before)),
        "exposes_alone": int(np.count_nonzero(_seen(found, found) & ~kept)),
    }


def _seen(seen: LinearFindings, of: LinearFindings) -> NDArray[np.bool_]:
    """The units of one person of whom something is identifiable."""
    if not seen:
        return np.zeros(len(of.people), dtype=np.bool_)
    return np.asarray(seen.per_unit(seen.identifiable).any(axis=1))


def noise_of_range(findings: Findings, query: int) -> NoiseOfRange | None:
    """The noise of a release's numbers over their ranges: median and largest; none if it has no number."""
    cells = _cells_of(findings, query)
    if not cells.size:
        return None
    membership, data = findings.membership, findings.plan.data
    parts = [membership.partitions[membership.cells[c].partition] for c in cells]
    reach = np.array([feature_range(part, data.domain) for part in parts])
    rows = np.array([cell.rows for cell in membership.cells], dtype=np.float64)
    rows = findings.pricing.running_sums(rows)[cells]
    is_sum = np.array([part.statistic is Statistic.SUM for part in parts])
    noise = findings.pricing.published_stddev[cells] / (reach * np.where(is_sum, np.maximum(rows, 1.0), 1.0))
    return NoiseOfRange(median=float(np.median(noise)), worst=float(noise.max()))


def _accuracy(findings: Findings, sums: FloatArray, query: int) -> ReleaseAccuracy | None:
    """The relative errors of a release at the true values; none if it is not linear in the secret."""
    membership = findings.membership
    numbers, noises, spreads = [], [], []
    for p, part in enumerate(membership.partitions):
        if part.query != query or membership.starts[p] == membership.starts[p + 1]:
            continue
        cells = np.arange(membership.starts[p], membership.starts[p + 1])
        if part.feature not in LINEAR or part.weighted or not _declared(findings, part) or not sums.size:
            return None
        true = np.zeros(len(membership.cells))
        true[cells] = _true_numbers(findings, sums, p)
        true = findings.pricing.running_sums(true)[cells]
        numbers.append(true)
        noises.append(findings.pricing.published_stddev[cells])
        if cells.size > 1:
            spreads.append((float(np.std(true)), float(np.median(noises[-1]))))
    if not numbers:
        return None
    errors = _relative(np.concatenate(noises), np.abs(np.concatenate(numbers)))
    over_spread = [float(_relative(np.array([noise]), np.array([spread]))[0]) for spread, noise in spreads]
    return ReleaseAccuracy(
        median_relative_error=_six_digits(float(np.median(errors))),
        worst_relative_error=_six_digits(float(errors.max())),
        noise_over_spread=_six_digits(max(over_spread)) if over_spread else None,
    )


def _relative(noise: FloatArray, size: FloatArray) -> FloatArray:
    """Noise over a size: infinite where that is 0, and 0 where there is no noise."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(noise == 0, 0.0, noise / size)


def _six_digits(value: float) -> float:
    """Without the last digits, which depend on the order in which an engine adds up the rows."""
    return float(f"{value:.6g}")


def _declared(findings: Findings, part: Partition) -> bool:
    """Whether the sums of the secrets have a column for what a partition counts."""
    return part.feature is not Feature.INDICATOR or set(part.categories) <= set(findings.plan.data.categories)


def _true_numbers(findings: Findings, sums: FloatArray, p: int) -> FloatArray:
    """The true numbers of a linear partition, from the sums of every signature."""
    membership, part = findings.membership, findings.membership.partitions[p]
    cells = membership.cells[membership.starts[p] : membership.starts[p + 1]]
    columns = [0]
    if part.feature is Feature.INDICATOR:
        columns = [findings.plan.data.categories.index(one) for one in part.categories]
    place = membership.signatures[:, p].astype(np.intp) + 1  # 0 for none
    counted = np.bincount(place, sums[:, columns].sum(axis=1), len(cells) + 1)
    total = np.asarray(counted[1:], dtype=np.float64)
    rows = np.array([cell.rows for cell in cells], dtype=np.float64)
    total = total if part.above else rows - total
    return np.asarray(total / rows if part.statistic is Statistic.MEAN else total)


def _cells_of(findings: Findings, query: int) -> IndexArray:
    membership = findings.membership
    starts, own = membership.starts, [np.zeros(0, dtype=np.intp)]
    for p, part in enumerate(membership.partitions):
        if part.query == query:
            own.append(np.arange(starts[p], starts[p + 1]))
    return np.concatenate(own)


# Every stage is an assessment of its own; more of them than fit a page are thinned evenly. For a large plan a
# few stages cost less than the audit itself, since the first ones have few numbers.
_MOST_STAGES, _STAGES_OF_LARGE_PLANS = 60, 4


def timeline(findings: Findings) -> tuple[Stage, ...]:
    """A stage for each release of the plan, in its order, with the noise as planned."""
    plan, found = findings.plan, findings.linear
    if not found or findings.streamed:  # a streamed table is assessed once, with all releases
        return ()
    before, records = np.zeros(found.lower.size, dtype=np.bool_), 0
    stages = []
    ends = _ends(len(plan.releases), stage_count(findings))
    for number, end in enumerate(ends):
        seen = findings.up_to(int(end))
        now = seen.identifiable if seen else before
        opened = found.linear.first_signatures(np.flatnonzero(now & ~before))
        stages.append(
            Stage(
                release=plan.releases[end].name,
                published=int(end) + 1,
                identifiable_records=seen.identifiable_records,
                newly_identifiable=seen.identifiable_records - records,
                opened=tuple(dict.fromkeys(opened[:TOP].tolist())),
                least_remaining_uncertainty=seen.least if seen else None,
                below_limit=seen.below_limit,
            )
        )
        before, records = now, seen.identifiable_records
        report("timeline", (number + 1) / len(ends))
    return tuple(stages)


def stage_count(findings: Findings) -> int:
    """How many stages the timeline of a plan has."""
    most = _MOST_STAGES if findings.linear.repeatable else _STAGES_OF_LARGE_PLANS
    return min(len(findings.plan.releases), most)


def _ends(count: int, most: int) -> IndexArray:
    """The last release of every stage.

    >>> _ends(3, 60).tolist(), len(_ends(1000, 60)), int(_ends(1000, 60)[-1])
    ([0, 1, 2], 60, 999)
    """
    stages = min(count, most)
    return np.ceil(np.arange(1, stages + 1) * count / stages).astype(np.intp) - 1


class LeftOut(StrEnum):
    """What was not computed because it would take too long."""

    STREAMED = "streamed"
    TOO_MANY_NUMBERS = "too many numbers"
    NEWLY_EXPOSED = "newly exposed"
    STAGES = "stages"
    ACCOUNTANTS = "accountants"
    WITHOUT_A_RELEASE = "without a release"
    COMBINATIONS = "combinations"


def left_out(findings: Findings) -> Iterator[Fact]:
    """What was not computed, and why, in one fact; none if all was."""
    found, releases = findings.linear, len(findings.plan.releases)
    if not found:
        return
    if findings.streamed:
        yield fact(LeftOut.STREAMED, signatures=findings.membership.signature_count)
        return
    parts = []
    if not found.comparable and not findings.asked and np.any(found.visible):
        parts.append(fact(LeftOut.NEWLY_EXPOSED))
    stages = stage_count(findings)
    if stages < releases:
        parts.append(fact(LeftOut.STAGES, shown=stages))
    if not found.repeatable:
        if findings.pricing.releases:
            parts.append(fact(LeftOut.ACCOUNTANTS))
        if findings.not_shown or not found.limit:
            parts.append(fact(LeftOut.WITHOUT_A_RELEASE))
    several = found.linear.rows_of_unit > 1
    if (records := int(found.people[several & found.exposure.undecided].sum())) > 0:
        parts.append(fact(LeftOut.COMBINATIONS, records=records))
    if parts:
        too_many = {"numbers": found.linear.row_count, "kinds": len(found.people)}
        yield fact(LeftOut.TOO_MANY_NUMBERS, *parts, **too_many)
