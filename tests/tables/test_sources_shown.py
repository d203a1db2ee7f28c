"""Passwords, tokens and settings of an address are never shown, and no source ends in a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.errors import InvalidPlan
from sightline.tables.engines.address import public_source
from sightline.tables.engines.open import open_source

LEAKING = [
    "postgresql://ann:hush@db/grid?table=homes",
    "postgres://ann:hush@db/grid",
    "POSTGRESQL://ann:hush@db/grid",
    "  postgresql://ann:hush@db/grid",
    "postgresql://ann:hush@db:5432/grid?table=homes&sslpassword=hush",
    "postgresql://db/grid?user=ann&password=hush",
    "postgresql://db/grid?table=homes\n&password=hush",
    "postgresql://ann:hu/sh@db/hush",
    "postgresql://ann:hush@hush@db/grid",
    "postgresql://ann:x?hush@db/grid",
    "postgresql://ann:x#hush@db/grid",
    "postgresql://ann:hush@[::1/grid",
    "postgresql://ann:hush@h1:1,h2:2/grid",
    "postgresql+psycopg://ann:hush@db/grid",
    "mysql://ann:hush@db/grid",
    "s3://key:hush@bucket/homes.parquet",
    "https://ann:hush@host/homes.csv?token=hush",
    "https://host/homes.csv?sig=hush",
    "sc://host:15002/;token=hush;use_ssl=true",
    "sc://host;token=hush",
    "SC://host:15002/;token=hush",
    "spark://ann:hush@host:7077?table=homes",
    "host=db user=ann password=hush dbname=grid",
    "dbname=grid password='hush'",
    "ann:hush@db/grid",
    "jdbc:postgresql://db/grid?password=hush",
    "postgresql:/ann:hush@db/grid",
    "postgresql:///grid?password=hush",
]
SHOWN = {
    "postgresql://ann:hush@db:5432/grid?table=homes": "postgresql://db:5432/grid",
    "POSTGRES://db/grid": "postgres://db/grid",
    "postgresql://ann@[2001:db8::1]:5432/grid": "postgresql://[2001:db8::1]:5432/grid",
    "spark://local[2]?table=homes": "spark://local[2]",
    "spark://host:7077?table=homes": "spark://host:7077",
    "sc://host:15002/;token=x": "sc://host:15002",
    "data/homes.parquet": "data/homes.parquet",
    "grid.duckdb::homes": "grid.duckdb::homes",
    "C:\\data\\homes.csv": "C:\\data\\homes.csv",
    "mysql://host/x": "mysql://…",
}


@pytest.mark.parametrize("source", LEAKING)
def test_nothing_secret_is_shown(source: str) -> None:
    assert "hush" not in public_source(source)
    assert "ann" not in public_source(source)


@pytest.mark.parametrize("source", SHOWN)
def test_what_is_shown(source: str) -> None:
    assert public_source(source) == SHOWN[source]


@pytest.mark.parametrize("source", [one for one in LEAKING if not one.lower().startswith(("sc:", "spark:"))])
def test_no_error_shows_it_either(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise psycopg.OperationalError(f"could not connect to {source}")

    psycopg = pytest.importorskip("psycopg")
    monkeypatch.setattr("psycopg.connect", unreachable)
    with pytest.raises(InvalidPlan) as caught:
        open_source(source, base=tmp_path)
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


TRACEBACKS = {
    "postgresql://[::1/grid?table=homes": "one that cannot be read",
    "postgresql://db:99999999/grid?table=homes": "one that cannot be read",
    "postgresql://db:port/grid?table=homes": "one that cannot be read",
    "homes\x00.csv": "a control character",
    "homes\ud800.csv": "a control character",
    "x" * 100_000: "at most 4,096 characters",
    "x" * 3_000 + ".csv": "file name too long",
    "/dev/null": "a data file",
    "": "a data file",
    ".": "a data file",
}


@pytest.mark.parametrize("source", TRACEBACKS, ids=lambda source: repr(source[:30]))
def test_a_source_that_cannot_be_is_one_line(source: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidPlan, match=TRACEBACKS[source]) as caught:
        open_source(source, base=tmp_path)
    assert "\n" not in str(caught.value)


def test_a_file_that_may_not_be_read_is_not_called_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "homes.parquet").write_bytes(b"PAR1")

    def denied(self: Path, *_: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(InvalidPlan, match=r"homes\.parquet: permission denied; check its name and rights"):
        open_source("homes.parquet", base=tmp_path)


CSV_FAULTS = {
    "a,b\r1,2\r3,4\r": "carriage returns alone",
    "A1,400,north\nA7,900,south\n": "a number or nothing in column 2",
    "home,,watts\nA1,x,3\n": "a number or nothing in column 2",
    "home,2016-01-01\nA1,3\n": "a number or nothing in column 2",
    '"home,watts\nA1,3\n': "quotes that do not match",
}


@pytest.mark.parametrize("content", CSV_FAULTS)
def test_a_csv_fault_quotes_no_cell(content: str, tmp_path: Path) -> None:
    (tmp_path / "homes.csv").write_bytes(content.encode())
    with pytest.raises(InvalidPlan, match=CSV_FAULTS[content]) as caught:
        open_source("homes.csv", base=tmp_path)
    assert not any(cell in str(caught.value) for cell in ("A1", "400", "north", "2016"))
