"""The parts of a result: brackets on what remains, attacks, the first screen, the settings of the what-if.

Every part is a frozen model. Reading one back accepts no field that it does not know.
"""

# Annotations are no texts here: Pydantic would compile each of them when an audit starts.

import math
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, computed_field, model_validator

from sightline.format import percent_at_least, percent_at_most, percent_bracket

_NOT_FINITE = ("Infinity", "-Infinity", "NaN")
Many = Field(strict=False)  # a JSON list is a tuple here, and a text a member of an enum


class ResultPart(BaseModel):
    """A frozen part of a result. Reading one back accepts no field that it does not know."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _infinite(cls, content: Any) -> Any:
        """Numbers that are not finite, from the strings that JSON has for them."""
        if not isinstance(content, dict):
            return content
        numbers: dict[str, Any] = {}
        for name, value in content.items():
            if isinstance(value, str) and value in _NOT_FINITE and cls._is(name, float, float | None):
                numbers[name] = float(value)
            elif isinstance(value, dict) and cls._is(name, dict[str, float]):
                numbers[name] = {key: float(one) if one in _NOT_FINITE else one for key, one in value.items()}
        return content | numbers if numbers else content

    @classmethod
    def _is(cls, name: str, *annotations: Any) -> bool:
        field = cls.model_fields.get(name)
        return field is not None and field.annotation in annotations

    def publishable(self) -> Self:
        """The same without the keys of persons, and all parts likewise.

        A text or a fact with keys stands beside its form without them: ``text`` beside ``publishable_text``,
        which is none where they are the same.
        """
        shown: dict[str, Any] = {}
        for name in type(self).model_fields:
            value, plain = getattr(self, name), name.removeprefix("publishable_")
            if plain != name:
                shown |= {plain: value or getattr(self, plain), name: None}
            elif isinstance(value, ResultPart):
                shown[name] = value.publishable()
            elif isinstance(value, tuple):
                shown[name] = tuple(
                    one.publishable() if isinstance(one, ResultPart) else one for one in value
                )
        return self.model_copy(update=shown)


Figure = bool | int | float | str


class Fact(ResultPart):
    """One thing that an audit says, as a name and its figures. The room ``report`` has the words.

    Names are those of the enums beside whatever finds the fact; ``parts`` are facts that its sentence holds.
    """

    name: str
    figures: dict[str, Figure] = Field(default_factory=dict)
    parts: Annotated[tuple["Fact", ...], Many] = ()

    def __hash__(self) -> int:
        return hash((self.name, *sorted(self.figures), self.parts))


def fact(name: StrEnum, *parts: Fact, **figures: Figure) -> Fact:
    """A fact of some figures: what they are depends on its name, and its words ask for each of them."""
    return Fact.model_construct(name=name.value, figures=figures, parts=parts)


class Uncertainty(ResultPart):
    """A bracket on the share of the prior variance that the best attack leaves; 1: nothing learned.

    No attack leaves less than ``lower``, on average over the result's ``prior``. Limits are shares of the
    variance. The same bracket as a share of the standard deviation is the square root of both ends: that is
    the share of the error bar.
    """

    lower: float
    upper: float

    @model_validator(mode="before")
    @classmethod
    def _recompute(cls, content: Any) -> Any:
        """The shares of the standard deviation follow from the others, whatever a file says they are."""
        if not isinstance(content, dict):
            return content
        return {key: value for key, value in content.items() if key not in cls.model_computed_fields}

    @computed_field  # type: ignore[prop-decorator]
    @property
    def stddev_lower(self) -> float:
        """The lower end as a share of the prior standard deviation."""
        return math.sqrt(max(self.lower, 0.0))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def stddev_upper(self) -> float:
        """The upper end as a share of the prior standard deviation."""
        return math.sqrt(max(self.upper, 0.0))

    @property
    def of_stddev(self) -> str:
        """The share of the standard deviation in percent, rounded outwards.

        >>> Uncertainty(lower=0.25, upper=0.36).of_stddev
        '50–60 %'
        """
        return percent_bracket(self.stddev_lower, self.stddev_upper)

    @property
    def ends(self) -> tuple[str, str]:
        """Both ends in percent of the variance, rounded outwards.

        >>> Uncertainty(lower=0.5361, upper=0.5699).ends, Uncertainty(lower=1e-9, upper=3e-9).ends
        (('53 %', '57 %'), ('0 %', '0.01 %'))
        """
        least = 1e-4
        lower = percent_at_least(self.lower if self.lower >= least else 0.0)
        return lower, percent_at_most(max(self.upper, least))

    def __str__(self) -> str:
        """The share of the variance in percent, rounded outwards.

        >>> str(Uncertainty(lower=0.5361, upper=0.5699))
        '53–57 %'
        """
        return percent_bracket(self.lower, self.upper)


# A sum over more records than this is what publishing is for; it is not listed as exposed.
SMALL_GROUP = 5
TOP = 20  # entries of a list that somebody reads, unless another number is asked for
MOST_LISTED = 100  # entries of a list that a program reads, too
NAMED = 4  # things that one sentence names
FIRST = 5  # of the most exposed: they are on the first screen, and their periods are looked at
FEW = 3  # entries of a list of which the rest is told when somebody asks


class Step(ResultPart):
    """One published number and its weight in a recipe."""

    release: str
    cell: str  # the group, empty if there is only one
    publishable_cell: str | None = None  # without the keys of persons, where that differs
    weight: float
    times: int  # copies, whose mean is meant
    before: str = ""  # what the release computes with it, as SQL: the weight is for the number before that


class Recipe(ResultPart):
    """Weights on published numbers that give a value without bias, and the error that their noise leaves."""

    steps: Annotated[tuple[Step, ...], Many]
    more_steps: int = 0  # of a recipe of many numbers: those not listed, which carry 0.1 % of the variance
    constant: float
    less_known: bool = False  # whether shares of records that the attacker knows are to be subtracted, too
    text: str
    publishable_text: str | None = None  # without the keys of persons, where that differs
    rmse: float


class SeenTogether(ResultPart):
    """Other records without which this one is not seen: the sum of all their values is known more sharply."""

    others: int  # records, or rows where records have several
    records: Annotated[tuple[str, ...], Many] = ()  # their keys, only when asked for
    stddev: float  # to which the best linear attack knows the sum, on average over the prior and the noise

    def publishable(self) -> Self:
        """The same without the keys of persons."""
        return self.model_copy(update={"records": ()})


class LinearAttack(ResultPart):
    r"""The best linear attack on a value under the prior, folded to the numbers that carry nearly all of it.

    With risk :math:`\rho` as a share of the prior variance, an attack has the information
    :math:`1/\rho - 1`. ``share`` is the information of the attack on the numbers of ``steps`` alone over that
    of the attack on all ``numbers``. The indicators of a category count as independent here.
    """

    steps: Annotated[tuple[Step, ...], Many]  # the heaviest first
    share: float
    few: Annotated[tuple[Step, ...], Many] = ()  # the heaviest of the fewest numbers that carry 90 %
    few_numbers: int = 0  # how many these are; not known if they are more than a hundred, or share noise
    few_share: float = 0.0  # and what they carry
    numbers: int  # published numbers that the attack may use
    target: Literal["value", "total"] = "value"  # the total of a record's several rows
    together: SeenTogether | None
    text: str
    publishable_text: str | None = None  # without the keys of persons, where that differs


class LeftBySums(ResultPart):
    """All numbers of a release, or of a group, less all of another: so few people add to the difference."""

    added: str  # a release, or one of its groups: never one that a key names
    subtracted: str = ""  # nothing, if one sum says it
    numbers: Annotated[tuple[int, int], Many]  # that they are made of
    means: bool = False  # whether some of these are means: each times the size of its group
    people: int  # who add to it, all of them as much
    stddev: float  # of the noise: their sum is known to so much


class TotalView(ResultPart):
    r"""What is known of the total of a record's r rows, which share a level, in the secret's own units.

    How each row differs from the level is known. Before the releases the total is known to :math:`r s`, if
    the level is known to s.
    """

    rows: int
    before: float
    after_lower: float
    after_upper: float
    span: Annotated[tuple[str, str, str] | None, Many] = None  # a column, the first and last of its values

    def publishable(self) -> Self:
        """The same without the values of public columns, which may be those of few."""
        return self.model_copy(update={"span": None})


class TrueTotals(ResultPart):
    """The totals of records' rows at the true values. Owner-only."""

    least: float
    most: float
    spread: float  # the standard deviation over all records
    record: str | None = None  # the most exposed, only when asked for
    total: float | None = None  # and theirs


class NamedFeature(ResultPart):
    """A feature of a record's several rows that has a name: its part of a published number, all rows, one."""

    kind: Literal["period", "total", "row"]
    name: str  # of the number, for a period
    publishable_name: str | None = None  # without the keys of persons, where that differs
    rows: int  # that it is the sum of
    remaining_uncertainty: Uncertainty
    recipe: Recipe | None = None  # one number, or the difference of two, that is this feature


class Exposed(ResultPart):
    """A record, or a group that nothing splits, of which too much is seen."""

    record: str | None = None  # its key, only when asked for
    signature: int
    size: int  # records that share the signature, or rows of several records: 1 is one on its own
    label: str = ""  # the public attributes of the signature; in a publishable result only of a large one
    category: str | None = None  # of a categorical secret: which indicator
    identifiable: bool  # the value, or for a group the sum of its values
    local: bool = False  # at the operating point only: owner-only
    rmse: float | None  # of the best unbiased linear attack on that value or sum; none without one
    rmse_percent_of_range: float | None
    remaining_uncertainty: Uncertainty | None = None  # of one record's value
    right_before: float | None = None  # of a yes or no, or of a category: how often the best guess is right
    right_after: float | None = None  # and with the releases, at most; of a category: at which of all it is
    lower_by: str = ""  # which proof gives its lower end: docs/theory/labeled.md lists them
    upper_by: str = "linear"  # whose risk its upper end is: linear, rounded or posterior
    releases: Annotated[tuple[str, ...], Many] = ()  # that the recipe uses, the heaviest first
    recipe: Recipe | None = None  # of the best unbiased attack
    shortest: Recipe | None = None  # a difference of two numbers that does it, if there is one
    attack: LinearAttack | None = None  # the best linear attack, folded; none where it was not looked for
    left_by_sums: LeftBySums | None = None  # of who has no short recipe: the difference of two sums behind it
    feature: Literal["row", "total", "combination"] | None = None  # of a record's several rows: what is seen
    rows: int = 1  # of one such record
    about: str | None = None  # the yes-or-no question that it is about; none: the secret
    total: TotalView | None = None  # of several rows that share a level
    knows_changes: bool = False  # whether the recipe needs to know how rows of others differ
    named: Annotated[tuple[NamedFeature, ...], Many] = ()  # of the most exposed with several rows: periods

    def publishable(self) -> Self:
        """The same without the keys of persons."""
        label = self.label if self.size > SMALL_GROUP else ""
        return super().publishable().model_copy(update={"record": None, "label": label})


class SharpestView(ResultPart):
    r"""What an attacker knows of the most exposed record's value, in the secret's own units.

    An error is a root mean squared error over the prior and the noise. Before the releases it is the prior's
    standard deviation :math:`s`; after them that of the best attack is between :math:`s` times the square
    roots of the two ends of the remaining uncertainty.

    A yes or no, or a category, is guessed: :mod:`sightline.bounds.guesses` bounds how often that is right.
    """

    of: Literal["value", "rows"]  # a value, or a combination of a record's rows, scaled like one row
    before: float  # the error of the best guess without the releases
    after_lower: float  # no attack has a smaller one, on average over the prior
    after_upper: float  # the best attack has no larger one
    right_before: float | None = None  # of a yes or no, or of a category: how often the best guess is right
    right_after: float | None = None  # and with the releases, at most
    sure_after: float | None = None  # of those with a value, at most whom a guess finds that is rarely wrong
    people_right_before: float | None = None  # on average, by the best guess
    people_beyond_chance: float | None = None  # and with the releases, at most so many more
    total: TotalView | None = None  # of several rows that share a level
    facts: Annotated[tuple[Fact, ...], Many] = ()  # what is known before and after; what of all others is
    all_others_known: str = ""  # what is left to an attacker who knows them, where numbers share noise
    text: str = ""


class Explained(ResultPart):
    """How much of the secret's variance in the table public columns explain together."""

    columns: Annotated[tuple[str, ...], Many]
    share: float


class BrokenRule(ResultPart):
    """A combination of published numbers that breaks a rule of ``[rules]``."""

    rule: str  # k, dominance or p
    people: int  # behind the combination
    combination: str = ""  # of which numbers
    publishable_combination: str | None = None  # without the keys of persons
    why: Fact | None = None
    text: str = ""
    publishable_text: str | None = None  # without the keys of persons
    owner_only: bool  # whether it depends on the values


class RulesReport(ResultPart):
    """Which of the rules that statistical offices sign are broken, and by which combinations."""

    broken: Annotated[tuple[BrokenRule, ...], Many] = ()  # the fewest people first
    in_all: int = 0
    scope: Fact | None = None  # what was looked at
    checked: str = ""  # the same in words

    def publishable(self) -> Self:
        """Without what depends on values and without the keys of persons."""
        shown = tuple(one.publishable() for one in self.broken if not one.owner_only)
        return self.model_copy(update={"broken": shown, "in_all": len(shown)})


class CertainGroup(ResultPart):
    """People whom nothing tells apart and whose value follows from the published counts. Owner-only."""

    people: int
    label: str  # their public attributes
    value: str  # what is known of them: yes, no, or a category
    about: str = ""  # the question that the value answers; none: the secret
    records: Annotated[tuple[str, ...], Many] = ()  # their keys, only when asked for
    recipe: str  # the combination of published counts that excludes any other value


class LikelyGroup(ResultPart):
    """Of whom a simulated attack on rounded or blank counts believes most: an estimate. Owner-only."""

    people: int  # whom no number tells apart
    label: str
    value: str
    chance: float  # that the attack gives this value, after what is published of the true table
    left: float  # of the variance beforehand
    steps: int  # of the simulation


class CertainReport(ResultPart):
    """Who is certain: whose value is the same in every table that fits what is published. Owner-only."""

    people: int = 0
    ruled_out: int = 0  # people of whom one of several categories is ruled out, and the value is not told
    undecided: int = 0  # people of whom programs of so many nodes did not decide it
    by_draw: int = 0  # people whom some draw of random rounding, or of cell keys, may make certain
    draws: Annotated[tuple[int, int], Many] = (
        0,
        0,
    )  # simulated draws that make somebody certain, of how many
    groups: Annotated[tuple[CertainGroup, ...], Many] = ()  # the smallest first
    likely: LikelyGroup | None = None  # where nobody is certain, and the limit is not shown


class NoiseSlack(ResultPart):
    """By how much all noise can change so that the limit still holds on average over the prior.

    The audit was repeated at this factor, and at this epsilon; what it checks at the true values was not.
    """

    holds: bool  # whether the limit holds with the noise as it is, as far as noise decides it
    noise_factor: float | None  # below 1: there is slack; above: it is needed; none: no factor is enough
    epsilon: float | None  # the largest budget with which it holds; none if the budget does not set all noise
    fact: Fact | None = None
    if_verified: bool = False  # whether it depends on what was not verified
    text: str = ""


class SinceLast(ResultPart):
    """What changed since the last audit. Only what is publishable is compared, apart from the keys."""

    comparable: bool  # whether both audits ask the same question: the same secret, record, domain and prior
    newly_below: Annotated[tuple[str, ...], Many]  # keys, if both audits name and list everyone: owner-only
    no_longer_below: Annotated[tuple[str, ...], Many]
    lines: Annotated[tuple[str, ...], Many]  # the changes in words; none if nothing changed

    def publishable(self) -> Self:
        """The comparison without the keys of persons."""
        return self.model_copy(update={"newly_below": (), "no_longer_below": ()})


class NoiseOfRange(ResultPart):
    """The noise of a release's numbers over the range that each can have, as a share."""

    median: float
    worst: float


class ReleaseAccuracy(ResultPart):
    """How accurate a release is at the true values. Owner-only."""

    median_relative_error: float  # the noise over the number itself, at the median number of the release
    worst_relative_error: float
    noise_over_spread: float | None  # over the standard deviation of its numbers; none if it has one number


# What if: the plan with other noise, without a release, or against another attacker. Owner-only. Every
# setting was audited, and is one change: nothing is interpolated or combined.


class SettingKind(StrEnum):
    """What a setting changes."""

    EPSILON = "epsilon"  # of the plan's budget
    FACTOR = "factor"  # all noise, which the plan states, times a factor
    LEAVE_OUT = "leave out"  # a release is not published; the budget is shared by the others
    DOES_NOT_KNOW = "does not know"  # the attacker does not, although the plan says so
    PRIOR = "prior"  # values are spread in another way, as far as the attacker knows


class Setting(ResultPart):
    """One change of the plan, and what the audit says of it."""

    kind: Annotated[SettingKind, Many]
    name: str  # of the release or of the prior, or the condition; the amount of the noise as it is printed
    own: bool = False  # whether it is the plan's own amount of noise
    status: str | None  # of the verdict; none if no limit was set
    proven: bool  # that the noise keeps to the plan's budget; false if there is none
    below_limit: int
    least: Uncertainty | None  # what the most exposed keeps; none if nothing depends on an unknown secret
    whom: Fact | None = None  # that is
    worst: str = ""  # the same in words: the key, if that was asked for
    least_noise_stddev: float | None  # over all published numbers; none if none depends on the secret
    most_noise_stddev: float | None


class WhatIf(ResultPart):
    """The settings: amounts of noise, ascending, then one change each with the plan's own noise."""

    settings: Annotated[tuple[Setting, ...], Many]
