"""Whether one more release may follow: what is seen with it and without it, of everything so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sightline.arrays import IndexArray
from sightline.auditing.assemble import assemble
from sightline.auditing.budget import budget_report
from sightline.auditing.exposed import describe
from sightline.auditing.findings import Findings, LinearFindings, find, linear_findings
from sightline.auditing.plan import AssumptionName, Plan
from sightline.auditing.pricing import price
from sightline.auditing.result import AuditResult, Exposed, Uncertainty, Unverified
from sightline.format import count
from sightline.ledger.history import History
from sightline.numerics.one_thread import blas_threads_for
from sightline.progress import report
from sightline.tables.published import without_queries

_MOST_TRIES = 24  # audits of one search
_LARGEST_FACTOR = 2.0**20
MOST_MORE = 1_000  # copies that are looked for
_CLOSE = 1.05  # a factor of noise is looked for to within this


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where everyone stands after some releases."""

    identifiable: int
    below: int
    least: Uncertainty | None
    epsilon: dict[str, float]  # under every accountant that can say


@dataclass(frozen=True, kw_only=True, eq=False)
class Decision:
    """What a release would do, after all others. For the owner of the table only."""

    name: str
    result: AuditResult  # of everything, with the release
    before: Standing
    after: Standing
    newly_identifiable: tuple[Exposed, ...]
    newly_below: tuple[Exposed, ...]
    already_below: tuple[Exposed, ...]  # through what was published before
    findings: Findings
    first: int  # the place of the release's first section in the plan
    despite: tuple[str, ...]  # what was added although it did not pass, and why

    @property
    def passed(self) -> bool | None:
        """Whether the limit holds with it; none if there is no limit."""
        return self.result.verdict.passed

    @cached_property
    def noise_factor(self) -> float | None:
        """The factor on this release's noise alone with which everyone keeps the limit; none if none does."""
        if self.before.below or self.findings.linear is None:
            return None
        return _least_factor(lambda factor: self._shown(factor=factor))

    @cached_property
    def more_like_it(self) -> int:
        """How many more copies of it everyone would keep the limit with, of up to a thousand."""
        low, high = 0, MOST_MORE + 1
        while high - low > 1:
            middle = min(max(1, 2 * low), (low + high) // 2) if low else 1
            low, high = (middle, high) if self._shown(copies=1 + middle) else (low, middle)
        return low

    def _shown(self, *, factor: float = 1.0, copies: int = 1) -> bool:
        plan = self.findings.plan
        releases = list(plan.releases)
        for place in range(self.first, len(releases)):
            own = releases[place]
            noise = tuple(one.times(factor) for one in own.noise)
            releases[place] = own.model_copy(update={"noise": noise, "times": own.times * copies})
        changed = plan.model_copy(update={"releases": tuple(releases)})
        membership = self.findings.membership
        found = linear_findings(changed, membership, price(changed, membership))
        return found is not None and not found.not_shown_records


def _least_factor(shown: Callable[[float], bool]) -> float | None:
    """The least factor that suffices, from above, by doubling and halving the interval."""
    low, high = 1.0, 2.0
    while not shown(high):
        low, high = high, high * 4
        if high > _LARGEST_FACTOR:
            return None
    for _ in range(_MOST_TRIES):
        if high / low <= _CLOSE:
            break
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if shown(middle) else (middle, high)
    return high


def decide(past: History, *, number: int, despite: tuple[str, ...], top: int) -> Decision:
    """Assess everything with the release of a number, which is the last, and everything before it.

    ``despite`` has what was added despite a check.
    """
    plan = past.plan
    first = past.sections_before(number)
    with past.session() as session:
        membership = past.as_found(session.membership(report))
        with blas_threads_for(rows=len(membership.cells), columns=membership.signature_count):
            report("finding who is exposed", 0.0)
            findings = find(plan, membership)
            totals, unfit = past.totals(membership) if past.values_found else (None, 0)
            result = assemble(
                findings,
                top=top,
                totals=None if totals is None else (lambda question: totals),
                also=_not_found(past, plan, unfit),
            )
            after, before = findings.linear, findings.up_to(first - 1) if first else None
            listed = [
                () if found is None else describe(findings, found, found.most_exposed(columns, top), keys)
                for keys in (session.keys(findings.membership),)
                for found, columns in zip((after, after, before), _changed(before, after), strict=True)
            ]
            result.verdict  # noqa: B018  while the table is open
    return Decision(
        name=past.releases[-1].name,
        result=result,
        before=_standing(findings, before, sections=first),
        after=_standing(findings, after, sections=len(plan.releases)),
        newly_identifiable=listed[0],
        newly_below=listed[1],
        already_below=listed[2],
        findings=findings,
        first=first,
        despite=despite,
    )


def _changed(
    before: LinearFindings | None, after: LinearFindings | None
) -> tuple[IndexArray, IndexArray, IndexArray]:
    """Columns that become identifiable, those that fall below the limit, and those below it before."""
    nobody = np.zeros(0, dtype=np.intp)
    if after is None:
        return nobody, nobody, nobody
    identified = after.identifiable if before is None else after.identifiable & ~before.identifiable
    below = after.not_shown if before is None else after.not_shown & ~before.not_shown
    were = nobody if before is None else np.flatnonzero(before.not_shown)
    return np.flatnonzero(identified), np.flatnonzero(below), were


def _standing(findings: Findings, found: LinearFindings | None, *, sections: int) -> Standing:
    plan, membership = findings.plan, findings.membership
    if not sections:
        return Standing(identifiable=0, below=0, least=None, epsilon={})
    if sections < len(plan.releases):
        plan = plan.model_copy(update={"releases": plan.releases[:sections]})
        membership = without_queries(membership, range(sections, len(findings.plan.releases)))
    return Standing(
        identifiable=0 if found is None else found.identifiable_records,
        below=0 if found is None else found.not_shown_records,
        least=None if found is None else found.least,
        epsilon=budget_report(plan, membership, price(plan, membership)).spent,
    )


def _not_found(past: History, plan: Plan, unfit: int) -> tuple[Unverified, ...]:
    """What the values of the releases would have to show, and do not."""
    missing = [one.number for one in past.releases if one.found is None]
    cases = [
        (
            AssumptionName.HOMOGENEOUS,
            len(past.releases) if not past.values_found else 0,
            f"the owner's file of entry {missing[0]} is missing, so that nothing is known of its values"
            if missing
            else "the attacker knows people in some releases and not in others: sums are not compared",
        ),
        (
            AssumptionName.VALUES,
            unfit,
            f"{count(unfit, 'number')} do not fit one value of each person in an epoch: values have changed "
            "within it",
        ),
    ]
    accepted = set(plan.limits.accept)
    return tuple(
        Unverified(name=name, count=number, reason=reason, accepted=name in accepted, owner_only=True)
        for name, number, reason in cases
        if number
    )
