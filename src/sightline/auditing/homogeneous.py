r"""Groups whose true answer tells everyone's value: all alike, at a bound or nearly so. Owner-only.

The brackets average over the values that records may have. A group in which everyone has the smallest or the
largest value is rare under the prior, but if it is there, noise that hides one record does not hide it. This
check looks at the true answers. For n unknown rows between a and b with the true sum S, the rows differ from
the nearer bound by :math:`D = \min(S - n a,\; n b - S)` in all. With normal noise of standard deviation s on
the sum, an attacker who takes every sum for equally likely, and sees the true answer, expects

.. math:: m = \frac1n\Bigl(D + s\,\frac{\varphi(D/s)}{\Phi(D/s)}\Bigr)

for the mean distance of a row from that bound. One row differs by at most :math:`b - a`, so guessing m away
from the bound for everyone has an expected mean squared error of at most :math:`m (b - a - m)`. Guessing half
of :math:`D + 3 s` away errs by at most that half for each row, if the noise is within three deviations. The
smaller of the two counts.

For a yes or no, and for a category, the posterior at the true answer is also computed exactly in groups of up
to 200: with :math:`\pi` the posterior mean of the count over n, :math:`\pi(1 - \pi)` of the prior variance
:math:`p(1 - p)` remains. It is computed for an attacker who takes every row for an independent toss with the
prior's odds, and for one who knows no rate and takes every count for equally likely.

Where rows have weights, n counts each row by its weight over the least one. A value x with a negative weight
counts as a + b - x with a positive one.

The sums are those of the published numbers, and those that follow from several of them: differences, numbers
about the same rows, all groups of a release (:mod:`sightline.auditing.known_sums`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.findings import Findings
from sightline.auditing.known_sums import (
    KnownSums,
    coarse_partitions,
    column_shares,
    comparable_sums,
    linear_partitions,
    noise_of,
    published_sums,
    signature_sums,
    step_sums,
    unknown_rows,
    weighted_sums,
    with_lists,
)
from sightline.auditing.result import HomogeneousCell
from sightline.auditing.streamed_sums import StreamedSums, StreamedTotals
from sightline.format import count, number
from sightline.tables.membership import Partition
from sightline.tables.subject import SecretKind

# Fetches the sum of the unknown secrets with each signature; for a category a column for each. With a
# partition that asks a yes-or-no question, how many of them answer yes.
Totals = Callable[[Partition | None], FloatArray]

_DEVIATIONS = 3.0  # of the noise, allowed for in what the attacker learns
_SMALL = 200  # rows of a group whose posterior is computed
_WITHOUT_LIMIT = 0.5  # what is reported if the plan sets no limit
_TELLING = 4.0  # noise over rows up to which a posterior is computed
_MOST_COMBINED = 2_000  # sums of several numbers that are looked at for rows that no other one has
_BLOCK = 20_000  # posteriors that are computed at once
_ROUNDING = 1e-9  # of what is left
_LOG_FACTORIALS = np.cumsum(np.log(np.maximum(np.arange(_SMALL + 1), 1)))


def homogeneous_cells(findings: Findings, totals: Totals | None) -> tuple[HomogeneousCell, ...]:
    """The sums whose true value leaves less than the limit of its rows' values, worst first.

    Of sums that are made of several numbers, one is listed only if it has rows that no other one has.
    ``totals`` is only called if some sum could tell.
    """
    if totals is None:
        return ()
    found = list(_own_cells(findings, totals))
    for question in findings.questions:
        found += _own_cells(question, totals)
    return tuple(sorted(found, key=lambda one: (one.remaining, -one.rows)))


def streamed_cells(findings: Findings, totals: StreamedTotals | None) -> tuple[HomogeneousCell, ...]:
    """The same for a streamed table, of whose rows only the products of cells are held."""
    found = findings.linear
    if totals is None or found is None:
        return ()
    sums = StreamedSums.of(findings, found)

    def views() -> Iterator[tuple[bool, _View]]:
        yield True, _View(findings=findings, sums=sums.published)
        yield False, _View(findings=findings, sums=sums.merged)
        yield False, _View(findings=findings, sums=sums.merged, chosen=sums.large, less=sums.small)
        if sums.groups is not None:
            yield False, _View(findings=findings, sums=sums.groups)

    cells = _listed(findings, views, lambda: sums.totals(totals))
    return tuple(sorted(cells, key=lambda one: (one.remaining, -one.rows)))


def _own_cells(findings: Findings, totals: Totals) -> list[HomogeneousCell]:
    if findings.linear is None:
        return []
    own = published_sums(findings, linear_partitions(findings))
    combined = _combined(findings, own)

    def views() -> Iterator[tuple[bool, _View]]:
        """Every list of sums, and whether they are published numbers."""
        yield True, _View(findings=findings, sums=own)
        if (weighted := weighted_sums(findings)) is not None:
            yield True, _View(findings=findings, sums=weighted)
        yield from ((False, view) for view in combined)

    return _listed(findings, views, lambda: with_lists(findings, totals(findings.question)))


def _listed(
    findings: Findings, views: Callable[[], Iterator[tuple[bool, _View]]], totals: Callable[[], FloatArray]
) -> list[HomogeneousCell]:
    """The sums that tell, of several views; ``totals`` has the true sum of every member of a sum."""
    limit, least = _limit(findings), findings.prior.bounds[0]
    if not any(np.any(view.remaining(view.rows * least) < limit) for _, view in views()):
        return []
    sums = totals()
    told = np.zeros(sums.shape, dtype=np.bool_)  # members × columns
    found = []
    for published, view in views():
        remaining = view.remaining(view.totals(sums))
        below = np.flatnonzero(remaining < limit)
        worst = below[np.argsort(remaining[below], kind="stable")]
        for place in worst if published else worst[:_MOST_COMBINED]:
            members, column = view.members(int(place))
            if published or not told[members, column].all():
                told[members, column] = True
                found.append(view.described(int(place), float(remaining[place])))
    return found


def _limit(findings: Findings) -> float:
    return findings.plan.limits.remaining_uncertainty or _WITHOUT_LIMIT


def _combined(findings: Findings, published: KnownSums) -> list[_View]:
    """The sums that are made of several published numbers; those that cannot tell may be left out."""
    views = []
    owner = findings.pricing.owner[published.cells]
    compared = published.take(np.flatnonzero(np.isin(owner, coarse_partitions(findings))))
    if _may_tell_together(findings, compared):
        merged, (large, small) = comparable_sums(findings, compared)
        views.append(_View(findings=findings, sums=merged))
        views.append(_View(findings=findings, sums=merged, chosen=large, less=small))
    if (of_signatures := signature_sums(findings)) is not None:
        views.append(_View(findings=findings, sums=of_signatures))
    if (of_steps := step_sums(findings)) is not None:
        views.append(_View(findings=findings, sums=of_steps))
    return views


def _may_tell_together(findings: Findings, published: KnownSums) -> bool:
    r"""Whether means and differences of published numbers could leave less than the limit, at any true sums.

    A mean of m sums over the same rows has at least :math:`1/\sqrt m` of the least noise among them, and each
    partition has two such sums at most: a cell and all cells. A difference has more noise than the larger of
    its two sums, over fewer rows.
    """
    if findings.prior.kind is not SecretKind.NUMBER or published.combination is not None:
        return True
    owner = np.array([findings.membership.cells[cell].partition for cell in published.cells], dtype=np.intp)
    rows = np.concatenate([published.rows, np.bincount(owner, published.rows)])
    variance = np.concatenate([published.deviation**2, np.bincount(owner, published.deviation**2)])
    alike = 2 * np.unique(owner).size
    rows, deviation = rows[rows > 0], np.sqrt(variance[rows > 0] / max(1, alike))
    left = _left(findings, rows, deviation, np.zeros(rows.size)) / findings.prior.of_column.variance
    return bool(np.any(left < _limit(findings) * (1 + _ROUNDING)))


def _left(findings: Findings, rows: FloatArray, deviation: FloatArray, apart: FloatArray) -> FloatArray:
    """What the attacks leave of a row's variance on average, if a sum is so far ``apart`` from its end."""
    low, high = findings.prior.bounds
    each = np.minimum(_expected_distance(apart, deviation) / rows, (high - low) / 2)
    half = (apart + _DEVIATIONS * deviation) / 2
    return np.minimum(each * (high - low - each), half**2)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _View:
    """Some sums: all of a list, or the differences of pairs of them."""

    findings: Findings
    sums: KnownSums
    chosen: IndexArray | None = None  # of each pair, the sum with more rows
    less: IndexArray | None = None

    @property
    def rows(self) -> FloatArray:
        """Unknown rows of each sum."""
        return self._of_pairs(self.sums.rows)

    @property
    def deviation(self) -> FloatArray:
        """The standard deviation of the noise on each sum."""
        if self.chosen is None or self.less is None:
            return self.sums.deviation
        if self.sums.combination is not None:
            apart = self.sums.combination[self.chosen] - self.sums.combination[self.less]
            return noise_of(self.findings, sparse.csr_array(apart))
        return np.hypot(self.sums.deviation[self.chosen], self.sums.deviation[self.less])

    def totals(self, sums: FloatArray) -> FloatArray:
        """The true value of each sum."""
        return self._of_pairs(self.sums.totals(sums))

    def members(self, place: int) -> tuple[IndexArray, int]:
        """The signatures of one sum, and its column of the secret."""
        if self.chosen is None or self.less is None:
            return self.sums.signatures(place), int(self.sums.column[place])
        large, small = int(self.chosen[place]), int(self.less[place])
        others = np.setdiff1d(self.sums.signatures(large), self.sums.signatures(small))
        return others, int(self.sums.column[large])

    @property
    def shares(self) -> FloatArray:
        """The prior chance of each sum's indicator."""
        column = self.sums.column if self.chosen is None else self.sums.column[self.chosen]
        return column_shares(self.findings, column)

    def _of_pairs(self, values: FloatArray) -> FloatArray:
        if self.chosen is None or self.less is None:
            return values
        return np.asarray(values[self.chosen] - values[self.less])

    def remaining(self, totals: FloatArray) -> FloatArray:
        """The share of a row's prior variance that the attacks leave on average, at some true sums."""
        prior, rows, deviation = self.findings.prior, self.rows, self.deviation
        low, high = prior.bounds
        number = prior.kind is SecretKind.NUMBER
        variance = prior.of_column.variance if number else self.shares * (1 - self.shares)
        apart = np.minimum(totals - rows * low, rows * high - totals)
        left = _left(self.findings, rows, deviation, apart) / variance
        if not number:
            for chosen, posterior in self._posteriors(totals):
                left[chosen] = np.minimum(left[chosen], posterior)
        # A single yes or no is at one of its two ends whatever it is; the bracket says what is seen of it.
        return np.where(rows >= (1 if number else 2), left, np.inf)

    def _posteriors(self, totals: FloatArray) -> Iterator[tuple[IndexArray, FloatArray]]:
        """What is left by the posterior of a count in small groups, block by block."""
        rows, laplace = self.rows, self._laplace
        small = (rows >= 2) & (rows <= _SMALL) & (not self.sums.weighted)
        # With more Gaussian noise no count is more than 3 % likelier than another.
        small &= laplace | (self.deviation < _TELLING * rows)
        if np.all(self.findings.pricing.laplace_answers):  # several Laplace numbers have another law together
            small &= laplace
        places = np.flatnonzero(small)
        for start in range(0, places.size, _BLOCK):
            chosen = places[start : start + _BLOCK]
            yield chosen, self._posterior(chosen, totals[chosen])

    @property
    def _laplace(self) -> NDArray[np.bool_]:
        """Sums that are one published number with Laplace or geometric noise."""
        if self.chosen is not None:
            return np.zeros(self.rows.size, dtype=np.bool_)
        return (self.sums.copies > 0) & (self.findings.pricing.laplace_answers[self.sums.cells] > 0)

    def _posterior(self, chosen: IndexArray, totals: FloatArray) -> FloatArray:
        rows, deviation = self.rows[chosen, None], self.deviation[chosen, None]
        counts = np.arange(int(rows.max()) + 1)[None]
        away = np.abs(counts - totals[:, None])
        logs = -((away / deviation) ** 2) / 2
        if (laplace := self._laplace[chosen]).any():
            copies = self.sums.copies[chosen, None]  # of scale √(T/2) times the deviation of their mean
            logs = np.where(laplace[:, None], -away * np.sqrt(2 * copies) / deviation, logs)
        logs = np.where(counts <= rows, logs, -np.inf)
        others = np.maximum(rows - counts, 0)
        ways = _LOG_FACTORIALS[rows.astype(np.intp)] - _LOG_FACTORIALS[counts]
        ways = ways - _LOG_FACTORIALS[others.astype(np.intp)]
        share = self.shares[chosen, None]
        tosses = ways + counts * np.log(share) + others * np.log1p(-share)
        remaining = []
        for belief in (logs + tosses, logs):
            weights = np.exp(belief - belief.max(axis=1, keepdims=True))
            mean = (weights * counts).sum(axis=1) / weights.sum(axis=1) / rows[:, 0]
            remaining.append(mean * (1 - mean) / (share * (1 - share))[:, 0])
        return np.asarray(np.minimum(*remaining), dtype=np.float64)

    def described(self, place: int, remaining: float) -> HomogeneousCell:
        """One sum in words."""
        membership, first = (
            self.findings.membership,
            place if self.chosen is None else int(self.chosen[place]),
        )
        position = int(self.sums.cells[first])
        cell, rows = membership.cells[position], int(self.rows[place])
        if self.sums.weighted:
            rows = int(unknown_rows(membership)[self.sums.signatures(place)].sum())
        part = membership.partitions[cell.partition]
        name = self.sums.names[first]
        if self.less is not None:
            name += f" less {self.sums.names[self.less[place]]}"
        alike = "each is near one end of the bounds" if self.sums.weighted else "they are nearly all alike"
        words = [*cell.key, *([part.label] if part.label else [])]
        return HomogeneousCell(
            release=self.findings.plan.releases[part.query].name,
            cell=", ".join(words),
            rows=rows,
            remaining=remaining,
            text=f"{name} tells the values of {count(rows, 'row')}: {alike}, and "
            f"at most {number(100 * remaining, 2)} % of their uncertainty is left",
        )


def _expected_distance(distance: FloatArray, deviation: FloatArray) -> FloatArray:
    """The mean of a normal law around ``distance``, cut off below 0."""
    standard = np.maximum(distance, 0) / deviation
    # Importing scipy.special would take longer than a small audit has for all of this.
    tails = np.array([math.erfc(value) for value in (standard / math.sqrt(2)).tolist()]) / 2
    logs = -(standard**2) / 2 - math.log(2 * math.pi) / 2 - np.log1p(-tails)
    return np.asarray(distance + deviation * np.exp(logs))
