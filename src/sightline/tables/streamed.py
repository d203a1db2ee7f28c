"""A table with more signatures than fit into memory: they stay in a store, and passes read what is asked.

The membership of such a table lists some signatures. At first it lists one for every set of partitions that
rows are in together: all that prices depend on. After a pass over all of them it lists those that are worth a
closer look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.errors import InvalidPlan, require
from sightline.tables.cells import WORD_BITS, PackedCodes, SignatureCells
from sightline.tables.collect import CountedTable, signature_query
from sightline.tables.engines.protocol import (
    PERSONS,
    SIGNATURES,
    Arrays,
    Engine,
    SignatureBatch,
    SignatureStore,
    StoringEngine,
)
from sightline.tables.membership import (
    Feature,
    Membership,
    OfRecords,
    OtherSignatures,
    PersonTable,
)
from sightline.tables.occurring import occurring as occurring_values
from sightline.tables.occurring import occurring_levels
from sightline.tables.persons import person_lines
from sightline.values import frozen


@frozen
class BatchTables:
    """A batch as a table: what is asked of all records in memory is asked of each batch. It can travel."""

    membership: Membership  # of no signature
    cells: SignatureCells

    def of(self, batch: SignatureBatch) -> tuple[Membership, PackedCodes]:
        """The membership of a batch's signatures and persons, and the words of its signatures."""
        words, counts, known, lines = batch.words, batch.counts, batch.known, batch.lines
        persons = self.membership.persons
        if lines is not None:
            first, place = in_order(words)
            order = np.lexsort((lines.known, place, lines.kind))
            kind = lines.kind[order]
            starts = np.flatnonzero(np.diff(kind, prepend=kind[:1] - 1))
            persons = replace(
                persons,
                starts=np.append(starts, kind.size),
                signatures=place[order],
                known=lines.known[order],
                rows=lines.rows[order],
                persons=lines.persons[order][starts],
                groups=lines.group[order][starts],
            )
            words, counts, known = words[:, first], counts[first], known[first]
        table = self.cells.table(words).T
        own = replace(self.membership, signatures=table, counts=counts, known=known, persons=persons)
        return own, words


def in_order(words: PackedCodes) -> tuple[IndexArray, IndexArray]:
    """The different signatures of some lines in order: a line of each, and the place of every line.

    >>> [found.tolist() for found in in_order(np.array([[5, 2, 5], [0, 9, 0]]))]
    [[1, 0], [1, 0, 1]]
    """
    order = np.lexsort(words[::-1])
    new = np.append(True, np.any(words[:, order[1:]] != words[:, order[:-1]], axis=0))[: order.size]
    place = np.empty(order.size, dtype=np.intp)
    place[order] = np.cumsum(new) - 1
    return order[new], place


@frozen
class StreamedTable:
    """A membership that lists a few signatures, and the stores that have all of them."""

    membership: Membership
    store: SignatureStore
    cells: SignatureCells
    counted: CountedTable
    persons: SignatureStore | None = None  # of all persons; none if nobody has several rows

    @property
    def batches(self) -> BatchTables:
        """How batches of records are read as tables."""
        none, table = np.zeros(0, dtype=np.int64), self.membership.signatures[:0]
        whole = replace(self.membership, signatures=table, counts=none, known=none, others=OtherSignatures())
        return BatchTables(membership=whole, cells=self.cells)

    @property
    def records(self) -> SignatureStore:
        """The store of what is asked about: signatures, or persons."""
        return self.store if self.persons is None else self.persons

    def close(self) -> None:
        """Give back what the stores hold."""
        self.store.close()
        if self.persons is not None:
            self.persons.close()

    def largest(self, of: OfRecords) -> FloatArray:
        """The largest of some numbers that are asked of records."""
        batches = self.batches
        largest = TablePass(batches=batches, of=lambda table: {"largest": of(table)}, merge=np.maximum)
        return self.records.run(largest, "reading every record")["largest"]

    def with_persons(self, store: SignatureStore, none: PersonTable) -> StreamedTable:
        """The same table with whose rows they are: a store of persons, and what is counted of all of them."""
        table = replace(self, membership=replace(self.membership, persons=none), persons=store)
        others = replace(self.membership.others, largest=table.largest)
        membership = replace(table.membership, others=others)
        return replace(table, membership=membership)

    def listing(self, found: Arrays, rows: Arrays) -> StreamedTable:
        """The same table with the records that a pass kept, and with the ``rows`` that another one did."""
        words = np.concatenate([found["words"], rows["words"]], axis=1)
        first, place = in_order(words)
        counts, known = (np.concatenate([found[name], rows[name]])[first] for name in ("counts", "known"))
        words, persons = words[:, first], self.membership.persons
        ranks = self.store.run(Ranks(words=words), "numbering the most exposed")
        others = replace(self.membership.others, listed=ranks["before"], words=words)
        if self.persons is not None:
            persons = replace(
                persons,
                starts=np.append(0, np.cumsum(found["sizes"])),
                signatures=place[: found["words"].shape[1]],
                known=found["line_known"],
                rows=found["line_rows"],
                persons=found["persons"],
            )
            owners = self.persons.run(Owners(words=words), "counting whose rows they are")
            others = replace(others, owners=owners["owners"])
        membership = replace(
            self.membership,
            signatures=self.cells.table(words).T,
            counts=counts,
            known=known,
            persons=persons,
            others=others,
        )
        return replace(self, membership=membership)


OfTable = Callable[[Membership], Arrays]


@frozen
class TablePass:
    """A pass that asks every batch the same as a table, and merges the arrays entry by entry."""

    batches: BatchTables
    of: OfTable
    merge: np.ufunc

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        return self.of(self.batches.of(batch)[0])

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        return {name: self.merge(first[name], second[name]) for name in first}


def why_not_streamed(counted: CountedTable) -> str | None:
    """Why a table has to be read into memory as a whole; none if it can be streamed."""
    reasons = {
        "the secret is a category": not counted.subject.kind.summed,
        "moments or thresholds are published": any(
            part.feature is not Feature.VALUE for part in counted.partitions
        ),
        "rows of a record may share a level in blocks": bool(counted.subject.blocks),
        "rows have weights": any(part.weighted for part in counted.partitions),
        "nothing that is published has groups or conditions": not counted.encoding.words,
        f"more than {WORD_BITS} conditions are published": sum(
            layout.conditional for layout in counted.sizes.layouts
        )
        > WORD_BITS,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def store_table(engine: StoringEngine, counted: CountedTable) -> SignatureStore:
    """The signatures of a table, kept by its engine."""
    query = signature_query(counted, in_order=False)
    return engine.store_signatures(query, columns=[*counted.names, *SIGNATURES])


def store_persons(engine: StoringEngine, counted: CountedTable) -> SignatureStore:
    """The signatures of every kind of person, kept by the engine of a table."""
    return engine.store_signatures(person_lines(counted), columns=[*counted.names, *PERSONS])


class Loading:
    """A pass that brings all signatures into memory."""

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        return {"words": batch.words, "counts": batch.counts, "known": batch.known}

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        return {name: np.concatenate([first[name], second[name]], axis=-1) for name in first}


def loaded(store: SignatureStore) -> tuple[PackedCodes, PackedCodes, PackedCodes]:
    """All signatures in the order of their words, where they turned out to be few."""
    columns = store.run(Loading(), "listing signatures")
    order = np.lexsort(columns["words"][::-1])
    return columns["words"][:, order], columns["counts"][order], columns["known"][order]


def streamed_table(engine: Engine, counted: CountedTable, store: SignatureStore) -> StreamedTable:
    """The cells of a table whose signatures are in a store."""
    columns = store.run(counted.sizes, "counting the rows of each cell")
    require(
        int(columns["rows"][0]) == counted.row_counts.present,
        f"signatures of {counted.row_counts.present:,} rows",
        got=f"those of {int(columns['rows'][0]):,}",
        fix="the table must not change while it is read: run it again, on a copy if it is written often",
        error=InvalidPlan,
    )
    cells, named = counted.cells(columns)
    order = np.lexsort(columns["words"][::-1])
    words = columns["words"][:, order]
    membership = counted.membership(
        named,
        signatures=cells.table(words).T,
        counts=columns["counts"][order],
        known=columns["known_of"][order],
        occurring=occurring_values(engine, counted.rows, counted.subject, counted.row_counts),
        levels=occurring_levels(engine, counted.rows, counted.subject, counted.row_counts),
        others=OtherSignatures(
            listed=np.zeros(order.size, dtype=np.intp),
            words=words,
            signatures=store.signatures,
            known_rows=int(columns["known"][0]),
        ),
    )
    return StreamedTable(membership=membership, store=store, cells=cells, counted=counted)


@frozen
class Ranks:
    """How many signatures come before each of some others in the order of their words."""

    words: PackedCodes  # (words × signatures), in order

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        # A signature of the batch comes before all that are larger: those after the ones up to it.
        place = np.searchsorted(self.words[0], batch.words[0], side="left")
        after = np.searchsorted(self.words[0], batch.words[0], side="right")
        tied = np.flatnonzero(after > place)
        if tied.size:
            place[tied] = _insertion(self.words, batch.words[:, tied])
        counts = np.bincount(place, minlength=self.words.shape[1] + 1)
        return {"before": np.cumsum(counts)[:-1]}

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        return {"before": first["before"] + second["before"]}


@frozen
class Owners:
    """How many persons have a row of each of some signatures that the attacker does not know."""

    words: PackedCodes  # (words × signatures), in order

    def of_batch(self, batch: SignatureBatch) -> Arrays:
        assert batch.lines is not None  # a pass over persons
        place = _insertion(self.words, batch.words) - 1
        listed = np.all(self.words[:, np.maximum(place, 0)] == batch.words, axis=0) & (place >= 0)
        own = listed & ~batch.lines.known
        owners = np.bincount(place[own], batch.lines.persons[own], self.words.shape[1])
        return {"owners": owners.astype(np.int64)}

    def merged(self, first: Arrays, second: Arrays) -> Arrays:
        return {"owners": first["owners"] + second["owners"]}


def _insertion(ordered: PackedCodes, words: PackedCodes) -> IndexArray:
    """For each of some signatures, how many of the ordered ones are up to it: at most as large."""
    size, many = words.shape[1], ordered.shape[1]
    both = np.concatenate([words, ordered], axis=1)
    own = np.repeat([1, 0], [size, many])  # of two equal ones, the ordered one counts first
    order = np.lexsort((own, *both[::-1]))
    place = np.empty(size + many, dtype=np.intp)
    place[order] = np.cumsum(own[order] == 0)
    return place[:size]
