r"""Hybrid transcripts: symmetric releases fix the values of a group, a few subset means fix whose they are.

The paper leaves their best allocation open (end of Section IV). A split of L releases has :math:`L_f`
symmetric ones and :math:`L - L_f` subset means; all are paid with the same :math:`\kappa_L`. For a publisher
:math:`L_f = L` is the safest: symmetric releases alone never show whose a value is. For an attacker some
split is the most damaging. ``docs/theory/multiset.md`` has the statements and proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightline.arrays import FloatArray, IndexArray, Members, frozen_floats, frozen_index
from sightline.errors import InvalidRelease, require
from sightline.geometry.transcript import Transcript
from sightline.labeled.bounds.scalar_risk import two_point_risk
from sightline.multiset.family import Family, checked_counts, in_domain
from sightline.multiset.thresholds import step_overlap
from sightline.noise.pricing import unit_noise
from sightline.privacy.accountant import Accountant, NoiseLaw
from sightline.releases.linear import SubsetMean
from sightline.releases.query import positive_number, whole_number

# Nodes of the integrals over an offset. They are doubled until the means change by less than this share; the
# last change is added to the information, so that the bound errs downwards.
_FEWEST_NODES, _MOST_NODES, _CONVERGED = 10, 320, 1e-9
_GAP_NODES = 32  # of the integral over a difference of two offsets
_GAP_ERROR = 1e-6  # more than its error, as a share of the risk without answers; it is deducted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Memberships:
    r"""Means over subsets of a group: the releases take the ``sets`` in turn, from the first again when all
    were used.

    Values lie within ``±bound``, so a mean of :math:`|C|` values has the sensitivity :math:`2R/|C|`, and its
    gradient over the sensitivity is :math:`1/2R` for members, whatever the size of the subset.

    >>> pairs = Memberships(sets=[(0, 1), (1, 2)])
    >>> pairs.counts(3).tolist(), pairs.rows(3).tolist()
    ([2, 1], [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    """

    sets: tuple[IndexArray, ...]
    bound: float = 1.0

    if TYPE_CHECKING:  # the constructor accepts wider types than the fields have

        def __init__(self, *, sets: Sequence[Members], bound: float = 1.0) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", positive_number(self.bound, name="bound"))
        sets = tuple(frozen_index(members, error=InvalidRelease) for members in self.sets)
        require(len(sets) > 0, "at least one subset", got=0, error=InvalidRelease)
        object.__setattr__(self, "sets", sets)

    @classmethod
    def with_and_without(cls, *, members: int, target: int, bound: float = 1.0) -> Memberships:
        """The mean of all but the target (OUT) and the mean of all (IN), in turn.

        A group of one has only the mean of all.

        >>> [members.tolist() for members in Memberships.with_and_without(members=3, target=1).sets]
        [[0, 2], [0, 1, 2]]
        """
        everyone = range(whole_number(members, name="members"))
        _require_record(target, len(everyone), "a target")
        others = [member for member in everyone if member != target]
        return cls(sets=[others, everyone] if others else [everyone], bound=bound)

    def counts(self, releases: int) -> IndexArray:
        """How often each subset is among the first ``releases``."""
        rounds, rest = divmod(releases, len(self.sets))
        return rounds + (np.arange(len(self.sets)) < rest)

    def rows(self, members: int) -> FloatArray:
        """The gradients over the sensitivities, a row for each subset of a group of ``members``."""
        largest = max(int(subset[-1]) for subset in self.sets)
        require(
            largest < members,
            f"subsets of the {members} records of the group",
            got=f"record {largest}",
            error=InvalidRelease,
        )
        rows = np.zeros((len(self.sets), members))
        for row, subset in zip(rows, self.sets, strict=True):
            row[subset] = 0.5 / self.bound
        return rows

    def queries(self, releases: int) -> list[SubsetMean]:
        """The first ``releases`` means as queries."""
        means = [SubsetMean(members=subset, radius=2.0 * self.bound) for subset in self.sets]
        return [means[number % len(means)] for number in range(releases)]


@dataclass(frozen=True, kw_only=True, eq=False)
class HybridSplits:
    """A target's risk under every split of L releases. Owner-only: everything depends on the values.

    ``features`` are the numbers of symmetric releases, from 0; ``local`` is the Cramér–Rao bound of the
    target's value near the truth and at its own label, ``lower`` a bound for every attack under a prior.
    """

    group: FloatArray = field(repr=False)
    target: int
    family: Family = field(repr=False)
    memberships: Memberships = field(repr=False)
    accountant: Accountant
    releases: int

    @property
    def kappa(self) -> float:
        """The noise variance of every release over its squared sensitivity."""
        return float(unit_noise(self.accountant, self.releases))

    @property
    def features(self) -> IndexArray:
        """The number of symmetric releases of each split; the others are subset means."""
        largest = self.family.largest
        return np.arange(1 + (self.releases if largest is None else min(self.releases, largest)))

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
    def labels_open(self) -> NDArray[np.bool_]:
        """For each split, whether no subset of it tells the target from some record with another value."""
        m, j = self.group.size, self.target
        inside = self.memberships.rows(m) > 0
        tells = (inside != inside[:, [j]])[:, self.group != self.group[j]]
        used = [self.memberships.counts(self.releases - features) > 0 for features in self.features]
        return np.array([not np.all(np.any(tells[subsets], axis=0)) for subsets in used])

    @property
    def best_local(self) -> int:
        """The symmetric releases of the split with the smallest local bound among those whose labels are not
        open; −1 where none is finite. At a fixed L it is the same at every budget.

        As noise vanishes it is the most damaging split, if no point with another value of the target has the
        same exact answers.
        """
        risk = np.where(np.isfinite(self.local) & ~self.labels_open, self.local, np.inf)
        return int(self.features[np.argmin(risk)]) if np.isfinite(risk).any() else -1

    @property
    def safest(self) -> int:
        """The symmetric releases of the split with the fewest subset means: the publisher's safest one.

        With no subset mean at all, nothing shows whose a value is.
        """
        return int(self.features[-1])

    def lower(self, partner: int, *, window: float = 1 / 8) -> FloatArray:
        r"""A lower bound on the mean squared error of every attack on the target, for each split.

        It is for one prior, the same for all splits: every value is its place plus an offset, independent,
        with the cos² density on :math:`[-w, w]`, w being ``window`` times the bound (places are the values,
        moved inwards to leave room for the offsets); and with probability ½ the values of the target and of
        its ``partner`` are exchanged. Help never raises the least risk, so it is the larger of

        - *values told*: two labelings are left, which no symmetric release tells apart. With the gap g and
          :math:`n` subset means that have only one of the two, they are :math:`D = g \sqrt n / 2R\sqrt\kappa`
          apart, and the least risk is that of a coin, :math:`g^2 f(D^2)`, averaged over the offsets;
        - *labels told*: van Trees, :math:`[(\mathbb E\,I(x) + \pi^2 w^{-2})^{-1}]_{jj}`, averaged over the
          two labelings.

        If the partner is the target itself, nothing is exchanged, and only the second is left.
        """
        m, j = self.group.size, self.target
        _require_record(partner, m, "a partner")
        require(0 < window <= 1, "a window up to 1, as a share of the bound", got=window)
        width = window * self.memberships.bound
        places = self.places(window)
        exchanged = np.arange(m)
        exchanged[[j, partner]] = partner, j
        values = np.array([self._values_bound(places, exchanged, int(f), width) for f in self.features])
        if partner == j:
            return values
        inside = self.memberships.rows(m) > 0
        apart = inside[:, j] != inside[:, partner]
        counts = [int(self.memberships.counts(self.releases - f)[apart].sum()) for f in self.features]
        slopes = np.sqrt(np.array(counts) / self.kappa) / (2 * self.memberships.bound)
        told: FloatArray = exchange_bound(abs(places[partner] - places[j]), slopes, width)
        return np.where(told > values, told, values)

    def places(self, window: float = 1 / 8) -> FloatArray:
        """The centres of the prior: the values, moved inwards where the window would leave the domain."""
        reach = (1 - window) * self.memberships.bound
        places: FloatArray = np.clip(self.group, -reach, reach)
        return places

    def _values_bound(self, places: FloatArray, exchanged: IndexArray, features: int, width: float) -> float:
        """The bound with labels told, the mean of the two labelings."""
        A = self.memberships.rows(places.size)
        counts = self.memberships.counts(self.releases - features)
        symmetric = _mean_information(places, self.family, features, width)
        subsets = (A.T * counts) @ A
        orders = (np.arange(places.size), exchanged)
        prior = (math.pi / width) ** 2
        return float(
            np.mean(
                [
                    _inverse_entry((symmetric[np.ix_(o, o)] + subsets) / self.kappa, self.target, prior)
                    for o in orders
                ]
            )
        )

    def transcript(self, features: int) -> Transcript:
        """The releases of one split, with their noise: for attacks and simulations."""
        require(features in self.features, f"a split from 0 to {self.safest}", got=features)
        queries = [
            *(self.family.queries_of(self.group.size, features) if features else ()),
            *self.memberships.queries(self.releases - features),
        ]
        return Transcript(queries, noise=self.accountant)

    def __str__(self) -> str:
        best = self.best_local
        head = f"{self.releases} releases, {len(self.features)} splits"
        if best < 0:
            return f"{head}: none shows the target's value, and whose it is"
        return (
            f"{head}\n  smallest local bound with labels that subsets tell apart: {self.local[best]:.4g}, by "
            f"{best} symmetric releases and {self.releases - best} subset means"
        )


def hybrid(
    group: ArrayLike,
    target: int,
    family: Family,
    memberships: Memberships,
    accountant: Accountant,
    releases: int,
) -> HybridSplits:
    r"""The target's risk under every split of ``releases`` into symmetric releases and subset means.

    ``group`` are the values of one group, in the order of its records; ``target`` is the position of the
    record under attack. The first :math:`L_f` releases of the ``family`` and the first :math:`L - L_f` of the
    ``memberships`` share the budget of ``accountant`` as L releases.

    >>> from sightline import Budget, Moments, ZeroConcentrated
    >>> zcdp = ZeroConcentrated(Budget(epsilon=100.0, delta=1e-5))
    >>> in_out = Memberships.with_and_without(members=2, target=1)
    >>> splits = hybrid([-0.6, 0.9], 1, Moments(), in_out, zcdp, 8)
    >>> splits.local.round(4).tolist()
    [0.1557, 0.1557, 0.0204, 0.0147, 0.007, 0.0056, 0.0034, 0.003, 0.0021]
    >>> splits.lower(partner=0)[[0, 4, 8]].round(4).tolist()
    [0.007, 0.0503, 0.5449]
    """
    values = frozen_floats(group, name="group", ndim=1)
    require(values.size > 0, "at least one value in a group", got=f"shape {values.shape}")
    require(isinstance(memberships, Memberships), "Memberships", got=type(memberships).__name__)
    _require_record(target, values.size, "a target")
    memberships.rows(values.size)  # refuses subsets with records outside the group
    checked_counts([1], family=family)  # refuses what is no family
    whole = isinstance(releases, int | np.integer)
    require(whole and releases >= 1, "releases >= 1, a whole number", got=releases)
    family.check(values[None])
    in_domain(values[None], memberships.bound)
    stated = {family.bound} if hasattr(family, "bound") else set()
    require(
        stated <= {memberships.bound},
        f"releases with the bound {memberships.bound:g} of the subset means",
        got=f"bounds {sorted(stated)}",
        error=InvalidRelease,
    )
    require(
        isinstance(accountant, Accountant) and accountant.law is NoiseLaw.GAUSSIAN,
        "an accountant of Gaussian noise",
        got=type(accountant).__name__,
        fix="for example ZeroConcentrated(Budget(epsilon=1.0, delta=1e-5))",
    )
    return HybridSplits(
        group=values,
        target=int(target),
        family=family,
        memberships=memberships,
        accountant=accountant,
        releases=int(releases),
    )


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
    nodes = _FEWEST_NODES
    first, second = _row_means(places, family, features, width, nodes)
    while True:
        nodes *= 2
        rough_first, rough = first, second
        first, second = _row_means(places, family, features, width, nodes)
        error = np.abs(second - rough) + places.size * np.abs(first**2 - rough_first**2)
        if nodes >= _MOST_NODES or np.all(error <= _CONVERGED * np.max(second, axis=0)):
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


def _require_record(record: int, members: int, what: str) -> None:
    """Raise unless the number is a position in the group."""
    whole = isinstance(record, int | np.integer) and not isinstance(record, bool)
    require(
        whole and 0 <= record < members,
        f"{what} in the group, from 0 to {members - 1}",
        got=record if whole else type(record).__name__,
    )
