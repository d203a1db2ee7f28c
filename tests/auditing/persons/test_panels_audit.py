"""Homes that are read every hour: what the audit says of them, against dense algebra over single rows."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import sightline as sl
from sightline.auditing.lowering import lower
from sightline.auditing.pricing import price
from sightline.auditing.reading import read_plan
from sightline.auditing.session import opened
from sightline.errors import InvalidPlan
from sightline.report.terminal import named_lines, print_explanation
from sightline.report.wording import period_alone
from tests.auditing.persons.test_persons_audit import plan, written

HEADER = "customer,day,hour,pilot,x"
BOUNDS = (0.0, 100.0)
RELEASES = (
    ("SELECT day, SUM(x) FROM data GROUP BY day", 60.0),
    ("SELECT day, SUM(x) FROM data WHERE pilot GROUP BY day", 60.0),
    ("SELECT hour, AVG(x) FROM data GROUP BY hour", 3.0),
)


def homes(count: int, days: int, hours: int, gaps: float) -> list[tuple[Any, ...]]:
    generator = np.random.default_rng(7)
    return [
        (f"h{home}", day, hour, home > 0, round(float(generator.uniform(*BOUNDS)), 2))
        for home in range(count)
        for day in range(days)
        for hour in range(hours)
        if generator.random() >= gaps
    ]


def posterior(rows: list[tuple[Any, ...]]) -> np.ndarray:
    """The covariance that the best linear attack leaves, over the prior's variance."""
    day, hour, pilot = (np.array([row[place] for row in rows]) for place in (1, 2, 3))
    numbers = [(day == one) / 60.0 for one in np.unique(day)]
    numbers += [((day == one) & pilot) / 60.0 for one in np.unique(day)]
    numbers += [(hour == one) / (3.0 * np.sum(hour == one)) for one in np.unique(hour)]
    whitened = np.array(numbers)
    variance = 100.0**2 / 12
    return np.linalg.inv(whitened.T @ whitened * variance + np.eye(len(rows)))


@pytest.mark.parametrize("gaps", [0.0, 0.08])
def test_periods_the_total_and_one_row_are_those_of_dense_algebra(tmp_path: Path, gaps: float) -> None:
    rows = homes(6, 10, 8, gaps)
    written(tmp_path, HEADER, rows)
    result = sl.audit(plan(tmp_path, *RELEASES, max_rows_per_record=80, values="independent"), names=True)
    left, who = posterior(rows), np.array([row[0] for row in rows])
    first = result.exposed[0]
    own = who == "h0"
    assert first.record == "h0"
    assert first.remaining_uncertainty is not None
    assert first.remaining_uncertainty.upper == pytest.approx(
        np.linalg.eigvalsh(left[np.ix_(own, own)])[0], rel=1e-6
    )
    day, hour = (np.array([row[place] for row in rows]) for place in (1, 2))
    features = {f"r0: {one}": own & (day == one) for one in range(10)}
    features |= {f"r2: {one}": own & (hour == one) for one in range(8)} | {"all their rows": own}
    named = {one.name: one for one in first.named}
    assert set(named) == {*features, "one row"}
    for name, f in features.items():
        assert named[name].rows == f.sum()
        upper = f @ left @ f / f.sum()
        assert named[name].remaining_uncertainty.upper == pytest.approx(upper, rel=1e-6)
        assert first.remaining_uncertainty.lower <= named[name].remaining_uncertainty.lower <= upper
    best = np.diagonal(left)[own].min()
    assert named["one row"].remaining_uncertainty.upper == pytest.approx(best, rel=1e-6)


def test_the_home_outside_the_pilot_group_is_found_by_a_difference_in_words(tmp_path: Path) -> None:
    rows = homes(6, 10, 8, 0.05)
    written(tmp_path, HEADER, rows)
    result = sl.audit(plan(tmp_path, *RELEASES, max_rows_per_record=80, values="independent"), names=True)
    first = result.exposed[0]
    words = period_alone(first)
    assert words is not None
    assert words.startswith('"r0: ')
    assert '− "r1: ' in words
    assert "the difference of two numbers" in words
    assert words.endswith("and so 9 other periods")
    assert len(named_lines(first)) == 4  # a day, an hour of the day, all rows, one row
    alone = [one for one in first.named if one.recipe is not None]
    assert {one.kind for one in alone} == {"period"}
    assert all(one.recipe.rmse == pytest.approx(60 * np.sqrt(2)) for one in alone if one.recipe)
    others = [one for one in result.exposed if one.record != "h0"]
    assert not any(period_alone(one) for one in others)
    assert first.feature == "combination"
    assert first.recipe is not None
    steps = [(step.release, step.weight) for step in first.recipe.steps]  # of all homes, less of the pilot
    assert all((weight > 0) == (release != "r1") for release, weight in steps)
    printed = StringIO()
    explained = sl.explain(
        plan(tmp_path, *RELEASES, max_rows_per_record=80, values="independent"), record="h0"
    )
    print_explanation(explained, Console(file=printed, width=200))
    assert "= a combination of the rows, with an error of" in printed.getvalue()


def test_a_record_with_more_rows_than_declared_is_refused_with_the_number_to_declare(tmp_path: Path) -> None:
    written(tmp_path, HEADER, homes(3, 4, 5, 0.0))
    with pytest.raises(InvalidPlan, match=r"at most 1 row per record.*set max_rows_per_record = 20 in"):
        sl.audit(plan(tmp_path, RELEASES[0]))


def test_gaps_and_hours_that_occur_twice_are_a_line_each(tmp_path: Path) -> None:
    """The clocks go back at three in the morning: the hour after two is read twice."""
    hours = [f"2023-10-29 {hour:02d}:00:00" for hour in (0, 1, 2, 2, 3, *range(4, 24))]
    rows = [(f"h{home}", hour, home) for home in range(6) for hour in hours]
    del rows[7:9]
    written(tmp_path, "customer,hour,x", rows)
    result = sl.audit(plan(tmp_path, ("SELECT SUM(x) FROM data", 9.0), max_rows_per_record=25))
    lines = " ".join(result.assumptions)
    assert "Records have 23 to 25 rows: 1 of 6 has fewer than 25." in lines
    assert "6 times a record has several rows with the same 'hour': an hour" in lines


def test_a_full_panel_has_neither_line(tmp_path: Path) -> None:
    rows = [(f"h{home}", f"2023-06-01 {hour:02d}:00:00", home) for home in range(4) for hour in range(24)]
    written(tmp_path, "customer,hour,x", rows)
    result = sl.audit(plan(tmp_path, ("SELECT SUM(x) FROM data", 9.0), max_rows_per_record=24))
    lines = " ".join(result.assumptions)
    assert "fewer than the most" not in lines
    assert "times a record" not in lines


def test_values_that_drift_are_refused_with_what_would_be_needed(tmp_path: Path) -> None:
    written(tmp_path, HEADER, homes(3, 4, 5, 0.0))
    with pytest.raises(InvalidPlan, match=r'"drifting".*a stated bound.*audits both ends'):
        sl.audit(plan(tmp_path, RELEASES[0], max_rows_per_record=20, values="drifting"))


def test_rows_that_nothing_tells_apart_are_known_from_reading_the_table(tmp_path: Path) -> None:
    """The groups of a design's columns are those that comparing the columns finds."""
    written(tmp_path, HEADER, homes(5, 4, 6, 0.2))
    checked, base = read_plan(plan(tmp_path, *RELEASES, max_rows_per_record=80, values="independent"))
    with opened(checked, base) as session:
        membership = session.membership()
    lowered = lower(checked, membership, price(checked, membership))
    assert lowered is not None
    units = lowered.units
    assert "groups" in units.__dict__
    compared = replace(units).groups
    pairs = np.unique(np.stack([units.groups, compared]), axis=1)
    assert pairs.shape[1] == np.unique(units.groups).size == np.unique(compared).size
