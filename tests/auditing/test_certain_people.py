"""Whole audits of counts that are exact, rounded, blank or changed by cell keys: who is certain."""

from __future__ import annotations

import io
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from rich.console import Console

import sightline as sl
from sightline.auditing.result import AuditResult
from sightline.errors import InvalidPlan
from sightline.report.first_screen import first_screen
from sightline.report.terminal import print_explanation
from tests.auditing.fuzz_certain_people import check
from tests.numbered_cases import check_case, trials

BY_WARD = "SELECT ward, COUNT(*) FILTER (WHERE ill) AS n FROM data GROUP BY ward"


def wards(ill: dict[str, tuple[int, int]]) -> Any:
    """A table with so many ill of so many people in each ward."""
    rows = [
        {"ward": ward, "ill": number < yes} for ward, (yes, people) in ill.items() for number in range(people)
    ]
    return pd.DataFrame(rows).assign(id=range(len(rows)))


def planned(table: Any, *releases: dict[str, Any]) -> dict[str, Any]:
    return {
        "data": {"source": table, "record": "id", "secret": "ill", "kind": "boolean"},
        "limits": {"remaining_uncertainty": 0.5},
        "release": [{"name": f"r{place}", **one} for place, one in enumerate(releases)],
    }


def audited(table: Any, *releases: dict[str, Any], **sections: Any) -> AuditResult:
    return sl.audit({**planned(table, *releases), **sections})


@pytest.mark.slow
def test_certain_people_are_those_with_one_value_in_all_tables() -> None:
    count: Counter[str] = Counter()
    for trial in trials(80):
        check_case(check, 45, trial, count)
    assert count["people who are certain"] > 0
    assert count["lower ends compared"] > 0


def test_exact_zero_fails_even_where_it_is_accepted() -> None:
    table = wards({"a": (0, 30), "b": (12, 30)})
    limits = {"remaining_uncertainty": 0.5, "accept": ["homogeneous", "certain"]}
    result = audited(table, {"sql": BY_WARD, "noise": {"law": "none"}}, limits=limits)
    assert result.verdict.status == "failed"
    assert result.certain is not None
    (group,) = result.certain.groups
    assert (result.certain.people, group.people, group.value) == (30, 30, "no")
    assert group.recipe == '"r0: a" (0)'
    screen = "\n".join(map(str, first_screen(result, 110)))
    assert "Certain: 30 records" in screen
    # The table of people is the owner's: readers learn only that it does not pass.
    assert result.publishable().certain is None
    assert result.publishable().verdict.status == "not shown"
    assert "are certain" not in result.publishable().verdict.text


@pytest.mark.parametrize("case", trials(24))
def test_rows_of_one_value_tell_by_all_of_them_together(case: int) -> None:
    """Of persons with rows in some months: against every table in which each has one value."""
    rng = np.random.default_rng([45, case])
    people, kinds = int(rng.integers(3, 7)), ["x", "y", "z"] if case % 3 == 2 else [False, True]
    months = [rng.choice([1, 2, 3], int(rng.integers(1, 4)), replace=False).tolist() for _ in range(people)]
    months[0] = [1, 2]  # somebody has several
    held = [kinds[int(rng.integers(len(kinds)))] for _ in range(people)]
    rows = [(f"p{i}", month, held[i]) for i in range(people) for month in months[i]]
    category = {"kind": "category", "categories": kinds} if len(kinds) > 2 else {"kind": "boolean"}
    counted = ("secret = 'x'", "secret = 'y'") if len(kinds) > 2 else ("secret",)
    result = sl.audit(
        {
            "data": {
                "source": pd.DataFrame(rows, columns=["id", "month", "secret"]),
                "record": "id",
                "secret": "secret",
                "max_rows_per_record": 3,
                "values": ("constant", "any")[case % 2],
                **category,
            },
            "limits": {"remaining_uncertainty": 0.1},
            "release": [
                {
                    "name": f"r{place}",
                    "sql": f"SELECT month, COUNT(*) FILTER (WHERE {one}) AS n FROM data GROUP BY month",
                    "noise": {"law": "none"},
                }
                for place, one in enumerate(counted)
            ],
        },
        names=True,
    )
    asked = kinds[:2] if len(kinds) > 2 else [True]

    def published(world: tuple[Any, ...]) -> list[int]:
        return [
            sum(world[i] == value and month in months[i] for i in range(people))
            for value in asked
            for month in (1, 2, 3)
        ]

    fitting = [one for one in product(kinds, repeat=people) if published(one) == published(tuple(held))]
    certain = {f"p{i}" for i in range(people) if len({world[i] for world in fitting}) == 1}
    assert result.certain is not None
    assert (result.certain.people, result.certain.undecided) == (len(certain), 0)
    assert {key for group in result.certain.groups for key in group.records} == certain
    assert (result.verdict.status == "failed") >= bool(certain)


def test_explain_says_of_whom_the_counts_tell_and_of_whom_they_do_not() -> None:
    plan = {
        "data": {
            "source": wards({"a": (0, 3), "b": (2, 6)}),
            "record": "id",
            "secret": "ill",
            "kind": "boolean",
        },
        "limits": {"remaining_uncertainty": 0.1},
        "release": [{"name": "r", "sql": BY_WARD, "noise": {"law": "none"}}],
    }

    def explained(record: int) -> str:
        out = io.StringIO()
        print_explanation(sl.explain(plan, record), Console(file=out, width=110))
        return out.getvalue()

    assert 'Certain: ill is no. No other value fits "r: a" (0).' in explained(1)
    assert "Certain" not in explained(4)


def test_rounding_alone_hides_zero_and_a_finer_release_tells_it() -> None:
    table = wards({"a": (0, 3), "b": (12, 30)})
    rounded = {"noise": {"law": "rounding", "to": 5}}
    alone = audited(table, {"sql": BY_WARD, **rounded})
    assert alone.certain is not None
    assert alone.certain.people == 0
    # Nothing tells the three apart, and 3 is published as another number than 2. To whom one of them is told,
    # the count says something of the other two only if that one is ill: 1 − (1/2)/2 is left at least. By
    # the posterior of all three it is 6/7.
    assert alone.verdict.status == "passed"
    assert alone.least_remaining_uncertainty is not None
    assert alone.least_remaining_uncertainty.lower == pytest.approx(3 / 4, abs=1e-6)
    # All 33 people: 12 is published as 10, which is 8 to 12. With 12 exact in b, nobody is left for a.
    total = {"sql": "SELECT COUNT(*) FILTER (WHERE ill) AS n FROM data", **rounded}
    exact_b = {"sql": BY_WARD.replace("GROUP", "WHERE ward = 'b' GROUP"), "noise": {"law": "none"}}
    both = audited(table, total, exact_b)
    assert both.certain is not None
    (group,) = both.certain.groups
    assert both.certain.people == 3
    assert group.recipe == '"r0" (8 to 12) − "r1: b" (12)'
    assert both.verdict.status == "failed"


def test_numbers_under_a_rule_are_not_factorised(monkeypatch: pytest.MonkeyPatch) -> None:
    # Decisions and attacks on thousands of exact numbers took most of the time, and none is claimed.
    from sightline.bounds import assessment

    table = wards({"a": (6, 30), "b": (12, 30)})
    exact = sl.open_audit(planned(table, {"sql": BY_WARD, "noise": {"law": "none"}}))
    assert exact.rank() == 2

    def never(*_: object, **__: object) -> None:
        raise AssertionError("factorised")

    with monkeypatch.context() as patched:
        patched.setattr(assessment, "unit_brackets", never)
        by_rule = {"sql": BY_WARD, "noise": {"law": "rounding", "to": 5}}
        rounded, opened = audited(table, by_rule), sl.open_audit(planned(table, by_rule))
        assert rounded.verdict.status == "passed"
        assert rounded.certain is not None
        assert (rounded.certain.people, rounded.exposed[0].attack) == (0, None)
    assert opened.rank() == 2  # when somebody asks for it


def test_a_blank_and_the_total_tell() -> None:
    table = wards({"a": (0, 4), "b": (20, 40), "c": (11, 30)})
    blank = {"sql": BY_WARD, "noise": {"law": "none"}, "suppress_below": 5}
    alone = audited(table, blank)
    assert alone.certain is not None
    assert alone.certain.people == 0
    total = {"sql": "SELECT COUNT(*) FILTER (WHERE ill) AS n FROM data", "noise": {"law": "none"}}
    both = audited(table, blank, total)
    assert both.certain is not None
    assert both.certain.people == 4


def test_random_rounding_has_a_guarantee_of_its_own_and_draws_are_simulated() -> None:
    table = wards({"a": (0, 30), "b": (12, 30)})
    drawn = {"sql": BY_WARD, "noise": {"law": "rounding", "to": 5, "how": "random"}}
    result = audited(table, drawn)
    # The least affinity is that of 4 and 5, or of 0 and 1: √(4/5), and its square is left.
    assert result.guaranteed_by_noise == pytest.approx(0.8, abs=1e-9)
    assert result.verdict.status == "passed"
    assert result.certain is not None
    assert (result.certain.people, result.certain.by_draw) == (0, 0)
    small = audited(wards({"a": (0, 2), "b": (12, 30)}), drawn, {**drawn, "sql": BY_WARD.replace("*", "1")})
    assert small.certain is not None


def test_a_p_table_is_read_and_checked(tmp_path: Path) -> None:
    lines = ["count,change,chance", "0,0,1", "1,-1,0.5", "1,1,0.5", "2,-1,0.25", "2,0,0.5", "2,1,0.25"]
    good = tmp_path / "p.csv"
    good.write_text("\n".join(lines))
    table = wards({"a": (9, 30), "b": (12, 30)})
    keyed = {"sql": BY_WARD, "noise": {"law": "cell-key", "ptable": str(good)}}
    result = audited(table, keyed)
    # 0 people are published as 0 and 1 as 0 or 2; 1 and 2 share only the value 2.
    assert result.guaranteed_by_noise == pytest.approx(0.25, abs=1e-9)
    # The key of a total is the sum of those of its parts: chances of several tables do not multiply.
    total = {"sql": "SELECT COUNT(*) FILTER (WHERE ill) AS n FROM data", "noise": keyed["noise"]}
    assert audited(table, keyed, total).guaranteed_by_noise == 0
    # Nor is it known what they tell together under the rule k.
    with_k = [audited(table, *one, rules={"k": 2}) for one in ((keyed,), (keyed, total))]
    assert [[(one.name, one.count) for one in result.unverified] for result in with_k] == [
        [],
        [("count_rules", 3)],
    ]
    good.write_text("\n".join([*lines[:-1], "2,1,0.3"]))
    with pytest.raises(InvalidPlan, match=r"chances of a count that add up to 1, got 1\.05 for the count 2"):
        audited(table, keyed)
    good.write_text("\n".join([*lines, "-1,0,1"]))
    with pytest.raises(InvalidPlan, match="line 8: a count from 0 on"):
        audited(table, keyed)
    good.write_text("count,chance\n0,1")
    with pytest.raises(InvalidPlan, match="the columns count, change and chance"):
        audited(table, keyed)
    good.write_text("\n".join([*lines, "2,1,0.25"]))
    with pytest.raises(InvalidPlan, match="each change of a count once"):
        audited(table, keyed)


@pytest.mark.parametrize(
    ("release", "message"),
    [
        ({"noise": {"law": "rounding"}}, "expected to with law = 'rounding', got none"),
        (
            {"noise": {"law": "rounding", "to": 5, "stddev": 2.0}},
            "to with law = 'rounding', got stddev and to",
        ),
        ({"noise": {"law": "within", "of": 2.0, "how": "up"}}, "how with law = 'rounding'"),
        ({"noise": {"law": "gaussian", "to": 5}}, "one of stddev"),
        ({"noise": {"law": "cell-key", "ptable": "p.txt"}}, "the .csv file of a p-table"),
        ({"noise": {"law": "gaussian", "stddev": 2.0}, "suppress_below": 5}, "suppress_below with noise"),
        ({"suppress_below": 5}, "a share of the budget"),
        (
            {"noise": {"law": "rounding", "to": 5, "how": "random"}, "times": 2},
            "one copy of counts that chance rounds",
        ),
        (
            {
                "sql": "SELECT ward, AVG(ill::INT) FROM data GROUP BY ward",
                "noise": {"law": "rounding", "to": 5},
            },
            "on counts of people",
        ),
    ],
)
def test_what_no_rule_is_for_is_refused(release: dict[str, Any], message: str) -> None:
    table = wards({"a": (3, 30), "b": (12, 30)})
    with pytest.raises(InvalidPlan, match=message):
        audited(table, {"sql": BY_WARD, **release})


def test_rules_need_one_row_a_record_and_nobody_known() -> None:
    table = wards({"a": (3, 30), "b": (12, 30)})
    rounded = {"sql": BY_WARD, "noise": {"law": "rounding", "to": 5}}
    with pytest.raises(InvalidPlan, match="an attacker who knows nobody's secret"):
        audited(table, rounded, attacker={"knows": ["ward = 'a'"]})
    twice = table.assign(id=np.arange(60) // 2)
    data = {"source": twice, "record": "id", "secret": "ill", "kind": "boolean", "max_rows_per_record": 2}
    with pytest.raises(InvalidPlan, match="counts of records with one row each"):
        audited(twice, rounded, data=data)


def test_where_nothing_is_shown_a_simulated_attack_says_which_it_is() -> None:
    # Two of three are ill, rounded to 3: two or three are. Of the four tables that fit, three have two, and
    # one has three: somebody is ill in (3 · 2/3 + 1)/4 of them.
    table = wards({"a": (2, 3), "b": (12, 30)})
    limits = {"remaining_uncertainty": 0.9}
    release = {"sql": BY_WARD, "noise": {"law": "rounding", "to": 3}}
    result = audited(table, release, limits=limits)
    assert result.verdict.status == "not shown"
    assert result.certain is not None
    likely = result.certain.likely
    assert likely is not None
    assert (likely.label, likely.people, likely.value) == ("ward a", 3, "yes")
    assert likely.chance == pytest.approx(3 / 4, abs=0.02)
    assert likely.left == pytest.approx(4 * likely.chance * (1 - likely.chance), abs=1e-12)
    again = audited(table, release, limits=limits).certain
    assert again is not None
    assert again.likely == likely
    screen = "\n".join(map(str, first_screen(result, 110)))
    assert "a simulated attack on these counts" in screen
    assert "ward a, 3 records: yes with a chance of 7" in screen
    # Of the owner's table, and not where somebody is certain or the limit holds.
    assert result.publishable().certain is None
    told = audited(wards({"a": (0, 30), "b": (12, 30)}), {"sql": BY_WARD, "noise": {"law": "none"}})
    held = audited(wards({"a": (9, 30), "b": (12, 30)}), release)
    assert told.certain is not None
    assert held.certain is not None
    assert (told.certain.likely, held.certain.likely) == (None, None)
