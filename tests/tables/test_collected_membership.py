"""Laws of what is collected, on tables small enough to check by hand or by a naive twin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.errors import InvalidPlan
from sightline.progress import reporting
from sightline.tables import collect as collecting
from sightline.tables import occurring as audited
from sightline.tables.cells import CellNumbers, CellSizes, Layout, SignatureCells
from sightline.tables.collect import collect, count_table
from sightline.tables.encoding import CodedKey, encode
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import Feature, Membership
from sightline.tables.records import members_of, person_of, row_values, signature_totals
from sightline.tables.rows import audited_rows
from sightline.tables.sql.reader import read_release
from sightline.tables.subject import Schema, SecretKind, Subject
from tests.tables.table_cases import cells_of, text_of

Make = Callable[..., Engine]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """An engine over the answer to a query."""
    opened: list[Engine] = []

    def engine(query: str, **tables: str) -> Engine:
        with duckdb.connect() as connection:
            for name, text in {"data": query, **tables}.items():
                connection.execute(f"COPY ({text}) TO '{tmp_path / name}.parquet' (FORMAT parquet)")
        declared = {name: f"{name}.parquet" for name in tables}
        opened.append(open_source("data.parquet", base=tmp_path, tables=declared))
        return opened[-1]

    yield engine
    for one in opened:
        one.close()


def asked(
    engine: Engine,
    *sql: str,
    secret: str = "s",
    kind: SecretKind = SecretKind.NUMBER,
    tables: Sequence[str] = (),
    **declared: object,
) -> Membership:
    subject = Subject(record="r", secret=secret, kind=kind, **declared)
    schema = Schema.of(engine, tables)
    queries = [
        read_release(text, name=f"q{position}", subject=subject, schema=schema)
        for position, text in enumerate(sql)
    ]
    return collect(engine, queries, subject)


class TestASmallTable:
    ROWS = (
        "SELECT * FROM (VALUES ('a', 'x', 1.0), ('b', 'x', 2.0), ('c', 'y', 3.0), ('d', NULL, 4.0)) "
        "AS t(r, g, s)"
    )

    @pytest.mark.slow
    def test_groups_of_one_and_the_null_group_are_cells(self, make: Make) -> None:
        found = asked(make(self.ROWS), "SELECT g, AVG(s) FROM data GROUP BY g")
        assert [(cell.key, cell.rows) for cell in found.cells] == [(("NULL",), 1), (("x",), 2), (("y",), 1)]
        assert found.signatures.tolist() == [[0], [1], [2]]

    @pytest.mark.slow
    def test_a_release_that_no_row_meets_has_no_cell(self, make: Make) -> None:
        found = asked(make(self.ROWS), "SELECT AVG(s) FROM data WHERE g = 'z'", "SELECT SUM(s) FROM data")
        assert [cell.partition for cell in found.cells] == [1]
        assert found.signatures.tolist() == [[-1, 0]]
        assert found.starts.tolist() == [0, 0, 1]
        assert [found.positions(p).tolist() for p in (0, 1)] == [[-1], [0]]

    def test_public_releases_alone_leave_one_signature(self, make: Make) -> None:
        found = asked(make(self.ROWS), "SELECT COUNT(*) FROM data")
        assert found.partitions == ()
        assert found.signatures.shape == (1, 0)
        assert found.counts.tolist() == [4]

    def test_the_same_release_twice_has_cells_of_its_own(self, make: Make) -> None:
        found = asked(make(self.ROWS), *["SELECT g, AVG(s) FROM data GROUP BY g"] * 2)
        assert found.signatures.tolist() == [[0, 0], [1, 1], [2, 2]]
        assert [found.positions(p).tolist() for p in (0, 1)] == [[0, 1, 2], [3, 4, 5]]
        assert [partition.name for partition in found.partitions] == ["q0", "q1"]

    def test_two_aggregates_are_two_partitions_with_names_of_their_own(self, make: Make) -> None:
        found = asked(make(self.ROWS), "SELECT AVG(s), SUM(s) FROM data")
        assert [partition.name for partition in found.partitions] == ["q0: AVG(s)", "q0: SUM(s)"]

    def test_progress_is_told(self, make: Make) -> None:
        steps: list[str] = []
        with reporting(lambda stage, share: steps.append(stage)):
            asked(make(self.ROWS), "SELECT AVG(s) FROM data")
        assert "listing signatures" in steps


class TestSecretsOfOtherKinds:
    ROWS = (
        "SELECT * FROM (VALUES ('a', TRUE, 'x', 1), ('b', FALSE, 'y', 0), ('c', NULL, NULL, 7), "
        "('d', TRUE, 'x', NULL)) AS t(r, ill, kind, flag)"
    )

    @pytest.mark.slow
    def test_a_histogram_has_a_partition_per_category_in_the_data(self, make: Make) -> None:
        found = asked(
            make(self.ROWS),
            "SELECT kind, COUNT(*) FROM data GROUP BY kind",
            secret="kind",
            kind=SecretKind.CATEGORY,
        )
        assert [(one.feature, one.parameter, one.name) for one in found.partitions] == [
            (Feature.INDICATOR, "x", "q0: COUNT(*) = x"),
            (Feature.INDICATOR, "y", "q0: COUNT(*) = y"),
        ]
        assert [cell.rows for cell in found.cells] == [
            3,
            3,
        ]  # every row is in each category's cell, with a 0 or a 1

    @pytest.mark.slow
    def test_or_per_declared_category_and_others_are_counted(self, make: Make) -> None:
        found = asked(
            make(self.ROWS),
            "SELECT kind, COUNT(*) FROM data GROUP BY kind",
            secret="kind",
            kind=SecretKind.CATEGORY,
            categories=("y", "o'z"),
        )
        assert [one.parameter for one in found.partitions] == ["y", "o'z"]
        assert found.clipped == 2
        undeclared = asked(
            make(self.ROWS), "SELECT COUNT(*) FROM data", secret="kind", kind=SecretKind.CATEGORY
        )
        assert undeclared.clipped == 0

    def test_totals_count_each_declared_category_of_rows_that_the_attacker_does_not_know(
        self, make: Make
    ) -> None:
        engine = make(self.ROWS)
        subject = Subject(record="r", secret="kind", kind=SecretKind.CATEGORY, categories=("x", "y"))
        sql = "SELECT kind, COUNT(*) FROM data GROUP BY kind"
        query = read_release(sql, name="q", subject=subject, schema=Schema.of(engine))
        assert signature_totals(engine, count_table(engine, [query], subject)).tolist() == [[2, 1]]
        known = replace(subject, known=("r = 'a'",))
        assert signature_totals(engine, count_table(engine, [query], known)).tolist() == [[1, 1]]

    def test_a_category_that_is_not_declared_is_refused(self, make: Make) -> None:
        with pytest.raises(InvalidPlan, match="a category that the plan declares, got 'z'"):
            asked(
                make(self.ROWS),
                "SELECT COUNT(*) FROM data WHERE kind = 'z'",
                secret="kind",
                kind=SecretKind.CATEGORY,
                categories=("x", "y"),
            )

    def test_too_many_categories_are_refused(self, make: Make) -> None:
        with pytest.raises(InvalidPlan, match="at most 1,000 categories"):
            asked(
                make("SELECT i AS r, 'c' || i AS s FROM range(1001) AS t(i)"),
                "SELECT s, COUNT(*) FROM data GROUP BY s",
                kind=SecretKind.CATEGORY,
            )

    @pytest.mark.slow
    def test_a_boolean_histogram_is_the_secret_and_its_complement(self, make: Make) -> None:
        engine = make(self.ROWS)
        found = asked(
            engine, "SELECT ill, COUNT(*) FROM data GROUP BY ill", secret="ill", kind=SecretKind.BOOLEAN
        )
        assert [(one.feature, one.above) for one in found.partitions] == [
            (Feature.VALUE, True),
            (Feature.VALUE, False),
        ]
        assert (found.rows, found.dropped) == (3, 1)
        subject = Subject(record="r", secret="ill", kind=SecretKind.BOOLEAN)
        sql = "SELECT AVG(ill::INT) FROM data"
        query = read_release(sql, name="q", subject=subject, schema=Schema.of(engine))
        values = row_values(engine, count_table(engine, [query], subject))
        assert values.secret.tolist() == [0.0, 1.0, 1.0]

    def test_a_number_declared_boolean_is_missing_unless_it_is_0_or_1(self, make: Make) -> None:
        found = asked(make(self.ROWS), "SELECT AVG(flag) FROM data", secret="flag", kind=SecretKind.BOOLEAN)
        assert (found.rows, found.dropped) == (2, 2)

    def test_a_text_has_no_row_values(self, make: Make) -> None:
        with pytest.raises(InvalidPlan, match="no values are needed"):
            row_values(
                make(self.ROWS),
                count_table(
                    make(self.ROWS), [], Subject(record="r", secret="kind", kind=SecretKind.CATEGORY)
                ),
            )


class TestRefusedData:
    def test_an_empty_table(self, make: Make) -> None:
        with pytest.raises(InvalidPlan, match="rows in the table, got an empty table"):
            asked(make("SELECT 'a' AS r, 1.0 AS s WHERE FALSE"), "SELECT AVG(s) FROM data")

    def test_no_secret_at_all(self, make: Make) -> None:
        with pytest.raises(InvalidPlan, match="none among 3 rows"):
            asked(
                make("SELECT * FROM (VALUES (NULL, 1.0), ('b', NULL), ('c', 'NaN'::DOUBLE)) AS t(r, s)"),
                "SELECT AVG(s) FROM data",
            )

    def test_more_rows_per_record_than_declared(self, make: Make) -> None:
        engine = make("SELECT i % 2 AS r, 1.0 * i AS s FROM range(6) AS t(i)")
        assert asked(engine, "SELECT AVG(s) FROM data", most_rows=3).contributions == 3
        with pytest.raises(InvalidPlan, match=r"at most 2 rows per record.*got 3 rows"):
            asked(engine, "SELECT AVG(s) FROM data", most_rows=2)

    def test_a_group_for_every_row_of_a_large_table(
        self, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sightline.tables.encoding.MOST_KEYS", 100)
        monkeypatch.setattr("sightline.tables.encoding.NARROW", 100)
        with pytest.raises(InvalidPlan, match="at most 100 groups of one key"):
            asked(
                make("SELECT i AS r, 1.0 AS s FROM range(101) AS t(i)"),
                "SELECT r, AVG(s) FROM data GROUP BY r",
            )

    def test_a_refusal_that_is_no_release_s_fault_is_passed_on(
        self, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def failing(*_: object) -> None:
            raise InvalidPlan("expected a server, got silence")

        monkeypatch.setattr(collecting, "_signatures", failing)
        with pytest.raises(InvalidPlan, match=r"^expected a server, got silence$"):
            asked(make("SELECT 1 AS r, 1.0 AS s"), "SELECT AVG(s) FROM data")


class TestFindingRecords:
    def test_keys_of_numbers_and_times_are_found_as_they_are_shown(self, make: Make) -> None:
        engine = make("SELECT i AS r, DATE '2016-01-01' + i::INT AS day, 1.0 AS s FROM range(3) AS t(i)")
        for record, key in (("r", "2"), ("r", "2.0"), ("day", "2016-01-03")):
            subject = Subject(record=record, secret="s", kind=SecretKind.NUMBER)
            sql = "SELECT AVG(s) FROM data WHERE r >= 2"
            query = read_release(sql, name="q", subject=subject, schema=Schema.of(engine))
            assert person_of(engine, count_table(engine, [query], subject), record_key=key) == (
                (1, False, 1),
            )
            assert members_of(engine, count_table(engine, [query], subject), signature_ids=[1])[1] == (
                key.removesuffix(".0"),
            )
            assert members_of(engine, count_table(engine, [query], subject), signature_ids=[]) == {}

    def test_rows_that_the_attacker_knows_are_left_out(self, make: Make) -> None:
        engine = make("SELECT i AS r, 1.0 AS s FROM range(4) AS t(i)")
        subject = Subject(record="r", secret="s", kind=SecretKind.NUMBER)
        query = read_release("SELECT AVG(s) FROM data", name="q", subject=subject, schema=Schema.of(engine))
        subject = replace(subject, known=("r = 1", "r > 2"))
        assert members_of(engine, count_table(engine, [query], subject), signature_ids=[0]) == {0: ("0", "2")}
        assert person_of(engine, count_table(engine, [query], subject), record_key="2") == ((0, False, 1),)
        assert person_of(engine, count_table(engine, [query], subject), record_key="3") == ((0, True, 1),)
        assert person_of(engine, count_table(engine, [query], subject), record_key="4") == ()

    def test_a_key_that_is_no_number_is_refused(self, make: Make) -> None:
        engine = make("SELECT 1 AS r, 1.0 AS s")
        for key in ("A7", "nan"):
            with pytest.raises(InvalidPlan, match="a number as the record's key, got something else"):
                person_of(
                    engine,
                    count_table(engine, [], Subject(record="r", secret="s", kind=SecretKind.NUMBER)),
                    record_key=key,
                )


class TestPackedWords:
    def test_more_cells_than_one_word_holds_take_several(self, make: Make) -> None:
        names = [f"g{number}" for number in range(12)]
        listed = ", ".join(f"(i * {7 + number}) % 101 AS {name}" for number, name in enumerate(names))
        engine = make(f"SELECT i AS r, 1.0 AS s, {listed} FROM range(300) AS t(i)")
        sql = [f"SELECT {name}, AVG(s) FROM data GROUP BY {name}" for name in names]
        together = f"SELECT AVG(s) FROM data GROUP BY {', '.join(names)}"
        found = asked(engine, *sql, together)
        rows = [tuple((i * (7 + number)) % 101 for number in range(12)) for i in range(300)]
        listed = {
            tuple(int(key[0]) for key in signature[:12] if key): count
            for signature, count in cells_of(found).items()
        }
        assert Counter(listed) == Counter(rows)
        # 101^12 combinations do not fit an integer; the cells are those that occur, sorted by their keys.
        last = [tuple(map(int, cell.key)) for cell in found.cells if cell.partition == 12]
        assert last == sorted(set(rows))

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["TINYINT", "BIGINT", "UTINYINT", "HUGEINT", "DOUBLE", "DECIMAL(9, 2)"])
    def test_whole_numbers_that_number_themselves_are_the_same_cells(
        self, make: Make, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        low = 0 if kind.startswith("U") else -128
        engine = make(
            f"SELECT i AS r, 1.0 AS s, CAST(CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN {low} WHEN 2 THEN 127 "
            f"ELSE i % 90 END AS {kind}) AS g, i % 3 AS h FROM range(200) AS t(i)"
        )
        sql = [
            "SELECT g, AVG(s) FROM data GROUP BY g",
            "SELECT g, h, SUM(s) FROM data WHERE g > 5 GROUP BY g, h",
            "SELECT h, AVG(s) FROM data WHERE h <> 1 GROUP BY h",
        ]
        found = asked(engine, *sql)
        monkeypatch.setattr("sightline.tables.encoding.NARROW", 0)
        looked_up = asked(engine, *sql)
        assert found.cells == looked_up.cells
        assert cells_of(found) == cells_of(looked_up)

    @pytest.mark.parametrize("kind", ["UBIGINT"])  # a Parquet file has no wider ones
    def test_keys_beyond_64_bits_with_a_sign_are_looked_up(self, make: Make, kind: str) -> None:
        large = 2**63 + 5
        engine = make(f"SELECT i AS r, 1.0 AS s, CAST({large} + i % 2 AS {kind}) AS g FROM range(4) AS t(i)")
        found = asked(engine, "SELECT g, AVG(s) FROM data GROUP BY g")
        assert [(cell.key, cell.rows) for cell in found.cells] == [((str(large),), 2), ((str(large + 1),), 2)]

    def test_a_signature_s_number_is_its_place_in_the_order_of_the_words(self, make: Make) -> None:
        engine = make("SELECT i AS r, i % 3 AS g, i % 5 AS h, 1.0 AS s FROM range(30) AS t(i)")
        subject = Subject(record="r", secret="s", kind=SecretKind.NUMBER)
        queries = [
            read_release(
                f"SELECT AVG(s) FROM data GROUP BY {key}",
                name=key,
                subject=subject,
                schema=Schema.of(engine),
            )
            for key in ("g", "h")
        ]
        rows = audited_rows(queries, subject, engine.columns())
        encoding = encode(engine, [piece for query in queries for piece in query.partitions], rows=rows)
        assert [coded.texts for coded in encoding.coded_keys] == [
            ("NULL", "0", "1", "2"),
            ("NULL", "0", "1", "2", "3", "4"),
        ]
        assert [(coded.word, coded.shift, coded.width) for coded in encoding.coded_keys] == [
            (0, 0, 2),
            (0, 2, 3),
        ]

    @pytest.mark.parametrize("keys", [2, 4])  # numbers of 64 bits hold the codes of three
    def test_a_condition_keeps_its_rows_apart_where_codes_are_many(self, keys: int) -> None:
        texts = tuple(map(str, range(400_000)))
        coded = [CodedKey(condition="c", key=f"k{word}", texts=texts, word=word) for word in range(keys)]
        words = np.array([[0, 7, 5], [0, 1, 9], [0, 1, 399_999], [0, 400_000, 2]])[:keys]
        layout = Layout.of([one.place for one in coded], conditional=True, rows=60)
        sizes = CellSizes(layouts=(layout,))
        numbers, rows = sizes.occurring(sizes.sizes(words, np.array([10, 20, 30])), 0)
        assert layout.codes(numbers).tolist() == words.T[[2, 1]].tolist()
        assert rows.tolist() == [30, 20]
        cells = SignatureCells(layouts=(CellNumbers(layout=layout, occurring=numbers),), layout_of=(0,))
        assert cells.table(words).tolist() == [[-1, 1, 0]]


columns = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", None]),
        st.sampled_from(["x", "Ö", "", None]),
        st.sampled_from([0, 1, -3, None]),
        st.sampled_from([1.0, -2.5, None, float("nan")]),
    ),
    min_size=1,
    max_size=12,
)
groupings = st.lists(
    st.tuples(st.sets(st.sampled_from("gh")), st.sampled_from([None, "h > 0", "g <> 'x'"])),
    min_size=1,
    max_size=4,
)
CONDITIONS = {
    None: lambda row: True,
    "h > 0": lambda row: row[2] is not None and row[2] > 0,
    "g <> 'x'": lambda row: row[1] is not None and row[1] != "x",
}


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(columns, groupings)
def test_any_table_and_any_releases_give_the_signatures_of_a_naive_twin(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str | None, str | None, int | None, float | None]],
    releases: list[tuple[set[str], str | None]],
) -> None:
    folder = tmp_path_factory.mktemp("twin")
    connection = duckdb.connect(str(folder / "t.duckdb"))
    connection.execute("CREATE TABLE t (r VARCHAR, g VARCHAR, h INTEGER, s DOUBLE)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [list(row) for row in rows])
    connection.close()
    kept = [row for row in rows if row[0] is not None and row[3] is not None and not np.isnan(row[3])]
    sql = [
        f"SELECT AVG(s) FROM data{f' WHERE {where}' if where else ''}"
        + (f" GROUP BY {', '.join(sorted(keys))}" if keys else "")
        for keys, where in releases
    ]
    engine = open_source("t.duckdb", base=folder)
    try:
        if not kept:
            with pytest.raises(InvalidPlan, match="none among"):
                asked(engine, *sql)
            return
        found = asked(engine, *sql)
    finally:
        engine.close()
    expected = Counter(
        tuple(
            tuple(text_of(row["rghs".index(key)]) for key in sorted(keys)) if CONDITIONS[where](row) else None
            for keys, where in releases
        )
        for row in kept
    )
    assert cells_of(found) == expected
    for index, cell in enumerate(found.cells):
        assert cell.rows == found.counts[found.positions(cell.partition) == index].sum()
    assert found.records == len({row[0] for row in kept})


@pytest.mark.parametrize(
    "secret",
    [
        "i",  # all different
        "i % 7",
        "CASE WHEN i % 100 < 91 THEN i % 20 ELSE i END",  # twenty values in more than nine tenths of the rows
        "CASE WHEN i % 100 < 85 THEN i % 20 ELSE i END",
        "CASE WHEN i < 30 THEN i ELSE 5 END",  # the first rows are unlike the others
    ],
)
def test_a_look_at_some_rows_finds_as_many_values(
    secret: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = f"SELECT 'r' || i AS r, CAST({secret} AS DOUBLE) AS s FROM range(300) AS t(i)"
    few = []
    for look in (audited._has_many, lambda *_, present: False):
        monkeypatch.setattr(audited, "_has_many", look)
        few.append(asked(make(rows), "SELECT SUM(s) FROM data", bounds=(0.0, 300.0)).occurring.few)
    assert few[0] == few[1]
