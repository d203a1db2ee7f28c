"""The same plans on DuckDB, Postgres and Spark have the same verdict and numbers, or are refused.

``python -c "from tests.tables.fuzz_engines import fuzz; print(fuzz(1, 3000, most=300))"`` compares 300.
"""

from __future__ import annotations

import pytest

from tests.tables.fuzz_engines import fuzz


@pytest.mark.thorough
def test_a_few_plans_are_audited_alike_on_every_engine() -> None:
    counts = fuzz(2, 60.0, most=6)
    assert counts["plans"] >= 1
    assert counts["duckdb: audited"] == counts["plans"]
