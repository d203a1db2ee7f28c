"""Persons with several rows: kinds of them by their rows, in memory or as the lines of a store."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import IndexArray, distinct_lines
from sightline.errors import InvalidPlan
from sightline.tables.collect import CountedTable
from sightline.tables.engines.protocol import DATA, ColumnKind, Engine
from sightline.tables.membership import Membership, PersonTable
from sightline.tables.occurring import MOST_COUNTED
from sightline.tables.rows import Rows
from sightline.tables.sql.fragments import quoted
from sightline.tables.sql.grammar import refuse

# Pairs of a kind of person and a signature: they are sorted in memory.
_MOST_PAIRS = 100_000_000
_FEW_AGAIN = 0.05  # of the times of persons: more that have two rows are no mistake
# Sums of marks tell persons apart. Products of two numbers below the primes fit 64 bits, and two words of 62
# bits that are equal modulo both primes are equal. Four marks agree by chance with a probability below 1e-17,
# and then the rows would not add up, but for another chance like that.
_PRIMES, _SQUARED = (2_147_483_647, 2_147_483_629) * 2, 4


def person_table(engine: Engine, counted: CountedTable, membership: Membership) -> PersonTable:
    """Every kind of person. The rows must add up to those of the membership.

    The engine finds persons with the same rows by sums of marks, and lists the rows of one of each kind: a
    panel has many rows and few kinds.
    """
    coded, names = _coded(counted), counted.names
    kinds_of_persons = _alike(coded, names)
    by = "".join(f"c.{name}, " for name in names)
    numbered = f"SELECT DISTINCT {', '.join(names)} FROM ({coded}) AS every" if names else "SELECT 0 AS w"
    order = ", ".join(names) or "w"
    ranked = f"SELECT {order}, ROW_NUMBER() OVER (ORDER BY {order}) - 1 AS s FROM ({numbered}) AS numbered"
    same = " AND ".join(f"listed.{name} = d.{name}" for name in names) or "TRUE"
    listed = (
        f"SELECT kind.p, kind.persons, {by}c.v AS k, COUNT(*) AS n FROM ({coded}) AS c "
        f"JOIN ({kinds_of_persons}) AS kind ON c.r = kind.r GROUP BY kind.p, kind.persons, {by}c.v"
    )
    wanted = ("p", "persons", "s", "k", "n")  # of a panel, tens of millions each
    narrow = ", ".join(f"CAST({'d' if one == 's' else 'listed'}.{one} AS INTEGER) AS {one}" for one in wanted)
    answer = engine.fetch(
        f"SELECT {narrow} FROM ({listed}) AS listed JOIN ({ranked}) AS d ON {same} ORDER BY p, s, k"
    )
    person, persons, *lists = (answer[name].astype(np.int32, copy=False) for name in wanted)
    if person.size > _MOST_PAIRS:
        refuse(
            f"at most {_MOST_PAIRS:,} groups of rows of different persons, where records have several",
            got=f"{person.size:,}",
            fix="audit a part of the table, or one row a record",
        )
    entries, starts, count = grouped(person, np.stack(lists, axis=1), persons)
    del answer, person, persons, lists
    table = replace(
        no_persons(engine, counted, membership),
        starts=starts,
        signatures=entries[:, 0].astype(np.intp),
        known=entries[:, 1] > 0,
        rows=entries[:, 2].astype(np.intp),
        persons=count,
    )
    weights = (table.rows * table.persons[table.kind_of]).astype(np.float64)
    size = len(membership.counts)
    total = np.bincount(table.signatures, weights, size)
    if not np.array_equal(total, membership.counts) or not np.array_equal(
        np.bincount(table.signatures, weights * table.known, size), membership.known
    ):
        raise InvalidPlan("expected a table that does not change while it is read, got other rows")
    return table


def _coded(counted: CountedTable) -> str:
    """A query for the words, the record ``r`` and whether the attacker knows it, ``v``, of every row."""
    return counted.coded(f"{counted.rows.record} AS r", f"{counted.is_known} AS v")


def no_persons(engine: Engine, counted: CountedTable, membership: Membership) -> PersonTable:
    """A table of no kind of person, with what the engine counts of all of them."""
    several, varying, by_chance, by_rows = _values(engine, counted)
    return PersonTable(
        several=several,
        varying=varying,
        by_chance=by_chance,
        by_rows=by_rows,
        repeated=_repeated(engine, counted.rows, membership.rows),
    )


def person_lines(counted: CountedTable) -> str:
    """One SELECT for the signatures of every kind of person: the columns of a store of persons."""
    coded, names = _coded(counted), counted.names
    words, of_rows = ", ".join(names), ", ".join(f"c.{name}" for name in names)
    numbers = "COUNT(*) AS n, CAST(SUM(v) AS BIGINT) AS known"
    every = f"SELECT {words}, {numbers} FROM ({coded}) AS every GROUP BY {words}"
    kind = "kind.g, kind.p, kind.persons"
    listed = (
        f"SELECT {kind}, {of_rows}, c.v AS k, COUNT(*) AS rows FROM ({coded}) AS c "
        f"JOIN ({_alike(coded, names)}) AS kind ON c.r = kind.r GROUP BY {kind}, {of_rows}, c.v"
    )
    same = " AND ".join(f"own.{name} = every.{name}" for name in names)
    return f"SELECT own.*, every.n, every.known FROM ({listed}) AS own JOIN ({every}) AS every ON {same}"


def _repeated(engine: Engine, rows: Rows, number: int) -> tuple[str, int]:
    """A column of times that nearly every row of a person has another one of, and how often one has not."""
    times = [column.name for column in engine.columns() if column.kind is ColumnKind.TIME]
    for name in times if number <= MOST_COUNTED else ():
        by = f"{rows.record}, {quoted(DATA)}.{quoted(name)}"
        each = f"SELECT COUNT(*) AS n FROM {rows.source()} GROUP BY {by}"
        again = "COUNT(CASE WHEN n > 1 THEN 1 END)"
        answer = engine.fetch(f"SELECT COUNT(*) AS pairs, {again} AS again FROM ({each}) AS each_time")
        pairs, twice = int(answer["pairs"][0]), int(answer["again"][0])
        if 0 < twice <= _FEW_AGAIN * pairs:
            return name, twice
    return "", 0


def _alike(coded: str, names: Sequence[str]) -> str:
    """A query for one person ``r`` of every kind, its number ``p`` and how many ``persons`` there are.

    Kinds that differ only in rows that the attacker knows have one ``g``. Every row has marks: a random
    linear form of its words modulo a prime, squared and shifted some times. Persons with the same rows have
    the same sums of them, and others have not, up to chance.
    """
    draw = np.random.default_rng(int.from_bytes(hashlib.sha256(coded.encode()).digest()[:8], "big"))
    marks = []
    for place, prime in enumerate(_PRIMES):
        known, constant, *factors = draw.integers(1, prime, size=len(names) + 2).tolist()
        terms = [f"({name} % {prime}) * {own} % {prime}" for name, own in zip(names, factors, strict=True)]
        terms += [f"CAST(v AS BIGINT) * {known}", str(constant)]
        marks.append(f"({' + '.join(terms)}) % {prime} AS x{place}")
    rows = f"SELECT r, v, {', '.join(marks)} FROM ({coded}) AS coded"
    for _ in range(_SQUARED):
        shifts = draw.integers(1, min(_PRIMES), size=len(_PRIMES)).tolist()
        squared = [f"(x{i} * x{i} % {p} + {shifts[i]}) % {p} AS x{i}" for i, p in enumerate(_PRIMES)]
        rows = f"SELECT r, v, {', '.join(squared)} FROM ({rows}) AS marked"
    sums = [f"CAST(SUM(x{i}) AS BIGINT) AS f{i}" for i in range(len(_PRIMES))]
    # A mark is less than 2^31, so that at least 1 of an unknown row keeps the sum above 0.
    sums.append("CAST(SUM(CASE WHEN v = 0 THEN x0 + 1 ELSE 0 END) AS BIGINT) AS unknown")
    each = f"SELECT r, COUNT(*) AS number, {', '.join(sums)} FROM ({rows}) AS marked GROUP BY r"
    by = ", ".join(["number", *(f"f{i}" for i in range(len(_PRIMES)))])
    placed = (
        f"SELECT r, unknown, COUNT(*) OVER (PARTITION BY {by}) AS persons, "
        f"ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY r) AS place FROM ({each}) AS each_person"
    )
    chosen = f"SELECT r, unknown, persons, ROW_NUMBER() OVER (ORDER BY r) AS p FROM ({placed}) AS placed"
    group = "CASE WHEN unknown > 0 THEN unknown ELSE -p END AS g"
    return f"SELECT r, persons, p, {group} FROM ({chosen} WHERE place = 1) AS chosen"


def grouped(
    person: NDArray[Any], entries: NDArray[Any], persons_of: NDArray[Any]
) -> tuple[NDArray[Any], IndexArray, IndexArray]:
    """The distinct lists of entries that persons have, one after the other, where each starts, and how many
    persons have it.

    ``person`` is sorted, and so are the entries of one person, who stands for as many as ``persons_of`` says.

    >>> person, entries = np.array([0, 0, 1, 2, 2]), np.array([[5], [6], [5], [5], [6]])
    >>> lists, starts, persons = grouped(person, entries, np.ones(5, dtype=int))
    >>> lists.ravel().tolist(), starts.tolist(), persons.tolist()
    ([5, 5, 6], [0, 1, 3], [1, 2])
    """
    begins = np.flatnonzero(np.diff(person, prepend=person[:1] - 1))
    sizes = np.diff(begins, append=person.size)
    kinds: list[NDArray[Any]] = [entries[:0]]
    lengths: list[IndexArray] = [np.zeros(1, dtype=np.intp)]
    persons: list[IndexArray] = [np.zeros(0, dtype=np.intp)]
    for size in np.unique(sizes).tolist():
        first = begins[sizes == size]
        lists = entries[first[:, None] + np.arange(size)].reshape(first.size, -1)
        distinct, group = distinct_lines(lists)
        kinds.append(lists[distinct].reshape(len(distinct) * size, -1))
        lengths.append(np.full(len(distinct), size, dtype=np.intp))
        persons.append(np.bincount(group, persons_of[first]).astype(np.intp))
    return np.concatenate(kinds), np.cumsum(np.concatenate(lengths)), np.concatenate(persons)


def range_of_means(engine: Engine, counted: CountedTable) -> tuple[float, float]:
    """The least and the greatest mean of one person's rows. Owner-only."""
    rows = counted.rows
    each = f"SELECT AVG({rows.secret}) AS mean FROM {rows.source()} GROUP BY {rows.record}"
    ends = engine.fetch(f"SELECT MIN(mean) AS low, MAX(mean) AS high FROM ({each}) AS each_person")
    return float(ends["low"][0]), float(ends["high"][0])


def _values(engine: Engine, counted: CountedTable) -> tuple[int, int, float, dict[int, int]]:
    r"""Persons with several rows, how many of those hold different values, how many hold one by chance, and
    persons by how many rows they have.

    Independent rows with the table's frequencies :math:`p_v` hold one value in all n rows with probability
    :math:`\sum_v p_v^n \le (\sum_v p_v^2)^{n/2}`.
    """
    rows, boolean = counted.rows, counted.subject.kind.two_values
    value = f"CASE WHEN {rows.secret} THEN 1 ELSE 0 END" if boolean else rows.secret
    each = (
        f"SELECT COUNT(*) AS n, MIN({value}) AS low, MAX({value}) AS high "
        f"FROM {rows.source()} GROUP BY {rows.record}"
    )
    differing = "CAST(SUM(CASE WHEN low <> high THEN 1 ELSE 0 END) AS BIGINT)"
    answer = engine.fetch(
        f"SELECT n, COUNT(*) AS persons, {differing} AS varying "
        f"FROM ({each}) AS each_person GROUP BY n ORDER BY n"
    )
    number, persons, varying = (
        np.asarray(answer[name], dtype=np.float64) for name in ("n", "persons", "varying")
    )
    by_value = f"SELECT CAST(COUNT(*) AS DOUBLE) AS c FROM {rows.source()} GROUP BY {value}"
    squares = engine.fetch(f"SELECT SUM(c) AS rows, SUM(c * c) AS squares FROM ({by_value}) AS counted")
    collision = float(squares["squares"][0]) / float(squares["rows"][0]) ** 2
    several = number > 1
    by_chance = float(persons[several] @ collision ** (number[several] / 2))
    by_rows = dict(zip(map(int, number), map(int, persons), strict=True))
    return int(persons[several].sum()), int(varying.sum()), by_chance, by_rows
