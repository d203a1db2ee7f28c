r"""The splits of a hybrid transcript, linearised: the bound of the target, and the wrong points that compete.

With L releases in all, a split makes :math:`L_f` symmetric releases and :math:`L - L_f` subset means. Every
number here is for :math:`\kappa_L = 1`. With rows :math:`g` (gradients over sensitivities, both kinds of
release) the target's local bound is :math:`(A^{-1})_{jj}`, :math:`A = \sum g g^\top`.

A *competitor* is a point :math:`c` with another value of the target and similar answers: the group with its
values permuted, or with the sign of the target's value changed, which no even moment sees. It may shift to
fit the answers better, so its distance from the truth is, to first order,

.. math:: d_c^2 = \min_\delta \sum_\ell \bigl(q_\ell(c) - q_\ell(x) + g_\ell(c)^\top \delta\bigr)^2

(answers over sensitivities). For a permutation that features of full rank do not see this is
:math:`r^\top (N^{-1} + A_\pi I_f^{-1} A_\pi^\top)^{-1} r` of the theory page. A competitor whose shift leads
back towards the truth is not a separate minimum: it counts only if the shift of the target's value is at most
half of its distance from the true one. In a linear model no competitor counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import FloatArray, IndexArray
from sightline.multiset.factor import inverse_diagonals, rotate_in
from sightline.multiset.family import Family, rounding
from sightline.multiset.memberships import Memberships
from sightline.multiset.signal import CurveStatus, status_of_error
from sightline.multiset.single import exposed
from sightline.progress import Progress

ALL_PERMUTATIONS = 6  # up to so many values all permutations are tried, beyond it only exchanges of two
_TOGETHER = 2_000  # groups that are factorised together
# A competitor's shifts cost at least this much a unit of the bound, so that shifts which no release sees stay
# finite. It changes a squared distance by less than 1e-11.
_STIFFNESS = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SplitGeometry:
    """What the splits of groups ``(B, m)`` show of the target at κ = 1; arrays are ``(B, splits)``.

    Competitors are on a leading axis: one for each record whose value the target may have, and one for the
    opposite sign. ``squared_distance`` is infinite for a competitor that does not count.
    """

    local: FloatArray
    relative_error: FloatArray
    status: NDArray[np.uint8]
    values: FloatArray  # (competitors, B): of the target
    squared_distance: FloatArray  # (competitors, B, splits)
    variance: FloatArray  # (competitors, B, splits): of the target's value near the competitor


def split_geometry(
    groups: FloatArray,
    target: int,
    *,
    family: Family,
    memberships: Memberships,
    releases: int,
    progress: Progress,
) -> SplitGeometry:
    """The geometry of every split of ``releases`` releases, at groups ``(B, m)``."""
    features = split_features(family, releases)
    parts = []
    for start in range(0, len(groups), _TOGETHER):
        progress("splits", start / len(groups))
        chunk = groups[start : start + _TOGETHER]
        problem = _Splits(
            groups=chunk,
            target=target,
            family=family,
            memberships=memberships,
            features=features,
            releases=releases,
        )
        parts.append((*problem.local(), *problem.competitors()))
    progress("splits", 1.0)
    local, error, status, values, distance, variance = zip(*parts, strict=True)
    return SplitGeometry(
        local=np.concatenate(local),
        relative_error=np.concatenate(error),
        status=np.concatenate(status),
        values=np.concatenate(values, axis=1),
        squared_distance=np.concatenate(distance, axis=1),
        variance=np.concatenate(variance, axis=1),
    )


def split_features(family: Family, releases: int) -> IndexArray:
    """The possible numbers of symmetric releases among ``releases``, from 0."""
    most = releases if family.largest is None else min(releases, family.largest)
    features = np.arange(most + 1)
    features.setflags(write=False)
    return features


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Splits:
    groups: FloatArray
    target: int
    family: Family
    memberships: Memberships
    features: IndexArray
    releases: int

    @property
    def members(self) -> int:
        return int(self.groups.shape[1])

    def order(self) -> list[int]:
        """The columns of a factorisation: the target last, so that its pivot is its information."""
        return [*(k for k in range(self.members) if k != self.target), self.target]

    def member_rows(self, split: int) -> FloatArray:
        """The rows of the subset means of a split, each times the root of its count; unused ones left out."""
        counts = self.memberships.counts(self.releases - split)
        rows = self.memberships.rows(self.members) * np.sqrt(counts)[:, None]
        return rows[counts > 0]

    def triangles(self, at: FloatArray) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """For each split the triangle of the rows at a point beside the change of the answers, with the
        target and the change in the last columns: ``(m + 1, m + 1, B)``; and the squared lengths of the
        columns."""
        order, B, m = self.order(), len(at), self.members
        stiffness = 0.0 if at is self.groups else _STIFFNESS / self.memberships.bound
        moved = (at - self.groups).T
        nested = self.family.nested
        last = int(self.features[-1])
        if nested and last:
            rows = self.features_at(at, last)
        T, squares = _start(m, B, stiffness), np.zeros((m, B))
        for split in self.features.tolist():
            if split and nested:
                squares = squares + rows[split - 1][:m] ** 2
                rotate_in(T, rows[split - 1])
            elif split:
                T = _start(m, B, stiffness)
                fresh = self.features_at(at, split)
                squares = np.sum(fresh[:, :m] ** 2, axis=0)
                for row in fresh:
                    rotate_in(T, row)
            whole, lengths = T.copy(), squares
            for row in self.member_rows(split):
                column = np.empty((m + 1, B))
                column[:m] = row[order, None]
                column[m] = row @ moved
                lengths = lengths + column[:m] ** 2
                rotate_in(whole, column)
            yield split, whole, lengths

    def features_at(self, at: FloatArray, count: int) -> FloatArray:
        """The rows of the symmetric releases beside the change of their answers: ``(count, m + 1, B)``."""
        rows = np.moveaxis(self.family.rows(at, count)[:, :, self.order()], 0, -1)
        if at is self.groups:
            change = np.zeros((len(at), count))
        else:
            change = self.family.answers(at, count) - self.family.answers(self.groups, count)
        return np.concatenate([rows, change.T[:, None, :]], axis=1)

    def local(self) -> tuple[FloatArray, FloatArray, NDArray[np.uint8]]:
        """The bound of the target, its estimated relative error and its status."""
        B, m = self.groups.shape
        shape = (B, len(self.features))
        bound, error = np.empty(shape), np.empty(shape)
        status = np.empty(shape, dtype=np.uint8)
        ordered = np.sort(self.groups, axis=1)
        tied = (np.diff(ordered, axis=1) == 0).any(axis=1)
        for place, (split, T, lengths) in enumerate(self.triangles(self.groups)):
            inverse = inverse_diagonals(T[:m, :m])
            with np.errstate(invalid="ignore", over="ignore"):
                inflation = np.sum(np.sqrt(lengths * inverse), axis=0)
            own = rounding(self.family, max(split, 1)) * inflation
            extra = self.family.edge_error(self.groups, split) if split else None
            if extra is not None:
                with np.errstate(invalid="ignore"):
                    own = own + 2.0**-53 * np.nansum(
                        extra[:, self.order()].T * np.sqrt(lengths * inverse), axis=0
                    )
            bound[:, place], error[:, place] = inverse[-1], 2 * own
            status[:, place] = status_of_error(2 * own)
            few = split < m  # an IN release repeats the first moment
            singular = status[:, place] == CurveStatus.UNRELIABLE
            singular &= few | tied | (lengths == 0).any(axis=0)
            if singular.any():
                some = np.flatnonzero(singular)
                bound[some, place] = self._of_singular(some, split)
                error[some, place] = 0.0
                unseen = CurveStatus.TOO_FEW_RELEASES if few else CurveStatus.UNSEEN
                missing = np.isinf(bound[some, place])
                status[some, place] = np.where(missing, unseen, CurveStatus.ACCURATE)
        unreliable = status == CurveStatus.UNRELIABLE
        bound[unreliable], error[unreliable] = np.nan, np.inf
        return bound, error, status

    def _of_singular(self, some: IndexArray, split: int) -> FloatArray:
        """The bound where the rows do not determine the other values: infinite, or by a pseudo-inverse."""
        means = self.member_rows(split)
        rows = np.broadcast_to(means, (len(some), *means.shape))
        if split:
            rows = np.concatenate([self.family.rows(self.groups[some], split), rows], axis=1)
        if rows.shape[1] == 0:
            return np.full(len(some), np.inf)
        bounds: FloatArray = exposed(rows)[:, self.target]
        return bounds

    def competitors(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The target's value at each competitor ``(C, B)``, its squared distance and the variance there."""
        B, m = self.groups.shape
        x = self.groups
        others = [k for k in range(m) if k != self.target]
        values = np.stack([*(x[:, k] for k in others), -x[:, self.target]])
        distance = np.full((m, B, len(self.features)), np.inf)
        variance = np.full_like(distance, np.inf)
        for permutation in self._permutations():
            place = others.index(permutation[self.target])
            far, wide = self._competitor(x[:, permutation])
            closer = far < distance[place]
            distance[place] = np.where(closer, far, distance[place])
            variance[place] = np.where(closer, wide, variance[place])
        flipped = x.copy()
        flipped[:, self.target] *= -1
        distance[-1], variance[-1] = self._competitor(flipped)
        return values, distance, variance

    def _permutations(self) -> Iterator[list[int]]:
        """The permutations that give the target another value: of those with the same effect, one."""
        m, j = self.members, self.target
        if m <= ALL_PERMUTATIONS and not self.memberships.singles_out(j, m):
            yield from (list(order) for order in permutations(range(m)) if order[j] != j)
            return
        for k in range(m):
            if k != j:
                order = list(range(m))
                order[j], order[k] = k, j
                yield order

    def _competitor(self, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Squared distance and variance ``(B, splits)`` of one competitor in each group."""
        m = self.members
        gaps = np.abs(at[:, self.target] - self.groups[:, self.target])
        distance, variance = np.empty((2, len(at), len(self.features)))
        for place, (_, T, _) in enumerate(self.triangles(at)):
            shift = np.abs(T[m - 1, m] / T[m - 1, m - 1])
            counts = (gaps > 0) & (shift <= gaps / 2)
            distance[:, place] = np.where(counts, T[m, m] ** 2, np.inf)
            variance[:, place] = T[m - 1, m - 1] ** -2
        return distance, variance


def _start(members: int, groups: int, stiffness: float) -> FloatArray:
    T = np.zeros((members + 1, members + 1, groups))
    T[range(members), range(members)] = stiffness
    return T
