"""The same publications written in other ways: GROUP BYs, files, designs in Python, dates, groups."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import sightline as sl
from sightline.noise.strategies import FactoredNoise, strategy_of
from sightline.units.description import Readout
from tests.auditing.continual.running_plans import MECHANISMS, decoder_of, members_of, plan_of, table

DAYS = [1, 2, 2, 3, 5, 8, 8, 8, 11, 16]


@cache
def named(name: str) -> sl.AuditResult:
    """A mechanism by its name, over sixteen steps."""
    return sl.audit(plan_of(table(DAYS), 16, {**MECHANISMS[name], "stddev": 2.0}), verdict_only=True)


class TestOtherFormsOfTheSame:
    def test_the_tree_is_one_group_by_for_each_level(self) -> None:
        """Five releases with independent noise say the same as the nodes' least squares."""
        source = table(DAYS)
        tree = named("tree least squares")
        levels = plan_of(source, 16, {"mechanism": "tree", "stddev": 2.0})
        levels["release"] = [
            {
                "name": f"level {j}",
                "sql": f"SELECT (day - 1) // {2**j}, SUM(x) FROM data GROUP BY (day - 1) // {2**j}",
                "noise_stddev": 2.0,
            }
            for j in range(5)
        ]
        other = sl.audit(levels, verdict_only=True)
        # The plain releases leave out groups that nobody is in, which tell nothing there.
        assert tree.identifiable_records == other.identifiable_records
        assert [one.rmse for one in tree.exposed] == pytest.approx(
            [one.rmse for one in other.exposed], rel=1e-9
        )
        for mine, theirs in zip(tree.exposed, other.exposed, strict=True):
            assert mine.remaining_uncertainty is not None
            assert theirs.remaining_uncertainty is not None
            assert mine.remaining_uncertainty.lower == pytest.approx(
                theirs.remaining_uncertainty.lower, rel=1e-6
            )
            assert mine.remaining_uncertainty.upper == pytest.approx(
                theirs.remaining_uncertainty.upper, rel=1e-9
            )
        assert tree.budget.spent["gaussian-dp"] == pytest.approx(other.budget.spent["per-record"], rel=1e-9)

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("name", MECHANISMS)
    def test_a_strategy_from_a_file_is_the_named_one(self, name: str, tmp_path: Path) -> None:
        noise = MECHANISMS[name]
        np.save(tmp_path / "C.npy", strategy_of(noise["mechanism"], 16))
        file = {"mechanism": str(tmp_path / "C.npy"), "stddev": 2.0}
        read = sl.audit(plan_of(table(DAYS), 16, file), verdict_only=True)
        assert [one.rmse for one in named(name).exposed] == [one.rmse for one in read.exposed]
        assert named(name).least_remaining_uncertainty == read.least_remaining_uncertainty
        assert named(name).budget == read.budget

    def test_linear_post_processing_never_sharpens(self) -> None:
        """What an online tree publishes is computed from the nodes that least squares use."""
        online, squares = named("tree online"), named("tree least squares")
        assert online.least_remaining_uncertainty is not None
        assert squares.least_remaining_uncertainty is not None
        assert online.least_remaining_uncertainty.upper >= squares.least_remaining_uncertainty.upper
        errors = [{one.label: one.rmse or 0.0 for one in result.exposed} for result in (online, squares)]
        assert all(errors[0][label] >= errors[1][label] * (1 - 1e-9) > 0 for label in errors[1])

    def test_two_copies_are_the_mean_of_their_noises(self) -> None:
        """``times = 2``: each copy draws its noise anew, so that errors fall by √2 and cost rises by √2."""
        noise = {**MECHANISMS["toeplitz"], "stddev": 2.0 * math.sqrt(2)}
        plan = plan_of(table(DAYS), 16, noise, release={"times": 2})
        twice, once = sl.audit(plan, verdict_only=True), named("toeplitz")
        assert [one.rmse for one in twice.exposed] == pytest.approx([one.rmse for one in once.exposed])
        assert twice.guaranteed_by_noise == pytest.approx(once.guaranteed_by_noise, rel=1e-9)
        assert twice.budget.spent["gaussian-dp"] == pytest.approx(once.budget.spent["gaussian-dp"], rel=1e-9)

    def test_a_python_design_sees_the_same(self) -> None:
        """Running sums as rows, with their decoder: its whitened rows are the strategy."""
        days, steps = [1, 2, 3, 5, 6], 8
        for noise in MECHANISMS.values():
            C, B = decoder_of(noise, steps)
            law = FactoredNoise(strategy=C, decoder=B, stddev=1.5)
            columns = np.array([[float(t >= day) for day in days] for t in range(1, steps + 1)])
            design = sl.MembershipDesign(columns, noise=law, readout=Readout.SUM)
            found = design.exposures(domain=(0, 1))
            plan = plan_of(table(days), steps, {**noise, "stddev": 1.5})
            audited = sl.audit(plan, names=True, verdict_only=True)
            errors = {members_of(one)[0]: one.rmse for one in audited.exposed}
            assert [errors[k] for k in range(5)] == pytest.approx(found.rmse.tolist(), rel=1e-8)

    def test_a_number_that_nobody_is_in_tells_the_noise_of_the_next(self, tmp_path: Path) -> None:
        root = np.linalg.cholesky(np.array([[1.0, 0.9], [0.9, 1.0]]))
        np.save(tmp_path / "C.npy", np.linalg.inv(root))
        noise = {"mechanism": str(tmp_path / "C.npy"), "stddev": 1.0}
        result = sl.audit(plan_of(table([2]), 2, noise), verdict_only=True)
        assert result.exposed[0].rmse == pytest.approx(math.sqrt(1 - 0.81), rel=1e-9)  # 0.436, not 1
        assert result.cells == 2

    def test_the_first_days_may_be_empty_under_much_noise(self) -> None:
        noise = {"mechanism": "noisy-steps", "stddev": 20.0}
        found = sl.audit({**plan_of(table([3, 3, 3, 3]), 3, noise), "limits": {}})
        assert not found.homogeneous  # and no overflow where nobody is in a number
        assert found.least_remaining_uncertainty is not None
        assert found.least_remaining_uncertainty.lower > 0.99

    def test_every_value_of_other_columns_has_sums_of_its_own(self) -> None:
        import polars

        days, places = [1, 3, 3, 4], ["n", "n", "s", "s"]
        frame = table(days).with_columns(polars.Series("place", places))
        noise = {"mechanism": "toeplitz-sqrt", "stddev": 1.0}
        plan = plan_of(frame, 4, noise)
        plan["release"][0]["sql"] = "SELECT place, day, SUM(x) FROM data GROUP BY place, day"
        both = sl.audit(plan, names=True, verdict_only=True)
        errors = {one.record: one.rmse for one in both.exposed}
        for place in "ns":
            own = plan_of(frame.filter(polars.col("place") == place), 4, noise)
            alone = sl.audit(own, names=True, verdict_only=True)
            assert {one.record: one.rmse for one in alone.exposed}.items() <= errors.items()
        assert both.cells == 8

    def test_days_may_be_dates(self) -> None:
        import datetime

        import polars

        frame = table([1, 4]).with_columns(
            polars.Series("day", [datetime.date(2026, 1, 31), datetime.date(2026, 2, 3)])
        )
        noise = {"mechanism": "tree", "stddev": 1.0}
        running = {"from": "2026-01-31", "to": datetime.date(2026, 2, 3)}
        found = sl.audit(plan_of(frame, 4, noise, running=running))
        assert found.cells == 4
        assert [one.rmse for one in found.exposed] == [
            one.rmse for one in sl.audit(plan_of(table([1, 4]), 4, noise)).exposed
        ]
        assert 'running = { "over" = "day", "from" = "2026-01-31", "to" = "2026-02-03" }' in found.plan

    def test_several_rows_of_a_person_are_judged_together(self) -> None:
        """One person with rows on two days, among others: the sharpest feature of a dense computation."""
        days, people, steps = [1, 3, 3, 4, 2], [0, 0, 1, 2, 3], 4
        noise = {"mechanism": "toeplitz-sqrt", "stddev": 1.0}
        plan = plan_of(
            table(days, people=people), steps, noise, data={"max_rows_per_record": 2, "values": "independent"}
        )
        result = sl.audit(plan, names=True, verdict_only=True)
        C = strategy_of("toeplitz-sqrt", steps)
        prior = np.zeros((steps, steps))
        for day in days:
            prior[day - 1, day - 1] += 1 / 12
        gain = np.linalg.inv(np.linalg.inv(C.T @ C) + prior)
        own = np.eye(steps)[:, [0, 2]]
        left = np.eye(2) - own.T @ gain @ own / 12
        (mine,) = (one for one in result.exposed if one.record == "0")
        assert mine.remaining_uncertainty is not None
        assert mine.remaining_uncertainty.upper == pytest.approx(np.linalg.eigvalsh(left)[0], rel=1e-8)

    def test_days_that_are_all_alike_are_found_over_ranges(self) -> None:
        """Ten days of one person each, all at the least value: no day tells it, the range of them does."""
        import polars

        days = list(range(1, 31))
        frame = table(days).with_columns(polars.Series("x", [0.5] * 10 + [0.0] * 16 + [0.9] * 4))
        result = sl.audit(plan_of(frame, 30, {"mechanism": "toeplitz-sqrt", "stddev": 0.3}))
        assert any("together" in one.text and one.rows >= 16 for one in result.homogeneous or ())
        assert result.verdict.passed is not True


def test_factored_noise_of_consistent_answers() -> None:
    """A total with its cells: the decoder is singular, and the total adds nothing."""
    decoder = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    noise = FactoredNoise(strategy=np.eye(2), decoder=decoder, stddev=2.0)
    assert noise.singular
    assert not len(noise.noise_free(noise.workload))
    assert len(noise.noise_free(np.array([[1.0], [1.0], [3.0]]))) == 1
    white = np.asarray(noise.whiten(noise.workload))
    assert np.allclose(white.T @ white, np.eye(2) / 4)
    assert np.allclose(noise.scaled(2.0).covariance, 4 * noise.covariance)
    assert np.allclose(noise.take(np.array([0, 2])).covariance, noise.covariance[np.ix_([0, 2], [0, 2])])
    drawn = noise.sample(20_000, generator=np.random.default_rng(0))
    assert np.allclose(drawn.T @ drawn / 20_000, noise.covariance, atol=0.3)
