"""The plans of examples/counts, one for each way to publish counts of people."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import examples.counts.__main__ as register
import sightline as sl
from sightline.report.first_screen import first_screen

FOLDER = Path(register.__file__).parent
SCREENS = {
    "presence": ("passed", "register.csv: 400 people who might be in registry.csv, 16 numbers"),
    "noisy_presence": ("passed", "The noise alone guarantees that all 77 people keep at least 75 %"),
    "rules": ("failed", '3 of 19 people are counted, fewer than 5: "all" − 3 numbers of "by ward"'),
    "rounded": ("passed", "12 numbers; counts that chance rounds or changes have no finite epsilon"),
    "cell_keys": ("passed", "The noise alone guarantees that all 400 people keep at least 10 %"),
    "published": ("passed", "All 400 people keep at least 10 % of the uncertainty of ill"),
}


@pytest.mark.parametrize("name", SCREENS)
def test_a_plan_says_what_its_counts_tell(name: str) -> None:
    result = sl.audit(FOLDER / f"{name}.toml")
    status, told = SCREENS[name]
    assert result.verdict.status == status
    assert told in " ".join(str(line).strip() for line in first_screen(result, 110))
    assert (result.certain is None) == (name == "noisy_presence")


def test_every_plan_is_tried() -> None:
    assert {one.stem for one in FOLDER.glob("*.toml")} == set(SCREENS)


def test_the_advice_for_the_broken_rule_passes(tmp_path: Path) -> None:
    plan = (FOLDER / "rules.toml").read_text(encoding="utf-8")
    result = sl.audit(FOLDER / "rules.toml")
    assert result.so_nobody_is_certain is not None
    assert [one.action for one in result.so_nobody_is_certain] == ['Withhold "by ward: east"']
    shutil.copy(FOLDER / "people.csv", tmp_path)
    first, then = plan.split('noise = { law = "none" }\n', 1)
    (tmp_path / "plan.toml").write_text(f'{first}noise = {{ law = "none" }}\nwithhold = [["east"]]\n{then}')
    assert sl.audit(tmp_path / "plan.toml").verdict.passed


def test_the_register_is_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register, "HERE", tmp_path)
    register.main()
    drawn = sorted(tmp_path.iterdir())
    assert [one.name for one in drawn] == ["people.csv", "published.csv", "register.csv", "registry.csv"]
    for one in drawn:
        assert one.read_bytes() == (FOLDER / one.name).read_bytes()
