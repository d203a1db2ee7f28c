"""What every mechanism costs and shows, from a plan: against dense computations of the running sums."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import sightline as sl
from sightline.noise.strategies import strategy_of
from tests.auditing.continual.running_plans import MECHANISMS, bands, decoder_of, members_of, plan_of, table


def assert_costs_one(noise: dict[str, Any]) -> None:
    """μ = 1: epsilon 4.887 at delta 1e-6, and 92.3 % are kept by the noise alone, of T = 64."""
    plan = plan_of(table([1, 2, 2, 30, 64]), 64, {**noise, "noise_multiplier": 1.0})
    result = sl.audit(plan, verdict_only=True)
    assert result.budget.spent["gaussian-dp"] == pytest.approx(4.88655, rel=1e-5)
    assert result.guaranteed_by_noise == pytest.approx(0.92298, rel=1e-4)
    assert result.budget.releases == 1


def test_eight_bands_from_a_file_cost_the_same_and_show_what_their_covariance_says(tmp_path: Path) -> None:
    """A strategy that has no name here. A lone person's error is that of B = A C⁻¹, densely."""
    C = bands(64)
    np.save(tmp_path / "C.npy", C)
    file = {"mechanism": str(tmp_path / "C.npy")}
    assert_costs_one(file)
    plan = plan_of(table([2, 30, 30]), 64, {**file, "stddev": 1.0})
    result = sl.audit(plan, names=True, verdict_only=True)
    B = np.tri(64) @ np.linalg.inv(C)
    sigma = B @ B.T
    columns = np.array([[float(t >= 2), float(t >= 30)] for t in range(1, 65)])
    error = math.sqrt(np.linalg.inv(columns.T @ np.linalg.solve(sigma, columns))[0, 0])
    assert {one.record: one.rmse for one in result.exposed}["0"] == pytest.approx(error, rel=1e-8)


@pytest.mark.parametrize("noise", MECHANISMS.values(), ids=MECHANISMS)
class TestEveryMechanism:
    def test_the_price_is_that_of_its_strategy(self, noise: dict[str, Any]) -> None:
        assert_costs_one(noise)

    @pytest.mark.sampled(5)
    @pytest.mark.parametrize("days", [[1, 2, 3, 3, 5, 9], [4, 4, 4, 13], [11, 12, 16, 16]])
    def test_errors_and_upper_ends_are_those_of_a_dense_computation(
        self, noise: dict[str, Any], days: list[int]
    ) -> None:
        """Of the published running sums themselves, with the textbook's decoder."""
        steps = 16
        _, B = decoder_of(noise, steps)
        stddev = 0.7
        plan = plan_of(table(days), steps, {**noise, "stddev": stddev})
        result = sl.audit(plan, names=True, verdict_only=True)
        columns = np.array([[float(t >= day) for day in days] for t in range(1, steps + 1)])
        sigma = stddev**2 * B @ B.T
        joint = sigma + columns @ columns.T / 12
        for one in result.exposed:
            members = members_of(one)
            own = columns[:, members[0]]
            upper = 1 - own @ np.linalg.solve(joint, own) / 12
            assert one.remaining_uncertainty is not None
            assert one.remaining_uncertainty.upper == pytest.approx(upper, rel=1e-8)
            distinct = np.unique(columns, axis=1)
            information = distinct.T @ np.linalg.solve(sigma, distinct)
            place = next(k for k in range(distinct.shape[1]) if np.array_equal(distinct[:, k], own))
            assert one.rmse == pytest.approx(math.sqrt(np.linalg.inv(information)[place, place]), rel=1e-8)
            assert one.recipe is not None
            weights = np.zeros(steps)
            for step in one.recipe.steps:
                weights[int(step.cell) - 1] = step.weight
            assert np.allclose(weights @ columns, [float(d == days[members[0]]) for d in days], atol=1e-9)
            assert math.sqrt(weights @ sigma @ weights) == pytest.approx(one.rmse, rel=1e-8)
        assert {who for one in result.exposed for who in members_of(one)} == set(range(len(days)))
        # Who is identifiable is a matter of the queries: who is alone on a day.
        assert result.identifiable_records == sum(days.count(day) == 1 for day in days)
        published = np.sqrt(np.diagonal(sigma))
        assert result.releases[0].smallest_noise_stddev == pytest.approx(published.min(), rel=1e-9)
        assert result.releases[0].largest_noise_stddev == pytest.approx(published.max(), rel=1e-9)

    @pytest.mark.sampled(4)
    @pytest.mark.parametrize("people", [[0, 0, 0, 1, 1, 2], [0, 1, 0, 1, 0, 2]])
    def test_the_price_of_several_rows_is_that_of_the_worst_pattern(
        self, noise: dict[str, Any], people: list[int]
    ) -> None:
        days = [1, 3, 8, 2, 2, 5]
        plan = plan_of(
            table(days, people=people),
            8,
            {**noise, "stddev": 3.0},
            data={"max_rows_per_record": 3},
            privacy={"sensitivity": "memberships"},
        )
        C, _ = decoder_of(noise, 8)
        patterns = {who: np.zeros(8) for who in people}
        for who, day in zip(people, days, strict=True):
            patterns[who][day - 1] += 1
        mu = max(float(np.linalg.norm(C @ u)) for u in patterns.values()) / 3.0
        if noise == {"mechanism": "tree"}:  # nodes that no running sum uses cost nothing
            used = strategy_of("tree", 8)
            mu = max(float(np.linalg.norm(used @ u)) for u in patterns.values()) / 3.0
        result = sl.audit(plan, verdict_only=True)
        assert result.budget.spent["gaussian-dp"] == pytest.approx(_epsilon(mu), rel=1e-6)


def _epsilon(mu: float) -> float:
    """Of one Gaussian answer: delta(epsilon) = 1e-6, by bisection of the formula of Balle and Wang."""
    low, high = 0.0, 500.0
    for _ in range(200):
        middle = (low + high) / 2
        delta = norm.cdf(mu / 2 - middle / mu) - math.exp(middle) * norm.cdf(-mu / 2 - middle / mu)
        low, high = (middle, high) if delta > 1e-6 else (low, middle)
    return high
