"""Files that no command writes over, who may read what it writes, and passwords that it does not show."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest

import sightline as sl
from sightline.auditing.reading import plan_text, read_plan, with_sources_of
from sightline.cli import main
from sightline.errors import InvalidPlan, without_passwords
from sightline.report.files import write_new

PLAN = """
[data]
source = "t.csv"
record = "who"
secret = "x"
bounds = [0, 10]
[[release]]
name = "by g"
sql = "SELECT g, SUM(x) FROM data GROUP BY g"
noise_stddev = 0.5
[limits]
remaining_uncertainty = 0.5
accept = ["few_values", "homogeneous"]
"""
ADDRESS = "postgresql://ann:hu:sh@db:5432/grid?table=homes"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = "".join(f"p{row},{'ab'[row % 2]},{row % 10}.5\n" for row in range(8))
    (tmp_path / "t.csv").write_text(f"who,g,x\n{rows}", encoding="utf-8")
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["audit", "plan.toml", "--html", "t.csv"],
        ["audit", "plan.toml", "--write", "json=t.csv"],
        ["audit", "plan.toml", "--write", "json=plan.toml"],
        ["design", "plan.toml", "--out", "t.csv"],
        ["rehearse", "plan.toml", "--figure", "t.csv"],
        ["init", "t.csv", "--out", "t.csv"],
    ],
    ids=" ".join,
)
def test_force_does_not_write_over_an_input(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {name: (folder / name).read_bytes() for name in ("t.csv", "plan.toml")}
    assert main([*arguments, "--force"]) == 1
    assert "which is an input" in capsys.readouterr().err
    assert {name: (folder / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("target", ["t.csv", "another.txt", "nowhere"])
def test_a_link_is_not_followed(target: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "another.txt").write_text("mine", encoding="utf-8")
    (folder / "report.html").symlink_to(folder / target)
    before = (folder / "t.csv").read_bytes()
    assert main(["audit", "plan.toml", "--html", "report.html", "--force"]) == 1
    assert "link" in capsys.readouterr().err or target == "t.csv"
    assert (folder / "t.csv").read_bytes() == before
    assert (folder / "another.txt").read_text(encoding="utf-8") == "mine"
    assert not (folder / "nowhere").exists()


def test_a_file_is_still_replaced_if_forced(folder: Path) -> None:
    write_new(folder / "new.txt", b"one", force=False)
    write_new(folder / "new.txt", b"two", force=True)
    assert (folder / "new.txt").read_bytes() == b"two"


@pytest.mark.slow
def test_only_the_owner_reads_a_designed_plan(folder: Path) -> None:
    """Its noise was chosen for who is exposed."""
    main(["design", "plan.toml", "--limit", "90%", "--out", "designed.toml"])
    assert stat.S_IMODE((folder / "designed.toml").stat().st_mode) == 0o600
    assert read_plan(folder / "designed.toml")[0].data.source == "t.csv"


def test_a_designed_plan_has_the_whole_address(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN.replace("t.csv", ADDRESS), encoding="utf-8")
    shown = plan_text(read_plan(tmp_path / "plan.toml")[0])
    assert "hu:sh" not in shown
    written = with_sources_of(shown, tmp_path / "plan.toml")
    assert tomllib.loads(written)["data"]["source"] == ADDRESS
    assert read_plan(tomllib.loads(written))[0] == read_plan(tmp_path / "plan.toml")[0]


@pytest.mark.parametrize("field", ["record", "secret", "dialect", "kind", "name", "sql", "accept", "prior"])
def test_a_password_in_the_wrong_field_is_not_shown(
    field: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    section = {"name": "release", "sql": "release", "accept": "limits", "prior": "attacker"}.get(
        field, "data"
    )
    plan = tomllib.loads(PLAN)
    target = plan["release"][0] if section == "release" else plan.setdefault(section, {})
    target[field] = [ADDRESS] if field == "accept" else ADDRESS
    if field == "name":
        plan["release"][0]["sql"] = "SELECT nothing"
    with pytest.raises(InvalidPlan) as refused:
        sl.audit(plan)
    assert "hu:sh" not in str(refused.value)
    assert main(["audit", ADDRESS]) == 1
    assert "hu:sh" not in capsys.readouterr().err


def test_what_is_a_password() -> None:
    assert without_passwords("host=db password=hush dbname=x") == "host=db password=… dbname=x"
    assert without_passwords("postgresql://ann:a/b@c@db/grid") == "postgresql://…@db/grid"
    assert without_passwords("postgresql://ann:hushhus") == "postgresql://…", "cut off before the host"
    for public in (
        "postgresql://db:5432/grid?table=homes",
        "a.b = 5, key=x",
        "spark://host:7077",
        "t.duckdb::t",
    ):
        assert without_passwords(public) == public
