"""The price of several rows of a record: exact where it is, else a bound that says so."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import sightline as sl
from sightline.noise.strategies import Strategy
from tests.auditing.continual.running_plans import plan_of, table


class TestSensitivities:
    """As jax-privacy 2.0.0 has them (recorded): square-root Toeplitz, and with four rows 16 steps apart."""

    @pytest.mark.parametrize(
        ("steps", "once", "apart"),
        [(64, 1.545590, 3.960620), (256, 1.682572, 5.011051), (1024, 1.809020, 5.706712)],
    )
    def test_of_square_root_toeplitz(self, steps: int, once: float, apart: float) -> None:
        strategy = Strategy.named("toeplitz-sqrt", steps)
        assert strategy.sensitivity(1).value == pytest.approx(once, abs=5e-7)
        found = strategy.sensitivity(4, 16)
        assert found.exact
        assert found.value == pytest.approx(apart, abs=5e-7)

    @pytest.mark.parametrize("rows", [1, 2, 3])
    @pytest.mark.parametrize("separation", [1, 2, 4])
    @pytest.mark.parametrize("seed", range(4))
    def test_bounds_hold_and_exact_ones_are_attained(self, rows: int, separation: int, seed: int) -> None:
        """Against all patterns, and all signs of what changes."""
        generator, steps = np.random.default_rng(seed), 9
        bands = np.tril(generator.normal(size=(steps, steps))) + 3 * np.eye(steps)
        if seed % 2:
            bands = bands * (np.arange(steps)[:, None] - np.arange(steps) < separation)
        strategy = Strategy(table=bands)
        found = strategy.sensitivity(rows, separation)
        worst = 0.0
        for size in range(1, rows + 1):
            for pattern in itertools.combinations(range(steps), size):
                if all(b - a >= separation for a, b in itertools.pairwise(pattern)):
                    for signs in itertools.product((1, -1), repeat=size):
                        moved = bands[:, pattern] @ np.array(signs)
                        worst = max(worst, float(np.linalg.norm(moved)))
        assert worst <= found.value * (1 + 1e-12)
        if seed % 2 or rows == 1:
            assert found.exact
        if found.exact:
            assert found.value == pytest.approx(worst, rel=1e-12)

    def test_declared_rows_are_priced_wherever_they_are(self) -> None:
        data, privacy = {"max_rows_per_record": 4}, {"sensitivity": "declared"}
        noise = {"mechanism": "toeplitz-sqrt", "noise_multiplier": 1.0}
        source = table([1, 17, 33], people=[0, 0, 1])
        apart = plan_of(source, 64, noise, data=data, privacy=privacy, running={"min_separation": 16})
        result = sl.audit(apart)
        assert result.releases[0].smallest_noise_stddev == pytest.approx(3.960620, abs=5e-7)
        assert not any("bounded from above" in line for line in result.assumptions)
        close = {"min_separation": 3}
        tree = plan_of(source, 64, {**noise, "mechanism": "tree"}, data=data, privacy=privacy, running=close)
        assert any("bounded from above" in line for line in sl.audit(tree).assumptions)
        together = sl.audit(plan_of(source, 64, noise, data=data, privacy=privacy))
        assert together.releases[0].smallest_noise_stddev == pytest.approx(4 * 1.545590, abs=4e-6)

    @pytest.mark.parametrize("rows", [2, 3])
    def test_rows_that_change_against_each_other_are_priced_from_above(
        self, rows: int, tmp_path: Path
    ) -> None:
        """Of three rows whose products are all negative, no signs attain all of them: the price says so."""
        root = np.linalg.cholesky(np.eye(3) * 1.4 - 0.4)
        np.save(tmp_path / "C.npy", root.T)
        noise = {"mechanism": str(tmp_path / "C.npy"), "stddev": 1.0}
        data, privacy = {"max_rows_per_record": rows}, {"sensitivity": "memberships"}
        source = table([1, 2, 3], people=[0, 0, 0 if rows == 3 else 1])
        result = sl.audit(plan_of(source, 3, noise, data=data, privacy=privacy), verdict_only=True)
        assert any("bounded from above" in line for line in result.assumptions) == (rows == 3)
        G, worst = root @ root.T, 0.0
        for signs in itertools.product((1, -1), repeat=rows):
            worst = max(worst, float(np.array(signs) @ G[:rows, :rows] @ np.array(signs)))
        assert np.abs(G[:rows, :rows]).sum() == pytest.approx(worst, rel=1e-12) or rows == 3
        assert np.abs(G[:rows, :rows]).sum() >= worst
