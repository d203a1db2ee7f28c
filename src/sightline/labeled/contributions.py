"""What each release adds: whom it newly exposes, how much it sharpens, which rows differ by a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray, parts
from sightline.errors import InvalidRelease, require
from sightline.labeled.assessment import attacked
from sightline.labeled.bounds.priors import UniformPrior
from sightline.labeled.description import LinearReleases, unknown_records
from sightline.labeled.exposures import Exposures, LoweredRecords, exposures
from sightline.labeled.row_products import ProductSums, RowProducts
from sightline.labeled.units import BoolArray
from sightline.noise.laws import CorrelatedNoise
from sightline.progress import report


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferencingPair:
    """Two rows, one of which has exactly one group of records more."""

    larger: int
    smaller: int
    record: int  # the record, or one record of the group
    size: int  # how many records the difference is
    names: tuple[str, str]

    def __str__(self) -> str:
        whom = f"record {self.record}" if self.size == 1 else f"{self.size} records around {self.record}"
        return f"{self.names[0]!r} minus {self.names[1]!r} leaves {whom}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contributions:
    """The identifiable records, and how each release contributes to their exposure.

    Rows of the tables are releases in order of publication, columns are ``records``. An entry is the RMSE of
    the best unbiased attack (the root of ``eq:mse_optimal_s4``), infinite where there is none, NaN where the
    sparse route leaves that undecided.
    """

    records: IndexArray  # those that the whole design identifies
    rmse: FloatArray  # with all releases
    rmse_in_order: FloatArray  # with the releases up to and including this one
    rmse_without: FloatArray  # with all releases but this one
    relative_error: float  # a bound for all three; infinite where one is only known to be at least this
    pairs: tuple[DifferencingPair, ...]

    def newly_exposed(self, release: int) -> IndexArray:
        """Records that became identifiable when a release was published."""
        before = self.rmse_in_order[release - 1] if release else np.full(self.records.size, np.inf)
        new: IndexArray = self.records[np.isfinite(self.rmse_in_order[release]) & np.isinf(before)]
        return new

    def exposed_only_with(self, release: int) -> IndexArray:
        """Records that would not be identifiable without a release."""
        lost: IndexArray = self.records[np.isinf(self.rmse_without[release])]
        return lost

    def sharpening_in_order(self) -> FloatArray:
        """By what factor each release lowered the RMSE when it was published; NaN before exposure."""
        before = np.vstack([np.full((1, self.records.size), np.inf), self.rmse_in_order[:-1]])
        with np.errstate(invalid="ignore"):
            return np.asarray(before / self.rmse_in_order)

    def sharpening(self) -> FloatArray:
        """By what factor the RMSE would be larger without each release; infinite where it identifies."""
        return np.asarray(self.rmse_without / self.rmse)


def contributions(
    releases: LinearReleases, *, known: Iterable[int] = (), found: Exposures | None = None
) -> Contributions:
    """The exposure after each release in order, and without each release.

    ``found`` are the exposures for the same ``known``, if they have been computed.
    """
    require(
        releases.incidence.whole,
        "whole-number weights",
        got="real-valued ones",
        fix="compare design.take(rows).exposures(...) with and without a release",
        error=InvalidRelease,
    )
    known = list(known)
    unknown, prior = unknown_records(releases.size, known), UniformPrior(0.0, 1.0)
    if found is None:
        found = exposures(releases, prior=prior, known=known)
    lowered = LoweredRecords.of(releases, prior, unknown)
    design, groups, count = lowered.design, found.groups, releases.release_count
    sums: ProductSums = design.made.setdefault(
        "products", RowProducts.unweighted(design.units, design.prior, design.noise).of(design.units)
    )
    singles = np.flatnonzero(groups.identifiable & (groups.sizes == 1))
    parts = _Parts(releases=releases, lowered=lowered, kinds=singles)
    if not singles.size:
        in_order = without = np.zeros((count, 0))
        error = 0.0
    elif count == 1:  # nobody is identifiable without it
        in_order, error = groups.rmse[singles][None], found.relative_error
        without = np.full_like(in_order, np.inf)
    else:
        in_order, without, error = _one_by_one(parts)
    return Contributions(
        records=groups.first[singles],
        rmse=in_order[-1],
        rmse_in_order=in_order,
        rmse_without=without,
        relative_error=error,
        pairs=_pairs(releases, lowered, sums),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Parts:
    """Designs with some of the rows, and the records that the whole design identifies."""

    releases: LinearReleases
    lowered: LoweredRecords
    kinds: IndexArray

    @property
    def correlated(self) -> bool:
        return isinstance(self.releases.law, CorrelatedNoise)

    def rmse(self, rows: BoolArray) -> tuple[FloatArray, float]:
        """Of the records with some of the rows; infinite if they are not identifiable, NaN if that is
        undecided.
        """
        if not rows.any():
            return np.full(self.kinds.size, np.inf), 0.0
        if not self.correlated:
            design, kinds = self.lowered.design.take(rows), self.kinds
        else:  # without an answer, another one may say something that it did not add before
            releases = self.releases.take(np.flatnonzero(rows))
            lowered = LoweredRecords.of(releases, UniformPrior(0.0, 1.0), self.lowered.unknown)
            design, kinds = lowered.design, lowered.design.place[self.lowered.first[self.kinds]]
        found = attacked(design, np.unique(kinds))
        alone = np.asarray(design.units.people)[kinds] == 1
        undecided = found.undecided[kinds] & ~found.identifiable[kinds, 0]
        errors = np.where(found.identifiable[kinds, 0] & alone, found.rmse[kinds, 0], np.inf)
        return np.where(undecided, np.nan, errors), found.relative_error


def _one_by_one(parts: _Parts) -> tuple[FloatArray, FloatArray, float]:
    """RMSE with the releases up to each one, and without it: an assessment each."""
    release_of, count = parts.releases.release_of, parts.releases.release_count
    in_order, without = np.full((2, count, parts.kinds.size), np.inf)
    worst = 0.0
    for release in range(count):
        report("taking releases away", release / count)
        in_order[release], error = parts.rmse(release_of <= release)
        without[release], other = parts.rmse(release_of != release)
        worst = max(worst, error, other)
    return in_order, without, worst


def _pairs(
    releases: LinearReleases, lowered: LoweredRecords, sums: ProductSums
) -> tuple[DifferencingPair, ...]:
    """Rows that differ by one group, found by sums of random whole numbers over them: exact in doubles."""
    people, place = np.asarray(lowered.design.units.people), lowered.design.place
    drawn = np.random.default_rng(list(releases.incidence.digest()))
    keys = drawn.integers(1, 1 << 20, size=(4, people.size)).astype(np.float64)
    each = np.where(lowered.unknown, keys[:, place], 0.0)
    among = None
    if releases.incidence.binary:  # a row that has all of another one's members
        M = sparse.coo_array(sums.matrix)
        nested = M.data == np.asarray(sums.matrix.diagonal())[M.coords[1]]
        empty = np.flatnonzero(np.asarray(sums.matrix.diagonal()) == 0)
        larger, smaller = M.coords[0][nested], M.coords[1][nested]
        rows = np.arange(sums.matrix.shape[0])
        among = (
            np.concatenate([larger, np.repeat(rows, empty.size)]).astype(np.intp),
            np.concatenate([smaller, np.tile(empty, rows.size)]).astype(np.intp),
        )
        among = (lowered.answers[among[0]], lowered.answers[among[1]])
    return differencing_pairs(
        releases.names,
        images=releases.incidence.images(each),
        totals=keys * people,
        first=lowered.first,
        sizes=people,
        among=among,
    )


def differencing_pairs(  # many parameters: the rows, the groups and their residues
    names: Sequence[str],
    *,
    images: FloatArray,
    totals: FloatArray,
    first: IndexArray,
    sizes: IndexArray,
    among: tuple[IndexArray, IndexArray] | None = None,
) -> tuple[DifferencingPair, ...]:
    """All pairs of different rows that differ by one group, found by sums of random whole numbers.

    ``images`` are their sums over each row, ``totals`` over each group: rows differ by a group iff these
    do. Of rows that repeat each other only the first is named. ``among`` are the pairs of a larger and a
    smaller row that come into question; by default all pairs do.
    """
    _, distinct = np.unique(images, axis=1, return_index=True)
    distinct.sort()
    order = np.argsort(totals[0], kind="stable")
    table = totals[0][order]
    pairs = []
    for larger, smaller in _candidates(distinct, images.shape[1], among):
        differences = images[:, larger] - images[:, smaller]
        place = np.minimum(np.searchsorted(table, differences[0]), table.size - 1)
        group = order[place]
        hits = np.all(totals[:, group] == differences, axis=0) & np.any(differences != 0, axis=0)
        pairs += [
            DifferencingPair(
                larger=one,
                smaller=two,
                record=int(first[own]),
                size=int(sizes[own]),
                names=(names[one], names[two]),
            )
            for one, two, own in zip(
                larger[hits].tolist(), smaller[hits].tolist(), group[hits].tolist(), strict=True
            )
        ]
    return tuple(pairs)


def _candidates(
    distinct: IndexArray, rows: int, among: tuple[IndexArray, IndexArray] | None
) -> Iterator[tuple[IndexArray, IndexArray]]:
    """Pairs of rows that repeat no earlier row, some at a time, ordered by the larger and the smaller."""
    if among is None:
        for own in parts(distinct.size, each=8 * distinct.size):
            some = distinct[own]
            yield np.repeat(some, distinct.size), np.tile(distinct, some.size)
        return
    usable = np.zeros(rows, dtype=np.bool_)
    usable[distinct] = True
    larger, smaller = among
    kept = usable[larger] & usable[smaller]
    larger, smaller = larger[kept], smaller[kept]
    order = np.lexsort((smaller, larger))
    yield larger[order], smaller[order]
