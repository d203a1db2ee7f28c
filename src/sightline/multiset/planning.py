r"""Planning for a publisher: which release counts suit an attacker, and which keep a promise.

The publisher gives one group of values, or a sample of plausible groups. Every number is for the worst
group of the sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, assert_never, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightline.arrays import FloatArray, IndexArray, frozen_floats
from sightline.errors import require
from sightline.multiset.curve import ReleaseCurves, release_curves
from sightline.multiset.family import Counts, Family
from sightline.multiset.signal import single_values
from sightline.privacy.accountant import Accountant, Budget
from sightline.progress import Progress

Knowledge = Literal["nothing", "the others"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReleasePlan:
    """The bounds on an attacker at each release count, for the worst group. Owner-only.

    ``crb`` is the smallest total bound over the groups, ``value_rmse`` the smallest bound on the error of any
    single value of any group (see :func:`plan_releases`). A ``tolerance`` t stands for the promise "no value
    is known better than ± t": the bound on the standard error of every value is at least t.
    """

    releases: IndexArray
    crb: FloatArray
    value_rmse: FloatArray
    undecided: NDArray[np.bool_]  # counts at which the bound of some group has no reliable digit

    @property
    def attackers_choice(self) -> int | None:
        """The count with the smallest bound, or ``None`` if no bound is finite."""
        return int(self.releases[np.argmin(self.crb)]) if np.isfinite(self.crb).any() else None

    def avoid(self, *, margin: float = 2.0) -> tuple[int, ...]:
        """The counts whose bound is at most ``margin`` times the smallest, and the undecided ones."""
        require(1 <= margin < np.inf, "a margin >= 1", got=margin)
        lowest = float(np.min(self.crb))
        near = self.crb <= margin * lowest if np.isfinite(lowest) else np.zeros(len(self.crb), bool)
        return tuple(int(count) for count in self.releases[near | self.undecided])

    def safe(self, *, tolerance: float) -> tuple[int, ...]:
        """All counts that keep the promise."""
        return tuple(int(count) for count in self.releases[self._keeps(tolerance)])

    def largest_safe(self, *, tolerance: float) -> int | None:
        """The largest count that keeps the promise. Smaller counts may break it: the curve can fall."""
        return max(self.safe(tolerance=tolerance), default=None)

    def safe_up_to(self, *, tolerance: float) -> int | None:
        """The largest count that keeps the promise together with all smaller ones in ``releases``.

        Releases come one by one, so this is the count at which to stop.
        """
        keeps = self._keeps(tolerance)
        run = len(keeps) if keeps.all() else int(np.argmin(keeps))
        return int(self.releases[run - 1]) if run else None

    def _keeps(self, tolerance: float) -> NDArray[np.bool_]:
        _require_tolerance(tolerance)
        return self.value_rmse >= tolerance


def plan_releases(
    groups: ArrayLike,
    *,
    family: Family,
    accountant: Accountant,
    releases: Counts = range(1, 41),
    attacker_knows: Knowledge = "nothing",
    progress: Progress | None = None,
) -> ReleasePlan:
    r"""The plan for one group of values ``(m,)`` or for a sample of plausible groups ``(B, m)``.

    ``attacker_knows`` selects the bound on the standard error of value k:

    - ``"nothing"``: :math:`\sqrt{\kappa_L (A_L^{-1})_{kk}}`, the paper's bound, lowered by its estimated
      rounding error. It is large for close values, although an attacker may know well where they are
      together. The other bound replaces it where values are equal or no digit is reliable;
    - ``"the others"``: :math:`\sqrt{\kappa_L/(A_L)_{kk}}`. The attacker knows all values but one. This bound
      is never larger.

    >>> from sightline import BasicComposition, Budget, Moments
    >>> basic = BasicComposition(Budget(epsilon=1.0, delta=1e-5))
    >>> plan = plan_releases([0.53, 0.96], family=Moments(), accountant=basic)
    >>> plan.attackers_choice, plan.avoid(margin=2.0)
    (4, (4, 5, 6, 7, 8, 9))
    >>> plan.largest_safe(tolerance=25.0), plan.safe_up_to(tolerance=25.0)
    (2, 2)
    """
    _require_knowledge(attacker_knows)
    sample = np.atleast_2d(frozen_floats(groups, name="values"))
    curves = release_curves(
        sample, family=family, accountant=accountant, releases=releases, progress=progress
    )
    return _plan(curves, _smallest_value_bound(curves, attacker_knows))


def largest_epsilon(
    groups: ArrayLike,
    *,
    family: Family,
    accountant: Accountant,
    releases: int,
    tolerance: float,
    attacker_knows: Knowledge = "nothing",
) -> float:
    r"""The largest epsilon at which ``releases`` releases keep the promise of :class:`ReleasePlan`.

    The accountant gives the rule and the delta; its own epsilon is not used. The search returns an epsilon
    that it has evaluated and that keeps the promise.

    >>> from sightline import BasicComposition, Moments
    >>> basic = BasicComposition(Budget(epsilon=1.0, delta=1e-5))
    >>> limit = largest_epsilon([0.53, 0.96], family=Moments(), accountant=basic, releases=4, tolerance=10.0)
    >>> round(limit, 6)
    0.883173
    """
    _require_tolerance(tolerance)
    _require_knowledge(attacker_knows)
    sample = np.atleast_2d(frozen_floats(groups, name="values"))
    curves = release_curves(sample, family=family, accountant=accountant, releases=[releases])
    smallest = _smallest_value_bound(curves, attacker_knows)

    def keeps(epsilon: float) -> bool:
        plan = _plan(curves.under(at_epsilon(accountant, epsilon)), smallest)
        return plan.largest_safe(tolerance=tolerance) is not None

    low = 1.0
    while not keeps(low):
        low /= 2
        require(
            low > 1e-12, "a promise that some epsilon above 1e-12 keeps", got=f"a tolerance of {tolerance}"
        )
    high = low
    while keeps(high):
        low, high = high, 2 * high
        require(high < 1e12, "a promise that some epsilon breaks", got=f"a tolerance of {tolerance}")
    while high - low > 1e-9 * low:
        middle = (low + high) / 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def at_epsilon(accountant: Accountant, epsilon: float) -> Accountant:
    """The same rule and delta with another epsilon."""
    budget = Budget(epsilon=epsilon, delta=accountant.budget.delta)
    return replace(accountant, budget=budget)  # type: ignore[type-var]  # accountants are frozen dataclasses


def _require_knowledge(attacker_knows: Knowledge) -> None:
    choices = get_args(Knowledge)
    require(attacker_knows in choices, f"attacker_knows to be one of {choices}", got=repr(attacker_knows))


def _require_tolerance(tolerance: float) -> None:
    require(0 < tolerance < np.inf, "a tolerance > 0", got=tolerance)


def _plan(curves: ReleaseCurves, smallest: FloatArray) -> ReleasePlan:
    reachable = np.where(np.isnan(curves.crb), np.inf, curves.crb)
    return ReleasePlan(
        releases=curves.releases,
        crb=reachable.min(axis=0),
        value_rmse=np.sqrt(curves.kappa * smallest),
        undecided=np.asarray(np.isnan(curves.crb).any(axis=0)),
    )


def _smallest_value_bound(curves: ReleaseCurves, attacker_knows: Knowledge) -> FloatArray:
    """The smallest bound over all values of all groups, for each count, at κ = 1."""
    signal = curves.signal
    informative = signal.diagonal > 0
    alone = np.divide(1.0, signal.diagonal, out=np.full(signal.diagonal.shape, np.inf), where=informative)
    match attacker_knows:
        case "the others":
            bounds = alone
        case "nothing":
            bounds = single_values(curves.values, family=curves.family, counts=curves.releases, signal=signal)
            # Lower each bound by its estimated rounding error, but not below 1/A_kk: (A⁻¹)_kk >= 1/A_kk.
            # A bound without a reliable digit is NaN, and fmax then takes 1/A_kk.
            bounds *= (1 - np.where(np.isfinite(signal.trace), signal.relative_error, 0.0))[..., None]
            bounds = np.fmax(bounds, alone)
        case _:
            assert_never(attacker_knows)
    smallest: FloatArray = bounds.min(axis=(0, 2))
    return smallest
