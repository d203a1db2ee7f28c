"""Who was in which number as Parquet, whole or as what changed since another entry; and the ledger's table.

The table is for the plan of everything: a column for each release, and no one's values. ``SELECT r14, AVG(x)
FROM data WHERE r14 IS NOT NULL GROUP BY r14`` is what release 14 published: the column ``r14`` has the group
that the person was in. Where numbers are published, the secret's column holds values that give every release
its true sums; what an audit reads from single values was found when each was made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.linalg import lsqr

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import DamagedLedger
from sightline.ledger.entries import FrozenNumbers
from sightline.ledger.folder import LedgerFolder
from sightline.ledger.frozen import FrozenGroups, Hashes
from sightline.ledger.history import KNOWN, History
from sightline.tables.sql.fragments import literal, quoted

if TYPE_CHECKING:
    import duckdb

Files: TypeAlias = "duckdb.DuckDBPyConnection"
Columns = dict[str, NDArray[np.generic]]


@contextmanager
def files() -> Iterator[Files]:
    """A connection that reads and writes Parquet files: one for many, because each takes time to make."""
    import duckdb

    from sightline.tables.engines.duckdb_engine import interruptible

    with duckdb.connect(config={"threads": 1}) as connection, interruptible():
        yield connection


def written_groups(
    connection: Files, folder: LedgerFolder, groups: FrozenGroups, base: FrozenGroups | None
) -> tuple[bytes, bool, int]:
    """The bytes of a file, whether it has the changes since ``base`` only, and its rows."""
    changes = _changes(groups, base) if base is not None and groups.plain else groups
    fewer = changes.person.size < groups.person.size
    shown = changes if fewer else groups
    return _written(connection, folder, _columns(shown)), fewer, shown.person.size


def read_groups(connection: Files, path: Path, base: FrozenGroups | None, columns: int) -> FrozenGroups:
    """The groups in a file, with the changes applied to ``base``."""
    answer = _read(connection, path)
    try:
        person = np.asarray(answer["person"], dtype=np.intp)
        codes = np.stack([np.asarray(answer[f"c{one}"], dtype=np.int32) for one in range(columns)], axis=1)
        weights = np.broadcast_to(1.0, codes.shape)
        if any(f"w{one}" in answer for one in range(columns)):
            ones = np.ones(person.size)
            weights = np.stack([np.asarray(answer.get(f"w{one}", ones)) for one in range(columns)], axis=1)
        nobody = np.broadcast_to(False, person.shape)
        own = FrozenGroups(
            person=person,
            place=np.asarray(answer.get("place", np.broadcast_to(0, person.shape)), dtype=np.intp),
            codes=codes,
            weights=weights,
            known=np.asarray(answer.get("known", nobody), dtype=np.bool_),
        )
    except (KeyError, ValueError, TypeError):
        raise DamagedLedger(f"expected the people of a release in {path.name}, got another table") from None
    return own if base is None else _applied(own, base)


def renamed(
    base: FrozenGroups, before: Sequence[FrozenNumbers], after: Sequence[FrozenNumbers]
) -> FrozenGroups | None:
    """The groups of another release by the codes of this one; none if the two are not alike."""
    if len(before) != len(after) or not base.plain:
        return None
    if all(old.groups == new.groups for old, new in zip(before, after, strict=True)):
        return base
    codes = np.empty_like(base.codes)
    for line, (old, new) in enumerate(zip(before, after, strict=True)):
        place = {name: code for code, name in enumerate(new.groups)}
        mapped = [*(place.get(name, -1) for name in old.groups), -1]
        codes[:, line] = np.array(mapped, dtype=np.int32)[base.codes[:, line]]
    inside = (codes >= 0).any(axis=1)
    return _plain(base.person[inside], codes[inside], base.known[inside])


def _plain(person: IndexArray, codes: NDArray[np.int32], known: NDArray[np.bool_]) -> FrozenGroups:
    """The groups of people with one row each, without weights."""
    none, ones = np.broadcast_to(0, person.shape), np.broadcast_to(1.0, codes.shape)
    return FrozenGroups(person=person, place=none, codes=codes, weights=ones, known=known)


def _changes(groups: FrozenGroups, base: FrozenGroups) -> FrozenGroups:
    """The people whose groups differ, with those they are in now; in no group if they are gone."""
    both = (groups, base)
    (codes, known), (before, knew) = _by_number(both, (groups,)), _by_number(both, (base,))
    differ = np.flatnonzero((codes != before).any(axis=1) | (known != knew))
    return _plain(differ, codes[differ], known[differ])


def _applied(changes: FrozenGroups, base: FrozenGroups) -> FrozenGroups:
    """Everybody after the changes, by number; who is gone is in no group."""
    codes, known = _by_number((base, changes), (base, changes))
    # Pages that are touched for the first time take longer than anything else here: numbers are shared.
    person = base.person if base.person.size == len(codes) else np.arange(len(codes))
    return _plain(person, codes, known)


def _by_number(
    people: Sequence[FrozenGroups], said: Sequence[FrozenGroups]
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """The groups of all people by number, as the last of ``said`` has them; and who is known."""
    size = max(one.numbers for one in people)
    codes = np.full((size, people[0].codes.shape[1]), -1, dtype=np.int32)
    known = np.zeros(size, dtype=np.bool_)
    for one in said:
        codes[one.row()], known[one.row()] = one.codes, one.known
    return codes, known


def _columns(groups: FrozenGroups) -> Columns:
    columns: Columns = {"person": groups.person.astype(np.int32)}
    if groups.place.any():
        columns["place"] = groups.place.astype(np.int32)
    small = np.int16 if groups.codes.max(initial=0) < 2**15 else np.int32
    for line, codes in enumerate(groups.codes.T):
        columns[f"c{line}"] = codes.astype(small)
        if np.any(groups.weights[:, line] != 1):
            columns[f"w{line}"] = groups.weights[:, line]
    if groups.known.any():
        columns["known"] = groups.known
    return columns


def written_people(
    connection: Files, folder: LedgerFolder, hashes: Hashes, keys: Sequence[str] | None
) -> bytes:
    """The bytes of a file with the hashes of new people, in the order of their numbers; and keys in clear."""
    columns: Columns = {"h0": hashes[:, 0].copy(), "h1": hashes[:, 1].copy()}
    if keys is not None:
        columns["key"] = np.array(keys, dtype=object)
    return _written(connection, folder, columns)


def read_people(connection: Files, path: Path) -> tuple[Hashes, list[str]]:
    """The hashes in such a file, and the keys, if it has them."""
    answer = _read(connection, path)
    try:
        hashes = np.stack([np.asarray(answer[name], dtype=np.uint64) for name in ("h0", "h1")], axis=1)
    except (KeyError, ValueError, TypeError):
        raise DamagedLedger(f"expected people in {path.name}, got another table") from None
    return hashes, list(map(str, answer["key"].tolist())) if "key" in answer else []


def _written(connection: Files, folder: LedgerFolder, columns: Columns) -> bytes:
    import duckdb

    with folder.draft() as draft:
        connection.register("columns", columns)
        try:
            connection.execute(
                f"COPY (SELECT * FROM columns) TO {literal(str(draft))} (FORMAT parquet, COMPRESSION zstd)"
            )
        except duckdb.IOException:
            raise folder.unwritable("a file cannot be written") from None
        return draft.read_bytes()


def _read(connection: Files, path: Path) -> Columns:
    import duckdb

    try:
        columns = connection.execute(f"SELECT * FROM read_parquet({literal(str(path))})").fetchnumpy()
    except duckdb.Error:
        raise DamagedLedger(f"expected a Parquet file, got {path.name}, which is none") from None
    return {name: np.asarray(values) for name, values in columns.items()}


def write_table(past: History, path: Path) -> None:
    """Write the table of a history as Parquet."""
    rows, data = past.rows, past.plan.data
    labels = {one: past.label(one) for one in np.unique(rows.person).tolist()}
    columns: dict[str, NDArray[Any]] = {
        "label": np.array([labels[one] for one in rows.person.tolist()], dtype=object),
        KNOWN: rows.known,
    }
    if data.secret_kind.measured:
        value, columns["value"] = "value", _fitted(past)
    else:
        columns["value"] = _answers(past)
        value = "value = 1"
        if data.categories:
            value = f"([{', '.join(map(literal, data.categories))}])[value + 1]"
    listed = [f"label AS {quoted(data.record)}", f"{value} AS {quoted(data.secret)}", KNOWN]
    for section, (one, column) in enumerate(past.owners):
        numbers = one.numbers[column]
        columns[f"c{section}"] = rows.codes[section]
        # Of a list, the entry before the first one is NULL.
        groups = ", ".join(map(literal, numbers.groups))
        listed.append(f"([{groups}])[c{section} + 1] AS {quoted(numbers.column)}")
        if numbers.weight:
            columns[numbers.weight] = rows.weights[section]
            listed.append(quoted(numbers.weight))
    with files() as connection:
        connection.register("frozen", columns)
        connection.sql(f"SELECT {', '.join(listed)} FROM frozen").write_parquet(str(path), compression="zstd")


def _answers(past: History) -> NDArray[np.int64]:
    """Of every row whether it says yes, or the place of its category: so that every count has its true value.

    Whose they are nobody knows. Where no whole answers are found all are alike, and what counts would tell
    is among what is not verified.
    """
    signature, _ = past.rows.signatures
    categories = len(past.plan.data.categories)
    values = np.full(signature.size, 0 if categories else 1, dtype=np.int64)
    answers = past.whole_answers()
    if answers is None:
        return values
    unknown = np.flatnonzero(~past.rows.known)
    order = unknown[np.argsort(signature[unknown], kind="stable")]
    starts = np.flatnonzero(np.diff(signature[order], prepend=-1))
    place = np.arange(order.size) - np.repeat(starts, np.diff(starts, append=order.size))
    # Of the rows of a signature the first have the first answer, and so on.
    ends = np.cumsum(np.round(answers).astype(np.int64), axis=1)[signature[order]]
    values[order] = np.sum(place[:, None] >= ends, axis=1) if categories else place < ends[:, 0]
    return values


def _fitted(past: History) -> FloatArray:
    """Values between the bounds that give every sum and mean its true sum, as far as there are such values.

    They start from a draw, because equal values of a group would look as if the group decided on them. Rows
    of one person that hold one value get one.
    """
    rows, (low, high) = past.rows, past.plan.data.domain
    unit = rows.person if past.plan.data.values == "constant" else np.arange(rows.person.size)
    drawn = np.random.default_rng(0).uniform(low, high, int(unit.max(initial=0)) + 1)
    lines, entries = [], []
    true: list[float] = []
    for section, (one, column) in enumerate(past.owners):
        for place, aggregate in enumerate(() if one.lost else one.numbers[column].aggregates):
            if aggregate.feature != "value":
                continue
            inside = np.flatnonzero((rows.codes[section] >= 0) & ~rows.known)
            lines.append(np.stack([len(true) + rows.codes[section][inside].astype(np.intp), unit[inside]]))
            entries.append(rows.weights[section][inside])
            true += one.found.sums[column][place]
    if true:
        placed = np.concatenate(lines, axis=1)
        matrix = coo_array((np.concatenate(entries), placed), shape=(len(true), drawn.size)).tocsr()
        drawn += least_change(matrix, np.array(true) - matrix @ drawn)
    return np.asarray(np.clip(drawn, low, high)[unit])


def least_change(matrix: csr_array, missing: FloatArray) -> FloatArray:
    r"""The least x with :math:`A x = b`, or nearest to it. Units in the same numbers change alike.

    So of n equal columns one is left, times :math:`\sqrt n`: a ledger has many people and few groups.

    >>> least_change(csr_array([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]]), np.array([6.0, 4.0])).round(9).tolist()
    [3.0, 3.0, 2.0]
    """
    marks = np.random.default_rng(0).standard_normal((2, len(missing)))  # equal columns have equal sums
    _, first, column, alike = np.unique(
        matrix.T @ (marks[0] + 1j * marks[1]), return_index=True, return_inverse=True, return_counts=True
    )
    root = np.sqrt(alike)
    change = lsqr(matrix[:, first].multiply(root).tocsr(), missing, atol=1e-12, btol=1e-12)[0]
    return np.asarray((change / root)[column])
