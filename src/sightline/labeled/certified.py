r"""All numbers of a small design in ball arithmetic (FLINT's ``arb``), to the last digit of a double.

Where a factorisation in double precision cannot vouch for its digits, the same formulas are evaluated from
the exact weights at as much precision as they need. With one column :math:`a_k` for each group of :math:`n_k`
records, the rows' scales S and :math:`M = \sum_k n_k a_k a_k^\top`,

.. math:: [(G + cI)^{-1}]_{jj} = \frac1c\bigl(1 - a_j^\top S (c\Sigma + SMS)^{-1} S a_j\bigr),

and with independent columns B of SA, which every identifiable group is part of, the least mean squared error
of an unbiased attack on a group is :math:`[(B^\top\Sigma^{-1}B)^{-1}]_{gg}` (``app:linear_blue_identity``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb, arb_mat, ctx

from sightline.arrays import FloatArray, IndexArray
from sightline.labeled.risk_forms import Quantity
from sightline.labeled.routes.columns import decide_columns
from sightline.labeled.routes.problem import Problem, Reading

_MOST_ROWS, _MOST_ENTRIES = 160, 200_000
_FIRST_BITS, _LAST_BITS, _SHARP_BITS = 192, 1 << 14, 60
# The variances of the noise and the precisions of the prior come as doubles, a few roundings off.
RELATIVE_ERROR = 16 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CertifiedNumbers:
    """What double precision could not vouch for."""

    quantities: dict[Quantity, FloatArray]  # over the unknown records
    rmse: FloatArray  # over the groups
    recipes: FloatArray  # one row for each identifiable group in order


def certified_numbers(problem: Problem, reading: Reading) -> CertifiedNumbers | None:
    """All numbers of a reading; ``None`` where the design is too large for that."""
    gram, decisions = problem.gram, reading.decisions
    row_count, count = gram.design.row_count, decisions.sizes.size
    if row_count > _MOST_ROWS or row_count * count > _MOST_ENTRIES:
        return None
    columns = gram.design.incidence.columns(np.flatnonzero(gram.unknown)[decisions.first])
    exposed = np.flatnonzero(decisions.identifiable)
    pivots = decide_columns(columns).pivots if exposed.size else exposed
    places = np.searchsorted(pivots, exposed)
    bits = _FIRST_BITS
    while bits <= _LAST_BITS:
        with ctx.workprec(bits):
            try:
                shares = _shares(problem, columns, decisions.sizes)
                attacks = _attacks(problem, columns[:, pivots], places) if exposed.size else None
            except ZeroDivisionError:  # singular to this precision
                shares = {}
            else:
                mse = [] if attacks is None else attacks[0]
                if all(_sharp(value) for values in (*shares.values(), mse) for value in values):
                    break
        bits *= 2
    else:
        return None
    rmse = np.full(count, np.inf)
    recipes = np.zeros((0, row_count))
    if attacks is not None:
        rmse[exposed] = np.sqrt([float(value.mid()) for value in attacks[0]])
        recipes = attacks[1]
    quantities = {
        name: np.array([float(value.mid()) for value in values])[decisions.group]
        for name, values in shares.items()
    }
    return CertifiedNumbers(quantities=quantities, rmse=rmse, recipes=recipes)


def _shares(problem: Problem, columns: FloatArray, sizes: IndexArray) -> dict[Quantity, list[arb]]:
    """The information on every group's records, and their risks as shares of those without releases."""
    covariance, A = _noise(problem), _scaled(problem, columns)
    M = A * _matrix(np.diag(sizes.astype(np.float64))) * A.transpose()
    shares = {Quantity.INFORMATION: _forms(covariance, A)}
    for name, risk in problem.risks.items():
        c, unit = arb(risk.precision), arb(risk.unit)
        shares[name] = [unit / c * (1 - q) for q in _forms(covariance * c + M, A)]
    return shares


def _attacks(problem: Problem, columns: FloatArray, places: IndexArray) -> tuple[list[arb], FloatArray]:
    """The least mean squared errors at some places among independent columns, and the recipes."""
    B = _scaled(problem, columns)
    weighted = _noise(problem).solve(B)
    inverse = (B.transpose() * weighted).inv()
    recipes = (weighted * inverse).transpose().tolist()
    chosen = [[float(value.mid()) for value in recipes[place]] for place in places.tolist()]
    return [inverse[place, place] for place in places.tolist()], np.array(chosen)


def _forms(matrix: arb_mat, A: arb_mat) -> list[arb]:
    """The diagonal of :math:`A^\\top X^{-1} A`."""
    left, right = A.transpose().tolist(), matrix.solve(A).transpose().tolist()
    return [
        sum((a * x for a, x in zip(one, other, strict=True)), arb(0))
        for one, other in zip(left, right, strict=True)
    ]


def _noise(problem: Problem) -> arb_mat:
    """The inverse of the information that an answer carries: the covariance, for Gaussian noise."""
    law = problem.gram.design.law
    return _matrix(law.covariance) * (1 / arb(law.excess))


def _scaled(problem: Problem, columns: FloatArray) -> arb_mat:
    return _matrix(np.diag(problem.gram.design.scale)) * _matrix(columns)


def _matrix(values: FloatArray) -> arb_mat:
    return arb_mat([[arb(value) for value in row] for row in values.tolist()])


def _sharp(value: arb) -> bool:
    return bool(value.is_exact() or value.rel_accuracy_bits() >= _SHARP_BITS)
