"""The result of an audit: a frozen model with a versioned JSON form. Reading it needs no data."""

# Annotations are no texts here: Pydantic would compile each of them when an audit starts.

import json
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, Literal, Self

from pydantic import ValidationError

from sightline.auditing.plan import AssumptionName
from sightline.auditing.plan_sections import AssumptionNames
from sightline.auditing.reading import file_name
from sightline.auditing.result_parts import CertainReport as CertainReport
from sightline.auditing.result_parts import Explained as Explained
from sightline.auditing.result_parts import Exposed as Exposed
from sightline.auditing.result_parts import Fact as Fact
from sightline.auditing.result_parts import LinearAttack as LinearAttack
from sightline.auditing.result_parts import Many, NoiseOfRange, ResultPart, WhatIf
from sightline.auditing.result_parts import NoiseSlack as NoiseSlack
from sightline.auditing.result_parts import Recipe as Recipe
from sightline.auditing.result_parts import ReleaseAccuracy as ReleaseAccuracy
from sightline.auditing.result_parts import RulesReport as RulesReport
from sightline.auditing.result_parts import SeenTogether as SeenTogether
from sightline.auditing.result_parts import SharpestView as SharpestView
from sightline.auditing.result_parts import SinceLast as SinceLast
from sightline.auditing.result_parts import Step as Step
from sightline.auditing.result_parts import TotalView as TotalView
from sightline.auditing.result_parts import TrueTotals as TrueTotals
from sightline.auditing.result_parts import Uncertainty as Uncertainty
from sightline.display import Displayed, Shown
from sightline.errors import InvalidInput, MissingExtra, require
from sightline.format import count, json_text, number, percent_stated
from sightline.privacy.registry import ACCOUNTANTS
from sightline.tables.subject import SecretKind
from sightline.values import frozen, short_repr

SCHEMA_VERSION = 2
NOT_ALL = "Not everything was computed"  # how more_to_change begins where sections were left out

# Remaining uncertainty in steps of 5 %: fine enough to draw, too coarse to single out a record.
EDGES = tuple(round(0.05 * i, 2) for i in range(21))


class LocalReport(ResultPart):
    """What moments and thresholds show at the true values, with everything else: owner-only."""

    rows: int
    identifiable: int
    undecided: int  # rows of which the numbers do not tell
    sharpest_rmse: float | None
    fixed_group: bool  # everything is about the same rows: values are seen as a set, not whose they are
    group_rmse: float | None  # then: of all values together, matched in order
    below_limit: int  # rows of which a locally unbiased attack alone leaves less than the limit


class ReleaseReport(ResultPart):
    """What one release of the plan does."""

    name: str
    times: int
    outputs: int  # published numbers, for one copy
    counted: int  # releases to an accountant, all copies
    smallest_noise_stddev: float | None
    largest_noise_stddev: float | None
    smallest_fit_stddev: float | None = (
        None  # of the fit, if the plan publishes it, and not too many hang together
    )
    largest_fit_stddev: float | None = None
    noise_given: bool
    noise_of_range: NoiseOfRange | None = None  # none if it publishes no number that depends on a secret
    newly_exposes: int | None  # records that became identifiable when it was published, in the plan's order
    exposes_alone: int | None  # records that would not be identifiable without it
    fact: Fact | None = None  # why nobody is counted for it; none if they are
    note: str = ""
    accuracy: ReleaseAccuracy | None = None  # owner-only


class BudgetReport(ResultPart):
    """What the noise costs, under every accountant side by side."""

    accountant: str | None
    epsilon: float | None  # the plan's
    delta: float
    delta_given: bool
    releases: int  # L: copies of partitions, all of them
    sharing: int  # of those, the ones that share the plan's budget
    noise_multiplier: float | None  # noise over sensitivity, for those
    spent: dict[str, float]  # epsilon at delta that the noise amounts to, an upper bound for each accountant
    would_need: dict[str, float]  # noise multiplier that each accountant would ask for the plan's budget
    proven: bool  # that the noise keeps to the plan's budget
    facts: Annotated[tuple[Fact, ...], Many] = ()  # why, or why not
    note: str = ""
    total_epsilon: float | None = None  # of everything, where the plan's epsilon is that of a part
    total_accountant: str | None = None  # by whose rule
    # Whether costs are those of every conceivable person; else of the kinds of people in this table alone, as
    # "per-record" always is.
    everyone: bool = True

    @property
    def least_spent(self) -> float | None:
        """What the noise costs those whom the budget is for, by the accountant that says the least."""
        own = {name for name, entry in ACCOUNTANTS.items() if entry.own_releases and self.everyone}
        return min((cost for name, cost in self.spent.items() if name not in own), default=None)


class Distribution(ResultPart):
    """How many records keep how much: a histogram of the lower end of their remaining uncertainty."""

    edges: Annotated[tuple[float, ...], Many]
    records: Annotated[tuple[int, ...], Many]


class Stage(ResultPart):
    """The exposure once a release and those before it are published, with the plan's noise."""

    release: str  # the last one published
    published: int  # how many of the plan's releases
    identifiable_records: int
    newly_identifiable: int
    opened: Annotated[tuple[int, ...], Many]  # signatures of those records, the first few
    least_remaining_uncertainty: Uncertainty | None  # none if nothing linear in the secret is published yet
    below_limit: int


class Alternative(ResultPart):
    """The plan with the noise that an accountant asks for the plan's budget."""

    accountant: str
    noise_multiplier: float  # noise over sensitivity
    proven: bool  # that this noise keeps to the budget
    sharpest_rmse: float | None  # of the best unbiased attack on one record; none if nobody is identifiable
    least_remaining_uncertainty: Uncertainty
    below_limit: int


class VerdictStatus(StrEnum):
    """Whether a limit holds."""

    PASSED = "passed"  # shown to hold, under the assumptions that the plan accepts
    FAILED = "failed"  # somebody may keep less
    NOT_SHOWN = "not shown"  # nobody is known to keep less, but the proof needs what was not verified


class Verdict(ResultPart):
    """The answer in a few sentences, and whether the limit holds."""

    passed: bool | None  # none if no limit was set
    status: Annotated[VerdictStatus | None, Many] = None  # none if no limit was set
    limit: float | None  # the share of the variance that must remain
    known_to: float | None = None  # the same as ±, in the secret's unit, if the plan states it so
    guessed_right: float | None = None  # the same as how often a guess may be right, if it is stated so
    set_by: str = ""  # who set the limit, if the plan says so
    below_limit: int  # records of which the linear releases, or a local attack, may leave less than the limit
    attacked: int = 0  # of these, records of which some attack leaves less; of the others it is not shown
    judged: int = 0  # records whose secret the attacker does not know: the verdict is about them
    guaranteed: bool = False  # by the noise alone, whatever the attacker knows
    accepts_groups: bool = False  # whether a pass accepts what numbers tell of all their rows together
    facts: Annotated[tuple[Fact, ...], Many] = ()  # in the order in which the text says them
    text: str = ""

    @property
    def waits_for_a_person(self) -> bool:
        """Whether somebody has yet to decide: what is told of groups is accepted, and by nobody's name."""
        return self.accepts_groups and not self.set_by

    @property
    def limit_text(self) -> str:
        """The limit in few words, in the unit in which the plan states it; "none" without one."""
        if self.limit is None:
            return "none"
        if self.guessed_right is not None:
            return f"{percent_stated(self.guessed_right)} guessed right"
        return percent_stated(self.limit) if self.known_to is None else f"± {number(self.known_to, 6)}"


class Unverified(ResultPart):
    """An assumption that a pass needs and that does not hold, or that the audit cannot verify."""

    name: Annotated[AssumptionName, Many]
    count: int  # of rows, releases or records that it is about
    fact: Fact | None = None  # which case of it; older results do not say
    reason: str = ""
    accepted: bool  # by the plan, by name
    owner_only: bool

    def publishable(self) -> Self:
        """The same to readers: what is accepted of the true values is for the owner, who knows them."""
        accepted = self.accepted and self.name is not AssumptionName.LOCAL
        return self.model_copy(update={"accepted": accepted})


class QuestionReport(ResultPart):
    """A yes-or-no question about a number that the plan publishes, audited as a secret of its own."""

    text: str  # as SQL
    identifiable_records: int  # whose answer can be told apart from everything else
    least_remaining_uncertainty: Uncertainty | None
    below_limit: int


class BeliefReport(ResultPart):
    """What is seen if an attacker takes the rows of a record to be apart, or to share levels."""

    name: Literal["apart", "level", "block"]
    holds: bool | None  # whether nobody may keep less than the limit; none without one
    below_limit: int
    least_remaining_uncertainty: Uncertainty | None
    total: TotalView | None = None  # of the record that keeps least, where rows share a level
    level: Annotated[tuple[float, float] | None, Many] = None  # where the level may lie
    block: str | None = None  # the column whose values say which rows share a level


class AllSecrets(ResultPart):
    """What a plan about several secrets costs in all, and how the result is to be read."""

    epsilon: float  # an upper bound: the sum over the secrets
    delta: float  # likewise
    text: str


class HomogeneousCell(ResultPart):
    """A published number whose true answer tells the values of its rows. Owner-only."""

    release: str
    cell: str
    rows: int  # unknown rows in it
    remaining: float  # the share of a row's prior variance that the attack below leaves, at the true values
    which: Fact | None = None  # numbers tell it
    why: Fact | None = None  # values are told
    text: str = ""


class ChangeKind(StrEnum):
    """What a change does."""

    DROP = "drop"  # leave a release out
    NOISE = "noise"  # multiply all noise
    DESIGN = "design"  # change the noise of some numbers
    MERGE = "merge"  # publish the smallest groups as one
    SELDOM = "seldom"  # publish less often: by week in place of by day
    COARSER = "coarser"  # group by something coarser
    BLANK = "blank"  # withhold some counts
    ROUND = "round"  # round counts to a larger base


class Change(ResultPart):
    """One thing to change, and what it would do."""

    kind: Annotated[ChangeKind, Many]
    release: str | None = None
    noise_factor: float | None = None
    epsilon: float | None = None
    variance_factor: float | None = None  # of the noise after the change over today's, on average
    reaches_limit: bool = False  # whether the audit found nobody below the limit after it
    what: Fact | None = None  # to do
    publishable_what: Fact | None = None  # without keys of persons and names of small groups, if it differs
    then: Fact | None = None  # what the audit after it found
    price: Fact | None = None  # in the accuracy of the numbers that are published then
    why_untried: Fact | None = None  # of what was not audited: why; none if it was
    design_finds_less: bool = False  # noise than this: the plan is too large to look for it in an audit
    text: str = ""
    effect: str = ""  # what the audit after it found: the end of the text
    cost: str = ""  # in accuracy, in words
    publishable_text: str | None = None  # without keys and names of small groups, if it differs

    @property
    def action(self) -> str:
        """What to do, without its effect."""
        return self.text.removesuffix(self.effect).rstrip(":; ")


def _without_keys(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """The changes without keys of persons and names of small groups; those then the same are listed once."""
    return tuple({one.text: one for one in (change.publishable() for change in changes)}.values())


class AuditResult(Displayed, ResultPart):
    """Who is exposed by a plan, how sharply, through what; and what to change.

    Everything but what ``owner_only`` lists depends on the queries, the groups and the noise, on no secret.
    A result is a plain value with the sections that were asked for: ``not_computed`` names the others, which
    are empty. ``sightline.audit(plan, full=True)`` computes all of them, and an open audit
    (``sightline.open_audit``) any of them when it is asked.
    """

    schema_version: int
    source: str
    record: str
    secret: str
    kind: str
    bounds: Annotated[tuple[float, float], Many]
    rows: int
    records: int
    known_rows: int
    dropped: int | None  # none in a publishable result
    clipped: int | None
    cells: int
    signatures: int
    rank: int | None = None  # of the published numbers; none if it was not asked for
    identifiable_records: int  # with several rows a record: those with an identifiable feature of their rows
    identifiable_groups: int  # of several records, by their sum
    least_remaining_uncertainty: Uncertainty | None
    exposed: Annotated[tuple[Exposed, ...], Many]
    exposed_in_all: int
    releases: Annotated[tuple[ReleaseReport, ...], Many]
    budget: BudgetReport
    distribution: Distribution
    local: LocalReport | None  # none if everything is linear in the secret
    taken_as_public: Annotated[tuple[str, ...], Many] = ()  # columns, if the plan does not declare what is
    explained: Explained | None = None  # what such columns tell beforehand, if they do; owner-only
    looks_odd: Annotated[tuple[str, ...] | None, Many] = ()  # declared, and unlike the table; owner-only
    guaranteed_by_noise: float | None  # what everyone keeps, even if all others are known: the budget alone
    timeline: Annotated[tuple[Stage, ...], Many] = ()  # empty if it would take too long
    alternatives: Annotated[tuple[Alternative, ...], Many] = ()  # none without a budget, nor if too long
    verdict: Verdict
    publishable_verdict: Verdict | None  # without what is owner-only, if that says something else
    what_to_change: Annotated[tuple[Change, ...], Many] = ()
    not_computed: Annotated[tuple[str, ...], Many] = ()  # sections that were not asked for
    tried: Annotated[tuple[Change, ...], Many] = ()  # that are not enough, and why others were not tried
    more_to_change: str = ""  # why sections were left out, if some were
    assumptions: Annotated[tuple[str, ...], Many]
    owner_only: Annotated[tuple[str, ...], Many]
    relative_error: float  # a bound for the errors of unbiased attacks and the upper ends
    plan: str  # in TOML, as it was audited; without passwords
    version: str  # of Sightline
    publishable_plan: str | None = None  # the plan without folders and what the attacker knows
    sharpest: SharpestView | None = None  # none if nothing that is published shows a value
    slack: NoiseSlack | None = None  # none without a limit, or if noise does not decide it
    prior: str = ""  # what remaining uncertainty is an average over, in words; older results do not say
    category_count: int | None = None  # how many values a categorical secret can have
    unverified: Annotated[tuple[Unverified, ...], Many] = ()
    questions: Annotated[tuple[QuestionReport, ...], Many] = ()  # worst first
    least_about: str | None = None  # the question that least_remaining_uncertainty is about; none: the secret
    homogeneous: Annotated[tuple[HomogeneousCell, ...] | None, Many] = ()  # none in a publishable result
    what_if: WhatIf | None = None  # owner-only; none unless it was asked for
    no_what_if: str | None = None  # why there is none, if it was asked for
    beliefs: Annotated[tuple[BeliefReport, ...], Many] = ()  # worst first; none where there is one
    all_secrets: AllSecrets | None = None  # none if the plan has one secret
    other_secrets: Annotated[
        tuple["AuditResult", ...], Many
    ] = ()  # the results of secrets that fare no worse
    plan_name: str = ""  # of its file; empty where the plan is none
    table_digest: str | None = None  # owner-only: of the table's file, if it is one
    rules: RulesReport | None = None  # none if the plan has no rules
    frame: str = ""  # of presence, the table of everybody who might be there
    accepts: AssumptionNames = ()  # that the plan accepts, needed or not
    declared_public: Annotated[tuple[str, ...], Many] = ()  # columns that the plan says everybody knows
    presence: bool = False  # whether being in the table is the secret; else that is taken to be public
    true_totals: TrueTotals | None = None  # owner-only; none where no total is shown
    certain: CertainReport | None = None  # owner-only; none where no exact or rounded count is published
    so_nobody_is_certain: Annotated[
        tuple[Change, ...] | None, Many
    ] = ()  # owner-only: blanks, a coarser base
    since: SinceLast | None = None  # what changed since another audit, if it is compared with one

    def __repr__(self) -> str:
        """One line: the verdict, and what the most exposed record keeps."""
        status = "no limit" if self.verdict.status is None else self.verdict.status.value
        status = "accepted, not shown" if self.verdict.accepts_groups else status
        least = self.least_remaining_uncertainty
        kept = "" if least is None else f", somebody keeps {least.lower:.4g} to {least.upper:.4g}"
        return f"<AuditResult of {self.source!r}: {status}, {count(self.records, 'record')}{kept}>"

    __str__ = __repr__

    def to_frame(self) -> Any:
        """The exposed as a data frame of pandas, or of Polars where pandas is not installed.

        A row for each of :attr:`exposed`: who, how many share the signature, whether the value is
        identifiable, the error of the best unbiased attack, both ends of the remaining uncertainty, how
        often a guess at one of few values is right before and at most after, and the recipe.
        """
        least = [one.remaining_uncertainty for one in self.exposed]
        recipes = [one.shortest or one.recipe for one in self.exposed]
        columns: dict[str, list[Any]] = {
            "record": [one.record for one in self.exposed],
            "label": [one.label for one in self.exposed],
            "category": [one.category for one in self.exposed],
            "size": [one.size for one in self.exposed],
            "identifiable": [one.identifiable for one in self.exposed],
            "rmse": [one.rmse for one in self.exposed],
            "remaining_lower": [None if one is None else one.lower for one in least],
            "remaining_upper": [None if one is None else one.upper for one in least],
            "right_before": [one.right_before for one in self.exposed],
            "right_after": [one.right_after for one in self.exposed],
            "recipe": [None if one is None else one.text for one in recipes],
        }
        for name in ("pandas", "polars"):
            if find_spec(name) is not None:
                return import_module(name).DataFrame(columns)
        raise MissingExtra("a data frame needs pandas or polars; pip install pandas")

    @property
    def reaching(self) -> tuple[Change, ...]:
        """The changes after which the audit finds that everyone keeps the limit."""
        return tuple(change for change in self.what_to_change if change.reaches_limit)

    @property
    def secret_kind(self) -> SecretKind:
        """What kind of value the secret is."""
        return SecretKind(self.kind)

    @property
    def cut_short(self) -> str:
        """Why sections were left out, as a sentence; nothing if all that were asked for are there."""
        return self.more_to_change if self.more_to_change.startswith(NOT_ALL) else ""

    @property
    def unit(self) -> str:
        """What shares a signature: records, or rows where records have several."""
        return "row" if self.rows > self.records else "record"

    def publishable(self) -> Self:
        """The result without what is for the owner only: keys, folders, and what depends on the secrets."""
        local = 0 if self.local is None else self.local.identifiable
        hidden = dict.fromkeys(name for name in self.owner_only if name in type(self).model_fields)
        shown: dict[str, Any] = {
            **hidden,
            "exposed": tuple(one.publishable() for one in self.exposed if not one.local),
            "exposed_in_all": self.exposed_in_all - local,
            "verdict": self.publishable_verdict or self.verdict,
            "publishable_verdict": None,
            "unverified": tuple(one.publishable() for one in self.unverified if not one.owner_only),
            "owner_only": (),
            "other_secrets": tuple(one.publishable() for one in self.other_secrets),
            "rules": None if self.rules is None else self.rules.publishable(),
            "since": None if self.since is None else self.since.publishable(),
            "tried": _without_keys(self.tried),
            "source": file_name(self.source),
            "plan": (self.publishable_plan or "") if self.owner_only else self.plan,
            "publishable_plan": None,
            "releases": tuple(one.model_copy(update={"accuracy": None}) for one in self.releases),
            "what_to_change": _without_keys(self.what_to_change),
        }
        return self.model_copy(update=shown)

    def to_json(self, *, indent: int | None = 2) -> str:
        """The JSON form; an infinite number is the string "Infinity". :meth:`from_json` reads it back."""
        return json_text(self.model_dump(mode="json"), indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a result back; one of a newer Sightline is refused."""
        try:
            content: Any = json.loads(text)
        except (ValueError, RecursionError):
            raise InvalidInput("expected an audit result in JSON, got something else") from None
        require(isinstance(content, dict), "an audit result in JSON", got=type(content).__name__)
        version = content.get("schema_version")
        require(
            version == SCHEMA_VERSION,
            f"an audit result of version {SCHEMA_VERSION}",
            got=repr(version)[:40],
            fix="read it with the Sightline that wrote it, or a newer one",
        )
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            where = "".join(one if one.isprintable() else "?" for one in where[:200])
            raise InvalidInput(f"expected an audit result, got {where}: {first['msg']}") from None


@frozen(eq=True)
class Explanation(Shown):
    """What is seen of one record's rows together, and of each row, with the recipes. Owner-only.

    A notebook shows the steps that ``sightline explain`` prints.
    """

    record: str
    exposed: tuple[Exposed, ...]
    result: AuditResult
    certain: CertainReport | None = None  # whether their values follow from the published counts
    other_secrets: tuple["Explanation", ...] = ()  # of a plan about several secrets

    __repr__ = short_repr
