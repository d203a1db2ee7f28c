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

The entries of an inverse on the pattern of its factor, with a bound on their error (Takahashi 1973).

For a supernode s with rows R below it, :math:`Y = L_{Rs} L_{ss}^{-1}` and the inverse Z,

.. math:: Z_{Rs} = -Z_{RR} Y, \qquad Z_{ss} = L_{ss}^{-\top} L_{ss}^{-1} - Y^\top Z_{Rs} ,

and :math:`Z_{RR}` is part of the block of the parent. So one pass from the root to the leaves gives every
entry of the inverse where the factor has one, and no other is ever computed.

**Error.** Write F for s and R together. An error of :math:`Z_{RR}` that lies between :math:`\pm\varepsilon
Z_{RR}` (as quadratic forms) becomes one between :math:`\pm\varepsilon Z_{FF}`, because
:math:`Z_{FF} = T Z_{RR} T^\top + \text{a positive block}`. The roundings of one step, with absolute row sums
h, lie between :math:`\pm\operatorname{diag} h`, and :math:`\operatorname{diag} h \le (\sum_i h_i)\,Z_{FF}`:
the inverse of :math:`Z_{FF}` is a Schur complement, its diagonal is at most that of the matrix, which is one.
So the sums of the h along each path to the root bound the relative error of every form over a block. The
factor's own error :math:`|E| \le \Delta` adds :math:`\sum_i \Delta_i Z_{ii}`, the trace of
:math:`\hat L^{-1}\Delta\hat L^{-\top}` over the tree of the elimination that the form is in, or less if the
matrix is known to be at least some multiple of a diagonal one. If that is below one, the matrix over the kept
rows is proved positive definite.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from sightline.arrays import ROUNDING, FloatArray, IndexArray
from sightline.numerics.residuals import UNIT
from sightline.numerics.sparse_symbolic import SymbolicFactor
from sightline.progress import one_blas_thread
from sightline.values import frozen

# Roundings of an entry before the factorisation: scaling, and the sums that it came from.
_OWN_ROUNDINGS = 8
# Dependent rows that a supernode's factorisation is begun again for; with more it goes column by column.
_MOST_RESTARTS = 6


@frozen
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
            solved = solved_lower(regular_corner(panel, end - start), x[start:end])
            x[start:end] = solved
            below = symbolic.rows[node]
            if below.size:
                x[below] -= panel[end - start :] @ solved
        for node in reversed(symbolic.linked):
            start, end = int(symbolic.starts[node]), int(symbolic.starts[node + 1])
            below, solved = symbolic.rows[node], x[start:end]
            above = x[below]
            if above.any():
                solved = solved - self.panels[node][end - start :].T @ above
            elif not solved.any():
                continue
            panel = self.panels[node]
            x[start:end] = solved_lower(regular_corner(panel, end - start), solved, transposed=True)
            x[start:end][self.dropped[start:end]] = 0.0
        solution = np.empty_like(x)
        solution[symbolic.order] = x * self.scale[:, None]
        return solution


@one_blas_thread()
def factorise(
    symbolic: SymbolicFactor, values: FloatArray, *, vanishing: float = ROUNDING, entry_error: float = 0.0
) -> SparseCholesky:
    """The factor of the matrix with these entries; ``values`` are in the order given to the analysis.

    ``entry_error`` bounds the error of every entry of the scaled matrix beyond a few relative roundings. A
    pivot of the matrix with unit diagonal that is at most ``vanishing`` belongs to a row that depends on
    earlier ones, as far as floating point can tell. Whether it does is proved elsewhere.
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
    # From the right, with the transposes: BLAS wants columns, and both arrays have rows in memory.
    solved = scipy.linalg.blas.dtrsm(1.0, corner.T, right.T, side=1, lower=0, trans_a=int(transposed))
    return np.asarray(solved.T)


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
        corner, info = scipy.linalg.lapack.dpotrf(_without(panel[:width], gone), lower=1, clean=1)
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
        lower = scipy.linalg.blas.dtrsm(
            1.0, corner, lower * ~gone if gone.any() else lower, side=1, lower=1, trans_a=1
        )
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
    backward = 2 * (terms + _OWN_ROUNDINGS) * UNIT * sums + entry_error * given
    return SparseCholesky(
        symbolic=symbolic, scale=scale, panels=tuple(panels), dropped=dropped, backward=backward
    )


@frozen
class SelectedInverse:
    """The inverse over the kept rows at the entries of the matrix; zero for dropped rows."""

    values: FloatArray  # in the order of the matrix's entries
    trace: float  # of the inverse of the scaled matrix
    relative_error: float
    """A bound for every quadratic form whose rows all meet in the pattern. Finite: the kept rows are proved
    independent; infinite: nothing is proved."""


@one_blas_thread()
def selected_inverse(
    factor: SparseCholesky, entry_count: int, *, least: FloatArray | None = None
) -> SelectedInverse:
    """The selected inverse of a factorised matrix.

    ``least`` is a diagonal matrix, by row, that is at most the matrix, if one is known.
    """
    symbolic, scale, dropped = factor.symbolic, factor.scale, factor.dropped
    values = np.zeros(entry_count)
    diagonal = np.zeros(symbolic.size)
    blocks: dict[int, tuple[FloatArray, float, int]] = {}  # the block, its error, children to come
    children = np.bincount(symbolic.parent[symbolic.parent >= 0], minlength=symbolic.supernodes)
    rounding = 8 * UNIT
    alone = symbolic.starts[symbolic.isolated]
    diagonal[alone] = ~dropped[alone]
    positions, entries = symbolic.diagonal
    values[entries] = diagonal[positions] * scale[positions] ** 2
    for node in symbolic.downwards:
        start, end = int(symbolic.starts[node]), int(symbolic.starts[node + 1])
        below, parent, width = symbolic.rows[node], int(symbolic.parent[node]), end - start
        if below.size:
            block, error, waiting = blocks.pop(parent)
            within = symbolic.within_parent[node]
            corner = block[within[:, None], within]
            if waiting > 1:
                blocks[parent] = (block, error, waiting - 1)
        else:
            corner, error = np.zeros((0, 0)), 0.0
        gone = dropped[start:end]
        block, step = _step(factor.panels[node], corner, gone if gone.any() else None)
        error += step
        rounding = max(rounding, error)
        diagonal[start:end] = np.diagonal(block)[:width]
        scales = np.concatenate([scale[start:end], scale[below]])
        line, column = np.divmod(symbolic.places[node], width)
        values[symbolic.entries[node]] = block[line, column] * scales[line] * scales[column]
        if children[node]:
            blocks[node] = (block, error, int(children[node]))
    return SelectedInverse(
        values=values,
        trace=float(np.sum(diagonal)),
        relative_error=_bound(factor, diagonal, rounding, least),
    )


def _step(panel: FloatArray, corner: FloatArray, gone: NDArray[np.bool_] | None) -> tuple[FloatArray, float]:
    """The block of the inverse over a supernode and its rows, and what its roundings add to the error."""
    height, width = panel.shape
    L = regular_corner(panel, width)
    W = np.array([[1 / L[0, 0]]]) if width == 1 else scipy.linalg.lapack.dtrtri(L, lower=1)[0]
    if gone is not None:
        W = W * ~gone[:, None] * ~gone
    below = panel[width:]
    block = np.empty((height, height))
    Y = below @ W
    block[width:, width:] = corner
    across = -(corner @ Y)
    block[width:, :width] = across
    block[:width, width:] = across.T
    block[:width, :width] = W.T @ W - Y.T @ across
    # Row sums of bounds on the roundings; |Z_ij| is at most the root of Z_ii Z_jj.
    size_W, size_L = np.abs(W), np.abs(L)
    of_W = size_W.sum(axis=1)
    error_of_W = 2 * (width + 2) * UNIT * (size_W @ (size_L @ of_W))
    size_Y = np.abs(Y)
    of_Y = size_Y.sum(axis=1)
    error_of_Y = 2 * (width + 2) * UNIT * (np.abs(below) @ of_W) + np.abs(below) @ error_of_W
    roots = np.sqrt(np.abs(np.diagonal(corner)))
    per_root = float(roots @ (2 * (len(corner) + 2) * UNIT * of_Y + error_of_Y))
    error_across = float(np.sum(roots)) * per_root
    error_own = (
        float(np.sum(size_Y.T @ roots)) * per_root
        + float(error_of_Y @ np.abs(across).sum(axis=1))
        + 2 * (len(corner) + 4) * UNIT * float(of_Y @ np.abs(across).sum(axis=1))
        + 2 * (width + 4) * UNIT * float(np.sum((size_W @ np.ones(width)) ** 2))
        + 2 * float(error_of_W @ of_W)
    )
    return block, 2 * error_across + error_own


def _bound(factor: SparseCholesky, diagonal: FloatArray, rounding: float, least: FloatArray | None) -> float:
    """The relative error of forms of the selected inverse, from the roundings and the factor's error."""
    if not rounding < 1 / 4:
        return math.inf
    # The matrix is one block for each tree, and a form reaches one of them.
    shares = np.bincount(factor.symbolic.tree_of, factor.backward * diagonal)
    share = float(np.max(shares, initial=0.0)) / (1 - rounding)
    if least is not None:
        # S ≥ diag(least · scale²), so that Δ ≤ max(Δ / (least · scale²)) S.
        own = least[factor.symbolic.order] * factor.scale**2
        share = min(share, float(np.max(factor.backward[own > 0] / own[own > 0], initial=0.0)))
    if not share < 1 / 4:
        return math.inf
    return (1 + rounding) / (1 - share) - 1 + rounding
