"""Hunt with random text for a query that the reader neither answers nor refuses with ``InvalidPlan``."""

from __future__ import annotations

import random
import time

from tests.tables.test_release_reader import SECRETS
from tests.tables.test_sql_fuzz import PIECES, VALID, answers_or_refuses


def fuzz(seed: int, seconds: float) -> dict[str, int]:
    """Read changed queries and random pieces until the seconds are over; raise at the first failure."""
    chance = random.Random(seed)
    until = time.monotonic() + seconds
    queries = 0
    while time.monotonic() < until:
        secret, sql = chance.choice(VALID)
        for _ in range(chance.randint(1, 6)):
            start = chance.randint(0, len(sql))
            sql = sql[:start] + chance.choice(["", *PIECES]) + sql[start + chance.randint(0, 8) :]
        pieces = " ".join(chance.choices(PIECES, k=chance.randint(1, 25)))
        answers_or_refuses(sql, secret)
        answers_or_refuses(f"SELECT region, AVG(load) FROM data WHERE {pieces}")
        answers_or_refuses(f"SELECT {pieces} FROM data GROUP BY region", chance.choice(list(SECRETS)))
        queries += 3
    return {"queries": queries}
