"""The sections of a plan about its secrets, its budget, its attacker and its limits."""

# Annotations are no texts here: Pydantic would compile each of them when an audit starts.

import itertools
import re
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, TypeAlias

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from sightline.auditing.plan_fields import (
    LARGEST_LIMIT,
    SMALLEST,
    UNSTATED,
    Number,
    Population,
    Positive,
    Section,
    Share,
    Text,
    without_default,
)
from sightline.bounds.priors import NUMBER_PRIORS
from sightline.errors import InvalidPlan, require_plan
from sightline.format import number, percent_stated
from sightline.privacy.accountant import Budget
from sightline.privacy.registry import ACCOUNTANTS
from sightline.tables.subject import SEPARATOR

# Where nobody says another: a delta far below one over the number of records of most tables, and half of what
# is open, as in the plans that ``init`` writes.
USUAL_DELTA, USUAL_LIMIT = 1e-6, 0.5
DOMAIN = ("bounds", "categories", "kind")  # the fields that say what a secret can be
_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")  # an entry of knows that is no condition

if TYPE_CHECKING:
    AccountantName: TypeAlias = str
else:
    AccountantName = Literal[tuple(ACCOUNTANTS)]


class YesShare(NamedTuple):
    """The share of yes that an attacker expects, in place of even chances."""

    yes: float


def _prior(value: object) -> str | YesShare | Population:
    """The name of a number's prior, the file of a population, the values that occur, or the share of yes."""
    if isinstance(value, YesShare | Population):
        return value
    if isinstance(value, str) and value.lower().endswith(".csv"):
        return Population(value)
    if isinstance(value, dict) and set(value) == {"points"}:
        return Population.of_points(value["points"])
    share = value.get("yes") if isinstance(value, dict) and set(value) == {"yes"} else None
    good = isinstance(share, float | int) and not isinstance(share, bool) and 1e-6 <= share <= 1 - 1e-6
    require_plan(
        good if share is not None else isinstance(value, str) and value in NUMBER_PRIORS,
        "one of 'uniform', 'cos2' or 'two-point', a CSV file, { points = [1.0, 1.3] } with the values that "
        "occur, or { yes = 0.18 } with a share between 0 and 1",
        got=repr(value)[:60] if isinstance(value, str | int | float) else "another value",
    )
    return YesShare(float(share)) if isinstance(share, float | int) else str(value)


def _prior_as_written(prior: str | YesShare | Population) -> Any:
    if isinstance(prior, YesShare):
        return {"yes": prior.yes}
    if isinstance(prior, Population):
        return prior.file or {"points": list(prior.points)}
    return prior


PriorName = Annotated[
    str | YesShare | Population,
    PlainValidator(_prior),
    PlainSerializer(_prior_as_written),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": list(NUMBER_PRIORS)},
                {"type": "string", "pattern": "\\.[cC][sS][vV]$"},
                {
                    "type": "object",
                    "properties": {"points": {"type": "array", "items": {"type": "number"}, "minItems": 2}},
                    "required": ["points"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "properties": {"yes": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}},
                    "required": ["yes"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


class Privacy(Section):
    """The budget that the releases without a noise of their own share."""

    epsilon: Positive = Field(
        default=0.0, json_schema_extra=without_default, description="The total epsilon of the plan."
    )
    delta: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.0,
        json_schema_extra=without_default,
        description="The total delta. The accountant 'laplace' needs none.",
    )
    accountant: AccountantName = Field(
        default="gaussian-dp",
        description="The rule that turns the budget into noise; the default is exact for Gaussian noise; "
        "'laplace' and 'optimal' give Laplace noise.",
    )
    sensitivity: Literal["memberships", "declared"] = Field(
        default="declared",
        description="Whether noise is priced for any record of max_rows_per_record rows, wherever these are, "
        "or for the rows that records have in the groups of this table, which are public.",
    )

    @property
    def covers_everyone(self) -> bool:
        """Whether the budget is kept for every conceivable person; else for the kinds in this table alone.

        Noise for the rows that people of this table have in its groups may cost others more than the budget.
        """
        return self.sensitivity == "declared" and not ACCOUNTANTS[self.accountant].own_releases

    @property
    def cost_delta(self) -> float:
        """The delta that costs are stated at: the usual one if none is given."""
        return self.delta or USUAL_DELTA

    @property
    def budget(self) -> Budget:
        """The budget of the releases that share it: they need one. A Laplace budget needs no delta."""
        return Budget(epsilon=self.epsilon, delta=self.cost_delta)


class Attacker(Section):
    """What the attacker knows besides who is in which group."""

    prior: PriorName = Field(
        default="uniform",
        description="How a number is spread over its bounds, as far as the attacker knows: evenly (uniform), "
        "likelier in the middle (cos2), or at either end (two-point); or the CSV file of a population, "
        "which is public and not made from the table, with the columns low, high and weight, a line for each "
        "bin of values, or for one value with low = high; or { points = [1.0, 1.3, 1.7] }, the values that "
        "occur, with even chances. What remains is an average over it. "
        "Of a yes or no, the share of yes, if it is not a half.",
    )
    knows: Annotated[tuple[Text, ...], Field(strict=False)] = Field(
        default=(),
        description="Whose secrets are known: conditions on public columns, for the rows that meet one, and "
        "a share such as '20%', for records drawn by a hash of their keys.",
    )
    values_within: Positive | None = Field(
        default=None,
        description="Every value is known to within plus or minus this, before anything is published.",
    )

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions on rows among what is known."""
        return tuple(text for text in self.knows if not _SHARE.fullmatch(text))

    @property
    def known_share(self) -> float:
        """The share of the records that is known by a draw; 0 without one."""
        return sum(self._shares)

    @property
    def _shares(self) -> list[float]:
        return [float(match.group(1)) / 100 for match in map(_SHARE.fullmatch, self.knows) if match]

    @model_validator(mode="after")
    def _knows_one_share(self) -> Self:
        require_plan(
            len(self._shares) <= 1 and all(0 < share <= LARGEST_LIMIT for share in self._shares),
            f"one share of the records in knows, of at most {100 * LARGEST_LIMIT:g}%",
            got="another",
        )
        return self


class AssumptionName(StrEnum):
    """Assumptions that a pass needs, and that a plan can accept."""

    DROPPED = "dropped"
    CLIPPED = "clipped"
    EMPTY = "empty"
    GROUPS = "groups"
    DERIVED = "derived"
    EXPLAINED = "explained"
    PUBLISHED_BUT_DROPPED = "published_but_dropped"
    UNDECIDED = "undecided"
    LOCAL = "local"
    HOMOGENEOUS = "homogeneous"
    FEW_VALUES = "few_values"
    VALUES = "values"
    ROWS_APART = "rows_apart"
    UNEQUAL = "unequal"
    NOISE_FIRST = "noise_first"
    DRAWN = "drawn"
    SECRETS = "secrets"
    HIDDEN_BY_NOISE = "hidden_by_noise"
    TURNOVER = "turnover"
    COUNT_RULES = "count_rules"
    CERTAIN = "certain"
    PRESENCE = "presence"


AssumptionNames = Annotated[tuple[Annotated[AssumptionName, Field(strict=False)], ...], Field(strict=False)]


class Limits(Section):
    """What the publisher wants to keep."""

    remaining_uncertainty: Share = Field(
        default=0.0,
        json_schema_extra=without_default,
        description="The share of its uncertainty that every record must keep: 0.5 or '50%'. It is a share "
        "of what the bounds leave open, and depends on them.",
    )
    known_to: Positive = Field(
        default=0.0,
        json_schema_extra=without_default,
        description="How closely a number may be known at best, in its own unit: 500 for ± 500. It hardly "
        "depends on the bounds. Of several rows it is for each; for the sum of n of them it is √n times that "
        "if they have nothing in common, and n times that if they share a level.",
    )
    guessed_right: Share = Field(
        default=0.0,
        json_schema_extra=without_default,
        description="How often a yes or no, or a category, may be guessed right at most: 0.6 or '60%'. The "
        "uncertainty that must remain follows from it and from the chances before.",
    )
    set_by: Annotated[str, Field(max_length=200)] = Field(
        default="",
        json_schema_extra=without_default,
        description="Who set the limit and decided what is accepted: a person, a board, a rule. Where a pass "
        "accepts what is told of whole groups, the command exits with 0 only if this says who decided it.",
    )
    accept: AssumptionNames = Field(
        default=(),
        description="Assumptions that a pass needs and the audit cannot verify, accepted by name.",
    )
    unverified: AssumptionNames = Field(
        default=(),
        description="Assumptions that the releases needed when they were made, and that the table at hand "
        "cannot show. The plan that a ledger writes lists them, since its values are no one's: a pass has to "
        "accept them.",
    )

    @property
    def given(self) -> bool:
        """Whether there is any limit."""
        return max(self.remaining_uncertainty, self.known_to, self.guessed_right) > 0

    @property
    def from_before(self) -> bool:
        """Whether a limit is about what is known in the end: it depends on what was known before."""
        return max(self.known_to, self.guessed_right) > 0

    @property
    def without_guesses(self) -> Self:
        """The limits on what remains alone."""
        return self.model_copy(update={"guessed_right": 0.0})

    @property
    def text(self) -> str:
        """The limits in a few words.

        >>> Limits(remaining_uncertainty=0.5, known_to=500.0).text
        '50 % and of ± 500'
        """
        words = {
            percent_stated(self.remaining_uncertainty): self.remaining_uncertainty,
            f"± {number(self.known_to, 6)}": self.known_to,
            f"{percent_stated(self.guessed_right)} guessed right": self.guessed_right,
        }
        return " and of ".join(text for text, stated in words.items() if stated)


class Publish(Section):
    """What is published of the noisy numbers."""

    consistent: bool = Field(
        default=False,
        description="Whether the weighted least-squares fit to all noisy numbers is published in place of "
        "them, so that tables agree with each other: less error, at the same privacy. 'sightline fit' makes "
        "the tables.",
    )
    non_negative: bool = Field(
        default=False,
        description="Whether the fit has no sums below 0, of any kind of people. It is biased then.",
    )
    whole: bool = Field(
        default=False, description="Whether the numbers of the fit are whole, and still add up."
    )

    @model_validator(mode="after")
    def _settings_of_a_fit(self) -> Self:
        require_plan(
            self.consistent or not (self.non_negative or self.whole),
            "non_negative and whole with consistent = true",
            got="consistent = false",
            fix="rounding and clipping single numbers changes nothing about privacy: a plan need not say it",
        )
        return self


Dominance = Annotated[tuple[Annotated[int, Field(ge=1, le=100)], Share], Field(strict=False)]


class Rules(Section):
    """Rules that statistical offices sign, beside the limit. A broken one fails the audit."""

    # By default each is one that nothing breaks.

    k: Annotated[int, Field(ge=2, le=1_000_000)] = Field(
        default=1,
        json_schema_extra=without_default,
        description="The fewest people behind a published number, a difference of up to three numbers, or "
        "what elimination singles out; and the fewest that a count of a condition on the secret may count or "
        "leave out. A count of nobody or of everybody breaks it, too.",
    )
    dominance: Dominance = Field(
        default=(0, 1.0),
        json_schema_extra=without_default,
        description="[1, '80%']: how many of the largest contributions, and the most that they may be of an "
        "exact sum.",
    )
    p: Share = Field(
        default=0.0,
        json_schema_extra=without_default,
        description="How closely the second largest may know the largest contribution to an exact sum, as a "
        "share of it: an exact sum with less than that besides the two breaks the rule.",
    )

    @property
    def of_values(self) -> bool:
        """Whether there are rules about the values behind exact sums."""
        return self.p > 0 or self.dominance[1] < 1

    @property
    def given(self) -> bool:
        """Whether there is any rule."""
        return self.k > 1 or self.of_values

    @property
    def text(self) -> str:
        """The rules in a few words."""
        n, share = self.dominance
        words = {
            f"k = {self.k}": self.k > 1,
            f"dominance ({n}, {percent_stated(share)})": share < 1,
            f"p = {percent_stated(self.p)}": self.p > 0,
        }
        return ", ".join(text for text, stated in words.items() if stated)


Bounds = Annotated[
    tuple[Number, Number],
    Field(
        strict=False,
        json_schema_extra=without_default,
        description="The smallest and largest value of a number. Values outside are clipped, and counted.",
    ),
]
Level = Annotated[
    tuple[Number, Number],
    Field(
        strict=False,
        json_schema_extra=without_default,
        description="Where the mean of a record's rows may lie, as far as the attacker knows: anywhere "
        "within the bounds unless given. The data are checked.",
    ),
]


def _codes_as_texts(values: object) -> object:
    """Categories that are coded by whole numbers, as texts; of several columns, all their combinations."""
    if not isinstance(values, list | tuple):
        return values
    if values and all(isinstance(one, list | tuple) and one for one in values):
        return [SEPARATOR.join(map(_value_as_text, each)) for each in itertools.product(*values)]
    return [str(one) if type(one) is int else one for one in values]


def _value_as_text(value: object) -> str:
    """A value of a column of a joint secret as engines cast it to a text."""
    plain = isinstance(value, str | int)
    require_plan(plain, "categories that are texts, whole numbers, true or false", got=repr(value)[:60])
    return str(value).lower() if isinstance(value, bool) else str(value)


def _names_as_one(value: object) -> object:
    """The columns of a joint secret as one name."""
    several = isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)
    return SEPARATOR.join(value) if several and isinstance(value, list | tuple) else value


Secret = Annotated[
    str,
    Field(
        min_length=1,
        description="The column to protect, or several whose values are one category together: ['race', "
        "'hispanic'], with a list of values for each in categories. 'presence' is being in the table at all, "
        "if it says nothing of what the secret can be.",
    ),
    BeforeValidator(_names_as_one, json_schema_input_type=str | list[str]),
]


Categories = Annotated[
    tuple[str, ...],
    Field(
        strict=False,
        min_length=2,  # before the validator, so that the JSON Schema counts items
        json_schema_extra=without_default,
        description="All values of a categorical secret; of several columns a list for each.",
    ),
    BeforeValidator(_codes_as_texts),
]
Kind = Literal["number", "boolean", "category"]
StatedKind = Annotated[
    Kind | None, Field(description="What the secret is; bounds say a number, categories a category.")
]


class OtherSecret(Section):
    """Another secret of the same table: audited if it says what its values can be, else only kept apart."""

    column: Text = Field(description="The column to protect.")
    bounds: Bounds = UNSTATED
    categories: Categories = ()
    kind: StatedKind = None

    @property
    def audited(self) -> bool:
        """Whether releases of the plan are about it."""
        return bool(self.bounds or self.categories or self.kind)

    @model_validator(mode="after")
    def _kind_and_domain_agree(self) -> Self:
        if self.audited:
            checked_kind(self.kind, self.bounds, self.categories)
        return self


def checked_kind(kind: Kind | None, bounds: tuple[float, ...], categories: tuple[str, ...]) -> Kind:
    """What a secret is, given or inferred; refuse a domain that does not go with it."""
    if not (kind or bounds or categories):
        raise InvalidPlan(
            "expected bounds for a number, categories for a category, or kind = 'boolean', got none of them; "
            "a guess from the data would reveal them; say what the secret can be"
        )
    known: Kind = kind or ("number" if bounds else "category")
    require_plan(
        bool(bounds) == (known == "number"),
        "bounds for a number and for nothing else",
        got=f"kind {known!r} {'with' if bounds else 'without'} bounds",
    )
    require_plan(
        bool(categories) == (known == "category"),
        "categories for a category and for nothing else",
        got=f"kind {known!r} {'with' if categories else 'without'} categories",
    )
    if bounds:
        low, high = bounds
        require_plan(low < high, "bounds [low, high] with low < high", got=[low, high])
        require_plan(
            high - low >= SMALLEST,
            f"bounds at least {SMALLEST:g} apart",
            got=[low, high],
            fix="state the secret in another unit",
        )
    twice = [name for name, times in Counter(categories).items() if times > 1]
    require_plan(not twice, "distinct categories", got=f"{twice[:1]} twice")
    return known
