"""What each release adds, from sparse factors: the decisions and attacks of the releases that are left.

Rows that are not published count as rows without members. So every part of a design has the pattern of the
whole one, and costs a factorisation and an inverse, no analysis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.differencing import DifferencingPair, differencing_pairs
from sightline.labeled.exposures import Exposures
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.routes.exact import random_residues
from sightline.labeled.routes.sparse import decided_anew, sparse_group_attacks
from sightline.labeled.sparse_gram import SparseGram
from sightline.numerics import integers as exact
from sightline.progress import Progress, silent


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparseReleases:
    """The groups whose sums a design identifies, to be assessed with some of its releases only."""

    gram: SparseGram
    found: Exposures
    exposed: IndexArray  # the places of these groups among all

    def rmse(self, progress: Progress) -> tuple[FloatArray, FloatArray, float]:
        """The RMSE of each group's sum, releases × groups: with those up to a release, and without it.

        The last result bounds the relative error of them all. NaN where nothing is decided.
        """
        release_of, count = self.gram.design.release_of, self.gram.design.release_count
        in_order, without = np.full((2, count, self.exposed.size), np.inf)
        in_order[-1] = self.found.groups.rmse[self.exposed]
        worst = self.found.relative_error
        for release in range(count):
            if release < count - 1:
                in_order[release], error = self._with(release_of > release)
                worst = max(worst, error)
            without[release], error = self._with(release_of == release)
            worst = max(worst, error)
            progress("releases", (release + 1) / count)
        return in_order, without, worst

    def _with(self, removed: BoolArray) -> tuple[FloatArray, float]:
        """The RMSE of the groups if some rows are not published; infinite where they are not identifiable."""
        gram = self.gram.without(removed)
        decided = decided_anew(gram, silent)
        attacks = sparse_group_attacks(gram, decided)
        undecided = decided.decisions.undecided[self.exposed]
        return np.where(undecided, np.nan, attacks.rmse[self.exposed]), attacks.relative_error

    def pairs(self) -> tuple[DifferencingPair, ...]:
        """The pairs of rows that differ by one group."""
        gram, groups = self.gram, self.found.groups
        random, prime = random_residues(gram), exact.prime_of(gram.products.astype(np.int64))
        return differencing_pairs(
            gram.design.names,
            images=random.images(prime),
            totals=random.totals(self.found.group[gram.unknown], gram.unknown, prime),
            prime=prime,
            first=groups.first,
            sizes=groups.sizes,
            among=gram.nested_pairs,
        )
