r"""Rows with few records in common: a sparse factor, floating-point guesses, and proofs over the integers.

**Rank.** Nested rows are sums of others and are dropped at once (:mod:`sightline.labeled.incidence.joins`).
Factorising the products of the other rows drops rows whose pivots vanish. The kept rows are proved
independent by the bound on the factor's error. Dependencies are known from nested and crossed partitions, or
guessed and proved (:mod:`sightline.numerics.integer_proofs`). As many proved independent dependencies as
dropped rows leave no other rank.

**Who is identifiable** (``eq:lever1_ident_cond``). A group of n records is identifiable iff its leverages
over independent rows sum to one. Below one by more than the proved error is a no. A yes needs an exact
recipe: a row that holds no other record, or rounded weights that satisfy the identity in integers. What has
neither is *undecided*.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.incidence.joins import Joins
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.packed_solutions import components_of, packed_solutions
from sightline.labeled.risk_forms import Quantity, Risks
from sightline.labeled.routes.problem import Decisions, Reading, group_sizes
from sightline.labeled.sharp_records import GroupAttacks
from sightline.labeled.sparse_attacks import Dependencies, RecipesOnDemand
from sightline.labeled.sparse_gram import SparseGram, sparse_columns
from sightline.numerics.decision import Evidence, Rank
from sightline.numerics.integer_proofs import proved, rounded
from sightline.numerics.sparse_cholesky import SparseCholesky, factorise
from sightline.numerics.sparse_symbolic import SymbolicFactor, analyse
from sightline.progress import Progress

_ROUNDING = 8 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparseDecisions:
    """Who is identifiable and why: what the rows alone say, whatever the noise."""

    unknown: BoolArray
    rank: Rank
    decisions: Decisions
    recipes: Any  # exact ones of the identifiable groups: columns of a sparse array
    combinations: Any  # of the rows that vanish, all of them; ``None`` without a proof
    leverage: FloatArray  # at least that of every unknown record; infinite without a proof


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparseReading:
    """What the sparse route found, with exact recipes of the identifiable groups."""

    gram: SparseGram
    reading: Reading
    decided: SparseDecisions

    def attacks(self) -> GroupAttacks:
        """The best unbiased attacks on the identifiable groups."""
        return sparse_group_attacks(self.gram, self.decided)


def by_sparse_factor(gram: SparseGram, risks: Risks, progress: Progress) -> SparseReading:
    """The route of a sparse factor."""
    decided = decide(gram, progress)
    progress("sparse factor", 3 / 4)
    quantities = {Quantity.INFORMATION: gram.information()[gram.unknown]}
    shares, share_error = gram.risks(risks)
    quantities |= shares
    reading = Reading(
        rank=decided.rank, decisions=decided.decisions, quantities=quantities, share_error=share_error
    )
    return SparseReading(gram=gram, reading=reading, decided=decided)


def decide(gram: SparseGram, progress: Progress) -> SparseDecisions:
    """The decisions, made once for the same rows and the same unknown records."""
    computed = gram.design.incidence.computed  # type: ignore[attr-defined]
    before: SparseDecisions | None = computed.get("decisions")
    if before is None or not np.array_equal(before.unknown, gram.unknown):
        computed["decisions"] = before = decided_anew(gram, progress)
    return before


def decided_anew(gram: SparseGram, progress: Progress) -> SparseDecisions:
    """The decisions, whatever was decided before."""
    progress("sparse factor", 0.0)
    joins = Joins.of(gram.pairs, gram.products)
    factor = gram.factor(joins.nested_rows())
    inverse = gram.inverse(factor)
    progress("sparse factor", 1 / 4)
    combinations = proved_dependencies(gram, factor, joins.dependencies())
    rank_proved = combinations is not None and inverse.proves_independence
    leverage, roundings = gram.forms(inverse.values[None])
    if rank_proved and inverse.relative_error < 1:
        most = (leverage[0][gram.unknown] + float(roundings[0])) / (1 - inverse.relative_error)
    else:
        most = np.full(np.count_nonzero(gram.unknown), np.inf)
    progress("sparse factor", 1 / 2)
    decisions, recipes = _decide(gram, factor, most)
    evidence = Evidence.VERIFIED if rank_proved else Evidence.NONE
    kept = int(np.count_nonzero(~factor.dropped))
    return SparseDecisions(
        unknown=gram.unknown,
        rank=Rank(rank=kept, evidence=evidence),
        decisions=decisions,
        recipes=recipes,
        combinations=combinations,
        leverage=most,
    )


def proved_dependencies(gram: SparseGram, factor: SparseCholesky, combinations: Any) -> Any:
    """As many proved and independent dependencies as the factor dropped rows; ``None`` without a proof.

    ``combinations`` of the rows are known to vanish.
    """
    dropped = factor.dropped_rows
    if independent_combinations(combinations) == dropped.size:
        return combinations
    missing = _unexplained(combinations, dropped)
    if missing is None or not missing.size:
        return None
    guessed = _proved_combinations(gram, factor, missing)
    if guessed is None:
        return None
    together = sparse.csc_array(sparse.hstack([combinations, guessed]))
    return together if independent_combinations(together) == dropped.size else None


def independent_combinations(combinations: Any) -> int:
    """At least so many of the combinations are independent of each other: proved; 0 where it is not."""
    found = Dependencies.of(combinations, np.ones(combinations.shape[0]))
    return 0 if found is None else found.independent


def _unexplained(combinations: Any, dropped: IndexArray) -> IndexArray | None:
    """Dropped rows that the combinations do not explain, as far as floating point can tell.

    A combination that vanishes is determined by its weights on the dropped rows.
    """
    if combinations.shape[1] == 0:
        return dropped
    weights = sparse.csr_array(combinations)[dropped]
    products = sparse.tril(weights @ weights.T, format="coo")
    diagonal = np.arange(dropped.size)
    first = np.concatenate([products.coords[0], diagonal]).astype(np.intp)
    second = np.concatenate([products.coords[1], diagonal]).astype(np.intp)
    values = np.concatenate([products.data, np.zeros(dropped.size)])
    summed = sparse.coo_array((values, (first, second)), shape=(dropped.size, dropped.size)).tocsr().tocoo()
    first, second = (part.astype(np.intp) for part in summed.coords)
    symbolic = analyse(first, second, size=dropped.size, most_entries=3e8)
    if not isinstance(symbolic, SymbolicFactor):
        return None
    missing: IndexArray = dropped[factorise(symbolic, summed.data).dropped_rows]
    return missing


def _proved_combinations(gram: SparseGram, factor: SparseCholesky, rows: IndexArray) -> Any:
    """For each of some dropped rows the kept rows that sum to it, proved; ``None`` if one is not."""
    matrix, size = gram.matrix, gram.design.row_count
    images = sparse.csc_array(matrix[:, rows])
    found = []
    for part, guesses in packed_solutions(factor, components_of(factor, *gram.joined_rows), images):
        own = rows[part]
        numerators, denominators = rounded(guesses)
        squares = gram.products[own].astype(np.int64)
        if not proved(matrix, numerators, denominators, images=images[:, part], squares=squares).all():
            return None
        units = sparse.csc_array(
            (denominators.astype(np.float64), (own, np.arange(own.size))), shape=(size, own.size)
        )
        found.append(numerators.astype(np.float64) - units)
    together = sparse.csc_array(sparse.hstack(found))
    return together if together.shape[1] == rows.size else None


def _decide(gram: SparseGram, factor: SparseCholesky, leverage: FloatArray) -> tuple[Decisions, Any]:
    """Who is identifiable, and an exact recipe for each identifiable group as columns of a sparse array.

    ``leverage`` bounds that of every unknown record from above.
    """
    group, sizes, first = _groups(gram)
    shares = sizes * leverage[first]
    refuted = shares * (1 + _ROUNDING) < 1
    near = np.flatnonzero(~refuted)
    records = np.flatnonzero(gram.unknown)[first]
    row = _row_alone(gram, records[near], sizes[near])
    single = near[row >= 0]
    recipes = [_unit_columns(row[row >= 0], gram.design.row_count)]
    shown = [single]
    rest = near[row < 0]
    # The most exposed first, in case that there are too many to solve for.
    rest = rest[np.argsort(-shares[rest], kind="stable")]
    if rest.size:
        images = sparse_columns(gram.design.incidence, records[rest]) @ sparse.diags_array(
            sizes[rest].astype(np.int64), dtype=np.int64
        )
        for own, weights in proved_recipes(gram, factor, images, sizes[rest]):
            shown.append(rest[own])
            recipes.append(weights)
    exposed = np.concatenate(shown)
    order = np.argsort(exposed)
    identifiable = np.zeros(sizes.size, dtype=np.bool_)
    identifiable[exposed] = True
    decisions = Decisions(
        group=group,
        sizes=sizes,
        first=first,
        identifiable=identifiable,
        undecided=~identifiable & ~refuted,
    )
    return decisions, sparse.csc_array(sparse.hstack(recipes, format="csc")[:, order])


def proved_recipes(
    gram: SparseGram, factor: SparseCholesky, images: Any, squares: IndexArray
) -> Iterator[tuple[IndexArray, Any]]:
    r"""Those of some functionals c of the records that have a proved recipe, and the recipes, batch by batch.

    ``images`` has the columns :math:`Ac`, ``squares`` the numbers :math:`c^\top c`. Recipes are
    sparse columns.
    """
    component = components_of(factor, *gram.joined_rows)
    for part, guesses in packed_solutions(factor, component, images):
        numerators, denominators = rounded(guesses)
        yes = proved(gram.matrix, numerators, denominators, images=images[:, part], squares=squares[part])
        weights = numerators[:, yes].astype(np.float64) @ sparse.diags_array(1 / denominators[yes])
        yield part[yes], sparse.csc_array(weights)


def _groups(gram: SparseGram) -> tuple[IndexArray, IndexArray, IndexArray]:
    """The group of each unknown record, and each group's size and first member."""
    incidence, unknown = gram.design.incidence, gram.unknown
    if incidence.counts is not None:
        sizes = incidence.counts if unknown.all() else incidence.counts[unknown]
        return np.arange(sizes.size), sizes, np.arange(sizes.size)
    _, group = np.unique(incidence.signatures(unknown)[unknown], return_inverse=True)
    return group, *group_sizes(group)


def _row_alone(gram: SparseGram, records: IndexArray, sizes: IndexArray) -> IndexArray:
    """For each group a row whose only unknown records are its own, the one with the least noise; -1: none."""
    incidence = gram.design.incidence
    best = np.full(records.size, -1, dtype=np.intp)
    if not incidence.binary:
        return best
    columns = sparse_columns(incidence, records).tocoo()
    row, place = columns.coords
    alone = gram.products[row] == sizes[place]
    row, place = row[alone], place[alone]
    order = np.lexsort((np.abs(gram.whitening[row]), place))  # the last of each place counts
    best[place[order]] = row[order]
    return best


def _unit_columns(rows: IndexArray, size: int) -> Any:
    return sparse.csc_array((np.ones(rows.size), (rows, np.arange(rows.size))), shape=(size, rows.size))


def sparse_group_attacks(gram: SparseGram, decided: SparseDecisions) -> GroupAttacks:
    """The best unbiased attacks on the identifiable groups.

    Without a proof that all dependencies are known there may be better ones than the exact recipes.
    """
    decisions, recipes = decided.decisions, decided.recipes
    rmse = np.full(decisions.sizes.size, np.inf)
    variances, known = 1 / gram.whitening**2, None
    if decided.combinations is not None and recipes.shape[1]:
        known = Dependencies.of(decided.combinations, variances, recipes)
    if known is None or known.independent != gram.design.row_count - decided.rank.rank:
        known = Dependencies.none(gram.design.row_count, variances)
        squares, error = np.zeros(recipes.shape[1]), math.inf if recipes.shape[1] else 0.0
    else:
        squares, error = known.least_variances(recipes)
    if not math.isfinite(error):  # at least what an attacker errs by who knows all others
        first = np.flatnonzero(gram.unknown)[decisions.first[decisions.identifiable]]
        squares = 1 / gram.information()[first]
    rmse[decisions.identifiable] = np.sqrt(squares)
    table = RecipesOnDemand(exact=recipes, dependencies=known, scale=gram.design.scale)
    return GroupAttacks(rmse=rmse, recipes=table, relative_error=error)
