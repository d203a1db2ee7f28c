"""The findings of an audit: plan, membership and prices, and what the design they are lowered to exposes.

Every section of the result is a function of one :class:`Findings`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.lowering import BoolArray, Lowered, lower, sums_over_persons
from sightline.auditing.nonlinear import (
    MOST_ROWS,
    NonlinearFindings,
    features_kept,
    is_nonlinear,
    kept_with_nonlinear,
    nonlinear_findings,
    nonlinear_information,
)
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing, price
from sightline.auditing.questions import asking, coin_kept, distances, questions_of
from sightline.auditing.result_parts import SMALL_GROUP, Uncertainty
from sightline.auditing.secret_prior import SecretPrior
from sightline.auditing.table_units import key_columns
from sightline.errors import require
from sightline.labeled.assessment import UnitExposure, assess
from sightline.tables.membership import Membership, Partition, PersonTable, RowValues
from sightline.tables.subject import SecretKind

# Fetches keys of records from the engine, by numbers of signatures or of kinds of persons.
FetchKeys = Callable[[Sequence[int]], dict[int, tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """How to name records: owner-only."""

    of_signatures: FetchKeys  # those with a row of each signature
    of_kinds: FetchKeys  # the persons of each kind of the membership's table


# Rows, and units × rows, of a design that may be assessed again for each release and each accountant.
_MOST_ROWS, _MOST_ENTRIES = 400, 3e7
# Taking each release away costs an elimination of the rows.
_MOST_COMPARED, _AFFORDABLE = 4_000, 2e12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OtherRecords:
    """The unknown records of a streamed table that have no unit: a pass over all of them counted these.

    None of them is identifiable, alone or by the sum of its group, and none keeps less than the units that
    are kept for how little remains.
    """

    below: int  # records that may keep less than the limit
    signatures_below: int  # their signatures
    histogram: IndexArray  # records by their lower end, in the bins of the result's distribution
    relative_error: float  # a bound for their upper ends


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearFindings:
    """What a design exposes of what is asked of its units, and the limit that it is compared with.

    Arrays are over columns: of unit u and category c of k, column u k + c.
    """

    linear: Lowered
    exposure: UnitExposure  # through the linear releases alone
    lower: FloatArray  # the lower end of remaining uncertainty, through all releases
    limit: float | None
    others: OtherRecords | None = None  # records without a unit, of a table that is streamed

    @cached_property
    def upper(self) -> FloatArray:
        """The upper end of remaining uncertainty: what the best attack that is known leaves.

        A person with several rows is judged by the category of which it leaves least.
        """
        several, upper = (self.linear.rows_of_unit > 1)[:, None], self.exposure.upper_of_best
        return np.where(several, upper.min(axis=1, keepdims=True), upper).ravel()

    @property
    def counts(self) -> IndexArray:
        """The people of each column's unit."""
        return np.repeat(self.people, self._k)

    @property
    def people(self) -> IndexArray:
        """The people of each unit."""
        return self.exposure.design.units.people

    @property
    def _k(self) -> int:
        return self.linear.columns_of_unit

    @property
    def below(self) -> BoolArray:
        """Columns that the linear releases alone may leave less than the limit."""
        return self._less_than_limit(self.exposure.lower.ravel())

    @property
    def not_shown(self) -> BoolArray:
        """Columns that all releases together are not shown to leave the limit."""
        return self._less_than_limit(self.lower)

    def _less_than_limit(self, lower: FloatArray) -> BoolArray:
        return np.asarray(lower < (-np.inf if self.limit is None else self.limit))

    @cached_property
    def visible(self) -> BoolArray:
        """Columns of which the sum over the unit's people is identifiable.

        Where persons have several rows, all columns of a unit of whose rows some feature is.
        """
        several = (self.linear.rows_of_unit.max(initial=1) > 1) & (self.exposure.directions > 0)
        return np.asarray(self.exposure.identifiable.ravel() | np.repeat(several, self._k))

    @property
    def identifiable(self) -> BoolArray:
        """Columns of one person whose value is identifiable, or some feature of their rows."""
        return np.asarray(self.visible & (self.counts == 1))

    @property
    def undecided(self) -> int:
        """Columns of which it is neither proved nor refuted that they are identifiable."""
        return int(self.exposure.undecided.sum())

    @property
    def rank(self) -> int:
        """How many directions of the values the numbers see."""
        return self.exposure.solver.rank

    @property
    def listed(self) -> BoolArray:
        """Columns that are listed as exposed: below the limit, or visible in a small group.

        Where persons have several rows, those below and those of whom something is identifiable: of each the
        category of which least remains. Groups of rows are listed besides.
        """
        if self.linear.rows_of_unit.max(initial=1) == 1:
            found = self.below | (self.visible & (self.counts <= SMALL_GROUP))
            return np.asarray(found & np.tile(self.linear.asked, len(self.people)))
        units = self.per_unit(self.below | self.identifiable).any(axis=1)
        least = np.zeros((len(self.people), self._k), dtype=np.bool_)
        least[np.arange(len(self.people)), self.per_unit(self.lower).argmin(axis=1)] = units
        return least.ravel()

    @property
    def below_limit(self) -> int:
        """How many records are below the limit."""
        return self.records(self.below) + self._others_below

    @property
    def not_shown_records(self) -> int:
        """How many records are not shown to keep the limit."""
        return self.records(self.not_shown) + self._others_below

    @property
    def _others_below(self) -> int:
        return 0 if self.others is None else self.others.below

    @property
    def identifiable_records(self) -> int:
        """How many records have an identifiable value, or an identifiable feature of several rows."""
        return self.records(self.identifiable)

    @property
    def identifiable_groups(self) -> int:
        """How many groups of several records have an identifiable sum."""
        return int(np.count_nonzero(self.visible & (self.counts > 1)))

    @property
    def sharpest_rmse(self) -> float | None:
        """The least error of an unbiased attack on a value or on a unit feature of a record."""
        least = float(np.min(self.exposure.rmse.ravel()[self.identifiable], initial=np.inf))
        return least if np.isfinite(least) else None

    @property
    def relative_error(self) -> float:
        """A bound for the errors of unbiased attacks and for the upper ends."""
        of_others = 0.0 if self.others is None else self.others.relative_error
        return max(self.exposure.relative_error, of_others)

    @property
    def least_column(self) -> int | None:
        """The column with the least lower end; of several, the one with the least upper end."""
        if not self.lower.size:
            return None
        alike = np.flatnonzero(self.lower == self.lower.min())
        return int(alike[np.argmin(self.upper[alike])])

    @property
    def least(self) -> Uncertainty | None:
        """The bracket of :attr:`least_column`."""
        return None if self.least_column is None else self.bracket(self.least_column)

    @property
    def repeatable(self) -> bool:
        """Whether the design is small enough to be assessed again for each release and each accountant."""
        rows = self.linear.row_count
        return rows <= _MOST_ROWS and len(self.people) * rows <= _MOST_ENTRIES and self.others is None

    @property
    def comparable(self) -> bool:
        """Whether it can be asked of each release who is identifiable without it."""
        rows, releases = self.linear.row_count, self.linear.queries.size
        return rows <= _MOST_COMPARED and releases * float(rows) ** 3 <= _AFFORDABLE and self.others is None

    def most_exposed(self, columns: IndexArray, count: int) -> IndexArray:
        """The most exposed of some columns, worst first; ties go by error, then by position."""
        lower = self.lower[columns]
        if columns.size > count > 0:
            columns = columns[lower <= np.partition(lower, count - 1)[count - 1]]
            lower = self.lower[columns]
        chosen: IndexArray = columns[np.lexsort((columns, self.group_rmse(columns), lower))][:count]
        return chosen

    def group_rmse(self, columns: IndexArray) -> FloatArray:
        """The error of the best unbiased attack on each column's value or sum."""
        found: FloatArray = self.exposure.rmse.ravel()[columns]
        return found

    def bracket(self, column: int) -> Uncertainty:
        """The bracket of a column's remaining uncertainty."""
        return Uncertainty(lower=float(self.lower[column]), upper=float(self.upper[column]))

    def records(self, columns: BoolArray) -> int:
        """How many records have at least one of some columns."""
        return int(self.people @ self.per_unit(columns).any(axis=1))

    def per_unit(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of columns as a table, units × categories."""
        return values.reshape(len(self.people), -1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Findings:
    """A plan, its memberships and prices, and what they expose."""

    plan: Plan
    membership: Membership
    pricing: Pricing
    linear: LinearFindings | None  # none if nothing linear in the secret is published of an unknown record
    nonlinear: NonlinearFindings | None = None  # owner-only; none if all is linear or it costs too much
    questions: tuple[Findings, ...] = ()  # yes-or-no questions about the secret, each audited as a secret
    question: Partition | None = None  # the question that these findings are about, if they are
    made: dict[str, Any] = field(default_factory=dict, repr=False)  # findings with some of the rows

    @cached_property
    def prior(self) -> SecretPrior:
        """What the attacker knows of a secret beforehand."""
        return SecretPrior.of(self.plan)

    @property
    def streamed(self) -> bool:
        """Whether the table is streamed: then only numbers that passes over all records give are stated."""
        return self.membership.others is not None

    @property
    def guaranteed(self) -> bool:
        """Whether the noise alone keeps the limit, whatever the attacker knows and the table holds."""
        limit = self.plan.limits.remaining_uncertainty
        return limit is not None and self.pricing.kept_of_anything >= limit

    @property
    def has_nonlinear(self) -> bool:
        """Whether anything is published that is not linear in the secret."""
        return is_nonlinear(self.membership)

    @cached_property
    def key_columns(self) -> tuple[frozenset[int], ...]:
        """For every partition, the columns of its GROUP BY that are as good as a person's key."""
        return key_columns(self.membership)

    @property
    def one_value(self) -> bool:
        """Whether all rows of a record hold one value."""
        return self.plan.data.values == "constant"

    @cached_property
    def rows_apart(self) -> LinearFindings:
        """What is seen of every row by itself, where persons have several."""
        assert self.linear is not None
        apart = self.linear.linear.rows_apart()
        exposure = _assessed(apart, self.pricing)
        lower_ends = _lower(apart, exposure, self.pricing, None)
        return replace(self.linear, linear=apart, exposure=exposure, lower=lower_ends)

    @property
    def identifiable_groups(self) -> int:
        """How many groups of several records, or of rows of several, have an identifiable sum."""
        if self.linear is None:
            return 0
        several = self.linear.linear.rows_of_unit.max(initial=1) > 1
        return (self.rows_apart if several else self.linear).identifiable_groups

    def up_to(self, release: int) -> LinearFindings | None:
        """What is seen once the releases up to this one are published; none if nothing linear is yet."""
        if self.linear is None or release >= len(self.plan.releases) - 1:
            return self.linear
        return self._with(f"up to {release}", self.linear.linear.query_of_row <= release, up_to=release)

    def without(self, release: int) -> LinearFindings | None:
        """What is seen without one of the linear releases; none if it was the only one."""
        assert self.linear is not None
        return self._with(f"without {release}", self.linear.linear.query_of_row != release)

    def _with(self, name: str, rows: BoolArray, up_to: int | None = None) -> LinearFindings | None:
        if self.linear is None or rows.all():
            return self.linear
        if name not in self.made:
            self.made[name] = findings_with(self, self.linear.linear.take(rows), up_to=up_to)
        found: LinearFindings | None = self.made[name]
        return found

    @property
    def least(self) -> Uncertainty | None:
        """The bracket with the least lower end; none if nothing that is published depends on a secret.

        It is about the secret or about a yes-or-no question: see ``least_about``.
        """
        return self.least_about[0]

    @property
    def least_about(self) -> tuple[Uncertainty | None, Partition | None]:
        """The bracket with the least lower end, and the question that it is about; none for the secret."""
        brackets = [(self.own_least, self.question), *(one.least_about for one in self.questions)]
        found = [(one, about) for one, about in brackets if one is not None]
        return min(found, key=lambda pair: (pair[0].lower, pair[0].upper), default=(None, None))

    @property
    def below_limit(self) -> int:
        """How many records linear releases may leave less than the limit: of the secret or of a question."""
        own = 0 if self.linear is None else self.linear.below_limit
        return max([own, *(one.below_limit for one in self.questions)])

    @property
    def not_shown(self) -> int:
        """How many records are not shown to keep the limit, of the secret or of the worst question."""
        return max([self._own_not_shown, *(one.not_shown for one in self.questions)])

    @property
    def own_least(self) -> Uncertainty | None:
        """The bracket with the least lower end of the secret itself."""
        if self.linear is not None:
            return self.linear.least
        kept = self._kept_without_linear
        return Uncertainty(lower=float(kept.min()), upper=1.0) if kept.size else None

    @property
    def _own_not_shown(self) -> int:
        if self.linear is not None:
            return self.linear.not_shown_records
        limit, table = self.plan.limits.remaining_uncertainty, self.membership.persons
        unknown = (self.membership.counts - self.membership.known)[self._unknown]
        if table is not None:
            unknown = table.persons[_unknown_persons(table)]
        return 0 if limit is None else int(unknown[self._kept_without_linear < limit].sum())

    @property
    def _unknown(self) -> BoolArray:
        """Signatures with rows that the attacker does not know."""
        found: BoolArray = self.membership.counts > self.membership.known
        return found

    @property
    def _kept_without_linear(self) -> FloatArray:
        """What remains of each unknown signature, or kind of person, if nothing linear is published."""
        if not self.has_nonlinear:
            return np.zeros(0)
        carried, table = nonlinear_information(self.membership, self.pricing), self.membership.persons
        kept = kept_with_nonlinear if table is None else features_kept
        if table is None:
            carried = carried[self._unknown]
        else:
            carried = sums_over_persons(table, carried)[_unknown_persons(table)]
        found = kept(self.prior.number, np.zeros(carried.size), carried, self.pricing.bounding_law)
        return np.maximum(found, self.pricing.kept_of_anything)


def _unknown_persons(table: PersonTable) -> BoolArray:
    """Kinds of persons with a row that the attacker does not know."""
    return np.asarray(np.logical_or.reduceat(~table.known, table.starts[:-1]))


def find(
    plan: Plan,
    membership: Membership,
    *,
    values: Callable[[], RowValues] | None = None,
    linear: LinearFindings | None = None,
) -> Findings:
    """Price a plan, lower it and assess its design.

    ``values`` fetches the secrets, for releases not linear in them. ``linear`` has the findings of the linear
    part, if this plan was assessed before.
    """
    require(
        membership.contributions <= 1 or membership.persons is not None,
        "whose rows they are, where records have several",
        got="none",
    )
    pricing = price(plan, membership)
    nonlinear = None
    if values is not None and is_nonlinear(membership) and membership.rows <= MOST_ROWS:
        nonlinear = nonlinear_findings(plan, membership, pricing, values())
    return Findings(
        plan=plan,
        membership=membership,
        pricing=pricing,
        linear=linear_findings(plan, membership, pricing) if linear is None else linear,
        nonlinear=nonlinear,
        questions=tuple(_about(plan, membership, pricing, one) for one in questions_of(membership)),
    )


def _about(plan: Plan, membership: Membership, pricing: Pricing, question: Partition) -> Findings:
    """The findings about one yes-or-no question that the plan publishes."""
    about, seen = asking(plan, membership, question)
    found = linear_findings(about, seen, pricing)
    return Findings(plan=about, membership=seen, pricing=pricing, linear=found, question=question)


def linear_findings(
    plan: Plan, membership: Membership, pricing: Pricing, *, upper: bool = True
) -> LinearFindings | None:
    """What the linear part of a plan exposes at some prices; none if it has none. Upper ends if asked for."""
    lowered = lower(plan, membership, pricing)
    if lowered is None or not len(lowered.design.units):
        return None
    exposure = _assessed(lowered, pricing, upper=upper)
    return LinearFindings(
        linear=lowered,
        exposure=exposure,
        lower=_lower(lowered, exposure, pricing, None),
        limit=plan.limits.remaining_uncertainty,
    )


def findings_with(
    findings: Findings, lowered: Lowered | None, *, up_to: int | None = None
) -> LinearFindings | None:
    """Who is identifiable and what remains with some rows of the design only; none if it has no row.

    ``up_to`` is the last release that is published, of those that are not linear.
    """
    if findings.linear is None or lowered is None:
        return None
    exposure = _assessed(lowered, findings.pricing)
    lower_ends = _lower(lowered, exposure, findings.pricing, up_to)
    return replace(findings.linear, linear=lowered, exposure=exposure, lower=lower_ends)


def _assessed(lowered: Lowered, pricing: Pricing, *, upper: bool = True) -> UnitExposure:
    """The exposure of a design. No lower end is below what the noise of all releases leaves of anything."""
    exposure = assess(lowered.design, upper=upper)
    at_least = np.maximum(exposure.lower, pricing.kept_of_anything)
    return replace(exposure, lower=np.minimum(at_least, np.maximum(exposure.upper, exposure.lower)))


def _lower(lowered: Lowered, exposure: UnitExposure, pricing: Pricing, up_to: int | None) -> FloatArray:
    r"""The lower end through all releases: that of the linear ones, if there are no others.

    The linear releases carry at most :math:`\frac12 \ln\det(I + vG)` about a person's rows, and
    :math:`\det(I + vG) \le \prod_s (1 + v G_{ss})`. The others carry at most the sum over the rows.
    """
    membership = lowered.membership
    if not is_nonlinear(membership):
        return exposure.lower.ravel()
    if lowered.prior.kind is SecretKind.BOOLEAN:  # a question about a number
        records = membership if lowered.by_kind else replace(membership, persons=None, contributions=1)
        apart = lowered.of_records(distances(records, pricing, up_to=up_to))
        return np.maximum(coin_kept(apart) * pricing.lattice_share, pricing.kept_of_anything)
    prior, units, law = lowered.prior.number, lowered.units, pricing.bounding_law
    noise, table = lowered.design.noise, lowered.table
    own = np.asarray(table.power(2).T @ noise.information)
    if noise.shared:  # up to what rounding may hide
        precision = noise.precision.matrix[:-1, :-1]
        own = np.asarray(table.multiply(precision @ table).sum(axis=0)).ravel() * (1 + 1e-6)
    own = own * units.times
    told = np.add.reduceat(np.log1p(prior.variance * own), units.starts[:-1])
    information = np.expm1(np.minimum(told, 600.0)) / prior.variance
    carried = lowered.of_signatures(nonlinear_information(membership, pricing, up_to=up_to))
    kept = np.where(
        lowered.rows_of_unit == 1,
        kept_with_nonlinear(prior, information, carried, law),
        features_kept(prior, information, carried, law),
    )
    return np.maximum(kept, pricing.kept_of_anything)
