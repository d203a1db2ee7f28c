"""A plan with its table open: everything that an audit asks of an engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sightline.arrays import FloatArray
from sightline.auditing.expected_cost import sparse_cost
from sightline.auditing.findings import Keys
from sightline.auditing.lowering import LINEAR
from sightline.auditing.plan import AssumptionName, Data, Plan
from sightline.auditing.release_noise import check_key_columns
from sightline.auditing.withheld import as_published
from sightline.auditing.work import TimedEngine, WorkLimits
from sightline.errors import InvalidPlan, SightlineError, require
from sightline.progress import Progress, silent
from sightline.tables.bounded_rows import check_kept_rows, keep_rows, total_rows
from sightline.tables.collect import CountedTable, collect_counted, count_table
from sightline.tables.declared import check_declared, check_public
from sightline.tables.engines.open import open_source
from sightline.tables.engines.person_engine import PersonEngine
from sightline.tables.engines.protocol import Engine
from sightline.tables.membership import YES_OR_NO, Membership, Partition, RowValues
from sightline.tables.persons import keys_of_kinds, person_of, person_table
from sightline.tables.records import (
    has_rows,
    members_by_words,
    members_of,
    row_values,
    signature_of,
    signature_totals,
)
from sightline.tables.reshaped import leave_out, unpivot
from sightline.tables.secret_column import with_secret_column
from sightline.tables.sql.grammar import own_text
from sightline.tables.sql.person_values import read_person_values
from sightline.tables.sql.reader import ReleaseQuery, read_condition, read_release
from sightline.tables.subject import Schema, SecretExpression, Subject
from sightline.tables.suppressed import read_suppression, suppressed_cells
from sightline.tables.verify import verify


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Session:
    """A checked plan, the engine that holds its table, and its releases as the reader understood them."""

    plan: Plan
    engine: Engine
    queries: tuple[ReleaseQuery, ...]
    limits: WorkLimits
    rows: Engine  # the engine that holds the rows; ``engine`` may hold one value per record
    data: Data  # of the plan as it was given: ``plan`` may be about one value per record
    expression: SecretExpression | None = None  # that the secret is, if it is no column
    same_rows: tuple[str, ...] = ()  # queries to it that count differences, of which there must be none

    @property
    def subject(self) -> Subject:
        """What the audit is about."""
        return replace(subject_of(self.plan), expression=self.expression)

    def membership(self, progress: Progress) -> Membership:
        """Who is in which cell, compared with what the engine itself makes of every release's SQL."""
        return self.in_memory(self.counted(progress), progress)

    def in_memory(self, counted: CountedTable, progress: Progress) -> Membership:
        """The same of a table that was counted."""
        membership = collect_counted(
            self.engine, counted, progress=progress, check_size=self.limits.check_signatures
        )
        return self.with_persons(self.verified(membership, progress), progress)

    def counted(self, progress: Progress) -> CountedTable:
        """The rows and records of the table, and the cells that are published."""
        if self.plan.data.keep is not None:
            check_kept_rows(self.engine, self.subject, rows=self.plan.data.keep.rows)
        return count_table(self.engine, self.queries, self.subject, progress=progress)

    def verified(self, membership: Membership, progress: Progress) -> Membership:
        """The membership after checks, and with what the engine itself makes of every release's SQL."""
        empty = [self.queries[place].name for place in membership.empty]
        if empty and AssumptionName.EMPTY not in self.plan.limits.accept:
            raise InvalidPlan(
                f"release {empty[0]!r}: expected rows that meet its conditions, got none; "
                'check the spelling of its constants, or say accept = ["empty"] in [limits]'
            )
        assessed = LINEAR | YES_OR_NO
        cells = sum(membership.partitions[cell.partition].feature in assessed for cell in membership.cells)
        limits = self.limits if membership.others is None else self.limits.beside_engine
        limits.check_cells(
            cells,
            designs=1,
            sparse=lambda: sparse_cost(membership, progress) if membership.others is None else None,
        )
        progress("comparing with the engine's own groups", 0.0)
        for text in self.same_rows:
            if int(self.rows.fetch_own(text)["n"][0]):
                raise InvalidPlan(
                    "expected the subqueries of all releases to have the same lines, got others; "
                    "the engine reads one differently: write them in the same way"
                )
        unaudited = verify(self.engine, self.queries, self.subject, membership)
        return replace(membership, unaudited=unaudited)

    def with_persons(self, membership: Membership, progress: Progress) -> Membership:
        """The published numbers, with whose rows they are where records have several."""
        if membership.contributions <= 1:
            return self._published(membership)
        progress("finding whose rows they are", 0.0)
        people = person_table(self.engine, self.queries, self.subject, membership)
        if self.plan.data.values == "constant" and people.varying:
            raise InvalidPlan(
                '[data] values: expected one value in all rows of a record, as values = "constant" says, '
                f"got different ones for {people.varying:,} of {people.several:,} records with several rows"
            )
        return self._published(replace(membership, persons=people))

    def _published(self, membership: Membership) -> Membership:
        """The numbers that are really published."""
        suppressed = {}
        for place, release in enumerate(self.plan.releases):
            if release.suppress is not None:
                try:
                    suppressed[place] = suppressed_cells(
                        self.engine,
                        self.queries,
                        self.subject,
                        membership,
                        release=place,
                        condition=release.suppress,
                    )
                except InvalidPlan as error:
                    raise InvalidPlan(f"release {release.name!r}: {error}") from None
        return as_published(self.plan, membership, suppressed=suppressed)

    def as_written(self, plan: Plan) -> Plan:
        """A plan over the rows, as its author writes it."""
        return plan.model_copy(update={"data": self.data})

    def values(self) -> RowValues:
        """The secret of every row, which only the owner may see."""
        return row_values(self.engine, self.queries, self.subject)

    def totals(
        self, question: Partition | None = None, *, membership: Membership | None = None
    ) -> FloatArray:
        """Owner-only: the sum of the secrets that the attacker does not know, signature by signature.

        With a yes-or-no question about the secret, how many of them answer yes. A ``membership`` of this
        session may have the sums already.
        """
        if question is None and membership is not None and membership.sums is not None:
            return membership.sums[:, None]
        return signature_totals(self.engine, self.queries, self.subject, question=question)

    def keys(self, membership: Membership) -> Keys:
        """How to name the records of a membership."""

        def of_signatures(signatures: Sequence[int]) -> dict[int, tuple[str, ...]]:
            if membership.others is not None:
                words = {place: tuple(membership.others.words[:, place].tolist()) for place in signatures}
                return members_by_words(self.engine, self.queries, self.subject, words=words)
            return members_of(self.engine, self.queries, self.subject, signature_ids=signatures)

        def of_kinds(kinds: Sequence[int]) -> dict[int, tuple[str, ...]]:
            table = membership.persons
            wanted = {} if table is None else {kind: table.entries(kind) for kind in kinds}
            return keys_of_kinds(self.engine, self.queries, self.subject, wanted)

        return Keys(of_signatures=of_signatures, of_kinds=of_kinds)

    def kind_of(self, record: str, membership: Membership) -> int | None:
        """The place of one record's kind in the table of persons; none if every record has one row."""
        if membership.persons is None:
            return None
        entries = person_of(self.engine, self.queries, self.subject, record_key=record)
        return None if entries is None else membership.persons.place(entries)

    def signatures_of(self, record: str) -> tuple[int, ...]:
        """The signatures of one record's rows that the attacker does not know."""
        require(
            _is_unicode(record), "a key in Unicode", got="half of a surrogate pair in it", error=InvalidPlan
        )
        unknown = replace(self.subject, known=(), known_share=None)
        if not signature_of(self.engine, self.queries, unknown, record_key=record):
            reason = (
                "whose rows have none; nothing that is published depends on it"
                if has_rows(self.engine, self.subject, record_key=record)
                else "which no row is about; check its spelling"
            )
            raise InvalidPlan(
                f"expected a {self.subject.record} that has a row with a secret, "
                f"got {record[:60]!r}, {reason}"
            )
        return signature_of(self.engine, self.queries, self.subject, record_key=record)


def _is_unicode(text: str) -> bool:
    """Whether a text can be sent to an engine: Python reads bytes that are no UTF-8 as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_dialect(plan: Plan, engine: Engine) -> None:
    """Refuse a plan that is written for another engine: the same text could publish other numbers."""
    require(
        plan.data.dialect in (None, engine.dialect),
        f"[data] dialect to be that of its source, {engine.dialect}",
        got=plan.data.dialect,
        fix="audit the plan where its SQL runs",
        error=InvalidPlan,
    )


def _check_knowledge(plan: Plan, query: ReleaseQuery) -> None:
    """Refuse releases that do not go with what the plan says that the attacker knows."""
    require(
        plan.attacker.values_within is None or all(part.feature in LINEAR for part in query.partitions),
        "[attacker] values_within beside means, sums and counts",
        got=f"a moment or threshold in release {query.name!r}",
        error=InvalidPlan,
    )


def _about_values(plan: Plan, subject: Subject) -> Plan:
    """The plan about one value per record: its bounds, and how many lines a record has."""
    used = [name for name in ("keep", "total_by") if getattr(plan.data, name) is not None]
    require(
        not used,
        "contributions bounded once",
        got=f"[data] {', '.join(used)}, and a subquery that aggregates the rows of each record",
        fix="do both in the subquery",
        error=InvalidPlan,
    )
    require(
        plan.attacker.values_within is None,
        "[attacker] values_within for secrets that are published as they are",
        got="a subquery that aggregates the rows of each record",
        fix="what is known of a sum of rows is another number: leave values_within out",
        error=InvalidPlan,
    )
    rows = subject.most_rows or 1
    changed = {
        "secret": subject.secret,
        "bounds": subject.bounds,
        "max_rows_per_record": rows,
        "values": plan.data.values if rows > 1 else None,
    }
    return plan.model_copy(update={"data": plan.data.model_copy(update=changed)})


def _bound_contributions(engine: Engine, data: Data, subject: Subject) -> None:
    """Put the bounded table in the place of ``data``, if the plan bounds contributions."""
    if data.keep is not None:
        keep_rows(engine, subject, rows=data.keep.rows, order=data.keep.order)
    if data.total_by is not None:
        total_rows(engine, subject, by=data.total_by)


def _reshape(engine: Engine, plan: Plan) -> None:
    """Unpivot a secret in wide form, and leave other secrets out."""
    data = plan.data
    if data.wide is not None:
        unpivot(engine, data.wide.columns, name=data.wide.name, value=data.secret)
    if plan.other_secrets:
        leave_out(engine, plan.other_secrets)


def subject_of(plan: Plan) -> Subject:
    """What a plan's audit is about; its secret as the plan writes it."""
    data = plan.data
    return Subject(
        record=data.record,
        secret=data.secret,
        kind=data.secret_kind,
        bounds=data.bounds,
        categories=data.categories,
        bandwidth=data.bandwidth,
        known=plan.attacker.conditions,
        known_share=plan.attacker.known_share,
        known_within=plan.attacker.values_within,
        most_rows=data.contribution_limit,
    )


@contextmanager
def opened(
    plan: Plan, base: Path, *, limits: WorkLimits | None = None, progress: Progress = silent
) -> Iterator[Session]:
    """Open the plan's table and read its releases.

    Without ``limits``, memory is bounded by what is free. At the end the table must still be as it was, and
    is closed.
    """
    require(
        all(not one.audited for one in plan.secrets),
        "a plan about one secret",
        got=f"{1 + sum(one.audited for one in plan.secrets)} of them",
        fix="an audit takes them one by one; otherwise leave the releases about the others out, and give "
        "their sections [[secret]] a column alone",
        error=InvalidPlan,
    )
    limits = limits or WorkLimits.of(None, None)
    opened_engine = open_source(
        plan.data.source, base=base, tables=plan.data.tables, memory=limits.engine_memory
    )
    engine = TimedEngine(engine=opened_engine, limits=limits)
    try:
        _reshape(engine, plan)
        subject = with_secret_column(engine, subject_of(plan))
        check_declared(engine, subject)
        _bound_contributions(engine, plan.data, subject)
        schema = Schema.of(engine, list(plan.data.tables), expression=subject.expression)
        check_public(schema, subject, plan.other_secrets)
        _check_dialect(plan, engine)
        texts = [release.sql for release in plan.releases]
        values = read_person_values(
            [(release.name, release.sql) for release in plan.releases], subject=subject, schema=schema
        )
        audited = plan
        reader: Engine = engine
        if values is not None:
            audited = _about_values(plan, values.subject)
            reader = PersonEngine(engine=engine, sql=values.sql, schema=values.schema)
            subject, schema, texts = values.subject, values.schema, list(values.releases)
        for text in (*plan.attacker.conditions, *plan.attacker.may_know):
            read_condition(text, secret=subject.secret, schema=schema)
        queries = []
        for place, (release, sql) in enumerate(zip(plan.releases, texts, strict=True)):
            progress("reading the releases", place / len(plan.releases))
            try:
                query = read_release(sql, name=release.name, subject=subject, schema=schema)
                engine.compile_own(query.sql if values is None else own_text(release.sql, engine.dialect))
            except InvalidPlan as error:
                raise InvalidPlan(f"release {release.name!r}: {error}") from None
            _check_knowledge(plan, query)
            check_key_columns(release.name, release.noises, query)
            queries.append(query)
            if release.suppress is not None:
                try:
                    read_suppression(reader, query, subject, release.suppress)
                except InvalidPlan as error:
                    raise InvalidPlan(f"release {release.name!r}: {error}") from None
        yield Session(
            plan=audited,
            expression=subject.expression,
            engine=reader,
            queries=tuple(queries),
            limits=limits,
            rows=engine,
            data=plan.data,
            same_rows=() if values is None else values.checks,
        )
        engine.check_unchanged()
    except SightlineError:
        raise
    except Exception:
        engine.check_unchanged()  # rows that change between two queries can break any step
        raise
    finally:
        engine.close()
