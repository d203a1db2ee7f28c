r"""Persons with several rows in a design of very many numbers: what a sparse factor says of them.

Only columns that hold one person's rows alone can be part of an identifiable feature of that person. The
leverages of these columns are the diagonal of a projection cut to the person's block, so their sum is at
least the number of identifiable features (``eq:lever1_ident_cond``). Columns whose sums are identifiable are
features, and so is the total if it has a recipe that integers prove. Where the sum of leverages leaves no
room for one more, the number is exact; where it does, the person is *undecided*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import IndexArray
from sightline.labeled.exposures import Exposures
from sightline.labeled.incidence.joins import Joins
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.person_attacks import DirectionAttack
from sightline.labeled.person_kinds import PersonKinds
from sightline.labeled.person_ranks import PersonRanks, own_entries
from sightline.labeled.routes.sparse import SparseDecisions, decide, proved_recipes
from sightline.labeled.sparse_attacks import RecipesOnDemand
from sightline.labeled.sparse_gram import SparseGram, sparse_columns
from sightline.progress import Progress

# Persons whose totals are solved for, and persons whose sharpest feature gets a recipe: the most exposed.
_MOST_TOTALS, _MOST_FEATURES = 2_000, 200
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparsePersons:
    """Identifiable features of the kinds of persons: exact, or at least so many where undecided."""

    gram: SparseGram
    kinds: PersonKinds
    decided: SparseDecisions
    ranks: PersonRanks
    single: BoolArray  # entries whose sum is an identifiable feature
    undecided: BoolArray
    totals: dict[int, Any]  # kind → an exact recipe of its total, as a sparse column

    @classmethod
    def of(cls, gram: SparseGram, kinds: PersonKinds, progress: Progress) -> SparsePersons:
        """The decisions about every kind."""
        decided = decide(gram, progress)
        place = np.cumsum(gram.unknown) - 1  # of every column among the unknown ones
        group = decided.decisions.group[place[kinds.columns]]
        own = own_entries(gram, kinds)
        whole_group = decided.decisions.sizes[group] == kinds.rows
        single = own & decided.decisions.identifiable[group] & whole_group
        held = np.where(own, kinds.rows * decided.leverage[place[kinds.columns]], 0.0)
        trace = kinds.sums(held) * (1 + _ROUNDING * kinds.sizes)
        singles = kinds.sums(single.astype(np.float64)).astype(np.intp)
        whole = kinds.sums(own.astype(np.float64)) == kinds.sizes
        total = singles == kinds.sizes
        asked = np.flatnonzero(whole & ~total & (trace >= singles + 1))
        asked = asked[np.argsort(-(trace - singles)[asked], kind="stable")][:_MOST_TOTALS]
        recipes = _totals(gram, kinds, asked)
        total[list(recipes)] = True
        directions = singles + (total & (singles < kinds.sizes))
        return cls(
            gram=gram,
            kinds=kinds,
            decided=decided,
            ranks=PersonRanks(rank=decided.rank.rank, directions=directions, total=total),
            single=single,
            undecided=trace >= directions + 1,
            totals=recipes,
        )

    def features(self, found: Exposures, order: IndexArray) -> dict[int, DirectionAttack]:
        """The sharpest identifiable feature that is known of the first kinds of an order that have one.

        Where there may be sharper ones, its RMSE is only known to be at least that of an attacker who knows
        all other persons.
        """
        table = found.recipes
        if not isinstance(table, RecipesOnDemand):
            return {}
        chosen = order[self.ranks.directions[order] > 0][:_MOST_FEATURES].tolist()
        return {kind: self._feature(found, table, kind) for kind in chosen}

    def _feature(self, found: Exposures, table: RecipesOnDemand, kind: int) -> DirectionAttack:
        kinds, entries = self.kinds, self.kinds.entries(kind)
        rows, columns = kinds.rows[entries].astype(np.float64), kinds.columns[entries]
        direction = np.zeros(rows.size)
        single = np.flatnonzero(self.single[entries])
        if single.size:
            rmse = found.groups.rmse[found.group[columns[single]]] / np.sqrt(rows[single])
            best = int(single[np.argmin(rmse)])
            direction[best] = 1.0
            group = int(found.group[columns[best]])
            exact = table.exact[:, [int(np.count_nonzero(found.groups.identifiable[:group]))]]
            exact = exact / math.sqrt(rows[best])
        else:
            direction[:] = np.sqrt(rows / rows.sum())
            exact = self.totals[kind] / math.sqrt(rows.sum())
        weights, square, error = table.dependencies.best(sparse.csc_array(exact))
        rmse_found, relative = math.sqrt(float(square[0])), float(error[0])
        if int(self.ranks.directions[kind]) > 1 or self.undecided[kind] or not math.isfinite(relative):
            information = float(rows @ found.information[columns])
            rmse_found, relative = 0.5 / math.sqrt(information), math.inf
        return DirectionAttack(
            direction=direction,
            rmse=rmse_found,
            recipe=weights[:, 0] / table.scale,
            relative_error=relative,
        )


def _totals(gram: SparseGram, kinds: PersonKinds, asked: IndexArray) -> dict[int, Any]:
    """Exact recipes of the totals of some kinds, for those that have one that integers prove."""
    if not asked.size:
        return {}
    entries = np.concatenate([np.arange(kinds.starts[k], kinds.starts[k + 1]) for k in asked])
    owner = np.repeat(np.arange(asked.size), kinds.sizes[asked])
    rows = kinds.rows[entries].astype(np.int64)
    spread = sparse.csc_array((rows, (np.arange(entries.size), owner)), shape=(entries.size, asked.size))
    images = sparse.csc_array(sparse_columns(gram.design.incidence, kinds.columns[entries]) @ spread)
    factor = gram.factor(Joins.of(gram.pairs, gram.products).nested_rows())
    squares = kinds.rows_of_person[asked]
    found: dict[int, Any] = {}
    for own, recipes in proved_recipes(gram, factor, images, squares):
        found.update({int(asked[place]): recipes[:, [at]] for at, place in enumerate(own.tolist())})
    return found
