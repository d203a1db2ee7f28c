"""Who is in a registry, over several entries of a ledger: its answer is that of one plan with the frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.ledger.book import Ledger

DATA = {"source": "registry.parquet", "record": "who", "secret": "presence", "frame": "town.parquet"}
ATTACKER = {"prior": {"yes": 0.4}}
LIMITS = {"remaining_uncertainty": 0.2, "accept": ["groups"]}
AREA = "SELECT area, COUNT(*) AS n FROM data GROUP BY area"
AGE = "SELECT age, COUNT(*) AS n FROM data GROUP BY age"
TOTAL = "SELECT COUNT(*) AS n FROM data"


def town(folder: Path, seed: int) -> None:
    rng = np.random.default_rng([45, seed])
    everybody = pd.DataFrame(
        {
            "who": [f"p{one}" for one in range(40)],
            "area": rng.choice(["a", "b", "c"], 40, p=[0.5, 0.4, 0.1]),
            "age": rng.choice(["young", "old"], 40),
        }
    )
    everybody.to_parquet(folder / "town.parquet")
    everybody[rng.random(40) < 0.4].to_parquet(folder / "registry.parquet")


def started(folder: Path, *, without: str = "") -> Ledger:
    data = "\n".join(f'{name} = "{value}"' for name, value in DATA.items() if name != without)
    prior = "[attacker]\nprior = { yes = 0.4 }\n" if without != "prior" else ""
    limits = '[limits]\nremaining_uncertainty = 0.2\naccept = ["groups"]\n'
    (folder / "head.toml").write_text(f"[data]\n{data}\n{prior}[rules]\nk = 3\n{limits}")
    return Ledger.start(folder / "ledger", head=folder / "head.toml", values="one")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "rule",
    [
        {"noise": {"law": "rounding", "to": 5}},
        {"noise": {"law": "none"}, "suppress_below": 4},
        {"noise": {"stddev": 2.0}},
    ],
    ids=["rounded", "blank", "noise"],
)
def test_entries_one_by_one_say_what_one_plan_says(tmp_path: Path, seed: int, rule: dict[str, Any]) -> None:
    town(tmp_path, seed)
    named: list[dict[str, Any]] = [
        {"name": name, "sql": sql, **rule} for name, sql in (("a", AREA), ("b", AGE), ("c", TOTAL))
    ]
    paths = {name: str(tmp_path / DATA[name]) for name in ("source", "frame")}
    plan = {"data": DATA | paths, "attacker": ATTACKER, "rules": {"k": 3}, "limits": LIMITS}
    together, ledger = sl.audit({**plan, "release": named}), started(tmp_path)
    for release in named:
        decision, number = ledger.add(release, despite="a test")
        assert number is not None
    own = decision.result
    assert own.verdict.status == together.verdict.status
    assert own.rules is not None
    assert together.rules is not None
    assert own.rules.in_all == together.rules.in_all
    certain = {one.name: one.count for one in own.unverified}.get("certain", 0)
    assert certain == (together.certain.people if together.certain else 0)
    assert decision.after.least is not None
    assert together.least_remaining_uncertainty is not None
    assert decision.after.least.lower == pytest.approx(together.least_remaining_uncertainty.lower, abs=1e-6)
    again = sl.audit(ledger.plan(tmp_path / "all.toml"))
    assert again.verdict.status == together.verdict.status


@pytest.mark.parametrize(("without", "got"), [("frame", "no frame"), ("prior", "no prior")])
def test_presence_needs_a_frame_and_a_stated_share(tmp_path: Path, without: str, got: str) -> None:
    town(tmp_path, 0)
    with pytest.raises(InvalidPlan, match=rf"presence with a frame, and prior = .*, got {got}"):
        started(tmp_path, without=without).check({"name": "a", "sql": AREA, "noise": {"stddev": 2.0}})
