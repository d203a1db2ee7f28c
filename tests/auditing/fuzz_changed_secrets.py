"""Tables that differ only in secrets: all that may be published of them differs by noise alone.

A plan that passes is published. Then no line, NULL or type of an answer may depend on a secret, since no
noise hides those, and every number that depends on one must be among the numbers with noise. What the audit
calls publishable must be the same text for both tables. The plan accepts all that noise can cover.

``python -m tools.fuzz --entry tests.auditing.fuzz_changed_secrets --seed 1 --seconds 3600 --most 1667`` runs
20,000 cases of it alone, in about half an hour of one core.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import duckdb
import numpy as np
import pytest

import sightline as sl
from sightline.auditing import session
from sightline.auditing.result import VerdictStatus
from sightline.errors import SightlineError
from sightline.tables.engines.duckdb_engine import DuckDBEngine
from sightline.tables.engines.local_tables import InMemoryTable
from tests.auditing.crossings import ACCEPTED, BOUNDS, CATEGORIES, Asked, Crossing, Engine, drawn
from tests.numbered_cases import check_cases

PLANS = 12  # about each table
NOT_COVERED = ("groups", "dropped", "published_but_dropped", "noise_first", "derived")
COVERED = [one for one in ACCEPTED if one not in NOT_COVERED]
PREDICATES = {
    "number": ["x > 5", "x BETWEEN 2 AND 7", "x <= 3", "x IS NOT NULL", "NOT (x > 5)"],
    "boolean": ["x", "NOT x", "x IS TRUE", "x = TRUE"],
    "category": ["x = 'a'", "x IN ('a', 'b')", "x <> 'c'", "x IS NOT NULL"],
}
VALUES = {
    "number": ["x", "w * x", "LEAST(x, 7)", "COALESCE(x, 0)", "x * x", "NULLIF(x, 0)"],
    "boolean": ["x::INT", "CASE WHEN x THEN w END", "CASE WHEN x THEN w ELSE 0 END"],
    "category": ["(x = 'a')::INT", "CASE WHEN x = 'b' THEN w END", "CASE x WHEN 'a' THEN 1 ELSE 0 END"],
}
AGGREGATES = [
    "COUNT(*)", "SUM(w)", "MAX(w)", "COUNT(x)", "COUNT(DISTINCT x)", "COUNT(*) FILTER (WHERE {p})",
    "SUM(w) FILTER (WHERE {p})", "AVG(w) FILTER (WHERE {p})", "MAX(w) FILTER (WHERE {p})", "COUNT_IF({p})",
    "SUM(CASE WHEN {p} THEN w END)", "SUM(CASE WHEN {p} THEN w ELSE 0 END)", "SUM({v})", "AVG({v})",
    "COALESCE(SUM(w) FILTER (WHERE {p}), 0)", "NULLIF(COUNT(*) FILTER (WHERE {p}), 0)", "SUM({v})",
    "COUNT(CASE WHEN {p} THEN 1 END)", "CAST(COUNT_IF({p}) AS BOOLEAN)", "CAST(SUM({v}) AS TEXT)",
    "ROUND(SUM({v}), 1)", "SUM({v}) > 3", "CASE WHEN COUNT_IF({p}) > 0 THEN 1 ELSE 0 END", "AVG({v})",
    "SUM({v}) / COUNT(*)", "SUM({v}) / NULLIF(COUNT_IF({p}), 0)", "100.0 * COUNT_IF({p}) / COUNT(*)",
    "COALESCE(AVG({v}), 0)", "SUM({v}) FILTER (WHERE {p})", "SUM({v}) FILTER (WHERE w > 0)", "BOOL_OR({p})",
    "SUM(COALESCE({v}, 0))", "IFNULL(SUM({v}), 0)", "SUM(y)", "COUNT(y)", "SUM(y) FILTER (WHERE y > 1)",
    "GREATEST(SUM({v}), 0)", "SUM(IF({p}, 1, 0))", "SUM(IF({p}, w, NULL))", "COUNT(DISTINCT who)",
    "COUNT(DISTINCT CASE WHEN {p} THEN who END)", "SUM(w * ({p})::INT)",
]  # fmt: skip
GROUPINGS = [
    ([], ""), ([], ""), (["g"], "g"), (["g"], "g"), (["h"], "h"), (["who"], "who"), (["g", "h"], "g, h"),
    (["g"], "ROLLUP (g)"), (["g", "h"], "CUBE (g, h)"), (["g"], "GROUPING SETS ((g), ())"), (["k"], "k"),
    (["CASE WHEN {p} THEN 1 ELSE 0 END"], "1"), (["x"], "x"), (["y"], "y"), (["w > 1"], "w > 1"),
]  # fmt: skip
CONDITIONS = [*[""] * 8, "w > 0", "g = 'u'", "{p}", "x IS NOT NULL", "y > 2", "who <> 'P0'"]
HAVINGS = [*[""] * 9, "COUNT(*) > 1", "COUNT_IF({p}) > 0", "COUNT(x) > 0", "SUM({v}) > 3", "MAX(w) > 1"]
FORMS = [
    *["{q}"] * 8,
    "WITH p AS (SELECT who, g, {a} AS v FROM data{c} GROUP BY who, g) SELECT g, SUM(v) FROM p GROUP BY g",
    "WITH p AS (SELECT who, {a} AS v FROM data{c} GROUP BY who) SELECT COUNT(*) AS n, SUM(v) AS s FROM p",
    "SELECT g, {a} AS n FROM (SELECT * FROM data{c}) AS d GROUP BY g",
    "SELECT 1 AS part, {a} AS n FROM data WHERE g = 'u' UNION ALL SELECT 2, {a} AS n FROM data WHERE g = 'v'",
    "SELECT g, {a} AS n FROM data{c} GROUP BY g ORDER BY g LIMIT 3",
    "SELECT g, SUM(v) AS n FROM (SELECT g, MAX({s}) AS v, who FROM data{c} GROUP BY g, who) AS d GROUP BY g",
]  # fmt: skip


def fuzz(seed: int, seconds: float, *, most: float = math.inf) -> dict[str, int]:
    """Tables 0, 1, … of a seed until the time is up, or until there were ``most``."""
    return check_cases(check, seed, seconds, most=most)


@cache
def engine() -> Engine:
    """One connection for all cases."""
    return Engine()


def check(generator: np.random.Generator, trial: int, count: Counter[str]) -> None:
    """Draw a table and plans about it; compare what is published of tables that differ in secrets."""
    draw = Random(int(generator.integers(2**62)))
    drawn_one = drawn(draw)
    columns, known = with_copy(draw, drawn_one, more=draw.choice([0, 14]))
    copied = replace(drawn_one, columns=columns, known=known)
    secrets = draw.random()  # the other secrets are the same for all plans
    count["tables"] += 1
    with kept_open():
        for _ in range(PLANS):
            asked = tuple(_any_release(draw, drawn_one.kind) for _ in range(draw.choice([1, 1, 2])))
            table = copied if any("y" in one.sql for one in asked) else drawn_one
            check_crossing(with_releases(draw, table, asked), Random(secrets), count)


class _Kept(DuckDBEngine):
    """A table that stays open for the plans that follow."""

    def close(self) -> None: ...

    def close_now(self) -> None:
        super().close()


@contextmanager
def kept_open() -> Iterator[None]:
    """Open every table once: that takes longer than to read a plan about it."""
    engines: dict[str, _Kept] = {}

    def open_kept(source: InMemoryTable, **options: Any) -> _Kept:
        key = repr(source.table.to_pydict())
        if key not in engines:
            engines[key] = _Kept(source, **options)
        return engines[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "open_source", open_kept)
        try:
            yield
        finally:
            for engine in engines.values():
                engine.close_now()


def with_releases(draw: Random, crossing: Crossing, asked: tuple[Asked, ...]) -> Crossing:
    """A plan with these releases."""
    releases = [
        {"name": f"r{place}", "sql": one.sql, "noise_stddev": one.stddev} for place, one in enumerate(asked)
    ]
    limits = {"remaining_uncertainty": draw.choice([0.5, 0.05]), "accept": COVERED}
    plan = {name: one for name, one in crossing.plan.items() if name != "privacy"}
    if "y" in crossing.columns and draw.random() < 0.2:
        plan = {**plan, "data": {**plan["data"], "public": ["g", "h", "w", "k"]}}
    plan = {**plan, "release": releases, "limits": limits}
    return replace(crossing, asked=asked, plan=plan)


def with_copy(
    draw: Random, crossing: Crossing, *, more: int
) -> tuple[dict[str, list[Any]], tuple[bool, ...]]:
    """The table with a function of the secret, and some rows more."""
    columns = {name: list(values) for name, values in crossing.columns.items()}
    named: dict[str, list[Any]] = {"boolean": [False, True], "category": list(CATEGORIES)}
    values = named.get(crossing.kind, [])
    columns["x"] += [draw.choice(values) if values else round(draw.uniform(*BOUNDS), 2) for _ in range(more)]
    columns["who"] += [f"Q{row}" for row in range(more)]
    columns["k"] += [0] * more
    for name in "ghw":
        columns[name] += draw.choices(columns[name], k=more)
    return {**columns, "y": derived(columns["x"])}, (*crossing.known, *[False] * more)


def derived(secrets: list[Any]) -> list[Any]:
    """A column that is a function of the secret."""
    return [None if x is None else 2.0 * (CATEGORIES.index(x) if isinstance(x, str) else x) for x in secrets]


def _any_release(draw: Random, kind: str) -> Asked:
    fill = {"p": draw.choice(PREDICATES[kind]), "v": draw.choice(VALUES[kind])}
    aggregates = [draw.choice(AGGREGATES).format(**fill) for _ in range(draw.choice([1, 1, 2]))]
    keys, grouping = draw.choice(GROUPINGS)
    where, having = (draw.choice(pool).format(**fill) for pool in (CONDITIONS, HAVINGS))
    keys = [f"{one.format(**fill)} AS k{place}" for place, one in enumerate(keys)]
    listed = [*keys, *(f"{one} AS n{place}" for place, one in enumerate(aggregates))]
    text = f"SELECT {', '.join(listed)} FROM data"
    clauses = ((" WHERE ", where), (" GROUP BY ", grouping), (" HAVING ", having))
    text += "".join(word + clause for word, clause in clauses if clause)
    condition = f" WHERE {where}" if where else ""
    form = draw.choice(FORMS)
    sql = form.format(q=text, a=aggregates[0], c=condition, s=draw.choice(["w", fill["v"]]))
    count = len(keys) if form == "{q}" else int(not form.startswith("WITH p AS (SELECT who, {a}"))
    return Asked(sql=sql, keys=count, stddev=10 ** draw.uniform(2, 4))


def check_crossing(crossing: Crossing, draw: Random, count: Counter[str]) -> None:
    """Compare one plan over several secrets; raise where more than noise differs."""
    count["cases"] += 1
    result = audited(crossing, crossing.columns["x"])
    if isinstance(result, str):
        count["refused"] += 1
        return
    count[str(result.verdict.status)] += 1
    tables = changed(draw, crossing)
    if result.verdict.status is VerdictStatus.PASSED and "y" in result.taken_as_public:
        check_named(crossing, result)
        count["passed, and names a copy that chance explains"] += 1
    elif result.verdict.status is VerdictStatus.PASSED:
        for place, asked in enumerate(crossing.asked):
            listed = "GROUP BY x" in asked.sql  # lines of values that several people have
            compared = neighbours(crossing) if listed else tables
            check_answers(crossing, asked, compared, result.releases[place].outputs)
    if "y" in crossing.columns:
        return  # groups made by a function of the secret differ with it: such a plan must not pass
    other = audited(crossing, tables[-1])
    if isinstance(other, str):
        count["other secrets refused"] += 1
        return
    ours, theirs = (one.publishable().to_json().splitlines() for one in (result, other))
    differing = [(a, b) for a, b in zip(ours, theirs, strict=False) if a != b]
    assert ours == theirs, f"publishable, and differs: {differing[:2]}"
    count["publishable compared"] += 1


def check_named(crossing: Crossing, result: sl.AuditResult) -> None:
    """A copy of the secret is taken as public in few rows alone, and is then said to look like it."""
    chance = chance_of_a_copy(crossing)
    assert chance >= 1e-3, f"a copy that a shuffled column is with a chance of {chance:.1g} was not found"
    remarked = any(line.startswith("y: ") for line in result.looks_odd or ())
    assert remarked or chance > 0.5, "nothing is said of a copy"


def chance_of_a_copy(crossing: Crossing) -> float:
    """The share of the orders of a column's values in which it is the secret under other names.

    Of numbers, in the order of the secrets or against it.
    """
    rows = set(zip(crossing.columns["who"], crossing.columns["x"], strict=True))
    sizes = Counter(secret for _, secret in rows if secret is not None)
    left, orders = sizes.total(), 1
    for size in sizes.values():
        orders, left = orders * math.comb(left, size), left - size
    if crossing.kind == "number":
        return min(1.0, 2 / orders)
    return math.prod(math.factorial(same) for same in Counter(sizes.values()).values()) / orders


def audited(crossing: Crossing, secrets: list[Any]) -> sl.AuditResult | str:
    """The audit of a table with other secrets, or its refusal."""
    columns = {**crossing.columns, "x": secrets}
    if "y" in columns:
        columns["y"] = derived(secrets)
    try:
        return sl.audit(replace(crossing, columns=columns).complete())
    except SightlineError as refusal:
        return str(refusal)


def changed(draw: Random, crossing: Crossing) -> list[list[Any]]:
    """Other secrets of the same rows: all at either end, and at random. Who has none stays without."""
    ends: dict[str, list[Any]] = {"number": [*BOUNDS, 4.0], "boolean": [False, True]}
    values = ends.get(crossing.kind, list(CATEGORIES))
    here = [x is not None for x in crossing.columns["x"]]
    found = [[value if one else None for one in here] for value in values]
    constant = crossing.plan["data"].get("values") == "constant"
    for _ in range(3):
        each: dict[Any, Any] = defaultdict(lambda: draw.choice(values))
        places = [who if constant else row for row, who in enumerate(crossing.columns["who"])]
        found.append([each[place] if one else None for place, one in zip(places, here, strict=True)])
    return found


def neighbours(crossing: Crossing) -> list[list[Any]]:
    """Other secrets of one person: lines that these cannot change tell nothing to who knows all others."""
    ends: dict[str, list[Any]] = {"number": list(BOUNDS), "boolean": [False, True]}
    who, own = crossing.columns["who"], crossing.columns["x"]
    return [
        [value if one == person and x is not None else x for one, x in zip(who, own, strict=True)]
        for person in dict.fromkeys(who)
        for value in ends.get(crossing.kind, list(CATEGORIES))
    ]


def check_answers(crossing: Crossing, asked: Asked, tables: list[list[Any]], outputs: int) -> None:
    """Lines, NULLs and types are the same for all secrets, and no more numbers vary than have noise."""
    seen: dict[tuple[Any, ...], set[Any]] = defaultdict(set)
    shapes = set()
    for secrets in [crossing.columns["x"], *tables]:
        columns = {**crossing.columns, "x": secrets}
        if "y" in columns:
            columns["y"] = derived(secrets)
        engine().hold(replace(crossing, columns=columns).table())
        try:
            answer = engine().connection.execute(asked.sql)
        except duckdb.Error as error:
            raise AssertionError(f"passed, but it cannot be asked: {asked.sql}: {error}") from None
        types = tuple(str(column[1]) for column in answer.description or ())
        lines = answer.fetchall()
        for line in lines:
            for column, value in enumerate(line[asked.keys :]):
                seen[(*line[: asked.keys], column)].add(value)
        shown = Counter((line[: asked.keys], tuple(one is None for one in line)) for line in lines)
        shapes.add((types, frozenset(shown.items())))
    assert len(shapes) == 1, f"passed, but lines, NULLs or types differ: {asked.sql}"
    varying = sum(len(values) > 1 for values in seen.values())
    assert varying <= outputs, f"passed, {varying} numbers vary and {outputs} have noise: {asked.sql}"
