r"""The few records that are seen sharply, computed from a factorisation of their own columns.

With the columns :math:`A_T` of these records and independent directions :math:`F_U` of all others, let
:math:`C = \Sigma^{-1/2}[A_T\; F_U]`. The best unbiased attack on an identifiable record attains the
Cramér–Rao bound :math:`[(C^\top C)^{-1}]_{jj}` (``eq:mse_optimal_s4``, ``app:linear_blue_identity``), and a
risk at precision c is :math:`[(C^\top C + cI)^{-1}]_{jj}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.incidence.protocol import BoolArray
from sightline.labeled.least_squares import best_recipes, variances
from sightline.labeled.risk_forms import Quantity
from sightline.labeled.routes.problem import Problem, Reading
from sightline.labeled.unknown_gram import UnknownRecordsGram
from sightline.numerics.residuals import gamma

# Below this share of uncertainty, one minus what is learned loses digits.
_SHARP = 1e-3


class RecipeTable(Protocol):
    """Weights on the answers, a recipe a row: an array, or an object that computes rows when asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, which: Any, /) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupAttacks:
    """The best unbiased attack on the sum of each group."""

    rmse: FloatArray  # over the groups; infinite where there is no such attack
    recipes: RecipeTable  # weights on the answers, one row for each identifiable group in order
    relative_error: float  # of the RMSE: a bound, infinite where the RMSE is only known to be at least this


def group_attacks(problem: Problem, reading: Reading) -> GroupAttacks:
    """The attacks on all identifiable groups.

    Rows in which a group is alone tell of nobody else. An attack on a group that is in no other rows weighs
    them by their information: a closed form. The other groups are attacked together.
    """
    gram, decisions = problem.gram, reading.decisions
    rmse = np.full(decisions.sizes.size, np.inf)
    exposed = np.flatnonzero(decisions.identifiable)
    recipes = np.zeros((exposed.size, gram.design.row_count))
    if exposed.size == 0:
        return GroupAttacks(rmse=rmse, recipes=recipes, relative_error=0.0)
    positions = np.flatnonzero(gram.unknown)
    removed = np.zeros_like(gram.unknown)
    removed[positions[decisions.identifiable[decisions.group]]] = True
    columns = gram.design.incidence.columns(positions[decisions.first[exposed]])
    sizes = decisions.sizes[exposed]
    alone = _alone(gram, columns, sizes)
    squares, error = np.zeros(exposed.size), 0.0
    if alone.any():
        seen = gram.design.whiten(columns[:, alone])
        information = np.sum(np.square(seen), axis=0)
        squares[alone], recipes[alone] = 1 / information, (seen / information).T
        error = gamma(gram.design.row_count + 4)
    if not alone.all():
        others = gram.without(columns, sizes, removed)
        factor = others.factor_of_known_rank(reading.rank.rank - exposed.size)
        whitened = gram.design.whiten(np.hstack([columns[:, ~alone], factor.factor]))
        errors, targets = others.column_errors(factor, whitened), int(np.count_nonzero(~alone))
        squares[~alone], together = variances(whitened, 0.0, targets=targets, errors=errors)
        recipes[~alone] = best_recipes(whitened, targets=targets)
        if not np.isfinite(together):
            # What an attacker errs by who knows all others: less than that it cannot be.
            seen_alone = reading.quantities[Quantity.INFORMATION][decisions.first[exposed]]
            squares[~alone] = 1 / seen_alone[~alone]
        error = max(error, together)
    rmse[exposed] = np.sqrt(squares)
    return GroupAttacks(rmse=rmse, recipes=gram.design.law.recipe(recipes), relative_error=error)


def _alone(gram: UnknownRecordsGram, columns: FloatArray, sizes: IndexArray) -> BoolArray:
    """Groups that share no row with other unknown records, where the noise of the rows is independent."""
    if gram.whitening.ndim == 2:
        return np.zeros(sizes.size, dtype=np.bool_)
    others = np.diagonal(gram.matrix)[:, None] != np.square(columns) * sizes
    found: BoolArray = ~np.any(others & (columns != 0), axis=0)
    return found & gram.design.incidence.whole


def refine_sharp(problem: Problem, reading: Reading) -> tuple[IndexArray, float]:
    """Replace the risks of records with hardly any uncertainty left.

    Returns which records these are, and a bound on the relative error of their new risks.
    """
    decisions, quantities = reading.decisions, reading.quantities
    alone = decisions.sizes[decisions.group] == 1
    sharp: IndexArray = np.flatnonzero((quantities[Quantity.LINEAR] < _SHARP) & alone)
    if sharp.size == 0:
        return sharp, 0.0
    gram = problem.gram
    records = np.flatnonzero(gram.unknown)[sharp]
    removed = np.zeros_like(gram.unknown)
    removed[records] = True
    columns = gram.design.incidence.columns(records)
    alone = _alone(gram, columns, np.ones_like(sharp))
    worst = 0.0
    if alone.any():
        information = np.sum(np.square(gram.design.whiten(columns[:, alone])), axis=0)
        for name, risk in problem.risks.items():
            quantities[name][sharp[alone]] = risk.unit / (information + risk.precision)
        worst = gamma(gram.design.row_count + 4)
    if not alone.all():
        others = gram.without(columns, np.ones_like(sharp), removed)
        factor = others.factor_of_known_rank(None)
        whitened = gram.design.whiten(np.hstack([columns[:, ~alone], factor.factor]))
        errors, targets = others.column_errors(factor, whitened), int(np.count_nonzero(~alone))
        for name, risk in problem.risks.items():
            squares, error = variances(whitened, risk.precision, targets=targets, errors=errors)
            quantities[name][sharp[~alone]] = risk.unit * squares
            worst = max(worst, (1 + error) ** 2 - 1)
    return sharp, worst
