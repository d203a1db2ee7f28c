"""The plan: what is published about a table, with which noise or budget, and what the attacker knows.

A plan is a TOML file. It is checked in full before anything else happens. Its models make the JSON Schema.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sightline.errors import InvalidPlan, require
from sightline.labeled.bounds.domain import NUMBER_PRIORS
from sightline.privacy.accountant import NoiseLaw
from sightline.privacy.registry import ACCOUNTANTS
from sightline.tables.subject import SecretKind

# That all of it remains can be shown of nothing that is published.
LARGEST_LIMIT = 0.999

MOST_ROWS = 10**9  # of one record

# Squares and quotients of numbers between these stay far from the ends of what a double can hold.
SMALLEST, LARGEST = 1e-50, 1e50

Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
Positive = Annotated[float, Field(ge=SMALLEST, le=LARGEST, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]


def _share(value: Any) -> Any:
    """50 % as "50%" or 0.5."""
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            value = float(value.strip()[:-1]) / 100
        except ValueError:
            return value
    return value


Share = Annotated[
    float,
    BeforeValidator(_share, json_schema_input_type=float | str),
    Field(gt=0, le=LARGEST_LIMIT, allow_inf_nan=False),
]


class _Section(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, populate_by_name=True)


class Data(_Section):
    """The table, and what in it is to be protected."""

    source: Text = Field(
        description="A Parquet or CSV file, a table of a DuckDB file, or the URL of another engine. "
        "A relative path starts from the plan's folder."
    )
    record: Text = Field(description="The column that says whose row it is: the unit of privacy.")
    secret: Text = Field(description="The column to protect.")
    bounds: Annotated[tuple[Number, Number], Field(strict=False)] | None = Field(
        default=None,
        description="The smallest and largest value of a number. Values outside are clipped, and counted.",
    )
    categories: Annotated[tuple[str, ...], Field(strict=False, min_length=2)] | None = Field(
        default=None, description="All values of a categorical secret."
    )
    kind: Literal["number", "boolean", "category"] | None = Field(
        default=None, description="What the secret is; bounds say a number, categories a category."
    )
    tables: dict[str, str] = Field(
        default_factory=dict, description="Public tables to join: the name in the SQL, and a file or table."
    )
    max_rows_per_record: Annotated[int, Field(ge=1, le=MOST_ROWS)] = Field(
        default=1,
        description="The most rows that one record has: its contribution limit. The data are checked.",
    )
    values: Literal["constant", "independent"] | None = Field(
        default=None,
        description="For records with several rows: whether all rows of a record hold one value, or the rows "
        "hold values of their own.",
    )
    bandwidth: Positive | None = Field(
        default=None, description="The width of the logistic step that stands for a threshold on the secret."
    )

    @property
    def secret_kind(self) -> SecretKind:
        """What the secret is, given or inferred."""
        if self.kind is not None:
            return SecretKind(self.kind)
        return SecretKind.NUMBER if self.bounds is not None else SecretKind.CATEGORY

    @property
    def domain(self) -> tuple[float, float]:
        """The smallest and the largest value: of the secret, or of an indicator."""
        return self.bounds if self.bounds is not None else (0.0, 1.0)

    @model_validator(mode="after")
    def _kind_and_domain_agree(self) -> Data:
        known = self.kind or ("number" if self.bounds else None) or ("category" if self.categories else None)
        require(
            known is not None,
            "bounds for a number, categories for a category, or kind = 'boolean'",
            got="none of them",
            fix="a guess from the data would reveal them; say what the secret can be",
            error=InvalidPlan,
        )
        require(
            (self.bounds is not None) == (known == "number"),
            "bounds for a number and for nothing else",
            got=f"kind {known!r} {'with' if self.bounds else 'without'} bounds",
            error=InvalidPlan,
        )
        require(
            (self.categories is not None) == (known == "category"),
            "categories for a category and for nothing else",
            got=f"kind {known!r} {'with' if self.categories else 'without'} categories",
            error=InvalidPlan,
        )
        if self.bounds is not None:
            low, high = self.bounds
            require(
                low < high,
                "bounds [low, high] with low < high",
                got=[low, high],
                error=InvalidPlan,
            )
            require(
                high - low >= SMALLEST,
                f"bounds at least {SMALLEST:g} apart",
                got=[low, high],
                fix="state the secret in another unit",
                error=InvalidPlan,
            )
        if self.categories is not None:
            twice = [name for name, times in Counter(self.categories).items() if times > 1]
            require(not twice, "distinct categories", got=f"{twice[:1]} twice", error=InvalidPlan)
        require(
            self.record != self.secret,
            "a record column other than the secret",
            got=f"{self.secret!r} for both",
            error=InvalidPlan,
        )
        return self


if TYPE_CHECKING:
    AccountantName: TypeAlias = str
    PriorName: TypeAlias = str
else:
    AccountantName = Literal[tuple(ACCOUNTANTS)]
    PriorName = Literal[tuple(NUMBER_PRIORS)]


class Privacy(_Section):
    """The budget that the releases without a noise of their own share."""

    epsilon: Positive | None = Field(default=None, description="The total epsilon of the plan.")
    delta: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="The total delta. Laplace noise needs none."
    )
    accountant: AccountantName = Field(
        default="zcdp", description="The rule that turns the budget into noise."
    )


class CellNoise(_Section):
    """The noise on one published number of a release."""

    key: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), description="The values of the group, in the order of GROUP BY; empty without one."
    )
    label: str = Field(
        default="", description="Which of the release's aggregates it is, if there are several."
    )
    stddev: Positive = Field(description="Standard deviation of the Gaussian noise on it.")


class WithheldCell(_Section):
    """A group of a release whose number is not published."""

    key: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), description="The values of the group, in the order of GROUP BY; empty without one."
    )
    label: str = Field(
        default="", description="Which of the release's aggregates is withheld; all of them unless given."
    )


class MergedCells(_Section):
    """Groups of a release that are published as one: their sum, or the mean of all their rows."""

    keys: Annotated[
        tuple[Annotated[tuple[str, ...], Field(strict=False)], ...], Field(strict=False, min_length=2)
    ] = Field(description="The values of each group, in the order of GROUP BY.")
    label: str = Field(
        default="", description="Which of the release's aggregates is merged; all of them unless given."
    )


class Release(_Section):
    """One query, published once or several times."""

    name: Text = Field(description="What people call it.")
    sql: Text = Field(description="One SELECT over the table, which is called data.")
    times: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1, description="How often it is published, with fresh noise and the same rows."
    )
    noise_stddev: Positive | None = Field(
        default=None,
        description="Standard deviation of the Gaussian noise on each output, if somebody else chose it.",
    )
    noise_by_cell: Annotated[tuple[CellNoise, ...], Field(strict=False)] = Field(
        default=(), description="The same for each published number by itself, instead of noise_stddev."
    )
    withhold: Annotated[tuple[WithheldCell, ...], Field(strict=False)] = Field(
        default=(), description="Numbers of the query that are not published."
    )
    merge: Annotated[tuple[MergedCells, ...], Field(strict=False)] = Field(
        default=(), description="Groups of the query that are published as one number."
    )
    published: bool = Field(
        default=False, description="Whether it is out already: a design leaves its noise as it is."
    )
    weight: Positive = Field(
        default=1.0, description="How much a design minds the variance of its noise, beside other releases'."
    )
    optional: bool = Field(
        default=False,
        description="Whether a design may leave it out, if not all can be kept; weight is its value then.",
    )
    instead_of: Text | None = Field(
        default=None,
        description="An optional release that it stands in for, such as a finer one: at most one is kept.",
    )
    least_noise_stddev: Positive | None = Field(
        default=None, description="A design gives each output at least this noise, in place of today's."
    )
    most_noise_stddev: Positive | None = Field(
        default=None, description="A design gives no output more noise than this."
    )

    @property
    def noise_given(self) -> bool:
        """Whether it has a noise of its own, and takes no share of the budget."""
        return self.noise_stddev is not None or bool(self.noise_by_cell)

    @model_validator(mode="after")
    def _noise_is_consistent(self) -> Release:
        require(
            self.noise_stddev is None or not self.noise_by_cell,
            "noise_stddev or noise_by_cell",
            got="both",
            error=InvalidPlan,
        )
        cells = Counter((cell.label, cell.key) for cell in self.noise_by_cell)
        require(
            all(times == 1 for times in cells.values()),
            "each published number once in noise_by_cell",
            got="one twice",
            error=InvalidPlan,
        )
        require(
            not self.published or self.noise_given,
            "noise_stddev or noise_by_cell for a release that is published",
            got="neither",
            fix="say how much noise it was published with",
            error=InvalidPlan,
        )
        least, most = self.least_noise_stddev, self.most_noise_stddev
        require(
            least is None or most is None or least <= most,
            "least_noise_stddev <= most_noise_stddev",
            got=f"{least} and {most}",
            error=InvalidPlan,
        )
        return self


class NumberName(_Section):
    """One published number."""

    release: Text = Field(description="The name of its release.")
    key: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), description="The values of its group, in the order of GROUP BY; empty without one."
    )
    label: str = Field(default="", description="Which of the release's aggregates it is, of several.")


class Correlation(_Section):
    """The correlation of the noise on some numbers; the noise on all others is independent."""

    numbers: Annotated[tuple[NumberName, ...], Field(strict=False, min_length=2)] = Field(
        description="The numbers, each with a noise of its own in its release."
    )
    rows: Annotated[tuple[Annotated[tuple[Number, ...], Field(strict=False)], ...], Field(strict=False)] = (
        Field(
            description="For each number its correlations with those before it: a row of 0, 1, 2, … entries."
        )
    )

    @model_validator(mode="after")
    def _is_a_triangle(self) -> Correlation:
        sizes = [len(row) for row in self.rows]
        triangle = sizes == list(range(len(self.numbers)))
        within = all(abs(value) < 1 for row in self.rows for value in row)
        require(
            triangle and within,
            "a row for each number: of 0, 1, 2, … correlations between -1 and 1",
            got=f"rows of {', '.join(map(str, sizes[:4]))} …" if within else "another correlation",
            error=InvalidPlan,
        )
        return self


class Attacker(_Section):
    """What the attacker knows besides who is in which group."""

    prior: PriorName = Field(
        default="uniform",
        description="How a number is spread over its bounds, as far as the attacker knows: evenly (uniform), "
        "likelier in the middle (cos2), or at either end (two-point). What remains is an average over it.",
    )
    knows: Annotated[tuple[Text, ...], Field(strict=False)] = Field(
        default=(), description="Conditions on public columns: the secrets of those rows are known."
    )
    may_know: Annotated[tuple[Text, ...], Field(strict=False)] = Field(
        default=(),
        description="More such conditions, which the audit leaves out and the report's what-if can add.",
    )


class AssumptionName(StrEnum):
    """Assumptions that a pass needs, and that a plan can accept."""

    DROPPED = "dropped"
    CLIPPED = "clipped"
    EMPTY = "empty"
    GROUPS = "groups"
    PUBLISHED_BUT_DROPPED = "published_but_dropped"
    UNDECIDED = "undecided"
    LOCAL = "local"
    HOMOGENEOUS = "homogeneous"
    FEW_VALUES = "few_values"
    VALUES = "values"


class Limits(_Section):
    """What the publisher wants to keep."""

    remaining_uncertainty: Share | None = Field(
        default=None,
        description="The share of its uncertainty that every record must keep: 0.5 or '50%'.",
    )
    accept: Annotated[tuple[Annotated[AssumptionName, Field(strict=False)], ...], Field(strict=False)] = (
        Field(
            default=(),
            description="Assumptions that a pass needs and the audit cannot verify, accepted by name.",
        )
    )


class Plan(_Section):
    """What will be released, or has been.

    >>> plan = Plan.model_validate({
    ...     "data": {"source": "homes.parquet", "record": "home", "secret": "watts", "bounds": [0, 9000]},
    ...     "privacy": {"epsilon": 1.0, "delta": 1e-5},
    ...     "release": [{"name": "mean", "sql": "SELECT feeder, AVG(watts) FROM data GROUP BY feeder"}],
    ... })
    >>> plan.data.secret_kind.value, plan.privacy.accountant, plan.releases[0].times
    ('number', 'zcdp', 1)
    """

    data: Data
    privacy: Privacy = Privacy()
    releases: Annotated[tuple[Release, ...], Field(strict=False, min_length=1)] = Field(alias="release")
    attacker: Attacker = Attacker()
    limits: Limits = Limits()
    correlation: Correlation | None = None

    @model_validator(mode="after")
    def _names_and_noise(self) -> Plan:
        twice = [name for name, times in Counter(r.name for r in self.releases).items() if times > 1]
        require(
            not twice,
            "a name of its own for each release",
            got=f"{twice[0] if twice else ''!r} twice",
            fix="for copies of one query use times",
            error=InvalidPlan,
        )
        optional = {release.name for release in self.releases if release.optional and not release.published}
        wishes = [r for r in self.releases if r.optional or r.instead_of is not None]
        require(
            all(r.name in optional and r.instead_of in (None, *(optional - {r.name})) for r in wishes),
            "optional releases that are not published, and instead_of between two of them",
            got="another",
            error=InvalidPlan,
        )
        priced = [release for release in self.releases if not release.noise_given]
        require(
            not priced or self.privacy.epsilon is not None,
            "[privacy] epsilon, or noise_stddev for every release",
            got=f"neither for release {priced[0].name if priced else ''!r}",
            error=InvalidPlan,
        )
        laplace = ACCOUNTANTS[self.privacy.accountant].law is NoiseLaw.LAPLACE
        require(
            not priced or laplace or self.privacy.delta is not None,
            "[privacy] delta",
            got="none",
            fix="give one far below one over the number of records, or use accountant = 'laplace'",
            error=InvalidPlan,
        )
        require(
            not laplace or len(priced) in (0, len(self.releases)),
            "one kind of noise in a plan",
            got="noise_stddev, which is Gaussian, beside the Laplace accountant",
            error=InvalidPlan,
        )
        return self
