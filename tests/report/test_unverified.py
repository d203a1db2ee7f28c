"""What a pass needs and was not verified, and groups that are nearly all alike, in page and terminal."""

from __future__ import annotations

import io
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pyarrow
import pytest
from rich.console import Console

import sightline as sl
from sightline.auditing.plan import AssumptionName
from sightline.auditing.result import HomogeneousCell
from sightline.auditing.result_parts import TOP
from sightline.report.first_screen import accepted_lines
from sightline.report.page import report_html
from sightline.report.pipelines import summary
from sightline.report.terminal import print_result

ALIKE = "Groups that are nearly all alike"
SUM_OF = "SUM(pay) FILTER(WHERE id >"


def in_terminal(result: sl.AuditResult) -> str:
    out = io.StringIO()
    print_result(result, Console(file=out, width=300, highlight=False), full=True)
    return out.getvalue()


def on_page(result: sl.AuditResult) -> str:
    return unescape(report_html(result))


FORMS = pytest.mark.parametrize("shown", [in_terminal, on_page], ids=["terminal", "page"])
Shown = Callable[[sl.AuditResult], str]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> sl.AuditResult:
    """A region in which everyone has 0, a value outside the bounds that is accepted, and an empty release."""
    folder: Path = tmp_path_factory.mktemp("alike")
    rows = [f"p{i},{'north' if i < 40 else 'south'},{0 if i < 40 else i % 9 + i / 1000}" for i in range(80)]
    (folder / "t.csv").write_text("\n".join(["who,region,x", *rows, "q,south,1000"]), encoding="utf-8")
    plan = {
        "data": {"source": f"{folder}/t.csv", "record": "who", "secret": "x", "bounds": [0, 10]},
        "limits": {"remaining_uncertainty": 0.5, "accept": ["clipped", "empty"]},
        "release": [
            {
                "name": "[by region]",
                "sql": "SELECT region, SUM(x) FROM data GROUP BY region",
                "noise_stddev": 1.0,
            },
            {"name": "none", "sql": "SELECT SUM(x) FROM data WHERE region = 'x'", "noise_stddev": 1.0},
        ],
    }
    return sl.audit(plan, full=True)


@pytest.mark.slow
@FORMS
def test_every_assumption_has_a_line_with_its_reason(result: sl.AuditResult, shown: Shown) -> None:
    names = {one.name.value for one in result.unverified}
    assert names == {"clipped", "empty", "homogeneous", "few_values"}
    text = shown(result)
    for one in result.unverified:
        assert f"{one.name.value}: {one.reason}" in text
    clipped = next(one for one in result.unverified if one.name is AssumptionName.CLIPPED)
    assert f"{clipped.reason} (accepted by the plan; for the owner only)" in text
    empty = next(one for one in result.unverified if one.name is AssumptionName.EMPTY)
    assert f"{empty.reason} (accepted by the plan)" in text


@pytest.mark.slow
@FORMS
def test_groups_that_are_alike_are_told_to_the_owner(result: sl.AuditResult, shown: Shown) -> None:
    assert result.homogeneous is not None
    (cell,) = result.homogeneous
    assert cell.rows == 40
    text = shown(result)
    assert ALIKE in text
    assert cell.text in text


@pytest.mark.slow
@FORMS
def test_what_may_be_published_has_none_of_it(result: sl.AuditResult, shown: Shown) -> None:
    text = shown(result.publishable())
    assert ALIKE not in text
    assert "alike" not in text
    assert "clipped:" not in text
    assert "empty: 1 release aggregates no row" in text, "that is no secret"


@pytest.mark.slow
@FORMS
def test_a_long_list_is_cut(result: sl.AuditResult, shown: Shown) -> None:
    assert result.homogeneous is not None
    (cell,) = result.homogeneous
    many = tuple(
        HomogeneousCell.model_validate({**cell.model_dump(), "text": f"number {place} tells"})
        for place in range(TOP + 3)
    )
    text = shown(result.model_copy(update={"homogeneous": many}))
    assert f"number {TOP - 1} tells" in text
    assert f"number {TOP} tells" not in text
    assert "nd 3 more" in text
    assert "nd 0 more" not in shown(result.model_copy(update={"homogeneous": many[:TOP]}))
    # A result lists a hundred of them, and says how many there are.
    told = [one.model_copy(update={"count": 5_013}) for one in result.unverified if one.name == "homogeneous"]
    text = shown(result.model_copy(update={"homogeneous": many, "unverified": tuple(told)}))
    assert f"nd {5_013 - TOP:,} more" in text
    assert " 5,012 others tell theirs, too." in text


@pytest.mark.slow
@FORMS
def test_a_plan_with_nothing_open_has_no_such_section(result: sl.AuditResult, shown: Shown) -> None:
    text = shown(result.model_copy(update={"homogeneous": (), "unverified": (), "slack": None}))
    assert ALIKE not in text
    assert "ot verified" not in text


@pytest.mark.parametrize(
    ("ratio", "named"),
    [
        (f"{SUM_OF} 9) > {SUM_OF} 19)", f"taken to be on {SUM_OF} 19), {SUM_OF} 9), and"),
        (
            " + ".join(f"{SUM_OF} {place})" for place in (9, 19, 29, 35)) + " > 1",
            "taken to be on the aggregates, and",
        ),
    ],
)
def test_which_sums_the_noise_is_taken_to_be_on(ratio: str, named: str) -> None:
    """By their SQL, where they are few."""
    people = pyarrow.table({"id": range(40), "pay": [float(place % 7) for place in range(40)]})
    data = {"source": people, "record": "id", "secret": "pay", "bounds": [0, 9]}
    release = {"name": "r", "sql": f"SELECT {ratio} FROM data", "noise_stddev": 40.0}
    result = sl.audit({"data": data, "limits": {"remaining_uncertainty": 0.5}, "release": [release]})
    (first,) = [one for one in result.unverified if one.name == AssumptionName.NOISE_FIRST]
    assert named in first.reason


def test_readers_see_what_a_pass_accepts_by_name() -> None:
    """What of it is needed is for the owner; that the plan accepts it is in the plan."""
    people = pyarrow.table({"id": range(40), "pay": [float(place % 7) for place in range(39)] + [11.0]})
    data = {"source": people, "record": "id", "secret": "pay", "bounds": [0, 9]}
    release = {"name": "r", "sql": "SELECT SUM(pay) FROM data", "noise_stddev": 400.0}
    limits = {"remaining_uncertainty": 0.5, "accept": ["clipped", "homogeneous"]}
    result = sl.audit({"data": data, "limits": limits, "release": [release]})
    assert result.verdict.passed
    assert sl.AuditResult.from_json(result.to_json()) == result
    owner, readers = accepted_lines(result), accepted_lines(result.publishable())
    assert [line.partition(":")[0] for line in owner] == ["clipped"]
    assert readers == [
        "also clipped and homogeneous; whether the pass needs this, and where, is for the owner."
    ]
    assert readers[0] in summary(result.publishable())
    assert readers[0] in on_page(
        sl.audit({"data": data, "limits": limits, "release": [release]}, full=True).publishable()
    )
