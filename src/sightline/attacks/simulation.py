"""The result of a simulation: an attack's risk with its interval, beside the bounds and the trivial risk."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sightline.arrays import FloatArray
from sightline.attacks.estimates import AttackStatus
from sightline.display import Displayed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulation(Displayed):
    r"""Mean squared error of an attack over independent trials, summed over its targets.

    For an unlabelled group it is the matching loss, :math:`\min_\pi\|\hat x - \pi(x)\|^2`. If some release is
    nonlinear, both losses are given: ``matching_mse``, and ``labeled_mse``, the squared error of each target
    under its own name. Where the answers do not show whose a value is, its labels are drawn at random.

    ``interval`` is a confidence interval for ``mse`` by the central limit theorem; ``bias`` is the mean error
    of each target and ``coverage`` the share of trials in which the attack's own interval contained it
    (``None`` if it gives none). ``crb`` holds for locally unbiased attacks only: a constrained or Bayesian
    attack may be below it.
    ``bayes_lower`` and ``bayes_upper`` bracket the least mean risk of any attack if records are drawn from a
    prior and the releases are linear. ``trivial_mse`` is the risk of an attack that ignores the answers.

    Everything here depends on the records: it is for their owner only.
    """

    attack: str
    trials: int
    seed: int
    confidence: float
    targets: tuple[int, ...]
    unlabeled: bool
    mse: float
    standard_error: float
    interval: tuple[float, float]
    bias: FloatArray
    bias_standard_errors: FloatArray
    coverage: FloatArray | None
    crb: float  # infinite if the targets are not identifiable, NaN if undecided or if it varies by trial
    bayes_lower: float  # NaN where there is no bracket
    bayes_upper: float
    trivial_mse: float
    matching_mse: float | None  # None if every release is linear, and for vectors
    labeled_mse: FloatArray | None  # in the order of the targets
    statuses: Mapping[AttackStatus, int]
    certified: int | None  # trials whose optimum is proved to be global; None if the attack proves nothing

    @property
    def rmse(self) -> float:
        """Square root of ``mse``."""
        return math.sqrt(self.mse)

    @property
    def ratio_to_crb(self) -> float:
        """``mse`` over ``crb``: about 1 for an efficient attack, below it for one that uses the box."""
        return self.mse / self.crb

    @property
    def ratio_to_trivial(self) -> float:
        """``mse`` over ``trivial_mse``: 1 means that the attack learned nothing."""
        return self.mse / self.trivial_mse if self.trivial_mse > 0 else math.inf

    @property
    def ratio_to_bayes(self) -> tuple[float, float]:
        """``mse`` over each end of the Bayes bracket."""
        lower = self.mse / self.bayes_lower if self.bayes_lower != 0 else math.inf
        return lower, self.mse / self.bayes_upper

    def __str__(self) -> str:
        low, high = self.interval
        lines = [
            f"{self.attack}: mse {self.mse:.6g}, {self.confidence:.0%} interval [{low:.6g}, {high:.6g}] "
            f"from {self.trials} trials"
        ]
        if math.isfinite(self.crb):
            lines.append(
                f"  Cramér–Rao bound {self.crb:.6g} (unbiased attacks): ratio {self.ratio_to_crb:.4g}"
            )
        if self.labeled_mse is not None:
            lines.append(
                f"  labeled loss {self.labeled_mse.sum():.6g}, matching loss {self.matching_mse:.6g}, which "
                "does not count whose a value is"
            )
        if math.isfinite(self.bayes_upper):
            lines.append(f"  Bayes bracket [{self.bayes_lower:.6g}, {self.bayes_upper:.6g}] (any attack)")
        lines.append(f"  ignoring the answers {self.trivial_mse:.6g}: ratio {self.ratio_to_trivial:.4g}")
        if self.coverage is not None:
            lines.append(f"  own intervals hold in {self.coverage.min():.2%} of trials or more")
        odd = {status: count for status, count in self.statuses.items() if status is not AttackStatus.SOLVED}
        lines += [f"  {count} trials: {status}" for status, count in odd.items()]
        return "\n".join(lines)
