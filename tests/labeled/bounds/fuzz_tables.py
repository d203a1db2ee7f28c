"""Nodes of the shipped risk tables, drawn at random and enclosed in balls: each must lie below, and close.

Covered: every node of the coin, of a uniform value in one Laplace answer, and of a uniform and a cos² value in
Gaussian noise from an information of 0.25 on. Below that, and for cos² in Laplace noise, the nodes are held
against a finer quadrature (``test_tables.py``).

``python -m tools.fuzz --entry tests.labeled.bounds.fuzz_tables --seed 1 --seconds 600`` runs it alone.
"""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
from flint import acb, arb, ctx

from sightline.labeled.bounds import tables
from tests.labeled.bounds.test_scalar_risk import uniform_answer
from tests.labeled.bounds.test_tables import risk_ball, two_point_ball

LEAST = 0.25


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """One node of each table after the other until the time is up."""
    until, count, generator = time.monotonic() + seconds, Counter[str](), np.random.default_rng(seed)
    while time.monotonic() < until:
        for name in ("uniform", "cos2", "two-point", "uniform, Laplace"):
            check(name, generator.random(), count)
    return dict(sorted(count.items()))


def check(name: str, share: float, count: Counter[str]) -> None:
    """The node at a share of the way through the table."""
    if name == "uniform, Laplace":
        table = tables.uniform_laplace_table()
        place = int(share * table.nodes.size)
        node, stored = float(table.nodes[place]), arb(float(table.values[place]))
        with ctx.workprec(160):
            ball = laplace_ball(node)
    else:
        gaussian = {
            "uniform": tables.uniform_table,
            "cos2": tables.cosine_table,
            "two-point": tables.two_point_table,
        }[name]()
        first = 0 if name == "two-point" else int(np.searchsorted(gaussian.nodes, LEAST))
        place = first + int(share * (gaussian.nodes.size - first))
        node = float(gaussian.nodes[place])
        with ctx.workprec(90 if name != "cos2" else 120 + int(60 / node)):
            stored = 1 / (arb(node) + arb(float(gaussian.deficits[place])))
            if name == "two-point":
                ball = two_point_ball(node)
            else:
                ball = risk_ball(node, uniform_answer if name == "uniform" else cosine_answer)
    assert stored <= ball.lower(), (name, place)
    assert stored >= ball.upper() * (1 - 2e-9), (name, place)
    count[f"nodes of {name}"] += 1


def cosine_answer(y: acb, s: arb) -> tuple[acb, acb]:
    r"""The density of an answer and its slope, for 1 + cos 2πx: by :math:`\int e^{\pm 2\pi i x} \varphi`."""
    root = s * arb(2).sqrt()

    def wave(sign: int) -> acb:
        middle = y + acb(0, sign) * 2 * arb.pi() * s**2
        ends = ((0.5 - middle) / root).erf() - ((-0.5 - middle) / root).erf()
        return (acb(0, sign) * 2 * arb.pi() * y - 2 * (arb.pi() * s) ** 2).exp() * ends / 2

    flat = (((0.5 - y) / root).erf() - ((-0.5 - y) / root).erf()) / 2
    ahead, behind = wave(1), wave(-1)
    # The prior vanishes at the ends, so the slope is the mean of its own, −2π sin 2πx.
    return flat + (ahead + behind) / 2, -2 * arb.pi() * (ahead - behind) / acb(0, 2)


def laplace_ball(information: float) -> arb:
    """The risk of a uniform value in one Laplace answer, from moments in closed form."""
    u = arb(information).sqrt()

    def spread(y: acb, _: bool = False) -> acb:
        below, above = y + 0.5, 0.5 - y
        ends = [(-u * c).exp() for c in (below, above)]
        zeroth = sum((1 - e for e in ends), acb(0)) / u
        firsts = [(1 - e * (1 + u * c)) / u**2 for e, c in zip(ends, (below, above), strict=True)]
        second = sum(
            (2 - e * (2 + 2 * u * c + (u * c) ** 2) for e, c in zip(ends, (below, above), strict=True)),
            acb(0),
        )
        return second / u**3 - (firsts[1] - firsts[0]) ** 2 / zeroth

    inside = acb.integral(spread, 0, arb(0.5)).real * u / 2
    return 2 * (inside + spread(acb(0.5)).real / 2)
