"""The exposure after each release: what is seen once it is published, and what it newly exposes."""

from __future__ import annotations

import numpy as np

from sightline.arrays import IndexArray
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.result import Stage
from sightline.progress import report

# Every stage is an assessment of its own; more of them than fit a page are thinned evenly. For a large plan a
# few stages cost less than the audit itself, since the first ones have few numbers.
_MOST_STAGES, _STAGES_OF_LARGE_PLANS = 60, 4
_MOST_NUMBERS = 20_000  # of a plan that is assessed again at all
_SHOWN = 20


def timeline(findings: Findings) -> tuple[Stage, ...]:
    """A stage for each release of the plan, in its order, with the noise as planned."""
    plan, found = findings.plan, findings.linear
    if found is None or findings.streamed:  # a streamed table is assessed once, with all releases
        return ()
    before, records = np.zeros(found.lower.size, dtype=np.bool_), 0
    stages = []
    ends = _ends(len(plan.releases), stage_count(findings))
    for number, end in enumerate(ends):
        seen = findings.up_to(int(end))
        now = before if seen is None else seen.identifiable
        identifiable = 0 if seen is None else seen.identifiable_records
        stages.append(
            Stage(
                release=plan.releases[end].name,
                published=int(end) + 1,
                identifiable_records=identifiable,
                newly_identifiable=identifiable - records,
                opened=_signatures(found, np.flatnonzero(now & ~before)),
                least_remaining_uncertainty=None if seen is None else seen.least,
                below_limit=0 if seen is None else seen.below_limit,
            )
        )
        before, records = now, identifiable
        report("timeline", (number + 1) / len(ends))
    return tuple(stages)


def stage_count(findings: Findings) -> int:
    """How many stages the timeline of a plan has."""
    found = findings.linear
    if found is None:
        return 0
    most = _MOST_STAGES if found.repeatable else _STAGES_OF_LARGE_PLANS
    most = most if found.linear.row_count <= _MOST_NUMBERS else 1
    return min(len(findings.plan.releases), most)


def _ends(count: int, most: int) -> IndexArray:
    """The last release of every stage.

    >>> _ends(3, 60).tolist(), len(_ends(1000, 60)), int(_ends(1000, 60)[-1])
    ([0, 1, 2], 60, 999)
    """
    stages = min(count, most)
    return np.ceil(np.arange(1, stages + 1) * count / stages).astype(np.intp) - 1


def _signatures(found: LinearFindings, columns: IndexArray) -> tuple[int, ...]:
    return tuple(dict.fromkeys(found.linear.first_signatures(columns)[:_SHOWN].tolist()))
