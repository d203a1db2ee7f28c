"""A whole audit on DuckDB, Postgres and Spark: the same decisions, the same numbers to 1e-9."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sightline as sl
from sightline.auditing import session
from sightline.auditing.work import WorkLimits
from sightline.errors import TooMuchWork
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Engine
from tests.tables.table_cases import in_dialect

pytestmark = pytest.mark.slow

ENGINES = ["duckdb_engine", "postgres_engine", "spark_engine"]
PLAN = {
    "data": {
        "source": "homes",
        "record": "home",
        "secret": "load",
        "bounds": [0, 9000],
        "max_rows_per_record": 60,
    },
    "privacy": {"epsilon": 2.0, "delta": 1e-6, "accountant": "gaussian-dp"},
    "limits": {"remaining_uncertainty": "60%"},
    "attacker": {"knows": ["home = 'h3'"]},
    "release": [
        {"name": "all", "sql": "SELECT AVG(load) FROM data", "times": 3},
        {"name": "young", "sql": "SELECT SUM(load) FROM data WHERE age < 40"},
        {
            "name": "streets",
            "sql": 'SELECT "Straße", region, AVG(load) FROM data GROUP BY ROLLUP("Straße", region)',
        },
        {"name": "solar", "sql": "SELECT solar, SUM(load) FILTER (WHERE age >= 30) FROM data GROUP BY solar"},
    ],
}


def plan_for(dialect: str) -> dict[str, object]:
    """The plan in the engine's own SQL."""
    releases = [{**release, "sql": in_dialect(release["sql"], dialect)} for release in PLAN["release"]]
    return {**PLAN, "release": releases}


class Shared:
    """An engine that other tests go on using."""

    def __init__(self, engine: Engine) -> None:
        self.dialect, self.columns, self.fetch = engine.dialect, engine.columns, engine.fetch
        self.fetch_own, self.check_unchanged = engine.fetch_own, engine.check_unchanged
        self.compile_own, self.functions = engine.compile_own, engine.functions
        self.interrupt = engine.interrupt

    def close(self) -> None:
        pass


@pytest.fixture(scope="module", params=ENGINES[1:])
def results(request: pytest.FixtureRequest) -> list[dict[str, object]]:
    found = []
    for name in (ENGINES[0], request.param):
        engine = request.getfixturevalue(name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(session, "open_source", lambda *_, engine=engine, **__: Shared(engine))
            found.append(sl.audit(plan_for(engine.dialect), names=True).model_dump())
    return found


def test_it_exposes_the_same_records_by_the_same_recipes_with_the_same_numbers(results):
    ours, theirs = results
    for name in ("plan", "publishable_plan"):  # the SQL in it is the engine's own
        assert ours.pop(name).count("[[release]]") == theirs.pop(name).count("[[release]]") > 0
    assert ours["identifiable_records"] > 0
    assert differences(ours, theirs) == []


def differences(ours: object, theirs: object, where: str = "") -> list[str]:
    """Where two results differ: numbers by more than 1e-9 of their size, anything else at all."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        assert ours.keys() == theirs.keys()
        return [d for key in ours for d in differences(ours[key], theirs[key], f"{where}.{key}")]
    if isinstance(ours, Sequence) and isinstance(theirs, Sequence) and not isinstance(ours, str):
        if len(ours) != len(theirs):
            return [f"{where}: {len(ours)} and {len(theirs)} entries"]
        return [
            d
            for i, pair in enumerate(zip(ours, theirs, strict=True))
            for d in differences(*pair, f"{where}[{i}]")
        ]
    if isinstance(ours, float) and isinstance(theirs, float):
        same = ours == theirs or math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-15)
        return [] if same else [f"{where}: {ours!r} and {theirs!r}"]
    return [] if ours == theirs else [f"{where}: {ours!r} and {theirs!r}"]


class Late:
    """An engine that begins a query only after the first interrupt, which therefore finds no job."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self.interrupted = engine, Event()

    def fetch_own(self, query: str) -> dict[str, NDArray[np.generic]]:
        assert self.interrupted.wait(20)
        return self._engine.fetch_own(query)

    def interrupt(self) -> None:
        self._engine.interrupt()
        self.interrupted.set()


@pytest.mark.parametrize("late", [False, True])
def test_a_query_on_spark_ends_when_the_time_is_over(spark_session: Any, late: bool) -> None:
    """Left alone, the query answers after 20 seconds: 200 rows that sleep. The session goes on without it.

    The clock stands still once the time is over: nothing but the interrupts may end the query, however slow
    Spark is to plan it.
    """
    spark_session.range(200).createOrReplaceTempView("sleepers")
    engine = open_source(spark_session, base=Path(), table="sleepers")
    asked, began = Late(engine) if late else engine, time.monotonic()
    limits = WorkLimits(
        memory=math.inf, seconds=1.0, clock=lambda: min(time.monotonic(), began + 1.01), began=began
    )
    limits.interrupts.append(asked.interrupt)
    with pytest.raises(TooMuchWork, match="got more, while") as raised, limits.enforced():
        asked.fetch_own(
            "SELECT MAX(slept) AS slept FROM "
            "(SELECT REFLECT('java.lang.Thread', 'sleep', CAST(100 AS BIGINT)) AS slept FROM data) AS nights"
        )
    refused = raised.value.__context__
    assert refused is not None
    assert "SPARK_JOB_CANCELLED" in str(refused.__context__)  # and no other error of the query
    assert engine.fetch("SELECT COUNT(*) AS n FROM data")["n"].tolist() == [200]
    engine.close()
