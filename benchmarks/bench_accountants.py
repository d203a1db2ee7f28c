"""The noise of every accountant over the exact optimum at the same epsilon and delta, for Gaussian noise.

The optimum is the least standard deviation of one, ten and a hundred equal releases that keep (ε, δ): that of
exact Gaussian composition, checked here against the privacy-loss distribution of dp_accounting. Wanted: the
default of a plan at most 1.01, and none below 1. The last column is the ε of that noise by dp_accounting.
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


if __name__ == "__main__":
    main()
