"""Every door that answers whether a plan passes, each as a function from a plan to its answer.

``python -m tests.auditing.no_false_pass.doors`` prints the table: cases × doors.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sightline as sl
from sightline.auditing import session, streamed_findings, work
from sightline.auditing.reading import plan_file_text, read_plan
from sightline.auditing.result import AuditResult
from sightline.errors import SightlineError
from sightline.ledger.agent_answers import Answer, may_publish
from sightline.ledger.book import Ledger
from sightline.ledger.decision import ReleaseDecision
from sightline.records.release_record import plan_of, read_record, records_of
from sightline.tables.engines import duckdb_engine
from sightline.tables.engines.open import open_source
from sightline.tables.engines.spark_engine import SparkEngine
from tests.auditing.no_false_pass.catalogue import CASES, FAILED, REFUSED, Plan
from tests.tables.servers import binaries, running_postgres, running_spark

Door = Callable[[Plan, Path, pytest.MonkeyPatch], AuditResult]


def in_memory(plan: Plan, folder: Path, patch: pytest.MonkeyPatch) -> AuditResult:
    """An audit as usual."""
    return sl.audit(plan)


def streamed(plan: Plan, folder: Path, patch: pytest.MonkeyPatch) -> AuditResult:
    """In passes over a table that does not fit the memory, where there are such for what is published."""
    patch.setattr(work, "_PER_SIGNATURE", 1e18)
    patch.setattr(streamed_findings, "MOST_KEPT", 5)
    patch.setattr(duckdb_engine, "BATCH", 7)
    return sl.audit(plan)


def verdict_only(plan: Plan, folder: Path, patch: pytest.MonkeyPatch) -> AuditResult:
    """Without what a reader looks at next."""
    return sl.audit(plan, verdict_only=True)


def publishable(plan: Plan, folder: Path, patch: pytest.MonkeyPatch) -> AuditResult:
    """What a reader is given: it names no reason for the owner only, and does not pass either."""
    result = sl.audit(plan)
    assert result.publishable().verdict.passed is False
    return result


def added(plan: Plan, folder: Path) -> tuple[Ledger, ReleaseDecision]:
    """A ledger with all releases of a plan, and what it says of the last one after the others."""
    head = {name: section for name, section in plan.items() if name != "release"}
    (folder / "head.toml").write_text(toml(head), encoding="utf-8")
    (folder / "key").write_bytes(b"sixteen bytes or more")
    book = Ledger.start(folder / "ledger", head=folder / "head.toml", values="one", key=folder / "key")
    for release in plan["release"]:
        decision, number = book.add(release, despite="a test")
        assert number is not None
    assert book.log()[-1].despite  # it was refused, and is there only despite that
    return book, decision


def ledger(plan: Plan, folder: Path, patch: pytest.MonkeyPatch) -> AuditResult:
    """Release by release."""
    return added(plan, folder)[1].result


def agents(plan: Plan, folder: Path, patch: pytest.MonkeyPatch) -> AuditResult:
    """What a program that asks a ledger on somebody's behalf is told of the last release: no yes."""
    decision = added(plan, folder)[1]
    assert may_publish(decision).answer is not Answer.YES
    return decision.result


def ledger_plan(plan: Plan, folder: Path, patch: pytest.MonkeyPatch) -> AuditResult:
    """The plan that a ledger writes of everything, over a table that it makes."""
    return sl.audit(added(plan, folder)[0].plan(folder / "all.toml"))


def records(plan: Plan, folder: Path, patch: pytest.MonkeyPatch) -> AuditResult:
    """From the records of published releases, with the attacker, the limit and the rules of the plan."""
    whole, _ = read_plan(plan)
    files = {}
    for place, record in enumerate(records_of(whole)):
        path = folder / f"{place}.json"
        path.write_text(record.text(), encoding="utf-8")
        files[path.name] = read_record(path)
    again = plan_of(files, source=str(plan["data"]["source"]))
    stated = {name: getattr(whole, name) for name in ("attacker", "limits", "rules", "secrets")}
    (folder / "again.toml").write_text(plan_file_text(again.model_copy(update=stated)), encoding="utf-8")
    return sl.audit(folder / "again.toml")


DOORS: dict[str, Door] = {
    "in memory": in_memory,
    "streamed": streamed,
    "verdict only": verdict_only,
    "publishable": publishable,
    "ledger": ledger,
    "ledger for agents": agents,
    "ledger plan": ledger_plan,
    "records": records,
}


def on_postgres(url: str) -> Door:
    """An audit of the same table on a server."""
    import psycopg

    def audited(plan: Plan, folder: Path, patch: pytest.MonkeyPatch) -> AuditResult:
        table = pl.read_parquet(plan["data"]["source"])
        kinds = {pl.Boolean: "BOOLEAN", pl.Int64: "BIGINT", pl.Float64: "DOUBLE PRECISION"}
        columns = ", ".join(f"{name} {kinds[type(kind)]}" for name, kind in table.schema.items())
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS gate")
            cursor.execute(f"CREATE TABLE gate ({columns})")
            marks = ", ".join(["%s"] * table.width)
            cursor.executemany(f"INSERT INTO gate VALUES ({marks})", table.rows())
        data = {**plan["data"], "source": f"{url}?table=public.gate"}
        return sl.audit({**plan, "data": data, "release": [_on_postgres(one) for one in plan["release"]]})

    return audited


def _on_postgres(release: dict[str, Any]) -> dict[str, Any]:
    """Postgres rounds to thousands a NUMERIC alone."""
    return {**release, "sql": release["sql"].replace("ROUND(SUM(x),", "ROUND(CAST(SUM(x) AS NUMERIC),")}


def on_spark(spark: Any) -> Door:
    """An audit of the same table in a Spark session."""

    def audited(plan: Plan, folder: Path, patch: pytest.MonkeyPatch) -> AuditResult:
        spark.read.parquet(plan["data"]["source"]).createOrReplaceTempView("gate")

        def opened(*_: Any, **__: Any) -> SparkEngine:
            engine = open_source(spark, base=Path(), table="gate")
            assert isinstance(engine, SparkEngine)
            return engine

        patch.setattr(session, "open_source", opened)
        return sl.audit({**plan, "data": {**plan["data"], "source": "spark://local[1]?table=gate"}})

    return audited


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(own)}" for key, own in value.items()) + " }"
    return json.dumps(value)


def toml(sections: Plan) -> str:
    """A plan file."""
    lines = []
    for name, section in sections.items():
        many = isinstance(section, list)
        for one in section if many else [section]:
            lines.append(f"[[{name}]]" if many else f"[{name}]")
            lines += [f"{key} = {_value(value)}" for key, value in one.items()]
    return "\n".join(lines) + "\n"


def answered(door: Door, plan: Plan, folder: Path, patch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Why the plan does not pass by a door: a reason and the words of a refusal; "passed" if it does."""
    try:
        result = door(plan, folder, patch)
    except SightlineError as refusal:
        return REFUSED, str(refusal)
    status = result.verdict.status
    assert status is not None
    if status.value == FAILED:
        return FAILED, ""
    open_ones = sorted({one.name.value for one in result.unverified if not one.accepted})
    return ", ".join(open_ones) or status.value, ""


def _table() -> None:
    programs = binaries()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        doors = dict(DOORS)
        if programs is not None:
            doors["Postgres"] = on_postgres(stack.enter_context(running_postgres(programs)))
        doors["Spark"] = on_spark(stack.enter_context(running_spark(folder / "warehouse")))
        for case in CASES:
            print(f"{case.name} ({case.reason})")
            for name, door in doors.items():
                if case.engine not in ("", name):
                    continue
                own = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
                with pytest.MonkeyPatch.context() as patch:
                    answer = answered(door, case.written(own), own, patch)
                print(f"    {name}: {': '.join(filter(None, answer))}")


if __name__ == "__main__":
    _table()
