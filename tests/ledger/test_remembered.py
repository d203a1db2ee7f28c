"""What was found when an earlier release was made counts for every later answer: no pass forgets it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.auditing.plan import AssumptionName
from sightline.auditing.result import VerdictStatus
from sightline.ledger.book import Ledger
from sightline.ledger.decision import lines
from tests.ledger.test_ledger import HEAD, TOTAL, month, started, written

_HOMES = 400
_KNOWS = HEAD.replace("[limits]", '[attacker]\nknows = ["staff"]\n\n[limits]')
BY_FEEDER = "SELECT feeder, AVG(watts) FROM data GROUP BY feeder"
BY_AREA = {
    "name": "by area",
    "sql": "SELECT area, AVG(watts) FROM data GROUP BY area",
    "noise_stddev": 20.0,
}
Columns = dict[str, Any]


def table(folder: Path, spoil: Callable[[Columns], None]) -> None:
    """400 homes whose values hide one another, and what is wrong with some of them."""
    place = np.arange(_HOMES)
    columns: Columns = {
        "home": np.array([f"h{one}" for one in place], dtype=object),
        "feeder": (place % 2).astype(str).astype(object),
        "area": (place % 3).astype(str).astype(object),
        "watts": np.random.default_rng(1).uniform(0, 9000, _HOMES),
        "staff": np.zeros(_HOMES, dtype=bool),
    }
    columns["tax"] = 0.25 * columns["watts"]
    spoil(columns)
    written(folder / "now.parquet", columns)


def nothing(_: Columns) -> None:
    """A table with nothing wrong."""


def few_values(columns: Columns) -> None:
    columns["watts"] = np.where(np.arange(_HOMES) % 4 < 2, 0.0, 9000.0)


def out_of_bounds(columns: Columns) -> None:
    columns["watts"][3] = 12_000.0


def without_a_key(columns: Columns) -> None:
    columns["home"][3] = None


def known(columns: Columns) -> None:
    columns["staff"][:9] = True


# What is wrong with the first table, or its SQL; and what cannot be verified from then on.
FLAWS: dict[str, tuple[Callable[[Columns], None], str, AssumptionName | None]] = {
    "nothing": (nothing, BY_FEEDER, None),
    "a copy of the secret": (
        nothing,
        "SELECT tax > 1000 AS high, AVG(watts) FROM data GROUP BY high",
        AssumptionName.DERIVED,
    ),
    "few values": (few_values, BY_FEEDER, AssumptionName.FEW_VALUES),
    "a value out of bounds": (out_of_bounds, BY_FEEDER, AssumptionName.CLIPPED),
    "a row without a key": (without_a_key, BY_FEEDER, AssumptionName.PUBLISHED_BUT_DROPPED),
    "another attacker": (known, BY_FEEDER, AssumptionName.HOMOGENEOUS),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", FLAWS)
def test_a_flaw_of_an_earlier_table_stays(tmp_path: Path, case: str) -> None:
    """The table of the second release has nothing wrong: alone it passes, after the first it is not shown."""
    spoil, sql, name = FLAWS[case]
    table(tmp_path, spoil)
    (tmp_path / "head.toml").write_text(_KNOWS)
    ledger = Ledger.start(tmp_path / "ledger", head=tmp_path / "head.toml", values="one")
    _, number = ledger.add({"name": "first", "sql": sql, "noise_stddev": 20.0}, despite="a test")
    assert number == 1
    table(tmp_path, nothing)
    decision = ledger.check(BY_AREA)
    assert not decision.findings.guaranteed  # which would ask for less
    open_questions = [one.name for one in decision.result.unverified]
    if name is None:
        assert (decision.result.verdict.status, open_questions) == (VerdictStatus.PASSED, [])
        return
    assert decision.result.verdict.status is VerdictStatus.NOT_SHOWN
    assert name in open_questions
    if case != "another attacker":
        ledger.cancel(1, reason="no one saw it")
        assert ledger.check(BY_AREA).passed


@pytest.mark.thorough
def test_a_pass_names_the_columns_that_it_takes_as_public(tmp_path: Path) -> None:
    """Those of all releases; none if the head declares them."""
    table(tmp_path, nothing)
    for declared in (False, True):
        text = HEAD.replace("bounds", 'public = ["feeder", "area"]\nbounds') if declared else HEAD
        (tmp_path / "head.toml").write_text(text)
        own = Ledger.start(tmp_path / f"ledger {declared}", head=tmp_path / "head.toml", values="one")
        own.add({"name": "first", "sql": BY_FEEDER, "noise_stddev": 20.0})
        decision = own.check(BY_AREA)
        assert decision.passed
        assert decision.result.taken_as_public == (() if declared else ("area", "feeder"))
        said = [line for line in lines(decision, full=False) if line.startswith("Taken as public")]
        assert bool(said) is not declared


@pytest.mark.thorough
def test_the_noise_that_passes_is_what_the_design_chooses(tmp_path: Path) -> None:
    """With everything before published, the design's factor on this release is the one that a check says."""
    ledger = started(tmp_path)
    ledger.add({**TOTAL, "noise_stddev": 500.0})
    month(tmp_path, list("abcd"), list("NNNS"), [100.0, 900.0, 4000.0, 7000.0])
    second = {**TOTAL, "noise_stddev": 500.0}
    factor = ledger.check(second).noise_factor
    assert factor is not None
    assert factor == float(f"{factor:.3e}")  # as it is printed
    for share, passed in ((1.0, True), (1 / 1.0101, False)):
        assert ledger.check({**second, "noise_stddev": 500.0 * factor * share}).passed is passed
    ledger.add(second, despite="to write it down as a plan")
    plan = ledger.plan(tmp_path / "all.toml")
    before, _, last = plan.read_text().rpartition("published = true")
    plan.write_text(before + "published = false" + last)
    designed = sl.design(plan, grain="release")
    noise = {one.release: one.stddev for one in designed.noise}
    assert noise["total (1)"] == 500.0
    assert 500.0 * factor == pytest.approx(
        noise["total (2)"], rel=0.01
    )  # the check looks for it to within 1 %
