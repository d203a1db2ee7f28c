"""What each release does: whom it newly exposes, how much it sharpens, which pair of rows is a difference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidRelease, require
from sightline.geometry.decision import Evidence, Rank
from sightline.labeled import residues
from sightline.labeled.assess import unknown_records
from sightline.labeled.company import Company
from sightline.labeled.design import MembershipDesign
from sightline.labeled.differencing import DifferencingPair, differencing_pairs
from sightline.labeled.forms import ProjectedForms
from sightline.labeled.identify import Survey, sweep
from sightline.labeled.pattern import BoolArray, Progress
from sightline.labeled.residues import Residues
from sightline.labeled.sharpness import variances


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


def contribute(design: MembershipDesign, *, known: Iterable[int], progress: Progress) -> Contributions:
    """Take every release away, and publish them one by one."""
    require(
        design.pattern.whole,
        "whole-number weights",
        got="real-valued ones",
        fix="compare design.take(rows).exposures(...) with and without a release",
        error=InvalidRelease,
    )
    unknown = unknown_records(design, known)
    seen = sweep(design.pattern, unknown, progress).solve()
    nothing = np.zeros((0, design.lines))
    forms = ProjectedForms(
        projection=nothing, weights=np.zeros((0, 0)), offsets=np.zeros(0), linear=seen.linear
    )
    decided = seen.decide(design.pattern.forms(forms, unknown, progress), unknown)
    totals = seen.totals(decided.kinds, unknown)
    positions = np.flatnonzero(unknown)
    exposed = np.flatnonzero(decided.identifiable)
    singles = exposed[decided.sizes[exposed] == 1]
    place = np.full(design.size, -1, dtype=np.intp)
    among = np.full(decided.sizes.size, -1, dtype=np.intp)
    among[exposed] = np.arange(exposed.size)
    place[positions] = among[decided.kinds]
    targets = Targets(
        design=design,
        survey=seen,
        columns=design.pattern.columns(positions[decided.first[exposed]]),
        sizes=decided.sizes[exposed],
        totals=totals[:, exposed],
        unknown=unknown,
        place=place,
    )
    chosen = np.searchsorted(exposed, singles)
    count = design.release_count
    in_order = np.full((count, singles.size), np.inf)
    without = np.full((count, singles.size), np.inf)
    for release in range(count if singles.size else 0):
        in_order[release] = targets.rmse(np.flatnonzero(design.release_of <= release))[chosen]
        without[release] = targets.rmse(np.flatnonzero(design.release_of != release))[chosen]
        progress("releases", (release + 1) / count)
    pairs = differencing_pairs(
        design.names,
        images=seen.images,
        totals=totals,
        prime=seen.prime,
        first=positions[decided.first],
        sizes=decided.sizes,
    )
    return Contributions(
        records=positions[decided.first[singles]],
        rmse=in_order[-1],
        rmse_in_order=in_order,
        rmse_without=without,
        pairs=pairs,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Targets:
    """The groups that a design identifies, ready to be asked of some of its rows only."""

    design: MembershipDesign
    survey: Survey
    columns: FloatArray
    sizes: IndexArray
    totals: Residues
    unknown: BoolArray
    place: IndexArray  # over all records: the group among these, or -1

    def rmse(self, lines: IndexArray) -> FloatArray:
        """The RMSE of each group's sum from some of the rows."""
        found = np.full(self.sizes.size, np.inf)
        if lines.size == 0:
            return found
        prime = self.survey.prime
        products = self.survey.products[np.ix_(lines, lines)]
        images = self.survey.images[:, lines]
        rank, solved = residues.solve(products.astype(np.int64), images, prime=prime)
        columns = self.columns[lines]
        limbs = residues.limbs(solved, bits=self.survey.bits)
        tests = residues.join(limbs @ columns, bits=self.survey.bits, prime=prime)
        seen = residues.times(tests, self.sizes.astype(np.int64), prime=prime)
        exposed = np.flatnonzero(np.all(seen == self.totals, axis=0))
        if exposed.size == 0:
            return found
        kept = columns[:, exposed]
        chosen = np.zeros(self.sizes.size + 1, dtype=np.bool_)
        chosen[exposed] = True
        others = Company(
            design=self.design.take(lines),
            products=products - (kept * self.sizes[exposed]) @ kept.T,
            unknown=self.unknown & ~chosen[self.place],
        )
        rest = others.root(Rank(rank=rank - exposed.size, evidence=Evidence.MODULAR))
        whitened = others.design.whiten(np.hstack([kept, rest.factor]))
        found[exposed] = np.sqrt(variances(whitened, 0.0, targets=exposed.size))
        return found
