"""Hunt with random releases for a cell that the audit reads differently from DuckDB."""

from __future__ import annotations

from sightline.tables.engines.protocol import Engine
from tests.tables.sql_oracle import Run, differences, hunt

TOGETHER = 60  # releases in one audit


def check(engine: Engine, run: Run, seed: int) -> None:
    """Raise at the first difference."""
    different = differences(engine, run, seed, TOGETHER)
    assert not different, f"seed {seed}: {different[0]}"


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Compare random releases until the seconds are over; raise at the first difference."""
    audits = hunt(check, seed, seconds)
    return {"releases": audits * TOGETHER, "audits": audits}
