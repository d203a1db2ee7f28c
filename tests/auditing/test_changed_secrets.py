"""Tables that differ in secrets alone: what may be published of an audit is the same text."""

from __future__ import annotations

from typing import Any

import pyarrow
import pytest

import sightline as sl
from sightline.auditing.result import AuditResult, VerdictStatus

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
