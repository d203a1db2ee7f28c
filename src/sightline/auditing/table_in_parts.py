"""Whether a table's signatures are read into memory, or stay in the engine and are read in passes."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import replace

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.session import Session
from sightline.auditing.streamed_sums import StreamedTotals
from sightline.auditing.work import TimedEngine
from sightline.errors import InvalidPlan, TooMuchWork
from sightline.progress import report
from sightline.tables.collect import CountedTable, collect, membership_of, with_release_name
from sightline.tables.membership import Membership
from sightline.tables.persons import no_persons
from sightline.tables.records import cell_totals, words_totals
from sightline.tables.streamed import (
    StreamedTable,
    loaded,
    memory_in_arrays,
    store_persons,
    store_table,
    streamed_table,
    why_not_streamed,
)

_MOST_COARSE = 200_000  # signatures that the coarsest releases of a streamed table may have together


def table_of(session: Session) -> Membership | StreamedTable:
    """Who is in which cell, compared with what the engine itself makes of every release's SQL.

    A table whose signatures would not fit the memory allowed is streamed, if it can be.
    """
    counted = session.counted
    rows, several = counted.row_counts.present, counted.row_counts.contributions > 1
    if _fits(session, rows, counted, rows * several):
        return session.membership()
    reason = _why_not_streamed(session, counted)
    if reason is not None:
        try:
            return session.membership()
        except TooMuchWork as error:
            raise TooMuchWork(f"{error}; the table is not streamed, because {reason}") from None
    assert isinstance(session.engine, TimedEngine)
    report("listing signatures", 0.0)
    with ExitStack() as stack:  # what is stored is given back if anything fails
        try:
            store = store_table(session.engine, counted)
            stack.callback(store.close)
            persons = None
            fits = _fits(session, store.signatures, counted, rows * several)
            if several and not fits:  # persons may have as many lines as rows, or fewer
                report("finding whose rows they are", 0.0)
                persons = store_persons(session.engine, counted)
                stack.callback(persons.close)
                fits = _fits(session, store.signatures, counted, persons.signatures)
        except InvalidPlan as error:
            raise with_release_name(session.engine, counted.rows, session.queries, error) from None
        if fits:
            signatures = loaded(store)
            stack.close()
            membership = membership_of(session.engine, counted, signatures)
            return session.with_persons(session.verified(membership))
        table = streamed_table(session.engine, counted, store)
        table = replace(table, membership=session.verified(table.membership))
        if persons is not None:
            none = session.persons(table.membership, no_persons)
            table = table.with_persons(persons, none)
        stack.pop_all()
        return table


def streamed_totals(session: Session, table: StreamedTable, membership: Membership) -> StreamedTotals:
    """Owner-only: how to fetch sums of the secrets of a streamed table, of cells and listed signatures."""
    others = membership.others
    assert others is not None  # a streamed table has others

    def of_signatures(places: IndexArray) -> FloatArray:
        words = [tuple(own) for own in others.words[:, places].T.tolist()]
        return words_totals(session.engine, table.counted, words)

    return StreamedTotals(
        of_cells=lambda: cell_totals(session.engine, table.counted, table.cells),
        of_signatures=of_signatures,
        coarse=lambda: _coarse(session, membership),
    )


def _coarse(session: Session, membership: Membership) -> Membership | None:
    """Who is in which cell of the releases with the fewest groups, if these have few signatures together."""
    groups = [0] * len(session.queries)
    for cell in membership.cells:
        groups[membership.partitions[cell.partition].query] += 1
    chosen: list[int] = []
    for query in sorted(range(len(groups)), key=lambda query: groups[query]):
        if math.prod(groups[one] + 1 for one in (*chosen, query)) <= _MOST_COARSE and groups[query]:
            chosen.append(query)
    if len(chosen) < 1:
        return None
    queries = [session.queries[query] for query in sorted(chosen)]
    found = collect(session.engine, queries, session.subject)
    parts = tuple(replace(part, query=sorted(chosen)[part.query]) for part in found.partitions)
    return replace(found, partitions=parts)


def _fits(session: Session, signatures: int, counted: CountedTable, lines: int) -> bool:
    return memory_in_arrays(signatures, len(counted.partitions), lines) <= session.limits.memory


def _why_not_streamed(session: Session, counted: CountedTable) -> str | None:
    """Why all signatures must be in memory; none if they may stay in the engine."""
    if not isinstance(session.engine, TimedEngine) or not session.engine.storing:
        return "only DuckDB and Spark can, where releases aggregate the rows as they are"
    if any(one.withhold for one in session.plan.releases):
        return "numbers are withheld"
    if any(one.factored for one in session.plan.releases):
        return "numbers share their noise"
    return why_not_streamed(counted)
