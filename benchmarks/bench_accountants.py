"""The noise of every accountant over the exact optimum at the same epsilon and delta.

The optimum is the least standard deviation of one, ten and a hundred equal releases that keep (ε, δ): that of
exact Gaussian composition, checked here against the privacy-loss distribution of dp_accounting. Wanted: the
default of a plan at most 1.01, and none below 1. The last column is the ε of that noise by dp_accounting.

Then the same for Laplace noise, whose optimum is searched for with dp_accounting; for geometric noise on
counts, and for mixes, of which a plan states the noise: the least scale whose stated ε is enough, over the
optimum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld

from sightline.auditing.plan_sections import Privacy
from sightline.privacy.accountant import Budget
from sightline.privacy.law import Law
from sightline.privacy.optimal import optimal_epsilon
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
                if rule.law is Law.GAUSSIAN and not rule.counts_own_releases
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
            enough = math.sqrt(rules["optimal"].kappa(releases))
            best = least_scale(within(epsilon, spent_by, "Laplace", releases), enough)
            shown = ", ".join(
                f"{name} {math.sqrt(rules[name].kappa(releases)) / best:.3f}"
                for name in ("laplace", "optimal")
            )
            print(f"Laplace, ε = {epsilon:g}, {releases:3d} releases: {shown}", flush=True)
    for law in ("geometric", "Laplace and geometric", "Laplace and Gaussian"):
        for epsilon in (0.1, 1.0, 4.0, 10.0):
            for releases in (2, 10, 30, 100):
                own = least_scale(within(epsilon, stated, law, releases), releases / epsilon)
                keeps = within(epsilon, spent_by, law, releases)
                if law == "geometric":  # exactly: dp_accounting asks for up to 1.0005 times as much
                    keeps = partial(keeps_coins, epsilon, releases)
                best = least_scale(keeps, own)
                print(f"{law}, ε = {epsilon:g}, {releases:3d} releases: {own / best:.3f}", flush=True)


def parts(law: str, releases: int) -> dict[str, int]:
    """How many releases have each noise."""
    names = law.split(" and ")
    return {name: releases // len(names) for name in names}


def stated(law: str, scale: float, releases: int) -> float:
    """The ε at δ = 1e-6 that the product states of noise of this scale; Gaussian noise has its variance."""
    each = parts(law, releases)
    pure = [name for name in each if name != "Gaussian"]
    return optimal_epsilon(
        np.full(sum(each[name] for name in pure), 1 / scale),
        delta=1e-6,
        mu_squared=each.get("Gaussian", 0) / (2 * scale**2),
        laplace=np.repeat([name == "Laplace" for name in pure], [each[name] for name in pure]),
    )


def within(
    epsilon: float, spent: Callable[[str, float, int], float], law: str, releases: int
) -> Callable[[float], bool]:
    """Whether noise of a scale spends no more than ε."""
    return lambda scale: spent(law, scale, releases) <= epsilon


def keeps_coins(epsilon: float, releases: int, scale: float) -> bool:
    """Whether geometric noise on counts keeps (ε, 1e-6): every loss is 1/scale up or down, so by all sums."""
    each = 1 / scale
    up, down = -math.log1p(math.exp(-each)), -math.log1p(math.exp(each))
    delta = 0.0
    for k in range(releases + 1):
        over = (2 * k - releases) * each - epsilon
        if over > 0:
            delta += math.comb(releases, k) * math.exp(k * up + (releases - k) * down) * -math.expm1(-over)
    return delta <= 1e-6


def spent_by(law: str, scale: float, releases: int) -> float:
    """The same by dp_accounting."""
    total, step = None, 1e-3 / scale
    for name, number in parts(law, releases).items():
        if name == "Gaussian":
            one = pld.from_gaussian_mechanism(math.sqrt(2) * scale, value_discretization_interval=step)
        elif name == "geometric":
            one = pld.from_discrete_laplace_mechanism(1 / scale, value_discretization_interval=step)
        else:
            one = pld.from_laplace_mechanism(scale, value_discretization_interval=step)
        own = one.self_compose(number)
        total = own if total is None else total.compose(own)
    return float(total.get_epsilon_for_delta(1e-6))


def least_scale(keeps: Callable[[float], bool], enough: float) -> float:
    """The least scale, over the sensitivity, that keeps (ε, 1e-6), by bisection to 1e-4."""
    high = enough
    while not keeps(high):
        high *= 1.3
    low = high / 1.3
    while keeps(low):
        low /= 1.3
    while high / low > 1 + 1e-4:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


if __name__ == "__main__":
    main()
