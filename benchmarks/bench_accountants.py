"""The noise of every accountant over the exact optimum at the same epsilon and delta.

The optimum is the least standard deviation of one, ten and a hundred equal releases that keep (ε, δ): that of
exact Gaussian composition, checked here against the privacy-loss distribution of dp_accounting. Wanted: the
default of a plan at most 1.01, and none below 1. The last column is the ε of that noise by dp_accounting.

Then the same for Laplace noise, whose optimum is searched for with dp_accounting.
"""

from __future__ import annotations

import math

from dp_accounting.pld import privacy_loss_distribution as pld

from sightline.auditing.plan_sections import Privacy
from sightline.privacy.accountant import Budget, NoiseLaw
from sightline.privacy.registry import accountants


def main() -> None:
    default = Privacy().accountant
    print(f"default accountant: {default}")
    for epsilon in (0.1, 1.0, 4.0, 10.0):
        for releases in (1, 10, 100):
            rules = accountants(Budget(epsilon=epsilon, delta=1e-6))
            best = math.sqrt(rules["gaussian-dp"].kappa(releases))
            ratios = {
                name: math.sqrt(rule.kappa(releases)) / best
                for name, rule in rules.items()
                if rule.law is NoiseLaw.GAUSSIAN and not rule.counts_own_releases
            }
            scale = best / math.sqrt(releases)  # one release that tells as much
            spent = pld.from_gaussian_mechanism(scale, value_discretization_interval=1e-3 * epsilon)
            shown = ", ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items())
            print(
                f"ε = {epsilon:g}, {releases:3d} releases: {shown}; {default} spends "
                f"{spent.get_epsilon_for_delta(1e-6):.4f}",
                flush=True,
            )
    for epsilon in (0.1, 1.0, 4.0, 10.0):
        for releases in (1, 10, 30, 100):
            rules = accountants(Budget(epsilon=epsilon, delta=1e-6))
            best = least_laplace_scale(epsilon, releases, math.sqrt(rules["optimal"].kappa(releases)))
            shown = ", ".join(
                f"{name} {math.sqrt(rules[name].kappa(releases)) / best:.3f}"
                for name in ("laplace", "optimal")
            )
            print(f"Laplace, ε = {epsilon:g}, {releases:3d} releases: {shown}", flush=True)


def least_laplace_scale(epsilon: float, releases: int, enough: float) -> float:
    """The least scale, over the sensitivity, that keeps (ε, 1e-6), by bisection to 1e-4."""
    low, high = enough / 1.3, enough
    while high / low > 1 + 1e-4:
        middle = math.sqrt(low * high)
        one = pld.from_laplace_mechanism(middle, value_discretization_interval=1e-3 / middle)
        kept = one.self_compose(releases).get_epsilon_for_delta(1e-6) <= epsilon
        low, high = (low, middle) if kept else (middle, high)
    return high


if __name__ == "__main__":
    main()
