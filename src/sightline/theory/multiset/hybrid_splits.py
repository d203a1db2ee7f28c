r"""Hybrid transcripts: symmetric releases fix the values of a group, a few subset means fix whose they are.

The paper leaves their best allocation open (end of Section IV). A split of L releases has :math:`L_f`
symmetric ones; the others are in turn the mean of all but the target (OUT) and the mean of all (IN). All are
paid with the same :math:`\kappa_L`. For a publisher
:math:`L_f = L` is the safest: symmetric releases alone never show whose a value is. For an attacker some
split is the most damaging. ``docs/theory/multiset.md`` has the statements and proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from sightline.arrays import ROUNDING, FloatArray, IndexArray, frozen_floats
from sightline.bounds.scalar_risk import two_point_risk
from sightline.errors import require
from sightline.noise.pricing import unit_noise
from sightline.privacy.accountant import Accountant
from sightline.theory.geometry.transcript import Transcript
from sightline.theory.multiset.family import Family
from sightline.theory.multiset.moments import Moments
from sightline.theory.multiset.thresholds import Thresholds, step_overlap
from sightline.theory.releases.linear import SubsetMean

WINDOW = 1 / 8  # of the prior of the lower bound, as a share of the values' bound
# Nodes of the integrals over an offset. They are doubled until the means change by no more than rounding; the
# last change is added to the information, so that the bound errs downwards.
_MOST_NODES = 320
_GAP_NODES = 32  # of the integral over a difference of two offsets, and the fewest over an offset
_GAP_ERROR = 1e-6  # more than its error, as a share of the risk without answers; it is deducted


@dataclass(frozen=True, kw_only=True, eq=False)
class HybridSplits:
    r"""A target's risk under every split of L releases. Owner-only: everything depends on the values.

    ``group`` are the values of one group, in the order of its records; ``target`` is the position of the
    record under attack. ``features`` are the numbers of symmetric releases, from 0; ``local`` is the
    Cramér–Rao bound of the target's value near the truth and at its own label, ``lower`` a bound for every
    attack under a prior. Values lie within ``±R``, so a mean of :math:`|C|` values has the sensitivity
    :math:`2R/|C|`, and its gradient over the sensitivity is :math:`1/2R` for members.

    >>> from sightline import Budget, ZeroConcentrated
    >>> zcdp = ZeroConcentrated(Budget(epsilon=100.0, delta=1e-5))
    >>> splits = HybridSplits(group=[-0.6, 0.9], target=1, family=Moments(), accountant=zcdp, releases=8)
    >>> splits.local.round(4).tolist()
    [0.1557, 0.1557, 0.0204, 0.0147, 0.007, 0.0056, 0.0034, 0.003, 0.0021]
    >>> splits.lower(partner=0)[[0, 4, 8]].round(4).tolist()
    [0.007, 0.0503, 0.5449]
    """

    group: FloatArray = field(repr=False)
    target: int
    family: Moments | Thresholds = field(repr=False)
    accountant: Accountant
    releases: int

    if TYPE_CHECKING:  # the constructor accepts wider types than the fields have

        def __init__(
            self,
            *,
            group: ArrayLike,
            target: int,
            family: Moments | Thresholds,
            accountant: Accountant,
            releases: int,
        ) -> None: ...

    def __post_init__(self) -> None:
        values = frozen_floats(self.group, name="group", ndim=1)
        object.__setattr__(self, "group", values)
        require(values.size > 1, "at least two values in a group", got=values.size)
        known = isinstance(self.family, Moments | Thresholds)
        require(known, "Moments or Thresholds", got=type(self.family).__name__)
        self.family.check(values[None])
        self._check_record(self.target, "a target")
        whole = isinstance(self.releases, int | np.integer)
        require(whole and self.releases >= 1, "releases >= 1, a whole number", got=self.releases)

    def _check_record(self, record: int, what: str) -> None:
        last = self.group.size - 1
        whole = isinstance(record, int | np.integer) and not isinstance(record, bool)
        require(whole and 0 <= record <= last, f"{what} in the group, from 0 to {last}", got=record)

    @property
    def kappa(self) -> float:
        """The noise variance of every release over its squared sensitivity."""
        return float(unit_noise(self.accountant, self.releases))

    @property
    def features(self) -> IndexArray:
        """The number of symmetric releases of each split; the others are subset means."""
        return np.arange(1 + int(min(self.releases, self.family.largest)))

    def means(self, features: int) -> tuple[FloatArray, IndexArray]:
        """The gradients of OUT and IN over their sensitivities, and how often a split has each."""
        rows = np.full((2, self.group.size), 0.5 / self.family.bound)
        rows[0, self.target] = 0.0
        left = self.releases - features
        return rows, np.array([-(-left // 2), left // 2])

    @cached_property
    def local(self) -> FloatArray:
        """The Cramér–Rao bound of the target's value near the truth, labels included, for each split.

        Infinite where it is not identifiable, NaN where the rows do not decide whether it is.
        """
        return np.array([self._local(int(features)) for features in self.features])

    def _local(self, features: int) -> float:
        transcript = self.transcript(features)
        if not any(self.target in query.members for query in transcript.queries):
            return math.inf
        return float(transcript.geometry(at=self.group).profile(target=self.target).crb)

    @property
    def best_local(self) -> int:
        """The symmetric releases of the split with the smallest local bound among those with a subset mean;
        −1 where none is finite. At a fixed L it is the same at every budget.

        Without a subset mean nothing shows whose a value is. As noise vanishes it is the most damaging split,
        if no point with another value of the target has the same exact answers.
        """
        risk = np.where(np.isfinite(self.local) & (self.features < self.releases), self.local, np.inf)
        return int(self.features[np.argmin(risk)]) if np.isfinite(risk).any() else -1

    def lower(self, partner: int) -> FloatArray:
        r"""A lower bound on the mean squared error of every attack on the target, for each split.

        It is for one prior, the same for all splits: every value is its place plus an offset, independent,
        with the cos² density on :math:`[-w, w]`, w being an eighth of the bound (places are the values, moved
        inwards to leave room for the offsets); and with probability ½ the values of the target and of its
        ``partner`` are exchanged. Help never raises the least risk, so it is the larger of

        - *values told*: two labelings are left, which no symmetric release tells apart. With the gap g and
          :math:`n` subset means that have only one of the two, they are :math:`D = g \sqrt n / 2R\sqrt\kappa`
          apart, and the least risk is that of a coin, :math:`g^2 f(D^2)`, averaged over the offsets;
        - *labels told*: van Trees, :math:`[(\mathbb E\,I(x) + \pi^2 w^{-2})^{-1}]_{jj}`, averaged over the
          two labelings.

        If the partner is the target itself, nothing is exchanged, and only the second is left.
        """
        self._check_record(partner, "a partner")
        width, places = WINDOW * self.family.bound, self.places
        values = np.array([self._values_bound(partner, int(f), width) for f in self.features])
        if partner == self.target:
            return values
        apart = np.array([self.means(int(f))[1][0] for f in self.features])
        slopes = np.sqrt(apart / self.kappa) / (2 * self.family.bound)
        left: FloatArray = exchange_bound(abs(places[partner] - places[self.target]), slopes, width)
        return np.where(left > values, left, values)

    @property
    def places(self) -> FloatArray:
        """The centres of the prior: the values, moved inwards where the window would leave the domain."""
        reach = (1 - WINDOW) * self.family.bound
        places: FloatArray = np.clip(self.group, -reach, reach)
        return places

    def _values_bound(self, partner: int, features: int, width: float) -> float:
        """The bound with labels told, the mean of the two labelings."""
        rows, counts = self.means(features)
        symmetric = _mean_information(self.places, self.family, features, width)
        subsets = (rows.T * counts) @ rows
        given, exchanged = np.tile(np.arange(self.group.size), (2, 1))
        exchanged[[self.target, partner]] = partner, self.target
        prior = (math.pi / width) ** 2
        bounds = [
            _inverse_entry((symmetric[np.ix_(o, o)] + subsets) / self.kappa, self.target, prior)
            for o in (given, exchanged)
        ]
        return float(np.mean(bounds))

    def transcript(self, features: int) -> Transcript:
        """The releases of one split, with their noise: for attacks and simulations."""
        require(features in self.features, f"a split from 0 to {self.features[-1]}", got=features)
        everyone = np.arange(self.group.size)
        out, both = (
            SubsetMean(members=members, radius=2.0 * self.family.bound)
            for members in (np.delete(everyone, self.target), everyone)
        )
        symmetric = self.family.queries_of(self.group.size, features) if features else []
        in_turn = [(out, both)[place % 2] for place in range(self.releases - features)]
        return Transcript([*symmetric, *in_turn], noise=self.accountant)


def exchange_bound(gap: float, slopes: FloatArray, width: float) -> FloatArray:
    """The bound with values told, for places ``gap`` apart and answers that move by ``slopes`` per gap."""
    u, weights = np.polynomial.legendre.leggauss(_GAP_NODES)
    offsets = 2 * width * u
    # The difference of two offsets has the autocorrelation of the cos² density, a kernel of the thresholds.
    weights = 2 * width * weights * step_overlap(offsets, bandwidth=width, kernel="compact")
    away = np.abs(gap + offsets)
    coins = two_point_risk(((slopes[:, None] * away) ** 2).ravel()).reshape(len(slopes), -1)
    risk: FloatArray = (coins * away**2) @ weights - _GAP_ERROR * (gap + 2 * width) ** 2 / 4
    return np.maximum(risk, 0.0)


def _mean_information(places: FloatArray, family: Family, features: int, width: float) -> FloatArray:
    """The mean information of the symmetric releases over the offsets at κ = 1, ``(m, m)``.

    Offsets are independent: off the diagonal it is a product of means. The estimated error of the quadrature
    is added to the diagonal, so that the bound errs downwards.
    """
    if not features:
        return np.zeros(2 * places.shape)
    nodes = _GAP_NODES
    first, second = _row_means(places, family, features, width, nodes)
    while True:
        nodes *= 2
        rough_first, rough = first, second
        first, second = _row_means(places, family, features, width, nodes)
        error = np.abs(second - rough) + places.size * np.abs(first**2 - rough_first**2)
        if nodes >= _MOST_NODES or np.all(error <= ROUNDING * np.max(second, axis=0)):
            break
    mean = first.T @ first
    np.fill_diagonal(mean, np.sum(second + error, axis=0))
    return mean


def _row_means(
    places: FloatArray, family: Family, features: int, width: float, nodes: int
) -> tuple[FloatArray, FloatArray]:
    """The means over the offsets of the rows' entries and of their squares, ``(features, m)`` each."""
    u, weights = np.polynomial.legendre.leggauss(nodes)
    weights = weights * np.cos(np.pi * u / 2) ** 2
    rows = family.rows(places + width * u[:, None], features)
    shares = weights / weights.sum()
    return np.tensordot(shares, rows, axes=1), np.tensordot(shares, rows**2, axes=1)


def _inverse_entry(information: FloatArray, target: int, prior: float) -> float:
    r"""The target's diagonal entry of the inverse of information plus prior, rounded down.

    Elimination changes M by :math:`O(m\epsilon)` of its diagonal. As M is at least the prior's precision J,
    the target's information changes by a share of at most :math:`m^2\epsilon \max_k M_{kk}/J`. Where that is
    no small share, the bound for an attacker who knows all others is left.
    """
    m = len(information)
    M = information + prior * np.eye(m)
    share = 8 * m**2 * 2.0**-53 * float(np.max(np.diagonal(M))) / prior
    alone = 1.0 / float(M[target, target])
    return max((1.0 - share) * float(np.linalg.inv(M)[target, target]), alone) if share < 0.5 else alone
