"""The check of every release on the same rows with other secrets.

On the true secrets two readings of a query may agree by chance: a cast that rounds nothing that occurs, a
band in which nobody is. So each release's own text runs once more where every secret is another one, drawn by
a hash of its row: in every row the number that the engine adds up must again be the one that the audit adds
up. Of a large table some rows are taken.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from sightline.errors import InvalidPlan
from sightline.tables.engines.protocol import DATA, Engine
from sightline.tables.joint_secrets import parts_as_sql
from sightline.tables.membership import Membership
from sightline.tables.sql.check_query import CheckQuery, QuickCounts
from sightline.tables.sql.fragments import quoted
from sightline.tables.sql.grammar import refuse
from sightline.tables.sql.reader import ReleaseQuery
from sightline.tables.sql.scope import find_column
from sightline.tables.sql.tabulated import is_whole, type_of
from sightline.tables.subject import SecretKind, Subject
from sightline.tables.verify import batches_of_checks, check_merged, check_rewritten

_MOST_ROWS = 20_000  # about these many rows of a larger table
_MOST_CHECKS = {"duckdb": 64, "postgres": 32, "spark": 4}  # releases that are checked one by one
_PRIME = 1_000_003  # values that the hashes are spread over
_HASHES = {
    "duckdb": "(hash({key}, {secret}, {salt}) % {prime})",
    "postgres": "ABS(HASHTEXTEXTENDED(COALESCE(CAST({key} AS TEXT), '') || '/' || CAST({secret} AS TEXT), "
    "{salt}) % {prime})",
    "spark": "PMOD(XXHASH64({key}, {secret}, {salt}), {prime})",
}


def check_other_secrets(
    engine: Engine, queries: Sequence[ReleaseQuery], membership: Membership, subject: Subject
) -> None:
    """Refuse a release that adds up something else than the audit where the secrets are others."""
    prefix = _with_others(engine, membership, subject)
    if not prefix:
        return
    for query in queries:
        others = tuple((prefix + written, prefix + merged) for written, merged in query.merged)
        check_merged(engine, replace(query, merged=others))
    checks = {
        (number, place): check
        for number, query in enumerate(queries)
        for place, check in enumerate(query.checks)
        if check is not None and check.aggregates
    }
    for (number, _), check in checks.items():
        check_rewritten(engine, queries[number].name, check, prefix=prefix)
    confirmed = _quickly_confirmed(engine, checks, prefix)
    left = [name for name in checks if name not in confirmed]
    most = _MOST_CHECKS[engine.dialect]
    chosen = left if len(left) <= most else random.Random(len(left)).sample(left, most)
    for name in chosen:
        release = queries[name[0]].name
        try:
            answer = engine.fetch_own(prefix + checks[name].sql)
        except InvalidPlan as error:
            raise InvalidPlan(f'release "{release}", with other secrets: {error}') from None
        wrong = sum(int(sum(answer[f"d{place}"].tolist())) for place in checks[name].aggregates)
        if wrong:
            refuse(
                f'release "{release}": the numbers that the engine adds up, also of other secrets',
                got=f"another number for {wrong:,} rows",
                fix="a cast or function rounds the secret, or reads it otherwise: write it in a simpler way",
            )


def _quickly_confirmed(
    engine: Engine, checks: dict[tuple[int, int], CheckQuery], prefix: str
) -> set[tuple[int, int]]:
    """The checks of which one query for many shows that no row is wrong."""
    confirmed: set[tuple[int, int]] = set()
    if engine.dialect != "duckdb":
        return confirmed
    quick = {name: check.quick for name, check in checks.items() if check.quick is not None}
    for batch in batches_of_checks(quick):
        counts = QuickCounts(source=quick[batch[0]].source)
        asked = {name: counts.add(quick[name]) for name in batch}
        try:
            answer = {name: int(values[0]) for name, values in engine.fetch_own(prefix + counts.sql).items()}
        except InvalidPlan:
            continue  # a condition may fail on rows that another condition leaves out
        confirmed |= {name for name, own in asked.items() if not any(answer[column] for column in own.wrong)}
    return confirmed


def _with_others(engine: Engine, membership: Membership, subject: Subject) -> str:
    """WITH, in the engine's dialect, for a query that reads ``data`` with other secrets; empty for none."""
    dialect, columns = engine.dialect, engine.columns()
    names = {one.name: exp.to_identifier(one.name, quoted=True).sql(dialect) for one in columns}
    key, secret = (
        names[find_column(columns, subject.record).name],
        names[find_column(columns, subject.secret).name],
    )
    type_name = type_of(secret, dialect=dialect, ask=engine.fetch_own)
    hashes = [_HASHES[dialect].format(key=key, secret=secret, salt=salt, prime=_PRIME) for salt in (17, 71)]
    # Values that are all whole numbers, or cents, stay so: a cast to DECIMAL(12, 2) rounds none of them.
    step = 1.0 if is_whole(type_name) or membership.occurring.whole else membership.occurring.step
    other = _other(hashes[0], subject, step=step, dialect=dialect)
    if not other:
        return ""
    made = f"CASE WHEN {secret} IS NULL THEN NULL ELSE CAST({other} AS {type_name}) END AS {secret}"
    share = _MOST_ROWS / max(membership.rows, 1)
    where = f" WHERE {hashes[1]} < {int(_PRIME * share)}" if share < 1 else ""
    listed = ", ".join(made if name == secret else name for name in names.values())
    if subject.parts:
        inner = f"(SELECT {listed} FROM {DATA}{where}) AS {quoted(DATA)}"
        parts = {name: text.sql(dialect) for name, text in parts_as_sql(columns, subject).items()}
        listed = ", ".join(
            f"{parts[name.casefold()]} AS {text}" if name.casefold() in parts else text
            for name, text in names.items()
        )
        return f"WITH {DATA} AS (SELECT {listed} FROM {inner}) "
    return f"WITH {DATA} AS (SELECT {listed} FROM {DATA}{where}) "


def _other(drawn: str, subject: Subject, *, step: float, dialect: str) -> str:
    """A secret as SQL, made of a whole number from 0 to the prime."""
    match subject.kind:
        case SecretKind.BOOLEAN:
            return f"CASE WHEN {drawn} % 2 = 0 THEN 1 ELSE 0 END"
        case SecretKind.CATEGORY:
            names = [exp.Literal.string(name).sql(dialect) for name in subject.categories]
            branches = [f"WHEN {place} THEN {name}" for place, name in enumerate(names)]
            return f"CASE {drawn} % {len(names)} {' '.join(branches)} END" if names else ""
        case SecretKind.NUMBER:
            return _other_number(drawn, subject, step=step, dialect=dialect)


def _other_number(drawn: str, subject: Subject, *, step: float, dialect: str) -> str:
    """A number between the bounds as SQL, made of a whole one: a multiple of a step, if there is one."""
    low, high = subject.bounds
    if not math.isfinite(high - low):
        return ""
    double = "DOUBLE PRECISION" if dialect == "postgres" else "DOUBLE"
    share = f"CAST({drawn} AS {double}) / {_PRIME}"
    first, last = (math.ceil(low / step), math.floor(high / step)) if step else (0, -1)
    if first <= last:
        units = f"FLOOR({first} + {share} * {last - first + 1})"
        return f"{units} * {step!r}" if step >= 1 else f"{units} / {round(1 / step)!r}.0"
    return f"{low!r} + {share} * {high - low!r}"
