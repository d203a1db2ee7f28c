"""Hunt with random releases for a cell that the audit reads differently from DuckDB."""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path

from tests.tables.sql_oracle import differences, duckdb_tables

TOGETHER = 60  # releases in one audit


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Compare random releases until the seconds are over; raise at the first difference."""
    until = time.monotonic() + seconds
    audits = 0
    with tempfile.TemporaryDirectory() as folder:
        engine, run, connection = duckdb_tables(Path(folder))
        try:
            for case_seed in itertools.count(seed):
                different = differences(engine, run, case_seed, TOGETHER)
                assert not different, f"seed {case_seed}: {different[0]}"
                audits += 1
                if time.monotonic() > until:
                    break
        finally:
            engine.close()
            connection.close()
    return {"releases": audits * TOGETHER, "audits": audits}
