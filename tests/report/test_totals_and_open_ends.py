"""A total of rows has its span, its amount and how far totals differ; a bound of 100 % is no headline."""

from __future__ import annotations

import datetime
import statistics
from functools import cache

import pyarrow as pa
import pytest

import sightline as sl
from sightline.auditing.result import Uncertainty
from sightline.report.wording import NOT_BOUNDED, before_after, known_to, view_line

DAYS = 10


def rows() -> list[tuple[str, datetime.date, float]]:
    first = datetime.date(2025, 1, 1)
    return [
        (f"B{i:02}", first + datetime.timedelta(day), float(i + (day * 7) % 5))
        for i in range(12)
        for day in range(DAYS)
    ]


@cache
def year() -> sl.AuditResult:
    columns = zip(*rows(), strict=True)
    table = pa.table(dict(zip(("home", "day", "kwh"), map(list, columns), strict=True)))
    data = {
        "source": table,
        "record": "home",
        "secret": "kwh",
        "bounds": [0, 20],
        "max_rows_per_record": DAYS,
    }
    sums = [
        {"name": "all", "sql": "SELECT day, SUM(kwh) FROM data GROUP BY day", "noise_stddev": 2.0},
        {
            "name": "others",
            "sql": "SELECT day, SUM(kwh) FROM data WHERE home <> 'B07' GROUP BY day",
            "noise_stddev": 2.0,
        },
    ]
    plan = {"data": data, "limits": {"remaining_uncertainty": 0.5}, "release": sums}
    return sl.audit(plan, names=True)


def test_a_total_is_named_with_its_span_its_amount_and_the_spread_of_totals() -> None:
    totals = {
        home: sum(kwh for one, _, kwh in rows() if one == home) for home in {home for home, _, _ in rows()}
    }
    true = year().true_totals
    assert true is not None
    assert (true.record, true.total) == ("B07", totals["B07"])
    assert (true.least, true.most) == (min(totals.values()), max(totals.values()))
    assert true.spread == pytest.approx(statistics.pstdev(totals.values()))
    line = view_line(year())
    assert line.startswith(
        "The total kwh of home B07 over 10 rows (day 2025-01-01 to 2025-01-10) is 90 and is known to ± "
    )
    assert "Totals of all 12 homes range from 20 to 130, with a standard deviation of 34.5 " in line
    assert line.endswith("(for the owner only).")


def test_a_publishable_line_has_no_value_and_nobody() -> None:
    shown = year().publishable()
    line = view_line(shown)
    assert shown.true_totals is None
    assert line.startswith("The total kwh of the most exposed home over 10 rows is known to ± ")
    assert not any(part in line for part in ("B07", "90", "2025", "range"))


def test_a_bracket_that_leaves_everything_open_is_no_headline() -> None:
    result, exposed = year(), year().exposed[0]
    assert result.sharpest is not None
    open_ends = Uncertainty(lower=0.0, upper=1.0)
    assert known_to(exposed.model_copy(update={"remaining_uncertainty": open_ends}), result) == NOT_BOUNDED
    view = result.sharpest.model_copy(update={"total": None, "after_lower": 0.0, "after_upper": 100.0})
    silent = result.model_copy(update={"sharpest": view.model_copy(update={"before": 100.0})})
    assert before_after(silent).numbers[1] == NOT_BOUNDED
    assert view_line(silent).startswith("kwh of the most exposed home is known to an error without a lower")


def guessed(upper: float, kind: str, after: float = 1.0, **view: float) -> sl.AuditResult:
    """A result about a yes or no, or with a question about a number, of whom so much is left at most."""
    result = year()
    assert result.sharpest is not None
    update = {"total": None, "right_before": 0.5, "right_after": after, **view}
    return result.model_copy(
        update={
            "kind": kind,
            "least_about": "kwh > 12" if kind == "number" else None,
            "least_remaining_uncertainty": Uncertainty(lower=0.0, upper=upper),
            "sharpest": result.sharpest.model_copy(update=update),
        }
    )


@pytest.mark.parametrize(
    ("upper", "said"), [(0.0, "right 100 %"), (0.1, "right 95–100 %"), (1.0, NOT_BOUNDED)]
)
def test_a_bound_of_100_percent_says_how_often_an_attack_is_right(upper: float, said: str) -> None:
    """Whoever leaves 10 % of a variance of 1/4 is wrong at most 2 × 0.1 / 4 of the time."""
    result = guessed(upper, "boolean")
    assert before_after(result).numbers[1] == said
    line = view_line(result)
    assert "at most 100 %" not in line
    assert line.startswith(f"kwh of the most exposed home is guessed {said}") is (said != NOT_BOUNDED)
    assert line.startswith("How often a guess at kwh of the most exposed home is right has no bound") is (
        said == NOT_BOUNDED
    )


def test_a_finding_about_the_number_stands_before_a_question_without_a_bound() -> None:
    shown = before_after(guessed(1.0, "number", after_lower=3.0, after_upper=4.0))
    assert not shown.guess
    assert shown.numbers[1] == "± 3–4"
    assert before_after(guessed(1.0, "number", after=0.9)).guess
