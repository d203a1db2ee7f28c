"""The verdict in plain language, and the sharpest view: what an attacker knows before and after."""

from __future__ import annotations

import math

import numpy as np

from sightline.auditing.assumption_facts import NOT_ACCEPTED, OF_A_GROUP
from sightline.auditing.budget import guaranteed_by_noise
from sightline.auditing.exposed import ExposedSection
from sightline.auditing.findings import Findings, LinearFindings
from sightline.auditing.nonlinear import has_moments
from sightline.auditing.plan import AssumptionName
from sightline.auditing.result import Exposed, LocalReport, Uncertainty, Unverified, Verdict, VerdictStatus
from sightline.auditing.result_parts import RulesReport, SharpestView
from sightline.bounds.guesses import FALSE_ALARMS, right_at_most
from sightline.format import count as counted
from sightline.format import number, number_ends, percent, percent_at_least, percent_at_most
from sightline.tables.subject import SecretKind

NO_RULES = RulesReport.model_construct()  # which builds no model at import


def verdict(
    findings: Findings,
    section: ExposedSection,
    unverified: tuple[Unverified, ...],
    *,
    publishable: bool,
    rules: RulesReport = NO_RULES,
) -> Verdict:
    """Who is exposed and whether the limit holds, in a few sentences.

    A ``publishable`` verdict names nothing that is for the owner only. It is not passed unless the owner's
    is: then it says that the reason is for the owner only.
    """
    plan, membership, found = findings.plan, findings.membership, findings.linear
    nonlinear, limit = findings.has_nonlinear, findings.limit
    below = findings.below_limit
    sentences = _guarantee(findings)
    if membership.rows == 0:
        sentences.append("The table has no row with a secret: nothing can be exposed.")
    elif not found and not nonlinear:
        known = "a secret that the attacker does not know" if membership.known_rows else "the secret"
        sentences.append(f"Nothing that is published depends on {known}.")
    if found and not plan.data.only_guarantee:
        sentences += _linear(findings, section, found, publishable=publishable)
    if findings.own_shows and not plan.data.only_guarantee:
        sentences.append(_headline(findings, findings.own_least))
    sentences += _questions(findings)
    if findings.nonlinear and not publishable:
        sentences += [_local(plan.data.secret, local.report()) for local in findings.nonlinear]
    elif has_moments(membership):  # also if nothing was: that may depend on the values
        why = "is for the owner only" if publishable else "was not computed"
        sentences.append(f"What moments show near the true values {why}.")
    if limit and publishable:
        unverified = tuple(one.publishable() for one in unverified)
    shown = tuple(one for one in unverified if not (publishable and one.owner_only))
    if limit:
        sentences += _limit_sentences(findings, below, _status_of_limit(findings, unverified), shown)
    sentences += [f"{one.reason}." for one in shown if _fails(findings, one)]
    if broken := (rules.publishable() if publishable else rules).in_all:
        breaks = counted(broken, "combination of numbers breaks", "combinations of numbers break")
        sentences.append(f"{breaks} a rule of [rules].")
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
        text=" ".join(sentences),
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


def _guarantee(findings: Findings) -> list[str]:
    """What the noise alone leaves, if that keeps the limit: it needs no prior and looks at no value."""
    if not findings.guaranteed or not findings.shows:
        return []
    kept = percent_at_least(findings.kept_by_noise)
    return [
        f"To an attacker who knows everyone else, the noise alone leaves at least {kept} of their "
        "uncertainty about a record, whatever they believe beforehand and whatever values the table holds. "
        "No noise hides whether an answer is NULL."
    ]


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
        told = [one for one in failing if not (publishable and one.owner_only)]
        status = VerdictStatus.FAILED if told or findings.below_limit else VerdictStatus.NOT_SHOWN
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


def _limit_sentences(
    findings: Findings, below: int, status: VerdictStatus, unverified: tuple[Unverified, ...]
) -> list[str]:
    percent = findings.plan.limits.text
    open_ones = [one for one in unverified if not one.accepted]
    accepted = [one for one in unverified if one.accepted]
    sentences = []
    match status:
        case VerdictStatus.FAILED:
            if below:
                sentences.append(f"{counted(below, 'record')} may keep less than the limit of {percent}.")
                sentences.append(_attacked_sentence(min(_attacked(findings), below), below))
            open_ones = [one for one in open_ones if not _fails(findings, one)]
            if open_ones:
                sentences.append(f"Also, {_listed(open_ones)}.")
        case VerdictStatus.PASSED if findings.guaranteed and findings.shows:
            sentences.append(f"So everyone keeps the limit of {percent}, guaranteed by the noise.")
        case VerdictStatus.PASSED if not findings.shows:
            sentences.append(f"So everyone keeps the limit of {percent}.")
        case VerdictStatus.PASSED:
            sentences.append(f"On that average everyone keeps at least the limit of {percent}.")
        case VerdictStatus.NOT_SHOWN:
            reasons = _listed(open_ones) or "the reason is for the owner only"
            sentences.append(f"That everyone keeps the limit of {percent} is not shown: {reasons}.")
            named = [one for one in open_ones if one.name not in NOT_ACCEPTED]
            if named:
                every = dict.fromkeys(one.name.value for one in [*accepted, *named])  # what is written stays
                names = ", ".join(f'"{name}"' for name in every)
                sentences.append(f"Correct this, or write accept = [{names}] in [limits].")
    if accepted:
        sentences.append(f"The plan accepts: {_listed(accepted)}.")
    return sentences


def _attacked(findings: Findings) -> int:
    """Records of which some attack leaves less than the limit, of the secret or of the worst question."""
    found, limit = findings.linear, findings.limit
    others = (*findings.questions, *findings.others)
    return max([found.records(found.upper < limit), *map(_attacked, others)])


def _attacked_sentence(attacked: int, below: int) -> str:
    """Of how many records some attack leaves less than the limit; of the others nothing is shown."""
    one = "it" if below == 1 else "each of them"
    if attacked == below:
        return f"Some attack leaves {one} less."
    if not attacked:
        whom, whose = ("it", "it keeps it") if below == 1 else ("one of them", "they keep it")
        return f"No attack is known that leaves {whom} less: it is not shown that {whose}."
    others = "the other one keeps" if below - attacked == 1 else f"the other {below - attacked:,} keep"
    return f"Some attack leaves {attacked:,} of them less; that {others} it is not shown."


def _listed(assumptions: list[Unverified]) -> str:
    return "; ".join(f"{one.reason} ({one.name.value})" for one in assumptions)


def _questions(findings: Findings) -> list[str]:
    """What remains of the yes-or-no questions that the plan publishes, the worst question alone."""
    found = [one for one in findings.questions if one.shows]
    if not found:
        return []
    chosen = min(found, key=lambda one: (one.least.lower, one.least.upper))
    (lower, upper), asked = chosen.least.ends, chosen.asked
    others = f", the worst of {len(found)} yes-or-no questions" if len(found) > 1 else ""
    sentence = (
        f"Of whether {asked}{others}, asked as a secret of its own with even chances, at least {lower} of "
        "the most exposed record's uncertainty remains, whatever the attack, and the best attack leaves at "
        f"most {upper}"
    )
    if seen := chosen.linear.identifiable_records:
        sentence += f"; the answer of {counted(seen, 'record')} can be told apart from everything else"
    return [sentence + "."]


def _headline(findings: Findings, least: Uncertainty) -> str:
    """What remains of the most exposed record, with what it is an average over."""
    others = (
        ", the noise and the values of some records" if findings.membership.known_rows else " and the noise"
    )
    lower, upper = least.ends
    stddevs = Uncertainty(lower=least.stddev_lower, upper=least.stddev_upper).ends
    return (
        f"On average over {findings.prior.values}, at least {lower} of the most exposed record's uncertainty "
        f"(variance; {stddevs[0]} of the standard deviation) remains to an attacker who knows the "
        f"groups{others}, whatever the attack; the best attack leaves at most {upper} ({stddevs[1]}). Who is "
        "in which group is public, and epsilon covers the values."
    )


def _linear(
    findings: Findings, section: ExposedSection, found: LinearFindings, *, publishable: bool
) -> list[str]:
    data, membership = findings.plan.data, findings.membership
    sentences, count, of = [], section.identifiable_records, membership.records
    if count:
        # What is seen of a question about the secret is not in the secret's unit.
        shown = (one for one in section.exposed if not (one.about or (publishable and one.local)))
        alone = (one for one in shown if one.identifiable and one.size == 1)
        sentences.append(f"{counted(count, 'record')} of {of:,} can be told apart from everything else.")
        for sharpest in sorted(alone, key=_error)[:1]:
            sentences.append(
                f"The sharpest view of {seen_feature(sharpest)} has an error of {number(_error(sharpest))} "
                f"in {data.secret}"
                + (
                    f" ({number(sharpest.rmse_percent_of_range or 0.0, 3)} % of its range)."
                    if data.secret_kind is SecretKind.NUMBER
                    else "."
                )
            )
    else:
        sentences.append(f"No single record of {of:,} can be told apart from all others.")
    groups = findings.identifiable_groups
    if groups:
        rows = findings.row_by_row.linear.linear.rows_of_unit
        several = "rows" if rows.max(initial=1) > 1 else "records"
        sentences.append(f"{groups:,} group{'s' if groups > 1 else ''} of several {several} can, by the sum.")
    return sentences


def seen_feature(one: Exposed) -> str:
    """What is seen of an exposed record, after "the sharpest view of"."""
    rows = f"their {one.rows:,} rows, and"
    match one.feature:
        case "row":
            return f"one is of one of {rows}"
        case "total":
            return f"one is of the total of {rows}"
        case "combination":
            return f"one is of a combination of {rows}"
        case _:
            return "one"


def _local(secret: str, local: LocalReport) -> str:
    """An owner-only sentence."""
    if not local.identifiable:
        return "Near their true values no row is identifiable from the moments or thresholds."
    whose = " as one of a set, not whose it is" if local.fixed_group else ""
    error = number(local.sharpest_rmse or 0.0)
    return (
        f"Near their true values {counted(local.identifiable, 'value')} of {local.rows:,} can be seen"
        f"{whose}, the sharpest with an error of {error} in {secret}; "
        "this is for the owner only."
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
    text = _view_text(worst, before, least, guessed, several)
    all_others_known = _if_all_others_are_known(findings)
    return SharpestView(
        of="rows" if several else "value",
        before=before,
        after_lower=lower,
        after_upper=upper,
        **guessed,
        total=total,
        all_others_known=all_others_known,
        text=f"{text} {all_others_known}".strip(),
    )


def _if_all_others_are_known(findings: Findings) -> str:
    """What is left to an attacker who knows all others, where numbers share noise; else nothing is said.

    The attacker above knows nobody, and people hide each other behind noise that they share.
    """
    kept = guaranteed_by_noise(findings) if findings.pricing.strategies else None
    if kept is None:
        return ""
    known = "nobody" if not findings.membership.known_rows else "no more than the plan says"
    return (
        f"That attacker knows {known}; to one who knows everyone else, the noise leaves at least "
        f"{percent_at_least(kept)} of the variance."
    )


def _guessed(findings: Findings, least: Uncertainty) -> dict[str, float]:
    """How often a guess at one of few values is right before, and at most after; of a number nothing.

    Where the design has all records and all releases, also how many a sure guess finds, and how many of all
    people are guessed right beyond those before.
    """
    prior = findings.prior
    if prior.kind is SecretKind.NUMBER:
        return {}
    chances = prior.chances
    before, after = float(chances.max()), float(right_at_most(chances, np.array([[least.lower]]))[0])
    if not findings.linear or findings.has_nonlinear or findings.streamed:
        return {"right_before": before, "right_after": after}
    found, people = findings.linear.guesses, findings.linear.people
    every = {
        "people_right_before": before * int(people.sum()),
        "people_beyond_chance": found.beyond_chance(people),
    }
    return {
        "right_before": before,
        "right_after": min(after, float(found.right.max(initial=before))),
        "sure_after": float(found.sure.max(initial=FALSE_ALARMS)),
        **(every if findings.linear.linear.rows_of_unit.max(initial=1) == 1 else {}),
    }


def _view_text(
    findings: Findings,
    before: float,
    least: Uncertainty,
    guessed: dict[str, float],
    several: bool,
) -> str:
    data, prior = findings.plan.data, findings.prior
    knows = f"who knows who is in which group, which no noise hides, and expects {prior.values},"
    whose = f"{data.secret} of the most exposed {data.record}"
    what = f"each {data.secret}"
    if prior.level is not None:
        what = f"the mean {data.secret} of each {data.record}'s rows"
        whose = f"the mean {data.secret} of the most exposed {data.record}'s rows"
    if several:
        whose = f"any combination of the rows of one {data.record}, in units of one row,"
    if guessed:
        right_before, right_after = guessed["right_before"], guessed["right_after"]
        what = "yes or no" if prior.kind is SecretKind.BOOLEAN else f"the category of {data.secret}"
        if findings.asked:
            what = f"whether {findings.asked}"
        return (
            f"An attacker {knows} guesses {what} right {percent(right_before)} of the time before the "
            f"releases. With them, for the most exposed {data.record}, at most "
            f"{percent_at_most(right_after)} of the time, whatever the attack."
        )
    lower, upper = number_ends(least.stddev_lower * before, least.stddev_upper * before)
    return (
        f"An attacker {knows} knows {what} to ± {number(before, 3)} before the releases. With "
        f"them, no attack knows {whose} more closely than to ± {lower}; one knows it to ± {upper}."
    )
