r"""The best unbiased attack on a unit that is identifiable, as weights on all answers.

Weights w on the independent rows P give what is asked. With the dependent rows :math:`A_D = T A_P` the attack with the
least error has the weights :math:`\Sigma_P^{-1} R w` on P and :math:`\Sigma_D^{-1} T R w` on D, where
:math:`R = (\Sigma_P^{-1} + T^\top \Sigma_D^{-1} T)^{-1}` (``eq:mse_optimal_s4``: generalised least squares).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray
from sightline.labeled.assessment import UnitExposure
from sightline.labeled.row_solver import AskedUnits, DenseSolver
from sightline.labeled.sparse_attacks import Dependencies


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitAttack:
    """Weights on answers that give a feature of a unit: a sum over the rows of its people."""

    feature: FloatArray  # of each column of the unit, the weight of its rows
    weights: FloatArray  # on all answers
    rmse: float
    few: FloatArray  # weights on few answers that give it, too


def unbiased_attack(exposure: UnitExposure, unit: int, column: int = 0) -> UnitAttack:
    """The attack whose error is the unit's ``rmse``: on one of its columns, or on its sharpest feature."""
    design, solver = exposure.design, exposure.solver
    block = next(iter(design.units.choose(np.array([unit])).blocks()))
    asked = AskedUnits.of(block, np.array([unit]), design.prior.kernel, design.units.numbers)
    first = np.zeros(1, dtype=np.intp)
    if asked.one_row or design.prior.categories > 1:
        features = asked.functional(first, first + column)
    else:
        features = solver.sharpest(asked, first, exposure.directions[[unit]])
    found = solver.weights(asked, features)
    feature = np.asarray(features.toarray()[:, 0])
    if isinstance(solver, DenseSolver):
        weights = solver.spread(np.asarray(found.weights)[:, 0])
        return UnitAttack(feature=feature, weights=weights, rmse=float(found.rmse[0]), few=weights)
    few = np.asarray(found.weights.toarray()[:, 0])
    known = Dependencies.of(solver._factor[2], 1 / solver.noise.information, found.weights)
    weights = few if known is None else np.asarray(known.best(found.weights)[0][:, 0])
    return UnitAttack(feature=feature, weights=weights, rmse=float(found.rmse[0]), few=few)
