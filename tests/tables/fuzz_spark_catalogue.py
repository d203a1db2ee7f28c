"""Hunt with the whole catalogue on Spark: some queries in one audit, against what Spark itself answers."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from tests.numbered_cases import check_cases
from tests.tables.catalogue_cases import Opened, different, opened_on_spark, themes
from tests.tables.servers import has_java, running_spark

MOST = 8  # queries in one audit


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Audit some queries of a theme together until the seconds are over; raise at the first difference."""
    if not has_java():
        return {"without Java": 1}
    with tempfile.TemporaryDirectory() as name, running_spark(Path(name) / "warehouse") as session:
        opened = opened_on_spark(session, Path(name))

        def check(draw: np.random.Generator, trial: int, count: Counter[str]) -> None:
            audit_some(opened, draw, trial, count)

        return check_cases(check, seed, seconds)


def audit_some(opened: Opened, draw: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """Audit some queries of one theme, theme after theme."""
    theme = themes()[trial % len(themes())]
    queries = [query for query in theme.queries if query.refused is None and "spark" in query.only]
    chosen = draw.permutation(len(queries))[: int(draw.integers(1, MOST + 1))]
    found = different(opened, theme, [queries[place] for place in chosen])
    assert found == [], found
    count["audits"] += 1
    count["queries"] += len(chosen)
