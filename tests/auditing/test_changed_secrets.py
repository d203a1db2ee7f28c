"""Tables that differ in secrets alone: what may be published of an audit is the same text."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyarrow
import pytest

import sightline as sl
from sightline.auditing.result import AuditResult, VerdictStatus
from tests.auditing import fuzz_changed_secrets
from tests.auditing.crossings import Asked, Crossing, drawn


@pytest.mark.slow
def test_what_passes_differs_by_noise_alone() -> None:
    counted = fuzz_changed_secrets.fuzz(3_000, 1e9, most=2)
    assert counted["cases"] == 24


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_what_passes_of_more_plans_differs_by_noise_alone(seed: int) -> None:
    counted = fuzz_changed_secrets.fuzz(4_000 + seed, 1e9, most=5)
    assert counted["cases"] == 60
    assert counted["passed"] > 3  # 7 to 14 of the 60
    assert counted["publishable compared"] > 3  # 7 to 15


class TestItNotices:
    """Plans that pass only because the verdict is changed on purpose."""

    def check(self, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
        audit = sl.audit

        def always_passed(plan: Any) -> AuditResult:
            result = audit(plan, full=True)
            passed = result.verdict.model_copy(update={"status": VerdictStatus.PASSED})
            return result.model_copy(update={"verdict": passed})

        monkeypatch.setattr(sl, "audit", always_passed)
        base = drawn(Random(1))
        columns: dict[str, list[Any]] = {"who": list("ABCD"), "x": [1.0, 9, 3, 4], "g": list("uuvv")}
        crossing = Crossing(
            plan={
                "data": {"record": "who", "secret": "x", "bounds": [0, 10]},
                "attacker": {},
                "release": [{"name": "r", "sql": sql, "noise_stddev": 1e3}],
                "limits": base.plan["limits"],
            },
            columns=columns,
            kind="number",
            asked=(Asked(sql=sql, keys=int("GROUP" in sql)),),
            known=(False,) * 4,
        )
        fuzz_changed_secrets.check_crossing(crossing, Random(2), Counter())

    def test_nothing_if_nothing_is_wrong(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.check("SELECT g, SUM(x) AS n FROM data GROUP BY g", monkeypatch)

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT g, COUNT(*) AS n FROM data WHERE x > 5 GROUP BY g",
            "SELECT g, SUM(CASE WHEN x > 5 THEN 1 END) AS n FROM data GROUP BY g",
        ],
    )
    def test_lines_and_nulls_that_differ(self, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(AssertionError, match="lines, NULLs or types differ"):
            self.check(sql, monkeypatch)


TABLES = ([1.0, 2, 3, 4, 5, 6], [9.0, 9, 9, 9, 9, 8], [0.0] * 6, [1.0, 9, 8, 2, 7, 0])


def audited(secrets: list[float], aggregate: str, stddev: float) -> AuditResult:
    columns = {"who": [f"P{i}" for i in range(6)], "x": secrets, "g": list("uuvvvu")}
    sums = {"name": "sums", "sql": "SELECT g, SUM(x) AS n FROM data GROUP BY g", "noise_stddev": 400.0}
    plan: dict[str, Any] = {
        "data": {"source": pyarrow.table(columns), "record": "who", "secret": "x", "bounds": [0, 10]},
        "release": [
            {"name": "r", "sql": f"SELECT g, {aggregate} AS n FROM data GROUP BY g", "noise_stddev": stddev},
            sums,
        ],
        "limits": {"remaining_uncertainty": 0.5, "accept": ["local", "homogeneous", "few_values"]},
    }
    return sl.audit(plan)


@pytest.mark.slow
@pytest.mark.parametrize("stddev", [300.0, 3.0])
@pytest.mark.parametrize("aggregate", ["AVG(x * x)", "SUM(POWER(x, 3))"])
def test_moments_that_are_accepted_near_the_true_values(aggregate: str, stddev: float) -> None:
    """Whether anything is seen there depends on the values: at 0 a square does not change."""
    found = [audited(list(secrets), aggregate, stddev).publishable() for secrets in TABLES]
    assert len({one.to_json() for one in found}) == 1
    if found[0].guaranteed_by_noise is None or found[0].guaranteed_by_noise < 0.5:
        assert found[0].verdict.status is not VerdictStatus.PASSED, "the owner alone accepts what is seen"
