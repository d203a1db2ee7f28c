"""The plan: what is published about a table, with which noise or budget, and what the attacker knows.

A plan is a TOML file. It is checked in full before anything else happens. Its models make the JSON Schema.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sightline.auditing.plan_attacker import Attacker as Attacker
from sightline.auditing.plan_fields import LARGEST as LARGEST
from sightline.auditing.plan_fields import LARGEST_LIMIT as LARGEST_LIMIT
from sightline.auditing.plan_fields import SMALLEST as SMALLEST
from sightline.auditing.plan_fields import Number, Positive, Section, Share, Source, Text
from sightline.auditing.plan_privacy import Privacy as Privacy
from sightline.auditing.plan_secret import Bounds, Categories, Kind, OtherSecret, checked_kind
from sightline.auditing.release_noise import (
    CellNoise,
    ReleaseNoises,
    require_labels,
    require_once,
)
from sightline.errors import InvalidPlan, require
from sightline.privacy.accountant import NoiseLaw
from sightline.privacy.registry import ACCOUNTANTS
from sightline.tables.subject import SecretKind

MOST_ROWS = 10**9  # of one record
MOST_COPIES = 100_000  # of one release


class Data(Section):
    """The table, and what in it is to be protected."""

    source: Source = Field(
        description="A Parquet or CSV file, a table of a DuckDB file, or the URL of another engine. "
        "A relative path starts from the plan's folder. In Python also a pandas or Polars DataFrame, an "
        "Arrow table or a DuckDB relation."
    )
    record: Text = Field(description="The column that says whose row it is: the unit of privacy.")
    secret: Text = Field(description="The column to protect.")
    sql: Text | None = Field(
        default=None,
        description="One SELECT over the table, which it calls source: its rows are data. It unpivots wide "
        "tables, computes secrets, and bounds what a record contributes.",
    )
    bounds: Bounds | None = Field(
        default=None,
        description="The smallest and largest value of a number. Values outside are clipped, and counted.",
    )
    categories: Categories | None = Field(default=None, description="All values of a categorical secret.")
    kind: Kind | None = Field(
        default=None, description="What the secret is; bounds say a number, categories a category."
    )
    other_secrets: Annotated[tuple[Text, ...], Field(strict=False)] = Field(
        default=(),
        description="Columns that are secret, too, and that other plans publish something about. No release "
        "may use them here, and a pass has to accept 'secrets'.",
    )
    dialect: Literal["duckdb", "postgres", "spark"] | None = Field(
        default=None, description="The engine that the SQL is written for; it must be the source's own."
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
        checked_kind(self.kind, self.bounds, self.categories)
        require(
            self.record != self.secret,
            "a record column other than the secret",
            got=f"{self.secret!r} for both",
            error=InvalidPlan,
        )
        return self


class WithheldCell(Section):
    """A group of a release whose number is not published."""

    key: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), description="The values of the group, in the order of GROUP BY; empty without one."
    )
    label: str = Field(
        default="", description="Which of the release's aggregates is withheld; all of them unless given."
    )


class Release(Section):
    """One query, published once or several times."""

    name: Text = Field(description="What people call it.")
    sql: Text = Field(description="One SELECT over the table, which is called data.")
    times: Annotated[int, Field(ge=1, le=MOST_COPIES)] = Field(
        default=1,
        description="How often it is published, with fresh noise and the same rows; in each period of the "
        "budget, if there are periods.",
    )
    period: Text | None = Field(
        default=None, description="The period of the budget that it is published in; all, unless given."
    )
    noise_stddev: Positive | None = Field(
        default=None,
        description="Standard deviation of the Gaussian noise on each output, if somebody else chose it.",
    )
    noise_by_cell: Annotated[tuple[CellNoise, ...], Field(strict=False)] = Field(
        default=(), description="The same for each published number by itself, instead of noise_stddev."
    )
    noise: ReleaseNoises = Field(
        default=(),
        description="Noise of any law, instead of these two: one section, or one for each label.",
    )
    withhold: Annotated[tuple[WithheldCell, ...], Field(strict=False)] = Field(
        default=(), description="Numbers of the query that are not published."
    )
    suppress: Text | None = Field(
        default=None,
        description="A condition on public aggregates, such as COUNT(*) < 10: groups that meet it are not "
        "published.",
    )
    published: bool = Field(
        default=False, description="Whether it is out already: a design leaves its noise as it is."
    )
    weight: Positive = Field(
        default=1.0, description="How much a design minds the variance of its noise, beside other releases'."
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
        return self.noise_stddev is not None or bool(self.noise_by_cell) or bool(self.noise)

    @model_validator(mode="after")
    def _noise_is_consistent(self) -> Release:
        given = [name for name in ("noise_stddev", "noise_by_cell", "noise") if getattr(self, name)]
        require(
            len(given) <= 1,
            "noise_stddev or noise_by_cell or noise",
            got=" and ".join(given),
            error=InvalidPlan,
        )
        require_once(self.noise_by_cell, "noise_by_cell")
        require_labels(self.noise)
        require(
            not self.published or self.noise_given,
            "noise_stddev, noise_by_cell or noise for a release that is published",
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


class NumberName(Section):
    """One published number."""

    release: Text = Field(description="The name of its release.")
    key: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), description="The values of its group, in the order of GROUP BY; empty without one."
    )
    label: str = Field(default="", description="Which of the release's aggregates it is, of several.")


class Correlation(Section):
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
    NOISE_FIRST = "noise_first"
    DRAWN = "drawn"
    SECRETS = "secrets"


class Limits(Section):
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


class Plan(Section):
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
    secrets: Annotated[tuple[OtherSecret, ...], Field(strict=False)] = Field(
        default=(), alias="secret", description="More secrets of the table, beside that of [data]."
    )

    @model_validator(mode="after")
    def _secrets_are_distinct(self) -> Plan:
        names = [self.data.record, self.data.secret, *(one.column for one in self.secrets)]
        folded = Counter(name.casefold() for name in names)
        require(
            not self.secrets or max(folded.values()) == 1,
            "a column of its own for the record and for each secret",
            got=f"{folded.most_common(1)[0][0]!r} twice",
            error=InvalidPlan,
        )
        return self

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
        priced = [release for release in self.releases if not release.noise_given]
        within, (low, high) = self.attacker.values_within, self.data.domain
        require(
            within is None or (self.data.secret_kind is SecretKind.NUMBER and 2 * within <= high - low),
            "[attacker] values_within for a number, at most half the width of its bounds",
            got=f"{within} for {self.data.secret_kind.value}s from {low:g} to {high:g}",
            error=InvalidPlan,
        )
        budgets = self.privacy.budgets
        require(
            not priced or all(one.epsilon is not None for one in budgets),
            "[privacy] epsilon, or noise_stddev for every release",
            got=f"neither for release {priced[0].name if priced else ''!r}",
            error=InvalidPlan,
        )
        periods = {one.name for one in self.privacy.periods}
        strange = [one.period for one in self.releases if one.period not in {None, *periods}]
        require(
            not strange,
            "a release's period among those of [privacy] periods",
            got=repr(strange[:1]),
            error=InvalidPlan,
        )
        copies = max(self.copies(one) for one in self.releases)
        require(
            copies <= MOST_COPIES,
            f"at most {MOST_COPIES:,} copies of a release over all periods",
            got=f"{copies:,}",
            error=InvalidPlan,
        )
        laplace = ACCOUNTANTS[self.privacy.accountant].law is NoiseLaw.LAPLACE
        shares = any(
            noise.epsilon is not None and not noise.law.pure
            for release in self.releases
            for noise in release.noise
        )
        require(
            (not shares or self.privacy.delta is not None)
            and (not priced or laplace or all(one.delta is not None for one in budgets)),
            "[privacy] delta",
            got="none",
            fix="give one far below one over the number of records, or use accountant = 'laplace'",
            error=InvalidPlan,
        )
        return self

    def copies(self, release: Release) -> int:
        """How often a release is published in all: ``times`` in its period, or in every one."""
        return release.times * (len(self.privacy.budgets) if release.period is None else 1)
