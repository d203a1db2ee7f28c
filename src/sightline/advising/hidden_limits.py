r"""Limits on attacks by someone who knows no other record, in the precisions of the noise; their tangents.

Others add to the noise. With :math:`n_k` records of each signature and the column :math:`a_k`, each hides
others like a number of the variance :math:`\tau_k = 1/D(G_{kk})`. Here
:math:`G_{kk} = \sum_\ell a_{k\ell}^2 p_\ell` is what somebody learns of it who knows all others, and D is the
precision of the prior. The information about a target is

.. math:: I_j(p) = a_j^\top M_j^{-1} a_j, \qquad
    M_j = \operatorname{diag}(1/p) + \sum_k n_k \tau_k\, a_k a_k^\top - r_j \tau_j\, a_j a_j^\top .

:math:`r_j` records of the target's signature do not hide it: all of them, or the target alone. The
information is concave in p and rises (theory page). With :math:`f = M_j^{-1} a_j` its slope is

.. math:: \frac{\partial I_j}{\partial p_\ell} = \frac{f_\ell^2}{p_\ell^2}
    + \sum_k \bigl(n_k (a_k^\top f)^2 - [k = j]\, r_j I_j^2\bigr)\, \tau_k^2 D'(G_{kk})\, a_{k\ell}^2 .
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.sparse import csc_array

from sightline.arrays import FloatArray, IndexArray, parts
from sightline.errors import InvalidNoise

_LIKELIEST = 20  # records that may be seen best after a step


class Hides(Protocol):
    """How much a record hides others: like a number with a precision that may follow what is told of it."""

    def precision(self, information: FloatArray) -> FloatArray: ...
    def precision_slope(self, information: FloatArray) -> FloatArray: ...
    def precision_excess(self, information: FloatArray) -> FloatArray: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class HiddenLimits:
    """The targets' columns, and the records that hide them."""

    columns: csc_array  # rows × targets
    most: FloatArray  # the most of each target, of its information and so many times its precision
    times_precision: float
    own: IndexArray  # the signature of each, among the hiders
    removed: FloatArray  # r: how many of its signature do not hide it
    hiders: csc_array  # rows × signatures
    counts: FloatArray  # records of each signature
    prior: Hides
    seen_best: bool  # whether all hide like the record that is seen best, which is less

    def __len__(self) -> int:
        return int(self.columns.shape[1])

    @cached_property
    def squares(self) -> csc_array:
        """The hiders' columns, squared."""
        return csc_array(self.hiders.power(2))

    def spread(self, precisions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The inverse of the noise and all that hides, and the variance that each signature adds."""
        told = self.told(precisions)
        tau = 1 / self.prior.precision(np.full(told.size, told.max()) if self.seen_best else told)
        products = (self.hiders.multiply((self.counts * tau)[None, :]) @ self.hiders.T).toarray()
        return inverse_of_sum(np.asarray(products, dtype=np.float64), 1 / precisions), tau

    def told(self, precisions: FloatArray) -> FloatArray:
        """What somebody who knows all others learns of each hider."""
        return np.asarray(self.squares.T @ precisions)

    def likeliest(self, told: FloatArray) -> IndexArray:
        """The records that may be seen best after a step, now the first; none if that is no matter."""
        if not self.seen_best:
            return np.zeros(0, dtype=np.intp)
        _, first = np.unique(self._marks, return_index=True)
        order = first[np.argsort(-told[first], kind="stable")]
        found: IndexArray = order[:_LIKELIEST]
        return found

    @cached_property
    def _marks(self) -> FloatArray:
        """A number for each column: equal ones for equal columns."""
        weights = np.random.default_rng(0).random(self.hiders.shape[0])
        return np.asarray(self.squares.T @ weights)

    def at(self, precisions: FloatArray) -> HiddenAt:
        """The information about every target at some precisions of the rows."""
        inverse, tau = self.spread(precisions)
        passes = quadratic_forms(self.columns, inverse)
        left = 1 - self.removed * tau[self.own] * passes
        with np.errstate(divide="ignore"):
            information = np.where(left > 0, passes / np.where(left > 0, left, 1.0), np.inf)
        return HiddenAt(
            limits=self,
            precisions=precisions,
            told=self.told(precisions),
            tau=tau,
            inverse=inverse,
            left=left,
            information=information,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HiddenAt:
    """The information about some targets at some precisions of the rows."""

    limits: HiddenLimits
    precisions: FloatArray
    told: FloatArray  # of each hider, to somebody who knows all others
    tau: FloatArray  # the variance that each adds
    inverse: FloatArray
    left: FloatArray
    information: FloatArray

    @property
    def limited(self) -> FloatArray:
        """What the limits are on: the information, and a multiple of the precision."""
        return self.information + self.limits.times_precision / self.tau[self.limits.own]

    @property
    def shares(self) -> FloatArray:
        """How much of the limit is used."""
        return self.limited / self.limits.most

    def recipe(self, target: int) -> FloatArray:
        """f: the weights of the best attack on a target."""
        column = self.limits.columns[:, [target]].toarray()[:, 0]
        found: FloatArray = self.inverse @ column / self.left[target]
        return found

    def tangents(self, chosen: IndexArray) -> HiddenTangents:
        r"""The linear limits in place of some targets' at this noise.

        A limit g on the information asks for :math:`I^2/g \ge 2I - g` of a recipe, and one on the information
        and the precision for that with :math:`g - D(s)`, where D is above its own tangent. For any noise the
        recipe has at most the error :math:`I - I' p + \sum p^2 I' s`. Precisions are rounded up. Where all
        hide like the record that is seen best, every record that may be it makes a limit, and those of the
        others prove nothing.
        """
        limits, told = self.limits, self.told
        change = np.asarray(limits.prior.precision_slope(told))
        best = limits.likeliest(told)
        slopes = np.empty((max(best.size, 1), chosen.size, self.precisions.size))
        for place in parts(chosen.size, each=told.size):
            some = chosen[place]
            recipes = np.asarray((limits.columns[:, some].T @ self.inverse).T) / self.left[some]
            seen = np.asarray(limits.hiders.T @ recipes) ** 2
            seen *= limits.counts[:, None]
            seen[limits.own[some], np.arange(some.size)] -= limits.removed[some] * self.information[some] ** 2
            seen *= (self.tau**2)[:, None]
            slopes[:, place] = ((recipes / self.precisions[:, None]) ** 2).T
            if limits.seen_best:
                follows = (seen.sum(axis=0) + limits.times_precision) * change[best[0]]
                moving = limits.squares[:, best].toarray()
                slopes[:, place] += moving.T[:, None, :] * follows[None, :, None]
            else:
                slopes[0, place] += np.asarray(limits.squares @ (seen * change[:, None])).T
        np.maximum(slopes, 0.0, out=slopes)
        used = np.asarray(slopes[0] @ self.precisions)
        excess = float(np.max(limits.prior.precision_excess(told), initial=0.0))
        over = (self.limited - limits.most)[chosen]
        proved = np.zeros((len(slopes), chosen.size))
        proved[0] = used + over - excess * self.information[chosen]
        return HiddenTangents(
            target=np.tile(chosen, len(slopes)),
            slopes=slopes.reshape(-1, self.precisions.size),
            room=np.tile(used - over, len(slopes)),
            cuts=proved.ravel(),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HiddenTangents:
    """Limits that are linear in the precisions, in place of those on some targets."""

    target: IndexArray
    slopes: FloatArray  # limits × rows
    room: FloatArray  # the slopes times precisions are at most so much
    cuts: FloatArray  # what their recipes ask of all noise: Σ p² slope s is at least so much


def quadratic_forms(columns: csc_array, matrix: FloatArray) -> FloatArray:
    """aᵀ M a for every column: gathered from pairs of its entries, if these are fewer than the rows."""
    sizes = np.diff(columns.indptr)
    most, found = int(sizes.max(initial=0)), np.zeros(columns.shape[1])
    if most * most > len(matrix):
        for some in parts(len(found), each=len(matrix)):
            part = columns[:, some]
            found[some] = np.asarray(part.multiply((part.T @ matrix).T).sum(axis=0)).ravel()
        return found
    # Entries past a column's end point anywhere, with weight zero.
    place = columns.indptr[:-1, None] + np.arange(most)
    inside = np.arange(most) < sizes[:, None]
    place = np.where(inside, place, 0)
    rows = np.where(inside, columns.indices[place], 0) if columns.nnz else place
    weights = np.where(inside, columns.data[place], 0.0) if columns.nnz else inside * 0.0
    for some in parts(len(found), each=most * most):
        own, weight = rows[some], weights[some]
        products = matrix[own[:, :, None], own[:, None, :]]
        found[some] = np.einsum("ki,kij,kj->k", weight, products, weight)
    return found


def inverse_of_sum(products: FloatArray, variances: FloatArray) -> FloatArray:
    """The inverse of products of rows plus a diagonal of variances, scaled to a unit diagonal first."""
    matrix = products.copy()
    matrix[np.diag_indices_from(matrix)] += variances
    unit = 1 / np.sqrt(np.diagonal(matrix))
    matrix *= unit
    matrix *= unit[:, None]
    inverse = _inverse(matrix)
    inverse *= unit
    inverse *= unit[:, None]
    return inverse


def _inverse(matrix: FloatArray) -> FloatArray:
    """The inverse of a positive definite matrix by Cholesky's factor. Overwrites the matrix."""
    factor, failed = dpotrf(matrix.T, lower=1, overwrite_a=1)
    if failed:
        raise InvalidNoise(
            "expected noise that double precision tells from none beside the records' own spread, "
            "got less; start from more noise"
        )
    half, _ = dpotri(factor, lower=1, overwrite_c=1)
    inverse: FloatArray = np.triu(half.T)  # the half that is filled
    inverse += np.triu(inverse, 1).T
    return inverse
