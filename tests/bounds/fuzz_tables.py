"""Nodes of the shipped risk tables, enclosed in balls: each must lie below its risk, and close.

Every node of the coin, of a uniform value in one Laplace answer, and of a uniform value in Gaussian noise
from an information of 0.25 on, in an order drawn from the seed. The other nodes are held against a finer
quadrature (``test_tables.py``).

``python -m tools.fuzz --entry tests.bounds.fuzz_tables --seed 1 --seconds 600`` runs it alone.
"""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
from flint import acb, arb, ctx

from sightline.bounds import scalar_risk
from tests.bounds.test_scalar_risk import uniform_answer
from tests.bounds.test_tables import risk_ball, two_point_ball

LEAST = 0.25


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """The nodes one after the other until the time is up, or until all are done."""
    until, count, generator = time.monotonic() + seconds, Counter[str](), np.random.default_rng(seed)
    first = int(np.searchsorted(scalar_risk.uniform_table().nodes, LEAST))
    places = [("uniform", place) for place in range(first, scalar_risk.uniform_table().nodes.size)]
    places += [("two-point", place) for place in range(scalar_risk.two_point_table().nodes.size)]
    places += [("uniform, Laplace", place) for place in range(scalar_risk.uniform_laplace_table().nodes.size)]
    for chosen in generator.permutation(len(places)):
        if time.monotonic() > until:
            break
        name, place = places[int(chosen)]
        check(name, place, count)
    return dict(sorted(count.items()))


def check(name: str, place: int, count: Counter[str]) -> None:
    """One node of one table."""
    with ctx.workprec(160 if name == "uniform, Laplace" else 90):
        if name == "uniform, Laplace":
            falling = scalar_risk.uniform_laplace_table()
            stored, ball = arb(float(falling.values[place])), laplace_ball(float(falling.nodes[place]))
        else:
            table = scalar_risk.uniform_table() if name == "uniform" else scalar_risk.two_point_table()
            node = float(table.nodes[place])
            stored = 1 / (arb(node) + arb(float(table.deficits[place])))
            ball = risk_ball(node, uniform_answer) if name == "uniform" else two_point_ball(node)
        assert stored <= ball.lower(), (name, place)
        assert stored >= ball.upper() * (1 - 2e-9), (name, place)
    count[f"nodes of {name}"] += 1


def laplace_ball(information: float) -> arb:
    """The risk of a uniform value in one Laplace answer, from moments in closed form."""
    u = arb(information).sqrt()

    def spread(y: acb, _: bool = False) -> acb:
        below, above = y + 0.5, 0.5 - y
        ends = [(-u * c).exp() for c in (below, above)]
        zeroth = sum((1 - e for e in ends), acb(0)) / u
        firsts = [(1 - e * (1 + u * c)) / u**2 for e, c in zip(ends, (below, above), strict=True)]
        seconds = [2 - e * (2 + 2 * u * c + (u * c) ** 2) for e, c in zip(ends, (below, above), strict=True)]
        return (seconds[0] + seconds[1]) / u**3 - (firsts[1] - firsts[0]) ** 2 / zeroth

    inside = acb.integral(spread, 0, arb(0.5)).real * u / 2
    return 2 * (inside + spread(acb(0.5)).real / 2)
