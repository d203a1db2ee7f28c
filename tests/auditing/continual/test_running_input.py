"""Running sums and mechanisms that are written wrongly: one line each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.errors import InvalidNoise, InvalidPlan
from sightline.noise.strategies import FactoredNoise
from tests.auditing.continual.running_plans import GOOD, plan_of, table


class TestBadInput:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"running": {"over": "hour"}}, r"running over one of the columns of GROUP BY, got 'hour'"),
            ({"running": {"to": 3}}, r"running over steps from 1 to 3, got rows outside of them"),
            ({"running": {"from": "2026-01-01", "to": "2026-01-09"}}, r"running over a column of days"),
            ({"running": {"from": 1.5}}, r"from: a whole number or a day"),
            ({"running": {"to": "2026-01-01"}}, r"from and to of one kind"),
            ({"running": {"to": 0}}, r"from one to 20,000 steps, got 0"),
            ({"running": {"every": 2}}, r"over, from and to"),
            ({"running": {"min_separation": -1}}, r"min_separation: a whole number of steps"),
            (
                {"noise": {**GOOD, "mechanism": "forest"}},
                r"mechanism: expected one of independent, .* got 'forest'",
            ),
            (
                {"noise": {**GOOD, "mechanism": 3}},
                r"mechanism: expected one of independent, .* got another value",
            ),
            ({"noise": {**GOOD, "decoder": "online"}}, r"no longer have; write mechanism = \"tree\", or"),
            ({"noise": {**GOOD, "law": "laplace"}}, r"a mechanism with gaussian noise of one size"),
            ({"noise": {"mechanism": "tree"}}, r"one of stddev, noise_multiplier"),
            ({"noise": {"stddev": 1.0}}, r"running with noise = \{ mechanism"),
            (
                {"sql": "SELECT day, AVG(x) FROM data GROUP BY day"},
                r"for sums .*, got a mean; publish the sum",
            ),
            ({"sql": "SELECT day, SUM(x*x) FROM data GROUP BY day"}, r"for sums and .*, got a power of it"),
            ({"withhold": ["1"]}, r"without withhold, got withhold; audit all of its numbers"),
        ],
    )
    def test_is_one_line(self, change: dict[str, Any], message: str) -> None:
        running = change.pop("running", {})
        plan = plan_of(table([1, 2, 4]), 4, GOOD, running=running)
        plan["release"][0].update(change)
        with pytest.raises(InvalidPlan, match=message) as caught:
            sl.audit(plan)
        assert "\n" not in str(caught.value)

    def test_a_column_without_an_order(self) -> None:
        import polars

        frame = table([1, 2]).with_columns(polars.Series("day", ["monday", "tuesday"]))
        with pytest.raises(InvalidPlan, match="a column of whole numbers, which have an order") as caught:
            sl.audit(plan_of(frame, 4, GOOD))
        assert "monday" not in str(caught.value)

    def test_rows_closer_than_declared(self) -> None:
        plan = plan_of(
            table([1, 2], people=[0, 0]),
            4,
            GOOD,
            data={"max_rows_per_record": 2},
            running={"min_separation": 2},
        )
        with pytest.raises(InvalidPlan, match="rows of a record at least 2 steps apart"):
            sl.audit(plan)

    def test_more_participations_than_declared(self) -> None:
        with pytest.raises(InvalidPlan, match=r"at most 1 row"):
            sl.audit(plan_of(table([1, 2], people=[0, 0]), 4, GOOD))

    @pytest.mark.parametrize(
        ("strategy", "message"),
        [
            (np.ones((4, 4)), "a strategy that spans the steps"),
            (np.eye(4)[:3], "a strategy that spans the steps"),
            (np.eye(3), "a column for each of 4 numbers, also of those that nobody is in, got 3 columns"),
            (np.where(np.eye(4) > 0, np.nan, 0.0), "strategy"),
            (np.full((4, 4), np.inf), "strategy"),
            (np.ones(4), "a table of numbers"),
            (np.array([["a", "b"]]), "a table of numbers"),
            (np.eye(4) * 1j, "a table of numbers"),
        ],
        ids=["rank one", "too few rows", "too few columns", "NaN", "infinite", "no table", "text", "complex"],
    )
    def test_a_strategy_file(self, strategy: np.ndarray, message: str, tmp_path: Path) -> None:
        np.save(tmp_path / "C.npy", strategy)
        self._refused(tmp_path, message)

    def test_files_that_are_no_array(self, tmp_path: Path) -> None:
        self._refused(tmp_path, "a file, got none")
        (tmp_path / "C.npy").write_bytes(b"")
        self._refused(tmp_path, "an array as numpy.save writes it")
        (tmp_path / "C.npy").write_bytes(b"\x93NUMPY\x01\x00" + b"{'shape': 9**9**9}")
        self._refused(tmp_path, "an array as numpy.save writes it")

    def test_nothing_is_unpickled(self, tmp_path: Path) -> None:
        class Harm:
            def __reduce__(self) -> tuple[Any, ...]:
                return (Path.touch, (tmp_path / "done",))

        np.save(tmp_path / "C.npy", np.array([[Harm()]], dtype=object), allow_pickle=True)
        self._refused(tmp_path, "an array as numpy.save writes it")
        assert not (tmp_path / "done").exists()

    def _refused(self, folder: Path, message: str) -> None:
        plan = plan_of(table([1, 2]), 4, {"mechanism": str(folder / "C.npy"), "stddev": 1.0})
        with pytest.raises(InvalidPlan, match=message) as caught:
            sl.audit(plan)
        assert "\n" not in str(caught.value)

    def test_correlation_is_gone_and_says_what_to_write(self) -> None:
        plan = plan_of(table([1]), 4, GOOD, correlation={"numbers": ["a", "b"], "rows": [[], [0.5]]})
        with pytest.raises(InvalidPlan, match="write the strategy C of the noise"):
            sl.audit(plan)

    @pytest.mark.parametrize(
        ("strategy", "decoder", "stddev", "message"),
        [
            (np.eye(2), np.ones((2, 3)), 1.0, "a column for each row of the strategy"),
            (np.eye(2), np.eye(2), 0.0, "stddev > 0"),
            (np.eye(2), np.array([[1.0, 0.0], [0.0, 0.0]]), 1.0, "noise on every answer"),
            (np.array([[np.nan]]), np.eye(1), 1.0, "strategy"),
        ],
    )
    def test_factored_noise(
        self, strategy: np.ndarray, decoder: np.ndarray, stddev: float, message: str
    ) -> None:
        with pytest.raises(InvalidNoise, match=message):
            FactoredNoise(strategy=strategy, decoder=decoder, stddev=stddev)

    def test_a_design_says_that_one_noise_is_one_size(self) -> None:
        with pytest.raises(InvalidPlan, match="noise of its own on every number, got a mechanism"):
            sl.design(plan_of(table([1, 2]), 4, GOOD))
