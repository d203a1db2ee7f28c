"""The stated error of a person's feature is never exceeded: the truth by rationals and 60 digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from flint import fmpq_mat

from sightline.labeled.bounds.uniform import UniformPrior
from sightline.labeled.exposures import exposures
from sightline.labeled.persons import persons
from tests.labeled.exact_answers import fraction, rational
from tests.labeled.persons.naive_panels import Panel, random_panel


def exact_errors(panel: Panel, person: int) -> tuple[float, float]:
    """The least RMSE of an identifiable unit feature, and that of the total (infinite if there is none)."""
    unknown = np.flatnonzero(~panel.known)
    own = np.searchsorted(unknown, panel.rows(person))
    order = np.concatenate([np.setdiff1d(np.arange(unknown.size), own), own])
    rows = rational(panel.members[:, unknown[order]].astype(float))
    lines, width = rows.nrows(), rows.ncols()
    echelon, rank = rows.rref()
    pivots, features = [], []
    for i in range(int(rank)):
        entries = [echelon[i, k] for k in range(width)]
        pivot = next(k for k in range(width) if entries[k] != 0)
        pivots.append(pivot)
        if pivot >= width - own.size:  # others before own: this row is a feature of the person alone
            features.append(entries)
    if not features:
        return np.inf, np.inf
    B = fmpq_mat(lines, len(pivots), [rows[i, k] for i in range(lines) for k in pivots])
    weights = [1 / fraction(s) ** 2 for s in panel.stddevs.tolist()]
    weighted = fmpq_mat(
        lines, len(pivots), [weights[i] * B[i, k] for i in range(lines) for k in range(len(pivots))]
    )
    inverse = (B.transpose() * weighted).inv()
    columns = fmpq_mat(len(pivots), len(features), [f[k] for k in pivots for f in features])
    errors, lengths = columns.transpose() * inverse * columns, []
    for f in features:
        lengths.append([sum((a * b for a, b in zip(f, g, strict=True)), fraction(0.0)) for g in features])
    with mpmath.workdps(60):
        size = len(features)
        E = mpmath.matrix(
            [
                [mpmath.mpf(int(errors[i, k].p)) / int(errors[i, k].q) for k in range(size)]
                for i in range(size)
            ]
        )
        N = mpmath.matrix([[mpmath.mpf(int(v.p)) / int(v.q) for v in line] for line in lengths])
        half = mpmath.inverse(mpmath.cholesky(N))
        least = min(mpmath.eigsy(half * E * half.T, eigvals_only=True))
        total = [fraction(1.0 if k >= width - own.size else 0.0) for k in range(width)]
        remainder = [
            t - sum((f[k] * total[_pivot(f)] for f in features), fraction(0.0)) for k, t in enumerate(total)
        ]
        if any(value != 0 for value in remainder):
            return float(mpmath.sqrt(least)), np.inf
        at = fmpq_mat(len(pivots), 1, [total[k] for k in pivots])
        square = (at.transpose() * inverse * at)[0, 0]
        mse = mpmath.mpf(int(square.p)) / int(square.q) / own.size
        return float(mpmath.sqrt(least)), float(mpmath.sqrt(mse))


def _pivot(entries: list[object]) -> int:
    return next(k for k, value in enumerate(entries) if value != 0)


@pytest.mark.slow
@pytest.mark.parametrize(("spread", "most"), [(0.0, 1e-6), (3.0, 1e-2), (7.0, 0.5)])
def test_the_stated_error_of_a_feature_is_not_exceeded(spread: float, most: float) -> None:
    """Noise over up to 14 orders of magnitude. Where nothing can be said, the RMSE is at most the truth."""
    checked, largest = 0, 0.0
    for seed in range(60):
        generator = np.random.default_rng([91, seed])
        panel = random_panel(generator)
        if np.unique(panel.members, axis=1).shape[1] < 2:
            continue
        panel = Panel(
            members=panel.members,
            person=panel.person,
            known=panel.known,
            stddevs=panel.stddevs * 10 ** generator.uniform(-spread, spread, panel.stddevs.size),
        )
        design, kinds, examples, known = panel.row_by_row()
        seen = persons(design, kinds, exposures(design, prior=UniformPrior(0.0, 1.0), known=known))
        for kind, person in enumerate(examples):
            if kind not in seen.features:
                continue
            sharpest, total = exact_errors(panel, person)
            for feature, truth in ((seen.features[kind], sharpest), (seen.totals.get(kind), total)):
                if feature is None:
                    continue
                assert feature.relative_error <= seen.relative_error
                if np.isinf(feature.relative_error):
                    assert feature.rmse <= truth
                    continue
                assert abs(feature.rmse / truth - 1) <= feature.relative_error
                checked, largest = checked + 1, max(largest, feature.relative_error)
    assert checked > 20
    assert 0 < largest < most, largest
