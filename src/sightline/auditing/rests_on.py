"""What the numbers of an audit rest on, in plain words: sentences alone, no decision."""

from __future__ import annotations

from sightline.auditing.beliefs import LEVEL, ONE_VALUE
from sightline.auditing.declared_and_found import how_computed
from sightline.auditing.findings import Findings
from sightline.auditing.lowering import LINEAR
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing
from sightline.format import count as counted
from sightline.format import number
from sightline.noise.published import PublishedLaw
from sightline.tables.membership import YES_OR_NO, PersonTable
from sightline.tables.subject import SecretKind


def _values(plan: Plan) -> str:
    if plan.belief == ONE_VALUE:
        return "all of its rows hold one value: the record's"
    if plan.belief == LEVEL:
        return (
            "its rows share a level; how each differs from it is known to the attacker. That is the worse of "
            f"{len(plan.data.beliefs)} beliefs, each for everybody: another is that the rows have nothing in "
            "common"
        )
    if block := plan.belief.block:
        return (
            f"its rows with the same {block} share a level; how each differs from it is known to the "
            f"attacker. That is the worst of {len(plan.data.beliefs)} beliefs, each for everybody: others "
            "are that all rows share one level, or that they have nothing in common"
        )
    category = ", category by category" if plan.data.secret_kind is SecretKind.CATEGORY else ""
    return (
        "its rows hold independent values; it is as exposed as the sharpest linear feature of its rows: "
        f"a row, their total, their mean or any other combination{category}"
    )


def _priced_for(plan: Plan) -> str:
    """Whose rows the sensitivities are for."""
    if plan.privacy.sensitivity == "declared":
        return (
            f"Sensitivities are declared: they hold for any record of {plan.data.max_rows_per_record:,} "
            "rows, wherever these are."
        )
    return (
        "Sensitivities are computed from the public memberships: they are those of this table's records, by "
        "how many rows each has in which group."
    )


def _made_rows(plan: Plan) -> list[str]:
    """How the rows were made before anything was published."""
    if not plan.data.sql:
        return []
    return [
        "The rows that are audited are those that [data] sql makes of the table, and its releases read them. "
        "Nothing is said of a pipeline that makes other rows, or of rows that it leaves out."
    ]


def _limits(findings: Findings) -> list[str]:
    """Which of the limits depends on the bounds."""
    plan, lines = findings.plan, []
    if plan.data.secret_kind is not SecretKind.NUMBER:
        return []
    if plan.limits.remaining_uncertainty:
        lines.append(
            "A limit that is a share depends on the bounds: it is a share of what they leave open, and the "
            "same noise leaves less of wider ones."
        )
    if plan.limits.known_to:
        lines.append(
            f"The limit of ± {number(plan.limits.known_to, 6)} hardly depends on the bounds: it is compared "
            f"with the error in {plan.data.secret} that is left, which wider bounds raise only up to that of "
            f"the best unbiased attack. It is for attackers who expect {findings.prior.values}: whoever "
            "knows a value more closely beforehand knows it so afterwards, whatever the noise."
        )
    return lines


def _knowledge(plan: Plan) -> list[str]:
    """What the plan says about the attacker's knowledge, and what the audit makes of it."""
    attacker, lines = plan.attacker, []
    if attacker.known_share:
        lines.append(
            f"Attackers know {100 * attacker.known_share:g} % of the records, drawn by a hash of their keys; "
            "the other records are judged."
        )
    if attacker.values_within is not None:
        lines.append(
            f"Attackers know every value to ± {attacker.values_within:g} beforehand. Remaining uncertainty "
            "is a share of what that leaves open. The bounds of the secret are taken not to cut it."
        )
    return lines


# Of each law what its answers count as; nothing of one that counts as itself.
OF_LAWS = {
    PublishedLaw.GAUSSIAN: "",
    PublishedLaw.LAPLACE: (
        "Laplace noise: the lower end is what the answers' Fisher information leaves, and can be half of"
        " what remains; the upper end is a linear attack's risk."
    ),
    PublishedLaw.DISCRETE_GAUSSIAN: (
        "Discrete Gaussian noise of parameter sigma counts as Gaussian noise of variance sigma² − 1 in "
        "lower ends: it tells no more, but for a probability of about one in a hundred million a number."
    ),
    PublishedLaw.GEOMETRIC: (
        "Geometric noise: of two values an answer tells no more than the Gaussian one that it counts as "
        "in lower ends; that has up to 1.6 times the information of Laplace noise, where noise is large."
        " Of whole numbers it counts as Laplace noise of its scale."
    ),
    PublishedLaw.NONE: (
        "Some numbers are exact. The lower end of a record in one is what others in the same ones hide: "
        "n that nothing tells apart keep 1 − 1/n. Errors and upper ends are at most those printed."
    ),
    PublishedLaw.ROUNDING: "",
    PublishedLaw.WITHIN: "",
    PublishedLaw.CELL_KEY: "",
}


def _about_noise(pricing: Pricing) -> list[str]:
    laws = {law: OF_LAWS[law] for law in pricing.bundle_laws}  # a law without a line is an error
    return [text for law, text in OF_LAWS.items() if text and law in laws]


def _uneven_rows(people: PersonTable) -> list[str]:
    """Gaps, and times that somebody has two rows for."""
    lines, total, most = [], sum(people.by_rows.values()), max(people.by_rows, default=0)
    if len(people.by_rows) > 1:
        fewer = total - people.by_rows[most]
        have = "has" if fewer == 1 else "have"
        lines.append(
            f"Records have {min(people.by_rows):,} to {most:,} rows: {fewer:,} of {total:,} {have} fewer "
            "than the most. A row that is missing is known to be missing."
        )
    column, times = people.repeated
    if times:
        lines.append(
            f"{counted(times, 'time')} a record has several rows with one {column!r}: an hour that the "
            "clocks repeat, or a reading that came twice. Each counts as a row with a value of its own."
        )
    return lines


def _bounded_sensitivities(findings: Findings) -> list[str]:
    """Mechanisms whose sensitivity is a bound that nobody may attain: over all places of rows, or where three
    rows of this table would have to change against each other.
    """
    plan, parts, most = findings.plan, findings.membership.partitions, findings.membership.contributions
    declared, lines = plan.privacy.sensitivity == "declared", []
    for p, strategy in findings.pricing.strategies.items():
        apart = plan.releases[parts[p].query].running.min_separation
        exact = strategy.sensitivity(plan.data.max_rows_per_record, apart).exact
        if not (exact if declared else most <= 2 or float(strategy.gram.min()) >= 0):
            over = "places" if declared else "changes"
            lines.append(
                f'The largest change of a record in "{parts[p].name}" is bounded from above, over all {over} '
                "of its rows: it costs no more than is stated, and may cost less."
            )
    return lines


def _of_whoever_might_be_there(findings: Findings) -> tuple[str, ...]:
    """What the answer rests on where there is no frame."""
    taken = findings.membership.taken_as_public
    public = f"Taken as public, since [data] public does not say: {', '.join(taken)}."
    return (
        "The attacker knows everybody else who is in the table, what anybody who might be in it would be "
        "counted in, and the noise, and sees every number. Such a person may be in every release.",
        "Without a frame nothing else is known to hide anybody: only what the noise leaves by itself counts.",
        "This is a benchmark of what is seen, not a differential-privacy guarantee; the budget is that.",
        *([public] if taken else ()),
        *how_computed(findings),
    )


def rests_on(findings: Findings) -> tuple[str, ...]:
    """What the numbers rest on, in plain words."""
    plan, membership, pricing = findings.plan, findings.membership, findings.pricing
    data_secret = plan.data.secret
    if plan.data.only_guarantee:
        return _of_whoever_might_be_there(findings)
    lines = [
        "The attacker knows who is in which group, the noise levels and the bounds, and sees every number.",
        "rmse is that of the best unbiased linear attack. Remaining uncertainty is an average over the "
        "records' possible values and the noise; its lower end holds for every attack, also biased and "
        f"constrained ones, if all unknown records have independent {findings.prior.values}. It says nothing "
        "about one person's actual value, nor about attackers who know more than that.",
        "This is a benchmark of what is seen, not a differential-privacy guarantee; the budget is that.",
    ]
    if findings.guaranteed:
        lines.append(
            "What a group has in common is knowledge about the group. The noise leaves the limit of a "
            "record's uncertainty to whoever has that knowledge already, so that whether a "
            "group is all alike is not asked."
        )
    if membership.contributions > 1 or plan.data.max_rows_per_record > 1:
        lines.append(f"A record has up to {plan.data.max_rows_per_record:,} rows, and {_values(plan)}.")
        lines.append(_priced_for(plan))
        lines += _bounded_sensitivities(findings)
        lines += _uneven_rows(membership.persons)
    if membership.taken_as_public:
        lines.append(
            f"Taken as public, since [data] public does not say: {', '.join(membership.taken_as_public)}. "
            f"What is made of {data_secret} there, and not found to be, is not protected."
        )
    lines += _made_rows(plan)
    lines += _limits(findings)
    lines += _knowledge(plan)
    if plan.data.secret_kind is not SecretKind.NUMBER:
        lines.append(
            "There are few values, so attackers can round; the lower end allows for that. It counts on "
            "records that hide each other: where the attacker knows the others, state them in [attacker] "
            "knows. Where few records share numbers, both ends may come from simulated answers over all "
            "their values, and where the limit is between both ends, the lower one from a walk through "
            "simulated worlds; the chance that one is wrong is below 1e-10 in each assessment: there is one "
            "for every question, belief and change that is tried. Other upper ends are those of the best "
            "linear attack, or of its guess rounded softly, by a proved bound."
        )
    lines += _about_noise(pricing)
    if any(release.times > 1 for release in plan.releases):
        lines.append("Copies of a release have fresh noise and the same rows; a recipe takes their mean.")
    lines += how_computed(findings)
    if any(part.weighted for part in membership.partitions):
        lines.append(
            "Weights of rows are public: a record moves a weighted sum by its weight times its change."
        )
    if findings.questions:
        lines.append(
            f"Whether {data_secret} lies above a level or in a band is also audited as a yes or no with even "
            "chances. A record that keeps less of it than the limit is below the limit."
        )
    if any(part.feature not in LINEAR | YES_OR_NO for part in membership.partitions):
        lines.append("Moments are linearised at the true values: local and owner-only.")
    return tuple(lines)
