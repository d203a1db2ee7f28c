"""What an audit needs of a data engine: columns, the answer to one SELECT, and a store of signatures.

A plan's SQL is in the engine's own dialect. Our own queries are written in DuckDB's dialect, and another
engine translates them. An engine only receives text that this package made from a checked syntax tree, and
its connection is read-only.

A store has the signatures of a table and is read in passes: nothing per record is held in this process. A
pass is a :class:`Reduction`. It turns each batch of signatures into a few arrays and merges the arrays of two
batches. A store runs it where the signatures are: over a table that an engine spills to disk, or on the
executors of a cluster. Merging gives the same arrays in any order and with any batches, so a store may read
batches in parallel, and read one again if a machine is lost. A store of persons has a line for every
signature of every kind of person, and its batches have whole persons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InvalidPlan, require
from sightline.progress import report
from sightline.values import frozen

DATA = "data"  # the relation that a plan's queries read
SOURCE = "source"  # the table under it, from which ``[data] sql`` makes ``data``
NO_TABLES: Mapping[str, str] = MappingProxyType({})


class ColumnKind(Enum):
    """The kinds of columns that an audit distinguishes."""

    NUMBER = "number"
    BOOLEAN = "boolean"
    TEXT = "text"
    TIME = "time"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation."""

    name: str
    kind: ColumnKind


def check_names(names: Iterable[str], table: object) -> None:
    """Refuse names that differ only in case: engines rename one, or take one of them for the other."""
    listed = list(names)
    folded = Counter(name.casefold() for name in listed)
    alike = list(dict.fromkeys(name for name in listed if folded[name.casefold()] > 1))
    require(
        not alike,
        f"columns of {table} whose names differ in more than case",
        got=", ".join(f'"{name[:60]}"' for name in alike[:4]),
        fix="rename one of them",
        error=InvalidPlan,
    )


class Engine(Protocol):
    """A read-only connection in which the relation ``data`` and the declared tables are visible."""

    @property
    def dialect(self) -> str:
        """The name by which sqlglot knows the engine's SQL."""

    def columns(self, table: str = DATA) -> tuple[Column, ...]:
        """Return the columns of a relation, in its own order."""

    def functions(self) -> frozenset[str]:
        """The scalar functions that the engine says to be deterministic, in lower case."""

    def fetch(self, query: str) -> dict[str, NDArray[np.generic]]:
        """Run one SELECT in DuckDB's dialect; return its columns. NULL is None in an object array."""

    def fetch_own(self, query: str) -> dict[str, NDArray[np.generic]]:
        """Run one SELECT in the engine's own dialect, as it is written; return its columns."""

    def compile_own(self, query: str) -> None:
        """Raise ``InvalidPlan`` if the engine cannot run a SELECT in its own dialect; read no row."""

    def define(self, query: str) -> None:
        """From now on ``data`` is the answer to one SELECT in the engine's own dialect, over ``source``.

        ``source`` is the table, which ``data`` is at first. No row is read.
        """

    def check_unchanged(self) -> None:
        """Raise ``InvalidPlan`` if the tables have changed since they were opened."""

    def interrupt(self) -> None:
        """From another thread: end the query that is running, if there is one and the engine can."""

    def close(self) -> None:
        """Close the connection. An engine may be closed twice."""


BATCH = 1 << 19  # signatures that are read at a time: with a pass's own arrays, some hundred megabytes
Arrays = Mapping[str, NDArray[Any]]
_NO_ARRAYS: Arrays = MappingProxyType({})


SIGNATURES = ("n", "known")  # the columns of a store beside its words
PERSONS = ("g", "p", "persons", "k", "rows", *SIGNATURES)


@frozen
class PersonLines:
    """Whose rows the lines of a batch are: lines of one kind of person are neighbours."""

    kind: NDArray[np.int64]
    group: NDArray[np.int64]  # kinds with the same unknown rows have one
    persons: NDArray[np.int64]  # of that kind
    known: NDArray[np.bool_]  # whether the attacker knows these rows
    rows: NDArray[np.int64]  # of one person


@frozen
class SignatureBatch:
    """Some different signatures of a table, each with its rows; or persons, with the signatures of theirs."""

    words: NDArray[np.int64]  # (words, lines): the packed codes of a row's cells
    counts: NDArray[np.int64]  # (lines,) rows of the table with that signature, whoever has them
    known: NDArray[np.int64]  # (lines,) those of them that the attacker knows
    lines: PersonLines | None = None  # none if nobody has several rows

    def __len__(self) -> int:
        return len(self.counts)

    @classmethod
    def of(cls, columns: Arrays) -> SignatureBatch:
        """From the columns of a store."""
        names = sorted((name for name in columns if name[0] == "w"), key=lambda name: int(name[1:]))
        whole = {name: np.ascontiguousarray(values, dtype=np.int64) for name, values in columns.items()}
        lines = None
        if "p" in whole:
            known = whole["k"] > 0
            kinds = {"kind": whole["p"], "group": whole["g"], "persons": whole["persons"]}
            lines = PersonLines(**kinds, known=known, rows=whole["rows"])
        words = np.stack([whole[name] for name in names])
        return cls(words=words, counts=whole["n"], known=whole["known"], lines=lines)


def batches_of(chunks: Iterable[Arrays]) -> Iterator[SignatureBatch]:
    """The batches of a store that is read in chunks of lines: each has whole persons."""
    return map(SignatureBatch.of, whole_groups(chunks))


def whole_groups(chunks: Iterable[Arrays]) -> Iterator[Arrays]:
    """The same lines in chunks that do not cut neighbours with one ``g``, where there is such a column.

    >>> chunks = [{"g": np.array([1, 1, 2])}, {"g": np.array([2, 2])}, {"g": np.array([3])}]
    >>> [chunk["g"].tolist() for chunk in whole_groups(chunks)]
    [[1, 1], [2, 2, 2], [3]]
    """
    waiting: Arrays = {}
    for chunk in chunks:
        if "g" not in chunk:
            yield chunk
            continue
        both = {name: np.concatenate([waiting[name], chunk[name]]) for name in waiting} or chunk
        before = np.flatnonzero(both["g"] != both["g"][-1:])
        cut = int(before[-1]) + 1 if before.size else 0
        if cut:
            yield {name: values[:cut] for name, values in both.items()}
        waiting = {name: values[cut:] for name, values in both.items()}
    if waiting and waiting["g"].size:
        yield waiting


class Reduction(Protocol):
    """What a pass computes of the signatures. It holds plain arrays and numbers, so that it can travel."""

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        """The arrays of some signatures, possibly of none."""

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        """The arrays of both. The order of merging does not matter."""


class SignatureStore(Protocol):
    """Every signature of a table once, or of every kind of person, in no particular order."""

    @property
    def signatures(self) -> int:
        """How many there are."""

    def run(self, reduction: Reduction, stage: str) -> Arrays:
        """One pass over all signatures, which reports the stage and the share that is done."""

    def close(self) -> None:
        """Give back what the store holds. A store may be closed twice."""


@runtime_checkable
class StoringEngine(Engine, Protocol):
    """An engine that can keep signatures where they do not need the memory of this process."""

    def store_signatures(self, query: str, *, columns: Sequence[str]) -> SignatureStore:
        """Run one SELECT in DuckDB's dialect and keep its answer until the store is closed.

        Its columns are ``w0``, ``w1``, …, one for each word, ``n`` for the rows with that signature and
        ``known`` for those of them that the attacker knows: 64-bit integers, none of them NULL. Those of
        persons are also the kind ``p``, how many ``persons`` it has, whether these ``rows`` of each of them
        are known (``k``), and ``g``: kinds with one of these are read in one batch.
        """


def run_batches(
    batches: Iterator[SignatureBatch], reduction: Reduction, stage: str, *, signatures: int
) -> Arrays:
    """One pass over batches, one after the other, of a store with so many signatures.

    A pass that misses a signature is refused: it might be the exposed one.
    """
    report(stage, 0.0)
    require(signatures > 0, "at least one signature", got="none")
    read, merged = folded(
        reduction, of_batches(reduction, batches), lambda done: report(stage, done / signatures)
    )
    require(read == signatures, f"a pass over {signatures:,} signatures", got=f"one over {read:,}")
    return merged


def of_batches(reduction: Reduction, batches: Iterable[SignatureBatch]) -> Iterator[tuple[int, Arrays]]:
    """How many signatures each batch has, and its arrays."""
    return ((len(batch), reduction.of_batch(batch)) for batch in batches)


def folded(
    reduction: Reduction,
    parts: Iterable[tuple[int, Arrays]],
    done: Callable[[int], None] = lambda read: None,
) -> tuple[int, Arrays]:
    """How many signatures some parts stand for, and their arrays merged; 0 and no arrays without parts."""
    read, merged = 0, _NO_ARRAYS
    for number, own in parts:
        read, merged = read + number, reduction.merged(merged, own) if merged else own
        done(read)
    return read, merged
