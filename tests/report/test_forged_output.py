"""Names from tables and plans that try to write lines, clear the screen or start commands of a CI service."""

from __future__ import annotations

import io
import json
import unicodedata
from pathlib import Path

import duckdb
import pytest
from rich.text import Text

from sightline.cli import main
from sightline.report.streams import console, harmless, harmless_json

FORGED = "\x1b[2J\n::error::forged\nPASSED  all is well\r\x07\u202e##[error]x"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forged")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (who TEXT, g TEXT, x DOUBLE)")
        for row, group in enumerate(["a", "b", "b", "c", "c", "c"]):
            connection.execute(
                "INSERT INTO t VALUES (?, ?, ?)", [f"p{row}{FORGED}", group + FORGED, float(row)]
            )
        connection.execute(f"COPY t TO '{folder / 't.parquet'}' (FORMAT parquet)")
    text = f"""
[data]
source = "t.parquet"
record = "who"
secret = "x"
bounds = [0, 10]
[[release]]
name = {json.dumps("by g" + FORGED)}
sql = "SELECT g, SUM(x) FROM data GROUP BY g"
noise_stddev = 0.5
[[release]]
name = "all"
sql = "SELECT SUM(x) FROM data"
noise_stddev = 0.5
[limits]
remaining_uncertainty = 0.5
"""
    (folder / "plan.toml").write_text(text, encoding="utf-8")
    return folder / "plan.toml"


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["audit", "PLAN", "--names", "--full"],
        ["audit", "PLAN", "--publishable"],
        ["audit", "PLAN", "--names", "--json"],
        ["audit", "PLAN", "--format", "junit"],
        ["audit", "PLAN", "--format", "markdown"],
        ["explain", "PLAN", "--record", f"p0{FORGED}"],
        ["explain", "PLAN", "--record", f"nobody{FORGED}"],
        ["rehearse", "PLAN"],
        ["design", "PLAN"],
        ["audit", f"nowhere{FORGED}.toml"],
    ],
    ids=lambda arguments: " ".join(arguments)[:30],
)
def test_no_name_forges_a_line_or_a_command(
    arguments: list[str], plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(plan) if one == "PLAN" else one for one in arguments])
    shown = capsys.readouterr()
    text = shown.out + shown.err
    assert "forged" in text, "the name is shown"
    assert not [one for one in text if one != "\n" and unicodedata.category(one) in ("Cc", "Cs")]
    assert "\u202e" not in text
    assert not [line for line in text.splitlines() if line.lstrip().startswith(("::", "PASSED  all"))]
    assert "##[" not in text


def test_a_terminal_gets_styles_from_us_alone() -> None:
    out = io.StringIO()
    screen = console(file=out, force_terminal=True, width=80, color_system="standard")
    screen.print(Text.assemble(("below", "bold red"), f" {FORGED}"))
    screen.print(f"\n[bold]a title[/] {FORGED}")
    assert out.getvalue().count("\x1b[") == 4, "two styles, each begun and ended"
    assert len(out.getvalue().splitlines()) == 3


def test_it_keeps_the_length_and_every_other_text() -> None:
    assert harmless("grün, a: b # [c]") == "grün, a: b # [c]"
    assert len(harmless(FORGED)) == len(FORGED)
    document = {"name": FORGED, "rows": [[1], ["##[", "##vso[x"]]}
    assert json.loads(harmless_json(json.dumps(document, ensure_ascii=False))) == document
