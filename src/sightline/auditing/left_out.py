"""What an audit leaves out because a plan or its table is very large: said in one line."""

from __future__ import annotations

import numpy as np

from sightline.auditing.findings import Findings
from sightline.auditing.persons import PersonFindings
from sightline.auditing.shared_budget import budget_of
from sightline.auditing.timeline import stage_count
from sightline.labeled.routes.cost import Route


def left_out(findings: Findings) -> tuple[str, ...]:
    """One line about what was not computed, and why; none if all was."""
    found, releases = findings.linear, len(findings.plan.releases)
    if found is None:
        return ()
    if findings.streamed:
        return (
            f"The table has {findings.membership.signature_count:,} signatures and is streamed: minima and "
            "counts are over all records. Left out, since it would take more passes: the timeline; what each "
            "release adds; copies among the releases; other accountants; changes and slack of the noise; "
            "each record's own loss; accuracy; with whom a record is seen; short recipes.",
        )
    parts = []
    if findings.question is None and np.any(found.visible) and findings.contributions is None:
        parts.append("what each release adds to the exposure of identifiable records")
    stages = stage_count(findings)
    if stages < releases:
        shown = "the last one" if stages == 1 else f"{stages} of them"
        parts.append(f"the exposure after each release but {shown}")
    if not found.repeatable:
        if budget_of(findings.plan) is not None and findings.pricing.releases:
            parts.append("other accountants")
        if findings.not_shown or found.limit is None:
            parts.append("what it would help to leave a release out")
    if found.persons is not None and np.any(found.persons.seen.undecided):
        number = found.persons.count(found.persons.seen.undecided)
        parts.append(
            f"whether more combinations of the rows of {number:,} records with several rows are identifiable"
        )
    sparse = found.exposures.cost.route is Route.SPARSE
    if sparse and found.persons is not None and (open_errors := _unknown_errors(found.persons)):
        parts.append(
            f"the error of the best unbiased attack on {open_errors:,} of the records with several rows: "
            "it is at least what is shown"
        )
    if not parts:
        return ()
    numbers = found.linear.design.row_count
    return (
        f"The plan publishes {numbers:,} numbers about {found.linear.design.size:,} kinds of rows, too many "
        f"to be assessed again and again. Left out: {'; '.join(parts)}.",
    )


def _unknown_errors(people: PersonFindings) -> int:
    """Persons of whose sharpest feature only a lower bound on the error is known."""
    kinds = np.zeros(len(people.lower), dtype=np.bool_)
    kinds[[kind for kind, one in people.seen.features.items() if np.isinf(one.relative_error)]] = True
    return people.count(kinds)
