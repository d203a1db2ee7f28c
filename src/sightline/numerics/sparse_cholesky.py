r"""Cholesky factorisation of a sparse symmetric positive semidefinite matrix, with a bound on its error.

The matrix is scaled to a unit diagonal and factorised supernode by supernode (multifrontal): each block of
columns is dense, and what it subtracts from later columns travels up the elimination tree. A pivot that
vanishes belongs to a row that depends on earlier ones: the row is *dropped*, and the factor is that of the
rows that are kept.

The computed factor is exact for another matrix, :math:`\hat L\hat L^\top = S + E` with

.. math:: |E| \le \gamma_{k+1}\,|\hat L|\,|\hat L|^\top

(Higham, *Accuracy and Stability*, Theorem 10.3, in every order of summation; k terms). A symmetric E lies
between plus and minus the diagonal matrix of its absolute row sums, :math:`-\Delta \le E \le \Delta`, which
is what is stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf

from sightline.arrays import FloatArray, IndexArray
from sightline.numerics.one_thread import one_blas_thread
from sightline.numerics.sparse_symbolic import SymbolicFactor

_UNIT = float(np.finfo(np.float64).eps)
# Roundings of an entry before the factorisation: scaling, and the sums that it came from.
_OWN_ROUNDINGS = 8
# A pivot of a matrix with unit diagonal below this belongs to a row that depends on earlier ones, as far as
# floating point can tell. Whether it does is proved elsewhere.
VANISHING = 1e-9
# Dependent rows that a supernode's factorisation is begun again for; with more it goes column by column.
_MOST_RESTARTS = 6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparseCholesky:
    """A factor of the kept rows of a scaled matrix, in panels: the supernode's own rows, then those below."""

    symbolic: SymbolicFactor
    scale: FloatArray  # by position: what makes the diagonal one; zero for empty rows
    panels: tuple[FloatArray, ...]
    dropped: NDArray[np.bool_]  # by position
    backward: FloatArray  # Δ by position: bounds the absolute row sums of E

    @property
    def kept(self) -> IndexArray:
        """The matrix's rows that the factor is of, in ascending order."""
        return np.sort(self.symbolic.order[~self.dropped])

    @property
    def dropped_rows(self) -> IndexArray:
        """The other rows of the matrix, in ascending order."""
        return np.sort(self.symbolic.order[self.dropped])

    @one_blas_thread()
    def solve(self, right: FloatArray) -> FloatArray:
        """The solution over the kept rows, zero in dropped ones; a right side is a column."""
        symbolic = self.symbolic
        x = right[symbolic.order] * self.scale[:, None]
        x[self.dropped] = 0.0
        for node in symbolic.linked:
            start, end = int(symbolic.starts[node]), int(symbolic.starts[node + 1])
            if not x[start:end].any():
                continue
            panel = self.panels[node]
            own = solved_lower(regular_corner(panel, end - start), x[start:end])
            x[start:end] = own
            below = symbolic.rows[node]
            if below.size:
                x[below] -= panel[end - start :] @ own
        for node in reversed(symbolic.linked):
            start, end = int(symbolic.starts[node]), int(symbolic.starts[node + 1])
            below, own = symbolic.rows[node], x[start:end]
            above = x[below]
            if above.any():
                own = own - self.panels[node][end - start :].T @ above
            elif not own.any():
                continue
            panel = self.panels[node]
            x[start:end] = solved_lower(regular_corner(panel, end - start), own, transposed=True)
            x[start:end][self.dropped[start:end]] = 0.0
        solution = np.empty_like(x)
        solution[symbolic.order] = x * self.scale[:, None]
        return solution


@one_blas_thread()
def factorise(
    symbolic: SymbolicFactor, values: FloatArray, *, vanishing: float = VANISHING, entry_error: float = 0.0
) -> SparseCholesky:
    """The factor of the matrix with these entries; ``values`` are in the order given to the analysis.

    ``entry_error`` bounds the error of every entry of the scaled matrix beyond a few relative roundings.
    """
    size = symbolic.size
    diagonal = np.zeros(size)
    diagonal[symbolic.diagonal[0]] = values[symbolic.diagonal[1]]
    positive = diagonal > 0
    scale = np.where(positive, 1 / np.sqrt(np.where(positive, diagonal, 1.0)), 0.0)
    dropped = np.zeros(size, dtype=np.bool_)
    # A row without other entries is one after scaling.
    panels = [np.ones((1, 1))] * symbolic.supernodes
    alone = symbolic.starts[symbolic.isolated]
    dropped[alone] = ~positive[alone]
    updates: list[list[tuple[IndexArray, FloatArray]]] = [[] for _ in range(symbolic.supernodes)]
    for node in symbolic.linked:
        below = symbolic.rows[node]
        start, end = int(symbolic.starts[node]), int(symbolic.starts[node + 1])
        width, height = end - start, end - start + below.size
        scales = np.concatenate([scale[start:end], scale[below]])
        front = np.zeros((height, height))
        places = symbolic.places[node]
        line, column = np.divmod(places, width)
        front[line, column] = values[symbolic.entries[node]] * scales[line] * scales[column]
        for within, update in updates[node]:
            front[within[:, None], within] += update
        updates[node] = []
        panel, gone = _eliminated(front[:, :width], vanishing)
        if gone is not None:
            dropped[start:end] = gone
        panels[node] = panel
        if below.size:
            lower = panel[width:]
            trailing = front[width:, width:]
            trailing -= lower @ lower.T
            updates[int(symbolic.parent[node])].append((symbolic.within_parent[node], trailing))
    return _restricted(symbolic, scale, panels, dropped, entry_error)


def regular_corner(panel: FloatArray, width: int) -> FloatArray:
    """The triangle at the top of a panel, with ones on the diagonal where a row was dropped."""
    corner = panel[:width]  # zero above the diagonal
    singular = np.diagonal(corner) == 0
    if singular.any():
        corner = corner.copy()
        corner[singular, singular] = 1.0
    return corner


def solved_lower(corner: FloatArray, right: FloatArray, *, transposed: bool = False) -> FloatArray:
    """Solve with a lower triangle or its transpose."""
    if len(corner) == 1:
        return np.asarray(right / corner[0, 0])
    return np.asarray(dtrsm(1.0, corner, right, lower=1, trans_a=int(transposed)))


def _eliminated(panel: FloatArray, vanishing: float) -> tuple[FloatArray, NDArray[np.bool_] | None]:
    """The panel of the factor from the assembled one, and which of its own rows are dropped, if any."""
    width = panel.shape[1]
    if width == 1:
        pivot = panel[0, 0]
        if pivot > vanishing:
            return panel / np.sqrt(pivot), None
        return np.zeros_like(panel), np.ones(1, dtype=np.bool_)
    gone = np.diagonal(panel) <= vanishing
    for _ in range(_MOST_RESTARTS):
        corner, info = dpotrf(_without(panel[:width], gone), lower=1, clean=1)
        squares = np.square(np.diagonal(corner))
        if info == 0 and float(np.min(squares)) > vanishing:
            return _finished(panel, corner, gone)
        # The pivots before the one that failed are right: the first that vanishes is that of a dependent row.
        done = width if info == 0 else info - 1
        gone[int(np.argmax(np.append(squares[:done], 0.0) <= vanishing))] = True
    return _one_by_one(panel, vanishing)


def _without(corner: FloatArray, gone: NDArray[np.bool_]) -> FloatArray:
    """A symmetric corner with the rows and columns of a unit matrix where rows are gone."""
    if not gone.any():
        return corner
    left = corner * ~gone[:, None] * ~gone
    left[gone, gone] = 1.0
    return left


def _finished(
    panel: FloatArray, corner: FloatArray, gone: NDArray[np.bool_]
) -> tuple[FloatArray, NDArray[np.bool_] | None]:
    """The panel of the factor from its factorised corner."""
    width = len(corner)
    lower = panel[width:]
    if lower.size:
        lower = dtrsm(1.0, corner, lower * ~gone if gone.any() else lower, side=1, lower=1, trans_a=1)
    if not gone.any():
        return np.concatenate([corner, lower]), None
    corner[gone, gone] = 0.0
    return np.concatenate([corner, lower]), gone


def _one_by_one(panel: FloatArray, vanishing: float) -> tuple[FloatArray, NDArray[np.bool_]]:
    """The same column by column, for a supernode with many dependent rows."""
    width = panel.shape[1]
    factor = panel.copy()
    gone = np.zeros(width, dtype=np.bool_)
    for j in range(width):
        factor[:j, j] = 0.0
        pivot = factor[j, j]
        if pivot <= vanishing:
            gone[j] = True
            factor[j:, j] = 0.0
            continue
        factor[j:, j] /= np.sqrt(pivot)
        factor[j + 1 :, j + 1 :] -= np.outer(factor[j + 1 :, j], factor[j + 1 : width, j])
    return factor, gone


def _restricted(
    symbolic: SymbolicFactor,
    scale: FloatArray,
    panels: list[FloatArray],
    dropped: NDArray[np.bool_],
    entry_error: float,
) -> SparseCholesky:
    """The factor without its dropped rows, and the bound on its error."""
    sums = np.zeros(symbolic.size)  # |L| |L|ᵀ 1
    terms = np.zeros(symbolic.size)
    sums[symbolic.starts[symbolic.isolated]] = 1.0
    given = np.zeros(symbolic.size)  # entries of the matrix in each row
    for node in symbolic.linked:
        below = symbolic.rows[node]
        start, end = int(symbolic.starts[node]), int(symbolic.starts[node + 1])
        panel, width = panels[node], end - start
        gone = np.concatenate([dropped[start:end], dropped[below]])
        if gone.any():
            panel = panel.copy()
            panel[gone] = 0.0
        panel = np.ascontiguousarray(panel)
        panels[node] = panel
        size = np.abs(panel)
        reach = size @ size.sum(axis=0)
        sums[start:end] += reach[:width]
        sums[below] += reach[width:]
        if entry_error > 0:
            local = np.concatenate([np.arange(start, end), below])
            line, column = np.divmod(symbolic.places[node], width)
            np.add.at(given, local[line], 1.0)
            np.add.at(given, local[column], 1.0)
        terms[start:end] += width
        terms[below] += width
    backward = 2 * (terms + _OWN_ROUNDINGS) * _UNIT * sums + entry_error * given
    return SparseCholesky(
        symbolic=symbolic, scale=scale, panels=tuple(panels), dropped=dropped, backward=backward
    )
