"""No plan gets a green box over what a number tells of all its rows, whatever it accepts."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import sightline as sl
from sightline.auditing.assumption_facts import NOT_ACCEPTED, OF_A_GROUP
from sightline.auditing.plan import AssumptionName
from sightline.cli import _status_of
from sightline.report.first_screen import MOST_LINES, first_screen
from sightline.report.notebook import html
from sightline.report.page import report_html
from sightline.report.pipelines import PipelineFormat, result_text
from sightline.report.wording import limit_line, status_word

ALL = [one.value for one in AssumptionName if one not in NOT_ACCEPTED]
PEOPLE, ALIKE = 120, 30
ILL = {"secret": "ill", "kind": "boolean"}
COUNT = "SELECT g, COUNT(*) FILTER (WHERE ill) AS n FROM data GROUP BY g"
COLOURS = {"secret": "colour", "categories": ["red", "blue", "green"]}

# The columns of the secret, the release, and its noise: 30 of 120 people are alike.
TOLD: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "exact": (ILL, COUNT, {"noise": {"law": "none"}}),
    "nearly exact": (ILL, COUNT, {"noise_stddev": 0.01}),
    "half a person of noise": (ILL, COUNT, {"noise_stddev": 0.5}),
    "rounded to 2": (ILL, COUNT, {"noise": {"law": "rounding", "to": 2}}),
    "rounded to 5": (ILL, COUNT, {"noise": {"law": "rounding", "to": 5}}),
    "within 1": (ILL, COUNT, {"noise": {"law": "within", "of": 1}}),
    "all": (ILL, COUNT.replace("WHERE ill", "WHERE NOT ill"), {"noise_stddev": 0.3}),
    "a sum": (
        {"secret": "x", "bounds": [0, 10]},
        "SELECT g, SUM(x) FROM data GROUP BY g",
        {"noise_stddev": 1},
    ),
    "a category": (
        COLOURS,
        "SELECT g, COUNT(*) FILTER (WHERE colour = 'red') FROM data GROUP BY g",
        {"noise_stddev": 0.3},
    ),
    "missing lines": (
        COLOURS,
        "SELECT g, colour, COUNT(*) FROM data GROUP BY g, colour",
        {"noise_stddev": 1},
    ),
}


def people() -> pa.Table:
    others = range(PEOPLE - ALIKE)
    return pa.table(
        {
            "who": [f"p{i}" for i in range(PEOPLE)],
            "g": ["a"] * len(others) + ["b"] * ALIKE,
            "ill": [i % 2 == 0 for i in others] + [False] * ALIKE,
            "x": [(i * 7919) % 1000 / 100 for i in others] + [0.0] * ALIKE,
            "colour": [("red", "blue", "green")[i % 3] for i in others] + ["red"] * ALIKE,
        }
    )


@cache
def audited(name: str, accept: tuple[str, ...] = tuple(ALL)) -> sl.AuditResult:
    secret, query, noise = TOLD[name]
    data = {"source": people(), "record": "who", "public": ["g"], **secret}
    limits = {"remaining_uncertainty": 0.5, "accept": list(accept)}
    release = {"name": "counts", "sql": query, **noise}
    return sl.audit({"data": data, "limits": limits, "release": [release]}, names=True, full=True)


def shown(result: sl.AuditResult) -> dict[str, str]:
    """Everything that a person reads first, with its colours."""
    lines = first_screen(result, 100)
    colours = " ".join(str(span.style) for span in lines[0].spans)
    return {
        "terminal": "\n".join(line.plain for line in lines) + colours,
        "page": report_html(result),
        "publishable page": report_html(result, publishable=True),
        "notebook": html(result),
        "markdown": result_text(result, "plan.toml", PipelineFormat.MARKDOWN),
        "junit": result_text(result, "plan.toml", PipelineFormat.JUNIT),
    }


@pytest.mark.parametrize("name", TOLD)
def test_what_is_told_of_a_group_gets_no_green_box_whatever_is_accepted(name: str) -> None:
    result = audited(name)
    for text in shown(result).values():
        assert "You can publish this" not in text
        assert 'class="verdict good"' not in text
        assert "bold green" not in text
    assert len(first_screen(result, 100)) <= MOST_LINES


def test_a_plan_that_accepts_it_is_told_who_decides_and_what_was_found() -> None:
    result = audited("nearly exact")
    assert result.verdict.passed
    assert status_word(result) == "ACCEPTED, NOT SHOWN"
    line = limit_line(result)
    assert line.startswith(
        "A person has to decide this, and say so in [limits] set_by: the plan accepts what "
    )
    assert result.verdict.waits_for_a_person
    decided = result.verdict.model_copy(update={"set_by": "Ada"})
    assert not decided.waits_for_a_person
    by_ada = result.model_copy(update={"verdict": decided})
    assert limit_line(by_ada).startswith("Decided by Ada: the plan ")
    assert (_status_of(result), _status_of(by_ada)) == (2, 0)  # at 0 a pipeline publishes
    assert "see the other test cases" not in shown(result)["junit"]  # no other says anything
    screen = " ".join(line.plain for line in first_screen(result, 100))
    assert 'homogeneous: "counts: b" tells the values of 30 rows: they are nearly all alike.' in screen
    assert "<skipped" in shown(result)["junit"]


def test_without_accepting_it_nothing_passes() -> None:
    kept = tuple(one for one in ALL if AssumptionName(one) not in OF_A_GROUP)
    for name in TOLD:
        assert audited(name, kept).verdict.passed is False


def test_readers_do_not_see_whether_a_group_is_alike_only_that_it_would_be_accepted() -> None:
    """The publishable verdict is the same for a table where nobody is alike."""
    plan = {
        "data": {"source": people().slice(0, PEOPLE - ALIKE), "record": "who", "public": ["g"], **ILL},
        "limits": {"remaining_uncertainty": 0.5, "accept": ["homogeneous"]},
        "release": [{"name": "counts", "sql": COUNT, "noise_stddev": 0.5}],
    }
    owner = sl.audit(plan)
    assert owner.verdict.passed
    assert not owner.verdict.accepts_groups
    assert "You can publish this" in limit_line(owner)
    assert owner.publishable().verdict.accepts_groups
    assert "You can publish this" not in limit_line(owner.publishable())


def test_noise_that_guarantees_it_needs_nobody_to_accept_it() -> None:
    secret, query, _ = TOLD["exact"]
    plan = {
        "data": {"source": people(), "record": "who", "public": ["g"], **secret},
        "limits": {"remaining_uncertainty": 0.5, "accept": ["homogeneous"]},
        "release": [{"name": "counts", "sql": query, "noise_stddev": 3.0}],
    }
    for result in (sl.audit(plan), sl.audit(plan).publishable()):
        assert limit_line(result).startswith("You can publish this. The noise alone guarantees that ")


def test_of_two_secrets_the_one_that_somebody_has_to_decide_stands_first() -> None:
    plan = {
        "data": {
            "source": people(),
            "record": "who",
            "public": ["g"],
            "secret": "x",
            "bounds": [0, 10],
        },
        "secret": [{"column": "ill", "kind": "boolean"}],
        "limits": {"remaining_uncertainty": 0.5, "accept": ["homogeneous", "secrets", "few_values"]},
        "release": [
            {"name": "sums", "sql": "SELECT g, SUM(x) FROM data GROUP BY g", "noise_stddev": 100},
            {"name": "counts", "sql": COUNT, "noise_stddev": 0.3},
        ],
    }
    result = sl.audit(plan)
    assert (result.secret, result.verdict.accepts_groups) == ("ill", True)
    assert not result.other_secrets[0].verdict.accepts_groups
