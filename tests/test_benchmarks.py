"""The history of the benchmarks: what is worse is marked, and no case goes unseen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks import history
from benchmarks.history import Line

CASE = Line(script="bench_a.py", case="1,000 rows", ratio=2.0, rival="the scan", commit="abc")
MORE = Line(script="bench_a.py", case="a loop", ratio=90.0, rival="ours", more=True, commit="abc")


def test_a_ratio_that_grew_by_more_than_a_third_is_worse() -> None:
    assert history.worse([replace(CASE, ratio=2.5)], [CASE]) == []
    ((now, then, times),) = history.worse([replace(CASE, ratio=3.0)], [CASE])
    assert (now.ratio, then.ratio, times) == (3.0, 2.0, 1.5)


def test_where_more_is_better_less_is_worse() -> None:
    assert history.worse([replace(MORE, ratio=120.0)], [MORE]) == []
    assert len(history.worse([replace(MORE, ratio=60.0)], [MORE])) == 1


def test_the_newest_line_counts() -> None:
    assert history.worse([replace(CASE, ratio=3.0)], [CASE, replace(CASE, ratio=2.9)]) == []


def test_a_case_that_is_not_measured_any_more_is_missed() -> None:
    assert history.missing([CASE], [CASE, MORE], ["bench_a.py"]) == [MORE]
    assert history.missing([CASE], [CASE, MORE], ["bench_b.py"]) == []


def test_a_script_that_needs_what_a_machine_lacks_is_not_missed() -> None:
    absent = replace(CASE, case=history.NOT_HERE, ratio=None, note="no accelerator")
    assert history.missing([absent], [CASE, MORE], ["bench_a.py"]) == []


def test_a_case_may_go_with_a_reason() -> None:
    dropped = replace(MORE, ratio=None, note="the rival has gone")
    assert history.missing([CASE], [CASE, MORE, dropped], ["bench_a.py"]) == []


def test_a_smaller_case_is_another_case() -> None:
    """So that one cannot be made smaller without a line that says so."""
    smaller = replace(CASE, case="100 rows")
    assert history.missing([smaller], [CASE], ["bench_a.py"]) == [CASE]


def test_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "history.csv"
    lines = [CASE, replace(MORE, memory=1.5), replace(MORE, ratio=None, note="gone, with a comma")]
    history._append(lines[:1], file)
    history._append(lines[1:], file)
    assert history.recorded(file) == lines


def test_every_script_of_the_quick_run_exists() -> None:
    assert all((history.HERE / script).is_file() for script, *_ in history.QUICK)


def test_every_recorded_script_exists() -> None:
    assert all((history.HERE / line.script).is_file() for line in history.recorded())


def test_the_page_has_the_newest_line_of_every_case_and_what_went() -> None:
    lines = [CASE, MORE, replace(CASE, ratio=1.5, commit="def"), replace(MORE, ratio=None, note="it went")]
    text = history.page(lines, "## Unit costs")
    assert "| `bench_a.py`: 1,000 rows | 1.5 | the scan | 2 at abc |  |" in text
    assert "a loop |" not in text
    assert "- `bench_a.py`, a loop: it went" in text
    assert text.endswith("## Unit costs\n")


def test_the_page_is_that_of_the_history() -> None:
    if history.FILE.exists():
        unit_costs = (history.HERE / "unit_costs.md").read_text(encoding="utf-8")
        written = (history.HERE / "RESULTS.md").read_text(encoding="utf-8")
        assert written == history.page(history.recorded(), unit_costs)
