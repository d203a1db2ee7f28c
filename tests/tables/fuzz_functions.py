"""Hunt with random functions of the secret for one that is read as something else than it computes."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

import duckdb

from sightline.errors import InvalidPlan
from tests.tables.test_functions_of_the_secret import (
    DIAGNOSES,
    SUBJECTS,
    added_up,
    created,
    on_file,
    published,
    read,
)

_NUMBERS: dict[str, list[float]] = {
    "grade": [0, 0.5, 1, 2, 2.5, 3.5, 5, 6],
    "k": [-3, -1, 0, 1, 2, 7, 10, 33, 40],
}


def condition(secret: str, draw: random.Random, depth: int = 0) -> str:
    """A condition on the secret, up to four levels deep."""
    inner = depth < 3 and draw.random() < 0.5
    if inner:
        parts = [condition(secret, draw, depth + 1) for _ in range(2)]
        match draw.randrange(5):
            case 0:
                return f"({parts[0]} AND {parts[1]})"
            case 1:
                return f"({parts[0]} OR {parts[1]})"
            case 2:
                return f"(NOT {parts[0]})"
            case 3:
                return f"COALESCE({parts[0]}, {parts[1]})"
            case _:
                last = draw.choice(["TRUE", "FALSE", "NULL"])
                return f"(CASE WHEN {parts[0]} THEN {parts[1]} ELSE {last} END)"
    if secret == "diagnosis":
        text = draw.choice(
            ["diagnosis", "LEFT(diagnosis, 1)", "NULLIF(diagnosis, 'C50')", "UPPER(diagnosis)"]
        )
        name = draw.choice([*DIAGNOSES, "C", "I"])
        return draw.choice(
            [
                f"{text} = '{name}'",
                f"{text} <> '{name}'",
                f"{text} LIKE '{name[0]}%'",
                f"{text} NOT LIKE '%{name[-1]}'",
                f"{text} IN ('{name}', 'J45')",
                f"{text} NOT IN ('{name}', 'E11')",
                f"{text} >= '{name}'",
                f"{text} IS NULL",
            ]
        )
    first, second = sorted(draw.choices(_NUMBERS[secret], k=2))
    number = draw.choice(
        [
            secret, secret, f"ROUND({secret})", f"FLOOR({secret} * 3)", f"CEIL({secret} / 2)",
            f"({secret} * 2 - 1)", f"ROUND({secret}, 1)", f"NULLIF({secret}, {first})", f"-{secret}",
            f"ABS({secret})", f"{secret} // 2", f"GREATEST({secret}, {first})",
        ]
    )  # fmt: skip
    sign = draw.choice(["<", "<=", ">", ">=", "=", "<>"])
    return draw.choice(
        [
            f"{number} {sign} {first}",
            f"{number} BETWEEN {first} AND {second}",
            f"{number} NOT BETWEEN {first} AND {second}",
            f"{number} IN ({first}, {second})",
            f"{first} {sign} {number}",
        ]
    )


def release(secret: str, draw: random.Random) -> str:
    """A release that counts rows by a function of the secret."""
    tests = [condition(secret, draw) for _ in range(2)]
    last = draw.choice(["NULL", "'a'"])
    key = f"CASE WHEN {tests[0]} THEN 'a' WHEN {tests[1]} THEN 'b' ELSE {last} END"
    return draw.choice(
        [
            f"SELECT COUNT(*) FROM data WHERE {tests[0]}",
            f"SELECT town, COUNT(*) FILTER (WHERE {tests[0]}) FROM data WHERE {tests[1]} GROUP BY town",
            f"SELECT SUM(CASE WHEN {tests[0]} THEN w ELSE 0 END) FROM data",
            f"SELECT {key} AS key, town, COUNT(*) FROM data GROUP BY key, town",
            f"SELECT {tests[0]} AS key, COUNT(*) FROM data GROUP BY key",
        ]
    )


def hunt(seed: int, *, seconds: float = float("inf"), number: float = float("inf")) -> dict[str, int]:
    """Compare releases until the seconds or the number are over; raise at the first difference."""
    draw, until, found = random.Random(seed), time.monotonic() + seconds, {"read": 0, "refused": 0}
    with tempfile.TemporaryDirectory() as name, duckdb.connect() as connection:
        engines = {}
        for secret in ("diagnosis", "grade", "k"):
            (Path(name) / secret).mkdir()
            engines[secret] = on_file(Path(name) / secret, secret)
            for other in (2, 3, 4):
                for statement in created(secret, other, f"{secret}{other}"):
                    connection.execute(statement)
        while time.monotonic() < until and sum(found.values()) < number:
            secret = draw.choice(list(engines))
            sql = release(secret, draw)
            assert SUBJECTS[secret].secret == secret
            try:
                membership, signature = read(engines[secret], secret, sql)
                found["read"] += 1
            except InvalidPlan:
                found["refused"] += 1
                continue
            for other in (2, 3, 4):
                text = sql.replace("FROM data", f"FROM {secret}{other} AS data")
                answer = published(connection.execute(text).fetchall())
                assert added_up(membership, signature, secret, other) == answer, sql
        for engine in engines.values():
            engine.close()
    return found


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Hunt for some seconds."""
    return hunt(seed, seconds=seconds)
