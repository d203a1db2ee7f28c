"""What a ledger says first: the next command with its key, and how a key file is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.cli import main

HEAD = """[data]
source = "people.csv"
record = "id"
secret = "ill"
kind = "boolean"
[limits]
remaining_uncertainty = "50%"
"""


def test_the_first_command_prints_the_next_with_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"p{i},{i % 2}\n" for i in range(9))
    Path("people.csv").write_text(f"id,ill\n{rows}", encoding="utf-8")
    Path("head.toml").write_text(HEAD, encoding="utf-8")
    started = ["ledger", "init", "book", "--from", "head.toml", "--values", "one"]
    assert main(started) != 0
    assert "openssl rand -hex 32 > FILE makes one" in capsys.readouterr().err
    assert main([*started, "--key", "my key"]) == 1
    assert "openssl rand -hex 32 > FILE makes one" in capsys.readouterr().err
    Path("my key").write_text("0f" * 32, encoding="utf-8")  # as openssl writes it
    assert main([*started, "--key", "my key"]) == 0
    said = capsys.readouterr().out.strip()
    assert said.endswith("sightline ledger check book release.toml --key 'my key'")
