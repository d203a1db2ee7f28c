"""Sources that change during an audit, reach outside or are named twice: noticed, locked, refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.tables.collect import collect_counted
from sightline.tables.engines.duckdb_engine import DuckDBEngine
from sightline.tables.engines.local_tables import private_folder, remove_folder
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import Engine


class TestPublicTables:
    def test_the_data_file_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("who,x\na,1\n")
        os.link(tmp_path / "t.csv", tmp_path / "same.csv")
        (tmp_path / "link.csv").symlink_to("t.csv")
        for other in ("t.csv", "./t.csv", "same.csv", "link.csv"):
            with pytest.raises(InvalidPlan, match="the data source itself"):
                open_source("t.csv", base=tmp_path, tables={"others": other})

    def test_nor_is_a_table_with_the_secret(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("who,x\na,1\n")
        (tmp_path / "copy.csv").write_text("who,X\na,1\n")
        plan = {
            "data": {
                "source": str(tmp_path / "t.csv"),
                "record": "who",
                "secret": "x",
                "bounds": [0, 1],
                "tables": {"others": str(tmp_path / "copy.csv")},
            },
            "release": [{"name": "a", "sql": "SELECT AVG(x) FROM data", "noise_stddev": 1.0}],
        }
        with pytest.raises(InvalidPlan, match=r'expected public tables, got "others" with a column "X"'):
            sl.audit(plan)

    def test_on_postgres_and_spark(self, postgres_url: str, spark_engine: Any, spark_session: Any) -> None:
        with pytest.raises(InvalidPlan, match="the data source itself"):
            open_source(f"{postgres_url}?table=homes", base=Path(), tables={"others": "public.homes"})
        with pytest.raises(InvalidPlan, match="the data source itself"):
            open_source(spark_session, base=Path(), table="homes", tables={"others": "Homes"})


class TestASourceThatChanges:
    @pytest.mark.parametrize("suffix", ["parquet", "csv"])
    def test_a_file_that_is_replaced_is_noticed(self, suffix: str, tmp_path: Path) -> None:
        path = tmp_path / f"t.{suffix}"
        duckdb.execute(f"COPY (SELECT 1 AS who, 2.0 AS x) TO '{path}'")
        engine = open_source(path.name, base=tmp_path)
        engine.check_unchanged()
        other = tmp_path / f"u.{suffix}"
        duckdb.execute(f"COPY (SELECT 1 AS who, 3.0 AS x) TO '{other}'")
        os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        other.replace(path)
        with pytest.raises(InvalidPlan, match="a file that was changed or replaced"):
            engine.check_unchanged()
        engine.close()

    @pytest.mark.slow
    def test_an_audit_of_it_fails(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "t.csv"
        path.write_text("who,x\na,1\nb,2\n")

        def touched(*arguments: Any, **options: Any) -> Any:
            path.write_text("who,x\na,1\nb,3\n")
            return collect_counted(*arguments, **options)

        monkeypatch.setattr("sightline.auditing.session.collect_counted", touched)
        plan = {
            "data": {"source": str(path), "record": "who", "secret": "x", "bounds": [0, 9]},
            "release": [{"name": "a", "sql": "SELECT AVG(x) FROM data", "noise_stddev": 1.0}],
        }
        with pytest.raises(InvalidPlan, match=r"t\.csv to stay as it is"):
            sl.audit(plan)

    def test_postgres_has_one_transaction(self, postgres_url: str) -> None:
        import psycopg

        engine = open_source(f"{postgres_url}?table=areas", base=Path())
        before = engine.fetch("SELECT COUNT(*) AS n FROM data")["n"].tolist()
        with psycopg.connect(postgres_url) as other:
            other.execute("INSERT INTO areas VALUES (9, 'late')")
        try:
            assert engine.fetch("SELECT COUNT(*) AS n FROM data")["n"].tolist() == before
            engine.check_unchanged()
            with pytest.raises(InvalidPlan):
                engine.fetch("SELECT nothing FROM data")
            with pytest.raises(InvalidPlan, match="one that a failed query ended"):
                engine.check_unchanged()
        finally:
            engine.close()
            with psycopg.connect(postgres_url) as other:
                other.execute("DELETE FROM areas WHERE region = 9")

    def test_spark_compares_every_row(self, spark_session: Any, tmp_path: Path) -> None:
        place = str(tmp_path / "t")
        spark_session.sql("SELECT 1 AS who, 2.0 AS x").write.parquet(place)
        spark_session.read.parquet(place).createOrReplaceTempView("changing")
        engine = open_source(spark_session, base=Path(), table="changing")
        engine.check_unchanged()
        spark_session.sql("SELECT 1 AS who, 3.0 AS x").write.mode("overwrite").parquet(place)
        with pytest.raises(InvalidPlan):
            engine.check_unchanged()
        engine.close()


class TestLocks:
    def test_a_folder_s_name_is_no_column(self, tmp_path: Path) -> None:
        inner = tmp_path / "feeder=all"
        inner.mkdir()
        for suffix in ("parquet", "csv"):
            duckdb.execute(f"COPY (SELECT 'A' AS home, 'north' AS feeder) TO '{inner / f't.{suffix}'}'")
            engine = open_source(f"t.{suffix}", base=inner)
            assert engine.fetch("SELECT feeder FROM data")["feeder"].tolist() == ["north"]
            assert [column.name for column in engine.columns()] == ["home", "feeder"]
            engine.close()

    def test_nothing_is_loaded_or_reached(self, duckdb_engine: Engine) -> None:
        engine = duckdb_engine
        asked = ("autoload_known_extensions", "autoinstall_known_extensions", "enable_external_access")
        for name in asked:
            found = engine.fetch(f"SELECT CAST(current_setting('{name}') AS VARCHAR) AS v")["v"].tolist()
            assert found == ["false"], name

    def test_everything_is_locked_before_a_file_is_opened(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "t.csv").write_text("who,x\na,1\n")

        def locked(self: Any, name: str, *_: object) -> None:
            with pytest.raises(duckdb.Error, match="locked"):
                self._connection.execute("SET enable_external_access = true")
            self._connection.execute(f"CREATE TABLE {name} AS SELECT 1 AS x")

        monkeypatch.setattr(DuckDBEngine, "_register", locked)
        open_source("t.csv", base=tmp_path).close()

    def test_spilled_rows_are_private_and_gone(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("who,x\na,1\n")
        engine: Any = open_source("t.csv", base=tmp_path)
        folder = engine._spill
        assert folder.stat().st_mode & 0o777 == 0o700
        engine.close()
        assert not folder.exists()

    def test_also_after_a_kill(self) -> None:
        code = (
            "import os\nfrom sightline.tables.engines.local_tables import private_folder\n"
            "print(private_folder(), flush=True)\nos.kill(os.getpid(), 9)\n"
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        left = Path(ended.stdout.strip())
        assert left.is_dir()
        remove_folder(private_folder())
        assert not left.exists()

    def test_postgres_has_time_limits(self, postgres_engine: Any) -> None:
        with postgres_engine._connection.cursor() as cursor:
            assert cursor.execute("SHOW lock_timeout").fetchone() == ("10s",)
            assert cursor.execute("SHOW statement_timeout").fetchone() == ("30min",)

    def test_a_lost_connection_is_one_line(self, postgres_url: str) -> None:
        import psycopg

        engine: Any = open_source(f"{postgres_url}?table=homes", base=Path())
        own = engine._connection.info.backend_pid
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [own])
        for _ in range(2):
            with pytest.raises(InvalidPlan, match="a connection that was lost") as caught:
                engine.fetch("SELECT COUNT(*) AS n FROM data")
            assert "\n" not in str(caught.value)
        engine.close()


def test_a_file_without_header_is_quoted_nowhere(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Ann,north,ill\nBob,south,well\n")
    plan = {
        "data": {
            "source": str(tmp_path / "t.csv"),
            "record": "who",
            "secret": "state",
            "categories": ["ill", "well"],
        },
        "release": [
            {"name": "a", "sql": "SELECT state, COUNT(*) FROM data GROUP BY state", "noise_stddev": 1.0}
        ],
    }
    with pytest.raises(InvalidPlan, match="a CSV has a header line") as caught:
        sl.audit(plan)
    assert not any(cell in str(caught.value) for cell in ("Ann", "north"))
