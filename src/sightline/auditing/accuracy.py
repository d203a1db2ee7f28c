r"""How accurate each release is: the price of the noise, beside what the noise protects.

For everyone: the noise of a number over the range that it can have. That is the range :math:`w` of what is
aggregated for a mean, and :math:`n w` for a sum of n rows. For the owner only: the noise over the number
itself (its relative error), and over the spread of the release's numbers, which is their standard deviation
from group to group. A release whose noise exceeds the spread does not tell its groups apart.
"""

from __future__ import annotations

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.findings import Findings
from sightline.auditing.lowering import LINEAR
from sightline.auditing.pricing import feature_range
from sightline.auditing.result_parts import NoiseOfRange, ReleaseAccuracy
from sightline.tables.membership import Feature, Partition, Statistic


def noise_of_range(findings: Findings, query: int) -> NoiseOfRange | None:
    """The noise of a release's numbers over their ranges: median and largest; none if it has no number."""
    cells = _cells_of(findings, query)
    if not cells.size:
        return None
    membership, data = findings.membership, findings.plan.data
    parts = [membership.partitions[membership.cells[c].partition] for c in cells]
    reach = np.array([feature_range(part, data.domain, data.bandwidth) for part in parts])
    rows = np.array([membership.cells[c].rows for c in cells], dtype=np.float64)
    is_sum = np.array([part.statistic is Statistic.SUM for part in parts])
    noise = findings.pricing.noise_stddev[cells] / (reach * np.where(is_sum, rows, 1.0))
    return NoiseOfRange(median=float(np.median(noise)), worst=float(noise.max()))


def release_accuracies(findings: Findings, sums: FloatArray | None) -> tuple[ReleaseAccuracy | None, ...]:
    """The relative errors of every release at the true values, for the owner only.

    ``sums`` are those of the secrets with each signature; without them there are no errors. None for a
    release that is not linear in the secret.
    """
    queries = range(len(findings.plan.releases))
    return tuple(None if sums is None else _accuracy(findings, sums, query) for query in queries)


def _accuracy(findings: Findings, sums: FloatArray, query: int) -> ReleaseAccuracy | None:
    membership = findings.membership
    numbers, noises, spreads = [], [], []
    for p, part in enumerate(membership.partitions):
        if part.query != query or membership.starts[p] == membership.starts[p + 1]:
            continue
        cells = np.arange(membership.starts[p], membership.starts[p + 1])
        if part.feature not in LINEAR or part.weighted or not _declared(findings, part):
            return None
        true = _true_numbers(findings, sums, p)
        numbers.append(true)
        noises.append(findings.pricing.noise_stddev[cells])
        if cells.size > 1:
            spreads.append((float(np.std(true)), float(np.median(noises[-1]))))
    if not numbers:
        return None
    errors = _relative(np.concatenate(noises), np.abs(np.concatenate(numbers)))
    over_spread = [float(_relative(np.array([noise]), np.array([spread]))[0]) for spread, noise in spreads]
    return ReleaseAccuracy(
        median_relative_error=_six_digits(float(np.median(errors))),
        worst_relative_error=_six_digits(float(errors.max())),
        noise_over_spread=_six_digits(max(over_spread)) if over_spread else None,
    )


def _relative(noise: FloatArray, size: FloatArray) -> FloatArray:
    """Noise over a size: infinite where that is 0, and 0 where there is no noise."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(noise == 0, 0.0, noise / size)


def _six_digits(value: float) -> float:
    """Without the last digits, which depend on the order in which an engine adds up the rows."""
    return float(f"{value:.6g}")


def _declared(findings: Findings, part: Partition) -> bool:
    """Whether the sums of the secrets have a column for what a partition counts."""
    return part.feature is not Feature.INDICATOR or set(part.categories) <= set(
        findings.plan.data.categories or ()
    )


def _true_numbers(findings: Findings, sums: FloatArray, p: int) -> FloatArray:
    """The true numbers of a linear partition, from the sums of every signature."""
    membership, part = findings.membership, findings.membership.partitions[p]
    cells = membership.cells[membership.starts[p] : membership.starts[p + 1]]
    columns = [0]
    if part.feature is Feature.INDICATOR:
        columns = [(findings.plan.data.categories or ()).index(one) for one in part.categories]
    place = membership.signatures[:, p].astype(np.intp) + 1  # 0 for none
    counted = np.bincount(place, sums[:, columns].sum(axis=1), len(cells) + 1)
    total = np.asarray(counted[1:], dtype=np.float64)
    rows = np.array([cell.rows for cell in cells], dtype=np.float64)
    total = total if part.above else rows - total
    return np.asarray(total / rows if part.statistic is Statistic.MEAN else total)


def _cells_of(findings: Findings, query: int) -> IndexArray:
    membership = findings.membership
    starts, own = membership.starts, [np.zeros(0, dtype=np.intp)]
    for p, part in enumerate(membership.partitions):
        if part.query == query:
            own.append(np.arange(starts[p], starts[p + 1]))
    return np.concatenate(own)
