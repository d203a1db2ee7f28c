r"""Groups whose true answer tells everyone's value: all alike, at a bound or nearly so. Owner-only.

The brackets average over the values that records may have. A group in which everyone has the smallest or the
largest value is rare under the prior, but if it is there, noise that hides one record does not hide it. This
check looks at the true answers. For n unknown rows between a and b with the true sum S, and noise of standard
deviation s on the sum, an attacker learns that the rows differ from the nearer bound by at most

.. math:: \delta = \min(S - n a,\; n b - S) + 3 s

in all. Guessing the bound for everyone then has a mean squared error of at most
:math:`(b - a)\,\delta / n`, because one row differs by at most :math:`b - a`; guessing :math:`\delta/2` away
from it errs by at most :math:`\delta/2` for each. For a yes or no, and for a category, the posterior at the
true answer is computed exactly in groups of up to 200: with :math:`\pi` the posterior mean of the count over
n, :math:`\pi(1 - \pi)` of the prior variance :math:`p(1 - p)` remains. It is computed for an attacker who
takes every row for an independent toss with the prior's odds, and for one who knows no rate and takes every
count for equally likely. The smaller result counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.design import LINEAR, cell_name
from sightline.auditing.findings import Findings
from sightline.auditing.numerals import counted, readable
from sightline.auditing.result import HomogeneousCell
from sightline.errors import InvalidNoise
from sightline.privacy.accountant import NoiseLaw
from sightline.tables.membership import Feature, Statistic
from sightline.tables.subject import SecretKind

# Fetches the sum of the unknown secrets with each signature; for a category a column for each.
Totals = Callable[[], FloatArray]

_DEVIATIONS = 3.0  # of the noise, allowed for in what the attacker learns
_SMALL = 200  # rows of a group whose posterior is computed
_WITHOUT_LIMIT = 0.5  # what is reported if the plan sets no limit


def homogeneous_cells(findings: Findings, totals: Totals | None) -> tuple[HomogeneousCell, ...]:
    """The published numbers whose true answer leaves less than the limit of its rows' values.

    ``totals`` is only called if some answer could.
    """
    limit = findings.plan.limits.remaining_uncertainty or _WITHOUT_LIMIT
    groups = [_Groups.of(findings, p) for p in _linear_partitions(findings)]
    if totals is None or not any(np.any(group.remaining(group.smallest) < limit) for group in groups):
        return ()
    sums = totals()
    found = []
    for group in groups:
        remaining = group.remaining(group.total(sums))
        found += [group.described(int(c), float(remaining[c])) for c in np.flatnonzero(remaining < limit)]
    return tuple(sorted(found, key=lambda one: (one.remaining, -one.rows)))


def _linear_partitions(findings: Findings) -> list[int]:
    membership = findings.membership
    filled = {cell.partition for cell in membership.cells}
    return [p for p in sorted(filled) if membership.partitions[p].feature in LINEAR]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Groups:
    """The cells of one partition: their unknown rows, and the noise on their sums."""

    findings: Findings
    partition: int
    cell_of: IndexArray  # for every signature, its cell in the partition plus one; 0 for none
    rows: FloatArray  # unknown rows of each cell
    deviation: FloatArray  # standard deviation of the noise on each sum, copies averaged
    copies: int

    @classmethod
    def of(cls, findings: Findings, partition: int) -> _Groups:
        """The cells of a partition."""
        membership, pricing = findings.membership, findings.pricing
        cells = slice(*membership.starts[partition : partition + 2])
        cell_of = membership.signatures[:, partition].astype(np.intp) + 1
        count = cells.stop - cells.start
        unknown = (membership.counts - membership.known).astype(np.float64)
        is_mean = membership.partitions[partition].statistic is Statistic.MEAN
        sizes = np.array([cell.rows if is_mean else 1 for cell in membership.cells[cells]], dtype=np.float64)
        copies = int(pricing.times[partition])
        return cls(
            findings=findings,
            partition=partition,
            cell_of=cell_of,
            rows=np.asarray(np.bincount(cell_of, unknown, count + 1)[1:], dtype=np.float64),
            deviation=pricing.noise_stddev[cells] * sizes / math.sqrt(copies),
            copies=copies,
        )

    @property
    def smallest(self) -> FloatArray:
        """The least sum that each cell can have."""
        return self.rows * self.findings.prior.bounds[0]

    def total(self, sums: FloatArray) -> FloatArray:
        """The true sum of each cell."""
        part, categories = (
            self.findings.membership.partitions[self.partition],
            self.findings.plan.data.categories,
        )
        column = 0
        if part.feature is Feature.INDICATOR:
            assert categories is not None  # the plan was checked for it
            if part.parameter not in categories:
                return self.smallest
            column = categories.index(str(part.parameter))
        summed = np.bincount(self.cell_of, sums[:, column], self.rows.size + 1)
        return np.asarray(summed[1:], dtype=np.float64)

    def remaining(self, sums: FloatArray) -> FloatArray:
        """The share of a row's prior variance that the attacks leave on average, at some true sums."""
        prior = self.findings.prior
        low, high = prior.bounds
        number = prior.kind is SecretKind.NUMBER
        variance = prior.of_column.variance
        apart = np.minimum(sums - self.rows * low, self.rows * high - sums) + _DEVIATIONS * self.deviation
        with np.errstate(divide="ignore", invalid="ignore"):
            everyone = (high - low) * apart / self.rows
        left = np.minimum(everyone, (apart / 2) ** 2) / variance
        if not number:
            for c in np.flatnonzero((self.rows >= 2) & (self.rows <= _SMALL)):
                left[c] = min(left[c], self._posterior(int(self.rows[c]), float(sums[c]), int(c)))
        # A single yes or no is at one of its two ends whatever it is; the bracket says what is seen of it.
        return np.where(self.rows >= (1 if number else 2), left, np.inf)

    def _posterior(self, rows: int, total: float, cell: int) -> float:
        prior = self.findings.prior
        counts = np.arange(rows + 1)
        away = np.abs(counts - total)
        match self.findings.pricing.law:
            case NoiseLaw.GAUSSIAN:
                logs = -((away / self.deviation[cell]) ** 2) / 2
            case NoiseLaw.LAPLACE:  # the copies' scale is √(T/2) times the deviation of their mean
                logs = -away * math.sqrt(2 * self.copies) / self.deviation[cell]
            case other:
                raise InvalidNoise(f"expected Gaussian or Laplace noise, got {other}")
        ways = np.array([math.log(math.comb(rows, int(k))) for k in counts])
        tosses = ways + counts * math.log(prior.share) + (rows - counts) * math.log1p(-prior.share)
        remaining = []
        for belief in (logs + tosses, logs):
            weights = np.exp(belief - belief.max())
            mean = float(weights @ counts / weights.sum()) / rows
            remaining.append(mean * (1 - mean) / prior.of_column.variance)
        return min(remaining)

    def described(self, cell: int, remaining: float) -> HomogeneousCell:
        """One cell in words."""
        findings = self.findings
        position = int(findings.membership.starts[self.partition]) + cell
        part = findings.membership.partitions[self.partition]
        words = [*findings.membership.cells[position].key, *([part.label] if part.label else [])]
        name, rows = cell_name(findings.membership, position), int(self.rows[cell])
        return HomogeneousCell(
            release=findings.plan.releases[part.query].name,
            cell=", ".join(words),
            rows=rows,
            remaining=remaining,
            text=f'"{name}" tells the values of {counted(rows, "row")}: they are nearly all alike, and '
            f"{readable(100 * remaining, 2)} % of their uncertainty is left",
        )
