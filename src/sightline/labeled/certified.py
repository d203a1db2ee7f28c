r"""All numbers of a small design in ball arithmetic (FLINT's ``arb``), to the last digit of a double.

Where a factorisation in double precision cannot vouch for its digits, the same formulas are evaluated from
the exact weights at as much precision as they need. With one column :math:`a_k` for each group of :math:`n_k`
records, the rows' scales S and :math:`M = \sum_k n_k a_k a_k^\top`,

.. math:: [(G + cI)^{-1}]_{jj} = \frac1c\bigl(1 - a_j^\top S (c\Sigma + SMS)^{-1} S a_j\bigr),

and with independent columns B of SA, which every identifiable group is part of, the least mean squared error
of an unbiased attack on a group is :math:`[(B^\top\Sigma^{-1}B)^{-1}]_{gg}` (``eq:mse_optimal_s4``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.description import LinearReleases
from sightline.labeled.risk_forms import Quantity
from sightline.labeled.routes.columns import decide_columns
from sightline.labeled.routes.problem import Problem, Reading
from sightline.numerics import exact_library as flint

_MOST_ROWS, _MOST_ENTRIES = 160, 200_000
_FIRST_BITS, _LAST_BITS, _SHARP_BITS = 192, 1 << 14, 60
# Beyond this error in double precision, numbers are computed again here.
ENOUGH = 1e-10
# The variances of the noise and the precisions of the prior come as doubles, a few roundings off.
RELATIVE_ERROR = 16 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CertifiedNumbers:
    """What double precision could not vouch for."""

    quantities: dict[Quantity, FloatArray]  # over the unknown records
    rmse: FloatArray | None  # over the groups; none if it was not asked for
    recipes: FloatArray | None  # one row for each identifiable group in order


def certified_numbers(problem: Problem, reading: Reading, *, attacks: bool) -> CertifiedNumbers | None:
    """All numbers of a reading, those of attacks if asked for; ``None`` where the design is too large."""
    gram, decisions = problem.gram, reading.decisions
    if not affordable(gram.design.row_count, decisions.sizes.size):
        return None
    columns = gram.design.incidence.columns(np.flatnonzero(gram.unknown)[decisions.first])
    shares = _at_enough_bits(lambda: _shares(problem, columns, decisions.sizes))
    if shares is None:
        return None
    rmse = recipes = None
    if attacks:
        best = certified_attacks(gram.design, columns, np.flatnonzero(decisions.identifiable))
        if best is None:
            return None
        rmse = np.full(decisions.sizes.size, np.inf)
        rmse[decisions.identifiable], recipes = best
    values = np.array([float(value.mid()) for value in shares]).reshape(-1, decisions.sizes.size)
    names = (Quantity.INFORMATION, *problem.risks)
    quantities = dict(zip(names, values[:, decisions.group], strict=True))
    return CertifiedNumbers(quantities=quantities, rmse=rmse, recipes=recipes)


def certified_attacks(
    design: LinearReleases, columns: FloatArray, exposed: IndexArray
) -> tuple[FloatArray, FloatArray] | None:
    """RMSE and recipes of the best unbiased attacks on some identifiable groups.

    ``columns`` are the columns of all groups, ``exposed`` the places of the identifiable ones among them. A
    recipe's weight is right to its own size, or to nothing beside the others when all count in their noise.
    """
    if exposed.size == 0:
        return np.zeros(0), np.zeros((0, design.row_count))
    pivots = decide_columns(columns).pivots
    places = np.searchsorted(pivots, exposed).tolist()
    kept = _with_own_noise(design)
    stddevs = np.sqrt(design.law.variances[kept]).tolist()
    recipes = np.zeros((exposed.size, design.row_count))

    def squared_errors() -> list[flint.arb] | None:
        B = _scaled(design, columns[:, pivots])
        weighted = _noise(design).solve(B)
        inverse = (B.transpose() * weighted).inv()
        weights = (weighted * inverse).transpose().tolist()
        squares = [inverse[place, place] for place in places]
        for line, (place, square) in enumerate(zip(places, squares, strict=True)):
            if not _sharp(square) or not _sharp_recipe(weights[place], stddevs, square):
                return None
            recipes[line, kept] = [float(value.mid()) for value in weights[place]]
        return squares

    squares = _at_enough_bits(squared_errors)
    if squares is None:
        return None
    return np.sqrt([float(value.mid()) for value in squares]), recipes


def affordable(row_count: int, groups: int) -> bool:
    """Whether a design is small enough for ball arithmetic."""
    return row_count <= _MOST_ROWS and row_count * groups <= _MOST_ENTRIES


def _at_enough_bits(formula: Callable[[], list[flint.arb] | None]) -> list[flint.arb] | None:
    """The values at the least precision that makes all of them sharp; ``None`` if none of ours does."""
    bits = _FIRST_BITS
    while bits <= _LAST_BITS:
        with flint.ctx.workprec(bits):
            try:
                values = formula()
            except ZeroDivisionError:  # singular to this precision
                values = None
        if values is not None and all(_sharp(value) for value in values):
            return values
        bits *= 2
    return None


def _shares(problem: Problem, columns: FloatArray, sizes: IndexArray) -> list[flint.arb]:
    """The information on every group's records, then each of their risks as shares."""
    covariance, A = _noise(problem.gram.design), _scaled(problem.gram.design, columns)
    M = A * _matrix(np.diag(sizes.astype(np.float64))) * A.transpose()
    shares = _forms(covariance, A)
    for risk in problem.risks.values():
        c, unit = flint.arb(risk.precision), flint.arb(risk.unit)
        shares += [unit / c * (1 - q) for q in _forms(covariance * c + M, A)]
    return shares


def _forms(matrix: flint.arb_mat, A: flint.arb_mat) -> list[flint.arb]:
    """The diagonal of :math:`A^\\top X^{-1} A`."""
    left, right = A.transpose().tolist(), matrix.solve(A).transpose().tolist()
    return [
        sum((a * x for a, x in zip(one, other, strict=True)), flint.arb(0))
        for one, other in zip(left, right, strict=True)
    ]


def _with_own_noise(design: LinearReleases) -> IndexArray:
    """The answers whose noise is no combination of the others': the rest say nothing more of the records."""
    if not design.law.singular:
        return np.arange(design.row_count)
    return np.flatnonzero(design.law.whitener.any(axis=1))


def _noise(design: LinearReleases) -> flint.arb_mat:
    """The inverse of the information that an answer carries: the covariance, for Gaussian noise."""
    if not design.law.correlated:
        squares = [flint.arb(scale) ** 2 for scale in design.law.scales.tolist()]
        return flint.arb_mat(
            [
                [square if i == j else flint.arb(0) for j in range(len(squares))]
                for i, square in enumerate(squares)
            ]
        )
    kept = _with_own_noise(design)
    return _matrix(design.law.covariance[np.ix_(kept, kept)])


def _scaled(design: LinearReleases, columns: FloatArray) -> flint.arb_mat:
    kept = _with_own_noise(design)
    return _matrix(np.diag(design.scale[kept])) * _matrix(columns[kept])


def _matrix(values: FloatArray) -> flint.arb_mat:
    return flint.arb_mat([[flint.arb(value) for value in row] for row in values.tolist()])


def _sharp_recipe(weights: list[flint.arb], stddevs: list[float], square: flint.arb) -> bool:
    """Whether every weight is right to its own size, or to nothing beside the recipe's error."""
    nothing = 2.0**-_SHARP_BITS * square.sqrt()
    return all(
        _sharp(weight) or bool(weight.rad() * stddev <= nothing)
        for weight, stddev in zip(weights, stddevs, strict=True)
    )


def _sharp(value: flint.arb) -> bool:
    return bool(value.is_exact() or value.rel_accuracy_bits() >= _SHARP_BITS)
