"""Smooth steps in ball arithmetic, for certified curves; only these functions need FLINT."""

from __future__ import annotations

from fractions import Fraction
from typing import assert_never

from flint import arb

from sightline.numerics.balls import ball
from sightline.releases.features import Kernel


def smooth_step_slope_ball(offset: Fraction, *, bandwidth: Fraction, kernel: Kernel) -> arb:
    r""":math:`h_\tau'(u)` at an exact offset, as a ball of the precision now in force."""
    w = offset / bandwidth
    match kernel:
        case "logistic":
            return (ball(w) / 2).sech() ** 2 / 4 / ball(bandwidth)
        case "compact":
            return arb(0) if abs(w) >= 1 else (1 + ball(w).cos_pi()) / 2 / ball(bandwidth)
    assert_never(kernel)


def smooth_step_rise_ball(start: Fraction, stop: Fraction, *, bandwidth: Fraction, kernel: Kernel) -> arb:
    r"""The rise :math:`h_\tau(b) - h_\tau(a)` between exact offsets, as a ball."""
    a, b = start / bandwidth, stop / bandwidth
    match kernel:
        case "logistic":
            return ((ball(b) / 2).tanh() - (ball(a) / 2).tanh()) / 2
        case "compact":
            a, b = max(a, Fraction(-1)), min(b, Fraction(1))
            return ball(b - a) / 2 + (ball(b).sin_pi() - ball(a).sin_pi()) / (2 * arb.pi())
    assert_never(kernel)
