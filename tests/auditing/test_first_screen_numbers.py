"""The numbers of the first screen: what is known before and after, slack, accuracy, names of signatures."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import sightline as sl
from sightline.advising import noise_slack as search
from sightline.advising.noise_slack import Slack, lowest, noise_slack, slack_under
from sightline.auditing.exposed import signature_names
from sightline.auditing.findings import find
from sightline.auditing.result import NoiseSlack, Verdict, VerdictStatus
from sightline.auditing.result_parts import fact
from sightline.auditing.verdict import sharpest_view
from sightline.examples.shipped import example_plan
from sightline.report.advice import slack_in_words
from sightline.report.judgement import view_in_words
from sightline.tables.membership import Statistic
from tests.auditing.hand_made import assembled, membership_of, partition, plan_of


def one_number(noise: float, **changes: Any) -> Any:
    plan = plan_of({"name": "a", "noise_stddev": noise}, **changes)
    return find(plan, membership_of([partition(0, "a", statistic=Statistic.SUM)], [["", None, None]]))


def test_before_is_the_priors_and_after_that_of_the_most_exposed() -> None:
    view, findings = view_in_words(sharpest_view(one_number(1.0))), one_number(1.0)
    assert view is not None
    assert findings.least is not None
    assert view.before == pytest.approx(10 / math.sqrt(12), rel=1e-12)
    assert view.after_lower == pytest.approx(view.before * math.sqrt(findings.least.lower), rel=1e-12)
    assert view.after_upper == pytest.approx(view.before * math.sqrt(findings.least.upper), rel=1e-12)
    # One value behind noise of 1: the error of the best attack is at most 1, and the bracket is tight.
    assert 0.9 < view.after_lower <= view.after_upper <= 1.0
    assert view.right_before is None
    assert "values spread evenly from 0 to 10" in view.text
    assert "which no noise hides" in view.text


@pytest.mark.parametrize("noise", [0.2, 0.5, 1.0, 3.0])
def test_no_guess_of_a_yes_or_no_is_right_more_often_than_stated(noise: float) -> None:
    data = {"source": "t.csv", "record": "id", "secret": "x", "kind": "boolean"}
    view = sharpest_view(one_number(noise, data=data))
    assert view is not None
    assert view.right_before == 0.5
    assert view.right_after is not None
    best = float(norm.cdf(1 / (2 * noise)))  # the likelihood-ratio test on one number
    assert best <= view.right_after <= 1
    assert view.right_after <= 0.5 + 1.5 * (best - 0.5)


def test_nothing_published_shows_nothing() -> None:
    plan = plan_of({"name": "a", "sql": "SELECT COUNT(*) FROM data"})
    assert sharpest_view(find(plan, membership_of([], [[]]))) is None


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "epsilon"), [(0.5, 1.0), (0.9, 1.0), (0.5, 200.0)])
def test_the_slack_is_where_the_audit_changes_its_mind(limit: float, epsilon: float) -> None:
    groups = [["a", "a", "a", "b", "b"], [None, "", "", "", ""]]
    parts = [partition(0, "by group"), partition(1, "but one")]

    def examined(epsilon: float) -> Any:
        plan = plan_of(
            {"name": "by group"},
            {"name": "but one"},
            privacy={"epsilon": epsilon, "delta": 1e-5, "accountant": "zcdp"},
            limits={"remaining_uncertainty": limit},
        )
        return find(plan, membership_of(parts, groups))

    findings = examined(epsilon)
    slack = slack_in_words(noise_slack(findings))
    assert slack is not None
    assert slack.noise_factor is not None
    assert slack.epsilon is not None
    assert slack.holds is (findings.not_shown == 0) is (slack.noise_factor < 1)
    assert lowest(findings, slack.noise_factor) >= limit
    assert lowest(findings, slack.noise_factor / 1.03) < limit
    assert assembled(examined(slack.epsilon)).verdict.passed
    assert not assembled(examined(slack.epsilon * 1.05)).verdict.passed
    assert ("holds up to epsilon" in slack.text) is slack.holds
    if slack.holds:
        (enough,) = re.findall(r"([\d.]+) % of this noise would be enough", slack.text)
        assert lowest(findings, float(enough) / 100) >= limit, "as it is printed"


def test_slack_is_stated_as_the_verdict_allows() -> None:
    holds = fact(Slack.HOLDS, factor=0.5, epsilon=2.0)
    slack = NoiseSlack(holds=True, noise_factor=0.5, epsilon=2.0, fact=holds)

    def beside(passed: bool | None, status: VerdictStatus | None) -> NoiseSlack | None:
        verdict = Verdict(passed=passed, status=status, limit=0.5, below_limit=0, text="")
        return slack_under(verdict, slack)

    assert beside(True, VerdictStatus.PASSED) == slack
    assert beside(False, VerdictStatus.FAILED) is None, "something else than the average breaks the limit"
    unproved = slack_in_words(beside(False, VerdictStatus.NOT_SHOWN))
    assert unproved is not None
    assert unproved.text.startswith(
        "If what was not verified holds: on average over the possible values, it "
    )
    needed = slack.model_copy(update={"holds": False})
    failed = Verdict(passed=False, status=VerdictStatus.FAILED, limit=0.5, below_limit=1, text="")
    assert slack_under(failed, needed) == needed


def test_exact_numbers_have_no_slack() -> None:
    release = {"name": "a", "noise_stddev": 1.0}
    exact = {"name": "b", "noise": {"law": "none"}}
    limits = {"remaining_uncertainty": 0.5}
    parts = [partition(0, "a"), partition(1, "b")]
    plan = plan_of(release, exact, limits=limits)
    found = find(plan, membership_of(parts, [[""] * 4, ["x", None, None, None]]))
    broken = slack_in_words(noise_slack(found))
    assert broken is not None
    assert not broken.holds
    assert broken.noise_factor is None
    assert "published exactly" in broken.text
    assert noise_slack(find(plan, membership_of(parts, [[""] * 40, [""] * 40]))) is None


def test_where_the_groups_protect_everyone_no_noise_is_needed() -> None:
    plan = plan_of({"name": "a", "noise_stddev": 1.0}, limits={"remaining_uncertainty": 0.5})
    slack = slack_in_words(noise_slack(find(plan, membership_of([partition(0, "a")], [[""] * 40]))))
    assert slack is not None
    assert slack.holds
    assert slack.noise_factor is not None
    assert slack.noise_factor <= 1e-5
    assert "records hide each other" in slack.text


def test_a_large_plan_has_the_slack_of_a_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of({"name": "a", "noise_stddev": 100.0}, limits={"remaining_uncertainty": 0.5})
    findings = find(plan, membership_of([partition(0, "a", statistic=Statistic.SUM)], [["", "", ""]]))
    exact = noise_slack(findings)
    monkeypatch.setattr(search, "MOST_FACTORISED", 0)
    coarse = noise_slack(findings)
    assert exact is not None
    assert coarse is not None
    assert exact.noise_factor is not None
    assert coarse.noise_factor is not None
    assert exact.noise_factor <= coarse.noise_factor < 1
    assert lowest(findings, coarse.noise_factor) >= 0.5


def test_published_noise_has_no_slack_and_no_limit_none_either() -> None:
    release = {"name": "a", "noise_stddev": 1.0}
    fixed = plan_of({**release, "published": True}, limits={"remaining_uncertainty": 0.5})
    membership = membership_of([partition(0, "a")], [[""] * 4])
    assert noise_slack(find(fixed, membership)) is None
    assert noise_slack(find(plan_of(release), membership)) is None


@pytest.fixture(scope="module")
def dashboard() -> sl.AuditResult:
    return sl.audit(example_plan("microgrid"), names=True, full=True)


def test_relative_errors_are_those_of_the_true_numbers(dashboard: sl.AuditResult) -> None:
    with (example_plan("microgrid").parent / "homes.csv").open() as file:
        homes = list(csv.DictReader(file))
    watts = np.array([float(home["evening_watts"]) for home in homes])
    by_feeder = next(one for one in dashboard.releases if one.name == "by feeder")
    feeders = np.array([home["feeder"] for home in homes])
    means = np.array([watts[feeders == feeder].mean() for feeder in sorted(set(feeders))])
    assert by_feeder.accuracy is not None
    assert by_feeder.accuracy.worst_relative_error == pytest.approx(10 / means.min(), rel=1e-5)
    assert by_feeder.accuracy.median_relative_error == pytest.approx(float(np.median(10 / means)), rel=1e-5)
    assert by_feeder.accuracy.noise_over_spread == pytest.approx(10 / means.std(), rel=1e-5)
    assert by_feeder.noise_of_range is not None
    assert by_feeder.noise_of_range.worst == pytest.approx(10 / 2000)
    january = dashboard.releases[0]
    assert january.accuracy is not None
    assert january.accuracy.noise_over_spread is None, "it has one number"
    assert all(one.accuracy is None for one in dashboard.publishable().releases)


def test_the_noise_of_a_count_is_compared_with_its_rows(tmp_path: Path) -> None:
    rows = ["a,1,true", "b,1,false", "c,2,true", "d,2,true"]
    (tmp_path / "t.csv").write_text("\n".join(["id,g,ill", *rows]))
    sql = "SELECT g, COUNT(*) FILTER (WHERE NOT ill) FROM data GROUP BY g"
    plan = {
        "data": {"source": f"{tmp_path}/t.csv", "record": "id", "secret": "ill", "kind": "boolean"},
        "release": [{"name": "well", "sql": sql, "noise_stddev": 3.0}],
    }
    (release,) = sl.audit(plan, full=True).releases
    assert release.noise_of_range is not None
    assert release.noise_of_range.median == pytest.approx(3 / 2)
    assert release.accuracy is not None
    assert release.accuracy.worst_relative_error == math.inf, "nobody of group 2 is well"
    known = sl.audit({**plan, "attacker": {"knows": ["id = 'a'"]}}, full=True).releases[0]
    assert known.accuracy is None, "the sums that are fetched leave out what is known"


def test_signatures_are_named_by_their_attributes_and_small_ones_only_to_the_owner() -> None:
    everyone = sl.audit(example_plan("microgrid"), limit=0.999)
    labels = [one.label for one in everyone.exposed]
    assert len(set(labels)) == len(labels)
    assert "feeder west, tariff flat, in June" in labels
    assert {one.label for one in everyone.publishable().exposed} == {""}


@pytest.mark.slow
def test_a_name_has_no_key_of_a_person() -> None:
    parts = [partition(0, "a", key_names=("id",)), partition(1, "b", key_names=("town",))]
    towns = ["x"] * 6 + ["y"] * 6
    plan = plan_of({"name": "a", "noise_stddev": 1.0}, {"name": "b", "noise_stddev": 1.0})
    groups = [[f"p{i}" for i in range(12)], towns]
    labels = set(signature_names(find(plan, membership_of(parts, groups)), np.arange(12)))
    assert len(labels) == 12
    assert all(label.startswith(("town x, #", "town y, #")) for label in labels)
