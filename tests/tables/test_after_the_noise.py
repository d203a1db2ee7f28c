"""What is computed with several noisy sums is audited as their publication: the answer is made of them.

Each item is asked of the engine on changed secrets, and computed again from the sums that the audit says are
published, of the same secrets, and from public numbers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.ledger.frozen import aggregated
from sightline.tables.collect import collect, count_table
from sightline.tables.engines.open import open_source
from sightline.tables.membership import Statistic
from sightline.tables.records import members_of
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from sightline.tables.verify import verify

ROWS = 60
SUBJECT = Subject(record="id", secret="x", kind=SecretKind.NUMBER, bounds=(0, 10), most_rows=1)


def rows(seed: int) -> list[tuple[int, str, float, float]]:
    draw = random.Random(seed)
    return [(i, "ns"[i % 2], 20.0 + i % 7, round(draw.uniform(0, 10), 3)) for i in range(ROWS)]


AGES = [row[2] for row in rows(0)]
N, Y, YY = float(ROWS), sum(AGES), sum(age**2 for age in AGES)
ITEMS: dict[str, Callable[[list[float]], Any]] = {  # how an item is made of the audited sums
    "SUM(x) FILTER (WHERE town = 'n') / SUM(x)": lambda s: s[0] / s[1],
    "1 - AVG(x) FILTER (WHERE town = 'n') / AVG(x) FILTER (WHERE town = 's')": lambda s: 1 - s[0] / s[1],
    "100.0 * COUNT(*) FILTER (WHERE x > 3) / NULLIF(COUNT(*) FILTER (WHERE x > 1), 0)":
        lambda s: 100 * s[0] / s[1],
    "STDDEV_POP(x)": lambda s: math.sqrt(s[1] / N - (s[0] / N) ** 2),
    "STDDEV(x)": lambda s: math.sqrt((s[1] - s[0] ** 2 / N) / (N - 1)),
    "VAR_POP(x) * 4": lambda s: 4 * (s[1] / N - (s[0] / N) ** 2),
    "STDDEV(x) / SQRT(COUNT(x))": lambda s: math.sqrt((s[1] - s[0] ** 2 / N) / (N - 1) / N),
    "AVG(x) / STDDEV(x)": lambda s: s[0] / math.sqrt((s[2] - s[1] ** 2 / N) / (N - 1)),
    "COVAR_POP(x, age)": lambda s: s[2] / N - s[0] / N * Y / N,
    "CORR(x, age)": lambda s: (N * s[2] - s[0] * Y)
    / math.sqrt((N * s[1] - s[0] ** 2) * (N * YY - Y**2)),
    "REGR_SLOPE(x, age)": lambda s: (N * s[2] - s[0] * Y) / (N * YY - Y**2),
    "CASE WHEN SUM(x) > 300 THEN 1 ELSE 0 END": lambda s: float(s[0] > 300),
    "SQRT(AVG(POWER(x, 2)))": lambda s: math.sqrt(s[0]),
    "COUNT(*) / SUM(x)": lambda s: N / s[0],
    "POWER(AVG(x), 2)": lambda s: s[0] ** 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("sums")
    with duckdb.connect(str(made / "data.duckdb")) as connection:
        _create(connection, 1)
    return made


def _create(connection: duckdb.DuckDBPyConnection, seed: int) -> None:
    lines = ", ".join(f"({i}, '{town}', {age}, {x})" for i, town, age, x in rows(seed))
    connection.execute("CREATE OR REPLACE TABLE data (id INTEGER, town VARCHAR, age DOUBLE, x DOUBLE)")
    connection.execute(f"INSERT INTO data VALUES {lines}")


@pytest.mark.parametrize("item", ITEMS)
def test_an_item_is_made_of_the_sums_that_are_audited(folder: Path, item: str) -> None:
    sql = f"SELECT {item} FROM data"
    engine = open_source("data.duckdb", base=folder)
    query = read_release(sql, name="one", subject=SUBJECT, schema=Schema.of(engine))
    membership = collect(engine, [query], SUBJECT)
    counted = count_table(engine, [query], SUBJECT)
    keys = members_of(engine, counted, signature_ids=range(len(membership.signatures)))
    engine.close()
    signature = {int(one): place for place, names in keys.items() for one in names}
    assert all(part.computed.shows for part in membership.partitions)  # noise on the sums is then asked for
    with duckdb.connect() as connection:
        for seed in range(2, 6):
            _create(connection, seed)
            ((answer,),) = connection.execute(sql).fetchall()
            own = rows(seed)
            values, places = np.array([row[3] for row in own]), [signature[row[0]] for row in own]
            sums = []
            for p, part in enumerate(membership.partitions):
                inside = membership.positions(p)[places] >= 0
                features = aggregated(part, values) * membership.weights_in(p)[places]
                total = float(features[inside].sum())
                sums.append(total / inside.sum() if part.statistic is Statistic.MEAN else total)
            assert float(answer) == pytest.approx(ITEMS[item](sums[::-1]), rel=1e-9)  # the last comes first


def plan(folder: Path, sql: str, **changes: Any) -> dict[str, Any]:
    return {
        "data": {"source": str(folder / "data.duckdb"), "record": "id", "secret": "x", "bounds": [0, 10],
                 **changes.get("data", {})},
        "privacy": {"epsilon": 1.0, "delta": 1e-6},
        "limits": {"remaining_uncertainty": "10%", **changes.get("limits", {})},
        "release": [{"name": "one", "sql": sql}],
    }  # fmt: skip


def test_a_ratio_passes_with_noise_on_its_sums_alone(folder: Path) -> None:
    sql = "SELECT SUM(x) FILTER (WHERE town = 'n') / SUM(x) AS share FROM data"
    result = sl.audit(plan(folder, sql))
    assert [one.name for one in result.unverified] == ["noise_first"]
    lines = [line for line in result.assumptions if "the noise is on" in line]
    assert len(lines) == 2
    both = plan(folder, sql)
    both["release"] = [
        {"name": "one", "sql": "SELECT SUM(x) FILTER (WHERE town = 'n') AS a, SUM(x) AS b FROM data"}
    ]
    accepted = sl.audit(plan(folder, sql, limits={"accept": ["noise_first"]}))
    assert accepted.least_remaining_uncertainty == sl.audit(both).least_remaining_uncertainty


PERSONS = {
    "SELECT COUNT(DISTINCT id) FROM data WHERE x > 4": "SELECT COUNT(*) FROM data WHERE x > 4",
    "SELECT town, COUNT(DISTINCT id) FILTER (WHERE x > 4) FROM data GROUP BY town":
        "SELECT town, COUNT(*) FILTER (WHERE x > 4) FROM data GROUP BY town",
    "SELECT COUNT(DISTINCT CASE WHEN x > 4 THEN id END) FROM data": "SELECT COUNT(*) FROM data WHERE x > 4",
}  # fmt: skip


@pytest.mark.parametrize("sql", PERSONS)
def test_persons_of_one_row_are_counted_as_rows(folder: Path, sql: str) -> None:
    with duckdb.connect(str(folder / "data.duckdb"), read_only=True) as connection:
        same = [sorted(connection.execute(text).fetchall()) for text in (sql, PERSONS[sql])]
    assert same[0] == same[1]
    ours, plain = (sl.audit(plan(folder, text)) for text in (sql, PERSONS[sql]))
    assert ours.least_remaining_uncertainty == plain.least_remaining_uncertainty
    assert ours.questions == plain.questions
    with pytest.raises(InvalidPlan, match="max_rows_per_record = 1"):
        sl.audit(plan(folder, sql, data={"max_rows_per_record": 2}))


SHARES = [
    "100.0 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY town)",
    "COUNT(*) * 1.0 / (SELECT COUNT(*) FROM data)",
    "SUM(COUNT(*)) OVER (PARTITION BY town ORDER BY {key}) * 1.0 / SUM(COUNT(*)) OVER (PARTITION BY town)",
]


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("key", ["x > 4", "FLOOR(x / 5)"])
def test_a_share_of_a_histogram_is_made_of_its_counts(folder: Path, share: str, key: str) -> None:
    sql = f"SELECT town, {key} AS k, {share.format(key=key)} AS y FROM data GROUP BY town, {key}"
    engine = open_source("data.duckdb", base=folder)
    query = read_release(sql, name="one", subject=SUBJECT, schema=Schema.of(engine))
    membership = collect(engine, [query], SUBJECT)
    assert verify(engine, [query], membership)[0].dropped == 0
    counted = count_table(engine, [query], SUBJECT)
    keys = members_of(engine, counted, signature_ids=range(len(membership.signatures)))
    engine.close()
    signature = {int(one): place for place, names in keys.items() for one in names}
    assert all(part.computed.shows and part.statistic is Statistic.SUM for part in membership.partitions)
    with duckdb.connect() as connection:
        for seed in range(2, 5):
            _create(connection, seed)
            answer = sorted((town, round(float(y), 9)) for town, _, y in connection.execute(sql).fetchall())
            own = rows(seed)
            values, places = np.array([row[3] for row in own]), [signature[row[0]] for row in own]
            counts: dict[str, list[float]] = {}
            for p, part in enumerate(membership.partitions):
                cells = membership.positions(p)[places]
                for cell in range(int(membership.starts[p]), int(membership.starts[p + 1])):
                    town = membership.cells[cell].key[0]
                    counts.setdefault(town, []).append(float(aggregated(part, values)[cells == cell].sum()))
            made = []
            for town, numbers in counts.items():
                if "OVER" not in share:
                    made += [(town, number / ROWS) for number in numbers]
                elif "ORDER" in share:
                    upwards = numbers if "FLOOR" in key else numbers[::-1]  # FALSE comes before TRUE
                    made += [(town, sum(upwards[: n + 1]) / sum(numbers)) for n in range(len(numbers))]
                else:
                    made += [(town, 100 * number / sum(numbers)) for number in numbers]
            made = [(town, round(y, 9)) for town, y in made]
            # A value that nobody has, such as the bound itself, has no line.
            assert set(answer) <= set(made)
            assert len(answer) == len({(t, k) for t, k, _ in connection.execute(sql).fetchall()})


def test_codes_of_categories_are_categories(tmp_path: Path) -> None:
    """The same table with codes and with texts: the same numbers."""
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE data AS SELECT i AS id, i % 4 AS town, (i * 7) % 3 + 1 AS code, "
            "CAST((i * 7) % 3 + 1 AS VARCHAR) AS named FROM range(80) AS r(i)"
        )
    found = []
    for secret, categories, constants in (
        ("code", [1, 2, 3], "1, 2"),
        ("named", ["1", "2", "3"], "'1', '2'"),
    ):
        first = constants.split(",", maxsplit=1)[0]
        texts = [
            f"SELECT town, {secret}, COUNT(*) FROM data GROUP BY town, {secret}",
            f"SELECT COUNT(*) FROM data WHERE {secret} IN ({constants})",
            f"SELECT COUNT(*) FROM data WHERE {secret} = {first}",
        ]
        result = sl.audit(
            {
                "data": {
                    "source": str(tmp_path / "t.duckdb"),
                    "record": "id",
                    "secret": secret,
                    "categories": categories,
                },
                "privacy": {"epsilon": 1.0, "delta": 1e-6},
                "limits": {"remaining_uncertainty": "10%", "accept": ["groups"]},
                "release": [{"name": f"r{i}", "sql": text} for i, text in enumerate(texts)],
            },
            full=True,
        )
        found.append((result.least_remaining_uncertainty, result.rank, len(result.questions), result.clipped))
    assert found[0] == found[1]
    assert found[0][3] == 0


def test_a_table_of_python_s_may_be_called_df() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows(1), columns=["id", "town", "age", "x"])
    plans = [
        {
            "data": {"source": frame, "record": "id", "secret": "x", "bounds": [0, 10]},
            "privacy": {"epsilon": 1.0, "delta": 1e-6},
            "release": [{"name": "one", "sql": f"SELECT town, AVG(x) FROM {name} GROUP BY town"}],
        }
        for name in ("df", "data")
    ]
    ours, plain = map(sl.audit, plans)
    assert ours.least_remaining_uncertainty == plain.least_remaining_uncertainty


@pytest.mark.parametrize(
    "item", ["COUNT(*) * (SELECT SUM(x) FROM data)", "SUM(age) - (SELECT SUM(x) FROM data)"]
)
def test_a_number_of_another_select_is_computed_with_after_its_noise(folder: Path, item: str) -> None:
    """A stated deviation is that of the sum, and the published number may be 60 times the sum."""
    stated = plan(folder, f"SELECT {item} FROM data", data={"public": ["age"]})
    del stated["privacy"]
    stated["release"][0]["noise"] = {"stddev": 500.0}
    result = sl.audit(stated)
    assert [one.name for one in result.unverified] == ["noise_first"]
