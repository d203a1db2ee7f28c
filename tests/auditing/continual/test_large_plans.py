"""Many running sums: the verdict alone, short recipes, both attackers on the first screen."""

from __future__ import annotations

import numpy as np
import pytest

import sightline as sl
from sightline.report.first_screen import first_screen
from tests.auditing.continual.running_plans import decoder_of, plan_of, table


class TestLargePlans:
    def test_the_verdict_alone_leaves_out_what_each_release_adds(self) -> None:
        plan = plan_of(table([1, 2, 2, 7]), 8, {"mechanism": "tree", "noise_multiplier": 0.2})
        alone, whole = sl.audit(plan, verdict_only=True, full=True), sl.audit(plan, full=True)
        assert alone.verdict == whole.verdict
        assert alone.exposed == whole.exposed
        assert alone.budget == whole.budget
        assert (alone.timeline, alone.what_to_change, alone.reaching, alone.slack) == ((), (), (), None)
        assert [one.newly_exposes for one in alone.releases] == [None]
        assert "the verdict alone was asked for" in alone.more_to_change
        assert sl.AuditResult.from_json(alone.to_json()) == alone

    def test_a_recipe_of_many_numbers_lists_what_carries_its_variance(self) -> None:
        """Of 400 running sums: the listed steps have 99.9 % of the noise, and the rest are counted."""
        noise = {"mechanism": "toeplitz-sqrt", "stddev": 1.0}
        plan = plan_of(table(list(range(1, 401, 2))), 400, noise)
        result = sl.audit(plan, top=3, names=True, verdict_only=True)
        _, B = decoder_of(noise, 400)
        sigma = B @ B.T
        most = result.exposed[0]
        assert most.recipe is not None
        assert most.recipe.more_steps > 0
        listed = {int(step.cell) - 1: step.weight for step in most.recipe.steps}
        assert f"and {len(listed) + most.recipe.more_steps - 4} more" in most.recipe.text
        # All weights by a second computation: the best unbiased ones, with the empty days known.
        columns = np.tri(400)[:, ::2]
        solved = np.linalg.solve(sigma, columns)
        weights = (solved @ np.linalg.inv(columns.T @ solved))[:, int(most.record or "")]
        assert all(weights[place] == pytest.approx(weight, abs=1e-9) for place, weight in listed.items())
        shares = weights**2 * np.diagonal(sigma)
        assert sum(shares[place] for place in listed) >= 0.999 * shares.sum()
        used = np.count_nonzero(np.abs(weights) > 1e-9 * np.abs(weights).max())
        assert len(listed) + most.recipe.more_steps == used

    def test_both_rungs_are_on_the_first_screen(self) -> None:
        result = sl.audit(plan_of(table([1, 2, 30, 64]), 64, {"mechanism": "tree", "noise_multiplier": 1.0}))
        assert result.sharpest is not None
        said = "That attacker knows nobody; to one who knows everyone else, the noise leaves at least 92 %"
        printed = " ".join(line.plain for line in first_screen(result, 110))
        assert said in printed
        assert said in result.sharpest.text
