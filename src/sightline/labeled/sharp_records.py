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
from sightline.labeled.least_squares import best_recipes, variances
from sightline.labeled.risk_forms import Quantity
from sightline.labeled.routes.problem import Problem, Reading

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
    """The attacks on all identifiable groups."""
    gram, decisions = problem.gram, reading.decisions
    rmse = np.full(decisions.sizes.size, np.inf)
    exposed = np.flatnonzero(decisions.identifiable)
    if exposed.size == 0:
        return GroupAttacks(rmse=rmse, recipes=np.zeros((0, gram.design.row_count)), relative_error=0.0)
    positions = np.flatnonzero(gram.unknown)
    removed = np.zeros_like(gram.unknown)
    removed[positions[decisions.identifiable[decisions.group]]] = True
    columns = gram.design.incidence.columns(positions[decisions.first[exposed]])
    others = gram.without(columns, decisions.sizes[exposed], removed)
    factor = others.factor_of_known_rank(reading.rank.rank - exposed.size)
    whitened = gram.design.whiten(np.hstack([columns, factor.factor]))
    errors = others.column_errors(factor, whitened)
    squares, error = variances(whitened, 0.0, targets=exposed.size, errors=errors)
    # What an attacker errs by who knows all others: less than that it cannot be.
    information = reading.quantities[Quantity.INFORMATION][decisions.first[exposed]]
    rmse[exposed] = np.sqrt(squares if np.isfinite(error) else 1 / information)
    recipes = gram.design.law.recipe(best_recipes(whitened, targets=exposed.size))
    return GroupAttacks(rmse=rmse, recipes=recipes, relative_error=error)


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
    others = gram.without(columns, np.ones_like(sharp), removed)
    factor = others.factor_of_known_rank(None)
    whitened = gram.design.whiten(np.hstack([columns, factor.factor]))
    errors = others.column_errors(factor, whitened)
    worst = 0.0
    for name, risk in problem.risks.items():
        squares, error = variances(whitened, risk.precision, targets=sharp.size, errors=errors)
        quantities[name][sharp] = risk.unit * squares
        worst = max(worst, (1 + error) ** 2 - 1)
    return sharp, worst
