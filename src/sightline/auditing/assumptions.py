"""What a pass needs and an audit did not verify: every case of each assumption, and its reason.

A pass is a proof. Whatever the proof needs and the audit cannot verify turns it into *not shown*, unless the
plan accepts it by name in ``[limits] accept``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
from sightline.auditing.stated_noise import counts_people
from sightline.format import count as counted
from sightline.format import percent
from sightline.noise.published import PublishedLaw
from sightline.tables.explained import MOST_EXPLAINED
from sightline.tables.membership import YES_OR_NO, Feature
from sightline.tables.subject import SecretKind

_CARRIED = "assumption of the releases when they were made is not verified, which this table cannot show"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumptionCase:
    """How many things an assumption is needed for, and the reason in words; of none it is not needed."""

    name: AssumptionName
    count: int
    one: str  # the reason, after the number one
    many: str
    owner_only: bool = True

    def unverified(self, *, accepted: bool) -> Unverified:
        """The same as a result has it."""
        return Unverified(
            name=self.name,
            count=self.count,
            reason=counted(self.count, self.one, self.many),
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
    cases += tuple(AssumptionCase(name=one, count=1, one=_CARRIED, many=_CARRIED) for one in carried)
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


_WHO_HAS_ONE = (
    "who has a value of the secret: some rows have none, and no noise hides a NULL, a missing line or an "
    "exact count of those with one; count all rows, or accept it if everybody may know who has one"
)


def _of_left_out(findings: Findings) -> tuple[AssumptionCase, ...]:
    """Rows and values that are left out of the audit, or not of what is published."""
    membership = findings.membership
    domain = "bounds" if findings.plan.data.secret_kind is SecretKind.NUMBER else "categories"
    return (
        AssumptionCase(
            name=AssumptionName.DROPPED,
            count=0 if membership.unaudited else membership.dropped,  # else the SQL was checked for them
            one="row without a secret or a record key is not audited",
            many="rows without a secret or a record key are not audited",
        ),
        AssumptionCase(
            name=AssumptionName.DROPPED,
            count=membership.telling_who_has_one,
            one=f"group tells {_WHO_HAS_ONE}",
            many=f"groups tell {_WHO_HAS_ONE}",
        ),
        AssumptionCase(
            name=AssumptionName.CLIPPED,
            # Once the SQL was checked: 0 if every release itself clips what it adds up to the bounds.
            count=membership.clipped
            if not membership.unaudited or any(rows.clipped for rows in membership.unaudited)
            else 0,
            one=f"value is outside the {domain}, and nothing is shown of it",
            many=f"values are outside the {domain}, and nothing is shown of them",
        ),
        AssumptionCase(
            name=AssumptionName.PUBLISHED_BUT_DROPPED,
            count=membership.published_but_dropped,
            one="row is left out of the audit but not of what is published",
            many="rows are left out of the audit but not of what is published",
        ),
        AssumptionCase(
            name=AssumptionName.EMPTY,
            count=len(membership.empty),
            one="release aggregates no row; check its condition",
            many="releases aggregate no row; check their conditions",
            owner_only=False,
        ),
    )


_LISTED = (
    "can be seen to hold somebody, or nobody, with a value of the secret, because an answer lists only what "
    "occurs, or is NULL where nothing does, and no noise hides that; write COUNT(*) FILTER (WHERE …) or "
    "COALESCE(SUM(…), 0), count all rows, or publish every value in every group"
)
_LISTS_WHO_IS_THERE = (
    "with GROUP BY has no line for a group that nobody of the table is in, and neither noise nor rounding "
    "hides that; publish a number for every group that there might be, also of nobody"
)


def _of_groups(findings: Findings) -> tuple[AssumptionCase, ...]:
    """What a line that is there, or missing, tells."""
    membership = findings.membership
    return (
        AssumptionCase(
            name=AssumptionName.GROUPS,
            count=membership.telling_groups,
            one=f"group {_LISTED}",
            many=f"groups {_LISTED}",
        ),
        AssumptionCase(
            name=AssumptionName.GROUPS,
            count=_lists_groups(findings),
            one=f"release {_LISTS_WHO_IS_THERE}",
            many=f"releases {_LISTS_WHO_IS_THERE.replace('has no line', 'have no line')}",
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
        and any(law is not PublishedLaw.NONE for law in _laws_of(findings, query))
        for query in grouped
        if plan.data.presence
    )


def _laws_of(findings: Findings, query: int) -> list[PublishedLaw]:
    parts = findings.membership.partitions
    return [law for law, part in zip(findings.pricing.laws, parts, strict=True) if part.query == query]


_DERIVED = (
    "that releases take as public {} like the secret under another name ({}); leave it out, aggregate the "
    "secret itself with noise, or audit it as a secret, [[secret]]"
)
_EXPLAINS = (
    "that releases take as public {} {} of the variance of {} in the table ({}), and what remains is a share "
    "of what that leaves; make coarser groups, or accept it if everybody may know so much"
)
_JUDGED_ALONE = "may tell something about this one, and something is published about it: each is judged alone"


def _of_columns(findings: Findings) -> tuple[AssumptionCase, ...]:
    """Public columns, and other secrets, that tell the secret."""
    membership = findings.membership
    figures = "; ".join(membership.derived[:3])
    known = membership.explained
    figure = percent(known.share), findings.plan.data.secret, ", ".join(known.columns[:3])
    return (
        AssumptionCase(
            name=AssumptionName.DERIVED,
            count=len(membership.derived),
            one=f"column or expression {_DERIVED.format('looks', figures)}",
            many=f"columns or expressions {_DERIVED.format('look', figures)}",
        ),
        AssumptionCase(
            name=AssumptionName.EXPLAINED,
            count=len(known.columns) if known.share > MOST_EXPLAINED else 0,
            one=f"column or expression {_EXPLAINS.format('explains', *figure)}",
            many=f"columns or expressions {_EXPLAINS.format('together explain', *figure)}",
        ),
        AssumptionCase(
            name=AssumptionName.SECRETS,
            count=len(findings.plan.other_secrets),
            one=f"other secret column {_JUDGED_ALONE}",
            many=f"other secret columns {_JUDGED_ALONE.replace('about it', 'about them')}",
            owner_only=False,
        ),
    )


_CERTAIN = "certain: no other value fits the published counts"
_DRAWS = "simulated draws of the rounding, in which no other value fits the counts"
_NOTHING_GUARANTEED = (
    "table whose counts are exact, rounded or blank tells whoever knows everyone else that somebody is in it"
)
_NOT_GUARANTEED = (
    "table has no frame: the noise alone does not keep the limit for who is in it, and nothing else is "
    "known to protect that"
)
_AS_IF_EXACT = (
    "not shown to keep the limit: rounded, blank and perturbed counts are bounded as if they were exact, and "
    "no attack is known that leaves less"
)
_COMMON_KEYS = (
    "changed by cell keys in several tables under the rule k, of which it is not decided what the keys tell "
    "together: the key of a total is the sum of the keys of its parts"
)
_UNDER_K = (
    "no noise, and whether the rule k holds for {} is not decided: that needs one row a record, or one in "
    "each number and values = 'independent', nobody whom the attacker knows, and a table in memory"
)
_LOCALLY = (
    "not shown to keep the limit against moments and thresholds of the secret, which are only bounded near "
    "the true values"
)


def _of_counts(findings: Findings, told: CertainReport) -> tuple[AssumptionCase, ...]:
    """Whose value is certain or not decided, who is there, and counts by a rule."""
    data = findings.plan.data
    undecided = _worst(findings, lambda one: sum(each.linear.undecided for each in (one, *one.questions)))
    undecided += sum(local.report().undecided for local in findings.nonlinear) + told.undecided
    return (
        AssumptionCase(
            name=AssumptionName.UNDECIDED,
            count=undecided,
            one="record is neither shown to be identifiable nor shown not to be",
            many="records are neither shown to be identifiable nor shown not to be",
            owner_only=bool(findings.nonlinear) or told.undecided > 0,
        ),
        AssumptionCase(
            name=AssumptionName.CERTAIN,
            count=told.people,
            one=f"record is {_CERTAIN}",
            many=f"records are {_CERTAIN}",
        ),
        AssumptionCase(
            name=AssumptionName.CERTAIN,
            count=told.by_draw if told.draws[0] else 0,
            one=f"record is certain in some of {told.draws[1]} {_DRAWS}",
            many=f"records are certain in some of {told.draws[1]} {_DRAWS}",
        ),
        AssumptionCase(
            name=AssumptionName.PRESENCE,
            count=int(data.only_guarantee and not findings.guaranteed),
            one=_NOTHING_GUARANTEED if findings.kept_by_noise == 0 else _NOT_GUARANTEED,
            many="",
            owner_only=False,
        ),
        AssumptionCase(
            name=AssumptionName.COUNT_RULES,
            count=told.by_draw if not told.draws[0] else 0,
            one="record may be certain after some draw of the rounding; no simulated one made it so",
            many="records may be certain after some draw of the rounding; no simulated one made them so",
        ),
        AssumptionCase(
            name=AssumptionName.COUNT_RULES,
            count=_worst(findings, lambda one: one.not_shown) if findings.pricing.by_count_rule else 0,
            one=f"record is {_AS_IF_EXACT}",
            many=f"records are {_AS_IF_EXACT}",
            owner_only=False,
        ),
        AssumptionCase(
            name=AssumptionName.COUNT_RULES,
            count=_counts_not_looked_at(findings),
            one=f"count has {_UNDER_K.format('it')}",
            many=f"counts have {_UNDER_K.format('them')}",
            owner_only=False,
        ),
        AssumptionCase(
            name=AssumptionName.COUNT_RULES,
            count=_counts_with_common_keys(findings),
            one=f"count is {_COMMON_KEYS}",
            many=f"counts are {_COMMON_KEYS}",
            owner_only=False,
        ),
        AssumptionCase(
            name=AssumptionName.LOCAL,
            count=findings.not_shown if findings.has_nonlinear else 0,
            one=f"record is {_LOCALLY}",
            many=f"records are {_LOCALLY}",
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
    number_secret = findings.plan.data.secret_kind is SecretKind.NUMBER
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


_NOT_COMPARED = (
    "cannot be compared with what the attacker knows of each value or level: a group whose values are nearly "
    "all at one end of that is not found"
)
_NEVER = "with even chances for the others alone, somebody may keep less than the limit"


def _of_alike(findings: Findings, homogeneous: tuple[HomogeneousCell, ...]) -> tuple[AssumptionCase, ...]:
    """Groups that are all alike, and values so few that attackers can round."""
    membership, data = findings.membership, findings.plan.data
    most = max((cell.rows for cell in homogeneous), default=0)
    found = max(map(few_values, findings.every_belief), key=lambda one: one.count)
    few = _which_values(findings, found)
    return (
        AssumptionCase(
            name=AssumptionName.HOMOGENEOUS,
            count=len(homogeneous),
            one="number is about rows that are nearly all alike, and tells the values of "
            f"{counted(most, 'row')}",
            many="numbers are about rows that are nearly all alike, and tell the values of up to "
            f"{counted(most, 'row')} each",
        ),
        AssumptionCase(
            name=AssumptionName.HOMOGENEOUS,
            # Groups are compared with the bounds, not with what is known of a value or of a level.
            count=len(membership.cells)
            if findings.plan.attacker.values_within is not None or data.level
            else 0,
            one=f"number {_NOT_COMPARED}",
            many=f"numbers {_NOT_COMPARED}",
            owner_only=False,
        ),
        AssumptionCase(
            name=AssumptionName.FEW_VALUES,
            count=_worst(findings, unused_categories),
            one=f"declared category occurs in no row; {_NEVER}",
            many=f"declared categories occur in no row; {_NEVER}",
        ),
        AssumptionCase(
            name=AssumptionName.FEW_VALUES,
            count=found.count,
            one=f"value is {few}",
            many=f'values are {few}; prior = "two-point" in [attacker] allows for that',
        ),
    )


def _which_values(findings: Findings, found: ValuesToRoundTo) -> str:
    """Which values are so few, after "value is"."""
    secret = findings.plan.data.secret
    taking = f"the mean {secret} of a record's rows" if found.of_level else secret
    if (within := findings.plan.attacker.values_within) is not None:
        return f"all that fit into ± {within:g}, by the least gap in the table, so that attackers can round"
    if found.spread.few:
        return f"all or nearly all that {taking} takes in the table, so that attackers can round"
    multiples = f"the multiples of {found.spread.step or 1:g} in the bounds"
    of = f" for {taking}" if found.of_level else ""
    return f"possible{of}, {multiples}, and noise does not hide which it is"


_NOTHING_IN_COMMON = (
    "that are taken to have nothing in common, so that knowing all others tells nothing of one; leave out "
    'values = "independent" to audit rows that share a level, too'
)
_UNEQUAL = (
    "because a value adds up rows, and how many is public: a sum of few rows is spread less than the bounds "
    "say, and hides others less; publish the rows themselves, or bound them to as many for everyone"
)


def _of_rows_together(findings: Findings) -> tuple[AssumptionCase, ...]:
    """What the rows of a person have in common."""
    people = findings.membership.persons
    apart = findings.plan.data.values == "independent" and findings.membership.by_person
    alike = people.alike if apart else 0
    advice = (
        'say values = "constant" in [data] if they always do' if people.constant else "are rows repeated?"
    )
    return (
        AssumptionCase(
            name=AssumptionName.VALUES,
            count=alike,
            one=f"record has several rows and the same value in all of them; {advice}",
            many=f"records have several rows and each has the same value in all of them; {advice}",
        ),
        AssumptionCase(
            name=AssumptionName.ROWS_APART,
            count=people.several if apart else 0,
            one=f"record has several rows {_NOTHING_IN_COMMON}",
            many=f"records have several rows {_NOTHING_IN_COMMON}",
            owner_only=False,
        ),
        AssumptionCase(
            name=AssumptionName.UNEQUAL,
            count=_worst(findings, unequal_sums),
            one=f"record may keep less than the limit, {_UNEQUAL}",
            many=f"records may keep less than the limit, {_UNEQUAL}",
        ),
    )


_NOISE_FIRST = (
    "safe only if the noise is added before the numbers are multiplied, rounded, made NULL, text or yes or "
    "no, or the lines sorted: the noise that the plan gives is taken to be on the aggregates, and the order "
    "to be that of the noisy numbers"
)
_HIDDEN = (
    "where a noisy count was small: which ones tells nothing of a secret only if that count is of rows "
    "whatever their secrets are, and if none of them was ever published"
)
_DRAWN_KNOWN = (
    "of 100 records {} known to the attacker, drawn by their keys; nothing is shown of those, nor for "
    "another draw"
)


def _of_releases(findings: Findings) -> tuple[AssumptionCase, ...]:
    """How noise was added, and who is known."""
    return (
        AssumptionCase(
            name=AssumptionName.NOISE_FIRST,
            count=len(needing_noise_first(findings)),
            one=f"release is {_NOISE_FIRST}",
            many=f"releases are {_NOISE_FIRST}",
            owner_only=False,
        ),
        AssumptionCase(
            name=AssumptionName.HIDDEN_BY_NOISE,
            count=sum(release.hidden_by_noise for release in findings.plan.releases),
            one=f"release hid groups {_HIDDEN}",
            many=f"releases hid groups {_HIDDEN}",
            owner_only=False,
        ),
        AssumptionCase(
            name=AssumptionName.DRAWN,
            count=_worst(findings, _drawn),
            one=_DRAWN_KNOWN.format("is"),
            many=_DRAWN_KNOWN.format("are"),
            owner_only=False,
        ),
    )


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
