"""The result of an audit: a frozen model with a versioned JSON form. Reading it needs no data."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from sightline.auditing.plan import AssumptionName
from sightline.auditing.plan_text import file_name
from sightline.auditing.what_if_result import WhatIf
from sightline.display import Displayed
from sightline.errors import InvalidInput, require
from sightline.format import json_text, percent_bracket

SCHEMA_VERSION = 1

# Remaining uncertainty in steps of 5 %: fine enough to draw, too coarse to single out a record.
EDGES = tuple(round(0.05 * i, 2) for i in range(21))

_NOT_FINITE = ("Infinity", "-Infinity", "NaN")
Many = Field(strict=False)  # a JSON list is a tuple here


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _infinite(cls, value: Any, info: ValidationInfo) -> Any:
        """Numbers that are not finite, from the strings that JSON has for them."""
        annotation = cls.model_fields[str(info.field_name)].annotation
        if annotation == dict[str, float] and isinstance(value, dict):
            return {key: float(one) if one in _NOT_FINITE else one for key, one in value.items()}
        numeric = annotation in (float, float | None)
        return float(value) if numeric and value in _NOT_FINITE else value


class Role(StrEnum):
    """What a release has to do with a record."""

    ABSENT = "0"  # it does not depend on the record
    PRESENT = "1"  # the record is in it
    USED = "2"  # the best unbiased attack on the record, or on its group, uses it
    NEEDED = "3"  # without it the record would not be identifiable


class Uncertainty(_Part):
    """A bracket on the share of the prior variance that the best attack leaves; 1: nothing learned.

    No attack leaves less than ``lower``, on average over the result's ``prior``.
    """

    lower: float
    upper: float

    def __str__(self) -> str:
        """In percent, rounded outwards.

        >>> str(Uncertainty(lower=0.5361, upper=0.5699))
        '53–57 %'
        """
        return percent_bracket(self.lower, self.upper)


class Step(_Part):
    """One published number and its weight in a recipe."""

    release: str
    cell: str  # the group, empty if there is only one
    publishable_cell: str | None = None  # without the keys of persons, where that differs
    weight: float
    times: int  # copies, whose mean is meant


class Recipe(_Part):
    """Weights on published numbers that give a value without bias, and the error that their noise leaves."""

    steps: Annotated[tuple[Step, ...], Many]
    constant: float
    less_known: bool = False  # whether shares of records that the attacker knows are to be subtracted, too
    text: str
    publishable_text: str | None = None  # without the keys of persons, where that differs
    rmse: float

    def publishable(self) -> Recipe:
        """The recipe without the keys of persons."""
        steps = tuple(
            step.model_copy(update={"cell": step.publishable_cell or step.cell, "publishable_cell": None})
            for step in self.steps
        )
        text = self.publishable_text or self.text
        return self.model_copy(update={"steps": steps, "text": text, "publishable_text": None})


class Exposed(_Part):
    """A record, or a group that nothing splits, of which too much is seen."""

    record: str | None  # its key, only when asked for
    signature: int
    size: int  # records that share the signature, or rows of several records: 1 is one on its own
    category: str | None  # of a categorical secret: which indicator
    identifiable: bool  # the value, or for a group the sum of its values
    local: bool  # at the operating point only: owner-only
    rmse: float | None  # of the best unbiased attack on that value or sum; none if there is no such attack
    rmse_percent_of_range: float | None
    remaining_uncertainty: Uncertainty | None  # of one record's value
    releases: Annotated[tuple[str, ...], Many]  # that the recipe uses, the heaviest first
    recipe: Recipe | None  # of the best unbiased attack
    shortest: Recipe | None  # a difference of two numbers that does it, if there is one
    feature: Literal["row", "total", "combination"] | None = None  # of a record's several rows: what is seen
    rows: int = 1  # of one such record

    def publishable(self) -> Exposed:
        """The same without the keys of persons."""
        recipes = {name: getattr(self, name) for name in ("recipe", "shortest")}
        kept = {name: None if one is None else one.publishable() for name, one in recipes.items()}
        return self.model_copy(update={"record": None, **kept})


class LocalReport(_Part):
    """What moments and thresholds show at the true values, with everything else: owner-only."""

    rows: int
    identifiable: int
    undecided: int  # rows of which the numbers do not tell
    sharpest_rmse: float | None
    fixed_group: bool  # everything is about the same rows: values are seen as a set, not whose they are
    group_rmse: float | None  # then: of all values together, matched in order
    labels_open: int | None = None  # values that are seen, and subset releases leave open whose they are
    labels_resolved: int | None = None  # and of which these releases show it
    below_limit: int  # rows of which a locally unbiased attack alone leaves less than the limit


class ReleaseReport(_Part):
    """What one release of the plan does."""

    name: str
    times: int
    outputs: int  # published numbers, for one copy
    counted: int  # releases to an accountant, all copies
    smallest_noise_stddev: float | None
    largest_noise_stddev: float | None
    noise_given: bool
    newly_exposes: int | None  # records that became identifiable when it was published, in the plan's order
    exposes_alone: int | None  # records that would not be identifiable without it
    sharpens: int | None  # records whose error would be larger by 1 % or more without it
    copy_of: str | None
    note: str


class BudgetReport(_Part):
    """What the noise costs, under every accountant side by side."""

    accountant: str | None
    epsilon: float | None  # the plan's, in each period; none if periods have different ones
    delta: float
    delta_given: bool
    releases: int  # L: copies of partitions, all of them
    sharing: int  # of those, the ones that share the plan's budget
    noise_multiplier: float | None  # noise over sensitivity, for those
    spent: dict[str, float]  # epsilon at delta that the noise amounts to, an upper bound for each accountant
    would_need: dict[str, float]  # noise multiplier that each accountant would ask for the plan's budget
    proven: bool  # that the noise keeps to the plan's budget
    note: str
    periods: int = 1  # how often the plan grants its budget
    total_epsilon: float | None = None  # of everything, where the plan's epsilon is that of a part
    total_accountant: str | None = None  # by whose rule


class Distribution(_Part):
    """How many records keep how much: a histogram of the lower end of their remaining uncertainty."""

    edges: Annotated[tuple[float, ...], Many]
    records: Annotated[tuple[int, ...], Many]


class Stage(_Part):
    """The exposure once a release and those before it are published, with the plan's noise."""

    release: str  # the last one published
    published: int  # how many of the plan's releases
    identifiable_records: int
    newly_identifiable: int
    opened: Annotated[tuple[int, ...], Many]  # signatures of those records, the first few
    least_remaining_uncertainty: Uncertainty | None  # none if nothing linear in the secret is published yet
    below_limit: int


class MapColumn(_Part):
    """What the releases have to do with one signature."""

    signature: int
    size: int
    category: str | None
    identifiable: bool  # the value, or for a group the sum of its values
    remaining_uncertainty: Uncertainty
    roles: str  # a character of ``Role`` for each release of the plan, in its order


class LossPoint(_Part):
    """Records with about the same privacy loss of their own, and about the same exposure."""

    epsilon: float  # that the releases with those records in them cost, at the budget's delta
    remaining_uncertainty: Uncertainty
    identifiable: bool
    records: int


class Alternative(_Part):
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


class Verdict(_Part):
    """The answer in a few sentences, and whether the limit holds."""

    passed: bool | None  # none if no limit was set
    status: Annotated[VerdictStatus | None, Many] = None  # none if no limit was set
    limit: float | None
    below_limit: int  # records of which the linear releases, or a local attack, may leave less than the limit
    text: str


class Unverified(_Part):
    """An assumption that a pass needs and that does not hold, or that the audit cannot verify."""

    name: Annotated[AssumptionName, Many]
    count: int  # of rows, releases or records that it is about
    reason: str
    accepted: bool  # by the plan, by name
    owner_only: bool


class QuestionReport(_Part):
    """A yes-or-no question about a number that the plan publishes, audited as a secret of its own."""

    text: str  # as SQL
    identifiable_records: int  # whose answer can be told apart from everything else
    least_remaining_uncertainty: Uncertainty | None
    below_limit: int


class HomogeneousCell(_Part):
    """A published number whose true answer tells the values of its rows. Owner-only."""

    release: str
    cell: str
    rows: int  # unknown rows in it
    remaining: float  # the share of a row's prior variance that the attack below leaves, at the true values
    text: str


class ChangeKind(StrEnum):
    """What a change does."""

    DROP = "drop"  # leave a release out
    MERGE = "merge"  # publish one of two releases or numbers
    COARSEN = "coarsen"  # merge a group with another one
    NOISE = "noise"  # multiply all noise
    DESIGN = "design"  # change the noise of some numbers


class Change(_Part):
    """One thing to change, and what it would do."""

    kind: Annotated[ChangeKind, Many]
    release: str | None
    noise_factor: float | None
    epsilon: float | None
    variance_factor: float | None = None  # the total variance of the noise after the change, over today's
    text: str
    publishable_text: str | None = None  # without the keys of persons, where that differs

    def publishable(self) -> Change:
        """The same without the keys of persons."""
        text = self.publishable_text or self.text
        return self.model_copy(update={"text": text, "publishable_text": None})


class AuditResult(Displayed, _Part):
    """Who is exposed by a plan, how sharply, through what; and what to change.

    Everything but what ``owner_only`` lists depends on the queries, the groups and the noise, on no secret.
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
    rank: int
    identifiable_records: int  # with several rows a record: those with an identifiable feature of their rows
    identifiable_groups: int  # of several records, by their sum
    least_remaining_uncertainty: Uncertainty | None
    exposed: Annotated[tuple[Exposed, ...], Many]
    exposed_in_all: int
    releases: Annotated[tuple[ReleaseReport, ...], Many]
    budget: BudgetReport
    distribution: Distribution
    local: LocalReport | None  # none if everything is linear in the secret
    guaranteed_by_noise: float | None  # what everyone keeps, even if all others are known: the budget alone
    timeline: Annotated[tuple[Stage, ...], Many]  # empty if it would take too long
    release_map: Annotated[tuple[MapColumn, ...], Many]  # the most exposed signatures, worst first
    losses: Annotated[tuple[LossPoint, ...], Many]
    alternatives: Annotated[tuple[Alternative, ...], Many]  # empty without a budget, or if it takes too long
    verdict: Verdict
    publishable_verdict: Verdict | None  # without what is owner-only, if that says something else
    what_to_change: Annotated[tuple[Change, ...], Many]
    assumptions: Annotated[tuple[str, ...], Many]
    owner_only: Annotated[tuple[str, ...], Many]
    relative_error: float  # a bound for the errors of unbiased attacks and the upper ends
    plan: str  # in TOML, as it was audited; without passwords
    version: str  # of Sightline
    publishable_plan: str | None = None  # the plan without folders and what the attacker knows
    prior: str = ""  # what remaining uncertainty is an average over, in words; older results do not say
    category_count: int | None = None  # how many values a categorical secret can have
    unverified: Annotated[tuple[Unverified, ...], Many] = ()
    questions: Annotated[tuple[QuestionReport, ...], Many] = ()  # worst first
    least_about: str | None = None  # the question that least_remaining_uncertainty is about; none: the secret
    homogeneous: Annotated[tuple[HomogeneousCell, ...] | None, Many] = ()  # none in a publishable result
    what_if: WhatIf | None = None  # owner-only; none unless it was asked for

    @property
    def unit(self) -> str:
        """What shares a signature: records, or rows where records have several."""
        return "row" if self.rows > self.records else "record"

    def publishable(self) -> AuditResult:
        """The result without what is for the owner only: keys, folders, and what depends on the secrets."""
        exposed = tuple(one.publishable() for one in self.exposed if not one.local)
        changes = {one.text: one for one in (change.publishable() for change in self.what_to_change)}
        local = 0 if self.local is None else self.local.identifiable
        update: dict[str, Any] = {
            **dict.fromkeys(name for name in self.owner_only if name in type(self).model_fields),
            "exposed": exposed,
            "exposed_in_all": self.exposed_in_all - local,
            "what_to_change": tuple(changes.values()),
            "verdict": self.publishable_verdict or self.verdict,
            "publishable_verdict": None,
            "unverified": tuple(one for one in self.unverified if not one.owner_only),
            "owner_only": (),
            "source": file_name(self.source),
            "plan": (self.publishable_plan or "") if self.owner_only else self.plan,
            "publishable_plan": None,
        }
        return self.model_copy(update=update)

    def to_json(self, *, indent: int | None = 2) -> str:
        """The JSON form; an infinite number is the string "Infinity". :meth:`from_json` reads it back."""
        return json_text(self.model_dump(mode="json"), indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> AuditResult:
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
            raise InvalidInput(f"expected an audit result, got {where}: {first['msg']}") from None
