"""Plans that cross several features, each with the truth computed in another way."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import sightline as sl
from sightline.arrays import FloatArray
from sightline.auditing.result import AuditResult

VARIANCE = 1 / 12  # of a value spread evenly from 0 to 1


def plan_of(folder: Path, columns: dict[str, list[Any]], *releases: dict[str, Any], **sections: Any) -> Any:
    """A plan about the column x of a table, between 0 and 1."""
    with (folder / "data.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(columns)
        lines.writerows(zip(*columns.values(), strict=True))
    data = {"source": str(folder / "data.csv"), "record": "id", "secret": "x", "bounds": [0, 1]}
    return {
        "data": data | sections.pop("data", {}),
        "release": [{"name": f"r{place}"} | release for place, release in enumerate(releases)],
        "limits": {"remaining_uncertainty": 0.999, "accept": ["few_values", "homogeneous"]},
        **sections,
    }


def brackets(result: AuditResult) -> dict[str, tuple[float, float]]:
    """Lower and upper end of every listed record."""
    return {
        name: (one.remaining_uncertainty.lower, one.remaining_uncertainty.upper)
        for one in result.exposed
        if one.remaining_uncertainty is not None
        for name in str(one.record).split(", ")
    }


def linear_risks(rows: FloatArray, stddevs: FloatArray) -> FloatArray:
    """What the best linear attack leaves of every value, from the covariance of values and answers."""
    answers = VARIANCE * rows @ rows.T + np.diag(stddevs**2)
    return np.asarray(1 - VARIANCE * np.sum(rows * np.linalg.solve(answers, rows), axis=0))


def spread(count: int) -> list[float]:
    """Different values between 0 and 1."""
    return [float(value) for value in np.round(np.random.default_rng(7).random(count), 5)]


class TestWeights:
    @pytest.mark.parametrize("odd", [1 / 3, 1e-9, 1e9], ids=["third", "tiny", "large"])
    def test_records_that_share_a_real_weight_are_as_many_as_they_are(
        self, odd: float, tmp_path: Path
    ) -> None:
        groups, halves = np.array(list("aaabbbcc")), np.arange(8) % 2
        weights = np.array([odd, 1, 1, 1, 1, 1, 1, 1])
        columns: dict[str, list[Any]] = {
            "id": [f"p{i}" for i in range(8)],
            "g": groups.tolist(),
            "h": halves.tolist(),
            "w": [repr(float(w)) for w in weights],
            "x": spread(8),
        }
        plan = plan_of(
            tmp_path,
            columns,
            {"sql": "SELECT g, SUM(x * w) FROM data GROUP BY g", "noise_stddev": 0.3},
            {"sql": "SELECT h, SUM(x) FROM data GROUP BY h", "noise_stddev": 0.1},
        )
        found = brackets(sl.audit(plan, names=True, top=50))
        rows = np.array([*(weights * (groups == g) for g in "abc"), *(1.0 * (halves == h) for h in (0, 1))])
        risks = linear_risks(rows, np.array([0.3] * 3 + [0.1] * 2))
        assert len(found) == 8
        for place, risk in enumerate(risks):
            lower, upper = found[f"p{place}"]
            assert lower <= upper == pytest.approx(risk, rel=1e-6)

    @pytest.mark.parametrize(
        ("aggregate", "weights", "stddev"),
        [
            ("SUM(x)", [1.0] * 30, 1.5),
            ("SUM(x * w)", [1.0] * 15 + [-1.0] * 15, 1.5),
            ("SUM(x * w)", [-2.0] * 15 + [2.0] * 15, 3.0),
            ("AVG(x * w)", [1.0] * 29 + [0.0], 0.05),
        ],
        ids=["none", "of both signs", "larger", "one is 0"],
    )
    def test_a_sum_at_its_end_tells_all_values_whatever_the_weights(
        self, aggregate: str, weights: list[float], stddev: float, tmp_path: Path
    ) -> None:
        """Without weights the same values are found to be alike: weights hide nothing."""
        ends = [1.0 if weight < 0 else 0.0 for weight in weights]
        columns: dict[str, list[Any]] = {
            "id": [f"p{i}" for i in range(60)],
            "g": ["a"] * 30 + ["b"] * 30,
            "w": weights + [1.0] * 30,
            "x": ends + spread(30),
        }
        plan = plan_of(
            tmp_path, columns, {"sql": f"SELECT g, {aggregate} FROM data GROUP BY g", "noise_stddev": stddev}
        )
        plan["limits"] = {
            "remaining_uncertainty": 0.98,
            "accept": ["few_values"],
        }  # more than the noise alone keeps
        result = sl.audit(plan)
        assert "homogeneous" in [one.name.value for one in result.unverified]
        (alike,) = result.homogeneous
        size = sum(abs(weight) for weight in weights) / max(map(abs, weights))
        noise = stddev * (30 if aggregate.startswith("AVG") else 1) / max(map(abs, weights))
        mean = noise * np.sqrt(2 / np.pi) / size  # of a normal law around 0, cut off below 0
        assert alike.remaining == pytest.approx(mean * (1 - mean) / VARIANCE, rel=1e-6)


class TestLattices:
    @pytest.mark.parametrize(
        ("law", "stddev", "limit"),
        [("discrete-gaussian", 2.0, 0.5), ("discrete-gaussian", 40.0, 0.9), ("geometric", 0.01, 0.99)],
    )
    def test_the_slack_is_that_of_an_audit(
        self, law: str, stddev: float, limit: float, tmp_path: Path
    ) -> None:
        """Noise of whole numbers has its own information: less of it is no Gaussian noise."""
        columns: dict[str, list[Any]] = {
            "id": [f"p{i}" for i in range(40)],
            "g": ["a"] * 20 + ["b"] * 20,
            "x": [i % 2 for i in range(40)],
        }

        def least(deviation: float) -> tuple[AuditResult, float]:
            noise = {"law": law, "stddev": deviation}
            release = {"sql": "SELECT g, SUM(x) FROM data GROUP BY g", "noise": noise}
            plan = plan_of(tmp_path, columns, release)
            plan["data"] = {key: plan["data"][key] for key in ("source", "record", "secret")}
            plan["data"]["kind"] = "boolean"
            plan["limits"]["remaining_uncertainty"] = limit
            result = sl.audit(plan)
            assert result.least_remaining_uncertainty is not None
            return result, result.least_remaining_uncertainty.lower

        today, _ = least(stddev)
        assert today.slack is not None
        factor = today.slack.noise_factor
        assert factor is not None
        assert least(stddev * factor)[1] >= limit
        if law == "geometric" or stddev * factor * 0.97 >= 1.5:  # the least that there are bounds for
            assert least(stddev * factor * 0.97)[1] < limit


class TestCorrelatedNoise:
    COLUMNS: ClassVar[dict[str, list[Any]]] = {
        "id": [f"p{i}" for i in range(40)],
        "g": ["a"] * 20 + ["b"] * 20,
        "x": [0.0] * 40,
    }

    def plan(self, folder: Path, values: list[float], stddev: float, correlation: float) -> Any:
        covariance = stddev**2 * np.array([[1.0, correlation], [correlation, 1.0]])
        return self.planned(folder, values, np.linalg.inv(np.linalg.cholesky(covariance)))

    def planned(self, folder: Path, values: list[float], strategy: np.ndarray) -> Any:
        np.save(folder / "C.npy", strategy)
        noise = {"mechanism": str(folder / "C.npy"), "stddev": 1.0}
        release = {"sql": "SELECT g, SUM(x) FROM data GROUP BY g", "noise": noise}
        plan = plan_of(folder, self.COLUMNS | {"x": values}, release)
        plan["limits"] = {"remaining_uncertainty": 0.5}
        return plan

    def test_the_noise_guarantees_no_more_than_an_attacker_who_knows_all_others_leaves(
        self, tmp_path: Path
    ) -> None:
        """Positive correlation: one number tells the noise of the other, and the record is in one alone."""
        plan = self.plan(tmp_path, spread(40), 0.35, 0.99)
        kept = sl.audit(plan).guaranteed_by_noise
        plan["attacker"] = {"knows": ["id <> 'p3'"]}
        told = sl.audit(plan).least_remaining_uncertainty
        risk = 1 / (1 + VARIANCE / (0.35**2 * (1 - 0.99**2)))
        assert told is not None
        assert told.upper == pytest.approx(risk, rel=1e-9)
        assert kept is not None
        assert kept <= told.lower
        # So a draw of known records cannot be said not to matter.
        plan["attacker"] = {"knows": ["50%"]}
        assert "drawn" in [one.name for one in sl.audit(plan).unverified]

    @pytest.mark.parametrize("correlation", [-0.99, 0.0])
    def test_a_sum_of_groups_has_the_noise_of_its_covariance(
        self, correlation: float, tmp_path: Path
    ) -> None:
        """Noise of opposite signs cancels in the total, which tells that all values are at the bound."""
        result = sl.audit(self.plan(tmp_path, [0.0] * 39 + [1e-3], 4.0, correlation))
        noise = 4.0 * np.sqrt(2 + 2 * correlation)
        mean = noise * np.sqrt(2 / np.pi) / 40
        remaining = mean * (1 - mean) / VARIANCE  # 13 % of the uncertainty, or 120 % if it is independent
        assert (remaining < 0.5) == (correlation < 0)
        found = [one.remaining for one in result.homogeneous]
        assert found == ([pytest.approx(remaining, rel=1e-2)] if remaining < 0.5 else [])

    def test_a_difference_has_the_noise_of_its_covariance(self, tmp_path: Path) -> None:
        """Equal noise on the total and on one group cancels in their difference: the other group."""
        total_and_b = np.array([[1.0, 1.0], [0.0, 1.0]])
        white = np.linalg.inv(np.linalg.cholesky(9.0 * np.array([[1.0, 0.99], [0.99, 1.0]])))
        plan = self.planned(tmp_path, [0.0] * 20 + spread(20), white @ total_and_b)
        mean = 3.0 * np.sqrt(2 - 2 * 0.99) * np.sqrt(2 / np.pi) / 20
        (alike,) = sl.audit(plan).homogeneous
        assert alike.remaining == pytest.approx(mean * (1 - mean) / VARIANCE, rel=1e-9)
