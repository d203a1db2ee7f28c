"""What a pass needs and an audit did not verify: every case of each assumption, with its figures.

A pass is a proof. Whatever the proof needs and the audit cannot verify turns it into *not shown*, unless the
plan accepts it by name in ``[limits] accept``. The reasons in words are in :mod:`sightline.report.reasons`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sightline.auditing.assumption_facts import COVERED_BY_NOISE, NOT_ACCEPTED
from sightline.auditing.budget import guaranteed_by_noise
from sightline.auditing.declared_and_found import (
    ValuesToRoundTo,
    few_values,
    needing_noise_first,
    unequal_sums,
    unused_categories,
)
from sightline.auditing.findings import Findings
from sightline.auditing.plan import AssumptionName
from sightline.auditing.result import CertainReport, HomogeneousCell, Unverified
from sightline.auditing.result_parts import Figure, fact
from sightline.auditing.stated_noise import counts_people
from sightline.privacy.law import Law
from sightline.tables.explained import MOST_EXPLAINED
from sightline.tables.membership import YES_OR_NO, Feature

_NAMED = 3  # columns, or aggregates, that a reason names
_LONGEST = 150  # characters of SQL that a first screen has room for


class Case(StrEnum):
    """The cases of all assumptions, in the order in which they are asked."""

    NO_SECRET_OR_KEY = "no secret or key"
    TELLS_WHO_HAS_ONE = "tells who has one"
    OUTSIDE = "outside"
    LEFT_OUT_BUT_PUBLISHED = "left out but published"
    NO_ROW = "no row"
    LISTS_WHAT_OCCURS = "lists what occurs"
    LISTS_WHO_IS_THERE = "lists who is there"
    LIKE_THE_SECRET = "like the secret"
    EXPLAINS_THE_SECRET = "explains the secret"
    JUDGED_ALONE = "judged alone"
    NOT_DECIDED = "not decided"
    CERTAIN = "certain"
    CERTAIN_IN_SOME_DRAW = "certain in some draw"
    NOTHING_GUARANTEED = "nothing guaranteed"
    NO_FRAME = "no frame"
    CERTAIN_IN_NO_DRAW = "certain in no draw"
    AS_IF_EXACT = "as if exact"
    RULE_K = "rule k"
    COMMON_KEYS = "common keys"
    NEAR_TRUE_VALUES = "near true values"
    ALIKE = "alike"
    NOT_COMPARED = "not compared"
    UNUSED = "unused"
    VALUES_WITHIN = "values within"
    VALUES_TAKEN = "values taken"
    MULTIPLES = "multiples"
    CLUSTERS = "clusters"
    SAME_IN_ALL_ROWS = "same in all rows"
    NOTHING_IN_COMMON = "nothing in common"
    UNEQUAL_SUMS = "unequal sums"
    NOISE_AFTER = "noise after"
    HIDDEN = "hidden"
    DRAWN = "drawn"
    CARRIED = "carried"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumptionCase:
    """How many things an assumption is needed for, and why, as figures; of none it is not needed."""

    case: Case
    name: AssumptionName
    count: int
    figures: Mapping[str, Figure] = field(default_factory=dict)
    owner_only: bool = True

    def unverified(self, *, accepted: bool) -> Unverified:
        """The same as a result has it."""
        return Unverified(
            name=self.name,
            count=self.count,
            fact=fact(self.case, count=self.count, **self.figures),
            accepted=accepted,
            owner_only=self.owner_only,
        )


def unverified(
    findings: Findings,
    homogeneous: tuple[HomogeneousCell, ...],
    certain: CertainReport | None = None,
    *,
    whatever_the_noise: bool = False,
) -> tuple[Unverified, ...]:
    """The assumptions that a pass needs and that are not verified, accepted or not.

    ``certain`` are the people whose value follows from the published counts: nobody can accept that.

    Where the noise alone keeps the limit, only what noise cannot cover is asked; all of them are asked
    ``whatever_the_noise`` leaves, where more may be published.
    """
    cases = cases_of(findings, homogeneous, certain)
    asked = {case.name for case in cases if case.count}
    carried = [one for one in AssumptionName if one in findings.plan.limits.unverified and one not in asked]
    cases += tuple(AssumptionCase(case=Case.CARRIED, name=one, count=1) for one in carried)
    covered = COVERED_BY_NOISE if findings.guaranteed and not whatever_the_noise else frozenset()
    accepted = set(findings.plan.limits.accept) - NOT_ACCEPTED
    return tuple(
        case.unverified(accepted=case.name in accepted)
        for case in cases
        if case.count and case.name not in covered
    )


def cases_of(
    findings: Findings, homogeneous: tuple[HomogeneousCell, ...], certain: CertainReport | None = None
) -> tuple[AssumptionCase, ...]:
    """Every assumption that a pass may need, also those that it does not need here, family by family."""
    return (
        *_of_left_out(findings),
        *_of_groups(findings),
        *_of_columns(findings),
        *_of_counts(findings, certain or CertainReport()),
        *_of_alike(findings, homogeneous),
        *_of_rows_together(findings),
        *_of_releases(findings),
    )


def _of_left_out(findings: Findings) -> tuple[AssumptionCase, ...]:
    """Rows and values that are left out of the audit, or not of what is published."""
    membership = findings.membership
    bounded = findings.plan.data.secret_kind.measured
    return (
        AssumptionCase(
            case=Case.NO_SECRET_OR_KEY,
            name=AssumptionName.DROPPED,
            count=0 if membership.unaudited else membership.dropped,  # else the SQL was checked for them
        ),
        AssumptionCase(
            case=Case.TELLS_WHO_HAS_ONE,
            name=AssumptionName.DROPPED,
            count=membership.telling_who_has_one,
        ),
        AssumptionCase(
            case=Case.OUTSIDE,
            name=AssumptionName.CLIPPED,
            # Once the SQL was checked: 0 if every release itself clips what it adds up to the bounds.
            count=membership.clipped
            if not membership.unaudited or any(rows.clipped for rows in membership.unaudited)
            else 0,
            figures={"bounded": bounded},
        ),
        AssumptionCase(
            case=Case.LEFT_OUT_BUT_PUBLISHED,
            name=AssumptionName.PUBLISHED_BUT_DROPPED,
            count=membership.published_but_dropped,
        ),
        AssumptionCase(
            case=Case.NO_ROW,
            name=AssumptionName.EMPTY,
            count=len(membership.empty),
            owner_only=False,
        ),
    )


def _of_groups(findings: Findings) -> tuple[AssumptionCase, ...]:
    """What a line that is there, or missing, tells."""
    membership = findings.membership
    return (
        AssumptionCase(
            case=Case.LISTS_WHAT_OCCURS,
            name=AssumptionName.GROUPS,
            count=membership.telling_groups,
        ),
        AssumptionCase(
            case=Case.LISTS_WHO_IS_THERE,
            name=AssumptionName.GROUPS,
            count=_lists_groups(findings),
            owner_only=False,
        ),
    )


def _lists_groups(findings: Findings) -> int:
    """Releases about presence whose lines tell in which groups nobody is, more than their numbers do.

    An exact count tells that by itself, and where small counts are blank, a missing line is one of them.
    """
    plan, membership = findings.plan, findings.membership
    grouped = {membership.partitions[cell.partition].query for cell in membership.cells if cell.key}
    return sum(
        not plan.releases[query].suppress_below
        and any(law is not Law.NONE for law in _laws_of(findings, query))
        for query in grouped
        if plan.data.presence
    )


def _laws_of(findings: Findings, query: int) -> list[Law]:
    parts = findings.membership.partitions
    return [law for law, part in zip(findings.pricing.laws, parts, strict=True) if part.query == query]


def _of_columns(findings: Findings) -> tuple[AssumptionCase, ...]:
    """Public columns, and other secrets, that tell the secret."""
    membership = findings.membership
    known = membership.explained
    explained: dict[str, Figure] = {
        "share": known.share,
        "secret": findings.plan.data.secret,
        "columns": ", ".join(known.columns[:_NAMED]),
    }
    return (
        AssumptionCase(
            case=Case.LIKE_THE_SECRET,
            name=AssumptionName.DERIVED,
            count=len(membership.derived),
            figures={"columns": "; ".join(membership.derived[:_NAMED])},
        ),
        AssumptionCase(
            case=Case.EXPLAINS_THE_SECRET,
            name=AssumptionName.EXPLAINED,
            count=len(known.columns) if known.share > MOST_EXPLAINED else 0,
            figures=explained,
        ),
        AssumptionCase(
            case=Case.JUDGED_ALONE,
            name=AssumptionName.SECRETS,
            count=len(findings.plan.other_secrets),
            owner_only=False,
        ),
    )


def _of_counts(findings: Findings, told: CertainReport) -> tuple[AssumptionCase, ...]:
    """Whose value is certain or not decided, who is there, and counts by a rule."""
    data = findings.plan.data
    undecided = _worst(findings, lambda one: sum(each.linear.undecided for each in (one, *one.questions)))
    undecided += sum(local.report().undecided for local in findings.nonlinear) + told.undecided
    return (
        AssumptionCase(
            case=Case.NOT_DECIDED,
            name=AssumptionName.UNDECIDED,
            count=undecided,
            owner_only=bool(findings.nonlinear) or told.undecided > 0,
        ),
        AssumptionCase(
            case=Case.CERTAIN,
            name=AssumptionName.CERTAIN,
            count=told.people,
        ),
        AssumptionCase(
            case=Case.CERTAIN_IN_SOME_DRAW,
            name=AssumptionName.CERTAIN,
            count=told.by_draw if told.draws[0] else 0,
            figures={"draws": told.draws[1]},
        ),
        AssumptionCase(
            case=Case.NOTHING_GUARANTEED if findings.kept_by_noise == 0 else Case.NO_FRAME,
            name=AssumptionName.PRESENCE,
            count=int(data.only_guarantee and not findings.guaranteed),
            owner_only=False,
        ),
        AssumptionCase(
            case=Case.CERTAIN_IN_NO_DRAW,
            name=AssumptionName.COUNT_RULES,
            count=told.by_draw if not told.draws[0] else 0,
        ),
        AssumptionCase(
            case=Case.AS_IF_EXACT,
            name=AssumptionName.COUNT_RULES,
            count=_worst(findings, lambda one: one.not_shown) if findings.pricing.by_count_rule else 0,
            owner_only=False,
        ),
        AssumptionCase(
            case=Case.RULE_K,
            name=AssumptionName.COUNT_RULES,
            count=_counts_not_looked_at(findings),
            owner_only=False,
        ),
        AssumptionCase(
            case=Case.COMMON_KEYS,
            name=AssumptionName.COUNT_RULES,
            count=_counts_with_common_keys(findings),
            owner_only=False,
        ),
        AssumptionCase(
            case=Case.NEAR_TRUE_VALUES,
            name=AssumptionName.LOCAL,
            count=findings.not_shown if findings.has_nonlinear else 0,
            owner_only=False,
        ),
    )


def _counts_not_looked_at(findings: Findings) -> int:
    """Counts of the secret without noise of which the rule k is not decided: small ones may be among them."""
    membership, pricing = findings.membership, findings.pricing
    if findings.plan.rules.k <= 1:
        return 0
    apart = not membership.known_rows and not findings.streamed
    if apart and counts_people(findings.plan, membership):
        return 0
    number_secret = findings.plan.data.secret_kind.measured
    of_people = YES_OR_NO if number_secret else (Feature.VALUE, Feature.INDICATOR)
    features = [membership.partitions[p].feature in of_people for p in pricing.owner.tolist()]
    return sum(map(int, pricing.exact[features].tolist()))


def _counts_with_common_keys(findings: Findings) -> int:
    """Counts of several tables that cell keys change, under the rule k: what their keys have in common tells,
    such as that nobody is left where a total is published as another number than its only other part.
    """
    pricing = findings.pricing
    keyed = {p for p, rule in enumerate(pricing.rules) if rule.table}
    if findings.plan.rules.k <= 1 or len(keyed) < 2:
        return 0
    return sum(owner in keyed for owner in pricing.owner.tolist())


def _of_alike(findings: Findings, homogeneous: tuple[HomogeneousCell, ...]) -> tuple[AssumptionCase, ...]:
    """Groups that are all alike, and values so few that attackers can round."""
    membership, data = findings.membership, findings.plan.data
    most = max((cell.rows for cell in homogeneous), default=0)
    values = max(map(few_values, findings.every_belief), key=lambda one: one.count)
    which, figures = _which_values(findings, values)
    return (
        AssumptionCase(
            case=Case.ALIKE,
            name=AssumptionName.HOMOGENEOUS,
            count=len(homogeneous),
            figures={"rows": most},
        ),
        AssumptionCase(
            case=Case.NOT_COMPARED,
            name=AssumptionName.HOMOGENEOUS,
            # Groups are compared with the bounds, not with what is known of a value or of a level.
            count=len(membership.cells)
            if findings.plan.attacker.values_within is not None or data.level
            else 0,
            owner_only=False,
        ),
        AssumptionCase(
            case=Case.UNUSED,
            name=AssumptionName.FEW_VALUES,
            count=_worst(findings, unused_categories),
        ),
        AssumptionCase(
            case=which,
            name=AssumptionName.FEW_VALUES,
            count=values.count,
            figures=figures,
        ),
    )


def _which_values(findings: Findings, found: ValuesToRoundTo) -> tuple[Case, dict[str, Figure]]:
    """Which values are so few."""
    of_level: dict[str, Figure] = {"secret": findings.plan.data.secret, "of_level": found.of_level}
    if (within := findings.plan.attacker.values_within) is not None:
        return Case.VALUES_WITHIN, {"within": within}
    if found.wide:
        return Case.CLUSTERS, of_level
    if found.spread.few:
        return Case.VALUES_TAKEN, of_level
    return Case.MULTIPLES, {"step": found.spread.step or 1.0, **of_level}


def _of_rows_together(findings: Findings) -> tuple[AssumptionCase, ...]:
    """What the rows of a person have in common."""
    people = findings.membership.persons
    apart = findings.plan.data.values == "independent" and findings.membership.by_person
    alike = people.alike if apart else 0
    return (
        AssumptionCase(
            case=Case.SAME_IN_ALL_ROWS,
            name=AssumptionName.VALUES,
            count=alike,
            figures={"constant": people.constant},
        ),
        AssumptionCase(
            case=Case.NOTHING_IN_COMMON,
            name=AssumptionName.ROWS_APART,
            count=people.several if apart else 0,
            owner_only=False,
        ),
        AssumptionCase(
            case=Case.UNEQUAL_SUMS,
            name=AssumptionName.UNEQUAL,
            count=_worst(findings, unequal_sums),
        ),
    )


def _of_releases(findings: Findings) -> tuple[AssumptionCase, ...]:
    """How noise was added, and who is known."""
    return (
        AssumptionCase(
            case=Case.NOISE_AFTER,
            name=AssumptionName.NOISE_FIRST,
            count=len(releases := needing_noise_first(findings)),
            figures={"aggregates": _noise_on(findings, releases)},
            owner_only=False,
        ),
        AssumptionCase(
            case=Case.HIDDEN,
            name=AssumptionName.HIDDEN_BY_NOISE,
            count=sum(release.hidden_by_noise for release in findings.plan.releases),
            owner_only=False,
        ),
        AssumptionCase(
            case=Case.DRAWN,
            name=AssumptionName.DRAWN,
            count=_worst(findings, _drawn),
            owner_only=False,
        ),
    )


def _noise_on(findings: Findings, releases: set[int]) -> str:
    """The aggregates of some releases that the noise is taken to be on; nothing if they are many."""
    partitions = [part for part in findings.membership.partitions if part.query in releases]
    names = list(dict.fromkeys(part.computed.noise_on for part in partitions if part.computed.noise_on))
    listed = ", ".join(names)
    return listed if len(names) <= _NAMED and len(listed) <= _LONGEST else ""


def _drawn(findings: Findings) -> int:
    """Per cent of the records that the attacker knows by a draw, if a pass rests on which ones these are.

    It does not if everyone keeps the limit whatever else is known.
    """
    share, limit = findings.plan.attacker.known_share, findings.limit
    if not share or (
        not findings.membership.by_person and 0 < limit <= (guaranteed_by_noise(findings) or 0.0)
    ):
        return 0
    return max(1, round(100 * share))


def _worst(findings: Findings, asked: Callable[[Findings], int]) -> int:
    """The most that is asked for under one of the beliefs that the plan leaves open."""
    return max(map(asked, findings.every_belief))
