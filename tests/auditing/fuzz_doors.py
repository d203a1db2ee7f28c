"""One plan by every door and in other words: no door is milder than one audit of everything.

Tables and plans are drawn; a plan is written again (columns, releases and the table have other names, the SQL
is spelled otherwise, releases are in another order), read in passes, and split into entries of a ledger in
any order, whose own plan is audited, too. A hunt that has the time for it starts Postgres and Spark, and asks
them in their own dialects.

``python -m tools.fuzz --entry tests.auditing.fuzz_doors --seed 1 --seconds 600`` runs it alone.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import sqlglot

import sightline as sl
from sightline.auditing.result import AuditResult, VerdictStatus
from sightline.errors import SightlineError
from tests.auditing.no_false_pass.catalogue import Plan
from tests.auditing.no_false_pass.doors import Door, on_postgres, on_spark, streamed, toml
from tests.numbered_cases import check_cases
from tests.tables.servers import binaries, has_java, running_postgres, running_spark

STRICTNESS = {VerdictStatus.PASSED: 0, VerdictStatus.NOT_SHOWN: 1, VerdictStatus.FAILED: 2}
REFUSED = 3
GROUPS = ("g", "h")
ENGINES: dict[str, Door] = {}  # those that run, by the name of their dialect
_TIME_FOR_ENGINES = 60.0  # seconds of a hunt that pay for starting them


def draw(rng: np.random.Generator, folder: Path) -> Plan:
    """A plan over a table of people with one row each, in a file."""
    people = int(rng.integers(6, 40))
    kind = str(rng.choice(["number", "number", "boolean"]))
    x = rng.uniform(0, 10, people) if kind == "number" else rng.random(people) < 0.5
    columns = {name: rng.integers(0, 4, people) for name in GROUPS}
    pl.DataFrame({"who": np.arange(people), "x": x, **columns}).write_parquet(folder / "t.parquet")
    about = {"bounds": [0, 10]} if kind == "number" else {"kind": "boolean"}
    size = 10.0 if kind == "number" else 1.0
    releases = []
    for place in range(int(rng.integers(1, 4))):
        aggregate = (
            "COUNT(*) FILTER (WHERE x)" if kind == "boolean" else str(rng.choice(["SUM(x)", "AVG(x)"]))
        )
        by = str(rng.choice([*GROUPS, ""]))
        where = f" WHERE who <> {int(rng.integers(people))}" if rng.random() < 0.3 else ""
        sql = f"SELECT {by}, {aggregate} AS n FROM data{where} GROUP BY {by}" if by else ""
        releases.append(
            {
                "name": f"r{place}",
                "sql": sql or f"SELECT {aggregate} AS n FROM data{where}",
                "noise_stddev": float(size * 10 ** rng.uniform(-1, 1)),
            }
        )
    return {
        "data": {"source": str(folder / "t.parquet"), "record": "who", "secret": "x", **about},
        "limits": {"remaining_uncertainty": float(rng.choice([0.2, 0.5, 0.8]))},
        "release": releases,
    }


def written_otherwise(plan: Plan, rng: np.random.Generator, folder: Path) -> Plan:
    """The same releases in other words."""
    table = pl.read_parquet(plan["data"]["source"])
    names = {"who": "Person ID", "x": "Value", "g": "zone", "h": "House Kind"}
    table.rename(names).sample(fraction=1.0, shuffle=True, seed=1).write_parquet(folder / "other.parquet")

    def again(release: dict[str, Any], place: int) -> dict[str, Any]:
        words = []
        for word in release["sql"].replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split():
            words.append(f'"{names[word]}"' if word in names else word)
        sql = " ".join(word.lower() if word.isupper() else word for word in words)
        return {**release, "sql": f"/* again */ {sql}", "name": f"number {place}"}

    order = rng.permutation(len(plan["release"])).tolist()
    data = {
        **plan["data"],
        "source": str(folder / "other.parquet"),
        "record": names["who"],
        "secret": names["x"],
    }
    return {**plan, "data": data, "release": [again(plan["release"][i], i) for i in order]}


def in_dialect(plan: Plan, dialect: str) -> Plan:
    """The same plan, in the SQL of another engine, with every name in its quotes."""
    return {
        **plan,
        "release": [
            {**one, "sql": sqlglot.transpile(one["sql"], "duckdb", dialect, identify=True)[0]}
            for one in plan["release"]
        ],
    }


@contextmanager
def engines(folder: Path) -> Iterator[None]:
    """Postgres and Spark, where they are installed."""
    with ExitStack() as stack:
        stack.callback(ENGINES.clear)
        programs = binaries()
        if programs is not None:
            ENGINES["postgres"] = on_postgres(stack.enter_context(running_postgres(programs)))
        if has_java():
            ENGINES["spark"] = on_spark(stack.enter_context(running_spark(folder / "warehouse")))
        yield


def _strictness(answer: Callable[[], AuditResult]) -> tuple[int, AuditResult | None]:
    try:
        result = answer()
    except SightlineError:
        return REFUSED, None
    assert result.verdict.status is not None
    return STRICTNESS[result.verdict.status], result


def _same(words: str, least: int, whole: AuditResult | None, answer: Callable[[], AuditResult]) -> None:
    """The verdict of one audit, the same people below the limit, and the same ends."""
    found, other = _strictness(answer)
    assert found == least, f"{words}: {found}, not {least}"
    if whole is not None and other is not None:
        assert other.verdict.below_limit == whole.verdict.below_limit, words
        ends = (one.least_remaining_uncertainty for one in (whole, other))
        first, second = ((one.lower, one.upper) if one else None for one in ends)
        assert second == (pytest.approx(first, rel=1e-6) if first else None), words


def check(rng: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """One plan by every door."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        plan = draw(rng, folder)
        least, whole = _strictness(lambda: sl.audit(plan))
        _same("in other words", least, whole, lambda: sl.audit(written_otherwise(plan, rng, folder)))
        for dialect, engine in ENGINES.items():
            with pytest.MonkeyPatch.context() as own:
                _same(dialect, least, whole, lambda: engine(in_dialect(plan, dialect), folder, own))  # noqa: B023
            count[dialect] += 1
        split = {**plan, "release": [plan["release"][i] for i in rng.permutation(len(plan["release"]))]}
        (folder / "ledger").mkdir()
        doors = {
            "ledger": lambda: _ledger(split, folder / "ledger", patch)[0],
            "ledger plan": lambda: sl.audit(folder / "ledger" / "all.toml"),
            "streamed": lambda: streamed(plan, folder, patch),
        }
        for door, answer in doors.items():
            found, _ = _strictness(answer)
            assert found >= least, f"{door}: {found} is milder than {least}\n{toml(plan)}"
            count[door if found == least else f"{door}, stricter"] += 1
        count["plans"] += 1


def _ledger(plan: Plan, folder: Path, patch: pytest.MonkeyPatch) -> tuple[AuditResult, None]:
    """What a ledger says of the last release after the others; its plan of all is written beside it."""
    from sightline.ledger.book import Ledger

    head = {name: section for name, section in plan.items() if name != "release"}
    (folder / "head.toml").write_text(toml(head), encoding="utf-8")
    (folder / "key").write_bytes(b"sixteen bytes or more")
    book = Ledger.start(folder / "book", head=folder / "head.toml", values="one", key=folder / "key")
    for release in plan["release"]:
        decision, _ = book.add(release, despite="a test")
    book.plan(folder / "all.toml")
    return decision.result, None


def fuzz(seed: int, seconds: float, *, most: float = math.inf) -> dict[str, int]:
    """Cases 0, 1, … of a seed until the time is up, or until there were ``most``; long hunts ask engines."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        if seconds >= _TIME_FOR_ENGINES and math.isinf(most):
            stack.enter_context(engines(Path(name)))
        return check_cases(check, seed, seconds, most=most)
