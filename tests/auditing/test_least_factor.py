"""The search for the least factor on all noise: it ends, from above, after few audits."""

from __future__ import annotations

import math

import numpy as np

from sightline.auditing.noise_slack import least_factor


def test_the_search_ends_above_the_least_factor_after_few_tries() -> None:
    """Curves that level off, that jump and that never reach the limit, with good and bad first guesses."""
    generator = np.random.default_rng(0)
    tries = []
    for _ in range(600):
        scale, power = 10 ** generator.uniform(-6, 6), generator.choice([1, 2, 4])
        floor = generator.uniform(0, 0.9) * generator.integers(0, 2)
        jump, left = 10 ** generator.uniform(-5, 5), generator.choice([1.0, generator.uniform()])
        limit, asked = generator.uniform(0.01, 0.99), []

        def kept(
            factor: float,
            scale: float = scale,
            power: int = power,
            floor: float = floor,
            jump: float = jump,
            left: float = left,
        ) -> float:
            smooth = floor + (1 - floor) / (1 + scale / factor**power)
            return float(smooth * (1.0 if factor > jump else left))

        def counted(factor: float, kept: object = kept, asked: list[float] = asked) -> float:
            asked.append(factor)
            return kept(factor)  # type: ignore[operator]

        likely = generator.choice([math.nan, 10 ** generator.uniform(-3, 3)])
        found = least_factor(counted, limit, now=kept(1.0), likely=float(likely))
        tries.append(len(asked))
        if found is None:
            assert kept(1e12) < limit
            continue
        assert kept(found) >= limit
        assert found <= 1e-5 or found == 1.0 or kept(found / 1.3) < limit
    assert max(tries) <= 30
    assert np.mean(tries) <= 8
