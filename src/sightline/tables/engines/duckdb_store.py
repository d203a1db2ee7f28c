"""Signatures in a temporary table of DuckDB, which spills to disk what does not fit the engine's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.progress import Progress
from sightline.tables.signature_store import BATCH, Arrays, Reduction, SignatureBatch, run_batches

Fetch = Callable[[str], dict[str, NDArray[np.generic]]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DuckDBStore:
    """A table of an open connection with the columns w0, w1, …, n and known."""

    fetch: Fetch  # runs one SELECT
    drop: Callable[[], Any]  # gives the table back
    table: str  # its name, quoted
    word_count: int
    signatures: int

    def run(self, reduction: Reduction, stage: str, progress: Progress) -> Arrays:
        return run_batches(self._batches(), reduction, stage, progress, signatures=self.signatures)

    def close(self) -> None:
        self.drop()

    def _batches(self) -> Iterator[SignatureBatch]:
        names = [*(f"w{position}" for position in range(self.word_count)), "n", "known"]
        for start in range(0, self.signatures, BATCH):
            # A table that was written once has the rows 0, 1, …; DuckDB skips the blocks outside a range.
            within = f"rowid >= {start} AND rowid < {start + BATCH}"
            answer = self.fetch(f"SELECT {', '.join(names)} FROM {self.table} WHERE {within}")
            whole = [np.ascontiguousarray(answer[name], dtype=np.int64) for name in names]
            yield SignatureBatch(words=np.stack(whole[:-2]), counts=whole[-2], known=whole[-1])
