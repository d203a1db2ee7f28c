"""The signatures of a table as a store that is read in passes: nothing per record is held in this process.

A pass is a :class:`Reduction`. It turns each batch of signatures into a few arrays and merges the arrays of
two batches. A store runs it where the signatures are: over arrays (:class:`ArrayStore`), over a table that an
engine spills to disk, or on the executors of a cluster. Merging gives the same arrays in any order and with
any batches, so a store may read batches in parallel, and read one again if a machine is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sightline.errors import require
from sightline.progress import Progress

BATCH = 1 << 19  # signatures that are read at a time: with a pass's own arrays, some hundred megabytes
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignatureBatch:
    """Some different signatures of a table, each with its rows."""

    words: NDArray[np.int64]  # (words, signatures): the packed codes of a row's cells
    counts: NDArray[np.int64]  # (signatures,) rows with that signature
    known: NDArray[np.int64]  # (signatures,) those of them that the attacker knows

    def __len__(self) -> int:
        return len(self.counts)


class Reduction(Protocol):
    """What a pass computes of the signatures. It holds plain arrays and numbers, so that it can travel."""

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        """The arrays of some signatures, possibly of none."""

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        """The arrays of both. The order of merging does not matter."""


class SignatureStore(Protocol):
    """Every signature of a table once, in no particular order."""

    @property
    def signatures(self) -> int:
        """How many there are."""

    @property
    def word_count(self) -> int:
        """How many words a signature has."""

    def run(self, reduction: Reduction, stage: str, progress: Progress) -> Arrays:
        """One pass over all signatures. ``progress`` is called with the stage and the share that is done."""

    def close(self) -> None:
        """Give back what the store holds. A store may be closed twice."""


@runtime_checkable
class StoringEngine(Protocol):
    """An engine that can keep signatures where they do not need the memory of this process."""

    def store_signatures(self, query: str, *, word_count: int) -> SignatureStore:
        """Run one SELECT in DuckDB's dialect and keep its answer until the store is closed.

        Its columns are ``w0``, ``w1``, …, one for each word, ``n`` for the rows with that signature and
        ``known`` for those of them that the attacker knows: 64-bit integers, none of them NULL.
        """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArrayStore:
    """Signatures in arrays of this process.

    >>> class Rows:
    ...     def of_batch(self, batch): return {"rows": np.array([batch.counts.sum()])}
    ...     def merged(self, first, second): return {"rows": first["rows"] + second["rows"]}
    >>> words = np.array([[4, 1, 6]])
    >>> store = ArrayStore(words=words, counts=np.array([2, 3, 5]), known=np.zeros(3, np.int64), batch=2)
    >>> store.run(Rows(), "rows", lambda stage, share: None)["rows"].item()
    10
    """

    words: NDArray[np.int64]
    counts: NDArray[np.int64]
    known: NDArray[np.int64]
    batch: int = BATCH

    def __post_init__(self) -> None:
        shapes = (self.words.shape[1:], self.known.shape, (self.batch > 0,))
        expected = (self.counts.shape, self.counts.shape, (True,))
        require(shapes == expected, "words, counts and known of the same signatures", got=f"shapes {shapes}")

    @property
    def signatures(self) -> int:
        return len(self.counts)

    @property
    def word_count(self) -> int:
        return len(self.words)

    def run(self, reduction: Reduction, stage: str, progress: Progress) -> Arrays:
        return run_batches(self._batches(), reduction, stage, progress, signatures=self.signatures)

    def close(self) -> None:
        """Arrays are given back by the interpreter."""

    def _batches(self) -> Iterator[SignatureBatch]:
        for start in range(0, self.signatures, self.batch):
            own = slice(start, start + self.batch)
            yield SignatureBatch(words=self.words[:, own], counts=self.counts[own], known=self.known[own])


def run_batches(
    batches: Iterator[SignatureBatch],
    reduction: Reduction,
    stage: str,
    progress: Progress,
    *,
    signatures: int,
) -> Arrays:
    """One pass over batches, one after the other, of a store with so many signatures.

    A pass that misses a signature is refused: it might be the exposed one.
    """
    progress(stage, 0.0)
    found: Arrays | None = None
    done = 0
    for batch in batches:
        own = reduction.of_batch(batch)
        found = own if found is None else reduction.merged(found, own)
        done += len(batch)
        progress(stage, done / signatures)
    require(found is not None, "at least one signature", got="none")
    require(done == signatures, f"a pass over {signatures:,} signatures", got=f"one over {done:,}")
    assert found is not None
    return found
