"""The advice of an audit that comes from a design: it passes, it costs what it says, and it saves noise."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.advising import quick_design
from sightline.advising.hidden_limits import inverse_of_sum
from sightline.advising.task import plan_with_noise
from sightline.auditing.findings import find
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened
from sightline.errors import InvalidNoise
from tests.advising.tables import COUNTS, MEANS, NUMBER, YES_OR_NO, plan_for, write_table
from tests.auditing.hand_made import assembled

LIMIT = {"limits": {"remaining_uncertainty": 0.5, "accept": ["homogeneous"]}}


def changes(plan: dict[str, Any]) -> dict[str, Any]:
    """The changes of an audit by their kind; of several of one kind, the last."""
    return {change.kind.value: change for change in sl.audit(plan, full=True).what_to_change}


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("releases", "noise", "data"),
    [(MEANS, 1.0, NUMBER), (COUNTS, 0.1, YES_OR_NO)],
    ids=["number", "yes or no"],
)
def test_the_designed_noise_passes_and_costs_what_it_says(
    tmp_path: Path, releases: Any, noise: float, data: dict[str, Any]
) -> None:
    content = plan_for(write_table(tmp_path), releases, noise=noise, data=data, **LIMIT)
    plan, base = read_plan(content)
    with opened(plan, base) as session:
        membership = session.membership()
    findings = find(plan, membership)
    ((_, stddevs),) = quick_design.quick_design(findings, 0.5)
    proposed = plan_with_noise(plan, membership, stddevs)
    assert assembled(find(proposed, membership)).verdict.passed
    told = changes(content)
    assert told["design"].variance_factor == pytest.approx(np.mean(stddevs**2) / noise**2)
    assert f"raise the noise of {np.count_nonzero(stddevs > noise)} of {stddevs.size}" in told["design"].text
    assert told["noise"].variance_factor == told["noise"].noise_factor ** 2
    assert told["design"].variance_factor < told["noise"].variance_factor
    # The whole design finds the same or less.
    whole = sl.design(content)
    assert whole.loss_designed / whole.loss_before <= told["design"].variance_factor * (1 + 1e-6)


@pytest.mark.slow
def test_a_plan_that_passes_gets_no_such_advice(tmp_path: Path) -> None:
    content = plan_for(write_table(tmp_path), MEANS, noise=1000.0, data=NUMBER, **LIMIT)
    assert not {"design", "noise"} & set(changes(content))


@pytest.mark.slow
def test_published_noise_is_not_multiplied(tmp_path: Path) -> None:
    """A factor on all noise cannot be followed where a release is out: only the design is proposed."""
    published = ({**MEANS[0], "published": True}, *MEANS[1:])
    told = changes(plan_for(write_table(tmp_path), published, noise=1.0, data=NUMBER, **LIMIT))
    assert "noise" not in told
    assert "where multiplying" not in told["design"].text


@pytest.mark.slow
def test_plans_that_cannot_be_designed_get_the_common_factor(tmp_path: Path) -> None:
    content = plan_for(
        write_table(tmp_path),
        tuple({**one, "noise_stddev": None} for one in MEANS),
        noise=1.0,
        data=NUMBER,
        privacy={"epsilon": 300.0, "accountant": "laplace"},
        **LIMIT,
    )
    told = changes(content)
    assert "noise" in told
    assert "design" not in told


@pytest.mark.slow
def test_a_plan_that_is_too_large_is_told_to_design(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_design, "_MOST_ENTRIES", 0)
    told = changes(plan_for(write_table(tmp_path), MEANS, noise=1.0, data=NUMBER, **LIMIT))
    assert told["noise"].text.endswith('the plan is too large to look for less here, "sightline design" does')
    assert "design" not in told


@pytest.mark.slow
def test_a_design_that_saves_little_is_not_proposed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_design, "_WORTHWHILE", 1e-9)
    assert "design" not in changes(plan_for(write_table(tmp_path), MEANS, noise=1.0, data=NUMBER, **LIMIT))


@pytest.mark.slow
def test_next_to_no_noise_has_no_designed_advice(tmp_path: Path) -> None:
    """Groups and their total, with noise that rounds away: the audit ends, and a design says what to do."""
    lines = ["who,g,b,x"]
    places = [("n", "f"), ("n", "t"), ("n", ""), ("s", "f"), ("s", ""), *[("", "f")] * 2, *[("", "")] * 2]
    lines += [f"p{i},{g},{b},{i}" for i, (g, b) in enumerate(places)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    plan = {
        "data": {"source": str(tmp_path / "t.csv"), "record": "who", "secret": "x", "bounds": [0, 10]},
        "release": [
            {
                "name": "r",
                "sql": "SELECT g, b, SUM(x) FROM data GROUP BY ROLLUP (g, b)",
                "noise_stddev": 1e-9,
            }
        ],
        "attacker": {"prior": "cos2"},
        "limits": {"remaining_uncertainty": 0.5},
    }
    assert sl.audit(plan).verdict.passed is False
    with pytest.raises(InvalidNoise, match="start from more noise"):
        inverse_of_sum(np.ones((2, 2)), np.full(2, 1e-30))


@pytest.mark.slow
def test_a_design_beyond_what_a_plan_can_state_is_no_advice(tmp_path: Path) -> None:
    table = write_table(tmp_path)
    plan = plan_for(table, MEANS, noise=1e-9, data=NUMBER)
    plan["release"][-1]["noise_stddev"] = 1e50
    assert sl.audit({**plan, "limits": {"remaining_uncertainty": 0.5}}).verdict.passed is False
    checked, base = read_plan(plan)
    with opened(checked, base) as session:
        membership = session.membership()
    with pytest.raises(InvalidNoise, match="start from less noise"):
        plan_with_noise(checked, membership, np.full(len(membership.cells), 1e51))


@pytest.mark.thorough
def test_categories_of_persons_whose_rows_hold_one_value(tmp_path: Path) -> None:
    """Advice by audits alone: it ends, and what it proposes keeps the limit."""
    colours = ["red", "green", "blue"]
    lines = ["who,c"] + [f"p{i % 6},{colours[i % 6 % 3]}" for i in range(10)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    sql = "SELECT COUNT(*) FILTER (WHERE c <> 'blue'), COUNT(*) FILTER (WHERE c = 'red') FROM data"
    data = {"source": str(tmp_path / "t.csv"), "record": "who", "secret": "c", "categories": colours}
    plan = {
        "data": {**data, "max_rows_per_record": 2, "values": "constant"},
        "release": [{"name": "r", "sql": sql, "noise_stddev": 0.1}],
        "limits": {"remaining_uncertainty": 0.8, "accept": ["homogeneous"]},
    }
    result = sl.audit(plan, full=True)
    # All worlds of six persons, of whom four have two rows: what the exact counts leave of a person's red.
    worlds, rows = np.array(list(itertools.product(range(3), repeat=6))), np.array([2, 2, 2, 2, 1, 1])
    counts = 100 * ((worlds != 2) @ rows) + (worlds == 0) @ rows
    least = 1.0
    for person, colour in itertools.product(range(6), range(3)):
        has, left = worlds[:, person] == colour, 0.0
        for count in np.unique(counts):
            left += float(np.mean(counts == count) * np.var(has[counts == count]))
        least = min(least, left / (2 / 9))
    assert 0.7 < least < 0.8
    assert result.least_remaining_uncertainty is not None
    assert result.least_remaining_uncertainty.lower == pytest.approx(least, rel=0.01)
    assert result.least_remaining_uncertainty.upper >= least
    assert result.verdict.passed is False
    factor = next(one.noise_factor for one in result.what_to_change if one.noise_factor is not None)
    more = {**plan, "release": [{"name": "r", "sql": sql, "noise_stddev": 0.1 * factor}]}
    assert sl.audit(more, full=True).verdict.passed is True
