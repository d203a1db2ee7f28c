"""The lines of a plan file: of its releases, and of what an error is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.errors import InvalidPlan
from sightline.jobs import check
from sightline.report.problems import PlanLines

PLAN = '''# [[release]] in a comment
[data]  # the table
source = "t.csv"
record = "home"
secret = "watts"
bounds = [0, 10]

  [[ release ]]  # the first
name = "a \\" [[release]]"
sql = """
/*
[[release]]
*/ SELECT AVG(watts) FROM data WHERE home <> '\\"""x'
--"""""
noise_stddev = 1.0

[[release]]
name = 'b'
sql = \'\'\'
/*
[[release]]
*/ SELECT SUM(watts) FROM data WHERE home = 'A\'\'\'\'
noise_stddev = 1.0
'''


def lines_of(folder: Path, text: str) -> PlanLines:
    (folder / "t.csv").write_text("home,watts\nA,1\nB,2\n")
    path = folder / "plan.toml"
    path.write_bytes(text.encode())
    return PlanLines.of(path)


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "dos"])
@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["plain", "marked"])
def test_sections_in_strings_and_comments_do_not_count(tmp_path: Path, end: str, start: str) -> None:
    lines = lines_of(tmp_path, start + PLAN.replace("\n", end))
    written = PLAN.split("\n")
    assert dict(lines.releases) == {
        'a " [[release]]': written.index("  [[ release ]]  # the first") + 1,
        "b": written.index("[[release]]", 16) + 1,
    }
    assert dict(lines.sections) == {"data": 2}
    assert lines.of_release("b") == 17
    assert lines.of_release("another") == lines.of_release(None) == 1


def test_releases_in_an_inline_list_are_at_the_first_line(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, 'release = [{name = "a", sql = "s"}]\n')
    assert lines.of_release("a") == 1


@pytest.mark.parametrize("text", ["[[release", "\xff", 'release = "x"', "[[release]]\nname = 3"])
def test_any_file_has_lines(tmp_path: Path, text: str) -> None:
    lines = lines_of(tmp_path, text)
    assert lines.of_release("a") == 1
    assert PlanLines.of(tmp_path).file
    assert PlanLines.of(tmp_path / "missing.toml").of_error("anything") == 1


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('record = "home"', 'record = "hom"', 2),
        ('record = "home"', "record = 3", 2),
        ('source = "t.csv"', 'source "t.csv"', 3),
        ("SUM(watts)", "SUM(wats)", 17),
        ("[0, 10]", "[10, 0]", 2),
        ("noise_stddev = 1.0", "noise_stddev = -1.0", 8),
    ],
)
def test_an_error_is_at_its_release_or_section(tmp_path: Path, old: str, new: str, line: int) -> None:
    lines = lines_of(tmp_path, PLAN.replace(old, new))
    with pytest.raises(InvalidPlan) as error:
        check(tmp_path / "plan.toml")
    assert lines.of_error(str(error.value)) == line


def test_a_plan_is_named_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path)
    assert PlanLines.of(tmp_path / "a" / "plan.toml").file == "a/plan.toml"
    assert PlanLines.of("a/../a/plan.toml").file == "a/plan.toml"
    monkeypatch.chdir(tmp_path / "a")
    assert PlanLines.of(tmp_path / "plan.toml").file == "plan.toml"
