"""Hunt with random sums of the secret and of public numbers for one that tells more than its audited sums."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np

from sightline.errors import InvalidPlan
from tests.tables.test_row_terms import SUBJECTS, cell_sums, created, on_file, read, rows

_TABLES = range(2, 40)  # seeds of tables with other secrets
_CONDITIONS = {
    "x": ["x > 3", "x <= 20", "x BETWEEN 0 AND 20", "NOT x > 3", "x = 3", "ROUND(x / 10) = 2"],
    "k": ["k = 0", "k > 4", "k IN (1, 2, 7)", "k % 2 = 0", "k < 9"],
    "ill": ["ill", "NOT ill", "ill = TRUE"],
    "code": ["code = 'C50'", "code LIKE 'C%'", "code <> 'I10'", "LEFT(code, 1) IN ('C', 'E')"],
}
_PUBLIC = ["age > 40", "sex = 'f'", "w = 2", "sex IS NULL", "age BETWEEN 25 AND 35"]


class RandomItems:
    """Draws an aggregate of one secret."""

    def __init__(self, draw: random.Random, secret: str) -> None:
        self.draw, self.secret = draw, secret

    def condition(self, depth: int = 2) -> str:
        if depth == 0 or self.draw.random() < 0.4:
            return self.draw.choice([*_CONDITIONS[self.secret], *_PUBLIC])
        one, other = self.condition(depth - 1), self.condition(depth - 1)
        return self.draw.choice([f"({one} AND {other})", f"({one} OR {other})", f"NOT ({one})", one])

    def number(self, depth: int = 3) -> str:
        plain = ["1", "2", "w", "age", "0", "5"] + [self.secret] * 3 * (self.secret in "xk")
        if depth == 0 or self.draw.random() < 0.25:
            return self.draw.choice(plain)
        one, other = self.number(depth - 1), self.number(depth - 1)
        cases = [
            f"({one} + {other})", f"({one} - {other})",
            f"({one}) * {self.draw.choice(['2', 'w', 'age', one])}",
            f"-({one})", f"({one}) / {self.draw.choice(['4', 'w'])}",
            f"CASE WHEN {self.condition()} THEN {one} ELSE {other} END",
            f"CASE WHEN {self.condition()} THEN {one} WHEN {self.condition()} THEN {other} ELSE 0 END",
            f"CASE WHEN {self.draw.choice(_PUBLIC)} THEN {one} END",
            f"({self.condition(1)})::INT",
        ]  # fmt: skip
        if self.secret in "xk":
            cases += [
                f"LEAST({self.secret}, 5)",
                f"GREATEST(LEAST({self.secret}, 7), 2)",
                f"POWER({self.secret}, 2)",
            ]
        return self.draw.choice(cases)

    def item(self) -> str:
        filtered = f" FILTER (WHERE {self.condition()})" if self.draw.random() < 0.3 else ""
        return self.draw.choice(
            [
                f"SUM({self.number()}){filtered}",
                f"SUM({self.number()}){filtered}",
                f"AVG({self.number()}){filtered}",
                f"COUNT(*) FILTER (WHERE {self.condition(3)})",
                f"COUNT(CASE WHEN {self.condition(3)} THEN 1 END){filtered}",
            ]
        )


def hunt(seed: int, *, seconds: float = float("inf"), number: float = float("inf")) -> dict[str, int]:
    """Compare items until the seconds or the number are over; raise at the first difference."""
    draw, until, found = (
        random.Random(seed),
        time.monotonic() + seconds,
        {"read": 0, "refused": 0, "rewritten": 0},
    )
    with tempfile.TemporaryDirectory() as name, duckdb.connect() as connection:
        engines = {secret: on_file(Path(name), secret) for secret in SUBJECTS}
        for secret in SUBJECTS:
            for other in _TABLES:
                for statement in created(secret, other, f"{secret}{other}"):
                    connection.execute(statement)
        while time.monotonic() < until and found["read"] + found["refused"] < number:
            secret = draw.choice(list(SUBJECTS))
            item = RandomItems(draw, secret).item()
            sql = f"SELECT 'all' AS town, {item} FROM data"
            try:
                membership, signature = read(engines[secret], SUBJECTS[secret], f"SELECT {item} FROM data")
            except InvalidPlan:
                found["refused"] += 1
                continue
            found["read"] += 1
            found["rewritten"] += any(part.computed.steps for part in membership.partitions)
            sums = len(membership.partitions)
            answers, cells = [], []
            for other in list(_TABLES)[: sums + 5]:
                answer = connection.execute(sql.replace("FROM data", f"FROM {secret}{other}")).fetchall()
                own = cell_sums(membership, signature, rows(secret, other)) if sums else {}
                answers.append(float(answer[0][1] or 0))
                cells.append([1.0, *own.get("", [])])
            known, shown = np.array(cells), np.array(answers)
            left = shown - known @ np.linalg.lstsq(known, shown, rcond=None)[0]
            assert float(np.abs(left).max()) <= 1e-7 * (1 + np.abs(shown).max()), (secret, item)
    for engine in engines.values():
        engine.close()
    return found


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Hunt for some seconds."""
    return hunt(seed, seconds=seconds)
