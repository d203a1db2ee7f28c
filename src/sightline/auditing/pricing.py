r"""The sensitivity of every published number of a plan, and the noise that the budget buys for it.

Neighbours are tables in which one record's secrets differ; who is in which group is public. A record with
:math:`s_c` rows in cell :math:`c`, which has :math:`n_c` rows, moves its sum by at most :math:`s_c w` and its
mean by :math:`s_c w / n_c`, where :math:`w` is the range of what is aggregated. The cells of a partition are
disjoint. Its *row norm* is

.. math:: m = \max_j \Bigl(\sum_c s_{jc}^2\Bigr)^{1/2}

over the records (under Laplace noise :math:`\max_j \sum_c s_{jc}`): with Gaussian noise
:math:`\sqrt{\kappa}\,m w/n_c` on cell :math:`c`, a record moves the partition by
:math:`\sum_c (s_{jc}/m)^2 \le 1` in units of the noise, squared, and the partition counts as one release.
Four rows in one cell have the norm 4, four rows in four cells the norm 2. That is the norm with
``sensitivity = "memberships"``; by default it is the contribution limit of the plan, for any record,
wherever its rows are. Where a row's feature is multiplied by a public weight, :math:`w` is also multiplied
by the largest absolute weight in the cell.

A histogram of a categorical secret is several partitions over the same rows, one for each category. A record
that changes its category moves two of them: they are one release together, of sensitivity :math:`\sqrt2` (2
under Laplace and geometric noise).

Each partition has noise of one law (:mod:`sightline.privacy.law`). Its *parameter* is what accountants
count, its *scale* is what bounds on attacks count. A number that is published exactly has the parameter 0.
Its scale is a millionth of the least noise around it: attacks on that noise do no better than on none. Lower
ends do not rely on it (:mod:`sightline.auditing.exact_numbers`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.plan import Plan
from sightline.auditing.plan_fields import LARGEST, SMALLEST
from sightline.auditing.record_costs import CellCosts, most_own_releases, squared_norms
from sightline.auditing.stated_noise import (
    check_laws,
    count_rules,
    stated_laws,
    stated_parameters,
    strategies_of,
)
from sightline.errors import InvalidPlan, require_plan
from sightline.noise.count_rules import CountRule
from sightline.noise.laws import CorrelatedNoise, GaussianNoise, LaplaceNoise, MixedNoise, Noise
from sightline.noise.pricing import price as price_releases
from sightline.noise.strategies import Strategy
from sightline.privacy.law import Cost, Law, LawFacts, Parameters
from sightline.privacy.registry import accountant_named
from sightline.tables.membership import Band, Feature, Membership, Partition, Statistic
from sightline.values import frozen

BoolArray = NDArray[np.bool_]
# The noise of a number that is published exactly, in attacks: this much of the least noise around it.
_ALMOST_EXACT = 1e-6
# Rounding of a sum and its exponential. Discrete Gaussian noise of 1.5 and more has 1e-17 less than Gaussian.
_ROUNDING_OF_SHARE = 1e-12
# What noise and sensitivities may be, in the secret's unit to some power.
SMALLEST_SIZE, LARGEST_SIZE = SMALLEST**2, LARGEST**2


@frozen(slots=False)
class Pricing:
    """The noise on every cell, for one copy of a release, and the releases that an accountant counts."""

    laws: tuple[Law, ...]  # of each partition
    owner: IndexArray  # the partition of each cell
    sensitivity: FloatArray  # of each cell: the largest change, times the factor of a histogram
    parameter: FloatArray  # of the noise on each cell: sigma, or a Laplace or geometric scale; 0 if exact
    bundles: tuple[tuple[int, ...], ...]  # partitions that are paid for together: releases to an accountant
    times: IndexArray  # copies of each partition
    shared: tuple[tuple[int, ...], ...]  # the bundles that the budget pays for
    releases: int  # how many releases they are
    row_norms: FloatArray  # of each partition: the rows of a record that its sensitivity is priced for
    table_norms: FloatArray  # the same for the rows that records of this table have
    # Of partitions whose numbers share noise: their parameter is the stddev of the noise that is drawn.
    strategies: Mapping[int, Strategy] = field(default_factory=dict)
    rules: tuple[
        CountRule, ...
    ] = ()  # how the counts of each partition are published, if not all as they are
    # What one record's answer costs by the chances of a count's own rule; infinite where there are none.
    rule_costs: FloatArray = field(default_factory=lambda: np.zeros(0))

    @property
    def by_count_rule(self) -> bool:
        """Whether some counts are rounded, blank or changed by a rule: no attack is claimed on them."""
        return bool(self.rules)

    @cached_property
    def exact(self) -> BoolArray:
        """Cells that are published without noise."""
        exact: BoolArray = self.parameter == 0
        return exact

    @cached_property
    def laplace_answers(self) -> FloatArray:
        """How many Laplace answers each cell counts as; 0 if it tells no more than a Gaussian one."""
        return np.array([law.laplace_answers for law in self.laws])[self.owner]

    @cached_property
    def gaussian(self) -> bool:
        """Whether every number has Gaussian noise."""
        return all(law.facts.cost is Cost.GAUSSIAN for law in self.bundle_laws)

    @property
    def bounding_law(self) -> Law:
        """The law whose bounds for one value hold: Laplace where any noise is of that kind."""
        return Law.LAPLACE if self.laplace_answers.any() else Law.GAUSSIAN

    @cached_property
    def scale(self) -> FloatArray:
        """One over the root of the information about each cell: a standard deviation, or a Laplace scale."""
        scale = self.information_parameter
        if self.strategies:
            scale = np.where(np.isin(self.owner, list(self.strategies)), self.noise_stddev, scale)
        if not self.exact.any():
            return scale
        ratio = np.where(self.exact, 1.0, scale / self.sensitivity)
        return np.where(self.exact, _ALMOST_EXACT * min(1.0, float(ratio.min())) * self.sensitivity, scale)

    @cached_property
    def affinity_scale(self) -> FloatArray:
        """The same where affinities of answers alone are bounded: of geometric noise its own scale b."""
        whole = np.array([law.pure and law.on_lattice for law in self.laws])[self.owner]
        return np.where(
            whole & ~self.exact, self._of_laws(lambda law: law.affinity_scale) * (1 - 1e-15), self.scale
        )

    @cached_property
    def information_parameter(self) -> FloatArray:
        """One over the root of the information, in units of what the sensitivity is in; 0 if exact."""
        return self._of_laws(lambda law: law.information_scale)

    @cached_property
    def noise_stddev(self) -> FloatArray:
        """The standard deviation of the noise on each cell; of steps, in the best unbiased combination."""
        return self._with_strategies(lambda strategy: np.diagonal(strategy.covariance))

    @cached_property
    def published_stddev(self) -> FloatArray:
        """The standard deviation of the noise on each published number: that of a step is a running sum."""
        return self._with_strategies(lambda strategy: strategy.published_variances)

    def _with_strategies(self, variances: Callable[[Strategy], FloatArray]) -> FloatArray:
        """Standard deviations of all cells, with those of strategies by the variances for noise of 1."""
        stddevs_of_cells = self._of_laws(lambda law: law.stddev)
        for p, strategy in self.strategies.items():
            cells = np.flatnonzero(self.owner == p)
            stddevs = np.sqrt(variances(strategy))
            stddevs_of_cells[cells] = self.parameter[cells] * np.tile(stddevs, cells.size // strategy.steps)
        return stddevs_of_cells

    @cached_property
    def covariance(self) -> FloatArray:
        """The covariance of the noise on the cells, where numbers share it."""
        covariance = np.diag(self.noise_stddev**2)
        for cells, strategy in self.steps():
            covariance[np.ix_(cells, cells)] = strategy.covariance * self.parameter[cells[0]] ** 2
        return covariance

    def running_sums(self, values: FloatArray) -> FloatArray:
        """Values of cells as they are published: those of steps added up, where running sums are."""
        sums = values.copy()
        for cells, strategy in self.steps():
            if strategy.running:
                sums[cells] = np.cumsum(values[cells])
        return sums

    def steps(self) -> Iterator[tuple[IndexArray, Strategy]]:
        """The cells of all steps of a strategy, for every value of the other columns of GROUP BY."""
        for p, strategy in self.strategies.items():
            for cells in np.flatnonzero(self.owner == p).reshape(-1, strategy.steps):
                yield cells, strategy

    @cached_property
    def bundle_laws(self) -> tuple[Law, ...]:
        """The law of each bundle."""
        return tuple(self.laws[bundle[0]] for bundle in self.bundles)

    @property
    def copies(self) -> IndexArray:
        """How many releases each bundle is to an accountant."""
        return self.times[[bundle[0] for bundle in self.bundles]]

    @cached_property
    def multipliers(self) -> FloatArray:
        """Noise over sensitivity, one for each release that an accountant counts; 0 if it is exact."""
        return np.repeat(self._least_of_bundles(self.parameter / self.sensitivity), self.copies)

    @cached_property
    def information_multipliers(self) -> FloatArray:
        """The same by what bounds on attacks count."""
        return np.repeat(self._bundle_multipliers * self._room, self.copies)

    @property
    def _room(self) -> FloatArray:
        """Of each bundle, by how much more rows a record is priced for than any has: bounds on attacks are
        about this table."""
        first = [bundle[0] for bundle in self.bundles]
        norms = self.table_norms[first]
        return np.where(norms > 0, self.row_norms[first] / np.where(norms > 0, norms, 1.0), 1.0)

    def moved(self, membership: Membership) -> FloatArray:
        """How far one record can move all numbers, in squared units of the noise: S.

        Of every kind of person, or of every signature where nobody has several rows. An exact number is moved
        infinitely far by those who are in it.
        """
        return self.moves.by_record(membership)

    @property
    def moves(self) -> CellCosts:
        """How far one record with all rows that are priced for moves each number, squared."""
        with np.errstate(divide="ignore"):  # an exact number is moved infinitely far
            costs = (self.sensitivity / self._of_laws(lambda law: law.affinity_scale)) ** 2
        if self.rules:
            costs = np.where(self.exact, self.rule_costs, costs)
        return CellCosts(
            costs=costs,
            bundles=self.bundles,
            times=self.times,
            row_norms=self.row_norms,
            strategies=self.strategies,
        )

    @property
    def moved_at_most(self) -> float:
        """The same of a record that is in every release, or of any."""
        if self.exact.any():
            return math.inf
        least = (
            self._least_of_bundles(self._of_laws(lambda law: law.affinity_scale) / self.sensitivity)
            * self._room
        )
        return float(np.sum(np.repeat(least, self.copies) ** -2.0))

    def told_at_most(self, factor: float = 1.0) -> float:
        """The nats that all releases tell about one value at most, with all noise multiplied by a factor."""
        each = [
            law.facts.information_at_most(multiplier)
            for multiplier, law in zip(self._bundle_multipliers * factor, self.bundle_laws, strict=True)
        ]
        return float(np.sum(np.repeat(np.asarray(each), self.copies)))

    @property
    def lattice_share(self) -> float:
        """At least the probability that no number tells more than its information says."""
        copies = self.times[self.owner]
        fails = (law.facts.stand_in_fails * float(copies[self._under(law)].sum()) for law in set(self.laws))
        return max(0.0, 1 - math.fsum(fails))

    @property
    def too_little(self) -> bool:
        """Whether some noise is less than the bounds of its law are proved for."""
        return any(
            bool(np.any(self.parameter[self._under(law)] < law.facts.least_parameter))
            for law in set(self.laws)
        )

    def _under(self, law: Law) -> BoolArray:
        """The cells whose noise has a law."""
        return np.array([one is law for one in self.laws], dtype=np.bool_)[self.owner]

    def scaled(self, factor: float) -> Pricing:
        """The same releases with all standard deviations multiplied by a factor; exact numbers stay exact."""
        return replace(
            self,
            parameter=self._of_laws(
                lambda law: lambda parameter: law.parameter_of_stddev(law.stddev(parameter) * factor)
            ),
        )

    @cached_property
    def _bundle_multipliers(self) -> FloatArray:
        return self._least_of_bundles(self._bounding_parameter / self.sensitivity)

    @property
    def _bounding_parameter(self) -> FloatArray:
        return np.where(self.exact, self.scale, self.information_parameter)

    def _least_of_bundles(self, ratio: FloatArray) -> FloatArray:
        """The least of a number of each cell, for each bundle."""
        least = [min(float(ratio[self.owner == p].min()) for p in bundle) for bundle in self.bundles]
        return np.asarray(least, dtype=np.float64)

    def _of_laws(self, of: Callable[[LawFacts], Parameters]) -> FloatArray:
        """A function of the parameter of every cell, which is that of the cell's law."""
        numbers = np.zeros(self.parameter.size)
        for law in set(self.laws):
            cells = np.flatnonzero(self._under(law))
            numbers[cells] = of(law.facts)(self.parameter[cells])
        return numbers


def kept_of_anything(moved: FloatArray) -> FloatArray:
    r"""At least the share of an attacker's uncertainty about anything of a record that the noise leaves.

    :math:`e^{-\frac14 S}`, if the record moves all numbers by S at most. It holds whatever the attacker knows
    of all others, whatever they believe of this person, and for every function of the person's rows
    (docs/theory/priors.md, *What the noise alone leaves*).
    """
    return np.asarray(np.exp(-0.25 * moved) * (1 - _ROUNDING_OF_SHARE))


def at_least_by_noise(lower: FloatArray, upper: FloatArray, moved: FloatArray) -> FloatArray:
    """Lower ends of units that move all numbers so far, not below what the noise leaves of anything."""
    return np.minimum(np.maximum(lower, kept_of_anything(moved)[:, None]), np.maximum(upper, lower))


def price(plan: Plan, membership: Membership) -> Pricing:
    """Sensitivities and noise of all cells."""
    limit = plan.data.max_rows_per_record
    require_plan(
        membership.contributions <= limit,
        f"at most {limit} row(s) a record",
        got=f"a record with {membership.contributions}",
        fix=f"set max_rows_per_record = {membership.contributions} in [data], or aggregate the rows first",
    )
    laws = stated_laws(plan, membership)
    owner = np.array([cell.partition for cell in membership.cells], dtype=np.intp)
    rows = np.array([cell.rows for cell in membership.cells], dtype=np.float64)
    bundles = bundled(membership)
    check_laws(plan, membership, laws, bundles)
    together = {p: len(bundle) for bundle in bundles for p in bundle}
    reach = np.array(
        [
            feature_range(part, plan.data.domain)
            # A record leaves one category and enters another: two cells.
            * ((2.0 if laws[p].pure else math.sqrt(2)) if together.get(p, 1) > 1 else 1.0)
            for p, part in enumerate(membership.partitions)
        ]
    )
    mean = np.array([part.statistic is Statistic.MEAN for part in membership.partitions])
    strategies = strategies_of(plan, membership)
    row_norms, table_norms = (
        row_norms_of(plan, membership, bundles, laws, strategies, declared=declared)
        for declared in (plan.privacy.sensitivity == "declared", False)
    )
    weights = membership.largest_weights.copy()
    for p in strategies:  # of rows in several steps, all may have the largest weight
        weights[owner == p] = weights[owner == p].max()
    sensitivity = row_norms[owner] * reach[owner] * weights / np.where(mean[owner], rows, 1.0)
    has_own = np.array([plan.releases[part.query].noise_given for part in membership.partitions])
    times = np.array([plan.releases[p.query].times for p in membership.partitions], dtype=np.intp)
    shared = tuple(bundle for bundle in bundles if not has_own[bundle[0]])
    count = int(sum(times[bundle[0]] for bundle in shared))
    parameter = stated_parameters(plan, membership, laws, bundles, sensitivity)
    exact = np.array([law.exact for law in laws], dtype=np.bool_)[owner]
    if count:
        rule, mine = accountant_named(plan.privacy.accountant, plan.privacy.budget), None
        if rule.counts_own_releases:
            mine = most_own_releases(membership, shared=shared, times=times, row_norms=row_norms)
        paid = price_releases(rule, sensitivity, releases=count, own_releases=mine).scales
        parameter = np.where(has_own[owner], parameter, paid)
    _check_sizes(
        plan,
        membership,
        {"change of one record": sensitivity, "noise": np.where(exact, sensitivity, parameter)},
    )
    rules = count_rules(plan, membership)
    if all(rule.exact for rule in rules):
        rules = ()
    return Pricing(
        laws=laws,
        owner=owner,
        sensitivity=sensitivity,
        parameter=parameter,
        bundles=bundles,
        times=times,
        shared=shared,
        releases=count,
        row_norms=row_norms,
        table_norms=table_norms,
        strategies=strategies,
        rules=rules,
        rule_costs=_rule_costs(rules, membership, owner, row_norms, together),
    )


def _rule_costs(
    rules: tuple[CountRule, ...],
    membership: Membership,
    owner: IndexArray,
    row_norms: FloatArray,
    together: Mapping[int, int],
) -> FloatArray:
    r"""What a record costs in cells whose counts chance changes, in the squared units of :func:`moved`.

    With the affinity a of what c and c + 1 people are published as, at least :math:`a^2` is left, which is
    :math:`e^{-S/4}` for :math:`S = -8 \ln a`. In a histogram a record moves two cells, and each pays half.

    Chances of several numbers multiply where they are drawn for each by itself. Cell keys are not: that of a
    total is the sum of the keys of its parts. So two tables with cell keys guarantee nothing by themselves.
    """
    if not rules:
        return np.zeros(0)
    keyed = np.array([bool(rule.table) for rule in rules])
    least_affinity = cache(CountRule.affinity)  # many cells have as many people under the same rule
    affinity = np.array(
        [least_affinity(rules[p], cell.rows) for p, cell in zip(owner, membership.cells, strict=True)]
    )
    with np.errstate(divide="ignore"):  # nothing is left
        costs = -8.0 * np.log(np.minimum(affinity, 1.0))
    if np.count_nonzero(keyed) > 1:
        costs[keyed[owner]] = np.inf
    halved = np.array([2.0 if together.get(int(p), 1) > 1 else 1.0 for p in owner])
    return np.asarray(np.where(affinity > 0, costs, np.inf) * halved * row_norms[owner] ** 2)


def noise_on_rows(pricing: Pricing, cells: IndexArray, scale: FloatArray) -> Noise:
    """The noise on rows that are some cells' numbers in other units; a scale may be negative, for a sign."""
    if pricing.strategies:
        size = scale / pricing.scale[cells]
        return CorrelatedNoise(blocks=(pricing.covariance[np.ix_(cells, cells)] * np.outer(size, size),))
    kinds, scale = pricing.laplace_answers[cells], np.abs(scale)
    sizes = pricing.scale[cells]
    stddevs = (
        scale * np.maximum(pricing.noise_stddev[cells], np.where(pricing.exact[cells], sizes, 0.0)) / sizes
    )
    if pricing.exact.any() or not np.all((kinds == kinds[0]) & ((kinds < 2) & _plain(pricing)[cells])):
        return MixedNoise(scales=scale, stddevs=stddevs, laplace_answers=kinds)
    return LaplaceNoise(scales=scale) if kinds[0] else GaussianNoise(stddevs=scale)


def _plain(pricing: Pricing) -> BoolArray:
    """Cells whose noise is drawn as it counts: Gaussian or Laplace noise."""
    plain = [law.facts.draws is not None for law in pricing.laws]
    return np.array(plain, dtype=np.bool_)[pricing.owner]


def row_norms_of(  # many parameters: what the noise is on, and whose rows it is for
    plan: Plan,
    membership: Membership,
    bundles: tuple[tuple[int, ...], ...],
    laws: tuple[Law, ...],
    strategies: Mapping[int, Strategy],
    *,
    declared: bool,
) -> FloatArray:
    """The row norm of every partition, rounded up; 0 for those without rows."""
    norms = np.zeros(len(membership.partitions))
    for bundle in bundles:
        if (strategy := strategies.get(bundle[0])) is not None:
            release = plan.releases[membership.partitions[bundle[0]].query]
            if declared:
                apart = release.running.min_separation
                norm = strategy.sensitivity(plan.data.max_rows_per_record, apart).value
            else:
                norm = math.sqrt(float(squared_norms(membership, bundle[0], strategy).max(initial=0.0)))
            norms[list(bundle)] = norm * (1 + 8 * len(strategy.table) * 2**-52)
            continue
        if declared:
            norms[list(bundle)] = plan.data.max_rows_per_record
            continue
        power = 1 if laws[bundle[0]].pure else 2
        most = membership.most_rows_of_a_record(bundle[0], power)
        root = math.isqrt(most) if power == 2 else most
        exact = power == 1 or root * root == most
        norms[list(bundle)] = root if exact else math.nextafter(math.sqrt(most), math.inf)
    return norms


def _check_sizes(plan: Plan, membership: Membership, sizes: dict[str, FloatArray]) -> None:
    """Squares and quotients of these numbers must be numbers, too."""
    for what, values in sizes.items():
        wrong = np.flatnonzero(~((values >= SMALLEST_SIZE) & (values <= LARGEST_SIZE)))
        if wrong.size:
            release = plan.releases[membership.partitions[membership.cells[wrong[0]].partition].query]
            raise InvalidPlan(
                f"release {release.name[:60]!r}: expected a {what} between {SMALLEST_SIZE:g} and "
                f"{LARGEST_SIZE:g}, got {values[wrong[0]]:g}; publish a lower power of the secret, or state "
                "it in another unit"
            )


def feature_range(partition: Partition, bounds: tuple[float, float]) -> float:
    """By how much what is aggregated of one row can change over the secret's domain.

    >>> square = Partition(query=0, name="", statistic=Statistic.MEAN, feature=Feature.POWER, parameter=2)
    >>> feature_range(square, (-1.0, 3.0)), feature_range(square, (1.0, 3.0))
    (9.0, 8.0)
    """
    low, high = bounds
    match partition.feature:
        case Feature.VALUE:
            return high - low
        case Feature.INDICATOR:
            return 1.0
        case Feature.POWER:
            from sightline.numerics.powers import power_range  # few plans publish powers

            with np.errstate(over="ignore", invalid="ignore"):  # then the sizes are checked, and refused
                return float(power_range(_number(partition), low=low, high=high))
        case Feature.CLIPPED:
            assert isinstance(partition.parameter, Band)
            ends = np.clip([low, high], partition.parameter.low, partition.parameter.high)
            return float(ends[1] - ends[0])
        case Feature.THRESHOLD | Feature.BAND:
            return 1.0


def bundled(membership: Membership) -> tuple[tuple[int, ...], ...]:
    """Partitions that are one release: the categories of a histogram over the same rows."""
    parts = membership.partitions
    filled = {cell.partition for cell in membership.cells}
    bundles: list[tuple[list[int], set[str]]] = []  # with the categories that are counted
    for p, part in enumerate(parts):
        home = None
        if p not in filled:
            continue  # no row meets its condition: it publishes nothing about any record
        if part.feature is Feature.INDICATOR:
            home = next((one for one in reversed(bundles) if _one_histogram(membership, *one, p)), None)
        if home is None:
            bundles.append(([p], set(part.categories)))
        else:
            home[0].append(p)
            home[1].update(part.categories)
    return tuple(tuple(bundle) for bundle, _ in bundles)


def _one_histogram(membership: Membership, bundle: Sequence[int], counted: set[str], p: int) -> bool:
    parts = membership.partitions
    head, other = parts[bundle[0]], parts[p]
    alike = (head.query, head.feature, head.statistic) == (other.query, other.feature, other.statistic)
    if not alike or not counted.isdisjoint(other.categories):
        return False
    if other.weighted or head.weighted:
        return False
    return bool(np.array_equal(membership.signatures[:, p], membership.signatures[:, bundle[0]]))


def _number(partition: Partition) -> float:
    assert isinstance(partition.parameter, int | float)  # a power or a threshold
    return float(partition.parameter)
