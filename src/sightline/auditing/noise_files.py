"""Noise by number from CSV files beside a plan.

A file has a header. One column is called ``stddev``, one may be called ``label``, and the others are the
values of the group in the order of GROUP BY, under the names of its columns. It is read when the plan is:
from then on the plan holds the numbers themselves.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

from sightline.auditing.plan import Plan, Release
from sightline.auditing.plan_fields import LARGEST, SMALLEST
from sightline.auditing.release_noise import CellNoise, ReleaseNoise, names_of, noise_on, require_once
from sightline.errors import InvalidPlan, require
from sightline.tables.engines.address import checked_source, scheme_of
from sightline.tables.sql.reader import ReleaseQuery

_LARGEST_FILE = 64_000_000  # bytes: about a million numbers
_PLAIN_COLUMN = re.compile(r'"data"\."((?:[^"]|"")*)"')  # a key that is a column as it is


def with_noise_files(plan: Plan, base: Path) -> Plan:
    """The plan with the contents of its noise files; relative paths start from ``base``."""
    if not any(noise.file for release in plan.releases for noise in release.noise):
        return plan
    releases = []
    for release in plan.releases:
        noises = tuple(one if one.file is None else _read(release, one, base) for one in release.noise)
        releases.append(release.model_copy(update={"noise": noises}))
    return plan.model_copy(update={"releases": tuple(releases)})


def _read(release: Release, noise: ReleaseNoise, base: Path) -> ReleaseNoise:
    assert noise.file is not None
    where = f"release {release.name[:60]!r}: noise file {Path(noise.file).name[:60]!r}"
    source = checked_source(noise.file)
    require(
        scheme_of(source) is None,
        f"{where}: a CSV file",
        got="an address",
        fix="download it first",
        error=InvalidPlan,
    )
    try:
        lines = list(csv.reader(io.StringIO(_text(base / source, where)), strict=True))
    except csv.Error as error:
        raise InvalidPlan(f"{where}: expected CSV, got a file that is not: {error}") from None
    header = [name.strip() for name in lines[0]] if lines else []
    require(
        len(set(header)) == len(header) and "stddev" in header and "" not in header,
        f"{where}: a header with names of their own, one of them stddev",
        got=f"{len(header)} columns" + ("" if "stddev" in header else " without stddev"),
        error=InvalidPlan,
    )
    keys = [place for place, name in enumerate(header) if name not in ("stddev", "label")]
    cells = []
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        require(
            len(line) == len(header),
            f"{where}: {len(header)} values in line {number}",
            got=len(line),
            error=InvalidPlan,
        )
        label = line[header.index("label")] if "label" in header else ""
        stddev = _number(line[header.index("stddev")], f"{where}: line {number}")
        cells.append(CellNoise(key=tuple(line[place] for place in keys), label=label, stddev=stddev))
    require(bool(cells), f"{where}: a line for each published number", got="none", error=InvalidPlan)
    require_once(tuple(cells), where)
    names = tuple(header[place] for place in keys)
    return noise.model_copy(update={"file": None, "cells": tuple(cells), "key_columns": names})


def _text(path: Path, where: str) -> str:
    try:
        require(path.is_file(), f"{where}: a file", got="none", error=InvalidPlan)
        size = path.stat().st_size
        require(
            size <= _LARGEST_FILE,
            f"{where}: at most {_LARGEST_FILE:,} bytes",
            got=f"{size:,}",
            error=InvalidPlan,
        )
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidPlan(f"{where}: expected UTF-8, got other bytes") from None
    except OSError as error:
        raise InvalidPlan(f"{where}: expected a file that can be read, got: {error.strerror}") from None


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    require(
        SMALLEST <= value <= LARGEST,
        f"{where}: a stddev between {SMALLEST:g} and {LARGEST:g}",
        got="another text" if value != value else f"{value:g}",
        fix="a number that is published exactly has law = 'none'",
        error=InvalidPlan,
    )
    return value


def check_key_columns(release: Release, query: ReleaseQuery) -> None:
    """Refuse a noise file whose columns are not those of GROUP BY, in its order.

    A key that is an expression may have any name.
    """
    for noise in release.noise:
        for part in query.partitions if noise.key_columns else ():
            if noise_on(release.noise, names_of(part.label, grouped=bool(part.keys))) is not noise:
                continue
            plain = [_PLAIN_COLUMN.fullmatch(key) for key in part.keys]
            named = [None if one is None else one.group(1).replace('""', '"') for one in plain]
            agree = len(named) == len(noise.key_columns) and all(
                name is None or name == given for name, given in zip(named, noise.key_columns, strict=True)
            )
            require(
                agree,
                f"release {release.name[:60]!r}: a noise file with the columns of GROUP BY, in its order: "
                + (", ".join(name or "an expression" for name in named) or "none"),
                got=", ".join(noise.key_columns)[:200],
                error=InvalidPlan,
            )
