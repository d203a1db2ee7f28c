"""The plan: what is published about a table, with which noise or budget, and what the attacker knows.

A plan is a TOML file. It is checked in full before anything else happens. Its models make the JSON Schema.
"""

# Annotations are no texts here: Pydantic would compile each of them when an audit starts.

import math
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Annotated, Self

from pydantic import Field, PrivateAttr, model_validator

from sightline.auditing.beliefs import Belief, beliefs_of
from sightline.auditing.plan_fields import LARGEST as LARGEST
from sightline.auditing.plan_fields import LARGEST_LIMIT as LARGEST_LIMIT
from sightline.auditing.plan_fields import (
    MOST_TIMES,
    UNSTATED,
    NumberName,
    Population,
    Positive,
    RowValuesKind,
    Section,
    Source,
    Text,
    without_default,
)
from sightline.auditing.plan_fields import SMALLEST as SMALLEST
from sightline.auditing.plan_sections import AssumptionName as AssumptionName
from sightline.auditing.plan_sections import Attacker as Attacker
from sightline.auditing.plan_sections import (
    Bounds,
    Categories,
    Level,
    OtherSecret,
    Secret,
    StatedKind,
    YesShare,
    checked_kind,
)
from sightline.auditing.plan_sections import Limits as Limits
from sightline.auditing.plan_sections import Privacy as Privacy
from sightline.auditing.plan_sections import Publish as Publish
from sightline.auditing.plan_sections import Rules as Rules
from sightline.auditing.published_numbers import PublishedFile, PublishedNumbers
from sightline.auditing.release_noise import (
    ReleaseNoise,
    ReleaseNoises,
    Running,
    RunningSums,
    is_about,
    number_name,
    require_labels,
)
from sightline.bounds.priors import number_prior
from sightline.errors import require_plan
from sightline.format import percent_stated
from sightline.privacy.registry import ACCOUNTANTS
from sightline.tables.presence import PRESENCE
from sightline.tables.subject import SEPARATOR, SecretKind

_Least = Annotated[float, Field(ge=0, le=LARGEST)]
_Most = Annotated[float, Field(ge=SMALLEST)]


class Data(Section):
    """The table, and what in it is to be protected."""

    source: Source = Field(
        description="A Parquet or CSV file, a table of a DuckDB file, or the URL of another engine. "
        "A relative path starts from the plan's folder. In Python also a pandas or Polars DataFrame, an "
        "Arrow table or a DuckDB relation."
    )
    record: Text = Field(description="The column that says whose row it is: the unit of privacy.")
    secret: Secret
    sql: Text = Field(
        default="",
        json_schema_extra=without_default,
        description="One SELECT over the table, which it calls source: its rows are data. It unpivots wide "
        "tables, computes secrets, and bounds what a record contributes.",
    )
    frame: Text = Field(
        default="",
        json_schema_extra=without_default,
        description="With secret = 'presence': a file or table of everybody who might be in the table, once "
        "each, with the record key and the public columns. Without it only the noise protects presence.",
    )
    bounds: Bounds = UNSTATED
    categories: Categories = ()
    kind: StatedKind = None
    public: Annotated[tuple[Text, ...], Field(strict=False)] | None = Field(
        default=None,
        description="The columns that everybody may know of everyone. A release that groups, chooses or adds "
        "up rows by another one is refused. Unless it is given, columns that group and choose rows are taken "
        "as public, and one that is added up or averaged is refused.",
    )
    tables: dict[str, str] = Field(
        default_factory=dict, description="Public tables to join: the name in the SQL, and a file or table."
    )
    max_rows_per_record: Annotated[int, Field(ge=1, le=10**9)] = Field(
        default=1,
        description="The most rows that one record has: its contribution limit. The data are checked.",
    )
    values: RowValuesKind = Field(
        default="any",
        description="For records with several rows: whether all rows of a record hold one value (constant), "
        "or the rows have nothing in common (independent), which a pass has to accept as 'rows_apart'. By "
        "default (any) both are audited, rows that have nothing in common and rows that share one level, "
        "and the worse counts.",
    )
    level: Level = UNSTATED
    blocks: Annotated[tuple[Text, ...], Field(strict=False)] = Field(
        default=(),
        json_schema_extra=without_default,
        description="Columns of the table, such as a day or a month: rows of a record with the same value of "
        "one of them may share a level of their own. Each is one more belief that is audited, and the worst "
        "counts.",
    )

    @property
    def secret_kind(self) -> SecretKind:
        """What the secret is, given or inferred."""
        if self.presence:
            return SecretKind.BOOLEAN
        return SecretKind(self.kind or ("number" if self.bounds else "category"))

    @property
    def parts(self) -> tuple[str, ...]:
        """The columns of a joint secret; none of a secret that is one column."""
        names = tuple(self.secret.split(SEPARATOR))
        sizes = {len(one.split(SEPARATOR)) for one in self.categories}
        return names if len(names) > 1 and sizes == {len(names)} else ()

    @property
    def only_guarantee(self) -> bool:
        """Whether nothing is shown but what the noise guarantees: of presence without a frame."""
        return self.presence and not self.frame

    @property
    def presence(self) -> bool:
        """Whether being in the table is the secret, and no column of it."""
        return self.secret == PRESENCE and not (self.kind or self.bounds or self.categories)

    @property
    def domain(self) -> tuple[float, float]:
        """The smallest and the largest value: of the secret, or of an indicator."""
        return self.bounds or (0.0, 1.0)

    @model_validator(mode="after")
    def _kind_and_domain_agree(self) -> Self:
        if not self.presence:
            checked_kind(self.kind, self.bounds, self.categories)
        require_plan(
            not self.frame or self.presence,
            "a frame with secret = 'presence', and nothing about what the secret can be",
            got=f"secret = {self.secret[:60]!r}",
        )
        require_plan(
            not self.presence or not (self.sql or self.max_rows_per_record > 1),
            "secret = 'presence' with one row of each record, and no sql in [data]",
            got="others",
            fix="make the table first",
        )
        require_plan(
            self.record != self.secret,
            "a record column other than the secret",
            got=f"{self.secret!r} for both",
        )
        require_plan(
            bool(self.parts)
            or SEPARATOR not in self.secret
            or not any(SEPARATOR in one for one in self.categories),
            "a list of values in categories for each column of the secret",
            got=f"{len(self.secret.split(SEPARATOR))} columns and other lists",
        )
        parts = {name.casefold() for name in self.parts}
        require_plan(
            not parts or (len(parts) == len(self.parts) and not self.sql),
            "a secret of different columns, and no sql in [data]",
            got="sql" if self.sql else "a column twice",
            fix="make the table first",
        )
        require_plan(
            not parts & {name.casefold() for name in (self.record, *(self.public or ()), *self.blocks)},
            "columns of the secret that are neither the record, nor public, nor blocks",
            got="one of them",
        )
        low, high = self.level or self.domain
        require_plan(
            not self.level or (self.several_beliefs and self.domain[0] <= low < high <= self.domain[1]),
            "level = [low, high] within the bounds of a number, for records with several rows of any values",
            got=f"[{low:g}, {high:g}]",
        )
        names = [name.casefold() for name in self.blocks]
        require_plan(
            not names or (self.several_beliefs and len(set(names)) == len(names)),
            "blocks = [columns], each once, for records with several rows of any values",
            got="a column twice" if self.several_beliefs else "other records",
        )
        require_plan(
            not set(names) & {self.record.casefold(), self.secret.casefold()},
            "blocks of public columns",
            got="the record or the secret",
            fix="that all rows of a record share a level is audited in any case",
        )
        return self

    @property
    def several_beliefs(self) -> bool:
        """Whether rows of a record may, or may not, have something in common."""
        return self.values == "any" and self.max_rows_per_record > 1

    @property
    def beliefs(self) -> tuple[Belief, ...]:
        """What the rows of a record may have in common: each belief that the plan leaves open."""
        return beliefs_of(self.values, self.blocks)


class Release(Section):
    """One query, published once or several times."""

    name: Text = Field(description="What people call it.")
    sql: Text = Field(
        description="One SELECT over the table, which is called data, or by its own name; or the name of a "
        "file with it that ends in .sql. A relative path starts from the plan's folder."
    )
    times: Annotated[int, Field(ge=1, le=MOST_TIMES)] = Field(
        default=1,
        description="How often it is published, with fresh noise and the same rows.",
    )
    noise_stddev: Positive = Field(
        default=0.0,
        json_schema_extra=without_default,
        description="Standard deviation of the Gaussian noise on each output, if somebody else chose it: "
        "short for noise = { stddev = … }.",
    )
    noise: ReleaseNoises = Field(
        default=(),
        description="Noise of any law, instead of noise_stddev: one section, or one for each label.",
    )
    running: RunningSums = Field(
        default=Running(),
        json_schema_extra=without_default,
        description="Running sums are published: over a column of GROUP BY, from its first step to its last "
        "(whole numbers or days), also of steps that nobody is in. Two rows of a record are at least "
        "min_separation steps apart.",
    )
    withhold: Annotated[tuple[NumberName, ...], Field(strict=False)] = Field(
        default=(),
        description="Numbers of the query that are not published: the values of the group, in the order of "
        "GROUP BY, and the label of an aggregate if only one of several is withheld: ['north'], "
        "[['north', '2024']], or [['north', 'mean pay']].",
    )
    suppress_below: Annotated[int, Field(ge=2, le=1_000_000)] = Field(
        default=0,
        json_schema_extra=without_default,
        description="Counts below this are blank: a blank tells that the count is below, a number that it is "
        "not. Zero is blank, too.",
    )
    numbers: PublishedFile = Field(
        default=PublishedNumbers(),
        json_schema_extra=without_default,
        description="Counts as published elsewhere: a CSV file with the columns of GROUP BY, then one "
        "for each count. A blank is an empty field, or a line that is not there.",
    )
    hidden_by_noise: bool = Field(
        default=False,
        description="Whether a group was published only where a noisy count of its rows was large enough: "
        "withhold lists those that it hid, each time that the release was published.",
    )
    derived: bool = Field(
        default=False,
        description="Whether it is computed from the fit to the other releases, with [publish] consistent: "
        "it has no noise and costs nothing. Its numbers have to follow from measured ones, and 'sightline "
        "fit' makes its table: what its query returns is never published.",
    )
    published: bool = Field(
        default=False, description="Whether it is out already: a design leaves its noise as it is."
    )
    weight: Positive = Field(
        default=1.0, description="How much a design minds the variance of its noise, beside other releases'."
    )
    noise_within: Annotated[tuple[_Least, _Most], Field(strict=False)] = Field(
        default=(0.0, math.inf),
        json_schema_extra=without_default,
        description="The least and the most noise stddev that a design gives an output: at least today's "
        "unless the least is above 0, and no limit if the most is inf.",
    )

    @property
    def noise_given(self) -> bool:
        """Whether it has a noise of its own, and takes no share of the budget."""
        return bool(self.noises)

    @property
    def noises(self) -> tuple[ReleaseNoise, ...]:
        """The noise that it states, for each of its aggregates."""
        return (ReleaseNoise(stddev=self.noise_stddev),) if self.noise_stddev else self.noise

    @property
    def factored(self) -> bool:
        """Whether its numbers share noise that a mechanism draws."""
        return any(bool(one.mechanism) for one in self.noise)

    def _check_mechanism(self) -> None:
        """Refuse what goes with no mechanism, and a mechanism without what it needs."""
        require_plan(
            not self.withhold or not (self.factored or self.running),
            "a mechanism or running sums without withhold",
            got="withhold",
            fix="audit all of its numbers: some of them tell no more, and cost the same noise",
        )
        named = any(one.mechanism.name for one in self.noise)
        every = bool(self.noise) and all(one.mechanism for one in self.noise)
        require_plan(
            (not self.running or every) and (not named or bool(self.running)),
            "running with noise = { mechanism = … }, and a mechanism by its name with running",
            got="one without the other",
            fix="independent noise on every running sum is mechanism = 'independent'",
        )

    def about(self, sql: str, gone: Collection[str]) -> Self:
        """The release with the part of its SQL that is left without some aggregates, by their labels."""
        noise = tuple(one.not_on(gone) for one in self.noise if not is_about((one.label,), gone))
        stated = tuple(one for one in noise if one.sized or one.exact)
        withheld = tuple(name for name in self.withhold if not is_about(name, gone))
        # What is left in the SQL without noise of its own is refused, and shares no budget.
        return self.model_copy(update={"sql": sql, "noise": stated or self.noise, "withhold": withheld})

    def without(self, numbers: Iterable[tuple[tuple[str, ...], str]]) -> Self:
        """The release with some more numbers withheld, each given by its key and label."""
        gone = sorted(numbers)
        noise = tuple(one.without(gone) if one.by_cell else one for one in self.noise)
        names = (number_name(key, label) for key, label in gone)
        return self.model_copy(update={"withhold": (*self.withhold, *names), "noise": noise})

    @model_validator(mode="after")
    def _derived_is_measured_by_others(self) -> Self:
        stated = self.noise_given or self.running or self.suppress_below or self.published or self.times > 1
        require_plan(
            not self.derived or not (stated or self.noise_within != (0.0, math.inf)),
            "derived = true without noise, noise_within, running, suppress_below, published and times",
            got="one of them",
            fix="it is computed once, from the fit to what the other releases publish",
        )
        return self

    @model_validator(mode="after")
    def _noise_is_consistent(self) -> Self:
        require_plan(
            not self.hidden_by_noise or self.published,
            "hidden_by_noise with published = true",
            got="published = false",
            fix="which groups a noisy count hides is known once they are out",
        )
        require_plan(
            not self.noise_stddev or not self.noise,
            "noise_stddev or noise",
            got="noise_stddev and noise",
        )
        require_labels(self.noise)
        require_plan(
            not self.suppress_below or (bool(self.noise) and all(one.exact for one in self.noise)),
            "suppress_below with noise = { law = 'none' }, or rounding, within or cell-key",
            got="noise of another law" if self.noises else "a share of the budget",
            fix="which counts are blank depends on the secret, and no noise hides that",
        )
        require_plan(
            not self.numbers or (bool(self.noise) and all(one.exact for one in self.noise)),
            "numbers with noise = { law = 'none' }, or rounding, within or cell-key",
            got="noise of another law" if self.noises else "a share of the budget",
            fix="a noisy number excludes nothing; leave the file out",
        )
        self._check_mechanism()
        require_plan(
            not self.published or self.noise_given,
            "noise_stddev or noise for a release that is published",
            got="neither",
            fix="say how much noise it was published with",
        )
        least, most = self.noise_within
        require_plan(
            least <= most,
            "noise_within with the least before the most",
            got=f"{least:g} and {most:g}",
        )
        return self


class Plan(Section):
    """What will be released, or has been.

    >>> plan = Plan.model_validate({
    ...     "data": {"source": "homes.parquet", "record": "home", "secret": "watts", "bounds": [0, 9000]},
    ...     "privacy": {"epsilon": 1.0, "delta": 1e-5},
    ...     "release": [{"name": "mean", "sql": "SELECT feeder, AVG(watts) FROM data GROUP BY feeder"}],
    ... })
    >>> plan.data.secret_kind.value, plan.privacy.accountant, plan.releases[0].times
    ('number', 'gaussian-dp', 1)
    """

    data: Data
    # Their defaults as they are: to validate them would build four validators more than a plan needs.
    privacy: Privacy = Privacy.model_construct()
    releases: Annotated[tuple[Release, ...], Field(strict=False, min_length=1)] = Field(alias="release")
    attacker: Attacker = Attacker.model_construct()
    limits: Limits = Limits.model_construct()
    rules: Rules = Rules.model_construct()
    publish: Publish = Publish.model_construct()
    secrets: Annotated[tuple[OtherSecret, ...], Field(strict=False)] = Field(
        default=(),
        alias="secret",
        description="More secrets of the table, beside that of [data]. One with its column alone is what "
        "other plans publish something about: no release uses it here, and a pass has to accept 'secrets'.",
    )

    _belief: Belief | None = PrivateAttr(default=None)

    def believing(self, belief: Belief) -> Self:
        """The same plan under one belief of those that it leaves open: what is lowered to a design."""
        plan = self.model_copy()
        plan._belief = belief
        return plan

    @property
    def belief(self) -> Belief:
        """The belief that the plan is audited under."""
        if self._belief is not None:
            return self._belief
        beliefs = self.data.beliefs
        assert len(beliefs) == 1 or self.data.max_rows_per_record == 1, "a plan under one belief"
        return beliefs[0]

    @property
    def other_secrets(self) -> tuple[str, ...]:
        """Columns that are secret, and that this plan publishes nothing about."""
        return tuple(one.column for one in self.secrets if not one.audited)

    @model_validator(mode="after")
    def _secrets_are_distinct(self) -> Self:
        require_plan(
            not (self.data.parts and self.secrets),
            "a secret of several columns that is the only one",
            got="[[secret]] beside it",
            fix="write a plan for each",
        )
        names = [self.data.record, self.data.secret, *(one.column for one in self.secrets)]
        folded = Counter(name.casefold() for name in names)
        require_plan(
            not self.secrets or max(folded.values()) == 1,
            "a column of its own for the record and for each secret",
            got=f"{folded.most_common(1)[0][0]!r} twice",
        )
        return self

    @model_validator(mode="after")
    def _budget_covers_whoever_might_come(self) -> Self:
        priced = any(not release.noise_given for release in self.releases)
        require_plan(
            not (self.data.only_guarantee and priced) or self.privacy.covers_everyone,
            "a budget for every conceivable person, with secret = 'presence' and no frame",
            got=f"accountant = {self.privacy.accountant!r}, sensitivity = {self.privacy.sensitivity!r}",
            fix="leave them out, or give a frame: they price the noise for the people of this table",
        )
        return self

    @model_validator(mode="after")
    def _sums_may_be_negative(self) -> Self:
        require_plan(
            not self.publish.non_negative or self.data.domain[0] >= 0,
            "[publish] non_negative for a secret that is never negative",
            got=f"bounds from {self.data.domain[0]:g}",
        )
        return self

    @model_validator(mode="after")
    def _names_and_noise(self) -> Self:
        twice = [name for name, times in Counter(r.name for r in self.releases).items() if times > 1]
        require_plan(
            not twice,
            "a name of its own for each release",
            got=f"{twice[0] if twice else ''!r} twice",
            fix="for copies of one query use times",
        )
        priced = [release for release in self.releases if not (release.noise_given or release.derived)]
        derived = [release for release in self.releases if release.derived]
        require_plan(
            not derived or (self.publish.consistent and len(derived) < len(self.releases)),
            "derived = true beside measured releases, with consistent = true in [publish]",
            got="no other release" if self.publish.consistent else "consistent = false",
        )
        require_plan(
            not derived or not self.rules.given,
            "[rules] without derived releases",
            got="both",
            fix="rules are about the numbers that people see, and derived ones are not looked at by them",
        )
        within, (low, high) = self.attacker.values_within, self.data.domain
        require_plan(
            within is None or (self.data.secret_kind.measured and 2 * within <= high - low),
            "[attacker] values_within for a number, at most half the width of its bounds",
            got=f"{within} for {self.data.secret_kind.value}s from {low:g} to {high:g}",
        )
        population = isinstance(self.attacker.prior, Population)
        require_plan(
            not population or (self.data.secret_kind.measured and not self._several_secrets),
            "[attacker] prior: the file of a population for a number that is the only secret",
            got="several secrets" if self._several_secrets else f"a {self.data.secret_kind.value}",
        )
        points = self.attacker.prior.points if isinstance(self.attacker.prior, Population) else ()
        require_plan(
            not points or (low <= points[0] and points[-1] <= high),
            f"[attacker] prior: points from {low:g} to {high:g}, as the bounds are",
            got=f"{points[0]:g} to {points[-1]:g}" if points else "",
        )
        require_plan(
            not population or within is None,
            "[attacker] prior: the file of a population, or values_within",
            got="both",
            fix="values_within says what is known of each value, which a population does not",
        )
        require_plan(
            not self.data.level or (self.data.secret_kind.measured and within is None and not population),
            "[data] level for a number whose prior is named",
            got="what the attacker knows of each value, a population, or no number",
        )
        one_value = self.data.max_rows_per_record == 1 or self.data.values == "constant"
        stated = isinstance(self.attacker.prior, YesShare)
        require_plan(
            not stated or (self.data.secret_kind.two_values and one_value),
            "[attacker] prior = { yes = … } for a yes or no, of records with one row or one value",
            got=f"a {self.data.secret_kind.value}" + (" in several rows" if not one_value else ""),
        )
        self.check_known_to()
        self._check_guessed_right()
        require_plan(
            not priced or self.privacy.epsilon > 0,
            "[privacy] epsilon, or noise_stddev for every release",
            got=f"neither for release {priced[0].name if priced else ''!r}",
        )
        needless = not ACCOUNTANTS[self.privacy.accountant].uses_delta
        shares = any(
            noise.epsilon > 0 and not noise.law.pure for release in self.releases for noise in release.noise
        )
        require_plan(
            self.privacy.delta > 0 or (not shares and (not priced or needless)),
            "[privacy] delta",
            got="none",
            fix="give one far below one over the number of records, or use accountant = 'laplace'",
        )
        return self

    @property
    def _several_secrets(self) -> bool:
        return any(one.audited for one in self.secrets)

    def _check_guessed_right(self) -> None:
        """A limit on guesses is for few values, and above what is guessed right beforehand."""
        right, kind, prior = self.limits.guessed_right, self.data.secret_kind, self.attacker.prior
        if not right:
            return
        require_plan(
            not kind.measured and not self._several_secrets,
            "[limits] guessed_right for a yes or no, or a category, that is the only secret",
            got=f"a {kind.value}" if not self.secrets else "several secrets",
            fix="state a share: remaining_uncertainty = '50%'",
        )
        before = 1 / max(2, len(self.data.categories))
        before = max(prior.yes, 1 - prior.yes) if isinstance(prior, YesShare) else before
        require_plan(
            before < right < 1,
            f"[limits] guessed_right of more than {percent_stated(before)} and less than 100 %",
            got=percent_stated(right),
            fix="the likeliest value is right so often without any release" if right <= before else "",
        )

    def check_known_to(self) -> None:
        """A limit in the secret's unit is for one number, and below what is known of it beforehand."""
        known_to = self.limits.known_to
        if not known_to:
            return
        require_plan(
            self.data.secret_kind.measured and not self._several_secrets,
            "[limits] known_to for a number that is the only secret",
            got=f"a {self.data.secret_kind.value}" if not self.secrets else "several secrets",
            fix="state a share: remaining_uncertainty = '50%'",
        )
        within, prior = self.attacker.values_within, self.attacker.prior
        ends = self.data.domain if within is None else (-within, within)
        if isinstance(prior, Population) and not prior.bins:
            return  # it is asked again when the file is read
        stated = prior.prior(ends) if isinstance(prior, Population) else number_prior(str(prior), *ends)
        most = math.sqrt(LARGEST_LIMIT * stated.variance)
        require_plan(
            known_to <= most,
            f"[limits] known_to of at most {most:.6g}",
            got=f"{known_to:.6g}",
            fix="attackers know a value nearly so closely beforehand, by the bounds and the prior",
        )
