"""A plan with its table open: everything that an audit asks of an engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sightline.arrays import FloatArray, IndexArray
from sightline.auditing.findings import Keys
from sightline.auditing.known_sums import StreamedTotals
from sightline.auditing.lowering import LINEAR, linear_partitions
from sightline.auditing.plan import AssumptionName, Plan
from sightline.auditing.plan_sections import YesShare
from sightline.auditing.result_parts import TrueTotals
from sightline.auditing.stated_noise import as_published, steps_of
from sightline.auditing.table_units import signature_columns
from sightline.auditing.work import WorkLimits
from sightline.bounds.coin import CoinPrior
from sightline.errors import InvalidPlan, SightlineError, TooMuchWork, require_plan
from sightline.progress import report
from sightline.tables.collect import (
    CountedTable,
    collect,
    collect_counted,
    count_table,
    membership_of,
    with_release_name,
)
from sightline.tables.engines.address import IN_MEMORY_NAMES, own_names
from sightline.tables.engines.open import open_source
from sightline.tables.engines.protocol import BATCH, Engine, StoringEngine
from sightline.tables.joint_secrets import joint_query, parts_as_sql
from sightline.tables.membership import YES_OR_NO, Membership, Partition, PersonTable, RowValues
from sightline.tables.occurring import public_columns
from sightline.tables.other_secrets import check_other_secrets
from sightline.tables.persons import no_persons, person_table, range_of_means
from sightline.tables.presence import FRAME, check_columns_agree, presence_query, share_present
from sightline.tables.published import published, with_steps
from sightline.tables.records import (
    adds_up_alike,
    cell_totals,
    has_rows,
    keys_of_kinds,
    members_by_words,
    members_of,
    person_of,
    row_values,
    rows_behind,
    signature_totals,
    totals_of_persons,
    words_totals,
)
from sightline.tables.rounding import with_measured_rounding
from sightline.tables.rows import check_declared, check_made, check_public, make_data
from sightline.tables.sql.data_query import DataQuery, read_data_query
from sightline.tables.sql.reader import ReleaseQuery, read_condition, read_release
from sightline.tables.sql.scope import find_column
from sightline.tables.streamed import (
    StreamedTable,
    loaded,
    store_persons,
    store_table,
    streamed_table,
    why_not_streamed,
)
from sightline.tables.subject import UNBOUNDED, Schema, Subject
from sightline.tables.verify import verify
from sightline.units.sparse_row_solver import RouteCost, sparse_cost
from sightline.units.target import UnitPrior
from sightline.units.units import Units
from sightline.values import frozen

if TYPE_CHECKING:
    from sightline.tables.overlaps import Contributions


@frozen
class Session:
    """A checked plan, the engine that holds its table, and its releases as the reader understood them."""

    plan: Plan
    engine: Engine
    queries: tuple[ReleaseQuery, ...]
    limits: WorkLimits
    base: Path  # the folder that relative paths start from
    made: DataQuery  # how the rows of ``data`` are made
    once: list[CountedTable] = field(default_factory=list)  # the table, as it was first counted

    @property
    def subject(self) -> Subject:
        """What the audit is about."""
        return subject_of(self.plan)

    @property
    def counted(self) -> CountedTable:
        """The rows and records of the table, and the published cells: counted once for all attackers."""
        if not self.once:
            check_made(self.engine, self.made)
            self.once.append(count_table(self.engine, self.queries, self.subject))
        return self.once[0].against(self.engine, self.subject)

    def membership(self) -> Membership:
        """Who is in which cell, compared with what the engine itself makes of every release's SQL."""
        collected = collect_counted(self.engine, self.counted, check_size=self.limits.check_signatures)
        return self.with_persons(self.verified(collected))

    def verified(self, membership: Membership) -> Membership:
        """The membership after checks, and with what the engine itself makes of every release's SQL."""
        empty = [self.queries[place].name for place in membership.empty]
        if empty and AssumptionName.EMPTY not in self.plan.limits.accept:
            raise InvalidPlan(
                f"release {empty[0]!r}: expected rows that meet its conditions, got none; "
                'check the spelling of its constants, or say accept = ["empty"] in [limits]'
            )
        if empty and not membership.cells:
            raise InvalidPlan(
                "expected a release that aggregates rows, got none; of a plan that publishes nothing, "
                "nothing is shown"
            )
        assessed = LINEAR | YES_OR_NO
        cells = sum(membership.partitions[cell.partition].feature in assessed for cell in membership.cells)
        limits = self.limits.beside_engine if membership.streamed else self.limits
        limits.check_cells(cells, lambda: None if membership.streamed else _sparse_cost(membership))
        report("comparing with the engine's own groups", 0.0)
        unaudited = verify(self.engine, self.queries, membership)
        check_other_secrets(self.engine, self.queries, membership, self.subject)
        membership = with_measured_rounding(self.engine, self.queries, membership, self.subject)
        adds_up = self.made.adds_up and not adds_up_alike(self.engine)
        derived, explained = public_columns(self.engine, self.queries, self.subject, rows=membership.rows)
        declared = self.plan.data.public is not None  # then no release uses another
        return replace(
            membership,
            unaudited=unaudited,
            adds_up=adds_up,
            derived=tuple(str(one) for one in derived if not one.by_chance),
            explained=explained,
            alike_in_few_rows=tuple(str(one) for one in derived if one.by_chance and not declared),
            taken_as_public=tuple(
                sorted({name for query in self.queries * (not declared) for name in query.columns})
            ),
        ).of_the_rows_of(membership)

    def with_persons(self, membership: Membership) -> Membership:
        """The published numbers, with whose rows they are where records have several."""
        if membership.contributions <= 1:
            if membership.adds_up:
                behind = rows_behind(self.engine, self.counted)
                membership = replace(membership, rows_behind=behind).of_the_rows_of(membership)
            return self._measured(self._published(membership))
        report("finding whose rows they are", 0.0)
        persons = self.persons(membership, person_table)
        return self._measured(self._published(replace(membership, persons=persons)))

    def _measured(self, membership: Membership) -> Membership:
        """The numbers that get noise, which are all that is audited: derived ones are computed from them."""
        derived = {query for query, release in enumerate(self.plan.releases) if release.derived}
        if not derived:
            return membership
        partition, cells = membership.partitions, membership.cells
        gone = [place for place, cell in enumerate(cells) if partition[cell.partition].query in derived]
        return replace(published(membership, withheld=gone), with_derived=membership)

    def persons(self, membership: Membership, table: Callable[..., PersonTable]) -> PersonTable:
        """Whose rows they are, as the plan says that they are."""
        people = table(self.engine, self.counted, membership)
        if self.plan.data.values == "constant" and people.varying:
            raise InvalidPlan(
                '[data] values: expected one value in all rows of a record, as values = "constant" says, '
                f"got different ones for {people.varying:,} of {people.several:,} records with several rows"
            )
        if level := self.plan.data.level:
            low, high = range_of_means(self.engine, self.counted)
            require_plan(
                level[0] <= low and high <= level[1],
                f"[data] level: means of a record's rows from {level[0]:g} to {level[1]:g}",
                got="records whose mean lies outside",
                fix="an attacker cannot know what is not so; state a wider range, or none",
            )
        return people

    def _published(self, membership: Membership) -> Membership:
        """The numbers that are really published: also of steps that nobody is in."""
        steps = steps_of(self.plan, membership)
        return as_published(self.plan, with_steps(membership, steps) if steps else membership)

    def values(self) -> RowValues:
        """The secret of every row, which only the owner may see."""
        return row_values(self.engine, self.counted)

    def contributions(self) -> Contributions:
        """What each person adds to the sums over signatures, which only the owner may see."""
        from sightline.tables.overlaps import contributions  # rules alone need it

        return contributions(self.engine, self.counted)

    def totals(
        self, question: Partition | None = None, *, membership: Membership | None = None
    ) -> FloatArray:
        """Owner-only: the sum of the secrets that the attacker does not know, signature by signature.

        With a yes-or-no question about the secret, how many of them answer yes. A ``membership`` of this
        session may have the sums already.
        """
        if question is None and membership is not None and membership.sums.size:
            return membership.sums[:, None]
        return signature_totals(self.engine, self.counted, question=question)

    def true_totals(self, record: str | None) -> TrueTotals:
        """Owner-only: the totals of all records' rows, and that of one, given by its key."""
        totals = totals_of_persons(self.engine, self.counted, record)
        return TrueTotals(
            least=totals.least,
            most=totals.most,
            spread=totals.spread,
            record=None if totals.own is None else record,
            total=totals.own,
        )

    def keys(self, membership: Membership) -> Keys:
        """How to name the records of a membership."""

        def of_signatures(signatures: Sequence[int]) -> dict[int, tuple[str, ...]]:
            if membership.streamed:
                words = {place: tuple(membership.others.words[:, place].tolist()) for place in signatures}
                return members_by_words(self.engine, self.counted, words=words)
            return members_of(self.engine, self.counted, signature_ids=signatures)

        def of_kinds(kinds: Sequence[int]) -> dict[int, tuple[str, ...]]:
            number = membership.signature_number
            wanted = {
                kind: tuple(
                    (number(one), known, rows) for one, known, rows in membership.persons.entries(kind)
                )
                for kind in kinds
            }
            return keys_of_kinds(self.engine, self.counted, wanted)

        return Keys(of_signatures=of_signatures, of_kinds=of_kinds)

    def kinds_of(self, record: str, membership: Membership) -> list[int]:
        """The place of one record's kind in the table of persons; none if every record has one row."""
        if not membership.by_person:
            return []
        entries = person_of(self.engine, self.counted, record_key=record)
        return membership.persons.with_entries(entries) if entries else []

    def signatures_of(self, record: str) -> tuple[int, ...]:
        """The signatures of one record's rows that the attacker does not know."""
        require_plan(_is_unicode(record), "a key in Unicode", got="half of a surrogate pair in it")
        entries = person_of(self.engine, self.counted, record_key=record)
        if not entries:
            reason = (
                "whose rows have none; nothing that is published depends on it"
                if has_rows(self.engine, self.subject, record_key=record)
                else "which no row is about; check its spelling"
            )
            raise InvalidPlan(
                f"expected a {self.subject.record} that has a row with a secret, "
                f"got {record[:60]!r}, {reason}"
            )
        return tuple(signature for signature, known, _ in entries if not known)


def _is_unicode(text: str) -> bool:
    """Whether a text can be sent to an engine: Python reads bytes that are no UTF-8 as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_public_columns(plan: Plan, query: ReleaseQuery) -> None:
    """Refuse a release that uses a column as public which the plan does not declare so.

    A column that is added up or averaged is a measurement, as the secret is, and may tell it: it is never
    taken as public without being declared. Columns that group and choose rows are, and a pass names them.
    """
    if plan.data.public is None:
        require_plan(
            not query.summed,
            f"release {query.name!r}: sums and means of columns that [data] public lists",
            got=", ".join(f'"{name}"' for name in query.summed[:3]),
            fix="list all columns that everybody may know of everyone there (--public on the command line), "
            "and this one if it is; otherwise it is a secret, too: [[secret]]",
        )
        return
    declared = {name.casefold() for name in plan.data.public}
    strange = [name for name in query.columns if name.casefold() not in declared]
    require_plan(
        not strange,
        f"release {query.name!r}: columns that [data] public lists",
        got=", ".join(f'"{name}"' for name in strange[:3]),
        fix="add it if everybody may know it of everyone; otherwise it is a secret, too",
    )


def _check_knowledge(plan: Plan, query: ReleaseQuery) -> None:
    """Refuse releases that do not go with what the plan says that the attacker knows."""
    require_plan(
        plan.attacker.values_within is None or all(part.feature in LINEAR for part in query.partitions),
        "[attacker] values_within beside means, sums and counts",
        got=f"a moment or threshold in release {query.name!r}",
    )


def subject_of(plan: Plan) -> Subject:
    """What a plan's audit is about; its secret as the plan writes it."""
    data = plan.data
    return Subject(
        record=data.record,
        secret=data.secret,
        kind=data.secret_kind,
        bounds=data.bounds or UNBOUNDED,
        categories=data.categories,
        known=plan.attacker.conditions,
        known_share=plan.attacker.known_share,
        known_within=plan.attacker.values_within or math.inf,
        most_rows=data.max_rows_per_record or math.inf,
        blocks=data.blocks,
        parts=data.parts,
    )


def _made(plan: Plan, source: Schema, engine: Engine) -> DataQuery:
    """How ``data`` is made of the table: by ``[data] sql``, or it is the table without the other secrets."""
    data, others = plan.data, plan.other_secrets
    if data.presence:
        return presence_query(engine, record=data.record, framed=bool(data.frame))
    if data.sql:
        return read_data_query(data.sql, record=data.record, secret=data.secret, others=others, schema=source)
    try:
        hidden = [find_column(source.columns, name).name for name in others]
    except InvalidPlan as error:
        raise InvalidPlan(f"[secret] column: {error}") from None
    if data.parts:
        return joint_query(engine, secret=data.secret, parts=data.parts, hidden=hidden)
    return DataQuery(
        hidden=tuple(hidden), secrets=frozenset(name.casefold() for name in (data.secret, *others))
    )


@contextmanager
def opened(plan: Plan, base: Path, *, limits: WorkLimits | None = None) -> Iterator[Session]:
    """Open the plan's table and read its releases.

    Without ``limits``, memory is bounded by what is free. At the end the table must still be as it was, and
    is closed.
    """
    require_plan(
        all(not one.audited for one in plan.secrets),
        "a plan about one secret",
        got=f"{1 + sum(one.audited for one in plan.secrets)} of them",
        fix="an audit takes them one by one; otherwise leave the releases about the others out, and give "
        "their sections [[secret]] a column alone",
    )
    limits = limits or WorkLimits.of(None, None)
    tables = {**plan.data.tables, **({FRAME: plan.data.frame} if plan.data.frame else {})}
    engine = open_source(plan.data.source, base=base, tables=tables, memory=limits.engine_memory)
    limits.interrupts.append(engine.interrupt)
    try:
        subject, source = subject_of(plan), Schema.of(engine, list(tables))
        made = _made(plan, source, engine)
        if plan.data.frame and plan.attacker.prior == "uniform":
            yes = YesShare(share_present(engine, record=plan.data.record))
            plan = plan.model_copy(update={"attacker": plan.attacker.model_copy(update={"prior": yes})})
        make_data(engine, made)
        check_declared(engine, subject)
        named = own_names(plan.data.source) if isinstance(plan.data.source, str) else IN_MEMORY_NAMES
        schema = replace(
            source, columns=engine.columns(), source=(source,), made_by=made.normal, own_names=named
        )
        if plan.data.parts:
            schema = replace(schema, parts=parts_as_sql(schema.columns, subject))
        check_public(schema, made.secrets)
        for text in plan.attacker.conditions:
            read_condition(text, secret=subject.secret, schema=schema)
        queries = []
        for place, release in enumerate(plan.releases):
            report("reading the releases", place / len(plan.releases))
            try:
                query = read_release(release.sql, name=release.name, subject=subject, schema=schema)
                engine.compile_own(query.sql)
            except InvalidPlan as error:
                raise InvalidPlan(f"release {release.name!r}: {error}") from None
            _check_knowledge(plan, query)
            _check_public_columns(plan, query)
            if plan.data.frame:
                check_columns_agree(engine, record=plan.data.record, columns=query.columns)
            queries.append(query)
        yield Session(
            plan=plan,
            engine=engine,
            queries=tuple(queries),
            limits=limits,
            base=base,
            made=made,
        )
        engine.check_unchanged()
    except SightlineError:
        raise
    except Exception:
        engine.check_unchanged()  # rows that change between two queries can break any step
        raise
    finally:
        limits.interrupts.remove(engine.interrupt)
        engine.close()


def _sparse_cost(membership: Membership) -> RouteCost | None:
    """What sparse factors over the linear cells take; ``None`` where dense ones are taken, or without cells.

    Patterns of sparse factors are analysed, and nothing is factorised.
    """
    order = linear_partitions(membership)
    if not order or not len(membership.signatures):
        return None
    cells, widths = signature_columns(membership, order).cells, np.diff(membership.starts)[order]
    numbers = int(widths.sum())
    rows = np.where(cells >= 0, cells + np.cumsum(widths) - widths, numbers)
    units = Units.of_one_row(rows, numbers, np.ones(len(cells), dtype=np.intp))
    return sparse_cost(units, UnitPrior(target=CoinPrior()))


def table_of(session: Session) -> Membership | StreamedTable:
    """Who is in which cell, compared with what the engine itself makes of every release's SQL.

    A table whose signatures would not fit the memory allowed is streamed, if it can be.
    """
    counted = session.counted
    rows, several = counted.row_counts.present, counted.row_counts.contributions > 1
    if _fits(session, rows, counted, rows * several):
        return session.membership()
    reason = _why_not_streamed(session, counted)
    if reason:
        try:
            return session.membership()
        except TooMuchWork as error:
            raise TooMuchWork(f"{error}; the table is not streamed, because {reason}") from None
    assert isinstance(session.engine, StoringEngine)
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

    def of_signatures(places: IndexArray) -> FloatArray:
        words = [tuple(own) for own in membership.others.words[:, places].T.tolist()]
        return words_totals(session.engine, table.counted, words)

    return StreamedTotals(
        of_cells=lambda: cell_totals(session.engine, table.counted, table.cells),
        of_signatures=of_signatures,
        coarse=lambda: _coarse(session, membership),
    )


def _coarse(session: Session, membership: Membership) -> list[Membership]:
    """Who is in which cell of the releases with the fewest groups, if these have few signatures together."""
    groups = [0] * len(session.queries)
    for cell in membership.cells:
        groups[membership.partitions[cell.partition].query] += 1
    chosen: list[int] = []
    for query in sorted(range(len(groups)), key=lambda query: groups[query]):
        if math.prod(groups[one] + 1 for one in (*chosen, query)) <= BATCH and groups[query]:
            chosen.append(query)
    if not chosen:
        return []
    queries = [session.queries[query] for query in sorted(chosen)]
    collected = collect(session.engine, queries, session.subject)
    parts = tuple(replace(part, query=sorted(chosen)[part.query]) for part in collected.partitions)
    return [replace(collected, partitions=parts)]


def _fits(session: Session, signatures: int, counted: CountedTable, lines: int) -> bool:
    return session.limits.hold(signatures, len(counted.partitions), lines)


def _why_not_streamed(session: Session, counted: CountedTable) -> str:
    """Why all signatures must be in memory; nothing if they may stay in the engine."""
    if not isinstance(session.engine, StoringEngine):
        return "only DuckDB and Spark can, where releases aggregate the rows as they are"
    if any(one.withhold for one in session.plan.releases):
        return "numbers are withheld"
    if any(one.factored for one in session.plan.releases):
        return "numbers share their noise"
    if any(one.derived for one in session.plan.releases):
        return "releases are computed from the fit"
    return why_not_streamed(counted) or ""
