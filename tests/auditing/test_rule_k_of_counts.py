"""The rule k about what counts count: where it is not decided, no plan passes, and every door says so."""

from __future__ import annotations

from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl
from sightline.errors import InvalidPlan

WARD = "SELECT ward, COUNT(*) FILTER (WHERE ill) AS n FROM data GROUP BY ward"


def wards() -> Any:
    sizes = {"a": (1, 30), "b": (12, 30), "c": (5, 20)}
    rows = [{"ward": one, "ill": n < yes} for one, (yes, size) in sizes.items() for n in range(size)]
    return pd.DataFrame(rows).assign(id=range(len(rows)))


def audited(table: Any, k: int, *, noise: Any = None, **sections: Any) -> sl.AuditResult:
    data = {"source": table, "record": "id", "secret": "ill", "kind": "boolean", "public": ["ward"]}
    accept = ["homogeneous", "values", "rows_apart", "count_rules"]
    return sl.audit(
        {
            "limits": {"remaining_uncertainty": 0.1, "accept": accept},
            "rules": {"k": k} if k > 1 else {},
            "release": [{"name": "r", "sql": WARD, "noise": noise or {"law": "none"}}],
            **sections,
            "data": data | sections.get("data", {}),
        }
    )


def twice(table: Any) -> Any:
    return pd.concat([table, table[table.ward == "b"].head(3)])


TWO_ROWS = {"max_rows_per_record": 2}
SETTINGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "somebody is known": (wards(), {"attacker": {"knows": ["ward = 'c'"]}}),
    "several rows of one value": (twice(wards()), {"data": {**TWO_ROWS, "values": "constant"}}),
    "several rows": (twice(wards()), {"data": {**TWO_ROWS, "values": "independent"}}),
}


def test_a_count_of_one_breaks_k() -> None:
    result = audited(wards(), 3)
    assert result.verdict.status == "failed"
    assert result.rules is not None
    assert [one.text for one in result.rules.broken] == [
        'k: "r: a": 1 of 30 people are counted, fewer than 3'
    ]


@pytest.mark.parametrize("setting", SETTINGS)
def test_where_counts_are_not_looked_at_nothing_passes(setting: str) -> None:
    table, sections = SETTINGS[setting]
    result = audited(table, 3, **sections)
    assert result.verdict.status == "not shown"
    (raised,) = [one for one in result.unverified if one.name == "count_rules"]
    assert (raised.count, raised.accepted) == (3, False)
    assert "whether the rule k holds" in raised.reason
    assert result.publishable().verdict.status == "not shown"
    # Without the rule, and with noise on the counts, nothing is open.
    assert audited(table, 1, **sections).verdict.status == "passed"
    noisy = audited(table, 3, noise={"stddev": 30.0}, **sections)
    assert not [one for one in noisy.unverified if one.name == "count_rules"]


@pytest.mark.parametrize("setting", SETTINGS)
def test_rounded_counts_are_refused_there(setting: str) -> None:
    table, sections = SETTINGS[setting]
    expected = "knows nobody's secret" if "attacker" in sections else "counts of records with one row each"
    with pytest.raises(InvalidPlan, match=expected):
        audited(table, 3, noise={"law": "rounding", "to": 5}, **sections)


@pytest.mark.parametrize("hidden", [{"suppress_below": 3}, {"withhold": [["t"]]}])
def test_a_total_less_all_other_groups_brings_a_blank_back(hidden: dict[str, Any]) -> None:
    sizes = {"p": (30, 100), "q": (25, 100), "r": (40, 100), "s": (20, 60), "t": (1, 20)}
    rows = [{"ward": one, "ill": n < yes} for one, (yes, size) in sizes.items() for n in range(size)]
    table, exact = pd.DataFrame(rows).assign(id=range(380)), {"law": "none"}
    total = {"name": "all", "sql": "SELECT COUNT(*) FILTER (WHERE ill) AS n FROM data", "noise": exact}

    def with_blanks(**release: Any) -> sl.AuditResult:
        own = {"name": "r", "sql": WARD, "noise": exact, **release}
        return audited(table, 3, limits={"remaining_uncertainty": 0.05}, release=[own, total])

    result = with_blanks(**hidden)
    assert result.rules is not None
    (told,) = result.rules.broken
    assert told.text == 'k: "all" − 4 numbers of "r": 1 of 20 people are counted, fewer than 3'
    assert "counts of a total less all others of a release" in result.rules.checked
    # Another blank leaves 31 of 120, and 0 to 2 of the 20.
    assert result.so_nobody_is_certain is not None
    (change,) = result.so_nobody_is_certain
    assert change.text == 'Withhold "r: p": then nobody is certain, and k = 3 holds'
    assert with_blanks(suppress_below=3, withhold=[["p"]]).verdict.passed
