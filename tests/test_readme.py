"""The README as a newcomer follows it: its plan, on a table like the one it describes, and its commands."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from sightline.cli import main
from sightline.report.wording import before_after
from tests.report.first_screen import SCREENSHOT, text_of
from tests.report.first_screen import said as text_of_the_screen
from tests.report.report_cases import microgrid

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
(PLAN,) = re.findall(r"```toml\n(.*?)```", README, flags=re.DOTALL)
LIMIT = ["--limit", "50%"]


@pytest.mark.slow
def test_its_commands_run_on_its_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    duckdb.sql(
        "COPY (SELECT i AS home, i % 3 AS feeder, 100.0 * i AS evening_watts FROM range(30) AS t(i)) "
        "TO 'homes.parquet' (FORMAT parquet)"
    )
    Path("plan.toml").write_text(PLAN, encoding="utf-8")

    def said(*words: str, status: int = 0) -> str:
        assert main([*words]) == status, capsys.readouterr().err
        return capsys.readouterr().out

    for command in ("audit", "rehearse", "design", "init", "demo"):
        assert f"sightline {command}" in README
    audited = said("audit", "plan.toml", *LIMIT)
    for words in ("PASSED", "before", "after", "You can publish", "the limit holds"):
        assert words in audited
    assert "Releases, in order of publication" in said("audit", "plan.toml", *LIMIT, "--full")
    Path("last.json").write_text(said("audit", "plan.toml", *LIMIT, "--json"), encoding="utf-8")
    assert "Since the last audit\n  nothing changed" in said(
        "audit", "plan.toml", *LIMIT, "--against", "last.json"
    )
    assert said("rehearse", "plan.toml", "--repetitions", "200").startswith("FOR THE OWNER OF THE TABLE ONLY")
    assert "50 %" in said("design", "plan.toml", *LIMIT)
    Path("plan.toml").unlink()
    said("init", "homes.parquet")
    assert 'source = "homes.parquet"' in Path("plan.toml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_its_exit_code_is_2_if_someone_may_keep_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    duckdb.sql(
        "COPY (SELECT i AS home, i AS feeder, 100.0 * i AS evening_watts FROM range(3) AS t(i)) "
        "TO 'homes.parquet' (FORMAT parquet)"
    )
    Path("plan.toml").write_text(PLAN.replace("epsilon = 1.0", "epsilon = 100.0"), encoding="utf-8")
    assert main(["audit", "plan.toml", *LIMIT]) == 2
    assert "BELOW THE LIMIT" in capsys.readouterr().out


def test_its_picture_and_its_text_have_the_numbers_of_today() -> None:
    result = microgrid()
    assert text_of(SCREENSHOT.read_bytes()) == text_of_the_screen(result), (
        "run python -m tests.report.first_screen"
    )
    known = before_after(result)
    assert known is not None
    for page in (README, (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")):
        assert all(number in page for number in known.numbers)
