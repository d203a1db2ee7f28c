"""What each release adds: whom it newly exposes, how much it sharpens, which rows differ by a record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidRelease, require
from sightline.labeled import certified
from sightline.labeled.bounds.uniform import UniformPrior
from sightline.labeled.description import LinearReleases
from sightline.labeled.differencing import DifferencingPair, differencing_pairs
from sightline.labeled.exposures import Exposures, exposures
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.knowledge import unknown_records
from sightline.labeled.least_squares import variances
from sightline.labeled.recipe_noise import RecipeNoise
from sightline.labeled.removal import ModularRecipes
from sightline.labeled.routes.cost import MOST_RELEASES, choose_route
from sightline.labeled.routes.exact import random_residues
from sightline.labeled.sparse_contributions import SparseReleases
from sightline.labeled.sparse_gram import SparseGram
from sightline.labeled.unknown_gram import UnknownRecordsGram
from sightline.numerics import integers as exact
from sightline.numerics.decision import Evidence, Rank
from sightline.progress import Progress, silent

# Recipes in large designs with an error above this are computed again, release by release.
_POOR = 1e-6


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
    design: LinearReleases,
    *,
    known: Iterable[int] = (),
    found: Exposures | None = None,
    enough: float = certified.ENOUGH,
    progress: Progress = silent,
) -> Contributions:
    """The exposure after each release in order, and without each release.

    ``found`` are the exposures for the same ``known``, if they have been computed. Numbers whose relative
    error is above ``enough`` are computed again in ball arithmetic, where that is affordable.
    """
    require(
        design.incidence.whole,
        "whole-number weights",
        got="real-valued ones",
        fix="compare design.take(rows).exposures(...) with and without a release",
        error=InvalidRelease,
    )
    known = list(known)
    unknown = unknown_records(design.size, known)
    if found is None:
        found = exposures(design, prior=UniformPrior(0.0, 1.0), known=known, progress=progress)
    _, pattern = choose_route(design, progress)
    if pattern is not None and design.release_count <= MOST_RELEASES:
        return _sparse_contributions(SparseGram.of(design, unknown, pattern), found, progress)
    gram = UnknownRecordsGram.of(design, unknown, progress)
    groups = found.groups
    exposed = np.flatnonzero(groups.identifiable)
    singles = np.flatnonzero(groups.sizes[exposed] == 1)
    in_order = without = np.zeros((design.release_count, exposed.size))
    error = 0.0
    if singles.size and design.release_count == 1:  # nobody is identifiable without it
        in_order, error = groups.rmse[exposed][None], found.relative_error
        without = np.full_like(in_order, np.inf)
    elif singles.size:
        among = np.full(len(groups) + 1, -1, dtype=np.intp)  # the last entry is for known records
        among[exposed] = np.arange(exposed.size)
        targets = ExposedGroups(
            gram=gram,
            first=groups.first,
            exposed=exposed,
            columns=design.incidence.columns(groups.first[exposed]),
            sizes=groups.sizes[exposed],
            place=among[found.group],
            enough=enough,
        )
        progress("taking releases away", 0.0)
        in_order, without, error = targets.rmse(progress)
    random, prime = random_residues(gram), exact.prime_of(gram.matrix.astype(np.int64))
    pairs = differencing_pairs(
        design.names,
        images=random.images(prime),
        totals=random.totals(found.group[unknown], unknown, prime),
        prime=prime,
        first=groups.first,
        sizes=groups.sizes,
        among=_nested(gram),
    )
    return Contributions(
        records=groups.first[exposed[singles]],
        rmse=in_order[-1, singles],
        rmse_in_order=in_order[:, singles],
        rmse_without=without[:, singles],
        relative_error=error,
        pairs=pairs,
    )


def _nested(gram: UnknownRecordsGram) -> tuple[IndexArray, IndexArray] | None:
    """Pairs of a row and another whose unknown members it all has; ``None`` where rows have weights."""
    if not gram.design.incidence.binary:
        return None
    larger, smaller = np.nonzero(gram.matrix == np.diagonal(gram.matrix))
    return larger, smaller


def _sparse_contributions(gram: SparseGram, found: Exposures, progress: Progress) -> Contributions:
    """The same from sparse factors. NaN where nothing is decided."""
    exposed = np.flatnonzero(found.groups.identifiable)
    singles = np.flatnonzero(found.groups.sizes[exposed] == 1)
    releases = SparseReleases(gram=gram, found=found, exposed=exposed[singles])
    progress("taking releases away", 0.0)
    in_order = without = np.zeros((gram.design.release_count, 0))
    error = 0.0
    if singles.size:
        in_order, without, error = releases.rmse(progress)
    return Contributions(
        records=found.groups.first[exposed[singles]],
        rmse=in_order[-1],
        rmse_in_order=in_order,
        rmse_without=without,
        relative_error=error,
        pairs=releases.pairs(),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExposedGroups:
    """The groups whose sums a design identifies, to be assessed with some of its rows only."""

    gram: UnknownRecordsGram
    first: IndexArray  # one record of every group of the design
    exposed: IndexArray  # the places of these groups among them
    columns: FloatArray
    sizes: IndexArray
    place: IndexArray  # over all records: the group among these, or -1
    enough: float  # a relative error that is small enough

    def rmse(self, progress: Progress) -> tuple[FloatArray, FloatArray, float]:
        """The RMSE of each group's sum, releases × groups: with those up to a release, and without it.

        The last result bounds the relative error of them all.
        """
        release_of, count = self.gram.design.release_of, self.gram.design.release_count
        recipes = ModularRecipes.of(self.gram.matrix, self.columns, self.sizes)
        noise = RecipeNoise.of(self.gram, recipes, self.columns * self.sizes)
        opened = release_of[recipes.last]
        if recipes.free.size == 0 and (noise is None or not self._enough(noise.errors)):
            found = self._of_only_recipes(recipes, opened)
            if found is not None:
                return found
        in_order, without = np.full((2, count, self.sizes.size), np.inf)
        worst = 0.0
        for release in range(count):
            seen = opened <= release
            if noise is not None and self._enough(noise.errors[seen]):
                in_order[release, seen] = noise.in_order[release, seen]
                worst = max(worst, float(np.max(noise.errors[seen], initial=0.0)))
            else:
                rank = int(np.count_nonzero(release_of[recipes.pivots] <= release))
                rows = np.flatnonzero(release_of <= release)
                in_order[release, seen], error = self._from(rows, rank, seen)
                worst = max(worst, error)
            own = np.flatnonzero(release_of == release)
            stays, lost = recipes.without(own)
            numbers = None if noise is None else noise.without(own, own.size - lost)
            if numbers is not None and self._enough(numbers[1][stays]):
                without[release, stays] = numbers[0][stays]
                worst = max(worst, float(np.max(numbers[1][stays], initial=0.0)))
            else:
                rank = recipes.pivots.size - lost
                rows = np.flatnonzero(release_of != release)
                without[release, stays], error = self._from(rows, rank, stays)
                worst = max(worst, error)
            progress("releases", (release + 1) / count)
        return in_order, without, worst

    def _of_only_recipes(
        self, recipes: ModularRecipes, opened: IndexArray
    ) -> tuple[FloatArray, FloatArray, float] | None:
        """The same of independent rows: one factorisation. ``None`` if it loses too many digits.

        A group has one recipe only. Its noise is the same with any releases that have the rows which it uses.
        """
        release_of, count = self.gram.design.release_of, self.gram.design.release_count
        every = np.ones(self.sizes.size, dtype=np.bool_)
        rmse, error = self._from(np.arange(release_of.size), release_of.size, every)
        if not error <= self.enough:
            return None
        releases = np.arange(count)
        stays = np.array([recipes.without(np.flatnonzero(release_of == one))[0] for one in releases])
        in_order = np.where(opened <= releases[:, None], rmse, np.inf)
        return in_order, np.where(stays, rmse, np.inf), error

    def _enough(self, errors: FloatArray) -> bool:
        """Whether such errors are small, or too costly to improve."""
        costly = not certified.affordable(self.gram.design.row_count, self.first.size)
        worst = float(np.max(errors, initial=0.0))
        return worst <= self.enough or (costly and worst < _POOR)

    def _from(self, rows: IndexArray, rank: int, seen: BoolArray) -> tuple[FloatArray, float]:
        """The RMSE of the groups that some rows of a known rank identify, by factorising these rows.

        With a bound on its relative error, infinite where it is only known to be at least this.
        """
        if not seen.any():
            return np.zeros(0), 0.0
        kept, sizes = self.columns[np.ix_(rows, np.flatnonzero(seen))], self.sizes[seen]
        chosen = np.append(seen, False)
        others = UnknownRecordsGram(
            design=self.gram.design.take(rows),
            matrix=self.gram.matrix[np.ix_(rows, rows)] - (kept * sizes) @ kept.T,
            unknown=self.gram.unknown & ~chosen[self.place],
        )
        factor = others.factor(Rank(rank=rank - sizes.size, evidence=Evidence.MODULAR))
        whitened = others.design.whiten(np.hstack([kept, factor.factor]))
        errors = others.column_errors(factor, whitened)
        squares, error = variances(whitened, 0.0, targets=sizes.size, errors=errors)
        if error > self.enough and certified.affordable(rows.size, self.first.size):
            everyone = self.gram.design.incidence.columns(self.first)[rows]
            attacks = certified.certified_attacks(others.design, everyone, self.exposed[seen])
            if attacks is not None:
                return attacks[0], certified.RELATIVE_ERROR
        if not np.isfinite(error):  # at least the error of an attacker who knows all others
            return np.asarray(1 / np.linalg.norm(whitened[:, : sizes.size], axis=0)), error
        return np.sqrt(squares), error
