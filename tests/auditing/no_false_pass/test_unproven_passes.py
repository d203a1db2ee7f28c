"""A pass needs its assumptions: what was not verified turns it into "not shown"."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sightline as sl
from sightline.auditing.findings import find
from sightline.auditing.plan import AssumptionName
from sightline.auditing.reading import read_plan, with_limit
from sightline.auditing.result import VerdictStatus
from sightline.cli import main
from sightline.errors import InvalidPlan
from sightline.tables.membership import Feature, Membership, RowValues, Statistic, UnauditedRows
from tests.auditing.hand_made import assembled, membership_of, partition, plan_of
from tests.auditing.no_false_pass.written_plans import DATA, LIMIT, names, written

MEAN = ("SELECT AVG(x) FROM data", 40.0)
PEOPLE = [f"p{i},{'f' if i % 2 else 'm'},{i * 0.47:.2f}" for i in range(20)]


EMPTY = ("SELECT AVG(x) FROM data WHERE sex = ' f'", 40.0)


def accepted_pass(path: str, name: str, words: str) -> None:
    """The plan passes, and its verdict and its result say what it accepts."""
    assert main(["audit", path]) == 0
    result = sl.audit(path, full=True)
    assert result.verdict.status is VerdictStatus.PASSED
    assert f"The plan accepts: {words}" in result.verdict.text
    (one,) = result.unverified
    assert (one.name.value, one.count, one.accepted) == (name, 1, True)
    assert sl.AuditResult.from_json(result.to_json()) == result


@pytest.mark.slow
def test_what_was_not_verified_turns_a_pass_into_not_shown(tmp_path: Path) -> None:
    assert main(["audit", written(tmp_path, PEOPLE, MEAN)]) == 0
    rows, words = [*PEOPLE, "q,f,1000000"], "1 value is outside the bounds"
    path = written(tmp_path, rows, MEAN)
    assert main(["audit", path]) == 2
    result = sl.audit(path)
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    assert names(result) == {"clipped"}
    assert words in result.verdict.text
    assert 'accept = ["clipped"]' in result.verdict.text
    accepted_pass(written(tmp_path, rows, MEAN, accept=("clipped",)), "clipped", words)


@pytest.mark.slow
@pytest.mark.parametrize("releases", [[MEAN, EMPTY], [EMPTY]], ids=["one of two", "the only one"])
def test_an_empty_release_is_an_error_unless_the_plan_accepts_it(
    releases: list[tuple[str, float]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, PEOPLE, *releases)
    assert main(["audit", path]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"release 'r{len(releases) - 1}': expected rows that meet its conditions, got none" in printed.err
    assert 'accept = ["empty"]' in printed.err
    accepted = written(tmp_path, PEOPLE, *releases, accept=("empty",))
    if len(releases) == 1:  # of nothing, nothing is shown
        assert main(["audit", accepted]) == 1
        assert "expected a release that aggregates rows, got none" in capsys.readouterr().err
    else:
        accepted_pass(accepted, "empty", "1 release aggregates no row")


@pytest.mark.slow
def test_a_row_without_a_secret_is_harmless_if_the_engine_says_that_no_release_takes_it_in(
    tmp_path: Path,
) -> None:
    """AVG leaves NULL out. A plan whose SQL was not compared with the engine's groups has no such proof."""
    result = sl.audit(written(tmp_path, [*PEOPLE, "q,f,"], MEAN))
    assert result.dropped == 1
    assert result.verdict.status is VerdictStatus.PASSED
    assert result.unverified == ()
    plan, membership = hand_made()
    for unaudited, expected in (((), {"dropped"}), ((UnauditedRows(),), set())):
        one_dropped = replace(membership, dropped=1, unaudited=unaudited)
        assert names(assembled(find(plan, one_dropped))) == expected


def hand_made(**changes: object) -> tuple[object, Membership]:
    plan = plan_of({"name": "mean", "noise_stddev": 40.0}, limits={**LIMIT, **changes})
    return plan, membership_of([partition(0, "mean")], [["a", "a", "a"]])


def test_rows_that_only_the_sql_aggregates_are_counted() -> None:
    plan, membership = hand_made()
    assert assembled(find(plan, membership)).verdict.status is VerdictStatus.PASSED
    counted = replace(membership, unaudited=(UnauditedRows(unkeyed=2),))
    result = assembled(find(plan, counted))
    assert names(result) == {"published_but_dropped"}
    assert result.verdict.status is VerdictStatus.NOT_SHOWN
    plan, _ = hand_made(accept=["published_but_dropped"])
    assert assembled(find(plan, counted)).verdict.status is VerdictStatus.PASSED


def test_moments_judged_near_the_true_values_alone_never_pass() -> None:
    """With the noise of this plan no proof for all attacks exists; a local bound does, and proves nothing."""
    part = partition(0, "squares", feature=Feature.POWER, parameter=2, statistic=Statistic.SUM)
    membership = membership_of([part], [["", "", ""]])
    values = RowValues(signature=np.zeros(3, dtype=np.int64), secret=np.array([1.0, 4.0, 8.0]))
    results = []
    for accept in ([], ["local"]):
        plan = plan_of({"name": "squares", "noise_stddev": 40.0}, limits={**LIMIT, "accept": accept})
        results.append(assembled(find(plan, membership, values=lambda: values)))
        without_values = assembled(find(plan, membership))
        assert without_values.verdict.status is VerdictStatus.NOT_SHOWN, "nothing was bounded at all"
    assert [one.verdict.status for one in results] == [VerdictStatus.NOT_SHOWN] * 2
    assert names(results[0]) == names(results[1]) == {"local"}
    # Twenty times the noise keeps the limit by itself: e^(-(100/800)²/4).
    plan = plan_of({"name": "squares", "noise_stddev": 800.0}, limits=LIMIT)
    assert assembled(find(plan, membership, values=lambda: values)).verdict.guaranteed


def test_squares_of_a_few_people_do_not_pass_by_acceptance() -> None:
    """Means of squares of three with noise 0.3, values up to 100: each is known to a few per cent."""
    table = pl.DataFrame({"id": np.arange(30), "g": np.arange(30) // 3, "x": np.linspace(5.0, 95.0, 30)})
    plan = {
        "data": {"source": table, "record": "id", "secret": "x", "bounds": [0, 100]},
        "limits": {"remaining_uncertainty": 0.5, "accept": ["local", "homogeneous"]},
        "release": [
            {"name": "squares", "sql": "SELECT g, AVG(x * x) FROM data GROUP BY g", "noise_stddev": 0.3}
        ],
    }
    assert sl.audit(plan).verdict.status is VerdictStatus.NOT_SHOWN


def test_a_failed_plan_fails_whatever_it_accepts() -> None:
    plan = plan_of(
        {"name": "mean", "noise_stddev": 0.1},
        limits={**LIMIT, "accept": [name.value for name in AssumptionName]},
    )
    membership = membership_of([partition(0, "mean")], [["a", "b", "b"]])
    assert assembled(find(plan, membership)).verdict.status is VerdictStatus.FAILED


def test_only_assumptions_that_exist_can_be_accepted() -> None:
    content = {
        "data": {**DATA, "bounds": [0, 1]},
        "release": [{"name": "a", "sql": "SELECT AVG(x) FROM data", "noise_stddev": 1.0}],
        "limits": {**LIMIT, "accept": ["everything"]},
    }
    with pytest.raises(
        InvalidPlan, match=r"\[limits\] accept number 1: expected one of 'dropped', 'clipped'"
    ):
        read_plan(content)
    content["limits"] = {**LIMIT, "accept": ["clipped"]}
    plan, _ = read_plan(content)
    assert with_limit(plan, 0.4).limits.accept == (AssumptionName.CLIPPED,), "another limit keeps them"
