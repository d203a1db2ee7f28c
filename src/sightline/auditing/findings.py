"""The findings of an audit: plan, membership and prices, and what the design they are lowered to exposes.

Every section of the result is a function of one :class:`Findings`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from functools import cached_property, partial

import numpy as np

from sightline.arrays import MOST_SQUARE, FloatArray, IndexArray
from sightline.auditing.beliefs import Belief
from sightline.auditing.hidden_in_intervals import kept_in_intervals
from sightline.auditing.lowering import BoolArray, Lowered, lower, sums_over_persons
from sightline.auditing.nonlinear import (
    NonlinearFindings,
    features_kept,
    has_moments,
    is_nonlinear,
    kept_with_nonlinear,
    nonlinear_findings,
    nonlinear_information,
)
from sightline.auditing.plan import Plan
from sightline.auditing.pricing import Pricing, at_least_by_noise, kept_of_anything, price
from sightline.auditing.questions import asking, coin_kept, distances, question_text, questions_of
from sightline.auditing.result_parts import Uncertainty
from sightline.auditing.secret_prior import SecretPrior
from sightline.auditing.table_units import key_columns
from sightline.auditing.unit_findings import LinearFindings as LinearFindings
from sightline.auditing.unit_findings import OtherRecords as OtherRecords
from sightline.bounds.assessment import Bound, UnitExposure, assess
from sightline.bounds.walking import with_walk
from sightline.errors import require
from sightline.tables.membership import Membership, Partition, PersonTable, RowValues
from sightline.values import frozen

# Fetches keys of records from the engine, by numbers of signatures or of kinds of persons.
FetchKeys = Callable[[Sequence[int]], dict[int, tuple[str, ...]]]


@frozen(eq=True)
class Keys:
    """How to name records: owner-only."""

    of_signatures: FetchKeys  # those with a row of each signature
    of_kinds: FetchKeys  # the persons of each kind of the membership's table


NO_KEYS = Keys(of_signatures=lambda _: {}, of_kinds=lambda _: {})  # where nobody asks for names


@frozen(slots=False)
class Findings:
    """A plan, its memberships and prices, and what they expose."""

    plan: Plan
    membership: Membership
    pricing: Pricing
    linear: LinearFindings  # of nobody if nothing linear in the secret is published of an unknown record
    nonlinear: tuple[NonlinearFindings, ...] = ()  # owner-only; none if all is linear or it costs too much
    questions: tuple[Findings, ...] = ()  # yes-or-no questions about the secret, each audited as a secret
    question: Partition | None = None  # the question that these findings are about, if they are
    asked: str = ""  # the same as SQL would ask it
    others: tuple[Findings, ...] = ()  # the same plan under the other beliefs, none of which leaves less
    moved_at_most: float | None = None  # ``most_moved``, if a pass over all records of a store found it
    made: dict[str, LinearFindings] = field(default_factory=dict, repr=False)  # of some of the rows

    @cached_property
    def prior(self) -> SecretPrior:
        """What the attacker knows of a secret beforehand."""
        return SecretPrior.of(self.plan, self.membership)

    @property
    def streamed(self) -> bool:
        """Whether the table is streamed: then only numbers that passes over all records give are stated."""
        return self.membership.streamed

    @property
    def guaranteed(self) -> bool:
        """Whether the noise alone keeps the limit, whatever the attacker knows and the table holds.

        It leaves a share of whatever is open. It guarantees no ± of those who knew a value more closely.
        """
        return 0 < self.limit <= self.kept_by_noise and not self.plan.limits.from_before

    @cached_property
    def limit(self) -> float:
        """The share of a secret's variance that must remain, to the stated attacker; 0 without a limit."""
        return self.prior.limit(self.plan.limits)

    @cached_property
    def kept_by_noise(self) -> float:
        """The least share of the uncertainty about any unknown record that the noise alone leaves."""
        return float(kept_of_anything(np.array(self.most_moved)))

    @cached_property
    def most_moved(self) -> float:
        """How far any unknown record can move all numbers, in squared units of the noise."""
        if self.plan.data.only_guarantee:  # who is not there may be of no kind that the table has
            return self.pricing.moved_at_most
        if self.moved_at_most is not None:
            return self.moved_at_most
        if self.streamed and not self.membership.by_person:  # someone may be in every release
            return self.pricing.moved_at_most
        return float(self.membership.largest(partial(_most_moved, self.pricing)))

    @cached_property
    def by_rows_behind(self) -> LinearFindings | None:
        """What is seen of sums of a record's rows if each is spread in proportion to how many it adds up.

        That number is public. None if the secret is no such sum, or the numbers were not counted.
        """
        behind, bounds = self.membership.rows_behind, self.plan.data.bounds
        if not behind.rows.size or not bounds or not self.linear:
            return None
        most = max(1, int(behind.rows.max()))
        each = self.plan.data.model_copy(update={"bounds": (bounds[0] / most, bounds[1] / most)})
        plan = self.plan.model_copy(update={"data": each})
        if (population := self.prior.population) is not None:
            attacker = plan.attacker.model_copy(update={"prior": population.over(most)})
            plan = plan.model_copy(update={"attacker": attacker})
        return linear_findings(plan, self.membership.by_rows_behind(), self.pricing)

    @cached_property
    def has_nonlinear(self) -> bool:
        """Whether anything is published that is not linear in the secret."""
        return is_nonlinear(self.membership)

    @cached_property
    def key_columns(self) -> tuple[frozenset[int], ...]:
        """For every partition, the columns of its GROUP BY that are as good as a person's key."""
        return key_columns(self.membership)

    @property
    def one_value(self) -> bool:
        """Whether a record has one value to know: that of all its rows, or the level that they share."""
        return self.plan.belief.one_column

    @property
    def belief(self) -> Belief:
        """What the rows of a record are taken to have in common."""
        return self.plan.belief

    @cached_property
    def every_belief(self) -> tuple[Findings, ...]:
        """The findings under each belief that the plan leaves open, the worst first."""
        return (replace(self, others=(), made={}) if self.others else self, *self.others)

    @property
    def row_by_row(self) -> Findings:
        """The findings in which a record has a column for each row, if there are such; else these."""
        return next((one for one in self.every_belief if one.belief.by_row), self)

    @cached_property
    def rows_apart(self) -> LinearFindings:
        """What is seen of every row by itself, where persons have several."""
        rows = replace(self.membership, persons=PersonTable(), contributions=1)
        apart = lower(self.plan, rows, self.pricing)
        if self.belief.by_row:  # units with a column for each row: the same columns, and so the same products
            apart = replace(apart, design=replace(apart.design, made=self.linear.linear.design.made))
        if self.linear.others.streamed:
            exposure = self.linear.others.exposure(apart, self.pricing)
            return replace(self.linear, linear=apart, exposure=exposure, lower=exposure.lower.ravel())
        exposure = _assessed(apart, self.pricing)
        lower_ends = _lower(apart, exposure, self.pricing)
        return replace(self.linear, linear=apart, exposure=exposure, lower=lower_ends)

    @cached_property
    def row_units(self) -> IndexArray:
        """Of every row of a kind of person its unit among the rows one by one."""
        return np.asarray(self.rows_apart.linear.unit_of_record[self.linear.linear.row_signatures])

    @property
    def identifiable_groups(self) -> int:
        """How many groups of several records, or of rows of several, have an identifiable sum."""
        rows = self.row_by_row
        several = rows.linear.linear.rows_of_unit.max(initial=1) > 1
        return (rows.rows_apart if several else rows.linear).identifiable_groups

    def up_to(self, release: int) -> LinearFindings:
        """What is seen once the releases up to this one are published."""
        return self._with(f"up to {release}", self.linear.linear.query_of_row <= release, up_to=release)

    def without(self, release: int) -> LinearFindings:
        """What is seen without one of the linear releases."""
        return self._with(f"without {release}", self.linear.linear.query_of_row != release)

    def _with(self, name: str, rows: BoolArray, up_to: float = np.inf) -> LinearFindings:
        if rows.all():
            return self.linear
        if name not in self.made:
            seen = self.linear.exposure
            findings = findings_with(self, self.linear.linear.take(rows), up_to=up_to)
            if findings:  # what all rows do not identify, some of them do not either
                near = findings.exposure.near & ((seen.directions > 0) | seen.undecided)
                findings = replace(findings, exposure=replace(findings.exposure, near=near))
            self.made[name] = findings
        return self.made[name]

    @property
    def least(self) -> Uncertainty:
        """The bracket with the least lower end: of the secret, or of a yes-or-no question."""
        return self.worst.own_least

    @property
    def shows(self) -> bool:
        """Whether something that is published depends on a secret that the attacker does not know."""
        return self.worst.own_shows

    @property
    def worst(self) -> Findings:
        """The findings with the least lower end: these, or those about a yes-or-no question."""

        def ends(one: Findings) -> tuple[bool, float, float]:
            return not one.own_shows, one.own_least.lower, one.own_least.upper

        return min((self, *self.questions), key=ends)

    @property
    def below_limit(self) -> int:
        """How many records linear releases may leave less than the limit: of the secret or of a question."""
        others = (*self.questions, *self.others)
        return max([self.linear.below_limit, *(one.below_limit for one in others)])

    @property
    def not_shown(self) -> int:
        """How many records are not shown to keep the limit, of the secret or of the worst question."""
        own = self.linear.not_shown_records
        if not self.linear and self.limit:
            unknown = self.membership.unknown_people[self._unknown]
            own = int(unknown[self._kept_without_linear < self.limit].sum())
        return max([own, *(one.not_shown for one in (*self.questions, *self.others))])

    @property
    def own_least(self) -> Uncertainty:
        """The bracket with the least lower end of the secret itself."""
        if self.linear:
            return self.linear.least
        return Uncertainty(lower=float(np.min(self._kept_without_linear, initial=1.0)), upper=1.0)

    @property
    def own_shows(self) -> bool:
        """Whether something depends on an unknown secret itself, apart from the questions about it."""
        return bool(self.linear) or self._kept_without_linear.size > 0

    @property
    def judged(self) -> int:
        """How many records have a secret that the attacker does not know."""
        return max(self._judged, *(one.judged for one in self.others)) if self.others else self._judged

    @property
    def _judged(self) -> int:
        if not self.membership.by_person:
            return self.membership.rows - self.membership.known_rows
        if self.linear.others.streamed:
            return int(self.linear.people.sum()) + self.linear.others.people
        if self.one_value:  # to know one row is to know the value
            table = self.membership.persons
            return int(table.persons[~np.logical_or.reduceat(table.known, table.starts[:-1])].sum())
        if self.belief.block and self.linear:  # to know one row of a block is to know the block
            return int(self.linear.people.sum())
        return int(self.membership.unknown_people.sum())

    @property
    def _unknown(self) -> BoolArray:
        """Signatures, or kinds of persons, with rows that the attacker does not know."""
        return np.asarray(self.membership.unknown_people > 0)

    @property
    def _kept_without_linear(self) -> FloatArray:
        """What remains of each unknown signature, or kind of person, if nothing linear is published."""
        if not self.has_nonlinear:
            return np.zeros(0)
        carried, kept = nonlinear_information(self.membership, self.pricing), kept_with_nonlinear
        if self.membership.by_person:
            carried, kept = sums_over_persons(self.membership.persons, carried), features_kept
        carried = carried[self._unknown]
        by_information = kept(self.prior.number, np.zeros(carried.size), carried, self.pricing.bounding_law)
        return np.maximum(by_information, self.kept_by_noise)


def _most_moved(pricing: Pricing, membership: Membership) -> FloatArray:
    """How far any unknown record can move all numbers, in squared units of the noise."""
    return np.asarray(np.max(pricing.moved(membership)[membership.unknown_people > 0], initial=0.0))


def find(
    plan: Plan,
    membership: Membership,
    *,
    values: Callable[[], RowValues] | None = None,
    linear: LinearFindings | None = None,
) -> Findings:
    """Price a plan, lower it and assess its design.

    Of several beliefs that the plan leaves open the worst counts. ``values`` fetches the secrets, for
    releases not linear in them. ``linear`` has the findings of the linear part, if there are such already.
    """
    require(
        membership.contributions <= 1 or membership.by_person,
        "whose rows they are, where records have several",
        got="none",
    )
    pricing, plans = price(plan, membership), plans_by_belief(plan, membership)
    if plan.publish.consistent:
        from sightline.auditing.published_fit import check_fit  # few plans publish a fit

        check_fit(plan, membership, pricing)
    nonlinear: tuple[NonlinearFindings, ...] = ()
    # Real-valued rows are factorised as they are: cells × rows of the table, dense.
    if values is not None and has_moments(membership) and membership.rows <= MOST_SQUARE:
        nonlinear = nonlinear_findings(plans[0], membership, pricing, values())
    reused = linear if len(plans) == 1 else None
    return worst_belief(
        Findings(
            plan=one,
            membership=membership,
            pricing=pricing,
            linear=linear_findings(one, membership, pricing, walked=True) if reused is None else reused,
            nonlinear=nonlinear,
            questions=tuple(_about(one, membership, pricing, asked) for asked in questions_of(membership)),
        )
        for one in plans
    )


def worst_linear(
    plan: Plan, membership: Membership, pricing: Pricing, *, walked: bool = False
) -> LinearFindings:
    """What the linear part exposes under the belief that leaves least of what the limit asks for."""
    plans = plans_by_belief(plan, membership)
    by_belief = [linear_findings(one, membership, pricing, walked=walked) for one in plans]
    return min(by_belief, key=lambda one: (not one, one.least.lower / (one.limit or 1.0)))


def plans_by_belief(plan: Plan, membership: Membership) -> tuple[Plan, ...]:
    """The plan under each belief that it leaves open; of records with one row all beliefs are the same."""
    beliefs = plan.data.beliefs
    return tuple(plan.believing(one) for one in (beliefs if membership.by_person else beliefs[:1]))


def worst_belief(findings: Iterable[Findings]) -> Findings:
    """The findings under the belief that leaves least of what the limit asks for, with the others' beside."""

    def standing(one: Findings) -> tuple[bool, float, float, bool]:
        limit = one.limit or 1.0  # of two that leave as little, a level is the simpler thing to say
        return not one.shows, one.least.lower / limit, one.least.upper / limit, not one.one_value

    worst, *others = sorted(findings, key=standing)
    return replace(worst, others=tuple(others)) if others else worst


def _about(plan: Plan, membership: Membership, pricing: Pricing, question: Partition) -> Findings:
    """The findings about one yes-or-no question that the plan publishes."""
    about, seen = asking(plan, membership, question)
    linear = linear_findings(about, seen, pricing, walked=True)
    text = question_text(question, plan.data.secret)
    return Findings(
        plan=about, membership=seen, pricing=pricing, linear=linear, question=question, asked=text
    )


def linear_findings(
    plan: Plan,
    membership: Membership,
    pricing: Pricing,
    *,
    upper: bool = True,
    walked: bool = False,
    least: bool = False,
) -> LinearFindings:
    """What the linear part of a plan exposes at some prices. Upper ends, and lower ends by walks where the
    limit is in a bracket, if asked for; with ``least`` all that takes long is for the least lower end alone.
    """
    lowered = lower(plan, membership, pricing)
    limit = lowered.prior.limit(plan.limits)
    exposure = _assessed(lowered, pricing, upper=upper, limit=limit or np.inf, least=least)
    # As if they were exact, rounded counts have been bounded: a walk would take long, and find the same. Of
    # whoever may come nothing is known that a walk could start from.
    bounded = pricing.by_count_rule or lowered.only_guarantee
    if walked and not is_nonlinear(membership) and not bounded:
        ends = with_walk(lowered.design, exposure.lower, exposure.upper_of_best, limit)
        exposure = exposure.raised(ends, Bound.WALK)
    return LinearFindings(
        linear=lowered,
        exposure=exposure,
        lower=_lower(lowered, exposure, pricing),
        limit=limit,
        right_at_most=0.0 if is_nonlinear(membership) else plan.limits.guessed_right,
        limit_of_variance=lowered.prior.limit(plan.limits.without_guesses),
        attacks_claimed=not (pricing.by_count_rule or lowered.only_guarantee),
    )


def nothing_linear(plan: Plan, membership: Membership) -> LinearFindings:
    """Of nobody: nothing linear in the secret is published."""
    lowered = Lowered.of_nothing(SecretPrior.of(plan, membership), membership)
    exposure = assess(lowered.design)
    return LinearFindings(
        linear=lowered,
        exposure=exposure,
        lower=exposure.lower.ravel(),
        limit=lowered.prior.limit(plan.limits),
    )


def findings_with(findings: Findings, lowered: Lowered, *, up_to: float = np.inf) -> LinearFindings:
    """Who is identifiable and what remains with some rows of the design only; of nobody if it has no row.

    ``up_to`` is the last release that is published, of those that are not linear.
    """
    if not lowered.row_count:
        return nothing_linear(findings.plan, findings.membership)
    whole = findings.linear
    exposure = _assessed(lowered, findings.pricing, limit=whole.limit or np.inf)
    if lowered.design.place is whole.linear.design.place:  # what all numbers leave, some of them leave, too
        lower = np.maximum(exposure.lower, np.minimum(whole.exposure.lower, exposure.upper_of_best))
        exposure = exposure.raised(lower, whole.exposure.by)
    lower_ends = _lower(lowered, exposure, findings.pricing, up_to)
    return replace(findings.linear, linear=lowered, exposure=exposure, lower=lower_ends)


def _assessed(
    lowered: Lowered, pricing: Pricing, *, upper: bool = True, limit: float = np.inf, least: bool = False
) -> UnitExposure:
    """The exposure of a design. No lower end is below what the noise of all releases leaves of anything."""
    attacks = not (pricing.by_count_rule or lowered.only_guarantee)
    exposure = assess(lowered.design, upper=upper, limit=limit, least=least, attacks=attacks)
    if lowered.only_guarantee:  # nobody in the table hides whoever comes
        kept = np.full(exposure.lower.shape, float(kept_of_anything(np.array(pricing.moved_at_most))))
        return replace(exposure, lower=kept, by=int(Bound.NOISE))
    moved = lowered.of_records(pricing.moved(lowered.membership))
    exposure = exposure.raised(at_least_by_noise(exposure.lower, exposure.upper, moved), Bound.NOISE)
    if pricing.by_count_rule:
        within = np.maximum(exposure.lower, kept_in_intervals(lowered, pricing)[:, None])
        exposure = exposure.raised(within, Bound.INTERVALS)
    return exposure


def _kept_by_noise(lowered: Lowered, pricing: Pricing) -> FloatArray:
    """What the noise alone leaves of anything about each unit."""
    return kept_of_anything(lowered.of_records(pricing.moved(lowered.membership)))


def _lower(lowered: Lowered, exposure: UnitExposure, pricing: Pricing, up_to: float = np.inf) -> FloatArray:
    r"""The lower end through all releases: that of the linear ones, if there are no others.

    The linear releases carry at most :math:`\frac12 \ln\det(I + vG)` about a person's rows, and
    :math:`\det(I + vG) \le \prod_s (1 + v G_{ss})`. The others carry at most the sum over the rows.
    """
    membership = lowered.membership
    if not exposure.lower.size or not is_nonlinear(membership):
        return exposure.lower.ravel()
    if lowered.prior.kind.two_values:  # a question about a number
        apart = lowered.of_records(distances(membership, pricing, up_to=up_to))
        return np.maximum(coin_kept(apart) * pricing.lattice_share, _kept_by_noise(lowered, pricing))
    prior, units, law = lowered.prior.number, lowered.units, pricing.bounding_law
    noise, table = lowered.design.noise, lowered.table
    own = np.asarray(table.power(2).T @ noise.information)
    if noise.shared:  # up to what rounding may hide
        precision = noise.precision.matrix[:-1, :-1]
        own = np.asarray(table.multiply(precision @ table).sum(axis=0)).ravel() * (1 + 1e-6)
    own = own * units.times
    nats = np.add.reduceat(np.log1p(prior.variance * own), units.starts[:-1])
    information = np.expm1(np.minimum(nats, 600.0)) / prior.variance
    carried = lowered.of_signatures(nonlinear_information(membership, pricing, up_to=up_to))
    kept = np.where(
        lowered.rows_of_unit == 1,
        kept_with_nonlinear(prior, information, carried, law),
        features_kept(prior, information, carried, law),
    )
    return np.maximum(kept * pricing.lattice_share, _kept_by_noise(lowered, pricing))
