"""The solver for rows that have few units in common: matrices at the pairs of rows that some unit is in.

Nothing here asks what a unit is: the pattern is that of units, so that a person with rows in several
columns has a posterior block, too. Decisions are proofs: leverages below one refute, integers confirm, the
rest is undecided.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from sightline.arrays import ROUNDING, FloatArray, IndexArray
from sightline.errors import TooMuchWork
from sightline.numerics.integers import proved, rounded
from sightline.numerics.sparse_cholesky import SelectedInverse, SparseCholesky, factorise, selected_inverse
from sightline.numerics.sparse_symbolic import SymbolicFactor, analyse
from sightline.units.row_decisions import (
    AnswerWeights,
    AskedUnits,
    Decided,
    seen_at_most,
)
from sightline.units.row_forms import RowForm
from sightline.units.row_integers import PROOF
from sightline.units.row_noise import RowNoise
from sightline.units.row_products import ProductSums, RowProducts
from sightline.units.sparse_attacks import (
    FEW_RECIPES,
    Dependencies,
    Independent,
    components_of,
    packed_solutions,
)
from sightline.units.target import UnitPrior
from sightline.units.unit_block import BoolArray, UnitBlock, UnitColumns
from sightline.units.units import UnitStore
from sightline.values import frozen


@frozen(slots=False)
class RowPairs:
    """Pairs of rows that some unit is in, and what a factor over them looks like. The noise does not
    matter.
    """

    first: IndexArray
    second: IndexArray
    keys: IndexArray  # of the pairs, ascending
    symbolic: SymbolicFactor
    size: int

    @classmethod
    def of(cls, pairs: Any, *, most_entries: float = math.inf) -> RowPairs | None:
        """``None`` where the factor would have more entries than allowed."""
        size = pairs.shape[0]
        if (pairs.nnz + size) / 2 > most_entries:  # the factor has every pair of the pattern
            return None
        lower = sparse.tril(pairs + sparse.eye_array(size), format="coo")
        keys = np.sort(lower.coords[0].astype(np.int64) * size + lower.coords[1])
        first, second = (part.astype(np.intp) for part in np.divmod(keys, size))
        symbolic = analyse(first, second, size=size, most_entries=most_entries)
        if symbolic is None:
            return None
        return cls(first=first, second=second, keys=keys, symbolic=symbolic, size=size)

    def values(self, matrix: Any) -> FloatArray:
        """The entries of a matrix at the pairs."""
        lower = sparse.tril(matrix, format="coo")
        entries = np.zeros(self.keys.size)
        entries[
            np.searchsorted(self.keys, lower.coords[0].astype(np.int64) * self.size + lower.coords[1])
        ] = lower.data
        return entries

    def positions(self, block: UnitBlock) -> IndexArray:
        """For every two rows of a unit their pair; the number of pairs for none."""
        if "positions" not in block.__dict__:
            flat = block.rows.reshape(len(block), -1).astype(np.int64)
            a, b = np.tril_indices(flat.shape[1])
            high, low = np.maximum(flat[:, a], flat[:, b]), np.minimum(flat[:, a], flat[:, b])
            pair = np.searchsorted(self.keys, high * self.size + low)
            block.__dict__["positions"] = np.where(high >= self.size, self.keys.size, pair)
        positions: IndexArray = block.__dict__["positions"]
        return positions


@frozen
class FactoredProducts:
    """The factor of the products of independent rows, and what follows from it."""

    factor: SparseCholesky
    inverse: SelectedInverse
    combinations: Any  # of rows that vanish, proved: a column for each dependent row
    components: IndexArray  # of every row, that of the factor it is in


@dataclass(frozen=True, kw_only=True, eq=False)
class PairForm(RowForm):
    """A form at the pairs of a pattern: ``stored`` are its values there."""

    pairs: RowPairs

    @cached_property
    def root(self) -> FloatArray:
        return np.append(np.sqrt(np.abs(self.matrix[self.pairs.first == self.pairs.second])), 0.0)

    def among(self, rows: IndexArray) -> FloatArray:
        """As of a dense form; not a number at pairs that nobody is in."""
        high, low = np.maximum(rows[:, None], rows).astype(np.int64), np.minimum(rows[:, None], rows)
        keys = high * self.pairs.size + low
        position = np.minimum(np.searchsorted(self.pairs.keys, keys), self.pairs.keys.size - 1)
        return np.asarray(np.where(self.pairs.keys[position] == keys, self.matrix[position], np.nan))

    def forms(self, block: UnitColumns) -> FloatArray:
        assert isinstance(block, UnitBlock)  # dense tables have dense products
        kinds, columns, width = block.rows.shape
        a, b = np.tril_indices(columns * width)
        scaled = block.scaled.reshape(kinds, -1)
        values = np.append(self.matrix, 0.0)[self.pairs.positions(block)] * scaled[:, a] * scaled[:, b]
        if columns == 1:
            return np.asarray(np.sum(values * np.where(a == b, 1.0, 2.0), axis=1)[:, None, None])
        full = np.zeros((kinds, columns * width, columns * width))
        full[:, a, b] = full[:, b, a] = values
        return np.asarray(full.reshape(kinds, columns, width, columns, width).sum(axis=(2, 4)))


@frozen(slots=False)
class SparseSolver:
    """Sparse factors over the rows."""

    sums: ProductSums  # M
    noise: RowNoise
    prior: UnitPrior
    pairs: RowPairs
    # Σ aaᵀ unit/c over the rows of all persons, and the unit.
    weighted: tuple[ProductSums, float] | None = None

    @property
    def numbers(self) -> int:
        """How many rows there are."""
        return int(self.sums.matrix.shape[0])

    @cached_property
    def linear(self) -> PairForm:
        """(Σ + s M)⁻¹ of linear attacks, by the variances of the noise."""
        return self._posterior(self.noise.variance, self.sums.matrix, self.prior.scale)

    @cached_property
    def hidden(self) -> PairForm | None:
        """(Σ + Σ aaᵀ/c)⁻¹ by the information of the noise, for priors with a density."""
        if self.weighted is None:
            return None
        return self._posterior(1 / self.noise.information, self.weighted[0].matrix, 1 / self.weighted[1])

    def _posterior(self, variance: FloatArray, products: Any, scale: float) -> PairForm:
        pairs, white = self.pairs, 1 / np.sqrt(variance)
        both = white[pairs.first] * white[pairs.second]
        seen = pairs.values(products) * (scale * both) + (pairs.first == pairs.second)
        factor = factorise(pairs.symbolic, seen, vanishing=0.0)  # at least the identity: no pivot vanishes
        inverse = selected_inverse(factor, seen.size, least=np.ones(self.numbers))
        return PairForm(stored=inverse.values * both, error=inverse.relative_error, pairs=pairs)

    @cached_property
    def _factored(self) -> FactoredProducts:
        """Of the products of rows that are independent, and how the others depend on them: proved, or
        nothing is.
        """
        values, M = self.pairs.values(self.sums.matrix), sparse.csr_array(self.sums.matrix).astype(np.int64)
        factor = factorise(self.pairs.symbolic, values)
        inverse, dropped = selected_inverse(factor, values.size), factor.dropped_rows
        components = components_of(factor, self.pairs.first, self.pairs.second)
        images = sparse.csc_array(M[:, dropped])
        weights, yes = self._recipes(factor, components, images, M.diagonal()[dropped])
        places = dropped, np.arange(dropped.size)
        units = sparse.csc_array((-np.ones(dropped.size), places), shape=weights.shape)
        nothing = SelectedInverse(values=inverse.values, trace=inverse.trace, relative_error=math.inf)
        return FactoredProducts(
            factor=factor,
            inverse=inverse if yes.all() else nothing,
            combinations=sparse.csc_array(weights + units),
            components=components,
        )

    @property
    def rank(self) -> int:
        """Directions that the answers see."""
        return self.kept.size

    @property
    def kept(self) -> IndexArray:
        """Rows that are independent; the others follow from them."""
        return np.asarray(self._factored.factor.kept, dtype=np.intp)

    @cached_property
    def leverage(self) -> PairForm:
        """M⁻."""
        inverse = self._factored.inverse
        return PairForm(stored=inverse.values, error=inverse.relative_error, pairs=self.pairs)

    def _recipes(
        self, factor: SparseCholesky, components: IndexArray, images: Any, squares: Any
    ) -> tuple[Any, BoolArray]:
        """Weights on the kept rows that give functionals exactly, as integers prove; zero where they do
        not.
        """
        M = sparse.csr_array(self.sums.matrix).astype(np.int64)
        recipes, yes = sparse.csr_array(images.shape), np.zeros(images.shape[1], dtype=np.bool_)
        for part, guesses in packed_solutions(factor, components, images):
            above, below = rounded(guesses)
            shown = proved(M, above, below, images=images[:, part], squares=squares[part].astype(np.int64))
            yes[part[shown]] = True
            weights = above[:, shown].astype(np.float64) @ sparse.diags_array(1 / below[shown])
            places = np.arange(part[shown].size), part[shown]
            spread = sparse.csr_array(
                (np.ones(part[shown].size), places), shape=(part[shown].size, images.shape[1])
            )
            recipes = recipes + weights @ spread
        return sparse.csc_array(recipes), yes

    def decide(self, asked: AskedUnits) -> Decided:
        """A sum, or a sum over one column, has a proved recipe; leverages refute others, or nothing is
        decided.

        With t features proved, a trace of leverages below t + 1 leaves no room for another one.
        """
        units, size, k = len(asked.kinds), asked.counts.shape[1], len(asked.kernel)
        unit, column = np.divmod(np.arange(units * k), k)
        _, totals = self._proved(asked, asked.functional(unit, column))
        totals = totals.reshape(units, k)
        if k > 1 or size == 1:
            directions = np.asarray(totals.any(axis=1), dtype=np.intp)
            undecided = np.asarray(~totals.all(axis=1))
            if k == 1:
                left = np.flatnonzero(undecided)
                undecided[left] = ~self._refuted(asked, left)
            return Decided(directions=directions, identifiable=totals, undecided=np.asarray(undecided))
        _, columns = self._proved(asked, sparse.eye_array(asked.counts.size, format="csc"))
        columns = columns.reshape(units, size)
        directions = columns.sum(axis=1) + (totals[:, 0] & ~columns.all(axis=1))
        leverage, off = self.leverage.read(asked.block)
        seen = asked.block.people * np.trace(leverage, axis1=1, axis2=2) + 2 * off
        undecided = ~(seen < directions + 1 - 1e-9)
        return Decided(directions=directions, identifiable=totals, undecided=np.asarray(undecided))

    def _refuted(self, asked: AskedUnits, units: IndexArray) -> BoolArray:
        """Units of one column that are not identifiable: see :func:`seen_at_most`."""
        factor, inverse = self._factored.factor, self._factored.inverse
        if not (self.sums.exact and inverse.relative_error < PROOF):
            return np.zeros(units.size, dtype=np.bool_)
        kept, images = factor.kept, sparse.csc_array(asked.images)[:, units]
        weights = np.zeros(images.shape)
        for part, solved in packed_solutions(factor, self._factored.components, images):
            weights[:, part] = solved.toarray()
        # The trace of an inverse is at least its norm.
        same = self.pairs.first == self.pairs.second
        largest = float(inverse.values[same].sum()) / (1 - 2 * inverse.relative_error)
        M = sparse.csr_array(self.sums.matrix)[kept][:, kept]
        seen = seen_at_most(M, images.toarray()[kept], weights[kept], largest)
        return np.asarray(seen < (1 - ROUNDING) * asked.kernel[0, 0] * asked.counts[units, 0])

    def weights(self, asked: AskedUnits, functionals: Any) -> AnswerWeights:
        """The errors of the best weights that give functionals, with a bound; the weights are exact, not
        the best.
        """
        # Proofs are of whole numbers: a feature is a multiple of some.
        scale = np.asarray(abs(functionals).max(axis=0).toarray()).ravel()
        scale = np.where(scale > 0, scale, 1.0)
        recipes, yes = self._proved(asked, sparse.csc_array(functionals @ sparse.diags_array(1 / scale)))
        recipes = sparse.csc_array(recipes @ sparse.diags_array(scale))
        known = self._dependencies(recipes)
        if known is None:  # the combinations that vanish fill in: no errors
            nothing = np.full(recipes.shape[1], np.inf)
            return AnswerWeights(weights=recipes, rmse=nothing, relative_error=nothing)
        squares, error = known.least_variances(recipes)
        rmse = np.where(yes, np.sqrt(squares), np.inf)
        return AnswerWeights(weights=recipes, rmse=rmse, relative_error=np.full(squares.size, error))

    @cached_property
    def _vanishing(self) -> Dependencies | Independent | None:
        """The combinations of rows that vanish; ``None`` where they fill in."""
        return Dependencies.of(
            self._factored.combinations, self.noise.variance, sparse.csc_array((self.numbers, 0))
        )

    def _dependencies(self, recipes: Any) -> Dependencies | Independent | None:
        """With values for the pairs that many recipes need."""
        if recipes.shape[1] <= FEW_RECIPES:
            return self._vanishing
        return Dependencies.of(self._factored.combinations, self.noise.variance, recipes)

    def on_all_rows(self, attacks: AnswerWeights) -> FloatArray:
        """The weights of the least error that give what exact weights give; the exact ones where rows fill
        in.
        """
        recipes = sparse.csc_array(attacks.weights)
        known = self._dependencies(recipes)
        return np.asarray(recipes.toarray() if known is None else known.best(recipes)[0])

    def sharpest(self, asked: AskedUnits, unit: IndexArray, directions: IndexArray) -> Any:
        """Of the total and the sums over one column, as unit features, the one that is seen best."""
        size, k = asked.counts.shape[1], len(asked.kernel)
        totals = asked.functional(unit, np.zeros(unit.size, dtype=np.intp))
        if k > 1 or not unit.size:
            return totals
        places = (unit[:, None] * size + np.arange(size)).ravel()
        ones = np.ones(places.size)
        columns = sparse.csc_array(
            (ones, (places, np.arange(places.size))), shape=(asked.counts.size, places.size)
        )
        norms = np.sqrt(asked.counts.astype(np.float64))
        lengths = np.concatenate([norms[unit].ravel(), np.linalg.norm(norms[unit], axis=1)])
        features = sparse.csc_array(sparse.hstack([columns, totals]))
        rmse = self.weights(asked, features).rmse / lengths
        among = np.concatenate([rmse[: places.size].reshape(-1, size), rmse[places.size :, None]], axis=1)
        best = np.argmin(among, axis=1)
        line = np.arange(unit.size)
        chosen = np.where(best < size, line * size + best, places.size + line)
        return sparse.csc_array(features[:, chosen] @ sparse.diags_array(1 / lengths[chosen]))

    def _proved(self, asked: AskedUnits, functionals: Any) -> tuple[Any, BoolArray]:
        kernels = sparse.kron(sparse.eye_array(asked.counts.size // len(asked.kernel)), asked.kernel)
        squares = sparse.diags_array(asked.counts.ravel().astype(np.float64)) @ kernels
        variance = np.asarray(functionals.multiply(squares @ functionals).sum(axis=0)).ravel()
        images = sparse.csc_array(asked.images @ functionals)
        factored = self._factored
        return self._recipes(factored.factor, factored.components, images.astype(np.int64), np.rint(variance))


# Seconds, measured on one core: of a supernode and an operation, in the four factors of an assessment; of an
# entry of the products; of a dense operation.
_PER_NODE, _PER_OPERATION, _PER_ENTRY, _PER_DENSE = 1.6e-3, 2.4e-9, 2.5e-6, 2e-10
DENSE_MATRICES = 10  # over the numbers, in memory at once: 9 were measured at 2,187 numbers


@frozen(eq=True)
class RouteCost:
    """The memory and time that a design is expected to take, dense or sparse, and why so.

    Sparse factors need rows that have few units in common. Whether they pay is decided by the factor's exact
    number of entries and operations, which an analysis of the pattern gives without computing a number.
    """

    reason: str
    rows: int
    bytes: int
    seconds: float  # an estimate

    def require_memory(self) -> None:
        """Refuse a route that does not fit this machine's memory, with the number and what would help."""
        if self.bytes > _memory():
            raise TooMuchWork(
                f"expected a design that fits {_memory() / 1e9:.3g} GB of memory, got {self.rows:,} "
                f"published numbers that need about {self.bytes / 1e9:.3g} GB ({self.reason}); publish "
                "fewer crossed keys, or audit the releases of each region on their own"
            )


def sparse_cost(units: UnitStore, prior: UnitPrior) -> RouteCost | None:
    """What an assessment of some units by sparse factors takes; ``None`` where dense ones take less.

    One pass, and an analysis of the pattern of their rows.
    """
    ones = np.ones(units.numbers)
    noise = RowNoise.of(ones, ones, 0 * ones, ones)
    route = chosen_route(RowProducts.unweighted(units, prior, noise).of(units))
    return None if route.pairs is None else route.cost


@frozen
class ChosenRoute:
    """How rows are factorised: with the pattern of a sparse factor, or densely."""

    cost: RouteCost
    pairs: RowPairs | None = None


def chosen_route(sums: ProductSums) -> ChosenRoute:
    """The route for some products of rows that takes less time, of those that fit into memory."""
    rows = int(sums.matrix.shape[0])
    dense = RouteCost(
        reason="a dense factor is faster",
        rows=rows,
        bytes=8 * DENSE_MATRICES * rows**2,
        seconds=_PER_DENSE * float(rows) ** 3,
    )
    if isinstance(sums.matrix, np.ndarray):
        return ChosenRoute(cost=dense)
    fits = dense.bytes <= _memory()
    pairs = RowPairs.of(sums.pairs, most_entries=rows * (rows + 1) / 4 if fits else np.inf)
    if pairs is None:
        return ChosenRoute(cost=dense)
    symbolic, entries = pairs.symbolic, int(sums.pairs.nnz)
    factors = _PER_NODE * len(symbolic.linked) + _PER_OPERATION * symbolic.operations
    cost = RouteCost(
        reason=f"a sparse factor has {symbolic.factor_entries:,} entries",
        rows=rows,
        bytes=int(symbolic.peak_bytes + 150 * entries),
        seconds=factors + _PER_ENTRY * entries,
    )
    sparse_one = cost.seconds <= dense.seconds or not fits
    return ChosenRoute(cost=cost, pairs=pairs) if sparse_one else ChosenRoute(cost=dense)


def _memory() -> float:
    """The machine's memory in bytes; infinite where the system does not say."""
    if not hasattr(os, "sysconf"):
        return float("inf")
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
