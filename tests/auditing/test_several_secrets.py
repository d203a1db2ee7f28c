"""Several secrets in one plan: each is judged as in a plan of its own, and none is public to another."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from rich.console import Console

import sightline as sl
from sightline.auditing.plans_by_secret import plans_by_secret
from sightline.auditing.reading import read_plan
from sightline.auditing.result import VerdictStatus
from sightline.cli import main
from sightline.errors import InvalidPlan
from sightline.report.comparison import with_comparison
from sightline.report.design import lines
from sightline.report.page import report_html
from sightline.report.pipelines import problems_of, result_markdown
from sightline.report.terminal import print_result


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Forty people in areas of different sizes; the last one is alone in theirs."""
    random = np.random.default_rng(3)
    areas = ["north"] * 20 + ["south"] * 19 + ["isle"]
    lines = ["person,area,income,sick_days,smoker"]
    for place, area in enumerate(areas):
        income, days = random.integers(10, 90), random.integers(0, 40)
        lines.append(f"p{place},{area},{income}000,{days},{'true' if place % 3 else 'false'}")
    path = tmp_path_factory.mktemp("survey") / "survey.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


BY_AREA = "SELECT area, AVG(income), AVG(sick_days), COUNT(*) FROM data GROUP BY 1"
MAINLAND = "WHERE area <> 'isle'"


def plan_of(source: str, **changes: Any) -> dict[str, Any]:
    return {
        "data": {"source": source, "record": "person", "secret": "income", "bounds": [0, 100_000]},
        "secret": [{"column": "sick_days", "bounds": [0, 366]}, {"column": "smoker", "kind": "boolean"}],
        "privacy": {"epsilon": 2.0, "delta": 1e-6},
        "limits": {"remaining_uncertainty": 0.3, "accept": ["secrets", "few_values", "homogeneous"]},
        "release": [
            {"name": "by area", "sql": BY_AREA},
            {"name": "smokers", "sql": f"SELECT COUNT(*) FILTER (WHERE smoker) FROM data {MAINLAND}"},
            {"name": "days", "sql": "SELECT SUM(sick_days) FROM data", "noise_stddev": 0.001},
            {
                "name": "days but isle",
                "sql": f"SELECT SUM(sick_days) FROM data {MAINLAND}",
                "noise_stddev": 0.001,
            },
        ],
        **changes,
    }


def own_plan(source: str, secret: dict[str, Any], releases: list[dict[str, Any]]) -> dict[str, Any]:
    """The plan that somebody would write for one of the secrets."""
    plan = plan_of(source)
    del plan["secret"]
    return {**plan, "data": {"source": source, "record": "person", **secret}, "release": releases}


@pytest.mark.slow
def test_each_secret_is_judged_as_in_a_plan_of_its_own(survey: str) -> None:
    result = sl.audit(plan_of(survey))
    found = {one.secret: one for one in (result, *result.other_secrets)}
    days = plan_of(survey)["release"][2:]
    own = {
        "income": own_plan(
            survey,
            {"secret": "income", "bounds": [0, 100_000]},
            [{"name": "by area", "sql": "SELECT area, AVG(income), COUNT(*) FROM data GROUP BY area"}],
        ),
        "sick_days": own_plan(
            survey,
            {"secret": "sick_days", "bounds": [0, 366]},
            [
                {"name": "by area", "sql": "SELECT area, AVG(sick_days), COUNT(*) FROM data GROUP BY area"},
                *days,
            ],
        ),
        "smoker": own_plan(survey, {"secret": "smoker", "kind": "boolean"}, [plan_of(survey)["release"][1]]),
    }
    assert set(found) == set(own)
    for secret, plan in own.items():
        alone = sl.audit(plan)
        assert found[secret].least_remaining_uncertainty == alone.least_remaining_uncertainty
        assert found[secret].exposed == alone.exposed
        assert found[secret].budget == alone.budget
    assert result.secret == "sick_days", "two sums differ by one person's days: the worst of the three"
    assert result.verdict.status is VerdictStatus.FAILED
    assert result.verdict.text.startswith("Of 3 secrets, sick_days fares worst. ")
    assert [one.verdict.status for one in result.other_secrets] == [VerdictStatus.PASSED] * 2


def test_what_all_cost_at_most_is_rounded_up(survey: str) -> None:
    plan = plan_of(survey)
    plan["release"] = plan["release"][:2]
    plan["privacy"] = {**plan["privacy"], "epsilon": 1.23444}
    stated = sl.audit(plan).all_secrets
    assert stated is not None
    assert "at most epsilon = 3.704 at delta" in stated.text, "three times 1.23444 is 3.70332"


@pytest.mark.slow
def test_the_sum_of_the_budgets_is_stated_wherever_the_result_is_shown(
    survey: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_of(survey)
    plan["release"] = plan["release"][:2]
    result = sl.audit(plan, full=True)
    assert result.all_secrets is not None
    assert math.isclose(result.all_secrets.epsilon, 6.0, rel_tol=1e-9), "three secrets at epsilon = 2"
    assert result.all_secrets.epsilon >= 6.0 - 1e-9
    assert math.isclose(result.all_secrets.delta, 3e-6)
    print_result(result, Console(width=100), full=True)
    screen = " ".join(capsys.readouterr().out.split())
    page = " ".join(report_html(result).split())
    for text in (screen, page):
        assert "epsilon of 2 is that of each secret by itself" in text
        assert "at most epsilon = 6 at delta = 3e-06, the sum over the secrets" in text
        assert all(f"{one}: The limit holds; " in text for one in ("income", "sick_days", "smoker"))
    again = sl.AuditResult.from_json(result.to_json())
    assert again == result
    shown = result.publishable()
    assert all(one.dropped is None for one in (shown, *shown.other_secrets)), (
        "others hide what the owner sees"
    )


@pytest.mark.thorough
def test_pipelines_and_comparisons_see_each_secret(survey: str) -> None:
    result = sl.audit(plan_of(survey), full=True)
    text = result_markdown(result.publishable(), "plan.toml")
    assert "Of 3 secrets, sick_days fares worst." in text
    assert all(f"\n{one}: The limit holds; " in text for one in ("income", "smoker"))
    problems = problems_of(result.publishable(), "plan.toml")
    assert problems.passed is False
    assert problems.releases == ("by area", "days", "days but isle", "smokers")
    assert any(one.text.startswith("Secret sick_days: ") for one in problems.problems)
    # The other secret keeps its limit, although somebody is identifiable: that is no problem of the plan.
    assert not any(one.text.startswith("Secret income: Exposed: ") for one in problems.problems)
    assert [one for one in result.other_secrets[0].exposed if one.identifiable]
    # The worst secret may be another one than last time: each is compared with itself.
    better = plan_of(survey)
    better["release"] = better["release"][:2]
    again = with_comparison(sl.audit(better, full=True), result)
    for one in (again, *again.other_secrets):
        assert one.since is not None
        assert one.since.comparable
    days = next(one for one in (again, *again.other_secrets) if one.secret == "sick_days")
    assert "the verdict: failed before, passed now" in days.since.lines  # type: ignore[union-attr]


def test_that_secrets_tell_of_each_other_has_to_be_accepted(survey: str) -> None:
    plan = plan_of(survey, limits={"remaining_uncertainty": 0.3, "accept": ["few_values", "homogeneous"]})
    plan["release"] = plan["release"][:2]
    result = sl.audit(plan)
    assert {one.verdict.status for one in (result, *result.other_secrets)} == {VerdictStatus.NOT_SHOWN}
    assert "(secrets)" in result.verdict.text


MEETINGS = {
    "a condition": "SELECT AVG(income) FROM data WHERE sick_days > 3",
    "a group": "SELECT smoker, AVG(income) FROM data GROUP BY smoker",
    "a product": "SELECT SUM(income * sick_days) FROM data",
    "another's name": "SELECT area, AVG(income) AS sick_days FROM data GROUP BY area",
    "another's name in quotes": 'SELECT area, AVG(income) AS "SICK_DAYS" FROM data GROUP BY area',
    "a subquery": "SELECT AVG(income) FROM (SELECT income, area FROM data WHERE smoker) AS t",
    "a table expression": "WITH t AS (SELECT income, sick_days FROM data) SELECT AVG(income) FROM t",
    "an order": "SELECT area, AVG(income), AVG(sick_days) FROM data GROUP BY area ORDER BY 3",
    "HAVING": "SELECT area, AVG(income) FROM data GROUP BY area HAVING SUM(sick_days) > 3",
    "a position that moves": "SELECT AVG(sick_days), area, AVG(income) FROM data GROUP BY 2",
    "a union": "SELECT AVG(income) FROM data UNION ALL SELECT AVG(sick_days) FROM data",
    "the same word as a table": "SELECT AVG(smoker.income) FROM data AS smoker",
}


@pytest.mark.parametrize("case", MEETINGS)
def test_a_secret_is_never_public_to_another(case: str, survey: str) -> None:
    plan = plan_of(survey)
    plan["release"].append({"name": "meeting", "sql": MEETINGS[case]})
    with pytest.raises(InvalidPlan, match=r"^release 'meeting': expected a release about one secret"):
        plans_by_secret(read_plan(plan)[0])


def test_what_words_do_not_show_is_not_in_the_table(survey: str) -> None:
    """Each part of the plan sees a table without the other secrets: conditions, orders and stars, too."""
    with pytest.raises(InvalidPlan, match="expected a column of the table"):
        sl.audit(plan_of(survey, attacker={"knows": ["sick_days > 3"]}))
    plan = plan_of(survey)
    order = "ROW_NUMBER() OVER (PARTITION BY person ORDER BY sick_days)"
    plan["data"]["sql"] = f"SELECT * FROM source QUALIFY {order} = 1"
    with pytest.raises(InvalidPlan, match="rows that do not depend on a secret"):
        sl.audit(plan)


BAD = {
    "twice": ({"secret": [{"column": "Income", "bounds": [0, 1]}]}, "'income' twice"),
    "the key": ({"secret": [{"column": "person", "bounds": [0, 1]}]}, "'person' twice"),
    "no domain": ({"secret": [{"column": "sick_days"}]}, 'expected a column of the table, got "sick_days"'),
    "no release": ({"secret": [{"column": "area", "categories": ["a", "b"]}]}, "beside another secret"),
    "a strange field": ({"secret": [{"column": "a", "bound": [0, 1]}]}, "did you mean 'bounds'?"),
    "values known": (
        {"attacker": {"values_within": 1.0}},
        "secret 'smoker': expected [attacker] values_within for a number",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_secret_is_one_line(case: str, survey: str) -> None:
    changes, words = BAD[case]
    with pytest.raises(InvalidPlan) as caught:
        sl.audit(plan_of(survey, **changes))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_secret_without_a_release_is_refused(survey: str) -> None:
    plan = plan_of(survey)
    plan["release"] = plan["release"][:1]
    with pytest.raises(InvalidPlan, match="a release about each secret, got none about 'smoker'"):
        sl.audit(plan)


def test_what_the_plan_gives_is_given_to_every_part(survey: str) -> None:
    plan = plan_of(survey)
    plan["data"] |= {"sql": "SELECT * FROM source", "max_rows_per_record": 2}
    parts = plans_by_secret(read_plan(plan)[0])
    assert [part.data.max_rows_per_record for part in parts] == [2, 2, 2], "as it is given, not the default"
    assert {part.data.sql for part in parts} == {"SELECT * FROM source"}
    assert [part.other_secrets for part in parts] == [
        ("sick_days", "smoker"),
        ("income", "smoker"),
        ("income", "sick_days"),
    ]
    assert [[one.name for one in part.releases] for part in parts] == [
        ["by area"],
        ["by area", "days", "days but isle"],
        ["smokers"],
    ]


def test_a_rehearsal_is_about_every_secret(survey: str) -> None:
    parts = plans_by_secret(read_plan(plan_of(survey))[0])
    found = sl.rehearse(plan_of(survey), repetitions=20, top=2)
    rehearsed = (found, *found.other_secrets)
    assert [one.secret for one in rehearsed] == ["income", "sick_days", "smoker"]
    for one, part in zip(rehearsed, parts, strict=True):
        assert one.guesses == sl.rehearse(part, repetitions=20, top=2).guesses


@pytest.mark.thorough
def test_a_design_is_about_every_secret(survey: str) -> None:
    plan = plan_of(survey)
    parts = plans_by_secret(read_plan(plan)[0])
    found = sl.design(plan)
    designed = (found, *found.other_secrets)
    assert [one.secret for one in designed] == ["income", "sick_days", "smoker"]
    for one, part in zip(designed, parts, strict=True):
        own = sl.design(part)
        assert (one.loss_designed, one.plan, one.passed) == (own.loss_designed, own.plan, own.passed)
    text = "\n".join(lines(found))
    assert text.count("by themselves:") == 3


@pytest.mark.thorough
def test_a_record_is_explained_for_every_secret(survey: str) -> None:
    found = sl.explain(plan_of(survey), record="p1")
    explained = (found, *found.other_secrets)
    assert [one.result.secret for one in explained] == ["income", "sick_days", "smoker"]
    for one, part in zip(explained, plans_by_secret(read_plan(plan_of(survey))[0]), strict=True):
        assert one.exposed == sl.explain(part, record="p1").exposed
    with pytest.raises(InvalidPlan, match="which no row is about"):
        sl.explain(plan_of(survey), record="nobody")


def test_check_reads_the_releases_of_every_secret(
    survey: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"""
[data]
source = "{survey}"
record = "person"
secret = "income"
bounds = [0, 100000]

[[secret]]
column = "smoker"
kind = "boolean"

[[release]]
name = "income"
sql = "SELECT AVG(income) FROM data"
noise_stddev = 1

[[release]]
name = "smokers"
sql = "SELECT {{}} FROM data"
noise_stddev = 1
"""
    path = tmp_path / "plan.toml"
    path.write_text(text.format("COUNT(*) FILTER (WHERE smoker)"))
    assert main(["check", str(path)]) == 0
    path.write_text(text.format("MAX(smoker)"))
    assert main(["check", str(path)]) == 1
    assert "release 'smokers': expected" in capsys.readouterr().err


def two_secrets(*, x: float, y: float, where: str = "WHERE person = 1") -> dict[str, Any]:
    """A number and a yes or no, each of one person unless all are meant, with noise of their own."""
    table = pd.DataFrame({"person": range(9), "x": np.linspace(0.7, 9.4, 9), "y": [False, True, True] * 3})
    asked = {"x": ("SUM(x)", x, where), "y": ("COUNT(*) FILTER (WHERE y)", y, "WHERE person = 2")}
    return {
        "data": {"source": table, "record": "person", "secret": "x", "bounds": [0, 10]},
        "secret": [{"column": "y", "kind": "boolean"}],
        "limits": {"remaining_uncertainty": 0.5, "accept": ["secrets", "few_values", "homogeneous"]},
        "release": [
            {"name": name, "sql": f"SELECT {one} FROM data {condition}", "noise_stddev": stddev}
            for name, (one, stddev, condition) in asked.items()
        ],
    }


def times(plan: dict[str, Any], factor: float) -> dict[str, Any]:
    releases = [{**one, "noise_stddev": factor * one["noise_stddev"]} for one in plan["release"]]
    return {**plan, "release": releases}


@pytest.mark.parametrize(
    "plan",
    [
        two_secrets(x=2.0, y=0.39),  # y keeps less, and x needs more
        two_secrets(x=0.01, y=2.0, where=""),  # x keeps less, whatever its noise, and y has less slack
    ],
    ids=["both need noise", "both have slack"],
)
def test_the_slack_is_that_of_all_secrets(plan: dict[str, Any]) -> None:
    result = sl.audit(plan, full=True)
    worst, other = result.secret, result.other_secrets[0]
    assert result.slack is not None
    assert result.slack == other.slack, f"{worst} keeps less, and {other.secret} decides"
    factor = result.slack.noise_factor
    assert factor is not None
    assert sl.audit(times(plan, factor), full=True).verdict.passed
    assert not sl.audit(times(plan, 0.97 * factor), full=True).verdict.passed
    for change in result.what_to_change:
        assert change.reaches_limit == (change.kind == "noise"), "the other secret needs more, too"
        assert change.noise_factor == factor if change.kind == "noise" else change.text.startswith("for y: ")


def test_what_reaches_the_limit_of_the_only_secret_that_fails_reaches_it_of_all() -> None:
    plan = two_secrets(x=2.0, y=2.0)
    more = {"name": "all", "sql": "SELECT SUM(x) FROM data", "noise_stddev": 50.0}
    result = sl.audit({**plan, "release": [*plan["release"], more]}, full=True)
    assert (result.secret, result.other_secrets[0].verdict.passed) == ("x", True)
    (drop,) = [one for one in result.what_to_change if one.kind == "drop"]
    assert drop.reaches_limit
    assert drop.text.startswith('for x: do not publish "x": then')
    kept = [one for one in [*plan["release"], more] if one["name"] != drop.release]
    assert sl.audit({**plan, "release": kept}, full=True).verdict.passed


BOTH = "SELECT g, SUM(x) AS sx, COUNT(*) FILTER (WHERE y) AS sy FROM data GROUP BY g"
BY_CELL = [["u", "sx", 2.0], ["t", "sx", 3.0], ["u", "sy", 1.0], ["t", "sy", 1.5]]


@pytest.mark.parametrize(
    ("of_both", "of_x", "of_y"),
    [
        (
            {"noise": [{"label": "sx", "stddev": 2.0}, {"label": "sy by g", "law": "laplace", "scale": 1.0}]},
            {"noise": {"stddev": 2.0}},
            {"noise": {"law": "laplace", "scale": 1.0}},
        ),
        (
            {"noise": {"by_cell": BY_CELL}},
            {"noise": {"by_cell": [["u", 2.0], ["t", 3.0]]}},
            {"noise": {"by_cell": [["u", 1.0], ["t", 1.5]]}},
        ),
        (
            {"noise": {"stddev": 2.0}, "withhold": [["u", "sy"]]},
            {"noise": {"stddev": 2.0}},
            {"noise": {"stddev": 2.0}, "withhold": [["u"]]},
        ),
    ],
    ids=["labels", "by cell", "withheld"],
)
def test_what_is_said_of_one_aggregate_is_about_its_secret(
    of_both: dict[str, Any], of_x: dict[str, Any], of_y: dict[str, Any]
) -> None:
    """A release with aggregates of two secrets, beside a plan for each."""
    plan = two_secrets(x=1.0, y=1.0)
    plan["data"]["source"] = plan["data"]["source"].assign(g=list("uuuuutttt"))
    release = {"name": "both", "sql": BOTH}
    result = sl.audit({**plan, "release": [{**release, **of_both}]})
    got = {one.secret: one.least_remaining_uncertainty for one in (result, *result.other_secrets)}
    for secret, own, other in (("x", of_x, "y"), ("y", of_y, "x")):
        item = BOTH.split(", ")[1 if secret == "x" else 2].partition(" FROM")[0]
        sql = f"SELECT g, {item} FROM data GROUP BY g"
        kind = {"bounds": [0, 10]} if secret == "x" else {"kind": "boolean"}
        table = plan["data"]["source"].drop(columns=other)
        alone = {"data": {"source": table, "record": "person", "secret": secret, **kind}}
        alone |= {"release": [{**release, "sql": sql, **own}], "limits": plan["limits"]}
        assert sl.audit(alone).least_remaining_uncertainty == got[secret]


def test_an_aggregate_without_noise_beside_one_of_another_secret_is_refused() -> None:
    plan = two_secrets(x=1.0, y=1.0)
    plan["data"]["source"] = plan["data"]["source"].assign(g=list("uuuuutttt"))
    release = {"name": "both", "sql": BOTH, "noise": [{"label": "sy", "stddev": 1.0}]}
    budget = {"epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(InvalidPlan, match="noise for every aggregate, got none for 'sx'"):
        sl.audit({**plan, "privacy": budget, "release": [release]})
