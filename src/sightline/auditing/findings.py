"""The findings of an audit: plan, membership and prices, and the exposures of the design that they make.

Every section of the result is a function of one :class:`Findings`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.brackets import assess, contributions_of
from sightline.auditing.design import LinearDesign, linear_design
from sightline.auditing.key_columns import key_columns
from sightline.auditing.nonlinear import (
    MOST_ROWS,
    NonlinearFindings,
    features_kept,
    is_nonlinear,
    kept_with_nonlinear,
    nonlinear_findings,
    nonlinear_information,
)
from sightline.auditing.persons import (
    PersonFindings,
    assess_persons,
    carried_by_persons,
    with_nonlinear,
)
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing, price
from sightline.auditing.questions import asking, coin_kept, distances, questions_of, row_distances
from sightline.auditing.result_parts import SMALL_GROUP, Uncertainty
from sightline.auditing.secret_prior import SecretPrior
from sightline.errors import require
from sightline.labeled.contributions import Contributions
from sightline.labeled.exposures import Exposures
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.routes.cost import Route
from sightline.progress import Progress, report, silent
from sightline.tables.membership import Membership, Partition, PersonTable, RowValues
from sightline.tables.subject import SecretKind

# Fetches keys of records from the engine, by numbers of signatures or of kinds of persons.
FetchKeys = Callable[[Sequence[int]], dict[int, tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """How to name records: owner-only."""

    of_signatures: FetchKeys  # those with a row of each signature
    of_kinds: FetchKeys  # the persons of each kind of the membership's table


# Taking releases away costs one elimination of the cells; with very uneven noise, a factorisation for each.
_MOST_CELLS, _AFFORDABLE, _AFFORDABLE_SECONDS = 4_000, 2e12, 120.0
# Rows, and columns × rows, of a design that may be assessed again for each release and each accountant.
_MOST_ROWS, _MOST_ENTRIES = 400, 3e7


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OtherRecords:
    """The unknown records of a streamed table that have no column: a pass over all of them counted these.

    None of them is identifiable, alone or by the sum of its group, and none keeps less than the columns that
    are kept for how little remains.
    """

    below: int  # records that may keep less than the limit
    signatures_below: int  # their signatures
    histogram: IndexArray  # records by their lower end, in the bins of the result's distribution
    relative_error: float  # a bound for their upper ends


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearFindings:
    """The exposures of a linear design's columns, and the limit that they are compared with."""

    linear: LinearDesign
    exposures: Exposures  # through the linear releases alone
    lower: FloatArray  # the lower end of remaining uncertainty, through all releases
    limit: float | None
    persons: PersonFindings | None = None  # none if each column stands for persons and not for rows
    others: OtherRecords | None = None  # records without a column, of a table that is streamed

    @property
    def counts(self) -> IndexArray:
        """Unknown records of each column, or rows where persons have several; 0 for known ones."""
        return np.where(self.linear.known, 0, self.linear.counts)

    @property
    def below(self) -> BoolArray:
        """Columns that the linear releases alone may leave less than the limit."""
        return self._less_than_limit(self.exposures.remaining_lower)

    @property
    def not_shown(self) -> BoolArray:
        """Columns that all releases together are not shown to leave the limit."""
        return self._less_than_limit(self.lower)

    def _less_than_limit(self, lower: FloatArray) -> BoolArray:
        if self.limit is None:
            return np.zeros(len(self.exposures), dtype=np.bool_)
        with np.errstate(invalid="ignore"):
            found: BoolArray = lower < self.limit
        return found

    @property
    def visible(self) -> BoolArray:
        """Columns whose value is identifiable, or the sum of whose records is."""
        exposures = self.exposures
        found: BoolArray = np.append(exposures.groups.identifiable, False)[exposures.group]
        return found

    @property
    def listed(self) -> BoolArray:
        """Columns that are listed as exposed: below the limit, or visible in a small group."""
        found: BoolArray = self.below | (self.visible & (self.counts <= SMALL_GROUP))
        return found

    @property
    def below_limit(self) -> int:
        """How many records are below the limit."""
        if self.persons is not None:
            return self.persons.count(self.persons.below)
        return self.records(self.below) + self._others_below

    @property
    def not_shown_records(self) -> int:
        """How many records are not shown to keep the limit."""
        if self.persons is not None:
            return self.persons.count(self.persons.not_shown)
        return self.records(self.not_shown) + self._others_below

    @property
    def _others_below(self) -> int:
        return 0 if self.others is None else self.others.below

    @property
    def identifiable_records(self) -> int:
        """How many records have an identifiable value, or an identifiable feature of several rows."""
        if self.persons is not None:
            return self.persons.count(self.persons.seen.identifiable)
        return self.records(self.exposures.identifiable)

    @property
    def sharpest_rmse(self) -> float | None:
        """The least error of an unbiased attack on a value or on a unit feature of a record."""
        found = self.exposures.rmse[self.exposures.identifiable]
        least = float(np.min(found, initial=np.inf))
        if self.persons is not None:
            least = min(least, self.persons.sharpest_rmse)
        return least if np.isfinite(least) else None

    @property
    def relative_error(self) -> float:
        """A bound for the errors of unbiased attacks, on persons, too, and for the upper ends."""
        of_persons = 0.0 if self.persons is None else self.persons.seen.relative_error
        of_others = 0.0 if self.others is None else self.others.relative_error
        return max(self.exposures.relative_error, of_persons, of_others)

    @property
    def identifiable_groups(self) -> int:
        """How many groups of several records have an identifiable sum."""
        return int(np.count_nonzero(self.exposures.groups.identifiable & (self.exposures.groups.sizes > 1)))

    @property
    def least(self) -> Uncertainty | None:
        """The bracket with the least lower end; of several, the one with the least upper end."""
        lower, upper = self.lower, self.exposures.remaining_upper
        if np.all(np.isnan(lower)):
            return None
        if self.persons is not None:
            return self.persons.least
        alike = np.flatnonzero(lower == np.nanmin(lower))
        return self.bracket(int(alike[np.argmin(upper[alike])]))

    @property
    def repeatable(self) -> bool:
        """Whether the design is small enough to be assessed again for each release and each accountant."""
        design = self.linear.design
        small = design.row_count <= _MOST_ROWS and design.size * design.row_count <= _MOST_ENTRIES
        return small and self.others is None

    def most_exposed(self, columns: IndexArray, count: int) -> IndexArray:
        """The most exposed of some columns, worst first; ties go by position."""
        lower = self.lower[columns]
        if columns.size > count:
            columns = columns[lower <= np.partition(lower, count - 1)[count - 1]]
            lower = self.lower[columns]
        chosen: IndexArray = columns[np.lexsort((columns, self.group_rmse(columns), lower))][:count]
        return chosen

    def group_rmse(self, columns: IndexArray) -> FloatArray:
        """The error of the best unbiased attack on each column's value or sum."""
        found: FloatArray = self.exposures.groups.rmse[self.exposures.group[columns]]
        return found

    def bracket(self, column: int) -> Uncertainty:
        """The bracket of a column's remaining uncertainty."""
        return Uncertainty(
            lower=float(self.lower[column]),
            upper=float(self.exposures.remaining_upper[column]),
        )

    def records(self, columns: BoolArray) -> int:
        """How many records have at least one of some columns."""
        return int(self.per_record(self.counts)[0] @ self.per_record(columns).any(axis=0))

    def per_record(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of columns as a table: the categories of one record below each other."""
        return values.reshape(self.linear.blocks, -1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Findings:
    """A plan, its memberships and prices, and what they expose."""

    plan: Plan
    membership: Membership
    pricing: Pricing
    prior: SecretPrior
    linear: LinearFindings | None  # none if nothing linear in the secret is published
    nonlinear: NonlinearFindings | None  # owner-only; none if all is linear, not asked for or costs too much
    by_release: bool = True  # whether contributions of the releases may be asked for
    questions: tuple[Findings, ...] = ()  # yes-or-no questions about the secret, each audited as a secret
    question: Partition | None = None  # the question that these findings are about, if they are

    @cached_property
    def contributions(self) -> Contributions | None:
        """What each release adds; none if nobody is identifiable, or if it costs too much."""
        return _contributions(self.linear, report) if self.linear is not None and self.by_release else None

    @property
    def streamed(self) -> bool:
        """Whether the table is streamed: then only numbers that passes over all records give are stated."""
        return self.membership.others is not None

    @property
    def has_nonlinear(self) -> bool:
        """Whether anything is published that is not linear in the secret."""
        return is_nonlinear(self.membership)

    @cached_property
    def key_columns(self) -> tuple[frozenset[int], ...]:
        """For every partition, the columns of its GROUP BY that are as good as a person's key."""
        return key_columns(self.membership)

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
            carried = carried_by_persons(table, carried)[_unknown_persons(table)]
        return kept(self.prior.number, np.zeros(carried.size), carried, self.pricing.bounding_law)


def _unknown_persons(table: PersonTable) -> BoolArray:
    """Kinds of persons with a row that the attacker does not know."""
    return np.asarray(np.logical_or.reduceat(~table.known, table.starts[:-1]))


def find(
    plan: Plan,
    membership: Membership,
    *,
    values: Callable[[], RowValues] | None = None,
    linear: LinearFindings | None = None,
    by_release: bool = True,
    progress: Progress = silent,
) -> Findings:
    """Price a plan and assess its design. ``values`` fetches the secrets, for releases not linear in them.

    ``linear`` has the findings of the linear part, with attacks, if this plan was assessed before. Without
    ``by_release`` there are no contributions of the releases.
    """
    require(
        membership.contributions <= 1 or membership.persons is not None,
        "whose rows they are, where records have several",
        got="none",
    )
    pricing = price(plan, membership)
    if linear is None:
        linear = linear_findings(plan, membership, pricing, progress=progress)
    nonlinear = None
    if values is not None and is_nonlinear(membership) and membership.rows <= MOST_ROWS:
        nonlinear = nonlinear_findings(plan, membership, pricing, values(), progress)
    return Findings(
        plan=plan,
        membership=membership,
        pricing=pricing,
        prior=SecretPrior.of(plan),
        linear=linear,
        by_release=by_release,
        nonlinear=nonlinear,
        questions=_questions(plan, membership, pricing, progress),
    )


def _questions(
    plan: Plan, membership: Membership, pricing: Pricing, progress: Progress
) -> tuple[Findings, ...]:
    """The findings about every yes-or-no question that the plan publishes."""
    found = []
    for question in questions_of(membership):
        about, seen = asking(plan, membership, question)
        found.append(
            Findings(
                plan=about,
                membership=seen,
                pricing=pricing,
                prior=SecretPrior.of(about),
                linear=linear_findings(about, seen, pricing, progress=progress),
                nonlinear=None,
                by_release=False,
                question=question,
            )
        )
    return tuple(found)


def linear_findings(
    plan: Plan,
    membership: Membership,
    pricing: Pricing,
    *,
    attacks: bool = True,
    progress: Progress = silent,
) -> LinearFindings | None:
    """The exposures of the linear part of a plan at some prices; none if it has no linear part.

    Without ``attacks`` it says who is identifiable and what remains, and not how large the errors are.
    """
    linear = linear_design(plan, membership, pricing)
    if linear is None:
        return None
    exposures = assess(linear, progress, attacks=attacks)
    found = LinearFindings(
        linear=linear,
        exposures=exposures,
        lower=_lower(linear, exposures, membership, pricing, None),
        limit=plan.limits.remaining_uncertainty,
    )
    return _with_persons(found, membership, pricing, None, progress)


def findings_up_to(findings: Findings, release: int) -> LinearFindings | None:
    """Who is identifiable and what remains once the releases up to this one are published.

    None if nothing linear is yet.
    """
    found = findings.linear
    if found is None or release == len(findings.plan.releases) - 1:
        return found
    return findings_with(findings, found.linear.up_to(release), up_to=release)


def findings_with(
    findings: Findings, linear: LinearDesign | None, *, up_to: int | None = None
) -> LinearFindings | None:
    """Who is identifiable and what remains with some rows of the design only; none if it has no row.

    ``up_to`` is the last release that is published, of those that are not linear.
    """
    found = findings.linear
    if found is None or linear is None:
        return None
    exposures = assess(linear, silent, attacks=False)
    lower = _lower(linear, exposures, findings.membership, findings.pricing, up_to)
    now = replace(found, linear=linear, exposures=exposures, lower=lower)
    return _with_persons(now, findings.membership, findings.pricing, up_to, silent)


def _with_persons(
    found: LinearFindings, membership: Membership, pricing: Pricing, up_to: int | None, progress: Progress
) -> LinearFindings:
    """The same with what is seen of persons with several rows."""
    people = assess_persons(found.linear, found.exposures, membership, progress)
    if people is None:
        return found
    people = with_nonlinear(people, found.linear, membership, pricing, up_to)
    return replace(found, persons=replace(people, limit=found.limit))


def _lower(
    linear: LinearDesign, exposures: Exposures, membership: Membership, pricing: Pricing, up_to: int | None
) -> FloatArray:
    """The lower end through all releases: that of the linear ones, if there are no others."""
    if not is_nonlinear(membership):
        return exposures.remaining_lower
    if linear.prior.kind is SecretKind.BOOLEAN:  # a question about a number
        kept = coin_kept(_column_distances(linear, membership, pricing, up_to)) * pricing.lattice_share
        return np.where(exposures.known, np.nan, kept)
    carried = linear.of_columns(nonlinear_information(membership, pricing, up_to=up_to))
    kept = kept_with_nonlinear(linear.prior.number, exposures.information, carried, pricing.bounding_law)
    return np.where(exposures.known, np.nan, kept)


def _column_distances(
    linear: LinearDesign, membership: Membership, pricing: Pricing, up_to: int | None
) -> FloatArray:
    """How far apart the answers of a yes and a no are, for every column."""
    if linear.people is not None:
        each = distances(membership, pricing, up_to=up_to)[linear.people.kind]
        return np.asarray(each[linear.column_signature])
    return linear.of_columns(row_distances(membership, pricing, up_to=up_to))


def _contributions(found: LinearFindings, progress: Progress) -> Contributions | None:
    """What each release adds, if anyone is identifiable and the question is affordable."""
    design, cost = found.linear.design, found.exposures.cost
    if cost.route is Route.SPARSE:
        # Two parts of the design for each release, of which decisions and attacks alone are computed.
        costly = design.release_count * cost.seconds_again > _AFFORDABLE_SECONDS
    else:
        work = design.release_count * float(design.row_count) ** 3
        costly = design.row_count > _MOST_CELLS or work > _AFFORDABLE
    if costly or not np.any(found.visible) or not design.incidence.whole:
        return None
    contributions = contributions_of(found.linear, found.exposures, progress)
    undecided = np.isnan(contributions.rmse_in_order) | np.isnan(contributions.rmse_without)
    return None if undecided.any() else contributions
