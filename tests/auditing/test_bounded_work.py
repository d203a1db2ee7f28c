"""An audit that needs too much is refused with the number, and ends when its time is over."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

import sightline as sl
from sightline.auditing import work
from sightline.auditing.work import WorkLimits, memory_of
from sightline.cli import main
from sightline.errors import InvalidInput, TooMuchWork
from sightline.examples.shipped import example_plan
from sightline.jobs import assemble
from sightline.privacy.registry import account
from sightline.tables.engines.open import open_source
from sightline.units.sparse_row_solver import RouteCost

MICROGRID = str(example_plan("microgrid"))


def ticking(step: float) -> Callable[[], float]:
    """A clock that goes on by a step whenever it is looked at."""
    return itertools.count(0.0, step).__next__


def plan_with(folder: Path, rows: int, *sql: str, times: int = 1) -> dict[str, Any]:
    """Rows with 8 columns of 2 values, a number of their own, and a secret from 0 to 10."""
    draw = random.Random(0)
    columns = [f"k{place}" for place in range(8)]
    lines = [",".join(["who", "n", *columns, "x"])]
    for row in range(rows):
        values = [str(draw.randrange(2)) for _ in columns]
        lines.append(",".join([f"p{row}", str(row), *values, f"{10 * draw.random():.3f}"]))
    (folder / "t.csv").write_text("\n".join(lines))
    return {
        "data": {"source": f"{folder}/t.csv", "record": "who", "secret": "x", "bounds": [0, 10]},
        "release": [
            {"name": f"r{place}", "sql": one, "noise_stddev": 5.0, "times": times}
            for place, one in enumerate(sql)
        ],
    }


@pytest.mark.slow
def test_memory_is_refused_before_it_is_taken(tmp_path: Path) -> None:
    keys = "k0, k1, k2, k3, k4"
    plan = plan_with(tmp_path, 400, f"SELECT {keys}, AVG(x) FROM data GROUP BY CUBE ({keys})")
    assert sl.audit(plan, max_memory="1GB").rows == 400
    with pytest.raises(TooMuchWork, match=r"in 4 MB of memory, got about 4.72 MB for matrices of 243 × 243"):
        sl.audit(plan, max_memory=4e6)
    squares = plan_with(tmp_path, 400, f"SELECT {keys}, AVG(x * x) FROM data GROUP BY CUBE ({keys})")
    with pytest.raises(
        TooMuchWork, match=r"in 8 kB of memory, got about 8.19 kB for 32 signatures of 32 part.*not streamed"
    ):
        sl.audit(squares, max_memory="8kB")


def test_an_estimate_of_the_time_is_refused_before_it_is_taken() -> None:
    limits = WorkLimits(memory=1e15, seconds=600.0, clock=lambda: 100.0, began=100.0)
    limits.check_cells(18_000)
    with pytest.raises(
        TooMuchWork, match=r"at most 600 seconds, got about 800 for matrices of 20,000 × 20,000"
    ):
        limits.check_cells(20_000)
    WorkLimits(memory=1e15).check_cells(20_000)  # without a limit on time


def test_sparse_factors_are_allowed_where_dense_matrices_are_not() -> None:
    cost = RouteCost(reason="few entries", rows=90_000, bytes=10**9, seconds=60.0)
    limits = WorkLimits(memory=4e9, seconds=600.0, clock=lambda: 100.0, began=100.0)
    limits.check_cells(90_000, lambda: cost)
    with pytest.raises(TooMuchWork, match=r"got about 648 GB for matrices of 90,000 × 90,000"):
        limits.check_cells(90_000, lambda: None)
    with pytest.raises(
        TooMuchWork, match=r"in 4 GB of memory, got about 5 GB for sparse factors over 90,000"
    ):
        limits.check_cells(90_000, lambda: replace(cost, bytes=5 * 10**9))
    with pytest.raises(TooMuchWork, match=r"at most 600 seconds, got about 700 for sparse factors"):
        limits.check_cells(90_000, lambda: replace(cost, seconds=700.0))


@pytest.mark.slow
def test_the_sparse_estimate_is_that_of_the_linear_cells(tmp_path: Path) -> None:
    """An audit with too little memory for dense matrices and enough for sparse ones."""
    size = 5_000
    rows = "\n".join(f"p{i},g{i // 2},{i % 7}" for i in range(size))
    (tmp_path / "people.csv").write_text("person,cell,pay\n" + rows + "\n", encoding="utf-8")
    plan = tmp_path / "plan.toml"
    plan.write_text(
        """
[data]
source = "people.csv"
record = "person"
secret = "pay"
bounds = [0, 7]
[privacy]
epsilon = 1.0
delta = 1e-6
accountant = "zcdp"
[[release]]
name = "pay"
sql = "SELECT cell, SUM(pay) FROM data GROUP BY cell"
""",
        encoding="utf-8",
    )
    dense = 10 * 8 * (size // 2) ** 2
    result = sl.audit(plan, max_memory=dense // 2)
    assert result.cells == size // 2
    assert result.identifiable_records == 0


def large_plan(folder: Path, *, rows_per_person: int = 1) -> Path:
    """2,400 blocks in 300 groups in 50 tracts, three rows in most blocks and one in some."""
    blocks = [block for block in range(2_400) for _ in range(1 if block % 40 == 0 else 3)]
    lines = [
        f"p{place // rows_per_person},{block},{block // 8},{block // 48},{place % 7}"
        for place, block in enumerate(blocks)
    ]
    (folder / "people.csv").write_text("person,block,grp,tract,pay\n" + "\n".join(lines) + "\n")
    releases = "".join(
        f'[[release]]\nname = "by {key}"\nsql = "SELECT {key}, SUM(pay) FROM data GROUP BY {key}"\n'
        for key in ("tract", "grp", "block")
    )
    plan = folder / "plan.toml"
    plan.write_text(
        f"""
[data]
source = "people.csv"
record = "person"
secret = "pay"
bounds = [0, 7]
max_rows_per_record = {rows_per_person}
[privacy]
epsilon = 1.0
delta = 1e-6
[limits]
remaining_uncertainty = 0.1
{releases}""",
        encoding="utf-8",
    )
    return plan


@pytest.mark.slow
def test_what_a_plan_of_many_numbers_leaves_out_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = large_plan(tmp_path)
    result = sl.audit(plan, full=True)
    monkeypatch.setattr("sightline.auditing.recipes.MOST_SQUARE", 2)
    monkeypatch.setattr("sightline.units.design.equal_slices", lambda units, law: None)  # tracts are equal
    short = sl.audit(plan, full=True).exposed[0]
    best = result.exposed[0]
    assert best.recipe is not None
    assert short.recipe is not None
    assert [step.release for step in short.recipe.steps] == ["by block"]
    assert f"(the recipe with the least error has {len(best.recipe.steps)} numbers)" in short.recipe.text
    assert short.recipe.rmse > best.recipe.rmse == pytest.approx(short.rmse, rel=1e-9)
    assert result.identifiable_records == 60
    # What each release adds comes from sparse factors: only blocks single anybody out.
    assert [report.exposes_alone for report in result.releases] == [0, 0, 60]
    assert [report.newly_exposes for report in result.releases] == [0, 0, 60]
    assert len(result.timeline) == 3
    assert result.assumptions[-1] == (
        "The plan publishes 2,750 numbers about 2,400 kinds of rows, too many to be assessed again and "
        "again. Left out: other accountants."
    )


@pytest.mark.thorough
def test_persons_with_several_rows_are_not_refused_where_dense_matrices_do_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty persons have a row that is alone in its block; nothing else of two rows is singled out."""
    plan = large_plan(tmp_path, rows_per_person=2)
    plan.write_text(plan.read_text().replace("max_rows_per", 'values = "independent"\nmax_rows_per'))
    found = sl.audit(plan, max_memory="200MB")  # ten dense ones: 605 MB
    assert found.records == (2_400 * 3 - 60 * 2) // 2
    assert found.identifiable_records == 60
    assert not any("records with several rows" in line for line in found.assumptions)
    worst = next(one for one in found.exposed if one.identifiable)
    assert worst.recipe is not None
    assert worst.recipe.rmse > 0


def test_the_time_is_looked_at_whenever_progress_is_reported() -> None:
    limits = WorkLimits(memory=1e15, seconds=3.0, clock=ticking(1.0), began=0.0)
    seen: list[tuple[str, float]] = []
    watch = limits.watched(lambda stage, share: seen.append((stage, share)))
    for step in range(3):
        watch(f"step {step}", 0.5)
    with pytest.raises(TooMuchWork, match="of at most 3 seconds, got more, while step 3"):
        watch("step 3", 0.5)
    assert seen == [("step 0", 0.5), ("step 1", 0.5), ("step 2", 0.5)]


def test_an_audit_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ticking(0.5)
    monkeypatch.setattr("sightline.auditing.work.time.monotonic", clock)
    limits = WorkLimits(memory=1e15, seconds=5.0, clock=clock, began=0.0)
    monkeypatch.setattr(WorkLimits, "of", lambda *_: limits)
    with pytest.raises(TooMuchWork, match="got more, while"):
        sl.audit(MICROGRID, max_seconds=5.0)


@pytest.mark.slow
def test_a_query_that_outlasts_the_time_is_interrupted(tmp_path: Path) -> None:
    """The query would take hours; the engine's timer ends it."""
    (tmp_path / "t.csv").write_text("who,x\na,1\nb,2\n")
    engine, limits = open_source("t.csv", base=tmp_path), WorkLimits.of(None, 0.2)
    limits.interrupts.append(engine.interrupt)
    with pytest.raises(TooMuchWork, match=r"of at most 0\.2 seconds, got more, while"), limits.enforced():
        engine.fetch(
            "SELECT COUNT(*) AS n FROM range(10000000) AS a, range(10000000) AS b WHERE a.range > b.range"
        )
    engine.close()


@pytest.mark.slow
def test_a_query_that_misses_an_interrupt_is_interrupted_again() -> None:
    """The first interrupt fails, the second finds no query, and the third ends it."""
    calls = itertools.count(1)
    third = Event()

    class Deaf:
        def fetch(self, query: str) -> dict[str, Any]:
            if third.wait(20):
                raise RuntimeError("interrupted")
            return {}

        def interrupt(self) -> None:
            match next(calls):
                case 1:
                    raise OSError("no answer")
                case 3:
                    third.set()

    engine, limits = Deaf(), WorkLimits.of(None, 0.05)
    limits.interrupts.append(engine.interrupt)
    with pytest.raises(TooMuchWork, match="got more, while"), limits.enforced():
        engine.fetch("")
    assert next(calls) == 4


def test_a_mistake_stays_a_mistake_while_there_is_time(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("who,x\na,1\nb,2\n")
    engine = open_source("t.csv", base=tmp_path)
    with WorkLimits.of(None, 1e300).enforced():
        assert engine.fetch("SELECT COUNT(*) AS n FROM data")["n"].tolist() == [2]
    with pytest.raises(sl.errors.InvalidPlan), WorkLimits.of(None, 1e300).enforced():
        engine.fetch("SELECT y FROM data")
    engine.close()


@pytest.mark.slow
def test_the_command_line_has_the_same_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", MICROGRID, "--max-memory", "4GB", "--max-seconds", "1000000"]) == 2
    capsys.readouterr()
    for options, words in (
        (
            ["--max-memory", "1kB"],
            "expected an audit in 1 kB of memory, of which the engine holds 600 bytes, got about ",
        ),
        (["--max-memory", "much"], "expected an amount of memory as 4GB or 500MB, got 'much'"),
        (["--max-seconds", "1e-9"], "TooMuchWork: expected an audit of at most 1e-09 seconds, got more"),
        (["--max-seconds", "-1"], "expected max_seconds > 0, got -1.0"),
        (["--max-seconds", "nan"], "expected max_seconds > 0, got nan"),
    ):
        assert main(["audit", MICROGRID, *options]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert words in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1e400GB", "nan", "1 XB", "0", "٣GB"])
def test_what_is_no_amount_of_memory(text: str) -> None:
    with pytest.raises(InvalidInput, match="an amount of memory"):
        memory_of(text)


@pytest.mark.slow
def test_copies_of_a_release_cost_the_accountant_no_time() -> None:
    """Counted, they cost what they cost one by one; 100,000 of each of 64 were 6 million exact fractions."""
    one_by_one = account([3.0, 7.0, 3.0, 11.0, 3.0], delta=1e-6)
    assert one_by_one.mu == pytest.approx((3 / 9 + 1 / 49 + 1 / 121) ** 0.5, rel=1e-15)
    assert account([3.0] * 3 + [7.0, 11.0], delta=1e-6) == one_by_one
    assert account([1e4] * 6_400_000, delta=1e-6).mu == pytest.approx(6_400_000**0.5 / 1e4, rel=1e-15)


@pytest.mark.thorough
@pytest.mark.slow
def test_many_releases_many_lists_and_a_large_cube_end(tmp_path: Path) -> None:
    draw = random.Random(1)
    lists = [", ".join(map(str, sorted(draw.sample(range(64), 32)))) for _ in range(70)]
    many = plan_with(tmp_path, 64, *(f"SELECT SUM(x) FROM data WHERE n IN ({one})" for one in lists))
    assert sl.audit(many).identifiable_records == 64
    keys = "k0, k1, k2, k3, k4, k5"
    cube = plan_with(tmp_path, 500, f"SELECT {keys}, AVG(x) FROM data GROUP BY CUBE ({keys})", times=100_000)
    assert sl.audit(cube).budget.releases == 64 * 100_000


class TestTimeIsOver:
    """Work that never looks at the clock. These tests would not end if it were not ended."""

    @pytest.fixture
    def endless(self, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
        """Something that takes all the time there is: the clock stands still until it begins."""
        begun = Event()

        def never_ends(*_: object, **__: object) -> None:
            begun.set()
            while True:
                sum(range(1_000))

        def limits(*_: object) -> WorkLimits:
            begun.clear()
            return WorkLimits(memory=1e12, seconds=20.0, clock=lambda: 1e9 if begun.is_set() else 0.0)

        monkeypatch.setattr(WorkLimits, "of", limits)
        return never_ends

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize(
        "stage",
        ["jobs.audit.table_of", "jobs.audit.find", "jobs.assemble.exposed_section", "jobs.assemble.verdict"],
    )
    def test_whatever_it_is_doing(
        self, stage: str, endless: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(f"sightline.{stage}", endless)
        with pytest.raises(TooMuchWork, match=r"an audit of at most 20 seconds, got more, while "):
            sl.audit(MICROGRID)

    @pytest.mark.sampled(1)
    @pytest.mark.thorough
    @pytest.mark.parametrize("section", ["noise_slack", "reaching", "timeline", "release_reports"])
    def test_what_was_found_is_given(
        self, section: str, endless: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole, original = sl.audit(MICROGRID, full=True), getattr(assemble, section)
        assert whole.releases

        def at_first(*given: Any, **options: Any) -> Any:
            return original(*given, **options) if options else endless()

        monkeypatch.setattr(assemble, section, at_first)
        result = sl.audit(MICROGRID, full=True)
        assert result.verdict == whole.verdict
        assert result.exposed == whole.exposed
        assert "at most 20 seconds" in result.more_to_change
        assert [one.name for one in result.releases] == [one.name for one in whole.releases]
        assert sl.AuditResult.from_json(result.to_json()) == result
        assert (result.reaching == whole.reaching) == (section not in ("noise_slack", "reaching"))

    @pytest.mark.thorough
    def test_nothing_is_raised_later(self, endless: Callable[..., None]) -> None:
        for _ in range(3):
            with pytest.raises(TooMuchWork), WorkLimits.of(None, 1).enforced():
                endless()
        sum(range(1_000_000))

    def test_a_result_that_was_found_in_time_is_whole(self) -> None:
        assert sl.audit(MICROGRID, max_seconds=6_000, full=True) == sl.audit(MICROGRID, full=True)


@pytest.mark.parametrize(
    "text", ["MemTotal: 9 kB\n", None, "MemTotal: 9 kB\nMemAvailable: 4000 kB\nCached: 7 kB\n"]
)
def test_free_memory_is_read_from_linux_or_else_from_psutil(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel before 3.14 does not say what is available, and other systems have no such file."""
    file = tmp_path / "meminfo"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(work, "_LINUX_MEMORY", file)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1_000_000))
    told = text is not None and "MemAvailable" in text
    assert WorkLimits.of(None, None).memory == 0.8 * (4_096_000 if told else 1_000_000)
