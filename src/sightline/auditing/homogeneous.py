r"""Groups whose true answers tell everyone's value: all alike, at a bound or nearly so. Owner-only.

The brackets average over the values that records may have. A group in which everyone has the smallest or the
largest value is rare under the prior, but if it is there, noise that hides one record does not hide it. This
check looks at the true answers and asks one question: *how far can the values still be from an end?*

Let :math:`w` be any combination of the numbers, and :math:`v_u` the weight that it gives to the rows of class
u. With :math:`\delta_j` the distance of row j from the end that the sign of its weight points away from, the
combination tells :math:`D = \sum_j |v_j| \delta_j \ge 0` with noise of standard deviation s. An attacker who
takes every such sum for equally likely, and sees the true answers, expects a mean distance of

.. math:: m = \Bigl(D + s\,\frac{\varphi(D/s)}{\Phi(D/s)}\Bigr) \Big/ \sum_j |v_j| ,

and guessing m away from the ends has an expected mean squared error of at most :math:`m (b - a - m)` over the
rows, drawn by their weights. For the error :math:`\ell` that the limit asks for, let :math:`\lambda` solve
:math:`\lambda(b - a - \lambda) = \ell`. A combination with :math:`D + \kappa s < \lambda \sum |v_j|` exists
if and only if no table is within :math:`\kappa` units of the noise from the true answers in which the mean of
every class is at least :math:`\lambda` away from both ends: by duality,

.. math:: \max_w \frac{\lambda\sum|v_j| - D}{s} = \min_{a + \lambda \le t_u \le b - \lambda}
          \bigl\| \Sigma^{-1/2} A\,(n \circ (t - \bar x)) \bigr\| .

So the nearest such table is found, a least-squares problem in a box, and its residual is the combination.
Differences, averages, weighted sums, all groups of a release: whatever tells, tells through it. The classes
that it is about are then allowed to be anywhere, and the question is asked again for the others.

The ends are the bounds, and also the least and the greatest value that occur, if an attacker knows these.
For a yes or no, and for a category, the posterior is also computed in groups of up to 200 rows with one
number: for an attacker who takes every row for a toss with the prior's odds, and for one who takes every
count for equally likely. Of squares, :math:`\sum (x_j - g)^2` is a combination that needs no end.
"""

from __future__ import annotations

import math
from enum import StrEnum
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray, parts
from sightline.auditing.certain_people import PublishedCounts
from sightline.auditing.findings import Findings
from sightline.auditing.known_sums import (
    KnownSums,
    StreamedTotals,
    Totals,
    coarse_findings,
    coarsest,
    known_sums,
    nearest_in_box,
    partitions_in_turn,
    separate_sums,
)
from sightline.auditing.lowering import cell_name, linear_partitions, which_of_release
from sightline.auditing.plan_sections import USUAL_LIMIT
from sightline.auditing.result import HomogeneousCell
from sightline.auditing.result_parts import MOST_LISTED, TOP, Fact, Figure, fact
from sightline.auditing.told_of_people import (
    Told,
    is_left,
    known_ends,
    names_of,
    sums_of_people,
    told_together,
)
from sightline.progress import on_cores
from sightline.tables.membership import Feature, Statistic
from sightline.tables.subject import SecretKind
from sightline.values import frozen

_SMALL = 200  # rows of a group whose posterior is computed
# r, in units of the noise: with a table this near, D + rs ≥ λΣ|v| for every combination. One that leaves less
# than λ has φ/Φ < r at D/s, so that it leaves at least λ(1 − max (r − φ/Φ)/(D/s)), which is 0.9997 λ. So
# the margin that is looked for is r λ more, and none below the limit is missed.
_NEAR = 1e-3
_MATTERS = 0.01  # of the largest weight of a combination: what is named, and whose rows are counted


class Alike(StrEnum):
    """Which numbers tell the values of a group, and why those are told."""

    ONE_NUMBER = "one number"
    TWO_NUMBERS = "two numbers"
    DIFFERENCE = "difference"
    GROUPS_OF_RELEASE = "groups of release"
    SEVERAL_NUMBERS = "several numbers"
    RECIPE = "recipe"
    COUNTS = "counts"
    NEARLY_ALL_ALIKE = "nearly all alike"
    NEAR_AN_END = "near an end"
    NEARLY_CERTAIN = "nearly certain"
    COUNTED = "counted"
    LEFT_FOR = "left for"


def homogeneous_cells(findings: Findings, totals: Totals) -> tuple[HomogeneousCell, ...]:
    """What leaves less than the limit of its rows' values at the true answers, worst first.

    Published numbers by themselves, and the combinations of several that tell of more rows.
    """
    # What a group has in common is not asked where the noise keeps the limit, or is all that counts.
    if findings.guaranteed or findings.plan.data.only_guarantee:
        return ()
    listed, rows = [], findings.row_by_row  # a group of rows at an end is one of levels at that end
    for one in (rows, *rows.questions):
        if one.linear and one.pricing.by_count_rule and not one.prior.kind.measured:
            listed += _told_by_intervals(one, totals(one.question))
        elif one.linear:
            own = totals(one.question)
            in_turn = on_cores(partial(_told_by_each, one, own), partitions_in_turn(one.membership))
            alone = [cell for cells in in_turn for cell in cells]
            listed += alone
            if len(alone) <= MOST_LISTED:  # the list is full, and combinations take a quarter of an audit
                for coarse in known_sums(one, own, coarsest(one.membership)):
                    listed += _told_together(one, coarse)
        listed += _told_by_powers(one, totals)
    return tuple(sorted(listed, key=lambda one: (one.remaining, -one.rows)))


def _told_by_intervals(findings: Findings, totals: FloatArray) -> list[HomogeneousCell]:
    """Every count of two people or more, and every difference, whose interval leaves less than the limit of
    their values.

    To an attacker who takes every count in it for equally likely, and to one who takes people for tosses.
    """
    counts = PublishedCounts.of(findings, totals)
    if not isinstance(counts, PublishedCounts):
        return []
    ends, cells = known_ends(counts), list[HomogeneousCell]()
    for sums in sums_of_people(counts, ends)[0]:
        if sums[0].people < 2:
            continue
        told = [one for one in told_together(counts, sums, ends) if one.by]
        left = [_left_in(findings, one) for one in told]
        few = [place for place in range(len(told)) if left[place] < limit_of(findings)]
        if few:  # what is counted itself, before what is left for others
            place = min(few, key=lambda one: (is_left(counts, told[one]), left[one]))
            cells.append(_interval_cell(counts, told[place], left[place]))
    return cells


def _left_in(findings: Findings, told: Told) -> float:
    """What an interval leaves of everyone's values."""
    share = findings.prior.share
    yes_or_no = findings.prior.kind.two_values
    chance = (1 - share if told.answers == {"no"} else share) if yes_or_no else len(told.answers) * share
    if not 0 < chance < 1:  # everybody gives one of these answers
        return math.inf
    ends = (one / told.people for one in (told.least, told.most))
    if min(mean * (1 - mean) for mean in ends) >= limit_of(findings) * chance * (1 - chance):
        return math.inf  # no mean in between leaves less
    number_of = np.arange(told.least, told.most + 1, dtype=np.float64)
    rest = told.people - number_of
    logs = np.array([math.lgamma(a + 1) + math.lgamma(b + 1) for a, b in zip(number_of, rest, strict=True)])
    tosses = number_of * math.log(chance) + rest * math.log1p(-chance) - logs
    left = []
    for weights in (np.ones(number_of.size), np.exp(tosses - tosses.max())):
        mean = float(weights @ number_of / weights.sum()) / told.people
        left.append(mean * (1 - mean) / (chance * (1 - chance)))
    return min(left)


def _interval_cell(counts: PublishedCounts, told: Told, left: float) -> HomogeneousCell:
    """An interval as an entry."""
    ends: dict[str, Figure] = {"least": told.least, "most": told.most}
    why = fact(Alike.COUNTED, **ends)
    if is_left(counts, told):
        why = fact(Alike.LEFT_FOR, answers=" or ".join(sorted(told.answers)), **ends)
    which = fact(Alike.COUNTS, names=names_of(counts, told), combinations=len(told.by))
    return _cell(counts.findings, told.by[0].cells[0], told.people, left, which, why)


def streamed_cells(findings: Findings, totals: StreamedTotals) -> tuple[HomogeneousCell, ...]:
    """The same for a streamed table: its numbers one by one, and those of the coarsest releases together."""
    findings = findings.row_by_row
    if not findings.linear or findings.guaranteed or findings.plan.data.only_guarantee:
        return ()
    cells = _told_alone(findings, separate_sums(findings, findings.linear, totals))
    for coarse in (one for one in totals.coarse() if one.sums.size):
        about = coarse_findings(findings, coarse)
        for sums in known_sums(about, coarse.sums[:, None], linear_partitions(coarse)):
            cells += _told_together(about, sums)
    return tuple(sorted(cells, key=lambda one: (one.remaining, -one.rows)))


@frozen(eq=True)
class Ends:
    """Where values can be: at least a, at most b; and the variance of which a share is to remain."""

    low: float
    high: float
    variance: float
    yes_or_no: bool = False

    @property
    def width(self) -> float:
        """b - a."""
        return self.high - self.low

    def margin(self, limit: float) -> float:
        """λ: the mean distance from an end at which the limit's share of the variance is left."""
        left = 1 - 4 * limit * self.variance / self.width**2
        return self.width / 2 * (1 - math.sqrt(max(0.0, left)))

    def remaining(self, mean: FloatArray) -> FloatArray:
        """The share of the variance that is left of rows that are so far from an end on average."""
        mean = np.minimum(mean, self.width / 2)
        return np.asarray(mean * (self.width - mean) / self.variance)


def ends_of(findings: Findings) -> list[Ends]:
    """The bounds, and the least and the greatest value that occur, if these are narrower."""
    prior = findings.prior
    low, high = prior.bounds
    match prior.kind:
        case SecretKind.BOOLEAN | SecretKind.CATEGORY:
            variance, even = prior.share * (1 - prior.share), prior.kind.two_values
            return [Ends(low=low, high=high, variance=variance, yes_or_no=even)]
        case SecretKind.NUMBER:
            return _ends_of_numbers(findings)


def _ends_of_numbers(findings: Findings) -> list[Ends]:
    """The same of numbers, whose values in the table may lie closer together than the bounds."""
    prior = findings.prior
    low, high = prior.bounds
    declared = Ends(low=low, high=high, variance=float(prior.of_column.variance))
    occurring = findings.membership.occurring
    if not occurring.counts.size or prior.within is not None:
        return [declared]
    seen = float(occurring.low[0]), float(occurring.high[-1])
    share = (seen[1] - seen[0]) / declared.width
    if not 0 < share < 1:
        return [declared]
    if findings.plan.limits.known_to:  # what is left in the secret's unit counts
        share = 1.0
    return [declared, Ends(low=seen[0], high=seen[1], variance=declared.variance * share**2)]


def limit_of(findings: Findings) -> float:
    """The share that groups are compared with."""
    return findings.limit or USUAL_LIMIT


def _left_by_each(findings: Findings, sums: KnownSums) -> FloatArray:
    """What every number by itself leaves, from the end that it is nearest to."""
    return np.asarray(np.min([_alone(findings, sums, ends) for ends in ends_of(findings)], axis=0))


def _told_by_each(findings: Findings, totals: FloatArray, partitions: list[int]) -> list[HomogeneousCell]:
    """Every number of some partitions that tells by itself."""
    return [cell for sums in known_sums(findings, totals, partitions) for cell in _told_alone(findings, sums)]


def _told_alone(findings: Findings, sums: KnownSums) -> list[HomogeneousCell]:
    """Every number that tells by itself."""
    alone = _left_by_each(findings, sums)
    below = np.flatnonzero(alone < limit_of(findings))
    return [
        _described(findings, sums, np.eye(1, len(sums), place)[0], float(alone[place]))
        for place in below.tolist()
    ]


def _told_together(findings: Findings, sums: KnownSums) -> list[HomogeneousCell]:
    """The combinations of several numbers that leave less than each of them does, one for the same rows."""
    alone = _left_by_each(findings, sums)
    limit, best = limit_of(findings), dict[bytes, tuple[float, FloatArray]]()
    for ends in ends_of(findings):
        settled = np.zeros(sums.counts.size, dtype=np.bool_)
        for _ in range(TOP):
            combination, remaining = _best(sums, ends, limit, settled)
            if not remaining < limit:
                break
            weights = np.abs(sums.weights.T @ combination)
            own = weights > _MATTERS * weights.max()
            settled |= own
            used = np.abs(combination) > 0
            if np.count_nonzero(used) > 1 and remaining < alone[used].min():
                best[own.tobytes()] = min(
                    best.get(own.tobytes(), (np.inf, combination)),
                    (remaining, combination),
                    key=lambda one: one[0],
                )
    return [_described(findings, sums, combination, left) for left, combination in best.values()]


def _distances(sums: KnownSums, ends: Ends, weights: FloatArray) -> FloatArray:
    """Of every class the total distance of its rows from the end that the sign of a weight points from."""
    return np.where(weights > 0, sums.totals - ends.low * sums.counts, ends.high * sums.counts - sums.totals)


def _alone(findings: Findings, sums: KnownSums, ends: Ends) -> FloatArray:
    """What each number by itself leaves of its rows' variance on average."""
    W, A = sums.weights, sums.absolute
    near = sums.totals - ends.low * sums.counts
    several = _categories_of(findings, sums)  # that a number counts together: each of its rows is once in it
    number = sums.rows / several
    # Rows with a negative weight are reflected: |w| (b − a − d) is |w| (b − a)/2 + w (d − (b − a)/2).
    one_side = ends.width / 2 * number * several + W @ (near - ends.width / 2 * sums.counts)
    one_side = np.maximum(one_side, 0.0)
    apart = np.minimum(one_side, ends.width * number - one_side)
    expected = expected_distance(apart, sums.deviation)
    mean = np.minimum(expected / np.where(number > 0, number, 1.0), ends.width / 2)
    mean[number == 0] = ends.width / 2  # nobody is in it
    if findings.prior.kind.measured:
        return ends.remaining(mean)
    share = several * sums.shares[0]
    left = mean * (1 - mean) / (share * (1 - share))
    uneven = sparse.csr_array((np.abs(A.data - 1) > 0, A.indices, A.indptr), shape=A.shape)
    plain = uneven @ np.ones(A.shape[1]) == 0
    people = (A != 0) @ sums.counts / several
    laplace = findings.pricing.laplace_answers[sums.cells] > 0
    small = (people >= 2) & (people <= _SMALL) & plain
    places = np.flatnonzero(small)
    total = A @ sums.totals
    for some in parts(places.size, each=_SMALL):
        chosen = places[some]
        logs = np.where(laplace, np.sqrt(2.0 * sums.copies), 0.0)[chosen]  # T of scale √(T/2) × deviation
        posterior = _posterior(people[chosen], total[chosen], sums.deviation[chosen], share[chosen], logs)
        left[chosen] = np.minimum(left[chosen], posterior)
    # A single yes or no is at one of its two ends whatever it is; the bracket says what is seen of it.
    return np.where(people >= 2, left, np.inf)


def _categories_of(findings: Findings, sums: KnownSums) -> FloatArray:
    """How many categories each number counts together."""
    partitions = findings.membership.partitions
    each = [len(part.categories) if part.feature is Feature.INDICATOR else 1 for part in partitions]
    return np.array(each, dtype=np.float64)[findings.pricing.owner[sums.cells]]


def _best(sums: KnownSums, ends: Ends, limit: float, told: NDArray[np.bool_]) -> tuple[FloatArray, float]:
    """The combination that leaves least of the classes that are not told yet, and what it leaves.

    It is the residual of the nearest table in the box. A smaller margin, that of what was found, finds a
    sharper one.
    """
    margin = min((1 + _NEAR) * ends.margin(limit), ends.width / 2)
    best = np.zeros(len(sums)), np.inf
    for _ in range(3):
        low = np.where(told, ends.low, ends.low + margin) * sums.counts - sums.totals
        high = np.where(told, ends.high, ends.high - margin) * sums.counts - sums.totals
        near = 0.0 if ends.yes_or_no else _NEAR  # the posterior of a count may leave less
        residual = nearest_in_box(sums.whitened, np.minimum(low, high), np.maximum(low, high), near=near)
        combination = sums.unwhitened(residual)
        largest = float(np.max(np.abs(combination * sums.deviation), initial=0.0))
        if not largest > 0:
            break
        combination = np.where(np.abs(combination * sums.deviation) > _MATTERS * largest, combination, 0.0)
        weights = np.asarray(sums.weights.T @ combination)
        weights[np.abs(weights) < 1e-9 * np.abs(weights).max()] = 0.0
        rows = float(np.abs(weights) @ sums.counts)
        if not rows:
            break
        apart = float(np.abs(weights) @ np.maximum(_distances(sums, ends, weights), 0.0))
        mean = expected_distance(np.array([apart]), np.array([sums.noise(combination)]))[0] / rows
        remaining = float(ends.remaining(np.array([mean]))[0])
        if ends.yes_or_no:
            remaining = min(remaining, *_posteriors_together(sums, weights, apart, sums.noise(combination)))
        if not remaining < best[1] * (1 - 1e-6):
            break
        best = (combination, remaining)
        if not mean < margin:
            break
        margin = mean
    return best


def _posteriors_together(
    sums: KnownSums, weights: FloatArray, apart: float, noise: float
) -> tuple[float, float]:
    """What the posterior leaves if a combination counts the rows of a small group, a no reflected or not.

    A row counts with the chance of a yes, or of a no where it is reflected: both are tried for all of them.
    """
    size = np.abs(weights[weights != 0])
    rows = float(sums.counts[weights != 0].sum())
    if np.ptp(size) > 1e-6 * size.max() or not 2 <= rows <= _SMALL:
        return np.inf, np.inf
    number, total, deviation = (np.array([one]) for one in (rows, apart / size.max(), noise / size.max()))
    first, second = (
        float(_posterior(number, total, deviation, np.array([share]), np.zeros(1))[0])
        for share in (sums.shares[0], 1 - sums.shares[0])
    )
    return first, second


def _posterior(
    rows: FloatArray, totals: FloatArray, deviation: FloatArray, share: FloatArray, laplace: FloatArray
) -> FloatArray:
    """What the posterior of a count leaves of each row; ``laplace`` is 0 for Gaussian noise."""
    rows, deviation, odds, slope = (one[:, None] for one in (rows, deviation, share, laplace))
    counts = np.arange(int(rows.max()) + 1)[None]
    away = np.abs(counts - totals[:, None]) / deviation
    logs = np.where(counts <= rows, np.where(slope > 0, -away * slope, -(away**2) / 2), -np.inf)
    others = np.maximum(rows - counts, 0)
    log_factorials = np.cumsum(np.log(np.maximum(counts[0], 1)))
    ways = log_factorials[rows.astype(np.intp)] - log_factorials - log_factorials[others.astype(np.intp)]
    tosses = ways + counts * np.log(odds) + others * np.log1p(-odds)
    remaining = []
    for belief in (logs + tosses, logs):
        weights = np.exp(belief - belief.max(axis=1, keepdims=True))
        mean = (weights * counts).sum(axis=1) / weights.sum(axis=1) / rows[:, 0]
        remaining.append(mean * (1 - mean) / (odds * (1 - odds))[:, 0])
    return np.asarray(np.minimum(*remaining), dtype=np.float64)


def _told_by_powers(findings: Findings, totals: Totals) -> list[HomogeneousCell]:
    r"""Sums of squares that tell that all values are near one number: 0, or the mean that is published.

    :math:`\sum (x_j - g)^2 = \sum x_j^2 - 2 g \sum x_j + n g^2` is at least 0, and has the noise of both
    numbers. It is what guessing g leaves. A higher even power k bounds it by :math:`(\sum x_j^k/n)^{2/k}`.
    """
    membership, pricing, limit = findings.membership, findings.pricing, limit_of(findings)
    if findings.asked:
        return []
    unknown = (membership.counts - membership.known).astype(np.float64)
    variance, cells = float(findings.prior.of_column.variance), []
    squares = any(part.feature is Feature.POWER and part.parameter == 2 for part in membership.partitions)
    known = []
    if squares and findings.linear:
        known = known_sums(findings, totals(findings.question), linear_partitions(membership))
    for p, part in enumerate(membership.partitions):
        power = part.parameter
        if part.feature is not Feature.POWER or not isinstance(power, int | float) or part.weighted:
            continue
        if power % 2:
            continue
        place = membership.positions(p)
        inside = np.flatnonzero((place >= 0) & (unknown > 0))
        if not inside.size or power <= 0:
            continue
        raised = totals(part)[:, 0]
        for cell in np.unique(place[inside]):
            own = inside[place[inside] == cell]
            rows = float(unknown[own].sum())
            size = membership.cells[cell].rows if part.statistic is Statistic.MEAN else 1.0
            noise = float(pricing.noise_stddev[cell] * size / math.sqrt(pricing.times[p]))
            apart = float(raised[own].sum())
            which = fact(Alike.ONE_NUMBER, number=cell_name(membership, int(cell)))
            best = _expected_mean(apart, noise, rows) ** (2 / power)
            for sums in known if power == 2 else ():
                for line in _same_rows(sums, own):
                    total = float((sums.weights[[line]] @ sums.totals)[0])
                    guess = total / rows
                    both = math.hypot(noise, 2 * guess * float(sums.deviation[line]))
                    mean = _expected_mean(apart - total * guess, both, rows)
                    if mean < best:
                        other = cell_name(membership, int(sums.cells[line]))
                        first = cell_name(membership, int(cell))
                        best, which = mean, fact(Alike.TWO_NUMBERS, first=first, second=other)
            if best / variance < limit:
                cells.append(
                    _cell(
                        findings, int(cell), int(rows), best / variance, which, fact(Alike.NEARLY_ALL_ALIKE)
                    )
                )
    return cells


def _expected_mean(apart: float, noise: float, rows: float) -> float:
    return float(expected_distance(np.array([max(apart, 0.0)]), np.array([noise]))[0]) / rows


def _same_rows(sums: KnownSums, signatures: IndexArray) -> list[int]:
    """The numbers that are the sum of exactly the unknown rows with some signatures."""
    inside = np.isin(sums.signature, signatures).astype(np.float64)
    matched = np.asarray(sums.weights @ inside) == inside.sum()
    plain = np.asarray(abs(sums.weights).sum(axis=1)).ravel() == inside.sum()
    return [int(line) for line in np.flatnonzero(matched & plain)]


def _described(
    findings: Findings, sums: KnownSums, combination: FloatArray, remaining: float
) -> HomogeneousCell:
    """A combination of numbers as an entry."""
    membership = findings.membership
    size = np.abs(combination * sums.deviation)
    lines = np.flatnonzero(size > _MATTERS * size.max())
    lines = lines[np.argsort(-size[lines], kind="stable")]
    names = [cell_name(membership, int(sums.cells[line])) for line in lines[:3]]
    # Only of the classes that it is about: a load curve has ten thousand numbers that are described.
    used, table = np.flatnonzero(combination), sums.weights
    entries = np.concatenate([np.arange(table.indptr[line], table.indptr[line + 1]) for line in used])
    classes, place = np.unique(table.indices[entries], return_inverse=True)
    times = np.repeat(combination[used], table.indptr[used + 1] - table.indptr[used])
    weights = np.abs(np.bincount(place, table.data[entries] * times))
    chosen = classes[weights > _MATTERS * weights.max(initial=0.0)]
    _, once = np.unique(sums.signature[chosen], return_index=True)
    rows = int(sums.counts[chosen[once]].sum())
    recipe = sums.copies[lines[0]] == 0
    which = fact(Alike.RECIPE) if recipe else fact(Alike.ONE_NUMBER, number=names[0])
    signs = np.sign(combination[lines])
    parts = np.unique(findings.pricing.owner[sums.cells[lines]])
    if lines.size == 2 and signs[0] != signs[1]:
        first, second = names if signs[0] > 0 else names[::-1]
        which = fact(Alike.DIFFERENCE, first=first, second=second)
    elif lines.size > 1 and parts.size == 1 and np.all(signs == signs[0]):
        part = membership.partitions[int(parts[0])]
        every = lines.size == np.count_nonzero(findings.pricing.owner[sums.cells] == parts[0])
        which = fact(Alike.GROUPS_OF_RELEASE, groups=0 if every else int(lines.size), release=part.name)
    elif lines.size > 1:
        which = fact(Alike.SEVERAL_NUMBERS, numbers=int(lines.size), first=names[0], second=names[1])
    one_weight = np.ptp(weights[weights > 0]) <= 1e-9 * weights.max()
    is_number = findings.plan.data.secret_kind.measured
    each = Alike.NEAR_AN_END if is_number else Alike.NEARLY_CERTAIN
    why = fact(Alike.NEARLY_ALL_ALIKE if one_weight else each)
    return _cell(findings, int(sums.cells[lines[0]]), rows, remaining, which, why)


def _cell(  # many parameters: the fields of the entry
    findings: Findings, position: int, rows: int, remaining: float, which: Fact, why: Fact
) -> HomogeneousCell:
    cell = findings.membership.cells[position]
    part = findings.membership.partitions[cell.partition]
    return HomogeneousCell(
        release=findings.plan.releases[part.query].name,
        cell=", ".join([*cell.key, *which_of_release(findings.membership, cell.partition)]),
        rows=rows,
        remaining=remaining,
        which=which,
        why=why,
    )


def expected_distance(distance: FloatArray, deviation: FloatArray) -> FloatArray:
    """The mean of a normal law around ``distance``, cut off below 0; without noise it is the distance.

    >>> expected_distance(np.array([2.0]), np.array([0.0])).tolist()
    [2.0]
    """
    deviation = np.maximum(deviation, 1e-12 * np.abs(distance) + 1e-300)
    standard = np.maximum(distance, 0) / deviation
    # Importing scipy.special would take longer than a small audit has for all of this.
    tails = np.array([math.erfc(value) for value in (standard / math.sqrt(2)).tolist()]) / 2
    logs = -(standard**2) / 2 - math.log(2 * math.pi) / 2 - np.log1p(-tails)
    return np.asarray(distance + deviation * np.exp(logs))
