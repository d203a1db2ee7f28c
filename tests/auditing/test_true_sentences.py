"""Sentences in states of plan and data where an earlier wording was false, each against a second count."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.advising.design_result import DesignResult
from sightline.auditing.result import AuditResult, Verdict
from sightline.format import percent_at_least, percent_at_most
from sightline.ledger.book import Ledger
from sightline.ledger.decision import lines
from sightline.report.comparison import compared
from sightline.report.design import lines as designed_lines
from sightline.report.figures import describe_distribution
from sightline.report.first_screen import about_line, slack_line
from sightline.report.judgement import attacked as attacked_sentence
from sightline.report.page import report_html, what_if_tables
from sightline.report.streams import console
from sightline.report.terminal import print_result
from sightline.report.wording import limit_line

BY_GROUP = {"name": "by g", "sql": "SELECT g, SUM(x) FROM data GROUP BY g"}
ALL = {"name": "all", "sql": "SELECT SUM(x) FROM data"}
VALUES = [3, 50, 20, 80, 61, 33]


def audited(
    folder: Path,
    *releases: dict[str, Any],
    rows: str = "",
    epsilon: float = 30.0,
    share: float = 0.5,
    options: dict[str, Any] | None = None,
    **sections: Any,
) -> AuditResult:
    """The audit of a table of six people in three groups, or of other rows."""
    table = folder / "t.csv"
    six = "".join(f"p{i},{g},{x}\n" for i, (g, x) in enumerate(zip("aabbbc", VALUES, strict=True)))
    table.write_text(f"id,g,x\n{rows or six}", encoding="utf-8")
    plan = {
        "data": {
            "source": str(table),
            "record": "id",
            "secret": "x",
            "bounds": [0, 100],
            "public": ["g", "id"],
        },
        "privacy": {"epsilon": epsilon, "delta": 1e-6},
        "limits": {"remaining_uncertainty": share},
        "release": list(releases or (BY_GROUP, ALL)),
        **sections,
    }
    return sl.audit(plan, **(options or {}))


def test_whole_percents_are_written_as_they_are() -> None:
    for whole in range(1, 101):  # 100 * 0.55 is a little more than 55, and 100 * 0.29 a little less than 29
        assert percent_at_least(whole / 100) == percent_at_most(whole / 100) == f"{whole} %"
    assert percent_at_least(0.5 - 1e-12) == "49 %"  # a little less is less
    assert percent_at_most(0.5 + 1e-12) == "51 %"


def test_one_record_is_one(tmp_path: Path) -> None:
    found = audited(tmp_path, ALL, rows="p0,a,50\n", epsilon=1.0, share=0.125, rules={"k": 2})
    assert "1 combination of numbers breaks a rule of [rules]." in found.verdict.text
    found = audited(tmp_path, ALL, rows="p0,a,50\n", epsilon=1.0, share=0.99)
    assert limit_line(found).startswith("You can publish this. The only record keeps at least 99 % ")
    found = audited(tmp_path, ALL, rows="p0,a,50\n", epsilon=1.0)
    assert "guarantees that the only record keeps at least 50 % " in limit_line(found)


def test_one_other_is_one() -> None:
    assert attacked_sentence(2, 3).endswith("whether the other one keeps it is not shown.")
    assert attacked_sentence(1, 3).endswith("whether the other 2 keep it is not shown.")


def test_the_limit_as_a_share_of_the_deviation_is_not_more_than_is_shown(tmp_path: Path) -> None:
    assert "50 % of the variance (70.7 % of the ±)" in limit_line(audited(tmp_path))
    for share in (0.3, 0.5, 0.55, 0.6, 0.9):
        told = limit_line(audited(tmp_path, share=share)).partition("(")[2].partition(" %")[0]
        assert np.sqrt(share) - 1e-3 < float(told) / 100 <= np.sqrt(share)


def test_the_sharpest_view_of_a_number_is_in_its_unit(tmp_path: Path) -> None:
    """The record that is listed first may be seen by a yes or no, whose error is no error of the number."""
    above = {"name": "above", "sql": "SELECT g, COUNT(*) FILTER (WHERE x > 40) FROM data GROUP BY g"}
    found = audited(tmp_path, above, BY_GROUP)
    assert found.exposed[0].about == "x > 40"
    stddev = found.releases[1].smallest_noise_stddev  # one person is alone in a group
    assert stddev is not None
    assert f"The best view of one has an error of {stddev:.4g} in x ({stddev:.3g} % of" in found.verdict.text
    assert found.releases[0].note == "a yes or no about the secret: audited as a secret of its own"


def test_slack_says_that_it_is_an_average(tmp_path: Path) -> None:
    """With less noise everyone's being alike is seen, which today's noise hides."""
    alike = "".join(f"p{i},{'ab'[i % 2]},1\n" for i in range(12))
    found = audited(tmp_path, rows=alike, epsilon=1.0)
    assert found.verdict.passed
    assert found.slack is not None
    less = audited(tmp_path, rows=alike, epsilon=1000.0)
    assert less.verdict.status == "not shown"
    told = slack_line(found)
    assert told.startswith("On average over the possible values, the limit holds")
    assert told.endswith("Audit again first.")


def test_the_figure_does_not_say_that_all_keep_what_is_not_shown(tmp_path: Path) -> None:
    squares = {"name": "squares", "sql": "SELECT SUM(x * x) FROM data"}
    found = audited(tmp_path, BY_GROUP, squares)
    least = found.least_remaining_uncertainty
    assert found.verdict.status == "not shown"
    assert not found.verdict.below_limit
    assert least is not None
    assert least.lower < 0.5
    told = describe_distribution(found)
    assert "It is not shown that every record keeps the limit of 50 %." in told
    assert "No record's lower bound" not in told


def test_settings_beside_broken_rules_say_that_these_were_not_tried(tmp_path: Path) -> None:
    found = audited(tmp_path, epsilon=1.0, rules={"k": 3}, options={"what_if": True})
    assert found.verdict.status == "failed"
    titles = [title for title, _ in what_if_tables(found)]
    assert len(titles) == 2
    assert all(title.endswith("; the rules were not tried") for title in titles)


def test_what_is_accepted_already_stays_in_the_advice(tmp_path: Path) -> None:
    rows = "p0,a,3\np1,a,\np2,b,50\np3,b,20\np4,b,200\n"
    limits = {"remaining_uncertainty": 0.1, "accept": ["dropped"]}
    found = audited(tmp_path, rows=rows, epsilon=1.0, limits=limits)
    names = [one.name.value for one in found.unverified if one.name.value != "dropped"]
    assert names
    listed = ", ".join(f'"{name}"' for name in ["dropped", *dict.fromkeys(names)])
    assert f"write accept = [{listed}] in [limits]" in found.verdict.text


@pytest.mark.parametrize(
    ("limit", "known_to", "text"),
    [(0.125, None, "12.5 %"), (0.55, None, "55 %"), (0.12, 10.0, "± 10"), (None, None, "none")],
)
def test_a_limit_is_told_as_it_is_stated(limit: float | None, known_to: float | None, text: str) -> None:
    verdict = Verdict(passed=None, limit=limit, known_to=known_to, below_limit=0, text="")
    assert verdict.limit_text == text


def since(last: AuditResult, now: AuditResult) -> tuple[list[str], list[str], str]:
    """Who newly is below the limit and who is not any more, and all lines."""
    found = compared(now, last)
    return list(found.newly_below), list(found.no_longer_below), " ".join(found.lines)


def test_nobody_newly_falls_whose_name_was_not_asked_for_before(tmp_path: Path) -> None:
    named, unnamed = (audited(tmp_path, options={"names": names}) for names in (True, False))
    assert [one.record for one in named.exposed if one.size == 1] == ["p5"]
    assert named.verdict.below_limit == unnamed.verdict.below_limit == 1
    for last, now in ((unnamed, named), (named, unnamed)):
        assert since(last, now) == ([], [], "")


def test_a_group_that_is_told_apart_is_no_news_of_those_who_were_below(tmp_path: Path) -> None:
    alone = {"name": "alone", "sql": "SELECT SUM(x) FROM data WHERE id = 'p0'"}
    last = audited(tmp_path, share=0.7, options={"names": True})
    now = audited(tmp_path, BY_GROUP, ALL, alone, epsilon=45.0, share=0.7, options={"names": True})
    assert [one.record for one in last.exposed] == ["p5", "p0, p1", "p2, p3, p4"]
    assert {one.record for one in now.exposed} >= {"p0", "p1"}
    below = [one.verdict.below_limit for one in (last, now)]
    newly, no_longer, _ = since(last, now)
    assert below[1] - below[0] == len(newly) - len(no_longer)
    assert not {"p0", "p1"} & {*newly, *no_longer}


def test_what_an_accountant_cannot_say_is_no_change(tmp_path: Path) -> None:
    laplace = audited(tmp_path, privacy={"epsilon": 1.0, "accountant": "laplace"})
    for last, now in ((laplace, audited(tmp_path)), (audited(tmp_path), laplace)):
        assert "nan" not in since(last, now)[2]


def test_without_a_limit_before_nobody_is_more_than_before(tmp_path: Path) -> None:
    _, _, told = since(audited(tmp_path, limits={}), audited(tmp_path, share=0.505))
    assert "the limit: none before, 50.5 % now" in told
    assert "than before" not in told


def ledger_about(folder: Path, rows: str, limits: str) -> Ledger:
    (folder / "t.csv").write_text(f"id,g,x\n{rows}", encoding="utf-8")
    head = folder / "head.toml"
    head.write_text(
        f'[data]\nsource = "{folder / "t.csv"}"\nrecord = "id"\nsecret = "x"\nbounds = [0, 100]\n'
        f'public = ["g"]\n[limits]\n{limits}\n',
        encoding="utf-8",
    )
    return Ledger.start(folder / "ledger", head=head, values="one")


def test_a_ledger_adds_what_is_told_of_a_group_only_if_somebody_decided_it(tmp_path: Path) -> None:
    """Everyone has the value 1, which the noise shows of all of them together, and hides of each."""
    alike = "".join(f"p{i},{'ab'[i % 2]},1\n" for i in range(60))
    accepted = 'remaining_uncertainty = 0.5\naccept = ["homogeneous", "few_values"]'
    release = {**BY_GROUP, "noise_stddev": 3.0}
    for decided, added in (("", None), ('\nset_by = "the board"', 1)):
        folder = tmp_path / ("decided" if decided else "open")
        folder.mkdir()
        ledger = ledger_about(folder, alike, accepted + decided)
        decision = ledger.check(release)
        assert decision.passed
        assert decision.held_back is (added is None)
        first = lines(decision, full=False)[0]
        assert first.startswith("by g (1): ACCEPTED, NOT SHOWN, ")
        assert ("decided by the board" in first) is (added is not None)
        assert ledger.add(release)[1] == added


def test_as_many_more_releases_fit_as_a_check_passes(tmp_path: Path) -> None:
    """The mean of many copies shows that everyone is alike, which the noise of one hides."""
    alike = "".join(f"p{i},{'ab'[i % 2]},1\n" for i in range(12))
    ledger = ledger_about(tmp_path, alike, "remaining_uncertainty = 0.55")
    release = {**BY_GROUP, "noise_stddev": 1000.0}
    decision = ledger.check(release)
    told = lines(decision, full=True)
    more = decision.more_like_it
    assert f"{more} more releases like it fit, if the same people are in the same groups each time." in told
    assert told[0] == "by g (1): PASSED, limit 55 %."
    assert ledger.check({**release, "times": 1 + more}).passed
    too_many = ledger.check({**release, "times": 2 + more})
    assert too_many.passed is False
    assert not too_many.after.below


def test_noise_that_leaves_something_open_is_not_said_to_keep_the_limit(tmp_path: Path) -> None:
    rows = "".join(f"p{i},{g},{x}\n" for i, (g, x) in enumerate(zip("aabbbc", [0, 50, 100] * 2, strict=True)))
    ledger = ledger_about(tmp_path, rows, "known_to = 20.0")
    decision = ledger.check({**BY_GROUP, "noise_stddev": 10.0})
    told = lines(decision, full=True)
    assert decision.noise_factor is not None
    assert decision.noise_factor > 1
    enough = ledger.check({**BY_GROUP, "noise_stddev": 10.0 * decision.noise_factor})
    assert enough.after.below == 0
    assert enough.passed is False
    assert told[0] == "by g (1): FAILED, limit ± 20."
    assert not any("everyone keeps the limit" in line for line in told)
    assert any("times its noise nobody is found below the limit" in line for line in told)


def design_lines(folder: Path, **by_group: Any) -> tuple[DesignResult, str]:
    """A design for half of six people's uncertainty, and what it prints."""
    audited(folder)  # writes the table
    plan = {
        "data": {"source": str(folder / "t.csv"), "record": "id", "secret": "x", "bounds": [0, 100]},
        "limits": {"remaining_uncertainty": 0.5},
        "release": [{**BY_GROUP, "noise_stddev": 32.1, **by_group}, {**ALL, "noise_stddev": 32.1}],
    }
    found = sl.design(plan)
    return found, "\n".join(designed_lines(found))


def test_the_noise_that_a_design_prints_is_enough(tmp_path: Path) -> None:
    found, text = design_lines(tmp_path)
    numbers = "1 number of 4 gets" if len(found.raised) == 1 else f"{len(found.raised)} numbers of 4 get"
    assert f"{numbers} more noise (standard deviation)" in text
    for one in found.raised:
        name = f"{one.release}: {one.cell}" if one.cell else one.release
        told = float(text.partition(f'"{name}": 32.1 -> ')[2].partition("\n")[0])
        assert one.stddev <= told < one.stddev * 1.001
    factor = float(text.partition("all noise times ")[2].partition("\n")[0])
    assert found.common_factor <= factor < found.common_factor * 1.001
    below = float(text.partition("cannot bind below epsilon = ")[2].partition(" ")[0])
    assert found.never_binds_below_epsilon * 0.99 < below <= found.never_binds_below_epsilon
    one_person = audited(tmp_path, ALL, rows="p0,a,50\n", epsilon=below)  # whom nobody hides
    assert not one_person.verdict.below_limit


def test_a_plan_that_withholds_numbers_does_not_keep_the_limit_as_it_is(tmp_path: Path) -> None:
    found, text = design_lines(tmp_path, noise_stddev=10.0, noise_within=[10.0, 20.0])
    assert found.suppressed is not None
    assert "Without what is withheld the plan keeps the limit of 50 % as it is" in text
    assert "\nThe plan keeps" not in text


def test_of_people_whom_the_attacker_knows_nothing_is_said_to_remain(tmp_path: Path) -> None:
    found = audited(tmp_path, attacker={"knows": ["g <> 'z'"]})
    assert found.verdict.judged == 0
    assert found.verdict.text.startswith(
        "Nothing that is published depends on a secret that the attacker does not know."
    )
    assert limit_line(found) == "You can publish this. x of 6 records is known beforehand."


def test_advice_that_reaches_no_limit_is_not_among_the_changes_that_do(tmp_path: Path) -> None:
    found = audited(tmp_path, {**BY_GROUP, "noise": {"law": "none"}}, options={"full": True})
    (advice,) = found.what_to_change
    assert not advice.reaches_limit
    printed = StringIO()
    print_result(found, console(file=printed, width=100), full=True)
    assert "Every change that reaches the limit" not in printed.getvalue()
    assert "<li><bdi>some numbers are published exactly" not in report_html(found)


def test_a_group_is_counted_once_whatever_the_categories(tmp_path: Path) -> None:
    rows = "".join(f"p{i},{g},{x}\n" for i, (g, x) in enumerate(zip("aabbbc", "pqrpqr", strict=True)))
    counts = ", ".join(f"COUNT(*) FILTER (WHERE x = '{one}') AS {one}" for one in "pq")
    data = {
        "source": str(tmp_path / "t.csv"),
        "record": "id",
        "secret": "x",
        "categories": ["p", "q", "r"],
        "public": ["g"],
    }
    release = {"name": "by g", "sql": f"SELECT g, {counts} FROM data GROUP BY g"}
    found = audited(tmp_path, release, rows=rows, epsilon=5.0, data=data)
    assert found.identifiable_records == 1
    assert found.identifiable_groups == 2  # a of two people and b of three
    assert "The sum of 2 groups of several records can be told apart." in found.verdict.text


def test_groups_of_rows_are_those_that_the_result_counts(tmp_path: Path) -> None:
    """Two people, each with a row in both groups, and a third one with a row of their own."""
    rows = "p0,a,3\np0,b,50\np1,a,20\np1,b,80\np2,c,61\n"
    data = {
        "source": str(tmp_path / "t.csv"),
        "record": "id",
        "secret": "x",
        "bounds": [0, 100],
        "public": ["g"],
        "max_rows_per_record": 2,
    }
    found = audited(tmp_path, rows=rows, data=data)
    assert found.identifiable_groups == 2
    assert "The sum of 2 groups of several rows can be told apart." in found.verdict.text


def test_coarser_groups_may_be_more_numbers_where_having_left_lines_out(tmp_path: Path) -> None:
    ages = [20, 20, *range(30, 40, 2), *range(40, 50, 2), *range(51, 61, 2)]
    rows = "".join(f"p{i},{age},{7 * i % 95 + 1}\n" for i, age in enumerate(ages))
    release = {"name": "a", "sql": "SELECT g, SUM(x) FROM data GROUP BY g HAVING COUNT(*) >= 2"}
    found = audited(tmp_path, release, rows=rows, limits={"known_to": 24.0})
    (change,) = [one for one in found.what_to_change if one.kind == "coarser"]
    assert found.cells == 1  # the two of one age
    assert change.text.endswith("GROUP BY FLOOR(g / 20) * 20: then everyone keeps the limit of ± 24")
    assert change.cost.startswith("coarser groups, of which 2 numbers are published (1 today); errors")
    coarser = {**release, "sql": release["sql"].replace("g,", "FLOOR(g / 20) * 20,")}
    coarser["sql"] = coarser["sql"].replace("BY g", "BY FLOOR(g / 20) * 20")
    again = audited(tmp_path, coarser, rows=rows, limits={"known_to": 24.0})
    assert again.cells == 2
    assert again.verdict.below_limit == 0


def test_what_is_out_already_is_neither_left_out_nor_given_other_noise(tmp_path: Path) -> None:
    out = {**BY_GROUP, "noise_stddev": 10.0, "published": True}
    found = audited(tmp_path, out, {**ALL, "noise_stddev": 10.0}, options={"what_if": True}, privacy={})
    assert found.what_if is not None
    settings = found.what_if.settings
    assert [one.name for one in settings if one.kind == "leave out"] == ["all"]
    noise = [one for one in settings if one.kind == "factor"]
    assert len(noise) > 3
    for one in noise:
        stddevs = sorted([10.0, 10.0 * float(one.name)])
        assert [one.least_noise_stddev, one.most_noise_stddev] == pytest.approx(stddevs)


def test_the_numbers_of_several_secrets_are_those_that_the_cost_is_of(tmp_path: Path) -> None:
    counts = {"name": "x too", "sql": "SELECT SUM(g) FROM data"}
    rows = "".join(f"p{i},{i},{x}\n" for i, x in enumerate(VALUES))
    data = {"source": str(tmp_path / "t.csv"), "record": "id", "secret": "x", "bounds": [0, 100]}
    secret = [{"column": "g", "bounds": [0, 10]}]
    found = audited(tmp_path, ALL, counts, rows=rows, data=data, secret=secret)
    assert [one.cells for one in (found, *found.other_secrets)] == [1, 1]
    assert "6 records (id), 2 numbers; the noise costs epsilon = 60 at" in about_line(found)
