"""The families every law is run on, and a naive twin of the release curve in high precision."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np

import sightline as sl

BASIC = sl.BasicComposition(sl.Budget(epsilon=1.0, delta=1e-5))
ZCDP = sl.ZeroConcentrated(sl.Budget(epsilon=1.0, delta=1e-5))


def moment_queries(order: int) -> sl.Moment:
    return sl.Moment(order=order, members=range(3), bound=1.0)


FAMILIES = {
    "moments, tight": sl.Moments(),
    "moments, uniform": sl.Moments(convention="uniform"),
    "moments, bound 3.3": sl.Moments(bound=3.3),
    "logistic, midpoint": sl.Thresholds(bandwidth=0.3),
    "logistic, midpoint, uniform": sl.Thresholds(bandwidth=0.3, convention="uniform"),
    "compact, midpoint": sl.Thresholds(bandwidth=0.8, kernel="compact"),
    "compact, midpoint, uniform": sl.Thresholds(bandwidth=0.8, kernel="compact", convention="uniform"),
    "logistic, list": sl.Thresholds(bandwidth=0.3, grid=np.linspace(-1, 1, 12)),
    "compact, list, bisecting": sl.Thresholds(
        bandwidth=0.9, kernel="compact", grid=np.linspace(-0.9, 0.9, 12), order="bisecting"
    ),
    "logistic, rule": sl.Thresholds(bandwidth=0.3, grid=lambda L: np.linspace(-0.8, 0.9, L)),
    "queries": sl.multiset.QueryFamily(queries=moment_queries),
}
GROUP = (-0.62, 0.13, 0.71)


def exact_slope(family: sl.Thresholds, offset: mp.mpf) -> mp.mpf:
    tau = mp.mpf(family.bandwidth)
    if family.kernel == "logistic":
        return mp.sech(offset / (2 * tau)) ** 2 / (4 * tau)
    return (1 + mp.cos(mp.pi * offset / tau)) / (2 * tau) if abs(offset) < tau else mp.mpf(0)


def exact_step(family: sl.Thresholds, offset: mp.mpf) -> mp.mpf:
    tau = mp.mpf(family.bandwidth)
    if family.kernel == "logistic":
        return 1 / (1 + mp.exp(-offset / tau))
    w = max(mp.mpf(-1), min(mp.mpf(1), offset / tau))
    return (1 + w + mp.sin(mp.pi * w) / mp.pi) / 2


def exact_rows(values: Collection[float], family: Any, releases: int) -> list[list[mp.mpf]]:
    """The normalised gradients by their formulas, each double taken for the exact number it is."""
    z = [mp.mpf(v) for v in sorted(values)]
    if isinstance(family, sl.Moments):
        R = mp.mpf(family.bound)
        tight = family.convention == "tight"
        width = [1 if tight and order % 2 == 0 else 2 for order in range(1, releases + 1)]
        return [
            [order * v ** (order - 1) / (width[order - 1] * R**order) for v in z]
            for order in range(1, releases + 1)
        ]
    R = mp.mpf(family.bound)
    if isinstance(family.grid, str):
        t = [-R + (2 * i - 1) * R / releases for i in range(1, releases + 1)]
    else:
        t = [mp.mpf(v) for v in family.thresholds(releases).tolist()]
    rise = [
        exact_step(family, R - s) - exact_step(family, -R - s) if family.convention == "tight" else 2
        for s in t
    ]
    return [[exact_slope(family, v - s) / c for v in z] for s, c in zip(t, rise, strict=True)]


def exact_trace(values: Collection[float], family: Any, releases: int, digits: int = 80) -> mp.mpf:
    """tr A⁻¹ by the definition: outer products, inverse, trace."""
    with mp.workdps(digits):
        G = mp.matrix(exact_rows(values, family, releases))
        inverse = mp.inverse(G.T * G)
        return mp.fsum(inverse[k, k] for k in range(len(values)))


def exact_basic_kappa(releases: int) -> mp.mpf:
    delta = Fraction(1e-5)
    ratio = mp.mpf(1.25) * releases / (mp.mpf(delta.numerator) / delta.denominator)
    return 2 * mp.mpf(releases) ** 2 * mp.log(ratio)
