"""Whose rows have which signatures, for records with several rows. No key and no value leaves the engine.

One query lists how many rows of each person have each signature; persons are only numbered in it. A second
one asks whether all rows of a person hold one value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import IndexArray
from sightline.errors import InvalidPlan
from sightline.tables.collect import known_condition
from sightline.tables.encoding import key_text
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import Membership, PersonRows, PersonTable
from sightline.tables.records import is_record_condition, ranked_rows
from sightline.tables.rows import audited_rows
from sightline.tables.sql.grammar import refuse
from sightline.tables.sql.reader import ReleaseQuery
from sightline.tables.subject import SecretKind, Subject

# Pairs of a person and a signature: they are sorted in memory.
_MOST_PAIRS = 100_000_000


def person_table(
    engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject, membership: Membership
) -> PersonTable:
    """Every kind of person. The rows must add up to those of the membership."""
    if membership.rows > _MOST_PAIRS:
        refuse(
            f"at most {_MOST_PAIRS:,} rows where records have several",
            got=f"{membership.rows:,}",
            fix="audit a part of the table, or one row a record",
        )
    ranked = ranked_rows(engine, queries, subject, _known(engine, subject))
    listed = f"SELECT r, s, v AS k, COUNT(*) AS n FROM ({ranked}) AS ranked GROUP BY r, s, v"
    answer = engine.fetch(
        f"SELECT DENSE_RANK() OVER (ORDER BY r) AS p, s, k, n FROM ({listed}) AS listed ORDER BY p, s, k"
    )
    person, signature, known, rows = (
        np.asarray(answer[name], dtype=np.int64) for name in ("p", "s", "k", "n")
    )
    kinds, count = grouped(person, np.stack([signature, known, rows], axis=1))
    entries = np.concatenate(kinds)
    several, varying, by_chance = _values(engine, queries, subject)
    table = PersonTable(
        starts=np.cumsum([0, *(len(kind) for kind in kinds)]),
        signatures=entries[:, 0].astype(np.intp),
        known=entries[:, 1] > 0,
        rows=entries[:, 2].astype(np.intp),
        persons=count,
        several=several,
        varying=varying,
        by_chance=by_chance,
    )
    weights = (table.rows * table.persons[table.kind_of]).astype(np.float64)
    size = len(membership.counts)
    total = np.bincount(table.signatures, weights, size)
    if not np.array_equal(total, membership.counts) or not np.array_equal(
        np.bincount(table.signatures, weights * table.known, size), membership.known
    ):
        raise InvalidPlan("expected a table that does not change while it is read, got other rows")
    return table


def grouped(
    person: NDArray[np.int64], entries: NDArray[np.int64]
) -> tuple[list[NDArray[np.int64]], IndexArray]:
    """The distinct lists of entries that persons have, and how many persons have each.

    ``person`` is sorted, and so are the entries of one person.

    >>> kinds, persons = grouped(np.array([0, 0, 1, 2, 2]), np.array([[5], [6], [5], [5], [6]]))
    >>> [kind.ravel().tolist() for kind in kinds], persons.tolist()
    ([[5], [5, 6]], [1, 2])
    """
    starts = np.flatnonzero(np.diff(person, prepend=person[:1] - 1))
    sizes = np.diff(starts, append=person.size)
    kinds: list[NDArray[np.int64]] = []
    persons: list[int] = []
    width = entries.shape[1]
    for size in np.unique(sizes).tolist():
        first = starts[sizes == size]
        lists = entries[first[:, None] + np.arange(size)].reshape(first.size, -1)
        distinct, count = np.unique(lists, axis=0, return_counts=True)
        kinds.extend(distinct.reshape(len(distinct), size, width))
        persons.extend(count.tolist())
    return kinds, np.array(persons, dtype=np.intp)


def keys_of_kinds(
    engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject, kinds: Mapping[int, PersonRows]
) -> dict[int, tuple[str, ...]]:
    """Owner-only: the keys of the persons of some kinds, sorted."""
    if not kinds:
        return {}
    wanted = ", ".join(str(one) for one in sorted({entries[0][0] for entries in kinds.values()}))
    ranked = ranked_rows(engine, queries, subject, _known(engine, subject))
    some = f"SELECT r FROM ({ranked}) AS chosen WHERE s IN ({wanted})"
    found = _persons(engine, f"SELECT r, s, v FROM ({ranked}) AS ranked WHERE r IN ({some})")
    return {
        kind: tuple(sorted(key_text(key) for key, own in found.items() if own == entries))
        for kind, entries in kinds.items()
    }


def person_of(
    engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject, *, record_key: str
) -> PersonRows | None:
    """Owner-only: the entries of one person; ``None`` if they have no row with a secret."""
    asked = is_record_condition(engine, subject, record_key)
    value = f"CASE WHEN {asked} THEN {_known(engine, subject)} ELSE -1 END"
    ranked = ranked_rows(engine, queries, subject, value)
    found = _persons(engine, f"SELECT r, s, v FROM ({ranked}) AS ranked WHERE v >= 0")
    return next(iter(found.values()), None)


def _persons(engine: Engine, rows: str) -> dict[object, PersonRows]:
    """The entries of every person in a query for (record key, signature, known)."""
    answer = engine.fetch(
        f"SELECT r, s, v AS k, COUNT(*) AS n FROM ({rows}) AS chosen GROUP BY r, s, v ORDER BY s, k"
    )
    found: dict[object, list[tuple[int, bool, int]]] = {}
    listed: Iterable[tuple[object, int, int, int]] = zip(
        *(answer[name].tolist() for name in ("r", "s", "k", "n")), strict=True
    )
    for key, signature, known, number in listed:
        found.setdefault(key, []).append((int(signature), bool(known), int(number)))
    return {key: tuple(entries) for key, entries in found.items()}


def _known(engine: Engine, subject: Subject) -> str:
    known = known_condition(engine, subject)
    return f"CASE WHEN {known} THEN 1 ELSE 0 END" if known else "0"


def _values(engine: Engine, queries: Sequence[ReleaseQuery], subject: Subject) -> tuple[int, int, float]:
    r"""Persons with several rows, how many of those hold different values, and how many hold one by chance.

    Independent rows with the table's frequencies :math:`p_v` hold one value in all n rows with probability
    :math:`\sum_v p_v^n \le (\sum_v p_v^2)^{n/2}`.
    """
    rows = audited_rows(queries, subject, engine.columns())
    value = (
        f"CASE WHEN {rows.secret} THEN 1 ELSE 0 END" if subject.kind is SecretKind.BOOLEAN else rows.secret
    )
    each = (
        f"SELECT COUNT(*) AS n, MIN({value}) AS low, MAX({value}) AS high "
        f"FROM {rows.source()} GROUP BY {rows.record}"
    )
    differing = "CAST(SUM(CASE WHEN low <> high THEN 1 ELSE 0 END) AS BIGINT)"
    answer = engine.fetch(
        f"SELECT n, COUNT(*) AS persons, {differing} AS varying "
        f"FROM ({each}) AS each_person WHERE n > 1 GROUP BY n ORDER BY n"
    )
    number, persons, varying = (
        np.asarray(answer[name], dtype=np.float64) for name in ("n", "persons", "varying")
    )
    counted = f"SELECT CAST(COUNT(*) AS DOUBLE) AS c FROM {rows.source()} GROUP BY {value}"
    squares = engine.fetch(f"SELECT SUM(c) AS rows, SUM(c * c) AS squares FROM ({counted}) AS counted")
    collision = float(squares["squares"][0]) / float(squares["rows"][0]) ** 2
    return int(persons.sum()), int(varying.sum()), float(persons @ collision ** (number / 2))
