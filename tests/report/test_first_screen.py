"""The first screen: at most 25 lines that say whether to publish, whom it concerns and what to change."""

from __future__ import annotations

import io
import math
import tomllib
from functools import cache
from typing import Any

import numpy as np
import pandas
import pytest
from rich.console import Console

import sightline as sl
from sightline.auditing.assumption_facts import NOT_ACCEPTED
from sightline.auditing.plan import AssumptionName
from sightline.auditing.result import Unverified
from sightline.examples.shipped import example_plan
from sightline.report.first_screen import (
    MOST_LINES,
    about_line,
    change_lines,
    exposed_lines,
    exposed_title,
    open_lines,
    picture,
    print_first_screen,
    tried_line,
)
from sightline.report.wording import after_words, before_after, records, verdict_words, view_line
from tests.report.report_cases import SHIPPED

NOISES: dict[str, dict[str, Any]] = {"1": {"epsilon": 1.0}, "10": {"epsilon": 10.0}, "hand": {}}
BY_HAND = {"census": 200.0, "meters": 0.2, "orders": 2.0, "stays": 0.5, "salaries": 500.0, "microgrid": 10.0}


def planned(name: str, noise: str) -> dict[str, Any]:
    """A shipped plan with another budget, or with noise by hand."""
    path = example_plan(name)
    plan = tomllib.loads(path.read_text(encoding="utf-8"))
    plan["data"]["source"] = str(path.parent / plan["data"]["source"])
    for release in plan["release"]:
        release.pop("noise_stddev", None)
        if noise == "hand":
            release["noise_stddev"] = BY_HAND.get(name, 1.0)
    plan["privacy"] = {"delta": 1e-6, **NOISES[noise]}
    return plan


@cache
def dashboard() -> sl.AuditResult:
    """The dashboard with its own noise."""
    return sl.audit(planned("microgrid", "hand"), names=True)


COUNTS = ("discharges", "frequency")  # which have rules for their counts, and no noise


def screen(result: sl.AuditResult, width: int = 80) -> str:
    out = io.StringIO()
    print_first_screen(result, Console(file=out, width=width, highlight=False))
    return out.getvalue()


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", [name for name in SHIPPED if name not in COUNTS])
def test_it_fits_a_screen_and_answers_three_questions(name: str, noise: str) -> None:
    result = sl.audit(planned(name, noise), names=True)
    text = screen(result)
    lines = text.splitlines()
    assert len(lines) <= MOST_LINES, text
    assert all(len(line) <= 80 for line in lines)
    answer = {True: "You can publish this.", False: ("Do not publish this yet.", "Not yet.")}
    first = " ".join(text.split())
    expected = answer[bool(result.verdict.passed)]
    assert any(one in first[:120] for one in ([expected] if isinstance(expected, str) else expected))
    if not result.verdict.passed:  # then it says what to do
        assert change_lines(result) or open_lines(result)
    # The first three, or of a full screen the first alone.
    for one in result.exposed[: 3 if len(lines) < MOST_LINES - 2 else 1]:
        assert one.record is not None
        assert (one.label if one.size > 1 and one.label else one.record)[:8] in text


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_a_plan_of_counts_fits_a_screen_and_says_what_to_blank(name: str) -> None:
    result = sl.audit(example_plan(name), names=True)
    text = screen(result)
    assert len(text.splitlines()) <= MOST_LINES, text
    assert "Do not publish this yet." in " ".join(text.split())
    assert "So that counts tell nobody's value" in text
    assert "no fewer are enough" in " ".join(text.split())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["readings", "stays"])
def test_a_total_is_what_its_covariance_says(name: str) -> None:
    """Rows share a level: before, r times one row's; after, r times what is left of the level."""
    result = sl.audit(planned(name, "hand"))
    view = result.sharpest
    assert view is not None
    assert view.total is not None
    assert math.isclose(view.total.before, view.before * view.total.rows, rel_tol=1e-12)
    assert 0 < view.total.after_lower <= view.total.after_upper <= view.total.before
    # The total is that of whom the best attack leaves least of; somebody else may have the least lower end.
    assert math.isclose(view.total.after_upper, view.total.before * view.after_upper / view.before)
    assert view.total.after_lower >= view.total.before * view.after_lower / view.before * (1 - 1e-9)


def test_the_total_of_two_rows_by_hand() -> None:
    """One person with two rows that share a level, both in one noisy sum: 4v·σ²/(4v + σ²) is left of 4v."""
    import pandas as pd

    plan = {
        "data": {
            "source": pd.DataFrame({"who": ["a", "a"], "x": [1.0, 2.0]}),
            "record": "who",
            "secret": "x",
            "bounds": [0, 6],
            "max_rows_per_record": 2,
        },
        "release": [{"name": "sum", "sql": "SELECT SUM(x) FROM data", "noise_stddev": 2.0}],
    }
    result = sl.audit(plan, limit="50%")
    assert result.sharpest is not None
    total = result.sharpest.total
    assert total is not None
    v, noise = 36 / 12, 4.0
    assert math.isclose(total.before, math.sqrt(4 * v))
    assert math.isclose(total.after_upper, math.sqrt(4 * v * noise / (4 * v + noise)), rel_tol=1e-9)
    assert total == result.exposed[0].total
    assert "The total x of the most exposed record over 2 rows is known to" in view_line(result)


def test_after_is_never_written_wider_than_before() -> None:
    random = np.random.default_rng(7)
    for trial in range(2_000):
        before = float(10 ** random.uniform(-4, 7))
        lower, upper = sorted(before * random.uniform(0.99, 1, 2)) if trial % 2 else (before, before)
        low, _, high = after_words(before, lower, upper).removeprefix("± ").replace(",", "").partition("–")
        shown = float(f"{before:.2e}")
        assert float(low) <= float(high or low) <= shown * (1 + 1e-12)
        assert float(low) <= lower * (1 + 1e-12)


def test_every_assumption_says_what_settles_it() -> None:
    result = dashboard()
    for name in AssumptionName:
        open_one = Unverified(
            name=name, count=2, reason="2 things are odd; so", accepted=False, owner_only=False
        )
        (line,) = open_lines(result.model_copy(update={"unverified": (open_one,), "homogeneous": ()}))
        assert line.startswith("2 things are odd. ")
        assert (f'accept = ["{name.value}"]' in line) == (name not in NOT_ACCEPTED)
    accepted = Unverified(name=name, count=2, reason="odd", accepted=True, owner_only=False)
    assert open_lines(result.model_copy(update={"unverified": (accepted,)})) == []


def test_of_a_long_line_the_end_is_kept_that_says_what_to_do() -> None:
    reason = " ".join(["2 things are odd, as is seen by whoever looks at them for long"] * 9)
    open_one = Unverified(
        name=AssumptionName.HOMOGENEOUS, count=2, reason=reason, accepted=False, owner_only=False
    )
    result = dashboard().model_copy(update={"unverified": (open_one,), "homogeneous": ()})
    shown = screen(result).partition("Not verified, and needed for a pass\n")[2].splitlines()[:4]
    assert shown[2].startswith("     … ")
    assert " ".join(" ".join(shown[2:]).split()).endswith('accept = ["homogeneous"].')


def test_what_does_not_depend_on_the_secret_is_said_to() -> None:
    plan = planned("microgrid", "hand")
    sql = "SELECT feeder, COUNT(*) FROM data GROUP BY feeder"
    plan["release"] = [{"name": "sizes", "sql": sql, "noise_stddev": 1.0}]
    result = sl.audit({**plan, "limits": {"remaining_uncertainty": 0.5}})
    assert screen(result).startswith(
        "PASSED  You can publish this. No number in it is made of evening_watts."
    )


def test_only_changes_that_reach_the_limit_are_listed() -> None:
    result = sl.audit(planned("microgrid", "hand"), full=True)
    assert result.what_to_change
    assert all(one.reaches_limit for one in result.what_to_change)
    assert len(change_lines(result)) == min(3, len(result.reaching))
    for line, change in zip(change_lines(result), result.reaching, strict=False):
        assert change.action in line
        assert change.effect not in line
    none = result.model_copy(update={"what_to_change": ()})
    (line,) = change_lines(none)
    assert line.startswith("No change was found that is enough alone.")
    for one in (result, result.publishable(), none):  # beside what is enough, too
        assert tried_line(one).startswith('Tried, and not enough: publish "by feeder" with ')
        assert "; leave out any one number or release." in tried_line(one)
        assert tried_line(one) in " ".join(screen(one).split())


def test_names_that_would_move_the_cursor_do_not() -> None:
    result = dashboard()
    odd = result.exposed[0].model_copy(update={"record": "\x1b[2J\nPASSED"})
    text = screen(result.model_copy(update={"exposed": (odd,), "secret": "a\x1b[1mb"}))
    assert "\x1b" not in text
    assert not any(line.startswith("PASSED") for line in text.splitlines())
    assert exposed_lines(result)[0].startswith("H13")


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        *(("home", "2 homes"), ("person", "2 people"), ("customer_id", "2 customers"), ("id", "2 records")),
        *(("Household 7", "2 records"), ("company", "2 companies"), ("uuid", "2 records")),
        ("SEQN", "2 records"),
    ],
)
def test_records_have_the_noun_of_their_column(column: str, expected: str) -> None:
    result = dashboard().model_copy(update={"record": column})
    assert records(2, result) == expected
    assert ("(SEQN)" in about_line(result)) == (column == "SEQN")


def test_of_a_group_with_long_names_of_columns_the_values_are_shown() -> None:
    result = dashboard()
    label = "AgeInYearsAtScreening 78, Gender Male"
    odd = result.exposed[0].model_copy(update={"record": None, "label": label, "size": 1})
    assert exposed_lines(result.model_copy(update={"exposed": (odd,)}))[0].startswith(
        "AgeInYe… 78, Gender Male "
    )


def test_the_picture_of_a_total_is_as_wide_as_its_uncertainty() -> None:
    result = sl.audit(planned("stays", "hand"))
    shown = before_after(result)
    assert shown is not None
    assert math.isclose(shown.spans[0][1] - shown.spans[0][0], 0.5)
    assert picture(result)[-1].split() == ["−90", "+90"]


@pytest.mark.parametrize("name", ["census", "microgrid"])
def test_broken_rules_are_on_the_screen_and_it_is_no_longer(name: str) -> None:
    """The worst of them always; fewer where other lines need the room."""
    plan = planned(name, "hand")
    plan["rules"] = {"k": 40}
    result = sl.audit(plan, names=True)
    assert result.rules is not None
    assert result.rules.in_all > 3
    for width in (80, 100):
        text = screen(result, width)
        assert len(text.splitlines()) <= MOST_LINES, text
        assert "Broken rules" in text
        assert ("each reaches the limit; the rules were not tried" in text) == bool(result.reaching)
        assert f"({result.rules.in_all:,} in all: --full)" in text
        assert f"{result.rules.broken[0].people} " in text.partition("Broken rules")[2].splitlines()[1]


def test_a_category_is_guessed_itself_and_each_person_is_listed_once() -> None:
    """Of three categories one is right one time of three before anything is published."""
    table = {"id": [*"abcdef"], "town": [*"uvwxyz"], "state": ["s", "m", "w", "s", "m", "w"]}
    plan = {
        "data": {
            "source": pandas.DataFrame(table),
            "record": "id",
            "secret": "state",
            "categories": ["m", "s", "w"],
        },
        "release": [
            {
                "name": "by town",
                "sql": "SELECT town, state, COUNT(*) FROM data GROUP BY ALL",
                "noise_stddev": 0.3,
            }
        ],
    }
    result = sl.audit(plan, names=True)
    assert len(result.exposed) == 18
    assert view_line(result).startswith("state of the most exposed record is guessed right at most ")
    assert (
        "before right 33 %. Of all 6 records, 2 on average are guessed right before, and at most 3.93 more"
        in (view_line(result))
    )
    shown = [line.split()[0] for line in exposed_lines(result)]
    assert len(shown) == len(set(shown)) == 5
    assert exposed_title(result) == "Most exposed, guessed right (33 % before), and how"
    assert all(" at most 99 %  " in line and "state" not in line for line in exposed_lines(result))
    judged = sl.audit({**plan, "limits": {"remaining_uncertainty": 0.5}})
    assert " of 6 records may keep less than 50 % of the uncertainty of state." in screen(judged, 200)


def test_a_plan_that_only_breaks_a_rule_is_not_said_to_be_below_the_limit() -> None:
    plan = planned("salaries", "hand")
    plan["release"] = [{**one, "noise_stddev": 1e6} for one in plan["release"] if "salary" in one["sql"]]
    result = sl.audit({**plan, "limits": {"remaining_uncertainty": 0.5}, "rules": {"k": 50}})
    text = screen(result)
    assert result.verdict.below_limit == 0
    assert text.startswith("A RULE IS BROKEN  Of 2 secrets, salary fares worst. Do not publish this yet. ")
    assert "Nobody is found below the limit." in " ".join(text.split())
    assert verdict_words(result) == "A rule is broken"
