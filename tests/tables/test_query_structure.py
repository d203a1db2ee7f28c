"""WITH, subqueries, HAVING, UNION ALL and values per record: what an audit makes of them."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.jobs.audit import check
from sightline.tables.collect import collect
from sightline.tables.engines.open import open_source
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from sightline.tables.verify import verify

PERSONS = "SELECT customer, MIN(land) AS land, LEAST(SUM(spent), 250) AS total FROM source GROUP BY customer"
SUMS = {"sql": PERSONS, "secret": "total", "bounds": [0, 250], "max_rows_per_record": 1, "values": None}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """90 orders of 30 customers; the same with their clipped sums, and with the number of each order."""
    place = tmp_path_factory.mktemp("structure")
    generator = np.random.default_rng(7)
    orders = [
        (
            f"c{i % 30}",
            ["north", "south", "east"][i % 3],
            i,
            int(generator.integers(1, 5)),
            float(generator.integers(0, 200)),
        )
        for i in range(90)
    ]
    _write(place / "orders.csv", ["customer", "land", "day", "items", "spent"], orders)
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for customer, land, _, _, spent in orders:
        sums[customer, land] += spent
    _write(
        place / "sums.csv",
        ["customer", "land", "total"],
        [(c, n, min(s, 250.0)) for (c, n), s in sums.items()],
    )
    numbered = [(*order, 1 + order[2] // 30) for order in orders]
    _write(place / "numbered.csv", ["customer", "land", "day", "items", "spent", "place"], numbered)
    return place


def _write(path: Path, names: list[str], rows: list[tuple[Any, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *rows])


def plan(
    folder: Path, *sqls: str, stddev: float = 1.0, source: str = "orders.csv", **data: Any
) -> dict[str, Any]:
    about = {
        "record": "customer",
        "secret": "spent",
        "bounds": [0, 200],
        "max_rows_per_record": 3,
        "values": "independent",
    }
    given = {name: value for name, value in {**about, **data}.items() if value is not None}
    return {
        "data": {"source": str(folder / source), **given},
        "privacy": {"epsilon": 1.0, "delta": 1e-5},
        "release": [{"name": f"r{i}", "sql": sql, "noise_stddev": stddev} for i, sql in enumerate(sqls)],
        "limits": {"remaining_uncertainty": 0.5},
    }


def facts(result: sl.AuditResult) -> dict[str, Any]:
    """What an audit found, without the names of releases and columns."""
    return {
        "passed": result.verdict.passed,
        "records": result.records,
        "identifiable": result.identifiable_records,
        "rank": result.rank,
        "worst": [
            (str(one.remaining_uncertainty), round(one.rmse, 6) if one.rmse else None)
            for one in result.exposed
        ],
    }


EVERY_ROW = "SELECT land, SUM(spent) FROM data GROUP BY land"
ALL_BUT_ONE = "SELECT SUM(spent) FROM data WHERE NOT (customer = 'c4' AND day = 4) AND land = 'south'"
FORMS = {
    "with": "WITH d AS (SELECT spent AS s, customer AS c, land, day FROM data) "
    "SELECT SUM(s) FROM d WHERE NOT (c = 'c4' AND day = 4) AND land = 'south'",
    "subquery": "SELECT SUM(spent) FROM (SELECT * FROM data WHERE NOT (customer = 'c4' AND day = 4)) AS d "
    "WHERE land = 'south'",
    "having": "SELECT land, SUM(spent) FROM data WHERE NOT (customer = 'c4' AND day = 4) GROUP BY land "
    "HAVING COUNT(*) < 30",
}


@pytest.fixture(scope="module")
def plain(folder: Path) -> dict[str, Any]:
    result = sl.audit(plan(folder, EVERY_ROW, ALL_BUT_ONE), full=True)
    assert not result.verdict.passed
    assert result.identifiable_records > 0
    return facts(result)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_new_form_fails_as_the_plain_form_does(form: str, folder: Path, plain: dict[str, Any]) -> None:
    """All rows and all but one expose that one, however the query is written."""
    assert facts(sl.audit(plan(folder, EVERY_ROW, FORMS[form]), full=True)) == plain


@pytest.mark.slow
def test_union_all_publishes_the_numbers_of_each_select(folder: Path, plain: dict[str, Any]) -> None:
    together = plan(folder, f"{EVERY_ROW} UNION ALL {ALL_BUT_ONE.replace('SUM', 'land, SUM')} GROUP BY land")
    assert facts(sl.audit(together, full=True)) == plain


@pytest.mark.slow
def test_a_window_is_a_column_of_the_table(folder: Path) -> None:
    first = "SELECT land, SUM(spent) FROM {} WHERE place = 1 GROUP BY land"
    window = "SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY day) AS place FROM source"
    ours = sl.audit(plan(folder, first.format(f"({window}) AS d"), sql=window), full=True)
    column = sl.audit(plan(folder, first.format("data"), source="numbered.csv"), full=True)
    assert facts(ours) == facts(column)


class TestValuesPerRecord:
    releases = (
        "SELECT land, AVG({}) FROM {} GROUP BY land",
        "SELECT SUM({}) FROM {} WHERE customer <> 'c4'",
        "SELECT SUM({}) FROM {}",
    )

    @pytest.mark.slow
    @pytest.mark.parametrize("stddev", [1.0, 400.0])
    def test_an_audit_of_sums_is_one_of_a_table_of_sums(self, folder: Path, stddev: float) -> None:
        """The second computation: the same releases over a table that holds the clipped sums."""
        inner = [sql.format("total", f"({PERSONS}) AS p") for sql in self.releases]
        table = [sql.format("total", "data") for sql in self.releases]
        limits = {"limits": {"remaining_uncertainty": 0.5, "accept": ["few_values"]}}  # many sums are 250
        ours = sl.audit(plan(folder, *inner, stddev=stddev, **SUMS) | limits, full=True)
        theirs = sl.audit(
            plan(folder, *table, stddev=stddev, source="sums.csv", **SUMS | {"sql": None}) | limits, full=True
        )
        assert facts(ours) == facts(theirs)
        assert ours.secret == "total"
        assert ours.verdict.passed == (stddev > 1)

    @pytest.mark.slow
    def test_all_but_one_exposes_that_one(self, folder: Path) -> None:
        inner = [sql.format("total", "data") for sql in self.releases[1:]]
        result = sl.audit(plan(folder, *inner, **SUMS), full=True)
        assert not result.verdict.passed
        assert result.exposed[0].rmse is not None
        assert result.exposed[0].rmse == pytest.approx(2**0.5)  # the difference of two sums with noise 1

    @pytest.mark.slow
    def test_sums_outside_the_bounds_are_counted(self, folder: Path) -> None:
        plain = SUMS | {"sql": PERSONS.replace("LEAST(SUM(spent), 250)", "SUM(spent)")}
        result = sl.audit(plan(folder, "SELECT AVG(total) FROM data", stddev=500.0, **plain), full=True)
        assert result.clipped > 0
        assert not result.verdict.passed
        assert (
            sl.audit(plan(folder, "SELECT AVG(total) FROM data", stddev=500.0, **SUMS), full=True).clipped
            == 0
        )

    @pytest.mark.slow
    def test_a_designed_plan_makes_the_same_rows(self, folder: Path) -> None:
        sql = f"SELECT land, AVG(total) FROM ({PERSONS}) AS p GROUP BY land"
        given = plan(folder, sql, **SUMS)
        given |= {"limits": {"remaining_uncertainty": 0.5, "accept": ["few_values"]}}
        designed = folder / "designed.toml"
        designed.write_text(sl.design(given).plan, encoding="utf-8")
        assert check(designed).data == check(given).data

    def test_releases_over_rows_are_refused_beside_it(self, folder: Path) -> None:
        with pytest.raises(InvalidPlan, match="release 'r1': expected FROM data, got FROM source"):
            check(plan(folder, "SELECT AVG(total) FROM data", "SELECT SUM(spent) FROM source", **SUMS))

    def test_another_inner_query_is_refused_beside_it(self, folder: Path) -> None:
        other = "SELECT customer, SUM(spent) AS total FROM source WHERE items > 1 GROUP BY customer"
        with pytest.raises(InvalidPlan, match="release 'r0': expected a subquery whose lines are rows"):
            check(plan(folder, f"SELECT AVG(total) FROM ({other}) q", **SUMS))

    @pytest.mark.slow
    def test_a_release_for_each_period(self, folder: Path) -> None:
        """A record has a value in each period: the query groups by it, and the release chooses it."""
        value = "LEAST(SUM(spent), 150) AS v"
        inner = f"SELECT customer, FLOOR(day / 30) AS m, {value} FROM source GROUP BY customer, m"
        sqls = [f"SELECT SUM(v) FROM data WHERE m = {m}" for m in (0, 1)]
        result = sl.audit(
            plan(folder, *sqls, stddev=3000.0, sql=inner, secret="v", bounds=[0, 150]), full=True
        )
        assert (result.records, result.rows, result.rank) == (30, 90, 2)

    def test_inner_queries_may_be_spelt_differently(self, folder: Path) -> None:
        items = "x.customer, LEAST(SUM(x.Spent), 250) AS total, MIN(x.land) AS land"
        other = f"SELECT {items} FROM source AS x GROUP BY 1"
        again = f"WITH p AS ({PERSONS}) SELECT land, AVG(q.total) FROM p AS q GROUP BY land"
        check(plan(folder, f"SELECT AVG(total) FROM ({other}) q", again, **SUMS))


@pytest.mark.thorough
def test_positions_in_a_subquery_are_those_of_its_own_items(folder: Path) -> None:
    """Other items around it do not change which columns it groups by, also inside ROLLUP."""
    inner = "SELECT land, day % 2 AS half, SUM(spent) AS s FROM data GROUP BY ROLLUP ({})"
    found = [
        sl.audit(plan(folder, f"SELECT s, land FROM ({inner.format(keys)}) AS t"), full=True)
        for keys in ("1, 2", "land, half", "land, day % 2")
    ]
    assert found[0].cells == found[1].cells == found[2].cells == 6 + 3 + 1


class TestCheck:
    """``check`` compiles every release on the engine, so that no good plan fails later."""

    def test_types_that_the_engine_refuses(self, folder: Path) -> None:
        with pytest.raises(InvalidPlan, match=r"release 'r0': expected a query that DuckDB can run"):
            check(plan(folder, "SELECT SUM(spent) FROM data WHERE land + 1 > 3"))

    def test_selects_of_different_widths(self, folder: Path) -> None:
        sql = "SELECT land, SUM(spent) FROM data GROUP BY land UNION ALL SELECT SUM(spent) FROM data"
        with pytest.raises(InvalidPlan, match=r"release 'r0': expected a query that DuckDB can run"):
            check(plan(folder, sql))


class TestTheCheckOfAnAudit:
    """A reading that differs from the engine's is an error, also in the new forms."""

    def verified(self, folder: Path, sql: str, before: str, after: str) -> None:
        engine = open_source("orders.csv", base=folder)
        subject = Subject(record="customer", secret="spent", kind=SecretKind.NUMBER, bounds=(0, 200))
        try:
            query = read_release(sql, name="odd", subject=subject, schema=Schema.of(engine))
            other = read_release(
                sql.replace(before, after), name="odd", subject=subject, schema=Schema.of(engine)
            )
            assert before in sql
            verify(engine, [query], collect(engine, [query], subject))
            verify(engine, [other], collect(engine, [query], subject))
        finally:
            engine.close()

    @pytest.mark.parametrize(
        ("sql", "before", "after"),
        [
            ("SELECT items, SUM(spent) FROM data GROUP BY items HAVING COUNT(*) > 22", "> 22", "> 0"),
            (
                "WITH d AS (SELECT * FROM data WHERE items > 1) SELECT land, SUM(spent) FROM d GROUP BY land",
                "> 1",
                "> 2",
            ),
            (
                "SELECT SUM(spent) FROM data UNION ALL SELECT SUM(spent) FROM data WHERE items = 1",
                "= 1",
                "= 2",
            ),
        ],
    )
    def test_other_groups(self, sql: str, before: str, after: str, folder: Path) -> None:
        with pytest.raises(InvalidPlan, match=r'release "odd": expected the groups'):
            self.verified(folder, sql, before, after)

    def test_other_groups_of_the_same_size(self, folder: Path) -> None:
        """HAVING that keeps another group of 30 rows: the sizes agree, and the rows differ."""
        engine = open_source("orders.csv", base=folder)
        subject = Subject(record="customer", secret="spent", kind=SecretKind.NUMBER, bounds=(0, 200))
        sql = "SELECT land, SUM(spent) FROM data GROUP BY land HAVING MIN(day) = 0"
        try:
            query = read_release(sql, name="odd", subject=subject, schema=Schema.of(engine))
            (own,) = query.checks
            assert own is not None
            tampered = own.sql.replace(" = 0) THEN 1 ELSE 0 END AS kept", " = 1) THEN 1 ELSE 0 END AS kept")
            assert tampered != own.sql
            changed = replace(query, checks=(replace(own, sql=tampered),))
            with pytest.raises(InvalidPlan, match="the groups that the engine's HAVING keeps"):
                verify(engine, [changed], collect(engine, [query], subject))
        finally:
            engine.close()


def test_a_lookup_must_not_double_rows_that_having_counts(tmp_path: Path) -> None:
    """Only rows without a secret match twice: they are not audited, and HAVING counts them."""
    rows = [(f"c{i}", "north" if i % 2 else "south", i, 5.0 if i < 8 else None) for i in range(12)]
    _write(tmp_path / "orders.csv", ["customer", "land", "day", "spent"], rows)
    _write(tmp_path / "days.csv", ["d", "label"], [*((i, "x") for i in range(12)), (11, "y")])
    sql = "SELECT land, SUM(spent) FROM data LEFT JOIN days ON day = d GROUP BY land{}"
    about = Subject(record="customer", secret="spent", kind=SecretKind.NUMBER, bounds=(0, 200))
    engine = open_source("orders.csv", base=tmp_path, tables={"days": "days.csv"})
    schema = Schema.of(engine, ["days"])
    plain, having = (
        read_release(sql.format(end), name="r", subject=about, schema=schema)
        for end in ("", " HAVING COUNT(*) > 6")
    )
    assert len(collect(engine, [plain], about).cells) == 2
    with pytest.raises(InvalidPlan, match='at most one row of "days" for each row of data'):
        collect(engine, [having], about)
    engine.close()


BOMBS = {
    "many uses of WITH": "WITH a AS (SELECT spent FROM data)"
    + "".join(
        f", {name} AS (SELECT x.spent FROM {before} x JOIN {before} y ON x.spent = y.spent)"
        for before, name in zip("abcdefghij", "bcdefghijk", strict=True)
    )
    + " SELECT SUM(spent) FROM k",
    "columns that double": "WITH a AS (SELECT items AS n, spent FROM data)"
    + "".join(
        f", {name} AS (SELECT n + n AS n, spent FROM {before})"
        for before, name in zip("abcdefghijklmnop", "bcdefghijklmnopq", strict=True)
    )
    + " SELECT n, SUM(spent) FROM q GROUP BY n",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_small_texts_do_not_grow_without_end(bomb: str, folder: Path) -> None:
    with pytest.raises(InvalidPlan, match=r"at most 200 SELECTs|of a moderate size|nested at most"):
        check(plan(folder, BOMBS[bomb]))
