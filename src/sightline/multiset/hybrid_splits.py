r"""Hybrid transcripts: symmetric releases fix the values of a group, a few subset means fix whose they are.

The paper leaves their best allocation open (end of Section IV). A split of L releases has :math:`L_f`
symmetric ones and :math:`L - L_f` subset means; all are paid with the same :math:`\kappa_L`. For a publisher
:math:`L_f = L` is the safest: symmetric releases alone never show whose a value is. For an attacker some
split is the most damaging. ``docs/theory/multiset.md`` has the statements and proofs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightline.arrays import FloatArray, IndexArray, frozen_floats
from sightline.errors import InvalidRelease, require
from sightline.geometry.transcript import Transcript
from sightline.multiset.competitors import SplitGeometry, split_features, split_geometry
from sightline.multiset.counts import checked_counts
from sightline.multiset.family import Family, in_domain
from sightline.multiset.label_risk import label_lower, places_of, value_lower
from sightline.multiset.memberships import Memberships, require_target
from sightline.multiset.mixture import Mixture
from sightline.multiset.moment_family import Moments
from sightline.multiset.threshold_family import Thresholds
from sightline.noise.pricing import unit_noise
from sightline.privacy.accountant import Accountant, NoiseLaw
from sightline.progress import Progress, silent

Number = TypeVar("Number", bound=np.generic)


class HybridRegime(IntEnum):
    """Why the most damaging split is where it is."""

    LABELS_FREE = 0
    LABELS_DEAR = 1
    VALUES_DEAR = 2
    LABELS_OPEN = 3
    NOTHING_SEEN = 4

    def __str__(self) -> str:
        return _MEANING[self]


_MEANING = {
    HybridRegime.LABELS_FREE: "labels are free: the split that is best for the values resolves them as well",
    HybridRegime.LABELS_DEAR: "labels are dear: they ask for more subset means than the values do",
    HybridRegime.VALUES_DEAR: "values are dear: subset means with at most one symmetric release are best",
    HybridRegime.LABELS_OPEN: "labels stay open: no subset tells the target from a record with another value",
    HybridRegime.NOTHING_SEEN: "no split identifies the target's value",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class HybridSplits:
    r"""A target's risk under every split of L releases. Owner-only: everything depends on the values.

    Arrays have one entry for each split, after an axis of groups if there were several.

    - ``local``: the Cramér–Rao bound of the target's value near the truth, labels included. Infinite where it
      is not identifiable, NaN where the rows are too ill-conditioned for any digit.
    - ``separation``: the distance of the nearest competitor, in noise standard deviations, linearised. With
      zero the labels are open; far above 4 they are resolved. Infinite where no competitor exists.
    - ``approximation``: of the risk of the joint maximum likelihood attack in the box. It is no bound.
    - ``lower``: no attack has a smaller mean squared error, under a prior around the group.
    """

    releases: int
    target: int
    kappa: float
    family: Family = field(repr=False)
    memberships: Memberships = field(repr=False)
    accountant: Accountant
    groups: FloatArray = field(repr=False)  # (B, m)
    geometry: SplitGeometry = field(repr=False)
    one_group: bool = field(repr=False)

    @property
    def features(self) -> IndexArray:
        """The number of symmetric releases of each split; the others are subset means."""
        return split_features(self.family, self.releases)

    @property
    def local(self) -> FloatArray:
        """The target's Cramér–Rao bound, at its label and near its value."""
        return self._shaped(self.kappa * self.geometry.local)

    @property
    def relative_error(self) -> FloatArray:
        """Estimated relative error of ``local`` by rounding."""
        return self._shaped(self.geometry.relative_error)

    @property
    def status(self) -> NDArray[np.uint8]:
        """The :class:`CurveStatus` codes of ``local``."""
        return self._shaped(self.geometry.status)

    @cached_property
    def separation(self) -> FloatArray:
        """The linearised distance of the nearest competitor from the truth, in standard deviations."""
        return self._shaped(np.sqrt(np.min(self.geometry.squared_distance, axis=0) / self.kappa))

    @cached_property
    def approximation(self) -> FloatArray:
        r"""Of the risk of the joint maximum likelihood attack, which errs about the truth or a competitor.

        :math:`Q(d_c/2)` is the probability that a competitor at the distance :math:`d_c` beats the truth.
        With several, their odds :math:`o_c = Q/(1 - Q)` give :math:`P_c = o_c / (1 + \sum o)`: :math:`1/m`
        each if nothing tells m values apart. About each point the estimate is Gaussian with the local bound
        as its variance, cut off at the ends of the domain. No bound: it may be too small or too large.
        """
        from scipy.special import ndtr

        geometry, bound = self.geometry, self.memberships.bound
        truth = self.groups[:, [self.target]]
        odds = ndtr(-np.sqrt(geometry.squared_distance / self.kappa) / 2)
        odds /= 1 - odds
        chosen = odds / (1 + np.sum(odds, axis=0))
        risk = clipped_risk(self.kappa * geometry.local, truth, truth, bound=bound)
        missing = ~np.isfinite(risk)
        risk = (1 - np.sum(chosen, axis=0)) * np.where(missing, 0.0, risk)
        for share, value, variance in zip(chosen, geometry.values, geometry.variance, strict=True):
            about = clipped_risk(self.kappa * variance, value[:, None], truth, bound=bound)
            risk += share * np.where(np.isfinite(about), about, 0.0)
        return self._shaped(np.where(missing, self.kappa * geometry.local, risk))

    @property
    def lower(self) -> FloatArray:
        """The lower bound with the default window, an eighth of the bound."""
        return self._default_lower[0]

    @property
    def partner(self) -> IndexArray:
        """For each split the record whose exchange with the target gives ``lower``; the target itself if none
        gives more than its own value does."""
        return self._default_lower[1]

    @cached_property
    def _default_lower(self) -> tuple[FloatArray, IndexArray]:
        return self._lower_of_partners(self.memberships.bound / 8)

    def lower_bound(self, window: float) -> FloatArray:
        """A lower bound for every attack under a prior around the group.

        The prior: values are within ``window`` of their places (cos² density), places are the group's values,
        moved inwards to leave room for the window; and the target's value is exchanged with that of a partner
        with probability one half. The bound is for the mean squared error under this prior. It is the largest
        over the partners, and for each the larger of the bound with values told and the bound with labels
        told.
        """
        require(
            0 < window <= self.memberships.bound,
            f"a window up to the bound {self.memberships.bound:g}",
            got=window,
        )
        return self._lower_of_partners(window)[0]

    def _lower_of_partners(self, window: float) -> tuple[FloatArray, IndexArray]:
        m, j, R = self.groups.shape[1], self.target, self.memberships.bound
        places = places_of(self.groups, bound=R, window=window)
        values = value_lower(
            places,
            j,
            family=self.family,
            memberships=self.memberships,
            features=self.features,
            releases=self.releases,
            kappa=self.kappa,
            window=window,
        )
        best, partner = values[j].copy(), np.full(values[j].shape, j)
        inside = self.memberships.rows(m) > 0
        for k in (k for k in range(m) if k != j):
            apart = inside[:, j] != inside[:, k]
            separating = np.array(
                [self.memberships.counts(self.releases - f)[apart].sum() for f in self.features]
            )
            label = label_lower(
                np.abs(places[:, k] - places[:, j]),
                separating=separating,
                bound=R,
                kappa=self.kappa,
                window=window,
            )
            lower = np.maximum(label, (values[j] + values[k]) / 2)
            better = lower > best
            best, partner = np.where(better, lower, best), np.where(better, k, partner)
        return self._shaped(best), self._shaped(partner)

    @property
    def best(self) -> IndexArray:
        """The symmetric releases of the most damaging split, by the approximation; of equals, the fewest.

        −1 where no split identifies the target.
        """
        return self._smallest(self.approximation)

    @property
    def best_local(self) -> IndexArray:
        """The same by the local bound, which does not depend on the budget; −1 where none is finite."""
        return self._smallest(self.local)

    @property
    def safest(self) -> int:
        """The symmetric releases of the split with the fewest subset means: the publisher's safest one.

        With no subset mean at all, nothing shows whose a value is.
        """
        return int(self.features[-1])

    @property
    def labels_open(self) -> NDArray[np.bool_]:
        """Whether no subset tells the target from some record with another value, in any split."""
        apart = self.memberships.separated(self.target, self.groups.shape[1])
        other = self.groups != self.groups[:, [self.target]]
        return self._shaped(np.any(other & ~apart, axis=1))

    @property
    def regime(self) -> NDArray[np.int8]:
        """The :class:`HybridRegime` of each group."""
        best, local = self.best, self.best_local
        regime = np.where(best < local, HybridRegime.LABELS_DEAR, HybridRegime.LABELS_FREE)
        regime = np.where(best <= 1, HybridRegime.VALUES_DEAR, regime)
        regime = np.where(self.labels_open, HybridRegime.LABELS_OPEN, regime)
        return np.asarray(np.where(best < 0, HybridRegime.NOTHING_SEEN, regime), dtype=np.int8)

    def under(self, accountant: Accountant) -> HybridSplits:
        """The same geometry under another accountant or budget."""
        kappa = _gaussian_noise(accountant, self.releases)
        return replace(self, accountant=accountant, kappa=kappa)

    def transcript(self, features: int) -> Transcript:
        """The releases of one split, with their noise: for attacks and simulations."""
        require(features in self.features, f"a split from 0 to {int(self.features[-1])}", got=features)
        m = self.groups.shape[1]
        queries = [
            *(self.family.queries_of(m, features) if features else ()),
            *self.memberships.queries(self.releases - features),
        ]
        return Transcript(queries, noise=self.accountant)

    def __str__(self) -> str:
        if not self.one_group:
            return f"{len(self.groups):,} groups, {self.releases} releases, {len(self.features)} splits"
        best = int(self.best)
        lines = [f"{self.releases} releases, {len(self.features)} splits: {HybridRegime(int(self.regime))}"]
        if best >= 0:
            lines.append(
                f"  most damaging: {best} symmetric releases and {self.releases - best} subset means"
            )
            lines.append(
                f"  risk about {self.approximation[best]:.4g}, for any attack at least {self.lower[best]:.4g}"
            )
            lines.append(
                f"  local bound {self.local[best]:.4g}, nearest competitor {self.separation[best]:.3g} noise "
                "deviations away"
            )
        return "\n".join(lines)

    def _smallest(self, risk: FloatArray) -> IndexArray:
        known = np.where(np.isfinite(risk), risk, np.inf)
        best = self.features[np.argmin(known, axis=-1)]
        return np.where(np.isfinite(known).any(axis=-1), best, -1)

    def _shaped(self, array: NDArray[Number]) -> NDArray[Number]:
        return np.asarray(array[0]) if self.one_group else array


def hybrid(  # many parameters: a transcript in six nouns, and progress
    group: ArrayLike,
    target: int,
    family: Family,
    memberships: Memberships,
    accountant: Accountant,
    releases: int,
    *,
    progress: Progress = silent,
) -> HybridSplits:
    r"""The target's risk under every split of ``releases`` into symmetric releases and subset means.

    ``group`` are the values of one group, in the order of its records, or rows of many groups of one size.
    ``target`` is the position of the record under attack. The first :math:`L_f` releases of the ``family``
    and the first :math:`L - L_f` of the ``memberships`` share the budget of ``accountant`` as L releases.

    >>> from sightline.multiset.moment_family import Moments
    >>> from sightline.privacy.budget import Budget
    >>> from sightline.privacy.zero_concentrated import ZeroConcentrated
    >>> zcdp = ZeroConcentrated(Budget(epsilon=100.0, delta=1e-5))
    >>> in_out = Memberships.with_and_without(members=2, target=1)
    >>> splits = hybrid([-0.6, 0.9], 1, Moments(), in_out, zcdp, 8)
    >>> splits.local.round(4).tolist()
    [0.1557, 0.1557, 0.0204, 0.0147, 0.007, 0.0056, 0.0034, 0.003, 0.0021]
    >>> int(splits.best_local), int(splits.best), str(HybridRegime(int(splits.regime)))
    (8, 3, 'labels are dear: they ask for more subset means than the values do')
    """
    given = frozen_floats(group, name="group")
    require(given.ndim in (1, 2) and given.size > 0, "a group or rows of groups", got=f"shape {given.shape}")
    require(isinstance(memberships, Memberships), "Memberships", got=type(memberships).__name__)
    groups = frozen_floats(np.atleast_2d(given), name="group")
    require_target(target, groups.shape[1])
    memberships.rows(groups.shape[1])  # refuses subsets with records outside the group
    checked_counts([1], family=family)  # refuses what is no family
    require(
        isinstance(releases, int | np.integer) and releases >= 1,
        "releases >= 1, a whole number",
        got=releases,
    )
    family.check(groups)
    in_domain(groups, memberships.bound)
    stated = _stated_bounds(family)
    require(
        stated <= {memberships.bound},
        f"releases with the bound {memberships.bound:g} of the subset means",
        got=f"bounds {sorted(stated)}",
        error=InvalidRelease,
    )
    return HybridSplits(
        releases=int(releases),
        target=int(target),
        kappa=_gaussian_noise(accountant, int(releases)),
        family=family,
        memberships=memberships,
        accountant=accountant,
        groups=groups,
        geometry=split_geometry(
            groups,
            int(target),
            family=family,
            memberships=memberships,
            releases=int(releases),
            progress=progress,
        ),
        one_group=given.ndim == 1,
    )


def clipped_risk(variance: FloatArray, centre: FloatArray, truth: FloatArray, *, bound: float) -> FloatArray:
    r"""The mean squared error of a Gaussian estimate that is cut off at the ends of the domain.

    With :math:`\alpha = (-R - c)/s`, :math:`\beta = (R - c)/s` and :math:`e = c - x` it is

    .. math:: (e^2 + s^2)(\Phi(\beta) - \Phi(\alpha)) + 2 e s(\varphi(\alpha) - \varphi(\beta))
              + s^2(\alpha\varphi(\alpha) - \beta\varphi(\beta))
              + (R + x)^2 \Phi(\alpha) + (R - x)^2 \Phi(-\beta) .

    An infinite variance stays infinite: the value is not identifiable.

    >>> half = np.full(2, 0.5)
    >>> clipped_risk(np.array([1e-4, 1e4]), half, half, bound=1.0).round(4).tolist()
    [0.0001, 1.2407]
    """
    from scipy.special import ndtr

    with np.errstate(invalid="ignore", over="ignore"):
        s, off = np.sqrt(variance), centre - truth
        low, high = (-bound - centre) / s, (bound - centre) / s
        at_low, at_high = (np.exp(-(end**2) / 2) / np.sqrt(2 * np.pi) for end in (low, high))
        risk = (off**2 + variance) * (ndtr(high) - ndtr(low)) + 2 * off * s * (at_low - at_high)
        risk += variance * (low * at_low - high * at_high)
        risk += (bound + truth) ** 2 * ndtr(low) + (bound - truth) ** 2 * ndtr(-high)
    return np.asarray(np.where(np.isinf(variance), np.inf, risk))


def _stated_bounds(family: Family) -> set[float]:
    """The bounds on the values that a family or its parts state."""
    if isinstance(family, Mixture):
        return set().union(*(_stated_bounds(part) for part in family.families))
    return {family.bound} if isinstance(family, Moments | Thresholds) else set()


def _gaussian_noise(accountant: Accountant, releases: int) -> float:
    require(
        isinstance(accountant, Accountant) and accountant.law is NoiseLaw.GAUSSIAN,
        "an accountant of Gaussian noise",
        got=type(accountant).__name__,
        fix="for example ZeroConcentrated(Budget(epsilon=1.0, delta=1e-5))",
    )
    return float(unit_noise(accountant, releases))
