"""What each release does: whom it newly exposes, how much it sharpens, which pair of rows is a difference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidRelease, require
from sightline.labeled.assess import unknown_records
from sightline.labeled.company import Company
from sightline.labeled.design import MembershipDesign
from sightline.labeled.differencing import DifferencingPair, differencing_pairs
from sightline.labeled.exposures import Exposures
from sightline.labeled.fit import Fit
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.removal import Recipes
from sightline.labeled.routes.exact import sweep
from sightline.labeled.sharpness import variances
from sightline.numerics import integers as exact
from sightline.numerics.decision import Evidence, Rank
from sightline.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contributions:
    """The identifiable records, and what every release has to do with it.

    Rows of the tables are releases in order of publication, columns are ``records``. An entry is the RMSE of
    the best unbiased attack, infinite where there is none.
    """

    records: IndexArray  # those that the whole design identifies
    rmse: FloatArray  # with all releases
    rmse_in_order: FloatArray  # with the releases up to and including this one
    rmse_without: FloatArray  # with all releases but this one
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


def contribute(
    design: MembershipDesign, *, known: Iterable[int], exposures: Exposures | None, progress: Progress
) -> Contributions:
    """Take every release away, and publish them one by one."""
    require(
        design.pattern.whole,
        "whole-number weights",
        got="real-valued ones",
        fix="compare design.take(rows).exposures(...) with and without a release",
        error=InvalidRelease,
    )
    known = list(known)
    unknown = unknown_records(design, known)
    if exposures is None:
        exposures = design.exposures(domain=(0.0, 1.0), known=known, progress=progress)
    swept = sweep(design.pattern, unknown, progress)
    groups = exposures.groups
    exposed = np.flatnonzero(groups.identifiable)
    singles = np.flatnonzero(groups.sizes[exposed] == 1)
    in_order = without = np.zeros((design.release_count, exposed.size))
    if singles.size:
        among = np.full(len(groups) + 1, -1, dtype=np.intp)  # the last entry is for known records
        among[exposed] = np.arange(exposed.size)
        targets = Targets(
            design=design,
            products=swept.products,
            columns=design.pattern.columns(groups.first[exposed]),
            sizes=groups.sizes[exposed],
            unknown=unknown,
            place=among[exposures.group],
        )
        progress("taking releases away", 0.0)
        in_order, without = targets.rmse(progress)
    marks, prime = swept.marks(), exact.prime_of(swept.products.astype(np.int64))
    pairs = differencing_pairs(
        design.names,
        images=marks.images(prime),
        totals=marks.totals(exposures.group[unknown], unknown, prime),
        prime=prime,
        first=groups.first,
        sizes=groups.sizes,
    )
    return Contributions(
        records=groups.first[exposed[singles]],
        rmse=in_order[-1, singles],
        rmse_in_order=in_order[:, singles],
        rmse_without=without[:, singles],
        pairs=pairs,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Targets:
    """The groups that a design identifies, ready to be asked of some of its rows only."""

    design: MembershipDesign
    products: FloatArray
    columns: FloatArray
    sizes: IndexArray
    unknown: BoolArray
    place: IndexArray  # over all records: the group among these, or -1

    def rmse(self, progress: Progress) -> tuple[FloatArray, FloatArray]:
        """The RMSE of each group's sum, releases × groups: with those up to a release, and without it."""
        release_of, count = self.design.release_of, self.design.release_count
        recipes = Recipes.of(self.products, self.columns, self.sizes)
        fit = Fit.of(self.design, recipes, self.products, self.columns, self.sizes)
        opened = release_of[recipes.last]
        in_order, without = np.full((2, count, self.sizes.size), np.inf)
        for release in range(count):
            seen = opened <= release
            if fit is not None:
                in_order[release, seen] = fit.in_order[release, seen]
            else:
                rank = int(np.count_nonzero(release_of[recipes.pivots] <= release))
                in_order[release, seen] = self._from(np.flatnonzero(release_of <= release), rank, seen)
            own = np.flatnonzero(release_of == release)
            stays, lost = recipes.without(own)
            numbers = None if fit is None else fit.without(own, own.size - lost)
            if numbers is not None:
                without[release, stays] = numbers[stays]
            else:
                rank = recipes.pivots.size - lost
                without[release, stays] = self._from(np.flatnonzero(release_of != release), rank, stays)
            progress("releases", (release + 1) / count)
        return in_order, without

    def _from(self, lines: IndexArray, rank: int, seen: BoolArray) -> FloatArray:
        """The RMSE of the groups that some rows of a known rank identify, by factorising these."""
        if not seen.any():
            return np.zeros(0)
        kept, sizes = self.columns[np.ix_(lines, np.flatnonzero(seen))], self.sizes[seen]
        chosen = np.append(seen, False)
        others = Company(
            design=self.design.take(lines),
            products=self.products[np.ix_(lines, lines)] - (kept * sizes) @ kept.T,
            unknown=self.unknown & ~chosen[self.place],
        )
        rest = others.root(Rank(rank=rank - sizes.size, evidence=Evidence.MODULAR))
        whitened = others.design.whiten(np.hstack([kept, rest.factor]))
        return np.sqrt(variances(whitened, 0.0, targets=sizes.size))
