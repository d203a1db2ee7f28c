"""A table with more signatures than fit into memory: they stay in a store, and passes read what is asked.

The membership of such a table lists some signatures. At first it lists one for every set of partitions that
rows are in together: all that prices depend on. After a pass over all of them it lists those that are worth a
closer look.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sightline.errors import InvalidPlan, require
from sightline.progress import Progress
from sightline.tables.cell_numbers import CellNumbers, Layout, SignatureCells
from sightline.tables.cells import RowGrouping
from sightline.tables.collect import CountedTable, signature_query
from sightline.tables.encoding import PackedCodes
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import CellTable, Feature, Membership, OtherSignatures
from sightline.tables.occurring import occurring as occurring_values
from sightline.tables.signature_store import Arrays, SignatureBatch, SignatureStore, StoringEngine
from sightline.tables.store_passes import MOST_CONDITIONS, CellSizes, Ranks
from sightline.tables.subject import SecretKind

# Bytes of a signature where all are in memory: its own numbers, and its cell in each partition.
_PER_SIGNATURE, _PER_PARTITION = 400, 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamedTable:
    """A membership that lists a few signatures, and the store that has all of them."""

    membership: Membership
    store: SignatureStore
    cells: SignatureCells
    counted: CountedTable

    def listing(self, found: Arrays, progress: Progress) -> StreamedTable:
        """The same table with the signatures that a pass kept."""
        order = np.lexsort(found["words"][::-1])
        words = found["words"][:, order]
        counts, known = found["counts"][order], found["known"][order]
        table = self.cells.table(words)
        ranks = self.store.run(Ranks(words=words), "numbering the most exposed", progress)
        others = self.membership.others
        assert others is not None  # a streamed table has others
        membership = replace(
            self.membership,
            signatures=_locked(table.T),
            counts=counts,
            known=known,
            others=replace(others, listed=ranks["before"], words=words),
        )
        return replace(self, membership=membership)


def memory_in_arrays(signatures: int, partitions: int) -> float:
    """The bytes that an audit takes with all signatures in memory, beside what the cells take."""
    return float(signatures) * (_PER_SIGNATURE + _PER_PARTITION * partitions)


def why_not_streamed(counted: CountedTable) -> str | None:
    """Why a table has to be read into memory as a whole; none if it can be streamed."""
    layouts = [
        Layout.of([counted.encoding.coded_keys[key] for key in keys]) for keys in counted.encoding.layouts
    ]
    reasons = {
        "records have several rows": counted.row_counts.contributions > 1,
        "the secret is a category": counted.subject.kind is SecretKind.CATEGORY,
        "moments or thresholds are published": any(
            part.feature is not Feature.VALUE for part in counted.partitions
        ),
        "rows have weights": any(part.weighted for part in counted.partitions),
        "nothing that is published has groups or conditions": not counted.encoding.words,
        f"more than {MOST_CONDITIONS} conditions are published": sum(one.conditional for one in layouts)
        > MOST_CONDITIONS,
        "a GROUP BY has too many keys": not all(one.fits for one in layouts),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def store_table(engine: StoringEngine, counted: CountedTable) -> SignatureStore:
    """The signatures of a table, kept by its engine."""
    query = signature_query(counted, in_order=False)
    return engine.store_signatures(query, word_count=len(counted.encoding.words))


class Loading:
    """A pass that brings all signatures into memory."""

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        return {"words": batch.words, "counts": batch.counts, "known": batch.known}

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        return {name: np.concatenate([first[name], second[name]], axis=-1) for name in first}


def loaded(store: SignatureStore, progress: Progress) -> tuple[PackedCodes, PackedCodes, PackedCodes]:
    """All signatures in the order of their words, where they turned out to be few."""
    found = store.run(Loading(), "listing signatures", progress)
    order = np.lexsort(found["words"][::-1])
    return found["words"][:, order], found["counts"][order], found["known"][order]


def streamed_table(
    engine: Engine, counted: CountedTable, store: SignatureStore, progress: Progress
) -> StreamedTable:
    """The cells of a table whose signatures are in a store."""
    encoding = counted.encoding
    keys = [[encoding.coded_keys[key] for key in parts] for parts in encoding.layouts]
    sizes = CellSizes(layouts=tuple(map(Layout.of, keys)))
    found = store.run(sizes, "counting the rows of each cell", progress)
    require(
        int(found["rows"][0]) == counted.row_counts.present,
        f"signatures of {counted.row_counts.present:,} rows",
        got=f"those of {int(found['rows'][0]):,}",
        fix="the table must not change while it is read: run it again, on a copy if it is written often",
        error=InvalidPlan,
    )
    groupings, layouts = [], []
    for number, (layout, parts) in enumerate(zip(sizes.layouts, encoding.layouts, strict=True)):
        occurring, rows = sizes.occurring(found, number)
        codes = layout.codes(occurring)
        names = tuple(
            tuple(
                coded.texts[code - coded.first]
                for coded, code in zip(keys[number], line, strict=True)
                if coded.key is not None
            )
            for line in codes.tolist()
        )
        grouping = RowGrouping(
            coded_keys=parts, codes=codes, keys=names, rows=rows, cell_of=np.zeros(0, dtype=np.int32)
        )
        groupings.append(grouping)
        layouts.append(CellNumbers(layout=layout, occurring=occurring))
    cells = SignatureCells(layouts=tuple(layouts), layout_of=encoding.layout_of)
    order = np.lexsort(found["words"][::-1])
    words = found["words"][:, order]
    membership = counted.membership(
        groupings,
        [[1] * len(grouping.rows) for grouping in groupings],
        signatures=_locked(cells.table(words).T),
        counts=found["counts"][order],
        known=found["known_of"][order],
        occurring=occurring_values(engine, counted.rows, counted.subject, counted.row_counts),
        others=OtherSignatures(
            listed=np.zeros(order.size, dtype=np.intp),
            words=words,
            signatures=store.signatures,
            known_rows=int(found["known"][0]),
        ),
    )
    return StreamedTable(membership=membership, store=store, cells=cells, counted=counted)


def _locked(table: CellTable) -> CellTable:
    table.setflags(write=False)
    return table
