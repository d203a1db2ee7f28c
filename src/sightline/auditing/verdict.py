"""The verdict as facts, and the sharpest view: what an attacker knows before and after.

:mod:`sightline.report.judgement` has the sentences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import numpy as np

from sightline.auditing.assumption_facts import NOT_ACCEPTED, OF_A_GROUP
from sightline.auditing.budget import guaranteed_by_noise
from sightline.auditing.exposed import ExposedSection
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.nonlinear import has_moments
from sightline.auditing.plan import AssumptionName
from sightline.auditing.result import Exposed, LocalReport, Uncertainty, Unverified, Verdict, VerdictStatus
from sightline.auditing.result_parts import Fact, RulesReport, SharpestView, fact
from sightline.bounds.guesses import FALSE_ALARMS, right_at_most


class Said(StrEnum):
    """What a verdict says, a sentence each."""

    GUARANTEED = "guaranteed"  # by the noise alone
    NO_ROW = "no row with a secret"
    NOTHING_DEPENDS = "nothing depends"  # on the secret, or on one that is not known
    TOLD_APART = "told apart"
    NOBODY_TOLD_APART = "nobody told apart"
    SHARPEST = "sharpest"
    GROUPS = "groups"  # of several, by their sum
    LEFT = "left"  # of the most exposed record's uncertainty, and what that is an average over
    LEFT_OF_QUESTION = "left of question"
    SEEN_LOCALLY = "seen locally"
    NOBODY_LOCALLY = "nobody locally"
    LOCAL_WITHHELD = "local withheld"
    LOCAL_NOT_COMPUTED = "local not computed"
    BELOW = "below"
    ATTACKED = "attacked"  # how many of those below
    ALSO_OPEN = "also open"
    KEPT_BY_NOISE = "kept by noise"
    KEPT = "kept"
    KEPT_ON_AVERAGE = "kept on average"
    NOT_SHOWN = "not shown"
    MAY_ACCEPT = "may accept"
    ACCEPTED = "accepted"
    TOLD = "told"  # a value, or who is in the table
    RULES = "rules"  # that are broken


class View(StrEnum):
    """What a sharpest view says."""

    NUMBER = "number"
    GUESS = "guess"
    ALL_OTHERS_KNOWN = "all others known"


NO_RULES = RulesReport.model_construct()  # which builds no model at import


def verdict(
    findings: Findings,
    section: ExposedSection,
    unverified: tuple[Unverified, ...],
    *,
    publishable: bool,
    rules: RulesReport = NO_RULES,
) -> Verdict:
    """Who is exposed and whether the limit holds.

    A ``publishable`` verdict names nothing that is for the owner only. It is not passed unless the owner's
    is: then it says that the reason is for the owner only.
    """
    plan, membership, found = findings.plan, findings.membership, findings.linear
    nonlinear, limit = findings.has_nonlinear, findings.limit
    below = findings.below_limit
    if limit and publishable:
        unverified = tuple(one.publishable() for one in unverified)
    shown = tuple(one for one in unverified if not (publishable and one.owner_only))
    facts = list(_guarantee(findings))
    if membership.rows == 0:
        facts.append(fact(Said.NO_ROW))
    elif not found and not nonlinear:
        facts.append(fact(Said.NOTHING_DEPENDS, some_known=membership.known_rows > 0))
    if found and not plan.data.only_guarantee:
        facts += _linear(findings, section, found, publishable=publishable)
    if findings.own_shows and not plan.data.only_guarantee:
        facts.append(_left(findings, findings.own_least))
    facts += _questions(findings)
    if findings.nonlinear and not publishable:
        facts += [_local(plan.data.secret, local.report()) for local in findings.nonlinear]
    elif has_moments(membership):  # also if nothing was: that may depend on the values
        facts.append(fact(Said.LOCAL_WITHHELD if publishable else Said.LOCAL_NOT_COMPUTED))
    if limit:
        facts += _about_limit(findings, below, _status_of_limit(findings, unverified), shown)
    facts += [_told(one) for one in shown if _fails(findings, one)]
    if broken := (rules.publishable() if publishable else rules).in_all:
        facts.append(fact(Said.RULES, broken=broken))
    status = status_of(findings, unverified, rules, publishable=publishable)
    stated_otherwise = limit != plan.limits.remaining_uncertainty
    return Verdict(
        passed=None if status is None else status is VerdictStatus.PASSED,
        status=status,
        limit=limit or None,
        known_to=plan.limits.known_to or None if stated_otherwise else None,
        guessed_right=plan.limits.guessed_right or None if stated_otherwise else None,
        set_by=plan.limits.set_by,
        below_limit=below,
        attacked=min(_attacked(findings), below),
        judged=findings.judged,
        guaranteed=status is VerdictStatus.PASSED and findings.guaranteed and findings.shows,
        accepts_groups=status is VerdictStatus.PASSED and _accepts_groups(findings, unverified, publishable),
        facts=tuple(facts),
    )


def _accepts_groups(findings: Findings, unverified: tuple[Unverified, ...], publishable: bool) -> bool:
    """Whether a pass accepts what numbers tell of all their rows together.

    Whether some do is for the owner; readers see that the plan would accept it.
    """
    if publishable and accepts_what_is_alike(findings):
        return True
    return any(one.accepted and one.name in OF_A_GROUP for one in unverified)


def accepts_what_is_alike(findings: Findings) -> bool:
    """Whether the plan accepts that groups of like rows are told, and noise alone does not prevent it."""
    return AssumptionName.HOMOGENEOUS in findings.plan.limits.accept and not findings.guaranteed


def _guarantee(findings: Findings) -> Iterator[Fact]:
    """What the noise alone leaves, if that keeps the limit: it needs no prior and looks at no value."""
    if findings.guaranteed and findings.shows:
        yield fact(Said.GUARANTEED, kept=findings.kept_by_noise)


def status_of(
    findings: Findings,
    unverified: tuple[Unverified, ...],
    rules: RulesReport,
    *,
    publishable: bool = False,
) -> VerdictStatus | None:
    """The one rule of a pass, for an audit and for a ledger: of the limit, of what is told, and of the rules.

    None where there is no limit, and nothing fails. What fails for a reason that is for the owner only is
    *not shown* in what is ``publishable``.
    """
    status = _status_of_limit(findings, unverified) if findings.limit else None
    failing = [one for one in unverified if _fails(findings, one)]
    if failing:
        shown = [one for one in failing if not (publishable and one.owner_only)]
        status = VerdictStatus.FAILED if shown or findings.below_limit else VerdictStatus.NOT_SHOWN
    if (rules.publishable() if publishable else rules).in_all:
        return VerdictStatus.FAILED
    if rules.in_all and status is not VerdictStatus.FAILED:
        return VerdictStatus.NOT_SHOWN
    return status


def _status_of_limit(findings: Findings, unverified: tuple[Unverified, ...]) -> VerdictStatus:
    if findings.below_limit or any(_fails(findings, one) for one in unverified):
        return VerdictStatus.FAILED
    if any(not one.accepted for one in unverified):
        return VerdictStatus.NOT_SHOWN
    return VerdictStatus.PASSED


def _fails(findings: Findings, one: Unverified) -> bool:
    """Whether what is not verified is known not to hold: a value is told, or who is in the table."""
    nothing = one.name is AssumptionName.PRESENCE and findings.kept_by_noise == 0
    return nothing or one.name is AssumptionName.CERTAIN


def _about_limit(
    findings: Findings, below: int, status: VerdictStatus, unverified: tuple[Unverified, ...]
) -> Iterator[Fact]:
    limit = findings.plan.limits.text
    open_ones = [one for one in unverified if not one.accepted]
    accepted = [one for one in unverified if one.accepted]
    match status:
        case VerdictStatus.FAILED:
            if below:
                yield fact(Said.BELOW, records=below, limit=limit)
                yield fact(Said.ATTACKED, attacked=min(_attacked(findings), below), below=below)
            open_ones = [one for one in open_ones if not _fails(findings, one)]
            if open_ones:
                yield fact(Said.ALSO_OPEN, *map(_needed, open_ones))
        case VerdictStatus.PASSED if findings.guaranteed and findings.shows:
            yield fact(Said.KEPT_BY_NOISE, limit=limit)
        case VerdictStatus.PASSED if not findings.shows:
            yield fact(Said.KEPT, limit=limit)
        case VerdictStatus.PASSED:
            yield fact(Said.KEPT_ON_AVERAGE, limit=limit)
        case VerdictStatus.NOT_SHOWN:
            yield fact(Said.NOT_SHOWN, *map(_needed, open_ones), limit=limit)
            named = [one for one in open_ones if one.name not in NOT_ACCEPTED]
            if named:
                every = dict.fromkeys(one.name.value for one in [*accepted, *named])  # what is written stays
                yield fact(Said.MAY_ACCEPT, names=", ".join(f'"{name}"' for name in every))
    if accepted:
        yield fact(Said.ACCEPTED, *map(_needed, accepted))


def _needed(one: Unverified) -> Fact:
    """The case of an assumption, with the assumption's name."""
    return _told(one).model_copy(update={"figures": {**_told(one).figures, "assumption": one.name.value}})


def _attacked(findings: Findings) -> int:
    """Records of which some attack leaves less than the limit, of the secret or of the worst question."""
    found, limit = findings.linear, findings.limit
    others = (*findings.questions, *findings.others)
    return max([found.records(found.upper < limit), *map(_attacked, others)])


def _questions(findings: Findings) -> Iterator[Fact]:
    """What remains of the yes-or-no questions that the plan publishes, the worst question alone."""
    shown = [one for one in findings.questions if one.shows]
    for chosen in sorted(shown, key=lambda one: (one.least.lower, one.least.upper))[:1]:
        yield fact(
            Said.LEFT_OF_QUESTION,
            question=chosen.asked,
            questions=len(shown),
            lower=chosen.least.lower,
            upper=chosen.least.upper,
            told_apart=chosen.linear.identifiable_records,
        )


def _left(findings: Findings, least: Uncertainty) -> Fact:
    """What remains of the most exposed record, with what it is an average over."""
    return fact(
        Said.LEFT,
        findings.prior.fact,
        lower=least.lower,
        upper=least.upper,
        some_known=findings.membership.known_rows > 0,
    )


def _linear(
    findings: Findings, section: ExposedSection, found: LinearFindings, *, publishable: bool
) -> Iterator[Fact]:
    data, of = findings.plan.data, findings.membership.records
    if section.identifiable_records:
        yield fact(Said.TOLD_APART, records=section.identifiable_records, of=of)
        # What is seen of a question about the secret is not in the secret's unit.
        shown = (one for one in section.exposed if not (one.about or (publishable and one.local)))
        alone = (one for one in shown if one.identifiable and one.size == 1)
        for sharpest in sorted(alone, key=_error)[:1]:
            share = {"of_range": sharpest.rmse_percent_of_range or 0.0}
            yield fact(
                Said.SHARPEST,
                feature=sharpest.feature or "",
                rows=sharpest.rows,
                error=_error(sharpest),
                secret=data.secret,
                **(share if data.secret_kind.measured else {}),
            )
    else:
        yield fact(Said.NOBODY_TOLD_APART, of=of)
    if findings.identifiable_groups:
        rows = findings.row_by_row.linear.linear.rows_of_unit
        of_rows = bool(rows.max(initial=1) > 1)
        yield fact(Said.GROUPS, groups=findings.identifiable_groups, of_rows=of_rows)


def _told(one: Unverified) -> Fact:
    """The case of an assumption; one from before there were cases has its reason alone."""
    return one.fact or fact(Said.TOLD, reason=one.reason)


def _local(secret: str, local: LocalReport) -> Fact:
    """For the owner only."""
    if not local.identifiable:
        return fact(Said.NOBODY_LOCALLY)
    return fact(
        Said.SEEN_LOCALLY,
        values=local.identifiable,
        of=local.rows,
        as_a_set=local.fixed_group,
        error=local.sharpest_rmse or 0.0,
        secret=secret,
    )


def _error(one: Exposed) -> float:
    return one.rmse or 0.0  # what is identifiable has one


def sharpest_view(findings: Findings) -> SharpestView | None:
    """What is known of the record that may keep least; none if nothing that is published shows a value.

    If a yes-or-no question keeps least, it says how often that is guessed right, beside the secret's ±.
    """
    worst = findings.worst
    least, own = worst.own_least, findings.own_least
    if not findings.shows or findings.plan.data.only_guarantee:
        return None
    before = math.sqrt(float(findings.prior.of_column.variance))
    lower, upper = own.stddev_lower * before, own.stddev_upper * before
    several = findings.membership.by_person and not findings.one_value
    columns = findings.linear.least_columns.tolist() if worst is findings else ()
    total = next((findings.linear.total(column) for column in columns), None)
    guessed = _guessed(worst, least)
    known = _known_of_it(worst, before, least, guessed, several)
    return SharpestView(
        of="rows" if several else "value",
        before=before,
        after_lower=lower,
        after_upper=upper,
        **guessed,
        total=total,
        facts=(known, *_if_all_others_are_known(findings)),
    )


def _if_all_others_are_known(findings: Findings) -> Iterator[Fact]:
    """What is left to an attacker who knows all others, where numbers share noise; else nothing is said.

    The attacker above knows nobody, and people hide each other behind noise that they share.
    """
    kept = guaranteed_by_noise(findings) if findings.pricing.strategies else None
    if kept is not None:
        yield fact(View.ALL_OTHERS_KNOWN, kept=kept, some_known=findings.membership.known_rows > 0)


def _guessed(findings: Findings, least: Uncertainty) -> dict[str, Any]:
    """How often a guess at one of few values is right before, and at most after; of a number nothing.

    Where the design has all records and all releases, also how many a sure guess finds, and how many of all
    people are guessed right beyond those before.
    """
    prior = findings.prior
    if prior.kind.measured:
        return {}
    chances = prior.chances
    before, after = float(chances.max()), float(right_at_most(chances, np.array([[least.lower]]))[0])
    if not findings.linear or findings.has_nonlinear or findings.streamed:
        return {"right_before": before, "right_after": after}
    guesses, people = findings.linear.guesses, findings.linear.people
    every = {
        "people_right_before": before * int(people.sum()),
        "people_beyond_chance": guesses.beyond_chance(people),
    }
    return {
        "right_before": before,
        "right_after": min(after, float(guesses.right.max(initial=before))),
        "sure_after": float(guesses.sure.max(initial=FALSE_ALARMS)),
        **(every if findings.linear.linear.rows_of_unit.max(initial=1) == 1 else {}),
    }


def _known_of_it(
    findings: Findings, before: float, least: Uncertainty, guessed: dict[str, float], several: bool
) -> Fact:
    """What an attacker knows of a number before and after, or how often they guess a value right."""
    data, prior = findings.plan.data, findings.prior
    about = {"secret": data.secret, "record": data.record}
    if guessed:
        return fact(
            View.GUESS,
            prior.fact,
            question=findings.asked,
            yes_or_no=prior.kind.two_values,
            before=guessed["right_before"],
            after=guessed["right_after"],
            **about,
        )
    return fact(
        View.NUMBER,
        prior.fact,
        of_level=prior.level is not None,
        of_rows=several,
        before=before,
        lower=least.stddev_lower * before,
        upper=least.stddev_upper * before,
        **about,
    )
