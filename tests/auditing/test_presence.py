"""Being in the table as a secret: with a frame of people who might be, and without one."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import sightline as sl
from sightline.auditing.result import AuditResult
from sightline.errors import InvalidPlan

BY_TOWN = "SELECT town, COUNT(*) AS n FROM data GROUP BY town"


def frame_of(sizes: dict[str, tuple[int, int]]) -> tuple[Any, Any]:
    """A frame, and the table of those who are there: so many of so many in each town."""
    rows = [
        {"town": town, "there": number < there}
        for town, (there, people) in sizes.items()
        for number in range(people)
    ]
    everybody = pd.DataFrame(rows).assign(id=range(len(rows)))
    return everybody[["id", "town"]], everybody[everybody.there][["id", "town"]].assign(viral_load=1.0)


def audited(tmp_path: Path, frame: Any, table: Any, *, framed: bool = True, **release: Any) -> AuditResult:
    data: dict[str, Any] = {"source": table, "record": "id", "secret": "presence"}
    if framed:
        frame.to_parquet(tmp_path / "register.parquet")
        data["frame"] = str(tmp_path / "register.parquet")
    limits = {"remaining_uncertainty": 0.5, **release.pop("limits", {})}
    return sl.audit({"data": data, "limits": limits, "release": [{"name": "r", "sql": BY_TOWN, **release}]})


EXACT: dict[str, Any] = {"noise": {"law": "none"}}


def test_a_town_with_nobody_and_one_with_everybody_are_told(tmp_path: Path) -> None:
    frame, table = frame_of({"a": (0, 20), "b": (7, 30), "c": (5, 5)})
    result = audited(tmp_path, frame, table, **EXACT)
    assert result.certain is not None
    assert result.records == 55
    assert {(one.label, one.people, one.value) for one in result.certain.groups} == {
        ("town a", 20, "no"),
        ("town c", 5, "yes"),
    }
    assert result.verdict.status == "failed"
    assert "12 of 55" not in result.verdict.text


def test_the_prior_is_the_share_of_the_frame_and_the_bracket_that_of_enumeration(tmp_path: Path) -> None:
    frame, table = frame_of({"a": (1, 3), "b": (2, 4)})
    result = audited(tmp_path, frame, table, **EXACT)
    share = 3 / 7
    assert result.prior == "values that are yes or no with a chance of 42.86 % of yes"
    left = []
    for size in (3, 4):
        kept = 0.0
        for world in product([0, 1], repeat=size):
            mean = sum(world) / size  # of the posterior: all with this count are equally likely
            kept += share ** sum(world) * (1 - share) ** (size - sum(world)) * mean * (1 - mean)
        left.append(kept / (share * (1 - share)))
    assert result.least_remaining_uncertainty is not None
    assert result.least_remaining_uncertainty.lower <= min(left) + 1e-9
    assert result.least_remaining_uncertainty.upper >= min(left) - 1e-9


def test_without_a_frame_the_noise_alone_counts(tmp_path: Path) -> None:
    frame, table = frame_of({"a": (3, 20), "b": (7, 30)})
    exact = audited(tmp_path, frame, table, framed=False, **EXACT)
    assert exact.verdict.status == "failed"
    assert "that somebody is in it" in exact.verdict.text
    assert exact.slack is not None
    assert "give them noise before asking" in exact.slack.text
    rounded = audited(tmp_path, frame, table, framed=False, noise={"law": "rounding", "to": 5})
    assert rounded.verdict.status == "failed"
    total = "SELECT COUNT(*) AS n FROM data"
    noisy = audited(tmp_path, frame, table, framed=False, sql=total, noise={"law": "gaussian", "stddev": 2.0})
    assert noisy.verdict.status == "passed"
    assert noisy.verdict.guaranteed
    # Adding or removing one person moves the count by one: what is left of an even chance, by quadrature.
    x = np.linspace(-40, 41, 200_001)
    p, q = (np.exp(-((x - c) ** 2) / 8) / np.sqrt(8 * np.pi) for c in (0, 1))
    left = 2 * np.sum(p * q / (p + q)) * (x[1] - x[0])
    assert noisy.guaranteed_by_noise is not None
    assert noisy.guaranteed_by_noise <= left
    assert noisy.exposed == ()
    little = audited(
        tmp_path, frame, table, framed=False, sql=total, noise={"law": "gaussian", "stddev": 0.3}
    )
    assert little.verdict.status == "not shown"


def test_without_a_frame_somebody_may_come_who_is_in_every_release() -> None:
    """Nobody of the table is in both numbers; who comes may be, and moves both."""
    table = pd.DataFrame(
        {"id": range(100), "town": ["a"] * 50 + ["b"] * 50, "old": [False] * 50 + [True] * 50}
    )
    releases = [
        {"name": where, "sql": f"SELECT COUNT(*) AS n FROM data WHERE {where}"}
        for where in ("town = 'a'", "old")
    ]
    data: dict[str, Any] = {"source": table, "record": "id", "secret": "presence"}

    def with_noise(limit: float, noise: dict[str, Any], **sections: Any) -> AuditResult:
        limits = {"remaining_uncertainty": limit}
        own = [{**release, **noise} for release in releases]
        return sl.audit({"data": data, "limits": limits, "release": own, **sections}, full=True)

    # By quadrature, of an even chance: both numbers move by one deviation, which is one number with √2.
    x = np.linspace(-15, 16, 200_001)
    p, q = (np.exp(-((x - c) ** 2) / 2) / np.sqrt(2 * np.pi) for c in (0, np.sqrt(2)))
    left = 2 * np.sum(p * q / (p + q)) * (x[1] - x[0])
    assert 0.55 < left < 0.7
    noise = {"noise_stddev": 1.0}
    assert with_noise(0.55, noise).verdict.guaranteed
    # Everyone keeps what the noise guarantees: no walk and nobody in the table makes it more.
    result = with_noise(0.7, noise)
    assert result.least_remaining_uncertainty is not None
    assert result.least_remaining_uncertainty.lower == result.guaranteed_by_noise
    assert result.verdict.status == "not shown"
    assert [one.name.value for one in result.unverified] == ["presence"]
    # No group that is merged hides who comes; noise does.
    (change,) = result.what_to_change
    assert change.noise_factor is not None
    assert with_noise(0.7, {"noise_stddev": change.noise_factor}).verdict.guaranteed
    assert result.budget.spent["per-record"] == pytest.approx(result.budget.spent["gaussian-dp"])
    for privacy in ({"accountant": "per-record"}, {"sensitivity": "memberships"}):
        with pytest.raises(InvalidPlan, match="a budget for every conceivable person"):
            with_noise(0.5, {}, privacy={"epsilon": 1.0, "delta": 1e-6, **privacy})
    noisy = [{**release, **noise} for release in releases]
    plan = {"data": data, "limits": {"remaining_uncertainty": 0.7}, "release": noisy}
    for job in (sl.design, sl.rehearse, lambda one: sl.explain(one, 1)):
        with pytest.raises(InvalidPlan, match="a frame of everybody who might be there"):
            job(plan)


def test_lines_that_are_missing_tell_where_nobody_is(tmp_path: Path) -> None:
    frame, table = frame_of({"a": (3, 20), "b": (7, 30)})
    noise = {"law": "gaussian", "stddev": 4.0}
    for framed in (True, False):
        result = audited(tmp_path, frame, table, framed=framed, noise=noise)
        assert result.verdict.status == "not shown"
        assert [one.name.value for one in result.unverified] == ["groups"]
        accepted = audited(tmp_path, frame, table, framed=framed, noise=noise, limits={"accept": ["groups"]})
        assert accepted.verdict.status == "passed"


def test_having_blanks_small_counts_and_lines(tmp_path: Path) -> None:
    frame, table = frame_of({"a": (3, 20), "b": (7, 30)})
    blank = audited(tmp_path, frame, table, sql=f"{BY_TOWN} HAVING COUNT(*) >= 5", **EXACT)
    stated = audited(tmp_path, frame, table, suppress_below=5, **EXACT)
    assert blank.verdict == stated.verdict
    assert blank.certain == stated.certain


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda f, t: (pd.concat([f, f[:1]]), t),
            "everybody once, by the record key, got 51 rows with 50 keys",
        ),
        (lambda f, t: (f[1:], t), "got 1 of 10 people of the table who are not in it"),
        (lambda f, t: (f, pd.concat([t, t[:1]])), "one row of each person in the table"),
        (lambda f, t: (t[["id", "town"]], t), "people who are in the table, and some who are not"),
        (lambda f, t: (f.assign(town="a"), t), 'the same values of "town" as in the table'),
        (lambda f, t: (f[["id"]], t), 'expected a column of the table, got "town"'),
        (lambda f, t: (f.assign(presence=1), t), 'a table without a column "presence"'),
    ],
)
def test_a_frame_that_does_not_fit_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    frame, table = change(*frame_of({"a": (3, 20), "b": (7, 30)}))
    with pytest.raises(InvalidPlan, match=message):
        audited(tmp_path, frame, table, **EXACT)


def test_sums_are_refused_and_a_frame_needs_presence(tmp_path: Path) -> None:
    frame, table = frame_of({"a": (3, 20), "b": (7, 30)})
    with pytest.raises(InvalidPlan, match=r"releases of COUNT\(\*\), with FILTER or without, got SUM"):
        audited(tmp_path, frame, table, sql="SELECT SUM(viral_load) FROM data", **EXACT)
    with pytest.raises(InvalidPlan, match="a frame with secret = 'presence'"):
        sl.audit(
            {
                "data": {
                    "source": table,
                    "record": "id",
                    "secret": "town",
                    "frame": "f.parquet",
                    "kind": "boolean",
                },
                "release": [{"name": "r", "sql": BY_TOWN, **EXACT}],
            }
        )


def test_a_column_of_that_name_is_a_column() -> None:
    table = pd.DataFrame({"id": range(40), "presence": [True] * 10 + [False] * 30})
    sql = "SELECT COUNT(*) FILTER (WHERE presence) AS n FROM data"
    data = {"source": table, "record": "id", "secret": "presence", "kind": "boolean"}
    assert sl.audit({"data": data, "release": [{"name": "r", "sql": sql, **EXACT}]}).records == 40
