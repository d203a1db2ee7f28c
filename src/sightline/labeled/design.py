"""A membership design: subset means or sums over named records, the noise on them, and what they expose.

A record that is not identifiable may be part of an identifiable combination of records: one that is also a
combination of the answers. Those with smallest support are the cocircuits of the design's columns. With the
record's column first in the elimination, the reduced row with its pivot is one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidInput, InvalidRelease, require
from sightline.labeled.assessment import attacked
from sightline.labeled.bounds.priors import UniformPrior, prior_on
from sightline.labeled.bounds.target import TargetPrior
from sightline.labeled.contributions import Contributions, contributions
from sightline.labeled.description import Known, LinearReleases, unknown_records
from sightline.labeled.exposures import Exposures, exposures, row_noise
from sightline.labeled.member_rows import MemberRows
from sightline.labeled.unit_design import Design, UnitPrior
from sightline.noise.laws import CorrelatedNoise
from sightline.numerics.integers import reduced_rows
from sightline.numerics.residues import decide_columns
from sightline.progress import Progress, reporting

# Entries of the table that is eliminated.
_LARGEST = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SmallestCombination:
    """An identifiable combination of records. No combination of fewer of these records is identifiable."""

    records: IndexArray
    coefficients: tuple[Fraction, ...]
    rmse: float  # of the best unbiased attack on it
    recipe: FloatArray  # weights on the answers
    relative_error: float  # a bound for rmse; infinite where rmse is only known to be at least this


def combination(design: LinearReleases, record: int, *, known: Iterable[int] = ()) -> SmallestCombination:
    """A smallest identifiable combination that the record is part of. The record's coefficient is one."""
    unknown = unknown_records(design.size, known)
    incidence = design.incidence
    if not 0 <= record < design.size:
        raise InvalidInput(f"expected a record from 0 to {design.size - 1}, got {record}")
    require(
        bool(unknown[record]), "a record that the attacker does not know", got=f"record {record} in known="
    )
    require(incidence.whole, "whole-number weights", got="real-valued ones", error=InvalidRelease)
    positions = np.flatnonzero(unknown)
    _, first, group, sizes = np.unique(
        incidence.groups(unknown)[positions], return_index=True, return_inverse=True, return_counts=True
    )
    require(
        design.row_count * first.size <= _LARGEST,
        f"at most {_LARGEST:,} entries of rows × signatures",
        got=f"{design.row_count * first.size:,}",
        fix="ask of a part of the design",
    )
    columns = incidence.columns(positions[first])
    target = int(group[np.searchsorted(positions, record)])
    require(
        bool(columns[:, target].any()), "a record in some release", got=f"record {record}, which is in none"
    )
    # Early columns become pivots and drop out of the combination: after the record's own, large groups first.
    order = np.argsort(-sizes, kind="stable")
    order = np.concatenate([[target], order[order != target]])
    columns = columns[:, order]
    (row,) = reduced_rows(columns.astype(np.int64), [0])
    support = {int(order[i]): value for i, value in enumerate(row.coefficients) if value != 0}
    members = np.flatnonzero(np.isin(group, list(support)))
    coefficients = tuple(support[int(group[i])] for i in members)
    rmse, recipe, error = _best_attack(design, columns)
    return SmallestCombination(
        records=positions[members],
        coefficients=coefficients,
        rmse=rmse,
        recipe=recipe,
        relative_error=error,
    )


def _best_attack(releases: LinearReleases, columns: FloatArray) -> tuple[float, FloatArray, float]:
    """RMSE, recipe and the error of the RMSE, for the combination whose pivot is the first column.

    Its coefficients at all other pivots are zero. So over the pivots' columns alone it is the first of
    their values, and the best attack on it is that on one record among these.
    """
    answers = np.arange(releases.row_count)
    if isinstance(releases.law, CorrelatedNoise):
        answers = np.sort(releases.law.independent)
    table = columns[np.ix_(answers, decide_columns(columns).pivots)]
    alone = table.shape[1] == 1  # a design has at least two records: beside the only one, one that is nowhere
    members = MemberRows.of(np.hstack([table, np.zeros_like(table)]) if alone else table)
    found = attacked(
        Design(
            units=members.units(np.arange(table.shape[1]), np.ones(table.shape[1], dtype=np.intp)),
            noise=row_noise(releases, answers=answers),
            prior=UnitPrior(target=UniformPrior(0.0, 1.0)),
            release=releases.release_of[answers],
            place=np.arange(table.shape[1]),
        ),
        np.zeros(1, dtype=np.intp),
    )
    recipe = np.zeros(releases.row_count)
    recipe[answers] = found.recipe(0)
    return float(found.rmse[0, 0]), recipe / releases.scale, found.relative_error


class MembershipDesign(LinearReleases):
    r"""Releases :math:`y = A x + w` over N named records (``eq:lever1_linear_model``).

    ``rows`` is a table of 0s and 1s or of weights (releases × records), a scipy sparse array, or, with
    ``records=N``, lists of members. ``readout`` is "mean" or "sum"; weights are published as sums.
    ``noise`` is an accountant, which also needs ``radius``, the largest change of one record's value; or
    standard deviations, one for each row; or a covariance matrix; or a noise law. ``releases`` gives for
    each row the release that it is part of, for releases with many cells: their members must be disjoint,
    and the accountant counts them once. ``factors`` multiplies each published row, where the factor is
    neither that of a mean nor that of a sum.

    >>> design = MembershipDesign([[0, 1, 2, 3], [1, 2, 3]], records=5, noise=[0.3, 0.4])
    >>> found = design.exposures(domain=(0, 10))
    >>> found.identifiable.tolist()
    [True, False, False, False, False]
    >>> round(float(found.rmse[0]), 6)
    1.697056
    >>> found.recipe(0).round(6).tolist()
    [4.0, -3.0]
    """

    __slots__ = ()

    def exposures(
        self,
        *,
        domain: tuple[float, float] | None = None,
        prior: str | TargetPrior = "uniform",
        known: Iterable[int] | Known = (),
        device: str | None = None,
        progress: Progress | None = None,
    ) -> Exposures:
        """What the releases expose of every record that the attacker does not know.

        ``domain`` is the smallest and the largest value that a record can have. ``prior`` says how the values
        are spread over it, for the target and all other unknown records: "uniform", "cos2" or "two-point"; or
        it is a prior with a domain of its own, such as ``CoinPrior`` for yes and no. ``known`` are
        records whose values the attacker has; ``Known.ALL_OTHERS`` gives for each record all the others.
        ``device`` names an accelerator for the dense part, such as "cuda". ``progress`` is called with a
        stage and the share of it that is done.
        """
        placed = self if device is None else self.on(device)
        with reporting(progress):
            return exposures(placed, prior=prior_on(domain, prior), known=known)

    def combination(self, record: int, *, known: Iterable[int] = ()) -> SmallestCombination:
        """A smallest identifiable combination of records that a record is part of.

        >>> design = MembershipDesign([[0, 1], [1, 2], [3]], records=4, noise=[1.0] * 3, readout="sum")
        >>> found = design.combination(0)
        >>> found.records.tolist(), [int(value) for value in found.coefficients]
        ([0, 2], [1, -1])
        """
        return combination(self, record, known=known)

    def contributions(
        self,
        *,
        known: Iterable[int] = (),
        exposures: Exposures | None = None,
        progress: Progress | None = None,
    ) -> Contributions:
        """What each release adds to the exposure of the identifiable records.

        ``exposures`` are this design's for the same ``known``, if they have been computed: they say who is
        identifiable, which is then not decided again.
        """
        with reporting(progress):
            return contributions(self, known=known, found=exposures)
