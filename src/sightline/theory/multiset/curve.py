r"""The release curve of a fixed group: the bound on its sorted values for every release count.

.. math:: \mathrm{CRB}(L) = \kappa_L \operatorname{tr}\bigl(A_L(z)^{-1}\bigr),
          \qquad A_L = \sum_{\ell \le L} g_\ell g_\ell^\top

(``thm:lever2_design_law``). More releases add rows to :math:`A_L` and noise to every row, through
:math:`\kappa_L`: the curve need not be monotone. An attacker learns most where it is lowest.

Answers that do not depend on the order of the values cannot show which record has which value. Near a point
without ties they determine the sorted vector :math:`z = x^\uparrow` (``prop:lever2_sorted_chart_main``): the
sorted chart, in which the values are identifiable.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightline.arrays import FloatArray, IndexArray, frozen_floats
from sightline.display import Displayed
from sightline.errors import InvalidInput, require
from sightline.noise.pricing import unit_noise
from sightline.privacy.accountant import Accountant
from sightline.progress import Progress, reporting
from sightline.theory.multiset.family import Counts, Family, checked_counts
from sightline.theory.multiset.moments import Moments, moment_limit_trace
from sightline.theory.multiset.signal import CurveStatus, Signal, signals, single_values
from sightline.theory.multiset.spectrum import (
    Asymptotics,
    Bottleneck,
    Growth,
    asymptotics,
    bottleneck,
    eigenvalues,
)
from sightline.theory.releases.query import Convention
from sightline.values import short_repr


@dataclass(frozen=True, kw_only=True, eq=False)
class _Bounds:
    """The bound for one group or for many groups of one size."""

    releases: IndexArray
    kappa: FloatArray
    family: Family = field(repr=False)
    accountant: Accountant
    values: FloatArray = field(repr=False)  # sorted
    positions: IndexArray = field(repr=False)  # of the sorted values in the group as given
    signal: Signal = field(repr=False)

    @property
    def convention(self) -> Convention | None:
        """How the family states its sensitivities: ``tight`` or ``uniform``; ``None`` if queries differ."""
        return self.family.convention

    @cached_property
    def crb(self) -> FloatArray:
        """The least total squared error of a locally unbiased attack (``eq:crb_unlab_def``).

        A column for each count; for many groups, a row for each.
        """
        return _locked(self.kappa * self.signal.trace)

    @property
    def relative_error(self) -> FloatArray:
        """Estimated relative error of ``crb`` by rounding."""
        return self.signal.relative_error

    def under(self, accountant: Accountant) -> Self:
        """The same geometry under another accountant or budget."""
        return replace(self, accountant=accountant, kappa=_locked(unit_noise(accountant, self.releases)))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReleaseCurve(Displayed, _Bounds):
    """The bound for one group over release counts. Owner-only: everything in it depends on the values.

    ``crb`` is infinite where the values are not identifiable, and NaN where the rows are so ill-conditioned
    that no digit is reliable. ``status`` says which, and ``relative_error`` estimates the error of a finite
    bound.
    """

    __repr__ = short_repr

    drawn_by: ClassVar[str] = "theory"

    @cached_property
    def value_crb(self) -> FloatArray:
        """The bound of each single sorted value, a row for each count; finite rows sum to ``crb``.

        A value may be exposed where the group as a whole is not identifiable. NaN where values are equal or
        no digit is reliable.
        """
        bounds = single_values(
            self.values[None], family=self.family, counts=self.releases, signal=self.signal.as_groups()
        )
        return _locked(self.kappa[:, None] * bounds[0])

    @property
    def status(self) -> tuple[CurveStatus, ...]:
        """How accurate the number at each count is."""
        return tuple(CurveStatus(code) for code in self.signal.status)

    @property
    def first_identifiable(self) -> int | None:
        """The first of the counts at which the values are identifiable, or ``None``."""
        identifiable = self.signal.identifiable
        return int(self.releases[np.argmax(identifiable)]) if identifiable.any() else None

    @property
    def best(self) -> int:
        """The count with the smallest bound, best for an attacker; 0 if no bound is finite."""
        return int(self.releases[np.nanargmin(self.crb)]) if np.isfinite(self.crb).any() else 0

    @property
    def ties(self) -> tuple[int, ...]:
        """``best``, and the counts whose bound differs from its bound by less than the estimated error."""
        if not self.best:
            return ()
        lowest = int(np.nanargmin(self.crb))
        room = self.relative_error + self.relative_error[lowest]
        with np.errstate(invalid="ignore"):
            close = self.crb - self.crb[lowest] <= room * self.crb[lowest]
        return tuple(int(count) for count in self.releases[close])

    @property
    def undecided(self) -> tuple[int, ...]:
        """The counts where no digit is reliable. One may have the smallest bound."""
        return tuple(int(c) for c in self.releases[self.signal.status == CurveStatus.UNRELIABLE])

    @property
    def still_falling(self) -> bool:
        """Whether the smallest bound is at the last count, so that the minimum may lie beyond the range."""
        return len(self.releases) > 1 and self.best == int(self.releases[-1])

    @cached_property
    def collisions(self) -> tuple[Collision, ...]:
        """Values that coincide or nearly do, by position in the group as given."""
        given = np.empty_like(self.values)
        given[self.positions] = self.values
        return collisions(given)

    @property
    def chart_radius(self) -> float:
        """Half the smallest gap: larger errors leave the chart in which the bound is stated."""
        return chart_radius(self.values)

    @cached_property
    def eigenvalues(self) -> FloatArray:
        r"""Eigenvalues of :math:`A_L`, descending, a row for each count; NaN where no digit is reliable."""
        return eigenvalues(self.values, family=self.family, counts=self.releases)

    @property
    def growth(self) -> Growth:
        """How the smallest eigenvalue grows against the noise."""
        smallest = self.eigenvalues[:, -1]
        return Growth(releases=self.releases, smallest_eigenvalue=smallest, kappa=self.kappa)

    @property
    def asymptotics(self) -> Asymptotics | None:
        """The prediction for many releases, for families that have a theorem."""
        return asymptotics(self.values, family=self.family, accountant=self.accountant)

    @property
    def best_is_global(self) -> bool:
        r"""Whether it is proven that no count beyond the range has a smaller bound.

        For moments :math:`\mathrm{CRB}(L) \ge \kappa_L \operatorname{tr} A_\infty^{-1}`, which grows with L.
        Once this lower bound exceeds the smallest bound of the range, no larger count is better. Proven only
        for ranges without gaps that start at the first identifiable count or before.
        """
        if not self.best or self.undecided or not isinstance(self.family, Moments):
            return False
        first, last = int(self.releases[0]), int(self.releases[-1])
        whole = first <= len(self.values) and last - first + 1 == len(self.releases)
        floor = unit_noise(self.accountant, last + 1) * moment_limit_trace(self.values, family=self.family)
        lowest = int(np.nanargmin(self.crb))
        return bool(whole and floor > self.crb[lowest] * (1 + self.relative_error[lowest]))

    def bottleneck(self, releases: int = 0) -> Bottleneck:
        """The least determined combination of sorted values, at ``best`` or at another count."""
        count = releases or self.best
        if not count:
            raise InvalidInput("expected a count with a finite bound, got a curve without one")
        return bottleneck(self.values, family=self.family, count=count)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleaseCurves(_Bounds):
    """The curves of many groups of one size; ``curves[i]`` is the :class:`ReleaseCurve` of group i."""

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, group: int) -> ReleaseCurve:
        return ReleaseCurve(
            releases=self.releases,
            kappa=self.kappa,
            family=self.family,
            accountant=self.accountant,
            values=self.values[group],
            positions=self.positions[group],
            signal=self.signal.of_group(group),
        )

    @property
    def status(self) -> NDArray[np.uint8]:
        """The :class:`CurveStatus` codes."""
        return self.signal.status

    @property
    def best(self) -> IndexArray:
        """For each group the count with the smallest bound, 0 where no bound is finite."""
        reachable = np.where(np.isfinite(self.crb), self.crb, np.inf)
        best = self.releases[np.argmin(reachable, axis=1)]
        return np.where(np.isfinite(reachable).any(axis=1), best, 0)

    @property
    def first_identifiable(self) -> IndexArray:
        """For each group the first count at which it is identifiable, 0 where there is none."""
        identifiable = self.signal.identifiable
        first = self.releases[np.argmax(identifiable, axis=1)]
        return np.where(identifiable.any(axis=1), first, 0)


def release_curve(
    values: ArrayLike,
    *,
    family: Family,
    accountant: Accountant,
    releases: Counts = range(1, 41),
    progress: Progress | None = None,
) -> ReleaseCurve:
    r"""The curve of one group of values, :math:`\mathrm{CRB}(L)` for every L in ``releases``.

    Counts below the number of values have an infinite bound. ``progress(stage, share)`` is called during
    the computation.

    >>> from sightline import BasicComposition, Budget, Moments
    >>> basic = BasicComposition(Budget(epsilon=1.0, delta=1e-5))
    >>> curve = release_curve([0.7, -0.4], family=Moments(convention="uniform"), accountant=basic)
    >>> curve.crb[:3].round(6).tolist(), curve.best, curve.first_identifiable
    ([inf, 378.012526, 699.566543], 2, 2)
    """
    group = frozen_floats(values, name="values", ndim=1)
    curves = release_curves(
        group[None, :], family=family, accountant=accountant, releases=releases, progress=progress
    )
    return curves[0]


def release_curves(
    groups: ArrayLike,
    *,
    family: Family,
    accountant: Accountant,
    releases: Counts = range(1, 41),
    progress: Progress | None = None,
) -> ReleaseCurves:
    """The curves of many groups of one size, a row of ``groups`` each, computed together.

    >>> from sightline import Budget, Moments, ZeroConcentrated
    >>> zcdp = ZeroConcentrated(Budget(epsilon=1.0, delta=1e-5))
    >>> pairs = [[-0.4, 0.7], [0.95, 0.2], [-1.0, 1.0]]
    >>> release_curves(pairs, family=Moments(), accountant=zcdp, releases=range(2, 21)).best.tolist()
    [2, 4, 20]
    """
    given = frozen_floats(groups, name="groups", ndim=2)
    require(given.size > 0, "at least one value in a group", got=f"shape {given.shape}")
    counts = checked_counts(releases, family=family)
    require(
        isinstance(accountant, Accountant),
        "an accountant",
        got=type(accountant).__name__,
        fix="for example BasicComposition(Budget(epsilon=1.0, delta=1e-5))",
    )
    family.check(given)
    positions = np.argsort(given, axis=1, kind="stable")
    values = _locked(np.take_along_axis(given, positions, axis=1))
    positions.setflags(write=False)
    with reporting(progress):
        signal = signals(values, family=family, counts=counts)
    return ReleaseCurves(
        releases=counts,
        kappa=_locked(unit_noise(accountant, counts)),
        family=family,
        accountant=accountant,
        values=values,
        positions=positions,
        signal=signal,
    )


def _locked(array: FloatArray) -> FloatArray:
    array.setflags(write=False)
    return array


# Relative to the largest value: the gap of closer values has at most nine correct digits.
NEAR = 1e-7


@dataclass(frozen=True, slots=True, kw_only=True)
class Collision:
    """Values of a group that coincide, or nearly do; by position in the group as it was given."""

    positions: tuple[int, ...]
    exact: bool

    def __str__(self) -> str:
        places = ", ".join(str(position) for position in self.positions)
        return f"values at positions {places} are {'equal' if self.exact else 'nearly equal'}"


def collisions(values: ArrayLike) -> tuple[Collision, ...]:
    r"""The runs of equal values, and the runs of nearly equal ones, of one group.

    *Nearly*: a gap of at most :math:`10^{-7}` of the group's largest absolute value. The bound grows as
    :math:`\gamma^{-2}` there, and the gap itself has few correct digits.

    >>> [str(collision) for collision in collisions([0.5, -0.2, 0.5])]
    ['values at positions 0, 2 are equal']
    >>> collisions([0.5, -0.2, 0.6])
    ()
    """
    group = frozen_floats(values, name="values", ndim=1)
    order = np.argsort(group, kind="stable")
    gaps = np.diff(group[order])
    limit = NEAR * float(np.max(np.abs(group), initial=0.0))
    collided = []
    for exact, close in ((True, gaps == 0), (False, gaps <= limit)):
        if exact or not np.array_equal(close, gaps == 0):
            runs = np.split(order, np.flatnonzero(~close) + 1)
            collided += [
                Collision(positions=tuple(sorted(int(k) for k in run)), exact=exact)
                for run in runs
                if len(run) > 1 and (exact or np.ptp(group[run]) > 0)
            ]
    return tuple(collided)


def chart_radius(values: ArrayLike) -> float:
    r"""Half the smallest gap: if no value moves by more, the order cannot change and the chart is valid.

    If the bound on the error of a value is larger, noise can exchange neighbouring values. The bound then
    describes the geometry at the point, not the error of an attack.

    >>> chart_radius([0.5, -0.25, 0.75])
    0.125
    """
    group = np.sort(frozen_floats(values, name="values", ndim=1))
    return float(np.min(np.diff(group), initial=np.inf)) / 2


def matching_loss(estimate: ArrayLike, values: ArrayLike) -> FloatArray:
    r"""The loss of an unlabelled attack, :math:`\min_\pi \|\hat x - \pi(x)\|^2`, over the last axis.

    For scalar values the best permutation sorts both sides, for every estimate (the rearrangement
    inequality), so this is :math:`\|\hat x^\uparrow - x^\uparrow\|^2`.

    >>> float(matching_loss([1.0, 0.0], [0.0, 2.0]))
    1.0
    """
    a, b = (frozen_floats(side, name="values") for side in (estimate, values))
    require(
        a.ndim > 0 and b.ndim > 0 and a.shape[-1] == b.shape[-1],
        "an estimate for every value",
        got=f"shapes {a.shape} and {b.shape}",
    )
    loss: FloatArray = np.sum((np.sort(a, axis=-1) - np.sort(b, axis=-1)) ** 2, axis=-1)
    return loss
