"""Counts from a file, as they were published elsewhere: who is certain by them, and what is refused."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.noise.count_rules import CountRule, Rounding
from tests.numbered_cases import trials

WARD = "SELECT ward, COUNT(*) FILTER (WHERE ill) AS n FROM data GROUP BY ward"
TOTAL = "SELECT COUNT(*) FILTER (WHERE ill) AS n FROM data"
LAWS: tuple[tuple[dict[str, Any], CountRule], ...] = (
    ({"law": "rounding", "to": 3, "how": "random"}, CountRule(to=3, how=Rounding.RANDOM)),
    ({"law": "rounding", "to": 4}, CountRule(to=4)),
    ({"law": "within", "of": 1.0}, CountRule(within=1.0)),
    ({"law": "none"}, CountRule()),
)


def audited(table: Any, *releases: dict[str, Any]) -> sl.AuditResult:
    return sl.audit(
        {
            "data": {"source": table, "record": "id", "secret": "ill", "kind": "boolean", "public": ["ward"]},
            "limits": {"remaining_uncertainty": 0.5},
            "release": [{"name": f"r{place}", **one} for place, one in enumerate(releases)],
        }
    )


def wards(ill: dict[str, tuple[int, int]]) -> Any:
    rows = [
        {"ward": ward, "ill": number < yes} for ward, (yes, people) in ill.items() for number in range(people)
    ]
    return pd.DataFrame(rows).assign(id=range(len(rows)))


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("case", trials(32))
def test_certain_people_are_those_of_every_table_within_the_published_intervals(
    tmp_path: Path, case: int
) -> None:
    rng = np.random.default_rng([46, case])
    people = int(rng.integers(3, 8))
    ward, ill = rng.choice(["a", "b"], people), rng.random(people) < rng.choice([0.2, 0.8])
    table = pd.DataFrame({"id": np.arange(people), "ward": ward, "ill": ill})
    releases, known = [], []
    for place, (sql, groups) in enumerate(((WARD, sorted(set(ward))), (TOTAL, [""]))):
        law, rule = LAWS[int(rng.integers(len(LAWS)))]
        below = int(rng.choice([0, 0, 3]))
        rule = CountRule(to=rule.to, how=rule.how, within=rule.within, below=below)
        lines = ["ward,n" if sql == WARD else "n"]
        for group in groups:
            inside = (ward == group) if group else np.ones(people, dtype=bool)
            count = np.array([float(np.sum(ill & inside))])
            value = rule.published(count, rng.random(1))
            if rule.within and not np.isnan(value[0]):  # whatever made it so
                value = np.maximum(value + rng.integers(-1, 2), 0.0)
            low, high = rule.known_of_values(value)
            known.append((inside, low[0], high[0]))
            text = "" if np.isnan(value[0]) else f"{value[0]:g}"
            if text or not group or rng.random() < 0.5:  # else the line is not there
                lines.append(f"{group},{text}" if group else text or '""')
        file = written(tmp_path / f"r{place}.csv", "\n".join(lines) + "\n")
        releases.append(
            {"sql": sql, "noise": law, "numbers": file} | ({"suppress_below": below} if below else {})
        )
    result = audited(table, *releases)
    fitting = [
        world
        for world in product([False, True], repeat=people)
        if all(low <= np.sum(np.array(world) & inside) <= high for inside, low, high in known)
    ]
    certain = [len({world[one] for world in fitting}) == 1 for one in range(people)]
    assert result.certain is not None
    assert (result.certain.people, result.certain.by_draw) == (sum(certain), 0)


def test_a_draw_that_was_made_is_not_simulated(tmp_path: Path) -> None:
    # Random rounding to 5 may publish 3 of 3 as 0 or as 5; after the draw it is one of them.
    table = wards({"a": (3, 3), "b": (14, 30)})
    law = {"noise": {"law": "rounding", "to": 5, "how": "random"}}
    before = audited(table, {"sql": WARD, **law})
    assert before.certain is not None
    assert before.certain.people == 0
    file = written(tmp_path / "n.csv", "ward,n\na,0\nb,15\n")
    after = audited(table, {"sql": WARD, **law, "numbers": file})
    assert after.certain is not None
    assert (after.certain.people, after.certain.by_draw) == (0, 0)
    assert after.so_nobody_is_certain == ()
    told = audited(wards({"a": (5, 5), "b": (14, 30)}), {"sql": WARD, "noise": {"law": "none"}})
    assert told.certain is not None
    assert told.certain.people == 5
    assert told.so_nobody_is_certain  # of what is not out yet, there is advice


ROUNDED = {"noise": {"law": "rounding", "to": 5}}


@pytest.mark.parametrize(
    ("text", "release", "message"),
    [
        ("ward,n\na,-5\nb,10\n", ROUNDED, "counts from 0 on, or nothing for a blank, got a negative one"),
        ("ward,n\na,many\nb,10\n", ROUNDED, "counts from 0 on, or nothing for a blank, got another field"),
        ("ward,n\na,7\nb,10\n", ROUNDED, "values that the stated rule publishes, got 7"),
        (
            "ward,n\na,3\nb,10\n",
            {"noise": {"law": "none"}, "suppress_below": 5},
            "the stated rule publishes, got 3",
        ),
        ("ward,n\na,5\n", ROUNDED, "a number for every group, where suppress_below is not stated, got none"),
        ("ward,n\na,5\na,5\nb,10\n", ROUNDED, "each group once, got 'a' twice"),
        ("ward,n\na,5\nb,10\nz,10\n", ROUNDED, "groups that its query has, got 'z'"),
        ("ward,m,n2\na,5,1\nb,10,1\n", ROUNDED, "one with the name of each count"),
        ("ward,n\na,5\nb\n", ROUNDED, "as many fields in every line, got lines of several lengths"),
        ("", ROUNDED, "got an empty file"),
        (
            "ward,n\na,5\nb,40\n",
            ROUNDED,
            r'some table has, got "r0: b" \(38 to 42\), which contradict each other',
        ),
        (
            "ward,n\na,5\nb,5\n",
            ROUNDED,
            r'made from this table, got 1 that its counts are not published as, such as "r0: b" \(3 to 7\)',
        ),
        ("ward,n\na,5\nb,10\n", {"noise_stddev": 1.0}, "numbers with noise = "),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_one_line(
    tmp_path: Path, text: str, release: dict[str, Any], message: str
) -> None:
    table = wards({"a": (4, 12), "b": (11, 30)})
    file = written(tmp_path / "n.csv", text)
    with pytest.raises(InvalidPlan, match=message) as refused:
        audited(table, {"sql": WARD, **release, "numbers": file})
    assert "\n" not in str(refused.value)


def test_numbers_need_counts_of_records_and_nobody_known(tmp_path: Path) -> None:
    table = wards({"a": (4, 12), "b": (11, 30)})
    file = written(tmp_path / "n.csv", "ward,n\na,4\nb,11\n")
    exact = {"sql": WARD, "noise": {"law": "none"}, "numbers": file}
    plan = {
        "data": {"source": table, "record": "id", "secret": "ill", "kind": "boolean", "public": ["ward"]},
        "release": [{"name": "r", **exact}],
        "attacker": {"knows": ["ward = 'a'"]},
    }
    with pytest.raises(InvalidPlan, match="an attacker who knows nobody's secret"):
        sl.audit(plan)
    twice = pd.concat([table, table.head(1)])
    rows = {**plan["data"], "source": twice, "max_rows_per_record": 2}  # type: ignore[dict-item]
    with pytest.raises(InvalidPlan, match="counts of records with one row each"):
        sl.audit({**plan, "data": rows, "attacker": {}})
    assert audited(table, exact).certain is not None


def test_numbers_of_two_releases_that_contradict_each_other_are_named(tmp_path: Path) -> None:
    # 20 of both wards, and 5 and 5 in them: 16 to 14 at most, whatever the table is.
    table = wards({"a": (4, 12), "b": (11, 30)})
    by_ward = written(tmp_path / "ward.csv", "ward,n\na,5\nb,5\n")
    total = written(tmp_path / "total.csv", "n\n20\n")
    with pytest.raises(InvalidPlan) as refused:
        audited(
            table, {"sql": WARD, **ROUNDED, "numbers": by_ward}, {"sql": TOTAL, **ROUNDED, "numbers": total}
        )
    for name in ('"r0: a" (3 to 7)', '"r0: b" (3 to 7)', '"r1" (18 to 22)', "which contradict each other"):
        assert name in str(refused.value)
