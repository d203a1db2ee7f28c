"""The difference of two sums of published numbers that few people add to, against the engine's own sums."""

from __future__ import annotations

import math

import duckdb
import pyarrow as pa
import pyarrow.compute
import pytest

import sightline as sl
from sightline.auditing.result import Exposed
from sightline.report.first_screen import exposed_cells

DAYS, NOISE = 28, 40.0
SMALL = ("H04", "H11")  # whose tariff a threshold hides


def homes() -> pa.Table:
    rows = []
    for i in range(16):
        home, feeder = f"H{i:02}", "ab"[i % 2]
        tariff = "test" if home in SMALL else "xy"[(i // 2) % 2]
        rows += [(home, day, day // 7, feeder, tariff, float((7 * i + 3 * day) % 50)) for day in range(DAYS)]
    names = ("home", "day", "week", "feeder", "tariff", "kwh")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def audited(aggregate: str, noise: float = NOISE) -> sl.AuditResult:
    hidden = "HAVING COUNT(DISTINCT home) >= 3"
    return sl.audit(
        {
            "data": {
                "source": homes(),
                "record": "home",
                "secret": "kwh",
                "bounds": [0, 50],
                "max_rows_per_record": DAYS,
                "public": ["day", "week", "feeder", "tariff"],
            },
            "limits": {"remaining_uncertainty": 0.5},
            "release": [
                {
                    "name": "feeder days",
                    "sql": f"SELECT feeder, day, {aggregate} FROM data GROUP BY feeder, day",
                    "noise_stddev": noise,
                },
                {
                    "name": "tariff weeks",
                    "sql": f"SELECT tariff, week, {aggregate} FROM data GROUP BY tariff, week {hidden}",
                    "noise_stddev": noise,
                },
            ],
        },
        names=True,
    )


def about_the_hidden(result: sl.AuditResult) -> Exposed:
    first = result.exposed[0]
    assert first.left_by_sums is not None
    assert set((first.record or "").split(", ")) <= set(SMALL)
    return first


def test_two_homes_that_a_threshold_hid_are_the_difference_of_two_releases() -> None:
    result = audited("SUM(kwh)")
    found = about_the_hidden(result).left_by_sums
    assert found is not None
    assert (found.added, found.subtracted) == ('"feeder days"', '"tariff weeks"')
    assert (found.people, found.numbers, found.means) == (2, (2 * DAYS, 2 * 4), False)
    assert found.stddev == pytest.approx(NOISE * math.sqrt(sum(found.numbers)))
    with duckdb.connect() as connection:
        connection.register("data", homes())
        ask = lambda sql: connection.execute(sql).fetchone()[0]  # noqa: E731
        days = "SELECT SUM(kwh) AS n FROM data GROUP BY feeder, day"
        weeks = "SELECT SUM(kwh) AS n FROM data GROUP BY tariff, week HAVING COUNT(DISTINCT home) >= 3"
        both = [ask(f"SELECT SUM(n) FROM ({sql})") for sql in (days, weeks)]
        assert both[0] - both[1] == ask(f"SELECT SUM(kwh) FROM data WHERE home IN {SMALL}")
    line = exposed_cells(result)[0][-1]
    assert line == 'all 56 of "feeder days" minus all 8 of "tariff weeks" is the sum of 2 homes (± 320)'


def test_a_mean_counts_as_often_as_it_has_rows() -> None:
    found = about_the_hidden(audited("AVG(kwh)", 1.0)).left_by_sums
    assert found is not None
    assert found.means
    days, weeks = 2 * DAYS * 8**2, 2 * 4 * (7 * 7) ** 2
    assert found.stddev == pytest.approx(math.sqrt(days + weeks))


def test_a_record_with_a_short_recipe_needs_no_sums() -> None:
    sums = [{"name": "most", "sql": "SELECT SUM(kwh) FROM data WHERE home <> 'H04'", "noise_stddev": 1.0}]
    sums.append({"name": "all", "sql": "SELECT SUM(kwh) FROM data", "noise_stddev": 1.0})
    day = homes().slice(0).filter(pa.compute.equal(homes()["day"], 3))
    data = {"source": day, "record": "home", "secret": "kwh", "bounds": [0, 50]}
    result = sl.audit({"data": data, "release": sums}, names=True)
    assert result.exposed[0].record == "H04"
    assert result.exposed[0].recipe is not None
    assert all(one.left_by_sums is None for one in result.exposed)
