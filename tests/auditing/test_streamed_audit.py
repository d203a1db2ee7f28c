"""An audit of a table that is streamed says what the audit in memory says, or leaves it out."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sightline as sl
from sightline.auditing import findings, streamed_findings, work
from sightline.auditing.result import AuditResult, VerdictStatus
from sightline.bounds import assessment
from sightline.errors import InvalidPlan, TooMuchWork
from sightline.examples.shipped import example_plan
from sightline.tables.engines import duckdb_engine
from sightline.tables.engines.duckdb_engine import DuckDBEngine
from sightline.tables.rows import count_rows

KEYS = ("a", "b", "c", "d")
SAME: tuple[str, ...] = (
    "rows",
    "records",
    "known_rows",
    "dropped",
    "clipped",
    "cells",
    "signatures",
    "rank",
    "budget",
)
SAME += ("identifiable_records", "identifiable_groups", "exposed_in_all", "distribution", "prior", "bounds")
LEFT_OUT = ("timeline", "alternatives", "what_to_change")


@pytest.fixture
def _streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table that can be is streamed, in small batches; few signatures are kept."""
    monkeypatch.setattr(work, "_PER_SIGNATURE", 1e18)
    monkeypatch.setattr(streamed_findings, "MOST_KEPT", 25)
    monkeypatch.setattr(duckdb_engine, "BATCH", 101)


def in_memory_and_streamed(
    plan: Any, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> tuple[AuditResult, AuditResult]:
    """Both by the bounds that need no other record: those that do are not looked for in streamed tables."""
    sharper = sl.audit(plan, verdict_only=True, **options).least_remaining_uncertainty
    with monkeypatch.context() as patched:
        patched.setattr(assessment, "of_few_values", lambda found, **_: found)
        patched.setattr(findings, "with_walk", lambda design, lower, upper, limit: lower)
        expected = sl.audit(plan, full=True, **options)
    least = expected.least_remaining_uncertainty
    assert sharper is None or least is None or least.lower <= sharper.lower
    with monkeypatch.context() as patched:
        patched.setattr(work, "_PER_SIGNATURE", 1e18)
        patched.setattr(streamed_findings, "MOST_KEPT", 25)
        patched.setattr(duckdb_engine, "BATCH", 501)
        got = sl.audit(plan, **options)
    assert not any("is streamed" in line for line in expected.assumptions)
    return expected, got


def assert_same(expected: AuditResult, got: AuditResult, *, top: int, ties: bool = False) -> None:
    """The upper ends are rounded up by the error that a result states: small designs have less in memory.

    Where there may be ``ties``, the last bit of an error orders them: the numbers are compared, not who.
    """
    assert any("is streamed" in line for line in got.assumptions)
    stated = expected.relative_error + got.relative_error

    def close(one: Any, other: Any, error: float = 0.0) -> bool:
        return one is other is None or bool(other == pytest.approx(one, rel=1e-9 + error, abs=1e-12))

    for name in SAME:
        assert getattr(got, name) == getattr(expected, name), name
    least, own = expected.least_remaining_uncertainty, got.least_remaining_uncertainty
    assert least is not None
    assert own is not None
    assert close(least.lower, own.lower)
    assert close(least.upper, own.upper, stated)
    assert got.guaranteed_by_noise == expected.guaranteed_by_noise
    assert got.verdict.below_limit == expected.verdict.below_limit
    assert len(got.exposed) == len(expected.exposed)
    for one, other in zip(expected.exposed, got.exposed, strict=True):
        for name in () if ties else ("signature", "size", "identifiable", "label", "record", "releases"):
            assert getattr(one, name) == getattr(other, name), name
        assert close(one.rmse, other.rmse)
        assert one.remaining_uncertainty is not None
        assert other.remaining_uncertainty is not None
        assert close(one.remaining_uncertainty.lower, other.remaining_uncertainty.lower)
        assert ties or close(one.remaining_uncertainty.upper, other.remaining_uncertainty.upper, stated)
        assert len(one.named) == len(other.named)
        for period, own_period in zip(one.named, other.named, strict=True) if not ties else ():
            assert period.rows == own_period.rows
            left, own_left = period.remaining_uncertainty, own_period.remaining_uncertainty
            assert close(left.upper, own_left.upper, stated)
            assert close(left.lower, own_left.lower, stated)
        if one.recipe is not None and not ties:
            assert other.recipe is not None
            steps = {(step.release, step.cell): step.weight for step in one.recipe.steps}
            assert close(steps, {(step.release, step.cell): step.weight for step in other.recipe.steps})
    assert bool(got.homogeneous) == bool(expected.homogeneous)
    assert_homogeneous(expected, got)
    for name in LEFT_OUT:
        assert getattr(got, name) == (), name
    assert got.slack is None
    assert all(one.newly_exposes is None for one in got.releases)


def assert_homogeneous(expected: AuditResult, got: AuditResult) -> None:
    """Published numbers are the same; of the sums of several a streamed table may list others."""
    sides = []
    for result in (expected, got):
        listed = [one for one in result.homogeneous or () if one.text.startswith('"')]
        alone = [one for one in listed if " less " not in one.text and "averaged" not in one.text]
        sides.append({(one.release, one.cell, one.rows, round(one.remaining, 9)) for one in alone})
    assert sides[0] == sides[1]


def table(
    folder: Path, seed: int, *, rows: int = 260, secret: str = "number", persons: int | None = None
) -> Path:
    """Rows with four keys, the last of many values, and a secret: of so many persons, or each of another."""
    file = folder / f"t{seed}.parquet"
    who = "i" if persons is None else f"(hash(7 * i + {seed}) % {persons})"
    drawn = f"hash(11 * {who} + 5)" if secret == "constant" else "hash(-i)"
    value = f"{drawn} % 1000 / 1000.0" if secret != "boolean" else "CAST(hash(-i) % 2 AS INTEGER)"
    columns = ", ".join(
        f"CAST(hash(4 * i + {place + 4_000 * seed}) % {size} AS INTEGER) AS {key}"
        for place, (key, size) in enumerate(zip(KEYS, (3, 4, 5, 40), strict=True))
    )
    duckdb.sql(
        f"COPY (SELECT 'p' || {who} AS who, {columns}, {value} AS x, CAST(i % 3 AS VARCHAR) AS t "
        f"FROM range({rows}) AS t(i)) TO '{file}'"
    )
    return file


def plan_of(file: Path, *sql: str, boolean: bool = False, **sections: Any) -> dict[str, Any]:
    data: dict[str, Any] = {"source": str(file), "record": "who", "secret": "x"}
    if not boolean:
        data["bounds"] = [0, 1]
    else:
        data["kind"] = "boolean"
    return {
        "data": data,
        "limits": {"remaining_uncertainty": 0.9},
        "privacy": {"epsilon": 40.0, "delta": 1e-6, "accountant": "zcdp"},
        **sections,
        "release": [{"name": f"r{place}", "sql": one} for place, one in enumerate(sql)],
    }


@pytest.mark.thorough
def test_keys_whose_codes_no_integer_holds_are_streamed_like_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine keys of 130 values each: 131^9 numbers are more than 2^62."""
    half = "CAST(SUBSTRING(who, 2) AS INTEGER) // 2"
    keys = ", ".join(f"{half} + {place}" for place in range(9))
    wide = f"SELECT {keys}, SUM(x) FROM data WHERE c > 0 GROUP BY {keys}"
    plan = plan_of(table(tmp_path, 3), wide, "SELECT a, SUM(x) FROM data GROUP BY a")
    expected, got = in_memory_and_streamed(plan, monkeypatch)
    assert expected.cells == got.cells > 100
    assert_same(expected, got, top=5, ties=True)


QUERIES = (
    "SELECT a, AVG(x) FROM data GROUP BY a",
    "SELECT b, c, AVG(x) FROM data WHERE a > 0 GROUP BY b, c",
    "SELECT d, SUM(x) FROM data GROUP BY d",
    "SELECT AVG(x) FROM data WHERE c <> 2",
)
NESTED = (
    "SELECT a, b, AVG(x) FROM data GROUP BY CUBE (a, b)",
    "SELECT d, AVG(x) FROM data GROUP BY d",
    "SELECT d, a, SUM(x) FROM data GROUP BY d, a",
)
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "known": {"attacker": {"knows": ["d < 6"]}},
    "cos2": {"attacker": {"prior": "cos2"}},
    "two-point": {"attacker": {"prior": "two-point", "knows": ["b = 1"]}},
    "laplace": {"privacy": {"epsilon": 60.0, "accountant": "laplace"}},
    "own releases": {"privacy": {"epsilon": 40.0, "delta": 1e-6, "accountant": "per-record"}},
}


@pytest.mark.parametrize("name", [pytest.param("health_survey", marks=pytest.mark.thorough), "salaries"])
def test_shipped_data_streamed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, got = in_memory_and_streamed(example_plan(name), monkeypatch, names=True)
    assert_same(expected, got, top=20)
    assert got.verdict == expected.verdict
    assert got.verdict.status is VerdictStatus.PASSED


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_random_tables_streamed(tmp_path: Path, setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = NESTED if setting in ("cos2", "two-point", "laplace") else QUERIES
    plan = plan_of(table(tmp_path, len(setting)), *queries, **SETTINGS[setting])
    expected, got = in_memory_and_streamed(plan, monkeypatch, top=8, names=True)
    assert_same(expected, got, top=20)


@pytest.mark.thorough
def test_a_release_without_rows_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = "SELECT b, AVG(x) FROM data WHERE a > 99 GROUP BY b"
    accepted = {"remaining_uncertainty": 0.5, "accept": ["empty"]}
    plan = plan_of(table(tmp_path, 2, rows=90), QUERIES[0], nobody, QUERIES[2], limits=accepted)
    assert_same(*in_memory_and_streamed(plan, monkeypatch), top=20)


PERSONS: dict[str, dict[str, Any]] = {
    "few rows": {"persons": 120},
    "many rows": {"persons": 4, "rows": 500},
    "known": {"persons": 60, "knows": ["d < 6"]},
    "known, one value": {"persons": 60, "knows": ["d < 6"], "secret": "constant"},
    "own releases": {"persons": 60, "accountant": "per-record", "sensitivity": "memberships"},
}


def persons_plan(folder: Path, name: str) -> dict[str, Any]:
    """A plan about persons with several rows."""
    setting = dict(PERSONS[name])
    privacy = {"epsilon": 40.0, "delta": 1e-6, "accountant": setting.pop("accountant", "zcdp")}
    privacy |= {"sensitivity": setting.pop("sensitivity")} if "sensitivity" in setting else {}
    attacker = {"knows": setting.pop("knows", [])}
    plan = plan_of(table(folder, len(name), **setting), *QUERIES, privacy=privacy, attacker=attacker)
    plan["data"] |= {"max_rows_per_record": 200}
    plan["data"] |= {"values": "constant"} if setting.get("secret") == "constant" else {}
    # Features of several rows are named where rows have nothing in common.
    plan["data"] |= {"values": "independent"} if name == "many rows" else {}
    return plan


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", PERSONS)
def test_persons_streamed(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = persons_plan(tmp_path, name)
    expected, got = in_memory_and_streamed(plan, monkeypatch, top=8, names=True)
    assert_same(expected, got, top=20, ties=name != "many rows")
    assert name != "many rows" or any(one.named for one in got.exposed)
    assert [line for line in got.assumptions if "rows" in line and "stream" not in line] == [
        line for line in expected.assumptions if "rows" in line and "kinds of rows" not in line
    ]
    assert sorted(one.record or "" for one in got.exposed if one.rows) == sorted(
        one.record or "" for one in expected.exposed if one.rows
    )


@pytest.mark.parametrize(("room_for", "stored"), [("a line a row", 1), ("every line", 2)])
def test_persons_who_fit_the_memory_are_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room_for: str, stored: int
) -> None:
    """Few signatures of many rows: persons have at most a line a row, which is known without a store."""
    plan = plan_of(table(tmp_path, 1, persons=8), "SELECT a, AVG(x) FROM data GROUP BY a")
    plan["data"] |= {"max_rows_per_record": 200}
    expected = sl.audit(plan, full=True)
    stores: list[str] = []
    store = DuckDBEngine.store_signatures

    def counting(self: DuckDBEngine, query: str, *, columns: Any) -> Any:
        stores.append(query)
        return store(self, query, columns=columns)

    lines = 8 * expected.signatures
    assert 2 * lines < expected.rows
    monkeypatch.setattr(DuckDBEngine, "store_signatures", counting)
    monkeypatch.setattr(work, "_PER_SIGNATURE", 1e9)
    monkeypatch.setattr(work, "_PER_LINE", 1e7)
    room = 1e7 * (expected.rows if room_for == "a line a row" else lines)
    got = sl.audit(plan, max_memory=1.01e9 * expected.signatures + room, full=True)
    assert len(stores) == stored
    assert got.to_json() == expected.to_json()


@pytest.mark.parametrize("persons", [None, 30])
def test_nobody_is_unknown_in_a_streamed_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, persons: int | None
) -> None:
    file = table(tmp_path, 1, rows=60, persons=persons)
    plan = plan_of(file, *QUERIES[:2], attacker={"knows": ["d >= 0"]})
    plan["data"] |= {"max_rows_per_record": 60}
    expected, got = in_memory_and_streamed(plan, monkeypatch)
    for name in ("least_remaining_uncertainty", "distribution", "known_rows", "exposed", "verdict"):
        assert getattr(got, name) == getattr(expected, name), name


def test_persons_of_whom_too_much_may_be_identifiable_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = table(tmp_path, 0, rows=60, persons=6)
    plan = plan_of(file, "SELECT who, d, SUM(x) FROM data GROUP BY who, d")
    plan["data"] |= {"max_rows_per_record": 60}
    monkeypatch.setattr(work, "_PER_SIGNATURE", 1e18)
    monkeypatch.setattr(streamed_findings, "AT_A_TIME", 2)
    with pytest.raises(TooMuchWork, match=r"up to 16 kinds of rows of whom something may be .*, got \d+ of"):
        sl.audit(plan)


@pytest.mark.thorough
def test_noise_of_several_laws_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(table(tmp_path, 3), *QUERIES)
    plan["release"][0] |= {"noise": {"law": "laplace", "epsilon": 2.0}, "times": 2}
    plan["release"][2] |= {"noise_stddev": 2.0}
    expected, got = in_memory_and_streamed(plan, monkeypatch, top=8)
    assert_same(expected, got, top=20)


@pytest.mark.thorough
def test_a_yes_or_no_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = table(tmp_path, 1, secret="boolean")
    plan = plan_of(file, "SELECT d, SUM(x) FROM data GROUP BY d", QUERIES[0], boolean=True)
    assert_same(*in_memory_and_streamed(plan, monkeypatch), top=20)
    plan["release"][0] |= {
        "noise": {"law": "discrete-gaussian", "noise_multiplier": 2.5**0.5}
    }  # noise of whole numbers
    assert_same(*in_memory_and_streamed(plan, monkeypatch), top=20)


@pytest.mark.thorough
def test_little_memory_streams_a_table_and_much_does_not(tmp_path: Path) -> None:
    rows = 70_000
    file = tmp_path / "t.parquet"
    columns = ", ".join(f"CAST(hash(8 * i + {key}) % 6 AS INTEGER) AS k{key}" for key in range(8))
    duckdb.sql(
        f"COPY (SELECT i AS who, {columns}, hash(-i) % 100 / 100.0 AS x FROM range({rows}) AS t(i)) "
        f"TO '{file}'"
    )
    plan = plan_of(file, *(f"SELECT k{key}, AVG(x) FROM data GROUP BY k{key}" for key in range(8)), limits={})
    expected, got = sl.audit(plan, full=True), sl.audit(plan, max_memory="25MB")
    assert any("is streamed" in line for line in got.assumptions)
    assert got.signatures > 60_000
    assert_same(expected, got, top=20)
    # Few signatures of many rows are read into memory after all.
    few = plan_of(file, *(f"SELECT k{key}, AVG(x) FROM data GROUP BY k{key}" for key in range(3)), limits={})
    assert_equal_results(sl.audit(few, full=True), sl.audit(few, max_memory="25MB", full=True))


def assert_equal_results(expected: AuditResult, got: AuditResult) -> None:
    assert got.to_json() == expected.to_json()


GROUPED = "SELECT d, AVG(x) FROM data GROUP BY d"


@pytest.mark.parametrize(
    ("sql", "data", "reason"),
    [
        (["SELECT a, AVG(x * x) FROM data GROUP BY a"], {}, "moments or thresholds are published"),
        (["SELECT AVG(x) FROM data"], {}, "nothing that is published has groups or conditions"),
        (["SELECT d, SUM(x * a) FROM data GROUP BY d"], {}, "rows have weights"),
        (
            ["SELECT d, t, COUNT(*) FROM data GROUP BY d, t"],
            {"secret": "t", "bounds": None, "categories": ["0", "1", "2"]},
            "the secret is a category",
        ),
        (
            [f"SELECT AVG(x) FROM data WHERE d <> {number}" for number in range(63)],
            {},
            "more than 62 conditions are published",
        ),
    ],
)
def test_what_cannot_be_streamed_says_why(
    tmp_path: Path, sql: list[str], data: dict[str, Any], reason: str
) -> None:
    plan = plan_of(table(tmp_path, 0), *sql)
    plan["data"] = {key: value for key, value in (plan["data"] | data).items() if value is not None}
    with pytest.raises(TooMuchWork, match=f"the table is not streamed, because {reason}"):
        sl.audit(plan, max_memory=7)


def test_withheld_numbers_are_not_streamed(tmp_path: Path) -> None:
    plan = plan_of(table(tmp_path, 0), GROUPED)
    plan["release"][0]["withhold"] = [["3"]]
    with pytest.raises(TooMuchWork, match="because numbers are withheld"):
        sl.audit(plan, max_memory=7)


@pytest.mark.usefixtures("_streams")
def test_noise_that_a_streamed_table_is_not_assessed_with_is_refused(tmp_path: Path) -> None:
    plan = plan_of(table(tmp_path, 0), *QUERIES[:2])
    plan["release"][1] |= {"noise": {"law": "none"}}
    with pytest.raises(TooMuchWork, match=r"independent noise on all numbers .* got numbers without noise"):
        sl.audit(plan)


@pytest.mark.usefixtures("_streams")
def test_rows_that_change_while_they_are_read_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sightline.tables.collect.count_rows", lambda *seen: replace(count_rows(*seen), present=259)
    )
    with pytest.raises(InvalidPlan, match="signatures of 259 rows, got those of 260"):
        sl.audit(plan_of(table(tmp_path, 0), *QUERIES))


@pytest.mark.usefixtures("_streams")
def test_an_interrupted_pass_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spill"))
    (tmp_path / "spill").mkdir()

    def stop(stage: str, share: float) -> None:
        if stage == "assessing every record" and share > 0.2:
            assert list((tmp_path / "spill").iterdir())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sl.audit(plan_of(table(tmp_path, 0), *QUERIES), progress=stop)
    assert not list((tmp_path / "spill").iterdir())


FULL_DISK = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))
from sightline.cli import main
sys.exit(main(["audit", sys.argv[1], "--max-memory", "55MB"]))
"""


@pytest.mark.thorough
def test_a_full_disk_is_refused_in_one_line_and_nothing_is_left(tmp_path: Path) -> None:
    file, spill = tmp_path / "t.parquet", tmp_path / "spill"
    spill.mkdir()
    duckdb.sql(
        "COPY (SELECT i AS who, CAST(hash(3 * i) % 3000 AS INTEGER) AS a, "
        "CAST(hash(3 * i + 1) % 3000 AS INTEGER) AS b, CAST(hash(3 * i + 2) % 30 AS INTEGER) AS c, "
        "hash(-i) % 100 / 100.0 AS x FROM range(1500000) AS t(i)) "
        f"TO '{file}'"
    )
    (tmp_path / "plan.toml").write_text(
        f"""
[data]
source = "{file}"
record = "who"
secret = "x"
bounds = [0, 1]
[[release]]
name = "a"
sql = "SELECT a % 50, AVG(x) FROM data GROUP BY a % 50"
noise_stddev = 1.0
[[release]]
name = "b"
sql = "SELECT b % 60, AVG(x) FROM data GROUP BY b % 60"
noise_stddev = 1.0
[[release]]
name = "c"
sql = "SELECT c, a % 37, AVG(x) FROM data GROUP BY c, a % 37"
noise_stddev = 1.0
"""
    )
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "plan.toml")],
        env={**os.environ, "TMPDIR": str(spill)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "a disk that is full" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(spill.iterdir())
