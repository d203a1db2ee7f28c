"""Who was in which number as Parquet: whole, or as what changed since another entry, if that is smaller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline.arrays import IndexArray
from sightline.errors import DamagedLedger
from sightline.ledger.entries import FrozenNumbers
from sightline.ledger.folder import LedgerFolder
from sightline.ledger.frozen import IN_NO_GROUP, Groups
from sightline.tables.sql.fragments import literal

if TYPE_CHECKING:
    import duckdb

Files: TypeAlias = "duckdb.DuckDBPyConnection"
Columns = dict[str, NDArray[np.generic]]


@contextmanager
def files() -> Iterator[Files]:
    """A connection that reads and writes Parquet files: one for many, because each takes time to make."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


def written_groups(
    connection: Files, folder: LedgerFolder, groups: Groups, base: Groups | None
) -> tuple[bytes, bool, int]:
    """The bytes of a file, whether it has the changes since ``base`` only, and its rows."""
    whole = _written(connection, folder, _columns(groups))
    if base is None:
        return whole, False, groups.person.size
    changes = _changes(groups, base)
    changed = _written(connection, folder, _columns(changes))
    if len(changed) < len(whole):
        return changed, True, changes.person.size
    return whole, False, groups.person.size


def read_groups(connection: Files, path: Path, base: Groups | None, columns: int) -> Groups:
    """The groups in a file, with the changes applied to ``base``."""
    answer = _read(connection, path)
    try:
        person = np.asarray(answer["person"], dtype=np.intp)
        codes = np.stack([np.asarray(answer[f"c{one}"], dtype=np.intp) for one in range(columns)], axis=1)
        weights = np.ones(codes.shape)
        for one in range(columns):
            weights[:, one] = answer.get(f"w{one}", weights[:, one])
        known = np.asarray(answer.get("known", np.zeros(person.size)), dtype=np.bool_)
    except (KeyError, ValueError, TypeError):
        raise DamagedLedger(f"expected the people of a release in {path.name}, got another table") from None
    own = Groups(person=person, codes=codes, weights=weights, known=known)
    return own if base is None else _applied(own, base)


def renamed(base: Groups, before: Sequence[FrozenNumbers], after: Sequence[FrozenNumbers]) -> Groups | None:
    """The groups of another release by the codes of this one; none if the two are not alike."""
    if len(before) != len(after) or any(one.weight for one in (*before, *after)):
        return None
    codes = np.empty_like(base.codes)
    for line, (old, new) in enumerate(zip(before, after, strict=True)):
        place = {name: code for code, name in enumerate(new.groups)}
        mapped = np.array(
            [*(place.get(name, IN_NO_GROUP) for name in old.groups), IN_NO_GROUP], dtype=np.intp
        )
        codes[:, line] = mapped[base.codes[:, line]]
    return _kept(base, codes, base.known)


def _kept(base: Groups, codes: IndexArray, known: NDArray[np.bool_]) -> Groups:
    """Those who are in some group."""
    inside = (codes >= 0).any(axis=1)
    return Groups(
        person=base.person[inside], codes=codes[inside], weights=base.weights[inside], known=known[inside]
    )


def _changes(groups: Groups, base: Groups) -> Groups:
    """The people whose groups differ, with those they are in now; in no group if they are gone."""
    everyone = np.union1d(groups.person, base.person)
    now, before = _over(groups, everyone), _over(base, everyone)
    differ = (now.codes != before.codes).any(axis=1) | (now.known != before.known)
    return Groups(
        person=everyone[differ], codes=now.codes[differ], weights=now.weights[differ], known=now.known[differ]
    )


def _applied(changes: Groups, base: Groups) -> Groups:
    everyone = np.union1d(changes.person, base.person)
    found, own = _over(base, everyone), np.searchsorted(everyone, changes.person)
    found.codes[own] = changes.codes
    found.known[own] = changes.known
    return _kept(found, found.codes, found.known)


def _over(groups: Groups, everyone: IndexArray) -> Groups:
    """The groups of more people, who are in none."""
    own = np.searchsorted(everyone, groups.person)
    codes = np.full((everyone.size, groups.codes.shape[1]), IN_NO_GROUP, dtype=np.intp)
    known = np.zeros(everyone.size, dtype=np.bool_)
    codes[own], known[own] = groups.codes, groups.known
    return Groups(person=everyone, codes=codes, weights=np.ones(codes.shape), known=known)


def _columns(groups: Groups) -> Columns:
    found: Columns = {"person": groups.person.astype(np.int32)}
    small = np.int16 if groups.codes.max(initial=0) < 2**15 else np.int32
    for line, codes in enumerate(groups.codes.T):
        found[f"c{line}"] = codes.astype(small)
        if np.any(groups.weights[:, line] != 1):
            found[f"w{line}"] = groups.weights[:, line]
    if groups.known.any():
        found["known"] = groups.known
    return found


def written_names(connection: Files, folder: LedgerFolder, names: Sequence[str], *, hashed: bool) -> bytes:
    """The bytes of a file with the names of new people, in the order of their numbers."""
    columns: Columns = {"name": np.array(names, dtype=object)}
    return _written(connection, folder, columns, "UNHEX(name) AS name" if hashed else "name")


def read_names(connection: Files, path: Path, *, hashed: bool) -> list[str]:
    """The names in such a file."""
    answer = _read(connection, path, "LOWER(HEX(name)) AS name" if hashed else "name")
    return [str(name) for name in answer["name"].tolist()]


def _written(connection: Files, folder: LedgerFolder, columns: Columns, listed: str = "*") -> bytes:
    with folder.draft() as draft:
        connection.register("columns", columns)
        connection.execute(
            f"COPY (SELECT {listed} FROM columns) TO {literal(str(draft))} (FORMAT parquet, COMPRESSION zstd)"
        )
        return draft.read_bytes()


def _read(connection: Files, path: Path, listed: str = "*") -> Columns:
    import duckdb

    try:
        found = connection.execute(f"SELECT {listed} FROM read_parquet({literal(str(path))})").fetchnumpy()
    except duckdb.Error:
        raise DamagedLedger(f"expected a Parquet file, got {path.name}, which is none") from None
    return {name: np.asarray(values) for name, values in found.items()}
