"""All that an audit simulates shares one chance of error: who takes part of it, and what is done without."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sightline as sl
from sightline.bounds import chance_of_error
from sightline.bounds.chance_of_error import MOST_ASSESSMENTS, OF_AN_AUDIT, Simulated, Taken, chance_of
from tests.auditing.fuzz_laws import by_person, draw


def test_all_assessments_together_have_the_chance_of_an_audit() -> None:
    every = sum(chance_of(kind) for kind in Simulated) * MOST_ASSESSMENTS
    assert every <= OF_AN_AUDIT * (1 + 1e-12)


@pytest.mark.slow
def test_nothing_is_simulated_beyond_the_chance_of_an_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends are lower without, never higher; and an audit that is done leaves nothing taken behind."""
    plans = [draw(np.random.default_rng([11, number])) for number in range(30)]
    few = [one for one in plans if one.kind == "boolean"]
    with_draws = [by_person(one) for one in few]
    monkeypatch.setattr(chance_of_error, "MOST_ASSESSMENTS", 0)
    fell = 0
    for one, before in zip(few, with_draws, strict=True):
        with chance_of_error.one_budget():
            after = by_person(one)
        assert all(after[person][0] <= low + 1e-12 for person, (low, _) in before.items())
        fell += any(after[person][0] < low - 1e-3 for person, (low, _) in before.items())
    assert fell > 0
    assert chance_of_error.may_simulate(Simulated.WALK)


@pytest.mark.slow
def test_the_sections_of_an_open_audit_share_its_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """What each takes is counted with what the others took; the audit says the chance."""
    table = pl.DataFrame(
        {"who": range(12), "g": [n % 3 for n in range(12)], "ill": [n % 2 == 0 for n in range(12)]}
    )
    counted = {"sql": "SELECT g, COUNT(*) FILTER (WHERE ill) FROM data GROUP BY g"}
    noise = {"name": "ill", "noise": {"law": "gaussian", "stddev": 1.0}}
    sums: list[int] = []
    taking = chance_of_error.may_simulate

    def counting(kind: Simulated) -> bool:
        may = taking(kind)
        sums.append((chance_of_error._taken.get() or Taken()).total())
        return may

    monkeypatch.setattr(
        "sightline.bounds.listed_worlds.may_simulate",
        counting,
    )
    opened = sl.open_audit(
        {
            "data": {"source": table, "record": "who", "secret": "ill", "kind": "boolean"},
            "limits": {"remaining_uncertainty": 0.5},
            "release": [{**counted, **noise}],
        }
    )
    for section in (opened.verdict, opened.slack, opened.enough, opened.timeline):
        section()
    assert sums == sorted(set(sums))
    assert len(sums) > 1
    assert any("in all of the audit, is below 1e-06" in line for line in opened.assumptions())
