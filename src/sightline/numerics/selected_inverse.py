r"""The entries of an inverse on the pattern of its factor, with a bound on their error (Takahashi 1973).

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
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri

from sightline.arrays import FloatArray
from sightline.numerics.one_thread import one_blas_thread
from sightline.numerics.sparse_cholesky import SparseCholesky, regular_corner

_UNIT = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelectedInverse:
    """The inverse over the kept rows at the entries of the matrix; zero for dropped rows."""

    values: FloatArray  # in the order of the matrix's entries
    trace: float  # of the inverse of the scaled matrix
    relative_error: float
    """A bound for every quadratic form whose rows all meet in the pattern; infinite: nothing is proved."""

    @property
    def proves_independence(self) -> bool:
        """Whether the kept rows are proved independent."""
        return math.isfinite(self.relative_error)


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
    rounding = 8 * _UNIT
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
    W = np.array([[1 / L[0, 0]]]) if width == 1 else dtrtri(L, lower=1)[0]
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
    error_of_W = 2 * (width + 2) * _UNIT * (size_W @ (size_L @ of_W))
    size_Y = np.abs(Y)
    of_Y = size_Y.sum(axis=1)
    error_of_Y = 2 * (width + 2) * _UNIT * (np.abs(below) @ of_W) + np.abs(below) @ error_of_W
    roots = np.sqrt(np.abs(np.diagonal(corner)))
    per_root = float(roots @ (2 * (len(corner) + 2) * _UNIT * of_Y + error_of_Y))
    error_across = float(np.sum(roots)) * per_root
    error_own = (
        float(np.sum(size_Y.T @ roots)) * per_root
        + float(error_of_Y @ np.abs(across).sum(axis=1))
        + 2 * (len(corner) + 4) * _UNIT * float(of_Y @ np.abs(across).sum(axis=1))
        + 2 * (width + 4) * _UNIT * float(np.sum((size_W @ np.ones(width)) ** 2))
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
