"""Real roots of many cubics at once, in closed form, on arrays of any library."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sightline.arrays import namespace
from sightline.attacks.namespace import Column


def depressed_roots(a: Column, b: Column) -> list[Column]:
    r"""The roots of :math:`t^3 + at = b` in ascending order; a complex pair becomes its real part, twice.

    Viète's cosines where all three are real, else Cardano's formula, written without cancellation.

    >>> import numpy as np
    >>> [round(float(root[0]), 12) for root in depressed_roots(np.array([-7.0]), np.array([-6.0]))]
    [-3.0, 1.0, 2.0]
    """
    xp = namespace(a)
    zero = 0.0 * a
    real = 4.0 * a * a * a + 27.0 * b * b <= 0
    radius = xp.sqrt(xp.where(a < 0, -a, zero) * (4 / 3))
    cube = radius * radius * radius
    cosine = 4.0 * b / xp.where(cube > 0, cube, 1.0 + zero)
    angle = xp.arccos(xp.clip(cosine, -1.0, 1.0)) * (1 / 3)
    three = [radius * xp.cos(angle - 2 * math.pi * k / 3) for k in (2, 1, 0)]
    root = xp.sqrt(xp.where(real, zero, 0.25 * b * b + a * a * a * (1 / 27)))
    size = (0.5 * xp.abs(b) + root) ** (1 / 3)
    lone = size - a * (1 / 3) / xp.where(size > 0, size, 1.0 + zero)
    lone = xp.where(b < 0, -lone, lone)
    pair = -0.5 * lone
    one = [xp.where(b < 0, lone, pair), pair, xp.where(b < 0, pair, lone)]
    return [xp.where(real, x, y) for x, y in zip(three, one, strict=True)]


def cubic_roots(coefficients: Sequence[Column], leading: float) -> list[Column]:
    r"""The roots of :math:`c_0 + c_1t + c_2t^2 + kt^3` for ``leading`` k, polished by Newton's method."""
    xp = namespace(coefficients[0])
    c0, c1, c2 = (c * (1 / leading) for c in coefficients)
    shift = c2 * (1 / 3)
    a = c1 - c2 * shift
    b = c1 * shift - c0 - 2.0 * shift * shift * shift
    roots = []
    for t in depressed_roots(a, b):
        x = t - shift
        value = ((x + c2) * x + c1) * x + c0
        for _ in range(2):
            slope = (3.0 * x + 2.0 * c2) * x + c1
            near = x - value / xp.where(slope != 0, slope, 1.0 + 0.0 * x)
            remaining = ((near + c2) * near + c1) * near + c0
            better = xp.abs(remaining) < xp.abs(value)  # at a double root a step may be worse
            x, value = xp.where(better, near, x), xp.where(better, remaining, value)
        roots.append(x)
    return roots
